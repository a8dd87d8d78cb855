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
#include "import/sequence.h"
#include "op/kinds.h"

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

uint64_t
sequence_mark(DType t, uint32_t rank) /* rank UINT32_MAX: none yet */
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

uint32_t
sequence_rank(uint64_t mark)
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
    uint64_t mark = sequence_mark(t, rank < 0 ? OPEN_RANK : (uint32_t)rank) |
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

uint64_t
sequence_entry(const Call *k, uint32_t i)
{
    uint64_t v = 0;

    if (i < k->proto->n_input)
        map_get(&k->m->value, MAP_PTR(sym(k->c, k->proto->input[i])), &v);
    return v;
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

static void
name_both(Call *k, ValueId items, ValueId sizes)
{
    call_name(k, "items", items);
    call_name(k, "sizes", sizes);
}

bool
sequence_read(Call *k, uint32_t i, bool may_be_empty, Sequence *s)
{
    const uint64_t mark = sequence_entry(k, i);
    const char *name = i < k->proto->n_input ? k->proto->input[i] : "";

    if (sequence_is(mark) && sequence_rank(mark) == OPEN_RANK && !takes_any_rank(k))
        return call_refuse(
            k,
            "a sequence whose items' rank the model does not say; declare the shape of its items");
    if (!sequence_is(mark))
        return call_wrong(k, "input %u of %s is no sequence", i, k->proto->op_type);
    *s = (Sequence){ mark, inside_outer(k, sequence_part(k->c, name, 0)),
                     inside_outer(k, sequence_part(k->c, name, 1)) };
    if (!s->sizes && !may_be_empty)
        return call_wrong(k, "the sequence is empty");
    call_names(k, "-> y");
    name_both(k, s->items, s->sizes);
    return true;
}

static void
put(Call *k, Sym name, uint64_t mark)
{
    map_put(&k->m->value, MAP_PTR(name), mark);
    map_put(&k->m->value, MAP_PTR(sequence_part(k->c, name, 0)), call_value(k, "items"));
    map_put(&k->m->value, MAP_PTR(sequence_part(k->c, name, 1)), call_value(k, "sizes"));
}

bool
sequence_give(Call *k, uint64_t mark)
{
    if (sequence_has_rank(mark) && (!call_value(k, "items") || !call_value(k, "sizes")))
        return false;
    k->results = NULL;
    put(k, sym(k->c, output_name(k, "")), mark);
    return true;
}

/* Names those of a sequence without items; its mark. rank UINT32_MAX: none yet. */
static uint64_t
empty(Call *k, DType t, uint32_t rank)
{
    const Expr *none = expr_int(k->c, 0), *dim[2] = { none, expr_int(k->c, rank) };
    const void *nothing = arena_alloc(k->arena, 16);

    name_both(k, 0, 0);
    if (rank != UINT32_MAX) {
        call_name(k, "items", graph_const(k->m->g, "items", type_new(k->c, t, 1, dim), nothing));
        call_name(k, "sizes",
                  graph_const(k->m->g, "sizes", type_new(k->c, DT_I64, 2, dim), nothing));
    }
    return sequence_mark(t, rank);
}

bool
sequence_construct(Call *k, uint32_t n, const ValueId *x, uint64_t *mark)
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
    call_name(k, "items", n == 1 ? items[0] : call_concat(k, n, items));
    call_name(k, "sizes", n == 1 ? sizes[0] : call_concat(k, n, sizes));
    *mark = sequence_mark(value_type(k, x[0])->dtype, value_type(k, x[0])->rank);
    return true;
}

int64_t
sequence_attr(const Call *k, const char *name, int64_t otherwise)
{
    const OnnxAttribute *a = node_attribute(k->proto, name);
    return a ? a->i : otherwise;
}

/* p: a position; negative ones count from the end. */
#define POSITION STARTS "p = where(p < 0, p + n, p)\n"
/* to: x[from .. end) along axis 0; the bounds are i64[1]. */
#define PART(to, x, from, end)                                                                     \
    to " = gather(" x ", " from " + iota(match(max(" end " - " from ", 0))))\n"

/* ---- the operators --------------------------------------------------------------------------- */

static bool
read_empty(Call *k)
{
    const int64_t t = sequence_attr(k, "dtype", 1);
    const DType dtype = t == (int)t ? dtype_from_onnx((int)t) : DT_NONE;

    if (dtype == DT_NONE)
        return call_refuse(k, "a sequence of ONNX type %s, which Tenon does not have",
                           onnx_type_name(k->arena, (int)t));
    return sequence_give(k, empty(k, dtype, UINT32_MAX));
}

static bool
read_construct(Call *k)
{
    uint64_t mark;

    if (!k->in.n)
        return call_wrong(k, "SequenceConstruct has no input");
    return sequence_construct(k, k->in.n, k->in.at, &mark) && sequence_give(k, mark);
}

