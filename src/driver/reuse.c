/* reuse: whole artefacts from the cache, by the content of what made them.
 *
 * The key is a text that names all that decides: Tenon's own sources, the options, the machine, and
 * hashes of the model's file and of the constants that it keeps in other files. It is known once the
 * model is imported, so a hit saves every stage after that. The C compiler counts by its name: what
 * another version of it would make is as right.
 *
 * The artefact is copied, never linked: who overwrites the output must not change the cache.
 */
#include "driver/internal.h"

#include "identity.h"

#include <stdio.h>
#include <string.h>

/* Options that make more than an artefact, or read files of their own, are compiled as ever. */
static bool
is_plain(const Job *j)
{
    const TnCompileOptions *o = j->o;
    const void *more[] = { o->dump,    o->dump_dir, o->stop_after,    o->page,      o->page_profile,
                           o->machine, o->choices,  o->nests,         o->fuse_plan, o->why,
                           o->library, o->policy,   j->out ? NULL : j };

    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (more[i])
            return false;
    return !strcmp(o->emit, "so") && !o->explain && !o->explain_formats && !o->time &&
           import_is_onnx(j->file);
}

/* ---- the key --------------------------------------------------------------------------------- */

static void
say(Text *t, const char **text)
{
    text_json(t, *text ? *text : "");
    text_add(t, *text ? " " : "- ");
    *text = NULL;
}

static void
say_sizes(Text *t, const int64_t *size, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        text_printf(t, "%lld ", (long long)size[i]);
}

static void
say_orders(Text *t, const TnOrder *order, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        TnOrder o = order[i];
        say(t, &o.value);
        say(t, &o.order);
    }
}

static void
say_lists(Text *t, const TnCompileOptions *o)
{
    for (int32_t i = 0; i < o->ndims; i++) {
        TnDim d = o->dims[i];
        say_sizes(t, &d.value, 1);
        say(t, &d.symbol);
    }
    for (int32_t i = 0; i < o->nshapes; i++) {
        TnShape s = o->shapes[i];
        say_sizes(t, s.dims, s.rank);
        say(t, &s.input);
    }
    for (int32_t i = 0; i < o->nranges; i++) {
        TnRange r = o->ranges[i];
        say_sizes(t, (int64_t[]){ r.least, r.most }, 2);
        say(t, &r.symbol);
    }
    for (int32_t i = 0; i < o->nhints; i++) {
        TnHint h = o->hints[i];
        say_sizes(t, h.sizes, h.nsizes);
        say(t, &h.symbol);
    }
    for (int32_t i = 0; i < o->nstate; i++) {
        TnStateNames s = o->state[i];
        say(t, &s.input);
        say(t, &s.output);
    }
    say_orders(t, o->format, o->nformat);
    say_orders(t, o->io_format, o->nio_format);
}

/* Texts and lists are said, all other fields are hashed as they are in memory: an option that is new
 * and not known here, and be it a pointer, makes another key, never a wrong hit. */
static void
say_options(Job *j, Text *t)
{
    TnCompileOptions o;

    memcpy(&o, j->o, sizeof o);
    say(t, &(const char *){ j->set->build.cc });
    say(t, &o.target);
    say(t, &o.emit);
    say(t, &o.formats);
    say(t, &o.fuse);
    say(t, &o.weights);
    say(t, &o.weights_keep);
    say(t, &o.given);
    say(t, &o.ragged);
    say(t, &o.must_fuse);
    say(t, &o.keep);
    say_lists(t, &o);
    o.dims = NULL, o.shapes = NULL, o.ranges = NULL, o.hints = NULL, o.state = NULL;
    o.format = NULL, o.io_format = NULL;
    o.progress = NULL, o.print = NULL, o.stopped = NULL, o.user = NULL; /* do not decide */
    o.cc = NULL, o.cache_dir = NULL;
    o.cache_bytes = 0, o.jobs = 0, o.max_seconds = 0;
    text_printf(t, "\n%016llx\n", (unsigned long long)hash_bytes(&o, sizeof o, 0));
}

