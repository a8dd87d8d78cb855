/* turns: a scan that sums over what it has made becomes a loop of nests.
 *
 *     s[b, t, j] = scan t: f(x[t, b, j], sum k: (t == 0 ? h[b, k] : s[b, max(t - 1, 0), k]) * r[k,
 *     j])
 *
 * walks one step after the other, and in each step is a product like any other: so it becomes a
 * loop (graph.h) whose carried value is the state before, whose body is a nest for each sum and one
 * for the rest, and whose stacked results are the states of all steps. Products in the body are
 * scheduled, shared out and laid out as all products are; a nest that is one scan could only sum
 * element by element.
 *
 *     before[b, j] = h[b, j]
 *     loop t: q[b, j] = sum k: before[b, k] * r[k, j]        s_t[b, j] = f(x[t, b, j], q[b, j])
 *     s[b, t, j] = stacked[t, b, j]
 *
 * A scan may take several steps for a turn (u = 2*t + p): the value of each phase p is then a part
 * of the body, and later phases read the earlier ones of their turn.
 *
 * What is left as it is: scans without sums over their own past (vectors and rows serve those),
 * scans that look further back than one turn, and scans whose first step is not told by a test of t
 * == 0.
 */
#include "normalise/normalise.h"

#include "nest/walk.h"

#include <string.h>

enum { MOST_PHASES = 4 };

typedef VEC(const Type *) Types;
/* value [nin + nout]: numbers of values */
typedef struct {
    const Nest *nest;
    const uint32_t *value;
} Step;

typedef struct {
    Ctx *c;
    Arena *a;
    const Nest *n;
    /* the axis that is walked; as the turn's number once phases are apart */
    uint32_t t;
    int64_t phases;
    const Expr *turns;
    Ranges ranges;
    /* of the values of a turn: the nest's inputs, the turn's number, states before, … */
    Types type;
    uint32_t before; /* the first of these, one for each output */
    /* [nout]: a state before the first turn, over its own dimensions; NULL: not read */
    const Scalar **initial;
    /* [nout]: along which dimension of each output steps follow each other */
    uint32_t *dim;
    uint32_t (*made)[MOST_PHASES]; /* [nout]: the values of each phase */
    VEC(Step) step;
    int64_t phase; /* that is looked at */
    bool ok, sums;
} Turns;

/* ---- which scans ----------------------------------------------------------------------------- */

static Var
turn_var(const Turns *w)
{
    return (Var){ VAR_AXIS, w->t };
}

/* The state's type: of output o without the dimension of steps. */
static const Type *
state_type(const Turns *w, uint32_t o)
{
    const Type *t = w->n->param[w->n->nin + o].type;
    const Expr *dim[TN_MAX_RANK];
    uint32_t rank = 0;

    for (uint32_t d = 0; d < t->rank; d++)
        if (d != w->dim[o])
            dim[rank++] = t->dim[d];
    return type_new(w->c, t->dtype, rank, dim);
}

/* Each output has the steps along one dimension alone, and bare axes along the others. */
static bool
writes_steps(Turns *w)
{
    const Nest *n = w->n;
    Var v;

    for (uint32_t i = 0; i < n->nwrite; i++) {
        const Write *to = &n->write[i];
        uint32_t o = to->out - n->nin, rank = n->param[to->out].type->rank, steps = 0;
        if (to->combiner != COMB_NONE)
            return false;
        for (uint32_t d = 0; d < rank; d++) {
            if (!expr_is_var(to->at[d], &v) || v.kind != VAR_AXIS)
                return false;
            if (v.id == w->t) {
                w->dim[o] = d;
                steps++;
            }
        }
        if (steps != 1)
            return false;
    }
    return n->nwrite == n->nout;
}

static bool
find_walk(Turns *w)
{
    const Nest *n = w->n;
    uint32_t scans = 0;

    for (uint32_t k = 0; k < n->naxis; k++) {
        if (n->axis[k].kind == AXIS_SCAN) {
            w->t = k;
            scans++;
        }
        if (axis_varies(&n->axis[k]))
            return false;
    }
    return scans == 1 && nest_axes_of_kind(n, AXIS_REDUCE) && writes_steps(w);
}

/* ---- a phase --------------------------------------------------------------------------------- */

