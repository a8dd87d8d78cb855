/* bind: the values of the symbols in declared types. */
#include "type/type.h"

static bool
is_known(const BoundSizes *bind, const Expr *size)
{
    FOR_EACH_VARIABLE (v, size) {
        bool found = v.kind != VAR_SYMBOL;
        for (uint32_t i = 0; i < bind->n; i++)
            found |= bind->at[i].var.id == v.id;
        if (!found)
            return false;
    }
    return true;
}

bool
type_bind(Ctx *c, const Type *const *declared, uint32_t ndeclared, const Type *const *given,
          uint32_t n, BoundSizes *out)
{
    bool all = true;
    Var v;

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t d = 0; d < declared[i]->rank; d++)
            if (expr_is_var(declared[i]->dim[d], &v) && !is_known(out, declared[i]->dim[d]))
                VEC_PUSH(c->arena, out, ((Binding){ v, given[i]->dim[d] }));
    for (uint32_t i = 0; i < ndeclared; i++)
        for (uint32_t d = 0; d < declared[i]->rank; d++)
            all = all && is_known(out, declared[i]->dim[d]);
    return all;
}
