/* session: one model with its memory, ready to run.
 *
 * The model's own code binds the symbols, checks dimensions and constraints and computes sizes (the
 * manifest's prepare); its faults become sentences here that name the input, the dimension and both
 * numbers. The result of prepare is kept with its dimensions, so that running the same sizes again
 * costs a compare. Memory for intermediate tensors only grows.
 *
 * Callers pass their inputs; states (state.c) complete the lists, which are the manifest's.
 */
#include <string.h>

#include "run/internal.h"

struct Session {
    const Artefact *artefact;
    const TnManifest *manifest;
    Pool *pool; /* ours, or NULL */
    TnHost host;
    bool (*reserve)(void *user, int64_t bytes); /* of a caller's host, or NULL */
    int64_t reserved;                           /* scratch bytes of each of its ranges */
    bool refused;                               /* it refused during a run, and reported why */
    Profile *profile;                           /* NULL: none */

    Ports ports; /* the caller's inputs and outputs */
    States *states;
    RunInput *in;   /* [ninput]: all inputs of the run being prepared */
    RunOutput *out; /* [noutput] */

    bool prepared;
    const int64_t **input_dims; /* [ninput] into dims */
    /* of all inputs that were prepared, concatenated */
    int64_t *dims;
    int64_t *input_bytes; /* [ninput] */
    DType *input_dtype;   /* [ninput] */
    int64_t *sym, *output_dims;
    RunOutput *outputs; /* [noutput]; data unused */
    TnSizes sizes;

    const void **input_data;
    void **output_data;
    Reservation arena, scratch;

    Heap *heap; /* for tensors whose size only the run determines */
    TnMemory memory;
    TnBlock *block, **made; /* [noutput]: allocated by this run … */
    TnBlock *last;          /* … and by the previous one */
    int64_t *run_dims;      /* as output_dims, of the last run */
};

/* ---- memory ----------------------------------------------------------------------------- */

/* The contents are lost. What grows by a row with every token gets a quarter more than before. */
static bool
grow(Reservation *r, int64_t bytes)
{
    int64_t more = r->bytes + r->bytes / 4;
    return reservation_grow(r, 0, bytes > r->bytes && bytes < more ? more : bytes);
}

static void
session_end(void *what)
{
    Session *s = what;
    reservation_free(&s->arena);
    reservation_free(&s->scratch);
}

static void
pool_parallel(void *user, TnKernelFn *fn, const TnArgs *args, int64_t trips, int64_t grain)
{
    pool_run(user, fn, args, trips, grain);
}

static void *
get_block(void *user, int64_t *bytes)
{
    return heap_get(((Session *)user)->heap, bytes);
}

static void
put_block(void *user, void *at, int64_t bytes)
{
    heap_put(((Session *)user)->heap, at, bytes);
}

/* Each range has at least this much scratch, on any thread. Only a caller's host reports a
 * refusal. */
static bool
get_scratch(Session *s, int64_t bytes)
{
    if (s->pool)
        return pool_scratch(s->pool, bytes);
    if (s->reserve) {
        if (bytes > s->reserved && !s->reserve(s->host.user, bytes))
            return false;
        s->reserved = bytes > s->reserved ? bytes : s->reserved;
        return true;
    }
    if (!grow(&s->scratch, bytes))
        return false;
    s->host.scratch = s->scratch.at;
    return true;
}

/* A kernel whose scratch only the run determines. */
static int
get_scratch_in_run(void *user, int64_t bytes)
{
    Session *s = user;
    bool there = get_scratch(s, bytes);

    s->refused = !there && s->reserve;
    return !there;
}

static Loc
at_model(const Session *s)
{
    return (Loc){ .file = s->artefact->path };
}

