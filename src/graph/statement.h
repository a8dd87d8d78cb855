/* statement: nodes from a text with inferred types, for a graph that is being built.
 *
 *     mean = reduce_mean(x, [-1])
 *     d = x - mean
 *     d / sqrt(reduce_mean(d * d, [-1]) + 1e-5)
 *
 * These are the text form's expressions (doc/text.md) with bare names for values. A builder defines
 * an operator by such a text instead of calling graph_infer_op for each node.
 */
#ifndef TENON_STATEMENT_H
#define TENON_STATEMENT_H

#include "graph/graph.h"

typedef struct Statements {
    Graph *g;
    Loc loc;          /* of every node */
    Sym origin;       /* likewise */
    const char *like; /* prefix of the symbols that a match defines */
    OpKind self;      /* the operator that `self(…)` calls */
    Attrs attrs;      /* what `{*}` stands for */
    Map name;         /* Sym -> ValueId; 0: an optional value that is absent */
    Map shown;        /* Sym -> Sym: the names that such values get in the graph */
    ValueId last;     /* of the last statement */
} Statements;

/* Runs the statements of a text and adds the names that it assigns to s->name.
 *
 * False: reported. False without a report if an operator requires a value that is absent, since
 * that was reported where the value should have been made.
 */
bool graph_statements(Statements *s, const char *text);

/* Stops a run with `why` unless `ok`, a bool of one element, is true. False, reported: it never
 * is. */
bool graph_demand(Graph *g, ValueId ok, const char *like, const char *why, Loc loc, Sym origin);

#endif
