/* world: the context a test works in, made for each test and dropped after it.
 *
 * A test that needs more in it defines WORLD_FIELDS before the include, and its own set-up that
 * begins with world_begin.
 */
#ifndef TENON_TEST_WORLD_H
#define TENON_TEST_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "rounds.h"

#ifndef WORLD_FIELDS
#define WORLD_FIELDS
#endif

typedef struct {
    Ctx ctx;
    Arena *arena;
    WORLD_FIELDS
} World;

static inline int
world_begin(void **state)
{
    World *w = calloc(1, sizeof *w);
    w->arena = arena_new(NULL, NULL);
    ctx_init(&w->ctx, w->arena);
    *state = w;
    return 0;
}

static inline int
world_end(void **state)
{
    World *w = *state;
    arena_free(w->arena);
    free(w);
    return 0;
}

/* 0 <= result < n, from a seed of the test's own. */
static inline uint32_t
random_below(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

/* Everything reported so far, a line for each. */
static inline const char *
world_messages(World *w)
{
    Text t = { .arena = w->arena };
    for (uint32_t i = 0; i < w->ctx.diags.list.n; i++) {
        diag_print(&t, &w->ctx.diags.list.at[i]);
        text_add(&t, "\n");
    }
    return text_str(&t);
}

#endif
