/* winograd: choose the Winograd domain of a convolution as one more format.
 *
 * A convolution with a window of 3 and stride 1 along some axes can be a batched matrix
 * multiplication between small constant contractions (winograd/winograd.h): fewer multiplications,
 * more memory traffic. Each group of steps is a kernel with a price like any other; the domain is
 * chosen where the steps together are predicted to be faster than the direct kernel. No threshold
 * on channels is needed.
 *
 * Source: doc/winograd.md.
 */
#include "format/internal.h"
#include "winograd/winograd.h"

#include <math.h>

/* The tile that is best most often comes first: the others are dropped as soon as some of their
 * steps cost as much. */
static const uint32_t tiles[] = { 4, 6, 2 };
enum { NTILE = sizeof tiles / sizeof *tiles };

/* The most error relative to the largest output of a layer: a tenth of what ONNX's own tests allow
 * (rtol 1e-3). Only the largest tile comes near. */
#define MOST_ERROR 1e-4

/* A kernel of one stage, or of two where the second is a window over the first; contents of its
 * inputs where known, and the steps that can replace it. */
typedef struct {
    const Kernel *k;
    const void *const *data;
    Winograd w;
} WinogradKernel;

/* The contents of an input of the kernel's first nest; NULL: not known. */
static const void *
input_data(const WinogradKernel *d, uint32_t slot)
{
    uint32_t buffer = d->k->part[0].buffer[slot];
    return buffer < d->k->nin ? d->data[buffer] : NULL;
}

/* ---- steps as kernels ------------------------------------------------------------------------ */

/* The steps of a group as one kernel; results of all but the last stay inside. from: the sources of
 * its inputs. */
typedef struct {
    Kernel *k;
    uint32_t *from;
} StepKernel;

static uint32_t
from_step(const Winograd *w, uint32_t step)
{
    return w->direct->nin + MATRIX_COUNT + step;
}

/* The number of steps of a group, which follow each other. */
static uint32_t
steps_of(const Winograd *w, WinogradGroup g, uint32_t *first)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < w->nstep; s++)
        if (w->step[s].group == g)
            *first = s - n++;
    return n;
}

static uint32_t
last_of(const Winograd *w, WinogradGroup g)
{
    uint32_t first = 0, n = steps_of(w, g, &first);

    return first + n - 1;
}

/* The groups that are there; those after the filters are kernels. */
static WinogradGroup
groups_of(const Winograd *w)
{
    return w->step[w->nstep - 1].group + 1;
}

/* The buffer of an input, a new one where it has none yet. */
static uint32_t
input_buffer(Ctx *c, Arena *a, StepKernel *s, uint32_t from, const NestParam *param)
{
    for (uint32_t i = 0; i < s->k->nin; i++)
        if (s->from[i] == from)
            return i;
    s->from[s->k->nin++] = from;
    return kernel_buffer(c, a, s->k, param->name, param->type, SPACE_IN, 1);
}

/* A group as a kernel. An output that is written at digits of axes gets a dimension for each axis.
 * NULL: reported. */
