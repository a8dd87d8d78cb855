/* layout: nests and kernels whose parameters lie otherwise than they say (type/layout.h): order,
 * blocks and room, in access maps.
 */
#ifndef TENON_NEST_LAYOUT_H
#define TENON_NEST_LAYOUT_H

#include "nest/kernel.h"
#include "type/layout.h"

/* Parameter `slot` lies so: its type has the dimensions that are in memory, reads and writes index
 * those. What reads beyond the tensor finds the room where that says the same. Who writes it fills
 * its room. NULL, quietly, where a dimension that is written in blocks or with room is not written
 * along one axis of its own. */
const Nest *nest_lay(Ctx *c, const Nest *n, uint32_t slot, const Layout *l);
/* A kernel, not scheduled yet, whose arguments lie so: layout [nin + nout], NULL: as it is. What
 * lies between its parts lies as the output does, where that is an order that leaves the axes which
 * they share in place. NULL, quietly, as above, or where a dimension that all parts share is to be
 * in blocks or to have room. */
Kernel *kernel_lay(Ctx *c, Arena *a, const Kernel *k, const Layout *const *layout);

#endif