typedef struct {
    Turns *w;
    Binding bind;
} Phase;

static const Expr *
to_phase(ScalarMap *m, const Expr *e)
{
    const Phase *p = m->user;
    return expr_simplify(p->w->c, &p->w->ranges, expr_subst(p->w->c, e, &p->bind, 1));
}

/* Which phase it is decides. */
static const Scalar *
decided(ScalarMap *m, const Scalar *s)
{
    (void)m;
    return s->op == S_SELECT && s->arg[0]->op == S_CONST ? s->arg[s->arg[0]->u.bits ? 1 : 2] : s;
}

/* The nest's value at step phases*t + phase. */
static const Scalar *
value_of_phase(Turns *w, const Scalar *value)
{
    Arena *scratch = arena_child(w->a);
    const Expr *t = expr_var(w->c, turn_var(w));
    Phase p = { w, { turn_var(w), expr_offset(w->c, expr_scale(w->c, t, w->phases), w->phase) } };
    ScalarMap m = {
        .expr = to_phase, .node = decided, .user = &p, .ctx = w->c, .done = { .arena = scratch }
    };
    const Scalar *s = scalar_map(&m, value);

    arena_free(scratch);
    return s;
}

/* Which state a read of an output is: phases: the one before this turn; less: that phase of this
 * turn; -1: another. */
static int64_t
phase_of_read(const Turns *w, const Scalar *load)
{
    Ctx *c = w->c;
    const Expr *first = expr_scale(c, expr_var(c, turn_var(w)), w->phases),
               *at = load->u.load.at[w->dim[load->u.load.slot - w->n->nin]];

    if (at == expr_simplify(c, &w->ranges, expr_max(c, expr_offset(c, first, -1), expr_int(c, 0))))
        return w->phases;
    for (int64_t q = 0; q < w->phase; q++)
        if (at == expr_offset(c, first, q))
            return q;
    return -1;
}

static bool
is_state(const Turns *w, const Scalar *s)
{
    return s->op == S_LOAD && s->u.load.slot >= w->n->nin;
}

/* The indices of a read of a state without that of the step. */
static uint32_t
state_index(const Turns *w, const Scalar *load, const Expr **at)
{
    uint32_t rank = 0;

    for (uint32_t d = 0; d < load->u.load.rank; d++)
        if (d != w->dim[load->u.load.slot - w->n->nin])
            at[rank++] = load->u.load.at[d];
    return rank;
}

/* `first` is what stands in place of a state before the first turn: the same over the state's own
 * dimensions for all reads. */
static void
note_initial(Turns *w, const Scalar *first, const Scalar *load)
{
    const Expr *at[TN_MAX_RANK];
    Binding bind[TN_MAX_RANK];
    uint32_t rank = state_index(w, load, at), o = load->u.load.slot - w->n->nin, nbind = 0;
    AxisSet bound = 0;

    for (uint32_t d = 0; d < rank; d++) {
        Var v;
        if (expr_is(at[d], 0))
            continue;
        if (!expr_is_var(at[d], &v) || v.kind != VAR_AXIS || bound >> v.id & 1) {
            w->ok = false;
            return;
        }
        bound |= (AxisSet)1 << v.id;
        bind[nbind++] = (Binding){ v, expr_axis(w->c, d) };
    }
    const Scalar *s = scalar_subst(w->c, first, bind, nbind);
    w->ok = w->ok && !(first->axes & ~bound) && (!w->initial[o] || w->initial[o] == s);
    w->initial[o] = s;
}

/* Selects of the first turn: from then on they are the state before, in *done. */
static void
find_initial(Turns *w, const Scalar *value, Map *done)
{
    const Scalar *begins = scalar_2(w->c, S_EQ, scalar_index(w->c, expr_var(w->c, turn_var(w))),
                                    scalar_int(w->c, DT_I64, 0));
    const Expr *at[TN_MAX_RANK];

    FOR_EACH_SCALAR (s, scalar_nodes(w->c, value)) {
        if (s->op != S_SELECT || s->arg[0] != begins || !is_state(w, s->arg[2]) ||
            phase_of_read(w, s->arg[2]) != w->phases)
            continue;
        uint32_t rank = state_index(w, s->arg[2], at), o = s->arg[2]->u.load.slot - w->n->nin;
        note_initial(w, s->arg[1], s->arg[2]);
        map_put(done, MAP_PTR(s),
                MAP_PTR(scalar_load(w->c, s->dtype, w->before + o, rank, at, NULL)));
    }
}

