/* control: nodes that run graphs, nodes that define symbols, and walks over all graphs of a model.
 */
#include "graph/internal.h"

/* ---- building -------------------------------------------------------------------------------- */

NodeId
graph_call_region(Graph *g, const Node *from, uint32_t nin, const ValueId *in, uint32_t nout,
                  const ValueId *out)
{
    Node n = *from;

    n.region = n.nregion ? arena_copy(g->arena, from->region, n.nregion * sizeof *n.region) : NULL;
    n.fresh = n.nfresh ? arena_copy(g->arena, from->fresh, n.nfresh * sizeof *n.fresh) : NULL;
    for (uint32_t i = 0; i < n.nregion; i++)
        if (n.region[i].nbind)
            n.region[i].bind =
                arena_copy(g->arena, from->region[i].bind, n.region[i].nbind * sizeof(Binding));
    NodeId id = graph_add_node(g, n, nin, in, nout, out);
    if (n.callee == CALL_MATCH && out[0]) {
        const Expr **at = NEW_ARRAY(g->arena, const Expr *, n.nfresh + 1);
        for (uint32_t i = 0; i < n.nfresh; i++)
            at[i] = expr_symbol(g->ctx, n.fresh[i].name);
        g->value.at[out[0]].known = (Known){ n.nfresh, at };
    }
    return id;
}

ValueId
graph_match(Graph *g, ValueId v, const char *like, const Expr *const *most, Loc loc, Sym origin)
{
    Ctx *c = g->ctx;
    const Type *t = g->value.at[v].type;
    int64_t n;
    Var symbol;

    if (t->rank > 1 || !expr_const(type_count(c, t), &n) || n > OP_KNOWN_MAX)
        return diag_error(
            &c->diags, DIAG_UNSUPPORTED, loc,
            "%%%s is %s; a list of sizes needs rank 1 and a constant length, at most %d",
            g->value.at[v].name, type_str(c, t), OP_KNOWN_MAX);
    Node node = { .callee = CALL_MATCH,
                  .loc = loc,
                  .origin = origin,
                  .nfresh = (uint32_t)n,
                  .fresh = NEW_ARRAY(g->arena, NewSymbol, n + 1) };
    for (uint32_t i = 0; i < n; i++) {
        expr_is_var(expr_fresh_symbol(c, like), &symbol);
        node.fresh[i] = (NewSymbol){ (Sym)(uintptr_t)symbol.id, most ? most[i] : NULL };
        if (node.fresh[i].most)
            expr_symbol_range(c, symbol,
                              (Interval){ 0, expr_bounds(c, NULL, node.fresh[i].most).hi });
    }
    ValueId out = graph_value(g, like, t);
    graph_call_region(g, &node, 1, &v, 1, &out);
    return out;
}

const Expr *
inner_symbol(Graph *inner, InnerSizes *s, const char *like, const Expr *e)
{
    Ctx *c = inner->ctx;
    const Expr *fresh = expr_fresh_symbol(c, like);
    Binding b = { .to = e }, back = { .to = fresh };

    expr_is_var(fresh, &b.var);
    VEC_PUSH(inner->arena, &s->bind, b);
    if (expr_is_var(e, &back.var)) {
        VEC_PUSH(inner->arena, &s->back, back);
        expr_symbol_range(c, b.var, expr_symbol_get(c, back.var));
    }
    return fresh;
}

const Expr *
inner_size(Graph *inner, InnerSizes *s, const Expr *e)
{
    for (Sym outer; (outer = unbound_symbol(&s->back, e));)
        inner_symbol(inner, s, outer, expr_symbol(inner->ctx, outer));
    return expr_subst(inner->ctx, e, s->back.at, s->back.n);
}

const Type *
inner_type(Graph *inner, InnerSizes *s, const Type *t)
{
    for (uint32_t d = 0; d < t->rank; d++)
        inner_size(inner, s, t->dim[d]);
    return type_subst(inner->ctx, t, s->back.at, s->back.n);
}

