/* graph: a model as functions of single-assignment values, in topological order.
 *
 * A node calls an operator, a nest, a kernel or another graph; one graph may mix them. Values have
 * a type, contents if they are constant or known symbolically, and a memory format once it is
 * chosen.
 *
 *   graph @mlp(%x: f32[batch, 4]) -> (%y) {
 *     %w: f32[4, 2] = const [1.0, 2.0, …]
 *     %h: f32[batch, 2] = matmul(%x, %w)
 *     %y: f32[batch, 2] = relu(%h)
 *   }
 *
 * Control flow is calls of graphs. A branch of an `if`, the body of a `loop` and a function are the
 * same thing: a graph that gets everything it reads as arguments, captured outer values too, and
 * that has its own symbols. The node binds each of them to an expression of the caller
 * (Region.bind). So what is learnt about sizes inside a branch, which may not run, does not leak
 * out of it.
 *
 *   %y: f32[n] = if(%c, %x)
 *     with [n_1 = n] graph @then(%x: f32[n_1]) -> (%a) { … }
 *     with [n_2 = n] graph @else(%x: f32[n_2]) -> (%b) { … }
 *
 * A loop gets a maximal number of iterations, a condition, carried values, then captured values.
 * The body gets the iteration number, the condition, the carried and the captured values, and gives
 * the next condition, the next carried values, and values to be stacked over the iterations. A
 * carried value whose shape changes has symbols of the body in its type: first those of the initial
 * value (bind), then those of the previous iteration's result.
 *
 * Sizes from data are symbols that a node defines (Node.fresh). A `match` reads them from a small
 * integer tensor; an `if`, a loop or a call defines them if the size of a result is known only
 * afterwards. Before, only an upper bound is known; every size is checked against it when it is
 * defined. A node that uses such a symbol runs after the node that defines it: the definition
 * counts as an input (graph_symbols).
 *
 *   %count: i64[1] = …
 *   %s: i64[1] = match(%count) new [hits to 3*n]     %s holds [hits], a size
 *
 * A state is an input and an output of the model: a run's output is the next run's input, and the
 * caller keeps it in between. It may grow along one dimension.
 *
 *   graph @step(%token: i64[1], %past: f32[held, 64]) -> (%next, %present) {
 *     state %past = %present
 *     %row: f32[1, 64] = …
 *     %present: f32[held + 1, 64] = join(%past, %row)
 *
 * A `join` concatenates tensors, by default along their first dimension. It is a node of its own,
 * not a nest, because it assigns memory rather than work: a part that is computed in its place, or
 * is there from the run before, is not copied. Parts that are joined along another dimension are
 * always in place: kernels that write or read one of them know its offset and strides (within.c).
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
} Span; /* a range of graph->ref */

typedef struct {
    Sym name;
    const Type *type;
    NodeId def; /* 0: graph input or constant */
    /* constant: plain row-major contents, not owned (mapped file or arena); else NULL */
    const void *data;
    Known known;
    const Format *format; /* NULL: plain */
    bool kept;            /* graph_is_kept of the value that this is a copy of */
} Value;

typedef enum {
    CALL_OP,
    CALL_NEST,
    CALL_KERNEL,
    /* fresh[i] is element i of the only input; the only output is a copy of the input */
    CALL_MATCH,
    /* in: condition, arguments; region: then, else, which both take all arguments */
    CALL_IF,
    /* in: limit or 0, condition or 0, carried, captured; out: carried, stacked */
    CALL_LOOP,
    CALL_GRAPH, /* in: arguments; region: the function */
    /* in: tensors of one type except for dimension `along`; out: their concatenation */
    CALL_JOIN,
    /* the outputs of a program for many requests, for one of them; region: its blocks
     * (graph/batch.h) */
    CALL_BLOCKS,
} CalleeKind;

/* A symbol that a node defines as it runs. In a result's type it is a dimension by itself. */
typedef struct {
    Sym name;
    /* upper bound, over symbols defined before; NULL: none is known */
    const Expr *most;
} NewSymbol;

/* A graph that a node runs, and its symbols in terms of the caller's. Those of a loop's carried
 * values are bound for the first iteration. */
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
    uint32_t along;            /* JOIN; if not 0, inputs are stored within the output */
    const struct Batch *batch; /* BLOCKS */
    Span in, out;
    Loc loc;
    /* the model's own name of the operator: `Conv "layer1.0/conv"` */
    Sym origin;
} Node;

/* Input and output (indices into the graph's lists) that are one state, before and after a run. */
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
/* Renames a value, with a suffix if the name is taken; graph_rename renames the other value
 * instead. */
