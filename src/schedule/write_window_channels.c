/* write_window_channels: reductions over a small sliding window, for tensors with channels
 * innermost: depthwise convolution, pooling.
 *
 * Lanes are channels, so every point of the window is a plain vector. A task copies a band of the
 * image with its padding, and sums several positions of a row at a time: elements that two of them
 * read are loaded once.
 *
 * A second part may sum the window's result over complete planes (the average of a
 * squeeze-and-excite block). Then a task is some channels of an image: it makes their planes, as
 * they are stored, and sums them as it goes, or from a near cache.
 */
#include "schedule/window.h"

typedef struct {
    Draft *w;
    Low *l;
    const Scalar *reduce;
    InputTile image;
    uint32_t channel;                      /* the axis of lanes */
    uint32_t outer[NEST_MAX_AXES], nouter; /* outputs that do not slide, without it */
    WindowSums sums;
    const char *name; /* the result of the window */
    /* the second part's sum over planes; NULL: none */
    const Scalar *whole;
} Channels;

/* The most unrolled multiply-adds, points times sums, each with about one load. Bounds code: a
 * Skylake keeps 1,536 instructions decoded, a Zen 3 4,096 (Fog, The microarchitecture of Intel, AMD
 * and VIA CPUs, 2022). Of larger windows a row is unrolled, or fewer sums. */
enum { MAX_WRITTEN_OUT = 256 };
/* positions per tile, halved each time; bounds the list: eight sums hide the latency of each */
enum { MOST_ACROSS = 8 };
/* rows of a band, divided each time, if the length of a row is open: more reuse the same copies
 * little more often */
enum { MOST_OPEN_BAND = 16 };

/* ---- recognising ----------------------------------------------------------------------------- */

static bool
recognise(Channels *k)
{
    const Scalar *read = window_read(k->l, k->reduce, MAX_WRITTEN_OUT, &k->sums, &k->channel);

    if (!read)
        return false;
    AxisSet lanes = (AxisSet)1 << k->channel;
    if (!input_tile_recognise(k->l, read,
                              (InputTileAxes){ .sum = k->reduce->u.reduce.axes, .inner = lanes },
                              &k->image) ||
        k->image.nouter || k->image.ninner != 1)
        return false;
    k->nouter = window_outer(k->l->n, &k->image, lanes, k->outer);
    return true;
}

/* Is the second part a sum of the window's result over all sliding axes? Then channels are the last
 * axis that both share. */
