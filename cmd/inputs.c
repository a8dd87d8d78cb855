/* inputs: the inputs of a model: files where given, random numbers elsewhere.
 *
 * A symbolic size comes from the files given, --shape, --dim, or from the model's checks
 * (tn_model_solve); otherwise it is 1, and a note says so.
 */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    TnContext *ctx;
    const Options *o;
    const TnModel *model;
    Tensors *t;
    bool *given; /* [nin] */
    TnDim *size; /* [nsize]: of symbols, and of dimensions' whole texts */
    int32_t nsize;
} InputMaker;

void
fprint_tensor_type(FILE *to, const TnTensor *x)
{
    fprintf(to, "%s[", x->dtype);
    for (int32_t d = 0; d < x->rank; d++)
        fprintf(to, "%s%lld", d ? ", " : "", (long long)x->dims[d]);
    fprintf(to, "]");
}

void
print_tensor_type(const TnTensor *x)
{
    fprint_tensor_type(stdout, x);
}

int64_t
element_count(const TnTensor *x)
{
    int64_t n = 1;

    for (int32_t d = 0; d < x->rank; d++)
        n *= x->dims[d];
    return n;
}

/* number: behind a name that others have, 0: none is. A file's name has 255 bytes at most, and
 * what is written beside it a few more than it. */
static char *
numbered_path(const char *folder, const char *name, int number)
{
    enum { LONGEST = 200 };
    size_t n = strlen(folder) + LONGEST + 32;
    char *path = need(malloc(n)), digits[16] = "";

    if (number)
        snprintf(digits, sizeof digits, "_%d", number);
    int start = snprintf(path, n, "%s/", folder);
    snprintf(path + start, n - (size_t)start, "%.*s%s.npy", LONGEST, name, digits);
    for (char *s = path + start; *s; s++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.", *s))
            *s = '_';
    if (path[start] == '.') /* neither hidden nor a step upwards */
        path[start] = '_';
    return path;
}

static bool
is_taken(const char *path, char *const *taken, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!strcmp(path, taken[i]))
            return true;
    return false;
}

char *
output_path(const char *folder, const char *name, char *const *taken, int32_t n)
{
    char *path = numbered_path(folder, name, 0);

    for (int number = 2; is_taken(path, taken, n); number++) {
        free(path);
        path = numbered_path(folder, name, number);
    }
    return path;
}

/* ---- symbols --------------------------------------------------------------------------------- */

static const int64_t *
find_bound(const InputMaker *m, const char *symbol)
{
    for (int32_t i = 0; i < m->nsize; i++)
        if (!strcmp(m->size[i].symbol, symbol))
            return &m->size[i].value;
    return NULL;
}

static void
bind(InputMaker *m, const char *symbol, int64_t size)
{
    if (find_bound(m, symbol))
        return;
    m->size = need(realloc(m->size, (size_t)(m->nsize + 1) * sizeof *m->size));
    m->size[m->nsize++] = (TnDim){ need(strdup(symbol)), size };
}

static void
bind_dims(InputMaker *m, const TnValueInfo *info, int32_t rank, const int64_t *dims)
{
    for (int32_t d = 0; d < rank && d < info->rank; d++)
        if (info->dims[d] < 0)
            bind(m, info->dim_text[d], dims[d]);
}

static int
find_input(const InputMaker *m, const char *name)
{
    for (int32_t i = 0; i < m->t->nin; i++)
        if (!strcmp(input_info(m->model, i).name, name))
            return i;
    return -1;
}

static int
no_such_input(const InputMaker *m, const char *option, const char *name)
{
    fprintf(stderr, "tenon: error: %s %s: the model has no such input. Its inputs are", option,
            name);
    for (int32_t i = 0; i < m->t->nin; i++)
        fprintf(stderr, "%s %s", i ? "," : "", input_info(m->model, i).name);
    fprintf(stderr,
            ". (One for which the model has a value of its own is a constant, unless it is "
            "compiled with --given %s.)\n",
            name);
    return TN_USAGE;
}

/* ---- from files ------------------------------------------------------------------------------ */

static int
read_into(InputMaker *m, int32_t i, const char *path)
{
    TnValueInfo info = input_info(m->model, i);
    TnTensor *x = &m->t->in[i];

    int status = report(m->ctx, tn_tensor_read(m->ctx, path, x));
    if (status != TN_OK)
        return status;
    x->name = info.name;
    m->given[i] = true;
    bind_dims(m, &info, x->rank, x->dims);
    return TN_OK;
}

