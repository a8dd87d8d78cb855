/* prelude_batch: many requests of one model at once: control is walked, blocks are recorded, what is recorded runs in order of depth
 * (graph/batch.h).
 *
 * A handle is one value of one request: its row in a pool once it is computed, -1 before, and how deep what makes it lies behind what is
 * computed already. A node is a block that is to run on some handles. Nodes of one block and one depth run together.
 */
#ifndef TN_PRELUDE_BATCH_H
#define TN_PRELUDE_BATCH_H

enum { TN_DO_BLOCK, TN_DO_HOST, TN_DO_BRANCH, TN_DO_JUMP, TN_DO_MOVE, TN_DO_CALL, TN_DO_RETURN, TN_DO_BEGIN, TN_DO_TURN, TN_DO_COUNT, TN_DO_NEXT, TN_DO_UPDATE, TN_DO_TURNS, TN_DO_MATCH,
    TN_DO_CHECK, TN_DO_LIST, TN_DO_ADD, TN_DO_STACK };

/* size: the model's symbols that decide its sizes, -1 behind them. alone: it has values in place of rows.
 * last: what it makes is read for results alone, so it waits for all others. */
typedef struct { int (*run)(const TnFrame *); int32_t nin, nout, alone, last; const int32_t *type, *size; } TnBatchBlock;
typedef struct { int32_t nslot, ncounter, code; } TnBatchFunction;
typedef struct {                     /* what the model's program is */
    const TnBatchFunction *function;
    const TnBatchBlock *block;
    const int32_t *code, *input_type, *output_type, *late;
    int32_t nblock, ntype, ninput, noutput, instances, rows, nsymbol;
    int64_t max_trips, max_calls, most_rows;             /* most_rows: bytes, beyond which what is recorded runs before more is */
    void (*sizes)(int64_t *sym, int64_t *row_bytes);
    int (*update)(int32_t number, const int64_t *sym, int64_t *to, TnFault *fault);
    int (*check)(int32_t number, const int64_t *sym, TnFault *fault);
    void (*dims)(const int64_t *sym, int64_t *output_dims);
    const TnBatchPolicy *policy;     /* where none is given */
} TnBatchProgram;

typedef struct { int32_t row, depth, pool; } TnHandle;               /* pool: that its row is in, once there is one */
/* Depths of what is read for results alone are counted from here on. */
#define TN_LAST (1 << 28)
typedef struct { int32_t block, depth, arg, out, sizes; } TnNode;    /* arg, out: where its handles begin */
typedef struct { int32_t function, at, base, call, sizes; } TnCallFrame;     /* of the caller, who goes on at `at`; call: its code */
typedef struct { int32_t handle, before; } TnLink;                  /* of a list: the link before it, -1 for the first */
typedef struct {                     /* how far a request is */
    TnBlock stack, frame;
    int32_t nframe, function, at, base, ended, sizes;
    int64_t asked;                   /* bytes of rows that it has recorded since it last waited */
} TnRequestRun;
/* Between two turns of a loop a request waits where all of them together would ask for more: what is recorded runs, and what turns before
 * needed is dropped. */
#define TN_MOST_ASKED (INT64_C(1) << 24)
/* Rows of so many bytes. */
typedef struct { TnBlock row; int64_t bytes, used; } TnPool;
/* Requests of equal sizes. */
typedef struct {
    int64_t *sym;                    /* [2 * nsymbol] as blocks have them; as they were given */
    int32_t *block;                  /* [nblock] the first TnSizesOf that is equal in the sizes of the block */
    int32_t *pool;                   /* [ntype] where a row of the type is */
    int32_t update, next;            /* what these last became, by which update; -1 */
    TnBlock memory;                  /* that all this is in */
} TnSizesOf;

typedef struct { uint64_t hash; int32_t what, value; } TnMet;        /* value -1: nothing is here */

typedef struct {
    const TnBatchProgram *p;
    const TnMany *m;
    TnFrame frame;                   /* what blocks run in */
    const TnBatchPolicy *policy;     /* of the requests, or the program's */
    TnBlock handle, node, arg, order, count, rows, request, sizes, pool, bytes, link, met;
    TnBlock edge, schedule;          /* of a policy with edges */
    int64_t nhandle, nnode, narg, deepest, deepest_last, nlink, sweep_at, asked, nmet, met_room;
    int32_t nsizes, npool;
} TnBatch;

#define TN_HANDLES(b) ((TnHandle *)(b)->handle.at)
#define TN_STACK(r) ((int32_t *)(r)->stack.at + (r)->base)

