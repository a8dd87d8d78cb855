/* transformer: operators around attention: rotary positions, caches, linear attention, short causal
 * convolutions. */
#include "op/build.h"

#include <string.h>

/* ---- rotary_embedding: x[b,h,n,d] or [b,n,h*d], cos and sin [b,n,r/2], or [positions,r/2] with
 * positions[b,n]; b or n of these may be 1  */

typedef struct {
    bool flat;
    const Expr *size, *half;
} Rotary;

static bool
rotary_of(Ctx *c, const OpCall *call, Rotary *r)
{
    const Type *x = call->in[0], *cache = call->in[1];
    int64_t heads = op_int(call, "num_heads"), turned = op_int(call, "rotary_embedding_dim");

    if (x->rank != 3 && x->rank != 4)
        return op_fail(c, call, DIAG_MODEL, "input 0 is %s, of rank %u; rank 3 or 4 is needed",
                       type_str(c, x), x->rank);
    r->flat = x->rank == 3;
    if (r->flat && heads < 1)
        return op_fail(
            c, call, DIAG_MODEL,
            "attribute \"num_heads\" is %lld; an input of rank 3 needs the number of heads",
            (long long)heads);
    r->size = r->flat ? expr_div(c, x->dim[2], expr_int(c, heads)) : x->dim[3];
    r->half = turned > 0 ? expr_int(c, turned / 2)
                         : expr_simplify(c, NULL, expr_div(c, r->size, expr_int(c, 2)));
    return op_rank_is(c, call, 1, has_in(call, 3) ? 2 : 3) &&
           (!r->flat ||
            op_require_multiple(c, call, x->dim[2], expr_int(c, heads),
                                "the last axis of input 0 and heads times their size")) &&
           op_require_eq(c, call, cache->dim[cache->rank - 1], r->half,
                         "the last axis of the cosines and half the rotated size");
}

/* Input i has a row for each sequence and token of x, or one for all. */
static bool
has_rows_of(Ctx *c, const OpCall *call, uint32_t i, const Rotary *r)
{
    const Type *x = call->in[0], *t = call->in[i];
    const Expr *want[] = { x->dim[0], x->dim[r->flat ? 1 : 2] };

    for (uint32_t d = 0; d < 2; d++)
        if (!op_broadcast_into(c, call, t->dim[d], want[d],
                               "axis %u of input %u and %s of what is turned", d, i,
                               d ? "tokens" : "the batch"))
            return false;
    return true;
}

bool
infer_rotary(Ctx *c, const OpCall *call, const Type **out)
{
    Rotary r;

    if (!op_need_floats(c, call, 0) || !op_same_dtype(c, call, 0, 1) ||
        !op_same_dtype(c, call, 0, 2) || !rotary_of(c, call, &r) ||
        !op_rank_is(c, call, 2, call->in[1]->rank) ||
        !op_require_dims(c, call, call->in[1]->rank, call->in[1]->dim, call->in[2]->dim,
                         "cosines and sines"))
        return false;
    out[0] = call->in[0];
    return (!has_in(call, 3) || op_rank_is(c, call, 3, 2)) &&
           has_rows_of(c, call, has_in(call, 3) ? 3 : 1, &r);
}

