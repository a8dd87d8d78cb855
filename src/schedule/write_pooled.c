/* write_pooled: a window over a contraction's result with channels innermost: pooling after a
 * convolution.
 *
 * A task is a band of rows of the window's outputs, times some channels. What it needs of the
 * contraction is computed in the task (Halide's compute_at), so that it stays in a cache; points
 * that windows of two bands share are computed twice. The contraction's rows are pixels: one index
 * over the rows of the image.
 */
#include "schedule/gemm_axes.h"
#include "schedule/window.h"

typedef struct {
    Draft *w;
    Low *low[2];
    GemmAxes gemm;              /* of the contraction */
    const char *product, *name; /* the results of the parts */
    const Scalar *reduce;       /* of the window */
    WindowSums sums;
    InputTile image; /* the contraction's result under it */
    uint32_t channel;
    const char *shared;                           /* the loops that both parts share */
    const char *pixels;                           /* the contraction's, within a task */
    int64_t lanes, channels, down, across, depth; /* of the window's outputs; -1: unknown */
    /* bytes of a row: of the contraction's input, all channels; of its result, one channel */
    int64_t row_bytes, made_bytes;
    bool in_place; /* the rows' factor is read at linear addresses, without a border */
} Pooled;

/* The parameters of one program. band: rows of outputs in a task; panels: of columns, in a task;
 * rows x vectors: the register tile; across: outputs that the window computes at once. */
typedef struct {
    int64_t band, panels, rows, vectors, across;
    bool copy_rows, panels_outside;
} PooledTile;

/* ---- recognising ----------------------------------------------------------------------------- */

/* MAX_POINTS bounds the code: points of a window, times outputs that are computed at once. ACROSS:
 * that many outputs of a row, fewer of large windows; four chains hide the latency of a maximum. */
enum { MAX_POINTS = 64, ACROSS = 4 };

/* Are the window's parallel axes exactly those that both parts share, those that slide, and the
 * channel? Names the shared ones. */
static bool
shares_the_rest(Pooled *p)
{
    uint32_t axis[NEST_MAX_AXES],
        parallel = axis_list(nest_axes_of_kind(p->low[1]->n, AXIS_PARALLEL), axis);

    p->shared = set_names(p->w, 1, shared_axes(p->w, 1));
    return p->w->p->k->shared + p->image.nslide + 1 == parallel;
}

/* The contraction's own rows: as many axes as slide, collapsed to one index. */
static bool
find_pixels(Pooled *p)
{
    const Kernel *k = p->w->p->k;
    const GemmAxes *gemm = &p->gemm;
    uint32_t slide = p->image.nslide, first = gemm->nrow - slide;

    if (gemm->ncol != 1 || gemm->nrow < slide || first + gemm->nbatch != k->shared)
        return false;
    for (uint32_t i = first; i + 1 < gemm->nrow; i++)
        if (!low_collapses(p->low[0], gemm->row[i], gemm->row[i + 1], NULL, 0, NULL))
            return false;
    p->pixels = axis_names(p->w, 0, gemm->row + first, slide);
    return true;
}