/* Room for n more of what has `used` bytes; nearly always there is. */
TN_INLINE int tn_room(TnBatch *b, TnBlock *x, int64_t used, int64_t more)
{
    return __builtin_expect(used + more <= x->bytes, 1) ? 0 : tn_keep(&b->frame, x, used, used + more);
}
static int tn_new_handles(TnBatch *b, int64_t n)
{
    int code = b->nhandle + n > INT32_MAX ? tn_refuse(b->frame.fault, TN_FAULT_MEMORY, 0, 0, b->nhandle, 0)
                                          : tn_room(b, &b->handle, b->nhandle * (int64_t)sizeof(TnHandle), n * (int64_t)sizeof(TnHandle));
    for (int64_t i = 0; !code && i < n; i++)
        TN_HANDLES(b)[b->nhandle + i] = (TnHandle){-1, 0, 0};
    b->nhandle += code ? 0 : n;
    return code;
}
static TnSizesOf *tn_sizes_of(const TnBatch *b, int32_t sizes) { return (TnSizesOf *)b->sizes.at + sizes; }
static TnPool *tn_pool_of(const TnBatch *b, int32_t sizes, int32_t type) { return (TnPool *)b->pool.at + tn_sizes_of(b, sizes)->pool[type]; }
/* n fresh rows of a type; the first into *row. */
static int tn_new_rows(TnBatch *b, int32_t sizes, int32_t type, int64_t n, int64_t *row)
{
    TnPool *p = tn_pool_of(b, sizes, type);
    *row = p->used;
    if (*row + n > INT32_MAX)
        return tn_refuse(b->frame.fault, TN_FAULT_MEMORY, 0, 0, *row, 0);
    int code = 0;
    if (__builtin_expect(p->bytes > INT32_MAX || (*row + n) * p->bytes > p->row.bytes, 0))
        code = tn_keep(&b->frame, &p->row, tn_size_mul(*row, p->bytes), tn_size_mul(*row + n, p->bytes));
    p->used += code ? 0 : n;
    return code;
}
/* A handle has a row of a type from now on. */
static void tn_is_made(TnBatch *b, int64_t handle, int32_t sizes, int32_t type, int64_t row)
{
    TN_HANDLES(b)[handle] = (TnHandle){(int32_t)row, 0, tn_sizes_of(b, sizes)->pool[type]};
}
static const void *tn_row(const TnBatch *b, int32_t sizes, int32_t type, int64_t row)
{
    const TnPool *p = tn_pool_of(b, sizes, type);
    return (const char *)p->row.at + row * p->bytes;
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
    if (b->m->count) {
        b->m->count[number].nodes++;
        b->m->count[number].batches++;
    }
    return k->run(&b->frame);
}

/* Nodes of one block that are ready, and are of one size, all at once. */
static int tn_run_block(TnBatch *b, int32_t number, int32_t sizes, const int32_t *member, int32_t n)
{
    const TnBatchBlock *k = &b->p->block[number];
    const TnNode *node = (const TnNode *)b->node.at;
    const int32_t *arg = (const int32_t *)b->arg.at;
    const void *in[2 * k->nin + 1];
    void *out[k->nout + 1];
    int64_t first[k->nout + 1], most = 1;
    int code = tn_keep(&b->frame, &b->rows, 0, (int64_t)n * (k->nin + 1) * (int64_t)sizeof(int32_t));
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
        out[o] = (void *)tn_row(b, sizes, k->type[k->nin + o], first[o]);
        for (int32_t j = 0; j < n; j++)
            tn_is_made(b, node[member[j]].out + o, sizes, k->type[k->nin + o], first[o] + j);
    }
    b->frame.inputs = in;
    b->frame.outputs = out;
    b->frame.sym = tn_sizes_of(b, sizes)->sym;
    b->frame.sym[b->p->instances] = n;
    b->frame.sym[b->p->rows] = most;
    if (b->m->count) {
        b->m->count[number].nodes += n;
        b->m->count[number].batches++;
    }
    return k->run(&b->frame);
}

/* A list of rows as one row. Its node's arguments: how many, the type of the whole, and the rows. */
static void tn_run_stack(TnBatch *b, int32_t number)
{
    const TnNode *node = (const TnNode *)b->node.at + number;
    const int32_t *arg = (const int32_t *)b->arg.at + node->arg;
    const int64_t bytes = arg[0] ? tn_pool_of(b, node->sizes, arg[1])->bytes / arg[0] : 0;
    for (int32_t i = 0; i < arg[0] && bytes; i++)
        memcpy((char *)tn_row(b, node->sizes, arg[1], TN_HANDLES(b)[node->out].row) + i * bytes,
               (const char *)((const TnPool *)b->pool.at)[TN_HANDLES(b)[arg[2 + i]].pool].row.at + TN_HANDLES(b)[arg[2 + i]].row * bytes, (size_t)bytes);
}

/* Nodes of one block and one depth: those of one size at a time. They are put in that order. */
static int tn_run_group(TnBatch *b, int32_t *member, int32_t n)
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

static int tn_flush_by_policy(TnBatch *b, int *ran);       /* prelude_policy.h */

static int64_t tn_bucket(const TnNode *n, int64_t last, int64_t kinds)
{
    return (n->depth < TN_LAST ? n->depth : n->depth - last) * kinds + n->block;
}
/* A node of this depth is recorded. */
static void tn_deepen(TnBatch *b, int32_t depth)
{
    if (depth < TN_LAST)
        b->deepest = tn_max(b->deepest, depth);
    else
        b->deepest_last = tn_max(b->deepest_last, depth - TN_LAST);
}

