/* variants: which kernels get further programs for ranges of their sizes.
 *
 * A matrix multiplication whose rows are symbolic may run with one row, a few or many, and a tile
 * that suits one of these is slow at the others. So programs are also priced with all of those
 * symbols 1, with one of them small, and at hinted sizes (--dim-hint). A variant is kept if it is
 * clearly faster there than the kernel's own program; for one row, where the time is that of
 * reading the weights and is predicted more exactly, if another program is faster at all. Variants
 * must use the constant layouts of the kernel's own program. One thread may have a program of its
 * own, at those sizes or at all.
 *
 * Kernels of a program for many requests (SymbolInfo.alike) keep the order of sums in all
 * variants. They may have one for one row, if it is clearly faster. They have none for a hinted
 * size: their batches have all sizes between the hinted ones, so few runs would meet it. They have
 * none for few rows: the order of sums leaves no other tile. On a machine of two cores they have
 * none for one thread: it is half of the own program's price.
 *
 * The answer is a text, each variant with its gain:
 *
 *   1.42 when batch == 1, seq == 1 {
 *   split j by 16 -> jp jv pad
 *   …
 *   }
 *
 * The output points of a convolution count as rows, on either side of its contraction: it is priced
 * for one point of one sample, for a vector of points along each dimension, and at hinted sizes.
 *
 * Variants are ordered from the narrowest guard; the first whose guard holds runs. --variants
 * limits the programs of a kernel: its own and those with the largest gains.
 */
#include "driver/internal.h"

#include <string.h>

/* A program for one thread, or for one request of many, must take less than this share. Most chosen
 * programs are within 5 % of the fastest (./dev bench choices); the rest pays for larger code. */
#define CLEARLY_FASTER 0.9
#define IN_PERCENT 1.1 /* gains below are printed as percentages, others as factors */

/* Both bound work. */
enum {
    /* that count rows; the others are as for the kernel's own program */
    MOST_SYMBOLS = 4,
    /* combinations of hinted sizes */
    MOST_EXPECTED = 4,
    MOST_TRIED = 2 * (2 + MOST_EXPECTED + MOST_SYMBOLS),
    /* of a window and those before it, usually 32 in all: bounds the sizes tried for each point */
    MOST_STRIDE = 64,
};

typedef struct {
    Ctx *c;
    Sym *at;
    uint32_t n, cap;
} RowSymbols;

static void
add_symbols(RowSymbols *s, const Expr *e)
{
    FOR_EACH_VARIABLE (v, e) {
        bool known = v.kind != VAR_SYMBOL || s->n == s->cap;
        for (uint32_t i = 0; i < s->n && !known; i++)
            known = s->at[i] == var_symbol(v);
        if (!known)
            s->at[s->n++] = var_symbol(v);
    }
}

/* Is it a product of symbols? Other sizes, such as what strides leave of a length, are not 1 where
 * their symbol is 1, and may be negative. */
static bool
counts_symbols(const Expr *e)
{
    for (uint32_t i = 0; e->nterm && i < e->term->nfactor; i++)
        if (e->term->factor[i].atom->kind != ATOM_VAR)
            return false;
    return e->nterm == 1;
}

/* The axes of points under a window, which a factor reads together with a summed axis. */
static AxisSet
slides_of(Ctx *c, const Scalar *factor, AxisSet sum)
{
    AxisSet slides = 0;

    FOR_EACH_SCALAR (load, scalar_loads(c, factor))
        for (uint32_t d = 0; d < load->u.load.rank; d++) {
            AxisSet here = expr_axes(load->u.load.at[d]);
            slides |= here & sum ? here & ~sum : 0;
        }
    return slides;
}

typedef struct {
    Sym symbol;
    int64_t size;
} SizePoint;

static bool
size_of(void *user, Var v, int64_t *out)
{
    const SizePoint *p = user;

    *out = v.kind == VAR_SYMBOL && v.id == MAP_PTR(p->symbol) ? p->size : -1;
    return *out >= 0;
}