static bool
recognise(Pooled *p)
{
    Draft *w = p->w;
    Kernel *k = w->p->k;
    const Nest *made = k->part[0].nest;

    if (!is_pair(w))
        return false;
    for (uint32_t i = 0; i < 2; i++)
        p->low[i] = draft_low(w, i);
    p->reduce = part_reduction(w->p, 1);
    const Scalar *read = window_read(p->low[1], p->reduce, MAX_POINTS, &p->sums, &p->channel);
    AxisSet lanes = read ? (AxisSet)1 << p->channel : 0;
    if (!read || read->op != S_LOAD ||
        k->part[1].buffer[read->u.load.slot] != k->part[0].buffer[made->nin] ||
        !input_tile_recognise(p->low[1], read,
                              (InputTileAxes){ .sum = p->reduce->u.reduce.axes, .inner = lanes },
                              &p->image) ||
        p->image.nouter || p->image.ninner != 1)
        return false;
    if (!gemm_axes_of(p->low[0], &p->gemm) || p->gemm.windowed ||
        dtype_info[p->gemm.k.reduce->dtype].bytes != 4 || !shares_the_rest(p) || !find_pixels(p))
        return false;
    p->product = part_name(w->p, 0);
    p->name = part_name(w->p, 1);
    p->lanes = machine_lanes(w->p->m, p->gemm.k.reduce->dtype);
    p->channels = expr_or(made->axis[p->gemm.col[0]].extent, -1);
    p->depth = expr_or(p->gemm.depth, -1);
    p->down = expr_or(low_extent(p->low[1], p->image.slide[0].axis), -1);
    p->across = p->image.nslide > 1
                    ? expr_or(low_extent(p->low[1], p->image.slide[p->image.nslide - 1].axis), -1)
                    : -1;
    p->in_place = gemm_rows_linear(p->low[0], &p->gemm);
    if (p->channels < p->lanes || p->channels % p->lanes || p->depth <= 0 || p->down <= 0 ||
        p->across <= 0)
        return false;
    /* A row of the contraction's input is about as long as one of its result, times the strides
     * along it; rows_under has the stride from row to row. */
    int64_t wide = 1, points = 1;
    for (uint32_t i = p->gemm.nrow - p->image.nslide + 1; i < p->gemm.nrow && wide > 0; i++)
        wide *= expr_or(low_extent(p->low[0], p->gemm.row[i]), -1);
    for (uint32_t i = 0; i < p->gemm.nsum; i++)
        if (p->gemm.row_window.window >> p->gemm.sum[i] & 1)
            points *= expr_or(low_extent(p->low[0], p->gemm.sum[i]), 1);
    p->made_bytes = wide * (int64_t)sizeof(float);
    p->row_bytes = wide * (p->depth / points) * (int64_t)sizeof(float);
    for (uint32_t i = 1; i < p->gemm.row_window.nslide; i++)
        p->row_bytes *= p->gemm.row_window.slide[i].phases;
    return wide > 0;
}

/* ---- programs -------------------------------------------------------------------------------- */

static void
write_product(const Pooled *p, const PooledTile *x, Text *t)
{
    Draft *w = p->w;
    const GemmAxes *gemm = &p->gemm;
    const char *sums = axis_names(w, 0, gemm->sum, gemm->nsum),
               *last = axis_name(w, 0, gemm->sum[gemm->nsum - 1]),
               *col = axis_name(w, 0, gemm->col[0]);
    const char *held = x->panels_outside ? "ip" : "jq";
    bool exact = p->channels % (x->vectors * p->lanes) == 0;

    text_printf(t, "order %s %s %s\n", p->pixels, col, sums);
    text_printf(t, "fuse %s -> i_\nsplit i_ by %lld -> ip ir peel 1\n", p->pixels,
                (long long)x->rows);
    text_printf(t, "split %s by %lld -> jq jv%s\nsplit jv by %lld -> jr l_\n", col,
                (long long)(x->vectors * p->lanes), exact ? "" : " pad", (long long)p->lanes);
    text_printf(t, "order %s %s ir jr l_\n", x->panels_outside ? "jq ip" : "ip jq", sums);
    if (!exact)
        text_printf(t, "hold %s at %s -> sums scratch\n", p->product, held);
    text_printf(t, "hold %s at %s -> acc reg\nrun ir jr unroll\nrun l_ vector\n", p->product, held);
    if (!exact)
        text_add(t, "run sums.fin.l_ vector\n");
    if (x->copy_rows)
        text_printf(t,
                    "stage %s.lhs at ip -> rows scratch of ir %s odd\nsplit rows.%s by %lld -> av "
                    "al\nrun rows.al vector\n",
                    p->product, sums, last, (long long)p->lanes);
    else if (gemm->rows_windowed)
        text_printf(t, "image %s.lhs at task -> image%s%s\n", p->product,
                    gemm->row_window.ninner ? " of " : "",
                    axis_names(w, 0, gemm->row_window.inner, gemm->row_window.ninner));
    text_printf(t, "stage %s.rhs at %s -> col reg of jr\n", p->product, last);
}

