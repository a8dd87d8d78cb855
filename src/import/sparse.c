/* sparse: SparseAttention of ONNX Runtime, which sees blocks of keys that a layout names.
 *
 * Rows, cache and lengths are those of GroupQueryAttention (cached.c). A layout comes in compressed
 * rows:
 *
 *     ends[r]    entries of block rows 0 to r         columns[e]    the block that entry e shows
 *
 * and becomes a table of bools, one a block, which the mask reads at (row, key) // block size.
 *
 * Source: ONNX Runtime's ContribOperators.md; contrib_ops/cpu/sparse/sparse_attention_base.h.
 */
#include "import/cached.h"
#include "import/little.h"

#include <inttypes.h>

/* ---- layouts ------------------------------------------------------------------------------- */

enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, ROWS, COLUMNS, TOTAL, LENGTHS, COSINE, SINE };

/* A number as a tensor of these sizes, each i64[1]. */
static ValueId
filled(Call *k, ValueId number, uint32_t n, const ValueId *size)
{
    ValueId shape = little_axis(k, OP_concat, 0, n, size);

    return number && shape ? little_2(k, OP_expand, number, shape) : 0;
}

/* The first n, i64[1], along axis 1. */
static ValueId
first_of(Call *k, ValueId x, ValueId n)
{
    const ValueId in[] = { x, little_single(k, 0), n, little_single(k, 1) };

    return x && n ? call_some(k, OP_slice, 0, NULL, 4, in) : 0;
}

/* The block row of each entry, i64[layouts, entries]: how many rows have ended there. Entries
 * behind the last row, which fill up shorter layouts, get the number of rows. */
static ValueId
row_of_entries(Call *k, ValueId ends, ValueId layouts, ValueId entries)
{
    const Attr attr[] = {
        { .name = sym(k->m->c, "axis"), .kind = ATTR_INT, .i = 1 },
        { .name = sym(k->m->c, "reduction"), .kind = ATTR_STRING, .s = sym(k->m->c, "add") },
    };
    const ValueId size[] = { layouts, little_2(k, OP_add, entries, little_single(k, 1)) };
    ValueId ones = little_2(k, OP_expand, little_number(k, 1), little_shape(k, ends));
    const ValueId in[] = { filled(k, little_number(k, 0), 2, size), ends, ones };
    ValueId ended = in[0] && ones ? call_some(k, OP_scatter_elements, 2, attr, 3, in) : 0;

    return first_of(k, ended ? little_2(k, OP_cum_sum, ended, little_number(k, 1)) : 0, entries);
}

/* bool[layouts, blocks, blocks] of rows [layouts, blocks + 1] and columns [layouts, entries].
 * Entries that fill up go to a row more, which is cut off. */
static ValueId
table_of(Call *k, ValueId rows, ValueId columns)
{
    ValueId shape = little_shape(k, columns), layouts = little_element(k, shape, 0);
    ValueId more = little_element(k, little_shape(k, rows), 1), zero = little_number(k, 0);
    ValueId blocks = more ? little_2(k, OP_sub, more, little_single(k, 1)) : 0;
    ValueId ends = call_columns(k, rows, 1, INT64_MAX);
    ValueId no = little_cast(k, zero, DT_BOOL), yes = little_cast(k, little_number(k, 1), DT_BOOL);
    const ValueId size[] = { layouts, more, blocks };

    if (!blocks || !ends || !no || !yes)
        return 0;
    ValueId row = row_of_entries(k, ends, layouts, little_element(k, shape, 1));
    ValueId real = row ? little_2(k, OP_less, row, blocks) : 0;
    ValueId column = real ? little_3(k, OP_where, real, columns, zero) : 0;
    ValueId layout = little_unsqueeze(k, little_count(k, layouts), 1);
    layout = layout && column ? little_2(k, OP_expand, layout, shape) : 0;
    const ValueId at[] = { little_unsqueeze(k, layout, 2), little_unsqueeze(k, row, 2),
                           little_unsqueeze(k, column, 2) };
    ValueId place = at[0] && at[1] && at[2] ? little_axis(k, OP_concat, 2, 3, at) : 0;
    ValueId hidden = filled(k, no, 3, size), shown = little_2(k, OP_expand, yes, shape);
    ValueId all = place && hidden ? little_3(k, OP_scatter_nd, hidden, place, shown) : 0;

    return first_of(k, all, blocks);
}

