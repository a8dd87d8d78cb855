/* api, shared by its two halves: run_*.c (libtenon-run) and compile_*.c (libtenon).
 *
 * Every entry point that can fail is a thin shell around a function that reports through
 * diag_error:
 *
 *     TnStatus
 *     tn_load(TnContext *ctx, const char *path, TnModel **out)
 *     {
 *         TN_ENTER(ctx);
 *         return tn_leave(ctx, load(ctx, path, out));
 *     }
 *
 * TN_ENTER clears the previous message and arms the jump taken when memory is out, or returns
 * TN_USAGE where there is no context: the caller gave NULL for what has it; tn_leave makes
 * the status and the message from what was reported. Arenas of models, sessions and single calls
 * are made with tn_arena and jump to the same place; an unfinished call's arenas are freed there.
 */
#ifndef TENON_API_INTERNAL_H
#define TENON_API_INTERNAL_H

#include "base/base.h"
#include "tenon.h"
#include "type/dtype.h"

enum { TN_KEPT = 4 };

struct TnContext {
    Ctx c; /* first, so that a Ctx is at hand everywhere */
    Allocator allocator;
    Arena *messages; /* of the last call; NULL until the first one */
    const char *error;
    char last[512];       /* a message for when there is no memory for one */
    Arena *kept[TN_KEPT]; /* arenas of the running call, freed if memory runs out */

    /* What libtenon adds to libtenon-run; NULL where it is not linked. Reads an ONNX TensorProto
     * into memory of ctx->c.arena. */
    bool (*read_pb)(struct TnContext *ctx, const char *path, TnTensor *out);
    struct ApiCall *call; /* the running call of the compiler, or the last one */
};

/* Defined by libtenon: sets what is above in a new context. A weak reference, so that
 * libtenon-run links alone; the object that defines it must be one that every program using
 * libtenon pulls in. */
void tn_attach_compiler(TnContext *ctx) __attribute__((weak));

/* forget the previous call's message; may jump */
void tn_clear(TnContext *ctx);
TnStatus tn_no_memory(TnContext *ctx); /* where the jump lands */
TnStatus tn_leave(TnContext *ctx, bool ok);

#define TN_ENTER(ctx)                                                                              \
    do {                                                                                           \
        if (!(ctx))                                                                                \
            return TN_USAGE;                                                                       \
        if (setjmp((ctx)->c.oom.jump))                                                             \
            return tn_no_memory(ctx);                                                              \
        tn_clear(ctx);                                                                             \
    } while (0)

/* A new arena of the context's allocator, freed if memory runs out before tn_leave. When the call
 * succeeds the arena stays; a call that fails frees it itself, with tn_drop. */
Arena *tn_arena(TnContext *ctx);
void tn_keep(TnContext *ctx, Arena *a); /* an arena made otherwise: freed likewise */
void tn_drop(TnContext *ctx, Arena *a);

/* Is this struct one this library knows (its `size` set, by TN_INIT)? Reports if not. */
bool tn_check_size(TnContext *ctx, const char *type, size_t size, size_t least);
#define TN_CHECK_SIZE(ctx, T, p) tn_check_size((ctx), #T, (p)->size, sizeof(T))
/* The same for a struct that has grown: `last` is the last field of its first version. */
#define TN_CHECK_GROWN(ctx, T, p, last)                                                            \
    tn_check_size((ctx), #T, (p)->size, offsetof(T, last) + sizeof(p)->last)

/* Element i of an array whose structs may be longer than the ones this library knows. */
static inline TnTensor *
tn_tensor_at(const TnTensor *x, int32_t i)
{
    return (TnTensor *)((char *)x + (size_t)i * x->size);
}

/* The type of a caller's tensor, checked, and its bytes by its dimensions; data is not looked
 * at. */
bool tn_tensor_type(TnContext *ctx, const TnTensor *x, DType *dtype, int64_t *bytes);
/* The same, and its data: an aligned address with at least these bytes. */
bool tn_tensor_data(TnContext *ctx, const TnTensor *x, DType *dtype, int64_t *bytes);

#endif
