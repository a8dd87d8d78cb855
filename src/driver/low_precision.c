/* low_precision: low-precision weights of matrix multiplications.
 *
 *   --weights int4,group=32,activations=f32 --weights-keep 'lm_head*'
 *
 * With int4 weights, activations are quantised to 8 bits unless activations=f32 is given: the error
 * of that is a hundredth of the error of such weights. With int8 weights the activations' error
 * would exceed that of the weights, so they stay floats unless requested (doc/weights.md). On
 * targets without an int8 dot product they stay floats.
 *
 * --weights-keep names constants, or the nodes that multiply by them, which then read them as they
 * are; names may be patterns as in a shell.
 */
#include "driver/internal.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_GROUP = 8, MOST_GROUP = 1 << 20, INT4_GROUP = 32 };

typedef struct {
    const char *text;
    bool met;
} Keep;
typedef struct {
    Job *j;
    VEC(Keep) keep;
    Narrowing how;
    bool asked_dots;
    Text lines;
} NarrowOptions;

static const struct {
    const char *name;
    DType dtype;
} format[] = { { "bf16", DT_BF16 }, { "f16", DT_F16 }, { "int8", DT_I8 }, { "int4", DT_I4 } };

static bool
is_word(const char *word, const char *text, size_t n)
{
    return n == strlen(word) && !memcmp(text, word, n);
}

/* An option after a comma: "group=32", "activations=int8". */
static bool
read_option(NarrowOptions *w, const char *text, size_t n)
{
    Job *j = w->j;
    char *end = NULL;
    long long group;

    if (is_word("activations=int8", text, n) || is_word("activations=f32", text, n)) {
        w->how.dots = w->asked_dots = is_word("activations=int8", text, n);
        return true;
    }
    if (strncmp(text, "group=", 6))
        return model_error(j, DIAG_USAGE,
                           "--weights %s: behind the comma group=N, activations=int8 and "
                           "activations=f32 are possible, not %.*s",
                           j->o->weights, (int)n, text);
    group = strtoll(text + 6, &end, 10);
    if (end != text + n || group < LEAST_GROUP || group > MOST_GROUP)
        return model_error(j, DIAG_USAGE,
                           "--weights %s: behind the comma group=N is possible, with N from %d to "
                           "%d elements that share a scale",
                           j->o->weights, LEAST_GROUP, MOST_GROUP);
    w->how.group = group;
    return true;
}

/* "int4,group=32,activations=int8" */
static bool
read_how(NarrowOptions *w)
{
    Job *j = w->j;
    Narrowing *how = &w->how;
    const char *text = j->o->weights;
    size_t n = strcspn(text, ",");

    for (size_t i = 0; i < sizeof format / sizeof *format; i++)
        if (is_word(format[i].name, text, n))
            how->dtype = format[i].dtype;
    if (how->dtype == DT_NONE)
        return model_error(j, DIAG_USAGE,
                           "--weights %s: bf16, f16, int8 and int4 are possible, and ,group=N and "
                           ",activations=int8 or ,activations=f32 behind the last two",
                           text);
    how->group = how->dtype == DT_I4 ? INT4_GROUP : 0;
    how->dots = how->dtype == DT_I4;
    if (text[n] && dtype_is_float(how->dtype))
        return model_error(j, DIAG_USAGE,
                           "--weights %s: floats have no scales, so they have no groups, and are "
                           "multiplied by floats",
                           text);
    for (text += n; *text; text += n) {
        n = strcspn(++text, ",");
        if (!read_option(w, text, n))
            return false;
    }
    return true;
}

static bool
fits(const char *pattern, const char *name)
{
    return !strcmp(pattern, name) || !fnmatch(pattern, name, 0);
}

/* Does a name between quotes fit? `Mul "a" + MatMul "b"` has two. */
static bool
origin_fits(const char *pattern, const char *origin, Arena *a)
{
    static const char joint[] = "\" + ";

    for (const char *from = origin ? strchr(origin, '"') : NULL; from;) {
        const char *next = strstr(from + 1, joint), *to = next ? next : strrchr(from + 1, '"');
        if (to && fits(pattern, arena_printf(a, "%.*s", (int)(to - from - 1), from + 1)))
            return true;
        from = next ? strchr(next + sizeof joint - 1, '"') : NULL;
    }
    return false;
}

static bool
is_kept(void *user, const char *name, const char *origin)
{
    NarrowOptions *w = user;
    bool kept = false;

    for (uint32_t i = 0; i < w->keep.n; i++)
        if (fits(w->keep.at[i].text, name) || origin_fits(w->keep.at[i].text, origin, w->j->arena))
            kept = w->keep.at[i].met = true;
    return kept;
}

static Graph *
narrow(void *user, const Graph *g)
{
    return rewrite_low_precision(g, &((NarrowOptions *)user)->how);
}

static void
print_report(const NarrowOptions *w)
{
    const Job *j = w->j;
    const Narrowing *how = &w->how;
    Text t = { .arena = j->arena };

    text_printf(&t, "weights as %s: %u tensor%s, ", j->o->weights, how->tensors,
                how->tensors == 1 ? "" : "s");
    text_size(&t, how->bytes_before);
    text_add(&t, " -> ");
    text_size(&t, how->bytes_after);
    if (how->dots)
        text_printf(&t, "; %u integer product%s", how->products, how->products == 1 ? "" : "s");
    text_add(&t,
             "; relative error (root of the mean square), and largest error / largest weight\n");
    text_add(&t, text_str(&w->lines));
    if (j->o->print)
        j->o->print(j->o->user, text_str(&t));
}

bool
weights_low_precision(Job *j)
{
    NarrowOptions w = { .j = j, .lines = { .arena = j->arena } };

    if (j->o->weights_keep && !j->o->weights)
        return model_error(j, DIAG_USAGE,
                           "--weights-keep %s: nothing is narrowed without --weights",
                           j->o->weights_keep);
    if (!j->o->weights)
        return true;
    if (!read_how(&w))
        return false;
    for (const char *at = j->o->weights_keep; at && *at;) {
        size_t n = strcspn(at, ",");
        if (n)
            VEC_PUSH(j->arena, &w.keep,
                     ((Keep){ arena_printf(j->arena, "%.*s", (int)n, at), false }));
        at += n + (at[n] == ',');
    }
    if (w.how.dots && j->machine.i8_dot_per_second <= 0) {
        /* a dot product of 4 bytes would take several instructions, more than floats do */
        w.how.dots = false;
        if (w.asked_dots)
            model_note(j,
                       "--weights %s: %s has no int8 dot product, so activations stay f32; "
                       "x86-64-v4-vnni and armv8.2-dot have one",
                       j->o->weights, j->machine.name);
    }
    w.how.keep = is_kept;
    w.how.user = &w;
    w.how.report = &w.lines;
    Graph *g = graph_map(j->graph, narrow, &w);
    if (!g)
        return false;
    for (uint32_t i = 0; i < w.keep.n; i++)
        if (!w.keep.at[i].met)
            return model_error(
                j, DIAG_USAGE,
                "--weights-keep %s: no product's weight is called so, nor an operator "
                "that has one; without --weights-keep the weights are listed",
                w.keep.at[i].text);
    j->graph = g;
    print_report(&w);
    return true;
}