/* The symbols that count the points of an image, or the frames, that a convolution computes, on
 * either side of its contraction; at most s->cap. points: the extent of an axis that depends on the
 * symbol alone. */
static void
point_symbols(Ctx *c, const Kernel *k, RowSymbols *s, const Expr **points)
{
    Contraction product;

    for (uint32_t i = 0; i < k->npart; i++) {
        const Nest *n = k->part[i].nest;
        if (!nest_contraction(c, n, &product) || !product.row || !product.col)
            continue;
        AxisSet slides =
            slides_of(c, product.a, product.sum) | slides_of(c, product.b, product.sum);
        slides &= product.row | product.col;
        for (uint32_t x = 0; x < n->naxis; x++) {
            uint32_t before = s->n;
            if (slides >> x & 1)
                add_symbols(s, n->axis[x].extent);
            if (s->n > before + 1)
                s->n = before;
            if (s->n > before)
                points[before] = n->axis[x].extent;
        }
    }
}

/* The axes of the rows of a contraction. If its row side is of constant size, as that of a vector
 * or of a convolution's channels is, rows are on its column side: all but the points of an image. A
 * batch of such contractions is attention of one query, whose keys are not rows. */
static AxisSet
rows_of(Ctx *c, const Nest *n, const Contraction *product)
{
    bool vector = true;

    for (uint32_t x = 0; x < n->naxis; x++)
        if (product->row >> x & 1) {
            if (!expr_const(n->axis[x].extent, NULL))
                return product->row;
            vector &= expr_is(n->axis[x].extent, 1);
        }
    return vector && product->batch ? 0
                                    : product->col & ~slides_of(c, product->a, product->sum) &
                                          ~slides_of(c, product->b, product->sum);
}

/* The symbols that count the rows of its contractions, at most s->cap. */
static void
row_symbols(Ctx *c, const Kernel *k, RowSymbols *s)
{
    Contraction product;

    for (uint32_t i = 0; i < k->npart; i++) {
        const Nest *n = k->part[i].nest;
        AxisSet rows = nest_contraction(c, n, &product) ? rows_of(c, n, &product) : 0;
        for (uint32_t x = 0; x < n->naxis; x++)
            if (rows >> x & 1 && counts_symbols(n->axis[x].extent))
                add_symbols(s, n->axis[x].extent);
    }
}

/* ---- one guard ------------------------------------------------------------------------------- */

/* A query for variants of a kernel; own: its own program. alike: variants must add up in the order
 * of that program, `sums`. */
typedef struct {
    Ctx *c;
    Arena *a;
    const Kernel *k;
    const Machine *machine;
    const bool *constant;
    bool far;
    const char *own;
    bool alike;
    const char *sums;
} VariantQuery;

typedef struct {
    SizeGuard guard;
    const char *program;
    double seconds, without;
} Candidate;

/* The same guard for one thread. */
static SizeGuard
on_one_thread(const VariantQuery *q, SizeGuard guard)
{
    SizeBound *at = NEW_ARRAY(q->a, SizeBound, guard.n + 1);

    for (uint32_t i = 0; i < guard.n; i++)
        at[i] = guard.at[i];
    at[guard.n] = (SizeBound){ sym(q->c, THREADS_SYMBOL), 1, 1 };
    return (SizeGuard){ guard.n + 1, at };
}

static bool
sums_alike(const VariantQuery *q, const Kernel *v, const char *program)
{
    const char *sums = q->sums ? schedule_sums_text(q->c, q->a, v, q->machine, program) : NULL;

    return !q->alike || (sums && !strcmp(sums, q->sums));
}

/* The cheapest program whose constants have the own program's layouts, if it is cheaper than
 * `best`. */
static void
take_cheapest(const VariantQuery *q, const Kernel *v, const Choices *choices, bool alone,
              Candidate *best)
{
    for (uint32_t i = 0; i < choices->n; i++) {
        const Choice *x = &choices->at[i];
        double seconds = alone ? x->alone : x->seconds;
        if (seconds < best->seconds && schedule_lays_alike(x->program, q->own) &&
            sums_alike(q, v, x->program)) {
            best->program = x->program;
            best->seconds = seconds;
        }
    }
}

