/* Fusion of small graphs: what becomes one kernel, what must not, and the same numbers as
 * before. */
#include "fuse_case.h"

#define CONV                                                                                       \
    "nest conv(x: f32[n, 3, 6, 6], w: f32[4, 3, 3, 3]) -> (c: f32[n, 4, 6, 6]) {"                  \
    " c[b, k, y, z] = sum q, r, s: x[b, q, y + r - 1, z + s - 1 | 0] * w[k, q, r, s] }"
#define BIAS                                                                                       \
    "nest bias(c: f32[n, 4, 6, 6], v: f32[4]) -> (d: f32[n, 4, 6, 6]) { d[b, k, y, z] = c[b, k, "  \
    "y, z] + v[k] }"
#define RELU                                                                                       \
    "nest relu(d: f32[n, 4, 6, 6]) -> (e: f32[n, 4, 6, 6]) { e[b, k, y, z] = max(d[b, k, y, z], "  \
    "0) }"

static void
convolution_bias_relu(void **state)
{
    World *w = *state;
    add(w, CONV);
    add(w, BIAS);
    add(w, RELU);
    output(w, "e");
    const Graph *g = cheapest(w);
    Contraction v;
    assert_int_equal(g->node.n, 2);
    const Kernel *k = kernel_at(g, 1);
    assert_int_equal(k->npart, 1);
    assert_int_equal(k->nin, 3);
    assert_string_equal(k->name, "conv_bias_relu");
    assert_string_equal(k->origin, "Node \"conv\" + Node \"bias\" + Node \"relu\"");
    assert_string_equal(g->node.at[1].origin, k->origin);
    assert_true(nest_contraction(&w->ctx, k->part[0].nest, &v));
}

static void
visible_values_stay(void **state)
{
    World *w = *state;
    add(w, CONV);
    add(w, BIAS);
    add(w, RELU);
    output(w, "d");
    output(w, "e");
    const Graph *g = cheapest(w);
    assert_int_equal(g->node.n, 3); /* conv + bias, then relu */
    assert_int_equal(g->output.n, 2);
    assert_int_equal(kernel_at(g, 1)->nout, 1);
}

/* Once `same` is computed in it, `flag` reads nothing. It still stands behind `power`, which may
 * not move into `sum`. */
static void
reading_that_simplifies_away_still_orders(void **state)
{
    World *w = *state;
    add(w, "nest power(x: f32[n, 7]) -> (s: i64[n, 7]) { s[i, j] = i64(exp(x[i, j])) }");
    add(w, "nest same(s: i64[n, 7]) -> (t: i64[n, 7]) { t[i, j] = s[i, j] }");
    add(w, "nest flag(t: i64[n, 7], s: i64[n, 7]) -> (z: f32[n, 7]) { z[i, j] = t[i, j] < s[i, j] "
           "? 1.0 : 0.0 }");
    add(w, "nest sum(z: f32[n, 7], s: i64[n, 7]) -> (o: f32[n, 7]) { o[i, j] = z[i, j] + f32(s[i, "
           "j]) }");
    output(w, "z");
    output(w, "o");
    cheapest(w);
}

static void
softmax_is_one_kernel(void **state)
{
    World *w = *state;
    static const char *const text[] = { SOFTMAX };
    for (int i = 0; i < 4; i++)
        add(w, text[i]);
    output(w, "p");
    const Graph *g = cheapest(w);
    assert_int_equal(g->node.n, 2);
    const Kernel *k = kernel_at(g, 1);
    assert_int_equal(k->npart, 4);
    assert_int_equal(k->shared, 2);
    assert_int_equal(k->nin, 1);
    assert_int_equal(k->nout, 1);
    assert_int_equal(locals(k), 3);
}

