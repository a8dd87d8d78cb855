/* machine: targets by name, the running processor, register tiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "machine/machine.h"

static int64_t
padded(int64_t extent, int64_t tile)
{
    return (extent + tile - 1) / tile * tile;
}

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
        assert_true(m.level[l].bytes > m.level[l - 1].bytes && m.level[l].one.read <= m.level[l - 1].one.read);
    assert_true(machine_find(&c, "x86-64-v4", &m));
    assert_int_equal(machine_lanes(&m, DT_F32), 16);
    assert_non_null(strstr(m.cpu_check, "__builtin_cpu_supports(\"avx512f\")"));
    assert_int_equal(c.diags.worst, DIAG_OK);
    assert_false(machine_find(&c, "z80", &m));
    assert_int_equal(c.diags.worst, DIAG_USAGE);
    assert_non_null(strstr(c.diags.list.at[0].text, "native, x86-64-v4"));
    assert_non_null(strstr(c.diags.list.at[0].text, "z80"));
    arena_free(arena);
}

static void
register_tiles(void **state)
{
    (void)state;
    Arena *arena = arena_new(NULL, NULL);
    Ctx c = { 0 };
    Machine v4, v3;

    ctx_init(&c, arena);
    assert_true(machine_find(&c, "x86-64-v4", &v4) && machine_find(&c, "x86-64-v3", &v3));
    RegisterTile t = machine_register_tile(&v4, DT_F32, -1, -1);
    assert_int_equal(t.rows, 14);
    assert_int_equal(t.vectors, 2);
    t = machine_register_tile(&v3, DT_F32, -1, -1);
    assert_int_equal(t.rows, 6);
    assert_int_equal(t.vectors, 2);
    t = machine_register_tile(&v4, DT_F32, 1, 1000);
    assert_int_equal(t.rows, 1);
    assert_int_equal(t.vectors, 4);
    t = machine_register_tile(&v4, DT_F32, -1, 16);
    assert_int_equal(t.vectors, 1);
    t = machine_register_tile(&v4, DT_F32, 512, 48);
    assert_int_equal(t.vectors, 3);
    assert_true(padded(48, t.vectors * 16) == 48);

    for (int64_t rows = 1; rows < 70; rows++)
        for (int64_t cols = 1; cols < 200; cols += 7) {
            t = machine_register_tile(&v4, DT_F32, rows, cols);
            assert_true(t.rows >= 1 && t.vectors >= 1);
            assert_true(t.rows * t.vectors + t.vectors + 1 <= v4.vector_registers);
            /* never much more work than the usual tile would do */
            assert_true(padded(rows, t.rows) * padded(cols, t.vectors * 16) <= padded(rows, 14) * padded(cols, 32));
        }
    arena_free(arena);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(register_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
