/* gemm_axes: which axes of a contraction are rows, columns and sums, which of them are contiguous,
 * and the formats of constant operands. */
#include "cost/cost.h"
#include "schedule/gemm_axes.h"

#include <math.h>
#include <string.h>

/* Parallel axes in the order of write 0's dimensions. */
static uint32_t
in_write_order(const Nest *n, AxisSet set, uint32_t *axis)
{
    const Write *w = &n->write[0];
    uint32_t count = 0;

    for (uint32_t d = 0; d < n->param[w->out].type->rank; d++)
        if (set & axis_bit(w->at[d]))
            axis[count++] = axis_of(w->at[d]);
    return count;
}

static const Scalar *
bare_load(const Scalar *s)
{
    return s->op == S_LOAD ? s : NULL;
}

/* Write 0's value with the reduction replaced by a constant: what the epilogue reads. */
static const Scalar *
epilogue_only(Low *l, const Scalar *reduce)
{
    return scalar_replace(l->c, l->n->write[0].value, reduce,
                          scalar_number(l->c, reduce->dtype, 0));
}

/* The number of innermost axes of the list that form one axis in memory, for the write, the
 * epilogue's reads and (if given) an operand. */
static uint32_t
collapse_run(Low *l, const uint32_t *axis, uint32_t n, const Scalar *operand, const Scalar *reduce)
{
    uint32_t run = n > 0;
    const Scalar *value[2] = { epilogue_only(l, reduce), operand };

    while (run < n && low_collapses(l, axis[n - run - 1], axis[n - run], value, operand ? 2 : 1,
                                    &l->n->write[0]))
        run++;
    return run;
}

/* ---- formats of constant operands ------------------------------------------------------------ */

/* One axis as a digit of one dimension's index: (index // step) % extent. */
typedef struct {
    uint32_t dim;
    int64_t step;
    int64_t extent;
    bool top;
} AxisDigit;

/* Is the read's index in every dimension a number with the read's axes as digits, each axis used
 * once? 64*h + d is; y + r is not. Dimensions of one element at 0 have no digits. */
static bool
read_digits(Ctx *c, const Nest *n, const Scalar *load, AxisDigit *digit, AxisSet *used)
{
    const Type *t = n->param[load->u.load.slot].type;

    *used = 0;
    for (uint32_t d = 0; d < load->u.load.rank; d++) {
        const Expr *rest = load->u.load.at[d], *coef, *next;
        int64_t step = 1, extent;
        AxisSet here = expr_axes(rest);
        uint32_t last = NEST_MAX_AXES;
        if ((here & *used) || expr_uses_kind(rest, VAR_COMPUTED))
            return false;
        *used |= here;
        /* the axis whose coefficient is the current step */
        while (here) {
            uint32_t x = 0;
            while (x < NEST_MAX_AXES &&
                   !(here >> x & 1 && expr_linear(c, rest, (Var){ VAR_AXIS, x }, &coef, &next) &&
                     expr_is(coef, step)))
                x++;
            if (x == NEST_MAX_AXES)
                return false;
            rest = next;
            here &= ~((AxisSet)1 << x);
            last = x;
            digit[x] = (AxisDigit){ d, step, expr_or(n->axis[x].extent, 0), here == 0 };
            if (here &&
                (!expr_const(n->axis[x].extent, &extent) || mul_overflows(step, extent, &step)))
                return false;
        }
        if (!expr_is(rest, 0))
            return false;
        const Expr *whole = last == NEST_MAX_AXES
                                ? expr_int(c, 1)
                                : expr_scale(c, n->axis[last].extent, digit[last].step);
        if (expr_eq(c, NULL, whole, t->dim[d]) != YES)
            return false;
    }
    return true;
}

static FormatPart
digit_part(AxisDigit d)
{
    return (FormatPart){ (uint8_t)d.dim, d.step, d.top ? 0 : d.extent };
}

