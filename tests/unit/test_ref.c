/* The interpreter against values worked out here: arithmetic at every element type, the rows of
 * doc/nest.md as text, what must fail and how it says so, loop trees, sizes from inputs. */
#include "ref/ref.h"

#define WORLD_FIELDS Symbols symbols;
#include "support/support.h"
#include "world.h"

#include <math.h>

static const Nest *
parse(World *w, const char *text)
{
    Parse p = parse_begin(&w->ctx, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    const Nest *n = nest_parse(&p);
    if (!n)
        fail_msg("%s", world_messages(w));
    return n;
}

static Tensor
tensor(DType t, uint32_t rank, const int64_t *dim, void *data)
{
    Tensor x = { .dtype = t, .rank = rank, .data = data };
    memcpy(x.dim, dim, rank * sizeof *dim);
    return x;
}

#define DIMS(...)                                                                                  \
    sizeof((int64_t[]){ __VA_ARGS__ }) / 8, (int64_t[])                                            \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define F32(data, ...) tensor(DT_F32, DIMS(__VA_ARGS__), data)
#define I64(data, ...) tensor(DT_I64, DIMS(__VA_ARGS__), data)
#define I32(data, ...) tensor(DT_I32, DIMS(__VA_ARGS__), data)
#define TENSORS(...)                                                                               \
    (Tensor[])                                                                                     \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* Run on inputs; outputs are allocated here and returned. */
static bool
run(World *w, const char *text, Tensor *in, Tensor *out)
{
    const Nest *n = parse(w, text);
    Tensor *param[16];
    const Type *type[16];
    Sym name[16];
    for (uint32_t i = 0; i < n->nin; i++) {
        param[i] = &in[i];
        type[i] = n->param[i].type;
        name[i] = n->param[i].name;
    }
    if (!ref_bind(&w->ctx, n->nin, name, type, in, &w->symbols))
        return false;
    for (uint32_t i = 0; i < n->nout; i++) {
        param[n->nin + i] = &out[i];
        if (!tensor_of_type(&w->ctx, w->arena, n->param[n->nin + i].type, &w->symbols, &out[i]))
            return false;
    }
    return ref_nest(&w->ctx, n, &w->symbols, param);
}

static void
run_ok(World *w, const char *text, Tensor *in, Tensor *out)
{
    if (!run(w, text, in, out))
        fail_msg("%s", world_messages(w));
}

static void
expect_floats(const Tensor *t, const float *want, int64_t n)
{
    assert_int_equal(tensor_count(t), n);
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(((float *)t->data)[i] - want[i]) <= 1e-6f * fabsf(want[i])))
            fail_msg("element %d is %.9g, expected %.9g", (int)i, ((float *)t->data)[i], want[i]);
}

static void
expect_ints(const Tensor *t, const int64_t *want, int64_t n)
{
    assert_int_equal(tensor_count(t), n);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(((int64_t *)t->data)[i], want[i]);
}

