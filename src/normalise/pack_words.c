/* pack_words: integers of four and two bits that contractions read, packed into words.
 *
 * In memory a type of fewer than 8 bits takes a byte an element. A model's weights in such a type
 * are many, and a memory-bound contraction waits for every byte of them. So if all readers of a
 * constant read it along a summed axis,
 *
 *     w: u4[k, n]         sum i: … w[i, j] …
 *
 * neighbours along that dimension share a word, of 32 bits or, if those would not be full, of 8:
 *
 *     w: i32[k / 8, n]    sum i: … (w[i // 8, j] >> 4 * (i % 8) & 15) …
 *
 * Iterations of a sum that read one word then share one load. Signed numbers are stored as their
 * distance to the least. Constants that are read otherwise, by rows or at gather indices, stay
 * unpacked, and so do small ones.
 */
#include "algebra/algebra.h"
#include "normalise/normalise.h"

#include "nest/walk.h"

/* Of a constant: the dimensions along which all its readers sum by whole words of a type, as sets;
 * 0: it stays unpacked. */
typedef struct {
    uint32_t i32, u8;
} Dims;

typedef struct {
    DType word;
    uint32_t dim;
} Packing; /* NONE: it is not packed */
typedef struct {
    uint32_t slot;
    DType dtype;
    Packing in;
} Packed;

typedef struct {
    const Packed *of; /* [n] */
    uint32_t n;
} PackedSlots;

static int64_t
share(DType word, DType t)
{
    return dtype_info[word].bits / dtype_info[t].bits;
}

static bool
may_be_packed(const Value *v, int64_t near, int64_t *extent)
{
    int64_t count;

    if (!v->data || v->format || !dtype_is_int(v->type->dtype) ||
        dtype_info[v->type->dtype].bits >= 8)
        return false;
    for (uint32_t d = 0; d < v->type->rank; d++)
        if (!expr_const(v->type->dim[d], &extent[d]))
            return false;
    return type_static_bytes(v->type, &count) && count >= near;
}

/* Does e step by one along a summed axis, and by whole words along the others? */
static bool
is_summed(Ctx *c, const Nest *n, AxisSet sum, const Expr *e, int64_t share)
{
    const Expr *in_word = expr_mod(c, e, expr_int(c, share));

    for (uint32_t k = 0; k < n->naxis; k++) {
        const Expr *axis = expr_var(c, (Var){ VAR_AXIS, k });
        if (expr_axes(e) & sum & axis_one(k) && in_word == expr_mod(c, axis, expr_int(c, share)))
            return expr_or(n->axis[k].extent, 1) % share == 0;
    }
    return false;
}

/* The dimensions along which neighbours that share a word are read in one sum. */
static uint32_t
summed(Ctx *c, const Nest *n, const WalkNode *read, const Type *t, DType word)
{
    const Scalar *s = read->node;
    uint32_t found = 0;
    int64_t extent, full = share(word, t->dtype);

    for (uint32_t d = 0; d < t->rank && !s->u.load.outside; d++)
        if (expr_const(t->dim[d], &extent) && extent % full == 0 &&
            is_summed(c, n, read->reduce, s->u.load.at[d], full))
            found |= 1u << d;
    return found;
}

static void
note_reads(const Graph *g, const Node *n, Dims *dims)
{
    Arena *scratch = arena_child(g->arena);
    Walk all = nest_walk(g->ctx, scratch, n->nest);

    for (uint32_t i = 0; i < all.n; i++) {
        const Scalar *s = all.at[i].node;
        if (s->op != S_LOAD || s->u.load.slot >= n->in.count)
            continue;
        ValueId v = node_in(g, n, s->u.load.slot);
        if (dims[v].i32)
            dims[v].i32 &= summed(g->ctx, n->nest, &all.at[i], g->value.at[v].type, DT_I32);
        if (dims[v].u8)
            dims[v].u8 &= summed(g->ctx, n->nest, &all.at[i], g->value.at[v].type, DT_U8);
    }
    arena_free(scratch);
}

/* How each constant is packed, in long words before short ones: along its longest dimension that
 * allows it. */
static Packing *
choose(const Graph *g, Arena *scratch, int64_t near, bool *any)
{
    const Dims all = { ~0u, ~0u };
    Dims *dims = NEW_ARRAY(scratch, Dims, g->value.n);
    Packing *chosen = NEW_ARRAY(scratch, Packing, g->value.n);
    int64_t extent[TN_MAX_RANK];

    *any = false;
    for (ValueId v = 1; v < g->value.n; v++)
        if (may_be_packed(&g->value.at[v], near, extent)) {
            dims[v] = all;
            *any = true;
        }
    if (!*any)
        return chosen;
    for (NodeId id = 1; id < g->node.n; id++) {
        const Node *n = &g->node.at[id];
        if (n->callee == CALL_NEST)
            note_reads(g, n, dims);
        for (uint32_t i = 0; i < n->in.count && n->callee != CALL_NEST; i++)
            dims[node_in(g, n, i)] = (Dims){ 0 };
    }
    for (uint32_t i = 0; i < g->output.n; i++)
        dims[g->output.at[i]] = (Dims){ 0 };
    *any = false;
    for (ValueId v = 1; v < g->value.n; v++) {
        uint32_t set = dims[v].i32 ? dims[v].i32 : dims[v].u8;
        if (!set || set == ~0u || !may_be_packed(&g->value.at[v], near, extent))
            continue;
        for (uint32_t d = 0; d < g->value.at[v].type->rank; d++)
            if (set >> d & 1 && (!chosen[v].word || extent[d] > extent[chosen[v].dim]))
                chosen[v] = (Packing){ dims[v].i32 ? DT_I32 : DT_U8, d };
        *any = true;
    }
    return chosen;
}

