/* The search over partitions against enumeration: random graphs, random prices, forced cuts. */
#include "fuse/search.h"

#include "world.h"

#include <math.h>

#define MOST_NODES 12

typedef struct {
    uint64_t state;
} Random;

static uint32_t
below(Random *r, uint32_t n)
{
    r->state = r->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(r->state >> 33) % n;
}

/* A graph, and what its groups cost. name[i]: what node i is called by the prices, which know no
 * numbers. */
typedef struct {
    /* apart: names that no group has beside a name */
    uint32_t n, nedge, name[MOST_NODES], apart[MOST_NODES];
    SearchEdge edge[MOST_NODES * MOST_NODES];
    double least[MOST_NODES], start;
    uint64_t seed;
    uint32_t most, none;         /* of a hundred sets, so many are no group */
    bool named[1 << MOST_NODES]; /* sets whose price was asked */
} Sample;

static uint32_t
names_of(const Sample *s, const uint32_t *node, uint32_t n)
{
    uint32_t names = 0;

    for (uint32_t i = 0; i < n; i++)
        names |= 1u << s->name[node[i]];
    return names;
}

static bool
may_names(const Sample *s, uint32_t names)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (names >> i & 1 && names & s->apart[i])
            return false;
    return true;
}

static double
price_names(const Sample *s, uint32_t names)
{
    uint64_t h = hash_bytes(&names, sizeof names, s->seed);
    bool one = !(names & (names - 1));
    double price = s->start + (double)(h % 1000) * 1e-6;

    for (uint32_t i = 0; i < s->n; i++)
        if (names >> i & 1)
            price += s->least[i];
    return !one && h / 1000 % 100 < s->none ? INFINITY : price;
}

static bool
may(void *user, const uint32_t *node, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        assert_true(node[i - 1] < node[i]);
    return may_names(user, names_of(user, node, n));
}

static double
price(void *user, const uint32_t *node, uint32_t n)
{
    Sample *s = user;
    uint32_t names = names_of(s, node, n);

    assert_false(s->named[names]); /* asked once for a set */
    s->named[names] = true;
    return price_names(s, names);
}

static void
make_sample(Random *r, Sample *s, uint32_t n)
{
    uint32_t density = 15 + 20 * below(r, 3), cuts = 10 * below(r, 5);

    memset(s, 0, sizeof *s);
    s->n = n;
    s->most = (uint32_t[]){ 2, 3, 4, 12 }[below(r, 4)];
    s->none = 10 * below(r, 4);
    s->seed = below(r, 1u << 30);
    s->start = below(r, 300) * 1e-6;
    for (uint32_t i = 0; i < n; i++) {
        s->name[i] = i;
        s->least[i] = below(r, 500) * 1e-6;
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = i + 1; j < n; j++) {
            if (below(r, 100) < density)
                s->edge[s->nedge++] = (SearchEdge){ i, j, below(r, 100) >= cuts };
            if (below(r, 100) < cuts / 4) {
                s->apart[i] |= 1u << j;
                s->apart[j] |= 1u << i;
            }
        }
}

static SearchProblem
problem(Sample *s)
{
    memset(s->named, 0, sizeof s->named);
    return (SearchProblem){ .n = s->n,
                            .edge = s->edge,
                            .nedge = s->nedge,
                            .most = s->most,
                            .may = may,
                            .price = price,
                            .least = s->least,
                            .start = s->start,
                            .user = s,
                            .most_states = 1 << 20,
                            .most_steps = 1 << 24 };
}

/* ---- what a partition is, said once more ----------------------------------------------------- */

static bool
connected(const Sample *s, uint32_t set)
{
    uint32_t met = set & -set, before = 0;

    while (met != before) {
        before = met;
        for (uint32_t e = 0; e < s->nedge; e++) {
            uint32_t ends = 1u << s->edge[e].from | 1u << s->edge[e].to;
            if (s->edge[e].fusable && (ends & set) == ends && ends & met)
                met |= ends;
        }
    }
    return met == set;
}

static double
group_price(const Sample *s, uint32_t set)
{
    uint32_t names = 0;

    for (uint32_t i = 0; i < s->n; i++)
        if (set >> i & 1)
            names |= 1u << s->name[i];
    if ((uint32_t)__builtin_popcount(set) > s->most || !may_names(s, names) || !connected(s, set))
        return INFINITY;
    return price_names(s, names);
}

