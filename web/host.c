/* host: the session of a WebAssembly module, as the JavaScript beside it calls it.
 *
 * The session, its states and its messages are libtenon-run's. Here is what JavaScript needs to
 * reach them: memory to put inputs into, one call that runs, and where outputs are. Strings that
 * are returned end with 0 and live until the next call.
 *
 * Memory only grows, as WebAssembly's does: an input or output keeps its block for the next run.
 */
#define EXPORT(name) __attribute__((export_name(#name))) name

Pool *pool_of_workers(Arena *a, int threads);

static struct {
    Oom oom;
    Arena *arena, *message; /* message: of the last call */
    Artefact artefact;
    Session *session;
    Ports ports;
    RunInput *in;   /* [ports.nin] */
    RunOutput *out; /* [ports.nout] */
    int64_t (*dims)[TN_MAX_RANK];
    Reservation *room, *made; /* [ports.nin], [ports.nout] */
    Text said;
    DiagClass worst;
} web;

/* ---- what libtenon-run asks the system for --------------------------------------------------- */

void *
huge_pages(void *block, size_t bytes)
{
    (void)bytes;
    return block;
}

double
time_seconds(void)
{
    return 0; /* nothing is watched */
}

int64_t
memory_size(void)
{
    return (int64_t)1 << 32;
}

const TnHost *
profile_host(Profile *p, const TnHost *under)
{
    (void)p;
    return under;
}

/* Memory that nobody shares: there is one session. */
bool
reservation_grow(Reservation *r, int64_t stay, int64_t bytes)
{
    if (r->at && r->bytes >= bytes)
        return true;
    if (bytes >= (int64_t)1 << 32)
        return false;
    size_t size = ((size_t)bytes + 63) / 64 * 64;
    if (!stay) { /* nothing is to be kept, so both need not be there at once */
        free(r->at);
        *r = (Reservation){ 0 };
    }
    char *at = aligned_alloc(64, size ? size : 64);
    if (!at)
        return false;
    if (stay)
        memcpy(at, r->at, (size_t)stay);
    free(r->at);
    *r = (Reservation){ .at = at, .bytes = (int64_t)size };
    return true;
}

