/* region: the required region of a tensor for a box of points, by interval arithmetic on the
 * indices.
 *
 * Exact for sums of axes with coefficients, which indices nearly always are; otherwise a box that
 * contains the region. An index computed from data has no region.
 */
#include "nest/walk.h"

typedef struct {
    const Expr *lo, *hi;
} Box; /* inclusive; NULL: unknown */
/* data: numbers from data that are single in the box are looked up */
typedef struct {
    Ctx *ctx;
    uint32_t naxis;
    const Expr *const *lo, *const *width;
    bool data;
} BoxQuery;

static Box box_of(const BoxQuery *g, const Expr *e);

/* A number from data, if the box has one point along all axes that it varies with. */
static Box
data_box(const BoxQuery *g, Var v)
{
    const Scalar *s = computed_scalar(v);
    Binding bind[NEST_MAX_AXES];
    uint32_t n = 0;

    for (uint32_t x = 0; x < g->naxis; x++) {
        if (!(s->axes >> x & 1))
            continue;
        if (!expr_is(g->width[x], 1))
            return (Box){ NULL, NULL };
        bind[n++] = (Binding){ { VAR_AXIS, x }, g->lo[x] };
    }
    const Expr *here = expr_computed(g->ctx, scalar_subst(g->ctx, s, bind, n));
    return (Box){ here, here };
}

static Box
atom_box(const BoxQuery *g, const Atom *m)
{
    Ctx *c = g->ctx;
    const Expr *zero = expr_int(c, 0);
    int64_t s;

    switch (m->kind) {
    case ATOM_VAR:
        if (m->var.kind == VAR_COMPUTED)
            return g->data ? data_box(g, m->var) : (Box){ NULL, NULL };
        if (m->var.kind == VAR_AXIS && m->var.id < g->naxis) {
            const Expr *lo = g->lo[m->var.id];
            return (Box){ lo, expr_offset(c, expr_add(c, lo, g->width[m->var.id]), -1) };
        }
        return (Box){ expr_var(c, m->var), expr_var(c, m->var) };
    case ATOM_DIV:
    case ATOM_MOD: {
        Box a = box_of(g, m->arg[0]);
        if (!a.lo || expr_axes(m->arg[1]) || expr_uses_kind(m->arg[1], VAR_COMPUTED))
            return (Box){ NULL, NULL };
        if (a.lo == a.hi && m->kind == ATOM_MOD)
            return (Box){ expr_mod(c, a.lo, m->arg[1]), expr_mod(c, a.lo, m->arg[1]) };
        if (expr_const(m->arg[1], &s) && s < 1)
            return (Box){ NULL, NULL };
        if (m->kind == ATOM_DIV)
            return (Box){ expr_div(c, a.lo, m->arg[1]), expr_div(c, a.hi, m->arg[1]) };
        return (Box){ zero, expr_offset(c, m->arg[1], -1) };
    }
    case ATOM_MIN:
    case ATOM_MAX:
    case ATOM_BROADCAST: {
        Box all = box_of(g, m->arg[0]);
        for (uint32_t i = 1; i < m->narg && all.lo; i++) {
            Box b = box_of(g, m->arg[i]);
            if (!b.lo)
                return b;
            all.lo = expr_apply(c, m->kind, 2, (const Expr *[]){ all.lo, b.lo });
            all.hi = expr_apply(c, m->kind, 2, (const Expr *[]){ all.hi, b.hi });
        }
        return all;
    }
    }
    return (Box){ NULL, NULL };
}

/* Symbols are never negative, so a product with at most one varying factor keeps its order. */
static Box
term_box(const BoxQuery *g, const Term *t)
{
    Ctx *c = g->ctx;
    Box box = { expr_int(c, t->coef), expr_int(c, t->coef) };
    bool varies = false;

    for (uint32_t f = 0; f < t->nfactor; f++)
        for (uint32_t p = 0; p < t->factor[f].power; p++) {
            Box b = atom_box(g, t->factor[f].atom);
            if (!b.lo || (varies && b.lo != b.hi))
                return (Box){ NULL, NULL };
            if (b.lo != b.hi && !varies) {
                varies = true;
                box = (Box){ expr_mul(c, box.lo, b.lo), expr_mul(c, box.lo, b.hi) };
            } else {
                box = (Box){ expr_mul(c, box.lo, b.lo), expr_mul(c, box.hi, b.lo) };
            }
        }
    return t->coef < 0 ? (Box){ box.hi, box.lo } : box;
}

static Box
box_of(const BoxQuery *g, const Expr *e)
{
    Box sum = { expr_int(g->ctx, 0), expr_int(g->ctx, 0) };

    for (uint32_t i = 0; i < e->nterm; i++) {
        Box b = term_box(g, &e->term[i]);
        if (!b.lo)
            return b;
        sum = (Box){ expr_add(g->ctx, sum.lo, b.lo), expr_add(g->ctx, sum.hi, b.hi) };
    }
    return sum;
}

void
access_region(Ctx *c, const Access *a, uint32_t naxis, const Expr *const *lo,
              const Expr *const *width, const Expr **out_lo, const Expr **out_width)
{
    BoxQuery g = { c, naxis, lo, width, false };

    for (uint32_t d = 0; d < a->load->u.load.rank; d++) {
        Box b = box_of(&g, a->load->u.load.at[d]);
        out_lo[d] = b.lo;
        out_width[d] = b.lo ? expr_offset(c, expr_sub(c, b.hi, b.lo), 1) : NULL;
    }
}

bool
expr_region(Ctx *c, const Expr *e, uint32_t naxis, const Expr *const *lo, const Expr *const *width,
            const Expr **least, const Expr **most)
{
    BoxQuery g = { c, naxis, lo, width, true };
    Box b = box_of(&g, e);

    *least = b.lo;
    *most = b.hi;
    return b.lo != NULL;
}
