/* constant_form: constants whose elements follow from their indices, as nests that read nothing:
 * single numbers, whole numbers of steady steps, and two numbers of which one stands in a band of
 * the last two dimensions, as exporters store masks. Other masks are bytes. */
#ifndef TENON_CONSTANT_FORM_H
#define TENON_CONSTANT_FORM_H

#include "graph/graph.h"

/* The same value at each point of a type. */
const Nest *form_of_scalar(Ctx *c, const char *name, const Type *t, const Scalar *value);

/* A constant of one element; NULL: v is none. */
const Nest *form_of_number(Ctx *c, const Value *v);

/* A constant of two numbers, of which one hides what it is added to (a mask), as a choice by a byte
 * for each element: the bytes are a new constant of g, *bytes. NULL: v is none. */
const Nest *form_of_mask(Graph *g, const Value *v, ValueId *bytes);

/* A larger constant; NULL: v is none, or does not follow from its indices. */
const Nest *form_of_constant(Ctx *c, const Value *v);

#endif
