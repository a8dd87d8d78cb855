#include "base/threads.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    MOST_THREADS = 256,
    /* a compilation within the default depth needs half of it (base.h) */
    STACK_BYTES = 16 << 20,
};

typedef struct {
    const Arena *arena;
    uint32_t n;
    atomic_uint next;
    atomic_bool over;
    void (*one)(void *user, uint32_t thread, uint32_t i);
    void *user;
} Crew;

typedef struct {
    Crew *crew;
    uint32_t number;
} ThreadWorker;

Watch
threads_watch(const Arena *a, uint32_t thread)
{
    Watch w = arena_watched(a);

    return thread ? (Watch){ .until = w.until } : w;
}

static bool
is_over(const Watch *w)
{
    return (w->stopped && w->stopped(w->user)) || (w->until > 0 && time_seconds() >= w->until);
}

static void *
work(void *user)
{
    const ThreadWorker *me = user;
    Crew *crew = me->crew;
    Watch watch = threads_watch(crew->arena, me->number);

    while (!atomic_load(&crew->over)) {
        if (is_over(&watch)) {
            atomic_store(&crew->over, true);
            break;
        }
        uint32_t i = atomic_fetch_add(&crew->next, 1);
        if (i >= crew->n)
            break;
        crew->one(crew->user, me->number, i);
    }
    return NULL;
}

bool
threads_for_each(const Arena *a, uint32_t threads, uint32_t n,
                 void (*one)(void *user, uint32_t thread, uint32_t i), void *user)
{
    Crew crew = { .arena = a, .n = n, .one = one, .user = user };
    ThreadWorker worker[MOST_THREADS];
    pthread_t thread[MOST_THREADS];
    pthread_attr_t attr;
    uint32_t most = threads < n ? threads : n, started = 1;

    most = most < MOST_THREADS ? most : MOST_THREADS;
    worker[0] = (ThreadWorker){ &crew, 0 };
    if (most > 1 && !pthread_attr_init(&attr)) {
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        for (; started < most; started++) {
            worker[started] = (ThreadWorker){ &crew, started };
            if (pthread_create(&thread[started], &attr, work, &worker[started]))
                break;
        }
        pthread_attr_destroy(&attr);
    }
    work(&worker[0]);
    while (started > 1)
        pthread_join(thread[--started], NULL);
    return atomic_load(&crew.next) >= n;
}
