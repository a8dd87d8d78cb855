/* machine: targets by name, the running processor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "machine/machine.h"

static void
names(void **state)
{
    (void)state;
    Arena *arena = arena_new(NULL, NULL);
    Ctx c = { 0 };
    Machine m;

    ctx_init(&c, arena);
    assert_true(machine_find(&c, "native", &m));
    assert_string_not_equal(m.name, "native");
    assert_true(m.cores >= 1);
    for (int l = 1; l < LEVEL_COUNT; l++)
        assert_true(m.level[l].bytes > m.level[l - 1].bytes &&
                    m.level[l].one.read <= m.level[l - 1].one.read);
    assert_true(machine_find(&c, "x86-64-v4", &m));
    assert_int_equal(machine_lanes(&m, DT_F32), 16);
    assert_int_equal(m.cpu_level, 4);
    assert_int_equal(c.diags.worst, DIAG_OK);
    assert_false(machine_find(&c, "z80", &m));
    assert_int_equal(c.diags.worst, DIAG_USAGE);
    assert_non_null(strstr(c.diags.list.at[0].text,
                           "native, x86-64-v4-avxvnni, x86-64-v4-bf16, x86-64-v4-vnni"));
    assert_non_null(strstr(c.diags.list.at[0].text, "z80"));
    arena_free(arena);
}

/* ---- the file form ---- */

static void
same_machine(const Machine *a, const Machine *b)
{
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->processor, b->processor);
    assert_int_equal(a->vector_bytes, b->vector_bytes);
    assert_int_equal(a->cores, b->cores);
    assert_true(a->level[LEVEL_L3].bytes == b->level[LEVEL_L3].bytes &&
                a->level[LEVEL_MEMORY].bytes == b->level[LEVEL_MEMORY].bytes);
}

static void
text_round_trip(void **state)
{
    (void)state;
    Arena *arena = arena_new(NULL, NULL);
    Ctx c = { 0 };
    const char *names[] = { "x86-64-v4-avxvnni", "x86-64-v4-bf16", "x86-64-v4-vnni", "x86-64-v4",
                            "x86-64-v3",         "x86-64-v2",      "armv8-a",        "generic" };

    ctx_init(&c, arena);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Machine m, back;
        Text t = { .arena = arena }, again = { .arena = arena };
        assert_true(machine_find(&c, names[i], &m));
        m.processor = "a \\ b; c";
        m.cores = 3;
        m.level[LEVEL_L1].one.read = 1.25e11;
        machine_print(&t, &m);
        assert_true(machine_parse(&c, "m", t.s, t.n, &back));
        same_machine(&m, &back);
        assert_true(back.level[LEVEL_L1].one.read == 1.25e11);
        machine_print(&again, &back);
        assert_string_equal(text_str(&t), text_str(&again));
    }
    arena_free(arena);
}

static void
text_says_some(void **state)
{
    (void)state;
    Arena *arena = arena_new(NULL, NULL);
    Ctx c = { 0 };
    Machine row, m;
    const char *text =
        "; mine\n\n  target x86-64-v3   ; AVX2\ncores 12\nl2.bytes 1048576\nmemory.all.read 9e10";

    ctx_init(&c, arena);
    assert_true(machine_find(&c, "x86-64-v3", &row));
    assert_true(machine_parse(&c, "m", text, strlen(text), &m));
    assert_int_equal(m.cores, 12);
    assert_int_equal(m.level[LEVEL_L2].bytes, 1 << 20);
    assert_true(m.level[LEVEL_MEMORY].all.read == 9e10 &&
                m.level[LEVEL_MEMORY].one.read == row.level[LEVEL_MEMORY].one.read);
    assert_true(m.f32_per_second == row.f32_per_second);
    arena_free(arena);
}

static void
text_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t line;
        const char *says;
    } cases[] = {
        { "", 0, "begins with its target" },
        { "; nothing\n\n", 0, "begins with its target" },
        { "cores 2\n", 1, "begins with its target" },
        { "target z80\n", 0, "z80" },
        { "target native\n", 1, "names its target" },
        { "target generic\ntarget generic\n", 2, "second target" },
        { "target generic\nbandwith 3\n", 2, "bandwith is no fact" },
        { "target generic\nmemory.bytes 3\n", 2, "no fact" },
        { "target generic\ncores 2\n\ncores 3\n", 4, "line 2 already" },
        { "target generic\ncores\n", 2, "has no value" },
        { "target generic\ncores 2 3\n", 2, "one name and one value" },
        { "target generic\ncores 0\n", 2, "from 1 to 4096" },
        { "target generic\ncores -1\n", 2, "from 1 to 4096" },
        { "target generic\ncores 99999999999999999999\n", 2, "from 1 to 4096" },
        { "target generic\nvector_bytes 24\n", 2, "16, 32 or 64" },
        { "target generic\nvector_registers 4\n", 2, "8 registers" },
        { "target generic\nl2.bytes -4\n", 2, "0 or more" },
        { "target generic\nl1.bytes 0\n", 0, "first-level cache" },
        { "target generic\nl2.bytes 1000\n", 0, "larger than the one before it" },
        { "target generic\nl1.read 0\n", 2, "above 0" },
        { "target generic\nl1.read nan\n", 2, "above 0" },
        { "target generic\nl1.read 1e999\n", 2, "above 0" },
        { "target generic\ni8_dot_per_second -1\n", 2, "0 or more" },
        { "target generic\nprocessor \"x\n", 2, "has no end" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *arena = arena_new(NULL, NULL);
        Ctx c = { 0 };
        Machine m;
        ctx_init(&c, arena);
        assert_false(machine_parse(&c, "my.machine", cases[i].text, strlen(cases[i].text), &m));
        assert_int_equal(c.diags.worst, DIAG_USAGE);
        assert_non_null(strstr(c.diags.list.at[0].text, cases[i].says));
        if (cases[i].line) {
            assert_string_equal(c.diags.list.at[0].loc.file, "my.machine");
            assert_int_equal(c.diags.list.at[0].loc.line, cases[i].line);
        }
        arena_free(arena);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(text_round_trip),
        cmocka_unit_test(text_says_some),
        cmocka_unit_test(text_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
