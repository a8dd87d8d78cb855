/* mapping: how the elements a nest reads relate to the points it writes.
 *
 * Nothing here knows an operator. A read's indices are split into digits: an axis that appears as
 * i // s and i % s is really two axes, and every index row becomes a sum of digits with constant
 * coefficients. Two questions then decide the type: do several elements meet in one point (a
 * reduction digit is used), and does one element reach several points (a parallel digit is used by
 * no row, or a window s*p + d*r overlaps itself)?
 *
 *     rows                     parallel digits all used?   verdict
 *     x[i, j]                  yes                         id
 *     x[j, i]                  yes                         perm
 *     x[i // 2]                i % 2 is not                repeat
 *     x[2*y + r], r < 2        yes, 2*dy + dr = 0 only 0   red
 *     x[2*y + r], r < 3        yes, overlap                win
 *     x[i, k] of o[i, j]       j is not                    contr
 *
 * With symbolic extents "more than one" is assumed and "no overlap" must be proved. What the closed
 * form does not decide is MAP_UNKNOWN. tests/unit/test_mapping.c compares it with enumeration.
 *
 * Source: doc/fusion.md; DNNFusion (Niu et al., PLDI 2021) for the five types refined here.
 */
#include <stdlib.h>

#include "nest/walk.h"

const char *const mapping_name[MAP_COUNT] = {
    "id",     "part", "perm", "relayout", "inj",  "bcast",   "repeat",
    "gather", "red",  "win",  "contr",    "scan", "unknown",
};

#define MANY INT64_MAX /* an extent that is not a number: more than one is assumed */
#define MAX_CUTS 6
#define MAX_DIGITS 96
#define MAX_TERMS 16

typedef struct {
    uint32_t naxis, ncut[NEST_MAX_AXES];
    int64_t cut[NEST_MAX_AXES][MAX_CUTS];
} Cuts;
typedef struct {
    uint32_t axis;
    int64_t step, extent;
    uint32_t row;
    bool reduce, twice;
} MapDigit;
typedef struct {
    uint32_t digit;
    int64_t coef;
} LinearTerm;
typedef struct {
    uint32_t n;
    LinearTerm at[MAX_TERMS];
    bool hard;
} LinearIndex;
/* (axis // lo) % (hi / lo); hi 0: no mod */
typedef struct {
    uint32_t axis;
    int64_t lo, hi;
} AxisSlice;

#define NO_ROW UINT32_MAX

/* ---- the nest, prepared ---------------------------------------------------------------------- */

typedef struct {
    Ctx *ctx;
    const Nest *nest;
    const Write *write;
    const Scalar *load;
    const Type *type;            /* of the tensor read */
    AxisSet reduce, one;         /* one: axes of extent 1 */
    const Expr *at[TN_MAX_RANK]; /* the read, with axes of extent 1 replaced by their begin */
    const Expr *to[TN_MAX_RANK]; /* the write, likewise */
} MapQuery;

static void
prepare(MapQuery *q, Ranges r)
{
    const Nest *n = q->nest;
    Binding bind[NEST_MAX_AXES];
    uint32_t nb = 0;

    for (uint32_t k = 0; k < n->naxis; k++)
        if (expr_is(n->axis[k].extent, 1)) {
            q->one |= axis_one(k);
            bind[nb++] = (Binding){ { VAR_AXIS, k }, expr_int(q->ctx, 0) };
        }
    for (uint32_t d = 0; d < q->load->u.load.rank; d++)
        q->at[d] = expr_simplify(q->ctx, &r, expr_subst(q->ctx, q->load->u.load.at[d], bind, nb));
    for (uint32_t d = 0; d < n->param[q->write->out].type->rank; d++)
        q->to[d] = expr_subst(q->ctx, q->write->at[d], bind, nb);
}

/* ---- simple rows: each one axis, with a step and an offset ----------------------------------- */

/* Every mod written as a - b * (a // b), so that (a // b) * b + a % b cancels to a. */
static const Expr *
without_mod(void *user, const Atom *m)
{
    Ctx *c = user;

    if (m->kind != ATOM_DIV && m->kind != ATOM_MOD)
        return expr_of_atom(m);
    const Expr *a = expr_map_atoms(c, m->arg[0], without_mod, c),
               *b = expr_map_atoms(c, m->arg[1], without_mod, c), *quotient = expr_div(c, a, b);
    return m->kind == ATOM_DIV ? quotient : expr_sub(c, a, expr_mul(c, b, quotient));
}

