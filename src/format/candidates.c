/* candidates: find which values can have another order of dimensions, and which orders.
 *
 * A matrix multiplication with a constant operand can choose along which dimension its columns are
 * stored, since the constant can always be packed to match. So the axes of the constant are
 * proposed as innermost for what the kernel writes, and the summed axes for what it reads; for a
 * depthwise convolution, whose constant has no axis of its own, the channels. The orders that most
 * kernels propose are candidates for every value of that rank.
 */
#include "format/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- who may --------------------------------------------------------------------------------- */

bool
format_may_change(const Graph *g, NodeId n)
{
    const Kernel *k = g->node.at[n].callee == CALL_KERNEL ? g->node.at[n].kernel : NULL;

    if (!k || k->tree.list.n || k->schedule)
        return false;
    for (uint32_t p = 0; p < k->npart; p++) {
        const Nest *nest = k->part[p].nest;
        if (nest->nwrite != 1 || nest->write[0].combiner != COMB_NONE ||
            nest_axes_of_kind(nest, AXIS_SCAN))
            return false;
    }
    return k->npart > 0;
}

static const char *
why_not(const Formats *f, NodeId n)
{
    const Node *node = &f->g->node.at[n];
    const Kernel *k = node->callee == CALL_KERNEL ? node->kernel : NULL;

    if (f->can[n])
        return NULL;
    if (!k)
        return "made or read by an operator that is no loop";
    if (k->tree.list.n || k->schedule)
        return "made or read by a kernel that has a schedule already";
    return "made or read by a kernel that walks an axis in order, or writes where data say";
}

/* Does a kernel see the value in its own dimensions? One that writes at digits of axes has a
 * dimension for each axis. */
static bool
sees_as_it_is(const Formats *f, NodeId n, ValueId v)
{
    const Kernel *k = f->g->node.at[n].kernel;

    for (uint32_t b = 0; b < k->nin + k->nout; b++)
        if (format_argument(f, n, b) == v && k->buffer.at[b].type != f->g->value.at[v].type)
            return false;
    return true;
}

const char *
format_fixed(const Formats *f, ValueId v)
{
    const Value *value = &f->g->value.at[v];
    uint32_t first = f->users.first[v], end = f->users.first[v + 1];

    if (value->data)
        return "a constant: schedules pack it as they read it";
    if (!value->def)
        return "an input of the model: --io-format sets its order";
    for (uint32_t i = 0; i < f->g->output.n; i++)
        if (f->g->output.at[i] == v)
            return "an output of the model: --io-format sets its order";
    const char *why = why_not(f, value->def);
    for (uint32_t i = first; i < end && !why; i++)
        why = why_not(f, f->users.node[i]);
    bool same = why || sees_as_it_is(f, value->def, v);
    for (uint32_t i = first; i < end && same && !why; i++)
        same = sees_as_it_is(f, f->users.node[i], v);
    if (!same)
        return "made or read by a kernel that sees it in other dimensions, as after a reshape";
    return why ? why : end == first ? "not read" : NULL;
}

/* ---- what products propose ------------------------------------------------------------------- */

/* The order with the dimensions that use an axis of the set innermost. */
static FormatOrder
order_with_last(uint32_t rank, const Expr *const *at, AxisSet last)
{
    FormatOrder o = { .rank = (uint8_t)rank };
    uint32_t n = 0;

    for (int behind = 0; behind < 2; behind++)
        for (uint32_t d = 0; d < rank; d++)
            if ((int)((expr_axes(at[d]) & last) != 0) == behind)
                o.dim[n++] = (uint8_t)d;
    return o;
}

typedef struct {
    const Kernel *k;
    const Part *part;
    const bool *constant;
} InputsKnown;

static bool
is_known(void *user, uint32_t slot)
{
    const InputsKnown *n = user;
    uint32_t buffer = n->part->buffer[slot];
    return buffer < n->k->nin && n->constant[buffer];
}