/* Sizes are open until it runs, and then may be nothing. */
static void
open_sizes_may_be_nothing(void **state)
{
    World *w = *state;
    static const char *const text[] = { SOFTMAX };
    add(w, "nest before(y: f32[n, 3, 7]) -> (x: f32[n, 3, 7]) { x[i, h, j] = y[i, h, j] * 0.5 }");
    for (int i = 0; i < 4; i++)
        add(w, text[i]);
    add(w, "nest all(p: f32[n, 3, 7]) -> (a: f32[3]) { a[h] = sum i, j: p[i, h, j] }");
    output(w, "p");
    output(w, "a");
    for (the_n = 0; the_n <= 2; the_n++)
        cheapest(w);
}

/* A value has the type that its node gives it, in a register as in memory: what rounding took away
 * is missing in the difference. */
static void
values_are_rounded_where_they_are_made(void **state)
{
    World *w = *state;
    add(w, "nest square(x: f32[n, 8]) -> (a: bf16[n, 8]) { a[i, j] = bf16(x[i, j] * x[i, j]) }");
    add(w, "nest half(a: bf16[n, 8]) -> (h: f16[n, 8]) { h[i, j] = f16(f32(a[i, j]) * 1.001) }");
    add(w,
        "nest missing(x: f32[n, 8], a: bf16[n, 8], h: f16[n, 8]) -> (d: f32[n, 8])"
        " { d[i, j] = x[i, j] * x[i, j] - f32(a[i, j]) + (f32(a[i, j]) * 1.001 - f32(h[i, j])) }");
    add(w, "nest total(d: f32[n, 8]) -> (t: f32[n]) { t[i] = sum j: d[i, j] }");
    output(w, "d");
    output(w, "t");
    const Graph *g = cheapest(w);
    Tensor got[2];
    bool any = false;
    run(w, g, got);
    for (int64_t i = 0; i < tensor_count(&got[0]); i++) {
        float d = ((float *)got[0].data)[i];
        any |= d > 1e-3f || d < -1e-3f;
    }
    assert_true(any); /* the inputs show it */
}

/* What is read beside a value is the reader's padding, not what the maker would have made there. */
static void
padding_is_the_readers(void **state)
{
    World *w = *state;
    add(w, "nest plus(x: f32[n, 6, 6]) -> (a: f32[n, 6, 6]) { a[i, y, z] = x[i, y, z] + 3 }");
    add(w, "nest filter(w: f32[3, 3]) -> (f: f32[3, 3]) { f[r, s] = w[r, s] * 2 }");
    add(w, "nest window(a: f32[n, 6, 6], f: f32[3, 3]) -> (b: f32[n, 6, 6]) { b[i, y, z] = sum r, "
           "s: a[i, y + r - 1, z + s - 1 | 0] * f[r, s] }");
    add(w, "nest top(b: f32[n, 6, 6], f: f32[3, 3]) -> (c: f32[n, 3, 3]) { c[i, y, z] = max r<3>, "
           "s<3>: b[i, 2*y + r - 1, 2*z + s - 1 | -inf] + f[r, s] }");
    output(w, "c");
    cheapest(w);
}

/* Each level reads the one before twice: expressions are shared, so none grows beyond what it
 * says. */
static void
deep_diamonds_stay_small(void **state)
{
    World *w = *state;
    for (int k = 0; k < 30; k++) {
        add(w, arena_printf(w->arena,
                            "nest left%d(v%d: f32[n, 8]) -> (l%d: f32[n, 8]) { l%d[i, j] = "
                            "abs(v%d[i, j]) * 0.5 }",
                            k, k, k, k, k));
        add(w, arena_printf(w->arena,
                            "nest right%d(v%d: f32[n, 8], l%d: f32[n, 8]) -> (v%d: f32[n, 8]) { "
                            "v%d[i, j] = v%d[i, j] - l%d[i, j] }",
                            k, k, k, k + 1, k + 1, k, k));
    }
    output(w, "v30");
    const Graph *g = cheapest(w);
    assert_int_equal(g->node.n, 4); /* of 60 nests, 24 a kernel at most */
    for (NodeId n = 1; n < g->node.n; n++)
        assert_true(nest_code(&w->ctx, kernel_at(g, n)->part[0].nest) < 256);
}

