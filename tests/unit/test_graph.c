/* graph: building, inferring, rebuilding, text there and back, and a verifier that catches what is
 * broken. */
#include "graph/graph.h"

#include "world.h"
#include "op/kinds.h"

#include <stdio.h>
#include <unistd.h>

static Bytes
bytes_of(const char *s)
{
    return (Bytes){ (const uint8_t *)s, strlen(s) };
}

static const Type *
type_of(Ctx *c, const char *s)
{
    Parse p = parse_begin(c, "test", bytes_of(s));
    return parse_type(&p);
}

static Graph *
parse(World *w, const char *s)
{
    return graph_parse(&w->ctx, w->arena, "test.tn", bytes_of(s));
}

static const char *
print(World *w, const Graph *g)
{
    Text t = { .arena = w->arena };
    graph_print(&t, g, NULL);
    return text_str(&t);
}

static const char *
first_error(World *w)
{
    return w->ctx.diags.list.n ? w->ctx.diags.list.at[0].text : "no error";
}

/* ---- building -------------------------------------------------------------------------------- */

static void
test_build(void **state)
{
    World *w = *state;
    static const float weights[8] = { 1, 2, 3, 4, 5, 6, 7, 8.5f };
    Graph *g = graph_new(&w->ctx, w->arena, "mlp");
    ValueId in[2], h, y;

    in[0] = graph_input(g, "x", type_of(&w->ctx, "f32[batch, 4]"));
    in[1] = graph_const(g, "w", type_of(&w->ctx, "f32[4, 2]"), weights);
    OpNode matmul = { .op = OP_matmul, .nin = 2, .in = in };
    OpNode relu = { .op = OP_relu, .origin = sym(&w->ctx, "Relu \"r\""), .nin = 1, .in = &h };
    assert_true(graph_infer_op(g, &matmul, 1, (const char *[]){ "h" }, &h));
    assert_true(graph_infer_op(g, &relu, 1, NULL, &y));
    VEC_PUSH(w->arena, &g->output, y);
    assert_true(graph_verify(g));
    assert_string_equal(print(w, g),
                        "graph @mlp(%x: f32[batch, 4]) -> (%relu) {\n"
                        "  %w: f32[4, 2] = const [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.5]\n"
                        "  %h: f32[batch, 2] = matmul(%x, %w)\n"
                        "  %relu: f32[batch, 2] = relu(%h) from \"Relu \\\"r\\\"\"\n"
                        "}\n");
}