Session *
session_new(Arena *a, const Artefact *f, Pool *pool, const RunHost *host)
{
    const TnManifest *m = f->manifest;
    Session *s = NEW(a, Session);
    s->artefact = f;
    s->manifest = m;
    s->pool = host ? NULL : pool;
    if (host) {
        s->host = host->host;
        s->reserve = host->reserve;
    } else if (pool)
        s->host = (TnHost){ .parallel = pool_parallel, .user = pool };
    s->host.size = sizeof s->host;

    int64_t ranks = 0;
    for (int32_t i = 0; i < m->ninput; i++)
        ranks += m->inputs[i].rank;
    s->input_dims = NEW_ARRAY(a, const int64_t *, m->ninput);
    s->dims = NEW_ARRAY(a, int64_t, ranks);
    s->input_bytes = NEW_ARRAY(a, int64_t, m->ninput);
    s->input_dtype = NEW_ARRAY(a, DType, m->ninput);
    s->sym = NEW_ARRAY(a, int64_t, m->nsymbol);
    s->output_dims = NEW_ARRAY(a, int64_t, m->output_rank_total);
    s->outputs = NEW_ARRAY(a, RunOutput, m->noutput);
    s->ports = manifest_ports(a, m);
    s->states = states_new(a, m, at_model(s));
    s->in = NEW_ARRAY(a, RunInput, m->ninput);
    s->out = NEW_ARRAY(a, RunOutput, m->noutput);
    s->input_data = NEW_ARRAY(a, const void *, m->ninput);
    s->output_data = NEW_ARRAY(a, void *, m->noutput);

    s->heap = heap_new(a);
    s->memory = (TnMemory){ sizeof s->memory, get_block, put_block, get_scratch_in_run, s };
    s->block = NEW_ARRAY(a, TnBlock, m->noutput);
    s->made = NEW_ARRAY(a, TnBlock *, m->noutput);
    s->last = NEW_ARRAY(a, TnBlock, m->noutput);
    s->run_dims = NEW_ARRAY(a, int64_t, m->output_rank_total);
    for (int32_t i = 0; i < m->noutput; i++)
        s->made[i] = &s->block[i];

    int64_t *dims = s->dims;
    for (int32_t i = 0; i < m->ninput; i++) {
        s->input_dims[i] = dims;
        s->input_dtype[i] = dtype_from_name(m->inputs[i].dtype, strlen(m->inputs[i].dtype));
        dims += m->inputs[i].rank;
    }
    for (int32_t i = 0; i < m->noutput; i++)
        s->outputs[i].dtype = dtype_from_name(m->outputs[i].dtype, strlen(m->outputs[i].dtype));
    arena_closer(a, session_end, s);
    return s;
}

/* ---- faults as sentences ---------------------------------------------------------------- */

/* "f32[batch, 3, 224, 224]" as the model declares it, followed by "as nhwc" if that was
 * requested. */
static const char *
declared(const Session *s, Arena *a, const TnTensorInfo *x)
{
    const char *format = manifest_input_format(s->manifest, (int32_t)(x - s->manifest->inputs));
    Text t = { .arena = a };
    text_printf(&t, "%s[", x->dtype);
    for (int32_t i = 0; i < x->rank; i++)
        text_printf(&t, "%s%s", i ? ", " : "", x->dim_text[i]);
    text_printf(&t, "]%s%s", format ? " as " : "", format ? format : "");
    return text_str(&t);
}

/* The dimension of another input with the same text and the wanted size: the one that bound the
 * symbol. */
static bool
find_binding(const Session *s, const TnFault *f, const char *text, int32_t *input, int32_t *dim)
{
    const TnManifest *m = s->manifest;
    for (*input = 0; *input < m->ninput; ++*input) {
        for (*dim = 0; *dim < m->inputs[*input].rank; ++*dim) {
            bool itself = *input == f->where && *dim == f->dim;
            if (!itself && s->input_dims[*input][*dim] == f->want &&
                strcmp(m->inputs[*input].dim_text[*dim], text) == 0)
                return true;
        }
    }
    return false;
}

static bool
is_name(const char *text)
{
    if (!(*text == '_' || (*text | 32) >= 'a'))
        return false;
    return strpbrk(text, " +-*/%(),") == NULL;
}