static const Scalar *
read_state(ScalarMap *m, const Scalar *load)
{
    Turns *w = m->user;
    const Expr *at[TN_MAX_RANK];

    if (!is_state(w, load))
        return load;
    int64_t phase = phase_of_read(w, load);
    w->ok = w->ok && phase >= 0 && phase < w->phases && !load->u.load.outside;
    if (!w->ok || phase < 0)
        return load;
    uint32_t o = load->u.load.slot - w->n->nin, rank = state_index(w, load, at);
    return scalar_load(w->c, load->dtype, w->made[o][phase], rank, at, NULL);
}

static void
check_sums(Turns *w, const Scalar *value)
{
    FOR_EACH_SCALAR (sum, scalar_nodes(w->c, value)) {
        if (sum->op != S_REDUCE)
            continue;
        w->ok = w->ok && sum->narg == 1;
        FOR_EACH_SCALAR (s, scalar_nodes(w->c, sum->arg[0])) {
            w->sums |= is_state(w, s);
            w->ok = w->ok && s->op != S_REDUCE;
        }
    }
}

/* The turn's number where an index or a value wants it. */
static const Expr *
to_turn(ScalarMap *m, const Expr *e)
{
    const Turns *w = m->user;
    const Scalar *turn = scalar_load(w->c, DT_I64, w->n->nin, 0, NULL, NULL);
    Binding b = { turn_var(w), expr_computed(w->c, scalar_at(w->c, turn, w->turns)) };

    return expr_subst(w->c, e, &b, 1);
}

/* A value of the scan over what a turn knows. */
static const Scalar *
value_in_turn(Turns *w, const Scalar *value)
{
    Ctx *c = w->c;
    Arena *scratch = arena_child(w->a);
    const Scalar *s = value_of_phase(w, value);
    Map done = { .arena = scratch };

    check_sums(w, s);
    find_initial(w, s, &done);
    ScalarMap states = { .load = read_state, .user = w, .ctx = c, .done = done },
              turn = { .expr = to_turn, .user = w, .ctx = c, .done = { .arena = scratch } };
    s = w->ok ? scalar_map(&states, s) : NULL;
    s = w->ok ? scalar_map(&turn, s) : NULL;
    arena_free(scratch);
    return w->ok ? s : NULL;
}

/* ---- nests of a turn ------------------------------------------------------------------------- */

static uint32_t
add_value(Turns *w, const Type *t)
{
    VEC_PUSH(w->a, &w->type, t);
    return w->type.n - 1;
}

static NestBuilder
begin_step(const Turns *w, const char *what)
{
    NestBuilder b = nest_begin(w->c, arena_printf(w->a, "%s_%s", w->n->name, what));

    for (uint32_t i = 0; i < w->type.n; i++)
        nest_in(&b,
                i < w->n->nin ? w->n->param[i].name
                              : arena_printf(w->a, i == w->n->nin ? "turn" : "v%u", i - w->n->nin),
                w->type.at[i]);
    return b;
}

/* The nest without what it does not read, and its outputs as new values, the first of which is
 * returned. */
static uint32_t
end_step(Turns *w, NestBuilder *b)
{
    const Nest *n = nest_finish(b);
    bool *keep = NEW_ARRAY(w->a, bool, w->type.n + 1);
    uint32_t given = w->type.n, kept = 0;

    w->ok = w->ok && n;
    if (!n)
        return 0;
    uint32_t *value = NEW_ARRAY(w->a, uint32_t, n->nin + n->nout);
    n = nest_drop_unused(w->c, n, keep);
    for (uint32_t i = 0; i < given; i++)
        if (keep[i])
            value[kept++] = i;
    for (uint32_t o = 0; o < n->nout; o++)
        value[kept++] = add_value(w, n->param[n->nin + o].type);
    VEC_PUSH(w->a, &w->step, ((Step){ n, value }));
    return given;
}

