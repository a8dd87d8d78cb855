/* The compiler through the public API: from text to a library that runs, to the interpreter, to
 * inspect. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tenon.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    TnContext *ctx;
    char dir[64], model[96], out[96], cache[96];
} Fixture;

static const char text[] = "graph @t(%x: f32[n, 4]) -> (%y) {\n"
                           "  %w: f32[4, 2] = const [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]\n"
                           "  %h: f32[n, 2] = matmul(%x, %w)\n"
                           "  %y: f32[n, 2] = relu(%h)\n"
                           "}\n";

static void
write_file(const char *path, const char *contents)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(contents, f);
    assert_int_equal(fclose(f), 0);
}

static int
setup(void **state)
{
    Fixture *f = calloc(1, sizeof *f);
    strcpy(f->dir, "/tmp/tenon-test-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    snprintf(f->model, sizeof f->model, "%s/t.tn", f->dir);
    snprintf(f->out, sizeof f->out, "%s/t.so", f->dir);
    snprintf(f->cache, sizeof f->cache, "%s/cache", f->dir);
    write_file(f->model, text);
    *state = f;
    return tn_context_new(NULL, &f->ctx);
}

static int
teardown(void **state)
{
    Fixture *f = *state;
    char command[256];
    tn_context_free(f->ctx);
    snprintf(command, sizeof command, "rm -rf %s", f->dir);
    int failed = system(command);
    free(f);
    return failed;
}

static TnCompileOptions
options(const Fixture *f)
{
    return (TnCompileOptions){ .size = sizeof(TnCompileOptions),
                               .cache_dir = f->cache,
                               .plain_schedule = 1 };
}

/* Compiles the fixture's model, loads it and begins a session. */
static void
open_session(Fixture *f, const TnCompileOptions *o, TnModel **m, TnSession **s)
{
    assert_int_equal(tn_compile(f->ctx, f->model, f->out, o, NULL), TN_OK);
    assert_int_equal(tn_load(f->ctx, f->out, m), TN_OK);
    assert_int_equal(tn_session_new(f->ctx, *m, NULL, s), TN_OK);
}

static void
a_text_model_compiles_runs_and_agrees_with_the_interpreter(void **state)
{
    Fixture *f = *state;
    TnCompileOptions o = options(f);
    TnCompileReport report = TN_INIT(TnCompileReport);
    assert_int_equal(tn_compile(f->ctx, f->model, f->out, &o, &report), TN_OK);
    assert_string_equal(tn_error(f->ctx), "");
    assert_true(report.kernels > 0 && report.artefact_bytes > 0);

    float x[3][4] = { { 1, 2, 3, 4 }, { -1, -2, -3, -4 }, { 1, 0, 0, -1 } };
    float want[3][2] = { { 50, 60 }, { 0, 0 }, { 0, 0 } };
    int64_t dims[] = { 3, 4 };
    TnTensor in = { .size = sizeof in,
                    .name = "x",
                    .dtype = "f32",
                    .rank = 2,
                    .dims = dims,
                    .data = x,
                    .bytes = sizeof x };
    TnTensor out = TN_INIT(TnTensor), meaning = TN_INIT(TnTensor);
    TnModel *m;
    TnSession *s;
    assert_int_equal(tn_load(f->ctx, f->out, &m), TN_OK);
    assert_int_equal(tn_session_new(f->ctx, m, NULL, &s), TN_OK);
    assert_int_equal(tn_run(s, &in, 1, &out, 1), TN_OK);
    assert_memory_equal(out.data, want, sizeof want);
    assert_int_equal(tn_interpret(f->ctx, f->model, &o, &in, 1, &meaning, 1), TN_OK);
    assert_string_equal(meaning.name, "y");
    assert_int_equal(meaning.bytes, sizeof want);
    assert_memory_equal(meaning.data, want, sizeof want);

    TnTensor nowhere = in, shapeless = in;
    nowhere.data = NULL;
    shapeless.dims = NULL;
    assert_int_equal(tn_interpret(f->ctx, f->model, &o, &nowhere, 1, &meaning, 1), TN_USAGE);
    assert_non_null(strstr(tn_error(f->ctx), "at no address"));
    assert_int_equal(tn_interpret(f->ctx, f->model, &o, &shapeless, 1, &meaning, 1), TN_USAGE);
    assert_int_equal(tn_interpret(f->ctx, f->model, &o, NULL, 1, &meaning, 1), TN_USAGE);
    tn_session_free(s);
    tn_model_free(m);
}

