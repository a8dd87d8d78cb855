/* write_window: reductions over a small window that slides over the outputs: depthwise convolution, pooling.
 *
 * Each plane (one value of the axes that do not slide) is copied with its padding and stride phases in place, so every
 * point of the window is a plain vector read for a run of outputs. The window is written out around the accumulators;
 * what is the same for the whole plane (a filter) is read once, into registers, where they suffice.
 */
#include "schedule/write.h"

typedef struct {
    Draft *w;
    Low *l;
    const Scalar *reduce;
    Stage image;
    uint32_t outer[NEST_MAX_AXES], nouter;   /* outputs that do not slide */
    uint32_t window[NEST_MAX_AXES], nwindow;
    int64_t points;                          /* of the window */
} Window;

/* ---- recognising --------------------------------------------------------------------------------------- */

typedef struct { const Nest *n; const Scalar *found; uint32_t count; } FindRead;

static void
find_window_read(void *user, const Scalar *s)
{
    FindRead *f = user;
    AxisSet parallel = nest_axes_of_kind(f->n, AXIS_PARALLEL), reduced = nest_axes_of_kind(f->n, AXIS_REDUCE);
    bool slides = false;

    for (uint32_t d = 0; s->op == S_LOAD && d < s->u.load.rank; d++) {
        AxisSet here = expr_axes(s->u.load.at[d]);
        slides |= (here & parallel) && (here & reduced);
    }
    if (slides) {
        f->found = s;
        f->count++;
    }
}

enum { MAX_WINDOW = 128 };                   /* points of a window that is written out: the code of more leaves the instruction cache */

static bool
recognise(Window *w)
{
    const Nest *n = w->l->n;
    FindRead f = { .n = n };
    int64_t extent;
    Var v;

    if (!w->reduce || n->nwrite != 1 || w->reduce->u.reduce.combiner > COMB_MIN)
        return false;
    w->nwindow = axis_list(w->reduce->u.reduce.axes, w->window);
    w->points = 1;
    for (uint32_t x = 0; x < n->naxis; x++) {
        if (expr_axes(n->axis[x].extent) || expr_uses_kind(n->axis[x].extent, VAR_COMPUTED))
            return false;
        if (w->reduce->u.reduce.axes >> x & 1 && (!expr_const(n->axis[x].extent, &extent) || (w->points *= extent) > MAX_WINDOW))
            return false;
    }
    const Write *out = &n->write[0];
    uint32_t rank = n->param[out->out].type->rank;
    if (rank == 0 || !expr_is_var(out->at[rank - 1], &v) || v.kind != VAR_AXIS)
        return false;
    scalar_visit(w->w->c, w->reduce->arg[0], find_window_read, &f);
    if (f.count != 1 || !stage_recognise(w->l, f.found, w->reduce->u.reduce.axes, (AxisSet)1 << v.id, 0, &w->image))
        return false;
    if (w->image.nouter || w->image.slide[w->image.nslide - 1].axis != v.id)
        return false;
    AxisSet sliding = 0;
    for (uint32_t i = 0; i < w->image.nslide; i++)
        sliding |= (AxisSet)1 << w->image.slide[i].axis;
    for (uint32_t x = 0; x < n->naxis; x++)
        if (n->axis[x].kind == AXIS_PARALLEL && !(sliding >> x & 1))
            w->outer[w->nouter++] = x;
    return true;
}

/* ---- what the plane shares ------------------------------------------------------------------------------ */

typedef struct { const Window *w; AxisSet sliding; const Scalar *load; uint32_t count; } FindFilter;

static void
find_filter(void *user, const Scalar *s)
{
    FindFilter *f = user;
    AxisSet axes = s->op == S_LOAD ? scalar_axes(f->w->w->c, s) : 0;

    if ((axes & f->w->reduce->u.reduce.axes) && !(axes & f->sliding) && !s->u.load.outside) {
        f->load = s;
        f->count++;
    }
}

