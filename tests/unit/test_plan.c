/* plan: no two live values share a byte, in place only where it is safe, arenas close to the
 * least. */
#include "plan/internal.h"

#define WORLD_FIELDS uint64_t seed;
#include "world.h"

static int
begin(void **state)
{
    world_begin(state);
    World *w = *state;
    w->seed = 11;
    return 0;
}

static const Type *
vector(Ctx *c, const Expr *n)
{
    return type_new(c, DT_F32, 1, &n);
}

/* ---- small kernels --------------------------------------------------------------------------- */

/* An unscheduled kernel of one nest, called on `in`; its one result has the nest's type. */
static ValueId
call(Graph *g, const Nest *n, const ValueId *in)
{
    assert_non_null(n);
    Kernel *k = kernel_of_nest(g->ctx, g->arena, n);
    ValueId out = graph_value(g, "v", n->param[n->nin].type);
    graph_call_kernel(g, k, (Loc){ 0 }, NULL, in, &out);
    return out;
}

/* o[i] = -x[i] */
static ValueId
negate(Graph *g, ValueId x)
{
    NestBuilder b = nest_begin(g->ctx, "negate");
    const Type *t = g->value.at[x].type;
    const Expr *i[TN_MAX_RANK];
    uint32_t slot = nest_in(&b, "x", t), out = nest_out(&b, "o", t);

    nest_axes_of(&b, t, i);
    nest_write(&b, out, i, scalar_1(g->ctx, S_NEG, nest_load(&b, slot, i)));
    return call(g, nest_finish(&b), &x);
}

/* o[i] = x[n - 1 - i] */
static ValueId
reverse(Graph *g, ValueId x)
{
    NestBuilder b = nest_begin(g->ctx, "reverse");
    const Type *t = g->value.at[x].type;
    const Expr *i;
    uint32_t slot = nest_in(&b, "x", t), out = nest_out(&b, "o", t);

    nest_axes_of(&b, t, &i);
    const Expr *back = expr_sub(g->ctx, expr_offset(g->ctx, t->dim[0], -1), i);
    nest_write(&b, out, &i, nest_load(&b, slot, &back));
    return call(g, nest_finish(&b), &x);
}

/* o[i] = x[i] * sum k: x[k]   reads the point it writes, and all others */
static ValueId
spread(Graph *g, ValueId x)
{
    NestBuilder b = nest_begin(g->ctx, "spread");
    const Type *t = g->value.at[x].type;
    const Expr *i, *k;
    uint32_t slot = nest_in(&b, "x", t), out = nest_out(&b, "o", t);

    nest_axes_of(&b, t, &i);
    k = nest_axis(&b, "k", AXIS_REDUCE, t->dim[0]);
    const Scalar *each = nest_load(&b, slot, &k);
    const Scalar *sum = scalar_reduce(g->ctx, COMB_SUM, axis_bit(k), &each, 1);
    nest_write(&b, out, &i, scalar_2(g->ctx, S_MUL, nest_load(&b, slot, &i), sum));
    return call(g, nest_finish(&b), &x);
}

/* o[i] = x[0] + y[0] of any sizes: reads two values at points it does not write */
static ValueId
mix(Graph *g, ValueId x, ValueId y, const Type *t)
{
    NestBuilder b = nest_begin(g->ctx, "mix");
    const Expr *i, *zero = expr_int(g->ctx, 0);
    uint32_t sx = nest_in(&b, "x", g->value.at[x].type), sy = nest_in(&b, "y", g->value.at[y].type);
    uint32_t out = nest_out(&b, "o", t);

    nest_axes_of(&b, t, &i);
    nest_write(&b, out, &i,
               scalar_2(g->ctx, S_ADD, nest_load_or(&b, sx, &zero, scalar_float(g->ctx, DT_F32, 0)),
                        nest_load_or(&b, sy, &zero, scalar_float(g->ctx, DT_F32, 0))));
    return call(g, nest_finish(&b), (ValueId[]){ x, y });
}

