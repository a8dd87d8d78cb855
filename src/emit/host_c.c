/* host_c: the host program of a model as C: manifest, prepare, run.
 *
 * prepare binds the dimension symbols from the inputs' sizes (a dimension that is one symbol gives
 * its value; one linear in a symbol still unknown is solved for it), checks every dimension and
 * constraint, and computes sizes without overflow: from then on nothing can overflow, so run uses
 * plain arithmetic. run is the calls of the kernels in order.
 */
#include "emit/emit.h"

#include <string.h>

typedef struct {
    Ctx *c;
    Arena *a;
    Text *t;
    const HostProgram *p;
    const Graph *g;
    const Sym *symbol;
    uint32_t nsymbol;
    const char *own_weights;     /* C for the address of the weights that came with the code, or 0 */
    bool failed;
} Host;

/* ---- text ------------------------------------------------------------------------------------- */

static void
c_string(Text *t, const char *s)
{
    text_add(t, "\"");
    for (; s && *s; s++) {
        unsigned char ch = (unsigned char)*s;
        if (ch == '"' || ch == '\\')
            text_printf(t, "\\%c", ch);
        else if (ch < ' ' || ch > '~')
            text_printf(t, "\\%03o", ch);
        else
            text_bytes(t, s, 1);
    }
    text_add(t, "\"");
}

static void
comment_text(Text *t, const char *s)
{
    for (; s && *s; s++)
        if (s[0] == '*' && s[1] == '/')
            text_add(t, "* ");
        else
            text_bytes(t, (unsigned char)*s < ' ' ? " " : s, 1);
}

static uint32_t
symbol_at(Host *h, Sym s)
{
    for (uint32_t i = 0; i < h->nsymbol; i++)
        if (h->symbol[i] == s)
            return i;
    h->failed = !diag_error(&h->c->diags, DIAG_INTERNAL, (Loc){0}, "emit: dimension symbol %s has no position", s);
    return 0;
}

static void
print_symbol(void *user, Text *t, Var v)
{
    Host *h = user;
    if (v.kind == VAR_SYMBOL)
        text_printf(t, "sym[%u]", symbol_at(h, (Sym)(uintptr_t)v.id));
    else
        h->failed = !diag_error(&h->c->diags, DIAG_INTERNAL, (Loc){0}, "emit: a size depends on a loop");
}

static const char *
plain(Host *h, const Expr *x)
{
    Text t = {.arena = h->a};
    expr_print(&t, x, &(ExprStyle){print_symbol, h, true});
    return text_str(&t);
}

static const char *checked(Host *h, const Expr *x);

static const char *
checked_atom(Host *h, const Atom *atom)
{
    static const char *const function[] = {
        [ATOM_DIV] = "tn_size_div", [ATOM_MOD] = "tn_size_mod", [ATOM_MIN] = "tn_size_min", [ATOM_MAX] = "tn_size_max",
    };
    if (atom->kind == ATOM_VAR) {
        Text t = {.arena = h->a};
        print_symbol(h, &t, atom->var);
        return text_str(&t);
    }
    const char *s = checked(h, atom->arg[0]);
    for (uint32_t i = 1; i < atom->narg; i++)
        s = arena_printf(h->a, "%s(%s, %s)", function[atom->kind], s, checked(h, atom->arg[i]));
    return s;
}

/* An Expr over symbols whose overflow shows as TN_BAD_SIZE. */
static const char *
checked(Host *h, const Expr *x)
{
    if (x->bad)
        return "TN_BAD_SIZE";
    const char *sum = NULL;
    for (uint32_t i = 0; i < x->nterm; i++) {
        const Term *term = &x->term[i];
        const char *product = term->coef == 1 && term->nfactor > 0 ? NULL : arena_printf(h->a, "INT64_C(%lld)", (long long)term->coef);
        for (uint32_t f = 0; f < term->nfactor; f++)
            for (uint32_t n = 0; n < term->factor[f].power; n++) {
                const char *factor = checked_atom(h, term->factor[f].atom);
                product = product ? arena_printf(h->a, "tn_size_mul(%s, %s)", product, factor) : factor;
            }
        sum = sum ? arena_printf(h->a, "tn_size_add(%s, %s)", sum, product) : product;
    }
    return sum ? sum : "0";
}

