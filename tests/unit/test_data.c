/* data types in the text form: what their values may be, and what is said of mistakes. */
#include "graph/graph.h"

#include "world.h"

#define TREE "data Tree = leaf(word: i64[]) | node(left: Tree[], right: Tree[]) "
#define LEAF "leaf graph @l(%w: i64[]) -> (%z) { %z: f32[] = const [1.0] } "
#define NODE "node graph @n(%a: Tree[], %b: Tree[]) -> (%z) { %z = call @f(%a) } "
#define BODY(text)                                                                                 \
    TREE "graph @f(%t: Tree[]) -> (%h: f32[]) { " text " } "                                       \
         "graph @g(%t: Tree[]) -> (%h) { %h = call @f(%t) }"

static const struct {
    const char *text, *error;
} mistake[] = {
    /* declarations */
    { "data Tree = leaf() data Tree = leaf() graph @g() -> () { }",
      "data type Tree is declared twice" },
    { "data f32 = a() graph @g() -> () { }", "f32 is the name of an element type" },
    { "data Tree[a] = leaf() graph @g() -> () { }",
      "data type Tree has parameters, which are not supported" },
    { "data Tree = leaf() | leaf() graph @g() -> () { }", "Tree has two constructors leaf" },
    { "data Tree = leaf(a: f32[], a: f32[]) graph @g() -> () { }",
      "constructor leaf of Tree has two fields a" },
    { "data Tree = leaf(a: f32[]) | node(a: i64[]) graph @g() -> () { }",
      "field a of Tree has another type in a constructor before" },
    { "data Tree = leaf(tag: f32[]) | nil graph @g() -> () { }",
      "tag is the column that says which constructor made a row of Tree" },
    { "data Tree = leaf(a: f32[n]) graph @g() -> () { }",
      "field a of Tree is f32[n]: a field is numbers of a fixed size" },
    { "data Tree = leaf(a: str[]) graph @g() -> () { }",
      "field a of Tree is str[]: a field is numbers" },
    { "data Tree = node(kids: Tree[k]) graph @g() -> () { }",
      "a number of Tree that differs from value to value is not supported" },
    { "data Tree = node(kids: Forest[]) data Forest = none graph @g() -> () { }",
      "found `Forest`" },
    { "data Tree = leaf()", "expected `graph`" },
    { "graph @c = file \"c.onnx\" graph @g() -> () { }",
      "models in files are read where texts are compiled" },
    /* values */
    { TREE "graph @f(%t: Tree[]) -> (%x: f32[]) { %x: f32[] = const [1.0] } graph @g(%t: i64[]) -> "
           "(%x) { %x = call @f(%t) }",
      "%t is i64[], input %t of graph f takes Tree[]" },
    { TREE "graph @f(%t: i64[]) -> (%t) { } graph @g(%t: Tree[]) -> (%x) { %x = call @f(%t) }",
      "%t is Tree[], input %t of graph f takes i64[]" },
    { TREE "graph @f(%t: Tree[]) -> (%x: Tree[]) { %x = identity(%t) } graph @g(%t: Tree[]) -> "
           "(%x) { %x = call @f(%t) }",
      "output %x of graph f is i64[], its head says Tree[]" },
    { TREE "graph @g(%t: Tree[]) -> (%x) { %x: i64[] = call @f(%t) } graph @f(%t: Tree[]) -> (%t) "
           "{ }",
      "there is no graph @f" },
    { TREE "graph @f(%t: Tree[]) -> (%t) { } graph @g(%t: Tree[]) -> (%x) { %x: i64[] = call "
           "@f(%t) }",
      "%x is written as i64[], but graph f gives Tree[]" },
    { TREE "graph @g(%t: Tree[], %n: i64[]) -> (%u) { %u = loop(%n, _, %t) carried 1 graph @b(%i: "
           "i64[], %c: bool[], %t: Tree[]) -> (%c, %v) { "
           "%v = identity(%t) } }",
      "but graph b gives i64[]" },
    { TREE "graph @g(%c: bool[], %t: Tree[]) -> (%u) { %u = if(%c, %t) graph @a(%t: Tree[]) -> "
           "(%t) { } graph @b(%t: Tree[]) -> (%v) { %v = identity(%t) } }",
      "but graph b gives i64[]" },
    { TREE "graph @g() -> (%t) { %t: Tree[] = const [0] }",
      "the type of constant %t has to stand beside it" },
    /* cases */
    { BODY("%h = case(%t) " LEAF),
      "the case of Tree has no arm for node; its constructors are leaf, node" },
    { BODY("%h = case(%t) " LEAF LEAF), "a second arm for leaf" },
    { BODY("%h = case(%t) " LEAF NODE LEAF), "a second arm for leaf" },
    { BODY("%h = case(%t) tree graph @x() -> () { } "),
      "Tree has no constructor tree; it has leaf, node" },
    { BODY("%h = case() " LEAF NODE), "a case is of a value of a data type, which is missing" },
    { BODY("%x: f32[] = const [1.0] %h = case(%x) " LEAF NODE),
      "a case is of a value of a data type; this one is f32[]" },
    { "graph @g(%x: f32[]) -> (%h) { %h = case(%x) }", "and the text declares no data type" },
    { BODY("%h = case(%t) leaf graph @l() -> (%z) { %z: f32[] = const [1.0] } " NODE),
      "graph l is the arm of leaf, which has 1 fields, and 0 values are handed on: it takes 1 "
      "values, not 0" },
    { BODY("%h = case(%t) leaf graph @l(%w: f32[]) -> (%w) { } " NODE),
      "input %w of graph l is written as f32[], field word of leaf is i64[]" },
    { BODY("%h = case(%t) " LEAF "node graph @n(%a: i64[], %b: Tree[]) -> (%z) { %z: f32[] = const "
           "[1.0] } "),
      "input %a of graph n is written as i64[], field left of node is Tree[]" },
    { BODY("%h, %i = case(%t) " LEAF NODE), "graph l gives 1 values, the case has 2" },
    { BODY("%h: i64[] = case(%t) " LEAF NODE),
      "output %h of graph f is i64[], its head says f32[]" },
    /* types that are left out */
    { "graph @g(%x: f32[2]) -> (%y) { %y = relu(%z) }", "%z is not defined here" },
    { "graph @g() -> (%y) { %y = const [1.0] }", "the type of constant %y has to stand beside it" },
    { "graph @g(%x: f32[2]) -> (%y) { %y = join(%x, %x) }",
      "the type of %y is not known here: a join does not tell it" },
    { "graph @g(%n: i64[], %x: f32[2]) -> (%y) { %y = loop(%n, _) carried 0 graph @b(%i: i64[], "
      "%c: bool[]) -> (%c, %i) { } }",
      "the type of %y is not known here: it is stacked over the iterations" },
    { "graph @f(%x: f32[2]) -> (%y) { %y = call @f(%x) } graph @g(%x: f32[2]) -> (%y) { %y = call "
      "@f(%x) }",
      "the type of %y is not known here, since graph f is not read yet" },
    { "graph @f(%x: f32[n]) -> (%y: f32[2]) { %y = relu(%x) } graph @g(%x: i64[2]) -> (%y) { %y = "
      "call @f(%x) }",
      "%x is i64[2], input %x of graph f takes f32[n]" },
    { "graph @f(%x: f32[3]) -> (%y: f32[2]) { %y = relu(%x) } graph @g(%x: f32[3]) -> (%y) { %y = "
      "call @f(%x) }",
      "output %y of graph f is f32[3], its head says f32[2]" },
    { "graph @f(%x: f32[n], %y: f32[n]) -> (%x) { } graph @g(%x: f32[3], %y: f32[4]) -> (%z) { %z "
      "= call @f(%x, %y) }",
      "%y is f32[4], input %y of graph f takes f32[3]" },
    { "graph @f(%x: f32[n]) -> (%x) { } graph @g(%x: f32[3]) -> (%z) { %z = call @f(%x, %x) }",
      "graph f takes 1 values, 2 are given" },
    { "graph @f(%x: f32[n]) -> (%x) { } graph @g(%x: f32[3]) -> (%z) { %z, %y = call @f(%x) }",
      "graph f gives 1 values, 2 are named" },
    { "data T = a(n: i64[]) | b(t: T[]) "
      "graph @g(%t: T[], %\"T.tag\": i64[3]) -> (%t) { }",
      "%\"T.tag\" is a column of T, which graph @g gets by itself" },
};

