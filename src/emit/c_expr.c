/* c_expr: Exprs as C over int64_t: indices, bounds, addresses in buffers; and proofs about them.
 *
 * Variables are replaced: unrolled ones by their number, lets that only rename by their value. A
 * variable computed from data becomes the C variable of its Scalar first.
 */
#include "emit/internal.h"

#include <string.h>

static const Expr *
subst_hook(ScalarMap *m, const Expr *x)
{
    Emit *e = m->user;
    return expr_subst(e->c, x, e->env.at, e->env.n);
}

const Expr *
emit_subst_expr(Emit *e, const Expr *x)
{
    if (!x || e->env.n == 0)
        return x;
    if (!expr_uses_kind(x, VAR_COMPUTED))
        return expr_subst(e->c, x, e->env.at, e->env.n);
    ScalarMap m = { .expr = subst_hook, .user = e, .ctx = e->c, .done = { .arena = e->a } };
    return scalar_map_expr(&m, x);
}

const Scalar *
emit_subst(Emit *e, const Scalar *s)
{
    return e->env.n == 0 ? s : scalar_subst(e->c, s, e->env.at, e->env.n);
}

/* The position of a symbol among those this kernel uses. */
static uint32_t
symbol_number(Emit *e, Sym name)
{
    for (uint32_t i = 0; i < e->used.n; i++)
        if (e->used.at[i] == name)
            return i;
    VEC_PUSH(e->a, &e->used, name);
    return e->used.n - 1;
}

static void
print_var(void *user, Text *t, Var v)
{
    Emit *e = user;
    switch (v.kind) {
    case VAR_SYMBOL: text_printf(t, "n%u", symbol_number(e, var_symbol(v))); break;
    case VAR_LOOP: text_printf(t, "i%u", (unsigned)v.id); break;
    case VAR_COMPUTED: {
        CValue *known = emit_named(e, computed_scalar(v));
        text_add(t, known && known->s ? known->s : "0");
        break;
    }
    case VAR_AXIS: emit_fail(e, "axis %u of a nest is in a loop tree", (unsigned)v.id); break;
    }
}

static void
compute_var(Emit *e, Var v)
{
    if (v.kind != VAR_COMPUTED)
        return;
    const Scalar *s = computed_scalar(v);
    if (emit_named(e, s))
        return;
    CValue value = emit_value(e, s);
    if (!value.s || emit_named(e, s))
        return;
    if (s->dtype != DT_I64 || !is_word(value.s))
        emit_name(e, s, value);
    else
        VEC_PUSH(e->a, &e->named, ((NamedNode){ s, value }));
}

/* In terms of loops and symbols alone, for which ranges are known. */
static const Expr *
without_lets(Emit *e, const Expr *x)
{
    for (uint32_t i = e->lets.n; i-- > 0;)
        x = expr_subst(e->c, x, &e->lets.at[i], 1);
    return x;
}

static bool
is_natural(void *user, const Expr *x)
{
    Emit *e = user;
    return expr_le(e->c, &(Ranges){ e->ranges.at, e->ranges.n }, expr_int(e->c, 0),
                   without_lets(e, x)) == YES;
}

/* Values of sizes alone are computed once, before all loops: C compilers leave a division in place,
 * as it might not be reached, and the row pitch of a scratch buffer may be one. */
static bool
name_of_sizes(void *user, Text *t, const Atom *a)
{
    Emit *e = user;
    uint32_t i = 0;

    for (uint32_t k = 0; k < a->narg; k++)
        FOR_EACH_VARIABLE (v, a->arg[k])
            if (v.kind != VAR_SYMBOL)
                return false;
    while (i < e->from_sizes.n && e->from_sizes.at[i] != a)
        i++;
    if (i == e->from_sizes.n)
        VEC_PUSH(e->a, &e->from_sizes, a);
    text_printf(t, "z%u", i);
    return true;
}

static const char *atom_text(Emit *e, const Atom *a);

/* A quotient by a variable takes as long as dozens of products, and C compilers leave it in place,
 * as it might not be reached: the row of a pixel in an image of open width would be recomputed for
 * every summand. It is named in front of the outermost loop in which it is invariant. */
