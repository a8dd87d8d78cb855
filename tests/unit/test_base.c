/* base: arenas under failure, maps against a model, text, messages, files that appear whole or
 * not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/internal.h"
#include "base/threads.h"

/* ---- an allocator that counts and can fail ---------------------------------------------- */

typedef struct {
    int live, calls, fail_at;
} Counter;

static void *
count_alloc(void *user, size_t bytes)
{
    Counter *c = user;
    if (++c->calls == c->fail_at)
        return NULL;
    void *p = malloc(bytes);
    memset(p, 0xa5, bytes);
    c->live++;
    return p;
}

static void
count_release(void *user, void *block)
{
    ((Counter *)user)->live--;
    free(block);
}

static void
arena_gives_zeroed_aligned_memory(void **state)
{
    (void)state;
    Counter c = { 0 };
    Allocator allocator = { count_alloc, count_release, &c };
    Arena *a = arena_new(&allocator, NULL);
    uint8_t *kept[300];
    for (size_t i = 0; i < 300; i++) {
        size_t n = i * i % 5000;
        kept[i] = arena_alloc(a, n);
        assert_int_equal((uintptr_t)kept[i] % 16, 0);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(kept[i][k], 0);
        memset(kept[i], (int)i, n);
    }
    for (size_t i = 0; i < 300; i++)
        for (size_t k = 0; k < i * i % 5000; k++)
            assert_int_equal(kept[i][k], (uint8_t)i);
    assert_true(arena_bytes(a) > 300);
    assert_true(c.live > 1);
    arena_free(a);
    assert_int_equal(c.live, 0);
}

static int order[100], norder;

static void
note_order(void *what)
{
    order[norder++] = *(int *)what;
}

static void
closers_run_newest_first(void **state)
{
    (void)state;
    int one = 1, two = 2, three = 3;
    Arena *a = arena_new(NULL, NULL);
    norder = 0;
    arena_closer(a, note_order, &one);
    arena_closer(a, note_order, &two);
    arena_closer(a, note_order, &three);
    arena_free(a);
    assert_int_equal(norder, 3);
    assert_int_equal(order[0], 3);
    assert_int_equal(order[1], 2);
    assert_int_equal(order[2], 1);
}

/* Without memory for its closer, what is open is closed all the same, and once; and no watch comes
 * between. */
static void
nothing_stays_open(void **state)
{
    (void)state;
    static Ctx ctx;
    Counter c = { .fail_at = 2 };
    Allocator allocator = { count_alloc, count_release, &c };
    Watch over = { .until = 1e-9 };
    int one = 1;
    Arena *volatile a = arena_new(&allocator, &ctx.oom);
    volatile bool jumped = false;
    norder = 0;
    if (setjmp(ctx.oom.jump))
        jumped = true;
    else
        arena_closer(a, note_order, &one);
    assert_true(jumped);
    assert_int_equal(norder, 1);
    arena_watch(a, &over);
    if (setjmp(ctx.oom.jump))
        fail_msg("the watch ended what had to be noted");
    for (int i = 0; i < 100; i++) /* more than are between two looks */
        arena_closer(a, note_order, &one);
    norder = 0;
    arena_free(a);
    assert_int_equal(norder, 100);
    assert_int_equal(c.live, 0);
}

/* Something that uses every container. */
static void
build_things(Ctx *c, Arena *a)
{
    Map m = { .arena = a };
    VEC(int) v = { 0 };
    Text t = { .arena = a };
    ctx_init(c, a);
    for (int i = 0; i < 1000; i++) {
        map_put(&m, (uint64_t)i * 7919, (uint64_t)i);
        VEC_PUSH(a, &v, i);
        text_printf(&t, "%d,", i);
        sym_printf(c, "name %d", i);
    }
    diag_error(&c->diags, DIAG_USAGE, (Loc){ .file = "f" }, "%s", text_str(&t));
}