static bool
acyclic(const Sample *s, const uint32_t *group, uint32_t ngroup)
{
    uint32_t needs[MOST_NODES + 1] = { 0 }, done = 0, before = 1;

    for (uint32_t e = 0; e < s->nedge; e++)
        if (group[s->edge[e].from] != group[s->edge[e].to])
            needs[group[s->edge[e].to]] |= 1u << group[s->edge[e].from];
    while (done != before) {
        before = done;
        for (uint32_t k = 0; k < ngroup; k++)
            if (!(needs[k] & ~done))
                done |= 1u << k;
    }
    return done == (1u << ngroup) - 1;
}

/* Every set partition: node i joins one of the groups before it, or begins one. */
static void
partitions(const Sample *s, uint32_t *group, uint32_t i, uint32_t ngroup, double *best)
{
    if (i == s->n) {
        uint32_t set[MOST_NODES] = { 0 };
        double sum = 0;
        for (uint32_t k = 0; k < s->n; k++)
            set[group[k]] |= 1u << k;
        for (uint32_t k = 0; k < ngroup; k++)
            sum += group_price(s, set[k]);
        if (sum < *best && acyclic(s, group, ngroup))
            *best = sum;
        return;
    }
    for (uint32_t k = 0; k <= ngroup; k++) {
        group[i] = k;
        partitions(s, group, i + 1, k == ngroup ? ngroup + 1 : ngroup, best);
    }
}

/* Every way to take all nodes, group by group, none before what it needs. */
static double
orders(const Sample *s)
{
    static double best[1 << MOST_NODES];
    uint32_t all = (1u << s->n) - 1, needs[MOST_NODES] = { 0 };

    for (uint32_t e = 0; e < s->nedge; e++)
        needs[s->edge[e].to] |= 1u << s->edge[e].from;
    for (uint32_t left = 0; left <= all; left++) {
        best[left] = left ? INFINITY : 0;
        for (uint32_t set = left; set; set = (set - 1) & left) {
            bool closed = true;
            for (uint32_t i = 0; i < s->n; i++)
                closed &= !(set >> i & 1) || !(needs[i] & left & ~set);
            double rest = best[left & ~set];
            if (closed && rest < best[left])
                best[left] = fmin(best[left], group_price(s, set) + rest);
        }
    }
    return best[all];
}

static void
check_result(const Sample *s, const SearchResult *r)
{
    double sum = 0;
    uint32_t set[MOST_NODES + 1] = { 0 }, group[MOST_NODES];

    for (uint32_t i = 0; i < s->n; i++) {
        assert_in_range(r->group[i], 1, r->ngroup);
        group[i] = r->group[i] - 1;
        set[group[i]] |= 1u << i;
    }
    for (uint32_t k = 0; k < r->ngroup; k++)
        sum += group_price(s, set[k]);
    assert_true(acyclic(s, group, r->ngroup));
    assert_true(fabs(sum - r->seconds) < 1e-9);
    assert_true(r->bound <= r->seconds);
    assert_true(!r->exact || r->bound == r->seconds);
}

static void
assert_same(double a, double b)
{
    if (fabs(a - b) > 1e-9)
        fail_msg("%.9f and %.9f", a, b);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void
equals_all_partitions(void **state)
{
    World *w = *state;
    static Sample s;
    Random r = { 1 };

    for (uint32_t k = 0; k < 1500; k++) {
        uint32_t group[MOST_NODES];
        double best = INFINITY;
        make_sample(&r, &s, 1 + below(&r, k % 20 ? 7 : 9));
        partitions(&s, group, 0, 0, &best);
        SearchProblem p = problem(&s);
        SearchResult found = search_partition(&p, w->arena);
        check_result(&s, &found);
        assert_true(found.exact);
        assert_same(found.seconds, best);
    }
}

static void
equals_all_orders(void **state)
{
    World *w = *state;
    static Sample s;
    Random r = { 2 };

    for (uint32_t k = 0; k < 500; k++) {
        make_sample(&r, &s, 6 + below(&r, k % 10 ? 5 : 7));
        SearchProblem p = problem(&s);
        SearchResult found = search_partition(&p, w->arena);
        check_result(&s, &found);
        assert_same(found.seconds, orders(&s));
    }
}

/* The same graph with other numbers: nodes in another order that edges allow. */
static void
renumber(Random *r, const Sample *s, Sample *other)
{
    uint32_t at[MOST_NODES], done = 0;

    *other = *s;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t ready[MOST_NODES], n = 0;
        for (uint32_t x = 0; x < s->n; x++) {
            bool free = !(done >> x & 1);
            for (uint32_t e = 0; e < s->nedge; e++)
                free &= s->edge[e].to != x || done >> s->edge[e].from & 1;
            if (free)
                ready[n++] = x;
        }
        uint32_t x = ready[below(r, n)];
        at[x] = i;
        done |= 1u << x;
        other->name[i] = s->name[x];
    }
    double least[MOST_NODES];
    for (uint32_t x = 0; x < s->n; x++)
        least[at[x]] = s->least[x];
    memcpy(other->least, least, sizeof least);
    for (uint32_t e = 0; e < s->nedge; e++)
        other->edge[s->nedge - 1 - e] =
            (SearchEdge){ at[s->edge[e].from], at[s->edge[e].to], s->edge[e].fusable };
}

