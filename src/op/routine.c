/* routine: types of operators that are library routines, functions in C (src/routine). */
#include "op/build.h"

#include "routine/routine.h"
#include "op/kinds.h"

#include <string.h>

bool
expand_routine(Build *b)
{
    return op_fail(b->c, b->call, DIAG_INTERNAL, "is a routine; it has no nests");
}

static const Type *
list_of(Ctx *c, DType t, const Expr *n)
{
    return type_new(c, t, 1, &n);
}

/* Is it a type that routines support? */
static bool
is_ordered(Ctx *c, const OpCall *call, uint32_t i)
{
    return routine_type(call->in[i]->dtype) ||
           op_fail(c, call, DIAG_UNSUPPORTED,
                   "input %u is %s; floats of 16 bits or more and integers of 8 are possible", i,
                   type_str(c, call->in[i]));
}

/* Input i is absent or one number of type t. */
static bool
is_number(Ctx *c, const OpCall *call, uint32_t i, DType t, const char *what)
{
    if (!has_in(call, i) || (call->in[i]->dtype == t && expr_is(type_count(c, call->in[i]), 1)))
        return true;
    return op_fail(c, call, DIAG_MODEL, "input %u (%s) is %s; one %s is needed", i, what,
                   type_str(c, call->in[i]), dtype_info[t].name);
}

bool
infer_top_k(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK];
    uint32_t axis;
    const Expr *k;

    if (!op_elements(c, call, 0, "numbers or bool") || !is_ordered(c, call, 0) ||
        !op_rank_at_least(c, call, 0, 1) || !op_axis_attr(c, call, x->rank, &axis) ||
        !op_param_one(c, call, 1, "k", &k))
        return false;
    if (expr_le(c, NULL, k, x->dim[axis]) == NO)
        return op_fail(c, call, DIAG_MODEL, "k is %s, and axis %u of input 0 has %s elements",
                       expr_str(c, k), axis, expr_str(c, x->dim[axis]));
    for (uint32_t d = 0; d < x->rank; d++)
        dim[d] = d == axis ? k : x->dim[d];
    out[0] = type_new(c, x->dtype, x->rank, dim);
    if (call->nout > 1)
        out[1] = type_with_dtype(c, out[0], DT_I64);
    return true;
}

bool
infer_non_max_suppression(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *boxes = call->in[0], *scores = call->in[1];
    int64_t most = op_int(call, "most");
    OpSizes size = { 0 };

    if (!op_rank_is(c, call, 0, 3) || !op_rank_is(c, call, 1, 3) ||
        !is_number(c, call, 2, DT_I64, "most boxes of a class") ||
        !is_number(c, call, 3, DT_F32, "overlap") || !is_number(c, call, 4, DT_F32, "least score"))
        return false;
    const Expr *each = most < 0 ? boxes->dim[1] : expr_min(c, boxes->dim[1], expr_int(c, most));
    op_size(c, &size, "room", expr_mul(c, expr_mul(c, scores->dim[0], scores->dim[1]), each));
    return op_signature(c, call, op_info[call->op].meaning, &size, out);
}

bool
infer_ordered(Ctx *c, const OpCall *call, const Type **out)
{
    return is_ordered(c, call, 0) && infer_signature(c, call, out);
}

bool
infer_string_pair(Ctx *c, const OpCall *call, const Type **out)
{
    const Expr *dim[TN_MAX_RANK];
    uint32_t rank;

    if (!op_elements(c, call, 0, "strings") || !op_elements(c, call, 1, "strings") ||
        !op_broadcast(c, call, 0, 2, &rank, dim))
        return false;
    out[0] = type_new(c, call->op == OP_string_equal ? DT_BOOL : DT_STR, rank, dim);
    return true;
}

static bool
is_delimiter(Ctx *c, const OpCall *call)
{
    return op_elements(c, call, 0, "strings") && op_elements(c, call, 1, "strings") &&
           (expr_is(type_count(c, call->in[1]), 1) ||
            op_fail(c, call, DIAG_MODEL, "the delimiter is %s; it is one string",
                    type_str(c, call->in[1])));
}

bool
infer_string_pieces(Ctx *c, const OpCall *call, const Type **out)
{
    out[0] = type_with_dtype(c, call->in[0], DT_I64);
    return is_delimiter(c, call);
}