/* The fastest program for one thread under a guard and, if the guard has sizes, the cheapest for
 * any number of threads. Programs with many tasks read the same operands more often, so for one
 * thread the candidates are those of a machine with one core. `without`: what runs otherwise. A
 * candidate that is not faster has no program. The number of candidates. */
static uint32_t
try_guard(const VariantQuery *q, SizeGuard guard, Candidate out[2])
{
    Kernel *v = kernel_variant(q->c, q->a, q->k, guard);
    Machine one_core = *q->machine;
    const char *why;
    Choice base = schedule_price(q->c, q->a, q->k, q->machine, q->own, &guard,
                                 q->far ? q->constant : NULL, &why);
    Candidate *one = &out[0], *any = &out[1];

    *one = (Candidate){ on_one_thread(q, guard), NULL, base.alone, base.alone };
    *any = (Candidate){ guard, NULL, base.seconds, base.seconds };
    if (guard.n) {
        Choices choices = schedule_choices(q->c, q->a, v, q->machine, q->constant, q->far, q->own);
        take_cheapest(q, v, &choices, false, any);
        if (any->program) {
            double alone = schedule_price(q->c, q->a, v, q->machine, any->program, &guard,
                                          q->far ? q->constant : NULL, &why)
                               .alone;
            one->without = one->seconds = alone < base.alone ? alone : base.alone;
        }
    }
    one_core.cores = 1;
    if (q->machine->cores > (q->alike ? 2 : 1)) {
        Choices choices = schedule_choices(q->c, q->a, v, &one_core, q->constant, q->far, q->own);
        take_cheapest(q, v, &choices, true, one);
    }
    return 2;
}

/* ---- a kernel -------------------------------------------------------------------------------- */

/* One symbol is at most `most`, the others are 1. */
static SizeGuard
guard_of(Arena *a, const RowSymbols *s, uint32_t small, int64_t most)
{
    SizeBound *at = NEW_ARRAY(a, SizeBound, s->n);

    for (uint32_t i = 0; i < s->n; i++)
        at[i] = (SizeBound){ s->at[i], i == small && most > 1 ? 0 : 1, i == small ? most : 1 };
    return (SizeGuard){ s->n, at };
}

/* At least one and at most that many points along each dimension of the image. False: there is no
 * such size. */
static bool
guard_of_points(Arena *a, const RowSymbols *s, const Expr *const *points, int64_t most,
                SizeGuard *out)
{
    SizeBound *at = NEW_ARRAY(a, SizeBound, s->n);

    for (uint32_t i = 0; i < s->n; i++) {
        SizePoint p = { .symbol = s->at[i] };
        int64_t n;
        at[i] = (SizeBound){ s->at[i], -1, -1 };
        for (p.size = 0;
             p.size <= MOST_STRIDE * most && expr_eval(points[i], size_of, &p, &n) && n <= most;
             p.size++)
            if (n > 0) {
                at[i].least = at[i].least < 0 ? p.size : at[i].least;
                at[i].most = p.size;
            }
        if (at[i].least < 0)
            return false;
    }
    *out = (SizeGuard){ s->n, at };
    return true;
}

/* The number'th combination of hinted sizes, 1 for symbols without a hint. False: there are fewer,
 * or all are 1. */
static bool
guard_expected(Ctx *c, Arena *a, const RowSymbols *s, uint32_t number, SizeGuard *out)
{
    SizeBound *at = NEW_ARRAY(a, SizeBound, s->n);
    bool any = false;

    for (uint32_t i = 0; i < s->n; i++) {
        SizeHints hints = expr_symbol_hints(c, symbol_var(s->at[i]));
        int64_t size = hints.n ? hints.at[number % hints.n] : 1;
        number = hints.n ? number / hints.n : number;
        at[i] = (SizeBound){ s->at[i], size, size };
        any |= size > 1;
    }
    *out = (SizeGuard){ s->n, at };
    return any && !number;
}

static bool
is_for_one_thread(const SizeGuard *guard)
{
    return guard->n && !strcmp(guard->at[guard->n - 1].symbol, THREADS_SYMBOL);
}

