/* integer_matmul: turn matmuls by low-precision constants into integer matmuls, by quantising the
 * other operand at run time.
 *
 *     y[i, j] = sum k: x[i, k] * w[k, j]           w[k, j] is (n[k, j] - zero) * s[k // G, j]
 *
 * becomes, with one scale for each group of G neighbours of x too,
 *
 *     r[i, g] = (max k<G: abs(x[i, G*g + k])) / 127
 *     q[i, k] = i8(round(x[i, k] / r[i, k // G]))
 *     t[i, j, g] = sum k<G: q[i, G*g + k] * (n[G*g + k, j] - zero)
 *     y[i, j] = sum g: f32(t[i, j, g]) * (r[i, g] * s[g, j])
 *
 * The error is half a step of q: at most 1/254 of the largest element of its group; t is exact.
 * Processors have dot-product instructions over four bytes (VNNI), so the summed axis is split into
 * quads. A word of eight 4-bit elements keeps element 4*p + e at bits 8*e + 4*p, so that one mask
 * extracts a quad. Bytes are stored with 128 added, because the instruction takes one unsigned
 * side. algebra/dot4.c subtracts the zero points, once for each group of x.
 */
#include "rewrite/integer_matmul.h"

#include "nest/walk.h"

#include <string.h>

enum {
    QUAD = 4,
    WORD = 8,
    MOST = 127,
    BYTE_ZERO = 128,
    NIBBLE_ZERO = 8,
    MOST_SUMMANDS = INT32_MAX / (MOST * MOST)
};

static int64_t
group_of(const Quantising *q)
{
    return q->group ? q->group : q->extent[q->dim];
}

/* ---- may it be ------------------------------------------------------------------------------- */

/* The dimension that a read has the axis in, bare and whole, and no other has; rank: there is
 * none. */
static uint32_t
dim_along(Ctx *c, const Nest *n, const Scalar *load, uint32_t axis)
{
    uint32_t found = load->u.load.rank;

    for (uint32_t d = 0; d < load->u.load.rank; d++) {
        const Expr *e = load->u.load.at[d];
        if (expr_uses_kind(e, VAR_COMPUTED) ||
            (expr_axes(e) & axis_one(axis) && (found < load->u.load.rank || axis_of(e) != axis)))
            return load->u.load.rank;
        if (axis_of(e) == axis)
            found = d;
    }
    if (found < load->u.load.rank &&
        expr_eq(c, NULL, n->param[load->u.load.slot].type->dim[found], n->axis[axis].extent) != YES)
        return load->u.load.rank;
    return found;
}

static uint32_t
summed_axis(const Contraction *k)
{
    return (uint32_t)__builtin_ctzll(k->sum);
}

bool
dots_fit(Ctx *c, const Nest *n, const Contraction *k, const Scalar *weights, const Quantising *q,
         const Scalar **other)
{
    const Scalar *x = weights == k->a ? k->b : k->a;
    int64_t group = group_of(q), share = q->dtype == DT_I4 ? WORD : QUAD;

    *other = x;
    if (n->nwrite != 1 || n->nout != 1 || nest_axes_of_kind(n, AXIS_SCAN) ||
        k->sum & (k->sum - 1) || x->op != S_LOAD || x->u.load.outside || x->dtype != DT_F32)
        return false;
    for (uint32_t i = 0; i < n->naxis; i++)
        if (axis_varies(&n->axis[i]))
            return false;
    uint32_t axis = summed_axis(k), rank = n->naxis;
    return q->extent[q->dim] % group == 0 && group % share == 0 && group <= MOST_SUMMANDS &&
           rank < TN_MAX_RANK && x->u.load.rank + 2 <= TN_MAX_RANK && q->rank < TN_MAX_RANK &&
           dim_along(c, n, x, axis) < x->u.load.rank && dim_along(c, n, weights, axis) == q->dim;
}

uint32_t
dots_extents(const Quantising *q, int64_t *extent)
{
    uint32_t rank = q->rank;

    quantise_stored(q, extent);
    if (q->dtype == DT_I4)
        return rank;
    for (uint32_t d = rank++; d > q->dim + 1; d--)
        extent[d] = extent[d - 1];
    extent[q->dim] /= QUAD;
    extent[q->dim + 1] = QUAD;
    return rank;
}

