/* values: what lies between kernels gets the order of dimensions that suits its neighbours.
 *
 * A product's free choice is along which dimension its columns lie: the one whose partner is a constant can always be laid
 * for it, so the axes of constants are proposed to be innermost where products write, and those that are summed where they
 * read. Every order that some product proposes is a candidate for every value of its rank. A kernel is priced for each way
 * in which its arguments may lie; the least sum over all kernels is found exactly (search.c).
 *
 * What a kernel reads or writes beside its product's operands lies as its output does, and where there is no product all
 * arguments of a rank lie alike, unless there are only two: an edge along which the order changes is a kernel that pays for it.
 */
#include "format/format.h"

#include <math.h>
#include <string.h>

enum { MAX_ORDERS = 2,               /* candidates beside the model's own order, of a rank: those that most products propose */
       MAX_SCOPE = 10 };             /* values of one kernel that are asked in all combinations; with more the kernel's lie as they are */

typedef struct { uint8_t rank, dim[TN_MAX_RANK]; uint32_t votes; } Order;

typedef struct {
    Graph *g;
    Ctx *ctx;
    Arena *arena;
    const FormatPrice *price;
    Users users;
    bool *can;                           /* [node.n]: a kernel whose arguments may lie otherwise */
    VEC(Order) order;
    uint32_t *var;                       /* [value.n]: its variable + 1; 0: it lies as it is */
    VEC(ValueId) value;                  /* of each variable */
    VEC(uint32_t) size;
    VEC(FormatFactor) factor;
} Formats;

/* ---- who may ------------------------------------------------------------------------------------------- */

static bool
may_change(const Graph *g, NodeId n)
{
    const Kernel *k = g->node.at[n].callee == CALL_KERNEL ? g->node.at[n].kernel : NULL;

    if (!k || k->tree.list.n || k->schedule || k->npart != 1)
        return false;
    const Nest *nest = k->part[0].nest;
    return nest->nwrite == 1 && nest->write[0].combiner == COMB_NONE && !nest_axes_of_kind(nest, AXIS_SCAN) && !nest_leaves_gaps(nest);
}

static bool
is_free(const Formats *f, ValueId v)
{
    const Value *value = &f->g->value.at[v];
    uint32_t first = f->users.first[v], end = f->users.first[v + 1];

    for (uint32_t i = 0; i < f->g->output.n; i++)
        if (f->g->output.at[i] == v)
            return false;
    for (uint32_t i = first; i < end; i++)
        if (!f->can[f->users.node[i]])
            return false;
    return value->def && f->can[value->def] && end > first;
}

/* ---- candidates ------------------------------------------------------------------------------------------ */

/* The dimensions that name an axis of the set, behind the others. */
static void
propose(Formats *f, uint32_t rank, const Expr *const *at, AxisSet last)
{
    Order o = { .rank = (uint8_t)rank };
    uint32_t n = 0;
    bool same = true;

    for (int behind = 0; behind < 2; behind++)
        for (uint32_t d = 0; d < rank; d++)
            if ((int)((expr_axes(at[d]) & last) != 0) == behind)
                o.dim[n++] = (uint8_t)d;
    for (uint32_t d = 0; d < rank; d++)
        same = same && o.dim[d] == d;
    for (uint32_t i = 0; i < f->order.n && !same; i++)
        if (f->order.at[i].rank == rank && !memcmp(f->order.at[i].dim, o.dim, rank)) {
            f->order.at[i].votes++;
            return;
        }
    o.votes = 1;
    if (!same)
        VEC_PUSH(f->arena, &f->order, o);
}

static bool
is_constant(const Formats *f, NodeId n, const Scalar *s)
{
    const Node *node = &f->g->node.at[n];
    const Part *part = &node->kernel->part[0];

    while (s->op == S_CAST)
        s = s->arg[0];
    return s->op == S_LOAD && part->buffer[s->u.load.slot] < node->in.count
        && f->g->value.at[node_in(f->g, node, part->buffer[s->u.load.slot])].data != NULL;
}

static void
propose_of(Formats *f, NodeId n)
{
    const Nest *nest = f->g->node.at[n].kernel->part[0].nest;
    Contraction view;

    if (!nest_contraction(f->ctx, nest, &view) || is_constant(f, n, view.a) == is_constant(f, n, view.b))
        return;
    bool a = is_constant(f, n, view.a);
    const Scalar *moving = a ? view.b : view.a;
    const Write *w = &nest->write[0];
    AxisSet bare = 0;
    Var v;

    propose(f, nest->param[w->out].type->rank, w->at, a ? view.row : view.col);
    if (moving->op != S_LOAD)
        return;
    for (uint32_t d = 0; d < moving->u.load.rank; d++)
        if (expr_is_var(moving->u.load.at[d], &v) && v.kind == VAR_AXIS && view.sum >> v.id & 1)
            bare |= (AxisSet)1 << v.id;
    propose(f, moving->u.load.rank, moving->u.load.at, bare);
}

