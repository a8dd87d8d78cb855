/* gather_tables: gather indices and weights that a nest computes from data, once for all that is
 * read there.
 *
 *     o[i, c, j] = sum t<2>: x[i, c, i64(floor(at[i, j, 1])) + t, i64(floor(at[i, j, 0])) | 0] *
 *                            f(at[i, j, 0], t)
 *
 * reads at the same indices, with the same weights, in every channel c. It becomes
 *
 *     p[t, i, j] = the position as one number, row-major, or -1 outside
 *     w[t, i, j] = f(at[i, j, 0], t)
 *     o[i, c, j] = sum t: x[i, c, p[t, i, j] // width, p[t, i, j] % width | 0] * w[t, i, j]
 *
 * The digits of a number are that number again in memory, so a gather is one read and one test.
 * Summed axes are outermost in the tables: vectors run along the outputs.
 *
 * Table entries are computed whether or not a point needs them, so only what can neither fail nor
 * read outside of a tensor goes into tables.
 */
#include "normalise/normalise.h"

#include <string.h>

#include "nest/walk.h"

/* Operations of a table read: an index is loaded, widened and used as an index, a weight is
 * loaded. */
enum { LOOK_PLACE = 3, LOOK_WEIGHT = 1 };

typedef struct {
    Ctx *c;
    Arena *scratch;
    const Nest *n;
    Walk walk;
    AxisSet axes; /* that the indices vary with */
    double uses;  /* points that share an index; unknown: many */
    /* nodes of the value that were visited, and the condition under which they are needed */
    Map done;
    bool mixed; /* one of them is needed under different conditions */
    GatherTables *out;
    ScalarMap map; /* from the value to reads of the tables */
    /* to the value at points that do not need it: tables and reads are 0 there */
    ScalarMap unwanted;
} Finder;

/* ---- asking ---------------------------------------------------------------------------------- */

/* Can a value be computed for the points that need it? */
static bool
is_simple(Finder *f, const Scalar *value)
{
    Ranges r = nest_ranges(f->c, f->scratch, f->n);

    FOR_EACH_SCALAR (s, scalar_nodes(f->c, value))
        if (s->op == S_REDUCE || s->op == S_ITEM ||
            (s->op == S_LOAD && !s->u.load.outside &&
             !load_is_inside(f->c, &r, s, f->n->param[s->u.load.slot].type)))
            return false;
    return true;
}

/* Operations of a value that can be computed anywhere; 0: not of that kind. */
static uint32_t
work_of(Finder *f, const Scalar *value)
{
    uint32_t work = 0;

    FOR_EACH_SCALAR (s, scalar_nodes(f->c, value)) {
        if (s->op == S_AT)
            return 0;
        work += s->op == S_CAST || s->op > S_HPROD;
    }
    return is_simple(f, value) ? work : 0;
}

static bool
may_be_wanted(Finder *f, const Scalar *s)
{
    return is_simple(f, s) && !(s->axes & ~f->axes);
}

/* Is computing a value once, storing it and reading it for every use cheaper than computing it for
 * every use? GridSample of 2 channels takes, with tables, 0.27 (nearest) and 0.57 (bilinear) of its
 * time without, of 32 channels 0.07 and 0.57 (Cascade Lake, one core). */
static bool
pays(const Finder *f, uint32_t work, int look)
{
    return work * f->uses > work + 1 + look * f->uses;
}

static bool
is_computed(const Expr *e)
{
    return expr_uses_kind(e, VAR_COMPUTED);
}

/* Dimensions [d, end) of a read that are computed from data, contiguous in memory. */
static uint32_t
computed_end(const Scalar *load, uint32_t d)
{
    while (d < load->u.load.rank && is_computed(load->u.load.at[d]))
        d++;
    return d;
}

/* ---- an index as a value --------------------------------------------------------------------- */