/* Head h has layout h % layouts; one alone is that of all heads. */
static ValueId
table_of_heads(Call *k, ValueId table, int64_t layouts, int64_t heads)
{
    int64_t *own = NEW_ARRAY(k->m->arena, int64_t, (size_t)heads);

    for (int64_t h = 0; h < heads; h++)
        own[h] = h % layouts;
    const ValueId in[] = { table, little_list(k, (uint32_t)heads, own) };
    return table && layouts > 1 ? little_axis(k, OP_gather, 0, 2, in) : table;
}

/* ---- SparseAttention ----------------------------------------------------------------------- */

static bool
sizes_fit(const Cached *a)
{
    Call *k = a->k;
    Ctx *c = k->m->c;
    const Type *q = input_type(k, QUERY);
    const Expr *size = expr_int(c, a->size), *any[] = { NULL, NULL };
    const Expr *keys[] = { q->dim[0], q->dim[1], expr_int(c, a->shared * a->size) };
    const Expr *past[] = { q->dim[0], expr_int(c, a->shared), NULL, size };

    if (a->heads % a->shared)
        return diag_error(&c->diags, DIAG_MODEL, k->loc,
                          "SparseAttention has %" PRId64
                          " heads of queries, no multiple of its %" PRId64 " heads of keys",
                          a->heads, a->shared);
    if (call_in(k, KEY) &&
        !(need_shape(k, KEY, "key", 3, keys) && need_shape(k, VALUE, "value", 3, keys)))
        return false;
    if (!need_shape(k, PAST_KEY, "past_key", 4, past) ||
        !need_shape(k, ROWS, "block_row_indices", 2, any))
        return false;
    past[2] = input_type(k, PAST_KEY)->dim[2];
    const Expr *entries[] = { input_type(k, ROWS)->dim[0], NULL };
    return need_shape(k, PAST_VALUE, "past_value", 4, past) &&
           need_shape(k, COLUMNS, "block_col_indices", 2, entries) &&
           need_shape(k, LENGTHS, "key_total_sequence_lengths", 1, q->dim);
}

/* The layouts as a table, and room in it for all tokens. */
static bool
read_layouts(Cached *a)
{
    Call *k = a->k;
    Ctx *c = k->m->c;
    const Type *t = input_type(k, ROWS);
    ValueId rows = little_cast(k, call_in(k, ROWS), DT_I64);
    ValueId columns = little_cast(k, call_in(k, COLUMNS), DT_I64);
    int64_t layouts, ends;

    if (!expr_const(t->dim[0], &layouts) || !expr_const(t->dim[1], &ends))
        return call_refuse(k,
                           "SparseAttention with block_row_indices of type %s, whose sizes have "
                           "to be known",
                           type_str(c, t));
    if (layouts < 1 || ends < 2 || a->heads % layouts)
        return diag_error(&c->diags, DIAG_MODEL, k->loc,
                          "SparseAttention of %" PRId64 " heads with block_row_indices of type %s: "
                          "they need a block, and heads that are a multiple of the layouts",
                          a->heads, type_str(c, t));
    ValueId table = rows && columns ? table_of(k, rows, columns) : 0;
    ValueId fits =
        a->total ? little_2(k, OP_less_or_equal, a->total, little_single(k, (ends - 1) * a->block))
                 : 0;
    a->layout = table_of_heads(k, table, layouts, a->heads);
    const char *why = arena_printf(c->arena,
                                   "total_sequence_length is larger than the %" PRId64
                                   " blocks of %" PRId64 " tokens",
                                   ends - 1, a->block);
    return a->layout && fits && little_demand(k, fits, why);
}

static bool
convert_sparse_attention(Call *k)
{
    Cached a = { .k = k,
                 .past = { call_in(k, PAST_KEY), call_in(k, PAST_VALUE) },
                 .cosine = call_in(k, COSINE),
                 .sine = call_in(k, SINE),
                 .fixed = true,
                 .block = get_int(k, "sparse_block_size", 0) };

    if (!call_in(k, QUERY) || !call_in(k, TOTAL) || !call_in(k, KEY) != !call_in(k, VALUE))
        return call_refuse(k, "SparseAttention needs a query and a total length; keys and values "
                              "come together");
    if (a.block < 1)
        return call_refuse(k, "SparseAttention with blocks of %" PRId64 " tokens", a.block);
    if (!cached_rows(&a) || !sizes_fit(&a))
        return false;
    a.total = little_ints(k, call_in(k, TOTAL));
    a.lengths = little_cast(k, call_in(k, LENGTHS), DT_I64);
    return read_layouts(&a) && cached_attend(&a);
}

const OpRow sparse_rows[] = {
    { "com.microsoft.LongformerAttention", OP_NONE, convert_longformer },
    { "com.microsoft.SparseAttention", OP_NONE, convert_sparse_attention },
    { 0 },
};
