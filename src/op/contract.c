/* contract: contractions: matmul, gemm, einsum. */
#include "op/build.h"
#include "op/kinds.h"

#include <ctype.h>
#include <string.h>

/* ---- matmul ---------------------------------------------------------------------------------- */

/* Dimensions of numpy.matmul: batch, then rows unless a is a vector, then columns unless b is
 * one. */
static bool
matmul_dims(Ctx *c, const OpCall *call, uint32_t *rank, const Expr **dim)
{
    const Type *a = call->in[0], *b = call->in[1];
    uint32_t batch_a = a->rank > 2 ? a->rank - 2 : 0, batch_b = b->rank > 2 ? b->rank - 2 : 0;
    uint32_t batch = batch_a > batch_b ? batch_a : batch_b;

    if (!op_rank_at_least(c, call, 0, 1) || !op_rank_at_least(c, call, 1, 1))
        return false;
    const Expr *inner_b = b->dim[b->rank == 1 ? 0 : b->rank - 2];
    if (!op_require_eq(c, call, a->dim[a->rank - 1], inner_b, "inner extents of %s and %s",
                       type_str(c, a), type_str(c, b)))
        return false;
    for (uint32_t d = 0; d < batch; d++) {
        dim[d] = op_broadcast_dim(
            c, call, d < batch - batch_a ? expr_int(c, 1) : a->dim[d - (batch - batch_a)],
            d < batch - batch_b ? expr_int(c, 1) : b->dim[d - (batch - batch_b)],
            "batch axis %u of both inputs", d);
        if (!dim[d])
            return false;
    }
    *rank = batch;
    if (a->rank > 1)
        dim[(*rank)++] = a->dim[a->rank - 2];
    if (b->rank > 1)
        dim[(*rank)++] = b->dim[b->rank - 1];
    return true;
}

bool
infer_matmul(Ctx *c, const OpCall *call, const Type **out)
{
    const Expr *dim[TN_MAX_RANK];
    uint32_t rank;

    if (!op_elements(c, call, 0, "numbers") || !op_same_dtype(c, call, 0, 1) ||
        !matmul_dims(c, call, &rank, dim))
        return false;
    out[0] = type_new(c, call->in[0]->dtype, rank, dim);
    return true;
}

/* Is the zero point of side s one number, or one per row of a, per column of b: a vector, or a
 * tensor of the side's rank? */
static bool
zero_fits(Ctx *c, const OpCall *call, uint32_t s)
{
    const Type *t = call->in[s], *z = has_in(call, 2 + s) ? call->in[2 + s] : NULL;
    uint32_t along = s == 0 && t->rank > 1 ? t->rank - 2 : t->rank - 1;

    if (!z || z->rank == 0 || expr_is(type_count(c, z), 1))
        return true;
    if (z->rank == 1)
        return op_broadcast_into(c, call, z->dim[0], t->dim[along],
                                 "the elements of input %u and axis %u of input %u", 2 + s, along,
                                 s);
    if (z->rank != t->rank)
        return op_fail(
            c, call, DIAG_MODEL,
            "input %u is %s; one number, a vector, or as many axes as input %u, %s, has are needed",
            2 + s, type_str(c, z), s, type_str(c, t));
    for (uint32_t d = 0; d < z->rank; d++)
        if (!op_broadcast_into(c, call, z->dim[d], t->dim[d], "axis %u of input %u and of input %u",
                               d, 2 + s, s))
            return false;
    return true;
}

bool
infer_matmul_integer(Ctx *c, const OpCall *call, const Type **out)
{
    const Expr *dim[TN_MAX_RANK];
    uint32_t rank;

    if (!op_elements(c, call, 0, "i8 or u8") || !op_elements(c, call, 1, "i8 or u8") ||
        !op_same_dtype(c, call, 0, 2) || !op_same_dtype(c, call, 1, 3) ||
        !matmul_dims(c, call, &rank, dim) || !zero_fits(c, call, 0) || !zero_fits(c, call, 1))
        return false;
    out[0] = type_new(c, DT_I32, rank, dim);
    return true;
}

