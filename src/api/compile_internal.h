/* api, the compiler's half: what its files share. */
#ifndef TENON_API_COMPILE_INTERNAL_H
#define TENON_API_COMPILE_INTERNAL_H

#include "api/internal.h"

#include "driver/driver.h"

/* The options as the driver wants them; `o` may be NULL. False with a diagnostic. */
bool compile_options(TnContext *ctx, Arena *a, const TnCompileOptions *o, DriverOptions *out);

/* One call's memory, bounded when the caller asks for it. */
typedef struct {
    Allocator under, bounded;
    size_t used, most;
    bool hit;
} MemoryBound;
/* The arena of one call: like tn_arena, but allocations above `most` bytes fail. most 0: no bound. */
Arena *compile_arena(TnContext *ctx, MemoryBound *b, int64_t most);

/* As TN_ENTER, and a bound that was hit is named in the message. */
TnStatus compile_no_memory(TnContext *ctx, const MemoryBound *b);
#define COMPILE_ENTER(ctx, bound)                                                              \
    do {                                                                                       \
        if (!(ctx))                                                                            \
            return TN_USAGE;                                                                   \
        if (setjmp((ctx)->c.oom))                                                              \
            return compile_no_memory((ctx), (bound));                                          \
        tn_clear(ctx);                                                                         \
    } while (0)

#endif
