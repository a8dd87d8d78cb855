/* query_threads: answer many queries about kernels at once, on all cores.
 *
 * Each query is a text (query.c), so a worker parses it into a context of its own and nothing is
 * shared between threads. A worker that runs out of memory or time leaves its queries unanswered;
 * the compilation then computes them where it needs them and reports its own error.
 */
#include "driver/internal.h"

#include "base/threads.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const Arena *arena;
    const Machine *machine;
    const Noted *queries;
    /* [questions->n]: allocated with malloc, since they outlive the workers; NULL: none */
    char **answer;
} QueryCrew;

/* ---- a worker -------------------------------------------------------------------------------- */

static void
answer_one(void *user, uint32_t thread, uint32_t i)
{
    const QueryCrew *crew = user;
    Arena *volatile arena = NULL;
    Oom oom = { 0 };
    Watch watch = threads_watch(crew->arena, thread);

    if (!setjmp(oom.jump)) {
        arena = arena_new(NULL, &oom);
        arena_watch(arena, &watch);
        const char *text = query_answer(arena, crew->machine, crew->queries->at[i], QUERY_KEPT);
        crew->answer[i] = text ? strdup(text) : NULL;
    }
    if (arena)
        arena_free(arena);
}

/* ---- all of them ----------------------------------------------------------------------------- */

uint32_t
driver_threads(const Job *j)
{
    return (uint32_t)(j->set->build.jobs > 0 ? j->set->build.jobs : cpu_count());
}

bool
query_threads_allowed(const Job *j)
{
    return driver_threads(j) > 1 && arena_is_plain(j->arena);
}

void
query_threads_answer(Job *j, const Noted *queries)
{
    QueryCrew crew = { .arena = j->arena,
                       .machine = &j->machine,
                       .queries = queries,
                       .answer = NEW_ARRAY(j->arena, char *, queries->n) };

    threads_for_each(j->arena, driver_threads(j), queries->n, answer_one, &crew);
    for (uint32_t i = 0; i < queries->n; i++) {
        if (!crew.answer[i])
            continue;
        const char *text = arena_str(j->arena, crew.answer[i]);
        free(crew.answer[i]);
        map_put(&j->ahead, MAP_PTR(queries->at[i]), MAP_PTR(text));
        Arena *scratch = arena_child(j->arena);
        choice_cache_put(j, scratch, queries->at[i], text);
        arena_free(scratch);
    }
    arena_look(j->arena);
}
