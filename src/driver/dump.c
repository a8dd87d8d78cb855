/* dump: prints the model after each stage.
 *
 * To a folder: MODEL.NN-STAGE.tn, texts that parse back, with the contents of large constants in
 * MODEL.weights beside them, each written once. To the print callback: the same texts in sequence,
 * large constants elided. A stage that changed nothing prints one line that says so.
 */
#include "driver/internal.h"

#include <string.h>

struct Dump {
    Job *job;
    const char *model; /* digits, of models/digits.onnx */
    bool all;
    const char *before; /* the last text printed of the graph, and its stage */
    const char *before_name;
    WeightsFile *weights; /* NULL when printing */
};

static const char *const suffix_of[] = {
    [SHOWS_GRAPH] = "tn",
    [SHOWS_PLAN] = "txt",
    [SHOWS_SOURCE] = "c",
    [SHOWS_REPORT] = "txt",
};

static const char *
file_stem(Arena *a, const char *path)
{
    char *s = arena_str(a, path_name(path));
    char *dot = strrchr(s, '.');

    if (dot && dot != s)
        *dot = 0;
    return s;
}

Dump *
dump_new(Job *j)
{
    const TnCompileOptions *o = j->o;
    Dump *d = NEW(j->arena, Dump);

    *d = (Dump){ .job = j,
                 .model = file_stem(j->arena, j->model_path),
                 .all = o->dump && !strcmp(o->dump, "all") };
    if (!o->dump || !o->dump_dir)
        return d;
    writer_sweep(o->dump_dir);
    if (!folder_make(&j->ctx->diags, o->dump_dir))
        return NULL;
    d->weights = NEW(j->arena, WeightsFile);
    d->weights->name = arena_printf(j->arena, "%s.weights", d->model);
    d->weights->offset.arena = j->arena;
    d->weights->writer =
        writer_open(j->arena, &j->ctx->diags, path_join(j->arena, o->dump_dir, d->weights->name));
    return d->weights->writer ? d : NULL;
}

static const char *
show(Dump *d, const Stage *s)
{
    Job *j = d->job;
    Text t = { .arena = j->arena };

    switch (s->shows) {
    case SHOWS_GRAPH: graph_print(&t, j->graph, d->weights); break;
    case SHOWS_PLAN: plan_print(&t, j->plan); break;
    case SHOWS_SOURCE:
        source_functions(j, &t);
        text_add(&t, j->sources.host);
        break;
    case SHOWS_REPORT:
        text_printf(&t, "%s\n%u unit%s compiled, %u from the cache\n", j->summary,
                    j->report->compiled, j->report->compiled == 1 ? "" : "s", j->report->cached);
        break;
    }
    return text_str(&t);
}

static bool
put(Dump *d, const Stage *s, uint32_t number, const char *text)
{
    Job *j = d->job;
    const TnCompileOptions *o = j->o;

    if (!o->dump_dir) {
        if (o->print) {
            o->print(o->user, arena_printf(j->arena, "; ---- %02u-%s: %s\n", number, s->name,
                                           driver_stage_what[number - 1]));
            o->print(o->user, text);
        }
        return true;
    }
    const char *name =
        arena_printf(j->arena, "%s.%02u-%s.%s", d->model, number, s->name, suffix_of[s->shows]);
    Writer *w = writer_open(j->arena, &j->ctx->diags, path_join(j->arena, o->dump_dir, name));
    if (!w)
        return false;
    writer_put(w, text, strlen(text));
    return writer_commit(w, 0644);
}

bool
dump_stage(Dump *d, const Stage *s, uint32_t number)
{
    const char *wanted = d->job->o->dump;

    if (!wanted || (!d->all && strcmp(wanted, s->name)))
        return true;
    const char *text = show(d, s), *remarks = d->job->remarks;
    d->job->remarks = NULL;
    if (s->shows == SHOWS_GRAPH) {
        bool same = d->before && !strcmp(d->before, text);
        if (same)
            text = arena_printf(d->job->arena, "; unchanged since %s\n", d->before_name);
        else
            d->before_name = s->name, d->before = text;
    }
    if (remarks)
        text = arena_printf(d->job->arena, "%s%s", remarks, text);
    return put(d, s, number, text);
}

bool
dump_end(Dump *d)
{
    return !d->weights || !writer_offset(d->weights->writer) ||
           writer_commit(d->weights->writer, 0644);
}
