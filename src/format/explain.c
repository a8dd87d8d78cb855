/* explain: report what was chosen for each value, and what the second best would cost.
 *
 * The search is run again with the chosen order forbidden, so the difference is exact; the kernel
 * with most of the difference is named as the reason. Values with the same second best choice
 * change together, and are reported together.
 */
#include "format/internal.h"

#include <math.h>
#include <string.h>

static uint32_t
rank_of(const Formats *f, uint32_t x)
{
    return f->g->value.at[f->variable.at[x].value].type->rank;
}

/* ---- in a line ------------------------------------------------------------------------------- */

static uint32_t
count_changed(const Formats *f, const uint32_t *choice)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->variable.n; i++)
        n += f->variable.at[i].order[choice[i]] != NULL;
    return n;
}

void
format_remark(const Formats *f, const FormatFound *found, Text *t)
{
    text_printf(t,
                "; %u of %u value%s ha%s another order than the model's: %.4g ms of kernels "
                "instead of %.4g ms\n",
                count_changed(f, found->choice), f->variable.n, f->variable.n == 1 ? "" : "s",
                count_changed(f, found->choice) == 1 ? "s" : "ve", found->cost * 1e-9,
                found->plain * 1e-9);
    for (ValueId v = 1; v < f->g->value.n; v++) {
        const uint8_t *order = format_order(f, v, found->choice);
        if (!order)
            continue;
        text_add(t, "; %");
        text_name(t, f->g->value.at[v].name);
        text_add(t, ": ");
        order_print(t, f->g->value.at[v].type->rank, order);
        text_add(t, "\n");
    }
}

/* ---- measured times -------------------------------------------------------------------------- */

/* Measured seconds of one run in kernels of an origin; negative: not measured. */
static double
measured(const Formats *f, const char *origin)
{
    uint64_t at;

    if (!f->request->measured || !origin ||
        !map_get(&f->request->measured->seconds, MAP_PTR(sym(f->ctx, origin)), &at))
        return -1;
    return *(const double *)(uintptr_t)at;
}

/* The sum over all priced kernels. Nodes of one origin were measured together. */
static void
print_measured(const Formats *f, Text *t)
{
    Map seen = { .arena = f->arena };
    double sum = 0;
    uint32_t missing = 0;

    for (uint32_t i = 0; i < f->factor.n; i++) {
        const char *origin = f->g->node.at[f->kernel[i]].kernel->origin;
        uint64_t key = MAP_PTR(sym(f->ctx, origin ? origin : ""));
        double seconds = measured(f, origin);
        if (map_get(&seen, key, NULL))
            continue;
        map_put(&seen, key, 1);
        sum += seconds < 0 ? 0 : seconds;
        missing += seconds < 0;
    }
    text_add(t, ", measured ");
    text_seconds(t, sum);
    text_printf(t, " %s", f->request->measured->how);
    if (missing)
        text_printf(t,
                    ", where %u of these kernels are missing: was it measured of this model, "
                    "compiled with these options?",
                    missing);
}

/* ---- what all take --------------------------------------------------------------------------- */

static void
print_row(Text *t, double picoseconds, const char *what)
{
    Text number = { .arena = t->arena };

    text_seconds(&number, picoseconds * 1e-12);
    text_printf(t, "%12s  %s", text_str(&number), what);
}

static void
print_head(const Formats *f, const FormatFound *found, Text *t)
{
    uint32_t n = f->variable.n, changed = count_changed(f, found->choice);

    text_printf(t,
                "%u value%s between kernels can have several orders; %u ha%s another than "
                "the model's. An order names the model's\n"
                "dimensions, the one whose elements are neighbours in memory last. The kernels "
                "that make and read them take\n\n",
                n, n == 1 ? "" : "s", changed, changed == 1 ? "s" : "ve");
    print_row(t, found->cost, "as chosen");
    if (f->request->measured)
        print_measured(f, t);
    text_add(t, "\n");
    print_row(t, found->plain, "if nothing were changed, in the same kernels\n");
    text_add(t, "\nas predicted: by the prices of their schedules, halfway between what one core "
                "takes and what all of them take.\n\n");
}

/* The origin of a fused kernel, shortened: Conv "a" + 3 more */
static const char *
origin_of(const Formats *f, NodeId n)
{
    const Kernel *k = f->g->node.at[n].kernel;
    const char *origin = k->origin && *k->origin ? k->origin : k->name,
               *end = strstr(origin, "\" + ");
    uint32_t more = 0;

    for (const char *at = end; at; at = strstr(at + 1, "\" + "))
        more++;
    return more ? arena_printf(f->arena, "%.*s\" + %u more", (int)(end - origin), origin, more)
                : origin;
}

/* ---- value by value -------------------------------------------------------------------------- */

/* The best choice with another order for one value. choice NULL: it has no other. */
typedef struct {
    double cost;
    const uint32_t *choice;
} Second;

