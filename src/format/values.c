/* values: what lies between kernels gets the order of dimensions that suits its neighbours:
 * candidates (candidates.c), what each kernel takes with each (price.c), what lies twice
 * (copies.c), what is alive at once (memory.c), the least sum over all kernels (search.c), and then
 * types and nests say so.
 */
#include "format/internal.h"

#include <math.h>
#include <string.h>

/* ---- who chooses ----------------------------------------------------------------------------- */

typedef struct {
    Arena *arena;
    VEC(FormatFactor) of;
} Tables;

/* A table of variables as a table of the values whose they are: everybody reads what was made. */
static void
add_owned(const Formats *f, Tables *t, const FormatFactor *p)
{
    uint32_t *var = NEW_ARRAY(f->arena, uint32_t, p->n);

    for (uint32_t i = 0; i < p->n; i++)
        var[i] = f->owner.at[p->var[i]];
    VEC_PUSH(t->arena, &t->of, ((FormatFactor){ p->n, var, p->cost }));
}

static void
add_all(Tables *t, uint32_t n, const FormatFactor *p)
{
    for (uint32_t i = 0; i < n; i++)
        VEC_PUSH(t->arena, &t->of, p[i]);
}

/* Without copies. */
static FormatResult
least_once(Formats *f, const FormatFactor *bound, uint32_t nbound, const FormatFactor *more,
           uint32_t *choice)
{
    Tables t = { .arena = f->arena };

    for (uint32_t i = 0; i < f->factor.n; i++)
        add_owned(f, &t, &f->factor.at[i]);
    add_all(&t, f->kept.n, f->kept.at);
    add_all(&t, nbound, bound);
    add_all(&t, more != NULL, more);
    for (uint32_t i = 0; i < f->copy.n && nbound; i++) {
        double *none = NEW_ARRAY(f->arena, double, f->size[f->copy.at[i].var]);
        for (uint32_t c = 1; c < f->size[f->copy.at[i].var]; c++)
            none[c] = INFINITY;
        VEC_PUSH(t.arena, &t.of, ((FormatFactor){ 1, &f->copy.at[i].var, none }));
    }
    FormatResult r;
    do {
        r = format_search(f->arena, &(FormatProblem){ f->nvar, f->size, t.of.n, t.of.at, 0 },
                          choice);
        format_follow(f, choice);
    } while (format_price_wanted(f, choice));
    return r;
}

/* With copies where they are worth it: the search without them is narrower, and found exactly where
 * this one is too wide. */
static FormatResult
least_within(Formats *f, const FormatFactor *bound, uint32_t nbound, const FormatFactor *more,
             uint32_t *choice)
{
    FormatResult r = least_once(f, bound, nbound, more, choice), other;
    uint32_t *twice = NEW_ARRAY(f->arena, uint32_t, f->nvar);
    Tables t = { .arena = f->arena };

    if (!f->copy.n)
        return r;
    add_all(&t, f->factor.n, f->factor.at);
    add_all(&t, f->kept.n, f->kept.at);
    add_all(&t, f->link.n, f->link.at);
    add_all(&t, nbound, bound);
    add_all(&t, more != NULL, more);
    do
        other = format_search(f->arena, &(FormatProblem){ f->nvar, f->size, t.of.n, t.of.at, 0 },
                              twice);
    while (other.cost < r.cost && format_price_wanted(f, twice));
    if (other.cost < r.cost) {
        memcpy(choice, twice, f->nvar * sizeof *choice);
        r.cost = other.cost;
    }
    r.exact &= other.exact;
    r.widest = other.widest > r.widest ? other.widest : r.widest;
    return r;
}

FormatResult
format_least(Formats *f, const FormatFactor *more, uint32_t *choice)
{
    return least_within(f, f->bound.at, f->bound.n, more, choice);
}

/* What it costs a value, whatever it costs kernels, to lie as its candidate c says. */
typedef double OwnCost(const Formats *f, const Variable *v, uint32_t c);

