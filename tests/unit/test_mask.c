/* The tables of blocks that masks show (normalise/block_mask.c) against counts of tiles that are
 * known: for 1024 rows and keys, windows and strips of 32 (Dai et al., STOF, PPoPP 2026: its
 * masks). */
#include "world.h"

#include "normalise/normalise.h"
#include "ref/ref.h"

enum { N = 1024, WINDOW = 32, STRIP_ROWS = 16, BLOCK_KEYS = 16, MOST_TILE = 128 };

/* ---- masks ----------------------------------------------------------------------------------- */

static bool
causal(int i, int j)
{
    return j <= i;
}

static bool
sliding(int i, int j)
{
    return abs(i - j) <= WINDOW;
}

static bool
sliding_causal(int i, int j)
{
    return j <= i && i - j <= WINDOW;
}

static bool
dilated(int i, int j)
{
    return abs(i - j) <= WINDOW && (i - j) % 2 == 0;
}

static bool
one_strip(int i, int j)
{
    return sliding(i, j) || i < WINDOW || j < WINDOW;
}

static bool
two_strips(int i, int j)
{
    return one_strip(i, j) || i / WINDOW == 512 / WINDOW || j / WINDOW == 512 / WINDOW;
}

static bool
strided(int i, int j)
{
    return j <= i && (i - j < WINDOW || (i - j) % WINDOW == 0);
}

/* Tiles of which all is shown, and of which some is. */
typedef struct {
    int full, part;
} Tiles;

static const int tile[] = { 16, 32, 64, MOST_TILE };
enum { NTILE = sizeof tile / sizeof *tile };

typedef struct {
    const char *name;
    bool (*shows)(int i, int j);
    Tiles tiles[NTILE];
} Mask;

static const Mask masks[] = {
    { "causal", causal, { { 2016, 64 }, { 496, 32 }, { 120, 16 }, { 28, 8 } } },
    { "sliding", sliding, { { 190, 124 }, { 32, 62 }, { 0, 46 }, { 0, 22 } } },
    { "sliding, causal", sliding_causal, { { 63, 126 }, { 0, 63 }, { 0, 31 }, { 0, 15 } } },
    { "dilated", dilated, { { 0, 314 }, { 0, 94 }, { 0, 46 }, { 0, 22 } } },
    { "longformer", one_strip, { { 436, 120 }, { 94, 60 }, { 1, 73 }, { 0, 34 } } },
    { "longformer, two strips", two_strips, { { 672, 112 }, { 154, 56 }, { 2, 96 }, { 0, 42 } } },
    { "strided", strided, { { 63, 1056 }, { 0, 528 }, { 0, 136 }, { 0, 36 } } },
};

/* ---- tables ---------------------------------------------------------------------------------- */

static const char attention[] =
    "graph @g(%q: f32[2, m], %k: f32[2, n], %mask: bool[m, n]) -> (%t) {\n"
    "  %s: f32[2, m, n] = call(%q, %k, %mask)\n"
    "  nest score(q: f32[2, m], k: f32[2, n], mask: bool[m, n]) -> (o: f32[2, m, n]) {\n"
    "    o[h, i, j] = select(mask[i, j], q[h, i] * k[h, j], -inf)\n"
    "  }\n"
    "  %t: f32[2, m] = call(%s)\n"
    "  nest most(s: f32[2, m, n]) -> (o: f32[2, m]) { o[h, i] = max j: s[h, i, j] }\n"
    "}";

/* What a mask's tables are: `strip` of 16 rows and each key, `used` of 16 rows and 16 keys. */
typedef struct {
    Tensor strip, used;
} Tables;

static ValueId
value_named(const Graph *g, const char *name)
{
    for (ValueId v = 1; v < g->value.n; v++)
        if (!strcmp(g->value.at[v].name, name))
            return v;
    fail_msg("there is no %s", name);
    return 0;
}

/* The tables alone, as outputs. */
static Graph *
tables_graph(World *w)
{
    Bytes text = { (const uint8_t *)attention, sizeof attention - 1 };
    Graph *g = graph_parse(&w->ctx, w->arena, "test", text),
          *after = g ? normalise_block_masks(g) : NULL;
    ValueId *map;

    if (!after || !graph_verify(after))
        fail_msg("%s", world_messages(w));
    after->output.n = 0;
    VEC_PUSH(after->arena, &after->output, value_named(after, "s_seen"));
    VEC_PUSH(after->arena, &after->output, value_named(after, "s_used"));
    Graph *tables = graph_rebuild(after, &map);
    for (NodeId id = 1; id < after->node.n; id++)
        graph_copy_node(tables, after, id, map);
    graph_finish(tables, after, map);
    return tables;
}

