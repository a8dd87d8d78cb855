/* run_many: many requests in one call, batched where the model was compiled for that.
 *
 * If a batch fails, its halves run again, and their halves, until the failing requests are alone:
 * all others get their results and still run in batches. Failed requests do not count in the
 * statistics.
 */
#include <string.h>

#include "api/run_internal.h"

typedef struct {
    TnSession *s;
    TnRequest *request;
    int32_t n, ready;
    const void *const **in; /* [ready][ninput] */
    void *const **out;      /* [ready][noutput] */
    int64_t **sym, **dims;  /* [ready] */
    TnBlock *const **made;  /* [ready][noutput] */
    TnRequest **of;         /* [ready] */
    TnBlockCount *tried;    /* [nblock] of one run, which may fail */
    Arena *a;
    TnStatus first;    /* that of the first request that failed */
    const char *error; /* and its message */
} Many;

static void
succeeded(TnRequest *r)
{
    r->status = TN_OK;
    r->error = NULL;
}

/* Numbers, none too. */
static int64_t *
copied(Arena *a, const int64_t *x, int32_t n)
{
    int64_t *to = NEW_ARRAY(a, int64_t, n + 1);

    if (n)
        memcpy(to, x, (size_t)n * sizeof *to);
    return to;
}

static TnRequest *
request_at(const Many *m, int32_t i)
{
    return (TnRequest *)((char *)m->request + (size_t)i * m->request->size);
}

static void
failed(Many *m, TnRequest *r)
{
    r->status = tn_leave(m->s->ctx, false);
    r->error = arena_str(m->a, tn_error(m->s->ctx));
    if (!m->first) {
        m->first = r->status;
        m->error = r->error;
    }
    tn_clear(m->s->ctx);
}

/* Memory for output i that begins with a cache line; NULL: it is more than the machine has, which
 * is a fault of this request alone. */
static void *
aligned(Many *m, int32_t i, int64_t bytes)
{
    if (bytes <= memory_size())
        return (void *)(((uintptr_t)arena_alloc(m->a, (size_t)bytes + 64) + 63) / 64 * 64);
    diag_error(&m->s->ctx->c.diags, DIAG_LIMIT, (Loc){ 0 },
               "cannot get %lld bytes of memory for output \"%s\"", (long long)bytes,
               m->s->manifest->outputs[m->s->ports.out[i]].name);
    return NULL;
}

/* Memory for the outputs that have none, as far as their size is known. */
static bool
place(Many *m, TnRequest *r, void **out, TnBlock **made)
{
    TnSession *s = m->s;

    for (int32_t i = 0; i < r->nout; i++) {
        TnTensor *x = tn_tensor_at(r->out, i);
        RunOutput *o = &s->out[i];
        if (o->made) {
            made[s->ports.out[i]] = NEW(m->a, TnBlock);
            o->data = tn_given(s, i, x);
            o->room = o->data ? x->bytes : 0;
            continue;
        }
        x->data = tn_given(s, i, x);
        if (!x->data) {
            if (!(x->data = aligned(m, i, o->bytes)))
                return false;
        } else if (!tn_output_fits(m->s, i, o, x->bytes) ||
                   !session_check_data(s->session, &s->ctx->c.diags, "output",
                                       s->manifest->outputs[s->ports.out[i]].name, x->data,
                                       o->dtype, o->bytes))
            return false;
        out[s->ports.out[i]] = o->data = x->data;
        int64_t *dims = copied(m->a, o->dims, (int32_t)o->rank);
        tn_tell_output(m->s, i, x);
        x->dims = dims;
    }
    return tn_apart(s);
}

/* The characters of strings are in memory of the run's. */
static void
keep_strings(Many *m, const TnTensor *x)
{
    const char **at = x->data;
    int64_t n = strcmp(x->dtype, "str") ? 0 : x->bytes / (int64_t)sizeof *at;

    for (int64_t i = 0; i < n; i++)
        at[i] = at[i] ? arena_str(m->a, at[i]) : NULL;
}

static bool
alone(Many *m, TnRequest *r)
{
    if (!tn_run_one(m->s, r->in, r->nin, r->out, r->nout))
        return false;
    for (int32_t i = 0; i < r->nout; i++) { /* the next run takes what is the session's */
        TnTensor *x = tn_tensor_at(r->out, i);
        x->dims = copied(m->a, x->dims, x->rank);
        if (!tn_given(m->s, i, x) && x->bytes)
            x->data = arena_copy(m->a, x->data, (size_t)x->bytes);
        keep_strings(m, x);
    }
    return true;
}

