/* control: reads the graphs in a model: entering, passing values in, leaving. See control.c. */
#ifndef TENON_IMPORT_CONTROL_H
#define TENON_IMPORT_CONTROL_H

#include "import/converters.h"

/* The state of reading an inner graph, and of the outer one to return to. */
typedef struct {
    const OnnxGraph *from;
    Graph *g;
    Map value;
    bool in_place;
} Around;

typedef struct {
    Call *k;
    Around around;
    Graph *g;
    InnerSizes size;
    ValueList output;  /* a sequence is two of them … */
    bool may_be_empty; /* some sequence may have no rank yet */
    uint64_t *mark;    /* … and its mark is here, by output of the ONNX graph */
} InnerGraph;

typedef VEC(NewSymbol) NewSymbols;
/* The node's results by name; a sequence is two of them. */
typedef VEC(Sym) ResultNames;

/* The value of a name in the node's scope. */
ValueId inside_outer(const Call *k, Sym name);
/* The graph of an attribute. Errors: there is none. */
bool inside_graph(Call *k, const char *name, const OnnxGraph **out);
/* Starts to read `from` as a separate graph … */
void inside_enter(InnerGraph *in, Call *k, const OnnxGraph *from, const char *name);
/* … and returns to the outer one. */
void inside_leave(InnerGraph *in);
/* Passes the outer value v in under a name: a constant, or an input, which becomes an argument. */
bool inside_hand_in(InnerGraph *in, const char *name, ValueId v, ValueList *args);
/* Passes in all values that the node captures. */
bool inside_captured(InnerGraph *in, ValueList *args);
/* Reads its nodes and outputs. False also if one of these values was refused, which has been
 * reported. */
bool inside_read(InnerGraph *in);
/* Retracts the diagnostics `first` to `end` if all are about nodes, and returns the first error of
 * them. Limits are not retracted: what they keep from being read is unknown. NULL: they stay. */
const Diag *inside_take_back(Model *m, uint32_t first, uint32_t end);
/* The region for the node. */
Region inside_region(const InnerGraph *in);
/* An inner dimension in outer symbols; NULL if an inner symbol (other than those that change) has
 * no single outer value. */
const Expr *inside_out(const InnerGraph *in, const bool *changes, const Expr *dim);
/* A symbol that the node defines. */
const Expr *inside_new_symbol(Model *m, NewSymbols *fresh, const char *like, const Expr *most);
/* The name of the symbol for result i's dimension d. */
const char *inside_size_name(Call *k, uint32_t i, uint32_t d);
/* The results by name; marks of sequences go into the table of names. */
ResultNames inside_results(Call *k, const uint64_t *mark);
/* Adds the node, with results of these types. */
bool inside_finish(Call *k, Node *n, const ValueList *in, const Type *const *type,
                   ResultNames names);

/* Reads a graph in place of the node, with the names in `inner` and those that the node captures.
 * in_place: the nodes after an If belong to its branches. */
bool inside_place(Call *k, const OnnxGraph *from, Map inner, bool in_place, ValueList *output,
                  uint64_t *mark);
/* The only result of a graph with one input, read in place of the node; 0, reported. */
ValueId inside_apply(Call *k, const OnnxGraph *from, ValueId x);

/* Loop and Scan. (loop.c) */
Convert loop_read, loop_read_scan;
/* Scan of opset 8. (scan8.c) */
Convert scan_batches;

#endif
