/* ahead: choices of many kernels at once, by all processors.
 *
 * What is chosen for a kernel without symbols follows from the text that says all its choice depends on (choose.c) and from the
 * machine, as the cache takes for granted. So whoever reads the text finds the same, in a world of his own: nothing of a
 * context is shared between threads. A worker whose memory or time is out leaves the rest unanswered, and the compilation asks
 * again where it needs to know, and says so itself.
 */
#include "driver/internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_BYTES = 16 << 20 };     /* a compilation within the default depth needs half of it (base.h) */

typedef struct {
    const Machine *machine;
    const Noted *kernels;
    char **answer;                   /* [kernels->n]: of malloc's, who outlives the workers; NULL: none */
    atomic_uint next;
    Watch watch;                     /* who may end it; only the thread that came asks him */
} Crew;

/* ---- a worker -------------------------------------------------------------------------------------------- */

static const char *
answer(Ctx *c, Arena *a, const Machine *m, Sym kernel)
{
    Parse p = parse_begin(c, "a kernel", (Bytes){ (const uint8_t *)kernel, strlen(kernel) });
    const Kernel *k = kernel_parse(&p, a);

    if (!k)
        return NULL;
    const char *inputs = kernel + strlen(kernel) - k->nin;
    bool *constant = NEW_ARRAY(a, bool, k->nin + 1), far = false;
    for (uint32_t i = 0; i < k->nin; i++) {
        constant[i] = inputs[i] != 'v';
        far |= inputs[i] == 'f';
    }
    Choices choices = schedule_choices(c, a, k, m, constant, far, NULL);
    return choices.n ? choices_text(a, &choices) : NULL;
}

static void
work(Crew *crew, Watch *watch)
{
    Arena *volatile arena = NULL;
    Ctx c = { 0 };

    if (!setjmp(c.oom.jump)) {
        arena = arena_new(NULL, &c.oom);
        arena_watch(arena, watch);
        for (uint32_t i; (i = atomic_fetch_add(&crew->next, 1)) < crew->kernels->n; ) {
            Arena *scratch = arena_child(arena);
            ctx_init(&c, scratch);   /* anew: small tables of expressions stay in a cache */
            const char *text = answer(&c, scratch, crew->machine, crew->kernels->at[i]);
            crew->answer[i] = text ? strdup(text) : NULL;
            arena_free(scratch);
        }
    }
    if (watch->over)
        atomic_store(&crew->next, crew->kernels->n);
    if (arena)
        arena_free(arena);
}

static void *
work_beside(void *user)
{
    Crew *crew = user;

    work(crew, &(Watch){ .until = crew->watch.until });
    return NULL;
}

/* ---- all of them ------------------------------------------------------------------------------------------ */

static uint32_t
workers(const Job *j)
{
    return (uint32_t)(j->o->build.jobs > 0 ? j->o->build.jobs : cpu_count());
}

bool
ahead_can(const Job *j)
{
    return workers(j) > 1 && arena_is_plain(j->arena);
}

void
ahead_choose(Job *j, const Noted *kernels)
{
    uint32_t n = workers(j) < kernels->n ? workers(j) : kernels->n, started = 0;
    Crew crew = { .machine = &j->machine, .kernels = kernels, .answer = NEW_ARRAY(j->arena, char *, kernels->n), .watch = arena_watched(j->arena) };
    pthread_t *thread = NEW_ARRAY(j->arena, pthread_t, n);
    pthread_attr_t attr;

    /* Nothing between here and the last join takes memory of the arena, which could end the compilation with threads at work. */
    if (!pthread_attr_init(&attr)) {
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        while (started + 1 < n && !pthread_create(&thread[started], &attr, work_beside, &crew))
            started++;
        pthread_attr_destroy(&attr);
    }
    work(&crew, &crew.watch);
    while (started > 0)
        pthread_join(thread[--started], NULL);
    for (uint32_t i = 0; i < kernels->n; i++) {
        if (!crew.answer[i])
            continue;
        const char *text = arena_str(j->arena, crew.answer[i]);
        free(crew.answer[i]);
        map_put(&j->ahead, MAP_PTR(kernels->at[i]), MAP_PTR(text));
        Arena *scratch = arena_child(j->arena);
        choice_cache_put(j, scratch, kernels->at[i], text);
        arena_free(scratch);
    }
    arena_look(j->arena);
}
