#include "infer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The protocol's types, Tenon's, and the bytes of one. */
static const struct {
    const char *name, *dtype;
    int64_t bytes;
} types[] = {
    { "BOOL", "bool", 1 },  { "UINT8", "u8", 1 },
    { "UINT16", "u16", 2 }, { "UINT32", "u32", 4 },
    { "UINT64", "u64", 8 }, { "INT8", "i8", 1 },
    { "INT16", "i16", 2 },  { "INT32", "i32", 4 },
    { "INT64", "i64", 8 },  { "FP16", "f16", 2 },
    { "BF16", "bf16", 2 },  { "FP32", "f32", 4 },
    { "FP64", "f64", 8 },   { "BYTES", "str", sizeof(char *) },
};
enum { NTYPE = sizeof types / sizeof *types };

static int
type_of(const char *dtype)
{
    for (int i = 0; i < NTYPE; i++)
        if (!strcmp(types[i].dtype, dtype))
            return i;
    return -1;
}

bool
infer_open(Infer *i, const char *path, int32_t threads)
{
    TnSessionOptions how = TN_INIT(TnSessionOptions);

    how.threads = threads;
    *i = (Infer){ 0 };
    return tn_context_new(NULL, &i->ctx) == TN_OK && tn_load(i->ctx, path, &i->model) == TN_OK &&
           tn_session_new(i->ctx, i->model, &how, &i->session) == TN_OK;
}

void
infer_close(Infer *i)
{
    tn_session_free(i->session);
    tn_model_free(i->model);
    tn_context_free(i->ctx);
}

/* ---- what it takes and gives ----------------------------------------------------------------- */

static json_t *
shape_of(int32_t rank, const int64_t *dims)
{
    json_t *x = json_array();

    for (int32_t i = 0; i < rank; i++)
        json_array_append_new(x, json_integer(dims[i]));
    return x;
}

static json_t *
values_about(const Infer *i, bool in)
{
    json_t *all = json_array();
    int32_t n = in ? tn_model_inputs(i->model) : tn_model_outputs(i->model);

    for (int32_t k = 0; k < n; k++) {
        TnValueInfo v = TN_INIT(TnValueInfo);
        if ((in ? tn_model_input(i->model, k, &v) : tn_model_output(i->model, k, &v)) != TN_OK)
            continue;
        int type = type_of(v.dtype);
        json_array_append_new(all, json_pack("{s:s, s:s, s:o}", "name", v.name, "datatype",
                                             type < 0 ? v.dtype : types[type].name, "shape",
                                             shape_of(v.rank, v.dims)));
    }
    return all;
}

char *
infer_about(const Infer *i, const char *name)
{
    return json_as_text(json_pack("{s:s, s:[s], s:s, s:o, s:o}", "name", name, "versions", "1",
                                  "platform", "tenon", "inputs", values_about(i, true), "outputs",
                                  values_about(i, false)));
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static bool
put(const TnTensor *t, int64_t i, const json_t *x)
{
    if (!strcmp(t->dtype, "str")) {
        ((const char **)t->data)[i] = json_string_value(x);
        return json_is_string(x);
    }
    if (!strcmp(t->dtype, "i64") && json_is_integer(x)) { /* all 64 bits */
        ((int64_t *)t->data)[i] = json_integer_value(x);
        return true;
    }
    if (!json_is_number(x) && !(json_is_boolean(x) && !strcmp(t->dtype, "bool")))
        return false;
    return tn_tensor_set_number(t, i, json_is_boolean(x) ? json_is_true(x) : json_number_value(x));
}

/* Elements of data, as one list or as lists in lists, from *at on. */
static bool
fill(const TnTensor *t, int64_t count, int64_t *at, const json_t *data, Refusal *why)
{
    for (size_t i = 0; i < json_array_size(data); i++) {
        const json_t *x = json_array_get(data, i);
        if (json_is_array(x)) {
            if (!fill(t, count, at, x, why))
                return false;
        } else if (*at < count && !put(t, *at, x))
            return refuse(why, REFUSED, "inputs",
                          "input %.100s: element %lld is nothing that %s can hold", t->name,
                          (long long)*at, t->dtype);
        else
            *at += !json_is_array(x);
    }
    return true;
}

/* The elements of a shape; -1: it is none. */
static int64_t
take_shape(const json_t *shape, int64_t dims[MOST_RANK])
{
    enum { MOST = 1 << 30 };
    int64_t count = 1;

    if (!json_is_array(shape) || json_array_size(shape) > MOST_RANK)
        return -1;
    for (size_t i = 0; i < json_array_size(shape); i++) {
        const json_t *x = json_array_get(shape, i);
        dims[i] = json_integer_value(x);
        if (!json_is_integer(x) || dims[i] < 0 || dims[i] > MOST)
            return -1;
        count = count * dims[i] > MOST ? MOST + 1ll : count * dims[i];
    }
    return count > MOST ? -1 : count;
}

static const json_t *
find_named(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_object_get(json_array_get(list, i), "name"));
        if (text && !strcmp(text, name))
            return json_array_get(list, i);
    }
    return NULL;
}

