/* product: GEMM by the CBLAS of a library that the artefact is linked with. The interpreter, which
 * defines TN_PLAIN_PRODUCT, has plain loops instead.
 *
 *   c[i, r, j] = sum q: a[i, r, q] * b[i, q, j]        transposed: a[i, q, r], b[i, j, q]
 *
 * The session's threads divide a GEMM as they do a kernel: each calls the library for its part of
 * the rows, or of the columns if there are more. The library's own threads would compete for the
 * same processors, so OpenBLAS is told to use one, for all of the process.
 */
#ifdef TN_PLAIN_PRODUCT
#define TN_MULTIPLY(TYPE, NAME)                                                                    \
    static void NAME(int order, int turn_a, int turn_b, int m, int n, int k, TYPE alpha,           \
                     const TYPE *a, int lda, const TYPE *b, int ldb, TYPE beta, TYPE *c, int ldc)  \
    {                                                                                              \
        (void)order, (void)alpha, (void)beta;                                                      \
        for (int64_t i = 0; i < m; i++)                                                            \
            for (int64_t j = 0; j < n; j++) {                                                      \
                TYPE sum = 0;                                                                      \
                for (int64_t q = 0; q < k; q++)                                                    \
                    sum += (turn_a == 112 ? a[q * lda + i] : a[i * lda + q]) *                     \
                           (turn_b == 112 ? b[j * ldb + q] : b[q * ldb + j]);                      \
                c[i * ldc + j] = sum;                                                              \
            }                                                                                      \
    }
TN_MULTIPLY(float, cblas_sgemm)
TN_MULTIPLY(double, cblas_dgemm)
#undef TN_MULTIPLY
static void
tn_product_alone(void)
{
}
#else
#ifdef __cplusplus
extern "C" {
#endif
/* As in cblas.h, which need not exist where a model is compiled; its enumerations are ints. */
void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                 float *, int);
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int,
                 double, double *, int);
int openblas_get_num_threads(void) __attribute__((weak));
void openblas_set_num_threads(int) __attribute__((weak));
#ifdef __cplusplus
}
#endif
TN_ROUTINE void
tn_product_alone(void)
{
    if (openblas_get_num_threads && openblas_set_num_threads && openblas_get_num_threads() != 1)
        openblas_set_num_threads(1);
}
#endif

/* CBLAS's numbers; parts begin at multiples of STEP */
enum { TN_ROW_MAJOR = 101, TN_NO_TRANSPOSE = 111, TN_TRANSPOSE = 112, TN_PRODUCT_STEP = 16 };

typedef struct {
    int64_t batch, m, n, k, parts;
    int transposed_a, transposed_b;
} TnProduct;
TN_ROUTINE TnProduct
tn_product_sizes(const TnRoutine *r)
{
    const TnArray *a = &r->array[0], *b = &r->array[1];
    int64_t batch = (int64_t)r->attr[0];
    TnProduct p = { tn_product(a->dim, 0, batch), 0, 0, 0, 1, r->attr[1] != 0, r->attr[2] != 0 };

    p.k = a->dim[p.transposed_a ? batch : a->rank - 1];
    p.m = p.transposed_a ? tn_product(a->dim, batch + 1, a->rank)
                         : tn_product(a->dim, batch, a->rank - 1);
    p.n = p.transposed_b ? tn_product(b->dim, batch, b->rank - 1)
                         : tn_product(b->dim, batch + 1, b->rank);
    /* As many parts as are worth a thread, up to the expected number of processors. */
    double worth = (double)p.m * (double)p.n * (double)p.k / r->attr[4];
    if (p.batch < r->attr[3])
        p.parts = worth < 1 ? 1 : worth < r->attr[3] ? (int64_t)worth : (int64_t)r->attr[3];
    return p;
}
TN_ROUTINE int64_t
tn_library_product_plan(const TnRoutine *r, int64_t *scratch)
{
    TnProduct p = tn_product_sizes(r);
    int64_t most = p.m > p.n ? p.m : p.n;

    most = p.k > most ? p.k : most;
    (void)scratch;
    if (most > INT32_MAX) /* CBLAS counts by ints */
        tn_wrong(r, most, INT32_MAX);
    tn_product_alone();
    return p.m && p.n ? p.batch * p.parts : 0;
}
/* The beginning of part i. */
TN_ROUTINE int64_t
tn_product_part(int64_t whole, int64_t i, int64_t parts)
{
    return i == parts ? whole : whole * i / parts / TN_PRODUCT_STEP * TN_PRODUCT_STEP;
}
#define TN_PRODUCT_OF(TYPE, MULTIPLY)                                                              \
    do {                                                                                           \
        const TYPE *a = (const TYPE *)r->array[0].at + i * p.m * p.k,                              \
                   *b = (const TYPE *)r->array[1].at + i * p.k * p.n;                              \
        TYPE *c = (TYPE *)r->array[2].at + i * p.m * p.n + row * p.n + column;                     \
        for (int64_t x = 0; x < rows && !p.k; x++)                                                 \
            memset(c + x * p.n, 0, (size_t)columns * sizeof(TYPE));                                \
        if (p.k)                                                                                   \
            MULTIPLY(TN_ROW_MAJOR, p.transposed_a ? TN_TRANSPOSE : TN_NO_TRANSPOSE,                \
                     p.transposed_b ? TN_TRANSPOSE : TN_NO_TRANSPOSE, (int)rows, (int)columns,     \
                     (int)p.k, 1, a + (p.transposed_a ? row : row * p.k),                          \
                     (int)(p.transposed_a ? p.m : p.k),                                            \
                     b + (p.transposed_b ? column * p.k : column),                                 \
                     (int)(p.transposed_b ? p.k : p.n), 0, c, (int)p.n);                           \
    } while (0)
TN_ROUTINE void
tn_library_product(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    TnProduct p = tn_product_sizes(r);

    (void)scratch;
    for (int64_t t = begin; t < end; t++) {
        int64_t i = t / p.parts,
                from = tn_product_part(p.m > p.n ? p.m : p.n, t % p.parts, p.parts);
        int64_t some = tn_product_part(p.m > p.n ? p.m : p.n, t % p.parts + 1, p.parts) - from;
        int64_t row = p.m > p.n ? from : 0, column = p.m > p.n ? 0 : from,
                rows = p.m > p.n ? some : p.m, columns = p.m > p.n ? p.n : some;
        if (!some)
            continue;
        if (r->array[0].type == 'd')
            TN_PRODUCT_OF(double, cblas_dgemm);
        else
            TN_PRODUCT_OF(float, cblas_sgemm);
    }
}
#undef TN_PRODUCT_OF
