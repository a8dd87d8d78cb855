/* rewrite and lower: each rule fires on its pattern, and the graph computes the same before and
 * after on random values; where a pattern only looks like the rule's, it does not fire. */
#include "lower/lower.h"
#include "rewrite_case.h"
#include "op/kinds.h"

/* ---- comparing graphs ------------------------------------------------------------------------ */

/* The two graphs compute the same, to a relative tolerance; names of outputs are kept. */
static void
expect_same(World *w, const Graph *before, const Graph *after, float tolerance)
{
    Tensor a[4], b[4];
    assert_non_null(after);
    assert_true(graph_verify(after));
    run(w, 99, before, a);
    run(w, 99, after, b);
    assert_int_equal(before->output.n, after->output.n);
    for (uint32_t i = 0; i < before->output.n; i++) {
        assert_string_equal(before->value.at[before->output.at[i]].name,
                            after->value.at[after->output.at[i]].name);
        assert_int_equal(tensor_count(&a[i]), tensor_count(&b[i]));
        for (int64_t k = 0; k < tensor_count(&a[i]); k++) {
            if (a[i].dtype != DT_F32) {
                assert_memory_equal(a[i].data, b[i].data,
                                    (size_t)tensor_count(&a[i]) * dtype_info[a[i].dtype].bytes);
                break;
            }
            float x = ((float *)a[i].data)[k], y = ((float *)b[i].data)[k];
            if (!(fabsf(x - y) <= tolerance * fabsf(x)) && !(isnan(x) && isnan(y)))
                fail_msg("output %u, element %d: %.9g before, %.9g after", i, (int)k, x, y);
        }
    }
}

static uint32_t
count_op(const Graph *g, OpKind op)
{
    uint32_t n = 0;
    for (NodeId id = 1; id < g->node.n; id++)
        n += g->node.at[id].callee == CALL_OP && g->node.at[id].op == op;
    return n;
}

/* The rules leave `nodes` calls. */
static const Graph *
expect_rules(World *w, uint32_t nodes, float tolerance)
{
    const Graph *after = rewrite_rules(w->g, false, NULL);
    expect_same(w, w->g, after, tolerance);
    if (after->node.n - 1 != nodes) {
        Text t = { .arena = w->arena };
        graph_print(&t, after, NULL);
        fail_msg("%u calls left, expected %u:\n%s", after->node.n - 1, nodes, text_str(&t));
    }
    return after;
}

/* ---- identities ------------------------------------------------------------------------------ */

static void
test_identities(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", -1, 4);
    ValueId y = CALL(identity, CALL(exp, CALL(identity, CALL(neg, CALL(neg, x)))));
    output(w, CALL(relu, CALL(relu, CALL(sum, CALL(dropout, y)))));
    expect_rules(w, 2, 0);
}

static void
test_an_output_that_is_an_input_keeps_its_node(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", -1, 4);
    output(w, CALL(identity, x));
    expect_rules(w, 1, 0);
}

static void
test_two_names_for_one_output_stay_two(void **state)
{
    World *w = *state;
    ValueId y = CALL(exp, INPUT("x", -1, 4));
    output(w, y);
    output(w, CALL(identity, y));
    expect_rules(w, 2, 0);
}

static void
test_neutral_numbers(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", -1, 4), one = number(w, 1), zero = number(w, 0);
    ValueId y = CALL(exp, CALL(div, CALL(mul, one, CALL(mul, x, one)), one));
    output(w, CALL(exp, CALL(pow, CALL(sub, CALL(add, y, number(w, -0.0f)), zero), one)));
    expect_rules(w, 2, 0);
}

static void
test_adding_plus_zero_is_not_nothing(void **state)
{
    World *w = *state;
    output(w, CALL(exp, CALL(add, INPUT("x", -1, 4), number(w, 0))));
    expect_rules(w, 2, 0);
}

static void
test_a_neutral_number_that_broadcasts_stays(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", 1, 4), ones = CALL(exp, number(w, 0));
    float *data = NEW_ARRAY(w->arena, float, 3);
    data[0] = data[1] = data[2] = 1;
    ones = graph_const(w->g, "ones", TYPE(DT_F32, 3, 1), data);
    output(w, CALL(exp, CALL(mul, x, ones)));
    expect_rules(w, 2, 0);
}

