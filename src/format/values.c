/* values: what lies between kernels gets the order of dimensions that suits its neighbours: candidates (candidates.c), what
 * each kernel takes with each (price.c), the least sum over all kernels (search.c), and then types and nests say so.
 */
#include "format/internal.h"

#include <math.h>
#include <string.h>

/* ---- who chooses ------------------------------------------------------------------------------------------- */

/* Every value for itself wants its last choice, and costs far more than a kernel where it cannot have it. */
static FormatResult
search_for_last(const Formats *f, uint32_t *choice)
{
    static const double wanted[] = { 1e12, 0 };
    FormatFactor *factor = NEW_ARRAY(f->arena, FormatFactor, f->factor.n + f->variable.n);
    uint32_t *var = NEW_ARRAY(f->arena, uint32_t, f->variable.n), n = f->factor.n;

    if (n)
        memcpy(factor, f->factor.at, n * sizeof *factor);
    for (uint32_t i = 0; i < f->variable.n; i++) {
        var[i] = i;
        if (f->size[i] == 2)
            factor[n++] = (FormatFactor){ 1, &var[i], wanted };
    }
    return format_search(f->arena, &(FormatProblem){ f->variable.n, f->size, n, factor, 0 }, choice);
}

static FormatResult
choose(const Formats *f, uint32_t *choice)
{
    FormatResult r = { .exact = true };

    switch (f->wish->how) {
    case FORMAT_SEARCH:
    case FORMAT_LAYOUTS:
        return format_search(f->arena, &(FormatProblem){ f->variable.n, f->size, f->factor.n, f->factor.at, 0 }, choice);
    case FORMAT_CHANNELS_LAST:
        r = search_for_last(f, choice);
        break;
    case FORMAT_GREEDY:
        format_greedy(f, choice);
        break;
    case FORMAT_CHANNELS_FIRST:
    case FORMAT_NONE:
        break;
    }
    r.cost = format_cost_of_all(f, choice);
    return r;
}

/* ---- carrying it out --------------------------------------------------------------------------------------- */

static bool
apply(Formats *f, const uint32_t *choice)
{
    for (NodeId n = 1; n < f->g->node.n; n++) {
        Node *node = &f->g->node.at[n];
        bool any = false;
        for (uint32_t b = 0; f->can[n] && b < node->kernel->nin + node->kernel->nout; b++)
            any |= format_layout(f, format_argument(f, n, b), choice) != NULL;
        if (any && !(node->kernel = kernel_lay(f->ctx, f->g->arena, node->kernel, format_layouts(f, n, choice))))
            return false;
    }
    for (uint32_t i = 0; i < f->variable.n; i++) {
        Value *v = &f->g->value.at[f->variable.at[i].value];
        const Layout *layout = f->variable.at[i].layout[choice[i]];
        v->type = layout ? layout_type(f->ctx, layout, v->type) : v->type;
    }
    return true;
}

/* No schedule fits what is pinned. */
static bool
refuse(const Formats *f, uint32_t *choice)
{
    for (uint32_t i = 0; i < f->factor.n; i++)
        for (uint32_t k = 0; k < f->factor.at[i].n; k++) {
            const Variable *x = &f->variable.at[f->factor.at[i].var[k]];
            if (x->pinned && !isfinite(format_cost(f, f->kernel[i], choice)))
                return diag_error(&f->ctx->diags, DIAG_USAGE, (Loc){ 0 }, "--format %s: %s cannot run with it lying so; leave it out", x->name,
                                  f->g->node.at[f->kernel[i]].kernel->origin ? f->g->node.at[f->kernel[i]].kernel->origin : "a kernel");
        }
    return true;                     /* nothing is changed */
}

static bool
solve(Formats *f, Text *remarks)
{
    uint32_t *choice = NEW_ARRAY(f->arena, uint32_t, f->variable.n), *plain = NEW_ARRAY(f->arena, uint32_t, f->variable.n);

    do {
        f->factor.n = 0;
        f->cost = (Map){ .arena = f->arena };
        format_factors(f, choice);
    } while (f->wish->price.again && f->wish->price.again(f->wish->price.user));
    memset(choice, 0, f->variable.n * sizeof *choice);
    FormatResult r = choose(f, choice);
    FormatFound found = { choice, r.cost, format_cost_of_all(f, plain) };
    if (!r.exact) {
        text_printf(remarks, "; the exact search would need a table of %.3g entries, %u are the limit: a beam of %d chose instead\n", (double)r.widest,
                    FORMAT_MAX_TABLE, FORMAT_BEAM);
        if (found.plain < found.cost)
            found = (FormatFound){ plain, found.plain, found.plain };
    }
    if (!isfinite(found.cost))
        return refuse(f, choice);
    format_remark(f, &found, remarks);
    if (f->wish->explain)
        format_explain(f, &found, f->wish->explain);
    return apply(f, found.choice);
}

bool
format_values(Graph *g, Arena *a, const FormatWish *wish, Text *remarks)
{
    Arena *scratch = arena_child(a);
    Formats f = { .g = g, .ctx = g->ctx, .arena = scratch, .wish = wish, .users = graph_users(g, scratch),
                  .can = NEW_ARRAY(scratch, bool, g->node.n), .var = NEW_ARRAY(scratch, uint32_t, g->value.n) };
    bool ok = format_candidates(&f);

    if (ok && f.variable.n)
        ok = solve(&f, remarks);
    else if (ok && wish->explain)
        text_printf(wish->explain, "no value between kernels has more than one order to choose from\n");
    arena_free(scratch);
    return ok;
}
