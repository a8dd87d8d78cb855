/* window_sum: a sum over a window and over other axes at each of its points, in two steps.
 *
 *     s[y, z] = sum q, r, s: x[q, y + r - 1, z + s - 1 | v] - v
 *
 * becomes
 *
 *     t[y, z] = sum q: x[q, y, z] - v
 *     s[y, z] = sum r, s: t[y + r - 1, z + s - 1 | 0]
 *
 * Points that windows share are summed once. For whole numbers alone, which may be added in any
 * order.
 */
#include "algebra/algebra.h"
#include "nest/walk.h"

typedef struct {
    Ctx *c;
    const Nest *n;
    const Scalar *reduce, *body, *load;
    AxisSet alone; /* summed axes that are a dimension of what is read */
    bool is_alone[TN_MAX_RANK];
} SummedWindow;

/* f(x[…]), or f(x[…]) less one number everywhere, which is also its outside value. */
static bool
find_load(SummedWindow *w)
{
    const Scalar *body = w->body = w->reduce->arg[0], *read = body;

    if (body->op == S_SUB && !body->arg[1]->axes)
        read = body->arg[0];
    while (read->op == S_CAST)
        read = read->arg[0];
    w->load = read;
    if (read->op != S_LOAD || read->u.load.slot >= w->n->nin)
        return false;
    const Scalar *outside = read->u.load.outside;
    return !outside ||
           (body->op == S_SUB && scalar_cast(w->c, body->dtype, outside) == body->arg[1]) ||
           (body->op != S_SUB && outside->op == S_CONST && outside->u.bits == 0);
}

static bool
recognise(SummedWindow *w)
{
    const Nest *n = w->n;
    AxisSet seen = 0, twice = 0;

    if (n->nwrite != 1 || n->write[0].combiner != COMB_NONE || n->write[0].value->op != S_REDUCE)
        return false;
    w->reduce = n->write[0].value;
    if (w->reduce->u.reduce.combiner != COMB_SUM || w->reduce->narg != 1 ||
        !dtype_is_int(w->reduce->dtype) || !find_load(w))
        return false;
    for (uint32_t d = 0; d < w->load->u.load.rank; d++) {
        if (expr_uses_kind(w->load->u.load.at[d], VAR_COMPUTED))
            return false;
        twice |= seen & expr_axes(w->load->u.load.at[d]);
        seen |= expr_axes(w->load->u.load.at[d]);
    }
    for (uint32_t d = 0; d < w->load->u.load.rank; d++) {
        const Expr *dim = n->param[w->load->u.load.slot].type->dim[d];
        AxisSet bit = axis_bit(w->load->u.load.at[d]);
        w->is_alone[d] =
            w->reduce->u.reduce.axes & ~twice & bit &&
            expr_eq(w->c, NULL, n->axis[axis_of(w->load->u.load.at[d])].extent, dim) == YES;
        w->alone |= w->is_alone[d] ? bit : 0;
    }
    return w->alone && w->alone != w->reduce->u.reduce.axes && !(w->reduce->u.reduce.axes & ~seen);
}

/* t: of all n's inputs. */
static const Nest *
make_points(const SummedWindow *w)
{
    Ctx *c = w->c;
    const Type *t = w->n->param[w->load->u.load.slot].type;
    NestBuilder b = nest_begin(c, w->n->name);
    const Expr *at[TN_MAX_RANK], *own[TN_MAX_RANK], *dim[TN_MAX_RANK];
    AxisSet reduced = 0;
    uint32_t rank = 0;

    nest_ins(&b, w->n);
    for (uint32_t d = 0; d < t->rank; d++) {
        at[d] = nest_axis(&b, sym_printf(c, "d%u", d), w->is_alone[d] ? AXIS_REDUCE : AXIS_PARALLEL,
                          t->dim[d]);
        if (w->is_alone[d]) {
            reduced |= axis_bit(at[d]);
            continue;
        }
        own[rank] = at[d];
        dim[rank++] = t->dim[d];
    }
    const Scalar *body =
        scalar_replace(c, w->body, w->load,
                       scalar_load(c, w->load->dtype, w->load->u.load.slot, t->rank, at, NULL));
    nest_write(&b, nest_out(&b, "t", type_new(c, w->reduce->dtype, rank, dim)), own,
               scalar_reduce(c, COMB_SUM, reduced, &body, 1));
    return nest_finish(&b);
}

/* s: of n's inputs and t. */
static const Nest *
make_windows(const SummedWindow *w, const Type *points)
{
    NestEdit e = nest_edit(w->c, w->n, 0, 1);
    const Expr *at[TN_MAX_RANK];
    uint32_t rank = 0, nin = w->n->nin;

    for (uint32_t d = 0; d < w->load->u.load.rank; d++)
        if (!w->is_alone[d])
            at[rank++] = w->load->u.load.at[d];
    const Scalar *zero = w->load->u.load.outside ? scalar_int(w->c, w->reduce->dtype, 0) : NULL;
    const Scalar *body = scalar_load(w->c, w->reduce->dtype, nin, rank, at, zero);
    nest_edit_input(w->c, &e, "t", points);
    e.write[0].value =
        scalar_reduce(w->c, COMB_SUM, w->reduce->u.reduce.axes & ~w->alone, &body, 1);
    FOR_EACH_AXIS (x, w->alone)
        /* nothing is summed over them; they are dropped */
        e.axis[x].extent = expr_int(w->c, 1);
    const Nest *n = nest_edit_done(w->c, &e);
    return n ? nest_simplify(w->c, n) : NULL;
}

const Nest *
nest_window_sum(Ctx *c, const Nest *n, const Nest **points)
{
    SummedWindow w = { .c = c, .n = n };

    if (!recognise(&w) || !(*points = make_points(&w)))
        return NULL;
    return make_windows(&w, (*points)->param[(*points)->nin].type);
}
