/* prelude_batch_walk: what the walk of a request over its control consists of. The walk itself is
 * printed (host_walk.c).
 */
#ifndef TN_PRELUDE_BATCH_WALK_H
#define TN_PRELUDE_BATCH_WALK_H

/* ---- what is equal in all programs ---- */

TN_LINKED int tn_batch(const TnBatchProgram *p, const TnMany *m, const TnFrame *frame);
TN_LINKED int tn_one(const TnBatchProgram *p, const TnFrame *f, const void *const *in,
                     void *const *out, TnBlock *const *made);
TN_LINKED int tn_update(TnBatch *b, int32_t number, int32_t from, int32_t *sizes);
TN_LINKED int tn_set_size(TnBatch *b, int32_t late, int64_t value, int64_t most, int32_t *sizes);
TN_LINKED int tn_run_piece(TnBatch *b);
TN_LINKED int tn_room_for_node(TnBatch *b, int32_t nin, int32_t nout);
TN_LINKED int tn_room_for_row(TnBatch *b, TnPool *p);
TN_LINKED int tn_room_for_call(TnBatch *b, TnRequestRun *r, int64_t slots);
TN_LINKED int tn_run_host(TnBatch *b, const TnRequestRun *r, int32_t block, const void *const *in,
                          void *const *out);
TN_LINKED int tn_record_split(TnBatch *b, int32_t sizes, int32_t block, int64_t made);
TN_LINKED int tn_record_stack(TnBatch *b, int32_t sizes, int32_t *slot, int32_t to, int32_t type,
                              int32_t list);
TN_LINKED int tn_row_in(TnBatch *b, int32_t sizes, int32_t type, int32_t *slot);
TN_LINKED int tn_end(TnBatch *b, TnRequestRun *r, const int32_t *out);

/* ---- recording ---- */

/* A node of this depth is recorded. */
TN_INLINE void tn_deepen(TnBatch *b, int32_t depth)
{
    if (depth < TN_LAST)
        b->deepest = tn_max(b->deepest, depth);
    else
        b->deepest_last = tn_max(b->deepest_last, depth - TN_LAST);
}

/* A node for a block: slots of what it reads, and of what it makes, whose types are `type`. last:
 * results alone read that; split: some of it is. */
TN_INLINE int tn_record(TnBatch *b, TnRequestRun *r, int32_t *slot, int32_t block, int32_t nin,
                        int32_t nout, const int32_t *in, const int32_t *out, const int32_t *type,
                        int last, int split)
{
    const int64_t nnode = b->nnode, narg = b->narg, nhandle = b->nhandle;
    const TnSizesOf *z = tn_sizes_of(b, r->sizes);
    const int full = (nnode + 1) * (int64_t)sizeof(TnNode) > b->node.bytes ||
                     (narg + nin) * (int64_t)sizeof(int32_t) > b->arg.bytes ||
                     tn_lacks_handles(b, nout);
    int fault;
    if (__builtin_expect(full, 0) && (fault = tn_room_for_node(b, nin, nout)))
        return fault;
    TnHandle *handle = TN_HANDLES(b), *made = handle + nhandle;
    int32_t depth = last ? TN_LAST : 0, *arg = (int32_t *)b->arg.at + narg;
    for (int32_t i = 0; i < nin; i++) {
        arg[i] = slot[in[i]];
        depth = handle[arg[i]].depth > depth ? handle[arg[i]].depth : depth;
    }
    for (int32_t o = 0; o < nout; o++) {
        slot[out[o]] = (int32_t)nhandle + o;
        made[o] = (TnHandle){-1, depth + 1, 0};
        ((TnPool *)b->pool.at)[z->pool[type[o]]].soon += split && z->rows[type[o]] >= 0 ?
                                                         z->rows[type[o]] : 1;
    }
    const TnNode node = {block, depth, (int32_t)narg, (int32_t)nhandle, r->sizes};
    ((TnNode *)b->node.at)[nnode] = node;
    b->nnode = nnode + 1;
    b->narg = narg + nin;
    b->nhandle = nhandle + nout;
    if (split && (fault = tn_record_split(b, r->sizes, block, nhandle)))
        return fault;
    const int64_t bytes = z->asked[block];
    r->asked += bytes;
    b->asked += bytes;
    tn_deepen(b, depth);
    return __builtin_expect(b->asked > b->p->cache, 0) ? tn_run_piece(b) : 0;
}