/* The least of kernels' costs and values' own. */
static void
least_by(Formats *f, OwnCost *own, uint32_t *choice)
{
    FormatFactor *wish = NEW_ARRAY(f->arena, FormatFactor, f->variable.n);
    uint32_t *var = NEW_ARRAY(f->arena, uint32_t, f->variable.n);

    for (uint32_t i = 0; i < f->variable.n; i++) {
        double *cost = NEW_ARRAY(f->arena, double, f->size[i]);
        for (uint32_t c = 0; c < f->size[i]; c++)
            cost[c] = own(f, &f->variable.at[i], c);
        var[i] = i;
        wish[i] = (FormatFactor){ 1, &var[i], cost };
    }
    least_once(f, wish, f->variable.n, NULL, choice);
}

/* Dimension 1 lies last wherever a product proposes that and the kernels can (or in blocks, where
 * those are what is asked for): every value wants it for itself, and costs far more than a kernel
 * where it lies as the model says, but that those which kernels of several parts make or read lie
 * as is cheaper. */
static double
one_order(const Formats *f, const Variable *v, uint32_t c)
{
    const double far = 1e12; /* picoseconds: a second */

    if (c == (f->wish->how == FORMAT_BLOCKS ? v->blocks : v->last))
        return 0;
    return c > 0 ? INFINITY : v->parts ? 0 : far;
}

/* Orders alone: no search of layouts is to find more than the least of those. */
static double
an_order(const Formats *f, const Variable *v, uint32_t c)
{
    (void)f;
    return c < v->orders ? 0 : INFINITY;
}

/* The least time within the bound; where no choice keeps it, the least time of those that take
 * least: the plan may still keep it. */
static FormatResult
search_within(Formats *f, uint32_t *choice)
{
    format_bound(f);
    FormatResult r = format_least(f, NULL, choice);
    if (isfinite(r.cost) || !f->wish->max_alive)
        return r;
    format_bound_least(f);
    r = format_least(f, NULL, choice);
    if (!isfinite(r.cost)) {
        f->bound.n = 0;
        r = format_least(f, NULL, choice);
    }
    return r;
}

/* ---- carrying it out ------------------------------------------------------------------------- */

static bool
apply(Formats *f, const uint32_t *choice)
{
    for (NodeId n = 1; n < f->g->node.n; n++) {
        Node *node = &f->g->node.at[n];
        bool any = false;
        for (uint32_t b = 0; f->can[n] && b < node->kernel->nin + node->kernel->nout; b++)
            any |= format_argument_layout(f, n, b, choice) != NULL;
        if (any && !(node->kernel = kernel_lay(f->ctx, f->g->arena, node->kernel,
                                               format_layouts(f, n, choice))))
            return false;
    }
    if (!format_make_copies(f, choice))
        return false;
    for (uint32_t i = 0; i < f->variable.n; i++) {
        Value *v = &f->g->value.at[f->variable.at[i].value];
        const Layout *layout = f->variable.at[i].layout[choice[i]];
        v->type = layout ? layout_type(f->ctx, layout, v->type) : v->type;
    }
    return true;
}

/* No schedule fits what is pinned. */
static bool
refuse(const Formats *f, const uint32_t *choice)
{
    for (uint32_t i = 0; i < f->factor.n; i++) {
        const Kernel *kernel = f->g->node.at[f->kernel[i]].kernel;
        for (uint32_t b = 0; b < kernel->nin + kernel->nout; b++) {
            uint32_t x = f->var[format_argument(f, f->kernel[i], b)];
            if (x && f->variable.at[x - 1].pinned &&
                !isfinite(format_cost(f, f->kernel[i], choice)))
                return diag_error(&f->ctx->diags, DIAG_USAGE, (Loc){ 0 },
                                  "--format %s: %s cannot run with it lying so; leave it out",
                                  f->variable.at[x - 1].name,
                                  kernel->origin ? kernel->origin : "a kernel");
        }
    }
    return true; /* nothing is changed */
}

static bool
is_within(Formats *f, const uint32_t *choice)
{
    NodeId where;

    return !f->wish->max_alive || format_alive_most(f, choice, &where) <= f->wish->max_alive;
}

/* What the bound did, where it did anything. */
static void
remark_bound(Formats *f, const FormatFound *found, Text *t)
{
    NodeId where = 0;
    int64_t most = f->wish->max_alive ? format_alive_most(f, found->choice, &where) : 0;

    if (most <= f->wish->max_alive && found->cost <= found->free)
        return;
    text_add(t, "; values take ");
    text_size(t, most);
    text_add(t, " at once, ");
    text_size(t, f->wish->max_alive);
    text_add(t, most > f->wish->max_alive ? " are allowed: no choice takes less" : " are allowed");
    if (found->cost > found->free)
        text_printf(t, "; without that bound %.4g ms", found->free * 1e-9);
    text_add(t, f->narrowed ? "; not exact: some values lie as they take least\n" : "\n");
}

