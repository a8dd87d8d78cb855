/* Kernels of several products: with the rows between them, with a window behind, side by side;
 * joined where that takes less by any price. */
#include "fuse_case.h"

static double
one_each(void *user, const Kernel *const *k, const void *const *const *data, uint32_t n)
{
    (void)user, (void)k, (void)data;
    return n;
}

static double
squares_of_parts(void *user, const Kernel *const *k, const void *const *const *data, uint32_t n)
{
    double sum = 0;

    (void)user, (void)data;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)(k[i]->npart * k[i]->npart);
    return sum;
}

static double
not_known(void *user, const Kernel *const *k, const void *const *const *data, uint32_t n)
{
    (void)user, (void)data;
    return n == 1 && k[0]->npart > 1 ? 1 : -1;
}

/* The more parts of one kernel, the less. */
static double
less_of_parts(void *user, const Kernel *const *k, const void *const *const *data, uint32_t n)
{
    (void)user, (void)data;
    return n > 1 ? n : 1.0 / k[0]->npart;
}

/* A kernel of so many products: of one with rows 12, of two 22, of three 35, of anything by itself
 * 10. */
static double
of_products(void *user, const Kernel *const *k, const void *const *const *data, uint32_t n)
{
    static const double price[] = { 10, 12, 22, 35 };
    double sum = 0;

    (void)user, (void)data;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t products = 0;
        for (uint32_t p = 0; p < k[i]->npart; p++)
            products +=
                nest_axes_of_kind(k[i]->part[p].nest, AXIS_REDUCE) && k[i]->part[p].nest->nin > 1;
        sum += k[i]->npart == 1 ? 10 : price[products];
    }
    return sum;
}

typedef double Price(void *user, const Kernel *const *k, const void *const *const *data,
                     uint32_t n);

static FusePlan
joined(World *w, Price *price)
{
    FusePlan separate = cheapest_plan(w);
    FuseMerging told;
    return fuse_merge(w->g, w->arena, &separate, NULL, &(FusePrice){ .of = price }, &told);
}

static FusePlan
joined_told(World *w, Price *price, FuseMerging *told)
{
    FusePlan separate = cheapest_plan(w),
             p = fuse_merge(w->g, w->arena, &separate, NULL, &(FusePrice){ .of = price }, told);
    const char *no = fuse_illegal(w->g, &p);
    if (no)
        fail_msg("%s", no);
    return p;
}

static void
attention_in_one_kernel(void **state)
{
    World *w = *state;
    static const char *const softmax[] = { SOFTMAX };
    NodeId node[6];
    node[0] = add(w, "nest scores(q: f32[n, 3, 4], k: f32[n, 7, 4]) -> (x: f32[n, 3, 7]) {"
                     " x[i, h, j] = sum d: q[i, h, d] * k[i, j, d] }");
    for (int i = 0; i < 4; i++)
        node[1 + i] = add(w, softmax[i]);
    node[5] = add(w, "nest values(p: f32[n, 3, 7], v: f32[n, 7, 4]) -> (o: f32[n, 3, 4]) {"
                     " o[i, h, d] = sum j: p[i, h, j] * v[i, j, d] }");
    output(w, "o");
    FusePlan p = fuse_none(w->g, w->arena);
    p.ngroup = 1;
    for (int i = 0; i < 6; i++) {
        p.group[node[i]] = 1;
        fuse_set(w->g, &p, node[i], 0, (FuseEdge){ EDGE_SCRATCH, 0 });
    }
    assert_null(fuse_illegal(w->g, &p));
    const Graph *g = apply(w, &p);
    assert_int_equal(g->node.n, 2);
    const Kernel *k = kernel_at(g, 1);
    assert_int_equal(k->shared, 2);
    assert_int_equal(k->nin, 3);
    assert_int_equal(k->nout, 1);
    assert_true(k->npart >= 6 && locals(k) == k->npart - 1);

    const Graph *separate = cheapest(w);
    assert_int_equal(separate->node.n, 4); /* product, softmax, product */

    FusePlan joint = joined(w, one_each), own = joined(w, less_of_parts),
             kept = joined(w, squares_of_parts), unknown = joined(w, not_known);
    const Graph *one = apply(w, &joint);
    assert_int_equal(one->node.n, 2);
    /* the division is done by the second product, after its sums */
    assert_int_equal(kernel_at(one, 1)->npart, 5);
    /* … or is a part, where that takes less */
    assert_int_equal(kernel_at(apply(w, &own), 1)->npart, 6);
    assert_int_equal(apply(w, &kept)->node.n, 4);
    assert_int_equal(apply(w, &unknown)->node.n, 4);

    /* a kernel less may save more than the price says is lost */
    FusePlan rows = cheapest_plan(w);
    FuseMerging told;
    FusePlan saved = fuse_merge(w->g, w->arena, &rows, NULL,
                                &(FusePrice){ .of = squares_of_parts, .kernel = 100 }, &told);
    assert_int_equal(apply(w, &saved)->node.n, 2);
}

