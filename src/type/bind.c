/* bind: the values of the symbols in declared types. */
#include "type/type.h"

Sym
unbound_symbol(const BoundSizes *bound, const Expr *e)
{
    FOR_EACH_VARIABLE (v, e) {
        bool found = v.kind != VAR_SYMBOL;
        for (uint32_t i = 0; i < bound->n && !found; i++)
            found = bound->at[i].var.id == v.id;
        if (!found)
            return var_symbol(v);
    }
    return NULL;
}

bool
type_bind(Ctx *c, const Type *const *declared, uint32_t ndeclared, const Type *const *given,
          uint32_t n, BoundSizes *out)
{
    bool all = true;
    Var v;

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t d = 0; d < declared[i]->rank; d++)
            if (expr_is_var(declared[i]->dim[d], &v) && unbound_symbol(out, declared[i]->dim[d]))
                VEC_PUSH(c->arena, out, ((Binding){ v, given[i]->dim[d] }));
    for (uint32_t i = 0; i < ndeclared; i++)
        for (uint32_t d = 0; d < declared[i]->rank; d++)
            all = all && !unbound_symbol(out, declared[i]->dim[d]);
    return all;
}
