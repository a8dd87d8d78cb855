/* attention: softmax(q k' * scale + mask) v, as five nests that fuse.
 *
 * Heads of q share heads of k and v in groups: head h reads head h // group. If q, k and v have
 * rank 3, heads are adjacent in the last axis. Masked scores are -inf; a query whose keys are all
 * masked gives 0, as the specification requires, and not 0 / 0.
 */
#include "op/build.h"

#include <string.h>

typedef struct {
    bool flat; /* rank 3: heads in the last axis */
    const Expr *batch, *heads, *kv_heads, *queries, *keys, *past, *total, *size, *value_size;
} Shape;

/* ---- types ----------------------------------------------------------------------------------- */

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, SEEN };

/* The heads of input i, and their size. */
static bool
heads_of(Ctx *c, const OpCall *call, uint32_t i, const char *attr, const Expr **heads,
         const Expr **size)
{
    const Type *t = call->in[i];
    int64_t n = op_int(call, attr);

    if (t->rank == 4) {
        *heads = t->dim[1];
        *size = t->dim[3];
        return true;
    }
    if (n < 1)
        return op_fail(c, call, DIAG_MODEL,
                       "attribute \"%s\" is %lld; inputs of rank 3 need the number of heads", attr,
                       (long long)n);
    if (expr_divisible(c, NULL, t->dim[2], n) == NO)
        return op_fail(c, call, DIAG_MODEL,
                       "the last axis of input %u, %s, cannot be split into %lld heads", i,
                       expr_str(c, t->dim[2]), (long long)n);
    *heads = expr_int(c, n);
    *size = expr_div(c, t->dim[2], *heads);
    return op_require_multiple(c, call, t->dim[2], *heads,
                               "the last axis of input %u and heads times their size", i);
}

static bool
check_mask(Ctx *c, const OpCall *call, const Shape *s)
{
    const Expr *full[] = { s->batch, s->heads, s->queries, s->total };
    const Type *m = call->in[MASK];

    if (m->dtype != DT_BOOL && m->dtype != call->in[Q]->dtype)
        return op_fail(c, call, DIAG_MODEL, "input 3 is %s; the mask must be bool or %s",
                       type_str(c, m), dtype_info[call->in[Q]->dtype].name);
    if (m->rank > 4 || m->rank < 1)
        return op_fail(c, call, DIAG_MODEL, "input 3 is %s, of rank %u; the mask has rank 1 to 4",
                       type_str(c, m), m->rank);
    for (uint32_t d = 0; d + 1 < m->rank; d++)
        if (!op_broadcast_into(c, call, m->dim[d], full[4 - m->rank + d],
                               "axis %u of the mask and of the scores", d))
            return false;
    return true;
}

/* Ranks of q, k and v; the heads, and the sizes that follow from them. */
static bool
shape_of(Ctx *c, const OpCall *call, Shape *s)
{
    const Type *q = call->in[Q], *k = call->in[K], *v = call->in[V];
    const Expr *k_size, *v_heads;

    if (k->rank != q->rank || v->rank != q->rank || q->rank < 3 || q->rank > 4)
        return op_fail(c, call, DIAG_MODEL,
                       "q, k and v are %s, %s and %s; all must have rank 3, or all rank 4",
                       type_str(c, q), type_str(c, k), type_str(c, v));
    s->flat = q->rank == 3;
    if (!heads_of(c, call, Q, "q_num_heads", &s->heads, &s->size) ||
        !heads_of(c, call, K, "kv_num_heads", &s->kv_heads, &k_size) ||
        !heads_of(c, call, V, "kv_num_heads", &v_heads, &s->value_size))
        return false;
    s->batch = q->dim[0];
    s->queries = q->dim[s->flat ? 1 : 2];
    s->keys = k->dim[s->flat ? 1 : 2];
    if (has_in(call, PAST_KEY) && !op_rank_is(c, call, PAST_KEY, 4))
        return false;
    s->past = has_in(call, PAST_KEY) ? call->in[PAST_KEY]->dim[2] : expr_int(c, 0);
    s->total = expr_simplify(c, NULL, expr_add(c, s->past, s->keys));
    int64_t heads, shared;
    if (expr_const(s->heads, &heads) && expr_const(s->kv_heads, &shared) &&
        (shared < 1 || heads % shared))
        return op_fail(c, call, DIAG_MODEL, "%lld heads of q cannot share %lld heads of k",
                       (long long)heads, (long long)shared);
    return op_require_eq(c, call, s->size, k_size, "the head sizes of q and k") &&
           op_require_eq(c, call, s->kv_heads, v_heads, "the heads of k and v") &&
           op_require_multiple(c, call, s->heads, s->kv_heads,
                               "the heads of q and a multiple of those of k");
}

#define REST                                                                                       \
    "mask?: any[...], past_key?: k[b, kv_heads, p, head_size], past_value?: v[b, kv_heads, p, "    \
    "value_size], "                                                                                \
    "nonpad_kv_seqlen?: any[b] -> "
