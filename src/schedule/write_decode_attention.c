/* write_decode_attention: attention of one row a head, a token's over a cache, whose heads are
 * adjacent in each row of keys and values.
 *
 * Memory delivers consecutive lines at twice the rate of strided bursts (doc/cost.md). A task of
 * one head reads its part of every row, with other heads' parts between. Here a task has all heads
 * and reads complete rows: scores are accumulated in lanes, row by row, for all heads in turn;
 * values are weighted a few rows at a time, for one head after the other. The intermediate tensor
 * has the scores of all heads. Compared with tasks of a head (write_group_columns.c) there are
 * fewer to distribute.
 *
 * So much is done with each line that the next ones are outside of the reorder buffer, so memory is
 * prefetched far ahead, into L2: L1 has few buffers for lines in flight.
 */
#include "schedule/gemm_axes.h"
#include "schedule/group.h"

/* Rows of values that are weighted for one head at a time. Bounds the list, prices decide: all
 * heads' sums are loaded and stored once per block. */
enum { LEAST_ROWS = 4, MOST_ROWS = 32 };

typedef struct {
    const Group *g;
    uint32_t outer[NEST_MAX_AXES], nouter; /* the shared axes that are distributed, … */
    /* … those whose points are adjacent in a row of columns, … */
    uint32_t beside[NEST_MAX_AXES], nbeside;
    /* … and those whose points all read the same columns */
    uint32_t same[NEST_MAX_AXES], nsame;
} Token;

/* The loops over shared axes: of all parts, or of a part's box. */
static const char *
loops(const Token *k, const GroupMember *m, const uint32_t *axis, uint32_t n)
{
    const Group *g = k->g;
    Text t = { .arena = g->w->a };

    for (uint32_t i = 0; i < n; i++)
        text_printf(&t, "%s ",
                    (m == &g->member[g->n - 1] ? axis_name : box_name)(g->w, m->part, axis[i]));
    return text_str(&t);
}

static const char *
beside(const Token *k, const GroupMember *m)
{
    return loops(k, m, k->beside, k->nbeside);
}
static const char *
same(const Token *k, const GroupMember *m)
{
    return loops(k, m, k->same, k->nsame);
}

/* ---- recognising ----------------------------------------------------------------------------- */

/* The axis of a contraction along which its columns are vectors: the sum, for scores; the output,
 * for the last part. */
static uint32_t
lane_axis(const Group *g, const GroupMember *m)
{
    return m == &g->member[g->n - 1] ? m->own[0] : m->sum[0];
}

/* The shared axes whose points are adjacent in a row of a contraction's columns. None: rows are not
 * made of vectors, or are complete without them. */
static AxisSet
axes_beside(const Group *g, const GroupMember *m)
{
    const Points *p = g->w->p;
    bool last = m == &g->member[g->n - 1];
    uint32_t lane = lane_axis(g, m), across = last ? m->sum[0] : m->own[0];
    int64_t length = expr_or(m->n->axis[lane].extent, 0);
    AxisSet beside = 0;

    if (m->nsum != 1 || !length || length % g->lanes ||
        !gemm_is_contiguous(m->l, m->view.b, lane) ||
        (!last && !gemm_is_contiguous(m->l, m->view.a, lane)))
        return 0;
    const Scalar *b = gemm_only_read(m->view.b);
    for (uint32_t x = 0; x < p->k->shared; x++)
        if (x != m->row && b->axes >> x & 1 && expr_or(m->n->axis[x].extent, 0) > 1 &&
            stride_along(m->l, b, x) < stride_along(m->l, b, across))
            beside |= (AxisSet)1 << x;
    return beside;
}

static bool
recognise(const Group *g, Token *k)
{
    const GroupMember *last = &g->member[g->n - 1];
    AxisSet in_rows = 0;

    *k = (Token){ .g = g };
    if (g->nrows != 1 || !last->product)
        return false;
    for (const GroupMember *m = g->member; m <= last; m++) {
        AxisSet here = m->product ? axes_beside(g, m) : in_rows;
        if ((m->product && !here) || (in_rows && here != in_rows))
            return false;
        in_rows = here;
    }
    for (uint32_t x = 0; x < g->w->p->k->shared; x++)
        if (in_rows >> x & 1)
            k->beside[k->nbeside++] = x;
        else if (x == last->head && g->heads > 1)
            k->same[k->nsame++] = x;
        else if (x != last->row)
            k->outer[k->nouter++] = x;
    return true;
}

/* ---- the parts ------------------------------------------------------------------------------- */

