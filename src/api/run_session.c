/* run_session: models and sessions.
 *
 * A model and a session each own an arena; their messages go to the context that made them. tn_run
 * allocates nothing for sizes seen before.
 *
 * An output for which the caller gives no memory is written to one of two buffers of the session:
 * the one it used last, unless an input of this run is in it. So an output can be fed to the next
 * run, and only outputs that are fed back have two buffers.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/run_internal.h"

/* ---- models ----------------------------------------------------------------------------- */

/* The file at a path, or, where that is NULL, the contents of one. */
static bool
load(TnContext *ctx, const char *path, Bytes file, TnModel **out)
{
    *out = NULL;
    Arena *a = tn_arena(ctx);
    TnModel *m = NEW(a, TnModel);
    m->ctx = ctx;
    m->arena = a;
    m->artefact =
        path ? artefact_open(a, &ctx->c.diags, path) : artefact_open_memory(a, &ctx->c.diags, file);
    if (!m->artefact) {
        tn_drop(ctx, a);
        return false;
    }
    m->manifest = artefact_manifest(m->artefact);
    m->ports = manifest_ports(a, m->manifest);
    *out = m;
    return true;
}

TnStatus
tn_load(TnContext *ctx, const char *path, TnModel **out)
{
    TN_ENTER(ctx);
    if (!path || !out)
        return tn_leave(ctx,
                        diag_usage(&ctx->c.diags, "tn_load: %s is NULL", path ? "out" : "path"));
    return tn_leave(ctx, load(ctx, path, (Bytes){ NULL, 0 }, out));
}

TnStatus
tn_load_memory(TnContext *ctx, const void *data, size_t bytes, TnModel **out)
{
    TN_ENTER(ctx);
    if (!data || !out)
        return tn_leave(
            ctx, diag_usage(&ctx->c.diags, "tn_load_memory: %s is NULL", data ? "out" : "data"));
    return tn_leave(ctx, load(ctx, NULL, (Bytes){ data, bytes }, out));
}

void
tn_model_free(TnModel *m)
{
    if (m)
        arena_free(m->arena);
}

TnStatus
tn_model_set_name(TnModel *m, const char *name)
{
    TN_ENTER(m ? m->ctx : NULL);
    if (!name)
        return tn_leave(m->ctx, diag_usage(&m->ctx->c.diags, "tn_model_set_name: name is NULL"));
    artefact_set_name(m->artefact, arena_str(m->arena, name));
    return tn_leave(m->ctx, true);
}

int32_t
tn_model_inputs(const TnModel *m)
{
    return m ? m->ports.nin : 0;
}

int32_t
tn_model_outputs(const TnModel *m)
{
    return m ? m->ports.nout : 0;
}

const char *
tn_model_summary(const TnModel *m)
{
    return m ? m->manifest->summary : "";
}

int32_t
tn_model_kernels(const TnModel *m)
{
    return m ? m->manifest->nkernel : 0;
}

const char *
tn_model_kernel(const TnModel *m, int32_t i)
{
    return m && i >= 0 && i < m->manifest->nkernel ? m->manifest->kernels[i].origin : NULL;
}

int32_t
tn_model_checks(const TnModel *m)
{
    return m ? m->manifest->nconstraint : 0;
}

const char *
tn_model_check(const TnModel *m, int32_t i)
{
    return m && i >= 0 && i < m->manifest->nconstraint ? m->manifest->constraints[i] : NULL;
}

/* Threads may ask the same model at once: what needs no message leaves the context alone. */
static bool
value_told(const TnManifest *m, const TnTensorInfo *info, int32_t n, const int32_t *number,
           int32_t i, TnValueInfo *out)
{
    if (!out || out->size < offsetof(TnValueInfo, format) || i < 0 || i >= n)
        return false;
    i = number[i];
    out->name = info[i].name;
    out->dtype = info[i].dtype;
    out->rank = info[i].rank;
    out->dims = info[i].dims;
    out->dim_text = info[i].dim_text;
    /* else of a program that was compiled before it was there */
    if (out->size >= offsetof(TnValueInfo, format) + sizeof out->format)
        out->format =
            info == m->inputs ? manifest_input_format(m, i) : manifest_output_format(m, i);
    return true;
}

