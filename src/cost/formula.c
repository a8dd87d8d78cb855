/* formula: the price of a nest before anything is known of its loops.
 *
 * Arithmetic is counted as schedules would do it: loop-invariant parts of a reduction's body once
 * for each point of the rest; a factor of a contraction once for each point at which it differs (a
 * window that slides over computed values computes each as often as it reads it: only a bare read
 * is copied), and once for each packing: a task has as many rows (columns) as fit half of L2, and
 * packs the other factor for itself; with fewer tasks than cores, each is halved (even_share of
 * write_contraction.c). Reads count the touched part of a tensor; lanes along the innermost written
 * axis are contiguous or strided: a factor that is read bare is transposed in registers as it is
 * packed, a computed one is gathered. So are lanes on both sides of a select by position.
 */
#include <math.h>

#include "cost/internal.h"
#include "nest/walk.h"

static bool
hinted_value(void *user, Var v, int64_t *out)
{
    *out = v.kind == VAR_SYMBOL ? expr_symbol_supposed(user, v) : EXPR_SUPPOSED;
    return true;
}

double
cost_expected_size(Ctx *c, const Expr *e)
{
    int64_t v;

    return expr_eval(e, hinted_value, c, &v) ? (double)v : EXPR_SUPPOSED;
}

typedef struct {
    Ctx *c;
    const Nest *n;
    const Machine *m;
    Contraction view;
    bool product;
    /* nodes in a factor of the contraction: how often they are computed */
    Map factor;
} Formula;

static double
points_of(const Formula *f, AxisSet axes)
{
    double p = 1;

    FOR_EACH_AXIS (k, axes)
        p *= cost_expected_size(f->c, f->n->axis[k].extent);
    return p;
}

/* Cycles of rounding to a 16-bit float: as the machine stores it. */
static double
rounding_cycles(const Machine *m, const Scalar *s)
{
    double rate = s->op != S_CAST       ? 0
                  : s->dtype == DT_F16  ? m->f16_store_per_second
                  : s->dtype == DT_BF16 ? m->bf16_store_per_second
                                        : 0;

    return rate > 0 ? 1 / (rate * m->cycle_seconds) : 0;
}

/* Cycles of one core for one value, in vectors. */
static double
cycles_of(const Formula *f, const Scalar *s)
{
    const OpCost *o = &op_cost[s->op];
    double lanes = machine_lanes(f->m, s->dtype == DT_BOOL ? DT_F32 : s->dtype);
    double cycles = o->fma / f->m->fma_per_cycle + o->alu / f->m->add_per_cycle +
                    o->divide * f->m->divide_cycles + o->root * f->m->sqrt_cycles;

    return cycles / lanes + o->lane_cycles + rounding_cycles(f->m, s);
}

/* The elements of the largest tensor read below s. */
static double
largest_read(const Formula *f, const Scalar *s)
{
    double most = 0;

    FOR_EACH_SCALAR (load, scalar_loads(f->c, s))
        most = fmax(
            most, cost_expected_size(f->c, type_count(f->c, f->n->param[load->u.load.slot].type)));
    return most;
}

/* A maximum with a number takes no third instruction for a NaN of it (scalar_cost.c). */
static const double NO_NAN = 2.0 / 3;

static double
cycles_in_place(const Formula *f, const Scalar *s)
{
    bool number = (s->op == S_MAX || s->op == S_MIN) &&
                  (s->arg[0]->op == S_CONST || s->arg[1]->op == S_CONST);

    return cycles_of(f, s) * (number ? NO_NAN : 1);
}

