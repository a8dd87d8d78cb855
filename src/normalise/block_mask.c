/* block_mask: tables of the blocks of scores that a mask shows, where only data know.
 *
 *     s[h, i, j] = q[h, i, j] + m[i, j]          max j: s[h, i, j], exp(s[h, i, j] - …)
 *
 *     sees[i]    = max j: m[i, j] > -9000        does row i see anything?
 *     seen[I, j] = max i of I: m[i, j] > -9000 or not sees[i]
 *     used[I, J] = max j of J: seen[I, j]
 *     s[h, i, j] = seen(used[i // 16, j // 16], q[h, i, j] + m[i, j])
 *
 * A table of one byte for each block, made by nests: folded if the mask is constant, otherwise
 * computed once for all layers that read the mask. A program then skips blocks that no row sees
 * (the step `omit`, kernel/support.h). If a row sees nothing, all of its blocks count as used: its
 * softmax is the mean, or a NaN, as before.
 *
 * If all of a condition but a comparison is the same for a block of keys, the table reads it once a
 * block:
 *
 *     j <= i and layout[h, j // 16, i]     for some j of J     16*J <= i and layout[h, J, i]
 *
 * A score is hidden by a select of a very low number, or by adding one. An addend may be a mask if
 * it is a constant that holds such numbers, was made with one, or is an input of floats.
 */
#include "algebra/algebra.h"
#include "normalise/normalise.h"

#include "nest/walk.h"

#include <string.h>

/* Rows and keys of a block: a task's rows are a multiple of these rows, and programs skip one, two
 * or four blocks of these keys at once (schedule/write_group.c). */
enum {
    BLOCK_ROWS = 16,
    BLOCK_KEYS = 16,
    LEAST_KEYS = 128,
    LEAST_AT_ONCE = 16
}; /* keys that a condition may treat as one */

typedef enum { UNASKED, NEVER, MAYBE } Hides;

enum { MOST_PASSED = 64 }; /* nodes that pass a mask on to the scores; bounds recursion */

/* A table, by the nest that makes it and the values that it reads. */
typedef struct {
    const Nest *nest;
    const ValueId *in;
    ValueId out;
} MaskTable;

typedef struct {
    Ctx *c;
    Arena *a;
    const Graph *from;
    Graph *to;
    ValueId *map;
    /* [value] the dimension along which a maximum of it is taken, + 1; 0: none */
    uint32_t *along;
    uint8_t *hides;       /* [value] Hides: may it hold a number that hides? */
    VEC(MaskTable) table; /* made so far */
} Masks;

/* ---- what hides ------------------------------------------------------------------------------ */

static bool
is_hiding(const Scalar *s)
{
    double v;

    if (s->op == S_CAST)
        return is_hiding(s->arg[0]);
    if (s->op != S_CONST || !dtype_is_float(s->dtype))
        return false;
    memcpy(&v, &s->u.bits, sizeof v);
    return v <= NORMALISE_HIDES;
}

static bool
holds_hiding(Ctx *c, const Value *v)
{
    const Type *t = v->type;
    int64_t n;

    if (v->format || !dtype_is_float(t->dtype) || !expr_const(type_count(c, t), &n))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (number_get(t->dtype, v->data, i) <= NORMALISE_HIDES)
            return true;
    return false;
}

/* A constant may hide if it holds such a number; a node's result if the node contains one, or only
 * passes on what may hide; and any input. */
