/* prelude_batch: the data of many requests that run together (graph/batch.h).
 *
 * A handle is one value of one request: its row in a pool once it is computed, -1 before, -2 when
 * the row is dropped, and the depth of what makes it behind what is computed already. That of a
 * split value stands for the handles of its elements: its pool is ~ of the number of the first, and
 * the handle before that has their number as its pool. A node is a block that is to run on some
 * handles. Nodes of one block and one depth run together. The files that follow:
 *
 *     batch_walk     control, which records nodes
 *     batch_sizes    sizes and pools
 *     batch_memory   rows that nothing reads any more
 *     batch_run      nodes that run together
 *     policy         the order in which they run
 *     batch_record   what control seldom asks for
 *     batch_many     all requests, from inputs to results
 *
 * This file and batch_walk are part of each model's program. The others are equal in all programs:
 * they follow in a program of one source, and are an object of their own beside others.
 */
#ifndef TN_PRELUDE_BATCH_H
#define TN_PRELUDE_BATCH_H

/* Functions that the model's program calls in the files that are equal in all programs. */
#ifndef TN_LINKED
#define TN_LINKED static __attribute__((unused))
#endif

typedef struct TnBatch TnBatch;
typedef struct TnRequestRun TnRequestRun;

typedef struct {
    int (*run)(const TnFrame *);
    int32_t nin, nout;
    int32_t alone;                   /* it has values in place of rows */
    int32_t last;                    /* it makes what results alone read: it waits for all others */
    const int32_t *type;             /* [nin + nout] */
    const int32_t *size;             /* symbols that decide its sizes, -1 behind them */
} TnBatchBlock;
typedef struct { int32_t nslot, ncounter; } TnBatchFunction;
typedef struct {                     /* what the model's program is */
    const TnBatchFunction *function;
    const TnBatchBlock *block;
    const int32_t *input_type, *output_type, *late;
    const unsigned char *input_row;  /* [ninput] blocks read it; else its row is not made */
    int32_t nblock, ntype, ninput, noutput, instances, rows, nsymbol;
    int64_t max_trips, max_calls;
    int64_t cache, weights;          /* bytes: of the second cache; that blocks of all kinds read */
    int (*walk)(TnBatch *b, TnRequestRun *r);        /* as far as a request goes before it waits */
    void (*sizes)(int64_t *sym, int64_t *row_bytes, int64_t *rows);
    int (*update)(int32_t number, const int64_t *sym, int64_t *to, TnFault *fault);
    void (*dims)(const int64_t *sym, int64_t *output_dims);
    const TnBatchPolicy *policy;     /* where none is given */
} TnBatchProgram;

typedef struct { int32_t row, depth, pool; } TnHandle;       /* pool: that of its row */
/* Depths of what is read for results alone are counted from here on. */
#define TN_LAST (1 << 28)
typedef struct { int32_t block, depth, arg, out, sizes; } TnNode;    /* arg, out: the first */
typedef struct { int32_t function, at, base, sizes; } TnCallFrame;   /* of a caller; at: its call */
typedef struct { int32_t handle, before; } TnLink;           /* of a list; before -1: the first */
struct TnRequestRun {                /* how far a request is */
    const void *const *input;
    TnBlock stack, frame;
    int32_t nframe, function, at, base, ended, sizes;
    int64_t asked;                   /* bytes of rows that it has recorded since it last waited */
    int32_t turns, stopped;          /* of loops, since then; it waits for others' turns alone */
};
#define TN_BEGINS (-1)               /* at: before its first operation */
/* Between two turns of a loop a request waits where it asks for more than its share of this: what
 * is recorded runs, and what earlier turns needed is dropped. Others wait after as many turns, if
 * they do not ask for twice as much by then: later turns of all run together, too. What others left
 * of their shares is for those that wait: they go on before anything runs, while that is worth
 * it. */
