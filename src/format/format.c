/* format: which constants lie packed.
 *
 * A constant that is an operand of a contraction, and nothing else in its kernel, is laid out in the
 * register tiles of that contraction once, when the artefact is written, instead of on every run.
 */
#include "format/format.h"

static uint32_t
reads_of(Ctx *c, Arena *a, const Nest *n, uint32_t slot)
{
    Accesses all = nest_accesses(c, a, n);
    uint32_t count = 0;
    for (uint32_t i = 0; i < all.n; i++)
        count += all.at[i].load->u.load.slot == slot;
    return count;
}

static bool
same_format(const Format *a, const Format *b)
{
    if (a->npart != b->npart)
        return false;
    for (uint32_t i = 0; i < a->npart; i++)
        if (a->part[i].dim != b->part[i].dim || a->part[i].div != b->part[i].div || a->part[i].mod != b->part[i].mod)
            return false;
    return true;
}

/* The constant behind an input of node n gets format f, or a copy of it does when somebody else
 * wants it otherwise: `wanted[v]` counts the readers that have not agreed yet. */
static void
set_format(Graph *g, NodeId n, uint32_t slot, const Format *f, uint32_t *uses)
{
    Node *node = &g->node.at[n];
    ValueId *ref = &g->ref.at[node->in.first + slot], v = *ref;

    if (uses[v] > 1) {
        Value copy = g->value.at[v];
        for (ValueId w = 1; w < g->value.n; w++)
            if (g->value.at[w].data == copy.data && g->value.at[w].format && same_format(g->value.at[w].format, f)) {
                *ref = w;
                node->kernel->buffer.at[slot].format = f;
                return;
            }
        uses[v]--;
        *ref = graph_const(g, copy.name, copy.type, copy.data);
        v = *ref;
    }
    g->value.at[v].format = f;
    node->kernel->buffer.at[slot].format = f;
}

void
format_choose(Graph *g, const Machine *m, FormatWish *wish)
{
    Ctx *c = g->ctx;
    uint32_t *uses = graph_uses(g, g->arena);

    for (NodeId n = 1; n < g->node.n; n++) {
        const Kernel *k = g->node.at[n].callee == CALL_KERNEL ? g->node.at[n].kernel : NULL;
        if (!k || k->npart != 1)
            continue;
        const Part *part = &k->part[0];
        OperandFormats want;
        if (!wish(c, part->nest, m, &want))
            continue;
        for (uint32_t i = 0; i < 2; i++) {
            if (!want.format[i] || want.slot[i] == NO_SLOT || reads_of(c, g->arena, part->nest, want.slot[i]) != 1)
                continue;
            uint32_t input = part->buffer[want.slot[i]];
            ValueId v = node_in(g, &g->node.at[n], input);
            if (g->value.at[v].data && !g->value.at[v].format)
                set_format(g, n, input, want.format[i], uses);
            else if (g->value.at[v].data && same_format(g->value.at[v].format, want.format[i]))
                g->node.at[n].kernel->buffer.at[input].format = want.format[i];
        }
    }
}
