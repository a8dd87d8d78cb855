/* learn: learns a table that selects the next type of block to run, from recorded graphs.
 *
 * Tabular Q-learning of the number of batches (source: ED-Batch, Chen et al., ICML 2023, section
 * 3). A state is the ready types by decreasing frontier. Running type t costs one batch, less the
 * share of its nodes that wait for none of their own type which is ready: if that is all of them,
 * some optimal order continues so. Returns are truncated after STEPS steps, without bootstrapping:
 * values are at most 0, and unknown states are not avoided. Every EVERY episodes the table plays
 * without exploration, and the best table is kept.
 *
 * The player is graph/policy.h, as in a program for many requests; for a state without an entry
 * both use agenda. A state seen less than LEAST times gets no entry, since its best type is not
 * known well enough.
 *
 * Cost     O(episodes * (nodes + edges) * types).
 */
#include "batch/batch.h"

#include <string.h>

#include "graph/policy.h"

enum { STEPS = 10, EPISODES = 1000, EVERY = 50, LEAST = 3 };
static const double RATE = 0.1, CHANCE = 0.5, DECAY = 0.9, LEAST_CHANCE = 0.05, ENOUGH = 1.01;

typedef struct {
    int32_t n;           /* the number of ready types … */
    const int32_t *type; /* … by decreasing frontier */
    double *value;       /* [n] value of running each */
    uint32_t met;
} ValueEntry;

typedef struct {
    uint32_t state;
    int32_t action;
    double reward;
} Transition; /* UINT32_MAX: none */

typedef struct {
    Arena *a;
    const TnBatchGraph *g;
    uint32_t ngraph;
    void *memory; /* of the largest schedule */
    Map at;       /* hash of a state -> its number */
    VEC(ValueEntry) state;
    VEC(Transition) log;
    VEC(int32_t) best; /* [state] its action in the best table, -1: not in it */
    int64_t least;     /* batches by it */
    uint64_t random;
} Learner;

/* ---- bounds ---------------------------------------------------------------------------------- */

/* Batches of n nodes of one type that are ready at once. */
static int64_t
cost(const TnBatchGraph *g, int32_t type, int32_t n)
{
    return g->alone && g->alone[type] ? g->alone[type] == 1 ? n : 0 : 1;
}

/* The most nodes of type t on one path; they run one after the other. */
static int64_t
longest_chain(const TnBatchGraph *g, int32_t t, int32_t *chain)
{
    int32_t longest = 0;

    memset(chain, 0, (size_t)g->nnode * sizeof *chain);
    for (int32_t i = 0; i < g->nnode; i++) {
        chain[i] += g->type[i] == t;
        longest = chain[i] > longest ? chain[i] : longest;
        for (int32_t e = g->first[i]; e < g->first[i + 1]; e++)
            if (chain[g->user[e]] < chain[i])
                chain[g->user[e]] = chain[i];
    }
    return longest;
}

static int64_t
count_type(const TnBatchGraph *g, int32_t t)
{
    int64_t n = 0;

    for (int32_t i = 0; i < g->nnode; i++)
        n += g->type[i] == t;
    return n;
}

static int64_t
bound(const TnBatchGraph *g, int32_t *scratch)
{
    int64_t least = 0;

    for (int32_t k = 0; k < g->nkind; k++) {
        int32_t t = g->kind[k];
        if (g->alone && g->alone[t])
            least += cost(g, t, (int32_t)count_type(g, t));
        else
            least += longest_chain(g, t, scratch);
    }
    return least;
}

/* The number of types at each depth, plus nodes that run alone. */
static int64_t
batches_by_depth(Arena *a, const TnBatchGraph *g)
{
    Map seen = { .arena = a };
    int64_t n = 0;

    for (int32_t i = 0; i < g->nnode; i++) {
        uint64_t key = (uint64_t)g->depth[i] * (uint64_t)g->ntype + (uint64_t)g->type[i];
        bool alone = g->alone && g->alone[g->type[i]];
        if (alone || !map_get(&seen, key, NULL))
            n += cost(g, g->type[i], 1);
        map_put(&seen, key, 1);
    }
    return n;
}