static void
test_names_are_unique(void **state)
{
    World *w = *state;
    Graph *g = graph_new(&w->ctx, w->arena, "g");
    const Type *t = type_of(&w->ctx, "f32[]");

    static const char *const row[][2] = {
        { "x_1", "x_1" }, { "x", "x" }, { "x", "x_2" }, { "x", "x_3" }, { "x_1", "x_1_1" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        ValueId v = graph_value(g, row[i][0], t);
        assert_string_equal(g->value.at[v].name, row[i][1]);
    }
}

/* Shape, Gather, Unsqueeze, Concat, Equal, Where, Expand: what exporters write for x.expand(b,
 * -1). */
static void
test_shapes_stay_symbolic(void **state)
{
    World *w = *state;
    Graph *g = parse(w, "graph @g(%x: f32[batch, seq], %m: f32[1, 1]) -> (%e) {\n"
                        "  %zero: i64[] = const [0]\n"
                        "  %axes: i64[1] = const [0]\n"
                        "  %minus: i64[1] = const [-1]\n"
                        "  %ones: i64[2] = const [1, 1]\n"
                        "  %all: i64[2] = const [-1, -1]\n"
                        "  %s: i64[2] = shape(%x)\n"
                        "  %b: i64[] = gather(%s, %zero)\n"
                        "  %b1: i64[1] = unsqueeze(%b, %axes)\n"
                        "  %c: i64[2] = concat(%b1, %minus) {axis = 0}\n"
                        "  %q: bool[2] = equal(%c, %all)\n"
                        "  %t: i64[2] = where(%q, %ones, %c)\n"
                        "  %e: f32[batch, 1] = expand(%m, %t)\n"
                        "}\n");
    assert_string_equal(first_error(w), "no error");
    assert_non_null(g);
    assert_true(graph_verify(g));
    assert_int_equal(g->constraints.n, 0);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void
round_trip(World *w, const char *text)
{
    Graph *g = parse(w, text);
    assert_string_equal(first_error(w), "no error");
    assert_non_null(g);
    assert_true(graph_verify(g));
    assert_string_equal(print(w, g), text);
}

static void
test_text_of_operators(void **state)
{
    round_trip(
        *state,
        "graph @\"a graph\"(%\"x/0\": f32[batch, 3, 8, 8], %i: i64[batch, 2]) -> (%p, %s, %n) {\n"
        "  symbol batch from 1 to 64\n"
        "  %w: f16[3] = const [0.1, -inf, 1e-07]\n"
        "  %d: f64[2] = const [0.1, 1e+300]\n"
        "  %t: bool[2] = const [0, 1]\n"
        "  %k: u8[2] = const [0, 255]\n"
        "  %p: f32[batch, 3, 4, 4] = max_pool(%\"x/0\") {kernel_shape = [2, 2], strides = [2, 2], "
        "auto_pad = \"VALID\"}\n"
        "  %a: f32[batch, 3, 4, 4] = leaky_relu(%p) {alpha = 0.1}\n"
        "  %s: f32[batch, 3, 4, 4] = clip(%a, _, _) from \"Clip \\\"c\\\"\"\n"
        "  _, %m: bool[batch, 3, 4, 4] = dropout(%s)\n"
        "  %z: i64[2] = shape(%i)\n"
        "  %n: i64[batch, 2] = constant_of_shape(%z) {value = const i64[1] [7]}\n"
        "}\n");
}

static void
test_text_of_facts_and_formats(void **state)
{
    round_trip(*state, "graph @g(%x: f32[n, 32], %y: f32[m, 32]) -> (%z) {\n"
                       "  symbol n from 1 to 64 usually 1, 16\n"
                       "  symbol m from 1 to 64 counts 1 usually 8\n"
                       "  require n == m \"add: axis 0\"\n"
                       "  require m == n or one is 1 \"mul: axis 0\"\n"
                       "  require n == 2*m or the first is 1 \"gemm: axis 0\"\n"
                       "  %z: f32[n, 32] as [0, 1/16, 1%16] = add(%x, %y)\n"
                       "}\n");
}

static void
test_text_of_nests(void **state)
{
    World *w = *state;
    const char *text =
        "graph @g(%x: f32[n, 4]) -> (%o) {\n"
        "  %o: f32[n] = call(%x) from \"ReduceMax\" nest rows(x: f32[n, 4]) -> (o: f32[n]) {\n"
        "    o[i] = max r: x[i, r]\n"
        "  }\n"
        "}\n";
    Graph *g = parse(w, text);
    assert_string_equal(first_error(w), "no error");
    assert_true(graph_verify(g));
    const char *once = print(w, g);
    g = parse(w, once);
    assert_non_null(g);
    assert_string_equal(print(w, g), once);
    assert_non_null(strstr(once, "max r"));
}

static void
test_weights_file(void **state)
{
    World *w = *state;
    char folder[] = "/tmp/test_graph_XXXXXX";
    float weights[100];
    Text t = { .arena = w->arena };

    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 100; i++)
        weights[i] = (float)i / 3;
    Graph *g = graph_new(&w->ctx, w->arena, "g");
    ValueId v = graph_const(g, "w", type_of(&w->ctx, "f32[10, 10]"), weights);
    VEC_PUSH(w->arena, &g->output, v);
    assert_non_null(strstr(print(w, g), "const elided 0x"));

    const char *path = path_join(w->arena, folder, "g.weights");
    WeightsFile file = { writer_open(w->arena, &w->ctx.diags, path),
                         "g.weights",
                         { .arena = w->arena } };
    graph_print(&t, g, &file);
    assert_true(writer_commit(file.writer, 0644));
    Graph *again =
        graph_parse(&w->ctx, w->arena, path_join(w->arena, folder, "g.tn"), bytes_of(text_str(&t)));
    assert_string_equal(first_error(w), "no error");
    assert_memory_equal(again->value.at[again->output.at[0]].data, weights, sizeof weights);

    const char *outside = "graph @g() -> (%w) { %w: f32[200] = const file \"g.weights\" 0 }";
    assert_null(
        graph_parse(&w->ctx, w->arena, path_join(w->arena, folder, "g.tn"), bytes_of(outside)));
    assert_non_null(strstr(first_error(w), "has 400 bytes"));
    unlink(path);
    rmdir(folder);
}

static void
test_mistakes_in_text(void **state)
{
    static const struct {
        const char *text, *error;
    } row[] = {
        { "graph @g(%x: f32[4]) -> (%y) { }", "output %y is not defined" },
        { "graph @g(%x: f32[4]) -> (%x) { %y: f32[4] = relu(%z) }", "%z is not defined here" },
        { "graph @g(%x: f32[4]) -> (%x) { %y: f32[4] = rely(%x) }",
          "there is no operator \"rely\"" },
        { "graph @g(%x: f32[4]) -> (%x) { %x: f32[4] = relu(%x) }", "%x is defined twice" },
        { "graph @g(%x: f32[4]) -> (%x) { %y: f32[5] = relu(%x) }",
          "written as f32[5], but relu gives f32[4]" },
        { "graph @g(%x: f32[4]) -> (%x) { %y: f32[4] = add(%x) }", "has 1 inputs, 2 are needed" },
        { "graph @g() -> (%x) { %x: u8[1] = const [256] }", "256 does not fit u8" },
        { "graph @g(%x: f32[n]) -> (%x) { symbol n from 1 to 64 usually 65 }",
          "symbol n usually 65: such sizes are told in rising order, from 1 to 64" },
        { "graph @g(%x: f32[n]) -> (%x) { symbol n usually 8, 4 }",
          "symbol n usually 4: such sizes are told in rising order, from 0" },
        { "graph @g() -> (%x) { %x: f32[n] = const [1.0] }", "has no constant size" },
        { "graph @g() -> (%x) { %x: f32[2] = const [1.0] }", "expected `,`" },
        { "graph @g() -> (%x) { %x: f32[4000000000] = const [1.0] }", "does not end in this text" },
        { "graph @g() -> (%x) { %x: f32[2] = const elided 0x12 }", "left out when it was printed" },
        { "graph @g() -> (%x) { %x: f32[100] = const file \"../w\" 0 }",
          "does not lie beside the text" },
        { "graph @g(%x: f32[4]) -> (%x) { } more", "goes on behind the graph" },
        { "graph @g(%x: f32[4]) -> (%x) { } graph @g() -> () { } graph @g() -> () { }",
          "graph @g is defined twice" },
        { "graph @g(%x: f32[4]) -> (%y) { %y: f32[4] = call @f(%x) }",
          "there is no graph @f, which is called" },
        { "graph @g(%x: i64[4]) -> (%y) { %y: i64[4] = match(%x) new [n] }",
          "a match of i64[4] defines 1 symbols" },
        { "graph @g(%x: f32[1]) -> (%y) { %y: f32[1] = match(%x) new [n] }", "it takes integers" },
        { "graph @g(%x: i64[1]) -> (%z) { %z: f32[n] = constant_of_shape(%s) %s: i64[1] = "
          "match(%x) new [n] }",
          "%s is not defined here" },
        { "graph @g(%c: f32[]) -> (%y) { %y: f32[] = if(%c) graph @a() -> (%r) { %r: f32[] = const "
          "[1] } graph @b() -> (%r) { %r: f32[] = const [2] } }",
          "the condition of an if is one bool" },
        { "graph @g(%c: bool[]) -> (%y) { %y: f32[] = if(%c) graph @a() -> (%r) { %r: f32[] = "
          "const [1] } graph @b() -> (%r) { %r: f32[1] = const [2] } }",
          "%y is f32[], graph b gives f32[1]" },
        { "graph @g(%c: bool[], %x: f32[n]) -> (%y) { %y: f32[n] = if(%c, %x) graph @a(%v: f32[k]) "
          "-> (%v) { } with [l = 2*n] graph @b(%v: f32[k]) -> (%v) { } }",
          "symbol k of graph b is bound to nothing" },
        { "graph @g(%x: f32[n]) -> (%y) { %y: f32[n] = loop(_, _, %x) carried 2 graph @b(%i: "
          "i64[], %c: bool[]) -> (%c) { } }",
          "a loop with 2 carried values has 3 inputs" },
        { "graph @g(%x: f32[4]) -> (%x) { require 3 == 4 \"no\" }", "cannot hold" },
        { "graph @g(%x: f32[n]) -> (%x) { require n == 4 or none is 1 \"no\" }", "expected `the`" },
        { "graph @g(%x: f32[4]) -> (%x) { %y: f32[4] as [7] = relu(%x) }",
          "a dimension below the rank 1" },
        { "graph @g(%x: f32[4]", "expected `,`" },
        { "", "expected `graph`" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        World w = { .arena = arena_new(NULL, NULL) };
        ctx_init(&w.ctx, w.arena);
        assert_null(parse(&w, row[i].text));
        if (!strstr(first_error(&w), row[i].error))
            fail_msg("%s\n  gives %s\n  expected %s", row[i].text, first_error(&w), row[i].error);
        arena_free(w.arena);
    }
}

/* ---- rebuilding ------------------------------------------------------------------------------ */

static const char *const diamond = "graph @g(%x: f32[4], %unused: f32[2]) -> (%d) {\n"
                                   "  %one: f32[] = const [1.0]\n"
                                   "  %two: f32[] = const [2.0]\n"
                                   "  %a: f32[4] = add(%x, %one)\n"
                                   "  %b: f32[4] = relu(%a)\n"
                                   "  %dead: f32[4] = mul(%a, %two)\n"
                                   "  %d: f32[4] = mul(%a, %b)\n"
                                   "}\n";

static void
test_rebuild(void **state)
{
    World *w = *state;
    Graph *from = parse(w, diamond);
    ValueId *map;
    Graph *g = graph_rebuild(from, &map);

    for (NodeId n = 1; n < from->node.n; n++)
        graph_copy_node(g, from, n, map);
    assert_int_equal(graph_finish(g, from, map), 1);
    assert_true(graph_verify(g));
    const char *text = print(w, g);
    assert_null(strstr(text, "%dead"));
    assert_null(strstr(text, "%two"));
    assert_non_null(strstr(text, "%unused"));
    assert_non_null(strstr(text, "%d: f32[4] = mul(%a, %b)"));
}

static void
test_uses(void **state)
{
    World *w = *state;
    Graph *g = parse(w, diamond);
    uint32_t *uses = graph_uses(g, w->arena);
    Users users = graph_users(g, w->arena);

    for (ValueId v = 1; v < g->value.n; v++) {
        const char *name = g->value.at[v].name;
        if (strcmp(name, "a") == 0) {
            assert_int_equal(uses[v], 3);
            assert_int_equal(users.first[v + 1] - users.first[v], 3);
            for (uint32_t i = users.first[v]; i < users.first[v + 1]; i++)
                assert_int_equal(users.node[i], 2 + (i - users.first[v]));
        } else if (strcmp(name, "d") == 0) {
            assert_int_equal(uses[v], 1);
            assert_int_equal(users.first[v + 1] - users.first[v], 0);
        } else if (strcmp(name, "unused") == 0) {
            assert_int_equal(uses[v], 0);
        }
    }
}

/* ---- the verifier ---------------------------------------------------------------------------- */

static ValueId
find(const Graph *g, const char *name)
{
    for (ValueId v = 1; v < g->value.n; v++)
        if (strcmp(g->value.at[v].name, name) == 0)
            return v;
    return 0;
}

static void
break_reference(Graph *g)
{
    g->ref.at[0] = 99;
}
static void
break_name(Graph *g)
{
    g->value.at[find(g, "a")].name = g->value.at[find(g, "b")].name;
}
static void
break_type(Graph *g)
{
    g->value.at[find(g, "b")].type = g->value.at[find(g, "one")].type;
}
static void
break_missing_type(Graph *g)
{
    g->value.at[find(g, "b")].type = NULL;
}
static void
break_definition(Graph *g)
{
    g->value.at[find(g, "b")].def = 1;
}
static void
break_origin(Graph *g)
{
    g->value.at[find(g, "one")].data = NULL;
}
static void
break_output(Graph *g)
{
    g->output.at[0] = 0;
}
static void
break_arity(Graph *g)
{
    g->node.at[1].in.count = 1;
}

static void
break_order(Graph *g)
{
    Node n = g->node.at[1];
    g->node.at[1] = g->node.at[2];
    g->node.at[2] = n;
    for (NodeId id = 1; id <= 2; id++)
        g->value.at[node_out(g, &g->node.at[id], 0)].def = id;
}

static void
test_verify_catches(void **state)
{
    static const struct {
        void (*breaks)(Graph *g);
        const char *rule;
    } row[] = {
        { break_reference, "(rule 1)" },    { break_name, "(rule 2)" },
        { break_missing_type, "(rule 2)" }, { break_origin, "(rule 3)" },
        { break_definition, "(rule 4)" },   { break_order, "(rule 5)" },
        { break_type, "(rule 6)" },         { break_arity, "(rule 6)" },
        { break_output, "(rule 8)" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        World w = { .arena = arena_new(NULL, NULL) };
        ctx_init(&w.ctx, w.arena);
        Graph *g = parse(&w, diamond);
        assert_true(graph_verify(g));
        row[i].breaks(g);
        assert_false(graph_verify(g));
        assert_int_not_equal(w.ctx.diags.list.n, 0);
        const char *text = w.ctx.diags.list.at[w.ctx.diags.list.n - 1].text;
        if (!strstr(text, row[i].rule))
            fail_msg("broken graph %zu gives %s, expected %s", i, text, row[i].rule);
        arena_free(w.arena);
    }
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_begin, world_end)
    const struct CMUnitTest tests[] = {
        T(test_build),
        T(test_names_are_unique),
        T(test_shapes_stay_symbolic),
        T(test_text_of_operators),
        T(test_text_of_facts_and_formats),
        T(test_text_of_nests),
        T(test_weights_file),
        T(test_mistakes_in_text),
        T(test_rebuild),
        T(test_uses),
        T(test_verify_catches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
