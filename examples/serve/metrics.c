#include "metrics.h"

#include <stdio.h>
#include <stdlib.h>

static const double bucket[NBUCKET] = { 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100 };

void
times_add(Times *t, double seconds)
{
    int i = 0;

    while (i < NBUCKET && seconds > bucket[i])
        i++;
    t->in[i]++;
    t->sum += seconds;
}

static void
say_times(FILE *f, const char *name, const char *help, const Times *t)
{
    long long sum = 0;

    fprintf(f, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    for (int i = 0; i < NBUCKET; i++)
        fprintf(f, "%s_bucket{le=\"%g\"} %lld\n", name, bucket[i], sum += t->in[i]);
    sum += t->in[NBUCKET];
    fprintf(f, "%s_bucket{le=\"+Inf\"} %lld\n%s_sum %.9g\n%s_count %lld\n", name, sum, name, t->sum,
            name, sum);
}

static void
say_number(FILE *f, const char *name, const char *kind, const char *help, long long n)
{
    fprintf(f, "# HELP %s %s\n# TYPE %s %s\n%s %lld\n", name, help, name, kind, name, n);
}

static void
say_batch(FILE *f, const Batch *b)
{
    const BatchCount *c = batch_count(b);

    say_number(f, "tenon_sequences_running", "gauge", "Sequences in the batch.", batch_running(b));
    say_number(f, "tenon_sequences_waiting", "gauge", "Sequences that wait for a place.",
               batch_queued(b));
    say_number(f, "tenon_steps_total", "counter", "Runs of the model.", c->steps);
    say_number(f, "tenon_columns_total", "counter",
               "Tokens that these runs computed, of all places of the batch.", c->columns);
    say_number(f, "tenon_prompt_tokens_total", "counter", "Tokens of prompts fed.", c->fed);
    say_number(f, "tenon_completion_tokens_total", "counter", "Tokens made.", c->made);
}

char *
metrics_text(const Metrics *m, const Batch *b, const char *const *door, int n)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);

    if (!f)
        return NULL;
    fprintf(f, "# HELP tenon_requests_total Requests answered, by path and status.\n"
               "# TYPE tenon_requests_total counter\n");
    for (int i = 0; i <= n; i++)
        for (int s = 0; s < MOST_STATUS; s++)
            if (m->answered[i][s])
                fprintf(f, "tenon_requests_total{path=\"%s\",status=\"%d\"} %lld\n",
                        i < n ? door[i] : "other", s, m->answered[i][s]);
    say_number(f, "tenon_dropped_total", "counter",
               "Requests whose client left, or did not read, before all was said.", m->dropped);
    say_times(f, "tenon_request_seconds", "From a request's head to the end of its answer.",
              &m->request);
    say_times(f, "tenon_first_token_seconds", "From a request's head to its first token.",
              &m->first);
    if (b)
        say_batch(f, b);
    if (fclose(f)) {
        free(text);
        return NULL;
    }
    return text;
}
