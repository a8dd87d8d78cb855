/* traffic: the bytes that every phase transfers from and to each level of memory.
 *
 * For each buffer and each loop: the lines that one iteration touches, and all iterations together,
 * from the strides of the accesses below (as in the footprint models of Bondhugula and of Halide).
 * A cache keeps the footprint of a loop's body if it fits: the loop as a whole then transfers each
 * line once. If the body does not fit, its statements are examined one by one, except that lines of
 * one may still be there for the next, or for the next iteration: if everything touched in between
 * fits.
 */
#include "cost/internal.h"

#include <math.h>
#include <string.h>

/* Lines of one set, at least: the associativity of usual L1 and L2 caches (Intel, AMD, Arm: 8; some
 * 4 or 16). The number of sets is a power of two, since bits of the address select one: an L1 of 48
 * KB has 64 sets of 12 lines (Zen 5, Ice Lake and later). */
enum { WAYS = 8 };
/* Hardware prefetches within a page. For memory, strides of up to half a page are followed (Intel
 * 64 and IA-32 Optimization Reference Manual, 2.6: its stride prefetcher detects strides of up to 2
 * KB; AMD Zen 3 Optimization Guide, 2.15). Bursts of 256 bytes, 3 KB apart, come from memory at 0.6
 * of its rate (Cascade Lake). Written lines are prefetched if they are consecutive: 7.2 GB/s there,
 * 5.3 with lines two to four apart, 4 beyond. */
/* concurrent streams that hardware follows: 1, 4, 16, 32 and 64 of them come from memory at 4.7,
 * 6.3, 6.5, 5.2 and 2.9 GB/s (Cascade Lake) */
enum { PAGE = 4096, STEP = PAGE / 2, STREAMS = 16 };
/* [bytes]; lo, hi: from the buffer's begin; run: contiguous bytes, such as a row's columns; pitch:
 * from one to the next, 0: there is one; along, step: of Reach; loop: the innermost around it; the
 * others: of Touched */
typedef struct {
    double lo, hi, bytes, run, pitch, runs, pieces, side, rows, along, step;
    const CostNode *loop;
    bool conflict;
} Footprint;
typedef struct {
    double stride, count;
} LoopStride;
/* runs: contiguous streams; side: streams accessed concurrently; pieces: lines after a gap within a
 * stream; rows: lines written before the one after the first; lost: bytes that are prefetched, and
 * evicted before they are read. */
typedef struct {
    double bytes, runs, pieces, side, rows, lost;
} Touched;

typedef struct {
    Unfold *u;
    /* [node]: [buffer] lines that an iteration, or an execution, touches; NULL: not computed yet */
    Touched **body, **whole;
    double *body_sum, *whole_sum; /* [node] of all buffers */
    uint32_t level;
    double capacity, sets, ways; /* [bytes]; usable sets, and lines of each */
    double share;                /* the share of executions with this capacity */
} Traffic;

/* ---- one access ------------------------------------------------------------------------------ */

static void
sort_dims(LoopStride *dim, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = i; j > 0 && dim[j].stride < dim[j - 1].stride; j--) {
            LoopStride d = dim[j];
            dim[j] = dim[j - 1];
            dim[j - 1] = d;
        }
}

/* The greatest number of lines that divides both distances, of which the first may be none yet; 0:
 * one is no multiple of lines. */
static double
common_lines(double step, double stride, double line)
{
    double x = stride / line;

    if (x != floor(x))
        return 0;
    while (step > 0) {
        double rest = fmod(x, step);
        x = step;
        step = rest;
    }
    return x;
}

/* The same with one more distance; 1: it is no multiple of lines. */
static double
step_between(double step, double distance, double line)
{
    return more(common_lines(step, fabs(distance), line), 1);
}

/* Do `count` addresses, a multiple of `step` lines apart and `each` lines long, share too few sets
 * of `ways` ways? An odd number of lines visits every set. */
static bool
sets_overflow(const Traffic *t, double step, double count, double each, double ways)
{
    double distinct = t->sets;

    if (step < 2)
        return false;
    while (fmod(step, 2) == 0 && distinct > 1) {
        step /= 2;
        distinct /= 2;
    }
    double places = distinct * (each > 1 ? each : 1);
    return count * each > (places > t->sets ? t->sets : places) * ways;
}

