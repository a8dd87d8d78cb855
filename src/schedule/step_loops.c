/* step_loops: loops split, fused, reordered, and run in other ways.
 *
 * Iterations of a sum may be regrouped: the sum is a fixed tree of additions, the same for any
 * number of threads.
 */
#include "schedule/point.h"

#include <string.h>

/* ---- split ----------------------------------------------------------------------------------- */

/* The iterations of a loop: an axis, several fused, or a part of one; 0: not a constant number. */
static int64_t
known_trips(const Points *p, IterId x)
{
    const Iter *it = &p->iter.at[x];
    int64_t trips = 1, extent, whole;

    if (it->parent) {
        whole = known_trips(p, it->parent);
        bool even = whole % it->factor == 0 || it->tail == WORD_pad;
        return whole == 0   ? 0
               : !it->inner ? (whole + it->factor - 1) / it->factor
               : even       ? it->factor
                            : 0;
    }
    if (it->skip)
        return 0;
    if (!it->nfrom || it->pitched)
        return it->axis < NEST_MAX_AXES &&
                       expr_const(p->k->part[it->part].nest->axis[it->axis].extent, &extent)
                   ? extent
                   : 0;
    for (uint32_t i = 0; i < it->nfrom; i++)
        if (mul_overflows(trips, known_trips(p, it->from[i]), &trips))
            return 0;
    return trips;
}

/* Is every iteration complete? */
static bool
divides(Points *p, IterId x, int64_t n)
{
    const Iter *it = &p->iter.at[x];

    if (it->inner && it->factor % n == 0 && (it->tail == WORD_exact || it->tail == WORD_pad))
        return true;
    if (it->skip && p->skip.at[it->skip].by % n)
        return false;
    if (it->nfrom || it->parent)
        return known_trips(p, x) > 0 && known_trips(p, x) % n == 0;
    return it->axis < NEST_MAX_AXES &&
           expr_divisible(p->c, NULL, p->k->part[it->part].nest->axis[it->axis].extent, n) == YES;
}

/* Moves the buffers of one loop's body to another's. */
static void
live_at(Points *p, const LoopNode *was, LoopNode *is)
{
    for (uint32_t i = 1; i < p->hold.n; i++)
        p->hold.at[i].at = p->hold.at[i].at == was ? is : p->hold.at[i].at;
    for (uint32_t i = 1; i < p->copy.n; i++)
        p->copy.at[i].at = p->copy.at[i].at == was ? is : p->copy.at[i].at;
    for (uint32_t i = 1; i < p->put.n; i++)
        p->put.at[i].at = p->put.at[i].at == was ? is : p->put.at[i].at;
    for (uint32_t i = 1; i < p->skip.n; i++)
        p->skip.at[i].at = p->skip.at[i].at == was ? is : p->skip.at[i].at;
    for (uint32_t i = 0; i < p->omit.n; i++)
        p->omit.at[i].rows = p->omit.at[i].rows == was ? is : p->omit.at[i].rows;
    for (uint32_t i = 0; i < p->prefetch.n; i++) {
        Prefetch *f = &p->prefetch.at[i];
        f->at = f->at == was ? is : f->at;
        f->of = f->of == was ? is : f->of;
    }
}

bool
step_split(Points *p, const Step *s)
{
    LoopNode *n = points_loop(p, s->subject);

    if (!n)
        return false;
    if (n->kind != NODE_LOOP || n->run != WORD_serial)
        return points_refuse(p, "%s is not a serial loop any more", s->subject);
    if (s->made[0] == s->made[1] || !name_is_free(p, s->made[0], n->prefix) ||
        !name_is_free(p, s->made[1], n->prefix))
        return points_refuse(p, "both pieces are called %s", s->made[0]);
    Word tail = s->word ? s->word : WORD_peel;
    if (tail < WORD_exact || tail > WORD_pad)
        return points_refuse(p, "%s says nothing of a last trip; exact, peel, guard and pad do",
                             word_name[tail]);
    if (tail == WORD_exact && !divides(p, n->iter, s->number))
        return points_refuse(p, "%s is not known to be a multiple of %lld; say peel, guard or pad",
                             s->subject, (long long)s->number);
    if (s->rest && tail != WORD_peel && tail != WORD_pad)
        return points_refuse(p, "a second number is for peel and pad");
    if (s->rest && tail == WORD_pad && (s->rest >= s->number || s->number % s->rest))
        return points_refuse(p,
                             "%lld points are padded to a multiple of a number that divides them "
                             "and is less, not of %lld",
                             (long long)s->number, (long long)s->rest);
    if (p->iter.at[n->iter].kind != AXIS_PARALLEL && (tail == WORD_pad || s->rest))
        return points_refuse(p,
                             "%s is summed over or walked in order: points beyond its end would "
                             "count; say peel or guard",
                             s->subject);
    IterId parent = n->iter, outer = iter_new(p, s->made[0], p->iter.at[parent].kind),
           inner = iter_new(p, s->made[1], p->iter.at[parent].kind);
    for (int in = 0; in < 2; in++) {
        Iter *it = &p->iter.at[in ? inner : outer];
        it->part = p->iter.at[parent].part;
        it->parent = parent;
        it->sibling = in ? outer : inner;
        it->inner = in;
        it->factor = s->number;
        it->tail = tail;
        it->rest = s->rest;
    }
    LoopNode *child = NEW(p->a, LoopNode);
    *child = *n;
    child->iter = inner;
    child->up = n;
    for (uint32_t i = 0; i < child->body.n; i++)
        child->body.at[i]->up = child;
    live_at(p, n, child);
    n->iter = outer;
    n->body.at = NULL;
    n->body.n = n->body.cap = n->holds.n = n->copies.n = n->puts.n = 0;
    VEC_PUSH(p->a, &n->body, child);
    return true;
}