/* Element i of what is split; where: the kernel that reads it. */
TN_INLINE int tn_element(TnBatch *b, int32_t *slot, int32_t to, int32_t from, int64_t i,
                         int32_t where)
{
    const int32_t first = ~TN_HANDLES(b)[slot[from]].pool, n = TN_HANDLES(b)[first - 1].pool;
    const int64_t at = i < 0 ? i + n : i;
    if (__builtin_expect(!tn_inside(at, n), 0))
        return tn_refuse(b->frame.fault, TN_FAULT_INDEX, where, 0, i, n);
    slot[to] = first + (int32_t)at;
    return 0;
}

/* One more at the end of a list. */
TN_INLINE int tn_append(TnBatch *b, int32_t *list, int32_t handle)
{
    if (b->nlink >= INT32_MAX)
        return tn_refuse(b->frame.fault, TN_FAULT_MEMORY, 0, 0, b->nlink, 0);
    int fault = tn_room(b, &b->link, b->nlink, 1, sizeof(TnLink));
    if (fault)
        return fault;
    ((TnLink *)b->link.at)[b->nlink] = (TnLink){handle, *list};
    *list = (int32_t)b->nlink++;
    return 0;
}

/* ---- values that are there at once ---- */

/* The row of a handle; 0: it is not computed yet. */
TN_INLINE const void *tn_row_of(const TnBatch *b, const TnRequestRun *r, int32_t handle,
                                int32_t type)
{
    const int32_t row = TN_HANDLES(b)[handle].row;
    return row < 0 ? 0 : tn_row(b, r->sizes, type, row);
}

/* A fresh row of a type, whose handle a slot gets; where it is. */
TN_INLINE int tn_fresh_row(TnBatch *b, int32_t sizes, int32_t type, int32_t *slot, void **at)
{
    const int32_t pool = tn_sizes_of(b, sizes)->pool[type];
    TnPool *p = (TnPool *)b->pool.at + pool;
    int fault;
    if (__builtin_expect(tn_lacks_handles(b, 1) || tn_is_full(p, 1), 0) &&
        (fault = tn_room_for_row(b, p)))
        return fault;
    TN_HANDLES(b)[b->nhandle] = (TnHandle){(int32_t)p->used, 0, pool};
    *slot = (int32_t)b->nhandle++;
    *at = (char *)p->row.at + p->used++ * p->bytes;
    b->row_bytes += p->bytes;
    return 0;
}
/* The same of what is inline, bytes of it: a constant, so that it is no call. */
TN_INLINE int tn_as_row(TnBatch *b, const TnRequestRun *r, int32_t type, int32_t *slot,
                        const int32_t *from, int64_t bytes)
{
    void *at;
    int fault = tn_fresh_row(b, r->sizes, type, slot, &at);
    if (!fault)
        memcpy(at, from, (size_t)bytes);
    return fault;
}

/* ---- frames and turns ---- */

/* A frame behind the caller's: the slots that the caller has, and that the function needs. */
TN_INLINE int tn_push(TnBatch *b, TnRequestRun *r, int32_t function, int32_t have, int32_t need,
                      int32_t at)
{
    const TnCallFrame up = {r->function, at, r->base, r->sizes};
    int fault;
    if (r->nframe >= b->p->max_calls)
        return tn_refuse(b->frame.fault, TN_FAULT_DEPTH, 0, 0, r->nframe + 1, b->p->max_calls);
    const int64_t slots = (int64_t)r->base + have + need;
    const int full = slots * (int64_t)sizeof(int32_t) > r->stack.bytes ||
                     (r->nframe + 1) * (int64_t)sizeof(TnCallFrame) > r->frame.bytes;
    if (__builtin_expect(full, 0) && (fault = tn_room_for_call(b, r, slots)))
        return fault;
    ((TnCallFrame *)r->frame.at)[r->nframe++] = up;
    r->function = function;
    r->base += have;
    return 0;
}
TN_INLINE void tn_return(TnRequestRun *r)
{
    const TnCallFrame *up = (const TnCallFrame *)r->frame.at + --r->nframe;
    r->function = up->function;
    r->at = up->at;
    r->base = up->base;
    r->sizes = up->sizes;
}

/* May there be another turn behind these? */
TN_INLINE int tn_next_turn(TnBatch *b, int32_t turns)
{
    return turns < b->p->max_trips
               ? 0
               : tn_refuse(b->frame.fault, TN_FAULT_TRIPS, 0, 0, turns, b->p->max_trips);
}

/* A turn has ended. Does the request wait before the next one? */
TN_INLINE int tn_waits(TnBatch *b, TnRequestRun *r)
{
    if (++r->turns < b->turns && r->asked <= (b->turns < INT32_MAX ? 2 * b->share : b->share))
        return 0;
    b->turns = r->turns;
    r->stopped = 1;
    return 1;
}

#endif