/* ---- the manifest's tables ----------------------------------------------------------------------- */

static void
tensor_table(Host *h, const char *table, const ValueId *value, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const Type *type = h->g->value.at[value[i]].type;
        if (type->rank == 0)
            continue;
        text_printf(h->t, "static const int64_t tn_%s_dims_%u[] = {", table, i);
        for (uint32_t d = 0; d < type->rank; d++)
            text_printf(h->t, "%s%lld", d ? ", " : "", (long long)expr_or(type->dim[d], -1));
        text_printf(h->t, "};\nstatic const char *const tn_%s_text_%u[] = {", table, i);
        for (uint32_t d = 0; d < type->rank; d++) {
            text_add(h->t, d ? ", " : "");
            c_string(h->t, expr_str(h->c, type->dim[d]));
        }
        text_add(h->t, "};\n");
    }
    text_printf(h->t, "static const TnTensorInfo tn_%s[] = {\n", table);
    for (uint32_t i = 0; i < n; i++) {
        const Value *v = &h->g->value.at[value[i]];
        text_add(h->t, "    {");
        c_string(h->t, v->name);
        if (v->type->rank > 0)
            text_printf(h->t, ", \"%s\", %u, tn_%s_dims_%u, tn_%s_text_%u},\n", dtype_info[v->type->dtype].name, v->type->rank,
                        table, i, table, i);
        else
            text_printf(h->t, ", \"%s\", 0, 0, 0},\n", dtype_info[v->type->dtype].name);
    }
    text_add(h->t, n ? "};\n" : "    {0}\n};\n");
}

static bool
is_call(const Graph *g, NodeId n)
{
    return g->node.at[n].callee == CALL_KERNEL;
}

static void
string_tables(Host *h)
{
    text_add(h->t, "static const char *const tn_symbols[] = {");
    for (uint32_t i = 0; i < h->nsymbol; i++) {
        c_string(h->t, h->symbol[i]);
        text_add(h->t, ", ");
    }
    text_add(h->t, "0};\nstatic const char *const tn_constraints[] = {\n");
    for (uint32_t i = 0; i < h->g->constraints.n; i++) {
        const Constraint *k = &h->g->constraints.at[i];
        text_add(h->t, "    ");
        c_string(h->t, arena_printf(h->a, "%s: %s == %s", k->why, expr_str(h->c, k->a), expr_str(h->c, k->b)));
        text_add(h->t, ",\n");
    }
    text_add(h->t, "    0\n};\n");
}

/* A count over symbols; 0 where it overflows. */
static const char *
known(Host *h, const Expr *x)
{
    int64_t number;
    if (expr_const(x, &number))
        return arena_printf(h->a, "%lld", (long long)(number < 0 ? 0 : number));
    return arena_printf(h->a, "tn_max(%s, 0)", checked(h, x));
}

/* The table of kernels, and what each has to do. */
static uint32_t
kernel_table(Host *h)
{
    uint32_t nkernel = 0, nfunction = 0;
    Text work = {.arena = h->a};
    Map seen = {.arena = h->a};
    text_add(h->t, "static const TnKernelInfo tn_kernels[] = {\n");
    for (NodeId n = 1; n < h->g->node.n; n++) {
        if (!is_call(h->g, n))
            continue;
        const Kernel *k = h->g->node.at[n].kernel;
        KernelWork w = kernel_work(h->c, k);
        uint64_t function, symbol = hash_bytes(h->p->kernel_symbol[n], strlen(h->p->kernel_symbol[n]), 0);
        if (!map_get(&seen, symbol, &function))
            map_put(&seen, symbol, function = nfunction++);
        text_add(h->t, "    {");
        c_string(h->t, k->name);
        text_add(h->t, ", ");
        c_string(h->t, k->origin ? k->origin : k->name);
        text_printf(h->t, ", \"%s\", %u},\n", dtype_info[w.dtype].name, (unsigned)function);
        text_printf(&work, "    work[%u] = (TnWork){%s, %s, %s};\n", nkernel++, known(h, w.operations), known(h, w.bytes),
                    k->predicted ? known(h, k->predicted) : "0");
    }
    text_add(h->t, "    {0, 0, 0, 0}\n};\n\nstatic void\ntn_work(const int64_t *sym, TnWork *work)\n{\n    (void)sym, (void)work;\n");
    text_add(h->t, text_str(&work));
    text_add(h->t, "}\n\n");
    return nkernel;
}

