/* c_known: conditions over lanes that are known while printing.
 *
 * A vector of an output that begins in one input of a concatenation and ends in the next takes each
 * lane from one of them. In an unrolled loop the iteration decides which. GCC would compute that
 * condition at run time, and load lane by lane under it.
 */
#include "emit/internal.h"

/* A lane of an integer expression. */
static bool
known_number(Emit *e, const Scalar *s, uint32_t lane, int64_t *out)
{
    int64_t x, y;

    if (s->dtype != DT_I64 && s->dtype != DT_I32)
        return false;
    switch ((ScalarOp)s->op) {
    case S_CONST: *out = (int64_t)s->u.bits; return true;
    case S_INDEX: return expr_const(emit_subst_expr(e, s->u.index), out);
    case S_IOTA: *out = lane; return true;
    case S_SPLAT: return known_number(e, s->arg[0], 0, out);
    case S_CAST:
        return known_number(e, s->arg[0], lane, out) &&
               (s->dtype == DT_I64 || *out == (int32_t)*out);
    case S_MUL:
        return known_number(e, s->arg[0], lane, &x) && known_number(e, s->arg[1], lane, &y) &&
               !__builtin_mul_overflow(x, y, out);
    case S_ADD:
        return known_number(e, s->arg[0], lane, &x) && known_number(e, s->arg[1], lane, &y) &&
               !__builtin_add_overflow(x, y, out);
    default: return false;
    }
}

static bool
known_lane(Emit *e, const Scalar *s, uint32_t lane, bool *out)
{
    int64_t x, y;
    bool a, b;

    switch ((ScalarOp)s->op) {
    case S_SPLAT: return known_lane(e, s->arg[0], 0, out);
    case S_NOT: return known_lane(e, s->arg[0], lane, &a) && (*out = !a, true);
    case S_AND:
    case S_OR:
        if (!known_lane(e, s->arg[0], lane, &a) || !known_lane(e, s->arg[1], lane, &b))
            return false;
        *out = s->op == S_AND ? a && b : a || b;
        return true;
    case S_EQ:
    case S_NE:
    case S_LT:
    case S_LE:
    case S_GT:
    case S_GE: break;
    default: return false;
    }
    if (!known_number(e, s->arg[0], lane, &x) || !known_number(e, s->arg[1], lane, &y))
        return false;
    *out = s->op == S_EQ   ? x == y
           : s->op == S_NE ? x != y
           : s->op == S_LT ? x < y
           : s->op == S_LE ? x <= y
           : s->op == S_GT ? x > y
                           : x >= y;
    return true;
}

bool
emit_known_lanes(Emit *e, const Scalar *cond, bool *lane, uint32_t *count)
{
    *count = 0;
    for (uint32_t l = 0; l < cond->lanes; l++) {
        if (!known_lane(e, cond, l, &lane[l]))
            return false;
        *count += lane[l];
    }
    return true;
}
