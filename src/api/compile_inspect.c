/* compile_inspect: describe a model: one set of facts, from an ONNX file, a text or an artefact,
 * printed as text or as JSON.
 */
#include "api/compile_internal.h"

#include "run/run.h"

#include <string.h>

/* format: "nhwc"; NULL: as the model says */
typedef struct {
    const char *name, *type, *format;
} Port;
typedef struct {
    const char *name;
    int64_t count;
} CensusCount;

typedef struct {
    const char *file, *kind;                        /* "ONNX", "Tenon text", "artefact" */
    const char *name, *producer, *target, *summary; /* NULL: does not apply */
    int64_t opset;                                  /* 0: does not apply */
    int64_t nodes, inner_nodes, weights_bytes;      /* inner: of branches and bodies of loops */
    VEC(Port) input, output;
    VEC(const char *) symbol, check, kernel, state;
    const char *arena; /* bytes between kernels, as a formula; NULL: not known */
    Metadata metadata;
    VEC(CensusCount) census;
    const Unsupported *unsupported;
    uint32_t nunsupported;
} ModelFacts;

/* ---- gathering ------------------------------------------------------------------------------- */

static void
ports_of_graph(Ctx *c, Arena *a, const Graph *g, ModelFacts *f)
{
    SymbolSet symbols = { .seen.arena = a };

    f->input.n = f->output.n = 0;
    for (uint32_t i = 0; i < g->input.n; i++) {
        const Value *v = &g->value.at[g->input.at[i]];
        type_symbols(&symbols, v->type);
        VEC_PUSH(a, &f->input, ((Port){ v->name, type_str(c, v->type), NULL }));
    }
    for (uint32_t i = 0; i < symbols.n; i++)
        VEC_PUSH(a, &f->symbol, symbols.at[i]);
    for (uint32_t i = 0; i < g->output.n; i++) {
        const Value *v = &g->value.at[g->output.at[i]];
        VEC_PUSH(a, &f->output, ((Port){ v->name, type_str(c, v->type), NULL }));
    }
}

static bool
facts_of_onnx(TnContext *ctx, Arena *a, const char *path, Bytes file, ModelFacts *f)
{
    Ctx *c = &ctx->c;
    Census census = { 0 };
    ImportOptions plain = { .metadata = &f->metadata };

    if (!import_census(c, a, path, file, &census))
        return false;
    f->kind = "ONNX";
    f->producer = census.producer;
    f->opset = census.opset;
    f->nodes = census.nodes;
    f->inner_nodes = census.inner_nodes;
    f->weights_bytes = census.weights_bytes;
    for (uint32_t i = 0; i < census.input.n; i++)
        VEC_PUSH(a, &f->input, ((Port){ census.input.at[i].name, census.input.at[i].type, NULL }));
    for (uint32_t i = 0; i < census.output.n; i++)
        VEC_PUSH(a, &f->output,
                 ((Port){ census.output.at[i].name, census.output.at[i].type, NULL }));
    for (uint32_t i = 0; i < census.census.n; i++)
        VEC_PUSH(a, &f->census,
                 ((CensusCount){ census.census.at[i].op, census.census.at[i].count }));
    f->unsupported = census.unsupported.at;
    f->nunsupported = census.unsupported.n;
    if (f->nunsupported)
        return true;
    /* shapes that follow are better than those declared */
    Graph *g = import_onnx(c, a, path, file, &plain);
    if (g)
        ports_of_graph(c, a, g, f);
    return g != NULL;
}

static void
count_row(Arena *a, ModelFacts *f, const char *name)
{
    for (uint32_t i = 0; i < f->census.n; i++)
        if (!strcmp(f->census.at[i].name, name)) {
            f->census.at[i].count++;
            return;
        }
    VEC_PUSH(a, &f->census, ((CensusCount){ name, 1 }));
}

static const char *
callee_text(const Node *n)
{
    switch (n->callee) {
    case CALL_OP: return op_info[n->op].name;
    case CALL_NEST: return "nest";
    case CALL_KERNEL: return "kernel";
    case CALL_MATCH: return "match";
    case CALL_JOIN: return "join";
    case CALL_IF: return "if";
    case CALL_LOOP: return "loop";
    case CALL_GRAPH: return "call";
    case CALL_BLOCKS: return "blocks";
    }
    return "";
}