/* ---- prepare ---------------------------------------------------------------------------------------- */

typedef struct { const Host *h; const bool *known; Var unknown; uint32_t n; } Census;

static void
count_unknown(void *user, Var v)
{
    Census *k = user;
    for (uint32_t i = 0; i < k->h->nsymbol; i++)
        if ((Sym)(uintptr_t)v.id == k->h->symbol[i] && k->known[i])
            return;
    k->unknown = v;
    k->n++;
}

/* Print how dimension d of input i gives a symbol, if it gives one now. */
static bool
bind_from(Host *h, bool *known, uint32_t i, uint32_t d, const Expr *dim)
{
    const Expr *coef, *rest;
    Census k = {.h = h, .known = known};
    expr_vars(dim, count_unknown, &k);
    if (k.n != 1 || k.unknown.kind != VAR_SYMBOL || !expr_linear(h->c, dim, k.unknown, &coef, &rest))
        return false;
    uint32_t s = symbol_at(h, (Sym)(uintptr_t)k.unknown.id);
    if (expr_is(coef, 1) && expr_is(rest, 0)) {
        text_printf(h->t, "    sym[%u] = input_dims[%u][%u];\n", s, i, d);
    } else {
        text_printf(h->t, "    if (!tn_solve(input_dims[%u][%u], %s, %s, &sym[%u]))    /* %s */\n", i, d, checked(h, coef),
                    checked(h, rest), s, expr_str(h->c, dim));
        text_printf(h->t, "        return tn_refuse(fault, TN_FAULT_DIM, %u, %u, input_dims[%u][%u], %s);\n", i, d, i, d,
                    checked(h, rest));
    }
    known[s] = true;
    return true;
}

static void
bind_symbols(Host *h)
{
    bool *known = NEW_ARRAY(h->a, bool, h->nsymbol + 1);
    for (bool learnt = true; learnt; ) {
        learnt = false;
        for (int bare = 1; bare >= 0 && !learnt; bare--)
            for (uint32_t i = 0; i < h->g->input.n; i++) {
                const Type *type = h->g->value.at[h->g->input.at[i]].type;
                for (uint32_t d = 0; d < type->rank; d++)
                    if (!bare || expr_is_var(type->dim[d], NULL))
                        learnt |= bind_from(h, known, i, d, type->dim[d]);
            }
    }
    for (uint32_t s = 0; s < h->nsymbol; s++)
        if (!known[s])
            h->failed = !diag_error(&h->c->diags, DIAG_UNSUPPORTED, (Loc){0},
                                    "dimension %s does not follow from the sizes of the inputs; give it a fixed size, or make it "
                                    "a dimension of an input", h->symbol[s]);
}

static void
check_inputs(Host *h)
{
    for (uint32_t i = 0; i < h->g->input.n; i++) {
        const Type *type = h->g->value.at[h->g->input.at[i]].type;
        for (uint32_t d = 0; d < type->rank; d++)
            text_printf(h->t, "    if (input_dims[%u][%u] != (want = %s))\n"
                              "        return tn_refuse(fault, TN_FAULT_DIM, %u, %u, input_dims[%u][%u], want);\n",
                        i, d, checked(h, type->dim[d]), i, d, i, d);
    }
    for (uint32_t i = 0; i < h->g->constraints.n; i++) {
        const Constraint *k = &h->g->constraints.at[i];
        text_printf(h->t, "    if ((got = %s) != (want = %s))\n"
                          "        return tn_refuse(fault, TN_FAULT_CONSTRAINT, %u, 0, got, want);\n",
                    checked(h, k->a), checked(h, k->b), i);
    }
}