/* The candidates of a rank beside the plain one, the most wanted first; the number of them. */
static uint32_t
orders_of(const Formats *f, uint32_t rank, const Order **list)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->order.n; i++) {
        const Order *o = &f->order.at[i];
        if (o->rank != rank)
            continue;
        uint32_t at = n < MAX_ORDERS ? n++ : MAX_ORDERS;
        for (; at > 0 && list[at - 1]->votes < o->votes; at--)
            if (at < MAX_ORDERS)
                list[at] = list[at - 1];
        if (at < MAX_ORDERS)
            list[at] = o;
    }
    return n;
}

static void
make_variables(Formats *f)
{
    for (ValueId v = 1; v < f->g->value.n; v++) {
        const Order *list[MAX_ORDERS];
        uint32_t n = orders_of(f, f->g->value.at[v].type->rank, list);
        if (!n || !is_free(f, v))
            continue;
        VEC_PUSH(f->arena, &f->value, v);
        VEC_PUSH(f->arena, &f->size, n + 1);
        f->var[v] = f->value.n;
    }
}

/* ---- costs ----------------------------------------------------------------------------------------------- */

static ValueId
argument(const Formats *f, NodeId n, uint32_t buffer)
{
    const Node *node = &f->g->node.at[n];
    return buffer < node->in.count ? node_in(f->g, node, buffer) : node_out(f->g, node, buffer - node->in.count);
}

/* The order of a value under a choice; NULL: as it is. */
static const Order *
order_under(const Formats *f, ValueId v, const uint32_t *choice)
{
    const Order *list[MAX_ORDERS];

    if (!f->var[v] || !choice[f->var[v] - 1])
        return NULL;
    orders_of(f, f->g->value.at[v].type->rank, list);
    return list[choice[f->var[v] - 1] - 1];
}

/* [nin + nout] of node n under a choice. */
static const uint8_t *const *
orders_under(const Formats *f, NodeId n, const uint32_t *choice)
{
    const Kernel *k = f->g->node.at[n].kernel;
    const uint8_t **order = NEW_ARRAY(f->arena, const uint8_t *, k->nin + k->nout);

    for (uint32_t b = 0; b < k->nin + k->nout; b++) {
        const Order *o = order_under(f, argument(f, n, b), choice);
        order[b] = o ? o->dim : NULL;
    }
    return order;
}

/* Which inputs lie as the output does, [nin]: a product's operands lie as they like, two values of other kernels as well. */
static const bool *
tied_inputs(const Formats *f, NodeId n, uint32_t nvar)
{
    const Kernel *k = f->g->node.at[n].kernel;
    const Part *part = &k->part[0];
    bool *tied = NEW_ARRAY(f->arena, bool, k->nin + 1);
    Contraction view;
    bool product = nest_contraction(f->ctx, part->nest, &view);
    uint32_t rank = k->buffer.at[k->nin].type->rank;

    for (uint32_t b = 0; b < k->nin; b++)
        tied[b] = (product || nvar > 2) && !f->g->value.at[argument(f, n, b)].data && k->buffer.at[b].type->rank == rank;
    for (int i = 0; i < 2 && product; i++) {
        const Scalar *s = i ? view.b : view.a;
        if (s->op == S_LOAD && part->buffer[s->u.load.slot] < k->nin)
            tied[part->buffer[s->u.load.slot]] = false;
    }
    return tied;
}

static bool
is_allowed(const Formats *f, NodeId n, const bool *tied, const uint32_t *choice)
{
    uint32_t nin = f->g->node.at[n].kernel->nin;
    const Order *lies = order_under(f, argument(f, n, nin), choice);

    for (uint32_t b = 0; b < nin; b++)
        if (tied[b] && order_under(f, argument(f, n, b), choice) != lies)
            return false;
    return true;
}

static double
price_under(const Formats *f, NodeId n, const uint32_t *choice)
{
    const Kernel *k = f->g->node.at[n].kernel;
    Arena *scratch = arena_child(f->arena);
    const Kernel *to = kernel_permute(f->ctx, scratch, k, orders_under(f, n, choice));
    double seconds = to ? f->price->of(f->price->user, n, to) : -1;

    arena_free(scratch);
    return seconds < 0 ? INFINITY : seconds;
}

