/* header: writes what a program needs to use a model that is one C file: NAME.h, and on request
 * NAME-main.c, a complete example program.
 *
 * Both are valid C and C++. The header contains tenon_abi.h itself, so that no other file is
 * needed; headers of several models can be included together, since that part has its own guard.
 */
#include "driver/internal.h"

#include "tenon.h"

#include <ctype.h>
#include <string.h>

const char *
header_prefix(const Job *j)
{
    return j->o->prefix ? j->o->prefix : "tenon";
}

/* TENON_MODEL_DIGITS_H */
static const char *
guard_of(Job *j, const char *name)
{
    char *guard = arena_printf(j->arena, "TENON_MODEL_%s_H", name);

    for (char *s = guard; *s; s++)
        *s = isalnum((unsigned char)*s) ? (char)toupper((unsigned char)*s) : '_';
    return guard;
}

static void
list_values(Job *j, Text *t, const char *title, const ValueId *value, uint32_t n)
{
    text_printf(t, " *\n * %s\n", title);
    for (uint32_t i = 0; i < n; i++) {
        const Value *v = &j->graph->value.at[value[i]];
        text_printf(t, " *     %u  ", i);
        text_comment(t, v->name);
        text_add(t, "  ");
        type_print(t, v->type);
        text_add(t, "\n");
    }
}

void
header_write(Job *j, Text *t, const char *weights_name)
{
    const char *name = path_name(artefact_path(j, "")), *guard = guard_of(j, name);

    text_printf(t, "/* %s.h: the model in %s, compiled by tenon " TN_VERSION " from ", name,
                path_name(j->out_path));
    text_comment(t, path_name(j->model_path));
    text_add(t, ".\n");
    list_values(j, t, "inputs", j->graph->input.at, j->graph->input.n);
    list_values(j, t, "outputs", j->graph->output.at, j->graph->output.n);
    text_printf(
        t,
        " *\n * %s_manifest() gives all there is to know. prepare() takes the inputs' dimensions "
        "and tells the outputs' and\n"
        " * the memory that a run needs; run() takes a frame with that memory. A run computes on "
        "the calling thread\n"
        " * unless TnHost says otherwise, and allocates nothing%s.\n",
        header_prefix(j),
        j->plan->plan.n > 1 || j->plan->plan.at[0]->nblock ? " but what it asks TnMemory for" : "");
    source_weights(j, t, weights_name);
    source_licence(t);
    text_printf(t, " */\n#ifndef %s\n#define %s\n\n%s\n", guard, guard, emit_c_abi());
    if (j->o->prefix)
        text_printf(
            t, "#ifdef __cplusplus\nextern \"C\"\n#endif\nconst TnManifest *%s_manifest(void);\n\n",
            header_prefix(j));
    plain_run_declare(j, t, weights_name);
    text_printf(t, "#endif    /* %s */\n", guard);
}

/* ---- the example ----------------------------------------------------------------------------- */

static const char example_head[] =
    "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n"
    "/* Zeroed, and aligned to 64 bytes. */\n"
    "static void *\nmemory(int64_t bytes)\n{\n"
    "    size_t room = ((size_t)bytes + 64) / 64 * 64;\n"
    "    void *p = aligned_alloc(64, room);\n\n"
    "    if (!p) {\n        fprintf(stderr, \"no memory for %zu bytes\\n\", room);\n        "
    "exit(1);\n    }\n"
    "    return memset(p, 0, room);\n}\n\n"
    "/* The file's first `bytes`, to fill an input or the weights with. */\n"
    "static void\nread_file(const char *path, void *to, int64_t bytes)\n{\n"
    "    FILE *f = fopen(path, \"rb\");\n\n"
    "    if (!f || fread(to, 1, (size_t)bytes, f) != (size_t)bytes) {\n"
    "        fprintf(stderr, \"%s: %lld bytes are needed\\n\", path, (long long)bytes);\n        "
    "exit(1);\n    }\n    fclose(f);\n}\n\n"
    "static int64_t\nproduct(const int64_t *dims, int32_t rank)\n{\n"
    "    int64_t n = 1;\n\n    for (int32_t d = 0; d < rank; d++)\n        n *= dims[d];\n    "
    "return n;\n}\n\n"
    "/* What went wrong; the messages of libtenon-run say more. */\n"
    "static int\nfailed(const TnManifest *m, const TnFault *f)\n{\n"
    "    static const char *const what[] = { \"nothing\", \"an input's dimension\", \"sizes that "
    "do not fit together\", \"an index\",\n"
    "        \"a size that overflows\", \"no weights\", \"a size that data gave\", \"no memory\", "
    "\"too many iterations of a loop\",\n"
    "        \"calls too deep\", \"a number that data gave\", \"something that the frame lacks\" "
    "};\n\n"
    "    fprintf(stderr, \"%s: fault %d: %s; where %d, dimension %d, got %lld, wanted %lld\\n\", "
    "m->name, f->code,\n"
    "            f->code >= 0 && f->code <= TN_FAULT_FRAME ? what[f->code] : \"unknown\", "
    "f->where, f->dim, (long long)f->got, (long long)f->want);\n"
    "    return 1;\n}\n\n";

