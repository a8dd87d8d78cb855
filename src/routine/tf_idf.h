/* tf_idf: the number of occurrences of runs of words (n-grams), perhaps with skipped words, in each
 * row.
 *
 * Runs of one length are sorted, so that each is found by bisection: grams[g, 4] holds length,
 * position of the first word in the pool, column of the result, and the number of runs of this
 * length from here on.
 */
TN_ROUTINE int64_t
tn_tf_idf_plan(const TnRoutine *r, int64_t *scratch)
{
    *scratch = 0;
    return r->array[3].rank == 2 ? r->array[3].dim[0] : 1;
}
/* Compares words of x from `at` on, `step` apart, with a run in the pool. */
TN_ROUTINE int
tn_compare_gram(const TnRoutine *r, int64_t at, int64_t step, const int64_t *gram)
{
    for (int64_t i = 0; i < gram[0]; i++) {
        int c = tn_compare(&r->array[0], at + i * step, &r->array[1], gram[1] + i);
        if (c)
            return c;
    }
    return 0;
}
TN_ROUTINE void
tn_tf_idf(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    const TnArray *x = &r->array[0], *out = &r->array[3];
    const int64_t *grams = (const int64_t *)r->array[2].at, ngram = r->array[2].dim[0];
    int64_t width = out->dim[out->rank - 1], words = x->rank ? x->dim[x->rank - 1] : 1;
    int64_t least = (int64_t)r->attr[0], most = (int64_t)r->attr[1], skips = (int64_t)r->attr[2];

    (void)scratch;
    for (int64_t row = begin; row < end; row++) {
        float *y = (float *)out->at + row * width;
        memset(y, 0, (size_t)width * sizeof *y);
        for (int64_t step = 1; step <= skips + 1 && step <= words; step++)
            for (int64_t first = 0; first < ngram; first += grams[4 * first + 3]) {
                int64_t n = grams[4 * first];
                if (n < least || n > most || (n == 1 && step > 1))
                    continue;
                for (int64_t at = 0; at + (n - 1) * step < words; at++) {
                    int64_t low = first, high = first + grams[4 * first + 3];
                    while (low < high) {
                        int64_t mid = low + (high - low) / 2;
                        if (tn_compare_gram(r, row * words + at, step, grams + 4 * mid) > 0)
                            low = mid + 1;
                        else
                            high = mid;
                    }
                    if (low < first + grams[4 * first + 3] &&
                        !tn_compare_gram(r, row * words + at, step, grams + 4 * low))
                        y[grams[4 * low + 2]]++;
                }
            }
    }
}