static void
make_factor(Formats *f, NodeId n, uint32_t *choice)
{
    const Kernel *k = f->g->node.at[n].kernel;
    uint32_t *var = NEW_ARRAY(f->arena, uint32_t, k->nin + k->nout), nvar = 0;
    uint64_t entries = 1, at = 0;

    for (uint32_t b = 0; b < k->nin + k->nout; b++) {
        uint32_t x = f->var[argument(f, n, b)];
        bool seen = x == 0;
        for (uint32_t i = 0; i < nvar; i++)
            seen |= var[i] == x - 1;
        if (!seen)
            var[nvar++] = x - 1;
    }
    if (!nvar)
        return;
    for (uint32_t i = 0; i < nvar; i++)
        entries *= nvar <= MAX_SCOPE ? f->size.at[var[i]] : 1;
    for (uint32_t i = 0; i < nvar && nvar > MAX_SCOPE; i++) {        /* each by itself: only as it is */
        double *cost = NEW_ARRAY(f->arena, double, f->size.at[var[i]]);
        for (uint32_t c = 1; c < f->size.at[var[i]]; c++)
            cost[c] = INFINITY;
        VEC_PUSH(f->arena, &f->factor, ((FormatFactor){ 1, &var[i], cost }));
    }
    if (nvar > MAX_SCOPE)
        return;
    double *cost = NEW_ARRAY(f->arena, double, entries);
    const bool *tied = tied_inputs(f, n, nvar);
    for (; at < entries; at++) {
        uint64_t rest = at;
        for (uint32_t i = nvar; i-- > 0; rest /= f->size.at[var[i]])
            choice[var[i]] = (uint32_t)(rest % f->size.at[var[i]]);
        cost[at] = is_allowed(f, n, tied, choice) ? price_under(f, n, choice) : INFINITY;
    }
    VEC_PUSH(f->arena, &f->factor, ((FormatFactor){ nvar, var, cost }));
}

/* ---- carrying it out --------------------------------------------------------------------------------------- */

static bool
apply(Formats *f, const uint32_t *choice)
{
    for (NodeId n = 1; n < f->g->node.n; n++) {
        Node *node = &f->g->node.at[n];
        bool any = false;
        for (uint32_t b = 0; f->can[n] && b < node->kernel->nin + node->kernel->nout; b++)
            any |= order_under(f, argument(f, n, b), choice) != NULL;
        if (any && !(node->kernel = kernel_permute(f->ctx, f->g->arena, node->kernel, orders_under(f, n, choice))))
            return false;
    }
    for (uint32_t i = 0; i < f->value.n; i++) {
        const Order *o = order_under(f, f->value.at[i], choice);
        Value *v = &f->g->value.at[f->value.at[i]];
        v->type = o ? type_permuted(f->ctx, v->type, o->dim) : v->type;
    }
    return true;
}

static void
remark(const Formats *f, const uint32_t *choice, double cost, double plain, Text *t)
{
    uint32_t changed = 0;

    for (uint32_t i = 0; i < f->value.n; i++)
        changed += choice[i] != 0;
    text_printf(t, "; %u of %u values lie in another order than the model's: %.4g ms of kernels instead of %.4g ms\n", changed, f->value.n, cost * 1e3,
                plain * 1e3);
    for (uint32_t i = 0; i < f->value.n; i++) {
        const Order *o = order_under(f, f->value.at[i], choice);
        if (!o)
            continue;
        text_add(t, "; %");
        text_name(t, f->g->value.at[f->value.at[i]].name);
        text_add(t, ":");
        for (uint32_t d = 0; d < o->rank; d++)
            text_printf(t, " %u", o->dim[d]);
        text_add(t, "\n");
    }
}

static double
cost_of_plain(const Formats *f)
{
    double sum = 0;

    for (uint32_t i = 0; i < f->factor.n; i++)
        sum += f->factor.at[i].cost[0];
    return sum;
}

bool
format_values(Graph *g, Arena *a, const FormatPrice *price, Text *remarks)
{
    Arena *scratch = arena_child(a);
    Formats f = { .g = g, .ctx = g->ctx, .arena = scratch, .price = price, .users = graph_users(g, scratch),
                  .can = NEW_ARRAY(scratch, bool, g->node.n), .var = NEW_ARRAY(scratch, uint32_t, g->value.n) };
    double cost;
    bool ok = true;

    for (NodeId n = 1; n < g->node.n; n++)
        if ((f.can[n] = may_change(g, n)))
            propose_of(&f, n);
    make_variables(&f);
    if (f.value.n) {
        uint32_t *choice = NEW_ARRAY(scratch, uint32_t, f.value.n);
        for (NodeId n = 1; n < g->node.n; n++)
            if (f.can[n])
                make_factor(&f, n, choice);
        FormatProblem p = { f.value.n, f.size.at, f.factor.n, f.factor.at };
        memset(choice, 0, f.value.n * sizeof *choice);
        if (!format_search(scratch, &p, choice, &cost)) {
            text_printf(remarks, "; formats: tables of more than %u entries; all values lie as the model says\n", FORMAT_MAX_TABLE);
        } else if (isfinite(cost)) {
            remark(&f, choice, cost, cost_of_plain(&f), remarks);
            ok = apply(&f, choice);
        }
    }
    arena_free(scratch);
    return ok;
}
