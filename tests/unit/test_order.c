/* The order of groups that become one, against reachability in their graph: random graphs, random
 * joins. */
#include "fuse/order.h"

#include "fuse_case.h"

enum { NODES = 12, GRAPHS = 200, JOINS = 20 };

static uint64_t state_of_random = 1;

static uint32_t
below(uint32_t n)
{
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state_of_random >> 33) % n;
}

/* Each node reads one or two of the values before it. */
static void
make_graph(World *w)
{
    w->g = graph_new(&w->ctx, w->arena, "t");
    for (uint32_t i = 1; i <= NODES; i++) {
        char text[200];
        uint32_t x = below(i), y = below(i);
        if (x == y)
            snprintf(text, sizeof text,
                     "nest n%u(v%u: f32[4]) -> (v%u: f32[4]) { v%u[i] = exp(v%u[i]) }", i, x, i, i,
                     x);
        else
            snprintf(
                text, sizeof text,
                "nest n%u(v%u: f32[4], v%u: f32[4]) -> (v%u: f32[4]) { v%u[i] = v%u[i] + v%u[i] }",
                i, x, y, i, i, x, y);
        add(w, text);
    }
}

/* path[x][y]: a value of group x reaches group y. */
static void
reach(const GroupOrder *o, bool path[NODES + 1][NODES + 1])
{
    const Fusion *f = o->f;

    memset(path, 0, (NODES + 1) * (NODES + 1) * sizeof(bool));
    for (NodeId n = 1; n <= NODES; n++)
        for (uint32_t k = 0; k < f->call[n].nest->nin; k++) {
            NodeId def = f->g->value.at[f->call[n].value[k]].def;
            if (def && o->group[def] != o->group[n])
                path[o->group[def]][o->group[n]] = true;
        }
    for (NodeId m = 1; m <= NODES; m++)
        for (NodeId x = 1; x <= NODES; x++)
            for (NodeId y = 1; y <= NODES; y++)
                path[x][y] |= path[x][m] && path[m][y];
}

/* Would they, as one, wait for a third that waits for them? */
static bool
waits(bool path[NODES + 1][NODES + 1], const GroupOrder *o, const NodeId *group, uint32_t n)
{
    for (NodeId third = 1; third <= NODES; third++) {
        bool member = false, before = false, behind = false;
        for (uint32_t i = 0; i < n; i++) {
            member |= o->group[third] == group[i];
            behind |= path[group[i]][o->group[third]];
            before |= path[o->group[third]][group[i]];
        }
        if (!member && before && behind)
            return true;
    }
    return false;
}

/* None reads a later group; the nodes of each are listed once, in the graph's order. */
static void
check_order(const GroupOrder *o)
{
    bool path[NODES + 1][NODES + 1];
    NodeId node[NODES + 1];
    uint32_t listed = 0;

    reach(o, path);
    for (NodeId x = 1; x <= NODES; x++) {
        for (NodeId y = 1; y <= NODES; y++)
            assert_false(path[x][y] && o->at[x] >= o->at[y]);
        if (o->group[x] != x)
            continue;
        uint32_t n = order_nodes(o, &x, 1, node);
        assert_int_equal(o->order[o->at[x]], x);
        for (uint32_t i = 0; i < n; i++)
            assert_true(o->group[node[i]] == x && (!i || node[i] > node[i - 1]));
        listed += n;
    }
    assert_int_equal(listed, NODES);
}

static void
joins_keep_the_order(void **state)
{
    World *w = *state;
    uint32_t number[NODES + 1], allowed = 0, refused = 0;

    for (uint32_t i = 0; i <= NODES; i++)
        number[i] = i;
    for (int graph = 0; graph < GRAPHS; graph++) {
        make_graph(w);
        Fusion f = fuse_compose(w->g, w->arena, NULL, &fuse_rules_nothing, NULL);
        GroupOrder o = order_begin(&f, w->arena, number);
        for (int join = 0; join < JOINS; join++) {
            bool path[NODES + 1][NODES + 1];
            NodeId group[3];
            uint32_t n = 2 + below(2);
            for (uint32_t i = 0; i < n; i++)
                group[i] = o.group[1 + below(NODES)]; /* one of them twice, at times */
            reach(&o, path);
            bool wait = waits(path, &o, group, n);
            assert_int_equal(order_allows(&o, group, n), !wait);
            assert_int_equal(order_merge(&o, group, n), !wait);
            for (uint32_t i = 0; i < n && !wait; i++)
                assert_int_equal(o.group[group[i]], o.group[group[0]]);
            *(wait ? &refused : &allowed) += 1;
            check_order(&o);
        }
    }
    assert_true(allowed > GRAPHS && refused > GRAPHS);
}

int
main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(joins_keep_the_order, setup,
                                                                        world_end) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