/* Run what is recorded. */
static int tn_flush(TnBatch *b)
{
    const TnNode *node = (const TnNode *)b->node.at;
    const int64_t kinds = b->p->nblock + 1;                  /* the last: lists */
    const int64_t last = TN_LAST - (b->deepest + 1);         /* what is last comes behind the deepest */
    int64_t nkey = (b->deepest + 2 + b->deepest_last) * kinds;
    int code = 0;
    if (!b->nnode)
        return 0;
    if (__builtin_expect(b->policy->kind != TN_POLICY_DEPTH || b->policy->seen, 0)) {
        int ran;
        if ((code = tn_flush_by_policy(b, &ran)) || ran)
            return code;
    }
    if ((code = tn_keep(&b->frame, &b->count, 0, (nkey + 1) * (int64_t)sizeof(int32_t))) ||
        (code = tn_keep(&b->frame, &b->order, 0, b->nnode * (int64_t)sizeof(int32_t))))
        return code;
    int32_t *begin = (int32_t *)b->count.at, *order = (int32_t *)b->order.at;
    memset(begin, 0, (size_t)(nkey + 1) * sizeof *begin);
    for (int64_t i = 0; i < b->nnode; i++)
        begin[tn_bucket(&node[i], last, kinds) + 1]++;
    for (int64_t k = 0; k < nkey; k++)
        begin[k + 1] += begin[k];
    for (int64_t i = 0; i < b->nnode; i++)
        order[begin[tn_bucket(&node[i], last, kinds)]++] = (int32_t)i;
    for (int64_t k = 0; !code && k < nkey; k++) {            /* begin[k] is where k ends by now */
        int32_t from = k ? begin[k - 1] : 0;
        if (begin[k] > from)
            code = tn_run_group(b, order + from, begin[k] - from);
    }
    b->nnode = b->narg = b->deepest = b->deepest_last = 0;
    return code;
}

/* A node for the block at `code`, whose slots of inputs and outputs stand behind it. */
static int tn_record(TnBatch *b, int32_t sizes, int32_t *slot, const int32_t *code, int64_t *asked)
{
    const TnBatchBlock *k = &b->p->block[code[1]];
    int fault = 0;
    if ((fault = tn_room(b, &b->node, b->nnode * (int64_t)sizeof(TnNode), sizeof(TnNode))) ||
        (fault = tn_room(b, &b->arg, b->narg * (int64_t)sizeof(int32_t), k->nin * (int64_t)sizeof(int32_t))))
        return fault;
    int32_t depth = k->last ? TN_LAST : 0, *arg = (int32_t *)b->arg.at + b->narg;
    for (int32_t i = 0; i < k->nin; i++) {
        arg[i] = slot[code[2 + i]];
        depth = TN_HANDLES(b)[arg[i]].depth > depth ? TN_HANDLES(b)[arg[i]].depth : depth;
    }
    const int64_t out = b->nhandle;
    if ((fault = tn_new_handles(b, k->nout)))
        return fault;
    for (int32_t o = 0; o < k->nout; o++) {
        slot[code[2 + k->nin + o]] = (int32_t)(out + o);
        TN_HANDLES(b)[out + o].depth = depth + 1;
        *asked += tn_pool_of(b, sizes, k->type[k->nin + o])->bytes;
        b->asked += tn_pool_of(b, sizes, k->type[k->nin + o])->bytes;
    }
    ((TnNode *)b->node.at)[b->nnode++] = (TnNode){code[1], depth, (int32_t)b->narg, (int32_t)out, sizes};
    b->narg += k->nin;
    tn_deepen(b, depth);
    return 0;
}

/* Now, for this request alone: what it is made of is there. */
static int tn_run_host(TnBatch *b, int32_t sizes, int32_t *slot, const int32_t *code)
{
    const TnBatchBlock *k = &b->p->block[code[1]];
    const int64_t made = b->nhandle;
    int32_t arg[k->nin + 1];
    int fault = tn_new_handles(b, k->nout);
    for (int32_t i = 0; i < k->nin; i++)
        arg[i] = slot[code[2 + i]];
    for (int32_t o = 0; o < k->nout; o++)
        slot[code[2 + k->nin + o]] = (int32_t)(made + o);
    return fault ? fault : tn_run_alone(b, code[1], sizes, arg, made);
}

/* Has this been met: these sizes (MET_SIZES), a pool of so many bytes (MET_POOL), sizes that are these as far as block `what` depends on them? Then
 * *value is its number, else `fresh` is from now on. */
