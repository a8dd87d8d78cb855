/* prelude_lanes: the vectors of emitted kernels, and the prelude's functions over them.
 *
 * A vector type is tn_<element>x<lanes>, of GCC's and Clang's vector extensions; the same text
 * serves AVX2, AVX-512, NEON and WebAssembly. The types and functions of one lane count appear
 * with TN_VECTORS(lanes), which a kernel asks for; those of one lane are always there.
 */
#ifndef TN_PRELUDE_LANES_H
#define TN_PRELUDE_LANES_H

/* GCC 12 makes masked loads of a loop whose lanes are wanted under a mask; where the mask is a
 * choice between constants, it folds the two into a choice of masks, for which AVX2 has no
 * instruction, and stops (gimple_expand_vec_cond_expr). It folds nothing into a mask that it cannot
 * see. */
#if defined(__GNUC__) && !defined(__clang__)
#define TN_OPAQUE(mask) do { if (!__builtin_constant_p(mask)) __asm__("" : "+m"(mask)); } while (0)
#else
#define TN_OPAQUE(mask) (void)0
#endif

/* TN_OR(~ NAME, general) is what NAME is defined as, behind a comma: one instruction that the
 * compilers do not find themselves, for vectors of one width; `general` where there is no such
 * macro. */
#define TN_SECOND_OF(first, second, ...) second
#define TN_OR(...) TN_SECOND_OF(__VA_ARGS__, )

/* Lists of N items: TN_EACH4(X, a) is X(0, a), X(1, a), X(2, a), X(3, a). */
#define TN_EACH2(X, a) X(0, a), X(1, a)
#define TN_EACH4(X, a) TN_EACH2(X, a), X(2, a), X(3, a)
#define TN_EACH8(X, a) TN_EACH4(X, a), X(4, a), X(5, a), X(6, a), X(7, a)
#define TN_EACH16(X, a) TN_EACH8(X, a), X(8, a), X(9, a), X(10, a), X(11, a), X(12, a), X(13, a), X(14, a), X(15, a)
#define TN_EACH32(X, a) TN_EACH16(X, a), X(16, a), X(17, a), X(18, a), X(19, a), X(20, a), X(21, a), X(22, a), X(23, a), \
    X(24, a), X(25, a), X(26, a), X(27, a), X(28, a), X(29, a), X(30, a), X(31, a)
#define TN_EACH64(X, a) TN_EACH32(X, a), X(32, a), X(33, a), X(34, a), X(35, a), X(36, a), X(37, a), X(38, a), X(39, a), \
    X(40, a), X(41, a), X(42, a), X(43, a), X(44, a), X(45, a), X(46, a), X(47, a), X(48, a), X(49, a), X(50, a), \
    X(51, a), X(52, a), X(53, a), X(54, a), X(55, a), X(56, a), X(57, a), X(58, a), X(59, a), X(60, a), X(61, a), \
    X(62, a), X(63, a)
#define TN_SAME(l, x) x
#define TN_LANE(l, x) l
#define TN_APART(l, stride) p[(l) * stride]
#define TN_PUT_APART(l, stride) p[(l) * stride] = v[l]
#define TN_SECOND(l, N) ((l) < (N) / 2 ? 2 * (l) : 2 * (l) + 1)
/* The same in pairs, each out of one 128-bit half: two instructions order them that need no table
 * of places. GCC keeps such a table in a register throughout a kernel, and an accumulator of a tile
 * that fills 16 registers in memory instead. */
#define TN_SECOND_NEAR(l, N) ((l) % 4 < 2 ? (l) / 4 * 4 + (l) % 4 * 2 : (N) + (l) / 4 * 4 + (l) % 4 * 2 - 3)
typedef double tn_pairs4 __attribute__((vector_size(32)));
#define TN_SQRT_LANE(l, x) __builtin_sqrtf(x[l])
#define TN_SQRT_LANE_F64(l, x) __builtin_sqrt(x[l])
#define TN_ROTATE_2(l, h) (((l) + (h)) & 1)
#define TN_ROTATE_4(l, h) (((l) + (h)) & 3)
#define TN_ROTATE_8(l, h) (((l) + (h)) & 7)
#define TN_ROTATE_16(l, h) (((l) + (h)) & 15)
#define TN_ROTATE_32(l, h) (((l) + (h)) & 31)
#define TN_ROTATE_64(l, h) (((l) + (h)) & 63)