/* Inputs checked, outputs placed. */
static bool
take(Many *m, TnRequest *r)
{
    TnSession *s = m->s;
    const void **in = NEW_ARRAY(m->a, const void *, s->manifest->ninput + 1);
    void **out = NEW_ARRAY(m->a, void *, s->manifest->noutput + 1);
    TnBlock **made = NEW_ARRAY(m->a, TnBlock *, s->manifest->noutput + 1);
    int32_t nsym;

    if (!tn_ready(s, r->in, r->nin, r->out, r->nout))
        return false;
    for (int32_t i = 0; i < r->nin; i++) {
        const int32_t port = s->ports.in[i];
        in[port] = s->in[i].data;
        if (!session_check_data(s->session, &s->ctx->c.diags, "input",
                                s->manifest->inputs[port].name, in[port], s->in[i].dtype,
                                s->in_bytes[i]))
            return false;
    }
    if (!place(m, r, out, made))
        return false;
    const int64_t *sym = session_sizes(s->session, &nsym);
    m->in[m->ready] = in;
    m->out[m->ready] = out;
    m->made[m->ready] = made;
    m->of[m->ready] = r;
    m->dims[m->ready] = NEW_ARRAY(m->a, int64_t, s->manifest->output_rank_total + 1);
    m->sym[m->ready++] = copied(m->a, sym, nsym);
    return true;
}

static bool
give_one(Many *m, const TnRequest *r, int32_t i, TnBlock *made, const int64_t *dims)
{
    TnTensor *x = tn_tensor_at(r->out, i);
    RunOutput o = m->s->out[i];

    memcpy(o.dims, dims, o.rank * sizeof *dims);
    tensor_bytes(o.dtype, o.rank, dims, &o.bytes);
    void *to = tn_given(m->s, i, x);
    bool fits = !to || tn_output_fits(m->s, i, &o, x->bytes);
    fits = fits && (to || (to = aligned(m, i, o.bytes)));
    if (fits) {
        if (o.bytes)
            memcpy(to, made->at, (size_t)o.bytes);
        tn_tell_output(m->s, i, x);
        x->dims = dims;
        x->data = to;
        x->bytes = o.bytes;
    }
    session_put_made(m->s->session, made);
    return fits;
}

/* Outputs whose size only the run told. A caller's memory may be too small for one; then that
 * request has failed. */
static void
give_made(Many *m, int32_t number)
{
    TnRequest *r = m->of[number];
    const int64_t *dims = m->dims[number];
    bool ok = true;

    /* they are the manifest's: no such model has states */
    for (int32_t i = 0; i < r->nout; i++) {
        if (m->made[number][i])
            ok &= give_one(m, r, i, m->made[number][i], dims);
        dims += m->s->out[i].rank;
    }
    if (!ok)
        failed(m, r);
    else
        succeeded(r);
}

/* Requests [first, first + n) of those that are ready, in one run. */
static bool
run_part(Many *m, int32_t first, int32_t n, const TnBatchPolicy *policy)
{
    TnSession *s = m->s;
    int32_t nblock = tn_model_blocks_of(s->manifest);
    uint32_t recorded = s->recording ? s->recording->graph.n : 0;
    const RunMany part = {
        n,        m->in + first, m->out + first, m->sym + first, m->dims + first, m->made + first,
        m->tried, policy
    };

    memset(m->tried, 0, (size_t)nblock * sizeof *m->tried);
    if (!session_run_many(s->session, &s->ctx->c.diags, &part)) {
        for (int32_t i = first; i < first + n; i++) /* the session has their memory */
            for (int32_t k = 0; k < s->manifest->noutput; k++)
                if (m->made[i][k])
                    *m->made[i][k] = (TnBlock){ 0 };
        if (s->recording)
            s->recording->graph.n = recorded;
        return false;
    }
    for (int32_t i = 0; i < nblock; i++) {
        s->count[i].nodes += m->tried[i].nodes;
        s->count[i].batches += m->tried[i].batches;
    }
    for (int32_t i = first; i < first + n; i++)
        give_made(m, i);
    return true;
}

static void
run_halves(Many *m, int32_t first, int32_t n, const TnBatchPolicy *policy)
{
    if (run_part(m, first, n, policy))
        return;
    if (n == 1) {
        failed(m, m->of[first]);
        return;
    }
    tn_clear(m->s->ctx);
    run_halves(m, first, n / 2, policy);
    run_halves(m, first + n / 2, n - n / 2, policy);
}