enum { TN_MET_SIZES = -1, TN_MET_POOL = -2 };
static int tn_is_met(const TnBatch *b, const TnMet *x, int32_t what, const int64_t *key)
{
    int same = x->what == what;
    if (same && what == TN_MET_POOL)
        return ((const TnPool *)b->pool.at)[x->value].bytes == *key;
    if (same && what == TN_MET_SIZES)
        return !memcmp(tn_sizes_of(b, x->value)->sym + b->p->nsymbol, key, (size_t)b->p->nsymbol * sizeof *key);
    for (const int32_t *s = same ? b->p->block[what].size : 0; same && *s >= 0; s++)
        same = tn_sizes_of(b, x->value)->sym[*s] == key[*s];
    return same;
}
static uint64_t tn_mix(uint64_t hash, int64_t x)
{
    hash = (hash ^ (uint64_t)x) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}
static int tn_meet(TnBatch *b, int32_t what, const int64_t *key, int32_t fresh, int32_t *value)
{
    uint64_t hash = tn_mix(7, what);
    int64_t n = what == TN_MET_POOL ? 1 : b->p->nsymbol;
    for (int64_t i = 0; what < 0 && i < n; i++)
        hash = tn_mix(hash, key[i]);
    for (const int32_t *s = what >= 0 ? b->p->block[what].size : 0; s && *s >= 0; s++)
        hash = tn_mix(hash, key[*s]);
    if (2 * b->nmet >= b->met_room) {            /* twice as many places, and all in their new ones */
        TnBlock more = {0, 0};
        int64_t room = b->met_room ? 2 * b->met_room : 256;
        int code = tn_need(&b->frame, &more, room * (int64_t)sizeof(TnMet));
        if (code)
            return code;
        TnMet *to = (TnMet *)more.at, *from = (TnMet *)b->met.at;
        for (int64_t i = 0; i < room; i++)
            to[i].value = -1;
        for (int64_t i = 0; i < b->met_room; i++) {
            int64_t at = (int64_t)(from[i].hash & (uint64_t)(room - 1));
            while (from[i].value >= 0 && to[at].value >= 0)
                at = (at + 1) & (room - 1);
            if (from[i].value >= 0)
                to[at] = from[i];
        }
        tn_put(&b->frame, &b->met);
        b->met = more;
        b->met_room = room;
    }
    TnMet *met = (TnMet *)b->met.at;
    int64_t at = (int64_t)(hash & (uint64_t)(b->met_room - 1));
    for (; met[at].value >= 0; at = (at + 1) & (b->met_room - 1))
        if (met[at].hash == hash && tn_is_met(b, &met[at], what, key)) {
            *value = met[at].value;
            return 0;
        }
    met[at] = (TnMet){hash, what, fresh};
    b->nmet++;
    *value = fresh;
    return 0;
}

/* The pool of rows of so many bytes. */
static int tn_take_pool(TnBatch *b, int64_t bytes, int32_t *out)
{
    int code;
    if (bytes < 0)
        return tn_refuse(b->frame.fault, TN_FAULT_SIZE, 0, 0, bytes, 0);
    if ((code = tn_room(b, &b->pool, b->npool * (int64_t)sizeof(TnPool), sizeof(TnPool))) || (code = tn_meet(b, TN_MET_POOL, &bytes, b->npool, out)))
        return code;
    if (*out == b->npool)
        ((TnPool *)b->pool.at)[b->npool++] = (TnPool){{0, 0}, bytes, 0};
    return 0;
}

/* The sizes of a request, those of one before where they are equal. */
static int tn_take_sizes(TnBatch *b, const int64_t *sym, int32_t *out)
{
    const int64_t nt = b->p->ntype, nb = b->p->nblock, ns = b->p->nsymbol;
    int code = 0;
    if ((code = tn_meet(b, TN_MET_SIZES, sym, b->nsizes, out)) || *out < b->nsizes)
        return code;
    TnSizesOf z = {0, 0, 0, -1, -1, {0, 0}};
    if ((code = tn_room(b, &b->sizes, b->nsizes * (int64_t)sizeof(TnSizesOf), sizeof(TnSizesOf))) ||
        (code = tn_room(b, &b->bytes, 0, nt * (int64_t)sizeof(int64_t))) ||
        (code = tn_need(&b->frame, &z.memory, 2 * ns * (int64_t)sizeof(int64_t) + (nt + nb) * (int64_t)sizeof(int32_t) + 8)))
        return code;
    z.sym = (int64_t *)z.memory.at;
    z.block = (int32_t *)(z.sym + 2 * ns);
    z.pool = z.block + nb;
    memcpy(z.sym, sym, (size_t)ns * sizeof *sym);
    memcpy(z.sym + ns, sym, (size_t)ns * sizeof *sym);
    b->p->sizes(z.sym, (int64_t *)b->bytes.at);
    *tn_sizes_of(b, b->nsizes++) = z;
    for (int64_t i = 0; i < nb && !code; i++)
        code = tn_meet(b, (int32_t)i, sym, *out, &z.block[i]);
    for (int64_t i = 0; i < nt && !code; i++)
        code = tn_take_pool(b, ((const int64_t *)b->bytes.at)[i], &z.pool[i]);
    return code;
}

