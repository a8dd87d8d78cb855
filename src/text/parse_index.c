/* parse_index: indices, accesses x[i, 2*j] and extents of axes from text.
 *
 * An index is a sum in the grammar of scalars (parse_scalar.c); operands and results are Exprs:
 * x[2*y + r - 1, idx[i]]. A read, an `at` or a cast in an index is the computed variable of its
 * value; value(…) makes one of any scalar, and index(…) in a scalar is the converse.
 */
#include "text/parser.h"

#include <inttypes.h>

/* ---- indices --------------------------------------------------------------------------------- */

/* An operand of the scalars' grammar as one of an index. */
static bool
index_of(Scope *s, Operand *v)
{
    if (v->tuple)
        return parse_error(s->p,
                           "a tuple stands where an index is needed: take an item with .0 or .1");
    const Scalar *value = operand_settle(s, v, DT_I64);
    if (!value)
        return false;
    if (value->lanes != 1)
        return parse_error(s->p, "an index is one integer, this has %u lanes", value->lanes);
    if (dtype_is_float(value->dtype))
        return parse_error(s->p, "an index is an integer, this is %s",
                           dtype_info[value->dtype].name);
    *v = (Operand){ .e = expr_computed(s->p->ctx, value) };
    return true;
}

bool
parse_index_operand(Scope *s, Operand *v)
{
    Parse *p = s->p;
    size_t n = parse_word(p);
    bool called = n && parse_followed_by(p, n, '('), ok;

    if (n == 0 && parse_accept(p, "("))
        return parse_body(s, v) && parse_expect(p, ")");
    if (called && parse_accept(p, "min"))
        return parse_call(s, S_MIN, v);
    if (called && parse_accept(p, "max"))
        return parse_call(s, S_MAX, v);
    if (!scope_enter(s))
        return false;
    s->index = false;
    if (called && parse_accept(p, "value"))
        ok = parse_expect(p, "(") && parse_body(s, v) && parse_expect(p, ")");
    else
        ok = n && !called ? parse_named(s, v) : parse_postfix(s, v);
    s->index = true;
    s->depth--;
    return ok && index_of(s, v);
}

bool
index_apply(Scope *s, ScalarOp op, const Operand *a, Operand *v)
{
    Ctx *c = s->p->ctx;
    const Expr *x = a[0].e, *y = op == S_NEG ? NULL : a[1].e;

    *v = (Operand){ .e = op == S_ADD   ? expr_add(c, x, y)
                         : op == S_SUB ? expr_sub(c, x, y)
                         : op == S_MUL ? expr_mul(c, x, y)
                         : op == S_MIN ? expr_min(c, x, y)
                         : op == S_MAX ? expr_max(c, x, y)
                         : op == S_NEG ? expr_scale(c, x, -1)
                                       : NULL };
    return v->e || parse_error(&s->mark, "`%s` has no meaning for an index; a quotient is a // b",
                               scalar_op_info[op].text);
}

const Expr *
parse_index(Scope *s)
{
    uint32_t depth = s->depth;
    bool outer = s->index;
    Operand v;

    s->index = true;
    bool ok = parse_body(s, &v);
    s->index = outer;
    s->depth = depth;
    if (ok && v.e->bad)
        ok = parse_error(s->p, "an index overflows 64 bits or is too long");
    return ok ? v.e : NULL;
}

const Expr *
parse_expr(Parse *p)
{
    Arena *scratch = arena_child(p->ctx->arena);
    Scope s = { .p = p, .scratch = scratch, .find = { .arena = scratch }, .open = true };
    const Expr *e = parse_index(&s);
    arena_free(scratch);
    return e;
}

/* ---- symbols --------------------------------------------------------------------------------- */

