/* prelude_batch_run: nodes that were recorded run, all of one block and one size at once.
 *
 * A block for many reads rows of pools through row numbers and gives fresh adjacent rows. A
 * block for one request has pointers to the values themselves.
 */
#ifndef TN_PRELUDE_BATCH_RUN_H
#define TN_PRELUDE_BATCH_RUN_H

static int tn_room_for_rows(TnBatch *b, TnPool *p, int64_t n)
{
    if (p->used + n > INT32_MAX)
        return tn_refuse(b->frame.fault, TN_FAULT_MEMORY, 0, 0, p->used, 0);
    return tn_keep(&b->frame, &p->row, tn_size_mul(p->used, p->bytes),
                   tn_size_mul(p->used + n, p->bytes));
}
/* n fresh rows; the first into *row. */
static int tn_rows_of(TnBatch *b, TnPool *p, int64_t n, int64_t *row)
{
    const int code = tn_is_full(p, n) ? tn_room_for_rows(b, p, n) : 0;
    *row = p->used;
    p->used += code ? 0 : n;
    b->row_bytes += n * p->bytes;
    return code;
}
/* Of n fresh values; the first into *row. */
static int tn_new_rows(TnBatch *b, int32_t sizes, int32_t type, int64_t n, int64_t *row)
{
    TnPool *p = tn_pool_of(b, sizes, type);
    const int64_t each = tn_sizes_of(b, sizes)->rows[type];
    n = each < 0 ? n : tn_size_mul(n, each);
    p->soon -= n;
    return tn_rows_of(b, p, n, row);
}
/* A handle has a row of a type from now on. */
static void tn_is_made(TnBatch *b, int64_t handle, int32_t sizes, int32_t type, int64_t row)
{
    TN_HANDLES(b)[handle] = (TnHandle){(int32_t)row, 0, tn_sizes_of(b, sizes)->pool[type]};
}

/* A block of values themselves, for one request: handles of what it reads, and of what it makes. */
static int tn_run_alone(TnBatch *b, int32_t number, int32_t sizes, const int32_t *arg, int64_t made)
{
    const TnBatchBlock *k = &b->p->block[number];
    const void *in[k->nin + 1];
    void *out[k->nout + 1];
    int fault = 0;
    for (int32_t o = 0; !fault && o < k->nout; o++) {
        int64_t row;
        fault = tn_new_rows(b, sizes, k->type[k->nin + o], 1, &row);
        tn_is_made(b, made + o, sizes, k->type[k->nin + o], row);
    }
    if (fault)
        return fault;
    for (int32_t o = 0; o < k->nout; o++)
        out[o] = (void *)tn_row(b, sizes, k->type[k->nin + o], TN_HANDLES(b)[made + o].row);
    for (int32_t i = 0; i < k->nin; i++)
        in[i] = tn_row(b, sizes, k->type[i], TN_HANDLES(b)[arg[i]].row);
    b->frame.inputs = in;
    b->frame.outputs = out;
    b->frame.sym = tn_sizes_of(b, sizes)->sym;
    tn_tally(b, number, 1);
    return k->run(&b->frame);
}

/* Nodes of one block that are ready, and are of one size. They run all at once, or as many at once
 * as make TN_CACHES_AT_ONCE caches of rows: what the block computes between its kernels takes
 * memory for those alone, and stays near the core. */
enum { TN_CACHES_AT_ONCE = 2, TN_LEAST_AT_ONCE = 64 };
TN_HOT static int tn_run_block(TnBatch *b, int32_t number, int32_t sizes, const int32_t *member, int32_t n)
{
    const TnBatchBlock *k = &b->p->block[number];
    const TnNode *node = (const TnNode *)b->node.at;
    const int32_t *arg = (const int32_t *)b->arg.at;
    const int64_t bytes = tn_sizes_of(b, sizes)->asked[number];
    const int64_t at_once =
        n <= TN_LEAST_AT_ONCE
            ? n
            : tn_max(TN_LEAST_AT_ONCE, TN_CACHES_AT_ONCE * b->p->cache / bytes);
    const void *in[2 * k->nin + 1];
    void *out[k->nout + 1];
    int64_t first[k->nout + 1], most = 1;
    int code = tn_room(b, &b->rows, 0, (int64_t)n * (k->nin + 1), sizeof(int32_t));
    for (int32_t o = 0; !code && o < k->nout; o++)
        code = tn_new_rows(b, sizes, k->type[k->nin + o], n, &first[o]);
    if (code)
        return code;
    int32_t *row = (int32_t *)b->rows.at;
    for (int32_t i = 0; i < k->nin; i++, row += n) {
        for (int32_t j = 0; j < n; j++)
            row[j] = TN_HANDLES(b)[arg[node[member[j]].arg + i]].row;
        in[2 * i] = tn_row(b, sizes, k->type[i], 0);
        in[2 * i + 1] = row;
        most = tn_max(most, tn_pool_of(b, sizes, k->type[i])->used);
    }
    for (int32_t o = 0; o < k->nout; o++) {
        const int32_t type = k->type[k->nin + o], pool = tn_sizes_of(b, sizes)->pool[type];
        out[o] = (void *)tn_row(b, sizes, type, first[o]);
        const int32_t each = (int32_t)tn_sizes_of(b, sizes)->rows[type];
        for (int32_t j = 0; j < n && each < 0; j++)
            TN_HANDLES(b)[node[member[j]].out + o] = (TnHandle){(int32_t)first[o] + j, 0, pool};
        for (int32_t j = 0; j < n && each >= 0; j++) {
            TnHandle *x = TN_HANDLES(b) + node[member[j]].out + o, *element = TN_HANDLES(b) + ~x->pool;
            for (int32_t i = 0; i < each; i++)
                element[i] = (TnHandle){(int32_t)first[o] + j * each + i, 0, pool};
            *x = (TnHandle){-2, 0, x->pool};
        }
    }
    b->frame.inputs = in;
    b->frame.outputs = out;
    b->frame.sym = tn_sizes_of(b, sizes)->sym;
    b->frame.sym[b->p->rows] = most;
    tn_tally(b, number, n);
    for (int64_t at = 0; !code && at < n; at += at_once) {
        b->frame.sym[b->p->instances] = tn_min(at_once, n - at);
        code = k->run(&b->frame);
        for (int32_t i = 0; i < k->nin; i++)
            in[2 * i + 1] = (const int32_t *)in[2 * i + 1] + at_once;
        for (int32_t o = 0; o < k->nout; o++) {
            const int32_t type = k->type[k->nin + o];
            out[o] = (char *)out[o] +
                     at_once * tn_rows_each(b, sizes, type) * tn_pool_of(b, sizes, type)->bytes;
        }
    }
    return code;
}

