/* cost: operations by kind and bytes by direction, over the whole domain of a nest.
 *
 * Every node counts once for each point of the parallel axes, and of those enclosing reduction axes
 * that it uses: loop-invariant parts of a reduction's body are outside its loop. A node that uses
 * no axis is computed once and counts as nothing.
 */
#include "nest/walk.h"

typedef enum { WORK_NONE, WORK_ADD, WORK_MUL, WORK_DIV, WORK_SPECIAL } WorkKind;

static WorkKind
work_of(const Scalar *s)
{
    switch ((ScalarOp)s->op) {
    case S_ADD:
    case S_SUB:
    case S_MIN:
    case S_MAX:
    case S_NEG:
    case S_ABS:
    case S_SIGN:
    case S_AND:
    case S_OR:
    case S_XOR:
    case S_NOT:
    case S_SHL:
    case S_SHR:
    case S_EQ:
    case S_NE:
    case S_LT:
    case S_LE:
    case S_GT:
    case S_GE:
    case S_SELECT:
    case S_PAIR:
    case S_FLOOR:
    case S_CEIL:
    case S_ROUND:
    case S_TRUNC:
    case S_ISNAN:
    case S_ISINF:
    case S_CAST: return WORK_ADD;
    case S_MUL:
    case S_DOT2:
    case S_DOT4:
    case S_DOT4S:
    case S_DOT2F: return WORK_MUL;
    case S_DIV:
    case S_MOD:
    case S_REM:
    case S_SQRT: return WORK_DIV;
    case S_POW:
    case S_ATAN2:
    case S_EXP:
    case S_LOG:
    case S_SIN:
    case S_COS:
    case S_TAN:
    case S_ASIN:
    case S_ACOS:
    case S_ATAN:
    case S_SINH:
    case S_COSH:
    case S_TANH:
    case S_ASINH:
    case S_ACOSH:
    case S_ATANH:
    case S_ERF:
    case S_SIGMOID:
    case S_SOFTPLUS: return WORK_SPECIAL;
    case S_NONE:
    case S_CONST:
    case S_INDEX:
    case S_LOAD:
    case S_AT:
    case S_REDUCE:
    case S_ITEM:
    case S_SEEN:
    case S_SPLAT:
    case S_LANES:
    case S_IOTA:
    case S_EVENS:
    case S_ODDS:
    case S_HSUM:
    case S_HMAX:
    case S_HMIN:
    case S_HPROD:
    case S_OP_COUNT: return WORK_NONE;
    }
    return WORK_NONE;
}

static uint32_t
code_of(const Scalar *s)
{
    static const uint32_t instructions[] = {
        [WORK_NONE] = 0, [WORK_ADD] = 1, [WORK_MUL] = 1, [WORK_DIV] = 4, [WORK_SPECIAL] = 16
    };

    return instructions[work_of(s)] + (s->op == S_LOAD) + (s->op == S_REDUCE);
}

uint32_t
nest_code(Ctx *c, const Nest *n)
{
    uint32_t code = 0;

    for (uint32_t i = 0; i < n->nwrite; i++)
        FOR_EACH_SCALAR (s, scalar_nodes(c, n->write[i].value))
            code += code_of(s);
    return code;
}

static const Expr *
points_of(Ctx *c, const Nest *n, AxisSet axes)
{
    const Expr *p = expr_int(c, 1);

    for (uint32_t k = 0; k < n->naxis; k++)
        if (axes & axis_one(k))
            p = expr_mul(c, p, n->axis[k].extent);
    return p;
}

NestCost
nest_cost(Ctx *c, const Nest *n)
{
    const Expr *zero = expr_int(c, 0);
    AxisSet outer = nest_axes_of_kind(n, AXIS_PARALLEL) | nest_axes_of_kind(n, AXIS_SCAN);
    NestCost cost = { points_of(c, n, outer), zero, zero, zero, zero, zero, zero };
    Arena *scratch = arena_child(c->arena);
    Walk walk = nest_walk(c, scratch, n);
    bool *read = NEW_ARRAY(scratch, bool, n->nin + n->nout);

    for (uint32_t i = 0; i < walk.n; i++) {
        const Scalar *s = walk.at[i].node;
        WorkKind work = work_of(s);
        if (s->op == S_LOAD)
            read[s->u.load.slot] = true;
        if (work == WORK_NONE && s->op != S_REDUCE)
            continue;
        AxisSet used = s->axes;
        if (s->op == S_REDUCE) {
            const Expr *p = points_of(c, n, outer | (walk.at[i].reduce & used) | s->u.reduce.axes);
            cost.add = expr_add(c, cost.add, p);
        }
        if (work == WORK_NONE || !used)
            continue;
        const Expr *p = points_of(c, n, outer | (walk.at[i].reduce & used));
        const Expr **sum = work == WORK_ADD   ? &cost.add
                           : work == WORK_MUL ? &cost.mul
                           : work == WORK_DIV ? &cost.div
                                              : &cost.special;
        *sum = expr_add(c, *sum, p);
    }
    for (uint32_t i = 0; i < n->nwrite; i++)
        if (n->write[i].init != NO_SLOT && n->write[i].combiner != COMB_NONE)
            read[n->write[i].init] = true;
    for (uint32_t i = 0; i < n->nin; i++)
        if (read[i])
            cost.bytes_read = expr_add(c, cost.bytes_read, type_bytes(c, n->param[i].type));
    for (uint32_t i = 0; i < n->nout; i++)
        cost.bytes_written =
            expr_add(c, cost.bytes_written, type_bytes(c, n->param[n->nin + i].type));
    arena_free(scratch);
    return cost;
}

const Expr *
nest_least_operations(Ctx *c, const Nest *n)
{
    const Expr *sum = expr_int(c, 0);
    Arena *scratch = arena_child(c->arena);
    Walk walk = nest_walk(c, scratch, n);

    for (uint32_t i = 0; i < walk.n; i++) {
        const Scalar *s = walk.at[i].node;
        AxisSet used = s->axes;
        if (s->op == S_REDUCE)
            used |= s->u.reduce.axes;
        else if (work_of(s) == WORK_NONE || !used)
            continue;
        sum = expr_add(c, sum, points_of(c, n, used));
    }
    arena_free(scratch);
    return sum;
}
