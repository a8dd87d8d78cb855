/* rebuild: copy a graph while a pass replaces some of its nodes.
 *
 * Outputs of a graph are a promise to the user: their names stand in the manifest, and each is
 * computed by a node of its own. A value that replaces an output takes over its name, which works
 * once, and only for the result of a node.
 */
#include "rewrite/internal.h"

void
rebuild_begin(Rebuild *r, const Graph *from)
{
    *r = (Rebuild){ .from = from, .scratch = arena_child(from->ctx->arena) };
    r->to = graph_rebuild(from, &r->map);
    r->is_output = NEW_ARRAY(r->scratch, uint8_t, from->value.n);
    for (uint32_t i = 0; i < from->output.n; i++)
        r->is_output[from->output.at[i]] = 1;
}

Graph *
rebuild_end(Rebuild *r)
{
    graph_finish(r->to, r->from, r->map);
    arena_free(r->scratch);
    return r->to;
}

/* Does an output of the old graph stand for this value already? */
static bool
is_taken(const Rebuild *r, ValueId value)
{
    for (uint32_t i = 0; i < r->from->output.n; i++)
        if (r->map[r->from->output.at[i]] == value)
            return true;
    return false;
}

bool
rebuild_replace(Rebuild *r, ValueId old, ValueId value)
{
    Value *v = &r->to->value.at[value];
    if (r->is_output[old]) {
        if (!v->def || is_taken(r, value))
            return false;
        v->name = r->from->value.at[old].name;
    }
    r->map[old] = value;
    return true;
}
