/* contraction: is a nest a sum of products of two factors?
 *
 * Matrix multiplications, batched ones, convolutions and einsums are one form: a sum whose body is
 * a * b, with the axes sorted by which factor uses them. The sum may be anywhere inside an
 * elementwise value (bias, activation), so fused epilogues keep the view; it must be the only
 * reduction, and each factor may be any expression, so fused prologues keep it too.
 *
 *     o[n, k, y, z] = relu(b[k] + sum q, r, s: x[n, q, 2*y + r, 2*z + s] * w[k, q, r, s])
 *     row {k} (w alone), col {n, y, z} (x alone: it has z, the innermost), batch {}, sum {q, r, s}
 *
 * A dot-product instruction over pairs or quads (dot2, dot4, dot4s, dot2f) is such a product, of as many
 * summands.
 *
 * A longer chain of products is split where both sides have axes of their own, as many as possible:
 * as written if that is as good, otherwise keeping the order of its factors.
 */
#include "nest/walk.h"

#define MAX_FACTORS 8     /* longer products are not split */
#define SHORTEST_VECTOR 4 /* lanes of f32 in 16 bytes, the narrowest that targets have */

typedef struct {
    const Scalar *at[MAX_FACTORS];
    uint32_t n;
    bool full;
} FactorList;

static void
flatten(const Scalar *s, FactorList *f)
{
    if (s->op == S_MUL) {
        flatten(s->arg[0], f);
        flatten(s->arg[1], f);
    } else if (f->n == MAX_FACTORS) {
        f->full = true;
    } else {
        f->at[f->n++] = s;
    }
}

/* The product of the factors in `pick`, in order. */
static const Scalar *
product(Ctx *c, const FactorList *f, uint32_t pick)
{
    const Scalar *p = NULL;

    FOR_EACH_AXIS (i, pick)
        p = p ? scalar_2(c, S_MUL, p, f->at[i]) : f->at[i];
    return p;
}

/* The rank of a split whose side a has the factors in `pick`: first that both sides have axes of
 * their own, then the number of those axes. 0: no contraction. */
static int
merit(const FactorList *f, const AxisSet *axes, uint32_t pick, AxisSet parallel, AxisSet sum)
{
    AxisSet in_a = 0, in_b = 0;

    for (uint32_t i = 0; i < f->n; i++)
        *(pick >> i & 1 ? &in_a : &in_b) |= axes[i];
    if (((in_a | in_b) & sum) != sum || !in_a || !in_b) /* a number is no side */
        return 0;
    AxisSet row = in_a & ~in_b & parallel, col = in_b & ~in_a & parallel;
    return NEST_MAX_AXES * ((row != 0) + (col != 0)) + __builtin_popcountll(row | col);
}

static bool
split_body(Ctx *c, const Scalar *body, AxisSet parallel, AxisSet sum, const Scalar **a,
           const Scalar **b)
{
    FactorList f = { .n = 0 };
    AxisSet axes[MAX_FACTORS];

    if (scalar_is_dot(body->op)) { /* pairs or quads of products: one factor each side */
        AxisSet side[2] = { body->arg[0]->axes, body->arg[1]->axes };
        f = (FactorList){ { body->arg[0], body->arg[1] }, 2, false };
        *a = body->arg[0];
        *b = body->arg[1];
        return merit(&f, side, 1, parallel, sum) > 0;
    }
    if (body->op != S_MUL)
        return false;
    flatten(body->arg[0], &f);
    /* as the product is written: kept unless another is better */
    uint32_t written = (1u << f.n) - 1, best = written;
    flatten(body->arg[1], &f);
    if (f.full)
        return false;
    for (uint32_t i = 0; i < f.n; i++)
        axes[i] = f.at[i]->axes;
    int most = merit(&f, axes, best, parallel, sum);
    /* the last factor is always in b */
    for (uint32_t pick = 1; pick < (1u << (f.n - 1)); pick++) {
        int m = merit(&f, axes, pick, parallel, sum);
        if (m > most) {
            most = m;
            best = pick;
        }
    }
    if (!most)
        return false;
    *a = best == written ? body->arg[0] : product(c, &f, best);
    *b = best == written ? body->arg[1] : product(c, &f, ~best & ((1u << f.n) - 1));
    return true;
}

/* The only reduction of the nest, if there is exactly one and it is an operand of write 0's value
 * rather than part of an index. */
