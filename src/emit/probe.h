/* probe: small kernels that a machine is measured with, in the C that models are emitted in,
 * compiled for the same target with the same flags. Printed behind the prelude, after lines that
 * define TN_PROBE_BYTES and TN_PROBE_LANES, a vector's bytes and its elements of f32.
 *
 * Every probe does its work sym[0] times over buf[begin], sym[1] bytes long and aligned to a page.
 * The table says how much that is each time, in units of its own. What a compiler could drop or
 * move is held by TN_OPAQUE, which costs nothing: a value that may have changed, and must be there.
 */
#define TN_PROBE_JOIN_(a, b) a##b
#define TN_PROBE_JOIN(a, b) TN_PROBE_JOIN_(a, b)
#define TN_PROBE_F(name) TN_PROBE_JOIN(name##_f32x, TN_PROBE_LANES)
#define TN_PROBE_I(name) TN_PROBE_JOIN(name##_i32x, TN_PROBE_LANES)
#define TN_PROBE_H(name) TN_PROBE_JOIN(name##_u16x, TN_PROBE_LANES)
#if TN_PROBE_BYTES == 64
TN_VECTORS_F32(16)
TN_VECTORS_OTHER(16)
TN_VECTORS_F32(8)
TN_VECTORS_OTHER(8)
#elif TN_PROBE_BYTES == 32
TN_VECTORS_F32(8)
TN_VECTORS_OTHER(8)
TN_VECTORS_F32(4)
TN_VECTORS_OTHER(4)
#else
TN_VECTORS_F32(4)
TN_VECTORS_OTHER(4)
TN_VECTORS_F32(2)
TN_VECTORS_OTHER(2)
#endif
typedef TN_PROBE_F(tn) tn_probe_f32;
typedef uint8_t tn_probe_u8x16 __attribute__((vector_size(16)));
typedef double tn_probe_f64 __attribute__((vector_size(TN_PROBE_BYTES)));

#if defined(__x86_64__)
#define TN_OPAQUE(x) __asm__ volatile("" : "+v"(x))
#define TN_LOADED(x) __asm__ volatile("" : : "v"(x))
#elif defined(__aarch64__)
#define TN_OPAQUE(x) __asm__ volatile("" : "+w"(x))
#define TN_LOADED(x) __asm__ volatile("" : : "w"(x))
#else
#define TN_OPAQUE(x) __asm__ volatile("" : "+m"(x))
#define TN_LOADED(x) __asm__ volatile("" : : "m"(x))
#endif
#define TN_TIMES4(x) x x x x
#define TN_TIMES16(x) TN_TIMES4(TN_TIMES4(x))
#define TN_CHAINS(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)

#define TN_PROBE(name)                                                                             \
    static void tn_probe_##name(const TnArgs *a, int64_t begin, int64_t end, void *scratch)
#define TN_PROBE_BEGIN(T)                                                                          \
    T *const p = (T *)a->buf[begin];                                                               \
    const int64_t times = a->sym[0], bytes = a->sym[1];                                            \
    (void)p, (void)bytes, (void)end, (void)scratch

/* ---- one core -------------------------------------------------------------------------------- */

TN_PROBE(nothing)
{
    (void)a, (void)begin, (void)end, (void)scratch;
}

/* The addend is in a register: some processors add small constants while they rename. */
TN_PROBE(cycle)
{
    TN_PROBE_BEGIN(int64_t);
    int64_t x = 1, y = 3;
    __asm__ volatile("" : "+r"(x), "+r"(y));
    for (int64_t i = 0; i < times; i++) {
        TN_TIMES16(x += y; __asm__ volatile("" : "+r"(x), "+r"(y));)
    }
}

/* Three additions, two vector operations and a load: what the units of wide processors start
 * together, so the width of renaming limits it. No nop among them, which Zen 4 joins to what stands
 * before it. */
#define TN_ADD(x)                                                                                  \
    (x) += one;                                                                                    \
    __asm__ volatile("" : "+r"(x));
