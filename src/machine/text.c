/* text: a machine as a file. One fact a line, its name and its number, units in the comments; a
 * missing fact is the target's row's.
 *
 *     target      x86-64-v3
 *     processor   "AMD EPYC"
 *     l1.read     2.05e+11      ; bytes/s  by one thread
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "machine/machine.h"

typedef enum { FACT_COUNT, FACT_BYTES, FACT_SOME, FACT_MAYBE } FactKind;

typedef struct {
    const char *name;
    FactKind kind;
    size_t at; /* of the field in Machine */
    const char *unit, *what;
} FactRow;

#define AT(field) offsetof(Machine, field)
#define COUNT(field, unit, what) { #field, FACT_COUNT, AT(field), unit, what },
#define BYTES(name, field, unit, what) { name, FACT_BYTES, AT(field), unit, what },
#define SOME(field, unit, what) { #field, FACT_SOME, AT(field), unit, what },
#define MAYBE(field, unit, what) { #field, FACT_MAYBE, AT(field), unit, what },
#define RATE(name, field, what) { name, FACT_SOME, AT(field), "bytes/s", what },
#define LEVEL(name, l)                                                                             \
    BYTES(#name ".bytes", level[l].bytes, "bytes",                                                 \
          l == LEVEL_L3 ? "shared by the cores" : "of one core"){                                  \
        #name ".latency", FACT_SOME, AT(level[l].latency_seconds), "s", "one of a chain of loads"  \
    },                                                                                             \
        RATE(#name ".read", level[l].one.read, "by one thread")                                    \
            RATE(#name ".write", level[l].one.write, "by one thread")                              \
                RATE(#name ".copy", level[l].one.copy, "read and written, by one thread")          \
                    RATE(#name ".all.read", level[l].all.read, "by all cores")                     \
                        RATE(#name ".all.write", level[l].all.write, "by all cores")               \
                            RATE(#name ".all.copy", level[l].all.copy,                             \
                                 "read and written, by all cores")

static const FactRow facts[] = {
#include "machine/facts.def"
};
#undef AT
#undef RATE
enum { NFACT = sizeof facts / sizeof *facts, MOST_CORES = 4096 };

static bool
is_memory_size(const FactRow *f)
{
    return f->at == offsetof(Machine, level[LEVEL_MEMORY].bytes);
}

/* ---- printing -------------------------------------------------------------------------------- */

static void
add_value(Text *t, const Machine *m, const FactRow *f)
{
    const void *at = (const char *)m + f->at;

    switch (f->kind) {
    case FACT_COUNT: text_printf(t, "%u", *(const uint32_t *)at); break;
    case FACT_BYTES: text_printf(t, "%lld", (long long)*(const int64_t *)at); break;
    case FACT_SOME:
    case FACT_MAYBE: text_printf(t, "%.4g", *(const double *)at); break;
    }
}

void
machine_print(Text *t, const Machine *m)
{
    text_printf(t, "%-24s %s\n%-24s \"%s\"\n", "target", m->name, "processor", m->processor);
    for (size_t i = 0; i < NFACT; i++) {
        const FactRow *f = &facts[i];
        Text value = { .arena = t->arena };
        if (is_memory_size(f))
            continue; /* memory has no size */
        add_value(&value, m, f);
        text_printf(t, "%-24s %-12s ; %s%s%s\n", f->name, text_str(&value), f->unit,
                    *f->unit ? ", " : "", f->what);
    }
}

/* ---- parsing --------------------------------------------------------------------------------- */

typedef struct {
    Ctx *c;
    Loc loc;
    char name[64], value[256];
    Machine *m;
    uint32_t seen[NFACT]; /* the line that gave the fact; 0: none */
} MachineReader;

static bool
wrong(MachineReader *r, const char *why)
{
    return diag_error(&r->c->diags, DIAG_USAGE, r->loc, "%s %s: %s", r->name, r->value, why);
}

static bool
set_count(MachineReader *r, const FactRow *f)
{
    char *end;

    errno = 0;
    unsigned long long v = strtoull(r->value, &end, 10);
    if (!isdigit((unsigned char)*r->value) || *end || errno || v < 1 || v > MOST_CORES)
        return wrong(r, "a whole number from 1 to 4096 is needed");
    if (f->at == offsetof(Machine, vector_bytes) && v != 4 && v != 16 && v != 32 && v != 64)
        return wrong(r, "vectors are 16, 32 or 64 bytes long; 4: there are none");
    if (f->at == offsetof(Machine, vector_registers) && v < 8)
        return wrong(r, "8 registers are the least that schedules can do with");
    *(uint32_t *)((char *)r->m + f->at) = (uint32_t)v;
    return true;
}

static bool
set_bytes(MachineReader *r, const FactRow *f)
{
    char *end;

    errno = 0;
    long long v = strtoll(r->value, &end, 10);
    if (!isdigit((unsigned char)*r->value) || *end || errno)
        return wrong(r, "a whole number of bytes is needed, 0 or more");
    *(int64_t *)((char *)r->m + f->at) = v;
    return true;
}

static bool
set_real(MachineReader *r, const FactRow *f)
{
    char *end;

    double v = strtod(r->value, &end);
    if (end == r->value || *end || !isfinite(v) || v < 0 || (v == 0 && f->kind == FACT_SOME))
        return wrong(r, f->kind == FACT_SOME ? "a number above 0 is needed"
                                             : "a number of 0 or more is needed");
    *(double *)((char *)r->m + f->at) = v;
    return true;
}

static bool
set_fact(MachineReader *r)
{
    for (size_t i = 0; i < NFACT; i++) {
        const FactRow *f = &facts[i];
        if (strcmp(f->name, r->name) != 0 || is_memory_size(f))
            continue;
        if (r->seen[i])
            return diag_error(&r->c->diags, DIAG_USAGE, r->loc,
                              "%s is said a second time; it stands on line %u already", r->name,
                              r->seen[i]);
        r->seen[i] = r->loc.line;
        switch (f->kind) {
        case FACT_COUNT: return set_count(r, f);
        case FACT_BYTES: return set_bytes(r, f);
        case FACT_SOME:
        case FACT_MAYBE: return set_real(r, f);
        }
    }
    if (!strcmp(r->name, "unpark_seconds"))
        return true; /* of older files; no decision depends on it */
    return diag_error(&r->c->diags, DIAG_USAGE, r->loc,
                      "%s is no fact of a machine; `tenon machine` writes a file of all there are",
                      r->name);
}

static bool
set_line(MachineReader *r)
{
    if (strcmp(r->name, "target") == 0) {
        if (r->m->name)
            return diag_error(&r->c->diags, DIAG_USAGE, r->loc,
                              "a second target, %s; the file began with %s", r->value, r->m->name);
        if (strcmp(r->value, "native") == 0)
            return wrong(r, "a file names its target, so that it means the same everywhere");
        return machine_find(r->c, r->value, r->m) ||
               (diag_note(&r->c->diags, r->loc, "named here"), false);
    }
    if (!r->m->name)
        return diag_error(&r->c->diags, DIAG_USAGE, r->loc,
                          "a machine file begins with its target, as in: target x86-64-v3");
    if (strcmp(r->name, "processor") == 0) {
        r->m->processor = arena_str(r->c->arena, r->value);
        return true;
    }
    return set_fact(r);
}

/* `name value ; comment`, the value a word or in quotes. A line of blanks and comment: an empty
 * name. */
static bool
split_line(MachineReader *r, const char *s, const char *end)
{
    const char *comment = memchr(s, ';', (size_t)(end - s));
    const char *quote = memchr(s, '"', (size_t)(end - s));
    size_t n = 0;

    if (comment && !(quote && quote < comment))
        end = comment;
    r->name[0] = r->value[0] = 0;
    while (s < end && isspace((unsigned char)*s))
        s++;
    for (; s < end && !isspace((unsigned char)*s) && n + 1 < sizeof r->name; s++)
        r->name[n++] = *s;
    r->name[n] = 0;
    while (s < end && isspace((unsigned char)*s))
        s++;
    bool quoted = s < end && *s == '"';
    for (n = 0, s += quoted;
         s < end && n + 1 < sizeof r->value && (quoted ? *s != '"' : !isspace((unsigned char)*s));
         s++)
        r->value[n++] = *s;
    r->value[n] = 0;
    if (quoted && (s >= end || *s++ != '"'))
        return diag_error(&r->c->diags, DIAG_USAGE, r->loc, "%s: the quoted text has no end",
                          r->name);
    while (s < end && isspace((unsigned char)*s))
        s++;
    if (s < end && *s != ';')
        return diag_error(&r->c->diags, DIAG_USAGE, r->loc,
                          "%s: one name and one value stand on a line, and a comment after ;",
                          r->name);
    return !*r->name || *r->value || quoted ||
           diag_error(&r->c->diags, DIAG_USAGE, r->loc, "%s has no value", r->name);
}

/* A cache holds more than the previous level, or does not exist. */
static bool
check_levels(Ctx *c, const char *file, const Machine *m)
{
    static const char *const name[] = { "l1", "l2", "l3" };
    int64_t least = 0;

    for (int l = LEVEL_L1; l < LEVEL_MEMORY; l++) {
        int64_t bytes = m->level[l].bytes;
        if (l == LEVEL_L1 ? bytes < 1024 : bytes && bytes <= least)
            return diag_error(
                &c->diags, DIAG_USAGE, (Loc){ .file = file }, "%s.bytes %lld: %s", name[l],
                (long long)bytes,
                l == LEVEL_L1 ? "a first-level cache of 1024 bytes or more is needed"
                              : "a cache is larger than the one before it, or 0: there is none");
        least = bytes ? bytes : least;
    }
    return true;
}

bool
machine_parse(Ctx *c, const char *file, const char *text, size_t n, Machine *out)
{
    MachineReader r = { .c = c, .loc = { .file = file }, .m = out };

    *out = (Machine){ 0 };
    for (const char *s = text, *all = text + n, *end; s < all; s = end + 1) {
        end = memchr(s, '\n', (size_t)(all - s));
        end = end ? end : all;
        r.loc.line++;
        if (!split_line(&r, s, end) || (*r.name && !set_line(&r)))
            return false;
    }
    if (!out->name)
        return diag_error(&c->diags, DIAG_USAGE, (Loc){ .file = file },
                          "the file says nothing of a machine; it begins with its target, "
                          "as in: target x86-64-v3");
    return check_levels(c, file, out);
}
