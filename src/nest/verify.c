/* verify: the invariants of nests. A failure names the rule by its number.
 *
 *   1  at most NEST_MAX_AXES axes; at least one write; every parameter has a type
 *   2  an axis's begin and extent use symbols, values computed from inputs, and axes before it
 *   3  every Expr uses declared axes only, and no loop variables
 *   4  a reduction binds at least one reduction axis, none that is already bound around it, and has
 *      the operands its combiner combines: (value, index) for argmax and argmin, else one; bool for
 *      any and all; the axes of argmax and argmin do not depend on each other, so that they have a
 *      first point
 *   5  expressions outside of reductions use parallel and scan axes only
 *   6  reads name a parameter of the same element type and rank; the outside value has that type
 *   7  an output is read only at earlier points of a scan: there is a scan axis, and one write of
 *      it
 *   8  a write names an output; its value has that type
 *   9  a plain write's indices are distinct parallel or scan axes, all of them, each as long as the
 *      output's dimension; or it is one write of the kind that combines
 *  10  a combining write's init is an input of the output's type; its combiner is not on tuples, and
 *      combines bool if it is any or all
 *  11  every output is written
 *  12  lanes are for loop trees: every value here has one
 */
#include "nest/internal.h"
#include "nest/walk.h"

typedef struct {
    Ctx *ctx;
    const Nest *nest;
    DiagClass class;
    bool ok;
    AxisSet bound;      /* reduction axes of enclosing reductions */
    const Write *write; /* NULL while axes are checked */
    Arena *scratch;
    /* node and set of axes bound around it, hashed, once checked */
    Map done;
} NestCheck;

static bool __attribute__((format(printf, 3, 4)))
broken(NestCheck *k, int rule, const char *format, ...)
{
    va_list args;
    if (!k->ok)
        return false;
    k->ok = false;
    va_start(args, format);
    const char *text = arena_vprintf(k->ctx->arena, format, args);
    va_end(args);
    return diag_error(&k->ctx->diags, k->class, k->nest->loc, "nest %s: %s (rule %d)",
                      k->nest->name, text, rule);
}

bool
scalar_moves_text(const Scalar *s)
{
    if (s->dtype == DT_STR && s->op != S_LOAD && s->op != S_SELECT && s->op != S_SPLAT &&
        s->op != S_LANES && !(s->op == S_CONST && !s->u.bits))
        return false;
    for (uint32_t i = 0; i < s->narg; i++)
        if (s->arg[i]->dtype == DT_STR && s->dtype != DT_STR)
            return false;
    return true;
}

static bool check_scalar(NestCheck *k, const Scalar *s);

/* A variable of an index, or of the extent of axis `limit`. */
static bool
check_var(NestCheck *k, Var v, uint32_t limit)
{
    const Nest *n = k->nest;
    REQUIRE(k, 3, v.kind != VAR_LOOP, "a loop variable stands in an index");
    if (v.kind == VAR_COMPUTED) {
        const Scalar *s = computed_scalar(v);
        REQUIRE(k, 6, s->dtype == DT_BOOL || dtype_is_int(s->dtype),
                "an index is computed as %s: indices are integers", dtype_info[s->dtype].name);
        return check_scalar(k, s);
    }
    if (v.kind != VAR_AXIS)
        return true;
    REQUIRE(k, 3, v.id < n->naxis, "axis number %u is used, there are %u", (unsigned)v.id,
            n->naxis);
    REQUIRE(k, 2, v.id < limit, "the extent of an axis uses axis %s, which comes after it",
            n->axis[v.id].name);
    REQUIRE(k, 5, n->axis[v.id].kind != AXIS_REDUCE || !k->write || (k->bound >> v.id & 1),
            "reduction axis %s is used outside the reduction that binds it", n->axis[v.id].name);
    return true;
}

static bool
check_expr(NestCheck *k, const Expr *e, uint32_t limit)
{
    REQUIRE(k, 3, e != NULL, "an index is missing");
    REQUIRE(k, 3, !e->bad, "an index overflows 64 bits or is too long");
    FOR_EACH_VARIABLE (v, e)
        if (!check_var(k, v, limit))
            return false;
    return true;
}