/* The input `v` from the body's; t->data is malloc's. */
static bool
take_input(const json_t *inputs, const TnValueInfo *v, TnTensor *t, int64_t dims[MOST_RANK],
           Refusal *why)
{
    const json_t *x = find_named(inputs, v->name), *data = json_object_get(x, "data");
    const char *type = json_string_value(json_object_get(x, "datatype"));
    int kind = type_of(v->dtype);
    int64_t at = 0, count = take_shape(json_object_get(x, "shape"), dims), given = 0;

    if (!x)
        return refuse(why, REFUSED, "inputs", "there is no input \"%.100s\", which the model takes",
                      v->name);
    if (kind < 0 || !type || strcmp(type, types[kind].name))
        return refuse(why, REFUSED, "inputs", "input %.100s is %s; its datatype is \"%.20s\"",
                      v->name, kind < 0 ? v->dtype : types[kind].name, type ? type : "not given");
    if (count < 0 || !json_is_array(data))
        return refuse(why, REFUSED, "inputs", "input %.100s: %s", v->name,
                      count < 0 ? "shape is to be a list of whole numbers"
                                : "data is to be a list; the binary form is not supported");
    *t = (TnTensor){ .size = sizeof *t,
                     .name = v->name,
                     .dtype = v->dtype,
                     .dims = dims,
                     .rank = (int32_t)json_array_size(json_object_get(x, "shape")) };
    /* memory for what was sent, not for what a shape says */
    fill(&(TnTensor){ .dtype = "" }, 0, &given, data, why);
    if (given != count)
        return refuse(why, REFUSED, "inputs",
                      "input %.100s: shape has %lld elements, data has %lld", v->name,
                      (long long)count, (long long)given);
    t->bytes = count * types[kind].bytes;
    if (!(t->data = calloc((size_t)count + 1, (size_t)types[kind].bytes)))
        return refuse(why, NO_MEMORY, "inputs", "no memory for input %.100s", v->name);
    return fill(t, count, &at, data, why);
}

/* ---- outputs --------------------------------------------------------------------------------- */

static json_t *
element(const TnTensor *t, int64_t i)
{
    double x;

    if (!strcmp(t->dtype, "str")) {
        const char *text = ((const char *const *)t->data)[i];
        return json_string(text ? text : "");
    }
    if (!strcmp(t->dtype, "i64"))
        return json_integer(((const int64_t *)t->data)[i]);
    x = tn_tensor_number(t, i);
    if (!strcmp(t->dtype, "bool"))
        return json_boolean(x != 0);
    if (*t->dtype == 'i' || *t->dtype == 'u')
        return json_integer((json_int_t)x);
    return isfinite(x) ? json_real(x) : json_null(); /* JSON has no others */
}

static json_t *
output(const TnTensor *t, const TnValueInfo *v)
{
    json_t *data = json_array();
    int64_t n = 1;
    int type = type_of(v->dtype);

    for (int32_t i = 0; i < t->rank; i++)
        n *= t->dims[i];
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(data, element(t, i));
    return json_pack("{s:s, s:s, s:o, s:o}", "name", v->name, "datatype",
                     type < 0 ? v->dtype : types[type].name, "shape", shape_of(t->rank, t->dims),
                     "data", data);
}

static char *
tell(const Infer *i, const char *name, const json_t *body, const TnTensor *out, int32_t n)
{
    json_t *all = json_array(), *wanted = json_object_get(body, "outputs"),
           *id = json_object_get(body, "id"), *x;

    for (int32_t k = 0; k < n; k++) {
        TnValueInfo v = TN_INIT(TnValueInfo);
        tn_model_output(i->model, k, &v);
        if (!json_array_size(wanted) || find_named(wanted, v.name))
            json_array_append_new(all, output(&out[k], &v));
    }
    x = json_pack("{s:s, s:s, s:o}", "model_name", name, "model_version", "1", "outputs", all);
    if (id)
        json_object_set(x, "id", id);
    return json_as_text(x);
}

/* ---- a request ------------------------------------------------------------------------------- */

static bool
check_outputs(const Infer *i, const json_t *body, Refusal *why)
{
    const json_t *wanted = json_object_get(body, "outputs");
    int32_t n = tn_model_outputs(i->model);

    for (size_t k = 0; k < json_array_size(wanted); k++) {
        const char *name = json_string_value(json_object_get(json_array_get(wanted, k), "name"));
        bool there = false;
        for (int32_t m = 0; name && m < n; m++) {
            TnValueInfo v = TN_INIT(TnValueInfo);
            there |= tn_model_output(i->model, m, &v) == TN_OK && !strcmp(v.name, name);
        }
        if (!there)
            return refuse(why, REFUSED, "outputs", "the model has no output \"%.100s\"",
                          name ? name : "?");
    }
    return true;
}

char *
infer_run(Infer *i, const char *name, const json_t *body, Refusal *why)
{
    static const char *const fields[] = { "id", "inputs", "outputs", "parameters", NULL };
    int32_t nin = tn_model_inputs(i->model), nout = tn_model_outputs(i->model), k;
    TnTensor *in = calloc((size_t)nin + 1, sizeof *in),
             *out = calloc((size_t)nout + 1, sizeof *out);
    int64_t(*dims)[MOST_RANK] = calloc((size_t)nin + 1, sizeof *dims);
    char *text = NULL;
    bool ok = in && out && dims && body_check(body, fields, &(Fixed){ NULL, NULL }, why) &&
              check_outputs(i, body, why);

    for (k = 0; ok && k < nin; k++) {
        TnValueInfo v = TN_INIT(TnValueInfo);
        ok = tn_model_input(i->model, k, &v) == TN_OK &&
             take_input(json_object_get(body, "inputs"), &v, &in[k], dims[k], why);
    }
    for (k = 0; ok && k < nout; k++)
        out[k].size = sizeof *out;
    if (ok) {
        TnStatus status = tn_run(i->session, in, nin, out, nout);
        if (status == TN_OK)
            text = tell(i, name, body, out, nout);
        else
            refuse(why, status == TN_USAGE ? REFUSED : 500, status == TN_USAGE ? "inputs" : NULL,
                   "%.400s", tn_error(i->ctx));
    }
    for (k = 0; in && k < nin; k++)
        free(in[k].data);
    free(in), free(out), free(dims);
    return text;
}
