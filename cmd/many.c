/* tenon run --many: requests from a file in one tn_run_many, and a line of JSON for each.
 *
 * Output reads back as the same numbers: floats have the fewest digits for that; NaN and Infinity
 * are words, as in Python's JSON.
 */
#include "cmd.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---------------------------------------------------------------------------- */

/* Shorter floats are f32 too. 6 digits (15) survive by themselves, but for subnormals. */
static void
print_float(double v, bool is_double)
{
    int least = is_double ? DBL_DIG : FLT_DIG;
    int most = is_double ? DBL_DECIMAL_DIG : FLT_DECIMAL_DIG;
    char text[40];

    if (isnan(v) || isinf(v)) {
        fputs(isnan(v) ? "NaN" : v < 0 ? "-Infinity" : "Infinity", stdout);
        return;
    }
    if (fabs(v) < (is_double ? DBL_MIN : (double)FLT_MIN))
        least = 1;
    for (int digits = least; digits <= most; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (is_double ? strtod(text, NULL) == v : strtof(text, NULL) == (float)v)
            break;
    }
    fputs(v == 0 && signbit(v) ? "-0.0" : text, stdout); /* to many readers -0 is an integer */
}

static void
print_element(const TnTensor *x, int64_t i)
{
    if (print_if_no_double(x, i))
        return;
    if (!strcmp(x->dtype, "bool"))
        fputs(tn_tensor_number(x, i) ? "true" : "false", stdout);
    else if (strchr("fb", *x->dtype))
        print_float(tn_tensor_number(x, i), !strcmp(x->dtype, "f64"));
    else
        printf("%.0f", tn_tensor_number(x, i));
}

/* Dimension d and those in it, from element *at on. */
static void
print_nested(const TnTensor *x, int32_t d, int64_t *at)
{
    if (d == x->rank) {
        print_element(x, (*at)++);
        return;
    }
    putchar('[');
    for (int64_t i = 0; i < x->dims[d]; i++) {
        fputs(i ? ", " : "", stdout);
        print_nested(x, d + 1, at);
    }
    putchar(']');
}

static void
print_array(const TnTensor *x)
{
    bool hidden = false; /* a dimension inside one of 0, which no list shows */

    for (int32_t d = 0; d + 1 < x->rank; d++)
        hidden |= !x->dims[d];
    if (!hidden) {
        print_nested(x, 0, &(int64_t){ 0 });
        return;
    }
    fputs("{\"shape\": [", stdout);
    for (int32_t d = 0; d < x->rank; d++)
        printf("%s%lld", d ? ", " : "", (long long)x->dims[d]);
    fputs("], \"data\": []}", stdout);
}

static void
print_request(const Request *q, int32_t nout)
{
    if (q->error) {
        fputs("{\"error\": ", stdout);
        print_json_string(q->error);
        puts("}");
        return;
    }
    for (int32_t i = 0; i < nout; i++) {
        fputs(i ? ", " : "{", stdout);
        print_json_string(q->out[i].name);
        fputs(": ", stdout);
        print_array(&q->out[i]);
    }
    puts(nout ? "}" : "{}");
}

/* ---- the verb --------------------------------------------------------------------------- */

static int
check(const Options *o)
{
    const struct {
        bool given;
        const char *name;
    } other[] = {
        { o->input.n, "input" },     { o->data, "data" },      { o->output_dir, "output-dir" },
        { o->expect.n, "expect" },   { o->stats, "stats" },    { o->top, "top" },
        { o->max_int.n, "max-int" }, { o->atol >= 0, "atol" }, { o->rtol >= 0, "rtol" },
    };

    for (int i = 0; i < (int)(sizeof other / sizeof *other); i++)
        if (other[i].given)
            return usage_error("--%s is for one run, --many for requests of a file: leave one out",
                               other[i].name);
    if (compiled_with_open_dims(o->model) && (o->dim.n || o->shape.n))
        return usage_error("--%s: sizes are those of each request: leave it out",
                           o->dim.n ? "dim" : "shape");
    return TN_OK;
}

/* Requests run one by one, which a user of --many does not expect. Of a model that
 * is compiled now, the compiler says so. */
static void
tell_single(const Options *o, const TnModel *m)
{
    const char *why = tn_model_single(m);

    if (is_artefact(o->model) && !tn_model_blocks(m))
        note("%s: requests run one by one: %s", o->model,
             why ? why : "it was compiled without --many");
}

static int
run(TnContext *ctx, const Options *o, TnModel *m)
{
    TnSession *session = NULL;
    Requests all = { 0 };
    int32_t failed = 0;

    int status = requests_read(o, m, &all);
    if (status == TN_OK)
        status = session_begin(ctx, o, m, &session);
    if (status == TN_OK)
        status = requests_run(ctx, session, &all);
    if (status == TN_OK) {
        if (all.n > 1)
            tell_single(o, m);
        for (int32_t i = 0; i < all.n; i++)
            print_request(&all.at[i], all.nout);
        const Request *first = requests_failed(&all, &failed);
        if (first)
            usage_error("%d of %d requests have no result; %s", failed, all.n, first->error);
        status = first ? first->status : TN_OK;
    }
    requests_free(&all);
    tn_session_free(session);
    return status;
}

int
run_many(TnContext *ctx, const Options *o)
{
    int status = check(o);

    if (status == TN_OK && o->json)
        status = usage_error("--many writes JSON, a line for each request: leave out --json");
    return status == TN_OK ? model_with(ctx, o, run) : status;
}
