/* policy: the order in which the recorded nodes of many requests run (source: ED-Batch, Chen et
 * al., ICML 2023, sections 2 and 3).
 *
 * A step selects a type and runs its frontier: all of its nodes whose inputs are there. A policy
 * selects the type:
 *
 *     agenda    the type whose remaining nodes have the least average depth
 *     greedy    the type whose frontier is the largest share of its nodes that wait for none of
 *               their own type: if it is all of them, some optimal order begins so
 *     fsm       by a table, for the ready types in order of decreasing frontier; agenda where
 *               the table has no entry
 *     random    any type, and any subset of its frontier, for tests
 *
 * Types whose nodes never run together take a step for each node in any order, so the first three
 * run them first. A table is a trie over the types of a state. (Inline depth needs no edges;
 * tn_flush has it.)
 *
 * This is plain C behind tenon_abi.h. emit prints it into programs, and batch learns tables with
 * it, so both behave alike.
 *
 * Cost     O(nodes + edges + steps * types); greedy O((nodes + edges) * types).
 */
#ifndef TN_POLICY_H
#define TN_POLICY_H

#define TN_POLICY static __attribute__((unused))

typedef struct {
    const TnBatchGraph *g;
    int32_t left; /* nodes that have not run */
    uint64_t random;
    int64_t *depths;         /* [type] sum over its remaining nodes */
    int32_t *remain, *ready; /* [type] remaining nodes; how many of them are in the frontier */
    int32_t *head, *tail;    /* [type] its frontier, a queue in the order of becoming ready */
    int32_t *next;           /* [node] the next in the frontier, -1 */
    int32_t *pending;        /* [node] inputs that are not computed yet */
    int32_t *order;          /* [nkind] kinds by decreasing frontier */
    int32_t *member;         /* [node] the nodes of the step */
    /* [nkind] greedy: remaining nodes that wait for none of their type … */
    int32_t *open;
    int32_t *blocked; /* [nkind][node] … and inputs of that kind, or that wait for it */
    int32_t *work;    /* [node] */
} TnSchedule;

/* Bytes of a schedule. typewise: for greedy, and for learning. */
TN_POLICY int64_t
tn_schedule_bytes(const TnBatchGraph *g, int typewise)
{
    const int64_t n = g->nnode, words = 6 * (int64_t)g->ntype + 3 * n + g->nkind;
    return 4 * (words + (typewise ? g->nkind * (n + 1) + n : 0));
}

TN_POLICY void
tn_schedule_ready(TnSchedule *s, int32_t node)
{
    const int32_t type = s->g->type[node];
    s->next[node] = -1;
    if (s->head[type] < 0)
        s->head[type] = node;
    else
        s->next[s->tail[type]] = node;
    s->tail[type] = node;
    s->ready[type]++;
}

/* Nodes are in a valid order, so the nodes before one have told what it waits for. */
TN_POLICY void
tn_schedule_typewise(TnSchedule *s)
{
    const TnBatchGraph *g = s->g;
    memset(s->open, 0, (size_t)g->nkind * sizeof *s->open);
    memset(s->blocked, 0, (size_t)g->nkind * (size_t)g->nnode * sizeof *s->blocked);
    for (int32_t k = 0; k < g->nkind; k++) {
        int32_t *blocked = s->blocked + (int64_t)k * g->nnode;
        for (int32_t i = 0; i < g->nnode; i++) {
            const int own = g->type[i] == g->kind[k];
            s->open[k] += own && !blocked[i];
            for (int32_t e = g->first[i]; (own || blocked[i]) && e < g->first[i + 1]; e++)
                blocked[g->user[e]]++;
        }
    }
}

/* memory: tn_schedule_bytes, aligned to 8. */
TN_POLICY TnSchedule
tn_schedule_begin(const TnBatchGraph *g, int typewise, uint64_t seed, void *memory)
{
    const int64_t n = g->nnode, t = g->ntype;
    TnSchedule s = {
        .g = g, .left = g->nnode, .random = seed * 2 + 1, .depths = (int64_t *)memory
    };
    s.remain = (int32_t *)(s.depths + t);
    s.ready = s.remain + t;
    s.head = s.ready + t;
    s.tail = s.head + t;
    s.next = s.tail + t;
    s.pending = s.next + n;
    s.member = s.pending + n;
    s.order = s.member + n;
    s.work = s.order + g->nkind;
    s.open = s.work + n;
    s.blocked = s.open + g->nkind;
    memset(s.depths, 0, (size_t)t * (sizeof *s.depths + 2 * sizeof(int32_t)));
    memset(s.head, -1, (size_t)t * sizeof *s.head);
    memset(s.pending, 0, (size_t)n * sizeof *s.pending);
    memcpy(s.order, g->kind, (size_t)g->nkind * sizeof *s.order);
    for (int32_t e = 0; e < g->first[n]; e++)
        s.pending[g->user[e]]++;
    for (int32_t i = 0; i < g->nnode; i++) {
        s.remain[g->type[i]]++;
        s.depths[g->type[i]] += g->depth[i];
        if (!s.pending[i])
            tn_schedule_ready(&s, i);
    }
    if (typewise)
        tn_schedule_typewise(&s);
    return s;
}

TN_POLICY uint32_t
tn_schedule_random(TnSchedule *s, int32_t below)
{
    s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(((s->random >> 33) * (uint64_t)below) >> 31);
}

/* A ready type whose nodes never run together; -1: none. */
TN_POLICY int32_t
tn_choose_alone(const TnSchedule *s)
{
    for (int32_t k = 0; s->g->alone && k < s->g->nkind; k++)
        if (s->g->alone[s->g->kind[k]] && s->ready[s->g->kind[k]])
            return s->g->kind[k];
    return -1;
}