/* A list of rows as one row. Arguments of its node: how many, the type of the whole, the rows. */
static void tn_run_stack(TnBatch *b, int32_t number)
{
    const TnNode *node = (const TnNode *)b->node.at + number;
    const int32_t *arg = (const int32_t *)b->arg.at + node->arg;
    const int64_t bytes = arg[0] ? tn_pool_of(b, node->sizes, arg[1])->bytes / arg[0] : 0;
    char *to = (char *)tn_row(b, node->sizes, arg[1], TN_HANDLES(b)[node->out].row);
    for (int32_t i = 0; i < arg[0] && bytes; i++) {
        const TnHandle *x = &TN_HANDLES(b)[arg[2 + i]];
        const char *from = (const char *)((const TnPool *)b->pool.at)[x->pool].row.at;
        memcpy(to + i * bytes, from + x->row * bytes, (size_t)bytes);
    }
}

/* Nodes of one block and one depth: those of one size at a time. They are put in that order. */
TN_HOT TN_CALLED int tn_run_group(TnBatch *b, int32_t *member, int32_t n)
{
    const TnNode *node = (const TnNode *)b->node.at;
    const int32_t block = node[member[0]].block;
    int code = 0;
    for (int32_t i = 0; block == b->p->nblock && i < n && !code; i++) {
        int64_t row;
        const int32_t type = ((const int32_t *)b->arg.at)[node[member[i]].arg + 1];
        if ((code = tn_new_rows(b, node[member[i]].sizes, type, 1, &row)))
            break;
        tn_is_made(b, node[member[i]].out, node[member[i]].sizes, type, row);
        tn_run_stack(b, member[i]);
    }
    if (block == b->p->nblock)
        return code;
    for (int32_t i = 0; b->p->block[block].alone && i < n && !code; i++) {
        const TnNode *x = (const TnNode *)b->node.at + member[i];
        code = tn_run_alone(b, block, x->sizes, (const int32_t *)b->arg.at + x->arg, x->out);
    }
    if (b->p->block[block].alone)
        return code;
    if (b->p->block[block].size[0] < 0)              /* it has one size */
        return code ? code : tn_run_block(b, block, node[member[0]].sizes, member, n);
    while (n > 0 && !code) {
        const int32_t sizes = tn_sizes_of(b, node[member[0]].sizes)->block[block];
        int32_t same = 0;
        for (int32_t i = 0; i < n; i++)
            if (tn_sizes_of(b, node[member[i]].sizes)->block[block] == sizes) {
                const int32_t x = member[i];
                member[i] = member[same];
                member[same++] = x;
            }
        code = tn_run_block(b, block, sizes, member, same);
        member += same;
        n -= same;
    }
    return code;
}

TN_COLD int tn_flush_by_policy(TnBatch *b, int *ran);       /* prelude_policy.h */

TN_INLINE int64_t tn_bucket(const TnNode *n, int64_t last, int64_t kinds)
{
    return (n->depth < TN_LAST ? n->depth : n->depth - last) * kinds + n->block;
}
/* Is all computed that a node reads? Adds the bytes of that. */
static int tn_is_ready(const TnBatch *b, const TnNode *node, int64_t *bytes)
{
    int64_t sum = 0;
    int32_t n;
    const int32_t *read = tn_reads(b, node, &n);
    for (int32_t i = 0; i < n; i++) {
        const TnHandle *x = TN_HANDLES(b) + read[i];
        if (x->row < 0)
            return 0;
        sum += ((const TnPool *)b->pool.at)[x->pool].bytes;
    }
    *bytes += sum;
    return 1;
}

