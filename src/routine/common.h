/* common: what routines receive, and what they share. Printed into every source that calls one,
 * after tenon_abi.h. */
#ifndef TN_ROUTINE_H
#define TN_ROUTINE_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TN_ROUTINE static __attribute__((unused))
/* what is called with constants */
#define TN_INLINED static inline __attribute__((always_inline, unused))

/* A routine is called like a kernel, with a range of iterations. TnArgs is the beginning of its
 * arguments. */
typedef struct {
    TnArgs args;
    const TnArray *array; /* inputs, then results */
    const double *attr;   /* the operator's numbers, in the order of its row in the table */
    /* characters that live as long as the run's results; NULL: no memory */
    char *(*text)(void *user, int64_t bytes);
    void *user;
} TnRoutine;
/* The number of independent iterations, and the scratch of one worker [bytes], which begins as
 * 0. */
typedef int64_t TnRoutinePlan(const TnRoutine *r, int64_t *scratch);

/* The first error stops the model: a number from data, and the most that it may be. */
TN_ROUTINE void
tn_wrong(const TnRoutine *r, int64_t got, int64_t most)
{
    TnFault *f = r->args.fault;
    int32_t none = TN_FAULT_NONE;

    if (!__atomic_compare_exchange_n(&f->code, &none, TN_FAULT_VALUE, 0, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    f->where = r->args.kernel;
    f->got = got;
    f->want = most;
}
/* A library that is needed and missing: its name without "lib", as characters in got and want. */
TN_ROUTINE void
tn_lacks(const TnRoutine *r, const char *library)
{
    char name[16] = { 0 };
    TnFault fault = { TN_FAULT_LIBRARY, r->args.kernel, 0, 0, 0, 0 };

    for (int i = 0; i < 15 && library[i + 3]; i++)
        name[i] = library[i + 3];
    memcpy(&fault.got, name, 8);
    memcpy(&fault.want, name + 8, 8);
    *r->args.fault = fault;
}
/* No memory for `bytes`. */
TN_ROUTINE void
tn_no_memory(const TnRoutine *r, int64_t bytes)
{
    *r->args.fault = (TnFault){ TN_FAULT_MEMORY, r->args.kernel, 0, 0, bytes, 0 };
}

TN_ROUTINE int64_t
tn_product(const int64_t *dim, int64_t from, int64_t end)
{
    int64_t n = 1;
    for (; from < end; from++)
        n *= dim[from];
    return n;
}
TN_ROUTINE int64_t
tn_count(const TnArray *a)
{
    return tn_product(a->dim, 0, a->rank);
}

/* Without scratch: all in one iteration; one for each element of the first input. */
TN_ROUTINE int64_t
tn_once_plan(const TnRoutine *r, int64_t *scratch)
{
    (void)r, (void)scratch;
    return 1;
}
TN_ROUTINE int64_t
tn_each_plan(const TnRoutine *r, int64_t *scratch)
{
    (void)scratch;
    return tn_count(&r->array[0]);
}

TN_ROUTINE int64_t
tn_size_of(int32_t type)
{
    switch (type) {
    case 'b':
    case 'B': return 1;
    case 'h':
    case 'H':
    case 'e':
    case 'g': return 2;
    case 'i':
    case 'I':
    case 'f': return 4;
    default: return 8;
    }
}
TN_ROUTINE const char *
tn_string(const TnArray *a, int64_t i)
{
    const char *s = ((const TnText *)a->at)[i].s;
    return s ? s : "";
}

/* Memory for a string of `bytes`, and its final zero. NULL: there is none, which is reported. */
TN_ROUTINE char *
tn_new_string(const TnRoutine *r, int64_t bytes)
{
    char *to = r->text(r->user, bytes + 1);

    if (to)
        to[bytes] = 0;
    else
        tn_no_memory(r, bytes + 1);
    return to;
}

/* The element as a number with the same order: NaN is after all others, and both zeros are
 * equal. */
TN_ROUTINE uint64_t
tn_float_key(uint64_t bits, int width, uint64_t infinity)
{
    uint64_t sign = UINT64_C(1) << (width - 1), all = sign | (sign - 1);

    if ((bits & ~sign) > infinity)
        return all;
    if (!(bits & ~sign))
        bits = 0;
    return bits & sign ? ~bits & all : bits | sign;
}
TN_ROUTINE uint64_t
tn_key(int32_t type, const void *at, int64_t i)
{
    const uint64_t top = UINT64_C(1) << 63;

    switch (type) {
    case 'f': return tn_float_key(((const uint32_t *)at)[i], 32, 0x7f800000);
    case 'd': return tn_float_key(((const uint64_t *)at)[i], 64, UINT64_C(0x7ff0000000000000));
    case 'e': return tn_float_key(((const uint16_t *)at)[i], 16, 0x7c00);
    case 'g': return tn_float_key(((const uint16_t *)at)[i], 16, 0x7f80);
    case 'b': return (uint64_t)((const int8_t *)at)[i] ^ top;
    case 'h': return (uint64_t)((const int16_t *)at)[i] ^ top;
    case 'i': return (uint64_t)((const int32_t *)at)[i] ^ top;
    case 'l': return (uint64_t)((const int64_t *)at)[i] ^ top;
    case 'B': return ((const uint8_t *)at)[i];
    case 'H': return ((const uint16_t *)at)[i];
    case 'I': return ((const uint32_t *)at)[i];
    default: return ((const uint64_t *)at)[i];
    }
}
/* Negative, 0 or positive: the order of elements i and j. */
TN_ROUTINE int
tn_compare(const TnArray *a, int64_t i, const TnArray *b, int64_t j)
{
    if (a->type == 's')
        return strcmp(tn_string(a, i), tn_string(b, j));
    uint64_t x = tn_key(a->type, a->at, i), y = tn_key(b->type, b->at, j);
    return (x > y) - (x < y);
}

/* Stable sort of n numbers by `before`; room: n more. */
typedef int TnBefore(const void *user, int64_t x, int64_t y);
TN_ROUTINE void
tn_sort(int64_t *v, int64_t *room, int64_t n, TnBefore *before, const void *user)
{
    int64_t *from = v, *to = room;

    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            int64_t mid = begin + width < n ? begin + width : n,
                    end = mid + width < n ? mid + width : n;
            for (int64_t i = begin, j = mid, k = begin; k < end; k++)
                to[k] = i < mid && (j >= end || !before(user, from[j], from[i])) ? from[i++]
                                                                                 : from[j++];
        }
        int64_t *t = from;
        from = to;
        to = t;
    }
    if (from != v)
        memcpy(v, from, (size_t)n * sizeof *v);
}
#endif