static int64_t
batches_by_policy(const Learner *l, const TnBatchGraph *g, int kind)
{
    const TnBatchPolicy p = { .size = sizeof p, .kind = kind };
    const int typewise = kind == TN_POLICY_GREEDY;
    TnSchedule s = tn_schedule_begin(g, typewise, 0, l->memory);
    int64_t batches = 0;

    while (s.left) {
        int32_t type = tn_choose(&s, &p), n = tn_schedule_take(&s, type, 0);
        batches += cost(g, type, n);
        tn_schedule_done(&s, type, n, typewise);
    }
    return batches;
}

/* ---- states ---------------------------------------------------------------------------------- */

static bool
is_state(const ValueEntry *x, const int32_t *type, int32_t n)
{
    return x->n == n && !memcmp(x->type, type, (size_t)n * sizeof *type);
}

/* The number of a state; UINT32_MAX: it is new and is not added. */
static uint32_t
find_state(Learner *l, const int32_t *type, int32_t n, bool make)
{
    uint64_t key = hash_bytes(type, (size_t)n * sizeof *type, 0), at;

    for (; map_get(&l->at, key, &at); key++) /* another state may have the same hash */
        if (is_state(&l->state.at[at], type, n))
            return (uint32_t)at;
    if (!make)
        return UINT32_MAX;
    map_put(&l->at, key, l->state.n);
    ValueEntry fresh = { .n = n,
                         .type = arena_copy(l->a, type, (size_t)n * sizeof *type),
                         .value = NEW_ARRAY(l->a, double, n) };
    VEC_PUSH(l->a, &l->state, fresh);
    return l->state.n - 1;
}

static int32_t
best_action(const ValueEntry *x)
{
    int32_t best = 0;

    for (int32_t i = 1; i < x->n; i++)
        if (x->value[i] > x->value[best])
            best = i;
    return best;
}

static bool
is_known(const ValueEntry *x)
{
    return x->met >= LEAST;
}

/* ---- episodes -------------------------------------------------------------------------------- */

static uint64_t
draw(Learner *l)
{
    l->random = l->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return l->random >> 33;
}

/* The type that an episode runs next, recorded with its state. */
static int32_t
try_type(Learner *l, TnSchedule *s, double chance)
{
    Transition step = { .state = UINT32_MAX };
    int32_t n = tn_schedule_state(s), type = s->order[0];

    if (n > 1) {
        step.state = find_state(l, s->order, n, true);
        ValueEntry *x = &l->state.at[step.state];
        bool any = (double)draw(l) < chance * 0x1p31;
        step.action = any ? (int32_t)(draw(l) % (uint64_t)n) : best_action(x);
        type = x->type[step.action];
        x->met++;
    }
    int32_t kind = 0;
    while (s->g->kind[kind] != type)
        kind++;
    step.reward = (double)s->ready[type] / s->open[kind] - 1;
    VEC_PUSH(l->a, &l->log, step);
    return type;
}

static void
learn_log(Learner *l)
{
    for (uint32_t i = 0; i < l->log.n; i++) {
        if (l->log.at[i].state == UINT32_MAX)
            continue;
        double sum = 0;
        for (uint32_t k = i; k < l->log.n && k < i + STEPS; k++)
            sum += l->log.at[k].reward;
        double *value = &l->state.at[l->log.at[i].state].value[l->log.at[i].action];
        *value += RATE * (sum - *value);
    }
}

static void
episode(Learner *l, const TnBatchGraph *g, double chance)
{
    TnSchedule s = tn_schedule_begin(g, 1, 0, l->memory);

    l->log.n = 0;
    while (s.left) {
        int32_t type = tn_choose_alone(&s);
        if (type < 0)
            type = try_type(l, &s, chance);
        int32_t n = tn_schedule_take(&s, type, 0);
        tn_schedule_done(&s, type, n, 1);
    }
    learn_log(l);
}

