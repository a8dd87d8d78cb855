/* The system's compiler and the cache of objects. Units are a line each, so this stays quick. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "build/build.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    Arena *arena;
    Diags diags;
    char dir[64];
    BuildOptions o;
    uint32_t compiled, cached;
    const char *out;
} Fixture;

static int
setup(void **state)
{
    Fixture *f = calloc(1, sizeof *f);
    f->arena = arena_new(NULL, NULL);
    f->diags.arena = f->arena;
    strcpy(f->dir, "/tmp/tenon-test-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    f->o.cache_dir = path_join(f->arena, f->dir, "cache");
    f->o.jobs = 2;
    f->out = path_join(f->arena, f->dir, "out.so");
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    Fixture *f = *state;
    char command[256];
    snprintf(command, sizeof command, "chmod -R u+w %s; rm -rf %s", f->dir, f->dir);
    int failed = system(command);
    arena_free(f->arena);
    free(f);
    return failed;
}

static bool
build(Fixture *f, const BuildUnit *unit, uint32_t n)
{
    return build_shared(f->arena, &f->diags, &f->o, unit, n, f->out, &f->compiled, &f->cached);
}

static const char *
messages(Fixture *f)
{
    Text t = { .arena = f->arena };
    for (uint32_t i = 0; i < f->diags.list.n; i++) {
        diag_print(&t, &f->diags.list.at[i]);
        text_add(&t, "\n");
    }
    return text_str(&t);
}

static int
call(const char *path, const char *name)
{
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(so);
    int (*fn)(void) = (int (*)(void))dlsym(so, name);
    assert_non_null(fn);
    int v = fn();
    dlclose(so);
    return v;
}

/* A compiler of our own: a shell's words. */
static const char *
compiler(Fixture *f, const char *name, const char *words)
{
    const char *path = path_join(f->arena, f->dir, name);
    FILE *script = fopen(path, "w");

    assert_non_null(script);
    fprintf(script, "#!/bin/sh\n%s\n", words);
    fclose(script);
    assert_int_equal(chmod(path, 0755), 0);
    return path;
}

/* cc, but for a fault where `when` is true of a compilation: o is the level of optimisation, $* all
 * arguments. */
static const char *
faulty(Fixture *f, const char *name, const char *when)
{
    return compiler(f, name,
                    arena_printf(f->arena,
                                 "for a; do case $a in -O*) o=$a;; esac; done\n"
                                 "case \" $* \" in *' -c '*) if %s; then echo \"a.c: In function "
                                 "'f'\"; echo 'a.c:3: internal compiler error: in pretend' >&2; "
                                 "exit 1; fi;; esac\nexec cc \"$@\"",
                                 when));
}

static const BuildUnit two[] = {
    { "one", "int one(void) { return 1; }", "-O1" },
    { "sum",
      "int one(void);\n__attribute__((visibility(\"default\"))) int sum(void) { return one() + 41; "
      "}",
      "-O1" },
};

static void
two_units_make_a_library_and_the_second_build_compiles_nothing(void **state)
{
    Fixture *f = *state;
    assert_true(build(f, two, 2));
    assert_int_equal(f->compiled, 2);
    assert_int_equal(call(f->out, "sum"), 42);
    assert_true(build(f, two, 2));
    assert_int_equal(f->compiled, 0);
    assert_int_equal(f->cached, 2);
    assert_int_equal(call(f->out, "sum"), 42);
    assert_string_equal(messages(f), "");

    CacheUse use;
    assert_true(build_cache_use(&f->diags, f->o.cache_dir, &use));
    assert_int_equal(use.files, 3); /* two objects and the library */
    assert_true(use.bytes > 0);
}

/* The object says 2 where the source says 1, so the result tells which of them was linked. */
static void
a_given_object_is_linked_on_its_own_machine(void **state)
{
    Fixture *f = *state;
    const char *object = path_join(f->arena, f->dir, "given.o");
    BuildUnit units[] = { two[0], two[1] };
    const char *cc = compiler(
        f, "elsewhere",
        "case \" $* \" in *' -dM '*) cc \"$@\" | grep -v __linux__;; *) exec cc \"$@\";; esac");

    assert_int_equal(
        system(arena_printf(
            f->arena, "echo 'int one(void) { return 2; }' | cc -fPIC -c -x c - -o %s", object)),
        0);
    assert_true(file_map(f->arena, &f->diags, object, &units[0].object));
    assert_true(build(f, units, 2));
    assert_int_equal(f->compiled, 1);
    assert_int_equal(f->cached, 0);
    assert_int_equal(call(f->out, "sum"), 43);

    f->o.cc = cc;
    assert_true(build(f, units, 2));
    assert_int_equal(f->compiled, 2);
    assert_int_equal(call(f->out, "sum"), 42);
}

/* A compiler that does not link shows that nothing is linked; of other objects it would have to
 * be. */
