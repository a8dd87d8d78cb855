/* scan8: Scan of opset 8: a batch of sequences, each scanned separately.
 *
 *     scan8(lengths?, states [b, ...], inputs [b, s, ...])
 *
 * is a newer Scan over the batch whose body is a newer Scan over the sequence: its states and
 * results are slices and stacks of the outer one. The inner node differs from one of opset 8 by
 * having no lengths.
 */
#include "import/control.h"

#include <string.h>

static Onnx__ValueInfoProto *
named_value(Arena *a, const char *name)
{
    Onnx__ValueInfoProto *v = NEW(a, Onnx__ValueInfoProto);

    v->name = (char *)(uintptr_t)name;
    return v;
}

static Onnx__AttributeProto *
attribute(Arena *a, const char *name)
{
    Onnx__AttributeProto *attr = NEW(a, Onnx__AttributeProto);

    attr->name = (char *)(uintptr_t)name;
    return attr;
}

/* n names, distinct from the model's by a space. */
static char **
names(Arena *a, const char *what, size_t n)
{
    char **list = NEW_ARRAY(a, char *, n + 1);

    for (size_t i = 0; i < n; i++)
        list[i] = (char *)(uintptr_t)arena_printf(a, "one of a batch: %s %zu", what, i);
    return list;
}

/* The inner node: the attributes of the old one; directions get their newer name. */
static Onnx__NodeProto *
inner_node(Arena *a, const Onnx__NodeProto *old, char **in, size_t nin, char **out, size_t nout)
{
    Onnx__NodeProto *n = arena_copy(a, old, sizeof *n);

    n->n_input = nin;
    n->input = in;
    n->n_output = nout;
    n->output = out;
    n->attribute = NEW_ARRAY(a, Onnx__AttributeProto *, old->n_attribute + 1);
    for (size_t i = 0; i < old->n_attribute; i++) {
        n->attribute[i] = arena_copy(a, old->attribute[i], sizeof *n->attribute[i]);
        if (!strcmp(text_of(n->attribute[i]->name), "directions"))
            n->attribute[i]->name = (char *)(uintptr_t)"scan_input_directions";
    }
    return n;
}

bool
scan_batches(Call *k)
{
    Arena *a = k->m->arena;
    const Onnx__NodeProto *old = k->proto;
    const Onnx__GraphProto *body;
    size_t nin = old->n_input - 1, nout;

    if (!inside_graph(k, "body", &body))
        return false;
    if (k->in.at[0])
        return call_refuse(k, "Scan of opset 8 with a length for each sequence; export the model "
                              "with opset 9 or newer");
    nout = body->n_output;
    char **in = names(a, "input", nin), **out = names(a, "output", nout);
    Onnx__GraphProto *each = NEW(a, Onnx__GraphProto);
    Onnx__NodeProto *node = NEW(a, Onnx__NodeProto);
    each->name = body->name;
    each->n_node = 1;
    each->node = NEW_ARRAY(a, Onnx__NodeProto *, 1);
    each->node[0] = inner_node(a, old, in, nin, out, nout);
    each->n_input = nin;
    each->input = NEW_ARRAY(a, Onnx__ValueInfoProto *, nin + 1);
    for (size_t i = 0; i < nin; i++)
        each->input[i] = named_value(a, in[i]);
    each->n_output = old->n_output;
    each->output = NEW_ARRAY(a, Onnx__ValueInfoProto *, nout + 1);
    for (size_t i = 0; i < old->n_output && i < nout; i++)
        each->output[i] = named_value(a, out[i]);

    Onnx__AttributeProto *graph = attribute(a, "body"), *count = attribute(a, "num_scan_inputs");
    graph->g = each;
    count->i = (int64_t)nin;
    *node = *old;
    node->n_input = nin;
    node->input = old->input + 1;
    node->n_attribute = 2;
    node->attribute = NEW_ARRAY(a, Onnx__AttributeProto *, 2);
    node->attribute[0] = graph;
    node->attribute[1] = count;
    Call over = *k;
    over.proto = node;
    over.in.at = k->in.at + 1;
    over.in.n = k->in.n - 1;
    return old->n_output <= nout
               ? loop_read_scan(&over)
               : diag_error(&k->m->c->diags, DIAG_MODEL, k->loc,
                            "a body with %zu results does not fit a Scan with %zu", nout,
                            old->n_output);
}
