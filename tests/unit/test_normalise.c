/* Nests in plain form compute what they computed before; constants of nests become constants. */
#include "world.h"

#include "normalise/normalise.h"
#include "ref/ref.h"

static Graph *
parse(World *w, const char *text)
{
    Graph *g =
        graph_parse(&w->ctx, w->arena, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    if (!g || !graph_verify(g))
        fail_msg("%s", world_messages(w));
    return g;
}

static const char *
text_of(World *w, const Graph *g)
{
    Text t = { .arena = w->arena };
    graph_print(&t, g, NULL);
    return text_str(&t);
}

/* The only output, where n is 3 and inputs count 0, 1, … */
static Tensor
run(World *w, const Graph *g)
{
    Symbols s = { 0 };
    Tensor in[4], out[1];

    symbols_set(w->arena, &s, sym(&w->ctx, "n"), 3);
    for (uint32_t i = 0; i < g->input.n; i++) {
        assert_true(
            tensor_of_type(&w->ctx, w->arena, g->value.at[g->input.at[i]].type, &s, &in[i]));
        for (int64_t k = 0; k < tensor_count(&in[i]); k++)
            ((float *)in[i].data)[k] = (float)((k * 7 + 3) % 11 - 5);
    }
    if (!ref_bind_inputs(g, in, &s) || !ref_graph(g, w->arena, &s, in, out, NULL, NULL))
        fail_msg("%s\n%s", world_messages(w), text_of(w, g));
    return out[0];
}

static void
same(World *w, const Graph *before, const Graph *after)
{
    if (!after || !graph_verify(after))
        fail_msg("%s", world_messages(w));
    Tensor a = run(w, before), b = run(w, after);
    assert_int_equal(tensor_count(&a), tensor_count(&b));
    /* small integers: sums are exact in any order */
    for (int64_t i = 0; i < tensor_count(&a); i++)
        if (((float *)a.data)[i] != ((float *)b.data)[i])
            fail_msg("element %d: %g before, %g after:\n%s", (int)i, ((float *)a.data)[i],
                     ((float *)b.data)[i], text_of(w, after));
}

#define WEIGHTS                                                                                    \
    "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24]"

static void
test_transposed(void **state)
{
    static const char *const text[] = {
        "graph @g(%x: f32[n, 2, 5]) -> (%o) {\n %w: f32[2, 3, 4] = const " WEIGHTS
        "\n %o: f32[n, 3, 10] = call(%x, %w)\n"
        " nest up(x: f32[n, 2, 5], w: f32[2, 3, 4]) -> (o: f32[n, 3, 10]) {\n"
        " o[i, j, k] = sum q, r<2>: x[i, q, (k + 1) // 2 - r | 0] * w[q, j, 2*r + (k + 1) % 2] "
        "}\n}\n",
        /* fewer taps than phases fill: the weights are read beyond their end */
        "graph @g(%x: f32[n, 2, 5]) -> (%o) {\n %w: f32[2, 4, 3] = const " WEIGHTS
        "\n %o: f32[n, 4, 10] = call(%x, %w)\n"
        " nest up(x: f32[n, 2, 5], w: f32[2, 4, 3]) -> (o: f32[n, 4, 10]) {\n"
        " o[i, j, k] = sum q, r<2>: x[i, q, (k + 1) // 2 - r | 0] * w[q, j, 2*r + (k + 1) % 2 | 0] "
        "}\n}\n",
        "graph @g(%x: f32[n, 2, 3, 5]) -> (%o) {\n %w: f32[2, 3, 2, 2] = const " WEIGHTS
        "\n %o: f32[n, 3, 6, 10] = call(%x, %w)\n"
        " nest up(x: f32[n, 2, 3, 5], w: f32[2, 3, 2, 2]) -> (o: f32[n, 3, 6, 10]) {\n"
        " o[i, j, k, l] = max((sum q: x[i, q, k // 2, l // 2] * w[q, j, k % 2, l % 2]), 0) }\n}\n",
    };
    World *w = *state;

    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        Graph *g = parse(w, text[i]), *after = normalise_nests(g, 1 << 20, DOT_NONE, 1 << 10, 1);
        same(w, g, after);
        /* The product and the move of its phases; the weights' move is done. */
        assert_int_equal(after->node.n, 3);
        Contraction view;
        assert_true(nest_contraction(&w->ctx, after->node.at[1].nest, &view));
        assert_true(view.row && view.col);
    }
}

