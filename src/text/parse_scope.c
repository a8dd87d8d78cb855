/* parse_scope: the names that a text may use, and the types that declare some of them.
 *
 * Symbols, axes, loops, tensors and lets share one name space. A name that leaves its scope stays
 * in the map with entry 0, so leaving a scope costs only what it declared.
 *
 * All nesting passes through scope_enter, so hostile text reaches the depth limit before the stack
 * overflows.
 */
#include "text/parser.h"

#include <ctype.h>

/* ---- names ----------------------------------------------------------------------------------- */

bool
scope_enter(Scope *s)
{
    uint32_t most = depth_levels(s->p->ctx);
    return ++s->depth <= most || parse_too_deep(s->p, "expressions and blocks are nested", most);
}

const NameEntry *
scope_find(const Scope *s, Sym name)
{
    uint64_t at;
    return map_get(&s->find, MAP_PTR(name), &at) && at ? &s->entry.at[at] : NULL;
}

bool
scope_declare(Scope *s, NameEntry e)
{
    static const char *const what[] = { "a symbol", "an axis", "a loop", "a tensor", "a value" };
    const NameEntry *old = scope_find(s, e.name);
    if (old)
        return parse_error(s->p, "%s is already the name of %s", e.name, what[old->kind]);
    if (s->entry.n == 0)
        VEC_PUSH(s->scratch, &s->entry, (NameEntry){ 0 });
    map_put(&s->find, MAP_PTR(e.name), s->entry.n);
    VEC_PUSH(s->scratch, &s->entry, e);
    return true;
}

void
scope_leave(Scope *s, uint32_t mark, bool axes_too)
{
    uint32_t n = mark ? mark : 1;
    for (uint32_t i = n; i < s->entry.n; i++) {
        NameEntry e = s->entry.at[i];
        bool keep = e.kind == NAME_AXIS && !axes_too;
        map_put(&s->find, MAP_PTR(e.name), keep ? n : 0);
        if (keep)
            s->entry.at[n++] = e;
    }
    if (s->entry.n > n)
        s->entry.n = n;
}

/* ---- words ----------------------------------------------------------------------------------- */

bool
parse_followed_by(Parse *p, size_t n, char ch)
{
    const char *s = p->s + n;
    while (s < p->end && isspace((unsigned char)*s))
        s++;
    return s < p->end && *s == ch;
}

/* ---- types ----------------------------------------------------------------------------------- */

DType
parse_dtype(Parse *p)
{
    size_t n = parse_word(p);
    DType t = n ? dtype_from_name(p->s, n) : DT_NONE;
    if (t == DT_NONE)
        parse_error(p, "expected an element type (f32, i64, bool, …), found `%.*s`", (int)n, p->s);
    else
        p->s += n;
    return t;
}

static const Type *
parse_dims(Scope *s, DType t)
{
    const Expr *dim[FORMAT_MAX_PARTS];
    uint32_t rank = 0;
    Parse *p = s->p;
    if (t == DT_NONE || !parse_expect(p, "["))
        return NULL;
    while (!parse_peek(p, "]")) {
        if (rank == FORMAT_MAX_PARTS) {
            parse_error(p, "a type of more than %d dimensions", FORMAT_MAX_PARTS);
            return NULL;
        }
        dim[rank] = parse_index(s);
        if (!dim[rank++])
            return NULL;
        if (!parse_accept(p, ","))
            break;
    }
    return parse_expect(p, "]") ? type_new(p->ctx, t, rank, dim) : NULL;
}

const Type *
parse_type(Parse *p)
{
    Arena *scratch = arena_child(p->ctx->arena);
    Scope s = { .p = p, .scratch = scratch, .find = { .arena = scratch }, .open = true };
    const Type *t = parse_dims(&s, parse_dtype(p));
    arena_free(scratch);
    return t;
}

void
scope_symbols(Scope *s, const Type *t)
{
    SymbolSet of = { .seen.arena = s->scratch };

    type_symbols(&of, t);
    for (uint32_t i = 0; i < of.n; i++) {
        const NameEntry *old = scope_find(s, of.at[i]);
        if (!old || old->kind != NAME_SYMBOL)
            scope_declare(s, (NameEntry){ .name = of.at[i], .kind = NAME_SYMBOL });
    }
}

/* f32x16: the element type, and the lanes of a register's element. */
static DType
parse_lanes_dtype(Parse *p, uint32_t *lanes)
{
    size_t n = parse_word(p), end = n;
    while (end > 0 && isdigit((unsigned char)p->s[end - 1]))
        end--;
    *lanes = 1;
    if (end == n || end < 2 || n - end > 3 || p->s[end - 1] != 'x' ||
        dtype_from_name(p->s, end - 1) == DT_NONE)
        return parse_dtype(p);
    DType t = dtype_from_name(p->s, end - 1);
    *lanes = 0;
    for (size_t i = end; i < n; i++)
        *lanes = *lanes * 10 + (uint32_t)(p->s[i] - '0');
    if (*lanes < 1 || *lanes > UINT8_MAX) {
        parse_error(p, "%u lanes: at most %d", *lanes, UINT8_MAX);
        return DT_NONE;
    }
    p->s += n;
    return t;
}

const Format *
parse_format(Parse *p, const Type *of)
{
    uint32_t rank = of ? of->rank : TN_MAX_RANK, most = of ? FORMAT_MAX_PARTS : TN_MAX_RANK;
    Arena *a = p->ctx->arena;
    VEC(FormatPart) part = { 0 };

    if (!parse_expect(p, "["))
        return NULL;
    while (!parse_peek(p, "]")) {
        int64_t dim, div = 1, mod = 0;
        if ((part.n && !parse_expect(p, ",")) || !parse_int(p, &dim) ||
            (parse_accept(p, "/") && !parse_int(p, &div)) ||
            (parse_accept(p, "%") && !parse_int(p, &mod)))
            return NULL;
        if (dim < 0 || dim >= rank || div < 1 || mod < 0 || part.n == most) {
            parse_error(p,
                        "a part of a format is dimension / divisor %% modulus, such as [0/16, 1, "
                        "0%%16]: a dimension below the rank %u, positive numbers, at most %u parts",
                        rank, most);
            return NULL;
        }
        VEC_PUSH(a, &part, ((FormatPart){ (uint8_t)dim, div, mod }));
    }
    const Format f = { part.n, part.at };
    if (of && !format_is_complete(&f, of)) {
        parse_error(p,
                    "this is no format of rank %u: each element needs a place of its own, as in "
                    "[0/16, 1, 0%%16]",
                    rank);
        return NULL;
    }
    return parse_expect(p, "]") ? arena_copy(a, &f, sizeof f) : NULL;
}

bool
parse_symbols(Scope *s)
{
    if (!parse_accept(s->p, "["))
        return true;
    do {
        Sym name = parse_name(s->p);
        if (!name || !scope_declare(s, (NameEntry){ .name = name, .kind = NAME_SYMBOL }))
            return false;
    } while (parse_accept(s->p, ","));
    return parse_expect(s->p, "]");
}

const Type *
parse_type_in(Scope *s, uint32_t *lanes)
{
    uint32_t errors = s->p->ctx->diags.list.n;
    bool open = s->open;
    s->open = true;
    const Type *t = parse_dims(s, lanes ? parse_lanes_dtype(s->p, lanes) : parse_dtype(s->p));
    s->open = open;
    if (!t)
        return NULL;
    scope_symbols(s, t);
    return s->p->ctx->diags.list.n == errors ? t : NULL;
}
