/* pack: offsets in one arena for blocks with different live ranges.
 *
 * Blocks of known size are placed in the order of time, each in the lowest gap that is free then.
 * If comparing all pairs of live blocks does not take too long, two other orders are tried, the
 * largest and the longest lived first, each block in the lowest gap that no block live at the same
 * time occupies; the smallest arena wins.
 *
 * A block whose size is a number times one monomial (12288*batch) is packed the same way among the
 * blocks of that monomial, in units of it: one region of the arena per monomial, as tight as a
 * static plan.
 *
 * The rest (4*n + 8, or few bytes times a monomial, where alignment would cost more than sharing
 * gains) goes to slots: a block takes a free slot that is provably large enough, or enlarges one,
 * or gets a new one.
 */
#include "plan/internal.h"

#include <stdlib.h>
#include <string.h>

static int64_t
align_up(int64_t n)
{
    return (n + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* pairs of blocks that are live at once, in one packing; bounds work */
#define PACK_PAIRS (1 << 24)

static int
larger_first(const void *x, const void *y)
{
    const PackItem *a = *(PackItem *const *)x, *b = *(PackItem *const *)y;

    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : (a > b) - (a < b);
}

static int
earlier_first(const void *x, const void *y)
{
    const PackItem *a = *(PackItem *const *)x, *b = *(PackItem *const *)y;

    return a->first != b->first ? (a->first < b->first ? -1 : 1) : larger_first(x, y);
}

static int
longer_lived_first(const void *x, const void *y)
{
    const PackItem *a = *(PackItem *const *)x, *b = *(PackItem *const *)y;
    NodeId la = a->last - a->first, lb = b->last - b->first;

    return la != lb ? (la > lb ? -1 : 1) : larger_first(x, y);
}

static int
ends_earlier_first(const void *x, const void *y)
{
    const PackItem *a = *(PackItem *const *)x, *b = *(PackItem *const *)y;

    return a->last != b->last ? (a->last < b->last ? -1 : 1) : larger_first(x, y);
}

typedef struct {
    int64_t begin, end;
} Hole; /* bytes in use */

static int
by_begin(const void *x, const void *y)
{
    const Hole *a = x, *b = y;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* The lowest offset where `size` bytes are free of the n ranges in use. */
static int64_t
lowest_gap(Hole *used, uint32_t n, int64_t size)
{
    int64_t at = 0;

    qsort(used, n, sizeof *used, by_begin);
    for (uint32_t i = 0; i < n && used[i].begin < at + size; i++)
        if (used[i].end > at)
            at = used[i].end;
    return at;
}

/* Items by their beginning, as the search tree whose root is the middle one; latest[root of a
 * range]: the last end in that range. Finds the items that are live with an item without looking at
 * the others. */
typedef struct {
    PackItem **item;
    NodeId *latest;
    const bool *placed; /* of items by their position in `base` */
    const PackItem *base;
    Hole *used;
    uint32_t nused;
} Lives;

static NodeId
lives_build(Lives *l, uint32_t lo, uint32_t hi)
{
    if (lo == hi)
        return 0;
    uint32_t mid = lo + (hi - lo) / 2;
    NodeId latest = l->item[mid]->last, left = lives_build(l, lo, mid),
           right = lives_build(l, mid + 1, hi);

    latest = left > latest ? left : latest;
    return l->latest[mid] = right > latest ? right : latest;
}

/* Ranges of memory of placed items that are live while `of` is. */
static void
lives_meet(Lives *l, uint32_t lo, uint32_t hi, const PackItem *of)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        const PackItem *at = l->item[mid];
        if (l->latest[mid] < of->first)
            return;
        lives_meet(l, lo, mid, of);
        if (at->first > of->last)
            return;
        if (at->last >= of->first && l->placed[at - l->base])
            l->used[l->nused++] = (Hole){ at->offset, at->offset + at->size };
        lo = mid + 1;
    }
}

static int64_t
pack_in_order(Lives *l, PackItem **item, uint32_t n, bool *placed)
{
    int64_t total = 0;

    for (uint32_t i = 0; i < n; i++)
        placed[i] = false;
    for (uint32_t i = 0; i < n; i++) {
        l->nused = 0;
        item[i]->offset = 0;
        if (!item[i]->size)
            continue;
        lives_meet(l, 0, n, item[i]);
        item[i]->offset = lowest_gap(l->used, l->nused, item[i]->size);
        placed[item[i] - l->base] = true;
        if (item[i]->offset + item[i]->size > total)
            total = item[i]->offset + item[i]->size;
    }
    return total;
}

/* Free ranges below `top`, by address; no two are adjacent. live: items placed now; pairs: of items
 * that are live at once. */
typedef struct {
    Arena *arena;
    VEC(Hole) hole;
    int64_t top;
    uint64_t live, pairs;
} FreeList;

static void
take_lowest(FreeList *f, PackItem *item)
{
    f->pairs += f->live++;
    for (uint32_t i = 0; i < f->hole.n; i++)
        if (f->hole.at[i].end - f->hole.at[i].begin >= item->size) {
            item->offset = f->hole.at[i].begin;
            f->hole.at[i].begin += item->size;
            if (f->hole.at[i].begin == f->hole.at[i].end)
                memmove(f->hole.at + i, f->hole.at + i + 1, (--f->hole.n - i) * sizeof *f->hole.at);
            return;
        }
    item->offset = f->top;
    f->top += item->size;
}

static void
give_back(FreeList *f, const PackItem *item)
{
    Hole h = { item->offset, item->offset + item->size };
    uint32_t lo = 0, hi = f->hole.n;

    f->live--;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (f->hole.at[mid].begin < h.begin)
            lo = mid + 1;
        else
            hi = mid;
    }
    bool before = lo > 0 && f->hole.at[lo - 1].end == h.begin,
         after = lo < f->hole.n && f->hole.at[lo].begin == h.end;
    if (!item->size || (before && after)) {
        if (before && after) {
            f->hole.at[lo - 1].end = f->hole.at[lo].end;
            memmove(f->hole.at + lo, f->hole.at + lo + 1, (--f->hole.n - lo) * sizeof *f->hole.at);
        }
        return;
    }
    if (before) {
        f->hole.at[lo - 1].end = h.end;
    } else if (after) {
        f->hole.at[lo].begin = h.begin;
    } else {
        VEC_PUSH(f->arena, &f->hole, h);
        memmove(f->hole.at + lo + 1, f->hole.at + lo, (f->hole.n - 1 - lo) * sizeof *f->hole.at);
        f->hole.at[lo] = h;
    }
}

