/* write_gemv: GEMV and skinny GEMM, as fast as the constant operand is read once.
 *
 * With few rows a tile of the usual height has too few accumulators to hide their latency, and the
 * rate of reading B decides. So several panels of columns are summed concurrently, as many as the
 * registers hold: B is read in as many streams, each sequential, and panels are as wide as tiles of
 * many rows need them, so that one layout of a constant serves both. The scales of a low-precision
 * constant multiply the sums of the elements that share them. If a word has several elements,
 * unpacking them hides the latency in one wide panel, and panels may follow each other in one
 * stream.
 *
 * If a contraction stores its output transposed, the columns here are rows to the tiles of many: a
 * constant packed for those has panels as narrow as such a tile is high, and a vector of it has
 * that many lanes.
 */
#include "schedule/gemm_axes.h"

typedef struct {
    Draft *w;
    Low *l;
    GemmAxes gemm;
    int64_t lanes, rows, cols;
    /* rows are read beyond their ends, into padding: each task copies them with it */
    bool copied;
    /* iterations of the innermost sum share one read of the constant */
    bool shared;
} Gemv;

/* The loop in which all summands of a column share a factor, such as the scale of a group: the
 * innermost sum that the factor varies with. NULL: none. */
static const char *
shared_factor(const Gemv *g)
{
    const GemmAxes *gemm = &g->gemm;
    const Scalar *b = gemm->k.b;

    for (uint32_t i = 0; b->op == S_MUL && i < 2; i++) {
        uint32_t last = gemm->nsum; /* sums from here on do not change it */
        while (last > 0 && !(b->arg[i]->axes >> gemm->sum[last - 1] & 1))
            last--;
        if (last < gemm->nsum && b->arg[1 - i]->axes >> gemm->sum[last] & 1)
            return last ? axis_name(g->w, 0, gemm->sum[last - 1]) : "task";
    }
    return NULL;
}

static void
write_panels(const Gemv *g, const char *part, int64_t width, int64_t panels, const char *factored)
{
    Draft *w = g->w;
    const GemmAxes *gemm = &g->gemm;
    Text t = { .arena = w->a };
    const char *lay = gemm_layouts(w, 0, gemm->k.b, gemm_panels(gemm, false, width));
    const char *rows = axis_names(w, 0, gemm->row, gemm->nrow);
    const char *batch = axis_names(w, 0, gemm->batch, gemm->nbatch),
               *outer = axis_names(w, 0, gemm->col, gemm->ncol - gemm->col_run);
    const char *cols = axis_names(w, 0, gemm->col + gemm->ncol - gemm->col_run, gemm->col_run),
               *sums = axis_names(w, 0, gemm->sum, gemm->nsum);
    /* Elements that share a read are unrolled, one for all vectors before the next: each adds to
     * the same accumulators. */
    const char *each = g->shared ? axis_name(w, 0, gemm->sum[gemm->nsum - 1]) : "",
               *walked = axis_names(w, 0, gemm->sum, gemm->nsum - g->shared);

    if (!lay)
        return;
    text_printf(&t, "%sorder %s %s %s %s %s\nfuse %s -> j_\n", lay, batch, outer, rows, cols, sums,
                cols);
    text_printf(&t,
                "split j_ by %lld -> jp jv exact\nsplit jv by %lld -> jr l%s\nsplit jp by %lld -> "
                "jt jq exact\n",
                (long long)width, (long long)g->lanes, width % g->lanes ? "" : " exact",
                (long long)panels);
    text_printf(&t, "order %s %s jt %s %s %s jq jr l\nfuse %s %s jt -> task\n", batch, outer,
                walked, each, rows, batch, outer);
    if (factored)
        text_printf(&t, "hold %s at task -> sums scratch\nhold %s at %s -> acc reg factored\n",
                    part, part, factored);
    else
        text_printf(&t, "hold %s at task -> acc reg\n", part);
    text_printf(&t, "run %s jq jr %s unroll\nrun l vector\n", rows, each);
    if (factored)
        text_add(&t, "run sums.init.l sums.fin.l vector\n");
    if (g->copied)
        text_printf(&t,
                    "stage lhs at task -> rows scratch of %s %s odd\nsplit rows.%s by %lld -> av "
                    "al\nrun rows.al vector\n",
                    rows, sums, axis_name(w, 0, gemm->sum[gemm->nsum - 1]), (long long)g->lanes);
    /* a row of columns is loaded once for all rows */
    if (g->rows > 1)
        text_printf(&t, "stage rhs at %s -> col reg of jq jr\n",
                    axis_name(w, 0, gemm->sum[gemm->nsum - 1]));
    text_add(&t, "run task parallel\n");
    write_program(w, &t);
}