static Second
second_best(Formats *f, const FormatFound *found, uint32_t x)
{
    uint32_t *choice = NEW_ARRAY(f->arena, uint32_t, f->nvar);
    double *cost = NEW_ARRAY(f->arena, double, f->size[x]);

    if (f->variable.at[x].n == 1)
        return (Second){ INFINITY, NULL };
    cost[found->choice[x]] = INFINITY;
    return (Second){ format_least(f, &(FormatFactor){ 1, &x, cost }, 1, choice).cost, choice };
}

static void
print_percent(Text *t, double part)
{
    text_printf(t, part >= 0.1 ? " (%.0f %%)" : " (%.2g %%)", 100 * part);
}

/* Prints the kernel that loses most by another choice. */
static void
print_reason(const Formats *f, const FormatFound *found, const uint32_t *choice, Text *t)
{
    uint32_t most = UINT32_MAX;
    double loss = 0;

    for (uint32_t i = 0; i < f->factor.n; i++) {
        double d = format_entry(f, i, choice) - format_entry(f, i, found->choice);
        if (d > loss) {
            loss = d;
            most = i;
        }
    }
    if (most == UINT32_MAX)
        return;
    text_printf(t, "; %s would take ", origin_of(f, f->kernel[most]));
    text_seconds(t, format_entry(f, most, choice) * 1e-12);
    text_add(t, " instead of ");
    text_seconds(t, format_entry(f, most, found->choice) * 1e-12);
}

/* One line for values that change together, member [n]. */
static void
print_second(const Formats *f, const FormatFound *found, const uint32_t *member, uint32_t n,
             const Second *s, Text *t)
{
    const Variable *first = &f->variable.at[member[0]];
    uint32_t changed = 0;
    bool alike = true;

    if (!isfinite(s->cost)) {
        text_add(t, first->pinned ? "    as was asked for\n"
                                  : "    its kernels have schedules for no other order\n");
        return;
    }
    for (uint32_t i = 0; i < f->variable.n; i++)
        changed += s->choice[i] != found->choice[i];
    for (uint32_t i = 1; i < n; i++)
        alike &= rank_of(f, member[i]) == rank_of(f, member[0]) &&
                 f->variable.at[member[i]].order[s->choice[member[i]]] ==
                     first->order[s->choice[member[0]]];
    text_add(t, "    second best ");
    for (uint32_t i = 0; i < (alike ? 1 : n); i++) {
        text_add(t, i ? ", " : "");
        order_print(t, rank_of(f, member[i]),
                    f->variable.at[member[i]].order[s->choice[member[i]]]);
    }
    if (n > 1)
        text_printf(t, alike ? " for these %u together" : " for these %u, in turn, together", n);
    if (changed > n)
        text_printf(t, ", and %u other%s changed", changed - n, changed - n == 1 ? "" : "s");
    if (s->cost == found->cost) {
        text_add(t, ": as good\n");
        return;
    }
    text_add(t, ": ");
    text_seconds(t, fabs(s->cost - found->cost) * 1e-12);
    text_add(t, s->cost > found->cost ? " more in all" : " less in all");
    print_percent(t, fabs(s->cost / found->cost - 1));
    print_reason(f, found, s->choice, t);
    text_add(t, "\n");
}

static void
print_value(const Formats *f, const FormatFound *found, ValueId v, Text *t)
{
    const Value *value = &f->g->value.at[v];
    const uint8_t *order = format_order(f, v, found->choice);

    text_add(t, "  %");
    text_name(t, value->name);
    text_add(t, ": ");
    order_print(t, value->type->rank, order);
    text_add(t, order ? ", " : ", as the model says, ");
    type_print(t, order ? type_permuted(f->ctx, value->type, order) : value->type);
    text_add(t, "\n");
}

/* Prints values in the order in which they are made. The second best of one may cost more than the
 * second best of another value that changes with it. */
static void
print_values(Formats *f, const FormatFound *found, Text *t)
{
    uint32_t *order = NEW_ARRAY(f->arena, uint32_t, f->variable.n),
             *member = NEW_ARRAY(f->arena, uint32_t, f->variable.n), n = 0;
    Second *second = NEW_ARRAY(f->arena, Second, f->variable.n);
    bool *told = NEW_ARRAY(f->arena, bool, f->variable.n);

    for (ValueId v = 1; v < f->g->value.n; v++)
        if (f->var[v]) {
            order[n++] = f->var[v] - 1;
            second[f->var[v] - 1] = second_best(f, found, f->var[v] - 1);
        }
    for (uint32_t i = 0; i < n; i++) {
        const Second *s = &second[order[i]];
        uint32_t count = 0;
        for (uint32_t k = i; k < n && !told[order[i]]; k++) {
            const Second *other = &second[order[k]];
            if (told[order[k]] ||
                (k > i && (!isfinite(s->cost) || other->cost != s->cost ||
                           memcmp(other->choice, s->choice, f->nvar * sizeof *s->choice))))
                continue;
            print_value(f, found, f->variable.at[order[k]].value, t);
            member[count++] = order[k];
        }
        for (uint32_t k = 0; k < count; k++)
            told[member[k]] = true;
        if (count)
            print_second(f, found, member, count, s, t);
    }
}

