/* normalise: contractions in plain form, constants computed; see normalise.h. */
#include "algebra/algebra.h"
#include "normalise/normalise.h"

#include "nest/walk.h"
#include "ref/ref.h"

#include <string.h>

/* Points that a nest of constants may visit for each byte of its result: a layout visits one for
 * each element, a Winograd transform of a filter some dozens. A sum may visit each bit that it
 * reads once. Bounds work: a nest that would visit more is computed at run time. */
enum {
    POINTS_PER_BYTE = 64,
    BYTE_BITS = 8,
    /* of a constant in an arena of its own, which may be freed before the others */
    OWN_BYTES = 1 << 20,
    /* instructions of a read that is converted: the load and the conversion */
    WIDENING_CODE = 2
};

/* A value of the old graph that is inlined where it is read: of constants, inputs of the nest,
 * values of the new graph. */
typedef struct {
    const Node *node;
    const Nest *nest;
    const ValueId *in;
} Wide;

typedef struct {
    Ctx *ctx;
    Graph *to;
    ValueId *map; /* of values of the old graph; 0 if wide */
    /* of values of the old graph, by nodes that are not computed yet */
    uint32_t *uses;
    /* values of the new graph to the arenas of their contents */
    Map own;
    Wide *wide; /* [from->value.n]; nest NULL: not wide */
    int64_t max_bytes;
    DotSteps dots;
    int64_t worth;    /* operations that are worth a thread */
    uint32_t threads; /* that compute constants */
    const Node *node; /* the node of the old graph */
    ValueId *value;   /* of the nest's parameters, in the new one */
    const Nest *nest;
} Normal;

/* ---- asking ---------------------------------------------------------------------------------- */

static bool
is_constant(const Normal *m, const Scalar *s)
{
    return s->op == S_LOAD && s->u.load.slot < m->nest->nin &&
           m->to->value.at[m->value[s->u.load.slot]].data;
}

/* The read of a constant, perhaps widened there; NULL: none. */
static const Scalar *
constant_read(const Normal *m, const Scalar *s)
{
    while (s->op == S_CAST)
        s = s->arg[0];
    return is_constant(m, s) ? s : NULL;
}

/* The coefficient of an axis in an index, 0 if it is not a number. */
static int64_t
step_of(Ctx *c, const Expr *e, uint32_t axis)
{
    const Expr *coef, *rest;

    return expr_linear(c, e, (Var){ VAR_AXIS, axis }, &coef, &rest) ? expr_or(coef, 0) : 0;
}

