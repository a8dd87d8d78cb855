/* write_scaled: sums over groups of a contraction's results times scales: integer contractions with
 * a scale for each group of summands.
 *
 *     t[i, j, g] = sum k: q[i, g, k] * n[g, k, j]
 *     o[i, j]    = sum g: f32(t[i, j, g]) * (r[i, g] * s[g, j])
 *
 * A task is a panel of columns and some rows, of all matrices with the same operand. A tile of both
 * accumulates in registers as floats; for each group the contraction of the tile accumulates beside
 * it as integers, computed at it, and is added from L1, so t is never stored as a whole. The
 * constants of both are packed in panels.
 */
#include "schedule/gemm_axes.h"

typedef struct {
    Draft *w;
    Low *l;
    GemmAxes gemm;              /* of the contraction */
    const Scalar *factor;       /* the factor of the contraction that varies with the columns */
    const char *product, *name; /* the results of the parts */
    /* the contraction's axes: those of that factor, columns last … */
    uint32_t side[NEST_MAX_AXES], nside;
    /* … the last one of the other factor, NO_SLOT: none; groups … */
    uint32_t row, group;
    /* … and other shared ones, which the columns' factor varies with, or not */
    uint32_t outer[NEST_MAX_AXES], nouter, around[NEST_MAX_AXES], naround;
    uint32_t column, sum;         /* of the summing part: its columns and groups */
    int64_t lanes, columns, rows; /* rows: -1: unknown */
} Scaled;

enum { LEAST_LANES = 4 }; /* of 16 bytes, the shortest vector that targets have */

/* ---- recognising ----------------------------------------------------------------------------- */

/* The summing part has one sum, over one axis, and only shared outputs. */
static bool
find_sum(Scaled *s)
{
    const Scalar *reduce = part_reduction(s->w->p, 1);
    uint32_t sum[NEST_MAX_AXES], shared[NEST_MAX_AXES];

    if (!reduce || reduce->narg != 1 || reduce->u.reduce.combiner != COMB_SUM ||
        own_axes(s->w, 1) || axis_list(reduce->u.reduce.axes, sum) != 1)
        return false;
    s->sum = sum[0];
    s->column = shared[axis_list(shared_axes(s->w, 1), shared) - 1];
    return true;
}

/* Is the contraction's last shared axis its columns, and its only other axis its groups? */
static bool
find_axes(Scaled *s)
{
    const GemmAxes *gemm = &s->gemm;
    uint32_t own[NEST_MAX_AXES], shared[NEST_MAX_AXES];
    uint32_t nshared = axis_list(shared_axes(s->w, 0), shared);

    if (axis_list(own_axes(s->w, 0), own) != 1)
        return false;
    s->group = own[0];
    uint32_t column = shared[nshared - 1];
    bool rows = in_list(gemm->row, gemm->nrow, column);
    if (!(rows || in_list(gemm->col, gemm->ncol, column)))
        return false;
    s->factor = rows ? gemm->k.a : gemm->k.b;
    const uint32_t *side = rows ? gemm->row : gemm->col, *other = rows ? gemm->col : gemm->row,
                   nother = rows ? gemm->ncol : gemm->nrow;
    for (uint32_t i = 0; i < (rows ? gemm->nrow : gemm->ncol); i++)
        if (side[i] != column)
            s->side[s->nside++] = side[i];
    s->side[s->nside++] = column;
    s->row = NO_SLOT;
    for (uint32_t i = 0; i + 1 < nshared; i++)
        s->row = in_list(other, nother, shared[i]) ? shared[i] : s->row;
    for (uint32_t i = 0; i + 1 < nshared; i++)
        if (s->factor->axes >> shared[i] & 1)
            s->outer[s->nouter++] = shared[i];
        else if (shared[i] != s->row)
            s->around[s->naround++] = shared[i];
    return true;
}

