/* control: what branches, loops, functions and sizes from data mean, by the interpreter. */
#include "rewrite/rewrite.h"

#include "world.h"

static Graph *
parse(World *w, const char *s)
{
    return graph_parse(&w->ctx, w->arena, "test.tn", (Bytes){ (const uint8_t *)s, strlen(s) });
}

static Tensor
tensor(DType t, uint32_t rank, int64_t d0, int64_t d1, const void *data)
{
    return (Tensor){ .dtype = t, .rank = rank, .dim = { d0, d1 }, .data = (void *)data };
}

static bool
run(World *w, const char *text, const Tensor *in, Tensor *out)
{
    Graph *g = parse(w, text);
    Symbols s = { 0 };

    if (!g)
        return false;
    assert_true(graph_verify(g));
    return ref_bind_inputs(g, in, &s) && ref_graph(g, w->arena, &s, in, out, NULL, NULL);
}

static const char *
first_error(World *w)
{
    return w->ctx.diags.list.n ? w->ctx.diags.list.at[0].text : "no error";
}

static const char branch[] =
    "graph @g(%c: bool[], %x: f32[n]) -> (%y) {\n"
    "  %y: f32[r] = if(%c, %x) new [r to 2*n]\n"
    "    with [a = n] graph @then(%x: f32[a]) -> (%t) { %t: f32[2*a] = concat(%x, %x) {axis = 0} "
    "}\n"
    "    with [b = n] graph @else(%x: f32[b]) -> (%e) { %e: f32[b] = neg(%x) }\n"
    "}\n";

static void
test_if_takes_one_branch(void **state)
{
    World *w = *state;
    static const float x[3] = { 1, 2, 3 };
    Tensor in[2] = { tensor(DT_BOOL, 0, 1, 1, (uint8_t[]){ 1 }), tensor(DT_F32, 1, 3, 1, x) }, out;

    assert_true(run(w, branch, in, &out));
    assert_int_equal(out.dim[0], 6);
    assert_float_equal(((float *)out.data)[4], 2, 0);
    in[0].data = (uint8_t[]){ 0 };
    assert_true(run(w, branch, in, &out));
    assert_int_equal(out.dim[0], 3);
    assert_float_equal(((float *)out.data)[2], -3, 0);
}

static const char fold_left[] =
    "graph @g(%turns: i64[], %x: f32[n, 2]) -> (%all, %steps) {\n"
    "  %all: f32[m, 2], %steps: f32[t, n, 2] = loop(%turns, _, %x, %x) carried 1 new [m, t]\n"
    "    with [k = n, b = n] graph @body(%i: i64[], %c: bool[], %s: f32[k, 2], %x: f32[b, 2]) -> "
    "(%c, %next, %twice) {\n"
    "      %next: f32[b + k, 2] = concat(%s, %x) {axis = 0}\n"
    "      %twice: f32[b, 2] = add(%x, %x)\n"
    "    }\n"
    "}\n";

static void
test_loop_grows_what_it_carries(void **state)
{
    World *w = *state;
    static const float x[4] = { 1, 2, 3, 4 };
    Tensor in[2] = { tensor(DT_I64, 0, 1, 1, (int64_t[]){ 3 }), tensor(DT_F32, 2, 2, 2, x) },
           out[2];

    assert_true(run(w, fold_left, in, out));
    assert_int_equal(out[0].dim[0], 8);
    assert_int_equal(out[1].dim[0], 3);
    assert_float_equal(((float *)out[0].data)[15], 4, 0);
    assert_float_equal(((float *)out[1].data)[11], 8, 0);

    in[0].data = (int64_t[]){ 0 };
    assert_true(run(w, fold_left, in, out));
    assert_int_equal(out[0].dim[0], 2);
    assert_int_equal(out[1].dim[0], 0);
    assert_int_equal(out[1].dim[1], 2);
}

static void
test_loop_ends_when_told(void **state)
{
    World *w = *state;
    static const char text[] =
        "graph @g(%most: i64[]) -> (%v) {\n"
        "  %one: i64[] = const [1]\n"
        "  %v: i64[] = loop(_, _, %one, %most) carried 1\n"
        "    graph @body(%i: i64[], %c: bool[], %v: i64[], %most: i64[]) -> (%go, %next) {\n"
        "      %next: i64[] = add(%v, %v)\n"
        "      %go: bool[] = less(%next, %most)\n"
        "    }\n"
        "}\n";
    Tensor in = tensor(DT_I64, 0, 1, 1, (int64_t[]){ 1000 }), out;

    assert_true(run(w, text, &in, &out));
    assert_int_equal(*(int64_t *)out.data, 1024);
}

