/* support: queries of nests and kernels, and runs of loop trees, that only tests need. */
#ifndef TENON_TESTS_SUPPORT_H
#define TENON_TESTS_SUPPORT_H

#include "kernel/kernel.h"
#include "nest/nest.h"
#include "ref/ref.h"

/* Writes all queries as text, one per line, for golden tests. */
void nest_describe(Ctx *c, Text *t, const Nest *n);

#define KERNEL_PROVE_STEPS 400000000 /* limit: addresses computed */
typedef struct {
    Sym symbol;
    int64_t value;
} KernelSize;
/* Does the loop tree, at these sizes of its symbols, stay inside of its buffers and write every
 * element of its outputs once? NULL: it does; otherwise the first violation, or what could not be
 * decided. */
const char *kernel_prove(Ctx *c, Arena *a, const Kernel *k, const KernelSize *size, uint32_t nsize);

/* Runs the kernel's tree, or that of the variant for these sizes. Arguments must be in their
 * buffers' formats. */
bool ref_tree(Ctx *c, Arena *a, const Kernel *k, const Symbols *s, Tensor *const *arg);

#endif