static void
test_softmax_behind_a_guard(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", -1, 4), s = CALL(softmax, x);
    output(w, CALL(where, CALL(is_nan, s), number(w, 0), s));
    output(w, CALL(where, CALL(is_nan, s), number(w, -0.0f), s));
    output(w, CALL(where, CALL(is_nan, x), number(w, 0), s));
    /* the first is one softmax; the others ask for another value, or for something else */
    const Graph *after = expect_rules(w, 6, 0);
    assert_int_equal(count_op(after, OP_softmax), 2);
}

/* ---- movements ------------------------------------------------------------------------------- */

static void
test_transposes(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", -1, 4, 5);
    ValueId y = transpose(w, transpose(w, x, 3, (int64_t[]){ 1, 2, 0 }), 3, (int64_t[]){ 2, 0, 1 });
    ValueId z = transpose(w, transpose(w, x, 3, (int64_t[]){ 1, 2, 0 }), 3, (int64_t[]){ 0, 2, 1 });
    output(w, CALL(exp, y));
    output(w, CALL(exp, z));
    expect_rules(w, 3, 0);
}

static void
test_reshapes(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", -1, 4, 6);
    ValueId y = CALL(reshape, CALL(flatten, CALL(reshape, x, INTS(0, 2, 12))), INTS(-1, 4, 6));
    ValueId z = CALL(unsqueeze, CALL(reshape, x, INTS(0, 8, 3)), INTS(1));
    output(w, CALL(exp, y));
    output(w, CALL(exp, z));
    const Graph *after = expect_rules(w, 3, 0);
    assert_int_equal(count_op(after, OP_reshape), 1);
}

/* ---- batch normalisation --------------------------------------------------------------------- */

static ValueId
batch_norm(World *w, ValueId x, int64_t channels)
{
    ValueId p[4];
    for (uint32_t i = 0; i < 4; i++)
        p[i] = WEIGHT("p", channels);
    return CALL(batch_norm, x, p[0], p[1], p[2], p[3]);
}

static void
test_norm_into_convolution(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", -1, 3, 6, 6);
    ValueId y =
        CALL(relu, batch_norm(w, CALL(conv, x, WEIGHT("w", 5, 3, 3, 3), WEIGHT("b", 5)), 5));
    output(w, batch_norm(w, CALL(conv, y, WEIGHT("v", 4, 5, 1, 1)), 4));
    const Graph *after = expect_rules(w, 3, 1e-5f);
    assert_int_equal(count_op(after, OP_conv), 2);
}

static void
test_norm_of_a_convolution_read_twice(void **state)
{
    World *w = *state;
    ValueId c = CALL(conv, INPUT("x", -1, 3, 6, 6), WEIGHT("w", 5, 3, 3, 3));
    output(w, batch_norm(w, c, 5));
    output(w, CALL(relu, c));
    const Graph *after = expect_rules(w, 4, 1e-5f);
    assert_int_equal(count_op(after, OP_batch_norm), 0);
}

static void
test_norm_into_products(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", -1, 6);
    ValueId y = batch_norm(w, CALL(gemm, x, WEIGHT("w", 6, 4), WEIGHT("b", 4)), 4);
    ValueId z = batch_norm(w, CALL(matmul, y, WEIGHT("v", 4, 3)), 3);
    Attr trans = { .name = sym(&w->ctx, "transB"), .kind = ATTR_INT, .i = 1 };
    output(w, batch_norm(
                  w, call(w, OP_gemm, (Attrs){ &trans, 1 }, 2, (ValueId[]){ z, WEIGHT("u", 2, 3) }),
                  2));
    const Graph *after = expect_rules(w, 4, 1e-5f);
    assert_int_equal(count_op(after, OP_batch_norm), 0);
}

static void
test_norm_alone(void **state)
{
    World *w = *state;
    output(w, batch_norm(w, INPUT("x", -1, 4, 5), 4));
    const Graph *after = expect_rules(w, 2, 1e-5f);
    assert_int_equal(count_op(after, OP_mul) + count_op(after, OP_add), 2);
}

static void
test_norm_by_computed_values_stays(void **state)
{
    World *w = *state;
    ValueId s = INPUT("s", 4);
    output(w, CALL(batch_norm, INPUT("x", -1, 4, 5), s, s, s, s));
    expect_rules(w, 1, 0);
}

/* ---- fold, cse, dce, lower ------------------------------------------------------------------- */

