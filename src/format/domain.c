/* domain: the transform domain of a convolution as a format like any other.
 *
 * A convolution with a window of 3 x 3 and stride 1 can be a batched product between small constant contractions
 * (nest/winograd.h): fewer multiplications, more memory moved. Each of its steps is a kernel that is priced as every kernel is; the
 * domain is worth what they take together, and is taken where that is less than the kernel as it stands. So nothing here knows at
 * how many channels it begins to pay.
 *
 * Source: doc/winograd.md.
 */
#include "format/format.h"
#include "nest/winograd.h"

#include <math.h>

/* The one that is best most often first: the others are then dropped as soon as a part of them is no cheaper. */
static const uint32_t tiles[] = { 4, 6, 2 };

/* Relative to the largest output, of a layer by itself. Only the largest tile comes near. */
#define MOST_ERROR 1e-4

/* A kernel, the contents of its inputs where they are known, and the steps that may stand in its place. */
typedef struct { const Kernel *k; const void *const *data; Winograd w; } Domain;

/* What is known of an input of the kernel's nest. */
static const void *
input_data(const Domain *d, uint32_t slot)
{
    uint32_t buffer = d->k->part[0].buffer[slot];
    return buffer < d->k->nin ? d->data[buffer] : NULL;
}

/* ---- steps as kernels ------------------------------------------------------------------------------------ */

static uint32_t
parallel_axes(const Nest *n)
{
    return (uint32_t)__builtin_popcountll(nest_axes_of_kind(n, AXIS_PARALLEL));
}

/* A kernel of one nest. What it writes at digits of axes it sees as it writes it, a dimension for each axis. */
static Kernel *
kernel_of(Ctx *c, Arena *a, const Nest *nest, const char *origin)
{
    const Nest *n = nest_bare(c, nest);
    Kernel *k = NEW(a, Kernel);
    Part *part = NEW(a, Part);
    uint32_t *buffer = NEW_ARRAY(a, uint32_t, n ? n->nin + n->nout : 1);

    if (!n)
        return NULL;
    *k = (Kernel){ .name = n->name, .origin = origin, .nin = n->nin, .nout = n->nout, .npart = 1, .part = part, .shared = parallel_axes(n) };
    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        buffer[i] = kernel_buffer(c, a, k, n->param[i].name, n->param[i].type, i < n->nin ? SPACE_IN : SPACE_OUT, 1);
    *part = (Part){ n, buffer };
    return k;
}

/* Which inputs of a step are known when it is compiled. */
static const bool *
known_inputs(Arena *a, const Domain *d, uint32_t step)
{
    const WinogradNest *s = &d->w.step[step];
    bool *known = NEW_ARRAY(a, bool, s->nest->nin + 1);
    uint32_t matrices = d->w.direct->nin, steps = matrices + MATRIX_COUNT;

    for (uint32_t i = 0; i < s->nest->nin; i++)
        known[i] = s->from[i] < matrices ? input_data(d, s->from[i]) != NULL : s->from[i] < steps || s->from[i] - steps <= STEP_FILTER;
    return known;
}

/* ---- the price --------------------------------------------------------------------------------------------- */

/* Is the kernel one nest that has such a domain, and a filter that is known? */
static bool
domain_of(Ctx *c, const Kernel *k, const void *const *data, uint32_t m, Domain *d)
{
    *d = (Domain){ .k = k, .data = data };
    return k->npart == 1 && !k->tree.list.n && !k->schedule && nest_winograd(c, k->part[0].nest, m, &d->w) && input_data(d, d->w.filter);
}

static bool
is_small(const Winograd *w, int64_t max_bytes)
{
    int64_t bytes;

    for (int step = STEP_ACROSS; step <= STEP_FILTER; step++) {
        const Nest *n = w->step[step].nest;
        if (!type_static_bytes(n->param[n->nin].type, &bytes) || bytes > max_bytes)
            return false;
    }
    return true;
}

/* Seconds of all steps, or infinity as soon as they are no less than the limit. The product, which takes most, first. */
static double
seconds_of(Ctx *c, Arena *a, const Domain *d, const FormatDomains *price, double limit)
{
    double sum = 0;

    for (uint32_t i = 0; i < d->w.nstep - STEP_ROWS; i++) {
        uint32_t step = i == 0 ? STEP_PRODUCT : i <= STEP_PRODUCT - STEP_ROWS ? STEP_ROWS + i - 1 : STEP_ROWS + i;
        Kernel *k = kernel_of(c, a, d->w.step[step].nest, NULL);
        double seconds = k ? price->of(price->user, k, known_inputs(a, d, step)) : -1;
        sum += seconds;
        if (seconds < 0 || sum >= limit)
            return INFINITY;
    }
    return sum;
}

/* The relative error of the domain, measured once for each filter. */
static double
error_of(FormatDomains *price, Arena *scratch, const Domain *d)
{
    const void *filter = input_data(d, d->w.filter);
    uint64_t key = MAP_PTR(filter) ^ (uint64_t)d->w.tile << 56, at;

    if (!map_get(&price->known, key, &at)) {
        double *error = NEW(price->known.arena, double);
        *error = winograd_error(scratch, &d->w, filter);
        map_put(&price->known, key, at = MAP_PTR(error));
    }
    return *(const double *)(uintptr_t)at;
}

