/* .npy and .npz: what NumPy writes is read; garbage of every kind is refused, by name, without
 * harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/internal.h"

static char path[64];
static Arena *arena;
static Diags diags;

static int
begin(void **state)
{
    (void)state;
    strcpy(path, "/tmp/tenon-test-npy-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0)
        return -1;
    close(fd);
    arena = arena_new(NULL, NULL);
    diags = (Diags){ .arena = arena };
    return 0;
}

static int
end(void **state)
{
    (void)state;
    arena_free(arena);
    return remove(path);
}

/* A version-1 file in memory: header dict and data. */
static Bytes
npy_bytes(const char *dict, const void *data, size_t n)
{
    size_t length = strlen(dict);
    uint8_t *p = arena_alloc(arena, 10 + length + n);
    memcpy(p, "\x93NUMPY\1\0", 8);
    p[8] = (uint8_t)length;
    p[9] = (uint8_t)(length >> 8);
    memcpy(p + 10, dict, length);
    if (n)
        memcpy(p + 10 + length, data, n);
    return (Bytes){ p, 10 + length + n };
}

static bool
parse(const char *dict, const void *data, size_t n, NpyArray *out)
{
    diags = (Diags){ .arena = arena };
    return npy_parse(arena, &diags, (Loc){ .file = "x.npy" }, npy_bytes(dict, data, n), out);
}

static void
refused(const char *dict, const char *part)
{
    NpyArray x;
    uint8_t data[64] = { 0 };
    assert_false(parse(dict, data, sizeof data, &x));
    assert_int_equal(diags.list.n, 1);
    if (!strstr(diags.list.at[0].text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, diags.list.at[0].text);
}

static void
what_is_written_is_read(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = { { 2, 3, 4 }, { 0, 5, 1 }, { 7, 1, 1 } };
    uint64_t data[64];
    for (int i = 0; i < 64; i++)
        data[i] = (uint64_t)i * 0x0123456789abcdefu;
    for (int t = 1; t < DT_COUNT; t++) {
        for (uint32_t rank = 0; rank <= 3 && t != DT_STR; rank++) {
            for (int k = 0; k < 3; k++) {
                NpyArray x = { .dtype = (DType)t, .rank = rank, .data = data }, y;
                memcpy(x.dims, shapes[k], sizeof shapes[k]);
                assert_true(tensor_bytes(x.dtype, rank, x.dims, &x.bytes));
                if (!*dtype_info[t].npy) {
                    assert_false(npy_write(arena, &diags, path, &x));
                    continue;
                }
                assert_true(npy_write(arena, &diags, path, &x));
                assert_true(npy_read(arena, &diags, path, &y));
                assert_int_equal(y.dtype, t);
                assert_int_equal(y.rank, rank);
                assert_int_equal(y.bytes, x.bytes);
                assert_memory_equal(y.dims, x.dims, rank * sizeof *x.dims);
                assert_memory_equal(y.data, data, (size_t)x.bytes);
                assert_int_equal((uintptr_t)y.data % 64, 0);
            }
        }
    }
}

static void
strings_are_read_and_written(void **state)
{
    (void)state;
    static const char *const words[] = { "tenon",
                                         "",
                                         "\xc3\xa9t\xc3\xa9",
                                         "\xe6\x9c\xa8",
                                         "\xf0\x9f\xaa\xb5"
                                         "!",
                                         "a" };
    NpyArray x = { .dtype = DT_STR,
                   .rank = 2,
                   .dims = { 2, 3 },
                   .data = words,
                   .bytes = sizeof words },
             y;
    assert_true(npy_write(arena, &diags, path, &x));
    assert_true(npy_read(arena, &diags, path, &y));
    assert_int_equal(y.dtype, DT_STR);
    assert_int_equal(y.bytes, sizeof words);
    for (int i = 0; i < 6; i++)
        assert_string_equal(((const char *const *)y.data)[i], words[i]);

    static const uint32_t abc[2][2][2] = { { { 'a', 0 }, { 'b', 0 } },
                                           { { 'c', 'd' }, { 0x1fab5, 0 } } };
    assert_true(
        parse("{'descr': '<U2', 'fortran_order': True, 'shape': (2, 2), }", abc, sizeof abc, &y));
    static const char *const turned[] = { "a", "cd", "b", "\xf0\x9f\xaa\xb5" };
    for (int i = 0; i < 4; i++)
        assert_string_equal(((const char *const *)y.data)[i], turned[i]);

    static const uint32_t bad[2][2] = { { 0, 'b' }, { 0x110000, 0 } };
    assert_false(parse("{'descr': '<U2', 'fortran_order': False, 'shape': (1,), }", bad[0], 8, &y));
    assert_string_equal(diags.list.at[0].text,
                        "string 0 has character 0 at 0; 1 to 0x10ffff are possible");
    assert_false(parse("{'descr': '<U2', 'fortran_order': False, 'shape': (1,), }", bad[1], 8, &y));
    assert_true(parse("{'descr': '<U0', 'fortran_order': False, 'shape': (0,), }", NULL, 0, &y));
}

static void
fortran_order_is_rearranged(void **state)
{
    (void)state;
    int16_t data[24], expected[24];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 4; k++)
                data[i + 2 * (j + 3 * k)] = expected[(i * 3 + j) * 4 + k] =
                    (int16_t)(100 * i + 10 * j + k);
    NpyArray x;
    assert_true(parse("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3, 4), }", data,
                      sizeof data, &x));
    assert_memory_equal(x.data, expected, sizeof expected);
    assert_true(
        parse("{'descr': '<i2', 'fortran_order': True, 'shape': (24,), }", data, sizeof data, &x));
    assert_memory_equal(x.data, data, sizeof data);
    assert_true(
        parse("{'descr': '<i2', 'fortran_order': True, 'shape': (3, 0, 4), }", data, 0, &x));
    assert_int_equal(x.bytes, 0);
}

