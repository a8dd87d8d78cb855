/* pack: offsets in one arena for blocks that live at different times.
 *
 * Blocks of known size go largest first, each to the lowest gap that no block living at the same time
 * occupies; two other orders are tried and the smallest arena wins.
 *
 * A block whose size is a number times one monomial (12288*batch) is packed in the same way among the
 * blocks of that monomial, in units of it: one region of the arena per monomial, as tight as a static
 * plan. What is left (4*n + 8, or few bytes times a monomial, where alignment would cost more than
 * sharing gains) goes to slots: a block takes a free slot that is provably large enough, or makes the
 * slot larger, or gets a new one.
 */
#include "plan/internal.h"

#include <stdlib.h>

static int64_t
align_up(int64_t n)
{
    return (n + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

static bool
overlap(NodeId a_first, NodeId a_last, NodeId b_first, NodeId b_last)
{
    return a_first <= b_last && b_first <= a_last;
}

/* ---- numbers ------------------------------------------------------------------------------------ */

static int
larger_first(const void *x, const void *y)
{
    const PackItem *a = *(PackItem *const *)x, *b = *(PackItem *const *)y;

    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
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

typedef struct { int64_t begin, end; } Hole;     /* bytes in use */

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

static int64_t
pack_in_order(PackItem **item, uint32_t n, Hole *used, int64_t *offset)
{
    int64_t total = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t nused = 0;
        for (uint32_t k = 0; k < i; k++)
            if (item[k]->size && overlap(item[i]->first, item[i]->last, item[k]->first, item[k]->last))
                used[nused++] = (Hole){ offset[k], offset[k] + item[k]->size };
        offset[i] = item[i]->size ? lowest_gap(used, nused, item[i]->size) : 0;
        if (offset[i] + item[i]->size > total)
            total = offset[i] + item[i]->size;
    }
    return total;
}

int64_t
plan_pack(Arena *scratch, PackItem *item, uint32_t n)
{
    int (*const order[])(const void *, const void *) = { larger_first, longer_lived_first, earlier_first };
    PackItem **sorted = NEW_ARRAY(scratch, PackItem *, n);
    Hole *used = NEW_ARRAY(scratch, Hole, n);
    int64_t *offset = NEW_ARRAY(scratch, int64_t, n), best = INT64_MAX;

    for (uint32_t i = 0; i < n; i++)
        sorted[i] = &item[i];
    for (size_t o = 0; o < sizeof order / sizeof *order; o++) {
        if (n)
            qsort(sorted, n, sizeof *sorted, order[o]);
        int64_t total = pack_in_order(sorted, n, used, offset);
        if (total >= best)
            continue;
        best = total;
        for (uint32_t i = 0; i < n; i++)
            sorted[i]->offset = offset[i];
    }
    return best;
}

int64_t
plan_max_live(const PackItem *item, uint32_t n)
{
    int64_t most = 0;

    /* The set of live items only grows where one begins. */
    for (uint32_t i = 0; i < n; i++) {
        int64_t live = 0;
        for (uint32_t k = 0; k < n; k++)
            if (item[k].first <= item[i].first && item[i].first <= item[k].last)
                live += item[k].size;
        most = live > most ? live : most;
    }
    return most;
}

/* ---- one monomial -------------------------------------------------------------------------------- */

/* bytes = size * unit with size a number worth aligning? unit is 1 for numbers. */
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
    return *size > 0 && *size < INT64_MAX / 2 && (*size % PLAN_ALIGN == 0 || *size >= 16 * PLAN_ALIGN);
}

/* Pack all blocks without an offset that share this unit, from `base` on; returns the new end. */
static const Expr *
place_unit(Ctx *c, Arena *scratch, PlanBlock *block, uint32_t n, const Expr *unit, const Expr *base)
{
    PackItem *item = NEW_ARRAY(scratch, PackItem, n);
    uint32_t *of = NEW_ARRAY(scratch, uint32_t, n), nitem = 0;
    const Expr *its_unit;
    int64_t size;

    for (uint32_t i = 0; i < n; i++)
        if (!block[i].offset && in_units(c, block[i].bytes, &size, &its_unit) && its_unit == unit) {
            of[nitem] = i;
            item[nitem++] = (PackItem){ align_up(size), block[i].first, block[i].last, 0 };
        }
    int64_t total = plan_pack(scratch, item, nitem);
    for (uint32_t i = 0; i < nitem; i++)
        block[of[i]].offset = expr_add(c, base, expr_scale(c, unit, item[i].offset));
    return expr_add(c, base, expr_scale(c, unit, total));
}

/* ---- slots ------------------------------------------------------------------------------------------- */

typedef struct { const Expr *bytes; VEC(uint32_t) block; } Slot;

#define TYPICAL 128                  /* a symbol's value for ordering sizes that cannot be compared */

static bool
typical(void *user, Var v, int64_t *out)
{
    Interval range = expr_symbol_get(user, v);

    *out = TYPICAL < range.lo ? range.lo : TYPICAL > range.hi ? range.hi : TYPICAL;
    return v.kind == VAR_SYMBOL;
}

static bool
is_free(const Slot *s, const PlanBlock *block, const PlanBlock *b)
{
    for (uint32_t i = 0; i < s->block.n; i++)
        if (overlap(block[s->block.at[i]].first, block[s->block.at[i]].last, b->first, b->last))
            return false;
    return true;
}

static bool
at_most(Ctx *c, const Expr *a, const Expr *b)
{
    return expr_le(c, NULL, a, b) == YES;
}

/* The smallest free slot that holds the block, else the largest that can be made larger; or none. */
static Slot *
choose_slot(Ctx *c, Slot *slot, uint32_t nslot, const PlanBlock *block, const PlanBlock *b)
{
    Slot *fits = NULL, *grows = NULL;

    for (uint32_t i = 0; i < nslot; i++) {
        if (!is_free(&slot[i], block, b))
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

typedef struct { uint32_t block; int64_t size; } Guess;

static int
by_guess(const void *x, const void *y)
{
    const Guess *a = x, *b = y;

    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return a->block < b->block ? -1 : a->block > b->block;
}

/* Larger blocks first, by a typical size: later ones then find slots that hold them. A slot that grows
 * to max(a, b) is never larger than a new one beside it. */
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
        Slot *s = choose_slot(c, slot, nslot, block, b);
        if (!s) {
            s = &slot[nslot++];
            s->bytes = b->bytes;
        } else if (!at_most(c, b->bytes, s->bytes)) {
            s->bytes = at_most(c, s->bytes, b->bytes) ? b->bytes : expr_max(c, s->bytes, b->bytes);
        }
        VEC_PUSH(scratch, &s->block, guess[i].block);
    }
    for (uint32_t i = 0; i < nslot; i++) {
        const Expr *size = expr_scale(c, expr_ceil_div(c, slot[i].bytes, expr_int(c, PLAN_ALIGN)), PLAN_ALIGN);
        for (uint32_t k = 0; k < slot[i].block.n; k++)
            block[slot[i].block.at[k]].offset = base;
        base = expr_add(c, base, expr_simplify(c, NULL, size));
    }
    return base;
}

const Expr *
plan_place(Ctx *c, Arena *scratch, PlanBlock *block, uint32_t n)
{
    const Expr *end = place_unit(c, scratch, block, n, expr_int(c, 1), expr_int(c, 0)), *unit;
    int64_t size;

    for (uint32_t i = 0; i < n; i++)
        if (!block[i].offset && in_units(c, block[i].bytes, &size, &unit))
            end = place_unit(c, scratch, block, n, unit, end);
    return place_slots(c, scratch, block, n, end);
}
