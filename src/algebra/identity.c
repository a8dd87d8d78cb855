/* identity: cheaper scalar expressions with the same value, by the table identities.def.
 *
 * The left side of a row is parsed as a pattern and compared node by node. Its placeholders for x
 * and c are reads of parameters that no nest has; the operand that one matches becomes x or c of
 * the right side. Sums and products match in either order.
 */
#include "algebra/internal.h"
#include "text/text.h"

#include <math.h>
#include <string.h>

#define NORMAL_POWERS 14 /* 2^-14 to 2^14 are normal numbers of all floats of 16 bits and more */

enum { X, C, NAMES };

/* ---- guards ---------------------------------------------------------------------------------- */

/* `constant` is the operand that matched c; NULL if the row has none. */
static bool
guard_any(DType t, const Scalar *constant)
{
    (void)t, (void)constant;
    return true;
}

static bool
guard_wide(DType t, const Scalar *constant)
{
    (void)constant;
    return !dtype_is_short(t);
}

/* A power of two: x / c and x * (1 / c) are then equal, rounded once. */
static bool
guard_reciprocal(DType t, const Scalar *constant)
{
    int power;

    return dtype_info[t].bytes > 1 &&
           fabs(frexp((Number){ .i = constant->u.bits }.f, &power)) == 0.5 &&
           power - 1 >= -NORMAL_POWERS && power - 1 <= NORMAL_POWERS;
}

/* ---- matching -------------------------------------------------------------------------------- */

typedef struct {
    ScalarOp root;
    const char *from, *to;
    bool (*guard)(DType t, const Scalar *constant);
} Identity;

static const Identity table[] = {
#define IDENTITY(root, from, to, guard) { S_##root, from, to, guard_##guard },
#include "algebra/identities.def"
#undef IDENTITY
};

/* met [NAMES]: the operands that the placeholders matched so far. */
static bool
matches(const Scalar *pattern, const Scalar *s, const Scalar **met)
{
    if (pattern->op == S_LOAD) {
        const Scalar **name = &met[UINT32_MAX - pattern->u.load.slot];
        if (name == &met[C] && s->op != S_CONST)
            return false;
        *name = *name ? *name : s;
        return *name == s;
    }
    if (pattern->op != s->op || pattern->dtype != s->dtype || pattern->narg != s->narg)
        return false;
    if (pattern->op == S_CONST)
        return pattern->u.bits == s->u.bits;
    const Scalar *before[NAMES] = { met[X], met[C] };
    bool same = true;
    for (uint32_t i = 0; i < s->narg && same; i++)
        same = matches(pattern->arg[i], s->arg[i], met);
    if (same || (s->op != S_ADD && s->op != S_MUL))
        return same;
    memcpy(met, before, sizeof before);
    return matches(pattern->arg[0], s->arg[1], met) && matches(pattern->arg[1], s->arg[0], met);
}

const Scalar *
scalar_identity(Ctx *c, const Scalar *s)
{
    static const char *const name[NAMES] = { "x", "c" };

    if (s->lanes != 1 || !dtype_is_float(s->dtype))
        return s;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (s->op != table[i].root)
            continue;
        const Scalar *met[NAMES] = { 0 }, *stand_in[NAMES];
        for (uint32_t k = 0; k < NAMES; k++)
            stand_in[k] = scalar_load(c, s->dtype, UINT32_MAX - k, 0, NULL, NULL);
        if (matches(scalar_parse(c, table[i].from, NAMES, name, stand_in), s, met) &&
            table[i].guard(s->dtype, met[C]))
            return scalar_parse(c, table[i].to, met[C] ? NAMES : 1, name, met);
    }
    return s;
}
