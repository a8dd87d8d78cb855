/* write_group: contractions among the parts of a group over shared rows, such as GEMM, softmax,
 * GEMM of an attention.
 *
 * A parallel task is a tile of rows, the last axis that all parts share. All parts but the last are
 * computed at it, so intermediate tensors are as large as the tile and stay in a cache; they are
 * stored with rows innermost, and the lanes of vectors are rows. So no part reduces across lanes,
 * and a contraction's other operand is read in place, one element broadcast to all lanes; only the
 * first operand of a contraction, a tile of rows, is transposed. The last part broadcasts elements
 * of the tile to lanes along its own output.
 *
 * Longer rows are processed in blocks if the parts between are a maximum, exp and sums of it
 * (`online`): keys and values of a block stay in L1 while the rows of a task pass.
 */
#include "schedule/gemm_axes.h"
#include "schedule/group.h"

/* ---- programs -------------------------------------------------------------------------------- */

/* Splits rows into several vectors of lanes. If the last tile may be partial, its sums run over
 * padding, in scratch of their own. */
static void
split_rows(const Group *g, const GroupMember *m, Text *t, bool whole)
{
    const char *a = m->name;

    write_steps(t, a, "split %s by %lld -> @.b_ @.v_%s\n", group_row(g, m),
                (long long)(g->vectors * g->lanes), whole || !m->reduce ? "" : " pad");
    write_steps(t, a, "split @.v_ by %lld -> @.r_ @.l_\n", (long long)g->lanes);
}

/* Does the part sum along the intermediate dimension, in one loop over blocks of it with the others
 * that do? */
static bool
is_online(const Group *g, const GroupMember *m)
{
    return g->block && !g->whole_rows && m->reduce &&
           (m == g->max || !m->product || m == &g->member[g->n - 1]);
}

/* Splits the intermediate dimension, a sum or the part's own, into blocks. */
static const char *
cut_blocks(const Group *g, const GroupMember *m, Text *t, uint32_t axis)
{
    write_steps(t, m->name, "split %s by %lld -> @.kb_ @.kk_ guard\n",
                axis_name(g->w, m->part, axis), (long long)g->block);
    return arena_printf(g->w->a, "%s.kk_", m->name);
}

/* The loop over an axis; of whole rows in blocks the one over a block, and *blocks over those. */
static const char *
loops_along(const Group *g, const GroupMember *m, Text *t, uint32_t axis, const char **blocks)
{
    *blocks = g->whole_rows ? arena_printf(g->w->a, "%s.kb_ ", m->name) : "";
    return g->whole_rows ? cut_blocks(g, m, t, axis) : axis_name(g->w, m->part, axis);
}

static void
hold_rows(const GroupMember *m, Text *t, bool whole)
{
    const char *a = m->name;

    if (!whole)
        write_steps(t, a, "hold @ at @.b_ -> @.sums scratch\n");
    write_steps(t, a, "hold @ at @.b_ -> @.acc reg\n");
}

/* Is the operand to be transposed contiguous along the last axis of the sum? */
static bool
lies_along_sum(const GroupMember *m)
{
    return gemm_is_contiguous(m->l, m->view.a, m->sum[m->nsum - 1]);
}