static void
layer_norm_is_one_kernel(void **state)
{
    World *w = *state;
    constant(w, "eps", 1e-5f);
    constant(w, "len", 8);
    add(w, "nest mean(x: f32[n, 8], len: f32[1]) -> (mu: f32[n, 1]) { mu[i, u] = (sum j: x[i, j]) "
           "/ len[0] }");
    add(w,
        "nest sub(x: f32[n, 8], mu: f32[n, 1]) -> (d: f32[n, 8]) { d[i, j] = x[i, j] - mu[i, 0] }");
    add(w, "nest square(d: f32[n, 8]) -> (q: f32[n, 8]) { q[i, j] = d[i, j] * d[i, j] }");
    add(w, "nest var(q: f32[n, 8], len: f32[1]) -> (a: f32[n, 1]) { a[i, u] = (sum j: q[i, j]) / "
           "len[0] }");
    add(w, "nest plus(a: f32[n, 1], eps: f32[1]) -> (b: f32[n, 1]) { b[i, u] = a[i, u] + eps[0] }");
    add(w, "nest root(b: f32[n, 1]) -> (r: f32[n, 1]) { r[i, u] = sqrt(b[i, u]) }");
    add(w,
        "nest div(d: f32[n, 8], r: f32[n, 1]) -> (f: f32[n, 8]) { f[i, j] = d[i, j] / r[i, 0] }");
    add(w, "nest scale(f: f32[n, 8], g: f32[8], h: f32[8]) -> (o: f32[n, 8]) { o[i, j] = f[i, j] * "
           "g[j] + h[j] }");
    output(w, "o");
    const Graph *g = cheapest(w);
    assert_int_equal(g->node.n, 2);
    const Kernel *k = kernel_at(g, 1);
    /* x, scale, shift: one-element constants are numbers */
    assert_int_equal(k->nin, 3);
    assert_int_equal(k->shared, 1);
    /* mean, difference, root of the variance, scaled */
    assert_int_equal(k->npart, 4);
}

static void
residual_diamond(void **state)
{
    World *w = *state;
    add(w, "nest first(x: f32[n, 8], a: f32[8, 8]) -> (p: f32[n, 8]) { p[i, j] = sum k: x[i, k] * "
           "a[k, j] }");
    add(w, "nest sigmoid1(p: f32[n, 8]) -> (q: f32[n, 8]) { q[i, j] = sigmoid(p[i, j]) }");
    add(w,
        "nest silu(p: f32[n, 8], q: f32[n, 8]) -> (r: f32[n, 8]) { r[i, j] = p[i, j] * q[i, j] }");
    add(w, "nest second(r: f32[n, 8], b: f32[8, 8]) -> (s: f32[n, 8]) { s[i, j] = sum k: r[i, k] * "
           "b[k, j] }");
    add(w, "nest addition(r: f32[n, 8], s: f32[n, 8]) -> (t: f32[n, 8]) { t[i, j] = r[i, j] + s[i, "
           "j] }");
    output(w, "t");
    const Graph *g = cheapest(w);
    assert_int_equal(g->node.n, 3); /* first + silu, second + addition */
    assert_int_equal(kernel_at(g, 1)->npart, 1);
    assert_int_equal(kernel_at(g, 2)->npart, 1);
    assert_string_equal(kernel_at(g, 1)->name, "first_sigmoid1_silu");
}

/* Two convex groups, each needing the other: only the order of all groups tells. */
static void
cyclic_groups_are_illegal(void **state)
{
    World *w = *state;
    NodeId a1 = add(w, "nest a1(x: f32[n]) -> (p: f32[n]) { p[i] = x[i] + 1 }");
    NodeId b2 = add(w, "nest b2(y: f32[n]) -> (q: f32[n]) { q[i] = y[i] + 2 }");
    NodeId b1 = add(w, "nest b1(p: f32[n], y: f32[n]) -> (r: f32[n]) { r[i] = p[i] * y[i] }");
    NodeId a2 = add(w, "nest a2(q: f32[n], x: f32[n]) -> (s: f32[n]) { s[i] = q[i] * x[i] }");
    output(w, "r");
    output(w, "s");
    FusePlan p = fuse_none(w->g, w->arena);
    assert_null(fuse_illegal(w->g, &p));
    p.group[a1] = p.group[a2] = 1;
    p.group[b1] = p.group[b2] = 2;
    p.ngroup = 2;
    assert_non_null(fuse_illegal(w->g, &p));
    assert_null(fuse_apply(w->g, &p));
}