static StepKernel
kernel_of(Ctx *c, Arena *a, const Winograd *w, WinogradGroup g, const char *origin)
{
    uint32_t first = 0, npart = steps_of(w, g, &first), *buffer[WINOGRAD_MAX_STEPS], most = 1;
    const Nest *nest[WINOGRAD_MAX_STEPS];
    Part *part = NEW_ARRAY(a, Part, npart);

    for (uint32_t p = 0; p < npart; p++) {
        nest[p] = w->step[first + p].nest;
        most += nest[p]->nin;
    }
    StepKernel s = { NEW(a, Kernel), NEW_ARRAY(a, uint32_t, most) };
    if (!(nest[npart - 1] = nest_dim_per_axis(c, nest[npart - 1])))
        return (StepKernel){ 0 };
    *s.k = (Kernel){ .name = sym_printf(c, "winograd_%s", winograd_group_name[g]),
                     .origin = origin,
                     .nout = 1,
                     .npart = npart,
                     .part = part };
    for (uint32_t p = 0; p < npart; p++) {
        buffer[p] = NEW_ARRAY(a, uint32_t, nest[p]->nin + 1);
        for (uint32_t i = 0; i < nest[p]->nin; i++) {
            uint32_t from = w->step[first + p].from[i];
            buffer[p][i] = p && from == from_step(w, first + p - 1)
                               ? NO_SLOT
                               : input_buffer(c, a, &s, from, &nest[p]->param[i]);
        }
        part[p] = (Part){ nest[p], buffer[p] };
    }
    for (uint32_t p = npart; p-- > 0;)
        buffer[p][nest[p]->nin] = kernel_buffer(c, a, s.k,
                                                p + 1 == npart        ? "o"
                                                : p + 2 == npart && p ? "square"
                                                                      : "half",
                                                nest[p]->param[nest[p]->nin].type,
                                                p + 1 == npart ? SPACE_OUT : SPACE_LOCAL, 1);
    for (uint32_t p = 1; p < npart; p++)
        for (uint32_t i = 0; i < nest[p]->nin; i++)
            buffer[p][i] = buffer[p][i] == NO_SLOT ? buffer[p - 1][nest[p - 1]->nin] : buffer[p][i];
    if (npart == 1)
        s.k->shared = (uint32_t)__builtin_popcountll(nest_axes_of_kind(nest[0], AXIS_PARALLEL));
    kernel_take_names(c, a, s.k);
    return s;
}

/* Which inputs are known at compile time. */
static const bool *
known_inputs(Arena *a, const WinogradKernel *d, const StepKernel *s)
{
    bool *known = NEW_ARRAY(a, bool, s->k->nin + 1);
    uint32_t matrices = d->w.direct->nin, steps = matrices + MATRIX_COUNT;

    for (uint32_t i = 0; i < s->k->nin; i++)
        known[i] =
            s->from[i] < matrices
                ? input_data(d, s->from[i]) != NULL
                : s->from[i] < steps || d->w.step[s->from[i] - steps].group == WINOGRAD_FILTER;
    return known;
}

/* ---- the price ------------------------------------------------------------------------------- */

/* Is the only side open? It may be a stream of a few frames at a time: direct kernels have programs
 * for these, where the product computes vectors of tiles. */
static bool
is_stream(const Winograd *w)
{
    return w->nside == 1 && !expr_const(w->direct->axis[__builtin_ctzll(w->sides)].extent, NULL);
}

/* Has the kernel a Winograd form with tile m: a convolution with a constant filter, alone or with a
 * window over its result? */
static bool
domain_of(Ctx *c, const Kernel *k, const void *const *data, uint32_t m, WinogradKernel *d)
{
    const Nest *n = k->npart ? k->part[0].nest : NULL,
               *window = k->npart == 2 ? k->part[1].nest : NULL;

    *d = (WinogradKernel){ .k = k, .data = data };
    if (!n || k->npart > 2 || k->tree.list.n || k->schedule ||
        (window && (window->nin != 1 || k->part[1].buffer[0] != k->part[0].buffer[n->nin])))
        return false;
    return nest_winograd(c, n, window, m, &d->w) && input_data(d, d->w.filter) && !is_stream(&d->w);
}

static bool
is_small(const Winograd *w, int64_t max_bytes)
{
    int64_t bytes;

    for (uint32_t s = 0; s < w->nstep; s++) {
        const Nest *n = w->step[s].nest;
        if (w->step[s].group == WINOGRAD_FILTER &&
            (!type_static_bytes(n->param[n->nin].type, &bytes) || bytes > max_bytes))
            return false;
    }
    return true;
}

/* Seconds of all steps, or infinity as soon as they reach the limit. The matrix multiplication,
 * which takes most, comes first. */