/* least[] is of nodes, but price_names asks by name: samples that are renumbered have none. */
static void
knows_no_numbers(void **state)
{
    World *w = *state;
    static Sample s, other;
    Random r = { 3 };

    for (uint32_t k = 0; k < 500; k++) {
        make_sample(&r, &s, 4 + below(&r, 9));
        memset(s.least, 0, sizeof s.least);
        renumber(&r, &s, &other);
        SearchProblem p = problem(&s), q = problem(&other);
        SearchResult a = search_partition(&p, w->arena), b = search_partition(&q, w->arena);
        check_result(&other, &b);
        assert_true(a.seconds == b.seconds && a.ngroup == b.ngroup);
    }
}

/* A cut never helps, nor do smaller groups. */
static void
with_less(void **state)
{
    World *w = *state;
    static Sample s;
    Random r = { 4 };

    for (uint32_t k = 0; k < 400; k++) {
        make_sample(&r, &s, 4 + below(&r, 9));
        SearchProblem p = problem(&s);
        SearchResult best = search_partition(&p, w->arena);
        p = problem(&s);
        p.most = s.most > 1 ? s.most - 1 : 1;
        assert_true(search_partition(&p, w->arena).seconds >= best.seconds);
        if (s.nedge) {
            s.edge[below(&r, s.nedge)].fusable = false;
            p = problem(&s);
            assert_true(search_partition(&p, w->arena).seconds >= best.seconds);
        }
    }
}

/* Two groups that are convex each and need each other: a1 -> b1, b2 -> a2, {a1, a2} and {b1, b2}
 * nearly for nothing. */
static double
pairs_are_cheap(void *user, const uint32_t *node, uint32_t n)
{
    (void)user;
    if (n == 2 && node[0] % 2 == node[1] % 2)
        return 1e-6;
    return n == 1 ? 1e-3 : INFINITY;
}

static bool
always(void *user, const uint32_t *node, uint32_t n)
{
    (void)user, (void)node, (void)n;
    return true;
}

static void
no_cycles(void **state)
{
    World *w = *state;
    /* 0: a1, 1: b2, 2: a2, 3: b1 */
    SearchEdge edge[] = { { 0, 2, true }, { 1, 3, true }, { 0, 3, true }, { 1, 2, true } };
    SearchProblem p = { .n = 4,
                        .edge = edge,
                        .nedge = 4,
                        .most = 4,
                        .may = always,
                        .price = pairs_are_cheap,
                        .most_states = 100,
                        .most_steps = 1000 };
    SearchResult r = search_partition(&p, w->arena);

    assert_true(r.exact);
    assert_int_equal(r.ngroup, 3);
    assert_true(fabs(r.seconds - 2.001e-3) < 1e-9);
}

/* Nothing exact within such limits: groups are merged, legally, no better than the best, and says
 * so. */
static void
says_when_not_exact(void **state)
{
    World *w = *state;
    static Sample s;
    Random r = { 5 };
    uint32_t equal = 0, inexact = 0;

    for (uint32_t k = 0; k < 300; k++) {
        make_sample(&r, &s, 8 + below(&r, 5));
        SearchProblem p = problem(&s);
        SearchResult best = search_partition(&p, w->arena);
        p = problem(&s);
        p.most_states = 3;
        SearchResult merged = search_partition(&p, w->arena);
        check_result(&s, &merged);
        assert_true(merged.seconds >= best.seconds && merged.bound <= best.seconds);
        inexact += !merged.exact;
        equal += merged.seconds == best.seconds;
    }
    assert_true(inexact > 200 && equal > 100);
}

/* A hub that sixty nodes read: any of them may go with it, so there is no end of groups, and prices
 * are dear. A chain beside it, which is small, is solved exactly all the same. */
typedef struct {
    uint64_t spent;
} Spender;

static double
dear(void *user, const uint32_t *node, uint32_t n)
{
    (void)node;
    ((Spender *)user)->spent++;
    return 1e-6 + 1e-7 * n;
}

