/* sequence_map: SequenceMap: a loop over the items, built of ONNX nodes. */
#include "import/sequence.h"
#include "import/synthetic.h"

#include <string.h>

/* The body of the loop: takes an item of each sequence, runs the map's body, and appends its
 * results. */
static OnnxGraph *
map_body(Call *k, const OnnxGraph *body, char *const *in_name)
{
    Arena *a = k->arena;
    const size_t nin = body->n_input, nout = body->n_output;
    OnnxGraph *g = made_room(a, body, body->n_node + nin + nout + 1, nout + 2, nout + 1);

    made_input(g, made_scalar(a, "map turn", 7));
    made_input(g, made_scalar(a, "map go", 9));
    made_output(g, made_info(a, "map again"));
    for (size_t i = 0; i < nin; i++)
        if (sequence_is(sequence_entry(k, (uint32_t)i)))
            made_node(a, g, "SequenceAt", 2, MADE(in_name[i], "map turn"), body->input[i]->name);
        else
            made_node(a, g, "Identity", 1, MADE(in_name[i]), body->input[i]->name);
    for (size_t i = 0; i < body->n_node; i++)
        g->node[g->n_node++] = body->node[i];
    for (size_t i = 0; i < nout; i++) {
        char *before = arena_printf(a, "map %zu", i),
             *after = arena_printf(a, "map %zu and this", i);
        made_node(a, g, "SequenceInsert", 2, MADE(before, body->output[i]->name), after);
        made_input(g, made_info(a, before));
        made_output(g, made_info(a, after));
    }
    made_node(a, g, "Identity", 1, MADE("map go"), "map again");
    return g;
}

bool
sequence_map(Call *k)
{
    Model *m = k->m;
    Arena *a = m->arena;
    const OnnxAttribute *attr = node_attribute(k->proto, "body");
    const OnnxGraph *body = attr ? attr->g : NULL, *from = m->from;
    size_t nin = k->proto->n_input, nout = k->proto->n_output;
    ValueList output = { 0 };

    if (!body || body->n_input != nin || body->n_output < nout || !nin ||
        !sequence_is(sequence_entry(k, 0)))
        return call_wrong(
            k, "SequenceMap needs a sequence, and a body that takes %zu values and gives %zu", nin,
            nout);
    OnnxGraph *g = made_room(a, ONNX_NEW(a, Graph), body->n_output + 2, 0, nout);
    const char **in = NEW_ARRAY(a, const char *, body->n_output + 2);
    made_node(a, g, "SequenceLength", 1, MADE(k->proto->input[0]), in[0] = "map length");
    in[1] = "";
    for (size_t i = 0; i < body->n_output; i++) {
        const OnnxTensorType *t = tensor_type(body->output[i]->type);
        in[2 + i] = arena_printf(a, "map empty %zu", i);
        made_int(a, made_node(a, g, "SequenceEmpty", 0, NULL, in[2 + i]), "dtype",
                 t ? t->elem_type : 1);
    }
    OnnxNode *loop = made_node(a, g, "Loop", 2 + body->n_output, in, NULL);
    loop->output = NEW_ARRAY(a, char *, body->n_output + 1);
    loop->n_output = body->n_output;
    for (size_t i = 0; i < body->n_output; i++) {
        loop->output[i] = i < nout ? k->proto->output[i] : arena_printf(a, "map unused %zu", i);
        if (i >= nout)
            continue;
        made_output(g, made_info(a, loop->output[i]));
        call_bind(k, (uint32_t)i, 0); /* now a result of the loop */
    }
    made_graph(a, loop, "body", map_body(k, body, k->proto->input));
    m->from = g;
    bool ok = model_body(m, &output, NULL);
    m->from = from;
    return ok;
}
