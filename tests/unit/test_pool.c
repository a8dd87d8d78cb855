/* pool: every trip is done exactly once, whatever the sizes; ranges are worth half a grain at
 * least. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/run.h"

enum { MOST = 5000 };

typedef struct {
    atomic_uchar done[MOST];
    atomic_int ranges, short_ranges, bad_scratch;
    int64_t grain;
} Tally;

static void
count_trips(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    Tally *t = args->buf[0];
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&t->done[i], 1);
    atomic_fetch_add(&t->ranges, 1);
    atomic_fetch_add(&t->short_ranges, end - begin < (t->grain + 1) / 2);
    /* Two ranges with one scratch would see each other's mark. */
    int64_t *mine = scratch;
    *mine = begin;
    for (volatile int i = 0; i < 20; i++)
        ;
    atomic_fetch_add(&t->bad_scratch,
                     *(volatile int64_t *)mine != begin || (uintptr_t)scratch % 64);
}

static void
every_trip_once(void **state)
{
    (void)state;
    static const int64_t trips[] = { 0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 1000, 4999 };
    static const int64_t grains[] = { 1, 2, 8, 500, 5000 };
    static Tally t;
    for (int threads = 1; threads <= 5; threads++) {
        Arena *a = arena_new(NULL, NULL);
        Diags d = { .arena = a };
        Pool *p = pool_new(a, &d, threads);
        assert_non_null(p);
        assert_int_equal(pool_threads(p), threads);
        assert_true(pool_scratch(p, 8));
        for (size_t i = 0; i < sizeof trips / sizeof *trips; i++) {
            for (size_t k = 0; k < sizeof grains / sizeof *grains; k++) {
                memset(&t, 0, sizeof t);
                t.grain = grains[k];
                void *buf[] = { &t };
                TnArgs args = { .buf = buf };
                pool_run(p, count_trips, &args, trips[i], grains[k]);
                for (int64_t j = 0; j < MOST; j++)
                    assert_int_equal(t.done[j], j < trips[i]);
                int64_t parts = trips[i] / grains[k];
                parts = parts > threads ? threads : parts < 1 ? trips[i] > 0 : parts;
                assert_in_range(t.ranges, parts, parts > 1 ? 8 * parts : 1);
                assert_int_equal(t.bad_scratch, 0);
                if (trips[i] >= grains[k])
                    assert_int_equal(t.short_ranges, 0);
            }
        }
        arena_free(a);
    }
}

static void
add_range(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    int64_t *x = args->buf[0];
    for (int64_t i = begin; i < end; i++)
        x[i]++;
}

/* Plain memory: a loop must see all that the loop before it wrote, on whichever thread. */
static void
many_short_loops_in_a_row(void **state)
{
    (void)state;
    enum { RUNS = 10000, N = 24 };
    int64_t x[N] = { 0 };
    void *buf[] = { x };
    TnArgs args = { .buf = buf };
    Arena *a = arena_new(NULL, NULL);
    Diags d = { .arena = a };
    Pool *p = pool_new(a, &d, 3);
    for (int i = 0; i < RUNS; i++)
        pool_run(p, add_range, &args, 1 + i % N, 1 + i % 3);
    int64_t sum = 0, expected = 0;
    for (int i = 0; i < RUNS; i++)
        expected += 1 + i % N;
    for (int i = 0; i < N; i++)
        sum += x[i];
    assert_int_equal(sum, expected);
    arena_free(a);
}

static void
parked_workers_wake(void **state)
{
    (void)state;
    int64_t x[8] = { 0 };
    void *buf[] = { x };
    TnArgs args = { .buf = buf };
    Arena *a = arena_new(NULL, NULL);
    Diags d = { .arena = a };
    Pool *p = pool_new(a, &d, 4);
    for (int i = 0; i < 20; i++) {
        usleep(2000); /* far longer than workers spin */
        pool_run(p, add_range, &args, 8, 1);
    }
    for (int i = 0; i < 8; i++)
        assert_int_equal(x[i], 20);
    arena_free(a);
}

/* A pool may end while workers have not yet begun, not yet slept, or only just done their last
 * range. */
static void
many_pools_begin_and_end(void **state)
{
    (void)state;
    enum { POOLS = 2500 };
    int64_t x[8] = { 0 }, loops = 0;
    void *buf[] = { x };
    TnArgs args = { .buf = buf };
    for (int i = 0; i < POOLS; i++) {
        Arena *a = arena_new(NULL, NULL);
        Diags d = { .arena = a };
        Pool *p = pool_new(a, &d, 2 + i % 3);
        assert_non_null(p);
        pool_busy(p, i % 2);
        for (int k = i % 4; k-- > 0; loops++) {
            assert_true(pool_scratch(p, 64 << k));
            pool_run(p, add_range, &args, 8, 1);
            if (i % 16 == 7)
                sched_yield();
        }
        arena_free(a);
    }
    for (int i = 0; i < 8; i++)
        assert_int_equal(x[i], loops);
}