static bool
may_hide(const Masks *m, ValueId v, int left)
{
    const Value *value = &m->from->value.at[v];
    const Node *n = &m->from->node.at[value->def];
    bool found = false;

    if (m->hides[v] != UNASKED || !left)
        return m->hides[v] == MAYBE;
    m->hides[v] = NEVER;
    if (value->data) {
        found = holds_hiding(m->c, value);
    } else if (!value->def) {
        found = dtype_is_float(value->type->dtype);
    } else if (n->callee == CALL_NEST && n->nest->nwrite == 1 &&
               !nest_axes_of_kind(n->nest, AXIS_REDUCE) && !nest_axes_of_kind(n->nest, AXIS_SCAN)) {
        FOR_EACH_SCALAR (s, scalar_nodes(m->c, n->nest->write[0].value))
            found |= is_hiding(s);
        for (uint32_t i = 0; i < n->in.count && !found; i++)
            found = may_hide(m, node_in(m->from, n, i), left - 1);
    }
    m->hides[v] = found ? MAYBE : NEVER;
    return found;
}

/* ---- what is made of rows -------------------------------------------------------------------- */

/* A node, with a nest and its operands, of the old graph: its own, or with its producers
 * inlined. */
typedef struct {
    const Node *node;
    const Nest *nest;
    ValueId *in;
} MaskNode;

static MaskNode
source_of(const Masks *m, const Node *n)
{
    MaskNode s = { n, n->callee == CALL_NEST ? n->nest : NULL,
                   NEW_ARRAY(m->a, ValueId, n->in.count + 1) };

    for (uint32_t i = 0; i < n->in.count; i++)
        s.in[i] = node_in(m->from, n, i);
    return s;
}

/* of a mask, at each point: a window or a kind of key, a select */
enum { FEW_OPERATIONS = 12, MOST_MADE = 4 }; /* nests inlined into each other; bounds work */

static AxisSet
axes_of(const Scalar *load)
{
    AxisSet axes = 0;

    for (uint32_t d = 0; d < load->u.load.rank; d++)
        axes |= expr_axes(load->u.load.at[d]);
    return axes;
}

/* Is each element made of elements of smaller tensors in a few operations, a comparison of each
 * row's number with each key's? Then it need not be stored. */
static bool
is_outer(const Masks *m, ValueId v, int left)
{
    const Node *n = &m->from->node.at[m->from->value.at[v].def];
    AxisSet all = 0;

    if (!m->from->value.at[v].def || n->callee != CALL_NEST || n->nest->nout != 1 ||
        n->nest->nwrite != 1 || !write_is_plain(m->c, n->nest, &n->nest->write[0]) ||
        nest_axes_of_kind(n->nest, AXIS_REDUCE) || nest_axes_of_kind(n->nest, AXIS_SCAN) ||
        scalar_size(m->c, n->nest->write[0].value) > FEW_OPERATIONS)
        return false;
    for (uint32_t x = 0; x < n->nest->naxis; x++)
        all |= expr_is(n->nest->axis[x].extent, 1) ? 0 : axis_one(x);
    Accesses reads = nest_accesses(m->c, m->a, n->nest);
    for (uint32_t i = 0; i < reads.n; i++) {
        const Scalar *load = reads.at[i].load;
        bool computed = false;
        for (uint32_t d = 0; d < load->u.load.rank; d++)
            computed |= expr_uses_kind(load->u.load.at[d], VAR_COMPUTED);
        if (computed || load->u.load.slot >= n->nest->nin ||
            ((axes_of(load) & all) == all &&
             (!left || !is_outer(m, node_in(m->from, n, load->u.load.slot), left - 1))))
            return false;
    }
    return reads.n > 0;
}

/* Inlines such producers of its inputs. */
static void
inline_outer(const Masks *m, MaskNode *s)
{
    for (uint32_t slot = 0; slot < s->nest->nin;) {
        ValueId v = s->in[slot];
        const Nest *with =
            is_outer(m, v, MOST_MADE)
                ? nest_inline(m->c, s->nest, slot, m->from->node.at[m->from->value.at[v].def].nest)
                : NULL;
        if (!with) {
            slot++;
            continue;
        }
        const Node *maker = &m->from->node.at[m->from->value.at[v].def];
        uint32_t others = s->nest->nin - 1;
        ValueId *in = NEW_ARRAY(m->a, ValueId, others + maker->in.count + 1);
        for (uint32_t i = 0, k = 0; i <= others; i++)
            if (i != slot)
                in[k++] = s->in[i];
        for (uint32_t i = 0; i < maker->in.count; i++)
            in[others + i] = node_in(m->from, maker, i);
        *s = (MaskNode){ s->node, with, in };
        slot = 0;
    }
}

