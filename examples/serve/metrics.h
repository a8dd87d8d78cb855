/* metrics: what the server has done, counted, in the text form of Prometheus. */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include "batch.h"

enum { MOST_DOORS = 16, MOST_STATUS = 600, NBUCKET = 10 };

/* Times: how many took up to the seconds of each bucket, and how long all took. */
typedef struct {
    long long in[NBUCKET + 1]; /* the last: longer ones */
    double sum;
} Times;

typedef struct {
    /* by door and status of HTTP; behind all doors, those for which there was none */
    long long answered[MOST_DOORS + 1][MOST_STATUS];
    long long served, refused, dropped;
    Times request, first; /* until all was said; until the first token was made */
} Metrics;

void times_add(Times *t, double seconds);
/* malloc's; NULL: no memory. door: their names [n], and "other" behind. */
char *metrics_text(const Metrics *m, const Batch *b, const char *const *door, int n);

#endif
