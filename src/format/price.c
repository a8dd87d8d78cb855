/* price: tabulate what each kernel costs for every combination of its arguments' orders.
 *
 * Beside the operands of a matrix multiplication, arguments are expected to have the output's
 * order; in a kernel without one, three or more values of a rank are expected to have one order.
 * These combinations are priced first. Any other is expected to cost no less than if all had the
 * order of one of them; it is priced when the search chooses it. Equal kernels, over values with
 * equal choices, share one table.
 */
#include "format/internal.h"

#include <math.h>
#include <string.h>

ValueId
format_argument(const Formats *f, NodeId n, uint32_t buffer)
{
    const Node *node = &f->g->node.at[n];
    return buffer < node->in.count ? node_in(f->g, node, buffer)
                                   : node_out(f->g, node, buffer - node->in.count);
}

const uint8_t *
format_order(const Formats *f, ValueId v, const uint32_t *choice)
{
    uint32_t x = f->var[v];
    return x ? f->variable.at[x - 1].order[choice[x - 1]] : NULL;
}

const uint8_t *
format_argument_order(const Formats *f, NodeId n, uint32_t buffer, const uint32_t *choice)
{
    return format_order(f, format_argument(f, n, buffer), choice);
}

static uint32_t
argument_variable(const Formats *f, NodeId n, uint32_t buffer)
{
    return f->var[format_argument(f, n, buffer)];
}

const uint8_t *const *
format_orders(const Formats *f, NodeId n, const uint32_t *choice)
{
    const Kernel *k = f->g->node.at[n].kernel;
    const uint8_t **order = NEW_ARRAY(f->arena, const uint8_t *, k->nin + k->nout);

    for (uint32_t b = 0; b < k->nin + k->nout; b++)
        order[b] = format_argument_order(f, n, b, choice);
    return order;
}

/* of a kernel as it is [picoseconds]; NULL: INFINITY */
static double
format_price(const Formats *f, NodeId n, const Kernel *k)
{
    double seconds = k ? f->request->price.of(f->request->price.user, n, k) : -1;

    return seconds < 0 ? INFINITY : rint(seconds * 1e12);
}

double
format_cost(const Formats *f, NodeId n, const uint32_t *choice)
{
    const Kernel *k = f->g->node.at[n].kernel;
    Arena *scratch = arena_child(f->arena);
    double cost =
        format_price(f, n, kernel_permute(f->ctx, scratch, k, format_orders(f, n, choice)));

    arena_free(scratch);
    return cost;
}

/* ---- which arguments lie alike --------------------------------------------------------------- */

/* The next dimension of an order (NULL: the model's) that has more than one element; the rank:
 * none. */
static uint32_t
next_dim(const Type *t, const uint8_t *order, uint32_t *at)
{
    while (*at < t->rank) {
        uint32_t d = order ? order[*at] : *at;
        ++*at;
        if (!expr_is(t->dim[d], 1))
            return d;
    }
    return t->rank;
}

bool
format_same_memory(const Type *t, const uint8_t *a, const uint8_t *b)
{
    uint32_t i = 0, k = 0, d;

    do {
        d = next_dim(t, a, &i);
        if (next_dim(t, b, &k) != d)
            return false;
    } while (d < t->rank);
    return true;
}

/* Has the value several orders? They all differ in memory. */
static bool
format_has_choice(const Formats *f, ValueId v)
{
    return f->var[v] && f->variable.at[f->var[v] - 1].n > 1;
}

/* The argument whose order others are expected to have: the output, or else the first with a
 * choice. */
static uint32_t
leader(const Formats *f, NodeId n)
{
    const Kernel *k = f->g->node.at[n].kernel;
    uint32_t b = 0;

    if (format_has_choice(f, format_argument(f, n, k->nin)))
        return k->nin;
    while (b < k->nin + k->nout && !format_has_choice(f, format_argument(f, n, b)))
        b++;
    return b < k->nin + k->nout ? b : k->nin;
}

/* Which arguments are expected to have the leader's order, [nin + nout]. Free are operands of a
 * contraction, both values of a kernel with only two, and values without a choice. */