/* ---- where the order changes ----------------------------------------------------------------- */

/* What the kernel would cost if its output had the order of input b; negative: not known. */
static double
without_change(const Formats *f, uint32_t factor, uint32_t b, const uint32_t *chosen)
{
    NodeId n = f->kernel[factor];
    uint32_t out = f->var[format_argument(f, n, f->g->node.at[n].kernel->nin)];
    uint32_t *choice = arena_copy(f->arena, chosen, f->nvar * sizeof *chosen);

    for (uint32_t c = 0; out && c < f->size[out - 1]; c++)
        if (f->variable.at[out - 1].order[c] == format_argument_order(f, n, b, chosen)) {
            choice[out - 1] = c;
            double cost = format_entry(f, factor, choice);
            return isfinite(cost) ? cost : -1;
        }
    return -1;
}

/* Prints one kernel; returns the bytes of its input, 0 if not known. */
static int64_t
print_change(const Formats *f, const FormatFound *found, uint32_t factor, uint32_t b, Text *t)
{
    NodeId n = f->kernel[factor];
    ValueId from = format_argument(f, n, b),
            to = format_argument(f, n, f->g->node.at[n].kernel->nin);
    uint32_t rank = f->g->value.at[from].type->rank;
    double without = without_change(f, factor, b, found->choice),
           run = measured(f, f->g->node.at[n].kernel->origin);
    int64_t bytes = 0;

    text_printf(t, "  %s reads %%", origin_of(f, n));
    text_name(t, f->g->value.at[from].name);
    text_add(t, " (");
    order_print(t, rank, format_argument_order(f, n, b, found->choice));
    text_add(t, ") and writes %");
    text_name(t, f->g->value.at[to].name);
    text_add(t, " (");
    order_print(t, rank, format_order(f, to, found->choice));
    text_add(t, ")\n    ");
    if (type_static_bytes(f->g->value.at[from].type, &bytes)) {
        text_size(t, bytes);
        text_add(t, "; ");
    }
    text_add(t, "the kernel is predicted to take ");
    text_seconds(t, format_entry(f, factor, found->choice) * 1e-12);
    if (without >= 0) {
        text_add(t, ", or ");
        text_seconds(t, without * 1e-12);
        text_add(t, " if it wrote ");
        order_print(t, rank, format_argument_order(f, n, b, found->choice));
    }
    if (run >= 0) {
        text_add(t, "; measured ");
        text_seconds(t, run);
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
            const Type *type = f->g->value.at[out].type;
            if (f->g->value.at[v].data ||
                k->buffer.at[b].type->rank != k->buffer.at[k->nin].type->rank ||
                (!f->var[v] && !f->var[out]) ||
                format_same_memory(type, format_argument_order(f, f->kernel[i], b, found->choice),
                                   format_order(f, out, found->choice)))
                continue;
            bytes += print_change(f, found, i, b, &lines);
            n++;
        }
    }
    text_printf(t, "\n%u time%s a kernel reads one order and writes another, ", n,
                n == 1 ? "" : "s");
    text_size(t, bytes);
    text_printf(t, " in all%s\n%s", n ? ":" : ".", text_str(&lines));
    if (!f->request->measured)
        text_add(t, "\nTimes are measured by `tenon bench MODEL --profile --json FILE`; with "
                    "--profile FILE beside --explain-formats they are shown here too.\n");
}

/* ---- what had no choice ---------------------------------------------------------------------- */

static bool
has_orders(const Formats *f, uint32_t rank)
{
    for (uint32_t i = 0; i < f->order.n; i++)
        if (f->order.at[i].rank == rank && f->order.at[i].votes)
            return true;
    return false;
}

static void
print_fixed(const Formats *f, Text *t)
{
    enum { MOST = 16 };
    static const char one[] = "the same in memory in every order that they could have";
    const char *why[MOST];
    uint32_t count[MOST], n = 0, at;

    for (ValueId v = 1; v < f->g->value.n; v++) {
        const Value *value = &f->g->value.at[v];
        if (value->data || value->type->rank < 2)
            continue;
        const char *w = format_fixed(f, v);
        if (!w && !f->var[v] && has_orders(f, value->type->rank))
            w = one;
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
        text_add(t, "\nThese keep the model's order:\n");
    for (at = 0; at < n; at++)
        text_printf(t, "  %5u  %s\n", count[at], why[at]);
}

void
format_explain(Formats *f, const FormatFound *found, Text *t)
{
    print_head(f, found, t);
    print_values(f, found, t);
    print_changes(f, found, t);
    print_fixed(f, t);
}