double
format_domain(Ctx *c, Arena *a, const Kernel *k, const void *const *data, FormatDomains *price, double limit, uint32_t *tile)
{
    Arena *scratch = arena_child(a);
    Domain d;

    *tile = 0;
    for (uint32_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        if (!domain_of(c, k, data, tiles[i], &d) || !is_small(&d.w, price->max_bytes))
            continue;
        double seconds = seconds_of(c, scratch, &d, price, limit);
        if (seconds >= limit || error_of(price, scratch, &d) > MOST_ERROR)
            continue;
        limit = seconds;
        *tile = tiles[i];
    }
    arena_free(scratch);
    return *tile ? limit : INFINITY;
}

/* ---- carrying it out ----------------------------------------------------------------------------------------- */

typedef struct {
    Graph *to;
    FormatDomains *price;
    Text *remarks;
    ValueId matrix[sizeof tiles / sizeof *tiles][MATRIX_COUNT];      /* 0: not made yet */
} Carry;

static ValueId
matrix_of(Carry *x, const Winograd *w, uint32_t which)
{
    static const char *const name[MATRIX_COUNT] = { "winograd_filter", "winograd_image", "winograd_back" };
    uint32_t i = 0;

    while (tiles[i] != w->tile)
        i++;
    if (!x->matrix[i][which])
        x->matrix[i][which] = graph_const(x->to, arena_printf(x->to->arena, "%s_%u", name[which], w->tile), w->matrix_type[which], w->matrix[which]);
    return x->matrix[i][which];
}

/* The steps in place of node n, whose inputs and output are value[]. Those of the filter stay nests: they are constants. */
static bool
add_steps(Carry *x, const Node *n, const Domain *d, const ValueId *value)
{
    const Winograd *w = &d->w;
    uint32_t matrices = w->direct->nin, steps = matrices + MATRIX_COUNT;
    ValueId made[WINOGRAD_MAX_STEPS], out = value[d->k->nin];
    Ctx *c = x->to->ctx;

    for (uint32_t s = 0; s < w->nstep; s++) {
        const Nest *nest = w->step[s].nest;
        ValueId *in = NEW_ARRAY(x->to->arena, ValueId, nest->nin + 1);
        for (uint32_t i = 0; i < nest->nin; i++) {
            uint32_t from = w->step[s].from[i];
            in[i] = from < matrices ? value[d->k->part[0].buffer[from]] : from < steps ? matrix_of(x, w, from - matrices) : made[from - steps];
        }
        const char *name = arena_printf(c->arena, "%s_%s", x->to->value.at[out].name, winograd_step_name[s]);
        made[s] = s + 1 == w->nstep ? out : graph_value(x->to, name, nest->param[nest->nin].type);
        if (s <= STEP_FILTER) {
            graph_call_nest(x->to, nest, n->loc, n->origin, in, &made[s]);
            continue;
        }
        Kernel *k = kernel_of(c, x->to->arena, nest, n->origin);
        if (!k)
            return false;
        graph_call_kernel(x->to, k, n->loc, n->origin, in, &made[s]);
    }
    return true;
}

static void
remark(Carry *x, const Domain *d, ValueId v, double direct, double seconds)
{
    Arena *scratch = arena_child(x->to->arena);

    text_add(x->remarks, "; %");
    text_name(x->remarks, x->to->value.at[v].name);
    if (seconds < direct)
        text_printf(x->remarks, ": F(%ux%u, 3x3), %.4g ms instead of %.4g ms, relative error %.1e\n", d->w.tile, d->w.tile, seconds * 1e3, direct * 1e3,
                    error_of(x->price, scratch, d));
    else
        text_printf(x->remarks, ": %.4g ms, in no transform domain less\n", direct * 1e3);
    arena_free(scratch);
}

/* True if the node's work is done by steps. */
static bool
carry_node(Carry *x, const Graph *g, NodeId id, ValueId *map, bool *ok)
{
    const Node *n = &g->node.at[id];
    const Kernel *k = n->callee == CALL_KERNEL ? n->kernel : NULL;
    Ctx *c = g->ctx;
    uint32_t tile;
    Domain d;

    if (!k || k->nout != 1)
        return false;
    const void **data = NEW_ARRAY(c->arena, const void *, k->nin + 1);
    bool *constant = NEW_ARRAY(c->arena, bool, k->nin + 1);
    ValueId *value = NEW_ARRAY(c->arena, ValueId, k->nin + 1), out = node_out(g, n, 0);
    for (uint32_t i = 0; i < k->nin; i++) {
        data[i] = g->value.at[node_in(g, n, i)].data;
        constant[i] = data[i] != NULL;
        value[i] = map[node_in(g, n, i)];
    }
    if (!domain_of(c, k, data, *tiles, &d))
        return false;
    double direct = x->price->of(x->price->user, k, constant), limit = direct < 0 ? INFINITY : direct;
    double seconds = format_domain(c, c->arena, k, data, x->price, limit, &tile);
    value[k->nin] = map[out] = graph_copy_value(x->to, g, out);
    if (tile)
        domain_of(c, k, data, tile, &d);
    remark(x, &d, value[k->nin], limit, seconds);
    if (tile)
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

    for (NodeId n = 1; n < g->node.n; n++)
        if (!carry_node(&x, g, n, map, &ok))
            graph_copy_node(x.to, g, n, map);
    graph_finish(x.to, g, map);
    return ok ? x.to : NULL;
}