static double
seconds_of(Ctx *c, Arena *a, const WinogradKernel *d, const FormatDomains *price, double limit)
{
    static const WinogradGroup order[] = { WINOGRAD_PRODUCT, WINOGRAD_IMAGE, WINOGRAD_BACK,
                                           WINOGRAD_CROP };
    double sum = 0;

    for (uint32_t i = 0; i + WINOGRAD_IMAGE < groups_of(&d->w); i++) {
        StepKernel s = kernel_of(c, a, &d->w, order[i], NULL);
        double seconds = s.k ? price->of(price->user, s.k, known_inputs(a, d, &s)) : -1;
        sum += seconds;
        if (seconds < 0 || sum >= limit)
            return INFINITY;
    }
    return sum;
}

/* The relative error of the domain; computed once for each filter. */
static double
error_of(Ctx *c, FormatDomains *price, Arena *scratch, const WinogradKernel *d)
{
    const void *filter = input_data(d, d->w.filter);
    uint64_t key = MAP_PTR(filter) ^ (uint64_t)(d->w.tile << 2 | d->w.nside) << 56, at;

    if (!map_get(&price->known, key, &at)) {
        double *error = NEW(price->known.arena, double);
        *error = winograd_error(c, scratch, &d->w, filter);
        map_put(&price->known, key, at = MAP_PTR(error));
    }
    return *(const double *)(uintptr_t)at;
}

/* Bytes of the transformed filter beyond those of the filter as it is stored. */
static int64_t
growth_of(const WinogradKernel *d)
{
    const Nest *last = d->w.step[last_of(&d->w, WINOGRAD_FILTER)].nest;
    int64_t stored = 0, made = 0;

    type_static_bytes(d->w.direct->param[d->w.filter].type, &stored);
    type_static_bytes(last->param[last->nin].type, &made);
    return made - stored;
}

/* The most bytes of intermediate tensors between steps: input and output of one group. */
static double
between_steps(Ctx *c, const Winograd *w)
{
    double before = 0, most = 0;

    for (WinogradGroup g = WINOGRAD_IMAGE; g + 1 < groups_of(w); g++) {
        const Nest *n = w->step[last_of(w, g)].nest;
        double bytes = (double)expr_bounds(c, NULL, type_bytes(c, n->param[n->nin].type)).hi;
        most = before + bytes > most ? before + bytes : most;
        before = bytes;
    }
    return most;
}

/* A kernel that is priced with each tile. */
typedef struct {
    Ctx *c;
    const Kernel *k;
    const void *const *data;
    FormatDomains *price;
    double room; /* bytes available between the steps */
} Layer;

/* Seconds with one tile, if below the limit, else infinity. */
static double
seconds_with(const Layer *l, Arena *a, uint32_t tile, double limit, int64_t *growth)
{
    WinogradKernel d;

    if (!domain_of(l->c, l->k, l->data, tile, &d) || !is_small(&d.w, l->price->max_bytes) ||
        between_steps(l->c, &d.w) > l->room)
        return INFINITY;
    double seconds = seconds_of(l->c, a, &d, l->price, limit);
    if (seconds >= limit || error_of(l->c, l->price, a, &d) > MOST_ERROR)
        return INFINITY;
    *growth = growth_of(&d);
    return seconds;
}

/* Prices of a kernel: direct, and with each tile; the bytes by which each tile's filter grows. */
typedef struct {
    bool asked; /* it has a Winograd form */
    double direct, seconds[NTILE];
    int64_t growth[NTILE];
    uint32_t taken; /* index of the chosen tile, plus 1; 0: none */
} WinogradPrices;

static uint32_t
tile_of(const WinogradPrices *f)
{
    return f->taken ? tiles[f->taken - 1] : 0;
}

static double
seconds_taken(const WinogradPrices *f)
{
    return f->taken ? f->seconds[f->taken - 1] : f->direct;
}

/* Chooses the tile of least seconds, if below the direct kernel's. all: price every tile, not only
 * until one is slower than the best so far. */
static void
price_tiles(const Layer *l, bool all, WinogradPrices *f)
{
    Arena *scratch = arena_child(l->c->arena);

    for (uint32_t i = 0; i < NTILE; i++) {
        f->seconds[i] =
            seconds_with(l, scratch, tiles[i], all ? f->direct : seconds_taken(f), &f->growth[i]);
        if (f->seconds[i] < seconds_taken(f))
            f->taken = i + 1;
    }
    arena_free(scratch);
}

