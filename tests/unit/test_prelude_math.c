/* The functions of f32 in emitted C, and its conversions to and from f16 and bf16: how far they are
 * off, that infinities and NaN come out as the interpreter has them, and that all compilers, widths
 * and a single lane give the same bits.
 *
 * The text below is compiled with each compiler for each width of the processor, and run on some
 * floats of every exponent; with TENON_NIGHTLY=1 on all there are. The exact values are libm's in
 * double, whose error is 1e-8 ulp of f32.
 */
#include "emit/emit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char program[] =
    "#include <math.h>\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "TN_VECTORS_F32(2) TN_VECTORS_OTHER(2) TN_VECTORS_F32(4) TN_VECTORS_OTHER(4) TN_VECTORS_F32(8) "
    "TN_VECTORS_OTHER(8) TN_VECTORS_F32(16) TN_VECTORS_OTHER(16)\n"
    "static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); "
    "}\n"
    "static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }\n"
    "static uint64_t step;\n"
    "static double allowed;\n"
    "static int failed;\n"
    /* in units of the last place of the exact result */
    "static double off(float got, double exact) {\n"
    "    float near = (float)exact, a = fabsf(near);\n"
    "    if (isnan(got) || isnan(near)) return isnan(got) && isnan(near) ? 0 : INFINITY;\n"
    "    if (isinf(got) || isinf(near)) return got == near ? 0 : INFINITY;\n"
    "    double unit = (double)nextafterf(a, INFINITY) - a;\n"
    "    return fabs(got - exact) / (isinf(unit) ? (double)a - nextafterf(a, 0) : unit);\n"
    "}\n"
    "#define CHECK(f) \\\n"
    "static __attribute__((noinline)) uint64_t check_##f(void) { \\\n"
    "    double worst = 0; float where = 0, x[16], low = 0, high = 0; uint64_t hash = 0; \\\n"
    "    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; ) { \\\n"
    "        for (int l = 0; l < 16; l++, bits += step) x[l] = "
    "tn_from_bits_f32((int32_t)(uint32_t)bits); \\\n"
    "        tn_f32x16 y = tn_##f##_f32x16(tn_load_f32x16(x)); \\\n"
    "        tn_f32x8 half = tn_##f##_f32x8(tn_load_f32x8(x)); \\\n"
    "        tn_f32x4 quarter = tn_##f##_f32x4(tn_load_f32x4(x)); \\\n"
    "        for (int l = 0; l < 16; l++) { \\\n"
    "            int32_t b = isnan(y[l]) ? 0x7fc00000 : tn_bits_f32(y[l]); \\\n"
    "            float alone = tn_##f##_f32(x[l]); \\\n"
    "            hash = (hash ^ (uint32_t)b) * UINT64_C(0x9e3779b97f4a7c15); \\\n"
    "            if (isnan(y[l]) ? !isnan(alone) : b != tn_bits_f32(alone) || (l < 8 && b != "
    "tn_bits_f32(half[l])) || (l < 4 && b != tn_bits_f32(quarter[l]))) \\\n"
    "                if (failed++ < 20) printf(\"%s(%a): %a in lane %d, %a alone\\n\", #f, x[l], "
    "y[l], l, alone); \\\n"
    "            if (y[l] < low) low = y[l]; \\\n"
    "            if (y[l] > high) high = y[l]; \\\n"
    "            if (allowed > 0) { \\\n"
    "                double u = off(y[l], f((double)x[l])); \\\n"
    "                if (u > worst) { worst = u; where = x[l]; } \\\n"
    "            } \\\n"
    "        } \\\n"
    "    } \\\n"
    "    if (worst > allowed) { failed++; printf(\"%s(%a) is off by %.3f ulp, allowed %.3f\\n\", "
    "#f, where, worst, allowed); } \\\n"
    "    if (allowed > 0 && getenv(\"TENON_SHOW\")) printf(\"%-9s %.3f ulp at %a\\n\", #f, worst, "
    "where); \\\n"
    "    if ((tn_##f##_f32(0.0f) == 0 && high < 1.5f && (high > 1 || low < -1))) { failed++; "
    "printf(\"%s goes beyond 1\\n\", #f); } \\\n"
    "    return hash; \\\n"
    "}\n"
    /* f16 and bf16: the processor's conversions and the bit by bit ones are the same */
    "#define SHORTS(N) \\\n"
    "static __attribute__((noinline)) void shorts_##N(void) { \\\n"
    "    uint16_t h[N], g[N]; float x[N]; \\\n"
    "    for (uint32_t b = 0; b < 65536; b += N) { \\\n"
    "        for (int l = 0; l < N; l++) h[l] = (uint16_t)(b + (uint32_t)l); \\\n"
    "        tn_f32x##N y = tn_wide_f16_f32x##N(tn_load_u16x##N(h)), z = "
    "tn_wide_bf16_f32x##N(tn_load_u16x##N(h)); \\\n"
    "        for (int l = 0; l < N; l++) { \\\n"
    "            float want = tn_widen_f16_f32(h[l]), also = tn_widen_bf16_f32(h[l]), one = "
    "tn_wide_f16_f32(h[l]); \\\n"
    "            if (!(isnan(want) ? isnan(y[l]) && isnan(one) : tn_bits_f32(want) == "
    "tn_bits_f32(y[l]) && want == one) || \\\n"
    "                tn_bits_f32(also) != tn_bits_f32(z[l])) \\\n"
    "                if (failed++ < 20) printf(\"f16 %04x of %d lanes: %a, want %a\\n\", h[l], N, "
    "y[l], want); \\\n"
    "        } \\\n"
    "    } \\\n"
    "    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; ) { \\\n"
    "        for (int l = 0; l < N; l++, bits += 1021) x[l] = "
    "tn_from_bits_f32((int32_t)(uint32_t)bits); \\\n"
    "        tn_store_u16x##N(h, tn_short_f16_f32x##N(tn_load_f32x##N(x))); \\\n"
    "        tn_store_u16x##N(g, tn_short_bf16_f32x##N(tn_load_f32x##N(x))); \\\n"
    "        for (int l = 0; l < N; l++) { \\\n"
    "            uint16_t want = (uint16_t)tn_narrow_f16_f32(x[l]), also = "
    "(uint16_t)tn_narrow_bf16_f32(x[l]), one = tn_short_f16_f32(x[l]); \\\n"
    "            if (isnan(x[l]) ? (h[l] & 0x7fff) <= 0x7c00 || (one & 0x7fff) <= 0x7c00 || (g[l] "
    "& 0x7fff) <= 0x7f80 : h[l] != want || one != want || g[l] != also) \\\n"
    "                if (failed++ < 20) printf(\"%a of %d lanes: f16 %04x, want %04x; bf16 %04x, "
    "want %04x\\n\", x[l], N, h[l], want, g[l], also); \\\n"
    "        } \\\n"
    "    } \\\n"
    "}\n"
    "SHORTS(2) SHORTS(4) SHORTS(8) SHORTS(16)\n"
    "#define FUNCTIONS(X) X(exp) X(log) X(tanh) X(erf) X(sigmoid) X(softplus)\n"
    "FUNCTIONS(CHECK)\n"
    "#define CALL(f) total = total * 31 + check_##f();\n"
    "int main(int argc, char **argv) {\n"
    "    uint64_t total = 0;\n"
    "    step = strtoull(argv[argc - 3], NULL, 10), allowed = atof(argv[argc - 2]);\n"
    "    FUNCTIONS(CALL)\n"
    "    shorts_2(); shorts_4(); shorts_8(); shorts_16();\n"
    "    FILE *out = fopen(argv[argc - 1], \"w\");\n"
    "    if (!out || fprintf(out, \"%llx\", (unsigned long long)total) < 0 || fclose(out)) return "
    "2;\n"
    "    return failed ? 1 : 0;\n"
    "}\n";

