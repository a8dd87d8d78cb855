/* winograd_step: a value over the axes of a Domain as a nest of its own.
 *
 * The nest gets the axes that the value is made for, those that sums in it bind, and an input for
 * each source that it reads.
 */
#include "algebra/algebra.h"
#include "winograd/internal.h"

#include "nest/walk.h"

typedef struct {
    Bindings as; /* first: the hooks of Bindings get this */
    AxisSet bound;
    uint64_t read;
    uint32_t slot[WINOGRAD_MAX_SOURCES];
} StepNest;

/* The name and type of a source. */
static NestParam
source_param(const Winograd *w, uint32_t source)
{
    static const char *const matrix[MATRIX_COUNT] = { "g", "b", "a" };
    uint32_t matrices = w->direct->nin, steps = matrices + MATRIX_COUNT;

    if (source < matrices)
        return w->direct->param[source];
    if (source < steps)
        return (NestParam){ matrix[source - matrices], w->matrix_type[source - matrices] };
    const WinogradNest *made = &w->step[source - steps];
    return (NestParam){ winograd_group_name[made->group], made->nest->param[made->nest->nin].type };
}

const Type *
winograd_type(const Winograd *w, uint32_t source)
{
    return source_param(w, source).type;
}

const Scalar *
winograd_last(const WinogradBuild *k, uint32_t rank, const Expr *const *at, const Scalar *outside)
{
    uint32_t last = k->to->direct->nin + MATRIX_COUNT + k->to->nstep - 1;
    return scalar_load(k->ctx, DT_F32, last, rank, at, outside);
}

static const Scalar *
read_slot(ScalarMap *m, const Scalar *load)
{
    const StepNest *step = m->user;
    return load_with(m->ctx, load, step->slot[load->u.load.slot], load->u.load.outside);
}

/* The inputs: of the direct nest, the latest steps, and matrices. */
static const uint32_t *
add_inputs(const WinogradBuild *k, StepNest *step, NestBuilder *b)
{
    uint32_t nin = k->to->direct->nin, nstep = k->to->nstep, all = nin + MATRIX_COUNT + nstep,
             *from = NEW_ARRAY(k->ctx->arena, uint32_t, all);

    for (uint32_t i = 0; i < all; i++) {
        uint32_t source = i < nin ? i : i < nin + nstep ? all - 1 - (i - nin) : i - nstep;
        if (!(step->read >> source & 1))
            continue;
        NestParam param = source_param(k->to, source);
        step->slot[source] = nest_in(b, param.name, param.type);
        from[step->slot[source]] = source;
    }
    return from;
}

/* Schedules name loops by axes, so no two have one name. */
static Binding
add_axis(const WinogradBuild *k, NestBuilder *b, uint32_t axis, AxisKind kind)
{
    const Axis *of = &k->axis[axis];
    NestEdit names = { .nest.naxis = b->axis.n, .axis = b->axis.at };
    Sym name = nest_fresh_axis(k->ctx, &names, of->name);

    return (Binding){ { VAR_AXIS, axis }, nest_axis(b, name, kind, of->extent) };
}

bool
winograd_step(const WinogradBuild *k, WinogradGroup group, const char *name, const Scalar *value,
              uint32_t n, const uint32_t *axis, const Target *target)
{
    Ctx *c = k->ctx;
    NestBuilder b = nest_begin(c, name);
    Binding as[NEST_MAX_AXES];
    StepNest step = { .as = { as, 0 } };
    Arena *scratch = arena_child(c->arena);
    ScalarMap map = { .load = read_slot,
                      .expr = bindings_apply,
                      .axes = bindings_axes,
                      .user = &step,
                      .ctx = c,
                      .done = { .arena = scratch } };
    const Expr *at[TN_MAX_RANK];

    FOR_EACH_SCALAR (s, scalar_nodes(c, value)) {
        step.read |= s->op == S_LOAD ? (uint64_t)1 << s->u.load.slot : 0;
        step.bound |= s->op == S_REDUCE ? s->u.reduce.axes : 0;
    }
    const uint32_t *from = add_inputs(k, &step, &b);
    for (uint32_t i = 0; i < n; i++)
        as[step.as.n++] = add_axis(k, &b, axis[i], AXIS_PARALLEL);
    FOR_EACH_AXIS (a, step.bound)
        as[step.as.n++] = add_axis(k, &b, a, AXIS_REDUCE);
    for (uint32_t d = 0; d < target->rank; d++)
        at[d] = bindings_apply(&map, target->at[d]);
    nest_write(&b, nest_out(&b, "o", type_new(c, value->dtype, target->rank, target->dim)), at,
               scalar_map(&map, value));
    arena_free(scratch);
    const Nest *made = nest_finish(&b);
    made = made ? nest_simplify(c, made) : NULL;
    k->to->step[k->to->nstep++] = (WinogradNest){ group, made, from };
    return made != NULL;
}
