/* The prelude of emitted C: special values, partial vectors, conversions, integers. How accurate
 * its functions are is test_prelude_math.c's. */
#include "tenon_abi.h"
#include "emit/prelude_sizes.h"
#include "emit/prelude.h"
#include "emit/prelude_math.h"
#include "emit/prelude_lanes.h"
#include "emit/prelude_host.h"
#include "type/dtype.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <cmocka.h>

TN_VECTORS_F32(2)
TN_VECTORS_OTHER(2)
TN_VECTORS_F32(4)
TN_VECTORS_OTHER(4)
TN_VECTORS_F32(8)
TN_VECTORS_OTHER(8)
TN_VECTORS_F32(16)
TN_VECTORS_OTHER(16)

static void
test_special_values(void **state)
{
    (void)state;
    float inf = INFINITY, nan = NAN;
    assert_true(tn_exp_f32(inf) == inf && tn_exp_f32(-inf) == 0 && isnan(tn_exp_f32(nan)) &&
                tn_exp_f32(0) == 1);
    assert_true(tn_log_f32(0) == -inf && tn_log_f32(inf) == inf && isnan(tn_log_f32(-1)) &&
                tn_log_f32(1) == 0);
    assert_true(isnan(tn_log_f32(nan)) && isnan(tn_log_f32(-inf)));
    assert_true(tn_tanh_f32(inf) == 1 && tn_tanh_f32(-inf) == -1 && isnan(tn_tanh_f32(nan)) &&
                signbit(tn_tanh_f32(-0.0f)));
    assert_true(tn_erf_f32(inf) == 1 && tn_erf_f32(-inf) == -1 && isnan(tn_erf_f32(nan)) &&
                signbit(tn_erf_f32(-0.0f)));
    assert_true(tn_sigmoid_f32(inf) == 1 && tn_sigmoid_f32(-inf) == 0 &&
                isnan(tn_sigmoid_f32(nan)) && tn_sigmoid_f32(0) == 0.5f);
    assert_true(tn_softplus_f32(inf) == inf && tn_softplus_f32(-inf) == 0 &&
                isnan(tn_softplus_f32(nan)) && tn_softplus_f32(90) == 90);
    assert_true(tn_exp_f32(-103) == 0x1p-149f && tn_sigmoid_f32(-100) == 0x1.bp-145f &&
                tn_log_f32(0x1p-149f) == -103.27893f);
    assert_true(tn_sign_f32(-3) == -1 && tn_sign_f32(0) == 0 && tn_sign_f32(inf) == 1 &&
                isnan(tn_sign_f32(nan)));
}

static void
test_min_max_keep_nan(void **state)
{
    (void)state;
    const float x[4] = { 1, NAN, NAN, -2 }, y[4] = { NAN, 1, NAN, 5 };
    tn_f32x4 small = tn_min_f32x4(tn_load_f32x4(x), tn_load_f32x4(y)),
             large = tn_max_f32x4(tn_load_f32x4(x), tn_load_f32x4(y));
    for (int l = 0; l < 3; l++) {
        assert_true(isnan(small[l]) && isnan(large[l]));
        assert_true(isnan(tn_min_f32(x[l], y[l])) && isnan(tn_max_f32(x[l], y[l])));
    }
    assert_true(small[3] == -2 && large[3] == 5);
    assert_true(isnan(tn_max_c_f32(0, NAN)) && tn_max_c_f32(0, -1) == 0 && tn_min_c_f32(6, 7) == 6);
}

static void
test_first_lanes(void **state)
{
    (void)state;
    float from[20], to[20];
    for (int i = 0; i < 20; i++)
        from[i] = (float)(i + 1);
    for (int n = -1; n <= 17; n++) {
        int lanes = n < 0 ? 0 : n > 16 ? 16 : n;
        tn_f32x16 v = tn_load_first_f32x16(from, n), apart = tn_load_apart_f32x16(from, 1, n);
        for (int l = 0; l < 16; l++)
            assert_true(v[l] == (l < lanes ? from[l] : 0) && apart[l] == v[l]);
        memset(to, 0, sizeof to);
        tn_store_first_f32x16(to, tn_load_f32x16(from), n);
        for (int l = 0; l < 20; l++)
            assert_true(to[l] == (l < lanes ? from[l] : 0));
    }
    memset(to, 0, sizeof to);
    tn_store_apart_f32x4(to + 9, tn_load_f32x4(from), -3, 4);
    assert_true(to[9] == 1 && to[6] == 2 && to[3] == 3 && to[0] == 4 && to[1] == 0);
    tn_i32x16 first = tn_first_i32x16(3);
    assert_true(first[2] == -1 && first[3] == 0 && tn_any_i32x16(first) &&
                !tn_any_i32x16(tn_first_i32x16(-5)));
}

