/* point: kernels as points, and how to find loops in them. The steps are in step_*.c. */
#include "schedule/point.h"
#include "text/text.h"

#include <stdarg.h>
#include <string.h>

bool
points_refuse(Points *p, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!p->why)
        p->why = arena_vprintf(p->a, format, args);
    va_end(args);
    return false;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

LoopNode *
node_new(Points *p, LoopNodeKind kind, LoopNode *up, Phase phase, Sym prefix)
{
    LoopNode *n = NEW(p->a, LoopNode);

    *n = (LoopNode){ .kind = kind, .up = up, .phase = phase, .prefix = prefix, .run = WORD_serial };
    if (up)
        VEC_PUSH(p->a, &up->body, n);
    return n;
}

LoopNode *
node_loop(Points *p, LoopNode *up, IterId x, Phase phase, Sym prefix)
{
    LoopNode *n = node_new(p, NODE_LOOP, up, phase, prefix);
    n->iter = x;
    return n;
}

uint32_t
node_place(const LoopNode *up, const LoopNode *child)
{
    uint32_t i = 0;

    while (up->body.at[i] != child)
        i++;
    return i;
}

void
node_move_last(LoopNode *up, uint32_t place)
{
    LoopNode *last = up->body.at[--up->body.n];

    memmove(up->body.at + place + 1, up->body.at + place,
            (up->body.n++ - place) * sizeof *up->body.at);
    up->body.at[place] = last;
}

void
node_detach(LoopNode *up, const LoopNode *child)
{
    uint32_t i = node_place(up, child);

    memmove(up->body.at + i, up->body.at + i + 1, (--up->body.n - i) * sizeof *up->body.at);
}

LoopNode *
node_only_leaf(const LoopNode *n)
{
    while (n->kind != NODE_LEAF && n->body.n == 1)
        n = n->body.at[0];
    return n->kind == NODE_LEAF ? (LoopNode *)(uintptr_t)n : NULL;
}

bool
node_inside(const LoopNode *n, const LoopNode *around)
{
    while (n && n != around)
        n = n->up;
    return n != NULL;
}

/* Is the node a loop that steps may name? */
static bool
is_named(const LoopNode *n)
{
    return (n->kind == NODE_LOOP || n->kind == NODE_WALK) && n->iter;
}

/* Does this node's loop have that name? */
static bool
is_called(const Points *p, const LoopNode *n, const char *name)
{
    const char *own = p->iter.at[n->iter].name;
    size_t prefix = n->prefix ? strlen(n->prefix) : 0;

    if (!is_named(n))
        return false;
    return prefix ? !strncmp(name, n->prefix, prefix) && name[prefix] == '.' &&
                        !strcmp(name + prefix + 1, own)
                  : !strcmp(name, own);
}

static LoopNode *
find_loop(const Points *p, LoopNode *n, const char *name)
{
    if (is_called(p, n, name))
        return n;
    for (uint32_t i = 0; i < n->body.n; i++) {
        LoopNode *found = find_loop(p, n->body.at[i], name);
        if (found)
            return found;
    }
    return NULL;
}

static void
list_loops(const Points *p, const LoopNode *n, Text *t)
{
    if (is_named(n))
        text_printf(t, "%s%s%s%s", t->n ? ", " : "", n->prefix ? n->prefix : "",
                    n->prefix ? "." : "", p->iter.at[n->iter].name);
    for (uint32_t i = 0; i < n->body.n; i++)
        list_loops(p, n->body.at[i], t);
}

LoopNode *
points_loop(Points *p, Sym name)
{
    Text t = { .arena = p->a };
    LoopNode *n = strcmp(name, "all") ? find_loop(p, p->root, name) : p->root;

    if (!n) {
        list_loops(p, p->root, &t);
        points_refuse(p, "there is no loop %s; there are %s", name, t.n ? text_str(&t) : "none");
    }
    return n;
}

/* ---- iterators ------------------------------------------------------------------------------- */

IterId
iter_new(Points *p, Sym name, AxisKind kind)
{
    VEC_PUSH(p->a, &p->iter,
             ((Iter){ .name = name, .kind = kind, .axis = NEST_MAX_AXES, .tail = WORD_exact }));
    return p->iter.n - 1;
}

