/* write_two_sided: two sums over short axes, one of the other's results: a square transformed along
 * both of its axes, with channels innermost.
 *
 *     t[n, y, a, z, c]    = sum p: b[a, p] * x[n, m*y + p, z, c]
 *     v[a, e, n, y, z, c] = sum p: b[e, p] * t[n, y, a, m*z + p, c]
 *
 * A task is a row of squares: for some channels at a time the first sums are computed, for all of
 * their rows (a), and are in a cache when the second ones read them. Sums, summands and rows of
 * both are unrolled; lanes are channels. If a window reads the second sums, within squares, each
 * square is computed at its reader:
 *
 *     l[n, y, u, z, v, c] = max r, s: o[n, y, 2*u + r, z, 2*v + s, c]
 */
#include "schedule/write.h"

/* A sum over a short axis: rows of a matrix times an operand with all other axes. */
typedef struct {
    Low *l;
    const char *name;        /* its result */
    const Scalar *moving;    /* the other operand */
    uint32_t row, sum, lane; /* axes */
    int64_t rows;
} Small;

typedef struct {
    Draft *w;
    Small part[2];
    const Scalar *read;                    /* the second one's read of the first one's result */
    uint32_t outer[NEST_MAX_AXES], nouter; /* of the second one: squares that tasks split … */
    /* … and the others, innermost of them the first one's rows */
    uint32_t inner[NEST_MAX_AXES], ninner;
    /* of the first one: axes with more than one point in a task */
    uint32_t box[NEST_MAX_AXES], nbox;
    const char *window; /* the window's result; NULL: none */
    /* its axes: as `outer`; that index a square … */
    uint32_t w_outer[NEST_MAX_AXES], nw_outer, w_square[NEST_MAX_AXES], nw_square;
    /* … and points in a square */
    uint32_t w_inside[NEST_MAX_AXES], nw_inside, w_sum[NEST_MAX_AXES], nw_sum, w_lane;
} Tiles;

enum { MOST_PARTS = 3 }; /* two sums, and a window in them */
/* unrolled rows, and unrolled summands; bounds code: larger squares are ordinary contractions */
enum { MOST_ROWS = 16 };

static bool
is_matrix(const Low *l, const Scalar *s, Small *m)
{
    if (s->op != S_LOAD || s->u.load.rank != 2 || s->u.load.outside ||
        l->part->buffer[s->u.load.slot] >= l->k->nin)
        return false;
    m->row = axis_of(s->u.load.at[0]);
    m->sum = axis_of(s->u.load.at[1]);
    if (m->row == NO_SLOT || m->sum == NO_SLOT)
        return false;
    m->rows = expr_or(l->n->axis[m->row].extent, 0);
    int64_t depth = expr_or(l->n->axis[m->sum].extent, 0);
    return m->rows > 0 && m->rows <= MOST_ROWS && depth > 0 && depth <= MOST_ROWS;
}

static bool
find_small(Draft *w, uint32_t part, Small *m)
{
    Contraction view;

    m->l = draft_low(w, part);
    const Nest *n = m->l->n;
    if (n->nwrite != 1 || n->write[0].combiner != COMB_NONE || !nest_contraction(w->c, n, &view) ||
        dtype_info[view.reduce->dtype].bytes != 4 || !is_matrix(m->l, view.a, m) ||
        view.b->op != S_LOAD)
        return false;
    const Write *out = &n->write[0];
    uint32_t rank = n->param[out->out].type->rank;
    m->moving = view.b;
    m->name = part_name(w->p, part);
    if (!rank || view.sum != (AxisSet)1 << m->sum || view.row != (AxisSet)1 << m->row ||
        (view.batch & view.a->axes))
        return false;
    m->lane = axis_of(out->at[rank - 1]);
    if (m->lane == NO_SLOT)
        return false;
    const Expr *stride = low_stride(m->l, view.b, m->lane);
    return m->lane != m->row && stride && expr_is(stride, 1);
}

/* The axis of the first part that is dimension d of its result; NO_SLOT: none. */
static uint32_t
made_at(const Tiles *t, uint32_t d)
{
    return axis_of(t->part[0].l->n->write[0].at[d]);
}

