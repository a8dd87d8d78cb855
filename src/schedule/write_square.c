/* write_square: two sums over short axes, one of what the other makes: a square transformed along both of its axes, channels being
 * neighbours.
 *
 *     t[n, y, a, z, c] = sum p: b[a, p] * x[n, m*y + p, z, c]              u = m outputs or points along one axis
 *     v[a, e, n, y, z, c] = sum p: b[e, p] * t[n, y, a, m*z + p, c]
 *
 * A task is some channels of a row of squares: the first sums are put there, for all rows (a) that they have, and lie in a cache
 * when the second ones read them. Sums, summands and rows of both are written out; lanes are channels.
 */
#include "schedule/write.h"

/* A sum over a short axis: rows of a matrix times something that has all other axes. */
typedef struct {
    Low *l;
    const char *name;                /* of what it makes */
    const Scalar *moving;            /* the other operand */
    uint32_t row, sum, lane;         /* axes */
    int64_t rows;
} Small;

typedef struct {
    Draft *w;
    Small part[2];
    const Scalar *read;              /* of what the first one makes, by the second one */
    uint32_t outer[NEST_MAX_AXES], nouter;       /* of the second one: squares of a task's own … */
    uint32_t inner[NEST_MAX_AXES], ninner;       /* … and the others, what the first one's rows are last */
    uint32_t box[NEST_MAX_AXES], nbox;           /* of the first one: axes that have more than one point in a task */
} Tiles;

enum { MOST_ROWS = 16 };             /* that are written out, and as many summands */

static bool
is_matrix(const Low *l, const Scalar *s, Small *m)
{
    Var v[2];

    if (s->op != S_LOAD || s->u.load.rank != 2 || s->u.load.outside || l->part->buffer[s->u.load.slot] >= l->k->nin)
        return false;
    for (int i = 0; i < 2; i++)
        if (!expr_is_var(s->u.load.at[i], &v[i]) || v[i].kind != VAR_AXIS)
            return false;
    m->row = (uint32_t)v[0].id;
    m->sum = (uint32_t)v[1].id;
    m->rows = expr_or(l->n->axis[m->row].extent, 0);
    int64_t depth = expr_or(l->n->axis[m->sum].extent, 0);
    return m->rows > 0 && m->rows <= MOST_ROWS && depth > 0 && depth <= MOST_ROWS;
}

static bool
find_small(Draft *w, uint32_t part, Small *m)
{
    Contraction view;
    Var v;

    m->l = NEW(w->a, Low);
    *m->l = low_part(w->c, w->a, w->p->k, w->p->m, &w->p->k->part[part]);
    const Nest *n = m->l->n;
    if (n->nwrite != 1 || n->write[0].combiner != COMB_NONE || !nest_contraction(w->c, n, &view) || dtype_info[view.reduce->dtype].bytes != 4 ||
        !is_matrix(m->l, view.a, m) || view.b->op != S_LOAD)
        return false;
    const Write *out = &n->write[0];
    uint32_t rank = n->param[out->out].type->rank;
    m->moving = view.b;
    m->name = part_name(w->p, part);
    if (!rank || view.sum != (AxisSet)1 << m->sum || view.row != (AxisSet)1 << m->row || (view.batch & scalar_axes(w->c, view.a)) || !expr_is_var(out->at[rank - 1], &v) || v.kind != VAR_AXIS)
        return false;
    m->lane = (uint32_t)v.id;
    const Expr *stride = low_stride(m->l, view.b, m->lane);
    return m->lane != m->row && stride && expr_is(stride, 1);
}

/* The axis of the first part that dimension d of its value is; NO_SLOT: none. */
static uint32_t
made_at(const Tiles *t, uint32_t d)
{
    const Nest *n = t->part[0].l->n;
    Var v;
    return expr_is_var(n->write[0].at[d], &v) && v.kind == VAR_AXIS ? (uint32_t)v.id : NO_SLOT;
}

