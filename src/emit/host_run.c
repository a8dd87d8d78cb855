/* host_run: the program itself: the calls of the kernels, in order.
 *
 * Every graph is a function that takes a frame: its inputs, outputs and memory. Nodes that branch,
 * loop or call make a frame for the graph that they run (host_control.c).
 *
 * Calls are rows of one table, each as long as the call's buffers and sizes require:
 *
 *     kernel, trips, grain, n, m,   where, offset, … n times,   size, … m times
 *
 * that is, the kernel; its distribution; its buffers; the symbols it reads. Kernels number sizes by
 * themselves, so equal work with different symbols is one function. A number that depends on
 * symbols is TN_N(k): the k-th size of the function that walks over the row, which computes its
 * sizes once at its beginning. Adjacent rows without anything in between are one statement.
 */
#include "emit/host.h"

/* The memory of a value, and the byte in it: as two columns of a row, or two arguments of
 * tn_place. */
static void
print_access(ProgramPrinter *p, Text *t, ValueId v)
{
    static const char *const where[] = {
        [PLACE_INPUT] = "TN_INPUT", [PLACE_OUTPUT] = "TN_OUTPUT", [PLACE_WEIGHT] = "TN_WEIGHTS",
        [PLACE_ARENA] = "TN_ARENA", [PLACE_BLOCK] = "TN_BLOCK",   [PLACE_TABLE] = "TN_TABLE",
    };
    const Placement *at = &p->plan->value[v];

    if (at->place == PLACE_OUTPUT && at->offset) {
        text_printf(t, "TN_BEHIND + %u, ", at->index);
        part_number(&p->parts, t, at->offset);
        return;
    }
    text_printf(t, "%s, ", where[at->place]);
    if (at->place == PLACE_INPUT || at->place == PLACE_OUTPUT || at->place == PLACE_BLOCK ||
        at->place == PLACE_TABLE)
        text_printf(t, "%u", at->index);
    else
        part_number(&p->parts, t, at->offset);
}

/* ---- statements ------------------------------------------------------------------------------ */

static void
end_calls(ProgramPrinter *p)
{
    if (p->run_row < p->nrow) {
        text_printf(&p->parts.body, "    {\n        void *buf[%u];\n        int64_t size[%u];\n",
                    p->run_buffers, p->run_sizes ? p->run_sizes : 1);
        host_try(&p->parts.body, "        ",
                 "tn_calls(f, n, tn_functions, tn_rows + %u, %u, %u, buf, size)", p->run_at,
                 p->run_row, p->nrow - p->run_row);
        text_add(&p->parts.body, "    }\n");
    }
    p->run_buffers = p->run_sizes = 0;
    p->run_at = p->length;
    p->run_row = p->nrow;
}

void
program_statement(ProgramPrinter *p)
{
    end_calls(p);
    part_statement(&p->parts);
}

const char *
program_place(ProgramPrinter *p, ValueId v)
{
    Text t = { .arena = p->h->a };

    text_add(&t, "tn_place(f, n, ");
    print_access(p, &t, v);
    text_add(&t, ")");
    return text_str(&t);
}

/* checked for overflow */
static const char *
program_bytes(ProgramPrinter *p, const Type *t, const Format *f)
{
    Ctx *c = p->h->c;
    return host_checked(p->h, expr_scale(c, format_count(c, f, t), dtype_info[t->dtype].bytes));
}

void
program_memory(ProgramPrinter *p, NodeId id)
{
    const Node *n = &p->g->node.at[id];

    for (uint32_t i = 0; i < n->out.count; i++) {
        const Value *v = &p->g->value.at[node_out(p->g, n, i)];
        const Placement *at = &p->plan->value[node_out(p->g, n, i)];
        if (at->place != PLACE_BLOCK)
            continue;
        program_statement(p);
        text_printf(&p->parts.body, "    if ((code = tn_need(f, &f->block[%u], %s)))    /* %%",
                    at->index, program_bytes(p, v->type, v->format));
        text_comment(&p->parts.body, v->name);
        text_add(&p->parts.body, " */\n        return code;\n");
    }
}

