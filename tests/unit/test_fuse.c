/* Fusion of small graphs: what becomes one kernel, what must not, and the same numbers as before. */
#include "fuse/fuse.h"
#include "ref/ref.h"
#include "schedule/schedule.h"

#define WORLD_FIELDS Graph *g;
#include "world.h"

#include <stdio.h>

static int64_t the_n;                /* the symbol n of all graphs */

static int
setup(void **state)
{
    world_begin(state);
    World *w = *state;
    the_n = 5;
    w->g = graph_new(&w->ctx, w->arena, "t");
    return 0;
}

static ValueId
value_named(const Graph *g, const char *name)
{
    for (ValueId v = 1; v < g->value.n; v++)
        if (!strcmp(g->value.at[v].name, name))
            return v;
    return 0;
}

/* A node from a nest's text: parameters are values of these names, inputs are made when first met. */
static NodeId
add(World *w, const char *text)
{
    Parse p = parse_begin(&w->ctx, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    const Nest *n = nest_parse(&p);
    ValueId value[16];

    if (!n)
        fail_msg("%s: %s", text, world_messages(w));
    for (uint32_t i = 0; i < n->nin + n->nout; i++) {
        value[i] = value_named(w->g, n->param[i].name);
        if (!value[i])
            value[i] = i < n->nin ? graph_input(w->g, n->param[i].name, n->param[i].type)
                                  : graph_value(w->g, n->param[i].name, n->param[i].type);
    }
    return graph_call_nest(w->g, n, (Loc){ 0 }, sym_printf(&w->ctx, "Node \"%s\"", n->name), value, value + n->nin);
}

static void
output(World *w, const char *name)
{
    VEC_PUSH(w->arena, &w->g->output, value_named(w->g, name));
}

static void
constant(World *w, const char *name, float v)
{
    float *data = NEW(w->arena, float);
    const Expr *one = expr_int(&w->ctx, 1);
    *data = v;
    graph_const(w->g, name, type_new(&w->ctx, DT_F32, 1, &one), data);
}

static void
fill(Tensor *t, uint32_t seed)
{
    for (int64_t k = 0; k < tensor_count(t); k++)
        if (t->dtype == DT_F32)
            ((float *)t->data)[k] = (float)((int)((uint32_t)(k * 2654435761u + seed * 97u) >> 9 & 255) - 128) / 64;
}

static void
run(World *w, const Graph *g, Tensor *out)
{
    Symbols s = { 0 };
    Tensor *in = NEW_ARRAY(w->arena, Tensor, g->input.n);

    symbols_set(w->arena, &s, sym(&w->ctx, "n"), the_n);
    for (uint32_t i = 0; i < g->input.n; i++) {
        const Value *v = &g->value.at[g->input.at[i]];
        assert_true(tensor_of_type(&w->ctx, w->arena, v->type, &s, &in[i]));
        fill(&in[i], (uint32_t)v->name[0]);
    }
    if (!ref_graph(g, w->arena, &s, in, out, NULL, NULL))
        fail_msg("%s", world_messages(w));
}

static void
same_numbers(const Tensor *want, const Tensor *got, const char *what)
{
    assert_int_equal(tensor_count(want), tensor_count(got));
    if (want->dtype != DT_F32) {
        assert_memory_equal(want->data, got->data, (size_t)tensor_count(want) * dtype_info[want->dtype].bytes);
        return;
    }
    for (int64_t i = 0; i < tensor_count(want); i++) {
        float x = ((float *)want->data)[i], y = ((float *)got->data)[i], d = x - y;
        if (!(x == y || (x != x && y != y) || (d < 1e-4f && d > -1e-4f)))
            fail_msg("%s: element %d is %g, was %g", what, (int)i, y, x);
    }
}

/* The loop tree of a group must compute what its parts do, one after the other. */
static void
tree_computes_parts(World *w, const Kernel *k, const char *target, ScheduleLevel level)
{
    Kernel tree = *k;
    Machine m;
    Symbols s = { 0 };
    uint32_t n = k->nin + k->nout;
    Tensor **want = NEW_ARRAY(w->arena, Tensor *, n), **got = NEW_ARRAY(w->arena, Tensor *, n);

    symbols_set(w->arena, &s, sym(&w->ctx, "n"), the_n);
    tree.buffer.at = arena_copy(w->arena, k->buffer.at, k->buffer.n * sizeof *k->buffer.at);
    tree.buffer.cap = k->buffer.n;
    for (uint32_t i = 0; i < n; i++) {
        want[i] = NEW(w->arena, Tensor);
        assert_true(tensor_of_type(&w->ctx, w->arena, k->buffer.at[i].type, &s, want[i]));
        fill(want[i], i);
        got[i] = NEW(w->arena, Tensor);
        assert_true(tensor_of_type(&w->ctx, w->arena, k->buffer.at[i].type, &s, got[i]));
        fill(got[i], i);
    }
    assert_true(machine_find(&w->ctx, target, &m));
    if (!schedule_kernel(&w->ctx, w->arena, &tree, &m, level) || !kernel_verify(&w->ctx, &tree) ||
        !ref_kernel(&w->ctx, w->arena, k, &s, want) || !ref_tree(&w->ctx, w->arena, &tree, &s, got))
        fail_msg("%s", world_messages(w));
    for (uint32_t i = k->nin; i < n; i++)
        same_numbers(want[i], got[i], tree.schedule);
}

/* What the kernels of a plan compute, against the graph of nests. */
static const Graph *
computes(World *w, const FusePlan *p, const Tensor *want, const char *what)
{
    const Graph *to = fuse_apply(w->g, p);
    Tensor *got = NEW_ARRAY(w->arena, Tensor, w->g->output.n);

    if (!to)
        fail_msg("%s: %s", what, world_messages(w));
    run(w, to, got);
    for (uint32_t o = 0; o < w->g->output.n; o++)
        same_numbers(&want[o], &got[o], what);
    return to;
}

static const char *
text_of(World *w, const FusePlan *p)
{
    Text t = { .arena = w->arena };

    fuse_print_plan(w->g, &t, p);
    return text_str(&t);
}

/* Printed and read again, a plan is the same. */
static void
reads_back(World *w, const FusePlan *p)
{
    const char *text = text_of(w, p);
    Parse parse = parse_begin(&w->ctx, "plan", (Bytes){ (const uint8_t *)text, strlen(text) });
    FusePlan again;

    if (!fuse_parse_plan(w->g, w->arena, &parse, &again))
        fail_msg("%s\n%s", text, world_messages(w));
    assert_true(parse_end(&parse));
    assert_string_equal(text, text_of(w, &again));
    assert_int_equal(p->ngroup, again.ngroup);
    for (NodeId n = 1; n < w->g->node.n; n++) {
        assert_int_equal(p->group[n], again.group[n]);
        for (uint32_t i = 0; i < w->g->node.at[n].in.count; i++) {
            uint32_t r = w->g->node.at[n].in.first + i;
            assert_int_equal(p->edge[r].kind, again.edge[r].kind);
            assert_int_equal(p->edge[r].depth, again.edge[r].depth);
        }
    }
}

/* Each of a plan's beginnings is a plan, from every node alone to all of it; one join more is never a kernel more. */
static void
begins_everywhere(World *w, const FusePlan *p, const Tensor *want)
{
    uint32_t all = fuse_joins(w->g, p), before = w->g->node.n - 1;
    NodeId last;

    for (uint32_t n = 0; n <= all; n++) {
        FusePlan first = fuse_first_joins(w->g, w->arena, p, n, &last);
        const char *no = fuse_illegal(w->g, &first);
        if (no)
            fail_msg("%u of %u joins: %s", n, all, no);
        computes(w, &first, want, "first joins");
        assert_true(first.ngroup <= before && (n || first.ngroup == before) && (last == 0) == (n == 0));
        before = first.ngroup;
        if (n == all)
            assert_string_equal(text_of(w, p), text_of(w, &first));
    }
}

/* Apply a plan; the outputs must be what the graph of nests computes. */
static const Graph *
apply(World *w, const FusePlan *p)
{
    Tensor *want = NEW_ARRAY(w->arena, Tensor, w->g->output.n);

    run(w, w->g, want);
    const Graph *to = computes(w, p, want, "fused");
    reads_back(w, p);
    begins_everywhere(w, p, want);
    for (NodeId n = 1; n < to->node.n; n++) {
        const Kernel *k = to->node.at[n].kernel;
        assert_int_equal(to->node.at[n].callee, CALL_KERNEL);
        assert_true(kernel_verify(&w->ctx, k));
        tree_computes_parts(w, k, "x86-64-v2", SCHEDULE_PLAIN);
        tree_computes_parts(w, k, "x86-64-v4", SCHEDULE_BEST);
    }
    return to;
}

static FusePlan
greedy_plan(World *w)
{
    Machine m;

    assert_true(machine_find(&w->ctx, "x86-64-v3", &m));
    return fuse_greedy(w->g, w->arena, &m);
}

/* Every other way of making a plan: legal, the same numbers, and none that takes less by the formula than the cheapest. */
static void
other_plans(World *w)
{
    Machine m;
    double best = 0;

    assert_true(machine_find(&w->ctx, "x86-64-v3", &m));
    for (FuseMode mode = FUSE_MODE_COUNT; mode-- > 0; ) {
        FuseCertificate known;
        FusePlan p = fuse_plan(w->g, w->arena, &m, mode, NULL, &known);
        const char *no = fuse_illegal(w->g, &p);
        if (no)
            fail_msg("%s: %s", fuse_mode_name[mode], no);
        apply(w, &p);
        bool within;
        double seconds = fuse_predict(w->g, &p, &m, &within);
        if (mode == FUSE_DP) {
            best = seconds;
            assert_true(known.exact && known.seconds <= seconds * 1.000001 + 1e-11 && known.seconds >= seconds * 0.999999 - 1e-11);
        } else if (within && seconds < best * 0.999999 - 1e-11) {
            fail_msg("%s takes %g, dp %g", fuse_mode_name[mode], seconds, best);
        }
    }
}

static const Graph *
greedy(World *w)
{
    other_plans(w);
    FusePlan p = greedy_plan(w);
    const char *no = fuse_illegal(w->g, &p);
    if (no)
        fail_msg("%s", no);
    return apply(w, &p);
}

static const Kernel *
kernel_at(const Graph *g, NodeId n)
{
    assert_true(n < g->node.n);
    return g->node.at[n].kernel;
}

static uint32_t
locals(const Kernel *k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->buffer.n; i++)
        n += k->buffer.at[i].space == SPACE_LOCAL;
    return n;
}

