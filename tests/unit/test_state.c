/* state: what a session keeps between runs, against the same model that is fed its own outputs; and
 * every way to hold it wrong.
 *
 * One model has all kinds: a cache whose rows come behind (in place, its dimension moved to the
 * front), one whose rows come in front (made anew), and one that is replaced.
 */
#include "tenon.h"

#include "world.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { STATES = 3, STEPS = 90, MOST = 4 };

static const char text[] =
    "graph @step(%%x: f32[b, n, 8], %%past: f32[b, 2, p, 4], %%front: f32[b, p, 8], %%sum: f32[b, "
    "8]) -> (%%y, %%present, %%shifted, %%total) {\n"
    "%s"
    "  %%shape: i64[4] = const [0, 0, 2, 4]\n"
    "  %%heads: f32[b, n, 2, 4] = reshape(%%x, %%shape)\n"
    "  %%rows: f32[b, 2, n, 4] = transpose(%%heads) {perm = [0, 2, 1, 3]}\n"
    "  %%twice: f32[b, 2, n, 4] = add(%%rows, %%rows)\n"
    "  %%present: f32[b, 2, p + n, 4] = concat(%%past, %%twice) {axis = 2}\n"
    "  %%shifted: f32[b, n + p, 8] = concat(%%x, %%front) {axis = 1}\n"
    "  %%one: i64[1] = const [1]\n"
    "  %%two: i64[1] = const [2]\n"
    "  %%all: f32[b, 8] = reduce_sum(%%x, %%one) {keepdims = 0}\n"
    "  %%total: f32[b, 8] = add(%%sum, %%all)\n"
    "  %%most: f32[b, 2, 4] = reduce_sum(%%present, %%two) {keepdims = 0}\n"
    "  %%before: f32[b, 2, 4] = reduce_sum(%%past, %%two) {keepdims = 0}\n"
    "  %%more: f32[b, 2, 4] = sub(%%most, %%before)\n"
    "  %%flat: i64[2] = const [0, 8]\n"
    "  %%wide: f32[b, 8] = reshape(%%more, %%flat)\n"
    "  %%square: f32[b, n + p, 8] = mul(%%shifted, %%shifted)\n"
    "  %%length: f32[b, 8] = reduce_sum(%%square, %%one) {keepdims = 0}\n"
    "  %%a: f32[b, 8] = add(%%wide, %%length)\n"
    "  %%y: f32[b, 8] = add(%%a, %%total)\n"
    "}\n";
static const char states[] =
    "  state %past = %present\n  state %front = %shifted\n  state %sum = %total\n";

static char folder[64];
static TnContext *ctx;
static TnModel *kept, *plain; /* with states, and without */

static char *
in_folder(const char *name)
{
    static char path[4][128];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof *path, "%s/%s", folder, name);
    return path[next];
}

static void
write_model(const char *name, const char *declared)
{
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    fprintf(f, text, declared);
    fclose(f);
}

static TnModel *
compile(const char *name, const char *out, int64_t capacity)
{
    TnCompileOptions o = { .size = sizeof o,
                           .cache_dir = "",
                           .target = "native",
                           .quick = 1,
                           .state_capacity = capacity };
    TnModel *m;
    if (tn_compile(ctx, in_folder(name), in_folder(out), &o, NULL) != TN_OK ||
        tn_load(ctx, in_folder(out), &m) != TN_OK)
        fail_msg("%s", tn_error(ctx));
    return m;
}

static TnSession *
session_of(TnModel *m, int64_t capacity)
{
    TnSessionOptions o = { .size = sizeof o, .threads = 1, .state_capacity = capacity };
    TnSession *s;
    if (tn_session_new(ctx, m, &o, &s) != TN_OK)
        fail_msg("%s", tn_error(ctx));
    return s;
}

static int
begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tenon-state-XXXXXX");
    if (!mkdtemp(folder) || tn_context_new(NULL, &ctx) != TN_OK)
        return -1;
    write_model("plain.tn", "");
    write_model("kept.tn", states);
    plain = compile("plain.tn", "plain.so", 0);
    kept = compile("kept.tn", "kept.so", 0);
    return 0;
}