static bool
parse_hints(Parse *p, Var symbol)
{
    Interval range = expr_symbol_get(p->ctx, symbol);
    VEC(int64_t) size = { 0 };
    int64_t v;

    do {
        if (!parse_int(p, &v))
            return false;
        if (v < range.lo || v > range.hi || (size.n && v <= size.at[size.n - 1]))
            return parse_error(p,
                               "symbol %s usually %" PRId64
                               ": such sizes are told in rising order, from %" PRId64
                               " to %" PRId64,
                               (const char *)(uintptr_t)symbol.id, v, range.lo, range.hi);
        VEC_PUSH(p->ctx->arena, &size, v);
    } while (parse_accept(p, ","));
    if (!expr_symbol_hints(p->ctx, symbol).n)
        expr_symbol_expect(p->ctx, symbol, (SizeHints){ size.n, size.at });
    return true;
}

bool
parse_symbol(Parse *p)
{
    Interval range = { 0, INT64_MAX };
    Sym name = parse_name(p);
    Var symbol;

    if (!name)
        return false;
    expr_is_var(expr_symbol(p->ctx, name), &symbol);
    if (parse_accept(p, "from") &&
        (!parse_int(p, &range.lo) || (parse_accept(p, "to") && !parse_int(p, &range.hi))))
        return false;
    if (!expr_symbol_range(p->ctx, symbol, range))
        return parse_error(p, "symbol %s has no value left", name);
    int64_t fixed = expr_symbol_info(p->ctx, symbol)->fixed;
    if (fixed >= 0 && (fixed < range.lo || fixed > range.hi))
        return parse_error(p, "--dim %s=%lld: the model has it from %lld to %lld", name,
                           (long long)fixed, (long long)range.lo, (long long)range.hi);
    if (parse_accept(p, "counts")) {
        int64_t size;
        if (!parse_int(p, &size) || size < 0)
            return parse_error(p, "symbol %s counts as a size, which is 0 or more", name);
        expr_symbol_info(p->ctx, symbol)->size = size;
    }
    if (parse_accept(p, "alike"))
        expr_symbol_info(p->ctx, symbol)->alike = true;
    return !parse_accept(p, "usually") || parse_hints(p, symbol);
}

bool
symbol_print(Ctx *c, Text *t, Var symbol)
{
    Interval range = expr_symbol_get(c, symbol),
             same = expr_bounds(c, NULL, expr_simplify(c, NULL, expr_var(c, symbol)));
    SizeHints hints = expr_symbol_hints(c, symbol);
    int64_t count = expr_symbol_info(c, symbol)->size;

    range.lo = same.lo > range.lo ? same.lo : range.lo; /* of what it is known to equal */
    range.hi = same.hi < range.hi ? same.hi : range.hi;
    bool narrowed = range.lo != 0 || range.hi != INT64_MAX;
    if (!narrowed && !hints.n && count < 0 && !expr_symbol_info(c, symbol)->alike)
        return false;
    text_add(t, "symbol ");
    text_name(t, (const char *)(uintptr_t)symbol.id);
    if (narrowed)
        text_printf(t, " from %" PRId64, range.lo);
    if (range.hi != INT64_MAX)
        text_printf(t, " to %" PRId64, range.hi);
    if (count >= 0)
        text_printf(t, " counts %" PRId64, count);
    text_add(t, expr_symbol_info(c, symbol)->alike ? " alike" : "");
    for (uint32_t i = 0; i < hints.n; i++)
        text_printf(t, "%s%" PRId64, i ? ", " : " usually ", hints.at[i]);
    return true;
}

/* ---- accesses -------------------------------------------------------------------------------- */

/* The first bare read determines the extent of an axis; a bare read of a later reduction over the
 * same axis must agree. */
static bool
infer_extent(Scope *s, const Expr *at, const Expr *dim)
{
    Var v;
    if (!s->axes || s->axes->quiet || !expr_is_var(at, &v) || v.kind != VAR_AXIS)
        return true;
    Axis *a = &s->axes->list.at[v.id];
    AxisSet bit = (AxisSet)1 << v.id;
    if (!a->extent)
        a->extent = dim;
    else if ((s->axes->again & bit) && expr_eq(s->p->ctx, NULL, a->extent, dim) == NO)
        return parse_error(s->p,
                           "axis %s has extent %s from an earlier reduction, this dimension is %s: "
                           "give it a new name",
                           a->name, expr_str(s->p->ctx, a->extent), expr_str(s->p->ctx, dim));
    s->axes->again &= ~bit;
    return true;
}

