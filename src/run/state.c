/* state: what a session keeps between runs.
 *
 * A state that grows in place has one block of memory, with room behind its contents: a run gets
 * the block as input and as output and writes behind the end. Any other state has two, one that a
 * run reads and one that it writes.
 *
 * Symbols of a state that do not grow get their values from the caller's inputs.
 */
#include <stdlib.h>
#include <string.h>

#include "run/internal.h"

enum { LEAST_ROWS = 64 };

typedef struct {
    const TnStateInfo *info;
    const TnTensorInfo *in;
    DType dtype;
    uint32_t rank;
    bool kept; /* a run left it, with these dims */
    int64_t dims[TN_MAX_RANK];
    int64_t given[TN_MAX_RANK]; /* the dims of the next run's input */
    Reservation room[2];
    int turn; /* which of the two is current */
} Kept;

struct States {
    const TnManifest *manifest;
    Loc loc; /* of the model, for messages */
    Kept *at;
    int32_t n;
    int64_t most;      /* rows; 0: no bound */
    int64_t pretended; /* -1: not pretending */
    bool *is_state;    /* [ninput] */
};

/* ---- the manifest's -------------------------------------------------------------------------- */

const TnStateInfo *
manifest_states(const TnManifest *m, int32_t *n)
{
    *n = TN_HAS(m, state_rows) ? m->nstate : 0;
    return *n ? m->states : NULL;
}

Ports
manifest_ports(Arena *a, const TnManifest *m)
{
    int32_t nstate, *in = NEW_ARRAY(a, int32_t, m->ninput),
                    *out = NEW_ARRAY(a, int32_t, m->noutput);
    const TnStateInfo *state = manifest_states(m, &nstate);
    bool *kept = NEW_ARRAY(a, bool, m->ninput + m->noutput);
    Ports p = { .in = in, .out = out };

    for (int32_t i = 0; i < nstate; i++)
        kept[state[i].input] = kept[m->ninput + state[i].output] = true;
    for (int32_t i = 0; i < m->ninput; i++)
        if (!kept[i])
            in[p.nin++] = i;
    for (int32_t i = 0; i < m->noutput; i++)
        if (!kept[m->ninput + i])
            out[p.nout++] = i;
    return p;
}

const char *
manifest_input_format(const TnManifest *m, int32_t i)
{
    return TN_HAS(m, input_formats) && m->input_formats ? m->input_formats[i] : NULL;
}

