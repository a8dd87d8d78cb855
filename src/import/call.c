/* call: the node that is being converted: functions to read it, and to add operators of Tenon.
 * compose.c has texts of operators. */
#include "import/compose.h"
#include "op/kinds.h"

#include <string.h>

/* ---- inputs and outputs ---------------------------------------------------------------------- */

ValueId
call_in(Call *k, uint32_t i)
{
    return i < k->in.n ? k->in.at[i] : 0;
}

const Type *
value_type(const Call *k, ValueId v)
{
    return v ? k->m->g->value.at[v].type : NULL;
}

void
set_input(Call *k, uint32_t i, ValueId v)
{
    while (k->in.n <= i)
        VEC_PUSH(k->arena, &k->in, 0);
    k->in.at[i] = v;
}

const char *
output_name(const Call *k, const char *otherwise)
{
    return k->proto->n_output && *k->proto->output[0] ? k->proto->output[0] : otherwise;
}

const Type *
input_type(Call *k, uint32_t i)
{
    return i < k->in.n && k->in.at[i] ? k->m->g->value.at[k->in.at[i]].type : NULL;
}

bool
need_input(Call *k, uint32_t i)
{
    if (input_type(k, i))
        return true;
    return call_wrong(k, "%s takes %u inputs or more, the node has %u", k->proto->op_type, i + 1,
                      k->in.n);
}

bool
need_inputs(Call *k, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!need_input(k, i))
            return false;
    return true;
}

bool
finish(Call *k, ValueId v)
{
    call_bind(k, 0, v);
    k->done = true;
    return v != 0;
}

/* ---- constants ------------------------------------------------------------------------------- */

ValueId
call_list(Call *k, const char *name, DType t, uint32_t n, const void *data)
{
    const Expr *dim = expr_int(k->c, n);
    const size_t bytes = (size_t)n * dtype_info[t].bytes;
    char *copy = arena_alloc(k->arena, bytes + 1);

    if (bytes)
        memcpy(copy, data, bytes);
    return graph_const(k->m->g, name, type_new(k->c, t, 1, &dim), copy);
}

/* An i64[n] constant. */
ValueId
call_ints(Call *k, const char *name, uint32_t n, const int64_t *v)
{
    return call_list(k, name, DT_I64, n, v);
}

ValueId
call_floats(Call *k, const char *name, uint32_t n, const double *v)
{
    float *narrow = NEW_ARRAY(k->arena, float, n + 1);

    for (uint32_t i = 0; i < n; i++)
        narrow[i] = (float)v[i];
    return call_list(k, name, DT_F32, n, narrow);
}

/* ---- operators ------------------------------------------------------------------------------- */

OpNode
call_node(const Call *k, OpKind op, uint32_t nattr, const Attr *attr, uint32_t nin,
          const ValueId *in)
{
    Attr *attrs = nattr ? arena_copy(k->arena, attr, nattr * sizeof *attr) : NULL;
    return (OpNode){ op, { attrs, nattr }, k->loc, k->origin, nin, in };
}

ValueId
call_op(Call *k, OpKind op, uint32_t nattr, const Attr *attr, uint32_t nin, const ValueId *in,
        const char *name)
{
    ValueId out;

    for (uint32_t i = 0; i < nin; i++)
        if (!in[i])
            return 0;
    OpNode call = call_node(k, op, nattr, attr, nin, in);
    return graph_infer_op(k->m->g, &call, 1, &name, &out) ? out : 0;
}

ValueId
call_concat(Call *k, uint32_t n, const ValueId *v)
{
    const Attr axis = { .name = sym(k->c, "axis"), .kind = ATTR_INT };

    return call_op(k, OP_concat, 1, &axis, n, v, "concat");
}

ValueId
call_moved(Call *k, ValueId x, int64_t from, int64_t to)
{
    const char *perm = x ? moved_text(k, value_type(k, x)->rank, from, to) : "";

    return *perm ? value_of_text(k, "x", &x, "transpose(x) {perm = %s}", perm) : x;
}

/* ---- element types --------------------------------------------------------------------------- */

ValueId
call_cast(Call *k, ValueId v, DType t)
{
    return v && value_type(k, v)->dtype != t
               ? value_of_text(k, "v", &v, "%s(v)", dtype_info[t].name)
               : v;
}

/* Numbers as strings, through f32, f64, i64 or u64; strings as numbers, first as f64, i64 or
 * u64. */
ValueId
call_text_cast(Call *k, ValueId v, DType t)
{
    const DType from = v ? value_type(k, v)->dtype : DT_NONE;

    if (!v)
        return 0;
    if (t == DT_STR)
        return value_of_text(k, "v", &v, "number_string(%s(v))",
                             !dtype_is_float(from) ? from == DT_U64 ? "u64" : "i64"
                             : from == DT_F64      ? "f64"
                                                   : "f32");
    return value_of_text(k, "v", &v, "%s(string_number(v) {to = \"%s\"})", dtype_info[t].name,
                         dtype_is_float(t) ? "f64"
                         : t == DT_U64     ? "u64"
                                           : "i64");
}

ValueId
call_int_list(Call *k, ValueId v)
{
    if (v && value_type(k, v)->rank == 0)
        v = value_of_text(k, "v", &v, "reshape(v, [-1])");
    return call_cast(k, v, DT_I64);
}

ValueId
call_match(Call *k, ValueId v, const Expr *const *most)
{
    return v ? graph_match(k->m->g, v, output_name(k, "size"), most, k->loc, k->origin) : 0;
}