static bool
name_of_quotient(Emit *e, Text *t, const Atom *a)
{
    uint32_t i = 0, level = 0;

    if ((a->kind != ATOM_DIV && a->kind != ATOM_MOD) || expr_const(a->arg[1], NULL))
        return false;
    for (uint32_t n = 0; n < a->narg; n++)
        FOR_EACH_VARIABLE (v, a->arg[n]) {
            if (v.kind == VAR_COMPUTED)
                return false;
            if (v.kind == VAR_LOOP && e->level[v.id] > level)
                level = e->level[v.id];
        }
    if (level >= e->loops.n)
        return false;
    OpenLoop *in = &e->loops.at[level];
    while (i < in->atom.n && in->atom.at[i] != a)
        i++;
    if (i == in->atom.n) {
        const char *text = atom_text(e, a);
        uint32_t number = e->nquotient++;
        in = &e->loops.at[level];
        text_printf(&in->before, "%*sconst %s y%u = %s;\n", 4 * in->depth, "", emit_index_type(e),
                    number, text);
        i = in->atom.n;
        VEC_PUSH(e->a, &in->atom, a);
        VEC_PUSH(e->a, &in->number, number);
    }
    text_printf(t, "y%u", in->number.at[i]);
    return true;
}

static bool
name_of_atom(void *user, Text *t, const Atom *a)
{
    return name_of_sizes(user, t, a) || name_of_quotient(user, t, a);
}

/* The atom itself, not its name. */
static const char *
atom_text(Emit *e, const Atom *a)
{
    Text t = { .arena = e->a };

    text_add(&t, a->kind == ATOM_DIV ? "tn_div(" : "tn_mod(");
    for (uint32_t i = 0; i < a->narg; i++) {
        text_add(&t, i ? ", " : "");
        expr_print(&t, a->arg[i], &(ExprStyle){ print_var, e, true, is_natural, name_of_atom });
    }
    text_add(&t, ")");
    return text_str(&t);
}

const char *
emit_of_sizes(Emit *e, const Atom *a)
{
    const Factor factor = { a, 1 };
    const Term term = { 1, 1, &factor };
    Text t = { .arena = e->a };

    expr_print(&t, &(Expr){ .nterm = 1, .term = &term },
               &(ExprStyle){ print_var, e, true, is_natural, NULL });
    return text_str(&t);
}

const char *
emit_index(Emit *e, const Expr *x)
{
    x = emit_subst_expr(e, x);
    if (x->bad) {
        if (!e->failed)
            diag_error(
                &e->c->diags, DIAG_LIMIT, (Loc){ .node = e->k->origin },
                "an index overflows 64 bits: a step, a stride or a size of the model is too large");
        e->failed = true;
        return "0";
    }
    if (expr_uses_kind(x, VAR_COMPUTED))
        FOR_EACH_VARIABLE (v, x)
            compute_var(e, v);
    Text t = { .arena = e->a };
    expr_print(&t, x, &(ExprStyle){ print_var, e, true, is_natural, name_of_atom });
    return text_str(&t);
}

const char *
emit_place(Emit *e, uint32_t buffer, uint32_t rank, const Expr *const *at)
{
    const Buffer *b = &e->k->buffer.at[buffer];
    const Expr **index = NEW_ARRAY(e->a, const Expr *, rank + 1);
    for (uint32_t d = 0; d < rank; d++)
        index[d] = emit_subst_expr(e, at[d]);
    /* the digits of a number may be the number again */
    return emit_index(e, expr_simplify(e->c, NULL, buffer_offset(e->c, b, index)));
}

const char *
emit_register(Emit *e, uint32_t buffer, uint32_t rank, const Expr *const *at)
{
    Text t = { .arena = e->a };
    text_printf(&t, "r%u", buffer);
    for (uint32_t d = 0; d < rank; d++) {
        int64_t i;
        if (!expr_const(emit_subst_expr(e, at[d]), &i) || i < 0) {
            if (e->as_loop)
                return emit_rerolled_sum(e, buffer, rank, at);
            emit_fail(e, "register buffer %u is indexed by %s, not by a constant", buffer,
                      expr_str(e->c, at[d]));
            return "0";
        }
        text_printf(&t, "_%lld", (long long)i);
    }
    return text_str(&t);
}

/* ---- proofs: does a load stay inside its buffer? --------------------------------------------- */

/* Are at, at + 1, …, at + width - 1 all in 0..extent-1? */
bool
emit_inside(Emit *e, const Expr *at, const Expr *extent, const Expr *width)
{
    Ranges r = { e->ranges.at, e->ranges.n };
    at = without_lets(e, at);
    const Expr *end = expr_add(e->c, at, without_lets(e, width));
    return expr_le(e->c, &r, expr_int(e->c, 0), at) == YES && expr_le(e->c, &r, end, extent) == YES;
}

/* Is it floor(a / k), k a positive number? */
static bool
is_quotient(const Expr *e, const Expr **a, int64_t *k)
{
    if (e->nterm != 1 || e->term[0].coef != 1 || e->term[0].nfactor != 1 ||
        e->term[0].factor[0].power != 1)
        return false;
    const Atom *atom = e->term[0].factor[0].atom;
    if (atom->kind != ATOM_DIV || !expr_const(atom->arg[1], k) || *k <= 0)
        return false;
    *a = atom->arg[0];
    return true;
}