/* As many elements as points, and row-major offsets that differ by a constant: the same order. */
static bool
same_linear_order(const MapQuery *q, Ranges r)
{
    Ctx *c = q->ctx;
    const Type *out = q->nest->param[q->write->out].type;
    if (expr_eq(c, NULL, type_count(c, q->type), type_count(c, out)) != YES)
        return false;
    const Expr *from = type_offset(c, q->type, q->at), *to = type_offset(c, out, q->to);
    const Expr *diff =
        expr_sub(c, expr_map_atoms(c, from, without_mod, c), expr_map_atoms(c, to, without_mod, c));

    return expr_const(diff, NULL) || expr_const(expr_simplify(c, &r, diff), NULL);
}

/* The types whose rows are single axes: id, part, perm, relayout. MAP_UNKNOWN: not of this
 * family. */
static MappingType
simple_type(const MapQuery *q, Ranges r)
{
    const Type *out = q->nest->param[q->write->out].type;
    AxisSet want = 0, seen = 0;
    uint32_t order[NEST_MAX_AXES] = { 0 }, position = 0, last = 0;
    bool in_order = true, exact = true, same_shape = q->type->rank == out->rank;

    for (uint32_t d = 0; d < out->rank; d++) {
        want |= axis_bit(q->to[d]);
        if (axis_bit(q->to[d]))
            order[axis_of(q->to[d])] = ++position;
    }
    for (uint32_t d = 0; d < q->type->rank; d++) {
        AxisSet used = expr_axes(q->at[d]);
        if (same_shape &&
            (expr_eq(q->ctx, NULL, q->type->dim[d], out->dim[d]) != YES || q->at[d] != q->to[d]))
            same_shape = false;
        if (!used) {
            exact = exact && expr_is(q->at[d], 0) && expr_is(q->type->dim[d], 1);
            continue;
        }
        uint32_t axis = (uint32_t)__builtin_ctzll(used);
        const Expr *coef, *rest;
        if (used != axis_one(axis) || (used & seen) || !(used & want))
            return MAP_UNKNOWN;
        if (!expr_linear(q->ctx, q->at[d], (Var){ VAR_AXIS, axis }, &coef, &rest) ||
            !expr_const(coef, NULL))
            return MAP_UNKNOWN;
        exact = exact && expr_is(coef, 1) && expr_is(rest, 0);
        in_order = in_order && order[axis] > last;
        last = order[axis];
        seen |= used;
    }
    if (seen != want)
        return MAP_UNKNOWN;
    if (same_shape)
        return MAP_ID;
    if (!in_order)
        return MAP_PERM;
    return exact && same_linear_order(q, r) ? MAP_RELAYOUT : MAP_PART;
}

/* ---- digits ---------------------------------------------------------------------------------- */

/* Is the atom a part of one axis, as // and % by constants split it? */
static bool
piece_of(const Atom *m, AxisSlice *p)
{
    int64_t s;

    if (m->kind == ATOM_VAR) {
        if (m->var.kind != VAR_AXIS)
            return false;
        *p = (AxisSlice){ (uint32_t)m->var.id, 1, 0 };
        return true;
    }
    if (m->kind != ATOM_DIV && m->kind != ATOM_MOD)
        return false;
    const Expr *arg = m->arg[0];
    if (!expr_const(m->arg[1], &s) || s < 1 || arg->nterm != 1 || arg->term[0].coef != 1 ||
        arg->term[0].nfactor != 1 || arg->term[0].factor[0].power != 1 ||
        !piece_of(arg->term[0].factor[0].atom, p))
        return false;
    int64_t cut;
    if (mul_overflows(p->lo, s, &cut) || (p->hi && p->hi % cut))
        return false;
    if (m->kind == ATOM_DIV)
        p->lo = cut;
    else
        p->hi = cut;
    return true;
}

static bool
add_cut(Cuts *k, uint32_t axis, int64_t cut)
{
    uint32_t n = k->ncut[axis], i = 0;

    while (i < n && k->cut[axis][i] < cut)
        i++;
    if (i < n && k->cut[axis][i] == cut)
        return true;
    if (n == MAX_CUTS)
        return false;
    for (uint32_t j = n; j > i; j--)
        k->cut[axis][j] = k->cut[axis][j - 1];
    k->cut[axis][i] = cut;
    k->ncut[axis]++;
    return true;
}

static bool
find_cuts(const Expr *e, Cuts *k)
{
    for (uint32_t i = 0; i < e->nterm; i++)
        for (uint32_t f = 0; f < e->term[i].nfactor; f++) {
            AxisSlice p;
            if (piece_of(e->term[i].factor[f].atom, &p) &&
                (!add_cut(k, p.axis, p.lo) || (p.hi && !add_cut(k, p.axis, p.hi))))
                return false;
        }
    return true;
}