static int
end(void **state)
{
    char command[80];
    (void)state;
    tn_model_free(kept);
    tn_model_free(plain);
    tn_context_free(ctx);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static TnTensor
tensor(const char *dtype, int32_t rank, const int64_t *dims, void *data)
{
    TnTensor t = {
        .size = sizeof t, .dtype = dtype, .rank = rank, .dims = dims, .data = data, .bytes = 4
    };
    for (int32_t d = 0; d < rank; d++)
        t.bytes *= dims[d];
    return t;
}

static float input[MOST * MOST * 8];

/* The n rows of a step, for b sequences; the same for the same step. */
static TnTensor
rows(int step, int64_t b, int64_t n)
{
    static int64_t dims[4][3];
    static int next;
    uint64_t seed = 77 + (uint64_t)step;
    int64_t *d = dims[next++ % 4];

    d[0] = b, d[1] = n, d[2] = 8;
    for (int64_t i = 0; i < b * n * 8; i++)
        input[i] = (float)((int)random_below(&seed, 2001) - 1000) / 1000;
    return tensor("f32", 3, d, input);
}

static void
run_kept(TnSession *s, int step, int64_t b, int64_t n, float *y)
{
    TnTensor in = rows(step, b, n), out = TN_INIT(TnTensor);
    if (tn_run(s, &in, 1, &out, 1) != TN_OK)
        fail_msg("step %d: %s", step, tn_error(ctx));
    assert_string_equal(out.name, "y");
    memcpy(y, out.data, (size_t)out.bytes);
}

/* The model without states, fed what it gave; rows may be taken off the end. */
typedef struct {
    TnSession *s;
    float *state[STATES];
    int64_t p, b;
} Fed;

static Fed
fed_new(int64_t b)
{
    Fed f = { .s = session_of(plain, 0), .b = b };
    for (int i = 0; i < STATES; i++)
        f.state[i] = calloc(1 << 20, sizeof(float));
    return f;
}

static void
fed_end(Fed *f)
{
    tn_session_free(f->s);
    for (int i = 0; i < STATES; i++)
        free(f->state[i]);
}

static void
run_fed(Fed *f, int step, int64_t n, float *y)
{
    int64_t past[] = { f->b, 2, f->p, 4 }, front[] = { f->b, f->p, 8 }, sum[] = { f->b, 8 };
    TnTensor in[] = { rows(step, f->b, n), tensor("f32", 4, past, f->state[0]),
                      tensor("f32", 3, front, f->state[1]), tensor("f32", 2, sum, f->state[2]) };
    TnTensor out[] = { TN_INIT(TnTensor), TN_INIT(TnTensor), TN_INIT(TnTensor), TN_INIT(TnTensor) };
    if (tn_run(f->s, in, 4, out, 4) != TN_OK)
        fail_msg("step %d: %s", step, tn_error(ctx));
    memcpy(y, out[0].data, (size_t)out[0].bytes);
    for (int i = 0; i < STATES; i++)
        memcpy(f->state[i], out[1 + i].data, (size_t)out[1 + i].bytes);
    f->p += n;
}

static void
same(const float *x, const float *y, int64_t n, int step)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(x[i] - y[i]) <= 1e-5f * (1 + fabsf(y[i]))))
            fail_msg("step %d, element %lld: %g with state, %g without", step, (long long)i,
                     (double)x[i], (double)y[i]);
}

/* ---- */

static void
test_what_the_model_tells(void **state)
{
    TnState s = TN_INIT(TnState);
    TnValueInfo v = TN_INIT(TnValueInfo);
    (void)state;

    assert_int_equal(tn_model_states(plain), 0);
    assert_int_equal(tn_model_inputs(plain), 4);
    assert_int_equal(tn_model_states(kept), STATES);
    assert_int_equal(tn_model_inputs(kept), 1);
    assert_int_equal(tn_model_outputs(kept), 1);
    assert_int_equal(tn_model_output(kept, 0, &v), TN_OK);
    assert_string_equal(v.name, "y");
    assert_int_equal(tn_model_state(kept, 0, &s), TN_OK);
    assert_string_equal(s.input, "past");
    assert_string_equal(s.output, "present");
    assert_int_equal(s.axis, 0);
    assert_true(s.in_place);
    assert_string_equal(s.dim_text[0], "p"); /* moved to the front */
    assert_string_equal(s.dim_text[1], "b");
    assert_int_equal(tn_model_state(kept, 1, &s), TN_OK);
    assert_int_equal(s.axis, 1);
    assert_false(s.in_place);
    assert_int_equal(tn_model_state(kept, 2, &s), TN_OK);
    assert_int_equal(s.axis, -1);
    assert_int_equal(tn_model_state(kept, 3, &s), TN_USAGE);
    assert_non_null(strstr(tn_error(ctx), "state 3 asked for, the model has 3"));
}