/* Scratch that prepare could not size. */
static void
get_scratch(ProgramPrinter *p, NodeId id)
{
    const Expr *scratch = kernel_scratch_bytes(p->h->c, p->g->node.at[id].kernel);

    if (!expr_const(scratch, NULL) && (p->g != p->h->g || graph_defined(&p->definer, scratch))) {
        program_statement(p);
        host_try(&p->parts.body, "    ", "tn_scratch(f, %s)", host_checked(p->h, scratch));
    }
}

typedef const Expr *OfKernel(ProgramPrinter *p, const Kernel *k);

static const Expr *
function_of(ProgramPrinter *p, const Kernel *k)
{
    return expr_int(p->h->c, host_function(p->h, k));
}

static const Expr *
trips_of(ProgramPrinter *p, const Kernel *k)
{
    (void)p;
    return k->trips;
}

static const Expr *
grain_of(ProgramPrinter *p, const Kernel *k)
{
    (void)p;
    return k->grain;
}

/* A column of a row: the kernel's, or that of the variant that runs. */
static void
column(ProgramPrinter *p, const Kernel *k, OfKernel *say)
{
    const Expr **of = NEW_ARRAY(p->h->a, const Expr *, 1 + k->nvariant);

    of[0] = say(p, k);
    for (uint32_t i = 0; i < k->nvariant; i++)
        of[1 + i] = say(p, k->variant[i]);
    part_number(&p->parts, &p->rows, k->nvariant ? kernel_pick(p->h->c, k, of) : of[0]);
}

static void
call(ProgramPrinter *p, NodeId id)
{
    const Node *n = &p->g->node.at[id];
    Text *t = &p->rows;
    const SymbolList *sizes = &host_code(p->h, n->kernel)->sizes;
    uint32_t nbuffer = n->in.count + n->out.count;

    program_memory(p, id);
    get_scratch(p, id);
    if (p->run_row == p->nrow || part_is_full(&p->parts))
        program_statement(p);
    text_add(t, "    ");
    column(p, n->kernel, function_of);
    text_add(t, ", ");
    column(p, n->kernel, trips_of);
    text_add(t, ", ");
    column(p, n->kernel, grain_of);
    text_printf(t, ", %u, %u,  ", nbuffer, sizes->n);
    for (uint32_t i = 0; i < nbuffer; i++) {
        print_access(p, t,
                     i < n->in.count ? node_in(p->g, n, i) : node_out(p->g, n, i - n->in.count));
        text_add(t, i + 1 < nbuffer ? ", " : ",");
    }
    for (uint32_t i = 0; i < sizes->n; i++)
        text_printf(t, "%s%u,", i ? " " : "  ", host_symbol(p->h, sizes->at[i]));
    text_add(t, "    /* ");
    text_comment(t, n->kernel->origin ? n->kernel->origin : n->kernel->name);
    text_add(t, " */\n");
    p->length += 5 + 2 * nbuffer + sizes->n;
    p->run_buffers = nbuffer > p->run_buffers ? nbuffer : p->run_buffers;
    p->run_sizes = sizes->n > p->run_sizes ? sizes->n : p->run_sizes;
    p->nrow++;
}

/* ---- results --------------------------------------------------------------------------------- */

/* The last output that is a copy of value v. */
static bool
is_last_copy(const Plan *plan, uint32_t k)
{
    for (uint32_t i = k + 1; i < plan->copy.n; i++)
        if (plan->copy.at[i].from == plan->copy.at[k].from)
            return false;
    return true;
}

