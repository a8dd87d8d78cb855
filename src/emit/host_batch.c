/* host_batch: prints a program for many requests (graph/batch.h) as tables; the prelude executes
 * them. */
#include "emit/host.h"

#include "graph/batch.h"

#include <string.h>

/* What is equal in all programs for many (prelude_batch.h): text of a program of one source, a unit
 * of its own beside others. */
static const char linked[] = "#define TN_LINKED __attribute__((visibility(\"hidden\")))\n",
                  shared[] =
#include "prelude_batch_shared_text.h"
    ;

const char *
emit_c_batch(Arena *a)
{
    static const char prelude[] =
#include "prelude_batch_text.h"
        ;

    return arena_printf(a, "%s%s%s%s", emit_c_host_prelude(false), linked, prelude, shared);
}

Bytes
emit_c_batch_object(void)
{
    static const uint8_t object[] = {
#include "batch_object.h"
    };

    return (Bytes){ object, sizeof object };
}

static void
table(Host *h, const char *name, const uint32_t *number, uint32_t n)
{
    text_printf(h->t, "static const int32_t %s[] = {", name);
    for (uint32_t i = 0; i < n; i++)
        text_printf(h->t, "%s%d, ", i % 24 || !i ? "" : "\n    ", (int)number[i]);
    text_add(h->t, "0};\n");
}

/* ---- types of rows --------------------------------------------------------------------------- */

/* Types of split values have numbers of their own, behind those of rows: one for each output of a
 * block. A block's types, with these; returns how many there are by now. */
static uint32_t
print_types(Host *h, const Batch *b, uint32_t block, uint32_t ntype)
{
    const BatchBlock *k = &b->block.at[block];
    uint32_t *type = NEW_ARRAY(h->a, uint32_t, k->nin + k->nout + 1);

    for (uint32_t i = 0; i < k->nin + k->nout; i++)
        type[i] = i >= k->nin && k->split && k->split[i - k->nin] ? ntype++ : k->type[i];
    table(h, arena_printf(h->a, "tn_batch_types_%u", block), type, k->nin + k->nout);
    return ntype;
}

/* The bytes of a row of each such type, and the number of its rows. */
static void
print_split(Host *h, const Batch *b)
{
    uint32_t number = b->type.n;

    for (uint32_t i = 0; i < b->block.n; i++)
        for (uint32_t o = 0; o < b->block.at[i].nout && b->block.at[i].split; o++) {
            const Type *t = b->type.at[b->block.at[i].type[b->block.at[i].nin + o]];
            if (!b->block.at[i].split[o])
                continue;
            const Type *row = type_new(h->c, t->dtype, t->rank - 1, t->dim + 1);
            text_printf(h->t, "    row_bytes[%u] = %s;\n    rows[%u] = %s;\n", number,
                        host_checked(h, type_bytes(h->c, row)), number, host_checked(h, t->dim[0]));
            number++;
        }
}

/* Symbols of the graphs that the model runs, and the bytes of a row of each type. */
static void
print_sizes(Host *h, const Batch *b)
{
    text_add(h->t,
             "static void\ntn_batch_sizes(int64_t *sym, int64_t *row_bytes, int64_t *rows)\n{\n"
             "    (void)sym, (void)row_bytes, (void)rows;\n");
    for (uint32_t i = 0; i < b->size.n; i++)
        if (map_get(&h->symbol_at, b->size.at[i].var.id, NULL)) /* a block uses it */
            text_printf(h->t, "    sym[%u] = %s;\n",
                        host_symbol(h, (Sym)(uintptr_t)b->size.at[i].var.id),
                        host_plain(h, b->size.at[i].to));
    for (uint32_t i = 0; i < b->type.n; i++)
        text_printf(h->t, "    row_bytes[%u] = %s;\n", i,
                    host_checked(h, type_bytes(h->c, b->type.at[i])));
    print_split(h, b);
    text_add(h->t, "}\n\n");
}

