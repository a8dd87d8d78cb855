/* api, the compiler's half: what its files share. */
#ifndef TENON_API_COMPILE_INTERNAL_H
#define TENON_API_COMPILE_INTERNAL_H

#include "api/internal.h"

#include "driver/driver.h"

/* One call of the compiler: a world of its own inside the context. Names, expressions and types
 * live in the call's arena and go with it, for what one model teaches of a symbol ("batch is at
 * most 512") is not true of the next. Memory may be bounded. What outlives the call is copied to
 * `keep`. It is in the context's memory, so that it is valid after the jump. */
typedef struct ApiCall {
    Ctx outer; /* the context's own tables, put back at the end */
    bool inside;
    Arena *arena, *keep;
    /* as given, as far as the caller's version of them goes; zeros otherwise */
    TnCompileOptions options;
    Allocator under, bounded;
    size_t used, most; /* bytes; most 0: no bound */
    size_t wanted;     /* of the allocation that would have crossed it; 0: none did */
    Watch watch;
} ApiCall;

/* Begins ctx->call; `o` may be NULL. False, reported: the options are of no version that this
 * library knows. */
bool call_begin(TnContext *ctx, const TnCompileOptions *o);
TnStatus call_end(TnContext *ctx, bool ok);
/* Where the jump lands when memory or time is out. */
TnStatus call_no_memory(TnContext *ctx);

/* Lines for a person, those that repeat with other numbers told once; how many are left in `out`,
 * [n], which may be the same list. (compile_repeats.c) */
uint32_t lines_together(Arena *a, const char *const *line, uint32_t n, const char **out);

/* As TN_ENTER, for a call that begins its own world and ends it with call_end. */
#define CALL_ENTER(ctx, o)                                                                         \
    do {                                                                                           \
        if (!(ctx))                                                                                \
            return TN_USAGE;                                                                       \
        *(ctx)->call = (ApiCall){ 0 };                                                             \
        if (setjmp((ctx)->c.oom.jump))                                                             \
            return call_no_memory(ctx);                                                            \
        tn_clear(ctx);                                                                             \
        if (!call_begin((ctx), (o)))                                                               \
            return call_end((ctx), false);                                                         \
    } while (0)

#endif