static void
copy(ProgramPrinter *p, uint32_t k)
{
    ValueId from = p->plan->copy.at[k].from;
    uint32_t output = p->plan->copy.at[k].output;
    const Value *v = &p->g->value.at[from];
    Text *t = &p->parts.body;

    program_statement(p);
    if (p->g == p->h->g && v->type->dtype == DT_STR) {
        host_try(t, "    ", "tn_text_out(f, f->made[%u], %s, %s)", output, program_place(p, from),
                 host_checked(p->h, type_count(p->h->c, v->type)));
        return;
    }
    bool made = p->plan->made && p->plan->made[output];
    if (made && p->plan->value[from].place == PLACE_BLOCK && is_last_copy(p->plan, k)) {
        text_printf(t, "    tn_move(f, f->made[%u], &f->block[%u]);\n", output,
                    p->plan->value[from].index);
        return;
    }
    if (made)
        host_try(t, "    ", "tn_need(f, f->made[%u], %s)", output, program_bytes(p, v->type, NULL));
    text_printf(t, "    memcpy(f->%s[%u]%s, %s, (size_t)(%s));\n", made ? "made" : "outputs",
                output, made ? "->at" : "", program_place(p, from),
                host_plain(p->h, type_bytes(p->h->c, v->type)));
}

/* Sizes of results that only the run determines, for callers that cannot read this graph's
 * symbols. */
static void
tell_dims(ProgramPrinter *p)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < p->g->output.n; i++) {
        const Type *t = p->g->value.at[p->g->output.at[i]].type;
        for (uint32_t d = 0; d < t->rank; d++, at++) {
            if (!graph_defined(&p->definer, t->dim[d]))
                continue;
            program_statement(p);
            text_printf(
                &p->parts.body,
                "    if (f->output_dims && (f->output_dims[%u] = %s) < 0)\n"
                "        return tn_refuse(f->fault, TN_FAULT_SIZE, 0, 0, f->output_dims[%u], 0);\n",
                at, host_checked(p->h, t->dim[d]), at);
        }
    }
}

/* ---- what must hold -------------------------------------------------------------------------- */

void
program_constraints(ProgramPrinter *p, NodeId id)
{
    for (uint32_t i = 0; i < p->g->constraints.n; i++) {
        const Constraint *k = &p->g->constraints.at[i];
        NodeId a = graph_defined(&p->definer, k->a), b = graph_defined(&p->definer, k->b);
        if ((a > b ? a : b) != id)
            continue;
        program_statement(p);
        text_printf(
            &p->parts.body,
            "    {\n        const int64_t got = %s, want = %s;\n        if (got != want%s)\n"
            "            return tn_refuse(f->fault, TN_FAULT_CONSTRAINT, %u, "
            "%s, got, want);\n    }\n",
            host_checked(p->h, k->a), host_checked(p->h, k->b), host_or_one(k),
            host_constraint(p->h, p->g) + i, host_constraint_at(p->h, k));
    }
}

/* ---- the tables, the functions --------------------------------------------------------------- */

static void
print_tables(const ProgramPrinter *p, Text *t)
{
    text_add(t, "static TnKernelFn *const tn_functions[] = {\n");
    for (uint32_t i = 0; i < p->h->function.n; i++)
        text_printf(t, "    %s,\n", p->h->function.at[i]);
    text_printf(t,
                "    0\n};\n\n/* kernel, trips, grain, buffers, sizes; then of each buffer where "
                "it lies and at which byte; then the sizes */\n"
                "static const int64_t tn_rows[] = {\n%s    0\n};\n\n",
                text_str(&p->rows));
}

const char *
program_graph(ProgramPrinter *p, const Graph *g)
{
    for (uint32_t i = 0; i < p->h->p->plan->plan.n; i++)
        if (p->h->p->plan->plan.at[i]->graph == g)
            return arena_printf(p->h->a, "tn_graph_%u", i);
    p->h->failed = !diag_error(&p->h->c->diags, DIAG_INTERNAL, (Loc){ 0 },
                               "emit: graph %s has no plan", g->name);
    return "";
}

/* The memory of one run of the graph, around its statements. After a fault the caller frees the
 * blocks. */
