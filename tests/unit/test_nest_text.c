/* The text of nests: what it keeps, what it refuses, and that hostile text meets limits. */
#include "kernel/kernel.h"

#include "world.h"

static const Nest *
parse(Ctx *c, const char *text)
{
    Parse p = parse_begin(c, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    return nest_parse(&p);
}

static const char *
print(Ctx *c, const Nest *n)
{
    Text t = { .arena = c->arena };
    nest_print(c, &t, n, 0);
    return text_str(&t);
}

static void
refused(Ctx *c, const char *text, const char *because)
{
    uint32_t before = c->diags.list.n;
    assert_null(parse(c, text));
    assert_int_equal(c->diags.list.n, before + 1);
    if (!strstr(c->diags.list.at[before].text, because))
        fail_msg("\"%s\" does not say \"%s\"", c->diags.list.at[before].text, because);
}

static void
axes_may_be_numbered_in_any_order(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
    const Expr *n = expr_symbol(c, "n"), *m = expr_symbol(c, "m");
    const Expr *dim[2] = { n, m };
    NestBuilder b = nest_begin(c, "sums");
    uint32_t x = nest_in(&b, "x", type_new(c, DT_F32, 2, dim));
    uint32_t o = nest_out(&b, "o", type_new(c, DT_F32, 1, dim));
    const Expr *k = nest_axis(&b, "i", AXIS_REDUCE, m), *i = nest_axis(&b, "i", AXIS_PARALLEL, n),
               *at[2] = { i, k };
    const Scalar *load = nest_load(&b, x, at);
    nest_write(&b, o, &i, scalar_reduce(c, COMB_SUM, axis_bit(k), &load, 1));
    const Nest *built = nest_finish(&b);
    assert_non_null(built);
    const Nest *again = parse(c, print(c, built));
    assert_non_null(again);
    assert_ptr_equal(built->write[0].value, again->write[0].value);
    assert_string_equal(print(c, built), print(c, again));
}

/* exp(… t + t …) doubled 40 times: the tree has 2^40 leaves, the text 40 lines. */
static void
text_is_as_long_as_the_dag(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
    const Expr *n = expr_symbol(c, "n");
    NestBuilder b = nest_begin(c, "deep");
    const Type *t = type_new(c, DT_F32, 1, &n);
    uint32_t x = nest_in(&b, "x", t), o = nest_out(&b, "o", t);
    const Expr *i = nest_axis(&b, "i", AXIS_PARALLEL, n);
    const Scalar *s = nest_load(&b, x, &i);
    for (int k = 0; k < 40; k++)
        s = scalar_1(c, S_EXP, scalar_2(c, S_ADD, s, s));
    /* and deep: lets keep the nesting of the text small */
    for (int k = 0; k < 400; k++)
        s = scalar_1(c, S_TANH, s);
    nest_write(&b, o, &i, s);
    const Nest *built = nest_finish(&b);
    const char *text = print(c, built);
    assert_true(strlen(text) < 20000);
    const Nest *again = parse(c, text);
    assert_non_null(again);
    assert_ptr_equal(again->write[0].value, s);
}

/* A value that is used twice becomes a let where the axes of the extents inside are bound, although
 * it uses none of them otherwise. */
static void
lets_know_the_extents_inside(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
    const Nest *n = parse(c, "nest a(x: f32[n]) -> (o: f32[]) {\n"
                             "  o[] = sum i<n>: let t = exp(sum k<i>: x[2*k | 0]) in t * tanh(t)\n"
                             "}");
    assert_non_null(n);
    assert_true(expr_uses_kind(n->axis[1].extent, VAR_AXIS));
    const char *text = print(c, n);
    assert_non_null(strstr(text, "sum i<n>: let "));
    const Nest *again = parse(c, text);
    assert_non_null(again);
    assert_ptr_equal(again->write[0].value, n->write[0].value);
    assert_string_equal(print(c, again), text);
}

static void
mistakes_are_told(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
    refused(c, "nest a(x: f32[n]) -> (o: f32[n]) { o[i] = x[i }", "expected `]`, found `}`");
    refused(c, "nest a(x: f32[n]) -> (o: f32[n]) { o[i] = x[i, i] }", "rank 1");
    refused(c, "nest a(x: f33[n]) -> (o: f32[n]) { o[i] = x[i] }", "element type");
    refused(c, "nest a(x: f32[n]) -> (o: i32[n]) { o[i] = x[i] }", "convert it with i32");
    refused(c, "nest a(x: f32[n]) -> (o: f32[n], p: f32[n]) { o[i] = x[i] }", "never written");
    refused(c, "nest a(x: f32[n]) -> (o: f32[n, n]) { o[i, i] = x[i] }", "twice");
    refused(c, "nest a(x: f32[n]) -> (o: f32[5]) { o[i<3>] = x[i] }", "extent 3");
    refused(c, "nest a(x: f32[n]) -> (o: f32[n]) { o[i] = (sum k: x[k]) + x[k] }",
            "outside the reduction");
    refused(c, "nest a(x: f32[n]) -> (o: f32[n]) { o[i] = sum k: (sum k: x[k]) }", "already bound");
    refused(c, "nest a(x: f32[n]) -> (o: f32[n]) { o[i] = o[i] }", "scan");
    refused(c, "nest a(x: f32[n]) -> (o: f32[n]) { o[i] = x[9223372036854775807 * 3 * i] }",
            "overflow");
    refused(c, "nest a(x: f32[n]) -> (o: f32[n]) { o[i] = x[x[i]] }", "integer");
    refused(c, "nest a(x: f32[n], x: f32[n]) -> (o: f32[n]) { o[i] = x[i] }", "already the name");
    refused(c, "nest a(x: f32[n]) -> (o: f32[n]) { o[i] = argmax k: (x[k], k) }", "tuple");
    refused(c, "nest a(x: f32[n, n]) -> (o: i64[]) { o[] = (argmax i, j<i + 1>: (x[i, j], j)).1 }",
            "the points of argmax are all of an axis");
    refused(c, "nest a(x: f32[n]) -> (o: f32[]) { o[] = sum k<-1>: x[k] }", "axis k has -1 points");
    refused(c, "nest a(x: f32[n], r: i64[n]) -> (o: f32[n]) { for i<r[0]>: o[i] = x[i] }",
            "needs an extent over symbols");
    refused(c, "nest a(x: bool[n]) -> (o: f32[n]) { o[i] = x[i] ? 2.5 : i }", "2.5");
    refused(c, "", "end of the text");
}

static void
hostile_text_meets_limits(void **state)
{
    World *w = *state;
    Ctx *c = &w->ctx;
    static const char *const piece[] = { "(",    "-",          "f32(",    "x[at(", "true ? x[i] : ",
                                         "x[((", "sum k<2>: ", "let t = " };
    for (size_t k = 0; k < sizeof piece / sizeof *piece; k++) {
        Text t = { .arena = w->arena };
        text_add(&t, "nest a(x: f32[n]) -> (o: f32[n]) { o[i] = ");
        for (int i = 0; i < 20000; i++)
            text_add(&t, piece[k]);
        assert_null(parse(c, text_str(&t)));
    }
    Text t = { .arena = w->arena };
    text_add(&t, "nest a(x: f32[n]) -> (o: f32[n]) { o[i] = let t0 = exp(x[i]) in\n");
    for (int i = 1; i < 10000; i++)
        text_printf(&t, "let t%d = exp(t%d) in\n", i, i - 1);
    text_add(&t, "t9999 }");
    refused(c, text_str(&t), "a value's operations are more than 1000 deep");
}

/* Every front of a text is either refused or complete; none crashes. */
static void
cut_texts_are_refused(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
    const char *text =
        "nest s[q](x: f32[n, 3], r: i64[n]) -> (v: f32[n], a: i64[n]) { for i<n>, k<2>:\n"
        "  (v, a)[i] = argmax j<3>: let t = x[at(r[i], n), j | -1.5e3] in (t ? 0 : t, j // 2) over "
        "x }";
    for (size_t n = 0; n <= strlen(text); n++) {
        Parse p =
            parse_begin(c, "cut", (Bytes){ (const uint8_t *)arena_copy(c->arena, text, n + 1), n });
        assert_null(nest_parse(&p));
    }
}

static void
expressions_of_the_operator_table(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
    const Expr *i = expr_axis(c, 0);
    const Scalar *x = scalar_load(c, DT_F32, 0, 1, &i, NULL),
                 *alpha = scalar_float(c, DT_F32, 0.01);
    const char *const name[] = { "x", "alpha" };
    const Scalar *const operand[] = { x, alpha };
    assert_ptr_equal(scalar_parse(c, "max(x, 0)", 1, name, operand),
                     scalar_2(c, S_MAX, x, scalar_float(c, DT_F32, 0)));
    assert_ptr_equal(scalar_parse(c, "x > 0 ? x : alpha * x", 2, name, operand),
                     scalar_select(c, scalar_2(c, S_GT, x, scalar_float(c, DT_F32, 0)), x,
                                   scalar_2(c, S_MUL, alpha, x)));
    const Scalar *e = scalar_1(c, S_EXP, scalar_1(c, S_NEG, x)), *one = scalar_float(c, DT_F32, 1);
    assert_ptr_equal(scalar_parse(c, "1 / (1 + exp(-x))", 1, name, operand),
                     scalar_2(c, S_DIV, one, scalar_2(c, S_ADD, one, e)));
    assert_null(scalar_parse(c, "max(x, 0", 1, name, operand));
    assert_null(scalar_parse(c, "x + y", 1, name, operand));
    assert_null(scalar_parse(c, "x x", 1, name, operand));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_begin, world_end)
        T(axes_may_be_numbered_in_any_order), T(text_is_as_long_as_the_dag),
        T(lets_know_the_extents_inside),      T(mistakes_are_told),
        T(hostile_text_meets_limits),         T(cut_texts_are_refused),
        T(expressions_of_the_operator_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
