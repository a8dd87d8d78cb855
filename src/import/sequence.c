/* sequence: sequences of tensors, as two tensors: all elements concatenated, and the items' shapes.
 *
 *     items   T[total]          sizes   i64[length, rank]
 *
 * So loops carry sequences, branches capture them, and they grow, like any value whose size comes
 * from data, without a new kind of value. An optional tensor is a sequence of at most one item; an
 * optional sequence is that sequence. Inputs and outputs of a model are the two tensors: x is
 * x.items and x.sizes. In the table of names the sequence's own name stands for a mark (element
 * type and rank), and two derived names for the tensors. An empty sequence has no rank before its
 * first item.
 */
#include "import/compose.h"
#include "import/converters.h"
#include "import/synthetic.h"

#include <inttypes.h>
#include <string.h>

#define MARK (UINT64_C(1) << 62)
#define OPTIONAL (UINT64_C(1) << 61) /* an optional tensor */
#define OPTIONAL_LIST (UINT64_C(1) << 60)
/* the rank is known only at run time: sizes have an axis of that length */
enum { OPEN_RANK = 0xffff };

bool
sequence_is(uint64_t entry)
{
    return (entry & MARK) != 0;
}

static uint64_t
mark_of(DType t, uint32_t rank) /* rank UINT32_MAX: none yet */
{
    return MARK | (uint64_t)(rank + 1) << 8 | t;
}

bool
sequence_has_rank(uint64_t mark)
{
    return (mark >> 8 & 0xffffffff) != 0;
}

bool
sequence_same_rank(uint64_t a, uint64_t b)
{
    return (a >> 8 & 0xffffffff) == (b >> 8 & 0xffffffff);
}

static DType
dtype_of(uint64_t mark)
{
    return (DType)(mark & 0xff);
}

static uint32_t
rank_of(uint64_t mark)
{
    return (uint32_t)(mark >> 8 & 0xffffffff) - 1;
}

Sym
sequence_part(Ctx *c, Sym name, int part)
{
    return sym_printf(c, "%s%s", name, part ? ".sizes" : ".items");
}

/* x.items and x.sizes as inputs of the model. rank -1: not declared. */
bool
sequence_input(Model *m, const char *name, DType t, int64_t rank, bool optional, bool list)
{
    Ctx *c = m->c;
    Sym s = sym(c, name), items = sequence_part(c, s, 0), sizes = sequence_part(c, s, 1);
    const Expr *total = expr_symbol(c, arena_printf(m->arena, "%s_elements", name));
    const Expr *dim[2] = { expr_symbol(c, arena_printf(m->arena, "%s_length", name)), NULL };
    uint64_t mark = mark_of(t, rank < 0 ? OPEN_RANK : (uint32_t)rank) |
                    (optional ? list ? OPTIONAL_LIST : OPTIONAL : 0);
    Loc loc = { .file = m->path };
    Var v;

    dim[1] = rank < 0 ? expr_symbol(c, arena_printf(m->arena, "%s_rank", name)) : expr_int(c, rank);
    if (optional && !list && expr_is_var(dim[0], &v))
        expr_symbol_range(c, v, (Interval){ 0, 1 });
    map_put(&m->value, MAP_PTR(s), mark);
    return model_define(m, items, graph_input(m->g, items, type_new(c, t, 1, &total)), loc) &&
           model_define(m, sizes, graph_input(m->g, sizes, type_new(c, DT_I64, 2, dim)), loc);
}

/* ---- reading and making ---------------------------------------------------------------------- */

typedef struct {
    uint64_t mark;
    ValueId items, sizes;
} Sequence;

static ValueId
value_of(Call *k, Sym name)
{
    uint64_t v = 0;
    map_get(&k->m->value, MAP_PTR(name), &v);
    return (ValueId)v;
}

static bool
takes_any_rank(const Call *k)
{
    static const char *const any[] = { "Identity", "SequenceInsert", "SequenceLength",
                                       "OptionalGetElement", "OptionalHasElement" };

    for (size_t i = 0; i < sizeof any / sizeof *any; i++)
        if (!strcmp(any[i], k->proto->op_type))
            return true;
    return false;
}