#define CONV "nest conv(x: f32[n, 3, 6, 6], w: f32[4, 3, 3, 3]) -> (c: f32[n, 4, 6, 6]) {" \
             " c[b, k, y, z] = sum q, r, s: x[b, q, y + r - 1, z + s - 1 | 0] * w[k, q, r, s] }"
#define BIAS "nest bias(c: f32[n, 4, 6, 6], v: f32[4]) -> (d: f32[n, 4, 6, 6]) { d[b, k, y, z] = c[b, k, y, z] + v[k] }"
#define RELU "nest relu(d: f32[n, 4, 6, 6]) -> (e: f32[n, 4, 6, 6]) { e[b, k, y, z] = max(d[b, k, y, z], 0) }"

static void
convolution_bias_relu(void **state)
{
    World *w = *state;
    add(w, CONV);
    add(w, BIAS);
    add(w, RELU);
    output(w, "e");
    const Graph *g = greedy(w);
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
    const Graph *g = greedy(w);
    assert_int_equal(g->node.n, 3);              /* conv + bias, then relu */
    assert_int_equal(g->output.n, 2);
    assert_int_equal(kernel_at(g, 1)->nout, 1);
}

/* Once `same` is computed in it, `flag` reads nothing. It still stands behind `power`, which may not move into `sum`. */
static void
reading_that_simplifies_away_still_orders(void **state)
{
    World *w = *state;
    add(w, "nest power(x: f32[n, 7]) -> (s: i64[n, 7]) { s[i, j] = i64(exp(x[i, j])) }");
    add(w, "nest same(s: i64[n, 7]) -> (t: i64[n, 7]) { t[i, j] = s[i, j] }");
    add(w, "nest flag(t: i64[n, 7], s: i64[n, 7]) -> (z: f32[n, 7]) { z[i, j] = t[i, j] < s[i, j] ? 1.0 : 0.0 }");
    add(w, "nest sum(z: f32[n, 7], s: i64[n, 7]) -> (o: f32[n, 7]) { o[i, j] = z[i, j] + f32(s[i, j]) }");
    output(w, "z");
    output(w, "o");
    greedy(w);
}

