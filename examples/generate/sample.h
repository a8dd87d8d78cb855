/* sample: which token comes next. */
#ifndef EXAMPLES_SAMPLE_H
#define EXAMPLES_SAMPLE_H

#include <stdint.h>

typedef struct {
    double temperature; /* 0: always the likeliest */
    /* of the likeliest that have this share of all together; 1: of all */
    double top_p;
    uint64_t state; /* of the random numbers */
} Sampling;

void sample_seed(Sampling *s, uint64_t seed);
int64_t sample(Sampling *s, const float *score, int64_t n);

#endif
