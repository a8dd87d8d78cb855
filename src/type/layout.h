/* layout: how a tensor lies between kernels: its dimensions in another order, some of them in
 * blocks, with room around it. The tensor is then a plain one of other dimensions, its room filled
 * with one number; NULL is as it is.
 */
#ifndef TENON_TYPE_LAYOUT_H
#define TENON_TYPE_LAYOUT_H

#include "type/type.h"

typedef struct Layout {
    Format format; /* of the tensor with its room around it */
    uint8_t rank;
    /* elements of room on each side of a dimension */
    int64_t before[TN_MAX_RANK], after[TN_MAX_RANK];
    /* what stands in the room, and where a block goes on behind the end */
    double fill;
} Layout;

/* "nhwc", "nchw16c": blocks of 16 innermost; "nhwc+h1w1": an element of room on both sides, "+h0:2"
 * behind alone. The same of any rank: "0,2,3,1", "0,1/16,2,3,1%16", "0,2,3,1+2:1,3:1". False: it is
 * none of this rank. */
bool layout_read(Arena *a, const char *text, uint32_t rank, Layout *l);
/* NULL: the plain one; without its fill */
void layout_print(Text *t, uint32_t rank, const Layout *l);
/* of dimensions 0, 1, …; NULL: a rank without customary ones */
const char *order_letters(uint32_t rank);

const Layout *layout_of_order(Arena *a, uint32_t rank, const uint8_t *order);
bool layout_is_order(const Layout *l); /* nothing else? */
bool layout_is_plain(const Layout *l);
bool layout_same(const Layout *a, const Layout *b);
/* Is each dimension of a tensor of this rank cut into its parts, once each? */
bool format_tiles(const Format *f, uint32_t rank);

/* Dimension d of t with its room; what it is where it lies. */
const Expr *layout_padded(Ctx *c, const Layout *l, const Type *t, uint32_t d);
const Type *layout_type(Ctx *c, const Layout *l, const Type *t);
/* Is there room before or behind dimension d, or does its block perhaps go on behind its end? */
bool layout_has_room(Ctx *c, const Layout *l, const Type *t, uint32_t d);
/* Where the element at an index [rank] lies, [format.npart]. */
void layout_index(Ctx *c, const Layout *l, const Expr *const *at, const Expr **to);

#endif
