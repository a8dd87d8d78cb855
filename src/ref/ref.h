/* ref: the semantics. An interpreter of scalars, nests, kernels and graphs, slow and simple. It
 * shares nothing with emit. It is the oracle of every test, and folds constants.
 *
 * Points run in the order of the axes. A reduction combines its points sequentially in the type of
 * its body: a sum of f32 is rounded to f32 after every addition. Each node of an expression is
 * rounded to its type. A select evaluates only the side that it selects.
 */
#ifndef TENON_REF_H
#define TENON_REF_H

#include "graph/graph.h"

/* Values of the dimension symbols of one run. */
typedef struct Symbols {
    VEC(Sym) name;
    VEC(int64_t) value;
} Symbols;
void symbols_set(Arena *a, Symbols *s, Sym name, int64_t value);
bool symbols_get(const Symbols *s, Sym name, int64_t *value);

typedef struct { /* a dense row-major tensor */
    DType dtype;
    uint32_t rank;
    int64_t dim[TN_MAX_RANK];
    void *data;
} Tensor;

int64_t tensor_count(const Tensor *t);
/* Sizes of t under s, with zeroed contents. */
bool tensor_of_type(Ctx *c, Arena *a, const Type *t, const Symbols *s, Tensor *out);
/* The same over existing contents, to be read. */
bool tensor_over(Ctx *c, const Type *t, const Symbols *s, const void *data, Tensor *out);

/* All return false with a diagnostic (an index out of range, a size mismatch, a symbol without a
 * value). */
/* inputs, then outputs (allocated) */
bool ref_nest(Ctx *c, const Nest *n, const Symbols *s, Tensor *const *param);
/* The same with several threads for a large nest; the same bits. */
bool ref_nest_shared(Ctx *c, const Nest *n, const Symbols *s, Tensor *const *param,
                     uint32_t threads);
/* its parts in order */
bool ref_kernel(Ctx *c, Arena *a, const Kernel *k, const Symbols *s, Tensor *const *arg);
/* progress may be NULL; called after each node with (done, total). */
bool ref_graph(const Graph *g, Arena *a, const Symbols *s, const Tensor *input, Tensor *output,
               void (*progress)(void *user, uint32_t done, uint32_t total), void *user);
/* Runs one operator on constant inputs, for folding. out[nout] are allocated in a. */
bool ref_op(Ctx *c, Arena *a, const OpCall *call, const Type *const *out_type, const Tensor *in,
            Tensor *out);
/* Binds symbols from the sizes of inputs: false, naming input, dimension and both sizes, if they
 * disagree. */
bool ref_bind(Ctx *c, uint32_t n, const Sym *name, const Type *const *type, const Tensor *input,
              Symbols *s);
/* The same for a graph's inputs; its constraints must hold too. */
bool ref_bind_inputs(const Graph *g, const Tensor *input, Symbols *s);

#endif
