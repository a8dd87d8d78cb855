/* tensor: sizes of types under the symbols of one run, and dense tensors of them. */
#include "ref/internal.h"

#include <string.h>

void
symbols_set(Arena *a, Symbols *s, Sym name, int64_t value)
{
    for (uint32_t i = 0; i < s->name.n; i++)
        if (s->name.at[i] == name) {
            s->value.at[i] = value;
            return;
        }
    VEC_PUSH(a, &s->name, name);
    VEC_PUSH(a, &s->value, value);
}

bool
symbols_get(const Symbols *s, Sym name, int64_t *value)
{
    for (uint32_t i = 0; s && i < s->name.n; i++)
        if (s->name.at[i] == name) {
            *value = s->value.at[i];
            return true;
        }
    return false;
}

bool
symbol_value(void *symbols, Var v, int64_t *out)
{
    return v.kind == VAR_SYMBOL && symbols_get(symbols, var_symbol(v), out);
}

typedef struct {
    const Symbols *symbols;
    Sym missing;
} Lookup;

static bool
look_up(void *user, Var v, int64_t *out)
{
    Lookup *l = user;
    if (v.kind != VAR_SYMBOL)
        return false;
    Sym name = (Sym)(uintptr_t)v.id;
    if (symbols_get(l->symbols, name, out))
        return true;
    l->missing = name;
    return false;
}

bool
symbols_eval(Ctx *c, const Symbols *s, Loc loc, const char *what, const Expr *e, int64_t *v)
{
    Lookup l = { s, NULL };
    if (expr_eval(e, look_up, &l, v))
        return true;
    if (l.missing)
        return diag_error(&c->diags, DIAG_INTERNAL, loc,
                          "%s: the dimension \"%s\" has no value in this run", what, l.missing);
    return diag_error(&c->diags, DIAG_LIMIT, loc, "%s: the size %s has no value that fits 64 bits",
                      what, expr_str(c, e));
}

int64_t
tensor_count(const Tensor *t)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < t->rank; d++)
        n *= t->dim[d];
    return n;
}

bool
tensor_size(Ctx *c, const Type *t, const Symbols *s, Tensor *out, int64_t *bytes)
{
    *bytes = dtype_info[t->dtype].bytes;
    *out = (Tensor){ .dtype = t->dtype, .rank = t->rank };
    for (uint32_t d = 0; d < t->rank; d++) {
        if (!symbols_eval(c, s, (Loc){ 0 }, type_str(c, t), t->dim[d], &out->dim[d]))
            return false;
        if (out->dim[d] < 0 || mul_overflows(*bytes, out->dim[d], bytes))
            return diag_error(&c->diags, DIAG_LIMIT, (Loc){ 0 },
                              "a tensor of type %s would have %lld elements on axis %u",
                              type_str(c, t), (long long)out->dim[d], d);
    }
    return true;
}

bool
tensor_of_type(Ctx *c, Arena *a, const Type *t, const Symbols *s, Tensor *out)
{
    int64_t bytes;
    if (!tensor_size(c, t, s, out, &bytes))
        return false;
    out->data = arena_alloc(a, (size_t)bytes);
    return true;
}

bool
tensor_over(Ctx *c, const Type *t, const Symbols *s, const void *data, Tensor *out)
{
    int64_t bytes;
    if (!tensor_size(c, t, s, out, &bytes))
        return false;
    out->data = (void *)data;
    return true;
}

bool
tensor_check(Ctx *c, const Symbols *s, Loc loc, const char *what, const char *name,
             const Type *type, const Tensor *t)
{
    if (!t)
        return diag_error(&c->diags, DIAG_INTERNAL, loc, "%s: %s is %s, but was given nothing",
                          what, name, type_str(c, type));
    if (t->dtype != type->dtype || t->rank != type->rank)
        return diag_error(&c->diags, DIAG_INTERNAL, loc,
                          "%s: %s is %s, but was given %s of rank %u", what, name,
                          type_str(c, type), dtype_info[t->dtype].name, t->rank);
    for (uint32_t d = 0; d < t->rank; d++) {
        int64_t want;
        if (!symbols_eval(c, s, loc, what, type->dim[d], &want))
            return false;
        if (want != t->dim[d])
            return diag_error(&c->diags, DIAG_INTERNAL, loc,
                              "%s: %s has %lld elements on axis %u, its type %s says %lld", what,
                              name, (long long)t->dim[d], d, type_str(c, type), (long long)want);
    }
    return true;
}

void
tensor_poison(Tensor *t)
{
    memset(t->data, 0xff, (size_t)tensor_count(t) * dtype_info[t->dtype].bytes);
}
