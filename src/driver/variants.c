/* variants: which kernels get other programs for sizes of a kind.
 *
 * A product whose rows are counted by symbols may be asked for one row, for a few, or for many, and the tile that
 * suits one of these is poor at the others. So it is asked what programs there are where all of those symbols are 1, and
 * where one of them is small; and a variant is kept where its price is clearly less than that of the
 * kernel's own program at those sizes. Where users expect some sizes (--dim-hint), it is asked for programs at just these. Constants lie as the kernel's own program wants them, so only programs that
 * want the same come in question.
 */
#include "driver/internal.h"

#include <string.h>

enum {
    MOST_VARIANTS = 2,               /* beside the kernel's own program; bounds code, and time to compile: those that gain most are kept */
    MOST_EXPECTED = 4,               /* combinations of sizes that users expect, which are asked too; bounds work. One more variant may come of them */
};

/* A price is within a quarter of what is measured for most kernels (doc/cost.md): less is no gain. A product of one row takes as long as
 * memory gives its weights, which is priced closer; and the kernel's own program, made for many rows, is slower at it than its price says:
 * rows of a tile that are left over read panels one by one, in stretches that end with its blocks. So one written for a row is taken
 * where it is priced alike: SmolLM's tokens took 64 ms for 54 where it had to be cheaper. */
static const double CLEARLY = 0.75, CLEARLY_OF_ONE_ROW = 1.1;

typedef VEC(Sym) RowSymbols;

static void
add_symbol(void *user, Var v)
{
    RowSymbols *s = user;

    for (uint32_t i = 0; i < s->n; i++)
        if (v.kind != VAR_SYMBOL || s->at[i] == (Sym)(uintptr_t)v.id)
            return;
    if (v.kind == VAR_SYMBOL && s->n < s->cap)
        s->at[s->n++] = (Sym)(uintptr_t)v.id;
}

/* A product of symbols? Other sizes, as what strides leave of a length, are not one where their symbol is, and may be less than 0. */
static bool
counts_symbols(const Expr *e)
{
    for (uint32_t i = 0; e->nterm && i < e->term->nfactor; i++)
        if (e->term->factor[i].atom->kind != ATOM_VAR)
            return false;
    return e->nterm == 1;
}

/* The symbols that count the rows of its products, at most as many as there is room for. */
static void
row_symbols(Job *j, const Kernel *k, RowSymbols *s)
{
    Contraction product;

    for (uint32_t i = 0; i < k->npart; i++) {
        const Nest *n = k->part[i].nest;
        bool rows = nest_contraction(j->ctx, n, &product);
        for (uint32_t x = 0; x < n->naxis && rows; x++)
            if (product.row >> x & 1 && counts_symbols(n->axis[x].extent))
                expr_vars(n->axis[x].extent, add_symbol, s);
    }
}

/* ---- one guard --------------------------------------------------------------------------------------------- */

typedef struct { SizeGuard guard; const char *program; double seconds, without; } Candidate;

/* The cheapest program under a guard; its seconds are as many as those of the kernel's own where none is cheaper. */
static Candidate
try_guard(Job *j, Arena *a, const Kernel *k, const bool *constant, bool far, const char *own, SizeGuard guard)
{
    Kernel *v = kernel_variant(j->ctx, a, k, guard);
    const char *why;
    Choice base = schedule_price(j->ctx, a, k, &j->machine, own, &guard, far ? constant : NULL, &why);
    Choices choices = schedule_choices(j->ctx, a, v, &j->machine, constant, far, own);
    Candidate best = { guard, NULL, base.seconds, base.seconds };

    for (uint32_t i = 0; i < choices.n && !best.program; i++)
        if (schedule_lays_alike(choices.at[i].program, own) && choices.at[i].seconds < CLEARLY_OF_ONE_ROW * base.seconds) {
            best.program = choices.at[i].program;
            best.seconds = choices.at[i].seconds;
        }
    return best;
}

/* ---- a kernel -------------------------------------------------------------------------------------------------- */