/* Walks through time: an item is given back after its last node. */
static int64_t
pack_in_time(Arena *scratch, PackItem **starts, PackItem **ends, uint32_t n, uint64_t *pairs)
{
    FreeList f = { .arena = scratch };
    uint32_t ended = 0;

    qsort(starts, n, sizeof *starts, earlier_first);
    qsort(ends, n, sizeof *ends, ends_earlier_first);
    for (uint32_t i = 0; i < n; i++) {
        for (; ended < n && ends[ended]->last < starts[i]->first; ended++)
            give_back(&f, ends[ended]);
        take_lowest(&f, starts[i]);
    }
    *pairs = f.pairs;
    return f.top;
}

int64_t
plan_pack(Arena *scratch, PackItem *item, uint32_t n)
{
    int (*const order[])(const void *, const void *) = { longer_lived_first, larger_first };
    PackItem **sorted = NEW_ARRAY(scratch, PackItem *, n);
    int64_t *offset = NEW_ARRAY(scratch, int64_t, n);
    bool *placed = NEW_ARRAY(scratch, bool, n);
    Lives l = { .item = NEW_ARRAY(scratch, PackItem *, n),
                .latest = NEW_ARRAY(scratch, NodeId, n),
                .placed = placed,
                .base = item,
                .used = NEW_ARRAY(scratch, Hole, n) };
    uint64_t pairs;

    if (!n)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        sorted[i] = l.item[i] = &item[i];
    int64_t best = pack_in_time(scratch, l.item, sorted, n, &pairs);
    if (pairs > PACK_PAIRS)
        return best;
    for (uint32_t i = 0; i < n; i++)
        offset[i] = item[i].offset;
    lives_build(&l, 0, n);
    for (size_t o = 0; o < sizeof order / sizeof *order; o++) {
        qsort(sorted, n, sizeof *sorted, order[o]);
        int64_t total = pack_in_order(&l, sorted, n, placed);
        if (total > best)
            continue;
        best = total;
        for (uint32_t i = 0; i < n; i++)
            offset[i] = item[i].offset;
    }
    for (uint32_t i = 0; i < n; i++)
        item[i].offset = offset[i];
    return best;
}

