/* write_window: reductions over a small window that slides over the outputs: depthwise convolution,
 * pooling.
 *
 * Each plane (one value of the axes that do not slide) is copied with its padding and stride phases
 * in place, so every point of the window is a plain vector read for a run of outputs. The window is
 * unrolled around the accumulators; operands that are constant over the plane (a filter) are loaded
 * once, into registers, if these suffice.
 */
#include "schedule/window.h"

typedef struct {
    Draft *w;
    Low *l;
    const Scalar *reduce;
    InputTile image;
    uint32_t outer[NEST_MAX_AXES], nouter; /* outputs that do not slide */
    WindowSums sums;
    int64_t lanes, across, down; /* of a vector; outputs of a row, and rows; -1: unknown */
} Window;

/* ---- recognising ----------------------------------------------------------------------------- */

/* The most unrolled points of a window, each with as many sums as hide a multiply-add's latency.
 * Bounds code: with eight sums they are as many instructions as a Skylake keeps decoded (1,536;
 * Fog, The microarchitecture of Intel, AMD and VIA CPUs, 2022). write_rows handles larger
 * windows. */
enum { MAX_WINDOW = 128 };
/* vectors of a row, and sums in all; bounds the list: eight hide the latency; prices decide among
 * the others */
enum { MOST_VECTORS = 4, MOST_SUMS = 8 };

const Scalar *
window_read(Low *l, const Scalar *reduce, int64_t most, WindowSums *sums, uint32_t *last)
{
    const Nest *n = l->n;
    int64_t extent;

    if (!reduce || n->nwrite != 1 || reduce->u.reduce.combiner > COMB_MIN)
        return NULL;
    sums->n = axis_list(reduce->u.reduce.axes, sums->axis);
    sums->points = 1;
    for (uint32_t x = 0; x < n->naxis; x++) {
        if (axis_varies(&n->axis[x]))
            return NULL;
        if (reduce->u.reduce.axes >> x & 1 &&
            (!expr_const(n->axis[x].extent, &extent) || (sums->points *= extent) > most))
            return NULL;
    }
    const Write *out = &n->write[0];
    uint32_t rank = n->param[out->out].type->rank;
    *last = rank ? axis_of(out->at[rank - 1]) : NO_SLOT;
    if (*last == NO_SLOT)
        return NULL;
    return input_tile_operand(l, reduce->arg[0], reduce->u.reduce.axes);
}

uint32_t
window_outer(const Nest *n, const InputTile *image, AxisSet lanes, uint32_t *outer)
{
    AxisSet inside = lanes;
    uint32_t count = 0;

    for (uint32_t i = 0; i < image->nslide; i++)
        inside |= (AxisSet)1 << image->slide[i].axis;
    for (uint32_t x = 0; x < n->naxis; x++)
        if (n->axis[x].kind == AXIS_PARALLEL && !(inside >> x & 1))
            outer[count++] = x;
    return count;
}

static bool
window_of(Draft *wr, Window *w)
{
    uint32_t last;

    *w = (Window){ .w = wr, .l = draft_low(wr, 0), .reduce = part_reduction(wr->p, 0) };
    const Scalar *read = window_read(w->l, w->reduce, MAX_WINDOW, &w->sums, &last);
    if (!read || !input_tile_recognise(
                     w->l, read, (InputTileAxes){ .sum = w->reduce->u.reduce.axes }, &w->image))
        return false;
    if (w->image.nouter || w->image.slide[w->image.nslide - 1].axis != last)
        return false;
    w->nouter = window_outer(w->l->n, &w->image, 0, w->outer);
    w->lanes = low_lanes(w->l, w->reduce->dtype);
    w->across = expr_or(low_extent(w->l, w->image.slide[w->image.nslide - 1].axis), -1);
    w->down = w->image.nslide > 1
                  ? expr_or(low_extent(w->l, w->image.slide[w->image.nslide - 2].axis), -1)
                  : -1;
    while (w->lanes > 2 && w->across >= 0 && w->lanes / 2 >= w->across)
        w->lanes /= 2;
    return true;
}

/* ---- operands of the plane ------------------------------------------------------------------- */