/* Outputs that are where an earlier call put them have no place yet: should this call fail, the
 * next one could not tell. */
static void
forget_places(TnSession *s, const TnRequest *r)
{
    if (!r->out || r->nout != s->ports.nout || (r->nout && r->out->size < sizeof *r->out))
        return;
    for (int32_t i = 0; i < r->nout; i++)
        tn_tensor_at(r->out, i)->data = tn_given(s, i, tn_tensor_at(r->out, i));
}

/* Before anything is freed or allocated: should memory run out, the call ends at once. */
static bool
begin_requests(const Many *m)
{
    TnContext *ctx = m->s->ctx;

    if (m->n < 0 || (m->n && !m->request))
        return diag_usage(&ctx->c.diags, "tn_run_many: %d requests%s", m->n,
                          m->n < 0 ? "; 0 or more are possible" : ", and their array is NULL");
    if (m->n && !TN_CHECK_SIZE(ctx, TnRequest, m->request))
        return false;
    for (int32_t i = 0; i < m->n; i++) {
        TnRequest *r = request_at(m, i);
        r->status = TN_LIMIT;
        r->error = "error: out of memory before this request had a result";
        forget_places(m->s, r);
    }
    return true;
}

static void
run_many(Many *m)
{
    TnSession *s = m->s;
    bool together = session_together(s->session);

    m->in = NEW_ARRAY(m->a, const void *const *, m->n + 1);
    m->out = NEW_ARRAY(m->a, void *const *, m->n + 1);
    m->sym = NEW_ARRAY(m->a, int64_t *, m->n + 1);
    m->dims = NEW_ARRAY(m->a, int64_t *, m->n + 1);
    m->made = NEW_ARRAY(m->a, TnBlock *const *, m->n + 1);
    m->of = NEW_ARRAY(m->a, TnRequest *, m->n + 1);
    for (int32_t i = 0; i < m->n; i++) {
        TnRequest *r = request_at(m, i);
        if (!(together ? take(m, r) : alone(m, r)))
            failed(m, r);
        else if (!together)
            succeeded(r);
    }
    if (!together || !m->ready)
        return;
    TnBatchPolicy policy;
    m->tried = NEW_ARRAY(m->a, TnBlockCount, tn_model_blocks_of(s->manifest) + 1);
    run_halves(m, 0, m->ready, tn_policy_of(s, &policy));
}

TnStatus
tn_run_many(TnSession *s, TnRequest *request, int32_t n)
{
    TN_ENTER(s ? s->ctx : NULL);
    Many m = { .s = s, .request = request, .n = n };
    if (!begin_requests(&m))
        return tn_leave(s->ctx, false);
    arena_free(s->before); /* of a call that ran out of memory */
    s->before = s->many;
    s->many = NULL;
    s->many = arena_child(s->arena);
    if (!s->count)
        s->count = NEW_ARRAY(s->arena, TnBlockCount, tn_model_blocks_of(s->manifest) + 1);
    m.a = s->many;
    run_many(&m);
    arena_free(s->before);
    s->before = NULL;
    if (!m.first)
        return tn_leave(s->ctx, true);
    s->ctx->error = arena_str(s->ctx->messages, m.error);
    return m.first;
}

int32_t
tn_model_blocks_of(const TnManifest *m)
{
    return TN_HAS(m, single) ? m->nblock : 0;
}

int32_t
tn_model_blocks(const TnModel *m)
{
    return m ? tn_model_blocks_of(m->manifest) : 0;
}

const char *
tn_model_single(const TnModel *m)
{
    return m && TN_HAS(m->manifest, single) ? m->manifest->single : NULL;
}

TnStatus
tn_session_block(TnSession *s, int32_t i, TnBlockUse *out)
{
    TN_ENTER(s ? s->ctx : NULL);
    int32_t n = tn_model_blocks_of(s->manifest);
    if (!out || i < 0 || i >= n)
        return tn_leave(s->ctx, diag_usage(&s->ctx->c.diags, "tn_session_block: block %d of %d%s",
                                           i, n, out ? "" : ", and out is NULL"));
    if (!TN_CHECK_SIZE(s->ctx, TnBlockUse, out))
        return tn_leave(s->ctx, false);
    const TnBlockInfo *k = &s->manifest->blocks[i];
    out->name = k->name;
    out->nodes = k->nodes;
    out->host = k->host;
    out->asked = s->count ? s->count[i].nodes : 0;
    out->ran = s->count ? s->count[i].batches : 0;
    return tn_leave(s->ctx, true);
}
