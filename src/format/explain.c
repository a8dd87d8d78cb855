/* explain: what was chosen, and why: for each value what the second best would cost, exactly: the search is asked again with
 * the chosen order forbidden. The kernel in which most of the difference lies is the reason.
 */
#include "format/internal.h"

#include <math.h>
#include <string.h>

static uint32_t
rank_of(const Formats *f, uint32_t x)
{
    return f->g->value.at[f->variable.at[x].value].type->rank;
}

/* ---- in a line --------------------------------------------------------------------------------------------- */

static uint32_t
count_changed(const Formats *f, const uint32_t *choice)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->variable.n; i++)
        n += f->variable.at[i].layout[choice[i]] != NULL;
    return n;
}

void
format_remark(const Formats *f, const FormatFound *found, Text *t)
{
    text_printf(t, "; %u of %u values lie in another order than the model's: %.4g ms of kernels instead of %.4g ms\n", count_changed(f, found->choice),
                f->variable.n, found->cost * 1e-9, found->plain * 1e-9);
    for (ValueId v = 1; v < f->g->value.n; v++) {
        const Layout *layout = format_layout(f, v, found->choice);
        if (!layout)
            continue;
        text_add(t, "; %");
        text_name(t, f->g->value.at[v].name);
        text_add(t, ": ");
        layout_print(t, f->g->value.at[v].type->rank, layout);
        text_add(t, "\n");
    }
}

/* ---- in sentences -------------------------------------------------------------------------------------------- */

static void
print_head(const Formats *f, const FormatFound *found, Text *t)
{
    uint32_t *choice = NEW_ARRAY(f->arena, uint32_t, f->variable.n);

    text_printf(t, "%u of the %u values between kernels that may lie in another order than the model's do.\nTheir kernels take ",
                count_changed(f, found->choice), f->variable.n);
    text_seconds(t, found->cost * 1e-12);
    text_add(t, " by the prices of their schedules; ");
    text_seconds(t, found->plain * 1e-12);
    text_add(t, " if nothing were changed");
    if (f->wish->how == FORMAT_SEARCH || f->wish->how == FORMAT_LAYOUTS) {
        format_greedy(f, choice);
        text_add(t, ", and if each kernel chose for itself ");
        text_seconds(t, format_cost_of_all(f, choice) * 1e-12);
    }
    text_add(t, ".\n");
}

/* Conv "a" and what was fused to it, in few words: Conv "a" + 3 more */
static const char *
origin_of(const Formats *f, NodeId n)
{
    const Kernel *k = f->g->node.at[n].kernel;
    const char *origin = k->origin && *k->origin ? k->origin : k->name, *end = strstr(origin, "\" + ");
    uint32_t more = 0;

    for (const char *at = end; at; at = strstr(at + 1, "\" + "))
        more++;
    return more ? arena_printf(f->arena, "%.*s\" + %u more", (int)(end - origin), origin, more) : origin;
}

static double
factor_cost(const Formats *f, uint32_t factor, const uint32_t *choice)
{
    const FormatFactor *p = &f->factor.at[factor];
    uint64_t at = 0;

    for (uint32_t i = 0; i < p->n; i++)
        at = at * f->size[p->var[i]] + choice[p->var[i]];
    return p->cost[at];
}

/* The best choice in which value x lies otherwise. */
static FormatResult
second_best(const Formats *f, const FormatFound *found, uint32_t x, uint32_t *choice)
{
    FormatFactor *factor = NEW_ARRAY(f->arena, FormatFactor, f->factor.n + 1);
    double *cost = NEW_ARRAY(f->arena, double, f->size[x]);

    memcpy(factor, f->factor.at, f->factor.n * sizeof *factor);
    cost[found->choice[x]] = INFINITY;
    factor[f->factor.n] = (FormatFactor){ 1, &x, cost };
    return format_search(f->arena, &(FormatProblem){ f->variable.n, f->size, f->factor.n + 1, factor, 0 }, choice);
}

static void
print_second(const Formats *f, const FormatFound *found, uint32_t x, Text *t)
{
    uint32_t *choice = NEW_ARRAY(f->arena, uint32_t, f->variable.n), most = UINT32_MAX;
    const Variable *v = &f->variable.at[x];
    double gain = 0;

    if (v->n == 1) {
        text_add(t, "    as was asked for\n");
        return;
    }
    FormatResult other = second_best(f, found, x, choice);
    if (!isfinite(other.cost)) {
        text_add(t, "    its kernels have schedules for no other order\n");
        return;
    }
    text_add(t, "    second best ");
    layout_print(t, rank_of(f, x), v->layout[choice[x]]);
    text_add(t, ": ");
    text_seconds(t, fabs(other.cost - found->cost) * 1e-12);
    text_printf(t, other.cost >= found->cost ? " more in all (%.2g %%)" : " less in all (%.2g %%)", 100 * fabs(other.cost / found->cost - 1));
    for (uint32_t i = 0; i < f->factor.n; i++) {
        double d = factor_cost(f, i, choice) - factor_cost(f, i, found->choice);
        if (d > gain) {
            gain = d;
            most = i;
        }
    }
    if (most != UINT32_MAX) {
        text_printf(t, "; %s takes ", origin_of(f, f->kernel[most]));
        text_seconds(t, factor_cost(f, most, found->choice) * 1e-12);
        text_add(t, ", then ");
        text_seconds(t, factor_cost(f, most, choice) * 1e-12);
    }
    text_add(t, "\n");
}