static void
test_steps(void **state)
{
    float x[MOST * 8], y[MOST * 8];
    uint64_t seed = 3;
    (void)state;

    for (int64_t b = 1; b <= 3; b += 2) {
        TnSession *s = session_of(kept, 0);
        Fed f = fed_new(b);
        for (int step = 0; step < STEPS; step++) {
            int64_t n = step ? random_below(&seed, MOST) : MOST; /* nothing new at times */
            run_kept(s, step, b, n, x);
            run_fed(&f, step, n, y);
            same(x, y, b * 8, step);
            assert_int_equal(tn_session_state_length(s), f.p);
        }
        assert_int_equal(tn_session_state_bytes(s), 4 * (2 * f.p * b * 8 + b * 8));
        assert_int_equal(tn_session_state_reset(s), TN_OK);
        assert_int_equal(tn_session_state_length(s), 0);
        fed_end(&f);
        f = fed_new(b);
        for (int step = 0; step < 5; step++) {
            run_kept(s, step, b, 1, x);
            run_fed(&f, step, 1, y);
            same(x, y, b * 8, step);
        }
        fed_end(&f);
        tn_session_free(s);
    }
}

static const char growing[] = "graph @step(%x: f32[b, n, 3], %past: f32[b, p, 3], %left: f32[b, p, "
                              "3]) -> (%y, %present, %more) {\n"
                              "  state %past = %present\n  state %left = %more\n"
                              "  %present: f32[b, p + n, 3] = concat(%past, %x) {axis = 1}\n"
                              "  %abs: f32[b, n, 3] = abs(%x)\n"
                              "  %zero: f32[] = const [0.0]\n"
                              "  %same: f32[b, p, 3] = add(%left, %zero)\n"
                              "  %both: f32[b, p + n, 3] = concat(%left, %x) {axis = 1}\n"
                              /* every run turns the signs of all: not in place */
                              "  %more: f32[b, p + n, 3] = neg(%both)\n"
                              "  %one: i64[1] = const [1]\n"
                              "  %a: f32[b, 3] = reduce_sum(%present, %one) {keepdims = 0}\n"
                              "  %c: f32[b, 3] = reduce_sum(%more, %one) {keepdims = 0}\n"
                              "  %y: f32[b, 3] = add(%a, %c)\n"
                              "}\n";

static void
test_the_last_rows_are_dropped(void **state)
{
    float x[12], want[12], in[12] = { 1, 2, 3, 10, 20, 30, 100, 200, 300, 1000, 2000, 3000 };
    int64_t dims[] = { 2, 2, 3 };
    TnTensor t = tensor("f32", 3, dims, in), out = TN_INIT(TnTensor);
    (void)state;
    FILE *f = fopen(in_folder("growing.tn"), "w");
    fputs(growing, f);
    fclose(f);
    TnModel *m = compile("growing.tn", "growing.so", 0);
    TnSession *a = session_of(m, 0);
    TnState info = TN_INIT(TnState);

    assert_int_equal(tn_model_state(m, 0, &info), TN_OK);
    assert_true(info.in_place);
    assert_int_equal(tn_model_state(m, 1, &info), TN_OK);
    assert_false(info.in_place);
    assert_int_equal(tn_run(a, &t, 1, &out, 1), TN_OK);
    assert_int_equal(tn_session_state_drop(a, 3), TN_USAGE);
    assert_non_null(strstr(tn_error(ctx), "holds 2 rows, 3 are to go"));
    assert_int_equal(tn_session_state_drop(a, -1), TN_USAGE);
    assert_int_equal(tn_session_state_drop(a, 1), TN_OK);
    assert_int_equal(tn_session_state_length(a), 1);
    assert_int_equal(tn_run(a, &t, 1, &out, 1), TN_OK);
    memcpy(x, out.data, sizeof(float) * 6);
    for (int b = 0; b < 2; b++)
        for (int k = 0; k < 3; k++) {
            float one = in[6 * b + k], two = in[6 * b + 3 + k];
            want[3 * b + k] = (one + one + two) + (one - one - two);
        }
    same(x, want, 6, 1);
    tn_session_free(a);
    tn_model_free(m);
}

static int64_t
in_use(void)
{
    struct mallinfo2 m = mallinfo2();
    return (int64_t)(m.uordblks + m.hblkhd);
}

