/* format: a memory format for every tensor between groups. Constants that are an operand of a
 * contraction lie packed in register tiles from the start; everything else is plain.
 */
#ifndef TENON_FORMAT_H
#define TENON_FORMAT_H
#include "graph/graph.h"
#include "machine/machine.h"
/* Sets Value.format of g's values and Buffer.format of its kernels. `wish` says how a nest's operands
 * would best lie (schedule_operand_formats; the two stages meet in `driver`). A constant that two
 * kernels want in different formats is duplicated as a value. */
typedef bool FormatWish(Ctx *c, const Nest *n, const Machine *m, OperandFormats *out);
void format_choose(Graph *g, const Machine *m, FormatWish *wish);
#endif