/* ---- what is multiplied, in integers --------------------------------------------------------- */

typedef struct {
    ValueId scale, whole;
} Narrowed;

/* t with these [n] in place of dimension `dim`. */
static const Type *
type_with(Ctx *c, const Type *t, DType dtype, uint32_t dim, const int64_t *extent, uint32_t n)
{
    const Expr *to[TN_MAX_RANK];
    uint32_t rank = 0;

    for (uint32_t d = 0; d < t->rank; d++)
        for (uint32_t i = 0; i < (d == dim ? n : 1); i++)
            to[rank++] = d == dim ? expr_int(c, extent[i]) : t->dim[d];
    return type_new(c, dtype, rank, to);
}

static ValueId
call(Dots *d, const Nest *n, const Node *node, const char *name, const char *suffix,
     const ValueId *in)
{
    return graph_nest_value(d->to, n, arena_printf(d->to->arena, "%s.%s", name, suffix), node->loc,
                            node->origin, in);
}

/* r = (max k<G: abs(x[G*g + k])) / 127 */
static const Nest *
scales_nest(Ctx *c, const Type *x, const Type *r, uint32_t dim, int64_t group)
{
    NestBuilder b = nest_begin(c, "scales");
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK];
    uint32_t slot = nest_in(&b, "x", x), out = nest_out(&b, "o", r);

    nest_axes_of(&b, r, axis);
    const Expr *k = nest_axis(&b, "e", AXIS_REDUCE, expr_int(c, group));
    memcpy(at, axis, sizeof at);
    at[dim] = expr_add(c, expr_scale(c, axis[dim], group), k);
    const Scalar *body = scalar_1(c, S_ABS, nest_load(&b, slot, at));
    nest_write(&b, out, axis,
               scalar_2(c, S_MUL, scalar_reduce(c, COMB_MAX, axis_bit(k), &body, 1),
                        scalar_float(c, DT_F32, 1.0 / MOST)));
    return nest_finish(&b);
}

/* 1 / r, and 0 where all of a group is. */
static const Nest *
inverse_nest(Ctx *c, const Type *r)
{
    NestBuilder b = nest_begin(c, "inverses");
    const Expr *axis[TN_MAX_RANK];
    uint32_t slot = nest_in(&b, "r", r), out = nest_out(&b, "o", r);

    nest_axes_of(&b, r, axis);
    const Scalar *s = nest_load(&b, slot, axis), *none = scalar_float(c, DT_F32, 0);
    nest_write(&b, out, axis,
               scalar_select(c, scalar_2(c, S_EQ, s, none), none,
                             scalar_2(c, S_DIV, scalar_float(c, DT_F32, 1), s)));
    return nest_finish(&b);
}

/* q = i8(round(x * inverse)), in groups of quads */
static const Nest *
integers_nest(Ctx *c, const Type *x, const Type *r, const Type *q, uint32_t dim, int64_t group)
{
    NestBuilder b = nest_begin(c, "integers");
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK];
    uint32_t slot = nest_in(&b, "x", x), inverse = nest_in(&b, "r", r), out = nest_out(&b, "o", q);

    nest_axes_of(&b, q, axis);
    for (uint32_t d = 0; d < x->rank; d++)
        at[d] = axis[d > dim ? d + 2 : d];
    at[dim] = expr_add(
        c, expr_add(c, expr_scale(c, axis[dim], group), expr_scale(c, axis[dim + 1], QUAD)),
        axis[dim + 2]);
    const Scalar *value = nest_load(&b, slot, at);
    at[dim] = axis[dim];
    nest_write(
        &b, out, axis,
        scalar_cast(c, DT_I8,
                    scalar_1(c, S_ROUND, scalar_2(c, S_MUL, value, nest_load(&b, inverse, at)))));
    return nest_finish(&b);
}