/* The footprint of one access, from the innermost loop on. */
typedef struct {
    const Traffic *t;
    const MemRef *a;
    /* [bytes]; rows: of Touched, INFINITY: none continues; piece: contiguous bytes (0: all); inner:
     * the stride of the inner loop, as far as it continues a stream; along: streams that the
     * innermost such loop continues; step: lines that divide the distances between them (1: they
     * are no multiples of lines, 0: there is one stream) */
    double lo, hi, stretch, piece, inner, runs, side, rows, along, step;
    LoopStride dim[80];
    uint32_t n;
} Reach;

/* Iterations that move it by s each, `before` of which precede the representative one; by `jump`
 * from one to the next. */
static void
go_along(Reach *r, double s, double jump, double trips, double before)
{
    double line = r->t->u->m->line_bytes;

    if (s == 0 || trips <= 1 || r->n == sizeof r->dim / sizeof *r->dim)
        return;
    jump = fabs(jump);
    double reach = r->a->write ? r->stretch + line
                               : fmax(r->stretch + r->inner, r->t->level == LEVEL_L3 ? STEP : PAGE);
    r->rows = r->a->write && isinf(r->rows) && jump <= r->stretch + line ? r->runs : r->rows;
    bool goes_on = r->runs <= STREAMS && jump <= reach;
    if (r->piece == 0 && jump > r->stretch + line && (goes_on || r->runs * trips > STREAMS))
        r->piece = r->stretch;
    if (goes_on) { /* continues with each of them */
        r->along = r->along > 0 ? r->along : r->runs;
        r->stretch += fabs(s) * (trips - 1);
        r->inner = jump;
    } else {
        r->step = r->along ? r->step : step_between(r->step, s, line);
        r->runs *= trips;
        /* a stream of a page or more is read alone before the next one */
        r->side *= r->stretch < PAGE ? trips : 1;
    }
    before = before < trips ? before : trips - 1;
    r->lo -= s > 0 ? s * before : -s * (trips - 1 - before);
    r->hi += s > 0 ? s * (trips - 1 - before) : -s * before;
    r->dim[r->n++] = (LoopStride){ fabs(s), trips };
}

/* A loop over several fused indices. */
static void
go_by_digits(Reach *r, const CostNode *node)
{
    const double *moves = r->a->digit[node->depth - 1], bytes = r->a->bytes;

    for (uint32_t i = 0; i < node->ndigit; i++) {
        double left = node->trips / (double)node->place[i],
               all = i + 1 < node->ndigit ? (double)(node->place[i + 1] / node->place[i]) : left;
        go_along(r, moves[i] * bytes, moves[i] * bytes, all < left ? all : left,
                 fmod(floor((double)node->at / (double)node->place[i]), fmax(all, 1)));
    }
}

/* Iterations of a loop that access the same addresses. */
static double
trips_in_place(const MemRef *a, const CostNode *loop, double trips)
{
    uint32_t d = loop->depth - 1;
    double same = 1;

    if (a->random[d] || a->place[d])
        return 1;
    if (!loop->ndigit || isnan(a->digit[d][0]))
        return a->stride[d] == 0 ? trips : 1;
    for (uint32_t i = 0; i < loop->ndigit; i++) {
        double end = i + 1 < loop->ndigit ? (double)loop->place[i + 1] : trips;
        same *= a->digit[d][i] == 0 ? fmax(end / (double)loop->place[i], 1) : 1;
    }
    return same;
}

/* The share of its addresses that an access under tests, such as of a mask's blocks, touches over
 * the loops from depth `from` on. Iterations that a test depends on and that access the same
 * addresses touch another part of them each, as if drawn at random. */
static double
share_touched(const MemRef *a, uint32_t from)
{
    uint64_t depends = 0;
    double share = 1;

    for (const CostNode *n = a->node; n && n->depth > from; n = n->parent) {
        if (n->kind == NODE_ARM && n->parent && n->exec < n->parent->exec) {
            share *= n->exec / n->parent->exec;
            depends |= n->parent->control;
        } else if (n->kind == NODE_LOOP && share < 1 && n->trips > 1 &&
                   depends & loop_bit(n->tree->u.loop.var)) {
            share = 1 - pow(1 - share, trips_in_place(a, n, n->trips));
        }
    }
    return share;
}

