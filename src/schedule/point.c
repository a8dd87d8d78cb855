/* point: kernels as points, and finding one's way among them. The steps are in step_*.c. */
#include "schedule/point.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool
points_refuse(Points *p, const char *format, ...)
{
    char text[512];                                  /* a longer reason is cut: names may be long */
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!p->why)
        p->why = arena_str(p->a, text);
    return false;
}

/* ---- nodes ------------------------------------------------------------------------------------------- */

Node *
node_new(Points *p, NodeKind kind, Node *up, Phase phase, Sym prefix)
{
    Node *n = NEW(p->a, Node);

    *n = (Node){ .kind = kind, .up = up, .phase = phase, .prefix = prefix, .run = WORD_serial };
    if (up)
        VEC_PUSH(p->a, &up->body, n);
    return n;
}

Node *
node_loop(Points *p, Node *up, IterId x, Phase phase, Sym prefix)
{
    Node *n = node_new(p, NODE_LOOP, up, phase, prefix);
    n->iter = x;
    return n;
}

bool
node_inside(const Node *n, const Node *around)
{
    while (n && n != around)
        n = n->up;
    return n != NULL;
}

/* Is this node's loop called `name`? */
static bool
is_called(const Points *p, const Node *n, const char *name)
{
    const char *own = p->iter.at[n->iter].name;
    size_t prefix = n->prefix ? strlen(n->prefix) : 0;

    if (n->kind == NODE_LEAF || !n->iter)
        return false;
    return prefix ? !strncmp(name, n->prefix, prefix) && name[prefix] == '.' && !strcmp(name + prefix + 1, own) : !strcmp(name, own);
}

static Node *
find_loop(const Points *p, Node *n, const char *name)
{
    if (is_called(p, n, name))
        return n;
    for (uint32_t i = 0; i < n->body.n; i++) {
        Node *found = find_loop(p, n->body.at[i], name);
        if (found)
            return found;
    }
    return NULL;
}

static void
list_loops(const Points *p, const Node *n, Text *t)
{
    if (n->kind != NODE_LEAF && n->iter)
        text_printf(t, "%s%s%s%s", t->n ? ", " : "", n->prefix ? n->prefix : "", n->prefix ? "." : "", p->iter.at[n->iter].name);
    for (uint32_t i = 0; i < n->body.n; i++)
        list_loops(p, n->body.at[i], t);
}

Node *
points_loop(Points *p, Sym name)
{
    Text t = { .arena = p->a };
    Node *n = strcmp(name, "all") ? find_loop(p, p->root, name) : p->root;

    if (!n) {
        list_loops(p, p->root, &t);
        points_refuse(p, "there is no loop %s; there are %s", name, t.n ? text_str(&t) : "none");
    }
    return n;
}

/* ---- iterators --------------------------------------------------------------------------------------- */

IterId
iter_new(Points *p, Sym name, AxisKind kind)
{
    VEC_PUSH(p->a, &p->iter, ((Iter){ .name = name, .kind = kind, .axis = NEST_MAX_AXES, .tail = WORD_exact }));
    return p->iter.n - 1;
}

IterId
points_iter(Points *p, Sym name)
{
    for (IterId x = p->iter.n; x-- > 1;)
        if (p->iter.at[x].name == name)
            return x;
    return points_refuse(p, "there is no loop %s, nor was one cut up", name);
}

bool
name_is_free(Points *p, Sym name, Sym prefix)
{
    const char *full = prefix ? arena_printf(p->a, "%s.%s", prefix, name) : name;
    return !find_loop(p, p->root, full) || points_refuse(p, "the name %s is taken", full);
}

bool
iter_is_known(const Points *p, const Node *at, IterId x, const IterId *dim, uint32_t ndim)
{
    const Iter *it = &p->iter.at[x];

    for (uint32_t i = 0; i < ndim; i++)
        if (dim[i] == x)
            return true;
    for (const Node *n = at; n; n = n->up)
        if (n->iter == x)
            return true;
    if ((it->whole && iter_is_known(p, at, it->whole, dim, ndim)) || (it->box && iter_is_known(p, at, it->box, dim, ndim)))
        return true;
    for (IterId y = 1; y < p->iter.n; y++)
        if (p->iter.at[y].parent == x && !p->iter.at[y].inner && iter_is_known(p, at, y, dim, ndim) &&
            iter_is_known(p, at, p->iter.at[y].sibling, dim, ndim))
            return true;
    return false;
}

/* ---- parts ------------------------------------------------------------------------------------------- */

static Node *
find_leaf(Node *n, uint32_t part)
{
    if (n->kind == NODE_LEAF)
        return n->part == part && (n->phase == PHASE_WHOLE || n->phase == PHASE_UPDATE) ? n : NULL;
    for (uint32_t i = 0; i < n->body.n; i++) {
        Node *found = find_leaf(n->body.at[i], part);
        if (found)
            return found;
    }
    return NULL;
}

