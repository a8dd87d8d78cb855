/* api, the compiler's half: what its files share. */
#ifndef TENON_API_COMPILE_INTERNAL_H
#define TENON_API_COMPILE_INTERNAL_H

#include "api/internal.h"

#include "driver/driver.h"

/* One call of the compiler: a world of its own inside the context. Names, expressions and types
 * live in the call's arena and go with it, for what one model teaches of a symbol ("batch is at
 * most 512") is not true of the next. Memory may be bounded. What outlives the call is copied to
 * `keep`. */
typedef struct {
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

/* `o` may be NULL. */
Arena *call_begin(TnContext *ctx, ApiCall *call, const TnCompileOptions *o);
TnStatus call_end(TnContext *ctx, ApiCall *call, bool ok);
/* Where the jump lands when memory or time is out. */
TnStatus call_no_memory(TnContext *ctx, ApiCall *call);

/* Are the options of a version that this library knows? Reports if not. */
#define CALL_CHECK_OPTIONS(ctx, call) TN_CHECK_GROWN(ctx, TnCompileOptions, &(call)->options, time)

/* Lines for a person, those that repeat with other numbers told once; how many are left in `out`,
 * [n], which may be the same list. (compile_repeats.c) */
uint32_t lines_together(Arena *a, const char *const *line, uint32_t n, const char **out);

/* As TN_ENTER, for a call that begins its own world. The Call belongs to the caller of the function
 * that has this line: it changes after setjmp and is read after the jump. */
#define CALL_ENTER(ctx, call)                                                                      \
    do {                                                                                           \
        if (!(ctx))                                                                                \
            return TN_USAGE;                                                                       \
        if (setjmp((ctx)->c.oom.jump))                                                             \
            return call_no_memory((ctx), (call));                                                  \
        tn_clear(ctx);                                                                             \
    } while (0)

#endif
