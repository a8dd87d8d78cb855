/* loss: negative log likelihood, with and without a log-softmax.
 *
 * A target equal to ignore_index has no effect, whatever the scores, and may be outside of the
 * classes: class 0 is read for it, and its term and weight are 0.
 */
#include "op/build.h"
#include "op/kinds.h"

/* ---- types ----------------------------------------------------------------------------------- */

bool
infer_loss(Ctx *c, const OpCall *call, const Type **out)
{
    if (!infer_signature(c, call, out))
        return false;
    if (!op_string_is(call, "reduction", "none"))
        out[0] = type_new(c, out[0]->dtype, 0, NULL);
    return true;
}

/* ---- expansion ------------------------------------------------------------------------------- */

/* The term and the weight of every target, both with the targets' shape. */
static bool
terms(Build *b, uint32_t x, uint32_t term, uint32_t weight)
{
    Arena *a = b->c->arena;
    uint32_t rank = b->call->in[1]->rank;
    const char *i = axes_text(a, 0, rank), *rest = axes_text(a, 1, rank);
    bool ignores = attr_find(b->call->attrs, "ignore_index") != NULL, weighted = has_in(b->call, 2);
    long long ignored = op_int(b->call, "ignore_index");
    const char *target =
        ignores ? arena_printf(a, "(i64(t[%s]) == %lld ? 0 : i64(t[%s]))", i, ignored, i)
                : arena_printf(a, "i64(t[%s])", i);
    const char *zero_or =
        ignores ? arena_printf(a, "i64(t[%s]) == %lld ? $T(0) : ", i, ignored) : "";
    const char *w = weighted ? arena_printf(a, "w[at(%s, classes)]", target) : "$T(1)";

    build_name(b, "classes", b->call->in[0]->dim[1]);
    if (!build_text(b, "weight", "t w? -> o", (uint32_t[]){ 1, build_in(b, 2), weight },
                    "o[%s] = %s%s", i, zero_or, w))
        return false;
    uint32_t at_term[] = { x, 1, weight, term };
    return build_text(b, "term", "x t w -> o", at_term,
                      "o[%s] = %s-x[i0, at(%s, classes)%s%s] * w[%s]", i, zero_or, target,
                      *rest ? ", " : "", rest, i);
}

static bool
log_likelihood(Build *b, uint32_t x)
{
    const OpCall *call = b->call;
    const Type *t = call->in[1];
    DType real = compute_type(call->in[0]->dtype);
    bool none = op_string_is(call, "reduction", "none"),
         mean = op_string_is(call, "reduction", "mean");
    const char *i = axes_text(b->c->arena, 0, t->rank);
    uint32_t weight = build_value(b, real, t->rank, t->dim);
    uint32_t term = none ? build_out(b, 0) : build_value(b, real, t->rank, t->dim);

    if (!terms(b, x, term, weight))
        return false;
    if (none)
        return true;
    uint32_t sum = mean ? build_value(b, real, 0, NULL) : build_out(b, 0);
    uint32_t of_terms[] = { term, sum };
    if (!build_text(b, "sum", "x -> o", of_terms, "o[] = sum %s: x[%s]", i, i))
        return false;
    if (!mean)
        return true;
    uint32_t divided[] = { sum, weight, build_out(b, 0) };
    return build_text(b, "mean", "x w -> o", divided, "o[] = x[] / (sum %s: w[%s])", i, i);
}

bool
expand_loss(Build *b)
{
    const Type *x = b->call->in[0];
    if (b->call->op == OP_nll_loss)
        return log_likelihood(b, 0);
    uint32_t log = b->call->nout > 1 && b->out[1]
                       ? build_out(b, 1)
                       : build_value(b, compute_type(x->dtype), x->rank, x->dim);

    return build_log_softmax(b, 1, log) && log_likelihood(b, log);
}
