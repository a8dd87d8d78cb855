/* Every allocation fails, one after the other: of a compilation, a load, a run, and of files. Each
 * time the call says so with a status and a message, and gives everything back.
 *
 * The allocator of the C library is replaced by one with a counter, for Tenon's own objects alone
 * (the linker's --wrap): so it does not matter through which door memory is asked for. Under the
 * address sanitizer every object of an arena is an allocation; otherwise they come in chunks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "tenon.h"

/* ---- the counter -------------------------------------------------------------------------- */

static struct {
    bool on, persists;
    long calls, fail_at, live;
} counter;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
int __real_posix_memalign(void **p, size_t alignment, size_t n);
void __real_free(void *p);

static bool
fails(void)
{
    if (!counter.on)
        return false;
    counter.calls++;
    return counter.persists ? counter.calls >= counter.fail_at : counter.calls == counter.fail_at;
}

static void *
counted(void *p)
{
    counter.live += counter.on && p;
    return p;
}

void *
__wrap_malloc(size_t n)
{
    return fails() ? NULL : counted(__real_malloc(n));
}
void *
__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : counted(__real_calloc(n, size));
}
void *
__wrap_aligned_alloc(size_t a, size_t n)
{
    return fails() ? NULL : counted(__real_aligned_alloc(a, n));
}

int
__wrap_posix_memalign(void **p, size_t a, size_t n)
{
    if (fails())
        return ENOMEM;
    int error = __real_posix_memalign(p, a, n);
    counter.live += counter.on && !error;
    return error;
}

void *
__wrap_realloc(void *p, size_t n)
{
    if (fails())
        return NULL;
    counter.live += counter.on && !p;
    return __real_realloc(p, n);
}

void
__wrap_free(void *p)
{
    counter.live -= counter.on && p;
    __real_free(p);
}

/* ---- a world to fail in ---------------------------------------------------------------------- */

static char folder[64], cc[128];

static const char *
in_folder(const char *name)
{
    static char path[8][160];
    static int next;
    next = (next + 1) % 8;
    snprintf(path[next], sizeof *path, "%s/%s", folder, name);
    return path[next];
}