static bool
dim_fault(const Session *s, Diags *d, const TnFault *f)
{
    const TnManifest *m = s->manifest;
    if (f->where < 0 || f->where >= m->ninput || f->dim < 0 || f->dim >= m->inputs[f->where].rank)
        return diag_error(d, DIAG_INTERNAL, at_model(s),
                          "the model refused its inputs without saying which; please report it");
    const TnTensorInfo *x = &m->inputs[f->where];
    const char *text = x->dim_text[f->dim];
    long long got = f->got, want = f->want;
    int32_t input, dim;

    if (x->dims[f->dim] >= 0)
        return diag_error(
            d, DIAG_USAGE, at_model(s),
            "input \"%s\": dimension %d is %lld, the model takes %lld; the input is declared %s",
            x->name, f->dim, got, want, declared(s, d->arena, x));
    if (find_binding(s, f, text, &input, &dim))
        return diag_error(d, DIAG_USAGE, at_model(s),
                          "input \"%s\": dimension %d (%s) is %lld, but %s is %lld as dimension %d "
                          "of input \"%s\"; both must be the same",
                          x->name, f->dim, text, got, text, want, dim, m->inputs[input].name);
    if (is_name(text))
        return diag_error(d, DIAG_USAGE, at_model(s),
                          "input \"%s\": dimension %d (%s) is %lld, %s %lld is possible", x->name,
                          f->dim, text, got, got > want ? "at most" : "at least", want);
    return diag_error(
        d, DIAG_USAGE, at_model(s),
        "input \"%s\": dimension %d is %lld, must be %lld = %s; the input is declared %s", x->name,
        f->dim, got, want, text, declared(s, d->arena, x));
}

static bool
constraint_fault(const Session *s, Diags *d, const TnFault *f)
{
    const TnManifest *m = s->manifest;
    const char *what = f->where >= 0 && f->where < m->nconstraint ? m->constraints[f->where]
                                                                  : "a condition of the model";

    if (f->dim) { /* a fault in data has a sentence of its own */
        Text t = { .arena = d->arena };
        text_numbers(&t, what, f->dim - 1, f->got, f->want);
        return diag_error(d, DIAG_USAGE, at_model(s), "%s", text_str(&t));
    }
    return diag_error(d, DIAG_USAGE, at_model(s),
                      "the inputs' sizes do not fit together: %s; here the sides are %lld and %lld",
                      what, (long long)f->got, (long long)f->want);
}

static bool
report_fault(const Session *s, Diags *d, const TnFault *f)
{
    const TnManifest *m = s->manifest;
    const char *kernel =
        f->where >= 0 && f->where < m->nkernel ? m->kernels[f->where].origin : "a kernel";
    long long got = f->got, want = f->want;
    Loc at = at_model(s);

    switch (f->code) {
    case TN_FAULT_DIM: return dim_fault(s, d, f);
    case TN_FAULT_CONSTRAINT: return constraint_fault(s, d, f);
    case TN_FAULT_INDEX:
        return diag_error(d, DIAG_USAGE, at,
                          f->dim ? "%s: the index %lld is outside of 0 <= i < %lld; check the "
                                   "inputs it comes from"
                                 : "%s: the index %lld is outside of its axis, which has %lld "
                                   "elements; check the inputs it comes from",
                          kernel, got, want);
    case TN_FAULT_VALUE:
        return diag_error(
            d, DIAG_USAGE, at,
            "%s: %lld is asked for, at most %lld is possible; check the inputs it comes from",
            kernel, got, want);
    case TN_FAULT_FUNCTION:
        return diag_error(d, DIAG_USAGE, at,
                          "%s: its function in a library of your own returned %lld", kernel, got);
    case TN_FAULT_LIBRARY: {
        char name[17] = { 0 };
        memcpy(name, &f->got, 8);
        memcpy(name + 8, &f->want, 8);
        return diag_error(d, DIAG_USAGE, at,
                          "%s: what it was given needs the library lib%s, which is not on this "
                          "machine; install it",
                          kernel, name);
    }
    case TN_FAULT_WEIGHTS:
        return diag_error(
            d, DIAG_MODEL, at,
            "the library does not find its weights, %lld bytes; compile the model again", want);
    case TN_FAULT_SYMBOL:
        return diag_error(
            d, DIAG_USAGE, at, "the size %s, which data define, is %lld; %s %lld is possible",
            f->where >= 0 && f->where < m->nsymbol ? m->symbols[f->where] : "of a tensor", got,
            got > want ? "at most" : "at least", want);
    case TN_FAULT_MEMORY:
        if (s->refused)
            return false;
        if (want)
            return diag_error(d, DIAG_LIMIT, at,
                              "calls of functions are %lld deep and take %lld bytes, and there is "
                              "no memory for more; compile with a lower --max-calls",
                              want, got);
        return diag_error(d, DIAG_LIMIT, at,
                          "cannot get %lld bytes of memory for a tensor that data size; run "
                          "smaller inputs",
                          got);
    case TN_FAULT_TRIPS:
        return diag_error(d, DIAG_LIMIT, at,
                          "a loop ran %lld iterations, the limit is %lld; raise it with "
                          "--max-trips when compiling",
                          got, want);
    case TN_FAULT_DEPTH:
        return diag_error(d, DIAG_LIMIT, at,
                          "functions call each other %lld deep, the limit is %lld; raise it with "
                          "--max-calls when compiling",
                          got, want);
    case TN_FAULT_STACK:
        return diag_error(
            d, DIAG_LIMIT, at,
            "functions call each other %lld deep, and the thread's stack has no room for more; "
            "give the thread a larger stack, or compile with --many, which keeps calls in memory "
            "of their own",
            got);
    case TN_FAULT_FRAME:
        return diag_error(
            d, DIAG_INTERNAL, at,
            "the session gave the model no %s of %lld bytes where it needs them; please report it",
            f->where == TN_FRAME_INPUT    ? "input"
            : f->where == TN_FRAME_OUTPUT ? "output"
                                          : "memory",
            want);
    case TN_FAULT_SIZE:
        return diag_error(d, DIAG_LIMIT, at,
                          "a tensor's size overflows for inputs of these sizes; give smaller ones");
    }
    return diag_error(d, DIAG_INTERNAL, at,
                      "the model stopped with the unknown fault %d; please report it", f->code);
}

