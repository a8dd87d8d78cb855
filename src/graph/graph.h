/* graph: a model as functions of single-assignment values, in topological order.
 *
 * A node calls an operator, a nest, a kernel or another graph; all live in one graph at once.
 * Values carry their type, contents where they are constant or known symbolically, and a memory
 * format once chosen.
 *
 *   graph @mlp(%x: f32[batch, 4]) -> (%y) {
 *     %w: f32[4, 2] = const [1.0, 2.0, …]
 *     %h: f32[batch, 2] = matmul(%x, %w)
 *     %y: f32[batch, 2] = relu(%h)
 *   }
 *
 * Control flow is calls of graphs. A branch of an `if`, the body of a `loop` and a function are the
 * same thing: a graph that gets everything it reads as arguments, captured outer values too, and
 * whose symbols are its own. The node says what each of them is in the caller (Region.bind), so
 * what is learnt about sizes inside a branch that may not run says nothing about the world outside
 * of it.
 *
 *   %y: f32[n] = if(%c, %x)
 *     with [n_1 = n] graph @then(%x: f32[n_1]) -> (%a) { … }
 *     with [n_2 = n] graph @else(%x: f32[n_2]) -> (%b) { … }
 *
 * A loop gets a largest number of turns, a condition, carried values, then what its body only
 * reads. The body gets the turn's number, the condition, the carried values and the rest, and gives
 * the next condition, the next carried values, and what is stacked over the turns. A carried value
 * whose shape changes has symbols of the body's own in its type: at first those of the initial
 * value (bind), then those of what the turn before gave.
 *
 * Sizes from data are symbols that a node defines (Node.fresh). A `match` reads them from a small
 * integer tensor; an `if`, a loop or a call has them where the size of a result is only known
 * afterwards. What is known beforehand is an upper bound, and every size is checked when it is
 * defined. Nothing that a symbol sizes runs before the node that defines it: its definition counts
 * as an input (graph_symbols).
 *
 *   %count: i64[1] = …
 *   %s: i64[1] = match(%count) new [hits to 3*n]     %s holds [hits], and the rest may be sized by
 *   it
 *
 * A state is an input and an output of the model that are one thing at two times: what a run gives
 * there the next one begins with, and who runs the model keeps it in between. It may grow along one
 * dimension.
 *
 *   graph @step(%token: i64[1], %past: f32[held, 64]) -> (%next, %present) {
 *     state %past = %present
 *     %row: f32[1, 64] = …
 *     %present: f32[held + 1, 64] = join(%past, %row)
 *
 * A `join` puts tensors one behind the other along their first dimension. It is a node of its own,
 * not a nest, since it is a place rather than something to do: what can be made at its place, or
 * stays there from the run before, is not copied. Joined along another dimension the parts always
 * lie in their places: whoever makes or reads one of them knows where that is (whole.c).
 */
#ifndef TENON_GRAPH_H
#define TENON_GRAPH_H

#include "kernel/kernel.h"
#include "op/op.h"

typedef uint32_t NodeId; /* index into graph->node;  0 is none */
/* index into graph->value; 0 is none (an absent optional input) */
typedef uint32_t ValueId;
typedef struct {
    uint32_t first, count;
} Span; /* a run in graph->ref */

typedef struct {
    Sym name;
    const Type *type;
    NodeId def; /* 0: graph input or constant */
    /* constant: plain row-major contents, not owned (mapped file or arena); else NULL */
    const void *data;
    Known known;
    const Format *format; /* NULL: plain */
    bool kept;            /* graph_is_kept of the value that this one is a copy of */
} Value;

typedef enum {
    CALL_OP,
    CALL_NEST,
    CALL_KERNEL,
    /* fresh[i] is element i of the one input; the one output is the input's copy */
    CALL_MATCH,
    /* in: condition, arguments; region: then, else, which both take all arguments */
    CALL_IF,
    /* in: turns or 0, condition or 0, carried, captured; out: carried, stacked */
    CALL_LOOP,
    CALL_GRAPH, /* in: arguments; region: the function */
    /* in: one or more, of one type but for dimension `along`; the one output is them in order */
    CALL_JOIN,
    /* what a program for many requests gives one of them; region: its blocks (graph/batch.h) */
    CALL_BLOCKS,
} CalleeKind;

/* A symbol that a node defines as it runs. In a result's type it stands alone as a dimension. */
typedef struct {
    Sym name;
    /* upper bound, over symbols defined before; NULL: none is known */
    const Expr *most;
} NewSymbol;

/* A graph that a node runs, and its symbols in terms of the caller's. Those of a loop's carried
 * values are bound for the first turn. */
typedef struct {
    struct Graph *graph;
    uint32_t nbind;
    Binding *bind;
} Region;

