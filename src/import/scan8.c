/* scan8: Scan of opset 8: a batch of sequences, each scanned separately.
 *
 *     scan8(lengths?, states [b, ...], inputs [b, s, ...])
 *
 * is a newer Scan over the batch whose body is a newer Scan over the sequence: its states and
 * results are slices and stacks of the outer one. The inner node differs from one of opset 8 by
 * having no lengths.
 */
#include "import/control.h"
#include "import/synthetic.h"

#include <string.h>

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
static OnnxNode *
inner_node(Arena *a, const OnnxNode *old, char **in, size_t nin, char **out, size_t nout)
{
    OnnxNode *n = arena_copy(a, old, sizeof *n);

    n->n_input = nin;
    n->input = in;
    n->n_output = nout;
    n->output = out;
    n->attribute = NEW_ARRAY(a, OnnxAttribute *, old->n_attribute + 1);
    for (size_t i = 0; i < old->n_attribute; i++) {
        n->attribute[i] = arena_copy(a, old->attribute[i], sizeof *n->attribute[i]);
        if (!strcmp(n->attribute[i]->name, "directions"))
            n->attribute[i]->name = (char *)(uintptr_t)"scan_input_directions";
    }
    return n;
}

bool
scan_batches(Call *k)
{
    Arena *a = k->arena;
    const OnnxNode *old = k->proto;
    const OnnxGraph *body;
    size_t nin = old->n_input - 1, nout;

    if (!inside_graph(k, "body", &body))
        return false;
    if (k->in.at[0])
        return call_refuse(k, "Scan of opset 8 with a length for each sequence; export the model "
                              "with opset 9 or newer");
    nout = body->n_output;
    char **in = names(a, "input", nin), **out = names(a, "output", nout);
    OnnxGraph *each = made_room(a, ONNX_NEW(a, Graph), 1, nin, nout);
    OnnxNode *node = made_node(a, NULL, "Scan", 0, NULL, NULL);
    each->name = body->name;
    each->node[each->n_node++] = inner_node(a, old, in, nin, out, nout);
    for (size_t i = 0; i < nin; i++)
        made_input(each, made_info(a, in[i]));
    for (size_t i = 0; i < old->n_output && i < nout; i++)
        made_output(each, made_info(a, out[i]));
    node->n_input = nin;
    node->input = old->input + 1;
    node->n_output = old->n_output;
    node->output = old->output;
    made_graph(a, node, "body", each);
    made_int(a, node, "num_scan_inputs", (int64_t)nin);
    Call over = *k;
    over.proto = node;
    over.in.at = k->in.at + 1;
    over.in.n = k->in.n - 1;
    return old->n_output <= nout
               ? loop_read_scan(&over)
               : call_wrong(k, "a body with %zu results does not fit a Scan with %zu", nout,
                            old->n_output);
}
