/* metadata: what a model says about itself, kept for those who run it: labels, alphabets, how its
 * inputs are to be made.
 */
#include "import/model.h"

#include <inttypes.h>

static void
add(Model *m, Metadata *to, const char *key, const char *value)
{
    if (value && *value)
        VEC_PUSH(m->arena, to, ((Metadatum){ key, arena_str(m->arena, value) }));
}

static void
add_optional(Model *m, Metadata *to, OnnxValueInfo *const *value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const OnnxType *t = value[i]->type;
        if (!t || t->value_case != ONNX_OPTIONAL_TYPE)
            continue;
        const OnnxType *inner = t->optional_type->elem_type;
        bool list = inner && inner->value_case == ONNX_SEQUENCE_TYPE;
        add(m, to, arena_printf(m->arena, "onnx.optional:%s", value[i]->name),
            list ? "sequence" : "tensor");
    }
}

void
metadata_read(Model *m, Metadata *to)
{
    const OnnxModel *p = m->proto;

    for (size_t i = 0; i < p->n_metadata_props; i++)
        VEC_PUSH(m->arena, to,
                 ((Metadatum){ arena_str(m->arena, p->metadata_props[i]->key),
                               arena_str(m->arena, p->metadata_props[i]->value) }));
    add(m, to, "onnx.producer_name", p->producer_name);
    add(m, to, "onnx.graph_name", p->graph->name);
    add(m, to, "onnx.domain", p->domain);
    add(m, to, "onnx.description", p->doc_string);
    add(m, to, "onnx.graph_description", p->graph->doc_string);
    if (p->model_version)
        add(m, to, "onnx.version", arena_printf(m->arena, "%" PRId64, p->model_version));
    add_optional(m, to, p->graph->input, p->graph->n_input);
    add_optional(m, to, p->graph->output, p->graph->n_output);
}