/* ---- what is shown --------------------------------------------------------------------------- */

/* Such a number, or a constant that is one. */
static bool
is_hidden(const Masks *m, const MaskNode *node, const Scalar *s)
{
    const Value *v = s->op == S_LOAD && s->u.load.slot < node->nest->nin
                         ? &m->from->value.at[node->in[s->u.load.slot]]
                         : NULL;

    return is_hiding(s) ||
           (v && v->data && expr_is(type_count(m->c, v->type), 1) && holds_hiding(m->c, v));
}

static const Scalar *
both(Ctx *c, const Scalar *x, const Scalar *y)
{
    return x && y ? scalar_2(c, S_AND, x, y) : x ? x : y;
}

/* The condition that is false where s is hidden. NULL: nothing hides it. */
static const Scalar *
shown(const Masks *m, const MaskNode *node, const Scalar *s)
{
    Ctx *c = m->c;

    switch ((ScalarOp)s->op) {
    case S_ADD:
    case S_MIN: return both(c, shown(m, node, s->arg[0]), shown(m, node, s->arg[1]));
    case S_SUB:
    case S_CAST: return dtype_is_float(s->arg[0]->dtype) ? shown(m, node, s->arg[0]) : NULL;
    case S_SELECT:
        if (is_hidden(m, node, s->arg[2]))
            return both(c, s->arg[0], shown(m, node, s->arg[1]));
        return is_hidden(m, node, s->arg[1])
                   ? both(c, scalar_1(c, S_NOT, s->arg[0]), shown(m, node, s->arg[2]))
                   : NULL;
    case S_LOAD:
        if (s->u.load.slot >= node->nest->nin ||
            !may_hide(m, node->in[s->u.load.slot], MOST_PASSED))
            return NULL;
        return scalar_2(c, S_GT, s, scalar_float(c, s->dtype, NORMALISE_HIDES));
    default: return NULL;
    }
}

/* A table can be made of reads at indices; reading a byte takes less time than computing its score,
 * and a constant is computed now (*bytes: all reads are of such). */
static bool
reads_at_indices(const Masks *m, const MaskNode *node, const Scalar *cond, bool *bytes)
{
    bool reads = false;

    *bytes = true;
    FOR_EACH_SCALAR (s, scalar_nodes(m->c, cond)) {
        if (s->op == S_REDUCE || s->op == S_ITEM || s->op == S_AT)
            return false;
        if (s->op != S_LOAD)
            continue;
        reads = true;
        if (s->u.load.slot >= node->nest->nin)
            return false;
        for (uint32_t d = 0; d < s->u.load.rank; d++)
            if (expr_uses_kind(s->u.load.at[d], VAR_COMPUTED))
                return false;
        *bytes &= dtype_info[s->dtype].bytes == 1 ||
                  m->from->value.at[node->in[s->u.load.slot]].data != NULL;
    }
    return reads;
}

/* ---- blocks of keys -------------------------------------------------------------------------- */

/* A key of a block, as the last of the axes: from 0 to last. */
typedef struct {
    Ctx *c;
    uint32_t key;
    const Expr *last;
} Some;

/* The least or the largest value of s over the keys of a block; NULL: unknown. */
static const Scalar *
extreme(const Some *k, const Scalar *s, bool least)
{
    Ctx *c = k->c;
    const Var key = { VAR_AXIS, k->key };
    const Expr *coef, *rest;
    int64_t step;

    if (!(s->axes >> k->key & 1))
        return s;
    if (s->op != S_INDEX || !expr_linear(c, s->u.index, key, &coef, &rest) ||
        !expr_const(coef, &step))
        return NULL;
    const Expr *at_last = expr_add(c, rest, expr_scale(c, k->last, step));
    return scalar_index(c, (step > 0) == least ? rest : at_last);
}

