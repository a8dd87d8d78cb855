/* report: messages on standard error, progress on a terminal. */
#include "cmd.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double
seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void *
need(void *p)
{
    if (!p) {
        fputs("tenon: error: out of memory\n", stderr);
        exit(TN_LIMIT);
    }
    return p;
}

static char last[4096];

const char *
reported(void)
{
    return last;
}

int
usage_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(last, sizeof last, format, args);
    va_end(args);
    fprintf(stderr, "tenon: error: %s\n", last);
    return TN_USAGE;
}

/* The same is not said twice in a row: several sessions of a model lack the same sizes. */
void
note(const char *format, ...)
{
    static char before[512];
    char text[sizeof before];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!strcmp(text, before))
        return;
    memcpy(before, text, strlen(text) + 1);
    fprintf(stderr, "tenon: note: %s\n", text);
}

/* Messages about a file begin with its name; those about none with the program's. */
int
report(TnContext *ctx, TnStatus s)
{
    const char *text = tn_error(ctx);

    if (s != TN_OK)
        snprintf(last, sizeof last, "%s", strncmp(text, "error: ", 7) ? text : text + 7);
    while (*text) {
        int n = (int)strcspn(text, "\n");
        bool nameless = !strncmp(text, "error: ", 7) || !strncmp(text, "note: ", 6);
        fprintf(stderr, "%s%.*s\n", nameless ? "tenon: " : "", n, text);
        text += n + (text[n] == '\n');
    }
    return s;
}

void
print_size(int64_t bytes)
{
    static const char *const unit[] = { "B", "KB", "MB", "GB", "TB" };
    double size = (double)bytes;
    int u = 0;

    for (; size >= 1000 && u < 4; u++)
        size /= 1024;
    printf(u ? "%.1f %s" : "%.0f %s", size, unit[u]);
}

void
fprint_json_string(FILE *to, const char *s)
{
    putc('"', to);
    for (; *s; s++)
        if ((unsigned char)*s < ' ')
            fprintf(to, "\\u%04x", (unsigned char)*s);
        else
            fprintf(to, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    putc('"', to);
}

void
print_json_string(const char *s)
{
    fprint_json_string(stdout, s);
}

bool
ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n >= k && !strcmp(s + n - k, end);
}

bool
is_stdout(const char *file)
{
    return file && !strcmp(file, "-");
}

int
by_number(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

double
median(const double *sorted, int64_t n)
{
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

bool
print_if_no_double(const TnTensor *x, int64_t i)
{
    if (!strcmp(x->dtype, "str")) {
        const char *s = ((const char *const *)x->data)[i];
        print_json_string(s ? s : "");
    } else if (!strcmp(x->dtype, "i64"))
        printf("%lld", (long long)((const int64_t *)x->data)[i]);
    else if (!strcmp(x->dtype, "u64"))
        printf("%llu", (unsigned long long)((const uint64_t *)x->data)[i]);
    else
        return false;
    return true;
}

/* Every character takes one column. */
int
columns(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

/* ---- progress -------------------------------------------------------------------------------- */

#define QUIET_SECONDS 1.0
#define EVERY_SECONDS 0.1

Progress
progress_begin(void)
{
    return (Progress){ .start = seconds(), .terminal = isatty(STDERR_FILENO) };
}

void
progress_show(void *progress, const char *what, int64_t done, int64_t total)
{
    Progress *p = progress;

    snprintf(p->what, sizeof p->what, "%s", what);
    p->done = done;
    p->total = total;
    progress_go_on(p);
}

void
progress_go_on(Progress *p)
{
    double now = seconds();

    if (!p->terminal || !*p->what || now - p->start < QUIET_SECONDS ||
        now - p->shown < EVERY_SECONDS)
        return;
    p->shown = now;
    p->visible = true;
    fprintf(stderr, "\r\033[K%s: %lld of %lld, %.0f s", p->what, (long long)p->done,
            (long long)p->total, now - p->start);
    fflush(stderr);
}

void
progress_end(Progress *p)
{
    if (p->visible)
        fputs("\r\033[K", stderr);
    p->visible = false;
}

int
report_after(Progress *p, TnContext *ctx, TnStatus s)
{
    progress_end(p);
    return report(ctx, s);
}
