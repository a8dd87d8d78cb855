/* layout: how an intermediate tensor is stored: its dimensions in another order, some of them
 * blocked, with a border around it. The stored tensor is a plain one of other dimensions; NULL: as
 * the model says. */
#ifndef TENON_TYPE_LAYOUT_H
#define TENON_TYPE_LAYOUT_H

#include "type/type.h"

typedef struct Layout {
    Format format; /* of the tensor with its border */
    uint8_t rank;
    /* elements of border on each side of a dimension */
    int64_t before[TN_MAX_RANK], after[TN_MAX_RANK];
    /* the value of the border, and of a partial block's rest */
    double fill;
} Layout;

/* "nhwc"; "nchw16c": blocks of 16 innermost; "nhwc+h1w1": a border of one element on both sides,
 * "+h0:2" only behind. For any rank: "0,2,3,1", "0,1/16,2,3,1%16", "0,2,3,1+2:1,3:1". False: not a
 * layout of this rank. */
bool layout_read(Arena *a, const char *text, uint32_t rank, Layout *l);
/* NULL: the plain one; without its fill */
void layout_print(Text *t, uint32_t rank, const Layout *l);
/* of dimensions 0, 1, …; NULL: no customary letters */
const char *order_letters(uint32_t rank);

const Layout *layout_of_order(Arena *a, uint32_t rank, const uint8_t *order);
bool layout_is_order(const Layout *l); /* only an order of dimensions? */
bool layout_is_plain(const Layout *l);
bool layout_same(const Layout *a, const Layout *b);
/* Do the parts of each dimension of a tensor of this rank tile it? */
bool format_tiles(const Format *f, uint32_t rank);

/* Dimension d of t with its border, as stored. */
const Expr *layout_padded(Ctx *c, const Layout *l, const Type *t, uint32_t d);
const Type *layout_type(Ctx *c, const Layout *l, const Type *t);
/* Has dimension d a border, or may its last block be partial? */
bool layout_has_room(Ctx *c, const Layout *l, const Type *t, uint32_t d);
/* The stored position of the element at an index [rank], [format.npart]. */
void layout_index(Ctx *c, const Layout *l, const Expr *const *at, const Expr **to);

#endif