Panels
gemm_panels(const GemmAxes *gemm, bool rows, int64_t width)
{
    return (Panels){ .axis = rows ? gemm->row : gemm->col,
                     .sum = gemm->sum,
                     .naxis = rows ? gemm->nrow : gemm->ncol,
                     .run = rows ? gemm->row_run : gemm->col_run,
                     .nsum = gemm->nsum,
                     .width = width };
}

static AxisSet
index_axes(const Panels *p)
{
    AxisSet set = 0;
    for (uint32_t i = p->naxis - p->run; i < p->naxis; i++)
        set |= (AxisSet)1 << p->axis[i];
    return set;
}

static const Format *
panels_of(Ctx *c, const Nest *n, const Scalar *load, const Panels *p)
{
    AxisDigit digit[NEST_MAX_AXES];
    AxisSet used, sum = 0, index = index_axes(p);
    uint32_t np = 0;
    int64_t extent = 1, width = p->width;

    if (p->run == 0 || load->u.load.outside || !read_digits(c, n, load, digit, &used))
        return NULL;
    for (uint32_t i = 0; i < p->nsum; i++)
        sum |= (AxisSet)1 << p->sum[i];
    /* The axes of the index are adjacent digits of one dimension. */
    uint32_t first = p->naxis - p->run;
    AxisDigit inner = digit[p->axis[p->naxis - 1]], outer = digit[p->axis[first]];
    if (index & ~used)
        return NULL;
    for (uint32_t i = p->naxis; i-- > first;) {
        AxisDigit d = digit[p->axis[i]];
        if (d.dim != inner.dim || d.step != inner.step * extent || (d.extent == 0 && i > first))
            return NULL;
        extent *= d.extent;
    }
    if ((sum & ~used) || extent == 1 || (!outer.top && extent % width))
        return NULL;
    FormatPart *part = NEW_ARRAY(c->arena, FormatPart, NEST_MAX_AXES + 2);
    for (uint32_t x = 0; x < NEST_MAX_AXES; x++)
        if (used >> x & 1 && !((sum | index) >> x & 1))
            part[np++] = digit_part(digit[x]);
    /* a single panel is no digit: for another kernel, the axes around the panel and in it may be
     * one digit */
    if (outer.top || extent != width)
        part[np++] =
            (FormatPart){ (uint8_t)inner.dim, inner.step * width, outer.top ? 0 : extent / width };
    for (uint32_t i = 0; i < p->nsum; i++)
        part[np++] = digit_part(digit[p->sum[i]]);
    part[np++] = (FormatPart){ (uint8_t)inner.dim, inner.step, width };
    if (np > TN_MAX_RANK)
        return NULL;
    Format *f = NEW(c->arena, Format);
    *f = (Format){ np, part };
    return f;
}

typedef struct {
    const Draft *w;
    const Part *part;
    Panels panels;
    Text text;
    uint64_t laid; /* slots */
    bool ok;
} PanelLayouts;

static bool
is_known(void *user, uint32_t slot)
{
    const PanelLayouts *l = user;
    uint32_t buffer = l->part->buffer[slot];
    return buffer < l->w->p->k->nin && l->w->constant[buffer];
}

/* A read that does not vary within a tile keeps its layout. */
static void
lay_read(PanelLayouts *l, const Scalar *s)
{
    uint32_t sum[NEST_MAX_AXES], nsum = 0, slot = s->u.load.slot;
    Panels read = l->panels;

    if (!(s->axes & index_axes(&read)) || !l->ok)
        return;
    for (uint32_t i = 0; i < read.nsum; i++)
        if (s->axes >> read.sum[i] & 1)
            sum[nsum++] = read.sum[i];
    read.sum = sum;
    read.nsum = nsum;
    const Format *f = panels_of(l->w->c, l->part->nest, s, &read);
    l->ok = f && slot < 64 && !(l->laid >> slot & 1);
    if (!l->ok)
        return;
    l->laid |= (uint64_t)1 << slot;
    text_printf(&l->text, "lay %s as ", l->w->p->k->buffer.at[l->part->buffer[slot]].name);
    format_print(&l->text, f);
    text_add(&l->text, "\n");
}