#define SOFTMAX \
    "nest top(x: f32[n, 3, 7]) -> (m: f32[n, 3, 1]) { m[i, h, u] = max j: x[i, h, j] }", \
    "nest exp1(x: f32[n, 3, 7], m: f32[n, 3, 1]) -> (e: f32[n, 3, 7]) { e[i, h, j] = exp(x[i, h, j] - m[i, h, 0]) }", \
    "nest total(e: f32[n, 3, 7]) -> (s: f32[n, 3, 1]) { s[i, h, u] = sum j: e[i, h, j] }", \
    "nest divide(e: f32[n, 3, 7], s: f32[n, 3, 1]) -> (p: f32[n, 3, 7]) { p[i, h, j] = e[i, h, j] / s[i, h, 0] }"

static void
softmax_is_one_kernel(void **state)
{
    World *w = *state;
    static const char *const text[] = { SOFTMAX };
    for (int i = 0; i < 4; i++)
        add(w, text[i]);
    output(w, "p");
    const Graph *g = greedy(w);
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
        greedy(w);
}

/* A value has the type that its node gives it, in a register as in memory: what rounding took away is missing in the difference. */
static void
values_are_rounded_where_they_are_made(void **state)
{
    World *w = *state;
    add(w, "nest square(x: f32[n, 8]) -> (a: bf16[n, 8]) { a[i, j] = bf16(x[i, j] * x[i, j]) }");
    add(w, "nest half(a: bf16[n, 8]) -> (h: f16[n, 8]) { h[i, j] = f16(f32(a[i, j]) * 1.001) }");
    add(w, "nest missing(x: f32[n, 8], a: bf16[n, 8], h: f16[n, 8]) -> (d: f32[n, 8])"
           " { d[i, j] = x[i, j] * x[i, j] - f32(a[i, j]) + (f32(a[i, j]) * 1.001 - f32(h[i, j])) }");
    add(w, "nest total(d: f32[n, 8]) -> (t: f32[n]) { t[i] = sum j: d[i, j] }");
    output(w, "d");
    output(w, "t");
    const Graph *g = greedy(w);
    Tensor got[2];
    bool any = false;
    run(w, g, got);
    for (int64_t i = 0; i < tensor_count(&got[0]); i++) {
        float d = ((float *)got[0].data)[i];
        any |= d > 1e-3f || d < -1e-3f;
    }
    assert_true(any);                            /* the inputs show it */
}

/* What is read beside a value is the reader's padding, not what the maker would have made there. */
static void
padding_is_the_readers(void **state)
{
    World *w = *state;
    add(w, "nest plus(x: f32[n, 6, 6]) -> (a: f32[n, 6, 6]) { a[i, y, z] = x[i, y, z] + 3 }");
    add(w, "nest filter(w: f32[3, 3]) -> (f: f32[3, 3]) { f[r, s] = w[r, s] * 2 }");
    add(w, "nest window(a: f32[n, 6, 6], f: f32[3, 3]) -> (b: f32[n, 6, 6]) { b[i, y, z] = sum r, s: a[i, y + r - 1, z + s - 1 | 0] * f[r, s] }");
    add(w, "nest top(b: f32[n, 6, 6], f: f32[3, 3]) -> (c: f32[n, 3, 3]) { c[i, y, z] = max r<3>, s<3>: b[i, 2*y + r - 1, 2*z + s - 1 | -inf] + f[r, s] }");
    output(w, "c");
    greedy(w);
}

/* Each level reads the one before twice: expressions are shared, so none grows beyond what it says. */
static void
deep_diamonds_stay_small(void **state)
{
    World *w = *state;
    for (int k = 0; k < 30; k++) {
        add(w, arena_printf(w->arena, "nest left%d(v%d: f32[n, 8]) -> (l%d: f32[n, 8]) { l%d[i, j] = abs(v%d[i, j]) * 0.5 }", k, k, k, k, k));
        add(w, arena_printf(w->arena, "nest right%d(v%d: f32[n, 8], l%d: f32[n, 8]) -> (v%d: f32[n, 8]) { v%d[i, j] = v%d[i, j] - l%d[i, j] }",
                            k, k, k, k + 1, k + 1, k, k));
    }
    output(w, "v30");
    const Graph *g = greedy(w);
    assert_int_equal(g->node.n, 2);
    assert_true(nest_code(&w->ctx, kernel_at(g, 1)->part[0].nest) < 256);
}

