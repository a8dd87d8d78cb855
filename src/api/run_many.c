/* run_many: many requests in one call.
 *
 * Requests whose inputs have equal sizes run together where the model was compiled for that. Where one fails, its companions run again,
 * each alone, so that the guilty one is told apart and the others have their results.
 */
#include <string.h>

#include "api/run_internal.h"

typedef struct {
    int32_t group;                   /* the first request of the same sizes */
    const void **in;                 /* [ninput] */
    void **out;                      /* [noutput] */
    int64_t *dims;                   /* of all inputs */
} Asked;

typedef struct { TnSession *s; TnRequest *request; int32_t n; Asked *asked; Arena *a; TnStatus first; } Many;

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
    m->first = m->first ? m->first : r->status;
    tn_clear(m->s->ctx);
}

/* Memory for the outputs that have none, as far as their size is known. */
static bool
place(Many *m, TnRequest *r, Asked *q)
{
    const TnSession *s = m->s;

    for (int32_t i = 0; i < r->nout; i++) {
        TnTensor *x = tn_tensor_at(r->out, i);
        const RunOutput *o = &s->out[i];
        if (o->made)
            continue;
        if (x->data && x->bytes < o->bytes)
            return diag_error(&s->ctx->c.diags, DIAG_USAGE, (Loc){0}, "output \"%s\": %s needs %lld bytes, its `bytes` says %lld", s->manifest->outputs[s->ports.out[i]].name,
                              dims_text(m->a, o->dtype, o->rank, o->dims), (long long)o->bytes, (long long)x->bytes);
        if (!x->data)
            x->data = (void *)(((uintptr_t)arena_alloc(m->a, (size_t)o->bytes + 64) + 63) / 64 * 64);
        q->out[s->ports.out[i]] = x->data;
        int64_t *dims = arena_copy(m->a, o->dims, (o->rank + 1) * sizeof *o->dims);
        tn_tell_output(m->s, i, x);
        x->dims = dims;
    }
    return true;
}

static bool
alone(Many *m, TnRequest *r)
{
    if (!tn_run_one(m->s, r->in, r->nin, r->out, r->nout))
        return false;
    for (int32_t i = 0; i < r->nout; i++) {          /* the next run takes what is the session's */
        TnTensor *x = tn_tensor_at(r->out, i);
        x->dims = arena_copy(m->a, x->dims, ((size_t)x->rank + 1) * sizeof *x->dims);
        if (m->s->out[i].made)
            x->data = arena_copy(m->a, x->data, (size_t)x->bytes + 1);
    }
    return true;
}

/* Inputs checked, outputs placed. Which requests have its sizes? */
static bool
take(Many *m, int32_t number)
{
    TnSession *s = m->s;
    TnRequest *r = request_at(m, number);
    Asked *q = &m->asked[number];
    int64_t *to;
    size_t rank = 0;

    if (!tn_ready(s, r->in, r->nin, r->out, r->nout))
        return false;
    for (int32_t i = 0; i < r->nin; i++)
        rank += s->in[i].rank + 1;
    *q = (Asked){ number, NEW_ARRAY(m->a, const void *, s->manifest->ninput + 1), NEW_ARRAY(m->a, void *, s->manifest->noutput + 1), NEW_ARRAY(m->a, int64_t, rank + 1) };
    to = q->dims;
    for (int32_t i = 0; i < r->nin; i++) {
        q->in[s->ports.in[i]] = s->in[i].data;
        if (s->in_bytes[i] && !s->in[i].data)
            return diag_error(&s->ctx->c.diags, DIAG_USAGE, (Loc){0}, "input \"%s\": no memory given, %lld bytes are needed", s->manifest->inputs[s->ports.in[i]].name, (long long)s->in_bytes[i]);
        for (uint32_t d = 0; d < s->in[i].rank; d++)
            *to++ = s->in[i].dims[d];
    }
    if (!place(m, r, q))
        return false;
    for (int32_t i = 0; i < number; i++)
        if (m->asked[i].group == i && !request_at(m, i)->error && !memcmp(m->asked[i].dims, q->dims, (size_t)((char *)to - (char *)q->dims))) {
            q->group = i;
            return true;
        }
    return true;
}

static void
run_group(Many *m, int32_t first)
{
    TnSession *s = m->s;
    const void *const **in = NEW_ARRAY(m->a, const void *const *, m->n);
    void *const **out = NEW_ARRAY(m->a, void *const *, m->n);
    TnRequest *r = request_at(m, first);
    int32_t n = 0;

    for (int32_t i = first; i < m->n; i++)
        if (m->asked[i].group == first && !request_at(m, i)->error) {
            in[n] = m->asked[i].in;
            out[n++] = m->asked[i].out;
        }
    if (tn_ready(s, r->in, r->nin, r->out, r->nout) && session_run_many(s->session, &s->ctx->c.diags, n, in, out, s->count))
        return;
    tn_clear(s->ctx);
    for (int32_t i = first; i < m->n; i++)
        if (m->asked[i].group == first && !request_at(m, i)->error && !alone(m, request_at(m, i)))
            failed(m, request_at(m, i));
}

static bool
run_many(Many *m)
{
    TnSession *s = m->s;

    if (m->n < 0 || (m->n && !m->request))
        return diag_error(&s->ctx->c.diags, DIAG_USAGE, (Loc){0}, "tn_run_many: %d requests%s", m->n, m->n < 0 ? "; 0 or more are possible" : ", and their array is NULL");
    if (m->n && !TN_CHECK_SIZE(s->ctx, TnRequest, m->request))
        return false;
    m->asked = NEW_ARRAY(m->a, Asked, m->n + 1);
    for (int32_t i = 0; i < m->n; i++) {
        TnRequest *r = request_at(m, i);
        r->status = TN_OK;
        r->error = NULL;
        m->asked[i].group = -1;
        if (!(session_together(s->session) ? take(m, i) : alone(m, r)))
            failed(m, r);
    }
    for (int32_t i = 0; session_together(s->session) && i < m->n; i++)
        if (m->asked[i].group == i && !request_at(m, i)->error)
            run_group(m, i);
    return true;
}

TnStatus
tn_run_many(TnSession *s, TnRequest *request, int32_t n)
{
    if (!s)
        return TN_USAGE;
    TN_ENTER(s->ctx);
    if (s->many)
        arena_free(s->many);
    s->many = arena_child(s->arena);
    if (!s->count)
        s->count = NEW_ARRAY(s->arena, TnBlockCount, tn_model_blocks_of(s->manifest) + 1);
    Many m = { .s = s, .request = request, .n = n, .a = s->many };
    bool ok = run_many(&m);
    return !ok ? tn_leave(s->ctx, false) : m.first ? m.first : tn_leave(s->ctx, true);
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
    if (!s)
        return TN_USAGE;
    TN_ENTER(s->ctx);
    int32_t n = tn_model_blocks_of(s->manifest);
    if (!out || i < 0 || i >= n)
        return tn_leave(s->ctx, diag_error(&s->ctx->c.diags, DIAG_USAGE, (Loc){0}, "tn_session_block: block %d of %d%s", i, n, out ? "" : ", and out is NULL"));
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