Known
graph_known_inside(Ctx *c, Arena *a, Known outside, const Region *r)
{
    const Expr **at = outside.at ? NEW_ARRAY(a, const Expr *, outside.n + 1) : NULL;
    BoundSizes back = { 0 };
    bool all = at != NULL;
    Var v;

    for (uint32_t i = 0; i < r->nbind; i++)
        if (expr_is_var(r->bind[i].to, &v))
            VEC_PUSH(a, &back, ((Binding){ v, expr_var(c, r->bind[i].var) }));
    for (uint32_t i = 0; all && i < outside.n; i++) {
        all = !unbound_symbol(&back, outside.at[i]);
        at[i] = expr_subst(c, outside.at[i], back.at, back.n);
    }
    return all ? (Known){ outside.n, at } : (Known){ 0 };
}

/* ---- symbols --------------------------------------------------------------------------------- */

uint32_t
node_fresh(const Node *n, const Expr *dim)
{
    Var v;

    for (uint32_t i = 0; i < n->nfresh && expr_is_var(dim, &v); i++)
        if (MAP_PTR(n->fresh[i].name) == v.id)
            return i;
    return UINT32_MAX;
}

/* Results may be sized by what the node itself defines. A CALL_BLOCKS is the only node of its
 * graph: any expression of it may size its results. */
static void
result_symbols(SymbolSet *s, const Node *n, const Type *t)
{
    for (uint32_t d = 0; t && d < t->rank && n->callee != CALL_BLOCKS; d++)
        if (node_fresh(n, t->dim[d]) == UINT32_MAX)
            expr_symbols(s, t->dim[d]);
}

void
graph_symbols(SymbolSet *s, const Graph *g, NodeId id)
{
    const Node *n = &g->node.at[id];

    for (uint32_t i = 0; i < n->in.count; i++)
        type_symbols(s, g->value.at[node_in(g, n, i)].type);
    for (uint32_t i = 0; i < n->out.count; i++)
        result_symbols(s, n, g->value.at[node_out(g, n, i)].type);
    if (n->nest)
        nest_symbols(s, n->nest);
    if (n->kernel)
        kernel_symbols(s, n->kernel);
    for (uint32_t r = 0; r < n->nregion; r++)
        for (uint32_t i = 0; i < n->region[r].nbind; i++)
            expr_symbols(s, n->region[r].bind[i].to);
    for (uint32_t i = 0; i < n->nfresh; i++)
        expr_symbols(s, n->fresh[i].most);
}

bool
graph_is_given(const Graph *g, Var symbol)
{
    for (uint32_t i = 0; i < g->input.n; i++) {
        const Type *t = g->value.at[g->input.at[i]].type;
        for (uint32_t d = 0; d < t->rank; d++)
            if (expr_uses(t->dim[d], symbol))
                return true;
    }
    return false;
}

Map
graph_definers(const Graph *g, Arena *scratch)
{
    Map definer = { .arena = scratch };

    for (NodeId id = 1; id < g->node.n; id++)
        for (uint32_t i = 0; i < g->node.at[id].nfresh; i++)
            map_put(&definer, MAP_PTR(g->node.at[id].fresh[i].name), id);
    return definer;
}

NodeId
graph_defined(const Map *definer, const Expr *e)
{
    NodeId last = 0;
    uint64_t id;

    FOR_EACH_VARIABLE (v, e)
        if (v.kind == VAR_SYMBOL && map_get(definer, v.id, &id) && id > last)
            last = (NodeId)id;
    return last;
}

/* ---- sizes that data define ------------------------------------------------------------------ */

/* A symbol of e that a node defines, the last one; false: none. */
static bool
find_late(const Map *definer, const Expr *e, Var *late)
{
    bool found = false;

    FOR_EACH_VARIABLE (v, e)
        if (v.kind == VAR_SYMBOL && map_get(definer, v.id, NULL)) {
            *late = v;
            found = true;
        }
    return found;
}

static bool
is_late_factor(const Map *definer, const Atom *atom)
{
    return atom->kind == ATOM_VAR && atom->var.kind == VAR_SYMBOL &&
           map_get(definer, atom->var.id, NULL);
}

