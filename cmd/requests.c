/* requests: requests from a file, one JSON object a line, and their results.
 *
 * An object has a member for each input: numbers in nested lists, one level for each dimension, or
 * {"shape": [0, 3], "data": []} with the numbers in row-major order, which can give any shape. A
 * malformed line is an error of that request alone. Numbers are converted to the type of the
 * model's input: one that the type cannot hold is refused, except that floats are rounded to the
 * nearest.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cmd.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const TnModel *model;
    Request *to;
    Json json;
    const char *input; /* the name of the one that is read, or NULL */
} RequestReader;

/* Once: what is reported first is the reason. */
static bool fail(RequestReader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool
fail(RequestReader *r, const char *format, ...)
{
    char *text = NULL, *all = NULL;
    va_list args;

    va_start(args, format);
    need(vasprintf(&text, format, args) < 0 ? NULL : text);
    va_end(args);
    if (!r->to->error) {
        const char *before = r->input ? "input \"" : "", *behind = r->input ? "\": " : "";
        need(asprintf(&all, "line %lld: %s%s%s%s", (long long)r->to->line, before,
                      r->input ? r->input : "", behind, text) < 0
                 ? NULL
                 : all);
        r->to->error = all;
        r->to->status = TN_USAGE;
    }
    free(text);
    return false;
}

static JsonToken
next(RequestReader *r)
{
    JsonToken t = json_next(&r->json);

    if (t == JSON_BAD) {
        r->input = NULL;
        fail(r, "column %lld: %s", (long long)(r->json.at - r->json.begin) + 1, r->json.why);
    }
    return t;
}

/* ---- numbers ---------------------------------------------------------------------------- */

enum { TYPE_FLOAT, TYPE_INT, TYPE_UINT, TYPE_BOOL, TYPE_TEXT };

static int
kind_of(const char *dtype)
{
    return !strcmp(dtype, "bool")  ? TYPE_BOOL
           : !strcmp(dtype, "str") ? TYPE_TEXT
           : *dtype == 'i'         ? TYPE_INT
           : *dtype == 'u'         ? TYPE_UINT
                                   : TYPE_FLOAT;
}

/* "i64", "f8e4m3fn"; numbers of fewer than 8 bits have a byte each. */
static int
bits_of(const char *dtype)
{
    return !strcmp(dtype, "bool")  ? 1
           : !strcmp(dtype, "str") ? 64
                                   : atoi(dtype + strcspn(dtype, "0123456789"));
}

static int64_t
bytes_of(const char *dtype)
{
    return bits_of(dtype) < 16 ? 1 : bits_of(dtype) / 8;
}

static bool
misfit(RequestReader *r, const TnTensor *x, double v)
{
    int shown = r->json.n > 40 ? 40 : (int)r->json.n, bits = bits_of(x->dtype);
    const char *text = r->json.text, *type = x->dtype;

    switch (kind_of(type)) {
    case TYPE_BOOL:
        return fail(r, "%.*s is given, and the input is bool: true, false, 1 or 0", shown, text);
    case TYPE_INT:
    case TYPE_UINT:
        if (isnan(v) || (!isinf(v) && v != trunc(v)))
            return fail(r, "%.*s is no whole number, and %s holds no others", shown, text, type);
        if (*type == 'u')
            return fail(r, "%.*s is given, and %s holds 0 to %llu", shown, text, type,
                        (unsigned long long)(UINT64_MAX >> (64 - bits)));
        int64_t most = (int64_t)(UINT64_MAX >> (65 - bits));
        return fail(r, "%.*s is given, and %s holds %lld to %lld", shown, text, type,
                    (long long)-most - 1, (long long)most);
    default: return fail(r, "%.*s is given, which is beyond what %s holds", shown, text, type);
    }
}

/* A double does not hold all integers of 64 bits, and f32 by way of one would be rounded twice. */
static bool
put_number(RequestReader *r, const TnTensor *x, int64_t i)
{
    const char *text = r->json.text;
    bool whole = strspn(text, "-0123456789") == r->json.n;
    double v = !strcmp(x->dtype, "f32") ? strtof(text, NULL) : strtod(text, NULL);

    errno = 0;
    if (whole && !strcmp(x->dtype, "i64")) {
        ((int64_t *)x->data)[i] = strtoll(text, NULL, 10);
        return !errno || misfit(r, x, v);
    }
    if (whole && !strcmp(x->dtype, "u64") && *text != '-') {
        ((uint64_t *)x->data)[i] = strtoull(text, NULL, 10);
        return !errno || misfit(r, x, v);
    }
    bool overflows = isinf(v) && text[*text == '-'] != 'I';
    return (!overflows && tn_tensor_set_number(x, i, v)) || misfit(r, x, v);
}

static bool
put_element(RequestReader *r, TnTensor *x, JsonToken t, int64_t i)
{
    int kind = kind_of(x->dtype);

    if (kind == TYPE_TEXT)
        return fail(r, "the input is str, and requests in JSON hold numbers alone; "
                       "session.run_many in Python takes strings");
    if (t == JSON_STRING)
        return fail(r, "\"%s\" is a string; the input is %s", r->json.text, x->dtype);
    if (t == JSON_NULL)
        return fail(r, "null is no number; the input is %s", x->dtype);
    if (t == JSON_NUMBER)
        return put_number(r, x, i);
    if (kind != TYPE_BOOL)
        return fail(r, "%s is no number; the input is %s", t == JSON_TRUE ? "true" : "false",
                    x->dtype);
    ((unsigned char *)x->data)[i] = t == JSON_TRUE;
    return true;
}

/* ---- tensors ---------------------------------------------------------------------------- */

typedef struct {
    int rank, deepest, depth;   /* rank: the depth of elements; -1: there is none yet */
    int64_t extent[JSON_DEPTH]; /* of the first list at this depth; -1: none has ended */
    int64_t count[JSON_DEPTH];  /* of the list that is read */
    int64_t elements;
} Nesting;

static bool
begin_list(RequestReader *r, Nesting *s)
{
    if (s->depth == s->rank)
        return fail(r, "a list stands beside a number: lists of one depth hold the same");
    if (s->depth)
        s->count[s->depth - 1]++;
    if (s->depth == s->deepest)
        s->extent[s->deepest++] = -1;
    s->count[s->depth++] = 0;
    return true;
}

static bool
end_list(RequestReader *r, Nesting *s)
{
    int d = --s->depth;

    if (s->extent[d] >= 0 && s->extent[d] != s->count[d])
        return fail(r, "a list of %lld stands beside one of %lld; dimension %d has one length",
                    (long long)s->count[d], (long long)s->extent[d], d);
    s->extent[d] = s->count[d];
    return true;
}

static bool
add_element(RequestReader *r, Nesting *s, TnTensor *x, JsonToken t)
{
    if (s->deepest > s->depth)
        return fail(r, "a number stands beside a list: lists of one depth hold the same");
    s->rank = s->depth;
    if (s->depth)
        s->count[s->depth - 1]++;
    int64_t bytes = bytes_of(x->dtype);
    if ((s->elements + 1) * bytes > x->bytes) {
        x->bytes = x->bytes ? 2 * x->bytes : 64;
        x->data = need(realloc(x->data, (size_t)x->bytes));
    }
    return put_element(r, x, t, s->elements++);
}

/* Lists in lists, which began with t. */
static bool
read_nested(RequestReader *r, TnTensor *x, JsonToken t)
{
    Nesting s = { .rank = -1 };

    for (;;) {
        bool ok = t == JSON_LIST       ? begin_list(r, &s)
                  : t == JSON_LIST_END ? end_list(r, &s)
                  : t == JSON_BAD      ? false
                  : t == JSON_OBJECT   ? fail(r, "an object stands where numbers are wanted")
                                       : add_element(r, &s, x, t);
        if (!ok)
            return false;
        if (!s.depth)
            break;
        t = next(r);
    }
    int64_t *dims = need(calloc((size_t)s.deepest + 1, sizeof *dims));
    memcpy(dims, s.extent, (size_t)s.deepest * sizeof *dims);
    free((void *)x->dims);
    x->dims = dims;
    x->rank = s.deepest;
    x->bytes = s.elements * bytes_of(x->dtype);
    return true;
}

static bool
read_member(RequestReader *r, TnTensor *shape, TnTensor *x)
{
    bool is_shape = !strcmp(r->json.text, "shape");
    TnTensor *part = is_shape ? shape : x;

    if (!is_shape && strcmp(r->json.text, "data"))
        return fail(r, "an object has \"shape\" and \"data\", and no \"%s\"", r->json.text);
    if (part->dims)
        return fail(r, "\"%s\" is given twice", r->json.text);
    JsonToken t = next(r);
    if (t != JSON_BAD && t != JSON_LIST)
        return fail(r, "\"shape\" and \"data\" are lists");
    return t == JSON_LIST && read_nested(r, part, t);
}

/* May x, a list, have this shape? */
static bool
fits_shape(RequestReader *r, const TnTensor *shape, const TnTensor *x)
{
    const int64_t *size = shape->data;
    int64_t n = 1;

    if (!x->dims || !shape->dims || x->rank != 1 || shape->rank != 1)
        return fail(r, "an object has \"shape\" and \"data\", lists without lists in them");
    if (shape->dims[0] > JSON_DEPTH)
        return fail(r, "\"shape\" has %lld dimensions", (long long)shape->dims[0]);
    for (int64_t d = 0; d < shape->dims[0]; d++)
        if (size[d] < 0 || __builtin_mul_overflow(n, size[d], &n))
            return fail(r, "\"shape\" has %lld as dimension %lld, which cannot be",
                        (long long)size[d], (long long)d);
    return n == x->dims[0] || fail(r, "\"data\" has %lld elements, \"shape\" means %lld",
                                   (long long)x->dims[0], (long long)n);
}

/* {"shape": [2, 0, 3], "data": []}, whichever comes first. */
static bool
read_shaped(RequestReader *r, TnTensor *x)
{
    TnTensor shape = { .size = sizeof shape, .dtype = "i64" };
    JsonToken t = JSON_BAD;
    bool ok = true;

    while (ok && (t = next(r)) == JSON_KEY)
        ok = read_member(r, &shape, x);
    ok = ok && t == JSON_OBJECT_END && fits_shape(r, &shape, x);
    if (ok) {
        x->rank = (int32_t)shape.dims[0];
        free((void *)x->dims);
        x->dims = need(realloc(shape.data, ((size_t)x->rank + 1) * sizeof(int64_t)));
        shape.data = NULL;
    }
    free(shape.data);
    free((void *)shape.dims);
    return ok;
}

/* ---- lines ------------------------------------------------------------------------------ */

static bool
no_such_input(RequestReader *r, const char *name, int32_t nin)
{
    char *all = need(strdup(""));

    for (int32_t i = 0; i < nin; i++) {
        char *longer = NULL;
        const char *one = input_info(r->model, i).name;
        need(asprintf(&longer, "%s%s%s", all, i ? ", " : "", one) < 0 ? NULL : longer);
        free(all);
        all = longer;
    }
    fail(r, "there is no input \"%s\"; the model's are %s", name, all);
    free(all);
    return false;
}

static bool
read_input(RequestReader *r, int32_t nin)
{
    int32_t i = 0;

    while (i < nin && strcmp(input_info(r->model, i).name, r->json.text))
        i++;
    if (i == nin)
        return no_such_input(r, r->json.text, nin);
    TnTensor *x = &r->to->in[i];
    TnValueInfo info = input_info(r->model, i);
    r->input = info.name;
    if (x->dims)
        return fail(r, "it is given twice");
    x->name = info.name;
    x->dtype = info.dtype;
    JsonToken t = next(r);
    bool ok = t == JSON_OBJECT ? read_shaped(r, x) : t != JSON_BAD && read_nested(r, x, t);
    if (ok && !x->data)
        x->data = need(malloc(64)); /* of no elements, and there all the same */
    r->input = NULL;
    return ok;
}

static bool
read_line(RequestReader *r, int32_t nin)
{
    JsonToken t = next(r);

    if (t != JSON_BAD && t != JSON_OBJECT)
        return fail(r, "a request is an object, of inputs by name: {\"%s\": …}",
                    nin ? input_info(r->model, 0).name : "x");
    while (t != JSON_BAD && (t = next(r)) == JSON_KEY)
        if (!read_input(r, nin))
            return false;
    if (t == JSON_BAD || next(r) != JSON_END)
        return false;
    for (int32_t i = 0; i < nin; i++)
        if (!r->to->in[i].dims)
            return fail(r, "input \"%s\" is not given", input_info(r->model, i).name);
    return true;
}

static void
add_line(Requests *all, const TnModel *m, int64_t number, char *line, size_t n)
{
    if ((all->n & (all->n - 1)) == 0)
        all->at = need(realloc(all->at, (size_t)(all->n ? 2 * all->n : 1) * sizeof *all->at));
    Request *q = &all->at[all->n++];
    *q = (Request){ .line = number };
    q->in = need(calloc((size_t)all->nin + 1, sizeof *q->in));
    q->out = need(calloc((size_t)all->nout + 1, sizeof *q->out));
    for (int32_t i = 0; i < all->nin; i++)
        q->in[i].size = sizeof *q->in;
    for (int32_t i = 0; i < all->nout; i++)
        q->out[i] = (TnTensor){ .size = sizeof *q->out, .name = output_info(m, i).name };
    RequestReader r = { .model = m,
                        .to = q,
                        .json = { .begin = line, .at = line, .end = line + n } };
    read_line(&r, all->nin);
}

int
requests_read(const Options *o, const TnModel *m, Requests *out)
{
    enum { MOST = 1 << 30 };
    bool is_input = !strcmp(o->requests, "-");
    FILE *f = is_input ? stdin : fopen(o->requests, "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t n = 0;

    *out = (Requests){ .nin = tn_model_inputs(m), .nout = tn_model_outputs(m) };
    if (!f)
        return usage_error("%s: %s", o->requests, strerror(errno));
    errno = 0;
    for (int64_t number = 1; out->n < MOST && (n = getline(&line, &room, f)) >= 0; number++) {
        if (strspn(line, " \t\r\n") == (size_t)n) /* a blank line is no request */
            continue;
        n -= line[n - 1] == '\n';
        line[n] = 0;
        add_line(out, m, number, line, (size_t)n);
    }
    int problem = out->n == MOST ? EFBIG : feof(f) ? 0 : errno;
    free(line);
    if (!is_input)
        fclose(f);
    if (problem)
        return usage_error("%s: %s", o->requests, strerror(problem));
    if (!out->n)
        note("%s has no requests: each is a line, a JSON object of inputs by name",
             is_input ? "standard input" : o->requests);
    return TN_OK;
}

/* ---- running ---------------------------------------------------------------------------- */

/* "m.so: error: input …": the line is in front, and that it is an error is known. */
static void
fail_running(Request *q, const char *text)
{
    const char *word = strstr(text, "error: "), *rest = word ? word + strlen("error: ") : text;
    int before = (int)(word ? word - text : 0), n = (int)strcspn(rest, "\n");

    fail(&(RequestReader){ .to = q }, "%.*s%.*s", before, text, n, rest);
}

int
requests_run(TnContext *ctx, TnSession *s, Requests *all)
{
    TnRequest *run = need(calloc((size_t)all->n + 1, sizeof *run));
    int32_t n = 0;
    bool told = false;

    for (int32_t i = 0; i < all->n; i++)
        if (!all->at[i].error)
            run[n++] = (TnRequest){ .size = sizeof *run,
                                    .in = all->at[i].in,
                                    .out = all->at[i].out,
                                    .nin = all->nin,
                                    .nout = all->nout };
    TnStatus status = tn_run_many(s, run, n);
    for (int32_t i = 0, k = 0; i < all->n; i++) {
        Request *q = &all->at[i];
        if (q->error || !run[k++].error)
            continue;
        fail_running(q, run[k - 1].error);
        q->status = run[k - 1].status;
        told = true;
    }
    free(run);
    return told ? TN_OK : report(ctx, status);
}

const Request *
requests_failed(const Requests *r, int32_t *n)
{
    const Request *first = NULL;

    *n = 0;
    for (int32_t i = 0; i < r->n; i++)
        if (r->at[i].error) {
            first = first ? first : &r->at[i];
            ++*n;
        }
    return first;
}

void
requests_free(Requests *r)
{
    for (int32_t i = 0; i < r->n; i++) {
        for (int32_t k = 0; k < r->nin; k++) {
            free((void *)r->at[i].in[k].dims);
            free(r->at[i].in[k].data);
        }
        free(r->at[i].in);
        free(r->at[i].out);
        free(r->at[i].error);
    }
    free(r->at);
}