static bool
check_load(NestCheck *k, const Scalar *s)
{
    const Nest *n = k->nest;
    uint32_t slot = s->u.load.slot;
    REQUIRE(k, 6, slot < n->nin + n->nout, "parameter number %u is read, there are %u", slot,
            n->nin + n->nout);
    const NestParam *p = &n->param[slot];
    REQUIRE(k, 6, s->u.load.rank == p->type->rank, "%s is read with %u indices, its rank is %u",
            p->name, s->u.load.rank, p->type->rank);
    REQUIRE(k, 6, s->dtype == p->type->dtype, "%s is read as %s, it is %s", p->name,
            dtype_info[s->dtype].name, dtype_info[p->type->dtype].name);
    for (uint32_t d = 0; d < s->u.load.rank; d++)
        if (!check_expr(k, s->u.load.at[d], n->naxis))
            return false;
    if (slot >= n->nin) {
        bool scans = false;
        for (uint32_t i = 0; i < n->naxis; i++)
            scans = scans || n->axis[i].kind == AXIS_SCAN;
        REQUIRE(k, 7, scans, "output %s is read, but no axis is a scan", p->name);
    }
    if (!s->u.load.outside)
        return true;
    REQUIRE(k, 6, s->u.load.outside->dtype == s->dtype, "%s has the outside value of another type",
            p->name);
    return check_scalar(k, s->u.load.outside);
}

static bool
check_reduce(NestCheck *k, const Scalar *s)
{
    AxisSet axes = s->u.reduce.axes, around = k->bound;
    Combiner comb = s->u.reduce.combiner;
    bool tuple = comb == COMB_ARGMAX || comb == COMB_ARGMIN;
    REQUIRE(k, 4, axes != 0, "a reduction binds no axis");
    REQUIRE(k, 4, comb > COMB_NONE && comb < COMB_LAST, "a reduction has no combiner");
    REQUIRE(k, 4, s->narg == 0 || s->arg[0]->dtype != DT_STR, "a reduction combines strings");
    REQUIRE(k, 4, s->narg == (tuple ? 2 : 1), "%s combines %d values, not %u", combiner_name[comb],
            tuple ? 2 : 1, s->narg);
    FOR_EACH_AXIS (i, axes) {
        REQUIRE(k, 4, i < k->nest->naxis, "a reduction binds axis number %u, there are %u", i,
                k->nest->naxis);
        REQUIRE(k, 4, k->nest->axis[i].kind == AXIS_REDUCE,
                "a reduction binds %s, which is no reduction axis", k->nest->axis[i].name);
        REQUIRE(k, 4, !tuple || !(expr_axes(k->nest->axis[i].extent) & axes),
                "axis %s of %s depends on another axis of it", k->nest->axis[i].name,
                combiner_name[comb]);
        REQUIRE(k, 4, !(around >> i & 1), "axis %s is bound twice, one reduction inside the other",
                k->nest->axis[i].name);
    }
    if (comb == COMB_ANY || comb == COMB_ALL)
        REQUIRE(k, 4, s->dtype == DT_BOOL, "%s combines bool, not %s", combiner_name[comb],
                dtype_info[s->dtype].name);
    k->bound |= axes;
    for (uint32_t i = 0; i < s->narg && k->ok; i++)
        check_scalar(k, s->arg[i]);
    k->bound = around;
    return k->ok;
}

static bool
check_scalar(NestCheck *k, const Scalar *s)
{
    uint64_t key = MAP_PTR(s) ^ k->bound * 0x9e3779b97f4a7c15u;
    REQUIRE(k, 8, s != NULL, "a value is missing");
    if (map_get(&k->done, key, NULL))
        return k->ok;
    map_put(&k->done, key, 1);
    REQUIRE(k, 12, s->lanes == 1, "a value has %u lanes", s->lanes);
    if (s->op == S_REDUCE)
        return check_reduce(k, s);
    REQUIRE(k, 6, scalar_moves_text(s),
            "strings are computed with: they are addresses, which are moved alone");
    for (uint32_t i = 0; i < s->narg; i++)
        if (!check_scalar(k, s->arg[i]))
            return false;
    if (s->op == S_LOAD)
        return check_load(k, s);
    if (s->op == S_INDEX || s->op == S_AT)
        return check_expr(k, s->u.index, k->nest->naxis);
    return true;
}

static bool
check_plain_write(NestCheck *k, const Write *w)
{
    const Nest *n = k->nest;
    const NestParam *p = &n->param[w->out];
    AxisSet seen = 0, all = 0;
    for (uint32_t d = 0; d < p->type->rank; d++) {
        uint32_t axis[NEST_MAX_AXES], count = write_digits(k->ctx, n, w, d, axis);
        for (uint32_t i = 0; i < count; i++) {
            const Axis *a = &n->axis[axis[i]];
            if (a->kind == AXIS_REDUCE)
                count = 0;
            REQUIRE(k, 9, !(seen >> axis[i] & 1), "axis %s indexes %s twice", a->name, p->name);
            seen |= (AxisSet)1 << axis[i];
            REQUIRE(k, 9, count != 1 || expr_eq(k->ctx, NULL, a->extent, p->type->dim[d]) != NO,
                    "axis %s has extent %s, dimension %u of %s is %s", a->name,
                    expr_str(k->ctx, a->extent), d, p->name, expr_str(k->ctx, p->type->dim[d]));
        }
        REQUIRE(k, 9, count > 0,
                "dimension %u of %s is not written at an axis: a write elsewhere needs a combiner",
                d, p->name);
    }
    for (uint32_t i = 0; i < n->naxis; i++)
        if (n->axis[i].kind != AXIS_REDUCE)
            all |= (AxisSet)1 << i;
    for (uint32_t i = 0; i < n->naxis; i++)
        REQUIRE(k, 9, !((all & ~seen) >> i & 1),
                "axis %s does not index %s: its points would be written more than once",
                n->axis[i].name, p->name);
    return true;
}