/* Updates of late sizes, and the sizes of the outputs. */
static void
print_updates(Host *h, const Batch *b)
{
    text_add(h->t, "static int\ntn_batch_update(int32_t number, const int64_t *sym, int64_t *to, "
                   "TnFault *fault)\n{\n    (void)sym, (void)to, (void)fault;\n"
                   "    switch (number) {\n");
    for (uint32_t i = 0; i < b->update.n; i++) {
        text_printf(h->t, "    case %u:\n", i);
        for (uint32_t k = 0; k < b->update.at[i].n; k++) {
            const Binding *s = &b->update.at[i].at[k];
            uint32_t at = host_symbol(h, (Sym)(uintptr_t)s->var.id);
            Interval r = expr_symbol_get(h->c, s->var);
            if (expr_is(s->to, 0)) { /* no rows yet */
                text_printf(h->t, "        to[%u] = 0;\n", at);
                continue;
            }
            text_printf(h->t,
                        "        to[%u] = %s;\n        if (to[%u] < INT64_C(%lld) || to[%u] > "
                        "INT64_C(%lld))\n"
                        "            return tn_refuse(fault, TN_FAULT_SYMBOL, %u, 0, to[%u], "
                        "to[%u] < INT64_C(%lld) ? INT64_C(%lld) : INT64_C(%lld));\n",
                        at, host_checked(h, s->to), at, (long long)(r.lo > 0 ? r.lo : 0), at,
                        (long long)r.hi, at, at, at, (long long)(r.lo > 0 ? r.lo : 0),
                        (long long)(r.lo > 0 ? r.lo : 0), (long long)r.hi);
        }
        text_add(h->t, "        break;\n");
    }
    text_add(
        h->t,
        "    }\n    return 0;\n}\n\nTN_CALLED int\ntn_batch_check(int32_t number, const int64_t "
        "*sym, TnFault *fault)\n{\n    int64_t got = 0, want = 0;\n    (void)sym, (void)fault;\n"
        "    switch (number) {\n");
    uint32_t first = 0;
    for (uint32_t i = 0; i < h->p->plan->plan.n; i++)
        first += h->p->plan->plan.at[i]->graph->constraints.n;
    for (uint32_t i = 0; i < b->check.n; i++) {
        const Constraint *k = &b->check.at[i];
        text_printf(h->t,
                    "    case %u:\n        got = %s, want = %s;\n        if (got != want%s)\n"
                    "            return tn_refuse(fault, TN_FAULT_CONSTRAINT, %u, %s, got, "
                    "want);\n        break;\n",
                    i, host_checked(h, k->a), host_checked(h, k->b), host_or_one(k), first + i,
                    host_constraint_at(h, k));
    }
    text_add(
        h->t,
        "    }\n    (void)got, (void)want;\n    return 0;\n}\n\nstatic void\ntn_batch_dims(const "
        "int64_t *sym, int64_t *output_dims)\n{\n    (void)sym, (void)output_dims;\n");
    for (uint32_t i = 0, at = 0; i < h->g->output.n; i++) {
        const Type *t = h->g->value.at[h->g->output.at[i]].type;
        for (uint32_t d = 0; d < t->rank; d++, at++)
            text_printf(h->t, "    output_dims[%u] = %s;\n", at, host_checked(h, t->dim[d]));
    }
    text_add(h->t, "}\n\nstatic const int32_t tn_batch_late[] = {");
    for (uint32_t i = 0; i < b->late.n; i++)
        text_printf(h->t, "%u, ", host_symbol(h, (Sym)(uintptr_t)b->late.at[i].id));
    text_add(h->t, "0};\n");
}

/* ---- sizes that blocks depend on ------------------------------------------------------------- */

/* The symbols of the model's inputs that determine the sizes of block i. */
static void
sizes_of_block(Host *h, const Batch *b, uint32_t i, const Graph *g)
{
    SymbolSet used = { .seen.arena = h->a }, inputs = { .seen.arena = h->a };
    VEC(uint32_t) number = { 0 };
    uint64_t at;

    for (uint32_t k = 0; k < g->input.n; k++)
        type_symbols(&used, g->value.at[g->input.at[k]].type);
    for (NodeId id = 1; id < g->node.n; id++)
        graph_symbols(&used, g, id);
    for (uint32_t k = 0; k < b->block.at[i].nin + b->block.at[i].nout; k++)
        type_symbols(&used, b->type.at[b->block.at[i].type[k]]);
    batch_inputs_of(b, &used, &inputs);
    for (uint32_t k = 0; k < inputs.n; k++) {
        uint64_t id = MAP_PTR(inputs.at[k]);
        if (id != b->instances.id && id != b->rows.id && map_get(&h->symbol_at, id, &at))
            VEC_PUSH(h->a, &number, (uint32_t)at);
    }
    VEC_PUSH(h->a, &number, UINT32_MAX);
    table(h, arena_printf(h->a, "tn_batch_sizes_%u", i), number.at, number.n);
}

static uint32_t
plan_number(const Host *h, const Graph *g)
{
    uint32_t i = 0;

    while (i < h->p->plan->plan.n && h->p->plan->plan.at[i]->graph != g)
        i++;
    return i;
}

