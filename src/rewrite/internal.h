/* internal: rebuilding a graph, which the files of rewrite share. */
#ifndef TENON_REWRITE_INTERNAL_H
#define TENON_REWRITE_INTERNAL_H

#include "rewrite/rewrite.h"

/* A rebuild under way. */
typedef struct {
    const Graph *from;
    Graph *to;
    Arena *scratch;
    ValueId *map;       /* [from->value.n]: the value in `to` */
    uint8_t *is_output; /* [from->value.n] */
} Rebuild;

void rebuild_begin(Rebuild *r, const Graph *from);
/* Outputs mapped, dead nodes dropped, scratch freed. */
Graph *rebuild_end(Rebuild *r);

/* `value` of the new graph stands for `old` of the old one. A graph output keeps its name and is
 * computed by a node of its own; false where that would be lost, and the caller keeps the node. */
bool rebuild_replace(Rebuild *r, ValueId old, ValueId value);

#endif
