/* tenon explain --batches: the blocks that requests run together, and the batch sizes that a
 * file of requests gives.
 */
#include "cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const Options *o;
    TnModel *model;
    TnBlockUse *block;
    int32_t n;
    const char *single; /* why requests run one by one; NULL: they do not */
    Requests requests;
    int32_t failed;
    int shapes; /* different ones of the requests; counted up to MOST_SHAPES */
} BatchReport;

enum { MOST_SHAPES = 100 };

/* ---- what is told ----------------------------------------------------------------------- */

static bool
same_shapes(const Request *x, const Request *y, int32_t nin)
{
    for (int32_t i = 0; i < nin; i++) {
        const TnTensor *a = &x->in[i], *b = &y->in[i];
        if (a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims))
            return false;
    }
    return true;
}

static int
count_shapes(const Requests *r)
{
    const Request *seen[MOST_SHAPES];
    int n = 0;

    for (int32_t i = 0; i < r->n && n < MOST_SHAPES; i++) {
        int k = 0;
        while (k < n && !same_shapes(seen[k], &r->at[i], r->nin))
            k++;
        if (k == n && !r->at[i].error)
            seen[n++] = &r->at[i];
    }
    return n;
}

/* Of the blocks that requests run together, or of those that each runs alone. */
static TnBlockUse
total(const BatchReport *p, bool alone)
{
    TnBlockUse t = { .size = sizeof t, .name = "total", .host = alone };

    for (int32_t i = 0; i < p->n; i++)
        if (!p->block[i].host == !alone) {
            t.nodes += p->block[i].nodes;
            t.asked += p->block[i].asked;
            t.ran += p->block[i].ran;
        }
    return t;
}

static double
mean_size(const TnBlockUse *b)
{
    return b->ran ? (double)b->asked / (double)b->ran : 0;
}

/* ---- a table ---------------------------------------------------------------------------- */

static void
print_name(const char *name, int width)
{
    int n = columns(name), keep = n > width ? width - 1 : n;
    const char *s = name;

    for (; *s && (keep || (*s & 0xc0) == 0x80); s++)
        keep -= (*s & 0xc0) != 0x80, putchar(*s);
    printf("%s%*s", n > width ? "…" : "", n > width ? 0 : width - n, "");
}

static void
print_row(const BatchReport *p, const TnBlockUse *b, int width)
{
    const char *run = b->host ? "alone" : "together";

    print_name(b->name, width);
    if (!p->o->requests)
        printf("  %5d  %s\n", b->nodes, run);
    else if (!b->ran)
        printf("  %5d  %-8s  %8d  %8d  %9s\n", b->nodes, run, 0, 0, "-");
    else
        printf("  %5d  %-8s  %8lld  %8lld  %9.1f\n", b->nodes, run, (long long)b->asked,
               (long long)b->ran, mean_size(b));
}

static void
print_table(const BatchReport *p)
{
    enum { WIDEST = 44 };
    TnBlockUse together = total(p, false), alone = total(p, true);
    int width = columns("block");
    bool some_alone = false;

    for (int32_t i = 0; i < p->n; i++) {
        int n = columns(p->block[i].name);
        width = n > width ? n : width;
        some_alone |= p->block[i].host;
    }
    width = width > WIDEST ? WIDEST : width;
    printf("\n%-*s  nests  run", width, "block");
    if (p->o->requests)
        printf("%5s  %8s  %8s  %9s", "", "asked", "batches", "mean size");
    putchar('\n');
    for (int32_t i = 0; i < p->n; i++)
        print_row(p, &p->block[i], width);
    print_row(p, &together, width);
    if (some_alone)
        print_row(p, &alone, width);
}

/* What to do next, by what the numbers say. */
static void
print_hint(const BatchReport *p)
{
    enum { MANY = 8 }; /* instances that fill a batch: a vector of f32 */
    TnBlockUse t = total(p, false);
    int32_t n = p->requests.n - p->failed;
    const char *name = p->o->model;

    fputs("\nnext: ", stdout);
    if (!p->o->requests)
        puts("--requests FILE tells how large batches of your requests are. FILE has a line of\n"
             "JSON for each, as for tenon run --many");
    else if (n < 2)
        printf("more requests: %s\n",
               n ? "one has nothing to run together with" : "none had a result");
    else if (mean_size(&t) >= MANY || 2 * mean_size(&t) >= n)
        printf("tenon run %s --many %s, or session.run_many\n"
               "These %d requests take %lld run%s of blocks; one after the other, %lld\n",
               name, p->o->requests, n, (long long)t.ran, t.ran == 1 ? "" : "s",
               (long long)t.asked);
    else if (p->shapes > 1)
        printf("more requests at a time, or such of equal shapes, padded to a few sizes perhaps.\n"
               "These %d have %s%d shapes; a block runs together for those of one size to it\n",
               n, p->shapes == MOST_SHAPES ? "over " : "", p->shapes);
    else
        puts("more requests at a time: these take different branches and turns, and of more there\n"
             "are more that take the same");
}