/* As tn_run does: vectors are loaded from what callers give. */
static void
requests_that_run_together_have_aligned_memory(void **state)
{
    Fixture *f = *state;
    TnCompileOptions o = options(f);
    const int64_t dims[] = { 1, 4 };
    float x[2][5] = { { 1, 2, 3, 4 }, { 1, 2, 3, 4 } }, y[3];
    TnTensor in[2], out[2];
    TnRequest r[2];
    TnModel *m;
    TnSession *s;

    o.many = 1;
    open_session(f, &o, &m, &s);
    assert_null(tn_model_single(m));
    for (int i = 0; i < 2; i++) {
        in[i] = (TnTensor){ sizeof *in, "x", "f32", 2, dims, x[i], 4 * sizeof(float) };
        out[i] = (TnTensor){ .size = sizeof *out };
        r[i] = (TnRequest){ sizeof *r, &in[i], &out[i], 1, 1, TN_OK, NULL };
    }
    in[0].data = (char *)x[0] + 2;
    assert_int_equal(tn_run_many(s, r, 2), TN_USAGE);
    assert_int_equal(r[0].status, TN_USAGE);
    assert_non_null(strstr(r[0].error, "is not a multiple of 4, the size of f32"));
    assert_int_equal(r[1].status, TN_OK);
    assert_memory_equal(out[1].data, ((float[]){ 50, 60 }), 2 * sizeof(float));
    in[0].data = x[0];
    out[0].data = (char *)y + 2;
    out[0].bytes = 2 * sizeof *y;
    assert_int_equal(tn_run_many(s, r, 2), TN_USAGE);
    assert_non_null(strstr(r[0].error, "output \"y\": the address"));
    /* the address that the run before gave r[1], which is no longer valid, counts as none */
    assert_memory_equal(out[1].data, ((float[]){ 50, 60 }), 2 * sizeof(float));
    out[0].data = x[0];
    out[0].bytes = sizeof x[0];
    assert_int_equal(tn_run_many(s, r, 2), TN_USAGE);
    assert_non_null(strstr(r[0].error, "input \"x\" and output \"y\" overlap in memory"));
    tn_session_free(s);
    tn_model_free(m);
}

/* Addresses that the run before gave count as none, with blocks and without. */
static void
requests_may_be_given_again(void **state)
{
    Fixture *f = *state;
    TnCompileOptions o = options(f);
    const int64_t dims[] = { 1, 4 };
    float x[4] = { 1, 2, 3, 4 };

    for (o.many = 0; o.many < 2; o.many++) {
        TnTensor in = { sizeof in, "x", "f32", 2, dims, x, sizeof x };
        TnTensor out[2] = { { .size = sizeof *out }, { .size = sizeof *out } };
        TnRequest r[2] = { { sizeof *r, &in, &out[0], 1, 1, TN_OK, NULL },
                           { sizeof *r, &in, &out[1], 1, 1, TN_OK, NULL } };
        TnModel *m;
        TnSession *s;

        open_session(f, &o, &m, &s);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(tn_run_many(s, r, 2), TN_OK);
            assert_memory_equal(out[0].data, ((float[]){ 50, 60 }), 2 * sizeof(float));
            assert_memory_equal(out[1].data, ((float[]){ 50, 60 }), 2 * sizeof(float));
        }
        in.dtype = "f64"; /* a call that fails is between */
        assert_int_equal(tn_run_many(s, r, 2), TN_USAGE);
        assert_null(out[0].data);
        in.dtype = "f32";
        assert_int_equal(tn_run_many(s, r, 2), TN_OK);
        assert_memory_equal(out[0].data, ((float[]){ 50, 60 }), 2 * sizeof(float));
        r[0].out = NULL;
        assert_int_equal(tn_run_many(s, r, 2), TN_USAGE);
        tn_session_free(s);
        tn_model_free(m);
    }
}