static void
test_folds(void **state)
{
    (void)state;
    float x[16], sum = 0;
    for (int i = 0; i < 16; i++)
        sum += x[i] = (float)(i * i - 40);
    tn_f32x16 v = tn_load_f32x16(x);
    assert_true(tn_hsum_f32x16(v) == sum && tn_hmax_f32x16(v) == 185 && tn_hmin_f32x16(v) == -40);
    assert_true(tn_hprod_i32x4((tn_i32x4){ 2, 3, 4, 5 }) == 120 &&
                tn_hsum_u8x2((tn_u8x2){ 250, 10 }) == 4);
    x[7] = NAN;
    assert_true(isnan(tn_hmax_f32x16(tn_load_f32x16(x))));
}

/* Every f16 and bf16 comes back; halfway cases go to even, as the processor's conversion does. */
static void
check_half(void)
{
    for (int32_t h = 0; h < 0x10000; h++) {
        float x = tn_widen_f16_f32(h), y = tn_widen_bf16_f32(h);
        if (!isnan(x))
            assert_int_equal(tn_narrow_f16_f32(x), h);
        else
            assert_true((h & 0x7c00) == 0x7c00 && isnan(tn_to_f16_f32(x)));
        if (!isnan(y))
            assert_int_equal(tn_narrow_bf16_f32(y), h);
        else
            assert_true(isnan(tn_to_bf16_f32(y)));
    }
    assert_true(tn_widen_f16_f32(0x3c00) == 1 && tn_widen_f16_f32(1) == 0x1p-24f &&
                tn_widen_f16_f32(0x7bff) == 65504);
    assert_true(tn_to_f16_f32(2049) == 2048 && tn_to_f16_f32(2051) == 2052 &&
                tn_to_f16_f32(65519) == 65504);
    assert_true(isinf(tn_to_f16_f32(65520)) && tn_to_f16_f32(0x1p-25f) == 0 &&
                tn_to_f16_f32(0x1.8p-25f) == 0x1p-24f);
    assert_true(tn_to_bf16_f32(0x1.01p0f) == 1 && tn_to_bf16_f32(0x1.03p0f) == 0x1.04p0f &&
                isinf(tn_to_bf16_f32(0x1.ffp127f)));
}

/* The prelude and the table of types (type/number.c) agree on every code of the floats of 8 bits
 * and fewer, and on what numbers around them and between them round to; many lanes give what one
 * gives. */
static void
check_small_floats(void)
{
    static const DType types[] = { DT_F8E4M3, DT_F8E4M3Z, DT_F8E5M2, DT_F8E5M2Z,
                                   DT_F6E2M3, DT_F6E3M2,  DT_F4E2M1 };
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        FloatLayout l = dtype_layout(types[t]);
        for (int32_t code = 0; code < 1 << dtype_info[types[t]].bits; code++) {
            uint8_t h = (uint8_t)code;
            float want = (float)number_load(types[t], &h, 0).f,
                  x = tn_widen_small_f32(code, l.exponent, l.fraction, l.bias, l.kind);
            assert_true(isnan(want) ? isnan(x) : want == x && signbit(want) == signbit(x));
            if (isnan(x))
                continue;
            assert_int_equal(
                tn_narrow_small_f32(x, l.exponent, l.fraction, l.bias, l.kind, (float)l.largest),
                code);
            for (int k = -40; k <= 40; k++) {
                float near = x + (x == 0 || isinf(x) ? 0x1p-9f : x) * 0.0125f * (float)k;
                uint8_t stored;
                number_store(types[t], &stored, 0, (Number){ .f = near });
                assert_int_equal(tn_narrow_small_f32(near, l.exponent, l.fraction, l.bias, l.kind,
                                                     (float)l.largest),
                                 stored);
                assert_int_equal(tn_narrow_small_f32x4((tn_f32x4){ near, 1, near, 0 }, l.exponent,
                                                       l.fraction, l.bias, l.kind,
                                                       (float)l.largest)[2],
                                 stored);
            }
        }
    }
    for (int32_t code = 0; code < 256; code++) {
        uint8_t h = (uint8_t)code, stored;
        float want = (float)number_load(DT_F8E8M0, &h, 0).f, x = tn_widen_e8m0_f32(code);
        assert_true(isnan(want) ? isnan(x) : want == x);
        for (int k = -3; k <= 3; k++) {
            float near = x + x * 0.2f * (float)k;
            number_store(DT_F8E8M0, &stored, 0, (Number){ .f = near });
            assert_int_equal(tn_narrow_e8m0_f32(near), stored);
        }
    }
}

