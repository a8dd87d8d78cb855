/* Many threads at once: sessions of one shared model, models loaded and freed meanwhile,
 * compilations beside each other. Every thread has a context of its own, as tenon.h asks. Results
 * are compared here; that nothing is touched by two threads unordered is for the thread sanitizer
 * to see (./dev test tsan), kernels included.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon.h"

enum { THREADS = 4, ROUNDS = 12, ROWS = 64, COLUMNS = 48 };

#ifdef __SANITIZE_THREAD__
static const char cc[] = "cc -fsanitize=thread";
#else
static const char cc[] = "cc";
#endif

static char folder[64];
static TnContext *main_ctx;
static TnModel *shared;

/* Rows enough for every thread of a pool, two kernels so that one waits for the other. */
static const char model_text[] = "graph @t(%x: f32[batch, 48]) -> (%y) {\n"
                                 "  %h: f32[48, batch] = transpose(%x) {perm = [1, 0]}\n"
                                 "  %s: f32[48, batch] = softmax(%h) {axis = 1}\n"
                                 "  %m: f32[batch, batch] = matmul(%x, %s)\n"
                                 "  %y: f32[batch, batch] = tanh(%m)\n"
                                 "}\n";

static void
in_folder(char path[160], const char *name)
{
    snprintf(path, 160, "%s/%s", folder, name);
}

static TnStatus
compile(TnContext *ctx, const char *name)
{
    TnCompileOptions o = TN_INIT(TnCompileOptions);
    char model[160], out[160], cache[160];
    in_folder(model, "m.tn");
    in_folder(out, name);
    in_folder(cache, "cache");
    o.cc = cc;
    o.cache_dir = cache;
    o.jobs = 2;
    return tn_compile(ctx, model, out, &o, NULL);
}

static TnStatus
run(TnContext *ctx, TnModel *m, int rounds)
{
    static float first[ROWS * ROWS];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool known;
    float x[ROWS * COLUMNS];
    TnSessionOptions o = { sizeof o, 2, NULL };
    TnSession *session;
    TnValueInfo info = TN_INIT(TnValueInfo);

    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)(i * 7 % 31) * 0.1f - 1.5f;
    TnStatus s = tn_model_input(m, 0, &info);
    if (s == TN_OK)
        s = tn_session_new(ctx, m, &o, &session);
    if (s != TN_OK)
        return s;
    for (int r = 0; r < rounds && s == TN_OK; r++) {
        int64_t batch = r % 2 ? ROWS : ROWS / 2;
        TnTensor in = { sizeof in,          NULL, "f32", 2, (const int64_t[]){ batch, COLUMNS }, x,
                        batch * COLUMNS * 4 },
                 out = TN_INIT(TnTensor);
        s = tn_run(session, &in, 1, &out, 1);
        if (s != TN_OK || batch != ROWS)
            continue;
        pthread_mutex_lock(&lock);
        if (!known)
            memcpy(first, out.data, sizeof first);
        known = true;
        bool same = !memcmp(first, out.data, sizeof first);
        pthread_mutex_unlock(&lock);
        if (!same)
            s = TN_INTERNAL;
    }
    tn_session_free(session);
    return s;
}

static TnStatus
run_shared(TnContext *ctx, int number)
{
    (void)number;
    return run(ctx, shared, ROUNDS);
}

static TnStatus
load_and_free(TnContext *ctx, int number)
{
    char path[160];
    TnStatus s = TN_OK;
    in_folder(path, number % 2 ? "m.so" : "copy.so");
    for (int r = 0; r < ROUNDS && s == TN_OK; r++) {
        TnModel *m;
        s = tn_load(ctx, path, &m);
        if (s == TN_OK)
            s = run(ctx, m, 2);
        tn_model_free(m);
    }
    return s;
}

static TnStatus
compile_and_load(TnContext *ctx, int number)
{
    char name[16], path[160];
    TnModel *m = NULL;
    snprintf(name, sizeof name, "n%d.so", number / 2); /* two threads write each file */
    in_folder(path, name);
    TnStatus s = compile(ctx, name);
    if (s == TN_OK)
        s = tn_load(ctx, path, &m);
    if (s == TN_OK)
        s = run(ctx, m, 2);
    tn_model_free(m);
    return s;
}

typedef struct {
    pthread_t thread;
    int number;
    TnStatus (*work)(TnContext *ctx, int number);
    TnStatus status;
    char message[512];
} Worker;

static void *
begin_work(void *arg)
{
    Worker *w = arg;
    TnContext *ctx;
    w->status = tn_context_new(NULL, &ctx);
    if (w->status != TN_OK)
        return NULL;
    w->status = w->work(ctx, w->number);
    snprintf(w->message, sizeof w->message, "%s", tn_error(ctx));
    tn_context_free(ctx);
    return NULL;
}

static void
side_by_side(void **state)
{
    (void)state;
    static TnStatus (*const work[])(TnContext *, int) = { run_shared, load_and_free,
                                                          compile_and_load };
    Worker worker[3 * THREADS] = { 0 };
    for (int i = 0; i < 3 * THREADS; i++) {
        worker[i].number = i / 3;
        worker[i].work = work[i % 3];
        assert_int_equal(pthread_create(&worker[i].thread, NULL, begin_work, &worker[i]), 0);
    }
    for (int i = 0; i < 3 * THREADS; i++)
        pthread_join(worker[i].thread, NULL);
    for (int i = 0; i < 3 * THREADS; i++)
        if (worker[i].status != TN_OK)
            fail_msg("thread %d: %s: %s", i, tn_status_name(worker[i].status), worker[i].message);
}

static int
begin(void **state)
{
    (void)state;
    char path[160], copy[400];
    strcpy(folder, "/tmp/tenon-test-parallel-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    in_folder(path, "m.tn");
    FILE *f = fopen(path, "w");
    if (!f || fputs(model_text, f) < 0 || fclose(f) || tn_context_new(NULL, &main_ctx) != TN_OK)
        return -1;
    if (compile(main_ctx, "m.so") != TN_OK) {
        print_message("%s\n", tn_error(main_ctx));
        return -1;
    }
    snprintf(copy, sizeof copy, "cp %s/m.so %s/copy.so", folder, folder);
    in_folder(path, "m.so");
    return system(copy) || tn_load(main_ctx, path, &shared) != TN_OK ? -1 : 0;
}

static int
end(void **state)
{
    (void)state;
    char command[128];
    tn_model_free(shared);
    tn_context_free(main_ctx);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int
main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(side_by_side) };
    return cmocka_run_group_tests(tests, begin, end);
}
