/* profile: measured kernel times from `tenon bench --profile --json FILE`, keyed by the nodes that
 * a kernel computes.
 *
 *   { …, "each": [ {"ms": 0.449364, "origin": "Conv \"a\" + Relu \"b\""}, … ] }
 *
 * Any JSON is scanned with a count of open brackets; only these members are read.
 */
#include "driver/internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Job *j;
    const char *at, *end;
    FormatMeasured *out;
    uint32_t open; /* depth of brackets of both kinds */
    bool each;     /* inside of that list */
    double ms;     /* of the current object; negative: not read yet */
    Sym origin;
    uint32_t n; /* of kernels */
} ProfileReader;

/* The contents of a string whose opening quote has been read; NULL: it does not end. */
static const char *
read_string(ProfileReader *r)
{
    Text t = { .arena = r->j->arena };

    for (; r->at < r->end && *r->at != '"'; r->at++) {
        if (*r->at == '\\' && r->end - r->at > 5 && r->at[1] == 'u') {
            /* only control characters are escaped so */
            text_printf(&t, "%c", (int)strtol((const char[]){ r->at[4], r->at[5], 0 }, NULL, 16));
            r->at += 5;
        } else {
            r->at += *r->at == '\\' && r->end - r->at > 1;
            text_bytes(&t, r->at, 1);
        }
    }
    if (r->at == r->end)
        return NULL;
    r->at++;
    return text_str(&t);
}

static double
read_number(ProfileReader *r)
{
    char digits[32] = "";
    size_t n = 0;

    for (; r->at < r->end && strchr("+-.0123456789eE \t\r\n", *r->at) && n + 1 < sizeof digits;
         r->at++)
        digits[n++] = *r->at;
    return strtod(digits, NULL);
}

static void
add_kernel(ProfileReader *r)
{
    uint64_t at;

    if (!r->origin || r->ms < 0)
        return;
    if (!map_get(&r->out->seconds, MAP_PTR(r->origin), &at)) {
        at = MAP_PTR(NEW(r->j->arena, double));
        map_put(&r->out->seconds, MAP_PTR(r->origin), at);
    }
    *(double *)(uintptr_t)at += 1e-3 * r->ms;
    r->n++;
}

/* After a name and its colon. */
static void
read_member(ProfileReader *r, const char *name, int *threads)
{
    while (r->at < r->end && strchr(" \t\r\n", *r->at))
        r->at++;
    if (r->open == 1 && !strcmp(name, "threads"))
        *threads = (int)read_number(r);
    else if (r->open == 1 && !strcmp(name, "each"))
        r->each = true;
    else if (r->each && r->open == 3 && !strcmp(name, "ms"))
        r->ms = read_number(r);
    else if (r->each && r->open == 3 && !strcmp(name, "origin") && r->at < r->end &&
             *r->at == '"') {
        r->at++;
        const char *origin = read_string(r);
        r->origin = origin ? sym(r->j->ctx, origin) : NULL;
    }
}

FormatMeasured *
profile_read(Job *j, const char *path)
{
    ProfileReader r = { .j = j, .out = NEW(j->arena, FormatMeasured), .ms = -1 };
    Bytes file;
    int threads = 0;

    if (!file_map(j->arena, &j->ctx->diags, path, &file))
        return NULL;
    r.out->seconds.arena = j->arena;
    r.at = (const char *)file.data;
    r.end = r.at + file.bytes;
    while (r.at < r.end) {
        char c = *r.at++;
        if (c == '{' || c == '[') {
            r.open++;
            r.ms = -1;
            r.origin = NULL;
        } else if (c == '}' || c == ']') {
            if (r.each && r.open == 3)
                add_kernel(&r);
            r.open -= r.open > 0;
            r.each &= r.open > 1;
        } else if (c == '"') {
            const char *name = read_string(&r);
            while (r.at < r.end && strchr(" \t\r\n", *r.at))
                r.at++;
            if (name && r.at < r.end && *r.at == ':') {
                r.at++;
                read_member(&r, name, &threads);
            }
        }
    }
    if (!r.n)
        return diag_error(&j->ctx->diags, DIAG_USAGE, (Loc){ .file = path },
                          "this holds no times of kernels; `tenon bench MODEL --profile --json "
                          "FILE` writes them"),
               NULL;
    r.out->how = arena_printf(j->arena, "on %d thread%s (%s)", threads, threads == 1 ? "" : "s",
                              path_name(path));
    return r.out;
}
