/* host_c: the host program of a model as C: its kernels declared, its tables, prepare, run, the
 * manifest. */
#include "emit/host.h"

#include "graph/batch.h"

#include <string.h>

/* ---- the manifest's tables ------------------------------------------------------------------- */

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
            host_string(h->t, expr_str(h->c, type->dim[d]));
        }
        text_add(h->t, "};\n");
    }
    text_printf(h->t, "static const TnTensorInfo tn_%s[] = {\n", table);
    for (uint32_t i = 0; i < n; i++) {
        const Value *v = &h->g->value.at[value[i]];
        text_add(h->t, "    {");
        host_string(h->t, v->name);
        if (v->type->rank > 0)
            text_printf(h->t, ", \"%s\", %u, tn_%s_dims_%u, tn_%s_text_%u},\n",
                        dtype_info[v->type->dtype].name, v->type->rank, table, i, table, i);
        else
            text_printf(h->t, ", \"%s\", 0, 0, 0},\n", dtype_info[v->type->dtype].name);
    }
    text_add(h->t, n ? "};\n" : "    {0, 0, 0, 0, 0}\n};\n");
}

/* The table's name; "0" if all have the model's layout. */
static const char *
format_table(Host *h, const char *name, const char *const *format, uint32_t n)
{
    uint32_t given = 0;

    for (uint32_t i = 0; format && i < n; i++)
        given += format[i] != NULL;
    if (!given)
        return "0";
    text_printf(h->t, "static const char *const %s[] = {", name);
    for (uint32_t i = 0; i < n; i++) {
        if (format[i])
            host_string(h->t, format[i]);
        text_add(h->t, format[i] ? ", " : "0, ");
    }
    text_add(h->t, "};\n");
    return name;
}

uint32_t
host_constraint(const Host *h, const Graph *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->p->plan->plan.n && h->p->plan->plan.at[i]->graph != g; i++)
        n += h->p->plan->plan.at[i]->graph->constraints.n;
    return n;
}

const char *
host_constraint_at(Host *h, const Constraint *k)
{
    if (!constraint_of_data(k))
        return "0";
    return k->at ? arena_printf(h->a, "1 + (int32_t)%s", host_checked(h, k->at)) : "1";
}

static void
constraint_string(Host *h, const Constraint *k)
{
    const char *said = constraint_text(h->c, k);

    text_add(h->t, "    ");
    host_string(h->t, arena_printf(h->a, "%s%s%s", k->why, *said ? ": " : "", said));
    text_add(h->t, ",\n");
}