static bool
read(Call *k, uint32_t i, Sequence *s)
{
    Sym name = i < k->proto->n_input ? sym(k->c, k->proto->input[i]) : sym(k->c, "");

    *s = (Sequence){ 0 };
    map_get(&k->m->value, MAP_PTR(name), &s->mark);
    if (sequence_is(s->mark) && rank_of(s->mark) == OPEN_RANK && !takes_any_rank(k))
        return call_refuse(
            k,
            "a sequence whose items' rank the model does not say; declare the shape of its items");
    if (!sequence_is(s->mark))
        return call_wrong(k, "input %u of %s is no sequence", i, k->proto->op_type);
    s->items = value_of(k, sequence_part(k->c, name, 0));
    s->sizes = value_of(k, sequence_part(k->c, name, 1));
    return true;
}

static void
put(Call *k, Sym name, Sequence s)
{
    map_put(&k->m->value, MAP_PTR(name), s.mark);
    map_put(&k->m->value, MAP_PTR(sequence_part(k->c, name, 0)), s.items);
    map_put(&k->m->value, MAP_PTR(sequence_part(k->c, name, 1)), s.sizes);
}

static bool
give(Call *k, Sequence s)
{
    if (sequence_has_rank(s.mark) && (!s.items || !s.sizes))
        return false;
    put(k, sym(k->c, k->proto->n_output ? k->proto->output[0] : ""), s);
    return true;
}

/* A sequence without items, of that rank. */
static Sequence
empty(Call *k, DType t, uint32_t rank)
{
    const Expr *none = expr_int(k->c, 0), *dim[2] = { none, expr_int(k->c, rank) };
    const void *nothing = arena_alloc(k->arena, 16);

    return (Sequence){ mark_of(t, rank),
                       graph_const(k->m->g, "items", type_new(k->c, t, 1, dim), nothing),
                       graph_const(k->m->g, "sizes", type_new(k->c, DT_I64, 2, dim), nothing) };
}

/* A sequence of n tensors of one type and rank. */
static bool
construct(Call *k, uint32_t n, const ValueId *x, Sequence *s)
{
    ValueId *items = NEW_ARRAY(k->arena, ValueId, n), *sizes = NEW_ARRAY(k->arena, ValueId, n);

    for (uint32_t i = 0; i < n; i++) {
        if (!x[i])
            return call_wrong(k, "item %u of the sequence is absent", i);
        if (value_type(k, x[i])->rank != value_type(k, x[0])->rank ||
            value_type(k, x[i])->dtype != value_type(k, x[0])->dtype)
            return call_refuse(
                k, "a sequence of %s and %s; Tenon needs items of one element type and one rank",
                type_str(k->c, value_type(k, x[0])), type_str(k->c, value_type(k, x[i])));
        items[i] = value_of_text(k, "x", &x[i], "reshape(x, [-1])");
        sizes[i] = value_of_text(k, "x", &x[i], "unsqueeze(shape(x), [0])");
    }
    *s = (Sequence){ mark_of(value_type(k, x[0])->dtype, value_type(k, x[0])->rank),
                     n == 1 ? items[0] : call_concat(k, n, items),
                     n == 1 ? sizes[0] : call_concat(k, n, sizes) };
    return s->items && s->sizes;
}

/* i64[] */
static ValueId
length(Call *k, const Sequence *s)
{
    return s->sizes ? value_of_text(k, "sizes", &s->sizes, "squeeze(shape(sizes)[0])")
                    : value_of_text(k, "", NULL, "i64(0)");
}

/* Texts below read a sequence as items and sizes, and y is the node's result. */
static void
name_sequence(Call *k, const Sequence *s)
{
    call_names(k, "-> y");
    call_name(k, "items", s->items);
    call_name(k, "sizes", s->sizes);
}

/* n: items in the sequence; starts, i64[n + 1]: the begin of each, and the end of the last. */
#define STARTS                                                                                     \
    "n = squeeze(shape(sizes)[0])\n"                                                               \
    "starts = [0, cum_sum(reduce_prod(sizes, [1]) {keepdims = 0}, 0)]\n"
/* p: a position; negative ones count from the end. */
#define POSITION STARTS "p = where(p < 0, p + n, p)\n"
/* to: x[from .. end) along axis 0; the bounds are i64[1]. */
#define PART(to, x, from, end)                                                                     \
    to " = gather(" x ", " from " + iota(match(max(" end " - " from ", 0))))\n"

/* ---- the operators --------------------------------------------------------------------------- */