static void
graph_function(ProgramPrinter *p, Text *t)
{
    text_printf(t, "/* ");
    text_comment(t, p->g->name);
    text_printf(t,
                " */\nstatic int\n%s(const TnFrame *caller)\n{\n    TnFrame frame = *caller, *f = "
                "&frame;\n    int code = 0;\n",
                program_graph(p, p->g));
    if (p->plan->nblock)
        text_printf(t, "    TnBlock block[%u] = {{0, 0}};\n    frame.block = block;\n",
                    p->plan->nblock);
    bool arena = p->g != p->h->g && !expr_is(p->plan->arena_bytes, 0);
    if (arena)
        text_printf(
            t,
            "    TnBlock arena = {0, 0};\n    const int64_t *const sym = f->sym;\n    (void)sym;\n"
            "    if (!frame.arena && (code = tn_need(f, &arena, %s)))\n        return code;\n"
            "    if (!frame.arena)\n        frame.arena = arena.at;\n",
            host_checked(p->h, p->plan->arena_bytes));
    text_printf(t, "    code = %s(f);\n", p->parts.name);
    if (p->plan->nblock)
        text_printf(t, "    for (int i = 0; i < %u; i++)\n        tn_put(f, &block[i]);\n",
                    p->plan->nblock);
    if (arena)
        text_add(t, "    tn_put(f, &arena);\n");
    text_add(t, "    return code;\n}\n\n");
}

static void
print_graph(ProgramPrinter *p, const Plan *plan, uint32_t number)
{
    Host *h = p->h;

    p->plan = plan;
    p->g = plan->graph;
    p->definer = graph_definers(p->g, h->a);
    p->parts = (Parts){
        .h = h,
        .t = p->functions,
        .name = number ? arena_printf(h->a, "tn_steps_of_%u", number) : "tn_steps",
        .parameters = "const TnFrame *f",
        .arguments = "f",
        .numbers = true,
        .begin =
            "    int64_t *const sym = f->sym;\n    int code = 0;\n    (void)sym, (void)code;\n",
    };
    if (number)
        program_constraints(p, 0);
    for (NodeId n = 1; n < p->g->node.n; n++)
        if (host_is_call(p->g, n))
            call(p, n);
        else
            host_control(p, n);
    for (uint32_t i = 0; i < plan->copy.n; i++)
        copy(p, i);
    tell_dims(p);
    end_calls(p);
    parts_end(&p->parts);
    graph_function(p, p->functions);
}

/* ---- what is missing ------------------------------------------------------------------------- */

static void
check_value(Parts *p, const char *side, const char *what, uint32_t i, const Type *type)
{
    Host *h = p->h;
    const Expr *bytes = expr_int(h->c, dtype_info[type->dtype].bytes);

    for (uint32_t d = 0; d < type->rank; d++)
        bytes = expr_mul(h->c, bytes, type->dim[d]);
    part_statement(p);
    host_try(&p->body, "    ", "tn_has(f, f->%s[%u], %s, %u, %s, %u)", side, i, what, i,
             host_checked(h, bytes),
             dtype_info[type->dtype].bytes ? dtype_info[type->dtype].bytes : 1);
}

static bool
data_define(const Map *definer, const Type *type)
{
    for (uint32_t d = 0; d < type->rank; d++)
        if (graph_defined(definer, type->dim[d]))
            return true;
    return false;
}

/* tn_frame: checks that everything the program reads and writes is there. Memory is sized only if
 * there is none. */
