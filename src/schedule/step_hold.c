/* step_hold: gives a part's reduction an accumulator, which splits the part into a beginning,
 * summands and an end.
 *
 *     L: chain: o
 *     L: { chain without sums: begin;  chain: add;  chain without sums: finish }
 *
 * Of a scan the last element is held: L: { chain without the scan: begin; chain: o from the held
 * element, and hold it }.
 *
 * A hold inside the summands of another one is part of it: it begins from it and ends in it. If no
 * summand is between the two loops, it begins at the identity instead and the outer one needs no
 * beginning. One that is factored always begins at the identity, and the common factor of its
 * summands multiplies it where it ends in the outer one:
 *
 *     k: q: acc += x[k, q] * w[k, q] * s[k]
 *     k: { part = 0;  q: part += x[k, q] * w[k, q];  acc += part * s[k] }
 */
#include "schedule/point.h"

static bool
is_summed(const Points *p, const LoopNode *n)
{
    return n->iter && p->iter.at[n->iter].kind != AXIS_PARALLEL;
}

static bool
among(IterId x, const IterId *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == x)
            return true;
    return false;
}

/* Loops of n down to `leaf` that are outputs (or in `over`), copied after `last`; the new leaf. */
static LoopNode *
copy_chain(Points *p, LoopNode *n, const LoopNode *leaf, LoopNode *under, Phase phase, Sym prefix,
           const Hold *h, bool over)
{
    for (; n != leaf; n = n->body.at[0]) {
        if (is_summed(p, n) && !(over && among(n->iter, h->over, h->nover)))
            continue;
        LoopNode *copy = node_loop(p, under, n->iter, phase, prefix);
        copy->run = n->run;
        under = copy;
    }
    LoopNode *end = node_new(p, NODE_LEAF, under, phase, NULL);
    end->part = leaf->part;
    end->hold = p->hold.n;
    return end;
}

static LoopNode *
find_init(LoopNode *n, uint32_t hold)
{
    if (n->kind == NODE_LEAF)
        return n->phase == PHASE_INIT && n->hold == hold ? n : NULL;
    for (uint32_t i = 0; i < n->body.n; i++) {
        LoopNode *found = find_init(n->body.at[i], hold);
        if (found)
            return found;
    }
    return NULL;
}

/* The beginning of a hold that another one begins for. */
static void
drop_init(Points *p, uint32_t hold)
{
    LoopNode *n = find_init(p->root, hold), *at = p->hold.at[hold].at;

    while (n && n->up != at)
        n = n->up;
    if (n)
        node_detach(at, n);
}

/* The factors of a product that are invariant in loop `at` (*factor), and the others (*rest). */
static void
split_factors(Points *p, const Scalar *s, AxisSet varying, const Scalar **factor,
              const Scalar **rest)
{
    if (s->op == S_MUL) {
        split_factors(p, s->arg[0], varying, factor, rest);
        split_factors(p, s->arg[1], varying, factor, rest);
        return;
    }
    const Scalar **to = s->axes & varying ? rest : factor;
    *to = *to ? scalar_2(p->c, S_MUL, *to, s) : s;
}

static bool
leave_out_factors(Points *p, const Step *s, const Scalar *reduce, Hold *h)
{
    AxisSet varying = 0;

    if (!h->outer || s->nloop || reduce->narg > 1 || reduce->u.reduce.combiner != COMB_SUM)
        return points_refuse(p, "%s: only a sum that is a part of one held outside can be factored",
                             s->made[0]);
    for (uint32_t x = 0; x < NEST_MAX_AXES; x++)
        if (reduce->u.reduce.axes >> x & 1 &&
            !iter_is_known(p, h->at, p->axis[h->part][x], NULL, 0))
            varying |= (AxisSet)1 << x;
    split_factors(p, reduce->arg[0], varying, &h->factor, &h->rest);
    h->fresh = false;
    return (h->factor && h->rest) ||
           points_refuse(p, "%s: its summands inside %s share no factor", s->made[0], s->at);
}