/* ---- the check ------------------------------------------------------------------------------- */

static bool
same_for_all(void *user, Var v, int64_t *out)
{
    (void)v;
    *out = *(int64_t *)user;
    return true;
}

static int64_t
at_symbol(const Expr *e, int64_t symbol)
{
    int64_t v;

    assert_non_null(e);
    assert_true(expr_eval(e, same_for_all, &symbol, &v));
    return v;
}

/* Every pair of arena values that live at once is apart, unless one is the other in place. */
static void
check_plan(const Graph *g, const Plan *p, int64_t symbol)
{
    NodeId *last = NEW_ARRAY(g->arena, NodeId, g->value.n);
    int64_t size = at_symbol(p->arena_bytes, symbol);

    for (NodeId n = 1; n < g->node.n; n++)
        for (uint32_t i = 0; i < g->node.at[n].in.count; i++)
            last[node_in(g, &g->node.at[n], i)] = n;
    for (ValueId a = 1; a < g->value.n; a++) {
        const Placement *pa = &p->value[a];
        if (pa->place != PLACE_ARENA)
            continue;
        int64_t begin_a = at_symbol(pa->offset, symbol),
                end_a = begin_a + at_symbol(pa->bytes, symbol);
        assert_true(begin_a >= 0 && begin_a % 64 == 0 && end_a <= size);
        for (ValueId b = 1; b < a; b++) {
            const Placement *pb = &p->value[b];
            NodeId first_a = g->value.at[a].def, first_b = g->value.at[b].def;
            NodeId last_a = last[a] > first_a ? last[a] : first_a,
                   last_b = last[b] > first_b ? last[b] : first_b;
            if (pb->place != PLACE_ARENA || first_a > last_b || first_b > last_a)
                continue;
            int64_t begin_b = at_symbol(pb->offset, symbol),
                    end_b = begin_b + at_symbol(pb->bytes, symbol);
            bool apart =
                end_a <= begin_b || end_b <= begin_a || begin_a == end_a || begin_b == end_b;
            bool taken = (pa->in_place && first_a == last_b) || (pb->in_place && first_b == last_a);
            assert_true(apart || (taken && begin_a == begin_b && end_a == end_b));
        }
    }
}

static void
in_place(void **state)
{
    World *w = *state;
    Ctx *c = &w->ctx;
    Graph *g = graph_new(c, w->arena, "chain");
    ValueId x = graph_input(g, "x", vector(c, expr_symbol(c, "n")));
    ValueId a = negate(g, x), b = negate(g, a), d = reverse(g, b), e = spread(g, d),
            f = negate(g, e), h = mix(g, e, f, g->value.at[x].type);
    ValueId y = negate(g, h);
    VEC_PUSH(g->arena, &g->output, y);
    Plan *p = plan_memory(g)->plan.at[0];

    assert_int_equal(p->value[x].place, PLACE_INPUT);
    assert_false(p->value[a].in_place); /* x is the caller's */
    assert_true(p->value[b].in_place);
    assert_ptr_equal(p->value[a].offset, p->value[b].offset);
    assert_false(p->value[d].in_place); /* reads other points */
    assert_false(p->value[e].in_place); /* reads all points */
    assert_false(p->value[f].in_place); /* e is read again */
    assert_int_equal(p->value[y].place, PLACE_OUTPUT);
    for (int64_t n = 0; n < 200; n += 7)
        check_plan(g, p, n);
}

/* x -> a -> b, both negated, the second with this loop: for i { first; b[i] = value }. Is b over
 * a? */
