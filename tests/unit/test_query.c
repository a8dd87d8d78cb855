/* Queries of nests: where reads stand, contraction views, regions, costs. */
#include "kernel/kernel.h"

#include "world.h"

static const Nest *
parse(World *w, const char *text)
{
    Parse p = parse_begin(&w->ctx, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    const Nest *n = nest_parse(&p);
    if (!n)
        fail_msg("%s: %s", text, w->ctx.diags.list.n ? w->ctx.diags.list.at[0].text : "?");
    return n;
}

static AxisSet
axes(const Nest *n, const char *names)
{
    AxisSet set = 0;
    for (const char *s = names; *s; s++)
        for (uint32_t k = 0; k < n->naxis; k++)
            if (n->axis[k].name[0] == *s && !n->axis[k].name[1])
                set |= (AxisSet)1 << k;
    return set;
}

/* "row col batch sum", by one-letter axis names. */
static void
assert_contraction(World *w, const char *text, const char *row, const char *col, const char *batch,
                   const char *sum)
{
    const Nest *n = parse(w, text);
    Contraction v;
    if (!nest_contraction(&w->ctx, n, &v))
        fail_msg("no contraction: %s", text);
    assert_int_equal(v.row, axes(n, row));
    assert_int_equal(v.col, axes(n, col));
    assert_int_equal(v.batch, axes(n, batch));
    assert_int_equal(v.sum, axes(n, sum));
    assert_true((v.a->axes & v.col) == 0);
    assert_true((v.b->axes & v.row) == 0);
}

static void
contractions(void **state)
{
    World *w = *state;
    assert_contraction(w,
                       "nest t(x: f32[n, m], y: f32[m, k]) -> (o: f32[n, k]) { o[i, j] = sum q: "
                       "x[i, q] * y[q, j] }",
                       "i", "j", "", "q");
    assert_contraction(w,
                       "nest t(x: f32[b, n, m], y: f32[b, m, k]) -> (o: f32[b, n, k]) {"
                       " o[a, i, j] = sum q: x[a, i, q] * y[a, q, j] }",
                       "i", "j", "a", "q");
    /* a fused epilogue and prologue keep the view */
    assert_contraction(w,
                       "nest t(x: f32[n, m], y: f32[m, k], b: f32[k]) -> (o: f32[n, k]) {"
                       " o[i, j] = max(b[j] + sum q: exp(x[i, q]) * y[q, j], 0) }",
                       "i", "j", "", "q");
    /* convolution: the column side has the innermost axis z */
    assert_contraction(
        w,
        "nest t(x: f32[b, c, h, w], f: f32[m, c, 3, 3]) -> (o: f32[b, m, h, w]) {"
        " o[n, k, y, z] = sum q, r, s: x[n, q, y + r - 1, z + s - 1 | 0] * f[k, q, r, s] }",
        "k", "nyz", "", "qrs");
    /* depthwise: one side has no axis of its own */
    assert_contraction(
        w,
        "nest t(x: f32[b, c, h, w], f: f32[c, 3, 3]) -> (o: f32[b, c, h, w]) {"
        " o[n, k, y, z] = sum r, s: x[n, k, y + r - 1, z + s - 1 | 0] * f[k, r, s] }",
        "", "nyz", "k", "rs");
    assert_contraction(
        w, "nest t(x: f32[n, m], y: f32[m]) -> (o: f32[n]) { o[i] = sum q: x[i, q] * y[q] }", "",
        "i", "", "q");
    /* a scale inside a chain of products goes to a side it does not widen */
    assert_contraction(w,
                       "nest t(x: f32[n, m], s: f32[m], y: f32[m, k]) -> (o: f32[n, k]) {"
                       " o[i, j] = sum q: x[i, q] * y[q, j] * s[q] }",
                       "i", "j", "", "q");
    assert_contraction(w,
                       "nest t(x: i8[n, m], y: i8[m, k]) -> (o: i32[n, k]) {"
                       " o[i, j] = sum q: i32(x[i, q]) * i32(y[q, j]) }",
                       "i", "j", "", "q");
}

static void
no_contractions(void **state)
{
    World *w = *state;
    static const char *const text[] = {
        "nest t(x: f32[n, m]) -> (o: f32[n]) { o[i] = sum q: x[i, q] }",
        "nest t(x: f32[n, m]) -> (o: f32[n]) { o[i] = sum q: x[i, q] * x[i, q] }",
        "nest t(x: f32[m], y: f32[m]) -> (o: f32[]) { o[] = sum q: x[q] * y[q] }",
        "nest t(x: f32[n, m], y: f32[m, k]) -> (o: f32[n, k]) { o[i, j] = max q: x[i, q] * y[q, j] "
        "}",
        "nest t(x: f32[n, m], y: f32[m, k]) -> (o: f32[n, k]) { o[i, j] = sum q: x[i, q] + y[q, j] "
        "}",
        "nest t(x: f32[n, m], y: f32[n, m]) -> (o: f32[n, m]) { o[i, j] = x[i, j] * y[i, j] }",
        /* two reductions: the second would be lost */
        "nest t(x: f32[n, m], y: f32[m, k]) -> (o: f32[n, k]) {"
        " o[i, j] = (sum q: x[i, q] * y[q, j]) / (sum r: x[i, r]) }",
        /* an axis of the output that neither factor uses */
        "nest t(x: f32[n, m], y: f32[m, k], z: f32[l]) -> (o: f32[n, k, l]) {"
        " o[i, j, p] = z[p] + sum q: x[i, q] * y[q, j] }",
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        Contraction v;
        if (nest_contraction(&w->ctx, parse(w, text[i]), &v))
            fail_msg("a contraction: %s", text[i]);
    }
}

static void
where_reads_stand(void **state)
{
    World *w = *state;
    const Nest *n = parse(w, "nest t(x: f32[n, m], idx: i64[n], y: f32[n]) -> (o: f32[n]) {"
                             " o[i] = i < 2 ? y[at(idx[i], n)] : sum k: x[i, k] }");
    Accesses a = nest_accesses(&w->ctx, w->arena, n);
    bool seen[3] = { false };
    assert_int_equal(a.n, 3);
    for (uint32_t i = 0; i < a.n; i++) {
        uint32_t slot = a.at[i].load->u.load.slot;
        seen[slot] = true;
        assert_true(a.at[i].conditional);
        assert_int_equal(a.at[i].reduce, slot == 0 ? axes(n, "k") : 0);
        assert_true(i == 0 || a.at[i].load->id > a.at[i - 1].load->id);
    }
    assert_true(seen[0] && seen[1] && seen[2]);
    assert_int_equal(n->write[0].value->axes, axes(n, "i"));
}

static void
regions(void **state)
{
    World *w = *state;
    Ctx *c = &w->ctx;
    const Nest *n = parse(w, "nest t(x: f32[h, 40]) -> (o: f32[h, 10]) {"
                             " o[y, z] = max r<3>, s<5>: x[2*y - r + 1, 4*(z // 2) + s | 0] }");
    Accesses a = nest_accesses(c, w->arena, n);
    const Expr *lo[4], *width[4], *from[2], *size[2];
    for (uint32_t k = 0; k < 4; k++) {
        bool reduce = n->axis[k].kind == AXIS_REDUCE;
        lo[k] = reduce ? expr_int(c, 0) : expr_symbol(c, n->axis[k].name);
        width[k] = reduce ? n->axis[k].extent : expr_int(c, 4);
    }
    access_region(c, &a.at[0], n->naxis, lo, width, from, size);
    const Expr *y = expr_symbol(c, "y"), *z = expr_symbol(c, "z");
    assert_ptr_equal(from[0], expr_offset(c, expr_scale(c, y, 2), -1));
    assert_ptr_equal(size[0], expr_int(c, 2 * 3 + 2 + 1));
    assert_ptr_equal(from[1], expr_scale(c, expr_div(c, z, expr_int(c, 2)), 4));
    Interval i = expr_bounds(c, NULL, size[1]);
    assert_true(i.hi >= 4 * 2 + 5 || i.hi == INT64_MAX);
}

static void
costs(void **state)
{
    World *w = *state;
    Ctx *c = &w->ctx;
    const Nest *n = parse(w, "nest t(x: f32[8, 16], y: f32[16, 4], b: f32[4]) -> (o: f32[8, 4]) {"
                             " o[i, j] = exp(b[j] + sum q: x[i, q] * y[q, j]) }");
    NestCost k = nest_cost(c, n);
    assert_true(expr_is(k.points, 32) && expr_is(k.mul, 512) && expr_is(k.add, 512 + 32));
    assert_true(expr_is(k.special, 32) && expr_is(k.div, 0));
    assert_true(expr_is(k.bytes_read, 4 * (128 + 64 + 4)) && expr_is(k.bytes_written, 4 * 32));
}

/* ---- the work of kernels ---- */

static void
assert_work(World *w, const char *text, const char *dtype, const char *operations,
            const char *bytes)
{
    const Nest *n = parse(w, text);
    Kernel k = { .nin = n->nin, .nout = n->nout, .npart = 1 };
    uint32_t buffer[8];
    Part part = { n, buffer };
    k.part = &part;
    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        buffer[i] = kernel_buffer(&w->ctx, w->arena, &k, n->param[i].name, n->param[i].type,
                                  i < n->nin ? SPACE_IN : SPACE_OUT, 1);
    KernelWork work = kernel_work(&w->ctx, &k);
    assert_string_equal(dtype_info[work.dtype].name, dtype);
    assert_string_equal(expr_str(&w->ctx, work.operations), operations);
    assert_string_equal(expr_str(&w->ctx, work.bytes), bytes);
}

static void
work_of_kernels(void **state)
{
    World *w = *state;
    assert_work(w,
                "nest t(x: f32[5, 7], y: f32[7, 3]) -> (o: f32[5, 3]) { o[i, j] = sum q: x[i, q] * "
                "y[q, j] }",
                "f32", "210", "284");
    assert_work(
        w, "nest t(x: f32[n, 8], b: f32[8]) -> (o: f32[n, 8]) { o[i, j] = exp(x[i, j]) + b[j] }",
        "f32", "16*n", "64*n + 32");
    /* a value that is used for many outputs is computed once: 35 exp, 105 products, 105 sums */
    assert_work(w,
                "nest t(x: f32[5, 7], y: f32[7, 3]) -> (o: f32[5, 3]) { o[i, j] = sum q: exp(x[i, "
                "q]) * y[q, j] }",
                "f32", "245", "284");
    /* of a table no more is read than there are points */
    assert_work(w, "nest t(x: f32[1000, 4], k: i64[2]) -> (o: f32[2, 4]) { o[i, j] = x[k[i], j] }",
                "f32", "0", "80");
    /* what nobody reads does not count */
    assert_work(w, "nest t(x: f64[6]) -> (o: f64[6]) { o[i] = 1 }", "f64", "0", "48");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(contractions, world_begin, world_end),
        cmocka_unit_test_setup_teardown(no_contractions, world_begin, world_end),
        cmocka_unit_test_setup_teardown(where_reads_stand, world_begin, world_end),
        cmocka_unit_test_setup_teardown(regions, world_begin, world_end),
        cmocka_unit_test_setup_teardown(costs, world_begin, world_end),
        cmocka_unit_test_setup_teardown(work_of_kernels, world_begin, world_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