/* What somebody outside of the three reads is stored, so the rows are one kernel with the product
 * that they are made of at most. */
static void
seen_rows_are_stored(void **state)
{
    World *w = *state;
    static const char *const softmax[] = { SOFTMAX };
    add(w, "nest scores(q: f32[n, 3, 4], k: f32[n, 7, 4]) -> (x: f32[n, 3, 7]) { x[i, h, j] = sum "
           "d: q[i, h, d] * k[i, j, d] }");
    for (int i = 0; i < 4; i++)
        add(w, softmax[i]);
    add(w, "nest values(p: f32[n, 3, 7], v: f32[n, 7, 4]) -> (o: f32[n, 3, 4]) { o[i, h, d] = sum "
           "j: p[i, h, j] * v[i, j, d] }");
    output(w, "o");
    output(w, "p");
    FusePlan joint = joined(w, one_each), kept = joined(w, squares_of_parts);
    const Graph *g = apply(w, &joint);
    assert_int_equal(g->node.n, 3);
    assert_int_equal(kernel_at(g, 1)->nout, 1);
    assert_int_equal(locals(kernel_at(g, 1)), kernel_at(g, 1)->npart - 1);
    assert_int_equal(apply(w, &kept)->node.n, 4);
}

/* A normalisation of what a product makes, which may be stored as well. */
static void
norm_behind_product(void **state)
{
    World *w = *state;
    add(w, "nest product(q: f32[n, 3, 4], k: f32[4, 7]) -> (x: f32[n, 3, 7]) { x[i, h, j] = sum d: "
           "q[i, h, d] * k[d, j] }");
    add(w,
        "nest mean(x: f32[n, 3, 7]) -> (m: f32[n, 3]) { m[i, h] = 0.125 * (sum j: x[i, h, j]) }");
    add(w, "nest norm(x: f32[n, 3, 7], m: f32[n, 3]) -> (o: f32[n, 3, 7]) { o[i, h, j] = x[i, h, "
           "j] - m[i, h] }");
    output(w, "o");
    FusePlan joint = joined(w, one_each);
    assert_int_equal(apply(w, &joint)->node.n, 2);
    output(w, "x"); /* stored as well */
    FusePlan seen = joined(w, one_each);
    const Graph *g = apply(w, &seen);
    assert_int_equal(g->node.n, 2);
    assert_int_equal(kernel_at(g, 1)->nout, 2);
    assert_int_equal(locals(kernel_at(g, 1)), 1);
}

/* Rows read a product and what comes of it: with the first their kernel would wait for itself, with
 * the second not. */
static void
rows_behind_what_waits_for_them(void **state)
{
    World *w = *state;
    add(w, "nest product(q: f32[n, 3, 4], k: f32[4, 7]) -> (x: f32[n, 3, 7]) { x[i, h, j] = sum d: "
           "q[i, h, d] * k[d, j] }");
    add(w, "nest other(x: f32[n, 3, 7], u: f32[7, 7]) -> (z: f32[n, 3, 7]) { z[i, h, j] = sum d: "
           "x[i, h, d] * u[d, j] }");
    add(w, "nest mean(x: f32[n, 3, 7], z: f32[n, 3, 7]) -> (m: f32[n, 3]) { m[i, h] = sum j: x[i, "
           "h, j] * exp(z[i, h, j]) }");
    output(w, "m");
    FusePlan p = joined(w, one_each);
    assert_null(fuse_illegal(w->g, &p));
    assert_int_equal(p.group[2], p.group[3]);
    assert_int_not_equal(p.group[1], p.group[3]);
}

/* Product, rows, product, rows: both products with their rows gain 8 each, the three from the first
 * 8 together, which then are none. */
