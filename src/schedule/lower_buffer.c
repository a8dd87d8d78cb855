/* lower_buffer: the memory and registers of holds, copies and intermediate tensors. */
#include "schedule/lower.h"

#include <string.h>

/* ---- buffers --------------------------------------------------------------------------------- */

bool
hold_is_over(const Hold *h, IterId x)
{
    for (uint32_t i = 0; i < h->nover; i++)
        if (h->over[i] == x)
            return true;
    return false;
}

/* Merges two pieces of one iterator: a buffer in memory needs no finer index. */
static void
join_pieces(const Points *p, Hold *h)
{
    for (uint32_t i = 0; i < h->ndim; i++)
        for (uint32_t k = 0; k < h->ndim; k++) {
            const Iter *it = &p->iter.at[h->dim[i]];
            if (!it->parent || it->inner || it->sibling != h->dim[k] ||
                hold_is_over(h, h->dim[i]) || hold_is_over(h, h->dim[k]))
                continue;
            h->dim[k] = it->parent;
            memmove(h->dim + i, h->dim + i + 1, (--h->ndim - i) * sizeof *h->dim);
            i = k = UINT32_MAX; /* start over: it may be a piece too */
            break;
        }
}

/* The iterations of x in the current sums, if that is a number: registers are named one by one, so
 * none is unused. */
static const Expr *
sum_extent(Env *e, IterId x)
{
    Phase before = e->phase;

    e->phase = PHASE_UPDATE;
    const Expr *here = env_extent(e, x);
    e->phase = before;
    return expr_const(here, NULL) ? here : env_most(e, x);
}

/* Spare rows after the last one: a vector at its begin may extend beyond it, over several rows if
 * those are short. */
static int64_t
spare_rows(const Env *e, DType t, const Expr *const *extent, uint32_t ndim)
{
    int64_t lanes = machine_lanes(e->p->m, t), row = 1, one;

    for (uint32_t d = 1; d < ndim; d++)
        row = expr_const(extent[d], &one) && row < lanes ? row * (one > 0 ? one : 1) : lanes;
    return (lanes + row - 1) / row;
}

/* A buffer over iterators; in memory, with padding after its last row. */
static uint32_t
new_buffer(Env *e, Block *b, Sym name, DType t, Word space, const IterId *dim, uint32_t ndim,
           uint32_t lanes, bool odd)
{
    const Expr *extent[STEP_MAX_LOOPS + 1];
    int64_t last;

    for (uint32_t d = 0; d < ndim; d++)
        extent[d] = space == WORD_reg ? sum_extent(e, dim[d]) : env_most(e, dim[d]);
    if (space == WORD_scratch && ndim > 1)
        extent[0] = expr_offset(e->c, extent[0], spare_rows(e, t, extent, ndim));
    else if (space == WORD_scratch && ndim == 1)
        extent[0] = expr_offset(e->c, extent[0], machine_lanes(e->p->m, t));
    if (odd && ndim) {
        int64_t line = e->p->m->line_bytes / dtype_info[t].bytes;
        extent[ndim - 1] = expr_const(extent[ndim - 1], &last)
                               ? expr_int(e->c, ((last + line - 1) / line | 1) * line)
                               : expr_offset(e->c, extent[ndim - 1], line);
    }
    uint32_t buffer = kernel_buffer(e->c, e->a, e->k, name, type_new(e->c, t, ndim, extent),
                                    space == WORD_reg ? SPACE_REGISTER : SPACE_SCRATCH, lanes);
    tree_buffer(b, buffer);
    return buffer;
}

void
place_hold(Env *e, Block *b, uint32_t id)
{
    Hold *h = &e->p->hold.at[id];
    const Scalar *reduce = part_reduction(e->p, h->part);
    DType t = (reduce ? reduce : part_previous(e->p, h->part))->dtype;

    h->ndim = 0;
    h->lanes = 1;
    h->over_lanes = false;
    for (const LoopNode *n = h->update->up; n != h->at; n = n->up) {
        bool over = hold_is_over(h, n->iter);
        if (!n->iter || (env_iter(e, n->iter)->kind != AXIS_PARALLEL && !over))
            continue;
        if (n->run == WORD_vector && h->space == WORD_reg) {
            h->lanes = (uint32_t)env_iter(e, n->iter)->factor;
            h->over_lanes = over;
            continue;
        }
        if (h->ndim == STEP_MAX_LOOPS) {
            points_refuse(e->p, "%s: more than %d loops index it", h->name, STEP_MAX_LOOPS);
            return;
        }
        memmove(h->dim + 1, h->dim, h->ndim++ * sizeof *h->dim);
        h->dim[0] = n->iter;
    }
    if (h->space == WORD_scratch)
        join_pieces(e->p, h);
    h->buffer = new_buffer(e, b, h->name, t, h->space, h->dim, h->ndim, h->lanes, false);
    if (reduce && reduce->narg > 1)
        h->place = new_buffer(e, b, h->name, reduce->arg[1]->dtype, h->space, h->dim, h->ndim,
                              h->lanes, false);
}