static void
unusual_but_right_headers(void **state)
{
    (void)state;
    float data[4] = { 1, 2, 3, 4 };
    NpyArray x;
    assert_true(parse("{\"shape\":(2L,2L),\"fortran_order\":False,\"descr\":\"<f4\"}", data,
                      sizeof data, &x));
    assert_int_equal(x.rank, 2);
    assert_memory_equal(x.data, data, sizeof data);
    assert_int_equal((uintptr_t)x.data % 4, 0); /* though the header's length is odd */
    assert_true(
        parse("{'descr': '<f4', 'fortran_order': False, 'shape': ()}  \n", data, sizeof data, &x));
    assert_int_equal(x.rank, 0);
    assert_int_equal(x.bytes, 4);
}

static void
wrong_headers_are_refused(void **state)
{
    (void)state;
    refused("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }",
            "big-endian; save x.astype('<f4')");
    refused("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", "Python objects");
    refused("{'descr': '|S5', 'fortran_order': False, 'shape': (2,), }", "bytes");
    refused("{'descr': '>U5', 'fortran_order': False, 'shape': (2,), }", "use float");
    refused("{'descr': '<U9', 'fortran_order': False, 'shape': (2,), }",
            "truncated: its shape str[2] needs 72 bytes");
    refused("{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,), }", "truncated");
    refused("{'descr': '<U99999999', 'fortran_order': False, 'shape': (9000000000000000,), }",
            "truncated");
    refused("{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", "complex");
    refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "record");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (17,), }",
            "needs 68 bytes, the file has 64");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }",
            "truncated");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
            "sizes below 2^63");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "a size");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1), }",
            "at most 12");
    refused("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", "True or False");
    refused("{'descr': '<f4', 'fortran_order': False}", "once each");
    refused("{'descr': '<f4', 'shape': (1,), 'shape': (1,), 'fortran_order': False}", "once each");
    refused("", "a dict");
    refused("{", "a string");
}

static void
every_truncation_and_every_damaged_byte_is_survived(void **state)
{
    (void)state;
    int32_t data[6] = { 1, 2, 3, 4, 5, 6 };
    Bytes whole = npy_bytes("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n", data,
                            sizeof data);
    NpyArray x;
    for (size_t n = 0; n < whole.bytes; n++) {
        /* exact, so that a sanitizer sees overruns */
        uint8_t *part = malloc(n + !n);
        memcpy(part, whole.data, n);
        assert_false(npy_parse(arena, &diags, (Loc){ 0 }, (Bytes){ part, n }, &x));
        free(part);
    }
    for (size_t i = 0; i < whole.bytes - sizeof data; i++) {
        for (int v = 0; v < 256; v += 5) {
            uint8_t *copy = malloc(whole.bytes);
            memcpy(copy, whole.data, whole.bytes);
            copy[i] = (uint8_t)v;
            if (npy_parse(arena, &diags, (Loc){ 0 }, (Bytes){ copy, whole.bytes }, &x))
                assert_true(x.bytes <= (int64_t)sizeof data);
            free(copy);
        }
    }
}

/* ---- zip -------------------------------------------------------------------------------- */

