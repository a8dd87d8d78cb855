/* prelude_stack: calls of functions end before the stack does.
 *
 * Functions of a plain program call each other on the stack of the thread that runs them, so how
 * deep they may go depends on that thread. Where its end is not known, calls may take
 * TN_STACK_SURE bytes.
 */
#ifdef __linux__
#include <pthread.h>
extern int pthread_getattr_np(pthread_t thread, pthread_attr_t *attr);      /* not in POSIX */
#endif
#define TN_STACK_KEPT (64 << 10)     /* for kernels and the C library, which run at any depth */
#ifdef __wasm__
#define TN_STACK_SURE (16 << 10)     /* linkers give 64 KB to all of a module */
#else
#define TN_STACK_SURE (192 << 10)    /* macOS gives 512 KB to a thread, the least of such hosts */
#endif
/* The address that the frame of no call may reach. Stacks grow down. */
TN_COLD const char *
tn_find_stack_end(const char *here)
{
#ifdef __linux__
    pthread_attr_t attr;
    void *low;
    size_t bytes;
    if (!pthread_getattr_np(pthread_self(), &attr)) {
        int got = pthread_attr_getstack(&attr, &low, &bytes);
        pthread_attr_destroy(&attr);
        if (!got && here > (const char *)low)
            return (const char *)low + TN_STACK_KEPT;
    }
#endif
    return here - TN_STACK_SURE;
}
/* Is there room on the stack for one more call? The end is found once for each thread. */
static int
tn_stack_left(int32_t depth)
{
    static _Thread_local const char *end, *begin;
    const char *here = __builtin_frame_address(0);
    if (!end || (depth == 1 && here > begin))
        end = tn_find_stack_end(begin = here);
    return here > end;
}