bool
infer_string_normalize(Ctx *c, const OpCall *call, const Type **out)
{
    if (!op_elements(c, call, 0, "strings") || !op_elements(c, call, 1, "strings") ||
        !op_rank_is(c, call, 0, 1) || !op_rank_is(c, call, 1, 1))
        return false;
    out[0] = list_of(c, DT_STR, expr_max(c, call->in[0]->dim[0], expr_int(c, 1)));
    if (call->nout > 1)
        out[1] = list_of(c, DT_I64, expr_int(c, 1));
    return true;
}

bool
infer_image_points(Ctx *c, const OpCall *call, const Type **out)
{
    int64_t form = op_int(call, "form");
    OpSizes sizes = { 0 };
    Known size;

    if (!op_param(c, call, 1, "size", &size))
        return false;
    if (size.n != 2 || form < 0 || form > 2)
        return op_fail(c, call, DIAG_MODEL,
                       "the size has %u numbers, and the form is %lld; rows and columns, and 0, 1 "
                       "or 2 are possible",
                       size.n, (long long)form);
    op_size(c, &sizes, "rows", size.at[0]);
    op_size(c, &sizes, "columns", size.at[1]);
    op_size(c, &sizes, "depth", expr_int(c, form == 2 ? 1 : 3));
    return op_signature(c, call, op_info[call->op].meaning, &sizes, out);
}

/* Runs only execute programs that import made, not programs in a user's text. */
static bool
is_program(const int64_t *p, int64_t n)
{
    int64_t count = n > 0 ? p[0] : 0;

    if (count < 1 || count > (n - 1) / 5)
        return false;
    int64_t first = 1 + 5 * count;
    for (int64_t i = 0; i < count; i++) {
        const int64_t *in = p + 1 + 5 * i;
        if (in[0] < 0 || in[0] > 3)
            return false;
        for (int k = 1; in[0] && k <= (in[0] == 1 ? 2 : 1); k++)
            if (in[k] < 0 || in[k] >= count)
                return false;
        if (in[0] == 2 && (in[4] < -n || in[4] > n || in[3] < first || in[3] > n ||
                           (in[4] < 0 ? -in[4] : in[4]) > (n - in[3]) / 2))
            return false;
    }
    return true;
}

/* Text, and the patterns to match it with. */
static bool
is_for_program(Ctx *c, const OpCall *call)
{
    int64_t n;

    if (!op_elements(c, call, 0, "strings") || !op_rank_is(c, call, 1, 1))
        return false;
    return (call->in[1]->dtype == DT_I64 && call->data[1] && expr_const(call->in[1]->dim[0], &n) &&
            is_program(call->data[1], n)) ||
           op_fail(c, call, DIAG_MODEL,
                   "input 1 is %s; it is the program of an expression, a constant",
                   type_str(c, call->in[1]));
}

bool
infer_program(Ctx *c, const OpCall *call, const Type **out)
{
    return is_for_program(c, call) && infer_signature(c, call, out);
}

/* The type of x with an axis added. */
static bool
with_last(Ctx *c, const OpCall *call, uint32_t i, const char *what, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK + 1];

    if (!op_param_one(c, call, i, what, &dim[x->rank]))
        return false;
    if (x->rank >= TN_MAX_RANK)
        return op_fail(c, call, DIAG_MODEL, "input 0 is %s; rank %d is the most", type_str(c, x),
                       TN_MAX_RANK - 1);
    for (uint32_t d = 0; d < x->rank; d++)
        dim[d] = x->dim[d];
    out[0] = type_new(c, DT_STR, x->rank + 1, dim);
    return true;
}

bool
infer_tokenize(Ctx *c, const OpCall *call, const Type **out)
{
    if (!is_for_program(c, call) || !op_elements(c, call, 2, "strings"))
        return false;
    if (!expr_is(type_count(c, call->in[2]), 1))
        return op_fail(c, call, DIAG_MODEL, "what stands behind the tokens is %s; it is one string",
                       type_str(c, call->in[2]));
    return with_last(c, call, 3, "most tokens", out);
}

bool
infer_string_split(Ctx *c, const OpCall *call, const Type **out)
{
    return is_delimiter(c, call) && with_last(c, call, 2, "most pieces", out);
}

static bool
is_constant(Ctx *c, const OpCall *call, uint32_t i, DType t, uint32_t rank, int64_t *n)
{
    if (call->in[i]->dtype == t && call->in[i]->rank == rank && call->data[i] &&
        expr_const(call->in[i]->dim[0], n) && (rank < 2 || expr_const(call->in[i]->dim[1], NULL)))
        return true;
    return op_fail(c, call, DIAG_MODEL, "input %u is %s; a constant of %s and rank %u is needed", i,
                   type_str(c, call->in[i]), dtype_info[t].name, rank);
}