/* Axes of the scan in a nest of a turn: bind[] from the old to the new ones. */
typedef struct {
    Binding bind[NEST_MAX_AXES];
    uint32_t nbind;
    const Expr *at[NEST_MAX_AXES], *dim[NEST_MAX_AXES];
} Renumber;

static uint32_t
take_axes(const Turns *w, NestBuilder *b, AxisSet axes, Renumber *r)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < w->n->naxis; k++)
        if (axes >> k & 1) {
            const Axis *axis = &w->n->axis[k];
            r->dim[count] = axis->extent;
            r->at[count] = nest_axis(
                b, axis->name, axis->kind == AXIS_SCAN ? AXIS_PARALLEL : axis->kind, axis->extent);
            r->bind[r->nbind++] = (Binding){ { VAR_AXIS, k }, r->at[count++] };
        }
    return count;
}

static const Scalar *
renumber(Turns *w, Renumber *r, const Scalar *s)
{
    Arena *scratch = arena_child(w->a);
    ScalarMap m = { .expr = bindings_apply,
                    .axes = bindings_axes,
                    .user = &(Bindings){ r->bind, r->nbind },
                    .ctx = w->c,
                    .done = { .arena = scratch } };
    const Scalar *to = scalar_map(&m, s);

    arena_free(scratch);
    return to;
}

/* A sum as a nest: its value at the axes that it varies with. */
static const Scalar *
make_sum(Turns *w, const Scalar *sum)
{
    AxisSet reduced = 0;
    Renumber r = { .nbind = 0 };
    NestBuilder b = begin_step(w, "sum");
    uint32_t rank = take_axes(w, &b, sum->axes, &r);
    const Expr *at[NEST_MAX_AXES];

    FOR_EACH_SCALAR (s, scalar_nodes(w->c, sum))
        reduced |= s->op == S_REDUCE ? s->u.reduce.axes : 0;
    if (rank > TN_MAX_RANK) {
        w->ok = false;
        return sum;
    }
    uint32_t out = nest_out(&b, "o", type_new(w->c, sum->dtype, rank, r.dim));
    Renumber outer = r;
    take_axes(w, &b, reduced, &r);
    nest_write(&b, out, outer.at, renumber(w, &r, sum));
    uint32_t value = end_step(w, &b);
    for (uint32_t i = 0; i < rank; i++)
        at[i] = expr_var(w->c, outer.bind[i].var);
    return scalar_load(w->c, sum->dtype, value, rank, at, NULL);
}

/* The value of output o in this phase, as nests: its sums, what was a value of this phase before,
 * and the rest. */
static bool
make_phase(Turns *w, uint32_t o, Map *known)
{
    const Nest *n = w->n;
    const Write *to = NULL;

    for (uint32_t i = 0; i < n->nwrite; i++)
        to = n->write[i].out == n->nin + o ? &n->write[i] : to;
    const Scalar *value = value_in_turn(w, to->value);
    if (!w->ok)
        return false;
    FOR_EACH_SCALAR (s, scalar_nodes(w->c, value))
        if (s->op == S_REDUCE && !map_get(known, MAP_PTR(s), NULL))
            map_put(known, MAP_PTR(s), MAP_PTR(make_sum(w, s)));

    ScalarMap m = { .ctx = w->c, .done = *known };
    const Scalar *rest = scalar_map(&m, value);
    *known = m.done;
    NestBuilder b = begin_step(w, n->param[n->nin + o].name);
    Renumber r = { .nbind = 0 };
    AxisSet axes = 0;
    const Expr *at[TN_MAX_RANK];
    uint32_t rank = 0;
    Var v;
    for (uint32_t d = 0; d < n->param[to->out].type->rank; d++)
        if (d != w->dim[o] && expr_is_var(to->at[d], &v))
            axes |= (AxisSet)1 << v.id;
    take_axes(w, &b, axes, &r);
    uint32_t out = nest_out(&b, n->param[to->out].name, state_type(w, o));
    for (uint32_t d = 0; d < n->param[to->out].type->rank; d++)
        if (d != w->dim[o])
            at[rank++] = expr_subst(w->c, to->at[d], r.bind, r.nbind);
    nest_write(&b, out, at, renumber(w, &r, rest));
    w->made[o][w->phase] = end_step(w, &b);
    rank = 0;
    for (uint32_t d = 0; d < n->param[to->out].type->rank; d++)
        if (d != w->dim[o])
            at[rank++] = to->at[d];
    map_put(known, MAP_PTR(value),
            MAP_PTR(scalar_load(w->c, value->dtype, w->made[o][w->phase], rank, at, NULL)));
    return w->ok;
}

