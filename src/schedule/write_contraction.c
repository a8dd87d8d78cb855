/* write_contraction: schedules of GEMMs and everything of their form.
 *
 * The axes are batch (outer loops), rows (the left operand only), columns (the right one only) and
 * sums. Contiguous rows and columns become one index each, so that
 *
 *     out[batch, i, j] = epilogue(sum k: A[batch, i, k] * B[batch, k, j])
 *
 * A tile of rows x columns accumulates in registers. A parallel task is some panels of columns (a
 * panel is as wide as a tile) times a chunk of rows. Constants are packed in the order in which
 * tiles read them; other columns are packed into panels by the task, which resolves padding,
 * strides and producers fused into B. If B slides a window over an image, the padded input tile is
 * copied once instead, and columns count positions in it: every point of the window is then a shift
 * of the same memory; positions at the ends of rows that are no output are summed and dropped. The
 * same holds for one row (a convolution to one channel): its tiles are one row of several vectors
 * of pixels.
 *
 * Source: Goto and van de Geijn, ACM TOMS 34(3), 2008; here a task's accumulators are in its own
 * scratch, so the output is written once.
 */
#include "cost/cost.h"
#include "schedule/gemm_axes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The parameters of one program. */
typedef struct {
    int64_t rows, vectors; /* of a register tile */
    /* rows of a panel of A's constant, a multiple or divisor of the tile's; 0: the tile's */
    int64_t laid;
    int64_t panels;      /* of a task */
    int64_t chunk;       /* row tiles of a task; 0: all */
    bool rows_outside;   /* order of tasks: a chunk of rows uses all panels before the next chunk */
    int64_t depth;       /* iterations of the outermost sum per block; 0: all */
    bool panels_outside; /* order in a task: a panel is used for all rows before the next panel */
    /* a task has all rows, also those that do not collapse: its panels are read from memory once */
    bool rows_inside;
    bool copy_rows; /* the rows of A of a tile are copied to contiguous memory */
    bool pack_rows; /* all rows of A of a task are, in the order of tiles */
    bool in_place;  /* B is read in place */
    /* the image under B is copied as a padded input tile, and columns are positions in it */
    bool image;
    bool row_image; /* the image under A is copied as a padded input tile */
    int64_t band;   /* rows of that tile per task; 0: all */
} GemmTile;

typedef struct {
    Draft *w;
    Low *l;
    GemmAxes gemm;
    const char *part; /* the name of its result */
    int64_t lanes;
    bool a_constant, b_constant; /* their layout may be chosen */
    /* the columns' constant is widened once for all rows, by the task that copies it */
    bool widened;
    bool a_direct, b_direct;     /* can be read in place */
    int64_t nrows, ncols, depth; /* -1: unknown */
} GemmDraft;

/* ---- operands -------------------------------------------------------------------------------- */

/* Can rows of A be broadcast from where they are: is the offset linear in the row and in every
 * sum? */
static bool
rows_in_place(const GemmDraft *g)
{
    return gemm_rows_linear(g->l, &g->gemm) &&
           (g->gemm.nrow == 0 || low_stride(g->l, g->gemm.k.a, g->gemm.row[g->gemm.nrow - 1]));
}

/* Do the columns collapse to one index for B too? */
static bool
columns_are_one(const GemmDraft *g)
{
    for (uint32_t i = g->gemm.ncol - g->gemm.col_run; i + 1 < g->gemm.ncol; i++)
        if (!low_collapses(g->l, g->gemm.col[i], g->gemm.col[i + 1], &g->gemm.k.b, 1, NULL))
            return false;
    return true;
}

static const char *
lay(const GemmDraft *g, const Scalar *operand, bool rows, int64_t width)
{
    return gemm_layouts(g->w, 0, operand, gemm_panels(&g->gemm, rows, width));
}

/* ---- the program ----------------------------------------------------------------------------- */

static const char *
names_of(const GemmDraft *g, const uint32_t *axis, uint32_t n)
{
    return axis_names(g->w, 0, axis, n);
}

/* The last one of several names. */
static const char *
last_of(const char *names)
{
    const char *space = strrchr(names, ' ');
    return space ? space + 1 : names;
}

/* Copies columns: in tiles transposed in registers if they are contiguous along the last sum,
 * otherwise in vectors. */