static void
test_reserved_runs_take_nothing(void **state)
{
    float y[8];
    TnSession *s = session_of(kept, 0);
    TnTensor in = rows(0, 1, 2);
    (void)state;

    if (tn_session_state_reserve(s, 500, &in, 1) != TN_OK)
        fail_msg("%s", tn_error(ctx));
    assert_int_equal(tn_session_state_length(s), 0);
    run_kept(s, 0, 1, 1, y);
    int64_t before = in_use();
    for (int step = 1; step < 400; step++)
        run_kept(s, step, 1, 1, y);
    assert_int_equal(tn_session_state_length(s), 400);
    assert_int_equal(in_use(), before);
    assert_int_equal(tn_session_state_reserve(s, -1, &in, 1), TN_USAGE);
    tn_session_free(s);
}

static void
test_a_full_state(void **state)
{
    float x[8], y[8];
    TnModel *m = compile("kept.tn", "bounded.so", 5);
    TnSession *s = session_of(m, 0), *less = session_of(m, 3);
    TnTensor in = rows(0, 1, 3), out = TN_INIT(TnTensor);
    Fed f = fed_new(1);
    (void)state;

    run_kept(s, 0, 1, 3, x);
    run_fed(&f, 0, 3, y);
    same(x, y, 8, 0);
    assert_int_equal(tn_run(s, &in, 1, &out, 1), TN_LIMIT);
    assert_non_null(
        strstr(tn_error(ctx), "holds 3 rows, and this run makes them 6; its capacity is 5"));
    assert_int_equal(tn_session_state_length(s), 3);
    run_kept(s, 1, 1, 2, x); /* the session goes on where it was */
    run_fed(&f, 1, 2, y);
    same(x, y, 8, 1);
    run_kept(less, 0, 1, 3, x);
    in = rows(0, 1, 1);
    assert_int_equal(tn_run(less, &in, 1, &out, 1), TN_LIMIT);
    assert_non_null(strstr(tn_error(ctx), "its capacity is 3"));
    fed_end(&f);
    tn_session_free(less);
    tn_session_free(s);
    tn_model_free(m);
}

static void
test_wrong_uses(void **state)
{
    float x[MOST * 8], y[MOST * 8];
    TnSession *s = session_of(kept, 0);
    TnTensor in = rows(0, 2, 1), out = TN_INIT(TnTensor);
    Fed f = fed_new(2);
    (void)state;

    run_kept(s, 0, 2, 1, x);
    run_fed(&f, 0, 1, y);
    in = rows(1, 3, 1); /* another batch while there is something */
    assert_int_equal(tn_run(s, &in, 1, &out, 1), TN_USAGE);
    assert_non_null(
        strstr(tn_error(ctx), "(b) is 2 since the runs before, and the inputs make it 3"));
    assert_int_equal(tn_session_state_drop(s, 1), TN_USAGE);
    assert_non_null(strstr(tn_error(ctx), "\"sum\" is replaced as a whole"));
    assert_int_equal(tn_session_state_length(s), 1);
    run_kept(s, 1, 2, 1, x);
    run_fed(&f, 1, 1, y);
    same(x, y, 16, 1);
    assert_int_equal(tn_session_state_reset(s), TN_OK);
    run_kept(s, 0, 3, 1, x); /* another batch is as good after that */
    fed_end(&f);
    tn_session_free(s);

    s = session_of(plain, 0);
    assert_int_equal(tn_session_state_drop(s, 0), TN_USAGE);
    assert_non_null(strstr(tn_error(ctx), "keeps no state"));
    tn_session_free(s);
    TnSessionOptions o = { .size = sizeof o, .state_capacity = -4 };
    assert_int_equal(tn_session_new(ctx, kept, &o, &s), TN_USAGE);
    assert_non_null(strstr(tn_error(ctx), "state_capacity is -4"));
    /* of a program from before there were states */
    o.size = offsetof(TnSessionOptions, state_capacity);
    assert_int_equal(tn_session_new(ctx, kept, &o, &s), TN_OK);
    tn_session_free(s);
}

/* Who knows nothing of states gives past and present apart, in memory of its own, and has what the
 * model says. */
