/* dce: drop the nodes that no output depends on.
 *
 * Copying everything and finishing is enough: graph_finish walks once from the last node to the
 * first, and nodes stand in topological order, so all users of a node are seen before it.
 */
#include "rewrite/internal.h"

Graph *
rewrite_dce(const Graph *g)
{
    Rebuild r;
    rebuild_begin(&r, g);
    for (NodeId id = 1; id < g->node.n; id++)
        graph_copy_node(r.to, g, id, r.map);
    return rebuild_end(&r);
}
