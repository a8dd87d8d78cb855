/* common_axes: find the outer axes that stages of a kernel have in common.
 *
 * Where query heads share keys in groups (9 over 3), the matrix multiplications of an attention
 * have two axes for the heads, since keys are indexed by the group alone; the rows between them
 * have one axis of 9:
 *
 *     scores[b, 3*g + h, k, l] = sum d: q[b, 3*g + h, k, d] * keys[b, g, l, d]
 *     most[b, j, k] = max l: scores[b, j, k, l]
 *
 * As stages of one kernel, all get both axes: values between stages get a dimension for each digit,
 * which is the same in memory (nest_reindex). Then all stages share g, h and k, and a schedule may
 * process the rows of all heads of a group together, since they read the same keys.
 */
#include "fuse/internal.h"
#include "algebra/algebra.h"
#include "nest/walk.h"

/* ---- digits ---------------------------------------------------------------------------------- */

/* Dimension `dim` of a value between stages, of extent `whole`, is written at the digits of several
 * axes; inner: extents of all digits but the outermost. */
typedef struct {
    uint32_t dim, n;
    const Expr *whole;
    int64_t inner[TN_MAX_RANK];
} DimDigits;

static bool
is_as_long(Ctx *c, const Expr *a, const Expr *b)
{
    return expr_eq(c, NULL, a, b) == YES;
}

/* The first dimension of a nest's only output that is written by digits; false: none, or their
 * extents are not known. */
static bool
digits_of(Ctx *c, const Nest *n, DimDigits *g)
{
    const Nest *bare = n->nout == 1 ? nest_dim_per_axis(c, n) : n;

    if (bare == n || !bare)
        return false;
    const Type *t = n->param[n->nin].type, *to = bare->param[n->nin].type;
    *g = (DimDigits){ 0 };
    while (g->dim < t->rank && is_as_long(c, t->dim[g->dim], to->dim[g->dim]))
        g->dim++;
    g->whole = t->dim[g->dim];
    for (const Expr *reached = to->dim[g->dim]; !is_as_long(c, reached, g->whole);
         reached = expr_mul(c, reached, to->dim[g->dim + g->n]))
        if (g->dim + ++g->n >= to->rank || !expr_const(to->dim[g->dim + g->n], &g->inner[g->n - 1]))
            return false;
    return true;
}

/* The format of a value of this rank with a dimension for each digit. */
static const Format *
format_of_digits(Arena *a, const DimDigits *g, uint32_t rank)
{
    Format *f = NEW(a, Format);
    FormatPart *part = NEW_ARRAY(a, FormatPart, TN_MAX_RANK);
    uint32_t np = 0;

    for (uint8_t d = 0; d < rank; d++) {
        int64_t below = 1;
        for (uint32_t i = 0; d == g->dim && i < g->n; i++)
            below *= g->inner[i];
        part[np++] = (FormatPart){ d, below, 0 };
        for (uint32_t i = 0; d == g->dim && i < g->n; i++) {
            below /= g->inner[i];
            part[np++] = (FormatPart){ d, below, g->inner[i] };
        }
    }
    *f = (Format){ np, part };
    return f;
}

/* A host with the values between these hosts split into digits; NULL: not possible. */
static const Nest *
in_digits(const Fusion *f, const NodeId *stage, uint32_t n, const FusedCall *p, const DimDigits *g)
{
    Ctx *c = f->ctx;
    const Nest *nest = p->nest;

    if (nest->nout != 1 || nest->nwrite != 1)
        return NULL;
    for (uint32_t i = 0; nest && i <= nest->nin; i++) {
        const Type *t = nest->param[i].type;
        if (i < nest->nin && !fuse_is_among(stage, n, f->g->value.at[p->value[i]].def))
            continue;
        if (t->rank <= g->dim || t->rank + g->n > TN_MAX_RANK ||
            !is_as_long(c, t->dim[g->dim], g->whole))
            return NULL;
        const Format *cut = format_of_digits(f->arena, g, t->rank);
        const Nest *bare = i == nest->nin ? nest_dim_per_axis(c, nest) : NULL;
        nest = bare && type_eq(c, bare->param[i].type, format_type(c, cut, t)) == YES
                   ? bare
                   : nest_reindex(c, nest, i, cut);
    }
    nest = nest ? nest_simplify(c, nest) : NULL;
    return nest ? nest_axes_as_written(c, nest, 0) : NULL;
}

