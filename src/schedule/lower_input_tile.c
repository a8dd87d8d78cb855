/* lower_input_tile: padded input tiles (input_tile.h): complete, or the rows that an iteration of
 * the enclosing loop needs. Each is a copy like others, indexed by positions in place of iterators:
 *
 *     [outer…, phases…, (position 0 - first) * pitch + … + last position, inner…]
 *
 * Its loops follow from its positions. Padding is written, not computed: each row has three
 * stretches, of which only the middle one reads.
 */
#include "schedule/lower.h"

/* Rows that the window extends beyond one point. */
static int64_t
beyond(const Slide *s)
{
    return (s->span - 1) / s->stride;
}

/* For positions that run across rows: the first row of an iteration, and the number of rows. */
static void
touched_rows(Env *e, const Copy *k, const Expr **first, const Expr **rows)
{
    const Slide *outer = &k->image->slide[0];
    const Expr *lo, *width;

    env_box(e, k->dim[0], &lo, &width);
    *first = expr_div(e->c, lo, outer->pitch);
    *rows = expr_min(e->c,
                     expr_offset(e->c, expr_ceil_div(e->c, width, outer->pitch), 1 + beyond(outer)),
                     outer->positions);
}

/* Memory for the rows of any iteration, with slack for vectors after each plane. */
void
place_input_tile(Env *e, Block *b, Copy *k)
{
    const InputTile *s = k->image;
    Low *l = env_axes(e, k->part);
    const Expr *first, *room, *lo, *width, *dim[TN_MAX_RANK * 2];
    int64_t slack = s->shared + machine_lanes(e->p->m, k->operand->dtype);
    uint32_t rank = 0;

    if (k->ndim) {
        touched_rows(e, k, &first, &room);
        env_box(e, k->dim[0], &lo, &width);
        slack += expr_or(width, 0);
    } else {
        points_most(e, e->p->axis[k->part][s->slide[0].axis], k->at, &room);
        room = expr_offset(e->c, room, beyond(&s->slide[0]));
    }
    for (uint32_t i = 0; i < s->nouter; i++)
        dim[rank++] = low_extent(l, s->outer[i]);
    for (uint32_t i = 0; i < s->nslide; i++)
        dim[rank++] = expr_int(e->c, s->slide[i].phases);
    dim[rank++] = expr_offset(e->c, expr_mul(e->c, room, s->slide[0].pitch), slack);
    for (uint32_t i = 0; i < s->ninner; i++)
        dim[rank++] = low_extent(l, s->inner[i]);
    k->buffer = kernel_buffer(e->c, e->a, e->k, "stage", type_new(e->c, s->value->dtype, rank, dim),
                              SPACE_SCRATCH, 1);
    tree_buffer(b, k->buffer);
}

uint32_t
image_index(Env *e, const Copy *k, Low *l, bool making, const Expr **at)
{
    const InputTile *s = k->image;
    Ctx *c = e->c;
    const Expr *sum = expr_scale(c, expr_mul(c, s->first, s->slide[0].pitch), -1);
    uint32_t rank = 0;

    if (!making && k->ndim)
        sum = expr_add(c, sum, env_value(e, k->dim[0]));
    for (uint32_t i = 0; i < s->nouter; i++)
        at[rank++] = l->bind[s->outer[i]];
    for (uint32_t i = 0; i < s->nslide; i++) {
        const Slide *d = &s->slide[i];
        const Expr *position = s->position[i], *stride = expr_int(c, d->stride);
        if (making) {
            at[rank++] = s->phase[i];
        } else {
            const Expr *reach = low_expr(l, d->reach);
            at[rank++] = expr_mod(c, reach, stride);
            position = expr_div(c, reach, stride);
            if (!k->ndim)
                position = expr_add(c, position, l->bind[d->axis]);
        }
        sum = expr_add(c, sum, expr_mul(c, position, d->pitch));
    }
    at[rank++] = sum;
    for (uint32_t i = 0; i < s->ninner; i++)
        at[rank++] = l->bind[s->inner[i]];
    return rank;
}

/* ---- the copy -------------------------------------------------------------------------------- */

const Scalar *
image_value(Env *e, const Copy *k, Low *l)
{
    const InputTile *s = k->image;

    k->image->position[s->nslide - 1] = env_value(e, k->along);
    for (uint32_t i = 0; i < s->nslide; i++)
        l->bind[s->slide[i].axis] =
            expr_add(e->c, expr_scale(e->c, s->position[i], s->slide[i].stride), s->phase[i]);
    return s->padding ? s->padding : s->value;
}

/* A loop over a complete axis of the part. */
static void
loop_over(Env *e, Block **b, uint32_t part, uint32_t x)
{
    Low *l = env_axes(e, part);

    env_bind(
        e, e->p->axis[part][x],
        env_loop(e, b, LOOP_SERIAL, l->n->axis[x].name, expr_int(e->c, 0), low_extent(l, x), 1));
}

/* The stretch from `from` to `to` of a row: of elements, or of padding. */
static void
copy_stretch(Env *e, const LoopNode *n, Block *b, const Expr *from, const Expr *to,
             const Scalar *padding)
{
    const Copy *k = &e->p->copy.at[n->copy];
    InputTile *s = k->image;
    bool inner = s->ninner > 0, vectors = n->lanes > 1 && (inner || !padding);
    EnvScope scope = env_enter(e);

    s->padding = padding;
    if (inner || !vectors)
        env_bind(e, k->along,
                 env_loop(e, &b, LOOP_SERIAL, env_iter(e, k->along)->name, from, to, 1));
    for (uint32_t i = 0; i + (inner && vectors) < s->ninner; i++)
        loop_over(e, &b, k->part, s->inner[i]);
    if (!vectors)
        lower_body(e, n, b);
    else if (!inner)
        lower_vectors(e, n, b, from, to);
    else
        lower_vectors(e, n, b, expr_int(e->c, 0),
                      low_extent(env_axes(e, k->part), s->inner[s->ninner - 1]));
    env_leave(e, scope);
}

