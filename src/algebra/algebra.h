/* algebra: rewritings of a nest. Each returns a new nest with the same meaning.
 *
 * A rewriting sees one nest (inlining: two), decides nothing about when it pays, and returns NULL or
 * the nest itself, quietly, where it does not apply.
 */
#ifndef TENON_ALGEBRA_H
#define TENON_ALGEBRA_H

#include "nest/nest.h"
#include "type/layout.h"

/* Put `producer`'s value (its output `out`, one plain write at bare axes) in place of every read of
 * `consumer`'s input `slot`. The result has consumer's other inputs first, in order, then
 * producer's inputs (inputs_map[i] gives the slot of consumer input i, or NO_SLOT for `slot`;
 * producer's inputs follow at producer_base + i). Outputs are consumer's. NULL, quietly, when it
 * cannot: scans, combining writes, a read under a guard that the producer could not evaluate. */
const Nest *nest_inline(Ctx *c, const Nest *consumer, uint32_t slot, const Nest *producer,
                        uint32_t out);
/* The same, where producer's input i is the tensor that is consumer's input same[i] (not `slot`),
 * and needs no slot of its own; NO_SLOT: another one. What has a slot follows in order. */
const Nest *nest_inline_same(Ctx *c, const Nest *consumer, uint32_t slot, const Nest *producer,
                             uint32_t out, const uint32_t *same);
/* Split axes that appear under // and % by a constant that divides them, drop axes of extent 1,
 * simplify every Expr with the axes' ranges, drop guards that are proved inside. Parallel axes are
 * split where a product shows that was hidden: a grouped or a transposed convolution's. n itself if
 * it is simple. */
const Nest *nest_simplify(Ctx *c, const Nest *n);
/* Divisors that a sum does not vary with divide the sum instead; n itself if there are none. */
const Nest *nest_factor(Ctx *c, const Nest *n);
/* Reads input `slot` as it lies in a format: the input has its physical type. NULL, quietly, where
 * a read may be outside of the tensor: what is outside is then inside of the padding. */
const Nest *nest_relayout(Ctx *c, const Nest *n, uint32_t slot, const Format *format);
/* Parameter `slot` lies so: its type has the dimensions that are in memory, reads and writes index
 * those. What reads beyond the tensor finds the room where that says the same. Who writes it fills
 * its room. NULL, quietly, where a dimension that is written in blocks or with room is not written
 * along one axis of its own. */
const Nest *nest_lay(Ctx *c, const Nest *n, uint32_t slot, const Layout *l);
/* Parameter `slot` lies with its dimensions in another order: dimension d of what is read or
 * written there is the old order[d]. */
const Nest *nest_permute(Ctx *c, const Nest *n, uint32_t slot, const uint8_t *order);
/* Parallel axes behind the first `kept` in the order in which the first write's dimensions name
 * them; n itself where they are, or an extent is computed from axes or data. */
const Nest *nest_axes_as_written(Ctx *c, const Nest *n, uint32_t kept);
/* Parallel axes in the order in which they are the dimensions of a read, others behind, and those
 * of one point in front. */
const Nest *nest_axes_as_read(Ctx *c, const Nest *n, const Scalar *load);
/* The parameter behind `load` laid out as [axis[0], axis[1], …], which are all axes that the load
 * uses: the nest reads it there, and *move makes it of the old one. NULL where the parameter is
 * read elsewhere as well. */
const Nest *nest_relay_input(Ctx *c, const Nest *n, const Scalar *load, const uint32_t *axis,
                             uint32_t rank, const Nest **move);
/* The only output laid out as all parallel axes in the order given; *move makes the old one of
 * it. */
const Nest *nest_relay_output(Ctx *c, const Nest *n, const uint32_t *axis, uint32_t rank,
                              const Nest **move);
/* Two summands at a time: sums of i32 of products of integers of 16 bits (dot2), and of f32 of
 * products of bf16 (dot2f), as far as there is such a step; n itself where it is neither. */
const Nest *nest_pair_products(Ctx *c, const Nest *n, bool integers, bool floats);
/* The same of 8 bits, four at a time (dot4). constant[i]: input i is; constant factors are taken
 * for the signed side if they can be. What one factor lacks to be unsigned, or the other to be
 * signed, counts times the sums of the other: nests that make them of n's inputs, one for each new
 * input behind the others. */
enum { MOST_QUAD_SUMS = 2 };
typedef struct {
    uint32_t n;
    const Nest *nest[MOST_QUAD_SUMS];
} QuadSums;
const Nest *nest_quad_products(Ctx *c, const Nest *n, const bool *constant, QuadSums *sums);
/* A sum of whole numbers over a window and over what lies at each of its points, in two: *points
 * sums what lies at each point, of n's inputs; the result reads that as a last input. NULL,
 * quietly: it is none. (window_sum.c) */
const Nest *nest_window_sum(Ctx *c, const Nest *n, const Nest **points);
/* The only output is, along one dimension, input `slot` from its beginning to its end, and behind
 * it something else, as a concatenation is: that something as a nest of its own, of those inputs
 * that keep[nin] tells. *dim: that dimension. NULL, quietly, where it is something else. */
const Nest *nest_behind(Ctx *c, const Nest *n, uint32_t slot, uint32_t *dim, bool *keep);
/* The only output is all inputs side by side along dimension *dim, each once and nothing else: slot
 * [nin] in their order. */
bool nest_beside(Ctx *c, const Nest *n, uint32_t *dim, uint32_t *slot);
/* A factor of a product as a tensor of its own, in place of input *slot, of which it reads most:
 * *made computes it, of those inputs of n that keep[nin] tells. NULL, quietly, where the factor is
 * a bare read of no more, or what it reads follows from more than its own axes, or is read
 * elsewhere as well. */
const Nest *nest_outline_factor(Ctx *c, const Nest *n, const Scalar *factor, uint32_t *slot,
                                const Nest **made, bool *keep);
/* n without the sum of its only product, which is the last input instead, of the output's type:
 * keep[nin + 1] tells which inputs stay. Write 0 is at bare axes. */
const Nest *nest_outline_sum(Ctx *c, const Nest *n, const Scalar *sum, bool *keep);
/* A reduction axis walked from its end: floats are added in another order. */
const Nest *nest_reverse(Ctx *c, const Nest *n, uint32_t axis);

#endif