/* ---- one monomial ---------------------------------------------------------------------------- */

/* A coefficient of a symbol, rounded up to whole cache lines; from this one on at most a sixteenth
 * is wasted. */
#define LEAST_ROUNDED (16 * PLAN_ALIGN)

/* Is bytes = size * unit, with a size worth aligning? unit is 1 for numbers. */
static bool
in_units(Ctx *c, const Expr *bytes, int64_t *size, const Expr **unit)
{
    *unit = expr_int(c, 1);
    if (expr_const(bytes, size))
        return *size >= 0 && *size < INT64_MAX / 2;
    if (bytes->nterm != 1)
        return false;
    *size = bytes->term[0].coef;
    *unit = expr_exact_div(c, bytes, expr_int(c, *size));
    return *size > 0 && *size < INT64_MAX / 2 &&
           (*size % PLAN_ALIGN == 0 || *size >= LEAST_ROUNDED);
}

/* A block whose size is a number of units, and the next block of the same unit. */
typedef struct {
    int64_t size;
    const Expr *unit;
    uint32_t next;
} SizeUnit;

/* Packs the blocks that share a unit, from `base` on; returns the new end. */
static const Expr *
place_unit(Ctx *c, Arena *scratch, PlanBlock *block, const SizeUnit *m, uint32_t first, uint32_t n,
           const Expr *base)
{
    PackItem *item = NEW_ARRAY(scratch, PackItem, n);
    const Expr *unit = m[first].unit;
    uint32_t i = 0;

    for (uint32_t b = first; b != UINT32_MAX; b = m[b].next)
        item[i++] = (PackItem){ align_up(m[b].size), block[b].first, block[b].last, 0 };
    int64_t total = plan_pack(scratch, item, n);
    i = 0;
    for (uint32_t b = first; b != UINT32_MAX; b = m[b].next)
        block[b].offset = expr_add(c, base, expr_scale(c, unit, item[i++].offset));
    return expr_add(c, base, expr_scale(c, unit, total));
}

/* Blocks of each unit, in the order in which units first occur: numbers first. */
static const Expr *
place_units(Ctx *c, Arena *scratch, PlanBlock *block, uint32_t n, const Expr *end)
{
    typedef struct {
        uint32_t first, last, n;
    } List;
    SizeUnit *m = NEW_ARRAY(scratch, SizeUnit, n);
    VEC(List) list = { 0 };
    Map list_of = { .arena = scratch };

    VEC_PUSH(scratch, &list, ((List){ UINT32_MAX, UINT32_MAX, 0 }));
    map_put(&list_of, MAP_PTR(expr_int(c, 1)), 0);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at;
        if (!in_units(c, block[i].bytes, &m[i].size, &m[i].unit))
            continue;
        if (!map_get(&list_of, MAP_PTR(m[i].unit), &at)) {
            map_put(&list_of, MAP_PTR(m[i].unit), at = list.n);
            VEC_PUSH(scratch, &list, ((List){ UINT32_MAX, UINT32_MAX, 0 }));
        }
        List *to = &list.at[at];
        m[i].next = UINT32_MAX;
        *(to->n++ ? &m[to->last].next : &to->first) = i;
        to->last = i;
    }
    for (uint32_t k = 0; k < list.n; k++)
        if (list.at[k].n)
            end = place_unit(c, scratch, block, m, list.at[k].first, list.at[k].n, end);
    return end;
}

/* ---- slots ----------------------------------------------------------------------------------- */

typedef struct {
    NodeId first, last;
    uint32_t block;
} Stay;
/* stay: live ranges in it, in order */
typedef struct {
    const Expr *bytes;
    VEC(Stay) stay;
} Slot;