static int64_t
int_attr(const Call *k, const char *name, int64_t otherwise)
{
    const OnnxAttribute *a = node_attribute(k->proto, name);
    return a ? a->i : otherwise;
}

static bool
read_empty(Call *k)
{
    int64_t t = int_attr(k, "dtype", 1);
    DType dtype = t == (int)t ? dtype_from_onnx((int)t) : DT_NONE;

    if (dtype == DT_NONE)
        return call_refuse(k, "a sequence of ONNX type %s, which Tenon does not have",
                           onnx_type_name(k->arena, (int)t));
    return give(k, (Sequence){ .mark = mark_of(dtype, UINT32_MAX) });
}

static bool
read_construct(Call *k)
{
    Sequence s;

    if (!k->in.n)
        return call_wrong(k, "SequenceConstruct has no input");
    return construct(k, k->in.n, k->in.at, &s) && give(k, s);
}

static bool
read_length(Call *k)
{
    Sequence s;

    if (!read(k, 0, &s))
        return false;
    ValueId n = length(k, &s);
    call_bind(k, 0, n);
    return n != 0;
}

static bool
read_at(Call *k)
{
    Sequence s;

    if (!read(k, 0, &s) || !need_input(k, 1))
        return false;
    if (!s.sizes)
        return call_wrong(k, "the sequence is empty");
    name_sequence(k, &s);
    call_name(k, "p", call_int_list(k, k->in.at[1]));
    return call_text(k, POSITION "shape = match(reshape(gather(sizes, p), [-1]))\n"
                                 "count = reduce_prod(shape) {keepdims = 0}\n"
                                 "at = gather(starts, p) + range(0, count, 1)\n"
                                 "y = reshape(gather(items, at), shape) {allowzero = 1}");
}

/* May it have no items? */
static bool
may_be_empty(Call *k, const Sequence *s)
{
    int64_t n;
    return !s->sizes || !expr_const(value_type(k, s->sizes)->dim[0], &n) || n == 0;
}

/* A sequence of unknown rank must have items of this rank, or none; a sequence of another rank must
 * have none: checks the number of elements of sizes. */
static bool
fix_rank(Call *k, Sequence *s, uint32_t rank)
{
    const Type *t = value_type(k, s->sizes);
    Constraint filled = {
        type_count(k->c, t), expr_scale(k->c, t->dim[0], rank),
        arena_printf(k->c->arena, "%s: the items of the sequence have rank %u, or there are none",
                     k->origin, rank),
        NULL, SIZES_EQUAL
    };
    VEC_PUSH(k->c->arena, &k->m->g->constraints, filled);
    s->sizes = value_of_text(k, "sizes", &s->sizes,
                             "n = reshape(squeeze(shape(sizes)[0]), [-1])\n"
                             "list = gather(reshape(sizes, [-1]), iota(n * %u))\n"
                             "reshape(list, [n, %u]) {allowzero = 1}",
                             rank, rank);
    s->mark = mark_of(dtype_of(s->mark), rank);
    return s->sizes != 0;
}

/* Inserts another sequence before position `at` of s; 0 is its end. */
static bool
insert(Call *k, Sequence *s, const Sequence *x, ValueId at, Sequence *out)
{
    *out = *x;
    if (!s->sizes)
        return true;
    if (rank_of(s->mark) != rank_of(x->mark) && dtype_of(s->mark) == dtype_of(x->mark) &&
        may_be_empty(k, s) && !fix_rank(k, s, rank_of(x->mark)))
        return false;
    out->mark = s->mark;
    if (rank_of(s->mark) != rank_of(x->mark) || dtype_of(s->mark) != dtype_of(x->mark))
        return call_refuse(
            k,
            "an item of another rank or element type; Tenon needs one for all items of a sequence");
    name_sequence(k, s);
    call_name(k, "more_items", x->items);
    call_name(k, "more_sizes", x->sizes);
    if (at)
        call_name(k, "p", call_int_list(k, at));
    if (!call_text(k, "%s",
                   at ? POSITION
                       "cut = gather(starts, p)\n"
                       "n = reshape(n, [-1])\n" PART("front", "items", "[0]", "cut") PART(
                           "rest", "items", "cut",
                           "shape(items)") "items = [front, more_items, rest]\n" PART("front",
                                                                                      "sizes",
                                                                                      "[0]", "p")
                           PART("rest", "sizes", "p",
                                "n") "sizes = concat(front, more_sizes, rest) {axis = 0}"
                      : "items = [items, more_items]\n"
                        "sizes = concat(sizes, more_sizes) {axis = 0}"))
        return false;
    out->items = call_value(k, "items");
    out->sizes = call_value(k, "sizes");
    return true;
}