bool
expand_rotary(Build *b)
{
    Arena *a = b->c->arena;
    const OpCall *call = b->call;
    Rotary r;

    if (!rotary_of(b->c, call, &r))
        return false;
    build_name(b, "size", r.size);
    build_name(b, "half", r.half);
    build_name(b, "rows", call->in[1]->dim[0]);
    bool pairs = op_int(call, "interleaved") != 0, by_position = has_in(call, 3);
    const Type *rows = call->in[by_position ? 3 : 1];
    const char *at =
        arena_printf(a, "%s, %s", build_along(b, rows->dim[0], call->in[0]->dim[0], "b", "by"),
                     build_along(b, rows->dim[1], call->in[0]->dim[r.flat ? 1 : 2], "n", "step"));
    const char *row = by_position ? arena_printf(a, "at(i64(p[%s]), rows)", at) : at;
    const char *read = r.flat ? "x[b, n, f - d + %s]" : "x[b, h, n, %s]";
    const char *back = pairs ? "d - 1" : "d - half", *ahead = pairs ? "d + 1" : "d + half";
#define AT(index) arena_printf(a, read, index)
#define CACHE(name) arena_printf(a, "%s[%s, %s]", name, row, pairs ? "d // 2" : "d % half")
    const char *text = arena_printf(
        a, "%sd < 2*half ? (%s ? %s * %s - %s * %s : %s * %s + %s * %s) : %s",
        r.flat ? "let d = f % size in " : "", pairs ? "d % 2 == 0" : "d < half", CACHE("c"),
        AT("d"), CACHE("s"), AT(ahead), CACHE("s"), AT(back), CACHE("c"), AT("d"), AT("d"));
#undef AT
#undef CACHE
    return build_text(b, NULL, "x c s p? -> o", NULL, "o[%s] = %s",
                      r.flat ? "b, n, f" : "b, h, n, d", text);
}

/* ---- tensor_scatter: a cache with rows from write_indices[batch] on replaced ----------------- */

bool
infer_tensor_scatter(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0], *u = call->in[1];
    uint32_t axis;

    if (!op_same_dtype(c, call, 0, 1) || !op_rank_at_least(c, call, 0, 2) ||
        !op_rank_is(c, call, 1, x->rank) || !op_axis_attr(c, call, x->rank, &axis))
        return false;
    if (axis == 0)
        return op_fail(c, call, DIAG_MODEL, "axis is the batch axis; another is needed");
    for (uint32_t d = 0; d < x->rank; d++)
        if (d != axis && !op_require_eq(c, call, x->dim[d], u->dim[d],
                                        "axis %u of the cache and of the update", d))
            return false;
    if (expr_le(c, NULL, u->dim[axis], x->dim[axis]) == NO)
        return op_fail(c, call, DIAG_MODEL, "an update of %s rows does not fit a cache of %s",
                       expr_str(c, u->dim[axis]), expr_str(c, x->dim[axis]));
    out[0] = x;
    return op_vector(c, call, 2, x->dim[0], "the number of write_indices and the batch");
}

bool
expand_tensor_scatter(Build *b)
{
    Arena *a = b->c->arena;
    const OpCall *call = b->call;
    uint32_t rank = call->in[0]->rank, axis = build_along_axis(b, rank);
    bool circular = op_string_is(call, "mode", "circular"), placed = has_in(call, 2);
    build_name(b, "new", call->in[1]->dim[axis]);
    build_name(b, "rows", call->in[0]->dim[axis]);
    const char *all = axes_text(a, 0, rank), *rest = axes_text(a, axis + 1, rank);
    const char *row =
        placed ? arena_printf(a, "i%u - i64(w[i0])", axis) : arena_printf(a, "i%u", axis);
    if (circular)
        row = arena_printf(a, "(%s) %% rows", row);
    return build_text(b, NULL, "x u w? -> o", NULL,
                      "o[%s] = let r = %s in and(0 <= r, r < new) ? u[%s, r%s%s] : x[%s]", all, row,
                      axes_text(a, 0, axis), *rest ? ", " : "", rest, all);
}

/* ---- causal_conv: each channel convolved with its own k weights, after k - 1 earlier inputs */

