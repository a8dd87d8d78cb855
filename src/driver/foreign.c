/* foreign: files of other formats that people give for a model.
 *
 * They are recognised by leading bytes that neither ONNX nor Tenon's text has there. The message
 * says what the file is and how to make a model of it.
 */
#include <string.h>

#include "driver/internal.h"

/* That of safetensors is the upper part of its header's length and the header's begin. */
static const struct {
    uint32_t at;
    const char *bytes;
    uint32_t n;
    const char *what;
} foreign[] = {
    { 0, "\177ELF", 4,
      "this is a library, compiled already; give the model it was compiled from (.onnx or .tn)" },
    { 0, "GGUF", 4,
      "this is a GGUF file, weights of llama.cpp; export the model that it was made from to ONNX: "
      "optimum-cli export onnx --model FOLDER OUT" },
    { 5, "\0\0\0{\"", 5,
      "this is a safetensors file, weights without a model; export the folder that it is from to "
      "ONNX: optimum-cli export onnx --model FOLDER OUT" },
    { 4, "TFL3", 4,
      "this is a TensorFlow Lite model; convert it to ONNX: "
      "python -m tf2onnx.convert --tflite FILE --output OUT.onnx" },
    { 0, "PK\3\4", 4,
      "this is a zip archive, as PyTorch saves models; load it in Python and export it to ONNX: "
      "torch.onnx.export(model, inputs, \"OUT.onnx\", dynamo=True)" },
    { 0, "\211HDF", 4,
      "this is an HDF5 file, as Keras saves models; load it in Python and export it to ONNX: "
      "model.export(\"OUT.onnx\", format=\"onnx\")" },
};

const char *
driver_foreign_file(Bytes file)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (file.bytes >= foreign[i].at + foreign[i].n &&
            !memcmp((const char *)file.data + foreign[i].at, foreign[i].bytes, foreign[i].n))
            return foreign[i].what;
    return NULL;
}
