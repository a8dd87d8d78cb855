/* variant: other trees of a kernel, for ranges of sizes.
 *
 * A contraction of one row needs another program than one of a thousand, and the number of rows may
 * be known only at run time. So a kernel may have several trees. Each variant is a kernel of its
 * own over the same buffers, with a guard: bounds of symbols. A symbol with one value there is that
 * number, in the types and in the parts, so a schedule for the variant sees an axis of known
 * extent, or none; for others the bounds hold in all proofs. The first variant whose guard holds
 * runs, otherwise the kernel's own tree.
 *
 *   kernel dense(x: f32[rows, 512], …) -> (o: f32[rows, 64]) {
 *     parallel …
 *     variant rows == 1 {
 *       schedule { … }
 *       parallel …
 *     }
 *   }
 */
#include "algebra/algebra.h"
#include "kernel/kernel.h"
#include "text/parser.h"

#include <string.h>

/* ---- making ---------------------------------------------------------------------------------- */

static const Type *
type_under(Ctx *c, const Type *t, const Binding *b, uint32_t n)
{
    const Expr *dim[UINT8_MAX];

    for (uint32_t d = 0; d < t->rank; d++)
        dim[d] = expr_subst(c, t->dim[d], b, n);
    return type_new(c, t->dtype, t->rank, dim);
}

Kernel *
kernel_variant(Ctx *c, Arena *a, const Kernel *k, SizeGuard guard)
{
    Kernel *v = NEW(a, Kernel);
    Binding *b = NEW_ARRAY(a, Binding, guard.n);
    Part *part = NEW_ARRAY(a, Part, k->npart);
    uint32_t n = 0;

    for (uint32_t i = 0; i < guard.n; i++)
        /* no nest names that */
        if (guard.at[i].least == guard.at[i].most && strcmp(guard.at[i].symbol, THREADS_SYMBOL))
            b[n++] = (Binding){ { VAR_SYMBOL, MAP_PTR(guard.at[i].symbol) },
                                expr_int(c, guard.at[i].least) };
    *v = (Kernel){ .name = k->name,
                   .origin = k->origin,
                   .nin = k->nin,
                   .nout = k->nout,
                   .npart = k->npart,
                   .part = part,
                   .shared = k->shared,
                   .tree.arena = a,
                   .trips = expr_int(c, 1),
                   .grain = expr_int(c, 1),
                   .guard = guard };
    for (uint32_t i = 0; i < k->buffer.n; i++) {
        Buffer buffer = k->buffer.at[i];
        if (i >= k->nin + k->nout && buffer.space != SPACE_LOCAL)
            continue; /* of the other tree */
        buffer.type = type_under(c, buffer.type, b, n);
        buffer.within = buffer.within ? type_under(c, buffer.within, b, n) : NULL;
        VEC_PUSH(a, &v->buffer, buffer);
    }
    for (uint32_t i = 0; i < k->npart; i++) {
        part[i] = k->part[i];
        if (n)
            part[i].nest = nest_simplify(c, nest_bind(c, part[i].nest, b, n));
    }
    return v;
}

/* ---- which one runs -------------------------------------------------------------------------- */

/* 0 where it holds, 1 where it does not. */
static const Expr *
guard_fails(Ctx *c, const SizeGuard *g)
{
    const Expr *zero = expr_int(c, 0), *beyond = zero;

    for (uint32_t i = 0; i < g->n; i++) {
        const SizeBound *t = &g->at[i];
        const Expr *s = expr_var(c, (Var){ VAR_SYMBOL, MAP_PTR(t->symbol) });
        if (t->most < INT64_MAX)
            beyond = expr_add(c, beyond, expr_max(c, zero, expr_offset(c, s, -t->most)));
        if (t->least > 0)
            beyond = expr_add(c, beyond, expr_max(c, zero, expr_sub(c, expr_int(c, t->least), s)));
    }
    return expr_min(c, expr_int(c, 1), beyond);
}

const Expr *
kernel_pick(Ctx *c, const Kernel *k, const Expr *const *of)
{
    const Expr *picked = of[0];

    for (uint32_t i = k->nvariant; i-- > 0;)
        picked = expr_add(
            c, of[1 + i],
            expr_mul(c, guard_fails(c, &k->variant[i]->guard), expr_sub(c, picked, of[1 + i])));
    return picked;
}

/* ---- text ------------------------------------------------------------------------------------ */

void
guard_print(Text *t, const SizeGuard *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const SizeBound *s = &g->at[i];
        text_add(t, i ? ", " : "");
        if (s->least > 0 && s->least < s->most)
            text_printf(t, "%lld <= ", (long long)s->least);
        text_name(t, s->symbol);
        if (s->least == s->most)
            text_printf(t, " == %lld", (long long)s->most);
        else if (s->most < INT64_MAX)
            text_printf(t, " <= %lld", (long long)s->most);
    }
}

static bool
parse_bound(Parse *p, int64_t *v)
{
    return parse_int(p, v) &&
           (*v >= 0 || parse_error(p, "a size is 0 at least, the guard says %lld", (long long)*v));
}

bool
guard_parse(Parse *p, Arena *a, SizeGuard *g)
{
    VEC(SizeBound) term = { 0 };

    do {
        SizeBound t = { .least = 0, .most = INT64_MAX };
        parse_skip(p);
        bool below = p->s < p->end && *p->s >= '0' && *p->s <= '9';
        if (below && (!parse_bound(p, &t.least) || !parse_expect(p, "<=")))
            return false;
        if (!(t.symbol = parse_name(p)))
            return false;
        if (expr_symbol_info(p->ctx, (Var){ VAR_SYMBOL, MAP_PTR(t.symbol) })->fixed >= 0)
            return parse_error(p,
                               "--dim gives %s one size, and here are programs for some of its "
                               "sizes: give --dim when compiling the model, or a dump of a stage "
                               "before choose",
                               t.symbol);
        if (!below && parse_accept(p, "==")) {
            if (!parse_bound(p, &t.least))
                return false;
            t.most = t.least;
        } else if (parse_accept(p, "<=")) {
            if (!parse_bound(p, &t.most))
                return false;
        } else if (!below) {
            return parse_error(p, "%s has no bound: say %s == N, %s <= N or N <= %s", t.symbol,
                               t.symbol, t.symbol, t.symbol);
        }
        if (t.least > t.most)
            return parse_error(p, "no %s is %lld at least and %lld at most", t.symbol,
                               (long long)t.least, (long long)t.most);
        VEC_PUSH(a, &term, t);
    } while (parse_accept(p, ","));
    *g = (SizeGuard){ term.n, term.at };
    return true;
}