static int64_t
least(DType t)
{
    return dtype_info[t].kind == KIND_INT ? -(1 << (dtype_info[t].bits - 1)) : 0;
}

/* The constant in full words. */
static ValueId
packed_value(Graph *to, const Value *v, Packing p)
{
    Ctx *c = to->ctx;
    DType t = v->type->dtype;
    const Expr *dims[TN_MAX_RANK];
    int64_t n = share(p.word, t), inner = 1, outer = 1, extent = 0, one;
    int bits = dtype_info[t].bits;
    const int8_t *from = v->data;

    for (uint32_t d = 0; d < v->type->rank; d++) {
        expr_const(dims[d] = v->type->dim[d], &one);
        if (d < p.dim)
            outer *= one;
        else if (d == p.dim)
            extent = one / n;
        else
            inner *= one;
    }
    dims[p.dim] = expr_int(c, extent);
    void *words =
        arena_alloc_array(to->arena, (size_t)(outer * extent * inner), dtype_info[p.word].bytes);
    for (int64_t o = 0; o < outer * extent; o++)
        for (int64_t k = 0; k < n; k++)
            for (int64_t i = 0; i < inner; i++)
                number_put_bits(p.word, words, o * inner + i,
                                (uint32_t)(from[(o * n + k) * inner + i] - least(t)) << k * bits);
    return graph_const(to, v->name, type_new(c, p.word, v->type->rank, dims), words);
}

/* The element as a number of 32 bits, then as its type again unless it is converted anyway. */
static const Scalar *
unpack(ScalarMap *m, const Scalar *load)
{
    const PackedSlots *all = m->user;
    Ctx *c = m->ctx;

    for (uint32_t i = 0; i < all->n; i++) {
        const Packed *p = &all->of[i];
        const Expr *at[TN_MAX_RANK], *n = expr_int(c, share(p->in.word, p->dtype));
        if (p->slot != load->u.load.slot)
            continue;
        int bits = dtype_info[p->dtype].bits;
        for (uint32_t d = 0; d < load->u.load.rank; d++)
            at[d] = d == p->in.dim ? expr_div(c, load->u.load.at[d], n) : load->u.load.at[d];
        const Scalar *word = scalar_load(c, p->in.word, p->slot, load->u.load.rank, at, NULL),
                     *s = scalar_in_word(c, word, load->u.load.at[p->in.dim], bits);
        s = least(p->dtype) ? scalar_2(c, S_ADD, s, scalar_int(c, DT_I32, least(p->dtype))) : s;
        return scalar_cast(c, load->dtype, s);
    }
    return load;
}

/* From 32 bits to four and on: the number already has four bits. */
static const Scalar *
convert_once(ScalarMap *m, const Scalar *s)
{
    const Scalar *from = s->op == S_CAST ? s->arg[0] : NULL;

    if (!from || from->op != S_CAST || dtype_info[from->dtype].bits >= 8 ||
        from->arg[0]->dtype != DT_I32)
        return s;
    return scalar_cast(m->ctx, s->dtype, from->arg[0]);
}

static bool
copy_node(Graph *to, const Graph *from, const Node *n, const Packing *chosen, const ValueId *map)
{
    Ctx *c = to->ctx;
    Arena *scratch = arena_child(to->arena);
    NestEdit e = nest_edit(c, n->nest, 0, 0);
    Packed *of = NEW_ARRAY(scratch, Packed, n->in.count + 1);
    PackedSlots all = { of, 0 };
    ValueId *value = NEW_ARRAY(to->arena, ValueId, n->in.count + n->out.count + 1);
    ScalarMap m = {
        .load = unpack, .node = convert_once, .user = &all, .ctx = c, .done = { .arena = scratch }
    };

    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId v = node_in(from, n, i);
        value[i] = map[v];
        if (chosen[v].word) {
            of[all.n++] = (Packed){ i, from->value.at[v].type->dtype, chosen[v] };
            e.param[i].type = to->value.at[map[v]].type;
        }
    }
    for (uint32_t i = 0; i < n->out.count; i++)
        value[n->in.count + i] = map[node_out(from, n, i)];
    nest_edit_map(&e, &m);
    arena_free(scratch);
    const Nest *made = nest_edit_done(c, &e);
    if (made)
        graph_call_nest(to, nest_simplify(c, made), n->loc, n->origin, value, value + n->in.count);
    return made != NULL;
}

static bool
reads_packed(const Graph *g, const Node *n, const Packing *chosen)
{
    for (uint32_t i = 0; i < n->in.count; i++)
        if (chosen[node_in(g, n, i)].word)
            return true;
    return false;
}

Graph *
normalise_pack_words(const Graph *g, int64_t near)
{
    Arena *scratch = arena_child(g->arena);
    bool any, ok = true;
    Packing *chosen = choose(g, scratch, near, &any);
    ValueId *map;

    if (!any) {
        arena_free(scratch);
        return (Graph *)g;
    }
    Graph *to = graph_rebuild(g, &map);
    for (ValueId v = 1; v < g->value.n; v++)
        if (chosen[v].word)
            map[v] = packed_value(to, &g->value.at[v], chosen[v]);
    for (NodeId id = 1; id < g->node.n && ok; id++) {
        const Node *n = &g->node.at[id];
        if (!reads_packed(g, n, chosen)) {
            graph_copy_node(to, g, id, map);
            continue;
        }
        for (uint32_t i = 0; i < n->out.count; i++)
            map[node_out(g, n, i)] = graph_copy_value(to, g, node_out(g, n, i));
        ok = copy_node(to, g, n, chosen, map);
    }
    if (ok)
        graph_finish(to, g, map);
    arena_free(scratch);
    return ok ? to : NULL;
}