static void
put(Text *t, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        text_bytes(t, (const char[]){ (char)(i < 8 ? v >> 8 * i : 0) }, 1);
}

typedef struct {
    bool zip64;
    int method, flags;
    const char *comment;
} Zip;

/* Two members, "a.npy" and "b.npy", as numpy.savez lays them out. */
static Text
zip_text(const Zip *z)
{
    Text t = { .arena = arena }, dir = { .arena = arena };
    for (int i = 0; i < 2; i++) {
        int64_t data[3] = { i, 10, 20 };
        Bytes npy = npy_bytes("{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }", data,
                              sizeof data);
        char name[] = "a.npy";
        name[0] = (char)(name[0] + i);
        size_t offset = t.n;
        uint64_t small = z->zip64 ? UINT32_MAX : npy.bytes;
        text_bytes(&t, "PK\3\4", 4);
        put(&t, 45, 2), put(&t, (uint64_t)z->flags, 2), put(&t, (uint64_t)z->method, 2),
            put(&t, 0, 8);
        put(&t, UINT32_MAX, 4), put(&t, UINT32_MAX, 4), put(&t, 5, 2), put(&t, 20, 2);
        text_add(&t, name);
        put(&t, 1, 2), put(&t, 16, 2), put(&t, npy.bytes, 8), put(&t, npy.bytes, 8);
        text_bytes(&t, (const char *)npy.data, npy.bytes);

        text_bytes(&dir, "PK\1\2", 4);
        put(&dir, 45, 4), put(&dir, (uint64_t)z->flags, 2), put(&dir, (uint64_t)z->method, 2),
            put(&dir, 0, 8);
        put(&dir, small, 4), put(&dir, small, 4), put(&dir, 5, 2),
            put(&dir, z->zip64 ? 28 + 6 : 0, 2), put(&dir, 0, 10);
        put(&dir, z->zip64 ? UINT32_MAX : offset, 4);
        text_add(&dir, name);
        if (z->zip64) {
            put(&dir, 77, 2), put(&dir, 2, 2), put(&dir, 0, 2);
            put(&dir, 1, 2), put(&dir, 24, 2), put(&dir, npy.bytes, 8), put(&dir, npy.bytes, 8),
                put(&dir, offset, 8);
        }
    }
    size_t first = t.n, bytes = dir.n;
    text_bytes(&t, dir.s, dir.n);
    if (z->zip64) {
        size_t end64 = t.n;
        text_bytes(&t, "PK\6\6", 4);
        put(&t, 44, 8), put(&t, 45, 4), put(&t, 0, 8), put(&t, 2, 8), put(&t, 2, 8),
            put(&t, bytes, 8), put(&t, first, 8);
        text_bytes(&t, "PK\6\7", 4);
        put(&t, 0, 4), put(&t, end64, 8), put(&t, 1, 4);
    }
    text_bytes(&t, "PK\5\6", 4);
    put(&t, 0, 4), put(&t, 2, 2), put(&t, 2, 2), put(&t, z->zip64 ? UINT32_MAX : bytes, 4),
        put(&t, z->zip64 ? UINT32_MAX : first, 4);
    put(&t, z->comment ? strlen(z->comment) : 0, 2);
    text_add(&t, z->comment ? z->comment : "");
    return t;
}

static void
save(const char *s, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(s, 1, n, f), n);
    fclose(f);
}

static bool
read_member(const char *name, NpyArray *x)
{
    diags = (Diags){ .arena = arena };
    return npz_read(arena, &diags, path, name, x);
}

static void
npz_members_are_found(void **state)
{
    (void)state;
    static const Zip kinds[] = { { 0 }, { .zip64 = true }, { .comment = "PK\5\6 is no end here" } };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        Text t = zip_text(&kinds[i]);
        save(t.s, t.n);
        for (int k = 0; k < 2; k++) {
            NpyArray x;
            int64_t expected[3] = { k, 10, 20 };
            assert_true(read_member(k ? "b" : "a", &x));
            assert_true(read_member(k ? "b.npy" : "a.npy", &x));
            assert_int_equal(x.dtype, DT_I64);
            assert_int_equal((uintptr_t)x.data % 8, 0);
            assert_memory_equal(x.data, expected, sizeof expected);
        }
    }
}

