/* schedule: the programs of a kernel, their prices, and the choice. */
#include "cost/cost.h"
#include "schedule/write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A copy that can be given formats and a tree without changing the kernel. */
static Kernel
kernel_copy(Arena *a, const Kernel *k)
{
    Kernel copy = *k;

    copy.buffer.at = arena_copy(a, k->buffer.at, k->buffer.n * sizeof *k->buffer.at);
    copy.buffer.cap = k->buffer.n;
    copy.tree = (Block){ .arena = a };
    copy.nloop = 0;
    copy.nvariant = 0;
    return copy;
}

bool
schedule_build_text(Ctx *c, Arena *a, Kernel *k, const Machine *m, const char *text,
                    const char **why)
{
    Program program;

    *why = "its text does not parse";
    return program_parse(c, a, k, text, &program) && schedule_build(c, a, k, m, &program, why);
}

static int
by_price(const void *a, const void *b)
{
    const Choice *x = a, *y = b;

    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

enum {
    /* hinted symbols; bounds work: others are at their largest hint */
    MOST_EXPECTED = 4,
    /* combinations of sizes at which a program is priced; bounds work */
    MOST_POINTS = 16,
};

typedef struct {
    Ctx *c;
    const SizeGuard *where;
    Size *size;                     /* those of the guard, then hinted ones */
    SizeHints hints[MOST_EXPECTED]; /* hints of the latter */
    uint32_t nsize;
} PricedSizes;

static void
add_expected(PricedSizes *s, Var v)
{
    SizeHints hints = v.kind == VAR_SYMBOL ? expr_symbol_hints(s->c, v) : (SizeHints){ 0 };
    Sym symbol = var_symbol(v);

    for (uint32_t i = 0; i < s->nsize; i++)
        if (s->size[i].symbol == symbol)
            return;
    if (!hints.n || s->nsize - s->where->n == MOST_EXPECTED)
        return;
    s->hints[s->nsize - s->where->n] = hints;
    s->size[s->nsize++] = (Size){ symbol, hints.at[0] };
}

/* The middle of the guard's bounds, and the first hints of other symbols. */
static PricedSizes
sizes_of(Ctx *c, Arena *a, const Kernel *k, const SizeGuard *where)
{
    PricedSizes s = { .c = c,
                      .where = where,
                      .size = NEW_ARRAY(a, Size, where->n + MOST_EXPECTED),
                      .nsize = where->n };

    for (uint32_t i = 0; i < where->n; i++)
        s.size[i] = (Size){ where->at[i].symbol,
                            where->at[i].least + (where->at[i].most - where->at[i].least) / 2 };
    for (uint32_t b = 0; b < k->nin + k->nout; b++)
        for (uint32_t d = 0; d < k->buffer.at[b].type->rank; d++)
            FOR_EACH_VARIABLE (v, k->buffer.at[b].type->dim[d])
                add_expected(&s, v);
    return s;
}

/* The next combination of hinted sizes: an odometer, the first symbol fastest. */
static bool
next_sizes(PricedSizes *s)
{
    for (uint32_t i = s->where->n; i < s->nsize; i++) {
        const SizeHints *u = &s->hints[i - s->where->n];
        uint32_t at = 0;
        while (u->at[at] != s->size[i].value)
            at++;
        s->size[i].value = u->at[++at < u->n ? at : 0];
        if (at < u->n)
            return true;
    }
    return false;
}

/* The kernels that a program makes of k: one, or one for each separate part. NULL, with the reason:
 * the program does not fit. */
static Kernel *
build_pieces(Ctx *c, Arena *a, const Kernel *k, const Machine *m, const Program *program,
             uint32_t n, const char **why)
{
    Kernel *piece = NEW_ARRAY(a, Kernel, n);

    for (uint32_t i = 0; i < n; i++) {
        piece[i] = kernel_copy(a, k);
        if (!schedule_build_part(c, a, &piece[i], m, program, i, why))
            return NULL;
    }
    return piece;
}

/* The sum of sequential kernels, except for the call and the wake-up of threads, which occur
 * once. */
static double
seconds_of(Ctx *c, const Kernel *piece, uint32_t n, const Machine *m, const CostQuery *query)
{
    double sum = 0;
    bool woken = false;

    for (uint32_t i = 0; i < n; i++) {
        Cost cost = cost_kernel(c, &piece[i], m, query);
        sum += cost.seconds - (i ? cost.startup : 0) -
               (woken && cost.parallel > 0 ? m->wake_seconds : 0);
        woken |= cost.parallel > 0;
    }
    return sum;
}

/* Seconds: the mean of one core's time and of the time of all cores together, over the hinted
 * sizes. */
Choice
schedule_price(Ctx *c, Arena *a, const Kernel *k, const Machine *m, const char *program,
               const SizeGuard *where, const bool *far, const char **why)
{
    Kernel built = kernel_copy(a, k), *piece = &built;
    Program steps;

    *why = "its text does not parse";
    if (!program_parse(c, a, k, program, &steps) || !schedule_build(c, a, &built, m, &steps, why))
        return (Choice){ .seconds = -1 };
    uint32_t n = schedule_pieces(k, &steps);
    if (n > 1 && !(piece = build_pieces(c, a, k, m, &steps, n, why)))
        return (Choice){ .seconds = -1 };
    PricedSizes sizes = sizes_of(c, a, k, where);
    double alone = 0, all = 0, straight = 0;
    uint32_t points = 0;
    for (uint32_t i = 0; i < n; i++) {
        double here = kernel_straight_code(c, &piece[i]);
        straight = here > straight ? here : straight;
    }
    do {
        CostQuery query = { .size = sizes.size, .nsize = sizes.nsize, .threads = 1, .far = far };
        double one = seconds_of(c, piece, n, m, &query);
        query.threads = m->cores;
        alone += one;
        all += m->cores > 1 ? m->cores * seconds_of(c, piece, n, m, &query) : one;
        points++;
    } while (points < MOST_POINTS && next_sizes(&sizes));
    return (Choice){ .program = built.schedule,
                     .seconds = (alone + all) / 2 / points,
                     .alone = alone / points,
                     .straight = straight };
}

/* The sizes at which a kernel's own program is priced: if a side of a contraction is short at the
 * assumed sizes, its samples are EXPR_SUPPOSED. One sample has a variant. */
static SizeGuard
many_samples(Ctx *c, Arena *a, const Kernel *k)
{
    SymbolSet s = { .seen.arena = a };
    VEC(SizeBound) samples = { 0 };
    Contraction product;

    for (uint32_t i = 0; i < k->npart && !k->guard.n; i++) {
        const Nest *n = k->part[i].nest;
        if (!nest_contraction(c, n, &product))
            continue;
        const AxisSet side[] = { product.row, product.col };
        for (uint32_t e = 0; e < 2; e++) {
            double points = 1;
            for (uint32_t x = 0; x < n->naxis; x++)
                points *= side[e] >> x & 1 ? cost_expected_size(c, n->axis[x].extent) : 1;
            for (uint32_t x = 0; x < n->naxis && points < EXPR_SUPPOSED; x++)
                if (side[e] >> x & 1)
                    expr_symbols(&s, n->axis[x].extent);
        }
    }
    /* Symbols that count samples are priced at the size of an unknown symbol. */
    for (uint32_t i = 0; i < s.n; i++) {
        Var v = symbol_var(s.at[i]);
        int64_t size = expr_symbol_info(c, v)->size;
        if (size >= 0 && size < EXPR_SUPPOSED && !expr_symbol_hints(c, v).n)
            VEC_PUSH(a, &samples, ((SizeBound){ s.at[i], EXPR_SUPPOSED, EXPR_SUPPOSED }));
    }
    return (SizeGuard){ samples.n, samples.at };
}

/* The most operations that a program may have without a loop in between, if another program has
 * fewer. GCC's time grows more than quadratically: GCC 12 takes 2 s on a Zen 4 core for 10,000 of
 * them (a window of 32 points, 20 sums), 13 s for 20,000. The models of bench/ have at most
 * 1,200. */
enum { MOST_STRAIGHT = 8192 };

static double
least_straight(const Choices *list)
{
    double least = INFINITY;

    for (uint32_t i = 0; i < list->n; i++)
        least = list->at[i].straight < least ? list->at[i].straight : least;
    return least;
}

/* Drops programs that are too long for a C compiler. */
static void
drop_long_code(Choices *list)
{
    double least = least_straight(list), most = least > MOST_STRAIGHT ? least : MOST_STRAIGHT;
    uint32_t n = 0;

    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i].straight <= most)
            list->at[n++] = list->at[i];
    list->n = n;
}