static void
take_if_less(Formats *f, FormatFound *found, const uint32_t *choice)
{
    double cost = format_cost_of_all(f, choice);

    if (cost < found->cost && is_within(f, choice))
        *found = (FormatFound){ choice, cost, found->plain, cost };
}

/* Whoever chooses, the others are asked as well, in the same order and of the same tables: what
 * they take is priced then, so the search knows it and finds no less, whatever prices are. Where it
 * is not exact, or some values lie as they are, theirs may be less and is taken. */
static bool
solve(Formats *f, Text *remarks)
{
    FormatHow how = f->wish->how;
    uint32_t *plain = NEW_ARRAY(f->arena, uint32_t, f->nvar),
             *last = NEW_ARRAY(f->arena, uint32_t, f->nvar),
             *greedy = NEW_ARRAY(f->arena, uint32_t, f->nvar);
    uint32_t *searched = NEW_ARRAY(f->arena, uint32_t, f->nvar),
             *free = NEW_ARRAY(f->arena, uint32_t, f->nvar);
    uint32_t *other = NEW_ARRAY(f->arena, uint32_t, f->nvar);
    const uint32_t *choice = plain;

    switch (how) {
    case FORMAT_CHANNELS_LAST:
    case FORMAT_BLOCKS: choice = last; break;
    case FORMAT_GREEDY: choice = greedy; break;
    case FORMAT_CHAIN: choice = other; break;
    case FORMAT_SEARCH:
    case FORMAT_LAYOUTS:
    case FORMAT_CHANNELS_FIRST:
    case FORMAT_NONE: break;
    }
    if (f->wish->price.begin)
        f->wish->price.begin(f->wish->price.user);
    do
        format_factors(f, searched);
    while (f->wish->price.again && f->wish->price.again(f->wish->price.user));
    format_link_copies(f);
    least_by(f, one_order, last);
    format_greedy(f, greedy);
    if (how == FORMAT_CHAIN)
        format_chain(f, other);
    if (how == FORMAT_LAYOUTS)
        least_by(f, an_order, other);
    double as_it_is = format_cost_of_all(f, plain), cost = format_cost_of_all(f, choice);
    FormatFound found = { choice, cost, as_it_is, cost };
    if (how == FORMAT_SEARCH || how == FORMAT_LAYOUTS) {
        FormatResult r = search_within(f, searched);
        found = (FormatFound){ searched, r.cost, as_it_is, r.cost };
        if (!r.exact)
            text_printf(remarks,
                        "; the exact search would need a table of %.3g entries, %u are the limit: "
                        "a beam of %d chose instead\n",
                        (double)r.widest, FORMAT_MAX_TABLE, FORMAT_BEAM);
        take_if_less(f, &found, plain);
        take_if_less(f, &found, last);
        take_if_less(f, &found, greedy);
        if (how == FORMAT_LAYOUTS)
            take_if_less(f, &found, other);
    }
    if (f->bound.n)
        found.free = least_within(f, NULL, 0, NULL, free).cost;
    if (!isfinite(found.cost))
        return refuse(f, found.choice);
    format_remark(f, &found, remarks);
    remark_bound(f, &found, remarks);
    if (f->wish->explain)
        format_explain(f, &found, f->wish->explain);
    return apply(f, found.choice);
}

bool
format_values(Graph *g, Arena *a, const FormatWish *wish, Text *remarks)
{
    Arena *scratch = arena_child(a);
    Formats f = { .g = g,
                  .ctx = g->ctx,
                  .arena = scratch,
                  .wish = wish,
                  .users = graph_users(g, scratch),
                  .can = NEW_ARRAY(scratch, bool, g->node.n),
                  .var = NEW_ARRAY(scratch, uint32_t, g->value.n) };
    bool ok = format_candidates(&f);

    if (ok && f.variable.n)
        ok = solve(&f, remarks);
    else if (ok && wish->explain)
        text_printf(wish->explain,
                    "no value between kernels has more than one order to choose from\n");
    arena_free(scratch);
    return ok;
}
