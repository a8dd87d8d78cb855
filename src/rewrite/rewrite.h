/* rewrite: graph of operators to a simpler one with the same meaning. Each pass makes a new
 * graph. */
#ifndef TENON_REWRITE_H
#define TENON_REWRITE_H

#include "ref/ref.h"

/* Nodes whose inputs are constants become constants (through ref); nodes whose outputs are known
 * symbolically lose their other inputs. Results above `max_bytes` stay computed. */
Graph *rewrite_fold(const Graph *g, int64_t max_bytes);
/* The rule table (rules.def): one identity per line, tried by root operator until none fires:
 * identities removed, batch normalisation into a neighbouring convolution or product, …
 * fast_math: also those that round otherwise. fired[i], if not NULL, grows by how often line i of
 * the table fired. */
Graph *rewrite_rules(const Graph *g, bool fast_math, uint32_t *fired);
/* Nodes with the same callee, attributes and inputs are computed once. */
Graph *rewrite_cse(const Graph *g);
Graph *rewrite_dce(const Graph *g);

/* Arguments that are constants, and the same whenever the graph runs that they are given to, are
 * constants in it. In place, in all graphs that g runs; how many there were. */
uint32_t rewrite_given(Graph *g);

/* A function that calls from outside give different constants becomes one for each, `most` copies
 * at most (clone.c). In place, in all graphs that g runs. False: some calls still share a
 * function. */
bool rewrite_clone(Graph *g, uint32_t most);

/* The inputs and outputs of these names have their dimensions in another order: dimension d is the
 * model's order[d]. What the graph computes is the same. NULL with a diagnostic. */
typedef struct {
    Sym name;
    const uint8_t *order;
} PortOrder;
Graph *rewrite_ports(const Graph *g, uint32_t n, const PortOrder *port);
/* In a graph of nests, states that grow by what comes behind them grow in place: see states.c. How
 * such a state lies, where its dimensions have another order than before, is order[i] of state i
 * [g->state.n] afterwards; else NULL. */
Graph *rewrite_states(const Graph *g, const uint8_t **order);

/* In a graph of nests, constants that products multiply by are stored in fewer bits: see
 * narrow.c. */
typedef struct {
    DType dtype;   /* BF16, F16, I8, I4 */
    int64_t group; /* elements of integers that share a scale; 0: all of a sum */
    /* what they are multiplied by becomes integers of 8 bits: see dots.c */
    bool dots;
    /* a constant, and the node that reads it */
    bool (*keep)(void *user, const char *name, const char *origin);
    void *user;
    /* a line for each: its name, and its errors or why it is kept */
    Text *report;
    uint32_t tensors, kept, products; /* out, added to; products of integers on both sides */
    int64_t bytes_before, bytes_after;
} Narrowing;
Graph *rewrite_narrow(const Graph *g, Narrowing *how);

/* In a graph of nests, floats of these types that sums of products read are stored as f32: see
 * wide.c. constants: weights of windows too. */
typedef struct {
    bool f16, bf16, constants;
} Widening;
Graph *rewrite_wide(const Graph *g, Widening how);

#endif