/* The dimension of an input that uses a symbol, to blame. */
static bool
dim_with(const Host *h, Var symbol, uint32_t *input, uint32_t *dim)
{
    for (*input = 0; *input < h->g->input.n; ++*input) {
        const Type *type = h->g->value.at[h->g->input.at[*input]].type;
        for (*dim = 0; *dim < type->rank; ++*dim)
            if (expr_uses(type->dim[*dim], symbol))
                return true;
    }
    return false;
}

/* Kernels rely on what is known of a symbol's size: what a constraint implied, or a text declared. */
static void
check_ranges(Host *h)
{
    for (uint32_t s = 0; s < h->nsymbol; s++) {
        Var symbol = {VAR_SYMBOL, (uint64_t)(uintptr_t)h->symbol[s]};
        Interval r = expr_symbol_get(h->c, symbol);
        uint32_t i, d;
        if ((r.lo <= 0 && r.hi == INT64_MAX) || !dim_with(h, symbol, &i, &d))
            continue;
        text_printf(h->t, "    want = tn_min(tn_max(sym[%u], INT64_C(%lld)), INT64_C(%lld));\n"
                          "    if (sym[%u] != want)\n        return tn_refuse(fault, TN_FAULT_DIM, %u, %u, input_dims[%u][%u], want);\n",
                    s, (long long)r.lo, (long long)r.hi, s, i, d, i, d);
    }
}

static uint32_t
size_outputs(Host *h)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < h->g->output.n; i++) {
        const Type *type = h->g->value.at[h->g->output.at[i]].type;
        for (uint32_t d = 0; d < type->rank; d++)
            text_printf(h->t, "    if ((output_dims[%u] = %s) < 0)\n"
                              "        return tn_refuse(fault, TN_FAULT_SIZE, 0, 0, output_dims[%u], 0);\n",
                        at + d, checked(h, type->dim[d]), at + d);
        if (!type_is_static(type)) {
            text_printf(h->t, "    got = %u;\n", dtype_info[type->dtype].bytes);
            for (uint32_t d = 0; d < type->rank; d++)
                text_printf(h->t, "    got = tn_size_mul(got, output_dims[%u]);\n", at + d);
            text_add(h->t, "    if (got < 0)\n        return tn_refuse(fault, TN_FAULT_SIZE, 0, 0, got, 0);\n");
        }
        at += type->rank;
    }
    return at;
}

static void
size_memory(Host *h)
{
    Map seen = {.arena = h->a};
    text_printf(h->t, "    sizes->arena_bytes = %s;\n    sizes->scratch_bytes = 0;\n", checked(h, h->p->plan->arena_bytes));
    for (NodeId n = 1; n < h->g->node.n; n++) {
        const Expr *bytes = is_call(h->g, n) ? kernel_scratch_bytes(h->c, h->g->node.at[n].kernel) : NULL;
        if (!bytes || expr_is(bytes, 0) || map_get(&seen, MAP_PTR(bytes), NULL))
            continue;
        map_put(&seen, MAP_PTR(bytes), 1);
        text_printf(h->t, "    if ((got = %s) < 0)\n        return tn_refuse(fault, TN_FAULT_SIZE, 0, 0, got, 0);\n"
                          "    sizes->scratch_bytes = tn_max(sizes->scratch_bytes, got);\n", checked(h, bytes));
    }
    text_add(h->t, "    if (sizes->arena_bytes < 0)\n        return tn_refuse(fault, TN_FAULT_SIZE, 0, 0, sizes->arena_bytes, 0);\n");
}

static uint32_t
prepare(Host *h)
{
    text_add(h->t, "static int\ntn_prepare(const int64_t *const *input_dims, int64_t *sym, int64_t *output_dims, TnSizes *sizes, "
                   "TnFault *fault)\n{\n    int64_t got = 0, want = 0;\n    (void)input_dims, (void)sym, (void)output_dims, "
                   "(void)got, (void)want;\n    *fault = (TnFault){0};\n");
    for (uint32_t i = 0; i < h->g->input.n; i++) {
        uint32_t rank = h->g->value.at[h->g->input.at[i]].type->rank;
        if (rank > 0)
            text_printf(h->t, "    for (int d = 0; d < %u; d++)\n        if (input_dims[%u][d] < 0)\n"
                              "            return tn_refuse(fault, TN_FAULT_DIM, %u, d, input_dims[%u][d], 0);\n", rank, i, i, i);
    }
    bind_symbols(h);
    check_inputs(h);
    check_ranges(h);
    uint32_t rank_total = size_outputs(h);
    size_memory(h);
    text_add(h->t, "    return 0;\n}\n\n");
    return rank_total;
}