const char *
manifest_output_format(const TnManifest *m, int32_t i)
{
    return TN_HAS(m, output_formats) && m->output_formats ? m->output_formats[i] : NULL;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void
states_end(void *what)
{
    States *s = what;
    for (int32_t i = 0; i < s->n; i++)
        for (int k = 0; k < 2; k++)
            reservation_free(&s->at[i].room[k]);
}

States *
states_new(Arena *a, const TnManifest *m, Loc loc)
{
    States *s = NEW(a, States);
    const TnStateInfo *info = manifest_states(m, &s->n);

    s->manifest = m;
    s->loc = loc;
    s->pretended = -1;
    s->most = s->n ? m->state_rows : 0;
    s->at = NEW_ARRAY(a, Kept, s->n);
    s->is_state = NEW_ARRAY(a, bool, m->ninput);
    for (int32_t i = 0; i < s->n; i++) {
        const TnTensorInfo *in = &m->inputs[info[i].input];
        s->at[i] = (Kept){ .info = &info[i],
                           .in = in,
                           .dtype = dtype_from_name(in->dtype, strlen(in->dtype)),
                           .rank = (uint32_t)in->rank };
        s->is_state[info[i].input] = true;
    }
    arena_closer(a, states_end, s);
    return s;
}

void
states_limit(States *s, int64_t rows)
{
    s->most = rows ? rows : s->n ? s->manifest->state_rows : 0;
}

/* ---- before a run ---------------------------------------------------------------------------- */

/* The value of this symbol in the caller's inputs; -1: in none. */
static int64_t
told_size(const States *s, const RunInput *in, const char *name)
{
    const TnManifest *m = s->manifest;

    for (int32_t i = 0; i < m->ninput; i++)
        for (int32_t d = 0; !s->is_state[i] && d < m->inputs[i].rank; d++)
            if (m->inputs[i].dims[d] < 0 && !strcmp(m->inputs[i].dim_text[d], name))
                return in[i].dims[d];
    return -1;
}

static bool
find_dims(States *s, Diags *d, Kept *k, const RunInput *in)
{
    for (uint32_t e = 0; e < k->rank; e++) {
        bool grows = (int32_t)e == k->info->dim;
        int64_t size = grows                 ? (k->kept ? k->dims[e] : 0)
                       : k->in->dims[e] >= 0 ? k->in->dims[e]
                                             : told_size(s, in, k->in->dim_text[e]);
        if (grows && s->pretended >= 0)
            size = s->pretended;
        if (size < 0 && k->kept)
            size = k->dims[e];
        if (size < 0)
            return diag_error(d, DIAG_USAGE, s->loc,
                              "state \"%s\": its dimension %u is %s, which no input tells; fix it "
                              "when compiling (--dim %s=…)",
                              k->in->name, e, k->in->dim_text[e], k->in->dim_text[e]);
        if (k->kept && !grows && size != k->dims[e])
            return diag_error(d, DIAG_USAGE, s->loc,
                              "state \"%s\": its dimension %u (%s) is %lld since the runs before, "
                              "and the inputs make it %lld; "
                              "run what it was begun with, or reset the state",
                              k->in->name, e, k->in->dim_text[e], (long long)k->dims[e],
                              (long long)size);
        k->given[e] = size;
    }
    return true;
}

bool
states_inputs(States *s, Diags *d, RunInput *in)
{
    for (int32_t i = 0; i < s->n; i++) {
        Kept *k = &s->at[i];
        int64_t bytes;
        if (!find_dims(s, d, k, in))
            return false;
        if (!tensor_bytes(k->dtype, k->rank, k->given, &bytes))
            return diag_error(d, DIAG_LIMIT, s->loc, "state \"%s\" would be %s, which cannot be",
                              k->in->name, dims_text(d->arena, k->dtype, k->rank, k->given));
        in[k->info->input] = (RunInput){ NULL, k->dtype, k->rank, k->given };
    }
    return true;
}

static int64_t
rows_of(const Kept *k, const int64_t *dims)
{
    return k->info->dim < 0 ? 0 : dims[k->info->dim];
}

static bool
no_memory(Diags *d, Loc loc, const Kept *k, int64_t bytes)
{
    return diag_error(d, DIAG_LIMIT, loc, "cannot get %lld bytes of memory for state \"%s\"",
                      (long long)bytes, k->in->name);
}

/* The bytes to request of r for `rows` rows of `bytes`: what it has, if that is enough, otherwise
 * twice as many rows, within the bound; a state that is replaced gets a quarter more once it has
 * grown. */
static int64_t
bytes_to_take(const States *s, const Kept *k, const Reservation *r, int64_t rows, int64_t bytes)
{
    int64_t row = rows ? bytes / rows : 0, wanted, most;

    if (r->at && r->bytes >= bytes)
        return r->bytes;
    if (!k->info->in_place || !row)
        return r->at && bytes < INT64_MAX / 2 ? bytes + bytes / 4 : bytes;
    most = 2 * (r->bytes / row);
    most = most < rows ? rows : most;
    most = most < LEAST_ROWS ? LEAST_ROWS : most;
    most = s->most && most > s->most ? s->most : most;
    return __builtin_mul_overflow(most, row, &wanted) ? bytes : wanted;
}

static bool
place(States *s, Diags *d, Kept *k, RunInput *in, RunOutput *out)
{
    Reservation *from = &k->room[k->turn], *to = k->info->in_place ? from : &k->room[!k->turn];
    int64_t rows = rows_of(k, out->dims), held = 0, begin = 0;

    if (s->most && rows > s->most)
        return diag_error(d, DIAG_LIMIT, s->loc,
                          "state \"%s\" holds %lld rows, and this run makes them %lld; its "
                          "capacity is %lld. Drop some, reset the state, "
                          "or give it more (--state-capacity, or the session's state_capacity)",
                          k->in->name, (long long)rows_of(k, in->dims), (long long)rows,
                          (long long)s->most);
    tensor_bytes(k->dtype, k->rank, k->kept ? k->dims : k->given, k->kept ? &held : &begin);
    if (!reservation_grow(from, held, begin))
        return no_memory(d, s->loc, k, begin);
    if (!out->made) {
        int64_t stay = to == from ? held : 0, wanted = bytes_to_take(s, k, to, rows, out->bytes);
        if (!reservation_grow(to, stay, wanted) && !reservation_grow(to, stay, out->bytes))
            return no_memory(d, s->loc, k, out->bytes);
    }
    if (begin && s->pretended < 0)
        /* a replaced state begins with zeros */
        memset(from->at, 0, (size_t)begin);
    in->data = from->at;
    out->data = out->made ? NULL : to->at;
    return true;
}

bool
states_outputs(States *s, Diags *d, RunInput *in, RunOutput *out)
{
    for (int32_t i = 0; i < s->n; i++)
        if (!place(s, d, &s->at[i], &in[s->at[i].info->input], &out[s->at[i].info->output]))
            return false;
    return true;
}

/* ---- after it -------------------------------------------------------------------------------- */

/* A run whose outputs' sizes are not known before hands over memory of its own, valid until the
 * next one. */
bool
states_taken(States *s, Diags *d, const RunOutput *out)
{
    for (int32_t i = 0; i < s->n; i++) {
        Kept *k = &s->at[i];
        const RunOutput *o = &out[k->info->output];
        Reservation *to = &k->room[!k->turn];
        if (o->made && !reservation_grow(to, 0, o->bytes))
            return no_memory(d, s->loc, k, o->bytes);
        if (o->made && o->bytes)
            memcpy(to->at, o->data, (size_t)o->bytes);
    }
    for (int32_t i = 0; i < s->n; i++) {
        Kept *k = &s->at[i];
        if (k->rank)
            memcpy(k->dims, out[k->info->output].dims, k->rank * sizeof *k->dims);
        k->kept = true;
        k->turn = k->info->in_place ? k->turn : !k->turn;
    }
    return true;
}

/* ---- between runs ---------------------------------------------------------------------------- */

void
states_pretend(States *s, int64_t rows)
{
    s->pretended = rows;
}

int64_t
states_length(const States *s)
{
    for (int32_t i = 0; i < s->n; i++)
        if (s->at[i].info->dim >= 0)
            return s->at[i].kept ? s->at[i].dims[s->at[i].info->dim] : 0;
    return 0;
}

int64_t
states_bytes(const States *s)
{
    int64_t all = 0, bytes;

    for (int32_t i = 0; i < s->n; i++)
        if (s->at[i].kept && tensor_bytes(s->at[i].dtype, s->at[i].rank, s->at[i].dims, &bytes))
            all += bytes;
    return all;
}

/* Blocks of what follows the dimension, one for each point of what precedes it, moved together. */
static void
shorten(Kept *k, int64_t rows)
{
    int64_t outer = 1, inner = dtype_info[k->dtype].bytes;
    int32_t dim = k->info->dim;
    Reservation *r = &k->room[k->turn];
    char *at = r->at;

    for (int32_t e = 0; e < dim; e++)
        outer *= k->dims[e];
    for (uint32_t e = (uint32_t)dim + 1; e < k->rank; e++)
        inner *= k->dims[e];
    reservation_grow(r, outer == 1 ? rows * inner : 0, 0);
    for (int64_t o = 1; o < outer && inner; o++)
        memmove(at + o * rows * inner, at + o * k->dims[dim] * inner, (size_t)(rows * inner));
    k->dims[dim] = rows;
}

bool
states_drop(States *s, Diags *d, int64_t n)
{
    if (!s->n)
        return diag_error(d, DIAG_USAGE, s->loc,
                          "nothing can be dropped: the model keeps no state between runs");
    if (n < 0)
        return diag_error(d, DIAG_USAGE, s->loc, "%lld rows of the state are to go; give 0 or more",
                          (long long)n);
    for (int32_t i = 0; i < s->n; i++) {
        const Kept *k = &s->at[i];
        if (k->info->dim < 0)
            return diag_error(d, DIAG_USAGE, s->loc,
                              "state \"%s\" is replaced as a whole by each run: rows of it cannot "
                              "be dropped; reset it",
                              k->in->name);
        int64_t rows = k->kept ? k->dims[k->info->dim] : 0;
        if (n > rows)
            return diag_error(d, DIAG_USAGE, s->loc, "state \"%s\" holds %lld rows, %lld are to go",
                              k->in->name, (long long)rows, (long long)n);
    }
    for (int32_t i = 0; i < s->n; i++)
        if (s->at[i].kept)
            shorten(&s->at[i], s->at[i].dims[s->at[i].info->dim] - n);
    return true;
}

/* ---- arranged anew --------------------------------------------------------------------------- */

/* The dimension of this name; -1 with a message. */
static int32_t
dim_named(Diags *d, Loc loc, const Kept *k, const char *name)
{
    for (uint32_t e = 0; e < k->rank; e++)
        if ((int32_t)e != k->info->dim && !strcmp(k->in->dim_text[e], name))
            return (int32_t)e;
    Text t = { .arena = d->arena };
    for (uint32_t e = 0; e < k->rank; e++)
        text_printf(&t, "%s%s", e ? ", " : "", k->in->dim_text[e]);
    diag_error(d, DIAG_USAGE, loc,
               "state \"%s\" has no dimension %s that could count sequences; its dimensions are %s",
               k->in->name, name, text_str(&t));
    return -1;
}

/* Has this state all that the arrangement wants? */
static bool
can_arrange(Diags *d, Loc loc, const Kept *k, const Arrangement *a, int32_t sequence)
{
    int64_t there = k->dims[sequence], rows = rows_of(k, k->dims), all;

    if (__builtin_mul_overflow(a->sequences, a->length, &all))
        return diag_error(d, DIAG_LIMIT, loc, "%lld sequences of %lld rows cannot be",
                          (long long)a->sequences, (long long)a->length);
    for (int64_t b = 0; b < a->sequences; b++)
        if (a->of[b] < -1 || a->of[b] >= there)
            return diag_error(
                d, DIAG_USAGE, loc,
                "sequence %lld is to be sequence %lld of state \"%s\", which has %lld",
                (long long)b, (long long)a->of[b], k->in->name, (long long)there);
    if (k->info->dim >= 0 && !a->from && a->length > rows)
        return diag_error(d, DIAG_USAGE, loc,
                          "the first %lld rows of state \"%s\" are to stay, it has %lld",
                          (long long)a->length, k->in->name, (long long)rows);
    for (int64_t i = 0; k->info->dim >= 0 && a->from && i < all; i++)
        if (a->from[i] < -1 || a->from[i] >= rows)
            return diag_error(
                d, DIAG_USAGE, loc,
                "row %lld of sequence %lld is to be row %lld of state \"%s\", which has %lld",
                (long long)(i % a->length), (long long)(i / a->length), (long long)a->from[i],
                k->in->name, (long long)rows);
    return true;
}

/* What moves, in place if possible; otherwise memory for it. */
static bool
plan_arrangement(Diags *d, Loc loc, Kept *k, const Arrangement *a, Arranged *x, bool *here)
{
    int32_t sequence = dim_named(d, loc, k, a->dim);
    int64_t bytes, dims[TN_MAX_RANK];

    if (sequence < 0 || !can_arrange(d, loc, k, a, sequence))
        return false;
    *x = (Arranged){ k->dims, dtype_info[k->dtype].bytes, k->rank, sequence, k->info->dim };
    memcpy(dims, k->dims, sizeof dims);
    dims[sequence] = a->sequences;
    if (k->info->dim >= 0)
        dims[k->info->dim] = a->length;
    if (!tensor_bytes(k->dtype, k->rank, dims, &bytes))
        return diag_error(d, DIAG_LIMIT, loc, "state \"%s\" would be %s, which cannot be",
                          k->in->name, dims_text(d->arena, k->dtype, k->rank, dims));
    const Reservation *now = &k->room[k->turn];
    *here = bytes <= now->bytes && arrange_in_place(x, a);
    bytes = bytes > now->bytes ? bytes : now->bytes; /* reserved memory stays reserved */
    return *here || reservation_grow(&k->room[!k->turn], 0, bytes) || no_memory(d, loc, k, bytes);
}

/* All memory is allocated before anything moves: then nothing can fail. */
bool
states_arrange(States *s, Diags *d, const Arrangement *a)
{
    Arranged *x = NEW_ARRAY(d->arena, Arranged, s->n);
    bool *here = NEW_ARRAY(d->arena, bool, s->n);

    if (!s->n)
        return diag_error(d, DIAG_USAGE, s->loc,
                          "nothing can be arranged: the model keeps no state between runs");
    for (int32_t i = 0; i < s->n; i++) {
        Kept *k = &s->at[i];
        if (!k->kept)
            return diag_error(
                d, DIAG_USAGE, s->loc,
                "state \"%s\" holds nothing yet that could be arranged: run the model first",
                k->in->name);
        if (s->most && k->info->dim >= 0 && a->length > s->most)
            return diag_error(d, DIAG_LIMIT, s->loc,
                              "state \"%s\" would have %lld rows; its capacity is %lld",
                              k->in->name, (long long)a->length, (long long)s->most);
        if (!plan_arrangement(d, s->loc, k, a, &x[i], &here[i]))
            return false;
    }
    for (int32_t i = 0; i < s->n; i++) {
        Kept *k = &s->at[i];
        const char *from = k->room[k->turn].at;
        k->turn = here[i] ? k->turn : !k->turn;
        reservation_grow(&k->room[k->turn], 0, 0);
        arrange(&x[i], a, from, k->room[k->turn].at);
        k->dims[x[i].sequence] = a->sequences;
        if (x[i].row >= 0)
            k->dims[x[i].row] = a->length;
    }
    return true;
}

/* ---- forks ----------------------------------------------------------------------------------- */

/* In a new room, so that s keeps its contents if another state fails; with as much room behind as
 * either had. */
static bool
fork_one(Diags *d, Loc loc, const Kept *k, Kept *from, Pages *pages, Reservation *room)
{
    Reservation *r = &from->room[from->turn];
    int64_t bytes = 0, now = k->room[k->turn].bytes;

    if (!from->kept)
        return true;
    tensor_bytes(from->dtype, from->rank, from->dims, &bytes);
    return reservation_share(room, r, bytes, r->bytes > now ? r->bytes : now, pages) ||
           no_memory(d, loc, k, bytes);
}

bool
states_fork(States *s, Diags *d, States *from)
{
    Reservation *room = NEW_ARRAY(d->arena, Reservation, s->n);
    bool ok = true;

    if (!s->n)
        return diag_error(d, DIAG_USAGE, s->loc,
                          "nothing can be forked: the model keeps no state between runs");
    if (s->most && states_length(from) > s->most)
        return diag_error(d, DIAG_LIMIT, s->loc,
                          "the states to go on from hold %lld rows; the capacity here is %lld",
                          (long long)states_length(from), (long long)s->most);
    Pages *pages = pages_new();
    for (int32_t i = 0; i < s->n && ok; i++)
        ok = fork_one(d, s->loc, &s->at[i], &from->at[i], pages, &room[i]);
    pages_leave(pages);
    for (int32_t i = 0; i < s->n; i++) {
        Kept *k = &s->at[i];
        if (ok) {
            Reservation old = k->room[k->turn];
            k->room[k->turn] = room[i];
            room[i] = old;
            k->kept = from->at[i].kept;
            memcpy(k->dims, from->at[i].dims, sizeof k->dims);
        }
        reservation_free(&room[i]);
    }
    return ok;
}

void
states_reset(States *s)
{
    for (int32_t i = 0; i < s->n; i++)
        s->at[i].kept = false;
}
