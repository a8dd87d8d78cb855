/* The table of rules, line by line: each has a graph below that is its left side. The rule fires
 * there, what comes of it computes the same, and its class says what the same is: EXACT, to the
 * last bit for NaN, infinities, signed zeros and denormals too; NEAR and FAST, but for rounding, of
 * ordinary numbers. A line without a graph does not compile. */
#include "rewrite_case.h"
#include "op/kinds.h"

#define ROUNDING 1e-5f
#define TURNS 8

#define LEFT(root, function) static ValueId left_##root##_##function(World *w)
#define X CALL(neg, INPUT("x", -1, 4)) /* no input itself: an output keeps a node of its own */
#define IMAGE CALL(neg, INPUT("x", -1, 3, 6, 6))

static ValueId
call_with(World *w, OpKind op, Attr a, ValueId x)
{
    return call(w, op, (Attrs){ &a, 1 }, 1, &x);
}

static ValueId
cast(World *w, const char *to, ValueId x)
{
    return call_with(w, OP_cast, (Attr){ .name = sym(&w->ctx, "to"), .kind = ATTR_STRING, .s = to },
                     x);
}

static ValueId
batch_norm(World *w, ValueId x, int64_t channels)
{
    return CALL(batch_norm, x, WEIGHT("scale", channels), WEIGHT("bias", channels),
                WEIGHT("mean", channels), WEIGHT("variance", channels));
}

/* ---- left sides ------------------------------------------------------------------------------ */

