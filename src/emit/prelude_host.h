/* prelude_host: what the host program needs beyond C: sizes that tell of overflow, and the walk
 * over the table of calls.
 */
#ifndef TN_PRELUDE_HOST_H
#define TN_PRELUDE_HOST_H
#include <stdarg.h>

/* The host program is compiled with few optimisations, but for what runs for each call. -O2 takes a
 * compiler longer and makes this code no faster: it loads two slots at once that were just stored
 * one by one, which waits for both stores. */
#if defined __GNUC__ && !defined __clang__
#define TN_HOT __attribute__((optimize("O1", "no-strict-aliasing")))
#else
#define TN_HOT
#endif

/* Sizes that overflow become TN_BAD_SIZE, which spreads. They are called, not inlined: a model with
 * many sizes from data has tens of thousands of these operations, and their tests took compilers
 * minutes. */
#define TN_BAD_SIZE INT64_MIN
#define TN_CALLED static __attribute__((noinline, unused))
TN_CALLED int64_t tn_size_add(int64_t a, int64_t b)
{
    int64_t r;
    return a == TN_BAD_SIZE || b == TN_BAD_SIZE || __builtin_add_overflow(a, b, &r) ? TN_BAD_SIZE : r;
}
TN_CALLED int64_t tn_size_mul(int64_t a, int64_t b)
{
    int64_t r;
    return a == TN_BAD_SIZE || b == TN_BAD_SIZE || __builtin_mul_overflow(a, b, &r) ? TN_BAD_SIZE : r;
}
/* The sum of n products of a number and a symbol, given in pairs: a long sum is one call, since
 * compilers take long over many. */
TN_CALLED int64_t tn_size_dot(const int64_t *sym, int n, ...)
{
    int64_t sum = 0;
    va_list pairs;
    va_start(pairs, n);
    for (int i = 0; i < n; i++) {
        int64_t times = va_arg(pairs, int64_t);
        sum = tn_size_add(sum, tn_size_mul(times, sym[va_arg(pairs, int)]));
    }
    va_end(pairs);
    return sum;
}
TN_CALLED int64_t tn_size_div(int64_t a, int64_t b) { return a == TN_BAD_SIZE || b == TN_BAD_SIZE ? TN_BAD_SIZE : tn_div(a, b); }
TN_CALLED int64_t tn_size_mod(int64_t a, int64_t b) { return a == TN_BAD_SIZE || b == TN_BAD_SIZE ? TN_BAD_SIZE : tn_mod(a, b); }
TN_CALLED int64_t tn_size_min(int64_t a, int64_t b) { return tn_min(a, b); }
TN_CALLED int64_t tn_size_max(int64_t a, int64_t b) { return a == TN_BAD_SIZE || b == TN_BAD_SIZE ? TN_BAD_SIZE : tn_max(a, b); }
TN_CALLED int64_t tn_size_broadcast(int64_t a, int64_t b) { return a == TN_BAD_SIZE || b == TN_BAD_SIZE ? TN_BAD_SIZE : tn_broadcast(a, b); }

/* ---- prepare --------------------------------------------------------------------------------- */

TN_COLD int tn_refuse(TnFault *f, int32_t code, int32_t where, int32_t dim, int64_t got, int64_t want)
{
    const TnFault fault = {code, where, dim, 0, got, want};
    *f = fault;
    return code;
}
/* The x >= 0 with by * x + rest == size, if there is one. */
TN_INLINE int tn_solve(int64_t size, int64_t by, int64_t rest, int64_t *x)
{
    int64_t left;
    if (by == TN_BAD_SIZE || rest == TN_BAD_SIZE || by == 0 || __builtin_sub_overflow(size, rest, &left) || left % by != 0)
        return 0;
    *x = left / by;
    return *x >= 0;
}

/* ---- run ------------------------------------------------------------------------------------- */

static void tn_call(const TnHost *h, TnKernelFn *fn, const TnArgs *args, int64_t trips, int64_t grain)
{
    if (trips <= 0)
        return;
    if (h->parallel)
        h->parallel(h->user, fn, args, trips, grain);
    else
        fn(args, 0, trips, h->scratch);
}

/* A table's number: itself, or the k-th of the sizes computed by the function that walks over
 * it. */
#define TN_N(k) (-1 - (k))
static int64_t tn_number(int64_t x, const int64_t *n) { return x < 0 ? n[-1 - x] : x; }

/* Where a tensor is stored: number x of the inputs or outputs; byte x of the weights or the arena;
 * block x of the graph; table x; TN_BEHIND + k: byte x of output k. */
