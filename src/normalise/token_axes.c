/* token_axes: how the axes of a nest run along the tokens of its operands and results (tokens.h).
 *
 * A dimension may count several things at once: sequences and heads in q[b*H + h, i, j], columns
 * and sequences in h[j*n + b, d]. An axis along it is split at its digits,
 *
 *     s[n, i, j] = sum k: q[n, i, k] * e[n, k, j]
 *     s[H*b + h, i, j] = sum k: q[H*b + h, i, k] * e[H*b + h, k, j]
 *
 * after which every axis counts one thing, and the digits of an index are quotients and remainders
 * that the ranges of the axes decide: (H*b + h) // H is b. So a model's form is found by
 * arithmetic, and no form is known by name.
 */
#include "algebra/algebra.h"
#include "normalise/tokens.h"

#include "nest/walk.h"

static bool
same(const TokenMap *m, const Expr *a, const Expr *b)
{
    return expr_eq(m->c, NULL, a, b) == YES;
}

/* ---- digits ---------------------------------------------------------------------------------- */

static bool
is_last_of_dim(const Tokens *t, uint32_t i)
{
    return i + 1 == t->ndigit || t->digit[i + 1].dim != t->digit[i].dim;
}

static bool
is_first_of_dim(const Tokens *t, uint32_t i)
{
    return !i || t->digit[i - 1].dim != t->digit[i].dim;
}

void
tokens_digits(const TokenMap *m, const Nest *n, const Tokens *t, const Expr *const *at,
              const Expr **digit)
{
    Ctx *c = m->c;
    const Expr *rest = NULL;
    Ranges ranges = nest_ranges(c, m->a, n);

    for (uint32_t i = t->ndigit; i-- > 0;) {
        rest = is_last_of_dim(t, i) ? at[t->digit[i].dim] : rest;
        if (is_first_of_dim(t, i)) {
            digit[i] = rest;
            continue;
        }
        digit[i] = expr_simplify(c, &ranges, expr_mod(c, rest, t->digit[i].extent));
        rest = expr_simplify(c, &ranges, expr_div(c, rest, t->digit[i].extent));
    }
}

const Expr *
tokens_index(Ctx *c, const Tokens *t, uint32_t dim, const Expr *const *digit)
{
    const Expr *e = expr_int(c, 0);

    for (uint32_t i = 0; i < t->ndigit; i++)
        if (t->digit[i].dim == dim)
            e = expr_add(c, expr_mul(c, e, t->digit[i].extent), digit[i]);
    return e;
}

Tokens
tokens_by_shape(const TokenMap *m, const Type *t)
{
    bool rows = t->rank >= 2 && same(m, t->dim[0], m->batch) && same(m, t->dim[1], m->length);
    bool turned = t->rank >= 2 && same(m, t->dim[0], m->length) && same(m, t->dim[1], m->batch);
    TokenDigit *digit;

    if (!rows && !turned)
        return (Tokens){ .count = 0 };
    digit = NEW_ARRAY(m->a, TokenDigit, t->rank);
    for (uint32_t d = 0; d < t->rank; d++)
        digit[d] = (TokenDigit){ (uint8_t)d, DIGIT_NEITHER, t->dim[d] };
    digit[!rows].counts = DIGIT_SEQUENCE;
    digit[rows].counts = DIGIT_TOKEN;
    return (Tokens){ .count = 1, .ndigit = (uint8_t)t->rank, .digit = digit };
}

/* ---- splitting ------------------------------------------------------------------------------- */

typedef struct {
    const TokenMap *m;
    const Nest *n;
    uint32_t axis;
    const Expr *divisor;
} Split;

/* Splits axis x in steps of `by`, if that is a digit of it. */
static void
split_at(Split *s, uint32_t x, const Expr *by)
{
    const Axis *a = &s->n->axis[x];
    bool proper = by && !expr_is(by, 1) && by != a->extent && !expr_axes(by) &&
                  !expr_uses_kind(by, VAR_COMPUTED);

    if (!s->divisor && proper && a->kind != AXIS_SCAN && expr_exact_div(s->m->c, a->extent, by)) {
        s->axis = x;
        s->divisor = by;
    }
}