/* Squares whose place is one point of what is put are a task's own; the rest of the second part's axes goes inside. */
static void
sort_axes(Tiles *t)
{
    const Small *first = &t->part[0], *second = &t->part[1];
    const Nest *n = second->l->n;
    AxisSet inside = 0, rows = 0;
    Var v;

    for (uint32_t d = 0; d < t->read->u.load.rank; d++) {
        const Expr *e = t->read->u.load.at[d];
        bool bare = expr_is_var(e, &v) && v.kind == VAR_AXIS;
        uint32_t made = made_at(t, d);
        if (made == first->row)
            rows |= expr_axes(e);
        if (!bare || made == first->row)
            inside |= expr_axes(e);
    }
    for (int pass = 0; pass < 2; pass++)             /* what the first one's rows are stands last */
        for (uint32_t x = 0; x < n->naxis; x++) {
            if (n->axis[x].kind != AXIS_PARALLEL || x == second->row || x == second->lane)
                continue;
            if (!(inside >> x & 1) && pass == 0)
                t->outer[t->nouter++] = x;
            if ((inside >> x & 1) && (rows >> x & 1) == (pass == 1))
                t->inner[t->ninner++] = x;
        }
    for (uint32_t d = 0; d < t->read->u.load.rank; d++) {
        uint32_t made = made_at(t, d);
        bool one = expr_is_var(t->read->u.load.at[d], &v) && v.kind == VAR_AXIS && !(inside >> v.id & 1) && v.id != second->sum;
        if (made != NO_SLOT && made != first->row && made != first->lane && !one && !expr_is(first->l->n->axis[made].extent, 1))
            t->box[t->nbox++] = made;
    }
}

static bool
recognise(Tiles *t)
{
    Draft *w = t->w;
    const Kernel *k = w->p->k;
    uint32_t local;

    if (k->npart != 2 || k->shared || !find_small(w, 0, &t->part[0]) || !find_small(w, 1, &t->part[1]))
        return false;
    local = k->part[0].buffer[k->part[0].nest->nin];
    t->read = t->part[1].moving;
    if (k->buffer.at[local].space != SPACE_LOCAL || k->part[1].buffer[t->read->u.load.slot] != local)
        return false;
    sort_axes(t);
    return t->nouter > 0;
}

/* The rows of a register tile, as even as can be. */
static int64_t
tile_rows(const Machine *m, int64_t rows, int64_t vectors)
{
    int64_t most = (m->vector_registers - vectors - 1) / vectors, tiles = (rows + most - 1) / most;
    return (rows + tiles - 1) / tiles;
}

/* Tiles of `vectors` of channels; a task is all channels (0), or each of these. */
static void
write_numbers(Tiles *t, int64_t vectors, bool apart)
{
    Draft *w = t->w;
    const Small *first = &t->part[0], *second = &t->part[1];
    int64_t lanes = low_lanes(second->l, second->moving->dtype), rows = tile_rows(w->p->m, second->rows, vectors);
    int64_t made = tile_rows(w->p->m, first->rows, vectors);
    const char *outer = axis_names(w, 1, t->outer, t->nouter), *inner = axis_names(w, 1, t->inner, t->ninner), *channel = axis_name(w, 1, second->lane);
    const char *row = axis_name(w, 1, second->row), *sum = axis_name(w, 1, second->sum), *p = axis_name(w, 0, first->sum), *c = axis_name(w, 0, first->lane);
    Text out = { .arena = w->a };

    text_printf(&out, "split %s by %lld -> cb_ cv_\nsplit cv_ by %lld -> cr_ cl_\n", channel, (long long)(vectors * lanes), (long long)lanes);
    text_printf(&out, "split %s by %lld -> eo_ er_\n", row, (long long)rows);
    text_printf(&out, "order %s cb_ %s eo_ %s er_ cr_ cl_\n", outer, inner, sum);
    text_printf(&out, "fuse %s%s -> task\nput %s at %s\n", outer, apart ? " cb_" : "", first->name, apart ? "task" : "cb_");
    text_printf(&out, "hold %s at eo_ -> acc reg\nrun %s er_ cr_ unroll\nrun cl_ vector\nstage %s.rhs at %s -> col reg of cr_\n", second->name, sum,
                second->name, sum);
    text_printf(&out, "split %s by %lld -> tr_ tl_\nsplit %s by %lld -> to_ ti_\n", c, (long long)lanes, axis_name(w, 0, first->row), (long long)made);
    text_printf(&out, "order %s to_ %s ti_ tr_ tl_\n", axis_names(w, 0, t->box, t->nbox), p);
    text_printf(&out, "hold %s at to_ -> tacc reg\nrun %s ti_ tr_ unroll\nrun tl_ vector\nstage %s.rhs at %s -> tcol reg of tr_\nrun task parallel\n", first->name, p,
                first->name, p);
    write_program(w, &out);
}

bool
write_square(Draft *w)
{
    Tiles t = { .w = w };

    if (!recognise(&t))
        return false;
    int64_t lanes = low_lanes(t.part[1].l, t.part[1].moving->dtype), channels = expr_or(low_extent(t.part[1].l, t.part[1].lane), -1);
    for (int64_t vectors = 1; vectors <= 2; vectors++)
        for (int apart = 0; apart < 2; apart++)
            if (channels > 0 && channels % (vectors * lanes) == 0)
                write_numbers(&t, vectors, apart);
    return w->program.n > 0;
}