static bool
read_insert(Call *k)
{
    Sequence s, x, out;

    if (!read(k, 0, &s) || !need_input(k, 1) || !construct(k, 1, &k->in.at[1], &x))
        return false;
    return insert(k, &s, &x, k->in.n > 2 ? k->in.at[2] : 0, &out) && give(k, out);
}

static bool
read_erase(Call *k)
{
    Sequence s;

    if (!read(k, 0, &s))
        return false;
    if (!s.sizes)
        return call_wrong(k, "the sequence is empty");
    name_sequence(k, &s);
    call_name(k, "p", k->in.n > 1 ? call_int_list(k, k->in.at[1]) : 0);
    if (!call_text(
            k, "!p? p = [-1]\n" POSITION "next = p + 1\n"
               "n = reshape(n, [-1])\n"
               "cut = gather(starts, p)\n"
               "on = gather(starts, next)\n" PART("front", "items", "[0]", "cut")
                   PART("rest", "items", "on",
                        "shape(items)") "items = [front, rest]\n" PART("front", "sizes", "[0]", "p")
                       PART("rest", "sizes", "next", "n") "sizes = concat(front, rest) {axis = 0}"))
        return false;
    return give(k, (Sequence){ s.mark, call_value(k, "items"), call_value(k, "sizes") });
}

/* rows: shapes of the items, sizes, with an axis inserted. */
static bool
read_fresh_axis(Call *k, int64_t axis, uint32_t rank)
{
    int64_t every[TN_MAX_RANK];
    const char *before = "", *behind = "";

    for (uint32_t d = 0; d < rank; d++)
        every[d] = d;
    if (axis)
        before = arena_printf(k->arena, "gather(sizes, %s) {axis = 1}, ",
                              ints_text(k, (uint32_t)axis, every));
    if (axis < rank)
        behind = arena_printf(k->arena, ", gather(sizes, %s) {axis = 1}",
                              ints_text(k, rank - (uint32_t)axis, every + axis));
    return call_text(k,
                     "ones = expand(1, [reshape(n, [-1]), 1])\n"
                     "rows = concat(%sones%s) {axis = 1}",
                     before, behind);
}

/* outer, inner: the number of elements outside and inside of the axis, by the list `shape`. */
static bool
read_around(Call *k, uint32_t axis, uint32_t rank)
{
    if (!call_text(k, "outer = 1\ninner = 1"))
        return false;
    for (uint32_t d = 0; d < rank; d++)
        if (d != axis && !call_text(k,
                                    d < axis ? "outer = outer * squeeze(shape[%u])"
                                             : "inner = inner * squeeze(shape[%u])",
                                    d))
            return false;
    return true;
}

/* Joins all items along an axis, or along a new one. Element (o, j, i) of the result is from the
 * item that position j is in: o and i are the elements outside and inside of the axis, equal for
 * all items. */
