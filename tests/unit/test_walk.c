/* walk: a program for many requests from text, walked by the interpreter; what of it is refused when
 * it is read, and what when it runs. */
#include "ref/ref.h"

#include "world.h"

#include <stdio.h>

/* n doubled as often as `turns` says, by a function; then the numbers of its iterations. */
static const char program[] =
    "graph @g(%x: f32[2], %turns: i64[]) -> (%y, %all) {\n"
    "  %y: f32[2], %all: i64[t] = blocks(%x, %turns) new [instances, rows, t]\n"
    "    walk @g($0: f32[2], $1: i64[]) -> ($9: f32[2], $8: i64[t]) {\n"
    "      unbox #2: i64[] from input 1\n"
    "      given $4 input 0\n"
    "      list $5\n"
    "      begin counter 0 going $6\n"
    "    10:\n"
    "      turn counter 0 below #2: i64[] while $6: bool[] else 20\n"
    "      count $7: i64[] counter 0\n"
    "      append to $5 from $7\n"
    "      call @twice($4) -> ($4)\n"
    "      next counter 0 to 10\n"
    "    20:\n"
    "      turns t counter 0\n"
    "      stack $8: i64[t] from $5\n"
    "      host 0 (#2: i64[]) -> (#10: bool[]) nodes 1 from \"equal\"\n"
    "      branch #10: bool[] else 30\n"
    "      block 1 () -> ($9: f32[2]) nodes 0 from \"constants\"\n"
    "      jump 40\n"
    "    30:\n"
    "      move $9 from $4\n"
    "    40:\n"
    "      return\n"
    "    }\n"
    "    walk @twice($0: f32[2]) -> ($1: f32[2]) {\n"
    "      block 2 ($0: f32[2]) -> ($1: f32[2]) nodes 1 from \"add\"\n"
    "      return\n"
    "    }\n"
    "    graph @is_seven(%n: i64[]) -> (%is) {\n"
    "      %is: bool[] = call(%n) nest equal(n: i64[]) -> (o: bool[]) { o[] = n[] == 7 }\n"
    "    }\n"
    "    graph @seven() -> (%o) {\n"
    "      %o: f32[instances, 2] = call() nest f() -> (o: f32[instances, 2]) { o[i, j] = f32(7) }\n"
    "    }\n"
    "    graph @add(%x: f32[rows, 2], %row: i32[instances]) -> (%o) {\n"
    "      %o: f32[instances, 2] = call(%x, %row) nest f(x: f32[rows, 2], row: i32[instances]) -> "
    "(o: f32[instances, 2]) { o[i, j] = x[at(row[i], rows), j] * f32(2) }\n"
    "    }\n"
    "}\n";

/* The program with `to` for the first `from`. */
static Graph *
parse(World *w, const char *from, const char *to)
{
    const char *at = strstr(program, from);

    assert_non_null(at);
    const char *text =
        arena_printf(w->arena, "%.*s%s%s", (int)(at - program), program, to, at + strlen(from));
    return graph_parse(&w->ctx, w->arena, "test.tn",
                       (Bytes){ (const uint8_t *)text, strlen(text) });
}

static const char *
first_error(World *w)
{
    return w->ctx.diags.list.n ? w->ctx.diags.list.at[0].text : "no error";
}

static bool
run(World *w, const Graph *g, int64_t turns, Tensor *out)
{
    static const float x[2] = { 1, 3 };
    Tensor in[] = { { .dtype = DT_F32, .rank = 1, .dim = { 2 }, .data = (void *)x },
                    { .dtype = DT_I64, .data = &turns } };
    Symbols s = { 0 };

    return ref_bind_inputs(g, in, &s) && ref_graph(g, w->arena, &s, in, out, NULL, NULL);
}

static void
test_runs(void **state)
{
    World *w = *state;
    Graph *g = parse(w, "block", "block");
    Tensor out[2];

    assert_string_equal(first_error(w), "no error");
    for (int64_t turns = 0; turns < 9; turns++) {
        assert_true(run(w, g, turns, out));
        assert_int_equal(out[1].dim[0], turns);
        for (int64_t i = 0; i < turns; i++)
            assert_int_equal(((int64_t *)out[1].data)[i], i);
        assert_true(((float *)out[0].data)[1] == (turns == 7 ? 7 : (float)(3 << turns)));
    }
}

