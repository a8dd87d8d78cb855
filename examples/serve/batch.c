#include "batch.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Request *r;     /* NULL: the place is empty */
    int64_t length; /* tokens of it that have rows */
} Place;

struct Batch {
    BatchOptions o;
    Place *place;
    int64_t n;             /* places in the session's states now */
    int64_t clock, rows;   /* rows in them, and at most */
    uint8_t *shown;        /* [places][rows] */
    Request *first, *last; /* the queue */
    int64_t queued;
    BatchCount count;
    int64_t *ids, *at, *mask; /* what a run is given */
    int64_t *of, *from;       /* an arrangement */
};

int64_t
batch_rows(const BatchOptions *o)
{
    /* so that what is hidden gathers for a while */
    return o->context + o->context / 2 + 2 * o->chunk;
}

/* An arrangement that moves a row towards the end takes a second block for the states, once: now. */
static bool
reserve_arrangements(Batch *b)
{
    int64_t n = b->o.places, rows = b->rows - b->o.chunk;

    for (int64_t i = 0; i < n; i++)
        b->of[i] = i + 1 < n ? -1 : 0;
    for (int64_t i = 0; i < n * rows; i++)
        b->from[i] = i + 1 < n * rows ? -1 : 0;
    return decoder_arrange(b->o.decoder, n, b->of, rows, b->from);
}

Batch *
batch_new(const BatchOptions *o)
{
    Batch *b = calloc(1, sizeof *b);
    const float *scores;
    int64_t zero = 0, one = 1;
    size_t places = (size_t)o->places, rows = (size_t)batch_rows(o), chunk = (size_t)o->chunk;

    if (!b)
        return NULL;
    *b = (Batch){ .o = *o, .rows = (int64_t)rows };
    b->place = calloc(places, sizeof *b->place);
    b->shown = calloc(places, rows);
    b->ids = calloc(places * chunk, sizeof *b->ids);
    b->at = calloc(places * chunk, sizeof *b->at);
    b->mask = calloc(places * rows, sizeof *b->mask);
    b->of = calloc(places, sizeof *b->of);
    b->from = calloc(places * rows, sizeof *b->from);
    if (b->place && b->shown && b->ids && b->at && b->mask && b->of && b->from &&
        decoder_reserve(o->decoder, o->places, b->rows - o->chunk, o->chunk) &&
        decoder_run(o->decoder, &(DecoderStep){ 1, 1, &zero, &zero, &one }, &scores) &&
        reserve_arrangements(b)) {
        decoder_forget(o->decoder);
        return b;
    }
    batch_free(b);
    return NULL;
}

void
batch_free(Batch *b)
{
    free(b->place), free(b->shown), free(b->ids), free(b->at), free(b->mask), free(b->of),
        free(b->from), free(b);
}

/* ---- who is in it ---------------------------------------------------------------------------- */

void
batch_add(Batch *b, Request *r)
{
    *(b->last ? &b->last->next : &b->first) = r;
    b->last = r;
    b->queued++;
}

static void
unqueue(Batch *b, Request *r)
{
    Request *before = NULL;

    for (Request *q = b->first; q; before = q, q = q->next) {
        if (q != r)
            continue;
        *(before ? &before->next : &b->first) = r->next;
        b->last = b->last == r ? before : b->last;
        r->next = NULL;
        b->queued--;
        return;
    }
}

static void
leave(Batch *b, Place *p)
{
    memset(b->shown + (p - b->place) * b->rows, 0, (size_t)b->rows);
    *p = (Place){ 0 };
}

void
batch_remove(Batch *b, Request *r)
{
    unqueue(b, r);
    for (int64_t i = 0; i < b->n; i++)
        if (b->place[i].r == r)
            leave(b, &b->place[i]);
}

int64_t
batch_running(const Batch *b)
{
    int64_t n = 0;

    for (int64_t i = 0; i < b->n; i++)
        n += b->place[i].r != NULL;
    return n;
}

int64_t
batch_free_places(const Batch *b)
{
    return b->o.places - batch_running(b);
}

int64_t
batch_queued(const Batch *b)
{
    return b->queued;
}

const BatchCount *
batch_count(const Batch *b)
{
    return &b->count;
}

bool
batch_busy(const Batch *b)
{
    return b->queued || batch_running(b);
}

static void
finish(Batch *b, Request *r, Fate fate)
{
    batch_remove(b, r);
    r->fate = fate;
    b->o.told(r);
}

static void
end_late(Batch *b, double now)
{
    for (Request *r = b->first, *next; r; r = next) {
        next = r->next;
        if (now > r->deadline)
            finish(b, r, TIMEOUT);
    }
    for (int64_t i = 0; i < b->n; i++)
        if (b->place[i].r && now > b->place[i].r->deadline)
            finish(b, b->place[i].r, TIMEOUT);
}

/* A run that fails ends all who were in it, each with the reason; the session begins anew. */
static void
fail_all(Batch *b)
{
    for (int64_t i = b->n; i-- > 0;)
        if (b->place[i].r)
            finish(b, b->place[i].r, FAILED);
    decoder_forget(b->o.decoder);
    b->n = b->clock = 0;
}

/* ---- places and rows ------------------------------------------------------------------------- */

static int64_t
longest(const Batch *b)
{
    int64_t most = 0;

    for (int64_t i = 0; i < b->n; i++)
        most = b->place[i].r && b->place[i].length > most ? b->place[i].length : most;
    return most;
}

/* Columns of the next run. */
static int64_t
columns(const Batch *b)
{
    int64_t most = 1;

    for (int64_t i = 0; i < b->n; i++) {
        const Request *r = b->place[i].r;
        int64_t left = r ? r->nprompt - r->fed : 0;
        most = left > most ? left : most;
    }
    return most < b->o.chunk ? most : b->o.chunk;
}