static uint32_t
string_tables(Host *h)
{
    uint32_t nconstraint = 0;
    text_add(h->t, "static const char *const tn_symbols[] = {");
    for (uint32_t i = 0; i < h->nsymbol; i++) {
        host_string(h->t, h->symbol[i]);
        text_add(h->t, ", ");
    }
    text_add(h->t, "0};\nstatic const char *const tn_constraints[] = {\n");
    for (uint32_t i = 0; i < h->p->plan->plan.n; i++) {
        const Graph *g = h->p->plan->plan.at[i]->graph;
        for (uint32_t j = 0; j < g->constraints.n; j++, nconstraint++) {
            constraint_string(h, &g->constraints.at[j]);
        }
    }
    const Batch *b = emit_batch(h->g);
    /* followed by those of host_batch.c */
    for (uint32_t i = 0; b && i < b->check.n; i++, nconstraint++)
        constraint_string(h, &b->check.at[i]);
    text_add(h->t, "    0\n};\n");
    return nconstraint;
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* A word for the tool that appends the weights to the linked library: their distance from the word
 * itself, 0 while there are none. It is in a note, which every linker keeps and gives a program
 * header: that header becomes the weights' segment (driver/segment.c). */
static void
reserve_weights(Host *h)
{
    text_add(h->t, "__asm__(\".pushsection .note.tenon,\\\"a\\\",%note\\n\"\n"
                   "        \".balign 4\\n.long 6, 8, 1\\n.asciz \\\"Tenon\\\"\\n.balign 4\\n\"\n"
                   "        \".globl tn_weights_at\\n.hidden tn_weights_at\\ntn_weights_at: .quad "
                   "0\\n.popsection\");\n"
                   "typedef int64_t __attribute__((aligned(4))) tn_distance;\n"
                   "extern __attribute__((visibility(\"hidden\"))) const volatile tn_distance "
                   "tn_weights_at;\n\n"
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

/* The symbol is seen by the linker: link-time optimisation may take the two apart. */
static void
include_weights(Host *h)
{
    const char *prefix = h->p->prefix ? h->p->prefix : "tenon";

    text_printf(h->t,
                "#ifndef TN_WEIGHTS_FILE\n#define TN_WEIGHTS_FILE \"%s\"\n#endif\n"
                "__asm__(\".pushsection .rodata.%s_weights,\\\"a\\\",%%progbits\\n.balign 64\\n\"\n"
                "        \".globl %s_weights\\n.hidden %s_weights\\n%s_weights:\\n\"\n"
                "        \".incbin \\\"\" TN_WEIGHTS_FILE \"\\\"\\n.popsection\\n\");\n"
                "extern __attribute__((visibility(\"hidden\"))) const char tn_weights[] "
                "__asm__(\"%s_weights\");\n\n",
                h->p->include_weights, prefix, prefix, prefix, prefix, prefix);
}

static void
declare_kernels(Host *h)
{
    for (uint32_t i = 0; i < h->function.n; i++)
        text_printf(h->t, "extern __attribute__((visibility(\"hidden\"))) TnKernelFn %s;\n",
                    h->function.at[i]);
    text_add(h->t, "\n");
}

static const char *
state_table(Host *h)
{
    const Graph *g = h->g;
    uint32_t grows;

    if (!g->state.n)
        return "0";
    text_add(h->t, "static const TnStateInfo tn_states[] = {\n");
    for (uint32_t i = 0; i < g->state.n; i++) {
        const State *s = &g->state.at[i];
        const Type *t = g->value.at[g->input.at[s->input]].type;
        graph_state_grows(g, s, &grows);
        text_printf(h->t, "    {%u, %u, %d, %d},    /* ", s->input, s->output,
                    grows == t->rank ? -1 : (int)grows, graph_state_in_place(g, s));
        text_comment(h->t, g->value.at[g->input.at[s->input]].name);
        text_add(h->t, " */\n");
    }
    text_add(h->t, "};\n\n");
    return "tn_states";
}

/* Of C that others compile: the standard promises no longer literal. An array of as many characters
 * takes a compiler far longer, so it is not for our own. */
enum { MOST_LITERAL = 4095 };

static bool
is_too_long(const Host *h, const char *s)
{
    return h->single_file && strlen(s) > MOST_LITERAL;
}

static void
long_text(Host *h, uint32_t i, const char *s)
{
    text_printf(h->t, "static const char tn_metadata_%u[] = {", i);
    for (uint32_t at = 0; *s; s++, at++)
        text_printf(h->t, at % 16 ? " '\\%03o'," : "\n    '\\%03o',", (unsigned char)*s);
    text_add(h->t, " 0};\n");
}

static void
metadata_table(Host *h)
{
    uint32_t n = 2 * h->p->nmetadata;

    for (uint32_t i = 0; i < n; i++)
        if (is_too_long(h, h->p->metadata[i]))
            long_text(h, i, h->p->metadata[i]);
    text_add(h->t, n ? "static const char *const tn_metadata[] = {\n" : "");
    for (uint32_t i = 0; i < n; i++) {
        text_add(h->t, i % 2 ? "" : "    ");
        if (is_too_long(h, h->p->metadata[i]))
            text_printf(h->t, "tn_metadata_%u", i);
        else
            host_string(h->t, h->p->metadata[i]);
        text_add(h->t, i % 2 ? ",\n" : ", ");
    }
    text_add(h->t, n ? "};\n\n" : "");
}

/* In C: has the running processor what code for the machine uses? */
static const char *
cpu_check(Arena *a, const Machine *m)
{
    if (m->cpu_level)
        return arena_printf(a, "tn_cpu_level() >= %u", m->cpu_level);
    if (m->cpu_bits[0] | m->cpu_bits[1])
        return arena_printf(a, "tn_cpu_has(UINT64_C(0x%llx), UINT64_C(0x%llx), %u)",
                            (unsigned long long)m->cpu_bits[0], (unsigned long long)m->cpu_bits[1],
                            m->vector_bytes);
    return "1";
}

static void
manifest(Host *h, uint32_t nkernel, uint32_t nconstraint, uint32_t rank_total)
{
    const HostProgram *p = h->p;
    const char *input_formats = format_table(h, "tn_input_formats", p->input_format, h->g->input.n);
    const char *output_formats =
        format_table(h, "tn_output_formats", p->output_format, h->g->output.n);
    const char *states = state_table(h);
    metadata_table(h);
    text_printf(h->t, "static int\ntn_cpu_ok(void)\n{\n    return %s;\n}\n\n",
                cpu_check(h->t->arena, p->machine));
    if (p->prefix)
        text_printf(
            h->t,
            "#ifdef __cplusplus\nextern \"C\"\n#endif\nconst TnManifest *%s_manifest(void);\n\n",
            p->prefix);
    text_printf(
        h->t,
        "__attribute__((visibility(\"default\"))) const TnManifest *\n%s_manifest(void)\n{\n"
        "    static const TnManifest manifest = {\n        TENON_ABI_VERSION, "
        "sizeof(TnManifest),\n        ",
        p->prefix ? p->prefix : "tenon");
    host_string(h->t, h->g->name);
    text_add(h->t, ", ");
    host_string(h->t, p->compiler);
    text_add(h->t, ", ");
    host_string(h->t, p->machine->name);
    text_add(h->t, ",\n        ");
    host_string(h->t, p->summary);
    text_printf(h->t, ",\n        %u, %u, %u, %u, %u, %u,\n", h->g->input.n, h->g->output.n,
                h->nsymbol, nconstraint, nkernel, rank_total);
    text_add(h->t, "        tn_inputs, tn_outputs, tn_symbols, tn_constraints, tn_kernels,\n");
    /* The caller cannot provide embedded weights. */
    text_printf(h->t,
                "        %lld, UINT64_C(0x%016llx), tn_prepare, tn_run, tn_work, tn_cpu_ok,\n      "
                "  %s, %s,\n        %s, %u, 0, %lld,\n        ",
                (long long)(p->embed_weights || p->include_weights ? 0 : p->plan->weights_bytes),
                (unsigned long long)p->weights_hash, input_formats, output_formats, states,
                h->g->state.n, (long long)p->state_rows);
    host_string(h->t, expr_str(h->c, p->plan->plan.at[0]->arena_bytes));
    text_printf(h->t, ",\n        %s, %s, %u, 0, ", h->batch ? "tn_many" : "0",
                h->batch ? "tn_batch_info" : "0", h->batch ? h->batch->block.n : 0);
    if (p->single)
        host_string(h->t, p->single);
    text_printf(h->t, "%s, %s, %u, 0\n    };\n    return &manifest;\n}\n", p->single ? "" : "0",
                p->nmetadata ? "tn_metadata" : "0", p->nmetadata);
}

bool
emit_c_host(Ctx *c, Text *t, const HostProgram *p, bool single_file)
{
    Host h = { .c = c,
               .a = t->arena,
               .t = t,
               .p = p,
               .g = p->graph,
               .single_file = single_file,
               .symbol_at.arena = t->arena,
               .function_at.arena = t->arena,
               .here.arena = t->arena };
    h.nsymbol = emit_symbols(p->graph, t->arena, &h.symbol);
    for (uint32_t i = 0; i < h.nsymbol; i++)
        map_put(&h.symbol_at, MAP_PTR(h.symbol[i]), i);
    for (uint32_t i = p->plan->plan.n; i-- > 0;) {
        const Graph *g = p->plan->plan.at[i]->graph;
        for (NodeId n = 1; n < g->node.n; n++) {
            const Kernel *k = host_is_call(g, n) ? g->node.at[n].kernel : NULL;
            if (k)
                host_function(&h, k);
            for (uint32_t v = 0; k && v < k->nvariant; v++)
                host_function(&h, k->variant[v]);
        }
    }
    if (!single_file)
        declare_kernels(&h);
    h.own_weights = p->embed_weights                  ? "(const char *)tn_weights"
                    : p->include_weights              ? "tn_weights"
                    : single_file || p->weights_apart ? "0"
                                                      : "tn_own_weights()";
    if (p->embed_weights)
        embed_weights(&h);
    else if (p->include_weights)
        include_weights(&h);
    else if (!single_file && !p->weights_apart)
        reserve_weights(&h);
    tensor_table(&h, "inputs", p->graph->input.at, p->graph->input.n);
    tensor_table(&h, "outputs", p->graph->output.at, p->graph->output.n);
    uint32_t nconstraint = string_tables(&h);
    host_stack(&h);
    uint32_t nkernel = host_kernels(&h);
    uint32_t rank_total = host_prepare(&h);
    host_run(&h);
    manifest(&h, nkernel, nconstraint, rank_total);
    return !h.failed;
}
