/* prelude_batch_memory: rows that nothing reads any more are dropped, between walks and between the
 * batches of one run.
 */
#ifndef TN_PRELUDE_BATCH_MEMORY_H
#define TN_PRELUDE_BATCH_MEMORY_H

/* Bytes of rows; less is not worth a look: as many as a core computes, in blocks that do little,
 * while it looks at a handle. */
enum { TN_LEAST_SWEPT = 1 << 20, TN_WORTH_A_HANDLE = 16 };
enum { TN_KEPT = 16 };               /* caches that pools may have, however few their rows are */

/* Numbers on a stack are handles, links of lists or counters. Each is taken for all that it may be:
 * what is kept too long is only memory. */
static void tn_mark(const TnBatch *b, const int32_t *at, int64_t n, unsigned char *live,
                    unsigned char *linked)
{
    const TnLink *link = (const TnLink *)b->link.at;
    for (int64_t i = 0; i < n; i++) {
        if (at[i] >= 0 && at[i] < b->nhandle) {
            const TnHandle *x = TN_HANDLES(b) + at[i];
            live[at[i]] = 1;
            if (x->pool < 0)         /* it is split */
                memset(live + ~x->pool, 1, (size_t)x[~x->pool - at[i] - 1].pool);
        }
        for (int32_t l = at[i] < b->nlink ? at[i] : -1; l >= 0 && !linked[l]; l = link[l].before) {
            linked[l] = 1;
            live[link[l].handle] = 1;
        }
    }
}

/* Rows that stay, whose where[row] is 1, move to the front of their pool; where[row] becomes their
 * new place. Where no rows are to follow and memory is no matter, all stay where they are. Memory
 * matters where rows have been in it. */
static int tn_close_up(TnBatch *b, TnPool *p, int32_t *where, int shrink)
{
    int64_t n = 0;
    for (int64_t row = 0; row < p->used; row++)
        n += where[row];
    const int64_t wanted = (n + tn_max(p->soon, 0)) * p->bytes;
    p->most = tn_max(p->most, p->used);
    const int keep = !shrink || wanted > p->most * p->bytes / 4, stay = p->soon <= 0 && keep;
    n = 0;
    for (int64_t row = 0; row < p->used; row++) {
        if (!stay && where[row] && p->bytes && row != n)
            memmove((char *)p->row.at + n * p->bytes, (char *)p->row.at + row * p->bytes,
                    (size_t)p->bytes);
        where[row] = !where[row] ? -1 : stay ? (int32_t)row : (int32_t)n++;
    }
    p->used = stay ? p->used : n;
    if (keep)
        return 0;
    TnBlock less = {0, 0};           /* most of it is empty: it takes less from here on */
    int code = wanted > 0 ? tn_need(&b->frame, &less, wanted) : 0;
    if (code)
        return code;
    if (n * p->bytes > 0)
        memcpy(less.at, p->row.at, (size_t)(n * p->bytes));
    tn_put(&b->frame, &p->row);
    p->row = less;
    p->most = n;
    return 0;
}

/* Drop the rows that no request can ask for any more, and no node reads that has yet to run. */
TN_COLD int tn_drop_rows(TnBatch *b)
{
    const TnNode *node = (const TnNode *)b->node.at;
    TnPool *pool = (TnPool *)b->pool.at;
    TnBlock memory = {0, 0};
    int64_t rows = 0, room = 0;
    int code;
    for (int32_t i = 0; i < b->npool; i++)
        rows += pool[i].used, room += tn_max(pool[i].most, pool[i].used) * pool[i].bytes;
    const int64_t bytes = (rows + b->npool) * (int64_t)sizeof(int32_t) + b->nhandle + b->nlink;
    if ((code = tn_need(&b->frame, &memory, bytes + 1)))
        return code;
    memset(memory.at, 0, (size_t)bytes);
    int32_t *where = (int32_t *)memory.at, *first = where + rows;
    unsigned char *live = (unsigned char *)(first + b->npool), *linked = live + b->nhandle;
    for (int32_t i = 1; i < b->npool; i++)
        first[i] = first[i - 1] + (int32_t)pool[i - 1].used;
    for (int32_t i = 0; i < b->m->n; i++) {
        const TnRequestRun *r = (const TnRequestRun *)b->request.at + i;
        const TnBatchFunction *f = b->p->function + r->function;
        const int32_t n = r->ended ? b->p->noutput : r->base + f->nslot + f->ncounter;
        tn_mark(b, (const int32_t *)r->stack.at, n, live, linked);
    }
    for (int64_t i = 0; i < b->nnode; i++)
        if (TN_HANDLES(b)[node[i].out].row == -1) {
            int32_t n;
            const int32_t *read = tn_reads(b, &node[i], &n);
            for (int32_t a = 0; a < n; a++)
                live[read[a]] = 1;
        }
    for (int64_t h = 0; h < b->nhandle; h++)
        if (live[h] && TN_HANDLES(b)[h].row >= 0)
            where[first[TN_HANDLES(b)[h].pool] + TN_HANDLES(b)[h].row] = 1;
    for (int32_t i = 0; i < b->npool && !code; i++)
        code = tn_close_up(b, &pool[i], where + first[i], room > TN_KEPT * b->p->cache);
    for (int64_t h = 0; h < b->nhandle; h++) {
        TnHandle *x = TN_HANDLES(b) + h;
        if (x->row >= 0)
            /* No row: a counter of the same number may mark a dead handle later. */
            x->row = live[h] ? where[first[x->pool] + x->row] : -2;
    }
    tn_put(&b->frame, &memory);
    b->row_bytes = 0;
    for (int32_t i = 0; i < b->npool; i++)
        b->row_bytes += pool[i].used * pool[i].bytes;
    b->sweep_at = b->row_bytes + b->row_bytes / 2;
    return code;
}

/* Bytes of rows that are worth a look at all handles. */
TN_INLINE int64_t tn_worth(const TnBatch *b)
{
    return TN_LEAST_SWEPT + TN_WORTH_A_HANDLE * b->nhandle;
}
/* Are there half as many rows more than the last time left, and are they worth a look? */
TN_INLINE int tn_is_time_to_drop(const TnBatch *b)
{
    return __builtin_expect(b->row_bytes >= tn_max(b->sweep_at, tn_worth(b)), 0);
}
TN_INLINE int tn_sweep(TnBatch *b)
{
    return tn_is_time_to_drop(b) ? tn_drop_rows(b) : 0;
}

/* Room for the rows that what is recorded makes, at once, since a pool that grows is copied; for so
 * many times as many where more pieces like this one follow. Dead rows are not copied. */
static int tn_expect_rows(TnBatch *b, int64_t pieces)
{
    TnPool *pool = (TnPool *)b->pool.at;
    int64_t copied = 0;
    int code = 0;
    for (int32_t i = 0; i < b->npool; i++)
        if ((pool[i].used + pool[i].soon) * pool[i].bytes > pool[i].row.bytes)
            copied += pool[i].used * pool[i].bytes;
    if (copied > tn_worth(b))
        code = tn_drop_rows(b);
    for (int32_t i = 0; i < b->npool; i++) {
        const int64_t rows = tn_size_add(pool[i].used, tn_size_mul(pieces, pool[i].soon));
        if (pool[i].soon && !code)
            code = tn_keep(&b->frame, &pool[i].row, pool[i].used * pool[i].bytes,
                           tn_size_mul(rows, pool[i].bytes));
    }
    return code;
}

#endif