TN_POLICY int32_t
tn_choose_agenda(const TnSchedule *s)
{
    int32_t best = -1;
    double least = 0;
    for (int32_t k = 0; k < s->g->nkind; k++) {
        const int32_t t = s->g->kind[k];
        const double depth = s->ready[t] ? (double)s->depths[t] / s->remain[t] : 0;
        if (s->ready[t] && (best < 0 || depth < least)) {
            best = t;
            least = depth;
        }
    }
    return best;
}

/* Of equal shares, the one that agenda prefers. */
TN_POLICY int32_t
tn_choose_greedy(const TnSchedule *s)
{
    int32_t best = -1;
    double most = 0, least = 0;
    for (int32_t k = 0; k < s->g->nkind; k++) {
        const int32_t t = s->g->kind[k];
        if (!s->ready[t])
            continue;
        const double part = (double)s->ready[t] / s->open[k];
        const double depth = (double)s->depths[t] / s->remain[t];
        if (best < 0 || part > most || (part == most && depth < least)) {
            best = t;
            most = part;
            least = depth;
        }
    }
    return best;
}

TN_POLICY int32_t
tn_choose_random(TnSchedule *s)
{
    int32_t count = 0;
    for (int32_t k = 0; k < s->g->nkind; k++)
        count += s->ready[s->g->kind[k]] > 0;
    int32_t number = (int32_t)tn_schedule_random(s, count);
    for (int32_t k = 0;; k++)
        if (s->ready[s->g->kind[k]] && !number--)
            return s->g->kind[k];
}

/* Sorts the state: the number of ready types, which are the first of s->order. */
TN_POLICY int32_t
tn_schedule_state(TnSchedule *s)
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->g->nkind; i++) { /* nearly sorted by the previous step */
        const int32_t t = s->order[i], ready = s->ready[t];
        int32_t at = i;
        for (; at > 0; at--) {
            const int32_t before = s->order[at - 1];
            if (s->ready[before] > ready || (s->ready[before] == ready && before < t))
                break;
            s->order[at] = before;
        }
        s->order[at] = t;
        n += ready > 0;
    }
    return n;
}

/* The table's entry for the state; -1: none, or a type that is not ready. */
TN_POLICY int32_t
tn_choose_learnt(const TnSchedule *s, const TnBatchPolicy *p, int32_t nstate)
{
    int32_t at = p->nstate ? 0 : -1, action = -1;
    for (int32_t i = 0; i < nstate; i++) {
        while (at >= 0 && p->state[at].type != s->order[i])
            at = p->state[at].next;
        if (at < 0)
            return -1;
        action = p->state[at].action;
        at = p->state[at].child;
    }
    for (int32_t i = 0; i < nstate; i++)
        if (s->order[i] == action)
            return action;
    return -1;
}

TN_POLICY int32_t
tn_choose(TnSchedule *s, const TnBatchPolicy *p)
{
    if (p->kind == TN_POLICY_RANDOM)
        return tn_choose_random(s);
    int32_t type = tn_choose_alone(s);
    if (type < 0 && p->kind == TN_POLICY_GREEDY)
        return tn_choose_greedy(s);
    if (type < 0 && p->kind == TN_POLICY_FSM) {
        const int32_t n = tn_schedule_state(s);
        type = n == 1 ? s->order[0] : tn_choose_learnt(s, p, n);
    }
    return type < 0 ? tn_choose_agenda(s) : type;
}

/* Moves the frontier of the type into s->member; random: some of it, in any order. */
TN_POLICY int32_t
tn_schedule_take(TnSchedule *s, int32_t type, int random)
{
    int32_t n = 0;
    for (int32_t i = s->head[type]; i >= 0; i = s->next[i])
        s->member[n++] = i;
    s->head[type] = -1;
    s->ready[type] = 0;
    if (!random)
        return n;
    for (int32_t i = n; i > 1; i--) {
        const int32_t other = (int32_t)tn_schedule_random(s, i), x = s->member[i - 1];
        s->member[i - 1] = s->member[other];
        s->member[other] = x;
    }
    const int32_t some = 1 + (int32_t)tn_schedule_random(s, n);
    for (int32_t i = some; i < n; i++)
        tn_schedule_ready(s, s->member[i]);
    return some;
}

/* A node of kind k has run, or no longer waits for one: propagates it to its users. */
TN_POLICY void
tn_schedule_unblock(TnSchedule *s, int32_t k, int32_t node)
{
    const TnBatchGraph *g = s->g;
    int32_t *blocked = s->blocked + (int64_t)k * g->nnode, n = 1;
    s->work[0] = node;
    while (n > 0) {
        const int32_t i = s->work[--n];
        for (int32_t e = g->first[i]; e < g->first[i + 1]; e++) {
            const int32_t u = g->user[e];
            if (--blocked[u])
                continue;
            if (g->type[u] == g->kind[k])
                s->open[k]++;
            else
                s->work[n++] = u;
        }
    }
}

/* Retires the first n of s->member. */
TN_POLICY void
tn_schedule_done(TnSchedule *s, int32_t type, int32_t n, int typewise)
{
    const TnBatchGraph *g = s->g;
    int32_t kind = 0;
    while (g->kind[kind] != type)
        kind++;
    s->left -= n;
    s->remain[type] -= n;
    for (int32_t i = 0; i < n; i++) {
        const int32_t node = s->member[i];
        s->depths[type] -= g->depth[node];
        for (int32_t e = g->first[node]; e < g->first[node + 1]; e++)
            if (!--s->pending[g->user[e]])
                tn_schedule_ready(s, g->user[e]);
    }
    if (!typewise)
        return;
    s->open[kind] -= n;
    for (int32_t i = 0; i < n; i++)
        tn_schedule_unblock(s, kind, s->member[i]);
}

#endif