/* Carries out the programs written since the last call. */
static void
price_programs(Draft *w, const Kernel *k, const SizeGuard *where, bool far, Choices *out)
{
    const Machine *m = w->p->m;
    Choice *before = out->at;

    out->at = NEW_ARRAY(w->a, Choice, w->program.n);
    if (out->n)
        memcpy(out->at, before, out->n * sizeof *before);
    for (uint32_t i = w->priced; i < w->program.n; i++) {
        const char *why;
        Choice choice = schedule_price(w->c, w->a, k, m, w->program.at[i], where,
                                       far ? w->constant : NULL, &why);
        if (choice.seconds < 0) {
            out->refused =
                arena_printf(w->a, "%s%sprogram %u: %s", out->refused ? out->refused : "",
                             out->refused ? "\n" : "", i, why);
            continue;
        }
        choice.number = i;
        out->at[out->n++] = choice;
    }
    w->priced = w->program.n;
}

/* The next line of a program that gives the layout of a constant; NULL: none. */
static const char *
next_lay(const char *at)
{
    for (; at && *at; at = strchr(at, '\n'), at += at != NULL)
        if (!strncmp(at, "lay ", 4))
            return at;
    return NULL;
}

bool
schedule_lays_alike(const char *program, const char *other)
{
    const char *x = next_lay(program), *y = next_lay(other);

    for (; x && y; x = next_lay(x + 4), y = next_lay(y + 4)) {
        size_t n = strcspn(x, "\n");
        if (n != strcspn(y, "\n") || memcmp(x, y, n))
            return false;
    }
    return !x && !y;
}