static void
every_failed_allocation_jumps_and_leaks_nothing(void **state)
{
    (void)state;
    volatile int failures = 0;
    for (volatile int n = 1;; n = n + 1) {
        static Counter c;
        static Ctx ctx;
        Arena *volatile a = NULL;
        c = (Counter){ .fail_at = n };
        Allocator allocator = { count_alloc, count_release, &c };
        if (setjmp(ctx.oom.jump)) {
            failures++;
            arena_free(a);
            assert_int_equal(c.live, 0);
            continue;
        }
        a = arena_new(&allocator, &ctx.oom);
        build_things(&ctx, a);
        arena_free(a);
        assert_int_equal(c.live, 0);
        if (c.calls < n)
            break;
    }
    assert_true(failures > 5);
}

static void
absurd_sizes_count_as_out_of_memory(void **state)
{
    (void)state;
    static Oom oom;
    Arena *volatile a = arena_new(NULL, &oom);
    volatile int jumps = 0;
    if (setjmp(oom.jump) == 0)
        arena_alloc(a, SIZE_MAX - 3);
    else
        jumps++;
    if (setjmp(oom.jump) == 0)
        arena_alloc_array(a, SIZE_MAX / 8, 64);
    else
        jumps++;
    assert_int_equal(jumps, 2);
    arena_free(a);
}

/* ---- containers ------------------------------------------------------------------------- */

static void
map_agrees_with_a_plain_array(void **state)
{
    (void)state;
    enum { KEYS = 512 };
    Arena *a = arena_new(NULL, NULL);
    Map m = { .arena = a };
    uint64_t model[KEYS], got;
    bool has[KEYS] = { 0 };
    uint32_t n = 0, random = 12345;
    assert_false(map_get(&m, 0, NULL));
    for (int step = 0; step < 5000; step++) {
        random = random * 1664525 + 1013904223;
        uint32_t k = random >> 8 & (KEYS - 1);
        /* 0 is a key, and collisions of low bits */
        uint64_t key = (uint64_t)k << (k % 48);
        for (uint32_t j = 0; j < k; j++)
            if ((uint64_t)j << (j % 48) == key)
                k = j;
        assert_int_equal(map_get(&m, key, &got), has[k]);
        if (has[k])
            assert_true(got == model[k]);
        n += !has[k];
        has[k] = true;
        model[k] = random;
        map_put(&m, key, random);
        assert_int_equal(m.n, n);
    }
    arena_free(a);
}

static void
text_grows_and_stays_terminated(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, NULL);
    Text t = { .arena = a };
    assert_string_equal(text_str(&t), "");
    text_indent(&t, 2);
    text_printf(&t, "%s=%d", "x", 7);
    assert_string_equal(text_str(&t), "    x=7");
    char expected[20000] = "    x=7";
    size_t n = 7;
    for (int i = 0; i < 3000; i++) {
        text_printf(&t, "%d", i);
        n += (size_t)sprintf(expected + n, "%d", i);
        assert_int_equal(t.n, n);
    }
    assert_string_equal(text_str(&t), expected);
    text_bytes(&t, "a\0b", 3);
    assert_int_equal(t.n, n + 3);
    arena_free(a);
}

static void
names_are_equal_when_pointers_are(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    ctx_init(&c, a);
    Sym first[1000];
    for (int i = 0; i < 1000; i++)
        first[i] = sym_printf(&c, "%d", i);
    for (int i = 0; i < 1000; i++) {
        char s[16];
        sprintf(s, "%dx", i);
        assert_ptr_equal(sym_n(&c, s, strlen(s) - 1), first[i]);
        assert_ptr_not_equal(sym(&c, s), first[i]);
        assert_int_equal(atoi(first[i]), i);
    }
    char big[600];
    memset(big, 'y', sizeof big);
    big[599] = 0;
    assert_ptr_equal(sym_printf(&c, "%s", big), sym(&c, big));
    arena_free(a);
}

static void
hash_is_xxhash64(void **state)
{
    (void)state;
    assert_true(hash_bytes("", 0, 0) == 0xef46db3751d8e999u);
    assert_true(hash_bytes("abc", 3, 0) == 0x44bc2cf5ad770999u);
}