/* As arithmetic on its operands, so that it vectorises. */
static const Scalar *
index_value(Ctx *c, const Expr *e)
{
    const Expr *rest = e;
    const Scalar *sum = NULL;

    for (uint32_t i = 0; i < e->nterm; i++) {
        const Term *t = &e->term[i];
        if (t->nfactor != 1 || t->factor[0].power != 1 || t->factor[0].atom->kind != ATOM_VAR ||
            t->factor[0].atom->var.kind != VAR_COMPUTED)
            continue;
        const Expr *var = expr_var(c, t->factor[0].atom->var);
        const Scalar *v = scalar_index(c, var);
        rest = expr_sub(c, rest, expr_scale(c, var, t->coef));
        if (t->coef != 1)
            v = scalar_2(c, S_MUL, v, scalar_int(c, DT_I64, t->coef));
        sum = sum ? scalar_2(c, S_ADD, sum, v) : v;
    }
    return !sum               ? scalar_index(c, rest)
           : expr_is(rest, 0) ? sum
                              : scalar_2(c, S_ADD, sum, scalar_index(c, rest));
}

typedef struct {
    const Scalar *wanted; /* where it is needed; NULL: everywhere */
    /* a test of the read's other dimensions, made where it is needed; NULL: none */
    const Scalar *inside;
} Tests;

/* The position in dimensions [d, end) as one number; -1 where the read is outside, or not
 * needed. */
