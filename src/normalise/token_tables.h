/* token_tables: the positions of the tokens of a padded batch, as tensors that nests compute from a
 * mask or from offsets, once for all nodes that read them (ragged.c).
 *
 *     row[f], column[f]   the sequence of token f of all tokens, and its column there
 *     place[b, j]         the number of the token at that column; -1: padding
 */
#ifndef TENON_TOKEN_TABLES_H
#define TENON_TOKEN_TABLES_H

#include "graph/graph.h"

typedef struct {
    Ctx *c;
    Graph *to;                  /* the graph that gets the nests */
    const Expr *batch, *length; /* of the batch as it is padded */
    const char *name;           /* of the input that defines it, for messages */
    /* the number of tokens: from a mask a symbol that a node defines, from offsets the rows of the
     * packed input */
    const Expr *tokens;
    const Expr *last;           /* the end of the last sequence, from offsets; otherwise NULL */
    ValueId row, column, place; /* i32[tokens], i32[tokens], i32[batch, length] */
} TokenTables;

/* From a value of `to`: i64, bool or another number [batch, length], 1 for a token and 0 for
 * padding, which is checked at run time. density: the share assumed to be tokens if no size has a
 * hint. False: reported. */
bool tables_of_mask(TokenTables *t, ValueId mask, double density);

/* From i64[batch + 1], where sequence b is rows offsets[b] up to offsets[b + 1]; t->tokens is
 * given. Checked at run time: they begin at 0, do not decrease, end at the last row, and no
 * sequence is longer than `length` may be. Symbols [nlate] of `batch` or `length` that no input has
 * any more are defined. *mask: the equivalent mask, of its type. False: reported. */
typedef struct {
    Var symbol;
    bool is_batch;
} LateSize;
bool tables_of_offsets(TokenTables *t, ValueId offsets, uint32_t nlate, const LateSize *late,
                       const Type *type, double density, ValueId *mask);

#endif