static const char example_memory[] =
    "/* Memory for what only data size. */\n"
    "static void *\nget(void *user, int64_t *bytes)\n{\n    (void)user;\n    return "
    "memory(*bytes);\n}\n\n"
    "static void\nput(void *user, void *at, int64_t bytes)\n{\n    (void)user, (void)bytes;\n    "
    "free(at);\n}\n\n"
    "static int\nscratch(void *user, int64_t bytes)\n{\n    TnHost *host = (TnHost *)user;\n\n"
    "    free(host->scratch);\n    host->scratch = memory(bytes);\n    return 0;\n}\n\n";

static const char example_show[] =
    "/* The first elements of an output. */\n"
    "static void\nshow(const TnTensorInfo *info, const int64_t *dims, const void *data)\n{\n"
    "    int64_t n = product(dims, info->rank);\n\n"
    "    printf(\"%s: %s[\", info->name, info->dtype);\n"
    "    for (int32_t d = 0; d < info->rank; d++)\n        printf(\"%s%lld\", d ? \", \" : \"\", "
    "(long long)dims[d]);\n"
    "    printf(\"] =\");\n"
    "    for (int64_t i = 0; i < n && i < 6; i++)\n"
    "        if (!strcmp(info->dtype, \"f32\"))\n            printf(\" %g\", "
    "(double)((const float *)data)[i]);\n"
    "        else if (!strcmp(info->dtype, \"f64\"))\n            printf(\" %g\", ((const double "
    "*)data)[i]);\n"
    "        else if (!strcmp(info->dtype, \"i64\"))\n            printf(\" %lld\", (long "
    "long)((const int64_t *)data)[i]);\n"
    "        else if (!strcmp(info->dtype, \"i32\"))\n            printf(\" %d\", ((const int32_t "
    "*)data)[i]);\n"
    "        else if (!strcmp(info->dtype, \"u8\") || !strcmp(info->dtype, \"bool\"))\n            "
    "printf(\" %d\", ((const uint8_t *)data)[i]);\n"
    "    puts(n > 6 ? \" ...\" : \"\");\n}\n\n";

/* The value of a symbol in the example: 1, or its least value. */
static bool
small_size(void *user, Var v, int64_t *out)
{
    const Job *j = user;
    Interval r = v.kind == VAR_SYMBOL ? expr_symbol_get(j->ctx, v) : (Interval){ 0, 0 };

    *out = r.lo > 1 ? r.lo : 1;
    return v.kind == VAR_SYMBOL;
}

static bool
print_dims(Job *j, Text *t, uint32_t i, const Value *v)
{
    bool open = !type_is_static(v->type);

    text_printf(t, "    const int64_t dims_%u[] = {", i);
    for (uint32_t d = 0; d < v->type->rank; d++) {
        int64_t size;
        if (!expr_eval(v->type->dim[d], small_size, j, &size))
            return model_error(
                j, DIAG_UNSUPPORTED,
                "--main: there is no example of sizes for input %s; leave --main out", v->name);
        text_printf(t, "%s%lld", d ? ", " : " ", (long long)size);
    }
    text_printf(t, "%s };    /* ", v->type->rank ? "" : " 0");
    text_comment(t, v->name);
    text_add(t, ": ");
    type_print(t, v->type);
    text_add(t, open ? "; what is open is small here */\n" : " */\n");
    return true;
}

bool
header_needs_memory(const Job *j)
{
    const Plan *p = j->plan->plan.at[0];
    bool needs = j->plan->plan.n > 1 || p->nblock;

    for (uint32_t i = 0; i < j->graph->output.n; i++)
        needs |= p->made && p->made[i];
    return needs;
}