static bool
narrowed(Dots *d, const DotProduct *p, ValueId x, uint32_t dim, Narrowed *out)
{
    Ctx *c = d->to->ctx;
    const Type *t = d->to->value.at[x].type;
    int64_t group = group_of(p->q);
    uint64_t key = (uint64_t)x * TN_MAX_RANK + dim, known;

    if (map_get(&d->made, key, &known)) {
        *out = *(const Narrowed *)(uintptr_t)known;
        return true;
    }
    const char *name = d->to->value.at[x].name;
    const int64_t of[] = { p->q->extent[p->q->dim] / group, group / QUAD, QUAD };
    const Type *r = type_with(c, t, DT_F32, dim, of, 1), *q = type_with(c, t, DT_I8, dim, of, 3);
    out->scale = call(d, scales_nest(c, t, r, dim, group), p->node, name, "scale", &x);
    ValueId inverse =
                out->scale ? call(d, inverse_nest(c, r), p->node, name, "inverse", &out->scale) : 0,
            in[] = { x, inverse };
    out->whole =
        inverse ? call(d, integers_nest(c, t, r, q, dim, group), p->node, name, "i8", in) : 0;
    map_put(&d->made, key, MAP_PTR(arena_copy(d->to->arena, out, sizeof *out)));
    return out->whole != 0;
}

/* ---- the product ----------------------------------------------------------------------------- */

/* Summands are counted by groups, quads in them, and places in a quad; of words, by words and
 * halves of them too. Of constants the group is counted in `all`: words or quads. */
typedef struct {
    const Expr *group, *quad, *in_quad, *all, *in_word;
    AxisSet sum;
} Count;

static Count
count_axes(NestBuilder *b, const Quantising *q)
{
    Ctx *c = b->ctx;
    int64_t group = group_of(q);
    Count n = { .group = nest_axis(b, "g", AXIS_PARALLEL, expr_int(c, q->extent[q->dim] / group)) };

    bool words = q->dtype == DT_I4;
    const Expr *some = nest_axis(b, "t", AXIS_REDUCE, expr_int(c, group / (words ? WORD : QUAD))),
               *half = words ? nest_axis(b, "p", AXIS_REDUCE, expr_int(c, 2)) : NULL;

    n.in_quad = nest_axis(b, "e", AXIS_REDUCE, expr_int(c, QUAD));
    n.quad = words ? expr_add(c, expr_scale(c, some, 2), half) : some;
    n.all = expr_add(c, expr_scale(c, n.group, group / (words ? WORD : QUAD)), some);
    n.in_word = words ? expr_add(c, expr_scale(c, n.in_quad, 2), half) : NULL;
    n.sum = axis_bit(some) | axis_bit(n.in_quad) | (words ? axis_bit(half) : 0);
    return n;
}

/* The indices of a read, with these [n] in place of that of dimension `dim`. */
static void
place(Ctx *c, const Scalar *load, const Binding *bind, uint32_t nbind, uint32_t dim,
      const Expr *const *with, uint32_t n, const Expr **to)
{
    uint32_t rank = 0;

    for (uint32_t d = 0; d < load->u.load.rank; d++)
        for (uint32_t i = 0; i < (d == dim ? n : 1); i++)
            to[rank++] = d == dim ? with[i] : expr_subst(c, load->u.load.at[d], bind, nbind);
}

/* t, over the product's own axes and groups. */
static const Nest *
integer_product(Ctx *c, const DotProduct *p, const Nest *n, const Type *whole, const Type *stored)
{
    NestBuilder b = nest_begin(c, n->name);
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK], *dim[TN_MAX_RANK];
    Binding bind[NEST_MAX_AXES];
    const Quantising *q = p->q;
    uint32_t rank = 0, x = nest_in(&b, "x", whole), w = nest_in(&b, "w", stored),
             along = summed_axis(&p->k);

    for (uint32_t i = 0; i < n->naxis; i++) {
        if (i == along)
            continue;
        axis[rank] = nest_axis(&b, n->axis[i].name, AXIS_PARALLEL, n->axis[i].extent);
        dim[rank] = n->axis[i].extent;
        bind[rank] = (Binding){ { VAR_AXIS, i }, axis[rank] };
        rank++;
    }
    Count k = count_axes(&b, q);
    axis[rank] = k.group;
    dim[rank] = expr_int(c, q->extent[q->dim] / group_of(q));
    const Expr *own[] = { k.group, k.quad, k.in_quad }, *constant[] = { k.all, k.in_quad };
    place(c, p->other, bind, rank, dim_along(c, n, p->other, along), own, 3, at);
    const Scalar *a = scalar_cast(c, DT_I32, nest_load(&b, x, at)), *v;
    place(c, p->weights, bind, rank, q->dim, constant, k.in_word ? 1 : 2, at);
    v = nest_load(&b, w, at);
    if (k.in_word)
        v = scalar_2(c, S_SUB, scalar_in_word(c, v, k.in_word, dtype_info[DT_I4].bits),
                     scalar_int(c, DT_I32, NIBBLE_ZERO));
    else
        v = scalar_2(c, S_SUB, scalar_cast(c, DT_I32, v), scalar_int(c, DT_I32, BYTE_ZERO));
    const Scalar *body = scalar_2(c, S_MUL, a, v);
    uint32_t out = nest_out(&b, "o", type_new(c, DT_I32, rank + 1, dim));
    nest_write(&b, out, axis, scalar_reduce(c, COMB_SUM, k.sum, &body, 1));
    return nest_finish(&b);
}