/* ---- host blocks ----------------------------------------------------------------------------- */

/* The address of a value of a host block, as C; NULL: the block needs memory of its own for it. */
static const char *
direct_place(Host *h, const Plan *plan, ValueId v)
{
    const Placement *at = &plan->value[v];

    switch (at->place) {
    case PLACE_INPUT: return arena_printf(h->a, "(void *)in[%u]", at->index);
    case PLACE_OUTPUT: return at->offset ? NULL : arena_printf(h->a, "out[%u]", at->index);
    case PLACE_WEIGHT:
        return arena_printf(h->a, "(char *)f->weights + %s", host_plain(h, at->offset));
    default: return NULL;
    }
}

/* The number of plan `number`'s first call among all calls, which are counted from the last plan on
 * (host_kernels). */
static uint32_t
first_call(const Host *h, uint32_t number)
{
    uint32_t first = 0;

    for (uint32_t i = h->p->plan->plan.n; i-- > number + 1;)
        for (NodeId id = 1; id < h->p->plan->plan.at[i]->graph->node.n; id++)
            first += host_is_call(h->p->plan->plan.at[i]->graph, id) ||
                     host_is_routine(h->p->plan->plan.at[i]->graph, id);
    return first;
}

uint32_t
host_first_call(const Host *h, const Graph *g)
{
    return first_call(h, plan_number(h, g));
}

/* Does a kernel's text use only functions that kernels share with the host program
 * (prelude_sizes.h)? */
static bool
is_plain(const char *text)
{
    static const char *const known[] = { "tn_at",  "tn_div", "tn_mod",    "tn_quo",    "tn_rem",
                                         "tn_min", "tn_max", "tn_inside", "tn_or_zero" };

    for (const char *s = text; (s = strstr(s, "tn_")) != NULL;) {
        size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz_0123456789"), i = 0;
        while (i < sizeof known / sizeof *known &&
               (strlen(known[i]) != n || strncmp(s, known[i], n)))
            i++;
        if (i == sizeof known / sizeof *known)
            return false;
        s += n;
    }
    return true;
}

/* Prints a kernel of a host block again next to its call, so that the compiler can inline it; its
 * name. It computes integers, or copies floats without changing them, denormals too. NULL: it uses
 * what only the kernels' prelude has. */
static const char *
print_kernel_here(Host *h, const Kernel *k, const KernelCode *code)
{
    static const char begin[] = "TN_KERNEL ";
    const char *name = arena_printf(h->a, "here_%s", code->symbol);
    Text t = { .arena = h->a };
    SymbolList sizes = code->sizes;

    if (!emit_c_kernel(h->c, &t, k, name, &sizes, EMIT_KEEP_DENORMALS) || sizes.n != code->sizes.n)
        return NULL;
    const char *text = text_str(&t);
    if (strncmp(text, begin, strlen(begin)) || !is_plain(text))
        return NULL;
    if (!map_get(&h->here, MAP_PTR(sym(h->c, name)), NULL)) {
        map_put(&h->here, MAP_PTR(sym(h->c, name)), 1);
        text_printf(h->t, "TN_INLINE void %s\n", text + strlen(begin));
    }
    return name;
}

/* Prints direct calls of a host block's kernels instead of a table of calls. False: it needs
 * memory, variants, a symbolic number of iterations, or library routines. */
static bool
print_direct(Host *h, uint32_t number, const char *name)
{
    const Plan *plan = h->p->plan->plan.at[number];
    const Graph *g = plan->graph;
    Text t = { .arena = h->a };
    uint32_t call = first_call(h, number);
    int64_t trips;

    if (plan->copy.n || plan->nblock || !expr_is(plan->arena_bytes, 0))
        return false;
    for (NodeId id = 1; id < g->node.n; id++) {
        const Node *n = &g->node.at[id];
        if (!host_is_call(g, id) || n->kernel->nvariant || !expr_const(n->kernel->trips, &trips) ||
            !expr_is(kernel_scratch_bytes(h->c, n->kernel), 0))
            return false;
        const KernelCode *code = host_code(h, n->kernel);
        const char *here = print_kernel_here(h, n->kernel, code);
        text_add(&t, "    {\n        void *const buf[] = {");
        for (uint32_t i = 0; i < n->in.count + n->out.count; i++) {
            const char *place = direct_place(
                h, plan, i < n->in.count ? node_in(g, n, i) : node_out(g, n, i - n->in.count));
            if (!place)
                return false;
            text_printf(&t, "%s, ", place);
        }
        text_add(&t, "0};\n        const int64_t size[] = {");
        for (uint32_t i = 0; i < code->sizes.n; i++)
            text_printf(&t, "sym[%u], ", host_symbol(h, code->sizes.at[i]));
        text_printf(&t,
                    "0};\n        const TnArgs args = {sizeof args, buf, size, f->fault, %u};\n"
                    "        %s(&args, 0, INT64_C(%lld), 0);\n    }\n",
                    call++, here ? here : code->symbol, (long long)trips);
    }
    text_printf(h->t,
                "TN_INLINE int\n%s(const TnFrame *f, const void *const *in, "
                "void *const *out, const int64_t *sym)\n{\n    (void)in, (void)out, (void)sym;\n%s"
                "    return f->fault->code;\n}\n\n",
                name, text_str(&t));
    return true;
}