static void
arithmetic(Formula *f, Arena *a, CostFormula *out)
{
    AxisSet outer = nest_axes_of_kind(f->n, AXIS_PARALLEL) | nest_axes_of_kind(f->n, AXIS_SCAN);
    Walk walk = nest_walk(f->c, a, f->n);
    double cycles = 0, inner = 0;

    for (uint32_t i = 0; i < walk.n; i++) {
        const Scalar *s = walk.at[i].node;
        uint64_t elements;
        if (s->op == S_REDUCE) {
            double lanes = machine_lanes(f->m, s->dtype == DT_BOOL ? DT_F32 : s->dtype);
            /* otherwise it is a part of the contraction below */
            if (s->arg[0]->op != S_MUL || s->u.reduce.combiner != COMB_SUM)
                cycles += points_of(f, outer | (walk.at[i].reduce & s->axes) | s->u.reduce.axes) /
                          f->m->fma_per_cycle / lanes;
            continue;
        }
        if (!s->axes || s->op == S_LOAD || s->op == S_CONST || s->op == S_INDEX ||
            s->op == S_ITEM || s->op == S_AT)
            continue;
        double points = points_of(f, outer | (walk.at[i].reduce & s->axes));
        if (map_get(&f->factor, MAP_PTR(s), &elements))
            inner += (double)elements * cycles_in_place(f, s);
        else if (f->product && s == f->view.reduce->arg[0])
            inner += points * cycles_of(f, s);
        else
            cycles += points * cycles_in_place(f, s);
    }
    out->work = cycles * f->m->cycle_seconds;
    out->inner = inner * f->m->cycle_seconds;
}

/* The axis of lanes: that of the last written dimension with more than one element. */
static AxisSet
lane_axis(const Formula *f)
{
    const Write *w = &f->n->write[0];

    for (uint32_t d = f->n->param[w->out].type->rank; d-- > 0;) {
        AxisSet axes = expr_axes(w->at[d]), bit = axis_bit(w->at[d]);
        if (bit && !expr_is(f->n->axis[axis_of(w->at[d])].extent, 1))
            return bit;
        if (axes)
            return axis_one(63 - (uint32_t)__builtin_clzll(axes)); /* the last digit */
    }
    return 0;
}

/* Are elements strided along the axis, and contiguous along none of `or`? */
static bool
is_strided(const Formula *f, const Scalar *load, AxisSet lane, AxisSet or)
{
    const Type *t = f->n->param[load->u.load.slot].type;
    bool along = false;

    for (uint32_t d = t->rank; d-- > 0;) {
        if (expr_is(t->dim[d], 1))
            continue;
        AxisSet used = expr_axes(load->u.load.at[d]);
        if (!along && used & (lane | or))
            return false;
        along = true;
        if (used & lane)
            return true;
    }
    return false;
}

/* Does a select by position divide the lanes of a vector? Vectors begin at multiples of their
 * lanes. beside: reads whose other arm is a number; lanes of both are blended. */
typedef struct {
    const Formula *f;
    bool any;
    Map beside;
} Torn;

static void
note_torn(Torn *t, const Scalar *s)
{
    uint32_t lanes = machine_lanes(t->f->m, DT_F32);

    if (!scalar_is_compared_choice(s))
        return;
    const Scalar *a = s->arg[0]->arg[0], *b = s->arg[0]->arg[1], *yes = s->arg[1], *no = s->arg[2];
    if (yes->op == S_CONST || no->op == S_CONST)
        map_put(&t->beside, MAP_PTR(yes->op == S_CONST ? no : yes), 1);
    if (a->op == S_INDEX && b->op == S_CONST)
        t->any |= s->arg[0]->op <= S_NE ||
                  (b->u.bits + (s->arg[0]->op == S_LE || s->arg[0]->op == S_GT)) % lanes;
    else
        t->any |= a->op == S_INDEX || b->op == S_INDEX;
}

/* How often a factor is packed: by each task that has some of the other's columns, `bytes` of them
 * in all. */
static double
times_ready(const Formula *f, AxisSet columns, double bytes)
{
    double tasks = ceil(bytes / fmax((double)machine_block_bytes(f->m, LEVEL_L2), 1));
    /* tiles are two or three vectors wide */
    double panels = ceil(points_of(f, columns) / (2 * machine_lanes(f->m, f->view.reduce->dtype)));

    /* With fewer tasks than cores each is halved, if it has panels for that. */
    if (f->m->cores > tasks * points_of(f, f->view.batch))
        tasks = fmin(2 * tasks, fmax(tasks, panels));
    return tasks;
}

/* Axes with more points than windows have: borders cut a part of a window whatever it is fused
 * with. */