static int
read_given(InputMaker *m)
{
    for (int k = 0; k < m->o->input.n; k++) {
        int i = find_input(m, m->o->input.at[k].name);
        if (i < 0)
            return no_such_input(m, "--input", m->o->input.at[k].name);
        int status = read_into(m, i, m->o->input.at[k].value);
        if (status != TN_OK)
            return status;
    }
    return TN_OK;
}

/* input_K.pb belongs to the input it names, or to the K-th if it names none. */
static int
read_folder(InputMaker *m)
{
    char path[4096];

    for (int32_t k = 0; k < m->t->nin; k++) {
        TnTensor probe = TN_INIT(TnTensor);
        snprintf(path, sizeof path, "%s/input_%d.pb", m->o->data, k);
        if (access(path, F_OK)) {
            if (k)
                break;
            return usage_error("--data %s: there is no input_0.pb in it (%s)", m->o->data,
                               strerror(errno));
        }
        int status = report(m->ctx, tn_tensor_read(m->ctx, path, &probe));
        if (status != TN_OK)
            return status;
        int i = probe.name && *probe.name ? find_input(m, probe.name) : k;
        status = read_into(m, i < 0 ? k : i, path);
        if (status != TN_OK)
            return status;
    }
    return TN_OK;
}

/* ---- sizes from options ---------------------------------------------------------------------- */

/* Where a dimension of this text has this size: an input given, or one of the first n shapes.
 * False: nowhere by itself. */
static bool
find_size(const InputMaker *m, const TnShape *shape, int n, const char *text, int64_t size,
          const char **name, int32_t *dim)
{
    for (int32_t k = 0; k < n + m->t->nin; k++) {
        int i = k < n ? find_input(m, shape[k].input) : k - n;
        TnValueInfo info = input_info(m->model, i);
        if (k >= n && !m->given[i])
            continue;
        for (*dim = 0; *dim < info.rank && *dim < (k < n ? shape[k].rank : m->t->in[i].rank);
             ++*dim)
            if (info.dims[*dim] < 0 && !strcmp(info.dim_text[*dim], text) &&
                (k < n ? shape[k].dims : m->t->in[i].dims)[*dim] == size) {
                *name = info.name;
                return true;
            }
    }
    return false;
}

static int
bind_shape(InputMaker *m, const TnShape *shape, int n)
{
    const TnShape *s = &shape[n];
    int i = find_input(m, s->input);
    const char *other;
    int32_t at;

    if (i < 0)
        return no_such_input(m, "--shape", s->input);
    TnValueInfo info = input_info(m->model, i);
    if (info.rank != s->rank)
        return usage_error("--shape %s: %d dimensions given, the input has %d", info.name, s->rank,
                           info.rank);
    for (int32_t d = 0; d < info.rank; d++) {
        const int64_t *size = info.dims[d] < 0 ? find_bound(m, info.dim_text[d]) : &info.dims[d];
        if (info.dims[d] >= 0 && *size != s->dims[d])
            return usage_error("--shape %s: dimension %d is %lld, the model has %lld there",
                               info.name, d, (long long)s->dims[d], (long long)*size);
        if (size && *size != s->dims[d] &&
            find_size(m, shape, n + 1, info.dim_text[d], *size, &other, &at))
            return usage_error("--shape %s: dimension %d (%s) is %lld, but %s is %lld as dimension "
                               "%d of input %s; both must be the same",
                               info.name, d, info.dim_text[d], (long long)s->dims[d],
                               info.dim_text[d], (long long)*size, at, other);
        if (info.dims[d] < 0)
            bind(m, info.dim_text[d], s->dims[d]);
    }
    return TN_OK;
}

/* Sizes that are computed from others, and may not be as --shape has them. */
static int
check_shapes(const InputMaker *m)
{
    const TnCompileOptions *c = &m->o->compile;

    for (int k = 0; k < c->nshapes; k++) {
        const TnShape *s = &c->shapes[k];
        int i = find_input(m, s->input);
        TnValueInfo info = input_info(m->model, i);
        const TnTensor *x = &m->t->in[i];
        for (int32_t d = 0; d < s->rank && d < x->rank; d++)
            if (x->dims[d] != s->dims[d])
                return usage_error("--shape %s: dimension %d (%s) is %lld, but %lld %s", info.name,
                                   d, info.dim_text[d], (long long)s->dims[d],
                                   (long long)x->dims[d],
                                   m->given[i] ? "in the file given" : "by what else is given");
    }
    return TN_OK;
}

