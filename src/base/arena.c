/* arena: memory by lifetime.
 *
 * An arena is a list of blocks from the caller's allocator. Small objects are cut from the newest
 * chunk; chunks double from 4 KiB to 1 MiB, so that a small arena is cheap and a big one makes few
 * calls. An object of more than a quarter chunk gets a block of its own, and the chunk stays open.
 * Closers run newest first, since a resource may depend on older ones. A closer's block is
 * allocated without checking the watch, and if there is no memory for it the resource is closed at
 * once, so nothing stays open.
 *
 * Under AddressSanitizer every object gets its own block, so that an overrun of one is seen.
 */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define OWN_BLOCKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OWN_BLOCKS 1
#endif
#endif
#ifndef OWN_BLOCKS
#define OWN_BLOCKS 0
#endif

enum { ALIGN = 16, FIRST_CHUNK = 4096, LAST_CHUNK = 1 << 20 };

typedef struct ArenaBlock {
    _Alignas(ALIGN) struct ArenaBlock *next;
    size_t bytes;
} ArenaBlock; /* the memory follows */
typedef struct Closer {
    struct Closer *next;
    void (*close)(void *);
    void *what;
} Closer;

struct Arena {
    Allocator allocator;
    Oom *oom;
    Watch *watch;
    ArenaBlock *blocks;
    Closer *closers;
    char *at, *end; /* what is left of the open chunk */
    size_t next_chunk;
    size_t handed_out;
    /* child arenas: the newest, and the next older of the same parent */
    Arena *parent, *child, *sibling;
};

/* Zeroed memory, or NULL. calloc gets big blocks from the system zeroed and untouched; parts of a
 * chunk are zeroed when they are handed out, while they are in the cache. */
static void *
block_get(const Allocator *allocator, size_t bytes, bool zeroed)
{
    if (!allocator->alloc)
        return zeroed ? huge_pages(calloc(1, bytes), bytes) : malloc(bytes);
    void *p = allocator->alloc(allocator->user, bytes);
    return p && zeroed ? memset(p, 0, bytes) : p;
}

static void
block_put(const Allocator *allocator, void *block)
{
    if (!allocator->alloc)
        free(block);
    else if (allocator->release)
        allocator->release(allocator->user, block);
}

static void *
out_of_memory(Oom *oom, size_t wanted)
{
    if (!oom)
        return NULL;
    oom->wanted = wanted;
    longjmp(oom->jump, 1);
}

Arena *
arena_new(const Allocator *allocator, Oom *oom)
{
    static const Allocator system = { 0 };
    if (!allocator)
        allocator = &system;
    Arena *a = block_get(allocator, sizeof *a, true);
    if (!a)
        return out_of_memory(oom, sizeof *a);
    a->allocator = *allocator;
    a->oom = oom;
    a->next_chunk = FIRST_CHUNK;
    return a;
}

Arena *
arena_child(Arena *parent)
{
    Arena *a = arena_new(&parent->allocator, parent->oom);
    if (!a)
        return NULL;
    a->parent = parent;
    a->watch = parent->watch;
    a->sibling = parent->child;
    parent->child = a;
    return a;
}

static void
leave_parent(Arena *a)
{
    Arena **at = &a->parent->child;
    while (*at != a)
        at = &(*at)->sibling;
    *at = a->sibling;
}

void
arena_free(Arena *a)
{
    if (!a)
        return;
    if (a->parent)
        leave_parent(a);
    while (a->child)
        arena_free(a->child);
    for (Closer *c = a->closers; c; c = c->next)
        c->close(c->what);
    for (ArenaBlock *b = a->blocks, *next; b; b = next) {
        next = b->next;
        block_put(&a->allocator, b);
    }
    Allocator allocator = a->allocator;
    block_put(&allocator, a);
}

/* A new block with room for `bytes`, linked into the arena; NULL if there is no memory. */
static void *
block_new(Arena *a, size_t bytes, bool zeroed)
{
    ArenaBlock *b =
        bytes > SIZE_MAX - sizeof *b ? NULL : block_get(&a->allocator, sizeof *b + bytes, zeroed);
    if (!b)
        return NULL;
    b->next = a->blocks;
    b->bytes = bytes;
    a->blocks = b;
    return b + 1;
}

bool
arena_holds(const Arena *a, const void *p)
{
    for (const ArenaBlock *b = a->blocks; b; b = b->next)
        if ((uintptr_t)p - (uintptr_t)(b + 1) < b->bytes)
            return true;
    return false;
}

/* ---- watching ---------------------------------------------------------------------------- */

enum { LOOK_EVERY = 64, ASK_EVERY = 100 }; /* [ticks], [milliseconds] */