/* ---- fuse ------------------------------------------------------------------------------------ */

/* Extents that depend on other axes, or on data, have no fixed digits. */
static bool
is_rectangular(Points *p, IterId x)
{
    const Iter *it = &p->iter.at[x];

    if (it->axis == NEST_MAX_AXES)
        return true;
    return !axis_varies(&p->k->part[it->part].nest->axis[it->axis]);
}

bool
step_fuse(Points *p, const Step *s)
{
    LoopNode *first = points_loop(p, s->loop[0]), *n = first;
    IterId from[STEP_MAX_LOOPS];

    for (uint32_t i = 0; n && i < s->nloop; i++) {
        if (i > 0 && (n->body.n != 1 || n->body.at[0] != points_loop(p, s->loop[i])))
            return points_refuse(p, "%s does not stand directly inside %s", s->loop[i],
                                 s->loop[i - 1]);
        n = i > 0 ? n->body.at[0] : n;
        const Iter *it = &p->iter.at[n->iter];
        if (n->kind != NODE_LOOP || n->run != WORD_serial || n->holds.n ||
            ((n->copies.n || n->puts.n) && i + 1 < s->nloop))
            return points_refuse(p, "%s is not a plain serial loop any more", s->loop[i]);
        if (it->kind != p->iter.at[first->iter].kind)
            return points_refuse(
                p, "%s and %s are not of one kind: outputs, summed over, walked in order",
                s->loop[i], s->loop[0]);
        if (!is_rectangular(p, n->iter))
            return points_refuse(p, "the extent of %s depends on other loops or on data",
                                 s->loop[i]);
        if (it->parent && !it->inner && it->tail == WORD_peel &&
            !divides(p, it->parent, it->factor))
            return points_refuse(
                p, "the last trip of %s is peeled, so it needs a loop of its own; say guard",
                s->loop[i]);
        from[i] = n->iter;
    }
    if (!n)
        return false;
    if (s->made[0] != s->loop[0] && !name_is_free(p, s->made[0], first->prefix))
        return false;
    IterId whole = iter_new(p, s->made[0], p->iter.at[from[0]].kind);
    Iter *it = &p->iter.at[whole];
    it->part = p->iter.at[from[0]].part;
    it->nfrom = s->nloop;
    it->from = arena_copy(p->a, from, s->nloop * sizeof *from);
    it->pitched = s->word == WORD_pitched;
    for (uint32_t i = 0; i < s->nloop; i++)
        p->iter.at[from[i]].whole = whole;
    first->iter = whole;
    if (n != first) {
        first->body = n->body;
        first->copies = n->copies;
        first->puts = n->puts;
        live_at(p, n, first);
        for (uint32_t i = 0; i < first->body.n; i++)
            first->body.at[i]->up = first;
    }
    return true;
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Is x iterator `base`, a part of it, or a fused iterator that contains it? */
static bool
is_made_of(const Points *p, IterId x, IterId base)
{
    const Iter *it = &p->iter.at[x];
    bool any = x == base || (it->parent && is_made_of(p, it->parent, base));

    for (uint32_t i = 0; i < it->nfrom; i++)
        any |= is_made_of(p, it->from[i], base);
    return any;
}

/* Does x's own extent need the value of iterator y: is y the loop whose last iteration shortens x,
 * or an axis that x's extent is computed from? */
static bool
needs_outside(Points *p, IterId x, IterId y)
{
    const Iter *it = &p->iter.at[x];

    if (it->inner && it->sibling == y)
        return !divides(p, it->parent, it->factor);
    if (it->axis == NEST_MAX_AXES)
        return it->parent && needs_outside(p, it->parent, y);
    AxisSet uses = expr_axes(p->k->part[it->part].nest->axis[it->axis].extent);
    for (uint32_t a = 0; a < NEST_MAX_AXES; a++)
        if (uses >> a & 1 && is_made_of(p, y, p->axis[it->part][a]))
            return true;
    return false;
}

bool
step_order(Points *p, const Step *s)
{
    LoopNode *named[STEP_MAX_LOOPS] = { NULL }, *at[STEP_MAX_LOOPS];
    IterId iter[STEP_MAX_LOOPS];
    Sym prefix[STEP_MAX_LOOPS];
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->nloop; i++) {
        if (!(named[i] = points_loop(p, s->loop[i])))
            return false;
        iter[i] = named[i]->iter;
        prefix[i] = named[i]->prefix;
        if (named[i]->kind != NODE_LOOP || named[i]->run != WORD_serial || named[i]->holds.n ||
            named[i]->copies.n || named[i]->puts.n)
            return points_refuse(p, "%s is not a plain serial loop any more", s->loop[i]);
    }
    /* their positions on the chain, outermost first */
    LoopNode *inner = named[0];
    for (uint32_t i = 1; i < s->nloop; i++)
        inner = node_inside(named[i], inner) ? named[i] : inner;
    for (LoopNode *x = inner; x && n < s->nloop; x = x->up) {
        for (uint32_t i = 0; i < s->nloop; i++)
            if (named[i] == x)
                at[n++] = x;
        if (n < s->nloop && x->up && x->up->body.n != 1)
            return points_refuse(p, "%s and others do not stand on one chain of loops", s->loop[0]);
    }
    if (n < s->nloop)
        return points_refuse(p, "the loops named do not stand on one chain, each once");
    for (uint32_t i = 0; i < s->nloop; i++)
        for (uint32_t k = i + 1; k < s->nloop; k++)
            if (p->iter.at[iter[i]].kind == AXIS_SCAN && p->iter.at[iter[k]].kind == AXIS_SCAN &&
                node_inside(named[i], named[k]))
                return points_refuse(p, "%s and %s are walked in order", s->loop[k], s->loop[i]);
    for (uint32_t i = 0; i < s->nloop; i++) {
        at[s->nloop - 1 - i]->iter = iter[i];
        at[s->nloop - 1 - i]->prefix = prefix[i];
    }
    /* loops between that are not named as well */
    for (const LoopNode *x = inner; x != at[s->nloop - 1]; x = x->up)
        for (const LoopNode *around = x->up; around;
             around = around == at[s->nloop - 1] ? NULL : around->up)
            if (around->kind == NODE_LOOP && x->kind == NODE_LOOP && around->iter && x->iter &&
                needs_outside(p, around->iter, x->iter))
                return points_refuse(p, "the extent of %s depends on %s, which has to stay outside",
                                     p->iter.at[around->iter].name, p->iter.at[x->iter].name);
    return true;
}