static const Scalar *
only_reduction(Ctx *c, const Nest *n)
{
    Arena *scratch = arena_child(c->arena);
    Walk walk = nest_walk(c, scratch, n);
    Map operand = { .arena = scratch };
    const Scalar *found = NULL;
    uint32_t count = 0;

    map_put(&operand, MAP_PTR(n->write[0].value), 0);
    for (uint32_t i = 0; i < walk.n; i++) {
        const Scalar *s = walk.at[i].node;
        bool reached = map_get(&operand, MAP_PTR(s), NULL);
        for (uint32_t k = 0; reached && k < s->narg; k++)
            map_put(&operand, MAP_PTR(s->arg[k]), 0);
        if (s->op == S_REDUCE) {
            found = reached ? s : NULL;
            count++;
        }
    }
    arena_free(scratch);
    return count == 1 ? found : NULL;
}

/* The innermost axis of a write's index, but a phase shorter than a vector: 2*k + p has k. */
static AxisSet
innermost(Ctx *c, const Nest *n, const Write *w)
{
    AxisSet phase = 0;

    for (uint32_t d = n->param[w->out].type->rank; d-- > 0;) {
        uint32_t axis[NEST_MAX_AXES];
        for (uint32_t i = write_digits(c, n, w, d, axis); i-- > 0;) {
            int64_t extent;
            bool constant = expr_const(n->axis[axis[i]].extent, &extent);
            if (constant && extent == 1)
                continue;
            if (!constant || extent >= SHORTEST_VECTOR || i == 0)
                return axis_one(axis[i]);
            phase = axis_one(axis[i]); /* of a dimension that other axes write as well */
        }
    }
    return phase;
}

static AxisSet
unit_axes(const Nest *n)
{
    AxisSet set = 0;

    for (uint32_t k = 0; k < n->naxis; k++)
        if (expr_is(n->axis[k].extent, 1))
            set |= axis_one(k);
    return set;
}

bool
nest_contraction(Ctx *c, const Nest *n, Contraction *out)
{
    if (!n->nwrite || !nest_axes_of_kind(n, AXIS_REDUCE) || nest_axes_of_kind(n, AXIS_SCAN) ||
        !write_is_plain(c, n, &n->write[0]))
        return false;

    const Scalar *reduce = only_reduction(c, n);
    if (!reduce || reduce->u.reduce.combiner != COMB_SUM || reduce->narg != 1)
        return false;

    AxisSet unit = unit_axes(n);
    AxisSet parallel = nest_axes_of_kind(n, AXIS_PARALLEL), sum = reduce->u.reduce.axes;
    Contraction v = { .reduce = reduce, .sum = sum };
    if (!split_body(c, reduce->arg[0], parallel & ~unit, sum & ~unit, &v.a, &v.b))
        return false;

    AxisSet in_a = v.a->axes, in_b = v.b->axes, inner = innermost(c, n, &n->write[0]);
    if (parallel & ~unit & ~(in_a | in_b))
        return false;
    bool a_inner = (in_a & inner) != 0, b_inner = (in_b & inner) != 0;
    bool a_is_col = a_inner != b_inner ? a_inner
                                       : __builtin_popcountll(in_a & ~in_b & parallel & ~unit) >
                                             __builtin_popcountll(in_b & ~in_a & parallel & ~unit);
    if (a_is_col) {
        const Scalar *s = v.a;
        AxisSet set = in_a;
        v.a = v.b;
        v.b = s;
        in_a = in_b;
        in_b = set;
    }
    v.row = in_a & ~in_b & parallel & ~unit;
    v.col = in_b & ~in_a & parallel & ~unit;
    v.batch = parallel & ~v.row & ~v.col; /* axes of extent 1 may be anywhere */
    *out = v;
    return true;
}

/* ---- factors of constants -------------------------------------------------------------------- */

const Scalar *
nest_constant_read(Ctx *c, const Scalar *factor, bool (*known)(void *user, uint32_t slot),
                   void *user)
{
    const Scalar *widest = NULL;
    AxisSet axes = 0;
    bool again = false; /* another read varies with as many axes */

    FOR_EACH_SCALAR (s, scalar_nodes(c, factor)) {
        if (s->op == S_REDUCE || s->op == S_AT)
            return NULL;
        if (s->op != S_LOAD)
            continue;
        if (!known(user, s->u.load.slot) || s->u.load.outside)
            return NULL;
        axes |= s->axes;
        int more = widest ? __builtin_popcountll(s->axes) - __builtin_popcountll(widest->axes) : 1;
        again = more == 0 || (more < 0 && again);
        widest = more > 0 ? s : widest;
    }
    return widest && !again && widest->axes == axes ? widest : NULL;
}