#define TN_MIX(x)                                                                                  \
    (x) ^= v;                                                                                      \
    TN_OPAQUE(x);
TN_PROBE(issue)
{
    TN_PROBE_BEGIN(tn_probe_u8x16);
    const volatile int64_t *at = (const volatile int64_t *)p;
    int64_t a0 = 1, a1 = 2, a2 = 3, one = 1;
    tn_probe_u8x16 v = *p, v0 = v, v1 = v;
    __asm__ volatile("" : "+r"(one));
    for (int64_t i = 0; i < times; i++) {
        TN_TIMES16(TN_ADD(a0) TN_MIX(v0) TN_ADD(a1) TN_MIX(v1) TN_ADD(a2) { (void)*at; })
    }
}

#define TN_DECLARE(i) T c##i = x + (float)i;
#define TN_PIN(i) TN_OPAQUE(c##i);
#define TN_FMA(i)                                                                                  \
    c##i = c##i * x + y;                                                                           \
    TN_OPAQUE(c##i);
#define TN_PLUS(i)                                                                                 \
    c##i = c##i + x;                                                                               \
    TN_OPAQUE(c##i);
#define TN_CHAIN_PROBE(name, type, step)                                                           \
    TN_PROBE(name)                                                                                 \
    {                                                                                              \
        typedef type T;                                                                            \
        TN_PROBE_BEGIN(T);                                                                         \
        T x = *p, y = *p;                                                                          \
        TN_CHAINS(TN_DECLARE)                                                                      \
        for (int64_t i = 0; i < times; i++) {                                                      \
            TN_CHAINS(step)                                                                        \
        }                                                                                          \
        TN_CHAINS(TN_PIN)                                                                          \
    }
TN_CHAIN_PROBE(fma, tn_probe_f32, TN_FMA)
TN_CHAIN_PROBE(fma_f64, tn_probe_f64, TN_FMA)
TN_CHAIN_PROBE(plus, tn_probe_f32, TN_PLUS)

TN_PROBE(fma_chain)
{
    TN_PROBE_BEGIN(tn_probe_f32);
    tn_probe_f32 x = *p, y = *p, c = *p;
    for (int64_t i = 0; i < times; i++) {
        TN_TIMES16(c = c * x + y; TN_OPAQUE(c);)
    }
}

TN_PROBE(divide)
{
    TN_PROBE_BEGIN(tn_probe_f32);
    tn_probe_f32 x = *p + 1.0f;
    for (int64_t i = 0; i < times; i++) {
        TN_TIMES16({
            tn_probe_f32 q = x;
            TN_OPAQUE(q);
            q = 1.0f / q;
            TN_LOADED(q);
        })
    }
}

TN_PROBE(sqrt)
{
    TN_PROBE_BEGIN(tn_probe_f32);
    tn_probe_f32 x = *p + 2.0f;
    for (int64_t i = 0; i < times; i++) {
        TN_TIMES16({
            tn_probe_f32 q = x;
            TN_OPAQUE(q);
            q = TN_PROBE_F(tn_sqrt)(q);
            TN_LOADED(q);
        })
    }
}

/* A chain of square roots, and behind it nothing, or 768 multiply-adds that do not wait for it: the
 * number done meanwhile is the reorder-buffer window. The next chain waits for the last of them. */
#define TN_NONE_BEHIND
#define TN_ROOTS_PROBE(name, behind)                                                               \
    TN_PROBE(name)                                                                                 \
    {                                                                                              \
        typedef tn_probe_f32 T;                                                                    \
        TN_PROBE_BEGIN(T);                                                                         \
        T x = *p, y = *p, root = *p;                                                               \
        TN_CHAINS(TN_DECLARE)                                                                      \
        for (int64_t i = 0; i < times; i++) {                                                      \
            root = root * c11 + 2.0f;                                                              \
            TN_TIMES16(root = TN_PROBE_F(tn_sqrt)(root); TN_OPAQUE(root);)                         \
            behind                                                                                 \
        }                                                                                          \
        TN_CHAINS(TN_PIN)                                                                          \
    }
TN_ROOTS_PROBE(roots, TN_NONE_BEHIND)
TN_ROOTS_PROBE(behind, TN_TIMES16(TN_TIMES4(TN_CHAINS(TN_FMA))))

/* A multiply-add, then an operation on integers. */
#define TN_DECLARE_BITS(i) TN_PROBE_I(tn) b##i = n + i;
#define TN_MIX(i)                                                                                  \
    TN_FMA(i) b##i = b##i ^ n;                                                                     \
    TN_OPAQUE(b##i);
TN_PROBE(mixed)
{
    typedef tn_probe_f32 T;
    TN_PROBE_BEGIN(T);
    T x = *p, y = *p;
    TN_PROBE_I(tn) n = (TN_PROBE_I(tn))*p;
    T c0 = x, c1 = x + 1.0f, c2 = x + 2.0f, c3 = x + 3.0f, c4 = x, c5 = x + 1.0f, c6 = x + 2.0f,
      c7 = x + 3.0f;
    TN_DECLARE_BITS(0)
    TN_DECLARE_BITS(1) TN_DECLARE_BITS(2) TN_DECLARE_BITS(3) for (int64_t i = 0; i < times; i++)
    {
        TN_MIX(0) TN_MIX(1) TN_MIX(2) TN_MIX(3) TN_FMA(4) b0 = b0 ^ n;
        TN_OPAQUE(b0);
        TN_FMA(5) b1 = b1 ^ n;
        TN_OPAQUE(b1);
        TN_FMA(6) b2 = b2 ^ n;
        TN_OPAQUE(b2);
        TN_FMA(7) b3 = b3 ^ n;
        TN_OPAQUE(b3);
    }
    TN_PIN(0) TN_PIN(1) TN_PIN(2) TN_PIN(3) TN_PIN(4) TN_PIN(5) TN_PIN(6) TN_PIN(7)
}

/* All lanes but three; the compiler does not know the number. */
#define TN_PART_OF_A_VECTOR                                                                        \
    int64_t part = TN_PROBE_LANES > 3 ? TN_PROBE_LANES - 3 : 1;                                    \
    __asm__ volatile("" : "+r"(part))
TN_PROBE(part_load)
{
    TN_PROBE_BEGIN(float);
    TN_PART_OF_A_VECTOR;
    for (int64_t i = 0; i < times; i++)
        for (int k = 0; k < 16; k++) {
            tn_probe_f32 v = TN_PROBE_F(tn_load_first)(p + TN_PROBE_LANES * k, part);
            TN_LOADED(v);
        }
}

/* A number of memory in all lanes, as an operand: instructions may contain the load. */
#define TN_DECLARE_SUM(i) T c##i = n + i;
#define TN_ADD_SPLAT(i)                                                                            \
    c##i = c##i + TN_PROBE_I(tn_splat)(p[i]);                                                      \
    TN_OPAQUE(c##i);
TN_PROBE(splat)
{
    typedef TN_PROBE_I(tn) T;
    TN_PROBE_BEGIN(int32_t);
    T n = TN_PROBE_I(tn_splat)(*p);
    TN_CHAINS(TN_DECLARE_SUM)
    for (int64_t i = 0; i < times; i++) {
        TN_CHAINS(TN_ADD_SPLAT)
    }
    TN_CHAINS(TN_PIN)
}

TN_PROBE(part_store)
{
    TN_PROBE_BEGIN(float);
    TN_PART_OF_A_VECTOR;
    tn_probe_f32 v = { 0 };
    TN_OPAQUE(v);
    for (int64_t i = 0; i < times; i++)
        for (int k = 0; k < 16; k++)
            TN_PROBE_F(tn_store_first)(p + TN_PROBE_LANES * k, v, part);
}

/* A branch that nothing tells of (Knuth's MMIX generator); with sym[1] 0 one that is never
 * taken. */
TN_PROBE(branch)
{
    TN_PROBE_BEGIN(char);
    uint64_t x = 1, taken = bytes ? (uint64_t)1 << 63 : 0;
    int64_t n = 0;
    for (int64_t i = 0; i < times; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        if (x & taken)
            __asm__ volatile("" : "+r"(n));
        __asm__ volatile("" : "+r"(x));
    }
}

/* Lanes 3 elements apart, within a few lines. */
TN_PROBE(gather)
{
    TN_PROBE_BEGIN(float);
    int64_t stride = 3;
    __asm__ volatile("" : "+r"(stride));
    for (int64_t i = 0; i < times; i++)
        for (int k = 0; k < 16; k++) {
            tn_probe_f32 v = TN_PROBE_F(tn_load_apart)(p + 64 * k, stride, TN_PROBE_LANES);
            TN_LOADED(v);
        }
}

/* The step of a dot product in narrow types, where the target has one. The builtins go by name, as
 * in the prelude: the headers of intrinsics cost more time than the probes. */
#ifndef __has_builtin
#define __has_builtin(x) 0
#endif
#define TN_DECLARE_WORDS(i) T c##i = x;
#define TN_DOT_PROBE(name, dot)                                                                    \
    TN_PROBE(name)                                                                                 \
    {                                                                                              \
        typedef tn_probe_words T;                                                                  \
        TN_PROBE_BEGIN(T);                                                                         \
        T x = *p, y = *p;                                                                          \
        TN_CHAINS(TN_DECLARE_WORDS)                                                                \
        for (int64_t i = 0; i < times; i++) {                                                      \
            TN_CHAINS(dot)                                                                         \
        }                                                                                          \
        TN_CHAINS(TN_PIN)                                                                          \
    }
#if defined(__SSE2__)
typedef int32_t tn_probe_words __attribute__((vector_size(TN_PROBE_BYTES)));
#define TN_DOT_WORDS(i)                                                                            \
    c##i = TN_PROBE_I(tn_dot2_sum)(c##i, x, y);                                                    \
    TN_OPAQUE(c##i);                                                                               \
    TN_OPAQUE(x);
TN_DOT_PROBE(i16_dot, TN_DOT_WORDS)
#else
#define tn_probe_i16_dot 0
#endif
#ifdef TN_HAS_DOT4
#define TN_DOT_BYTES(i)                                                                            \
    c##i = TN_PROBE_I(tn_dot4_sum)(c##i, x, y);                                                    \
    TN_OPAQUE(c##i);                                                                               \
    TN_OPAQUE(x);
TN_DOT_PROBE(i8_dot, TN_DOT_BYTES)
#else
#define tn_probe_i8_dot 0
#endif
#ifdef TN_HAS_DOT2F
#define TN_DOT_PAIRS(i)                                                                            \
    c##i = TN_PROBE_F(tn_dot2f_sum)(c##i, x2, y2);                                                 \
    TN_OPAQUE(c##i);                                                                               \
    TN_OPAQUE(x2);
TN_PROBE(bf16_dot)
{
    typedef tn_probe_f32 T;
    TN_PROBE_BEGIN(T);
    T x = *p;
    tn_probe_words x2 = *(const tn_probe_words *)p, y2 = x2;
    TN_CHAINS(TN_DECLARE)
    for (int64_t i = 0; i < times; i++) {
        TN_CHAINS(TN_DOT_PAIRS)
    }
    TN_CHAINS(TN_PIN)
}
#else
#define tn_probe_bf16_dot 0
#endif

/* ---- narrow types between memory and registers, over all of the buffer ----------------------- */

#define TN_WIDEN_PROBE(e)                                                                          \
    TN_PROBE(load_##e)                                                                             \
    {                                                                                              \
        TN_PROBE_BEGIN(uint16_t);                                                                  \
        for (int64_t i = 0; i < times; i++)                                                        \
            for (int64_t k = 0; k < bytes / 2; k += TN_PROBE_LANES) {                              \
                tn_probe_f32 v = TN_PROBE_F(tn_wide_##e)(TN_PROBE_H(tn_load)(p + k));              \
                TN_LOADED(v);                                                                      \
            }                                                                                      \
    }                                                                                              \
    TN_PROBE(store_##e)                                                                            \
    {                                                                                              \
        TN_PROBE_BEGIN(uint16_t);                                                                  \
        tn_probe_f32 x = { 0 };                                                                    \
        for (int64_t i = 0; i < times; i++)                                                        \
            for (int64_t k = 0; k < bytes / 2; k += TN_PROBE_LANES) {                              \
                TN_OPAQUE(x);                                                                      \
                TN_PROBE_H(tn_store)(p + k, TN_PROBE_F(tn_short_##e)(x));                          \
            }                                                                                      \
    }
TN_WIDEN_PROBE(f16)
TN_WIDEN_PROBE(bf16)

/* ---- memory: the whole buffer, once each time ------------------------------------------------ */

TN_PROBE(read)
{
    TN_PROBE_BEGIN(tn_probe_f32);
    const int64_t n = bytes / (int64_t)sizeof *p;
    for (int64_t i = 0; i < times; i++)
        for (int64_t k = 0; k < n; k += 16) {
            const tn_probe_f32 *q = p + k;
            TN_TIMES16({
                tn_probe_f32 v = *q++;
                TN_LOADED(v);
            })
        }
}

/* The same, and N multiply-adds of each vector. */
#define TN_FMA_OF(v, i)                                                                            \
    c##i = c##i * v + y;                                                                           \
    TN_OPAQUE(c##i);
#define TN_READ_PROBE(name, each)                                                                  \
    TN_PROBE(name)                                                                                 \
    {                                                                                              \
        typedef tn_probe_f32 T;                                                                    \
        TN_PROBE_BEGIN(T);                                                                         \
        const int64_t n = bytes / (int64_t)sizeof *p;                                              \
        T x = *p, y = *p;                                                                          \
        TN_CHAINS(TN_DECLARE)                                                                      \
        for (int64_t i = 0; i < times; i++)                                                        \
            for (int64_t k = 0; k < n; k += 4) {                                                   \
                const T *q = p + k;                                                                \
                each                                                                               \
            }                                                                                      \
        TN_CHAINS(TN_PIN)                                                                          \
    }
#define TN_TWO_OF(i, j)                                                                            \
    {                                                                                              \
        T v = *q++;                                                                                \
        TN_LOADED(v);                                                                              \
        TN_FMA_OF(v, i) TN_FMA_OF(v, j)                                                            \
    }
#define TN_FOUR_OF(i, j, k, l)                                                                     \
    {                                                                                              \
        T v = *q++;                                                                                \
        TN_LOADED(v);                                                                              \
        TN_FMA_OF(v, i) TN_FMA_OF(v, j) TN_FMA_OF(v, k) TN_FMA_OF(v, l)                            \
    }
TN_READ_PROBE(read_2, TN_TWO_OF(0, 1) TN_TWO_OF(2, 3) TN_TWO_OF(4, 5) TN_TWO_OF(6, 7))
TN_READ_PROBE(read_4, TN_FOUR_OF(0, 1, 2, 3) TN_FOUR_OF(4, 5, 6, 7) TN_FOUR_OF(8, 9, 10, 11)
                          TN_FOUR_OF(0, 1, 2, 3))

/* Four concurrent streams, a quarter of the buffer each, but for the last three pages of each:
 * beginnings are no power of two apart. */
TN_PROBE(side)
{
    TN_PROBE_BEGIN(tn_probe_f32);
    const int64_t page = 4096 / (int64_t)sizeof *p, quarter = bytes / 4 / 4096 * page;
    for (int64_t i = 0; i < times; i++)
        for (int64_t k = 0; k < quarter - 3 * page; k += 4) {
            const tn_probe_f32 *q = p + k;
            TN_TIMES4(TN_TIMES4({
                          tn_probe_f32 v = *q++;
                          TN_LOADED(v);
                      }) q += quarter + page - 4;)
        }
}

/* Lines nine apart, as rows of a matrix of which some columns are read; the next ones are their
 * neighbours. */
TN_PROBE(step)
{
    TN_PROBE_BEGIN(char);
    const int64_t line = 64, row = 9 * line, block = (bytes < 512 * row ? bytes / row : 512) * row;
    for (int64_t i = 0; i < times; i++)
        for (int64_t b = 0; b + block <= bytes; b += block)
            for (int64_t k = 0; k < row; k += line)
                for (int64_t at = b + k; at < b + block; at += row) {
                    tn_probe_f32 v = *(const tn_probe_f32 *)(p + at);
                    TN_LOADED(v);
                }
}

/* Four lines of twelve, as one head's of keys that lie beside each other; the next ones are their
 * neighbours. */
TN_PROBE(piece)
{
    TN_PROBE_BEGIN(char);
    const int64_t line = 64, row = 12 * line, block = 512 * row;
    for (int64_t i = 0; i < times; i++)
        for (int64_t b = 0; b + block <= bytes; b += block)
            for (int64_t k = 0; k < row; k += 4 * line)
                for (int64_t at = b + k; at < b + block; at += row) {
                    const char *q = p + at;
                    TN_TIMES4({
                        tn_probe_f32 v = *(const tn_probe_f32 *)q;
                        TN_LOADED(v);
                        q += line;
                    })
                }
}

/* What is written is not 0: by non-temporal stores a Zen 5 core writes 99 GB/s of zeros, 44 of
 * ones. */
#define TN_PROBE_WRITTEN ((tn_probe_f32){ 0 } + 1)
TN_PROBE(write)
{
    TN_PROBE_BEGIN(tn_probe_f32);
    const int64_t n = bytes / (int64_t)sizeof *p;
    tn_probe_f32 v = TN_PROBE_WRITTEN;
    for (int64_t i = 0; i < times; i++)
        for (int64_t k = 0; k < n; k += 16) {
            tn_probe_f32 *q = p + k;
            TN_TIMES16(TN_OPAQUE(v); *q++ = v;)
        }
}

/* From the first half to the second. */
TN_PROBE(copy)
{
    TN_PROBE_BEGIN(tn_probe_f32);
    const int64_t n = bytes / (int64_t)sizeof *p / 2;
    for (int64_t i = 0; i < times; i++)
        for (int64_t k = 0; k < n; k += 16) {
            tn_probe_f32 *q = p + k;
            TN_TIMES16({
                tn_probe_f32 v = *q;
                TN_OPAQUE(v);
                q[n] = v;
                q++;
            })
        }
}

/* Whole lines a page apart, as rows of a matrix that is transposed: nothing fetches them ahead. The
 * next ones are their neighbours. */
enum { TN_PROBE_LINE = 64, TN_PROBE_PAGE = 4096, TN_PROBE_PAGES = 256, TN_PROBE_FEW_PAGES = 32 };
#define TN_APART_PROBE(name, put, pages)                                                           \
    TN_PROBE(name)                                                                                 \
    {                                                                                              \
        TN_PROBE_BEGIN(char);                                                                      \
        const int64_t block = (pages) * TN_PROBE_PAGE;                                             \
        tn_probe_f32 v = TN_PROBE_WRITTEN;                                                         \
        for (int64_t i = 0; i < times; i++)                                                        \
            for (int64_t b = 0; b + block <= bytes; b += block)                                    \
                for (int64_t k = 0; k < TN_PROBE_PAGE; k += TN_PROBE_LINE)                         \
                    for (int64_t line = b + k; line < b + block; line += TN_PROBE_PAGE)            \
                        for (int64_t at = 0; at < TN_PROBE_LINE; at += TN_PROBE_BYTES) {           \
                            TN_OPAQUE(v);                                                          \
                            put((float *)(p + line + at), v);                                      \
                        }                                                                          \
        TN_STREAMED                                                                                \
    }
TN_APART_PROBE(apart, TN_PROBE_F(tn_store), TN_PROBE_PAGES)
TN_APART_PROBE(stream, TN_PROBE_F(tn_stream), TN_PROBE_PAGES)
TN_APART_PROBE(beside, TN_PROBE_F(tn_stream), TN_PROBE_FEW_PAGES)

/* The first word of each line holds the place of the next line [bytes]. The walk goes on where it
 * ended, which the second word of the buffer holds: begun again each time it would stay among the
 * lines it knows. */
TN_PROBE(chase)
{
    TN_PROBE_BEGIN(char);
    int64_t at = ((int64_t *)p)[1];
    for (int64_t i = 0; i < times; i++) {
        TN_TIMES16(at = *(const int64_t *)(p + at);)
    }
    ((int64_t *)p)[1] = at;
}

/* ---- a library's products -------------------------------------------------------------------- */

#ifdef TN_PROBE_BLAS
void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                 float *, int);
int openblas_get_num_threads(void) __attribute__((weak));
void openblas_set_num_threads(int) __attribute__((weak));

/* A GEMM of sym[1] rows; the other extents are 512, or 1 where there is one row. */
static void
tn_probe_product(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const int rows = (int)args->sym[1], size = rows > 1 ? 512 : 1;
    float *a = (float *)args->buf[0], *b = a + 512 * 512, *c = b + 512 * 512;

    (void)begin, (void)end, (void)scratch;
    if (openblas_get_num_threads && openblas_set_num_threads && openblas_get_num_threads() != 1)
        openblas_set_num_threads(1);
    for (int64_t t = args->sym[0]; t > 0; t--)
        cblas_sgemm(101, 111, 111, rows, size, size, 1, a, size, b, size, 0, c, size);
}
#else
#define tn_probe_product 0
#endif

/* ---- the table ------------------------------------------------------------------------------- */

/* fn 0: the target has no such step */
typedef struct {
    const char *name;
    TnKernelFn *fn;
    double work;
} TnProbe;
__attribute__((visibility("default"))) const TnProbe *
tenon_probes(void)
{
    /* work: steps each time; 0: the number of bytes of the buffer */
    static const TnProbe probes[] = {
        { "nothing", tn_probe_nothing, 1 },     { "cycle", tn_probe_cycle, 16 },
        { "issue", tn_probe_issue, 96 },        { "fma", tn_probe_fma, 12 },
        { "fma_f64", tn_probe_fma_f64, 12 },    { "fma_chain", tn_probe_fma_chain, 16 },
        { "plus", tn_probe_plus, 12 },          { "divide", tn_probe_divide, 16 },
        { "sqrt", tn_probe_sqrt, 16 },          { "roots", tn_probe_roots, 1 },
        { "behind", tn_probe_behind, 1 },       { "gather", tn_probe_gather, 16 },
        { "mixed", tn_probe_mixed, 16 },        { "part_load", tn_probe_part_load, 16 },
        { "splat", tn_probe_splat, 12 },        { "part_store", tn_probe_part_store, 16 },
        { "branch", tn_probe_branch, 1 },       { "i16_dot", tn_probe_i16_dot, 12 },
        { "i8_dot", tn_probe_i8_dot, 12 },      { "bf16_dot", tn_probe_bf16_dot, 12 },
        { "load_f16", tn_probe_load_f16, 0 },   { "load_bf16", tn_probe_load_bf16, 0 },
        { "store_f16", tn_probe_store_f16, 0 }, { "store_bf16", tn_probe_store_bf16, 0 },
        { "read", tn_probe_read, 0 },           { "read_2", tn_probe_read_2, 0 },
        { "read_4", tn_probe_read_4, 0 },       { "side", tn_probe_side, 0 },
        { "step", tn_probe_step, 0 },           { "piece", tn_probe_piece, 0 },
        { "write", tn_probe_write, 0 },         { "copy", tn_probe_copy, 0 },
        { "apart", tn_probe_apart, 0 },         { "stream", tn_probe_stream, 0 },
        { "beside", tn_probe_beside, 0 },       { "chase", tn_probe_chase, 16 },
        { "product", tn_probe_product, 1 },     { 0, 0, 0 },
    };
    return probes;
}
