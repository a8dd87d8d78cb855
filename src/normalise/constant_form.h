/* constant_form: constants whose elements follow from their indices, as nests without inputs:
 * single numbers, arithmetic progressions of whole numbers, and two-valued masks whose second value
 * fills a band of the last two dimensions. Other masks become bits. */
#ifndef TENON_CONSTANT_FORM_H
#define TENON_CONSTANT_FORM_H

#include "graph/graph.h"

/* A constant of one element; NULL: it has more. */
const Nest *form_of_number(Ctx *c, const Value *v);

/* A two-valued constant [..., rows, columns], one of which hides the score that it is added to, or of
 * bools, as a test of one bit for each element:
 *
 *     (m[..., i // 32, j] & 1 << i % 32) != 0
 *
 * The words are a new constant of g, *bits. A tile of rows and columns then reads one line of
 * memory for 32 rows and 16 columns, whichever of the two are lanes. NULL: no such constant, or of
 * few rows. */
const Nest *form_of_mask(Graph *g, const Value *v, ValueId *bits);

/* A larger constant; NULL: its elements do not follow from its indices. */
const Nest *form_of_constant(Ctx *c, const Value *v);

#endif