/* Is cond true for some key of a block? NULL: each key must be tested. */
static const Scalar *
for_some_key(const Some *k, const Scalar *cond)
{
    const Scalar *x, *y;

    if (!(cond->axes >> k->key & 1))
        return cond;
    switch ((ScalarOp)cond->op) {
    case S_AND:
    case S_OR:
        if (cond->op == S_AND && cond->arg[0]->axes & cond->arg[1]->axes & axis_one(k->key))
            return NULL;
        x = for_some_key(k, cond->arg[0]), y = for_some_key(k, cond->arg[1]);
        break;
    case S_LT:
    case S_LE:
    case S_GT:
    case S_GE:
        if (cond->arg[0]->axes & cond->arg[1]->axes & axis_one(k->key))
            return NULL;
        x = extreme(k, cond->arg[0], cond->op == S_LT || cond->op == S_LE);
        y = extreme(k, cond->arg[1], cond->op == S_GT || cond->op == S_GE);
        break;
    default: return NULL;
    }
    return x && y ? scalar_2(k->c, (ScalarOp)cond->op, x, y) : NULL;
}

static const Expr *
in_ranges(ScalarMap *map, const Expr *e)
{
    return expr_simplify(map->ctx, map->user, e);
}

/* Does a block of `size` keys have one that is shown? The axis of keys counts blocks then. NULL:
 * each key must be tested. */
static const Scalar *
shown_in_block(const Masks *m, const Nest *n, const Scalar *cond, uint32_t keys, int64_t size)
{
    Ctx *c = m->c;
    const Expr *all = n->axis[keys].extent, *first = expr_scale(c, expr_axis(c, keys), size);
    Range range[NEST_MAX_AXES];
    const Binding bind = { { VAR_AXIS, keys }, expr_add(c, first, expr_axis(c, n->naxis)) };

    if (n->naxis == NEST_MAX_AXES)
        return NULL;
    for (uint32_t x = 0; x < n->naxis; x++)
        range[x] = (Range){ { VAR_AXIS, x }, expr_int(c, 0), n->axis[x].extent };
    range[keys].extent = expr_ceil_div(c, all, expr_int(c, size));
    range[n->naxis] = (Range){ { VAR_AXIS, n->naxis }, expr_int(c, 0), expr_int(c, size) };
    Ranges ranges = { range, n->naxis + 1 };
    ScalarMap map = { .expr = in_ranges, .user = &ranges, .ctx = c, .done = { .arena = m->a } };
    const Expr *left = expr_sub(c, expr_offset(c, all, -1), first);
    const Some some = { c, n->naxis, expr_min(c, expr_int(c, size - 1), left) };
    return for_some_key(&some, scalar_map(&map, scalar_subst(c, cond, &bind, 1)));
}

/* Is a table of such a condition worth its reads? Yes if the scores vary with an axis (heads) with
 * which the mask does not, or if reads are cheap, as those for many keys at once. A few rows, such
 * as one token's, gain nothing: their programs do not work in blocks. */
