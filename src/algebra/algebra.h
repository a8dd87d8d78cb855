/* algebra: rewritings of a nest. Each returns a new nest with the same meaning.
 *
 * A rewriting sees one nest (inlining: two), does not decide whether it pays, and returns NULL or
 * the nest itself, quietly, where it does not apply.
 */
#ifndef TENON_ALGEBRA_H
#define TENON_ALGEBRA_H

#include "nest/nest.h"

/* Substitute the value of `producer`'s first output (one plain write at bare axes) for every read
 * of `consumer`'s input `slot`. The result has consumer's other inputs first, in order, then
 * producer's inputs. Outputs are consumer's. NULL, quietly, where it cannot: scans, combining
 * writes, a read under a guard that the producer could not evaluate. */
const Nest *nest_inline(Ctx *c, const Nest *consumer, uint32_t slot, const Nest *producer);
/* The same for its output `out`, where producer's input i is the tensor of consumer's input same[i]
 * (not `slot`), and gets no slot of its own; NO_SLOT: another tensor. The other inputs follow in
 * order. */
const Nest *nest_inline_same(Ctx *c, const Nest *consumer, uint32_t slot, const Nest *producer,
                             uint32_t out, const uint32_t *same);
/* Split axes that appear under // and % by a constant that divides them, drop axes of extent 1,
 * simplify every Expr with the axes' ranges, drop guards that are proved inside. Parallel axes are
 * split if that reveals a contraction: a grouped or a transposed convolution's. n itself if it is
 * simple. */
const Nest *nest_simplify(Ctx *c, const Nest *n);
/* A divisor of a summand that does not vary with the sum divides the sum instead; n itself if there
 * is none. */
const Nest *nest_factor(Ctx *c, const Nest *n);
/* Reads or writes parameter `slot` in a format: the parameter gets its physical type. NULL,
 * quietly, if the format has padding and the parameter is written, or read where a read may be
 * outside of the tensor, or if a dimension of several parts is not written along an axis of its
 * own. */
const Nest *nest_reindex(Ctx *c, const Nest *n, uint32_t slot, const Format *format);
/* The same for an order of dimensions: dimension d of what is read or written there is the old
 * order[d]. */
const Nest *nest_permute(Ctx *c, const Nest *n, uint32_t slot, const uint8_t *order);
/* Parallel axes after the first `kept` in the order in which the first write's dimensions use them;
 * n itself if they are already, or an extent is computed from axes or data. */
const Nest *nest_axes_as_written(Ctx *c, const Nest *n, uint32_t kept);
/* Parallel axes in the order of the dimensions of a read, others after them, and those of one point
 * first. */
const Nest *nest_axes_as_read(Ctx *c, const Nest *n, const Scalar *load);
/* The only output with a dimension for each of its axes, in the given order; *move makes the old
 * one from it. NULL, quietly: it is not written plainly. (reindex.c) */
const Nest *nest_output_along(Ctx *c, const Nest *n, const uint32_t *axis, uint32_t rank,
                              const Nest **move);
/* Two summands at a time: sums of i32 of products of 16-bit integers (dot2), and of f32 of products
 * of bf16 (dot2f), where requested; n itself if it is neither. */
const Nest *nest_dot2_products(Ctx *c, const Nest *n, bool integers, bool floats);
/* The same for 8 bits, four at a time: dot4, or dot4s if the instruction has two signed sides.
 * constant[i]: input i is; constant factors preferably become the second, signed side. If a factor
 * has not the sign of its side, a correction times the sums of the other factor is added: nests that make these sums from n's inputs, one for each
 * new input after the others. */
enum { MOST_DOT4_SUMS = 2 };
typedef struct {
    uint32_t n;
    const Nest *nest[MOST_DOT4_SUMS];
} Dot4Sums;
const Nest *nest_dot4_products(Ctx *c, const Nest *n, const bool *constant, bool both_signed,
                               Dot4Sums *sums);
/* A sum of whole numbers over a window and over other axes at each of its points, in two steps:
 * *points sums at each point, from n's inputs; the result reads that as its last input. NULL,
 * quietly: no such sum. (window_sum.c) */
const Nest *nest_window_sum(Ctx *c, const Nest *n, const Nest **points);
/* The only output begins, along one dimension, with all of input `slot`, as a concatenation does:
 * the rest as a nest of its own. *dim: that dimension. NULL, quietly: no such output. */
const Nest *nest_appended(Ctx *c, const Nest *n, uint32_t slot, uint32_t *dim);
/* The only output is the concatenation of all inputs along dimension *dim, each once and nothing
 * else: slot [nin] in their order. */
bool nest_is_concat(Ctx *c, const Nest *n, uint32_t *dim, uint32_t *slot);
/* A node of n's only write as a tensor of its own, with a dimension for each of axis [rank], which
 * are all the axes that it varies with. *made, of that name, computes it from n's inputs (made
 * NULL: not wanted); the result reads it, in place of input `slot`, or as a new last input
 * (NO_SLOT), and has no axes that only the node sums over. NULL, quietly: other nodes read `slot`,
 * or an extent varies. */
const Nest *nest_outline(Ctx *c, const Nest *n, const Scalar *s, uint32_t slot,
                         const uint32_t *axis, uint32_t rank, const char *name, const Nest **made);
/* The same for a factor of a product, through windows and their padding: in place of input *slot,
 * its largest read, whose dimensions it has, or those that the axes there have. *made is of all
 * inputs of n. NULL, quietly, if the factor depends on more than its own axes, or its operand has
 * other reads. */
const Nest *nest_outline_factor(Ctx *c, const Nest *n, const Scalar *factor, uint32_t *slot,
                                const Nest **made);
/* A reduction axis reversed: floats are added in another order. */
const Nest *nest_reverse(Ctx *c, const Nest *n, uint32_t axis);

#endif
