/* packed: ONNX Runtime's operators on batches without padding: the rows of all sequences behind
 * each other, and the sums of their lengths.
 *
 *     rows[t, …]      sums = [0, n0, n0 + n1, …, t]
 *
 * An attention of such rows is one over all of them under a mask: rows of one sequence see each
 * other. Blocks of rows and keys that have no sequence in common are passed over as those of any
 * mask are (normalise/mask.c). Source: ONNX Runtime's ContribOperators.md, which is all there is:
 * its kernels are for GPUs.
 */
#include "import/little.h"

/* x[d0, d1, …] as so many rows of what is left. */
static ValueId
as_rows_of(Call *k, ValueId x, ValueId rows)
{
    const int64_t rest = -1;
    const ValueId shape =
        rows ? little_axis(k, OP_concat, 0, 2, (ValueId[]){ rows, little_list(k, 1, &rest) }) : 0;

    return x && shape ? little_2(k, OP_reshape, x, shape) : 0;
}

/* The sequence of each row, and where in it the row is: i64[t]. Ends of sequences up to a row are
 * counted. */
static bool
places(Call *k, ValueId rows, ValueId sums, ValueId *sequence, ValueId *position)
{
    const int64_t one = 1, last = INT64_MAX, axis = 1;
    Attr drop = { .name = sym(k->m->c, "keepdims"), .kind = ATTR_INT, .i = 0 };
    ValueId all = little_cast(k, sums, DT_I64);
    ValueId t = little_count(k, little_element(k, little_shape(k, rows), 0));
    ValueId ends =
        all ? call_some(k, OP_slice, 0, NULL, 3,
                        (ValueId[]){ all, little_list(k, 1, &one), little_list(k, 1, &last) })
            : 0;
    ValueId row = little_unsqueeze(k, t, 1), end = little_unsqueeze(k, ends, 0);
    ValueId passed = row && end ? little_2(k, OP_greater_or_equal, row, end) : 0;

    *sequence =
        passed ? call_some(k, OP_reduce_sum, 1, &drop, 2,
                           (ValueId[]){ little_cast(k, passed, DT_I64), little_list(k, 1, &axis) })
               : 0;
    *position = *sequence ? little_2(k, OP_sub, t, little_2(k, OP_gather, all, *sequence)) : 0;
    return *position != 0;
}

/* bias[1 or b, 1 or heads, s, s], added to the scores of padded sequences: of rows, [heads, t, t].
 * Beyond a sequence it is anything. */
static ValueId
bias_of_rows(Call *k, ValueId bias, ValueId sequence, ValueId position)
{
    const Type *t = value_type(k, bias);
    const int64_t heads_last[] = { 0, 2, 3, 1 }, heads_first[] = { 2, 0, 1 };

    if (t->rank != 4)
        return (ValueId)call_refuse(k, "%s with a bias of type %s for its scores",
                                    k->proto->op_type, type_str(k->m->c, t));
    ValueId none = little_2(k, OP_mul, position, little_number(k, 0));
    ValueId row = little_unsqueeze(k, expr_is(t->dim[0], 1) ? none : sequence, 1);
    ValueId last = little_transpose(k, bias, 4, heads_last), zero = little_unsqueeze(k, none, 0);
    ValueId query = little_unsqueeze(k, position, 1), key = little_unsqueeze(k, position, 0);
    /* A key of another sequence may be further in than this row's sequence goes; sizes hold for
     * all. */
    ValueId index[3] = { row ? little_2(k, OP_add, row, zero) : 0, little_2(k, OP_add, query, zero),
                         little_2(k, OP_add, little_unsqueeze(k, none, 1), key) };
    for (uint32_t i = 0; i < 3; i++)
        if (!(index[i] = little_unsqueeze(k, index[i], 2)))
            return 0;
    ValueId at = little_axis(k, OP_concat, 2, 3, index),
            found = at && last ? little_2(k, OP_gather_nd, last, at) : 0;
    return little_transpose(k, found, 3, heads_first);
}

