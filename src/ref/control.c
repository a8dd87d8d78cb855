/* control: nodes that run other graphs, and nodes that define symbols.
 *
 * A graph that a node runs has its own symbols, which the node binds to values. What it finds out
 * about sizes is visible only as the sizes of its results: from those the node's fresh symbols are
 * read, and checked against their bounds and types.
 */
#include "ref/internal.h"

#include <string.h>

typedef struct {
    GraphRun *r;
    Arena *scratch;
    const Node *n;
    Tensor **in, **out;
} ControlRun;

/* ---- symbols --------------------------------------------------------------------------------- */

static bool
bind_region(ControlRun *k, const Region *region, Symbols *s)
{
    Ctx *c = k->r->g->ctx;

    for (uint32_t i = 0; i < region->nbind; i++) {
        int64_t v;
        if (!symbols_eval(c, k->r->symbols, k->n->loc, "a call", region->bind[i].to, &v))
            return false;
        symbols_set(k->scratch, s, (Sym)(uintptr_t)region->bind[i].var.id, v);
    }
    return true;
}

/* Symbol i of the node has value v: is it within its bounds? */
static bool
define_symbol(ControlRun *k, uint32_t i, int64_t v)
{
    Ctx *c = k->r->g->ctx;
    const NewSymbol *s = &k->n->fresh[i];
    int64_t most = INT64_MAX;

    if (s->most && !symbols_eval(c, k->r->symbols, k->n->loc, s->name, s->most, &most))
        return false;
    if (v < 0 || v > most)
        return diag_error(&c->diags, DIAG_USAGE, k->n->loc,
                          "%s: the size %s is %lld, which must be from 0 to %lld",
                          k->n->origin ? k->n->origin : "a match", s->name, (long long)v,
                          (long long)most);
    symbols_set(c->arena, k->r->symbols, s->name, v);
    return true;
}

/* Assigns results to the node's values. The first dimension with a fresh symbol defines it; all
 * others must agree. */
static bool
take_results(ControlRun *k, const Tensor *result)
{
    const Graph *g = k->r->g;
    bool *defined = NEW_ARRAY(k->scratch, bool, k->n->nfresh + 1);

    for (uint32_t i = 0; i < k->n->out.count; i++) {
        ValueId v = node_out(g, k->n, i);
        for (uint32_t d = 0; v && d < g->value.at[v].type->rank && d < result[i].rank; d++) {
            uint32_t f = node_fresh(k->n, g->value.at[v].type->dim[d]);
            if (f == UINT32_MAX || defined[f])
                continue;
            defined[f] = true;
            if (!define_symbol(k, f, result[i].dim[d]))
                return false;
        }
    }
    for (uint32_t i = 0; i < k->n->out.count; i++) {
        ValueId v = node_out(g, k->n, i);
        if (!v)
            continue;
        if (!tensor_check(g->ctx, k->r->symbols, k->n->loc, "a call", g->value.at[v].name,
                          g->value.at[v].type, &result[i]))
            return false;
        *k->out[i] = result[i];
        k->out[i]->data =
            arena_copy(k->r->home[v], result[i].data,
                       (size_t)tensor_count(&result[i]) * dtype_info[result[i].dtype].bytes);
    }
    return check_constraints(g, k->r->symbols);
}

/* ---- the kinds ------------------------------------------------------------------------------- */

static bool
run_match(ControlRun *k)
{
    const Graph *g = k->r->g;

    for (uint32_t i = 0; i < k->n->nfresh; i++)
        if (!define_symbol(k, i, number_load(k->in[0]->dtype, k->in[0]->data, i).i))
            return false;
    if (!k->out[0])
        return check_constraints(g, k->r->symbols);
    *k->out[0] = *k->in[0];
    k->out[0]->data =
        arena_copy(k->r->home[node_out(g, k->n, 0)], k->in[0]->data,
                   (size_t)tensor_count(k->in[0]) * dtype_info[k->in[0]->dtype].bytes);
    return check_constraints(g, k->r->symbols);
}

