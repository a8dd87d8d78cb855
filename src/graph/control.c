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

typedef struct {
    const Binding *back;
    uint32_t n;
    bool all;
} Covered;

static void
check_covered(void *user, Var v)
{
    Covered *k = user;

    for (uint32_t i = 0; i < k->n; i++)
        if (k->back[i].var.id == v.id)
            return;
    k->all = false;
}

Known
graph_known_inside(Ctx *c, Arena *a, Known outside, const Region *r)
{
    Binding *back = NEW_ARRAY(a, Binding, r->nbind + 1);
    Covered k = { back, 0, true };
    const Expr **at = outside.at ? NEW_ARRAY(a, const Expr *, outside.n + 1) : NULL;

    for (uint32_t i = 0; i < r->nbind; i++)
        if (expr_is_var(r->bind[i].to, &back[k.n].var))
            back[k.n++].to = expr_var(c, r->bind[i].var);
    for (uint32_t i = 0; at && i < outside.n; i++) {
        expr_vars(outside.at[i], check_covered, &k);
        at[i] = expr_subst(c, outside.at[i], back, k.n);
    }
    return at && k.all ? (Known){ outside.n, at } : (Known){ 0 };
}

/* ---- symbols --------------------------------------------------------------------------------- */

typedef struct {
    void (*visit)(void *user, Sym symbol);
    void *user;
} SymbolVisit;

static void
visit_var(void *user, Var v)
{
    const SymbolVisit *s = user;

    if (v.kind == VAR_SYMBOL)
        s->visit(s->user, (Sym)(uintptr_t)v.id);
}

static void
visit_type(SymbolVisit *s, const Type *t)
{
    for (uint32_t d = 0; t && d < t->rank; d++)
        expr_vars(t->dim[d], visit_var, s);
}

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
visit_result(const SymbolVisit *s, const Node *n, const Type *t)
{
    for (uint32_t d = 0; t && d < t->rank && n->callee != CALL_BLOCKS; d++)
        if (node_fresh(n, t->dim[d]) == UINT32_MAX)
            expr_vars(t->dim[d], visit_var, (void *)s);
}

void
graph_symbols(const Graph *g, NodeId id, void (*visit)(void *user, Sym symbol), void *user)
{
    const Node *n = &g->node.at[id];
    SymbolVisit s = { visit, user };

    for (uint32_t i = 0; i < n->in.count; i++)
        visit_type(&s, g->value.at[node_in(g, n, i)].type);
    for (uint32_t i = 0; i < n->out.count; i++)
        visit_result(&s, n, g->value.at[node_out(g, n, i)].type);
    if (n->nest)
        nest_vars(n->nest, visit_var, &s);
    for (uint32_t i = 0; n->kernel && i < n->kernel->npart; i++)
        nest_vars(n->kernel->part[i].nest, visit_var, &s);
    for (uint32_t i = 0; n->kernel && i < n->kernel->buffer.n; i++) {
        visit_type(&s, n->kernel->buffer.at[i].type);
        if (n->kernel->buffer.at[i].within)
            visit_type(&s, n->kernel->buffer.at[i].within);
    }
    for (uint32_t r = 0; r < n->nregion; r++)
        for (uint32_t i = 0; i < n->region[r].nbind; i++)
            expr_vars(n->region[r].bind[i].to, visit_var, &s);
    for (uint32_t i = 0; i < n->nfresh; i++)
        if (n->fresh[i].most)
            expr_vars(n->fresh[i].most, visit_var, &s);
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

/* ---- sizes that data define ------------------------------------------------------------------ */

typedef struct {
    const Map *definer;
    Var late;
    uint32_t n;
} Late;

static void
find_late(void *user, Var v)
{
    Late *l = user;

    if (v.kind == VAR_SYMBOL && map_get(l->definer, v.id, NULL)) {
        l->late = v;
        l->n++;
    }
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
            Late inside = { .definer = definer };
            for (uint32_t k = 0; k < atom->narg; k++)
                expr_vars(atom->arg[k], find_late, &inside);
            if (inside.n)
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
        Late l = { .definer = definer };
        uint64_t id;
        expr_vars(e, find_late, &l);
        if (!l.n)
            return e;
        if (!grows_plainly(definer, e))
            return NULL;
        const Expr *most = NULL;
        map_get(definer, l.late.id, &id);
        for (uint32_t i = 0; i < g->node.at[id].nfresh; i++)
            if (MAP_PTR(g->node.at[id].fresh[i].name) == l.late.id)
                most = g->node.at[id].fresh[i].most;
        if (!most)
            return NULL;
        e = expr_subst(g->ctx, e, &(Binding){ l.late, most }, 1);
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
