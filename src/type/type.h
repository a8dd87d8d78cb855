/* type: element type, symbolic shape, and memory format of a value.
 *
 * Types are interned: equality of normal forms is pointer equality. Every ranked value has every
 * dimension, a fresh symbol where nothing is known; there is no "unknown dimension".
 */
#ifndef TENON_TYPE_H
#define TENON_TYPE_H

#include "expr/expr.h"
#include "type/dtype.h"

typedef struct Type { /* interned */
    DType dtype;
    uint8_t rank;           /* 0 <= rank <= TN_MAX_RANK */
    const Expr *const *dim; /* [rank], outermost first */
} Type;

const Type *type_new(Ctx *c, DType dtype, uint32_t rank, const Expr *const *dim);
const Type *type_with_dtype(Ctx *c, const Type *t, DType dtype);
const Type *type_simplify(Ctx *c, const Type *t);
/* of its dimensions, all at once */
const Type *type_subst(Ctx *c, const Type *t, const Binding *b, uint32_t n);
typedef VEC(Binding) BoundSizes;
/* A symbol of e that is not among the bound ones; NULL: none. */
Sym unbound_symbol(const BoundSizes *bound, const Expr *e);
/* Binds the symbols that are dimensions by themselves in the first n declared types to the
 * dimensions of the given types, of the same ranks. False: some symbol of all ndeclared types is no
 * dimension by itself, so nothing determines it. */
bool type_bind(Ctx *c, const Type *const *declared, uint32_t ndeclared, const Type *const *given,
               uint32_t n, BoundSizes *out);
const Expr *type_count(Ctx *c, const Type *t); /* elements */
const Expr *type_bytes(Ctx *c, const Type *t);
bool type_is_static(const Type *t);
void type_symbols(SymbolSet *s, const Type *t); /* of NULL: none */
/* false if symbolic or overflowing */
bool type_static_bytes(const Type *t, int64_t *bytes);
/* May a process ever hold it? False above 2^47 bytes, the address space of today's processors, with
 * every dimension at its smallest value above 0. */
bool type_fits(Ctx *c, const Type *t);
Tri type_eq(Ctx *c, const Type *a, const Type *b); /* dtype, rank, all dims */
/* Elements between neighbours along dimension d of the plain row-major format. */
const Expr *type_stride(Ctx *c, const Type *t, uint32_t d);
/* Row-major offset of an index [elements]. */
const Expr *type_offset(Ctx *c, const Type *t, const Expr *const *at);

/* Dimension d is t's order[d]. */
const Type *type_permuted(Ctx *c, const Type *t, const uint8_t *order);

/* An order of dimensions [rank] by its customary name: "nhwc" of rank 4 (ncw, ncdhw of 3 and 5),
 * "0,2,3,1" of any. False: not an order of this rank. Printed in letters from rank 4 on; order
 * NULL: the plain one. */
bool order_read(const char *text, uint32_t rank, uint8_t *order);
void order_print(Text *t, uint32_t rank, const uint8_t *order);
/* for messages: "nhwc or 0,2,3,1" */
const char *order_examples(uint32_t rank);
bool order_is_plain(uint32_t rank, const uint8_t *order);

/* f32[batch, 3, 2*n + 1] ; f32[] */
void type_print(Text *t, const Type *type);
const char *type_str(Ctx *c, const Type *t);

/* A memory format: an order and a split of a tensor's dimensions. Physical dimension p is
 * (index[dim] // div) % mod; mod 0 means no mod (the outermost part of its dimension). Points
 * outside of the tensor (mod does not divide the extent) are zero. The plain format of rank r has
 * parts {d, 1, 0} for d in 0..r-1. NULL is plain too. */
typedef struct {
    uint8_t dim;
    int64_t div, mod;
} FormatPart;
#define FORMAT_MAX_PARTS (2 * TN_MAX_RANK + 8) /* limit of texts: physical dimensions */
typedef struct Format {
    uint32_t npart;
    const FormatPart *part;
} Format;

bool format_same(const Format *a, const Format *b);
/* Has each element of a tensor of that type a place of its own: do the parts of each dimension, from
 * the least divisor on, take up where the one before ends? No part is needed beyond the
 * extent. */
bool format_is_complete(const Format *f, const Type *t);
const Expr *format_extent(Ctx *c, const Format *f, const Type *t, uint32_t p);
/* elements, padding included */
const Expr *format_count(Ctx *c, const Format *f, const Type *t);
/* t stored in f, as a plain tensor; and where the element at an index is in it, to [f->npart] */
const Type *format_type(Ctx *c, const Format *f, const Type *t);
void format_index(Ctx *c, const Format *f, const Expr *const *at, const Expr **to);
void format_print(Text *t, const Format *f); /* [0/14, 1, 0%14] */
/* Rearrange a static tensor: plain `from` into `to` [format_count elements]. */
bool format_apply(const Format *f, const Type *t, const void *from, void *to);
/* The number of slices that are contiguous in memory, and the bytes of each; 0: the tensor is not
 * static. */
int64_t format_slices(const Format *f, const Type *t, int64_t *bytes);
/* Slices first <= i < end into `to`, which has room for those alone. */
bool format_apply_slices(const Format *f, const Type *t, const void *from, void *to, int64_t first,
                         int64_t end);

#endif