#define LENGTH                                                                                     \
    "sizes? y = squeeze(shape(sizes)[0])\n"                                                        \
    "!sizes? y = i64(0)\n"

static bool
read_length(Call *k)
{
    Sequence s;

    return sequence_read(k, 0, true, &s) && call_text(k, LENGTH);
}

/* The item at position p. */
static bool
item_at(Call *k, ValueId p)
{
    call_name(k, "p", p);
    return call_text(k, POSITION "shape = match(reshape(gather(sizes, p), [-1]))\n"
                                 "count = reduce_prod(shape) {keepdims = 0}\n"
                                 "at = gather(starts, p) + range(0, count, 1)\n"
                                 "y = reshape(gather(items, at), shape) {allowzero = 1}");
}

static bool
read_at(Call *k)
{
    Sequence s;

    return sequence_read(k, 0, false, &s) && need_input(k, 1) &&
           item_at(k, call_int_list(k, k->in.at[1]));
}

/* May it have no items? */
static bool
may_be_empty(Call *k, const Sequence *s)
{
    int64_t n;
    return !s->sizes || !expr_const(value_type(k, s->sizes)->dim[0], &n) || n == 0;
}

/* A sequence of unknown rank must have items of this rank, or none; a sequence of another rank must
 * have none: checks the number of elements of `sizes`. */
static bool
fix_rank(Call *k, uint32_t rank)
{
    const Type *t = call_type(k, "sizes");
    Constraint filled = {
        type_count(k->c, t), expr_scale(k->c, t->dim[0], rank),
        arena_printf(k->c->arena, "%s: the items of the sequence have rank %u, or there are none",
                     k->origin, rank),
        NULL, SIZES_EQUAL
    };
    VEC_PUSH(k->c->arena, &k->m->g->constraints, filled);
    call_number(k, "rank", rank);
    return call_text(k, "n = reshape(squeeze(shape(sizes)[0]), [-1])\n"
                        "list = gather(reshape(sizes, [-1]), iota(n * $rank))\n"
                        "sizes = reshape(list, [n, $rank]) {allowzero = 1}");
}

/* Inserts an item before a position, or at the end. */
static bool
read_insert(Call *k)
{
    Sequence s;
    uint64_t mark;

    if (!sequence_read(k, 0, true, &s) || !need_input(k, 1) ||
        !sequence_construct(k, 1, &k->in.at[1], &mark))
        return false;
    if (!s.sizes)
        return sequence_give(k, mark);
    const ValueId items = call_value(k, "items"), sizes = call_value(k, "sizes");
    const bool same_type = dtype_of(s.mark) == dtype_of(mark),
               same_rank = sequence_same_rank(s.mark, mark);
    name_both(k, s.items, s.sizes);
    if (!same_type || (!same_rank && !may_be_empty(k, &s)))
        return call_refuse(
            k,
            "an item of another rank or element type; Tenon needs one for all items of a sequence");
    if (!same_rank && !fix_rank(k, sequence_rank(mark)))
        return false;
    call_name(k, "more_items", items);
    call_name(k, "more_sizes", sizes);
    call_name(k, "p", call_int_list(k, call_in(k, 2)));
    return call_run(k,
                    call_in(k, 2) ? POSITION
                        "cut = gather(starts, p)\n"
                        "n = reshape(n, [-1])\n" PART("front", "items", "[0]", "cut") PART(
                            "rest", "items", "cut",
                            "shape(items)") "items = [front, more_items, rest]\n" PART("front",
                                                                                       "sizes",
                                                                                       "[0]", "p")
                            PART("rest", "sizes", "p",
                                 "n") "sizes = concat(front, more_sizes, rest) {axis = 0}"
                                  : "items = [items, more_items]\n"
                                    "sizes = concat(sizes, more_sizes) {axis = 0}") &&
           sequence_give(k, same_rank ? s.mark : mark);
}

static bool
read_erase(Call *k)
{
    Sequence s;

    if (!sequence_read(k, 0, false, &s))
        return false;
    call_name(k, "p", call_int_list(k, call_in(k, 1)));
    return call_run(k,
                    "!p? p = [-1]\n" POSITION "next = p + 1\n"
                    "n = reshape(n, [-1])\n"
                    "cut = gather(starts, p)\n"
                    "on = gather(starts, next)\n" PART("front", "items", "[0]", "cut")
                        PART("rest", "items", "on", "shape(items)") "items = [front, rest]\n" PART(
                            "front", "sizes", "[0]", "p")
                            PART("rest", "sizes", "next",
                                 "n") "sizes = concat(front, rest) {axis = 0}") &&
           sequence_give(k, s.mark);
}

/* ---- optionals ------------------------------------------------------------------------------- */