const char *
gemm_layouts(const Draft *w, uint32_t part, const Scalar *factor, Panels panels)
{
    PanelLayouts l = { .w = w,
                       .part = &w->p->k->part[part],
                       .panels = panels,
                       .text = { .arena = w->a },
                       .ok = true };

    if (!nest_constant_read(w->c, factor, is_known, &l))
        return NULL;
    FOR_EACH_SCALAR (load, scalar_loads(w->c, factor))
        lay_read(&l, load);
    return l.ok && l.laid ? text_str(&l.text) : NULL;
}

/* Does the first column axis number separate images: it slides under no window, and its dimension
 * is not adjacent to the second axis's? */
static bool
has_own_image(const InputTile *s)
{
    return s->nslide > 1 && s->slide[0].span == 1 && s->slide[0].stride == 1 &&
           s->slide[0].dim + 1 != s->slide[1].dim;
}

/* The columns are points of an image if the axes that slide are exactly the collapsed column index.
 * Windows that do not overlap read every element once: then panels, which are contiguous, may be
 * better. Samples that share one collapsed index of outputs, as those of one channel do, have
 * separate images. */
static void
columns_slide(Low *l, GemmAxes *gemm)
{
    const Scalar *b = gemm->k.b;
    uint32_t run = gemm->col_run;
    const InputTile *s = &gemm->window;
    AxisSet wanted = 0;
    bool slides, shifts = false, strides = false;

    for (uint32_t i = gemm->ncol - run; i < gemm->ncol; i++)
        wanted |= (AxisSet)1 << gemm->col[i];
    if (b->dtype != gemm->k.reduce->dtype)
        return;
    while (
        (slides = input_tile_recognise(
             l, b, (InputTileAxes){ .sum = gemm->k.sum, .wanted = wanted, .fixed = gemm->k.batch },
             &gemm->window)) &&
        has_own_image(s) && s->slide[0].axis == gemm->col[gemm->ncol - run])
        wanted &= ~((AxisSet)1 << gemm->col[gemm->ncol - run--]);
    if (!slides || s->nslide != run)
        return;
    for (uint32_t i = 0; i < s->nslide; i++) {
        if (s->slide[i].axis != gemm->col[gemm->ncol - run + i])
            return;
        shifts |= s->slide[i].span > s->slide[i].stride;
        strides |= s->slide[i].stride > 1;
    }
    gemm->windowed = shifts;
    gemm->strided = strides && !shifts;
    if (shifts && run < gemm->col_run) {
        gemm->col_run = run;
        gemm->cols = axes_product(l, gemm->col + gemm->ncol - run, run);
    }
}

/* Is the axis a digit of the index, with a step that the rest stays below: n of 128*n + k with k <
 * 128? */
static bool
is_digit(Ctx *c, const Ranges *known, const Expr *at, uint32_t axis)
{
    const Expr *step, *rest;
    int64_t n;

    if (!expr_linear(c, at, (Var){ VAR_AXIS, axis }, &step, &rest) || !expr_const(step, &n))
        return false;
    Interval r = expr_bounds(c, known, rest);
    return r.lo >= 0 && r.hi < n;
}

/* Do the columns' reads slide, also under conversions? */
static bool
columns_read_windows(Low *l, const GemmAxes *gemm)
{
    Ranges known = nest_ranges(l->c, l->a, l->n);

    FOR_EACH_SCALAR (load, scalar_loads(l->c, gemm->k.b))
        for (uint32_t d = 0; d < load->u.load.rank; d++) {
            const Expr *at = load->u.load.at[d];
            AxisSet here = expr_axes(at), cols = here & gemm->k.col;
            for (uint32_t x = 0; here & gemm->k.sum && x < NEST_MAX_AXES; x++)
                if (cols >> x & 1 && !is_digit(l->c, &known, at, x))
                    return true;
        }
    return false;
}

