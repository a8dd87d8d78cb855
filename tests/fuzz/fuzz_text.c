/* fuzz_text: Tenon's own text. The corpus is the golden tests. What begins like ONNX is left to fuzz_onnx. */
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n && data[0] >= ' ')
        fuzz_model(data, n);
    return 0;
}