static bool
is_gain(const VariantQuery *q, const Candidate *tried)
{
    bool one_row = true;

    if (!tried->program)
        return false;
    for (uint32_t i = 0; i < tried->guard.n; i++)
        one_row &= tried->guard.at[i].most == 1;
    bool large = q->alike || is_for_one_thread(&tried->guard);
    bool same = !strcmp(tried->program, q->own); /* only its sizes are known */
    double share = !one_row || same ? CLEARLY : large ? CLEARLY_FASTER : 1;
    return tried->seconds <= share * tried->without;
}

/* One point of one sample: then channels are lanes. Of several sizes that give one point it takes
 * the largest, since lengths are multiples of strides. */
static bool
guard_of_one_point(const VariantQuery *q, const RowSymbols *s, const Expr *const *points,
                   SizeGuard *out)
{
    SizeBound *at = NEW_ARRAY(q->a, SizeBound, MOST_SYMBOLS);
    RowSymbols all = { .c = q->c, .at = NEW_ARRAY(q->a, Sym, MOST_SYMBOLS), .cap = MOST_SYMBOLS };
    SizeGuard one;

    if (s->n != 1 || !guard_of_points(q->a, s, points, 1, &one))
        return false;
    at[0] = (SizeBound){ s->at[0], one.at[0].most, one.at[0].most };
    *out = (SizeGuard){ 1, at };
    for (uint32_t i = 0; i < q->k->npart; i++)
        for (uint32_t x = 0; x < q->k->part[i].nest->naxis; x++)
            add_symbols(&all, q->k->part[i].nest->axis[x].extent);
    for (uint32_t i = 0; i < all.n && out->n < MOST_SYMBOLS; i++)
        if (all.at[i] != s->at[0] && expr_symbol_info(q->c, symbol_var(all.at[i]))->size == 1)
            at[out->n++] = (SizeBound){ all.at[i], 1, 1 };
    return true;
}

/* Candidates for few points of an image: for one point, and for a vector of them. Their prices
 * decide. The number of candidates. */
static uint32_t
try_points(const VariantQuery *q, const RowSymbols *s, const Expr *const *points, Candidate *tried)
{
    SizeGuard guard;
    uint32_t n = 0;

    if (guard_of_one_point(q, s, points, &guard))
        n += try_guard(q, guard, tried + n);
    if (guard_of_points(q->a, s, points, machine_lanes(q->machine, DT_F32), &guard))
        n += try_guard(q, guard, tried + n);
    return n;
}

const char *
variants_answer(Ctx *c, Arena *a, const Kernel *k, const Machine *m, const bool *constant, bool far,
                const char *own)
{
    VariantQuery q = { c, a, k, m, constant, far, own, false, NULL };
    RowSymbols s = { .c = c, .at = NEW_ARRAY(a, Sym, MOST_SYMBOLS), .cap = MOST_SYMBOLS };
    const Expr *points[MOST_SYMBOLS] = { NULL };
    Candidate tried[MOST_TRIED];
    Text t = { .arena = a };
    SizeGuard guard;
    uint32_t n = 0;
    /* This many rows are a few tiles of any height, with a small remainder. */
    int64_t few = m->vector_registers;

    point_symbols(c, k, &s, points);
    bool image = s.n > 0;
    if (!image)
        row_symbols(c, k, &s);
    for (uint32_t i = 0; i < k->npart; i++)
        for (uint32_t x = 0; x < k->part[i].nest->naxis; x++)
            FOR_EACH_VARIABLE (v, k->part[i].nest->axis[x].extent)
                q.alike |= v.kind == VAR_SYMBOL && expr_symbol_info(c, v)->alike;
    q.sums = q.alike ? schedule_sums_text(c, a, k, m, own) : NULL;
    if (s.n && !image)
        n += try_guard(&q, guard_of(a, &s, 0, 1), tried + n);
    for (uint32_t i = 0; s.n && !q.alike && i < MOST_EXPECTED; i++)
        if (guard_expected(c, a, &s, i, &guard))
            n += try_guard(&q, guard, tried + n);
    for (uint32_t i = 0; i < s.n && !image && !q.alike; i++)
        n += try_guard(&q, guard_of(a, &s, i, few), tried + n);
    if (image)
        n += try_points(&q, &s, points, tried + n);
    if (!q.alike || m->cores > 2)
        n += try_guard(&q, (SizeGuard){ 0 }, tried + n);
    for (uint32_t i = 0; i < n; i++) {
        if (!is_gain(&q, &tried[i]))
            continue;
        text_printf(&t, "%.17g when ", tried[i].without / tried[i].seconds);
        guard_print(&t, &tried[i].guard);
        text_printf(&t, " {\n%s}\n", tried[i].program);
    }
    return text_str(&t);
}