static void
floor_division_rounds_down(void **state)
{
    (void)state;
    for (int64_t a = -9; a <= 9; a++) {
        for (int64_t b = -4; b <= 4; b++) {
            if (!b)
                continue;
            int64_t q = floor_div(a, b), r = floor_mod(a, b);
            assert_int_equal(q * b + r, a);
            assert_true(r == 0 || (r > 0) == (b > 0));
            assert_true(llabs(r) < llabs(b));
        }
    }
}

/* ---- messages --------------------------------------------------------------------------- */

static void
messages_say_where(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, NULL);
    Diags d = { .arena = a };
    char file[] = "mlp.tn";
    assert_false(
        diag_error(&d, DIAG_MODEL, (Loc){ .file = file, .line = 14, .col = 8 }, "text %d", 5));
    strcpy(file, "gone");
    diag_error(&d, DIAG_USAGE, (Loc){ .file = "resnet.onnx", .node = "node 41 \"layer1.0/Conv\"" },
               "text");
    diag_error(&d, DIAG_USAGE, (Loc){ 0 }, "text");
    diag_note(&d, (Loc){ .file = "a", .line = 3 }, "here");
    const char *expected[] = { "mlp.tn:14:8: error: text 5",
                               "resnet.onnx: node 41 \"layer1.0/Conv\": error: text", "error: text",
                               "a:3: note: here" };
    assert_int_equal(d.list.n, 4);
    assert_int_equal(d.worst, DIAG_MODEL);
    for (int i = 0; i < 4; i++) {
        Text t = { .arena = a };
        diag_print(&t, &d.list.at[i]);
        assert_string_equal(text_str(&t), expected[i]);
    }
    arena_free(a);
}

/* ---- files ------------------------------------------------------------------------------ */

static char folder[64];

static int
make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tenon-test-base-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

/* How many names the folder holds; with remove, empties and removes it. */
static int
entries(bool remove_all)
{
    int n = 0;
    char path[512];
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_name[0] == '.' && (!e->d_name[1] || e->d_name[1] == '.'))
            continue;
        n++;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (remove_all)
            remove(path);
    }
    if (dir)
        closedir(dir);
    return n;
}

static int
remove_folder(void **state)
{
    (void)state;
    entries(true);
    return rmdir(folder);
}

static bool
has_message(const Diags *d, const char *part)
{
    return d->list.n == 1 && strstr(d->list.at[0].text, part);
}

static void
writer_makes_a_whole_file(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, NULL);
    Diags d = { .arena = a };
    const char *path = path_join(a, folder, "out");
    static uint8_t big[200000];
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (uint8_t)(i * 31);
    Writer *w = writer_open(a, &d, path);
    assert_non_null(w);
    writer_put(w, "abc", 3);
    writer_align(w, 4096);
    assert_int_equal(writer_offset(w), 4096);
    writer_put(w, big, sizeof big);
    writer_put(w, "end", 3);
    assert_false(file_exists(path));
    assert_true(file_exists(writer_path(w)));
    assert_true(writer_commit(w, 0755));
    assert_int_equal(entries(false), 1);

    struct stat st;
    Bytes b;
    stat(path, &st);
    assert_int_equal(st.st_mode & 0700, 0700);
    assert_true(file_map(a, &d, path, &b));
    assert_int_equal(b.bytes, 4096 + sizeof big + 3);
    assert_memory_equal(b.data, "abc\0\0", 5);
    assert_memory_equal(b.data + 4096, big, sizeof big);
    file_forget(b);
    assert_memory_equal(b.data + 4096, big, sizeof big);
    assert_memory_equal(b.data + b.bytes - 3, "end", 3);
    arena_free(a);
}

typedef struct {
    Writer *w;
    uint64_t at;
    atomic_uint calls;
    bool stop;
} Filling;