static void
test_apart(void **state)
{
    TnCompileOptions o = { .size = sizeof o, .cache_dir = "" };
    TnTensor in = rows(0, 2, 3), out = TN_INIT(TnTensor), mine = TN_INIT(TnTensor);
    TnSession *s = session_of(kept, 0);
    (void)state;

    assert_int_equal(tn_run(s, &in, 1, &mine, 1), TN_OK);
    /* states begin empty */
    if (tn_interpret(ctx, in_folder("kept.tn"), &o, &in, 1, &out, 1) != TN_OK)
        fail_msg("%s", tn_error(ctx));
    same(mine.data, out.data, 16, 0);
    tn_session_free(s);
}

/* Every kind of state, each shown whole: what arrangements do to it is seen element by element. */
static const char shown[] =
    "graph @step(%x: f32[b, n, 3], %past: f32[b, p, 3], %left: f32[b, p, 3], %sum: f32[b, 3]) -> "
    "(%y, %z, %w, %present, %more, %total) {\n"
    "  state %past = %present\n  state %left = %more\n  state %sum = %total\n"
    "  %present: f32[b, p + n, 3] = concat(%past, %x) {axis = 1}\n"
    "  %both: f32[b, p + n, 3] = concat(%left, %x) {axis = 1}\n"
    "  %more: f32[b, p + n, 3] = neg(%both)\n"
    "  %one: i64[1] = const [1]\n"
    "  %all: f32[b, 3] = reduce_sum(%x, %one) {keepdims = 0}\n"
    "  %total: f32[b, 3] = add(%sum, %all)\n"
    "  %y: f32[b, p + n, 3] = neg(%present)\n"
    "  %z: f32[b, p + n, 3] = neg(%more)\n"
    "  %w: f32[b, 3] = neg(%total)\n"
    "}\n";

enum { ROWS = 24 };
typedef struct {
    int64_t b, p;
    float past[MOST][ROWS][3], left[MOST][ROWS][3], sum[MOST][3];
} Held;
typedef struct {
    int64_t b, p, of[MOST], from[MOST * ROWS];
} Order;

static void
held_run(Held *h, const float *x, int64_t n)
{
    for (int64_t b = 0; b < h->b; b++)
        for (int64_t k = 0; k < 3; k++) {
            for (int64_t r = 0; r < n; r++) {
                float v = x[(b * n + r) * 3 + k];
                h->past[b][h->p + r][k] = h->left[b][h->p + r][k] = v;
                h->sum[b][k] += v;
            }
            for (int64_t r = 0; r < h->p + n; r++)
                h->left[b][r][k] = -h->left[b][r][k];
        }
    h->p += n;
}

static Held
held_arranged(const Held *h, const Order *o)
{
    Held to = { .b = o->b, .p = o->p };
    for (int64_t b = 0; b < o->b; b++) {
        int64_t of = o->of[b];
        if (of < 0)
            continue;
        memcpy(to.sum[b], h->sum[of], sizeof to.sum[b]);
        for (int64_t r = 0; r < o->p; r++) {
            int64_t from = o->from[b * o->p + r];
            if (from < 0)
                continue;
            memcpy(to.past[b][r], h->past[of][from], sizeof to.past[b][r]);
            memcpy(to.left[b][r], h->left[of][from], sizeof to.left[b][r]);
        }
    }
    return to;
}

static TnStatus
arrange_as(TnSession *s, const Order *o)
{
    TnArrangement a = { .size = sizeof a,
                        .dim = "b",
                        .sequences = o->b,
                        .of = o->of,
                        .length = o->p,
                        .from = o->from };
    return tn_session_state_arrange(s, &a);
}

/* Orders of every kind: `kind` 0 keeps what is not left out in its order, as a batch that is
 * compacted; 1 is anything. */
static Order
random_order(uint64_t *seed, const Held *h, int kind)
{
    Order o = { .b = kind ? 1 + random_below(seed, MOST) : h->b,
                .p = kind ? random_below(seed, ROWS / 2) : h->p };
    for (int64_t b = 0; b < o.b; b++)
        o.of[b] = kind ? (int64_t)random_below(seed, (uint32_t)h->b + 1) - 1 : b;
    if (!kind)
        o.p = (h->p + 1) / 2;
    for (int64_t i = 0; i < o.b * o.p; i++)
        o.from[i] = kind ? (int64_t)random_below(seed, (uint32_t)h->p + 1) - 1 : i % o.p * 2;
    return o;
}

static TnModel *
model_shown(void)
{
    FILE *f = fopen(in_folder("shown.tn"), "w");
    assert_non_null(f);
    fputs(shown, f);
    fclose(f);
    return compile("shown.tn", "shown.so", ROWS);
}

