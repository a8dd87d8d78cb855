/* summation_order: the order in which a program adds up each reduction, as text.
 *
 * Floating-point addition is not associative. Two programs of a kernel give the same bits if they
 * combine the same summands in the same order, whatever their tiles, copies and tasks. The text has
 * only that order: the loops over reduced axes around each summand, outermost first, and which of
 * them have partial results.
 *
 *     order jp i k jv                               o: k
 *     split k by 64 -> kb ki, order kb jp i ki jv   o: k            pieces in order are the axis
 *     order l i k                                   o: l k
 *     split k by 16 -> kv kl,                       o: ( k/16 k%16*v )   a result for each lane,
 *       hold o at i -> acc reg over kl, run kl vector                    combined at the end
 *     hold o at g -> part reg factored              o: g ( q )      a partial result for each g
 *
 * A second hold that begins from the first and ends in it does not change the order. `online`
 * rescales sums block by block, so the text keeps blocks separate, and programs with other blocks
 * differ.
 */
#include "schedule/point.h"

/* A loop over a reduced axis, or the boundary of a partial result. */
typedef struct {
    IterId x; /* 0: a boundary */
    bool over, lanes;
} SumLoop;

typedef struct {
    const Points *p;
    uint32_t part;
    bool blocks;     /* pieces are not merged */
    VEC(SumLoop) at; /* the innermost first */
} SumOrder;

/* The reduced iterator of a part that a loop runs over; 0: none. A fused loop runs over iterators
 * of several parts (step_online.c). */
static IterId
summed_iter(const Points *p, uint32_t part, IterId loop)
{
    for (IterId x = 1; loop && x < p->iter.n; x++)
        if ((x == loop || p->iter.at[x].with == loop) && p->iter.at[x].part == part &&
            p->iter.at[x].kind != AXIS_PARALLEL)
            return x;
    return 0;
}

static void
add_over(const Hold *h, IterId x, SumLoop *s)
{
    for (uint32_t i = 0; i < h->nover; i++)
        s->over |= h->over[i] == x;
}

/* The loops and boundaries around a leaf. */
static void
collect(SumOrder *o, const LoopNode *leaf)
{
    const Points *p = o->p;

    for (const LoopNode *n = leaf->up; n; n = n->up) {
        bool ends = false;
        SumLoop s = { .x = summed_iter(p, o->part, n->iter), .lanes = n->run == WORD_vector };
        for (uint32_t i = 1; i < p->hold.n; i++) {
            const Hold *h = &p->hold.at[i];
            if (h->update != leaf)
                continue;
            ends |= h->at == n && (h->nover || h->factor || o->blocks);
            add_over(h, n->iter, &s);
        }
        if (ends)
            VEC_PUSH(p->a, &o->at, (SumLoop){ 0 });
        if (s.x)
            VEC_PUSH(p->a, &o->at, s);
    }
}

static bool
is_plain(const SumOrder *o, uint32_t i)
{
    return i < o->at.n && o->at.at[i].x && !o->at.at[i].over && !o->at.at[i].lanes && !o->blocks;
}

/* Replaces an outer piece followed by its inner piece by the complete iterator, or a fused loop by
 * its digits. */
static bool
join_one(SumOrder *o)
{
    for (uint32_t i = 0; i < o->at.n; i++) {
        const Iter *inner = is_plain(o, i) ? &o->p->iter.at[o->at.at[i].x] : NULL;
        if (inner && inner->nfrom) {
            uint32_t more = inner->nfrom - 1;
            for (uint32_t k = 0; k < more; k++)
                VEC_PUSH(o->p->a, &o->at, (SumLoop){ 0 });
            for (uint32_t k = o->at.n; k-- > i + more + 1;)
                o->at.at[k] = o->at.at[k - more];
            for (uint32_t k = 0; k <= more; k++)
                o->at.at[i + k] = (SumLoop){ .x = inner->from[more - k] };
            return true;
        }
        if (inner && inner->inner && is_plain(o, i + 1) && o->at.at[i + 1].x == inner->sibling) {
            o->at.at[i].x = inner->parent;
            for (uint32_t k = i + 1; k + 1 < o->at.n; k++)
                o->at.at[k] = o->at.at[k + 1];
            o->at.n--;
            return true;
        }
    }
    return false;
}

static void
print_iter(const SumOrder *o, Text *t, IterId x)
{
    const Iter *it = &o->p->iter.at[x];

    for (uint32_t i = 0; i < it->nfrom; i++) {
        text_add(t, i ? "*" : "");
        print_iter(o, t, it->from[i]);
    }
    if (it->parent) {
        print_iter(o, t, it->parent);
        text_printf(t, "%s%lld", it->inner ? "%" : "/", (long long)it->factor);
    } else if (it->axis < NEST_MAX_AXES) {
        text_add(t, o->p->k->part[o->part].nest->axis[it->axis].name);
    }
}

/* A reduction without a hold is computed where it is read, over its axes in order. */
static void
collect_axes(SumOrder *o, const Scalar *reduce)
{
    for (uint32_t x = NEST_MAX_AXES; x-- > 0;)
        if (reduce->u.reduce.axes >> x & 1)
            VEC_PUSH(o->p->a, &o->at, ((SumLoop){ .x = o->p->axis[o->part][x] }));
}

static void
print_leaf(const Points *p, const LoopNode *leaf, Text *t)
{
    const Scalar *reduce = part_reduction(p, leaf->part);
    SumOrder o = { .p = p, .part = leaf->part, .blocks = p->online.n > 1 };

    if (!reduce)
        return;
    if (leaf->hold)
        collect(&o, leaf);
    else
        collect_axes(&o, reduce);
    while (join_one(&o))
        ;
    text_printf(t, "%s:", part_name(p, leaf->part));
    for (uint32_t i = o.at.n, ends = 0; i-- > 0;) {
        const SumLoop *s = &o.at.at[i];
        text_add(t, s->x ? " " : " (");
        if (s->x)
            print_iter(&o, t, s->x);
        text_add(t, s->over ? "*" : "");
        text_add(t, s->lanes ? "v" : "");
        ends += !s->x;
        for (; !i && ends; ends--)
            text_add(t, " )");
    }
    text_add(t, "\n");
}

void
points_summation_order(const Points *p, const LoopNode *n, Text *t)
{
    if (n->kind == NODE_LEAF && (n->phase == PHASE_COMPLETE || n->phase == PHASE_UPDATE))
        print_leaf(p, n, t);
    for (uint32_t i = 0; i < n->body.n; i++)
        points_summation_order(p, n->body.at[i], t);
}