/* Does one of the hosts read what a host makes? */
static bool
is_read_among(const Fusion *f, const NodeId *stage, uint32_t n, NodeId maker)
{
    const FusedCall *p = &f->call[maker];

    for (uint32_t o = p->nest->nin; o < p->nest->nin + p->nest->nout; o++)
        for (uint32_t r = 0; r < f->readers[p->value[o]].n; r++)
            if (fuse_is_among(stage, n, f->readers[p->value[o]].at[r]))
                return true;
    return false;
}

/* The last stage may order its axes freely: they follow the axes of what it reads from the others,
 * [heads, rows, size] for scores [heads, rows, keys]. */
static const Nest *
in_order_read(const Fusion *f, const NodeId *stage, uint32_t n, NodeId last, const Nest *nest)
{
    Accesses reads = nest_accesses(f->ctx, f->arena, nest);
    const Scalar *first = NULL;
    Contraction view;

    if (!nest_contraction(f->ctx, nest, &view) || nest->nwrite != 1 ||
        !write_is_plain(f->ctx, nest, &nest->write[0]))
        return nest;
    for (uint32_t i = 0; i < reads.n; i++) {
        const Scalar *load = reads.at[i].load;
        if (load->u.load.slot < nest->nin &&
            fuse_is_among(stage, n, f->g->value.at[f->call[last].value[load->u.load.slot]].def) &&
            (!first || load->u.load.rank > first->u.load.rank))
            first = load;
    }
    return first ? nest_axes_as_read(f->ctx, nest, first) : nest;
}