/* Of a mask; or of what it hides, and MOST_TILE keys more that all rows see: a row that sees
 * nothing would count as one that sees all. */
static Tables
tables_of(World *w, const Graph *g, const Mask *k, bool hidden)
{
    int64_t keys = hidden ? N + MOST_TILE : N;
    Tensor in[3], out[2];
    Symbols s = { 0 };

    symbols_set(w->arena, &s, sym(&w->ctx, "m"), N);
    symbols_set(w->arena, &s, sym(&w->ctx, "n"), keys);
    for (uint32_t i = 0; i < g->input.n; i++)
        if (!tensor_of_type(&w->ctx, w->arena, g->value.at[g->input.at[i]].type, &s, &in[i]))
            fail_msg("%s", world_messages(w));
    uint8_t *seen = in[g->input.n - 1].data;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < keys; j++)
            seen[i * keys + j] = j >= N || k->shows(i, j) != hidden;
    if (!ref_graph(g, w->arena, &s, in, out, NULL, NULL))
        fail_msg("%s", world_messages(w));
    return (Tables){ out[0], out[1] };
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* Tiles of so many rows and keys, among the first N keys, in which a table of blocks of 16 rows and
 * `keys` keys has a mark. */
static int
tiles_in(const Tensor *table, int keys, int tile_rows, int tile_keys)
{
    const uint8_t *mark = table->data;
    int n = 0;

    for (int row = 0; row < N; row += tile_rows)
        for (int key = 0; key < N; key += tile_keys) {
            bool any = false;
            for (int i = row; i < row + tile_rows; i += STRIP_ROWS)
                for (int j = key; j < key + tile_keys; j += keys)
                    any |= mark[i / STRIP_ROWS * table->dim[1] + j / keys];
            n += any;
        }
    return n;
}

/* The same, point by point. */
static int
tiles_shown(const Mask *k, int tile_rows, int tile_keys)
{
    int n = 0;

    for (int row = 0; row < N; row += tile_rows)
        for (int key = 0; key < N; key += tile_keys) {
            bool any = false;
            for (int i = row; i < row + tile_rows; i++)
                for (int j = key; j < key + tile_keys; j++)
                    any |= k->shows(i, j);
            n += any;
        }
    return n;
}

static void
strips_make_golden_tiles(void **state)
{
    World *w = *state;
    const Graph *g = tables_graph(w);

    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        const Mask *k = &masks[i];
        Tables shown = tables_of(w, g, k, false), hidden = tables_of(w, g, k, true);
        for (int t = 0; t < NTILE; t++) {
            int all = N / tile[t] * (N / tile[t]);
            int full = all - tiles_in(&hidden.strip, 1, tile[t], tile[t]);
            int part = tiles_in(&shown.strip, 1, tile[t], tile[t]) - full;
            if (full != k->tiles[t].full || part != k->tiles[t].part)
                fail_msg("%s, tiles of %d: %d full, %d in part", k->name, tile[t], full, part);
        }
    }
}

/* The table has blocks of 16 rows and 16 keys; programs test one, two or four at once. */
static void
blocks_make_golden_tiles(void **state)
{
    World *w = *state;
    const Graph *g = tables_graph(w);

    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        const Mask *k = &masks[i];
        Tables shown = tables_of(w, g, k, false);
        assert_int_equal(shown.used.dim[0], N / STRIP_ROWS);
        assert_int_equal(shown.used.dim[1], N / BLOCK_KEYS);
        for (int keys = BLOCK_KEYS; keys <= 2 * BLOCK_KEYS; keys += BLOCK_KEYS) {
            int used = tiles_in(&shown.used, BLOCK_KEYS, STRIP_ROWS, keys);
            int points = tiles_shown(k, STRIP_ROWS, keys);
            if (used != points)
                fail_msg("%s: of %d keys %d blocks are used, %d show something", k->name, keys,
                         used, points);
        }
        for (int t = 0; t < NTILE; t++) {
            if (tile[t] % BLOCK_KEYS)
                continue;
            int some = tiles_in(&shown.used, BLOCK_KEYS, tile[t], tile[t]);
            if (some != k->tiles[t].full + k->tiles[t].part)
                fail_msg("%s, tiles of %d: %d are used", k->name, tile[t], some);
        }
    }
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_begin, world_end)
    const struct CMUnitTest tests[] = {
        TEST(strips_make_golden_tiles),
        TEST(blocks_make_golden_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