static void
fill_one(void *user, uint32_t thread, uint32_t i)
{
    Filling *f = user;
    uint64_t word = i;

    (void)thread;
    atomic_fetch_add(&f->calls, 1);
    writer_put_at(f->w, f->at + 8 * i, &word, sizeof word);
}

static bool
asked_to_stop(void *user)
{
    const Filling *f = user;
    return f->stop;
}

static void
threads_fill_the_room_of_a_file(void **state)
{
    (void)state;
    enum { N = 1000 };
    Arena *a = arena_new(NULL, NULL);
    Diags d = { .arena = a };
    const char *path = path_join(a, folder, "filled");
    Filling f = { .w = writer_open(a, &d, path) };
    Watch watch = { .stopped = asked_to_stop, .user = &f };
    Bytes b;

    assert_non_null(f.w);
    writer_put(f.w, "before", 6);
    f.at = writer_room(f.w, 8 * N + 5);
    assert_int_equal(f.at, 6);
    assert_true(threads_for_each(a, 4, N, fill_one, &f));
    assert_int_equal(f.calls, N);
    writer_put(f.w, "behind", 6);
    assert_true(writer_commit(f.w, 0644) && file_map(a, &d, path, &b));
    assert_int_equal(b.bytes, 6 + 8 * N + 5 + 6);
    assert_memory_equal(b.data, "before", 6);
    for (uint64_t i = 0; i < N; i++)
        assert_memory_equal(b.data + 6 + 8 * i, &i, 8);
    assert_memory_equal(b.data + 6 + 8 * N, "\0\0\0\0\0behind", 11);

    f.calls = 0;
    f.stop = true;
    arena_watch(a, &watch);
    assert_false(threads_for_each(a, 1, N, fill_one, &f));
    assert_true(watch.told);
    assert_int_equal(f.calls, 0);
    assert_int_equal(unlink(path), 0);
    arena_free(a);
}

static void
uncommitted_writer_leaves_nothing(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, NULL);
    Diags d = { .arena = a };
    const char *path = arena_printf(a, "%s/old", folder);
    Writer *w = writer_open(a, &d, path);
    writer_put(w, "old", 3);
    assert_true(writer_commit(w, 0644));
    int before = entries(false);
    w = writer_open(a, &d, path);
    Writer *second = writer_open(a, &d, path);
    assert_non_null(second);
    writer_put(w, "new!", 4);
    assert_int_equal(entries(false), before + 2);
    arena_free(a);
    assert_int_equal(entries(false), before);
    char text[8] = { 0 };
    FILE *f = fopen(path_join(a = arena_new(NULL, NULL), folder, "old"), "r");
    assert_int_equal(fread(text, 1, 8, f), 3);
    fclose(f);
    assert_string_equal(text, "old");
    arena_free(a);
}

static void
full_disk_is_reported_by_commit(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, NULL);
    Diags d = { .arena = a };
    int before = entries(false);
    struct rlimit was, small;
    getrlimit(RLIMIT_FSIZE, &was);
    small = (struct rlimit){ 100000, was.rlim_max };
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    Writer *w = writer_open(a, &d, path_join(a, folder, "big"));
    static char zeros[70000];
    for (int i = 0; i < 5; i++)
        writer_put(w, zeros, sizeof zeros);
    bool ok = writer_commit(w, 0644);
    setrlimit(RLIMIT_FSIZE, &was);
    signal(SIGXFSZ, handler);
    assert_false(ok);
    assert_int_equal(d.worst, DIAG_LIMIT);
    assert_true(has_message(&d, "350000 bytes"));
    assert_true(has_message(&d, "ulimit -f"));
    assert_int_equal(entries(false), before);
    arena_free(a);
}

static void
places_that_cannot_be_written_are_named(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, NULL);
    Diags d = { .arena = a };
    assert_null(writer_open(a, &d, path_join(a, folder, "missing/out")));
    assert_true(has_message(&d, "missing"));
    assert_true(has_message(&d, "No such file"));
    assert_int_equal(d.worst, DIAG_USAGE);
    d = (Diags){ .arena = a };
    assert_null(writer_open(a, &d, folder));
    assert_true(has_message(&d, "a folder"));
    d = (Diags){ .arena = a };
    assert_null(writer_open(a, &d, "/dev/null"));
    assert_true(has_message(&d, "not a regular file"));
    arena_free(a);
}