/* The product's own nest, which sums t times both scales instead: its summed axis counts groups. */
static const Nest *
scaled_sum(Ctx *c, const DotProduct *p, const Nest *n, const Type *t, const Type *r, const Type *s)
{
    NestEdit e = nest_edit(c, n, 0, 3);
    const Quantising *q = p->q;
    uint32_t along = summed_axis(&p->k), nat = 0, slot = nest_edit_input(c, &e, "t", t);
    const Expr *at[TN_MAX_RANK];

    nest_edit_input(c, &e, "r", r);
    nest_edit_input(c, &e, "s", s);
    e.axis[along].extent = expr_int(c, q->extent[q->dim] / group_of(q));
    for (uint32_t i = 0; i < n->naxis; i++)
        if (i != along)
            at[nat++] = expr_axis(c, i);
    at[nat++] = expr_axis(c, along);
    const Scalar *sum = scalar_cast(c, DT_F32, scalar_load(c, DT_I32, slot, nat, at, NULL));
    const Scalar *own =
        scalar_load(c, DT_F32, slot + 1, p->other->u.load.rank, p->other->u.load.at, NULL);
    nat = 0;
    for (uint32_t d = 0; d < q->rank; d++)
        if (!q->summed[d] || q->group)
            at[nat++] = p->weights->u.load.at[d];
    const Scalar *scale = scalar_cast(c, DT_F32, scalar_load(c, s->dtype, slot + 2, nat, at, NULL));
    const Scalar *body = scalar_2(c, S_MUL, sum, scalar_2(c, S_MUL, own, scale));
    e.write[0].value = scalar_replace(c, n->write[0].value, p->k.reduce,
                                      scalar_reduce(c, COMB_SUM, p->k.sum, &body, 1));
    return nest_edit_done(c, &e);
}

bool
dots_call(Dots *d, const DotProduct *p, ValueId *map)
{
    const Graph *from = d->from;
    Ctx *c = from->ctx;
    const Nest *n = p->node->nest;
    Narrowed x;
    uint32_t slot = p->other->u.load.slot;

    if (!narrowed(d, p, map[node_in(from, p->node, slot)],
                  dim_along(c, n, p->other, summed_axis(&p->k)), &x))
        return false;
    const Value *v = d->to->value.at;
    const Nest *dots = integer_product(c, p, n, v[x.whole].type, v[p->stored].type);
    ValueId in[] = { x.whole, p->stored }, out = node_out(from, p->node, 0),
            *value = NEW_ARRAY(c->arena, ValueId, n->nin + 3);
    ValueId t = call(d, dots, p->node, from->value.at[out].name, "dots", in);
    const Nest *sum = t ? scaled_sum(c, p, n, d->to->value.at[t].type,
                                     d->to->value.at[x.scale].type, d->to->value.at[p->scale].type)
                        : NULL;
    if (!sum)
        return false;
    for (uint32_t i = 0; i < n->nin; i++)
        value[i] = map[node_in(from, p->node, i)];
    memcpy(value + n->nin, (ValueId[]){ t, x.scale, p->scale }, 3 * sizeof *value);
    map[out] = graph_copy_value(d->to, from, out);
    return graph_call_used(d->to, sum, p->node->loc, p->node->origin, value, map[out]);
}
