/* scalar_map: rebuilds scalar DAGs, and substitutes in them.
 *
 * Every walk remembers its finished nodes, so its cost is the number of distinct nodes. Values of
 * computed variables belong to the DAG: a walk that forgot them would leave an index reading the
 * wrong tensor after a substitution.
 */
#include "nest/internal.h"
#include "nest/walk.h"

#include <assert.h>

/* A placeholder for a computed variable while a hook sees an Expr. Scalars are aligned, so an odd
 * address is no Scalar's. */
static Var
stand_in(Var v)
{
    return (Var){ VAR_COMPUTED, v.id | 1 };
}

const Expr *
scalar_map_expr(ScalarMap *m, const Expr *e)
{
    if (!e)
        return NULL;
    if (!expr_uses_kind(e, VAR_COMPUTED))
        return m->expr ? m->expr(m, e) : e;

    /* not on the stack: this recurses */
    uint32_t most = expr_count_vars(e), n = 0;
    Var *list = NEW_ARRAY(m->done.arena, Var, most), *end = expr_list_vars(e, list);
    Binding *hide = NEW_ARRAY(m->done.arena, Binding, most),
            *show = NEW_ARRAY(m->done.arena, Binding, most);
    for (const Var *v = list; v < end; v++) {
        if (v->kind != VAR_COMPUTED || v->id & 1)
            continue;
        const Scalar *value = scalar_map(m, computed_scalar(*v));
        hide[n] = (Binding){ *v, expr_var(m->ctx, stand_in(*v)) };
        show[n++] = (Binding){ stand_in(*v), expr_computed(m->ctx, value) };
    }
    const Expr *hidden = expr_subst(m->ctx, e, hide, n);
    return expr_subst(m->ctx, m->expr ? m->expr(m, hidden) : hidden, show, n);
}

static const Scalar *
map_load(ScalarMap *m, const Scalar *s)
{
    uint32_t rank = s->u.load.rank;
    const Expr *at[6], **index = at;
    if (rank > sizeof at / sizeof *at)
        index = NEW_ARRAY(m->done.arena, const Expr *, rank);
    for (uint32_t d = 0; d < rank; d++)
        index[d] = scalar_map_expr(m, s->u.load.at[d]);
    const Scalar *load;
    if (s->lanes == 1)
        load = scalar_load(m->ctx, s->dtype, s->u.load.slot, rank, index,
                           scalar_map(m, s->u.load.outside));
    else
        load = scalar_load_lanes(m->ctx, s->dtype, s->u.load.slot, rank, index, s->lanes,
                                 scalar_map_expr(m, s->u.load.lane_stride),
                                 scalar_map_expr(m, s->u.load.valid));
    return m->load ? m->load(m, load) : load;
}

static const Scalar *
map_node(ScalarMap *m, const Scalar *s)
{
    const Scalar *few[4], **arg = few;
    if (s->narg > sizeof few / sizeof *few) /* lanes; this recurses, so a frame is small */
        arg = NEW_ARRAY(m->done.arena, const Scalar *, s->narg);
    for (uint32_t i = 0; i < s->narg; i++)
        arg[i] = scalar_map(m, s->arg[i]);
    switch (s->op) {
    case S_CONST:
    case S_IOTA: return s;
    case S_INDEX: return scalar_index(m->ctx, scalar_map_expr(m, s->u.index));
    case S_LOAD: return map_load(m, s);
    case S_CAST: return scalar_cast(m->ctx, s->dtype, arg[0]);
    case S_AT: return scalar_at(m->ctx, arg[0], scalar_map_expr(m, s->u.index));
    case S_REDUCE: {
        AxisSet axes = m->axes ? m->axes(m, s->u.reduce.axes) : s->u.reduce.axes;
        return scalar_reduce(m->ctx, s->u.reduce.combiner, axes, arg, s->narg);
    }
    case S_ITEM: return scalar_item(m->ctx, arg[0], s->u.item);
    case S_SPLAT: return scalar_splat(m->ctx, arg[0], s->lanes);
    case S_LANES: return scalar_lanes(m->ctx, arg, s->lanes);
    case S_EVENS:
    case S_ODDS: return scalar_blocks(m->ctx, s->op == S_ODDS, arg[0], arg[1], s->u.block);
    case S_HSUM: return scalar_hreduce(m->ctx, COMB_SUM, arg[0]);
    case S_HMAX: return scalar_hreduce(m->ctx, COMB_MAX, arg[0]);
    case S_HMIN: return scalar_hreduce(m->ctx, COMB_MIN, arg[0]);
    case S_HPROD: return scalar_hreduce(m->ctx, COMB_PROD, arg[0]);
    default: return scalar_op(m->ctx, s->op, arg);
    }
}

const Scalar *
scalar_map(ScalarMap *m, const Scalar *s)
{
    uint64_t known;
    if (!s)
        return NULL;
    if (map_get(&m->done, MAP_PTR(s), &known))
        return (const Scalar *)(uintptr_t)known;
    const Scalar *to = map_node(m, s);
    if (m->node && to)
        to = m->node(m, to);
    map_put(&m->done, MAP_PTR(s), MAP_PTR(to));
    return to;
}

const Scalar *
scalar_replace(Ctx *c, const Scalar *s, const Scalar *node, const Scalar *by)
{
    Arena *scratch = arena_child(c->arena);
    ScalarMap m = { .ctx = c, .done = { .arena = scratch } };

    map_put(&m.done, MAP_PTR(node), MAP_PTR(by));
    s = scalar_map(&m, s);
    arena_free(scratch);
    return s;
}

const Expr *
bindings_apply(ScalarMap *m, const Expr *e)
{
    const Bindings *b = m->user;
    return expr_subst(m->ctx, e, b->at, b->n);
}

AxisSet
bindings_axes(ScalarMap *m, AxisSet axes)
{
    const Bindings *b = m->user;
    AxisSet to = axes;

    for (uint32_t k = 0; k < b->n; k++)
        to &= ~axis_one((uint32_t)b->at[k].var.id);
    for (uint32_t k = 0; k < b->n; k++)
        if (axes >> b->at[k].var.id & 1)
            to |= expr_axes(b->at[k].to);
    return to;
}

const Scalar *
scalar_subst(Ctx *c, const Scalar *s, const Binding *b, uint32_t n)
{
    if (!s)
        return NULL;
    bool touched = false;
    for (uint32_t i = 0; i < n; i++)
        touched = touched || scalar_uses(s, b[i].var);
    if (!touched)
        return s;
    Arena *scratch = arena_child(c->arena);
    Bindings bindings = { b, n };
    ScalarMap m = {
        .expr = bindings_apply, .user = &bindings, .ctx = c, .done = { .arena = scratch }
    };
    const Scalar *to = scalar_map(&m, s);
    arena_free(scratch);
    return to;
}