/* ---- run --------------------------------------------------------------------------------------------- */

static const char *
pointer(Host *h, ValueId v)
{
    const Placement *p = &h->p->plan->value[v];
    switch (p->place) {
    case PLACE_INPUT: return arena_printf(h->a, "(void *)f->inputs[%u]", p->index);
    case PLACE_OUTPUT: return arena_printf(h->a, "f->outputs[%u]", p->index);
    case PLACE_WEIGHT: return arena_printf(h->a, "(void *)(weights + %s)", plain(h, p->offset));
    case PLACE_ARENA: return arena_printf(h->a, "arena + %s", plain(h, p->offset));
    }
    return "0";
}

static void
call(Host *h, NodeId id, uint32_t number)
{
    const Node *n = &h->g->node.at[id];
    const Kernel *k = n->kernel;
    text_add(h->t, "    {   /* ");
    comment_text(h->t, k->origin ? k->origin : k->name);
    text_add(h->t, " */\n        void *const buf[] = {");
    for (uint32_t i = 0; i < n->in.count + n->out.count; i++) {
        ValueId v = i < n->in.count ? node_in(h->g, n, i) : node_out(h->g, n, i - n->in.count);
        text_printf(h->t, "%s%s", i == 0 ? "" : i % 4 ? ", " : ",\n                             ", pointer(h, v));
    }
    text_printf(h->t, "};\n        const TnArgs args = {sizeof(TnArgs), buf, sym, f->fault, %u};\n        tn_call(f->host, %s, &args, %s, %s);\n"
                      "        if (f->fault->code)\n            return f->fault->code;\n    }\n",
                number, h->p->kernel_symbol[id], plain(h, k->trips), plain(h, k->grain));
}

static void
run(Host *h)
{
    uint32_t number = 0;
    text_add(h->t, "static int\ntn_run(const TnFrame *f)\n{\n    const int64_t *const sym = f->sym;\n    char *const arena = f->arena;\n");
    text_printf(h->t, "    const char *const weights = f->weights ? f->weights : %s;\n", h->own_weights);
    text_add(h->t, "    (void)sym, (void)arena, (void)weights;\n    *f->fault = (TnFault){0};\n");
    if (h->p->plan->weights_bytes)
        text_printf(h->t, "    if (!weights)\n        return tn_refuse(f->fault, TN_FAULT_WEIGHTS, 0, 0, 0, INT64_C(%lld));\n",
                    (long long)h->p->plan->weights_bytes);
    for (NodeId n = 1; n < h->g->node.n; n++)
        if (is_call(h->g, n))
            call(h, n, number++);
    for (uint32_t i = 0; i < h->p->plan->copy.n; i++) {
        ValueId from = h->p->plan->copy.at[i].from;
        const Expr *bytes = type_bytes(h->c, h->g->value.at[from].type);
        text_printf(h->t, "    memcpy(f->outputs[%u], %s, (size_t)(%s));\n", h->p->plan->copy.at[i].output, pointer(h, from),
                    plain(h, bytes));
    }
    text_add(h->t, "    return 0;\n}\n\n");
}

/* ---- the rest ------------------------------------------------------------------------------------------ */

/* A word for whoever lays the weights behind the linked library: their distance from the word itself,
 * 0 while there are none. It stands in a note, which every linker keeps and gives a program header:
 * that header becomes the weights' segment (driver/segment.c). */
static void
reserve_weights(Host *h)
{
    text_add(h->t, "__asm__(\".pushsection .note.tenon,\\\"a\\\",%note\\n\"\n"
                   "        \".balign 4\\n.long 6, 8, 1\\n.asciz \\\"Tenon\\\"\\n.balign 4\\n\"\n"
                   "        \".globl tn_weights_at\\n.hidden tn_weights_at\\ntn_weights_at: .quad 0\\n.popsection\");\n"
                   "typedef int64_t __attribute__((aligned(4))) tn_distance;\n"
                   "extern __attribute__((visibility(\"hidden\"))) const volatile tn_distance tn_weights_at;\n\n"
                   "static const char *\ntn_own_weights(void)\n{\n    int64_t at = tn_weights_at;\n"
                   "    return at ? (const char *)&tn_weights_at + at : 0;\n}\n\n");
}