/* Splits where an index has the quotient or the remainder of an axis. */
static void
split_quotients(Split *s, const Expr *e)
{
    Var v;

    for (uint32_t i = 0; i < e->nterm; i++)
        for (uint32_t f = 0; f < e->term[i].nfactor; f++) {
            const Atom *a = e->term[i].factor[f].atom;
            if ((a->kind == ATOM_DIV || a->kind == ATOM_MOD) && expr_is_var(a->arg[0], &v) &&
                v.kind == VAR_AXIS)
                split_at(s, (uint32_t)v.id, a->arg[1]);
        }
}

/* Splits where a digit of a dimension begins within an axis that runs along it. */
static void
split_index(Split *s, const Tokens *t, const Expr *const *at)
{
    Ctx *c = s->m->c;
    const Expr *step = NULL, *coef, *rest;
    bool tokens = false;

    for (uint32_t i = t->ndigit; i-- > 0;) {
        const Expr *e = at[t->digit[i].dim];
        step = is_last_of_dim(t, i) ? expr_int(c, 1) : step;
        tokens = t->digit[i].counts != DIGIT_NEITHER || (tokens && !is_last_of_dim(t, i));
        for (uint32_t x = 0; x < s->n->naxis && !is_last_of_dim(t, i); x++)
            if (expr_axes(e) >> x & 1 && expr_linear(c, e, (Var){ VAR_AXIS, x }, &coef, &rest))
                split_at(s, x, expr_exact_div(c, step, coef));
        step = expr_mul(c, step, t->digit[i].extent);
        if (is_first_of_dim(t, i) && tokens)
            split_quotients(s, e);
    }
}

static const Nest *
split(const Split *s)
{
    Ctx *c = s->m->c;
    NestEdit e = nest_edit(c, s->n, 1, 0);

    nest_edit_split(c, &e, s->axis, s->divisor);
    const Nest *n = nest_edit_done(c, &e);
    return n ? nest_simplify(c, n) : NULL;
}

const Nest *
tokens_split(const TokenMap *m, const Nest *n, const ValueId *in, const Tokens *out)
{
    while (n && n->naxis < NEST_MAX_AXES) {
        Accesses reads = nest_accesses(m->c, m->a, n);
        Split s = { .m = m, .n = n };
        for (uint32_t i = 0; i < reads.n; i++) {
            uint32_t slot = reads.at[i].load->u.load.slot;
            if (slot < n->nin && m->of[in[slot]].count)
                split_index(&s, &m->of[in[slot]], reads.at[i].load->u.load.at);
        }
        if (out && out->count)
            split_index(&s, out, n->write[0].at);
        if (!s.divisor)
            break;
        n = split(&s);
    }
    return n;
}

/* ---- how axes run ---------------------------------------------------------------------------- */

/* The axis that e is, of that extent; NO_SLOT: another expression. */
static uint32_t
axis_along(const TokenMap *m, const Nest *n, const Expr *e, const Expr *extent)
{
    uint32_t axis = axis_of(e);
    return axis != NO_SLOT && same(m, n->axis[axis].extent, extent) ? axis : NO_SLOT;
}

/* The axes of one index of tokens. False: another form of index. */
static bool
axes_at(const TokenMap *m, const Nest *n, const Tokens *t, const Expr *const *at, TokenRead *out)
{
    *out = (TokenRead){ .batch = NO_SLOT, .axis = { NO_SLOT, NO_SLOT } };
    tokens_digits(m, n, t, at, out->digit);
    for (uint32_t i = 0; i < t->ndigit; i++)
        if (t->digit[i].counts == DIGIT_SEQUENCE) {
            out->sequence = out->digit[i];
            out->batch = axis_along(m, n, out->sequence, m->batch);
        }
    for (uint32_t i = 0; i < t->ndigit && out->batch != NO_SLOT; i++) {
        if (t->digit[i].counts < DIGIT_TOKEN)
            continue;
        uint32_t x = axis_along(m, n, out->digit[i], m->length);
        out->axis[t->digit[i].counts - DIGIT_TOKEN] = x;
        out->column = out->digit[i];
        out->at_place |= x == NO_SLOT;
    }
    return out->batch != NO_SLOT &&
           !(out->at_place && (t->count > 1 || expr_axes(out->column) & ~axis_one(out->batch)));
}

bool
tokens_read(const TokenMap *m, const Nest *n, const Runs *runs, const Tokens *t,
            const Expr *const *at, TokenRead *out)
{
    if (!axes_at(m, n, t, at, out))
        return false;
    for (uint32_t k = 0; k < t->count && !out->at_place; k++) {
        uint32_t x = out->axis[k];
        if (runs->run[x] != RUNS_COLUMNS || runs->sequence[x] != out->batch)
            return false;
    }
    return runs->run[out->batch] == RUNS_SEQUENCES;
}