/* Indices of one side: batch axes by broadcasting, then its own two (or one). */
static void
side_index(Build *b, const Type *t, uint32_t batch, const char *row, const char *col,
           const char **at)
{
    uint32_t own = t->rank > 2 ? t->rank - 2 : 0;

    for (uint32_t d = 0; d < own; d++) {
        uint32_t to = batch - own + d;
        at[d] =
            build_index(b, op_broadcast_at(b->c, t->dim[d], b->out[0]->dim[to], build_axis(b, to)));
    }
    if (t->rank > 1)
        at[t->rank - 2] = row;
    at[t->rank - 1] = col;
}

/* Side s minus its zero point, in i32. The zero point is one number, or one for each index along
 * dimension `along` of the side. */
static const char *
minus_zero(Build *b, const char *v, uint32_t s, const char *const *at, uint32_t along)
{
    Ctx *c = b->c;
    const Type *t = b->call->in[s], *z = has_in(b->call, 2 + s) ? b->call->in[2 + s] : NULL;
    const char *index[TN_MAX_RANK];

    if (!z)
        return arena_printf(c->arena, "i32(%s)", v);
    for (uint32_t d = 0; d < z->rank; d++) {
        uint32_t of = z->rank == 1 ? along : d;
        const Expr *one = expr_int(c, 1), *step = op_broadcast_at(c, z->dim[d], t->dim[of], one);
        index[d] =
            step == one ? at[of] : arena_printf(c->arena, "(%s)*%s", at[of], build_index(b, step));
    }
    return arena_printf(c->arena, "(i32(%s) - i32(%s[%s]))", v, s ? "bz" : "az",
                        list_text(c->arena, z->rank, index));
}

bool
expand_matmul(Build *b)
{
    bool integer = b->call->op == OP_matmul_integer;
    Arena *a = b->c->arena;
    const Type *tx = b->call->in[0], *ty = b->call->in[1];
    uint32_t rank = b->out[0]->rank, batch = rank - (tx->rank > 1) - (ty->rank > 1);
    const char *at_x[TN_MAX_RANK], *at_y[TN_MAX_RANK], *k = rank > 2 ? "k1" : "k";

    side_index(b, tx, batch, tx->rank > 1 ? build_axis_name(batch) : NULL, k, at_x);
    side_index(b, ty, batch, k, ty->rank > 1 ? build_axis_name(rank - 1) : k, at_y);
    const char *x = arena_printf(a, "x[%s]", list_text(a, tx->rank, at_x)),
               *y = arena_printf(a, "y[%s]", list_text(a, ty->rank, at_y));
    if (integer) {
        x = minus_zero(b, x, 0, at_x, tx->rank > 1 ? tx->rank - 2 : 0);
        y = minus_zero(b, y, 1, at_y, ty->rank - 1);
    }
    return build_text(b, NULL, integer ? "x y az? bz? -> o" : "x y -> o", NULL,
                      "o = sum %s: %s * %s", k, x, y);
}

/* ---- gemm ------------------------------------------------------------------------------------ */

bool
infer_gemm(Ctx *c, const OpCall *call, const Type **out)
{
    if (!op_rank_is(c, call, 0, 2) || !op_rank_is(c, call, 1, 2) || !op_same_dtype(c, call, 0, 1) ||
        !op_same_dtype(c, call, 0, 2))
        return false;
    const Type *a = call->in[0], *b = call->in[1], *bias = has_in(call, 2) ? call->in[2] : NULL;
    uint32_t ta = op_int(call, "transA") != 0, tb = op_int(call, "transB") != 0;
    const Expr *dim[2] = { a->dim[ta], b->dim[!tb] };

    if (!op_require_eq(c, call, a->dim[!ta], b->dim[tb], "inner extents of %s%s and %s%s",
                       type_str(c, a), ta ? " (transposed)" : "", type_str(c, b),
                       tb ? " (transposed)" : ""))
        return false;
    if (bias && bias->rank > 2)
        return op_fail(c, call, DIAG_MODEL, "input 2 is %s, of rank %u; at most 2 is allowed",
                       type_str(c, bias), bias->rank);
    for (uint32_t d = 0; bias && d < bias->rank; d++) {
        uint32_t o = 2 - bias->rank + d;
        if (!op_broadcast_into(c, call, bias->dim[d], dim[o],
                               "axis %u of input 2 and axis %u of the product", d, o))
            return false;
    }
    out[0] = type_new(c, a->dtype, 2, dim);
    return true;
}

