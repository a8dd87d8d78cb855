/* host_prepare: from the inputs' sizes to symbols, outputs' sizes and memory.
 *
 * A dimension that is one symbol gives its value; one linear in a symbol still unknown is solved
 * for it. Then every dimension and constraint is checked, and sizes are computed without overflow:
 * from then on nothing can overflow, so the program itself uses plain arithmetic.
 */
#include "emit/host.h"

/* ---- symbols --------------------------------------------------------------------------------- */

/* Prints how dimension d of input i determines a symbol, if it does now. */
static bool
bind_from(Parts *p, bool *known, uint32_t i, uint32_t d, const Expr *dim)
{
    Host *h = p->h;
    const Expr *coef, *rest;
    Var unknown = { 0 };
    uint32_t n = 0;
    uint64_t at;
    FOR_EACH_VARIABLE (v, dim)
        if (v.kind != VAR_SYMBOL || !map_get(&h->symbol_at, v.id, &at) || !known[at]) {
            unknown = v;
            n++;
        }
    if (n != 1 || unknown.kind != VAR_SYMBOL || !expr_linear(h->c, dim, unknown, &coef, &rest))
        return false;
    uint32_t s = host_symbol(h, var_symbol(unknown));
    part_statement(p);
    if (expr_is(coef, 1) && expr_is(rest, 0)) {
        text_printf(&p->body, "    sym[%u] = input_dims[%u][%u];\n", s, i, d);
    } else {
        text_printf(&p->body,
                    "    if (!tn_solve(input_dims[%u][%u], %s, %s, &sym[%u]))    /* %s */\n", i, d,
                    host_checked(h, coef), host_checked(h, rest), s, expr_str(h->c, dim));
        text_printf(
            &p->body,
            "        return tn_refuse(fault, TN_FAULT_DIM, %u, %u, input_dims[%u][%u], %s);\n", i,
            d, i, d, host_checked(h, rest));
    }
    known[s] = true;
    return true;
}

/* Symbols that the inputs must determine: those of the model's own graph that no node defines. */
static bool *
entry_symbols(Host *h)
{
    SymbolSet s = { .seen.arena = h->a };
    Map definer = graph_definers(h->g, h->a);
    bool *used = NEW_ARRAY(h->a, bool, h->nsymbol + 1);
    uint64_t at;

    for (NodeId n = 1; n < h->g->node.n; n++)
        graph_symbols(&s, h->g, n);
    for (ValueId v = 1; v < h->g->value.n; v++)
        type_symbols(&s, h->g->value.at[v].type);
    for (uint32_t i = 0; i < h->g->constraints.n; i++) {
        expr_symbols(&s, h->g->constraints.at[i].a);
        expr_symbols(&s, h->g->constraints.at[i].b);
    }
    for (uint32_t i = 0; i < s.n; i++)
        if (!map_get(&definer, MAP_PTR(s.at[i]), NULL) &&
            map_get(&h->symbol_at, MAP_PTR(s.at[i]), &at))
            used[at] = true;
    return used;
}

/* If the host does not say the number of threads, the programs for several run. */
static void
bind_threads(Parts *p, bool *known)
{
    enum { SEVERAL = 2 };
    uint32_t at;

    if (!host_threads(p->h, &at))
        return;
    known[at] = true;
    part_statement(p);
    text_printf(
        &p->body,
        "    sym[%u] = TN_HAS(sizes, threads) && sizes->threads > 0 ? sizes->threads : %d;\n", at,
        SEVERAL);
}