static void
layer_norm_is_one_kernel(void **state)
{
    World *w = *state;
    constant(w, "eps", 1e-5f);
    constant(w, "len", 8);
    add(w, "nest mean(x: f32[n, 8], len: f32[1]) -> (mu: f32[n, 1]) { mu[i, u] = (sum j: x[i, j]) / len[0] }");
    add(w, "nest sub(x: f32[n, 8], mu: f32[n, 1]) -> (d: f32[n, 8]) { d[i, j] = x[i, j] - mu[i, 0] }");
    add(w, "nest square(d: f32[n, 8]) -> (q: f32[n, 8]) { q[i, j] = d[i, j] * d[i, j] }");
    add(w, "nest var(q: f32[n, 8], len: f32[1]) -> (a: f32[n, 1]) { a[i, u] = (sum j: q[i, j]) / len[0] }");
    add(w, "nest plus(a: f32[n, 1], eps: f32[1]) -> (b: f32[n, 1]) { b[i, u] = a[i, u] + eps[0] }");
    add(w, "nest root(b: f32[n, 1]) -> (r: f32[n, 1]) { r[i, u] = sqrt(b[i, u]) }");
    add(w, "nest div(d: f32[n, 8], r: f32[n, 1]) -> (f: f32[n, 8]) { f[i, j] = d[i, j] / r[i, 0] }");
    add(w, "nest scale(f: f32[n, 8], g: f32[8], h: f32[8]) -> (o: f32[n, 8]) { o[i, j] = f[i, j] * g[j] + h[j] }");
    output(w, "o");
    const Graph *g = greedy(w);
    assert_int_equal(g->node.n, 2);
    const Kernel *k = kernel_at(g, 1);
    assert_int_equal(k->nin, 3);                 /* x, scale, shift: one-element constants are numbers */
    assert_int_equal(k->shared, 1);
    assert_int_equal(k->npart, 4);               /* mean, difference, root of the variance, scaled */
}

static void
residual_diamond(void **state)
{
    World *w = *state;
    add(w, "nest first(x: f32[n, 8], a: f32[8, 8]) -> (p: f32[n, 8]) { p[i, j] = sum k: x[i, k] * a[k, j] }");
    add(w, "nest sigmoid1(p: f32[n, 8]) -> (q: f32[n, 8]) { q[i, j] = sigmoid(p[i, j]) }");
    add(w, "nest silu(p: f32[n, 8], q: f32[n, 8]) -> (r: f32[n, 8]) { r[i, j] = p[i, j] * q[i, j] }");
    add(w, "nest second(r: f32[n, 8], b: f32[8, 8]) -> (s: f32[n, 8]) { s[i, j] = sum k: r[i, k] * b[k, j] }");
    add(w, "nest addition(r: f32[n, 8], s: f32[n, 8]) -> (t: f32[n, 8]) { t[i, j] = r[i, j] + s[i, j] }");
    output(w, "t");
    const Graph *g = greedy(w);
    assert_int_equal(g->node.n, 3);              /* first + silu, second + addition */
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
    add(w, "nest scaled(x: f32[n, 8], s: f32[n, 1]) -> (p: f32[n, 8]) { p[i, j] = x[i, j] / s[i, 0] }");
    add(w, "nest product(p: f32[n, 8], a: f32[8, 8]) -> (q: f32[n, 8]) { q[i, j] = sum k: p[i, k] * a[k, j] }");
    add(w, "nest total2(q: f32[n, 8]) -> (r: f32[n, 1]) { r[i, u] = sum j: q[i, j] }");
    add(w, "nest join(p: f32[n, 8], q: f32[n, 8], r: f32[n, 1]) -> (t: f32[n, 8]) { t[i, j] = p[i, j] + q[i, j] / r[i, 0] }");
    output(w, "t");
    const Graph *g = greedy(w);
    assert_int_equal(g->node.n, 4);              /* rows, product, rows */
}

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
    FusePlan p = fuse_together(w->g, w->arena, node, 6);
    assert_null(fuse_illegal(w->g, &p));
    const Graph *g = apply(w, &p);
    assert_int_equal(g->node.n, 2);
    const Kernel *k = kernel_at(g, 1);
    assert_int_equal(k->shared, 2);
    assert_int_equal(k->nin, 3);
    assert_int_equal(k->nout, 1);
    assert_true(k->npart >= 6 && locals(k) == k->npart - 1);

    const Graph *apart = greedy(w);
    assert_int_equal(apart->node.n, 4);          /* product, softmax, product */

    FusePlan joint = greedy_plan(w), kept = greedy_plan(w), unknown = greedy_plan(w), own = greedy_plan(w);
    fuse_join(w->g, &joint, &(FusePrice){one_each, NULL});
    const Graph *one = apply(w, &joint);
    assert_int_equal(one->node.n, 2);
    assert_int_equal(kernel_at(one, 1)->npart, 5);           /* the division is done by the second product, after its sums */
    fuse_join(w->g, &own, &(FusePrice){less_of_parts, NULL});
    assert_int_equal(kernel_at(apply(w, &own), 1)->npart, 6);        /* … or is a part, where that takes less */
    fuse_join(w->g, &kept, &(FusePrice){squares_of_parts, NULL});
    assert_int_equal(apply(w, &kept)->node.n, 4);
    fuse_join(w->g, &unknown, &(FusePrice){not_known, NULL});
    assert_int_equal(apply(w, &unknown)->node.n, 4);
}

