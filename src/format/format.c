/* format: store constants in the formats that their readers want, once, when the artefact is
 * written, instead of packing them on every run.
 */
#include "format/format.h"

/* Gives the constant behind an input of node n format f, or a second value of the same contents if
 * another reader wants another format. uses[v]: readers that are not decided yet. */
static void
set_format(Graph *g, NodeId n, uint32_t slot, const Format *f, uint32_t *uses)
{
    ValueId *ref = &g->ref.at[g->node.at[n].in.first + slot], v = *ref;

    if (uses[v] > 1 || g->value.at[v].format) {
        Value copy = g->value.at[v];
        for (ValueId w = 1; w < g->value.n; w++)
            if (g->value.at[w].data == copy.data && g->value.at[w].format &&
                format_same(g->value.at[w].format, f)) {
                *ref = w;
                return;
            }
        uses[v]--;
        *ref = graph_const(g, copy.name, copy.type, copy.data);
        v = *ref;
    }
    g->value.at[v].format = f;
}

void
format_constants(Graph *g, FormatsWanted *wanted, void *user)
{
    uint32_t *uses = graph_uses(g, g->arena);

    for (NodeId n = 1; n < g->node.n; n++) {
        const Format *const *f = g->node.at[n].callee == CALL_KERNEL ? wanted(user, n) : NULL;
        for (uint32_t i = 0; f && i < g->node.at[n].in.count; i++) {
            const Value *v = &g->value.at[node_in(g, &g->node.at[n], i)];
            if (f[i] && v->data && !(v->format && format_same(v->format, f[i])))
                set_format(g, n, i, f[i], uses);
        }
    }
}