const Nest *const *
fuse_parts(const Fusion *f, const NodeId *stage, uint32_t n)
{
    const Nest **part = NEW_ARRAY(f->arena, const Nest *, n),
               **cut = NEW_ARRAY(f->arena, const Nest *, n);
    bool any = false, rows = false;
    DimDigits g;

    for (uint32_t i = 0; i < n; i++)
        part[i] = f->call[stage[i]].nest;
    for (uint32_t i = 0; i < n && !any; i++)
        any = n > 1 && digits_of(f->ctx, part[i], &g);
    for (uint32_t i = 0; i < n && any; i++) {
        NestTraits t = fuse_kind(f->ctx, part[i]);
        rows |= t.reduces && !t.contraction;
    }
    for (uint32_t i = 0; i < n && rows; i++)
        if (!(cut[i] = in_digits(f, stage, n, &f->call[stage[i]], &g)))
            rows = false;
    if (rows)
        part = cut;
    for (uint32_t i = 0; i < n && n > 1; i++) {
        const Nest *nest = is_read_among(f, stage, n, stage[i])
                               ? part[i]
                               : in_order_read(f, stage, n, stage[i], part[i]);
        part[i] = nest ? nest : part[i];
    }
    return part;
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* The d-th parallel axis of a nest, if it indexes dimension d of every output (for a contraction
 * that no other stage reads: some dimension, or a digit). */
static const Expr *
outer_axis(Ctx *c, const Nest *n, uint32_t d, bool read)
{
    uint32_t seen = 0;
    Contraction view;

    for (uint32_t k = 0; k < n->naxis; k++) {
        if (n->axis[k].kind != AXIS_PARALLEL || seen++ < d)
            continue;
        const Expr *axis = expr_axis(c, k);
        for (uint32_t w = 0; w < n->nwrite; w++) {
            bool there =
                (d < n->param[n->write[w].out].type->rank && n->write[w].at[d] == axis) ||
                (!read && nest_contraction(c, n, &view) && write_is_plain(c, n, &n->write[w]));
            if (n->write[w].combiner != COMB_NONE || !there)
                return NULL;
        }
        return axis;
    }
    return NULL;
}

static const Expr *
axis_extent(const Nest *n, const Expr *axis)
{
    Var v;

    expr_is_var(axis, &v);
    return n->axis[v.id].extent;
}

/* Do all reads of values of these hosts index dimension d by the reader's own axis? nest: the
 * reader as a stage. */
static bool
reads_are_local(const Fusion *f, const NodeId *stage, uint32_t n, uint32_t reader, const Nest *nest,
                uint32_t d)
{
    const FusedCall *p = &f->call[stage[reader]];
    Accesses reads = nest_accesses(f->ctx, f->arena, nest);
    const Expr *axis = outer_axis(f->ctx, nest, d, is_read_among(f, stage, n, stage[reader]));

    for (uint32_t i = 0; i < reads.n; i++) {
        uint32_t slot = reads.at[i].load->u.load.slot;
        if (slot >= nest->nin || !fuse_is_among(stage, n, f->g->value.at[p->value[slot]].def))
            continue;
        if (d >= reads.at[i].load->u.load.rank)
            return false;
        const Expr *at = reads.at[i].load->u.load.at[d];
        /* the extent is 1: any other index is outside */
        bool one = expr_is(nest->param[slot].type->dim[d], 1);
        if (at != axis && !(one && (!reads.at[i].load->u.load.outside || expr_is(at, 0))))
            return false;
    }
    return true;
}

uint32_t
fuse_depth(const Fusion *f, const NodeId *stage, uint32_t n)
{
    uint32_t least = 0;

    for (uint32_t i = 0; i < n; i++) {
        const FusedCall *p = &f->call[stage[i]];
        for (uint32_t o = p->nest->nin; o < p->nest->nin + p->nest->nout; o++)
            for (uint32_t r = 0; r < f->edges[p->value[o]].n; r++) {
                uint32_t depth = f->edges[p->value[o]].at[r].depth;
                least = depth && (!least || depth < least) ? depth : least;
            }
    }
    return least;
}

uint32_t
fuse_shared(const Fusion *f, const NodeId *stage, uint32_t n)
{
    const Nest *const *part = fuse_parts(f, stage, n);
    uint32_t depth = 0;
    bool reduces = false, room = false;

    for (;; depth++) {
        const Expr *extent = NULL;
        for (uint32_t i = 0; i < n; i++) {
            const Expr *axis =
                outer_axis(f->ctx, part[i], depth, is_read_among(f, stage, n, stage[i]));
            const Expr *e = axis ? axis_extent(part[i], axis) : NULL;
            if (!axis || (extent && expr_eq(f->ctx, NULL, extent, e) != YES) ||
                !reads_are_local(f, stage, n, i, part[i], depth))
                goto done;
            extent = e;
        }
    }
done:
    /* Elementwise stages agree in every axis: keep the innermost one unshared, for vectors. */
    for (uint32_t i = 0; i < n; i++) {
        reduces = reduces || nest_axes_of_kind(part[i], AXIS_REDUCE);
        room = room || part[i]->param[part[i]->nin].type->rank > depth;
    }
    return n > 1 && depth && !reduces && !room ? depth - 1 : depth;
}

bool
fuse_are_independent(const Fusion *f, const NodeId *stage, uint32_t n)
{
    Contraction view;
    bool separate = n > 1;

    for (uint32_t i = 0; i < n && separate; i++) {
        const FusedCall *p = &f->call[stage[i]];
        separate = nest_contraction(f->ctx, p->nest, &view);
        for (uint32_t s = 0; s < p->nest->nin; s++)
            separate = separate && !fuse_is_among(stage, n, f->g->value.at[p->value[s]].def);
    }
    return separate;
}

const Expr *
fuse_trips(Ctx *c, const Nest *n, uint32_t depth)
{
    const Expr *trips = expr_int(c, 1);

    for (uint32_t k = 0; k < n->naxis; k++)
        if (n->axis[k].kind == AXIS_PARALLEL && depth-- > 0)
            trips = expr_mul(c, trips, n->axis[k].extent);
        else if (n->axis[k].kind == AXIS_PARALLEL)
            break;
    return trips;
}
