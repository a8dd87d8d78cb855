/* inline: may a value be computed where it is read, instead of being stored?
 *
 * Answers come from access maps alone: no function here knows an operator. Three questions, asked
 * by the rules in legal.c:
 *
 *   fuse_cannot       is it impossible, whatever it costs? (a sum inside an index)
 *   fuse_hides        would the reader stop being a matrix multiplication, or a reduction be
 *                     computed more than once for each of its values?
 *   fuse_reads_badly  would an operand read several tensors, or places known only at run time?
 *
 * Whether inlining pays is the price's business (price.c), except for work that a reader would
 * repeat for each element of a broadcast (fuse_repeats).
 */
#include "fuse/internal.h"
#include "nest/walk.h"

/* Work of a division and of a function, in additions: each is more than a broadcast may repeat, and
 * a function is more than index arithmetic may. */
#define DIVISION (2 * FUSE_BROADCAST_WORK)
#define FUNCTION (FUSE_INDEX_WORK + 1)

/* ---- traits ---------------------------------------------------------------------------------- */

static int64_t
per_point(Ctx *c, const Expr *total, const Expr *points)
{
    const Expr *q = expr_is(points, 0) ? NULL : expr_exact_div(c, total, points);

    return q ? expr_or(q, 1) : 1;
}

static bool
is_row_access(Ctx *c, const Nest *n, const Access *a)
{
    AxisSet used = 0;

    for (uint32_t d = 0; d < a->load->u.load.rank; d++)
        used |= expr_axes(a->load->u.load.at[d]);
    return !(used & a->reduce) || nest_mapping(c, n, a) == MAP_RED;
}

static bool
is_full_read(MappingType t)
{
    return t != MAP_BCAST && t != MAP_REPEAT;
}

NestTraits
fuse_kind(Ctx *c, const Nest *n)
{
    NestTraits t = { .elementwise = true };
    Contraction view;

    t.reduces = nest_axes_of_kind(n, AXIS_REDUCE) != 0;
    if (t.reduces || nest_axes_of_kind(n, AXIS_SCAN))
        t.elementwise = false;
    for (uint32_t i = 0; i < n->nwrite; i++)
        if (n->write[i].combiner != COMB_NONE)
            t.elementwise = false;
    t.contraction = t.reduces && nest_contraction(c, n, &view);
    return t;
}

bool
fuse_is_view(Ctx *c, const Nest *n)
{
    for (uint32_t i = 0; i < n->nwrite; i++)
        if (n->write[i].value->op != S_LOAD)
            return false;
    return fuse_kind(c, n).elementwise;
}

static NestTraits
traits_of(Ctx *c, Arena *a, const Nest *n)
{
    NestTraits t = fuse_kind(c, n);
    Accesses reads = nest_accesses(c, a, n);

    t.row = t.reduces && !t.contraction;
    for (uint32_t i = 0; i < reads.n; i++) {
        const Scalar *load = reads.at[i].load;
        t.conditional = t.conditional || reads.at[i].conditional;
        for (uint32_t d = 0; d < load->u.load.rank; d++)
            t.computed = t.computed || expr_uses_kind(load->u.load.at[d], VAR_COMPUTED);
        t.row = t.row && is_row_access(c, n, &reads.at[i]);
        t.full += t.elementwise && is_full_read(nest_mapping(c, n, &reads.at[i]));
    }
    t.index_only = t.elementwise && !reads.n;
    t.view = t.elementwise && fuse_is_view(c, n);

    NestCost cost = nest_cost(c, n);
    int64_t work = per_point(c, cost.add, cost.points) + per_point(c, cost.mul, cost.points) +
                   DIVISION * per_point(c, cost.div, cost.points) +
                   FUNCTION * per_point(c, cost.special, cost.points);
    t.work = work > INT32_MAX ? INT32_MAX : (uint32_t)work;
    return t;
}

const NestTraits *
fuse_traits_of(Fusion *f, NodeId n)
{
    const Nest *nest = f->call[n].nest;
    uint64_t at;

    if (f->traits_of[n] == nest)
        return &f->traits[n];
    f->traits_of[n] = nest;
    if (f->known && map_get(&f->known->traits, MAP_PTR(nest), &at)) {
        f->traits[n] = *(const NestTraits *)(uintptr_t)at;
        return &f->traits[n];
    }
    f->traits[n] = traits_of(f->ctx, f->arena, nest);
    if (f->known)
        map_put(&f->known->traits, MAP_PTR(nest),
                MAP_PTR(arena_copy(f->known->arena, &f->traits[n], sizeof f->traits[n])));
    return &f->traits[n];
}