/* Of a model compiled just now --dim is checked already, and no longer open. */
static int
check_dim(const InputMaker *m, const char *symbol)
{
    bool open = false;

    if (!compiled_with_open_dims(m->o->model))
        return TN_OK;
    for (int32_t i = 0; i < m->t->nin; i++) {
        TnValueInfo info = input_info(m->model, i);
        for (int32_t d = 0; d < info.rank; d++) {
            if (info.dims[d] < 0 && !strcmp(info.dim_text[d], symbol))
                return TN_OK;
            open |= info.dims[d] < 0;
        }
    }
    for (int32_t i = 0; i < tn_model_states(m->model); i++) {
        TnState s = state_info(m->model, i);
        for (int32_t d = 0; d < s.rank; d++)
            if (!strcmp(s.dim_text[d], symbol))
                return TN_OK;
    }
    if (!open)
        return usage_error("--dim %s: every dimension of this model's inputs is fixed", symbol);
    return usage_error("--dim %s: no input has a dimension of that name; see: tenon inspect %s",
                       symbol, m->o->model);
}

/* The same words as for compiling, for symbols that were left open then. */
static int
bind_options(InputMaker *m)
{
    const TnCompileOptions *c = &m->o->compile;
    int status = TN_OK;

    for (int k = 0; k < c->nshapes && status == TN_OK; k++)
        status = bind_shape(m, c->shapes, k);
    /* of a range the least, where nothing else is said */
    for (int k = 0; k < c->nranges; k++)
        if (c->ranges[k].least > 1)
            bind(m, c->ranges[k].symbol, c->ranges[k].least);
    for (int k = 0; k < c->ndims && status == TN_OK; k++) {
        const char *name = c->dims[k].symbol;
        const int64_t *size = find_bound(m, name);
        status = check_dim(m, name);
        if (status == TN_OK && size && *size != c->dims[k].value)
            status = usage_error("--dim %s=%lld: an input given or its --shape has %lld there",
                                 name, (long long)c->dims[k].value, (long long)*size);
        bind(m, name, c->dims[k].value);
    }
    return status;
}

/* States are empty when a run of this session begins. */
static void
bind_states(InputMaker *m)
{
    for (int32_t i = 0; i < tn_model_states(m->model); i++) {
        TnState s = state_info(m->model, i);
        if (s.axis >= 0 && !find_bound(m, s.dim_text[s.axis]))
            bind(m, s.dim_text[s.axis], 0);
    }
}

/* ---- random ---------------------------------------------------------------------------------- */

static int
high_of(const InputMaker *m, const char *name, int64_t *high)
{
    *high = 2;
    for (int k = 0; k < m->o->max_int.n; k++) {
        const Pair *p = &m->o->max_int.at[k];
        char *end;
        int i = find_input(m, p->name);
        if (i < 0)
            return no_such_input(m, "--max-int", p->name);
        if (input_info(m->model, i).dtype[0] == 'f' ||
            !strncmp(input_info(m->model, i).dtype, "bf", 2))
            return usage_error(
                "--max-int %s: the input is %s, and random numbers of that type are normal ones",
                p->name, input_info(m->model, i).dtype);
        long long v = strtoll(p->value, &end, 10);
        if (*end || v < 1)
            return usage_error("--max-int %s=%s: a whole number of 1 or more is needed", p->name,
                               p->value);
        if (!strcmp(p->name, name))
            *high = v;
    }
    return TN_OK;
}

/* The sizes of an input: given ones, what follows from them, 1 where neither says any, and what
 * follows from that. */
static int
find_dims(InputMaker *m, int32_t i, const TnValueInfo *info, int64_t *dims)
{
    int status = report(m->ctx, tn_model_solve(m->model, m->size, m->nsize, i, dims));

    for (int32_t d = 0; d < info->rank && status == TN_OK; d++) {
        const char *text = info->dim_text[d];
        if (dims[d] >= 0)
            continue;
        if (!m->o->told)
            note("dimension %s of input %s is not given: taken as 1 (--dim %s=SIZE)", text,
                 info->name, text);
        bind(m, text, 1);
        status = report(m->ctx, tn_model_solve(m->model, m->size, m->nsize, i, dims));
    }
    return status;
}

/* Is it a column of a data type, as src/graph/data.c names them: "Tree.word", with Tree_rows of
 * them? */
static bool
is_column(const TnValueInfo *info)
{
    const char *dot = strrchr(info->name, '.'), *rows = info->rank ? info->dim_text[0] : "";
    size_t n = dot ? (size_t)(dot - info->name) : 0;

    return dot && !strncmp(rows, info->name, n) && !strcmp(rows + n, "_rows");
}