static TnStatus
value_refused(const TnModel *m, const char *what, int32_t n, int32_t i, const TnValueInfo *out)
{
    TN_ENTER(m ? m->ctx : NULL);
    Diags *d = &m->ctx->c.diags;
    if (!out)
        diag_usage(d, "tn_model_%s: out is NULL", what);
    else if (TN_CHECK_GROWN(m->ctx, TnValueInfo, out, dim_text))
        diag_usage(d, "%s %d asked for, the model has %d, counted from 0", what, i, n);
    return tn_leave(m->ctx, false);
}

TnStatus
tn_model_input(const TnModel *m, int32_t i, TnValueInfo *out)
{
    int32_t n = tn_model_inputs(m);

    return m && value_told(m->manifest, m->manifest->inputs, n, m->ports.in, i, out)
               ? TN_OK
               : value_refused(m, "input", n, i, out);
}

TnStatus
tn_model_output(const TnModel *m, int32_t i, TnValueInfo *out)
{
    int32_t n = tn_model_outputs(m);

    return m && value_told(m->manifest, m->manifest->outputs, n, m->ports.out, i, out)
               ? TN_OK
               : value_refused(m, "output", n, i, out);
}

int32_t
tn_model_states(const TnModel *m)
{
    int32_t n = 0;
    if (m)
        manifest_states(m->manifest, &n);
    return n;
}

static bool
tell_state(const TnModel *m, int32_t i, TnState *out)
{
    int32_t n;
    const TnStateInfo *s = manifest_states(m->manifest, &n);
    if (!out)
        return diag_usage(&m->ctx->c.diags, "tn_model_state: out is NULL");
    if (!TN_CHECK_SIZE(m->ctx, TnState, out))
        return false;
    if (i < 0 || i >= n)
        return diag_usage(&m->ctx->c.diags, "state %d asked for, the model has %d, counted from 0",
                          i, n);
    const TnTensorInfo *in = &m->manifest->inputs[s[i].input];
    *out = (TnState){ out->size, in->name,     m->manifest->outputs[s[i].output].name,
                      in->dtype, in->rank,     in->dim_text,
                      s[i].dim,  s[i].in_place };
    return true;
}

TnStatus
tn_model_state(const TnModel *m, int32_t i, TnState *out)
{
    TN_ENTER(m ? m->ctx : NULL);
    return tn_leave(m->ctx, tell_state(m, i, out));
}

/* ---- the caller's pool ------------------------------------------------------------------ */

typedef struct {
    TnKernelFn *fn;
    const TnArgs *args;
} Task;

static void
run_task(const void *task, int64_t begin, int64_t end, void *scratch)
{
    const Task *t = task;
    t->fn(t->args, begin, end, scratch);
}

static void
callers_parallel(void *user, TnKernelFn *fn, const TnArgs *args, int64_t trips, int64_t grain)
{
    const TnThreadPool *pool = &((TnSession *)user)->pool;
    Task task = { fn, args };
    if (trips > 0)
        pool->parallel(pool->user, run_task, &task, trips, grain);
}

static bool
callers_reserve(void *user, int64_t bytes)
{
    TnSession *s = user;
    TnStatus status = s->pool.reserve(s->pool.user, bytes);
    return status == TN_OK ||
           diag_error(
               &s->ctx->c.diags, DIAG_LIMIT, (Loc){ 0 },
               "the caller's thread pool did not reserve %lld bytes of scratch: status %d (%s)",
               (long long)bytes, (int)status, tn_status_name(status));
}

/* ---- sessions --------------------------------------------------------------------------- */

static void
free_owned(void *what)
{
    TnSession *s = what;
    for (int32_t i = 0; s->owned && i < s->ports.nout; i++)
        for (int k = 0; k < 2; k++) {
            free(s->owned[i][k].at);
            free(s->owned[i][k].before);
        }
}

/* 0 of a program that was compiled before there were states. */
static int64_t
capacity_of(const TnSessionOptions *o)
{
    return o && o->size >= offsetof(TnSessionOptions, state_capacity) + sizeof o->state_capacity
               ? o->state_capacity
               : 0;
}

static bool
check_options(TnContext *ctx, const TnSessionOptions *o)
{
    if (!o)
        return true;
    if (!TN_CHECK_GROWN(ctx, TnSessionOptions, o, pool) ||
        (o->pool && !TN_CHECK_SIZE(ctx, TnThreadPool, o->pool)))
        return false;
    if (capacity_of(o) < 0)
        return diag_usage(
            &ctx->c.diags,
            "state_capacity is %lld; 1 row or more are possible, 0 stands for what was compiled",
            (long long)capacity_of(o));
    return !o->pool || (o->pool->parallel && o->pool->reserve) ||
           diag_usage(&ctx->c.diags, "a thread pool needs both parallel and reserve, one is NULL");
}

