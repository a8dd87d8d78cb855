/* candidates: which values may lie in another order, and in which ones.
 *
 * A product's free choice is along which dimension its columns lie: the one whose partner is a
 * constant can always be laid for it, so the axes of constants are proposed to be innermost where
 * products write, and those that are summed where they read; of a depthwise convolution, whose
 * constant has no axis to itself, the channels. Every order that some product proposes is a
 * candidate for every value of its rank.
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

/* Does a kernel see the value in its own dimensions? One that writes at digits of axes sees a
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
        return "a constant: schedules lay those as they read them";
    if (!value->def)
        return "an input of the model: --io-format says how it lies";
    for (uint32_t i = 0; i < f->g->output.n; i++)
        if (f->g->output.at[i] == v)
            return "an output of the model: --io-format says how it lies";
    const char *why = why_not(f, value->def);
    for (uint32_t i = first; i < end && !why; i++)
        why = why_not(f, f->users.node[i]);
    bool same = why || sees_as_it_is(f, value->def, v);
    for (uint32_t i = first; i < end && same && !why; i++)
        same = sees_as_it_is(f, f->users.node[i], v);
    if (!same)
        return "made or read by a kernel that sees it in other dimensions, as after a reshape";
    return why ? why : end == first ? "read by nobody" : NULL;
}

/* ---- what products propose ------------------------------------------------------------------- */

/* The dimensions that name an axis of the set, behind the others. */
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

