/* sequence: shared by the files about sequences: sequence.c, sequence_parts.c, sequence_map.c. */
#ifndef TENON_IMPORT_SEQUENCE_H
#define TENON_IMPORT_SEQUENCE_H

#include "import/compose.h"
#include "import/control.h"

typedef struct {
    uint64_t mark; /* element type and rank */
    ValueId items, sizes;
} Sequence;

uint64_t sequence_mark(DType t, uint32_t rank);
uint32_t sequence_rank(uint64_t mark);
/* Input i, which is a sequence. Texts read `items` and `sizes`, and y is the node's result; also
 * `*name` of input 1. Errors: it is none, or empty without `may_be_empty`. */
bool sequence_read(Call *k, uint32_t i, bool may_be_empty, Sequence *s);
/* The node's result: of the names `items` and `sizes`. */
bool sequence_give(Call *k, uint64_t mark);
/* Names items and sizes of n tensors of one type and rank; *mark: theirs. */
bool sequence_construct(Call *k, uint32_t n, const ValueId *x, uint64_t *mark);
/* An integer attribute of a node whose attributes are not read. */
int64_t sequence_attr(const Call *k, const char *name, int64_t otherwise);

/* For texts. n: items in the sequence; starts, i64[n + 1]: the begin of each, and the end of the
 * last. */
#define STARTS                                                                                     \
    "n = squeeze(shape(sizes)[0])\n"                                                               \
    "starts = [0, cum_sum(reduce_prod(sizes, [1]) {keepdims = 0}, 0)]\n"

extern Convert sequence_concat, sequence_split; /* (sequence_parts.c) */
extern Convert sequence_map;                    /* (sequence_map.c) */

#endif
