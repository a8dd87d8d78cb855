/* schedule: a group becomes a loop tree. Three templates, chosen by what the nests are, never by
 * where they come from: contraction, reduction, elementwise; and plain loops, which take anything
 * and are the reference the other three are tested against.
 */
#ifndef TENON_SCHEDULE_H
#define TENON_SCHEDULE_H

#include "machine/machine.h"
#include "nest/kernel.h"
#include "schedule/program.h"

typedef enum { SCHEDULE_BEST, SCHEDULE_PLAIN } ScheduleLevel;
/* Fills k->tree. False with a diagnostic where a nest has no compiled form yet. */
bool schedule_kernel(Ctx *c, Arena *a, Kernel *k, const Machine *m, ScheduleLevel level);

/* Fill k->tree by a program. False: `why` names the step, what it needs and what would do. */
bool schedule_build(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Program *program, const char **why);

/* How the operands of a contraction are best laid out as constants: what `format` asks before kernels
 * are scheduled. [rows / R, sums…, rows % R] for the row operand, [columns / C, sums…, columns % C] for
 * the column operand, where it is a bare read whose dimensions are each one axis. False: not a contraction. */
bool schedule_operand_formats(Ctx *c, const Nest *n, const Machine *m, OperandFormats *out);

#endif
