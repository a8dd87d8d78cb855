/* tenon bench --decode: tokens a second of a model whose cache is a state (--state), and the share
 * of the memory bandwidth that they reach: each token reads every weight and the whole cache.
 *
 * The prompt runs once to warm up and once for its time. Then the session reserves memory for the
 * whole sequence, and each step is timed. The bandwidth is measured before, between and after.
 */
#include "cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARMUP = 3, ROUNDS = 3, PROFILED = 12 };

typedef struct {
    TnContext *ctx;
    const Options *o;
    TnModel *model;
    TnSession *session;
    TnDim *dim; /* --dim, then the states' sizes, then the new rows' */
    int32_t ngiven, ndim;
    int64_t tokens; /* of a step */
    int threads;
    double *ms, prefill_ms;
    double bytes, read; /* of a step; what memory gives, bytes a second */
} Decode;

/* ---- sizes ----------------------------------------------------------------------------------- */

static bool
is_of_states(const TnModel *m, const char *text)
{
    for (int32_t i = 0; i < tn_model_states(m); i++) {
        TnState s = state_info(m, i);
        for (int32_t d = 0; d < s.rank; d++)
            if (!strcmp(s.dim_text[d], text))
                return true;
    }
    return false;
}

/* The size that says how many rows are new: the first open one of the inputs' that is none of a
 * state's. */
static const char *
new_rows(const TnModel *m)
{
    for (int32_t i = 0; i < tn_model_inputs(m); i++) {
        TnValueInfo v = input_info(m, i);
        for (int32_t d = 0; d < v.rank; d++)
            if (v.dims[d] < 0 && !strpbrk(v.dim_text[d], " +-*/%(),") &&
                !is_of_states(m, v.dim_text[d]))
                return v.dim_text[d];
    }
    return NULL;
}

static int
name_sizes(Decode *k)
{
    const TnCompileOptions *c = &k->o->compile;
    int32_t n = tn_model_states(k->model);
    const char *fresh = new_rows(k->model);

    k->dim = need(calloc((size_t)c->ndims + (size_t)n + 1, sizeof *k->dim));
    for (; k->ndim < c->ndims; k->ndim++)
        k->dim[k->ndim] = c->dims[k->ndim];
    k->ngiven = k->ndim;
    for (int32_t i = 0; i < n; i++) {
        TnState s = state_info(k->model, i);
        int32_t at = k->ngiven;
        if (s.axis < 0)
            continue;
        while (at < k->ndim && strcmp(k->dim[at].symbol, s.dim_text[s.axis]))
            at++;
        if (at == k->ndim)
            k->dim[k->ndim++] = (TnDim){ s.dim_text[s.axis], 0 };
    }
    if (k->ndim == k->ngiven)
        return usage_error("--decode: %s keeps nothing between runs that grows; compile it with "
                           "--state, as --state 'past_key_values.*=present.*'",
                           k->o->model);
    if (!fresh)
        return usage_error("--decode: no input of %s tells how many rows are new", k->o->model);
    k->dim[k->ndim++] = (TnDim){ fresh, 0 };
    return TN_OK;
}