bool
fuse_is_free(const NestTraits *t)
{
    return (t->view && !t->computed) || (t->index_only && t->work <= FUSE_INDEX_WORK);
}

/* ---- reads of a value in its host ------------------------------------------------------------ */

/* Is the written value a choice between something computed and a number, as a mask is? Then the
 * computed side is evaluated anyway. */
static bool
is_chosen_beside_a_number(const Nest *n)
{
    const Scalar *s = n->nwrite == 1 ? n->write[0].value : NULL;

    s = s && s->op == S_SEEN ? s->arg[1] : s;
    return s && s->op == S_SELECT && (s->arg[1]->op == S_CONST || s->arg[2]->op == S_CONST);
}

/* Is every element read exactly once, as an epilogue needs it? */
static bool
reads_all_once(Ctx *c, const Nest *n, const Access *a)
{
    MappingType t = nest_mapping(c, n, a);
    const Type *from = n->param[a->load->u.load.slot].type, *to = n->param[n->nin].type;

    if (t > MAP_INJ || (a->conditional && !is_chosen_beside_a_number(n)) || a->load->u.load.outside)
        return false;
    return expr_eq(c, NULL, type_count(c, from), type_count(c, to)) == YES;
}

const char fuse_not_before_it_runs[] = "is read at places known only when it runs";

/* A reduction can be inlined only if each of its values is used once, in one place, by elementwise
 * code. */
static const char *
refuse_epilogue(Ctx *c, const Nest *stage, const NestTraits *h, const Accesses *reads)
{
    const Scalar *only = NULL;

    if (!h->elementwise)
        return "a reduction feeds a reduction";
    for (uint32_t i = 0; i < reads->n; i++) {
        const Access *a = &reads->at[i];
        if (only && only != a->load)
            return "its values are read at several places";
        if (!reads_all_once(c, stage, a))
            return "a reduction's values are read again, or under a condition";
        only = a->load;
    }
    return NULL;
}

/* Are columns of a contraction contiguous in its result? */
static bool
columns_are_adjacent(Ctx *c, const Nest *n, AxisSet col)
{
    const Nest *bare = nest_dim_per_axis(c, n);
    const Write *w = &bare->write[0];

    for (uint32_t d = bare->param[w->out].type->rank; d-- > 0;) {
        uint32_t axis = axis_of(w->at[d]);
        if (axis != NO_SLOT && !expr_is(bare->axis[axis].extent, 1))
            return col >> axis & 1;
    }
    return true;
}

/* Is the nest still a contraction with both sides, no more batch axes, and contiguous columns? */
static bool
product_survives(Ctx *c, const Nest *before, const Nest *after)
{
    Contraction x, y;

    if (!nest_contraction(c, before, &x))
        return true;
    if (!nest_contraction(c, after, &y))
        return false;
    for (uint32_t k = 0; k < before->naxis; k++)
        if (expr_is(before->axis[k].extent, 1))
            x.batch &= ~((AxisSet)1 << k);
    for (uint32_t k = 0; k < after->naxis; k++)
        if (expr_is(after->axis[k].extent, 1))
            y.batch &= ~((AxisSet)1 << k);
    if (columns_are_adjacent(c, before, x.col) && !columns_are_adjacent(c, after, y.col))
        return false;
    return (y.row != 0) + (y.col != 0) >= (x.row != 0) + (x.col != 0) &&
           __builtin_popcountll(y.batch) <= __builtin_popcountll(x.batch);
}

static bool
holds_reduction(const Scalar *const *list)
{
    FOR_EACH_SCALAR (s, list)
        if (s->op == S_REDUCE)
            return true;
    return false;
}

/* Is an index computed from a reduction? Indices are computed in place, and a reduction needs loops
 * of its own. */
static bool
reduces_in_index(Ctx *c, Arena *a, const Nest *n)
{
    Accesses all = nest_accesses(c, a, n);
    bool found = false;

    for (uint32_t i = 0; i < all.n; i++)
        for (uint32_t d = 0; d < all.at[i].load->u.load.rank; d++)
            found |= holds_reduction(expr_nodes(c, all.at[i].load->u.load.at[d]));
    for (uint32_t i = 0; i < n->nwrite; i++) {
        FOR_EACH_SCALAR (s, scalar_nodes(c, n->write[i].value))
            found |= s->op == S_AT && holds_reduction(scalar_nodes(c, s));
        for (uint32_t d = 0; d < n->param[n->write[i].out].type->rank; d++)
            found |= holds_reduction(expr_nodes(c, n->write[i].at[d]));
    }
    return found;
}

