/* prelude_math: exp, log, tanh, erf and their like in f32, at most 2 ulp from the exact value.
 *
 * Each is written once, over a "shape": f32 (one lane) or f32xN. S names the shape, F is its
 * floats, I the integers of the same width. A scalar tail so computes what the vector body does.
 * There are no branches and no tables: what a processor with N lanes pays for is the number of
 * operations, and these are few. They do not all wait for each other either: a reorder buffer
 * holds some hundred operations, four of these functions, so long polynomials are sums of short
 * ones.
 * tools/minimax.py derives the coefficients.
 *
 * What all share is e^x. With n = round(x / ln 2) and r = x - n ln 2 (Cody and Waite: n times the
 * first part of ln 2 is exact), e^x = 2^n p(r). The rounding is an addition: t = x / ln 2 + 1.5 *
 * 2^23 + b holds n + b in its low bits, so that t shifted left by 23 is the float 2^(n + b - 127):
 * TN_ROUND and TN_POWER. One such power reaches 254 of the 278 binary orders from the smallest
 * denormal to overflow. exp takes two, or the processor's own scaling; functions whose x is at most
 * 20 shift the range, with b = 127 + 64.
 *
 * tanh     (e^2a - 1) / (e^2a + 1) for a = |x|, with e^2a - 1 = 2^n q(r) + (2^n - 1) exact to the
 *          last place near 0 as well; the quotient damps the errors of large a.
 * erf      1 - 2^v(a), v a polynomial for log2 erfc; 2^v - 1 as in tanh, so that one formula serves
 * all a.
 * sigmoid  e^x / (e^x + 1), both scaled: the quotient rounds results that are denormal.
 * softplus max(x, 0) + log(1 + e^-|x|), the logarithm a polynomial in e^-|x|.
 * log      x = m 2^e with m in [2/3, 4/3). What is no positive number is put in through the addend.
 *
 * Where the compiler may fuse a product and a sum, only one product is beside the sum: so it
 * has no choice which to fuse, and one lane gives the bits that many lanes give. */
#ifndef TN_PRELUDE_MATH_H
#define TN_PRELUDE_MATH_H

#define TN_ROUND 12582912.0f                      /* 1.5 * 2^23: floats around it are integers */
#define TN_POWER(S, t) tn_from_bits_##S(tn_bits_##S(t) << 23)
#define TN_LOG2_E 1.44269504f
#define TN_LN_2 0.693147182f
#define TN_LN_2_HIGH 0.693145752f                 /* 15 digits, and the rest */
#define TN_LN_2_LOW 1.42860677e-6f

