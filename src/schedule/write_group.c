/* write_group: products among the parts of a group over shared rows, as product, softmax, product of an attention.
 *
 * A task is a tile of rows, the last axis that all parts share. All parts but the last are put there, so what lies
 * between them is as large as the tile and stays in a cache; their values lie with the rows innermost, and the lanes of
 * vectors are rows. So no part adds or compares across lanes, and a product's other operand is read where it lies, one
 * element for all lanes; only the first operand of a product, a tile of rows, is turned. The last part reads one
 * row of the tile for all lanes, which run along its own output.
 *
 * Rows too long for that go by in blocks, where what lies between is a maximum, exp and sums of it (`online`): keys and
 * values of a block stay in the first cache while the rows of a task pass.
 */
#include "schedule/write.h"

typedef struct {
    uint32_t part;
    const Nest *n;
    const char *name;
    const Scalar *reduce;            /* or NULL */
    bool product;
    Contraction view;
    uint32_t row;                    /* the axis of the last shared loop */
    uint32_t own[NEST_MAX_AXES], nown;       /* parallel axes that are not shared */
    uint32_t sum[NEST_MAX_AXES], nsum;
} Member;

typedef struct {
    Draft *w;
    Member *member;
    uint32_t n;                      /* of them */
    const char *outer;               /* the shared loops but the last */
    const char *rows;                /* and that */
    int64_t nrows;                   /* -1: not known */
    int64_t lanes, vectors, height;  /* of a register tile: so many vectors of rows (of columns in the last part), so many
                                      * of the other side */
    int64_t block;                   /* of the sums that go online; 0: none do */
    const Member *max;               /* the maximum of those */
} Group;

/* ---- what it is ---------------------------------------------------------------------------------------- */

static bool
is_rectangular(const Axis *x)
{
    return !expr_axes(x->extent) && !expr_uses_kind(x->extent, VAR_COMPUTED);
}

static bool
recognise_member(const Group *g, uint32_t part, Member *m)
{
    const Points *p = g->w->p;
    const Part *k = &p->k->part[part];
    const Nest *n = k->nest;
    uint32_t seen = 0;

    *m = (Member){ .part = part, .n = n, .name = part_name(p, part), .reduce = part_reduction(p, part) };
    m->product = nest_contraction(g->w->c, n, &m->view);
    for (uint32_t x = 0; x < n->naxis; x++) {
        if (!is_rectangular(&n->axis[x]) || expr_is(n->axis[x].extent, 0))
            return false;
        if (n->axis[x].kind == AXIS_REDUCE)
            m->sum[m->nsum++] = x;
        else if (++seen > p->k->shared)
            m->own[m->nown++] = x;
        else
            m->row = x;
    }
    if (n->nwrite != 1 || n->write[0].combiner != COMB_NONE || nest_axes_of_kind(n, AXIS_SCAN) || dtype_info[n->param[n->nin].type->dtype].bytes != 4 || (m->reduce && m->reduce->u.reduce.combiner > COMB_MIN))
        return false;
    /* Rows are one side of a product, which has the columns of its output to itself. */
    return !m->product || (m->view.row >> m->row & 1 && m->nown == 1 && !(m->view.a->axes >> m->own[0] & 1));
}

static bool
recognise(Group *g)
{
    const Kernel *k = g->w->p->k;
    uint32_t outer[NEST_MAX_AXES], n = 0, products = 0;
    Var v;

    if (k->npart < 2 || !k->shared)
        return false;
    g->n = k->npart;
    g->member = NEW_ARRAY(g->w->a, Member, g->n);
    for (uint32_t i = 0; i < g->n; i++) {
        if (!recognise_member(g, i, &g->member[i]))
            return false;
        products += g->member[i].product;
        if (i + 1 < g->n && k->buffer.at[k->part[i].buffer[g->member[i].n->nin]].space != SPACE_LOCAL)
            return false;
    }
    const Member *last = &g->member[g->n - 1];
    const Write *w = &last->n->write[0];
    uint32_t rank = last->n->param[w->out].type->rank;
    if (!products || !last->product || !rank || !expr_is_var(w->at[rank - 1], &v) || v.id != last->own[0])
        return false;
    for (uint32_t x = 0; n + 1 < k->shared; x++)
        if (last->n->axis[x].kind == AXIS_PARALLEL)
            outer[n++] = x;
    g->outer = axis_names(g->w, g->n - 1, outer, n);
    g->rows = axis_name(g->w, g->n - 1, last->row);
    g->nrows = expr_or(last->n->axis[last->row].extent, -1);
    return true;
}

/* ---- programs ------------------------------------------------------------------------------------------ */

/* The loop over the rows of a part's box. */
static const char *
row_of(const Group *g, const Member *m)
{
    return arena_printf(g->w->a, "%s.%s", m->name, m->n->axis[m->row].name);
}

static const char *
own_of(const Group *g, const Member *m)
{
    return axis_names(g->w, m->part, m->own, m->nown);
}

