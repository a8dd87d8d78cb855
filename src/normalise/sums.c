/* sums: each matrix multiplication of a nest becomes a nest of its own.
 *
 *     o[i, j] = (sum k: a[i, k] * u[k, j]) + (sum k: b[i, k] * w[k, j])
 *
 * becomes p[i, j] = sum k: a[i, k] * u[k, j] and o[i, j] = p[i, j] + (sum k: b[i, k] * w[k, j]).
 * Later stages recognise a contraction if it is the only reduction of a nest, and fusion makes the
 * rest its epilogue.
 */
#include "normalise/normalise.h"

#include "nest/walk.h"

static uint32_t
count_reductions(Ctx *c, const Scalar *value)
{
    uint32_t count = 0;

    FOR_EACH_SCALAR (s, scalar_nodes(c, value))
        count += s->op == S_REDUCE;
    return count;
}

/* Is s a sum of floats that neither contains nor is within another reduction? */
static bool
is_sum_apart(Ctx *c, const Nest *n, const Scalar *s)
{
    return s->op == S_REDUCE && s->u.reduce.combiner == COMB_SUM && s->narg == 1 &&
           dtype_is_float(s->dtype) && !count_reductions(c, s->arg[0]) &&
           !(s->axes & nest_axes_of_kind(n, AXIS_REDUCE));
}

/* A nest over these axes of n, whose inputs are n's and one of type `more`, if not NULL. */
typedef struct {
    NestBuilder b;
    Binding bind[NEST_MAX_AXES];
    uint32_t nbind, more;
} Making;

static Making
begin(Ctx *c, const Nest *n, const char *name, AxisSet axes, const Type *more)
{
    Making m = { .b = nest_begin(c, name) };

    for (uint32_t i = 0; i < n->nin; i++)
        nest_in(&m.b, n->param[i].name, n->param[i].type);
    if (more)
        m.more = nest_in(&m.b, "product", more);
    for (uint32_t k = 0; k < n->naxis; k++) {
        const Axis *x = &n->axis[k];
        if (axes >> k & 1)
            m.bind[m.nbind++] =
                (Binding){ { VAR_AXIS, k }, nest_axis(&m.b, x->name, x->kind, x->extent) };
    }
    return m;
}

static const Expr *
axis_in(Ctx *c, const Making *m, uint32_t axis)
{
    return expr_subst(c, expr_axis(c, axis), m->bind, m->nbind);
}

/* p = the sum, along the output axes that it varies with. */
static const Nest *
sum_alone(Ctx *c, Arena *a, const Nest *n, const Scalar *sum, AxisSet own, const Type *t)
{
    const char *name = arena_printf(c->arena, "%s_product", n->name ? n->name : "sum");
    Making m = begin(c, n, name, own | sum->u.reduce.axes, NULL);
    const Expr *at[TN_MAX_RANK];
    uint32_t out = nest_out(&m.b, "p", t), rank = 0;
    Bindings all = { m.bind, m.nbind };
    ScalarMap map = { .expr = bindings_apply,
                      .axes = bindings_axes,
                      .user = &all,
                      .ctx = c,
                      .done = { .arena = a } };

    for (uint32_t k = 0; k < n->naxis; k++)
        if (own >> k & 1)
            at[rank++] = axis_in(c, &m, k);
    nest_write(&m.b, out, at, scalar_map(&map, sum));
    return nest_finish(&m.b);
}

/* n, reading p in place of the sum. */
static const Nest *
without_sum(Ctx *c, Arena *a, const Nest *n, const Scalar *sum, AxisSet own, const Type *t)
{
    const Write *w = &n->write[0];
    const Expr *at[TN_MAX_RANK];
    AxisSet axes = nest_axes_of_kind(n, AXIS_PARALLEL);
    uint32_t rank = 0;

    FOR_EACH_SCALAR (s, scalar_nodes(c, w->value))
        axes |= s->op == S_REDUCE && s != sum ? s->u.reduce.axes : 0;
    Making m = begin(c, n, n->name, axes, t);
    uint32_t out = nest_out(&m.b, n->param[n->nin].name, n->param[n->nin].type);
    for (uint32_t k = 0; k < n->naxis; k++)
        if (own >> k & 1)
            at[rank++] = axis_in(c, &m, k);
    Bindings bind = { m.bind, m.nbind };
    ScalarMap map = { .expr = bindings_apply,
                      .axes = bindings_axes,
                      .user = &bind,
                      .ctx = c,
                      .done = { .arena = a } };
    map_put(&map.done, MAP_PTR(sum), MAP_PTR(nest_load(&m.b, m.more, at)));
    const Scalar *value = scalar_map(&map, w->value);
    for (uint32_t d = 0; d < n->param[n->nin].type->rank; d++)
        at[d] = expr_subst(c, w->at[d], m.bind, m.nbind);
    nest_write(&m.b, out, at, value);
    return nest_finish(&m.b);
}

