/* Pictures: the formats that are read without a library, broken files of all, and what is said
 * where a library is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "routine/routine.h"
#include "routine/image.h"

#include <stdio.h>

static uint8_t out[3 * 64];

/* The picture in the bytes, into `out`: how many points it has; 0: it cannot be read. */
static int64_t
points(const void *bytes, int64_t n, TnFault *fault)
{
    int64_t length = n, rows[2] = { 0, 0 }, two = 2;
    uint8_t *copy = malloc((size_t)n + 1); /* as long as it is, for sanitizers */
    TnArray array[2] = { { copy, 'B', 1, &length }, { rows, 'l', 1, &two } };
    TnRoutine r = { { .size = sizeof r.args, .fault = fault }, array, NULL, NULL, NULL };
    int64_t scratch, width = 0, height = 0;

    memcpy(copy, bytes, (size_t)n);
    assert_int_equal(tn_once_plan(&r, &scratch), 1);
    tn_image_size(&r.args, 0, 1, NULL);
    uint8_t *all = tn_image_read(&r, &width, &height);
    assert_true(!all == (rows[0] == 0) && (!all || (rows[0] == height && rows[1] == width)));
    if (all && width * height <= 64)
        memcpy(out, all, (size_t)(3 * width * height));
    free(all);
    free(copy);
    return rows[0] * rows[1];
}

static void
expect(const void *bytes, int64_t n, const uint8_t *wanted, int64_t count)
{
    TnFault fault = { 0 };

    assert_int_equal(points(bytes, n, &fault), count);
    assert_int_equal(fault.code, 0);
    assert_memory_equal(out, wanted, (size_t)(3 * count));
}
#define TEXT(s) s, sizeof s - 1

/* Two rows of three points. */
static const uint8_t colours[18] = { 255, 0, 0, 0, 255, 0, 0, 0, 255, 1, 2, 3, 4, 5, 6, 7, 8, 9 },
                     grays[18] = { 0, 0, 0, 51, 51, 51, 255, 255, 255, 102, 102, 102 };
static const uint8_t bits[18] = { 0,   0,   0,   255, 255, 255, 0, 0, 0,
                                  255, 255, 255, 255, 255, 255, 0, 0, 0 };

static void
test_pnm(void **state)
{
    (void)state;
    expect(TEXT("P6 3 2 255\n\377\0\0\0\377\0\0\0\377\1\2\3\4\5\6\7\10\11"), colours, 6);
    expect(TEXT("P3\n# a picture\n3 2\n255 255 0 0 0 255 0 0 0 255 1 2 3 4 5 6 7 8 9"), colours, 6);
    expect(TEXT("P2 2 2 5 0 1 5 2"), grays, 4);
    expect(TEXT("P5 2 2 5 \0\1\5\2"), grays, 4);
    expect(TEXT("P5 2 2 1280 \0\0\1\0\5\0\2\0"), grays, 4);
    expect(TEXT("P1 3 2 101001"), bits, 6);
    expect(TEXT("P4 3 2\n\240\40"), bits, 6);
}

typedef struct {
    uint8_t at[256];
    int64_t n;
} File;

static void
put(File *f, int64_t v, int n)
{
    for (int i = 0; i < n; i++)
        f->at[f->n++] = (uint8_t)(i < 8 ? (uint64_t)v >> (8 * i) : 0);
}

static File
bmp(int64_t width, int64_t height, int depth, int colour_count)
{
    File f = { { 'B', 'M' }, 2 };

    put(&f, 0, 8);
    put(&f, 54 + 4 * colour_count, 4);
    put(&f, 40, 4);
    put(&f, width, 4);
    put(&f, height, 4);
    put(&f, 1, 2);
    put(&f, depth, 2);
    put(&f, 0, 16);
    put(&f, colour_count, 4);
    put(&f, 0, 4);
    return f;
}

static void
test_bmp(void **state)
{
    (void)state;
    for (int depth = 24; depth <= 32; depth += 8)
        for (int down = 0; down < 2; down++) {
            File f = bmp(3, down ? -2 : 2, depth, 0);
            for (int y = 0; y < 2; y++) {
                for (int x = 0; x < 3; x++) {
                    const uint8_t *c = colours + 3 * (3 * (down ? y : 1 - y) + x);
                    put(&f, c[2] | c[1] << 8 | c[0] << 16, depth / 8);
                }
                put(&f, 0, depth == 24 ? 3 : 0);
            }
            expect(f.at, f.n, colours, 6);
        }
    for (int depth = 1; depth <= 8; depth += depth == 1 ? 3 : 4) {
        File f = bmp(3, 2, depth, 2);
        put(&f, 0, 4);
        put(&f, 0xffffff, 4);
        for (int y = 1; y >= 0; y--) {
            uint32_t row = 0;
            for (int x = 0; x < 3; x++)
                row |= (uint32_t)(bits[9 * y + 3 * x] > 0) << (32 - depth * (x + 1));
            for (int i = 3; i >= 0; i--)
                put(&f, row >> (8 * i), 1);
        }
        expect(f.at, f.n, bits, 6);
    }
}

/* Nothing is read outside of a file, whatever it says; one that is cut is no picture, or a smaller
 * one. */
static void
test_broken(void **state)
{
    (void)state;
    File f = bmp(3, 2, 24, 0);
    uint64_t seed = 1;

    put(&f, 0, 24);
    for (int64_t n = 0; n < f.n; n++)
        assert_int_equal(points(f.at, n, &(TnFault){ 0 }), 0);
    for (int i = 0; i < 20000; i++) {
        static const char *const begin[] = { "BM",
                                             "P1 ",
                                             "P2 ",
                                             "P3 ",
                                             "P4 ",
                                             "P5 ",
                                             "P6 ",
                                             "\xff\xd8\xff",
                                             "\x89PNG\r\n\x1a\n",
                                             "RIFF....WEBPVP8 ",
                                             "II*",
                                             "MM",
                                             "\xff\x4f\xff\x51" };
        File broken = f;
        TnFault fault = { 0 };
        const char *with = begin[i % 13];
        for (int k = 0; k < 3; k++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            broken.at[(seed >> 33) % (uint64_t)f.n] = (uint8_t)(seed >> 24);
        }
        if (i % 3)
            memcpy(broken.at, with, strlen(with));
        points(broken.at, f.n, &fault);
        assert_true(!fault.code || fault.code == TN_FAULT_VALUE || fault.code == TN_FAULT_LIBRARY);
    }
    TnFault fault = { 0 };
    assert_int_equal(points(TEXT("P5 100000 100000 255 "), &fault), 0);
    assert_int_equal(points(TEXT("nothing"), &fault), 0);
    assert_int_equal(fault.code, 0);
}

static void
test_missing_library(void **state)
{
    (void)state;
    TnFault fault = { 0 };
    TnRoutine r = { { .size = sizeof r.args, .fault = &fault }, NULL, NULL, NULL, NULL };
    TnImage m = { 0 };
    void *f[1];
    char name[17] = { 0 };

    assert_false(
        tn_image_library(&m, "libnothing.so.9", (const char *const[]){ "nothing", NULL }, f));
    assert_string_equal(m.missing, "libnothing.so.9");
    tn_lacks(&r, m.missing);
    assert_int_equal(fault.code, TN_FAULT_LIBRARY);
    memcpy(name, &fault.got, 8);
    memcpy(name + 8, &fault.want, 8);
    assert_string_equal(name, "nothing.so.9");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pnm),
        cmocka_unit_test(test_bmp),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_missing_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