/* The innermost loop that n is or is in; NULL: none. */
static const CostNode *
loop_around(const CostNode *n)
{
    while (n && n->kind != NODE_LOOP)
        n = n->parent;
    return n;
}

/* Distinct addresses of an access under the unrolled loops from depth `from` on, if uneven; *shift
 * [elements]: that of the given number. */
static uint32_t
places_of(const MemRef *a, uint32_t from, uint32_t number, double *shift)
{
    uint32_t all = 1;

    *shift = 0;
    for (const CostNode *n = a->node; n && n->depth > from; n = n->parent)
        if (n->kind == NODE_LOOP && a->place[n->depth - 1]) {
            uint32_t trips = (uint32_t)n->trips;
            *shift += a->place[n->depth - 1][number / all % trips];
            all *= trips;
        }
    return all;
}

/* The footprint of one access over the loops from depth `from` on, at distance `shift`; without the
 * loops that places_of describes. */
static Footprint
hull_of(Traffic *t, const MemRef *a, uint32_t from, double shift)
{
    Unfold *u = t->u;
    double line = u->m->line_bytes, bytes = a->bytes, blocks = 1, random = 1;
    double lanes = a->lanes * a->valid < 1 ? 1 : a->lanes * a->valid;
    double at = (a->offset + shift) * bytes;
    Reach r = {
        .t = t, .a = a, .lo = at, .hi = at, .stretch = bytes, .runs = 1, .side = 1, .rows = INFINITY
    };

    if (a->lanes > 1 && lanes > 1)
        r.dim[r.n++] = (LoopStride){ fabs(a->lane_stride) * bytes, lanes };
    r.hi += a->lane_stride > 0 ? a->lane_stride * bytes * (lanes - 1) : 0;
    for (const CostNode *node = a->node; node && node->depth > from; node = node->parent) {
        double trips = node->trips < 1 ? 1 : node->trips;
        uint32_t d = node->depth - 1;
        if (node->kind != NODE_LOOP || trips <= 1 || a->place[d])
            continue;
        if (a->random[d]) {
            random *= trips;
            r.piece = r.piece > 0 ? r.piece : r.stretch;
            r.runs *= trips;
            r.side *= trips;
        } else if (node->ndigit && !isnan(a->digit[d][0])) {
            go_by_digits(&r, node);
        } else {
            double s = a->stride[d] * bytes;
            go_along(&r, s, t->level == LEVEL_L3 ? a->step[d] * bytes : s, trips, (double)node->at);
        }
    }
    LoopStride *dim = r.dim;
    uint32_t n = r.n;
    double lo = r.lo, hi = r.hi, runs = r.runs;
    sort_dims(dim, n);
    double run = bytes, pitch = 0, last_stride = 0, last_count = 1, span = bytes, step = 0;
    bool whole = true; /* all addresses are complete lines apart */
    for (uint32_t i = 0; i < n; i++) {
        double s = dim[i].stride, c = dim[i].count;
        if (blocks == 1 && s <= (run > line ? run : line)) {
            run += s * (c - 1);
            span = run;
            continue;
        }
        pitch = pitch > 0 ? pitch : s;
        step = common_lines(step, s, line);
        whole = whole && step > 0;
        if (last_stride > 0 && fmod(s, last_stride) == 0 && s <= last_stride * last_count) {
            double more = s / last_stride * (c - 1);
            blocks *= (last_count + more) / last_count;
            last_count += more;
        } else {
            double all = blocks * c, room = (span + s * (c - 1)) / (run > line ? run : line);
            blocks = all > room && s < span ? (room > blocks ? room : blocks) : all;
            last_stride = s;
            last_count = c;
        }
        span += s * (c - 1);
    }
    double lines =
        blocks * (whole && fmod(lo, line) == 0 ? ceil(run / line) : 1 + (run - bytes) / line);
    double all = u->buffer_bytes[a->buffer] / line + 1;
    if (random > 1)
        /* addresses drawn at random, some twice */
        lines = all * (1 - exp(-random * lines / all));
    lines *= share_touched(a, from);
    Footprint h = { .lo = lo,
                    .hi = hi + bytes,
                    .bytes = (lines < all ? lines : all) * line,
                    .run = run,
                    .pitch = pitch,
                    .runs = runs > lines ? lines : runs,
                    .side = r.side,
                    .rows = r.rows,
                    .along = r.along,
                    .step = r.step,
                    .loop = loop_around(a->node) };
    h.pieces = r.piece > 0 ? h.bytes / line / ceil(r.piece / line) : 0;
    h.conflict = blocks > 1 && whole && sets_overflow(t, step, blocks, ceil(run / line), t->ways);
    return h;
}