static bool
session_make(TnContext *ctx, TnModel *m, const TnSessionOptions *o, TnSession **out)
{
    Diags *d = &ctx->c.diags;
    if (!m || !out)
        return diag_usage(d, "tn_session_new: %s is NULL", m ? "out" : "the model");
    *out = NULL;
    if (!check_options(ctx, o))
        return false;
    Arena *a = tn_arena(ctx);
    TnSession *s = NEW(a, TnSession);
    s->ctx = ctx;
    s->arena = a;
    s->manifest = m->manifest;
    s->ports = m->ports;
    arena_closer(a, free_owned, s);
    s->in = NEW_ARRAY(a, RunInput, s->ports.nin);
    s->out = NEW_ARRAY(a, RunOutput, s->ports.nout);
    s->in_dims = arena_alloc_array(a, (size_t)s->ports.nin, sizeof *s->in_dims);
    s->in_bytes = NEW_ARRAY(a, int64_t, s->ports.nin);
    s->turn = NEW_ARRAY(a, uint8_t, s->ports.nout);
    s->out_dims = arena_alloc_array(a, (size_t)s->ports.nout, sizeof *s->out_dims);
    s->owned = arena_alloc_array(a, (size_t)s->ports.nout, sizeof *s->owned);

    if (o && o->pool) {
        s->pool = *o->pool;
        RunHost host = { { .parallel = callers_parallel, .user = s }, callers_reserve };
        s->session = session_new(a, m->artefact, NULL, &host);
    } else {
        Pool *pool = pool_new(a, d, o ? o->threads : 0);
        s->threads = pool ? pool_threads(pool) : 0;
        s->session = pool ? session_new(a, m->artefact, pool, NULL) : NULL;
    }
    if (!s->session) {
        tn_drop(ctx, a);
        return false;
    }
    states_limit(session_states(s->session), capacity_of(o));
    *out = s;
    return true;
}

TnStatus
tn_session_new(TnContext *ctx, TnModel *m, const TnSessionOptions *o, TnSession **out)
{
    TN_ENTER(ctx);
    return tn_leave(ctx, session_make(ctx, m, o, out));
}

void
tn_session_free(TnSession *s)
{
    if (s)
        arena_free(s->arena);
}

int64_t
tn_session_arena_bytes(const TnSession *s)
{
    return s ? session_arena_bytes(s->session) : 0;
}

int32_t
tn_session_threads(const TnSession *s)
{
    return s ? s->threads : 0;
}

/* ---- running ---------------------------------------------------------------------------- */

static bool
check_array(TnContext *ctx, const char *what, const TnTensor *x, int32_t n, int32_t want)
{
    if (n != want)
        return diag_usage(&ctx->c.diags, "%d %s given, the model has %d", n, what, want);
    if (n && !x)
        return diag_usage(&ctx->c.diags, "the array of %d %s is NULL", n, what);
    return !n || TN_CHECK_SIZE(ctx, TnTensor, x);
}

static bool
check_name(TnContext *ctx, const char *what, int32_t i, const char *given, const char *want)
{
    return !given || strcmp(given, want) == 0 ||
           diag_usage(&ctx->c.diags,
                      "%s %d is named \"%s\", the model's is \"%s\"; give them in the model's "
                      "order, or without names",
                      what, i, given, want);
}

static const char *
input_name(const TnSession *s, int32_t i)
{
    return s->manifest->inputs[s->ports.in[i]].name;
}

static const char *
output_name(const TnSession *s, int32_t i)
{
    return s->manifest->outputs[s->ports.out[i]].name;
}