static bool
read_has_element(Call *k)
{
    const uint64_t mark = sequence_entry(k, 0);
    const uint8_t there = mark != 0;
    Sequence s;

    if (sequence_is(mark) && mark & OPTIONAL_LIST)
        return call_refuse(
            k, "whether an optional sequence is there; Tenon knows it by its items alone");
    if (sequence_is(mark) && mark & OPTIONAL)
        return sequence_read(k, 0, true, &s) && call_text(k, LENGTH "y = y > 0");
    call_bind(k, 0,
              graph_const(k->m->g, "there", type_new(k->c, DT_BOOL, 0, NULL),
                          arena_copy(k->arena, &there, 1)));
    return true;
}

static bool
read_get_element(Call *k)
{
    const uint64_t mark = sequence_entry(k, 0);
    Sequence s;

    if (!mark)
        return call_wrong(k, "OptionalGetElement of nothing");
    if (!sequence_is(mark))
        return call_says(k, "x -> y", "y = identity(x)");
    if (!sequence_read(k, 0, !(mark & OPTIONAL), &s))
        return false;
    return mark & OPTIONAL ? item_at(k, value_of_text(k, "", NULL, "[0]"))
                           : sequence_give(k, mark & ~OPTIONAL_LIST);
}

static bool
read_optional(Call *k)
{
    uint64_t mark = sequence_entry(k, 0);
    const OnnxAttribute *a = node_attribute(k->proto, "type");
    const OnnxType *t = a ? a->tp : NULL;
    Sequence s;

    if (sequence_is(mark))
        return sequence_read(k, 0, true, &s) && sequence_give(k, mark | OPTIONAL_LIST);
    if (mark)
        return sequence_construct(k, 1, k->in.at, &mark) && sequence_give(k, mark | OPTIONAL);
    const bool list = t && t->value_case == ONNX_SEQUENCE_TYPE;
    t = list ? t->sequence_type->elem_type : t;
    const DType dtype = tensor_type(t) ? dtype_from_onnx(t->tensor_type->elem_type) : DT_NONE;
    if (dtype == DT_NONE)
        return call_refuse(k, "Optional without an element, of a type that Tenon does not have");
    const OnnxShape *shape = t->tensor_type->shape;
    mark = empty(k, dtype, shape ? (uint32_t)shape->n_dim : UINT32_MAX);
    return sequence_give(k, mark | (list ? OPTIONAL_LIST : OPTIONAL));
}

static bool
read_identity(Call *k)
{
    Sequence s;
    return sequence_read(k, 0, true, &s) && sequence_give(k, s.mark);
}

/* An initial value without a rank gets the one that a loop's body finds. */
bool
sequence_settle(Call *k, Sym name, uint64_t mark)
{
    Sequence s = { 0, inside_outer(k, sequence_part(k->c, name, 0)),
                   inside_outer(k, sequence_part(k->c, name, 1)) };

    map_get(&k->m->value, MAP_PTR(name), &s.mark);
    if (sequence_has_rank(s.mark) && !may_be_empty(k, &s))
        return call_refuse(
            k,
            "a carried sequence of items of rank %u, to which an iteration adds one of "
            "rank %u; Tenon needs one rank",
            sequence_rank(s.mark), sequence_rank(mark));
    name_both(k, s.items, s.sizes);
    if (!sequence_has_rank(s.mark))
        empty(k, dtype_of(mark), sequence_rank(mark));
    else if (!fix_rank(k, sequence_rank(mark)))
        return false;
    put(k, name,
        sequence_mark(dtype_of(sequence_has_rank(s.mark) ? s.mark : mark), sequence_rank(mark)));
    return true;
}

const OpRow sequence_rows[] = {
    { "SequenceEmpty", OP_NONE, read_empty, .control = true },
    { "SequenceConstruct", OP_NONE, read_construct, .control = true },
    { "SequenceLength", OP_NONE, read_length, .control = true },
    { "SequenceAt", OP_NONE, read_at, "i1 n1", .control = true },
    { "SequenceInsert", OP_NONE, read_insert, "i2 n2", .control = true },
    { "SequenceErase", OP_NONE, read_erase, "i1 n1", .control = true },
    { "ConcatFromSequence", OP_NONE, sequence_concat, .control = true },
    { "SplitToSequence", OP_NONE, sequence_split, "i1", .control = true },
    { "OptionalHasElement", OP_NONE, read_has_element, .control = true },
    { "OptionalGetElement", OP_NONE, read_get_element, .control = true },
    { "Optional", OP_NONE, read_optional, .control = true },
    { "SequenceMap", OP_NONE, sequence_map, .control = true },
    { 0 },
};

const OpRow *
sequence_row(const Call *k, const OpRow *row)
{
    static const OpRow identity = { "Identity", OP_identity, read_identity, .control = true };

    return row && !strcmp(row->onnx, "Identity") && sequence_is(sequence_entry(k, 0)) ? &identity
                                                                                      : row;
}
