/* blocks: what a run takes as it goes. Blocks are used again, a run that stops leaves none, and a
 * model that makes its results over and over takes no more from the system than at first. */
#include "run/internal.h"
#include "tenon.h"

#include "world.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

static void
test_blocks_are_used_again(void **state)
{
    World *w = *state;
    Heap *h = heap_new(w->arena);
    uint64_t seed = 5;
    void *at[20] = { NULL };
    int64_t bytes[20] = { 0 }, after_some = 0;

    for (int round = 0; round < 10000; round++) {
        uint32_t i = random_below(&seed, 20);
        if (at[i]) {
            assert_int_equal(((unsigned char *)at[i])[bytes[i] - 1], i);
            heap_put(h, at[i], bytes[i]);
        }
        int64_t wanted = 1 + random_below(&seed, 1 << (1 + random_below(&seed, 16)));
        bytes[i] = wanted;
        at[i] = heap_get(h, &bytes[i]);
        assert_non_null(at[i]);
        assert_true(bytes[i] >= wanted && bytes[i] <= 5 * wanted + 256);
        assert_int_equal((uintptr_t)at[i] % 64, 0);
        memset(at[i], (int)i, (size_t)bytes[i]);
        if (round == 5000)
            after_some = heap_bytes(h);
    }
    assert_true(heap_bytes(h) <= 2 * after_some);
    heap_take_back(h, NULL);
    int64_t before = heap_bytes(h), one = 100;
    assert_non_null(heap_get(h, &one));
    assert_int_equal(heap_bytes(h), before);
}

static void
test_giant_sizes_are_refused(void **state)
{
    World *w = *state;
    Heap *h = heap_new(w->arena);
    int64_t giant[] = { INT64_MAX, INT64_MAX / 2, INT64_C(1) << 61 };

    for (int i = 0; i < 3; i++)
        assert_null(heap_get(h, &giant[i]));
    assert_int_equal(heap_bytes(h), 0);
}

/* A loop that carries what grows, inside a function that calls itself, with a result that only the
 * run sizes. */
static const char text[] =
    "graph @grow(%n: i64[], %x: f32[k]) -> (%r) {\n"
    "  %zero: i64[] = const [0]\n"
    "  %stop: bool[] = less_or_equal(%n, %zero)\n"
    "  %r: f32[m] = if(%stop, %n, %x) new [m]\n"
    "    with [k1 = k] graph @same(%n: i64[], %x: f32[k1]) -> (%x) { }\n"
    "    with [k2 = k] graph @more(%n: i64[], %x: f32[k2]) -> (%y) {\n"
    "      %one: i64[] = const [1]\n"
    "      %a: i64[] = sub(%n, %one)\n"
    "      %xx: f32[2*k2] = concat(%x, %x) {axis = 0}\n"
    "      %y: f32[q] = call @grow(%a, %xx) with [k = 2*k2] new [q]\n"
    "    }\n"
    "}\n"
    "graph @g(%n: i64[], %turns: i64[], %x: f32[k0]) -> (%r, %all) {\n"
    "  %y: f32[z] = call @grow(%n, %x) with [k = k0] new [z]\n"
    "  %r: f32[e], %all: f32[t, k0] = loop(%turns, _, %y, %x) carried 1 new [e, t]\n"
    "    with [c = z, b = k0] graph @body(%i: i64[], %go: bool[], %v: f32[c], %x: f32[b]) -> (%go, "
    "%w, %s) {\n"
    "      %w: f32[b + c] = concat(%v, %x) {axis = 0}\n"
    "      %s: f32[b] = neg(%x)\n"
    "    }\n"
    "}\n";

static int64_t
in_use(void)
{
    struct mallinfo2 m = mallinfo2();
    return (int64_t)(m.uordblks + m.hblkhd);
}

static void
test_runs_leave_nothing(void **state)
{
    (void)state;
    char dir[] = "/tmp/tenon-memory-XXXXXX", model[64], out[64], command[80];
    TnContext *ctx;
    TnModel *m;
    TnSession *s;
    TnTensor in[3] = { TN_INIT(TnTensor), TN_INIT(TnTensor), TN_INIT(TnTensor) },
             y[2] = { TN_INIT(TnTensor), TN_INIT(TnTensor) };
    float x[3] = { 1, 2, 3 };
    int64_t n, turns, size = 3, at_first = 0;

    assert_non_null(mkdtemp(dir));
    snprintf(model, sizeof model, "%s/m.tn", dir);
    snprintf(out, sizeof out, "%s/m.so", dir);
    FILE *f = fopen(model, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(tn_context_new(NULL, &ctx), TN_OK);
    TnCompileOptions o = {
        .size = sizeof o, .cache_dir = "", .plain_schedule = 1, .max_calls = 6, .max_trips = 7
    };
    if (tn_compile(ctx, model, out, &o, NULL) != TN_OK)
        fail_msg("%s", tn_error(ctx));
    assert_int_equal(tn_load(ctx, out, &m), TN_OK);
    TnSessionOptions one = { .size = sizeof one, .threads = 1 };
    assert_int_equal(tn_session_new(ctx, m, &one, &s), TN_OK);
    in[0].dtype = in[1].dtype = "i64";
    in[0].data = &n, in[1].data = &turns;
    in[0].bytes = in[1].bytes = 8;
    in[2].dtype = "f32", in[2].rank = 1, in[2].dims = &size, in[2].data = x, in[2].bytes = sizeof x;
    for (int run = 0; run < 10000; run++) {
        n = run % 5;
        turns = run % 4;
        if (tn_run(s, in, 3, y, 2) != TN_OK)
            fail_msg("run %d: %s", run, tn_error(ctx));
        assert_int_equal(y[0].dims[0], (3 << n) + 3 * turns);
        assert_int_equal(y[1].dims[0], turns);
        assert_float_equal(((float *)y[0].data)[y[0].dims[0] - 1], 3, 0);
        if (run == 100)
            at_first = in_use();
    }
    n = 50; /* deeper than the limit: the run stops where it stands */
    assert_int_equal(tn_run(s, in, 3, y, 2), TN_LIMIT);
    assert_non_null(strstr(tn_error(ctx), "--max-calls"));
    n = 2;
    static const int64_t too_many[] = { 8, INT64_C(1) << 40, INT64_MAX };
    for (int i = 0; i < 3; i++) {
        turns = too_many[i];
        assert_int_equal(tn_run(s, in, 3, y, 2), TN_LIMIT);
        assert_non_null(strstr(tn_error(ctx), "--max-trips"));
    }
    turns = 7;
    assert_int_equal(tn_run(s, in, 3, y, 2), TN_OK);
    assert_int_equal(y[1].dims[0], 7);
    assert_true(in_use() <= at_first + 65536);
    tn_session_free(s);
    tn_model_free(m);
    tn_context_free(ctx);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_blocks_are_used_again, world_begin, world_end),
        cmocka_unit_test_setup_teardown(test_giant_sizes_are_refused, world_begin, world_end),
        cmocka_unit_test(test_runs_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
