/* model: a model ready to run. An artefact is loaded; anything else is compiled first, through the
 * cache, to a temporary artefact that is gone from the folder as soon as it is mapped.
 */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_RANK = 12 };

static int
read_size(const char *option, const char *text, const char **end, int64_t *out)
{
    char *stop;

    errno = 0;
    long long v = strtoll(text, &stop, 10);
    if (stop == text || errno || v < 0)
        return usage_error("%s: \"%s\" does not begin with a size of 0 or more", option, text);
    *end = stop;
    *out = v;
    return TN_OK;
}

static int
read_dims(const Options *o, TnCompileOptions *out)
{
    TnDim *dims = need(calloc((size_t)o->dim.n + 1, sizeof *dims));
    TnRange *ranges = need(calloc((size_t)o->dim.n + 1, sizeof *ranges));

    out->dims = dims;
    out->ranges = ranges;
    for (int i = 0; i < o->dim.n; i++) {
        const Pair *p = &o->dim.at[i];
        const char *end;
        int64_t size, most;
        if (read_size("--dim", p->value, &end, &size))
            return TN_USAGE;
        if (!*end) {
            dims[out->ndims++] = (TnDim){ p->name, size };
            continue;
        }
        if (strncmp(end, "..", 2) || read_size("--dim", end + 2, &end, &most) || *end)
            return usage_error("--dim %s=%s: one number is needed, or a range such as 1..2048",
                               p->name, p->value);
        if (most < size)
            return usage_error("--dim %s=%s: the range ends before it begins", p->name, p->value);
        ranges[out->nranges++] = (TnRange){ p->name, size, most };
    }
    return TN_OK;
}

/* seq=1,128 */
static int
read_hints(const Options *o, TnCompileOptions *out)
{
    TnHint *hints = need(calloc((size_t)o->dim_hint.n + 1, sizeof *hints));

    out->hints = hints;
    for (int i = 0; i < o->dim_hint.n; i++) {
        const Pair *p = &o->dim_hint.at[i];
        int64_t *size = need(calloc(strlen(p->value) + 1, sizeof *size));
        TnHint *h = &hints[out->nhints++];
        *h = (TnHint){ p->name, size, 0 };
        for (const char *s = p->value;; s++) {
            if (read_size("--dim-hint", s, &s, &size[h->nsizes++]))
                return TN_USAGE;
            if (!*s)
                break;
            if (*s != ',')
                return usage_error(
                    "--dim-hint %s=%s: sizes with commas between them are wanted, such as 1,128",
                    p->name, p->value);
        }
    }
    return TN_OK;
}

/* 1x3x224x224, or nothing at all for a scalar's "-". */
static int
read_shape(const Pair *p, TnShape *out)
{
    int64_t *dims = need(calloc(MAX_RANK, sizeof *dims));
    const char *s = p->value;

    *out = (TnShape){ .input = p->name, .dims = dims };
    if (!strcmp(s, "-"))
        return TN_OK;
    for (;;) {
        if (out->rank == MAX_RANK)
            return usage_error("--shape %s=%s: more than %d dimensions", p->name, p->value,
                               MAX_RANK);
        if (read_size("--shape", s, &s, &dims[out->rank]))
            return TN_USAGE;
        out->rank++;
        if (!*s)
            return TN_OK;
        if (*s++ != 'x')
            return usage_error("--shape %s=%s: sizes are separated by x, as in 1x3x224x224",
                               p->name, p->value);
    }
}

static int
read_shapes(const Options *o, TnCompileOptions *out)
{
    TnShape *shapes = need(calloc((size_t)o->shape.n + 1, sizeof *shapes));

    out->shapes = shapes;
    out->nshapes = o->shape.n;
    for (int i = 0; i < o->shape.n; i++)
        if (read_shape(&o->shape.at[i], &shapes[i]))
            return TN_USAGE;
    return TN_OK;
}

static const TnOrder *
read_orders(const Pairs *pairs)
{
    TnOrder *order = need(calloc((size_t)pairs->n + 1, sizeof *order));

    for (int i = 0; i < pairs->n; i++)
        order[i] = (TnOrder){ pairs->at[i].name, pairs->at[i].value };
    return order;
}

static const TnStateNames *
read_states(const Pairs *pairs)
{
    TnStateNames *state = need(calloc((size_t)pairs->n + 1, sizeof *state));

    for (int i = 0; i < pairs->n; i++)
        state[i] = (TnStateNames){ pairs->at[i].name, pairs->at[i].value };
    return state;
}

