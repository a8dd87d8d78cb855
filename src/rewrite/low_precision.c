/* low_precision: store the constant operands of matmuls in fewer bits than the model does.
 *
 *     %y = product(%x, %w)                     %w f32, constant
 *
 * becomes
 *
 *     %w.narrow = nest(%w.stored, %w.scale)    o[k, n] = f32(stored[k, n]) * scale[k // 32, n]
 *     %y = product(%x, %w.narrow)
 *
 * with %w.stored in bf16, f16, or integers of 8 or 4 bits. A nest whose result takes more memory
 * than its constants is not folded; later passes put it into its readers (nest_widens), as for a
 * model that was exported so. A weight is recognised by its use, not by an operator: one factor of
 * a sum of products reads it. Constants with other readers (embeddings, which are read row by row),
 * biases, small constants, and those that the user names stay as they are.
 *
 * Integers have one scale for all elements of a sum, or one for each group of them along the
 * longest summed dimension. Eight 4-bit neighbours along that dimension share a word, or two share
 * a byte, so one load serves several iterations of the sum. The other operand may be quantised as
 * well (integer_matmul.c); then no constant is widened.
 */
#include "rewrite/integer_matmul.h"

/* How a constant is stored, and the constants of `to` that store it. wide: the value that widens
 * them; 0 for an integer matmul. */
typedef struct {
    Quantising q;
    int64_t extent[TN_MAX_RANK];
    ValueId stored, scale, wide;
} Stored;

typedef struct {
    Narrowing *how;
    const Graph *from;
    Graph *to;
    /* (constant, dimension of groups, for integer matmuls?) -> Stored; 0: it is kept */
    Map made;
    Map kept; /* constants that the report has as kept for a reader */
    Dots dots;
} Narrow;

static const char *
remark(const Narrow *m, ValueId v, const char *what)
{
    (void)text_printf(m->how->report, "  %-48s kept: %s\n", m->from->value.at[v].name, what);
    return NULL;
}

/* The wanted group size, or a smaller one, down to half of it, that divides the dimension: then
 * groups are an axis of the nest. */
static int64_t
group_of(int64_t extent, int64_t wanted)
{
    if (wanted >= extent)
        return extent;
    for (int64_t g = wanted; 2 * g > wanted; g--)
        if (extent % g == 0 && (g % 2 == 0 || wanted % 2))
            return g;
    return wanted;
}

/* Where and how the constant is quantised. False: no dimension is summed over. */
static bool
plan_of(const Narrowing *how, const Scalar *load, AxisSet sum, const Type *t, int64_t *extent,
        Quantising *q)
{
    *q = (Quantising){ .dtype = how->dtype, .rank = t->rank, .extent = extent, .dim = t->rank };
    for (uint32_t d = 0; d < t->rank; d++) {
        if (!expr_const(t->dim[d], &extent[d]) || extent[d] < 1)
            return false;
        q->summed[d] = (sum & axis_bit(load->u.load.at[d]));
        if (q->summed[d] && (q->dim == t->rank || extent[d] > extent[q->dim]))
            q->dim = d;
    }
    if (q->dim == t->rank)
        return false;
    q->group = how->group && !dtype_is_float(how->dtype) ? group_of(extent[q->dim], how->group) : 0;
    if (how->dtype == DT_I4) /* no group ends inside a word */
        q->word = dtype_word(q->group && q->group < extent[q->dim] ? gcd64(q->group, extent[q->dim])
                                                                   : extent[q->dim],
                             4);
    return true;
}

static const Type *
type_of_extents(Ctx *c, DType t, uint32_t rank, const int64_t *extent)
{
    const Expr *dim[TN_MAX_RANK];
    uint32_t n = 0;

    for (uint32_t d = 0; d < rank; d++)
        if (extent[d])
            dim[n++] = expr_int(c, extent[d]);
    return type_new(c, t, n, dim);
}