static void
write_tile(const Pooled *p, const PooledTile *x)
{
    Draft *w = p->w;
    const GemmAxes *gemm = &p->gemm;
    Text t = { .arena = w->a };
    const char *lay =
        gemm_layouts(w, 0, gemm->k.b, gemm_column_panels(gemm, x->vectors * p->lanes));
    uint32_t nslide = p->image.nslide, slide[MAX_SLIDE];
    int64_t width = x->panels * x->vectors * p->lanes;
    bool all = width >= p->channels;
    const char *c = axis_name(w, 1, p->channel), *rest;

    for (uint32_t i = 0; i < nslide; i++)
        slide[i] = p->image.slide[i].axis;
    rest = axis_names(w, 1, slide + 1, nslide - 1);
    text_add(&t, lay ? lay : "");
    text_printf(&t, "split %s by %lld -> yb yi%s\n", axis_name(w, 1, slide[0]), (long long)x->band,
                p->down % x->band ? " guard" : " exact");
    if (!all)
        text_printf(&t, "split %s by %lld -> jb jp%s\n", c, (long long)width,
                    p->channels % width ? " guard" : " exact");
    text_printf(&t, "order yb%s yi %s %s\nput %s at %s\nfuse %s yb%s -> task\n", all ? "" : " jb",
                rest, all ? c : "jp", p->product, all ? "yb" : "jb", p->shared, all ? "" : " jb");
    text_printf(&t, "split %s by %lld -> xb xr\n", axis_name(w, 1, slide[nslide - 1]),
                (long long)x->across);
    text_printf(&t, "split %s by %lld -> cb cl\n", all ? c : "jp", (long long)p->lanes);
    text_printf(&t, "order yi %s xb cb %s xr cl\n", axis_names(w, 1, slide + 1, nslide - 2),
                axis_names(w, 1, p->sums.axis, p->sums.n));
    text_printf(&t, "hold %s at cb -> best reg\nrun %s xr unroll\nrun cl vector\n", p->name,
                axis_names(w, 1, p->sums.axis, p->sums.n));
    write_product(p, x, &t);
    text_add(&t, "run task parallel\n");
    write_program(w, &t);
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Rows of an image that `rows` rows of outputs read: of the contraction's result under the window,
 * or of the image under the contraction. */
static int64_t
rows_under(const InputTile *s, int64_t rows)
{
    return s->nslide ? (rows - 1) * s->slide[0].stride + s->slide[0].span : rows;
}

/* How the rows' factor is read: rows under a window are packed for each tile, or a padded copy of
 * their image is made in each task; others are read in place. */
static bool
reads_rows_so(const Pooled *p, const PooledTile *x, bool image_fits)
{
    if (x->copy_rows)
        return p->gemm.rows_windowed && !x->panels_outside;
    return p->gemm.rows_windowed ? image_fits : p->in_place;
}

static void
write_shape(const Pooled *p, TileShape s)
{
    const Machine *m = p->w->p->m;
    int64_t width = s.vectors * p->lanes, panels = (p->channels + width - 1) / width, before = 0;
    PooledTile x = { .rows = s.rows, .vectors = s.vectors };

    for (x.across = ACROSS;
         x.across > 1 && (x.across > p->across || x.across * p->sums.points > MAX_POINTS);
         x.across /= 2)
        ;
    for (int64_t tasks = 1; tasks <= p->down; tasks *= 2) {
        x.band = (p->down + tasks - 1) / tasks;
        int64_t made = rows_under(&p->image, x.band);
        if (x.band == before)
            continue; /* written already */
        if (tasks > 1 && p->image.slide[0].span > p->image.slide[0].stride &&
            x.band < p->image.slide[0].span)
            break; /* shorter than the window: bands would compute much of each other's rows */
        before = x.band;
        for (x.panels = panels;; x.panels = (x.panels + FEWER - 1) / FEWER) {
            int64_t image = rows_under(&p->gemm.row_window, made) * p->row_bytes;
            /* one task is as good as any where no band is short enough */
            bool fits = image <= machine_block_bytes(m, LEVEL_L2) || tasks == 1;
            bool near = made * p->made_bytes * x.panels * width <= machine_block_bytes(m, LEVEL_L2);
            for (int copy = 0; copy < 2 && near; copy++)
                for (int outside = 0; outside < (x.panels > 1 ? 2 : 1); outside++) {
                    x.copy_rows = copy;
                    x.panels_outside = outside;
                    if (reads_rows_so(p, &x, fits))
                        write_tile(p, &x);
                }
            if (x.panels == 1)
                break;
        }
    }
}

bool
write_pooled(Draft *w)
{
    Pooled p = { .w = w };
    TileShape best[TILE_SHAPES];

    if (!recognise(&p))
        return false;
    gemm_tile_shapes(w->p->m, -1, p.channels, p.lanes, 1, best);
    for (int i = 0; i < TILE_SHAPES && best[i].rows; i++)
        write_shape(&p, best[i]);
    return w->program.n > 0;
}
