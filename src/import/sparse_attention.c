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

/* layout: bool[layouts or heads, blocks, blocks], from ends [layouts, blocks + 1] and columns
 * [layouts, entries]. The block row of an entry is the number of rows that have ended before it.
 * Entries after the last row, which pad shorter layouts, go to an extra row, which is cut off. Head
 * h has layout h % layouts; a single layout is for all heads. */
static bool
make_layout(Cached *a, int64_t layouts)
{
    Call *k = a->k;
    int64_t *own = NEW_ARRAY(k->arena, int64_t, (size_t)a->heads);

    for (int64_t h = 0; h < a->heads; h++)
        own[h] = h % layouts;
    call_fact(k, "own", layouts == 1 ? "" : ints_text(k, (uint32_t)a->heads, own));
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
                     "layout = slice(all, [0], blocks, [1])\n"
                     "$own? layout = gather(layout, $own)",
                     INT64_MAX);
}

static bool
convert_sparse_attention(Call *k)
{
    Cached a = { .k = k, .fixed = true };

    if (!call_in(k, TOTAL))
        return call_wrong(k, "SparseAttention needs a total length");
    if (!cached_rows(&a, "q[b, s, _] ? k[b, s, shared*size] v[b, s, shared*size] "
                         "past_key[b, shared, rows, size] past_value[b, shared, rows, size] "
                         "ends[#layouts, #ends] columns[layouts, _] total lengths[b] cosine sine "
                         "-> y present_k present_v"))
        return false;
    const int64_t layouts = call_known(k, "layouts"), blocks = call_known(k, "ends") - 1;
    if (layouts < 1 || blocks < 1 || a.heads % layouts)
        return call_wrong(k,
                          "%" PRId64 " heads with block_row_indices of type %s: they need a block, "
                          "and heads that are a multiple of the layouts",
                          a.heads, type_str(k->c, input_type(k, ROWS)));
    int64_t most;
    if (mul_overflows(blocks, get_int(k, "sparse_block_size", 0), &most))
        return call_wrong(k,
                          "attribute \"sparse_block_size\" is %" PRId64 ", and %" PRId64
                          " blocks of it are more than any memory holds",
                          get_int(k, "sparse_block_size", 0), blocks);
    call_number(k, "blocks", blocks);
    call_number(k, "most", most);
    call_text(k, "lengths = i64(lengths)\n"
                 "turned_by = absent\n"
                 "bias = absent");
    call_name(k, "total", call_int_list(k, call_in(k, TOTAL)));
    return make_layout(&a, layouts) &&
           call_text(k, "demand total <= $most \"total_sequence_length is larger than the $blocks "
                        "blocks of $sparse_block_size tokens\"") &&
           cached_attend(&a);
}

const OpRow sparse_rows[] = {
    { "com.microsoft.LongformerAttention", OP_NONE, convert_longformer, "i6",
      "+num_heads +window" },
    { "com.microsoft.SparseAttention", OP_NONE, convert_sparse_attention, "i5678",
      "+num_heads +kv_num_heads +sparse_block_size" },
    { 0 },
};