bool
parse_access(Scope *s, ParsedAccess *to)
{
    Parse before = *s->p;
    Sym name = parse_name(s->p);
    const NameEntry *e = name ? scope_find(s, name) : NULL;
    if (!name)
        return false;
    if (!e || e->kind != NAME_SLOT) {
        *s->p = before;
        return parse_error(s->p, e ? "%s is not a tensor" : "unknown name %s", name);
    }
    if (e->id >= s->slot_type.n) {
        *s->p = before;
        return parse_error(s->p, "%s stands in its own type", name);
    }
    to->slot = e->id;
    to->type = s->slot_type.at[e->id];
    to->lanes = s->slot_lanes.n ? s->slot_lanes.at[e->id] : 1;
    to->rank = 0;
    if (!parse_expect(s->p, "["))
        return false;
    while (!parse_peek(s->p, "]") && !parse_peek(s->p, "|") && !parse_peek(s->p, "by") &&
           !parse_peek(s->p, "if")) {
        if (to->rank == to->type->rank)
            return parse_error(s->p, "%s has rank %u, here is another index", name, to->type->rank);
        const Expr *at = parse_index(s);
        if (!at)
            return false;
        if (!infer_extent(s, at, to->type->dim[to->rank]))
            return false;
        to->at[to->rank++] = at;
        if (!parse_accept(s->p, ","))
            break;
    }
    if (to->rank < to->type->rank)
        return parse_error(s->p, "%s has rank %u, here are %u indices", name, to->type->rank,
                           to->rank);
    return true;
}

bool
parse_access_end(Scope *s, const Expr **stride, const Expr **valid)
{
    if (parse_accept(s->p, "by") && !(*stride = parse_index(s)))
        return false;
    if (parse_accept(s->p, "if") && (!parse_expect(s->p, "<") || !(*valid = parse_index(s))))
        return false;
    return parse_expect(s->p, "]");
}

/* ---- extents --------------------------------------------------------------------------------- */

bool
parse_axis_extent(Scope *s, Axis *axis, const Expr **limit)
{
    Parse *p = s->p;
    bool was = s->axes->quiet;
    const Expr *e = NULL;
    int64_t points;

    *limit = NULL;
    if (!parse_accept(p, "<"))
        return true;
    s->axes->quiet = true;
    bool ok = (e = parse_index(s)) && parse_expect(p, ">");
    s->axes->quiet = was;
    if (ok && (expr_axes(e) || expr_uses_kind(e, VAR_COMPUTED)))
        *limit = e;
    else
        axis->extent = e;
    if (ok && axis->extent && expr_const(e, &points) && points < 0)
        return parse_error(p, "axis %s has %lld points: an extent is 0 or more", axis->name,
                           (long long)points);
    if (ok && axis->extent && axis->kind == AXIS_REDUCE && expr_bounds(p->ctx, NULL, e).lo < 0)
        /* n - 5 is less than 0 for small n */
        axis->extent = expr_max(p->ctx, expr_int(p->ctx, 0), e);
    return ok;
}

const Scalar *
axes_within(Ctx *c, const AxisTable *t, AxisSet axes)
{
    const Scalar *all = NULL;

    for (uint32_t k = 0; k < t->list.n; k++) {
        if (!(axes >> k & 1) || !t->limit[k])
            continue;
        const Scalar *below =
            scalar_2(c, S_LT, scalar_index(c, expr_axis(c, k)), scalar_index(c, t->limit[k]));
        all = all ? scalar_2(c, S_AND, all, below) : below;
    }
    return all;
}
