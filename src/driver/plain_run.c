/* plain_run: of a model of fixed sizes as a C file, a plain function:
 *
 *     int digits_run(const float in[64], float out[10]);
 *
 * It brings its own memory, so that one run is possible at a time; other programs use the manifest.
 * There is none if a size is open, data define one, an element has no C type, or the session would
 * keep a state.
 */
#include "driver/internal.h"

#include <ctype.h>
#include <string.h>

typedef struct {
    int64_t arena, scratch; /* [bytes] */
} Memory;

/* One thread runs it. */
static bool
thread_count(void *user, Var v, int64_t *out)
{
    (void)user;
    *out = 1;
    return v.kind == VAR_SYMBOL && !strcmp(var_symbol(v), THREADS_SYMBOL);
}

static bool
memory_of(const Job *j, Memory *m)
{
    const Graph *g = j->graph;
    int64_t bytes;

    *m = (Memory){ 0 };
    for (NodeId n = 1; n < g->node.n; n++) {
        if (g->node.at[n].callee != CALL_KERNEL)
            continue;
        if (!expr_eval(kernel_scratch_bytes(j->ctx, g->node.at[n].kernel), thread_count, NULL,
                       &bytes))
            return false;
        m->scratch = bytes > m->scratch ? bytes : m->scratch;
    }
    return expr_eval(j->plan->plan.at[0]->arena_bytes, thread_count, NULL, &m->arena);
}

/* The value as a parameter: its C type; NULL: it is none. */
static const char *
element_of(const Value *v, int64_t *n)
{
    DType t = v->type->dtype;

    if (t == DT_STR || !type_static_bytes(v->type, n) || !*n)
        return NULL;
    *n /= dtype_info[t].bytes;
    if (dtype_info[t].kind == KIND_FLOAT && t != DT_F32 && t != DT_F64)
        return dtype_info[t].bytes == 2 ? "uint16_t" : "uint8_t"; /* their bits */
    return dtype_info[t].ctype;
}

static const Value *
port(const Job *j, uint32_t i)
{
    const Graph *g = j->graph;

    return &g->value.at[i < g->input.n ? g->input.at[i] : g->output.at[i - g->input.n]];
}

static const char *
parameter(const Job *j, uint32_t i)
{
    uint32_t nin = j->graph->input.n, n = i < nin ? nin : j->graph->output.n;
    const char *word = i < nin ? "in" : "out";

    return n == 1 ? word : arena_printf(j->arena, "%s%u", word, i < nin ? i : i - nin);
}

bool
plain_run_possible(const Job *j)
{
    int64_t n;
    Memory m;

    if (header_needs_memory(j) || j->graph->state.n || !memory_of(j, &m))
        return false;
    for (uint32_t i = 0; i < j->graph->input.n + j->graph->output.n; i++)
        if (!element_of(port(j, i), &n))
            return false;
    return true;
}

static void
print_head(const Job *j, Text *t, const char *result, bool weights)
{
    text_printf(t, "\n%s%s_run(", result, header_prefix(j));
    text_add(t, weights ? "const void *weights" : "");
    for (uint32_t i = 0; i < j->graph->input.n + j->graph->output.n; i++) {
        int64_t n;
        const char *type = element_of(port(j, i), &n);
        text_printf(t, "%s%s%s %s[%lld]", i || weights ? ", " : "",
                    i < j->graph->input.n ? "const " : "", type, parameter(j, i), (long long)n);
    }
    text_add(t, ")");
}

