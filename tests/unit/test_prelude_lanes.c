/* Vectors that are partly there, and strided ones, on each width of the processor: their code
 * differs. The text below is compiled and run once for each; buffers end where memory does. */
#include "emit/emit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char program[] =
    "#include <stdio.h>\n"
    "#include <sys/mman.h>\n"
    "TN_VECTORS_F32(2) TN_VECTORS_OTHER(2) TN_VECTORS_F32(8) TN_VECTORS_OTHER(8) "
    "TN_VECTORS_F32(16) TN_VECTORS_OTHER(16)\n"
    "enum { SPACE = 1 << 16 };\n"
    "static char *end;\n" /* what follows cannot be touched */
    "static volatile int64_t none = 0, one = 1, two = 2, three = 3;\n"
    "static int failed;\n"
    "static void check(int ok, const char *what, int lanes, int n) {\n"
    "    if (!ok && failed++ < 20) printf(\"%s of %d lanes, first %d\\n\", what, lanes, n);\n"
    "}\n"
    "#define CHECK(N, e, T) \\\n"
    "static __attribute__((noinline)) void check_##e##x##N(int64_t n) { \\\n"
    "    int64_t m = n < 0 ? 0 : n > N ? N : n; \\\n"
    "    T *p = (T *)end - m, *p2 = (T *)end - (m ? 2 * m - 1 : 0), *p3 = (T *)end - (m ? 3 * m - "
    "2 : 0); \\\n"
    "    T saved[3 * N], from[N], to[3 * N]; \\\n"
    "    for (int i = 1; i <= 3 * N; i++) ((T *)end)[-i] = (T)(i + 3); \\\n"
    "    memcpy(saved, (T *)end - 3 * N, sizeof saved); \\\n"
    "    tn_##e##x##N v = tn_load_first_##e##x##N(p, n), second = tn_load_apart_##e##x##N(p2, 2, "
    "n); \\\n"
    "    tn_##e##x##N also = tn_load_apart_##e##x##N(p2, two, n), third = "
    "tn_load_apart_##e##x##N(p3, three, n); \\\n"
    "    tn_##e##x##N each = tn_load_wide_##e##x##N(p, one, n), same = tn_load_wide_##e##x##N((T "
    "*)end - (m > 0), none, n); \\\n"
    "    for (int l = 0; l < N; l++) { \\\n"
    "        check(each[l] == v[l], \"load_wide 1 \" #e, N, (int)n); \\\n"
    "        check(same[l] == (l < m ? ((T *)end)[-1] : 0), \"load_wide 0 \" #e, N, (int)n); \\\n"
    "        check(v[l] == (l < m ? p[l] : 0), \"load_first \" #e, N, (int)n); \\\n"
    "        check(second[l] == (l < m ? p2[2 * l] : 0) && also[l] == second[l], \"load_apart 2 \" "
    "#e, N, (int)n); \\\n"
    "        check(third[l] == (l < m ? p3[3 * l] : 0), \"load_apart 3 \" #e, N, (int)n); \\\n"
    "        from[l] = (T)(100 - l); \\\n"
    "    } \\\n"
    "    tn_store_first_##e##x##N(p, tn_load_##e##x##N(from), n); \\\n"
    "    memcpy(to, (T *)end - 3 * N, sizeof to); \\\n"
    "    for (int i = 0; i < 3 * N; i++) \\\n"
    "        check(to[i] == (i >= 3 * N - m ? from[i - (3 * N - m)] : saved[i]), \"store_first \" "
    "#e, N, (int)n); \\\n"
    "    memcpy((T *)end - 3 * N, saved, sizeof saved); \\\n"
    "    tn_store_apart_##e##x##N(p3, tn_load_##e##x##N(from), three, n); \\\n"
    "    memcpy(to, (T *)end - 3 * N, sizeof to); \\\n"
    "    for (int i = 0; i < 3 * N; i++) { \\\n"
    "        int at = 3 * N - 1 - i; \\\n"
    "        check(to[i] == (at % 3 == 0 && at / 3 < m ? from[m - 1 - at / 3] : saved[i]), "
    "\"store_apart \" #e, N, (int)n); \\\n"
    "    } \\\n"
    /* at a line's begin, and off it */
    "    T *p4 = (T *)(end - 1024) + m, was[2] = { p4[-1], p4[N] }; \\\n"
    "    tn_stream_##e##x##N(p4, tn_load_##e##x##N(from)); \\\n"
    "    TN_STREAMED \\\n"
    "    for (int i = 0; i < N; i++) check(p4[i] == from[i], \"stream \" #e, N, (int)n); \\\n"
    "    check(p4[-1] == was[0] && p4[N] == was[1], \"stream beyond \" #e, N, (int)n); \\\n"
    "}\n"
    "#define TYPES(X, N) X(N, f32, float) X(N, f64, double) X(N, u8, uint8_t) X(N, u16, uint16_t)\n"
    "#define WIDTHS(Y, X) Y(X, 2) Y(X, 8) Y(X, 16)\n"
    "WIDTHS(TYPES, CHECK)\n"
    /* a number of lanes that the compiler sees may be stored in pieces */
    "#define KNOWN(n) { \\\n"
    "    float *p = (float *)end - n, from[8], before = p[-1]; \\\n"
    "    for (int l = 0; l < 8; l++) from[l] = (float)(100 * n + l); \\\n"
    "    tn_store_first_f32x8(p, tn_load_f32x8(from), n); \\\n"
    "    for (int l = 0; l < n; l++) check(p[l] == from[l], \"store_first of known\", 8, n); \\\n"
    "    check(p[-1] == before, \"store_first of known, before\", 8, n); \\\n"
    "}\n"
    "#define FOUR(N, from) tn_four_bits_f32x##N(x, from, 8.0f)\n"
    /* bytes and words as integers of 32 bits, and back; their low four bits as floats */
    "#define RESIZED(N) { \\\n"
    "    tn_i8x##N i8; tn_u8x##N u8; tn_i16x##N i16; tn_u16x##N u16; tn_i32x##N x; \\\n"
    "    for (int l = 0; l < N; l++) x[l] = 40503 * (l + (int)two) - 300000, i8[l] = (int8_t)x[l], "
    "u8[l] = (uint8_t)x[l], i16[l] = (int16_t)x[l], u16[l] = (uint16_t)x[l]; \\\n"
    "    tn_f32x##N four[9] = { FOUR(N, 0), FOUR(N, 4), FOUR(N, 8), FOUR(N, 12), FOUR(N, 16), "
    "FOUR(N, 20), FOUR(N, 24), FOUR(N, 28), tn_four_bits_f32x##N(x, (int)two * 2, 8.0f) }; \\\n"
    "    tn_i32x##N long_i8 = tn_long_i8x##N(i8), long_u8 = tn_long_u8x##N(u8), long_i16 = "
    "tn_long_i16x##N(i16), long_u16 = tn_long_u16x##N(u16); \\\n"
    "    tn_u8x##N byte = tn_short_u8x##N(x); tn_i16x##N word = tn_short_i16x##N(x); \\\n"
    "    for (int l = 0; l < N; l++) { \\\n"
    "        check(long_i8[l] == i8[l] && long_u8[l] == u8[l] && long_i16[l] == i16[l] && "
    "long_u16[l] == u16[l], \"long\", N, l); \\\n"
    "        check(byte[l] == u8[l] && word[l] == i16[l], \"short\", N, l); \\\n"
    "        for (int i = 0; i < 8; i++) check(four[i][l] == (float)(x[l] >> 4 * i & 15) - 8.0f, "
    "\"four_bits\", N, l); \\\n"
    "        check(four[8][l] == four[1][l], \"four_bits from\", N, l); \\\n"
    "    } \\\n"
    "}\n"
    "#define DOTS(N) { \\\n" /* pairs of 16 bits and quads of 8, on top of a sum */
    "    tn_i32x##N c, x, y; \\\n"
    "    for (int l = 0; l < N; l++) c[l] = l - 7, x[l] = (int32_t)(2654435761u * (uint32_t)(l + "
    "two)), y[l] = (int32_t)(2246822519u * (uint32_t)(l + three)); \\\n"
    "    tn_i32x##N pairs = tn_dot2_sum_i32x##N(c, x, y), quads = tn_dot4_sum_i32x##N(c, x, y), "
    "alone = tn_dot4_i32x##N(x, y), signs = tn_dot4s_sum_i32x##N(c, x, y); \\\n"
    "    for (int l = 0; l < N; l++) \\\n"
    "        check(pairs[l] == (int32_t)((uint32_t)c[l] + (uint32_t)tn_dot2_i32(x[l], y[l])) && "
    "quads[l] == c[l] + tn_dot4_i32(x[l], y[l]) && alone[l] == quads[l] - c[l] && signs[l] == c[l] "
    "+ tn_dot4s_i32(x[l], y[l]), \"dots\", N, l); "
    "\\\n"
    /* pairs of bf16, each below 2^8 of halves: sums are exact */
    "    tn_f32x##N f; tn_i32x##N px, py; \\\n"
    "    for (int l = 0; l < N; l++) f[l] = (float)l / 4, px[l] = tn_pair_f32((float)(l - 5) / 2, "
    "(float)two), py[l] = tn_pair_f32((float)three, (float)(9 - l) / 2); \\\n"
    "    tn_f32x##N halves = tn_dot2f_sum_f32x##N(f, px, py), apart = tn_dot2f_f32x##N(px, py); "
    "\\\n"
    "    for (int l = 0; l < N; l++) \\\n"
    "        check(halves[l] == f[l] + (float)(l - 5) / 2 * (float)three + (float)two * (float)(9 "
    "- l) / 2 && apart[l] == halves[l] - f[l] && apart[l] == tn_dot2f_f32(px[l], py[l]), "
    "\"dot2f\", N, l); \\\n"
    "}\n"
    "#define CALL(N, e, T) for (int64_t n = -2; n <= N + 1; n++) check_##e##x##N(n);\n"
    "int main(void) {\n"
    "    char *space = mmap(NULL, 2 * SPACE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, "
    "-1, 0);\n"
    "    end = space + SPACE;\n"
    "    if (space == MAP_FAILED || mprotect(end, SPACE, PROT_NONE) != 0) return 2;\n"
    "    WIDTHS(TYPES, CALL)\n"
    "    check_f32x16(INT64_MIN); check_u8x16(INT64_MAX); check_f32x8(INT64_C(1) << 32);\n"
    "    KNOWN(1) KNOWN(2) KNOWN(3) KNOWN(4) KNOWN(5) KNOWN(6) KNOWN(7) KNOWN(8)\n"
    "    RESIZED(2) RESIZED(8) RESIZED(16) DOTS(2) DOTS(8) DOTS(16)\n"
    "    return failed ? 1 : 0;\n"
    "}\n";