static bool
run_region(ControlRun *k, const Region *region, uint32_t first)
{
    uint32_t nin = region->graph->input.n;
    Tensor *in = NEW_ARRAY(k->scratch, Tensor, nin + 1),
           *out = NEW_ARRAY(k->scratch, Tensor, k->n->out.count + 1);
    Symbols s = { 0 };

    for (uint32_t i = 0; i < nin; i++)
        in[i] = *k->in[first + i];
    return bind_region(k, region, &s) && check_constraints(region->graph, &s) &&
           run_graph(region->graph, k->scratch, &s, k->r->depth + 1, in, out, NULL, NULL) &&
           take_results(k, out);
}

/* The symbols of carried values, from their current sizes. */
static void
rebind(Arena *a, const Graph *body, uint32_t ncarried, const Tensor *in, Symbols *s)
{
    Var v;

    for (uint32_t i = 2; i < 2 + ncarried; i++) {
        const Type *t = body->value.at[body->input.at[i]].type;
        for (uint32_t d = 0; d < t->rank; d++)
            if (expr_is_var(t->dim[d], &v) && v.kind == VAR_SYMBOL)
                symbols_set(a, s, (Sym)(uintptr_t)v.id, in[i].dim[d]);
    }
}

/* Appends the value of one iteration to the stack; all iterations have one shape. */
static bool
stack_push(ControlRun *k, Arena *a, uint32_t i, int64_t iteration, const Tensor *value, Tensor *all)
{
    const Graph *g = k->r->g;
    size_t bytes = (size_t)tensor_count(value) * dtype_info[value->dtype].bytes;

    for (uint32_t d = 0; iteration && d < value->rank; d++)
        if (value->dim[d] != all->dim[d + 1])
            return diag_error(&g->ctx->diags, DIAG_USAGE, k->n->loc,
                              "%s: stacked result %u has %lld elements on axis %u in iteration "
                              "%lld and %lld before",
                              k->n->origin ? k->n->origin : "a loop", i, (long long)value->dim[d],
                              d, (long long)iteration, (long long)all->dim[d + 1]);
    char *grown = arena_alloc(a, bytes * (size_t)(iteration + 1) + 1);
    if (iteration)
        memcpy(grown, all->data, bytes * (size_t)iteration);
    if (bytes)
        memcpy(grown + bytes * (size_t)iteration, value->data, bytes);
    *all = (Tensor){ .dtype = value->dtype, .rank = value->rank + 1, .data = grown };
    all->dim[0] = iteration + 1;
    memcpy(all->dim + 1, value->dim, value->rank * sizeof *value->dim);
    return true;
}

/* No iteration ran: sizes that only an iteration would define are 0. */
static bool
empty_stack(ControlRun *k, uint32_t i, Tensor *all)
{
    const Graph *g = k->r->g;
    const Type *t = g->value.at[node_out(g, k->n, i)].type;

    *all = (Tensor){ .dtype = t->dtype, .rank = t->rank, .data = arena_alloc(k->scratch, 16) };
    for (uint32_t d = 0; d < t->rank; d++)
        if (node_fresh(k->n, t->dim[d]) == UINT32_MAX && d &&
            !symbols_eval(g->ctx, k->r->symbols, k->n->loc, "a loop", t->dim[d], &all->dim[d]))
            return false;
    return true;
}