/* The inputs as the session takes them. With `data`, their memory is needed too. */
static bool
take_inputs(TnSession *s, const TnTensor *in, int32_t nin, bool data)
{
    Diags *d = &s->ctx->c.diags;
    if (!check_array(s->ctx, "inputs", in, nin, s->ports.nin))
        return false;
    for (int32_t i = 0; i < nin; i++) {
        const TnTensor *x = tn_tensor_at(in, i);
        const char *name = input_name(s, i);
        DType dtype;
        int64_t bytes;
        if (!check_name(s->ctx, "input", i, x->name, name) ||
            !tn_tensor_type(s->ctx, x, &dtype, &bytes))
            return false;
        if (data && x->bytes < bytes)
            return diag_usage(d, "input \"%s\": %s needs %lld bytes, its `bytes` says %lld", name,
                              dims_text(d->arena, dtype, (uint32_t)x->rank, x->dims),
                              (long long)bytes, (long long)x->bytes);
        if (x->rank)
            memmove(s->in_dims[i], x->dims, (size_t)x->rank * sizeof *x->dims);
        s->in_bytes[i] = bytes;
        s->in[i] = (RunInput){ x->data, dtype, (uint32_t)x->rank, s->in_dims[i] };
    }
    return true;
}

void
tn_tell_output(TnSession *s, int32_t i, TnTensor *x)
{
    RunOutput *o = &s->out[i];
    x->name = output_name(s, i);
    x->dtype = dtype_info[o->dtype].name;
    x->rank = (int32_t)o->rank;
    x->dims = o->dims;
    x->bytes = o->bytes;
}

/* Inputs taken and checked, outputs sized, scratch there. Outputs may be left out where nothing
 * runs. */
static bool
ready(TnSession *s, const TnTensor *in, int32_t nin, const TnTensor *out, int32_t nout,
      bool running)
{
    if (!take_inputs(s, in, nin, running))
        return false;
    if ((running || out || nout) && !check_array(s->ctx, "outputs", out, nout, s->ports.nout))
        return false;
    for (int32_t i = 0; running && i < nout; i++)
        if (!check_name(s->ctx, "output", i, tn_tensor_at(out, i)->name, output_name(s, i)))
            return false;
    return session_prepare(s->session, &s->ctx->c.diags, s->in, (uint32_t)nin, s->out);
}

static bool
prepare(TnSession *s, const TnTensor *in, int32_t nin, TnTensor *out, int32_t nout)
{
    if (!ready(s, in, nin, out, nout, false))
        return false;
    for (int32_t i = 0; i < nout; i++)
        tn_tell_output(s, i, tn_tensor_at(out, i));
    return true;
}

TnStatus
tn_prepare(TnSession *s, const TnTensor *in, int32_t nin, TnTensor *out, int32_t nout)
{
    TN_ENTER(s ? s->ctx : NULL);
    return tn_leave(s->ctx, prepare(s, in, nin, out, nout));
}

/* ---- memory of outputs ------------------------------------------------------------------ */

bool
tn_output_fits(TnSession *s, int32_t i, const RunOutput *o, int64_t bytes)
{
    Diags *d = &s->ctx->c.diags;

    return bytes >= o->bytes ||
           diag_usage(d, "output \"%s\": %s needs %lld bytes, its `bytes` says %lld",
                      output_name(s, i), dims_text(d->arena, o->dtype, o->rank, o->dims),
                      (long long)o->bytes, (long long)bytes);
}

static bool
overlap(const void *x, int64_t nx, const void *y, int64_t ny)
{
    uintptr_t a = (uintptr_t)x, b = (uintptr_t)y;
    return nx > 0 && ny > 0 && a < b + (uintptr_t)ny && b < a + (uintptr_t)nx;
}

/* The input in this memory, or -1. */
static int32_t
input_in(const TnSession *s, const void *at, int64_t bytes)
{
    for (int32_t k = 0; k < s->ports.nin; k++)
        if (overlap(at, bytes, s->in[k].data, s->in_bytes[k]))
            return k;
    return -1;
}

/* keep: what is there may be what the last run gave. It is kept once: what follows no run gave. */
static bool
own_memory(TnSession *s, int32_t i, int turn, int64_t bytes, bool keep)
{
    Owned *own = &s->owned[i][turn];
    if (own->at && own->bytes >= bytes)
        return true;
    /* What grows grows again; but the first time to the byte, so that an address sanitizer sees a
     * kernel that writes behind it. */
    int64_t room = bytes + (own->at ? bytes / 4 : 0);
    keep = keep && !own->before;
    if (!keep)
        free(own->at);
    *own = (Owned){ .before = keep ? own->at : own->before };
    if (posix_memalign(&own->at, 64, room ? (size_t)room : 1))
        return diag_error(&s->ctx->c.diags, DIAG_LIMIT, (Loc){ 0 },
                          "cannot get %lld bytes of memory for output \"%s\"", (long long)bytes,
                          output_name(s, i));
    huge_pages(own->at, (size_t)room);
    own->bytes = room;
    return true;
}

