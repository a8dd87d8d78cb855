/* prelude: what emitted kernels need beyond C. */
