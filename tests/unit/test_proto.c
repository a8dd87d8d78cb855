/* The reader of ONNX's wire format, on bytes written here: what is read, and what is refused. */
#include "world.h"

#include "import/proto.h"

#include <string.h>

typedef struct {
    const char *name, *bytes;
    size_t n;
    const char *says; /* a part of the message; NULL: it is read */
} Case;
#define BYTES(text) text, sizeof(text) - 1

static OnnxTensor *
tensor_of(World *w, const char *bytes, size_t n)
{
    OnnxTensor *t = NEW(w->arena, OnnxTensor);
    ProtoSource from = { .what = "TensorProto", .bytes = { (const uint8_t *)bytes, n } };

    return proto_read(&w->ctx, w->arena, &from, &proto_Tensor, t) ? t : NULL;
}

/* dims 2, 3 apart and -1, 300 packed; float_data apart, packed; raw_data; a name; data_type; an
 * unknown field of each form. */
static void
fields_are_read(void **state)
{
    World *w = *state;
    const OnnxTensor *t = tensor_of(
        w, BYTES("\x08\x02\x08\x03\x0a\x0c\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\xac\x02"
                 "\x25\0\0\x80\x3f\x22\x08\0\0\0\x40\0\0\x40\x40"
                 "\x4a\x03"
                 "a\0b"
                 "\x42\x02"
                 "xy"
                 "\x10\x07"
                 "\xf8\x07\x05\xf9\x07"
                 "12345678\xfa\x07\x02zz\xfd\x07"
                 "1234"));

    assert_non_null(t);
    assert_int_equal(t->n_dims, 4);
    assert_true(t->dims[0] == 2 && t->dims[1] == 3 && t->dims[2] == -1 && t->dims[3] == 300);
    assert_int_equal(t->n_float_data, 3);
    assert_true(t->float_data[0] == 1 && t->float_data[1] == 2 && t->float_data[2] == 3);
    assert_true(t->has_raw_data && t->raw_data.len == 3 && !memcmp(t->raw_data.data, "a\0b", 3));
    assert_true(t->has_name && !strcmp(t->name, "xy"));
    assert_true(t->has_data_type && t->data_type == 7);
    assert_true(!t->has_data_location && !t->n_int64_data && !t->int64_data);
}

/* As protobuf says: lists go on, of other values the last one counts, of a choice too. */
static void
a_message_given_twice_is_one(void **state)
{
    World *w = *state;
    OnnxValueInfo v = { 0 };
    /* type { tensor_type { elem_type 1, shape { dim { dim_value 5 } } } }, twice, then dim_param */
    static const char bytes[] = "\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x05"
                                "\x12\x0b\x0a\x09\x08\x07\x12\x05\x0a\x03\x12\x01n";
    ProtoSource from = { .what = "value", .bytes = { (const uint8_t *)bytes, sizeof bytes - 1 } };

    assert_true(proto_read(&w->ctx, w->arena, &from, &proto_ValueInfo, &v));
    assert_int_equal(v.type->value_case, ONNX_TENSOR_TYPE);
    assert_int_equal(v.type->tensor_type->elem_type, 7);
    const OnnxShape *s = v.type->tensor_type->shape;
    assert_int_equal(s->n_dim, 2);
    assert_true(s->dim[0]->value_case == ONNX_DIM_VALUE && s->dim[0]->dim_value == 5);
    assert_true(s->dim[1]->value_case == ONNX_DIM_PARAM && !strcmp(s->dim[1]->dim_param, "n"));
}

static const Case malformed[] = {
    { "nothing", BYTES(""), NULL },
    { "tag_ends", BYTES("\x88"), "ends in the middle of a field" },
    { "number_ends", BYTES("\x08\xff"), "ends in the middle of a field" },
    { "number_of_11_bytes", BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
      "ends in the middle of a field" },
    { "text_ends", BYTES("\x42\x03xy"), "ends in the middle of a field" },
    { "length_near_2_to_the_64", BYTES("\x42\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
      "ends in the middle of a field" },
    { "float_ends", BYTES("\x25\0\0"), "ends in the middle of a field" },
    { "group", BYTES("\x0b\x0c"), "is not ONNX" },
    { "field_0", BYTES("\x00\x01"), "is not ONNX" },
    { "packed_floats_of_3_bytes", BYTES("\x22\x03xyz"), "field 4 of a TensorProto" },
    { "packed_number_ends", BYTES("\x0a\x01\x80"), "ends in the middle of a field" },
    { "name_is_a_number", BYTES("\x40\x01"), "field 8 of a TensorProto" },
    { "type_is_a_text", BYTES("\x12\x01x"), "field 2 of a TensorProto" },
    { "message_is_a_number", BYTES("\x68\x01"), "field 13 of a TensorProto" },
    { "inside_ends", BYTES("\x6a\x02\x0a\x05"), "ends in the middle of a field" },
};

static void
malformed_bytes_are_refused(void **state)
{
    World *w = *state;

    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        const Case *k = &malformed[i];
        uint32_t before = w->ctx.diags.list.n;
        bool ok = tensor_of(w, k->bytes, k->n) != NULL;
        const char *said = w->ctx.diags.list.n > before ? w->ctx.diags.list.at[before].text : "";
        if (ok != !k->says || (k->says && !strstr(said, k->says)))
            fail_msg("%s: %s \"%s\"", k->name, ok ? "read" : "refused", said);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fields_are_read, world_begin, world_end),
        cmocka_unit_test_setup_teardown(a_message_given_twice_is_one, world_begin, world_end),
        cmocka_unit_test_setup_teardown(malformed_bytes_are_refused, world_begin, world_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