void
place_copy(Env *e, Block *b, uint32_t id)
{
    Copy *c = &e->p->copy.at[id];

    if (c->image) {
        place_input_tile(e, b, c);
        return;
    }
    c->lanes = 1;
    for (const LoopNode *n = c->leaf->up; n != c->at; n = n->up)
        if (n->run == WORD_vector && c->space == WORD_reg)
            c->lanes = (uint32_t)env_iter(e, n->iter)->factor;
    if (c->transposed) {
        place_tile(e, b, c);
        return;
    }
    c->buffer =
        new_buffer(e, b, c->name, c->operand->dtype, c->space, c->dim, c->ndim, c->lanes, c->odd);
}

static const Put *
put_of(const Env *e, uint32_t local)
{
    for (uint32_t i = 1; i < e->p->put.n; i++)
        if (e->p->put.at[i].local == local)
            return &e->p->put.at[i];
    return NULL;
}

/* The most elements after a box that padded sums of a reader read. */
static int64_t
read_behind(const Env *e, const Put *put)
{
    int64_t most = 0;

    for (IterId x = 1; x < e->p->iter.n; x++) {
        const Iter *it = env_iter(e, x);
        const Part *part = &e->k->part[it->part];
        for (uint32_t i = 0; it->tail == WORD_pad && i < part->nest->nin; i++)
            if (part->buffer[i] == put->local && it->factor > most)
                most = it->factor;
    }
    return most;
}

/* The extents of the largest box, with padding after it: along the first dimension with more than
 * one point. */
static void
box_extents(const Env *e, const Put *put, uint32_t rank, const Expr **extent)
{
    const Expr *inner = expr_int(e->c, 1);
    int64_t behind = read_behind(e, put);
    uint32_t longer = 0;

    for (uint32_t d = 0; d < rank; d++)
        extent[d] = put->most[put->dim[d]];
    while (longer + 1 < rank && expr_is(extent[longer], 1))
        longer++;
    for (uint32_t d = longer + 1; d < rank; d++)
        inner = expr_mul(e->c, inner, extent[d]);
    if (behind && rank)
        extent[longer] = expr_add(
            e->c, extent[longer],
            expr_ceil_div(e->c, expr_int(e->c, behind), expr_max(e->c, expr_int(e->c, 1), inner)));
}

/* Intermediate tensors are in the worker's scratch, without the axes that all parts share. */
static void
declare_locals(Env *e, Block *b)
{
    uint32_t n = e->k->buffer.n, *home = NEW_ARRAY(e->a, uint32_t, n + 1);
    LocalBox **box = (LocalBox **)NEW_ARRAY(e->a, LocalBox *, n + 1);

    for (uint32_t i = 0; i < n; i++) {
        Buffer local = e->k->buffer.at[i];
        home[i] = i;
        if (local.space != SPACE_LOCAL)
            continue;
        const Put *put = put_of(e, i);
        if (put) {
            const Expr *extent[TN_MAX_RANK];
            box_extents(e, put, local.type->rank, extent);
            box[i] = put->home;
            home[i] = kernel_buffer(e->c, e->a, e->k, local.name,
                                    type_new(e->c, local.type->dtype, local.type->rank, extent),
                                    SPACE_SCRATCH, 1);
            tree_buffer(b, home[i]);
            continue;
        }
        uint32_t shared = e->k->shared - e->p->apart,
                 drop = shared < local.type->rank ? shared : local.type->rank;
        const Type *t =
            type_new(e->c, local.type->dtype, local.type->rank - drop, local.type->dim + drop);
        home[i] = kernel_buffer(e->c, e->a, e->k, local.name, t, SPACE_SCRATCH, 1);
        tree_buffer(b, home[i]);
    }
    for (uint32_t i = 0; i < e->k->npart; i++) {
        e->low[i].home = home;
        e->low[i].box = box;
    }
}

void
place_scratch(Env *e, Block *b)
{
    if (e->k->npart > 1)
        declare_locals(e, b);
    for (uint32_t i = 1; i < e->p->hold.n; i++)
        if (e->p->hold.at[i].space == WORD_scratch)
            place_hold(e, b, i);
    for (uint32_t i = 1; i < e->p->copy.n; i++)
        if (e->p->copy.at[i].space == WORD_scratch)
            place_copy(e, b, i);
    place_online(e, b);
}

/* The index of a buffer over iterators at this point. */
bool
place_index(Env *e, Sym name, const IterId *dim, uint32_t ndim, const Hold *h, const Expr **at)
{
    for (uint32_t d = 0; d < ndim; d++) {
        at[d] = h && hold_is_over(h, dim[d]) && e->at[dim[d]].counted ? expr_int(e->c, 0)
                                                                      : env_value(e, dim[d]);
        if (!at[d])
            return points_refuse(e->p, "%s is read where %s is not known", name,
                                 env_iter(e, dim[d])->name);
        if (h && h->space == WORD_reg && e->at[dim[d]].counted && !hold_is_over(h, dim[d]))
            return points_refuse(
                e->p, "%s is in registers, but how long %s is, is not known before it runs", name,
                env_iter(e, dim[d])->name);
    }
    return true;
}