enum { SOME = 4099 }; /* odd, so that every exponent meets many fractions */
static char folder[] = "/tmp/tenon-math-XXXXXX";
static unsigned long long fused; /* what all give that multiply and add in one rounding */

static int
make_folder(void **state)
{
    (void)state;
    char path[64];
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/math.c", folder);
    FILE *f = fopen(path, "w");
    return !f || fputs(emit_c_prelude(), f) < 0 || fputs(program, f) < 0 || fclose(f) != 0;
}

static int
remove_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* allowed 0: only the bits, which have been looked at before. */
static unsigned long long
run_with(const char *compiler, const char *machine, double allowed, int step)
{
    char command[640];
    unsigned long long hash = 0;
    snprintf(command, sizeof command,
             "cd %s && %s %s -w %s math.c -o math -lm && ./math %d %g hash", folder, compiler,
             emit_c_flags(), machine, step, allowed);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/hash", folder);
    FILE *f = fopen(command, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%llx", &hash), 1);
    fclose(f);
    return hash;
}

static bool
have(const char *compiler)
{
    char command[64];
    snprintf(command, sizeof command, "command -v %s >/dev/null", compiler);
    return system(command) == 0;
}

/* Two roundings where others have one cost a little. */
static void
test_plain(void **state)
{
    (void)state;
    run_with("cc", "", 2.25, SOME);
}

#ifdef __x86_64__
#define AVX2 "-mavx2 -mfma -mf16c"
#define AVX512 AVX2 " -mavx512f -mavx512vl -mavx512bw -mavx512dq -mprefer-vector-width=512"

static void
test_avx2(void **state)
{
    (void)state;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        skip();
    fused = run_with("cc", AVX2, 2, SOME);
    if (have("gcc"))
        assert_true(run_with("gcc", AVX2, 0, SOME) == fused);
    if (have("clang"))
        assert_true(run_with("clang", AVX2, 0, SOME) == fused);
    if (getenv("TENON_NIGHTLY"))
        run_with("cc", AVX2, 2, 1);
}

static void
test_avx512(void **state)
{
    (void)state;
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512dq"))
        skip();
    assert_true(run_with("cc", AVX512, 0, SOME) == fused);
    if (have("clang"))
        assert_true(run_with("clang", AVX512, 0, SOME) == fused);
}
#endif

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
#ifdef __x86_64__
        cmocka_unit_test(test_avx2),
        cmocka_unit_test(test_avx512),
#endif
    };
    return cmocka_run_group_tests_name("prelude math", tests, make_folder, remove_folder);
}