/* ---- all accesses of a buffer ---------------------------------------------------------------- */

/* The part of each row of h beyond the columns that `all` has, 0 to h->run [bytes]; *end: its
 * columns end there. */
static double
beyond_columns(const Footprint *all, const Footprint *h, double *end)
{
    double at = all->pitch > 0 && h->pitch == all->pitch ? fmod(h->lo - all->lo, all->pitch) : 0;

    *end = at + h->run <= all->pitch ? at + h->run : 0;
    return *end > all->run ? fmin(*end - all->run, h->run) : 0;
}

/* Concurrent streams that one loop continues. */
typedef struct {
    const CostNode *loop;
    double lo, count, step, bytes;
} Streams;

/* Hardware prefetches the next line of each stream into L1. If that is the last one of more lines
 * than its set holds, it is evicted before it is read. */
static double
lost_lines(const Traffic *t, const Streams *s)
{
    const Machine *m = t->u->m;
    double ways = (double)m->level[LEVEL_L1].bytes / m->line_bytes / t->sets;

    return sets_overflow(t, s->step, s->count, 1, ways) ? s->bytes : 0;
}

/* At L1 alone: adds the streams of a hull; *lost: lines of those of another loop before. */
static void
add_streams(const Traffic *t, Streams *s, const Footprint *h, double *lost)
{
    double line = t->u->m->line_bytes;

    if (t->level != LEVEL_L1 || h->along <= 0)
        return;
    if (s->loop != h->loop) {
        *lost += lost_lines(t, s);
        *s = (Streams){ h->loop, h->lo, 0, 0, 0 };
    } else {
        s->step = step_between(s->step, h->lo - s->lo, line);
    }
    s->step = h->step > 0 ? step_between(s->step, h->step * line, line) : s->step;
    s->count += h->along;
    s->bytes += h->bytes;
}

/* The footprint in buffer b of the statements of n, those of one phase or (NULL) all, over loops
 * from depth `from` on. Overlapping accesses count once; adjacent columns of the same rows do not
 * overlap. */
static Touched
touched(Traffic *t, const CostNode *n, uint32_t b, uint32_t from, const CostNode *phase,
        bool *conflict)
{
    Unfold *u = t->u;
    VEC(Footprint) hull = { 0 };
    Touched sum = { 0 };
    Streams streams = { 0 };

    for (uint32_t i = n->first; i < n->end; i++) {
        const MemRef *a = &u->access.at[i];
        if (a->buffer != b || a->node->exec <= 0 || (phase && a->node->phase != phase))
            continue;
        double shift;
        for (uint32_t number = 0, places = 1; number < places; number++) {
            places = places_of(a, from, number, &shift);
            Footprint h = hull_of(t, a, from, shift);
            VEC_PUSH(u->arena, &hull, h);
            uint32_t j = hull.n - 1;
            for (; j > 0 && hull.at[j - 1].lo > h.lo; j--)
                hull.at[j] = hull.at[j - 1];
            hull.at[j] = h;
            *conflict = *conflict || h.conflict;
        }
    }
    for (uint32_t i = 0; i < hull.n;) {
        Footprint all = hull.at[i++];
        for (; i < hull.n && hull.at[i].lo < all.hi; i++) {
            const Footprint *h = &hull.at[i];
            double end, beyond = beyond_columns(&all, h, &end),
                        more = h->hi > all.hi ? (h->hi - all.hi) / (h->hi - h->lo) * h->bytes : 0;
            more = beyond > 0 ? h->bytes * (beyond / h->run) : more;
            all.run = beyond > 0 ? end : all.run;
            double denser = h->bytes - more > all.bytes ? h->bytes - more : all.bytes;
            all.bytes = denser + more;
            all.runs = h->runs > all.runs ? h->runs : all.runs;
            all.pieces = h->pieces > all.pieces ? h->pieces : all.pieces;
            all.side = h->side > all.side ? h->side : all.side;
            all.rows = h->rows < all.rows ? h->rows : all.rows;
            all.hi = h->hi > all.hi ? h->hi : all.hi;
        }
        sum.bytes += all.bytes;
        sum.runs += all.runs;
        sum.pieces += all.pieces;
        sum.side += all.side;
        sum.rows += all.rows;
        add_streams(t, &streams, &all, &sum.lost);
    }
    sum.lost += lost_lines(t, &streams);
    double most = u->buffer_bytes[b] + u->m->line_bytes;
    sum.bytes = sum.bytes < most ? sum.bytes : most;
    return sum;
}

