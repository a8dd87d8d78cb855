/* matrix: determinants, by elimination with the largest pivot of each column. */
TN_ROUTINE int64_t
tn_determinant_plan(const TnRoutine *r, int64_t *scratch)
{
    int64_t n = r->array[0].dim[r->array[0].rank - 1];

    *scratch = n * n * (int64_t)sizeof(double) + 64;
    return tn_product(r->array[0].dim, 0, r->array[0].rank - 2);
}
TN_ROUTINE double
tn_eliminate(double *a, int64_t n)
{
    double det = 1;

    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++)
            if ((a[i * n + k] < 0 ? -a[i * n + k] : a[i * n + k]) >
                (a[best * n + k] < 0 ? -a[best * n + k] : a[best * n + k]))
                best = i;
        for (int64_t j = 0; j < n && best != k; j++) {
            double t = a[k * n + j];
            a[k * n + j] = a[best * n + j], a[best * n + j] = t;
        }
        det *= best == k ? a[k * n + k] : -a[k * n + k];
        if (a[k * n + k] == 0)
            return det;
        for (int64_t i = k + 1; i < n; i++) {
            double by = a[i * n + k] / a[k * n + k];
            for (int64_t j = k; j < n; j++)
                a[i * n + j] -= by * a[k * n + j];
        }
    }
    return det;
}
TN_ROUTINE void
tn_determinant(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    int64_t n = r->array[0].dim[r->array[0].rank - 1], some = n * n;
    int wide = r->array[0].type == 'd';

    for (int64_t m = begin; m < end; m++) {
        for (int64_t i = 0; i < some; i++)
            ((double *)scratch)[i] = wide ? ((const double *)r->array[0].at)[m * some + i]
                                          : (double)((const float *)r->array[0].at)[m * some + i];
        double det = tn_eliminate((double *)scratch, n);
        if (wide)
            ((double *)r->array[1].at)[m] = det;
        else
            ((float *)r->array[1].at)[m] = (float)det;
    }
}