static void
write_column_sums(const GemmDraft *g, Text *t, const char *at, const char *sums)
{
    const GemmAxes *gemm = &g->gemm;
    long long lanes = g->lanes;

    text_printf(t, "stage rhs at %s -> pack scratch of jq %s jv\n", at, sums);
    if (gemm->nsum && !g->widened && columns_are_one(g) &&
        gemm_is_contiguous(g->l, gemm->k.b, gemm->sum[gemm->nsum - 1])) {
        const char *last = last_of(sums);
        text_printf(t, "split pack.%s by %lld -> kv kl\n", last, lanes);
        if (dtype_info[gemm->k.b->dtype].bytes < 4) { /* there are no tiles of narrower types */
            text_add(t, "order pack.jv pack.kv pack.kl\nrun pack.kl vector\n");
        } else {
            text_printf(t,
                        "split pack.jv by %lld -> jc jl\norder pack.jc pack.kv pack.kl pack.jl\n",
                        lanes);
            text_add(t, "run pack.kl unroll\nrun pack.jl vector\nstage rhs at pack.kv -> tile reg "
                        "of jl kl turned\n");
        }
    } else if (gemm->col_run > 1 && !columns_are_one(g)) {
        text_printf(t, "walk pack.jv by %lld\n", lanes);
    } else {
        text_printf(t, "split pack.jv by %lld -> jc jl\nrun pack.jl vector\n", lanes);
    }
}

/* The prefetch distance for rows of a panel, in iterations; 0: no prefetch. */
static int64_t
trips_ahead(const GemmDraft *g, const GemmTile *x)
{
    const GemmAxes *gemm = &g->gemm;
    int64_t outer = expr_or(low_extent(g->l, gemm->sum[0]), -1), depth = g->depth,
            inner = expr_or(low_extent(g->l, gemm->sum[gemm->nsum - 1]), -1);

    if (x->depth) {
        depth = outer > 0 && depth > 0 ? x->depth * (depth / outer) : depth;
        inner = gemm->nsum == 1 ? x->depth : inner;
    }
    return x->image ? 0
                    : gemm_prefetch_distance(g->w->p->m, gemm->k.reduce->dtype,
                                             (TileShape){ .rows = x->rows, .vectors = x->vectors },
                                             depth, inner);
}

/* Unrolled points of a window. Bounds code: with a tile of 24 sums these are about 600
 * instructions, of 1,536 that a Skylake keeps decoded (Fog, The microarchitecture of Intel, AMD and
 * VIA CPUs, 2022). */
enum { UNROLLED_POINTS = 16 };
/* If the number of rows is symbolic, remaining rows are processed in tiles of this height, the last
 * one clamped. With two vectors of columns these are eight accumulators, which hide the latency of
 * multiply-adds (4 cycles, two per cycle: all processors of the machine table). */
enum { LEFT_ROWS = 4 };