#define CACHES                                                                                     \
    ", k[b, kv_heads, total, head_size], v[b, kv_heads, total, value_size], q[b, heads, n, total]"

bool
infer_attention(Ctx *c, const OpCall *call, const Type **out)
{
    OpSizes size = { 0 };
    Shape s;

    if (has_in(call, PAST_KEY) != has_in(call, PAST_VALUE))
        return op_fail(c, call, DIAG_MODEL,
                       "one of past_key and past_value is given; both are needed");
    if (!shape_of(c, call, &s))
        return false;
    op_size(c, &size, "heads", s.heads);
    op_size(c, &size, "kv_heads", s.kv_heads);
    op_size(c, &size, "head_size", s.size);
    op_size(c, &size, "value_size", s.value_size);
    op_size(c, &size, "total", s.total);
    return op_signature(c, call,
                        s.flat
                            ? "q: floats[b, n, _], k: q[b, t, _], v: floats[b, t, _], " REST
                              "q[b, n, heads*value_size]" CACHES
                            : "q: floats[b, heads, n, head_size], k: q[b, kv_heads, t, head_size], "
                              "v: floats[b, kv_heads, t, value_size], " REST
                              "q[b, heads, n, value_size]" CACHES,
                        &size, out) &&
           (!has_in(call, MASK) || check_mask(c, call, &s));
}

/* ---- expansion ------------------------------------------------------------------------------- */

typedef struct {
    Build *b;
    Shape s;
    /* the values with keys and values, of rank 4 after the past, or as given */
    uint32_t key, value;
    bool key_flat, value_flat;
} Attending;

/* The past followed by the new rows, which is also an output; the input itself if both are
 * absent. */
static bool
present(Attending *a, uint32_t input, uint32_t past, uint32_t output, const Expr *size,
        uint32_t *to, bool *flat)
{
    Build *b = a->b;
    bool wanted = output < b->call->nout && b->out[output], joined = has_in(b->call, past);
    const Expr *dim[] = { a->s.batch, a->s.kv_heads, a->s.total, size };

    *to = input;
    *flat = a->s.flat;
    if (!wanted && !joined)
        return true;
    *to = wanted ? build_out(b, output) : build_value(b, b->call->in[input]->dtype, 4, dim);
    *flat = false;
    build_name(b, "past", a->s.past);
    build_name(b, "size", size);
    const char *new = a->s.flat ? "x[b, j - past, h*size + d]" : "x[b, h, j - past, d]";
    return build_text(b, "present", "x p? -> o", (uint32_t[]){ input, build_in(b, past), *to },
                      "o[b, h, j, d] = %s%s", joined ? "j < past ? p[b, h, j, d] : " : "", new);
}

/* The text of the summand of score (query i, key j, head h): the mask, or -inf. */
static const char *
bias(Attending *a)
{
    Build *b = a->b;
    const OpCall *call = b->call;
    Text t = { .arena = b->c->arena };
    int64_t left = op_int(call, "left_window_size"), right = op_int(call, "right_window_size");
    const char *offset =
        has_in(call, SEEN) && !has_in(call, PAST_KEY) ? "(i64(seen[b]) - queries)" : "past";

    if (op_int(call, "is_causal"))
        text_printf(&t, " + (j <= i + %s ? $T(0) : -inf)", offset);
    if (left >= 0)
        text_printf(&t, " + (i + %s - j <= %lld ? $T(0) : -inf)", offset, (long long)left);
    if (right >= 0)
        text_printf(&t, " + (j - i - %s <= %lld ? $T(0) : -inf)", offset, (long long)right);
    if (has_in(call, SEEN))
        text_add(&t, " + (j < i64(seen[b]) ? $T(0) : -inf)");
    if (has_in(call, MASK)) {
        static const char *const axis[] = { "b", "h", "i", "j" }, *const step[] = { "mask_b",
                                                                                    "mask_h",
                                                                                    "mask_i" };
        const Expr *full[] = { a->s.batch, a->s.heads, a->s.queries };
        const Type *m = call->in[MASK];
        bool is_bool = m->dtype == DT_BOOL;
        text_add(&t, is_bool ? " + (mask[" : " + mask[");
        for (uint32_t d = 0; d < m->rank; d++) {
            uint32_t at = 4 - m->rank + d;
            text_printf(&t, "%s%s", d ? ", " : "",
                        at < 3 ? build_along(b, m->dim[d], full[at], axis[at], step[at])
                               : axis[at]);
        }
        text_add(&t, is_bool ? " | false] ? $T(0) : -inf)" : " | -inf]");
    }
    return text_str(&t);
}