/* Nodes of blocks that wait for all others run before them where they are ready, if what they read
 * is a good part of the rows in use: it would be kept until the end. member: by block, of which
 * block k has those up to end[k], the first done[k] of them have run. */
enum { TN_GOOD_PART = 4 };           /* a quarter of the bytes */
TN_COLD int tn_run_ready(TnBatch *b, int32_t *member, const int32_t *end, int32_t *done)
{
    const TnNode *node = (const TnNode *)b->node.at;
    const int32_t kinds = b->p->nblock + 1;
    int32_t ready[kinds];
    int64_t bytes = 0;
    int code = 0;
    for (int32_t k = 0; k < kinds; k++) {
        const int32_t from = end[k - 1] + done[k];
        ready[k] = 0;
        for (int32_t i = from; i < end[k]; i++)
            if (tn_is_ready(b, &node[member[i]], &bytes)) {
                const int32_t x = member[i];
                member[i] = member[from + ready[k]];
                member[from + ready[k]++] = x;
            }
    }
    for (int32_t k = 0; k < kinds && TN_GOOD_PART * bytes > b->row_bytes && !code; k++)
        if (ready[k]) {
            code = tn_run_group(b, member + end[k - 1] + done[k], ready[k]);
            done[k] += ready[k];
        }
    return code;
}

/* Run what is recorded: pieces 1, all of it; more where a walk goes on. */
TN_HOT static int tn_flush(TnBatch *b, int64_t pieces)
{
    const TnNode *node = (const TnNode *)b->node.at;
    const int64_t kinds = b->p->nblock + 1;                  /* the last: lists */
    const int64_t last = TN_LAST - (b->deepest + 1);         /* last ones run behind the deepest */
    int64_t nkey = (b->deepest + 2 + b->deepest_last) * kinds;
    int code = 0;
    b->asked = 0;
    if (!b->nnode)
        return 0;
    const int by_depth = b->policy->kind == TN_POLICY_DEPTH && !b->policy->seen;
    if (b->nnode == 1 && by_depth) {         /* a request alone that waits for it */
        int32_t one = 0;
        code = tn_run_group(b, &one, 1);
        b->nnode = b->narg = b->deepest = b->deepest_last = 0;
        return code ? code : tn_sweep(b);
    }
    if ((code = tn_expect_rows(b, pieces)))
        return code;
    if (__builtin_expect(!by_depth, 0)) {
        int ran;
        if ((code = tn_flush_by_policy(b, &ran)) || ran)
            return code;
    }
    if ((code = tn_keep(&b->frame, &b->count, 0, (nkey + 1 + kinds) * (int64_t)sizeof(int32_t))) ||
        (code = tn_keep(&b->frame, &b->order, 0, b->nnode * (int64_t)sizeof(int32_t))))
        return code;
    int32_t *begin = (int32_t *)b->count.at, *order = (int32_t *)b->order.at;
    int32_t *done = begin + nkey + 1;                /* [kinds] of the first behind the deepest */
    memset(begin, 0, (size_t)(nkey + 1 + kinds) * sizeof *begin);
    for (int64_t i = 0; i < b->nnode; i++)
        begin[tn_bucket(&node[i], last, kinds) + 1]++;
    for (int64_t k = 0; k < nkey; k++)
        begin[k + 1] += begin[k];
    for (int64_t i = 0; i < b->nnode; i++)
        order[begin[tn_bucket(&node[i], last, kinds)]++] = (int32_t)i;
    const int64_t first_last = (b->deepest + 1) * kinds;
    for (int64_t k = 0; !code && k < nkey; k++) {            /* begin[k] is where k ends by now */
        int32_t from = k ? begin[k - 1] : 0;
        if (k >= first_last && k < first_last + kinds)
            from += done[k - first_last];
        if (begin[k] > from) {
            code = tn_run_group(b, order + from, begin[k] - from);
            if (!code && k < first_last && begin[nkey - 1] > begin[first_last - 1] &&
                tn_is_time_to_drop(b))
                code = tn_run_ready(b, order, begin + first_last, done);
            code = code ? code : tn_sweep(b);
        }
    }
    b->nnode = b->narg = b->deepest = b->deepest_last = 0;
    return code;
}

/* Are the recorded nodes enough for a piece, which runs before more are recorded? Rows that leave
 * the L2 cache before they are read come back from further away; in a smaller piece, each batch
 * reads its weights for fewer rows. So a piece fills the cache, or has as many bytes of rows as its
 * batches read of weights, whichever is more. */
enum { TN_ROOM_PIECES = 4 };         /* a pool that grows for a piece gets room for this many */
static int tn_is_enough(const TnBatch *b)
{
    return b->asked / (b->deepest + b->deepest_last + 1) > b->p->weights;
}
/* Called when what is recorded takes more than the cache. */
TN_LINKED int tn_run_piece(TnBatch *b)
{
    return tn_is_enough(b) ? tn_flush(b, TN_ROOM_PIECES) : 0;
}

#endif