/* Gathering rows must not swallow both ends of a path through a product. */
static void
rows_do_not_close_cycles(void **state)
{
    World *w = *state;
    add(w, "nest total(x: f32[n, 8]) -> (s: f32[n, 1]) { s[i, u] = sum j: x[i, j] }");
    add(w, "nest scaled(x: f32[n, 8], s: f32[n, 1]) -> (p: f32[n, 8]) { p[i, j] = x[i, j] / s[i, "
           "0] }");
    add(w, "nest product(p: f32[n, 8], a: f32[8, 8]) -> (q: f32[n, 8]) { q[i, j] = sum k: p[i, k] "
           "* a[k, j] }");
    add(w, "nest total2(q: f32[n, 8]) -> (r: f32[n, 1]) { r[i, u] = sum j: q[i, j] }");
    add(w, "nest join(p: f32[n, 8], q: f32[n, 8], r: f32[n, 1]) -> (t: f32[n, 8]) { t[i, j] = p[i, "
           "j] + q[i, j] / r[i, 0] }");
    output(w, "t");
    const Graph *g = cheapest(w);
    assert_int_equal(g->node.n, 4); /* rows, product, rows */
}

static void
is_illegal(World *w, const FusePlan *p, const char *why)
{
    const char *got = fuse_illegal(w->g, p);
    if (!got || !strstr(got, why))
        fail_msg("expected \"%s\", got \"%s\"", why, got ? got : "no fault");
}

/* A plan is carried out as it is: no rule keeps an epilogue that the plan keeps, or the other way
 * round. */
static void
plans_are_obeyed(void **state)
{
    World *w = *state;
    NodeId sum = add(w, "nest total(x: f32[n, 8]) -> (s: f32[n]) { s[i] = sum j: x[i, j] }");
    NodeId root = add(w, "nest root(s: f32[n]) -> (r: f32[n]) { r[i] = exp(s[i]) }");
    NodeId scale = add(
        w, "nest scale(x: f32[n, 8], r: f32[n]) -> (o: f32[n, 8]) { o[i, j] = x[i, j] * r[i] }");
    output(w, "o");
    FusePlan p = fuse_none(w->g, w->arena);
    p.group[sum] = p.group[root] = p.group[scale] = 1;
    p.ngroup = 1;
    is_illegal(w, &p, "Node \"total\" is to be stored for Node \"root\", which is in its group 1");
    fuse_set(w->g, &p, sum, 0, (FuseEdge){ EDGE_SCRATCH, 0 });
    fuse_set(w->g, &p, root, 0, (FuseEdge){ EDGE_SCRATCH, 0 });
    assert_null(fuse_illegal(w->g, &p));
    assert_int_equal(kernel_at(apply(w, &p), 1)->npart, 3);
    /* a function for every element: the rules would not */
    fuse_set(w->g, &p, root, 0, (FuseEdge){ EDGE_INLINE, 0 });
    assert_null(fuse_illegal(w->g, &p));
    assert_int_equal(kernel_at(apply(w, &p), 1)->npart, 2);
}