/* Is each index a sum of forward steps along axes, each axis in one index, all inside? */
static bool
is_plain_read(Ctx *c, const Nest *n, const Scalar *load)
{
    AxisSet seen = 0;

    if (load->u.load.outside)
        return false;
    for (uint32_t d = 0; d < load->u.load.rank; d++) {
        const Expr *e = load->u.load.at[d];
        AxisSet here = expr_axes(e);
        if (here & seen)
            return false;
        seen |= here;
        for (uint32_t k = 0; k < n->naxis; k++)
            if ((here >> k & 1) && step_of(c, e, k) <= 0)
                return false;
        if (e->nterm && !e->term[e->nterm - 1].nfactor) /* a shift */
            return false;
    }
    return true;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Sums along which the other operand is read backwards are reversed if one operand is constant: its
 * layout is free. */
static void
turn_sums(Normal *m, const Contraction *view)
{
    const Scalar *moving = constant_read(m, view->a)   ? view->b
                           : constant_read(m, view->b) ? view->a
                                                       : NULL;

    if (!moving || moving->op != S_LOAD)
        return;
    for (uint32_t k = 0; k < m->nest->naxis; k++) {
        bool back = false;
        for (uint32_t d = 0; d < moving->u.load.rank && (view->sum >> k & 1); d++)
            back = back || step_of(m->ctx, moving->u.load.at[d], k) < 0;
        if (back)
            m->nest = nest_reverse(m->ctx, m->nest, k);
    }
}

static ValueId
call_move(Normal *m, const Nest *move, ValueId from, ValueId to)
{
    graph_call_nest(m->to, move, m->node->loc, m->node->origin, &from, &to);
    return to;
}

/* The nest's numbers, computed now; 0 if they cannot be, or should not. */
static ValueId
compute(Normal *m, const Nest *n, const ValueId *in, const char *name)
{
    Ctx *c = m->ctx;
    const Type *t = n->param[n->nin].type;
    int64_t bytes, read = 0, one, points = 1, extent;
    Symbols none = { 0 };

    if (n->nout != 1 || !type_static_bytes(t, &bytes) || bytes > m->max_bytes)
        return 0;
    for (uint32_t i = 0; i < n->nin; i++)
        read += type_static_bytes(n->param[i].type, &one) ? one : 0;
    for (uint32_t k = 0; k < n->naxis; k++)
        if (!expr_const(n->axis[k].extent, &extent) || mul_overflows(points, extent, &points) ||
            (points / POINTS_PER_BYTE > bytes && points / BYTE_BITS > read))
            return 0;
    Tensor *tensor = NEW_ARRAY(c->arena, Tensor, n->nin + 1),
           **param = NEW_ARRAY(c->arena, Tensor *, n->nin + 1);
    for (uint32_t i = 0; i <= n->nin; i++) {
        param[i] = &tensor[i];
        if (i < n->nin &&
            (!m->to->value.at[in[i]].data ||
             !tensor_over(c, n->param[i].type, &none, m->to->value.at[in[i]].data, param[i])))
            return 0;
    }
    Arena *own = bytes < OWN_BYTES ? NULL : arena_child(m->to->arena);
    uint32_t ndiag = c->diags.list.n;
    DiagClass worst = c->diags.worst;
    if (tensor_of_type(c, own ? own : m->to->arena, t, &none, param[n->nin]) &&
        ref_nest_shared(c, n, &none, param, m->threads)) {
        ValueId v = graph_const(m->to, name, t, param[n->nin]->data);
        if (own)
            map_put(&m->own, v, MAP_PTR(own));
        return v;
    }
    arena_free(own);
    c->diags.list.n = ndiag; /* the run reports it, if it gets there */
    c->diags.worst = worst;
    return 0;
}

/* A constant operand, packed as the contraction walks it: axes of both sides, its own, sums. */
static void
pack_constant(Normal *m, const Scalar *load, const Contraction *view, AxisSet own)
{
    Ctx *c = m->ctx;
    uint32_t axis[NEST_MAX_AXES], rank = 0, slot = load->u.load.slot;
    AxisSet used = load->axes;
    const Nest *made;

    if (is_plain_read(c, m->nest, load) ||
        (load->u.load.outside && load->u.load.outside->op != S_CONST))
        return;
    rank += axis_list(used & view->batch, axis + rank);
    rank += axis_list(used & own, axis + rank);
    rank += axis_list(used & view->sum, axis + rank);
    const char *name = arena_printf(c->arena, "%s_relaid", m->to->value.at[m->value[slot]].name);
    const Nest *packed = nest_outline(c, m->nest, load, slot, axis, rank, name, &made);
    ValueId *in = arena_copy(c->arena, m->value, (m->nest->nin + 1) * sizeof *in);
    made = packed ? nest_drop_unused(c, made, in) : NULL;
    /* an index may be read from another tensor */
    if (!made || made->nin > 1)
        return;
    ValueId v = compute(m, made, in, name);
    /* too large: moving it in every run does not pay */
    if (!v)
        return;
    m->value[slot] = v;
    m->nest = packed;
}

/* Do columns and other axes share a dimension of the result? */
static bool
scatters_columns(const Nest *n, const Contraction *view)
{
    const Write *w = &n->write[0];

    for (uint32_t d = 0; d < n->param[w->out].type->rank; d++) {
        AxisSet here = expr_axes(w->at[d]);
        if ((here & view->col) && (here & ~view->col))
            return true;
    }
    return false;
}

/* The contraction as one block of columns for each phase, and the nest that moves them to their
 * places: its value is the contraction's own. Returns the value that the contraction makes. */
static ValueId
gather_columns(Normal *m, const Contraction *view, ValueId out)
{
    Ctx *c = m->ctx;
    const Nest *n = m->nest, *move = NULL;
    uint32_t axis[NEST_MAX_AXES], rank = 0;

    if (!scatters_columns(n, view))
        return out;
    rank += axis_list(view->batch, axis + rank);
    rank += axis_list(view->row, axis + rank);
    rank += axis_list(view->col, axis + rank);
    const Nest *phases = nest_output_along(c, n, axis, rank, &move);
    /* heads stand around rows, as where scores are made */
    if (!phases || !(phases = nest_axes_as_written(c, phases, 0)))
        return out;
    m->nest = phases;
    ValueId made =
        graph_value(m->to, arena_printf(c->arena, "%s_phases", m->to->value.at[out].name),
                    phases->param[phases->nin].type);
    m->value[n->nin] = made;
    graph_call_nest(m->to, phases, m->node->loc, m->node->origin, m->value, m->value + n->nin);
    call_move(m, move, made, out);
    return 0;
}

/* True if the calls have been made already. */
static bool
plain_product(Normal *m)
{
    Contraction view;

    if (m->nest->nwrite != 1 || m->nest->nout != 1 || !nest_contraction(m->ctx, m->nest, &view) ||
        !view.row || !view.col)
        return false;
    turn_sums(m, &view);
    if (!m->nest || !nest_contraction(m->ctx, m->nest, &view))
        return false;
    const Scalar *a = constant_read(m, view.a), *b = constant_read(m, view.b);
    if (a || b)
        pack_constant(m, a ? a : b, &view, a ? view.row : view.col);
    return nest_contraction(m->ctx, m->nest, &view) &&
           !gather_columns(m, &view, m->value[m->nest->nin]);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The number that all elements of an integer constant equal: zero points of each channel, for
 * example. */
static bool
is_one_number(const Value *v, int64_t *number)
{
    const DTypeInfo *t = &dtype_info[v->type->dtype];
    int64_t bytes;

    if (!v->data || v->format || !dtype_is_int(v->type->dtype) || t->bits < 8 ||
        !type_static_bytes(v->type, &bytes) || bytes < t->bytes ||
        memcmp(v->data, (const char *)v->data + t->bytes, (size_t)(bytes - t->bytes)))
        return false;
    *number = number_load(v->type->dtype, v->data, 0).i;
    return true;
}

typedef struct {
    uint32_t slot;
    int64_t number;
} OneNumber;

static const Scalar *
put_number(ScalarMap *m, const Scalar *load)
{
    const OneNumber *one = m->user;
    return load->u.load.slot == one->slot && !load->u.load.outside
               ? scalar_int(m->ctx, load->dtype, one->number)
               : load;
}

/* Reads of constants with equal elements become that number. */
static void
put_numbers(Normal *m)
{
    bool any = false;

    for (uint32_t i = 0; m->nest && i < m->nest->nin; i++) {
        OneNumber one = { i, 0 };
        if (!is_one_number(&m->to->value.at[m->value[i]], &one.number))
            continue;
        NestEdit e = nest_edit(m->ctx, m->nest, 0, 0);
        ScalarMap map = {
            .load = put_number, .user = &one, .ctx = m->ctx, .done = { .arena = e.scratch }
        };
        nest_edit_map(&e, &map);
        m->nest = nest_edit_done(m->ctx, &e);
        any = true;
    }
    if (any && m->nest)
        m->nest = nest_drop_unused(m->ctx, m->nest, m->value);
}

/* ---- pairs and quads ------------------------------------------------------------------------- */

static int64_t
stored_bytes(const Normal *m, uint32_t n, const ValueId *v)
{
    int64_t sum = 0, bytes;

    for (uint32_t i = 0; i < n; i++)
        if (!type_static_bytes(m->to->value.at[v[i]].type, &bytes) ||
            add_overflows(sum, bytes, &sum))
            return INT64_MAX;
    return sum;
}

static bool
are_constant(const Normal *m, uint32_t n, const ValueId *v)
{
    for (uint32_t i = 0; i < n; i++)
        if (!m->to->value.at[v[i]].data)
            return false;
    return true;
}

/* The result of `made`: computed now if its inputs are constant, otherwise at run time. 0: a
 * constant too large. */
static ValueId
value_of(Normal *m, const Nest *made, const ValueId *in, const char *name)
{
    if (are_constant(m, made->nin, in))
        return compute(m, made, in, name);
    return graph_nest_value(m->to, made, name, m->node->loc, m->node->origin, in);
}

/* Would the computed constant take more memory than its operands, parts of words for example? Then
 * its reader computes it. */
static bool
widens(const Normal *m, const Nest *made, const ValueId *in)
{
    return are_constant(m, made->nin, in) &&
           nest_widens(m->ctx, made, stored_bytes(m, made->nin, in));
}

/* A factor of pairs or quads as a tensor: of constants computed now, otherwise once for all its
 * reads. */
static void
make_factor(Normal *m, const Scalar *factor, const char *what)
{
    Ctx *c = m->ctx;
    const Nest *made;
    ValueId *in = arena_copy(c->arena, m->value, (m->nest->nin + 1) * sizeof *in);
    uint32_t slot;
    const Nest *reader = nest_outline_factor(c, m->nest, factor, &slot, &made);
    made = reader ? nest_drop_unused(c, made, in) : NULL;
    ValueId v =
        made && !widens(m, made, in)
            ? value_of(m, made, in,
                       arena_printf(c->arena, "%s_%s", m->to->value.at[m->value[slot]].name, what))
            : 0;

    if (!v)
        return; /* or too large: computed where they are read */
    m->value[slot] = v;
    m->nest = reader;
}

/* Sums that correct a dot product over quads, of the nest's inputs; those over windows in two
 * steps. */
static ValueId
sums_value(Normal *m, const Nest *sums, const char *name)
{
    Ctx *c = m->ctx;
    uint32_t nin = m->nest->nin;
    const Nest *points, *windows = nest_window_sum(c, sums, &points);
    ValueId *in = arena_copy(c->arena, m->value, (nin + 1) * sizeof *in),
            *all = arena_copy(c->arena, m->value, (nin + 1) * sizeof *all);
    const Nest *kept = nest_drop_unused(c, windows ? points : sums, in);
    ValueId at = value_of(m, kept, in, name);

    if (!windows || !at)
        return at;
    all[nin] = at;
    ValueId v = graph_value(m->to, name, windows->param[windows->nin].type);
    return graph_call_used(m->to, windows, m->node->loc, m->node->origin, all, v) ? v : 0;
}

/* Four summands at a time; the correcting sums are new inputs. The nest itself if it does not
 * apply. */
static const Nest *
quad_product(Normal *m)
{
    Ctx *c = m->ctx;
    uint32_t nin = m->nest->nin;
    bool *constant = NEW_ARRAY(c->arena, bool, nin + 1);
    Dot4Sums sums;

    for (uint32_t i = 0; i < nin; i++)
        constant[i] = m->to->value.at[m->value[i]].data != NULL;
    const Nest *quads = nest_dot4_products(c, m->nest, constant, m->dots & DOT_SIGNED, &sums);
    if (!sums.n)
        return quads;
    ValueId *value = NEW_ARRAY(c->arena, ValueId, nin + sums.n + 1);
    memcpy(value, m->value, nin * sizeof *value);
    value[nin + sums.n] = m->value[nin];
    for (uint32_t i = 0; i < sums.n; i++) {
        value[nin + i] =
            sums_value(m, sums.nest[i],
                       arena_printf(c->arena, "%s_sums", m->to->value.at[m->value[nin]].name));
        if (!value[nin + i])
            return m->nest;
    }
    m->value = value;
    return quads;
}

static void
dot_product(Normal *m)
{
    const Nest *dots = m->dots & DOT_QUADS ? quad_product(m) : m->nest;
    const char *what = "quads";
    Contraction view;

    if (dots == m->nest) {
        dots = nest_dot2_products(m->ctx, m->nest, m->dots & DOT_PAIRS, m->dots & DOT_FLOATS);
        what = "pairs";
    }
    bool same = dots == m->nest;
    m->nest = dots;
    if (!same && dots && nest_contraction(m->ctx, dots, &view)) {
        make_factor(m, view.a, what);
        make_factor(m, view.b, what);
        /* such as zero points that went into pairs */
        m->nest = nest_drop_unused(m->ctx, m->nest, m->value);
    }
}

/* ---- one point ------------------------------------------------------------------------------- */

static bool
in_pieces(Normal *m)
{
    const Nest *made, *rest, *n = m->nest;

    if (!m->worth || !normalise_split_reduction(m->ctx, n, m->worth, &made, &rest))
        return false;
    ValueId *in = NEW_ARRAY(m->ctx->arena, ValueId, n->nin + 1), out = m->value[n->nin];
    ValueId v =
        graph_value(m->to, arena_printf(m->ctx->arena, "%s_pieces", m->to->value.at[out].name),
                    made->param[made->nin].type);
    graph_call_used(m->to, made, m->node->loc, m->node->origin, m->value, v);
    for (uint32_t i = 0; i < n->nin; i++)
        in[i] = m->value[i];
    in[n->nin] = v;
    return graph_call_used(m->to, rest, m->node->loc, m->node->origin, in, out);
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Tables that vary with the same axes: computed now, or by one nest. */
static void
make_tables(Normal *m, const Nest *from, const GatherTable *table, uint32_t count, ValueId **to)
{
    Ctx *c = m->ctx;
    ValueId *value = NEW_ARRAY(c->arena, ValueId, from->nin + count),
            *own = NEW_ARRAY(c->arena, ValueId, from->nin + count);
    const char *name =
        arena_printf(c->arena, "%s_places", m->to->value.at[m->value[from->nin]].name);

    memcpy(value, m->value, from->nin * sizeof *value);
    const Nest *made =
        nest_drop_unused(c, nest_simplify(c, normalise_tables(c, from, table, count)), value);
    uint32_t nin = made->nin;
    bool constant = are_constant(m, nin, value);
    for (uint32_t i = 0; i < count; i++) {
        *to[i] = 0;
        if (constant) {
            memcpy(own, m->value, from->nin * sizeof *own);
            const Nest *one = nest_drop_unused(c, normalise_tables(c, from, &table[i], 1), own);
            *to[i] = compute(m, one, own, name);
        }
        constant = constant && *to[i];
    }
    if (constant)
        return;
    for (uint32_t i = 0; i < count; i++)
        value[nin + i] = *to[i] = graph_value(m->to, name, table[i].type);
    graph_call_nest(m->to, made, m->node->loc, m->node->origin, value, value + nin);
}

static void
share_places(Normal *m)
{
    Ctx *c = m->ctx;
    GatherTables p;
    const Nest *from = m->nest, *rest = normalise_gather_tables(c, from, &p);

    if (!rest)
        return;
    ValueId *value = NEW_ARRAY(c->arena, ValueId, from->nin + p.n + 1),
            **to = NEW_ARRAY(c->arena, ValueId *, p.n);
    GatherTable *table = NEW_ARRAY(c->arena, GatherTable, p.n);
    for (uint32_t i = 0; i < from->nin; i++)
        value[i] = m->value[i];
    value[from->nin + p.n] = m->value[from->nin];
    for (uint32_t i = 0; i < p.n; i++) {
        uint32_t count = 0;
        bool first = true;
        for (uint32_t j = 0; j < p.n; j++)
            if (p.at[j].value->axes == p.at[i].value->axes) {
                first = first && j >= i;
                table[count] = p.at[j];
                to[count++] = &value[from->nin + j];
            }
        if (first)
            make_tables(m, from, table, count, to);
    }
    m->value = value;
    m->nest = nest_drop_unused(c, rest, m->value);
}

/* ---- the graph ------------------------------------------------------------------------------- */

static bool
is_output(const Graph *g, ValueId v)
{
    for (uint32_t i = 0; i < g->output.n; i++)
        if (g->output.at[i] == v)
            return true;
    return false;
}

/* ---- constants that are computed where they are read ----------------------------------------- */

/* Do more points read the value than it has elements? */
static bool
is_read_again(Ctx *c, const Nest *reader, const Nest *wide)
{
    int64_t points, elements;

    return nest_axes_of_kind(reader, AXIS_REDUCE) || nest_axes_of_kind(reader, AXIS_SCAN) ||
           (expr_const(type_count(c, reader->param[reader->nin].type), &points) &&
            expr_const(type_count(c, wide->param[wide->nin].type), &elements) && points > elements);
}

/* Does the reader inline the value? A contraction stays one, and its schedule computes an operand
 * once as it packs or loads it. Elsewhere a value that is read repeatedly may only be widened. */
static bool
takes(Ctx *c, const Nest *before, const Nest *after, const Nest *wide)
{
    Contraction x, y;

    if (nest_contraction(c, before, &x))
        return nest_contraction(c, after, &y) && !x.row == !y.row && !x.col == !y.col &&
               __builtin_popcountll(y.batch) <= __builtin_popcountll(x.batch);
    return nest_code(c, wide) <= WIDENING_CODE || !is_read_again(c, after, wide);
}

/* The wide value v becomes one of the new graph: a constant, or the result of a nest if it is too
 * large. */
static ValueId
settle_wide(Normal *m, const Graph *from, ValueId v)
{
    const Wide *w = &m->wide[v];

    if (!m->map[v] && !(m->map[v] = compute(m, w->nest, w->in, from->value.at[v].name))) {
        ValueId *value = NEW_ARRAY(m->ctx->arena, ValueId, w->nest->nin + 1);
        memcpy(value, w->in, w->nest->nin * sizeof *value);
        value[w->nest->nin] = m->map[v] = graph_copy_value(m->to, from, v);
        graph_call_nest(m->to, w->nest, w->node->loc, w->node->origin, value, value + w->nest->nin);
    }
    return m->map[v];
}

/* The node's nest and the values of its inputs, wide ones inlined where it takes them; room for its
 * outputs behind. */
static void
take_inputs(Normal *m, const Graph *from)
{
    const Node *n = m->node;
    uint32_t count = n->in.count, most = count + n->out.count;

    for (uint32_t i = 0; i < count; i++) {
        const Wide *w = &m->wide[node_in(from, n, i)];
        most += w->nest ? w->nest->nin : 0;
    }
    m->value = NEW_ARRAY(m->ctx->arena, ValueId, most);
    for (uint32_t i = 0; i < count; i++)
        m->value[i] = m->map[node_in(from, n, i)];
    for (uint32_t i = 0, slot = 0; i < n->in.count; i++, slot++) {
        ValueId v = node_in(from, n, i);
        const Wide *w = &m->wide[v];
        if (!w->nest)
            continue;
        const Nest *with = m->map[v] ? NULL : nest_inline(m->ctx, m->nest, slot, w->nest);
        with = with ? nest_simplify(m->ctx, with) : NULL;
        if (!with || !takes(m->ctx, m->nest, with, w->nest)) {
            m->value[slot] = settle_wide(m, from, v);
            continue;
        }
        /* the other inputs keep their order, the wide value's follow */
        m->nest = with;
        memmove(m->value + slot, m->value + slot + 1, (--count - slot) * sizeof *m->value);
        memcpy(m->value + count, w->in, w->nest->nin * sizeof *m->value);
        count += w->nest->nin;
        slot--;
    }
}

/* The node's result is a constant: its operands are freed if nothing else reads them. */
static void
forget_inputs(Normal *m, const Graph *from)
{
    for (uint32_t i = 0; i < m->node->in.count; i++) {
        ValueId v = node_in(from, m->node, i);
        uint64_t own;
        if (--m->uses[v] || !map_get(&m->own, m->map[v], &own))
            continue;
        m->to->value.at[m->map[v]].data = NULL;
        arena_free((Arena *)(uintptr_t)own);
    }
}

static bool
normalise_node(Normal *m, const Graph *from)
{
    ValueId *map = m->map;
    const Node *n = m->node;
    uint32_t nout = n->out.count;

    m->nest = nest_simplify(m->ctx, n->nest);
    if (!m->nest)
        return false;
    take_inputs(m, from);
    ValueId only = nout == 1 ? node_out(from, n, 0) : 0;
    if (only && m->nest->nin && are_constant(m, m->nest->nin, m->value) && !is_output(from, only)) {
        if (nest_widens(m->ctx, m->nest, stored_bytes(m, m->nest->nin, m->value))) {
            m->wide[only] = (Wide){ n, m->nest, m->value };
            return true;
        }
        if ((map[only] = compute(m, m->nest, m->value, from->value.at[only].name))) {
            forget_inputs(m, from);
            return true;
        }
    }
    for (uint32_t i = 0; i < nout; i++)
        m->value[m->nest->nin + i] = map[node_out(from, n, i)] =
            graph_copy_value(m->to, from, node_out(from, n, i));
    share_places(m);
    if (plain_product(m))
        return true;
    if (m->nest)
        put_numbers(m);
    if (m->dots && m->nest)
        dot_product(m);
    if (m->nest && in_pieces(m))
        return true;
    if (m->nest)
        graph_call_nest(m->to, m->nest, n->loc, n->origin, m->value, m->value + m->nest->nin);
    return m->nest != NULL;
}

Graph *
normalise_nests(const Graph *g, int64_t max_bytes, DotSteps dots, int64_t worth, uint32_t threads)
{
    Arena *scratch = arena_child(g->arena);
    ValueId *map;
    bool ok = true;
    Normal m = { .ctx = g->ctx,
                 .to = graph_rebuild(g, &map),
                 .max_bytes = max_bytes,
                 .dots = dots,
                 .worth = worth,
                 .threads = threads };

    m.map = map;
    m.uses = graph_uses(g, scratch);
    m.own.arena = scratch;
    m.wide = NEW_ARRAY(scratch, Wide, g->value.n);
    for (NodeId id = 1; id < g->node.n && ok; id++) {
        m.node = &g->node.at[id];
        if (m.node->callee == CALL_NEST) {
            ok = normalise_node(&m, g);
            continue;
        }
        for (uint32_t i = 0; i < m.node->in.count; i++)
            if (m.wide[node_in(g, m.node, i)].nest)
                settle_wide(&m, g, node_in(g, m.node, i));
        graph_copy_node(m.to, g, id, map);
    }
    if (ok)
        graph_finish(m.to, g, map);
    arena_free(scratch);
    return ok ? m.to : NULL;
}
