/* dtype: the element types, in one table, and single values of them. Nothing here is symbolic, so the
 * runtime uses it alone. */
#ifndef TENON_DTYPE_H
#define TENON_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { KIND_NONE, KIND_FLOAT, KIND_INT, KIND_UINT, KIND_BOOL } DTypeKind;

/*        name   bytes kind        C type      npy    onnx  */
#define DTYPES(X)                                              \
    X(F32,  "f32",  4, KIND_FLOAT, "float",    "<f4",  1)      \
    X(F64,  "f64",  8, KIND_FLOAT, "double",   "<f8", 11)      \
    X(F16,  "f16",  2, KIND_FLOAT, "tn_f16",   "<f2", 10)      \
    X(BF16, "bf16", 2, KIND_FLOAT, "tn_bf16",  "",    16)      \
    X(I8,   "i8",   1, KIND_INT,   "int8_t",   "|i1",  3)      \
    X(I16,  "i16",  2, KIND_INT,   "int16_t",  "<i2",  5)      \
    X(I32,  "i32",  4, KIND_INT,   "int32_t",  "<i4",  6)      \
    X(I64,  "i64",  8, KIND_INT,   "int64_t",  "<i8",  7)      \
    X(U8,   "u8",   1, KIND_UINT,  "uint8_t",  "|u1",  2)      \
    X(U16,  "u16",  2, KIND_UINT,  "uint16_t", "<u2",  4)      \
    X(U32,  "u32",  4, KIND_UINT,  "uint32_t", "<u4", 12)      \
    X(U64,  "u64",  8, KIND_UINT,  "uint64_t", "<u8", 13)      \
    X(BOOL, "bool", 1, KIND_BOOL,  "uint8_t",  "|b1",  9)

typedef enum {
    DT_NONE,
#define X(id, name, bytes, kind, ctype, npy, onnx) DT_##id,
    DTYPES(X)
#undef X
    DT_COUNT
} DType;

typedef struct { const char *name; uint8_t bytes; DTypeKind kind; const char *ctype, *npy; int onnx; } DTypeInfo;
extern const DTypeInfo dtype_info[DT_COUNT];         /* row 0 is "none" with 0 bytes */

DType dtype_from_name(const char *name, size_t n);   /* DT_NONE if there is none */
DType dtype_from_onnx(int onnx);
DType dtype_from_npy(const char *descr);
static inline bool dtype_is_float(DType t) { return dtype_info[t].kind == KIND_FLOAT; }
static inline bool dtype_is_int(DType t) { return dtype_info[t].kind == KIND_INT || dtype_info[t].kind == KIND_UINT; }

#define TN_MAX_RANK 12               /* a named limit: tensors of higher rank are refused by name */

/* ---- values of an element type (number.c) -------------------------------------------------------- */

/* One value; its element type is known from where it stands. Floats are held in f, already rounded
 * to their type; everything else in i: sign- or zero-extended, bool 0 or 1, u64 as its bits. */
typedef union { double f; int64_t i; } Number;

double round_to_dtype(DType t, double v);            /* nearest value of a float type, ties to even */
int64_t wrap_to_dtype(DType t, int64_t v);           /* two's complement; bool: 0 or 1 */
static inline Number number_float(DType t, double v) { return (Number){ .f = round_to_dtype(t, v) }; }
static inline Number number_int(DType t, int64_t v) { return (Number){ .i = wrap_to_dtype(t, v) }; }
/* Floats to integers truncate; what does not fit becomes the nearest end of the range, NaN becomes 0. */
Number number_cast(DType to, DType from, Number v);
/* Element `at` of an array, which need not be aligned. Storing rounds a float, and keeps the low bits
 * of an integer. */
Number number_load(DType t, const void *data, int64_t at);
void number_store(DType t, void *data, int64_t at, Number v);
double number_get(DType t, const void *data, int64_t at);     /* the element as a double */
/* |x - y| of two elements, exact before it is rounded to double; 0 for two NaN, infinite for one. */
double number_distance(DType t, const void *x, const void *y, int64_t at);

#endif