/* The rows are points of an image if the channels are columns, or parallel. The image's own
 * channels stay adjacent if they are. */
static void
rows_slide(Low *l, GemmAxes *gemm)
{
    const Scalar *a = bare_load(gemm->k.a);
    AxisSet inner = 0;

    if (!a || a->dtype != gemm->k.reduce->dtype)
        return;
    for (uint32_t d = a->u.load.rank, x;
         d-- > 0 && (x = input_tile_inner(l, a, d, gemm->k.batch)) != NO_SLOT &&
         gemm->k.sum >> x & 1;)
        inner |= (AxisSet)1 << x;
    if (!input_tile_recognise(
            l, a, (InputTileAxes){ .sum = gemm->k.sum, .fixed = gemm->k.batch, .inner = inner },
            &gemm->row_window))
        return;
    for (uint32_t i = 0; i < gemm->row_window.nslide; i++)
        gemm->rows_windowed |= gemm->row_window.slide[i].span > 1;
}

/* The innermost dimension of a read that varies with the axis; -1: none, or the operand is
 * computed. */
static int
dimension_of(const Scalar *s, uint32_t axis)
{
    for (uint32_t d = s->op == S_LOAD ? s->u.load.rank : 0; d-- > 0;)
        if (expr_axes(s->u.load.at[d]) >> axis & 1)
            return (int)d;
    return -1;
}

AxisSet
gemm_unread_sums(Low *l, const Contraction *k)
{
    AxisSet read = 0;

    FOR_EACH_SCALAR (load, scalar_loads(l->c, k->b))
        read |= load->axes;
    return k->sum & ~read;
}

/* The number of a factor's reads that vary with the axis. */
static uint32_t
reads_along(Low *l, const Scalar *factor, uint32_t axis)
{
    uint32_t n = 0;

    FOR_EACH_SCALAR (load, scalar_loads(l->c, factor))
        n += load->axes >> axis & 1;
    return n;
}

static bool
is_before(Low *l, const Contraction *k, const Scalar *slides, uint32_t x, uint32_t y)
{
    uint32_t n = reads_along(l, k->b, x), m = reads_along(l, k->b, y);

    return n != m ? n > m : slides && dimension_of(slides, x) < dimension_of(slides, y);
}

/* Sums in the memory order of the operand that slides, contiguous ones innermost: channels inside
 * the window if they are last in memory, the window inside channels if those are first. Other
 * operands keep the nest's order. But sums that fewer of the columns' reads vary with are inside of
 * those that more vary with: elements of a group inside of groups, elements that share a read
 * last. */
static uint32_t
sums_in_memory_order(Low *l, const Contraction *k, uint32_t *sum)
{
    const Scalar *slides = NULL, *operand[2] = { k->a, k->b };
    AxisSet parallel = nest_axes_of_kind(l->n, AXIS_PARALLEL);
    uint32_t n = axis_list(k->sum, sum);

    for (int i = 0; i < 2; i++)
        for (uint32_t d = 0; operand[i]->op == S_LOAD && d < operand[i]->u.load.rank; d++) {
            AxisSet here = expr_axes(operand[i]->u.load.at[d]);
            if ((here & k->sum) && (here & parallel))
                slides = operand[i];
        }
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = i; j > 0 && is_before(l, k, slides, sum[j], sum[j - 1]); j--) {
            uint32_t t = sum[j];
            sum[j] = sum[j - 1];
            sum[j - 1] = t;
        }
    return n;
}

/* Tiles run along the innermost rows. If rows do not collapse and their extents are symbolic, the
 * innermost axis is the one that is innermost where rows are read: steps of a sequence, which an
 * output may have outside of a batch of one. */
