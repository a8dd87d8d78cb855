/* sequence_parts: joins the items of a sequence, and splits a tensor into items. */
#include "import/sequence.h"
#include "op/kinds.h"

#include <inttypes.h>

enum { MOST_PARTS = 64 }; /* of known sizes */

/* outer, inner: the number of elements outside and inside of the axis, by the list `shape`. */
static bool
read_around(Call *k, uint32_t axis, uint32_t rank)
{
    call_text(k, "outer = 1\ninner = 1");
    for (uint32_t d = 0; d < rank; d++) {
        call_number(k, "d", d);
        call_fact(k, "side", d < axis ? "outer" : "inner");
        if (d != axis)
            call_text(k, "$side = $side * squeeze(shape[$d])");
    }
    return !k->failed;
}

/* "row[0], reshape(total, [-1]), row[1]" for axis 1: `at` at the axis, and `one` with the number in
 * place of # elsewhere; "" for `at`: without the axis. */
static const char *
list_around(Call *k, uint32_t axis, uint32_t rank, const char *at, const char *before,
            const char *behind)
{
    Text t = { .arena = k->arena };

    for (uint32_t d = 0; d < rank; d++) {
        if (d == axis && !*at)
            continue;
        text_add(&t, t.n ? ", " : "");
        if (d == axis)
            text_add(&t, at);
        else
            text_printf(&t, "%s%u%s", before, d, behind);
    }
    return text_str(&t);
}

/* Joins all items along an axis, or along a new one. Element (o, j, i) of the result is from the
 * item that position j is in: o and i are the elements outside and inside of the axis, equal for
 * all items. */
bool
sequence_concat(Call *k)
{
    Sequence s;
    bool fresh = sequence_attr(k, "new_axis", 0) != 0;
    int64_t axis = sequence_attr(k, "axis", 0);

    if (!sequence_read(k, 0, false, &s))
        return false;
    const uint32_t rank = sequence_rank(s.mark), full = rank + fresh;
    axis += axis < 0 ? full : 0;
    if (axis < 0 || axis >= full || full > TN_MAX_RANK)
        return call_wrong(k, "axis %lld of items of rank %u", (long long)axis, rank);
    int64_t every[TN_MAX_RANK];
    for (uint32_t d = 0; d < rank; d++)
        every[d] = d;
    call_number(k, "axis", axis);
    call_number(k, "fresh", fresh);
    call_fact(k, "columns",
              axis == 0      ? "ones, gather(sizes, $last) {axis = 1}"
              : axis == rank ? "gather(sizes, $first) {axis = 1}, ones"
                             : "gather(sizes, $first) {axis = 1}, ones, "
                               "gather(sizes, $last) {axis = 1}");
    call_fact(k, "first", ints_text(k, (uint32_t)axis, every));
    call_fact(k, "last", ints_text(k, rank > axis ? rank - (uint32_t)axis : 0, every + axis));
    call_fact(k, "shape",
              list_around(k, (uint32_t)axis, full, "reshape(total, [-1])", "row[", "]"));
    return call_text(k, STARTS "rows = sizes\n"
                               "$fresh? ones = expand(1, [reshape(n, [-1]), 1])\n"
                               "$fresh? rows = concat($columns) {axis = 1}\n"
                               "along = reshape(gather(rows, [$axis]) {axis = 1}, [-1])\n"
                               "ends = cum_sum(along, 0)\n"
                               "total = reduce_sum(along, [0]) {keepdims = 0}\n"
                               "row = gather(rows, 0)\n"
                               "shape = match([$shape])") &&
           read_around(k, (uint32_t)axis, full) &&
           /* o, j, i as i64[O, 1, 1], i64[S, 1], i64[I] */
           call_text(k, "o = unsqueeze(range(0, outer, 1), [1, 2])\n"
                        "i = range(0, inner, 1)\n"
                        "j = iota(shape[$axis])\n"
                        "behind = i64(unsqueeze(ends, [0]) <= unsqueeze(j, [1]))\n"
                        "item = reduce_sum(behind, [1]) {keepdims = 0}\n"
                        "width = gather(along, item)\n"
                        "local = j - (gather(ends, item) - width)\n"
                        "begin = unsqueeze(gather(starts, item), [1])\n"
                        "at = o * unsqueeze(width, [1]) + unsqueeze(local, [1])\n"
                        "at = at * inner + begin + i\n"
                        "y = reshape(gather(items, at), shape) {allowzero = 1}");
}

/* ---- splitting ------------------------------------------------------------------------------- */

