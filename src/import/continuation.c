/* continuation: an If whose branches give values of different ranks, such as a squeeze of an axis
 * that is or is not 1.
 *
 * A value of the graph has one rank. So each branch continues with all nodes that depend on the If:
 * they are read twice, each time with the ranks of one branch, and the results of the If are then
 * the graph's own outputs. So
 *
 *     y = If(c) { then: a } { else: b };  z = f(y)     is     z = If(c) { then: y = a; z = f(y) } {
 *     else: y = b; z = f(y) }
 *
 * If the following nodes do not accept a branch, the model is wrong only when that branch is taken:
 * the other one is read in place, and runs check the condition (control.c). The same holds if the
 * results of the graph differ in rank and the model declares one.
 */
#include "import/synthetic.h"

#include <string.h>

typedef struct {
    Model *m;
    Map name;
} DependentNames;

static bool
is_among(const DependentNames *s, const char *name)
{
    return *name && map_get(&s->name, MAP_PTR(sym(s->m->c, name)), NULL);
}

static void
note(DependentNames *s, const OnnxNode *n)
{
    for (size_t i = 0; i < n->n_output; i++)
        if (*n->output[i])
            map_put(&s->name, MAP_PTR(sym(s->m->c, n->output[i])), 1);
}

/* Does the node, or a graph in it, read one of the names? Reading the file has bounded the
 * depth. */
static bool
reads(const DependentNames *s, const OnnxNode *n)
{
    for (size_t i = 0; i < n->n_input; i++)
        if (is_among(s, n->input[i]))
            return true;
    for (size_t a = 0; a < n->n_attribute; a++) {
        const OnnxGraph *g = n->attribute[a]->g;
        for (size_t i = 0; g && i < g->n_node; i++)
            if (reads(s, g->node[i]))
                return true;
        for (size_t i = 0; g && i < g->n_output; i++)
            if (is_among(s, g->output[i]->name))
                return true;
    }
    return false;
}

/* The branch, its results under the node's names, and all following nodes. */
static OnnxGraph *
going_on(Arena *a, const OnnxGraph *branch, const OnnxNode *n, size_t nrest, OnnxNode *const *rest,
         size_t nout, OnnxValueInfo **out)
{
    OnnxGraph *g = made_room(a, branch, branch->n_node + n->n_output + nrest, 0, 0);

    g->input = branch->input;
    g->n_input = branch->n_input;
    g->output = out;
    g->n_output = nout;
    for (size_t i = 0; i < branch->n_node; i++)
        g->node[g->n_node++] = branch->node[i];
    for (size_t i = 0; i < n->n_output && i < branch->n_output; i++)
        if (*n->output[i] && strcmp(n->output[i], branch->output[i]->name))
            made_node(a, g, "Identity", 1, MADE(branch->output[i]->name), n->output[i]);
    for (size_t i = 0; i < nrest; i++)
        g->node[g->n_node++] = rest[i];
    return g;
}

/* The node n; each of its graphs continues with the following nodes. */
static OnnxNode *
with_rest(Arena *a, const OnnxNode *n, size_t nrest, OnnxNode *const *rest, size_t nout,
          OnnxValueInfo **out)
{
    OnnxNode *made = arena_copy(a, n, sizeof *made);

    made->attribute = NEW_ARRAY(a, OnnxAttribute *, n->n_attribute + 1);
    for (size_t i = 0; i < n->n_attribute; i++) {
        made->attribute[i] = arena_copy(a, n->attribute[i], sizeof *n->attribute[i]);
        if (n->attribute[i]->g)
            made->attribute[i]->g = going_on(a, n->attribute[i]->g, n, nrest, rest, nout, out);
    }
    made->output = NEW_ARRAY(a, char *, nout + 1);
    made->n_output = nout;
    for (size_t i = 0; i < nout; i++)
        made->output[i] = out[i]->name;
    return made;
}

const OnnxShape *
declared_shape(const OnnxValueInfo *v)
{
    const OnnxTensorType *t = tensor_type(v->type);

    return t ? t->shape : NULL;
}

bool
model_continuation(Model *m, const uint32_t *order, size_t n)
{
    const OnnxGraph *g = m->from;
    const OnnxNode *open = g->node[order[0]];
    const char *why = m->ranks;
    DependentNames names = { m, { .arena = m->arena } };
    OnnxNode **rest = NEW_ARRAY(m->arena, OnnxNode *, n);
    OnnxValueInfo **out = NEW_ARRAY(m->arena, OnnxValueInfo *, g->n_output + 1);
    size_t nrest = 0, nout = 0;
    bool ok = true, declared = false;

    m->ranks = NULL;
    note(&names, open);
    for (size_t i = 1; i < n; i++) {
        OnnxNode *node = g->node[order[i]];
        bool behind = reads(&names, node);
        if (!behind) {
            ok &= model_node(m, node, order[i]);
            behind = m->ranks != NULL; /* another such If: it is among the following nodes */
            m->ranks = NULL;
        }
        if (behind) {
            note(&names, node);
            rest[nrest++] = node;
        }
    }
    for (size_t i = 0; i < g->n_output; i++)
        if (is_among(&names, g->output[i]->name)) {
            out[nout++] = g->output[i];
            declared |= declared_shape(g->output[i]) != NULL;
        }
    if (nout && (nrest || declared)) {
        m->goes_on = true;
        ok &= model_node(m, with_rest(m->arena, open, nrest, rest, nout, out), order[0]);
        m->goes_on = false;
        why = m->ranks;
        m->ranks = NULL;
    }
    if (!why || !nout)
        return ok;
    if (m->in_place) { /* what follows the outer If follows this one too */
        m->ranks = why;
        return ok;
    }
    return diag_error(&m->c->diags, DIAG_UNSUPPORTED, node_loc(m->arena, m->path, open, order[0]),
                      "%s", why);
}
