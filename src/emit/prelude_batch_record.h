/* prelude_batch_record: what the walk of a request calls where memory has to grow, and for nodes
 * and rows that are seldom.
 */
#ifndef TN_PRELUDE_BATCH_RECORD_H
#define TN_PRELUDE_BATCH_RECORD_H

static int tn_room_for_handles(TnBatch *b, int64_t n)
{
    if (b->nhandle + n > INT32_MAX)
        return tn_refuse(b->frame.fault, TN_FAULT_MEMORY, 0, 0, b->nhandle, 0);
    return tn_room(b, &b->handle, b->nhandle, n, sizeof(TnHandle));
}
static int tn_need_stack(TnBatch *b, TnRequestRun *r, int64_t slots)
{
    const int64_t bytes = slots * (int64_t)sizeof(int32_t);
    return __builtin_expect(bytes <= r->stack.bytes, 1)
               ? 0
               : tn_keep(&b->frame, &r->stack, r->stack.bytes, bytes);
}
TN_LINKED int tn_room_for_node(TnBatch *b, int32_t nin, int32_t nout)
{
    int code = tn_room(b, &b->node, b->nnode, 1, sizeof(TnNode));
    code = code ? code : tn_room(b, &b->arg, b->narg, nin, sizeof(int32_t));
    return code ? code : tn_room_for_handles(b, nout);
}
TN_LINKED int tn_room_for_row(TnBatch *b, TnPool *p)
{
    const int code = tn_room_for_handles(b, 1);
    return code || !tn_is_full(p, 1) ? code : tn_room_for_rows(b, p, 1);
}
TN_LINKED int tn_room_for_call(TnBatch *b, TnRequestRun *r, int64_t slots)
{
    const int code = tn_need_stack(b, r, slots);
    return code ? code : tn_room(b, &r->frame, r->nframe, 1, sizeof(TnCallFrame));
}

static int tn_new_handles(TnBatch *b, int64_t n)
{
    int code = tn_room_for_handles(b, n);
    for (int64_t i = 0; !code && i < n; i++)
        TN_HANDLES(b)[b->nhandle + i] = (TnHandle){-1, 0, 0};
    b->nhandle += code ? 0 : n;
    return code;
}

/* Handles of the elements of what a node makes, where it is split. made: its handles. */
TN_LINKED int tn_record_split(TnBatch *b, int32_t sizes, int32_t block, int64_t made)
{
    const TnBatchBlock *k = b->p->block + block;
    int code = 0;
    for (int32_t o = 0; o < k->nout && !code; o++) {
        const int64_t n = tn_sizes_of(b, sizes)->rows[k->type[k->nin + o]];
        if (n < 0)
            continue;
        if (n >= INT32_MAX)
            return tn_refuse(b->frame.fault, TN_FAULT_MEMORY, 0, 0, n, 0);
        code = tn_room_for_handles(b, n + 1);
        const int32_t first = (int32_t)b->nhandle + 1;
        for (int64_t i = 0; i <= n && !code; i++)
            TN_HANDLES(b)[b->nhandle + i] =
                (TnHandle){i ? -1 : -2, i ? TN_HANDLES(b)[made + o].depth : 0, i ? 0 : (int32_t)n};
        if (!code)
            TN_HANDLES(b)[made + o].pool = ~first;
        b->nhandle += code ? 0 : n + 1;
    }
    return code;
}

/* A node that puts the rows of a list behind each other: slots of the list and of the whole. */
TN_LINKED int tn_record_stack(TnBatch *b, int32_t sizes, int32_t *slot, int32_t to, int32_t type,
                              int32_t list)
{
    const TnLink *link = (const TnLink *)b->link.at;
    int32_t n = 0, depth = 0;
    int fault = 0;
    for (int32_t l = slot[list]; l >= 0; l = link[l].before, n++)
        depth = (int32_t)tn_max(depth, TN_HANDLES(b)[link[l].handle].depth);
    const int64_t out = b->nhandle;
    if ((fault = tn_room(b, &b->node, b->nnode, 1, sizeof(TnNode))) ||
        (fault = tn_room(b, &b->arg, b->narg, n + 2, sizeof(int32_t))) ||
        (fault = tn_new_handles(b, 1)))
        return fault;
    int32_t *arg = (int32_t *)b->arg.at + b->narg, at = n;
    arg[0] = n;
    arg[1] = type;
    for (int32_t l = slot[list]; l >= 0; l = link[l].before)
        arg[2 + --at] = link[l].handle;
    TN_HANDLES(b)[out].depth = depth + 1;
    tn_pool_of(b, sizes, type)->soon++;
    slot[to] = (int32_t)out;
    const TnNode made = {b->p->nblock, depth, (int32_t)b->narg, (int32_t)out, sizes};
    ((TnNode *)b->node.at)[b->nnode++] = made;
    b->narg += n + 2;
    tn_deepen(b, depth);
    return 0;
}

TN_LINKED int tn_row_in(TnBatch *b, int32_t sizes, int32_t type, int32_t *slot)
{
    void *at;
    return tn_fresh_row(b, sizes, type, slot, &at);
}

/* A block that the host computes, as a graph. */
TN_LINKED int tn_run_host(TnBatch *b, const TnRequestRun *r, int32_t block, const void *const *in,
                          void *const *out)
{
    b->frame.inputs = in;
    b->frame.outputs = out;
    b->frame.sym = tn_sizes_of(b, r->sizes)->sym;
    return b->p->block[block].run(&b->frame);
}

/* The end of a request: handles of its outputs are the first slots from now on. */
TN_LINKED int tn_end(TnBatch *b, TnRequestRun *r, const int32_t *out)
{
    const int32_t n = b->p->noutput, *slot = TN_STACK(r);
    int32_t result[n + 1];
    int fault = tn_need_stack(b, r, n);
    for (int32_t i = 0; i < n; i++)
        result[i] = slot[out[i]];
    if (fault)
        return fault;
    memcpy(r->stack.at, result, (size_t)n * sizeof *result);
    r->ended = 1;
    return 0;
}

#endif