void
arena_watch(Arena *a, Watch *w)
{
    a->watch = w;
}

void
arena_doing(Arena *a, const char *what, uint32_t done, uint32_t total)
{
    if (!a->watch)
        return;
    a->watch->doing = what;
    a->watch->done = done;
    a->watch->total = total;
}

void
arena_look(Arena *a)
{
    Watch *w = a->watch;
    if (!w || w->over || !a->oom)
        return; /* cleaning up after the jump is not watched */
    if (w->told || (w->stopped && w->stopped(w->user)))
        w->over = WATCH_STOPPED;
    else if (w->until > 0 && time_seconds() >= w->until)
        w->over = WATCH_TIME;
    if (w->over)
        longjmp(a->oom->jump, 1);
}

void
arena_poll(Arena *a)
{
    if (a->watch && ++a->watch->ticks % LOOK_EVERY == 0)
        arena_look(a);
}

void
arena_told(const Arena *a)
{
    if (a->watch)
        a->watch->told = true;
}

Watch
arena_watched(const Arena *a)
{
    return a->watch ? (Watch){ .until = a->watch->until,
                               .stopped = a->watch->stopped,
                               .user = a->watch->user }
                    : (Watch){ 0 };
}

int
arena_patience(const Arena *a)
{
    const Watch *w = a->watch;
    int ask = w && w->stopped ? ASK_EVERY : -1;
    if (!w || w->until <= 0)
        return ask;
    double left = (w->until - time_seconds()) * 1000;
    int ms = left < 0 ? 0 : left > 1e6 ? 1000000 : (int)left + 1;
    return ask >= 0 && ask < ms ? ask : ms;
}

/* ---- handing out ------------------------------------------------------------------------- */

void *
arena_alloc(Arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return out_of_memory(a->oom, bytes);
    arena_poll(a);
    size_t n = bytes ? (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
    void *p;

    if (OWN_BLOCKS || n > a->next_chunk / 4) {
        p = block_new(a, OWN_BLOCKS ? bytes : n, true);
    } else {
        if ((size_t)(a->end - a->at) < n) {
            char *chunk = block_new(a, a->next_chunk, false);
            if (!chunk)
                return out_of_memory(a->oom, a->next_chunk);
            a->at = chunk;
            a->end = chunk + a->next_chunk;
            if (a->next_chunk < LAST_CHUNK)
                a->next_chunk *= 2;
        }
        p = memset(a->at, 0, n);
        a->at += n;
    }
    if (!p)
        return out_of_memory(a->oom, n);
    a->handed_out += n;
    return p;
}

void *
arena_alloc_array(Arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        return out_of_memory(a->oom, SIZE_MAX);
    return arena_alloc(a, bytes);
}

void *
arena_copy(Arena *a, const void *from, size_t bytes)
{
    void *p = arena_alloc(a, bytes);
    return p && bytes ? memcpy(p, from, bytes) : p;
}

char *
arena_str(Arena *a, const char *s)
{
    return arena_copy(a, s, strlen(s) + 1);
}

char *
arena_printf(Arena *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *s = arena_vprintf(a, format, args);
    va_end(args);
    return s;
}

char *
arena_vprintf(Arena *a, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *s = arena_alloc(a, n < 0 ? 1 : (size_t)n + 1);
    if (s && n > 0)
        vsnprintf(s, (size_t)n + 1, format, again);
    va_end(again);
    return s;
}

void
arena_closer(Arena *a, void (*close)(void *), void *what)
{
    Closer *c = block_new(a, sizeof *c, false);
    if (!c) {
        close(what);
        out_of_memory(a->oom, sizeof *c);
        return;
    }
    *c = (Closer){ a->closers, close, what };
    a->closers = c;
}

bool
arena_is_plain(const Arena *a)
{
    return !a->allocator.alloc;
}

size_t
arena_bytes(const Arena *a)
{
    return a->handed_out;
}

void *
vec_reserve(Arena *a, void *at, uint32_t *cap, uint32_t count, size_t size)
{
    if (count <= *cap)
        return at;
    void *p = arena_alloc_array(a, count, size);
    if (*cap)
        memcpy(p, at, *cap * size);
    *cap = count;
    return p;
}

void *
vec_grow(Arena *a, void *at, uint32_t *cap, size_t size)
{
    if (*cap > UINT32_MAX / 2)
        return out_of_memory(a->oom, SIZE_MAX);
    uint32_t bigger = *cap ? *cap * 2 : 4;
    void *p = arena_alloc_array(a, bigger, size);
    if (*cap)
        memcpy(p, at, *cap * size);
    *cap = bigger;
    return p;
}