/* Unpacking a vector of elements that share words takes a shift, a look-up and the multiply-add, of
 * which at most two start per cycle with vectors of 512 bits; shorter vectors have no such look-up
 * and take more instructions. It reads at most half a byte a lane. */
enum { ELEMENT_CODE = 3, STARTED = 2, SHARING = 2 };

/* Is a panel best read alone, in one stream? Yes if unpacking hides the latency of its sums, and
 * takes longer than memory takes to deliver one stream: 576 x 1,536 elements of four bits in panels
 * of three vectors take 31 us on a Zen 4 core so, and 39 in eight streams, which are prefetched
 * less well. If memory is slower, several streams may be faster, so both are listed. */
static bool
is_alone(const Gemv *g, int64_t vectors)
{
    const Machine *m = g->w->p->m;
    double cycles = (double)ELEMENT_CODE / STARTED,
           brought = (double)g->lanes / SHARING / m->stretch_per_second;

    return g->shared && (double)vectors * cycles >= m->fma_cycles &&
           cycles * m->cycle_seconds >= brought;
}

/* Panels of one width: concurrent ones, as many as registers hold, and few enough that each core
 * has a task; and one after the other, in one stream. */
/* widths with several concurrent panels; bounds the list: narrower ones are tried if these leave a
 * core idle */
enum { WIDEST_FIRST = 2 };

static void
write_width(const Gemv *g, const char *part, int64_t width, const char *factored)
{
    const Machine *m = g->w->p->m;
    int64_t vectors = (width + g->lanes - 1) / g->lanes, found = 0,
            room = (int64_t)m->vector_registers - 2, tasks = 0;

    for (int64_t panels = is_alone(g, vectors) ? 1 : room / vectors; panels > 0; panels--) {
        int64_t used = panels * vectors * (g->rows + (g->rows > 1));
        bool enough = found >= WIDEST_FIRST && tasks >= m->cores;
        if (used > room || g->cols % (panels * width) || (enough && panels > 1))
            continue;
        write_panels(g, part, width, panels, NULL);
        if (factored)
            write_panels(g, part, width, panels, factored);
        tasks = g->cols / (panels * width);
        found++;
    }
}

/* The width of the panels of the constant's given layout if it is no multiple of vectors; otherwise
 * 0. */
static int64_t
width_given(const Gemv *g)
{
    const GemmAxes *gemm = &g->gemm;

    for (int64_t width = 2; g->w->like && width < (int64_t)g->w->p->m->vector_registers; width++) {
        const char *lay = gemm_layouts(g->w, 0, gemm->k.b, gemm_panels(gemm, false, width));
        if (lay && schedule_lays_alike(lay, g->w->like))
            return width % g->lanes ? width : 0;
    }
    return 0;
}

void
write_gemv(Draft *w)
{
    const Points *p = w->p;
    if (p->k->npart != 1)
        return;
    Low *l = draft_low(w, 0);
    Gemv g = { .w = w, .l = l };

    if (!gemm_axes_of(l, &g.gemm) || g.gemm.windowed || !g.gemm.nsum || g.gemm.k.a->op != S_LOAD)
        return;
    g.copied = g.gemm.k.a->u.load.outside != NULL;
    const char *name = part_name(p, 0);
    g.lanes = machine_lanes(p->m, g.gemm.k.reduce->dtype);
    g.rows = expr_or(axes_product(l, g.gemm.row, g.gemm.nrow), -1);
    g.cols = expr_or(g.gemm.cols, -1);
    /* With more rows, a tile of one panel has enough accumulators. */
    if (g.rows < 1 || g.cols < 1 || g.rows > vectors_in_flight(p->m))
        return;
    g.shared = g.gemm.nsum > 1 && gemm_unread_sums(l, &g.gemm.k) >> g.gemm.sum[g.gemm.nsum - 1] & 1;
    const char *factored = g.rows == 1 ? shared_factor(&g) : NULL;
    int64_t given = width_given(&g);
    uint32_t before = w->program.n;
    for (int64_t vectors = 1; vectors <= WIDEST_PANEL; vectors++)
        if (is_alone(&g, vectors))
            write_width(&g, name, vectors * g.lanes, factored);
    for (int64_t vectors = 1; vectors <= WIDEST_PANEL && (w->like || w->program.n == before);
         vectors++)
        if (!is_alone(&g, vectors))
            write_width(&g, name, vectors * g.lanes, factored);
    if (given)
        write_width(&g, name, given, factored);
}