/* The position of a symbol that only blocks for several requests use; 0: there are no such
 * blocks. */
static uint32_t
position(Host *h, Var symbol)
{
    uint64_t at = 0;

    map_get(&h->symbol_at, symbol.id, &at);
    return (uint32_t)at;
}

/* Does each call of a kernel read all of input i? Of a table read at gathered indices it reads a
 * few rows. */
static bool
is_read_whole(Host *h, const Kernel *k, uint32_t i)
{
    bool whole = false;

    for (uint32_t p = 0; p < k->npart; p++) {
        Accesses all = nest_accesses(h->c, h->a, k->part[p].nest);
        for (uint32_t x = 0; x < all.n; x++) {
            const Scalar *load = all.at[x].load;
            bool placed = false;
            if (k->part[p].buffer[load->u.load.slot] != i)
                continue;
            for (uint32_t d = 0; d < load->u.load.rank; d++)
                placed |= expr_uses_kind(load->u.load.at[d], VAR_COMPUTED);
            whole |= !placed;
        }
    }
    return whole;
}

/* Bytes of the constants that blocks read completely. */
static int64_t
weights_read(Host *h, const Node *blocks)
{
    Map seen = { .arena = h->a };
    int64_t sum = 0, bytes;

    for (uint32_t r = 0; r < blocks->nregion; r++) {
        const Graph *g = blocks->region[r].graph;
        for (NodeId id = 1; id < g->node.n; id++) {
            const Node *n = &g->node.at[id];
            for (uint32_t i = 0; n->kernel && i < n->in.count; i++) {
                const Value *x = &g->value.at[node_in(g, n, i)];
                if (!x->data || map_get(&seen, MAP_PTR(x->data), NULL) ||
                    !type_static_bytes(x->type, &bytes) || !is_read_whole(h, n->kernel, i))
                    continue;
                map_put(&seen, MAP_PTR(x->data), 1);
                sum += bytes;
            }
        }
    }
    return sum;
}

static const Node *
blocks_of(const Graph *g)
{
    for (NodeId id = 1; id < g->node.n; id++)
        if (g->node.at[id].callee == CALL_BLOCKS)
            return &g->node.at[id];
    return NULL;
}

const Batch *
emit_batch(const Graph *g)
{
    const Node *n = blocks_of(g);
    return n ? n->batch : NULL;
}

/* NULL: by depth. */
static void
print_policy(Host *h, const TnBatchPolicy *p)
{
    static const TnBatchPolicy depth = { .kind = TN_POLICY_DEPTH };

    p = p ? p : &depth;
    text_add(h->t, "static const TnBatchState tn_batch_states[] = {\n");
    for (int32_t i = 0; i < p->nstate; i++)
        text_printf(h->t, "    {%d, %d, %d, %d},\n", p->state[i].type, p->state[i].action,
                    p->state[i].child, p->state[i].next);
    text_printf(h->t,
                "    {0, 0, 0, 0}\n};\nstatic const TnBatchPolicy tn_batch_policy = {sizeof "
                "tn_batch_policy, %d, %d, tn_batch_states, UINT64_C(%llu), 0, 0};\n",
                p->kind, p->nstate, (unsigned long long)p->seed);
}