/* ---- prepare ---------------------------------------------------------------------------- */

static bool
check_input(const Session *s, Diags *d, int32_t i, const RunInput *in)
{
    const TnTensorInfo *x = &s->manifest->inputs[i];
    if (in->dtype != s->input_dtype[i])
        return diag_error(d, DIAG_USAGE, at_model(s),
                          "input \"%s\": the elements are %s, the model takes %s: convert them",
                          x->name, dtype_info[in->dtype].name, declared(s, d->arena, x));
    if (in->rank != (uint32_t)x->rank)
        return diag_error(d, DIAG_USAGE, at_model(s),
                          "input \"%s\": %s has rank %u, the model takes rank %d: %s", x->name,
                          in->rank <= TN_MAX_RANK
                              ? dims_text(d->arena, in->dtype, in->rank, in->dims)
                              : "the tensor",
                          in->rank, x->rank, declared(s, d->arena, x));
    for (uint32_t k = 0; k < in->rank; k++)
        if (in->dims[k] < 0)
            return diag_error(d, DIAG_USAGE, at_model(s),
                              "input \"%s\": dimension %u is %lld, sizes are 0 or more", x->name, k,
                              (long long)in->dims[k]);
    int64_t bytes;
    return tensor_bytes(in->dtype, in->rank, in->dims, &bytes) ||
           diag_error(d, DIAG_LIMIT, at_model(s), "input \"%s\": %s is larger than memory can be",
                      x->name, dims_text(d->arena, in->dtype, in->rank, in->dims));
}

/* Were the same dimensions prepared before? */
static bool
is_prepared(const Session *s, const RunInput *in)
{
    if (!s->prepared)
        return false;
    for (int32_t i = 0; i < s->manifest->ninput; i++)
        if (in[i].dtype != s->input_dtype[i] ||
            in[i].rank != (uint32_t)s->manifest->inputs[i].rank ||
            (in[i].rank &&
             memcmp(in[i].dims, s->input_dims[i], in[i].rank * sizeof *in[i].dims) != 0))
            return false;
    return true;
}

