/* lower_image: padded input tiles (stage.h): complete, or the rows that an iteration of the
 * enclosing loop needs. */
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

void
place_image(Env *e, Block *b, Copy *k)
{
    const Slide *outer = &k->image->slide[0];
    const Expr *first, *room, *lo, *width;
    int64_t slack = machine_lanes(e->p->m, k->operand->dtype);

    if (k->ndim) {
        touched_rows(e, k, &first, &room);
        env_box(e, k->dim[0], &lo, &width);
        slack += expr_or(width, 0);
    } else {
        points_most(e, e->p->axis[k->part][outer->axis], k->at, &room);
        room = expr_offset(e->c, room, beyond(outer));
    }
    stage_declare(env_axes(e, k->part), b, k->image, room, (uint32_t)slack);
}

void
lower_image(Env *e, const Node *leaf, Block *b)
{
    Copy *k = &e->p->copy.at[leaf->copy];
    Stage *s = k->image;
    uint32_t lanes = machine_lanes(e->p->m, k->operand->dtype);
    Low *l = env_low(e, leaf->part, &k->operand, 1, NULL);

    if (k->ndim) {
        touched_rows(e, k, &s->first, &s->rows);
        s->first = env_let(e, b, "first", env_simplify(e, s->first), NULL);
    } else {
        const Expr *width;
        points_here(e, e->p->axis[k->part][s->slide[0].axis], &s->first, &width);
        s->first = env_simplify(e, s->first);
        s->rows = env_simplify(e, expr_offset(e->c, width, beyond(&s->slide[0])));
    }
    l->range.at = arena_copy(e->a, e->range.at, e->range.n * sizeof *e->range.at);
    const Expr *across =
        s->ninner ? low_extent(l, s->inner[s->ninner - 1]) : s->slide[s->nslide - 1].positions;
    while (lanes > 2 && lanes / 2 >= expr_or(across, INT64_MAX))
        lanes /= 2;
    stage_fill(l, b, s, lanes);
}
