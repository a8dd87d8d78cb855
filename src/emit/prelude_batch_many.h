/* prelude_batch_many: requests from their inputs to their results.
 *
 * They walk in turn until all of them wait or have ended, then what they recorded runs.
 */
#ifndef TN_PRELUDE_BATCH_MANY_H
#define TN_PRELUDE_BATCH_MANY_H

/* Room for the rows of all inputs: they would be copied where a pool grows. */
static int tn_expect_inputs(TnBatch *b)
{
    int code = 0;
    for (int32_t i = 0; i < b->m->n && !code; i++) {
        TnRequestRun *r = (TnRequestRun *)b->request.at + i;
        code = tn_take_sizes(b, b->m->sym[i], &r->sizes);
        for (int32_t k = 0; k < b->p->ninput && !code; k++)
            tn_pool_of(b, r->sizes, b->p->input_type[k])->used += b->p->input_row[k];
    }
    for (int32_t i = 0; i < b->npool && !code; i++) {
        TnPool *p = (TnPool *)b->pool.at + i;
        if (p->used && p->bytes)
            code = tn_keep(&b->frame, &p->row, 0, tn_size_mul(p->used, p->bytes));
        p->used = 0;
    }
    return code;
}

/* The rows of the requests' inputs, and where each request begins. */
static int tn_enter(TnBatch *b)
{
    const TnBatchFunction *main = b->p->function;
    int code = tn_keep(&b->frame, &b->request, 0, (b->m->n + 1) * (int64_t)sizeof(TnRequestRun));
    if (code)
        return code;
    memset(b->request.at, 0, (size_t)b->m->n * sizeof(TnRequestRun));
    if ((code = tn_expect_inputs(b)))
        return code;
    for (int32_t i = 0; i < b->m->n; i++) {
        TnRequestRun *r = (TnRequestRun *)b->request.at + i;
        r->at = TN_BEGINS;
        r->input = b->m->inputs[i];
        const int64_t made = b->nhandle;
        if ((code = tn_need_stack(b, r, (int64_t)main->nslot + main->ncounter + 1)) ||
            (code = tn_new_handles(b, b->p->ninput)))
            return code;
        for (int32_t k = 0; k < b->p->ninput; k++) {
            const int32_t type = b->p->input_type[k];
            TN_STACK(r)[k] = (int32_t)(made + k);
            if (!b->p->input_row[k])
                continue;
            TnPool *pool = tn_pool_of(b, r->sizes, type);
            int64_t row, bytes = pool->bytes;
            if ((code = tn_rows_of(b, pool, 1, &row)))
                return code;
            if (bytes)
                memcpy((void *)tn_row(b, r->sizes, type, row), b->m->inputs[i][k], (size_t)bytes);
            tn_is_made(b, made + k, r->sizes, type, row);
        }
    }
    return 0;
}

/* There is no memory for what a request is to do next. Where its calls take more than rows and
 * handles of all do, the fault says how deep they are and how many bytes they take. */
static void tn_tell_calls(const TnBatch *b, const TnRequestRun *r)
{
    const int64_t calls = r->stack.bytes + r->frame.bytes;
    if (b->frame.fault->code == TN_FAULT_MEMORY && calls > b->row_bytes + b->handle.bytes)
        tn_refuse(b->frame.fault, TN_FAULT_MEMORY, 0, 0, calls, r->nframe);
}

/* Asks for the inputs that control alone reads, before a request begins: it reads them in no order
 * that a processor foresees. */
enum { TN_ASKED_AHEAD = 64 << 10, TN_LINE = 64 };
static void tn_ask_ahead(const TnBatch *b, const TnRequestRun *r)
{
    for (int32_t k = 0; k < b->p->ninput; k++) {
        const int64_t bytes = tn_pool_of(b, r->sizes, b->p->input_type[k])->bytes;
        for (int64_t i = 0; !b->p->input_row[k] && i < bytes && i < TN_ASKED_AHEAD; i += TN_LINE)
            __builtin_prefetch((const char *)r->input[k] + i);
    }
}

/* Walk requests, or those that stopped for their share; how many stop now. */
static int tn_walk_each(TnBatch *b, int stopped_ones, int32_t *stopped)
{
    int code = 0;
    b->turns = INT32_MAX;
    *stopped = 0;
    for (int32_t i = 0; i < b->m->n && !code; i++) {
        TnRequestRun *r = (TnRequestRun *)b->request.at + i;
        if (r->ended || (stopped_ones && !r->stopped))
            continue;
        r->asked = r->turns = r->stopped = 0;
        if (r->at == TN_BEGINS)
            tn_ask_ahead(b, r);
        code = b->p->walk(b, r);
        if (code)
            tn_tell_calls(b, r);
        b->walked += r->asked;
        *stopped += r->stopped;
        code = code ? code : tn_sweep(b);
    }
    return code;
}

