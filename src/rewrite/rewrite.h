/* rewrite: simplify a graph of operators without changing its meaning. Each pass makes a new
 * graph. */
#ifndef TENON_REWRITE_H
#define TENON_REWRITE_H

#include "ref/ref.h"

/* Nodes whose inputs are constants become constants (through ref); nodes whose outputs are known
 * symbolically lose their other inputs. Results above `max_bytes` stay computed. */
Graph *rewrite_fold(const Graph *g, int64_t max_bytes);
/* Apply the rule table (rules.def) until no rule fires: remove identities, fold batch normalisation
 * into a neighbouring convolution or matmul, … fast_math: also rules that change rounding. fired[i],
 * if not NULL, grows by the number of times that line i of the table fired. */
Graph *rewrite_rules(const Graph *g, bool fast_math, uint32_t *fired);
/* Nodes with the same callee, attributes and inputs are computed once. */
Graph *rewrite_cse(const Graph *g);
Graph *rewrite_dce(const Graph *g);

/* Make constant arguments of graphs constants inside them (constant_arguments.c). In place, in all
 * graphs that g runs. Returns the number of arguments. */
uint32_t rewrite_constant_arguments(Graph *g);

/* Copy a function for each set of constant arguments, with at most `most` copies (clone.c). In
 * place, in all graphs that g runs. False: some calls with different constants still share a
 * function. */
bool rewrite_clone(Graph *g, uint32_t most);

/* Change the layout of the named inputs and outputs: dimension d becomes the model's order[d]
 * (io_layout.c). NULL with a diagnostic. */
typedef struct {
    Sym name;
    const uint8_t *order;
} PortOrder;
Graph *rewrite_io_layout(const Graph *g, uint32_t n, const PortOrder *port);
/* In a graph of nests, let states grow in place (states.c). order[i] is the new order of the
 * dimensions of state i [g->state.n], or NULL if it is unchanged. */
Graph *rewrite_states(const Graph *g, const uint8_t **order);

/* In a graph of nests, store constant operands of matmuls in fewer bits (low_precision.c). */
typedef struct {
    DType dtype;   /* BF16, F16, I8, I4 */
    int64_t group; /* elements of integers that share a scale; 0: all of a sum */
    /* quantise the other operand to 8 bits as well (integer_matmul.c) */
    bool dots;
    /* does the node of this origin read the constant as it is? asked for each reader */
    bool (*keep)(void *user, const char *name, const char *origin);
    void *user;
    /* gets a line for each constant: its name, and its errors or why it is kept */
    Text *report;
    uint32_t tensors, products; /* out, added to; products: integer matmuls */
    int64_t bytes_before, bytes_after;
} Narrowing;
Graph *rewrite_low_precision(const Graph *g, Narrowing *how);

/* In a graph of nests, store floats of these types that matmuls read as f32 (widen.c). constants:
 * the weights of convolutions too. */
typedef struct {
    bool f16, bf16, constants;
} Widening;
Graph *rewrite_widen(const Graph *g, Widening how);

#endif
