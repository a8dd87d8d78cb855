/* support: queries of nests and kernels, and runs of loop trees, that only tests need. */
#ifndef TENON_TESTS_SUPPORT_H
#define TENON_TESTS_SUPPORT_H

#include "cost/cost.h"
#include "kernel/kernel.h"
#include "nest/nest.h"
#include "ref/ref.h"

/* Writes all queries as text, one per line, for golden tests. */
void nest_describe(Ctx *c, Text *t, const Nest *n);

/* The tree that runs at given sizes: the first variant whose guard holds, or k. size: false if a
 * symbol has none. */
const Kernel *kernel_for_sizes(const Kernel *k,
                               bool (*size)(const void *user, Sym symbol, int64_t *value),
                               const void *user);
/* kernel_check; a violation is an internal error. */
bool kernel_verify(Ctx *c, const Kernel *k);
/* "12.3 us: flops 10.1, chain 0.2, …": one line, without a newline. */
void cost_print(Text *t, const Cost *cost);

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