/* One request asks for more than there is, one names its output otherwise: the others run. */
static void
a_request_that_cannot_be_leaves_the_others(void **state)
{
    Fixture *f = *state;
    TnCompileOptions o = options(f);
    const int64_t one[] = { 1, 1 }, high[] = { 1 << 21, 1 }, wide[] = { 1, 1 << 21 };
    float x = 1, y = 2;
    TnTensor in[4][2], out[4];
    TnRequest r[4];
    TnModel *m;
    TnSession *s;

    write_file(f->model, "graph @t(%x: f32[n, 1], %y: f32[1, m]) -> (%z) {\n"
                         "  %z: f32[n, m] = add(%x, %y)\n}\n");
    o.many = 1;
    open_session(f, &o, &m, &s);
    for (int i = 0; i < 4; i++) {
        in[i][0] = (TnTensor){ sizeof **in, "x", "f32", 2, one, &x, sizeof x };
        in[i][1] = (TnTensor){ sizeof **in, "y", "f32", 2, one, &y, sizeof y };
        out[i] = (TnTensor){ .size = sizeof *out, .name = i == 2 ? "y" : "z" };
        r[i] = (TnRequest){ sizeof *r, in[i], &out[i], 2, 1, TN_OK, NULL };
    }
    in[1][0].dims = high;
    in[1][1].dims = wide;
    in[1][0].bytes = in[1][1].bytes = INT64_MAX; /* never read */
    assert_int_equal(tn_run_many(s, r, 4), TN_LIMIT);
    assert_non_null(strstr(tn_error(f->ctx), "bytes of memory for output \"z\""));
    assert_string_equal(tn_error(f->ctx), r[1].error);
    assert_int_equal(r[2].status, TN_USAGE);
    assert_non_null(strstr(r[2].error, "output 0 is named \"y\", the model's is \"z\""));
    for (int i = 0; i < 4; i += 3) {
        assert_int_equal(r[i].status, TN_OK);
        assert_null(r[i].error);
        assert_float_equal(*(float *)out[i].data, 3, 0);
    }
    tn_session_free(s);
    tn_model_free(m);
}

/* Each run of a request makes its strings where the run before had its own. */
static void
strings_of_requests_are_their_own(void **state)
{
    Fixture *f = *state;
    TnCompileOptions o = options(f);
    const int64_t one[] = { 1 };
    const char *x[2] = { "cat", "dog" }, *given[1];
    TnTensor in[2], out[2] = { { .size = sizeof *out }, { .size = sizeof *out } };
    TnRequest r[2];
    TnModel *m;
    TnSession *s;

    write_file(f->model, "graph @t(%x: str[n]) -> (%y) {\n"
                         "  %y: str[n] = string_concat(%x, %x)\n}\n");
    open_session(f, &o, &m, &s);
    out[0].data = given;
    out[0].bytes = sizeof given;
    for (int i = 0; i < 2; i++) {
        in[i] = (TnTensor){ sizeof *in, "x", "str", 1, one, &x[i], sizeof *x };
        r[i] = (TnRequest){ sizeof *r, &in[i], &out[i], 1, 1, TN_OK, NULL };
    }
    assert_int_equal(tn_run_many(s, r, 2), TN_OK);
    assert_string_equal(given[0], "catcat");
    assert_string_equal(*(char **)out[1].data, "dogdog");
    tn_session_free(s);
    tn_model_free(m);
}

/* Not only what prepares a run of other sizes: what the run before gave is still to be read. */
static void
results_stay_until_the_next_run(void **state)
{
    Fixture *f = *state;
    TnCompileOptions o = options(f);
    const int64_t dims[] = { 1, 4 };
    int64_t more[] = { 0, 4 };
    float x[4] = { 1, 2, 3, 4 };
    TnTensor in = { sizeof in, "x", "f32", 2, dims, x, sizeof x }, out = TN_INIT(TnTensor);
    TnTensor large = { sizeof in, "x", "f32", 2, more, NULL, 0 }, sized = TN_INIT(TnTensor);
    TnModel *m;
    TnSession *s;

    open_session(f, &o, &m, &s);
    for (int64_t n = 1000; n < 100000; n *= 16) {
        assert_int_equal(tn_run(s, &in, 1, &out, 1), TN_OK);
        for (int k = 0; k < 2; k++) { /* the second replaces what the first reserved */
            more[0] = n << 2 * k;
            assert_int_equal(tn_prepare(s, &large, 1, &sized, 1), TN_OK);
            assert_int_equal(sized.dims[0], more[0]);
            assert_int_equal(tn_session_reserve(s, &large, 1), TN_OK);
        }
        assert_int_equal(out.dims[0], 1);
        assert_memory_equal(out.data, ((float[]){ 50, 60 }), 2 * sizeof(float));
    }
    tn_session_free(s);
    tn_model_free(m);
}