void
reservation_free(Reservation *r)
{
    free(r->at);
    *r = (Reservation){ 0 };
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Memory for the weights; 0: there is none. */
void *
EXPORT(tn_weights)(void)
{
    size_t bytes = (size_t)tenon_manifest()->weights_bytes;

    if (!web.artefact.weights)
        web.artefact.weights = aligned_alloc(64, (bytes + 64) / 64 * 64);
    return (void *)web.artefact.weights;
}

void
EXPORT(tn_open)(int threads)
{
    Arena *a = web.arena = arena_new(NULL, &web.oom);
    const TnManifest *m = tenon_manifest();

    web.artefact.path = m->name;
    web.artefact.manifest = m;
    web.session =
        session_new(a, &web.artefact, threads > 1 ? pool_of_workers(a, threads) : NULL, NULL);
    web.ports = manifest_ports(a, m);
    web.in = NEW_ARRAY(a, RunInput, web.ports.nin);
    web.out = NEW_ARRAY(a, RunOutput, web.ports.nout);
    web.dims = arena_alloc_array(a, (size_t)web.ports.nin, sizeof *web.dims);
    web.room = NEW_ARRAY(a, Reservation, web.ports.nin);
    web.made = NEW_ARRAY(a, Reservation, web.ports.nout);
}

size_t
EXPORT(tn_wanted)(void)
{
    return web.oom.wanted;
}

/* ---- what the model is, as JSON -------------------------------------------------------------- */

static void
add_tensor(Text *t, const char *before, const TnTensorInfo *x)
{
    text_printf(t, "%s{\"name\": ", before);
    text_json(t, x->name);
    text_printf(t, ", \"dtype\": \"%s\", \"dims\": [", x->dtype);
    for (int32_t d = 0; d < x->rank; d++) {
        text_add(t, d ? ", " : "");
        if (x->dims[d] >= 0)
            text_printf(t, "%lld", (long long)x->dims[d]);
        else
            text_json(t, x->dim_text[d]);
    }
    text_add(t, "]}");
}

/* A new text of the current call; that of the last one is freed. */
static Text *
begin_text(void)
{
    if (web.message)
        arena_free(web.message);
    web.message = arena_new(NULL, &web.oom);
    web.said = (Text){ .arena = web.message };
    return &web.said;
}

const char *
EXPORT(tn_describe)(void)
{
    const TnManifest *m = tenon_manifest();
    Text *t = begin_text();
    Ports p = manifest_ports(t->arena, m);
    int32_t nstate;

    manifest_states(m, &nstate);
    text_add(t, "{\"name\": ");
    text_json(t, m->name);
    text_printf(t, ", \"summary\": ");
    text_json(t, m->summary);
    text_printf(t, ", \"states\": %d, \"weightsBytes\": %llu, \"weightsHash\": \"%016llx\"", nstate,
                (unsigned long long)m->weights_bytes, (unsigned long long)m->weights_hash);
    text_add(t, ", \"inputs\": [");
    for (int32_t i = 0; i < p.nin; i++)
        add_tensor(t, i ? ", " : "", &m->inputs[p.in[i]]);
    text_add(t, "], \"outputs\": [");
    for (int32_t i = 0; i < p.nout; i++)
        add_tensor(t, i ? ", " : "", &m->outputs[p.out[i]]);
    text_add(t, "]}");
    return text_str(t);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Input i is `bytes` bytes of this type and rank, written to where the result points; 0: there is no
 * memory. Its dimensions go to tn_dims(i). */
void *
EXPORT(tn_input)(int i, const char *dtype, int rank, size_t bytes)
{
    web.in[i] = (RunInput){ .dtype = dtype_from_name(dtype, strlen(dtype)),
                            .rank = (uint32_t)rank,
                            .dims = web.dims[i] };
    if (!reservation_grow(&web.room[i], 0, (int64_t)bytes))
        return NULL;
    web.in[i].data = web.room[i].at;
    return web.room[i].at;
}

int64_t *
EXPORT(tn_dims)(int i)
{
    return web.dims[i];
}

static bool
output_memory(Diags *d)
{
    for (int32_t i = 0; i < web.ports.nout; i++) {
        RunOutput *o = &web.out[i];
        if (o->made)
            continue;
        if (!reservation_grow(&web.made[i], 0, o->bytes))
            return diag_error(
                d, DIAG_LIMIT, (Loc){ 0 },
                "cannot get %lld bytes of memory for output \"%s\"; run smaller inputs",
                (long long)o->bytes, tenon_manifest()->outputs[web.ports.out[i]].name);
        o->data = web.made[i].at;
    }
    return true;
}

/* The messages of a call that failed; its class is tn_class(). */
static const char *
finish(const Diags *d)
{
    Text *t = &web.said;

    web.worst = d->worst;
    for (uint32_t i = 0; i < d->list.n; i++) {
        text_add(t, i ? "\n" : "");
        text_add(t, d->list.at[i].text);
    }
    return text_str(t);
}

int
EXPORT(tn_class)(void)
{
    return (int)web.worst;
}

/* Empty, or what went wrong. */
const char *
EXPORT(tn_run)(void)
{
    Text *t = begin_text();
    Diags d = { .arena = t->arena };

    memset(web.out, 0, (size_t)web.ports.nout * sizeof *web.out);
    if (session_prepare(web.session, &d, web.in, (uint32_t)web.ports.nin, web.out) &&
        output_memory(&d))
        session_run(web.session, &d, web.in, web.out);
    return finish(&d);
}

/* Of an output of the last run. */
void *
EXPORT(tn_output)(int i)
{
    return web.out[i].data;
}

size_t
EXPORT(tn_output_bytes)(int i)
{
    return (size_t)web.out[i].bytes;
}

const int64_t *
EXPORT(tn_output_dims)(int i)
{
    return web.out[i].dims;
}

/* ---- states ---------------------------------------------------------------------------------- */

void
EXPORT(tn_reset)(void)
{
    states_reset(session_states(web.session));
}

/* Rows of the states that grow. */
double
EXPORT(tn_length)(void)
{
    return (double)states_length(session_states(web.session));
}

const char *
EXPORT(tn_drop)(double rows)
{
    Text *t = begin_text();
    Diags d = { .arena = t->arena };

    states_drop(session_states(web.session), &d, (int64_t)rows);
    return finish(&d);
}

void *
EXPORT(tn_alloc)(size_t bytes)
{
    return malloc(bytes);
}

void
EXPORT(tn_free)(void *at)
{
    free(at);
}