LEFT(identity, drop_same_type)
{
    return CALL(identity, X);
}
LEFT(cast, drop_same_type)
{
    return cast(w, "f32", X);
}
LEFT(cast, join_casts)
{
    return cast(w, "i32", cast(w, "f64", X));
}
LEFT(dropout, drop_dropout)
{
    return CALL(dropout, X);
}
LEFT(min, drop_single)
{
    return CALL(min, X);
}
LEFT(max, drop_single)
{
    return CALL(max, X);
}
LEFT(sum, drop_single)
{
    return CALL(sum, X);
}
LEFT(mean, drop_single)
{
    return CALL(mean, X);
}
LEFT(concat, drop_single)
{
    return call_with(w, OP_concat, (Attr){ .name = sym(&w->ctx, "axis"), .kind = ATTR_INT, .i = 1 },
                     X);
}
LEFT(relu, drop_idempotent)
{
    return CALL(relu, CALL(relu, X));
}
LEFT(abs, drop_idempotent)
{
    return CALL(abs, CALL(abs, X));
}
LEFT(sign, drop_idempotent)
{
    return CALL(sign, CALL(sign, X));
}
LEFT(floor, drop_idempotent)
{
    return CALL(floor, CALL(floor, X));
}
LEFT(ceil, drop_idempotent)
{
    return CALL(ceil, CALL(ceil, X));
}
LEFT(round, drop_idempotent)
{
    return CALL(round, CALL(round, X));
}
LEFT(neg, drop_involution)
{
    return CALL(neg, CALL(neg, CALL(abs, X)));
}
LEFT(not, drop_involution)
{
    return CALL(not, CALL(not, CALL(is_nan, X)));
}
LEFT(bitwise_not, drop_involution)
{
    return CALL(bitwise_not, CALL(bitwise_not, cast(w, "i32", X)));
}
LEFT(where, where_same)
{
    ValueId x = X;
    return CALL(where, CALL(is_nan, x), x, x);
}
LEFT(where, where_nan_softmax)
{
    ValueId y = CALL(softmax, X);
    return CALL(where, CALL(is_nan, y), number(w, 0), y);
}
LEFT(add, drop_neutral)
{
    return CALL(add, number(w, -0.0f), X);
}
LEFT(sub, drop_neutral)
{
    return CALL(sub, X, number(w, 0));
}
LEFT(mul, drop_neutral)
{
    return CALL(mul, X, number(w, 1));
}
LEFT(div, drop_neutral)
{
    return CALL(div, X, number(w, 1));
}
LEFT(pow, drop_neutral)
{
    return CALL(pow, X, number(w, 1));
}
LEFT(expand, drop_same_type)
{
    return CALL(expand, X, INTS(1, 4));
}
LEFT(reshape, drop_same_type)
{
    return CALL(reshape, X, INTS(-1, 4));
}
LEFT(flatten, drop_same_type)
{
    return CALL(flatten, X);
}
LEFT(squeeze, drop_same_type)
{
    return CALL(squeeze, X);
}
LEFT(unsqueeze, drop_same_type)
{
    return CALL(unsqueeze, X, graph_const(w->g, "axes", TYPE(DT_I64, 0), ""));
}
LEFT(reshape, join_relayouts)
{
    return CALL(reshape, CALL(flatten, IMAGE), INTS(-1, 27, 4));
}
LEFT(flatten, join_relayouts)
{
    return CALL(flatten, CALL(reshape, IMAGE, INTS(0, 9, 12)));
}
LEFT(squeeze, join_relayouts)
{
    return CALL(squeeze, CALL(reshape, IMAGE, INTS(0, 1, 108)), INTS(1));
}
LEFT(unsqueeze, join_relayouts)
{
    return CALL(unsqueeze, CALL(flatten, IMAGE), INTS(1));
}
LEFT(transpose, drop_transpose)
{
    return transpose(w, X, 2, (int64_t[]){ 0, -1 });
}
LEFT(transpose, join_transposes)
{
    return transpose(w, transpose(w, IMAGE, 4, (int64_t[]){ 1, 2, 0, 3 }), 4,
                     (int64_t[]){ -1, 0, -3, 2 });
}
LEFT(batch_norm, norm_into_conv)
{
    return batch_norm(w, CALL(conv, IMAGE, WEIGHT("w", 5, 3, 3, 3), WEIGHT("b", 5)), 5);
}
LEFT(batch_norm, norm_into_gemm)
{
    return batch_norm(w, CALL(gemm, X, WEIGHT("w", 4, 3), WEIGHT("b", 3)), 3);
}
LEFT(batch_norm, norm_into_matmul)
{
    return batch_norm(w, CALL(matmul, X, WEIGHT("w", 4, 3)), 3);
}
LEFT(batch_norm, norm_to_scale)
{
    return batch_norm(w, X, 4);
}
LEFT(div, divisor_to_factor)
{
    return CALL(div, X, WEIGHT("c", 1, 4));
}
LEFT(matmul, scales_into_one)
{
    return CALL(matmul, CALL(mul, X, number(w, 0.3f)),
                CALL(mul, number(w, 0.7f), CALL(transpose, INPUT("y", -1, 4))));
}
LEFT(matmul, scale_into_weights)
{
    return CALL(matmul, CALL(mul, IMAGE, WEIGHT("c", 1, 1, 1)), WEIGHT("w", 6, 5));
}
LEFT(mul, scale_into_conv)
{
    return CALL(mul, CALL(conv, IMAGE, WEIGHT("w", 5, 3, 3, 3), WEIGHT("b", 5)),
                WEIGHT("c", 5, 1, 1));
}
LEFT(add, shift_into_conv)
{
    return CALL(add, WEIGHT("c", 1, 5, 1, 1), CALL(conv, IMAGE, WEIGHT("w", 5, 3, 3, 3)));
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { EXACT, NEAR, FAST };

static const struct {
    const char *name;
    ValueId (*left)(World *w);
    int class;
} row[] = {
#define RULE(root, function, from, to, class)                                                      \
    { #root " " #function, left_##root##_##function, class },
#include "rewrite/rules.def"
#undef RULE
};
enum { ROWS = sizeof row / sizeof *row };

static void
expect_same(const char *name, int class, const Tensor *a, const Tensor *b)
{
    int64_t n = tensor_count(a);
    assert_int_equal(n, tensor_count(b));
    for (int64_t i = 0; i < n && a->dtype == DT_F32; i++) {
        float x = ((float *)a->data)[i], y = ((float *)b->data)[i];
        bool same = memcmp(&x, &y, sizeof x) == 0 || (isnan(x) && isnan(y));
        if (!same && (class == EXACT || !(fabsf(x - y) <= ROUNDING * fabsf(x))))
            fail_msg("%s: element %d is %.9g before, %.9g after", name, (int)i, x, y);
    }
    if (a->dtype != DT_F32)
        assert_memory_equal(a->data, b->data, (size_t)n * dtype_info[a->dtype].bytes);
}

static void
test_every_rule(void **state)
{
    World *w = *state;
    for (uint32_t r = 0; r < ROWS; r++) {
        uint32_t fired[ROWS] = { 0 }, without[ROWS] = { 0 };
        w->g = graph_new(&w->ctx, w->arena, "left");
        output(w, row[r].left(w));
        const Graph *after = rewrite_rules(w->g, row[r].class == FAST, fired);
        if (!fired[r])
            fail_msg("%s did not fire", row[r].name);
        assert_true(graph_verify(after));
        assert_true(rewrite_rules(w->g, false, without) &&
                    (without[r] > 0) == (row[r].class != FAST));
        w->odd = row[r].class == EXACT;
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            Tensor a, b;
            run(w, 99 + turn, w->g, &a);
            run(w, 99 + turn, after, &b);
            expect_same(row[r].name, row[r].class, &a, &b);
        }
    }
}

/* ---- what only looks like a left side -------------------------------------------------------- */

static void
expect_none(World *w, const char *what, ValueId v)
{
    uint32_t fired[ROWS] = { 0 };
    output(w, v);
    rewrite_rules(w->g, true, fired);
    for (uint32_t r = 0; r < ROWS; r++)
        if (fired[r])
            fail_msg("%s: %s fired", what, row[r].name);
    w->g = graph_new(&w->ctx, w->arena, "next");
}

static void
test_guards(void **state)
{
    World *w = *state;
    expect_none(w, "i32 rounds what f32 holds", cast(w, "f32", cast(w, "i32", X)));
    expect_none(w, "i16 holds no u16", cast(w, "i32", cast(w, "i16", cast(w, "u16", X))));
    expect_none(w, "1 / c is infinite", CALL(div, X, number(w, 0)));
    expect_none(w, "1 / c is a denormal", CALL(div, X, number(w, 0x1p127f)));
    expect_none(w, "scales as small as 2^-100",
                CALL(matmul, CALL(mul, X, number(w, 1e-30f)),
                     CALL(mul, CALL(transpose, INPUT("y", -1, 4)), number(w, 1e-30f))));
    ValueId x = CALL(mul, X, number(w, 3));
    output(w, x);
    expect_none(w, "scaled elements are read", CALL(matmul, x, WEIGHT("w", 4, 5)));
    expect_none(w, "a scale for each column",
                CALL(mul, CALL(conv, IMAGE, WEIGHT("w", 5, 3, 3, 3)), WEIGHT("c", 1, 4)));
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, world_end)
    const struct CMUnitTest tests[] = { TEST(test_every_rule), TEST(test_guards) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