static bool
run_as(Runs *r, uint32_t x, RunKind run, uint32_t sequence)
{
    bool fits = r->run[x] == RUNS_ELSEWHERE ||
                (r->run[x] == run && (run != RUNS_COLUMNS || r->sequence[x] == sequence));

    r->run[x] = run;
    r->sequence[x] = (uint8_t)sequence;
    return fits;
}

/* Sets how the axes of one index of tokens run. */
static bool
run_at(const TokenMap *m, const Nest *n, Runs *r, const Tokens *t, const Expr *const *at)
{
    TokenRead read;

    if (!axes_at(m, n, t, at, &read) || n->axis[read.batch].kind != AXIS_PARALLEL ||
        !run_as(r, read.batch, RUNS_SEQUENCES, 0))
        return false;
    for (uint32_t k = 0; k < t->count && !read.at_place; k++)
        if (!run_as(r, read.axis[k], RUNS_COLUMNS, read.batch))
            return false;
    return true;
}

Runs
tokens_runs(const TokenMap *m, const Nest *n, const ValueId *in, const Tokens *out)
{
    Accesses reads = nest_accesses(m->c, m->a, n);
    Runs r = { .why = NULL };

    for (uint32_t i = 0; i < reads.n && !r.why; i++) {
        const Scalar *load = reads.at[i].load;
        const Tokens *t = load->u.load.slot < n->nin ? &m->of[in[load->u.load.slot]] : NULL;
        if (t && t->count && (load->u.load.outside || !run_at(m, n, &r, t, load->u.load.at)))
            r.why = "reads tokens in an order of its own";
    }
    if (out && out->count && !r.why && !run_at(m, n, &r, out, n->write[0].at))
        r.why = "writes tokens in an order of its own";
    return r;
}

/* ---- what is written ------------------------------------------------------------------------- */

/* One more digit of dimension d; adjacent digits that count neither sequences nor tokens are
 * merged. False: too many. */
static bool
add_digit(const TokenMap *m, Tokens *t, TokenDigit *digit, uint32_t d, Counts counts,
          const Expr *extent)
{
    TokenDigit *last = t->ndigit ? &digit[t->ndigit - 1] : NULL;

    if (last && last->dim == d && last->counts == DIGIT_NEITHER && counts == DIGIT_NEITHER) {
        last->extent = expr_mul(m->c, last->extent, extent);
        return true;
    }
    if (t->ndigit == MOST_DIGITS)
        return false;
    digit[t->ndigit++] = (TokenDigit){ (uint8_t)d, counts, extent };
    return true;
}

const char *
tokens_written(const TokenMap *m, const Nest *n, const Runs *r, Tokens *out)
{
    const Write *w = &n->write[0];
    const Type *type = n->param[w->out].type;
    TokenDigit *digit = NEW_ARRAY(m->a, TokenDigit, MOST_DIGITS);
    AxisSet placed = 0;
    bool sequences = false;

    *out = (Tokens){ .digit = digit };
    for (uint32_t d = 0; d < type->rank; d++) {
        uint32_t axis[NEST_MAX_AXES], count = write_digits(m->c, n, w, d, axis);
        if (!count && !add_digit(m, out, digit, d, DIGIT_NEITHER, type->dim[d]))
            return "has too many dimensions";
        for (uint32_t i = 0; i < count; i++) {
            RunKind run = r->run[axis[i]];
            Counts counts = run == RUNS_SEQUENCES ? DIGIT_SEQUENCE
                            : run == RUNS_COLUMNS ? DIGIT_TOKEN + out->count++
                                                  : DIGIT_NEITHER;
            if (out->count > 2 || (run == RUNS_SEQUENCES && sequences))
                return "has tokens along too many dimensions";
            if (!add_digit(m, out, digit, d, counts, n->axis[axis[i]].extent))
                return "has too many dimensions";
            sequences |= run == RUNS_SEQUENCES;
            placed |= axis_one(axis[i]);
        }
    }
    for (uint32_t x = 0; x < n->naxis; x++)
        if (n->axis[x].kind == AXIS_PARALLEL && r->run[x] == RUNS_COLUMNS && !(placed >> x & 1))
            return "mixes tokens with other dimensions";
    if (out->count && !sequences)
        return "has tokens without their sequences";
    out->ndigit = out->count ? out->ndigit : 0;
    return NULL;
}
