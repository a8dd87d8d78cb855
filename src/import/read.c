/* read: reads a model's file into parsed messages (proto.h). */
#include "import/call.h"

#include <inttypes.h>
#include <string.h>

#define DEFAULT_MODEL_BYTES ((int64_t)64 << 30)

OnnxModel *
model_read(Ctx *c, Arena *arena, const char *path, Bytes file, const ImportOptions *o)
{
    Loc loc = { .file = path };
    int64_t most = o && o->max_model_bytes ? o->max_model_bytes : DEFAULT_MODEL_BYTES;

    if (file.bytes == 0) {
        diag_error(&c->diags, DIAG_MODEL, loc, "the file is empty");
        return NULL;
    }
    if ((uint64_t)file.bytes > (uint64_t)most) {
        diag_error(&c->diags, DIAG_LIMIT, loc,
                   "the model has %zu bytes, the limit is %" PRId64 "; raise it with --max-model",
                   file.bytes, most);
        return NULL;
    }
    OnnxModel *m = NEW(arena, OnnxModel);
    if (!proto_read(c, arena, &(ProtoSource){ loc, "ONNX model", file, true }, &proto_Model, m))
        return NULL;
    if (!m->graph) {
        diag_error(&c->diags, DIAG_MODEL, loc, "the model has no graph");
        return NULL;
    }
    return m;
}

int64_t
model_opset(const OnnxModel *m)
{
    int64_t v = 1;
    for (size_t i = 0; i < m->n_opset_import; i++) {
        const char *domain = m->opset_import[i]->domain;
        if (!domain || !*domain || !__builtin_strcmp(domain, "ai.onnx"))
            v = m->opset_import[i]->version;
    }
    return v;
}

Loc
node_loc(Arena *a, const char *path, const OnnxNode *n, uint32_t index)
{
    const char *name = n->name && *n->name ? n->name : n->n_output ? n->output[0] : "";
    return (Loc){ .file = path,
                  .node = arena_printf(a, "node %u %s \"%s\"", index, n->op_type ? n->op_type : "?",
                                       name) };
}

bool
import_is_onnx(Bytes file)
{
    static const char *const words[] = { "graph ", "data ", "nest " };

    /* A ModelProto begins with a field tag, Tenon's text with one of these words, white space or a
     * comment. */
    for (size_t i = 0; i < file.bytes && i < 256; i++) {
        uint8_t ch = file.data[i];
        if (ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r')
            continue;
        if (ch == ';')
            return false;
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            if (file.bytes - i >= strlen(words[k]) &&
                !memcmp(file.data + i, words[k], strlen(words[k])))
                return false;
        return true;
    }
    return true;
}