static void
run_shown(TnSession *s, Held *h, uint64_t *seed, int64_t n)
{
    float x[MOST * ROWS * 3];
    int64_t dims[] = { h->b, n, 3 };
    TnTensor in = tensor("f32", 3, dims, x),
             out[] = { TN_INIT(TnTensor), TN_INIT(TnTensor), TN_INIT(TnTensor) };

    for (int64_t i = 0; i < h->b * n * 3; i++)
        x[i] = (float)random_below(seed, 1000);
    if (tn_run(s, &in, 1, out, 3) != TN_OK)
        fail_msg("%s", tn_error(ctx));
    held_run(h, x, n);
    for (int64_t b = 0; b < h->b; b++)
        for (int64_t k = 0; k < 3; k++) {
            for (int64_t r = 0; r < h->p; r++) {
                assert_true(((float *)out[0].data)[(b * h->p + r) * 3 + k] == -h->past[b][r][k]);
                assert_true(((float *)out[1].data)[(b * h->p + r) * 3 + k] == -h->left[b][r][k]);
            }
            assert_true(((float *)out[2].data)[b * 3 + k] == -h->sum[b][k]);
        }
}

static void
test_sequences_and_rows_arranged(void **state)
{
    TnModel *m = model_shown();
    TnSession *s = session_of(m, 0);
    Held h = { .b = 3 };
    uint64_t seed = 1813;
    (void)state;

    for (int step = 0; step < 400; step++) {
        int64_t n = random_below(&seed, 4);
        if (h.p + n <= ROWS)
            run_shown(s, &h, &seed, n);
        if (h.p + n <= ROWS && random_below(&seed, 2))
            continue;
        Order o = random_order(&seed, &h, step % 3 == 0 ? 0 : 1);
        if (arrange_as(s, &o) != TN_OK)
            fail_msg("step %d: %s", step, tn_error(ctx));
        h = held_arranged(&h, &o);
        assert_int_equal(tn_session_state_length(s), h.p);
    }
    tn_session_free(s);
    tn_model_free(m);
}

static void
test_arrangements_that_cannot_be(void **state)
{
    TnModel *m = model_shown();
    TnSession *s = session_of(m, 0);
    Held h = { .b = 2 };
    uint64_t seed = 5;
    Order o = { .b = 2, .p = 2, .of = { 0, 1 }, .from = { 0, 1, 0, 1 } };
    TnArrangement a = { .size = sizeof a, .dim = "batch", .sequences = 2, .of = o.of, .length = 2 };
    (void)state;

    assert_int_equal(arrange_as(s, &o), TN_USAGE);
    assert_non_null(strstr(tn_error(ctx), "\"past\" holds nothing yet"));
    run_shown(s, &h, &seed, 3);
    assert_int_equal(tn_session_state_arrange(s, &a), TN_USAGE);
    assert_non_null(
        strstr(tn_error(ctx),
               "has no dimension batch that could count sequences; its dimensions are p, b, 3"));
    a.dim = "b", a.length = 4;
    assert_int_equal(tn_session_state_arrange(s, &a), TN_USAGE);
    assert_non_null(
        strstr(tn_error(ctx), "the first 4 rows of state \"past\" are to stay, it has 3"));
    a.length = ROWS + 1, a.from = o.from;
    assert_int_equal(tn_session_state_arrange(s, &a), TN_LIMIT);
    assert_non_null(strstr(tn_error(ctx), "would have 25 rows; its capacity is 24"));
    a.sequences = -1;
    assert_int_equal(tn_session_state_arrange(s, &a), TN_USAGE);
    assert_int_equal(tn_session_state_arrange(s, NULL), TN_USAGE);
    o.of[1] = 2;
    assert_int_equal(arrange_as(s, &o), TN_USAGE);
    assert_non_null(
        strstr(tn_error(ctx), "sequence 1 is to be sequence 2 of state \"past\", which has 2"));
    o.of[1] = 1, o.from[3] = 3;
    assert_int_equal(arrange_as(s, &o), TN_USAGE);
    assert_non_null(
        strstr(tn_error(ctx), "row 1 of sequence 1 is to be row 3 of state \"past\", which has 3"));
    run_shown(s, &h, &seed, 2); /* nothing was changed by any of them */
    a = (TnArrangement){ .size = sizeof a, .dim = "b", .sequences = 1, .of = o.of, .length = 5 };
    /* the second is gone, all rows stay */
    assert_int_equal(tn_session_state_arrange(s, &a), TN_OK);
    h.b = 1;
    run_shown(s, &h, &seed, 1);
    tn_session_free(s);
    tn_model_free(m);
    s = session_of(plain, 0);
    assert_int_equal(arrange_as(s, &o), TN_USAGE);
    assert_non_null(strstr(tn_error(ctx), "keeps no state"));
    tn_session_free(s);
}