static void
rows_as_read(Low *l, GemmAxes *gemm)
{
    uint32_t n = gemm->nrow, last = n;

    for (uint32_t i = 0; i < n; i++) {
        if (expr_const(low_extent(l, gemm->row[i]), NULL))
            return;
        if (last == n ||
            dimension_of(gemm->k.a, gemm->row[i]) > dimension_of(gemm->k.a, gemm->row[last]))
            last = i;
    }
    if (n < 2 || dimension_of(gemm->k.a, gemm->row[last]) < 0)
        return;
    uint32_t x = gemm->row[last];
    memmove(gemm->row + last, gemm->row + last + 1, (n - 1 - last) * sizeof *gemm->row);
    gemm->row[n - 1] = x;
}

bool
gemm_axes_of(Low *l, GemmAxes *out)
{
    Ctx *c = l->c;
    const Nest *n = l->n;
    Contraction *k = &out->k;
    GemmAxes gemm = { 0 };

    if (n->nwrite != 1 || n->write[0].combiner != COMB_NONE || !nest_contraction(c, n, &gemm.k))
        return false;
    *out = gemm;
    for (uint32_t x = 0; x < n->naxis; x++)
        if (n->axis[x].kind == AXIS_SCAN || axis_varies(&n->axis[x]))
            return false;
    /* A contraction without column axes is a depthwise window or a dot product, for other writers.
     * So is one with an axis that neither operand uses (the reduction is repeated along it). */
    AxisSet parallel = nest_axes_of_kind(n, AXIS_PARALLEL);
    if (!k->col || (parallel & ~(k->batch | k->row | k->col)))
        return false;
    out->nrow = in_write_order(n, k->row, out->row);
    out->ncol = in_write_order(n, k->col, out->col);
    out->nbatch = in_write_order(n, k->batch, out->batch);
    out->nsum = sums_in_memory_order(l, k, out->sum);
    if (out->ncol == 0 ||
        out->nrow + out->ncol + out->nbatch != (uint32_t)__builtin_popcountll(parallel))
        return false;
    const Scalar *a = bare_load(k->a);
    out->row_run =
        collapse_run(l, out->row, out->nrow, a && !a->u.load.outside ? a : NULL, k->reduce);
    if (out->row_run < out->nrow) {
        rows_as_read(l, out);
        out->row_run =
            collapse_run(l, out->row, out->nrow, a && !a->u.load.outside ? a : NULL, k->reduce);
    }
    out->col_run = collapse_run(l, out->col, out->ncol, NULL, k->reduce);
    out->rows = axes_product(l, out->row + out->nrow - out->row_run, out->row_run);
    out->cols = axes_product(l, out->col + out->ncol - out->col_run, out->col_run);
    out->depth = axes_product(l, out->sum, out->nsum);
    columns_slide(l, out);
    if (!out->windowed)
        rows_slide(l, out);
    /* One row under a window that is no image: depthwise, whichever factor is first. */
    if (out->nrow == 0 && !out->windowed && columns_read_windows(l, out))
        return false;
    return true;
}

bool
gemm_rows_linear(Low *l, const GemmAxes *gemm)
{
    const Scalar *a = gemm->k.a;

    if (a->op != S_LOAD || a->u.load.outside)
        return false;
    for (uint32_t i = 0; i < gemm->nsum; i++)
        if (!low_stride(l, a, gemm->sum[i]))
            return false;
    return true;
}

const Scalar *
gemm_only_read(const Scalar *s)
{
    for (uint32_t i = 0; s->op == S_MUL && i < 2; i++)
        if (s->arg[i]->op == S_CONST)
            return gemm_only_read(s->arg[1 - i]);
    return s->op == S_LOAD && !s->u.load.outside ? s : NULL;
}

bool
gemm_is_contiguous(Low *l, const Scalar *factor, uint32_t axis)
{
    const Scalar *read = gemm_only_read(factor);
    const Expr *stride = read ? low_stride(l, read, axis) : NULL;

    return stride && expr_is(stride, 1);
}