/* The inputs that --input names, as such that may be constants otherwise: "x?,w?". */
static char *
given_inputs(const Options *o)
{
    size_t room = 1, at = 0;

    for (int i = 0; i < o->input.n; i++)
        room += strlen(o->input.at[i].name) + 2;
    char *text = need(calloc(room, 1));
    for (int i = 0; i < o->input.n; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%s?", i ? "," : "", o->input.at[i].name);
    return text;
}

int
compile_lists_read(Options *o)
{
    TnCompileOptions *c = &o->compile;

    c->format = read_orders(&o->format);
    c->nformat = o->format.n;
    c->io_format = read_orders(&o->io_format);
    c->nio_format = o->io_format.n;
    c->state = read_states(&o->state);
    c->nstate = o->state.n;
    if (!c->given && o->input.n)
        c->given = o->named = given_inputs(o);
    int status = read_dims(o, c);
    status = status ? status : read_hints(o, c);
    return status ? status : read_shapes(o, c);
}

void
compile_lists_free(Options *o)
{
    TnCompileOptions *c = &o->compile;

    for (int i = 0; i < c->nshapes; i++)
        free((void *)c->shapes[i].dims);
    for (int i = 0; i < c->nhints; i++)
        free((void *)c->hints[i].sizes);
    free((void *)c->shapes);
    free((void *)c->dims);
    free((void *)c->ranges);
    free((void *)c->hints);
    free((void *)c->format);
    free((void *)c->io_format);
    free((void *)c->state);
    free(o->named);
}

static void
print_text(void *user, const char *text)
{
    progress_end(user);
    fputs(text, stdout);
}

/* Where standard output is for a machine, dumps and times go beside it. */
static void
print_text_aside(void *user, const char *text)
{
    progress_end(user);
    fputs(text, stderr);
}

TnCompileOptions
compile_options(const Options *o, Progress *p)
{
    TnCompileOptions c = o->compile;

    c.progress = progress_show;
    c.print = o->json || o->requests || is_stdout(o->json_file) ? print_text_aside : print_text;
    c.user = p;
    c.stopped = stop_asked;
    return c;
}

TnCompileOptions
compile_options_to_run(const Options *o, Progress *p)
{
    TnCompileOptions c = compile_options(o, p);

    if (ends_with(o->model, ".tn"))
        c.ndims = c.nshapes = c.nranges = c.nhints = 0;
    return c;
}

/* By its first bytes, whatever it is called; by its name where nothing can be read. */
bool
is_artefact(const char *path)
{
    char head[4] = { 0 };
    FILE *f = fopen(path, "rb");
    bool read = f && fread(head, 1, sizeof head, f) == sizeof head;

    if (f)
        fclose(f);
    return (read && !memcmp(head, "\177ELF", sizeof head)) || ends_with(path, ".so");
}

bool
compiled_with_open_dims(const char *path)
{
    return is_artefact(path) || ends_with(path, ".tn");
}

static int
load(TnContext *ctx, const char *path, TnModel **out, double *load_ms)
{
    double start = seconds();
    int status = report(ctx, tn_load(ctx, path, out));

    if (load_ms)
        *load_ms = 1e3 * (seconds() - start);
    return status;
}

static int
compile_and_load(TnContext *ctx, const Options *o, const char *path, TnModel **out, double *load_ms)
{
    Progress p = progress_begin();
    TnCompileOptions options = compile_options_to_run(o, &p);

    int status = report_after(&p, ctx, tn_compile(ctx, o->model, path, &options, NULL));
    if (status == TN_OK)
        status = load(ctx, path, out, load_ms);
    return status == TN_OK ? report(ctx, tn_model_set_name(*out, o->model)) : status;
}

int
model_open(TnContext *ctx, const Options *o, TnModel **out, double *load_ms)
{
    Temporary folder;
    char path[sizeof folder.path + 16];

    if (is_artefact(o->model) && o->how)
        return usage_error(
            "--%s is about compiling, and %s is compiled already. Leave it out, or give the model",
            o->how, o->model);
    if (is_artefact(o->model))
        return load(ctx, o->model, out, load_ms);
    stop_defer();
    int status = temporary_open(&folder) ? TN_OK : TN_LIMIT;
    if (status == TN_OK) {
        snprintf(path, sizeof path, "%s/model.so", folder.path);
        status = compile_and_load(ctx, o, path, out, load_ms);
        temporary_close(&folder);
    }
    stop_now();
    return status;
}

int
model_open_anywhere(TnContext *ctx, const Options *o, TnModel **out)
{
    Options here = *o;

    if (!tn_target_is_here(o->compile.target)) {
        here.compile.target = here.compile.machine = here.compile.cc = NULL;
        here.compile.quick = 1;
    }
    return model_open(ctx, &here, out, NULL);
}

int
model_with(TnContext *ctx, const Options *o,
           int (*use)(TnContext *ctx, const Options *o, TnModel *m))
{
    TnModel *m = NULL;

    int status = model_open(ctx, o, &m, NULL);
    if (status == TN_OK)
        status = use(ctx, o, m);
    tn_model_free(m);
    return status;
}

TnValueInfo
input_info(const TnModel *m, int32_t i)
{
    TnValueInfo info = TN_INIT(TnValueInfo);

    tn_model_input(m, i, &info);
    return info;
}

TnValueInfo
output_info(const TnModel *m, int32_t i)
{
    TnValueInfo info = TN_INIT(TnValueInfo);

    tn_model_output(m, i, &info);
    return info;
}

TnState
state_info(const TnModel *m, int32_t i)
{
    TnState state = TN_INIT(TnState);

    tn_model_state(m, i, &state);
    return state;
}

int
session_begin(TnContext *ctx, const Options *o, TnModel *m, TnSession **out)
{
    TnSessionOptions options = { .size = sizeof options, .threads = o->threads };

    int status = report(ctx, tn_session_new(ctx, m, &options, out));
    if (status == TN_OK && o->compile.policy)
        status = report(ctx, tn_session_policy(*out, o->compile.policy));
    return status;
}