/* What somebody outside of the three reads is stored, so the rows are one kernel with the product that they are made of at most. */
static void
seen_rows_are_stored(void **state)
{
    World *w = *state;
    static const char *const softmax[] = { SOFTMAX };
    add(w, "nest scores(q: f32[n, 3, 4], k: f32[n, 7, 4]) -> (x: f32[n, 3, 7]) { x[i, h, j] = sum d: q[i, h, d] * k[i, j, d] }");
    for (int i = 0; i < 4; i++)
        add(w, softmax[i]);
    add(w, "nest values(p: f32[n, 3, 7], v: f32[n, 7, 4]) -> (o: f32[n, 3, 4]) { o[i, h, d] = sum j: p[i, h, j] * v[i, j, d] }");
    output(w, "o");
    output(w, "p");
    FusePlan joint = greedy_plan(w), kept = greedy_plan(w);
    fuse_join(w->g, &joint, &(FusePrice){one_each, NULL});
    const Graph *g = apply(w, &joint);
    assert_int_equal(g->node.n, 3);
    assert_int_equal(kernel_at(g, 1)->nout, 1);
    assert_int_equal(locals(kernel_at(g, 1)), kernel_at(g, 1)->npart - 1);
    fuse_join(w->g, &kept, &(FusePrice){squares_of_parts, NULL});
    assert_int_equal(apply(w, &kept)->node.n, 4);
}

/* A normalisation of what a product makes, which may be stored as well. */
static void
norm_behind_product(void **state)
{
    World *w = *state;
    add(w, "nest product(q: f32[n, 3, 4], k: f32[4, 7]) -> (x: f32[n, 3, 7]) { x[i, h, j] = sum d: q[i, h, d] * k[d, j] }");
    add(w, "nest mean(x: f32[n, 3, 7]) -> (m: f32[n, 3]) { m[i, h] = 0.125 * (sum j: x[i, h, j]) }");
    add(w, "nest norm(x: f32[n, 3, 7], m: f32[n, 3]) -> (o: f32[n, 3, 7]) { o[i, h, j] = x[i, h, j] - m[i, h] }");
    output(w, "o");
    FusePlan joint = greedy_plan(w);
    fuse_join(w->g, &joint, &(FusePrice){one_each, NULL});
    assert_int_equal(apply(w, &joint)->node.n, 2);
    output(w, "x");                              /* stored as well */
    FusePlan seen = greedy_plan(w);
    fuse_join(w->g, &seen, &(FusePrice){one_each, NULL});
    const Graph *g = apply(w, &seen);
    assert_int_equal(g->node.n, 2);
    assert_int_equal(kernel_at(g, 1)->nout, 2);
    assert_int_equal(locals(kernel_at(g, 1)), 1);
}

/* Rows read a product and what comes of it: with the first their kernel would wait for itself, with the second not. */
static void
rows_behind_what_waits_for_them(void **state)
{
    World *w = *state;
    add(w, "nest product(q: f32[n, 3, 4], k: f32[4, 7]) -> (x: f32[n, 3, 7]) { x[i, h, j] = sum d: q[i, h, d] * k[d, j] }");
    add(w, "nest other(x: f32[n, 3, 7], u: f32[7, 7]) -> (z: f32[n, 3, 7]) { z[i, h, j] = sum d: x[i, h, d] * u[d, j] }");
    add(w, "nest mean(x: f32[n, 3, 7], z: f32[n, 3, 7]) -> (m: f32[n, 3]) { m[i, h] = sum j: x[i, h, j] * exp(z[i, h, j]) }");
    output(w, "m");
    FusePlan p = greedy_plan(w);
    fuse_join(w->g, &p, &(FusePrice){one_each, NULL});
    assert_null(fuse_illegal(w->g, &p));
    assert_int_equal(p.group[2], p.group[3]);
    assert_int_not_equal(p.group[1], p.group[3]);
}

/* Products of one value are a kernel, each as it would be by itself: of other widths, with work of their own behind. One that reads what
 * comes of another is not among them. */
static void
products_of_one_value(void **state)
{
    World *w = *state;
    NodeId node[4];
    node[0] = add(w, "nest query(x: f32[n, 7, 4], a: f32[4, 18]) -> (q: f32[n, 7, 18]) { q[i, h, j] = 0.5 * (sum d: x[i, h, d] * a[d, j]) }");
    node[1] = add(w, "nest key(x: f32[n, 7, 4], b: f32[4, 6]) -> (k: f32[n, 7, 6]) { k[i, h, j] = sum d: x[i, h, d] * b[d, j] }");
    node[2] = add(w, "nest value(x: f32[n, 7, 4], c: f32[4, 6]) -> (v: f32[n, 3, 7, 2]) { v[i, h, s, j] = sum d: x[i, s, d] * c[d, 2*h + j] }");
    node[3] = add(w, "nest more(q: f32[n, 7, 18], e: f32[18, 4], x: f32[n, 7, 4]) -> (o: f32[n, 7, 4]) { o[i, h, j] = (sum d: q[i, h, d] * e[d, j]) + x[i, h, j] }");
    output(w, "q");
    output(w, "k");
    output(w, "v");
    output(w, "o");
    FusePlan joint = greedy_plan(w), kept = greedy_plan(w);
    fuse_join(w->g, &joint, &(FusePrice){one_each, NULL});
    assert_int_equal(joint.group[node[0]], joint.group[node[1]]);
    assert_int_equal(joint.group[node[0]], joint.group[node[2]]);
    assert_int_not_equal(joint.group[node[0]], joint.group[node[3]]);
    for (the_n = 0; the_n <= 5; the_n += 5) {
        const Kernel *k = kernel_at(apply(w, &joint), 1);
        assert_true(kernel_is_beside(k) && k->nin == 4 && k->nout == 3 && k->npart == 3);
        tree_computes_parts(w, k, "x86-64-v3", SCHEDULE_BEST);
    }
    fuse_join(w->g, &kept, &(FusePrice){squares_of_parts, NULL});
    assert_int_equal(apply(w, &kept)->node.n, 5);
}