/* Of programs with equal prices the first is chosen. Copies of all others come last. */
static void (*const writers[])(Draft *w) = {
    write_independent, write_two_sided, write_group, write_scaled,
    write_contraction, write_gemv,      write_dots,  write_window_channels,
    write_window,      write_transpose, write_rows,  write_skips,
};

Choices
schedule_choices(Ctx *c, Arena *a, const Kernel *k, const Machine *m, const bool *constant,
                 bool far, const char *like)
{
    Kernel begin = kernel_copy(a, k);
    bool *none = NEW_ARRAY(a, bool, k->nin + 1);
    Draft w = { .c = c, .a = a, .constant = constant ? constant : none, .far = far, .like = like };
    Choices out = { .refused = NULL };
    SizeGuard many = many_samples(c, a, k), where = many.n ? many : k->guard;

    draft_begin(&w, &begin, m);
    for (uint32_t i = 0; i < sizeof writers / sizeof *writers; i++)
        writers[i](&w);
    price_programs(&w, k, &where, far && constant, &out);
    if (!out.n) {
        draft_begin(&w, &begin, m);
        write_default(&w);
        price_programs(&w, k, &where, far && constant, &out);
    }
    drop_long_code(&out);
    qsort(out.at, out.n, sizeof *out.at, by_price);
    /* prices are reported at the assumed sizes, as for other kernels */
    for (uint32_t i = 0; i < out.n && many.n; i++) {
        const char *why;
        Choice hints = schedule_price(c, a, k, m, out.at[i].program, &k->guard,
                                      far && constant ? constant : NULL, &why);
        out.at[i].seconds = hints.seconds;
        out.at[i].alone = hints.alone;
    }
    return out;
}

