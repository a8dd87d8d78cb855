/* concat: concatenations, and what a nest appends to an input that it begins with.
 *
 *     o[i, k, l] = k < p ? x[i, k, l] : v(k)
 *
 * is x followed by w[i, k, l] = v(k + p). If x is in its place at the front of the output's memory
 * already, only w must be computed.
 *
 * Also recognises a nest that only concatenates its inputs along one dimension: it is not needed if
 * they are all in their places.
 */
#include "algebra/internal.h"

/* Is each dimension d indexed by axis d, and does the nest have no other axes? */
static bool
is_bare(const Nest *n, uint32_t rank, const Expr *const *at)
{
    for (uint32_t d = 0; d < rank; d++)
        if (!(axis_bit(at[d]) & nest_axes_of_kind(n, AXIS_PARALLEL)))
            return false;
    return true;
}

/* For a condition k < p: the dimension that k runs along, or the rank. */
static uint32_t
dim_of_test(Ctx *c, const Nest *n, const Scalar *test, const Expr **end)
{
    const Write *w = &n->write[0];
    uint32_t rank = n->param[w->out].type->rank, d = 0;

    if (test->op != S_LT || test->arg[0]->op != S_INDEX)
        return rank;
    if (test->arg[1]->op != S_INDEX && test->arg[1]->op != S_CONST)
        return rank;
    *end = test->arg[1]->op == S_INDEX ? test->arg[1]->u.index : expr_int(c, test->arg[1]->u.bits);
    while (d < rank && w->at[d] != test->arg[0]->u.index)
        d++;
    return d;
}

const Nest *
nest_appended(Ctx *c, const Nest *n, uint32_t slot, uint32_t *dim)
{
    const Write *w = &n->write[0];
    const Type *x = n->param[slot].type, *o = n->param[w->out].type;
    const Expr *end = NULL;

    if (n->nwrite != 1 || n->nout != 1 || w->combiner != COMB_NONE || x->rank != o->rank ||
        !is_bare(n, o->rank, w->at) || w->value->op != S_SELECT)
        return NULL;
    const Scalar *first = w->value->arg[1], *rest = w->value->arg[2];
    uint32_t d = dim_of_test(c, n, w->value->arg[0], &end);
    if (d == o->rank || first->op != S_LOAD || first->u.load.slot != slot)
        return NULL;
    if (expr_eq(c, NULL, end, x->dim[d]) != YES || expr_le(c, NULL, end, o->dim[d]) != YES)
        return NULL;
    for (uint32_t k = 0; k < o->rank; k++)
        if (first->u.load.at[k] != w->at[k] ||
            (k != d && expr_eq(c, NULL, x->dim[k], o->dim[k]) != YES))
            return NULL;
    Var axis;
    expr_is_var(w->at[d], &axis);
    Binding shift = { axis, expr_add(c, w->at[d], end) };
    NestEdit e = nest_edit(c, n, 0, 0);
    const Expr *size[TN_MAX_RANK];
    for (uint32_t k = 0; k < o->rank; k++)
        size[k] = k == d ? expr_simplify(c, NULL, expr_sub(c, o->dim[k], end)) : o->dim[k];
    e.param[w->out].type = type_new(c, o->dtype, o->rank, size);
    e.axis[axis.id].extent = size[d];
    e.write[0].value = scalar_subst(c, rest, &shift, 1);
    *dim = d;
    return nest_edit_done(c, &e);
}

/* ---- side by side ---------------------------------------------------------------------------- */

typedef struct {
    Ctx *c;
    const Nest *n;
    uint32_t dim, *slot, count;
} ConcatCheck;

/* From some index of the dimension to another, is the value an input of that extent? */
static bool
is_piece(ConcatCheck *b, const Scalar *value, const Expr *from, const Expr *to)
{
    const Write *w = &b->n->write[0];
    const Type *o = b->n->param[w->out].type;
    uint32_t slot = value->op == S_LOAD ? value->u.load.slot : b->n->nin;

    if (slot >= b->n->nin || value->u.load.outside || b->n->param[slot].type->rank != o->rank ||
        b->count == b->n->nin)
        return false;
    for (uint32_t i = 0; i < b->count; i++)
        if (b->slot[i] == slot)
            return false;
    const Type *x = b->n->param[slot].type;
    for (uint32_t d = 0; d < o->rank; d++) {
        const Expr *at = d == b->dim ? expr_sub(b->c, w->at[d], from) : w->at[d],
                   *size = d == b->dim ? expr_sub(b->c, to, from) : o->dim[d];
        if (expr_eq(b->c, NULL, value->u.load.at[d], at) != YES ||
            expr_eq(b->c, NULL, x->dim[d], size) != YES)
            return false;
    }
    b->slot[b->count++] = slot;
    return true;
}

static bool
are_pieces(ConcatCheck *b, const Scalar *value, const Expr *from, const Expr *to)
{
    uint32_t rank = b->n->param[b->n->write[0].out].type->rank;
    const Expr *end;

    if (value->op != S_SELECT)
        return b->dim < rank && is_piece(b, value, from, to);
    uint32_t d = dim_of_test(b->c, b->n, value->arg[0], &end);
    if (d == rank || (b->dim < rank && b->dim != d))
        return false;
    if (b->dim == rank)
        to = b->n->param[b->n->write[0].out].type->dim[d];
    b->dim = d;
    return are_pieces(b, value->arg[1], from, end) && are_pieces(b, value->arg[2], end, to);
}

bool
nest_is_concat(Ctx *c, const Nest *n, uint32_t *dim, uint32_t *slot)
{
    const Write *w = &n->write[0];

    if (n->nwrite != 1 || n->nout != 1 || w->combiner != COMB_NONE ||
        !is_bare(n, n->param[w->out].type->rank, w->at))
        return false;
    ConcatCheck b = { c, n, n->param[w->out].type->rank, slot, 0 };
    bool all = are_pieces(&b, w->value, expr_int(c, 0), NULL) && b.count == n->nin;
    *dim = b.dim;
    return all;
}