bool
step_hold(Points *p, const Step *s)
{
    uint32_t part = points_part(p, s->subject);
    LoopNode *at = part == NO_SLOT ? NULL : points_loop(p, s->at),
             *leaf = at ? part_leaf(p, part) : NULL, *sub;
    const Scalar *reduce = leaf ? part_reduction(p, part) : NULL,
                 *previous = leaf ? part_previous(p, part) : NULL;
    Hold h = { .name = s->made[0], .part = part, .at = at, .update = leaf, .space = s->word };

    if (!leaf)
        return false;
    if (!reduce && !previous)
        return points_refuse(p, "%s sums nothing", s->subject);
    if (leaf->hold && (previous || reduce->narg > 1))
        return points_refuse(p, "%s is held in one place alone: it is a scan or picks", s->subject);
    if (s->nloop && (previous || reduce->narg > 1))
        return points_refuse(p, "%s has no parts to be combined: it is a scan or picks",
                             s->subject);
    if (!node_inside(leaf, at))
        return points_refuse(p, "%s is not computed inside %s", s->subject, s->at);
    if (s->word != WORD_reg && s->word != WORD_scratch)
        return points_refuse(p, "a hold is in reg or in scratch, not in %s", word_name[s->word]);
    for (uint32_t i = 1; i < p->hold.n; i++)
        if (p->hold.at[i].name == s->made[0])
            return points_refuse(p, "the name %s is taken", s->made[0]);
    h.outer = leaf->hold;
    h.fresh = true;
    const LoopNode *limit = h.outer ? p->hold.at[h.outer].at : p->root;
    for (const LoopNode *n = at; n != limit; n = n->up) {
        if (n == p->root)
            return points_refuse(p, "%s lives outside %s, which %s is a part of", s->made[0],
                                 p->hold.at[h.outer].name, s->made[0]);
        /* a reader's sums are not its own */
        if (!is_summed(p, n) || p->iter.at[n->iter].part != part)
            continue;
        if (!h.outer)
            return points_refuse(p,
                                 "%s would begin again in every trip of %s, which is summed over "
                                 "or walked in order; hold it outside first",
                                 s->subject, p->iter.at[n->iter].name);
        h.fresh = false;
    }
    if (s->word2 != WORD_none && s->word2 != WORD_factored)
        return points_refuse(p, "a hold is factored or not, but not %s", word_name[s->word2]);
    if (s->word2 == WORD_factored && !leave_out_factors(p, s, reduce, &h))
        return false;
    for (sub = leaf; sub->up != at; sub = sub->up)
        if (sub->up->body.n != 1)
            return points_refuse(p, "something else stands in %s by now; hold before staging",
                                 p->iter.at[sub->up->iter].name);
    for (uint32_t i = 0; i < s->nloop; i++) {
        LoopNode *over = points_loop(p, s->loop[i]);
        if (!over)
            return false;
        if (!is_summed(p, over) || !node_inside(leaf, over) || !node_inside(over, sub))
            return points_refuse(p, "%s is not a loop inside %s that is summed over", s->loop[i],
                                 s->at);
        h.over[h.nover++] = over->iter;
    }
    uint32_t i = node_place(at, sub);
    copy_chain(p, sub, leaf, at, PHASE_INIT, sym_printf(p->c, "%s.init", h.name), &h, true);
    node_move_last(at, i);
    VEC_PUSH(p->a, &at->holds, p->hold.n);
    if (previous) {
        leaf->hold = p->hold.n;
        VEC_PUSH(p->a, &p->hold, h);
        return true;
    }
    copy_chain(p, sub, leaf, at, h.outer ? PHASE_FLUSH : PHASE_FINISH,
               sym_printf(p->c, "%s.fin", h.name), &h, false);
    node_move_last(at, i + 2);
    for (LoopNode *n = sub;; n = n->body.at[0]) {
        n->phase = PHASE_UPDATE;
        if (n == leaf)
            break;
    }
    leaf->hold = p->hold.n;
    VEC_PUSH(p->a, &p->hold, h);
    if (h.outer && h.fresh)
        drop_init(p, h.outer);
    return true;
}
