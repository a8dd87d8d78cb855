#include "sample.h"

#include <math.h>

void
sample_seed(Sampling *s, uint64_t seed)
{
    s->state = 0x9e3779b97f4a7c15u * (seed + 1);
    s->state += !s->state; /* the generator has one state that it does not leave */
}

static double
weight(const Sampling *s, float score, float best)
{
    return exp((score - best) / s->temperature);
}

/* All weights together, of those that are not under `least`. */
static double
weight_from(const Sampling *s, const float *score, int64_t n, float best, double least)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        double w = weight(s, score[i], best);
        sum += w >= least ? w : 0;
    }
    return sum;
}

/* The weight from which on the likeliest have the share top_p of all: found by halving, which needs
 * no memory and no order. */
static double
least_weight(const Sampling *s, const float *score, int64_t n, float best, double all)
{
    double low = 0, high = 1;

    for (int i = 0; s->top_p < 1 && i < 30; i++) {
        double middle = (low + high) / 2;
        if (weight_from(s, score, n, best, middle) >= s->top_p * all)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int64_t
sample(Sampling *s, const float *score, int64_t n)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++)
        best = score[i] > score[best] ? i : best;
    if (s->temperature <= 0)
        return best;
    double least = least_weight(s, score, n, score[best], weight_from(s, score, n, score[best], 0));
    s->state ^= s->state << 13, s->state ^= s->state >> 7, s->state ^= s->state << 17;
    double left = weight_from(s, score, n, score[best], least) * (double)(s->state >> 11) /
                  (double)(1ull << 53);
    for (int64_t i = 0; i < n; i++) {
        double w = weight(s, score[i], score[best]);
        if (w >= least && (left -= w) < 0)
            return i;
    }
    return best;
}