static const Scalar *
place_of(Finder *f, const Scalar *load, uint32_t d, uint32_t end, Tests tests)
{
    Ctx *c = f->c;
    const Type *t = f->n->param[load->u.load.slot].type;
    const Expr *count = expr_int(c, 1);
    const Scalar *place = NULL, *inside = NULL;
    int64_t n;

    for (; d < end; d++) {
        const Scalar *at = index_value(c, load->u.load.at[d]), *extent = scalar_index(c, t->dim[d]);
        place = place ? scalar_2(c, S_ADD, scalar_2(c, S_MUL, place, extent), at) : at;
        const Scalar *test = scalar_2(c, S_AND, scalar_2(c, S_GE, at, scalar_int(c, DT_I64, 0)),
                                      scalar_2(c, S_LT, at, extent));
        inside = inside ? scalar_2(c, S_AND, inside, test) : test;
        count = expr_mul(c, count, t->dim[d]);
    }
    if (load->u.load.outside)
        place = scalar_select(c, inside, place, scalar_int(c, DT_I64, -1));
    if (tests.inside)
        place = scalar_select(c, tests.inside, place, scalar_int(c, DT_I64, -1));
    if (tests.wanted)
        place = scalar_select(c, tests.wanted, place, scalar_int(c, DT_I64, -1));
    return expr_const(count, &n) && n <= INT32_MAX ? scalar_cast(c, DT_I32, place) : place;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* A read of a value's table. NULL: the table would have too many dimensions. */
static const Scalar *
table_read(Finder *f, const Scalar *value)
{
    GatherTables *p = f->out;
    const Expr *at[TN_MAX_RANK], *dim[TN_MAX_RANK];
    uint32_t rank = 0, slot;

    for (slot = 0; slot < p->n && p->at[slot].value != value; slot++)
        ;
    for (int sums = 1; sums >= 0; sums--)
        for (uint32_t k = 0; k < f->n->naxis; k++)
            if ((value->axes >> k & 1) && (f->n->axis[k].kind == AXIS_REDUCE) == sums) {
                if (rank == TN_MAX_RANK)
                    return NULL;
                at[rank] = expr_axis(f->c, k);
                dim[rank++] = f->n->axis[k].extent;
            }
    if (slot == p->n)
        VEC_PUSH(f->c->arena, p, ((GatherTable){ value, type_new(f->c, value->dtype, rank, dim) }));
    return scalar_load(f->c, value->dtype, f->n->nin + slot, rank, at, NULL);
}

/* A test of the computed indices in dimensions of one element: where it holds they are 0. at: those
 * become 0. */
static const Scalar *
test_single(Finder *f, const Scalar *load, const Expr **at)
{
    const Type *t = f->n->param[load->u.load.slot].type;
    const Scalar *test = NULL;

    for (uint32_t d = 0; d < load->u.load.rank; d++) {
        at[d] = load->u.load.at[d];
        if (!is_computed(at[d]) || !expr_is(t->dim[d], 1))
            continue;
        const Scalar *is_zero =
            scalar_2(f->c, S_EQ, index_value(f->c, at[d]), scalar_int(f->c, DT_I64, 0));
        test = test ? scalar_2(f->c, S_AND, test, is_zero) : is_zero;
        at[d] = expr_int(f->c, 0);
    }
    return test;
}

/* A gather with a table's number in place of its computed index. If it was made for some points
 * alone, it can now be made for all: the others are outside. */
static void
replace_read(Finder *f, const Scalar *load, const Scalar *wanted)
{
    Ctx *c = f->c;
    const Type *t = f->n->param[load->u.load.slot].type;
    const Scalar *outside = wanted ? scalar_number(c, load->dtype, 0) : load->u.load.outside;
    const Expr *at[TN_MAX_RANK];
    Tests tests = { wanted, wanted ? test_single(f, load, at) : NULL };
    bool any = false;

    for (uint32_t d = 0; d < load->u.load.rank; d++) {
        at[d] = wanted ? at[d] : load->u.load.at[d];
        uint32_t end = is_computed(at[d]) ? computed_end(load, d) : d;
        const Scalar *place = end > d ? place_of(f, load, d, end, tests) : NULL;
        if (!place)
            continue;
        if (wanted ? !may_be_wanted(f, place)
                   : place->axes & ~f->axes || !pays(f, work_of(f, place), LOOK_PLACE)) {
            if (wanted)
                return;
            continue;
        }
        const Scalar *read = table_read(f, place);
        if (!read)
            return;
        const Expr *number = expr_computed(c, read);
        for (uint32_t k = end; k-- > d; number = expr_div(c, number, t->dim[k]))
            at[k] = k > d ? expr_mod(c, number, t->dim[k]) : number;
        any = true;
        d = end - 1;
    }
    if (!any)
        return;
    map_put(
        &f->map.done, MAP_PTR(load),
        MAP_PTR(scalar_load(c, load->dtype, load->u.load.slot, load->u.load.rank, at, outside)));
    map_put(&f->unwanted.done, MAP_PTR(load), MAP_PTR(outside));
}

static void
replace_value(Finder *f, const Scalar *s, const Scalar *wanted)
{
    const Scalar *zero = scalar_number(f->c, s->dtype, 0);
    const Scalar *read = table_read(f, wanted ? scalar_select(f->c, wanted, s, zero) : s);

    if (!read)
        return;
    map_put(&f->map.done, MAP_PTR(s), MAP_PTR(read));
    map_put(&f->unwanted.done, MAP_PTR(s), MAP_PTR(zero));
}

static void replace_values(Finder *f, const Scalar *s, const Scalar *wanted);

/* c ? x : y. If x equals y wherever it is not needed, because its operands are 0 there, no test is
 * needed. */
static void
replace_select(Finder *f, const Scalar *s, const Scalar *wanted)
{
    const Scalar *yes = s->arg[0], *no = scalar_1(f->c, S_NOT, yes);

    replace_values(f, s->arg[1], wanted ? scalar_2(f->c, S_AND, wanted, yes) : yes);
    replace_values(f, s->arg[2], wanted ? scalar_2(f->c, S_AND, wanted, no) : no);
    if (s->arg[2]->op == S_CONST && scalar_map(&f->unwanted, s->arg[1]) == s->arg[2])
        map_put(&f->map.done, MAP_PTR(s), MAP_PTR(scalar_map(&f->map, s->arg[1])));
    else
        replace_values(f, yes, wanted);
}

/* `wanted`: where the value is needed, NULL: everywhere. */
static void
replace_values(Finder *f, const Scalar *s, const Scalar *wanted)
{
    uint64_t seen;

    if (map_get(&f->done, MAP_PTR(s), &seen)) {
        f->mixed |= seen != MAP_PTR(wanted);
        return;
    }
    map_put(&f->done, MAP_PTR(s), MAP_PTR(wanted));
    if (s->op == S_LOAD) {
        replace_read(f, s, s->u.load.outside ? NULL : wanted);
        return;
    }
    bool placed = s->axes && !(s->axes & ~f->axes);
    if (placed && pays(f, work_of(f, s), LOOK_WEIGHT)) {
        replace_value(f, s, wanted);
        return;
    }
    if (s->op == S_SELECT && !(s->arg[0]->axes & ~f->axes) && work_of(f, s->arg[0])) {
        replace_select(f, s, wanted);
        return;
    }
    for (uint32_t i = 0; i < s->narg; i++)
        replace_values(f, s->arg[i], wanted);
}

/* ---- whether --------------------------------------------------------------------------------- */

static bool
is_box(const Nest *n)
{
    for (uint32_t k = 0; k < n->naxis; k++)
        if (n->axis[k].kind == AXIS_SCAN || axis_varies(&n->axis[k]))
            return false;
    return n->nwrite == 1 && n->nout == 1 && n->write[0].combiner == COMB_NONE;
}

/* The axes that the indices vary with, for which a table may pay; none: no gather. */
static AxisSet
place_axes(Finder *f)
{
    AxisSet axes = 0;

    for (uint32_t i = 0; i < f->walk.n; i++) {
        const Scalar *s = f->walk.at[i].node;
        for (uint32_t d = 0; s->op == S_LOAD && d < s->u.load.rank; d++) {
            uint32_t end = computed_end(s, d);
            const Scalar *place = end > d ? place_of(f, s, d, end, (Tests){ 0 }) : NULL;
            if (place && work_of(f, place) > LOOK_PLACE)
                axes |= place->axes;
            d = place ? end - 1 : d;
        }
    }
    return axes;
}

/* The points that share indices which vary with these axes. */
static double
points_beside(const Nest *n, AxisSet axes)
{
    double points = 1;

    for (uint32_t k = 0; k < n->naxis; k++)
        if (n->axis[k].kind == AXIS_PARALLEL && !(axes >> k & 1))
            points *= (double)expr_or(n->axis[k].extent, INT32_MAX);
    return points;
}

const Nest *
normalise_gather_tables(Ctx *c, const Nest *n, GatherTables *out)
{
    Arena *scratch = arena_child(c->arena);
    Finder f = { .c = c,
                 .scratch = scratch,
                 .n = n,
                 .done = { .arena = scratch },
                 .out = out,
                 .map = { .ctx = c, .done = { .arena = scratch } },
                 .unwanted = { .ctx = c, .done = { .arena = scratch } } };
    const Nest *rest = NULL;

    *out = (GatherTables){ 0 };
    if (is_box(n)) {
        f.walk = nest_walk(c, scratch, n);
        f.axes = place_axes(&f);
    }
    f.uses = points_beside(n, f.axes);
    if (f.axes)
        replace_values(&f, n->write[0].value, NULL);
    if (out->n && !f.mixed) {
        NestEdit e = nest_edit(c, n, 0, out->n);
        for (uint32_t i = 0; i < out->n; i++)
            nest_edit_input(c, &e, arena_printf(scratch, "places%u", i), out->at[i].type);
        e.write[0].value = scalar_map(&f.map, n->write[0].value);
        rest = nest_edit_done(c, &e);
    }
    arena_free(scratch);
    return rest;
}

const Nest *
normalise_tables(Ctx *c, const Nest *n, const GatherTable *table, uint32_t count)
{
    Arena *scratch = arena_child(c->arena);
    NestBuilder b = nest_begin(c, arena_printf(scratch, "%s_places", n->name));
    const Expr *own[TN_MAX_RANK];
    Binding bind[NEST_MAX_AXES];
    uint32_t rank = 0;

    nest_ins(&b, n);
    for (int sums = 1; sums >= 0; sums--)
        for (uint32_t k = 0; k < n->naxis; k++)
            if ((table[0].value->axes >> k & 1) && (n->axis[k].kind == AXIS_REDUCE) == sums) {
                own[rank] = nest_axis(&b, n->axis[k].name, AXIS_PARALLEL, n->axis[k].extent);
                bind[rank] = (Binding){ { VAR_AXIS, k }, own[rank] };
                rank++;
            }
    for (uint32_t i = 0; i < count; i++)
        nest_write(&b, nest_out(&b, arena_printf(scratch, "o%u", i), table[i].type), own,
                   scalar_subst(c, table[i].value, bind, rank));
    arena_free(scratch);
    return nest_finish(&b);
}