enum { TN_INPUT, TN_OUTPUT, TN_WEIGHTS, TN_ARENA, TN_BLOCK, TN_TABLE, TN_BEHIND };
static void *tn_place(const TnFrame *f, const int64_t *n, int64_t where, int64_t x)
{
    switch (where) {
    case TN_INPUT: return (void *)f->inputs[x];
    case TN_OUTPUT: return f->outputs[x];
    case TN_BLOCK: return f->block[x].at;
    case TN_TABLE: return (void *)f->table[x];
    case TN_WEIGHTS: return (char *)f->weights + tn_number(x, n);
    case TN_ARENA: return (char *)f->arena + tn_number(x, n);
    default: return (char *)f->outputs[where - TN_BEHIND] + tn_number(x, n);
    }
}
/* A part of what is joined, unless it is in its place. */
__attribute__((unused)) static void
tn_join(void *to, const void *from, int64_t bytes)
{
    if (to != from && bytes > 0)
        memmove(to, from, (size_t)bytes);
}
/* `count` rows from `row` on, each the call of a kernel; `first` is the number of the first one. buf
 * and size: room for the buffers and sizes of the largest. */
TN_HOT __attribute__((unused)) static int
tn_calls(const TnFrame *f, const int64_t *n, TnKernelFn *const *kernel, const int64_t *row, int32_t first, int32_t count,
         void **buf, int64_t *size)
{
    for (int32_t c = 0; c < count; c++) {
        TnKernelFn *fn = kernel[tn_number(row[0], n)];
        int64_t trips = tn_number(row[1], n), grain = tn_number(row[2], n), nbuffer = row[3], nsize = row[4];
        row += 5;
        for (int64_t i = 0; i < nbuffer; i++, row += 2)
            buf[i] = tn_place(f, n, row[0], row[1]);
        for (int64_t i = 0; i < nsize; i++)
            size[i] = f->sym[*row++];
        const TnArgs args = {sizeof args, buf, size, f->fault, first + c};
        tn_call(f->host, fn, &args, trips, grain);
        if (f->fault->code)
            return f->fault->code;
    }
    return 0;
}

/* ---- memory as the run goes ------------------------------------------------------------------ */

__attribute__((unused)) static void
tn_put(const TnFrame *f, TnBlock *b)
{
    if (b->at)
        f->memory->put(f->memory->user, b->at, b->bytes);
    b->at = 0;
    b->bytes = 0;
}
/* The block has room for `bytes`; its contents are lost when it grows. */
__attribute__((unused)) static int
tn_need(const TnFrame *f, TnBlock *b, int64_t bytes)
{
    if (bytes < 0)
        return tn_refuse(f->fault, TN_FAULT_SIZE, 0, 0, bytes, 0);
    if (b->at && b->bytes >= bytes)
        return 0;
    tn_put(f, b);
    b->bytes = bytes;
    b->at = f->memory && f->memory->get ? f->memory->get(f->memory->user, &b->bytes) : 0;
    return b->at ? 0 : tn_refuse(f->fault, TN_FAULT_MEMORY, 0, 0, bytes, 0);
}
/* The same, and its first `used` bytes stay. It doubles, so that what grows step by step is copied
 * few times. */
__attribute__((unused)) static int
tn_keep(const TnFrame *f, TnBlock *b, int64_t used, int64_t bytes)
{
    TnBlock more = {0, 0};
    if (b->at && bytes >= 0 && b->bytes >= bytes)
        return 0;
    int code = tn_need(f, &more, bytes < 0 ? bytes : tn_max(bytes, tn_size_mul(2, b->bytes)));
    if (code)
        return code;
    if (used > 0)
        memcpy(more.at, b->at, (size_t)used);
    tn_put(f, b);
    *b = more;
    return 0;
}
__attribute__((unused)) static void
tn_move(const TnFrame *f, TnBlock *to, TnBlock *from)
{
    tn_put(f, to);
    *to = *from;
    from->at = 0;
    from->bytes = 0;
}
__attribute__((unused)) static int
tn_scratch(const TnFrame *f, int64_t bytes)
{
    if (bytes < 0)
        return tn_refuse(f->fault, TN_FAULT_SIZE, 0, 0, bytes, 0);
    if (f->memory && f->memory->scratch && !f->memory->scratch(f->memory->user, bytes))
        return 0;
    return tn_refuse(f->fault, TN_FAULT_MEMORY, 0, 0, bytes, 0);
}

/* ---- what a frame has to have ---------------------------------------------------------------- */

/* `bytes` that are needed at an address which is a multiple of `align`. */
TN_INLINE int tn_has(const TnFrame *f, const void *at, int32_t what, int32_t which, int64_t bytes, uintptr_t align)
{
    if (__builtin_expect((at && !((uintptr_t)at % align)) || bytes <= 0, 1))
        return 0;
    return tn_refuse(f->fault, TN_FAULT_FRAME, what, which, (int64_t)((uintptr_t)at % align), bytes);
}

/* ---- sizes that data define ------------------------------------------------------------------ */

/* Symbol `number` is v, which must be in [least, most]. */
__attribute__((unused)) static int
tn_define(const TnFrame *f, int32_t number, int64_t v, int64_t least, int64_t most)
{
    f->sym[number] = v;
    if (v >= least && v <= most)
        return 0;
    return tn_refuse(f->fault, TN_FAULT_SYMBOL, number, 0, v, v < least ? least : most);
}

#endif
