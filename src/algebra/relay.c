/* relay: packs a parameter in the order of its reader's, or its writer's, axes.
 *
 *     o[i, 2*k + p] = sum q, r: x[i, q, k + p - r | 0] * w[q, 2*r - p + 1]
 *
 * with w packed as [p, q, r], and o as [i, p, k], is three nests:
 *
 *     w_2[p, q, r] = w[q, 2*r - p + 1]
 *     o_2[i, p, k] = sum q, r: x[i, q, k + p - r | 0] * w_2[p, q, r]
 *     o[i, k] = o_2[i, k % 2, k // 2]
 *
 * A constant is packed at compile time, so it costs nothing, and an access map of any form becomes
 * one that every later query can analyse.
 */
#include "algebra/algebra.h"
#include "nest/walk.h"

typedef struct {
    const Scalar *load, *instead;
} Replace;

static const Scalar *
replace(ScalarMap *m, const Scalar *load)
{
    const Replace *r = m->user;
    return load == r->load ? r->instead : load;
}

/* The axes as dimensions of a tensor. */
static const Type *
type_of_axes(Ctx *c, const Nest *n, DType t, const uint32_t *axis, uint32_t rank)
{
    const Expr *dim[TN_MAX_RANK];

    for (uint32_t d = 0; d < rank; d++)
        dim[d] = n->axis[axis[d]].extent;
    return type_new(c, t, rank, dim);
}

/* Parallel axes of a new nest, named as n's; bind[] maps n's to them. */
static void
take_axes(NestBuilder *b, const Nest *n, const uint32_t *axis, uint32_t rank, const Expr **at,
          Binding *bind)
{
    for (uint32_t d = 0; d < rank; d++) {
        at[d] = nest_axis(b, n->axis[axis[d]].name, AXIS_PARALLEL, n->axis[axis[d]].extent);
        bind[d] = (Binding){ { VAR_AXIS, axis[d] }, at[d] };
    }
}

static void
bare_axes(Ctx *c, const uint32_t *axis, uint32_t rank, const Expr **at)
{
    for (uint32_t d = 0; d < rank; d++)
        at[d] = expr_axis(c, axis[d]);
}

const Nest *
nest_relay_input(Ctx *c, const Nest *n, const Scalar *load, const uint32_t *axis, uint32_t rank,
                 const Nest **move)
{
    uint32_t slot = load->u.load.slot;
    const Expr *at[TN_MAX_RANK], *from[TN_MAX_RANK];
    Binding bind[TN_MAX_RANK];
    Arena *scratch = arena_child(c->arena);
    Accesses reads = nest_accesses(c, scratch, n);
    uint32_t count = 0;

    for (uint32_t i = 0; i < reads.n; i++)
        count += reads.at[i].load->u.load.slot == slot;
    if (count != 1 || rank > TN_MAX_RANK ||
        (load->u.load.outside && load->u.load.outside->op != S_CONST)) {
        arena_free(scratch);
        return NULL;
    }
    NestBuilder b = nest_begin(c, arena_printf(c->arena, "%s_relaid", n->param[slot].name));
    uint32_t in = nest_in(&b, n->param[slot].name, n->param[slot].type);
    const Type *t = type_of_axes(c, n, load->dtype, axis, rank);
    uint32_t out = nest_out(&b, "o", t);
    take_axes(&b, n, axis, rank, at, bind);
    for (uint32_t d = 0; d < load->u.load.rank; d++)
        from[d] = expr_subst(c, load->u.load.at[d], bind, rank);
    nest_write(&b, out, at, nest_load_or(&b, in, from, load->u.load.outside));
    *move = nest_finish(&b);

    NestEdit e = nest_edit(c, n, 0, 0);
    bare_axes(c, axis, rank, at);
    Replace r = { load, scalar_load(c, load->dtype, slot, rank, at, NULL) };
    ScalarMap m = { .load = replace, .user = &r, .ctx = c, .done = { .arena = scratch } };
    nest_edit_map(&e, &m);
    e.param[slot].type = t;
    arena_free(scratch);
    return *move ? nest_edit_done(c, &e) : NULL;
}

const Nest *
nest_relay_output(Ctx *c, const Nest *n, const uint32_t *axis, uint32_t rank, const Nest **move)
{
    const Write *w = &n->write[0];
    const NestParam *p = &n->param[w->out];
    const Expr *at[TN_MAX_RANK], *to[TN_MAX_RANK], *digit_of[NEST_MAX_AXES] = { NULL };

    if (n->nwrite != 1 || !write_is_plain(c, n, w) || rank > TN_MAX_RANK)
        return NULL;
    const Type *t = type_of_axes(c, n, p->type->dtype, axis, rank);
    NestBuilder b = nest_begin(c, arena_printf(c->arena, "%s_relaid", p->name));
    uint32_t in = nest_in(&b, "x", t), out = nest_out(&b, p->name, p->type);
    nest_axes_of(&b, p->type, to);
    for (uint32_t d = 0; d < p->type->rank; d++) {
        const Expr *above = to[d];
        uint32_t digit[NEST_MAX_AXES];
        for (uint32_t i = write_digits(c, n, w, d, digit); i-- > 0;) {
            const Expr *extent = n->axis[digit[i]].extent;
            digit_of[digit[i]] = i ? expr_mod(c, above, extent) : above;
            above = expr_div(c, above, extent);
        }
    }
    for (uint32_t d = 0; d < rank; d++)
        /* an axis of one point */
        at[d] = digit_of[axis[d]] ? digit_of[axis[d]] : expr_int(c, 0);
    nest_write(&b, out, to, nest_load(&b, in, at));
    *move = nest_finish(&b);

    NestEdit e = nest_edit(c, n, 0, 0);
    bare_axes(c, axis, rank, at);
    e.write[0].at = arena_copy(c->arena, at, rank * sizeof *at);
    e.param[w->out].type = t;
    return *move ? nest_edit_done(c, &e) : NULL;
}

/* ---- backwards ------------------------------------------------------------------------------- */

typedef struct {
    Binding bind;
} Reverse;

static const Expr *
reverse(ScalarMap *m, const Expr *e)
{
    const Reverse *r = m->user;
    return expr_subst(m->ctx, e, &r->bind, 1);
}

const Nest *
nest_reverse(Ctx *c, const Nest *n, uint32_t axis)
{
    Arena *scratch = arena_child(c->arena);
    NestEdit e = nest_edit(c, n, 0, 0);
    Reverse r = { { { VAR_AXIS, axis },
                    expr_sub(c, expr_offset(c, n->axis[axis].extent, -1), expr_axis(c, axis)) } };
    ScalarMap m = { .expr = reverse, .user = &r, .ctx = c, .done = { .arena = scratch } };

    nest_edit_map(&e, &m);
    arena_free(scratch);
    return nest_edit_done(c, &e);
}
