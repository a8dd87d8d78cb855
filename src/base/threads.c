#include "base/threads.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    MOST_THREADS = 256,
    /* twice what a compilation within the default depth needs (base.h) */
    STACK_BYTES = 16 << 20,
};

typedef struct {
    const Arena *arena;
    uint32_t n;
    atomic_uint next;
    atomic_bool end, told; /* no item begins any more; since `stopped` said so */
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

    /* `stopped` may be called by the caller's thread alone (tenon.h) */
    return thread ? (Watch){ .until = w.until } : w;
}

static bool
is_over(Crew *crew, const Watch *w)
{
    if (w->stopped && w->stopped(w->user))
        atomic_store(&crew->told, true);
    return atomic_load(&crew->told) || (w->until > 0 && time_seconds() >= w->until);
}

static void *
work(void *user)
{
    const ThreadWorker *me = user;
    Crew *crew = me->crew;
    Watch watch = threads_watch(crew->arena, me->number);

    while (!atomic_load(&crew->end)) {
        if (is_over(crew, &watch)) {
            atomic_store(&crew->end, true);
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
    uint32_t workers = threads < n ? threads : n, running = 1; /* the caller */

    workers = workers < MOST_THREADS ? workers : MOST_THREADS;
    worker[0] = (ThreadWorker){ &crew, 0 };
    if (workers > 1 && !pthread_attr_init(&attr)) {
        bool ok = !pthread_attr_setstacksize(&attr, STACK_BYTES);
        for (; ok && running < workers; running += ok) {
            worker[running] = (ThreadWorker){ &crew, running };
            ok = !pthread_create(&thread[running], &attr, work, &worker[running]);
        }
        pthread_attr_destroy(&attr);
    }
    work(&worker[0]);
    while (running > 1)
        pthread_join(thread[--running], NULL);
    if (atomic_load(&crew.told))
        arena_told(a);
    return atomic_load(&crew.next) >= n; /* an item that was taken was run */
}