static void
save(const char *name, const char *text)
{
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Few operators, of which every stage has something to do: a constant to fold, equal calls, a
 * product, a row-wise kernel, a symbol. */
static const char model_text[] = "graph @t(%x: f32[batch, 4]) -> (%y, %z) {\n"
                                 "  %w: f32[4, 3] = const [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n"
                                 "  %v: f32[4, 3] = add(%w, %w)\n"
                                 "  %h: f32[batch, 3] = matmul(%x, %v)\n"
                                 "  %y: f32[batch, 3] = softmax(%h)\n"
                                 "  %a: f32[batch, 3] = relu(%h)\n"
                                 "  %z: f32[batch, 3] = relu(%h)\n"
                                 "}\n";

/* A compiler that has the answers ready, for it is asked hundreds of times. */
static const char compiler_text[] = "#!/bin/sh\ncase \" $* \" in *\" -dM \"*) exec cat "
                                    "\"${0%/*}/macros\";; *-shared*) ;; *) exec cc \"$@\";; esac\n"
                                    "while [ \"$1\" != -o ]; do shift; done\n"
                                    "[ -f \"${0%/*}/linked\" ] || cc -shared -Wl,-z,noexecstack -o "
                                    "\"${0%/*}/linked\" $(shift 2; printf '%s ' \"$@\")\n"
                                    "exec cp \"${0%/*}/linked\" \"$2\"\n";

typedef TnStatus Act(TnContext *ctx);

static TnStatus
compile_to(TnContext *ctx, const char *stage)
{
    TnCompileOptions o = TN_INIT(TnCompileOptions);
    TnCompileReport made = TN_INIT(TnCompileReport);
    o.cc = cc;
    o.cache_dir = in_folder("cache");
    o.jobs = 1;
    o.target = "generic";
    o.stop_after = stage;
    return tn_compile(ctx, in_folder("m.tn"), in_folder("m.so"), &o, &made);
}

static TnStatus
compile_to_source(TnContext *ctx)
{
    return compile_to(ctx, "emit");
}
static TnStatus
compile(TnContext *ctx)
{
    return compile_to(ctx, NULL);
}

static TnStatus
interpret(TnContext *ctx)
{
    float x[8] = { 0 };
    TnTensor in = { sizeof in, NULL, "f32", 2, (const int64_t[]){ 2, 4 }, x, sizeof x },
             out[2] = { TN_INIT(TnTensor), TN_INIT(TnTensor) };
    return tn_interpret(ctx, in_folder("m.tn"), NULL, &in, 1, out, 2);
}

static TnStatus
inspect(TnContext *ctx)
{
    const char *text;
    TnStatus s = tn_inspect(ctx, in_folder("m.tn"), 0, &text);
    return s ? s : tn_inspect(ctx, in_folder("kept.so"), 1, &text);
}

static TnStatus
load_and_run(TnContext *ctx)
{
    float x[40] = { 0 };
    int64_t dims[2] = { 2, 4 };
    TnModel *m = NULL;
    TnSession *session = NULL;
    TnSessionOptions o = { sizeof o, 2, NULL };
    TnTensor in = { sizeof in, NULL, "f32", 2, dims, x, sizeof x },
             out[2] = { TN_INIT(TnTensor), TN_INIT(TnTensor) };
    TnStatus s = tn_load(ctx, in_folder("kept.so"), &m);
    if (s == TN_OK)
        s = tn_model_set_name(m, "a name");
    if (s == TN_OK)
        s = tn_session_new(ctx, m, &o, &session);
    if (s == TN_OK)
        s = tn_session_profile(session, 4);
    for (dims[0] = 2; s == TN_OK && dims[0] <= 10; dims[0] *= 5)
        s = tn_run(session, &in, 1, out, 2);
    if (s == TN_OK)
        s = tn_session_reserve(session, &in, 1);
    tn_session_free(session);
    tn_model_free(m);
    return s;
}

static TnStatus
files(TnContext *ctx)
{
    TnTensor x = { .size = sizeof x, .dtype = "f32", .rank = 1, .dims = (const int64_t[]){ 5 } },
             y = TN_INIT(TnTensor);
    TnStatus s = tn_tensor_random(ctx, 1, 0, &x);
    if (s == TN_OK)
        s = tn_tensor_write_npy(ctx, in_folder("x.npy"), &x);
    return s ? s : tn_tensor_read(ctx, in_folder("x.npy"), &y);
}

/* ---- failing -------------------------------------------------------------------------------- */

static void
nothing_is_left(long n)
{
    const char *where[] = { folder, in_folder("cache/work") };
    for (int i = 0; i < 2; i++) {
        DIR *dir = opendir(where[i]);
        for (struct dirent *e; dir && (e = readdir(dir));)
            if (!strncmp(e->d_name, ".tenon-", 7) || !strncmp(e->d_name, "build-", 6))
                fail_msg("allocation %ld failed and %s/%s is left", n, where[i], e->d_name);
        if (dir)
            closedir(dir);
    }
}

/* With its n-th allocation failing, and with all from then on. True: there was no n-th. */
static bool
fail_once(Act *act, long n, bool persists)
{
    TnContext *ctx = NULL;
    counter.on = true;
    counter.persists = persists;
    counter.calls = counter.live = 0;
    counter.fail_at = n;
    TnStatus s = tn_context_new(NULL, &ctx);
    if (s == TN_OK)
        s = act(ctx);
    bool reached = counter.calls >= n;
    counter.fail_at = -1;
    counter.persists = false;
    if (s != TN_OK && s != TN_LIMIT)
        fail_msg("allocation %ld failed and the status is %s: %s", n, tn_status_name(s),
                 tn_error(ctx));
    if (s != TN_OK && ctx && !strstr(tn_error(ctx), "memory"))
        fail_msg("allocation %ld failed and the message is \"%s\"", n, tn_error(ctx));
    if (s == TN_OK && persists && reached)
        fail_msg("allocations failed from the %ldth on, and the call did not", n);
    tn_context_free(ctx);
    counter.on = false;
    if (counter.live)
        fail_msg("allocation %ld failed and %ld blocks are left", n, counter.live);
    return !reached;
}

/* failures of one act: an act is as long as it has allocations, so all of them are its square */
enum { BY_DAY = 1500 };

/* From the `first` on; the number of allocations there are. Where they are too many for a day
 * (every object is one under the address sanitizer), evenly spread ones, and all of them at
 * night. */
static long
fail_each(Act *act, long first)
{
    fail_once(act, LONG_MAX, false);
    long all = counter.calls, apart = getenv("TENON_NIGHTLY") ? 1 : (all - first) / BY_DAY + 1,
         tries = 0;

    for (long n = first; !fail_once(act, n, tries % 2); n += apart)
        if (++tries % 64 == 0)
            nothing_is_left(n);
    nothing_is_left(all);
    return all;
}

static void
each_of_a_compilation(void **state)
{
    (void)state;
    long stages = fail_each(compile_to_source, 1);
    long all = fail_each(compile, stages);
    print_message("%ld allocations, %ld of them in build\n", all, all - stages);
    assert_true(all > stages);
}

static void
each_of_an_interpretation(void **state)
{
    (void)state;
    assert_true(fail_each(interpret, 1) > 10);
}

static void
each_of_a_run(void **state)
{
    (void)state;
    assert_true(fail_each(load_and_run, 1) > 5);
}

static void
each_of_files(void **state)
{
    (void)state;
    assert_true(fail_each(files, 1) > 2);
    assert_true(fail_each(inspect, 1) > 5);
}

static int
begin(void **state)
{
    (void)state;
    char command[600];
    strcpy(folder, "/tmp/tenon-test-memory-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(cc, sizeof cc, "%s/cc", folder);
    save("m.tn", model_text);
    save("cc", compiler_text);
    snprintf(command, sizeof command, "chmod +x %s && cc -dM -E -x c /dev/null > %s/macros", cc,
             folder);
    TnContext *ctx;
    if (system(command) || tn_context_new(NULL, &ctx) != TN_OK)
        return -1;
    if (compile(ctx) != TN_OK) {
        print_message("%s\n", tn_error(ctx));
        return -1;
    }
    tn_context_free(ctx);
    return rename(in_folder("m.so"), in_folder("kept.so"));
}

static int
end(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_of_a_run),
        cmocka_unit_test(each_of_files),
        cmocka_unit_test(each_of_an_interpretation),
        cmocka_unit_test(each_of_a_compilation),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