void graph_name(Graph *g, ValueId v, const char *name);
void graph_rename(Graph *g, ValueId v, const char *name);
ValueId graph_input(Graph *g, const char *name, const Type *t);
/* sets known for small integers */
ValueId graph_const(Graph *g, const char *name, const Type *t, const void *data);
/* Input number i becomes a constant, and is no input any more. */
void graph_input_is(Graph *g, uint32_t i, const void *data);
/* The call of an operator that becomes a node. */
typedef struct {
    OpKind op;
    Attrs attrs;
    Loc loc;
    Sym origin;
    uint32_t nin;
    const ValueId *in;
} OpNode;
NodeId graph_call_op(Graph *g, const OpNode *call, uint32_t nout, const ValueId *out);
NodeId graph_call_nest(Graph *g, const Nest *n, Loc loc, Sym origin, const ValueId *in,
                       const ValueId *out);
/* The value of a nest with one result; 0: n is NULL. */
ValueId graph_nest_value(Graph *g, const Nest *n, const char *name, Loc loc, Sym origin,
                         const ValueId *in);
/* graph_call_nest of one result, without the inputs that the nest does not read. False: refused. */
bool graph_call_used(Graph *g, const Nest *nest, Loc loc, Sym origin, const ValueId *in,
                     ValueId out);
/* A nest that a user wrote. Runs check the sizes it needs to stay inside of its tensors. 0,
 * reported: no sizes would do. */
NodeId graph_call_written_nest(Graph *g, const Nest *n, Loc loc, Sym origin, const ValueId *in,
                               const ValueId *out);
NodeId graph_call_written_kernel(Graph *g, Kernel *k, Loc loc, Sym origin, const ValueId *in,
                                 const ValueId *out); /* likewise; a loop tree is not checked */
NodeId graph_call_kernel(Graph *g, Kernel *k, Loc loc, Sym origin, const ValueId *in,
                         const ValueId *out);
/* A node that runs graphs or defines symbols: takes callee, region, fresh, ncarried, loc and origin
 * from `n` and copies arrays. The output of a MATCH becomes known by its symbols. */
NodeId graph_call_region(Graph *g, const Node *n, uint32_t nin, const ValueId *in, uint32_t nout,
                         const ValueId *out);
/* The contents of an integer value of fixed size, of rank 0 or 1, become symbols, each at most
 * most[i] (most NULL, most[i] NULL: no bound). The result is known. 0 with a diagnostic if its size
 * is not a number. */
ValueId graph_match(Graph *g, ValueId v, const char *like, const Expr *const *most, Loc loc,
                    Sym origin);
/* What the caller knows of an argument's contents, in the symbols of the graph that gets it. */
Known graph_known_inside(Ctx *c, Arena *a, Known outside, const Region *r);
/* Calls an operator whose output types follow from its shape rule: infers, sets known, makes the
 * output values with the given names (NULL: made up; graph_absent: no value, 0). False with a
 * diagnostic. */
extern const char graph_absent[];
bool graph_infer_op(Graph *g, const OpNode *call, uint32_t nout, const char *const *out_name,
                    ValueId *out);

/* Infers the types of g and of all graphs that it runs again, with what has become known of sizes
 * since (reinfer.c). In place: only for the reader of a model, before others see it. False with a
 * diagnostic. */
bool graph_reinfer(Graph *g);
/* Rewrites the types of inputs whose sizes are equal, or follow from other sizes, so that each
 * input tells it. Not along the dimension in which a state grows. In place. */
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
/* Contents of a node's inputs [in.count], NULL: known only in runs; and which of them are known. */
const void **graph_inputs_data(const Graph *g, Arena *a, const Node *n);
bool *data_is_known(Arena *a, const void *const *data, uint32_t n);
/* The number of the symbol defined by node n that is all of this dimension; UINT32_MAX: none. */
uint32_t node_fresh(const Node *n, const Expr *dim);
/* The call as op_* expect it. Constraints that a rule records are dropped; see graph_infer_op. */
OpCall graph_op_call(const Graph *g, Arena *scratch, NodeId n);

/* Its type follows from the inputs. */
ValueId graph_join(Graph *g, const char *name, Loc loc, Sym origin, uint32_t nin,
                   const ValueId *in);
/* The only dimension in which the two types of a state differ, along which it grows; the rank if
 * they are the same. False: they differ in several. */
