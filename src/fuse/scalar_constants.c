/* scalar_constants: write constants of one element into a node's nest as numbers.
 *
 * Scales, epsilons and clip bounds come as tensors of one element. As numbers they fold, and the
 * kernel has one argument less.
 */
#include "algebra/algebra.h"
#include "fuse/internal.h"

static const Scalar *
number_at(Ctx *c, DType t, const void *data)
{
    Number n = number_load(t, data, 0);

    return dtype_is_float(t) ? scalar_float(c, t, n.f) : scalar_int(c, t, n.i);
}

/* A nest without inputs that writes the number: inlining it is the substitution. */
static const Nest *
number_nest(Ctx *c, const Type *t, const void *data)
{
    NestBuilder b = nest_begin(c, "number");
    const Expr *axis[TN_MAX_RANK];
    uint32_t out = nest_out(&b, "o", t);

    nest_axes_of(&b, t, axis);
    nest_write(&b, out, axis, number_at(c, t->dtype, data));
    return nest_finish(&b);
}

static bool
is_number(Ctx *c, const Value *v)
{
    return v->data && v->type->dtype != DT_STR && expr_is(type_count(c, v->type), 1);
}

FusedCall
fuse_scalar_constants(const Graph *g, Arena *a, NodeId n)
{
    Ctx *c = g->ctx;
    const Node *node = &g->node.at[n];
    const Nest *nest = node->nest;
    uint32_t nparam = nest->nin + nest->nout, kept = 0;
    FusedCall p = { nest, NEW_ARRAY(a, ValueId, nparam) };

    for (uint32_t i = 0; i < nest->nin; i++) {
        ValueId v = node_in(g, node, i);
        const Value *value = &g->value.at[v];
        const Nest *number, *with;
        if (is_number(c, value) && (number = number_nest(c, value->type, value->data)) &&
            (with = nest_inline(c, p.nest, kept, number)))
            p.nest = with;
        else
            p.value[kept++] = v;
    }
    for (uint32_t i = 0; i < nest->nout; i++)
        p.value[kept + i] = node_out(g, node, i);
    if (p.nest != nest)
        p.nest = nest_simplify(c, p.nest);
    return p;
}
