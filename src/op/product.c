/* product: finds nests that are matmuls which a library's CBLAS can compute.
 *
 *     o[i, r…, j…] = sum q: a[i, r…, q] * b[i, q, j…]
 *
 * i is any number of leading batch dimensions; r and j are any number of adjacent dimensions, which
 * are one dimension in memory. In a the summed dimension may come before the rows, in b after the
 * columns (transposed operands). The sum may be part of a larger value. CBLAS cannot compute
 * matmuls with other accesses, such as a slice of an operand.
 */
#include "op/call.h"
#include "op/kinds.h"

enum { MOST_PARTS = 4096 }; /* the most cores of a machine */

bool
infer_library_product(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *a = call->in[0], *b = call->in[1];
    int64_t batch = op_int(call, "batch");
    const Expr *dim[2 * TN_MAX_RANK];
    uint32_t n = 0;

    if (!op_same_dtype(c, call, 0, 1) || !op_rank_at_least(c, call, 0, 1) ||
        !op_rank_at_least(c, call, 1, 1) || !op_elements(c, call, 0, "f32 or f64"))
        return false;
    if (batch < 0 || batch >= a->rank || batch >= b->rank)
        return op_fail(c, call, DIAG_MODEL,
                       "%s and %s have no %lld dimensions in front of a summed one", type_str(c, a),
                       type_str(c, b), (long long)batch);
    if (op_int(call, "parts") < 1 || op_int(call, "parts") > MOST_PARTS ||
        op_int(call, "worth") < 1)
        return op_fail(
            c, call, DIAG_MODEL,
            "parts = %lld, worth = %lld; 1 to %d parts are possible, and each is worth 1 or more",
            (long long)op_int(call, "parts"), (long long)op_int(call, "worth"), MOST_PARTS);
    uint32_t sum_a = op_int(call, "transposed_a") ? (uint32_t)batch : a->rank - 1u,
             sum_b = op_int(call, "transposed_b") ? b->rank - 1u : (uint32_t)batch;
    if (!op_require_eq(c, call, a->dim[sum_a], b->dim[sum_b], "summed dimensions of both inputs"))
        return false;
    for (uint32_t d = 0; d < a->rank; d++) {
        if (d < batch && !op_require_eq(c, call, a->dim[d], b->dim[d], "axis %u of both inputs", d))
            return false;
        if (d != sum_a)
            dim[n++] = a->dim[d];
    }
    for (uint32_t d = (uint32_t)batch; d < b->rank; d++)
        if (d != sum_b)
            dim[n++] = b->dim[d];
    out[0] = type_new(c, a->dtype, n, dim);
    return true;
}

/* ---- recognising ----------------------------------------------------------------------------- */

/* Is the index in dimension d of a read or write an axis that covers the complete dimension? */
static bool
is_whole(const Nest *n, const Type *t, const Expr *const *at, uint32_t d)
{
    uint32_t axis = axis_of(at[d]);

    return axis != NO_SLOT && n->axis[axis].extent == t->dim[d];
}

/* Are `count` dimensions of a factor from `first` on those of the output from `from` on? Dimensions
 * of one element match any. */
static bool
lies(const Nest *n, const Scalar *factor, uint32_t first, uint32_t count, uint32_t from)
{
    const Type *t = n->param[factor->u.load.slot].type, *o = n->param[n->write[0].out].type;

    for (uint32_t d = first; d < first + count; d++, from++)
        if (t->dim[d] != o->dim[from] ||
            (!expr_is(t->dim[d], 1) && (factor->u.load.at[d] != n->write[0].at[from] ||
                                        !is_whole(n, t, factor->u.load.at, d))))
            return false;
    return true;
}

static bool
is_summed(const Nest *n, const Scalar *factor, uint32_t d, AxisSet sum)
{
    return is_whole(n, n->param[factor->u.load.slot].type, factor->u.load.at, d) &&
           expr_axes(factor->u.load.at[d]) == sum;
}

static bool
fits(const Nest *n, const Contraction *v, AxisSet sum, OpProduct *p)
{
    uint32_t rank_a = n->param[p->a].type->rank, rank_b = n->param[p->b].type->rank,
             batch = p->batch;

    if (batch >= rank_a || batch >= rank_b ||
        rank_a + rank_b - batch - 2 != n->param[n->write[0].out].type->rank)
        return false;
    return lies(n, v->a, 0, batch, 0) && lies(n, v->b, 0, batch, 0) &&
           is_summed(n, v->a, p->transposed_a ? batch : rank_a - 1, sum) &&
           lies(n, v->a, batch + p->transposed_a, rank_a - batch - 1, batch) &&
           is_summed(n, v->b, p->transposed_b ? rank_b - 1 : batch, sum) &&
           lies(n, v->b, batch + !p->transposed_b, rank_b - batch - 1, rank_a - 1);
}

static bool
is_bare(const Nest *n, const Scalar *s, DType t)
{
    return s->op == S_LOAD && !s->u.load.outside && s->u.load.slot < n->nin &&
           n->param[s->u.load.slot].type->dtype == t;
}

bool
op_product_of(Ctx *c, const Nest *n, OpProduct *p)
{
    Contraction v;

    if (n->nwrite != 1 || n->nout != 1 || !nest_contraction(c, n, &v) ||
        !is_bare(n, v.a, v.reduce->dtype) || !is_bare(n, v.b, v.reduce->dtype))
        return false;
    AxisSet sum = v.reduce->u.reduce.axes;
    const Type *o = n->param[n->write[0].out].type;
    if ((v.reduce->dtype != DT_F32 && v.reduce->dtype != DT_F64) || o->dtype != v.reduce->dtype ||
        sum & (sum - 1))
        return false;
    for (uint32_t d = 0; d < o->rank; d++)
        if (!is_whole(n, o, n->write[0].at, d))
            return false;
    *p = (OpProduct){ .sum = v.reduce, .a = v.a->u.load.slot, .b = v.b->u.load.slot };
    for (; p->batch <= o->rank; p->batch++)
        for (uint32_t transposed = 0; transposed < 4; transposed++) {
            p->transposed_a = transposed & 1;
            p->transposed_b = transposed >> 1;
            if (fits(n, &v, sum, p))
                return true;
        }
    return false;
}

OpKind
op_product_call(Ctx *c, Arena *a, const OpProduct *p, int64_t parts, int64_t worth, Attrs *attrs)
{
    const struct {
        const char *name;
        int64_t value;
    } said[] = { { "batch", p->batch },
                 { "transposed_a", p->transposed_a },
                 { "transposed_b", p->transposed_b },
                 { "parts", parts },
                 { "worth", worth } };
    enum { N = sizeof said / sizeof *said };
    Attr *at = NEW_ARRAY(a, Attr, N);

    for (uint32_t i = 0; i < N; i++)
        at[i] = (Attr){ .name = sym(c, said[i].name), .kind = ATTR_INT, .i = said[i].value };
    *attrs = (Attrs){ at, N };
    return OP_library_product;
}

bool
op_is_product(OpKind op)
{
    return op == OP_library_product;
}