/* Tasks split axes of squares that index one point of the first part; the second part's other axes
 * are inside. */
static void
sort_axes(Tiles *t)
{
    const Small *first = &t->part[0], *second = &t->part[1];
    const Nest *n = second->l->n;
    AxisSet inside = 0, rows = 0;

    for (uint32_t d = 0; d < t->read->u.load.rank; d++) {
        const Expr *e = t->read->u.load.at[d];
        uint32_t made = made_at(t, d);
        if (made == first->row)
            rows |= expr_axes(e);
        if (axis_of(e) == NO_SLOT || made == first->row)
            inside |= expr_axes(e);
    }
    for (int pass = 0; pass < 2; pass++) /* what indexes the first one's rows is last */
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
        bool one = axis_bit(t->read->u.load.at[d]) & ~inside & ~((AxisSet)1 << second->sum);
        if (made != NO_SLOT && made != first->row && made != first->lane && !one &&
            !expr_is(first->l->n->axis[made].extent, 1))
            t->box[t->nbox++] = made;
    }
}

/* The third part's axes, by those of the second one that they index. */
static bool
find_window(Tiles *t)
{
    const Kernel *k = t->w->p->k;
    const Small *second = &t->part[1];
    const Scalar *reduce = part_reduction(t->w->p, 2);
    const Nest *n = k->part[2].nest, *made = second->l->n;
    uint32_t local = k->part[1].buffer[made->nin];
    Var v, m;

    if (!reduce || n->nwrite != 1 || n->write[0].combiner != COMB_NONE ||
        k->buffer.at[local].space != SPACE_LOCAL)
        return false;
    const Scalar *load = value_reads(t->w->p, 2, reduce->arg[0], local);
    if (!load || load->u.load.outside)
        return false;
    t->nw_sum = axis_list(reduce->u.reduce.axes, t->w_sum);
    t->w_lane = NO_SLOT;
    for (uint32_t d = 0; d < load->u.load.rank; d++) {
        const Expr *at = load->u.load.at[d];
        if (!expr_is_var(made->write[0].at[d], &m) || m.kind != VAR_AXIS || !expr_is_var(at, &v) ||
            n->axis[v.id].kind != AXIS_PARALLEL)
            continue;
        if (m.id == second->lane)
            t->w_lane = (uint32_t)v.id;
        else if (in_list(t->outer, t->nouter, (uint32_t)m.id))
            t->w_outer[t->nw_outer++] = (uint32_t)v.id;
        else if (m.id != second->row && in_list(t->inner, t->ninner, (uint32_t)m.id))
            t->w_square[t->nw_square++] = (uint32_t)v.id;
    }
    for (uint32_t x = 0; x < n->naxis; x++)
        if (n->axis[x].kind == AXIS_PARALLEL && x != t->w_lane &&
            !in_list(t->w_outer, t->nw_outer, x) && !in_list(t->w_square, t->nw_square, x))
            t->w_inside[t->nw_inside++] = x;
    t->window = part_name(t->w->p, 2);
    return t->w_lane != NO_SLOT && t->nw_outer && t->nw_square <= 1;
}

static bool
recognise(Tiles *t)
{
    Draft *w = t->w;
    const Kernel *k = w->p->k;
    uint32_t local;

    if (k->npart < 2 || k->npart > MOST_PARTS || k->shared || !find_small(w, 0, &t->part[0]) ||
        !find_small(w, 1, &t->part[1]))
        return false;
    local = k->part[0].buffer[k->part[0].nest->nin];
    t->read = t->part[1].moving;
    if (k->buffer.at[local].space != SPACE_LOCAL ||
        k->part[1].buffer[t->read->u.load.slot] != local)
        return false;
    sort_axes(t);
    return t->nouter > 0 && (k->npart == 2 || find_window(t));
}

/* The loops of the last part, `vectors` of channels at a time, outermost first: squares that tasks
 * split, channels, other squares. */