/* Is row i of the grams within the pool and the columns, and are the rows that it counts of its
 * length? The routine's search reads what they say, and a user's text may say anything. */
static bool
is_gram(Ctx *c, const OpCall *call, int64_t n, int64_t i, int64_t pool, int64_t columns)
{
    const int64_t *g = (const int64_t *)call->data[2] + 4 * i;

    if (g[0] < 1 || g[1] < 0 || g[0] > pool - g[1] || g[2] < 0 || g[2] >= columns || g[3] < 1 ||
        g[3] > n - i)
        return op_fail(c, call, DIAG_MODEL,
                       "row %lld of the grams does not fit its pool of %lld and %lld columns",
                       (long long)i, (long long)pool, (long long)columns);
    if (g[3] > 1 && (g[4] != g[0] || g[7] != g[3] - 1))
        return op_fail(c, call, DIAG_MODEL,
                       "row %lld of the grams begins %lld of length %lld; the next begins %lld of "
                       "length %lld, and %lld of length %lld are needed",
                       (long long)i, (long long)g[3], (long long)g[0], (long long)g[7],
                       (long long)g[4], (long long)g[3] - 1, (long long)g[0]);
    return true;
}

bool
infer_tf_idf(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[2];
    int64_t pool, n, columns = op_int(call, "columns");

    if (!is_ordered(c, call, 0) || x->rank > 2 || !op_same_dtype(c, call, 0, 1) ||
        !is_constant(c, call, 1, x->dtype, 1, &pool) || !is_constant(c, call, 2, DT_I64, 2, &n) ||
        !expr_is(call->in[2]->dim[1], 4))
        return x->rank <= 2 ? false
                            : op_fail(c, call, DIAG_MODEL, "input 0 is %s; rank 2 is the most",
                                      type_str(c, x));
    for (int64_t i = 0; i < n; i++)
        if (!is_gram(c, call, n, i, pool, columns))
            return false;
    dim[0] = x->rank == 2 ? x->dim[0] : NULL;
    dim[x->rank == 2] = expr_int(c, columns);
    out[0] = type_new(c, DT_F32, x->rank == 2 ? 2 : 1, dim);
    return true;
}

/* Checks that children and weights are within the tables, since a user's text may have any. */
static bool
is_forest(const OpCall *call, int64_t n, int64_t trees, int64_t weights)
{
    const int32_t *node = call->data[1], *root = call->data[3], *first = call->data[4],
                  *target = call->data[5];

    for (int64_t i = 0; i < n; i++)
        if (node[4 * i] < 0 || (node[4 * i] && node[4 * i] >= op_int(call, "features")) ||
            node[4 * i + 1] < 0 || node[4 * i + 1] >= n || node[4 * i + 2] < 0 ||
            node[4 * i + 2] >= n || first[i] < 0 || first[i + 1] < first[i] ||
            first[i + 1] > weights)
            return false;
    for (int64_t i = 0; i < trees; i++)
        if (root[2 * i] < 0 || root[2 * i] >= n || root[2 * i + 1] < 0 || root[2 * i + 1] > n)
            return false;
    for (int64_t i = 0; i < weights; i++)
        if (target[i] < 0 || target[i] >= op_int(call, "targets"))
            return false;
    return true;
}

bool
infer_tree_ensemble(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    int64_t n, trees, first, weights, more, thresholds, features = op_int(call, "features");

    if (!op_rank_is(c, call, 0, 2) || !op_elements(c, call, 0, "f32 or f64") ||
        !is_constant(c, call, 1, DT_I32, 2, &n) ||
        !is_constant(c, call, 2, x->dtype, 1, &thresholds) ||
        !is_constant(c, call, 3, DT_I32, 2, &trees) ||
        !is_constant(c, call, 4, DT_I32, 1, &first) ||
        !is_constant(c, call, 5, DT_I32, 1, &weights) ||
        !is_constant(c, call, 6, x->dtype, 1, &more))
        return false;
    if (!expr_is(call->in[1]->dim[1], 4) || !expr_is(call->in[3]->dim[1], 2) || thresholds != n ||
        first != n + 1 || more != weights || !is_forest(call, n, trees, weights))
        return op_fail(c, call, DIAG_MODEL,
                       "the tables of nodes, roots and weights contradict each other");
    if (expr_le(c, NULL, expr_int(c, features), x->dim[1]) == NO)
        return op_fail(c, call, DIAG_MODEL, "the trees read %lld columns, x is %s",
                       (long long)features, type_str(c, x));
    const Expr *dim[2] = { x->dim[0], expr_int(c, op_int(call, "targets")) };
    out[0] = type_new(c, x->dtype, 2, dim);
    return true;
}