/* Rows in vectors of lanes, some of them side by side. Where the last tile may be short its sums run over padding, in
 * memory of their own. */
static void
split_rows(const Group *g, const Member *m, Text *t, bool whole)
{
    const char *a = m->name;

    text_printf(t, "split %s by %lld -> %s.b_ %s.v_%s\n", row_of(g, m), (long long)(g->vectors * g->lanes), a, a, whole || !m->reduce ? "" : " pad");
    text_printf(t, "split %s.v_ by %lld -> %s.r_ %s.l_\n", a, (long long)g->lanes, a, a);
}

/* Does the part sum, block by block, along what lies between? */
static bool
is_online(const Group *g, const Member *m)
{
    return g->block && m->reduce && (m == g->max || !m->product || m == &g->member[g->n - 1]);
}

/* Blocks of the sum, outermost; what is inside keeps its order. The held sums go on from block to block. */
static const char *
cut_blocks(const Group *g, const Member *m, Text *t)
{
    text_printf(t, "split %s by %lld -> %s.kb_ %s.kk_ guard\n", axis_name(g->w, m->part, m->sum[0]), (long long)g->block, m->name, m->name);
    return arena_printf(g->w->a, "%s.kk_", m->name);
}

static void
hold_rows(const Member *m, Text *t, bool whole)
{
    const char *a = m->name;

    if (!whole)
        text_printf(t, "hold %s at %s.b_ -> %s.sums scratch\n", a, a, a);
    text_printf(t, "hold %s at %s.b_ -> %s.acc reg\n", a, a, a);
}

static void
write_member(const Group *g, const Member *m, Text *t, bool whole)
{
    const char *a = m->name, *sums = axis_names(g->w, m->part, m->sum, m->nsum);

    split_rows(g, m, t, whole);
    if (is_online(g, m)) {                   /* where it is known how many rows there are, all of them at once, so that none waits */
        const char *last = cut_blocks(g, m, t), *all = whole ? arena_printf(g->w->a, "%s.b_", a) : "";
        text_printf(t, "order %s.kb_ %s %s %s.r_ %s.l_\n", a, whole ? last : arena_printf(g->w->a, "%s.b_", a), whole ? all : last, a, a);
        text_printf(t, "hold %s at task -> %s.sums scratch\nhold %s at %s.%s -> %s.acc reg\n", a, a, a, a, whole ? "kb_" : "b_", a);
        text_printf(t, "run %s %s.r_ unroll\nrun %s.l_ vector\nrun %s.sums.fin.%s.l_ vector\n", all, a, a, a, a);
    } else if (m->product) {
        const char *col = axis_name(g->w, m->part, m->own[0]), *row = row_of(g, m);
        text_printf(t, "split %s by %lld -> %s.cb_ %s.cr_ peel 1\n", col, (long long)g->height, a, a);
        text_printf(t, "order %s.cb_ %s.b_ %s %s.cr_ %s.r_ %s.l_\n", a, a, sums, a, a, a);
        hold_rows(m, t, whole);
        text_printf(t, "run %s.cr_ %s.r_ unroll\nrun %s.l_ vector\n", a, a, a);
        text_printf(t, "stage %s.lhs at task -> %s.rows scratch of %s %s\n", a, a, sums, row);
        text_printf(t, "stage %s.rows at %s -> %s.col reg of %s.r_\n", a, axis_name(g->w, m->part, m->sum[m->nsum - 1]), a, a);
    } else if (m->reduce && whole) {         /* four sums of their own, so that none waits for the one before */
        const char *last = axis_name(g->w, m->part, m->sum[m->nsum - 1]);
        text_printf(t, "split %s by 4 -> %s.sb_ %s.su_\n", last, a, a);
        text_printf(t, "order %s %s.b_ %s %s.sb_ %s.su_ %s.r_ %s.l_\n", own_of(g, m), a, axis_names(g->w, m->part, m->sum, m->nsum - 1), a, a, a, a);
        text_printf(t, "hold %s at %s.b_ -> %s.acc reg over %s.su_\nrun %s.su_ %s.r_ unroll\nrun %s.l_ vector\n", a, a, a, a, a, a, a);
    } else if (m->reduce) {
        text_printf(t, "order %s %s.b_ %s %s.r_ %s.l_\n", own_of(g, m), a, sums, a, a);
        hold_rows(m, t, whole);
        text_printf(t, "run %s.r_ unroll\nrun %s.l_ vector\n", a, a);
    } else {
        text_printf(t, "order %s %s.b_ %s.r_ %s.l_\n", own_of(g, m), a, a, a);
        text_printf(t, "%srun %s.l_ vector\n", whole ? arena_printf(g->w->a, "run %s.r_ unroll\n", a) : "", a);
    }
    if (m->reduce && !whole && !is_online(g, m))
        text_printf(t, "run %s.sums.fin.%s.l_ vector\n", a, a);
}

