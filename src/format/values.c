/* values: choose an order of dimensions for each value between kernels, and apply it.
 *
 * Candidates (candidates.c), what each kernel takes with each (price.c), the least sum over all
 * kernels (search.c); then types and nests say the order, so no later stage knows of formats.
 */
#include "format/internal.h"

#include <math.h>

/* ---- who chooses ----------------------------------------------------------------------------- */

FormatResult
format_least(Formats *f, const FormatFactor *more, uint32_t nmore, uint32_t *choice)
{
    VEC(FormatFactor) table = { 0 };
    FormatResult r;

    for (uint32_t i = 0; i < f->factor.n; i++)
        VEC_PUSH(f->arena, &table, f->factor.at[i]);
    for (uint32_t i = 0; i < f->kept.n; i++)
        VEC_PUSH(f->arena, &table, f->kept.at[i]);
    for (uint32_t i = 0; i < nmore; i++)
        VEC_PUSH(f->arena, &table, more[i]);
    do
        r = format_search(f->arena, &(FormatProblem){ f->nvar, f->size, table.n, table.at, 0 },
                          choice);
    while (format_price_wanted(f, choice));
    return r;
}

/* Dimension 1 innermost wherever a product proposes that and the kernels can: a value that is not
 * so costs more than any kernel takes. Kernels of several parts may have programs for one order
 * alone: their values lie so or as the model says, whichever is cheaper. */
static void
choose_channels_last(Formats *f, uint32_t *choice)
{
    const double far = 1e12; /* picoseconds: a second */
    FormatFactor *request = NEW_ARRAY(f->arena, FormatFactor, f->nvar);
    uint32_t *var = NEW_ARRAY(f->arena, uint32_t, f->nvar);

    for (uint32_t i = 0; i < f->nvar; i++) {
        const Variable *v = &f->variable.at[i];
        double *cost = NEW_ARRAY(f->arena, double, f->size[i]);
        for (uint32_t c = 0; c < f->size[i]; c++)
            cost[c] = c == v->last ? 0 : c > 0 ? INFINITY : v->parts ? 0 : far;
        var[i] = i;
        request[i] = (FormatFactor){ 1, &var[i], cost };
    }
    format_least(f, request, f->nvar, choice);
}

/* ---- carrying it out ------------------------------------------------------------------------- */

static bool
apply(Formats *f, const uint32_t *choice)
{
    for (NodeId n = 1; n < f->g->node.n; n++) {
        Node *node = &f->g->node.at[n];
        bool any = false;
        for (uint32_t b = 0; f->can[n] && b < node->kernel->nin + node->kernel->nout; b++)
            any |= format_argument_order(f, n, b, choice) != NULL;
        if (any && !(node->kernel = kernel_permute(f->ctx, f->g->arena, node->kernel,
                                                   format_orders(f, n, choice))))
            return false;
    }
    for (uint32_t i = 0; i < f->variable.n; i++) {
        Value *v = &f->g->value.at[f->variable.at[i].value];
        const uint8_t *order = f->variable.at[i].order[choice[i]];
        v->type = order ? type_permuted(f->ctx, v->type, order) : v->type;
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
                                  "--format %s: %s has no schedule for that order; leave it out",
                                  f->variable.at[x - 1].name,
                                  kernel->origin ? kernel->origin : "a kernel");
        }
    }
    return true; /* nothing is changed */
}

static void
take_if_less(const Formats *f, FormatFound *found, const uint32_t *choice)
{
    double cost = format_cost_of_all(f, choice);

    if (cost < found->cost)
        *found = (FormatFound){ choice, cost, found->plain };
}

/* The other ways are chosen before the search, from the same tables, so that the search knows their
 * prices and finds no less. Where it is not exact, or some values lie as they are, another way may
 * take less and is taken. */
static bool
solve(Formats *f, Text *remarks)
{
    uint32_t *plain = NEW_ARRAY(f->arena, uint32_t, f->nvar),
             *last = NEW_ARRAY(f->arena, uint32_t, f->nvar),
             *searched = NEW_ARRAY(f->arena, uint32_t, f->nvar);

    if (f->request->price.begin)
        f->request->price.begin(f->request->price.user);
    do
        format_factors(f, searched);
    while (f->request->price.again && f->request->price.again(f->request->price.user));
    choose_channels_last(f, last);
    const uint32_t *choice = f->request->how == FORMAT_CHANNELS_LAST ? last : plain;
    double as_it_is = format_cost_of_all(f, plain);
    FormatFound found = { choice, format_cost_of_all(f, choice), as_it_is };
    if (f->request->how == FORMAT_SEARCH) {
        FormatResult r = format_least(f, NULL, 0, searched);
        found = (FormatFound){ searched, r.cost, as_it_is };
        if (!r.exact)
            text_printf(remarks,
                        "; the exact search would need a table of %.3g entries, %u are the limit: "
                        "the rest was improved one value at a time\n",
                        (double)r.widest, FORMAT_MAX_TABLE);
        take_if_less(f, &found, plain);
        take_if_less(f, &found, last);
    }
    if (!isfinite(found.cost))
        return refuse(f, found.choice);
    format_remark(f, &found, remarks);
    if (f->request->explain)
        format_explain(f, &found, f->request->explain);
    return apply(f, found.choice);
}

bool
format_values(Graph *g, Arena *a, const FormatRequest *request, Text *remarks)
{
    Arena *scratch = arena_child(a);
    Formats f = { .g = g,
                  .ctx = g->ctx,
                  .arena = scratch,
                  .request = request,
                  .users = graph_users(g, scratch),
                  .can = NEW_ARRAY(scratch, bool, g->node.n),
                  .var = NEW_ARRAY(scratch, uint32_t, g->value.n) };
    bool ok = format_candidates(&f);

    if (ok && f.variable.n)
        ok = solve(&f, remarks);
    else if (ok && request->explain)
        text_printf(request->explain,
                    "no value between kernels has more than one order to choose from\n");
    arena_free(scratch);
    return ok;
}