static void
check_frame(Host *h)
{
    Map definer = graph_definers(h->g, h->a);
    const Plan *plan = h->p->plan->plan.at[0];
    Parts p = {
        .h = h,
        .t = h->t,
        .name = "tn_frame",
        .parameters = "const TnFrame *f",
        .arguments = "f",
        .begin = "    const int64_t *const sym = f->sym;\n    int code = 0;\n    (void)sym, "
                 "(void)code;\n",
    };

    part_statement(&p);
    if (h->nsymbol)
        host_try(&p.body, "    ", "tn_has(f, sym, TN_FRAME_SYM, 0, %u, 8)", 8 * h->nsymbol);
    if (h->g->input.n)
        host_try(&p.body, "    ", "tn_has(f, f->inputs, TN_FRAME_INPUT, 0, %u, 1)",
                 8 * h->g->input.n);
    if (h->g->output.n)
        host_try(&p.body, "    ", "tn_has(f, f->outputs, TN_FRAME_OUTPUT, 0, %u, 1)",
                 8 * h->g->output.n);
    for (uint32_t i = 0; i < h->g->input.n; i++)
        check_value(&p, "inputs", "TN_FRAME_INPUT", i, h->g->value.at[h->g->input.at[i]].type);
    for (uint32_t i = 0; i < h->g->output.n; i++) {
        const Type *type = h->g->value.at[h->g->output.at[i]].type;
        if (!(plan->made && plan->made[i]) && !data_define(&definer, type))
            check_value(&p, "outputs", "TN_FRAME_OUTPUT", i, type);
    }
    if (h->p->plan->weights_bytes) {
        part_statement(&p);
        host_try(&p.body, "    ", "tn_has(f, f->weights, TN_FRAME_WEIGHTS, 0, INT64_C(%lld), 64)",
                 (long long)h->p->plan->weights_bytes);
    }
    part_statement(&p);
    text_add(&p.body, "    const void *const scratch = f->host->scratch;\n"
                      "    if (!f->arena || (uintptr_t)f->arena % 64 || (!f->host->parallel && "
                      "(!scratch || (uintptr_t)scratch % 64))) {\n"
                      "        TnSizes sizes = {sizeof sizes, 0, 0, 0};\n"
                      "        if ((code = tn_memory(sym, &sizes, f->fault)) || (code = tn_has(f, "
                      "f->arena, TN_FRAME_ARENA, 0, sizes.arena_bytes, 64))\n"
                      "            || (!f->host->parallel && (code = tn_has(f, scratch, "
                      "TN_FRAME_SCRATCH, 0, sizes.scratch_bytes, 64))))\n"
                      "            return code;\n    }\n");
    parts_end(&p);
}

void
host_run(Host *h)
{
    Text functions = { .arena = h->a };
    ProgramPrinter p = { .h = h, .rows.arena = h->a, .functions = &functions };
    const ModelPlan *m = h->p->plan;

    for (uint32_t i = m->plan.n; i-- > 0;) /* callees first */
        print_graph(&p, m->plan.at[i], i);
    print_tables(&p, h->t);
    host_tables(h);
    host_routine_sources(h);
    for (uint32_t i = 0; i < m->plan.n; i++)
        text_printf(h->t, "static int %s(const TnFrame *);\n",
                    program_graph(&p, m->plan.at[i]->graph));
    text_add(h->t, "\n");
    host_batch(h);
    text_add(h->t, text_str(&functions));
    check_frame(h);
    text_add(h->t,
             "static int\ntn_run(const TnFrame *f)\n{\n    static const TnHost alone = {sizeof "
             "alone, 0, 0, 0};\n    TnFrame frame;\n    int code;\n"
             "    if (!f || f->size < __builtin_offsetof(TnFrame, memory) || !f->fault)\n        "
             "return TN_FAULT_FRAME;\n"
             "    memset(&frame, 0, sizeof frame);\n    memset(f->fault, 0, sizeof *f->fault);\n"
             "    memcpy(&frame, f, f->size < sizeof frame ? f->size : sizeof frame);\n    "
             "frame.depth = 0;\n"
             "    if (!frame.host)\n        frame.host = &alone;\n");
    if (m->table.n)
        text_add(h->t, "    frame.table = tn_tables;\n");
    text_printf(h->t, "    if (!frame.weights)\n        frame.weights = %s;\n", h->own_weights);
    if (m->weights_bytes)
        text_printf(h->t,
                    "    if (!frame.weights)\n        return tn_refuse(f->fault, TN_FAULT_WEIGHTS, "
                    "0, 0, 0, INT64_C(%lld));\n",
                    (long long)m->weights_bytes);
    text_add(h->t, "    if ((code = tn_frame(&frame)))\n        return code;\n");
    if (h->texts)
        text_printf(h->t,
                    "    TnBlock text = {0, 0};\n    frame.text = &text;\n    code = %s(&frame);\n "
                    "   tn_text_end(&frame);\n"
                    "    return code;\n}\n\n",
                    program_graph(&p, h->g));
    else
        text_printf(h->t, "    return %s(&frame);\n}\n\n", program_graph(&p, h->g));
}
