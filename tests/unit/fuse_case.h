/* Small graphs of nests, plans for them, and what becomes of each: legal, the same numbers as the
 * nests', the same text when read again. */
#ifndef TEST_FUSE_CASE_H
#define TEST_FUSE_CASE_H

#include "fuse/internal.h"
#include "fuse/sets.h"
#include "ref/ref.h"
#include "schedule/schedule.h"

#define WORLD_FIELDS Graph *g;
#include "support/support.h"
#include "world.h"

#include <stdio.h>

static int64_t the_n; /* the symbol n of all graphs */

static inline int
setup(void **state)
{
    world_begin(state);
    World *w = *state;
    the_n = 5;
    w->g = graph_new(&w->ctx, w->arena, "t");
    return 0;
}

static inline ValueId
value_named(const Graph *g, const char *name)
{
    for (ValueId v = 1; v < g->value.n; v++)
        if (!strcmp(g->value.at[v].name, name))
            return v;
    return 0;
}

/* A node from a nest's text: parameters are values of these names, inputs are made when first
 * met. */
static inline NodeId
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
    return graph_call_nest(w->g, n, (Loc){ 0 }, sym_printf(&w->ctx, "Node \"%s\"", n->name), value,
                           value + n->nin);
}

static inline void
output(World *w, const char *name)
{
    VEC_PUSH(w->arena, &w->g->output, value_named(w->g, name));
}

static inline void
constant(World *w, const char *name, float v)
{
    float *data = NEW(w->arena, float);
    const Expr *one = expr_int(&w->ctx, 1);
    *data = v;
    graph_const(w->g, name, type_new(&w->ctx, DT_F32, 1, &one), data);
}

static inline void
fill(Tensor *t, uint32_t seed)
{
    for (int64_t k = 0; k < tensor_count(t); k++)
        if (t->dtype == DT_F32)
            ((float *)t->data)[k] =
                (float)((int)((uint32_t)(k * 2654435761u + seed * 97u) >> 9 & 255) - 128) / 64;
}

static inline void
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

static inline void
same_numbers(const Tensor *want, const Tensor *got, const char *what)
{
    assert_int_equal(tensor_count(want), tensor_count(got));
    if (want->dtype != DT_F32) {
        assert_memory_equal(want->data, got->data,
                            (size_t)tensor_count(want) * dtype_info[want->dtype].bytes);
        return;
    }
    for (int64_t i = 0; i < tensor_count(want); i++) {
        float x = ((float *)want->data)[i], y = ((float *)got->data)[i], d = x - y;
        if (!(x == y || (x != x && y != y) || (d < 1e-4f && d > -1e-4f)))
            fail_msg("%s: element %d is %g, was %g", what, (int)i, y, x);
    }
}

/* The loop tree of a group must compute what its parts do, one after the other. */
static inline void
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
static inline const Graph *
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

static inline const char *
text_of(World *w, const FusePlan *p)
{
    Text t = { .arena = w->arena };

    fuse_print_plan(w->g, &t, p);
    return text_str(&t);
}

static inline FusePlan
plan_of_text(World *w, const char *text)
{
    Parse parse = parse_begin(&w->ctx, "plan", (Bytes){ (const uint8_t *)text, strlen(text) });
    FusePlan p;

    if (!fuse_parse_plan(w->g, w->arena, &parse, &p))
        fail_msg("%s\n%s", text, world_messages(w));
    assert_true(parse_end(&parse));
    return p;
}