/* Rows q, k [t, n*size] and v [t, n*other] attend to the rows of their own sequence. */
static bool
attend_rows(Call *k, ValueId q, ValueId keys, ValueId v, ValueId sums, ValueId bias)
{
    Ctx *c = k->m->c;
    const int64_t first = 0, heads = get_int(k, "num_heads", 0);
    double scale = attr_float((Attrs){ k->attr.at, k->attr.n }, "scale", 0);
    Attr attr[3] = { { .name = sym(c, "q_num_heads"), .kind = ATTR_INT, .i = heads },
                     { .name = sym(c, "kv_num_heads"), .kind = ATTR_INT, .i = heads },
                     { .name = sym(c, "scale"), .kind = ATTR_FLOAT, .f = scale } };
    ValueId sequence, position;

    if (heads < 1)
        return call_refuse(k, "%s of %lld heads", k->proto->op_type, (long long)heads);
    if (!q || !keys || !v || !places(k, q, sums, &sequence, &position))
        return false;
    ValueId narrow = little_cast(k, sequence, DT_I32);
    ValueId row = little_unsqueeze(k, narrow, 1), key = little_unsqueeze(k, narrow, 0);
    ValueId mask = row && key ? little_2(k, OP_equal, row, key) : 0;
    if (mask && bias) {
        ValueId more = bias_of_rows(k, bias, sequence, position);
        mask = more ? little_3(k, OP_where, mask, more,
                               scalar_const(k, "never", more, -__builtin_inf()))
                    : 0;
        mask = little_unsqueeze(k, mask, 0);
    }
    ValueId in[] = { little_unsqueeze(k, q, 0), little_unsqueeze(k, keys, 0),
                     little_unsqueeze(k, v, 0), mask };
    ValueId y = in[0] && in[1] && in[2] && mask
                    ? call_some(k, OP_attention, scale != 0 ? 3 : 2,
                                arena_copy(k->m->arena, attr, sizeof attr), 4, in)
                    : 0;
    return finish(k, y ? little_2(k, OP_squeeze, y, little_list(k, 1, &first)) : 0);
}

/* Three parts of columns, of which the first two are as wide. */
static bool
parts_of(Call *k, ValueId rows, ValueId part[3])
{
    const Attr *sizes = call_attr(k, "qkv_hidden_sizes");
    int64_t all, wide[3], at = 0;

    if (!rows || value_type(k, rows)->rank != 2 || !expr_const(value_type(k, rows)->dim[1], &all))
        return rows && call_refuse(k, "%s of %s, where rows of known width are needed",
                                   k->proto->op_type, type_str(k->m->c, value_type(k, rows)));
    for (uint32_t i = 0; i < 3; i++)
        wide[i] = sizes && sizes->kind == ATTR_INTS && sizes->n == 3 ? sizes->ints[i] : all / 3;
    if (wide[0] != wide[1] || wide[0] < 1 || wide[2] < 1 || wide[0] > all || wide[2] > all ||
        2 * wide[0] + wide[2] != all)
        return diag_error(
            &k->m->c->diags, DIAG_MODEL, k->loc,
            "rows of %lld columns do not hold queries, keys and values of %lld, %lld and %lld",
            (long long)all, (long long)wide[0], (long long)wide[1], (long long)wide[2]);
    for (uint32_t i = 0; i < 3; at += wide[i++])
        if (!(part[i] = call_columns(k, rows, at, at + wide[i])))
            return false;
    return true;
}

/* x w bias offsets sums bias-of-scores? */
static bool
convert_packed_rows(Call *k)
{
    enum { X, W, BIAS, OFFSETS, SUMS, SCORES };
    ValueId part[3];

    if (!need_inputs(k, 5))
        return false;
    ValueId rows = call_two(k, OP_matmul, call_in(k, X), call_in(k, W));
    rows = rows && call_in(k, BIAS) ? call_two(k, OP_add, rows, call_in(k, BIAS)) : rows;
    return parts_of(k, rows, part) &&
           attend_rows(k, part[0], part[1], part[2], call_in(k, SUMS), call_in(k, SCORES));
}

/* q[t, n*size] k v, or q[t, n, 3, size] alone; bias? offsets sums bias-of-scores? */
static bool
convert_packed_heads(Call *k)
{
    enum { Q, K, V, BIAS, OFFSETS, SUMS, SCORES };
    ValueId part[3] = { call_in(k, Q), call_in(k, K), call_in(k, V) }, bias = call_in(k, BIAS);
    int64_t at = 0, size;

    if (!part[0] || !call_in(k, SUMS))
        return call_refuse(k, "%s without queries or sums of lengths", k->proto->op_type);
    if (value_type(k, part[0])->rank == 4) {
        ValueId all = part[0], rows = little_element(k, little_shape(k, all), 0);
        for (int64_t i = 0; i < 3; i++) {
            ValueId one = little_axis(k, OP_gather, 2, 2, (ValueId[]){ all, little_number(k, i) });
            if (!(part[i] = as_rows_of(k, one, rows)))
                return false;
        }
    }
    for (uint32_t i = 0; i < 3; i++)
        if (!part[i] || value_type(k, part[i])->rank != 2)
            return call_refuse(
                k, "%s of queries, keys and values that are not three of rank 2, or one of rank 4",
                k->proto->op_type);
    for (uint32_t i = 0; i < 3 && bias; at += size, i++) {
        if (!expr_const(value_type(k, part[i])->dim[1], &size))
            return call_refuse(k, "%s with a bias for sizes that are not known", k->proto->op_type);
        ValueId own = call_columns(k, bias, at, at + size);
        if (!own || !(part[i] = call_two(k, OP_add, part[i], own)))
            return false;
    }
    return attend_rows(k, part[0], part[1], part[2], call_in(k, SUMS), call_in(k, SCORES));
}