static bool
size_outputs(Session *s, Diags *d)
{
    const int64_t *dims = s->output_dims;
    for (int32_t i = 0; i < s->manifest->noutput; i++) {
        RunOutput *o = &s->outputs[i];
        o->rank = (uint32_t)s->manifest->outputs[i].rank;
        if (o->rank)
            memcpy(o->dims, dims, o->rank * sizeof *dims);
        dims += o->rank;
        o->made = o->dtype == DT_STR;
        for (uint32_t k = 0; k < o->rank; k++)
            o->made |= o->dims[k] < 0;
        o->bytes = 0;
        if (!o->made && !tensor_bytes(o->dtype, o->rank, o->dims, &o->bytes))
            return diag_error(d, DIAG_LIMIT, at_model(s),
                              "output \"%s\" would be %s for these inputs, which cannot be",
                              s->manifest->outputs[i].name,
                              dims_text(d->arena, o->dtype, o->rank, o->dims));
    }
    return true;
}

static bool
get_memory(Session *s, Diags *d)
{
    TnSizes z = s->sizes;
    if (z.arena_bytes < 0 || z.scratch_bytes < 0)
        return diag_error(
            d, DIAG_INTERNAL, at_model(s),
            "the model asks for %lld bytes of memory and %lld of scratch; please report it",
            (long long)z.arena_bytes, (long long)z.scratch_bytes);
    if (z.arena_bytes > INT64_MAX / 4 || z.scratch_bytes > INT64_MAX / 4 ||
        !grow(&s->arena, z.arena_bytes))
        return diag_error(
            d, DIAG_LIMIT, at_model(s),
            "cannot get %lld bytes of memory for intermediate tensors; run smaller inputs",
            (long long)z.arena_bytes);
    if (get_scratch(s, z.scratch_bytes))
        return true;
    return !s->reserve &&
           diag_error(d, DIAG_LIMIT, at_model(s),
                      "cannot get %lld bytes of scratch memory for each of %d threads; use fewer",
                      (long long)z.scratch_bytes, s->pool ? pool_threads(s->pool) : 1);
}

/* All inputs: the caller's, and the states. */
static bool
gather(Session *s, Diags *d, const RunInput *in, uint32_t nin)
{
    const Ports *p = &s->ports;

    if (nin != (uint32_t)p->nin) {
        s->prepared = false;
        return diag_error(d, DIAG_USAGE, at_model(s), "%u inputs given, the model takes %d", nin,
                          p->nin);
    }
    for (int32_t i = 0; i < p->nin; i++)
        s->in[p->in[i]] = in[i];
    if (p->nin == s->manifest->ninput)
        return true;
    for (int32_t i = 0; i < p->nin; i++)
        if (!check_input(s, d, p->in[i], &in[i]))
            return false;
    return states_inputs(s->states, d, s->in);
}

bool
session_prepare(Session *s, Diags *d, const RunInput *given, uint32_t nin, RunOutput *out)
{
    const TnManifest *m = s->manifest;
    const RunInput *in = s->in;

    if (!gather(s, d, given, nin))
        return false;
    if (!is_prepared(s, in)) {
        s->prepared = false;
        int64_t *dims = s->dims;
        for (int32_t i = 0; i < m->ninput; i++) {
            if (!check_input(s, d, i, &in[i]))
                return false;
            if (in[i].rank)
                memcpy(dims, in[i].dims, in[i].rank * sizeof *dims);
            dims += in[i].rank;
            tensor_bytes(in[i].dtype, in[i].rank, in[i].dims, &s->input_bytes[i]);
        }
        TnFault fault = { 0 };
        s->sizes = (TnSizes){ .size = sizeof s->sizes,
                              .threads = s->pool            ? pool_threads(s->pool)
                                         : s->host.parallel ? 0
                                                            : 1 };
        int code = m->prepare(s->input_dims, s->sym, s->output_dims, &s->sizes, &fault);
        if (code || fault.code) {
            fault.code = fault.code ? fault.code : code;
            return report_fault(s, d, &fault);
        }
        if (!size_outputs(s, d) || !get_memory(s, d))
            return false;
        s->prepared = true;
    }
    for (int32_t i = 0; out && i < s->ports.nout; i++) {
        RunOutput callers = out[i];
        out[i] = s->outputs[s->ports.out[i]];
        out[i].data = callers.data;
        out[i].room = callers.room;
    }
    return true;
}