/* ---- forks ---- */

enum { WIDE = 64, LONG = 2000, FORKS = 5, TURNS = 160 };
static const char wide[] = "graph @wide(%x: f32[n, 64], %past: f32[p, 64], %left: f32[p, 64]) -> "
                           "(%y, %z, %present, %more) {\n"
                           "  state %past = %present\n  state %left = %more\n"
                           "  %present: f32[p + n, 64] = concat(%past, %x) {axis = 0}\n"
                           "  %both: f32[p + n, 64] = concat(%left, %x) {axis = 0}\n"
                           "  %more: f32[p + n, 64] = neg(%both)\n"
                           "  %y: f32[p + n, 64] = neg(%present)\n"
                           "  %z: f32[p + n, 64] = neg(%more)\n"
                           "}\n";
typedef struct {
    TnSession *s;
    int64_t p;
    float *past, *left;
} Branch; /* [LONG * WIDE] */

static TnModel *
model_wide(void)
{
    FILE *f = fopen(in_folder("wide.tn"), "w");
    assert_non_null(f);
    fputs(wide, f);
    fclose(f);
    return compile("wide.tn", "wide.so", 0);
}

static Branch
branch_new(TnModel *m)
{
    return (Branch){ session_of(m, 0), 0, calloc(LONG * WIDE, sizeof(float)),
                     calloc(LONG * WIDE, sizeof(float)) };
}

static void
branch_end(Branch *b)
{
    tn_session_free(b->s);
    free(b->past);
    free(b->left);
}

static void
branch_run(Branch *b, int64_t n, float first)
{
    static float x[LONG * WIDE];
    int64_t dims[] = { n, WIDE }, held = b->p * WIDE, all = held + n * WIDE;
    TnTensor in = tensor("f32", 2, dims, x), out[2] = { TN_INIT(TnTensor), TN_INIT(TnTensor) };

    for (int64_t i = 0; i < n * WIDE; i++)
        x[i] = b->past[held + i] = b->left[held + i] = first + (float)i;
    for (int64_t i = 0; i < all; i++)
        b->left[i] = -b->left[i];
    if (tn_run(b->s, &in, 1, out, 2) != TN_OK)
        fail_msg("%s", tn_error(ctx));
    b->p += n;
    assert_int_equal(tn_session_state_length(b->s), b->p);
    for (int64_t i = 0; i < all; i++)
        if (((float *)out[0].data)[i] != -b->past[i] || ((float *)out[1].data)[i] != -b->left[i])
            fail_msg("row %lld of %lld is another's", (long long)i / WIDE, (long long)b->p);
}

static void
branch_fork(Branch *to, const Branch *from)
{
    if (tn_session_state_fork(to->s, from->s) != TN_OK)
        fail_msg("%s", tn_error(ctx));
    to->p = from->p;
    memmove(to->past, from->past, LONG * WIDE * sizeof(float));
    memmove(to->left, from->left, LONG * WIDE * sizeof(float));
}

static void
branch_drop(Branch *b, int64_t n)
{
    assert_int_equal(tn_session_state_drop(b->s, n), TN_OK);
    b->p -= n;
}

/* Sessions that run, drop rows, begin anew, end and fork from each other, in any order. */
static void
fork_at_random(TnModel *m, uint64_t seed)
{
    Branch b[FORKS];

    for (int i = 0; i < FORKS; i++)
        b[i] = branch_new(m);
    for (int turn = 0; turn < TURNS; turn++) {
        Branch *x = &b[random_below(&seed, FORKS)], *y = &b[random_below(&seed, FORKS)];
        switch (random_below(&seed, 8)) {
        case 0: branch_drop(x, (int64_t)random_below(&seed, (uint32_t)x->p + 1)); break;
        case 1:
            assert_int_equal(tn_session_state_reset(x->s), TN_OK);
            x->p = 0;
            break;
        case 2:
            branch_end(x);
            *x = branch_new(m);
            break;
        case 3:
        case 4:
        case 5: branch_fork(x, y); break;
        }
        int64_t n = (int64_t)random_below(&seed, 500);
        if (x->p + n < LONG)
            branch_run(x, n, (float)turn);
        branch_run(y, y->p + 1 < LONG, (float)-turn);
    }
    for (int i = 0; i < FORKS; i++)
        branch_end(&b[i]);
}

