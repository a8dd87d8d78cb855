/* statement: nodes for a graph that is being made, from a text with inferred types.
 *
 *     mean = reduce_mean(x, [-1])
 *     d = x - mean
 *     d / sqrt(reduce_mean(d * d, [-1]) + 1e-5)
 *
 * The text form's expressions (doc/text.md) with bare names for values. Who makes a graph says what
 * an operator means by such a text instead of calling graph_infer_op for each node.
 */
#ifndef TENON_STATEMENT_H
#define TENON_STATEMENT_H

#include "graph/graph.h"

typedef struct Statements {
    Graph *g;
    Loc loc;          /* of every node */
    Sym origin;       /* likewise */
    const char *like; /* what symbols that a match defines are named after */
    OpKind self;      /* the operator that `self(…)` calls */
    Attrs attrs;      /* what `{*}` stands for */
    Map name;         /* Sym -> ValueId; 0: an optional value that is absent */
    Map shown;        /* Sym -> Sym: how values with this name are called in the graph */
    ValueId last;     /* of the last statement */
} Statements;

/* Run the statements of a text; names that it assigns are in s->name behind it.
 *
 * False: reported; or in silence where an operator requires a value that is absent, since that has
 * been reported where the value was to be made. */
bool graph_statements(Statements *s, const char *text);

/* Stop the run with `why` where `ok`, a bool of one element, is not true. False, reported: it never
 * is. */
bool graph_demand(Graph *g, ValueId ok, const char *like, const char *why, Loc loc, Sym origin);

#endif