static void
count_graph(Arena *a, const Graph *g, ModelFacts *f)
{
    int64_t bytes;

    f->nodes += g->node.n - 1;
    for (NodeId n = 1; n < g->node.n; n++)
        count_row(a, f, callee_text(&g->node.at[n]));
    for (ValueId v = 1; v < g->value.n; v++)
        if (g->value.at[v].data && type_static_bytes(g->value.at[v].type, &bytes))
            f->weights_bytes += bytes;
}

static bool
facts_of_text(TnContext *ctx, Arena *a, const char *path, Bytes file, ModelFacts *f)
{
    GraphLoader loader = driver_loader(NULL);
    Graph *g = graph_parse_with(&ctx->c, a, path, file, &loader, NULL, 0);

    if (!g || !graph_verify(g))
        return false;
    f->kind = "Tenon text";
    f->name = g->name;
    ports_of_graph(&ctx->c, a, g, f);
    GraphList all = graph_all(g, a);
    for (uint32_t i = 0; i < all.n; i++)
        count_graph(a, all.at[i], f);
    f->inner_nodes = f->nodes - (g->node.n - 1);
    return true;
}

static const char *
info_type(Arena *a, const TnTensorInfo *t)
{
    Text s = { .arena = a };

    text_printf(&s, "%s[", t->dtype);
    for (int32_t d = 0; d < t->rank; d++)
        text_printf(&s, "%s%s", d ? ", " : "", t->dim_text[d]);
    text_add(&s, "]");
    return text_str(&s);
}

static bool
facts_of_artefact(TnContext *ctx, Arena *a, const char *path, ModelFacts *f)
{
    Artefact *artefact = artefact_open(a, &ctx->c.diags, path);

    if (!artefact)
        return false;
    const TnManifest *m = artefact_manifest(artefact);
    f->kind = "artefact";
    f->name = m->name;
    f->producer = m->compiler;
    f->target = m->target;
    f->summary = m->summary;
    f->weights_bytes = (int64_t)m->weights_bytes;
    for (int32_t i = 0; i < m->ninput; i++)
        VEC_PUSH(a, &f->input,
                 ((Port){ m->inputs[i].name, info_type(a, &m->inputs[i]),
                          manifest_input_format(m, i) }));
    for (int32_t i = 0; i < m->noutput; i++)
        VEC_PUSH(a, &f->output,
                 ((Port){ m->outputs[i].name, info_type(a, &m->outputs[i]),
                          manifest_output_format(m, i) }));
    f->arena = TN_HAS(m, arena_text) ? m->arena_text : NULL;
    int32_t nstate;
    const TnStateInfo *state = manifest_states(m, &nstate);
    for (int32_t i = 0; i < nstate; i++)
        VEC_PUSH(a, &f->state,
                 arena_printf(a, "%s = %s, %s", m->inputs[state[i].input].name,
                              m->outputs[state[i].output].name,
                              state[i].in_place   ? "grows in place"
                              : state[i].dim >= 0 ? "made anew"
                                                  : "replaced"));
    for (int32_t i = 0; i < m->nsymbol; i++)
        VEC_PUSH(a, &f->symbol, m->symbols[i]);
    for (int32_t i = 0; i < m->nconstraint; i++)
        VEC_PUSH(a, &f->check, m->constraints[i]);
    for (int32_t i = 0; TN_HAS(m, nmetadata) && i < m->nmetadata; i++)
        VEC_PUSH(a, &f->metadata, ((Metadatum){ m->metadata[2 * i], m->metadata[2 * i + 1] }));
    for (int32_t i = 0; i < m->nkernel; i++)
        VEC_PUSH(a, &f->kernel, m->kernels[i].origin);
    return true;
}

static bool
gather(TnContext *ctx, Arena *a, const char *path, ModelFacts *f)
{
    Bytes file;

    if (!import_map(&ctx->c, a, path, true, &file))
        return false;
    *f = (ModelFacts){ .file = path_name(path) };
    if (file.bytes >= 4 && !memcmp(file.data, "\177ELF", 4))
        return facts_of_artefact(ctx, a, path, f);
    if (import_is_onnx(file))
        return facts_of_onnx(ctx, a, path, file, f);
    return facts_of_text(ctx, a, path, file, f);
}

/* ---- as text --------------------------------------------------------------------------------- */