/* [buffer] the footprint of an execution of n: with all its iterations, or in one. */
static const Touched *
footprint(Traffic *t, const CostNode *n, bool whole, double *sum)
{
    Unfold *u = t->u;
    Touched **memo = whole ? &t->whole[n->id] : &t->body[n->id];
    double *total = whole ? &t->whole_sum[n->id] : &t->body_sum[n->id];

    if (!*memo) {
        *memo = NEW_ARRAY(u->arena, Touched, u->k->buffer.n);
        bool conflict = false;
        for (uint32_t b = 0; b < u->k->buffer.n; b++) {
            if (u->past[b] && t->level != LEVEL_L3)
                continue;
            (*memo)[b] =
                touched(t, n, b, n->depth - (n->kind == NODE_LOOP && whole), NULL, &conflict);
            *total += u->past[b] ? 0 : (*memo)[b].bytes;
        }
        /* conflict misses, whatever the size */
        if (conflict)
            *total += (double)u->m->level[t->level].bytes;
    }
    *sum = *total;
    return *memo;
}

Level
cost_level(const Machine *m, double bytes)
{
    for (Level l = LEVEL_L2; l < LEVEL_MEMORY; l++)
        if (bytes <= (double)machine_block_bytes(m, l))
            return l;
    return LEVEL_MEMORY;
}

/* ---- who pays -------------------------------------------------------------------------------- */

/* The level of a worker's scratch after the previous call: the smallest cache that holds it. */
static Level
scratch_home(const Machine *m, double bytes)
{
    Level l = LEVEL_L1;

    while (l < LEVEL_MEMORY && bytes > (double)machine_usable_bytes(m, l))
        l++;
    return l;
}

static Level
home_of(const Unfold *u, uint32_t b)
{
    if (u->k->buffer.at[b].space == SPACE_SCRATCH || u->k->buffer.at[b].space == SPACE_LOCAL)
        return scratch_home(u->m, u->buffer_bytes[b]);
    if (u->query->far && b < u->k->nin && (u->query->far[b] || u->k->buffer.at[b].kept))
        return LEVEL_MEMORY;
    return cost_level(u->m, u->buffer_bytes[b]);
}

enum { PROBE_LINES = 4 }; /* of a piece of `piece_per_second` (tn_probe_piece) */

/* The additional seconds of memory for lines in strided bursts: for the first line of each burst,
 * and for those behind it if bursts are shorter than a page, if that was measured. */
static double
waiting_for_pieces(const Traffic *t, const Touched *b)
{
    const Machine *m = t->u->m;
    double line = m->line_bytes, in_order = 1 / m->level[LEVEL_MEMORY].one.read, next = 0;

    if (b->pieces <= 0 || m->step_per_second <= 0)
        return 0;
    double first = line * (1 / m->step_per_second - in_order);
    if (m->piece_per_second > 0 && b->bytes < b->pieces * PAGE)
        next = fmax((PROBE_LINES * line * (1 / m->piece_per_second - in_order) - first) /
                        (PROBE_LINES - 1),
                    0);
    return b->pieces * first + (b->bytes / line - b->pieces) * next;
}