#define TN_MATH_F32(S, F, I)                                                                       \
    TN_INLINE F tn_sign_of_##S(F x, F sign)                                                        \
    {                                                                                              \
        return tn_from_bits_##S(tn_bits_##S(x) | (tn_bits_##S(sign) & INT32_MIN));                 \
    }                                                                                              \
    /* e^c = 2^n (1 + r q): r, q, and n + bias in the low bits of *t */                            \
    TN_INLINE F tn_exp_parts_##S(F c, float bias, F *t, F *r)                                      \
    {                                                                                              \
        *t = c * TN_LOG2_E + (TN_ROUND + bias);                                                    \
        F k = *t - (TN_ROUND + bias);                                                              \
        F x = c - k * TN_LN_2_HIGH;                                                                \
        x = x - k * TN_LN_2_LOW;                                                                   \
        F q = x * 1.3828325e-3f + 8.3686132e-3f;                                                   \
        q = q * x + 4.1668206e-2f;                                                                 \
        q = q * x + 1.66665226e-1f;                                                                \
        q = q * x + 4.9999994e-1f;                                                                 \
        *r = x;                                                                                    \
        return q * x + 1.0f;                                                                       \
    }                                                                                              \
    TN_INLINE F tn_exp_##S(F x)                                                                    \
    {                                                                                              \
        const F zero = {0};                                                                        \
        F t, r, q = tn_exp_parts_##S(tn_min_c_##S(zero + 89.0f, tn_max_c_##S(zero - 104.0f, x)), 254.0f, &t, &r); \
        return tn_scale_##S(q * r + 1.0f, t - (TN_ROUND + 254.0f), tn_bits_##S(t));                \
    }                                                                                              \
    TN_INLINE F tn_log_##S(F x)                                                                    \
    {                                                                                              \
        const F zero = {0};                                                                        \
        I low = x < 0x1p-126f;                                                                     \
        I bits = tn_bits_##S(x * tn_sel_##S(low, zero + 0x1p23f, zero + 1.0f));                    \
        I e = (bits - 0x3f2aaaab) & ~0x7fffff;                                                     \
        F f = tn_from_bits_##S(bits - e) - 1.0f;                                                   \
        F other = tn_sel_##S(x > 0.0f, zero - 15.942385f, tn_sel_##S(x == 0.0f, zero - __builtin_inff(), zero + __builtin_nanf(""))); \
        F rest = tn_sel_##S(low, other, tn_sel_##S(x <= 0x1.fffffep127f, zero, x));                \
        F p = f * 1.41839355e-1f - 1.54127851e-1f;                                                 \
        p = p * f + 1.39711455e-1f;                                                                \
        p = p * f - 1.64146438e-1f;                                                                \
        p = p * f + 2.00122105e-1f;                                                                \
        p = p * f - 2.50077277e-1f;                                                                \
        p = p * f + 3.33331853e-1f;                                                                \
        p = p * f - 4.99999374e-1f;                                                                \
        p = p * (f * f) + f;                                                                       \
        return tn_float_##S(e) * (TN_LN_2 * 0x1p-23f) + (p + rest);                                \
    }                                                                                              \
    TN_INLINE F tn_tanh_##S(F x)                                                                   \
    {                                                                                              \
        const F zero = {0};                                                                        \
        F a = tn_min_c_##S(zero + 9.1f, tn_abs_##S(x));                                            \
        F t = a * (2 * TN_LOG2_E) - 0.25f + (TN_ROUND + 127.0f);                                   \
        F r = a - (t - (TN_ROUND + 127.0f)) * (TN_LN_2 / 2);                                       \
        F z = r * r;                                                                               \
        F h = z * -5.12228422e-2f + 1.33226767e-1f;                                                \
        h = h * z - 3.33332151e-1f;                                                                \
        h = h * (r * z) + r;                                                                       \
        F power = TN_POWER(S, t);                                                                  \
        F above = h * (power + 1.0f) + (power - 1.0f);                                             \
        return tn_sign_of_##S(above / (above + (2.0f - 2.0f * h)), x);                             \
    }                                                                                              \
    TN_INLINE F tn_erf_##S(F x)                                                                    \
    {                                                                                              \
        const F zero = {0};                                                                        \
        F a = tn_min_c_##S(zero + 3.93f, tn_abs_##S(x));                                           \
        F a2 = a * a;                                                                              \
        F a4 = a2 * a2;                                                                            \
        F w = a * 6.36619568e-1f + 1.28379166e-1f;                                                 \
        F w2 = a * -1.91478245e-2f + 1.02776304e-1f;                                               \
        F w4 = a * 1.67565921e-3f - 1.69494640e-4f;                                                \
        F w6 = a * 1.18855954e-4f - 6.37349382e-4f;                                                \
        w = w2 * a2 + w;                                                                           \
        w4 = w6 * a2 + w4;                                                                         \
        w4 = a4 * -9.38718222e-6f + w4;                                                            \
        w = w4 * a4 + w;                                                                           \
        w = w * a + a;                                                                             \
        F t = w * -TN_LOG2_E + (TN_ROUND + 127.0f);                                                \
        F r = w + (t - (TN_ROUND + 127.0f)) * TN_LN_2;                                             \
        F r2 = r * r;                                                                              \
        F q = r * 1.66665480e-1f - 4.99999911e-1f;                                                 \
        F q2 = r * 8.36709701e-3f - 4.16693762e-2f;                                                \
        q2 = r2 * -1.37696136e-3f + q2;                                                            \
        F power = TN_POWER(S, t);                                                                  \
        q = q2 * r2 + q;                                                                           \
        q = q * r2 + r;                                                                            \
        return tn_sign_of_##S(q * power + (1.0f - power), x);                                      \
    }                                                                                              \
    TN_INLINE F tn_sigmoid_##S(F x)                                                                \
    {                                                                                              \
        const F zero = {0};                                                                        \
        F t, r, q = tn_exp_parts_##S(-tn_min_c_##S(zero + 20.0f, tn_max_c_##S(zero - 104.0f, x)), 63.0f, &t, &r); \
        F power = TN_POWER(S, t);                                                                  \
        return 0x1p-64f / (q * r * power + 0x1p-64f + power);                                      \
    }                                                                                              \
    TN_INLINE F tn_softplus_##S(F x)                                                               \
    {                                                                                              \
        const F zero = {0};                                                                        \
        F t, r, q = tn_exp_parts_##S(tn_max_c_##S(zero - 104.0f, -tn_abs_##S(x)), 191.0f, &t, &r); \
        F e = (q * r + 1.0f) * TN_POWER(S, t) * 0x1p-64f;                                          \
        F p = e * -3.29046859e-3f + 2.00862419e-2f;                                                \
        p = p * e - 5.74572310e-2f;                                                                \
        p = p * e + 1.06611282e-1f;                                                                \
        p = p * e - 1.53448805e-1f;                                                                \
        p = p * e + 1.96921021e-1f;                                                                \
        p = p * e - 2.49580190e-1f;                                                                \
        p = p * e + 3.33304644e-1f;                                                                \
        p = p * e - 4.99999315e-1f;                                                                \
        p = p * (e * e) + e;                                                                       \
        return p + tn_max_c_##S(zero, x);                                                          \
    }                                                                                              \
    /* f16 and bf16 bits, in the low half of each integer, to floats and back (nearest, ties to even). What is denormal there \
     * becomes normal without a denormal float between, which would count as 0. */                 \
    TN_INLINE F tn_widen_f16_##S(I h)                                                              \
    {                                                                                              \
        I magnitude = (h & 0x7fff) << 13;                                                          \
        F y = tn_from_bits_##S(magnitude + (112 << 23));                                           \
        y = tn_sel_##S(magnitude < 1 << 23, tn_from_bits_##S(magnitude + (113 << 23)) - 0x1p-14f, y); \
        y = tn_sel_##S(magnitude >= 0x0f800000, tn_from_bits_##S(magnitude | 0x7f800000), y);      \
        return tn_from_bits_##S(tn_bits_##S(y) | (h & 0x8000) << 16);                              \
    }                                                                                              \
    TN_INLINE I tn_narrow_f16_##S(F x)                                                             \
    {                                                                                              \
        F a = tn_abs_##S(x);                                                                       \
        I bits = tn_bits_##S(a);                                                                   \
        I normal = (bits - 0x38000000 + 0xfff + ((bits >> 13) & 1)) >> 13;                         \
        I small = tn_bits_##S(a + 0.5f) - 0x3f000000;                                              \
        I h = tn_isel_##S(a < 0x1p-14f, small, normal);                                            \
        h = tn_isel_##S(a >= 65520.0f, (bits & 0) + 0x7c00, h);                                    \
        h = tn_isel_##S(a != a, (bits & 0) + 0x7e00, h);                                           \
        return h | ((tn_bits_##S(x) >> 16) & 0x8000);                                              \
    }                                                                                              \
    TN_INLINE F tn_widen_bf16_##S(I h) { return tn_from_bits_##S(h << 16); }                       \
    TN_INLINE I tn_narrow_bf16_##S(F x)                                                            \
    {                                                                                              \
        I bits = tn_bits_##S(x), high = bits >> 16;                                                \
        I h = high + (((bits & 0xffff) + 0x7fff + (high & 1)) >> 16);                              \
        return tn_isel_##S(x != x, high | 0x40, h) & 0xffff;                                       \
    }                                                                                              \
    /* Floats of 8 bits and fewer, from E exponent and M fraction bits; kind is a FloatKind (type/dtype.h). The \
     * nearest of them, ties to even; what is too large becomes the largest, except infinity where there is one. */ \
    TN_INLINE F tn_widen_small_##S(I h, int E, int M, int bias, int kind)                          \
    {                                                                                              \
        const F zero = {0};                                                                        \
        I size = h & ((1 << (E + M)) - 1), sign = (h & (1 << (E + M))) << (31 - E - M);            \
        I magnitude = size << (23 - M), least = (size & 0) + ((128 - bias) << 23);                 \
        F y = tn_from_bits_##S(magnitude + ((127 - bias) << 23));                                  \
        y = tn_sel_##S(size < 1 << M, tn_from_bits_##S(magnitude + least) - tn_from_bits_##S(least), y); \
        if (kind == 0)                                                                             \
            y = tn_sel_##S(size >= ((1 << E) - 1) << M, tn_from_bits_##S(size << (23 - M) | 0x7f800000), y); \
        if (kind == 1)                                                                             \
            y = tn_sel_##S(size == (1 << (E + M)) - 1, zero + __builtin_nanf(""), y);              \
        if (kind == 2)                                                                             \
            return tn_sel_##S(h == 1 << (E + M), zero + __builtin_nanf(""), tn_from_bits_##S(tn_bits_##S(y) | sign)); \
        return tn_from_bits_##S(tn_bits_##S(y) | sign);                                            \
    }                                                                                              \
    TN_INLINE I tn_narrow_small_##S(F x, int E, int M, int bias, int kind, float largest)          \
    {                                                                                              \
        const F zero = {0};                                                                        \
        F a = tn_min_c_##S(tn_abs_##S(x), zero + largest);                                         \
        I bits = tn_bits_##S(a), zeros = bits & 0;                                                 \
        I normal = (bits - ((127 - bias) << 23) + (1 << (22 - M)) - 1 + ((bits >> (23 - M)) & 1)) >> (23 - M); \
        F unit = tn_from_bits_##S(zeros + ((151 - bias - M) << 23));                               \
        I small = tn_bits_##S(a + unit) - tn_bits_##S(unit);                                       \
        I h = tn_isel_##S(a < tn_from_bits_##S(zeros + ((128 - bias) << 23)), small, normal);      \
        I sign = (tn_bits_##S(x) >> (31 - E - M)) & (1 << (E + M));                                \
        if (kind == 0)                                                                             \
            h = tn_isel_##S(tn_abs_##S(x) == __builtin_inff(), zeros + (((1 << E) - 1) << M), h);  \
        if (kind == 2)                                                                             \
            return tn_isel_##S(x != x, zeros + (1 << (E + M)), tn_isel_##S(h == 0, h, h | sign)); \
        if (kind == 3)                                                                             \
            return tn_isel_##S(x != x, zeros, h | sign);                                           \
        return tn_isel_##S(x != x, zeros + (kind == 0 ? (((1 << E) - 1) << M) + (1 << (M - 1)) : (1 << (E + M)) - 1), h) | sign; \
    }                                                                                              \
    TN_INLINE F tn_widen_e8m0_##S(I h)                                                             \
    {                                                                                              \
        const F zero = {0};                                                                        \
        F y = tn_from_bits_##S(h << 23 | tn_isel_##S(h == 0, (h & 0) + 0x00400000, h & 0));        \
        return tn_sel_##S(h == 255, zero + __builtin_nanf(""), y);                                 \
    }                                                                                              \
    TN_INLINE I tn_narrow_e8m0_##S(F x)                                                            \
    {                                                                                              \
        I bits = tn_bits_##S(x), zeros = bits & 0;                                                 \
        I h = (bits >> 23) + (((bits & 0x7fffff) + 0x7fffff) >> 23);                               \
        h = tn_isel_##S(x <= 0x1p-127f, zeros, h);                                                 \
        h = tn_isel_##S(x > 0x1p127f, zeros + 254, h);                                             \
        return tn_isel_##S(x >= 0.0f, h, zeros + 255);                                             \
    }

/* ---- f16 and bf16 in memory ------------------------------------------------------------------ */

/* H holds the bits of N elements, S has N lanes, LONG makes integers as wide as floats of them: to
 * floats, back (nearest, ties to even), and a float rounded to what it would be. The processor's
 * own conversion is in tn_f16_load and tn_f16_store, where it has one. */
#define TN_SHORT_FLOATS(S, F, I, H, LONG, CONVERT)                                                 \
    TN_INLINE F tn_wide_f16_##S(H h)                                                               \
    {                                                                                              \
        if (!TN_HAS_F16)                                                                           \
            return tn_widen_f16_##S(LONG(h));                                                      \
        F x;                                                                                       \
        tn_f16_load(&x, &h, sizeof h / 2);                                                         \
        return x;                                                                                  \
    }                                                                                              \
    TN_INLINE H tn_short_f16_##S(F x)                                                              \
    {                                                                                              \
        if (!TN_HAS_F16)                                                                           \
            return CONVERT(tn_narrow_f16_##S(x), H);                                               \
        H h;                                                                                       \
        tn_f16_store(&h, &x, sizeof h / 2);                                                        \
        return h;                                                                                  \
    }                                                                                              \
    TN_INLINE F tn_wide_bf16_##S(H h) { return tn_widen_bf16_##S(LONG(h)); }                       \
    TN_INLINE H tn_short_bf16_##S(F x) { return CONVERT(tn_narrow_bf16_##S(x), H); }               \
    TN_INLINE F tn_to_f16_##S(F x) { return tn_wide_f16_##S(tn_short_f16_##S(x)); }                \
    TN_INLINE F tn_to_bf16_##S(F x) { return tn_widen_bf16_##S(tn_narrow_bf16_##S(x)); }

#if defined(__F16C__) && defined(__has_builtin) && __has_builtin(__builtin_ia32_vcvtph2ps256)
#define TN_HAS_F16 1
typedef short tn_f16_part __attribute__((vector_size(16)));
typedef float tn_f16_wide __attribute__((vector_size(32)));
#if defined(__AVX512F__) && __has_builtin(__builtin_ia32_vcvtph2ps512_mask)
#define TN_HAS_F16_512 1
typedef short tn_f16_part_512 __attribute__((vector_size(32)));
typedef float tn_f16_wide_512 __attribute__((vector_size(64)));
TN_INLINE void tn_f16_load_512(void *to, const void *from)
{
    tn_f16_part_512 h;
    tn_f16_wide_512 x = {0};
    memcpy(&h, from, sizeof h);
    x = __builtin_ia32_vcvtph2ps512_mask(h, x, -1, 4);
    memcpy(to, &x, sizeof x);
}
TN_INLINE void tn_f16_store_512(void *to, const void *from)
{
    tn_f16_part_512 h = {0};
    tn_f16_wide_512 x;
    memcpy(&x, from, sizeof x);
    h = __builtin_ia32_vcvtps2ph512_mask(x, 0, h, -1);
    memcpy(to, &h, sizeof h);
}
#else
#define TN_HAS_F16_512 0
TN_INLINE void tn_f16_load_512(void *to, const void *from) { (void)to, (void)from; }
TN_INLINE void tn_f16_store_512(void *to, const void *from) { (void)to, (void)from; }
#endif
/* A register's worth at a time, or as many as there are. */
TN_INLINE void tn_f16_load(void *to, const void *from, size_t lanes)
{
    const size_t some = lanes < 8 ? lanes : 8;
    if (TN_HAS_F16_512 && lanes == 16) {
        tn_f16_load_512(to, from);
        return;
    }
#pragma GCC unroll 8
    for (size_t l = 0; l < lanes; l += 8) {
        tn_f16_part h = {0};
        memcpy(&h, (const char *)from + 2 * l, 2 * some);
        tn_f16_wide x = __builtin_ia32_vcvtph2ps256(h);
        memcpy((char *)to + 4 * l, &x, 4 * some);
    }
}
TN_INLINE void tn_f16_store(void *to, const void *from, size_t lanes)
{
    const size_t some = lanes < 8 ? lanes : 8;
    if (TN_HAS_F16_512 && lanes == 16) {
        tn_f16_store_512(to, from);
        return;
    }
#pragma GCC unroll 8
    for (size_t l = 0; l < lanes; l += 8) {
        tn_f16_wide x = {0};
        memcpy(&x, (const char *)from + 4 * l, 4 * some);
        tn_f16_part h = __builtin_ia32_vcvtps2ph256(x, 0);       /* nearest, whatever the mode */
        memcpy((char *)to + 2 * l, &h, 2 * some);
    }
}
#elif defined(__aarch64__)
#define TN_HAS_F16 1
typedef __fp16 tn_f16_part __attribute__((vector_size(8)));
typedef float tn_f16_wide __attribute__((vector_size(16)));
/* Four at a time by fcvtl and fcvtn, or as many as there are. */
TN_INLINE void tn_f16_load(void *to, const void *from, size_t lanes)
{
    const size_t some = lanes < 4 ? lanes : 4;
#pragma GCC unroll 4
    for (size_t l = 0; l < lanes; l += 4) {
        tn_f16_part h = {0};
        memcpy(&h, (const char *)from + 2 * l, 2 * some);
        tn_f16_wide x = __builtin_convertvector(h, tn_f16_wide);
        memcpy((char *)to + 4 * l, &x, 4 * some);
    }
}
TN_INLINE void tn_f16_store(void *to, const void *from, size_t lanes)
{
    const size_t some = lanes < 4 ? lanes : 4;
#pragma GCC unroll 4
    for (size_t l = 0; l < lanes; l += 4) {
        tn_f16_wide x = {0};
        memcpy(&x, (const char *)from + 4 * l, 4 * some);
        tn_f16_part h = __builtin_convertvector(x, tn_f16_part);
        memcpy((char *)to + 2 * l, &h, 2 * some);
    }
}
#else
#define TN_HAS_F16 0
TN_INLINE void tn_f16_load(void *to, const void *from, size_t lanes) { (void)to, (void)from, (void)lanes; }
TN_INLINE void tn_f16_store(void *to, const void *from, size_t lanes) { (void)to, (void)from, (void)lanes; }
#endif

TN_INLINE int32_t tn_isel_f32(int c, int32_t x, int32_t y) { return c ? x : y; }
TN_INLINE float tn_float_f32(int32_t i) { return (float)i; }
/* p * 2^n in two steps, the first exact: denormals are rounded once. both: n + 254 in the low
 * bits. */
#define TN_SCALE(S, F, I)                                                                          \
    TN_INLINE F tn_scale_##S(F p, F n, I both)                                                     \
    {                                                                                              \
        I half = both >> 1;                                                                        \
        (void)n;                                                                                   \
        return p * tn_from_bits_##S(half << 23) * tn_from_bits_##S((both - half) << 23);           \
    }
TN_SCALE(f32, float, int32_t)
TN_MATH_F32(f32, float, int32_t)
#define TN_CAST(x, T) ((T)(x))
TN_SHORT_FLOATS(f32, float, int32_t, uint16_t, (int32_t), TN_CAST)

#endif