/* Steps of parts that stand beside each other are those of each, in their order. */
static void
each_part_has_steps(void **state)
{
    World *w = *state;
    static const struct { const char *steps, *why; } wrong[] = {
        { "alone k\nalone q", "step 1, `alone k`: the next part is q; parts stand in their order" },
        { "alone q\nhold q at j -> a reg\nrun i parallel", "there are steps for 1 of 2 parts; `alone k` begins those of the next" },
        { "alone q\nhold q at j -> a reg\nalone k\nsplit q.j by 2 -> a b", "step 4, `split q.j by 2 -> a b`: there is no loop q.j; there are i, j, d" },
        { "order q.i q.j\nalone q", "step 2, `alone q`: steps of one part" },
    };
    add(w, "nest query(x: f32[n, 4], a: f32[4, 18]) -> (q: f32[n, 18]) { q[i, j] = sum d: x[i, d] * a[d, j] }");
    add(w, "nest key(x: f32[n, 4], b: f32[4, 6]) -> (k: f32[n, 6]) { k[i, j] = sum d: x[i, d] * b[d, j] }");
    output(w, "q");
    output(w, "k");
    FusePlan joint = greedy_plan(w);
    fuse_join(w->g, &joint, &(FusePrice){one_each, NULL});
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
    k.schedule = "alone q\nhold q at j -> a reg\nrun i parallel\nalone k\nhold k at i -> a scratch\nsplit j by 4 -> b c";      /* a part without tasks is one */
    tree_computes_parts(w, &k, "x86-64-v3", SCHEDULE_BEST);
}

static const char pooled_conv[] = "nest conv(x: f32[n, 3, 8, 8], w: f32[5, 3, 3, 3]) -> (c: f32[n, 5, 8, 8]) {"
                                  " c[i, f, y, z] = sum q, r, s: x[i, q, y + r - 1, z + s - 1 | 0] * w[f, q, r, s] }";

/* A window over what a product makes shares the images with it, and not the filters one by one. */
static void
is_pooled(World *w, const char *pool, bool rows)
{
    add(w, pooled_conv);
    add(w, pool);
    output(w, "o");
    FusePlan joint = greedy_plan(w), kept = greedy_plan(w);
    assert_int_equal(apply(w, &joint)->node.n, 3);
    fuse_join(w->g, &joint, &(FusePrice){one_each, NULL});
    assert_null(fuse_illegal(w->g, &joint));
    const Graph *g = apply(w, &joint);
    assert_int_equal(g->node.n, 2);
    assert_int_equal(kernel_at(g, 1)->npart, 2);
    assert_int_equal(kernel_at(g, 1)->shared, 1);
    assert_int_equal(locals(kernel_at(g, 1)), 1);
    fuse_join(w->g, &kept, &(FusePrice){squares_of_parts, NULL});
    assert_int_equal(apply(w, &kept)->node.n, 3);
    output(w, "c");                              /* somebody else reads it: windows that do not overlap are rows of it */
    FusePlan seen = greedy_plan(w);
    fuse_join(w->g, &seen, &(FusePrice){one_each, NULL});
    assert_int_equal(apply(w, &seen)->node.n, rows ? 2 : 3);
}

static void
window_behind_product(void **state)
{
    is_pooled(*state, "nest pool(c: f32[n, 5, 8, 8]) -> (o: f32[n, 5, 4, 4]) { o[i, f, y, z] = max r<2>, s<2>: c[i, f, 2*y + r, 2*z + s] }", true);
}

static void
window_that_overlaps_behind_product(void **state)
{
    is_pooled(*state, "nest pool(c: f32[n, 5, 8, 8]) -> (o: f32[n, 5, 4, 4]) { o[i, f, y, z] = max r<3>, s<3>: c[i, f, 2*y + r - 1, 2*z + s - 1 | 0] }", false);
}

static void
is_illegal(World *w, const FusePlan *p, const char *why)
{
    const char *got = fuse_illegal(w->g, p);
    if (!got || !strstr(got, why))
        fail_msg("expected \"%s\", got \"%s\"", why, got ? got : "no fault");
}

/* A plan is carried out as it is: no rule keeps an epilogue that the plan keeps, or the other way round. */
static void
plans_are_obeyed(void **state)
{
    World *w = *state;
    NodeId sum = add(w, "nest total(x: f32[n, 8]) -> (s: f32[n]) { s[i] = sum j: x[i, j] }");
    NodeId root = add(w, "nest root(s: f32[n]) -> (r: f32[n]) { r[i] = exp(s[i]) }");
    NodeId scale = add(w, "nest scale(x: f32[n, 8], r: f32[n]) -> (o: f32[n, 8]) { o[i, j] = x[i, j] * r[i] }");
    output(w, "o");
    FusePlan p = fuse_none(w->g, w->arena);
    p.group[sum] = p.group[root] = p.group[scale] = 1;
    p.ngroup = 1;
    is_illegal(w, &p, "Node \"total\" is to be stored for Node \"root\", which is in its group 1");
    fuse_set(w->g, &p, sum, 0, (FuseEdge){EDGE_SCRATCH, 0});
    fuse_set(w->g, &p, root, 0, (FuseEdge){EDGE_SCRATCH, 0});
    assert_null(fuse_illegal(w->g, &p));
    assert_int_equal(kernel_at(apply(w, &p), 1)->npart, 3);
    fuse_set(w->g, &p, root, 0, (FuseEdge){EDGE_INLINE, 0});     /* a function for every element: the rules would not */
    assert_null(fuse_illegal(w->g, &p));
    assert_int_equal(kernel_at(apply(w, &p), 1)->npart, 2);
}