Node *
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

static void
note_reduction(void *user, const Scalar *s)
{
    const Scalar **found = user;
    if (s->op == S_REDUCE)
        *found = s;
}

const Scalar *
part_reduction(const Points *p, uint32_t part)
{
    const Nest *n = p->k->part[part].nest;
    const Scalar *found = NULL;

    for (uint32_t i = 0; i < n->nwrite; i++)
        scalar_visit(p->c, n->write[i].value, note_reduction, &found);
    return found;
}

/* ---- the beginning ----------------------------------------------------------------------------------- */

typedef struct { uint32_t reductions; bool picks; } Census;

static void
count_node(void *user, const Scalar *s)
{
    Census *n = user;
    n->reductions += s->op == S_REDUCE;
    n->picks |= s->op == S_ITEM || (s->op == S_REDUCE && s->narg != 1);
}

/* Parts that are plain writes of values with at most one reduction, over the axes of the writes. */
static bool
has_form(Ctx *c, const Nest *n)
{
    Census census = { 0 };

    if (nest_leaves_gaps(n))
        return false;
    for (uint32_t i = 0; i < n->nwrite; i++) {
        scalar_visit(c, n->write[i].value, count_node, &census);
        if (n->write[i].combiner != COMB_NONE)
            return false;
    }
    for (uint32_t x = 0; x < n->naxis; x++)
        if (n->axis[x].kind == AXIS_SCAN || !expr_is(n->axis[x].begin, 0))
            return false;
    return census.reductions <= 1 && !census.picks;
}

/* The j-th parallel axis of a nest. */
static uint32_t
parallel_axis(const Nest *n, uint32_t j)
{
    for (uint32_t x = 0; x < n->naxis; x++)
        if (n->axis[x].kind == AXIS_PARALLEL && j-- == 0)
            return x;
    return NEST_MAX_AXES;
}

static Sym
unique_name(Points *p, Sym wish)
{
    Sym name = wish;

    for (uint32_t suffix = 2, x = 1; x < p->iter.n; x++)
        if (p->iter.at[x].name == name) {
            name = sym_printf(p->c, "%s_%u", wish, suffix++);
            x = 0;
        }
    return name;
}

Points *
points_of(Ctx *c, Arena *a, Kernel *k, const Machine *m)
{
    Points *p = NEW(a, Points);
    IterId shared[NEST_MAX_AXES];
    uint32_t nshared = k->npart > 1 ? k->shared : 0;

    for (uint32_t i = 0; i < k->npart; i++)
        if (!has_form(c, k->part[i].nest))
            return NULL;
    *p = (Points){ .c = c, .a = a, .k = k, .m = m, .axis = (IterId(*)[NEST_MAX_AXES])NEW_ARRAY(a, IterId, (size_t)k->npart * NEST_MAX_AXES) };
    iter_new(p, sym(c, ""), AXIS_PARALLEL);
    VEC_PUSH(a, &p->hold, (Hold){ 0 });
    VEC_PUSH(a, &p->copy, (Copy){ 0 });
    VEC_PUSH(a, &p->put, (Put){ 0 });
    p->root = node_new(p, NODE_LOOP, NULL, PHASE_WHOLE, NULL);
    Node *outer = p->root;
    for (uint32_t j = 0; j < nshared; j++) {
        uint32_t x = parallel_axis(k->part[0].nest, j);
        shared[j] = iter_new(p, unique_name(p, k->part[0].nest->axis[x].name), AXIS_PARALLEL);
        p->iter.at[shared[j]].axis = x;
        outer = node_loop(p, outer, shared[j], PHASE_WHOLE, NULL);
    }
    for (uint32_t i = 0; i < k->npart; i++) {
        const Nest *n = k->part[i].nest;
        Node *in = outer;
        for (int reduce = 0; reduce < 2; reduce++)           /* reductions innermost */
            for (uint32_t x = 0, j = 0; x < n->naxis; x++) {
                if ((n->axis[x].kind == AXIS_REDUCE) != reduce)
                    continue;
                if (!reduce && j < nshared) {
                    p->axis[i][x] = shared[j++];
                    continue;
                }
                Sym name = k->npart > 1 ? sym_printf(c, "%s.%s", part_name(p, i), n->axis[x].name) : n->axis[x].name;
                IterId it = p->axis[i][x] = iter_new(p, unique_name(p, name), n->axis[x].kind);
                p->iter.at[it].part = i;
                p->iter.at[it].axis = x;
                in = node_loop(p, in, it, PHASE_WHOLE, NULL);
            }
        Node *leaf = node_new(p, NODE_LEAF, in, PHASE_WHOLE, NULL);
        leaf->part = i;
    }
    return p;
}

/* ---- steps ------------------------------------------------------------------------------------------- */

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
