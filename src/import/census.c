/* census: the contents of a model file, whether or not it can be compiled. */
#include "import/converters.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *
declared_type(Model *m, const OnnxValueInfo *v)
{
    Text t = { .arena = m->arena };
    const OnnxTensorType *tensor = tensor_type(v->type);

    if (!tensor)
        return "not a tensor";
    DType dtype = dtype_from_onnx(tensor->elem_type);
    const char *name =
        dtype == DT_NONE ? onnx_type_name(m->arena, tensor->elem_type) : dtype_info[dtype].name;
    text_printf(&t, "%s%s", isalpha((unsigned char)*name) ? "" : "onnx:", name);
    text_add(&t, "[");
    for (size_t d = 0; tensor->shape && d < tensor->shape->n_dim; d++) {
        const OnnxDimension *dim = tensor->shape->dim[d];
        text_add(&t, d ? ", " : "");
        if (dim->value_case == ONNX_DIM_VALUE && dim->dim_value >= 0)
            text_printf(&t, "%lld", (long long)dim->dim_value);
        else
            text_add(&t,
                     dim->value_case == ONNX_DIM_PARAM && dim->dim_param ? dim->dim_param : "?");
    }
    text_add(&t, tensor->shape ? "]" : "unknown rank]");
    return text_str(&t);
}

static void
values(Model *m, size_t n, OnnxValueInfo **v, const Map *skip, Census *out, bool input)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = v[i]->name ? v[i]->name : "";
        CensusValue row = { sym(m->c, name), declared_type(m, v[i]) };
        if (skip && map_get(skip, MAP_PTR(sym(m->c, name)), NULL))
            continue;
        if (input)
            VEC_PUSH(m->arena, &out->input, row);
        else
            VEC_PUSH(m->arena, &out->output, row);
    }
}

static int
by_count(const void *a, const void *b)
{
    const CensusRow *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : strcmp(x->op, y->op);
}

static int64_t
tensor_bytes_of(const OnnxTensor *t)
{
    DType dtype = dtype_from_onnx(t->has_data_type ? t->data_type : 0);
    int64_t n = dtype_info[dtype].bytes;

    for (size_t d = 0; d < t->n_dims; d++)
        if (t->dims[d] < 0 || mul_overflows(n, t->dims[d], &n))
            return 0;
    return n;
}

static const char *
producer(Model *m)
{
    const char *name = m->proto->producer_name, *version = m->proto->producer_version;

    if (!name || !*name)
        return "";
    return version && *version ? arena_printf(m->arena, "%s %s", name, version) : name;
}

static void
count_operator(Model *m, const OnnxNode *n, Map *rows, Census *out)
{
    const char *domain = n->domain && strcmp(n->domain, "ai.onnx") ? n->domain : "";
    Sym op = sym_printf(m->c, "%s%s%s", domain, *domain ? "." : "", n->op_type ? n->op_type : "?");
    uint64_t row;

    if (!map_get(rows, MAP_PTR(op), &row)) {
        row = out->census.n;
        map_put(rows, MAP_PTR(op), row);
        VEC_PUSH(m->arena, &out->census, ((CensusRow){ op, 0 }));
    }
    out->census.at[row].count++;
}

/* What a graph holds, and the branches and bodies in it. The reader bounds their depth. */
static void
count_graph(Model *m, const OnnxGraph *g, Map *rows, Census *out)
{
    out->nodes += (int64_t)g->n_node;
    for (size_t i = 0; i < g->n_initializer; i++)
        out->weights_bytes += tensor_bytes_of(g->initializer[i]);
    for (size_t i = 0; i < g->n_sparse_initializer; i++) {
        const OnnxSparseTensor *t = g->sparse_initializer[i];
        out->weights_bytes += (t->values ? tensor_bytes_of(t->values) : 0) +
                              (t->indices ? tensor_bytes_of(t->indices) : 0);
    }
    for (size_t i = 0; i < g->n_node; i++) {
        const OnnxNode *n = g->node[i];
        count_operator(m, n, rows, out);
        for (size_t a = 0; a < n->n_attribute; a++) {
            const OnnxAttribute *attribute = n->attribute[a];
            if (attribute->t) /* of Constant */
                out->weights_bytes += tensor_bytes_of(attribute->t);
            if (attribute->g)
                count_graph(m, attribute->g, rows, out);
            for (size_t k = 0; k < attribute->n_graphs; k++)
                count_graph(m, attribute->graphs[k], rows, out);
        }
    }
}

bool
import_census(Ctx *c, Arena *arena, const char *path, Bytes file, Census *out)
{
    Model m = { .c = c, .arena = arena, .path = path };
    Map rows = { .arena = arena }, constants = { .arena = arena };

    m.proto = model_read(c, arena, path, file, NULL);
    if (!m.proto)
        return false;
    const OnnxGraph *g = m.proto->graph;
    *out = (Census){ .producer = producer(&m), .opset = model_opset(m.proto) };
    for (size_t i = 0; i < g->n_initializer; i++)
        map_put(&constants, MAP_PTR(sym(c, g->initializer[i]->name ? g->initializer[i]->name : "")),
                1);
    for (size_t i = 0; i < g->n_sparse_initializer; i++)
        map_put(&constants, MAP_PTR(sym(c, sparse_name(g->sparse_initializer[i]))), 1);
    count_graph(&m, g, &rows, out);
    out->inner_nodes = out->nodes - (int64_t)g->n_node;
    values(&m, g->n_input, g->input, &constants, out, true);
    values(&m, g->n_output, g->output, NULL, out, false);
    qsort(out->census.at, out->census.n, sizeof *out->census.at, by_count);

    /* The diagnostics of importing become rows. */
    uint32_t before = c->diags.list.n;
    DiagClass worst = c->diags.worst;
    c->diags.worst = DIAG_OK;
    if (!import_onnx(c, arena, path, file, NULL) && c->diags.worst != DIAG_UNSUPPORTED)
        /* no valid model, rather than one with an unknown operator */
        return false;
    for (uint32_t i = before; i < c->diags.list.n; i++) {
        const Diag *d = &c->diags.list.at[i];
        if (!d->note)
            VEC_PUSH(arena, &out->unsupported,
                     ((Unsupported){ d->loc.node ? d->loc.node : "", "", d->text }));
    }
    c->diags.list.n = before;
    c->diags.worst = worst;
    return true;
}
