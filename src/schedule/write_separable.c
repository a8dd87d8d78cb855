/* write_separable: a contraction whose columns come from a window, such as a pointwise convolution
 * after a depthwise one.
 *
 * A task is some rows of pixels: the window is computed at it, for all channels, so the
 * contraction's operand is as large as the task and stays in a cache, in the order in which the
 * window writes it. The contraction reads it in place, once for each tile of its own rows (output
 * channels); columns are pixels, across the ends of rows.
 */
#include "schedule/gemm_axes.h"
#include "schedule/window.h"

typedef struct {
    Draft *w;
    Window window;
    GemmAxes gemm;
    const char *name; /* the result of the contraction */
    /* its columns, [cut.col_run]: pixels; tasks split the slowest axis */
    const uint32_t *col;
    int64_t nrows, ncols, down; /* of the contraction; of the column axis; -1: unknown */
    int64_t lanes;
    int64_t line_bytes; /* of the window's result, for one point of that axis */
} Separable;

/* The parameters of one program. */
typedef struct {
    int64_t height, rows, vectors;
    bool columns_outside;
    int64_t window_rows, window_vectors;
} SeparableTile;

/* ---- recognising ----------------------------------------------------------------------------- */

static bool
recognise(Separable *s)
{
    Draft *w = s->w;
    const Kernel *k = w->p->k;

    if (!is_pair(w))
        return false;
    const Nest *n = k->part[1].nest;
    Low *l = draft_low(w, 1);
    AxisSet shared = shared_axes(w, 1);
    if (!window_of(w, 0, &s->window) || !gemm_axes_of(l, &s->gemm) || s->gemm.windowed ||
        !s->gemm.nrow || !s->gemm.nsum)
        return false;
    const GemmAxes *gemm = &s->gemm;
    const Scalar *b = gemm->k.b;
    if (b->op != S_LOAD || b->u.load.outside ||
        k->part[1].buffer[b->u.load.slot] != k->part[0].buffer[k->part[0].nest->nin] ||
        dtype_info[b->dtype].bytes != 4)
        return false;
    /* Rows of pixels, after shared axes only; the window's planes are the contraction's sums. */
    if (s->window.image.slide[0].dim + s->window.image.nslide !=
        n->param[b->u.load.slot].type->rank)
        return false;
    s->col = gemm->col + gemm->ncol - gemm->col_run;
    for (uint32_t i = 0; i + 1 < gemm->col_run; i++)
        if (!low_collapses(l, s->col[i], s->col[i + 1], &gemm->k.b, 1, NULL))
            return false;
    for (uint32_t i = 0; i < gemm->nbatch + gemm->ncol - gemm->col_run; i++)
        if (!(shared >> (i < gemm->nbatch ? gemm->batch[i] : gemm->col[i - gemm->nbatch]) & 1))
            return false;
    s->name = part_name(w->p, 1);
    s->down = expr_or(n->axis[s->col[0]].extent, -1);
    s->nrows = expr_or(gemm->rows, -1);
    s->ncols = expr_or(gemm->cols, -1);
    s->lanes = machine_lanes(w->p->m, gemm->k.reduce->dtype);
    int64_t depth = expr_or(gemm->depth, -1);
    s->line_bytes = depth > 0 && s->down > 0 && s->ncols > 0
                        ? depth * (s->ncols / s->down) * (int64_t)sizeof(float)
                        : -1;
    return s->line_bytes > 0 && s->nrows > 0 && !(shared >> s->col[0] & 1);
}

/* ---- programs -------------------------------------------------------------------------------- */

static void
write_product(const Separable *s, const SeparableTile *x, Text *t)
{
    Draft *w = s->w;
    const GemmAxes *gemm = &s->gemm;
    const char *rows = axis_names(w, 1, gemm->row, gemm->nrow),
               *sums = axis_names(w, 1, gemm->sum, gemm->nsum),
               *last = axis_name(w, 1, gemm->sum[gemm->nsum - 1]);
    int64_t width = x->vectors * s->lanes;
    bool pads = s->ncols % width || s->ncols / s->down * x->height % width;

    if (gemm->nrow > 1)
        text_printf(t, "fuse %s -> i_\n", rows);
    text_printf(t, "split %s by %lld -> ip ir\n", gemm->nrow > 1 ? "i_" : rows, (long long)x->rows);
    if (gemm->col_run > 1)
        text_printf(t, "fuse yr %s -> j_\n", axis_names(w, 1, s->col + 1, gemm->col_run - 1));
    text_printf(t, "split %s by %lld -> jq jv%s\nsplit jv by %lld -> jr l\n",
                gemm->col_run > 1 ? "j_" : "yr", (long long)width, pads ? " pad" : "",
                (long long)s->lanes);
    text_printf(t, "order %s %s ir jr l\n", x->columns_outside ? "jq ip" : "ip jq", sums);
    if (pads)
        text_printf(t, "hold %s at %s -> sums scratch\n", s->name,
                    x->columns_outside ? "ip" : "jq");
    text_printf(t, "hold %s at %s -> acc reg\nrun ir jr unroll\nrun l vector\n%s", s->name,
                x->columns_outside ? "ip" : "jq", pads ? "run sums.fin.l vector\n" : "");
    text_printf(t, "stage %s.rhs at %s -> col reg of jr\n", s->name, last);
}