bool
expand_causal_conv(Build *b)
{
    const OpCall *call = b->call;
    bool bias = has_in(call, 2), past = has_in(call, 3),
         acts = !op_string_is(call, "activation", "none");
    const Type *x = call->in[0];

    build_name(b, "before", expr_offset(b->c, call->in[1]->dim[2], -1));
    build_name(b, "length", x->dim[2]);
    uint32_t sum = acts ? build_value_like(b, compute_type(x->dtype), 0) : build_out(b, 0);
    if (!build_text(b, acts ? "sum" : NULL, "x w bias? p? -> o",
                    (uint32_t[]){ 0, 1, build_in(b, 2), build_in(b, 3), sum },
                    "o[b, c, l] = (sum r<before + 1>: %s * w[c, 0, r])%s",
                    past ? "(l + r < before ? p[b, c, l + r] : x[b, c, l + r - before])"
                         : "x[b, c, l + r - before | 0]",
                    bias ? " + bias[c]" : ""))
        return false;
    uint32_t act[] = { sum, build_out(b, 0) };
    if (acts &&
        !build_text(b, NULL, "x -> o", act, "o[b, c, l] = x[b, c, l] * sigmoid(x[b, c, l])"))
        return false;
    if (call->nout < 2 || !b->out[1])
        return true;
    return build_text(b, "state", "x p? -> o", (uint32_t[]){ 0, build_in(b, 3), build_out(b, 1) },
                      past ? "o[b, c, i] = length + i < before ? p[b, c, length + i] : x[b, c, "
                             "length + i - before]"
                           : "o[b, c, i] = x[b, c, length + i - before | 0]");
}

/* ---- linear_attention: at each step a state [b,h,k,v] decays, is corrected, and k v' is added */

enum { QUERY, KEY, VALUE, STATE, DECAY, BETA };

static bool
heads_given(Ctx *c, const OpCall *call, int64_t *heads, int64_t *kv_heads)
{
    *heads = op_int(call, "q_num_heads");
    *kv_heads = op_int(call, "kv_num_heads");
    if (*heads < 1 || *kv_heads < 1 || *heads % *kv_heads)
        return op_fail(c, call, DIAG_MODEL, "%lld heads of queries cannot share %lld heads of keys",
                       (long long)*heads, (long long)*kv_heads);
    return true;
}

/* Does each head have one decay? Otherwise each element of its keys has one. */
static bool
decays_by_head(Ctx *c, const OpCall *call, const Expr *k_size, int64_t kv)
{
    return expr_is(call->in[DECAY]->dim[2], kv) && !expr_is(expr_scale(c, k_size, kv), kv);
}

bool
infer_linear_attention(Ctx *c, const OpCall *call, const Type **out)
{
    const char *rule = op_string(c, call, "update_rule");
    bool gated = strstr(rule, "gated") != NULL, delta = strstr(rule, "delta") != NULL;
    int64_t heads, kv;

    if (gated != has_in(call, DECAY) || delta != has_in(call, BETA))
        return op_fail(c, call, DIAG_MODEL, "update_rule \"%s\" %s a decay and %s a beta", rule,
                       gated ? "needs" : "has no", delta ? "needs" : "has no");
    if (!heads_given(c, call, &heads, &kv))
        return false;
    const Type *q = call->in[QUERY], *v = call->in[VALUE];
    if (!op_rank_is(c, call, QUERY, 3) || !op_rank_is(c, call, VALUE, 3))
        return false;
    OpSizes size = { 0 };
    const Expr *k_size = expr_div(c, q->dim[2], expr_int(c, heads));
    op_size(c, &size, "heads", expr_int(c, heads));
    op_size(c, &size, "kv_heads", expr_int(c, kv));
    op_size(c, &size, "head_size", k_size);
    op_size(c, &size, "value_size", expr_div(c, v->dim[2], expr_int(c, kv)));
    if (!op_signature(c, call, op_info[call->op].meaning, &size, out))
        return false;
    if (call->nout > 1 && has_in(call, STATE))
        out[1] = type_with_dtype(c, out[1], call->in[STATE]->dtype);
    return (!gated || decays_by_head(c, call, k_size, kv) ||
            op_require_eq(c, call, call->in[DECAY]->dim[2], expr_scale(c, k_size, kv),
                          "the last axis of the decay and heads times the size of their keys")) &&
           (!delta || expr_is(call->in[BETA]->dim[2], 1) ||
            op_require_eq(c, call, call->in[BETA]->dim[2], expr_int(c, kv),
                          "the last axis of beta and the heads"));
}