const char *
emit_test_inside(Emit *e, const Expr *at, const Expr *extent)
{
    const Expr *inner, *all;
    int64_t k;

    /* floor(a / k) < n where a < k*n */
    while (is_quotient(at, &inner, &k) && !(all = expr_scale(e->c, extent, k))->bad)
        at = inner, extent = all;
    return arena_printf(e->a, "tn_inside(%s, %s)", emit_index(e, at), emit_index(e, extent));
}

bool
emit_load_inside(Emit *e, const Scalar *s)
{
    const Buffer *b = &e->k->buffer.at[s->u.load.slot];
    const Type *type = buffer_type(e->c, b);
    bool dense = s->lanes == 1 || expr_is(s->u.load.lane_stride, 1);
    for (uint32_t d = 0; d < s->u.load.rank; d++) {
        const Expr *width = expr_int(e->c, d + 1 == s->u.load.rank ? s->lanes : 1);
        if (d + 1 == s->u.load.rank && s->u.load.valid)
            width = s->u.load.valid;
        if (expr_uses_kind(s->u.load.at[d], VAR_COMPUTED) ||
            !emit_inside(e, s->u.load.at[d], type->dim[d], width))
            return false;
    }
    return dense;
}

/* Is it right whatever it is? */
bool
emit_is_trusted(Emit *e, const Scalar *at)
{
    Var v;
    return expr_is_var(at->u.index, &v) && v.kind == VAR_SYMBOL &&
           expr_symbol_info(e->c, v)->trusted;
}

/* Has the index of a check no other bound than its size? */
static bool
may_have_none(Emit *e, const Scalar *s)
{
    return s->op == S_AT && !emit_is_trusted(e, s) &&
           !emit_inside(e, expr_int(e->c, 0), s->u.index, expr_int(e->c, 1));
}

/* A checked index that fails becomes 0, and the run continues to its end: harmless, unless the
 * tensor has no element 0. The condition under which it has one, or NULL: always. */
const char *
emit_exists(Emit *e, uint32_t rank, const Expr *const *at)
{
    VEC(const char *) test = { 0 };
    Text t = { .arena = e->a };

    for (uint32_t d = 0; d < rank; d++)
        FOR_EACH_SCALAR (s, expr_nodes(e->c, without_lets(e, emit_subst_expr(e, at[d])))) {
            if (!may_have_none(e, s))
                continue;
            const char *size = emit_without_parens(e, emit_index(e, s->u.index));
            uint32_t i = 0;
            while (i < test.n && strcmp(test.at[i], size))
                i++;
            if (i < test.n)
                continue;
            VEC_PUSH(e->a, &test, size);
            text_printf(&t, "%s%s > 0", i ? " && " : "", size);
        }
    return test.n ? text_str(&t) : NULL;
}

static bool unsafe_expr(Emit *e, Map *seen, const Expr *x);

/* Does s do something that must not happen where it is not needed? */
static bool
unsafe(Emit *e, Map *seen, const Scalar *s)
{
    uint64_t known;
    if (emit_named(e, s))
        return false;
    if (map_get(seen, MAP_PTR(s), &known))
        return known;
    bool is = s->op == S_AT && !emit_is_trusted(e, s);
    if (s->op == S_INDEX)
        is = unsafe_expr(e, seen, s->u.index);
    if (s->op == S_LOAD && e->k->buffer.at[s->u.load.slot].space != SPACE_REGISTER) {
        is = !s->u.load.outside && !emit_load_inside(e, s);
        for (uint32_t d = 0; d < s->u.load.rank && !is; d++)
            is = unsafe_expr(e, seen, s->u.load.at[d]);
        if (!is && s->u.load.outside)
            is = unsafe(e, seen, s->u.load.outside);
    }
    for (uint32_t i = 0; i < s->narg && !is; i++)
        is = unsafe(e, seen, s->arg[i]);
    map_put(seen, MAP_PTR(s), is);
    return is;
}

static bool
unsafe_expr(Emit *e, Map *seen, const Expr *x)
{
    if (!expr_uses_kind(x, VAR_COMPUTED))
        return false;
    FOR_EACH_VARIABLE (v, x)
        if (v.kind == VAR_COMPUTED && unsafe(e, seen, computed_scalar(v)))
            return true;
    return false;
}

bool
emit_is_unsafe(Emit *e, const Scalar *s)
{
    Map seen = { .arena = e->a };
    return unsafe(e, &seen, s);
}