/* The proposals of one stage that is a contraction with a constant. */
static uint32_t
proposals_of(Ctx *c, const Kernel *k, const Part *part, const bool *constant, FormatOrder *out)
{
    const Write *w = &part->nest->write[0];
    InputsKnown known = { k, part, constant };
    Contraction view;
    uint32_t n = 0;

    if (!nest_contraction(c, part->nest, &view))
        return 0;
    bool a = nest_constant_read(c, view.a, is_known, &known) != NULL,
         b = nest_constant_read(c, view.b, is_known, &known) != NULL;
    if (a == b)
        return 0;
    const Scalar *moving = a ? view.b : view.a;
    AxisSet bare = 0, lanes = a ? view.row : view.col;

    /* a depthwise convolution: each channel is a sum of its own */
    if (!lanes)
        lanes = bare = view.batch & (a ? view.a : view.b)->axes;
    out[n++] = order_with_last(part->nest->param[w->out].type->rank, w->at, lanes);
    for (uint32_t d = 0; moving->op == S_LOAD && d < moving->u.load.rank; d++)
        bare |= view.sum & axis_bit(moving->u.load.at[d]);
    if (moving->op == S_LOAD)
        out[n++] = order_with_last(moving->u.load.rank, moving->u.load.at, bare);
    return n;
}

static bool
is_order(const FormatOrder *o, uint32_t rank, const uint8_t *dim)
{
    return o->rank == rank && !memcmp(o->dim, dim, rank);
}

uint32_t
format_proposals(Ctx *c, const Kernel *k, const bool *constant, FormatOrder *out)
{
    const Nest *first = k->part[0].nest;
    bool beside = kernel_has_independent_parts(k);
    FormatOrder own[2];
    uint32_t n = 0;

    if (!beside &&
        (k->npart > 2 || (k->npart == 2 && k->buffer.at[k->nin].type->rank !=
                                               first->param[first->write[0].out].type->rank)))
        return 0;
    for (uint32_t p = 0; p < (beside ? k->npart : 1); p++)
        for (uint32_t i = 0, count = proposals_of(c, k, &k->part[p], constant, own); i < count;
             i++) {
            bool listed = n == FORMAT_PROPOSALS;
            for (uint32_t j = 0; j < n && !listed; j++)
                listed = is_order(&out[j], own[i].rank, own[i].dim);
            if (!listed)
                out[n++] = own[i];
        }
    return n;
}

/* The order of these dimensions among those proposed or given so far. */
static Proposal *
proposal(Formats *f, uint32_t rank, const uint8_t *dim)
{
    for (uint32_t i = 0; i < f->order.n; i++)
        if (f->order.at[i].rank == rank && !memcmp(f->order.at[i].dim, dim, rank))
            return &f->order.at[i];
    VEC_PUSH(f->arena, &f->order, ((Proposal){ rank, arena_copy(f->arena, dim, rank), 0 }));
    return &f->order.at[f->order.n - 1];
}

static void
propose_of(Formats *f, NodeId n)
{
    const Node *node = &f->g->node.at[n];
    const bool *constant =
        data_is_known(f->arena, graph_inputs_data(f->g, f->arena, node), node->in.count);
    FormatOrder order[FORMAT_PROPOSALS];

    for (uint32_t i = 0, count = format_proposals(f->ctx, node->kernel, constant, order); i < count;
         i++)
        if (!order_is_plain(order[i].rank, order[i].dim))
            proposal(f, order[i].rank, order[i].dim)->votes++;
}

static bool
is_before(const Proposal *a, const Proposal *b)
{
    return a->votes != b->votes ? a->votes > b->votes : memcmp(a->dim, b->dim, a->rank) < 0;
}

/* The candidates of a type beside the plain order, the most proposed first; their number. Orders
 * that are equal in memory count once. */
static uint32_t
orders_of(const Formats *f, const Type *t, const uint8_t **list)
{
    const Proposal *best[MAX_ORDERS];
    uint32_t n = 0, kept = 0, rank = t->rank;

    for (uint32_t i = 0; i < f->order.n; i++) {
        const Proposal *o = &f->order.at[i];
        uint32_t at = n;
        if (o->rank != rank || !o->votes)
            continue;
        while (at > 0 && is_before(o, best[at - 1]))
            at--;
        if (at == MAX_ORDERS)
            continue;
        n += n < MAX_ORDERS;
        for (uint32_t k = n - 1; k > at; k--)
            best[k] = best[k - 1];
        best[at] = o;
    }
    for (uint32_t i = 0; i < n; i++) {
        bool same = format_same_memory(t, NULL, best[i]->dim);
        for (uint32_t k = 0; k < kept; k++)
            same |= format_same_memory(t, list[k], best[i]->dim);
        if (!same)
            list[kept++] = best[i]->dim;
    }
    return kept;
}

/* ---- variables ------------------------------------------------------------------------------- */

