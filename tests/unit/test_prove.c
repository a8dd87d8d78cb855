/* What is said of trees that stay in their memory and write each element once, and of those that do
 * not. */
#include "text/text.h"
#include "world.h"

#include "support/support.h"

/* why: a part of what is said; NULL: it is proved */
typedef struct {
    const char *name, *text, *why;
    int64_t n;
} Case;

#define ROWS(body)                                                                                 \
    "kernel k(x: f32[n, 10]) -> (o: f32[n, 10]) { trips n grain 1 parallel i < n { " body " } }"

#define WITHIN(body)                                                                               \
    "kernel k(x: f32[n, 10] in f32[n, 13]) -> (o: f32[n, 10] in f32[n, 12]) { trips n grain 1 "    \
    "parallel i < n { " body " } }"

static const Case cases[] = {
    { "rows", ROWS("serial j < 10 { o[i, j] = x[i, j] }"), NULL, 3 },
    { "no_rows", ROWS("serial j < 10 { o[i, j] = x[i, j] }"), NULL, 0 },
    { "vectors_and_rest",
      ROWS("store8 o[i, 0] = load8 x[i, 0] store8 o[i, 8 if < 2] = load8 x[i, 8 if < 2]"), NULL,
      5 },
    { "rows_from_the_end", ROWS("let r = n - 1 - i serial j < 10 { o[r, j] = x[r, j] }"), NULL, 4 },
    { "read_beyond", ROWS("serial j < 10 { o[i, j] = x[i, j + 1] }"),
      "reading x at element 30 of 30", 3 },
    { "read_before", ROWS("serial j < 10 { o[i, j] = x[i - 1, j] }"),
      "reading x at element -10 of 30", 3 },
    { "read_lanes_beyond",
      ROWS("store8 o[i, 0] = load8 x[i, 0] store8 o[i, 8 if < 2] = load8 x[i, 8]"),
      "reading x at element 30 of 30", 3 },
    { "write_lanes_beyond",
      ROWS("serial j < 16 step 8 { store8 o[i, j] = load8 x[i, j if < 10 - j] }"),
      "written by trips", 3 },
    { "write_beyond", "kernel k(x: f32[8]) -> (o: f32[8]) { serial i < 9 { o[i] = x[min(i, 7)] } }",
      "writing o at element 8 of 8", 0 },
    { "too_little", ROWS("serial j < 9 { o[i, j] = x[i, j] }"), "element 9 of o is never written",
      3 },
    { "a_trip_too_few",
      "kernel k(x: f32[n]) -> (o: f32[n]) { trips n // 4 grain 1 parallel i < n // 4 { store4 "
      "o[4*i] = load4 x[4*i] } }",
      "element 8 of o is never written", 9 },
    { "twice", ROWS("serial j < 10 { o[i, j] = x[i, j] } o[i, 3] = 0"),
      "element 3 of o is written by trips 1 and 1", 3 },
    { "by_two_trips",
      "kernel k(x: f32[n]) -> (o: f32[n]) { trips n grain 1 parallel i < n { o[i // 2] = x[i] } }",
      "is written by trips 1 and 2", 4 },
    { "guard", ROWS("serial j < 10 { o[i, j] = index(i) + 1 < index(n) ? x[i + 1, j] : 0 }"), NULL,
      3 },
    { "guard_too_wide", ROWS("serial j < 10 { o[i, j] = index(i) < index(n) ? x[i + 1, j] : 0 }"),
      "reading x at element 30 of 30", 3 },
    { "test", ROWS("serial j < 12 { if index(j) < 10 { o[i, j] = x[i, j] } }"), NULL, 3 },
    { "test_too_wide", ROWS("serial j < 12 { if index(j) < 11 { o[i, j] = 0 } }"),
      "written by trips", 3 },
    { "test_of_data",
      ROWS("if x[i, 0] < 1 { serial j < 10 { o[i, j] = 0 } } else { serial j < 10 { o[i, j] = x[i, "
           "j] } }"),
      NULL, 3 },
    { "tests_of_data",
      ROWS("if x[i, 0] < 1 { if x[i, 1] < 1 { store8 o[i, 0] = splat8(0) } else { store8 o[i, 0] = "
           "splat8(1) } } else { store8 o[i, 0] = splat8(2) } "
           "o[i, 8] = x[i, 1] o[i, 9] = x[i, 1]"),
      NULL, 3 },
    { "test_of_data_and_again",
      ROWS("if x[i, 0] < 1 { o[i, 0] = 0 } else { o[i, 0] = 1 } serial j < 10 { o[i, j] = x[i, j] "
           "}"),
      "element 0 of o is written by trips 1 and 1", 3 },
    { "twice_where_it_fails",
      ROWS("if x[i, 0] < 1 { o[i, 0] = 0 } else { o[i, 0] = 1 o[i, 0] = 2 }"),
      "element 0 of o is written by trips 1 and 1", 3 },
    { "where_it_holds", ROWS("serial j < 9 { o[i, j] = 0 } if x[i, 0] < 1 { o[i, 9] = 0 }"),
      "element 9 of o is written where a test of data holds, and not", 3 },
    { "where_it_fails",
      ROWS("serial j < 9 { o[i, j] = 0 } if x[i, 0] < 1 { } else { o[i, 9] = 0 }"),
      "1 elements are written where a test of data fails, and 0", 3 },
    { "checked_by_the_run",
      "kernel k(x: f32[n], p: i64[n]) -> (o: f32[n]) { serial i < n { o[i] = x[at(p[i], n)] } }",
      NULL, 5 },
    { "checked_too_wide",
      "kernel k(x: f32[n], p: i64[n]) -> (o: f32[n]) { serial i < n { o[i] = x[at(p[i], n + 1)] } "
      "}",
      "reading x at element 5 of 5", 5 },
    { "within_another", WITHIN("serial j < 10 { o[i, j] = x[i, j] }"), NULL, 3 },
    { "beyond_its_columns", WITHIN("serial j < 10 { o[i, j] = x[i, j] } o[i, 10] = 0"),
      "writing o at element 10 of 34", 3 },
    { "lanes_beyond_its_columns",
      WITHIN("store8 o[i, 0] = load8 x[i, 0] store8 o[i, 8 if < 3] = load8 x[i, 2]"),
      "writing o at element 10 of 34", 3 },
    { "too_few_columns", WITHIN("serial j < 9 { o[i, j] = x[i, j] }"),
      "element 9 of o is never written", 3 },
    { "read_beyond_the_last_row", WITHIN("serial j < 10 { o[i, j] = x[i, j + 1] }"),
      "reading x at element 36 of 36", 3 },
    { "scratch_too_small",
      "kernel k(x: f32[n]) -> (o: f32[n]) { trips 1 grain 1 scratch s: f32[4] serial i < n { s[i] "
      "= x[i] } serial i < n { o[i] = s[i] } }",
      "writing s at element 4 of 4", 5 },
};

static void
trees(void **state)
{
    World *w = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Case *t = &cases[i];
        Parse p =
            parse_begin(&w->ctx, t->name, (Bytes){ (const uint8_t *)t->text, strlen(t->text) });
        Kernel *k = kernel_parse(&p, w->arena);
        if (!k || !kernel_verify(&w->ctx, k))
            fail_msg("%s: %s", t->name, world_messages(w));
        KernelSize n = { sym(&w->ctx, "n"), t->n };
        const char *why = kernel_prove(&w->ctx, w->arena, k, &n, 1);
        if (t->why ? !why || !strstr(why, t->why) : why != NULL)
            fail_msg("%s: said `%s`, expected `%s`", t->name, why ? why : "nothing",
                     t->why ? t->why : "nothing");
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(trees, world_begin,
                                                                        world_end) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
