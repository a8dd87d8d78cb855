/* host_control: nodes that run graphs or define symbols, as C.
 *
 * A graph is a function that takes a frame. The frame points at values of the caller's graph:
 * inputs in place, and results in their final place, if their size is known before; otherwise the
 * function returns a block. Symbols of a branch or a body are in the caller's array, at positions
 * of their own; a function gets an array of its own, since it may be running already.
 *
 * A carried value of a loop is read from one buffer and written to the other, which are swapped
 * after each iteration; after the last one it is copied if it is not in its place.
 */
#include "emit/host.h"

typedef struct {
    ProgramPrinter *p;
    Host *h;
    const Graph *g;
    NodeId id;
    const Node *n;
    Text *t;
} Control;

static const char *
sym_of(const Control *k, Sym s)
{
    return arena_printf(k->h->a, "sym[%u]", host_symbol(k->h, s));
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Symbol i of the node becomes `value`, a C expression, checked against its range. */
static void
define(Control *k, uint32_t i, const char *value, const char *indent)
{
    const NewSymbol *s = &k->n->fresh[i];
    Interval r = expr_symbol_get(k->h->c, symbol_var(s->name));
    const char *most = arena_printf(k->h->a, "INT64_C(%lld)", (long long)r.hi);
    int64_t number;

    if (s->most && !(expr_const(s->most, &number) && number >= r.hi))
        most = arena_printf(k->h->a, r.hi == INT64_MAX ? "%s" : "tn_min(%s, INT64_C(%lld))",
                            host_checked(k->h, s->most), (long long)r.hi);
    text_printf(k->t, "%sif ((code = tn_define(f, %u, %s, INT64_C(%lld), %s)))    /* ", indent,
                host_symbol(k->h, s->name), value, (long long)(r.lo > 0 ? r.lo : 0), most);
    text_comment(k->t, s->name);
    text_printf(k->t, " */\n%s    return code;\n", indent);
}

/* The symbols in the types of results, each from the first dimension that it is. */
static void
define_from_results(Control *k, const Region *r, const char *indent)
{
    bool *done = NEW_ARRAY(k->h->a, bool, k->n->nfresh + 1);

    for (uint32_t i = 0; i < k->n->out.count; i++) {
        ValueId v = node_out(k->g, k->n, i);
        const Type *t = v ? k->g->value.at[v].type : NULL;
        const Type *inner = r->graph->value.at[r->graph->output.at[i]].type;
        for (uint32_t d = 0; t && d < t->rank; d++) {
            uint32_t f = node_fresh(k->n, t->dim[d]);
            if (f == UINT32_MAX || done[f])
                continue;
            done[f] = true;
            define(k, f, host_checked(k->h, inner->dim[d]), indent);
        }
    }
}

static void
bind_symbols(Control *k, const Region *r, const char *indent)
{
    for (uint32_t i = 0; i < r->nbind; i++)
        text_printf(k->t, "%s%s = %s;\n", indent, sym_of(k, var_symbol(r->bind[i].var)),
                    host_plain(k->h, r->bind[i].to));
}

/* The value of a symbol inside is now known: its equalities. */
static void
check_bound(Control *k, Var symbol, const Expr *is, const char *indent)
{
    Interval in = expr_symbol_get(k->h->c, symbol), out = expr_bounds(k->h->c, NULL, is);
    uint32_t at = host_symbol(k->h, var_symbol(symbol));

    if (out.lo < in.lo || out.hi > in.hi)
        host_try(k->t, indent, "tn_define(f, %u, sym[%u], INT64_C(%lld), INT64_C(%lld))", at, at,
                 (long long)in.lo, (long long)in.hi);
}

/* Facts about sizes inside are checked on entry. */
static void
check_bindings(Control *k, const Region *r, const char *indent)
{
    for (uint32_t i = 0; i < r->nbind; i++)
        check_bound(k, r->bind[i].var, r->bind[i].to, indent);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* `const void *in[]`: node inputs from `first` on, after the text that `before` prints. */
static void
print_inputs(Control *k, uint32_t first, const char *before)
{
    text_printf(k->t, "        const void *in[] = {%s", before);
    for (uint32_t i = first; i < k->n->in.count; i++)
        text_printf(k->t, "%s, ", program_place(k->p, node_in(k->g, k->n, i)));
    text_add(k->t, "0};\n");
}

static void
print_arena(Control *k)
{
    const Expr *at = k->p->plan->node[k->id].arena;

    if (at)
        text_printf(k->t, "        inner.arena = (char *)f->arena + (%s);\n", host_plain(k->h, at));
    else
        text_add(k->t, "        inner.arena = 0;\n");
}

/* Does the graph return output `i` as a block? */
static bool
is_made(const Control *k, const Graph *g, uint32_t i)
{
    return plan_of(k->h->p->plan, g)->made[i];
}

static const char *
bytes_of_output(Control *k, const Graph *g, uint32_t i)
{
    Map definer = graph_definers(g, k->h->a);
    const Type *t = g->value.at[g->output.at[i]].type;
    return host_checked(k->h, graph_bound(g, &definer, type_bytes(k->h->c, t)));
}

/* Where result i goes: to existing memory, or a new block; what is needed before. */
static void
place_result(Control *k, const Region *r, uint32_t i, const char *indent)
{
    ValueId v = node_out(k->g, k->n, i);
    const Placement *at = &k->p->plan->value[v];
    bool block = v && at->place == PLACE_BLOCK;
    const char *own = block ? arena_printf(k->h->a, "&f->block[%u]", at->index)
                            : arena_printf(k->h->a, "&given[%u]", i);

    if (is_made(k, r->graph, i)) {
        text_printf(k->t, "%smade[%u] = %s;\n", indent, i, own);
    } else if (block || !v) {
        host_try(k->t, indent, "tn_need(f, %s, %s)", own, bytes_of_output(k, r->graph, i));
        text_printf(k->t, "%sout[%u] = (%s)->at;\n", indent, i, own);
    } else {
        text_printf(k->t, "%sout[%u] = %s;\n", indent, i, program_place(k->p, v));
    }
}

/* A block that was made for a value with a place of its own. */
static void
settle_result(Control *k, const Region *r, uint32_t i, const char *indent)
{
    ValueId v = node_out(k->g, k->n, i);

    if (v && k->p->plan->value[v].place == PLACE_BLOCK)
        return;
    if (v && is_made(k, r->graph, i))
        text_printf(k->t, "%smemcpy(%s, given[%u].at, (size_t)(%s));\n", indent,
                    program_place(k->p, v), i,
                    host_plain(k->h, type_bytes(k->h->c, k->g->value.at[v].type)));
    if (!v || is_made(k, r->graph, i))
        text_printf(k->t, "%stn_put(f, &given[%u]);\n", indent, i);
}

/* ---- match ----------------------------------------------------------------------------------- */

static void
print_match(Control *k)
{
    const Value *v = &k->g->value.at[node_in(k->g, k->n, 0)];

    text_printf(k->t, "    {\n        const %s *from = (const %s *)%s;\n",
                dtype_info[v->type->dtype].ctype, dtype_info[v->type->dtype].ctype,
                program_place(k->p, node_in(k->g, k->n, 0)));
    for (uint32_t i = 0; i < k->n->nfresh; i++)
        define(k, i, arena_printf(k->h->a, "(int64_t)from[%u]", i), "        ");
    if (node_out(k->g, k->n, 0))
        text_printf(k->t, "        memcpy(%s, from, %u * sizeof *from);\n",
                    program_place(k->p, node_out(k->g, k->n, 0)), k->n->nfresh);
    text_add(k->t, "    }\n");
}

/* ---- if -------------------------------------------------------------------------------------- */

static void
print_frame(Control *k, uint32_t nout)
{
    text_printf(k->t,
                "        TnFrame inner = *f;\n        void *out[%u] = {0};\n        TnBlock "
                "given[%u] = {{0, 0}}, *made[%u] = {0};\n"
                "        (void)given;\n        inner.inputs = in, inner.outputs = out, inner.made "
                "= made, inner.output_dims = 0;\n",
                nout + 1, nout + 1, nout + 1);
    print_arena(k);
}

static void
run_region(Control *k, const Region *r, const char *indent)
{
    uint32_t nout = k->n->out.count;

    bind_symbols(k, r, indent);
    check_bindings(k, r, indent);
    for (uint32_t i = 0; i < nout; i++)
        place_result(k, r, i, indent);
    host_try(k->t, indent, "%s(&inner)", program_graph(k->p, r->graph));
    define_from_results(k, r, indent);
    for (uint32_t i = 0; i < nout; i++)
        settle_result(k, r, i, indent);
}

static void
print_if(Control *k)
{
    text_add(k->t, "    {\n");
    print_inputs(k, 1, "");
    print_frame(k, k->n->out.count);
    text_printf(k->t, "        if (*(const unsigned char *)%s) {\n",
                program_place(k->p, node_in(k->g, k->n, 0)));
    run_region(k, &k->n->region[0], "            ");
    text_add(k->t, "        } else {\n");
    run_region(k, &k->n->region[1], "            ");
    text_add(k->t, "        }\n    }\n");
}

/* ---- loop ------------------------------------------------------------------------------------ */

typedef struct {
    bool fixed; /* carried: two buffers of constant size */
    /* stacked: each iteration writes its part of an existing buffer */
    bool in_place;
} Buffering;

static Buffering
buffering(const Control *k, uint32_t i)
{
    const Graph *body = k->n->region[0].graph;
    ValueId v = node_out(k->g, k->n, i);
    bool there = v && k->p->plan->value[v].place != PLACE_BLOCK && !is_made(k, body, 1 + i);

    if (i < k->n->ncarried)
        return (Buffering){ .fixed = there && k->p->plan->node[k->id].other[i] };
    return (Buffering){ .in_place = there };
}

static void
loop_before(Control *k)
{
    uint32_t nout = k->n->out.count;

    text_printf(k->t,
                "        TnBlock now[%u] = {{0, 0}}, next[%u] = {{0, 0}};\n        (void)now, "
                "(void)next;\n",
                nout + 1, nout + 1);
    for (uint32_t i = 0; i < nout; i++)
        if (i >= k->n->ncarried && !buffering(k, i).in_place)
            for (uint32_t d = 0;
                 node_out(k->g, k->n, i) && d < k->g->value.at[node_out(k->g, k->n, i)].type->rank;
                 d++) {
                uint32_t f = node_fresh(k->n, k->g->value.at[node_out(k->g, k->n, i)].type->dim[d]);
                if (f != UINT32_MAX)
                    text_printf(k->t, "        %s = 0;\n", sym_of(k, k->n->fresh[f].name));
            }
}

/* Room for the stacked result i of one more iteration. */
static void
keep_stacked(Control *k, uint32_t i, const char *bytes)
{
    host_try(k->t, "            ",
             "tn_keep(f, &now[%u], tn_size_mul(trip, %s), tn_size_mul(trip + 1, %s))", i, bytes,
             bytes);
}

/* Where the iteration writes carried value or stacked result i. */
static void
loop_output(Control *k, uint32_t i)
{
    const Graph *body = k->n->region[0].graph;
    ValueId v = node_out(k->g, k->n, i);
    Buffering b = buffering(k, i);
    const char *bytes = is_made(k, body, 1 + i) ? NULL : bytes_of_output(k, body, 1 + i), *to;

    if (!b.fixed && !b.in_place && !bytes) {
        text_printf(k->t, "            made[%u] = &next[%u];\n", 1 + i, i);
        return;
    }
    if (b.fixed) {
        to = arena_printf(k->h->a, "trip %% 2 ? (void *)((char *)f->arena + (%s)) : %s",
                          host_plain(k->h, k->p->plan->node[k->id].other[i]),
                          program_place(k->p, v));
    } else if (b.in_place) {
        to = arena_printf(k->h->a, "(char *)%s + trip * (%s)", program_place(k->p, v), bytes);
    } else if (i < k->n->ncarried) {
        host_try(k->t, "            ", "tn_need(f, &next[%u], %s)", i, bytes);
        to = arena_printf(k->h->a, "next[%u].at", i);
    } else {
        keep_stacked(k, i, bytes);
        to = arena_printf(k->h->a, "(char *)now[%u].at + trip * (%s)", i, bytes);
    }
    text_printf(k->t, "            out[%u] = %s;\n", 1 + i, to);
}

/* After an iteration: its results are the next one's values; stacked results have one shape in all
 * iterations. */
static void
loop_after(Control *k, uint32_t i)
{
    const Graph *body = k->n->region[0].graph;
    ValueId v = node_out(k->g, k->n, i);
    const Type *inner = body->value.at[body->output.at[1 + i]].type;

    if (i < k->n->ncarried) {
        if (buffering(k, i).fixed)
            text_printf(k->t, "            in[%u] = out[%u];\n", 2 + i, 1 + i);
        else
            text_printf(
                k->t,
                "            tn_move(f, &now[%u], &next[%u]);\n            in[%u] = now[%u].at;\n",
                i, i, 2 + i, i);
        return;
    }
    for (uint32_t d = 1; v && d < k->g->value.at[v].type->rank; d++) {
        uint32_t f = node_fresh(k->n, k->g->value.at[v].type->dim[d]);
        if (f == UINT32_MAX)
            continue;
        const char *size = host_checked(k->h, inner->dim[d - 1]),
                   *symbol = sym_of(k, k->n->fresh[f].name);
        text_printf(
            k->t,
            "            if (trip == 0)\n                %s = %s;\n            if (%s != %s)\n"
            "                return tn_refuse(f->fault, TN_FAULT_SYMBOL, %u, 0, %s, %s);\n",
            symbol, size, symbol, size, host_symbol(k->h, k->n->fresh[f].name), size, symbol);
    }
    if (!is_made(k, body, 1 + i))
        return;
    const char *bytes = host_checked(k->h, type_bytes(k->h->c, inner));
    keep_stacked(k, i, bytes);
    text_printf(k->t,
                "            memcpy((char *)now[%u].at + trip * (%s), next[%u].at, "
                "(size_t)(%s));\n            tn_put(f, &next[%u]);\n",
                i, bytes, i, bytes, i);
}

/* Symbols of carried values become those of the iteration's results, all at once. */
static void
loop_rebind(Control *k)
{
    const Graph *body = k->n->region[0].graph;
    Text set = { .arena = k->h->a };
    uint32_t n = 0;
    Var v;

    for (uint32_t i = 0; i < k->n->ncarried; i++) {
        const Type *in = body->value.at[body->input.at[2 + i]].type,
                   *out = body->value.at[body->output.at[1 + i]].type;
        for (uint32_t d = 0; d < in->rank; d++) {
            if (in->dim[d] == out->dim[d] || !expr_is_var(in->dim[d], &v) || v.kind != VAR_SYMBOL)
                continue;
            text_printf(k->t, "%s%s", n ? ", " : "            const int64_t size[] = {",
                        host_checked(k->h, out->dim[d]));
            text_printf(&set, "            %s = size[%u];\n", sym_of(k, var_symbol(v)), n++);
        }
    }
    if (n)
        text_printf(k->t, "};\n%s", text_str(&set));
}

/* After the loop: sizes first, then each value to its place. */
static void
loop_result(Control *k, uint32_t i)
{
    ValueId v = node_out(k->g, k->n, i);
    const char *bytes;

    if (!v) {
        text_printf(k->t, "        tn_put(f, &now[%u]);\n", i);
        return;
    }
    bytes = host_checked(k->h, type_bytes(k->h->c, k->g->value.at[v].type));
    if (k->p->plan->value[v].place != PLACE_BLOCK) {
        if (i < k->n->ncarried)
            text_printf(
                k->t, "        if (in[%u] != %s)\n            memcpy(%s, in[%u], (size_t)(%s));\n",
                2 + i, program_place(k->p, v), program_place(k->p, v), 2 + i, bytes);
        else if (!buffering(k, i).in_place)
            text_printf(k->t,
                        "        if (trip)\n            memcpy(%s, now[%u].at, (size_t)(%s));\n",
                        program_place(k->p, v), i, bytes);
        text_printf(k->t, "        tn_put(f, &now[%u]);\n", i);
        return;
    }
    uint32_t block = k->p->plan->value[v].index;
    text_printf(
        k->t,
        "        if (trip) {\n            tn_move(f, &f->block[%u], &now[%u]);\n        } else {\n",
        block, i);
    host_try(k->t, "            ", "tn_need(f, &f->block[%u], %s)", block, bytes);
    if (i < k->n->ncarried)
        text_printf(k->t, "            memcpy(f->block[%u].at, in[%u], (size_t)(%s));\n", block,
                    2 + i, bytes);
    text_add(k->t, "        }\n");
}

static void
define_from_loop(Control *k)
{
    const Graph *body = k->n->region[0].graph;
    bool *done = NEW_ARRAY(k->h->a, bool, k->n->nfresh + 1);

    for (uint32_t i = 0; i < k->n->out.count; i++) {
        ValueId v = node_out(k->g, k->n, i);
        const Type *t = v ? k->g->value.at[v].type : NULL;
        bool stacked = i >= k->n->ncarried;
        for (uint32_t d = 0; t && d < t->rank; d++) {
            uint32_t f = node_fresh(k->n, t->dim[d]);
            if (f == UINT32_MAX && stacked && d == 0)
                text_printf(k->t,
                            "        if (trip != %s)\n            return tn_refuse(f->fault, "
                            "TN_FAULT_TRIPS, 0, 0, trip, %s);\n",
                            host_checked(k->h, t->dim[0]), host_checked(k->h, t->dim[0]));
            if (f == UINT32_MAX || done[f])
                continue;
            done[f] = true;
            const char *size =
                !stacked ? host_checked(k->h, body->value.at[body->input.at[2 + i]].type->dim[d])
                : d == 0 ? "trip"
                         : sym_of(k, k->n->fresh[f].name);
            define(k, f, size, "        ");
        }
    }
}

static void
print_loop(Control *k)
{
    const Region *r = &k->n->region[0];
    uint32_t nout = k->n->out.count;
    int64_t most = k->h->p->max_trips ? k->h->p->max_trips : EMIT_MAX_TRIPS;
    ValueId trips = node_in(k->g, k->n, 0), go = node_in(k->g, k->n, 1);

    text_add(k->t, "    {\n        int64_t trip = 0;\n        unsigned char go = 1, again = 1;\n");
    print_inputs(k, 2, "&trip, &go, ");
    print_frame(k, nout + 1);
    text_add(k->t, "        out[0] = &again;\n");
    if (trips)
        text_printf(k->t, "        const int64_t trips = *(const int64_t *)%s;\n",
                    program_place(k->p, trips));
    if (go)
        text_printf(k->t, "        go = *(const unsigned char *)%s;\n", program_place(k->p, go));
    loop_before(k);
    bind_symbols(k, r, "        ");
    text_printf(k->t, "        for (; go%s; trip++, go = again) {\n",
                trips ? " && trip < trips" : "");
    /* a body that is never entered has nothing to check */
    check_bindings(k, r, "            ");
    text_printf(k->t,
                "            if (trip >= INT64_C(%lld))\n                return "
                "tn_refuse(f->fault, TN_FAULT_TRIPS, 0, 0, trip, INT64_C(%lld));\n",
                (long long)most, (long long)most);
    for (uint32_t i = 0; i < nout; i++)
        loop_output(k, i);
    host_try(k->t, "            ", "%s(&inner)", program_graph(k->p, r->graph));
    for (uint32_t i = 0; i < nout; i++)
        loop_after(k, i);
    loop_rebind(k);
    text_add(k->t, "        }\n");
    define_from_loop(k);
    for (uint32_t i = 0; i < nout; i++)
        loop_result(k, i);
    text_add(k->t, "    }\n");
}

void
host_stack(Host *h)
{
    bool any = false;

    for (uint32_t i = h->p->plan->plan.n; i-- > 0;)
        for (NodeId n = 1; n < h->p->plan->plan.at[i]->graph->node.n; n++)
            any |= h->p->plan->plan.at[i]->graph->node.at[n].callee == CALL_GRAPH;
    if (any)
        text_add(h->t,
#include "prelude_stack_text.h"
        );
}

/* ---- call ------------------------------------------------------------------------------------ */

/* A function's symbols are an array of its own; its results' sizes are returned as numbers. */
static void
print_call(Control *k)
{
    const Region *r = &k->n->region[0];
    uint32_t nout = k->n->out.count, rank = 0;
    int64_t most = k->h->p->max_calls ? k->h->p->max_calls : EMIT_MAX_CALLS;
    bool *done = NEW_ARRAY(k->h->a, bool, k->n->nfresh + 1);
    uint32_t threads;

    for (uint32_t i = 0; i < nout; i++)
        rank += r->graph->value.at[r->graph->output.at[i]].type->rank;
    text_add(k->t, "    {\n");
    print_inputs(k, 0, "");
    print_frame(k, nout);
    text_printf(k->t,
                "        int64_t own[%u] = {0}, dims[%u] = {0};\n        if (++inner.depth > "
                "INT64_C(%lld))\n"
                "            return tn_refuse(f->fault, TN_FAULT_DEPTH, 0, 0, inner.depth, "
                "INT64_C(%lld));\n"
                "        if (!tn_stack_left(inner.depth))\n            return tn_refuse(f->fault, "
                "TN_FAULT_STACK, 0, 0, inner.depth, 0);\n"
                "        inner.output_dims = dims;\n",
                k->h->nsymbol + 1, rank + 1, (long long)most, (long long)most);
    for (uint32_t i = 0; i < r->nbind; i++)
        text_printf(k->t, "        own[%u] = %s;\n", host_symbol(k->h, var_symbol(r->bind[i].var)),
                    host_plain(k->h, r->bind[i].to));
    if (host_threads(k->h, &threads))
        text_printf(k->t, "        own[%u] = sym[%u];\n", threads, threads);
    text_add(k->t, "        inner.sym = own;\n");
    for (uint32_t i = 0; i < nout; i++) {
        ValueId v = node_out(k->g, k->n, i);
        bool block = !v || k->p->plan->value[v].place == PLACE_BLOCK;
        if (block && !is_made(k, r->graph, i)) {
            text_add(k->t, "        {\n            int64_t *const sym = own;\n");
            place_result(k, r, i, "            ");
            text_add(k->t, "        }\n");
        } else {
            place_result(k, r, i, "        ");
        }
    }
    host_try(k->t, "        ", "%s(&inner)", program_graph(k->p, r->graph));
    Map definer = graph_definers(r->graph, k->h->a);
    for (uint32_t i = 0, at = 0; i < nout; i++) {
        ValueId v = node_out(k->g, k->n, i);
        const Type *inner = r->graph->value.at[r->graph->output.at[i]].type;
        for (uint32_t d = 0; d < inner->rank; d++, at++) {
            uint32_t f = v ? node_fresh(k->n, k->g->value.at[v].type->dim[d]) : UINT32_MAX;
            if (f == UINT32_MAX || done[f])
                continue;
            done[f] = true;
            const Expr *known = graph_defined(&definer, inner->dim[d])
                                    ? NULL
                                    : expr_subst(k->h->c, inner->dim[d], r->bind, r->nbind);
            define(k, f, known ? host_checked(k->h, known) : arena_printf(k->h->a, "dims[%u]", at),
                   "        ");
        }
    }
    for (uint32_t i = 0; i < nout; i++)
        settle_result(k, r, i, "        ");
    text_add(k->t, "    }\n");
}

/* One request of the program for many. */
static void
print_blocks(Control *k)
{
    Text out = { .arena = k->h->a }, made = { .arena = k->h->a };

    for (uint32_t i = 0; i < k->n->out.count; i++) {
        ValueId v = node_out(k->g, k->n, i);
        const Placement *at = &k->p->plan->value[v];
        bool block = v && at->place == PLACE_BLOCK;
        text_printf(&out, "%s, ", v && !block ? program_place(k->p, v) : "0");
        text_add(&made, block ? arena_printf(k->h->a, "&f->block[%u], ", at->index) : "0, ");
    }
    text_add(k->t, "    {\n");
    print_inputs(k, 0, "");
    text_printf(k->t,
                "        void *out[] = {%s0};\n        TnBlock *made[] = {%s0};\n"
                "        if ((code = tn_one(&tn_batch_program, f, in, out, made)))\n            "
                "return code;\n    }\n",
                text_str(&out), text_str(&made));
}

static void
print_join(Control *k)
{
    Ctx *c = k->h->c;
    const char *to = program_place(k->p, node_out(k->g, k->n, 0));
    const Expr *offset = expr_int(c, 0);

    for (uint32_t i = 0; i < k->n->in.count; i++) {
        ValueId v = node_in(k->g, k->n, i);
        const Expr *bytes = type_bytes(c, k->g->value.at[v].type);
        text_printf(k->t, "    tn_join((char *)%s + %s, %s, %s);\n", to, host_plain(k->h, offset),
                    program_place(k->p, v), host_plain(k->h, bytes));
        offset = expr_add(c, offset, bytes);
    }
}

void
host_control(ProgramPrinter *p, NodeId id)
{
    Control k = {
        .p = p, .h = p->h, .g = p->g, .id = id, .n = &p->g->node.at[id], .t = &p->parts.body
    };

    if (k.n->along) /* all parts are in their places */
        return;
    if (k.n->callee == CALL_JOIN)
        program_memory(p, id);
    program_statement(p);
    if (k.n->origin) {
        text_add(k.t, "    /* ");
        text_comment(k.t, k.n->origin);
        text_add(k.t, " */\n");
    }
    switch (k.n->callee) {
    case CALL_MATCH: print_match(&k); break;
    case CALL_IF: print_if(&k); break;
    case CALL_LOOP: print_loop(&k); break;
    case CALL_GRAPH: print_call(&k); break;
    case CALL_JOIN: print_join(&k); break;
    case CALL_OP: host_routine(p, id); break;
    case CALL_BLOCKS: print_blocks(&k); break;
    case CALL_NEST:
    case CALL_KERNEL: break;
    }
    if (k.n->nfresh) {
        part_break(&p->parts);
        program_constraints(p, id);
    }
}