static const bool *
tied_arguments(const Formats *f, NodeId n, uint32_t lead, uint32_t nvar)
{
    const Kernel *k = f->g->node.at[n].kernel;
    bool *tied = NEW_ARRAY(f->arena, bool, k->nin + k->nout),
         free = format_has_choice(f, format_argument(f, n, lead));
    Contraction view;
    bool product = k->npart == 1 || kernel_has_independent_parts(k);

    for (uint32_t p = 0; p < k->npart && product; p++)
        product = nest_contraction(f->ctx, k->part[p].nest, &view);

    for (uint32_t b = 0; b < k->nin + k->nout; b++)
        tied[b] = (product || nvar > 2) && free && b != lead &&
                  format_has_choice(f, format_argument(f, n, b)) &&
                  k->buffer.at[b].type->rank == k->buffer.at[lead].type->rank;
    for (uint32_t i = 0; i < 2 * k->npart && product; i++) {
        const Part *part = &k->part[i / 2];
        nest_contraction(f->ctx, part->nest, &view);
        const Scalar *s = i % 2 ? view.b : view.a;
        if (s->op == S_LOAD && part->buffer[s->u.load.slot] < k->nin)
            tied[part->buffer[s->u.load.slot]] = false;
    }
    return tied;
}

/* The variables of a kernel, and which of them are expected to have one order (tied). */
typedef struct {
    uint32_t nvar;
    const uint32_t *var;
    bool tied[MAX_SCOPE];
} TiedOrders;

static const uint8_t *
order_of(const Formats *f, uint32_t var, const uint32_t *choice)
{
    return f->variable.at[var].order[choice[var]];
}

static TiedOrders
alike_of(const Formats *f, NodeId n, uint32_t nvar, const uint32_t *var)
{
    const Kernel *k = f->g->node.at[n].kernel;
    uint32_t lead = leader(f, n), leading = argument_variable(f, n, lead);
    const bool *tied = tied_arguments(f, n, lead, nvar);
    TiedOrders a = { .nvar = nvar, .var = var };
    bool any = false;

    for (uint32_t i = 0; i < nvar; i++) {
        for (uint32_t b = 0; b < k->nin + k->nout; b++)
            a.tied[i] |= tied[b] && argument_variable(f, n, b) == var[i] + 1;
        any |= a.tied[i];
    }
    for (uint32_t i = 0; i < nvar; i++)
        a.tied[i] |= any && leading == var[i] + 1;
    return a;
}

/* Gives all tied variables one order; false: one of them does not have it. */
static bool
lie_as(const Formats *f, const TiedOrders *a, const uint8_t *order, uint32_t *choice)
{
    for (uint32_t i = 0; i < a->nvar; i++) {
        uint32_t c = 0;
        if (!a->tied[i])
            continue;
        while (c < f->size[a->var[i]] && f->variable.at[a->var[i]].order[c] != order)
            c++;
        if (c == f->size[a->var[i]])
            return false;
        choice[a->var[i]] = c;
    }
    return true;
}

static bool
lies_alike(const Formats *f, const TiedOrders *a, const uint32_t *choice)
{
    uint32_t first = UINT32_MAX;

    for (uint32_t i = 0; i < a->nvar; i++) {
        if (!a->tied[i])
            continue;
        if (first != UINT32_MAX && order_of(f, a->var[i], choice) != order_of(f, first, choice))
            return false;
        first = a->var[i];
    }
    return true;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The key of a table: the kernel's text, and the choices of each argument. */
static Sym
table_key(const Formats *f, NodeId n)
{
    Text t = { .arena = arena_child(f->arena) };
    const Kernel *k = f->g->node.at[n].kernel;

    kernel_print_meaning(f->ctx, &t, k);
    for (uint32_t b = 0; b < k->nin + k->nout; b++) {
        ValueId v = format_argument(f, n, b);
        uint32_t same = 0;
        while (format_argument(f, n, same) != v)
            same++;
        text_printf(&t, "%c%u", f->g->value.at[v].data ? 'c' : 'v', same);
        for (uint32_t c = 0; f->var[v] && c < f->size[f->var[v] - 1]; c++) {
            text_add(&t, " ");
            order_print(&t, k->buffer.at[b].type->rank, f->variable.at[f->var[v] - 1].order[c]);
        }
    }
    Sym key = sym(f->ctx, text_str(&t));
    arena_free(t.arena);
    return key;
}

static uint64_t
place_of(const Formats *f, uint32_t nvar, const uint32_t *var, const uint32_t *choice)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < nvar; i++)
        at = at * f->size[var[i]] + choice[var[i]];
    return at;
}

