/* pairwise: probabilities of classes from those of each pair (Wu, Lin and Weng, JMLR 5, 2004, as in
 * libsvm). Rows of x[n, k * (k - 1) / 2] hold the probability of i against j, for i < j in
 * order. */
TN_ROUTINE int64_t
tn_pairwise_plan(const TnRoutine *r, int64_t *scratch)
{
    int64_t k = r->array[1].dim[1];

    *scratch = (2 * k * k + 2 * k) * (int64_t)sizeof(double) + 64;
    return r->array[0].dim[0];
}
TN_ROUTINE void
tn_pairwise(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    int64_t k = r->array[1].dim[1], pairs = k * (k - 1) / 2, turns = k > 100 ? k : 100;
    double *pair = (double *)scratch, *q = pair + k * k, *p = q + k * k, *qp = p + k;

    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)r->array[0].at + row * pairs;
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = i + 1; j < k; j++, x++) {
                double v = (double)*x < 1e-7 ? 1e-7 : (double)*x > 1 - 1e-7 ? 1 - 1e-7 : (double)*x;
                pair[i * k + j] = v, pair[j * k + i] = 1 - v;
            }
        for (int64_t t = 0; t < k; t++) {
            p[t] = 1.0 / (double)k;
            q[t * k + t] = 0;
            for (int64_t j = 0; j < k; j++)
                if (j != t) {
                    q[t * k + t] += pair[j * k + t] * pair[j * k + t];
                    q[t * k + j] = -pair[j * k + t] * pair[t * k + j];
                }
        }
        for (int64_t turn = 0; turn < turns; turn++) {
            double all = 0, worst = 0;
            for (int64_t t = 0; t < k; t++) {
                qp[t] = 0;
                for (int64_t j = 0; j < k; j++)
                    qp[t] += q[t * k + j] * p[j];
                all += p[t] * qp[t];
            }
            for (int64_t t = 0; t < k; t++) {
                double error = qp[t] > all ? qp[t] - all : all - qp[t];
                worst = error > worst ? error : worst;
            }
            if (worst < 0.005 / (double)k)
                break;
            for (int64_t t = 0; t < k; t++) {
                double by = (all - qp[t]) / q[t * k + t];
                p[t] += by;
                all = (all + by * (by * q[t * k + t] + 2 * qp[t])) / ((1 + by) * (1 + by));
                for (int64_t j = 0; j < k; j++) {
                    qp[j] = (qp[j] + by * q[t * k + j]) / (1 + by);
                    p[j] /= 1 + by;
                }
            }
        }
        for (int64_t t = 0; t < k; t++)
            ((float *)r->array[1].at)[row * k + t] = (float)p[t];
    }
}