/* drop: parts of one, without the axis */
static bool
split_into(Call *k, int64_t axis, ValueId sizes, uint32_t n, bool drop)
{
    ValueId out[MOST_PARTS];
    uint64_t mark;
    Attr along = { .name = sym(k->c, "axis"), .kind = ATTR_INT, .i = axis };
    OpNode split = call_node(k, OP_split, 1, &along, 2, VALUES(k->in.at[0], sizes));

    if (n < 1 || n > MOST_PARTS)
        return call_refuse(k, "SplitToSequence into %u parts; 1 to %d are possible", n, MOST_PARTS);
    if (!sizes || !graph_infer_op(k->m->g, &split, n, NULL, out))
        return false;
    for (uint32_t i = 0; i < n && drop; i++)
        out[i] = value_of_text(k, "x", VALUES(out[i]), "squeeze(x, [%" PRId64 "])", axis);
    return sequence_construct(k, n, out, &mark) && sequence_give(k, mark);
}

/* Splits into parts of `each` along the axis, the last of which may be smaller; drop: parts of one,
 * without the axis. Element t of all items is in part t / (O each I), where O and I are the numbers
 * of elements outside and inside of the axis. */
static bool
split_evenly(Call *k, uint32_t axis, bool drop)
{
    const Type *t = input_type(k, 0);
    const uint32_t rank = t->rank - drop;

    call_number(k, "axis", axis);
    call_fact(k, "columns",
              list_around(k, axis, t->rank, drop ? "" : "unsqueeze(width, [1])",
                          "unsqueeze(expand(shape[", "], count), [1])"));
    call_number(k, "rank", rank);
    return call_text(k, "!each? each = i64(1)\n"
                        "shape = shape(x)\n"
                        "n = squeeze(shape[$axis])\n"
                        "s = max(i64(each), 1)\n"
                        "count = match(reshape((n + (s - 1)) / s, [-1]), x.$axis)\n"
                        "part = iota(count)\n"
                        "width = min(s, n - part * s)") &&
           read_around(k, axis, t->rank) &&
           call_text(k, "$rank? sizes = concat($columns) {axis = 1}\n"
                        "!$rank? sizes = slice(unsqueeze(width, [1]), [0], [0], [1])\n"
                        "all = reshape(x, [-1])\n"
                        "at = range(0, size(all), 1)\n"
                        "p = at / (outer * s * inner)\n"
                        "rest = at - p * (outer * s * inner)\n"
                        "w = min(s, n - p * s)\n"
                        "row = rest / (w * inner)\n"
                        "from = row * n + (p * s + mod(rest / inner, w))\n"
                        "items = gather(all, from * inner + mod(rest, inner))") &&
           sequence_give(k, sequence_mark(t->dtype, rank));
}

/* Splits into parts known at compile time: `split` of them, or parts of that size, or of 1. */
bool
sequence_split(Call *k)
{
    int64_t axis = sequence_attr(k, "axis", 0), extent = -1, size[MOST_PARTS], count, n = 0,
            each = 1;
    const Expr *most[MOST_PARTS];

    if (!call_names(k, "x ? each -> y"))
        return false;
    const Type *t = input_type(k, 0);
    const ValueId given = call_in(k, 1);
    const Known known = given ? k->m->g->value.at[given].known : (Known){ 0 };
    const bool list = given && value_type(k, given)->rank == 1,
               drop = !given && !sequence_attr(k, "keepdims", 1);

    axis += axis < 0 ? t->rank : 0;
    if (axis < 0 || axis >= t->rank)
        return call_wrong(k, "SplitToSequence along axis %lld", (long long)axis);
    if (list && !known.at) {
        for (int i = 0; i < MOST_PARTS; i++)
            most[i] = t->dim[axis];
        if (!expr_const(type_count(k->c, value_type(k, given)), &count) || count > MOST_PARTS)
            return call_refuse(k, "SplitToSequence into %s parts; %d are possible",
                               type_str(k->c, value_type(k, given)), MOST_PARTS);
        return split_into(k, axis, call_match(k, call_int_list(k, given), most), (uint32_t)count,
                          false);
    }
    expr_const(t->dim[axis], &extent);
    if (list && extent < 0)
        return split_into(k, axis, given, known.n, false);
    if (!list && known.at && (!expr_const(known.at[0], &each) || each < 1))
        return call_refuse(k, "SplitToSequence into parts of a size that is not known");
    if (!list && (extent < 0 || (given && !known.at) || extent / each > MOST_PARTS))
        return split_evenly(k, (uint32_t)axis, drop);
    for (uint32_t i = 0; list && i < known.n && i < MOST_PARTS; i++)
        if (!expr_const(known.at[n++], &size[i]))
            return call_refuse(k, "SplitToSequence into parts that depend on the inputs' sizes");
    for (int64_t left = extent; !list && left > 0; left -= each, n++)
        if (n < MOST_PARTS)
            size[n] = left < each ? left : each;
    n = list ? known.n : n;
    return split_into(k, axis,
                      call_ints(k, "sizes", (uint32_t)(n < MOST_PARTS ? n : MOST_PARTS), size),
                      (uint32_t)n, drop);
}