#define TN_MOST_ASKED (INT64_C(7) << 22)
enum { TN_SMALLEST_SHARE = 4 };      /* of the first one, a quarter: less brings a few turns */
/* Rows of one size. soon: that recorded nodes have yet to make; most: that have been in use. */
typedef struct { TnBlock row; int64_t bytes, used, soon, most; } TnPool;
/* Requests of equal sizes. */
typedef struct {
    int64_t *sym;                    /* [2 * nsymbol] as blocks have them; as they were given */
    int64_t *asked;                  /* [nblock] bytes that a node takes: its rows, and itself */
    int32_t *block;                  /* [nblock] the first that this block cannot tell apart */
    int64_t *rows;                   /* [ntype] of a split value; -1: a value is one row */
    int32_t *pool;                   /* [ntype] where a row of the type is */
    int32_t update, next;            /* what these last became, by which update; -1 */
    TnBlock memory;                  /* that all this is in */
} TnSizesOf;

typedef struct { uint64_t hash; int32_t what, value; } TnMet;        /* value -1: nothing is here */

struct TnBatch {
    const TnBatchProgram *p;
    const TnMany *m;
    TnFrame frame;                   /* what blocks run in */
    const TnBatchPolicy *policy;     /* of the requests, or the program's */
    TnBlock handle, node, arg, order, count, rows, request, sizes, pool, bytes, link, met;
    TnBlock edge, schedule;          /* of a policy with edges */
    int64_t nhandle, nnode, narg, deepest, deepest_last, nlink, asked, nmet, met_room;
    int64_t row_bytes, sweep_at;     /* bytes of the rows in use; at which dead ones are dropped */
    int64_t walked, share;           /* bytes: asked for by all since rows ran; for one */
    int32_t nsizes, npool;
    int32_t turns;                   /* after which others wait; INT32_MAX: none does */
};

#define TN_HANDLES(b) ((TnHandle *)(b)->handle.at)
#define TN_STACK(r) ((int32_t *)(r)->stack.at + (r)->base)

/* Room for `more` elements behind n; nearly always there is. What grows is copied, so it grows much
 * while it is small. */
TN_INLINE int tn_room(TnBatch *b, TnBlock *x, int64_t n, int64_t more, int64_t bytes)
{
    const int64_t used = n * bytes, want = (n + more) * bytes, small = INT64_C(1) << 24;
    if (__builtin_expect(want <= x->bytes, 1))
        return 0;
    return tn_keep(&b->frame, x, used, tn_max(want, tn_min(8 * used, small)));
}
TN_INLINE int tn_lacks_handles(const TnBatch *b, int64_t n)
{
    return b->nhandle + n > INT32_MAX ||
           (b->nhandle + n) * (int64_t)sizeof(TnHandle) > b->handle.bytes;
}
TN_INLINE TnSizesOf *tn_sizes_of(const TnBatch *b, int32_t sizes)
{
    return (TnSizesOf *)b->sizes.at + sizes;
}
TN_INLINE TnPool *tn_pool_of(const TnBatch *b, int32_t sizes, int32_t type)
{
    return (TnPool *)b->pool.at + tn_sizes_of(b, sizes)->pool[type];
}
/* Lacks a pool room for n more rows? */
TN_INLINE int tn_is_full(const TnPool *p, int64_t n)
{
    return p->bytes > INT32_MAX || p->used + n > INT32_MAX ||
           (p->used + n) * p->bytes > p->row.bytes;
}
/* The handles that a node reads, and how many. A list's node has them behind two numbers. */
TN_INLINE const int32_t *tn_reads(const TnBatch *b, const TnNode *x, int32_t *n)
{
    const int32_t *arg = (const int32_t *)b->arg.at + x->arg;
    *n = x->block < b->p->nblock ? b->p->block[x->block].nin : arg[0];
    return x->block < b->p->nblock ? arg : arg + 2;
}
/* Rows of a value of a type. */
TN_INLINE int64_t tn_rows_each(const TnBatch *b, int32_t sizes, int32_t type)
{
    const int64_t n = tn_sizes_of(b, sizes)->rows[type];
    return n < 0 ? 1 : n;
}
/* N runs of a block, at once. */
TN_INLINE void tn_tally(const TnBatch *b, int32_t block, int64_t nodes)
{
    if (b->m->count) {
        b->m->count[block].nodes += nodes;
        b->m->count[block].batches++;
    }
}
TN_INLINE const void *tn_row(const TnBatch *b, int32_t sizes, int32_t type, int64_t row)
{
    const TnPool *p = tn_pool_of(b, sizes, type);
    return (const char *)p->row.at + row * p->bytes;
}

#endif
