/* machine: the table of targets, the running processor, and the register tile.
 *
 * A row says what the schedules need to know and how the C compiler is told. `native` is the best row
 * that the running processor satisfies, with its caches and cores in place of the row's guesses.
 */
#include "machine/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One spelling serves as our own test and, as text, as the artefact's. */
#define V2_CHECK __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt")
#define V3_CHECK                                                                                            \
    __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&     \
    __builtin_cpu_supports("bmi2")
#define V4_CHECK                                                                                            \
    __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&                              \
    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(...) TEXT_OF(__VA_ARGS__)

#define KB ((int64_t)1024)
#define MB (1024 * KB)

/* Best first among those of one family: `native` takes the first that runs here. The caches are the
 * smallest in common use; cores 0 stands for those of this process. */
static const Machine table[] = {
    /* name         flags                                            check           bytes regs cores  L1       L2        L3 */
    { "x86-64-v4", "-march=x86-64-v4 -mprefer-vector-width=512",     TEXT(V4_CHECK), 64,   32,  0,     32 * KB, 1 * MB,   16 * MB },
    { "x86-64-v3", "-march=x86-64-v3",                               TEXT(V3_CHECK), 32,   16,  0,     32 * KB, 256 * KB, 8 * MB  },
    { "x86-64-v2", "-march=x86-64-v2",                               TEXT(V2_CHECK), 16,   16,  0,     32 * KB, 256 * KB, 4 * MB  },
    { "armv8-a",   "-march=armv8-a",                                 "1",            16,   32,  0,     32 * KB, 512 * KB, 2 * MB  },
    { "generic",   "",                                               "1",            16,   16,  0,     32 * KB, 256 * KB, 2 * MB  },
};
#define NROW (sizeof table / sizeof *table)

static bool
runs_here(const Machine *row)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (strcmp(row->name, "x86-64-v4") == 0)
        return V4_CHECK;
    if (strcmp(row->name, "x86-64-v3") == 0)
        return V3_CHECK;
    if (strcmp(row->name, "x86-64-v2") == 0)
        return V2_CHECK;
#elif defined(__aarch64__)
    if (strcmp(row->name, "armv8-a") == 0)
        return true;
#endif
    return strcmp(row->name, "generic") == 0;
}

/* ---- caches ---------------------------------------------------------------------------------------- */

static bool
read_word(int index, const char *file, char word[32])
{
    char path[128];

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, file);
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    bool ok = fscanf(f, "%31s", word) == 1;
    fclose(f);
    return ok;
}

/* What the system says replaces the row's guess, level by level. */
static void
read_caches(Machine *m)
{
    char level[32], type[32], size[32];

    for (int i = 0; i < 8; i++) {
        if (!read_word(i, "level", level) || !read_word(i, "type", type) || !read_word(i, "size", size) ||
            strcmp(type, "Instruction") == 0)
            continue;
        char *unit;
        int64_t bytes = strtoll(size, &unit, 10);
        bytes *= *unit == 'K' ? KB : *unit == 'M' ? MB : 1;
        if (bytes <= 0)
            continue;
        switch (atoi(level)) {
        case 1: m->l1_bytes = bytes; break;
        case 2: m->l2_bytes = bytes; break;
        case 3: m->l3_bytes = bytes; break;
        }
    }
}

bool
machine_find(Ctx *c, const char *name, Machine *out)
{
    bool native = strcmp(name, "native") == 0;

    for (size_t i = 0; i < NROW; i++) {
        if (native ? !runs_here(&table[i]) : strcmp(table[i].name, name) != 0)
            continue;
        *out = table[i];
        out->cores = (uint32_t)cpu_count();
        if (native)
            read_caches(out);
        return true;
    }
    return diag_error(&c->diags, DIAG_USAGE, (Loc){ 0 }, "no target is called \"%s\"; there are %s", name, machine_names(c));
}

const char *
machine_names(Ctx *c)
{
    Text t = { .arena = c->arena };

    text_add(&t, "native");
    for (size_t i = 0; i < NROW; i++)
        text_printf(&t, ", %s", table[i].name);
    return text_str(&t);
}

/* ---- register tile -------------------------------------------------------------------------------------- */

#define MAX_VECTORS 4
#define LATENCY 4                    /* cycles of one fused multiply-add; two start in a cycle */

static uint32_t
most_rows(const Machine *m, uint32_t vectors)
{
    return (m->vector_registers - vectors - 1) / vectors;
}

/* Tiles along one side; per unit of length where the length is symbolic, so that only ratios count. */
static double
tiles(int64_t extent, int64_t tile)
{
    return extent < 0 ? 1.0 / (double)tile : (double)((extent + tile - 1) / tile);
}

/* Cycles of one step of the sum over all tiles: multiply-adds, loads (rows broadcasts and a row of
 * column vectors), or the latency of too few accumulators, whichever is most; plus a little for every
 * load and every step, which stand in the way of the multiply-adds even when they do not limit. */
static double
tile_cost(RegisterTile t, int64_t lanes, int64_t rows, int64_t cols)
{
    double fma = t.rows * t.vectors / 2.0, loads = (t.rows + t.vectors) / 2.0;
    double most = fma > loads ? fma : loads;

    return tiles(rows, t.rows) * tiles(cols, t.vectors * lanes) *
           ((most > LATENCY ? most : LATENCY) + 0.1 * (t.rows + t.vectors) + 0.25);
}

RegisterTile
machine_register_tile(const Machine *m, DType t, int64_t rows_extent, int64_t cols_extent)
{
    int64_t lanes = machine_lanes(m, t);
    RegisterTile best = { most_rows(m, 2), 2 };
    double usual = tile_cost(best, lanes, rows_extent, cols_extent), least = usual;

    if (rows_extent == 0 || cols_extent == 0 || (rows_extent < 0 && cols_extent < 0))
        return best;
    /* The usual tile is left only for one that is clearly cheaper: the model is not exact. */
    for (uint32_t vectors = 1; vectors <= MAX_VECTORS; vectors++)
        for (uint32_t rows = most_rows(m, vectors); rows >= 1; rows--) {
            RegisterTile tile = { rows, vectors };
            double cost = tile_cost(tile, lanes, rows_extent, cols_extent);
            if (cost >= least * 0.9999 || cost > usual * 0.96)
                continue;
            best = tile;
            least = cost;
        }
    return best;
}