bool
infer_pairwise(Ctx *c, const OpCall *call, const Type **out)
{
    int64_t k = op_int(call, "classes");
    OpSizes size = { 0 };

    if (k < 2 || k > 1 << 15)
        return op_fail(c, call, DIAG_MODEL, "%lld classes of %s", (long long)k,
                       type_str(c, call->in[0]));
    op_size(c, &size, "classes", expr_int(c, k));
    op_size(c, &size, "pairs", expr_int(c, k * (k - 1) / 2));
    return op_signature(c, call, op_info[call->op].meaning, &size, out);
}

bool
infer_bit_cast(Ctx *c, const OpCall *call, const Type **out)
{
    DType from = call->in[0]->dtype, t;

    if (!op_named_type(c, call, "to", DT_NONE, &t))
        return false;
    if (t == DT_STR || from == DT_STR || dtype_info[t].bits != dtype_info[from].bits ||
        dtype_info[t].bits < 8)
        return op_fail(c, call, DIAG_MODEL,
                       "input 0 is %s, and \"to\" is \"%s\"; types of 8 bits or more, and of one "
                       "size, are needed",
                       type_str(c, call->in[0]), dtype_info[t].name);
    if (op_int(call, "bytes") != dtype_info[t].bytes || op_int(call, "truth") != (t == DT_BOOL))
        return op_fail(c, call, DIAG_MODEL, "\"bytes\" is %d for %s", dtype_info[t].bytes,
                       dtype_info[t].name);
    out[0] = type_with_dtype(c, call->in[0], t);
    return true;
}

bool
infer_string_number(Ctx *c, const OpCall *call, const Type **out)
{
    DType t;

    if (!op_elements(c, call, 0, "strings") || !op_named_type(c, call, "to", DT_NONE, &t))
        return false;
    if (t != DT_F64 && t != DT_I64 && t != DT_U64)
        return op_fail(c, call, DIAG_MODEL, "\"to\" is \"%s\"; f64, i64 and u64 are possible",
                       dtype_info[t].name);
    out[0] = type_with_dtype(c, call->in[0], t);
    return true;
}

bool
infer_max_pool_place(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0], *y = call->in[1];
    int64_t n, points = 1;

    if (!is_ordered(c, call, 0) || !op_rank_at_least(c, call, 0, 3) ||
        !op_rank_is(c, call, 1, x->rank) || !op_same_dtype(c, call, 0, 1))
        return false;
    for (uint32_t d = 0; d < 2; d++)
        if (!op_require_eq(c, call, x->dim[d], y->dim[d], "images and channels of x and of y"))
            return false;
    if (!call->known[2].at || call->in[2]->rank != 2 || !expr_const(call->in[2]->dim[0], &n) ||
        n != x->rank - 2 || !expr_is(call->in[2]->dim[1], 4))
        return op_fail(c, call, DIAG_MODEL,
                       "input 2 is %s; four numbers that are known for each axis are needed",
                       type_str(c, call->in[2]));
    for (uint32_t i = 0; i < call->known[2].n; i++) {
        int64_t v;
        if (i % 4 == 3 && !expr_const(call->known[2].at[i], NULL))
            continue; /* padding */
        bool fits = expr_const(call->known[2].at[i], &v) && v >= (i % 4 < 3) && v < 1 << 20;
        if (!fits || (i % 4 == 0 && (points *= v) > 1 << 24))
            return op_fail(c, call, DIAG_MODEL, "number %u of the window is %s", i,
                           expr_str(c, call->known[2].at[i]));
    }
    out[0] = type_with_dtype(c, y, DT_I64);
    return true;
}

bool
infer_random(Ctx *c, const OpCall *call, const Type **out)
{
    if (op_int(call, "seed") < 0 || op_int(call, "seed") >> 52 || op_int(call, "stream") < 0 ||
        op_int(call, "stream") >> 52)
        return op_fail(
            c, call, DIAG_MODEL,
            "the seed is %lld, the stream %lld; numbers from 0 to below 2^52 are possible",
            (long long)op_int(call, "seed"), (long long)op_int(call, "stream"));
    out[0] = type_with_dtype(c, call->in[0], DT_F32);
    return true;
}