static bool
read_concat(Call *k)
{
    Sequence s;
    bool fresh = int_attr(k, "new_axis", 0) != 0;
    int64_t axis = int_attr(k, "axis", 0);

    if (!read(k, 0, &s))
        return false;
    if (!s.sizes)
        return call_wrong(k, "the sequence is empty");
    uint32_t rank = rank_of(s.mark), full = rank + fresh;
    axis += axis < 0 ? full : 0;
    if (axis < 0 || axis >= full || full > TN_MAX_RANK)
        return call_wrong(k, "axis %lld of items of rank %u", (long long)axis, rank);
    name_sequence(k, &s);
    Text shape = { .arena = k->arena };
    for (uint32_t d = 0; d < full; d++)
        text_printf(&shape, d == axis ? "%sreshape(total, [-1])" : "%srow[%u]", d ? ", " : "", d);
    return call_text(k, STARTS "rows = sizes") && (!fresh || read_fresh_axis(k, axis, rank)) &&
           call_text(k,
                     "along = reshape(gather(rows, [%" PRId64 "]) {axis = 1}, [-1])\n"
                     "ends = cum_sum(along, 0)\n"
                     "total = reduce_sum(along, [0]) {keepdims = 0}\n"
                     "row = gather(rows, 0)\n"
                     "shape = match([%s])",
                     axis, text_str(&shape)) &&
           read_around(k, (uint32_t)axis, full) &&
           /* o, j, i as i64[O, 1, 1], i64[S, 1], i64[I] */
           call_text(k,
                     "o = unsqueeze(range(0, outer, 1), [1, 2])\n"
                     "i = range(0, inner, 1)\n"
                     "j = iota(shape[%" PRId64 "])\n"
                     "behind = i64(unsqueeze(ends, [0]) <= unsqueeze(j, [1]))\n"
                     "item = reduce_sum(behind, [1]) {keepdims = 0}\n"
                     "width = gather(along, item)\n"
                     "local = j - (gather(ends, item) - width)\n"
                     "begin = unsqueeze(gather(starts, item), [1])\n"
                     "at = o * unsqueeze(width, [1]) + unsqueeze(local, [1])\n"
                     "at = at * inner + begin + i\n"
                     "y = reshape(gather(items, at), shape) {allowzero = 1}",
                     axis);
}

/* drop: parts of one, without the axis */
static bool
split_into(Call *k, ValueId x, int64_t axis, ValueId sizes, uint32_t n, bool drop)
{
    ValueId out[64];
    Sequence s;
    Attr along = { .name = sym(k->c, "axis"), .kind = ATTR_INT, .i = axis };
    OpNode split = call_node(k, OP_split, 1, &along, 2, (ValueId[]){ x, sizes });

    if (!sizes || !graph_infer_op(k->m->g, &split, n, NULL, out))
        return false;
    for (uint32_t i = 0; i < n && drop; i++)
        out[i] = value_of_text(k, "x", VALUES(out[i]), "squeeze(x, [%" PRId64 "])", axis);
    return construct(k, n, out, &s) && give(k, s);
}

/* Splits into parts of `each` along the axis, the last of which may be smaller; drop: parts of one,
 * without the axis. Element t of all items is in part t / (O each I), where O and I are the numbers
 * of elements outside and inside of the axis. */
static bool
split_evenly(Call *k, ValueId x, uint32_t axis, ValueId each, bool drop)
{
    const Type *t = value_type(k, x);
    uint32_t rank = 0;
    Text columns = { .arena = k->arena };

    name_sequence(k, &(Sequence){ 0 });
    call_name(k, "x", x);
    call_name(k, "each", each);
    if (!call_text(k,
                   "shape = shape(x)\n"
                   "n = squeeze(shape[%u])\n"
                   "s = max(i64(each), 1)\n"
                   "count = match(reshape((n + (s - 1)) / s, [-1]), x.%u)\n"
                   "part = iota(count)\n"
                   "width = min(s, n - part * s)",
                   axis, axis) ||
        !read_around(k, axis, t->rank))
        return false;
    for (uint32_t d = 0; d < t->rank; d++)
        if (d != axis)
            text_printf(&columns, "%sunsqueeze(expand(shape[%u], count), [1])", rank++ ? ", " : "",
                        d);
        else if (!drop)
            text_printf(&columns, "%sunsqueeze(width, [1])", rank++ ? ", " : "");
    if (!call_text(k,
                   rank ? "sizes = concat(%s) {axis = 1}"
                        : "sizes = slice(unsqueeze(width, [1]), [0], [0], [1])%s",
                   text_str(&columns)) ||
        !call_text(k, "all = reshape(x, [-1])\n"
                      "at = range(0, size(all), 1)\n"
                      "p = at / (outer * s * inner)\n"
                      "rest = at - p * (outer * s * inner)\n"
                      "w = min(s, n - p * s)\n"
                      "row = rest / (w * inner)\n"
                      "from = row * n + (p * s + mod(rest / inner, w))\n"
                      "items = gather(all, from * inner + mod(rest, inner))"))
        return false;
    return give(
        k, (Sequence){ mark_of(t->dtype, rank), call_value(k, "items"), call_value(k, "sizes") });
}