static int tn_walk_all(TnBatch *b)
{
    const int64_t share = TN_MOST_ASKED / b->m->n;
    int code = 0, left = 1;
    while (left && !code) {
        int32_t stopped;
        b->walked = 0;
        b->share = share;
        code = tn_walk_each(b, 0, &stopped);
        while (!code && stopped &&
               (b->share = (TN_MOST_ASKED - b->walked) / stopped) > share / TN_SMALLEST_SHARE)
            code = tn_walk_each(b, 1, &stopped);
        code = code ? code : tn_flush(b, 1);
        code = code ? code : tn_sweep(b);
        left = 0;
        for (int32_t i = 0; i < b->m->n; i++)
            left |= !((const TnRequestRun *)b->request.at)[i].ended;
    }
    return code;
}

/* What each request gave: rows to where its outputs are to be, in memory of the caller's frame;
 * sizes to its symbols. */
static int tn_leave(TnBatch *b, const TnFrame *frame)
{
    int code = 0;
    for (int32_t i = 0; i < b->m->n; i++) {
        const TnRequestRun *r = (const TnRequestRun *)b->request.at + i;
        const int64_t *sym = tn_sizes_of(b, r->sizes)->sym, n = b->p->nsymbol;
        memcpy(b->m->sym[i], sym + n, (size_t)n * sizeof *sym);
        if (b->m->output_dims && b->m->output_dims[i])
            b->p->dims(sym, b->m->output_dims[i]);
        for (int32_t k = 0; k < b->p->noutput; k++) {
            const int32_t type = b->p->output_type[k], handle = ((const int32_t *)r->stack.at)[k];
            const int64_t bytes = tn_pool_of(b, r->sizes, type)->bytes;
            TnBlock *made = b->m->made && b->m->made[i] ? b->m->made[i][k] : 0;
            if (made && (code = tn_need(frame, made, bytes)))
                return code;
            void *to = made ? made->at : b->m->outputs[i][k];
            if (bytes && to)
                memcpy(to, tn_row(b, r->sizes, type, TN_HANDLES(b)[handle].row), (size_t)bytes);
        }
    }
    return 0;
}

/* Memory whose first blocks are pieces of `first`: a few small requests take no others, and getting
 * a block takes as long as what they do with it. The last piece is given back. */
typedef struct {
    TnMemory memory;
    const TnMemory *more;
    char *at;
    char first[8192] __attribute__((aligned(64)));
} TnFirstMemory;
static void *tn_first_get(void *user, int64_t *bytes)
{
    TnFirstMemory *x = (TnFirstMemory *)user;
    char *at = x->at;
    if (tn_max(64, *bytes) > x->first + sizeof x->first - at)
        return x->more->get(x->more->user, bytes);
    *bytes = tn_max(64, (*bytes + 63) & ~INT64_C(63));
    x->at += *bytes;
    return at;
}
static void tn_first_put(void *user, void *at, int64_t bytes)
{
    TnFirstMemory *x = (TnFirstMemory *)user;
    char *from = (char *)at;
    if (from < x->first || from >= x->first + sizeof x->first)
        x->more->put(x->more->user, at, bytes);
    else if (from + bytes == x->at)
        x->at = from;
}
static int tn_first_scratch(void *user, int64_t bytes)
{
    const TnMemory *more = ((TnFirstMemory *)user)->more;
    return more->scratch ? more->scratch(more->user, bytes) : 1;
}

/* frame: what blocks run in; its sizes are those of each request. */
TN_LINKED int tn_batch(const TnBatchProgram *p, const TnMany *m, const TnFrame *frame)
{
    TnBatch b = {.p = p, .m = m, .frame = *frame, .policy = p->policy};
    TnFirstMemory first;
    if (frame->memory && frame->memory->get) {
        first.memory = (TnMemory){.size = sizeof first.memory, .get = tn_first_get,
                                  .put = tn_first_put, .scratch = tn_first_scratch, .user = &first};
        first.more = frame->memory;
        first.at = first.first;
        b.frame.memory = &first.memory;
    }
    if (TN_HAS(m, policy) && m->policy)
        b.policy = m->policy;
    b.frame.arena = 0;               /* each block takes its own */
    b.frame.made = 0;
    b.frame.output_dims = 0;
    int code = tn_enter(&b);
    if (!code)
        code = tn_walk_all(&b);
    if (!code)
        code = tn_leave(&b, frame);
    for (int32_t i = 0; b.request.at && i < m->n; i++) {
        tn_put(&b.frame, &((TnRequestRun *)b.request.at)[i].stack);
        tn_put(&b.frame, &((TnRequestRun *)b.request.at)[i].frame);
    }
    for (int32_t i = 0; i < b.nsizes; i++)
        tn_put(&b.frame, &tn_sizes_of(&b, i)->memory);
    for (int32_t i = 0; i < b.npool; i++)
        tn_put(&b.frame, &((TnPool *)b.pool.at)[i].row);
    TnBlock *own[] = {&b.handle, &b.node, &b.arg, &b.order, &b.count, &b.rows, &b.request,
                      &b.sizes, &b.pool, &b.bytes, &b.link, &b.met, &b.edge, &b.schedule};
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++)
        tn_put(&b.frame, own[i]);
    return code;
}

TN_LINKED int tn_one(const TnBatchProgram *p, const TnFrame *f, const void *const *in,
                     void *const *out, TnBlock *const *made)
{
    const TnMany m = {.size = sizeof m, .n = 1, .inputs = &in, .outputs = &out, .sym = &f->sym,
                      .made = &made};
    return tn_batch(p, &m, f);
}

#endif