double
format_domain(Ctx *c, const Kernel *k, const void *const *data, FormatDomains *price, double limit,
              uint32_t *tile)
{
    WinogradPrices f = { .direct = limit };
    Layer l = { c, k, data, price, price->max_alive ? (double)price->max_alive : INFINITY };

    /* the kernel's own values are alive meanwhile */
    for (uint32_t b = 0; b < k->nin + k->nout && isfinite(l.room); b++)
        l.room -= b < k->nin && data[b]
                      ? 0
                      : (double)expr_bounds(c, NULL, type_bytes(c, k->buffer.at[b].type)).hi;
    price_tiles(&l, false, &f);
    *tile = tile_of(&f);
    return f.taken ? seconds_taken(&f) : INFINITY;
}

/* ---- carrying it out ------------------------------------------------------------------------- */

typedef struct {
    Graph *to;
    FormatDomains *price;
    Text *remarks;
    ValueId matrix[NTILE][MATRIX_COUNT]; /* 0: not made yet */
} Carry;

static ValueId
matrix_of(Carry *x, const Winograd *w, uint32_t which)
{
    static const char *const name[MATRIX_COUNT] = { "winograd_filter", "winograd_image",
                                                    "winograd_back" };
    uint32_t i = 0;

    while (tiles[i] != w->tile)
        i++;
    if (!x->matrix[i][which])
        x->matrix[i][which] =
            graph_const(x->to, arena_printf(x->to->arena, "%s_%u", name[which], w->tile),
                        w->matrix_type[which], w->matrix[which]);
    return x->matrix[i][which];
}

typedef struct {
    ValueId made[WINOGRAD_MAX_STEPS];
    const ValueId *value;
} StepValues;

/* The graph's values behind inputs. */
static ValueId *
values_of(Carry *x, const WinogradKernel *d, const StepValues *v, const uint32_t *from, uint32_t n)
{
    ValueId *in = NEW_ARRAY(x->to->arena, ValueId, n + 1);
    uint32_t matrices = d->w.direct->nin, steps = matrices + MATRIX_COUNT;

    for (uint32_t i = 0; i < n; i++)
        in[i] = from[i] < matrices ? v->value[d->k->part[0].buffer[from[i]]]
                : from[i] < steps  ? matrix_of(x, &d->w, from[i] - matrices)
                                   : v->made[from[i] - steps];
    return in;
}

static ValueId
value_of_step(Carry *x, const WinogradKernel *d, ValueId out, uint32_t step)
{
    const Nest *n = d->w.step[step].nest;
    const char *name = arena_printf(x->to->arena, "%s_%s", x->to->value.at[out].name,
                                    winograd_group_name[d->w.step[step].group]);

    return step + 1 == d->w.nstep ? out : graph_value(x->to, name, n->param[n->nin].type);
}

/* Emits the steps in place of node n, whose inputs and output are value[]. The steps of the filter
 * stay nests: they are constants to be folded. */
static bool
add_steps(Carry *x, const Node *n, const WinogradKernel *d, const ValueId *value)
{
    StepValues v = { .value = value };
    ValueId out = value[d->k->nin];

    for (uint32_t s = 0; s < d->w.nstep; s++) {
        const WinogradNest *step = &d->w.step[s];
        if (step->group != WINOGRAD_FILTER)
            continue;
        v.made[s] = value_of_step(x, d, out, s);
        graph_call_nest(x->to, step->nest, n->loc, n->origin,
                        values_of(x, d, &v, step->from, step->nest->nin), &v.made[s]);
    }
    for (WinogradGroup g = WINOGRAD_IMAGE; g < groups_of(&d->w); g++) {
        StepKernel s = kernel_of(x->to->ctx, x->to->arena, &d->w, g, n->origin);
        if (!s.k)
            return false;
        uint32_t last = last_of(&d->w, g);
        v.made[last] = value_of_step(x, d, out, last);
        graph_call_kernel(x->to, s.k, n->loc, n->origin, values_of(x, d, &v, s.from, s.k->nin),
                          &v.made[last]);
    }
    return true;
}

