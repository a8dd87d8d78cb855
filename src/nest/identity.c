/* identity: scalar expressions that say the same at less cost, by the table identities.def.
 *
 * A pattern is parsed with a stand-in for x, a read of a parameter that no nest has, and compared node by
 * node; what the stand-in meets becomes x of the right side. Sums and products match either way round.
 */
#include "nest/internal.h"

typedef struct { ScalarOp root; const char *from, *to; } Identity;

static const Identity table[] = {
#define IDENTITY(root, from, to) { S_##root, from, to },
#include "nest/identities.def"
#undef IDENTITY
};

static bool
matches(const Scalar *pattern, const Scalar *s, const Scalar **x)
{
    const Scalar *met = *x;

    if (pattern->op == S_LOAD) {
        *x = met ? met : s;
        return *x == s;
    }
    if (pattern->op != s->op || pattern->dtype != s->dtype || pattern->narg != s->narg)
        return false;
    if (pattern->op == S_CONST)
        return pattern->u.bits == s->u.bits;
    bool same = true;
    for (uint32_t i = 0; i < s->narg && same; i++)
        same = matches(pattern->arg[i], s->arg[i], x);
    if (same || (s->op != S_ADD && s->op != S_MUL))
        return same;
    *x = met;
    return matches(pattern->arg[0], s->arg[1], x) && matches(pattern->arg[1], s->arg[0], x);
}

const Scalar *
scalar_identity(Ctx *c, const Scalar *s)
{
    static const char *const name[] = { "x" };

    if (s->lanes != 1 || !dtype_is_float(s->dtype))
        return s;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (s->op != table[i].root)
            continue;
        const Scalar *x = NULL, *stand_in = scalar_load(c, s->dtype, UINT32_MAX, 0, NULL, NULL);
        const Scalar *pattern = scalar_parse(c, table[i].from, 1, name, &stand_in);
        if (matches(pattern, s, &x))
            return scalar_parse(c, table[i].to, 1, name, &x);
    }
    return s;
}
