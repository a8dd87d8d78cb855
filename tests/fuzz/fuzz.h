/* fuzz: what the targets share. A world per input, with a bounded allocator, so that an input that
 * asks for the moon ends as running out of memory does for a user, and what leaks is seen at once.
 *
 * What a target demands of every input, beyond surviving the sanitizers: a refusal comes with a
 * message, and the message never is an internal fault: those say that Tenon broke a promise of its
 * own.
 */
#ifndef TENON_FUZZ_H
#define TENON_FUZZ_H

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FUZZ_MEMORY = 1 << 30 };

typedef struct {
    size_t used;
} Purse;

static void *
purse_alloc(void *user, size_t bytes)
{
    Purse *p = user;
    size_t *block;

    if (bytes > FUZZ_MEMORY - p->used || !(block = malloc(bytes + 16)))
        return NULL;
    p->used += bytes;
    *block = bytes;
    return (char *)block + 16;
}

static void
purse_release(void *user, void *at)
{
    Purse *p = user;

    if (!at)
        return;
    size_t *block = (size_t *)((char *)at - 16);
    p->used -= *block;
    free(block);
}

/* The verdict on one run: `ok` is what the function under test returned. */
static void
demand_message(Ctx *c, bool ok)
{
    Text t = { .arena = c->diags.arena };

    for (uint32_t i = 0; i < c->diags.list.n; i++) {
        diag_print(&t, &c->diags.list.at[i]);
        text_add(&t, "\n");
    }
    if ((!ok && c->diags.worst == DIAG_OK) || c->diags.worst == DIAG_INTERNAL) {
        fprintf(stderr, "%s\n%s",
                ok ? "an internal fault was reported" : "refused, without a message fit for a user",
                text_str(&t));
        abort();
    }
}

/* One run of `test` in a world of its own. */
static void
fuzz_run(bool (*test)(Ctx *c, Arena *a, Bytes file), Bytes file)
{
    Purse purse = { 0 };
    Allocator bounded = { purse_alloc, purse_release, &purse };
    Ctx *c = calloc(1, sizeof *c);
    Arena *volatile a = NULL;

    if (setjmp(c->oom.jump) == 0) {
        ctx_init(c, a = arena_new(&bounded, &c->oom));
        demand_message(c, test(c, a, file));
    }
    arena_free(a);
    free(c);
    if (purse.used) {
        fprintf(stderr, "%zu bytes were not given back\n", purse.used);
        abort();
    }
}

/* The bytes as a file that has a name. */
__attribute__((unused)) static const char *
fuzz_file(Bytes file, int *fd, char *path, size_t n)
{
    *fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (*fd < 0 || write(*fd, file.data, file.bytes) != (ssize_t)file.bytes)
        abort();
    snprintf(path, n, "/proc/self/fd/%d", *fd);
    return path;
}

#endif