static int
make_random(InputMaker *m, int32_t i)
{
    TnValueInfo info = input_info(m->model, i);
    TnTensor *x = &m->t->in[i];

    if (is_column(&info)) /* tags and children that are drawn make no tree */
        return usage_error("input %s is a column of a data type, and values of data types are not "
                           "drawn at random: give all inputs with --input, or requests with tenon "
                           "run --many FILE; doc/text.md, Data types, says what columns hold",
                           info.name);
    int64_t *dims = need(calloc((size_t)info.rank + 1, sizeof *dims)), high;

    m->t->dims[i] = dims;
    int status = find_dims(m, i, &info, dims);
    if (status != TN_OK)
        return status;
    *x = (TnTensor){
        .size = sizeof *x, .name = info.name, .dtype = info.dtype, .rank = info.rank, .dims = dims
    };
    status = high_of(m, info.name, &high);
    if (status != TN_OK)
        return status;
    return report(
        m->ctx,
        tn_tensor_random(m->ctx, (uint64_t)m->o->compile.seed + 1000003u * (uint64_t)i, high, x));
}

int
inputs_make(TnContext *ctx, const Options *o, const TnModel *model, Tensors *t)
{
    InputMaker m = { .ctx = ctx, .o = o, .model = model, .t = t };

    t->nin = tn_model_inputs(model);
    t->in = need(calloc((size_t)t->nin + 1, sizeof *t->in));
    t->dims = need(calloc((size_t)t->nin + 1, sizeof *t->dims));
    m.given = need(calloc((size_t)t->nin + 1, sizeof *m.given));
    for (int32_t i = 0; i < t->nin; i++)
        t->in[i].size = sizeof *t->in;
    int status = o->data ? read_folder(&m) : TN_OK;
    if (status == TN_OK)
        status = read_given(&m);
    if (status == TN_OK)
        status = bind_options(&m);
    if (status == TN_OK)
        bind_states(&m);
    if (status == TN_OK)
        status = high_of(&m, "", &(int64_t){ 0 });
    for (int32_t i = 0; i < t->nin && status == TN_OK; i++)
        if (!m.given[i])
            status = make_random(&m, i);
    if (status == TN_OK)
        status = check_shapes(&m);
    free(m.given);
    for (int32_t k = 0; k < m.nsize; k++)
        free((char *)m.size[k].symbol);
    free(m.size);
    return status;
}

void
outputs_make(const TnModel *m, Tensors *t)
{
    t->nout = tn_model_outputs(m);
    t->out = need(calloc((size_t)t->nout + 1, sizeof *t->out));
    for (int32_t i = 0; i < t->nout; i++) {
        TnValueInfo info = output_info(m, i);
        t->out[i] = (TnTensor){
            .size = sizeof *t->out, .name = info.name, .dtype = info.dtype, .rank = info.rank
        };
    }
}

int
session_open(TnContext *ctx, const Options *o, TnModel *m, Tensors *t, TnSession **out)
{
    int status = inputs_make(ctx, o, m, t);
    if (status == TN_OK)
        status = session_begin(ctx, o, m, out);
    if (status == TN_OK)
        outputs_make(m, t);
    return status;
}

int
tensors_run(TnContext *ctx, const Options *o, TnSession *session, Tensors *t)
{
    Progress p = progress_begin();
    TnCompileOptions options = compile_options_to_run(o, &p);

    if (tn_target_is_here(o->compile.target))
        return report(ctx, tn_run(session, t->in, t->nin, t->out, t->nout));
    return report_after(&p, ctx,
                        tn_emulate(ctx, o->model, &options, t->in, t->nin, t->out, t->nout));
}

enum { HUGE_PAGE = 2 << 20, LINE = 64 };

void
inputs_own(Tensors *t)
{
    t->own = need(calloc((size_t)t->nin + 1, sizeof *t->own));
    for (int32_t i = 0; i < t->nin; i++) {
        TnTensor *x = &t->in[i];
        if (!x->data || !x->bytes || !strcmp(x->dtype, "str"))
            continue;
        size_t unit = x->bytes < HUGE_PAGE ? LINE : HUGE_PAGE,
               bytes = ((size_t)x->bytes + unit - 1) / unit * unit;
        t->own[i] = need(aligned_alloc(unit, bytes));
        if (unit == HUGE_PAGE)
            madvise(t->own[i], bytes, MADV_HUGEPAGE);
        x->data = memcpy(t->own[i], x->data, (size_t)x->bytes);
    }
}

void
tensors_free(Tensors *t)
{
    for (int32_t i = 0; i < t->nin && t->own; i++)
        free(t->own[i]);
    free(t->own);
    for (int32_t i = 0; i < t->nin && t->dims; i++)
        free(t->dims[i]);
    free(t->dims);
    free(t->in);
    free(t->out);
}