typedef struct {
    CalleeKind callee;
    OpKind op;
    Attrs attrs;      /* CALL_OP */
    const Nest *nest; /* CALL_NEST: in, out in the order of its parameters */
    Kernel *kernel;   /* CALL_KERNEL: likewise */
    uint32_t nregion;
    Region *region; /* IF 2, LOOP 1, GRAPH 1, BLOCKS any */
    uint32_t nfresh;
    NewSymbol *fresh;          /* MATCH, IF, LOOP, GRAPH; BLOCKS: see graph/batch.h */
    uint32_t ncarried;         /* LOOP */
    uint32_t along;            /* JOIN; if it is not 0, inputs lie within the output */
    const struct Batch *batch; /* BLOCKS */
    Span in, out;
    Loc loc;
    /* the model's own name of the operator: `Conv "layer1.0/conv"` */
    Sym origin;
} Node;

/* Input and output (numbers of the graph's) that are one thing at two times. */
typedef struct {
    uint32_t input, output;
} State;

typedef struct Graph {
    Ctx *ctx;
    Arena *arena; /* model lifetime */
    Sym name;
    VEC(Value) value; /* [0] unused */
    VEC(Node) node;   /* [0] unused; topological */
    VEC(ValueId) ref;
    VEC(ValueId) input, output;
    VEC(State) state;
    /* checked as soon as their symbols are defined: at entry, or after a node */
    Constraints constraints;
    Map taken; /* names in use: Sym -> next suffix to try */
} Graph;

Graph *graph_new(Ctx *c, Arena *arena, const char *name);
/* names made unique with a suffix */
ValueId graph_value(Graph *g, const char *name, const Type *t);
/* A value with that name gets another, made unique with a suffix; or whoever had it does. */
void graph_name(Graph *g, ValueId v, const char *name);
void graph_rename(Graph *g, ValueId v, const char *name);
ValueId graph_input(Graph *g, const char *name, const Type *t);
/* sets known for small integers */
ValueId graph_const(Graph *g, const char *name, const Type *t, const void *data);
/* Input number i is a constant from now on, and no input. */
void graph_input_is(Graph *g, uint32_t i, const void *data);
NodeId graph_call_op(Graph *g, OpKind op, Attrs attrs, Loc loc, Sym origin, uint32_t nin,
                     const ValueId *in, uint32_t nout, const ValueId *out);
NodeId graph_call_nest(Graph *g, const Nest *n, Loc loc, Sym origin, const ValueId *in,
                       const ValueId *out);
/* A nest that somebody wrote: what its sizes have to be, so that it stays inside of its tensors, is
 * checked when the graph runs. 0, reported: it never does. */
NodeId graph_call_written_nest(Graph *g, const Nest *n, Loc loc, Sym origin, const ValueId *in,
                               const ValueId *out);
NodeId graph_call_kernel(Graph *g, Kernel *k, Loc loc, Sym origin, const ValueId *in,
                         const ValueId *out);
/* A node that runs graphs or defines symbols: callee, region, fresh, ncarried, loc and origin are
 * taken from `n`, arrays copied. A value that is defined by MATCH becomes known by its symbols. */
NodeId graph_call_region(Graph *g, const Node *n, uint32_t nin, const ValueId *in, uint32_t nout,
                         const ValueId *out);
/* The contents of an integer value of fixed size, of rank 0 or 1, become symbols, each at most
 * most[i] (most NULL, most[i] NULL: no bound). The result is known. 0 with a diagnostic if its size
 * is not a number. */
ValueId graph_match(Graph *g, ValueId v, const char *like, const Expr *const *most, Loc loc,
                    Sym origin);
/* What is known outside of a value's contents, in the symbols of a graph that the value is given
 * to. */
Known graph_known_inside(Ctx *c, Arena *a, Known outside, const Region *r);
/* Call an operator whose output types follow from its shape rule: infers, sets known, makes the
 * output values with the names given (NULL: made up; graph_absent: no value, 0). False with a
 * diagnostic. */
extern const char graph_absent[];
bool graph_infer_op(Graph *g, OpKind op, Attrs attrs, Loc loc, Sym origin, uint32_t nin,
                    const ValueId *in, uint32_t nout, const char *const *out_name, ValueId *out);

/* Types of g and of all that it runs, from what became known of sizes after they were inferred
 * (again.c). In place: g is whoever reads a model's, who has just made it. False with a
 * diagnostic. */
bool graph_infer_again(Graph *g);
/* Inputs whose sizes were learnt to be the same, or one of the others, say so in their types: then
 * each input that has one tells it. Not along the dimension in which a state grows. In place. */
bool graph_unify_inputs(Graph *g);

static inline ValueId
node_in(const Graph *g, const Node *n, uint32_t i)
{
    return g->ref.at[n->in.first + i];
}
static inline ValueId
node_out(const Graph *g, const Node *n, uint32_t i)
{
    return g->ref.at[n->out.first + i];
}
/* What a node's inputs hold [in.count], NULL: known only as it runs; and which of them it is known
 * of. */