/* f32(stored) * scale, of the tensor's own axes.  */
static const Nest *
widening(Ctx *c, const Quantising *q, const Type *whole, const Type *stored, const Type *scales)
{
    NestBuilder b = nest_begin(c, "weights");
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK], *scale_at[TN_MAX_RANK];
    uint32_t slot = nest_in(&b, "w", stored), scale = scales ? nest_in(&b, "s", scales) : 0,
             out = nest_out(&b, "o", whole), n = 0;

    nest_axes_of(&b, whole, axis);
    for (uint32_t d = 0; d < q->rank; d++) {
        at[d] = q->word && d == q->dim
                    ? expr_div(c, axis[d], expr_int(c, dtype_info[q->word].bits / 4))
                    : axis[d];
        if (!q->summed[d])
            scale_at[n++] = axis[d];
        else if (d == q->dim && q->group)
            scale_at[n++] = expr_div(c, axis[d], expr_int(c, q->group));
    }
    const Scalar *w = nest_load(&b, slot, at), *v;
    const Scalar *s = scales ? scalar_cast(c, DT_F32, nest_load(&b, scale, scale_at)) : NULL;
    if (q->word) {
        const Scalar *u = scalar_cast(c, DT_F32, scalar_in_word(c, w, axis[q->dim], 4));
        v = scalar_2(c, S_MUL, scalar_2(c, S_SUB, u, scalar_float(c, DT_F32, 8)), s);
    } else {
        w = dtype_is_float(q->dtype) ? w : scalar_cast(c, DT_I32, w);
        v = scalar_cast(c, DT_F32, w);
        v = s ? scalar_2(c, S_MUL, v, s) : v;
    }
    nest_write(&b, out, axis, v);
    return nest_finish(&b);
}

/* Store constant v in its narrow form. Needs w->q and w->extent. False: it is kept. */
static bool
store(Narrow *m, ValueId v, Stored *w)
{
    Ctx *c = m->to->ctx;
    const Value *value = &m->from->value.at[v];
    const Type *t = value->type, *scales = NULL;
    const Quantising *q = &w->q;
    int64_t of[TN_MAX_RANK], before, bytes, scale_bytes = 0;
    QuantisingError error;
    uint32_t rank = q->rank;

    if (q->dots)
        rank = dots_extents(q, of);
    else
        quantise_stored(q, of);
    const Type *stored = type_of_extents(c,
                                         q->word   ? q->word
                                         : q->dots ? DT_U8
                                                   : q->dtype,
                                         rank, of);
    quantise_scales(q, of);
    if (!dtype_is_float(q->dtype))
        scales = type_of_extents(c, q->group ? DT_BF16 : DT_F32, q->rank, of);
    if (!type_static_bytes(t, &before) || !type_static_bytes(stored, &bytes) ||
        (scales && !type_static_bytes(scales, &scale_bytes)))
        return false;
    const Nest *nest = q->dots ? NULL : widening(c, q, t, stored, scales);
    if (q->dots ? before < NEST_LEAST_WIDE : !nest || !nest_widens(c, nest, bytes + scale_bytes))
        return false;
    Arena *scratch = arena_child(m->to->arena);
    void *data = arena_alloc(m->to->arena, (size_t)bytes),
         *scale = scales ? arena_alloc(m->to->arena, (size_t)scale_bytes) : NULL;
    bool fits =
        quantise(scratch, q, value->data, scales ? scales->dtype : DT_NONE, data, scale, &error);
    arena_free(scratch);
    if (!fits)
        return remark(m, v,
                      arena_printf(m->to->arena, "it has elements that are no finite numbers of %s",
                                   dtype_info[q->dtype].name)),
               false;
    w->stored = graph_const(m->to, sym_printf(c, "%s.stored", value->name), stored, data);
    if (scales)
        w->scale = graph_const(m->to, sym_printf(c, "%s.scale", value->name), scales, scale);
    if (nest) {
        const ValueId in[] = { w->stored, w->scale };
        w->wide = graph_nest_value(m->to, nest, sym_printf(c, "%s.narrow", value->name), (Loc){ 0 },
                                   sym_printf(c, "weights \"%s\"", value->name), in);
    }
    m->how->tensors++;
    m->how->bytes_before += before;
    m->how->bytes_after += bytes + scale_bytes;
    text_printf(m->how->report, "  %-48s %8.2e %8.2e\n", value->name, error.relative,
                error.largest);
    return true;
}