/* y and z are as long as data say; what grows with x is a state. */
static const char made[] = "graph @t(%past: f32[p], %x: f32[n], %k: i64[1], %at: i64[1])"
                           " -> (%present, %y, %z, %e) {\n"
                           "  %present: f32[n + p] = concat(%past, %x) {axis = 0}\n"
                           "  %k_1: i64[1] = match(%k) new [m]\n"
                           "  %one: f32[] = const [1.0]\n"
                           "  %ones: f32[m] = expand(%one, %k_1)\n"
                           "  %y: f32[m + n] = concat(%x, %ones) {axis = 0}\n"
                           "  %z: f32[m + n] = concat(%ones, %x) {axis = 0}\n"
                           "  %e: f32[1] = gather(%y, %at) {axis = 0}\n}\n";

/* States, and results that the next run may read. */
static void
runs_that_fail_change_nothing(void **state)
{
    Fixture *f = *state;
    const TnStateNames names = { "past", "present" };
    TnCompileOptions o = options(f);
    const int64_t one[] = { 1 }, three[] = { 3 }, four = 4;
    int64_t at = 0, k = 1;
    float x[3] = { 5, 6, 7 }, y[6];
    TnTensor in[3] = { { sizeof *in, "x", "f32", 1, three, x, sizeof x },
                       { sizeof *in, "k", "i64", 1, one, &k, sizeof k },
                       { sizeof *in, "at", "i64", 1, one, &at, sizeof at } };
    TnTensor out[3] = { { .size = sizeof *out }, { .size = sizeof *out }, { .size = sizeof *out } };
    TnModel *m;
    TnSession *s;

    write_file(f->model, made);
    o.state = &names;
    o.nstate = 1;
    open_session(f, &o, &m, &s);
    assert_int_equal(tn_run(s, in, 3, out, 3), TN_OK);
    in[0].data = out[1].data; /* 1, 5, 6, 7 */
    in[0].dims = &four;
    in[0].bytes = out[1].bytes;
    at = 99;
    assert_int_equal(tn_run(s, in, 3, out, 3), TN_USAGE);
    assert_non_null(strstr(tn_error(f->ctx), "the index 99 is outside"));
    at = 5;
    k = 2;
    out[0].data = y;
    out[0].bytes = sizeof y - 1;
    assert_int_equal(tn_run(s, in, 3, out, 3), TN_USAGE);
    assert_non_null(strstr(tn_error(f->ctx), "output \"y\": f32[6] needs 24 bytes"));
    out[0].bytes = sizeof y;
    out[2].data = y + 5;
    out[2].bytes = sizeof *y;
    assert_int_equal(tn_run(s, in, 3, out, 3), TN_USAGE);
    assert_non_null(strstr(tn_error(f->ctx), "outputs \"y\" and \"e\" overlap in memory"));
    assert_int_equal(tn_session_state_length(s), 3);
    out[0].data = out[1].data = out[2].data = NULL;
    assert_int_equal(tn_run(s, in, 3, out, 3), TN_OK);
    assert_memory_equal(out[0].data, ((float[]){ 1, 5, 6, 7, 1, 1 }), sizeof y);
    assert_memory_equal(out[1].data, ((float[]){ 1, 1, 1, 5, 6, 7 }), sizeof y);
    assert_float_equal(*(float *)out[2].data, 1, 0);
    assert_int_equal(tn_session_state_length(s), 7);
    tn_session_free(s);
    tn_model_free(m);
}

/* What one model teaches of `n` must not hold for the next. */
static void
contents(char *out, size_t room, const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(out, 1, room, file);
    assert_true(n > 0 && n < room);
    memset(out + n, 0, room - n);
    fclose(file);
}

