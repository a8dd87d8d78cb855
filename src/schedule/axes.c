/* axes: extents of a nest's axes; and axes that are contiguous for all reads and writes, which
 * become one. */
#include "schedule/internal.h"

const Expr *
low_extent(Low *l, uint32_t axis)
{
    return low_expr(l, l->n->axis[axis].extent);
}

const Expr *
axes_product(Low *l, const uint32_t *axis, uint32_t n)
{
    const Expr *p = expr_int(l->c, 1);
    for (uint32_t i = 0; i < n; i++)
        p = expr_mul(l->c, p, low_extent(l, axis[i]));
    return p;
}

typedef struct {
    Low *l;
    uint32_t outer, inner;
    bool ok;
} Collapse;

/* Only direct reads: indices computed from data are reads of their own. */
static bool
uses_axis(const Expr *e, uint32_t axis)
{
    return expr_uses(e, (Var){ VAR_AXIS, axis });
}

/* Offsets may use both axes only as coef * (extent(inner) * outer + inner). */
static void
check_offset(Collapse *k, const Expr *outer_stride, const Expr *inner_stride)
{
    Low *l = k->l;
    if (!outer_stride || !inner_stride ||
        expr_eq(l->c, NULL, outer_stride, expr_mul(l->c, inner_stride, low_extent(l, k->inner))) !=
            YES)
        k->ok = false;
}

static void
check_node(Collapse *k, const Scalar *s)
{
    if (s->op == S_INDEX || s->op == S_AT)
        k->ok = !uses_axis(s->u.index, k->outer) && !uses_axis(s->u.index, k->inner);
    if (s->op != S_LOAD)
        return;
    bool uses = false;
    for (uint32_t d = 0; d < s->u.load.rank; d++) {
        bool here = uses_axis(s->u.load.at[d], k->outer) || uses_axis(s->u.load.at[d], k->inner);
        uses |= here;
        if (here && (s->u.load.outside || expr_uses_kind(s->u.load.at[d], VAR_COMPUTED)))
            k->ok = false;
    }
    if (uses && k->ok)
        check_offset(k, low_stride(k->l, s, k->outer), low_stride(k->l, s, k->inner));
}

bool
low_collapses(Low *l, uint32_t outer, uint32_t inner, const Scalar *const *value, uint32_t nvalue,
              const Write *w)
{
    Collapse k = { l, outer, inner, true };
    const Axis *o = &l->n->axis[outer], *i = &l->n->axis[inner];

    if (o->kind != i->kind || o->kind == AXIS_SCAN || expr_axes(i->extent) || expr_axes(o->extent))
        return false;
    for (uint32_t v = 0; v < nvalue; v++)
        FOR_EACH_SCALAR (s, scalar_nodes(l->c, value[v]))
            if (k.ok)
                check_node(&k, s);
    if (w && k.ok) {
        /* The write as a read of the output: the same offsets. */
        const NestParam *p = &l->n->param[w->out];
        const Scalar *as_load =
            scalar_load(l->c, p->type->dtype, w->out, p->type->rank, w->at, NULL);
        check_node(&k, as_load);
    }
    return k.ok;
}