/* These sizes, updated by what `from` are. */
static int tn_update(TnBatch *b, int32_t number, int32_t from, int32_t *sizes)
{
    const int64_t ns = b->p->nsymbol;
    int64_t given[ns + 1];
    int32_t before = *sizes;
    if (from == before && tn_sizes_of(b, from)->update == number) {
        *sizes = tn_sizes_of(b, from)->next;
        return 0;
    }
    memcpy(given, tn_sizes_of(b, before)->sym + ns, (size_t)ns * sizeof *given);
    int code = b->p->update(number, tn_sizes_of(b, from)->sym, given, b->frame.fault);
    if (code || (code = tn_take_sizes(b, given, sizes)))
        return code;
    if (from == before) {
        tn_sizes_of(b, from)->update = number;
        tn_sizes_of(b, from)->next = *sizes;
    }
    return 0;
}
/* One late size is this. */
static int tn_set_size(TnBatch *b, int32_t late, int64_t value, int32_t *sizes)
{
    const int64_t ns = b->p->nsymbol;
    int64_t given[ns + 1];
    if (value < 0)
        return tn_refuse(b->frame.fault, TN_FAULT_SYMBOL, b->p->late[late], 0, value, 0);
    memcpy(given, tn_sizes_of(b, *sizes)->sym + ns, (size_t)ns * sizeof *given);
    given[b->p->late[late]] = value;
    return tn_take_sizes(b, given, sizes);
}

static int tn_need_stack(TnBatch *b, TnRequestRun *r, int64_t slots)
{
    return __builtin_expect(slots * (int64_t)sizeof(int32_t) <= r->stack.bytes, 1) ? 0
         : tn_keep(&b->frame, &r->stack, r->stack.bytes, slots * (int64_t)sizeof(int32_t));
}

/* A node that puts the rows of a list behind each other. */
static int tn_record_stack(TnBatch *b, int32_t sizes, int32_t *slot, const int32_t *code)
{
    const TnLink *link = (const TnLink *)b->link.at;
    int32_t n = 0, depth = 0;
    int fault = 0;
    for (int32_t l = slot[code[3]]; l >= 0; l = link[l].before, n++)
        depth = TN_HANDLES(b)[link[l].handle].depth > depth ? TN_HANDLES(b)[link[l].handle].depth : depth;
    const int64_t out = b->nhandle;
    if ((fault = tn_room(b, &b->node, b->nnode * (int64_t)sizeof(TnNode), sizeof(TnNode))) ||
        (fault = tn_room(b, &b->arg, b->narg * (int64_t)sizeof(int32_t), (n + 2) * (int64_t)sizeof(int32_t))) || (fault = tn_new_handles(b, 1)))
        return fault;
    int32_t *arg = (int32_t *)b->arg.at + b->narg, at = n;
    arg[0] = n;
    arg[1] = code[2];
    for (int32_t l = slot[code[3]]; l >= 0; l = link[l].before)
        arg[2 + --at] = link[l].handle;
    TN_HANDLES(b)[out].depth = depth + 1;
    slot[code[1]] = (int32_t)out;
    ((TnNode *)b->node.at)[b->nnode++] = (TnNode){b->p->nblock, depth, (int32_t)b->narg, (int32_t)out, sizes};
    b->narg += n + 2;
    tn_deepen(b, depth);
    return 0;
}