/* ---- parsing an answer ----------------------------------------------------------------------- */

typedef struct {
    double gain;
    SizeGuard guard;
    const char *program;
} Listed;

Kernel *
variant_of(Job *j, const Kernel *k, const SizeGuard *guard, const char *program)
{
    SizeBound *at = arena_copy(j->arena, guard->at, guard->n * sizeof *at);
    Kernel *v = kernel_variant(j->ctx, j->arena, k, (SizeGuard){ guard->n, at });

    v->schedule = arena_str(j->arena, program);
    return v;
}

/* One variant of an answer; false: the text is damaged. */
static bool
parse_one(Parse *p, Arena *a, Listed *out)
{
    if (!parse_number(p, &out->gain) || !parse_expect(p, "when") ||
        !guard_parse(p, a, &out->guard) || !parse_expect(p, "{"))
        return false;
    const char *steps = p->s + 1, *end = strstr(p->s, "\n}\n");
    if (!end)
        return false;
    out->program = arena_printf(a, "%.*s", (int)(end + 1 - steps), steps);
    p->s = end + strlen("\n}\n");
    return true;
}

/* The rank of a variant: guards of sizes alone are before those for one thread, then larger gains
 * are first. */
static uint32_t
come_before(const Listed *at, uint32_t n, uint32_t than)
{
    bool one = is_for_one_thread(&at[than].guard);
    uint32_t before = 0;

    for (uint32_t i = 0; i < n; i++)
        before += is_for_one_thread(&at[i].guard) == one ? at[i].gain > at[than].gain : one;
    return before;
}

static void
add_variant(Job *j, const Kernel *k, const Listed *v, Variants *out, Text *remark)
{
    SizeBound *at = arena_copy(j->arena, v->guard.at, v->guard.n * sizeof *at);

    for (uint32_t i = 0; i < v->guard.n; i++)
        at[i].symbol = sym(j->ctx, at[i].symbol);
    SizeGuard guard = { v->guard.n, at };
    out->at[out->n++] = variant_of(j, k, &guard, v->program);
    text_add(remark, "; where ");
    guard_print(remark, &guard);
    if (v->gain < IN_PERCENT)
        text_printf(remark, " another, %.2g %% faster", 100 * (v->gain - 1));
    else
        text_printf(remark, " another, %.3g times as fast", v->gain);
}

bool
variants_parse(Job *j, const Kernel *k, const char *answer, Variants *out, Text *remark)
{
    Arena *scratch = arena_child(j->arena);
    Ctx *c = NEW(scratch, Ctx); /* errors in a damaged file are not reported */
    Listed at[MOST_TRIED];
    uint32_t n = 0, most = (uint32_t)j->o->variants - 1;
    bool ok = true;

    ctx_init(c, scratch);
    Parse p = parse_begin(c, "an answer", (Bytes){ (const uint8_t *)answer, strlen(answer) });
    for (; ok && !parse_end(&p); n += ok)
        ok = n < MOST_TRIED && parse_one(&p, scratch, &at[n]);
    *out = (Variants){ .at = NEW_ARRAY(j->arena, Kernel *, n + 1) };
    for (uint32_t i = 0; i < n && ok && out->n < most; i++)
        if (come_before(at, n, i) < most)
            add_variant(j, k, &at[i], out, remark);
    arena_free(scratch);
    return ok;
}
