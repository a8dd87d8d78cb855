/* Policies over random graphs of nodes: each node runs once and behind what it reads, what greedy
 * counts is what a plain count gives, no policy takes less than the bound, and a table plays as it
 * was learnt.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"
#include "graph/policy.h"

enum { NODES = 120, TYPES = 9, READS = 3 };

typedef struct {
    TnBatchGraph g;
    int32_t type[NODES], depth[NODES], first[NODES + 1], user[NODES * READS];
    int32_t kind[NODES], alone[NODES];
} Case;

static uint32_t seed;

static int32_t
below(int32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int32_t)((uint64_t)(seed >> 8) * (uint32_t)n >> 24);
}

/* Nodes read some of the last few before them; types are of a few or of many. */
static void
make(Case *c, int32_t n, int32_t types, int32_t near)
{
    int32_t read[NODES][READS], nread[NODES], nuser = 0, used[NODES] = { 0 };

    *c = (Case){ .g = { sizeof c->g, n, types, 0, 0, c->type, c->depth, c->first, c->user, c->kind,
                        c->alone } };
    for (int32_t i = 0; i < n; i++) {
        c->type[i] = below(types);
        used[c->type[i]] = 1;
        nread[i] = i ? below(READS + 1) : 0;
        for (int32_t k = 0; k < nread[i]; k++) {
            read[i][k] = i - 1 - below(i < near ? i : near);
            int32_t depth = c->depth[read[i][k]] + 1;
            c->depth[i] = depth > c->depth[i] ? depth : c->depth[i];
        }
    }
    for (int32_t i = 0; i < n; i++) {
        c->first[i] = nuser;
        for (int32_t u = 0; u < n; u++)
            for (int32_t k = 0; k < nread[u]; k++)
                if (read[u][k] == i)
                    c->user[nuser++] = u;
    }
    c->first[n] = nuser;
    for (int32_t t = 0; t < types; t++) {
        if (used[t])
            c->kind[c->g.nkind++] = t;
        c->alone[t] = below(6) ? 0 : 1 + below(2);
    }
}

/* Nodes of the type that have not run and wait for none of their type. */
static int32_t
open_nodes(const TnBatchGraph *g, const bool *ran, int32_t type)
{
    bool waits[NODES] = { 0 };
    int32_t n = 0;

    for (int32_t i = 0; i < g->nnode; i++) {
        bool own = g->type[i] == type && !ran[i];
        n += own && !waits[i];
        for (int32_t e = g->first[i]; e < g->first[i + 1]; e++)
            waits[g->user[e]] |= !ran[i] && (own || waits[i]);
    }
    return n;
}

static void
check_step(const TnSchedule *s, const bool *ran, int typewise)
{
    const TnBatchGraph *g = s->g;

    for (int32_t k = 0; k < g->nkind; k++) {
        int32_t ready = 0;
        for (int32_t i = s->head[g->kind[k]]; i >= 0; i = s->next[i])
            ready++;
        assert_int_equal(ready, s->ready[g->kind[k]]);
        if (typewise)
            assert_int_equal(s->open[k], open_nodes(g, ran, g->kind[k]));
    }
}

/* Steps that cost a batch, and nodes that run alone. */
static int64_t
play(const TnBatchGraph *g, const TnBatchPolicy *p, int typewise)
{
    void *memory = malloc((size_t)tn_schedule_bytes(g, typewise) + 1);
    TnSchedule s = tn_schedule_begin(g, typewise, p->seed, memory);
    bool ran[NODES] = { 0 };
    int64_t batches = 0;

    while (s.left) {
        check_step(&s, ran, typewise);
        int32_t type = tn_choose(&s, p);
        int32_t n = tn_schedule_take(&s, type, p->kind == TN_POLICY_RANDOM);
        assert_true(n > 0);
        for (int32_t i = 0; i < n; i++) {
            assert_false(ran[s.member[i]]);
            assert_int_equal(g->type[s.member[i]], type);
            ran[s.member[i]] = true;
        }
        for (int32_t i = 0; i < g->nnode; i++) /* a node that ran has all that it reads */
            for (int32_t e = g->first[i]; e < g->first[i + 1]; e++)
                assert_true(ran[i] || !ran[g->user[e]]);
        for (int32_t i = 0; i < n; i++) /* not what became ready in this step */
            for (int32_t e = g->first[s.member[i]]; e < g->first[s.member[i] + 1]; e++)
                assert_false(ran[g->user[e]]);
        batches += g->alone[type] == 0 ? 1 : g->alone[type] == 1 ? n : 0;
        tn_schedule_done(&s, type, n, typewise);
    }
    for (int32_t i = 0; i < g->nnode; i++)
        assert_true(ran[i]);
    free(memory);
    return batches;
}