bool graph_state_grows(const Graph *g, const State *s, uint32_t *dim);
/* Does the value persist from run to run: an input of a state, or a join to it? */
bool graph_is_kept(const Graph *g, ValueId v);
/* Does a join append rows to the input of the state, so that both can be stored in one place? */
bool graph_state_in_place(const Graph *g, const State *s);

/* [value.n]: the output of a join along another dimension than the first within which the value is
 * stored, the outermost one; 0: it is by itself. */
ValueId *graph_wholes(const Graph *g, Arena *a);
/* Buffer.within of value v within `whole`, for a kernel that sees it in this type: NULL if it is
 * one contiguous block there. False: there is none, because the kernel splits its rows. */
bool graph_within(const Graph *g, ValueId v, ValueId whole, const Type *seen, const Type **within);
/* Elements of a join's output before the first element of a part. */
const Expr *graph_offset(const Graph *g, const Node *join, uint32_t part);

/* For passes that rebuild: copies value v (input, constant or result) of `from` into g, keeping its
 * name. */
ValueId graph_copy_value(Graph *g, const Graph *from, ValueId v);
/* For passes that rebuild: copies node n with its inputs mapped; map[v of from] = value in g. */
NodeId graph_copy_node(Graph *g, const Graph *from, NodeId n, ValueId *map);
/* Starts a rebuild: copies inputs and constants of `from`, fills map [from->value.n] with them. */
Graph *graph_rebuild(const Graph *from, ValueId **map);
/* Ends it: maps outputs, drops nodes and constants that no output needs. The number of nodes
 * dropped. The remaining values and nodes are renumbered. */
uint32_t graph_finish(Graph *g, const Graph *from, const ValueId *map);

/* Adds the symbols that node n uses: in the types of its values, in its callee, in what its regions
 * are bound to. */
void graph_symbols(SymbolSet *s, const Graph *g, NodeId n);
/* The last node that defines a symbol of e, given graph_definers; 0: e is known when g begins. */
NodeId graph_defined(const Map *definer, const Expr *e);
/* Does the type of an input use it? */
bool graph_is_given(const Graph *g, Var symbol);
/* The node that defines each symbol: Sym to NodeId. Symbols of inputs are not in it. */
Map graph_definers(const Graph *g, Arena *scratch);

/* An upper bound of e over what is known when g begins; e itself if it is known then. NULL: none,
 * or none that is tight: each term of e may have one such symbol, but no product of them. */
const Expr *graph_bound(const Graph *g, const Map *definer, const Expr *e);

/* Sizes of a graph that a node runs, while it is made: its symbols in terms of the outer ones, as
 * its region has them; and the outer ones that are one of them. What is learnt of a size inside, in
 * a branch that may not run, then does not hold outside. */
typedef struct {
    BoundSizes bind, back;
} InnerSizes;
/* A fresh symbol of the inner graph for an outer expression. */
const Expr *inner_symbol(Graph *inner, InnerSizes *s, const char *like, const Expr *e);
/* An outer expression, and an outer type, in inner symbols. */
const Expr *inner_size(Graph *inner, InnerSizes *s, const Expr *e);
const Type *inner_type(Graph *inner, InnerSizes *s, const Type *t);

/* All graphs that g runs, each once, callees before callers unless they call each other; g is
 * last. */
typedef VEC(Graph *) GraphList;
GraphList graph_all(const Graph *g, Arena *a);
/* g with `pass` applied to it and to every graph it runs; NULL if any call gave NULL (all are
 * tried). */
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

/* Text. Constants of more than 64 elements go to `weights` (a file beside the text) if it is given:
 * `const file "digits.weights" 128`; otherwise they print as `const elided 0x…`, which does not
 * parse. */
/* offset: bytes of constants written so far */
typedef struct {
    Writer *writer;
    const char *name;
    Map offset;
} WeightsFile;
void graph_print(Text *t, const Graph *g, WeightsFile *weights);
void graph_print_node(Text *t, const Graph *g, NodeId n); /* the node's lines of that text */
/* reads files named in it relative to its folder; functions come before the model */
Graph *graph_parse(Ctx *c, Arena *arena, const char *path, Bytes text);
/* Imports `graph @cell = file "cell.onnx"`; its symbols get the prefix "cell_". NULL: reported. */
typedef struct {
    Graph *(*load)(void *user, Ctx *c, Arena *arena, const char *path, const char *name);
    void *user;
} GraphLoader;
/* dim [ndim]: numbers for symbols in the types of the model's inputs */
Graph *graph_parse_with(Ctx *c, Arena *arena, const char *path, Bytes text,
                        const GraphLoader *loader, const Binding *dim, uint32_t ndim);

#endif