/* Each way in which a value comes to a reader, and every reason against it, by name. */
static void
edges_are_obeyed(void **state)
{
    World *w = *state;
    NodeId a = add(w, "nest a(x: f32[n, 8, 4]) -> (a: f32[n, 8, 4]) { a[i, j, k] = x[i, j, k] + 1 }");
    NodeId b = add(w, "nest b(a: f32[n, 8, 4]) -> (b: f32[n, 8]) { b[i, j] = sum k: a[i, j, k] }");
    NodeId c = add(w, "nest c(a: f32[n, 8, 4], b: f32[n, 8]) -> (c: f32[n, 8, 4]) { c[i, j, k] = a[i, j, k] - b[i, j] }");
    NodeId d = add(w, "nest d(c: f32[n, 8, 4]) -> (d: f32[8, 4, n]) { d[j, k, i] = abs(c[i, j, k]) }");
    output(w, "c");
    output(w, "d");
    FusePlan p = fuse_none(w->g, w->arena);
    assert_int_equal(apply(w, &p)->node.n, 5);

    fuse_set(w->g, &p, a, b, (FuseEdge){EDGE_RECOMPUTE, 0});     /* stored for c, computed again for b */
    const Graph *g = apply(w, &p);
    assert_int_equal(g->node.n, 5);
    assert_string_equal(kernel_at(g, 2)->buffer.at[0].name, "x");
    fuse_set(w->g, &p, a, c, (FuseEdge){EDGE_RECOMPUTE, 0});     /* by both: nowhere */
    p.group[a] = 0;
    for (NodeId n = 1; n < w->g->node.n; n++)
        p.group[n] -= p.group[n] > 0;
    p.ngroup = 3;
    assert_int_equal(apply(w, &p)->node.n, 4);
    fuse_set(w->g, &p, a, c, (FuseEdge){EDGE_STORE, 0});
    is_illegal(w, &p, "Node \"a\" is in no group, but Node \"c\" does not recompute it");

    p = fuse_none(w->g, w->arena);
    fuse_set(w->g, &p, a, c, (FuseEdge){EDGE_SCRATCH, 0});
    is_illegal(w, &p, "Node \"a\" is to be kept in scratch for Node \"c\", which is in group 3, not in its group 1");
    fuse_set(w->g, &p, a, c, (FuseEdge){EDGE_INLINE, 0});
    is_illegal(w, &p, "Node \"a\" is to be inlined for Node \"c\", which is in group 3, not in its group 1");
    p.group[a] = p.group[b] = p.group[c] = 1;
    p.group[d] = p.ngroup = 2;
    fuse_set(w->g, &p, a, b, (FuseEdge){EDGE_SCRATCH, 0});
    fuse_set(w->g, &p, b, c, (FuseEdge){EDGE_SCRATCH, 0});
    is_illegal(w, &p, "%a is to be computed in %c alone, but %b reads it as well");
    fuse_set(w->g, &p, a, c, (FuseEdge){EDGE_SCRATCH, 0});
    assert_int_equal(kernel_at(apply(w, &p), 1)->shared, 2);
    fuse_set(w->g, &p, a, b, (FuseEdge){EDGE_SCRATCH, 1});       /* for each trip of one axis */
    assert_int_equal(kernel_at(apply(w, &p), 1)->shared, 1);
    fuse_set(w->g, &p, a, b, (FuseEdge){EDGE_SCRATCH, 3});
    is_illegal(w, &p, "kept for each trip of 3 outer axes, but its parts share 2");
    fuse_set(w->g, &p, a, b, (FuseEdge){EDGE_SCRATCH, 0});
    fuse_set(w->g, &p, c, d, (FuseEdge){EDGE_INLINE, 0});
    p.group[d] = p.ngroup = 1;
    is_illegal(w, &p, "%c is to be computed in %d alone, but is an output of the model");
    fuse_set(w->g, &p, c, d, (FuseEdge){EDGE_SCRATCH, 0});
    is_illegal(w, &p, "share no outer axis");
}

static void
what_cannot_be_inlined(void **state)
{
    World *w = *state;
    NodeId a = add(w, "nest a(x: f32[8], i: i32[n], u: f32[n]) -> (a: f32[8]) { for j<n>: a[at(i[j], 8)] sum= u[j] over x }");
    NodeId b = add(w, "nest b(a: f32[8]) -> (b: f32[8]) { b[j] = exp(a[j]) }");
    output(w, "b");
    FusePlan p = fuse_none(w->g, w->arena);
    p.group[a] = p.group[b] = p.ngroup = 1;
    fuse_set(w->g, &p, a, b, (FuseEdge){EDGE_INLINE, 0});
    is_illegal(w, &p, "%a cannot be computed where %b reads it");
}