static bool
is_worth_a_table(const Masks *m, const MaskNode *node, const Scalar *cond, uint32_t keys,
                 uint32_t rows, bool at_once)
{
    const Nest *n = node->nest;
    bool shared = false, bytes;
    int64_t least = rows == NO_SLOT ? 1 : expr_or(n->axis[rows].extent, BLOCK_ROWS);
    bool few = least < BLOCK_ROWS || expr_or(n->axis[keys].extent, LEAST_KEYS) < LEAST_KEYS;

    for (uint32_t x = 0; x < n->naxis; x++)
        shared |= !(cond->axes >> x & 1) && !expr_is(n->axis[x].extent, 1);
    return reads_at_indices(m, node, cond, &bytes) && !few && (shared || bytes || at_once) &&
           cond->axes >> keys & 1;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* A condition of a node over other axes, in a nest under construction. */
typedef struct {
    const Masks *m;
    const MaskNode *node;
    NestBuilder *b;
    bool beyond;
    ValueId in[NEST_MAX_AXES];
    uint32_t nin, slot[NEST_MAX_AXES];
} ConditionCopy;

static const Scalar *
copy_load(ScalarMap *map, const Scalar *load)
{
    ConditionCopy *k = map->user;
    ValueId v = k->node->in[load->u.load.slot];
    const Scalar *outside = load->u.load.outside;
    uint32_t i = 0;

    while (i < k->nin && k->in[i] != v)
        i++;
    if (i == k->nin) {
        if (k->nin == NEST_MAX_AXES)
            return NULL;
        k->slot[i] = nest_in(k->b, k->node->nest->param[load->u.load.slot].name,
                             k->m->from->value.at[v].type);
        k->in[k->nin++] = v;
    }
    if (!outside && k->beyond)
        outside = scalar_number(map->ctx, load->dtype, 0);
    return load_with(map->ctx, load, k->slot[i], outside);
}

static const Scalar *
copied(ConditionCopy *k, const Scalar *cond, const Binding *bind, uint32_t n)
{
    ScalarMap map = { .load = copy_load, .user = k, .ctx = k->m->c, .done = { .arena = k->m->a } };

    return scalar_map(&map, scalar_subst(k->m->c, cond, bind, n));
}

typedef struct {
    const MaskNode *node;
    const Scalar *cond;
    /* axes; rows: NO_SLOT if the condition does not vary with them */
    uint32_t keys, rows;
    int64_t each;                    /* keys that cond treats as one; its axis counts such blocks */
    uint32_t axis[NEST_MAX_AXES], n; /* the axes it varies with, keys among them */
} Mask;

static const Scalar *
truth(Ctx *c, const Scalar *is)
{
    return scalar_select(c, is, scalar_int(c, DT_U8, 1), scalar_int(c, DT_U8, 0));
}

static bool
is_same(const MaskTable *k, const Nest *n, const ValueId *in)
{
    bool same = k->nest->naxis == n->naxis && k->nest->nin == n->nin &&
                k->nest->write[0].value == n->write[0].value &&
                !memcmp(k->in, in, n->nin * sizeof *in);

    for (uint32_t x = 0; x < n->naxis && same; x++)
        same = k->nest->axis[x].extent == n->axis[x].extent;
    return same;
}

/* A nest of one output as a node, or the value of an equal earlier one; 0: refused. */
static ValueId
made(Masks *m, const Mask *k, NestBuilder *b, const char *name, const ValueId *in)
{
    const Nest *n = nest_finish(b), *plain = n ? nest_simplify(m->c, n) : NULL;

    if (!plain)
        return 0;
    for (uint32_t i = 0; i < m->table.n; i++)
        if (is_same(&m->table.at[i], plain, in))
            return m->table.at[i].out;
    ValueId out =
        graph_nest_value(m->to, plain, name, k->node->node->loc, k->node->node->origin, in);
    VEC_PUSH(m->a, &m->table,
             ((MaskTable){ plain, arena_copy(m->a, in, plain->nin * sizeof *in), out }));
    return out;
}

/* The number of points of axis x in the condition. */
static const Expr *
places(Ctx *c, const Mask *k, uint32_t x)
{
    return expr_ceil_div(c, k->node->nest->axis[x].extent, expr_int(c, x == k->keys ? k->each : 1));
}

/* sees[…, i]: does a row see a key? */
static ValueId
sees_table(Masks *m, const Mask *k, const char *name)
{
    Ctx *c = m->c;
    NestBuilder b = nest_begin(c, "sees");
    ConditionCopy copy = { .m = m, .node = k->node, .b = &b };
    Binding bind[NEST_MAX_AXES];
    const Expr *at[NEST_MAX_AXES], *dim[NEST_MAX_AXES], *keys = NULL;
    const Axis *axis = k->node->nest->axis;
    uint32_t rank = 0;

    for (uint32_t i = 0; i < k->n; i++) {
        uint32_t x = k->axis[i];
        AxisKind kind = x == k->keys ? AXIS_REDUCE : AXIS_PARALLEL;
        const Expr *e = nest_axis(&b, axis[x].name, kind, places(c, k, x));
        bind[i] = (Binding){ { VAR_AXIS, x }, e };
        if (x == k->keys)
            keys = e;
        else
            dim[rank] = axis[x].extent, at[rank++] = e;
    }
    const Scalar *is = copied(&copy, k->cond, bind, k->n), *one = is ? truth(c, is) : NULL;
    if (!one)
        return 0;
    nest_write(&b, nest_out(&b, "o", type_new(c, DT_U8, rank, dim)), at,
               scalar_reduce(c, COMB_MAX, axis_bit(keys), &one, 1));
    for (uint32_t i = 0; i < copy.nin; i++)
        copy.in[i] = m->map[copy.in[i]];
    return made(m, k, &b, arena_printf(m->a, "%s_sees", name), copy.in);
}

/* seen[…, I, j]: does a row of the block see a key, or nothing at all? A partial last block repeats
 * its last row. */
static ValueId
strip_table(Masks *m, const Mask *k, const char *name, ValueId sees)
{
    Ctx *c = m->c;
    NestBuilder b = nest_begin(c, "seen");
    ConditionCopy copy = { .m = m, .node = k->node, .b = &b };
    Binding bind[NEST_MAX_AXES];
    const Expr *at[NEST_MAX_AXES], *dim[NEST_MAX_AXES], *row_at[NEST_MAX_AXES];
    const Axis *axis = k->node->nest->axis;
    AxisSet points = 0;
    uint32_t nrow = 0;

    for (uint32_t i = 0; i < k->n; i++) {
        uint32_t x = k->axis[i];
        dim[i] = expr_ceil_div(c, places(c, k, x), expr_int(c, x == k->rows ? BLOCK_ROWS : 1));
        at[i] = nest_axis(&b, axis[x].name, AXIS_PARALLEL, dim[i]);
        bind[i] = (Binding){ { VAR_AXIS, x }, at[i] };
    }
    for (uint32_t i = 0; i < k->n; i++) {
        uint32_t x = k->axis[i];
        if (x == k->rows) {
            const Expr *row = nest_axis(&b, "row", AXIS_REDUCE, expr_int(c, BLOCK_ROWS));
            points = axis_bit(row);
            bind[i].to = expr_min(c, expr_add(c, expr_scale(c, at[i], BLOCK_ROWS), row),
                                  expr_offset(c, axis[x].extent, -1));
            copy.beyond = true;
        }
        if (x != k->keys)
            row_at[nrow++] = bind[i].to;
    }
    const Scalar *is = copied(&copy, k->cond, bind, k->n);
    if (!is || copy.nin == NEST_MAX_AXES)
        return 0;
    for (uint32_t i = 0; i < copy.nin; i++)
        copy.in[i] = m->map[copy.in[i]];
    uint32_t slot = nest_in(&b, "sees", m->to->value.at[sees].type);
    copy.in[copy.nin++] = sees;
    const Scalar *one =
        truth(c, scalar_2(c, S_OR, is,
                          scalar_2(c, S_EQ, nest_load_or(&b, slot, row_at, scalar_int(c, DT_U8, 1)),
                                   scalar_int(c, DT_U8, 0))));
    nest_write(&b, nest_out(&b, "o", type_new(c, DT_U8, k->n, dim)), at,
               points ? scalar_reduce(c, COMB_MAX, points, &one, 1) : one);
    return made(m, k, &b, arena_printf(m->a, "%s_seen", name), copy.in);
}

/* used[…, I, J]: does a row of the block see one of its keys? */
static ValueId
used_table(Masks *m, const Mask *k, const char *name, ValueId strip)
{
    Ctx *c = m->c;
    NestBuilder b = nest_begin(c, "used");
    const Type *from = m->to->value.at[strip].type;
    const Expr *at[NEST_MAX_AXES], *to[NEST_MAX_AXES], *dim[NEST_MAX_AXES];
    const int64_t each = BLOCK_KEYS / k->each;
    uint32_t keys = 0, slot = nest_in(&b, "seen", from);

    for (uint32_t i = 0; i < k->n; i++) {
        keys = k->axis[i] == k->keys ? i : keys;
        dim[i] = expr_ceil_div(c, from->dim[i], expr_int(c, k->axis[i] == k->keys ? each : 1));
        at[i] = to[i] = nest_axis(&b, k->node->nest->axis[k->axis[i]].name, AXIS_PARALLEL, dim[i]);
    }
    const Expr *key = nest_axis(&b, "key", AXIS_REDUCE, expr_int(c, each));
    at[keys] = expr_add(c, expr_scale(c, to[keys], each), key);
    const Scalar *one = nest_load_or(&b, slot, at, scalar_int(c, DT_U8, 0));
    nest_write(&b, nest_out(&b, "o", type_new(c, DT_U8, k->n, dim)), to,
               scalar_reduce(c, COMB_MAX, axis_bit(key), &one, 1));
    return made(m, k, &b, arena_printf(m->a, "%s_used", name), &strip);
}

/* The nest with its operand from the table, its last input. */
static const Nest *
with_table(Masks *m, const Mask *k, const Type *t)
{
    const Nest *n = k->node->nest;
    NestEdit e = nest_edit(m->c, n, 0, 1);
    const Expr *at[NEST_MAX_AXES];
    Ctx *c = m->c;

    for (uint32_t i = 0; i < k->n; i++) {
        uint32_t x = k->axis[i];
        at[i] = expr_div(c, expr_axis(c, x),
                         expr_int(c, x == k->keys   ? BLOCK_KEYS
                                     : x == k->rows ? BLOCK_ROWS
                                                    : 1));
    }
    uint32_t slot = nest_edit_input(c, &e, "used", t);
    const Scalar *used =
        scalar_2(c, S_NE, scalar_load(c, DT_U8, slot, k->n, at, NULL), scalar_int(c, DT_U8, 0));
    e.write[0].value = scalar_2(c, S_SEEN, used, n->write[0].value);
    return nest_edit_done(c, &e);
}

/* ---- which nests ----------------------------------------------------------------------------- */

/* Is it a nest whose values a maximum is taken of along the axis *keys, each written once? */
static bool
makes_scores(const Masks *m, const MaskNode *node, uint32_t *keys)
{
    const Nest *n = node->nest;

    if (node->node->callee != CALL_NEST || n->nout != 1 || n->nwrite != 1 ||
        !m->along[node_out(m->from, node->node, 0)] || nest_axes_of_kind(n, AXIS_SCAN) ||
        !write_is_plain(m->c, n, &n->write[0]))
        return false;
    *keys = axis_of(n->write[0].at[m->along[node_out(m->from, node->node, 0)] - 1]);
    return *keys != NO_SLOT;
}

/* Are scores hidden by data, and is a table worth it? */
static bool
find_mask(const Masks *m, const MaskNode *node, uint32_t keys, Mask *out)
{
    const Nest *n = node->nest;
    uint32_t along = m->along[node_out(m->from, node->node, 0)] - 1,
             rows = along ? axis_of(n->write[0].at[along - 1]) : NO_SLOT;

    const Scalar *cond = shown(m, node, n->write[0].value), *at_once = NULL;
    int64_t each = BLOCK_KEYS;
    while (cond && each >= LEAST_AT_ONCE && !(at_once = shown_in_block(m, n, cond, keys, each)))
        each /= 2;
    *out = (Mask){
        .node = node, .cond = at_once ? at_once : cond, .keys = keys, .each = at_once ? each : 1
    };
    if (!out->cond || !is_worth_a_table(m, node, out->cond, keys, rows, at_once != NULL))
        return false;
    out->n += axis_list(out->cond->axes, out->axis + out->n);
    out->rows = rows != NO_SLOT && out->cond->axes >> rows & 1 ? rows : NO_SLOT;
    return true;
}

/* The node with another nest, which also reads `more`; 0: nothing more. */
static void
put_nest(Masks *m, const MaskNode *s, const Nest *n, ValueId more)
{
    ValueId *in = NEW_ARRAY(m->a, ValueId, s->nest->nin + 1), v = node_out(m->from, s->node, 0);

    for (uint32_t i = 0; i < s->nest->nin; i++)
        in[i] = m->map[s->in[i]];
    in[s->nest->nin] = more;
    ValueId out = m->map[v] = graph_copy_value(m->to, m->from, v);
    graph_call_nest(m->to, n, s->node->loc, s->node->origin, in, &out);
}

static bool
put_table(Masks *m, const Mask *k)
{
    const char *name = m->from->value.at[node_out(m->from, k->node->node, 0)].name;
    ValueId sees = sees_table(m, k, name), strip = sees ? strip_table(m, k, name, sees) : 0,
            used = strip ? used_table(m, k, name, strip) : 0;
    const Nest *with = used ? with_table(m, k, m->to->value.at[used].type) : NULL;

    if (with)
        put_nest(m, k->node, with, used);
    return with != NULL;
}

static bool
put_node(Masks *m, NodeId id)
{
    MaskNode s = source_of(m, &m->from->node.at[id]);
    uint32_t keys;
    Mask k;

    if (!makes_scores(m, &s, &keys)) {
        graph_copy_node(m->to, m->from, id, m->map);
        return true;
    }
    inline_outer(m, &s);
    if (find_mask(m, &s, keys, &k))
        return put_table(m, &k);
    put_nest(m, &s, s.nest, 0);
    return true;
}

/* Values of which a nest takes a maximum along a dimension. */
static void
find_maxima(Masks *m, const Node *node)
{
    Walk walk = nest_walk(m->c, m->a, node->nest);

    for (uint32_t i = 0; i < walk.n; i++) {
        const Scalar *s = walk.at[i].node;
        if (s->op != S_REDUCE || s->u.reduce.combiner != COMB_MAX || s->narg != 1 ||
            s->arg[0]->op != S_LOAD || s->arg[0]->u.load.slot >= node->nest->nin)
            continue;
        for (uint32_t d = 0; d < s->arg[0]->u.load.rank; d++)
            if (s->u.reduce.axes == axis_bit(s->arg[0]->u.load.at[d]))
                m->along[node_in(m->from, node, s->arg[0]->u.load.slot)] = d + 1;
    }
}

Graph *
normalise_block_masks(const Graph *g)
{
    Arena *scratch = arena_child(g->arena);
    bool ok = true;
    Masks m = { .c = g->ctx,
                .a = scratch,
                .from = g,
                .along = NEW_ARRAY(scratch, uint32_t, g->value.n),
                .hides = NEW_ARRAY(scratch, uint8_t, g->value.n) };

    m.to = graph_rebuild(g, &m.map);
    for (NodeId id = 1; id < g->node.n; id++)
        if (g->node.at[id].callee == CALL_NEST)
            find_maxima(&m, &g->node.at[id]);
    for (NodeId id = 1; id < g->node.n && ok; id++)
        ok = put_node(&m, id);
    if (ok)
        graph_finish(m.to, g, m.map);
    arena_free(scratch);
    return ok ? m.to : NULL;
}