static void
run_for(const char *machine)
{
    char folder[] = "/tmp/tenon-lanes-XXXXXX", path[64], command[512];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/lanes.c", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(emit_c_prelude(), f) >= 0 && fputs(program, f) >= 0 && fclose(f) == 0);
    snprintf(command, sizeof command, "cc %s -O1 %s %s -o %s/lanes -lm && %s/lanes", emit_c_flags(),
             machine, path, folder, folder);
    int status = system(command);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(status, 0);
}

static void
test_plain(void **state)
{
    (void)state;
    run_for("");
}

static void
test_avx2(void **state)
{
    (void)state;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        run_for("-mavx2 -mfma");
        return;
    }
#endif
    skip();
}

static void
test_avx512(void **state)
{
    (void)state;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
        run_for("-mavx2 -mfma -mavx512f -mavx512vl -mavx512bw -mavx512dq");
        return;
    }
#endif
    skip();
}

static void
test_vnni(void **state)
{
    (void)state;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw")) {
        run_for("-march=x86-64-v4 -mavx512vnni");
        return;
    }
#endif
    skip();
}

int
main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_plain), cmocka_unit_test(test_avx2),
                                        cmocka_unit_test(test_avx512),
                                        cmocka_unit_test(test_vnni) };
    return cmocka_run_group_tests_name("prelude lanes", tests, NULL, NULL);
}
