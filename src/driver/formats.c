/* formats: layouts that users ask for, and the stage that chooses all others.
 *
 *   --io-format x=nhwc       input x has its channels last; the model is imported so
 *   --format VALUE=nhwc      an intermediate tensor has this layout, whatever it costs
 *   %v: f32[…] as [0, 2, 3, 1] = …    the same in a text
 *   --formats HOW            how the others are chosen
 */
#include "driver/internal.h"

#include <string.h>

bool
formats_how(const char *text, FormatHow *how)
{
    static const char *const name[] = { "search", "nhwc", "none" };

    for (uint32_t i = 0; i < sizeof name / sizeof *name; i++)
        if (!strcmp(text, name[i])) {
            *how = (FormatHow)i;
            return true;
        }
    return false;
}

bool
formats_known(Job *j)
{
    FormatHow how;

    return formats_how(j->o->formats, &how) ||
           diag_usage(&j->ctx->diags,
                      "--formats: \"%s\" is not known. Give search (the orders of dimensions of "
                      "least predicted time), nhwc or none",
                      j->o->formats);
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

static const Type *
port_type(const Graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->input.n + g->output.n; i++) {
        const Value *v =
            &g->value.at[i < g->input.n ? g->input.at[i] : g->output.at[i - g->input.n]];
        if (!strcmp(v->name, name))
            return v->type;
    }
    return NULL;
}

static bool
bad_order(Job *j, const char *option, const TnOrder *o, const Type *type)
{
    return diag_usage(&j->ctx->diags,
                      "%s %s=%s: %s is %s, and \"%s\" is no order of its %u dimensions. Give one "
                      "such as %s",
                      option, o->value, o->order, o->value, type_str(j->ctx, type), o->order,
                      type->rank, order_examples(type->rank));
}

/* Remembers the pins of a text: fusion may inline a pinned value, which must be reported. */
static void
keep_text_orders(Job *j)
{
    GraphList all = graph_all(j->graph, j->arena);

    for (uint32_t i = 0; i < all.n; i++)
        for (ValueId v = 1; v < all.at[i]->value.n; v++)
            if (all.at[i]->value.at[v].format && !all.at[i]->value.at[v].data)
                VEC_PUSH(j->arena, &j->text_orders, all.at[i]->value.at[v].name);
}

bool
formats_ports(Job *j)
{
    uint32_t n = (uint32_t)j->o->nio_format;
    PortOrder *port = NEW_ARRAY(j->arena, PortOrder, n + 1);

    for (uint32_t i = 0; i < n; i++) {
        const TnOrder *o = &j->o->io_format[i];
        const Type *type = port_type(j->graph, o->value);
        uint8_t *order = NEW_ARRAY(j->arena, uint8_t, TN_MAX_RANK);
        if (!type)
            return diag_usage(&j->ctx->diags,
                              "--io-format %s=%s: the model has no input or output %s; its inputs "
                              "are %s, its outputs %s",
                              o->value, o->order, o->value,
                              value_names(j, j->graph->input.at, j->graph->input.n),
                              value_names(j, j->graph->output.at, j->graph->output.n));
        if (!order_read(o->order, type->rank, order))
            return bad_order(j, "--io-format", o, type);
        port[i] = (PortOrder){ sym(j->ctx, o->value), order };
    }
    keep_text_orders(j);
    return !n || (j->graph = rewrite_io_layout(j->graph, n, port)) != NULL;
}

const char *
formats_port(const Job *j, Sym name)
{
    for (int32_t i = 0; i < j->o->nio_format; i++)
        if (!strcmp(j->o->io_format[i].value, name))
            return j->o->io_format[i].order;
    return NULL;
}

/* ---- between kernels ------------------------------------------------------------------------- */

static const Value *
find_value(const GraphList *all, const char *name)
{
    for (uint32_t i = 0; i < all->n; i++)
        for (ValueId v = 1; v < all->at[i]->value.n; v++)
            if (!strcmp(all->at[i]->value.at[v].name, name))
                return &all->at[i]->value.at[v];
    return NULL;
}

/* Some values between kernels, for a message. */
static const char *
some_values(Job *j, const GraphList *all)
{
    enum { MOST = 8 };
    Text t = { .arena = j->arena };
    uint32_t n = 0;

    for (uint32_t i = 0; i < all->n; i++)
        for (NodeId k = 1; k < all->at[i]->node.n; k++) {
            const Node *node = &all->at[i]->node.at[k];
            if (node->callee != CALL_KERNEL || n++ >= MOST)
                continue;
            text_printf(&t, "%s%s", n > 1 ? ", " : "",
                        all->at[i]->value.at[node_out(all->at[i], node, 0)].name);
        }
    if (n > MOST)
        text_printf(&t, ", and %u more that --dump=layout shows", n - MOST);
    return text_str(&t);
}

