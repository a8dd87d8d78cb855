/* pack_onnx: ONNX's messages written to bytes, by the tables that they are read by. */
#ifndef TENON_PACK_ONNX_H
#define TENON_PACK_ONNX_H

#include "import/proto.h"

#include <string.h>

/* out NULL: bytes are only counted. */
typedef struct {
    uint8_t *out;
    size_t n;
} Packed;

static void
pack_bytes(Packed *p, const void *from, size_t n)
{
    if (p->out && n)
        memcpy(p->out + p->n, from, n);
    p->n += n;
}

static void
pack_varint(Packed *p, uint64_t v)
{
    for (; v > 0x7f; v >>= 7)
        pack_bytes(p, &(uint8_t){ (uint8_t)(v | 0x80) }, 1);
    pack_bytes(p, &(uint8_t){ (uint8_t)v }, 1);
}

static void pack_message(Packed *p, const ProtoMessage *type, const void *from);

/* One value of a field, with its number. */
static void
pack_value(Packed *p, const ProtoField *f, const void *from)
{
    Packed inside = { 0 };
    const void *at = NULL;

    if (f->kind == PROTO_TEXT || f->kind == PROTO_MESSAGE)
        memcpy(&at, from, sizeof at);
    switch (f->kind) {
    case PROTO_I32:
        pack_varint(p, f->number << 3);
        pack_varint(p, (uint64_t)*(const int32_t *)from);
        break;
    case PROTO_I64:
    case PROTO_U64:
        pack_varint(p, f->number << 3);
        pack_varint(p, *(const uint64_t *)from);
        break;
    case PROTO_F32:
    case PROTO_F64:
        pack_varint(p, f->number << 3 | (f->kind == PROTO_F32 ? 5 : 1));
        pack_bytes(p, from, proto_bytes(f->kind));
        break;
    case PROTO_TEXT:
        pack_varint(p, f->number << 3 | 2);
        pack_varint(p, at ? strlen(at) : 0);
        pack_bytes(p, at, at ? strlen(at) : 0);
        break;
    case PROTO_BYTES:
        pack_varint(p, f->number << 3 | 2);
        pack_varint(p, ((const OnnxBytes *)from)->len);
        pack_bytes(p, ((const OnnxBytes *)from)->data, ((const OnnxBytes *)from)->len);
        break;
    case PROTO_MESSAGE:
        pack_message(&inside, f->message, at);
        pack_varint(p, f->number << 3 | 2);
        pack_varint(p, inside.n);
        pack_message(p, f->message, at);
    }
}

static void
pack_message(Packed *p, const ProtoMessage *type, const void *message)
{
    for (uint32_t i = 0; i < type->nfield; i++) {
        const ProtoField *f = &type->field[i];
        const char *from = message, *at = from + f->at, *mark = from + f->mark;
        size_t n;
        if (f->rule == PROTO_MANY) {
            n = *(const size_t *)mark;
            memcpy(&at, at, sizeof at);
        } else if (f->rule == PROTO_EITHER)
            n = *(const uint32_t *)mark == f->number;
        else if (f->message)
            n = memcmp(at, &(void *){ NULL }, sizeof(void *)) != 0;
        else
            n = *(const bool *)mark;
        for (size_t k = 0; k < n; k++)
            pack_value(p, f, at + k * proto_bytes(f->kind));
    }
}

/* Bytes written; 0: there are more than `most`, or none. */
static size_t
pack_onnx(const Onnx__ModelProto *m, uint8_t *out, size_t most)
{
    Packed p = { 0 };

    pack_message(&p, &proto_ModelProto, m);
    if (p.n > most)
        return 0;
    p = (Packed){ .out = out };
    pack_message(&p, &proto_ModelProto, m);
    return p.n;
}

#endif
