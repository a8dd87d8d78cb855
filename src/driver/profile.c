/* profile: measured kernel times from `tenon bench --profile --json FILE`, keyed by the nodes that
 * a kernel computes.
 *
 *   { …, "threads": 2, …, "each": [ {"ms": 0.449364, "origin": "Conv \"a\" + Relu \"b\""}, … ] }
 *
 * Only these members are read. They are found by their names in quotes, which no string holds:
 * quotes in strings are escaped.
 */
#include "driver/internal.h"

#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r\n"

/* The value of the next member of this name, in quotes; NULL: there is none. */
static const char *
member(const char *at, const char *name)
{
    while (at && (at = strstr(at, name))) {
        at += strlen(name);
        at += strspn(at, BLANKS);
        if (*at == ':')
            return at + 1 + strspn(at + 1, BLANKS);
    }
    return NULL;
}

/* The contents of a string, read from its opening quote on; NULL: it is none, or does not end. */
static const char *
read_string(Arena *a, const char *at)
{
    Text t = { .arena = a };

    if (!at || *at++ != '"')
        return NULL;
    for (; *at && *at != '"'; at++) {
        if (!strncmp(at, "\\u", 2) && strlen(at) > 5) {
            /* only control characters are escaped so */
            text_printf(&t, "%c", (int)strtol((const char[]){ at[4], at[5], 0 }, NULL, 16));
            at += 5;
        } else {
            at += *at == '\\' && at[1];
            text_bytes(&t, at, 1);
        }
    }
    return *at ? text_str(&t) : NULL;
}

static void
add_seconds(Arena *a, FormatMeasured *out, Sym origin, double seconds)
{
    uint64_t at;

    if (!map_get(&out->seconds, MAP_PTR(origin), &at)) {
        at = MAP_PTR(NEW(a, double));
        map_put(&out->seconds, MAP_PTR(origin), at);
    }
    *(double *)(uintptr_t)at += seconds;
}

FormatMeasured *
profile_read(Job *j, const char *path)
{
    FormatMeasured *out = NEW(j->arena, FormatMeasured);
    uint32_t n = 0;
    Bytes file;

    if (!file_map(j->arena, &j->ctx->diags, path, &file))
        return NULL;
    out->seconds.arena = j->arena;
    const char *text = arena_printf(j->arena, "%.*s", (int)file.bytes, (const char *)file.data);
    const char *threads = member(text, "\"threads\"");
    for (const char *ms = member(text, "\"each\""); (ms = member(ms, "\"ms\"")); n++) {
        const char *origin = read_string(j->arena, member(ms, "\"origin\""));
        if (!origin)
            break;
        add_seconds(j->arena, out, sym(j->ctx, origin), 1e-3 * atof(ms));
    }
    if (!n)
        return diag_error(&j->ctx->diags, DIAG_USAGE, (Loc){ .file = path },
                          "this holds no times of kernels; `tenon bench MODEL --profile --json "
                          "FILE` writes them"),
               NULL;
    int count = threads ? atoi(threads) : 0;
    out->how = arena_printf(j->arena, "on %d thread%s (%s)", count, count == 1 ? "" : "s",
                            path_name(path));
    return out;
}