static void
write_last(const Group *g, Text *t)
{
    const Member *m = &g->member[g->n - 1];
    const char *a = m->name, *sums = axis_names(g->w, m->part, m->sum, m->nsum), *col = axis_name(g->w, m->part, m->own[0]);
    int64_t columns = expr_or(m->n->axis[m->own[0]].extent, -1), vectors = g->vectors;

    while (vectors > 1 && (columns < 0 || columns % (vectors * g->lanes)))
        vectors--;                           /* what is left of the columns has to be known to be held in registers */
    text_printf(t, "split ir by %lld -> irb irr peel 1\n", (long long)g->height);
    text_printf(t, "split %s by %lld -> %s.b_ %s.v_\n", col, (long long)(vectors * g->lanes), a, a);
    text_printf(t, "split %s.v_ by %lld -> %s.r_ %s.l_\n", a, (long long)g->lanes, a, a);
    if (g->block) {
        const char *last = cut_blocks(g, m, t);
        text_printf(t, "order %s.kb_ %s.b_ irb %s irr %s.r_ %s.l_\nhold %s at task -> %s.sums scratch\n", a, a, last, a, a, a, a);
    } else {
        text_printf(t, "order %s.b_ irb %s irr %s.r_ %s.l_\n", a, sums, a, a);
    }
    text_printf(t, "hold %s at irb -> %s.acc reg\nrun irr %s.r_ unroll\nrun %s.l_ vector\n", a, a, a, a);
    if (g->block)
        text_printf(t, "run %s.sums.fin.%s.l_ vector\nrun %s.sums.init.%s.l_ vector\n", a, a, a, a);
}

static void
put_member(const Group *g, const Member *m, Text *t, const char *at)
{
    text_printf(t, "put %s at %s scratch of %s %s\n", m->name, at, own_of(g, m), row_of(g, m));
}

/* A tile of so many rows. */
static void
write_tile(const Group *g, int64_t rows)
{
    const Member *last = &g->member[g->n - 1];
    Text t = { .arena = g->w->a };
    bool whole = g->nrows >= 0 && g->nrows % rows == 0;

    text_printf(&t, "split %s by %lld -> ib ir guard\nfuse %s ib -> task\n", g->rows, (long long)rows, g->outer);
    for (const Member *m = g->member; m < last; m++)
        put_member(g, m, &t, "task");
    for (const Member *m = g->member; m < last; m++)
        if (!g->block || is_online(g, m))
            write_member(g, m, &t, whole);
    write_last(g, &t);
    if (g->block) {
        text_printf(&t, "online %s.kb_", g->max->name);
        for (const Member *m = g->member; m <= last; m++)
            if (m != g->max && is_online(g, m))
                text_printf(&t, " %s.kb_", m->name);
        text_add(&t, " -> kb\n");
        for (const Member *m = last; m-- > g->member; )
            if (!is_online(g, m))
                put_member(g, m, &t, "kb");
        for (const Member *m = g->member; m < last; m++)
            if (!is_online(g, m))
                write_member(g, m, &t, whole);
    }
    text_add(&t, "run task parallel\n");
    write_program(g->w, &t);
}

/* Blocks of the rows, if what lies between has the form for it: a maximum, what is made with it, and sums of that. Whether
 * it has, the step says. */
static void
write_blocks(Group *g, int64_t rows)
{
    const Member *last = &g->member[g->n - 1];

    for (const Member *m = g->member; m < last; m++)
        if (m->reduce && m->reduce->u.reduce.combiner == COMB_MAX && m->nsum == 1)
            g->max = m;
    int64_t keys = g->max ? expr_or(g->max->n->axis[g->max->sum[0]].extent, INT64_MAX) : 0;
    for (int64_t least = 64; g->max && last->nsum == 1 && least <= 256 && least < keys; least *= 2) {
        g->block = (least + g->height - 1) / g->height * g->height;      /* whole tiles of the product before */
        write_tile(g, rows);
    }
    g->block = 0;
}

bool
write_group(Draft *w)
{
    const Machine *m = w->p->m;
    Group g = { .w = w };

    if (!recognise(&g))
        return false;
    g.lanes = machine_lanes(m, DT_F32);
    /* Accumulators, a row of vectors and one broadcast fill the registers: the flattest tile that keeps the loads below
     * the multiply-adds. */
    g.vectors = m->vector_registers >= 32 ? 4 : 2;
    g.height = (m->vector_registers - g.vectors - 1) / g.vectors;
    for (int64_t tiles = 1; tiles <= 4; tiles *= 2)
        if (tiles == 1 || g.nrows < 0 || g.nrows >= tiles * g.vectors * g.lanes)
            write_tile(&g, tiles * g.vectors * g.lanes);
    for (int64_t tiles = 1; tiles <= 4; tiles *= 2)
        if (tiles == 1 || g.nrows < 0 || g.nrows >= tiles * g.vectors * g.lanes)
            write_blocks(&g, tiles * g.vectors * g.lanes);
    return true;
}