static void
test_function_calls_itself(void **state)
{
    World *w = *state;
    static const char text[] = "graph @fib(%n: i64[]) -> (%r) {\n"
                               "  %two: i64[] = const [2]\n"
                               "  %small: bool[] = less(%n, %two)\n"
                               "  %r: i64[] = if(%small, %n)\n"
                               "    graph @itself(%n: i64[]) -> (%n) { }\n"
                               "    graph @sum(%n: i64[]) -> (%s) {\n"
                               "      %one: i64[] = const [1]\n"
                               "      %two: i64[] = const [2]\n"
                               "      %a: i64[] = sub(%n, %one)\n"
                               "      %b: i64[] = sub(%n, %two)\n"
                               "      %fa: i64[] = call @fib(%a)\n"
                               "      %fb: i64[] = call @fib(%b)\n"
                               "      %s: i64[] = add(%fa, %fb)\n"
                               "    }\n"
                               "}\n"
                               "graph @g(%n: i64[]) -> (%r) { %r: i64[] = call @fib(%n) }\n";
    Tensor in = tensor(DT_I64, 0, 1, 1, (int64_t[]){ 12 }), out;

    assert_true(run(w, text, &in, &out));
    assert_int_equal(*(int64_t *)out.data, 144);
}

static const char sized[] = "graph @g(%x: f32[n], %size: i64[2]) -> (%y) {\n"
                            "  %s: i64[2] = match(%size) new [a, b to 4]\n"
                            "  %y: f32[a, b] = reshape(%x, %s)\n"
                            "}\n";

static void
test_sizes_from_data_are_checked(void **state)
{
    static const struct {
        int64_t a, b;
        const char *error;
    } row[] = {
        { 3, 2, "no error" },
        { 2, 5, "the size b is 5, which must be from 0 to 4" },
        { -1, 2, "the size a is -1, which must be from 0" },
        { 2, 2, "is 6 and a*b is 4, but they must be equal" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        World w = { .arena = arena_new(NULL, NULL) };
        static const float x[6] = { 1, 2, 3, 4, 5, 6 };
        int64_t size[2] = { row[i].a, row[i].b };
        Tensor in[2] = { tensor(DT_F32, 1, 6, 1, x), tensor(DT_I64, 1, 2, 1, size) }, out;
        ctx_init(&w.ctx, w.arena);
        assert_int_equal(run(&w, sized, in, &out), i == 0);
        if (!strstr(first_error(&w), row[i].error))
            fail_msg("%s\n  expected %s", first_error(&w), row[i].error);
        arena_free(w.arena);
    }
}

/* A size that only its definition makes known keeps what defines it, though nothing reads the
 * copy. */
static void
test_definitions_stay(void **state)
{
    World *w = *state;
    Graph *g = parse(w, "graph @g(%size: i64[1]) -> (%y) {\n"
                        "  %s: i64[1] = match(%size) new [a]\n"
                        "  %unused: i64[1] = match(%size) new [b]\n"
                        "  %y: f32[a] = call()\n"
                        "    nest ones() -> (o: f32[a]) { o[i] = 1.0 }\n"
                        "}\n");
    ValueId *map;

    assert_non_null(g);
    Graph *to = graph_rebuild(g, &map);
    for (NodeId n = 1; n < g->node.n; n++)
        graph_copy_node(to, g, n, map);
    assert_int_equal(graph_finish(to, g, map), 1);
    assert_true(graph_verify(to));
}

/* Two branches on one condition with equal arguments are two things. */
static void
test_branches_are_not_equal_calls(void **state)
{
    World *w = *state;
    Graph *g = parse(w, "graph @g(%c: bool[], %x: f32[n]) -> (%y, %z) {\n"
                        "  %y: f32[n] = if(%c, %x)\n"
                        "    with [a = n] graph @t(%v: f32[a]) -> (%r) { %r: f32[a] = relu(%v) }\n"
                        "    with [b = n] graph @e(%v: f32[b]) -> (%r) { %r: f32[b] = neg(%v) }\n"
                        "  %z: f32[n] = if(%c, %x)\n"
                        "    with [d = n] graph @t(%v: f32[d]) -> (%r) { %r: f32[d] = abs(%v) }\n"
                        "    with [e = n] graph @e(%v: f32[e]) -> (%r) { %r: f32[e] = exp(%v) }\n"
                        "}\n");

    assert_non_null(g);
    assert_int_equal(rewrite_cse(g)->node.n, 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_if_takes_one_branch, world_begin, world_end),
        cmocka_unit_test_setup_teardown(test_loop_grows_what_it_carries, world_begin, world_end),
        cmocka_unit_test_setup_teardown(test_loop_ends_when_told, world_begin, world_end),
        cmocka_unit_test_setup_teardown(test_function_calls_itself, world_begin, world_end),
        cmocka_unit_test(test_sizes_from_data_are_checked),
        cmocka_unit_test_setup_teardown(test_definitions_stay, world_begin, world_end),
        cmocka_unit_test_setup_teardown(test_branches_are_not_equal_calls, world_begin, world_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
