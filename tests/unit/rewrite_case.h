/* Small graphs of operators, made call by call, and what they compute on random values. */
#ifndef TEST_REWRITE_CASE_H
#define TEST_REWRITE_CASE_H

#include "rewrite/rewrite.h"

#define WORLD_FIELDS                                                                               \
    Graph *g;                                                                                      \
    uint32_t seed;                                                                                 \
    bool odd; /* odd: inputs have NaN, infinities, zeros of both signs, denormals */
#include "world.h"
#include "op/kinds.h"

#include <math.h>

static inline int
setup(void **state)
{
    world_begin(state);
    World *w = *state;
    w->g = graph_new(&w->ctx, w->arena, "test");
    w->seed = 1;
    return 0;
}

/* ---- making graphs --------------------------------------------------------------------------- */

static inline const Type *
type_of(World *w, DType t, uint32_t rank, const int64_t *dim)
{
    const Expr *e[TN_MAX_RANK];
    for (uint32_t d = 0; d < rank; d++)
        e[d] = dim[d] < 0 ? expr_symbol(&w->ctx, "n") : expr_int(&w->ctx, dim[d]);
    return type_new(&w->ctx, t, rank, e);
}

#define DIMS(...)                                                                                  \
    sizeof((int64_t[]){ __VA_ARGS__ }) / 8, (int64_t[])                                            \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define TYPE(t, ...) type_of(w, t, DIMS(__VA_ARGS__))
#define INPUT(name, ...) graph_input(w->g, name, TYPE(DT_F32, __VA_ARGS__))
#define WEIGHT(name, ...) weight(w, name, TYPE(DT_F32, __VA_ARGS__))
#define INTS(...) integers(w, DIMS(__VA_ARGS__))
#define CALL(op, ...)                                                                              \
    call(w, OP_##op, (Attrs){ 0 }, sizeof((ValueId[]){ __VA_ARGS__ }) / sizeof(ValueId),           \
         (ValueId[]){ __VA_ARGS__ })

static inline uint32_t
next(World *w)
{
    return w->seed = w->seed * 1664525u + 1013904223u;
}

/* In (0.25, 1.25), so that it may be a variance. */
static inline void
fill(World *w, float *data, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        data[i] = 0.25f + (float)(next(w) >> 8) / 0x1p24f;
}

/* Half of them those that arithmetic treats in a way of its own, the others of either sign and any
 * magnitude. */
static inline void
fill_odd(World *w, float *data, int64_t n)
{
    static const float odd[] = { NAN,       INFINITY, -INFINITY, 0,         -0.0f, 1e-40f, -1e-40f,
                                 0x1p-149f, 3e38f,    -3e38f,    0x1p-126f, 0.5f,  -2.5f,  6 };
    for (int64_t i = 0; i < n; i++) {
        float x = ldexpf((float)(next(w) >> 8) / 0x1p24f - 0.5f, (int)(next(w) >> 27) - 16);
        data[i] = next(w) >> 16 & 1 ? odd[(next(w) >> 16) % (sizeof odd / sizeof *odd)] : x;
    }
}

/* Whatever the type is: truth values are 0 and 1, integers anything. */
static inline void
fill_input(World *w, Tensor *t)
{
    int64_t n = tensor_count(t);
    if (t->dtype == DT_F32 && w->odd)
        fill_odd(w, t->data, n);
    else if (t->dtype == DT_F32)
        fill(w, t->data, n);
    else
        for (int64_t i = 0; i < n * dtype_info[t->dtype].bytes; i++)
            ((uint8_t *)t->data)[i] = (uint8_t)(next(w) >> 24) & (t->dtype == DT_BOOL ? 1 : 255);
}

static inline ValueId
weight(World *w, const char *name, const Type *t)
{
    int64_t bytes = 0;
    assert_true(type_static_bytes(t, &bytes));
    float *data = arena_alloc(w->arena, (size_t)bytes);
    fill(w, data, bytes / 4);
    return graph_const(w->g, name, t, data);
}

static inline ValueId
number(World *w, float v)
{
    float *data = NEW(w->arena, float);
    *data = v;
    return graph_const(w->g, "number", type_new(&w->ctx, DT_F32, 0, NULL), data);
}

static inline ValueId
integers(World *w, uint32_t n, const int64_t *v)
{
    const Expr *count = expr_int(&w->ctx, n);
    return graph_const(w->g, "ints", type_new(&w->ctx, DT_I64, 1, &count),
                       arena_copy(w->arena, v, n * sizeof *v));
}

static inline ValueId
call(World *w, OpKind op, Attrs attrs, uint32_t nin, const ValueId *in)
{
    OpNode made = {
        .op = op, .attrs = attrs, .origin = sym(&w->ctx, op_info[op].name), .nin = nin, .in = in
    };
    ValueId out = 0;
    if (!graph_infer_op(w->g, &made, 1, NULL, &out))
        fail_msg("%s", world_messages(w));
    return out;
}

static inline ValueId
transpose(World *w, ValueId x, uint32_t rank, const int64_t *perm)
{
    Attr a = { .name = sym(&w->ctx, "perm"), .kind = ATTR_INTS, .n = rank, .ints = perm };
    return call(w, OP_transpose, (Attrs){ &a, 1 }, 1, &x);
}

static inline void
output(World *w, ValueId v)
{
    VEC_PUSH(w->arena, &w->g->output, v);
}

/* ---- running them ---------------------------------------------------------------------------- */

static inline void
run(World *w, uint32_t seed, const Graph *g, Tensor *out)
{
    Symbols s = { 0 };
    Tensor in[8];
    w->seed = seed;
    for (uint32_t i = 0; i < g->input.n; i++) {
        Symbols n = { 0 };
        symbols_set(w->arena, &n, sym(&w->ctx, "n"), 3);
        assert_true(
            tensor_of_type(&w->ctx, w->arena, g->value.at[g->input.at[i]].type, &n, &in[i]));
        fill_input(w, &in[i]);
    }
    if (!ref_bind_inputs(g, in, &s) || !ref_graph(g, w->arena, &s, in, out, NULL, NULL))
        fail_msg("%s", world_messages(w));
}

#endif