static void
the_same_objects_are_linked_once(void **state)
{
    Fixture *f = *state;
    const char *cc =
        compiler(f, "no-linker", "for a; do [ \"$a\" != -shared ] || exit 1; done; exec cc \"$@\"");
    f->o.cc = "cc";
    assert_true(build(f, two, 2));
    f->o.cc = cc;
    assert_true(build(f, two, 2));
    assert_int_equal(call(f->out, "sum"), 42);
    assert_false(build(f, &two[0], 1));
}

static void
other_flags_are_another_object(void **state)
{
    Fixture *f = *state;
    BuildUnit other[2] = { two[0], two[1] };
    assert_true(build(f, two, 2));
    other[0].flags = "-O2";
    assert_true(build(f, other, 2));
    assert_int_equal(f->compiled, 1);
    assert_int_equal(f->cached, 1);
}

/* No macro tells of such an option. */
static void
another_command_of_the_compiler_is_another_object(void **state)
{
    Fixture *f = *state;
    assert_true(build(f, two, 2));
    f->o.cc = "cc -fno-ipa-cp";
    assert_true(build(f, two, 2));
    assert_int_equal(f->compiled, 2);
    assert_true(build(f, two, 2));
    assert_int_equal(f->cached, 2);
}

static void
two_processes_at_once_share_the_cache(void **state)
{
    Fixture *f = *state;
    pid_t child = fork();
    if (child == 0) {
        f->out = path_join(f->arena, f->dir, "child.so");
        _exit(build(f, two, 2) ? 0 : 1);
    }
    assert_true(build(f, two, 2));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(call(f->out, "sum"), 42);
    assert_int_equal(call(path_join(f->arena, f->dir, "child.so"), "sum"), 42);
}

static void
a_failing_unit_is_named_and_leaves_nothing(void **state)
{
    Fixture *f = *state;
    BuildUnit bad[] = { two[0], { "conv 3", "int two(void) { return nothing; }", "-O1" } };
    assert_false(build(f, bad, 2));
    assert_int_equal(f->diags.worst, DIAG_TOOLCHAIN);
    assert_non_null(strstr(messages(f), "unit \"conv 3\""));
    assert_non_null(strstr(messages(f), "nothing"));
    assert_non_null(strstr(messages(f), "failed, with fewer optimisations too"));
    assert_int_equal(f->diags.list.n, 1);
    assert_false(file_exists(f->out));
}

static uint32_t
notes(Fixture *f)
{
    uint32_t n = f->diags.list.n;

    assert_int_equal(f->diags.worst, DIAG_OK);
    f->diags.list.n = 0;
    return n;
}

static const BuildUnit fast[] = {
    { "one", "int one(void) { return 1; }", "-O2", "-mtune=generic" },
    { "sum",
      "int one(void);\n__attribute__((visibility(\"default\"))) int sum(void) { return one() + 41; "
      "}",
      "-O1", "-mtune=generic" },
};

static void
a_unit_that_fails_is_compiled_with_fewer_optimisations(void **state)
{
    Fixture *f = *state;
    f->o.cc = faulty(f, "faulty", "[ $o = -O2 ]");
    assert_true(build(f, fast, 2));
    assert_int_equal(call(f->out, "sum"), 42);
    assert_non_null(strstr(messages(f), "note: unit \"one\""));
    assert_non_null(
        strstr(messages(f), "internal compiler error: in pretend. It was compiled with -O1 by "));
    assert_int_equal(notes(f), 1);

    /* It is said each time, */
    assert_true(build(f, fast, 2));
    assert_int_equal(notes(f), 1);
    assert_int_equal(f->cached, 1);
    /* and a compiler that is mended is asked again. */
    f->o.cc = faulty(f, "faulty", "false");
    assert_true(build(f, fast, 2));
    assert_int_equal(f->cached, 1);
    assert_int_equal(notes(f), 0);
    assert_true(build(f, fast, 2));
    assert_int_equal(f->cached, 2);
    assert_int_equal(call(f->out, "sum"), 42);
}

static void
then_with_none_and_for_any_processor(void **state)
{
    Fixture *f = *state;
    f->o.cc = faulty(f, "faulty", "[ $o != -O0 ]");
    assert_true(build(f, fast, 2));
    assert_non_null(strstr(messages(f), "compiled with -O0 by"));
    assert_int_equal(notes(f), 2);
    f->o.cache_dir = NULL; /* it knows the objects of -O0 */
    f->o.cc = faulty(f, "faulty", "case $* in *-mtune*) ;; *) false;; esac");
    assert_true(build(f, fast, 2));
    assert_non_null(strstr(messages(f), "compiled with -O0, for any processor, by"));
    assert_int_equal(notes(f), 2);
    assert_int_equal(call(f->out, "sum"), 42);
}

static void
then_by_another_compiler(void **state)
{
    Fixture *f = *state;
    f->o.cc = faulty(f, "faulty", "true");
    assert_true(build(f, fast, 2));
    assert_int_equal(call(f->out, "sum"), 42);
    assert_non_null(strstr(messages(f), "It was compiled by cc ("));
    assert_int_equal(notes(f), 2);
}