static void
expect_failure(World *w, const char *part)
{
    if (!strstr(world_messages(w), part))
        fail_msg("expected a message with \"%s\", got \"%s\"", part, world_messages(w));
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static const double samples[] = { 0,   -0.0,  1,     -1,   2,    -2,    3,        7,         -7,
                                  0.5, 1.5,   2.5,   -2.5, 63,   64,    127,      128,       255,
                                  256, 65504, 65520, 1e-8, 3e38, 1e300, INFINITY, -INFINITY, NAN };
static const int64_t int_samples[] = {
    0,          1,         -1,       2,     -2,    3,          7,
    -7,         8,         31,       32,    63,    64,         100,
    127,        128,       255,      32767, 65535, 2147483647, -2147483647 - 1,
    4294967295, INT64_MAX, INT64_MIN
};
#define NSAMPLE                                                                                    \
    (dtype_is_float(t) ? sizeof samples / sizeof *samples                                          \
                       : sizeof int_samples / sizeof *int_samples)

static const Scalar *
sample(Ctx *c, DType t, size_t i)
{
    return dtype_is_float(t) ? scalar_float(c, t, samples[i]) : scalar_int(c, t, int_samples[i]);
}

/* One element of a nest that computes op of two inputs. */
static double
evaluate(World *w, ScalarOp op, DType t, const Scalar *x, const Scalar *y, DType *result)
{
    Ctx *c = &w->ctx;
    const Scalar *arg[2];
    NestBuilder b = nest_begin(c, "op");
    for (uint32_t i = 0; i < 2; i++)
        arg[i] = nest_load(&b, nest_in(&b, i ? "y" : "x", type_new(c, t, 0, NULL)), NULL);
    const Scalar *value = op == S_CAST ? scalar_cast(c, *result, arg[0]) : scalar_op(c, op, arg);
    *result = value->dtype;
    nest_write(&b, nest_out(&b, "o", type_new(c, *result, 0, NULL)), NULL, value);
    const Nest *n = nest_finish(&b);
    assert_non_null(n);
    /* Constants arrive through a nest that writes them, so that bits are the interpreter's own. */
    Tensor in[2], out;
    Tensor *param[] = { &in[0], &in[1], &out };
    for (uint32_t i = 0; i < 2; i++) {
        NestBuilder k = nest_begin(c, "number");
        nest_write(&k, nest_out(&k, "o", type_new(c, t, 0, NULL)), NULL, i ? y : x);
        Tensor *o = &in[i];
        assert_true(tensor_of_type(c, w->arena, type_new(c, t, 0, NULL), &w->symbols, o));
        assert_true(ref_nest(c, nest_finish(&k), &w->symbols, &o));
    }
    assert_true(tensor_of_type(c, w->arena, type_new(c, *result, 0, NULL), &w->symbols, &out));
    if (!ref_nest(c, n, &w->symbols, param))
        fail_msg("%s", world_messages(w));
    switch (*result) {
    case DT_F32: return *(float *)out.data;
    case DT_F64: return *(double *)out.data;
    case DT_I8: return *(int8_t *)out.data;
    case DT_U8:
    case DT_BOOL: return *(uint8_t *)out.data;
    case DT_I16: return *(int16_t *)out.data;
    case DT_U16: return *(uint16_t *)out.data;
    case DT_I32: return *(int32_t *)out.data;
    case DT_U32: return *(uint32_t *)out.data;
    case DT_I64: return (double)*(int64_t *)out.data;
    case DT_U64: return (double)*(uint64_t *)out.data;
    default: return number_get(*result, out.data, 0);
    }
}

static bool
same_double(double a, double b)
{
    return (isnan(a) && isnan(b)) || a == b;
}

static double
folded_value(const Scalar *s)
{
    double f;
    if (dtype_is_float(s->dtype)) {
        memcpy(&f, &s->u.bits, sizeof f);
        return f;
    }
    return s->dtype == DT_U64 ? (double)(uint64_t)s->u.bits : (double)s->u.bits;
}

/* Folding of constants and the interpreter have one arithmetic, which test_emit_ops.c compares with
 * compiled C. What the interpreter adds, types of loads and shortcuts for f32, changes no result. */
static void
test_agrees_with_folding(void **state)
{
    static const DType types[] = { DT_F32, DT_F64, DT_I8, DT_I32, DT_I64, DT_U8, DT_U32, DT_U64 };
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        for (int op = S_ADD; op < S_SELECT; op++) {
            DType t = types[k];
            bool of_bits = (op >= S_AND && op <= S_SHR) || op == S_NOT;
            if ((of_bits && dtype_is_float(t)) || (scalar_is_dot(op) && t != DT_I32) ||
                op == S_PAIR)
                continue;
            /* A sample of pairs: all firsts, each with one second, shifted by the operation. */
            for (size_t i = 0; i < NSAMPLE; i++) {
                World *w = *state;
                const Scalar *arg[] = { sample(&w->ctx, t, i),
                                        sample(&w->ctx, t, (i * 7 + (size_t)op) % NSAMPLE) };
                const Scalar *folded = scalar_op(&w->ctx, op, arg);
                if (!folded || folded->op != S_CONST)
                    continue;
                DType result;
                double got = evaluate(w, op, t, arg[0], arg[1], &result),
                       want = folded_value(folded);
                assert_int_equal(result, folded->dtype);
                if (!same_double(got, want))
                    fail_msg("%s of %g, %g at %s: interpreted %.17g, folded %.17g",
                             scalar_op_info[op].text, folded_value(arg[0]), folded_value(arg[1]),
                             dtype_info[t].name, got, want);
            }
        }
}

static void
test_casts(void **state)
{
    World *w = *state;
    for (DType from = DT_F32; from < DT_COUNT; from++)
        for (DType to = DT_F32; to < DT_COUNT; to++)
            for (size_t i = 0;
                 i < (dtype_is_float(from) ? sizeof samples / sizeof *samples
                                           : sizeof int_samples / sizeof *int_samples);
                 i++) {
                if (dtype_is_short(to) || from == DT_STR || to == DT_STR)
                    continue;
                const Scalar *x = sample(&w->ctx, from, i), *folded = scalar_cast(&w->ctx, to, x);
                DType result = to;
                double got = evaluate(w, S_CAST, from, x, x, &result);
                if (!same_double(got, folded_value(folded)))
                    fail_msg("%g from %s to %s: interpreted %.17g, folded %.17g", folded_value(x),
                             dtype_info[from].name, dtype_info[to].name, got, folded_value(folded));
            }
}

static void
test_small_floats(void **state)
{
    float x[] = {
        1, 65504, 65519, 65520, 5.9604645e-8f, 2.9e-8f, 1.00048828125f, 1.001f, -0.0f, NAN
    };
    const char *through_f16 = "nest t(x: f32[n]) -> (o: f32[n]) { o[i] = f32(f16(x[i])) }";
    Tensor out;
    run_ok(*state, through_f16, TENSORS(F32(x, 10)), &out);
    const float *o = out.data;
    assert_true(o[0] == 1 && o[1] == 65504 && o[2] == 65504 && isinf(o[3]));
    assert_true(o[4] == 5.9604645e-8f && o[5] == 0 && o[6] == 1 &&
                fabsf(o[7] - 1.0009765625f) < 1e-9f);
    assert_true(o[8] == 0 && signbit(o[8]) && isnan(o[9]));
    float y[] = { 1.00390625f, 1.01171875f, 3.3895314e38f, 3.4e38f };
    run_ok(*state, "nest t(x: f32[m]) -> (o: f32[m]) { o[i] = f32(bf16(x[i])) }",
           TENSORS(F32(y, 4)), &out);
    o = out.data;
    assert_true(o[0] == 1 && o[1] == 1.015625f && o[2] == 3.3895314e38f && isinf(o[3]));
}

/* ---- rows of doc/nest.md --------------------------------------------------------------------- */

static void
test_convolution(void **state)
{
    float x[2 * 5 * 5], w[3 * 2 * 9], want[3 * 3 * 3];
    for (int i = 0; i < 50; i++)
        x[i] = (float)(i * 7 % 11) - 5;
    for (int i = 0; i < 54; i++)
        w[i] = (float)(i * 5 % 7) - 3;
    for (int k = 0; k < 3; k++)
        for (int y = 0; y < 3; y++)
            for (int z = 0; z < 3; z++) {
                float sum = 0;
                for (int q = 0; q < 2; q++)
                    for (int r = 0; r < 3; r++)
                        for (int s = 0; s < 3; s++) {
                            int u = 2 * y + r - 1, v = 2 * z + s - 1;
                            if (u >= 0 && u < 5 && v >= 0 && v < 5)
                                sum += x[(q * 5 + u) * 5 + v] * w[((k * 2 + q) * 3 + r) * 3 + s];
                        }
                want[(k * 3 + y) * 3 + z] = sum;
            }
    Tensor out;
    run_ok(
        *state,
        "nest conv(x: f32[b, c, h, w], k: f32[f, c, 3, 3]) -> (o: f32[b, f, (h - 1) // 2 + 1, (w - "
        "1) // 2 + 1]) {\n"
        "  o[n, m, y, z] = sum q, r, s: x[n, q, 2*y + r - 1, 2*z + s - 1 | 0] * k[m, q, r, s]\n}",
        TENSORS(F32(x, 1, 2, 5, 5), F32(w, 3, 2, 3, 3)), &out);
    expect_floats(&out, want, 27);
}

static void
test_softmax(void **state)
{
    float x[] = { 1, 2, 3, 1, 1, 1 }, want[6];
    for (int i = 0; i < 2; i++) {
        float s = 0;
        for (int j = 0; j < 3; j++)
            s += expf(x[3 * i + j] - x[3 * i + 2]);
        for (int j = 0; j < 3; j++)
            want[3 * i + j] = expf(x[3 * i + j] - x[3 * i + 2]) / s;
    }
    Tensor out;
    /* One nest: reductions inside a reduction, shared where the text shares them. */
    run_ok(
        *state,
        "nest softmax(x: f32[n, m]) -> (o: f32[n, m]) {\n"
        "  o[i, j] = exp(x[i, j] - (max k: x[i, k])) / (sum l: exp(x[i, l] - (max p: x[i, p])))\n}",
        TENSORS(F32(x, 2, 3)), &out);
    expect_floats(&out, want, 6);
}

static void
test_data_movement(void **state)
{
    float x[] = { 1, 2, 3, 4, 5, 6 }, y[] = { 7, 8 };
    Tensor out;
    run_ok(*state, "nest transpose(x: f32[a, b]) -> (o: f32[b, a]) { o[i, j] = x[j, i] }",
           TENSORS(F32(x, 2, 3)), &out);
    expect_floats(&out, (float[]){ 1, 4, 2, 5, 3, 6 }, 6);
    run_ok(*state, "nest flat(x: f32[c, 3]) -> (o: f32[3*c]) { o[i] = x[i // 3, i % 3] }",
           TENSORS(F32(x, 2, 3)), &out);
    expect_floats(&out, x, 6);
    run_ok(*state, "nest slice(x: f32[d]) -> (o: f32[2]) { o[i] = x[3*i + 2] }", TENSORS(F32(x, 6)),
           &out);
    expect_floats(&out, (float[]){ 3, 6 }, 2);
    /* Each side is read only where it is chosen: neither index is inside its tensor everywhere. */
    run_ok(
        *state,
        "nest concat(x: f32[e], y: f32[f]) -> (o: f32[e + f]) { o[i] = i < e ? x[i] : y[i - e] }",
        TENSORS(F32(x, 6), F32(y, 2)), &out);
    expect_floats(&out, (float[]){ 1, 2, 3, 4, 5, 6, 7, 8 }, 8);
}

static void
test_argmax_first_on_ties(void **state)
{
    float x[] = { 1, 5, 5, -1, -3, -2 };
    Tensor out[2];
    run_ok(*state,
           "nest argmax(x: f32[n, m]) -> (v: f32[n], a: i64[n]) { (v, a)[i] = argmax j: (x[i, j], "
           "j) }",
           TENSORS(F32(x, 2, 3)), out);
    expect_floats(&out[0], (float[]){ 5, -1 }, 2);
    expect_ints(&out[1], (int64_t[]){ 1, 0 }, 2);

    /* walked from the end */
    float ends[] = { -INFINITY, -INFINITY, -INFINITY, INFINITY, NAN, NAN };
    run_ok(*state,
           "nest argmax(x: f32[n, m]) -> (a: i64[n]) { a[i] = (argmax j<m>: (x[i, m - 1 - j], m - "
           "1 - j)).1 }",
           TENSORS(F32(ends, 2, 3)), out);
    expect_ints(&out[0], (int64_t[]){ 2, 2 }, 2);
    run_ok(*state, "nest argmin(x: f32[n, m]) -> (a: i64[n]) { a[i] = (argmin j: (x[i, j], j)).1 }",
           TENSORS(F32(ends, 2, 3)), out);
    expect_ints(&out[0], (int64_t[]){ 0, 1 }, 2);
}

static void
test_scan(void **state)
{
    float x[] = { 1, 2, 3, 10, 20, 30 };
    Tensor out;
    run_ok(*state,
           "nest cumsum(x: f32[n, m]) -> (o: f32[n, m]) { o[i, j] = scan j: o[i, j - 1 | 0] + x[i, "
           "j] }",
           TENSORS(F32(x, 2, 3)), &out);
    expect_floats(&out, (float[]){ 1, 3, 6, 10, 30, 60 }, 6);
}

static const char gather[] =
    "nest gather(x: f32[n, m], idx: i64[k]) -> (o: f32[k, m]) { o[i, j] = x[at(idx[i], n), j] }";

static void
test_gather(void **state)
{
    float x[] = { 1, 2, 3, 4, 5, 6 };
    int64_t idx[] = { 2, -1, -3, 0 };
    Tensor out;
    run_ok(*state, gather, TENSORS(F32(x, 3, 2), I64(idx, 4)), &out);
    expect_floats(&out, (float[]){ 5, 6, 5, 6, 1, 2, 1, 2 }, 8);
}

static void
test_gather_outside(void **state)
{
    float x[] = { 1, 2, 3, 4, 5, 6 };
    int64_t idx[] = { 2, 3 };
    Tensor out;
    assert_false(run(*state, gather, TENSORS(F32(x, 3, 2), I64(idx, 2)), &out));
    expect_failure(*state, "nest gather: index 3, computed from data, is outside -3 <= i < 3");
}

static void
test_unsigned_index(void **state)
{
    static const char rows[] = "nest rows(x: f32[n], idx: i64[k]) -> (o: f32[k]) {\n"
                               "  o[i] = x[at(u64(idx[i]), n)]\n}";
    float x[] = { 1, 2, 3 };
    int64_t inside[] = { 2, 0 }, negative[] = { 2, -1 };
    Tensor out;
    run_ok(*state, rows, TENSORS(F32(x, 3), I64(inside, 2)), &out);
    expect_floats(&out, (float[]){ 3, 1 }, 2);
    assert_false(run(*state, rows, TENSORS(F32(x, 3), I64(negative, 2)), &out));
    expect_failure(*state, "nest rows: index -1, computed from data, is outside 0 <= i < 3");
}

static void
test_scatter(void **state)
{
    float x[] = { 100, 200, 300 }, u[] = { 1, 2, 4, 8 };
    int64_t idx[] = { 0, 2, 0, -1 };
    Tensor out;
    run_ok(*state,
           "nest scatter(x: f32[n], idx: i64[k], u: f32[k]) -> (o: f32[n]) {\n  for i<k>:\n  "
           "o[at(idx[i], n)] sum= u[i] over x\n}",
           TENSORS(F32(x, 3), I64(idx, 4), F32(u, 4)), &out);
    expect_floats(&out, (float[]){ 105, 200, 310 }, 3);
}

static void
test_ragged(void **state)
{
    float x[] = { 1, 2, 3, 4, 5, 6 };
    int64_t len[] = { 1, 3 };
    Tensor out;
    run_ok(
        *state,
        "nest ragged(x: f32[n, m], len: i64[n]) -> (o: f32[n]) { o[i] = sum j<len[i]>: x[i, j] }",
        TENSORS(F32(x, 2, 3), I64(len, 2)), &out);
    expect_floats(&out, (float[]){ 1, 15 }, 2);
    run_ok(
        *state,
        "nest rows(x: f32[n, m], len: i64[n]) -> (o: f32[n, m]) { o[i, j<len[i]>] = 2 * x[i, j] }",
        TENSORS(F32(x, 2, 3), I64(len, 2)), &out);
    expect_floats(&out, (float[]){ 2, 0, 0, 8, 10, 12 }, 6);
}

static void
test_average_pool(void **state)
{
    float x[] = { 1, 2, 3, 4 };
    Tensor out;
    run_ok(*state,
           "nest pool(x: f32[n]) -> (o: f32[n]) {\n"
           "  o[i] = (sum r<3>: x[i + r - 1 | 0]) / (sum r<3>: i + r >= 1 ? (i + r - 1 < n ? "
           "f32(1) : 0) : 0)\n}",
           TENSORS(F32(x, 4)), &out);
    expect_floats(&out, (float[]){ 1.5f, 2, 3, 3.5f }, 4);
}

static void
test_empty_reduction(void **state)
{
    Tensor out;
    /* x[0] does not depend on k, but is not there to be read when n is 0. */
    run_ok(*state, "nest empty(x: f32[n]) -> (o: f32[2]) { o[i] = sum k<n>: x[0] * x[k] }",
           TENSORS(F32(NULL, 0)), &out);
    expect_floats(&out, (float[]){ 0, 0 }, 2);
    run_ok(*state, "nest most(x: f32[m]) -> (o: f32[]) { o[] = max k: x[k] }",
           TENSORS(F32(NULL, 0)), &out);
    assert_true(*(float *)out.data == -INFINITY);
}

static void
test_sums_round_at_every_step(void **state)
{
    float x[] = { 16777216, 1, 1, 1 };
    Tensor out;
    run_ok(*state, "nest total(x: f32[n]) -> (o: f32[]) { o[] = sum k: x[k] }", TENSORS(F32(x, 4)),
           &out);
    assert_true(*(float *)out.data == 16777216);
}

static void
test_quantised_product(void **state)
{
    int8_t x[] = { 100, -100, 127, -128 }, y[] = { 3, 5, 7, -9 };
    Tensor out, in[] = { tensor(DT_I8, DIMS(2, 2), x), tensor(DT_I8, DIMS(2, 2), y) };
    run_ok(*state,
           "nest qdot(x: i8[n, m], y: i8[n, m]) -> (o: i32[n]) { o[i] = sum k: i32(x[i, k]) * "
           "i32(y[i, k]) }",
           in, &out);
    assert_int_equal(((int32_t *)out.data)[0], 100 * 3 - 100 * 5);
    assert_int_equal(((int32_t *)out.data)[1], 127 * 7 + 128 * 9);
}

static void
test_read_outside(void **state)
{
    float x[] = { 1, 2, 3 }, y[] = { 1, 2, 3, 4 };
    Tensor out;
    assert_false(run(*state, "nest off(x: f32[n], y: f32[m]) -> (o: f32[m]) { o[i] = x[i] + y[i] }",
                     TENSORS(F32(x, 3), F32(y, 4)), &out));
    expect_failure(*state, "nest off: read x[3]: index 3 on axis 0 is outside 0 <= i < 3");
}

/* ---- sizes from inputs ----------------------------------------------------------------------- */

static void
test_bind(void **state)
{
    World *w = *state;
    Ctx *c = &w->ctx;
    const Expr *n = expr_symbol(c, "n"), *m = expr_symbol(c, "m");
    const Expr *first[] = { n, expr_offset(c, expr_scale(c, m, 2), 1) },
               *second[] = { m, expr_mul(c, n, m) };
    const Type *type[] = { type_new(c, DT_F32, 2, first), type_new(c, DT_F32, 2, second) };
    const Sym name[] = { sym(c, "x"), sym(c, "y") };
    int64_t v;
    Symbols s = { 0 };
    assert_true(ref_bind(c, 2, name, type, TENSORS(F32(NULL, 3, 9), F32(NULL, 4, 12)), &s));
    assert_true(symbols_get(&s, sym(c, "n"), &v) && v == 3);
    assert_true(symbols_get(&s, sym(c, "m"), &v) && v == 4);
    s = (Symbols){ 0 };
    assert_false(ref_bind(c, 2, name, type, TENSORS(F32(NULL, 3, 9), F32(NULL, 4, 13)), &s));
    expect_failure(w, "input y has 13 elements on axis 1, expected");
    assert_false(
        ref_bind(c, 2, name, type, TENSORS(F32(NULL, 3, 8), F32(NULL, 4, 12)), &(Symbols){ 0 }));
    assert_false(
        ref_bind(c, 2, name, type, TENSORS(I64(NULL, 3, 9), F32(NULL, 4, 12)), &(Symbols){ 0 }));
}

/* ---- loop trees ------------------------------------------------------------------------------ */

typedef struct {
    Kernel k;
    uint32_t x, o;
    const Expr *n;
} TreeTest;

static TreeTest
tree_begin(World *w)
{
    Ctx *c = &w->ctx;
    TreeTest t = { .k = { .name = sym(c, "twice"), .nin = 1, .nout = 1 },
                   .n = expr_symbol(c, "n") };
    const Type *type = type_new(c, DT_F32, 1, &t.n);
    t.x = kernel_buffer(c, w->arena, &t.k, "x", type, SPACE_IN, 1);
    t.o = kernel_buffer(c, w->arena, &t.k, "o", type, SPACE_OUT, 1);
    t.k.tree.arena = w->arena;
    symbols_set(w->arena, &w->symbols, sym(c, "n"), 7);
    return t;
}

static bool
tree_run(World *w, TreeTest *t, float *x, float *o)
{
    Tensor in = F32(x, 7), out = F32(o, 7);
    return ref_tree(&w->ctx, w->arena, &t->k, &w->symbols, (Tensor *[]){ &in, &out });
}

/* o = x + x[0], four lanes at a time with a masked tail, through a register. */
static void
test_tree_lanes(void **state)
{
    World *w = *state;
    Ctx *c = &w->ctx;
    TreeTest t = tree_begin(w);
    const Expr *zero = expr_int(c, 0), *one = expr_int(c, 1);
    uint32_t var, acc = kernel_buffer(c, w->arena, &t.k, "acc", type_new(c, DT_F32, 1, &one),
                                      SPACE_REGISTER, 4);
    Block *b = tree_loop(&t.k, &t.k.tree, LOOP_PARALLEL, sym(c, "i"), zero, t.n, 4, &var);
    const Expr *i = tree_let(c, &t.k, b, "at", expr_scale(c, expr_loop(c, var), 1)),
               *left = expr_sub(c, t.n, i);
    tree_buffer(b, acc);
    tree_store_lanes(b, acc, 1, &zero, scalar_load_lanes(c, DT_F32, t.x, 1, &i, 4, one, left), one,
                     NULL);
    const Scalar *first = scalar_splat(c, scalar_load(c, DT_F32, t.x, 1, &zero, NULL), 4);
    const Scalar *sum =
        scalar_2(c, S_ADD, scalar_load_lanes(c, DT_F32, acc, 1, &zero, 4, one, NULL), first);
    tree_store_lanes(b, t.o, 1, &i, sum, one, left);
    float x[7] = { 1, 2, 3, 4, 5, 6, 7 }, o[7] = { 0 };
    if (!tree_run(w, &t, x, o))
        fail_msg("%s", world_messages(w));
    for (int k = 0; k < 7; k++)
        assert_true(o[k] == x[k] + 1);
}

static void
test_tree_shows_what_is_unwritten(void **state)
{
    World *w = *state;
    Ctx *c = &w->ctx;
    TreeTest t = tree_begin(w);
    const Expr *zero = expr_int(c, 0), *one = expr_int(c, 1);
    uint32_t acc =
        kernel_buffer(c, w->arena, &t.k, "acc", type_new(c, DT_F32, 1, &one), SPACE_SCRATCH, 1);
    tree_buffer(&t.k.tree, acc);
    tree_store(&t.k.tree, t.o, 1, &zero, scalar_load(c, DT_F32, acc, 1, &zero, NULL));
    float x[7] = { 0 }, o[7] = { 0 };
    if (!tree_run(w, &t, x, o))
        fail_msg("%s", world_messages(w));
    assert_true(isnan(o[0]) && isnan(o[6]));
}

static void
test_tree_store_outside(void **state)
{
    World *w = *state;
    Ctx *c = &w->ctx;
    TreeTest t = tree_begin(w);
    uint32_t var;
    Block *b = tree_loop(&t.k, &t.k.tree, LOOP_SERIAL, sym(c, "i"), expr_int(c, 0), t.n, 1, &var);
    const Expr *at = expr_offset(c, expr_loop(c, var), 1);
    tree_store(b, t.o, 1, &at, scalar_float(c, DT_F32, 1));
    float x[7] = { 0 }, o[7] = { 0 };
    assert_false(tree_run(w, &t, x, o));
    expect_failure(w, "kernel twice: write of o[7]: index 7 on axis 0 is outside 0 <= i < 7");
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, world_begin, world_end)
    const struct CMUnitTest tests[] = {
        TEST(test_agrees_with_folding),
        TEST(test_casts),
        TEST(test_small_floats),
        TEST(test_convolution),
        TEST(test_softmax),
        TEST(test_data_movement),
        TEST(test_argmax_first_on_ties),
        TEST(test_scan),
        TEST(test_gather),
        TEST(test_gather_outside),
        TEST(test_unsigned_index),
        TEST(test_scatter),
        TEST(test_ragged),
        TEST(test_average_pool),
        TEST(test_empty_reduction),
        TEST(test_sums_round_at_every_step),
        TEST(test_quantised_product),
        TEST(test_read_outside),
        TEST(test_bind),
        TEST(test_tree_lanes),
        TEST(test_tree_shows_what_is_unwritten),
        TEST(test_tree_store_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
