/* type: interned types and what follows from a shape. */
#include "type/type.h"

#include <string.h>

typedef struct TypeNode {
    Type t;
    struct TypeNode *next;
} TypeNode;
struct TypeTable {
    Map types;
};

const Type *
type_new(Ctx *c, DType dtype, uint32_t rank, const Expr *const *dim)
{
    uint64_t h = hash_bytes(&rank, sizeof rank, dtype), found = 0;

    if (!c->types) {
        c->types = NEW(c->arena, struct TypeTable);
        c->types->types.arena = c->arena;
    }
    for (uint32_t i = 0; i < rank; i++)
        h = hash_bytes(&dim[i]->hash, sizeof dim[i]->hash, h);
    map_get(&c->types->types, h, &found);
    for (TypeNode *n = (TypeNode *)(uintptr_t)found; n; n = n->next)
        if (n->t.dtype == dtype && n->t.rank == rank &&
            (!rank || memcmp(n->t.dim, dim, rank * sizeof *dim) == 0))
            return &n->t;

    TypeNode *n = NEW(c->arena, TypeNode);
    n->t =
        (Type){ dtype, (uint8_t)rank, rank ? arena_copy(c->arena, dim, rank * sizeof *dim) : NULL };
    n->next = (TypeNode *)(uintptr_t)found;
    map_put(&c->types->types, h, MAP_PTR(n));
    return &n->t;
}

const Type *
type_with_dtype(Ctx *c, const Type *t, DType dtype)
{
    return type_new(c, dtype, t->rank, t->dim);
}

const Type *
type_simplify(Ctx *c, const Type *t)
{
    const Expr *dim[TN_MAX_RANK];

    for (uint32_t i = 0; i < t->rank; i++)
        dim[i] = expr_simplify(c, NULL, t->dim[i]);
    return type_new(c, t->dtype, t->rank, dim);
}

const Type *
type_subst(Ctx *c, const Type *t, const Binding *b, uint32_t n)
{
    const Expr *dim[TN_MAX_RANK];

    for (uint32_t i = 0; i < t->rank; i++)
        dim[i] = expr_subst(c, t->dim[i], b, n);
    return type_new(c, t->dtype, t->rank, dim);
}

const Expr *
type_count(Ctx *c, const Type *t)
{
    const Expr *n = expr_int(c, 1);

    for (uint32_t i = 0; i < t->rank; i++)
        n = expr_mul(c, n, t->dim[i]);
    return n;
}

const Expr *
type_bytes(Ctx *c, const Type *t)
{
    return expr_scale(c, type_count(c, t), dtype_info[t->dtype].bytes);
}

bool
type_is_static(const Type *t)
{
    for (uint32_t i = 0; i < t->rank; i++)
        if (!expr_const(t->dim[i], NULL))
            return false;
    return true;
}

void
type_symbols(SymbolSet *s, const Type *t)
{
    for (uint32_t d = 0; t && d < t->rank; d++)
        expr_symbols(s, t->dim[d]);
}

bool
type_static_bytes(const Type *t, int64_t *bytes)
{
    int64_t n = dtype_info[t->dtype].bytes, dim;
    bool empty = false;

    /* A dimension of 0 makes 0 bytes even where the others would overflow. */
    for (uint32_t i = 0; i < t->rank; i++) {
        if (!expr_const(t->dim[i], &dim) || dim < 0)
            return false;
        empty |= dim == 0;
    }
    for (uint32_t i = 0; i < t->rank && !empty; i++)
        if (mul_overflows(n, expr_or(t->dim[i], 0), &n))
            return false;
    *bytes = empty ? 0 : n;
    return true;
}

bool
type_fits(Ctx *c, const Type *t)
{
    int64_t n = dtype_info[t->dtype].bytes;

    for (uint32_t i = 0; i < t->rank; i++)
        if (expr_is(t->dim[i], 0))
            return true;
    for (uint32_t i = 0; i < t->rank; i++) {
        int64_t least = expr_bounds(c, NULL, t->dim[i]).lo;
        if (least > 0 && (mul_overflows(n, least, &n) || n > (int64_t)1 << 47))
            return false;
    }
    return true;
}

Tri
type_eq(Ctx *c, const Type *a, const Type *b)
{
    Tri all = YES;

    if (a == b)
        return YES;
    if (a->dtype != b->dtype || a->rank != b->rank)
        return NO;
    for (uint32_t i = 0; i < a->rank; i++) {
        Tri same = expr_eq(c, NULL, a->dim[i], b->dim[i]);
        if (same == NO)
            return NO;
        if (same == UNKNOWN)
            all = UNKNOWN;
    }
    return all;
}

const Expr *
type_stride(Ctx *c, const Type *t, uint32_t d)
{
    const Expr *stride = expr_int(c, 1);

    for (uint32_t i = d + 1; i < t->rank; i++)
        stride = expr_mul(c, stride, t->dim[i]);
    return stride;
}

const Expr *
type_offset(Ctx *c, const Type *t, const Expr *const *at)
{
    const Expr *offset = expr_int(c, 0);

    for (uint32_t i = 0; i < t->rank; i++)
        offset = expr_add(c, expr_mul(c, offset, t->dim[i]), at[i]);
    return offset;
}

void
type_print(Text *t, const Type *type)
{
    text_printf(t, "%s[", dtype_info[type->dtype].name);
    for (uint32_t i = 0; i < type->rank; i++) {
        text_add(t, i ? ", " : "");
        expr_print(t, type->dim[i], NULL);
    }
    text_add(t, "]");
}

const char *
type_str(Ctx *c, const Type *t)
{
    Text text = { .arena = c->arena };

    type_print(&text, t);
    return text_str(&text);
}

const Type *
type_permuted(Ctx *c, const Type *t, const uint8_t *order)
{
    const Expr *dim[TN_MAX_RANK];

    for (uint32_t d = 0; d < t->rank; d++)
        dim[d] = t->dim[order[d]];
    return type_new(c, t->dtype, t->rank, dim);
}