/* The scan as nests of a turn, `phases` of its steps in each. */
static bool
cut_turns(Turns *w, int64_t phases)
{
    const Nest *n = w->n;
    const Expr *count = expr_int(w->c, phases);
    Nest inside = *n;

    w->phases = phases;
    w->turns = expr_exact_div(w->c, n->axis[w->t].extent, count);
    if (!w->turns)
        return false;
    Axis *axis = arena_copy(w->a, n->axis, n->naxis * sizeof *axis);
    axis[w->t].extent = w->turns;
    inside.axis = axis;
    w->ranges = nest_ranges(w->c, w->a, &inside);
    w->type.n = w->step.n = 0;
    w->ok = true;
    w->sums = false;
    w->initial = NEW_ARRAY(w->a, const Scalar *, n->nout);
    w->made = (uint32_t(*)[MOST_PHASES])NEW_ARRAY(w->a, uint32_t, n->nout *MOST_PHASES);
    for (uint32_t i = 0; i < n->nin; i++)
        add_value(w, n->param[i].type);
    add_value(w, type_new(w->c, DT_I64, 0, NULL));
    w->before = w->type.n;
    for (uint32_t o = 0; o < n->nout; o++)
        add_value(w, state_type(w, o));
    for (w->phase = 0; w->phase < phases; w->phase++) {
        Map known = { .arena = w->a };
        for (uint32_t o = 0; o < n->nout; o++)
            if (!make_phase(w, o, &known))
                return false;
    }
    return w->sums;
}

/* ---- the loop -------------------------------------------------------------------------------- */

typedef struct {
    Turns *w;
    Graph *to, *body;
    const Node *node;
    const ValueId *outer; /* of the nest's parameters, in the graph around */
    /* symbols inside to what they are outside; outside to inside */
    VEC(Binding) bind, back;
} Loop;

static void
rename_symbol(void *user, Var v)
{
    Loop *l = user;
    Ctx *c = l->w->c;
    Var inside;

    for (uint32_t i = 0; i < l->back.n; i++)
        if (l->back.at[i].var.id == v.id)
            return;
    if (v.kind != VAR_SYMBOL)
        return;
    const Expr *fresh = expr_fresh_symbol(c, (Sym)(uintptr_t)v.id);
    expr_is_var(fresh, &inside);
    expr_symbol_range(c, inside, expr_symbol_get(c, v));
    VEC_PUSH(l->w->a, &l->bind, ((Binding){ inside, expr_var(c, v) }));
    VEC_PUSH(l->w->a, &l->back, ((Binding){ v, fresh }));
}

static const Type *
type_inside(const Loop *l, const Type *t)
{
    return type_subst(l->w->c, t, l->back.at, l->back.n);
}

/* A nest of no inputs but the scan's: the state of output o before the first turn. */
static ValueId
call_initial(Loop *l, uint32_t o)
{
    Turns *w = l->w;
    const Type *t = w->type.at[w->before + o];
    const Expr *at[TN_MAX_RANK];
    NestBuilder b = nest_begin(w->c, arena_printf(w->a, "%s_before", w->n->name));
    ValueId in[NEST_MAX_AXES],
        out = graph_value(
            l->to, arena_printf(w->a, "%s_before", l->to->value.at[l->outer[w->n->nin + o]].name),
            t);
    bool *keep = NEW_ARRAY(w->a, bool, w->n->nin + 1);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < w->n->nin; i++)
        nest_in(&b, w->n->param[i].name, w->n->param[i].type);
    uint32_t to = nest_out(&b, "o", t);
    nest_axes_of(&b, t, at);
    nest_write(&b, to, at, w->initial[o] ? w->initial[o] : scalar_number(w->c, t->dtype, 0));
    const Nest *n = nest_finish(&b);
    if (!n || w->n->nin > NEST_MAX_AXES)
        return 0;
    n = nest_drop_unused(w->c, n, keep);
    for (uint32_t i = 0; i < w->n->nin; i++)
        if (keep[i])
            in[kept++] = l->outer[i];
    graph_call_nest(l->to, n, l->node->loc, l->node->origin, in, &out);
    return out;
}

