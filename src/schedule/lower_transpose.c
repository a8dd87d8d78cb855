/* lower_transpose: tiles transposed in registers.
 *
 * n vectors of n lanes become n others: lane l of vector i becomes lane i of vector l. In log n
 * steps: each takes pairs of vectors at distance d, and exchanges every second block of d lanes
 * between them. In the first, d is half the lanes; in the last, 1.
 *
 *     a0 a1 a2 a3         a0 a1 c0 c1         a0 b0 c0 d0
 *     b0 b1 b2 b3   2     b0 b1 d0 d1   1     a1 b1 c1 d1
 *     c0 c1 c2 c3   ->    a2 a3 c2 c3   ->    a2 b2 c2 d2
 *     d0 d1 d2 d3         b2 b3 d2 d3         a3 b3 c3 d3
 *
 * Missing rows of a partial tile are 0, and are not read.
 *
 * Source: J. O. Eklundh, "A fast computer method for matrix transposing", IEEE Trans. Computers
 * C-21, 1972.
 */
#include "schedule/lower.h"

void
place_tile(Env *e, Block *b, Copy *k)
{
    const Expr *n = expr_int(e->c, k->lanes);

    k->rows = kernel_buffer(e->c, e->a, e->k, k->name, type_new(e->c, k->operand->dtype, 1, &n),
                            SPACE_REGISTER, k->lanes);
    tree_buffer(b, k->rows);
}

static const Scalar *
row_of(Env *e, const Copy *k, uint32_t buffer, uint32_t row)
{
    const Expr *at = expr_int(e->c, row);

    return scalar_load_lanes(e->c, k->operand->dtype, buffer, 1, &at, k->lanes, expr_int(e->c, 1),
                             NULL);
}

void
lower_transpose(Env *e, const LoopNode *leaf, Block *b)
{
    Copy *k = &e->p->copy.at[leaf->copy];
    const Expr *n = expr_int(e->c, k->lanes);

    k->buffer = k->rows;
    for (uint32_t d = k->lanes / 2; d > 0; d /= 2) {
        uint32_t to =
            kernel_buffer(e->c, e->a, e->k, k->name, type_new(e->c, k->operand->dtype, 1, &n),
                          SPACE_REGISTER, k->lanes);
        tree_buffer(b, to);
        for (uint32_t i = 0; i < k->lanes; i++) {
            const Expr *at = expr_int(e->c, i);
            const Scalar *x = row_of(e, k, k->buffer, i & ~d), *y = row_of(e, k, k->buffer, i | d);
            tree_store_lanes(b, to, 1, &at, scalar_blocks(e->c, (i & d) != 0, x, y, d),
                             expr_int(e->c, 1), NULL);
        }
        k->buffer = to;
    }
}

bool
leaf_has_tile(const Env *e, const LoopNode *leaf)
{
    for (uint32_t i = 1; i < e->p->copy.n; i++)
        if (e->p->copy.at[i].transposed && e->p->copy.at[i].part == leaf->part &&
            node_inside(leaf, e->p->copy.at[i].at))
            return true;
    return false;
}

/* The transposed tile whose rows this loop runs over: when it is written (*making), or read. */
static Copy *
tile_of(Env *e, const LoopNode *n, bool *making)
{
    for (uint32_t i = 1; i < e->p->copy.n; i++) {
        Copy *k = &e->p->copy.at[i];
        if (!k->transposed || !node_inside(n, k->at))
            continue;
        *making = n->prefix == k->name && n->iter == k->dim[0];
        if (*making ||
            (n->prefix == (k->into ? e->p->copy.at[k->into].name : NULL) && n->iter == k->dim[1]))
            return k;
    }
    return NULL;
}

bool
lower_tile_rows(Env *e, const LoopNode *n, Block *b)
{
    bool making;
    Copy *k = tile_of(e, n, &making);
    const Expr *extent = k ? env_extent(e, n->iter) : NULL;

    if (!k || expr_is(extent, k->lanes) || (!making && expr_const(extent, NULL)))
        return false;
    const Expr *row = env_loop(e, &b, LOOP_UNROLLED, env_iter(e, n->iter)->name, expr_int(e->c, 0),
                               expr_int(e->c, k->lanes), 1);
    Tree *there =
        tree_if(b, scalar_2(e->c, S_LT, scalar_index(e->c, row), scalar_index(e->c, extent)));
    env_bind(e, n->iter, row);
    lower_body(e, n, &there->body);
    if (making)
        tree_store_lanes(&there->other, k->rows, 1, &row,
                         scalar_splat(e->c, scalar_number(e->c, k->operand->dtype, 0), k->lanes),
                         expr_int(e->c, 1), NULL);
    return true;
}
