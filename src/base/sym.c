/* sym: interned strings, and the context that owns them.
 *
 * A table of chains; the string follows its entry, so a Sym is a plain C string and names are equal
 * if their pointers are.
 */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

typedef struct SymEntry {
    struct SymEntry *next;
    uint64_t hash;
    size_t n;
    char s[];
} SymEntry;

struct SymTable {
    SymEntry **chain;
    uint32_t n, cap;
}; /* cap: a power of two */

void
ctx_init(Ctx *c, Arena *arena)
{
    c->arena = arena;
    c->max_depth = 0;
    c->exact = false;
    c->oom.why[0] = '\0';
    c->diags = (Diags){ .arena = arena };
    c->syms = NULL;
    c->exprs = NULL;
    c->types = NULL;
    c->scalars = NULL;
}

/* ---- depth -------------------------------------------------------------------------------- */

uint32_t
depth_levels(const Ctx *c)
{
    uint32_t n = c->max_depth ? c->max_depth : DEPTH_DEFAULT;
    return n < DEPTH_MOST ? n : DEPTH_MOST;
}

uint32_t
depth_operations(const Ctx *c)
{
    return DEPTH_OPERATIONS * depth_levels(c);
}

void
depth_check(Ctx *c, const char *what, uint32_t operations)
{
    if (operations <= 2 * depth_operations(c))
        return;
    snprintf(c->oom.why, sizeof c->oom.why,
             "%s is more than %u operations deep; raise the limit with --max-depth, which is %u "
             "and may be %d",
             what, 2 * depth_operations(c), depth_levels(c), DEPTH_MOST);
    longjmp(c->oom.jump, 1);
}

/* ---- symbols ------------------------------------------------------------------------------ */

static void
grow(Arena *arena, struct SymTable *t)
{
    uint32_t cap = t->cap ? t->cap * 2 : 256;
    SymEntry **chain = NEW_ARRAY(arena, SymEntry *, cap);
    for (uint32_t i = 0; i < t->cap; i++) {
        for (SymEntry *e = t->chain[i], *next; e; e = next) {
            next = e->next;
            e->next = chain[e->hash & (cap - 1)];
            chain[e->hash & (cap - 1)] = e;
        }
    }
    t->chain = chain;
    t->cap = cap;
}

Sym
sym_n(Ctx *c, const char *s, size_t n)
{
    if (!c->syms)
        c->syms = NEW(c->arena, struct SymTable);
    struct SymTable *t = c->syms;
    if (t->n == t->cap)
        grow(c->arena, t);

    uint64_t hash = hash_bytes(s, n, 0);
    SymEntry **head = &t->chain[hash & (t->cap - 1)];
    for (SymEntry *e = *head; e; e = e->next)
        if (e->hash == hash && e->n == n && (n == 0 || memcmp(e->s, s, n) == 0))
            return e->s;

    SymEntry *e = arena_alloc(c->arena, sizeof *e + n + 1);
    e->next = *head;
    e->hash = hash;
    e->n = n;
    if (n) /* s may then be NULL */
        memcpy(e->s, s, n);
    *head = e;
    t->n++;
    return e->s;
}

Sym
sym(Ctx *c, const char *s)
{
    return sym_n(c, s, strlen(s));
}

Sym
sym_printf(Ctx *c, const char *format, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    const char *s = small;
    if (n >= (int)sizeof small) {
        char *big = arena_alloc(c->arena, (size_t)n + 1);
        vsnprintf(big, (size_t)n + 1, format, again);
        s = big;
    }
    va_end(again);
    return sym_n(c, s, n < 0 ? 0 : (size_t)n);
}
