/* select: operators that select elements: by conditions, NonZero and Compress; by library routines,
 * TopK, NonMaxSuppression and Unique. A routine fills buffers of the largest possible size and
 * returns the actual one, which becomes a symbol; the result is cut to it. */
#include "import/compose.h"
#include "import/converters.h"

#include "routine/routine.h"

/* ---- by conditions ------------------------------------------------------------------------- */

/* The indices at which mask, bool[n], is set: i64[hits], in order. Each is written to the slot that
 * the count of those before gives; positions that are not set go to an extra slot, which is cut
 * off. */
ValueId
call_positions(Call *k, ValueId mask)
{
    return mask ? value_of_text(k, "mask", &mask,
                                "total = reduce_sum(i64(mask), [0])\n"
                                "hits = match(total, mask.0)\n"
                                "count = cum_sum(i64(mask), 0)\n"
                                "slot = where(mask, count - 1, total)\n"
                                "empty = constant_of_shape(hits + 1) {value = const i64[] [0]}\n"
                                "all = scatter_elements(empty, slot, range(0, size(mask), 1))\n"
                                "slice(all, [0], hits)")
                : 0;
}

bool
convert_nonzero(Call *k)
{
    Text rows = { .arena = k->arena };

    if (!call_names(k, "x -> y"))
        return false;
    const uint32_t rank = input_type(k, 0)->rank;
    call_number(k, "words", input_type(k, 0)->dtype == DT_STR);
    call_text(k, "set = x\n"
                 "$words? set = !string_equal(x, \"\")\n"
                 "set = bool(reshape(set, [-1]))");
    call_name(k, "at", call_positions(k, call_value(k, "set")));
    if (!call_value(k, "at"))
        return false;
    if (!rank) /* no rows; as many columns as set elements */
        return call_text(k, "y = slice(unsqueeze(at, [0]), [0], [0])");
    for (uint32_t d = rank; d-- > 0;) {
        call_number(k, "d", d);
        call_text(k, "n = shape(x)[$d]\n"
                     "row_$d = unsqueeze(mod(at, n), [0])\n"
                     "at = at / n");
    }
    for (uint32_t d = 0; d < rank; d++)
        text_printf(&rows, d ? ", row_%u" : "row_%u", d);
    return call_text(k, "y = concat(%s) {axis = 0}", text_str(&rows));
}

/* Slices of x along an axis, or elements of flat x, where the condition is set; the condition may
 * be shorter. */
bool
convert_compress(Call *k)
{
    if (!call_names(k, "x condition -> y"))
        return false;
    call_name(k, "at", call_positions(k, k->in.at[1]));
    call_number(k, "flat", !call_attr(k, "axis"));
    return call_value(k, "at") && call_text(k, "$flat? x = reshape(x, [-1])\n"
                                               "y = gather(x, at) {axis = $axis:0}");
}

/* ---- by library routines --------------------------------------------------------------------- */

/* Types that routines do not support are compared as wider ones. */
static DType
compared_as(DType t)
{
    return routine_type(t) ? t : dtype_is_float(t) ? DT_F32 : DT_I32;
}

/* The number that v is known to be, or -1. */
static int64_t
known_number(const Call *k, ValueId v)
{
    const Known *known = &k->m->g->value.at[v].known;
    int64_t n;

    return v && known->at && known->n == 1 && expr_const(known->at[0], &n) ? n < 0 ? 0 : n : -1;
}

bool
convert_top_k(Call *k)
{
    const Attr *count = call_attr(k, "k");
    int64_t axis = get_int(k, "axis", -1);

    if (count && k->m->opset < 10)
        set_input(k, 1, call_ints(k, "k", 1, &count->i));
    if (!call_names(k, "x n -> y place"))
        return false;
    const Type *t = input_type(k, 0);
    const int64_t d = axis < 0 ? axis + t->rank : axis, number = known_number(k, k->in.at[1]);
    if (d < 0 || d >= t->rank)
        return call_wrong(k, "axis %lld of %s", (long long)axis, type_str(k->c, t));
    if (!expr_is(type_count(k->c, input_type(k, 1)), 1))
        return call_wrong(k, "input 1 (k) of TopK is %s; it has one number",
                          type_str(k->c, input_type(k, 1)));
    ValueId n = call_int_list(k, k->in.at[1]);
    call_name(k, "n",
              number >= 0 ? call_ints(k, "k", 1, &number)
                          : call_match(k, n, (const Expr *const[]){ t->dim[d] }));
    call_fact(k, "type", dtype_info[compared_as(t->dtype)].name);
    call_number(k, "largest", get_int(k, "largest", 1) != 0);
    return call_text(k, "y, place = top_k($type(x), n) {axis = $axis:-1, largest = $largest}\n"
                        "y = like(y, x)");
}

bool
convert_non_max_suppression(Call *k)
{
    call_number(k, "most", call_in(k, 2) ? known_number(k, call_in(k, 2)) : 0);
    return call_says(k, "boxes scores ? each iou score -> y",
                     "rows, count = self(boxes, scores, each, iou, score) "
                     "{center_point_box = $center_point_box:0, most = $most}\n"
                     "y = slice(rows, [0], match(count, rows.0))");
}

bool
convert_unique(Call *k)
{
    const Attr *along = call_attr(k, "axis");

    if (!call_names(k, "x -> y place inverse times"))
        return false;
    const Type *t = input_type(k, 0);
    int64_t axis = along ? along->i + (along->i < 0 ? t->rank : 0) : 0;
    if (along && (axis < 0 || axis >= t->rank))
        return call_wrong(k, "axis %lld of %s", (long long)along->i, type_str(k->c, t));
    if (along)
        call_name(k, "rows", call_moved(k, k->in.at[0], axis, 0));
    call_number(k, "axis", axis);
    call_number(k, "sorted", get_int(k, "sorted", 1) != 0);
    call_fact(k, "type", dtype_info[compared_as(t->dtype)].name);
    return call_text(k,
                     "%s\n"
                     "first, inverse, times, count = unique($type(rows)) {sorted = $sorted}\n"
                     "n = match(count, rows.0)\n"
                     "place = slice(first, [0], n)\n"
                     "times = slice(times, [0], n)\n"
                     "y = gather(x, place) {axis = $axis}",
                     along ? "rows = flatten(rows) {axis = 1}"
                           : "rows = reshape(x, [-1, 1])\n"
                             "x = reshape(x, [-1])");
}