bool
expand_gemm(Build *b)
{
    Arena *a = b->c->arena;
    const OpCall *call = b->call;
    bool ta = op_int(call, "transA") != 0, tb = op_int(call, "transB") != 0;
    double alpha = op_float(call, "alpha"), beta = op_float(call, "beta");
    bool bias = has_in(call, 2) && beta != 0;
    uint32_t value[] = { 0, 1, bias ? 2 : NO_SLOT, build_out(b, 0) };

    return build_text(b, NULL, "a b c? -> o", value, "o = (sum k: a[%s] * b[%s])%s%s%s",
                      ta ? "k, i" : "i, k", tb ? "j, k" : "k, j",
                      alpha != 1 ? arena_printf(a, " * %.17g", alpha) : "", bias ? " + c" : "",
                      bias && beta != 1 ? arena_printf(a, " * %.17g", beta) : "");
}

/* ---- einsum ---------------------------------------------------------------------------------- */

enum { MAX_LABELS = 52 + TN_MAX_RANK };

/* An equation matched with the inputs: labels are letters; the axes of `...` get labels after the
 * letters, aligned at their right ends. */
typedef struct {
    uint32_t nlabel, nout;
    int label[16][TN_MAX_RANK]; /* [input][axis] */
    int out[TN_MAX_RANK];
    const Expr *extent[MAX_LABELS];
    bool used[MAX_LABELS];
} EinsumEquation;

enum { MAX_EINSUM_INPUTS = 16 };

static int
letter_label(char s)
{
    return islower((unsigned char)s) ? s - 'a' : s - 'A' + 26;
}

/* Appends a label to a list of TN_MAX_RANK. */
static bool
add_label(Ctx *c, const OpCall *call, int *label, uint32_t *n, int l)
{
    if (*n == TN_MAX_RANK)
        return op_fail(c, call, DIAG_LIMIT,
                       "equation \"%s\" has a term of more than %d axes, the largest rank",
                       op_string(c, call, "equation"), TN_MAX_RANK);
    label[(*n)++] = l;
    return true;
}

/* One term, `bi...j`, for a tensor of `rank` axes; ellipsis axes are numbered from the right. */
static bool
read_term(Ctx *c, const OpCall *call, const char **s, uint32_t rank, int *label, uint32_t *n)
{
    uint32_t letters = 0;
    for (const char *t = *s; *t && *t != ',' && *t != '-'; t++)
        letters += isalpha((unsigned char)*t) != 0;
    if (letters > rank)
        return op_fail(c, call, DIAG_MODEL,
                       "equation \"%s\" has %u letters for a tensor of rank %u",
                       op_string(c, call, "equation"), letters, rank);
    for (*n = 0; **s && **s != ',' && **s != '-'; (*s)++) {
        if (isalpha((unsigned char)**s)) {
            if (!add_label(c, call, label, n, letter_label(**s)))
                return false;
        } else if (strncmp(*s, "...", 3) == 0) {
            for (uint32_t k = rank - letters; k-- > 0;)
                if (!add_label(c, call, label, n, 52 + (int)k))
                    return false;
            *s += 2;
        } else if (**s != ' ') {
            return op_fail(c, call, DIAG_MODEL, "equation \"%s\" has an unexpected '%c'",
                           op_string(c, call, "equation"), **s);
        }
    }
    return true;
}