bool
expand_linear_attention(Build *b)
{
    Ctx *c = b->c;
    Arena *a = c->arena;
    const OpCall *call = b->call;
    const Type *q = call->in[QUERY];
    int64_t heads, kv;

    if (!heads_given(c, call, &heads, &kv))
        return false;
    bool gated = has_in(call, DECAY), delta = has_in(call, BETA), past = has_in(call, STATE);
    const Expr *k_size = expr_simplify(c, NULL, expr_div(c, q->dim[2], expr_int(c, heads)));
    const Expr *v_size =
        expr_simplify(c, NULL, expr_div(c, call->in[VALUE]->dim[2], expr_int(c, kv)));
    const Expr *dim[] = { q->dim[0], expr_int(c, kv), q->dim[1], k_size, v_size };
    uint32_t history = build_value(b, DT_F32, 5, dim);

    b->real = DT_F32;
    build_name(b, "ks", k_size);
    build_name(b, "vs", v_size);
    build_name(b, "batch", q->dim[0]);
    build_name(b, "steps", q->dim[1]);
    build_name(b, "heads", expr_int(c, kv));
    build_name(b, "group", expr_int(c, heads / kv));
    /* The previous state, decayed: at key index x. */
    bool by_head = gated && decays_by_head(c, call, k_size, kv);
    const char *before = past ? "(t == 0 ? f32(p[b, h, %s, m]) : s[b, h, t - 1, %s, m])"
                              : "(t == 0 ? f32(0) : s[b, h, t - 1, %s, m])";
    const char *decay = !gated    ? ""
                        : by_head ? " * exp(f32(g[b, t, h]))"
                                  : " * exp(f32(g[b, t, h*ks + %s]))";
#define STATE_AT(x)                                                                                \
    arena_printf(a, "%s%s", past ? arena_printf(a, before, x, x) : arena_printf(a, before, x),     \
                 arena_printf(a, decay, x))
    const char *gain = "f32(v[b, t, h*vs + m])";
    if (delta)
        gain =
            arena_printf(a, "f32(beta[b, t, %s]) * (%s - (sum e<ks>: %s * f32(k[b, t, h*ks + e])))",
                         expr_is(call->in[BETA]->dim[2], 1) ? "0" : "h", gain, STATE_AT("e"));
    if (!build_text(b, "state", "k v p? g? beta? -> s",
                    (uint32_t[]){ KEY, VALUE, build_in(b, STATE), build_in(b, DECAY),
                                  build_in(b, BETA), history },
                    "for b<batch>, h<heads>, t<steps>, d<ks>, m<vs>: s[b, h, t, d, m] = scan t: %s "
                    "+ f32(k[b, t, h*ks + d]) * (%s)",
                    STATE_AT("d"), gain))
        return false;
#undef STATE_AT
    double scale = op_float(call, "scale");
    uint32_t read[] = { QUERY, history, build_out(b, 0) };
    if (!build_text(b, NULL, "q s -> o", read,
                    "o[b, t, f] = (sum d<ks>: f32(q[b, t, f // vs*ks + d]) * s[b, f // vs // "
                    "group, t, d, f %% vs]) * (%s)",
                    scale != 0 ? arena_printf(a, "%.17g", scale) : "1 / sqrt(f32(ks))"))
        return false;
    if (call->nout < 2 || !b->out[1])
        return true;
    return build_text(b, "present", "s p? -> o",
                      (uint32_t[]){ history, build_in(b, STATE), build_out(b, 1) },
                      "o[b, h, d, m] = steps == 0 ? %s : s[b, h, steps - 1, d, m]",
                      past ? "f32(p[b, h, d, m])" : "0");
}