static void
embed_weights(Host *h)
{
    int64_t words = (h->p->plan->weights_bytes + 7) / 8;
    const unsigned char *from = h->p->embed_weights;
    text_add(h->t, "static const uint64_t tn_weights[] __attribute__((aligned(64))) = {");
    for (int64_t i = 0; i < words; i++) {
        uint64_t word = 0;
        int64_t left = h->p->plan->weights_bytes - 8 * i;
        memcpy(&word, from + 8 * i, left < 8 ? (size_t)left : 8);
        text_printf(h->t, "%s0x%016llx,", i % 5 ? " " : "\n    ", (unsigned long long)word);
    }
    text_add(h->t, words ? "\n};\n\n" : "0};\n\n");
}

static void
declare_kernels(Host *h)
{
    Map seen = {.arena = h->a};
    for (NodeId n = 1; n < h->g->node.n; n++) {
        if (!is_call(h->g, n))
            continue;
        const char *symbol = h->p->kernel_symbol[n];
        uint64_t hash = hash_bytes(symbol, strlen(symbol), 0);
        if (!map_get(&seen, hash, NULL))
            text_printf(h->t, "extern __attribute__((visibility(\"hidden\"))) TnKernelFn %s;\n", symbol);
        map_put(&seen, hash, 1);
    }
    text_add(h->t, "\n");
}

static void
manifest(Host *h, uint32_t nkernel, uint32_t rank_total)
{
    const HostProgram *p = h->p;
    text_printf(h->t, "static int\ntn_cpu_ok(void)\n{\n    return %s;\n}\n\n", p->machine->cpu_check ? p->machine->cpu_check : "1");
    text_add(h->t, "__attribute__((visibility(\"default\"))) const TnManifest *\ntenon_manifest(void)\n{\n"
                   "    static const TnManifest manifest = {\n        TENON_ABI_VERSION, sizeof(TnManifest),\n        ");
    c_string(h->t, h->g->name);
    text_add(h->t, ", ");
    c_string(h->t, p->compiler);
    text_add(h->t, ", ");
    c_string(h->t, p->machine->name);
    text_add(h->t, ",\n        ");
    c_string(h->t, p->summary);
    text_printf(h->t, ",\n        %u, %u, %u, %u, %u, %u,\n", h->g->input.n, h->g->output.n, h->nsymbol, h->g->constraints.n,
                nkernel, rank_total);
    text_add(h->t, "        tn_inputs, tn_outputs, tn_symbols, tn_constraints, tn_kernels,\n");
    /* Embedded weights are not the caller's to bring. */
    text_printf(h->t, "        %lld, UINT64_C(0x%016llx), tn_prepare, tn_run, tn_work, tn_cpu_ok,\n    };\n    return &manifest;\n}\n",
                (long long)(p->embed_weights ? 0 : p->plan->weights_bytes), (unsigned long long)p->weights_hash);
}

bool
emit_c_host(Ctx *c, Text *t, const HostProgram *p, bool single_file)
{
    Host h = {.c = c, .a = t->arena, .t = t, .p = p, .g = p->graph};
    h.nsymbol = emit_symbols(p->graph, t->arena, &h.symbol);
    h.own_weights = p->embed_weights ? "(const char *)tn_weights" : single_file ? "0" : "tn_own_weights()";
    if (!single_file)
        declare_kernels(&h);
    if (p->embed_weights)
        embed_weights(&h);
    else if (!single_file)
        reserve_weights(&h);
    tensor_table(&h, "inputs", p->graph->input.at, p->graph->input.n);
    tensor_table(&h, "outputs", p->graph->output.at, p->graph->output.n);
    string_tables(&h);
    uint32_t nkernel = kernel_table(&h);
    uint32_t rank_total = prepare(&h);
    run(&h);
    manifest(&h, nkernel, rank_total);
    return !h.failed;
}