static bool
not_in_memory(Job *j, const GraphList *all, const char *what)
{
    return diag_usage(
        &j->ctx->diags,
        "%s: no value of that name is in memory; what is computed inside of a kernel has no place "
        "(--fuse none gives it one). Kernels make %s",
        what, some_values(j, all));
}

static bool
read_pins(Job *j, const GraphList *all, FormatPin *pin)
{
    for (int32_t i = 0; i < j->o->nformat; i++) {
        const TnOrder *o = &j->o->format[i];
        const Value *v = find_value(all, o->value);
        uint8_t *order = NEW_ARRAY(j->arena, uint8_t, TN_MAX_RANK);
        if (!v)
            return not_in_memory(j, all,
                                 arena_printf(j->arena, "--format %s=%s", o->value, o->order));
        if (!order_read(o->order, v->type->rank, order))
            return bad_order(j, "--format", o, v->type);
        pin[i] = (FormatPin){ sym(j->ctx, o->value), order };
    }
    for (uint32_t i = 0; i < j->text_orders.n; i++)
        if (!find_value(all, j->text_orders.at[i]))
            return not_in_memory(j, all,
                                 arena_printf(j->arena, "%s: %%%s … as an order", j->model_path,
                                              j->text_orders.at[i]));
    return true;
}

typedef struct {
    Prices *prices;
    const Graph *g;
} PriceQuery;

static double
price(void *user, NodeId n, const Kernel *k)
{
    const PriceQuery *a = user;
    Job *j = a->prices->j;
    const void **data = n ? graph_inputs_data(a->g, j->arena, &a->g->node.at[n])
                          : NEW_ARRAY(j->arena, const void *, k->nin);
    return j->o->plain_schedule ? 0 : domains_seconds(a->prices, k, data);
}

static void
begin(void *user)
{
    const PriceQuery *a = user;
    choose_note(a->prices);
}

static bool
again(void *user)
{
    const PriceQuery *a = user;
    return choose_noted(a->prices);
}

bool
formats_between(Job *j)
{
    GraphList all = graph_all(j->graph, j->arena);
    Text remarks = { .arena = j->arena }, explain = { .arena = j->arena };
    FormatPin *pin = NEW_ARRAY(j->arena, FormatPin, j->o->nformat + 1);
    FormatHow how = FORMAT_NONE;
    Prices prices = choose_prices(j);
    const FormatMeasured *measured = NULL;

    if (!j->o->plain_schedule)
        formats_how(j->o->formats, &how);
    if (!read_pins(j, &all, pin))
        return false;
    if (j->o->explain_formats && j->o->page_profile &&
        !(measured = profile_read(j, j->o->page_profile)))
        return false;
    domains_begin(&prices);
    for (uint32_t i = 0; i < all.n; i++) {
        FormatRequest request = { how,
                                  (uint32_t)j->o->nformat,
                                  pin,
                                  { price, begin, again, &(PriceQuery){ &prices, all.at[i] } },
                                  j->o->explain_formats ? &explain : NULL,
                                  measured };
        if (j->o->explain_formats && all.n > 1)
            text_printf(&explain, "%s@%s\n\n", i ? "\n" : "", all.at[i]->name);
        if (!format_values(all.at[i], j->arena, &request, &remarks))
            return false;
    }
    if (j->o->explain_formats && j->o->print)
        j->o->print(j->o->user, text_str(&explain));
    prices.rounds = 0; /* without a choice nothing was queried twice */
    if (!domains_choose(j, &remarks))
        return false;
    j->remarks = remarks.n ? text_str(&remarks) : NULL;
    return true;
}

/* ---- within each other ----------------------------------------------------------------------- */

static double
price_as_it_is(void *user, NodeId n, const Kernel *k)
{
    const PriceQuery *a = user;
    return choose_seconds(a->prices, a->g, n, k);
}

void
formats_concats(Job *j)
{
    GraphList all = graph_all(j->graph, j->arena);
    Text remarks = { .arena = j->arena };
    Prices prices = choose_prices(j);

    /* values stored within each other live longer than the bound knows */
    if (j->o->plain_schedule || j->o->max_arena_bytes)
        return;
    text_add(&remarks, j->remarks ? j->remarks : "");
    for (uint32_t i = 0; i < all.n; i++) {
        FormatPrice price = { price_as_it_is, begin, again, &(PriceQuery){ &prices, all.at[i] } };
        format_concats(all.at[i], j->arena, &price, &remarks);
    }
    j->remarks = remarks.n ? text_str(&remarks) : NULL;
}
