/* foreign: files and folders of other formats that people give for a model.
 *
 * Files are recognised by leading bytes that neither ONNX nor Tenon's text has there, folders by a
 * file in them. The message says what it is and how to make a model of it.
 */
#include <string.h>
#include <unistd.h>

#include "import/import.h"

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
    { 0,
      "\x80\2\x8a\nl\xfc\x9c"
      "F\xf9 j\xa8P\x19",
      14,
      "this is a pickle, as PyTorch saved models before 1.6; load it in Python and export it to "
      "ONNX: torch.onnx.export(model, inputs, \"OUT.onnx\", dynamo=True)" },
};

/* Files that a folder is known by, the most telling first. */
static const struct {
    const char *file, *what;
} folder[] = {
    { "model.onnx", "this is a folder with a model in it; give %s/model.onnx" },
    { "onnx/model.onnx", "this is a folder with a model in it; give %s/onnx/model.onnx" },
    { "saved_model.pb", "this is a folder of TensorFlow (saved_model.pb); convert it to ONNX: "
                        "python -m tf2onnx.convert --saved-model %s --output OUT.onnx" },
    { "config.json", "this is a folder of Hugging Face (config.json), weights without a model; "
                     "export it to ONNX: optimum-cli export onnx --model %s OUT" },
};

static const char *
folder_is(Arena *a, const char *path)
{
    for (size_t i = 0; i < sizeof folder / sizeof *folder; i++)
        if (!access(arena_printf(a, "%s/%s", path, folder[i].file), F_OK)) {
            Text t = { .arena = a };
            const char *name = strstr(folder[i].what, "%s");
            text_printf(&t, "%.*s%s%s", (int)(name - folder[i].what), folder[i].what, path,
                        name + 2);
            return text_str(&t);
        }
    return NULL;
}

static const char *
file_is(Bytes file)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (file.bytes >= foreign[i].at + foreign[i].n &&
            !memcmp((const char *)file.data + foreign[i].at, foreign[i].bytes, foreign[i].n))
            return foreign[i].what;
    return NULL;
}

static bool
file_is_library(Bytes file)
{
    return file.bytes >= 4 && !memcmp(file.data, "\177ELF", 4);
}

bool
import_map(Ctx *c, Arena *a, const char *path, bool library, Bytes *out)
{
    const char *what = folder_is(a, path);

    if (!what && !file_map(a, &c->diags, path, out))
        return false;
    if (!what && !(library && file_is_library(*out)))
        what = file_is(*out);
    return !what || diag_error(&c->diags, DIAG_MODEL, (Loc){ .file = path }, "%s", what);
}
