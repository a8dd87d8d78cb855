/* little: small integer tensors while a model is read; see little.c. */
#ifndef TENON_LITTLE_H
#define TENON_LITTLE_H

#include "import/internal.h"

const Type *little_type(const Call *k, ValueId v);
ValueId little_1(Call *k, OpKind op, ValueId a);
ValueId little_2(Call *k, OpKind op, ValueId a, ValueId b);
ValueId little_3(Call *k, OpKind op, ValueId a, ValueId b, ValueId c);
/* with attribute axis */
ValueId little_axis(Call *k, OpKind op, int64_t axis, uint32_t n, const ValueId *in);
ValueId little_list(Call *k, uint32_t n, const int64_t *v); /* i64[n] */
ValueId little_single(Call *k, int64_t v);                  /* i64[1] */
ValueId little_number(Call *k, int64_t v);                  /* i64[] */
/* 0, 1, …, n - 1; n up to 2 * TN_MAX_RANK */
ValueId little_iota(Call *k, uint32_t n);
/* 0, 1, … below n, i64[1] or a number */
ValueId little_count(Call *k, ValueId n);
ValueId little_unsqueeze(Call *k, ValueId x, int64_t axis);
ValueId little_transpose(Call *k, ValueId x, uint32_t n, const int64_t *order); /* of rank n */
ValueId little_cast(Call *k, ValueId v, DType t);
/* numbers as strings (t DT_STR), or strings as numbers */
ValueId little_text(Call *k, ValueId v, DType t);
/* integers of rank 0 or 1 as i64[n] */
ValueId little_ints(Call *k, ValueId v);
ValueId little_shape(Call *k, ValueId v);               /* i64[rank] */
ValueId little_element(Call *k, ValueId v, uint32_t d); /* of a list, as i64[1] */
/* axes[n] of a tensor of rank r, negative ones counted from the back; others stop the run. */
ValueId little_wrap(Call *k, ValueId axes, uint32_t r);
/* v's contents as symbols, named after the node's result; most: of each, or NULL. */
ValueId little_match(Call *k, ValueId v, const Expr *const *most);
/* What data have to be, or the run stops and says why: ok, a bool of one element, is true. True if
 * it is, or may be so; false with an error. */
bool little_demand(Call *k, ValueId ok, const char *why);

/* Lists whose length may be open. (lengths.c) How many elements; -1: that is open, or v is 0. */
int64_t list_length(const Call *k, ValueId v);
/* The list with n elements, to which the run is held where its length is open. Errors: it cannot
 * have so many. */
ValueId list_of(Call *k, ValueId v, int64_t n, const char *what);
/* Why a list of such a length cannot be used, and what to do. */
bool list_refuse(Call *k, ValueId v, const char *what);
/* The rank of the node's first result as the file declares it, or as its users need it; -1: nothing
 * says it. */
int64_t result_rank(const Call *k);

#endif