/* The read of a filter, if there is one and its points fit in registers beside `busy` others. */
static const Scalar *
filter_of(const Window *w, int64_t busy)
{
    FindFilter f = { .w = w };

    for (uint32_t i = 0; i < w->image.nslide; i++)
        f.sliding |= (AxisSet)1 << w->image.slide[i].axis;
    scalar_visit(w->w->c, w->reduce->arg[0], find_filter, &f);
    return f.count == 1 && w->points + busy <= w->w->p->m->vector_registers ? f.load : NULL;
}

/* ---- programs -------------------------------------------------------------------------------------------- */

/* `rows` rows of outputs, `vectors` vectors of each, are summed at a time. */
static void
write_window_tile(const Window *w, const char *part, int64_t lanes, int64_t rows, int64_t vectors)
{
    Draft *wr = w->w;
    Text t = { .arena = wr->a };
    const Slide *last = &w->image.slide[w->image.nslide - 1];
    const char *z = axis_name(wr, 0, last->axis), *y = w->image.nslide > 1 ? axis_name(wr, 0, last[-1].axis) : NULL;
    const char *outer = axis_names(wr, 0, w->outer, w->nouter), *window = axis_names(wr, 0, w->window, w->nwindow);
    const Scalar *filter = filter_of(w, rows * vectors + 2);
    const char *lane = lane_name(wr, &last->axis, 1);
    uint32_t slide[MAX_SLIDE], nslide = 0;

    if (rows > 1 && !y)
        return;
    for (uint32_t i = 0; i + 1 + (rows > 1) < w->image.nslide; i++)
        slide[nslide++] = w->image.slide[i].axis;
    const char *slow = axis_names(wr, 0, slide, nslide);
    if (rows > 1)
        text_printf(&t, "split %s by %lld -> yb yr\n", y, (long long)rows);
    text_printf(&t, "split %s by %lld -> zb zv\n", z, (long long)(vectors * lanes));
    text_printf(&t, "split zv by %lld -> zr %s\n", (long long)lanes, lane);
    text_printf(&t, "order %s %s %s zb %s %s zr %s\n", outer, slow, rows > 1 ? "yb" : "", window, rows > 1 ? "yr" : "", lane);
    if (w->nouter)
        text_printf(&t, "fuse %s -> plane\n", outer);
    text_printf(&t, "hold %s at zb -> acc reg\n", part);
    text_printf(&t, "run %s %s zr unroll\nrun %s vector\n", window, rows > 1 ? "yr" : "", lane);
    if (w->nouter) {
        text_printf(&t, "image %s at plane -> image\n", wr->p->k->part[0].nest->param[w->image.load->u.load.slot].name);
        if (filter)
            text_printf(&t, "stage %s at plane -> filter reg of %s\n", wr->p->k->part[0].nest->param[filter->u.load.slot].name, window);
        text_add(&t, "run plane parallel\n");
    } else {
        return;                              /* no planes: one image, and nothing to share out */
    }
    write_program(wr, &t);
}

bool
write_window(Draft *w)
{
    const Points *p = w->p;
    if (p->k->npart != 1)
        return false;
    Low low = low_part(w->c, w->a, p->k, p->m, &p->k->part[0]);
    Window win = { .w = w, .l = &low, .reduce = part_reduction(p, 0) };

    if (!recognise(&win))
        return false;
    const Part *part = &p->k->part[0];
    const char *name = p->k->buffer.at[part->buffer[part->nest->write[0].out]].name;
    int64_t lanes = low_lanes(&low, win.reduce->dtype), across = expr_or(low_extent(&low, win.image.slide[win.image.nslide - 1].axis), -1);
    while (lanes > 2 && across >= 0 && lanes / 2 >= across)
        lanes /= 2;
    for (int64_t vectors = 1; vectors <= 4; vectors *= 2)
        for (int64_t rows = 1; rows * vectors <= 8; rows *= 2) {
            if (vectors > 1 && (across < 0 || across < vectors * lanes))
                continue;                    /* what is left of a row has to be known to be written out */
            if (rows > 1 && expr_or(low_extent(&low, win.image.slide[win.image.nslide > 1 ? win.image.nslide - 2 : 0].axis), -1) < rows)
                continue;
            write_window_tile(&win, name, lanes, rows, vectors);
        }
    return w->program.n > 0;
}
