/* little: operators on small integer tensors, of which import computes what is not a tensor of the
 * model: sizes, positions, masks. Each gives 0 where one of its inputs is 0, which has been
 * reported. */
#include "import/little.h"

const Type *
little_type(const Call *k, ValueId v)
{
    return k->m->g->value.at[v].type;
}

ValueId
little_1(Call *k, OpKind op, ValueId a)
{
    return call_op(k, op, 0, NULL, 1, &a, op_info[op].name);
}

ValueId
little_2(Call *k, OpKind op, ValueId a, ValueId b)
{
    return call_op(k, op, 0, NULL, 2, (ValueId[]){ a, b }, op_info[op].name);
}

ValueId
little_3(Call *k, OpKind op, ValueId a, ValueId b, ValueId c)
{
    return call_op(k, op, 0, NULL, 3, (ValueId[]){ a, b, c }, op_info[op].name);
}

ValueId
little_axis(Call *k, OpKind op, int64_t axis, uint32_t n, const ValueId *in)
{
    Attr a = { .name = sym(k->m->c, "axis"), .kind = ATTR_INT, .i = axis };
    return call_op(k, op, 1, &a, n, in, op_info[op].name);
}

/* An i64[n] constant. */
ValueId
little_list(Call *k, uint32_t n, const int64_t *v)
{
    const Expr *dim = expr_int(k->m->c, n);
    int64_t *copy = NEW_ARRAY(k->m->arena, int64_t, n + 1);

    for (uint32_t i = 0; i < n; i++)
        copy[i] = v[i];
    return graph_const(k->m->g, "list", type_new(k->m->c, DT_I64, 1, &dim), copy);
}

ValueId
little_number(Call *k, int64_t v)
{
    return graph_const(k->m->g, "number", type_new(k->m->c, DT_I64, 0, NULL),
                       arena_copy(k->m->arena, &v, sizeof v));
}

/* An i64[1] constant. */
ValueId
little_single(Call *k, int64_t v)
{
    return little_list(k, 1, &v);
}

/* 0, 1, …, n - 1. */
ValueId
little_iota(Call *k, uint32_t n)
{
    int64_t v[TN_MAX_RANK * 2] = { 0 };
    for (uint32_t i = 0; i < n; i++)
        v[i] = i;
    return little_list(k, n, v);
}

ValueId
little_cast(Call *k, ValueId v, DType t)
{
    Attr to = { .name = sym(k->m->c, "to"),
                .kind = ATTR_STRING,
                .s = sym(k->m->c, dtype_info[t].name) };
    if (!v || little_type(k, v)->dtype == t)
        return v;
    return call_op(k, OP_cast, 1, &to, 1, &v, "cast");
}

/* 0, 1, … below n, i64[1] or a number. */
ValueId
little_count(Call *k, ValueId n)
{
    ValueId end = n ? little_1(k, OP_squeeze, n) : 0;

    return end ? little_3(k, OP_range, little_number(k, 0), end, little_number(k, 1)) : 0;
}

ValueId
little_unsqueeze(Call *k, ValueId x, int64_t axis)
{
    return x ? little_2(k, OP_unsqueeze, x, little_single(k, axis)) : 0;
}

/* The n axes of x in another order. */
ValueId
little_transpose(Call *k, ValueId x, uint32_t n, const int64_t *order)
{
    Attr perm = { .name = sym(k->m->c, "perm"), .kind = ATTR_INTS, .n = n };

    perm.ints = arena_copy(k->m->arena, order, n * sizeof *order);
    return x ? call_op(k, OP_transpose, 1, &perm, 1, &x, "transposed") : 0;
}

/* As strings, which numbers of f32, f64, i64 and u64 have; or strings as numbers, first as f64 or
 * i64. */
ValueId
little_text(Call *k, ValueId v, DType t)
{
    DType from = v ? little_type(k, v)->dtype : DT_NONE, by = t == DT_STR ? from : t;

    if (!v)
        return 0;
    by = dtype_is_float(by)            ? (t != DT_STR || by == DT_F64 ? DT_F64 : DT_F32)
         : t == DT_STR && by == DT_U64 ? DT_U64
                                       : DT_I64;
    Attr to = { .name = sym(k->m->c, "to"),
                .kind = ATTR_STRING,
                .s = sym(k->m->c, dtype_info[by].name) };
    v = little_cast(k, v, t == DT_STR ? by : from);
    v = v ? call_op(k, t == DT_STR ? OP_number_string : OP_string_number, t == DT_STR ? 0 : 1, &to,
                    1, &v, "text")
          : 0;
    return t == DT_STR ? v : little_cast(k, v, t);
}

/* Integers of rank 0 or 1 as i64[n]. */
ValueId
little_ints(Call *k, ValueId v)
{
    const int64_t one = -1;
    if (v && little_type(k, v)->rank == 0)
        v = little_2(k, OP_reshape, v, little_list(k, 1, &one));
    return little_cast(k, v, DT_I64);
}

ValueId
little_shape(Call *k, ValueId v)
{
    return little_1(k, OP_shape, v);
}

/* axes[n] of a tensor of rank r, negative ones counted from the back; others stop the run. */
ValueId
little_wrap(Call *k, ValueId axes, uint32_t r)
{
    return little_2(k, OP_gather, little_iota(k, r), axes);
}

/* v's contents as symbols, named after the node's result; most: of each, or NULL. */
ValueId
little_match(Call *k, ValueId v, const Expr *const *most)
{
    const char *name =
        k->proto->n_output && *text_of(k->proto->output[0]) ? k->proto->output[0] : "size";
    return v ? graph_match(k->m->g, v, name, most, k->loc, k->origin) : 0;
}

/* Element d of a list, as i64[1]. */
ValueId
little_element(Call *k, ValueId v, uint32_t d)
{
    const int64_t at = d;
    return little_2(k, OP_gather, v, little_list(k, 1, &at));
}

bool
little_demand(Call *k, ValueId ok, const char *why)
{
    const int64_t one = -1;
    Ctx *c = k->m->c;
    const Expr *yes = expr_int(c, 1), *known;

    ok = little_cast(k, little_2(k, OP_reshape, ok, little_list(k, 1, &one)), DT_I64);
    if (ok && !k->m->g->value.at[ok].known.at)
        ok = little_match(k, ok, &yes);
    if (!ok)
        return false;
    known = k->m->g->value.at[ok].known.at[0];
    if (expr_eq(c, NULL, known, yes) == NO)
        return diag_error(&c->diags, DIAG_MODEL, k->loc, "%s", why);
    if (expr_eq(c, NULL, known, yes) == YES)
        return true;
    const Constraint needed = { known, yes, arena_printf(c->arena, "%s: %s", k->origin, why), "" };
    /* not assumed, or the symbol's own range would be what fails */
    VEC_PUSH(c->arena, &k->m->g->constraints, needed);
    return true;
}