/* One symbol is at most `most`, the others are 1. */
static SizeGuard
guard_of(Arena *a, const RowSymbols *s, uint32_t small, int64_t most)
{
    SizeBound *at = NEW_ARRAY(a, SizeBound, s->n);

    for (uint32_t i = 0; i < s->n; i++)
        at[i] = (SizeBound){ s->at[i], i == small && most > 1 ? 0 : 1, i == small ? most : 1 };
    return (SizeGuard){ s->n, at };
}

/* All symbols have sizes that users expect, or 1: the number'th such combination. False: there are less, or all are 1. */
static bool
guard_expected(Ctx *c, Arena *a, const RowSymbols *s, uint32_t number, SizeGuard *out)
{
    SizeBound *at = NEW_ARRAY(a, SizeBound, s->n);
    bool any = false;

    for (uint32_t i = 0; i < s->n; i++) {
        Usual usual = expr_symbol_usual(c, (Var){ VAR_SYMBOL, MAP_PTR(s->at[i]) });
        int64_t size = usual.n ? usual.at[number % usual.n] : 1;
        number = usual.n ? number / usual.n : number;
        at[i] = (SizeBound){ s->at[i], size, size };
        any |= size > 1;
    }
    *out = (SizeGuard){ s->n, at };
    return any && !number;
}

static bool
is_gain(const Candidate *tried)
{
    bool one_row = true;

    for (uint32_t i = 0; i < tried->guard.n; i++)
        one_row &= tried->guard.at[i].most == 1;
    return tried->program && tried->seconds <= (one_row ? CLEARLY_OF_ONE_ROW : CLEARLY) * tried->without;
}

Kernel *
variant_of(Job *j, const Kernel *k, const SizeGuard *guard, const char *program)
{
    SizeBound *at = arena_copy(j->arena, guard->at, guard->n * sizeof *at);
    Kernel *v = kernel_variant(j->ctx, j->arena, k, (SizeGuard){ guard->n, at });

    v->schedule = arena_str(j->arena, program);
    return v;
}

/* How many of the candidates gain more than this one? */
static uint32_t
gain_more(const Candidate *tried, uint32_t n, uint32_t than)
{
    uint32_t more = 0;

    for (uint32_t i = 0; i < n; i++)
        more += tried[i].seconds / tried[i].without < tried[than].seconds / tried[than].without;
    return more;
}

Variants
choose_variants(Job *j, const Kernel *k, const bool *constant, bool far, const char *own, Text *remark)
{
    enum { MOST_SYMBOLS = 4 };       /* bounds work: others are as the kernel's own program has them */
    Arena *a = arena_child(j->arena);
    RowSymbols s = { .at = NEW_ARRAY(a, Sym, MOST_SYMBOLS), .cap = MOST_SYMBOLS };
    Candidate tried[1 + MOST_EXPECTED + MOST_SYMBOLS];
    SizeGuard guard;
    uint32_t n = 0, most = MOST_VARIANTS;
    /* As many rows as registers are some tiles of any height, with little left over. */
    int64_t few = j->machine.vector_registers;

    row_symbols(j, k, &s);
    if (s.n)                                         /* the narrowest first: the first that holds runs */
        tried[n++] = try_guard(j, a, k, constant, far, own, guard_of(a, &s, 0, 1));
    for (uint32_t i = 0; s.n && i < MOST_EXPECTED; i++)
        if (guard_expected(j->ctx, a, &s, i, &guard)) {
            tried[n++] = try_guard(j, a, k, constant, far, own, guard);
            most = MOST_VARIANTS + 1;
        }
    for (uint32_t i = 0; i < s.n; i++)
        tried[n++] = try_guard(j, a, k, constant, far, own, guard_of(a, &s, i, few));
    Variants out = { .at = NEW_ARRAY(j->arena, Kernel *, most) };
    for (uint32_t i = 0; i < n && out.n < most; i++) {
        if (!is_gain(&tried[i]) || gain_more(tried, n, i) >= most)
            continue;
        out.at[out.n++] = variant_of(j, k, &tried[i].guard, tried[i].program);
        text_add(remark, "; where ");
        guard_print(remark, &tried[i].guard);
        double gain = tried[i].without / tried[i].seconds;
        text_printf(remark, gain < 1.1 ? " another, %.2g %% faster" : " another, %.3g times as fast", gain < 1.1 ? 100 * (gain - 1) : gain);
    }
    arena_free(a);
    return out;
}