/* Splits into parts known at compile time: `split` of them, or parts of that size, or of 1. */
static bool
read_split(Call *k)
{
    ValueId x = k->in.n ? k->in.at[0] : 0, given = k->in.n > 1 ? k->in.at[1] : 0;
    const Type *t = x ? value_type(k, x) : NULL;
    int64_t axis = int_attr(k, "axis", 0), extent, size[64], n = 0, each = 1;
    const Known *known = given ? &k->m->g->value.at[given].known : NULL;
    bool drop = !given && !int_attr(k, "keepdims", 1);

    axis += t && axis < 0 ? t->rank : 0;
    if (!t || axis < 0 || axis >= t->rank)
        return call_wrong(k, "SplitToSequence along axis %lld", (long long)axis);
    if (given && !known->at && value_type(k, given)->rank == 0)
        return split_evenly(k, x, (uint32_t)axis, given, false);
    if (given && !known->at) {
        const Expr *most[64];
        for (int i = 0; i < 64; i++)
            most[i] = t->dim[axis];
        int64_t count;
        if (!expr_const(type_count(k->c, value_type(k, given)), &count) || count > 64)
            return call_refuse(k, "SplitToSequence into %s parts; 64 are possible",
                               type_str(k->c, value_type(k, given)));
        given = call_match(k, call_int_list(k, given), most);
        return split_into(k, x, axis, given, (uint32_t)count, false);
    }
    if (!expr_const(t->dim[axis], &extent) && given && value_type(k, given)->rank == 1)
        return known->n <= 64
                   ? split_into(k, x, axis, given, known->n, false)
                   : call_refuse(k, "SplitToSequence into %u parts; 64 are possible", known->n);
    if (!expr_const(t->dim[axis], &extent))
        return split_evenly(k, x, (uint32_t)axis,
                            given ? given : value_of_text(k, "", NULL, "i64(1)"), drop);
    if (given && value_type(k, given)->rank == 1) {
        for (n = 0; n < known->n && n < 64; n++)
            if (!expr_const(known->at[n], &size[n]))
                return call_refuse(k,
                                   "SplitToSequence into parts that depend on the inputs' sizes");
        n = known->n;
    } else {
        if (given && (!expr_const(known->at[0], &each) || each < 1))
            return call_refuse(k, "SplitToSequence into parts of a size that is not known");
        if (extent / each > 64)
            return split_evenly(k, x, (uint32_t)axis,
                                given ? given : value_of_text(k, "", NULL, "i64(1)"), drop);
        for (int64_t left = extent; left > 0; left -= each, n++)
            if (n < 64)
                size[n] = left < each ? left : each;
    }
    if (n < 1 || n > 64)
        return call_refuse(k, "SplitToSequence into %lld parts; 1 to 64 are possible",
                           (long long)n);
    return split_into(k, x, axis, call_ints(k, "sizes", (uint32_t)n, size), (uint32_t)n, drop);
}

/* ---- optionals ------------------------------------------------------------------------------- */

static uint64_t
mark_at(const Call *k, uint32_t i)
{
    uint64_t v = 0;

    if (i < k->proto->n_input)
        map_get(&k->m->value, MAP_PTR(sym(k->c, k->proto->input[i])), &v);
    return v;
}

static bool
read_has_element(Call *k)
{
    uint64_t mark = mark_at(k, 0);
    Sequence s;
    uint8_t there = mark != 0;
    ValueId v = graph_const(k->m->g, "there", type_new(k->c, DT_BOOL, 0, NULL),
                            arena_copy(k->arena, &there, 1));

    if (sequence_is(mark) && mark & OPTIONAL_LIST)
        return call_refuse(
            k, "whether an optional sequence is there; Tenon knows it by its items alone");
    if (sequence_is(mark) && mark & OPTIONAL) {
        if (!read(k, 0, &s))
            return false;
        v = value_of_text(k, "n", VALUES(length(k, &s)), "n > 0");
    }
    call_bind(k, 0, v);
    return v != 0;
}

static bool
read_get_element(Call *k)
{
    uint64_t mark = mark_at(k, 0);
    Sequence s;

    if (!mark)
        return call_wrong(k, "OptionalGetElement of nothing");
    if (!sequence_is(mark)) {
        ValueId v = call_op(k, OP_identity, 0, NULL, 1, &k->in.at[0], k->proto->output[0]);
        call_bind(k, 0, v);
        return v != 0;
    }
    if (mark & OPTIONAL) {
        set_input(k, 1, value_of_text(k, "", NULL, "i64(0)"));
        return read_at(k);
    }
    if (!read(k, 0, &s))
        return false;
    s.mark &= ~OPTIONAL_LIST;
    return give(k, s);
}