static void
test_fold(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", -1, 4);
    ValueId k = CALL(exp, CALL(add, WEIGHT("a", 4), WEIGHT("b", 4)));
    output(w, CALL(mul, x, k));
    output(w, CALL(add, CALL(reshape, x, CALL(mul, INTS(-1, 2), INTS(1, 2))), CALL(identity, k)));
    const Graph *after = rewrite_fold(w->g, 1 << 20);
    expect_same(w, w->g, after, 0);
    assert_int_equal(count_op(after, OP_add), 1);
    assert_int_equal(count_op(after, OP_identity) + count_op(after, OP_mul), 1);
    const Graph *small = rewrite_fold(w->g, 15);
    expect_same(w, w->g, small, 0);
    assert_int_equal(count_op(small, OP_add), 2);
}

/* A constant in another shape is the same memory, of whatever size; in another order it is not. */
static void
test_fold_shares_reshaped_constants(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", 4, 3, 2), a = WEIGHT("a", 2, 12);
    const void *data = w->g->value.at[a].data;
    output(w, CALL(add, x, CALL(reshape, a, INTS(4, 3, 2))));
    output(w, CALL(add, x, CALL(reshape, CALL(transpose, a), INTS(4, 3, 2))));
    const Graph *after = rewrite_fold(w->g, 15);
    expect_same(w, w->g, after, 0);
    assert_int_equal(count_op(after, OP_reshape), 1);
    assert_int_equal(count_op(after, OP_transpose), 1);
    uint32_t shared = 0;
    for (ValueId v = 1; v < after->value.n; v++)
        shared += after->value.at[v].data == data;
    assert_int_equal(shared, 2); /* the weight, and its other shape */
}

static void
test_fold_of_known_sizes(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", 2, 4);
    ValueId shape = CALL(shape, INPUT("y", -1, 4));
    output(w, CALL(add, CALL(shape, x), shape));
    const Graph *after = rewrite_fold(w->g, 1 << 20);
    expect_same(w, w->g, after, 0);
    assert_int_equal(count_op(after, OP_shape), 1); /* the symbolic one */
}

static void
test_fold_leaves_what_cannot_run(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", 2);
    output(w, CALL(add, x, CALL(gather, WEIGHT("a", 4), INTS(1, 9))));
    const Graph *after = rewrite_fold(w->g, 1 << 20);
    assert_non_null(after);
    assert_int_equal(count_op(after, OP_gather), 1);
    assert_int_equal(w->ctx.diags.list.n, 0);
    assert_int_equal(w->ctx.diags.worst, DIAG_OK);
}

static void
test_cse(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", -1, 4);
    ValueId a = CALL(exp, CALL(add, x, number(w, 2))), b = CALL(exp, CALL(add, x, number(w, 2)));
    ValueId c = CALL(exp, CALL(add, x, number(w, 3)));
    output(w, CALL(mul, CALL(mul, a, b), c));
    const Graph *after = rewrite_cse(w->g);
    expect_same(w, w->g, after, 0);
    assert_int_equal(count_op(after, OP_exp), 2);
    assert_int_equal(count_op(after, OP_add), 2);
}

/* x + y is y + x to the last bit; max and sub are not. */
static void
test_cse_of_exchanged_inputs(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", -1, 4), y = INPUT("y", -1, 4);
    output(w, CALL(sub, CALL(add, x, y), CALL(exp, CALL(add, y, x))));
    output(w, CALL(mul, CALL(max, x, y), CALL(max, y, x)));
    output(w, CALL(mul, CALL(sub, x, y), CALL(sub, y, x)));
    const Graph *after = rewrite_cse(w->g);
    expect_same(w, w->g, after, 0);
    assert_int_equal(count_op(after, OP_add), 1);
    assert_int_equal(count_op(after, OP_max), 2);
    assert_int_equal(count_op(after, OP_sub), 3);
}

static void
test_cse_compares_attributes_and_keeps_outputs(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", 4, 4);
    output(w, transpose(w, x, 2, (int64_t[]){ 1, 0 }));
    output(w, transpose(w, x, 2, (int64_t[]){ 0, 1 }));
    output(w, transpose(w, x, 2, (int64_t[]){ 1, 0 }));
    const Graph *after = rewrite_cse(w->g);
    expect_same(w, w->g, after, 0);
    assert_int_equal(after->node.n - 1, 3);
}

static void
test_dce(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", -1, 4);
    CALL(exp, CALL(exp, x));
    output(w, CALL(relu, x));
    const Graph *after = rewrite_dce(w->g);
    expect_same(w, w->g, after, 0);
    assert_int_equal(after->node.n - 1, 1);
}

