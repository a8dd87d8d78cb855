/* ml: shared by the converters of ai.onnx.ml. */
#ifndef TENON_IMPORT_ML_H
#define TENON_IMPORT_ML_H

#include "import/converters.h"

/* A list in an attribute: of strings, i64, f32, or a tensor's type. n 0: it is absent or empty. */
typedef struct {
    DType t;
    int64_t n;
    const void *data;
} AttrList;
/* The attribute of this name, or of its versions: BASE_strings, BASE_int64s, BASE_ints,
 * BASE_floats, BASE_tensor, BASE_as_tensor. */
bool ml_list(Call *k, const char *base, AttrList *out);
AttrList ml_floats(Call *k, const char *name); /* f32[n] of one attribute */
AttrList ml_ints(Call *k, const char *name);
double ml_number(const AttrList *l, int64_t i);
/* columns -1: a list */
ValueId ml_const(Call *k, const char *name, DType t, int64_t rows, int64_t columns,
                 const void *data);
ValueId ml_real(Call *k, ValueId v); /* as f32; f64 stays */
ValueId ml_rows(Call *k, ValueId x); /* with rank 2: rank 1 is one row */
/* Scores [n, m] after the transform of that name; 0 if it is unknown. */
ValueId ml_transform(Call *k, ValueId scores, const char *name);
/* The index of each x among the keys in their order; keys->n if it is not among them. Of equal keys
 * the first counts. */
ValueId ml_place(Call *k, ValueId x, const AttrList *keys);
/* Output i is v, under the node's name for it. */
bool ml_result(Call *k, uint32_t i, ValueId v);
/* Labels of classes by their numbers: output 0. */
bool ml_labels(Call *k, const AttrList *labels, ValueId which);
/* [-x, x] or [1 - x, x] of a column. */
ValueId ml_both(Call *k, ValueId x, bool negative);

#endif