const Format *const *
schedule_formats(Ctx *c, Arena *a, const Kernel *k)
{
    const Format **out = NEW_ARRAY(a, const Format *, k->nin + 1);
    Arena *scratch = arena_child(a);
    Program program;
    bool ok = k->schedule && program_parse(c, scratch, k, k->schedule, &program);

    for (uint32_t i = 0; ok && i < program.step.n; i++)
        for (uint32_t b = 0; b < k->nin; b++)
            if (program.step.at[i].verb == VERB_lay &&
                k->buffer.at[b].name == program.step.at[i].subject)
                out[b] = program.step.at[i].format;
    arena_free(scratch);
    return ok ? out : NULL;
}

const char *
schedule_sums_text(Ctx *c, Arena *a, const Kernel *k, const Machine *m, const char *program)
{
    Kernel own = kernel_copy(a, k);
    Text t = { .arena = a };
    Program steps;

    return program_parse(c, a, k, program, &steps) && schedule_sums(c, a, &own, m, &steps, &t)
               ? text_str(&t)
               : NULL;
}

/* The kernel, or its variant v; at the step that is refused. */
static bool
does_not_fit(Ctx *c, const Kernel *k, const Kernel *v, const Program *program, const char *why)
{
    Text when = { .arena = c->arena };
    Loc loc = program->fault && program->fault->file && v->written ? *program->fault : (Loc){ 0 };

    loc.node = arena_printf(c->arena, "kernel %s", k->name);
    if (v->guard.n)
        text_add(&when, " where ");
    guard_print(&when, &v->guard);
    return diag_error(&c->diags, DIAG_USAGE, loc, "its schedule%s does not fit: %s",
                      text_str(&when), why);
}

static const char *
plain_program(Ctx *c, Arena *a, const Kernel *k, const Machine *m)
{
    Kernel begin = kernel_copy(a, k);
    Draft w = { .c = c, .a = a };

    draft_begin(&w, &begin, m);
    write_default(&w);
    return w.program.at[0];
}

/* A variant by its program. It shares the kernel's arguments, so constants have the layouts of the
 * kernel's program. */
static bool
schedule_variant(Ctx *c, Arena *a, const Kernel *k, Kernel *v, const Machine *m)
{
    Text when = { .arena = a };
    const char *why = "it has no schedule";
    Program program = { 0 };

    guard_print(&when, &v->guard);
    for (uint32_t i = 0; i < k->nin; i++)
        v->buffer.at[i].format = k->buffer.at[i].format;
    if (v->schedule && !program_parse(c, a, v, v->schedule, &program))
        return false;
    if (!v->schedule || !schedule_build(c, a, v, m, &program, &why))
        return does_not_fit(c, k, v, &program, why);
    for (uint32_t i = 0; i < k->nin; i++)
        if (!format_same(v->buffer.at[i].format, k->buffer.at[i].format))
            return diag_error(&c->diags, DIAG_USAGE, (Loc){ .node = k->name },
                              "where %s, the schedule of this kernel lays %s otherwise than its "
                              "first schedule does: say the same in both",
                              text_str(&when), k->buffer.at[i].name);
    return true;
}

bool
schedule_kernel(Ctx *c, Arena *a, Kernel *k, const Machine *m, ScheduleLevel level)
{
    const char *why;
    Program program;

    k->tree = (Block){ .arena = a };
    k->nloop = 0;
    if (level == SCHEDULE_BEST && !k->schedule) {
        Choices choices = schedule_choices(c, a, k, m, NULL, false, NULL);
        k->schedule = choices.n ? choices.at[0].program : NULL;
    }
    if (level == SCHEDULE_PLAIN) {
        k->schedule = plain_program(c, a, k, m);
        k->nvariant = 0;
    }
    if (!program_parse(c, a, k, k->schedule, &program))
        return false;
    if (!schedule_build(c, a, k, m, &program, &why))
        return does_not_fit(c, k, k, &program, why);
    for (uint32_t i = 0; i < k->nvariant; i++)
        if (!schedule_variant(c, a, k, k->variant[i], m))
            return false;
    return true;
}