static void
choice_at(const Formats *f, uint32_t nvar, const uint32_t *var, uint64_t at, uint32_t *choice)
{
    for (uint32_t i = nvar; i-- > 0; at /= f->size[var[i]])
        choice[var[i]] = (uint32_t)(at % f->size[var[i]]);
}

/* The expected cost of a combination in which tied variables differ: the least cost with all of
 * them in the order of one of them. other [nvar]: scratch. */
static double
expected(const Formats *f, const TiedOrders *a, const CostTable *t, const uint32_t *choice,
         uint32_t *other)
{
    double least = INFINITY;

    for (uint32_t i = 0; i < a->nvar; i++)
        other[a->var[i]] = choice[a->var[i]];
    for (uint32_t i = 0; i < a->nvar; i++)
        if (a->tied[i] && lie_as(f, a, order_of(f, a->var[i], choice), other))
            least = fmin(least, t->cost[place_of(f, a->nvar, a->var, other)]);
    /* so that of equal costs the priced one is taken */
    return (isfinite(least) ? least : 0) + 1;
}

/* A kernel over symbolic sizes is priced at many sizes and takes as long as ten others
 * (doc/formats.md): none of its unexpected combinations is priced. */
static uint32_t
most_parted(const Kernel *k)
{
    for (uint32_t b = 0; b < k->nin + k->nout; b++)
        if (!type_is_static(k->buffer.at[b].type))
            return 0;
    return MOST_PARTED;
}

static CostTable *
table_of(Formats *f, NodeId n, uint32_t nvar, const uint32_t *var, uint32_t *choice)
{
    uint64_t known;
    Sym key = table_key(f, n);
    CostTable *t = NEW(f->arena, CostTable);

    if (map_get(&f->cost, MAP_PTR(key), &known))
        return (CostTable *)(uintptr_t)known;
    t->entries = 1;
    t->most = most_parted(f->g->node.at[n].kernel);
    for (uint32_t i = 0; i < nvar; i++)
        t->entries *= f->size[var[i]];
    t->cost = NEW_ARRAY(f->arena, double, t->entries);
    t->known = NEW_ARRAY(f->arena, bool, t->entries);
    TiedOrders a = alike_of(f, n, nvar, var);
    uint32_t *other = NEW_ARRAY(f->arena, uint32_t, f->nvar);
    for (uint64_t at = 0; at < t->entries; at++) {
        choice_at(f, nvar, var, at, choice);
        if ((t->known[at] = lies_alike(f, &a, choice)))
            t->cost[at] = format_cost(f, n, choice);
    }
    for (uint64_t at = 0; at < t->entries; at++) {
        choice_at(f, nvar, var, at, choice);
        if (!t->known[at])
            t->cost[at] = expected(f, &a, t, choice, other);
    }
    map_put(&f->cost, MAP_PTR(key), MAP_PTR(t));
    return t;
}

/* The table of a kernel without variables: one entry. */
static CostTable *
table_of_one(Formats *f, NodeId n)
{
    CostTable *t = NEW(f->arena, CostTable);

    *t = (CostTable){ .entries = 1, .cost = NEW(f->arena, double), .known = NEW(f->arena, bool) };
    *t->cost = format_cost(f, n, NEW_ARRAY(f->arena, uint32_t, f->nvar));
    *t->known = true;
    return t;
}

static void
add_factor(Formats *f, NodeId n, uint32_t nvar, const uint32_t *var, CostTable *table)
{
    VEC_PUSH(f->arena, &f->factor, ((FormatFactor){ nvar, var, table->cost }));
    f->kernel[f->factor.n - 1] = n;
    f->table[f->factor.n - 1] = table;
}

/* A kernel with too many values for a table: each keeps the model's order, or its pin. */
static void
keep_as_they_are(Formats *f, uint32_t nvar, const uint32_t *var)
{
    for (uint32_t i = 0; i < nvar; i++) {
        double *cost = NEW_ARRAY(f->arena, double, f->size[var[i]]);
        for (uint32_t c = 1; c < f->size[var[i]]; c++)
            cost[c] = INFINITY;
        VEC_PUSH(f->arena, &f->kept, ((FormatFactor){ 1, &var[i], cost }));
    }
}

