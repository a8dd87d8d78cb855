/* schedule: a group becomes a loop tree.
 *
 * A schedule is a program (program.h): a few steps over named loops. Writers list candidate
 * programs for a kernel by the properties of its nests; each is carried out and priced, and the
 * cheapest is taken. Carrying a program out (points) makes no decision, so a program can be read,
 * kept, edited and given back.
 */
#ifndef TENON_SCHEDULE_H
#define TENON_SCHEDULE_H

#include "machine/machine.h"
#include "kernel/kernel.h"
#include "schedule/program.h"

typedef enum { SCHEDULE_BEST, SCHEDULE_PLAIN } ScheduleLevel;

typedef struct {
    const char *program;
    /* its price: the mean over a call on one core, and on all cores */
    double seconds;
    double alone;    /* predicted time of a call on one core */
    double straight; /* operations of the longest code without a loop */
    uint32_t number; /* in the order of the writers */
} Choice;

typedef struct {
    uint32_t n;
    /* cheapest first; for batches if samples are a GEMM's only rows */
    Choice *at;
    /* candidates that could not be carried out, and why; NULL: none */
    const char *refused;
} Choices;

/* constant [nin]: inputs known now, which may be packed as a program wants; NULL: none. far: the
 * model's constants exceed the last cache, so they come from memory in every call. like: list only
 * programs with this one's constant layouts (for separate parts, the cheapest such program of
 * each); NULL: any. Never empty. */
Choices schedule_choices(Ctx *c, Arena *a, const Kernel *k, const Machine *m, const bool *constant,
                         bool far, const char *like);
/* Do two programs pack the same constants in the same formats? */
bool schedule_lays_alike(const char *program, const char *other);

/* The price of a program, which must be applicable, at the middle of a guard's bounds (of a
 * variant, its own guard's); for other symbols, the mean over their size hints. far [nin]: inputs
 * that come from memory in every call, or NULL. Negative: not applicable. */
Choice schedule_price(Ctx *c, Arena *a, const Kernel *k, const Machine *m, const char *program,
                      const SizeGuard *where, const bool *far, const char **why);

/* Fill k->tree by a program, and its buffers' formats. False: `why` names the step, what it needs
 * and what to do. */
bool schedule_build(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Program *program,
                    const char **why);
bool schedule_build_text(Ctx *c, Arena *a, Kernel *k, const Machine *m, const char *text,
                         const char **why);

/* The order in which a program adds up, as text (summation_order.c). Programs of a kernel and of
 * its variants with equal texts give the same bits. k: a copy, which gets formats. False, NULL: the
 * program does not fit. */
bool schedule_sums(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Program *program, Text *t);
const char *schedule_sums_text(Ctx *c, Arena *a, const Kernel *k, const Machine *m,
                               const char *program);

/* The number of kernels that a program makes of k: one for each part if parts are separate and have
 * steps of their own; otherwise 1. */
uint32_t schedule_pieces(const Kernel *k, const Program *program);
/* One of several: k, a copy, becomes part i by its steps, a kernel of its own over the same
 * buffers. */
bool schedule_build_part(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Program *program,
                         uint32_t i, const char **why);

/* The formats in which k->schedule wants the kernel's inputs, [nin]; NULL: none. */
const Format *const *schedule_formats(Ctx *c, Arena *a, const Kernel *k);
/* Fills k->tree by k->schedule, or by the cheapest candidate without constants if there is none.
 * False with a diagnostic: a nest has no compiled form yet. */
bool schedule_kernel(Ctx *c, Arena *a, Kernel *k, const Machine *m, ScheduleLevel level);

#endif