static bool
check_write(NestCheck *k, const Write *w)
{
    const Nest *n = k->nest;
    REQUIRE(k, 8, w->out >= n->nin && w->out < n->nin + n->nout, "a write names no output");
    const NestParam *p = &n->param[w->out];
    k->write = w;
    for (uint32_t d = 0; d < p->type->rank; d++)
        if (!check_expr(k, w->at[d], n->naxis))
            return false;
    if (!check_scalar(k, w->value))
        return false;
    REQUIRE(k, 8, w->value->op != S_REDUCE || w->value->narg == 1,
            "%s is given a tuple: name an output for each item", p->name);
    REQUIRE(k, 8, w->value->dtype == p->type->dtype, "%s is %s, its value is %s", p->name,
            dtype_info[p->type->dtype].name, dtype_info[w->value->dtype].name);
    if (w->combiner == COMB_NONE)
        return check_plain_write(k, w);
    REQUIRE(k, 10,
            w->combiner < COMB_COUNT && w->combiner != COMB_ARGMAX && w->combiner != COMB_ARGMIN,
            "writes to %s cannot be combined by a combiner on tuples", p->name);
    REQUIRE(k, 10,
            (w->combiner != COMB_ANY && w->combiner != COMB_ALL) || p->type->dtype == DT_BOOL,
            "writes to %s are combined by %s, which combines bool, not %s", p->name,
            combiner_name[w->combiner], dtype_info[p->type->dtype].name);
    REQUIRE(k, 10, p->type->dtype != DT_STR || w->combiner == COMB_LAST,
            "writes of strings to %s are combined", p->name);
    if (w->init == NO_SLOT)
        return true;
    REQUIRE(k, 10, w->init < n->nin, "%s starts from parameter number %u, which is no input",
            p->name, w->init);
    const Type *init = n->param[w->init].type;
    REQUIRE(k, 10, type_eq(k->ctx, init, p->type) != NO, "%s is %s, it starts from %s of %s",
            p->name, type_str(k->ctx, p->type), n->param[w->init].name, type_str(k->ctx, init));
    return true;
}

static bool
check_nest(NestCheck *k)
{
    const Nest *n = k->nest;
    REQUIRE(k, 1, n->naxis <= NEST_MAX_AXES, "it has %u axes, the limit is %d", n->naxis,
            NEST_MAX_AXES);
    REQUIRE(k, 1, n->nwrite > 0, "it writes nothing");
    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        REQUIRE(k, 1, n->param[i].type != NULL, "parameter %s has no type", n->param[i].name);
    for (uint32_t i = 0; i < n->naxis; i++) {
        REQUIRE(k, 2, n->axis[i].extent, "axis %s has no extent: write %s<extent>", n->axis[i].name,
                n->axis[i].name);
        REQUIRE(k, 2, n->axis[i].kind == AXIS_REDUCE || !axis_varies(&n->axis[i]),
                "the extent of axis %s depends on other axes or on data", n->axis[i].name);
        if (!check_expr(k, n->axis[i].extent, i))
            return false;
    }
    /* with a write, axes outside reductions count */
    k->done = (Map){ .arena = k->scratch };
    for (uint32_t w = 0; w < n->nwrite; w++)
        if (!check_write(k, &n->write[w]))
            return false;
    for (uint32_t o = n->nin; o < n->nin + n->nout; o++) {
        uint32_t plain = 0, combining = 0;
        for (uint32_t w = 0; w < n->nwrite; w++)
            if (n->write[w].out == o)
                *(n->write[w].combiner == COMB_NONE ? &plain : &combining) += 1;
        REQUIRE(k, 11, plain + combining > 0, "output %s is never written", n->param[o].name);
        REQUIRE(k, 9, plain <= 1 && !(plain && combining), "output %s is written more than once",
                n->param[o].name);
    }
    return true;
}

bool
nest_verify(Ctx *c, const Nest *n, DiagClass class)
{
    Arena *scratch = arena_child(c->arena);
    NestCheck k = { .ctx = c,
                    .nest = n,
                    .class = class,
                    .ok = true,
                    .scratch = scratch,
                    .done = { .arena = scratch } };
    bool ok = check_nest(&k);
    arena_free(scratch);
    return ok;
}