static void
write_outside(const Tiles *t, Text *out, int64_t vectors, int64_t lanes)
{
    Draft *w = t->w;
    uint32_t part = t->window ? 2 : 1;
    const char *outer = t->window ? axis_names(w, 2, t->w_outer, t->nw_outer)
                                  : axis_names(w, 1, t->outer, t->nouter);
    const char *inner = t->window ? axis_names(w, 2, t->w_square, t->nw_square)
                                  : axis_names(w, 1, t->inner, t->ninner);
    const char *place =
        t->window ? axis_names(w, 2, t->w_inside, t->nw_inside) : axis_name(w, 1, t->part[1].row);
    const char *sums =
        t->window ? axis_names(w, 2, t->w_sum, t->nw_sum) : axis_name(w, 1, t->part[1].sum);

    text_printf(out, "split %s by %lld -> cb_ cv_\n",
                axis_name(w, part, t->window ? t->w_lane : t->part[1].lane),
                (long long)(vectors * lanes));
    text_printf(out, "order %s cb_ %s %s %s cv_\nfuse %s -> task\n", outer, inner, place, sums,
                outer);
    if (!t->window)
        return;
    text_printf(out, "put %s at %s\nsplit cv_ by %lld -> wr_ wl_\norder %s %s wr_ wl_\n",
                t->part[1].name, t->nw_square ? inner : "cb_", (long long)lanes, place, sums);
    text_printf(out, "hold %s at %s -> wacc reg\nrun %s wr_ unroll\nrun wl_ vector\n", t->window,
                t->nw_inside   ? axis_name(w, 2, t->w_inside[t->nw_inside - 1])
                : t->nw_square ? inner
                               : "cb_",
                sums);
}

/* Tiles of `vectors` of channels; a task has all channels. */
static void
write_numbers(Tiles *t, int64_t vectors)
{
    Draft *w = t->w;
    const Small *first = &t->part[0], *second = &t->part[1];
    int64_t lanes = low_lanes(second->l, second->moving->dtype),
            most = tile_height(w->p->m, vectors), rows = even_height(second->rows, most);
    int64_t made = even_height(first->rows, most);
    Text out = { .arena = w->a };

    write_outside(t, &out, vectors, lanes);
    text_printf(&out, "put %s at cb_\n", first->name);
    const char *row = axis_name(w, 1, second->row), *sum = axis_name(w, 1, second->sum),
               *p = axis_name(w, 0, first->sum), *c = axis_name(w, 0, first->lane);
    uint32_t place[NEST_MAX_AXES], nplace = 0;
    for (uint32_t i = 0; i < t->ninner; i++)
        if (!t->window || i + 1 == t->ninner)
            place[nplace++] = t->inner[i]; /* the others are squares of the window */
    text_printf(&out, "split %s by %lld -> cr_ cl_\n",
                t->window ? axis_name(w, 1, second->lane) : "cv_", (long long)lanes);
    text_printf(&out, "split %s by %lld -> eo_ er_\n", row, (long long)rows);
    text_printf(&out, "order %s eo_ %s er_ cr_ cl_\n", axis_names(w, 1, place, nplace), sum);
    text_printf(&out,
                "hold %s at eo_ -> acc reg\nrun %s er_ cr_ unroll\nrun cl_ vector\nstage %s.rhs at "
                "%s -> col reg of cr_\n",
                second->name, sum, second->name, sum);
    text_printf(&out, "split %s by %lld -> tr_ tl_\nsplit %s by %lld -> to_ ti_\n", c,
                (long long)lanes, axis_name(w, 0, first->row), (long long)made);
    text_printf(&out, "order %s to_ %s ti_ tr_ tl_\n", axis_names(w, 0, t->box, t->nbox), p);
    text_printf(&out,
                "hold %s at to_ -> tacc reg\nrun %s ti_ tr_ unroll\nrun tl_ vector\nstage %s.rhs "
                "at %s -> tcol reg of tr_\nrun task parallel\n",
                first->name, p, first->name, p);
    write_program(w, &out);
}

void
write_two_sided(Draft *w)
{
    Tiles t = { .w = w };

    if (!recognise(&t))
        return;
    int64_t lanes = low_lanes(t.part[1].l, t.part[1].moving->dtype),
            channels = expr_or(low_extent(t.part[1].l, t.part[1].lane), -1);
    for (int64_t vectors = 1; vectors <= 2; vectors++)
        if (channels > 0 && channels % (vectors * lanes) == 0)
            write_numbers(&t, vectors);
}
