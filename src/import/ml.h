/* ml: shared by the converters of ai.onnx.ml. */
#ifndef TENON_IMPORT_ML_H
#define TENON_IMPORT_ML_H

#include "import/converters.h"

/* The attribute in one of its forms: BASE_strings, BASE_int64s, BASE_ints, BASE_floats,
 * BASE_tensor, BASE_as_tensor. */
AttrList ml_list(Call *k, const char *base);
double ml_number(const AttrList *l, int64_t i);
ValueId ml_table(Call *k, const char *name, DType t, int64_t rows, int64_t columns,
                 const void *data);
/* Input 0 is x in texts: rows of numbers, f64 if they are, otherwise f32. A list is one row. */
bool ml_rows(Call *k, const char *names);
/* Applies the transform of that name to `scores`. */
bool ml_transform(Call *k, const char *name);
/* Gives the node's results `label` and `scores`, which are transformed: labels by `which`. */
bool ml_give(Call *k, const AttrList *labels, const char *transform);
/* The index of each x among the keys in their order; keys->n if it is not among them. Of equal keys
 * the first counts. */
ValueId ml_place(Call *k, ValueId x, const AttrList *keys);

#endif