static bool
in_place_with_tree(World *w, bool copy_first, bool read_back, int64_t shift)
{
    Ctx *c = &w->ctx;
    Graph *g = graph_new(c, w->arena, "tree");
    const Type *t = vector(c, expr_int(c, 64));
    ValueId a = negate(g, graph_input(g, "x", t)), b = negate(g, a);
    VEC_PUSH(g->arena, &g->output, negate(g, b));
    Kernel *k = g->node.at[g->value.at[b].def].kernel;
    uint32_t var;

    k->tree.arena = w->arena;
    Block *body =
        tree_loop(k, &k->tree, LOOP_SERIAL, sym(c, "i"), expr_int(c, 0), expr_int(c, 64), 1, &var);
    const Expr *at = expr_loop(c, var), *from = expr_offset(c, at, shift);
    uint32_t source = 0;
    if (copy_first) {
        source = kernel_buffer(c, w->arena, k, "copy", t, SPACE_SCRATCH, 1);
        tree_store(body, source, 1, &at, scalar_load(c, DT_F32, 0, 1, &at, NULL));
    }
    const Scalar *value = scalar_1(c, S_NEG, scalar_load(c, DT_F32, source, 1, &from, NULL));
    if (read_back)
        value = scalar_2(c, S_ADD, value, scalar_load(c, DT_F32, 1, 1, &at, NULL));
    tree_store(body, 1, 1, &at, value);
    return plan_memory(g)->plan.at[0]->value[b].in_place;
}

static void
in_place_scheduled(void **state)
{
    assert_true(in_place_with_tree(*state, false, false, 0));
    assert_false(in_place_with_tree(*state, true, false, 0));  /* a packing copy */
    assert_false(in_place_with_tree(*state, false, true, 0));  /* sums in the output */
    assert_false(in_place_with_tree(*state, false, false, 1)); /* another element */
}

static void
outputs_and_weights(void **state)
{
    World *w = *state;
    Ctx *c = &w->ctx;
    static const float data[5] = { 1, 2, 3, 4, 5 }, more[5] = { 6, 7, 8, 9, 10 };
    Graph *g = graph_new(c, w->arena, "outs");
    const Type *t = vector(c, expr_int(c, 5));
    ValueId x = graph_input(g, "x", t), k1 = graph_const(g, "k1", t, data),
            k2 = graph_const(g, "k2", t, more);
    ValueId unused = graph_const(g, "unused", t, data);
    ValueId y = mix(g, x, k2, t), z = mix(g, y, k1, t);
    ValueId outputs[] = { y, x, y, k1 };
    for (int i = 0; i < 4; i++)
        VEC_PUSH(g->arena, &g->output, outputs[i]);
    ModelPlan *model = plan_memory(g);
    Plan *p = model->plan.at[0];
    Text text = { .arena = w->arena };

    assert_int_equal(p->value[y].place, PLACE_OUTPUT);
    assert_int_equal(p->value[y].index, 0);
    assert_int_equal(p->value[z].place, PLACE_ARENA);
    assert_int_equal(p->copy.n, 3);
    assert_int_equal(p->copy.at[0].from, x);
    assert_int_equal(p->copy.at[0].output, 1);
    assert_int_equal(p->copy.at[1].from, y);
    assert_int_equal(p->copy.at[2].from, k1);
    assert_int_equal(model->weight.n, 2);
    assert_ptr_equal(model->weight.at[0].value, &g->value.at[k2]); /* first read first */
    assert_true(expr_is(p->value[k2].offset, 0) && expr_is(p->value[k1].offset, 64));
    assert_int_equal(model->weights_bytes, 128);
    assert_null(p->value[unused].bytes);
    plan_print(&text, model);
    assert_non_null(strstr(text_str(&text), "plan @outs: arena 64 bytes, weights 128 bytes"));
    assert_non_null(strstr(text_str(&text), "copy %x to output 1"));
}

/* With 100 rows. */
static int64_t
place_of(const Graph *g, const Plan *p, const char *name)
{
    ValueId v = 1;

    while (strcmp(g->value.at[v].name, name))
        v++;
    return at_symbol(p->value[v].offset, 100);
}

/* Values side by side in a third share its block, from the first that is made to the last that is
 * read; nothing is written over them. */
