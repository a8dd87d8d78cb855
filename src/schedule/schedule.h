/* schedule: a group becomes a loop tree. Three templates, chosen by what the nests are, never by
 * where they come from: contraction, reduction, elementwise; and plain loops, which take anything
 * and are the reference the other three are tested against.
 */
#ifndef TENON_SCHEDULE_H
#define TENON_SCHEDULE_H

#include "machine/machine.h"
#include "nest/kernel.h"

typedef enum { SCHEDULE_BEST, SCHEDULE_PLAIN } ScheduleLevel;
/* Fills k->tree. False with a diagnostic where a nest has no compiled form yet. */
bool schedule_kernel(Ctx *c, Arena *a, Kernel *k, const Machine *m, ScheduleLevel level);

/* How a contraction's operands are cut: shared with `format`, which lays constants out accordingly. */
typedef struct {
    RegisterTile tile;
    const Format *a_packed;      /* format of the row operand [rows/R, sums…, R], when it is a bare read of a tensor whose dimensions are
                                  * each one axis; else NULL */
    const Format *b_packed;      /* of the column operand [cols/C, sums…, C], likewise */
    uint32_t a_slot, b_slot;     /* the nest's inputs read by the operands (when bare reads) */
} ContractionCut;
bool schedule_contraction_cut(Ctx *c, const Nest *n, const Machine *m, ContractionCut *out);

#endif