void
plain_run_declare(const Job *j, Text *t, const char *weights_name)
{
    char *upper = arena_printf(j->arena, "%s", header_prefix(j));
    Memory m;

    if (!plain_run_possible(j) || !memory_of(j, &m))
        return;
    for (char *s = upper; *s; s++)
        *s = (char)toupper((unsigned char)*s);
    text_add(t, "/* Sizes: bytes, and elements of each input and output. */\n");
    text_printf(t, "#define %s_ARENA_BYTES %lld\n#define %s_SCRATCH_BYTES %lld\n", upper,
                (long long)m.arena, upper, (long long)m.scratch);
    text_printf(t, "#define %s_WEIGHTS_BYTES %lld\n", upper, (long long)j->plan->weights_bytes);
    for (uint32_t i = 0; i < j->graph->input.n + j->graph->output.n; i++) {
        int64_t n;
        element_of(port(j, i), &n);
        text_printf(t, "#define %s_", upper);
        for (const char *s = parameter(j, i); *s; s++)
            text_printf(t, "%c", toupper((unsigned char)*s));
        text_printf(t, " %lld\n", (long long)n);
    }
    text_add(t,
             "/* Run the model on the calling thread, in memory of its own: one run at a time. 0, "
             "or a TN_FAULT_*.\n * The processor must have what it was compiled for; the "
             "manifest's cpu_ok() tells.");
    text_add(t, weights_name ? " weights: the file's contents, aligned to\n * 64 bytes. */\n"
                             : " */\n");
    text_add(t, "#ifdef __cplusplus\nextern \"C\"\n#endif");
    print_head(j, t, "int ", weights_name != NULL);
    text_add(t, ";\n\n");
}

void
plain_run_define(const Job *j, Text *t, const char *weights_name)
{
    const Graph *g = j->graph;
    uint32_t nin = g->input.n, nout = g->output.n, ndim = 0;
    const Sym *symbol;
    Memory m;

    if (!plain_run_possible(j) || !memory_of(j, &m))
        return;
    for (uint32_t i = 0; i < nout; i++)
        ndim += port(j, nin + i)->type->rank;
    text_add(t, "\n#ifdef __cplusplus\nextern \"C\"\n#endif");
    print_head(j, t, "int\n", weights_name != NULL);
    text_printf(t, "\n{\n    static unsigned char memory[%lld] __attribute__((aligned(64)));\n",
                (long long)((m.arena + 63) / 64 * 64 + (m.scratch + 63) / 64 * 64 + 64));
    for (uint32_t i = 0; i < nin; i++) {
        const Type *type = port(j, i)->type;
        text_printf(t, "    static const int64_t dims_%u[] = {", i);
        for (uint32_t d = 0; d < type->rank; d++)
            text_printf(t, "%s%lld", d ? ", " : " ", (long long)expr_or(type->dim[d], 0));
        text_add(t, type->rank ? " };\n" : " 0 };\n");
    }
    text_add(t, "    static const int64_t *const input_dims[] = { ");
    for (uint32_t i = 0; i < nin; i++)
        text_printf(t, "%sdims_%u", i ? ", " : "", i);
    text_add(t, nin ? " };\n    const void *const inputs[] = { "
                    : "0 };\n    const void *const inputs[] = { 0");
    for (uint32_t i = 0; i < nin; i++)
        text_printf(t, "%s%s", i ? ", " : "", parameter(j, i));
    text_add(t, " };\n    void *const outputs[] = { ");
    for (uint32_t i = 0; i < nout; i++)
        text_printf(t, "%s%s", i ? ", " : "", parameter(j, nin + i));
    text_printf(
        t,
        " };\n    int64_t sym[%u], dims[%u];\n    TnSizes sizes = { sizeof sizes, 0, 0, 1 "
        "};\n    TnFault fault = { 0, 0, 0, 0, 0, 0 };\n    TnHost host;\n    TnFrame "
        "frame;\n\n"
        "    if (tn_prepare(input_dims, sym, dims, &sizes, &fault))\n        return "
        "fault.code;\n"
        "    memset(&host, 0, sizeof host);\n    host.size = sizeof host;\n    host.scratch "
        "= memory + %lld;\n"
        "    memset(&frame, 0, sizeof frame);\n    frame.size = sizeof frame;\n    "
        "frame.inputs = inputs;\n    frame.outputs = outputs;\n    frame.weights = %s;\n    "
        "frame.arena = memory;\n    frame.sym = sym;\n    frame.host = &host;\n    "
        "frame.fault = &fault;\n    frame.output_dims = dims;\n    return "
        "tn_run(&frame);\n}\n",
        emit_symbols(g, j->arena, &symbol) + 1, ndim + 1, (long long)((m.arena + 63) / 64 * 64),
        weights_name ? "weights" : "0");
}
