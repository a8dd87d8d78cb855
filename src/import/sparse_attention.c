/* sparse_attention: SparseAttention of ONNX Runtime, which attends to blocks of keys selected by a
 * layout.
 *
 * Rows, cache and lengths are those of GroupQueryAttention (group_query_attention.c). A layout has
 * the form of compressed rows:
 *
 *     ends[r]    entries of block rows 0 to r         columns[e]    the block of entry e
 *
 * and becomes a table of bools, one per block, which the mask reads at (row, key) // block size.
 *
 * Source: ONNX Runtime's ContribOperators.md; contrib_ops/cpu/sparse/sparse_attention_base.h.
 */
#include "import/cached_attention.h"
#include "import/compose.h"
#include "import/converters.h"

#include <inttypes.h>

enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, ROWS, COLUMNS, TOTAL, LENGTHS };

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
        return call_wrong(k,
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

/* layout: bool[layouts or heads, blocks, blocks], from ends [layouts, blocks + 1] and columns
 * [layouts, entries]. The block row of an entry is the number of rows that have ended before it.
 * Entries after the last row, which pad shorter layouts, go to an extra row, which is cut off. Head
 * h has layout h % layouts; a single layout is for all heads. */
static bool
make_layout(Cached *a, int64_t layouts)
{
    Call *k = a->k;
    int64_t *own = NEW_ARRAY(k->m->arena, int64_t, (size_t)a->heads);

    for (int64_t h = 0; h < a->heads; h++)
        own[h] = h % layouts;
    return call_text(k,
                     "ends = i64(ends)\n"
                     "columns = i64(columns)\n"
                     "layouts = shape(columns)[0]\n"
                     "entries = shape(columns)[1]\n"
                     "more = shape(ends)[1]\n"
                     "blocks = more - 1\n"
                     "ends = slice(ends, [1], [%" PRId64 "], [-1])\n"
                     "ended = expand(0, [layouts, entries + 1])\n"
                     "ended = scatter_elements(ended, ends, expand(1, shape(ends))) "
                     "{axis = 1, reduction = \"add\"}\n"
                     "row = slice(cum_sum(ended, 1), [0], entries, [1])\n"
                     "column = where(row < blocks, columns, 0)\n"
                     "number = expand(unsqueeze(iota(layouts), [1]), shape(columns))\n"
                     "place = concat(unsqueeze(number, [2]), unsqueeze(row, [2]), "
                     "unsqueeze(column, [2])) {axis = 2}\n"
                     "hidden = expand(bool(0), [layouts, more, blocks])\n"
                     "all = scatter_nd(hidden, place, expand(bool(1), shape(columns)))\n"
                     "layout = slice(all, [0], blocks, [1])",
                     INT64_MAX) &&
           (layouts == 1 ||
            call_text(k, "layout = gather(layout, %s)", ints_text(k, (uint32_t)a->heads, own)));
}

/* The layouts as a table, with room for all tokens. */
static bool
read_layouts(Cached *a)
{
    Call *k = a->k;
    Ctx *c = k->m->c;
    const Type *t = input_type(k, ROWS);
    int64_t layouts, ends;

    if (!expr_const(t->dim[0], &layouts) || !expr_const(t->dim[1], &ends))
        return call_refuse(k,
                           "SparseAttention with block_row_indices of type %s, whose sizes have "
                           "to be known",
                           type_str(c, t));
    if (layouts < 1 || ends < 2 || a->heads % layouts)
        return call_wrong(k,
                          "SparseAttention of %" PRId64 " heads with block_row_indices of type %s: "
                          "they need a block, and heads that are a multiple of the layouts",
                          a->heads, type_str(c, t));
    return make_layout(a, layouts) &&
           call_text(k,
                     "demand total <= %" PRId64
                     " \"total_sequence_length is larger than the %" PRId64 " blocks of %" PRId64
                     " tokens\"",
                     (ends - 1) * a->block, ends - 1, a->block);
}

static bool
convert_sparse_attention(Call *k)
{
    Cached a = { .k = k, .fixed = true, .block = get_int(k, "sparse_block_size", 0) };

    if (!call_in(k, QUERY) || !call_in(k, TOTAL) || !call_in(k, KEY) != !call_in(k, VALUE))
        return call_refuse(k, "SparseAttention needs a query and a total length; keys and values "
                              "come together");
    if (a.block < 1)
        return call_refuse(k, "SparseAttention with blocks of %" PRId64 " tokens", a.block);
    if (!call_names(k, "q ? k v past_key past_value ends columns total lengths cosine sine "
                       "-> y present_k present_v") ||
        !cached_rows(&a) || !sizes_fit(&a) ||
        !call_text(k, "lengths = i64(lengths)\n"
                      "turned_by = absent\n"
                      "bias = absent"))
        return false;
    call_name(k, "total", call_int_list(k, call_in(k, TOTAL)));
    return read_layouts(&a) && cached_attend(&a);
}

const OpRow sparse_rows[] = {
    { "com.microsoft.LongformerAttention", OP_NONE, convert_longformer, "i6" },
    { "com.microsoft.SparseAttention", OP_NONE, convert_sparse_attention, "i5678" },
    { 0 },
};