/* Each way in which a value comes to a reader, and every reason against it, by name. */
static void
edges_are_obeyed(void **state)
{
    World *w = *state;
    NodeId a =
        add(w, "nest a(x: f32[n, 8, 4]) -> (a: f32[n, 8, 4]) { a[i, j, k] = x[i, j, k] + 1 }");
    NodeId b = add(w, "nest b(a: f32[n, 8, 4]) -> (b: f32[n, 8]) { b[i, j] = sum k: a[i, j, k] }");
    NodeId c = add(w, "nest c(a: f32[n, 8, 4], b: f32[n, 8]) -> (c: f32[n, 8, 4]) { c[i, j, k] = "
                      "a[i, j, k] - b[i, j] }");
    NodeId d =
        add(w, "nest d(c: f32[n, 8, 4]) -> (d: f32[8, 4, n]) { d[j, k, i] = abs(c[i, j, k]) }");
    output(w, "c");
    output(w, "d");
    FusePlan p = fuse_none(w->g, w->arena);
    assert_int_equal(apply(w, &p)->node.n, 5);

    /* stored for c, computed again for b */
    fuse_set(w->g, &p, a, b, (FuseEdge){ EDGE_RECOMPUTE, 0 });
    const Graph *g = apply(w, &p);
    assert_int_equal(g->node.n, 5);
    assert_string_equal(kernel_at(g, 2)->buffer.at[0].name, "x");
    fuse_set(w->g, &p, a, c, (FuseEdge){ EDGE_RECOMPUTE, 0 }); /* by both: nowhere */
    p.group[a] = 0;
    for (NodeId n = 1; n < w->g->node.n; n++)
        p.group[n] -= p.group[n] > 0;
    p.ngroup = 3;
    assert_int_equal(apply(w, &p)->node.n, 4);
    fuse_set(w->g, &p, a, c, (FuseEdge){ EDGE_STORE, 0 });
    is_illegal(w, &p, "Node \"a\" is in no group, but Node \"c\" does not recompute it");

    p = fuse_none(w->g, w->arena);
    fuse_set(w->g, &p, a, c, (FuseEdge){ EDGE_SCRATCH, 0 });
    is_illegal(w, &p,
               "Node \"a\" is to be kept in scratch for Node \"c\", which is in group 3, not in "
               "its group 1");
    fuse_set(w->g, &p, a, c, (FuseEdge){ EDGE_INLINE, 0 });
    is_illegal(
        w, &p,
        "Node \"a\" is to be inlined for Node \"c\", which is in group 3, not in its group 1");
    p.group[a] = p.group[b] = p.group[c] = 1;
    p.group[d] = p.ngroup = 2;
    fuse_set(w->g, &p, a, b, (FuseEdge){ EDGE_SCRATCH, 0 });
    fuse_set(w->g, &p, b, c, (FuseEdge){ EDGE_SCRATCH, 0 });
    is_illegal(w, &p, "%a is to be computed in %c alone, but %b reads it as well");
    fuse_set(w->g, &p, a, c, (FuseEdge){ EDGE_SCRATCH, 0 });
    assert_int_equal(kernel_at(apply(w, &p), 1)->shared, 2);
    fuse_set(w->g, &p, a, b, (FuseEdge){ EDGE_SCRATCH, 1 }); /* for each trip of one axis */
    assert_int_equal(kernel_at(apply(w, &p), 1)->shared, 1);
    fuse_set(w->g, &p, a, b, (FuseEdge){ EDGE_SCRATCH, 3 });
    is_illegal(w, &p, "kept for each iteration of 3 outer axes, but the stages share 2");
    fuse_set(w->g, &p, a, b, (FuseEdge){ EDGE_SCRATCH, 0 });
    fuse_set(w->g, &p, c, d, (FuseEdge){ EDGE_INLINE, 0 });
    p.group[d] = p.ngroup = 1;
    is_illegal(w, &p, "%c is to be computed in %d alone, but is an output of the model");
    fuse_set(w->g, &p, c, d, (FuseEdge){ EDGE_SCRATCH, 0 });
    is_illegal(w, &p, "share no outer axis");
}

static void
what_cannot_be_inlined(void **state)
{
    World *w = *state;
    NodeId a = add(w, "nest a(x: f32[8], i: i32[n], u: f32[n]) -> (a: f32[8]) { for j<n>: "
                      "a[at(i[j], 8)] sum= u[j] over x }");
    NodeId b = add(w, "nest b(a: f32[8]) -> (b: f32[8]) { b[j] = exp(a[j]) }");
    output(w, "b");
    FusePlan p = fuse_none(w->g, w->arena);
    p.group[a] = p.group[b] = p.ngroup = 1;
    fuse_set(w->g, &p, a, b, (FuseEdge){ EDGE_INLINE, 0 });
    is_illegal(w, &p, "%a cannot be computed where %b reads it");
}