/* Seconds until the first line of each stream arrives. Hardware prefetches what follows in a
 * stream, and the reorder buffer overlaps the rest of the latency with what it holds; a stream as
 * long as the bytes in flight (by Little's law, bandwidth times latency) is waited for alone,
 * shorter ones several at a time. Lines of L2 are within the reorder buffer, but slower if strided,
 * if that was measured; so are lines of memory after a gap in a stream. */
static double
waiting(const Traffic *t, const Touched *b)
{
    const Machine *m = t->u->m;
    const MemoryLevel *from = &m->level[t->level + 1];

    if (from->one.read <= 0)
        return 0;
    if (t->level == LEVEL_L1)
        return m->near_step_per_second > 0
                   ? b->pieces * m->line_bytes *
                         fmax(1 / m->near_step_per_second - 1 / from->one.read, 0)
                   : 0;
    double in_sight = m->window / m->issue_per_cycle * m->cycle_seconds;
    double each = fmax(from->latency_seconds - in_sight, 0) * b->runs,
           stream = b->bytes / from->one.read;
    double wait = each < stream ? each : stream;
    return t->level == LEVEL_L3 ? fmax(wait, waiting_for_pieces(t, b)) : wait;
}

/* Lines that L1 loses come from L2 twice: the seconds of that, for what an execution of n reads. The
 * loop around n may be the one that continues its streams. */
static double
waiting_for_lost(Traffic *t, const CostNode *n, uint32_t b, const Touched *in)
{
    const CostNode *loop = loop_around(n->parent);
    const Touched *around = in;
    double sum;

    if (t->level != LEVEL_L1 || t->u->m->level[LEVEL_L2].one.read <= 0)
        return 0;
    if (in->lost <= 0 && loop)
        around = &footprint(t, loop, true, &sum)[b];
    return in->bytes * (around->lost / around->bytes) / t->u->m->level[LEVEL_L2].one.read;
}

/* The first access of buffer b in n; *written: one of them writes. */
static const MemRef *
first_access(const Unfold *u, const CostNode *n, uint32_t b, bool *written)
{
    const MemRef *first = NULL;

    *written = false;
    for (uint32_t i = n->first; i < n->end; i++) {
        const MemRef *a = &u->access.at[i];
        if (a->buffer != b || a->node->exec <= 0)
            continue;
        first = first ? first : a;
        *written = *written || a->write;
    }
    return first;
}

/* Non-temporal stores leave nothing in a cache for the next reader, which waits for memory; by its
 * size. */
static double
read_again(const Unfold *u, uint32_t b, double bytes)
{
    const MemoryLevel *level = u->m->level;
    double far = level[LEVEL_MEMORY].one.read, near = level[home_of(u, b)].one.read;

    return far > 0 && near > far ? bytes / far - bytes / near : 0;
}

/* The time of a non-temporal line relative to a strided one. For few concurrent rows memory has the
 * next line of each before it leaves its page: up to 32 of them are written as fast as one on a Zen
 * 5 core (44 GB/s), 64 at 25, 128 at 18, 256 at 15. */
static double
apart_share(const Machine *m, double rows)
{
    double few = m->beside_per_second > m->stream_per_second
                     ? m->stream_per_second / m->beside_per_second
                     : 1;
    double far =
        log2(rows / MACHINE_BESIDE_ROWS) / log2((double)MACHINE_APART_ROWS / MACHINE_BESIDE_ROWS);

    return rows <= MACHINE_BESIDE_ROWS  ? few
           : rows >= MACHINE_APART_ROWS ? 1
                                        : few + (1 - few) * far;
}

/* Phases are charged for a buffer in their order, each for what it touches itself, until all is
 * charged: a border that comes first touches little of it. times: executions of n that it is
 * charged to. */