/* ---- register tiles -------------------------------------------------------------------------- */

/* Cycles of a step of the sum over all tiles: multiply-adds and loads, which delay each other more
 * the closer their times are, or the latency of too few accumulators. A row of columns is loaded
 * again for each of one or two rows (see cost/basic_block.c). The ceilings include partial tiles;
 * unknown sizes count per unit of length. */
static double
step_cycles(const Machine *m, int64_t nrows, int64_t ncols, int64_t lanes, double column_loads,
            int64_t rows, int64_t vectors)
{
    double columns = (double)((rows > 2 ? 1 : rows) * vectors) * column_loads;
    double fma = (double)(rows * vectors) / m->fma_per_cycle,
           splats = vectors == 1 ? m->splat_per_cycle : m->load_per_cycle,
           loads = (double)rows / splats + columns / m->load_per_cycle;
    double most = machine_together(fma, loads, 2);
    double down = nrows < 0 ? 1.0 / (double)rows : (double)((nrows + rows - 1) / rows);
    double across = ncols < 0 ? 1.0 / (double)(vectors * lanes)
                              : (double)((ncols + vectors * lanes - 1) / (vectors * lanes));

    return down * across * (most > m->fma_cycles ? most : m->fma_cycles);
}

static void
keep_shape(TileShape *best, TileShape s)
{
    for (int i = 0; i < TILE_SHAPES; i++)
        if (best[i].rows == 0 || s.cycles < best[i].cycles) {
            memmove(best + i + 1, best + i, (size_t)(TILE_SHAPES - 1 - i) * sizeof *best);
            best[i] = s;
            return;
        }
}

void
gemm_tile_shapes(const Machine *m, int64_t nrows, int64_t ncols, int64_t lanes, double column_loads,
                 TileShape *best)
{
    int64_t registers = m->vector_registers;

    memset(best, 0, TILE_SHAPES * sizeof *best);
    for (int64_t vectors = 1; vectors <= WIDEST_PANEL; vectors++)
        for (int64_t rows = (registers - vectors - 1) / vectors; rows >= 1; rows--) {
            if (nrows >= 0 && rows > 1 &&
                (nrows + rows - 1) / rows == (nrows + rows - 2) / (rows - 1))
                continue; /* one row less gives the same number of tiles */
            keep_shape(best, (TileShape){ rows, vectors,
                                          step_cycles(m, nrows, ncols, lanes, column_loads, rows,
                                                      vectors) });
        }
}

double
gemm_unaligned_loads(const Machine *m, DType t)
{
    return 1 + (double)(m->vector_bytes - dtype_info[t].bytes) / (double)m->line_bytes;
}

int64_t
gemm_prefetch_distance(const Machine *m, DType t, TileShape s, int64_t depth, int64_t inner)
{
    int64_t lanes = machine_lanes(m, t), row = s.vectors * lanes * dtype_info[t].bytes;
    /* seconds */
    double trip = (double)(2 * s.rows * s.vectors * lanes) / m->f32_per_second;
    /* multiply-adds, broadcasts, loads, fetches */
    double instructions = (double)(s.rows * s.vectors + s.rows + 2 * s.vectors);
    int64_t trips =
        (int64_t)ceil(m->window / instructions + m->level[LEVEL_L2].latency_seconds / trip);

    return (depth >= 0 && depth * row <= machine_block_bytes(m, LEVEL_L1)) ||
                   (inner >= 0 && inner < trips)
               ? 0
               : trips;
}

int64_t
gemm_memory_prefetch_distance(const Machine *m, int64_t trip_bytes)
{
    const MemoryLevel *memory = &m->level[LEVEL_MEMORY];

    return (int64_t)ceil(2 * memory->latency_seconds * memory->one.read / (double)trip_bytes);
}