static void
write_member(const Group *g, const GroupMember *m, Text *t, bool whole)
{
    const char *a = m->name, *sums = axis_names(g->w, m->part, m->sum, m->nsum), *blocks,
               *others = m->nsum ? axis_names(g->w, m->part, m->sum, m->nsum - 1) : "";

    split_rows(g, m, t, whole);
    /* if the number of rows is known, all accumulate at once, to hide the latency */
    if (is_online(g, m)) {
        const char *last = cut_blocks(g, m, t, m->sum[0]),
                   *all = whole ? arena_printf(g->w->a, "%s.b_", a) : "";
        write_steps(t, a, "order @.kb_ %s %s @.r_ @.l_\n",
                    whole ? last : arena_printf(g->w->a, "%s.b_", a), whole ? all : last);
        write_steps(t, a, "hold @ at task -> @.sums scratch\nhold @ at @.%s -> @.acc reg\n",
                    whole ? "kb_" : "b_");
        write_steps(t, a, "run %s @.r_ unroll\nrun @.l_ vector\nrun @.sums.fin.@.l_ vector\n", all);
    } else if (m->product) {
        const char *col = loops_along(g, m, t, m->own[0], &blocks), *row = group_row(g, m);
        /* tiles of a block have similar heights: a low last one would not fill the registers */
        int64_t height = even_height(g->block, g->height);
        write_steps(t, a, "split %s by %lld -> @.cb_ @.cr_ peel 1\n", col, (long long)height);
        write_steps(t, a, "order %s@.cb_ @.b_ %s @.cr_ @.r_ @.l_\n", blocks, sums);
        hold_rows(m, t, whole);
        write_steps(t, a, "run @.cr_ @.r_ unroll\nrun @.l_ vector\n");
        write_steps(t, a, "stage @.lhs at task -> @.rows scratch of %s %s\n", sums, row);
        if (lies_along_sum(m))
            group_write_transposed(g, m, t, "lhs", "rows", row);
        write_steps(t, a, "stage @.rows at %s -> @.col reg of @.r_\n",
                    axis_name(g->w, m->part, m->sum[m->nsum - 1]));
    } else if (m->reduce && whole) {
        /* four partial sums, to hide the latency */
        const char *last = loops_along(g, m, t, m->sum[m->nsum - 1], &blocks);
        write_steps(t, a, "split %s by 4 -> @.sb_ @.su_\n", last);
        write_steps(t, a, "order %s @.b_ %s %s@.sb_ @.su_ @.r_ @.l_\n", group_own(g, m), others,
                    blocks);
        write_steps(
            t, a,
            "hold @ at @.b_ -> @.acc reg over @.su_\nrun @.su_ @.r_ unroll\nrun @.l_ vector\n");
    } else if (m->reduce) {
        const char *last = loops_along(g, m, t, m->sum[m->nsum - 1], &blocks);
        write_steps(t, a, "order %s @.b_ %s %s%s @.r_ @.l_\n", group_own(g, m), others, blocks,
                    last);
        hold_rows(m, t, whole);
        write_steps(t, a, "run @.r_ unroll\nrun @.l_ vector\n");
    } else {
        const char *own =
            g->whole_rows ? loops_along(g, m, t, m->own[0], &blocks) : group_own(g, m);
        write_steps(t, a, "order %s%s @.b_ @.r_ @.l_\n", g->whole_rows ? blocks : "", own);
        text_printf(t, "%srun %s.l_ vector\n",
                    whole ? arena_printf(g->w->a, "run %s.r_ unroll\n", a) : "", a);
    }
    if (m->reduce && !whole && !is_online(g, m))
        write_steps(t, a, "run @.sums.fin.@.l_ vector\n");
}

void
group_write_last(const Group *g, Text *t)
{
    const GroupMember *m = &g->member[g->n - 1];
    const char *a = m->name, *sums = axis_names(g->w, m->part, m->sum, m->nsum),
               *col = axis_name(g->w, m->part, m->own[0]);
    const char *outside = group_last_heads(g, false), *inside = group_last_heads(g, true);
    int64_t columns = expr_or(m->n->axis[m->own[0]].extent, -1), vectors = g->vectors;

    while (vectors > 1 && (columns < 0 || columns % (vectors * g->lanes)))
        /* registers need a known number of remaining columns */
        vectors--;
    text_printf(t, "split ir by %lld -> irb irr peel 1\n",
                (long long)(g->height / group_in_tile(g)));
    write_steps(t, a, "split %s by %lld -> @.b_ @.v_\n", col, (long long)(vectors * g->lanes));
    write_steps(t, a, "split @.v_ by %lld -> @.r_ @.l_\n", (long long)g->lanes);
    if (g->whole_rows) {
        const char *blocks, *last = loops_along(g, m, t, m->sum[0], &blocks);
        write_steps(t, a, "order @.b_ %sirb %s%s %sirr @.r_ @.l_\n", outside, blocks, last, inside);
    } else if (g->block) {
        const char *last = cut_blocks(g, m, t, m->sum[0]);
        write_steps(t, a,
                    "order @.kb_ @.b_ %sirb %s %sirr @.r_ @.l_\nhold @ at task -> @.sums scratch\n",
                    outside, last, inside);
    } else {
        write_steps(t, a, "order @.b_ %sirb %s %sirr @.r_ @.l_\n", outside, sums, inside);
    }
    write_steps(t, a, "hold @ at irb -> @.acc reg\nrun %sirr @.r_ unroll\nrun @.l_ vector\n",
                inside);
    if (g->block && !g->whole_rows)
        write_steps(t, a, "run @.sums.fin.@.l_ vector\nrun @.sums.init.@.l_ vector\n");
}

static void
put_member(const Group *g, const GroupMember *m, Text *t, const char *at)
{
    text_printf(t, "put %s at %s scratch of %s %s\n", m->name, at, group_own(g, m),
                group_row(g, m));
}

/* buffers in a bit set; later ones keep their layout */
enum { LAID = 64 };