/* ---- apart ----------------------------------------------------------------------------------- */

static const LoopNode *
first_leaf(const LoopNode *n)
{
    while (n->kind != NODE_LEAF)
        n = n->body.at[0];
    return n;
}

/* A shared axis becomes the part's own. */
static IterId
own_iter(Points *p, uint32_t part, IterId shared)
{
    for (uint32_t x = 0; x < p->k->part[part].nest->naxis; x++)
        if (p->axis[part][x] == shared) {
            IterId own =
                iter_new(p, sym_printf(p->c, "%s.%s", part_name(p, part), p->iter.at[shared].name),
                         AXIS_PARALLEL);
            p->iter.at[own].part = part;
            p->iter.at[own].axis = x;
            p->axis[part][x] = own;
            return own;
        }
    return shared;
}

/* The axis that an iterator is, or is a part of; 0: it is made of several. */
static IterId
axis_under(const Points *p, IterId x)
{
    while (p->iter.at[x].parent)
        x = p->iter.at[x].parent;
    return p->iter.at[x].axis < NEST_MAX_AXES ? x : 0;
}

/* The innermost axis that parts share and whose loop is around all of them: buffers between parts
 * have dimensions for the axes after it. */
static IterId
last_shared(const Points *p)
{
    const Nest *n = p->k->part[0].nest;
    uint32_t seen = 0;

    for (uint32_t x = 0; x < n->naxis; x++)
        if (n->axis[x].kind == AXIS_PARALLEL && ++seen + p->apart == p->k->shared)
            return p->axis[0][x];
    return 0;
}

