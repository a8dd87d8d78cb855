/* tf_idf: term frequencies: how often each n-gram of a table occurs in each row of x, of adjacent
 * words or of words 2 to skips + 1 apart. (The caller multiplies by weights.)
 *
 * Arrays: words x[n] or x[b, n], pool[p], grams[g, 4]; result f32[columns] or f32[b, columns].
 * Numbers: the least and the most length of n-grams to count, and skips.
 *
 * grams is sorted by length, then by words, so that each n-gram is found by binary search. A row:
 * length, index of its first word in the pool, column of the result, and how many rows from this
 * one on have the same length.
 */
TN_ROUTINE int64_t
tn_tf_idf_plan(const TnRoutine *r, int64_t *scratch)
{
    (void)scratch;
    return r->array[3].rank == 2 ? r->array[3].dim[0] : 1;
}
/* Compares words of x from `at` on, `step` apart, with an n-gram of the table. */
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
/* The row, among those of one length that begin with `gram`, of the n-gram in x at `at`; NULL:
 * none. */
TN_ROUTINE const int64_t *
tn_find_gram(const TnRoutine *r, int64_t at, int64_t step, const int64_t *gram)
{
    int64_t count = gram[3], low = 0, high = count;

    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (tn_compare_gram(r, at, step, gram + 4 * mid) > 0)
            low = mid + 1;
        else
            high = mid;
    }
    gram += 4 * low;
    return low < count && !tn_compare_gram(r, at, step, gram) ? gram : NULL;
}
/* The numbers stay double: an i64 may be too large to convert back. */
TN_ROUTINE void
tn_tf_idf(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    const TnArray *x = &r->array[0], *out = &r->array[3];
    const int64_t *grams = (const int64_t *)r->array[2].at, ngram = r->array[2].dim[0];
    int64_t width = out->dim[out->rank - 1], words = x->rank ? x->dim[x->rank - 1] : 1;
    double least = r->attr[0], most = r->attr[1], skips = r->attr[2];

    (void)scratch;
    for (int64_t row = begin; row < end; row++) {
        float *y = (float *)out->at + row * width;
        memset(y, 0, (size_t)width * sizeof *y);
        for (int64_t step = 1; step <= words && (double)(step - 1) <= skips; step++)
            for (int64_t first = 0; first < ngram; first += grams[4 * first + 3]) {
                int64_t n = grams[4 * first];
                /* a single word has no distance: count it once */
                if ((double)n < least || (double)n > most || (n == 1 && step > 1))
                    continue;
                for (int64_t at = 0; at + (n - 1) * step < words; at++) {
                    const int64_t *gram =
                        tn_find_gram(r, row * words + at, step, grams + 4 * first);
                    if (gram)
                        y[gram[2]]++;
                }
            }
    }
}