static void
two_small_before_a_large_one(void **state)
{
    World *w = *state;
    NodeId node[4];
    FuseMerging told;
    node[0] = add(w, "nest product(q: f32[n, 3, 4], k: f32[4, 7]) -> (x: f32[n, 3, 7]) { x[i, h, "
                     "j] = sum d: q[i, h, d] * k[d, j] }");
    add(w, "nest mean(x: f32[n, 3, 7]) -> (s: f32[n, 3]) { s[i, h] = sum j: x[i, h, j] }");
    node[1] = add(w, "nest norm(x: f32[n, 3, 7], s: f32[n, 3]) -> (y: f32[n, 3, 7]) { y[i, h, j] = "
                     "x[i, h, j] - s[i, h] }");
    node[2] = add(w, "nest other(y: f32[n, 3, 7], u: f32[7, 7]) -> (z: f32[n, 3, 7]) { z[i, h, j] "
                     "= sum d: y[i, h, d] * u[d, j] }");
    node[3] =
        add(w, "nest most(z: f32[n, 3, 7]) -> (m: f32[n, 3]) { m[i, h] = max e: z[i, h, e] }");
    output(w, "m");
    FusePlan separate = plan_of_text(
                 w, arena_printf(w->arena, "graph %s { group { %%s %%y } }", w->g->name)),
             p = fuse_merge(w->g, w->arena, &separate, NULL, &(FusePrice){ .of = of_products },
                            &told);
    assert_null(fuse_illegal(w->g, &p));
    assert_int_equal(p.group[node[0]], p.group[node[1]]);
    assert_int_equal(p.group[node[2]], p.group[node[3]]);
    assert_int_not_equal(p.group[node[0]], p.group[node[2]]);
    assert_true(told.exact && told.candidates == 3 && told.pay == 3 && told.rivals == 3 &&
                told.taken == 2 && told.seconds == 16 && told.bound == 16);
    for (uint32_t i = 0; i < p.tried.n; i++)
        assert_true(p.tried.at[i].given_up && p.tried.at[i].nrival == 2 &&
                    p.tried.at[i].rivals == 16 &&
                    p.tried.at[i].separate - p.tried.at[i].merged == 8);
    /* from the first to the second, from that to the third */
    assert_int_equal(p.tried.n, 2);
}

/* Both rows read both products: each product may be one with either rows, not both, which would
 * wait for each other. */
static void
rows_that_close_a_circle(void **state)
{
    World *w = *state;
    FuseMerging told;
    add(w, "nest product(q: f32[n, 3, 4], k: f32[4, 7]) -> (x: f32[n, 3, 7]) { x[i, h, j] = sum d: "
           "q[i, h, d] * k[d, j] }");
    add(w, "nest other(r: f32[n, 3, 4], u: f32[4, 7]) -> (z: f32[n, 3, 7]) { z[i, h, j] = sum d: "
           "r[i, h, d] * u[d, j] }");
    add(w, "nest sum(x: f32[n, 3, 7], z: f32[n, 3, 7]) -> (s: f32[n, 3]) { s[i, h] = sum j: x[i, "
           "h, j] + z[i, h, j] }");
    add(w, "nest most(x: f32[n, 3, 7], z: f32[n, 3, 7]) -> (m: f32[n, 3]) { m[i, h] = max j: x[i, "
           "h, j] - z[i, h, j] }");
    output(w, "s");
    output(w, "m");
    FusePlan p = joined_told(w, one_each, &told);
    assert_int_equal(p.ngroup, 3);
    assert_true(!told.exact && told.cycles > 0 && told.pay == 4 && told.rivals == 4 &&
                told.taken == 1 && told.seconds == 1);
}

/* Three products of one value are a kernel where that gains more than one of them with rows of what
 * it makes. */