/* The prefix of the names of loops around a child. Parts of a shared axis stay one iterator of all
 * parts. */
static Sym
apart_prefix(const Points *p, const LoopNode *child, bool piece)
{
    Sym part = p->k->npart > 1 ? part_name(p, first_leaf(child)->part) : NULL;

    if (child->phase != PHASE_FILL)
        return piece ? part : NULL;
    return part ? sym_printf(p->c, "%s.fill", part) : sym(p->c, "fill");
}

/* A loop around fills and the following part, or around parts, is at one point of them only. */
bool
step_apart(Points *p, const Step *s)
{
    LoopNode *n = points_loop(p, s->subject), *up = n ? n->up : NULL;

    if (!n)
        return false;
    if (!up || n->kind != NODE_LOOP || n->run != WORD_serial || n->phase != PHASE_COMPLETE ||
        n->holds.n || n->copies.n || n->puts.n || n->body.n < 2)
        return points_refuse(p, "%s is no plain serial loop around several", s->subject);
    for (uint32_t i = 0; i < n->body.n; i++)
        if (n->body.at[i]->kind == NODE_LOOP &&
            p->iter.at[n->body.at[i]->iter].axis == NEST_MAX_AXES &&
            n->body.at[i]->phase != PHASE_FILL)
            return points_refuse(
                p, "a part in %s has other loops than axes by now; take it apart before",
                s->subject);
    bool piece = p->iter.at[n->iter].axis == NEST_MAX_AXES;
    if (p->k->npart > 1 && (n->body.n != p->k->npart || !axis_under(p, n->iter) ||
                            axis_under(p, n->iter) != last_shared(p)))
        return points_refuse(
            p, "%s is not of the last shared axis, with all parts in it and nothing else",
            s->subject);
    if (up->body.n != 1)
        return points_refuse(p, "something else stands beside %s", s->subject);
    up->body.n = 0;
    for (uint32_t i = 0; i < n->body.n; i++) {
        LoopNode *child = n->body.at[i];
        IterId x =
            p->k->npart > 1 && !piece ? own_iter(p, first_leaf(child)->part, n->iter) : n->iter;
        LoopNode *loop = node_loop(p, up, x, child->phase, apart_prefix(p, child, piece));
        VEC_PUSH(p->a, &loop->body, child);
        child->up = loop;
    }
    if (p->k->npart > 1)
        p->apart++;
    return true;
}

/* ---- run ------------------------------------------------------------------------------------- */

static bool
only_parallel(Points *p, const LoopNode *n)
{
    return p->iter.at[n->iter].kind == AXIS_PARALLEL;
}

/* A register has no index at run time: the loops that begin and finish a hold run like those that
 * add to it. */
static void
run_with(Points *p, LoopNode *n, Sym name, const LoopNode *like)
{
    size_t length = strlen(name);

    if (n->kind == NODE_LOOP && n->iter == like->iter && n->prefix &&
        !strncmp(n->prefix, name, length) && n->prefix[length] == '.')
        n->run = like->run;
    for (uint32_t i = 0; i < n->body.n; i++)
        run_with(p, n->body.at[i], name, like);
}

static void
run_registers(Points *p, const LoopNode *n)
{
    for (uint32_t i = 1; i < p->hold.n; i++) {
        const Hold *h = &p->hold.at[i];
        if (h->space == WORD_reg && node_inside(h->update, n) && node_inside(n, h->at) &&
            n != h->at)
            run_with(p, h->at, h->name, n);
    }
}

/* The number of copies of the longest chain of loops below n that are written out. */
static int64_t
copies_below(Points *p, const LoopNode *n)
{
    bool unrolled = n->kind == NODE_LOOP && n->iter && n->run == WORD_unroll;
    int64_t most = 1, trips = unrolled ? known_trips(p, n->iter) : 1;

    for (uint32_t i = 0; i < n->body.n; i++) {
        int64_t below = copies_below(p, n->body.at[i]);
        most = below > most ? below : most;
    }
    return mul_overflows(most, trips > 1 ? trips : 1, &most) ? INT64_MAX : most;
}