static void
print_values(const Formats *f, const FormatFound *found, Text *t)
{
    for (ValueId v = 1; v < f->g->value.n; v++) {
        const Value *value = &f->g->value.at[v];
        uint32_t x = f->var[v];
        if (!x)
            continue;
        const Layout *layout = format_layout(f, v, found->choice);
        text_add(t, "  %");
        text_name(t, value->name);
        text_add(t, ": ");
        layout_print(t, value->type->rank, layout);
        text_add(t, layout ? ", " : ", as the model says, ");
        type_print(t, layout ? layout_type(f->ctx, layout, value->type) : value->type);
        text_add(t, "\n");
        print_second(f, found, x - 1, t);
    }
}

/* ---- where the order changes ---------------------------------------------------------------------------------- */

static bool
lie_alike(const Layout *a, const Layout *b)
{
    return (!a && b && layout_is_plain(b)) || (!b && a && layout_is_plain(a)) || layout_same(a, b);
}

/* What kernel n would take if its output lay as input b does; negative: it is not known. */
static double
without_change(const Formats *f, uint32_t factor, uint32_t b, const uint32_t *chosen)
{
    NodeId n = f->kernel[factor];
    uint32_t out = f->var[format_argument(f, n, f->g->node.at[n].kernel->nin)];
    uint32_t *choice = arena_copy(f->arena, chosen, f->variable.n * sizeof *chosen);

    for (uint32_t c = 0; out && c < f->size[out - 1]; c++)
        if (lie_alike(f->variable.at[out - 1].layout[c], format_layout(f, format_argument(f, n, b), chosen))) {
            choice[out - 1] = c;
            double cost = factor_cost(f, factor, choice);
            return isfinite(cost) ? cost : -1;
        }
    return -1;
}

/* Its bytes, 0 where they are not known. */
static int64_t
print_change(const Formats *f, const FormatFound *found, uint32_t factor, uint32_t b, Text *t)
{
    NodeId n = f->kernel[factor];
    ValueId from = format_argument(f, n, b), to = format_argument(f, n, f->g->node.at[n].kernel->nin);
    uint32_t rank = f->g->value.at[from].type->rank;
    double with = factor_cost(f, factor, found->choice), without = without_change(f, factor, b, found->choice);
    int64_t bytes = 0;

    text_printf(t, "  %s reads %%", origin_of(f, n));
    text_name(t, f->g->value.at[from].name);
    text_add(t, " (");
    layout_print(t, rank, format_layout(f, from, found->choice));
    text_add(t, ") and writes %");
    text_name(t, f->g->value.at[to].name);
    text_add(t, " (");
    layout_print(t, rank, format_layout(f, to, found->choice));
    text_add(t, "): ");
    if (type_static_bytes(f->g->value.at[from].type, &bytes)) {
        text_size(t, bytes);
        text_add(t, ", ");
    }
    text_seconds(t, with * 1e-12);
    if (without >= 0) {
        text_add(t, without <= with ? ", of which the change is " : ", and without the change more by ");
        text_seconds(t, fabs(with - without) * 1e-12);
    }
    text_add(t, "\n");
    return bytes;
}

static void
print_changes(const Formats *f, const FormatFound *found, Text *t)
{
    Text lines = { .arena = f->arena };
    uint32_t n = 0;
    int64_t bytes = 0;

    for (uint32_t i = 0; i < f->factor.n; i++) {
        const Kernel *k = f->g->node.at[f->kernel[i]].kernel;
        ValueId out = format_argument(f, f->kernel[i], k->nin);
        for (uint32_t b = 0; b < k->nin; b++) {
            ValueId v = format_argument(f, f->kernel[i], b);
            uint32_t rank = k->buffer.at[b].type->rank;
            if (f->g->value.at[v].data || rank != k->buffer.at[k->nin].type->rank || (!f->var[v] && !f->var[out])
                || lie_alike(format_layout(f, v, found->choice), format_layout(f, out, found->choice)))
                continue;
            bytes += print_change(f, found, i, b, &lines);
            n++;
        }
    }
    text_printf(t, "\n%u time%s a kernel reads one order and writes another, ", n, n == 1 ? "" : "s");
    text_size(t, bytes);
    text_printf(t, " in all; nothing is converted beside kernels%s\n%s", n ? ":" : ".", text_str(&lines));
}

/* ---- what had no choice ------------------------------------------------------------------------------------------ */

static void
print_fixed(const Formats *f, Text *t)
{
    enum { MOST = 16 };
    const char *why[MOST];
    uint32_t count[MOST], n = 0, at;

    for (ValueId v = 1; v < f->g->value.n; v++) {
        const char *w = f->g->value.at[v].data || f->g->value.at[v].type->rank < 2 ? NULL : format_fixed(f, v);
        for (at = 0; w && at < n && why[at] != w; at++)
            ;
        if (!w || at == MOST)
            continue;
        if (at == n) {
            why[n] = w;
            count[n++] = 0;
        }
        count[at]++;
    }
    if (n)
        text_add(t, "\nThese lie as the model says:\n");
    for (at = 0; at < n; at++)
        text_printf(t, "  %5u  %s\n", count[at], why[at]);
}

void
format_explain(const Formats *f, const FormatFound *found, Text *t)
{
    print_head(f, found, t);
    text_add(t, "\n");
    print_values(f, found, t);
    print_changes(f, found, t);
    print_fixed(f, t);
}