void
host_batch(Host *h)
{
    const Node *n = blocks_of(h->g);
    const Batch *b = h->batch = n ? n->batch : NULL;

    if (!n)
        return;
    static const char prelude[] =
#include "prelude_batch_text.h"
        ;
    text_printf(h->t, "%s%s\n", h->single_file ? "" : linked, prelude);
    if (h->single_file)
        text_add(h->t, shared);
    uint32_t ntype = b->type.n;
    for (uint32_t i = 0; i < b->block.n; i++)
        ntype = print_types(h, b, i, ntype);
    for (uint32_t i = 0; i < b->block.n; i++)
        sizes_of_block(h, b, i, n->region[i].graph);
    const char **host = NEW_ARRAY(h->a, const char *, b->block.n + 1);
    for (uint32_t i = 0; i < b->block.n; i++) {
        const char *name = arena_printf(h->a, "tn_host_%u", i);
        uint32_t plan = plan_number(h, n->region[i].graph);
        if (b->block.at[i].kind == BLOCK_HOST && print_direct(h, plan, name))
            host[i] = name;
    }
    text_add(h->t, "static const TnBatchBlock tn_batch_blocks[] = {\n");
    for (uint32_t i = 0; i < b->block.n; i++)
        text_printf(h->t,
                    "    {tn_graph_%u, %u, %u, %d, %d, tn_batch_types_%u, "
                    "tn_batch_sizes_%u},\n",
                    plan_number(h, n->region[i].graph), b->block.at[i].nin, b->block.at[i].nout,
                    b->block.at[i].kind != BLOCK_BATCHED, b->block.at[i].last, i, i);
    text_add(h->t, "    {0, 0, 0, 0, 0, 0, 0}\n};\nstatic const TnBlockInfo tn_batch_info[] = {\n");
    for (uint32_t i = 0; i < b->block.n; i++) {
        text_add(h->t, "    {");
        host_string(h->t, b->block.at[i].name);
        text_printf(h->t, ", %u, %d},\n", b->block.at[i].nodes, b->block.at[i].kind == BLOCK_HOST);
    }
    text_add(h->t, "    {0, 0, 0}\n};\nstatic const TnBatchFunction tn_batch_functions[] = {\n");
    for (uint32_t i = 0; i < b->function.n; i++)
        text_printf(h->t, "    {%u, %u},\n", b->function.at[i].nslot, b->function.at[i].ncounter);
    text_add(h->t, "};\n");
    const BatchFunction *model = b->function.at;
    table(h, "tn_batch_inputs", model->type, model->nparam);
    table(h, "tn_batch_outputs", model->type + model->nparam, model->nresult);
    text_add(h->t, "static const unsigned char tn_batch_input_rows[] = {");
    for (uint32_t i = 0; i < model->nparam; i++)
        text_printf(h->t, "%d, ", b->input_row[i]);
    text_add(h->t, "0};\n");
    print_sizes(h, b);
    print_updates(h, b);
    host_walk(h, n, host);
    print_policy(h, h->p->policy);
    text_printf(
        h->t,
        "static const TnBatchProgram tn_batch_program = {tn_batch_functions, tn_batch_blocks, "
        "tn_batch_inputs, tn_batch_outputs, tn_batch_late, tn_batch_input_rows,\n"
        "    %u, %u, %u, %u, %u, %u, %u, INT64_C(%lld), INT64_C(%lld), INT64_C(%lld), "
        "INT64_C(%lld),\n"
        "    tn_batch_walk, tn_batch_sizes, tn_batch_update, tn_batch_dims,\n"
        "    &tn_batch_policy};\n\n"
        "static int\ntn_many(const TnMany *m)\n{\n"
        "    TnFrame frame;\n    memset(&frame, 0, sizeof frame);\n    memset(m->fault, 0, sizeof "
        "*m->fault);\n"
        "    frame.size = sizeof frame;\n    frame.weights = m->weights ? m->weights : %s;\n    "
        "frame.sym = 0;\n"
        "    frame.host = m->host;\n    frame.fault = m->fault;\n    frame.memory = m->memory;\n",
        b->block.n, ntype, model->nparam, model->nresult, position(h, b->instances),
        position(h, b->rows), h->nsymbol,
        (long long)(h->p->max_trips && h->p->max_trips < INT32_MAX ? h->p->max_trips
                                                                   : EMIT_MAX_TRIPS),
        (long long)(h->p->max_calls ? h->p->max_calls : EMIT_MAX_CALLS),
        (long long)h->p->machine->level[LEVEL_L2].bytes, (long long)weights_read(h, n),
        h->own_weights);
    if (h->p->plan->weights_bytes)
        text_printf(h->t,
                    "    if (!frame.weights)\n        return tn_refuse(m->fault, TN_FAULT_WEIGHTS, "
                    "0, 0, 0, INT64_C(%lld));\n",
                    (long long)h->p->plan->weights_bytes);
    text_add(h->t, "    return tn_batch(&tn_batch_program, m, &frame);\n}\n\n");
}
