/* dtype: the table of element types and its look-ups. */
#include "type/dtype.h"

#include <string.h>

const DTypeInfo dtype_info[DT_COUNT] = { [DT_NONE] = { "none", 0, 0, KIND_NONE, "void", "", 0 },
#define X(id, name, bits, bytes, kind, ctype, npy, onnx)                                           \
    [DT_##id] = { name, bits, bytes, kind, ctype, npy, onnx },
                                         DTYPES(X)
#undef X
};

DType
dtype_from_name(const char *name, size_t n)
{
    for (int t = DT_NONE + 1; t < DT_COUNT; t++)
        if (strlen(dtype_info[t].name) == n && memcmp(dtype_info[t].name, name, n) == 0)
            return (DType)t;
    return DT_NONE;
}

DType
dtype_from_onnx(int onnx)
{
    for (int t = DT_NONE + 1; t < DT_COUNT; t++)
        if (dtype_info[t].onnx == onnx)
            return (DType)t;
    return DT_NONE;
}

/* NumPy itself has no bf16: it calls that of ml_dtypes two bytes without meaning, <V2 or |V2. */
DType
dtype_from_npy(const char *descr)
{
    if (!strcmp(descr, "|V2"))
        return DT_BF16;
    for (int t = DT_NONE + 1; t < DT_COUNT; t++)
        if (*dtype_info[t].npy && strcmp(dtype_info[t].npy, descr) == 0)
            return (DType)t;
    return DT_NONE;
}

DType
dtype_word(int64_t extent, int bits)
{
    return extent % (dtype_info[DT_I32].bits / bits) == 0  ? DT_I32
           : extent % (dtype_info[DT_U8].bits / bits) == 0 ? DT_U8
                                                           : DT_NONE;
}