static void
text_list(Text *t, const char *title, const char *const *item, uint32_t n)
{
    const char **line = NEW_ARRAY(t->arena, const char *, n);

    n = lines_together(t->arena, item, n, line);
    for (uint32_t i = 0; i < n; i++)
        text_printf(t, "%-12s %s\n", i ? "" : title, line[i]);
}

/* Names in one column, types in another. */
static void
text_ports(Text *t, const char *title, const Port *port, uint32_t n)
{
    const char **name = NEW_ARRAY(t->arena, const char *, n),
               **line = NEW_ARRAY(t->arena, const char *, n);
    int width = 0;

    for (uint32_t i = 0; i < n; i++)
        line[i] = arena_printf(t->arena, "%s\t%s%s%s", port[i].name, port[i].type,
                               port[i].format ? " as " : "", port[i].format ? port[i].format : "");
    n = lines_together(t->arena, line, n, line);
    for (uint32_t i = 0; i < n; i++) {
        name[i] = arena_printf(t->arena, "%.*s", (int)strcspn(line[i], "\t"), line[i]);
        width = (int)strlen(name[i]) > width ? (int)strlen(name[i]) : width;
    }
    for (uint32_t i = 0; i < n; i++)
        text_printf(t, "%-12s %-*s  %s\n", i ? "" : title, width > 40 ? 40 : width, name[i],
                    line[i] + strlen(name[i]) + 1);
}

static void
text_census(Text *t, const ModelFacts *f)
{
    text_printf(t, "%-12s ", "operators");
    text_count(t, (uint64_t)f->nodes, "node");
    if (f->inner_nodes)
        text_printf(t, ", %lld of them in branches, loops and functions",
                    (long long)f->inner_nodes);
    text_add(t, "\n");
    for (uint32_t i = 0; i < f->census.n; i++)
        text_printf(t, "%-12s %6lld  %s\n", "", (long long)f->census.at[i].count,
                    f->census.at[i].name);
    if (!f->nunsupported) {
        text_printf(t, "%-12s every node can be compiled\n", "supported");
        return;
    }
    text_printf(t, "%-12s ", "unsupported");
    text_count(t, f->nunsupported, "node");
    text_add(t, " cannot be compiled yet\n");
    for (uint32_t i = 0; i < f->nunsupported; i++)
        text_printf(t, "%-12s %s%s%s: %s\n", "", f->unsupported[i].node,
                    *f->unsupported[i].op ? " " : "", f->unsupported[i].op,
                    f->unsupported[i].reason);
}

/* Long values, such as alphabets, by their beginning. */
static void
text_metadata(Text *t, const ModelFacts *f)
{
    enum { MOST = 60 };

    for (uint32_t i = 0, shown = 0; i < f->metadata.n; i++) {
        if (!strncmp(f->metadata.at[i].key, "onnx.", 5))
            continue; /* told by other lines */
        const char *value = f->metadata.at[i].value;
        size_t n = 0;
        while ((unsigned char)value[n] >= ' ')
            n++; /* up to a line's end, and no control characters for terminals */
        bool whole = n <= MOST && !value[n];
        n = n <= MOST ? n : MOST;
        while (!whole && n && (value[n] & 0xc0) == 0x80)
            n--; /* not within a character */
        text_printf(t, "%-12s %s: %.*s%s\n", shown++ ? "" : "metadata", f->metadata.at[i].key,
                    (int)n, value, whole ? "" : " …");
    }
}

