/* cases: one graph for sizes of a kind, another for all others.
 *
 * What is best for one row is not for a thousand, and how many there are may be known only when the
 * model runs. Then a graph becomes the choice between two that mean the same, each with symbols of
 * its own, of which it knows the bounds:
 *
 *   graph @net(%x: f32[rows, 64]) -> (%y) {
 *     %small: bool[] = call()
 *       nest small() -> (o: bool[]) {
 *         o[] = rows <= 16
 *       }
 *     %y: f32[rows, 10] = if(%small, %x)
 *       with [rows_1 = rows] graph @net_small(%x: f32[rows_1, 64]) -> (%y) { …
 *       with [rows_2 = rows] graph @net_rest(%x: f32[rows_2, 64]) -> (%y) { …
 *
 * A size that has one value in a case is that number there.
 */
#include "graph/internal.h"

/* ---- symbols --------------------------------------------------------------------------------- */

typedef struct {
    Arena *arena;
    VEC(Sym) at;
} Symbols;

static void
add_symbol(void *user, Sym symbol)
{
    Symbols *s = user;

    for (uint32_t i = 0; i < s->at.n; i++)
        if (s->at.at[i] == symbol)
            return;
    VEC_PUSH(s->arena, &s->at, symbol);
}

static void
add_var(void *user, Var v)
{
    if (v.kind == VAR_SYMBOL)
        add_symbol(user, (Sym)(uintptr_t)v.id);
}

/* All that stand in g. */
static Symbols
symbols_of(const Graph *g)
{
    Symbols s = { .arena = g->arena };

    for (uint32_t i = 0; i < g->input.n; i++) {
        const Type *t = g->value.at[g->input.at[i]].type;
        for (uint32_t d = 0; d < t->rank; d++)
            expr_vars(t->dim[d], add_var, &s);
    }
    for (NodeId n = 1; n < g->node.n; n++)
        graph_symbols(g, n, add_symbol, &s);
    return s;
}

bool
graph_may_have_cases(const Graph *g)
{
    for (NodeId n = 1; n < g->node.n; n++)
        if (g->node.at[n].callee != CALL_NEST && g->node.at[n].callee != CALL_JOIN)
            return false;
    return true;
}

/* What is known of a symbol in a case; its complement, where that is one range. */
static Interval
range_in(Ctx *c, Sym symbol, const SizeGuard *guard, bool holds)
{
    Interval r = expr_symbol_get(c, (Var){ VAR_SYMBOL, MAP_PTR(symbol) });

    for (uint32_t i = 0; i < guard->n; i++) {
        const SizeBound *b = &guard->at[i];
        if (b->symbol != symbol)
            continue;
        if (holds)
            r = (Interval){ b->least > r.lo ? b->least : r.lo, b->most < r.hi ? b->most : r.hi };
        else if (guard->n == 1 && b->least <= r.lo && b->most < r.hi)
            r.lo = b->most + 1;
        else if (guard->n == 1 && b->most >= r.hi && b->least > r.lo)
            r.hi = b->least - 1;
    }
    return r;
}

/* ---- one case -------------------------------------------------------------------------------- */

/* inside: what symbols of g are in the case; outside: what its own symbols are in g. */
typedef struct {
    Binding *inside, *outside;
    uint32_t ninside, noutside;
} CaseSymbols;

static CaseSymbols
symbols_in(const Graph *g, const Symbols *all, const SizeGuard *guard, bool holds)
{
    Ctx *c = g->ctx;
    CaseSymbols s = { .inside = NEW_ARRAY(g->arena, Binding, all->at.n + 1),
                      .outside = NEW_ARRAY(g->arena, Binding, all->at.n + 1) };

    for (uint32_t i = 0; i < all->at.n; i++) {
        Var symbol = { VAR_SYMBOL, MAP_PTR(all->at.at[i]) }, own;
        Interval r = range_in(c, all->at.at[i], guard, holds);
        const Expr *to = r.lo == r.hi ? expr_int(c, r.lo) : expr_fresh_symbol(c, all->at.at[i]);
        s.inside[s.ninside++] = (Binding){ symbol, to };
        if (r.lo == r.hi || !expr_is_var(to, &own))
            continue;
        expr_symbol_range(c, own, r);
        if (expr_symbol_usual(c, symbol).n)
            expr_symbol_expect(c, own, expr_symbol_usual(c, symbol));
        if (expr_symbol_counts(c, symbol) >= 0)
            expr_symbol_count(c, own, expr_symbol_counts(c, symbol));
        s.outside[s.noutside++] = (Binding){ own, expr_var(c, symbol) };
    }
    return s;
}

static Known
known_in(const Graph *g, Known known, const CaseSymbols *s)
{
    const Expr **at = known.at ? NEW_ARRAY(g->arena, const Expr *, known.n + 1) : NULL;

    for (uint32_t i = 0; at && i < known.n; i++)
        at[i] = expr_subst(g->ctx, known.at[i], s->inside, s->ninside);
    return (Known){ known.n, at };
}

static ValueId
value_in(Graph *to, const Graph *g, ValueId v, const CaseSymbols *s)
{
    ValueId id = graph_copy_value(to, g, v);

    to->value.at[id].type = type_subst(g->ctx, g->value.at[v].type, s->inside, s->ninside);
    to->value.at[id].known = known_in(g, g->value.at[v].known, s);
    return id;
}