static bool
read_optional(Call *k)
{
    uint64_t mark = mark_at(k, 0);
    const OnnxAttribute *a = node_attribute(k->proto, "type");
    const OnnxType *t = a ? a->tp : NULL;
    Sequence s;

    if (sequence_is(mark)) {
        if (!read(k, 0, &s))
            return false;
        s.mark |= OPTIONAL_LIST;
        return give(k, s);
    }
    if (mark) {
        if (!construct(k, 1, k->in.at, &s))
            return false;
        s.mark |= OPTIONAL;
        return give(k, s);
    }
    bool list = t && t->value_case == ONNX_SEQUENCE_TYPE;
    if (list)
        t = t->sequence_type->elem_type;
    if (!tensor_type(t) || dtype_from_onnx(t->tensor_type->elem_type) == DT_NONE)
        return call_refuse(k, "Optional without an element, of a type that Tenon does not have");
    DType dtype = dtype_from_onnx(t->tensor_type->elem_type);
    s = t->tensor_type->shape ? empty(k, dtype, (uint32_t)t->tensor_type->shape->n_dim)
                              : (Sequence){ .mark = mark_of(dtype, UINT32_MAX) };
    s.mark |= list ? OPTIONAL_LIST : OPTIONAL;
    return give(k, s);
}

static bool
read_identity(Call *k)
{
    Sequence s;
    return read(k, 0, &s) && give(k, s);
}

/* An initial value without a rank gets the one that a loop's body finds. */
bool
sequence_settle(Call *k, Sym name, uint64_t mark)
{
    Sequence s = { 0, value_of(k, sequence_part(k->c, name, 0)),
                   value_of(k, sequence_part(k->c, name, 1)) };

    map_get(&k->m->value, MAP_PTR(name), &s.mark);
    if (sequence_has_rank(s.mark) && !may_be_empty(k, &s))
        return call_refuse(
            k,
            "a carried sequence of items of rank %u, to which an iteration adds one of "
            "rank %u; Tenon needs one rank",
            rank_of(s.mark), rank_of(mark));
    if (!sequence_has_rank(s.mark))
        s = empty(k, dtype_of(mark), rank_of(mark));
    else if (!fix_rank(k, &s, rank_of(mark)))
        return false;
    put(k, name, s);
    return true;
}

/* ---- SequenceMap: a loop over the items, built of ONNX nodes --------------------------------- */

/* The body of the loop: takes an item of each sequence, runs the map's body, and appends its
 * results. */
static OnnxGraph *
map_body(Call *k, const OnnxGraph *body, char *const *in_name)
{
    Arena *a = k->arena;
    OnnxGraph *g = ONNX_NEW(a, Graph);
    size_t nin = body->n_input, nout = body->n_output, at = 0;
    char *const turn = arena_str(a, "map turn"), *const go = arena_str(a, "map go"),
                *const again = arena_str(a, "map again");

    g->name = arena_str(a, "map");
    g->node = NEW_ARRAY(a, OnnxNode *, body->n_node + nin + nout + 1);
    g->input = NEW_ARRAY(a, OnnxValueInfo *, nout + 2);
    g->output = NEW_ARRAY(a, OnnxValueInfo *, nout + 1);
    g->n_input = nout + 2;
    g->n_output = nout + 1;
    g->initializer = body->initializer;
    g->n_initializer = body->n_initializer;
    g->sparse_initializer = body->sparse_initializer;
    g->n_sparse_initializer = body->n_sparse_initializer;
    g->input[0] = made_scalar(a, turn, 7);
    g->input[1] = made_scalar(a, go, 9);
    for (size_t i = 0; i < nin; i++) {
        bool list = sequence_is(mark_at(k, (uint32_t)i));
        OnnxNode *n = made_node(a, list ? "SequenceAt" : "Identity", list ? 2 : 1, 1);
        n->input[0] = in_name[i];
        if (list)
            n->input[1] = turn;
        n->output[0] = body->input[i]->name;
        g->node[at++] = n;
    }
    for (size_t i = 0; i < body->n_node; i++)
        g->node[at++] = body->node[i];
    for (size_t i = 0; i < nout; i++) {
        OnnxNode *n = made_node(a, "SequenceInsert", 2, 1);
        char *before = arena_printf(a, "map %zu", i),
             *after = arena_printf(a, "map %zu and this", i);
        n->input[0] = before;
        n->input[1] = body->output[i]->name;
        n->output[0] = after;
        g->node[at++] = n;
        g->input[2 + i] = made_info(a, before);
        g->output[1 + i] = made_info(a, after);
    }
    OnnxNode *n = made_node(a, "Identity", 1, 1);
    n->input[0] = go;
    n->output[0] = again;
    g->node[at++] = n;
    g->output[0] = made_info(a, again);
    g->n_node = at;
    return g;
}