/* ---- run -------------------------------------------------------------------------------- */

bool
session_check_data(const Session *s, Diags *d, const char *what, const char *name, const void *data,
                   DType dtype, int64_t bytes)
{
    if (!data && bytes)
        return diag_error(d, DIAG_USAGE, at_model(s),
                          "%s \"%s\": no memory given, %lld bytes are needed", what, name,
                          (long long)bytes);
    if ((uintptr_t)data % dtype_info[dtype].bytes)
        return diag_error(d, DIAG_USAGE, at_model(s),
                          "%s \"%s\": the address %p is not a multiple of %d, the size of %s: copy "
                          "it to aligned memory",
                          what, name, data, dtype_info[dtype].bytes, dtype_info[dtype].name);
    return true;
}

/* The outputs' sizes in this run, and the memory that it allocated for them. */
static bool
take_outputs(Session *s, Diags *d, RunOutput *out)
{
    const int64_t *dims = s->run_dims;

    for (int32_t i = 0; i < s->manifest->noutput; i++) {
        RunOutput *o = &out[i];
        if (o->rank)
            memcpy(o->dims, dims, o->rank * sizeof *dims);
        dims += o->rank;
        if (!tensor_bytes(o->dtype, o->rank, o->dims, &o->bytes))
            return diag_error(d, DIAG_LIMIT, at_model(s), "output \"%s\" is %s, which cannot be",
                              s->manifest->outputs[i].name,
                              dims_text(d->arena, o->dtype, o->rank, o->dims));
        if (o->made)
            o->data = s->block[i].at;
    }
    return true;
}

/* Is there room for what the run made, where the caller gave memory for it? */
static bool
made_fits(const Session *s, Diags *d, const RunOutput *wanted, const RunOutput *out)
{
    for (int32_t i = 0; i < s->ports.nout; i++) {
        const RunOutput *o = &out[s->ports.out[i]];
        if (o->made && wanted[i].data && wanted[i].room < o->bytes)
            return diag_usage(d, "output \"%s\": %s needs %lld bytes, its `bytes` says %lld",
                              s->manifest->outputs[s->ports.out[i]].name,
                              dims_text(d->arena, o->dtype, o->rank, o->dims), (long long)o->bytes,
                              (long long)wanted[i].room);
    }
    return true;
}

bool
session_together(const Session *s)
{
    return TN_HAS(s->manifest, single) && s->manifest->many;
}

const int64_t *
session_sizes(const Session *s, int32_t *n)
{
    *n = s->manifest->nsymbol;
    return s->sym;
}

void
session_put_made(Session *s, TnBlock *b)
{
    if (b->at)
        heap_put(s->heap, b->at, b->bytes);
    *b = (TnBlock){ NULL, 0 };
}

bool
session_run_many(Session *s, Diags *d, const RunMany *r)
{
    TnFault fault = { 0 };
    const TnMany many = {
        .size = sizeof many,
        .n = r->n,
        .inputs = r->in,
        .outputs = r->out,
        .sym = r->sym,
        .weights = s->artefact->weights,
        .host = s->profile ? profile_host(s->profile, &s->host) : &s->host,
        .fault = &fault,
        .memory = &s->memory,
        .count = r->count,
        .made = r->made,
        .output_dims = r->dims,
        .policy = r->policy,
    };

    /* outputs of the last run may be inputs of requests that run after these fail */
    const void *before = heap_newest(s->heap);
    s->refused = false;
    if (s->pool)
        pool_busy(s->pool, true);
    int code = s->manifest->many(&many);
    if (s->pool)
        pool_busy(s->pool, false);
    fault.code = fault.code ? fault.code : code;
    if (!fault.code)
        return true;
    heap_take_back(s->heap, before);
    return report_fault(s, d, &fault);
}

