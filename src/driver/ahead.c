/* ahead: choices of many kernels at once, by all processors.
 *
 * What is chosen for a kernel without symbols follows from the text that says all its choice depends on (choose.c) and from the
 * machine, as the cache takes for granted. So whoever reads the text finds the same, in a world of his own: nothing of a
 * context is shared between threads. A worker whose memory or time is out leaves the rest unanswered, and the compilation asks
 * again where it needs to know, and says so itself.
 */
#include "driver/internal.h"

#include "base/threads.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const Arena *arena;
    const Machine *machine;
    const Noted *kernels;
    char **answer;                   /* [kernels->n]: of malloc's, who outlives the workers; NULL: none */
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
answer_one(void *user, uint32_t thread, uint32_t i)
{
    const Crew *crew = user;
    Arena *volatile arena = NULL;
    Ctx c = { 0 };
    Watch watch = threads_watch(crew->arena, thread);

    if (!setjmp(c.oom.jump)) {
        arena = arena_new(NULL, &c.oom);
        arena_watch(arena, &watch);
        ctx_init(&c, arena);         /* for each anew: small tables of expressions stay in a cache */
        const char *text = answer(&c, arena, crew->machine, crew->kernels->at[i]);
        crew->answer[i] = text ? strdup(text) : NULL;
    }
    if (arena)
        arena_free(arena);
}

/* ---- all of them ------------------------------------------------------------------------------------------ */

uint32_t
driver_threads(const Job *j)
{
    return (uint32_t)(j->o->build.jobs > 0 ? j->o->build.jobs : cpu_count());
}

bool
ahead_can(const Job *j)
{
    return driver_threads(j) > 1 && arena_is_plain(j->arena);
}

void
ahead_choose(Job *j, const Noted *kernels)
{
    Crew crew = { .arena = j->arena, .machine = &j->machine, .kernels = kernels, .answer = NEW_ARRAY(j->arena, char *, kernels->n) };

    threads_each(j->arena, driver_threads(j), kernels->n, answer_one, &crew);
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
