/* prepare: a node's nest with one-element constants written as numbers.
 *
 * Scales, epsilons and clip bounds come as tensors of one element; as numbers they fold, and the
 * kernel has one argument less. */
#include <string.h>

#include "fuse/internal.h"

static double
half_to_double(uint16_t h, uint32_t exponent_bits)
{
    uint32_t mantissa_bits = 15 - exponent_bits, sign = h >> 15;
    uint32_t exponent = h >> mantissa_bits & ((1u << exponent_bits) - 1), mantissa = h & ((1u << mantissa_bits) - 1);
    int bias = (1 << (exponent_bits - 1)) - 1;
    double v;

    if (exponent == (1u << exponent_bits) - 1)
        v = mantissa ? __builtin_nan("") : __builtin_inf();
    else if (exponent)
        v = __builtin_ldexp(1 + __builtin_ldexp(mantissa, -(int)mantissa_bits), (int)exponent - bias);
    else
        v = __builtin_ldexp(mantissa, 1 - bias - (int)mantissa_bits);
    return sign ? -v : v;
}

static const Scalar *
number_at(Ctx *c, DType t, const void *data)
{
    union { float f32; double f64; uint16_t half; int8_t i8; int16_t i16; int32_t i32; int64_t i64;
            uint8_t u8; uint16_t u16; uint32_t u32; } v;

    memcpy(&v, data, dtype_info[t].bytes);
    switch (t) {
    case DT_F32: return scalar_float(c, t, v.f32);
    case DT_F64: return scalar_float(c, t, v.f64);
    case DT_F16: return scalar_float(c, t, half_to_double(v.half, 5));
    case DT_BF16: return scalar_float(c, t, half_to_double(v.half, 8));
    case DT_I8: return scalar_int(c, t, v.i8);
    case DT_I16: return scalar_int(c, t, v.i16);
    case DT_I32: return scalar_int(c, t, v.i32);
    case DT_I64: case DT_U64: return scalar_int(c, t, v.i64);
    case DT_U8: case DT_BOOL: return scalar_int(c, t, v.u8);
    case DT_U16: return scalar_int(c, t, v.u16);
    case DT_U32: return scalar_int(c, t, v.u32);
    case DT_NONE: case DT_COUNT: break;
    }
    return NULL;
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

Piece
fuse_prepare(const Graph *g, Arena *a, NodeId n)
{
    Ctx *c = g->ctx;
    const Node *node = &g->node.at[n];
    const Nest *nest = node->nest;
    uint32_t nparam = nest->nin + nest->nout, kept = 0;
    Piece p = { nest, NEW_ARRAY(a, ValueId, nparam) };

    for (uint32_t i = 0; i < nest->nin; i++) {
        ValueId v = node_in(g, node, i);
        const Value *value = &g->value.at[v];
        const Nest *number, *with;
        if (value->data && expr_is(type_count(c, value->type), 1) && (number = number_nest(c, value->type, value->data)) &&
            (with = nest_inline(c, p.nest, kept, number, 0)))
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