bool
step_run(Points *p, const Step *s)
{
    if (s->word < WORD_serial || s->word > WORD_parallel)
        return points_refuse(p,
                             "%s is no way to run a loop; serial, unroll, vector and parallel are",
                             word_name[s->word]);
    for (uint32_t i = 0; i < s->nloop; i++) {
        LoopNode *n = points_loop(p, s->loop[i]);
        if (!n)
            return false;
        if (n->kind != NODE_LOOP)
            return points_refuse(p, "%s goes row by row", s->loop[i]);
        if (s->word == WORD_parallel &&
            (n->up != p->root || p->root->body.n != 1 || !only_parallel(p, n)))
            return points_refuse(p,
                                 "%s cannot be shared out: the parallel loop is the outermost one, "
                                 "over points that are apart",
                                 s->loop[i]);
        if (s->word == WORD_vector && p->iter.at[n->iter].kind == AXIS_SCAN)
            return points_refuse(p, "%s cannot be the lanes of a vector: it is walked in order",
                                 s->loop[i]);
        if (s->word == WORD_vector &&
            (n->body.n != 1 || n->body.at[0]->kind != NODE_LEAF || !p->iter.at[n->iter].inner))
            return points_refuse(
                p,
                "%s cannot be the lanes of a vector: it has to be innermost, the points of a split",
                s->loop[i]);
        if (s->word == WORD_vector && p->iter.at[n->iter].factor > 1 &&
            machine_lanes(p->m, DT_F32) == 1)
            return points_refuse(p, "%s cannot be the lanes of a vector: %s has no vectors",
                                 s->loop[i], p->m->name);
        n->run = s->word;
        if (s->word == WORD_unroll && copies_below(p, p->root) > KERNEL_MAX_COPIES)
            return points_refuse(p, "the body of %s would be written out %lld times, at most %d do",
                                 s->loop[i], (long long)copies_below(p, p->root),
                                 KERNEL_MAX_COPIES);
        run_registers(p, n);
    }
    return true;
}

/* ---- walk ------------------------------------------------------------------------------------ */

/* The chain of loops over the parts of x and nothing else, from n down; the node below it. */
static LoopNode *
below_pieces(Points *p, LoopNode *n, IterId x, uint32_t *pieces)
{
    for (; n->kind == NODE_LOOP; n = n->body.at[0]) {
        IterId y = n->iter;
        while (y && y != x)
            y = p->iter.at[y].parent;
        if (!y || n->body.n != 1 || n->holds.n || n->copies.n || n->puts.n)
            break;
        ++*pieces;
    }
    return n;
}

static LoopNode *
find_piece(Points *p, LoopNode *n, Sym prefix, IterId x)
{
    uint32_t pieces = 0;

    if (n->kind == NODE_LOOP && n->iter && n->prefix == prefix &&
        below_pieces(p, n, x, &pieces) != n)
        return n;
    for (uint32_t i = 0; i < n->body.n; i++) {
        LoopNode *found = find_piece(p, n->body.at[i], prefix, x);
        if (found)
            return found;
    }
    return NULL;
}

bool
step_walk(Points *p, const Step *s)
{
    const char *dot = NULL;
    uint32_t pieces = 0;

    for (const char *ch = s->subject; *ch; ch++)
        dot = *ch == '.' ? ch : dot;
    Sym prefix = dot ? sym_n(p->c, s->subject, (size_t)(dot - s->subject)) : NULL;
    IterId x = points_iter(p, dot ? sym(p->c, dot + 1) : s->subject);
    if (!x)
        return false;
    IterId run = x;
    while (run && !p->iter.at[run].nfrom)
        run = p->iter.at[run].parent;
    if (!run)
        return points_refuse(p, "%s does not run across rows: it is no piece of fused loops",
                             s->subject);
    for (uint32_t i = 0; i < p->iter.at[run].nfrom; i++)
        if (p->iter.at[p->iter.at[run].from[i]].axis == NEST_MAX_AXES)
            return points_refuse(p, "%s is made of pieces, not of whole axes: it has no rows",
                                 p->iter.at[run].name);
    LoopNode *n = find_piece(p, p->root, prefix, x);
    if (!n)
        return points_refuse(p, "there is no loop over the pieces of %s", s->subject);
    LoopNode *inside = below_pieces(p, n, x, &pieces);
    if (inside->kind != NODE_LEAF ||
        (inside->phase != PHASE_FINISH && inside->phase != PHASE_COPY &&
         inside->phase != PHASE_COMPLETE))
        return points_refuse(p, "%s has to be innermost, and not where sums are made", s->subject);
    n->kind = NODE_WALK;
    n->iter = x;
    n->lanes = s->number;
    n->body.n = 1;
    n->body.at[0] = inside;
    inside->up = n;
    return true;
}

bool
step_alone(Points *p, const Step *s)
{
    return points_refuse(p,
                         "steps of one part begin so where parts stand beside each other and the "
                         "first step says it too; those of this kernel are not "
                         "apart, or its first step is of all of them: take `alone %s` away",
                         s->subject);
}