/* Inputs of a run that adds `fresh` rows to `past`. */
static int
inputs_of(Decode *k, int64_t past, int64_t fresh, Tensors *t)
{
    Options o = *k->o;

    for (int32_t i = k->ngiven; i < k->ndim; i++)
        k->dim[i].value = i + 1 < k->ndim ? past : fresh;
    o.compile.dims = k->dim;
    o.compile.ndims = k->ndim;
    o.told = k->tokens > 0;
    *t = (Tensors){ 0 };
    int status = inputs_make(k->ctx, &o, k->model, t);
    if (status == TN_OK)
        outputs_make(k->model, t);
    for (int32_t i = 0; i < t->nin && status == TN_OK && !k->tokens; i++) {
        TnValueInfo v = input_info(k->model, i);
        int64_t n = 1;
        for (int32_t d = 0; d < v.rank && !k->tokens; d++) { /* [batch, new, …] */
            bool is_new = v.dims[d] < 0 && !strcmp(v.dim_text[d], k->dim[k->ndim - 1].symbol);
            k->tokens = is_new ? n : 0;
            n *= t->in[i].dims[d];
        }
    }
    return status;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static int
add_rows(Decode *k, int64_t past, int64_t fresh, double *ms)
{
    Tensors t;

    int status = inputs_of(k, past, fresh, &t);
    if (status == TN_OK) {
        double start = seconds();
        status = report(k->ctx, tn_run(k->session, t.in, t.nin, t.out, t.nout));
        *ms = 1e3 * (seconds() - start);
    }
    tensors_free(&t);
    return status;
}

static int
begin(Decode *k)
{
    int64_t context = k->o->context, steps = k->o->decode;
    double unused;
    Tensors t;

    int status = add_rows(k, 0, context, &unused);
    if (status == TN_OK)
        status = report(k->ctx, tn_session_state_reset(k->session));
    if (status == TN_OK)
        status = add_rows(k, 0, context, &k->prefill_ms);
    if (status == TN_OK)
        status = inputs_of(k, context + steps, 1, &t);
    if (status == TN_OK) {
        status = report(k->ctx, tn_session_state_reserve(k->session, context + steps, t.in, t.nin));
        tensors_free(&t);
    }
    for (int i = 0; i < WARMUP && status == TN_OK; i++)
        if ((status = add_rows(k, context, 1, &unused)) == TN_OK)
            status = report(k->ctx, tn_session_state_drop(k->session, 1));
    return status;
}

/* Bytes that the kernels of one more step read and write. */
static int
count_bytes(Decode *k)
{
    double unused;

    int status = report(k->ctx, tn_session_profile(k->session, 0));
    if (status == TN_OK)
        status = add_rows(k, tn_session_state_length(k->session), 1, &unused);
    for (int32_t i = 0; i < tn_session_kernels(k->session) && status == TN_OK; i++) {
        TnKernelProfile p = TN_INIT(TnKernelProfile);
        status = report(k->ctx, tn_session_kernel(k->session, i, &p));
        k->bytes += p.bytes * (double)p.calls;
    }
    return status == TN_OK ? report(k->ctx, tn_session_state_drop(k->session, 1)) : status;
}

static int
measure(Decode *k)
{
    int64_t steps = k->o->decode;
    double rate[ROUNDS + 1];
    int status = begin(k);

    k->ms = need(calloc((size_t)steps, sizeof *k->ms));
    for (int r = 0; r <= ROUNDS && status == TN_OK; r++) {
        rate[r] = read_bandwidth(k->threads);
        for (int64_t i = steps * r / ROUNDS;
             r < ROUNDS && i < steps * (r + 1) / ROUNDS && status == TN_OK; i++)
            status = add_rows(k, k->o->context + i, 1, &k->ms[i]);
    }
    if (status != TN_OK)
        return status;
    qsort(k->ms, (size_t)steps, sizeof *k->ms, by_number);
    for (int r = 0; r <= ROUNDS; r++) /* as yardsticks do: the best that was seen */
        k->read = rate[r] > k->read ? rate[r] : k->read;
    return count_bytes(k);
}

static int
look_into(Decode *k, ProfileReport *p)
{
    double unused;

    int status = profile_begin(k->ctx, k->session, p);
    for (int i = 0; i < PROFILED && status == TN_OK; i++) {
        status = add_rows(k, tn_session_state_length(k->session), 1, &unused);
        if (status == TN_OK)
            status = profile_run(k->ctx, k->session, p);
        if (status == TN_OK)
            status = report(k->ctx, tn_session_state_drop(k->session, 1));
    }
    return status == TN_OK ? profile_end(k->ctx, k->o, k->threads, p) : status;
}

/* ---- what was found -------------------------------------------------------------------------- */

typedef struct {
    const Decode *k;
    const ProfileReport *profile;
} DecodeResult;

static int
write_json(void *user, FILE *to)
{
    const DecodeResult *f = user;
    const Decode *k = f->k;
    double ms = median(k->ms, k->o->decode);

    fputs("{\n  \"model\": ", to);
    fprint_json_string(to, k->o->model);
    fprintf(to, ",\n  \"threads\": %d,\n  \"context\": %lld,\n  \"steps\": %lld,\n", k->threads,
            (long long)k->o->context, (long long)k->o->decode);
    fprintf(to,
            "  \"tokens_per_s\": %.6f,\n  \"step_ms\": %.6f,\n  \"prefill_tokens_per_s\": %.6f,\n",
            1e3 * (double)k->tokens / ms, ms,
            1e3 * (double)(k->tokens * k->o->context) / k->prefill_ms);
    fprintf(to,
            "  \"bytes_per_step\": %.0f,\n  \"bandwidth_share\": %.6f,\n  \"read_bytes_per_s\": "
            "%.0f,\n  \"state_bytes\": %lld",
            k->bytes, 1e3 * k->bytes / ms / k->read, k->read,
            (long long)tn_session_state_bytes(k->session));
    if (f->profile)
        profile_json(to, f->profile);
    fputs("\n}\n", to);
    return TN_OK;
}

static void
print_found(const Decode *k)
{
    double ms = median(k->ms, k->o->decode);

    printf("decode, context %lld, %lld steps of %lld token%s, %d thread%s\n",
           (long long)k->o->context, (long long)k->o->decode, (long long)k->tokens,
           k->tokens == 1 ? "" : "s", k->threads, k->threads == 1 ? "" : "s");
    printf("  %.4g tokens/s: a step takes %.4g ms (median; %.4g to %.4g)\n",
           1e3 * (double)k->tokens / ms, ms, k->ms[0], k->ms[k->o->decode - 1]);
    printf("  %.3g tokens/s of the prompt\n  ",
           1e3 * (double)(k->tokens * k->o->context) / k->prefill_ms);
    print_size((int64_t)k->bytes);
    double share = 1e3 * k->bytes / ms / k->read;
    printf(" a step: %.3g GB/s, ", 1e-6 * k->bytes / ms);
    printf(share > 1 ? "from cache: more" : "%.1f %% of", 100 * share);
    printf(share > 1 ? " than the %.3g GB/s at which memory is read\n  "
                     : " the %.3g GB/s at which memory is read\n  ",
           1e-9 * k->read);
    print_size(tn_session_state_bytes(k->session));
    printf(" in states, arena ");
    print_size(tn_session_arena_bytes(k->session));
    putchar('\n');
}

static int
tell(const Decode *k, const ProfileReport *profile)
{
    DecodeResult f = { k, profile };

    if (is_stdout(k->o->json_file))
        return write_json(&f, stdout);
    print_found(k);
    if (profile)
        profile_print(profile);
    return k->o->json_file ? write_report("json", k->o->json_file, write_json, &f) : TN_OK;
}

static int
decode(TnContext *ctx, const Options *o, TnModel *m)
{
    Decode k = { .ctx = ctx, .o = o, .model = m };
    ProfileReport profile = { 0 };
    Options how = *o;

    how.threads = o->sweep.n ? (int32_t)o->sweep.at[0] : 0;
    int status = name_sizes(&k);
    if (status == TN_OK)
        status = session_begin(ctx, &how, m, &k.session);
    k.threads = k.session ? tn_session_threads(k.session) : 1;
    if (status == TN_OK)
        status = measure(&k);
    if (status == TN_OK && o->profile)
        status = look_into(&k, &profile);
    if (status == TN_OK)
        status = tell(&k, o->profile ? &profile : NULL);
    profile_free(&profile);
    tn_session_free(k.session);
    free(k.ms);
    free(k.dim);
    return status;
}

int
bench_decode(TnContext *ctx, const Options *o)
{
    if (o->context < 1)
        return usage_error("--context %lld: the prompt has one token or more",
                           (long long)o->context);
    if (o->compare || o->trace || o->sweep.n > 1)
        return usage_error("--decode is of one model on one number of threads: leave out %s",
                           o->compare ? "--compare"
                           : o->trace ? "--trace"
                                      : "all but one of --threads");
    return model_with(ctx, o, decode);
}