static void
views_are_copied(void **state)
{
    World *w = *state;
    add(w, "nest relu(x: f32[n, 8]) -> (a: f32[n, 8]) { a[i, j] = max(x[i, j], 0) }");
    add(w, "nest turn(a: f32[n, 8]) -> (b: f32[8, n]) { b[j, i] = a[i, j] }");
    add(w, "nest product(b: f32[8, n], y: f32[n, 4]) -> (c: f32[8, 4]) { c[i, j] = sum k: b[i, k] * y[k, j] }");
    add(w, "nest exp1(b: f32[8, n]) -> (d: f32[8, n]) { d[i, j] = exp(b[i, j]) }");
    output(w, "c");
    output(w, "d");
    const Graph *g = greedy(w);
    assert_int_equal(g->node.n, 4);              /* relu stays (two read it), turn is nowhere */
    for (NodeId n = 1; n < g->node.n; n++)
        assert_null(strstr(kernel_at(g, n)->name, "turn"));
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
    const Graph *g = greedy(w);
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
            snprintf(text, sizeof text, "nest ew%u(v%u: f32[n, 5]) -> (v%u: f32[n, 5]) { v%u[i, j] = tanh(v%u[i, j]) }", k, a, k, k, a);
            break;
        case 1:
            snprintf(text, sizeof text, "nest row%u(v%u: f32[n, 5]) -> (r%u: f32[n, 1]) { r%u[i, u] = max j: v%u[i, j] }", k, a, k, k, a);
            add(w, text);
            snprintf(text, sizeof text, "nest back%u(v%u: f32[n, 5], r%u: f32[n, 1]) -> (v%u: f32[n, 5]) { v%u[i, j] = v%u[i, j] - r%u[i, 0] }", k, a, k, k, k, a, k);
            break;
        case 2:
            snprintf(text, sizeof text, "nest mm%u(v%u: f32[n, 5], w%u: f32[5, 5]) -> (v%u: f32[n, 5]) { v%u[i, j] = 0.125 * sum k: v%u[i, k] * w%u[k, j] }", k, a, k, k, k, a, k);
            break;
        case 3:
            snprintf(text, sizeof text, "nest flip%u(v%u: f32[n, 5]) -> (v%u: f32[n, 5]) { v%u[i, j] = v%u[i, 4 - j] }", k, a, k, k, a);
            break;
        case 4:
            snprintf(text, sizeof text, "nest pad%u(v%u: f32[n, 5]) -> (v%u: f32[n, 5]) { v%u[i, j] = max r<3>: v%u[i, j + r - 1 | 0] }", k, a, k, k, a);
            break;
        default:
            if (a == b)
                snprintf(text, sizeof text, "nest sq%u(v%u: f32[n, 5]) -> (v%u: f32[n, 5]) { v%u[i, j] = 0.5 * v%u[i, j] }", k, a, k, k, a);
            else
                snprintf(text, sizeof text, "nest add%u(v%u: f32[n, 5], v%u: f32[n, 5]) -> (v%u: f32[n, 5]) { v%u[i, j] = v%u[i, j] - 0.5 * v%u[i, j] }", k, a, b, k, k, a, b);
            break;
        }
        add(w, text);
    }
    for (unsigned k = 0; k < 10; k++) {      /* what nothing reads is an output, and one more */
        snprintf(text, sizeof text, "v%u", k);
        ValueId v = value_named(w->g, text);
        if (graph_uses(w->g, w->arena)[v] == 0 || BELOW(8) == 0)
            output(w, text);
    }
    *state = seed;
}

/* Any plan of greedy, and of every other mode, is legal and right. */
static void
random_graphs(void **state)
{
    uint32_t seed = 11;

    for (int round = 0; round < rounds(40); round++) {
        random_graph(*state, &seed);
        greedy(*state);
    }
}

/* No mode's plan takes less than the cheapest, by the formula that it is the cheapest by. */
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
        double seconds = fuse_predict(w->g, &best, &m, &within);
        assert_true(known.exact && within);
        for (FuseMode mode = FUSE_NONE; mode < FUSE_DP; mode++) {
            FuseCertificate other;
            FusePlan p = fuse_plan(w->g, w->arena, &m, mode, NULL, &other);
            double its = fuse_predict(w->g, &p, &m, &within);
            compared += within;
            if (within && its < seconds * 0.999999 - 1e-11)
                fail_msg("graph %d: %s takes %g, dp %g", round, fuse_mode_name[mode], its, seconds);
        }
    }
    assert_true((int)compared > rounds(3000));
}

/* One value in two parameters of its reader: both reads see what it is computed from. */
static void
one_value_read_as_two(void **state)
{
    World *w = *state;
    add(w, "nest twice(x: f32[n, 4]) -> (y: f32[n, 4]) { y[i, j] = 2.0 * x[i, j] }");
    add(w, "nest concat(a: f32[n, 4], b: f32[n, 4]) -> (o: f32[n, 8]) { o[i, j] = j < 4 ? a[i, j] : b[i, j - 4] }");
    ValueId y = value_named(w->g, "y");
    Span in = w->g->node.at[2].in;
    w->g->ref.at[in.first] = w->g->ref.at[in.first + 1] = y;
    output(w, "o");
    assert_int_equal(greedy(w)->node.n, 2);
}

/* A product reads what a concatenation would copy from where its pieces lie; not where they begin between the lanes of a vector. */
static uint32_t
groups_of_pieces(World *w, int first)
{
    Machine m;
    FuseCertificate known;

    assert_true(machine_find(&w->ctx, "x86-64-v3", &m));
    add(w, arena_printf(w->arena, "nest concat(a: f32[n, 256, %d], b: f32[n, 256, %d]) -> (c: f32[n, 256, 64]) { c[i, j, k] = k < %d ? a[i, j, k] : b[i, j, k - %d] }",
                        first, 64 - first, first, first));
    add(w, "nest product(c: f32[n, 256, 64], v: f32[64, 32]) -> (o: f32[n, 256, 32]) { o[i, j, l] = sum k: c[i, j, k] * v[k, l] }");
    output(w, "o");
    other_plans(w);
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

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, world_end)
    const struct CMUnitTest tests[] = {
        TEST(convolution_bias_relu), TEST(visible_values_stay), TEST(reading_that_simplifies_away_still_orders),
        TEST(softmax_is_one_kernel), TEST(layer_norm_is_one_kernel), TEST(open_sizes_may_be_nothing), TEST(values_are_rounded_where_they_are_made),
        TEST(padding_is_the_readers), TEST(deep_diamonds_stay_small),
        TEST(residual_diamond), TEST(cyclic_groups_are_illegal), TEST(rows_do_not_close_cycles), TEST(attention_in_one_kernel),
        TEST(seen_rows_are_stored), TEST(norm_behind_product), TEST(rows_behind_what_waits_for_them), TEST(products_of_one_value), TEST(each_part_has_steps), TEST(window_behind_product), TEST(window_that_overlaps_behind_product), TEST(plans_are_obeyed),
        TEST(views_are_copied), TEST(edges_are_obeyed), TEST(what_cannot_be_inlined), TEST(epilogue_before_prologue), TEST(baseline_is_one_kernel_each), TEST(one_value_read_as_two),
        TEST(pieces_are_read_where_they_lie), TEST(torn_pieces_are_copied),
        TEST(random_graphs),
        TEST(none_is_cheaper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