static void
print_text(Text *t, const ModelFacts *f)
{
    text_printf(t, "%s: %s", f->file, f->kind);
    if (f->opset)
        text_printf(t, ", opset %lld", (long long)f->opset);
    if (f->producer && *f->producer)
        text_printf(t, ", made by %s", f->producer);
    text_add(t, "\n");
    if (f->summary)
        text_printf(t, "%-12s %s\n", "compiled", f->summary);
    text_ports(t, "inputs", f->input.at, f->input.n);
    text_ports(t, "outputs", f->output.at, f->output.n);
    text_list(t, "symbols", f->symbol.at, f->symbol.n);
    text_list(t, "checks", f->check.at, f->check.n);
    text_list(t, "states", f->state.at, f->state.n);
    text_metadata(t, f);
    if (f->arena)
        text_printf(t, "%-12s %s bytes between kernels\n", "memory", f->arena);
    text_printf(t, "%-12s ", "weights");
    text_size(t, f->weights_bytes);
    text_add(t, "\n");
    if (f->kernel.n)
        text_list(t, "kernels", f->kernel.at, f->kernel.n);
    else if (!f->summary)
        text_census(t, f);
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static void
json_ports(Text *t, const char *name, const Port *port, uint32_t n)
{
    text_printf(t, ",\n  \"%s\": [", name);
    for (uint32_t i = 0; i < n; i++) {
        text_member(t, i ? ",\n    {" : "\n    {", "name", port[i].name);
        text_member(t, ", ", "type", port[i].type);
        text_member(t, ", ", "format", port[i].format);
        text_add(t, "}");
    }
    text_add(t, n ? "\n  ]" : "]");
}

static void
json_list(Text *t, const char *name, const char *const *item, uint32_t n)
{
    text_printf(t, ",\n  \"%s\": [", name);
    for (uint32_t i = 0; i < n; i++) {
        text_add(t, i ? ", " : "");
        text_json(t, item[i]);
    }
    text_add(t, "]");
}

static void
json_census(Text *t, const ModelFacts *f)
{
    text_add(t, ",\n  \"operators\": {");
    for (uint32_t i = 0; i < f->census.n; i++) {
        text_add(t, i ? ", " : "");
        text_json(t, f->census.at[i].name);
        text_printf(t, ": %lld", (long long)f->census.at[i].count);
    }
    text_add(t, "},\n  \"unsupported\": [");
    for (uint32_t i = 0; i < f->nunsupported; i++) {
        text_member(t, i ? ",\n    {" : "\n    {", "node", f->unsupported[i].node);
        text_member(t, ", ", "op", f->unsupported[i].op);
        text_member(t, ", ", "reason", f->unsupported[i].reason);
        text_add(t, "}");
    }
    text_add(t, f->nunsupported ? "\n  ]" : "]");
}

static void
json_metadata(Text *t, const ModelFacts *f)
{
    text_add(t, ",\n  \"metadata\": {");
    for (uint32_t i = 0; i < f->metadata.n; i++) {
        text_add(t, i ? ",\n    " : "\n    ");
        text_json(t, f->metadata.at[i].key);
        text_add(t, ": ");
        text_json(t, f->metadata.at[i].value);
    }
    text_add(t, f->metadata.n ? "\n  }" : "}");
}

static void
print_json(Text *t, const ModelFacts *f)
{
    text_member(t, "{\n  ", "file", f->file);
    text_member(t, ",\n  ", "kind", f->kind);
    text_member(t, ",\n  ", "name", f->name);
    text_member(t, ",\n  ", "producer", f->producer);
    text_member(t, ",\n  ", "target", f->target);
    text_member(t, ",\n  ", "summary", f->summary);
    if (f->opset)
        text_printf(t, ",\n  \"opset\": %lld", (long long)f->opset);
    text_printf(t, ",\n  \"nodes\": %lld,\n  \"inner_nodes\": %lld,\n  \"weights_bytes\": %lld",
                (long long)f->nodes, (long long)f->inner_nodes, (long long)f->weights_bytes);
    json_ports(t, "inputs", f->input.at, f->input.n);
    json_ports(t, "outputs", f->output.at, f->output.n);
    json_list(t, "symbols", f->symbol.at, f->symbol.n);
    json_list(t, "checks", f->check.at, f->check.n);
    json_list(t, "states", f->state.at, f->state.n);
    json_metadata(t, f);
    text_member(t, ",\n  ", "arena_bytes", f->arena);
    json_list(t, "kernels", f->kernel.at, f->kernel.n);
    json_census(t, f);
    text_add(t, "\n}\n");
}

static bool
inspect(TnContext *ctx, const char *path, int32_t json, const char **out)
{
    Text t = { .arena = ctx->call->keep };
    ModelFacts f;

    if (!path || !out)
        return diag_usage(&ctx->c.diags, "no model file was named");
    if (!gather(ctx, ctx->call->arena, path, &f))
        return false;
    if (json)
        print_json(&t, &f);
    else
        print_text(&t, &f);
    *out = text_str(&t);
    return true;
}

TnStatus
tn_inspect(TnContext *ctx, const char *path, int32_t json, const char **out)
{
    CALL_ENTER(ctx, NULL);
    return call_end(ctx, inspect(ctx, path, json, out));
}
