/* function: a call of one of the model's own functions (FunctionProto).
 *
 * Its nodes are read in place of the call, with the call's arguments under the names of its inputs:
 * types and sizes differ between calls, and operators of the body then fuse with those around it.
 * ONNX forbids recursion, so this ends; a recursive model is refused by its depth.
 *
 * A node of the body may refer to an attribute of the call. Such nodes are copied with the
 * attribute substituted.
 */
#include "import/control.h"

#include <string.h>

const OnnxFunction *
function_named(const Model *m, const OnnxNode *n)
{
    const char *domain = n->domain, *overload = n->overload;

    for (size_t i = 0; i < m->proto->n_functions; i++) {
        const OnnxFunction *f = m->proto->functions[i];
        if (!strcmp(f->name, n->op_type) && !strcmp(f->domain, domain) &&
            !strcmp(f->overload, overload))
            return f;
    }
    return NULL;
}

/* ---- references to attributes of the call ---------------------------------------------------- */

typedef struct {
    Model *m;
    const OnnxNode *call;
    const OnnxFunction *function;
} Resolve;

static const OnnxAttribute *
named_attribute(const Resolve *r, const char *name)
{
    const OnnxAttribute *given = node_attribute(r->call, name);

    for (size_t i = 0; !given && i < r->function->n_attribute_proto; i++)
        if (!strcmp(r->function->attribute_proto[i]->name, name))
            return r->function->attribute_proto[i];
    return given;
}

static OnnxNode **resolve_nodes(const Resolve *r, size_t n, OnnxNode *const *node);

/* NULL: it refers to one that the call omits. */
static OnnxAttribute *
resolve_attribute(const Resolve *r, const OnnxAttribute *a)
{
    Arena *arena = r->m->arena;
    const OnnxAttribute *from = *a->ref_attr_name ? named_attribute(r, a->ref_attr_name) : a;

    if (!from)
        return NULL;
    OnnxAttribute *copy = arena_copy(arena, from, sizeof *copy);
    copy->name = a->name;
    if (copy->g && from == a) {
        OnnxGraph *g = arena_copy(arena, copy->g, sizeof *g);
        g->node = resolve_nodes(r, g->n_node, g->node);
        copy->g = g;
    }
    return copy;
}

static OnnxNode **
resolve_nodes(const Resolve *r, size_t n, OnnxNode *const *node)
{
    Arena *arena = r->m->arena;
    OnnxNode **list = NEW_ARRAY(arena, OnnxNode *, n + 1);

    for (size_t i = 0; i < n; i++) {
        OnnxNode *copy = arena_copy(arena, node[i], sizeof *copy);
        copy->attribute = NEW_ARRAY(arena, OnnxAttribute *, node[i]->n_attribute + 1);
        copy->n_attribute = 0;
        for (size_t a = 0; a < node[i]->n_attribute; a++) {
            OnnxAttribute *attribute = resolve_attribute(r, node[i]->attribute[a]);
            if (attribute)
                copy->attribute[copy->n_attribute++] = attribute;
        }
        list[i] = copy;
    }
    return list;
}

/* ---- the body -------------------------------------------------------------------------------- */

/* The function as a graph: outputs are values with only a name. */
static const OnnxGraph *
graph_of(const Resolve *r)
{
    Arena *arena = r->m->arena;
    const OnnxFunction *f = r->function;
    OnnxGraph *g = ONNX_NEW(arena, Graph);

    g->name = f->name;
    g->n_node = f->n_node;
    g->node = resolve_nodes(r, f->n_node, f->node);
    g->n_output = f->n_output;
    g->output = NEW_ARRAY(arena, OnnxValueInfo *, f->n_output + 1);
    for (size_t i = 0; i < f->n_output; i++) {
        g->output[i] = ONNX_NEW(arena, ValueInfo);
        g->output[i]->name = f->output[i];
    }
    return g;
}

static int64_t
opset_of(const Model *m, const OnnxFunction *f)
{
    for (size_t i = 0; i < f->n_opset_import; i++)
        if (!*f->opset_import[i]->domain || !strcmp(f->opset_import[i]->domain, "ai.onnx"))
            return f->opset_import[i]->version;
    return m->opset;
}

bool
function_call(Call *k)
{
    Model *m = k->m;
    Resolve r = { m, k->proto, function_named(m, k->proto) };
    const OnnxFunction *f = r.function;
    const OnnxFunction *around = m->function;
    const int64_t opset = m->opset;
    Map inner = { .arena = m->arena };
    ValueList output = { 0 };
    Call bare = *k; /* names that graphs of the call capture are not those of the function */

    bare.captured.n = bare.captured_mark.n = 0;
    if (k->in.n > f->n_input || k->proto->n_output > f->n_output)
        return call_wrong(
            k, "function %s has %zu inputs and %zu outputs, the node gives %u and takes %zu",
            f->name, f->n_input, f->n_output, k->in.n, k->proto->n_output);
    for (uint32_t i = 0; i < k->in.n; i++)
        if (k->in.at[i])
            map_put(&inner, MAP_PTR(sym(m->c, f->input[i])), k->in.at[i]);
    m->function = f;
    m->opset = opset_of(m, f);
    bool ok = inside_place(&bare, graph_of(&r), inner, false, &output, NULL);
    m->opset = opset;
    m->function = around;
    for (uint32_t i = 0; ok && i < k->proto->n_output; i++)
        call_bind(k, i, output.at[i]);
    return ok;
}