/* Is it a matrix multiplication by itself? */
static bool
multiplies(Ctx *c, const Nest *n)
{
    Contraction view;

    return n && nest_contraction(c, n, &view) && view.row && view.col;
}

static bool
may_split(const Nest *n)
{
    for (uint32_t k = 0; k < n->naxis; k++)
        if (n->axis[k].kind == AXIS_SCAN || axis_varies(&n->axis[k]))
            return false;
    return n->nwrite == 1 && n->nout == 1 && n->write[0].combiner == COMB_NONE;
}

/* A matrix multiplication of n that is not its only reduction: *made; *rest reads it after n's
 * inputs. */
static bool
take_apart(Ctx *c, Arena *a, const Nest *n, const Nest **made, const Nest **rest)
{
    if (!may_split(n) || count_reductions(c, n->write[0].value) < 2)
        return false;
    FOR_EACH_SCALAR (sum, scalar_nodes(c, n->write[0].value)) {
        if (!is_sum_apart(c, n, sum))
            continue;
        AxisSet own = sum->axes & nest_axes_of_kind(n, AXIS_PARALLEL);
        const Expr *dim[TN_MAX_RANK];
        uint32_t rank = 0;
        if (__builtin_popcountll(own) > TN_MAX_RANK)
            continue;
        for (uint32_t k = 0; k < n->naxis; k++)
            if (own >> k & 1)
                dim[rank++] = n->axis[k].extent;
        const Type *t = type_new(c, sum->dtype, rank, dim);
        *made = sum_alone(c, a, n, sum, own, t);
        if (multiplies(c, *made) && (*rest = without_sum(c, a, n, sum, own, t)))
            return true;
    }
    return false;
}

static bool
call(Graph *to, const Node *n, const Nest *nest, const ValueId *value, ValueId out)
{
    bool *keep = NEW_ARRAY(to->arena, bool, nest->nin);
    ValueId *in = NEW_ARRAY(to->arena, ValueId, nest->nin);
    const Nest *used = nest_drop_unused(to->ctx, nest, keep);
    uint32_t nin = 0;

    for (uint32_t i = 0; i < nest->nin; i++)
        if (keep[i])
            in[nin++] = value[i];
    if (used)
        graph_call_nest(to, used, n->loc, n->origin, in, &out);
    return used != NULL;
}

/* The node, after `made` was taken out; `rest` is left. */
static bool
split_node(Graph *to, const Graph *from, const Node *node, ValueId *map, Arena *scratch,
           const Nest *made, const Nest *rest)
{
    const Nest *n = node->nest;
    VEC(ValueId) value = { 0 };
    ValueId old = node_out(from, node, 0);
    bool ok = true;

    for (uint32_t i = 0; i < n->nin; i++)
        VEC_PUSH(to->arena, &value, map[node_in(from, node, i)]);
    do {
        Sym name = sym_printf(to->ctx, "%s.product", from->value.at[old].name);
        ValueId v = graph_value(to, name, made->param[made->nin].type);
        ok = call(to, node, made, value.at, v);
        VEC_PUSH(to->arena, &value, v);
        n = rest;
    } while (ok && take_apart(to->ctx, scratch, n, &made, &rest));
    if (ok) {
        map[old] = graph_copy_value(to, from, old);
        ok = call(to, node, n, value.at, map[old]);
    }
    return ok;
}

Graph *
normalise_sums(const Graph *g)
{
    Arena *scratch = arena_child(g->arena);
    const Nest *made, *rest;
    ValueId *map;
    Graph *to = graph_rebuild(g, &map);
    bool ok = true;

    for (NodeId id = 1; id < g->node.n && ok; id++) {
        const Node *n = &g->node.at[id];
        if (n->callee == CALL_NEST && take_apart(g->ctx, scratch, n->nest, &made, &rest))
            ok = split_node(to, g, n, map, scratch, made, rest);
        else
            graph_copy_node(to, g, id, map);
    }
    if (ok)
        graph_finish(to, g, map);
    arena_free(scratch);
    return ok ? to : NULL;
}