/* F(4x4, 3x3): outputs of a tile, the window. */
static void
add_form(Text *t, uint32_t tile, uint32_t nside)
{
    for (uint32_t i = 0; i < nside; i++)
        text_printf(t, "%s%u", i ? "x" : "F(", tile);
    for (uint32_t i = 0; i < nside; i++)
        text_printf(t, "%s%d", i ? "x" : ", ", WINOGRAD_WINDOW);
    text_add(t, ")");
}

static void
remark(Carry *x, const WinogradKernel *d, ValueId v, const WinogradPrices *f)
{
    Arena *scratch = arena_child(x->to->arena);
    uint32_t best = 0;

    for (uint32_t i = 1; i < NTILE; i++)
        best = f->seconds[i] < f->seconds[best] ? i : best;
    text_add(x->remarks, "; %");
    text_name(x->remarks, x->to->value.at[v].name);
    double now = seconds_taken(f);
    text_add(x->remarks, ": ");
    if (f->taken)
        add_form(x->remarks, tile_of(f), d->w.nside);
    text_printf(x->remarks, "%s%.4g ms", f->taken ? ", " : "", now * 1e3);
    if (f->taken)
        text_printf(x->remarks, " instead of %.4g ms, relative error %.1e", f->direct * 1e3,
                    error_of(x->to->ctx, x->price, scratch, d));
    if (f->seconds[best] < now) {
        text_add(x->remarks, "; ");
        add_form(x->remarks, tiles[best], d->w.nside);
        text_printf(x->remarks,
                    " would take %.4g ms and %.1f MB more, which --weights-growth does not allow",
                    f->seconds[best] * 1e3,
                    (double)(f->growth[best] - (f->taken ? f->growth[f->taken - 1] : 0)) / 1e6);
    } else if (!f->taken)
        text_add(x->remarks, ", in no transform domain less");
    text_add(x->remarks, "\n");
    arena_free(scratch);
}

/* The kernel that a node calls, with contents of its inputs; NULL: it has no Winograd form. */
static const Kernel *
kernel_at(const Graph *g, NodeId id, const void ***data, WinogradKernel *d)
{
    const Node *n = &g->node.at[id];
    const Kernel *k = n->callee == CALL_KERNEL ? n->kernel : NULL;

    if (!k || k->nout != 1)
        return NULL;
    *data = graph_inputs_data(g, g->ctx->arena, n);
    /* a fused window may fit only one tile */
    for (uint32_t i = 0; i < NTILE; i++)
        if (domain_of(g->ctx, k, *data, tiles[i], d))
            return k;
    return NULL;
}

static void
find(const Graph *g, NodeId id, FormatDomains *price, bool all, double room, WinogradPrices *f)
{
    Ctx *c = g->ctx;
    const void **data;
    WinogradKernel d;
    const Kernel *k = kernel_at(g, id, &data, &d);

    *f = (WinogradPrices){ .asked = k != NULL };
    if (!k)
        return;
    Arena *scratch = arena_child(c->arena);
    double direct = price->of(price->user, k, data_is_known(scratch, data, k->nin));
    f->direct = direct < 0 ? INFINITY : direct;
    price_tiles(&(Layer){ c, k, data, price, room }, all, f);
    arena_free(scratch);
}

/* The bytes available between the steps of each node, [node.n]. */
static double *
room_between(const Graph *g, const FormatDomains *price)
{
    double *room = NEW_ARRAY(g->ctx->arena, double, g->node.n);
    const int64_t *alive = price->max_alive ? format_alive(g, g->ctx->arena) : NULL;

    for (NodeId n = 1; n < g->node.n; n++)
        room[n] = alive ? (double)price->max_alive - (double)alive[n] : INFINITY;
    return room;
}

