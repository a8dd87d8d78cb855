/* speeds: what tenon bench found, as a table and as JSON. */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
    const Speed *at;              /* [times][models] */
    int times, models;            /* numbers of threads */
    const ProfileReport *profile; /* NULL: none */
} Speeds;

/* How many times as fast the last model is as the first, on the i-th number of threads. */
static double
ratio(const Speeds *s, int i)
{
    const Speed *first = &s->at[i * s->models];

    return first->median / first[s->models - 1].median;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void
json_members(FILE *to, const Speed *s, const char *indent)
{
    fprintf(to, "%s\"model\": ", indent);
    fprint_json_string(to, s->model);
    fprintf(to, ",\n%s\"threads\": %d,\n%s\"iterations\": %lld,\n", indent, s->threads, indent,
            (long long)s->runs);
    const struct {
        const char *name;
        double value;
    } number[] = {
        { "min_ms", s->min },
        { "median_ms", s->median },
        { "mean_ms", s->mean },
        { "p90_ms", s->p90 },
        { "p99_ms", s->p99 },
        { "max_ms", s->max },
        { "runs_per_second", s->per_second },
        { "load_ms", s->load_ms },
        { "first_ms", s->first_ms },
    };
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        fprintf(to, "%s\"%s\": %.6f,\n", indent, number[i].name, number[i].value);
    fprintf(to, "%s\"arena_bytes\": %lld,\n%s\"resident_bytes\": %lld", indent,
            (long long)s->arena_bytes, indent, (long long)s->resident_bytes);
}

/* One result is an object, several are an array of such objects. */
static int
write_json(void *user, FILE *to)
{
    const Speeds *s = user;
    int n = s->times * s->models;

    fputs("{\n", to);
    if (n == 1)
        json_members(to, s->at, "  ");
    else
        fputs("  \"results\": [", to);
    for (int i = 0; i < n && n > 1; i++) {
        fputs(i ? ", {\n" : "{\n", to);
        json_members(to, &s->at[i], "    ");
        if (s->models > 1)
            fprintf(to, ",\n    \"speed\": %.6f", i % s->models ? ratio(s, i / s->models) : 1.0);
        fputs("\n  }", to);
    }
    if (n > 1)
        fputs("]", to);
    if (s->profile)
        profile_json(to, s->profile);
    fputs("\n}\n", to);
    return TN_OK;
}

int
write_report(const char *option, const char *path, int (*write)(void *user, FILE *to), void *user)
{
    size_t room = strlen(path) + 8;
    char *beside = need(malloc(room));
    struct stat st;
    /* a pipe, or a device: written, not replaced */
    bool in_place = !stat(path, &st) && !S_ISREG(st.st_mode);

    snprintf(beside, room, in_place ? "%s" : "%s.tmp", path);
    FILE *to = fopen(beside, "w");
    bool ok = to != NULL;
    int status = ok ? write(user, to) : TN_OK;
    ok = ok && !ferror(to) && !fclose(to) && status == TN_OK && (in_place || !rename(beside, path));
    int why = errno;
    if (!ok && !in_place)
        remove(beside);
    free(beside);
    if (ok || status != TN_OK)
        return status;
    return usage_error("--%s %s: %s", option, path, strerror(why)),
           why == ENOSPC || why == EFBIG ? TN_LIMIT : TN_USAGE;
}

/* ---- for people ------------------------------------------------------------------------------ */

static int
name_width(const Speeds *s)
{
    int width = 0;

    for (int k = 0; k < s->models && s->models > 1; k++)
        width = (int)strlen(s->at[k].model) > width ? (int)strlen(s->at[k].model) : width;
    return width;
}

static void
print_memory(const Speed *s, bool named)
{
    if (named)
        printf("%s: ", s->model);
    printf("loaded in %.3g ms, first run %.3g ms; arena ", s->load_ms, s->first_ms);
    print_size(s->arena_bytes);
    if (s->resident_bytes) {
        printf(", ");
        print_size(s->resident_bytes);
        printf(" resident");
    }
    putchar('\n');
}

static void
print_speeds(const Speeds *s)
{
    int width = name_width(s), n = s->times * s->models;

    printf("milliseconds of a run; %lld runs\n%-*s", (long long)s->at->runs, width, "");
    printf("%8s %10s %10s %10s %10s %10s %10s %10s\n", "threads", "min", "median", "mean", "p90",
           "p99", "max", "runs/s");
    for (int i = 0; i < n; i++) {
        const Speed *v = &s->at[i];
        printf("%-*s%8d %10.4g %10.4g %10.4g %10.4g %10.4g %10.4g %10.*f\n", width,
               width ? v->model : "", v->threads, v->min, v->median, v->mean, v->p90, v->p99,
               v->max, v->per_second < 100 ? 2 : 0, v->per_second);
    }
    /* of the first threads: later runs find everything in memory */
    for (int k = 0; k < s->models; k++)
        print_memory(&s->at[k], s->models > 1);
    for (int i = 0; i < s->times && s->models > 1; i++)
        printf("on %d thread%s %s is %.3f times as fast as %s\n", s->at[i * s->models].threads,
               s->at[i * s->models].threads == 1 ? "" : "s", s->at[s->models - 1].model,
               ratio(s, i), s->at->model);
}

int
speeds_tell(const Options *o, const Speed *at, int times, int models, const ProfileReport *profile)
{
    Speeds s = { at, times, models, profile };

    if (is_stdout(o->json_file))
        return write_json(&s, stdout);
    print_speeds(&s);
    if (profile)
        profile_print(profile);
    return o->json_file ? write_report("json", o->json_file, write_json, &s) : TN_OK;
}
