/* callee: ONNX models that a text calls, `graph @cell = file "cell.onnx"`.
 *
 * The text parser of src/graph cannot read ONNX, so it gets this loader. Options about sizes and
 * states are about the calling model and are not passed on.
 */
#include "driver/internal.h"

static Graph *
load(void *user, Ctx *c, Arena *arena, const char *path, const char *name)
{
    const ImportOptions *given = user;
    ImportOptions o = { .prefix = name };
    Bytes file;

    if (given) {
        o.max_model_bytes = given->max_model_bytes;
        o.max_nodes = given->max_nodes;
        o.seed = given->seed;
        o.nests = given->nests;
        o.library = given->library;
    }
    if (!import_map(c, arena, path, false, &file))
        return NULL;
    if (!import_is_onnx(file)) {
        diag_error(&c->diags, DIAG_MODEL, (Loc){ .file = path },
                   "graph @%s is to be an ONNX model; Tenon's text calls graphs that it contains",
                   name);
        return NULL;
    }
    return import_onnx(c, arena, path, file, &o);
}

GraphLoader
driver_loader(const ImportOptions *o)
{
    return (GraphLoader){ load, (void *)(uintptr_t)o };
}