static void
a_forked_child_works_alone(void **state)
{
    (void)state;
    int64_t x[8] = { 0 };
    void *buf[] = { x };
    TnArgs args = { .buf = buf };
    Arena *a = arena_new(NULL, NULL);
    Diags d = { .arena = a };
    Pool *p = pool_new(a, &d, 3);
    pool_run(p, add_range, &args, 8, 1);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        pool_run(p, add_range, &args, 8, 1);
        bool right = true;
        for (int i = 0; i < 8; i++)
            right = right && x[i] == 2;
        arena_free(a);
        _exit(right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    arena_free(a);
}

/* Between the loops of a model workers stay awake; the work is the same. */
static void
loops_of_a_running_model(void **state)
{
    (void)state;
    int64_t x[8] = { 0 };
    void *buf[] = { x };
    TnArgs args = { .buf = buf };
    Arena *a = arena_new(NULL, NULL);
    Diags d = { .arena = a };
    Pool *p = pool_new(a, &d, 2);
    for (int run = 0; run < 20; run++) {
        pool_busy(p, true);
        for (int i = 0; i < 10; i++) {
            pool_run(p, add_range, &args, 8, 1);
            usleep(i % 2 ? 0 : 200);
        }
        pool_busy(p, false);
        usleep(run % 2 ? 0 : 3000);
    }
    for (int i = 0; i < 8; i++)
        assert_int_equal(x[i], 200);
    arena_free(a);
}

enum { UNEVEN = 16 };

/* The first trip goes on until all others have been done. */
static void
wait_in_the_first(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    atomic_int *others = args->buf[0];
    for (int64_t i = begin; i < end; i++) {
        for (int k = 0; i == 0 && k < 5000 && atomic_load(others) < UNEVEN - 1; k++)
            usleep(1000);
        atomic_fetch_add(others, i > 0);
    }
}

/* A trip that takes long holds nobody up: the others of its part are done by free threads. */
static void
trips_of_unequal_length(void **state)
{
    (void)state;
    atomic_int others = 0;
    void *buf[] = { &others };
    TnArgs args = { .buf = buf };
    Arena *a = arena_new(NULL, NULL);
    Diags d = { .arena = a };
    Pool *p = pool_new(a, &d, 2);
    double begin = time_seconds();
    pool_run(p, wait_in_the_first, &args, UNEVEN, 1);
    assert_int_equal(others, UNEVEN - 1);
    arena_free(a);
    if (time_seconds() - begin > 4)
        fail_msg("trips waited for one that takes long");
}

/* More threads than processors, and somebody else who wants the one there is: the caller does what
 * no worker has begun, so that this takes hardly longer than one thread would. Parts that waited
 * for their worker would take a time slice each now and then: 12 seconds in all. */
static void
busy_neighbour(void **state)
{
    (void)state;
    enum { RUNS = 20000 };
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    pid_t child = fork();
    if (child == 0)
        for (volatile int forever = 1; forever;)
            ;
    int64_t x[8] = { 0 };
    void *buf[] = { x };
    TnArgs args = { .buf = buf };
    Arena *a = arena_new(NULL, NULL);
    Diags d = { .arena = a };
    Pool *p = pool_new(a, &d, 4);
    double begin = time_seconds();
    pool_busy(p, true);
    for (int i = 0; i < RUNS; i++)
        pool_run(p, add_range, &args, 8, 1);
    pool_busy(p, false);
    double took = time_seconds() - begin;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(x[i], RUNS);
    arena_free(a);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    if (took > 4)
        fail_msg("%d loops took %.1f s beside a busy neighbour", RUNS, took);
}

static void
thread_counts_are_checked(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, NULL);
    Diags d = { .arena = a };
    assert_null(pool_new(a, &d, -1));
    assert_int_equal(d.worst, DIAG_USAGE);
    Pool *p = pool_new(a, &d, 0);
    assert_int_equal(pool_threads(p), cpu_count());
    assert_true(pool_scratch(p, 1000));
    assert_true(pool_scratch(p, 10));
    assert_false(pool_scratch(p, INT64_MAX));
    arena_free(a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_trip_once),
        cmocka_unit_test(many_short_loops_in_a_row),
        cmocka_unit_test(parked_workers_wake),
        cmocka_unit_test(many_pools_begin_and_end),
        cmocka_unit_test(a_forked_child_works_alone),
        cmocka_unit_test(loops_of_a_running_model),
        cmocka_unit_test(trips_of_unequal_length),
        cmocka_unit_test(busy_neighbour),
        cmocka_unit_test(thread_counts_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