/* With what was chosen before, without it, and with a cache that somebody cut off. */
static void
choices_are_found_again_and_are_the_same(void **state)
{
    enum { ROOM = 1 << 20 };
    Fixture *f = *state;
    TnCompileOptions o = options(f);
    char *first = malloc(ROOM), *again = malloc(ROOM), command[512];
    TnCacheUse before = TN_INIT(TnCacheUse), after = TN_INIT(TnCacheUse);

    o.plain_schedule = 0;
    write_file(f->model, "graph @t(%x: f32[3, 4]) -> (%y) {\n"
                         "  %w: f32[4, 2] = const [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]\n"
                         "  %y: f32[3, 2] = matmul(%x, %w)\n"
                         "}\n");
    assert_int_equal(tn_compile(f->ctx, f->model, f->out, &o, NULL), TN_OK);
    assert_int_equal(tn_cache_use(f->ctx, f->cache, &before), TN_OK);
    contents(first, ROOM, f->out);
    snprintf(command, sizeof command, "test $(find %s -name '*.txt' | wc -l) -gt 0", f->cache);
    assert_int_equal(system(command), 0);
    for (int damage = 0; damage < 2; damage++) {
        assert_int_equal(tn_compile(f->ctx, f->model, f->out, &o, NULL), TN_OK);
        assert_string_equal(tn_error(f->ctx), "");
        contents(again, ROOM, f->out);
        assert_memory_equal(first, again, ROOM);
        assert_int_equal(tn_cache_use(f->ctx, f->cache, &after), TN_OK);
        assert_int_equal(before.files, after.files);
        snprintf(command, sizeof command, "find %s -name '*.txt' -exec truncate -s -1 {} +",
                 f->cache);
        assert_int_equal(system(command), 0);
    }
    free(first);
    free(again);
}

static void
models_of_one_context_do_not_share_symbols(void **state)
{
    Fixture *f = *state;
    TnCompileOptions o = options(f);
    char other[96];
    snprintf(other, sizeof other, "%s/u.tn", f->dir);
    /* Adding f32[n] and f32[5] teaches that n is 5 (or 1). */
    write_file(other,
               "graph @u(%x: f32[n], %z: f32[5]) -> (%y) {\n  %y: f32[5] = add(%x, %z)\n}\n");
    tn_compile(f->ctx, other, f->out, &o, NULL);
    assert_int_equal(tn_compile(f->ctx, f->model, f->out, &o, NULL), TN_OK);
    TnModel *m;
    TnValueInfo info = TN_INIT(TnValueInfo);
    assert_int_equal(tn_load(f->ctx, f->out, &m), TN_OK);
    assert_int_equal(tn_model_input(m, 0, &info), TN_OK);
    assert_int_equal(info.dims[0], -1);
    assert_string_equal(info.dim_text[0], "n");
    tn_model_free(m);
}

static void
inspect_tells_text_and_artefact(void **state)
{
    Fixture *f = *state;
    TnCompileOptions o = options(f);
    const char *told;
    assert_int_equal(tn_inspect(f->ctx, f->model, 0, &told), TN_OK);
    assert_non_null(strstr(told, "f32[n, 4]"));
    assert_non_null(strstr(told, "relu"));
    assert_int_equal(tn_compile(f->ctx, f->model, f->out, &o, NULL), TN_OK);
    assert_int_equal(tn_inspect(f->ctx, f->out, 1, &told), TN_OK);
    assert_non_null(strstr(told, "\"kind\": \"artefact\""));
}

static void
stages_end_with_null_and_say_what_they_do(void **state)
{
    (void)state;
    const char *const *what, *const *name = tn_stages(&what);
    int n = 0;
    for (; name[n]; n++)
        assert_true(strlen(what[n]) > 10);
    assert_null(what[n]);
    assert_true(n > 10);
}