static void
within_another(void **state)
{
    static const char text[] =
        "graph @g(%x: f32[n, 6]) -> (%y) {"
        "  %a: f32[n, 2] = call(%x) kernel k(x: f32[n, 6]) -> (o: f32[n, 2] in f32[n, 9]) { part x "
        "-> o nest k(x: f32[n, 6]) -> (o: f32[n, 2]) { o[i, j] = x[i, j] } }"
        "  %t: f32[n, 6] = call(%x) kernel k(x: f32[n, 6]) -> (o: f32[n, 6]) { part x -> o nest "
        "k(x: f32[n, 6]) -> (o: f32[n, 6]) { o[i, j] = -x[i, j] } }"
        "  %b: f32[n, 6] = call(%t) kernel k(x: f32[n, 6]) -> (o: f32[n, 6] in f32[n, 9]) { part x "
        "-> o nest k(x: f32[n, 6]) -> (o: f32[n, 6]) { o[i, j] = -x[i, j] } }"
        "  %ab: f32[n, 8] = join(%a, %b) along 1"
        "  %c: f32[n, 1] = call(%t) kernel k(x: f32[n, 6]) -> (o: f32[n, 1] in f32[n, 9]) { part x "
        "-> o nest k(x: f32[n, 6]) -> (o: f32[n, 1]) { o[i, j] = x[i, j + 5] } }"
        "  %d: f32[n, 6] = call(%b) kernel k(x: f32[n, 6] in f32[n, 9]) -> (o: f32[n, 6]) { part x "
        "-> o nest k(x: f32[n, 6]) -> (o: f32[n, 6]) { o[i, j] = -x[i, j] } }"
        "  %abc: f32[n, 9] = join(%ab, %c) along 1"
        "  %e: f32[n, 9] = call(%abc) kernel k(x: f32[n, 9]) -> (o: f32[n, 9]) { part x -> o nest "
        "k(x: f32[n, 9]) -> (o: f32[n, 9]) { o[i, j] = -x[i, j] } }"
        "  %y: f32[n, 6] = call(%d, %e) kernel k(x: f32[n, 6], z: f32[n, 9]) -> (o: f32[n, 6]) { "
        "part x, z -> o"
        "    nest k(x: f32[n, 6], z: f32[n, 9]) -> (o: f32[n, 6]) { o[i, j] = x[i, j] + z[i, j + "
        "3] } }"
        "}";
    World *w = *state;
    Graph *g =
        graph_parse(&w->ctx, w->arena, "within", (Bytes){ (const uint8_t *)text, sizeof text - 1 });

    if (!g)
        fail_msg("%s", world_messages(w));
    Plan *p = plan_memory(g)->plan.at[0];
    int64_t whole = place_of(g, p, "abc"); /* columns 0 to 1 of a, 2 to 7 of b, 8 of c */
    assert_int_equal(whole % 64, 0);
    assert_int_equal(place_of(g, p, "a"), whole);
    assert_int_equal(place_of(g, p, "b"), whole + 8);
    assert_int_equal(place_of(g, p, "ab"), whole);
    assert_int_equal(place_of(g, p, "c"), whole + 32);
    static const char *const other[] = { "t", "d", "e" };
    for (int i = 0; i < 3; i++)
        assert_true(place_of(g, p, other[i]) >= whole + 3600 ||
                    place_of(g, p, other[i]) + 2400 <= whole);
    for (ValueId v = 1; v < g->value.n; v++)
        assert_false(p->value[v].in_place);
}