/* How many turns: a number, or a nest that makes one of sizes. */
static ValueId
call_turns(Loop *l)
{
    Turns *w = l->w;
    const Type *t = type_new(w->c, DT_I64, 0, NULL);
    int64_t n;

    if (expr_const(w->turns, &n)) {
        int64_t *data = NEW(l->to->arena, int64_t);
        *data = n;
        return graph_const(l->to, "turns", t, data);
    }
    NestBuilder b = nest_begin(w->c, "turns");
    nest_write(&b, nest_out(&b, "o", t), NULL, scalar_index(w->c, w->turns));
    const Nest *count = nest_finish(&b);
    ValueId v = graph_value(l->to, "turns", t);
    if (count)
        graph_call_nest(l->to, count, l->node->loc, l->node->origin, NULL, &v);
    return count ? v : 0;
}

/* Output o of the scan from what was stacked: steps to their dimension, phases between each
 * other. */
static bool
call_arrange(Loop *l, uint32_t o, const ValueId *stacked)
{
    Turns *w = l->w;
    Ctx *c = w->c;
    const NestParam *p = &w->n->param[w->n->nin + o];
    NestBuilder b = nest_begin(c, arena_printf(w->a, "%s_%s", w->n->name, p->name));
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK];
    const Scalar *value = NULL;
    uint32_t rank = 1;

    for (int64_t q = 0; q < w->phases; q++)
        nest_in(&b, arena_printf(w->a, "x%lld", (long long)q), l->to->value.at[stacked[q]].type);
    uint32_t out = nest_out(&b, p->name, p->type);
    nest_axes_of(&b, p->type, axis);
    const Expr *step = axis[w->dim[o]];
    at[0] = expr_div(c, step, expr_int(c, w->phases));
    for (uint32_t d = 0; d < p->type->rank; d++)
        if (d != w->dim[o])
            at[rank++] = axis[d];
    for (int64_t q = w->phases; q-- > 0;) {
        const Scalar *x = nest_load(&b, (uint32_t)q, at);
        const Scalar *here =
            scalar_2(c, S_EQ, scalar_index(c, expr_mod(c, step, expr_int(c, w->phases))),
                     scalar_int(c, DT_I64, q));
        value = value ? scalar_select(c, here, x, value) : x;
    }
    nest_write(&b, out, axis, value);
    const Nest *n = nest_finish(&b);
    if (n)
        graph_call_nest(l->to, n, l->node->loc, l->node->origin, stacked, &l->outer[w->n->nin + o]);
    return n != NULL;
}

/* The body: its inputs are the turn, the condition, the states before and what of the scan's inputs
 * is no constant. */
static ValueId *
make_body(Loop *l, ValueId *args, uint32_t *narg)
{
    Turns *w = l->w;
    const Nest *n = w->n;
    Ctx *c = w->c;
    ValueId *value = NEW_ARRAY(w->a, ValueId, w->type.n);

    for (uint32_t i = 0; i < w->type.n; i++)
        for (uint32_t d = 0; d < w->type.at[i]->rank; d++)
            expr_vars(w->type.at[i]->dim[d], rename_symbol, l);
    for (uint32_t i = 0; i < w->step.n; i++)
        nest_vars(w->step.at[i].nest, rename_symbol, l);
    l->body = graph_new(c, l->to->arena, "turn");
    value[n->nin] = graph_input(l->body, "turn", w->type.at[n->nin]);
    ValueId go = graph_input(l->body, "go", type_new(c, DT_BOOL, 0, NULL));
    VEC_PUSH(l->body->arena, &l->body->output, go);
    for (uint32_t o = 0; o < n->nout; o++)
        value[w->before + o] =
            graph_input(l->body, "before", type_inside(l, w->type.at[w->before + o]));
    for (uint32_t i = 0; i < n->nin; i++) {
        const Value *v = &l->to->value.at[l->outer[i]];
        value[i] = v->data ? graph_const(l->body, v->name, v->type, v->data)
                           : graph_input(l->body, v->name, type_inside(l, v->type));
        if (!v->data)
            args[(*narg)++] = l->outer[i];
    }
    for (uint32_t i = w->before + n->nout; i < w->type.n; i++)
        value[i] = graph_value(l->body, "step", type_inside(l, w->type.at[i]));
    for (uint32_t i = 0; i < w->step.n; i++) {
        const Nest *step = nest_bind(c, w->step.at[i].nest, l->back.at, l->back.n);
        ValueId *param = NEW_ARRAY(w->a, ValueId, step->nin + step->nout);
        for (uint32_t p = 0; p < step->nin + step->nout; p++)
            param[p] = value[w->step.at[i].value[p]];
        graph_call_nest(l->body, step, l->node->loc, l->node->origin, param, param + step->nin);
    }
    return value;
}