static void
ends_when_prices_are_dear(void **state)
{
    World *w = *state;
    enum { READERS = 60, CHAIN = 20, LIMIT = 2000 };
    SearchEdge edge[READERS + CHAIN];
    Spender s = { 0 };
    SearchProblem p = { .n = 1 + READERS + CHAIN,
                        .edge = edge,
                        .most = 10,
                        .may = always,
                        .price = dear,
                        .user = &s,
                        .most_states = 1 << 20,
                        .most_steps = 1 << 22,
                        .spent = &s.spent,
                        .most_spent = LIMIT };

    for (uint32_t i = 1; i <= READERS; i++)
        edge[p.nedge++] = (SearchEdge){ 0, i, true };
    for (uint32_t i = READERS + 2; i < p.n; i++)
        edge[p.nedge++] = (SearchEdge){ i - 1, i, true };
    SearchResult r = search_partition(&p, w->arena);
    assert_false(r.exact);
    /* what merging asks is of the order of the edges */
    assert_true(s.spent < LIMIT + 4 * p.n);
    assert_int_equal(r.ngroup, 1 + READERS - 9 + CHAIN / 10);
    for (uint32_t i = READERS + 1; i < p.n; i++)
        assert_int_equal(r.group[i] == r.group[READERS + 1], i < READERS + 1 + CHAIN / 2);
}

/* A long chain of cheap nodes and a net of two thousand: within seconds, the chain exactly. */
static double
by_size(void *user, const uint32_t *node, uint32_t n)
{
    (void)user;
    return 1e-6 + 1e-7 * n + 1e-9 * (node[0] % 7) * n;
}

/* Can all groups run, each after those that it reads? */
static bool
runs_to_the_end(Arena *a, const SearchProblem *p, const SearchResult *r)
{
    uint32_t *waits = NEW_ARRAY(a, uint32_t, r->ngroup + 1), done = 0;
    bool *ran = NEW_ARRAY(a, bool, r->ngroup + 1);

    for (bool more = true; more;) {
        more = false;
        memset(waits, 0, (r->ngroup + 1) * sizeof *waits);
        for (uint32_t e = 0; e < p->nedge; e++) {
            uint32_t from = r->group[p->edge[e].from], to = r->group[p->edge[e].to];
            waits[to] += from != to && !ran[from];
        }
        for (uint32_t k = 1; k <= r->ngroup; k++)
            if (!ran[k] && !waits[k])
                more = ran[k] = true, done++;
    }
    return done == r->ngroup;
}

static void
large_graphs(void **state)
{
    World *w = *state;
    enum { N = 2000, LONG = 9000 };
    SearchEdge *edge = NEW_ARRAY(w->arena, SearchEdge, 3 * LONG);
    SearchProblem p = { .n = N,
                        .edge = edge,
                        .most = 8,
                        .may = always,
                        .price = by_size,
                        .most_states = 1 << 20,
                        .most_steps = 1 << 22 };
    Random r = { 6 };

    for (uint32_t i = 1; i < LONG; i++)
        edge[i - 1] = (SearchEdge){ i - 1, i, true };
    p.nedge = N - 1;
    SearchResult chain = search_partition(&p, w->arena);
    assert_true(chain.exact && chain.ngroup == N / 8);
    p.n = LONG;
    p.nedge = LONG - 1;
    chain = search_partition(&p, w->arena);
    assert_false(chain.exact); /* it was cut into blocks */
    p.n = N;
    p.nedge = 0;
    for (uint32_t i = 1; i < N; i++) {
        edge[p.nedge++] = (SearchEdge){ i - 1 - below(&r, i < 3 ? i : 3), i, true };
        if (i > 8 && below(&r, 4) == 0)
            edge[p.nedge++] = (SearchEdge){ i - 4 - below(&r, 5), i, below(&r, 2) };
    }
    SearchResult net = search_partition(&p, w->arena);
    assert_true(runs_to_the_end(w->arena, &p, &net));
    assert_true(net.exact && net.ngroup >= N / 8);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equals_all_partitions, world_begin, world_end),
        cmocka_unit_test_setup_teardown(equals_all_orders, world_begin, world_end),
        cmocka_unit_test_setup_teardown(knows_no_numbers, world_begin, world_end),
        cmocka_unit_test_setup_teardown(with_less, world_begin, world_end),
        cmocka_unit_test_setup_teardown(no_cycles, world_begin, world_end),
        cmocka_unit_test_setup_teardown(says_when_not_exact, world_begin, world_end),
        cmocka_unit_test_setup_teardown(ends_when_prices_are_dear, world_begin, world_end),
        cmocka_unit_test_setup_teardown(large_graphs, world_begin, world_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