/* What is shown to them, in front; `n` places, those that are taken first. */
static bool
arrange(Batch *b, int64_t n)
{
    int64_t length = longest(b), to = 0;

    for (int64_t i = 0; i < n; i++)
        b->of[i] = -1;
    for (int64_t i = 0; i < n * length; i++)
        b->from[i] = -1;
    for (int64_t i = 0; i < b->n; i++) {
        if (!b->place[i].r)
            continue;
        for (int64_t row = 0, k = 0; row < b->clock; row++)
            if (b->shown[i * b->rows + row])
                b->from[to * length + k++] = row;
        b->of[to++] = i;
    }
    if (!decoder_arrange(b->o.decoder, n, b->of, length, b->from))
        return false;
    for (int64_t i = 0; i < b->o.places; i++) {
        /* from further behind, if from elsewhere */
        b->place[i] = i >= n || b->of[i] < 0 ? (Place){ 0 } : b->place[b->of[i]];
        memset(b->shown + i * b->rows, 0, (size_t)b->rows);
        memset(b->shown + i * b->rows, 1, (size_t)b->place[i].length);
    }
    b->n = n;
    b->clock = length;
    return true;
}

static bool
make_room(Batch *b)
{
    int64_t running = batch_running(b), wanted = running + b->queued;

    wanted = wanted > b->o.places ? b->o.places : wanted;
    if (!running) { /* nobody's rows: begin anew */
        decoder_forget(b->o.decoder);
        b->clock = 0;
        b->n = wanted;
        return true;
    }
    bool grow = wanted > b->n, shrink = 2 * wanted <= b->n, full = b->clock + b->o.chunk > b->rows;
    bool hidden = b->clock > 2 * longest(b) + 4 * b->o.chunk;
    return !(grow || shrink || full || hidden) || arrange(b, grow || shrink ? wanted : b->n);
}

static void
admit(Batch *b)
{
    for (int64_t i = 0; i < b->n && b->first; i++) {
        if (b->place[i].r)
            continue;
        Request *r = b->first;
        unqueue(b, r);
        b->place[i] = (Place){ r, 0 };
    }
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* Vocabulary of this place in a run of so many columns: of its prompt, or the one made last. An empty
 * place has one that only itself sees, as has every column behind: so no sum is over nothing. */
static int64_t
tokens_of(const Place *p, int64_t n)
{
    int64_t left = p->r ? p->r->nprompt - p->r->fed : 0;

    return left > n ? n : left > 0 ? left : 1;
}

static void
fill(Batch *b, int64_t n)
{
    for (int64_t i = 0; i < b->n; i++) {
        const Place *p = &b->place[i];
        int64_t own = tokens_of(p, n), *mask = b->mask + i * (b->clock + n);
        for (int64_t k = 0; k < n; k++) {
            b->ids[i * n + k] = !p->r || k >= own           ? 0
                                : p->r->fed < p->r->nprompt ? p->r->prompt[p->r->fed + k]
                                                            : p->r->token;
            b->at[i * n + k] = p->length + (k < own ? k : own - 1);
        }
        for (int64_t row = 0; row < b->clock; row++)
            mask[row] = b->shown[i * b->rows + row];
        for (int64_t k = 0; k < n; k++)
            mask[b->clock + k] = k < own;
    }
}

/* The token that these scores say is next. */
static void
next_token(Batch *b, Request *r, const float *scores)
{
    size_t bytes;

    r->token = sample(&r->how, scores, b->o.decoder->words);
    r->made++;
    b->count.made++;
    if (r->token == b->o.end || vocabulary_ends(b->o.tokens, r->token)) {
        finish(b, r, answer_end(&r->answer) ? STOPPED : FAILED);
        return;
    }
    const char *text = vocabulary_text(b->o.tokens, r->token, &bytes);
    bool whole =
             answer_add(&r->answer, text, bytes) &&
             (r->top < 0 || scored_add(&r->scored, r->token, r->top, scores, b->o.decoder->words)),
         ends = r->answer.stopped || r->made == r->most;
    whole = whole && (!ends || answer_end(&r->answer));
    if (!whole || ends)
        finish(b, r, !whole ? FAILED : r->answer.stopped ? STOPPED : LENGTH);
    else
        b->o.told(r);
}

static void
take(Batch *b, int64_t i, int64_t n, const float *scores)
{
    Place *p = &b->place[i];
    Request *r = p->r;
    int64_t own = tokens_of(p, n);

    memset(b->shown + i * b->rows + b->clock, 1, (size_t)own);
    p->length += own;
    b->count.fed += r->fed < r->nprompt ? own : 0;
    r->fed += r->fed < r->nprompt ? own : 0;
    if (r->fed == r->nprompt)
        next_token(b, r, scores + (i * n + own - 1) * b->o.decoder->words);
}

void
batch_step(Batch *b, double now)
{
    const float *scores;

    end_late(b, now);
    if (!batch_busy(b))
        return;
    if (!make_room(b)) {
        fail_all(b);
        return;
    }
    admit(b);
    int64_t n = columns(b);
    fill(b, n);
    if (!decoder_run(b->o.decoder, &(DecoderStep){ b->n, n, b->ids, b->at, b->mask }, &scores)) {
        fail_all(b);
        return;
    }
    b->count.steps++;
    b->count.columns += b->n * n;
    for (int64_t i = 0; i < b->n; i++)
        if (b->place[i].r)
            take(b, i, n, scores);
    b->clock += n;
}