static void
a_link_survives_writing_through_it(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, NULL);
    Diags d = { .arena = a };
    const char *real = path_join(a, folder, "real"), *link = path_join(a, folder, "link");
    for (int i = 0; i < 2; i++) {
        Writer *w = writer_open(a, &d, i ? link : real);
        writer_put(w, i ? "two" : "one", 3);
        assert_true(writer_commit(w, 0644));
        if (!i)
            assert_int_equal(symlink("real", link), 0);
    }
    struct stat st;
    Bytes b;
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_true(file_map(a, &d, real, &b));
    assert_memory_equal(b.data, "two", 3);
    arena_free(a);
}

static void
unreadable_files_are_named(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, NULL);
    Bytes b;
    Diags d = { .arena = a };
    assert_false(file_map(a, &d, path_join(a, folder, "nothing"), &b));
    assert_true(has_message(&d, "No such file"));
    d = (Diags){ .arena = a };
    assert_false(file_map(a, &d, folder, &b));
    assert_true(has_message(&d, "a folder"));
    d = (Diags){ .arena = a };
    assert_false(file_map(a, &d, "/dev/zero", &b));
    const char *empty = path_join(a, folder, "empty");
    close(open(empty, O_CREAT | O_WRONLY, 0644));
    assert_true(file_map(a, &d, empty, &b));
    assert_int_equal(b.bytes, 0);
    assert_non_null(b.data);
    arena_free(a);
}

static void
paths_and_folders(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, NULL);
    Diags d = { .arena = a };
    assert_string_equal(path_folder(a, "a"), ".");
    assert_string_equal(path_folder(a, "/a"), "/");
    assert_string_equal(path_folder(a, "b//a"), "b");
    assert_string_equal(path_name("x/y/z"), "z");
    assert_string_equal(path_join(a, "x/", "y"), "x/y");
    assert_string_equal(path_join(a, "x", "y"), "x/y");
    const char *deep = path_join(a, folder, "p/q/r");
    assert_true(folder_make(&d, deep));
    assert_true(folder_make(&d, deep));
    const char *file = path_join(a, deep, "f");
    close(open(file, O_CREAT | O_WRONLY, 0644));
    assert_false(folder_make(&d, path_join(a, file, "g")));
    assert_int_equal(d.worst, DIAG_USAGE);
    remove(file);
    rmdir(deep);
    rmdir(path_join(a, folder, "p/q"));
    rmdir(path_join(a, folder, "p"));
    arena_free(a);
}

static void
there_is_a_processor(void **state)
{
    (void)state;
    int n = cpu_count();
    assert_in_range(n, 1, 1 << 16);
    assert_true(n <= sysconf(_SC_NPROCESSORS_ONLN));
    double t = time_seconds();
    assert_true(time_seconds() >= t);
}