bool
session_run(Session *s, Diags *d, const RunInput *given, RunOutput *wanted)
{
    const TnManifest *m = s->manifest;
    RunInput *in = s->in;
    RunOutput *out = s->out;

    if (!session_prepare(s, d, given, (uint32_t)s->ports.nin, wanted))
        return false;
    if (m->noutput)
        memcpy(out, s->outputs, (size_t)m->noutput * sizeof *out);
    for (int32_t i = 0; i < s->ports.nout; i++)
        out[s->ports.out[i]].data = wanted[i].made ? NULL : wanted[i].data;
    if (!states_outputs(s->states, d, in, out))
        return false;
    for (int32_t i = 0; i < m->ninput; i++) {
        if (!session_check_data(s, d, "input", m->inputs[i].name, in[i].data, s->input_dtype[i],
                                s->input_bytes[i]))
            return false;
        s->input_data[i] = in[i].data;
    }
    for (int32_t i = 0; i < m->noutput; i++) {
        if (!out[i].made && !session_check_data(s, d, "output", m->outputs[i].name, out[i].data,
                                                out[i].dtype, out[i].bytes))
            return false;
        s->output_data[i] = out[i].data;
    }
    TnFault fault = { 0 };
    TnFrame frame = {
        .size = sizeof frame,
        .inputs = s->input_data,
        .outputs = s->output_data,
        .weights = s->artefact->weights,
        .arena = s->arena.at,
        .sym = s->sym,
        .host = s->profile ? profile_host(s->profile, &s->host) : &s->host,
        .fault = &fault,
        .memory = &s->memory,
        .made = s->made,
        .output_dims = s->run_dims,
    };
    if (m->output_rank_total)
        memcpy(s->run_dims, s->output_dims, (size_t)m->output_rank_total * sizeof *s->run_dims);
    if (m->noutput) /* an output of the last run may be an input of this one */
        memcpy(s->last, s->block, (size_t)m->noutput * sizeof *s->block);
    memset(s->block, 0, (size_t)m->noutput * sizeof *s->block);
    const void *before = heap_newest(s->heap);
    s->refused = false;
    if (s->pool)
        pool_busy(s->pool, true);
    int code = m->run(&frame);
    if (s->pool)
        pool_busy(s->pool, false);
    fault.code = fault.code ? fault.code : code;
    if (!fault.code && take_outputs(s, d, out) && made_fits(s, d, wanted, out) &&
        states_taken(s->states, d, out)) {
        for (int32_t i = 0; i < m->noutput; i++)
            if (s->last[i].at)
                heap_put(s->heap, s->last[i].at, s->last[i].bytes);
        for (int32_t i = 0; i < s->ports.nout; i++)
            wanted[i] = out[s->ports.out[i]];
        return true;
    }
    /* the caller may run again with what the last run made */
    heap_take_back(s->heap, before);
    if (m->noutput)
        memcpy(s->block, s->last, (size_t)m->noutput * sizeof *s->block);
    return fault.code && report_fault(s, d, &fault);
}

/* ---- states ----------------------------------------------------------------------------- */

States *
session_states(const Session *s)
{
    return s->states;
}

bool
session_state_fork(Session *s, Diags *d, Session *from)
{
    if (s->manifest != from->manifest)
        return diag_error(d, DIAG_USAGE, at_model(s),
                          "its state cannot go on where one of %s is: both sessions are to be of "
                          "one model, loaded once",
                          from->artefact->path);
    return s == from || states_fork(s->states, d, from->states);
}

bool
session_state_reserve(Session *s, Diags *d, int64_t length, const RunInput *in, uint32_t nin,
                      RunOutput *out)
{
    if (length < 0)
        return diag_error(d, DIAG_USAGE, at_model(s),
                          "a state of %lld rows is asked for; 0 or more are possible",
                          (long long)length);
    states_pretend(s->states, length);
    bool ok = session_prepare(s, d, in, nin, out);
    if (ok && s->manifest->noutput)
        memcpy(s->out, s->outputs, (size_t)s->manifest->noutput * sizeof *s->out);
    ok = ok && states_outputs(s->states, d, s->in, s->out);
    states_pretend(s->states, -1);
    s->prepared = false;
    return ok;
}

void
session_profile(Session *s, Profile *p)
{
    s->profile = p;
}

void
session_work(const Session *s, TnWork *work)
{
    if (s->prepared)
        s->manifest->work(s->sym, work);
}

int64_t
session_arena_bytes(const Session *s)
{
    return s->prepared ? s->sizes.arena_bytes : 0;
}