static bool
place_loop(Loop *l)
{
    Turns *w = l->w;
    const Nest *n = w->n;
    uint32_t nstacked = n->nout * (uint32_t)w->phases, narg = 0;
    ValueId *in = NEW_ARRAY(w->a, ValueId, 2 + n->nout + n->nin),
            *out = NEW_ARRAY(w->a, ValueId, n->nout + nstacked);

    in[narg++] = call_turns(l);
    in[narg++] = 0;
    for (uint32_t o = 0; o < n->nout; o++)
        if (!(in[narg++] = call_initial(l, o)))
            return false;
    ValueId *value = make_body(l, in, &narg);
    for (uint32_t o = 0; o < n->nout; o++) {
        VEC_PUSH(l->body->arena, &l->body->output, value[w->made[o][w->phases - 1]]);
        out[o] = graph_value(
            l->to, arena_printf(w->a, "%s_after", l->to->value.at[l->outer[n->nin + o]].name),
            w->type.at[w->before + o]);
    }
    for (uint32_t i = 0; i < nstacked; i++) {
        uint32_t o = i / (uint32_t)w->phases;
        const Type *t = w->type.at[w->before + o];
        const Expr *dim[TN_MAX_RANK + 1] = { w->turns };
        memcpy(dim + 1, t->dim, t->rank * sizeof *dim);
        VEC_PUSH(l->body->arena, &l->body->output, value[w->made[o][i % (uint32_t)w->phases]]);
        out[n->nout + i] = graph_value(
            l->to, arena_printf(w->a, "%s_stacked", l->to->value.at[l->outer[n->nin + o]].name),
            type_new(w->c, t->dtype, t->rank + 1, dim));
    }
    Region region = { l->body, l->bind.n, l->bind.at };
    Node loop = { .callee = CALL_LOOP,
                  .nregion = 1,
                  .region = &region,
                  .ncarried = n->nout,
                  .loc = l->node->loc,
                  .origin = l->node->origin };
    graph_call_region(l->to, &loop, narg, in, n->nout + nstacked, out);
    for (uint32_t o = 0; o < n->nout; o++)
        if (!call_arrange(l, o, out + n->nout + o * (uint32_t)w->phases))
            return false;
    return in[0] != 0;
}

Graph *
normalise_turns(const Graph *g)
{
    ValueId *map;
    Graph *to = graph_rebuild(g, &map);

    for (NodeId id = 1; id < g->node.n; id++) {
        const Node *node = &g->node.at[id];
        Turns w = { .c = g->ctx, .a = g->ctx->arena, .n = node->nest };
        bool cut = false;
        if (node->callee == CALL_NEST && node->nest->nout &&
            (w.dim = NEW_ARRAY(w.a, uint32_t, node->nest->nout), find_walk(&w)))
            for (int64_t phases = 1; !cut && phases <= MOST_PHASES; phases++)
                cut = cut_turns(&w, phases);
        if (!cut) {
            graph_copy_node(to, g, id, map);
            continue;
        }
        ValueId *outer = NEW_ARRAY(w.a, ValueId, w.n->nin + w.n->nout);
        for (uint32_t i = 0; i < w.n->nin; i++)
            outer[i] = map[node_in(g, node, i)];
        for (uint32_t o = 0; o < w.n->nout; o++)
            outer[w.n->nin + o] = map[node_out(g, node, o)] =
                graph_copy_value(to, g, node_out(g, node, o));
        if (!place_loop(&(Loop){ .w = &w, .to = to, .node = node, .outer = outer }))
            return NULL;
    }
    graph_finish(to, g, map);
    return to;
}