static bool
read_equation(Ctx *c, const OpCall *call, EinsumEquation *e)
{
    const char *text = op_string(c, call, "equation"), *s = text;
    uint32_t n, count[MAX_LABELS] = { 0 }, dots = 0;

    *e = (EinsumEquation){ 0 };
    if (call->nin > MAX_EINSUM_INPUTS)
        return op_fail(c, call, DIAG_LIMIT, "has %u inputs, at most %d are supported", call->nin,
                       MAX_EINSUM_INPUTS);
    for (uint32_t i = 0; i < call->nin; i++) {
        if (i && *s++ != ',')
            return op_fail(c, call, DIAG_MODEL,
                           "equation \"%s\" has fewer terms than the %u inputs", text, call->nin);
        if (!op_same_dtype(c, call, 0, i) ||
            !read_term(c, call, &s, call->in[i]->rank, e->label[i], &n))
            return false;
        if (n != call->in[i]->rank)
            return op_fail(c, call, DIAG_MODEL, "equation \"%s\" names %u axes of input %u, %s",
                           text, n, i, type_str(c, call->in[i]));
        for (uint32_t d = 0; d < n; d++) {
            int l = e->label[i][d];
            const char *what =
                arena_printf(c->arena, "axis %u of input %u and earlier uses of its letter", d, i);
            const Expr *dim = call->in[i]->dim[d];
            e->extent[l] =
                e->extent[l] ? op_broadcast_dim(c, call, e->extent[l], dim, "%s", what) : dim;
            if (!e->extent[l])
                return false;
            count[l]++;
            if (l >= 52 && (uint32_t)l - 51 > dots)
                dots = (uint32_t)l - 51;
        }
    }
    if (strncmp(s, "->", 2) == 0) {
        s += 2;
        uint32_t letters = 0;
        for (const char *t = s; *t; t++)
            letters += isalpha((unsigned char)*t) != 0;
        if (!read_term(c, call, &s, letters + (strstr(s, "...") ? dots : 0), e->out, &e->nout))
            return false;
    } else { /* implicit: ellipsis, then labels that occur once, in order */
        for (uint32_t k = dots; k-- > 0;)
            if (!add_label(c, call, e->out, &e->nout, 52 + (int)k))
                return false;
        for (int l = 26; l < 52 + 26; l++)
            if (count[l % 52] == 1 && !add_label(c, call, e->out, &e->nout, l % 52))
                return false;
    }
    if (*s)
        return op_fail(c, call, DIAG_MODEL, "equation \"%s\" has more terms than the %u inputs",
                       text, call->nin);
    for (uint32_t d = 0; d < e->nout; d++) {
        if (!e->extent[e->out[d]] || e->used[e->out[d]])
            return op_fail(
                c, call, DIAG_MODEL, "equation \"%s\": axis %u of the output %s", text, d,
                e->used[e->out[d]] ? "names a letter twice" : "names a letter that no input has");
        e->used[e->out[d]] = true;
    }
    return true;
}

bool
infer_einsum(Ctx *c, const OpCall *call, const Type **out)
{
    const Expr *dim[TN_MAX_RANK];
    EinsumEquation e;

    if (!read_equation(c, call, &e))
        return false;
    for (uint32_t d = 0; d < e.nout; d++)
        dim[d] = e.extent[e.out[d]];
    out[0] = type_new(c, call->in[0]->dtype, e.nout, dim);
    return true;
}

bool
expand_einsum(Build *b)
{
    Arena *a = b->c->arena;
    const OpCall *call = b->call;
    const char *of[MAX_LABELS] = { 0 };
    Text params = { .arena = a }, over = { .arena = a }, product = { .arena = a };
    EinsumEquation e;

    if (!read_equation(b->c, call, &e))
        return false;
    for (uint32_t d = 0; d < e.nout; d++)
        of[e.out[d]] = build_axis_name(d);
    for (int l = 0; l < MAX_LABELS; l++)
        if (e.extent[l] && !of[l]) {
            of[l] = arena_printf(a, "s%d", l);
            text_printf(&over, "%s%s<%s>", over.n ? ", " : "sum ", of[l],
                        build_index(b, e.extent[l]));
        }
    for (uint32_t i = 0; i < call->nin; i++) {
        const Type *t = call->in[i];
        text_printf(&params, "x%u ", i);
        text_printf(&product, "%sx%u[", i ? " * " : over.n ? ": " : "", i);
        for (uint32_t d = 0; d < t->rank; d++) {
            int l = e.label[i][d];
            text_printf(
                &product, "%s%s", d ? ", " : "",
                build_along(b, t->dim[d], e.extent[l], of[l], arena_printf(a, "step%u_%u", i, d)));
        }
        text_add(&product, "]");
    }
    text_add(&params, "-> o");
    return build_text(b, NULL, text_str(&params), NULL, "o = %s%s", text_str(&over),
                      text_str(&product));
}