static void
products_of_one_value_or_rows(void **state)
{
    World *w = *state;
    NodeId node[4];
    FuseMerging told;
    node[0] = add(w, "nest query(x: f32[n, 7, 4], a: f32[4, 6]) -> (q: f32[n, 7, 6]) { q[i, h, j] "
                     "= sum d: x[i, h, d] * a[d, j] }");
    node[1] = add(w, "nest key(x: f32[n, 7, 4], b: f32[4, 6]) -> (k: f32[n, 7, 6]) { k[i, h, j] = "
                     "sum d: x[i, h, d] * b[d, j] }");
    node[2] = add(w, "nest value(x: f32[n, 7, 4], c: f32[4, 6]) -> (v: f32[n, 7, 6]) { v[i, h, j] "
                     "= sum d: x[i, h, d] * c[d, j] }");
    output(w, "q");
    output(w, "k");
    output(w, "v");
    FusePlan p = joined_told(w, squares_of_parts, &told);
    assert_true(p.ngroup == 3 && told.candidates == 1 && told.pay == 0 && told.exact);
    p = joined_told(w, one_each, &told);
    assert_true(p.ngroup == 1 && told.pay == 1 && told.rivals == 0 && told.seconds == 2);
    /* 22 for two, which is no gain, and 35 for three */
    p = joined_told(w, of_products, &told);
    assert_true(p.ngroup == 3);
    node[3] =
        add(w, "nest most(k: f32[n, 7, 6]) -> (m: f32[n, 7]) { m[i, h] = max e: k[i, h, e] }");
    output(w, "m");
    p = joined_told(w, one_each, &told); /* all three gain 2, a product with its rows 1 */
    assert_true(told.exact && told.rivals == 2 && told.seconds == 2);
    p = joined_told(w, less_of_parts, &told); /* all three gain 2 2/3, the rows 1 1/2 */
    assert_int_equal(p.group[node[0]], p.group[node[1]]);
    assert_int_equal(p.group[node[0]], p.group[node[2]]);
    assert_int_equal(p.ngroup, 2);
}

/* More products of one value than one kernel may have: as many as may be at a time. */
static void
many_products_of_one_value(void **state)
{
    World *w = *state;
    FuseMerging told;
    for (char c = 'a'; c < 'a' + 11; c++) {
        char text[200], name[3] = { 'y', c, 0 };
        snprintf(text, sizeof text,
                 "nest n%c(x: f32[n, 7, 4], w%c: f32[4, 6]) -> (y%c: f32[n, 7, 6]) { y%c[i, h, j] "
                 "= sum d: x[i, h, d] * w%c[d, j] }",
                 c, c, c, c, c);
        add(w, text);
        output(w, name);
    }
    FusePlan p = joined_told(w, one_each, &told);
    assert_true(p.ngroup == 2 && told.taken == 2 && told.seconds == 9 && told.exact);
}

/* Products of one value are a kernel, each as it would be by itself: of other widths, with work of
 * their own behind. One that reads what comes of another is not among them. */
static void
products_of_one_value(void **state)
{
    World *w = *state;
    NodeId node[4];
    node[0] = add(w, "nest query(x: f32[n, 7, 4], a: f32[4, 18]) -> (q: f32[n, 7, 18]) { q[i, h, "
                     "j] = 0.5 * (sum d: x[i, h, d] * a[d, j]) }");
    node[1] = add(w, "nest key(x: f32[n, 7, 4], b: f32[4, 6]) -> (k: f32[n, 7, 6]) { k[i, h, j] = "
                     "sum d: x[i, h, d] * b[d, j] }");
    node[2] = add(w, "nest value(x: f32[n, 7, 4], c: f32[4, 6]) -> (v: f32[n, 3, 7, 2]) { v[i, h, "
                     "s, j] = sum d: x[i, s, d] * c[d, 2*h + j] }");
    node[3] = add(w, "nest more(q: f32[n, 7, 18], e: f32[18, 4], x: f32[n, 7, 4]) -> (o: f32[n, 7, "
                     "4]) { o[i, h, j] = (sum d: q[i, h, d] * e[d, j]) + x[i, h, j] }");
    output(w, "q");
    output(w, "k");
    output(w, "v");
    output(w, "o");
    FusePlan joint = joined(w, one_each), kept = joined(w, squares_of_parts);
    assert_int_equal(joint.group[node[0]], joint.group[node[1]]);
    assert_int_equal(joint.group[node[0]], joint.group[node[2]]);
    assert_int_not_equal(joint.group[node[0]], joint.group[node[3]]);
    for (the_n = 0; the_n <= 5; the_n += 5) {
        const Kernel *k = kernel_at(apply(w, &joint), 1);
        assert_true(kernel_has_independent_parts(k) && k->nin == 4 && k->nout == 3 &&
                    k->npart == 3);
        tree_computes_parts(w, k, "x86-64-v3", SCHEDULE_BEST);
    }
    assert_int_equal(apply(w, &kept)->node.n, 5);
}