static void
node_in_case(Graph *to, const Graph *g, NodeId id, const CaseSymbols *s, ValueId *map)
{
    Node n = g->node.at[id];
    ValueId *in = NEW_ARRAY(g->arena, ValueId, n.in.count + 1),
            *out = NEW_ARRAY(g->arena, ValueId, n.out.count + 1);

    if (n.nest)
        n.nest = nest_simplify(g->ctx, nest_bind(g->ctx, n.nest, s->inside, s->ninside));
    for (uint32_t i = 0; i < n.in.count; i++)
        in[i] = map[node_in(g, &n, i)];
    for (uint32_t i = 0; i < n.out.count; i++) {
        ValueId v = node_out(g, &n, i);
        out[i] = v ? (map[v] = value_in(to, g, v, s)) : 0;
    }
    graph_add_node(to, n, n.in.count, in, n.out.count, out);
}

/* The outputs that g computes itself: others are inputs, or constants, and need no case. */
static bool
is_computed(const Graph *g, uint32_t output)
{
    for (uint32_t i = 0; i < output; i++)
        if (g->output.at[i] == g->output.at[output])
            return false;
    return g->value.at[g->output.at[output]].def != 0;
}

static Region
case_of(const Graph *g, const Symbols *all, const SizeGuard *guard, bool holds)
{
    CaseSymbols s = symbols_in(g, all, guard, holds);
    Graph *to = graph_new(g->ctx, g->arena,
                          arena_printf(g->arena, "%s_%s", g->name, holds ? "small" : "rest"));
    ValueId *map = NEW_ARRAY(g->arena, ValueId, g->value.n);

    for (uint32_t i = 0; i < g->input.n; i++) {
        ValueId v = g->input.at[i];
        map[v] = value_in(to, g, v, &s);
        VEC_PUSH(g->arena, &to->input, map[v]);
    }
    for (ValueId v = 1; v < g->value.n; v++)
        if (g->value.at[v].data && !map[v])
            map[v] = graph_copy_value(to, g, v);
    for (NodeId n = 1; n < g->node.n; n++)
        node_in_case(to, g, n, &s, map);
    for (uint32_t i = 0; i < g->output.n; i++)
        if (is_computed(g, i))
            VEC_PUSH(g->arena, &to->output, map[g->output.at[i]]);
    return (Region){ to, s.noutside, s.outside };
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* One bool: do sizes lie within the guard? */
static const Nest *
nest_of_guard(const Graph *g, const SizeGuard *guard)
{
    Ctx *c = g->ctx;
    NestBuilder b = nest_begin(c, "small");
    uint32_t out = nest_out(&b, "o", type_new(c, DT_BOOL, 0, NULL));
    const Scalar *all = NULL;

    for (uint32_t i = 0; i < guard->n; i++) {
        const SizeBound *t = &guard->at[i];
        const Scalar *size = scalar_index(c, expr_var(c, (Var){ VAR_SYMBOL, MAP_PTR(t->symbol) }));
        const Scalar *above =
            t->least > 0 ? scalar_2(c, S_GE, size, scalar_int(c, DT_I64, t->least)) : NULL;
        const Scalar *below =
            t->most < INT64_MAX ? scalar_2(c, S_LE, size, scalar_int(c, DT_I64, t->most)) : NULL;
        for (uint32_t k = 0; k < 2; k++) {
            const Scalar *one = k ? below : above;
            all = all && one ? scalar_2(c, S_AND, all, one) : all ? all : one;
        }
    }
    nest_write(&b, out, NULL, all);
    return nest_finish(&b);
}

Graph *
graph_cases(const Graph *g, SizeGuard guard)
{
    Symbols all = symbols_of(g);
    const Nest *nest = nest_of_guard(g, &guard);
    Node choice = { .callee = CALL_IF, .nregion = 2, .region = NEW_ARRAY(g->arena, Region, 2) };
    ValueId *map, *in = NEW_ARRAY(g->arena, ValueId, g->input.n + 1),
                  *out = NEW_ARRAY(g->arena, ValueId, g->output.n + 1);
    Text sizes = { .arena = g->arena };
    uint32_t nout = 0;

    if (!nest)
        return NULL;
    guard_print(&sizes, &guard);
    choice.origin = sym(g->ctx, text_str(&sizes));
    choice.region[0] = case_of(g, &all, &guard, true);
    choice.region[1] = case_of(g, &all, &guard, false);
    Graph *to = graph_rebuild(g, &map);
    for (uint32_t i = 0; i < g->input.n; i++)
        in[1 + i] = to->input.at[i];
    for (uint32_t i = 0; i < g->output.n; i++)
        if (is_computed(g, i))
            out[nout++] = map[g->output.at[i]] = graph_copy_value(to, g, g->output.at[i]);
    in[0] = graph_value(to, "small", type_new(g->ctx, DT_BOOL, 0, NULL));
    graph_call_nest(to, nest, (Loc){ 0 }, choice.origin, NULL, &in[0]);
    graph_call_region(to, &choice, 1 + g->input.n, in, nout, out);
    graph_finish(to, g, map);
    return to;
}