static int64_t
ceil_to(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The step of the image along a summed axis's dimension between outputs. */
static int64_t
window_stride(const GemmAxes *gemm, uint32_t axis)
{
    const InputTile *s = &gemm->window;

    for (uint32_t i = 0; i < s->nslide; i++)
        if (expr_axes(s->load->u.load.at[s->slide[i].dim]) >> axis & 1)
            return s->slide[i].stride;
    return 1;
}

/* The sums of a tile over an image, and which of them are unrolled: the innermost axis of the
 * window; with stride phases, whose offsets need a division, all of a small window. A long axis is
 * split and the inner part unrolled, so that every iteration has the same phases: multiples of a
 * stride, or divisors of one. */
static const char *
window_sums(const GemmDraft *g, Text *splits, const char **unrolled)
{
    const GemmAxes *gemm = &g->gemm;
    uint32_t n = 0, last = gemm->nsum - 1;
    int64_t points = 1;
    bool phases = false;

    for (uint32_t i = 0; i < gemm->window.nslide; i++)
        phases |= gemm->window.slide[i].phases > 1;
    while (n < gemm->nsum && gemm->window.window >> gemm->sum[last - n] & 1) {
        points *= expr_or(low_extent(g->l, gemm->sum[last - n]), UNROLLED_POINTS);
        if (points > UNROLLED_POINTS || (n > 0 && !phases))
            break;
        n++;
    }
    *unrolled = names_of(g, gemm->sum + gemm->nsum - n, n);
    if (n || !gemm->nsum || points <= UNROLLED_POINTS)
        return names_of(g, gemm->sum, gemm->nsum);
    int64_t stride = window_stride(gemm, gemm->sum[last]),
            step = stride <= UNROLLED_POINTS ? stride : 1, left = points;
    const char *axis = names_of(g, gemm->sum + last, 1), *outer = "";
    if (stride > UNROLLED_POINTS && points > stride) {
        text_printf(splits, "split %s by %lld -> wq wp\n", axis, (long long)stride);
        axis = "wp", outer = "wq ", left = stride;
    }
    int64_t even =
        ceil_to(ceil_to(left, ceil_to(left, UNROLLED_POINTS / step * step)), step) * step;
    text_printf(splits, "split %s by %lld -> wb wi\n", axis, (long long)even);
    *unrolled = "wi";
    return arena_printf(g->w->a, "%s %swb wi", names_of(g, gemm->sum, last), outer);
}

/* Windows that do not overlap are copied as panels; short innermost sums over their points are
 * unrolled, since a compiler that finds nested loops of two or three iterations keeps accumulators
 * in memory. */
static void
write_unrolled_points(const GemmDraft *g, const GemmTile *x, Text *t)
{
    const GemmAxes *gemm = &g->gemm;
    int64_t points = 1;
    uint32_t n = 0;

    while (n + (x->depth > 0) < gemm->nsum &&
           gemm->window.window >> gemm->sum[gemm->nsum - n - 1] & 1) {
        points *= expr_or(low_extent(g->l, gemm->sum[gemm->nsum - n - 1]), UNROLLED_POINTS + 1);
        if (points > UNROLLED_POINTS)
            break;
        n++;
    }
    if (n)
        text_printf(t, "run %s unroll\n", names_of(g, gemm->sum + gemm->nsum - n, n));
}

static void
write_tile(const GemmDraft *g, const GemmTile *x)
{
    Draft *w = g->w;
    const GemmAxes *gemm = &g->gemm;
    Text t = { .arena = w->a }, sums = { .arena = w->a }, tasks = { .arena = w->a };
    const uint32_t *row_run = gemm->row + gemm->nrow - gemm->row_run,
                   *col_run = gemm->col + gemm->ncol - gemm->col_run;
    const char *outer_rows = names_of(g, gemm->row, gemm->nrow - gemm->row_run);
    const char *rows = gemm->row_run ? names_of(g, row_run, gemm->row_run) : "",
               *cols = names_of(g, col_run, gemm->col_run);
    /* the loop around a tile's sum */
    const char *tile = x->panels_outside && gemm->row_run ? "ip" : "jq";
    const char *lay_a = g->a_constant ? lay(g, gemm->k.a, true, x->laid ? x->laid : x->rows) : NULL;
    const char *lay_b =
        g->b_constant && !x->image ? lay(g, gemm->k.b, false, x->vectors * g->lanes) : NULL;
    /* No partial panels: sums are stored from registers. This needs a known number of remaining
     * rows. */
    bool exact = !x->in_place && !x->image && !x->depth && g->ncols >= 0 &&
                 g->ncols % (x->vectors * g->lanes) == 0 && (g->nrows >= 0 || x->rows <= LEFT_ROWS);
    bool pads = !x->in_place && !exact;
    long long width = x->vectors * g->lanes;
    /* Epilogue of a tile's rows over all panels of the task, so that fewer rows of the image are
     * split, whose ends are partial vectors, if their sums stay in L1. */
    bool wide = x->image && x->panels > 1 && gemm->row_run && !x->panels_outside &&
                x->rows * x->panels * width * dtype_info[gemm->k.reduce->dtype].bytes <=
                    machine_usable_bytes(w->p->m, LEVEL_L1);

    /* If the image's size is symbolic, the last panel has only as many vectors as it needs. */
    const char *narrow = x->image && g->ncols < 0 && x->vectors > 1
                             ? arena_printf(w->a, " %lld", (long long)g->lanes)
                             : "";

    if (x->in_place && (!g->b_direct || lay_b))
        return;
    if (!lay_a && !g->a_direct && !x->copy_rows && !x->pack_rows && !x->row_image)
        return;
    if (lay_a && (x->copy_rows || x->pack_rows))
        return;
    text_add(&t, lay_a ? lay_a : "");
    text_add(&t, lay_b ? lay_b : "");
    if (x->band) {
        text_printf(&t, "split %s by %lld -> yb_ yi_ exact\n", names_of(g, row_run, 1),
                    (long long)x->band);
        rows = arena_printf(w->a, "yi_ %s", names_of(g, row_run + 1, gemm->row_run - 1));
        outer_rows = arena_printf(w->a, "%s yb_", outer_rows);
    }
    text_printf(&t, "order %s %s %s %s %s %s\n", names_of(g, gemm->batch, gemm->nbatch), outer_rows,
                names_of(g, gemm->col, gemm->ncol - gemm->col_run), rows, cols,
                names_of(g, gemm->sum, gemm->nsum));
    if (gemm->row_run)
        text_printf(&t, "fuse %s -> i_\n", rows);
    text_printf(&t, "fuse %s -> j_%s\n", cols, x->image ? " pitched" : "");
    if (gemm->row_run && x->chunk)
        text_printf(&t, "split i_ by %lld -> ic ii guard\n", (long long)(x->chunk * x->rows));
    if (gemm->row_run)
        text_printf(&t, "split %s by %lld -> ip ir%s\n", x->chunk ? "ii" : "i_", (long long)x->rows,
                    g->nrows >= 0 || x->rows == 1
                        ? ""
                        : arena_printf(w->a, " peel %d", x->rows > LEFT_ROWS ? LEFT_ROWS : 1));
    if (wide)
        text_printf(&t, "split j_ by %lld -> jb jj guard\nsplit jj by %lld -> jq jv pad%s\n",
                    (long long)x->panels * width, width, narrow);
    else if (pads || exact)
        text_printf(&t, "split j_ by %lld -> jp jv%s\nsplit jp by %lld -> jb jq guard\n", width,
                    exact ? " exact" : arena_printf(w->a, " pad%s", narrow), (long long)x->panels);
    else
        text_printf(&t, "split j_ by %lld -> jb jj guard\nsplit jj by %lld -> jq jv\n",
                    (long long)x->panels * width, width);
    text_printf(&t, "split jv by %lld -> jr l\n", (long long)g->lanes);
    const char *unrolled = "", *sums_written = x->image ? window_sums(g, &t, &unrolled) : NULL;
    for (uint32_t i = 0; i < gemm->nsum && !x->image; i++)
        text_printf(&sums, "%s%s", i ? " " : "",
                    i == 0 && x->depth ? "ki" : axis_name(w, 0, gemm->sum[i]));
    text_add(&sums, x->image ? sums_written : "");
    if (x->depth)
        text_printf(&t, "split %s by %lld -> kb ki guard\n", axis_name(w, 0, gemm->sum[0]),
                    (long long)x->depth);
    const char *chunks = gemm->row_run && x->chunk ? "ic" : "";
    text_printf(&tasks, "%s %s %s %s jb %s", names_of(g, gemm->batch, gemm->nbatch),
                x->rows_inside ? "" : outer_rows, x->rows_outside ? chunks : "",
                names_of(g, gemm->col, gemm->ncol - gemm->col_run), x->rows_outside ? "" : chunks);
    const char *ip = gemm->row_run ? "ip" : "";
    text_printf(&t, "order %s%s %s %s %s %s%s jr l\nfuse %s -> task\n", text_str(&tasks),
                x->depth ? " kb" : "", x->rows_inside ? outer_rows : "",
                x->panels_outside ? "jq" : ip, x->panels_outside ? ip : "jq", text_str(&sums),
                gemm->row_run ? " ir" : "", text_str(&tasks));
    if (pads)
        text_printf(&t, "hold %s at %s -> sums scratch\n", g->part,
                    x->depth ? "task"
                    : wide   ? "ip"
                             : tile);
    if (wide)
        text_add(&t, "order sums.fin.ir sums.fin.jq\n");
    text_printf(&t, "hold %s at %s -> acc reg\n", g->part, tile);
    text_printf(&t, "run %s jr unroll\nrun l vector\n", gemm->row_run ? "ir" : "");
    if (pads && x->image)
        text_printf(&t, "walk sums.fin.%s by %lld\n", wide ? "jj" : "jv", (long long)g->lanes);
    else if (pads)
        text_add(&t, "run sums.fin.l vector\n");
    if (x->depth)
        text_add(&t, "run sums.init.l vector\n");
    if (x->image) {
        text_printf(&t, "image rhs at task -> image\n");
        if (*unrolled)
            text_printf(&t, "run %s unroll\n", unrolled);
    } else if (g->widened || (!lay_b && !x->in_place)) {
        write_column_sums(g, &t, x->depth ? "kb" : "task", text_str(&sums));
        if (gemm->strided)
            write_unrolled_points(g, x, &t);
    }
    if (x->row_image)
        text_printf(&t, "image lhs at task -> image%s%s\n", gemm->row_window.ninner ? " of " : "",
                    names_of(g, gemm->row_window.inner, gemm->row_window.ninner));
    const char *last = last_of(text_str(&sums));
    if (x->copy_rows)
        text_printf(&t, "stage lhs at %s -> rows scratch of %s %s odd\n",
                    x->panels_outside || !gemm->row_run ? "task" : "ip", gemm->row_run ? "ir" : "",
                    text_str(&sums));
    if (x->pack_rows)
        text_printf(&t,
                    "stage lhs at %s -> rows scratch of ip %s ir\norder rows.ip rows.ir rows.%s\n",
                    x->depth ? "kb" : "task", text_str(&sums), last);
    if (gemm->nsum && (x->copy_rows || x->pack_rows))
        text_printf(&t, "split rows.%s by %lld -> av al\nrun rows.al vector\n", last,
                    (long long)g->lanes);
    /* A row of columns is loaded once for all rows of the tile. */
    if (gemm->nsum && x->rows > 1) {
        int64_t ahead = trips_ahead(g, x);
        text_printf(&t, "stage rhs at %s -> col reg of jr", last);
        if (ahead)
            text_printf(&t, " ahead %lld", (long long)ahead);
        text_add(&t, "\n");
    }
    text_add(&t, "run task parallel\n");
    write_program(w, &t);
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Panels of a task, between half of `most` and `most`, that minimise the work of the busiest
 * core. */
static int64_t
even_share(int64_t panels, int64_t most, int64_t cores)
{
    int64_t best = most, least = INT64_MAX;

    for (int64_t n = most; n >= 1 && 2 * n >= most; n--) {
        int64_t share = ceil_to(ceil_to(panels, n), cores) * n;
        if (share < least) {
            best = n;
            least = share;
        }
    }
    return best;
}

/* vectors of the widest panel for few columns; bounds the list: the tiles with the fewest cycles
 * are wider */
enum { NARROW_PANELS = 2 };
/* Loading panels may take a thirty-second of the time of a task's sums. BERT of any size on a
 * Cascade Lake core, 256 rows: an eighth 421 ms, a thirty-second 407, a 128th 404; but longer tasks
 * are fewer to distribute. */
enum { PANEL_SHARE = 32 };

/* Rows for which copying a panel takes no more than that share: a vector of it is stored once, and
 * multiplied once for each row. */
static int64_t
rows_worth_a_copy(const Machine *m)
{
    return (int64_t)(PANEL_SHARE * m->fma_per_cycle / m->store_per_cycle);
}

/* Row tiles of a task if the number of rows is symbolic. Panels of constants come from memory, so a
 * task of few rows mostly waits for them; rows that leave the caches are read sequentially, which
 * hardware prefetches. If panels are copied and their depth is symbolic, it may be short, so only
 * the cost of copying counts. Otherwise the rows stay in L2, beside the task's panels, between
 * tasks. 0: all. */
static int64_t
near_rows(const GemmDraft *g, const GemmTile *x, int64_t tasks)
{
    const Machine *m = g->w->p->m;
    int64_t bytes = dtype_info[g->gemm.k.reduce->dtype].bytes,
            room = machine_usable_bytes(m, LEVEL_L2), rows;

    if (!g->gemm.row_run)
        return 0;
    if (g->b_constant) {
        rows = (int64_t)(PANEL_SHARE * m->f32_per_second * (double)bytes /
                         (2 * m->level[LEVEL_MEMORY].one.read));
        return ceil_to(ceil_to(rows, ceil_to(machine_tasks(m), tasks)), x->rows);
    }
    if (g->depth < 0)
        return ceil_to(rows_worth_a_copy(m), x->rows);
    rows = g->depth > 0 ? room / (g->depth * bytes) - x->panels * x->vectors * g->lanes : 0;
    return rows >= rows_worth_a_copy(m) ? rows / x->rows : 0;
}

/* With fewer tiles of rows, prices decide whether tasks split them. Bounds the list: with more,
 * tasks do if they are few. */
enum { FEW_TILES = 8 };
/* of a task if the number of columns is symbolic, and then a fourth; bounds the list, prices
 * decide */
enum { MOST_PANELS = 8 };

/* The possible orders of a tile's loops. several: a task has several panels; with one, both orders
 * of rows and panels are the same. */
static void
write_orders(const GemmDraft *g, GemmTile x, bool image, bool several)
{
    const GemmAxes *gemm = &g->gemm;

    for (int outside = 0; outside <= several; outside++)
        for (int copy = 0; copy < 2; copy++)
            for (int inside = 0; inside < 2; inside++) {
                x.panels_outside = outside;
                x.copy_rows = copy;
                x.rows_inside = inside;
                if (!(copy && outside) &&
                    !(inside && (gemm->nrow == gemm->row_run || x.depth || image)))
                    write_tile(g, &x);
            }
}

/* All useful parameters for one register tile: the share of B that a task keeps in L2, and whether
 * the sum is blocked so that a tile's rows stay in L1. */
static void
write_shape(const GemmDraft *g, TileShape s, int64_t laid, bool image)
{
    const Machine *m = g->w->p->m;
    const GemmAxes *gemm = &g->gemm;
    int64_t bytes = dtype_info[gemm->k.reduce->dtype].bytes, width = s.vectors * g->lanes,
            outer = 0, inner = 1;
    /* An image of symbolic size is split for its assumed size: tasks with too few panels copy its
     * rows again and again. */
    int64_t cols =
        g->ncols < 0 && image ? (int64_t)cost_expected_size(g->w->c, gemm->cols) : g->ncols;
    int64_t panels = cols < 0   ? MOST_PANELS
                     : cols > 0 ? ceil_to(cols, width)
                                : 1,
            depth = g->depth < 0 ? (int64_t)cost_expected_size(g->w->c, gemm->depth) : g->depth;
    GemmTile x = { .rows = s.rows, .vectors = s.vectors, .laid = laid, .image = image };

    /* All points of a window read one image. */
    for (uint32_t i = 0; image && g->depth > 0 && i < gemm->nsum; i++)
        if (gemm->window.window >> gemm->sum[i] & 1)
            depth /= expr_or(low_extent(g->l, gemm->sum[i]), 1);
    if (gemm->nsum)
        outer = expr_or(low_extent(g->l, gemm->sum[0]), 0);
    if (outer > 0 && g->depth > 0)
        inner = g->depth / outer;
    depth = depth > 0 ? depth : 1;
    for (int blocked = 0; blocked < 2; blocked++) {
        /* Equal blocks of the sum whose rows of A fill half of L1. */
        int64_t block = machine_block_bytes(m, LEVEL_L1) / (s.rows * bytes * inner);
        int64_t blocks = block > 0 && outer > block ? ceil_to(outer, block) : 1;
        if (blocked && (blocks == 1 || image))
            break;
        /* Low-precision weights in groups: widening a complete panel takes six times as long as
         * widening its blocks (int4 on Cascade Lake). */
        if (!blocked && blocks > 1 && g->widened && gemm->nsum > 1 && g->nrows < 0)
            continue;
        x.depth = blocked ? ceil_to(outer, blocks) : 0;
        int64_t deep = blocked ? x.depth * inner : depth;
        int64_t fit = machine_block_bytes(m, LEVEL_L2) / (deep * width * bytes),
                most = fit < 1        ? 1
                       : fit > panels ? panels
                                      : fit;
        int64_t fewer = g->nrows < 0 ? FEWER_OPEN : FEWER;
        for (int64_t n = most; n >= 1; n = n > 1 ? n / fewer > 0 ? n / fewer : 1 : 0) {
            /* Every core has at least two tasks: panels are split first, then rows. */
            x.panels = even_share(panels, n, m->cores);
            int64_t tasks = ceil_to(panels, x.panels),
                    tiles = g->nrows < 0 ? 0 : ceil_to(g->nrows, s.rows);
            int64_t pieces =
                tasks < machine_tasks(m) && tiles > 1 ? ceil_to(machine_tasks(m), tasks) : 1;
            x.rows_outside = g->nrows < 0 && !image && !gemm->windowed;
            if (x.rows_outside && n > 1 && tasks < m->cores)
                continue; /* a task would have few rows */
            x.chunk = x.rows_outside                     ? near_rows(g, &x, tasks)
                      : pieces > 1 && tiles >= FEW_TILES ? ceil_to(tiles, pieces)
                                                         : 0;
            write_orders(g, x, image, n > 1);
            x.chunk = ceil_to(tiles, pieces);
            if (pieces > 1 && tiles < FEW_TILES)
                write_orders(g, x, image, n > 1);
            if (n == 1)
                break;
        }
    }
}

/* bands that get programs; bounds the list, prices decide */
enum { BANDS = 2 };

/* Rows are the points of an image; the columns are constant. A task copies the complete image and
 * uses some panels of columns; or it copies a band of it and uses all panels. Bands divide the
 * image: the largest that leaves half of L2 free, or the next smaller one. */
static void
write_shape_row_image(const GemmDraft *all, TileShape s)
{
    const Machine *m = all->w->p->m;
    /* rows of one image, if several images collapse */
    GemmDraft own = *all, *g = &own;
    const GemmAxes *gemm = &g->gemm;
    const InputTile *st = &gemm->row_window;
    if (own.gemm.row_run > st->nslide) {
        own.gemm.row_run = st->nslide;
        own.nrows =
            expr_or(axes_product(g->l, gemm->row + gemm->nrow - st->nslide, st->nslide), -1);
    }
    int64_t bytes = dtype_info[gemm->k.reduce->dtype].bytes,
            panels = g->ncols < 0 ? MOST_PANELS : ceil_to(g->ncols, s.vectors * g->lanes);
    bool banded = st->nslide > 1 && st->nslide == gemm->row_run &&
                  gemm->row[gemm->nrow - gemm->row_run] == st->slide[0].axis;
    int64_t high = expr_or(low_extent(g->l, st->slide[0].axis), 0),
            row = expr_or(st->slide[0].pitch, 0), above = st->slide[0].span - 1;
    GemmTile x = { .rows = s.rows, .vectors = s.vectors, .row_image = true };

    for (uint32_t i = 0; i < st->ninner; i++)
        row *= expr_or(low_extent(g->l, st->inner[i]), 1);
    for (uint32_t i = 0; i < st->nouter; i++)
        row *= expr_or(low_extent(g->l, st->outer[i]), 1);
    for (uint32_t i = 0; i < st->nslide; i++)
        row *= st->slide[i].phases;
    bool alone = true; /* the complete image is the only task along rows */
    int bands = 0;
    for (int64_t band = high > 0 ? high : 1; band >= 1 && bands <= BANDS; band--, alone = false) {
        if (!alone &&
            (!banded || high % band ||
             (band > 1 && (band + above) * row * bytes > machine_block_bytes(m, LEVEL_L2))))
            continue;
        bands++;
        x.band = alone ? 0 : band;
        for (int64_t n = panels; n >= 1; n = alone && n > 1 ? n / FEWER > 0 ? n / FEWER : 1 : 0) {
            x.panels = n;
            for (int outside = 0; outside < (n > 1 ? 2 : 1); outside++) {
                x.panels_outside = outside;
                write_tile(g, &x);
            }
        }
    }
}

/* Large GEMMs: a panel of columns, as deep as half of L1, stays there while all rows of a task
 * pass, which are packed in L2. The wider a task, the less often rows are copied. */
/* panels of a task, doubled each time; bounds the list, prices decide */
enum { LEAST_WIDE = 8, MOST_WIDE = 64 };

static void
write_shape_blocked(const GemmDraft *g, TileShape s)
{
    const Machine *m = g->w->p->m;
    int64_t bytes = dtype_info[g->gemm.k.reduce->dtype].bytes, width = s.vectors * g->lanes,
            outer = expr_or(low_extent(g->l, g->gemm.sum[0]), 0);
    int64_t inner = outer > 0 ? g->depth / outer : 0,
            block = inner > 0 ? machine_block_bytes(m, LEVEL_L1) / (width * bytes * inner) : 0;

    if (s.rows == 1 || block < g->lanes || outer <= block ||
        g->ncols * g->depth * bytes <= m->level[LEVEL_L2].bytes)
        return;
    GemmTile x = { .rows = s.rows,
                   .vectors = s.vectors,
                   .panels_outside = true,
                   .pack_rows = true,
                   .depth = ceil_to(outer, ceil_to(outer, block)) };
    for (int64_t panels = LEAST_WIDE; panels <= MOST_WIDE && panels / 2 < ceil_to(g->ncols, width);
         panels *= 2) {
        int64_t rows =
            machine_block_bytes(m, LEVEL_L2) / ((x.depth * inner + panels * width) * bytes);
        x.panels = panels;
        x.chunk = rows / s.rows;
        if (x.chunk * s.rows >= rows_worth_a_copy(m))
            write_tile(g, &x);
    }
}

/* Contiguous columns that stay in L2 are read in place by all tasks, which distribute the rows. */
static void
write_shape_in_place(const GemmDraft *g, TileShape s)
{
    const Machine *m = g->w->p->m;
    int64_t bytes = dtype_info[g->gemm.k.reduce->dtype].bytes, width = s.vectors * g->lanes,
            tiles = g->nrows < 0 ? 0 : ceil_to(g->nrows, s.rows);
    GemmTile x = {
        .rows = s.rows, .vectors = s.vectors, .panels = ceil_to(g->ncols, width), .in_place = true
    };

    if (g->depth < 0 || g->ncols * g->depth * bytes > m->level[LEVEL_L2].bytes)
        return;
    for (int gemm = tiles >= FEW_TILES; gemm <= (tiles > 1); gemm++)
        for (int outside = 0; outside < 2; outside++) {
            x.chunk = gemm ? ceil_to(tiles, machine_tasks(m)) : 0;
            x.panels_outside = outside;
            write_tile(g, &x);
        }
}

/* rows of a panel; bounds the search: complete vectors of 16 lanes and tiles of 8 rows fit */
enum { HIGHEST_LAID = 128 };

/* The height of tiles that the given layout of the rows' constant implies; 0: any. */
static int64_t
height_given(const GemmDraft *g)
{
    for (int64_t rows = 2; g->w->like && g->a_constant && rows <= HIGHEST_LAID; rows++) {
        const char *laid = lay(g, g->gemm.k.a, true, rows);
        if (laid && schedule_lays_alike(laid, g->w->like))
            return rows;
    }
    return 0;
}

/* Rows of a panel that are complete vectors and complete tiles, for a constant in a convolution
 * with a symbolic number of columns: if there are only one or two columns, its rows are lanes. 0:
 * none, or it takes more memory than panels as high as a tile. */
static int64_t
whole_vectors(const GemmDraft *g, int64_t rows)
{
    int64_t laid = rows * g->lanes / gcd64(rows, g->lanes);

    if (g->ncols >= 0 || !g->gemm.windowed || !g->a_constant || g->w->like || g->nrows < 0)
        return 0;
    return ceil_to(g->nrows, laid) * laid == ceil_to(g->nrows, rows) * rows ? laid : 0;
}

/* vectors of columns that few rows read in place, doubled each time; bounds the list, prices
 * decide */
enum { WIDEST_IN_PLACE = 4 };

/* Columns of an image at its pitch, from the first to the last; -1: unknown. */
static int64_t
image_columns(const GemmDraft *g)
{
    const InputTile *image = &g->gemm.window;
    int64_t n = 1;

    for (uint32_t i = 0; i < image->nslide; i++) {
        int64_t extent = expr_or(low_extent(g->l, image->slide[i].axis), -1),
                pitch = expr_or(image->slide[i].pitch, -1);
        if (extent < 0 || pitch < 0)
            return -1;
        n += (extent - 1) * pitch;
    }
    return n;
}

void
write_contraction(Draft *w)
{
    const Points *p = w->p;
    if (p->k->npart != 1)
        return;
    GemmDraft g = { .w = w, .l = draft_low(w, 0) };
    TileShape best[TILE_SHAPES];

    if (!gemm_axes_of(g.l, &g.gemm))
        return;
    g.part = part_name(p, 0);
    g.lanes = machine_lanes(p->m, g.gemm.k.reduce->dtype);
    g.nrows = expr_or(g.gemm.rows, -1);
    g.ncols = expr_or(g.gemm.cols, -1);
    g.depth = expr_or(g.gemm.depth, -1);
    g.a_constant = lay(&g, g.gemm.k.a, true, 2) != NULL;
    g.b_constant = lay(&g, g.gemm.k.b, false, g.lanes) != NULL;
    g.a_direct = rows_in_place(&g);
    g.b_direct = columns_are_one(&g) && is_unit(g.l, g.gemm.k.b, g.gemm.col[g.gemm.ncol - 1]);
    /* Columns under a window are unaligned, and those between rows of the image are computed. */
    bool image = g.gemm.windowed;
    gemm_tile_shapes(p->m, g.nrows, image ? image_columns(&g) : g.ncols, g.lanes,
                     image ? gemm_unaligned_loads(p->m, g.gemm.k.reduce->dtype) : 1, best);
    /* of tiles with similar cycles, those whose packed constant serves all sizes */
    bool whole = false;
    for (int i = 0; i < TILE_SHAPES && best[i].rows; i++)
        whole |= whole_vectors(&g, best[i].rows) > 0;
    for (int i = 0; i < TILE_SHAPES && best[i].rows; i++) {
        if (!whole || whole_vectors(&g, best[i].rows))
            write_shape(&g, best[i], whole_vectors(&g, best[i].rows), g.gemm.windowed);
        if (g.gemm.rows_windowed && g.b_constant)
            write_shape_row_image(&g, best[i]);
        if (g.gemm.strided)
            write_shape(&g, best[i], 0, true);
        if (g.b_direct && !g.b_constant && g.ncols >= 0)
            write_shape_in_place(&g, best[i]);
        if (g.gemm.nsum && g.gemm.row_run && !g.a_constant && !g.gemm.windowed && g.nrows >= 0 &&
            g.ncols >= 0 && g.depth > 0)
            write_shape_blocked(&g, best[i]);
    }
    /* With few columns, a narrow panel wastes less. Tiles are a divisor or multiple of the panels
     * of their constant's given layout, with enough accumulators to hide their latency. */
    int64_t high = height_given(&g);
    for (int64_t vectors = 1; high && vectors <= NARROW_PANELS; vectors++)
        for (int64_t rows = 1; rows * vectors + vectors < p->m->vector_registers; rows++)
            if (rows == high || ((high % rows == 0 || rows % high == 0) &&
                                 rows * vectors >= vectors_in_flight(p->m)))
                write_shape(&g, (TileShape){ .rows = rows, .vectors = vectors }, high,
                            g.gemm.windowed);
    /* A constant that is widened as it is read is widened for each tile of rows; or once for all of
     * them. */
    g.widened = g.b_constant && g.gemm.k.b->op != S_LOAD;
    for (int i = 0; i < TILE_SHAPES && best[i].rows && g.widened; i++) {
        write_shape(&g, best[i], 0, false);
        if (g.gemm.rows_windowed)
            write_shape_row_image(&g, best[i]);
    }
    g.widened = false;
    /* With few rows, copying contiguous columns gains nothing. */
    if (g.b_direct && g.nrows >= 0 && g.nrows <= (int64_t)p->m->vector_registers / 2)
        for (int64_t vectors = 1; vectors <= (g.ncols < 0 ? 1 : WIDEST_IN_PLACE); vectors *= 2)
            write_tile(&g, &(GemmTile){ .rows = g.nrows ? g.nrows : 1,
                                        .vectors = vectors,
                                        .panels = 1,
                                        .in_place = true,
                                        .copy_rows = !g.a_direct && !g.a_constant });
}