static void
null_is_refused_where_something_is_wanted(void **state)
{
    Fixture *f = *state;
    TnCompileOptions o = options(f);
    const TnShape shape = { "x", 2, NULL };
    struct {
        int32_t *n;
        const char *says;
    } list[] = {
        { &o.ndims, "option dims: 2 entries at NULL" },
        { &o.nshapes, "option shapes: 2 entries at NULL" },
        { &o.nformat, "option format: 2 entries at NULL" },
        { &o.nio_format, "option io_format: 2 entries at NULL" },
        { &o.nstate, "option state: 2 entries at NULL" },
        { &o.nranges, "option ranges: 2 entries at NULL" },
        { &o.nhints, "option hints: 2 entries at NULL" },
    };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        *list[i].n = 2;
        assert_int_equal(tn_compile(f->ctx, f->model, f->out, &o, NULL), TN_USAGE);
        assert_non_null(strstr(tn_error(f->ctx), list[i].says));
        *list[i].n = -2;
        assert_int_equal(tn_compile(f->ctx, f->model, f->out, &o, NULL), TN_USAGE);
        *list[i].n = 0;
    }
    o.shapes = &shape;
    o.nshapes = 1;
    assert_int_equal(tn_compile(f->ctx, f->model, f->out, &o, NULL), TN_USAGE);
    assert_non_null(strstr(tn_error(f->ctx), "has rank 2 and dims NULL"));
    assert_int_equal(tn_interpret(f->ctx, NULL, NULL, NULL, 0, NULL, 0), TN_USAGE);
    assert_string_equal(tn_error(f->ctx), "error: no model file was named");
    assert_int_equal(tn_roofs(f->ctx, NULL, 1, NULL, 1, NULL), TN_USAGE);
    assert_int_equal(tn_roofs(f->ctx, NULL, 1, NULL, -1, NULL), TN_USAGE);
    assert_int_equal(tn_operators(f->ctx, NULL), TN_USAGE);
    assert_int_equal(tn_cache_use(f->ctx, f->cache, NULL), TN_USAGE);
    assert_string_equal(tn_error(f->ctx), "error: tn_cache_use: out is NULL");
}

static void
structs_of_another_size_are_refused(void **state)
{
    Fixture *f = *state;
    TnCompileOptions o = { .size = 4 };
    assert_int_equal(tn_compile(f->ctx, f->model, f->out, &o, NULL), TN_USAGE);
    assert_non_null(strstr(tn_error(f->ctx), "TN_INIT"));
}

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct {
    long left, live;
} Failing;

static void *
failing_alloc(void *user, size_t bytes)
{
    Failing *f = user;
    if (f->left-- <= 0)
        return NULL;
    f->live++;
    return malloc(bytes);
}

static void
failing_release(void *user, void *block)
{
    Failing *f = user;
    f->live--;
    free(block);
}

/* The n-th block refused, for every n until the compilation succeeds: always a status, never a
 * leak. Stops before the C compiler, which the caller's allocator has no part in. */
static void
any_block_may_be_refused(void **state)
{
    Fixture *f = *state;
    TnStatus status = TN_LIMIT;
    for (long n = 0; status != TN_OK; n++) {
        Failing failing = { .left = n };
        TnAllocator allocator = { sizeof allocator, failing_alloc, failing_release, &failing };
        TnCompileOptions o = options(f);
        TnContext *ctx;
        o.stop_after = "emit";
        assert_true(n < 10000);
        status = tn_context_new(&allocator, &ctx);
        if (status == TN_OK) {
            status = tn_compile(ctx, f->model, NULL, &o, NULL);
            assert_true(status == TN_OK || status == TN_LIMIT);
            if (status != TN_OK)
                assert_non_null(strstr(tn_error(ctx), "memory"));
            tn_context_free(ctx);
        }
        assert_int_equal(failing.live, 0);
    }
    assert_int_equal(access(f->out, F_OK), -1);
}