const void **graph_inputs_data(const Graph *g, Arena *a, const Node *n);
bool *data_is_known(Arena *a, const void *const *data, uint32_t n);
/* Which symbol that node n defines is this dimension, all of it; UINT32_MAX: none. */
uint32_t node_fresh(const Node *n, const Expr *dim);
/* As op_* want it. Constraints that a rule records are dropped; see graph_infer_op. */
OpCall graph_op_call(const Graph *g, Arena *scratch, NodeId n);

/* Its type follows from the inputs'. */
ValueId graph_join(Graph *g, const char *name, Loc loc, Sym origin, uint32_t nin,
                   const ValueId *in);
/* The one dimension in which the types of a state differ, so that it grows along it; the rank if
 * they are the same. False: they differ in more than that. */
bool graph_state_grows(const Graph *g, const State *s, uint32_t *dim);
/* Is a value there from one run to the next: what a run finds of a state, or joins to that? */
bool graph_is_kept(const Graph *g, ValueId v);
/* Is it made by joining rows to what the input holds, so that both can lie in one place? */
bool graph_state_in_place(const Graph *g, const State *s);

/* What each value lies within, [value.n]: the output of a join along another dimension than the
 * first, the outermost one where that lies within another; 0: it is by itself. */
ValueId *graph_wholes(const Graph *g, Arena *a);
/* What Buffer.within is of value v within whole that a kernel sees in this type: NULL where it is
 * one piece of memory there. False: there is none, the kernel sees its rows in other dimensions. */
bool graph_within(const Graph *g, ValueId v, ValueId whole, const Type *seen, const Type **within);
/* Elements of a join's output in front of the first of a part. */
const Expr *graph_offset(const Graph *g, const Node *join, uint32_t part);

/* Copy value v (input, constant or result) of `from` into g, keeping its name; for passes that
 * rebuild. */
ValueId graph_copy_value(Graph *g, const Graph *from, ValueId v);
/* A rebuilding pass: map[v of from] = value in g. Copies node n with its inputs mapped. */
NodeId graph_copy_node(Graph *g, const Graph *from, NodeId n, ValueId *map);
/* Start a rebuild: inputs and constants of `from` copied, map [from->value.n] filled with them. */
Graph *graph_rebuild(const Graph *from, ValueId **map);
/* End it: outputs mapped, nodes and constants no output needs dropped. Returns how many nodes went.
 * Values and nodes that stay are numbered anew. */
uint32_t graph_finish(Graph *g, const Graph *from, const ValueId *map);

/* Visit the symbols that node n relies on: those of its values' types, of its callee, of what its
 * regions are bound to. A symbol may be visited more than once. */
void graph_symbols(const Graph *g, NodeId n, void (*visit)(void *user, Sym symbol), void *user);
/* The node that defines each symbol: Sym to NodeId. Symbols of the inputs are not in it. */
Map graph_definers(const Graph *g, Arena *scratch);

/* An upper bound of e over what is known when g begins: e itself where it is known then; NULL where
 * there is none, or none near: e may grow with one such symbol in each of its terms, not with a
 * product of them. */
const Expr *graph_bound(const Graph *g, const Map *definer, const Expr *e);

/* All graphs that g runs, each once, callees before callers unless they call each other; g is the
 * last. */
typedef VEC(Graph *) GraphList;
GraphList graph_all(const Graph *g, Arena *a);
/* g with `pass` applied to it and to every graph it runs; NULL if any gave NULL (all are tried). */
Graph *graph_map(const Graph *g, Graph *(*pass)(void *user, const Graph *g), void *user);

/* Number of uses of each value as a node's input, plus one per graph output: [value.n]. */
uint32_t *graph_uses(const Graph *g, Arena *scratch);
/* Is it an output of the graph? [value.n]. */
bool *graph_outputs(const Graph *g, Arena *a);
/* Users of each value: list of nodes. */
/* node[first[v] .. first[v+1]) */
typedef struct {
    uint32_t *first;
    NodeId *node;
} Users;
Users graph_users(const Graph *g, Arena *scratch);

bool graph_verify(const Graph *g); /* numbered invariants; reports as internal */

/* Text. Constants of more than 64 elements go to `weights` (a file beside the text) when it is
 * given: `const file "digits.weights" 128`; else they print as `const elided 0x…` which does not
 * parse. */
/* offset: constants already written */
typedef struct {
    Writer *writer;
    const char *name;
    Map offset;
} WeightsFile;
void graph_print(Text *t, const Graph *g, WeightsFile *weights);
void graph_print_node(Text *t, const Graph *g, NodeId n); /* its lines of that text */
/* files named in it are read beside it; functions before the model */
Graph *graph_parse(Ctx *c, Arena *arena, const char *path, Bytes text);
/* How `graph @cell = file "cell.onnx"` becomes a graph, whose symbols have "cell_" in front of
 * their names. NULL: reported. */
typedef struct {
    Graph *(*load)(void *user, Ctx *c, Arena *arena, const char *path, const char *name);
    void *user;
} GraphLoader;
Graph *graph_parse_with(Ctx *c, Arena *arena, const char *path, Bytes text,
                        const GraphLoader *loader);

#endif