/* Lanes are rows, so a constant beside a sum, such as a mask, is packed along rows. */
static void
lay_along_rows(const Draft *w, const GroupMember *m, Text *t)
{
    const Part *part = &w->p->k->part[m->part];
    uint64_t laid = 0;
    AxisSet sums = 0;

    for (uint32_t i = 0; i < m->nsum; i++)
        sums |= (AxisSet)1 << m->sum[i];
    FOR_EACH_SCALAR (load, scalar_loads(w->c, m->n->write[0].value)) {
        uint32_t rank = load->u.load.rank, row = rank;
        for (uint32_t d = 0; d + 1 < rank && !(load->axes & sums); d++)
            if (axis_of(load->u.load.at[d]) == m->row)
                row = d;
        if (row == rank || load->u.load.slot >= part->nest->nin)
            continue;
        uint32_t buffer = part->buffer[load->u.load.slot];
        if (buffer >= w->p->k->nin || buffer >= LAID || !w->constant[buffer] || laid >> buffer & 1)
            continue;
        laid |= (uint64_t)1 << buffer;
        write_lay_last(t, w->p->k->buffer.at[buffer].name, rank, row);
    }
}

/* A parameter that a part reads once, for each key of a block: a mask. */
static bool
is_read_by_key(const Group *g, const GroupMember *m, const Scalar *load)
{
    const Scalar *const *loads = scalar_loads(g->w->c, m->n->write[0].value);
    uint32_t axis = m->own[0], count = 0;

    if (load->u.load.slot >= m->n->nin || load->u.load.outside)
        return false;
    FOR_EACH_SCALAR (other, loads)
        count += other->u.load.slot == load->u.load.slot;
    bool each = false;
    for (uint32_t d = 0; d < load->u.load.rank; d++)
        each |= axis_of(load->u.load.at[d]) == axis;
    return count == 1 && each &&
           g->w->p->k->buffer.at[g->w->p->k->part[m->part].buffer[load->u.load.slot]].space ==
               SPACE_IN;
}

/* Blocks that are not omitted are anywhere in memory, so no processor foresees the next one: both
 * contractions prefetch its keys and values, and its mask. */
static void
write_prefetches(const Group *g, Text *t)
{
    const GroupMember *last = &g->member[g->n - 1];

    for (const GroupMember *m = g->member; m <= last; m++) {
        if (!m->product)
            continue;
        const char *blocks = g->whole_rows ? arena_printf(g->w->a, "%s.kb_", m->name) : "kb";
        write_steps(t, m->name, "prefetch @.rhs at %s of %s\n",
                    m == last ? arena_printf(g->w->a, "%s.kk_", m->name)
                              : axis_name(g->w, m->part, m->sum[m->nsum - 1]),
                    blocks);
        FOR_EACH_SCALAR (load, scalar_loads(g->w->c, m->n->write[0].value))
            if (m != last && is_read_by_key(g, m, load) &&
                !scalar_holds(g->w->c, m->view.a, load) && !scalar_holds(g->w->c, m->view.b, load))
                write_steps(t, m->name, "prefetch @.%s at %s of %s\n",
                            m->n->param[load->u.load.slot].name, blocks, blocks);
    }
}

/* A tile of that many rows. */
static void
write_tile(Group *g, int64_t rows)
{
    const GroupMember *last = &g->member[g->n - 1];
    Text t = { .arena = g->w->a };
    bool whole = g->nrows >= 0 && g->nrows % rows == 0;

    for (const GroupMember *m = g->member; m < last; m++)
        lay_along_rows(g->w, m, &t);
    group_write_task(g, &t, rows);
    for (const GroupMember *m = g->member; m < last; m++)
        put_member(g, m, &t, "task");
    for (const GroupMember *m = g->member; m < last; m++)
        if (!g->block || g->whole_rows || is_online(g, m))
            write_member(g, m, &t, whole);
    group_write_last(g, &t);
    /* readers before what they read */
    for (const GroupMember *m = last + 1; g->whole_rows && m-- > g->member;)
        text_printf(&t, "omit %s.kb_ at task\n", m->name);
    if (g->block && !g->whole_rows) {
        text_printf(&t, "online %s.kb_", g->max->name);
        for (const GroupMember *m = g->member; m <= last; m++)
            if (m != g->max && is_online(g, m))
                text_printf(&t, " %s.kb_", m->name);
        text_add(&t, g->omits ? " -> kb\nomit kb\n" : " -> kb\n");
        for (const GroupMember *m = last; m-- > g->member;)
            if (!is_online(g, m))
                put_member(g, m, &t, "kb");
        for (const GroupMember *m = g->member; m < last; m++)
            if (!is_online(g, m))
                write_member(g, m, &t, whole);
    }
    if (g->omits)
        write_prefetches(g, &t);
    text_add(&t, "run task parallel\n");
    write_program(g->w, &t);
}

/* Keys of a block. Bounds the list, prices decide: keys and values of 64 elements fill L1 with 64
 * of them (32 KB), and L2, with the intermediate tensors, with 1,024. */
enum { LEAST_BLOCK = 64, MOST_BLOCK = 256 };

/* Do the parts allow blocks of keys: a maximum, at most one part computed with it, and sums of
 * that? The step checks the rest. */