/* Steps of parts that stand beside each other are those of each, in their order. */
static void
each_part_has_steps(void **state)
{
    World *w = *state;
    static const struct {
        const char *steps, *why;
    } wrong[] = {
        { "alone k\nalone q", "step 1, `alone k`: the next part is q; parts stand in their order" },
        { "alone q\nhold q at j -> a reg\nrun i parallel",
          "there are steps for 1 of 2 parts; `alone k` begins those of the next" },
        { "alone q\nhold q at j -> a reg\nalone k\nsplit q.j by 2 -> a b",
          "step 4, `split q.j by 2 -> a b`: there is no loop q.j; there are i, j, d" },
        { "order q.i q.j\nalone q", "step 2, `alone q`: steps of one part" },
    };
    add(w, "nest query(x: f32[n, 4], a: f32[4, 18]) -> (q: f32[n, 18]) { q[i, j] = sum d: x[i, d] "
           "* a[d, j] }");
    add(w, "nest key(x: f32[n, 4], b: f32[4, 6]) -> (k: f32[n, 6]) { k[i, j] = sum d: x[i, d] * "
           "b[d, j] }");
    output(w, "q");
    output(w, "k");
    FusePlan joint = joined(w, one_each);
    Machine m;
    assert_true(machine_find(&w->ctx, "x86-64-v3", &m));
    for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Kernel k = *kernel_at(apply(w, &joint), 1);
        const char *why;
        assert_false(schedule_build_text(&w->ctx, w->arena, &k, &m, wrong[i].steps, &why));
        if (!strstr(why, wrong[i].why))
            fail_msg("%s, not: %s", why, wrong[i].why);
    }
    Kernel k = *kernel_at(apply(w, &joint), 1);
    /* a part without tasks is one */
    k.schedule = "alone q\nhold q at j -> a reg\nrun i parallel\nalone k\nhold k at i -> a "
                 "scratch\nsplit j by 4 -> b c";
    tree_computes_parts(w, &k, "x86-64-v3", SCHEDULE_BEST);
}

static const char pooled_conv[] =
    "nest conv(x: f32[n, 3, 8, 8], w: f32[5, 3, 3, 3]) -> (c: f32[n, 5, 8, 8]) {"
    " c[i, f, y, z] = sum q, r, s: x[i, q, y + r - 1, z + s - 1 | 0] * w[f, q, r, s] }";

/* A window over what a product makes shares the images with it, and not the filters one by one. */
static void
is_pooled(World *w, const char *pool, bool rows)
{
    add(w, pooled_conv);
    add(w, pool);
    output(w, "o");
    FusePlan separate = cheapest_plan(w), joint = joined(w, one_each),
             kept = joined(w, squares_of_parts);
    assert_int_equal(apply(w, &separate)->node.n, 3);
    assert_null(fuse_illegal(w->g, &joint));
    const Graph *g = apply(w, &joint);
    assert_int_equal(g->node.n, 2);
    assert_int_equal(kernel_at(g, 1)->npart, 2);
    assert_int_equal(kernel_at(g, 1)->shared, 1);
    assert_int_equal(locals(kernel_at(g, 1)), 1);
    assert_int_equal(apply(w, &kept)->node.n, 3);
    /* somebody else reads it: windows that do not overlap are rows of it */
    output(w, "c");
    FusePlan seen = joined(w, one_each);
    assert_int_equal(apply(w, &seen)->node.n, rows ? 2 : 3);
}

static void
window_behind_product(void **state)
{
    is_pooled(*state,
              "nest pool(c: f32[n, 5, 8, 8]) -> (o: f32[n, 5, 4, 4]) { o[i, f, y, z] = max r<2>, "
              "s<2>: c[i, f, 2*y + r, 2*z + s] }",
              true);
}

static void
window_that_overlaps_behind_product(void **state)
{
    is_pooled(*state,
              "nest pool(c: f32[n, 5, 8, 8]) -> (o: f32[n, 5, 4, 4]) { o[i, f, y, z] = max r<3>, "
              "s<3>: c[i, f, 2*y + r - 1, 2*z + s - 1 | 0] }",
              false);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, world_end)
    const struct CMUnitTest tests[] = {
        TEST(attention_in_one_kernel),    TEST(seen_rows_are_stored),
        TEST(norm_behind_product),        TEST(rows_behind_what_waits_for_them),
        TEST(products_of_one_value),      TEST(two_small_before_a_large_one),
        TEST(rows_that_close_a_circle),   TEST(products_of_one_value_or_rows),
        TEST(many_products_of_one_value), TEST(each_part_has_steps),
        TEST(window_behind_product),      TEST(window_that_overlaps_behind_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