static void
npz_refusals_say_why(void **state)
{
    (void)state;
    NpyArray x;
    Text t = zip_text(&(Zip){ 0 });
    save(t.s, t.n);
    assert_false(read_member("c", &x));
    assert_string_equal(diags.list.at[0].text, "no member \"c\"; there are a, b");
    t = zip_text(&(Zip){ .method = 8 });
    save(t.s, t.n);
    assert_false(read_member("a", &x));
    /* those are no compressed bytes */
    assert_non_null(strstr(diags.list.at[0].text, "damaged"));
    t = zip_text(&(Zip){ .method = 12 });
    save(t.s, t.n);
    assert_false(read_member("a", &x));
    assert_non_null(strstr(diags.list.at[0].text, "compressed in another way than by deflate"));
    t = zip_text(&(Zip){ .flags = 1 });
    save(t.s, t.n);
    assert_false(read_member("a", &x));
    assert_non_null(strstr(diags.list.at[0].text, "encrypted"));
}

static void
damaged_npz_is_survived(void **state)
{
    (void)state;
    for (int zip64 = 0; zip64 < 2; zip64++) {
        Text t = zip_text(&(Zip){ .zip64 = zip64 });
        uint32_t random = 1;
        for (int i = 0; i < 400; i++) {
            Text copy = { .arena = arena };
            text_bytes(&copy, t.s, t.n);
            random = random * 1664525 + 1013904223;
            copy.s[(random >> 8) % copy.n] ^= (char)(1 << (random >> 4 & 7));
            size_t n = i % 2 ? copy.n : (random >> 10) % copy.n;
            save(copy.s, n);
            NpyArray x;
            if (read_member("b", &x))
                assert_true(x.bytes <= (int64_t)n);
            else
                assert_int_equal(diags.list.n, 1);
        }
    }
}

/* ---- elements --------------------------------------------------------------------------- */

static void
every_half_survives_the_round_trip(void **state)
{
    (void)state;
    static const DType types[] = { DT_F16, DT_BF16 };
    for (int k = 0; k < 2; k++) {
        for (uint32_t bits = 0; bits < 65536; bits++) {
            uint16_t h = (uint16_t)bits, back;
            double x = number_get(types[k], &h, 0);
            number_store(types[k], &back, 0, (Number){ .f = x });
            if (x == x)
                assert_int_equal(back, h);
            else
                assert_true(number_get(types[k], &back, 0) != number_get(types[k], &back, 0));
        }
    }
    uint16_t h;
    number_store(DT_F16, &h, 0, (Number){ .f = 1 + 0x1p-11 }); /* a tie goes to even */
    assert_int_equal(h, 0x3c00);
    number_store(DT_F16, &h, 0, (Number){ .f = 1 + 0x1p-11 + 0x1p-30 });
    assert_int_equal(h, 0x3c01);
    number_store(DT_F16, &h, 0, (Number){ .f = 65519.99 });
    assert_int_equal(h, 0x7bff);
    number_store(DT_F16, &h, 0, (Number){ .f = 65520 });
    assert_int_equal(h, 0x7c00);
    /* rounded once: float would make it a tie */
    number_store(DT_BF16, &h, 0, (Number){ .f = 1 + 0x1p-8 + 0x1p-40 });
    assert_int_equal(h, 0x3f81);
}

static void
sizes_do_not_overflow(void **state)
{
    (void)state;
    int64_t bytes;
    assert_true(tensor_bytes(DT_F32, 3, (const int64_t[]){ 2, 0, INT64_MAX / 16 }, &bytes));
    assert_int_equal(bytes, 0);
    assert_false(
        tensor_bytes(DT_F32, 2, (const int64_t[]){ INT64_C(1) << 40, INT64_C(1) << 40 }, &bytes));
    assert_false(tensor_bytes(DT_F32, 1, (const int64_t[]){ -1 }, &bytes));
    assert_true(tensor_bytes(DT_F64, 0, NULL, &bytes));
    assert_int_equal(bytes, 8);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read, begin, end),
        cmocka_unit_test_setup_teardown(strings_are_read_and_written, begin, end),
        cmocka_unit_test_setup_teardown(fortran_order_is_rearranged, begin, end),
        cmocka_unit_test_setup_teardown(unusual_but_right_headers, begin, end),
        cmocka_unit_test_setup_teardown(wrong_headers_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(every_truncation_and_every_damaged_byte_is_survived, begin,
                                        end),
        cmocka_unit_test_setup_teardown(npz_members_are_found, begin, end),
        cmocka_unit_test_setup_teardown(npz_refusals_say_why, begin, end),
        cmocka_unit_test_setup_teardown(damaged_npz_is_survived, begin, end),
        cmocka_unit_test(every_half_survives_the_round_trip),
        cmocka_unit_test(sizes_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