static void
print_text(const BatchReport *p)
{
    const char *name = p->o->model;

    if (p->single) {
        printf("%s: requests run one by one: %s\n\nnext: ", name, p->single);
        if (tn_model_single(p->model))
            puts("tenon run --many and session.run_many run them all the same, one after another.\n"
                 "They can run together once that is not so");
        else
            printf("tenon compile MODEL --many -o %s\n", name);
        return;
    }
    printf("%s: requests run together, in %d block%s\n", name, p->n, p->n == 1 ? "" : "s");
    print_table(p);
    print_hint(p);
}

static void
print_json(const BatchReport *p)
{
    printf("{\"model\": ");
    print_json_string(p->o->model);
    printf(", \"single\": ");
    if (p->single)
        print_json_string(p->single);
    else
        printf("null");
    if (p->o->requests)
        printf(", \"requests\": %d, \"failed\": %d, \"shapes\": %d", p->requests.n, p->failed,
               p->shapes);
    printf(", \"blocks\": [");
    for (int32_t i = 0; i < p->n; i++) {
        const TnBlockUse *b = &p->block[i];
        printf("%s\n {\"name\": ", i ? "," : "");
        print_json_string(b->name);
        printf(", \"nests\": %d, \"host\": %s", b->nodes, b->host ? "true" : "false");
        if (p->o->requests)
            printf(", \"asked\": %lld, \"batches\": %lld", (long long)b->asked, (long long)b->ran);
        putchar('}');
    }
    printf("]}\n");
}

/* ---- the verb --------------------------------------------------------------------------- */

static int
run_requests(TnContext *ctx, BatchReport *p, TnSession *s)
{
    int status = requests_read(p->o, p->model, &p->requests);

    if (status == TN_OK)
        status = requests_run(ctx, s, &p->requests);
    if (status != TN_OK)
        return status;
    const Request *first = requests_failed(&p->requests, &p->failed);
    if (first)
        note("%d of %d requests have no result; %s", p->failed, p->requests.n, first->error);
    p->shapes = count_shapes(&p->requests);
    return TN_OK;
}

static int
read_blocks(TnContext *ctx, BatchReport *p)
{
    TnSession *s = NULL;

    int status = session_begin(ctx, p->o, p->model, &s);
    if (status == TN_OK && p->o->requests)
        status = run_requests(ctx, p, s);
    p->block = need(calloc((size_t)p->n + 1, sizeof *p->block));
    for (int32_t i = 0; i < p->n && status == TN_OK; i++) {
        p->block[i].size = sizeof *p->block;
        status = report(ctx, tn_session_block(s, i, &p->block[i]));
    }
    tn_session_free(s);
    return status;
}

static int
explain(TnContext *ctx, const Options *o, TnModel *m)
{
    BatchReport p = { .o = o, .model = m, .n = tn_model_blocks(m), .single = tn_model_single(m) };

    if (!p.n && !p.single)
        p.single = "it was compiled without --many";
    int status = p.single ? TN_OK : read_blocks(ctx, &p);
    if (status == TN_OK && o->json)
        print_json(&p);
    else if (status == TN_OK)
        print_text(&p);
    free(p.block);
    requests_free(&p.requests);
    return status;
}

int
explain_batches(TnContext *ctx, const Options *o)
{
    if (o->plan || o->compile.why || o->compile.page || o->compile.page_profile)
        return usage_error("--batches tells of requests, not of fusion: leave out --plan, --why, "
                           "--html and --profile");
    if (is_artefact(o->model) && (o->dim.n || o->shape.n))
        return usage_error("--%s is about compiling, and %s is compiled already",
                           o->dim.n ? "dim" : "shape", o->model);
    return model_with(ctx, o, explain);
}
