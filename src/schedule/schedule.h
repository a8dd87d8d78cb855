/* schedule: a group becomes a loop tree.
 *
 * A schedule is a program (program.h): a few steps over named loops. Writers list the programs that
 * may be good for a kernel, by what its nests are, never by where they come from; each is carried
 * out and priced, and the cheapest is taken. Who carries a program out (points) decides nothing, so
 * a program can be read, kept, edited and given back.
 */
#ifndef TENON_SCHEDULE_H
#define TENON_SCHEDULE_H

#include "machine/machine.h"
#include "kernel/kernel.h"
#include "schedule/program.h"

typedef enum { SCHEDULE_BEST, SCHEDULE_PLAIN } ScheduleLevel;

typedef struct {
    const char *program;
    /* its price: the mean of what a call takes of one core alone, and of all cores at it */
    double seconds;
    double alone;    /* predicted of a call on one core */
    double straight; /* operations of the longest code without a loop in it */
    uint32_t number; /* in the order they were written */
} Choice;

typedef struct {
    uint32_t n;
    /* the cheapest first, of many samples where a product's rows are nothing else */
    Choice *at;
    /* what was written and could not be carried out, and why; NULL: all could */
    const char *refused;
} Choices;

/* constant [nin]: which inputs are known now, and may lie as a program wants; NULL: none. far: all
 * constants of the model are more than the last cache keeps from call to call. like: a program
 * whose constants lie as those of some choice are to, or NULL: of parts that have programs by
 * themselves each is the cheapest that does. There is always one. */
Choices schedule_choices(Ctx *c, Arena *a, const Kernel *k, const Machine *m, const bool *constant,
                         bool far, const char *like);
/* Do two programs lay the same constants, and as the same formats? */
bool schedule_lays_alike(const char *program, const char *other);

/* The price of a kernel's program, which must fit, at sizes in the middle of what a guard says,
 * those of a variant are its own guard's; and of symbols that it says nothing of, the mean over the
 * sizes that users expect. far [nin]: what comes from memory in every call, or NULL. Negative: it
 * does not fit. */
Choice schedule_price(Ctx *c, Arena *a, const Kernel *k, const Machine *m, const char *program,
                      const SizeGuard *where, const bool *far, const char **why);
/* What parts beside each other save, for each but the first, at most [seconds]. */
double schedule_beside(const Machine *m);

/* Fill k->tree by a program, and its buffers' formats. False: `why` names the step, what it needs
 * and what would do. */
bool schedule_build(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Program *program,
                    const char **why);
bool schedule_build_text(Ctx *c, Arena *a, Kernel *k, const Machine *m, const char *text,
                         const char **why);

/* The order in which a program adds up, as text (sums.c). Programs of a kernel and of its variants
 * with equal texts give the same bits. k: a copy, which gets formats. False, NULL: the program does
 * not fit. */
bool schedule_sums(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Program *program, Text *t);
const char *schedule_sums_text(Ctx *c, Arena *a, const Kernel *k, const Machine *m,
                               const char *program);

/* How many kernels a program makes of k: each part is one where they stand beside each other and
 * have steps by themselves; else 1. */
uint32_t schedule_pieces(const Kernel *k, const Program *program);
/* One of several: k, a copy, becomes part i by its steps, a kernel of its own over the same
 * buffers. */
bool schedule_build_part(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Program *program,
                         uint32_t i, const char **why);

/* The formats that k->schedule wants the kernel's inputs in, [nin]; NULL: it has none. */
const Format *const *schedule_formats(Ctx *c, Arena *a, const Kernel *k);
/* Fills k->tree by k->schedule, or by the cheapest choice without constants where there is none.
 * False with a diagnostic where a nest has no compiled form yet. */
bool schedule_kernel(Ctx *c, Arena *a, Kernel *k, const Machine *m, ScheduleLevel level);

#endif