static bool
has_blocks(Group *g)
{
    const GroupMember *last = &g->member[g->n - 1];
    uint32_t made = 0;

    for (const GroupMember *m = g->member; m < last; m++) {
        made += !m->reduce;
        if (m->reduce && m->reduce->u.reduce.combiner == COMB_MAX && m->nsum == 1)
            g->max = m;
    }
    return g->max && made <= 1 && last->nsum == 1;
}

static void
write_blocks(Group *g, int64_t rows)
{
    int64_t keys = has_blocks(g) ? expr_or(g->max->n->axis[g->max->sum[0]].extent, INT64_MAX) : 0;

    for (int64_t least = LEAST_BLOCK; least <= MOST_BLOCK && least < keys; least *= 2) {
        /* complete tiles of the contraction before */
        g->block = (least + g->height - 1) / g->height * g->height;
        write_tile(g, rows);
    }
    g->block = 0;
}

/* Register tiles whose height is a power of two divide a task and a block, which may be partial, and
 * what a mask shows of them, which is a multiple of it (write_skip.c): what is left of a tile of
 * unknown points is computed one by one. */
static int64_t
even_tile(const Group *g)
{
    int64_t height = 1;

    while (2 * height <= tile_height(g->w->p->m, g->vectors))
        height *= 2;
    return height;
}

/* Keys of a block that a mask may hide: those of a column of its table, of two and of four
 * (normalise/block_mask.c). Smaller blocks are skipped more often, larger ones take less time per
 * key; the price counts the blocks of either size that a constant mask shows. */
enum { LEAST_OMITTED = 16, MOST_OMITTED = 64 };

static void
write_omitted(Group *g)
{
    const GroupMember *last = &g->member[g->n - 1];

    if (!has_blocks(g) ||
        !kernel_support_table(g->w->c, g->w->a, g->w->p->k, last->part, last->sum[0]))
        return;
    int64_t keys = expr_or(last->n->axis[last->sum[0]].extent, -1), height = g->height,
            rows = g->vectors * g->lanes;
    if (g->nrows < 0 || g->nrows % rows || keys < 0 || keys % MOST_OMITTED)
        g->height = even_tile(g);
    g->omits = true;
    for (g->block = LEAST_OMITTED; g->block <= MOST_OMITTED; g->block *= 2)
        for (int whole = 0; whole < 2; whole++) {
            g->whole_rows = whole;
            write_tile(g, rows);
        }
    g->omits = g->whole_rows = false;
    g->block = 0;
    g->height = height;
}

/* Is the last part a contraction with contiguous columns? */
static bool
ends_in_product(const Group *g)
{
    const GroupMember *last = &g->member[g->n - 1];
    const Draft *w = g->w;
    const Write *out = &last->n->write[0];
    const Type *t = last->n->param[out->out].type;
    const Expr *stride =
        t->rank ? low_stride(last->l, scalar_load(w->c, t->dtype, out->out, t->rank, out->at, NULL),
                             last->own[0])
                : NULL;

    return last->product && stride && expr_is(stride, 1);
}

static void
write_even(Group *g)
{
    for (int64_t vectors = 1; tile_height(g->w->p->m, vectors) >= 2 * vectors; vectors *= 2) {
        g->vectors = vectors;
        g->height = even_tile(g);
        write_tile(g, vectors * g->lanes);
    }
}

/* vectors of rows in a task, in tiles; bounds the list, prices decide */
enum { MOST_TILES = 4 };

void
write_group(Draft *w)
{
    const Machine *m = w->p->m;
    Group g;

    if (!group_of(w, &g))
        return;
    g.lanes = machine_lanes(m, DT_F32);
    /* Accumulators, a row of vectors and one broadcast fill the registers. Square tiles load least
     * (gemm_axes.h). The widest power of two, as the sizes of heads are, that is no wider than
     * high. */
    for (g.vectors = 1; tile_height(m, 2 * g.vectors) >= 2 * g.vectors; g.vectors *= 2)
        ;
    g.height = tile_height(m, g.vectors);
    write_group_columns(&g);
    write_decode_attention(&g);
    if (!ends_in_product(&g))
        return;
    for (int blocks = 0; blocks < 2; blocks++)
        for (int64_t tiles = 1; tiles <= MOST_TILES; tiles *= 2)
            if (tiles == 1 || g.nrows < 0 || g.nrows >= tiles * g.vectors * g.lanes)
                (blocks ? write_blocks : write_tile)(&g, tiles * g.vectors * g.lanes);
    write_omitted(&g);
    for (int64_t vectors = g.vectors / 2; vectors; vectors /= 2) {
        g.vectors = vectors;
        g.height = tile_height(m, vectors);
        if (has_support(w))
            write_tile(&g, vectors * g.lanes);
        write_omitted(&g);
    }
    if (has_support(w))
        write_even(&g);
}