/* As far as a request goes before it has to wait for a value, or to its end. */
static int tn_walk(TnBatch *b, TnRequestRun *r)
{
    const int64_t most = TN_MOST_ASKED / b->m->n;
    int fault = 0;
    r->asked = 0;
    for (;;) {
        const int32_t *c = b->p->code + r->at;
        int32_t *slot = TN_STACK(r);
        const TnHandle *handle = TN_HANDLES(b);
        switch (c[0]) {
        case TN_DO_BLOCK: case TN_DO_HOST:
            if ((fault = c[0] == TN_DO_HOST ? tn_run_host(b, r->sizes, slot, c) : tn_record(b, r->sizes, slot, c, &r->asked)))
                return fault;
            r->at += 2 + b->p->block[c[1]].nin + b->p->block[c[1]].nout;
            break;
        case TN_DO_BRANCH: {
            int32_t row = handle[slot[c[1]]].row;
            if (row < 0)
                return 0;
            r->at = *(const unsigned char *)tn_row(b, r->sizes, c[2], row) ? r->at + 4 : c[3];
            break;
        }
        case TN_DO_JUMP:
            r->at = c[1];
            break;
        case TN_DO_MOVE:
            slot[c[1]] = slot[c[2]];
            r->at += 3;
            break;
        case TN_DO_CALL: {
            const TnBatchFunction *to = &b->p->function[c[1]], *from = &b->p->function[r->function];
            int32_t base = r->base + from->nslot + from->ncounter;
            if (r->nframe >= b->p->max_calls)
                return tn_refuse(b->frame.fault, TN_FAULT_DEPTH, 0, 0, r->nframe + 1, b->p->max_calls);
            if ((fault = tn_need_stack(b, r, (int64_t)base + to->nslot + to->ncounter)) ||
                (fault = tn_room(b, &r->frame, r->nframe * (int64_t)sizeof(TnCallFrame), sizeof(TnCallFrame))))
                return fault;
            slot = TN_STACK(r);
            for (int32_t i = 0; i < c[4]; i++)
                ((int32_t *)r->stack.at)[base + i] = slot[c[5 + i]];
            ((TnCallFrame *)r->frame.at)[r->nframe++] = (TnCallFrame){r->function, r->at + 6 + c[4] + c[5 + c[4]], r->base, r->at, r->sizes};
            if (c[2] >= 0 && (fault = tn_update(b, c[2], r->sizes, &r->sizes)))
                return fault;
            r->function = c[1];
            r->base = base;
            r->at = to->code;
            break;
        }
        case TN_DO_RETURN: {
            if (!r->nframe) {
                int32_t result[c[1] + 1];
                for (int32_t i = 0; i < c[1]; i++)
                    result[i] = slot[c[2 + i]];
                if ((fault = tn_need_stack(b, r, c[1])))
                    return fault;
                memcpy(r->stack.at, result, (size_t)c[1] * sizeof *result);
                r->ended = 1;
                return 0;
            }
            const TnCallFrame *up = (const TnCallFrame *)r->frame.at + --r->nframe;
            const int32_t *call = b->p->code + up->call, *result = call + 6 + call[4], from = r->sizes;
            for (int32_t i = 0; i < c[1]; i++)
                ((int32_t *)r->stack.at)[up->base + result[i]] = slot[c[2 + i]];
            r->sizes = up->sizes;
            if (call[3] >= 0 && (fault = tn_update(b, call[3], from, &r->sizes)))
                return fault;
            r->function = up->function;
            r->base = up->base;
            r->at = up->at;
            break;
        }
        case TN_DO_BEGIN:
            slot[b->p->function[r->function].nslot + c[1]] = 0;
            if (c[2] >= 0)
                slot[c[2]] = -1;
            r->at += 3;
            break;
        case TN_DO_TURN: {
            int32_t turn = slot[b->p->function[r->function].nslot + c[1]];
            int32_t turns = c[2] < 0 ? 0 : handle[slot[c[2]]].row, goes = c[4] < 0 ? -1 : slot[c[4]], go = goes < 0 ? 0 : handle[goes].row;
            if (turns < 0 || go < 0)
                return 0;
            if ((c[2] >= 0 && turn >= *(const int64_t *)tn_row(b, r->sizes, c[3], turns)) || (goes >= 0 && !*(const unsigned char *)tn_row(b, r->sizes, c[5], go))) {
                r->at = c[6];
                break;
            }
            if (turn >= b->p->max_trips)
                return tn_refuse(b->frame.fault, TN_FAULT_TRIPS, 0, 0, turn, b->p->max_trips);
            r->at += 7;
            break;
        }
        case TN_DO_COUNT: {
            const int64_t turn = slot[b->p->function[r->function].nslot + c[3]], made = b->nhandle;
            int64_t row;
            if ((fault = tn_new_handles(b, 1)) || (fault = tn_new_rows(b, r->sizes, c[2], 1, &row)))
                return fault;
            memcpy((void *)tn_row(b, r->sizes, c[2], row), &turn, sizeof turn);
            tn_is_made(b, made, r->sizes, c[2], row);
            slot[c[1]] = (int32_t)made;
            r->at += 4;
            break;
        }
        case TN_DO_NEXT:
            slot[b->p->function[r->function].nslot + c[1]]++;
            r->at = c[2];
            if (r->asked > most)
                return 0;
            break;
        case TN_DO_UPDATE:
            if ((fault = tn_update(b, c[1], r->sizes, &r->sizes)))
                return fault;
            r->at += 2;
            break;
        case TN_DO_TURNS:
            if ((fault = tn_set_size(b, c[1], slot[b->p->function[r->function].nslot + c[2]], &r->sizes)))
                return fault;
            r->at += 3;
            break;
        case TN_DO_MATCH: {
            int32_t row = handle[slot[c[1]]].row, from = r->sizes;
            if (row < 0)
                return 0;
            for (int32_t i = 0; i < c[4]; i++) {
                const char *at = (const char *)tn_row(b, from, c[2], row) + i * c[3];
                int64_t value = c[3] == 8 ? *(const int64_t *)at : c[3] == 4 ? *(const int32_t *)at : c[3] == 2 ? *(const int16_t *)at : *(const signed char *)at;
                if ((fault = tn_set_size(b, c[5 + i], value, &r->sizes)))
                    return fault;
            }
            r->at += 5 + c[4];
            break;
        }
        case TN_DO_CHECK:
            if ((fault = b->p->check(c[1], tn_sizes_of(b, r->sizes)->sym, b->frame.fault)))
                return fault;
            r->at += 2;
            break;
        case TN_DO_LIST:
            slot[c[1]] = -1;
            r->at += 2;
            break;
        case TN_DO_ADD:
            if (b->nlink >= INT32_MAX || (fault = tn_room(b, &b->link, b->nlink * (int64_t)sizeof(TnLink), sizeof(TnLink))))
                return fault ? fault : tn_refuse(b->frame.fault, TN_FAULT_MEMORY, 0, 0, b->nlink, 0);
            ((TnLink *)b->link.at)[b->nlink] = (TnLink){slot[c[2]], slot[c[1]]};
            slot[c[1]] = (int32_t)b->nlink++;
            r->at += 3;
            break;
        default:                         /* STACK */
            if ((fault = tn_record_stack(b, r->sizes, slot, c)))
                return fault;
            r->at += 4;
        }
    }
}