static void
share_charge(Traffic *t, CostNode *n, uint32_t b, const Touched *in, bool write, double times)
{
    Unfold *u = t->u;
    double left = in->bytes, wait = u->far[b] ? 0 : waiting(t, in) + waiting_for_lost(t, n, b, in);
    uint32_t from = n->depth - (n->kind == NODE_LOOP);
    bool conflict = false;

    u->charges++;
    for (uint32_t i = n->first; i < n->end && left > 0; i++) {
        const MemRef *a = &u->access.at[i];
        CostNode *phase = a->node->phase;
        if (a->buffer != b || a->node->exec <= 0 || (write && !a->write) ||
            phase->charged == u->charges)
            continue;
        phase->charged = u->charges;
        double own = touched(t, n, b, from, phase, &conflict).bytes, paid = own < left ? own : left;
        left -= paid;
        if (write && u->past[b]) {
            phase->past += paid * times;
            phase->past_apart += paid * times * apart_share(u->m, in->rows);
            phase->wait[t->level] += read_again(u, b, paid) * times;
        } else if (write) {
            phase->write[t->level] += paid * times;
            phase->apart += t->level == LEVEL_L3 ? fmin(in->runs * u->m->line_bytes, in->bytes) *
                                                       (paid / in->bytes) * times
                                                 : 0;
        } else {
            phase->read[t->level] += paid * times;
            phase->wait[t->level] += wait * (paid / in->bytes) * times;
        }
    }
}

/* An execution of n transfers each line of its footprint once. here: NULL, or for each buffer the
 * share of executions that find it in the cache. */
static void
charge(Traffic *t, CostNode *n, const double *here)
{
    Unfold *u = t->u;
    const MemoryLevel *from = &u->m->level[t->level + 1];
    double sum, side = 0;
    const Touched *in = footprint(t, n, true, &sum);
    CostNode *longest = NULL; /* the phase that reads most, and how much */
    double most = 0;

    for (uint32_t b = 0; b < u->k->buffer.n; b++) {
        bool written = false;
        double times = n->exec * t->share * (here && !u->past[b] ? 1 - here[b] : 1);
        if (in[b].bytes <= 0 || times <= 0 ||
            (!u->past[b] && n->exec <= 1 && home_of(u, b) <= (Level)t->level))
            continue;
        const MemRef *first = first_access(u, n, b, &written);
        CostNode *phase = first->node->phase;
        side += in[b].bytes > PAGE ? in[b].side : 0;
        if (!first->write) {
            share_charge(t, n, b, &in[b], false, times);
            if (in[b].bytes * times > most) {
                most = in[b].bytes * times;
                /* there is no wait, or gaps are counted already */
                longest =
                    u->far[b] || (in[b].pieces > 0 && u->m->step_per_second > 0) ? NULL : phase;
            }
        }
        if (written)
            share_charge(t, n, b, &in[b], true, times);
    }
    if (t->level == LEVEL_L3 && longest && side == 1 && from->one.read > 0 &&
        u->m->stretch_per_second > 0)
        longest->wait[t->level] +=
            (u->m->side_per_second / u->m->stretch_per_second - 1) * most / from->one.read;
}

/* Bytes touched by n beside those of buffer b: in an iteration, if each touches all of b's;
 * otherwise in all. */
static double
beside_buffer(Traffic *t, const CostNode *n, uint32_t b)
{
    double trip, all;
    const Touched *body = footprint(t, n, false, &trip), *whole = footprint(t, n, true, &all);

    return (body[b].bytes >= whole[b].bytes ? trip : all) - whole[b].bytes;
}

/* [buffer] bytes of others touched since each buffer was, when n has run. */
static void
pass_by(Traffic *t, const CostNode *n, double *since)
{
    double all;
    const Touched *in = footprint(t, n, true, &all);

    for (uint32_t b = 0; b < t->u->k->buffer.n; b++)
        since[b] = in[b].bytes > 0 ? beside_buffer(t, n, b) : since[b] + all;
}

/* here: as for charge. A statement finds what earlier statements left, and the first that touches a
 * buffer what the previous iteration left, if all iterations touch the same of it. */