static void
test_grouped(void **state)
{
    World *w = *state;
    Graph *g =
        parse(w, "graph @g(%x: f32[n, 4, 5]) -> (%o) {\n %w: f32[6, 2, 2] = const " WEIGHTS
                 "\n %o: f32[n, 6, 5] = call(%x, %w)\n"
                 " nest grouped(x: f32[n, 4, 5], w: f32[6, 2, 2]) -> (o: f32[n, 6, 5]) {\n"
                 " o[i, j, k] = sum q, r: x[i, 2*(j // 3) + q, k + r - 1 | 0] * w[j, q, r] }\n}\n");
    Graph *after = normalise_nests(g, 1 << 20, DOT_NONE, 1 << 10, 1);
    Contraction view;

    same(w, g, after);
    assert_int_equal(after->node.n, 2);
    assert_true(nest_contraction(&w->ctx, after->node.at[1].nest, &view));
    assert_true(view.row && view.col);
}

/* A nest of constants alone is computed, within the budget. */
static void
test_constants(void **state)
{
    World *w = *state;
    Graph *g = parse(
        w,
        "graph @g(%x: f32[n, 6]) -> (%o) {\n %w: f32[2, 3] = const [1, 2, 3, 4, 5, 6]\n"
        " %t: f32[6] = call(%w)\n nest flat(w: f32[2, 3]) -> (o: f32[6]) { o[i] = 2 * w[i // 3, i "
        "% 3] }\n"
        " %o: f32[n, 6] = call(%x, %t)\n"
        " nest add(x: f32[n, 6], t: f32[6]) -> (o: f32[n, 6]) { o[i, j] = x[i, j] + t[j] }\n}\n");
    Graph *after = normalise_nests(g, 24, DOT_NONE, 1 << 10, 1),
          *poor = normalise_nests(g, 23, DOT_NONE, 1 << 10, 1);

    same(w, g, after);
    same(w, g, poor);
    assert_int_equal(after->node.n, 2);
    assert_int_equal(poor->node.n, 3);
}

/* A large constant that others alone are computed of, here two, goes with the last of them: one that
 * came later would read what is not there any more. */
static void
test_constants_between(void **state)
{
    World *w = *state;
    Text t = { .arena = w->arena };

    text_add(&t, "graph @g(%x: f32[n, 512]) -> (%o) {\n %w: f32[512, 512] = const [");
    for (int i = 0; i < 512 * 512; i++)
        text_printf(&t, "%s%d", i ? ", " : "", i % 7);
    text_add(&t, "]\n %a: f32[512, 512] = call(%w)\n nest turn(w: f32[512, 512]) -> (o: f32[512, "
                 "512]) { o[i, j] = 2 * w[j, i] }\n"
                 " %b: f32[512, 512] = call(%a)\n nest more(a: f32[512, 512]) -> (o: f32[512, "
                 "512]) { o[i, j] = a[j, i] + 1 }\n"
                 " %c: f32[512] = call(%a)\n nest sums(a: f32[512, 512]) -> (o: f32[512]) { o[i] = "
                 "sum j: a[i, j] }\n"
                 " %o: f32[n, 512] = call(%x, %b, %c)\n"
                 " nest add(x: f32[n, 512], b: f32[512, 512], c: f32[512]) -> (o: f32[n, 512]) { "
                 "o[i, j] = x[i, j] + b[j, j] + c[j] }\n}\n");
    Graph *g = parse(w, text_str(&t)), *after = normalise_nests(g, 1 << 20, DOT_NONE, 1 << 10, 1);

    same(w, g, after);
    assert_int_equal(after->node.n, 2);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_begin, world_end)
    const struct CMUnitTest tests[] = { TEST(test_transposed), TEST(test_grouped),
                                        TEST(test_constants), TEST(test_constants_between) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