static void
views_are_copied(void **state)
{
    World *w = *state;
    add(w, "nest relu(x: f32[n, 8]) -> (a: f32[n, 8]) { a[i, j] = max(x[i, j], 0) }");
    add(w, "nest turn(a: f32[n, 8]) -> (b: f32[8, n]) { b[j, i] = a[i, j] }");
    add(w, "nest product(b: f32[8, n], y: f32[n, 4]) -> (c: f32[8, 4]) { c[i, j] = sum k: b[i, k] "
           "* y[k, j] }");
    add(w, "nest exp1(b: f32[8, n]) -> (d: f32[8, n]) { d[i, j] = exp(b[i, j]) }");
    output(w, "c");
    output(w, "d");
    const Graph *g = cheapest(w);
    assert_int_equal(g->node.n, 4); /* relu stays (two read it), turn is nowhere */
    for (NodeId n = 1; n < g->node.n; n++)
        assert_null(strstr(kernel_at(g, n)->name, "turn"));
}

/* A gather of a gather reads few rows: none is copied before. */
static void
gathers_read_through_views(void **state)
{
    World *w = *state;
    add(w, "nest first(x: f32[n, 8], i: i32[4]) -> (a: f32[4, 8]) { a[j, k] = x[at(i[j], n), k] }");
    add(w, "nest second(a: f32[4, 8], l: i32[2]) -> (b: f32[2, 8]) {"
           " b[j, k] = exp(a[at(l[j], 4), k]) }");
    output(w, "b");
    assert_int_equal(cheapest(w)->node.n, 2);
}

/* An activation belongs to the product before it, not into the windows of the one behind. */
static void
epilogue_before_prologue(void **state)
{
    World *w = *state;
    add(w, CONV);
    add(w, BIAS);
    add(w, RELU);
    add(w, "nest next(e: f32[n, 4, 6, 6], f: f32[2, 4, 3, 3]) -> (o: f32[n, 2, 6, 6]) {"
           " o[b, k, y, z] = sum q, r, s: e[b, q, y + r - 1, z + s - 1 | 0] * f[k, q, r, s] }");
    output(w, "o");
    const Graph *g = cheapest(w);
    assert_int_equal(g->node.n, 3);
    assert_string_equal(kernel_at(g, 1)->name, "conv_bias_relu");
    assert_string_equal(kernel_at(g, 2)->name, "next");
}

static void
baseline_is_one_kernel_each(void **state)
{
    World *w = *state;
    add(w, CONV);
    add(w, BIAS);
    add(w, RELU);
    output(w, "e");
    FusePlan p = fuse_none(w->g, w->arena);
    assert_int_equal(apply(w, &p)->node.n, 4);
}