/* Constants that are not within the model's file: external data, or what import computed. */
static void
say_constants(Job *j, Text *t)
{
    GraphList all = graph_all(j->graph, t->arena);
    const uint8_t *begin = j->file.data, *end = begin + j->file.bytes;
    uint64_t hash[2] = { 0, 1 };

    for (uint32_t i = 0; i < all.n; i++)
        for (ValueId v = 1; v < all.at[i]->value.n; v++) {
            const Value *value = &all.at[i]->value.at[v];
            const uint8_t *at = value->data;
            int64_t bytes;
            if (!at || (at >= begin && at < end) || value->type->dtype == DT_STR ||
                !type_static_bytes(value->type, &bytes))
                continue;
            for (int k = 0; k < 2; k++)
                hash[k] = hash_bytes(at, (size_t)bytes, hash[k]);
        }
    for (int k = 0; k < 2; k++)
        text_printf(t, "%016llx %016llx\n",
                    (unsigned long long)hash_bytes(begin, j->file.bytes, (uint64_t)k),
                    (unsigned long long)hash[k]);
}

static const char *
key_of(Job *j)
{
    Text t = { .arena = j->arena };

    text_printf(&t, "artefact by %s\n", TENON_IDENTITY);
    say_options(j, &t);
    machine_print(&t, &j->machine);
    say_constants(j, &t);
    return text_str(&t);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

/* The text about an artefact: counts, the summary, and the notes that compiling it made, which are
 * told each time: file (empty: the model), node, text. */
#define END_OF_FIELD '\x1f'
#define END_OF_ROW '\x1e'

static const char *
report_text(Job *j)
{
    const DriverReport *r = j->report;
    Text t = { .arena = j->arena };

    text_printf(&t, "%u %u %lld %s%c", r->kernels, r->distinct, (long long)r->artefact_bytes,
                r->summary, END_OF_ROW);
    for (uint32_t i = 0; i < j->ctx->diags.list.n; i++) {
        const Diag *d = &j->ctx->diags.list.at[i];
        const char *file = d->loc.file;
        bool own = file && !strcmp(file, j->model_path);
        text_printf(&t, "%s%c%s%c%s%c", own || !file ? "" : file, END_OF_FIELD,
                    d->loc.node ? d->loc.node : "", END_OF_FIELD, d->text, END_OF_ROW);
    }
    return text_str(&t);
}

/* The text up to `end`, and *at behind it; NULL: there is none. */
static const char *
next(Arena *a, const char **at, char end)
{
    const char *from = *at, *to = strchr(from, end);

    if (!to)
        return NULL;
    *at = to + 1;
    return arena_printf(a, "%.*s", (int)(to - from), from);
}

static void
tell_notes(Job *j, const char *at)
{
    const char *file, *node, *text;

    while ((file = next(j->arena, &at, END_OF_FIELD)) &&
           (node = next(j->arena, &at, END_OF_FIELD)) && (text = next(j->arena, &at, END_OF_ROW)))
        diag_note(&j->ctx->diags,
                  (Loc){ .file = *file ? file : j->model_path, .node = *node ? node : NULL }, "%s",
                  text);
}

bool
reuse_take(Job *j)
{
    DriverReport *r = j->report;
    long long bytes;
    const char *told;
    int summary = 0;
    Bytes made;

    if (!j->o->reuse || !j->set->build.cache_dir || !is_plain(j))
        return false;
    j->reuse_key = key_of(j);
    if (!build_cache_get(j->arena, j->set->build.cache_dir, j->reuse_key, &told) ||
        sscanf(told, "%u %u %lld %n", &r->kernels, &r->distinct, &bytes, &summary) != 3 ||
        !build_cache_file(j->arena, j->set->build.cache_dir, j->reuse_key, &made) ||
        made.bytes != (uint64_t)bytes)
        return false;
    writer_put(j->out, made.data, made.bytes);
    if (!writer_commit(j->out, 0755))
        return false;
    told += summary;
    r->artefact_bytes = bytes;
    r->summary = next(j->arena, &told, END_OF_ROW);
    r->reused = true;
    tell_notes(j, told);
    return true;
}

void
reuse_keep(Job *j)
{
    if (j->reuse_key && build_cache_put_file(j->arena, &j->set->build, j->reuse_key, j->out_path))
        build_cache_put(j->arena, j->set->build.cache_dir, j->reuse_key, report_text(j));
}
