/* widen: store 16-bit floats that matmuls read as f32, on processors that compute in f32.
 *
 *     %y = nest …                              o[i, k] = f16(v)                       f16
 *     %z = product(%y, %w)                     sum k: f32(y[i, k]) * f32(w[k, j])
 *
 * becomes
 *
 *     %y = nest …                              o[i, k] = f32(f16(v))                  f32
 *     %z = product(%y, %w)                     sum k: y[i, k] * f32(w[k, j])
 *
 * A matmul reads each number many times and would convert it as often. Every value is still rounded
 * to 16 bits where the model rounds it, so results are bitwise the same; other readers of %y read
 * f16(y), which is exact. Factors become plain reads, so the layouts, padded input tiles and
 * Winograd domains of f32 apply.
 *
 * Inputs and outputs of the model, and values of other kinds of nodes, keep their 16 bits. An input
 * of a convolution, which is copied into a padded tile anyway, is widened by a nest of its own; a
 * convolution's weights, which are read at every output point, are widened while compiling. The
 * weights of other matmuls are limited by memory bandwidth and stay narrow (nest_widens).
 *
 * Source  ONNX Runtime and OpenVINO insert Cast nodes around such operators, which may round a
 *         value twice or not at all; this pass does neither.
 */
#include "nest/walk.h"
#include "rewrite/rewrite.h"

typedef struct {
    const Graph *from;
    Graph *to;
    Widening how;
    ValueId *map;
    uint8_t *fixed;  /* [value of from]: keeps its type */
    uint8_t *wanted; /* a product reads it */
    ValueId *wide;   /* of fixed values: what widens it, in `to` */
} WidePass;

static bool
is_narrow(const Widening *how, const Type *t)
{
    return (t->dtype == DT_F16 && how->f16) || (t->dtype == DT_BF16 && how->bf16);
}

/* The read that a factor widens; NULL: it is something else. */
static const Scalar *
widened(const Scalar *factor)
{
    return factor->op == S_CAST && factor->dtype == DT_F32 && factor->arg[0]->op == S_LOAD
               ? factor->arg[0]
               : NULL;
}

static bool
is_window(const Scalar *load)
{
    for (uint32_t d = 0; d < load->u.load.rank; d++) {
        AxisSet axes = expr_axes(load->u.load.at[d]);
        if (axes & (axes - 1))
            return true;
    }
    return false;
}

/* ---- which values ---------------------------------------------------------------------------- */

/* Inputs, constants, outputs, and what nodes that are no nests, or that combine, read or make. */
static void
mark_fixed(WidePass *w)
{
    const Graph *g = w->from;

    for (ValueId v = 1; v < g->value.n; v++)
        w->fixed[v] = !g->value.at[v].def;
    for (uint32_t i = 0; i < g->output.n; i++)
        w->fixed[g->output.at[i]] = 1;
    for (NodeId n = 1; n < g->node.n; n++) {
        const Node *node = &g->node.at[n];
        bool combined = false;
        for (uint32_t i = 0; node->callee == CALL_NEST && i < node->nest->nwrite; i++)
            combined |= node->nest->write[i].combiner != COMB_NONE;
        if (node->callee == CALL_NEST && !combined)
            continue;
        for (uint32_t i = 0; i < node->in.count; i++)
            w->fixed[node_in(g, node, i)] = 1;
        for (uint32_t i = 0; i < node->out.count; i++)
            w->fixed[node_out(g, node, i)] = 1;
    }
}

/* The factors of a node's product that widen what they read, by slot; a window's side says so of
 * the other as well. */
static void
product_slots(const WidePass *w, const Node *n, bool *slot, bool *window)
{
    Contraction k;

    for (uint32_t i = 0; i < n->in.count; i++)
        slot[i] = false;
    *window = false;
    if (n->callee != CALL_NEST || !nest_contraction(w->from->ctx, n->nest, &k) ||
        k.reduce->dtype != DT_F32)
        return;
    const Scalar *load[] = { widened(k.a), widened(k.b) };
    for (int i = 0; i < 2; i++)
        if (load[i] && load[i]->u.load.slot < n->in.count &&
            is_narrow(&w->how, n->nest->param[load[i]->u.load.slot].type)) {
            slot[load[i]->u.load.slot] = true;
            *window |= is_window(load[i]);
        }
}

/* ---- nests ----------------------------------------------------------------------------------- */

/* DT_NONE: the parameter stays */
typedef struct {
    DType narrow[UINT8_MAX + 1];
    uint32_t nin;
} WideSlots;

static const Scalar *
load_wide(ScalarMap *m, const Scalar *load)
{
    const WideSlots *s = m->user;
    uint32_t slot = load->u.load.slot;

    if (slot >= s->nin || s->narrow[slot] == DT_NONE)
        return load;
    const Scalar *outside =
        load->u.load.outside ? scalar_cast(m->ctx, DT_F32, load->u.load.outside) : NULL;
    return scalar_cast(
        m->ctx, s->narrow[slot],
        scalar_load(m->ctx, DT_F32, slot, load->u.load.rank, load->u.load.at, outside));
}

/* f32(f16(y)) of what holds nothing but such numbers. */
static const Scalar *
skip_rounding(ScalarMap *m, const Scalar *s)
{
    const WideSlots *slots = m->user;
    const Scalar *narrow = s->op == S_CAST && s->dtype == DT_F32 ? s->arg[0] : NULL;

    if (!narrow || narrow->op != S_CAST || narrow->arg[0]->op != S_LOAD ||
        narrow->arg[0]->dtype != DT_F32)
        return s;
    uint32_t slot = narrow->arg[0]->u.load.slot;
    return slot < slots->nin && slots->narrow[slot] == narrow->dtype ? narrow->arg[0] : s;
}