static bool
sums_planes(Channels *k)
{
    const Points *p = k->w->p;
    const Part *made = &p->k->part[0], *part = &p->k->part[1];
    const Nest *n = part->nest;
    uint32_t own[NEST_MAX_AXES], nown = axis_list(own_axes(k->w, 1), own);

    k->whole = part_reduction(p, 1);
    if (!k->whole || n->nwrite != 1 || k->whole->u.reduce.combiner > COMB_MIN ||
        p->axis[0][k->channel] != p->axis[1][k->channel])
        return false;
    for (uint32_t i = 0; i < nown; i++)
        if (!expr_is(n->axis[own[i]].extent, 1))
            return false;
    for (uint32_t x = 0; x < n->naxis; x++)
        if (n->axis[x].kind == AXIS_REDUCE && !expr_const(n->axis[x].extent, NULL))
            return false;
    return p->k->shared == k->nouter + 1 && k->channel > k->outer[k->nouter - 1] &&
           p->k->buffer.at[made->buffer[made->nest->nin]].space == SPACE_OUT;
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Packs a constant that varies with the channel with channels innermost, as lanes read it. */
static void
lay_channel_last(const Channels *k, Text *t, const Scalar *s)
{
    const Points *p = k->w->p;
    uint32_t last = UINT32_MAX, count = 0;
    Var v;

    if (s->u.load.slot >= k->l->n->nin || s->u.load.outside ||
        !k->w->constant[p->k->part[0].buffer[s->u.load.slot]])
        return;
    for (uint32_t d = 0; d < s->u.load.rank; d++)
        if (expr_axes(s->u.load.at[d]) >> k->channel & 1) {
            last = expr_is_var(s->u.load.at[d], &v) ? d : UINT32_MAX;
            count++;
        }
    if (count != 1 || last == UINT32_MAX || last + 1 == s->u.load.rank)
        return;
    write_lay_last(t, p->k->buffer.at[p->k->part[0].buffer[s->u.load.slot]].name, s->u.load.rank,
                   last);
}

/* Tiles of `across` positions of a row and `vectors` of channels; the outer loops `task` are
 * parallel. Unrolls all loops of the window but the first ones. */
static void
write_tiles(Channels *k, Text *t, const char *task, const char *rows, int64_t across,
            int64_t vectors, uint32_t counted)
{
    Draft *w = k->w;
    int64_t lanes = low_lanes(k->l, k->reduce->dtype);
    const char *window = axis_names(w, 0, k->sums.axis, k->sums.n),
               *c = axis_name(w, 0, k->channel);

    uint32_t x = k->image.slide[k->image.nslide - 1].axis;
    bool open =
        !expr_const(low_extent(k->l, x), NULL); /* sums are in registers: it must be known */
    text_printf(t, "split %s by %lld -> xb_ xr_%s\n", axis_name(w, 0, x), (long long)across,
                open ? " peel 1" : "");
    text_printf(t, "split %s by %lld -> cb_ cv_\nsplit cv_ by %lld -> cr_ cl_\n", c,
                (long long)(vectors * lanes), (long long)lanes);
    text_printf(t, "order %s %s xb_ cb_ %s xr_ cr_ cl_\nfuse %s -> task\n", task, rows, window,
                task);
    text_printf(t, "hold %s at cb_ -> acc reg\n", k->name);
    text_printf(t, "run %s xr_ cr_ unroll\nrun cl_ vector\n",
                axis_names(w, 0, k->sums.axis + counted, k->sums.n - counted));
}

static Text
begin_program(Channels *k, uint32_t *slide)
{
    Text t = { .arena = k->w->a };

    for (uint32_t i = 0; i < k->image.nslide; i++)
        slide[i] = k->image.slide[i].axis;
    FOR_EACH_SCALAR (load, scalar_loads(k->w->c, k->reduce->arg[0]))
        lay_channel_last(k, &t, load);
    return t;
}

/* A task computes `band` rows (0: all) from a padded copy of the image. */
static void
write_band(Channels *k, int64_t band, int64_t across, int64_t vectors)
{
    Draft *w = k->w;
    uint32_t nslide = k->image.nslide, slide[MAX_SLIDE];
    Text t = begin_program(k, slide);
    const char *task = axis_names(w, 0, k->outer, k->nouter),
               *rows = axis_names(w, 0, slide, nslide - 1);

    if (band) {
        text_printf(&t, "split %s by %lld -> yb_ yi_ guard\n", axis_name(w, 0, slide[0]),
                    (long long)band);
        task = arena_printf(w->a, "%s yb_", task);
        rows = arena_printf(w->a, "yi_ %s", axis_names(w, 0, slide + 1, nslide - 2));
    }
    write_tiles(k, &t, task, rows, across, vectors, 0);
    text_printf(&t, "image %s at task -> image of %s\nrun task parallel\n",
                w->p->k->part[0].nest->param[k->image.load->u.load.slot].name,
                axis_name(w, 0, k->channel));
    write_program(w, &t);
}

/* The outputs at the begin and at the end of an axis whose window extends beyond the image. False:
 * they are not constants. */
typedef struct {
    int64_t first, last;
} BorderOutputs;

static bool
edge_of(Channels *k, const Slide *s, BorderOutputs *out)
{
    int64_t begin = 0, size = INT64_MAX, outputs;

    if ((s->lo && !expr_const(s->lo, &begin)) || (s->hi && !expr_const(s->hi, &size)) ||
        !expr_const(low_extent(k->l, s->axis), &outputs))
        return false;
    /* window positions inside of the image, step 0 among them */
    int64_t inside = size - s->span;
    int64_t end = inside < 0 ? 0 : inside / s->stride + 1;
    out->first = begin > 0 ? (begin + s->stride - 1) / s->stride : 0;
    out->last = outputs > end ? outputs - end : 0;
    return out->first + out->last < outputs;
}

/* The first and last tiles of a row whose windows extend beyond the image. */
static BorderOutputs
edge_tiles(Channels *k, BorderOutputs column, int64_t across)
{
    int64_t wide = expr_or(low_extent(k->l, k->image.slide[k->image.nslide - 1].axis), 0),
            rest = wide % across;

    return (BorderOutputs){ (column.first + across - 1) / across,
                            column.last > rest ? (column.last - rest + across - 1) / across : 0 };
}

/* A task computes a row from the image in place. Tiles at its ends, and rows at the borders, are
 * peeled where their number is known, so that all others read without a guard. Each of these bodies
 * unrolls a row of the window, not all of it. */
static void
write_rows_of(Channels *k, int64_t across, int64_t vectors)
{
    Draft *w = k->w;
    uint32_t nslide = k->image.nslide, slide[MAX_SLIDE];
    Text t = begin_program(k, slide);
    const Slide *x = &k->image.slide[nslide - 1];
    BorderOutputs row[MAX_SLIDE], column;
    const char *task = arena_printf(w->a, "%s %s", axis_names(w, 0, k->outer, k->nouter),
                                    axis_names(w, 0, slide, nslide - 1));

    for (uint32_t i = 0; i + 1 < nslide; i++)
        if (!edge_of(k, &k->image.slide[i], &row[i]))
            row[i] = (BorderOutputs){ 0 };
    if (!edge_of(k, x, &column))
        column = (BorderOutputs){ 0 };
    write_tiles(k, &t, task, "", across, vectors, 1);
    BorderOutputs tiles = edge_tiles(k, column, across);
    if (tiles.first || tiles.last)
        text_printf(&t, "cut xb_ by %lld %lld\n", (long long)tiles.first, (long long)tiles.last);
    text_printf(&t, "run task parallel\n");
    for (uint32_t i = 0; i + 1 < nslide; i++)
        if (row[i].first || row[i].last)
            text_printf(&t, "case %s at task by %lld %lld\n", axis_name(w, 0, slide[i]),
                        (long long)row[i].first, (long long)row[i].last);
    write_program(w, &t);
}

/* The planes of some channels, and their sums: the planes are summed when they are complete, from a
 * near cache, with as many sums as hide the latency. Rows and tiles at the borders are peeled. */
static void
write_planes(Channels *k, int64_t across, int64_t vectors)
{
    Draft *w = k->w;
    uint32_t nslide = k->image.nslide, slide[MAX_SLIDE], sum[NEST_MAX_AXES],
             nsum = axis_list(k->whole->u.reduce.axes, sum);
    Text t = begin_program(k, slide);
    const char *a = k->name, *b = part_name(w->p, 1), *c = axis_name(w, 0, k->channel),
               *window = axis_names(w, 0, k->sums.axis, k->sums.n);
    int64_t lanes = low_lanes(k->l, k->reduce->dtype),
            chains = vectors_in_flight(w->p->m) / vectors;
    BorderOutputs row[MAX_SLIDE];

    for (uint32_t i = 0; i < nslide; i++)
        if (!edge_of(k, &k->image.slide[i], &row[i]))
            return;
    bool one = vectors == 1;
    const char *lane = one ? "cv_" : "cl_", *sum_lane = one ? "cv_" : "sl_",
               *more = one ? "" : arena_printf(w->a, "%s.cr_", a),
               *sum_more = one ? "" : arena_printf(w->a, "%s.sr_", b);
    text_printf(&t, "split %s by %lld -> cb_ cv_ guard\napart cv_\nfuse %s cb_ -> task\n", c,
                (long long)(vectors * lanes), axis_names(w, 0, k->outer, k->nouter));
    text_printf(&t, "split %s by %lld -> xb_ xr_\n", axis_name(w, 0, slide[nslide - 1]),
                (long long)across);
    text_printf(&t, "split %s by %lld -> sb_ su_\n", axis_name(w, 1, sum[nsum - 1]),
                (long long)(chains < 1 ? 1 : chains));
    if (!one)
        text_printf(&t, "split %s.cv_ by %lld -> cr_ cl_\nsplit %s.cv_ by %lld -> sr_ sl_\n", a,
                    (long long)lanes, b, (long long)lanes);
    write_steps(&t, a, "order %s xb_ %s xr_ %s @.%s\nhold @ at xb_ -> acc reg\n",
                axis_names(w, 0, slide, nslide - 1), window, more, lane);
    text_printf(&t, "order %s sb_ su_ %s %s %s.%s\nhold %s at task -> whole reg over su_\n",
                axis_names(w, 1, sum, nsum - 1), set_names(w, 1, own_axes(w, 1)), sum_more, b,
                sum_lane, b);
    text_printf(&t, "run %s xr_ %s su_ %s unroll\nrun %s.%s %s.%s vector\n",
                axis_names(w, 0, k->sums.axis + 1, k->sums.n - 1), more, sum_more, a, lane, b,
                sum_lane);
    BorderOutputs x = edge_tiles(k, row[nslide - 1], across);
    if (x.first || x.last)
        text_printf(&t, "cut xb_ by %lld %lld\n", (long long)x.first, (long long)x.last);
    for (uint32_t i = nslide - 1; i-- > 0;)
        if (row[i].first || row[i].last)
            text_printf(&t, "cut %s by %lld %lld\n", axis_name(w, 0, slide[i]),
                        (long long)row[i].first, (long long)row[i].last);
    text_printf(&t, "run task parallel\n");
    write_program(w, &t);
}

void
write_window_channels(Draft *w)
{
    const Points *p = w->p;
    if (p->k->npart > 2)
        return;
    Low *l = draft_low(w, 0);
    Channels k = { .w = w, .l = l, .reduce = part_reduction(p, 0), .name = part_name(p, 0) };

    if (!recognise(&k) || (p->k->npart > 1 && !sums_planes(&k)))
        return;
    const Machine *m = p->m;
    int64_t lanes = low_lanes(l, k.reduce->dtype), channels = expr_or(low_extent(l, k.channel), -1);
    const Slide *first = &k.image.slide[0];
    int64_t high = expr_or(low_extent(l, first->axis), 0),
            wide = expr_or(low_extent(l, k.image.slide[k.image.nslide - 1].axis), -1);
    int64_t row = expr_or(first->pitch, 0) * (channels > 0 ? channels : 1) *
                  dtype_info[k.reduce->dtype].bytes;
    for (uint32_t i = 0; i < k.image.nslide; i++)
        row *= k.image.slide[i].phases;
    int64_t fit = row > 0
                      ? machine_block_bytes(m, LEVEL_L2) / row - (first->span - 1) / first->stride
                      : MOST_OPEN_BAND;
    int64_t row_points = k.sums.points / expr_or(low_extent(l, k.sums.axis[0]), 1);
    for (int64_t across = MOST_ACROSS; across >= (wide < 0 ? 1 : 2); across /= 2)
        for (int64_t vectors = 1; vectors <= 2; vectors++) {
            if (across * vectors + vectors + 2 > m->vector_registers ||
                (wide >= 0 && across > wide && p->k->npart == 1))
                continue;
            if (vectors > 1 && (channels < 0 || channels % (vectors * lanes)))
                continue;
            if (p->k->npart > 1) {
                int64_t tiles = wide > 0 ? (wide + across - 1) / across : 0;
                if (tiles && across * vectors * row_points <= MAX_WRITTEN_OUT)
                    write_planes(&k, (wide + tiles - 1) / tiles, vectors);
                continue;
            }
            if (k.image.nslide > 1 && across * vectors * row_points <= MAX_WRITTEN_OUT)
                write_rows_of(&k, across, vectors);
            if (across * vectors * k.sums.points > MAX_WRITTEN_OUT)
                continue;
            if (k.nouter && row > 0)
                write_band(&k, 0, across, vectors);
            for (int64_t band = fit; k.image.nslide > 1 && band >= 1; band /= FEWER)
                if (high == 0 || band < high)
                    write_band(&k, band, across, vectors);
        }
}