void *
tn_given(const TnSession *s, int32_t i, const TnTensor *x)
{
    const Owned *own = s->owned[i];
    const void *at = x->data;
    bool ours =
        at && ((s->before && arena_holds(s->before, at)) || (s->many && arena_holds(s->many, at)));

    for (int k = 0; at && k < 2; k++)
        ours |= at == own[k].at || at == own[k].made || at == own[k].before;

    return ours ? NULL : x->data;
}

/* Memory for output i: the caller's, or the session's own. */
static bool
place_output(TnSession *s, int32_t i, const TnTensor *x)
{
    Diags *d = &s->ctx->c.diags;
    const Owned *own = s->owned[i];
    RunOutput *o = &s->out[i];
    const char *name = output_name(s, i);
    o->data = tn_given(s, i, x);
    o->room = o->data ? x->bytes : 0;
    if (o->made) /* memory comes with the size */
        return true;
    if (o->data)
        return tn_output_fits(s, i, o, x->bytes);
    int turn = s->turn[i];
    if (input_in(s, own[turn].at, own[turn].bytes) >= 0)
        turn = !turn;
    int32_t old = input_in(s, own[turn].at, own[turn].bytes);
    if (old >= 0)
        return diag_usage(d,
                          "input \"%s\" is what output \"%s\" was in a run before the last, which "
                          "is no longer valid; "
                          "copy it after its run",
                          input_name(s, old), name);
    if (!own_memory(s, i, turn, o->bytes, false))
        return false;
    s->turn[i] = (uint8_t)turn;
    o->data = own[turn].at;
    return true;
}

static int64_t
room_of(const RunOutput *o)
{
    return o->made ? o->room : o->bytes;
}

/* Kernels write outputs while others are still to read inputs. */
bool
tn_apart(TnSession *s)
{
    for (int32_t i = 0; i < s->ports.nout; i++) {
        const RunOutput *o = &s->out[i];
        int32_t k = input_in(s, o->data, room_of(o));
        if (k >= 0)
            return diag_usage(&s->ctx->c.diags,
                              "input \"%s\" and output \"%s\" overlap in memory: give the output "
                              "memory of its own, or none",
                              input_name(s, k), output_name(s, i));
        for (k = 0; k < i; k++)
            if (overlap(o->data, room_of(o), s->out[k].data, room_of(&s->out[k])))
                return diag_usage(
                    &s->ctx->c.diags,
                    "outputs \"%s\" and \"%s\" overlap in memory: give each memory of "
                    "its own, or none",
                    output_name(s, k), output_name(s, i));
    }
    return true;
}

/* May output i be given back as an input? */
static bool
fits_an_input(const TnSession *s, int32_t i)
{
    const TnTensorInfo *o = &s->manifest->outputs[s->ports.out[i]];
    for (int32_t k = 0; k < s->ports.nin; k++) {
        const TnTensorInfo *x = &s->manifest->inputs[s->ports.in[k]];
        if (x->rank == o->rank && !strcmp(x->dtype, o->dtype))
            return true;
    }
    return false;
}

/* length: of the states; NULL: what they hold now. */
static bool
reserve(TnSession *s, const int64_t *length, const TnTensor *in, int32_t nin)
{
    Diags *d = &s->ctx->c.diags;
    uint32_t n = (uint32_t)nin;

    if (!take_inputs(s, in, nin, false) ||
        !(length ? session_state_reserve(s->session, d, *length, s->in, n, s->out)
                 : session_prepare(s->session, d, s->in, n, s->out)))
        return false;
    for (int32_t i = 0; i < s->ports.nout; i++)
        for (int turn = 0; turn <= fits_an_input(s, i); turn++)
            if (!own_memory(s, i, turn ? !s->turn[i] : s->turn[i], s->out[i].bytes, true))
                return false;
    return true;
}

TnStatus
tn_session_reserve(TnSession *s, const TnTensor *in, int32_t nin)
{
    TN_ENTER(s ? s->ctx : NULL);
    return tn_leave(s->ctx, reserve(s, NULL, in, nin));
}

/* ---- states ------------------------------------------------------------------------------ */