/* Random elementwise, broadcast, reducing and moving nodes. */
static void
random_graph(World *w, uint32_t *state)
{
    uint32_t seed = *state;
#define BELOW(k) ((seed = seed * 1664525u + 1013904223u) >> 16) % (k)
    char text[256];
    w->g = graph_new(&w->ctx, w->arena, "random");
    add(w, "nest start(x: f32[n, 5]) -> (v0: f32[n, 5]) { v0[i, j] = x[i, j] + 1 }");
    for (unsigned k = 1; k < 10; k++) {
        unsigned a = BELOW(k), b = BELOW(k);
        switch (BELOW(6)) {
        case 0:
            snprintf(
                text, sizeof text,
                "nest ew%u(v%u: f32[n, 5]) -> (v%u: f32[n, 5]) { v%u[i, j] = tanh(v%u[i, j]) }", k,
                a, k, k, a);
            break;
        case 1:
            snprintf(
                text, sizeof text,
                "nest row%u(v%u: f32[n, 5]) -> (r%u: f32[n, 1]) { r%u[i, u] = max j: v%u[i, j] }",
                k, a, k, k, a);
            add(w, text);
            snprintf(text, sizeof text,
                     "nest back%u(v%u: f32[n, 5], r%u: f32[n, 1]) -> (v%u: f32[n, 5]) { v%u[i, j] "
                     "= v%u[i, j] - r%u[i, 0] }",
                     k, a, k, k, k, a, k);
            break;
        case 2:
            snprintf(text, sizeof text,
                     "nest mm%u(v%u: f32[n, 5], w%u: f32[5, 5]) -> (v%u: f32[n, 5]) { v%u[i, j] = "
                     "0.125 * sum k: v%u[i, k] * w%u[k, j] }",
                     k, a, k, k, k, a, k);
            break;
        case 3:
            snprintf(
                text, sizeof text,
                "nest flip%u(v%u: f32[n, 5]) -> (v%u: f32[n, 5]) { v%u[i, j] = v%u[i, 4 - j] }", k,
                a, k, k, a);
            break;
        case 4:
            snprintf(text, sizeof text,
                     "nest pad%u(v%u: f32[n, 5]) -> (v%u: f32[n, 5]) { v%u[i, j] = max r<3>: "
                     "v%u[i, j + r - 1 | 0] }",
                     k, a, k, k, a);
            break;
        default:
            if (a == b)
                snprintf(
                    text, sizeof text,
                    "nest sq%u(v%u: f32[n, 5]) -> (v%u: f32[n, 5]) { v%u[i, j] = 0.5 * v%u[i, j] }",
                    k, a, k, k, a);
            else
                snprintf(text, sizeof text,
                         "nest add%u(v%u: f32[n, 5], v%u: f32[n, 5]) -> (v%u: f32[n, 5]) { v%u[i, "
                         "j] = v%u[i, j] - 0.5 * v%u[i, j] }",
                         k, a, b, k, k, a, b);
            break;
        }
        add(w, text);
    }
    for (unsigned k = 0; k < 10; k++) { /* what nothing reads is an output, and one more */
        snprintf(text, sizeof text, "v%u", k);
        ValueId v = value_named(w->g, text);
        if (graph_uses(w->g, w->arena)[v] == 0 || BELOW(8) == 0)
            output(w, text);
    }
    *state = seed;
}

/* Any plan is legal and right. */
static void
random_graphs(void **state)
{
    uint32_t seed = 11;

    for (int round = 0; round < rounds(40); round++) {
        random_graph(*state, &seed);
        cheapest(*state);
    }
}

/* No plan with fewer of its joins takes less than the cheapest, by the formula that it is the
 * cheapest by. */
static void
none_is_cheaper(void **state)
{
    World *w = *state;
    uint32_t seed = 12, compared = 0;
    Machine m;

    assert_true(machine_find(&w->ctx, "x86-64-v3", &m));
    for (int round = 0; round < rounds(1000); round++) {
        FuseCertificate known;
        random_graph(w, &seed);
        FusePlan best = fuse_dp(w->g, w->arena, &m, NULL, &known);
        bool within;
        double seconds = predict(w, &best, &m, &within);
        assert_true(known.exact && within);
        for (uint32_t joins = fuse_merges(w->g, &best); joins-- > 0;) {
            NodeId last;
            FusePlan p = fuse_first_merges(w->g, w->arena, &best, joins, &last);
            double its = predict(w, &p, &m, &within);
            compared += within;
            if (within && its < seconds * 0.999999 - 1e-11)
                fail_msg("graph %d: %u joins take %g, all %g", round, joins, its, seconds);
        }
    }
    assert_true((int)compared > rounds(2000));
}

/* One value in two parameters of its reader: both reads see what it is computed from. */
static void
one_value_read_as_two(void **state)
{
    World *w = *state;
    add(w, "nest twice(x: f32[n, 4]) -> (y: f32[n, 4]) { y[i, j] = 2.0 * x[i, j] }");
    add(w, "nest concat(a: f32[n, 4], b: f32[n, 4]) -> (o: f32[n, 8]) { o[i, j] = j < 4 ? a[i, j] "
           ": b[i, j - 4] }");
    ValueId y = value_named(w->g, "y");
    Span in = w->g->node.at[2].in;
    w->g->ref.at[in.first] = w->g->ref.at[in.first + 1] = y;
    output(w, "o");
    assert_int_equal(cheapest(w)->node.n, 2);
}