/* Scores before the softmax; output 3, if it exists, gets them raw or capped. */
static bool
scores(Attending *a, uint32_t to)
{
    Build *b = a->b;
    const OpCall *call = b->call;
    const Expr *dim[] = { a->s.batch, a->s.heads, a->s.queries, a->s.total };
    int64_t mode = op_int(call, "qk_matmul_output_mode"), size = 0;
    bool shown = call->nout > 3 && b->out[3];
    double cap = op_float(call, "softcap");
    uint32_t raw = build_value(b, compute_type(call->in[Q]->dtype), 4, dim), capped = raw;
    const char *q = a->s.flat ? "q[b, i, h*size + d]" : "q[b, h, i, d]";
    const char *k = a->key_flat ? "k[b, j, h // group*size + d]" : "k[b, h // group, j, d]";
    const char *scale = attr_find(call->attrs, "scale")
                            ? arena_printf(b->c->arena, "%.17g", op_float(call, "scale"))
                        : expr_const(a->s.size, &size)
                            ? arena_printf(b->c->arena, "%.17g", 1 / __builtin_sqrt((double)size))
                            : "1 / sqrt($T(size))";

    uint32_t product[] = { Q, a->key, raw };
    if (!build_text(b, "scores", "q k -> o", product,
                    "o[b, h, i, j] = (sum d<size>: %s * %s) * (%s)", q, k, scale))
        return false;
    if (cap > 0) {
        capped = build_value(b, compute_type(call->in[Q]->dtype), 4, dim);
        uint32_t to_capped[] = { raw, capped };
        if (!build_text(b, "cap", "x -> o", to_capped,
                        "o[b, h, i, j] = tanh(x[b, h, i, j] / %.17g) * %.17g", cap, cap))
            return false;
    }
    if (!build_text(b, "masked", "x mask? seen? -> o",
                    (uint32_t[]){ capped, build_in(b, MASK), build_in(b, SEEN), to },
                    "o[b, h, i, j] = x[b, h, i, j]%s", bias(a)))
        return false;
    uint32_t copy[] = { mode == 0 ? raw : mode == 1 ? capped : to, shown ? build_out(b, 3) : 0 };
    return !shown || mode == 3 ||
           build_text(b, "shown", "x -> o", copy, "o[b, h, i, j] = x[b, h, i, j]");
}

bool
expand_attention(Build *b)
{
    Ctx *c = b->c;
    Attending a = { .b = b };

    if (!shape_of(c, b->call, &a.s))
        return false;
    if (!present(&a, K, PAST_KEY, 1, a.s.size, &a.key, &a.key_flat) ||
        !present(&a, V, PAST_VALUE, 2, a.s.value_size, &a.value, &a.value_flat))
        return false;
    const Expr *dim[] = { a.s.batch, a.s.heads, a.s.queries, a.s.total };
    DType real = compute_type(b->call->in[Q]->dtype);
    build_name(b, "size", a.s.size);
    build_name(b, "value_size", a.s.value_size);
    build_name(b, "queries", a.s.queries);
    build_name(b, "past", a.s.past);
    build_name(b, "total", a.s.total);
    build_name(b, "group", expr_simplify(c, NULL, expr_div(c, a.s.heads, a.s.kv_heads)));
    uint32_t masked = build_value(b, real, 4, dim), top = build_value(b, real, 3, dim),
             e = build_value(b, real, 4, dim);
    uint32_t sum = build_value(b, real, 3, dim);
    bool shown = b->call->nout > 3 && b->out[3] && op_int(b->call, "qk_matmul_output_mode") == 3;
    uint32_t p = shown ? build_out(b, 3) : build_value(b, real, 4, dim);
    uint32_t to_top[] = { masked, top }, to_e[] = { masked, top, e }, to_sum[] = { e, sum },
             to_p[] = { e, sum, p }, to_out[] = { p, a.value, build_out(b, 0) };
    if (!scores(&a, masked) ||
        !build_text(b, "max", "x -> o", to_top, "o[b, h, i] = max j: x[b, h, i, j]") ||
        !build_text(b, "exp", "x m -> o", to_e,
                    "o[b, h, i, j] = exp(x[b, h, i, j] - (m[b, h, i] == -inf ? 0 : m[b, h, i]))") ||
        !build_text(b, "sum", "x -> o", to_sum, "o[b, h, i] = sum j: x[b, h, i, j]") ||
        !build_text(b, "softmax", "x s -> o", to_p,
                    "o[b, h, i, j] = x[b, h, i, j] / (s[b, h, i] == 0 ? 1 : s[b, h, i])"))
        return false;
    const char *head = a.s.flat ? "f // value_size" : "h", *d = a.s.flat ? "f % value_size" : "d";
    const char *v = a.value_flat
                        ? arena_printf(c->arena, "v[b, j, %s // group*value_size + %s]", head, d)
                        : arena_printf(c->arena, "v[b, %s // group, j, %s]", head, d);
    return build_text(b, NULL, "p v -> o", to_out, "o[%s] = sum j: p[b, %s, i, j] * %s",
                      a.s.flat ? "b, i, f" : "b, h, i, d", head, v);
}