static bool
recognise(Scaled *s)
{
    Draft *w = s->w;
    Kernel *k = w->p->k;
    const Nest *made = k->part[0].nest;

    if (!is_pair(w))
        return false;
    s->l = draft_low(w, 0);
    if (!gemm_axes_of(s->l, &s->gemm) || !s->gemm.nsum || s->gemm.windowed ||
        s->gemm.rows_windowed || !find_sum(s) || !find_axes(s))
        return false;
    s->product = part_name(w->p, 0);
    s->name = part_name(w->p, 1);
    s->lanes = machine_lanes(w->p->m, s->gemm.k.reduce->dtype);
    s->columns = expr_or(made->axis[s->side[s->nside - 1]].extent, -1);
    /* boxes of a partial panel have no constant extent */
    while (s->lanes > LEAST_LANES && s->columns % s->lanes)
        s->lanes /= 2;
    s->rows = s->row == NO_SLOT ? 1 : expr_or(made->axis[s->row].extent, -1);
    return s->columns >= s->lanes && s->columns % s->lanes == 0;
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Packs the scales' constants among the factors in panels like the contraction's. */
static void
lay_scales(const Scaled *s, const Scalar *factor, int64_t width, Text *t)
{
    const char *lay = gemm_layouts(
        s->w, 1, factor,
        (Panels){
            .axis = &s->column, .naxis = 1, .run = 1, .sum = &s->sum, .nsum = 1, .width = width });

    if (lay)
        text_add(t, lay);
    else if (factor->op == S_MUL)
        for (int i = 0; i < 2; i++)
            lay_scales(s, factor->arg[i], width, t);
}

/* The unrolled sums, innermost first, with at most this many iterations. Bounds code, as
 * GEMM_MOST_UNROLLED. */
static const char *
written_out(const Scaled *s)
{
    const GemmAxes *gemm = &s->gemm;
    uint32_t n = 0;
    int64_t trips = 1;

    while (n < gemm->nsum && (trips *= expr_or(low_extent(s->l, gemm->sum[gemm->nsum - n - 1]),
                                               GEMM_MOST_UNROLLED + 1)) <= GEMM_MOST_UNROLLED)
        n++;
    return axis_names(s->w, 0, gemm->sum + gemm->nsum - n, n);
}

/* A tile of `rows` by `vectors`; `chunk`: rows of a task, 0: all. */
static void
write_tile(const Scaled *s, int64_t rows, int64_t vectors, int64_t chunk)
{
    Draft *w = s->w;
    const GemmAxes *gemm = &s->gemm;
    Text t = { .arena = w->a };
    uint32_t sums[NEST_MAX_AXES] = { s->group };
    const char *column = axis_name(w, 0, s->side[s->nside - 1]),
               *row = s->row == NO_SLOT ? NULL : axis_name(w, 0, s->row);
    const char *around = axis_names(w, 0, s->around, s->naround), *groups = axis_name(w, 1, s->sum),
               *at = row          ? "ip_"
                     : s->naround ? axis_name(w, 0, s->around[s->naround - 1])
                                  : "task",
               *last = axis_name(w, 0, gemm->sum[gemm->nsum - 1]);
    long long width = vectors * s->lanes;

    for (uint32_t i = 0; i < gemm->nsum; i++)
        sums[1 + i] = gemm->sum[i];
    const char *lay = gemm_layouts(w, 0, s->factor,
                                   (Panels){ .axis = s->side,
                                             .naxis = s->nside,
                                             .run = 1,
                                             .sum = sums,
                                             .nsum = 1 + gemm->nsum,
                                             .width = width });
    text_add(&t, lay ? lay : "");
    lay_scales(s, part_reduction(w->p, 1)->arg[0], width, &t);
    if (row && chunk)
        text_printf(&t, "split %s by %lld -> ic_ ii_ guard\n", row, (long long)chunk);
    if (row)
        text_printf(&t, "split %s by %lld -> ip_ ir_%s\n", chunk ? "ii_" : row, (long long)rows,
                    s->rows >= 0 || rows == 1 ? "" : " peel 1");
    text_printf(&t, "split %s by %lld -> jp_ jv_ exact\n", column, width);
    const char *tasks = arena_printf(w->a, "%s %s jp_", axis_names(w, 0, s->outer, s->nouter),
                                     row && chunk ? "ic_" : "");
    text_printf(&t, "order %s %s %s jv_\nfuse %s -> task\nput %s at %s\n", tasks, around,
                row ? "ip_ ir_" : "", tasks, s->product, at);
    text_printf(
        &t, "split jv_ by %lld -> jr_ jl_ exact\norder %s %s jr_ jl_\nhold %s at %s -> sums reg\n",
        (long long)s->lanes, groups, row ? "ir_" : "", s->name, at);
    text_printf(&t, "run %s jr_ unroll\nrun jl_ vector\nput %s at %s\n", row ? "ir_" : "",
                s->product, groups);
    const char *rows_put = row && rows > 1 ? arena_printf(w->a, "%s.%s", s->product, row) : "";
    text_printf(&t,
                "split %s.%s by %lld -> tr_ tl_\norder %s %s tr_ tl_\nhold %s at %s -> acc reg\n",
                s->product, column, (long long)s->lanes, axis_names(w, 0, gemm->sum, gemm->nsum),
                rows_put, s->product, groups);
    text_printf(&t, "run %s %s tr_ unroll\nrun tl_ vector\n", written_out(s), rows_put);
    /* a row of columns is loaded once for all rows */
    if (rows > 1)
        text_printf(&t, "stage %s.%s at %s -> col reg of tr_\n", s->product,
                    s->factor == gemm->k.a ? "lhs" : "rhs", last);
    text_add(&t, "run task parallel\n");
    write_program(w, &t);
}

/* Rows of a task if their number is symbolic: bounds the list, prices decide. */
static const int64_t chunks[] = { 64, 256 };

void
write_scaled(Draft *w)
{
    Scaled s = { .w = w };

    if (!recognise(&s))
        return;
    for (int64_t vectors = WIDEST_PANEL; vectors > 0; vectors--) {
        /* Registers: floats and integers of a tile, a row of columns, and one vector each for a
         * broadcast and for masked bits. */
        int64_t most = ((int64_t)w->p->m->vector_registers - vectors - 2) / (2 * vectors),
                rows = s.rows < 0 || s.rows > most ? most : s.rows;
        if (rows < 1 || s.columns % (vectors * s.lanes))
            continue;
        if (s.rows > rows)
            rows = even_height(s.rows, rows);
        write_tile(&s, rows, vectors, 0);
        for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++)
            if (s.rows < 0 || s.rows > chunks[i])
                write_tile(&s, rows, vectors, (chunks[i] + rows - 1) / rows * rows);
    }
}