static bool
run_loop(ControlRun *k)
{
    const Graph *g = k->r->g, *body = k->n->region[0].graph;
    uint32_t nin = body->input.n, nout = k->n->out.count, carried = k->n->ncarried;
    Tensor *in = NEW_ARRAY(k->scratch, Tensor, nin), *out = NEW_ARRAY(k->scratch, Tensor, nout + 1),
           *all = NEW_ARRAY(k->scratch, Tensor, nout + 1);
    int64_t trips = k->in[0] ? *(const int64_t *)k->in[0]->data : INT64_MAX, iteration = 0;
    uint8_t go = k->in[1] ? *(const uint8_t *)k->in[1]->data != 0 : 1;
    Arena *now = arena_child(g->ctx->arena), *next = NULL;
    Symbols s = { 0 };
    bool ok = bind_region(k, &k->n->region[0], &s);
    uint32_t bound = s.name.n; /* symbols defined in an iteration are unknown in the next one */

    in[0] = (Tensor){ .dtype = DT_I64,
                      .rank = body->value.at[body->input.at[0]].type->rank,
                      .dim = { 1 },
                      .data = &iteration };
    in[1] = (Tensor){ .dtype = DT_BOOL,
                      .rank = body->value.at[body->input.at[1]].type->rank,
                      .dim = { 1 },
                      .data = &go };
    for (uint32_t i = 2; i < nin; i++)
        in[i] = *k->in[i];
    for (; ok && go && iteration < trips; iteration++) {
        if (iteration == REF_MAX_TRIPS) {
            ok =
                diag_error(&g->ctx->diags, DIAG_LIMIT, k->n->loc,
                           "a loop ran %d iterations; the interpreter runs no more", REF_MAX_TRIPS);
            break;
        }
        next = arena_child(g->ctx->arena);
        s.name.n = s.value.n = bound;
        rebind(k->scratch, body, carried, in, &s);
        ok = check_constraints(body, &s) &&
             run_graph(body, next, &s, k->r->depth + 1, in, out, NULL, NULL);
        for (uint32_t i = carried; ok && i < nout; i++)
            ok = !node_out(g, k->n, i) || stack_push(k, next, i, iteration, &out[1 + i], &all[i]);
        if (ok)
            go = *(const uint8_t *)out[0].data != 0;
        for (uint32_t i = 0; ok && i < carried; i++)
            in[2 + i] = out[1 + i];
        arena_free(now);
        now = next;
    }
    for (uint32_t i = 0; ok && i < carried; i++)
        all[i] = in[2 + i];
    for (uint32_t i = carried; ok && i < nout && iteration == 0; i++)
        ok = !node_out(g, k->n, i) || empty_stack(k, i, &all[i]);
    ok = ok && take_results(k, all);
    arena_free(now);
    return ok;
}

/* Concatenates the inputs along one dimension. For every index of the dimensions before it, a
 * contiguous run of each input is copied. */
static bool
run_join(ControlRun *k)
{
    Tensor all = *k->in[0];
    uint32_t along = k->n->along;
    size_t below = dtype_info[all.dtype].bytes, at = 0;
    int64_t rows = 1;

    for (uint32_t d = 0; d < all.rank; d++) {
        rows *= d < along ? all.dim[d] : 1;
        below *= d > along ? (size_t)all.dim[d] : 1;
    }
    for (uint32_t i = 1; i < k->n->in.count; i++)
        all.dim[along] += k->in[i]->dim[along];
    size_t row = (size_t)all.dim[along] * below;
    all.data = arena_alloc(k->scratch, (size_t)rows * row + 1);
    for (uint32_t i = 0; i < k->n->in.count; i++) {
        size_t bytes = (size_t)k->in[i]->dim[along] * below;
        for (int64_t r = 0; r < rows && bytes; r++)
            memcpy((char *)all.data + (size_t)r * row + at,
                   (const char *)k->in[i]->data + (size_t)r * bytes, bytes);
        at += bytes;
    }
    return take_results(k, &all);
}

static bool
run_blocks(ControlRun *k)
{
    Tensor *out = NEW_ARRAY(k->scratch, Tensor, k->n->out.count + 1);

    return run_batch(k->r, k->scratch, k->n, k->in, out) && take_results(k, out);
}

bool
run_control(GraphRun *r, Arena *scratch, NodeId id, Tensor **value)
{
    const Node *n = &r->g->node.at[id];
    ControlRun k = { r, scratch, n, value, value + n->in.count };

    if (r->depth >= REF_MAX_DEPTH)
        return diag_error(&r->g->ctx->diags, DIAG_LIMIT, n->loc,
                          "graphs run graphs %d deep; the interpreter goes no deeper",
                          REF_MAX_DEPTH);
    switch (n->callee) {
    case CALL_MATCH: return run_match(&k);
    case CALL_IF: return run_region(&k, &n->region[*(const uint8_t *)k.in[0]->data ? 0 : 1], 1);
    case CALL_LOOP: return run_loop(&k);
    case CALL_GRAPH: return run_region(&k, &n->region[0], 0);
    case CALL_JOIN: return run_join(&k);
    case CALL_OP:
    case CALL_NEST:
    case CALL_KERNEL: break;
    case CALL_BLOCKS: return run_blocks(&k);
    }
    return false;
}