/* Printed and read again, a plan is the same. */
static inline void
reads_back(World *w, const FusePlan *p)
{
    const char *text = text_of(w, p);
    FusePlan again = plan_of_text(w, text);

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

/* Each of a plan's beginnings is a plan, from every node alone to all of it; one join more is never
 * a kernel more. */
static inline void
begins_everywhere(World *w, const FusePlan *p, const Tensor *want)
{
    uint32_t all = fuse_merges(w->g, p), before = w->g->node.n - 1;
    NodeId last;

    for (uint32_t n = 0; n <= all; n++) {
        FusePlan first = fuse_first_merges(w->g, w->arena, p, n, &last);
        const char *no = fuse_illegal(w->g, &first);
        if (no)
            fail_msg("%u of %u joins: %s", n, all, no);
        computes(w, &first, want, "first joins");
        assert_true(first.ngroup <= before && (n || first.ngroup == before) &&
                    (last == 0) == (n == 0));
        before = first.ngroup;
        if (n == all)
            assert_string_equal(text_of(w, p), text_of(w, &first));
    }
}

/* Apply a plan; the outputs must be what the graph of nests computes. */
static inline const Graph *
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

static inline FusePlan
cheapest_plan(World *w)
{
    Machine m;

    assert_true(machine_find(&w->ctx, "x86-64-v3", &m));
    return fuse_dp(w->g, w->arena, &m, NULL, NULL);
}

/* Could fuse_dp have found this group: is it a kernel, and connected by reads? node: ascending. */
static inline bool
is_found(const FuseNodes *s, const NodeId *node, uint32_t n, const GroupPrice *price)
{
    uint32_t *root = NEW_ARRAY(s->scratch, uint32_t, s->g->node.n), left = n;

    for (NodeId i = 0; i < s->g->node.n; i++)
        root[i] = i;
    for (uint32_t k = 0; k < n; k++) {
        const FusedCall *c = &s->f.call[node[k]];
        for (uint32_t i = 0; i < c->nest->nin; i++) {
            NodeId def = s->g->value.at[c->value[i]].def;
            if (fuse_is_among(node, n, def))
                left -= sets_unite(root, def, node[k]);
        }
    }
    return left == 1 && n <= FUSE_MOST_MEMBERS && (n == 1 || !price->no);
}

/* Predicted seconds of a plan by the formula that fuse_dp minimises; *within: fuse_dp could have
 * found each of its groups. */
static inline double
predict(World *w, const FusePlan *p, const Machine *m, bool *within)
{
    FuseNodes s = fuse_nodes(w->g, w->arena, &fuse_rules_views);
    Pricing *pricing = fuse_pricing(&s.f, w->arena, m);
    uint32_t *group = NEW_ARRAY(w->arena, uint32_t, s.n + 1), ngroup = p->ngroup;
    double sum = 0;

    *within = true;
    for (uint32_t i = 0; i < s.n; i++)
        group[i] = p->group[s.node[i]] ? p->group[s.node[i]] : ++ngroup;
    Groups all = fuse_members(&s, group, ngroup);
    for (uint32_t k = 1; k <= ngroup; k++) {
        const NodeId *node = all.node + all.first[k];
        uint32_t n = all.first[k + 1] - all.first[k];
        if (!n)
            continue;
        GroupPrice price = fuse_group_price(pricing, node, n);
        *within = *within && is_found(&s, node, n, &price);
        sum += price.seconds;
    }
    return sum;
}

/* Every way of making a plan: legal, the same numbers, and none that takes less by the formula than
 * the cheapest. */
static inline void
every_plan(World *w)
{
    Machine m;
    double best = 0;

    assert_true(machine_find(&w->ctx, "x86-64-v3", &m));
    for (FuseMode mode = FUSE_MODE_COUNT; mode-- > 0;) {
        FuseCertificate known;
        FusePlan p = fuse_plan(w->g, w->arena, &m, mode, NULL, &known);
        const char *no = fuse_illegal(w->g, &p);
        if (no)
            fail_msg("%s: %s", fuse_mode_name[mode], no);
        apply(w, &p);
        bool within;
        double seconds = predict(w, &p, &m, &within);
        if (mode == FUSE_DP) {
            best = seconds;
            assert_true(known.exact && known.seconds <= seconds * 1.000001 + 1e-11 &&
                        known.seconds >= seconds * 0.999999 - 1e-11);
        } else if (within && seconds < best * 0.999999 - 1e-11) {
            fail_msg("%s takes %g, dp %g", fuse_mode_name[mode], seconds, best);
        }
    }
}

static inline const Graph *
cheapest(World *w)
{
    every_plan(w);
    FusePlan p = cheapest_plan(w);
    return apply(w, &p);
}

static inline const Kernel *
kernel_at(const Graph *g, NodeId n)
{
    assert_true(n < g->node.n);
    return g->node.at[n].kernel;
}

static inline uint32_t
locals(const Kernel *k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->buffer.n; i++)
        n += k->buffer.at[i].space == SPACE_LOCAL;
    return n;
}

#define SOFTMAX                                                                                    \
    "nest top(x: f32[n, 3, 7]) -> (m: f32[n, 3, 1]) { m[i, h, u] = max j: x[i, h, j] }",           \
        "nest exp1(x: f32[n, 3, 7], m: f32[n, 3, 1]) -> (e: f32[n, 3, 7]) { e[i, h, j] = "         \
        "exp(x[i, h, j] - m[i, h, 0]) }",                                                          \
        "nest total(e: f32[n, 3, 7]) -> (s: f32[n, 3, 1]) { s[i, h, u] = sum j: e[i, h, j] }",     \
        "nest divide(e: f32[n, 3, 7], s: f32[n, 3, 1]) -> (p: f32[n, 3, 7]) { p[i, h, j] = e[i, "  \
        "h, j] / s[i, h, 0] }"

#endif