static Accesses
reads_of(Fusion *f, const FusedCall *stage, const FusedCall *p)
{
    Accesses all = nest_accesses(f->ctx, f->arena, stage->nest);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < all.n; i++) {
        ValueId v = stage->value[all.at[i].load->u.load.slot];
        bool ours = false;
        for (uint32_t o = 0; o < p->nest->nout; o++)
            ours = ours || p->value[p->nest->nin + o] == v;
        if (ours)
            all.at[kept++] = all.at[i];
    }
    all.n = kept;
    return all;
}

/* Is a table of visible blocks a reduction? A schedule reads the table before it computes a block
 * (kernel/support.h), so it must be stored. */
static bool
reduces_in_table(Ctx *c, const Nest *n)
{
    for (uint32_t i = 0; i < n->nwrite; i++)
        FOR_EACH_SCALAR (s, scalar_nodes(c, n->write[i].value))
            if (s->op == S_SEEN && s->arg[0]->op == S_NE && s->arg[0]->arg[0]->op != S_LOAD)
                return true;
    return false;
}

const char *
fuse_cannot(Fusion *f, NodeId node, const Nest *after)
{
    if (!fuse_traits_of(f, node)->reduces)
        return NULL;
    return reduces_in_index(f->ctx, f->arena, after) ? "an index would contain a reduction"
           : reduces_in_table(f->ctx, after)         ? "a table of what is seen is stored"
                                                     : NULL;
}

const char *
fuse_hides(Fusion *f, NodeId node, NodeId stage, const Nest *after)
{
    const FusedCall *p = &f->call[node], *h = &f->call[stage];
    bool reduces = fuse_traits_of(f, node)->reduces;
    NestTraits th = fuse_kind(f->ctx, h->nest);
    Accesses reads = reads_of(f, h, p);
    const char *no = reduces ? refuse_epilogue(f->ctx, h->nest, &th, &reads) : NULL;

    if (!no && !product_survives(f->ctx, reduces ? p->nest : h->nest, after))
        no = "would hide a contraction";
    return no;
}

/* Is each element, by its index, an element of some tensor or a number, as in a concatenation or a
 * triangle? */
static bool
is_piece(const Scalar *s)
{
    if (s->op == S_SELECT)
        return scalar_is_compared_choice(s) && s->arg[0]->arg[0]->op == S_INDEX &&
               is_piece(s->arg[1]) && is_piece(s->arg[2]);
    return s->op == S_CONST || (s->op == S_LOAD && !s->u.load.outside);
}

static bool
made_of_pieces(const Nest *n)
{
    return n->nwrite == 1 && n->write[0].combiner == COMB_NONE &&
           n->write[0].value->op == S_SELECT && is_piece(n->write[0].value);
}

const char *
fuse_reads_badly(Fusion *f, NodeId node, NodeId stage)
{
    const Nest *h = f->call[stage].nest;
    const NestTraits *p = fuse_traits_of(f, node);
    bool product = fuse_kind(f->ctx, h).contraction;
    Accesses reads = reads_of(f, &f->call[stage], &f->call[node]);

    for (uint32_t i = 0; i < reads.n; i++)
        switch (nest_mapping(f->ctx, h, &reads.at[i])) {
        case MAP_WIN: /* a window slides over a padded copy of one tensor */
            if (p->conditional || p->full > 1)
                return "a window would slide over several tensors";
            break;
        case MAP_RED:
        case MAP_CONTR:
            if (product && (p->conditional || p->full > 1) && !made_of_pieces(f->call[node].nest))
                return "an operand would read several tensors";
            break;
        case MAP_GATHER: /* a view costs nothing, wherever its elements are read */
            if (p->view)
                break;
            return fuse_not_before_it_runs;
        case MAP_SCAN:
        case MAP_UNKNOWN:
        case MAP_COUNT: return fuse_not_before_it_runs;
        case MAP_ID:
        case MAP_PART:
        case MAP_PERM:
        case MAP_RELAYOUT:
        case MAP_INJ:
        case MAP_BCAST:
        case MAP_REPEAT: break;
        }
    return NULL;
}

bool
fuse_repeats(Fusion *f, NodeId node, NodeId stage)
{
    const FusedCall *h = &f->call[stage];
    Accesses reads = reads_of(f, h, &f->call[node]);

    for (uint32_t i = 0; i < reads.n; i++) {
        MappingType t = nest_mapping(f->ctx, h->nest, &reads.at[i]);
        if (!is_full_read(t) || (reads.at[i].reduce && t <= MAP_INJ))
            return true;
    }
    return false;
}
