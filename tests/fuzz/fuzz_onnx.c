/* fuzz_onnx: bytes of ONNX files. The corpus has small models of every kind of node. */
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_model(data, n);
    return 0;
}
