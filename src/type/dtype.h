/* dtype: the element types, in one table, and single values of them. Nothing here is symbolic, so
 * the runtime uses it alone. */
#ifndef TENON_DTYPE_H
#define TENON_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    KIND_NONE,
    KIND_FLOAT,
    KIND_INT,
    KIND_UINT,
    KIND_BOOL,
    KIND_TEXT,
    KIND_COUNT
} DTypeKind;

/* Types of fewer than 8 bits take a byte each, in memory and in the API; files pack them. Integers
 * are stored as numbers, floats as their bits. A string is the address of a 0-terminated string
 * (const char *; NULL is an empty one): nests move its 64 bits, only library routines read its
 * characters. */
/*        name           bits bytes kind        C type           npy    onnx  */
#define DTYPES(X)                                                                                  \
    X(F32, "f32", 32, 4, KIND_FLOAT, "float", "<f4", 1)                                            \
    X(F64, "f64", 64, 8, KIND_FLOAT, "double", "<f8", 11)                                          \
    X(F16, "f16", 16, 2, KIND_FLOAT, "tn_f16", "<f2", 10)                                          \
    X(BF16, "bf16", 16, 2, KIND_FLOAT, "tn_bf16", "<V2", 16)                                       \
    X(F8E4M3, "f8e4m3fn", 8, 1, KIND_FLOAT, "tn_f8", "", 17)                                       \
    X(F8E4M3Z, "f8e4m3fnuz", 8, 1, KIND_FLOAT, "tn_f8", "", 18)                                    \
    X(F8E5M2, "f8e5m2", 8, 1, KIND_FLOAT, "tn_f8", "", 19)                                         \
    X(F8E5M2Z, "f8e5m2fnuz", 8, 1, KIND_FLOAT, "tn_f8", "", 20)                                    \
    X(F8E8M0, "f8e8m0", 8, 1, KIND_FLOAT, "tn_f8", "", 24)                                         \
    X(F6E2M3, "f6e2m3", 6, 1, KIND_FLOAT, "tn_f8", "", 27)                                         \
    X(F6E3M2, "f6e3m2", 6, 1, KIND_FLOAT, "tn_f8", "", 28)                                         \
    X(F4E2M1, "f4e2m1", 4, 1, KIND_FLOAT, "tn_f8", "", 23)                                         \
    X(I8, "i8", 8, 1, KIND_INT, "int8_t", "|i1", 3)                                                \
    X(I16, "i16", 16, 2, KIND_INT, "int16_t", "<i2", 5)                                            \
    X(I32, "i32", 32, 4, KIND_INT, "int32_t", "<i4", 6)                                            \
    X(I64, "i64", 64, 8, KIND_INT, "int64_t", "<i8", 7)                                            \
    X(I4, "i4", 4, 1, KIND_INT, "int8_t", "", 22)                                                  \
    X(I2, "i2", 2, 1, KIND_INT, "int8_t", "", 26)                                                  \
    X(U8, "u8", 8, 1, KIND_UINT, "uint8_t", "|u1", 2)                                              \
    X(U16, "u16", 16, 2, KIND_UINT, "uint16_t", "<u2", 4)                                          \
    X(U32, "u32", 32, 4, KIND_UINT, "uint32_t", "<u4", 12)                                         \
    X(U64, "u64", 64, 8, KIND_UINT, "uint64_t", "<u8", 13)                                         \
    X(U4, "u4", 4, 1, KIND_UINT, "uint8_t", "", 21)                                                \
    X(U2, "u2", 2, 1, KIND_UINT, "uint8_t", "", 25)                                                \
    X(BOOL, "bool", 8, 1, KIND_BOOL, "uint8_t", "|b1", 9)                                          \
    X(STR, "str", 64, 8, KIND_TEXT, "uint64_t", "", 8)

typedef enum {
    DT_NONE,
#define X(id, name, bits, bytes, kind, ctype, npy, onnx) DT_##id,
    DTYPES(X)
#undef X
        DT_COUNT
} DType;