/* Of one part which is a product with a constant. */
static uint32_t
proposals_of(Ctx *c, const Kernel *k, const Part *part, const bool *constant, FormatOrder *out)
{
    const Write *w = &part->nest->write[0];
    InputsKnown known = { k, part, constant };
    Contraction view;
    uint32_t n = 0;
    Var v;

    if (!nest_contraction(c, part->nest, &view))
        return 0;
    bool a = nest_constant_read(c, view.a, is_known, &known) != NULL,
         b = nest_constant_read(c, view.b, is_known, &known) != NULL;
    if (a == b)
        return 0;
    const Scalar *moving = a ? view.b : view.a;
    AxisSet bare = 0, lanes = a ? view.row : view.col;

    /* a depthwise convolution: its channels are whole sums, one beside the other */
    if (!lanes)
        lanes = bare = view.batch & scalar_axes(c, a ? view.a : view.b);
    out[n++] = order_with_last(part->nest->param[w->out].type->rank, w->at, lanes);
    for (uint32_t d = 0; moving->op == S_LOAD && d < moving->u.load.rank; d++)
        if (expr_is_var(moving->u.load.at[d], &v) && v.kind == VAR_AXIS && view.sum >> v.id & 1)
            bare |= (AxisSet)1 << v.id;
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
    bool beside = kernel_is_beside(k);
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

static void
vote(Formats *f, const FormatOrder *order)
{
    if (order_is_plain(order->rank, order->dim))
        return;
    for (uint32_t i = 0; i < f->order.n; i++)
        if (is_order(order, f->order.at[i].rank, f->order.at[i].dim)) {
            f->order.at[i].votes++;
            return;
        }
    Order o = { .rank = order->rank, .votes = 1 };
    memcpy(o.dim, order->dim, sizeof o.dim);
    VEC_PUSH(f->arena, &f->order, o);
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
        vote(f, &order[i]);
}

static bool
is_before(const Order *a, const Order *b)
{
    return a->votes != b->votes ? a->votes > b->votes : memcmp(a->dim, b->dim, a->rank) < 0;
}

/* The candidates of a type beside the plain one, the most wanted first; the number of them. An
 * order that is the same in memory as one before it is none. */
static uint32_t
orders_of(const Formats *f, const Type *t, const Layout **list)
{
    const Order *best[MAX_ORDERS];
    uint32_t n = 0, kept = 0, rank = t->rank;

    for (uint32_t i = 0; i < f->order.n; i++) {
        const Order *o = &f->order.at[i];
        uint32_t at = n;
        if (o->rank != rank)
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
        const Layout *l = layout_of_order(f->arena, rank, best[i]->dim);
        bool same = format_same_memory(t, NULL, l);
        for (uint32_t k = 0; k < kept; k++)
            same |= format_same_memory(t, list[k], l);
        if (!same)
            list[kept++] = l;
    }
    return kept;
}

/* ---- variables ------------------------------------------------------------------------------- */

static double
number_of(const Scalar *constant)
{
    double v;

    if (!dtype_is_float(constant->dtype))
        return (double)constant->u.bits;
    memcpy(&v, &constant->u.bits, sizeof v);
    return v;
}

/* What reads of a value say is beyond it, where they say it is a number, and how far beyond they
 * reach. */
typedef struct {
    bool said;
    double fill;
    int64_t before[TN_MAX_RANK], after[TN_MAX_RANK];
} Beyond;

static void
reach(const Formats *f, const Nest *n, const Scalar *load, Arena *scratch, Beyond *b)
{
    Ranges ranges = nest_ranges(f->ctx, scratch, n);
    const Type *t = n->param[load->u.load.slot].type;

    for (uint32_t d = 0; d < t->rank; d++) {
        int64_t before = expr_bounds(f->ctx, &ranges, load->u.load.at[d]).lo;
        const Expr *over =
            expr_simplify(f->ctx, &ranges,
                          expr_sub(f->ctx, load->u.load.at[d], expr_offset(f->ctx, t->dim[d], -1)));
        int64_t after = expr_bounds(f->ctx, &ranges, over).hi;
        before = before < 0 && before >= -MOST_ROOM ? -before : 0;
        after = after > 0 && after <= MOST_ROOM ? after : 0;
        b->before[d] = before > b->before[d] ? before : b->before[d];
        b->after[d] = after > b->after[d] ? after : b->after[d];
    }
}

/* The first who reads it says what; who says the same is heard about how far. */
static Beyond
beyond(const Formats *f, ValueId v)
{
    Arena *scratch = arena_child(f->arena);
    Beyond b = { 0 };

    for (uint32_t i = f->users.first[v]; i < f->users.first[v + 1]; i++) {
        NodeId n = f->users.node[i];
        const Kernel *k = f->g->node.at[n].kernel;
        for (uint32_t p = 0; p < k->npart; p++) {
            Accesses reads = nest_accesses(f->ctx, scratch, k->part[p].nest);
            for (uint32_t r = 0; r < reads.n; r++) {
                const Scalar *load = reads.at[r].load, *outside = load->u.load.outside;
                uint32_t buffer = k->part[p].buffer[load->u.load.slot];
                if (buffer >= k->nin || format_argument(f, n, buffer) != v || !outside ||
                    outside->op != S_CONST)
                    continue;
                if (!b.said)
                    b.fill = number_of(outside);
                b.said = true;
                if (b.fill == number_of(outside))
                    reach(f, k->part[p].nest, load, scratch, &b);
            }
        }
    }
    arena_free(scratch);
    return b;
}

/* How somebody said value v is to lie, or NULL. False with a diagnostic. */
static bool
pinned_layout(Formats *f, ValueId v, const Layout **layout)
{
    Value *value = &f->g->value.at[v];
    uint32_t rank = value->type->rank;
    Layout *own = NEW(f->arena, Layout);

    *layout = NULL;
    if (value->format && !value->data) {
        *own = (Layout){ .format = *value->format, .rank = (uint8_t)rank };
        if (value->format->npart > TN_MAX_RANK || !format_tiles(value->format, rank))
            return diag_error(&f->ctx->diags, DIAG_USAGE, (Loc){ 0 },
                              "%%%s is to lie in a format that does not have each of its "
                              "dimensions once; values can "
                              "lie in formats such as [0, 2, 3, 1] or [0, 1/16, 2, 3, 1%%16], of "
                              "at most %d parts",
                              value->name, TN_MAX_RANK);
        *layout = own;
    }
    for (uint32_t i = 0; i < f->wish->npin; i++)
        if (!strcmp(f->wish->pin[i].value, value->name)) {
            *own = *f->wish->pin[i].layout;
            *layout = own;
        }
    const Type *type = *layout ? layout_type(f->ctx, *layout, value->type) : value->type;
    if (*layout && !type_fits(f->ctx, type))
        return diag_error(&f->ctx->diags, DIAG_USAGE, (Loc){ 0 },
                          "--format %s: lying so it is %s, more than any process can hold; give "
                          "smaller blocks and less room",
                          value->name, type_str(f->ctx, type));
    return true;
}

/* Which of a value's choices has dimension 1 behind all others; 0: nobody proposes that, or it is
 * the same in memory as the model says. */
static uint32_t
channels_last(const Formats *f, const Type *t, const Variable *x)
{
    uint8_t *order = NEW_ARRAY(f->arena, uint8_t, TN_MAX_RANK);
    uint32_t n = 0, c = 0;

    for (uint8_t d = 0; d < t->rank; d++)
        if (d != 1)
            order[n++] = d;
    order[n] = 1;
    const Layout *last = layout_of_order(f->arena, t->rank, order);
    while (c < x->n && !format_same_memory(t, x->layout[c], last))
        c++;
    return c < x->n ? c : 0;
}

/* The order with as much room around it as its readers reach. */
static const Layout *
with_room(const Formats *f, uint32_t rank, const Layout *order, const Beyond *b)
{
    static const uint8_t plain[TN_MAX_RANK] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    Layout *l = NEW(f->arena, Layout);

    *l = order ? *order : *layout_of_order(f->arena, rank, plain);
    memcpy(l->before, b->before, sizeof l->before);
    memcpy(l->after, b->after, sizeof l->after);
    l->fill = b->fill;
    return l;
}

/* of what lies in blocks: a batch, channels, and a place at least */
enum { LEAST_RANK = 3 };

/* As the model says, with dimension 1 in blocks of a vector; NULL: a vector does not divide it. */
static const Layout *
in_blocks(const Formats *f, const Type *t)
{
    uint32_t block = f->wish->block;
    FormatPart *part = NEW_ARRAY(f->arena, FormatPart, TN_MAX_RANK);
    Layout *l = NEW(f->arena, Layout);

    if (t->rank < LEAST_RANK || t->rank == TN_MAX_RANK || block < 2 ||
        expr_divisible(f->ctx, NULL, t->dim[1], block) != YES)
        return NULL;
    for (uint8_t d = 0; d < t->rank; d++)
        part[d] = (FormatPart){ d, d == 1 ? block : 1, 0 };
    part[t->rank] = (FormatPart){ 1, 1, block };
    *l = (Layout){ .rank = t->rank, .format = { t->rank + 1u, part } };
    return l;
}

/* By how many points the windows over a value, or who leaves some out, go on in each dimension,
 * where all who read it go on by as many; 1: by one, or not alike. */
static void
find_steps(const Formats *f, ValueId v, int64_t *step)
{
    Arena *scratch = arena_child(f->arena);
    const Expr *coef, *rest;
    int64_t by;

    memset(step, 0, TN_MAX_RANK * sizeof *step);
    for (uint32_t i = f->users.first[v]; i < f->users.first[v + 1]; i++) {
        NodeId n = f->users.node[i];
        const Kernel *k = f->g->node.at[n].kernel;
        for (uint32_t p = 0; p < k->npart; p++) {
            const Nest *nest = k->part[p].nest;
            Accesses reads = nest_accesses(f->ctx, scratch, nest);
            for (uint32_t r = 0; r < reads.n; r++) {
                const Scalar *load = reads.at[r].load;
                uint32_t buffer = k->part[p].buffer[load->u.load.slot];
                for (uint32_t d = 0;
                     buffer < k->nin && format_argument(f, n, buffer) == v && d < load->u.load.rank;
                     d++)
                    for (uint32_t x = 0; x < nest->naxis; x++) {
                        if (nest->axis[x].kind != AXIS_PARALLEL ||
                            !(expr_axes(load->u.load.at[d]) >> x & 1))
                            continue;
                        bool known = expr_linear(f->ctx, load->u.load.at[d], (Var){ VAR_AXIS, x },
                                                 &coef, &rest) &&
                                     expr_const(coef, &by) && by > 0;
                        step[d] = known && (!step[d] || step[d] == by) ? by : 1;
                    }
            }
        }
    }
    for (uint32_t d = 0; d < TN_MAX_RANK; d++)
        step[d] = step[d] > 1 && step[d] <= MOST_PHASES ? step[d] : 1;
    arena_free(scratch);
}

/* The order with the phases of its steps in front of the first dimension that has some: what a
 * window reads at one of its points then lies together. NULL: too many parts, or no dimension has
 * steps. */
static const Layout *
in_phases(const Formats *f, uint32_t rank, const Layout *order, const int64_t *step)
{
    FormatPart *part = NEW_ARRAY(f->arena, FormatPart, TN_MAX_RANK);
    Layout *l = NEW(f->arena, Layout);
    uint32_t n = 0, phases = 0;
    bool phased = false;

    for (uint32_t d = 0; d < rank; d++)
        phases += step[d] > 1;
    if (!phases || rank + phases > TN_MAX_RANK)
        return NULL;
    for (uint32_t i = 0; i < rank; i++) {
        uint8_t d = order ? order->format.part[i].dim : (uint8_t)i;
        for (uint8_t q = 0; !phased && step[d] > 1 && q < rank; q++)
            if (step[q] > 1)
                part[n++] = (FormatPart){ q, 1, (uint32_t)step[q] };
        phased |= step[d] > 1;
        part[n++] = (FormatPart){ d, (uint32_t)step[d], 0 };
    }
    *l = (Layout){ .rank = (uint8_t)rank, .format = { n, part } };
    return l;
}

static void
add_layouts(const Formats *f, ValueId v, Variable *x)
{
    const Type *t = f->g->value.at[v].type;
    Beyond b = beyond(f, v);
    const Layout *blocks = in_blocks(f, t);
    bool reaches = false;

    for (uint32_t d = 0; d < t->rank; d++)
        reaches |= b.before[d] || b.after[d];
    const uint32_t orders = x->n;
    int64_t step[TN_MAX_RANK];
    find_steps(f, v, step);
    for (uint32_t i = 0; reaches && i < orders; i++)
        x->layout[x->n++] = with_room(f, t->rank, x->layout[i], &b);
    for (uint32_t i = 0; i < orders; i++)
        if ((x->layout[x->n] = in_phases(f, t->rank, x->layout[i], step)))
            x->n++;
    bool other = blocks != NULL;
    for (uint32_t i = 0; i < x->n && other; i++)
        other = !format_same_memory(t, x->layout[i], blocks);
    if (other)
        x->layout[x->n++] = blocks;
}

/* Parts that share their rows: products side by side are as if they were alone. */
static bool
has_parts(const Formats *f, NodeId n)
{
    const Kernel *k = f->g->node.at[n].kernel;
    return k->npart > 1 && !kernel_is_beside(k);
}

/* Does a kernel of several parts make or read it? What is fused so has programs for some orders
 * alone. */
static bool
meets_parts(const Formats *f, ValueId v)
{
    bool several = has_parts(f, f->g->value.at[v].def);

    for (uint32_t i = f->users.first[v]; i < f->users.first[v + 1]; i++)
        several |= has_parts(f, f->users.node[i]);
    return several;
}

static void
add_variable(Formats *f, ValueId v, const Layout *pin)
{
    const Type *t = f->g->value.at[v].type;
    Variable x = { .value = v, .name = f->g->value.at[v].name, .n = 1, .orders = 1 };

    if (pin) {
        Layout *filled = arena_copy(f->arena, pin, sizeof *pin);
        filled->fill = beyond(f, v).fill;
        x.layout[0] = layout_is_plain(pin) ? NULL : filled;
        x.pinned = true;
    } else if (f->wish->how == FORMAT_BLOCKS) {
        const Layout *blocks = in_blocks(f, t);
        if (blocks && !format_same_memory(t, NULL, blocks))
            x.layout[x.blocks = x.n++] = blocks;
        x.parts = meets_parts(f, v);
    } else if (f->wish->how != FORMAT_NONE && f->wish->how != FORMAT_CHANNELS_FIRST) {
        x.n += orders_of(f, t, x.layout + 1);
        x.last = t->rank > 1 ? channels_last(f, t, &x) : 0;
        x.parts = meets_parts(f, v);
        x.orders = x.n;
        if (f->wish->how == FORMAT_LAYOUTS)
            add_layouts(f, v, &x);
    }
    if (x.n > 1 || x.layout[0])
        VEC_PUSH(f->arena, &f->variable, x);
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(((const Variable *)a)->name, ((const Variable *)b)->name);
}

/* In the order of names, which is the same however the nodes are numbered. */
static void
number_variables(Formats *f)
{
    if (f->variable.n)
        qsort(f->variable.at, f->variable.n, sizeof *f->variable.at, by_name);
    for (uint32_t i = 0; i < f->variable.n; i++)
        f->var[f->variable.at[i].value] = i + 1;
}

bool
format_candidates(Formats *f)
{
    for (NodeId n = 1; n < f->g->node.n; n++)
        if ((f->can[n] = format_may_change(f->g, n)))
            propose_of(f, n);
    for (ValueId v = 1; v < f->g->value.n; v++) {
        const char *why = format_fixed(f, v);
        const Layout *pin;
        if (!pinned_layout(f, v, &pin))
            return false;
        if (why && pin)
            return diag_error(&f->ctx->diags, DIAG_USAGE, (Loc){ 0 },
                              "--format %s: it lies as it does, the value is %s",
                              f->g->value.at[v].name, why);
        if (!why)
            add_variable(f, v, pin);
        if (!f->g->value.at[v].data)
            f->g->value.at[v].format = NULL;
    }
    number_variables(f);
    format_copies(f);
    return true;
}