/* All lanes combined in a fixed tree: halves first, so lane l meets lane l + N/2. */
#define TN_FOLD(N, v, OP)                                                                          \
    do {                                                                                           \
        if (N > 32) v = OP(v, __builtin_shufflevector(v, v, TN_EACH##N(TN_ROTATE_##N, 32)));         \
        if (N > 16) v = OP(v, __builtin_shufflevector(v, v, TN_EACH##N(TN_ROTATE_##N, 16)));         \
        if (N > 8) v = OP(v, __builtin_shufflevector(v, v, TN_EACH##N(TN_ROTATE_##N, 8)));           \
        if (N > 4) v = OP(v, __builtin_shufflevector(v, v, TN_EACH##N(TN_ROTATE_##N, 4)));           \
        if (N > 2) v = OP(v, __builtin_shufflevector(v, v, TN_EACH##N(TN_ROTATE_##N, 2)));           \
        v = OP(v, __builtin_shufflevector(v, v, TN_EACH##N(TN_ROTATE_##N, 1)));                      \
    } while (0)
#define TN_ADD(x, y) ((x) + (y))
#define TN_MUL(x, y) ((x) * (y))

/* A pointer to whatever a builtin wants, on which the compilers do not agree. */
#ifdef __cplusplus
struct tn_any { const void *p; template <class T> operator T *() const { return (T *)p; } };
#define TN_ANY(p) tn_any{p}
#else
#define TN_ANY(p) (p)
#endif

/* Part of a vector through the processor's masks: what lies beyond the first n elements of `size`
 * bytes is neither read nor written. TN_MASKS tells which vectors have it. The builtins are called
 * by name since the compilers' headers of intrinsics cost more time than most kernels. */
#if defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__) && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_loaddqusi512_mask) && __has_builtin(__builtin_ia32_storedqusi512_mask) && \
    __has_builtin(__builtin_ia32_cvtb2mask512) && __has_builtin(__builtin_ia32_cvtd2mask512)
#define TN_MASKS(size, bytes) ((bytes) <= 64)
#define TN_PART(name, T, element, width)                                                           \
    typedef T tn_part_##name##width __attribute__((vector_size(width / 8)));                       \
    TN_INLINE void tn_part_load_##name##width(void *v, const void *p, uint64_t mask)               \
    {                                                                                              \
        tn_part_##name##width x = {0};                                                             \
        x = __builtin_ia32_loaddqu##name##width##_mask(TN_ANY(p), x, mask);                        \
        memcpy(v, &x, sizeof x);                                                                   \
    }                                                                                              \
    TN_INLINE void tn_part_store_##name##width(void *p, const void *v, uint64_t mask)              \
    {                                                                                              \
        tn_part_##name##width x;                                                                   \
        memcpy(&x, v, sizeof x);                                                                   \
        __builtin_ia32_storedqu##name##width##_mask(TN_ANY(p), x, mask);                           \
    }                                                                                              \
    TN_INLINE uint64_t tn_part_bits_##name##width(const void *mask)                                \
    {                                                                                              \
        tn_part_##name##width x;                                                                   \
        memcpy(&x, mask, sizeof x);                                                                \
        return __builtin_ia32_cvt##element##2mask##width(x);                                       \
    }
#define TN_PARTS(width) TN_PART(qi, char, b, width) TN_PART(hi, short, w, width) TN_PART(si, int, d, width) \
    TN_PART(di, long long, q, width)
TN_PARTS(128) TN_PARTS(256) TN_PARTS(512)
#define TN_PART_CASE(what, name, to, from, AND)                                                    \
    (bytes <= 16 ? tn_part_##what##_##name##128(to, from, first AND(name##128)) :                  \
     bytes <= 32 ? tn_part_##what##_##name##256(to, from, first AND(name##256)) :                  \
                   tn_part_##what##_##name##512(to, from, first AND(name##512)))
#define TN_PART_MOVE(what, to, from, AND)                                                          \
    const int64_t m = n < 0 ? 0 : n, lanes = (int64_t)(bytes / size);                              \
    const uint64_t first = m >= lanes ? UINT64_MAX >> (64 - lanes) : (UINT64_C(1) << m) - 1;       \
    size == 1 ? TN_PART_CASE(what, qi, to, from, AND) : size == 2 ? TN_PART_CASE(what, hi, to, from, AND) : \
    size == 4 ? TN_PART_CASE(what, si, to, from, AND) : TN_PART_CASE(what, di, to, from, AND)
#endif
#elif defined(__AVX2__) && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_maskloadd256) && __has_builtin(__builtin_ia32_maskstored256)
#define TN_MASKS(size, bytes) ((size) >= 4 && (bytes) <= 32)
#define TN_PIECES 1              /* a masked store is microcode on AMD's (12 to 19 cycles): a known number of lanes is two or three stores */
#define TN_PART(name, T, lanes)                                                                    \
    typedef T tn_part_##name __attribute__((vector_size(lanes * sizeof(T))));                      \
    TN_INLINE void tn_part_load_##name(void *v, const void *p, tn_part_##name mask)                \
    {                                                                                              \
        tn_part_##name x = __builtin_ia32_maskload##name(TN_ANY(p), mask);                         \
        memcpy(v, &x, sizeof x);                                                                   \
    }                                                                                              \
    TN_INLINE void tn_part_store_##name(void *p, const void *v, tn_part_##name mask)               \
    {                                                                                              \
        tn_part_##name x;                                                                          \
        memcpy(&x, v, sizeof x);                                                                   \
        __builtin_ia32_maskstore##name(TN_ANY(p), mask, x);                                        \
    }                                                                                              \
    TN_INLINE tn_part_##name tn_part_bits_##name(const void *mask)                                 \
    {                                                                                              \
        tn_part_##name x;                                                                          \
        memcpy(&x, mask, sizeof x);                                                                \
        return x;                                                                                  \
    }
TN_PART(d, int, 4) TN_PART(d256, int, 8) TN_PART(q, long long, 2) TN_PART(q256, long long, 4)
#define TN_PART_MOVE(what, to, from, AND)                                                          \
    const int64_t lanes = (int64_t)(bytes / size), m = n < 0 ? 0 : n > lanes ? lanes : n;          \
    const int k = (int)m;                                                                          \
    size == 4 ? bytes <= 16 ? tn_part_##what##_d(to, from, ((tn_part_d){0, 1, 2, 3} < k) AND(d)) : \
                tn_part_##what##_d256(to, from, ((tn_part_d256){0, 1, 2, 3, 4, 5, 6, 7} < k) AND(d256)) : \
    bytes <= 16 ? tn_part_##what##_q(to, from, ((tn_part_q){0, 1} < m) AND(q)) :                   \
                tn_part_##what##_q256(to, from, ((tn_part_q256){0, 1, 2, 3} < m) AND(q256))
#endif
#endif
#ifndef TN_MASKS
#define TN_MASKS(size, bytes) 0
#define TN_PART_MOVE(what, to, from, AND) (void)to, (void)from, (void)n, (void)size, (void)bytes
#endif
/* The first n lanes, or those of them that a mask of elements of the same size wants; v and mask have
 * room for 16 bytes at least. */
#define TN_PART_ALL(name)
#define TN_PART_WANTED(name) & tn_part_bits_##name(mask)
TN_INLINE void tn_part_load(void *v, const void *p, int64_t n, size_t size, size_t bytes) { TN_PART_MOVE(load, v, p, TN_PART_ALL); }
TN_INLINE void tn_part_store(void *p, const void *v, int64_t n, size_t size, size_t bytes) { TN_PART_MOVE(store, p, v, TN_PART_ALL); }
TN_INLINE void tn_part_load_if(void *v, const void *p, const void *mask, int64_t n, size_t size, size_t bytes)
{
    (void)mask;
    TN_PART_MOVE(load, v, p, TN_PART_WANTED);
}

#ifndef TN_PIECES
#define TN_PIECES 0
#endif

/* Non-temporal stores: a line that is written completely is not read first. Only where vectors are
 * at multiples of their size, which callers' outputs need not. Such stores keep no order with
 * others: TN_STREAMED is between them and the signal that they are done. */
#if defined(__AVX512F__)
#define TN_STREAM_BYTES 64
#define TN_STREAM movntps512
#elif defined(__AVX__)
#define TN_STREAM_BYTES 32
#define TN_STREAM movntps256
#else
#define TN_STREAM_BYTES 16
#define TN_STREAM movntps
#endif
#if defined(__SSE2__)
typedef float tn_line_piece __attribute__((vector_size(TN_STREAM_BYTES)));
#if defined(__clang__)
#define TN_STREAM_ONE(name, p, x) __builtin_nontemporal_store(x, (tn_line_piece *)(p))
#else
#define TN_STREAM_ONE_(name, p, x) __builtin_ia32_##name((float *)(p), x)
#define TN_STREAM_ONE(name, p, x) TN_STREAM_ONE_(name, p, x)
#endif
#define TN_STREAMED __builtin_ia32_sfence();
TN_INLINE int tn_stream(void *p, const void *v, size_t bytes)
{
    tn_line_piece x;

    if (bytes % sizeof x || (uintptr_t)p % sizeof x)
        return 0;
    for (size_t i = 0; i < bytes; i += sizeof x) {
        memcpy(&x, (const char *)v + i, sizeof x);
        TN_STREAM_ONE(TN_STREAM, (char *)p + i, x);
    }
    return 1;
}
#else
#define TN_STREAMED
TN_INLINE int tn_stream(void *p, const void *v, size_t bytes) { return (void)p, (void)v, (void)bytes, 0; }
#endif

/* What every element type has: e names it, T is the C type, M the mask's element, W the work
 * type of wrapping arithmetic. The first n lanes: others are not touched, and read as zero. */
#define TN_VECTOR(N, e, T, M)                                                                      \
    TN_INLINE tn_##e##x##N tn_load_##e##x##N(const T *p)                                           \
    {                                                                                              \
        tn_##e##x##N v;                                                                            \
        memcpy(&v, p, sizeof v);                                                                   \
        return v;                                                                                  \
    }                                                                                              \
    TN_INLINE void tn_store_##e##x##N(T *p, tn_##e##x##N v) { memcpy(p, &v, sizeof v); }           \
    TN_INLINE void tn_stream_##e##x##N(T *p, tn_##e##x##N v)                                       \
    {                                                                                              \
        if (!tn_stream(p, &v, sizeof v))                                                           \
            tn_store_##e##x##N(p, v);                                                              \
    }                                                                                              \
    TN_INLINE tn_##e##x##N tn_load_first_##e##x##N(const T *p, int64_t n)                          \
    {                                                                                              \
        if (TN_MASKS(sizeof(T), sizeof(tn_##e##x##N)) && !(__builtin_constant_p(n) && n >= N)) {   \
            struct { tn_##e##x##N v; char room[sizeof(T) * N < 16 ? 16 : 1]; } u;                  \
            tn_part_load(&u, p, n, sizeof(T), sizeof u.v);                                         \
            return u.v;                                                                            \
        }                                                                                          \
        if (n >= N)                                                                                \
            return tn_load_##e##x##N(p);                                                           \
        T part[N] = {0};                                                                           \
        for (int l = 0; l < n; l++)                                                                \
            part[l] = p[l];                                                                        \
        return tn_load_##e##x##N(part);                                                            \
    }                                                                                              \
    TN_INLINE void tn_store_first_##e##x##N(T *p, tn_##e##x##N v, int64_t n)                       \
    {                                                                                              \
        if (TN_PIECES && sizeof v <= 32 && __builtin_constant_p(n) && n > 0 && n < N) {            \
            T part[N];                                                                             \
            tn_store_##e##x##N(part, v);                                                           \
            memcpy(p, part, (size_t)n * sizeof(T));                                                \
            return;                                                                                \
        }                                                                                          \
        if (TN_MASKS(sizeof(T), sizeof v) && !(__builtin_constant_p(n) && n >= N)) {               \
            struct { tn_##e##x##N v; char room[sizeof(T) * N < 16 ? 16 : 1]; } u;                  \
            u.v = v;                                                                               \
            tn_part_store(p, &u, n, sizeof(T), sizeof u.v);                                        \
            return;                                                                                \
        }                                                                                          \
        if (n >= N) {                                                                              \
            tn_store_##e##x##N(p, v);                                                              \
            return;                                                                                \
        }                                                                                          \
        T part[N];                                                                                 \
        tn_store_##e##x##N(part, v);                                                               \
        for (int l = 0; l < n; l++)                                                                \
            p[l] = part[l];                                                                        \
    }                                                                                              \
    /* Every second element: two vectors that overlap in one element hold the 2n - 1 from first to last. */ \
    TN_INLINE tn_##e##x##N tn_load_second_##e##x##N(const T *p, int64_t n)                         \
    {                                                                                              \
        tn_##e##x##N x = tn_load_first_##e##x##N(p, 2 * n - 1), y = tn_load_first_##e##x##N(p + (N - 1), 2 * n - N); \
        if (sizeof x == sizeof(tn_pairs4) && N == 8) {                                             \
            tn_##e##x##N near = __builtin_shufflevector(x, y, TN_EACH##N(TN_SECOND_NEAR, N));      \
            tn_pairs4 pairs;                                                                       \
            __builtin_memcpy(&pairs, &near, sizeof near);                                          \
            pairs = __builtin_shufflevector(pairs, pairs, 0, 2, 1, 3);                             \
            __builtin_memcpy(&near, &pairs, sizeof near);                                          \
            return near;                                                                           \
        }                                                                                          \
        return __builtin_shufflevector(x, y, TN_EACH##N(TN_SECOND, N));                            \
    }                                                                                              \
    TN_INLINE tn_##e##x##N tn_splat_##e##x##N(T x) { return (tn_##e##x##N){TN_EACH##N(TN_SAME, x)}; } \
    /* Lanes that are one element each, or all the same one: a loop goes one way in all of its trips, which is foreseen. */ \
    TN_INLINE tn_##e##x##N tn_load_wide_##e##x##N(const T *p, int64_t step, int64_t n)             \
    {                                                                                              \
        if (step)                                                                                  \
            return tn_load_first_##e##x##N(p, n);                                                  \
        if (n >= N)                                                                                \
            return tn_splat_##e##x##N(*p);                                                         \
        T part[N] = {0};                                                                           \
        for (int l = 0; l < n; l++)                                                                \
            part[l] = *p;                                                                          \
        return tn_load_##e##x##N(part);                                                            \
    }                                                                                              \
    /* Single loads and stores beat the processors' gathers and scatters. */                       \
    TN_INLINE tn_##e##x##N tn_load_apart_##e##x##N(const T *p, int64_t stride, int64_t n)          \
    {                                                                                              \
        if (__builtin_constant_p(stride) && stride == 2 && (TN_MASKS(sizeof(T), sizeof(T) * N) ||  \
                                                            (__builtin_constant_p(n) && n >= N)))  \
            return tn_load_second_##e##x##N(p, n < N ? n : N);                                     \
        if (n >= N)                                                                                \
            return (tn_##e##x##N){TN_EACH##N(TN_APART, stride)};                                   \
        T part[N] = {0};                                                                           \
        for (int l = 0; l < n && l < N; l++)                                                       \
            part[l] = p[l * stride];                                                               \
        return tn_load_##e##x##N(part);                                                            \
    }                                                                                              \
    TN_INLINE void tn_store_apart_##e##x##N(T *p, tn_##e##x##N v, int64_t stride, int64_t n)       \
    {                                                                                              \
        if (n >= N) {                                                                              \
            (void)(TN_EACH##N(TN_PUT_APART, stride));                                              \
            return;                                                                                \
        }                                                                                          \
        T part[N];                                                                                 \
        tn_store_##e##x##N(part, v);                                                               \
        for (int l = 0; l < n && l < N; l++)                                                       \
            p[l * stride] = part[l];                                                               \
    }                                                                                              \
    TN_INLINE tn_##e##x##N tn_load_if_##e##x##N(const T *p, int64_t stride, int64_t n, tn_##M##x##N mask) \
    {                                                                                              \
        if (TN_MASKS(sizeof(T), sizeof(tn_##e##x##N)) && __builtin_constant_p(stride) && stride == 1) { \
            struct { tn_##e##x##N v; char room[sizeof(T) * N < 16 ? 16 : 1]; } u;                  \
            struct { tn_##M##x##N v; char room[sizeof(T) * N < 16 ? 16 : 1]; } m = {mask, {0}};    \
            tn_part_load_if(&u, p, &m, n, sizeof(T), sizeof u.v);                                  \
            return u.v;                                                                            \
        }                                                                                          \
        TN_OPAQUE(mask);                                                                           \
        T part[N] = {0};                                                                           \
        for (int l = 0; l < N; l++)                                                                \
            if (l < n && mask[l])                                                                  \
                part[l] = p[l * stride];                                                           \
        return tn_load_##e##x##N(part);                                                            \
    }                                                                                              \
    TN_INLINE tn_##e##x##N tn_iota_##e##x##N(void) { return (tn_##e##x##N){TN_EACH##N(TN_LANE, 0)}; } \
    TN_INLINE tn_##e##x##N tn_sel_##e##x##N(tn_##M##x##N c, tn_##e##x##N x, tn_##e##x##N y)        \
    {                                                                                              \
        return (tn_##e##x##N)(((tn_##M##x##N)x & c) | ((tn_##M##x##N)y & ~c));                     \
    }

/* The fixed-tree reductions; need min and max. */
#define TN_FOLDS(N, e, T)                                                                          \
    TN_INLINE T tn_hsum_##e##x##N(tn_##e##x##N v) { TN_FOLD(N, v, TN_ADD); return v[0]; }          \
    TN_INLINE T tn_hprod_##e##x##N(tn_##e##x##N v) { TN_FOLD(N, v, TN_MUL); return v[0]; }         \
    TN_INLINE T tn_hmax_##e##x##N(tn_##e##x##N v) { TN_FOLD(N, v, tn_max_##e##x##N); return v[0]; } \
    TN_INLINE T tn_hmin_##e##x##N(tn_##e##x##N v) { TN_FOLD(N, v, tn_min_##e##x##N); return v[0]; }

/* A function of one or two vectors, lane by lane. */
#define TN_LANES_1(N, f, e)                                                                        \
    TN_INLINE tn_##e##x##N tn_##f##_##e##x##N(tn_##e##x##N x)                                      \
    {                                                                                              \
        tn_##e##x##N r = x;                                                                        \
        for (int l = 0; l < N; l++)                                                                \
            r[l] = tn_##f##_##e(x[l]);                                                             \
        return r;                                                                                  \
    }
#define TN_LANES_2(N, f, e)                                                                        \
    TN_INLINE tn_##e##x##N tn_##f##_##e##x##N(tn_##e##x##N x, tn_##e##x##N y)                      \
    {                                                                                              \
        tn_##e##x##N r = x;                                                                        \
        for (int l = 0; l < N; l++)                                                                \
            r[l] = tn_##f##_##e(x[l], y[l]);                                                       \
        return r;                                                                                  \
    }
#define TN_VECTOR_INT(N, e, T, M)                                                                  \
    TN_VECTOR(N, e, T, M)                                                                          \
    TN_INLINE tn_##e##x##N tn_max_##e##x##N(tn_##e##x##N x, tn_##e##x##N y) { return tn_sel_##e##x##N(x > y, x, y); } \
    TN_INLINE tn_##e##x##N tn_min_##e##x##N(tn_##e##x##N x, tn_##e##x##N y) { return tn_sel_##e##x##N(x < y, x, y); } \
    TN_LANES_1(N, abs, e) TN_LANES_1(N, sign, e) TN_LANES_2(N, pow, e)                             \
    TN_LANES_2(N, quot, e) TN_LANES_2(N, rem, e) TN_LANES_2(N, mod, e) TN_LANES_2(N, shl, e) TN_LANES_2(N, shr, e) \
    TN_FOLDS(N, e, T)
/* Masks: is any lane set; the first n lanes. */
#define TN_MASK(N, e, T)                                                                           \
    TN_INLINE int tn_any_##e##x##N(tn_##e##x##N m) { return tn_hmin_##e##x##N(m) != 0; }           \
    TN_INLINE tn_##e##x##N tn_first_##e##x##N(int64_t n)                                           \
    {                                                                                              \
        return tn_iota_##e##x##N() < tn_splat_##e##x##N((T)tn_max(tn_min(n, N), 0));               \
    }
#define TN_VECTOR_LIBM(N, e)                                                                       \
    TN_LANES_1(N, sin, e) TN_LANES_1(N, cos, e) TN_LANES_1(N, tan, e) TN_LANES_1(N, asin, e)       \
    TN_LANES_1(N, acos, e) TN_LANES_1(N, atan, e) TN_LANES_1(N, sinh, e) TN_LANES_1(N, cosh, e)    \
    TN_LANES_1(N, asinh, e) TN_LANES_1(N, acosh, e) TN_LANES_1(N, atanh, e)                        \
    TN_LANES_2(N, pow, e) TN_LANES_2(N, atan2, e) TN_LANES_2(N, rem, e) TN_LANES_2(N, mod, e)

/* Arm's maximum is a NaN if a side is one, as tn_max is: one instruction for both forms. It tells
 * the signs of zeros apart, which a comparison does not. */
#ifdef __aarch64__
#define TN_ARM_MINMAX(S, name, lanes)                                                        \
    , TN_INLINE tn_##S tn_##name##_c_##S(tn_##S x, tn_##S y) { tn_##S r; __asm__("f" #name " %0." lanes ", %1." lanes ", %2." lanes : "=w"(r) : "w"(x), "w"(y)); return r; }
#define TN_MINMAX_f32x4(name) TN_ARM_MINMAX(f32x4, name, "4s")
#define TN_MINMAX_f64x2(name) TN_ARM_MINMAX(f64x2, name, "2d")
#define TN_NAN_f32x4 , TN_ARM_MINMAX_NAN(f32x4)
#define TN_NAN_f64x2 , TN_ARM_MINMAX_NAN(f64x2)
#define TN_ARM_MINMAX_NAN(S)                                                                       \
    TN_INLINE tn_##S tn_max_##S(tn_##S x, tn_##S y) { return tn_max_c_##S(x, y); }                 \
    TN_INLINE tn_##S tn_min_##S(tn_##S x, tn_##S y) { return tn_min_c_##S(x, y); }
#endif
#define TN_MINMAX(S, F) TN_OR(~ TN_NAN_##S, TN_MINMAX_NAN(S, F)) TN_SIGN(S, F)

/* Square roots, roundings, minima: one instruction each, but the two compilers find it
 * differently. */
#ifdef __clang__
#define TN_MAX_C(S) TN_INLINE tn_##S tn_max_c_##S(tn_##S a, tn_##S b) { return tn_sel_##S(a > b, a, b); }
#define TN_MIN_C(S) TN_INLINE tn_##S tn_min_c_##S(tn_##S a, tn_##S b) { return tn_sel_##S(a < b, a, b); }
#define TN_VECTOR_ROUND(N, e, T, SQRT)                                                             \
    TN_INLINE tn_##e##x##N tn_sqrt_##e##x##N(tn_##e##x##N x) { return (tn_##e##x##N){TN_EACH##N(SQRT, x)}; } \
    TN_INLINE tn_##e##x##N tn_floor_##e##x##N(tn_##e##x##N x) { return __builtin_elementwise_floor(x); } \
    TN_INLINE tn_##e##x##N tn_ceil_##e##x##N(tn_##e##x##N x) { return __builtin_elementwise_ceil(x); } \
    TN_INLINE tn_##e##x##N tn_trunc_##e##x##N(tn_##e##x##N x) { return __builtin_elementwise_trunc(x); } \
    TN_INLINE tn_##e##x##N tn_round_##e##x##N(tn_##e##x##N x) { return __builtin_elementwise_roundeven(x); } \
    TN_OR(~ TN_MINMAX_##e##x##N(max), TN_MAX_C(e##x##N)) TN_OR(~ TN_MINMAX_##e##x##N(min), TN_MIN_C(e##x##N))
#else
/* GCC turns `0 > x ? 0 : x` into a comparison and a blend; the processor's maximum is just that. */
#define TN_MINMAX_AS(S, name, INSTRUCTION)                                                         \
    , TN_INLINE tn_##S tn_##name##_c_##S(tn_##S x, tn_##S y) { return INSTRUCTION; }
#if defined(__AVX__) && __has_builtin(__builtin_ia32_maxps256)
#define TN_MINMAX_f32x4(name) TN_MINMAX_AS(f32x4, name, __builtin_ia32_##name##ps(x, y))
#define TN_MINMAX_f32x8(name) TN_MINMAX_AS(f32x8, name, __builtin_ia32_##name##ps256(x, y))
#endif
#if defined(__AVX512F__) && __has_builtin(__builtin_ia32_maxps512_mask)
#define TN_MINMAX_f32x16(name) TN_MINMAX_AS(f32x16, name, __builtin_ia32_##name##ps512_mask(x, y, x, -1, 4))
#endif
#define TN_VECTOR_ROUND(N, e, T, SQRT)                                                             \
    TN_LANES_1(N, sqrt, e) TN_LANES_1(N, floor, e) TN_LANES_1(N, ceil, e) TN_LANES_1(N, trunc, e) TN_LANES_1(N, round, e) \
    TN_OR(~ TN_MINMAX_##e##x##N(max), TN_LANES_2(N, max_c, e)) TN_OR(~ TN_MINMAX_##e##x##N(min), TN_LANES_2(N, min_c, e))
#endif

/* tn_scale_f32: AVX-512 has it as one instruction. */
#if defined(__AVX512F__) && defined(__AVX512VL__) && __has_builtin(__builtin_ia32_scalefps512_mask)
#define TN_SCALE_AS(S, I, INSTRUCTION)                                                             \
    , TN_INLINE tn_##S tn_scale_##S(tn_##S p, tn_##S n, tn_##I both) { (void)both; return INSTRUCTION; }
#define TN_SCALE_4 TN_SCALE_AS(f32x4, i32x4, __builtin_ia32_scalefps128_mask(p, n, p, -1))
#define TN_SCALE_8 TN_SCALE_AS(f32x8, i32x8, __builtin_ia32_scalefps256_mask(p, n, p, -1))
#define TN_SCALE_16 TN_SCALE_AS(f32x16, i32x16, __builtin_ia32_scalefps512_mask(p, n, p, -1, 4))
#endif

/* Float to integer over N lanes, as TN_TRUNCATE: cut to the range first, then convert. Integers of
 * 8 and 16 bits from f32 go by way of 32, for which there are instructions. */
typedef float tn_lane_f32;
typedef double tn_lane_f64;
#define TN_TRUNCATE_LANES(T, name, FN, from, LO, END, MAX) TN_TRUNCATE_N(T, name, FN, from, LO, END, MAX)
#define TN_TRUNCATE_N(T, name, N, from, LO, END, MAX)                                              \
    TN_INLINE tn_##name##x##N tn_##name##x##N##_from_##from##x##N(tn_##from##x##N x)               \
    {                                                                                              \
        const tn_##from##x##N zero = {0};                                                          \
        tn_##from##x##N c = tn_sel_##from##x##N(x >= (tn_lane_##from)(END), zero, \
            tn_sel_##from##x##N(x < (tn_lane_##from)(LO), zero + (tn_lane_##from)(LO), x));        \
        c = tn_sel_##from##x##N(x != x, zero, c);                                                  \
        tn_##name##x##N over = __builtin_convertvector(x >= (tn_lane_##from)(END), tn_##name##x##N); \
        return (__builtin_convertvector(c, tn_##name##x##N) & ~over) | ((T)MAX & over);            \
    }
/* Arm converts to integers as we do: it saturates, and NaN gives 0. */
#ifdef __aarch64__
#define TN_ARM_TRUNCATE(name, to_words, to_bytes)                                                  \
    , TN_INLINE tn_##name##x4 tn_##name##x4_from_f32x4(tn_f32x4 x)                                 \
    {                                                                                              \
        tn_i32x4 i;                                                                                \
        tn_##name##x4 y;                                                                           \
        __asm__("fcvtzs %0.4s, %1.4s\n\t" to_words " %0.4h, %0.4s\n\t" to_bytes " %0.8b, %0.8h" : "=w"(i) : "w"(x)); \
        memcpy(&y, &i, sizeof y);                                                                  \
        return y;                                                                                  \
    }
#define TN_TRUNCATE_i8x4 TN_ARM_TRUNCATE(i8, "sqxtn", "sqxtn")
#define TN_TRUNCATE_u8x4 TN_ARM_TRUNCATE(u8, "sqxtun", "uqxtn")
#endif
#define TN_TRUNCATE_SHORT(N, name, LO, MOST) TN_OR(~ TN_TRUNCATE_##name##x##N, TN_TRUNCATE_SHORT_ANY(N, name, LO, MOST))
#define TN_TRUNCATE_SHORT_ANY(N, name, LO, MOST)                                                   \
    TN_INLINE tn_##name##x##N tn_##name##x##N##_from_f32x##N(tn_f32x##N x)                         \
    {                                                                                              \
        const tn_f32x##N zero = {0};                                                               \
        const tn_f32x##N low = tn_sel_f32x##N(x < LO, zero + LO, x);                               \
        const tn_f32x##N cut = tn_sel_f32x##N(low > MOST, zero + MOST, low);                       \
        return tn_short_##name##x##N(__builtin_convertvector(tn_sel_f32x##N(x != x, zero, cut), tn_i32x##N)); \
    }
#define TN_TRUNCATIONS_F32(N)                                                                      \
    TN_TRUNCATE_SHORT(N, i8, -128.0f, 127.0f) TN_TRUNCATE_SHORT(N, u8, 0.0f, 255.0f)               \
    TN_TRUNCATE_SHORT(N, i16, -32768.0f, 32767.0f) TN_TRUNCATE_SHORT(N, u16, 0.0f, 65535.0f)       \
    TN_TRUNCATIONS_LONG(TN_TRUNCATE_LANES, N, f32)

/* GCC 12 takes vectors of bytes, and of words where they fill a vector of 512 bits, apart lane by
 * lane or by halves where one instruction would do: it is named. */
#if !defined(__clang__) && defined(__AVX512BW__) && defined(__has_builtin) && __has_builtin(__builtin_ia32_pmovsxbd512_mask) && \
    __has_builtin(__builtin_ia32_pmovdb512_mask)
#define TN_NAMED_512 1
typedef char tn_bytes_512 __attribute__((vector_size(16)));
typedef short tn_words_512 __attribute__((vector_size(32)));
#endif

/* The low 8 or 16 bits of integers of 32. GCC takes eight apart lane by lane where a shuffle of
 * bytes does. */
#define TN_SHORT(N, to) __builtin_convertvector(x, tn_##to##x##N)
#if !defined(__clang__) && defined(__AVX2__)
typedef char tn_bytes_32 __attribute__((vector_size(32)));
#define TN_BYTE_8(to) , (tn_##to##x8)__builtin_shufflevector((tn_bytes_32)x, (tn_bytes_32)x, 0, 4, 8, 12, 16, 20, 24, 28)
#endif
#ifdef TN_NAMED_512
#define TN_BYTE_16(to) , (tn_##to##x16)__builtin_ia32_pmovdb512_mask(x, (tn_bytes_512){0}, (unsigned short)-1)
#endif
#define TN_SHORTER(N)                                                                              \
    TN_INLINE tn_i8x##N tn_short_i8x##N(tn_i32x##N x) { return TN_OR(~ TN_BYTE_##N(i8), TN_SHORT(N, i8)); }                  \
    TN_INLINE tn_u8x##N tn_short_u8x##N(tn_i32x##N x) { return TN_OR(~ TN_BYTE_##N(u8), TN_SHORT(N, u8)); }                  \
    TN_INLINE tn_i16x##N tn_short_i16x##N(tn_i32x##N x) { return TN_SHORT(N, i16); }               \
    TN_INLINE tn_u16x##N tn_short_u16x##N(tn_i32x##N x) { return TN_SHORT(N, u16); }

/* x + y * z. Clang contracts it to no instruction of WebAssembly. */
#if defined(__wasm_relaxed_simd__)
#define TN_MADD_4(x, y, z) __builtin_wasm_relaxed_madd_f32x4(y, z, x)
#else
#define TN_MADD_4(x, y, z) ((x) + (y) * (z))
#endif

/* Pairs of 16 bits multiplied and summed: one instruction where the processor has it, for vectors
 * of its widths. */
#define TN_DOT2(N, x, y)                                                                           \
    TN_OR(~ TN_DOT2_##N(x, y),                                                                     \
          ((tn_i32x##N)((tn_u32x##N)(((tn_i32x##N)((tn_u32x##N)x << 16) >> 16) * ((tn_i32x##N)((tn_u32x##N)y << 16) >> 16)) + \
                        (tn_u32x##N)((x >> 16) * (y >> 16)))))
#if defined(__has_builtin)
#if defined(__SSE2__) && __has_builtin(__builtin_ia32_pmaddwd128)
typedef short tn_dot2_4 __attribute__((vector_size(16)));
#define TN_DOT2_4(x, y) , ((tn_i32x4)__builtin_ia32_pmaddwd128((tn_dot2_4)x, (tn_dot2_4)y))
#endif
#if defined(__AVX2__) && __has_builtin(__builtin_ia32_pmaddwd256)
typedef short tn_dot2_8 __attribute__((vector_size(32)));
#define TN_DOT2_8(x, y) , ((tn_i32x8)__builtin_ia32_pmaddwd256((tn_dot2_8)x, (tn_dot2_8)y))
#endif
#if defined(__AVX512BW__) && __has_builtin(__builtin_ia32_pmaddwd512)
typedef short tn_dot2_16 __attribute__((vector_size(64)));
#define TN_DOT2_16(x, y) , ((tn_i32x16)__builtin_ia32_pmaddwd512((tn_dot2_16)x, (tn_dot2_16)y))
#elif defined(__AVX512BW__) && __has_builtin(__builtin_ia32_pmaddwd512_mask)
typedef short tn_dot2_16 __attribute__((vector_size(64)));
#define TN_DOT2_16(x, y) , ((tn_i32x16)__builtin_ia32_pmaddwd512_mask((tn_dot2_16)x, (tn_dot2_16)y, (tn_i32x16){0}, (unsigned short)-1))
#endif
#endif

/* Pairs of 16 bits, or quads of 8 bits of which x's are unsigned, multiplied, summed, and added to
 * c. The one instruction that does it is named: compilers make it of no other expression, and
 * disagree on its builtins. */
#define TN_DOT2_SUM(N) TN_OR(~ TN_DOT2_SUM_##N, ((tn_i32x##N)((tn_u32x##N)c + (tn_u32x##N)TN_DOT2(N, x, y))))
#define TN_DOT4_PART(N, left) ((tn_u32x##N)((tn_i32x##N)((tn_u32x##N)x << left >> 24) * ((tn_i32x##N)((tn_u32x##N)y << left) >> 24)))
#define TN_DOT4_SUM(N)                                                                             \
    TN_OR(~ TN_DOT4_SUM_##N,                                                                       \
          ((tn_i32x##N)((tn_u32x##N)c + TN_DOT4_PART(N, 24) + TN_DOT4_PART(N, 16) + TN_DOT4_PART(N, 8) + TN_DOT4_PART(N, 0))))
/* Of two signed sides. */
#define TN_DOT4S_PART(N, left) ((tn_u32x##N)(((tn_i32x##N)((tn_u32x##N)x << left) >> 24) * ((tn_i32x##N)((tn_u32x##N)y << left) >> 24)))
#define TN_DOT4S_SUM(N)                                                                            \
    TN_OR(~ TN_DOT4S_SUM_##N,                                                                      \
          ((tn_i32x##N)((tn_u32x##N)c + TN_DOT4S_PART(N, 24) + TN_DOT4S_PART(N, 16) + TN_DOT4S_PART(N, 8) + TN_DOT4S_PART(N, 0))))
#ifdef __ARM_FEATURE_DOTPROD
#define TN_HAS_DOT4S 1
/* x, the side that is usually one number in all lanes, is last: there the instruction takes a lane. */
typedef int8_t tn_dot_bytes __attribute__((vector_size(16)));
#if defined(__clang__)
#define TN_DOT4S_SUM_4 , ((tn_i32x4)__builtin_neon_vdotq_s32((tn_dot_bytes)c, (tn_dot_bytes)y, (tn_dot_bytes)x, 34))
#else
#define TN_DOT4S_SUM_4 , ((tn_i32x4)__builtin_aarch64_sdot_prodv16qi((tn_dot_bytes)y, (tn_dot_bytes)x, c))
#endif
#endif
/* The same of bf16 pairs, in floats. */
#define TN_UPPER(N, x) ((tn_f32x##N)(x))
#define TN_DOT2F(N) (TN_UPPER(N, (tn_u32x##N)x << 16) * TN_UPPER(N, (tn_u32x##N)y << 16) + TN_UPPER(N, x & -65536) * TN_UPPER(N, y & -65536))
#define TN_DOT2F_SUM(N) TN_OR(~ TN_DOT2F_SUM_##N, (c + TN_DOT2F(N)))
#define TN_DOT_STEP(name) , (__extension__({ __asm__(name " %2, %1, %0" : "+v"(c) : "v"(x), "vm"(y)); c; }))
#ifdef __AVX512VNNI__
#define TN_HAS_DOT4 1
#define TN_DOT2_SUM_16 TN_DOT_STEP("vpdpwssd")
#define TN_DOT4_SUM_16 TN_DOT_STEP("vpdpbusd")
#ifdef __AVX512VL__
#define TN_DOT2_SUM_8 TN_DOT_STEP("vpdpwssd")
#define TN_DOT4_SUM_8 TN_DOT_STEP("vpdpbusd")
#define TN_DOT2_SUM_4 TN_DOT_STEP("vpdpwssd")
#define TN_DOT4_SUM_4 TN_DOT_STEP("vpdpbusd")
#endif
#endif
#ifdef __AVX512BF16__
#define TN_HAS_DOT2F 1
#define TN_DOT2F_SUM_16 TN_DOT_STEP("vdpbf16ps")
#ifdef __AVX512VL__
#define TN_DOT2F_SUM_8 TN_DOT_STEP("vdpbf16ps")
#define TN_DOT2F_SUM_4 TN_DOT_STEP("vdpbf16ps")
#endif
#endif

/* Integers of 8 and 16 bits as 32 bits. GCC 12 takes vectors of bytes apart lane by lane where one
 * instruction would do. */
#define TN_LONG(N, from) __builtin_convertvector(x, tn_i32x##N)
#if !defined(__clang__) && defined(__AVX2__) && defined(__has_builtin) && __has_builtin(__builtin_ia32_pmovsxbd256)
typedef char tn_bytes_16 __attribute__((vector_size(16)));
typedef short tn_words_8 __attribute__((vector_size(16)));
typedef long long tn_halves_16 __attribute__((vector_size(16)));
TN_INLINE tn_bytes_16 tn_first_bytes(const void *from)
{
    long long first;
    memcpy(&first, from, sizeof first);
    return (tn_bytes_16)(tn_halves_16){first, 0};
}
#define TN_LONG_i8_8 , (tn_i32x8)__builtin_ia32_pmovsxbd256(tn_first_bytes(&x))
#define TN_LONG_u8_8 , (tn_i32x8)__builtin_ia32_pmovzxbd256(tn_first_bytes(&x))
#define TN_LONG_i16_8 , (tn_i32x8)__builtin_ia32_pmovsxwd256((tn_words_8)x)
#define TN_LONG_u16_8 , (tn_i32x8)__builtin_ia32_pmovzxwd256((tn_words_8)x)
#endif
#ifdef TN_NAMED_512
#define TN_NAMED_LONG(name, part) , (tn_i32x16)__builtin_ia32_##name##512_mask((part)x, (tn_i32x16){0}, (unsigned short)-1)
#define TN_LONG_i8_16 TN_NAMED_LONG(pmovsxbd, tn_bytes_512)
#define TN_LONG_u8_16 TN_NAMED_LONG(pmovzxbd, tn_bytes_512)
#define TN_LONG_i16_16 TN_NAMED_LONG(pmovsxwd, tn_words_512)
#define TN_LONG_u16_16 TN_NAMED_LONG(pmovzxwd, tn_words_512)
#endif
#define TN_LONGER(N, from) TN_INLINE tn_i32x##N tn_long_##from##x##N(tn_##from##x##N x) { return TN_OR(~ TN_LONG_##from##_##N, TN_LONG(N, from)); }

/* Four bits of integers, those from a place on, as floats, less a number. Where a register holds
 * all sixteen of them it is one look into it, which minds no other bits. Known bits from 0 to 16
 * need no shift: they are the last ones of a float of 2^23 / 2^from and more, from which that and a
 * short integer are subtracted without rounding. Lookups and shifts have two units each on Zen 4,
 * additions and logic others, so three of eight that share a word go this way there. */
#define TN_SHIFTED(N) tn_shr_i32x##N(x, tn_splat_i32x##N(from))
#define TN_FOUR_BITS(N) TN_OR(~ TN_FOUR_BITS_##N, (__builtin_convertvector(TN_SHIFTED(N) & 15, tn_f32x##N) - less))
#define TN_STAYS(first, last) (__builtin_constant_p(from) && from >= first && from <= last && less >= -128 && less <= 128 && less == (float)(int)less)
#define TN_IN_PLACE(N, x, from) ((tn_f32x##N)(((x) & 15 << (from)) | (150 - (from)) << 23) - ((float)(1 << (23 - (from))) + less))
#define TN_FOUR_BITS_8                                                                             \
    , (TN_STAYS(0, 16) ? TN_IN_PLACE(8, x, from) : TN_STAYS(17, 28) ? TN_IN_PLACE(8, x >> 12, from - 12) : \
       __builtin_convertvector(TN_SHIFTED(8) & 15, tn_f32x8) - less)
#define TN_SIXTEEN ((tn_f32x16){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} - less)
#if defined(__AVX512F__) && !defined(__clang__)
#define TN_FOUR_BITS_16 , (TN_STAYS(8, 16) ? TN_IN_PLACE(16, x, from) : __builtin_shuffle(TN_SIXTEEN, TN_SHIFTED(16)))
#elif defined(__AVX512F__)
#define TN_FOUR_BITS_16 , (TN_STAYS(8, 16) ? TN_IN_PLACE(16, x, from) : (tn_f32x16)__builtin_ia32_permvarsf512(TN_SIXTEEN, TN_SHIFTED(16)))
#endif

/* Vectors of f32 and of the integers beside them: what most kernels need, and a C compiler reads in
 * half the time. */
#define TN_VECTORS_F32(N)                                                                          \
    typedef float tn_f32x##N __attribute__((vector_size(4 * N)));                                  \
    typedef double tn_f64x##N __attribute__((vector_size(8 * N)));                                 \
    typedef int8_t tn_i8x##N __attribute__((vector_size(N)));                                      \
    typedef int16_t tn_i16x##N __attribute__((vector_size(2 * N)));                                \
    typedef int32_t tn_i32x##N __attribute__((vector_size(4 * N)));                                \
    typedef int64_t tn_i64x##N __attribute__((vector_size(8 * N)));                                \
    typedef uint8_t tn_u8x##N __attribute__((vector_size(N)));                                     \
    typedef uint16_t tn_u16x##N __attribute__((vector_size(2 * N)));                               \
    typedef uint32_t tn_u32x##N __attribute__((vector_size(4 * N)));                               \
    typedef uint64_t tn_u64x##N __attribute__((vector_size(8 * N)));                               \
    TN_VECTOR(N, f32, float, i32)                                                                  \
    TN_VECTOR_INT(N, i32, int32_t, i32)                                                            \
    TN_MASK(N, i32, int32_t)                                                                       \
    TN_INLINE tn_i32x##N tn_bits_f32x##N(tn_f32x##N x) { return (tn_i32x##N)x; }                   \
    TN_INLINE tn_f32x##N tn_from_bits_f32x##N(tn_i32x##N x) { return (tn_f32x##N)x; }              \
    TN_INLINE tn_f32x##N tn_float_f32x##N(tn_i32x##N x) { return __builtin_convertvector(x, tn_f32x##N); } \
    TN_INLINE tn_i32x##N tn_isel_f32x##N(tn_i32x##N c, tn_i32x##N x, tn_i32x##N y) { return (x & c) | (y & ~c); } \
    TN_INLINE tn_f32x##N tn_abs_f32x##N(tn_f32x##N x) { return (tn_f32x##N)((tn_i32x##N)x & INT32_MAX); } \
    TN_VECTOR_ROUND(N, f32, float, TN_SQRT_LANE)                                                   \
    TN_MINMAX(f32x##N, tn_f32x##N)                                                                 \
    TN_FOLDS(N, f32, float)                                                                        \
    TN_OR(~ TN_SCALE_##N, TN_SCALE(f32x##N, tn_f32x##N, tn_i32x##N))                                                                              \
    TN_MATH_F32(f32x##N, tn_f32x##N, tn_i32x##N)                                                   \
    TN_LONGER(N, u16)                                                                              \
    TN_INLINE tn_f32x##N tn_four_bits_f32x##N(tn_i32x##N x, int32_t from, float less) { return TN_FOUR_BITS(N); } \
    TN_INLINE tn_f32x##N tn_dot2f_sum_f32x##N(tn_f32x##N c, tn_i32x##N x, tn_i32x##N y) { return TN_DOT2F_SUM(N); } \
    TN_INLINE tn_f32x##N tn_dot2f_f32x##N(tn_i32x##N x, tn_i32x##N y) { return TN_DOT2F(N); }      \
    TN_INLINE tn_i32x##N tn_pair_f32x##N(tn_f32x##N x, tn_f32x##N y) { return (tn_i32x##N)((tn_u32x##N)x >> 16 | ((tn_u32x##N)y & 0xffff0000u)); } \
    TN_SHORT_FLOATS(f32x##N, tn_f32x##N, tn_i32x##N, tn_u16x##N, tn_long_u16x##N, __builtin_convertvector) \
    TN_VECTOR_LIBM(N, f32)
/* What vectors of other elements have, products of pairs and conversions; after TN_VECTORS_F32. */
#define TN_VECTORS_OTHER(N)                                                                        \
    TN_VECTOR(N, f64, double, i64)                                                                 \
    TN_VECTOR_INT(N, i8, int8_t, i8)                                                               \
    TN_VECTOR_INT(N, i16, int16_t, i16)                                                            \
    TN_VECTOR_INT(N, i64, int64_t, i64)                                                            \
    TN_VECTOR_INT(N, u8, uint8_t, i8)                                                              \
    TN_VECTOR_INT(N, u16, uint16_t, i16)                                                           \
    TN_VECTOR_INT(N, u32, uint32_t, i32)                                                           \
    TN_VECTOR_INT(N, u64, uint64_t, i64)                                                           \
    TN_MASK(N, i8, int8_t) TN_MASK(N, i16, int16_t) TN_MASK(N, i64, int64_t)                       \
    TN_INLINE tn_f64x##N tn_abs_f64x##N(tn_f64x##N x) { return (tn_f64x##N)((tn_i64x##N)x & INT64_MAX); } \
    TN_VECTOR_ROUND(N, f64, double, TN_SQRT_LANE_F64)                                              \
    TN_MINMAX(f64x##N, tn_f64x##N)                                                                 \
    TN_FOLDS(N, f64, double)                                                                       \
    TN_LONGER(N, i8) TN_LONGER(N, u8) TN_LONGER(N, i16)                                            \
    TN_SHORTER(N)                                                                                  \
    TN_INLINE tn_i32x##N tn_dot2_sum_i32x##N(tn_i32x##N c, tn_i32x##N x, tn_i32x##N y) { return TN_DOT2_SUM(N); } \
    TN_INLINE tn_i32x##N tn_dot2_i32x##N(tn_i32x##N x, tn_i32x##N y) { return TN_DOT2(N, x, y); } \
    TN_INLINE tn_i32x##N tn_dot4_sum_i32x##N(tn_i32x##N c, tn_i32x##N x, tn_i32x##N y) { return TN_DOT4_SUM(N); } \
    TN_INLINE tn_i32x##N tn_dot4s_sum_i32x##N(tn_i32x##N c, tn_i32x##N x, tn_i32x##N y) { return TN_DOT4S_SUM(N); } \
    TN_INLINE tn_i32x##N tn_dot4s_i32x##N(tn_i32x##N x, tn_i32x##N y) { return tn_dot4s_sum_i32x##N((tn_i32x##N){0}, x, y); } \
    TN_INLINE tn_i32x##N tn_dot4_i32x##N(tn_i32x##N x, tn_i32x##N y) { return tn_dot4_sum_i32x##N((tn_i32x##N){0}, x, y); } \
    TN_VECTOR_LIBM(N, f64)                                                                         \
    TN_LANES_1(N, exp, f64) TN_LANES_1(N, log, f64) TN_LANES_1(N, tanh, f64) TN_LANES_1(N, erf, f64) \
    TN_LANES_1(N, sigmoid, f64) TN_LANES_1(N, softplus, f64)                                       \
    TN_TRUNCATIONS_F32(N)                                                                          \
    TN_TRUNCATIONS(TN_TRUNCATE_LANES, N, f64)

#endif
