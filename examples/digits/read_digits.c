/* read_digits: handwritten digits through a compiled model, by the C API.
 *
 *   read_digits digits.so held_out.npz
 *
 * Links libtenon-run alone: no compiler, no Python. Loads the model, runs all images as one batch
 * and then one by one, draws a few, and says how many were read as their writers meant. Exit status
 * 1 if that is another number than the program which trained the model found on the same images.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tenon.h"

enum { SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 10, ACROSS = 5, LATENCY_RUNS = 200 };

typedef struct {
    TnTensor images, labels, predictions, correct;
} HeldOut;

/* Say what went wrong and leave. The library itself never does. */
static void
need(TnContext *ctx, TnStatus status)
{
    if (status != TN_OK) {
        fprintf(stderr, "read_digits: %s\n", tn_error(ctx));
        exit(status);
    }
}

static TnTensor
read_member(TnContext *ctx, const char *npz, const char *member)
{
    TnTensor x = TN_INIT(TnTensor);
    char path[4096];

    snprintf(path, sizeof path, "%s:%s", npz, member);
    need(ctx, tn_tensor_read(ctx, path, &x));
    return x;
}

static double
milliseconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int
largest(const float *p)
{
    int best = 0;

    for (int k = 1; k < CLASSES; k++)
        if (p[k] > p[best])
            best = k;
    return best;
}

static int
label_of(const HeldOut *h, int i)
{
    return (int)((const int64_t *)h->labels.data)[i];
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* Two characters a pixel, so that a pixel is about square; five shades of ink. */
static void
draw_row(const float *image, int row)
{
    static const char *const shade[] = { "  ", "░░", "▒▒", "▓▓", "██" };

    for (int x = 0; x < SIDE; x++)
        fputs(shade[(int)(image[row * SIDE + x] * 4 / 16 + 0.5f)], stdout);
}

static void
draw(const int *which, int n, const HeldOut *h, const float *probability)
{
    for (int row = 0; row < SIDE; row++) {
        for (int i = 0; i < n; i++) {
            fputs("   ", stdout);
            draw_row((const float *)h->images.data + which[i] * PIXELS, row);
        }
        putchar('\n');
    }
    for (int i = 0; i < n; i++) {
        const float *p = probability + which[i] * CLASSES;
        int digit = largest(p), label = label_of(h, which[i]);
        char text[64];
        if (digit == label)
            snprintf(text, sizeof text, "%d, read %d (%.0f%%)", label, digit,
                     100 * (double)p[digit]);
        else
            snprintf(text, sizeof text, "%d, but read %d!", label, digit);
        printf("   %-16s", text);
    }
    puts("\n");
}

/* The first of each digit that was read right, then the first that were read wrong. */
static void
draw_some(const HeldOut *h, const float *probability, int n)
{
    int right[CLASSES], wrong[ACROSS] = { 0 }, nwrong = 0;

    for (int k = 0; k < CLASSES; k++)
        right[k] = -1;
    for (int i = 0; i < n; i++) {
        int label = label_of(h, i);
        if (largest(probability + i * CLASSES) != label) {
            if (nwrong < ACROSS)
                wrong[nwrong++] = i;
        } else if (right[label] < 0) {
            right[label] = i;
        }
    }
    int known = 0;
    for (int k = 0; k < CLASSES; k++)
        if (right[k] >= 0)
            right[known++] = right[k];
    for (int k = 0; k < known; k += ACROSS)
        draw(right + k, known - k < ACROSS ? known - k : ACROSS, h, probability);
    if (nwrong) {
        puts("   and read wrong:\n");
        draw(wrong, nwrong, h, probability);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median time of one image by itself. */
static double
latency_ms(TnContext *ctx, TnSession *session, const TnTensor *images)
{
    int64_t one[4] = { 1, 1, SIDE, SIDE };
    double ms[LATENCY_RUNS];

    for (int i = 0; i < LATENCY_RUNS; i++) {
        TnTensor in = *images, out = TN_INIT(TnTensor);
        in.dims = one;
        in.data = (float *)images->data + (i % images->dims[0]) * PIXELS;
        in.bytes = PIXELS * sizeof(float);
        double start = milliseconds();
        need(ctx, tn_run(session, &in, 1, &out, 1));
        ms[i] = milliseconds() - start;
    }
    qsort(ms, LATENCY_RUNS, sizeof *ms, by_value);
    return ms[LATENCY_RUNS / 2];
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void
read_held_out(TnContext *ctx, const char *npz, HeldOut *h)
{
    h->images = read_member(ctx, npz, "images");
    h->labels = read_member(ctx, npz, "labels");
    h->predictions = read_member(ctx, npz, "predictions");
    h->correct = read_member(ctx, npz, "correct");
    h->images.name = NULL; /* inputs go by position */
}

static int
count_right(const HeldOut *h, const float *probability, int n, int *as_trained)
{
    int right = 0;

    *as_trained = 0;
    for (int i = 0; i < n; i++) {
        int digit = largest(probability + i * CLASSES);
        right += digit == label_of(h, i);
        *as_trained += digit == ((const int64_t *)h->predictions.data)[i];
    }
    return right;
}

int
main(int argc, char **argv)
{
    TnContext *ctx = NULL;
    TnModel *model = NULL;
    TnSession *session = NULL;
    TnTensor out = TN_INIT(TnTensor);
    HeldOut h;

    if (argc != 3) {
        fprintf(stderr, "usage: read_digits digits.so held_out.npz\n");
        return TN_USAGE;
    }
    if (tn_context_new(NULL, &ctx) != TN_OK)
        return TN_LIMIT;
    read_held_out(ctx, argv[2], &h);
    need(ctx, tn_load(ctx, argv[1], &model));
    need(ctx, tn_session_new(ctx, model, NULL, &session));
    double one = latency_ms(ctx, session, &h.images);
    /* all images: one batch of another size */
    need(ctx, tn_run(session, &h.images, 1, &out, 1));

    int n = (int)h.images.dims[0], as_trained;
    int right = count_right(&h, out.data, n, &as_trained),
        want = (int)*(const int64_t *)h.correct.data;
    draw_some(&h, out.data, n);
    printf("accuracy   %.2f %%: %d of %d digits the model had never seen\n", 100.0 * right / n,
           right, n);
    printf("training   had %d of %d; both give the same answer on %d\n", want, n, as_trained);
    printf("latency    %.1f us for one image (median of %d, %d threads)\n", 1e3 * one, LATENCY_RUNS,
           (int)tn_session_threads(session));
    tn_session_free(session);
    tn_model_free(model);
    tn_context_free(ctx);
    if (right != want)
        fprintf(stderr,
                "read_digits: %d digits read right, but training had %d: the compiled model "
                "computes something else\n",
                right, want);
    return right == want ? 0 : 1;
}
