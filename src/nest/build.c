/* build: collects the pieces of a nest, then freezes them.
 *
 * Axes are numbered in the order they are made: axis k is VAR_AXIS k everywhere. Declare all inputs
 * before reading an output (a scan does), for an output's slot counts behind the inputs.
 */
#include "nest/internal.h"

#include <assert.h>

NestBuilder
nest_begin(Ctx *c, const char *name)
{
    return (NestBuilder){ .ctx = c, .name = sym(c, name) };
}

uint32_t
nest_in(NestBuilder *b, const char *name, const Type *t)
{
    VEC_PUSH(b->ctx->arena, &b->in, ((NestParam){ sym(b->ctx, name), t }));
    return b->in.n - 1;
}

void
nest_ins(NestBuilder *b, const Nest *n)
{
    for (uint32_t i = 0; i < n->nin; i++)
        nest_in(b, n->param[i].name, n->param[i].type);
}

uint32_t
nest_out(NestBuilder *b, const char *name, const Type *t)
{
    VEC_PUSH(b->ctx->arena, &b->out, ((NestParam){ sym(b->ctx, name), t }));
    return b->out.n - 1;
}

const Expr *
nest_axis(NestBuilder *b, const char *name, AxisKind kind, const Expr *extent)
{
    VEC_PUSH(b->ctx->arena, &b->axis, ((Axis){ sym(b->ctx, name), kind, extent }));
    return expr_axis(b->ctx, b->axis.n - 1);
}

void
nest_axes_of(NestBuilder *b, const Type *t, const Expr **axis)
{
    static const char *const name[] = {
        "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"
    };
    for (uint32_t d = 0; d < t->rank; d++)
        axis[d] = nest_axis(b, name[d % (sizeof name / sizeof *name)], AXIS_PARALLEL, t->dim[d]);
}

static const Type *
slot_type(const NestBuilder *b, uint32_t slot)
{
    assert(slot < b->in.n + b->out.n);
    return slot < b->in.n ? b->in.at[slot].type : b->out.at[slot - b->in.n].type;
}

const Scalar *
nest_load(NestBuilder *b, uint32_t slot, const Expr *const *at)
{
    return nest_load_or(b, slot, at, NULL);
}

const Scalar *
nest_load_or(NestBuilder *b, uint32_t slot, const Expr *const *at, const Scalar *outside)
{
    const Type *t = slot_type(b, slot);
    return scalar_load(b->ctx, t->dtype, slot, t->rank, at, outside);
}

void
nest_write(NestBuilder *b, uint32_t out, const Expr *const *at, const Scalar *value)
{
    assert(out < b->out.n);
    Arena *a = b->ctx->arena;
    const Expr *const *copy = arena_copy(a, at, b->out.at[out].type->rank * sizeof *at);
    VEC_PUSH(a, &b->write, ((Write){ out, copy, COMB_NONE, NO_SLOT, value }));
}

const Nest *
nest_finish(NestBuilder *b)
{
    Arena *a = b->ctx->arena;
    Nest *n = NEW(a, Nest);
    NestParam *param = NEW_ARRAY(a, NestParam, b->in.n + b->out.n);
    for (uint32_t i = 0; i < b->in.n; i++)
        param[i] = b->in.at[i];
    for (uint32_t i = 0; i < b->out.n; i++)
        param[b->in.n + i] = b->out.at[i];
    for (uint32_t w = 0; w < b->write.n; w++)
        b->write.at[w].out += b->in.n;
    *n = (Nest){
        .name = b->name,
        .naxis = b->axis.n,
        .axis = b->axis.at,
        .nin = b->in.n,
        .nout = b->out.n,
        .param = param,
        .nwrite = b->write.n,
        .write = b->write.at,
    };
    return nest_verify(b->ctx, n, DIAG_INTERNAL) ? n : NULL;
}

const Nest *
nest_of_scalar(Ctx *c, const char *name, const Type *t, const Scalar *value)
{
    NestBuilder b = nest_begin(c, name);
    const Expr *axis[TN_MAX_RANK];

    nest_axes_of(&b, t, axis);
    nest_write(&b, nest_out(&b, "o", t), axis, value);
    return nest_finish(&b);
}