/* The read of a filter, if there is one and its points fit in registers beside `busy` others. */
static const Scalar *
filter_of(const Window *w, int64_t busy)
{
    const Scalar *filter = NULL;
    AxisSet sliding = 0;

    for (uint32_t i = 0; i < w->image.nslide; i++)
        sliding |= (AxisSet)1 << w->image.slide[i].axis;
    FOR_EACH_SCALAR (load, scalar_loads(w->w->c, w->reduce->arg[0])) {
        if (!(load->axes & w->reduce->u.reduce.axes) || load->axes & sliding ||
            load->u.load.outside)
            continue;
        if (filter)
            return NULL;
        filter = load;
    }
    return w->sums.points + busy <= w->w->p->m->vector_registers ? filter : NULL;
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Do the sums of a tile of that many rows and vectors fit the registers? */
static bool
window_fits(const Window *w, int64_t rows, int64_t vectors)
{
    if (vectors > 1 && (w->across < 0 || w->across < vectors * w->lanes))
        /* unrolling needs a known number of remaining outputs */
        return false;
    return rows == 1 || (w->image.nslide > 1 && w->down >= rows);
}

/* Is there a remainder of a row that a complete vector may compute too? */
static bool
is_left_over(const Window *w, int64_t vectors)
{
    return w->across < 0 || w->across % (vectors * w->lanes) != 0;
}

/* Tiles of `rows` rows and `vectors` vectors of outputs. pad: the remainder of a row is computed in
 * complete vectors too. */
static void
write_window_tile(const Window *w, int64_t rows, int64_t vectors, bool pad)
{
    Draft *wr = w->w;
    const Nest *n = w->l->n;
    Text t = { .arena = wr->a };
    uint32_t slide[MAX_SLIDE], nslide = w->image.nslide, whole = nslide - 1 - (rows > 1);
    const char *outer = axis_names(wr, 0, w->outer, w->nouter),
               *window = axis_names(wr, 0, w->sums.axis, w->sums.n);
    const char *down = rows > 1 ? "yr" : "";
    const Scalar *filter = filter_of(w, rows * vectors + 2);

    for (uint32_t i = 0; i < nslide; i++)
        slide[i] = w->image.slide[i].axis;
    if (rows > 1)
        text_printf(&t, "split %s by %lld -> yb yr\n", axis_name(wr, 0, slide[nslide - 2]),
                    (long long)rows);
    text_printf(&t, "split %s by %lld -> zb zv%s\nsplit zv by %lld -> zr l\n",
                axis_name(wr, 0, slide[nslide - 1]), (long long)(vectors * w->lanes),
                pad ? " pad" : "", (long long)w->lanes);
    text_printf(&t, "order %s %s %s zb %s %s zr l\nfuse %s -> plane\n", outer,
                axis_names(wr, 0, slide, whole), rows > 1 ? "yb" : "", window, down, outer);
    text_printf(&t, "hold %s at zb -> acc reg\nrun %s %s zr unroll\nrun l vector\n",
                part_name(wr->p, 0), window, down);
    text_printf(&t, "image %s at plane -> image\n", n->param[w->image.load->u.load.slot].name);
    if (filter)
        text_printf(&t, "stage %s at plane -> filter reg of %s\n",
                    n->param[filter->u.load.slot].name, window);
    text_add(&t, "run plane parallel\n");
    write_program(wr, &t);
}

static void
write_window_tiles(const Window *w, int64_t rows, int64_t vectors)
{
    for (int pad = is_left_over(w, vectors); pad >= 0 && window_fits(w, rows, vectors); pad--)
        write_window_tile(w, rows, vectors, pad);
}

void
write_window(Draft *w)
{
    Window win;

    if (w->p->k->npart != 1 || !window_of(w, &win))
        return;
    if (!win.nouter)
        return; /* no planes: one image, so there is nothing to distribute */
    for (int64_t vectors = 1; vectors <= MOST_VECTORS; vectors *= 2) {
        for (int64_t rows = 1; rows * vectors <= MOST_SUMS; rows *= 2)
            write_window_tiles(&win, rows, vectors);
        if (win.down * vectors <= MOST_SUMS && (win.down & (win.down - 1)) > 0)
            /* all rows of a small image, without a remainder */
            write_window_tiles(&win, win.down, vectors);
    }
}