/* The digits of all axes the nest has; digits of extent 1 are left out. */
static bool
make_digits(const MapQuery *q, const Cuts *k, MapDigit *digit, uint32_t *ndigit)
{
    *ndigit = 0;
    for (uint32_t a = 0; a < q->nest->naxis; a++) {
        int64_t extent = expr_or(q->nest->axis[a].extent, MANY);
        bool reduce = (q->reduce & axis_one(a)) != 0;
        if ((q->one & axis_one(a)) || (!reduce && q->nest->axis[a].kind == AXIS_REDUCE))
            continue;
        for (uint32_t j = 0; j < (k->ncut[a] ? k->ncut[a] : 1); j++) {
            int64_t lo = k->ncut[a] ? k->cut[a][j] : 1,
                    hi = j + 1 < k->ncut[a] ? k->cut[a][j + 1] : 0;
            int64_t e = extent == MANY ? (hi ? hi / lo : MANY) : (extent + lo - 1) / lo;
            if (hi && hi % lo)
                return false;
            if (hi && e > hi / lo)
                e = hi / lo;
            if (e == 1)
                continue;
            if (*ndigit == MAX_DIGITS)
                return false;
            digit[(*ndigit)++] = (MapDigit){ a, lo, e, NO_ROW, reduce, false };
        }
    }
    return true;
}

/* Add coef * piece to a row, digit by digit. */
static void
add_piece(LinearIndex *row, uint32_t number, AxisSlice p, int64_t coef, MapDigit *digit,
          uint32_t ndigit)
{
    for (uint32_t i = 0; i < ndigit; i++) {
        MapDigit *d = &digit[i];
        int64_t scaled;
        if (d->axis != p.axis || d->step < p.lo || (p.hi && d->step >= p.hi))
            continue;
        if (d->row != NO_ROW)
            d->twice = d->twice || d->row != number;
        d->row = number;
        if (row->n == MAX_TERMS || mul_overflows(coef, d->step / p.lo, &scaled)) {
            row->hard = true;
            continue;
        }
        uint32_t at = 0;
        while (at < row->n && row->at[at].digit != i)
            at++;
        if (at == row->n)
            row->at[row->n++] = (LinearTerm){ i, 0 };
        row->at[at].coef += scaled;
    }
}

static void
mark_axes(AxisSet axes, uint32_t number, MapDigit *digit, uint32_t ndigit)
{
    for (uint32_t i = 0; i < ndigit; i++)
        if (axes & axis_one(digit[i].axis))
            digit[i].row = number;
}

static LinearIndex
make_row(const Expr *e, uint32_t number, MapDigit *digit, uint32_t ndigit)
{
    LinearIndex row = { 0 };

    for (uint32_t i = 0; i < e->nterm; i++) {
        const Term *t = &e->term[i];
        AxisSet used = 0;
        AxisSlice p;
        for (uint32_t f = 0; f < t->nfactor; f++) {
            const Atom *m = t->factor[f].atom;
            if (m->kind != ATOM_VAR)
                for (uint32_t k = 0; k < m->narg; k++)
                    used |= expr_axes(m->arg[k]);
            else if (m->var.kind == VAR_AXIS)
                used |= axis_one((uint32_t)m->var.id);
        }
        if (!used)
            continue;
        if (t->nfactor == 1 && t->factor[0].power == 1 && piece_of(t->factor[0].atom, &p)) {
            add_piece(&row, number, p, t->coef, digit, ndigit);
        } else {
            row.hard = true;
            mark_axes(used, number, digit, ndigit);
        }
    }
    return row;
}

/* ---- reuse ----------------------------------------------------------------------------------- */

static int
by_coef(const void *x, const void *y)
{
    int64_t a = llabs(((const LinearTerm *)x)->coef), b = llabs(((const LinearTerm *)y)->coef);

    return a < b ? -1 : a > b;
}

/* Digits of a positional number system: different digits, different index. */
static bool
is_mixed_radix(LinearIndex *row, const MapDigit *digit)
{
    int64_t reach = 0;

    qsort(row->at, row->n, sizeof *row->at, by_coef);
    for (uint32_t i = 0; i < row->n; i++) {
        int64_t coef = llabs(row->at[i].coef), extent = digit[row->at[i].digit].extent, span;
        if (coef <= reach)
            return false;
        if (i + 1 < row->n && (extent == MANY || mul_overflows(coef, extent - 1, &span) ||
                               add_overflows(reach, span, &reach)))
            return false;
    }
    return true;
}