/* Vectors of a row of a contraction's columns, for all heads. */
static int64_t
row_vectors(const Token *k, const GroupMember *m)
{
    int64_t n = expr_or(m->n->axis[lane_axis(k->g, m)].extent, 0) / k->g->lanes;

    for (uint32_t i = 0; i < k->nbeside; i++)
        n *= expr_or(m->n->axis[k->beside[i]].extent, 1);
    return n;
}

/* The prefetch distance of a row, in rows. */
static int64_t
rows_ahead(const Token *k, const GroupMember *m)
{
    return gemm_memory_prefetch_distance(k->g->w->p->m,
                                         row_vectors(k, m) * k->g->lanes *
                                             dtype_info[gemm_only_read(m->view.b)->dtype].bytes);
}

/* Row after row of columns, for all heads each; short rows are unrolled and prefetched together. */
static void
write_scores(const Token *k, const GroupMember *m, Text *t)
{
    const Group *g = k->g;
    const char *a = m->name;
    bool few = row_vectors(k, m) <= GEMM_MOST_UNROLLED;
    const char *inner = box_name(g->w, m->part, k->beside[k->nbeside - 1]);

    write_steps(t, a, "split %s by %lld -> @.kv_ @.l_ exact\n", axis_name(g->w, m->part, m->sum[0]),
                (long long)g->lanes);
    write_steps(t, a, "order %s %s%s%s @.kv_ @.l_\n", axis_name(g->w, m->part, m->own[0]),
                beside(k, m), same(k, m), group_row(g, m));
    write_steps(t, a, "hold @ at %s -> @.acc reg over @.l_\n", inner);
    if (expr_or(m->n->axis[m->sum[0]].extent, INT64_MAX) <= GEMM_MOST_UNROLLED * g->lanes)
        text_printf(t, "run %s.kv_ unroll\n", a);
    text_printf(t, "run %s%s%s unroll\nrun %s.l_ vector\n", few ? beside(k, m) : "", same(k, m),
                group_row(g, m), a);
    if (few)
        write_steps(t, a, "stage @.rhs at %s -> @.col reg of %s@.kv_ far %lld\n",
                    axis_name(g->w, m->part, m->own[0]), beside(k, m), (long long)rows_ahead(k, m));
}

/* Blocks of a few rows of columns, for one head after the other, while later blocks are prefetched;
 * all heads' sums persist between blocks. */
static void
write_values(const Token *k, int64_t rows, Text *t)
{
    const Group *g = k->g;
    const GroupMember *m = &g->member[g->n - 1];
    const char *a = m->name, *col = axis_name(g->w, m->part, m->own[0]), *heads = beside(k, m);
    const char *inner = axis_name(g->w, m->part, k->beside[k->nbeside - 1]);

    write_steps(t, a, "split %s by %lld -> @.r_ @.l_ exact\n", col, (long long)g->lanes);
    write_steps(t, a, "split %s by %lld -> @.kb_ @.kk_ guard\n",
                axis_name(g->w, m->part, m->sum[0]), (long long)rows);
    write_steps(t, a, "order @.kb_ %s@.kk_ %sir @.r_ @.l_\n", heads, same(k, m));
    write_steps(t, a, "hold @ at task -> @.sums scratch\nhold @ at %s -> @.acc reg\n", inner);
    write_steps(t, a, "run %sir @.r_ unroll\nrun @.l_ @.sums.fin.@.l_ @.sums.init.@.l_ vector\n",
                same(k, m));
    write_steps(t, a, "stage @.rhs at @.kk_ -> @.col reg of @.r_ far %lld\n",
                (long long)((rows_ahead(k, m) + rows - 1) / rows * rows));
}

void
write_decode_attention(const Group *g)
{
    const GroupMember *last = &g->member[g->n - 1];
    Token k;

    if (!recognise(g, &k))
        return;
    const char *outer = loops(&k, last, k.outer, k.nouter);
    for (int64_t rows = MOST_ROWS; rows >= LEAST_ROWS; rows /= 2) {
        Text t = { .arena = g->w->a };
        bool ok = true;
        text_printf(&t, "split %s by 1 -> ib ir exact\norder %sib %s%sir\nfuse %sib -> task\n",
                    g->rows, outer, beside(&k, last), same(&k, last), outer);
        for (const GroupMember *m = g->member; m < last; m++)
            text_printf(&t, "put %s at task scratch of %s%s%s %s\n", m->name, beside(&k, m),
                        same(&k, m), group_row(g, m), group_own(g, m));
        for (const GroupMember *m = g->member; m < last; m++)
            if (m->product)
                write_scores(&k, m, &t);
            else
                ok &= group_write_line(g, m, &t, group_row(g, m));
        write_values(&k, rows, &t);
        text_add(&t, "run task parallel\n");
        if (ok)
            write_program(g->w, &t);
    }
}
