/* select: operators that select elements with library routines: TopK, NonMaxSuppression, Unique. A
 * routine fills buffers of the largest possible size and returns the actual one, which becomes a
 * symbol; the result is cut to it. */
#include "import/compose.h"
#include "import/converters.h"

#include <inttypes.h>

/* Types that routines do not support are compared as wider ones. */
static DType
compared_as(DType t)
{
    if (dtype_info[t].bits == dtype_info[t].bytes * 8 &&
        (!dtype_is_float(t) || dtype_info[t].bytes > 1))
        return t;
    return dtype_is_float(t) ? DT_F32 : DT_I32;
}

bool
convert_top_k(Call *k)
{
    Ctx *c = k->m->c;
    const Attr *count = call_attr(k, "k");
    int64_t axis = get_int(k, "axis", -1), number;

    if (!need_input(k, 0))
        return false;
    if (count && k->m->opset < 10)
        set_input(k, 1, call_ints(k, "k", 1, &count->i));
    if (!need_input(k, 1))
        return false;
    const Type *t = input_type(k, 0);
    int64_t d = axis < 0 ? axis + t->rank : axis;
    if (d < 0 || d >= t->rank)
        return call_wrong(k, "axis %lld of %s", (long long)axis, type_str(c, t));
    if (!expr_is(type_count(c, input_type(k, 1)), 1))
        return call_wrong(k, "input 1 (k) of TopK is %s; it has one number",
                          type_str(c, input_type(k, 1)));
    const Known *known = &k->m->g->value.at[k->in.at[1]].known;
    ValueId n = call_int_list(k, k->in.at[1]);
    if (n && known->at && known->n == 1 && expr_const(known->at[0], &number))
        n = call_ints(k, "k", 1, &number);
    else
        n = call_match(k, n, (const Expr *const[]){ t->dim[d] });
    if (!call_names(k, "x -> y place"))
        return false;
    call_name(k, "n", n);
    return call_text(k,
                     "y, place = top_k(%s(x), n) {axis = %" PRId64 ", largest = %d}\n"
                     "y = like(y, x)",
                     dtype_info[compared_as(t->dtype)].name, axis, get_int(k, "largest", 1) != 0);
}

bool
convert_non_max_suppression(Call *k)
{
    int64_t most = k->in.n > 2 && k->in.at[2] ? -1 : 0;

    if (!call_names(k, "boxes scores ? each iou score -> y"))
        return false;
    if (k->in.n > 2 && k->in.at[2]) {
        const Known *known = &k->m->g->value.at[k->in.at[2]].known;
        int64_t number;
        if (known->at && known->n == 1 && expr_const(known->at[0], &number))
            most = number < 0 ? 0 : number;
    }
    return call_text(k,
                     "rows, count = self(boxes, scores, each, iou, score) "
                     "{center_point_box = %" PRId64 ", most = %" PRId64 "}\n"
                     "y = slice(rows, [0], match(count, rows.0))",
                     get_int(k, "center_point_box", 0), most);
}

/* Moves the axis to the front; the others follow in order. */
static ValueId
in_front(Call *k, ValueId x, uint32_t axis)
{
    uint32_t rank = value_type(k, x)->rank;
    int64_t *perm = NEW_ARRAY(k->m->arena, int64_t, rank);

    for (uint32_t d = 0, at = 1; d < rank; d++)
        if (d != axis)
            perm[at++] = d;
    perm[0] = axis;
    return axis ? call_transposed(k, x, perm) : x;
}

bool
convert_unique(Call *k)
{
    Ctx *c = k->m->c;
    const Attr *along = call_attr(k, "axis");

    if (!call_names(k, "x -> y place inverse times"))
        return false;
    const Type *t = input_type(k, 0);
    int64_t axis = along ? along->i + (along->i < 0 ? t->rank : 0) : 0;
    if (along && (axis < 0 || axis >= t->rank))
        return call_wrong(k, "axis %lld of %s", (long long)along->i, type_str(c, t));
    if (along)
        call_name(k, "rows", in_front(k, k->in.at[0], (uint32_t)axis));
    return call_text(k,
                     "rows = %s\n"
                     "first, inverse, times, count = unique(%s(rows)) {sorted = %d}\n"
                     "n = match(count, rows.0)\n"
                     "place = slice(first, [0], n)\n"
                     "times = slice(times, [0], n)\n"
                     "y = gather(x, place) {axis = %" PRId64 "}",
                     along ? "flatten(rows) {axis = 1}\n"
                           : "reshape(x, [-1, 1])\nx = reshape(x, [-1])",
                     dtype_info[compared_as(t->dtype)].name, get_int(k, "sorted", 1) != 0, axis);
}