static void
write_file(Arena *a, const char *path, const char *text)
{
    Diags d = { .arena = a };

    assert_true(folder_make(&d, path_folder(a, path)));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* The root of a system of one process whose control groups are these files. */
static const char *
system_with(Arena *a, const char *groups, const char *const (*file)[2], int n)
{
    const char *root = arena_str(a, "/tmp/tenon-test-groups-XXXXXX");

    assert_non_null(mkdtemp((char *)(uintptr_t)root));
    write_file(a, path_join(a, root, "proc/self/cgroup"), groups);
    for (int i = 0; i < n; i++)
        write_file(a, path_join(a, root, arena_printf(a, "sys/fs/cgroup/%s", file[i][0])),
                   file[i][1]);
    return root;
}

static void
control_groups_limit(void **state)
{
    static const char *const old[][2] = {
        { "memory/memory.limit_in_bytes", "9223372036854771712\n" },
        { "memory/a/memory.limit_in_bytes", "3000000\n" },
        { "memory/a/b/memory.limit_in_bytes", "4000000\n" },
        { "cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n" },
        { "cpu,cpuacct/a/cpu.cfs_period_us", "100000\n" },
    };
    static const char *const new[][2] = {
        { "s/memory.max", "max\n" },
        { "s/t/memory.max", "5000000\n" },
        { "s/cpu.max", "50000 100000\n" },
        { "s/t/cpu.max", "max 100000\n" },
    };
    Arena *a = arena_new(NULL, NULL);
    (void)state;

    const char *one = system_with(a, "9:pids:/\n4:memory:/a/b\n2:cpu,cpuacct:/a\n", old, 5),
               *two = system_with(a, "0::/s/t\n", new, 4),
               *none = system_with(a, "0::/elsewhere\n", NULL, 0);
    assert_int_equal(cgroup_memory(one), 3000000);
    assert_int_equal(cgroup_cpus(one), 2);
    assert_int_equal(cgroup_memory(two), 5000000);
    assert_int_equal(cgroup_cpus(two), 1);
    assert_int_equal(cgroup_memory(none), INT64_MAX);
    assert_int_equal(cgroup_cpus(none), INT64_MAX);
    assert_int_equal(cgroup_memory("/nowhere"), INT64_MAX);
    assert_true(memory_size() <= cgroup_memory(""));
    assert_int_equal(system(arena_printf(a, "rm -r %s %s %s", one, two, none)), 0);
    arena_free(a);
}

static bool
asked(void *user)
{
    int *times = user;
    return ++*times == 3;
}

static void
test_watch(void **state)
{
    (void)state;
    Oom oom;
    int times = 0;
    volatile int rounds = 0;
    Watch w = { .stopped = asked, .user = &times };
    Arena *a = arena_new(NULL, &oom);
    arena_watch(a, &w);
    if (!setjmp(oom.jump))
        for (;; rounds++)
            NEW(arena_child(a), int); /* children are watched too */
    assert_int_equal(w.over, WATCH_STOPPED);
    assert_true(times == 3 && rounds > 10 && rounds < 1000);
    NEW(a, int); /* what cleans up is not */

    w = (Watch){ .until = time_seconds() + 0.02 };
    assert_true(arena_patience(a) >= 1 && arena_patience(a) <= 21);
    if (!setjmp(oom.jump))
        for (;;)
            arena_poll(a);
    assert_int_equal(w.over, WATCH_TIME);
    assert_true(time_seconds() - w.until < 0.5);
    arena_free(a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watch),
        cmocka_unit_test(arena_gives_zeroed_aligned_memory),
        cmocka_unit_test(closers_run_newest_first),
        cmocka_unit_test(nothing_stays_open),
        cmocka_unit_test(every_failed_allocation_jumps_and_leaks_nothing),
        cmocka_unit_test(absurd_sizes_count_as_out_of_memory),
        cmocka_unit_test(map_agrees_with_a_plain_array),
        cmocka_unit_test(text_grows_and_stays_terminated),
        cmocka_unit_test(names_are_equal_when_pointers_are),
        cmocka_unit_test(hash_is_xxhash64),
        cmocka_unit_test(floor_division_rounds_down),
        cmocka_unit_test(messages_say_where),
        cmocka_unit_test(writer_makes_a_whole_file),
        cmocka_unit_test(threads_fill_the_room_of_a_file),
        cmocka_unit_test(uncommitted_writer_leaves_nothing),
        cmocka_unit_test(full_disk_is_reported_by_commit),
        cmocka_unit_test(places_that_cannot_be_written_are_named),
        cmocka_unit_test(a_link_survives_writing_through_it),
        cmocka_unit_test(unreadable_files_are_named),
        cmocka_unit_test(paths_and_folders),
        cmocka_unit_test(there_is_a_processor),
        cmocka_unit_test(control_groups_limit),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