static void
test_mistakes(void **state)
{
    World *w = *state;

    for (size_t i = 0; i < sizeof mistake / sizeof *mistake; i++) {
        const char *text = mistake[i].text;
        w->ctx.diags.list.n = 0;
        assert_null(graph_parse(&w->ctx, w->arena, "test.tn",
                                (Bytes){ (const uint8_t *)text, strlen(text) }));
        const char *said = w->ctx.diags.list.n ? w->ctx.diags.list.at[0].text : "no error";
        if (!strstr(said, mistake[i].error))
            fail_msg("of %s\nis said: %s\nwanted:  %s", text, said, mistake[i].error);
    }
}

/* Sizes of a callee that nobody can prove are checked by runs: 3 and n are. */
static void
test_sizes_of_calls(void **state)
{
    World *w = *state;
    static const char text[] = "graph @f(%x: f32[k], %y: f32[k]) -> (%z) { %z = add(%x, %y) } "
                               "graph @g(%x: f32[n], %y: f32[3]) -> (%z) { %z = call @f(%x, %y) }";
    Graph *g = graph_parse(&w->ctx, w->arena, "test.tn",
                           (Bytes){ (const uint8_t *)text, sizeof text - 1 });

    assert_non_null(g);
    assert_int_equal(g->constraints.n, 1);
    assert_string_equal(g->constraints.at[0].why, "call of f: axis 0 of y and of its input y");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mistakes, world_begin, world_end),
        cmocka_unit_test_setup_teardown(test_sizes_of_calls, world_begin, world_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