static void
random_graphs(void **state)
{
    World *w = *state;
    Ctx *c = &w->ctx;

    for (int trial = 0; trial < 60; trial++) {
        Graph *g = graph_new(c, w->arena, "random");
        const Expr *n = expr_symbol(c, "n"), *m = expr_symbol(c, "m");
        const Expr *size[] = { expr_int(c, 300),       expr_int(c, 7),       expr_scale(c, n, 512),
                               expr_scale(c, n, 2048), expr_offset(c, n, 3), expr_mul(c, n, m),
                               expr_scale(c, m, 16),   expr_int(c, 4096) };
        uint32_t kinds = trial % 3 == 0 ? 2 : 8;
        graph_input(g, "x", vector(c, expr_int(c, 1000)));
        graph_input(g, "y", vector(c, size[random_below(&w->seed, kinds)]));
        for (int k = 0; k < 25; k++) {
            ValueId recent =
                g->value.n - 1 - random_below(&w->seed, g->value.n < 8 ? g->value.n - 1 : 7);
            ValueId any = 1 + random_below(&w->seed, g->value.n - 1);
            if (random_below(&w->seed, 3) == 0)
                negate(g, recent);
            else
                mix(g, recent, any, vector(c, size[random_below(&w->seed, kinds)]));
        }
        VEC_PUSH(g->arena, &g->output, g->value.n - 1);
        Plan *p = plan_memory(g)->plan.at[0];
        for (int64_t v = 0; v < 70; v += 23)
            check_plan(g, p, v);
    }
}

/* The most bytes live at once: no packing is smaller. */
static int64_t
max_live(const PackItem *item, uint32_t n)
{
    int64_t most = 0;

    for (uint32_t i = 0; i < n; i++) {
        int64_t live = 0;
        for (uint32_t k = 0; k < n; k++)
            live +=
                item[k].first <= item[i].first && item[i].first <= item[k].last ? item[k].size : 0;
        most = live > most ? live : most;
    }
    return most;
}

static void
close_to_least(void **state)
{
    World *w = *state;
    int64_t total = 0, least = 0;

    for (int trial = 0; trial < 200; trial++) {
        PackItem item[40];
        for (uint32_t i = 0; i < 40; i++) {
            NodeId first = 1 + random_below(&w->seed, 40);
            item[i] = (PackItem){ 64 * (1 + (int64_t)random_below(&w->seed, 100)), first,
                                  first + 1 + random_below(&w->seed, 4), 0 };
        }
        int64_t arena = plan_pack(w->arena, item, 40), live = max_live(item, 40);
        assert_true(arena >= live);
        total += arena;
        least += live;
        for (uint32_t i = 0; i < 40; i++)
            for (uint32_t k = 0; k < i; k++)
                assert_true(item[i].first > item[k].last || item[k].first > item[i].last ||
                            item[i].offset + item[i].size <= item[k].offset ||
                            item[k].offset + item[k].size <= item[i].offset);
    }
    assert_true(total * 100 <= least * 108);
}

/* So many that they are packed in the order of time, where the least is reached unless holes do not
 * fit. */
static void
many_at_once(void **state)
{
    enum { MANY = 8000 };
    World *w = *state;
    PackItem *item = NEW_ARRAY(w->arena, PackItem, MANY);

    for (uint32_t i = 0; i < MANY; i++) {
        NodeId first = 1 + random_below(&w->seed, MANY);
        item[i] = (PackItem){ 64 * (1 + (int64_t)random_below(&w->seed, 4)), first,
                              first + random_below(&w->seed, MANY), 0 };
    }
    int64_t arena = plan_pack(w->arena, item, MANY), live = max_live(item, MANY);
    assert_true(arena >= live && arena * 100 <= live * 110);
    for (uint32_t i = 0; i < MANY; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_true(item[i].first > item[k].last || item[k].first > item[i].last ||
                        item[i].offset + item[i].size <= item[k].offset ||
                        item[k].offset + item[k].size <= item[i].offset);
    for (uint32_t i = 0; i < MANY; i++)
        item[i] = (PackItem){ 64, 1 + i, 2 * MANY, 0 };
    assert_int_equal(plan_pack(w->arena, item, MANY), 64 * MANY);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(many_at_once, begin, world_end),
        cmocka_unit_test_setup_teardown(in_place, begin, world_end),
        cmocka_unit_test_setup_teardown(in_place_scheduled, begin, world_end),
        cmocka_unit_test_setup_teardown(outputs_and_weights, begin, world_end),
        cmocka_unit_test_setup_teardown(within_another, begin, world_end),
        cmocka_unit_test_setup_teardown(random_graphs, begin, world_end),
        cmocka_unit_test_setup_teardown(close_to_least, begin, world_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