static void
bind_symbols(Parts *p)
{
    Host *h = p->h;
    bool *known = NEW_ARRAY(h->a, bool, h->nsymbol + 1);
    bind_threads(p, known);
    for (bool learnt = true; learnt;) {
        learnt = false;
        for (int bare = 1; bare >= 0 && !learnt; bare--)
            for (uint32_t i = 0; i < h->g->input.n; i++) {
                const Type *type = h->g->value.at[h->g->input.at[i]].type;
                for (uint32_t d = 0; d < type->rank; d++)
                    if (!bare || expr_is_var(type->dim[d], NULL))
                        learnt |= bind_from(p, known, i, d, type->dim[d]);
            }
    }
    bool *used = entry_symbols(h);
    for (uint32_t s = 0; s < h->nsymbol; s++)
        if (used[s] && !known[s])
            h->failed = !diag_error(&h->c->diags, DIAG_UNSUPPORTED, (Loc){ 0 },
                                    "dimension %s does not follow from the sizes of the inputs; "
                                    "give it a fixed size, or make it "
                                    "a dimension of an input",
                                    h->symbol[s]);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static void
check_signs(Parts *p)
{
    const Graph *g = p->h->g;

    part_statement(p);
    text_add(&p->body, "    memset(fault, 0, sizeof *fault);\n");
    for (uint32_t i = 0; i < g->input.n; i++) {
        uint32_t rank = g->value.at[g->input.at[i]].type->rank;
        if (rank == 0)
            continue;
        part_statement(p);
        text_printf(
            &p->body,
            "    for (int d = 0; d < %u; d++)\n        if (input_dims[%u][d] < 0)\n"
            "            return tn_refuse(fault, TN_FAULT_DIM, %u, d, input_dims[%u][d], 0);\n",
            rank, i, i, i);
    }
}

static void
check_inputs(Parts *p)
{
    Host *h = p->h;

    for (uint32_t i = 0; i < h->g->input.n; i++) {
        const Type *type = h->g->value.at[h->g->input.at[i]].type;
        for (uint32_t d = 0; d < type->rank; d++) {
            part_statement(p);
            text_printf(&p->body,
                        "    if (input_dims[%u][%u] != (want = %s))\n"
                        "        return tn_refuse(fault, TN_FAULT_DIM, %u, %u, input_dims[%u][%u], "
                        "want);\n",
                        i, d, host_checked(h, type->dim[d]), i, d, i, d);
        }
    }
    Map definer = graph_definers(h->g, h->a);
    for (uint32_t i = 0; i < h->g->constraints.n; i++) {
        const Constraint *k = &h->g->constraints.at[i];
        if (graph_defined(&definer, k->a) || graph_defined(&definer, k->b))
            continue;
        part_statement(p);
        text_printf(&p->body,
                    "    got = %s, want = %s;\n    if (got != want%s)\n"
                    "        return tn_refuse(fault, TN_FAULT_CONSTRAINT, %u, %s, got, "
                    "want);\n",
                    host_checked(h, k->a), host_checked(h, k->b), host_or_one(k), i,
                    host_constraint_at(h, k));
    }
}

/* The first dimension of an input that uses a symbol, for messages. */
typedef struct {
    uint32_t input, dim;
    bool known;
} Blame;

/* Kernels rely on the range of a symbol: implied by a constraint, or declared in a text. */
static void
check_ranges(Parts *p)
{
    Host *h = p->h;
    Blame *of = NEW_ARRAY(h->a, Blame, h->nsymbol + 1);
    uint64_t at;

    for (uint32_t i = 0; i < h->g->input.n; i++) {
        const Type *type = h->g->value.at[h->g->input.at[i]].type;
        for (uint32_t d = 0; d < type->rank; d++)
            FOR_EACH_VARIABLE (v, type->dim[d])
                if (v.kind == VAR_SYMBOL && map_get(&h->symbol_at, v.id, &at) && !of[at].known)
                    of[at] = (Blame){ i, d, true };
    }
    for (uint32_t s = 0; s < h->nsymbol; s++) {
        Interval r = expr_symbol_get(h->c, symbol_var(h->symbol[s]));
        uint32_t i = of[s].input, d = of[s].dim;
        if ((r.lo <= 0 && r.hi == INT64_MAX) || !of[s].known)
            continue;
        part_statement(p);
        text_printf(&p->body,
                    "    want = tn_min(tn_max(sym[%u], INT64_C(%lld)), INT64_C(%lld));\n"
                    "    if (sym[%u] != want)\n        return tn_refuse(fault, TN_FAULT_DIM, %u, "
                    "%u, input_dims[%u][%u], want);\n",
                    s, (long long)r.lo, (long long)r.hi, s, i, d, i, d);
    }
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The most that a dimension can be; -1: unknown. */
static const Expr *
most_of(Host *h, const Map *definer, const Expr *dim)
{
    const Expr *most = graph_bound(h->g, definer, dim);
    return most ? most : expr_int(h->c, -1);
}

static uint32_t
size_outputs(Parts *p)
{
    Host *h = p->h;
    Map definer = graph_definers(h->g, h->a);
    uint32_t at = 0;

    for (uint32_t i = 0; i < h->g->output.n; i++) {
        const Type *type = h->g->value.at[h->g->output.at[i]].type;
        bool made = h->p->plan->plan.at[0]->made && h->p->plan->plan.at[0]->made[i];
        part_statement(p);
        for (uint32_t d = 0; d < type->rank; d++) {
            const Expr *most = most_of(h, &definer, type->dim[d]);
            text_printf(
                &p->body,
                "    if ((output_dims[%u] = %s) < %d)\n"
                "        return tn_refuse(fault, TN_FAULT_SIZE, 0, 0, output_dims[%u], 0);\n",
                at + d,
                host_checked(h, made && graph_defined(&definer, type->dim[d]) ? expr_int(h->c, -1)
                                                                              : most),
                made ? -1 : 0, at + d);
        }
        if (!type_is_static(type) && !made) {
            text_printf(&p->body, "    got = %u;\n", dtype_info[type->dtype].bytes);
            for (uint32_t d = 0; d < type->rank; d++)
                text_printf(&p->body, "    got = tn_size_mul(got, output_dims[%u]);\n", at + d);
            text_add(&p->body, "    if (got < 0)\n        return tn_refuse(fault, TN_FAULT_SIZE, "
                               "0, 0, got, 0);\n");
        }
        at += type->rank;
    }
    return at;
}

/* Scratch of one worker: the most of any kernel. */
static void
size_scratch(Parts *p)
{
    Host *h = p->h;
    Map seen = { .arena = h->a };
    int64_t most = 0, bytes;

    Map definer = graph_definers(h->g, h->a);
    for (uint32_t i = 0; i < h->p->plan->plan.n; i++) {
        const Graph *g = h->p->plan->plan.at[i]->graph;
        for (NodeId n = 1; n < g->node.n; n++) {
            const Expr *scratch =
                host_is_call(g, n) ? kernel_scratch_bytes(h->c, g->node.at[n].kernel) : NULL;
            if (!scratch || map_get(&seen, MAP_PTR(scratch), NULL))
                continue;
            map_put(&seen, MAP_PTR(scratch), 1);
            if (expr_const(scratch, &bytes)) {
                most = bytes > most ? bytes : most;
                continue;
            }
            if (i || graph_defined(&definer, scratch)) /* requested when it is known */
                continue;
            part_statement(p);
            text_printf(&p->body,
                        "    if ((got = %s) < 0)\n        return tn_refuse(fault, TN_FAULT_SIZE, "
                        "0, 0, got, 0);\n"
                        "    sizes->scratch_bytes = tn_max(sizes->scratch_bytes, got);\n",
                        host_checked(h, scratch));
        }
    }
    part_statement(p);
    text_printf(&p->body,
                "    sizes->scratch_bytes = tn_max(sizes->scratch_bytes, INT64_C(%lld));\n",
                (long long)most);
}

/* A function of its own, since a run calls it too if memory is missing. */
static void
size_memory(Host *h)
{
    Parts p = {
        .h = h,
        .t = h->t,
        .name = "tn_memory",
        .parameters = "const int64_t *sym, TnSizes *sizes, TnFault *fault",
        .arguments = "sym, sizes, fault",
        .begin = "    int64_t got = 0;\n    (void)sym, (void)fault, (void)got;\n",
    };

    part_statement(&p);
    text_printf(&p.body,
                "    sizes->scratch_bytes = 0;\n    if ((sizes->arena_bytes = %s) < 0)\n"
                "        return tn_refuse(fault, TN_FAULT_SIZE, 0, 0, sizes->arena_bytes, 0);\n",
                host_checked(h, h->p->plan->plan.at[0]->arena_bytes));
    size_scratch(&p);
    parts_end(&p);
}

uint32_t
host_prepare(Host *h)
{
    Parts parts = {
        .h = h,
        .t = h->t,
        .name = "tn_prepare",
        .parameters = "const int64_t *const *input_dims, int64_t *sym, int64_t *output_dims, "
                      "TnSizes *sizes, TnFault *fault",
        .arguments = "input_dims, sym, output_dims, sizes, fault",
        .begin = "    int64_t got = 0, want = 0;\n    (void)input_dims, (void)sym, "
                 "(void)output_dims, (void)sizes, (void)got, (void)want;\n",
    };

    size_memory(h);
    check_signs(&parts);
    bind_symbols(&parts);
    check_inputs(&parts);
    check_ranges(&parts);
    uint32_t rank_total = size_outputs(&parts);
    part_statement(&parts);
    text_add(&parts.body,
             "    if ((got = tn_memory(sym, sizes, fault)))\n        return (int)got;\n");
    parts_end(&parts);
    return rank_total;
}