/* x[b, s, n] lengths[b]: the rows below each length; where they were, and behind them where padding
 * was, i32[b, s]; sums of lengths; the longest. */
static bool
convert_remove_padding(Call *k)
{
    const int64_t flat = -1, first = 0;
    Attr keep = { .name = sym(k->m->c, "keepdims"), .kind = ATTR_INT, .i = 1 };

    if (!need_inputs(k, 2))
        return false;
    ValueId x = call_in(k, 0), lengths = little_cast(k, call_in(k, 1), DT_I64);
    if (value_type(k, x)->rank != 3 || !lengths)
        return call_refuse(k, "RemovePadding of %s, where batches of rows are needed",
                           type_str(k->m->c, value_type(k, x)));
    ValueId shape = little_shape(k, x), b = little_element(k, shape, 0),
            s = little_element(k, shape, 1), all = little_2(k, OP_mul, b, s);
    ValueId column = little_unsqueeze(k, little_count(k, s), 0);
    ValueId there = column ? little_2(k, OP_less, column, little_unsqueeze(k, lengths, 1)) : 0;
    ValueId mask = there ? little_2(k, OP_reshape, there, little_list(k, 1, &flat)) : 0;
    ValueId kept = call_positions(k, mask),
            gone = kept ? call_positions(k, little_1(k, OP_not, mask)) : 0;
    ValueId rows = gone ? little_2(k, OP_gather, as_rows_of(k, x, all), kept) : 0;
    if (!rows)
        return false;
    call_bind(k, 0, rows);
    ValueId order = little_axis(k, OP_concat, 0, 2, (ValueId[]){ kept, gone }),
            grid = little_axis(k, OP_concat, 0, 2, (ValueId[]){ b, s });
    ValueId offsets =
        order && grid ? little_cast(k, little_2(k, OP_reshape, order, grid), DT_I32) : 0;
    ValueId sums =
        little_axis(k, OP_concat, 0, 2,
                    (ValueId[]){ little_list(k, 1, &first),
                                 little_2(k, OP_cum_sum, lengths, little_number(k, 0)) });
    ValueId most =
        call_some(k, OP_reduce_max, 1, &keep, 2, (ValueId[]){ lengths, little_list(k, 1, &first) });
    if (!offsets || !sums || !most)
        return false;
    call_bind(k, 1, offsets);
    call_bind(k, 2, little_cast(k, sums, DT_I32));
    call_bind(k, 3, little_cast(k, most, DT_I32));
    return k->done = true;
}

/* rows[t, n] offsets[b, s]: row i at the place that offset i names, padding is 0. */
static bool
convert_restore_padding(Call *k)
{
    const int64_t flat = -1, first = 0;

    if (!need_inputs(k, 2))
        return false;
    ValueId rows = call_in(k, 0), offsets = little_cast(k, call_in(k, 1), DT_I64);
    if (value_type(k, rows)->rank != 2 || !offsets || value_type(k, offsets)->rank != 2)
        return call_refuse(k, "RestorePadding of %s, where rows and a grid of offsets are needed",
                           type_str(k->m->c, value_type(k, rows)));
    ValueId grid = little_shape(k, offsets),
            list = little_2(k, OP_reshape, offsets, little_list(k, 1, &flat)),
            all = little_shape(k, list);
    ValueId n = little_element(k, little_shape(k, rows), 0),
            width = little_element(k, little_shape(k, rows), 1);
    ValueId at =
        call_some(k, OP_slice, 0, NULL, 3, (ValueId[]){ list, little_list(k, 1, &first), n });
    ValueId room = little_2(k, OP_expand, scalar_const(k, "padding", rows, 0),
                            little_axis(k, OP_concat, 0, 2, (ValueId[]){ all, width }));
    ValueId y = at && room ? little_3(k, OP_scatter_nd, room, little_unsqueeze(k, at, 1), rows) : 0;
    return finish(k, y ? little_2(k, OP_reshape, y,
                                  little_axis(k, OP_concat, 0, 2, (ValueId[]){ grid, width }))
                       : 0);
}

const OpRow packed_rows[] = {
    { "com.microsoft.PackedAttention", OP_NONE, convert_packed_rows },
    { "com.microsoft.PackedMultiHeadAttention", OP_NONE, convert_packed_heads },
    { "com.microsoft.RemovePadding", OP_NONE, convert_remove_padding },
    { "com.microsoft.RestorePadding", OP_NONE, convert_restore_padding },
    { 0 },
};