/* The rows of the requests' inputs, and where each request begins. */
static int tn_enter(TnBatch *b)
{
    const TnBatchFunction *main = b->p->function;
    int code = tn_keep(&b->frame, &b->request, 0, (b->m->n + 1) * (int64_t)sizeof(TnRequestRun));
    if (code)
        return code;
    memset(b->request.at, 0, (size_t)b->m->n * sizeof(TnRequestRun));
    for (int32_t i = 0; i < b->m->n; i++) {
        TnRequestRun *r = (TnRequestRun *)b->request.at + i;
        r->at = main->code;
        const int64_t made = b->nhandle;
        if ((code = tn_take_sizes(b, b->m->sym[i], &r->sizes)) || (code = tn_need_stack(b, r, (int64_t)main->nslot + main->ncounter + 1)) ||
            (code = tn_new_handles(b, b->p->ninput)))
            return code;
        for (int32_t k = 0; k < b->p->ninput; k++) {
            int64_t row, bytes = tn_pool_of(b, r->sizes, b->p->input_type[k])->bytes;
            if ((code = tn_new_rows(b, r->sizes, b->p->input_type[k], 1, &row)))
                return code;
            if (bytes)
                memcpy((void *)tn_row(b, r->sizes, b->p->input_type[k], row), b->m->inputs[i][k], (size_t)bytes);
            tn_is_made(b, made + k, r->sizes, b->p->input_type[k], row);
            TN_STACK(r)[k] = (int32_t)(made + k);
        }
    }
    return 0;
}

/* ---- memory of long walks ---- */

enum { TN_LEAST_SWEPT = 1 << 20 };   /* bytes of rows; less is not worth a look */

static int64_t tn_pool_bytes(const TnBatch *b)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < b->npool; i++)
        bytes += ((const TnPool *)b->pool.at)[i].used * ((const TnPool *)b->pool.at)[i].bytes;
    return bytes;
}

/* Numbers on a stack are handles, links of lists or counters: each is taken for what it may be, so that something may stay that nobody needs. */
static void tn_mark(const TnBatch *b, const int32_t *at, int64_t n, unsigned char *live, unsigned char *linked)
{
    for (int64_t i = 0; i < n; i++) {
        if (at[i] >= 0 && at[i] < b->nhandle)
            live[at[i]] = 1;
        for (int32_t l = at[i] < b->nlink ? at[i] : -1; l >= 0 && !linked[l]; l = ((const TnLink *)b->link.at)[l].before) {
            linked[l] = 1;
            live[((const TnLink *)b->link.at)[l].handle] = 1;
        }
    }
}

/* Rows that stay move to the front of their pool: where[row] is 1 of those, and then where each went. */
static int tn_close_up(TnBatch *b, TnPool *p, int32_t *where)
{
    int64_t n = 0;
    for (int64_t row = 0; row < p->used; row++) {
        if (where[row] && p->bytes && row != n)
            memmove((char *)p->row.at + n * p->bytes, (char *)p->row.at + row * p->bytes, (size_t)p->bytes);
        where[row] = where[row] ? (int32_t)n++ : -1;
    }
    p->used = n;
    if (n * p->bytes > p->row.bytes / 4)
        return 0;
    TnBlock less = {0, 0};           /* most of it is empty: it takes less from here on */
    int code = n * p->bytes ? tn_need(&b->frame, &less, n * p->bytes) : 0;
    if (code)
        return code;
    if (n * p->bytes)
        memcpy(less.at, p->row.at, (size_t)(n * p->bytes));
    tn_put(&b->frame, &p->row);
    p->row = less;
    return 0;
}