static AxisSet
long_axes(const Formula *f, AxisSet axes)
{
    enum { LONGEST_WINDOW = 15 };
    AxisSet set = 0;

    for (uint32_t k = 0; k < f->n->naxis; k++)
        if ((axes >> k & 1) && cost_expected_size(f->c, f->n->axis[k].extent) > LONGEST_WINDOW)
            set |= axis_one(k);
    return set;
}

CostFormula
cost_formula(Ctx *c, Arena *a, const Nest *n, const Machine *m)
{
    Formula f = { .c = c, .n = n, .m = m, .factor.arena = a };
    CostFormula out = { .bytes = NEW_ARRAY(a, double, n->nin + n->nout + 1),
                        .factor = NEW_ARRAY(a, bool, n->nin + n->nout + 1) };
    AxisSet outer = nest_axes_of_kind(n, AXIS_PARALLEL) | nest_axes_of_kind(n, AXIS_SCAN),
            lane = lane_axis(&f);
    Accesses reads = nest_accesses(c, a, n);
    Ranges ranges = nest_ranges(c, a, n);
    Torn torn = { .f = &f, .beside.arena = a };

    for (uint32_t i = 0; i < n->nwrite; i++)
        FOR_EACH_SCALAR (s, scalar_nodes(c, n->write[i].value))
            note_torn(&torn, s);
    f.product = nest_axes_of_kind(n, AXIS_REDUCE) && nest_contraction(c, n, &f.view);
    for (uint32_t side = 0; f.product && side < 2; side++) {
        const Scalar *s = side ? f.view.b : f.view.a;
        double other = points_of(&f, (side ? f.view.row : f.view.col) | f.view.sum) *
                       dtype_info[f.view.reduce->dtype].bytes;
        AxisSet computed = s->op == S_LOAD ? 0 : s->axes;
        double elements = computed ? points_of(&f, computed) : largest_read(&f, s),
               again = times_ready(&f, side ? f.view.row : f.view.col, other);
        FOR_EACH_SCALAR (node, scalar_nodes(c, s))
            map_put(&f.factor, MAP_PTR(node), (uint64_t)fmin(elements * again, 1e18));
    }
    out.trips = points_of(&f, outer);
    arithmetic(&f, a, &out);
    if (f.product) {
        double points = points_of(&f, f.view.batch | f.view.row | f.view.col | f.view.sum);
        double whole = points / m->fma_per_cycle / machine_lanes(m, DT_F32) * m->cycle_seconds;
        out.least = whole * cost_density(c, a, n, long_axes(&f, f.view.sum));
        out.inner = fmax(out.inner - (whole - out.least), 0);
    }
    for (uint32_t i = 0; i < reads.n; i++) {
        const Scalar *load = reads.at[i].load;
        uint32_t slot = load->u.load.slot, bytes = dtype_info[n->param[slot].type->dtype].bytes;
        AxisSet used = 0;
        for (uint32_t d = 0; d < load->u.load.rank; d++)
            used |= expr_axes(load->u.load.at[d]);
        out.bytes[slot] = fmin(out.bytes[slot] + points_of(&f, used) * bytes,
                               cost_expected_size(c, type_bytes(c, n->param[slot].type)));
        uint64_t elements;
        bool factor = map_get(&f.factor, MAP_PTR(load), &elements),
             bare = factor && (load == f.view.a || load == f.view.b);
        double gather = m->gather_cycles / machine_lanes(m, DT_F32) * m->cycle_seconds;
        bool blends = map_get(&torn.beside, MAP_PTR(load), NULL) &&
                      load_is_inside(c, &ranges, load, n->param[slot].type);
        bool masked = reads.at[i].conditional && torn.any && !blends;
        out.factor[slot] |= factor;
        if (factor && !bare && (masked || is_strided(&f, load, lane, 0)))
            out.inner += (double)elements * gather;
        else if (!factor &&
                 (masked || is_strided(&f, load, lane, nest_axes_of_kind(n, AXIS_REDUCE))))
            out.work += points_of(&f, outer | (reads.at[i].reduce & used)) * gather;
    }
    for (uint32_t i = n->nin; i < n->nin + n->nout; i++)
        out.bytes[i] = cost_expected_size(c, type_bytes(c, n->param[i].type));
    return out;
}