/* A product reads what a concatenation would copy from where its pieces lie; not where they begin
 * between the lanes of a vector. */
static uint32_t
groups_of_pieces(World *w, int first)
{
    Machine m;
    FuseCertificate known;

    assert_true(machine_find(&w->ctx, "x86-64-v3", &m));
    add(w, arena_printf(w->arena,
                        "nest concat(a: f32[n, 256, %d], b: f32[n, 256, %d]) -> (c: f32[n, 256, "
                        "64]) { c[i, j, k] = k < %d ? a[i, j, k] : b[i, j, k - %d] }",
                        first, 64 - first, first, first));
    add(w, "nest product(c: f32[n, 256, 64], v: f32[64, 32]) -> (o: f32[n, 256, 32]) { o[i, j, l] "
           "= sum k: c[i, j, k] * v[k, l] }");
    output(w, "o");
    every_plan(w);
    return fuse_dp(w->g, w->arena, &m, NULL, &known).ngroup;
}

static void
pieces_are_read_where_they_lie(void **state)
{
    assert_int_equal(groups_of_pieces(*state, 24), 1);
}

static void
torn_pieces_are_copied(void **state)
{
    assert_int_equal(groups_of_pieces(*state, 23), 2);
}

/* The run as it is, and a constant that its graph does not have. */
static Graph *
with_a_constant(void *user, const Graph *nests)
{
    World *w = user;
    ValueId *map;
    Graph *g = graph_rebuild(nests, &map);

    for (NodeId n = 1; n < nests->node.n; n++)
        graph_copy_node(g, nests, n, map);
    for (uint32_t i = 0; i < nests->output.n; i++)
        VEC_PUSH(g->arena, &g->output, map[nests->output.at[i]]);
    graph_const(g, "made", type_new(&w->ctx, DT_F32, 0, NULL), NEW(w->arena, float));
    return g;
}

static void
runs_keep_to_the_constants_of_the_graph(void **state)
{
    World *w = *state;
    const char *text = "graph @g(%x: f32[n], %count: i64[1]) -> (%y, %k) {\n"
                       "  %y: f32[n] = call(%x) nest next(x: f32[n]) -> (y: f32[n]) {\n"
                       "    y[i] = x[i] + 1\n"
                       "  }\n"
                       "  %k: i64[1] = match(%count) new [few to 9]\n"
                       "}\n";
    Graph *g =
        graph_parse(&w->ctx, w->arena, "t.tn", (Bytes){ (const uint8_t *)text, strlen(text) });

    assert_non_null(g);
    assert_null(fuse_control_flow(g, with_a_constant, w));
    assert_int_equal(w->ctx.diags.list.n, 1);
    assert_non_null(strstr(w->ctx.diags.list.at[0].text, "\"made\""));
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, world_end)
    const struct CMUnitTest tests[] = {
        TEST(convolution_bias_relu),
        TEST(visible_values_stay),
        TEST(reading_that_simplifies_away_still_orders),
        TEST(softmax_is_one_kernel),
        TEST(layer_norm_is_one_kernel),
        TEST(open_sizes_may_be_nothing),
        TEST(values_are_rounded_where_they_are_made),
        TEST(padding_is_the_readers),
        TEST(deep_diamonds_stay_small),
        TEST(residual_diamond),
        TEST(cyclic_groups_are_illegal),
        TEST(rows_do_not_close_cycles),
        TEST(plans_are_obeyed),
        TEST(views_are_copied),
        TEST(gathers_read_through_views),
        TEST(edges_are_obeyed),
        TEST(what_cannot_be_inlined),
        TEST(epilogue_before_prologue),
        TEST(baseline_is_one_kernel_each),
        TEST(one_value_read_as_two),
        TEST(pieces_are_read_where_they_lie),
        TEST(torn_pieces_are_copied),
        TEST(runs_keep_to_the_constants_of_the_graph),
        TEST(random_graphs),
        TEST(none_is_cheaper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
