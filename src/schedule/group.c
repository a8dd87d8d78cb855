/* group: the parts of a group, and the loops they share. */
#include "schedule/group.h"

static bool
recognise_member(const Group *g, uint32_t part, GroupMember *m)
{
    const Points *p = g->w->p;
    const Part *k = &p->k->part[part];
    const Nest *n = k->nest;
    uint32_t seen = 0;

    *m = (GroupMember){ .part = part,
                        .n = n,
                        .l = draft_low(g->w, part),
                        .name = part_name(p, part),
                        .reduce = part_reduction(p, part),
                        .head = NEST_MAX_AXES };
    m->product = nest_contraction(g->w->c, n, &m->view);
    for (uint32_t x = 0; x < n->naxis; x++) {
        if (axis_varies(&n->axis[x]) || expr_is(n->axis[x].extent, 0))
            return false;
        if (n->axis[x].kind == AXIS_REDUCE) {
            m->sum[m->nsum++] = x;
        } else if (++seen > p->k->shared) {
            m->own[m->nown++] = x;
        } else {
            m->head = seen > 1 ? m->row : NEST_MAX_AXES;
            m->row = x;
        }
    }
    if (n->nwrite != 1 || n->write[0].combiner != COMB_NONE || nest_axes_of_kind(n, AXIS_SCAN) ||
        dtype_info[n->param[n->nin].type->dtype].bytes != 4 ||
        (m->reduce && m->reduce->u.reduce.combiner > COMB_MIN))
        return false;
    /* The rows are one side of a contraction, which has the output's own columns on the other side.
     * An axis of one point is on neither side. */
    bool one = m->product && expr_is(n->axis[m->row].extent, 1) && !(m->view.b->axes >> m->row & 1);
    return !m->product || ((one || m->view.row >> m->row & 1) && m->nown == 1 &&
                           !(m->view.a->axes >> m->own[0] & 1));
}

/* The number of heads per row whose contractions all read the same other operand; 1: they do not,
 * or the number is unknown. */
static int64_t
shared_heads(const Group *g)
{
    const GroupMember *last = &g->member[g->n - 1];
    bool alike = last->head != NEST_MAX_AXES;

    for (const GroupMember *m = g->member; m <= last && alike; m++)
        alike = !m->product || (m->view.row >> m->head & 1);
    return alike ? expr_or(last->n->axis[last->head].extent, 1) : 1;
}

bool
group_of(Draft *w, Group *g)
{
    const Kernel *k = w->p->k;
    uint32_t outer[NEST_MAX_AXES], n = 0, products = 0;

    *g = (Group){ .w = w };
    if (k->npart < 2 || !k->shared)
        return false;
    g->n = k->npart;
    g->member = NEW_ARRAY(g->w->a, GroupMember, g->n);
    for (uint32_t i = 0; i < g->n; i++) {
        if (!recognise_member(g, i, &g->member[i]))
            return false;
        products += g->member[i].product;
        if (i + 1 < g->n &&
            k->buffer.at[k->part[i].buffer[g->member[i].n->nin]].space != SPACE_LOCAL)
            return false;
    }
    const GroupMember *last = &g->member[g->n - 1];
    if (!products)
        return false;
    for (uint32_t x = 0; n + 2 < k->shared; x++)
        if (last->n->axis[x].kind == AXIS_PARALLEL)
            outer[n++] = x;
    g->outer = axis_names(g->w, g->n - 1, outer, n);
    g->around = last->head == NEST_MAX_AXES ? "" : axis_name(g->w, g->n - 1, last->head);
    g->heads = shared_heads(g);
    g->rows = axis_name(g->w, g->n - 1, last->row);
    g->nrows = expr_or(last->n->axis[last->row].extent, -1);
    return true;
}

const char *
group_row(const Group *g, const GroupMember *m)
{
    return box_name(g->w, m->part, m->row);
}

const char *
group_own(const Group *g, const GroupMember *m)
{
    return axis_names(g->w, m->part, m->own, m->nown);
}

const char *
group_heads(const Group *g, const GroupMember *m, bool together)
{
    bool here = g->how != HEADS_SEPARATE && (g->how == HEADS_FUSED) == together;
    return here ? arena_printf(g->w->a, "%s ", box_name(g->w, m->part, m->head)) : "";
}

const char *
group_last_heads(const Group *g, bool together)
{
    bool here = g->how != HEADS_SEPARATE && (g->how == HEADS_FUSED) == together;
    return here ? arena_printf(g->w->a, "%s ", g->around) : "";
}

bool
group_may(const Group *g)
{
    return g->how == HEADS_SEPARATE ||
           (g->heads > 1 && (g->how == HEADS_INSIDE || g->heads <= g->height));
}

int64_t
group_in_task(const Group *g)
{
    return g->how == HEADS_SEPARATE ? 1 : g->heads;
}

int64_t
group_in_tile(const Group *g)
{
    return g->how == HEADS_FUSED ? g->heads : 1;
}

void
group_write_task(const Group *g, Text *t, int64_t rows)
{
    text_printf(t, "split %s by %lld -> ib ir %s\n", g->rows, (long long)rows,
                g->nrows >= 0 && g->nrows % rows == 0 ? "exact" : "guard");
    if (g->how == HEADS_SEPARATE)
        text_printf(t, "fuse %s %s ib -> task\n", g->outer, g->around);
    else
        text_printf(t, "order ib %s ir\nfuse %s ib -> task\n", g->around, g->outer);
}

void
group_write_transposed(const Group *g, const GroupMember *m, Text *t, const char *operand,
                       const char *copy, const char *across)
{
    const char *a = m->name, *c = arena_printf(g->w->a, "%s.%s", a, copy),
               *along = axis_name(g->w, m->part, m->sum[m->nsum - 1]);

    write_steps(t, a, "split %s.%s by %lld -> @.pv_ @.pl_\n", c, across, (long long)g->lanes);
    write_steps(t, a, "split %s.%s by %lld -> @.kv_ @.kl_\n", c, along, (long long)g->lanes);
    write_steps(t, a, "order %s.@.pv_ %s.@.kv_ %s.@.kl_ %s.@.pl_\n", c, c, c, c);
    write_steps(t, a, "run %s.@.kl_ unroll\nrun %s.@.pl_ vector\n", c, c);
    write_steps(t, a, "stage @.%s at %s.@.kv_ -> @.tile reg of @.pl_ @.kl_ turned\n", operand, c);
}
