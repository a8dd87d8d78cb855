/* support: what tests ask of nests and kernels, and the compiler itself does not. */
#ifndef TENON_TESTS_SUPPORT_H
#define TENON_TESTS_SUPPORT_H

#include "kernel/kernel.h"
#include "nest/nest.h"

/* Write all queries as text, one line each: what golden tests compare. */
void nest_describe(Ctx *c, Text *t, const Nest *n);

#define KERNEL_PROVE_STEPS 400000000 /* named limit: addresses computed */
typedef struct {
    Sym symbol;
    int64_t value;
} KernelSize;
/* Does the loop tree, at these sizes of its symbols, stay inside its buffers and write every
 * element of its outputs once? NULL: it does; else the first place where it does not, or what could
 * not be told. */
const char *kernel_prove(Ctx *c, Arena *a, const Kernel *k, const KernelSize *size, uint32_t nsize);

#endif