/* Both as they are, and as kernels run: their denormals are no denormals of f32. */
static void
test_short_floats(void **state)
{
    (void)state;
    check_half();
    check_small_floats();
    TN_FLUSH_DENORMALS
    check_half();
    check_small_floats();
}

static void
test_integers(void **state)
{
    (void)state;
    for (int64_t a = -9; a <= 9; a++)
        for (int64_t b = -4; b <= 4; b++) {
            if (b == 0)
                continue;
            int64_t q = (int64_t)floor((double)a / (double)b);
            assert_int_equal(tn_div(a, b), q);
            assert_int_equal(tn_mod(a, b), a - b * q);
            assert_int_equal(tn_mod_i8((int8_t)a, (int8_t)b), a - b * q);
        }
    assert_true(tn_quot_i32(7, 0) == 0 && tn_quot_i32(INT32_MIN, -1) == INT32_MIN &&
                tn_rem_i64(INT64_MIN, -1) == 0);
    assert_true(tn_pow_i32(3, 4) == 81 && tn_pow_i64(-1, -3) == -1 && tn_pow_u8(2, 9) == 0);
    assert_true(tn_i8_from_f32(-1e9f) == -128 && tn_i8_from_f32(127.9f) == 127 &&
                tn_u8_from_f32(-0.5f) == 0);
    assert_true(tn_i64_from_f32(NAN) == 0 && tn_i64_from_f64(1e30) == INT64_MAX &&
                tn_u32_from_f64(-INFINITY) == 0);
    const float wide[8] = { -1e9f, 127.9f, NAN, -3.7f, 1e9f, 2.5f, -INFINITY, INFINITY };
    tn_i8x8 cut = tn_i8x8_from_f32x8(tn_load_f32x8(wide));
    tn_i32x8 more = tn_i32x8_from_f32x8(tn_load_f32x8(wide) * 100.0f);
    for (int l = 0; l < 8; l++)
        assert_true(cut[l] == tn_i8_from_f32(wide[l]) &&
                    more[l] == tn_i32_from_f32(wide[l] * 100.0f));
    assert_true(tn_size_mul(INT64_MAX, 2) == TN_BAD_SIZE &&
                tn_size_add(TN_BAD_SIZE, 1) == TN_BAD_SIZE && tn_size_mul(6, 7) == 42);
}

static void
test_index_faults(void **state)
{
    (void)state;
    TnFault fault = { 0 };
    TnArgs args = { .fault = &fault, .kernel = 4 };
    assert_int_equal(tn_at(&args, -1, 5), 4);
    assert_int_equal(fault.code, TN_FAULT_NONE);
    assert_int_equal(tn_at(&args, 5, 5), 0);
    assert_int_equal(tn_at(&args, -6, 5), 0);
    assert_true(fault.code == TN_FAULT_INDEX && fault.got == 5 && fault.want == 5 &&
                fault.where == 4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_special_values), cmocka_unit_test(test_min_max_keep_nan),
        cmocka_unit_test(test_first_lanes),    cmocka_unit_test(test_folds),
        cmocka_unit_test(test_short_floats),   cmocka_unit_test(test_integers),
        cmocka_unit_test(test_index_faults),
    };
    return cmocka_run_group_tests_name("prelude", tests, NULL, NULL);
}
