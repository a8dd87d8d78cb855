/* control: graphs inside a model while they are read: entered, given what they read, left. See
 * control.c. */
#ifndef TENON_IMPORT_CONTROL_H
#define TENON_IMPORT_CONTROL_H

#include "import/converters.h"

/* What is being read around it, to come back to. */
typedef struct {
    const Onnx__GraphProto *from;
    Graph *g;
    Map value;
    bool in_place;
} Around;

typedef struct {
    Call *k;
    Around around;
    Graph *g;
    VEC(Binding) bind; /* its symbols in those outside */
    VEC(Binding) back; /* outside symbols by its own, where it has one for exactly that */
    ValueList output;  /* a sequence is two of them … */
    bool may_be_empty; /* a sequence among them may have no rank yet */
    uint64_t *mark;    /* … and has its mark here, by output of the ONNX graph */
} Inside;

typedef VEC(NewSymbol) NewSymbols;
/* The node's results by name; a sequence is two of them. */
typedef VEC(Sym) ResultNames;

/* An attribute of a node; NULL: it has none of that name. */
const Onnx__AttributeProto *inside_attribute(const Onnx__NodeProto *n, const char *name);
/* The value of a name where the node stands. */
ValueId inside_outer(const Call *k, Sym name);
/* The graph that an attribute is. Errors: there is none. */
bool inside_graph(Call *k, const char *name, const Onnx__GraphProto **out);
/* Begin to read `from` as a graph of its own … */
void inside_enter(Inside *in, Call *k, const Onnx__GraphProto *from, const char *name);
/* … and go on with what is around it. */
void inside_leave(Inside *in);
/* A fresh symbol of the graph inside that stands for e outside. */
const Expr *inside_bind(Inside *in, const char *like, const Expr *e);
/* An expression of the outside in symbols of the inside. */
const Expr *inside_expr(Inside *in, const Expr *e);
/* Value v of the outside under a name inside: a constant, or an input, which is then an
 * argument. */
bool inside_hand_in(Inside *in, const char *name, ValueId v, ValueList *args);
/* All that the node captures, handed in. */
bool inside_captured(Inside *in, ValueList *args);
/* Its nodes and outputs. False also where a value among these was refused, which has been
 * reported. */
bool inside_read(Inside *in);
/* What is reported from `first` to `end`, taken back where all of it is about what nodes do, and
 * then its first error. Limits are not: what they keep from being read may be anything. NULL: it
 * stays reported. */
const Diag *inside_take_back(Model *m, uint32_t first, uint32_t end);
/* What the node runs. */
Region inside_region(const Inside *in);
/* A dimension inside, as it is outside; NULL where a symbol of the inside (of those that do not
 * change) has no one value there. */
const Expr *inside_out(const Inside *in, const bool *changes, const Expr *dim);
/* A symbol that the node defines. */
const Expr *inside_new_symbol(Model *m, NewSymbols *fresh, const char *like, const Expr *most);
/* What the symbol of result i's dimension d is called. */
const char *inside_size_name(Call *k, uint32_t i, uint32_t d);
/* The results by name; marks of sequences are put in the table of names. */
ResultNames inside_results(Call *k, const uint64_t *mark);
/* The node, with results of these types. */
bool inside_finish(Call *k, Node *n, const ValueList *in, const Type *const *type,
                   ResultNames names);

/* The one result of a graph with one input, read in place of the node; 0, reported. */
ValueId inside_apply(Call *k, const Onnx__GraphProto *from, ValueId x);

/* Loop and Scan. (loop.c) */
Control loop_read, loop_read_scan;
/* Scan of opset 8. (scan8.c) */
Control scan_batches;

#endif
