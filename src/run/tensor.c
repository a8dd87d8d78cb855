/* tensor: the size of a tensor of known dimensions, and its type as text. */
#include "run/run.h"

bool
tensor_bytes(DType dtype, uint32_t rank, const int64_t *dims, int64_t *bytes)
{
    int64_t n = dtype_info[dtype].bytes;
    bool empty = false, big = false;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return false;
        empty |= dims[i] == 0;
        big |= mul_overflows(n, dims[i] ? dims[i] : 1, &n) || n > INT64_MAX / 2;
        n = big ? 1 : n;
    }
    *bytes = empty ? 0 : n;
    return !big;
}

const char *
dims_text(Arena *a, DType dtype, uint32_t rank, const int64_t *dims)
{
    Text t = { .arena = a };
    text_printf(&t, "%s[", dtype_info[dtype].name);
    for (uint32_t i = 0; i < rank; i++)
        text_printf(&t, "%s%lld", i ? ", " : "", (long long)dims[i]);
    text_add(&t, "]");
    return text_str(&t);
}