bool
header_example(Job *j, Text *t, const char *weights_name)
{
    const char *name = path_name(artefact_path(j, ""));
    uint32_t nin = j->graph->input.n, nout = j->graph->output.n;
    bool needs = header_needs_memory(j);

    text_printf(
        t,
        "/* %s-main.c: an example program that runs the model in %s. Build it and run it with a "
        "file of raw elements\n"
        " * for each input, or without, for zeros:\n *\n *     cc %s %s %s %s-main.c -o %s -lm\n",
        name, path_name(j->out_path), emit_c_flags(), j->machine.flags, path_name(j->out_path),
        name, name);
    source_licence(t);
    text_printf(t, " */\n#include \"%s.h\"\n\n%s%s%s", name, example_head,
                needs ? example_memory : "", example_show);
    text_printf(t,
                "int\nmain(int argc, char **argv)\n{\n    const TnManifest *m = %s_manifest();\n",
                header_prefix(j));
    for (uint32_t i = 0; i < nin; i++)
        if (!print_dims(j, t, i, &j->graph->value.at[j->graph->input.at[i]]))
            return false;
    text_add(t, "    const int64_t *const input_dims[] = { ");
    for (uint32_t i = 0; i < nin; i++)
        text_printf(t, "dims_%u, ", i);
    text_add(t, nin ? "};\n    const int64_t element_bytes[] = { "
                    : "0 };\n    const int64_t element_bytes[] = { ");
    for (uint32_t i = 0; i < nin + nout; i++)
        text_printf(
            t, "%u, ",
            dtype_info[j->graph->value
                           .at[i < nin ? j->graph->input.at[i] : j->graph->output.at[i - nin]]
                           .type->dtype]
                .bytes);
    text_printf(t,
                "};    /* of inputs, then of outputs */\n"
                "    const void *inputs[%u];\n    void *outputs[%u];\n    int64_t *sym = (int64_t "
                "*)memory(8 * m->nsymbol), *dims = (int64_t *)memory(8 * m->output_rank_total);\n"
                "    TnSizes sizes;\n    TnFault fault;\n    TnHost host;\n    TnFrame frame;\n\n",
                nin ? nin : 1, nout ? nout : 1);
    text_add(t,
             "    if (!m->cpu_ok()) {\n        fprintf(stderr, \"this processor lacks what %s was "
             "compiled for: %s\\n\", m->name, m->target);\n        return 1;\n    }\n"
             "    memset(&sizes, 0, sizeof sizes);\n    sizes.size = sizeof sizes;\n    "
             "sizes.threads = 1;\n"
             "    if (m->prepare(input_dims, sym, dims, &sizes, &fault))\n        return failed(m, "
             "&fault);\n\n"
             "    for (int i = 0; i < m->ninput; i++) {\n        int64_t bytes = element_bytes[i] "
             "* product(input_dims[i], m->inputs[i].rank);\n"
             "        void *input = memory(bytes);\n        if (i + 1 < argc)\n            "
             "read_file(argv[i + 1], input, bytes);\n        inputs[i] = input;\n    }\n"
             "    const int64_t *at = dims;\n    for (int i = 0; i < m->noutput; at += "
             "m->outputs[i++].rank) {\n"
             "        int64_t n = product(at, m->outputs[i].rank);         /* below 0: only the "
             "run will know */\n"
             "        outputs[i] = memory(n < 0 ? 0 : element_bytes[m->ninput + i] * n);\n    }\n\n"
             "    memset(&host, 0, sizeof host);\n    host.size = sizeof host;\n    host.scratch = "
             "memory(sizes.scratch_bytes);\n"
             "    memset(&frame, 0, sizeof frame);\n    frame.size = sizeof frame;\n    "
             "frame.inputs = inputs;\n    frame.outputs = outputs;\n"
             "    frame.arena = memory(sizes.arena_bytes);\n    frame.sym = sym;\n    frame.host = "
             "&host;\n    frame.fault = &fault;\n"
             "    frame.output_dims = dims;\n");
    if (weights_name)
        text_printf(t,
                    "    void *weights = memory((int64_t)m->weights_bytes);\n    read_file(\"%s\", "
                    "weights, (int64_t)m->weights_bytes);\n"
                    "    frame.weights = weights;\n",
                    weights_name);
    if (needs)
        text_printf(t,
                    "    TnMemory more;\n    TnBlock block[%u], *made[%u];\n    memset(block, 0, "
                    "sizeof block);\n"
                    "    for (int i = 0; i < m->noutput; i++)\n        made[i] = &block[i];\n"
                    "    memset(&more, 0, sizeof more);\n    more.size = sizeof more;\n    "
                    "more.get = get;\n    more.put = put;\n    more.scratch = scratch;\n"
                    "    more.user = &host;\n    frame.memory = &more;\n    frame.made = made;\n",
                    nout ? nout : 1, nout ? nout : 1);
    text_printf(t,
                "    if (m->run(&frame))\n        return failed(m, &fault);\n\n"
                "    at = dims;\n    for (int i = 0; i < m->noutput; at += m->outputs[i++].rank)\n"
                "        show(&m->outputs[i], at, %soutputs[i]);\n    return 0;\n}\n",
                needs ? "block[i].at ? block[i].at : " : "");
    return true;
}
