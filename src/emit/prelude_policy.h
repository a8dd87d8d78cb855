/* prelude_policy: what is recorded runs in the order of a policy that looks at edges
 * (graph/policy.h).
 *
 * A node waits for what makes the handles that it reads and that have no row yet. Recording notes
 * no edges, so that inline depth pays for none: they are found here.
 */
#ifndef TN_PRELUDE_POLICY_H
#define TN_PRELUDE_POLICY_H

/* What is recorded as a graph, in b->edge. Handles are numbered in the order of what makes them. */
static int tn_batch_graph(TnBatch *b, TnBatchGraph *g)
{
    const TnNode *node = (const TnNode *)b->node.at;
    const int64_t n = b->nnode, nt = b->p->nblock + 1, low = node[0].out, made = b->nhandle - low;
    if (n >= INT32_MAX)
        return tn_refuse(b->frame.fault, TN_FAULT_MEMORY, 0, 0, n, 0);
    const int64_t words = 3 * n + 2 + 2 * nt + made + b->narg;
    int code = tn_keep(&b->frame, &b->edge, 0, words * (int64_t)sizeof(int32_t));
    if (code)
        return code;
    int32_t *type = (int32_t *)b->edge.at, *depth = type + n, *kind = depth + n, *alone = kind + nt;
    int32_t *first = alone + nt, *user = first + n + 2, *maker = user + b->narg, count;
    *g = (TnBatchGraph){.size = sizeof *g, .nnode = (int32_t)n, .ntype = (int32_t)nt, .type = type,
                        .depth = depth, .first = first, .user = user, .kind = kind, .alone = alone};
    memset(first, 0, (size_t)(n + 2) * sizeof *first);
    memset(alone, 0, (size_t)nt * sizeof *alone);
    for (int64_t i = 0; i < n; i++) {
        type[i] = node[i].block;
        depth[i] = node[i].depth;
        alone[type[i]]++;
        const int32_t *read = tn_reads(b, &node[i], &count);
        const int64_t end = i + 1 < n ? node[i + 1].out : b->nhandle;
        for (int64_t h = node[i].out; h < end; h++)
            maker[h - low] = (int32_t)i;
        for (int32_t a = 0; a < count; a++)
            if (TN_HANDLES(b)[read[a]].row < 0)
                first[maker[read[a] - low] + 2]++;
    }
    for (int32_t t = 0; t < nt; t++) {
        if (alone[t])
            kind[g->nkind++] = t;
        alone[t] = t == b->p->nblock ? 2 : b->p->block[t].alone;
    }
    for (int64_t i = 0; i < n; i++)
        first[i + 2] += first[i + 1];
    for (int64_t i = 0; i < n; i++) {    /* first[i + 1] ends where those of i + 1 begin */
        const int32_t *read = tn_reads(b, &node[i], &count);
        for (int32_t a = 0; a < count; a++)
            if (TN_HANDLES(b)[read[a]].row < 0)
                user[first[maker[read[a] - low] + 1]++] = (int32_t)i;
    }
    return 0;
}

/* Run what is recorded, or tell of it alone: then *ran is 0. */
TN_COLD int tn_flush_by_policy(TnBatch *b, int *ran)
{
    const TnBatchPolicy *p = b->policy;
    const int typewise = p->kind == TN_POLICY_GREEDY, random = p->kind == TN_POLICY_RANDOM;
    TnBatchGraph g;
    int code;
    *ran = p->kind != TN_POLICY_DEPTH;
    if (!*ran && !p->seen)
        return 0;
    if ((code = tn_batch_graph(b, &g)))
        return code;
    if (p->seen)
        p->seen(p->user, &g);
    if (!*ran)
        return 0;
    if ((code = tn_keep(&b->frame, &b->schedule, 0, tn_schedule_bytes(&g, typewise))))
        return code;
    TnSchedule s = tn_schedule_begin(&g, typewise, p->seed, b->schedule.at);
    while (s.left && !code) {
        const int32_t type = tn_choose(&s, p), n = tn_schedule_take(&s, type, random);
        code = tn_run_group(b, s.member, n);
        if (!code) {
            tn_schedule_done(&s, type, n, typewise);
            code = tn_sweep(b);
        }
    }
    b->nnode = b->narg = b->deepest = b->deepest_last = 0;
    return code;
}

#endif