/* Do different parallel points share one index of this row? */
static Tri
row_reuses(LinearIndex *row, const MapDigit *digit)
{
    uint32_t nparallel = 0, nreduce = 0, kept = 0;
    LinearTerm p = { 0 }, r = { 0 };

    if (row->hard)
        return UNKNOWN;
    for (uint32_t i = 0; i < row->n; i++) {
        if (!row->at[i].coef)
            return UNKNOWN;
        row->at[kept++] = row->at[i];
        if (digit[row->at[i].digit].reduce) {
            nreduce++;
            r = row->at[i];
        } else {
            nparallel++;
            p = row->at[i];
        }
    }
    if (!nparallel || (nparallel == 1 && !nreduce))
        return NO;
    if (nparallel == 1 && nreduce == 1) {
        int64_t s = llabs(p.coef), d = llabs(r.coef), g = gcd64(s, d);
        return digit[r.digit].extent - 1 >= s / g && digit[p.digit].extent - 1 >= d / g ? YES : NO;
    }
    return is_mixed_radix(row, digit) ? NO : UNKNOWN;
}

typedef struct {
    bool fan_in, whole, split;
    Tri window;
} Reuse;

static Reuse
measure(const MapDigit *digit, uint32_t ndigit, LinearIndex *row, uint32_t nrow)
{
    Reuse u = { .window = NO };

    for (uint32_t i = 0; i < ndigit; i++) {
        const MapDigit *d = &digit[i];
        bool axis_used = false;
        if (d->twice)
            u.window = UNKNOWN;
        if (d->reduce) {
            u.fan_in = u.fan_in || d->row != NO_ROW;
            continue;
        }
        if (d->row != NO_ROW)
            continue;
        for (uint32_t j = 0; j < ndigit; j++)
            axis_used = axis_used || (digit[j].axis == d->axis && digit[j].row != NO_ROW);
        if (axis_used)
            u.split = true;
        else
            u.whole = true;
    }
    for (uint32_t i = 0; i < nrow; i++) {
        Tri t = row_reuses(&row[i], digit);
        if (t == UNKNOWN || (t == YES && u.window == NO))
            u.window = t;
    }
    return u;
}

static MappingType
digit_type(const MapQuery *q)
{
    Cuts cuts = { .naxis = q->nest->naxis };
    MapDigit digit[MAX_DIGITS];
    LinearIndex row[TN_MAX_RANK];
    uint32_t ndigit;

    for (uint32_t d = 0; d < q->type->rank; d++)
        if (!find_cuts(q->at[d], &cuts))
            return MAP_UNKNOWN;
    for (uint32_t a = 0; a < cuts.naxis; a++)
        if (cuts.ncut[a] && !add_cut(&cuts, a, 1))
            return MAP_UNKNOWN;
    if (!make_digits(q, &cuts, digit, &ndigit))
        return MAP_UNKNOWN;
    for (uint32_t d = 0; d < q->type->rank; d++)
        row[d] = make_row(q->at[d], d, digit, ndigit);

    Reuse u = measure(digit, ndigit, row, q->type->rank);
    if (u.whole)
        return u.fan_in ? MAP_CONTR : MAP_BCAST;
    if (u.split)
        return u.fan_in ? MAP_CONTR : MAP_REPEAT;
    if (u.window == UNKNOWN)
        return MAP_UNKNOWN;
    if (u.window == YES)
        return MAP_WIN;
    return u.fan_in ? MAP_RED : MAP_INJ;
}

/* ---- the query ------------------------------------------------------------------------------- */

static bool
scans(const MapQuery *q, AxisSet used)
{
    const Nest *n = q->nest;

    if (q->load->u.load.slot >= n->nin || (used & nest_axes_of_kind(n, AXIS_SCAN)))
        return true;
    for (uint32_t k = 0; k < n->naxis; k++)
        if ((used & q->reduce & axis_one(k)) && expr_axes(n->axis[k].extent))
            return true;
    return false;
}

MappingType
nest_mapping(Ctx *c, const Nest *n, const Access *access)
{
    n = nest_dim_per_axis(c, n);
    const Scalar *load = access->load;
    const Write *w = nest_write_of(n, n->nin);
    MapQuery q = { .ctx = c, .nest = n, .write = w, .load = load };
    Ranges r = nest_ranges(c, c->arena, n);
    AxisSet used = 0;
    bool computed = false;

    if (!w || !write_is_plain(c, n, w))
        return MAP_UNKNOWN;
    q.type = n->param[load->u.load.slot].type;
    q.reduce = access->reduce;
    for (uint32_t d = 0; d < load->u.load.rank; d++) {
        used |= expr_axes(load->u.load.at[d]);
        computed = computed || expr_uses_kind(load->u.load.at[d], VAR_COMPUTED);
    }
    if (scans(&q, used))
        return MAP_SCAN;
    if (computed)
        return used & access->reduce ? MAP_UNKNOWN : MAP_GATHER;
    prepare(&q, r);
    if (!(used & access->reduce & ~q.one)) {
        MappingType t = simple_type(&q, r);
        if (t != MAP_UNKNOWN)
            return t;
        if (same_linear_order(&q, r))
            return MAP_RELAYOUT;
    }
    return digit_type(&q);
}