/* The order that a format is; NULL: it is no order. */
static const uint8_t *
order_of_format(Arena *a, const Format *f, uint32_t rank)
{
    uint8_t *order = NEW_ARRAY(a, uint8_t, TN_MAX_RANK);
    uint32_t seen = 0;

    for (uint32_t p = 0; p < f->npart && f->npart == rank; p++) {
        if (f->part[p].div != 1 || f->part[p].mod || f->part[p].dim >= rank)
            return NULL;
        order[p] = f->part[p].dim;
        seen |= 1u << order[p];
    }
    return f->npart == rank && seen == (1u << rank) - 1 ? order : NULL;
}

/* The order that the user gave value v, or NULL. False with a diagnostic. */
static bool
pinned_order(Formats *f, ValueId v, const uint8_t **order)
{
    Value *value = &f->g->value.at[v];

    *order = NULL;
    if (value->format && !value->data &&
        !(*order = order_of_format(f->arena, value->format, value->type->rank)))
        return diag_error(
            &f->ctx->diags, DIAG_USAGE, (Loc){ 0 },
            "%%%s is to have a format that is no order of its %u dimensions; values can "
            "have formats such as [0, 2, 3, 1], constants others too",
            value->name, value->type->rank);
    for (uint32_t i = 0; i < f->request->npin; i++)
        if (!strcmp(f->request->pin[i].value, value->name))
            *order = f->request->pin[i].order;
    return true;
}

/* The choice with dimension 1 innermost; 0: no kernel proposes it, or it equals the model's order
 * in memory. */
static uint32_t
channels_last(const Formats *f, const Type *t, const Variable *x)
{
    uint8_t *order = NEW_ARRAY(f->arena, uint8_t, TN_MAX_RANK);
    uint32_t n = 0, c = 0;

    for (uint8_t d = 0; d < t->rank; d++)
        if (d != 1)
            order[n++] = d;
    order[n] = 1;
    while (c < x->n && !format_same_memory(t, x->order[c], order))
        c++;
    return c < x->n ? c : 0;
}

/* Does the kernel have stages that share rows? Contractions side by side count as kernels of their
 * own. */
static bool
has_parts(const Formats *f, NodeId n)
{
    const Kernel *k = f->g->node.at[n].kernel;
    return k->npart > 1 && !kernel_has_independent_parts(k);
}

/* Does a kernel of several stages make or read the value? Such kernels have schedules for some
 * orders only. */
static bool
meets_parts(const Formats *f, ValueId v)
{
    bool several = has_parts(f, f->g->value.at[v].def);

    for (uint32_t i = f->users.first[v]; i < f->users.first[v + 1]; i++)
        several |= has_parts(f, f->users.node[i]);
    return several;
}

static void
add_variable(Formats *f, ValueId v, const uint8_t *pin)
{
    const Type *t = f->g->value.at[v].type;
    Variable x = { .value = v, .name = f->g->value.at[v].name, .n = 1 };

    if (pin) {
        x.order[0] = order_is_plain(t->rank, pin) ? NULL : proposal(f, t->rank, pin)->dim;
        x.pinned = true;
    } else if (f->request->how != FORMAT_NONE) {
        x.n += orders_of(f, t, x.order + 1);
        x.last = t->rank > 1 ? channels_last(f, t, &x) : 0;
        x.parts = meets_parts(f, v);
    }
    if (x.n > 1 || x.order[0])
        VEC_PUSH(f->arena, &f->variable, x);
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(((const Variable *)a)->name, ((const Variable *)b)->name);
}

/* Numbers variables by name, so that the result does not depend on node numbers. */
static void
number_variables(Formats *f)
{
    if (f->variable.n)
        qsort(f->variable.at, f->variable.n, sizeof *f->variable.at, by_name);
    f->nvar = f->variable.n;
    f->size = NEW_ARRAY(f->arena, uint32_t, f->nvar + 1);
    for (uint32_t i = 0; i < f->nvar; i++) {
        f->var[f->variable.at[i].value] = i + 1;
        f->size[i] = f->variable.at[i].n;
    }
}

bool
format_candidates(Formats *f)
{
    for (NodeId n = 1; n < f->g->node.n; n++)
        if ((f->can[n] = format_may_change(f->g, n)))
            propose_of(f, n);
    for (ValueId v = 1; v < f->g->value.n; v++) {
        const char *why = format_fixed(f, v);
        const uint8_t *pin;
        if (!pinned_order(f, v, &pin))
            return false;
        if (why && pin)
            return diag_error(&f->ctx->diags, DIAG_USAGE, (Loc){ 0 },
                              "--format %s: its order is fixed, the value is %s",
                              f->g->value.at[v].name, why);
        if (!why)
            add_variable(f, v, pin);
        if (!f->g->value.at[v].data)
            f->g->value.at[v].format = NULL;
    }
    number_variables(f);
    return true;
}
