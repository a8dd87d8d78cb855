/* Rewriting of nests: the interpreter gives the same numbers before and after. */
#include "algebra/algebra.h"
#include "ref/ref.h"

#define WORLD_FIELDS Symbols symbols;
#include "world.h"

static int
setup(void **state)
{
    world_begin(state);
    World *w = *state;
    symbols_set(w->arena, &w->symbols, sym(&w->ctx, "n"), 6);
    symbols_set(w->arena, &w->symbols, sym(&w->ctx, "m"), 4);
    return 0;
}

static const Nest *
parse(World *w, const char *text)
{
    Parse p = parse_begin(&w->ctx, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    const Nest *n = nest_parse(&p);
    if (!n)
        fail_msg("%s: %s", text, w->ctx.diags.list.n ? w->ctx.diags.list.at[0].text : "?");
    return n;
}

static const char *
text_of(World *w, const Nest *n)
{
    Text t = { .arena = w->arena };
    nest_print(&w->ctx, &t, n, 0);
    return text_str(&t);
}

/* Contents that depend on the parameter's name, so that the same name means the same tensor. */
static Tensor *
filled(World *w, const NestParam *p)
{
    Tensor *t = NEW(w->arena, Tensor);
    assert_true(tensor_of_type(&w->ctx, w->arena, p->type, &w->symbols, t));
    int64_t count = tensor_count(t);
    for (int64_t i = 0; i < count; i++) {
        uint32_t h = (uint32_t)(i * 2654435761u) ^ (uint32_t)(p->name[0] * 40503u);
        if (t->dtype == DT_F32)
            ((float *)t->data)[i] = (float)((int)(h >> 8 & 255) - 128) / 32;
        else if (t->dtype == DT_I64)
            ((int64_t *)t->data)[i] = (int64_t)(h >> 8) % 4;
    }
    return t;
}

static Tensor *
run(World *w, const Nest *n, const char *name, Tensor *with)
{
    Tensor **param = NEW_ARRAY(w->arena, Tensor *, n->nin + n->nout);
    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        param[i] = name && !strcmp(n->param[i].name, name) ? with : filled(w, &n->param[i]);
    if (!ref_nest(&w->ctx, n, &w->symbols, param))
        fail_msg("%s: %s", text_of(w, n), w->ctx.diags.list.at[0].text);
    return param[n->nin];
}

static void
assert_same(World *w, const Tensor *a, const Tensor *b, const char *text)
{
    (void)w;
    assert_int_equal(tensor_count(a), tensor_count(b));
    for (int64_t i = 0; i < tensor_count(a); i++) {
        float x = ((float *)a->data)[i], y = ((float *)b->data)[i], d = x - y;
        if (!(x == y || (d < 1e-4f && d > -1e-4f)))
            fail_msg("element %d is %g, was %g:\n%s", (int)i, y, x, text);
    }
}

/* The consumer's input t is the producer's output t: inline, compare, simplify, compare. */
static const Nest *
check_inline(World *w, const char *producer, const char *consumer)
{
    const Nest *p = parse(w, producer), *c = parse(w, consumer);
    uint32_t slot = 0;
    while (slot < c->nin && strcmp(c->param[slot].name, "t"))
        slot++;
    assert_true(slot < c->nin);

    Tensor *want = run(w, c, "t", run(w, p, NULL, NULL));
    const Nest *both = nest_inline(&w->ctx, c, slot, p);
    assert_non_null(both);
    assert_same(w, want, run(w, both, NULL, NULL), text_of(w, both));
    const Nest *simple = nest_simplify(&w->ctx, both);
    assert_non_null(simple);
    assert_same(w, want, run(w, simple, NULL, NULL), text_of(w, simple));
    return simple;
}

static void
elementwise(void **state)
{
    World *w = *state;
    const Nest *n = check_inline(
        w, "nest p(x: f32[n, m]) -> (t: f32[n, m]) { t[i, j] = x[i, j] * 2 + f32(j) }",
        "nest c(a: f32[m], t: f32[n, m]) -> (o: f32[m, n]) { o[j, i] = a[j] - t[i, j] * t[i, j] }");
    assert_int_equal(n->nin, 2);
    /* the same letters for other axes: numberings must not mix */
    check_inline(
        w, "nest p(x: f32[4, 6]) -> (t: f32[6, 4]) { t[i, j] = x[j, i] + f32(10*i + j) }",
        "nest c(t: f32[6, 4]) -> (o: f32[4, 6]) { o[i, j] = t[j, i] - t[(j + 1) % 6, 3 - i] }");
}

static void
views(void **state)
{
    World *w = *state;
    const Nest *n = check_inline(
        w, "nest p(x: f32[6, 4]) -> (t: f32[3, 8]) { t[i, j] = x[(8*i + j) // 4, (8*i + j) % 4] }",
        "nest c(t: f32[3, 8]) -> (o: f32[24]) { o[i] = t[i // 8, i % 8] + 1 }");
    Accesses a = nest_accesses(&w->ctx, w->arena, n);
    assert_int_equal(nest_mapping(&w->ctx, n, &a.at[0]), MAP_RELAYOUT);
    n = check_inline(w, "nest p(x: f32[n, m]) -> (t: f32[m, n]) { t[j, i] = x[i, j] }",
                     "nest c(t: f32[m, n]) -> (o: f32[n, m]) { o[i, j] = t[j, i] + 1 }");
    a = nest_accesses(&w->ctx, w->arena, n);
    assert_int_equal(nest_mapping(&w->ctx, n, &a.at[0]), MAP_ID);
}

static void
reductions(void **state)
{
    World *w = *state;
    check_inline(
        w,
        "nest p(x: f32[n, m], y: f32[m, n]) -> (t: f32[n, n]) { t[i, j] = sum k: x[i, k] * y[k, j] "
        "}",
        "nest c(t: f32[n, n], b: f32[n]) -> (o: f32[n, n]) { o[i, j] = max(t[i, j] + b[j], 0) }");
    /* recomputed at two places, and under another reduction */
    check_inline(w, "nest p(x: f32[n, m]) -> (t: f32[n]) { t[i] = sum k: x[i, k] }",
                 "nest c(t: f32[n], y: f32[n, n]) -> (o: f32[n]) { o[i] = t[n - 1 - i] * (sum k: "
                 "t[k] * y[k, i]) }");
    check_inline(w,
                 "nest p(x: f32[n, m]) -> (t: f32[n]) { t[i] = f32((argmax k: (x[i, k], k)).1) }",
                 "nest c(t: f32[n]) -> (o: f32[n]) { o[i] = t[i] + 1 }");
}

static void
guards(void **state)
{
    World *w = *state;
    /* the window leaves t, where exp(x) is not 0 and x may not be read */
    check_inline(
        w, "nest p(x: f32[n]) -> (t: f32[n]) { t[i] = exp(x[i]) }",
        "nest c(t: f32[n], f: f32[3]) -> (o: f32[n]) { o[i] = sum r: t[i + r - 1 | 0] * f[r] }");
    check_inline(w, "nest p(x: f32[n, m]) -> (t: f32[n]) { t[i] = sum k: x[i, k] }",
                 "nest c(t: f32[n]) -> (o: f32[n]) { o[i] = max r<3>: t[i + r - 1 | -inf] }");
    /* a guard that the ranges prove goes */
    const Nest *n = check_inline(w, "nest p(x: f32[n]) -> (t: f32[n]) { t[i] = x[i] + 1 }",
                                 "nest c(t: f32[n]) -> (o: f32[n]) { o[i] = t[n - 1 - i | 7] }");
    Accesses a = nest_accesses(&w->ctx, w->arena, n);
    assert_false(a.at[0].conditional);
    /* a transposed read is outside where the read of the transposition was */
    n = check_inline(w, "nest p(x: f32[m, n]) -> (t: f32[n, m]) { t[i, j] = x[j, i] }",
                     "nest c(t: f32[n, m], f: f32[3]) -> (o: f32[n, m]) { o[i, j] = sum r: t[i + r "
                     "- 1, j | 7] * f[r] }");
    assert_null(strchr(text_of(w, n), '?'));
    /* but not where it has other bounds */
    n = check_inline(w, "nest p(x: f32[m, n]) -> (t: f32[n - 1, m]) { t[i, j] = x[j, i] }",
                     "nest c(t: f32[n - 1, m], f: f32[3]) -> (o: f32[n, m]) { o[i, j] = sum r: t[i "
                     "+ r - 1, j | 7] * f[r] }");
    assert_non_null(strchr(text_of(w, n), '?'));
    /* an index that is checked when it runs cannot be evaluated outside */
    const Nest *p =
        parse(w, "nest p(x: f32[n], idx: i64[n]) -> (t: f32[n]) { t[i] = x[at(idx[i], n)] }");
    const Nest *c = parse(w, "nest c(t: f32[n]) -> (o: f32[n]) { o[i] = t[i - 1 | 0] }");
    assert_null(nest_inline(&w->ctx, c, 0, p));
    assert_int_equal(w->ctx.diags.list.n, 0);
}

static void
computed(void **state)
{
    World *w = *state;
    check_inline(
        w, "nest p(x: f32[n, m]) -> (t: f32[n, m]) { t[i, j] = x[i, j] * 3 }",
        "nest c(t: f32[n, m], idx: i64[m]) -> (o: f32[m, m]) { o[i, j] = t[at(idx[i], n), j] }");
    check_inline(
        w, "nest p(y: i64[m]) -> (t: i64[m]) { t[i] = rem(y[i] + 1, 4) }",
        "nest c(x: f32[n, m], t: i64[m]) -> (o: f32[m, m]) { o[i, j] = x[at(t[i], n), j] }");
}

static void
scans_stay(void **state)
{
    World *w = *state;
    const Nest *p =
        parse(w, "nest p(x: f32[n]) -> (t: f32[n]) { t[i] = scan i: t[i - 1 | 0] + x[i] }");
    const Nest *c = parse(w, "nest c(t: f32[n]) -> (o: f32[n]) { o[i] = t[i] * 2 }");
    assert_null(nest_inline(&w->ctx, c, 0, p));
    assert_int_equal(w->ctx.diags.list.n, 0);
}

/* Attention's output projection: k // 2 and k % 2 become two axes, and the product is seen
 * again. */
static void
splitting(void **state)
{
    World *w = *state;
    const Nest *n = check_inline(
        w, "nest p(x: f32[4, 6, 2]) -> (t: f32[6, 8]) { t[i, k] = x[k // 2, i, k % 2] }",
        "nest c(t: f32[6, 8], y: f32[8, 5]) -> (o: f32[6, 5]) { o[i, j] = sum k: t[i, k] * y[k, j] "
        "}");
    Contraction v;
    assert_true(nest_contraction(&w->ctx, n, &v));
    assert_int_equal(__builtin_popcountll(v.sum), 2);
    Accesses a = nest_accesses(&w->ctx, w->arena, n);
    for (uint32_t i = 0; i < a.n; i++)
        for (uint32_t d = 0; d < a.at[i].load->u.load.rank; d++)
            assert_null(strstr(expr_str(&w->ctx, a.at[i].load->u.load.at[d]), "%"));
}

static void
unit_axes_go(void **state)
{
    World *w = *state;
    const Nest *n = parse(w, "nest c(x: f32[n, 1]) -> (o: f32[n]) { o[i] = 2 * sum k: x[i, k] }");
    const Nest *s = nest_simplify(&w->ctx, n);
    assert_int_equal(s->naxis, 1);
    assert_same(w, run(w, n, NULL, NULL), run(w, s, NULL, NULL), text_of(w, s));
}

/* Comparisons that the ranges of the axes decide. */
static void
conditions_are_decided(void **state)
{
    World *w = *state;
    const Nest *n = parse(w, "nest c(x: f32[n], y: f32[m]) -> (o: f32[n]) {"
                             " o[i] = i >= 0 ? (i + n < n ? y[0] : x[i]) : y[i - n | 0] }");
    const Nest *s = nest_simplify(&w->ctx, n);
    assert_same(w, run(w, n, NULL, NULL), run(w, s, NULL, NULL), text_of(w, s));
    assert_int_equal(s->write[0].value->op, S_LOAD);
    n = parse(w, "nest c(x: f32[n], y: f32[n]) -> (o: f32[n]) { o[i] = i < 2 ? x[i] : y[i] }");
    assert_ptr_equal(nest_simplify(&w->ctx, n)->write[0].value, n->write[0].value);
}

static void
parameters(void **state)
{
    World *w = *state;
    const Nest *n = parse(w, "nest c(x: f32[n], y: f32[n], z: f32[n], u: f32[n]) -> (o: f32[n]) { "
                             "o[i] = x[i] - u[i] * z[i] }");
    const uint32_t same[] = { 0, 1, 0, 3 };
    const Nest *merged = nest_merge_params(&w->ctx, n, same);
    assert_int_equal(merged->nin, 3);
    const Nest *want = parse(
        w, "nest c(x: f32[n], y: f32[n], u: f32[n]) -> (o: f32[n]) { o[i] = x[i] - u[i] * x[i] }");
    assert_ptr_equal(merged->write[0].value, want->write[0].value);
    uint32_t of[] = { 5, 6, 7, 8 };
    const Nest *dropped = nest_drop_unused(&w->ctx, merged, of);
    assert_true(of[0] == 5 && of[1] == 7 && of[2] == 8);
    assert_int_equal(dropped->nin, 2);
    Binding b = { { VAR_SYMBOL, (uint64_t)(uintptr_t)sym(&w->ctx, "n") }, expr_int(&w->ctx, 9) };
    const Nest *bound = nest_bind(&w->ctx, dropped, &b, 1);
    assert_true(expr_is(bound->axis[0].extent, 9) && expr_is(bound->param[0].type->dim[0], 9));
}

/* Parallel axes split by digits and phases: the same numbers, written at digits; and read back by a
 * nest into which the product vanishes. */
static void
splitting_parallel(void **state)
{
    static const char *const text[] = {
        "nest t(x: f32[n, 12, 5, 6], w: f32[18, 4, 3, 3]) -> (o: f32[n, 18, 5, 6]) {"
        " o[i, j, k, l] = sum q, r, s: x[i, 4*(j // 6) + q, k + r - 1, l + s - 1 | 0] * w[j, q, r, "
        "s] }",
        "nest t(x: f32[n, 12, 5, 6], w: f32[12, 8, 2, 2]) -> (o: f32[n, 8, 10, 12]) {"
        " o[i, j, k, l] = sum q: x[i, q, k // 2, l // 2] * w[q, j, k % 2, l % 2] }",
        "nest t(x: f32[n, 12, 5], w: f32[12, 8, 4]) -> (o: f32[n, 8, 10]) {"
        " o[i, j, k] = sum q, r<2>: x[i, q, (k + 1) // 2 - r | 0] * w[q, j, 2*r + (k + 1) % 2] }",
        "nest t(x: f32[n, 12, 5], w: f32[12, 8, 6]) -> (o: f32[n, 8, 15]) {"
        " o[i, j, k] = sum q, r<2>: x[i, q, (k + 1) // 3 - r | 0] * w[q, j, 3*r + (k + 1) % 3] }",
        "nest t(x: f32[n, 12, m], w: f32[12, 8, 4]) -> (o: f32[n, 8, 2*m]) {"
        " o[i, j, k] = sum q, r<2>: x[i, q, (k + 1) // 2 - r | 0] * w[q, j, 2*r + (k + 1) % 2] }",
    };
    World *w = *state;

    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        const Nest *n = parse(w, text[i]), *s = nest_simplify(&w->ctx, n);
        assert_non_null(s);
        if (s->naxis == n->naxis)
            fail_msg("nothing was split:\n%s", text_of(w, s));
        assert_same(w, run(w, n, NULL, NULL), run(w, s, NULL, NULL), text[i]);
        const Nest *again = parse(w, text_of(w, s));
        assert_string_equal(text_of(w, again), text_of(w, s));
        /* A dimension for every axis: the same elements in the same order. */
        const Nest *bare = nest_dim_per_axis(&w->ctx, s);
        assert_true(bare->param[bare->nin].type->rank > s->param[s->nin].type->rank);
        assert_same(w, run(w, s, NULL, NULL), run(w, bare, NULL, NULL), text[i]);
    }
    const Nest *product = nest_simplify(&w->ctx, parse(w, text[0]));
    const Nest *reader = parse(w, "nest r(y: f32[n, 18, 5, 6]) -> (o: f32[n, 18, 6, 5]) { o[i, j, "
                                  "l, k] = max(y[i, j, k, l], 0) }");
    const Nest *both = nest_inline(&w->ctx, reader, 0, product);
    assert_non_null(both);
    Tensor *y = run(w, product, NULL, NULL);
    assert_same(w, run(w, reader, "y", y), run(w, both, NULL, NULL), "inlined");
    assert_true(nest_simplify(&w->ctx, both)->naxis > both->naxis);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, world_end)
    const struct CMUnitTest tests[] = {
        TEST(elementwise),  TEST(views),
        TEST(reductions),   TEST(guards),
        TEST(computed),     TEST(scans_stay),
        TEST(splitting),    TEST(splitting_parallel),
        TEST(unit_axes_go), TEST(conditions_are_decided),
        TEST(parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
