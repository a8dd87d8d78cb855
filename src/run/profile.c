/* profile: the time of each kernel of a session, and which thread ran which range of it when.
 *
 * A profiled session runs its model with a host of its own, which takes times around the other
 * host. So neither emitted code nor the pool checks whether a profile is wanted, and a session
 * without one costs nothing.
 */
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "run/internal.h"

struct Profile {
    TnHost host, under;
    KernelTime *kernel; /* [nkernel] */
    KernelEvent *event; /* [most] */
    uint32_t most;
    atomic_uint nevent;
};

/* The arguments of timed_range in place of a kernel's, with all that it needs at the end. */
typedef struct {
    TnArgs args;
    Profile *profile;
    TnKernelFn *fn;
    const TnArgs *real;
} TimedArgs;

static void
timed_range(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TimedArgs *t = (const TimedArgs *)args;
    double start = time_seconds();

    t->fn(t->real, begin, end, scratch);
    double seconds = time_seconds() - start;
    unsigned i = atomic_fetch_add_explicit(&t->profile->nevent, 1, memory_order_relaxed);
    if (i < t->profile->most)
        t->profile->event[i] = (KernelEvent){ args->kernel, (uint64_t)syscall(SYS_gettid),
                                              begin,        end,
                                              start,        seconds };
    else
        atomic_store_explicit(&t->profile->nevent, t->profile->most, memory_order_relaxed);
}

static void
run_ranges(const TnHost *host, TnKernelFn *fn, const TnArgs *args, int64_t trips, int64_t grain)
{
    if (host->parallel)
        host->parallel(host->user, fn, args, trips, grain);
    else
        fn(args, 0, trips, host->scratch);
}

static void
timed_parallel(void *user, TnKernelFn *fn, const TnArgs *args, int64_t trips, int64_t grain)
{
    Profile *p = user;
    KernelTime *k = &p->kernel[args->kernel];
    TimedArgs timed = { { .size = sizeof(TnArgs), .kernel = args->kernel }, p, fn, args };
    bool traced = p->most && atomic_load_explicit(&p->nevent, memory_order_relaxed) < p->most;
    double start = time_seconds();

    if (traced)
        run_ranges(&p->under, timed_range, &timed.args, trips, grain);
    else
        run_ranges(&p->under, fn, args, trips, grain);
    k->seconds += time_seconds() - start;
    k->calls++;
}

Profile *
profile_new(Arena *a, int32_t nkernel, uint32_t max_events)
{
    Profile *p = NEW(a, Profile);

    p->kernel = NEW_ARRAY(a, KernelTime, nkernel);
    p->event = NEW_ARRAY(a, KernelEvent, max_events);
    p->most = max_events;
    p->host = (TnHost){ .size = sizeof p->host, .parallel = timed_parallel, .user = p };
    return p;
}

const TnHost *
profile_host(Profile *p, const TnHost *under)
{
    p->under = *under;
    return &p->host;
}

const KernelTime *
profile_kernels(const Profile *p)
{
    return p->kernel;
}

const KernelEvent *
profile_events(const Profile *p, uint32_t *n)
{
    unsigned all = atomic_load_explicit(&p->nevent, memory_order_relaxed);

    *n = all < p->most ? all : p->most;
    return p->event;
}