typedef struct {
    const char *name;
    uint8_t bits, bytes;
    DTypeKind kind;
    const char *ctype, *npy;
    int onnx;
} DTypeInfo;
extern const DTypeInfo dtype_info[DT_COUNT]; /* row 0 is "none" with 0 bytes */

DType dtype_from_name(const char *name, size_t n); /* DT_NONE if there is none */
DType dtype_from_onnx(int onnx);
DType dtype_from_npy(const char *descr);
static inline bool
dtype_is_float(DType t)
{
    return dtype_info[t].kind == KIND_FLOAT;
}
static inline bool
dtype_is_int(DType t)
{
    return dtype_info[t].kind == KIND_INT || dtype_info[t].kind == KIND_UINT;
}

/* Floats that are computed in f32 and rounded: all shorter ones. */
static inline bool
dtype_is_short(DType t)
{
    return dtype_is_float(t) && dtype_info[t].bits < 32;
}

/* How a float of 16 bits or fewer is encoded in sign, exponent and fraction. What represents no
 * number:
 *   FLOAT_IEEE    the largest exponent is infinity and NaN
 *   FLOAT_NAN     all bits but the sign set is NaN; no infinity
 *   FLOAT_NO_MINUS_ZERO   the pattern of -0 is NaN; no infinity
 *   FLOAT_FINITE  nothing does
 *   FLOAT_EXPONENT   no sign, no fraction and no zero: powers of two; all bits set is NaN
 */
typedef enum { FLOAT_IEEE, FLOAT_NAN, FLOAT_NO_MINUS_ZERO, FLOAT_FINITE, FLOAT_EXPONENT } FloatKind;
typedef struct {
    uint8_t exponent, fraction;
    uint8_t bias;
    FloatKind kind;
    double largest;
} FloatLayout;
FloatLayout dtype_layout(DType t); /* of a short float */

/* The word that numbers of `bits` bits, four or two, are packed into along a dimension of this
 * extent: i32, as wide as the lanes that they become, so that each is a shift away, where a byte
 * would first be widened; u8 if the last i32 would not be full; NONE: nothing. */
DType dtype_word(int64_t extent, int bits);

#define TN_MAX_RANK 12 /* limit: tensors of higher rank are refused by name */

/* ---- values of an element type (number.c) ---------------------------------------------------- */

/* One value of a type known from context. Floats are in f, rounded to their type; everything else
 * in i: sign- or zero-extended, bool 0 or 1, u64 as its bits. */
typedef union {
    double f;
    int64_t i;
} Number;

/* nearest value of a float type, ties to even */
double round_to_dtype(DType t, double v);
int64_t wrap_to_dtype(DType t, int64_t v); /* two's complement; bool: 0 or 1 */
static inline Number
number_float(DType t, double v)
{
    return (Number){ .f = round_to_dtype(t, v) };
}
static inline Number
number_int(DType t, int64_t v)
{
    return (Number){ .i = wrap_to_dtype(t, v) };
}
/* A float outside of its type's range becomes infinity in f16 and bf16, and the nearest end of the
 * range in a shorter type, where only infinity stays infinity, if there is one; f8e8m0 takes the
 * power of two above. NaN is 0 if the type has none. */
/* Floats to integers truncate; values out of range become the nearest end of the range, NaN becomes
 * 0. */
Number number_cast(DType to, DType from, Number v);
/* Element `at` of an array, which need not be aligned. Storing rounds a float, and keeps the low
 * bits of an integer. */
Number number_load(DType t, const void *data, int64_t at);
void number_store(DType t, void *data, int64_t at, Number v);
/* Stores these bits into element `at` of u8 or i32, which is zero there. */
void number_put_bits(DType word, void *data, int64_t at, uint32_t bits);
double number_get(DType t, const void *data, int64_t at); /* the element as a double */
/* Two bf16 as one i32, the first in its low half; and half 0 or 1 of such a pair. */
Number number_pair(Number low, Number high);
double number_half(Number pair, int half);
/* |x - y| of two elements, rounded to double once; 0 for two NaN, infinite for one. */
double number_distance(DType t, const void *x, const void *y, int64_t at);

#endif