static bool
read_map(Call *k)
{
    Model *m = k->m;
    Arena *a = m->arena;
    const OnnxAttribute *attr = node_attribute(k->proto, "body");
    const OnnxGraph *body = attr ? attr->g : NULL, *from = m->from;
    size_t nin = k->proto->n_input, nout = k->proto->n_output;

    if (!body || body->n_input != nin || body->n_output < nout || !nin ||
        !sequence_is(mark_at(k, 0)))
        return call_wrong(
            k, "SequenceMap needs a sequence, and a body that takes %zu values and gives %zu", nin,
            nout);
    OnnxGraph *g = ONNX_NEW(a, Graph);
    g->name = arena_str(a, "map");
    g->node = NEW_ARRAY(a, OnnxNode *, body->n_output + 2);
    OnnxNode *length_node = made_node(a, "SequenceLength", 1, 1),
             *loop = made_node(a, "Loop", 2 + body->n_output, body->n_output);
    length_node->input[0] = k->proto->input[0];
    length_node->output[0] = arena_str(a, "map length");
    loop->input[0] = length_node->output[0];
    loop->input[1] = arena_str(a, "");
    g->node[g->n_node++] = length_node;
    g->output = NEW_ARRAY(a, OnnxValueInfo *, nout + 1);
    for (size_t i = 0; i < body->n_output; i++) {
        const OnnxType *t = body->output[i]->type;
        OnnxNode *n = made_node(a, "SequenceEmpty", 0, 1);
        n->output[0] = arena_printf(a, "map empty %zu", i);
        made_int(a, n, "dtype", tensor_type(t) ? t->tensor_type->elem_type : 1);
        loop->input[2 + i] = n->output[0];
        loop->output[i] = i < nout ? k->proto->output[i] : arena_printf(a, "map unused %zu", i);
        g->node[g->n_node++] = n;
        if (i < nout)
            g->output[g->n_output++] = made_info(a, loop->output[i]);
    }
    made_graph(a, loop, "body", map_body(k, body, k->proto->input));
    g->node[g->n_node++] = loop;
    ValueList output = { 0 };
    for (size_t i = 0; i < nout; i++) /* now results of the loop */
        map_put(&m->value, MAP_PTR(sym(m->c, k->proto->output[i])), 0);
    m->from = g;
    bool ok = model_body(m, &output, NULL);
    m->from = from;
    return ok;
}

const OpRow sequence_rows[] = {
    { "SequenceEmpty", OP_NONE, read_empty, .control = true },
    { "SequenceConstruct", OP_NONE, read_construct, .control = true },
    { "SequenceLength", OP_NONE, read_length, .control = true },
    { "SequenceAt", OP_NONE, read_at, "i1 n1", .control = true },
    { "SequenceInsert", OP_NONE, read_insert, "i2 n2", .control = true },
    { "SequenceErase", OP_NONE, read_erase, "i1 n1", .control = true },
    { "ConcatFromSequence", OP_NONE, read_concat, .control = true },
    { "SplitToSequence", OP_NONE, read_split, "i1", .control = true },
    { "OptionalHasElement", OP_NONE, read_has_element, .control = true },
    { "OptionalGetElement", OP_NONE, read_get_element, .control = true },
    { "Optional", OP_NONE, read_optional, .control = true },
    { "SequenceMap", OP_NONE, read_map, .control = true },
    { 0 },
};

const OpRow *
sequence_row(const Call *k, const OpRow *row)
{
    static const OpRow identity = { "Identity", OP_identity, read_identity, .control = true };

    return row && !strcmp(row->onnx, "Identity") && sequence_is(mark_at(k, 0)) ? &identity : row;
}