/* Without exploration, as a program for many requests uses the table. */
static int64_t
play(Learner *l, const TnBatchGraph *g)
{
    TnSchedule s = tn_schedule_begin(g, 0, 0, l->memory);
    int64_t batches = 0;

    while (s.left) {
        int32_t type = tn_choose_alone(&s), n;
        if (type < 0 && (n = tn_schedule_state(&s)) > 0) {
            uint32_t at = n > 1 ? find_state(l, s.order, n, false) : UINT32_MAX;
            type = n == 1 ? s.order[0] : -1;
            if (at != UINT32_MAX && is_known(&l->state.at[at]))
                type = s.order[best_action(&l->state.at[at])];
        }
        if (type < 0)
            type = tn_choose_agenda(&s);
        n = tn_schedule_take(&s, type, 0);
        batches += cost(g, type, n);
        tn_schedule_done(&s, type, n, 0);
    }
    return batches;
}

static void
keep_if_better(Learner *l)
{
    int64_t batches = 0;

    for (uint32_t i = 0; i < l->ngraph; i++)
        batches += play(l, &l->g[i]);
    if (l->least >= 0 && batches >= l->least)
        return;
    l->least = batches;
    l->best.n = 0;
    for (uint32_t i = 0; i < l->state.n; i++) {
        const ValueEntry *x = &l->state.at[i];
        VEC_PUSH(l->a, &l->best, is_known(x) ? x->type[best_action(x)] : -1);
    }
}

static int32_t
learn(Learner *l, int64_t least)
{
    double chance = CHANCE;
    int32_t n = 0;

    while (n < EPISODES && !(l->least >= 0 && (double)l->least < ENOUGH * (double)least)) {
        arena_poll(l->a);
        for (uint32_t i = 0; i < l->ngraph; i++)
            episode(l, &l->g[i], chance);
        chance = chance * DECAY > LEAST_CHANCE ? chance * DECAY : LEAST_CHANCE;
        if (++n % EVERY == 0)
            keep_if_better(l);
    }
    return n;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void
give_table(Arena *a, const Learner *l, Learnt *out)
{
    LearntState *state = NEW_ARRAY(a, LearntState, l->best.n + 1);

    for (uint32_t i = 0; i < l->best.n; i++) {
        const ValueEntry *x = &l->state.at[i];
        if (l->best.at[i] < 0)
            continue;
        int32_t *type = arena_copy(a, x->type, (size_t)x->n * sizeof *type);
        state[out->nstate++] = (LearntState){ x->n, type, l->best.at[i] };
    }
    out->state = state;
}

void
batch_learn(Arena *a, const TnBatchGraph *g, uint32_t n, uint64_t seed, Learnt *out)
{
    Arena *scratch = arena_child(a);
    Learner l = {
        .a = scratch, .g = g, .ngraph = n, .at.arena = scratch, .least = -1, .random = seed * 2 + 1
    };
    int64_t bytes = 0;

    *out = (Learnt){ 0 };
    for (uint32_t i = 0; i < n; i++)
        if (tn_schedule_bytes(&g[i], 1) > bytes)
            bytes = tn_schedule_bytes(&g[i], 1);
    l.memory = arena_alloc(scratch, (size_t)bytes + 1);
    for (uint32_t i = 0; i < n; i++) {
        out->nodes += g[i].nnode;
        out->bound += bound(&g[i], l.memory);
        out->depth += batches_by_depth(scratch, &g[i]);
        out->agenda += batches_by_policy(&l, &g[i], TN_POLICY_AGENDA);
        out->greedy += batches_by_policy(&l, &g[i], TN_POLICY_GREEDY);
    }
    out->episodes = learn(&l, out->bound);
    out->fsm = l.least < 0 ? out->agenda : l.least;
    give_table(a, &l, out);
    arena_free(scratch);
}