static void
settle(Traffic *t, CostNode *n, const double *here)
{
    Unfold *u = t->u;
    double sum;

    if (n->exec <= 0 || n->first == n->end)
        return;
    footprint(t, n, n->kind != NODE_LOOP, &sum);
    if (sum <= t->capacity || !n->child) {
        charge(t, n, here);
        return;
    }
    double *since = NEW_ARRAY(u->arena, double, u->k->buffer.n),
           *left = NEW_ARRAY(u->arena, double, u->k->buffer.n);
    /* the share of iterations in which a buffer was touched before */
    double *touches = NEW_ARRAY(u->arena, double, u->k->buffer.n);
    const Touched *body = footprint(t, n, false, &sum), *whole = footprint(t, n, true, &sum);
    for (uint32_t b = 0; b < u->k->buffer.n; b++)
        since[b] = INFINITY;
    for (CostNode *k = n->child; k; k = k->next)
        if (k->first < k->end && k->exec > 0)
            pass_by(t, k, since);
    for (uint32_t b = 0; b < u->k->buffer.n; b++)
        if (n->kind == NODE_LOOP && n->trips > 1 && body[b].bytes >= whole[b].bytes)
            touches[b] = 1 - 1 / n->trips;
        else
            since[b] = INFINITY;
    for (CostNode *k = n->child; k; k = k->next) {
        if (k->first == k->end || k->exec <= 0)
            continue;
        const Touched *in = footprint(t, k, true, &sum);
        for (uint32_t b = 0; b < u->k->buffer.n; b++) {
            left[b] =
                since[b] + beside_buffer(t, k, b) + in[b].bytes <= t->capacity ? touches[b] : 0;
            touches[b] = in[b].bytes > 0 ? 1 : touches[b];
        }
        settle(t, k, left);
        pass_by(t, k, since);
    }
}

/* Marks non-temporal stores and prefetches. */
static void
find_ways(Unfold *u)
{
    u->past = NEW_ARRAY(u->arena, bool, u->k->buffer.n);
    u->far = NEW_ARRAY(u->arena, bool, u->k->buffer.n);
    for (uint32_t i = 0; i < u->node.n; i++) {
        const CostNode *n = u->node.at[i];
        if (n->kind == NODE_AHEAD && n->tree->u.ahead.far)
            u->far[n->tree->u.ahead.buffer] = true;
    }
    for (uint32_t i = 0; i < u->access.n; i++) {
        const MemRef *a = &u->access.at[i];
        u->past[a->buffer] |= a->write && a->node->tree->u.store.stream;
    }
}

/* Whether data that just fills a cache stays depends on its addresses, so near caches are examined
 * at several capacities. L1 keeps all that it can hold, unless lines of several buffers meet in a
 * set: from three quarters on. Read repeatedly on a Zen 5 core, 48 KB come from an L1 of 48 KB as
 * fast as 16, and 52 as slowly as 96. Sets of L2 are indexed by physical pages, so eviction is a
 * matter of chance: of one of 1,024 KB, 768 KB all stay, of 832, 896, 960, 1,024, 1,152 and 1,280
 * KB a share of 0.84, 0.75, 0.59, 0.50, 0.27 and 0.10 by their rates (Zen 5; on a Cascade Lake core
 * 0.92, 0.74 and 0.54 of three quarters, seven eighths and all). So it has three quarters to five
 * quarters. */
enum { CAPACITIES = 3 };

static double
most_bytes(const Machine *m, Level l)
{
    double bytes = (double)m->level[l].bytes, usable = (double)machine_usable_bytes(m, l);

    return l == LEVEL_L1 ? bytes : l == LEVEL_L2 ? 2 * bytes - usable : usable;
}

void
traffic(Unfold *u)
{
    find_ways(u);
    for (Level l = LEVEL_L1; l < LEVEL_MEMORY; l++) {
        Traffic t = { .u = u,
                      .level = l,
                      .body = NEW_ARRAY(u->arena, Touched *, u->node.n),
                      .whole = NEW_ARRAY(u->arena, Touched *, u->node.n),
                      .body_sum = NEW_ARRAY(u->arena, double, u->node.n),
                      .whole_sum = NEW_ARRAY(u->arena, double, u->node.n) };
        double usable = (double)machine_usable_bytes(u->m, l) / (l == LEVEL_L3 ? u->shares : 1);
        double rest = most_bytes(u->m, l) - (double)machine_usable_bytes(u->m, l);
        int capacities = rest > 0 ? CAPACITIES : 1;
        t.sets = exp2(floor(log2(more((double)u->m->level[l].bytes / u->m->line_bytes / WAYS, 1))));
        t.ways = usable / u->m->line_bytes / t.sets;
        t.share = 1.0 / capacities;
        for (int i = 0; i < capacities; i++) {
            t.capacity = usable + rest * (2 * i + 1) / (2 * capacities);
            settle(&t, u->root, NULL);
        }
    }
}