/* The bytes by which all filters together may grow. */
static int64_t
room_of(const Graph *g, const FormatDomains *price)
{
    double sum = 0;
    int64_t bytes;

    for (ValueId v = 1; v < g->value.n; v++)
        if (g->value.at[v].data && type_static_bytes(g->value.at[v].type, &bytes))
            sum += (double)bytes;
    sum *= price->growth / 100.0;
    return sum < (double)(INT64_MAX / 2) ? (int64_t)sum : INT64_MAX / 2;
}

/* What tile i gains over the chosen one for each byte of growth; 0: nothing, or it exceeds the
 * room. */
static double
gain_of(const WinogradPrices *f, uint32_t i, int64_t room)
{
    double before = seconds_taken(f);
    int64_t more = f->growth[i] - (f->taken ? f->growth[f->taken - 1] : 0);

    if (!f->asked || f->seconds[i] >= before || more > room)
        return 0;
    return (before - f->seconds[i]) / (more > 1 ? (double)more : 1);
}

/* If the fastest tiles exceed the room, chooses tiles again, by gain for each byte. */
static void
keep_small(const Graph *g, WinogradPrices *found, FormatDomains *price, const double *between)
{
    int64_t room = room_of(g, price);

    for (NodeId n = 1; n < g->node.n; n++)
        room -= found[n].taken ? found[n].growth[found[n].taken - 1] : 0;
    if (room >= 0)
        return;
    room = room_of(g, price);
    for (NodeId n = 1; n < g->node.n; n++) {
        if (found[n].asked)
            find(g, n, price, true, between[n], &found[n]);
        found[n].taken = 0;
    }
    for (;;) {
        double most = 0, gain;
        NodeId best = 0;
        uint32_t tile = 0;
        for (NodeId n = 1; n < g->node.n; n++)
            for (uint32_t i = 0; i < NTILE; i++)
                if ((gain = gain_of(&found[n], i, room)) > most) {
                    most = gain;
                    best = n;
                    tile = i;
                }
        if (!best)
            return;
        WinogradPrices *f = &found[best];
        room -= f->growth[tile] - (f->taken ? f->growth[f->taken - 1] : 0);
        f->taken = tile + 1;
    }
}

/* Emits a node with a Winograd form; false: it has none. */
static bool
carry_node(Carry *x, const Graph *g, NodeId id, ValueId *map, const WinogradPrices *f, bool *ok)
{
    const Node *n = &g->node.at[id];
    const void **data;
    WinogradKernel d;
    const Kernel *k = kernel_at(g, id, &data, &d);

    if (!k)
        return false;
    ValueId *value = NEW_ARRAY(g->ctx->arena, ValueId, k->nin + 1), out = node_out(g, n, 0);
    for (uint32_t i = 0; i < k->nin; i++)
        value[i] = map[node_in(g, n, i)];
    value[k->nin] = map[out] = graph_copy_value(x->to, g, out);
    if (f->taken)
        domain_of(g->ctx, k, data, tile_of(f), &d);
    remark(x, &d, value[k->nin], f);
    if (f->taken)
        *ok &= add_steps(x, n, &d, value);
    else
        graph_call_kernel(x->to, n->kernel, n->loc, n->origin, value, value + k->nin);
    return true;
}

Graph *
format_domains(const Graph *g, FormatDomains *price, Text *remarks)
{
    ValueId *map;
    bool ok = true;
    Carry x = { .to = graph_rebuild(g, &map), .price = price, .remarks = remarks };
    WinogradPrices *found = NEW_ARRAY(g->ctx->arena, WinogradPrices, g->node.n);
    double *room = room_between(g, price);

    for (NodeId n = 1; n < g->node.n; n++)
        find(g, n, price, false, room[n], &found[n]);
    keep_small(g, found, price, room);
    for (NodeId n = 1; n < g->node.n; n++)
        if (!carry_node(&x, g, n, map, &found[n], &ok))
            graph_copy_node(x.to, g, n, map);
    graph_finish(x.to, g, map);
    return ok ? x.to : NULL;
}