static void
what_measures_is_compiled_as_said(void **state)
{
    Fixture *f = *state;
    f->o.cc = faulty(f, "faulty", "[ $o = -O2 ]");
    f->o.as_said = true;
    assert_false(build(f, fast, 2));
    assert_non_null(strstr(messages(f), "failed:\n    a.c: In function 'f'"));
}

static void
a_cache_that_cannot_be_written_costs_a_note(void **state)
{
    Fixture *f = *state;
    /* A file where the folder should be: also refused to root, whom permissions do not stop. */
    FILE *in_the_way = fopen(f->o.cache_dir, "w");
    assert_non_null(in_the_way);
    fclose(in_the_way);
    f->o.temporary = f->dir;
    assert_true(build(f, two, 2));
    assert_int_equal(f->compiled, 2);
    assert_int_equal(f->diags.worst, DIAG_OK);
    assert_int_equal(f->diags.list.n, 1);
    assert_non_null(strstr(messages(f), "note: the cache folder cannot be written"));
    assert_int_equal(call(f->out, "sum"), 42);
}

static void
a_missing_compiler_says_what_was_tried_and_what_to_install(void **state)
{
    Fixture *f = *state;
    f->o.cc = "no-such-cc";
    assert_false(build(f, two, 2));
    assert_int_equal(f->diags.worst, DIAG_TOOLCHAIN);
    assert_non_null(strstr(messages(f), "no-such-cc (not found)"));
    assert_non_null(strstr(messages(f), "apt install gcc"));
}

static void
a_program_that_is_no_compiler_is_refused(void **state)
{
    Fixture *f = *state;
    f->o.cc = "true";
    assert_false(build(f, two, 2));
    assert_non_null(strstr(messages(f), "does not run as a C compiler"));
}

static void
the_least_recently_used_objects_go_above_the_bound(void **state)
{
    Fixture *f = *state;
    CacheUse use;
    assert_true(build(f, two, 1));
    f->o.cache_bytes = 1;
    assert_true(build(f, two, 2));
    assert_true(build_cache_use(&f->diags, f->o.cache_dir, &use));
    assert_int_equal(use.files, 0);
    assert_int_equal(call(f->out, "sum"), 42);
}

static void
clearing_removes_objects_and_nothing_else(void **state)
{
    Fixture *f = *state;
    CacheUse use;
    const char *mine = path_join(f->arena, f->o.cache_dir, "thesis.txt");
    assert_true(build(f, two, 2));
    fclose(fopen(mine, "w"));
    assert_true(build_cache_clear(&f->diags, f->o.cache_dir));
    assert_true(build_cache_use(&f->diags, f->o.cache_dir, &use));
    assert_int_equal(use.files, 0);
    assert_true(file_exists(mine));
}

static void
a_text_is_found_by_what_it_was_made_from(void **state)
{
    Fixture *f = *state;
    const char *text = NULL;
    CacheUse use;

    assert_false(build_cache_get(f->arena, f->o.cache_dir, "a kernel", &text));
    build_cache_put(f->arena, f->o.cache_dir, "a kernel", "a program");
    build_cache_put(f->arena, f->o.cache_dir, "another kernel", "another program");
    assert_true(build_cache_get(f->arena, f->o.cache_dir, "a kernel", &text));
    assert_string_equal(text, "a program");
    assert_false(build_cache_get(f->arena, f->o.cache_dir, "a kerne", &text));
    assert_false(build_cache_get(f->arena, NULL, "a kernel", &text));
    build_cache_put(f->arena, "/proc/nowhere", "a kernel", "a program");
    assert_true(build_cache_use(&f->diags, f->o.cache_dir, &use));
    assert_int_equal(use.files, 2);
    assert_true(build_cache_clear(&f->diags, f->o.cache_dir));
    assert_false(build_cache_get(f->arena, f->o.cache_dir, "a kernel", &text));
    assert_string_equal(messages(f), "");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        T(two_units_make_a_library_and_the_second_build_compiles_nothing),
        T(a_given_object_is_linked_on_its_own_machine),
        T(the_same_objects_are_linked_once),
        T(other_flags_are_another_object),
        T(another_command_of_the_compiler_is_another_object),
        T(two_processes_at_once_share_the_cache),
        T(a_failing_unit_is_named_and_leaves_nothing),
        T(a_unit_that_fails_is_compiled_with_fewer_optimisations),
        T(then_with_none_and_for_any_processor),
        T(then_by_another_compiler),
        T(what_measures_is_compiled_as_said),
        T(a_cache_that_cannot_be_written_costs_a_note),
        T(a_missing_compiler_says_what_was_tried_and_what_to_install),
        T(a_program_that_is_no_compiler_is_refused),
        T(the_least_recently_used_objects_go_above_the_bound),
        T(clearing_removes_objects_and_nothing_else),
        T(a_text_is_found_by_what_it_was_made_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