IterId
points_iter(Points *p, Sym name)
{
    /* no step refers to the iterators that run over what is filled, or over an image's row */
    for (IterId x = p->iter.n; x-- > 1;)
        if (p->iter.at[x].name == name && !p->iter.at[x].size)
            return x;
    return points_refuse(p, "there is no loop %s, nor was one cut up", name);
}

bool
name_is_free(Points *p, Sym name, Sym prefix)
{
    const char *full = prefix ? arena_printf(p->a, "%s.%s", prefix, name) : name;
    return !(find_loop(p, p->root, full) || word_is_reserved(name)) ||
           points_refuse(p, "the name %s is taken", full);
}

bool
iter_is_known(const Points *p, const LoopNode *at, IterId x, const IterId *dim, uint32_t ndim)
{
    const Iter *it = &p->iter.at[x];

    for (uint32_t i = 0; i < ndim; i++)
        if (dim[i] == x)
            return true;
    for (const LoopNode *n = at; n; n = n->up)
        if (n->iter == x)
            return true;
    IterId from[] = { it->whole, it->box, it->with };
    for (uint32_t i = 0; i < sizeof from / sizeof *from; i++) {
        const Iter *box = &p->iter.at[it->box];
        if (!from[i] || !iter_is_known(p, at, from[i], dim, ndim))
            continue;
        if (from[i] != it->box ||
            (box->skip ? node_inside(at, p->skip.at[box->skip].at)
                       : box_is_steady(p, &p->put.at[box->put], box->dim, at)))
            return true;
    }
    for (IterId y = 1; y < p->iter.n; y++)
        if (p->iter.at[y].parent == x && !p->iter.at[y].inner &&
            iter_is_known(p, at, y, dim, ndim) &&
            iter_is_known(p, at, p->iter.at[y].sibling, dim, ndim))
            return true;
    return false;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static LoopNode *
find_leaf(LoopNode *n, uint32_t part)
{
    if (n->kind == NODE_LEAF)
        return n->part == part && (n->phase == PHASE_COMPLETE || n->phase == PHASE_UPDATE) ? n
                                                                                           : NULL;
    for (uint32_t i = 0; i < n->body.n; i++) {
        LoopNode *found = find_leaf(n->body.at[i], part);
        if (found)
            return found;
    }
    return NULL;
}

LoopNode *
part_leaf(Points *p, uint32_t part)
{
    return find_leaf(p->root, part);
}

Sym
part_name(const Points *p, uint32_t i)
{
    const Part *part = &p->k->part[i];
    return p->k->buffer.at[part->buffer[part->nest->write[0].out]].name;
}

uint32_t
points_part(Points *p, Sym name)
{
    Text t = { .arena = p->a };

    for (uint32_t i = 0; i < p->k->npart; i++) {
        if (part_name(p, i) == name)
            return i;
        text_printf(&t, "%s%s", i ? ", " : "", part_name(p, i));
    }
    points_refuse(p, "no part makes %s; parts make %s", name, text_str(&t));
    return NO_SLOT;
}

const Scalar *
part_reduction(const Points *p, uint32_t part)
{
    const Nest *n = p->k->part[part].nest;
    const Scalar *found = NULL;

    for (uint32_t i = 0; i < n->nwrite; i++) {
        if (n->write[i].combiner != COMB_NONE)
            return NULL;
        FOR_EACH_SCALAR (s, scalar_nodes(p->c, n->write[i].value)) {
            if (s->op != S_REDUCE)
                continue;
            if (found && s != found)
                return NULL;
            found = s;
        }
    }
    return nest_axes_of_kind(n, AXIS_SCAN) ? NULL : found;
}

const Scalar *
value_unknown(Ctx *c, DType t)
{
    return scalar_cast(c, t, scalar_index(c, expr_var(c, LANE)));
}

void
reduction_left_out(Ctx *c, Map *values, const Scalar *reduce)
{
    for (uint32_t i = 0; i < reduce->narg; i++)
        map_put(values, MAP_PTR(reduction_item(c, reduce, i)),
                MAP_PTR(value_unknown(c, reduce->arg[i]->dtype)));
}

const Scalar *
reduction_item(Ctx *c, const Scalar *reduce, uint32_t i)
{
    return reduce->narg == 1 ? reduce : scalar_item(c, reduce, i);
}

const Scalar *
part_previous(const Points *p, uint32_t part)
{
    const Nest *n = p->k->part[part].nest;
    Accesses all = nest_accesses(p->c, p->a, n);
    const Scalar *found = NULL;
    uint32_t scans = 0, back = 0;

    for (uint32_t x = 0; x < n->naxis; x++)
        scans += n->axis[x].kind == AXIS_SCAN;
    for (uint32_t i = 0; i < all.n; i++) {
        if (all.at[i].load->u.load.slot < n->nin)
            continue;
        if (found && found != all.at[i].load)
            return NULL;
        found = all.at[i].load;
    }
    if (!found || scans != 1 || n->nwrite != 1 || !found->u.load.outside)
        return NULL;
    for (uint32_t d = 0; d < found->u.load.rank; d++) {
        const Expr *at = n->write[0].at[d];
        if (found->u.load.at[d] == at)
            continue;
        if (axis_of(at) == NO_SLOT || n->axis[axis_of(at)].kind != AXIS_SCAN ||
            !expr_is(expr_sub(p->c, at, found->u.load.at[d]), 1))
            return NULL;
        back++;
    }
    return back == 1 ? found : NULL;
}

static bool
combines(const Nest *n)
{
    bool any = false;

    for (uint32_t i = 0; i < n->nwrite; i++)
        any |= n->write[i].combiner != COMB_NONE;
    return any;
}

bool
part_is_filled(const Points *p, uint32_t part)
{
    return combines(p->k->part[part].nest);
}

bool
axis_separates_writes(Ctx *c, const Nest *n, uint32_t axis)
{
    if (n->axis[axis].kind != AXIS_PARALLEL)
        return false;
    for (uint32_t i = 0; i < n->nwrite; i++) {
        const Write *w = &n->write[i];
        const Type *t = n->param[w->out].type;
        bool whole = false;
        for (uint32_t d = 0; d < t->rank; d++)
            whole |= axis_of(w->at[d]) == axis &&
                     expr_eq(c, NULL, n->axis[axis].extent, t->dim[d]) == YES;
        if (!whole)
            return false;
    }
    return true;
}

/* ---- initial points -------------------------------------------------------------------------- */

static Sym
unique_name(Points *p, Sym like)
{
    Sym name = like;

    for (uint32_t suffix = 2, x = 1; x < p->iter.n; x++)
        if (p->iter.at[x].name == name) {
            name = sym_printf(p->c, "%s_%u", like, suffix++);
            x = 0;
        }
    return name;
}

/* Loops over the output dimensions that no axis covers completely. */
static void
fill_loops(Points *p, uint32_t part, uint32_t write, LoopNode *in, AxisSet outside)
{
    const Nest *n = p->k->part[part].nest;
    const Write *w = &n->write[write];
    const Type *t = n->param[w->out].type;
    IterId *dim = NEW_ARRAY(p->a, IterId, t->rank + 1);
    Sym prefix =
        p->k->npart > 1 ? sym_printf(p->c, "%s.fill", part_name(p, part)) : sym(p->c, "fill");

    for (uint32_t d = 0; d < t->rank; d++) {
        if (outside & axis_bit(w->at[d]))
            continue;
        dim[d] = iter_new(p, unique_name(p, sym_printf(p->c, "d%u", d)), AXIS_PARALLEL);
        p->iter.at[dim[d]].part = part;
        p->iter.at[dim[d]].size = t->dim[d];
        in = node_loop(p, in, dim[d], PHASE_FILL, prefix);
    }
    LoopNode *leaf = node_new(p, NODE_LEAF, in, PHASE_FILL, NULL);
    leaf->part = part;
    leaf->write = write;
    leaf->dim = dim;
}

/* May a parallel axis move past a scan and be distributed over threads? Only if each iteration
 * reads only what it wrote itself. */
static bool
reads_across(const Nest *n, const Accesses *all)
{
    for (uint32_t i = 0; i < all->n; i++)
        for (uint32_t k = 0; all->at[i].load->u.load.slot >= n->nin && k < n->nwrite; k++) {
            const Scalar *load = all->at[i].load;
            const Write *w = &n->write[k];
            for (uint32_t d = 0; w->out == load->u.load.slot && d < load->u.load.rank; d++)
                if (load->u.load.at[d] != w->at[d] &&
                    !(axis_bit(w->at[d]) & nest_axes_of_kind(n, AXIS_SCAN)))
                    return true;
        }
    return false;
}

static LoopNode *
axis_loop(Points *p, uint32_t part, uint32_t x, AxisKind kind, LoopNode *in)
{
    const Nest *n = p->k->part[part].nest;
    Sym name = p->k->npart > 1 ? sym_printf(p->c, "%s.%s", part_name(p, part), n->axis[x].name)
                               : n->axis[x].name;
    IterId it = p->axis[part][x] = iter_new(p, unique_name(p, name), kind);

    p->iter.at[it].part = part;
    p->iter.at[it].axis = x;
    return node_loop(p, in, it, PHASE_COMPLETE, NULL);
}

static void
part_loops(Points *p, uint32_t part, LoopNode *in, const IterId *shared, uint32_t nshared)
{
    const Nest *n = p->k->part[part].nest;
    Accesses all = nest_accesses(p->c, p->a, n);
    bool filled = part_is_filled(p, part), across = reads_across(n, &all),
         placed[NEST_MAX_AXES] = { false };
    AxisSet outside = 0;

    for (uint32_t x = 0, j = 0; j < nshared && x < n->naxis; x++)
        if (n->axis[x].kind == AXIS_PARALLEL) {
            p->axis[part][x] = shared[j++];
            outside |= (AxisSet)1 << x;
            placed[x] = true;
        }
    for (uint32_t x = 0; filled && x < n->naxis; x++)
        if (!placed[x] && axis_separates_writes(p->c, n, x)) {
            in = axis_loop(p, part, x, AXIS_PARALLEL, in);
            outside |= (AxisSet)1 << x;
            placed[x] = true;
        }
    for (uint32_t i = 0; filled && i < n->nwrite; i++)
        fill_loops(p, part, i, in, outside);
    for (int reduce = 0; reduce <= (part_reduction(p, part) != NULL); reduce++) /* innermost */
        for (uint32_t x = 0; x < n->naxis; x++) {
            bool in_order = across || (combines(n) && n->axis[x].kind == AXIS_PARALLEL);
            if (!placed[x] && (n->axis[x].kind == AXIS_REDUCE) == reduce)
                in = axis_loop(p, part, x, in_order && !reduce ? AXIS_SCAN : n->axis[x].kind, in);
        }
    LoopNode *leaf = node_new(p, NODE_LEAF, in, PHASE_COMPLETE, NULL);
    leaf->part = part;
}

Points *
points_of(Ctx *c, Arena *a, Kernel *k, const Machine *m)
{
    Points *p = NEW(a, Points);
    IterId shared[NEST_MAX_AXES];
    uint32_t nshared = k->npart > 1 ? k->shared : 0;

    *p = (Points){ .c = c,
                   .a = a,
                   .k = k,
                   .m = m,
                   .axis = (IterId(*)[NEST_MAX_AXES])NEW_ARRAY(a, IterId,
                                                               (size_t)k->npart * NEST_MAX_AXES) };
    iter_new(p, sym(c, ""), AXIS_PARALLEL);
    VEC_PUSH(a, &p->hold, (Hold){ 0 });
    VEC_PUSH(a, &p->copy, (Copy){ 0 });
    VEC_PUSH(a, &p->put, (Put){ 0 });
    VEC_PUSH(a, &p->online, (Online){ 0 });
    VEC_PUSH(a, &p->skip, (Skip){ 0 });
    p->root = node_new(p, NODE_LOOP, NULL, PHASE_COMPLETE, NULL);
    LoopNode *outer = p->root;
    uint32_t parallel[NEST_MAX_AXES];
    axis_list(nest_axes_of_kind(k->part[0].nest, AXIS_PARALLEL), parallel);
    for (uint32_t j = 0; j < nshared; j++) {
        uint32_t x = parallel[j];
        shared[j] = iter_new(p, unique_name(p, k->part[0].nest->axis[x].name), AXIS_PARALLEL);
        p->iter.at[shared[j]].axis = x;
        outer = node_loop(p, outer, shared[j], PHASE_COMPLETE, NULL);
    }
    for (uint32_t i = 0; i < k->npart; i++)
        part_loops(p, i, outer, shared, nshared);
    return p;
}

/* ---- steps ----------------------------------------------------------------------------------- */

bool
points_step(Points *p, const Step *s)
{
    static bool (*const apply[VERB_COUNT])(Points *, const Step *) = {
#define VERB(name, form, meaning) step_##name,
#include "schedule/verbs.def"
#undef VERB
    };
    return apply[s->verb](p, s);
}