static const char *
lay_rows(const Separable *s, int64_t height)
{
    const GemmAxes *gemm = &s->gemm;
    const char *lines = gemm_layouts(s->w, 1, gemm->k.a, gemm_row_panels(gemm, height));

    return lines ? lines : "";
}

static void
write_tile(const Separable *s, const SeparableTile *x)
{
    Draft *w = s->w;
    const GemmAxes *gemm = &s->gemm;
    const Window *win = &s->window;
    Text t = { .arena = w->a };
    uint32_t plane[NEST_MAX_AXES], nplane = 0;

    for (uint32_t i = 0; i < win->nouter; i++)
        if (!(shared_axes(w, 0) >> win->outer[i] & 1))
            plane[nplane++] = win->outer[i];
    if (!nplane)
        return;
    text_add(&t, lay_rows(s, x->rows));
    text_printf(&t, "split %s by %lld -> yb yr guard\n", axis_name(w, 1, s->col[0]),
                (long long)x->height);
    text_printf(&t, "order yb %s yr %s\nput %s at yb\n", axis_names(w, 1, gemm->row, gemm->nrow),
                axis_names(w, 1, s->col + 1, gemm->col_run - 1), win->name);
    text_printf(&t, "fuse %s yb -> task\n", set_names(w, 1, shared_axes(w, 1)));
    write_product(s, x, &t);
    const char *loops = window_loops(win, &t, x->window_rows, x->window_vectors, false),
               *planes = axis_names(w, 0, plane, nplane);
    text_printf(&t, "order %s %s\n", planes, loops);
    window_runs(win, &t, x->window_rows, x->window_vectors, axis_name(w, 0, plane[nplane - 1]));
    text_add(&t, "run task parallel\n");
    write_program(w, &t);
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Columns that tiles of that width compute, including padding. */
static int64_t
summed_columns(const Separable *s, int64_t vectors, int64_t height)
{
    int64_t width = vectors * s->lanes, whole = s->down / height, line = s->ncols / s->down,
            rest = s->down % height;
    return (whole * ((height * line + width - 1) / width) + (rest * line + width - 1) / width) *
           width;
}

/* Of the window, besides one vector at a time. Bounds the list, prices decide: eight sums hide the
 * latency of each. */
enum { VECTORS = 4, MOST_ROWS = 8 };

/* Tiles have heights as even as possible. */
static void
write_height(const Separable *s, int64_t vectors, int64_t height)
{
    const Machine *m = s->w->p->m;
    const Window *win = &s->window;
    SeparableTile x = { .height = height,
                        .vectors = vectors,
                        .rows = even_height(s->nrows, tile_height(m, vectors)) };

    for (int outside = 0; outside < 2; outside++)
        /* of the window: a vector, several of a row, several of a column */
        for (int along = 0; along <= (outside ? 2 : 0); along++) {
            x.columns_outside = outside;
            x.window_vectors = along == 1 ? VECTORS : 1;
            x.window_rows = along == 2 ? height < MOST_ROWS ? MOST_ROWS / 2 : MOST_ROWS : 1;
            /* the number of register sums is known */
            bool known = x.window_rows == 1 || s->down % height == 0;
            if (known && window_fits(win, x.window_rows, x.window_vectors) &&
                x.window_rows <= height)
                write_tile(s, &x);
        }
}

bool
write_separable(Draft *w)
{
    Separable s = { .w = w };
    const Machine *m = w->p->m;
    int64_t before = 0;

    if (!recognise(&s))
        return false;
    /* Rows of pixels that keep the window's result in a cache; enough that most are not copied by
     * two tasks. */
    const Slide *slow = &s.window.image.slide[0];
    for (int64_t tasks = 1; tasks <= s.down; tasks *= 2) {
        int64_t height = (s.down + tasks - 1) / tasks;
        if (tasks > 1 && (slow->span - 1) / slow->stride > height / 2)
            break;
        if (height == before ||
            (tasks < s.down && height * s.line_bytes > m->level[LEVEL_L2].bytes))
            continue;
        before = height;
        int64_t wide = 2; /* the widest tile that is higher than wide */
        while (tile_height(m, wide + 1) > wide + 1)
            wide++;
        write_height(&s, 2, height);
        if (summed_columns(&s, wide, height) < summed_columns(&s, 2, height))
            write_height(&s, wide, height);
    }
    return w->program.n > 0;
}
