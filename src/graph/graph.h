/* graph: a model as a function of single-assignment values, in topological order.
 *
 * A node calls an operator, a nest or a kernel; all live in one graph at once. Values carry their
 * type, contents where they are constant or known symbolically, and a memory format once chosen.
 *
 *   graph @mlp(%x: f32[batch, 4]) -> (%y) {
 *     %w: f32[4, 2] = const [1.0, 2.0, …]
 *     %h: f32[batch, 2] = matmul(%x, %w)
 *     %y: f32[batch, 2] = relu(%h)
 *   }
 */
#ifndef TENON_GRAPH_H
#define TENON_GRAPH_H

#include "nest/kernel.h"
#include "op/op.h"

typedef uint32_t NodeId;             /* index into graph->node;  0 is none */
typedef uint32_t ValueId;            /* index into graph->value; 0 is none (an absent optional input) */
typedef struct { uint32_t first, count; } Span;      /* a run in graph->ref */

typedef struct {
    Sym name;
    const Type *type;
    NodeId def;                      /* 0: graph input or constant */
    const void *data;                /* constant: plain row-major contents, not owned (mapped file or arena); else NULL */
    Known known;
    const Format *format;            /* NULL: plain */
} Value;

typedef enum { CALL_OP, CALL_NEST, CALL_KERNEL } CalleeKind;

typedef struct {
    CalleeKind callee;
    OpKind op;       Attrs attrs;    /* CALL_OP */
    const Nest *nest;                /* CALL_NEST: in, out in the order of its parameters */
    Kernel *kernel;                  /* CALL_KERNEL: likewise */
    Span in, out;
    Loc loc;
    Sym origin;                      /* the model's own name of the operator: `Conv "layer1.0/conv"` */
} Node;

typedef struct Graph {
    Ctx *ctx;
    Arena *arena;                    /* model lifetime */
    Sym name;
    VEC(Value) value;                /* [0] unused */
    VEC(Node) node;                  /* [0] unused; topological */
    VEC(ValueId) ref;
    VEC(ValueId) input, output;
    Constraints constraints;         /* checked at entry */
    Map taken;                       /* names in use: Sym -> next suffix to try */
} Graph;

Graph *graph_new(Ctx *c, Arena *arena, const char *name);
ValueId graph_value(Graph *g, const char *name, const Type *t);      /* names made unique with a suffix */
ValueId graph_input(Graph *g, const char *name, const Type *t);
ValueId graph_const(Graph *g, const char *name, const Type *t, const void *data);   /* sets known for small integers */
NodeId graph_call_op(Graph *g, OpKind op, Attrs attrs, Loc loc, Sym origin, uint32_t nin, const ValueId *in,
                     uint32_t nout, const ValueId *out);
NodeId graph_call_nest(Graph *g, const Nest *n, Loc loc, Sym origin, const ValueId *in, const ValueId *out);
NodeId graph_call_kernel(Graph *g, Kernel *k, Loc loc, Sym origin, const ValueId *in, const ValueId *out);
/* Call an operator whose output types follow from its shape rule: infers, sets known, makes the
 * output values with the names given (NULL: made up). False with a diagnostic. */
bool graph_infer_op(Graph *g, OpKind op, Attrs attrs, Loc loc, Sym origin, uint32_t nin, const ValueId *in,
                    uint32_t nout, const char *const *out_name, ValueId *out);

static inline ValueId node_in(const Graph *g, const Node *n, uint32_t i) { return g->ref.at[n->in.first + i]; }
static inline ValueId node_out(const Graph *g, const Node *n, uint32_t i) { return g->ref.at[n->out.first + i]; }
/* As op_* want it. Constraints that a rule records are dropped; see graph_infer_op. */
OpCall graph_op_call(const Graph *g, Arena *scratch, NodeId n);

/* Copy value v (input, constant or result) of `from` into g, keeping its name; for passes that rebuild. */
ValueId graph_copy_value(Graph *g, const Graph *from, ValueId v);
/* A rebuilding pass: map[v of from] = value in g. Copies node n with its inputs mapped. */
NodeId graph_copy_node(Graph *g, const Graph *from, NodeId n, ValueId *map);
/* Start a rebuild: inputs and constants of `from` copied, map [from->value.n] filled with them. */
Graph *graph_rebuild(const Graph *from, ValueId **map);
/* End it: outputs mapped, nodes and constants no output needs dropped. Returns how many nodes went.
 * Values and nodes that stay are numbered anew. */
uint32_t graph_finish(Graph *g, const Graph *from, const ValueId *map);

/* Number of uses of each value as a node's input, plus one per graph output: [value.n]. */
uint32_t *graph_uses(const Graph *g, Arena *scratch);
/* Users of each value: list of nodes. */
typedef struct { uint32_t *first; NodeId *node; } Users;             /* node[first[v] .. first[v+1]) */
Users graph_users(const Graph *g, Arena *scratch);

bool graph_verify(const Graph *g);                   /* numbered invariants; reports as internal */

/* Text. Constants of more than 64 elements go to `weights` (a file beside the text) when it is
 * given: `const file "digits.weights" 128`; else they print as `const elided 0x…` which does not parse. */
typedef struct { Writer *writer; const char *name; Map offset; } WeightsFile;   /* offset: constants already written */
void graph_print(Text *t, const Graph *g, WeightsFile *weights);
void graph_print_node(Text *t, const Graph *g, NodeId n);      /* its lines of that text */
Graph *graph_parse(Ctx *c, Arena *arena, const char *path, Bytes text);     /* files named in it are read beside it */

#endif