int64_t
tn_session_state_length(const TnSession *s)
{
    return s ? states_length(session_states(s->session)) : 0;
}

int64_t
tn_session_state_bytes(const TnSession *s)
{
    return s ? states_bytes(session_states(s->session)) : 0;
}

TnStatus
tn_session_state_drop(TnSession *s, int64_t n)
{
    TN_ENTER(s ? s->ctx : NULL);
    return tn_leave(s->ctx, states_drop(session_states(s->session), &s->ctx->c.diags, n));
}

static bool
arrange_states(TnSession *s, const TnArrangement *a)
{
    Diags *d = &s->ctx->c.diags;

    if (!a || a->size < sizeof *a || !a->dim)
        return diag_usage(d, "tn_session_state_arrange: give an arrangement with `size`, and with "
                             "`dim`, the name of the dimension that counts sequences");
    if (a->sequences < 0 || a->length < 0 || (a->sequences && !a->of))
        return diag_usage(d,
                          "tn_session_state_arrange: %lld sequences of %lld rows%s; 0 or more of "
                          "both are possible",
                          (long long)a->sequences, (long long)a->length,
                          a->of ? "" : ", and `of` is NULL");
    return states_arrange(session_states(s->session), d,
                          &(Arrangement){ a->dim, a->sequences, a->length, a->of, a->from });
}

TnStatus
tn_session_state_arrange(TnSession *s, const TnArrangement *a)
{
    TN_ENTER(s ? s->ctx : NULL);
    return tn_leave(s->ctx, arrange_states(s, a));
}

TnStatus
tn_session_state_fork(TnSession *s, TnSession *from)
{
    TN_ENTER(s ? s->ctx : NULL);
    return tn_leave(s->ctx,
                    from ? session_state_fork(s->session, &s->ctx->c.diags, from->session)
                         : diag_usage(&s->ctx->c.diags, "tn_session_state_fork: from is NULL"));
}

TnStatus
tn_session_state_reset(TnSession *s)
{
    TN_ENTER(s ? s->ctx : NULL);
    states_reset(session_states(s->session));
    return tn_leave(s->ctx, true);
}

TnStatus
tn_session_state_reserve(TnSession *s, int64_t length, const TnTensor *in, int32_t nin)
{
    TN_ENTER(s ? s->ctx : NULL);
    return tn_leave(s->ctx, reserve(s, &length, in, nin));
}

/* ---- */

/* An output whose size only the run told: in the session's memory, or copied to the caller's if
 * there is any. */
static void
give_made(TnSession *s, int32_t i, const TnTensor *x)
{
    RunOutput *o = &s->out[i];
    Owned *own = s->owned[i];
    void *given = tn_given(s, i, x);

    own[1].made = own[0].made;
    own[0].made = o->data;
    if (given && o->bytes)
        memcpy(given, o->data, (size_t)o->bytes);
    o->data = given ? given : o->data;
}

bool
tn_ready(TnSession *s, const TnTensor *in, int32_t nin, const TnTensor *out, int32_t nout)
{
    return ready(s, in, nin, out, nout, true);
}

bool
tn_run_one(TnSession *s, const TnTensor *in, int32_t nin, TnTensor *out, int32_t nout)
{
    if (!ready(s, in, nin, out, nout, true))
        return false;
    for (int32_t i = 0; i < nout; i++)
        if (!place_output(s, i, tn_tensor_at(out, i)))
            return false;
    if (!tn_apart(s))
        return false;
    if (!session_run(s->session, &s->ctx->c.diags, s->in, s->out))
        return false;
    for (int32_t i = 0; i < nout; i++) {
        TnTensor *x = tn_tensor_at(out, i);
        if (s->out[i].made)
            give_made(s, i, x);
        tn_tell_output(s, i, x);
        memcpy(s->out_dims[i], x->dims, sizeof s->out_dims[i]);
        x->dims = s->out_dims[i];
        x->data = s->out[i].data;
        for (int k = 0; k < 2; k++) {
            free(s->owned[i][k].before);
            s->owned[i][k].before = NULL;
        }
    }
    return true;
}

TnStatus
tn_run(TnSession *s, const TnTensor *in, int32_t nin, TnTensor *out, int32_t nout)
{
    TN_ENTER(s ? s->ctx : NULL);
    return tn_leave(s->ctx, tn_run_one(s, in, nin, out, nout));
}