static void
test_forks(void **state)
{
    struct rlimit files, none;
    TnModel *m = model_wide();
    (void)state;

    for (uint64_t seed = 1; seed <= 4; seed++)
        fork_at_random(m, seed);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    none = files;
    none.rlim_cur = 0; /* the system gives no file: all is copied */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    fork_at_random(m, 5);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    tn_model_free(m);
}

/* KB of memory that this process has, what is mapped twice counted once. */
static long
memory_in_use(void)
{
    char line[200];
    long kb = -1;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");

    while (f && kb < 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "Pss: %ld kB", &kb) != 1)
            kb = -1;
    if (f)
        fclose(f);
    return kb;
}

static void
test_what_forks_begin_with_is_there_once(void **state)
{
    enum { FORKED = 8, SHARED = LONG - 8, KB = SHARED * WIDE * (int)sizeof(float) / 1024 };
    TnModel *m = model_wide();
    Branch first = branch_new(m), more[FORKED];
    (void)state;

    for (int i = 0; i < FORKED; i++)
        more[i] = branch_new(m);
    branch_run(&first, SHARED, 1);
    branch_fork(&more[0], &first);
    branch_fork(&more[0], &first);
    long before = memory_in_use();
    if (before < 0)
        skip();
    for (int i = 1; i < FORKED; i++)
        assert_int_equal(tn_session_state_fork(more[i].s, more[i - 1].s), TN_OK);
    /* seven times both states would be 14 times KB */
    assert_in_range(memory_in_use() - before + KB / 2, 0, KB);
    for (int i = 1; i < FORKED; i++) {
        more[i].p = first.p;
        memcpy(more[i].past, first.past, LONG * WIDE * sizeof(float));
        memcpy(more[i].left, first.left, LONG * WIDE * sizeof(float));
        branch_run(&more[i], 3, (float)i);
    }
    branch_end(&first);
    for (int i = FORKED; i-- > 0;) {
        branch_run(&more[i], 1, (float)i);
        branch_end(&more[i]);
    }
    tn_model_free(m);
}

static void
test_forks_that_cannot_be(void **state)
{
    TnModel *m = model_wide();
    Branch a = branch_new(m);
    TnSession *small = session_of(m, 10), *other = session_of(kept, 0),
              *none = session_of(plain, 0), *same = session_of(plain, 0);
    (void)state;

    branch_run(&a, 11, 1);
    assert_int_equal(tn_session_state_fork(small, a.s), TN_LIMIT);
    assert_non_null(strstr(tn_error(ctx), "hold 11 rows; the capacity here is 10"));
    assert_int_equal(tn_session_state_fork(other, a.s), TN_USAGE);
    assert_non_null(strstr(tn_error(ctx), "are to be of one model"));
    assert_int_equal(tn_session_state_fork(none, same), TN_USAGE);
    assert_non_null(strstr(tn_error(ctx), "keeps no state"));
    assert_int_equal(tn_session_state_fork(a.s, NULL), TN_USAGE);
    assert_int_equal(tn_session_state_fork(NULL, a.s), TN_USAGE);
    assert_int_equal(tn_session_state_fork(a.s, a.s), TN_OK);
    branch_run(&a, 1, 2);
    /* nothing was run there: empty */
    assert_int_equal(tn_session_state_fork(a.s, small), TN_OK);
    assert_int_equal(tn_session_state_length(a.s), 0);
    a.p = 0;
    branch_run(&a, 5, 3);
    for (int i = 0; i < 4; i++)
        tn_session_free((TnSession *[]){ small, other, none, same }[i]);
    branch_end(&a);
    tn_model_free(m);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_model_tells),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_the_last_rows_are_dropped),
        cmocka_unit_test(test_reserved_runs_take_nothing),
        cmocka_unit_test(test_a_full_state),
        cmocka_unit_test(test_wrong_uses),
        cmocka_unit_test(test_apart),
        cmocka_unit_test(test_sequences_and_rows_arranged),
        cmocka_unit_test(test_arrangements_that_cannot_be),
        cmocka_unit_test(test_forks),
        cmocka_unit_test(test_what_forks_begin_with_is_there_once),
        cmocka_unit_test(test_forks_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