/* The narrow form of constant v, which `load` reads in contraction k of n; NULL: n reads it as it
 * is. *other: the other operand, if the matmul becomes one of integers. */
static const Stored *
stored_for(Narrow *m, ValueId v, const Node *n, const Contraction *k, const Scalar *load,
           const Scalar **other)
{
    Stored *w = NEW(m->to->arena, Stored);
    uint64_t known;

    if (!plan_of(m->how, load, k->sum, m->from->value.at[v].type, w->extent, &w->q))
        return NULL;
    if (m->how->keep(m->how->user, m->from->value.at[v].name, n->origin)) {
        if (!map_get(&m->kept, v, NULL))
            remark(m, v, "--weights-keep names it");
        map_put(&m->kept, v, 1);
        return NULL;
    }
    w->q.dots = m->how->dots && dots_fit(m->to->ctx, n->nest, k, load, &w->q, other);
    uint64_t key = ((uint64_t)v * TN_MAX_RANK + w->q.dim) << 1 | w->q.dots;
    if (!map_get(&m->made, key, &known)) {
        known = store(m, v, w) ? MAP_PTR(w) : 0;
        map_put(&m->made, key, known);
    }
    return (const Stored *)(uintptr_t)known;
}

/* Copy the node with each constant factor of its contraction in its narrow form. */
static bool
copy_node(Narrow *m, NodeId id, ValueId *map)
{
    const Graph *from = m->from;
    const Node *n = &from->node.at[id];
    Contraction k;

    if (n->callee != CALL_NEST || !nest_contraction(from->ctx, n->nest, &k) ||
        k.reduce->dtype != DT_F32) {
        graph_copy_node(m->to, from, id, map);
        return true;
    }
    const Scalar *factor[] = { k.a, k.b }, *other;
    ValueId value[2] = { 0 }, before[2];
    for (int i = 0; i < 2; i++) {
        ValueId v = factor[i]->op == S_LOAD && !factor[i]->u.load.outside &&
                            factor[i]->u.load.slot < n->in.count
                        ? node_in(from, n, factor[i]->u.load.slot)
                        : 0;
        const Stored *w = v && from->value.at[v].data && from->value.at[v].type->dtype == DT_F32
                              ? stored_for(m, v, n, &k, factor[i], &other)
                              : NULL;
        if (!w)
            continue;
        if (w->q.dots) {
            m->how->products++;
            return dots_call(
                &m->dots, &(DotProduct){ n, k, factor[i], other, &w->q, w->stored, w->scale }, map);
        }
        value[i] = v;
        before[i] = map[v];
        map[v] = w->wide;
    }
    graph_copy_node(m->to, from, id, map);
    for (int i = 1; i >= 0; i--)
        if (value[i])
            map[value[i]] = before[i];
    return true;
}

Graph *
rewrite_low_precision(const Graph *from, Narrowing *how)
{
    ValueId *map;
    Graph *to = graph_rebuild(from, &map);
    Narrow m = { .how = how,
                 .from = from,
                 .to = to,
                 .made = { .arena = from->arena },
                 .kept = { .arena = from->arena },
                 .dots = { from, to, { .arena = from->arena } } };

    for (NodeId n = 1; n < from->node.n; n++)
        if (!copy_node(&m, n, map))
            return NULL;
    graph_finish(m.to, from, map);
    return m.to;
}