static const Nest *
nest_wide(Ctx *c, const Nest *n, const bool *wide)
{
    NestEdit e = nest_edit(c, n, 0, 0);
    WideSlots slots = { .nin = n->nin };
    ScalarMap map = {
        .load = load_wide, .node = skip_rounding, .user = &slots, .ctx = c, .done.arena = e.scratch
    };

    for (uint32_t i = 0; i < n->nin + n->nout; i++) {
        const Type *t = n->param[i].type;
        slots.narrow[i] = wide[i] ? t->dtype : DT_NONE;
        if (wide[i])
            e.param[i].type = type_new(c, DT_F32, t->rank, t->dim);
    }
    nest_edit_map(&e, &map);
    for (uint32_t i = 0; i < n->nwrite; i++)
        if (wide[n->write[i].out])
            e.write[i].value = scalar_cast(c, DT_F32, e.write[i].value);
    return nest_edit_done(c, &e);
}

/* ---- values that keep their type ------------------------------------------------------------- */

static ValueId
widen_constant(WidePass *w, ValueId v)
{
    const Value *value = &w->from->value.at[v];
    const Type *t = value->type;
    int64_t bytes;

    if (!type_static_bytes(t, &bytes))
        return 0;
    uint64_t n = (uint64_t)bytes / dtype_info[t->dtype].bytes;
    float *data = arena_alloc_array(w->to->arena, n, sizeof *data);
    for (uint64_t i = 0; i < n; i++)
        data[i] = (float)number_load(t->dtype, value->data, (int64_t)i).f;
    return graph_const(w->to, sym_printf(w->to->ctx, "%s.wide", value->name),
                       type_new(w->to->ctx, DT_F32, t->rank, t->dim), data);
}

static ValueId
widen_value(WidePass *w, ValueId v, Sym origin)
{
    Ctx *c = w->to->ctx;
    const Type *t = w->from->value.at[v].type;
    NestBuilder b = nest_begin(c, "wide");
    const Expr *axis[TN_MAX_RANK];
    uint32_t in = nest_in(&b, "x", t),
             out = nest_out(&b, "o", type_new(c, DT_F32, t->rank, t->dim));

    nest_axes_of(&b, t, axis);
    nest_write(&b, out, axis, scalar_cast(c, DT_F32, nest_load(&b, in, axis)));
    return graph_nest_value(w->to, nest_finish(&b),
                            sym_printf(c, "%s.wide", w->from->value.at[v].name), (Loc){ 0 }, origin,
                            &w->map[v]);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static bool
copy_node(WidePass *w, NodeId id)
{
    const Graph *from = w->from;
    const Node *n = &from->node.at[id];
    uint32_t nparam = n->in.count + n->out.count;
    bool *wide = NEW_ARRAY(from->arena, bool, nparam + 1), window, any = false;
    ValueId *in = NEW_ARRAY(from->arena, ValueId, nparam + 1), *out = in + n->in.count;

    product_slots(w, n, wide, &window);
    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId v = node_in(from, n, i);
        in[i] = w->map[v];
        bool slot = n->callee == CALL_NEST && w->wanted[v] && !w->fixed[v];
        if (!slot && wide[i] && window) {
            bool constant = from->value.at[v].data != NULL;
            if (!w->wide[v])
                w->wide[v] = !constant          ? widen_value(w, v, n->origin)
                             : w->how.constants ? widen_constant(w, v)
                                                : 0;
            slot = w->wide[v] != 0;
            in[i] = slot ? w->wide[v] : in[i];
        }
        wide[i] = slot;
        any |= slot;
    }
    for (uint32_t i = 0; i < n->out.count; i++) {
        ValueId v = node_out(from, n, i);
        any |= wide[n->in.count + i] = n->callee == CALL_NEST && w->wanted[v] && !w->fixed[v];
    }
    if (!any) {
        graph_copy_node(w->to, from, id, w->map);
        return true;
    }
    const Nest *nest = nest_wide(from->ctx, n->nest, wide);
    if (!nest)
        return false;
    for (uint32_t i = 0; i < n->out.count; i++) {
        ValueId v = node_out(from, n, i);
        out[i] = w->map[v] =
            graph_value(w->to, from->value.at[v].name, nest->param[nest->nin + i].type);
    }
    graph_call_nest(w->to, nest, n->loc, n->origin, in, out);
    return true;
}

Graph *
rewrite_widen(const Graph *from, Widening how)
{
    WidePass w = { .from = from,
                   .how = how,
                   .fixed = NEW_ARRAY(from->arena, uint8_t, from->value.n),
                   .wanted = NEW_ARRAY(from->arena, uint8_t, from->value.n),
                   .wide = NEW_ARRAY(from->arena, ValueId, from->value.n) };
    bool window;

    mark_fixed(&w);
    for (NodeId n = 1; n < from->node.n; n++) {
        const Node *node = &from->node.at[n];
        bool *slot = NEW_ARRAY(from->arena, bool, node->in.count + 1);
        product_slots(&w, node, slot, &window);
        for (uint32_t i = 0; i < node->in.count; i++)
            w.wanted[node_in(from, node, i)] |= slot[i];
    }
    w.to = graph_rebuild(from, &w.map);
    for (NodeId n = 1; n < from->node.n; n++)
        if (!copy_node(&w, n))
            return NULL;
    graph_finish(w.to, from, w.map);
    return w.to;
}