/* A symbol's value for ordering sizes that cannot be compared. */
static bool
typical(void *user, Var v, int64_t *out)
{
    *out = v.kind == VAR_SYMBOL ? expr_symbol_supposed(user, v) : 0;
    return v.kind == VAR_SYMBOL;
}

/* The first live range that does not end before the block begins. */
static uint32_t
stay_after(const Slot *s, const PlanBlock *b)
{
    uint32_t lo = 0, hi = s->stay.n;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (s->stay.at[mid].last < b->first)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool
is_free(const Slot *s, const PlanBlock *b)
{
    uint32_t i = stay_after(s, b);

    return i == s->stay.n || s->stay.at[i].first > b->last;
}

static void
add_stay(Arena *scratch, Slot *s, const PlanBlock *b, uint32_t block)
{
    uint32_t i = stay_after(s, b);

    VEC_PUSH(scratch, &s->stay, ((Stay){ 0 }));
    memmove(s->stay.at + i + 1, s->stay.at + i, (s->stay.n - 1 - i) * sizeof *s->stay.at);
    s->stay.at[i] = (Stay){ b->first, b->last, block };
}

static bool
at_most(Ctx *c, const Expr *a, const Expr *b)
{
    return expr_le(c, NULL, a, b) == YES;
}

/* The smallest free slot that holds the block, otherwise the largest that can be enlarged; or
 * none. */
static Slot *
choose_slot(Ctx *c, Slot *slot, uint32_t nslot, const PlanBlock *b)
{
    Slot *fits = NULL, *grows = NULL;

    for (uint32_t i = 0; i < nslot; i++) {
        if (!is_free(&slot[i], b))
            continue;
        if (at_most(c, b->bytes, slot[i].bytes)) {
            if (!fits || at_most(c, slot[i].bytes, fits->bytes))
                fits = &slot[i];
        } else if (!grows || at_most(c, grows->bytes, slot[i].bytes)) {
            grows = &slot[i];
        }
    }
    return fits ? fits : grows;
}

typedef struct {
    uint32_t block;
    int64_t size;
} Guess;

static int
by_guess(const void *x, const void *y)
{
    const Guess *a = x, *b = y;

    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return a->block < b->block ? -1 : a->block > b->block;
}

/* Larger blocks first, by a typical size: later ones then find slots that hold them. A slot that
 * grows to max(a, b) is never larger than a new one beside it. */
static const Expr *
place_slots(Ctx *c, Arena *scratch, PlanBlock *block, uint32_t n, const Expr *base)
{
    Slot *slot = NEW_ARRAY(scratch, Slot, n);
    Guess *guess = NEW_ARRAY(scratch, Guess, n);
    uint32_t nslot = 0, nguess = 0;

    for (uint32_t i = 0; i < n; i++)
        if (!block[i].offset) {
            guess[nguess].block = i;
            if (!expr_eval(block[i].bytes, typical, c, &guess[nguess].size))
                guess[nguess].size = INT64_MAX;
            nguess++;
        }
    if (nguess)
        qsort(guess, nguess, sizeof *guess, by_guess);
    for (uint32_t i = 0; i < nguess; i++) {
        const PlanBlock *b = &block[guess[i].block];
        Slot *s = choose_slot(c, slot, nslot, b);
        if (!s) {
            s = &slot[nslot++];
            s->bytes = b->bytes;
        } else if (!at_most(c, b->bytes, s->bytes)) {
            s->bytes = at_most(c, s->bytes, b->bytes) ? b->bytes : expr_max(c, s->bytes, b->bytes);
        }
        add_stay(scratch, s, b, guess[i].block);
    }
    for (uint32_t i = 0; i < nslot; i++) {
        const Expr *size =
            expr_scale(c, expr_ceil_div(c, slot[i].bytes, expr_int(c, PLAN_ALIGN)), PLAN_ALIGN);
        for (uint32_t k = 0; k < slot[i].stay.n; k++)
            block[slot[i].stay.at[k].block].offset = base;
        base = expr_add(c, base, expr_simplify(c, NULL, size));
    }
    return base;
}

const Expr *
plan_place(Ctx *c, Arena *scratch, PlanBlock *block, uint32_t n)
{
    const Expr *end = place_units(c, scratch, block, n, expr_int(c, 0));

    return place_slots(c, scratch, block, n, end);
}
