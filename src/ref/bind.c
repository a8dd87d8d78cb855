/* bind: solves for the dimension symbols of a graph, given the sizes of its inputs.
 *
 * A dimension that is one symbol gives its value; a dimension that is linear in one unknown symbol
 * is solved for it. Rounds repeat while they find a value; then every dimension and every
 * constraint of the graph must hold.
 */
#include "ref/internal.h"

/* Solves dim == size for its only unknown symbol. True if it found a value. */
static bool
solve(Ctx *c, Symbols *s, const Expr *dim, int64_t size)
{
    const Expr *coef, *rest;
    int64_t slope, offset, value;
    uint32_t n = 0;
    Var unknown = { 0 };

    FOR_EACH_VARIABLE (v, dim)
        if (!symbol_value(s, v, &value)) {
            unknown = v;
            n++;
        }
    if (n != 1 || unknown.kind != VAR_SYMBOL || !expr_linear(c, dim, unknown, &coef, &rest))
        return false;
    if (!expr_eval(coef, symbol_value, s, &slope) || !expr_eval(rest, symbol_value, s, &offset))
        return false;
    if (slope == 0 || (size - offset) % slope != 0)
        return false;
    symbols_set(c->arena, s, var_symbol(unknown), (size - offset) / slope);
    return true;
}

static bool
check_dim(Ctx *c, const Symbols *s, const char *name, uint32_t d, const Expr *dim, int64_t size)
{
    int64_t want;
    if (!expr_eval(dim, symbol_value, (void *)s, &want))
        return diag_error(&c->diags, DIAG_USAGE, (Loc){ 0 },
                          "input %s has %lld elements on axis %u, which cannot be %s", name,
                          (long long)size, d, expr_str(c, dim));
    if (want != size)
        return diag_error(&c->diags, DIAG_USAGE, (Loc){ 0 },
                          "input %s has %lld elements on axis %u, expected %s = %lld", name,
                          (long long)size, d, expr_str(c, dim), (long long)want);
    return true;
}

bool
check_constraint(Ctx *c, const Symbols *s, const Constraint *k)
{
    int64_t a, b;
    if (!expr_eval(k->a, symbol_value, (void *)s, &a) ||
        !expr_eval(k->b, symbol_value, (void *)s, &b) || a == b)
        return true;
    if (k->rule != SIZES_EQUAL && (a == 1 || (k->rule == SIZES_BROADCAST && b == 1)))
        return true;
    if (constraint_of_data(k)) {
        int64_t at = 0;
        Text t = { .arena = c->arena };
        if (k->at && !expr_eval(k->at, symbol_value, (void *)s, &at))
            return true;
        text_numbers(&t, k->why, at, a, b);
        return diag_error(&c->diags, DIAG_USAGE, (Loc){ 0 }, "%s", text_str(&t));
    }
    if (k->said || k->rule != SIZES_EQUAL)
        return diag_error(&c->diags, DIAG_USAGE, (Loc){ 0 }, "%s: %s; here they are %lld and %lld",
                          k->why, constraint_text(c, k), (long long)a, (long long)b);
    return diag_error(&c->diags, DIAG_USAGE, (Loc){ 0 },
                      "%s: %s is %lld and %s is %lld, but they must be equal", k->why,
                      expr_str(c, k->a), (long long)a, expr_str(c, k->b), (long long)b);
}

bool
ref_bind(Ctx *c, uint32_t n, const Sym *name, const Type *const *type, const Tensor *input,
         Symbols *s)
{
    for (uint32_t i = 0; i < n; i++)
        if (input[i].dtype != type[i]->dtype || input[i].rank != type[i]->rank)
            return diag_error(&c->diags, DIAG_USAGE, (Loc){ 0 },
                              "input %s is %s of rank %u, expected %s", name[i],
                              dtype_info[input[i].dtype].name, input[i].rank, type_str(c, type[i]));
    for (bool learnt = true; learnt;) {
        learnt = false;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t d = 0; d < input[i].rank; d++)
                learnt |= solve(c, s, type[i]->dim[d], input[i].dim[d]);
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t d = 0; d < input[i].rank; d++)
            if (!check_dim(c, s, name[i], d, type[i]->dim[d], input[i].dim[d]))
                return false;
    return true;
}

bool
check_constraints(const Graph *g, const Symbols *s)
{
    for (uint32_t i = 0; i < g->constraints.n; i++)
        if (!check_constraint(g->ctx, s, &g->constraints.at[i]))
            return false;
    return true;
}

bool
ref_bind_inputs(const Graph *g, const Tensor *input, Symbols *s)
{
    Ctx *c = g->ctx;
    Arena *scratch = arena_child(c->arena);
    Sym *name = NEW_ARRAY(scratch, Sym, g->input.n);
    const Type **type = NEW_ARRAY(scratch, const Type *, g->input.n);
    for (uint32_t i = 0; i < g->input.n; i++) {
        name[i] = g->value.at[g->input.at[i]].name;
        type[i] = g->value.at[g->input.at[i]].type;
    }
    bool ok = ref_bind(c, g->input.n, name, type, input, s);
    arena_free(scratch);
    return ok && check_constraints(g, s);
}