/* Where rows have doubled since the last look, those that no request can ask for any more are dropped. Nothing is recorded. */
static int tn_sweep(TnBatch *b)
{
    TnPool *pool = (TnPool *)b->pool.at;
    TnBlock memory = {0, 0};
    int64_t rows = 0;
    int code;
    if (tn_pool_bytes(b) < tn_max(b->sweep_at, TN_LEAST_SWEPT))
        return 0;
    for (int32_t i = 0; i < b->npool; i++)
        rows += pool[i].used;
    if ((code = tn_need(&b->frame, &memory, (rows + b->npool) * (int64_t)sizeof(int32_t) + b->nhandle + b->nlink + 1)))
        return code;
    memset(memory.at, 0, (size_t)((rows + b->npool) * (int64_t)sizeof(int32_t) + b->nhandle + b->nlink));
    int32_t *where = (int32_t *)memory.at, *first = where + rows;
    unsigned char *live = (unsigned char *)(first + b->npool), *linked = live + b->nhandle;
    for (int32_t i = 1; i < b->npool; i++)
        first[i] = first[i - 1] + (int32_t)pool[i - 1].used;
    for (int32_t i = 0; i < b->m->n; i++) {
        const TnRequestRun *r = (const TnRequestRun *)b->request.at + i;
        const TnBatchFunction *f = b->p->function + r->function;
        tn_mark(b, (const int32_t *)r->stack.at, r->ended ? b->p->noutput : r->base + f->nslot + f->ncounter, live, linked);
    }
    for (int64_t h = 0; h < b->nhandle; h++)
        if (live[h] && TN_HANDLES(b)[h].row >= 0)
            where[first[TN_HANDLES(b)[h].pool] + TN_HANDLES(b)[h].row] = 1;
    for (int32_t i = 0; i < b->npool && !code; i++)
        code = tn_close_up(b, &pool[i], where + first[i]);
    for (int64_t h = 0; h < b->nhandle; h++) {
        TnHandle *x = TN_HANDLES(b) + h;
        if (x->row >= 0)
            x->row = live[h] ? where[first[x->pool] + x->row] : 0;       /* of a dead one nobody asks */
    }
    tn_put(&b->frame, &memory);
    b->sweep_at = 2 * tn_pool_bytes(b);
    return code;
}

static int tn_walk_all(TnBatch *b)
{
    int code = 0, left = 1;
    while (left && !code) {
        left = 0;
        for (int32_t i = 0; i < b->m->n && !code; i++) {
            TnRequestRun *r = (TnRequestRun *)b->request.at + i;
            if (r->ended)
                continue;
            code = tn_walk(b, r);
            left |= !r->ended;
            if (b->asked > b->p->most_rows && !code) {
                code = tn_flush(b);
                b->asked = 0;
            }
        }
        code = code ? code : tn_flush(b);
        b->asked = 0;
        code = code ? code : tn_sweep(b);
    }
    return code;
}

/* What each request gave: rows to where its outputs are to be, sizes to its symbols. */
static int tn_leave(TnBatch *b)
{
    int code = 0;
    for (int32_t i = 0; i < b->m->n; i++) {
        const TnRequestRun *r = (const TnRequestRun *)b->request.at + i;
        memcpy(b->m->sym[i], tn_sizes_of(b, r->sizes)->sym + b->p->nsymbol, (size_t)b->p->nsymbol * sizeof(int64_t));
        if (b->m->output_dims && b->m->output_dims[i])
            b->p->dims(tn_sizes_of(b, r->sizes)->sym, b->m->output_dims[i]);
        for (int32_t k = 0; k < b->p->noutput; k++) {
            const int32_t type = b->p->output_type[k], row = TN_HANDLES(b)[((const int32_t *)r->stack.at)[k]].row;
            const int64_t bytes = tn_pool_of(b, r->sizes, type)->bytes;
            TnBlock *made = b->m->made && b->m->made[i] ? b->m->made[i][k] : 0;
            if (made && (code = tn_need(&b->frame, made, bytes)))
                return code;
            void *to = made ? made->at : b->m->outputs[i][k];
            if (bytes && to)
                memcpy(to, tn_row(b, r->sizes, type, row), (size_t)bytes);
        }
    }
    return 0;
}

/* frame: what blocks run in; its sizes are those of each request. */
static int tn_batch(const TnBatchProgram *p, const TnMany *m, const TnFrame *frame)
{
    TnBatch b = {.p = p, .m = m, .frame = *frame, .policy = p->policy};
    if (TN_HAS(m, policy) && m->policy)
        b.policy = m->policy;
    b.frame.arena = 0;               /* each block takes its own */
    b.frame.made = 0;
    b.frame.output_dims = 0;
    int code = tn_enter(&b);
    if (!code)
        code = tn_walk_all(&b);
    if (!code)
        code = tn_leave(&b);
    for (int32_t i = 0; b.request.at && i < m->n; i++) {
        tn_put(frame, &((TnRequestRun *)b.request.at)[i].stack);
        tn_put(frame, &((TnRequestRun *)b.request.at)[i].frame);
    }
    for (int32_t i = 0; i < b.nsizes; i++)
        tn_put(frame, &tn_sizes_of(&b, i)->memory);
    for (int32_t i = 0; i < b.npool; i++)
        tn_put(frame, &((TnPool *)b.pool.at)[i].row);
    TnBlock *own[] = {&b.handle, &b.node, &b.arg, &b.order, &b.count, &b.rows, &b.request,
                      &b.sizes, &b.pool, &b.bytes, &b.link, &b.met, &b.edge, &b.schedule};
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++)
        tn_put(frame, own[i]);
    return code;
}

static int tn_one(const TnBatchProgram *p, const TnFrame *f, const void *const *in, void *const *out, TnBlock *const *made)
{
    const TnMany m = {.size = sizeof m, .n = 1, .inputs = &in, .outputs = &out, .sym = &f->sym, .made = &made};
    return tn_batch(p, &m, f);
}

#endif