static void
test_mistakes_in_text(void **state)
{
    static const struct {
        const char *from, *to, *error;
    } row[] = {
        { "unbox #2", "unbox $2", "#4, inline, is needed here, not $2" },
        { "unbox #2", "unbox #3", "#3: what is inline begins at an even slot" },
        { "input 1", "input 2", "input 2 is none of 0 to 1" },
        { "move $9 from $4", "move $9 from input 0", "an input cannot be here" },
        { "list $5", "lost $5", "there is no operation `lost`" },
        { "host 0", "host 1", "this is block 1, and 0 are run before it" },
        { "else 30", "else 31", "there is no place `31:` in this function" },
        { "    30:", "    20:", "the place `20:` is there twice" },
        { "turns t", "turns u", "u is none of the sizes that the blocks have as `new`" },
        { "[instances, rows, t]", "[t]", "blocks have two symbols at least as `new`" },
        { "call @twice", "call @thrice", "there is no `walk @thrice` to call" },
        { "      return\n", "", "function @g does not end with `return`" },
        { "      return\n", "return return\n", "a function ends with `return`, its only one" },
        { "call @twice($4)", "call @twice($4, $4)", "takes 1 values and gives 1, a call has 2" },
        { "call @twice($4)", "call @twice(#2)", "is not inline, a call has it otherwise" },
        { "#10: bool[]) nodes", "#10: i64[]) nodes", "its program has i64[] there" },
        { "branch #10: bool[]", "branch #10: i64[]", "a branch is by one bool" },
        { "below #2: i64[]", "below #2: i32[]", "the iterations of a loop are one i64" },
        { "$0: f32[2], $1: i64[]", "$0: f32[3], $1: i64[]", "%x is f32[2], walk @g has f32[3]" },
        { "$0: f32[2], $1", "$1: f32[2], $0", "are its first slots" },
        { "row: i32[instances]) -> (%o)", "row: i32[2]) -> (%o)", "is no list of rows" },
        { "block 2 ($0: f32[2])", "block 2 ($0: f32[3])", "its program has rows of f32[3] there" },
        /* what would hang, or read what is not there */
        { "jump 40", "jump 10", "goes back, which only the next iteration of a loop may" },
        { "next counter 0 to 10", "next counter 0 to 20", "is no place before it where it turns" },
        { "append to", "begin counter 0 going $6\nappend to", "begun outside" },
        { "begin counter 0 going $6", "list $6", "reads counter 0 before it begins" },
        { "below #2", "below $3", "reads $3, where there is no value" },
        { "going $6", "going #6", "reads $6, where there is no value" },
        { "list $5", "list $12", "reads $5, where there is no list" },
        { "from $7", "from $5", "reads $5, where there is no value" },
        { "append to", "element $7 from $4: f32[2] at #2: i64[]\nappend to",
          "reads $4, where there is no split value" },
        { "-> ($1: f32[2]) nodes", "-> ($1: f32[2] rows) nodes",
          "reads $1, where there is no value" },
        { "$0: f32[2]) -> ($1: f32[2]) nodes", "$0: f32[2]) -> ($1: f32[] rows) nodes",
          "what has no dimensions cannot be split" },
        { "(#10: bool[]) nodes", "(#10: bool[] rows) nodes", "expected" },
        { "list $5", "drop $4\nlist $5", "reads $4, where there is no value" },
        { "move $9 from $4", "move $3 from $4", "reads $9, where there is no value" },
        { "count $7: i64[] counter 0", "count $7: i64[] counter 1", "reads counter 1 before" },
        { "jump 40", "jump 40\nlist $3", "has operations that no way leads to" },
        { "append to $5 from $7", "list $4", "reads $4, where there is no value" },
        { "call @twice($4) -> ($4)", "call @twice($4) -> ($5)", "slot 5 is another thing" },
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        World *w = *state;
        w->ctx.diags.list.n = 0;
        if (parse(w, row[i].from, row[i].to) || !strstr(first_error(w), row[i].error))
            fail_msg("%s: %s", row[i].to, first_error(w));
    }
}

/* What nobody proves. */
static void
test_mistakes_in_runs(void **state)
{
    static const struct {
        const char *from, *to, *error;
    } row[] = {
        { "turns t counter 0\n", "turns t counter 0\nupdate with [t = t + 1]\n",
          "2 iterations of a loop fill a stack of 3 elements" },
        { "turns t counter 0\n", "update with [t = 0 - 1]\n", "a size is -1" },
        { "turns t counter 0\n", "turns t counter 0\nrequire t == 3 \"three turns\"\n",
          "three turns: t is 2 and 3 is 3" },
        { "turns t counter 0\n", "", "t" },
        { "move $9 from $4", "view $9: f32[3] from $4", "2 elements are viewed as 3" },
        { "walk @twice($0: f32[2])", "walk @twice($0: f32[3])", "a value" },
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        World *w = *state;
        Tensor out[2];
        w->ctx.diags.list.n = 0;
        Graph *g = parse(w, row[i].from, row[i].to);
        assert_string_equal(first_error(w), "no error");
        assert_false(run(w, g, 2, out));
        if (!strstr(first_error(w), row[i].error))
            fail_msg("%s: %s", row[i].to, first_error(w));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_runs, world_begin, world_end),
        cmocka_unit_test_setup_teardown(test_mistakes_in_text, world_begin, world_end),
        cmocka_unit_test_setup_teardown(test_mistakes_in_runs, world_begin, world_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