/* Does e grow with every such symbol, with at most one of them in each product? */
static bool
grows_plainly(const Map *definer, const Expr *e)
{
    for (uint32_t i = 0; i < e->nterm; i++) {
        uint32_t late = 0;
        for (uint32_t f = 0; f < e->term[i].nfactor; f++) {
            const Atom *atom = e->term[i].factor[f].atom;
            for (uint32_t k = 0; k < atom->narg; k++)
                if (graph_defined(definer, atom->arg[k]))
                    return false;
            late += is_late_factor(definer, atom) ? e->term[i].factor[f].power : 0;
        }
        if (late > 1 || (late && e->term[i].coef < 0))
            return false;
    }
    return true;
}

const Expr *
graph_bound(const Graph *g, const Map *definer, const Expr *e)
{
    for (;;) {
        Var late;
        uint64_t id;
        if (!find_late(definer, e, &late))
            return e;
        if (!grows_plainly(definer, e))
            return NULL;
        const Expr *most = NULL;
        map_get(definer, late.id, &id);
        for (uint32_t i = 0; i < g->node.at[id].nfresh; i++)
            if (MAP_PTR(g->node.at[id].fresh[i].name) == late.id)
                most = g->node.at[id].fresh[i].most;
        if (!most)
            return NULL;
        e = expr_subst(g->ctx, e, &(Binding){ late, most }, 1);
    }
}

/* ---- all graphs ------------------------------------------------------------------------------ */

/* the next node of g to look at */
typedef struct {
    const Graph *g;
    NodeId node;
    uint32_t region;
} GraphVisit;

static const Graph *
next_inside(GraphVisit *v)
{
    for (; v->node < v->g->node.n; v->node++, v->region = 0)
        while (v->region < v->g->node.at[v->node].nregion) {
            const Graph *inside = v->g->node.at[v->node].region[v->region++].graph;
            if (inside)
                return inside;
        }
    return NULL;
}

/* Iterative: functions may call each other in a chain as long as the model. */
GraphList
graph_all(const Graph *g, Arena *a)
{
    GraphList list = { 0 };
    Map seen = { .arena = a };
    VEC(GraphVisit) open = { 0 };

    map_put(&seen, MAP_PTR(g), 1);
    VEC_PUSH(a, &open, ((GraphVisit){ g, 1, 0 }));
    while (open.n) {
        const Graph *inside = next_inside(&open.at[open.n - 1]);
        if (!inside) {
            VEC_PUSH(a, &list, (Graph *)open.at[--open.n].g);
        } else if (!map_get(&seen, MAP_PTR(inside), NULL)) {
            map_put(&seen, MAP_PTR(inside), 1);
            VEC_PUSH(a, &open, ((GraphVisit){ inside, 1, 0 }));
        }
    }
    return list;
}

/* Several nodes may call one function, and functions may call each other. So all graphs are mapped
 * first, then calls are redirected to the new graphs. */
Graph *
graph_map(const Graph *g, Graph *(*pass)(void *user, const Graph *g), void *user)
{
    Arena *scratch = arena_child(g->ctx->arena);
    GraphList from = graph_all(g, scratch);
    Map map = { .arena = scratch };
    VEC(Graph *) to = { 0 };
    uint64_t mapped;
    bool ok = true;

    for (uint32_t i = 0; i < from.n; i++) {
        Graph *made = pass(user, from.at[i]);
        ok = ok && made;
        VEC_PUSH(scratch, &to, made);
        map_put(&map, MAP_PTR(from.at[i]), MAP_PTR(made));
    }
    for (uint32_t i = 0; ok && i < to.n; i++)
        for (NodeId id = 1; id < to.at[i]->node.n; id++)
            for (uint32_t r = 0; r < to.at[i]->node.at[id].nregion; r++) {
                Region *region = &to.at[i]->node.at[id].region[r];
                if (map_get(&map, MAP_PTR(region->graph), &mapped))
                    region->graph = (Graph *)(uintptr_t)mapped;
            }
    Graph *last = ok ? to.at[to.n - 1] : NULL;
    arena_free(scratch);
    return last;
}