/* The table as a trie, a state at a time. */
static TnBatchPolicy
policy_of(const Learnt *l, TnBatchState *state)
{
    TnBatchPolicy p = { .size = sizeof p, .kind = TN_POLICY_FSM, .state = state };

    for (uint32_t i = 0; i < l->nstate; i++) {
        int32_t parent = -1, at = -1;
        for (int32_t k = 0; k < l->state[i].n; k++, parent = at) {
            int32_t last = -1;
            at = parent >= 0 ? state[parent].child : p.nstate ? 0 : -1;
            for (; at >= 0 && state[at].type != l->state[i].type[k]; at = state[at].next)
                last = at;
            if (at >= 0)
                continue;
            at = p.nstate++;
            state[at] = (TnBatchState){ l->state[i].type[k], -1, -1, -1 };
            if (last >= 0)
                state[last].next = at;
            else if (parent >= 0)
                state[parent].child = at;
        }
        state[at].action = l->state[i].action;
    }
    return p;
}

static void
check_graph(const TnBatchGraph *g)
{
    Arena *a = arena_new(NULL, NULL);
    Learnt l;

    batch_learn(a, g, 1, 3, &l);
    assert_int_equal(l.nodes, g->nnode);
    for (int kind = TN_POLICY_AGENDA; kind <= TN_POLICY_RANDOM; kind++)
        for (int typewise = kind == TN_POLICY_GREEDY; typewise < 2; typewise++) {
            TnBatchPolicy p = { .size = sizeof p, .kind = kind, .seed = 5 };
            int64_t batches = play(g, &p, typewise);
            assert_true(batches >= l.bound);
            if (kind == TN_POLICY_AGENDA)
                assert_int_equal(batches, l.agenda);
            if (kind == TN_POLICY_GREEDY)
                assert_int_equal(batches, l.greedy);
        }
    uint32_t most = 1;
    for (uint32_t i = 0; i < l.nstate; i++)
        most += (uint32_t)l.state[i].n;
    TnBatchState *state = malloc(most * sizeof *state);
    TnBatchPolicy p = policy_of(&l, state);
    assert_int_equal(play(g, &p, 0), l.fsm);
    assert_true(l.depth >= l.bound && l.fsm >= l.bound);
    free(state);
    arena_free(a);
}

static void
test_random_graphs(void **unused)
{
    (void)unused;
    Case *c = malloc(sizeof *c);
    for (seed = 1; seed < 40; seed += 1) {
        uint32_t keep = seed;
        make(c, 1 + below(40), 1 + below(TYPES), 1 + below(10));
        check_graph(&c->g);
        seed = keep;
    }
    seed = 77;
    make(c, NODES, 4, 6);
    check_graph(&c->g);
    free(c);
}

static void
test_small_graphs(void **unused)
{
    (void)unused;
    Case *c = malloc(sizeof *c);
    for (int32_t n = 1; n < 4; n++) { /* also more types than nodes */
        seed = (uint32_t)n;
        make(c, n, 100, 2);
        check_graph(&c->g);
    }
    seed = 9;
    make(c, NODES, 100, 5);
    check_graph(&c->g);
    free(c);
}

/* No graph: nothing is learnt, and nothing is wrong. */
static void
test_no_graph(void **unused)
{
    (void)unused;
    Arena *a = arena_new(NULL, NULL);
    Learnt l;

    batch_learn(a, NULL, 0, 1, &l);
    assert_int_equal(l.bound, 0);
    assert_int_equal(l.fsm, 0);
    assert_int_equal(l.nstate, 0);
    arena_free(a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_small_graphs),
        cmocka_unit_test(test_no_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