/* a and b; a may be NULL: always true */
static const Scalar *
both(Ctx *c, const Scalar *a, const Scalar *b)
{
    return a ? scalar_2(c, S_AND, a, b) : b;
}

/* bounds code: small strides have at most this many phases, most patches more */
enum { PHASES_WRITTEN_OUT = 4 };

/* The loop over a slide's phases is inside of the loop over its positions, so that the tensor is
 * read sequentially. The begin and end of each phase of a row follow from the row's length: if that
 * is symbolic, phases are unrolled, so that they are computed once instead of in each row. */
static const Expr *
phase_loop(Env *e, Block **b, const Slide *slide, bool last)
{
    const Expr *zero = expr_int(e->c, 0);
    bool open = !expr_const(slide->positions, NULL) && slide->phases <= PHASES_WRITTEN_OUT && last;

    return slide->phases == 1
               ? zero
               : env_loop(e, b, open ? LOOP_UNROLLED : LOOP_SERIAL, sym(e->c, "phase"), zero,
                          expr_int(e->c, slide->phases), 1);
}

/* Is there a value at position i, and does `test` hold? */
static const Scalar *
inside_test(Env *e, Low *l, const Scalar *test, const InputTile *s, uint32_t i)
{
    Ctx *c = e->c;
    const Slide *d = &s->slide[i];
    const Expr *lo = d->lo ? low_expr(l, d->lo) : expr_int(c, 0);
    const Expr *at =
        expr_sub(c, expr_add(c, expr_scale(c, s->position[i], d->stride), s->phase[i]), lo);

    if (d->lo)
        test = both(c, test, scalar_2(c, S_GE, scalar_index(c, at), scalar_int(c, DT_I64, 0)));
    if (d->hi || d->phases > 1)
        test = both(c, test,
                    scalar_2(c, S_LT, scalar_index(c, at),
                             scalar_index(c, expr_sub(c, low_expr(l, stage_end(l, d)), lo))));
    return test;
}

/* The first rows of the copy, and the number of them, here. */
static const Expr *
rows_here(Env *e, const Copy *k, Block *b)
{
    const Expr *rows, *first;

    if (k->ndim) {
        touched_rows(e, k, &first, &rows);
        k->image->first = env_let(e, b, "first", env_simplify(e, first), NULL);
        return rows;
    }
    points_here(e, e->p->axis[k->part][k->image->slide[0].axis], &first, &rows);
    k->image->first = env_simplify(e, first);
    return env_simplify(e, expr_offset(e->c, rows, beyond(&k->image->slide[0])));
}

void
lower_input_tile(Env *e, const LoopNode *n, Block *b)
{
    const Copy *k = &e->p->copy.at[n->copy];
    InputTile *s = k->image;
    Ctx *c = e->c;
    const Expr *rows = rows_here(e, k, b), *zero = expr_int(c, 0), *begin, *end;
    const Scalar *test = NULL, *padding = s->fill ? s->fill : scalar_number(c, s->value->dtype, 0);

    for (uint32_t i = 0; i < s->nouter; i++)
        loop_over(e, &b, k->part, s->outer[i]);
    Low *l = env_low(e, k->part, &k->operand, 1, NULL);
    for (uint32_t i = 0;; i++) {
        const Slide *d = &s->slide[i];
        begin = i ? zero : s->first;
        end = i ? d->positions : expr_min(c, expr_add(c, s->first, rows), d->positions);
        if (i + 1 == s->nslide)
            break;
        s->position[i] = env_loop(e, &b, LOOP_SERIAL, l->n->axis[d->axis].name, begin, end, 1);
        s->phase[i] = phase_loop(e, &b, d, false);
        if (s->fill || d->phases > 1)
            test = inside_test(e, l, test, s, i);
    }
    /* Positions begin .. end of the last slide; there is a value while lo <= stride*q + phase <
     * hi. */
    const Slide *d = &s->slide[s->nslide - 1];
    const Expr *phase = s->phase[s->nslide - 1] = phase_loop(e, &b, d, true),
               *stride = expr_int(c, d->stride), *lo = begin, *hi = end;
    if (d->lo)
        lo = expr_min(
            c, end,
            expr_max(c, begin, expr_ceil_div(c, expr_sub(c, low_expr(l, d->lo), phase), stride)));
    if (d->hi || d->phases > 1)
        hi = expr_max(
            c, lo,
            expr_min(c, end,
                     expr_ceil_div(c, expr_sub(c, low_expr(l, stage_end(l, d)), phase), stride)));
    if (test) {
        Tree *branch = tree_if(b, test);
        copy_stretch(e, n, &branch->other, begin, end, padding);
        b = &branch->body;
    }
    lo = env_let(e, b, "lo", env_simplify(e, lo), NULL);
    hi = env_let(e, b, "hi", env_simplify(e, hi), NULL);
    copy_stretch(e, n, b, begin, lo, padding);
    copy_stretch(e, n, b, lo, hi, NULL);
    copy_stretch(e, n, b, hi, end, padding);
}