static void
make_factor(Formats *f, NodeId n, uint32_t *choice)
{
    const Kernel *k = f->g->node.at[n].kernel;
    uint32_t *var = NEW_ARRAY(f->arena, uint32_t, k->nin + k->nout), nvar = 0;

    for (uint32_t b = 0; b < k->nin + k->nout; b++) {
        uint32_t x = argument_variable(f, n, b);
        bool seen = x == 0;
        for (uint32_t i = 0; i < nvar; i++)
            seen |= var[i] == x - 1;
        if (!seen)
            var[nvar++] = x - 1;
    }
    if (nvar > MAX_SCOPE) {
        keep_as_they_are(f, nvar, var);
        nvar = 0;
    }
    add_factor(f, n, nvar, var, nvar ? table_of(f, n, nvar, var, choice) : table_of_one(f, n));
}

void
format_factors(Formats *f, uint32_t *choice)
{
    uint32_t most = 0;

    f->factor.n = f->kept.n = 0;
    f->cost = (Map){ .arena = f->arena };
    for (NodeId n = 1; n < f->g->node.n; n++)
        most += f->can[n];
    f->kernel = NEW_ARRAY(f->arena, NodeId, most + 1);
    f->table = NEW_ARRAY(f->arena, CostTable *, most + 1);
    for (NodeId n = 1; n < f->g->node.n; n++)
        if (f->can[n])
            make_factor(f, n, choice);
}

double
format_entry(const Formats *f, uint32_t factor, const uint32_t *choice)
{
    const FormatFactor *p = &f->factor.at[factor];
    CostTable *t = f->table[factor];

    if (!p->n)
        return f->kept.n ? format_cost(f, f->kernel[factor], choice) : *t->cost;
    uint64_t at = place_of(f, p->n, p->var, choice);
    if (!t->known[at]) {
        t->cost[at] = format_cost(f, f->kernel[factor], choice);
        t->known[at] = true;
    }
    return t->cost[at];
}

/* Forbids all entries of a table that are not priced. */
static void
close_table(CostTable *t)
{
    for (uint64_t at = 0; at < t->entries; at++)
        if (!t->known[at]) {
            t->cost[at] = INFINITY;
            t->known[at] = true;
        }
}

static void
want(Formats *f, uint32_t factor, uint64_t at)
{
    for (uint32_t i = 0; i < f->wanted.n; i++)
        if (f->table[f->wanted.at[i].factor] == f->table[factor] && f->wanted.at[i].at == at)
            return;
    VEC_PUSH(f->arena, &f->wanted, ((WantedPrice){ factor, at }));
}

/* Prices all wanted entries as one batch. */
static void
price_wanted(Formats *f)
{
    const FormatPrice *price = &f->request->price;
    uint32_t *choice = NEW_ARRAY(f->arena, uint32_t, f->nvar), n = f->wanted.n;

    if (n && price->begin)
        price->begin(price->user);
    do
        for (uint32_t i = 0; i < n; i++) {
            uint32_t factor = f->wanted.at[i].factor;
            choice_at(f, f->factor.at[factor].n, f->factor.at[factor].var, f->wanted.at[i].at,
                      choice);
            f->table[factor]->cost[f->wanted.at[i].at] = format_cost(f, f->kernel[factor], choice);
        }
    while (n && price->again && price->again(price->user));
    for (uint32_t i = 0; i < n; i++)
        f->table[f->wanted.at[i].factor]->known[f->wanted.at[i].at] = true;
    f->wanted.n = 0;
}

bool
format_price_wanted(Formats *f, const uint32_t *choice)
{
    bool any = false;

    for (uint32_t i = 0; i < f->factor.n; i++) {
        const FormatFactor *p = &f->factor.at[i];
        uint64_t at = place_of(f, p->n, p->var, choice);
        CostTable *t = f->table[i];
        if (t->known[at])
            continue;
        any = true;
        if (t->parted++ < t->most)
            want(f, i, at);
        else
            close_table(t);
    }
    price_wanted(f);
    return any;
}

double
format_cost_of_all(const Formats *f, const uint32_t *choice)
{
    double sum = 0;

    for (uint32_t i = 0; i < f->factor.n; i++)
        sum += format_entry(f, i, choice);
    return sum;
}