/* The same of two runs of requests, one after the other: the next has its results. */
static void
any_block_of_requests_may_be_refused(void **state)
{
    Fixture *f = *state;
    TnCompileOptions o = options(f);
    const int64_t dims[] = { 1, 4 };
    float x[4] = { 1, 2, 3, 4 };
    TnStatus status[2] = { TN_LIMIT, TN_LIMIT };

    o.many = 1;
    assert_int_equal(tn_compile(f->ctx, f->model, f->out, &o, NULL), TN_OK);
    for (long n = 0; status[0] != TN_OK || status[1] != TN_OK; n++) {
        Failing failing = { .left = LONG_MAX };
        TnAllocator allocator = { sizeof allocator, failing_alloc, failing_release, &failing };
        TnTensor in = { sizeof in, "x", "f32", 2, dims, x, sizeof x }, out = TN_INIT(TnTensor);
        TnRequest r = { sizeof r, &in, &out, 1, 1, TN_OK, NULL };
        TnContext *ctx;
        TnModel *m;
        TnSession *s;

        assert_true(n < 1000);
        assert_int_equal(tn_context_new(&allocator, &ctx), TN_OK);
        assert_int_equal(tn_load(ctx, f->out, &m), TN_OK);
        assert_int_equal(tn_session_new(ctx, m, NULL, &s), TN_OK);
        assert_int_equal(tn_run_many(s, &r, 1), TN_OK);
        failing.left = n;
        for (int i = 0; i < 2; i++) {
            status[i] = tn_run_many(s, &r, 1);
            assert_true(status[i] == TN_OK || status[i] == TN_LIMIT);
        }
        failing.left = LONG_MAX;
        assert_int_equal(tn_run_many(s, &r, 1), TN_OK);
        assert_memory_equal(out.data, ((float[]){ 50, 60 }), 2 * sizeof(float));
        tn_session_free(s);
        tn_model_free(m);
        tn_context_free(ctx);
        assert_int_equal(failing.live, 0);
    }
}

static void
a_memory_limit_is_named(void **state)
{
    Fixture *f = *state;
    TnCompileOptions o = options(f);
    o.max_memory_bytes = 10000;
    assert_int_equal(tn_compile(f->ctx, f->model, f->out, &o, NULL), TN_LIMIT);
    assert_non_null(strstr(tn_error(f->ctx), "--max-memory"));
    o.max_memory_bytes = 0;
    assert_int_equal(tn_compile(f->ctx, f->model, f->out, &o, NULL), TN_OK);
}

static void
test_no_context(void **state)
{
    (void)state;
    assert_string_equal(tn_targets(NULL), "");
    assert_int_equal(tn_compile(NULL, "m.tn", "m.so", NULL, NULL), TN_USAGE);
    assert_int_equal(tn_inspect(NULL, "m.tn", 0, NULL), TN_USAGE);
}

/* A program compiled when the options ended with `time`. */
static void
test_shorter_options(void **state)
{
    (void)state;
    TnContext *ctx;
    struct {
        TnCompileOptions o;
    } room;
    memset(&room, 0x7f, sizeof room); /* what lies behind them is not read */
    memset(&room.o, 0, offsetof(TnCompileOptions, time) + sizeof room.o.time);
    room.o.size = offsetof(TnCompileOptions, time) + sizeof room.o.time;
    assert_int_equal(tn_context_new(NULL, &ctx), TN_OK);
    assert_int_equal(tn_compile(ctx, "/nonexistent.tn", "/tmp/m.so", &room.o, NULL), TN_USAGE);
    assert_non_null(strstr(tn_error(ctx), "/nonexistent.tn: error: cannot open"));
    room.o.size--;
    assert_int_equal(tn_compile(ctx, "/nonexistent.tn", "/tmp/m.so", &room.o, NULL), TN_USAGE);
    assert_non_null(strstr(tn_error(ctx), "TnCompileOptions.size"));
    tn_context_free(ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_context),
        cmocka_unit_test(test_shorter_options),
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        T(requests_that_run_together_have_aligned_memory),
        T(requests_may_be_given_again),
        T(a_request_that_cannot_be_leaves_the_others),
        T(strings_of_requests_are_their_own),
        T(results_stay_until_the_next_run),
        T(runs_that_fail_change_nothing),
        T(a_text_model_compiles_runs_and_agrees_with_the_interpreter),
        T(choices_are_found_again_and_are_the_same),
        T(models_of_one_context_do_not_share_symbols),
        T(inspect_tells_text_and_artefact),
        T(stages_end_with_null_and_say_what_they_do),
        T(null_is_refused_where_something_is_wanted),
        T(structs_of_another_size_are_refused),
        T(any_block_may_be_refused),
        T(any_block_of_requests_may_be_refused),
        T(a_memory_limit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