static void
test_lower(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", -1, 4, 6);
    ValueId flat = CALL(reshape, x, INTS(0, -1));
    output(w, CALL(softmax, CALL(gemm, flat, WEIGHT("w", 24, 5), WEIGHT("b", 5))));
    const Graph *after = lower_nests(w->g);
    if (!after)
        fail_msg("%s", world_messages(w));
    expect_same(w, w->g, after, 0);
    for (NodeId id = 1; id < after->node.n; id++)
        assert_int_equal(after->node.at[id].callee, CALL_NEST);
}

static void
test_lower_drops_what_only_gave_a_shape(void **state)
{
    World *w = *state;
    ValueId x = INPUT("x", -1, 4, 6), shape = CALL(shape, x);
    output(w, CALL(exp, CALL(reshape, CALL(relu, x), CALL(mul, shape, INTS(1, 1, 1)))));
    const Graph *after = lower_nests(w->g);
    expect_same(w, w->g, after, 0);
    assert_int_equal(after->node.n - 1, 3);
}

/* ---- functions with different constants ------------------------------------------------------ */

static const char two_weights[] =
    "graph @step(%n: i64[], %x: f32[2], %w: f32[2]) -> (%y: f32[2]) {\n"
    "  %stop: bool[] = cast(%n) {to = \"bool\"}\n"
    "  %y = if(%stop, %n, %x, %w)\n"
    "    graph @more(%n, %x, %w) -> (%z) {\n"
    "      %p = mul(%x, %w)\n"
    "      %m = sub(%n, %n)\n"
    "      %z = call @step(%m, %p, %w)\n"
    "    }\n"
    "    graph @last(%n, %x, %w) -> (%z) { %z = add(%x, %w) }\n"
    "}\n"
    "graph @main(%n: i64[], %x: f32[2]) -> (%a, %b, %c) {\n"
    "  %u: f32[2] = const [1, 2]\n"
    "  %v: f32[2] = const [3, 4]\n"
    "  %same: f32[2] = const [1, 2]\n"
    "  %a = call @step(%n, %x, %u)\n"
    "  %b = call @step(%n, %x, %v)\n"
    "  %c = call @step(%n, %x, %same)\n"
    "}\n";

/* A copy for the second weight, its calls of itself among them; none where no copy is allowed. */
static void
test_clone(void **state)
{
    World *w = *state;
    Bytes text = { (const uint8_t *)two_weights, sizeof two_weights - 1 };
    Graph *g = graph_parse(&w->ctx, w->arena, "m.tn", text);

    assert_non_null(g);
    assert_int_equal(graph_all(g, w->arena).n, 4);
    assert_false(rewrite_clone(g, 0));
    assert_int_equal(graph_all(g, w->arena).n, 4);
    assert_true(rewrite_clone(g, 8));
    GraphList all = graph_all(g, w->arena);
    assert_int_equal(all.n, 7);
    for (uint32_t i = 0; i < all.n; i++)
        assert_true(graph_verify(all.at[i]));
    const Graph *f[3];
    for (NodeId id = 1, n = 0; id < g->node.n; id++)
        if (g->node.at[id].callee == CALL_GRAPH)
            f[n++] = g->node.at[id].region[0].graph;
    assert_ptr_equal(f[0], f[2]);
    assert_ptr_not_equal(f[0], f[1]);
    assert_true(rewrite_clone(g, 0)); /* nothing is left to be copied */
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, world_end)
    const struct CMUnitTest tests[] = {
        TEST(test_identities),
        TEST(test_an_output_that_is_an_input_keeps_its_node),
        TEST(test_two_names_for_one_output_stay_two),
        TEST(test_neutral_numbers),
        TEST(test_adding_plus_zero_is_not_nothing),
        TEST(test_a_neutral_number_that_broadcasts_stays),
        TEST(test_softmax_behind_a_guard),
        TEST(test_transposes),
        TEST(test_reshapes),
        TEST(test_norm_into_convolution),
        TEST(test_norm_of_a_convolution_read_twice),
        TEST(test_norm_into_products),
        TEST(test_norm_alone),
        TEST(test_norm_by_computed_values_stays),
        TEST(test_fold),
        TEST(test_fold_shares_reshaped_constants),
        TEST(test_fold_of_known_sizes),
        TEST(test_fold_leaves_what_cannot_run),
        TEST(test_cse),
        TEST(test_cse_of_exchanged_inputs),
        TEST(test_cse_compares_attributes_and_keeps_outputs),
        TEST(test_dce),
        TEST(test_clone),
        TEST(test_lower),
        TEST(test_lower_drops_what_only_gave_a_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
