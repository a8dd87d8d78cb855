/* ragged: a padded batch computed for its tokens alone.
 *
 * row, column and place are the tables of token_tables.h.
 *
 *     h[b, j, d] = sum k: x[b, j, k] * w[k, d]     h'[f, d] = sum k: x'[f, k] * w[k, d]
 *     e[b, j, d] = t[ids[b, j], d] + at[j, d]      e'[f, d] = t[ids'[f], d] + at[column[f], d]
 *     s[b, h, i, j] = q·k + (1 - m[b, j]) * low    s'[h, f, g] = row[f] == row[g] ? q'·k' : -inf
 *     p[b, d] = h[b, 0, d]                         p[b, d] = h'[place[b, 0], d | 0]
 *
 * The number of tokens is a symbol from data, or a dimension of packed inputs. Which values may be
 * packed, and what they hold at padding, tokens.h determines. In scores the mask is replaced by a
 * comparison of sequences, which hides what it hid: kernels skip blocks of scores between different
 * sequences, as under any mask (block_mask.c).
 *
 * Padded values are read in place; outputs and rows of sequences that are needed padded are
 * scattered there, with padding 0. If inputs and outputs of tokens are to be packed too, offsets
 * replace the mask, and what needs padding is padded inside.
 *
 * Source: CoRa (Fegade et al., MLSys 2022) for fusing sequences and their lengths to one dimension,
 * and for tables that are made once for all layers.
 */
#include "algebra/algebra.h"
#include "normalise/normalise.h"
#include "normalise/token_tables.h"
#include "normalise/tokens.h"

#include "nest/walk.h"

#include <string.h>

typedef struct {
    Ctx *c;
    const Graph *from;
    Graph *to;
    TokenMap m;
    /* of values of the old graph, padded; 0 if packed */
    ValueId *map;
    ValueId *packed; /* of values with tokens, packed */
    /* of packed scores, by values of the old graph: where two tokens are of different sequences */
    Pad *apart;
    TokenTables t;
} Ragged;

/* ---- packed values --------------------------------------------------------------------------- */

/* The type with a dimension for each digit but that of sequences; those of tokens count all
 * tokens. */
static const Type *
packed_type(const Ragged *r, const Type *t, const Tokens *k)
{
    const Expr *dim[MOST_DIGITS];
    uint32_t rank = 0;

    for (uint32_t i = 0; i < k->ndigit; i++)
        if (k->digit[i].counts != DIGIT_SEQUENCE)
            dim[rank++] = k->digit[i].counts >= DIGIT_TOKEN ? r->t.tokens : k->digit[i].extent;
    return type_new(r->c, t->dtype, rank, dim);
}

/* A padded value, packed: o[f, …] = x[row[f], column[f], …]. Not for scores. 0: refused. */
static ValueId
packed_copy(Ragged *r, ValueId v)
{
    Ctx *c = r->c;
    const Tokens *k = &r->m.of[v];
    const Type *from = r->to->value.at[r->map[v]].type, *t = packed_type(r, from, k);
    NestBuilder b = nest_begin(c, "packed");
    const Expr *axis[TN_MAX_RANK], *digit[MOST_DIGITS], *at[TN_MAX_RANK], *f = NULL;
    uint32_t x = nest_in(&b, "x", from), row = nest_in(&b, "row", r->to->value.at[r->t.row].type),
             column = nest_in(&b, "column", r->to->value.at[r->t.column].type);

    nest_axes_of(&b, t, axis);
    for (uint32_t i = 0, own = 0; i < k->ndigit; i++)
        if (k->digit[i].counts != DIGIT_SEQUENCE) {
            digit[i] = axis[own++];
            f = k->digit[i].counts == DIGIT_TOKEN ? digit[i] : f;
        }
    for (uint32_t i = 0; i < k->ndigit; i++)
        if (k->digit[i].counts == DIGIT_SEQUENCE)
            digit[i] = expr_computed(c, scalar_at(c, nest_load(&b, row, &f), r->m.batch));
        else if (k->digit[i].counts == DIGIT_TOKEN)
            digit[i] = expr_computed(c, scalar_at(c, nest_load(&b, column, &f), r->m.length));
    for (uint32_t d = 0; d < from->rank; d++)
        at[d] = tokens_index(c, k, d, digit);
    nest_write(&b, nest_out(&b, "o", t), axis, nest_load(&b, x, at));
    return graph_nest_value(r->to, nest_finish(&b), r->from->value.at[v].name, (Loc){ 0 }, NULL,
                            (ValueId[]){ r->map[v], r->t.row, r->t.column });
}

/* A packed value in the padded batch; padding is 0. 0: refused. */
static ValueId
padded_copy(Ragged *r, ValueId v)
{
    Ctx *c = r->c;
    const Tokens *k = &r->m.of[v];
    const Value *old = &r->from->value.at[v];
    const Type *from = r->to->value.at[r->packed[v]].type;
    NestBuilder b = nest_begin(c, "padded");
    const Expr *digit[MOST_DIGITS], *at[TN_MAX_RANK], *own[MOST_DIGITS], *where[2] = { NULL, NULL };
    uint32_t x = nest_in(&b, "x", from), rank = 0,
             place = nest_in(&b, "place", r->to->value.at[r->t.place].type);

    for (uint32_t i = 0; i < k->ndigit; i++) {
        digit[i] = nest_axis(&b, "i", AXIS_PARALLEL, k->digit[i].extent);
        if (k->digit[i].counts != DIGIT_NEITHER)
            where[k->digit[i].counts == DIGIT_TOKEN] = digit[i];
    }
    for (uint32_t i = 0; i < k->ndigit; i++)
        if (k->digit[i].counts != DIGIT_SEQUENCE)
            own[rank++] = k->digit[i].counts == DIGIT_TOKEN
                              ? expr_computed(c, nest_load(&b, place, where))
                              : digit[i];
    for (uint32_t d = 0; d < old->type->rank; d++)
        at[d] = tokens_index(c, k, d, digit);
    nest_write(&b, nest_out(&b, "o", old->type), at,
               nest_load_or(&b, x, own, scalar_number(c, from->dtype, 0)));
    return graph_nest_value(r->to, nest_finish(&b), old->name, (Loc){ 0 }, NULL,
                            (ValueId[]){ r->packed[v], r->t.place });
}

/* ---- nests ----------------------------------------------------------------------------------- */

/* A nest under construction. Its tokens run along new axes. */
typedef struct {
    Ragged *r;
    const Nest *n;
    const ValueId *in;
    Runs runs;
    NestEdit e;
    /* of axes of columns: the new one; NO_SLOT for others */
    uint32_t fresh[NEST_MAX_AXES];
    /* of axes of sequences: the new axis that an output has for it; NO_SLOT: none */
    uint32_t of_sequence[NEST_MAX_AXES];
    uint32_t row, column, place; /* inputs */
    Pad *apart;                  /* [nin] */
} Change;

static const Expr *
number_at(Change *k, uint32_t table, const Expr *const *at, uint32_t rank, const Expr *extent)
{
    Ctx *c = k->r->c;
    const Scalar *s = scalar_load(c, DT_I32, table, rank, at, NULL);
    return expr_computed(c, extent ? scalar_at(c, s, extent) : s);
}

/* Are tokens of two new axes of one sequence? */
static const Scalar *
together(Change *k, uint32_t f, uint32_t g)
{
    Ctx *c = k->r->c;
    const Expr *x = expr_axis(c, f), *y = expr_axis(c, g);

    return scalar_2(c, S_EQ, scalar_load(c, DT_I32, k->row, 1, &x, NULL),
                    scalar_load(c, DT_I32, k->row, 1, &y, NULL));
}

/* Reads of packed values, at new axes or at positions. */
static const Scalar *
change_load(ScalarMap *map, const Scalar *load)
{
    Change *k = map->user;
    Ctx *c = map->ctx;
    uint32_t slot = load->u.load.slot, rank = 0;
    const Tokens *t = slot < k->n->nin ? &k->r->m.of[k->in[slot]] : NULL;
    const Expr *at[MOST_DIGITS];
    const Scalar *outside = NULL;
    TokenRead read;

    if (!t || !t->count || k->e.param[slot].type == k->n->param[slot].type ||
        !tokens_read(&k->r->m, k->n, &k->runs, t, load->u.load.at, &read))
        return load;
    for (uint32_t i = 0; i < t->ndigit; i++) {
        Counts counts = t->digit[i].counts;
        uint32_t x = counts >= DIGIT_TOKEN ? read.axis[counts - DIGIT_TOKEN] : NO_SLOT;
        if (counts == DIGIT_NEITHER)
            at[rank++] = read.digit[i];
        else if (x != NO_SLOT && k->fresh[x] != NO_SLOT)
            at[rank++] = expr_axis(c, k->fresh[x]);
        else if (counts >= DIGIT_TOKEN) {
            at[rank++] =
                number_at(k, k->place, (const Expr *[]){ read.sequence, read.column }, 2, NULL);
            outside = scalar_number(c, load->dtype, 0);
        }
    }
    return scalar_load(c, load->dtype, slot, rank, at, outside);
}

/* The new axis of the column that s is; NO_SLOT: something else. */
static uint32_t
column_axis(const Change *k, const Scalar *s, uint32_t *sequence)
{
    uint32_t axis = s->op == S_INDEX ? axis_of(s->u.index) : NO_SLOT;

    if (axis >= k->n->naxis || k->runs.run[axis] != RUNS_COLUMNS)
        return NO_SLOT;
    *sequence = k->runs.sequence[axis];
    return k->fresh[axis];
}

/* Columns of one sequence are in the order of its tokens, so comparing them needs no table: j <= i,
 * as in a causal mask. Between two sequences the result is not used. */
static const Scalar *
change_comparison(Change *k, const Scalar *s)
{
    Ctx *c = k->r->c;
    uint32_t one = 0, other = 0, f = column_axis(k, s->arg[0], &one),
             g = column_axis(k, s->arg[1], &other);

    return f == NO_SLOT || g == NO_SLOT || one != other
               ? s
               : scalar_2(c, s->op, scalar_index(c, expr_axis(c, f)),
                          scalar_index(c, expr_axis(c, g)));
}

/* Reductions along tokens are restricted to their own sequence. */
static const Scalar *
change_tokens(ScalarMap *map, const Scalar *s)
{
    Change *k = map->user;
    Ctx *c = map->ctx;

    if (s->op >= S_EQ && s->op <= S_GE)
        return change_comparison(k, s);
    for (uint32_t x = 0; x < k->n->naxis && s->op == S_REDUCE; x++) {
        if (!(s->u.reduce.axes >> x & 1) || k->runs.run[x] != RUNS_COLUMNS ||
            k->fresh[x] == NO_SLOT)
            continue;
        uint32_t f = k->of_sequence[k->runs.sequence[x]];
        if (pad_is_identity(c, s,
                            tokens_apart(&k->r->m, k->n, k->in, &k->runs, s->arg[0], k->apart)))
            continue;
        const Scalar *own =
            scalar_select(c, together(k, f, k->fresh[x]), s->arg[0],
                          combiner_identity(c, s->u.reduce.combiner, s->arg[0]->dtype));
        s = scalar_reduce(c, s->u.reduce.combiner, s->u.reduce.axes, &own, 1);
    }
    return s;
}

static AxisSet
change_axes(ScalarMap *map, AxisSet axes)
{
    Change *k = map->user;
    AxisSet out = 0;

    for (uint32_t x = 0; x < k->n->naxis; x++)
        if (axes >> x & 1)
            out |= axis_one(k->fresh[x] != NO_SLOT ? k->fresh[x] : x);
    return out | (axes >> k->n->naxis << k->n->naxis);
}

/* Old axes in terms of new ones. */
static Bindings
old_axes(Change *k)
{
    Ctx *c = k->r->c;
    Binding *bind = NEW_ARRAY(k->e.scratch, Binding, NEST_MAX_AXES);
    Bindings b = { bind, 0 };

    for (uint32_t x = 0; x < k->n->naxis; x++) {
        uint32_t f = k->runs.run[x] == RUNS_SEQUENCES ? k->of_sequence[x] : k->fresh[x];
        if (f == NO_SLOT)
            continue;
        const Expr *e = expr_axis(c, f), *row = number_at(k, k->row, &e, 1, k->r->m.batch),
                   *column = number_at(k, k->column, &e, 1, k->r->m.length);
        bind[b.n++] = (Binding){ { VAR_AXIS, x }, k->runs.run[x] == RUNS_SEQUENCES ? row : column };
    }
    return b;
}

/* New axes of tokens, if the output has tokens. False: too many. */
static bool
add_axes(Change *k, bool packed)
{
    for (uint32_t x = 0; x < k->n->naxis; x++)
        k->fresh[x] = k->of_sequence[x] = NO_SLOT;
    for (uint32_t x = 0; x < k->n->naxis && packed; x++) {
        if (k->runs.run[x] != RUNS_COLUMNS)
            continue;
        if (k->e.nest.naxis == NEST_MAX_AXES)
            return false;
        uint32_t f = k->fresh[x] = k->e.nest.naxis++;
        k->e.axis[f] = (Axis){ nest_fresh_axis(k->r->c, &k->e, k->n->axis[x].name),
                               k->n->axis[x].kind, k->r->t.tokens };
        if (k->n->axis[x].kind == AXIS_PARALLEL && k->of_sequence[k->runs.sequence[x]] == NO_SLOT)
            k->of_sequence[k->runs.sequence[x]] = f;
    }
    return true;
}

/* Appends the three tables to the inputs. */
static void
add_tables(Change *k)
{
    const TokenTables *t = &k->r->t;
    const Value *value = k->r->to->value.at;
    Ctx *c = k->r->c;

    k->row = nest_edit_input(c, &k->e, "token_row", value[t->row].type);
    k->column = nest_edit_input(c, &k->e, "token_column", value[t->column].type);
    k->place = nest_edit_input(c, &k->e, "token_place", value[t->place].type);
}

/* What a packed output holds at scores between two sequences: the model's value at padding, so that
 * none of it is used. */
static Pad
hide_apart(Change *k, const Tokens *out, const uint32_t *f)
{
    Ctx *c = k->r->c;
    const Scalar *value = k->e.write[0].value;
    Pad want = out->pad[1].number || out->pad[1].hidden ? out->pad[1] : out->pad[0],
        have = tokens_apart(&k->r->m, k->n, k->in, &k->runs, k->n->write[0].value, k->apart);

    if (out->count < 2 || (!want.number && !want.hidden) || (want.hidden && have.hidden) ||
        (want.number && want.number == have.number))
        return out->count < 2 ? (Pad){ NULL } : have;
    const Scalar *low = want.hidden ? scalar_float(c, value->dtype, -__builtin_inf()) : want.number;
    k->e.write[0].value = scalar_select(c, together(k, f[0], f[1]), value, low);
    return want;
}

/* The index of the output: its tokens at new axes. */
static void
change_write(Change *k, const Tokens *out, const Type *t, uint32_t f[2])
{
    Write *w = &k->e.write[0];
    const Expr **at = NEW_ARRAY(k->e.scratch, const Expr *, t->rank + 1);
    uint32_t own = 0;
    TokenRead written;

    tokens_read(&k->r->m, k->n, &k->runs, out, w->at, &written); /* it packs: it is at axes */
    for (uint32_t i = 0; i < out->ndigit; i++) {
        Counts counts = out->digit[i].counts;
        if (counts == DIGIT_SEQUENCE)
            continue;
        at[own] = written.digit[i];
        if (counts >= DIGIT_TOKEN) {
            f[counts - DIGIT_TOKEN] = k->fresh[written.axis[counts - DIGIT_TOKEN]];
            at[own] = expr_axis(k->r->c, f[counts - DIGIT_TOKEN]);
        }
        own++;
    }
    w->at = at;
    k->e.param[w->out].type = t;
}

static bool
inputs_of(Change *k, ValueId *in, bool packed)
{
    for (uint32_t i = 0; i < k->n->nin; i++) {
        ValueId v = k->in[i];
        const Tokens *t = &k->r->m.of[v];
        if (t->count == 1 && packed && !k->r->packed[v] &&
            !(k->r->packed[v] = packed_copy(k->r, v)))
            return false;
        in[i] = k->r->packed[v] ? k->r->packed[v] : k->r->map[v];
        if (k->r->packed[v] && !packed && k->r->map[v])
            in[i] = k->r->map[v];
        k->e.param[i].type = k->r->to->value.at[in[i]].type;
        k->apart[i] = k->r->apart[v];
    }
    in[k->n->nin] = k->r->t.row;
    in[k->n->nin + 1] = k->r->t.column;
    in[k->n->nin + 2] = k->r->t.place;
    return true;
}

/* New axes in the positions of the axes that they replace; a sequence axis that an output has only
 * together with tokens disappears. */
static void
close_up(Change *k)
{
    Ctx *c = k->r->c;
    Axis *axis = NEW_ARRAY(k->e.scratch, Axis, k->e.nest.naxis + 1);
    Binding bind[NEST_MAX_AXES];
    uint32_t kept = 0;

    for (uint32_t x = 0; x < k->n->naxis; x++) {
        uint32_t from = k->fresh[x] != NO_SLOT ? k->fresh[x] : x;
        if (k->of_sequence[x] != NO_SLOT)
            continue;
        axis[kept] = k->e.axis[from];
        bind[kept] = (Binding){ { VAR_AXIS, from }, expr_axis(c, kept) };
        kept++;
    }
    k->e.nest.naxis = kept;
    k->e.axis = axis;
    k->e.nest.axis = axis;
    nest_edit_bind(c, &k->e, bind, kept);
}

/* The finished nest, and the inputs that it reads. NULL: refused. */
static const Nest *
finish(Change *k, ValueId *in)
{
    Ctx *c = k->r->c;
    const Nest *n = nest_edit_done(c, &k->e);

    n = n ? nest_simplify(c, n) : NULL;
    n = n ? nest_drop_unused(c, n, in) : NULL;
    return n ? nest_axes_as_written(c, n, 0) : NULL;
}

/* Is the output the only input? A packed reshape between digits of one dimension is. */
static bool
is_copy(const Nest *n)
{
    const Write *w = &n->write[0];
    const Scalar *s = w->value;

    if (n->nin != 1 || n->param[0].type != n->param[w->out].type || s->op != S_LOAD ||
        s->u.load.outside)
        return false;
    return !memcmp(s->u.load.at, w->at, s->u.load.rank * sizeof *w->at);
}

static bool
change_node(Ragged *r, const Node *node, bool packed)
{
    Ctx *c = r->c;
    ValueId v = node_out(r->from, node, 0), *in = NEW_ARRAY(r->m.a, ValueId, node->in.count + 1),
            *now = NEW_ARRAY(r->m.a, ValueId, node->in.count + 4);
    const Tokens *out = &r->m.of[v];
    const Value *old = &r->from->value.at[v];
    uint32_t f[2] = { NO_SLOT, NO_SLOT };

    for (uint32_t i = 0; i < node->in.count; i++)
        in[i] = node_in(r->from, node, i);
    Change k = { .r = r,
                 .in = in,
                 .n = packed ? tokens_shown(&r->m, node, in) : nest_simplify(c, node->nest) };
    k.n = k.n ? tokens_split(&r->m, k.n, in, packed ? out : NULL) : NULL;
    if (!k.n)
        return false;
    k.runs = tokens_runs(&r->m, k.n, in, packed ? out : NULL);
    k.apart = NEW_ARRAY(r->m.a, Pad, k.n->nin + 1);
    k.e = nest_edit(c, k.n, k.n->naxis, 3);
    if (k.runs.why || !add_axes(&k, packed) || !inputs_of(&k, now, packed))
        return diag_error(&c->diags, DIAG_INTERNAL, node->loc, "ragged: %s",
                          k.runs.why ? k.runs.why : "too many axes");
    add_tables(&k);
    ScalarMap tokens = {
        .node = change_tokens, .user = &k, .ctx = c, .done = { .arena = k.e.scratch }
    };
    if (packed)
        k.e.write[0].value = scalar_map(&tokens, k.e.write[0].value);
    const Type *t = packed ? packed_type(r, old->type, out) : old->type;
    ScalarMap loads = { .load = change_load,
                        .axes = change_axes,
                        .user = &k,
                        .ctx = c,
                        .done = { .arena = k.e.scratch } };
    if (packed) {
        change_write(&k, out, t, f);
        r->apart[v] = hide_apart(&k, out, f);
    }
    k.e.write[0].value = scalar_map(&loads, k.e.write[0].value);
    Bindings bindings = old_axes(&k);
    ScalarMap rest = {
        .expr = bindings_apply, .user = &bindings, .ctx = c, .done = { .arena = k.e.scratch }
    };
    k.e.write[0].value = scalar_map(&rest, k.e.write[0].value);
    close_up(&k);
    const Nest *n = finish(&k, now);
    if (!n)
        return false;
    bool copy = packed && is_copy(n);
    ValueId made = copy ? now[0] : graph_value(r->to, old->name, t);
    *(packed ? &r->packed[v] : &r->map[v]) = made;
    if (!copy)
        graph_call_nest(r->to, n, node->loc, node->origin, now, &made);
    return true;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static bool
reads_packed(const Ragged *r, const Node *n)
{
    for (uint32_t i = 0; i < n->in.count; i++)
        if (r->m.of[node_in(r->from, n, i)].packed)
            return true;
    return false;
}

static bool
put_node(Ragged *r, NodeId id)
{
    const Node *n = &r->from->node.at[id];

    if (n->out.count == 1 && r->m.of[node_out(r->from, n, 0)].packed)
        return change_node(r, n, true);
    if (reads_packed(r, n))
        return change_node(r, n, false);
    graph_copy_node(r->to, r->from, id, r->map);
    return true;
}

static void
report(const Ragged *r, RaggedReport *out)
{
    *out = (RaggedReport){ .why = NEW_ARRAY(r->to->arena, const char *, r->from->node.n),
                           .tokens = r->t.tokens };
    for (NodeId id = 1; id < r->from->node.n; id++) {
        const Node *n = &r->from->node.at[id];
        const char *name = n->origin ? n->origin : r->from->value.at[node_out(r->from, n, 0)].name;
        out->nodes++;
        out->packed += n->out.count == 1 && r->m.of[node_out(r->from, n, 0)].packed;
        bool asks = false;
        for (uint32_t i = 0; i < n->in.count && r->m.why[id]; i++) {
            const Tokens *t = &r->m.of[node_in(r->from, n, i)];
            asks |= t->count && !t->shown && r->from->value.at[node_in(r->from, n, i)].def;
        }
        const char *why = asks ? arena_printf(r->to->arena, "%s %s", name, r->m.why[id]) : NULL;
        /* an operator may be several nests */
        if (why && !(out->nwhy && !strcmp(out->why[out->nwhy - 1], why)))
            out->why[out->nwhy++] = why;
    }
}

/* ---- inputs and outputs without padding ------------------------------------------------------ */

typedef struct {
    LateSize at[2 * TN_MAX_RANK];
    uint32_t n;
} LateSizes;

/* Symbols of sequences and columns that no input has any more. False, reported: such a size is more
 * than a symbol. */
static bool
find_late(const Ragged *r, const Value *v, const Tokens *k, LateSizes *late)
{
    for (uint32_t i = 0; i < k->ndigit; i++) {
        const Expr *dim = k->digit[i].extent;
        Var symbol;
        bool known = k->digit[i].counts == DIGIT_NEITHER || expr_const(dim, NULL);
        if (!known && !expr_is_var(dim, &symbol))
            return diag_error(&r->c->diags, DIAG_UNSUPPORTED, (Loc){ 0 },
                              "--packed: input %s has %s elements along dimension %u; offsets "
                              "stand for a size of its own, so give it a name or a number",
                              v->name, expr_str(r->c, dim), k->digit[i].dim);
        for (uint32_t n = 0; n < late->n && !known; n++)
            known = late->at[n].symbol.id == symbol.id;
        if (!known && !graph_is_given(r->to, symbol) && late->n < 2 * TN_MAX_RANK)
            late->at[late->n++] = (LateSize){ symbol, k->digit[i].counts == DIGIT_SEQUENCE };
    }
    return true;
}

/* Input i of the new graph replaces another. */
static ValueId
replace_input(Ragged *r, uint32_t i, const char *name, const Type *t)
{
    ValueId v = graph_value(r->to, name, t);

    graph_rename(r->to, v, name);
    return r->to->input.at[i] = v;
}

/* Inputs of tokens are packed, and offsets replace the mask. */
static bool
take_packed(Ragged *r, const RaggedHow *how)
{
    Ctx *c = r->c;
    const Graph *g = r->from;
    const Value *mask = &g->value.at[r->m.mask];
    const Expr *ends = expr_offset(c, r->m.batch, 1);
    const Type *offsets = type_new(c, DT_I64, 1, &ends);
    const char *name = arena_printf(r->to->arena, "%s.offsets", mask->name);
    LateSizes late = { .n = 0 };
    ValueId source = 0;

    r->t.name = name;
    r->t.tokens = expr_fresh_symbol(c, "token_count");
    for (uint32_t i = 0; i < g->input.n; i++) {
        ValueId v = g->input.at[i];
        const Value *value = &g->value.at[v];
        if (v == r->m.mask)
            source = replace_input(r, i, name, offsets);
        else if (r->m.of[v].count)
            r->packed[v] =
                replace_input(r, i, value->name, packed_type(r, value->type, &r->m.of[v]));
    }
    for (uint32_t i = 0; i < g->input.n; i++)
        if (!find_late(r, &g->value.at[g->input.at[i]], &r->m.of[g->input.at[i]], &late))
            return false;
    if (!tables_of_offsets(&r->t, source, late.n, late.at, mask->type, how->density,
                           &r->map[r->m.mask]))
        return false;
    for (uint32_t i = 0; i < g->input.n; i++) {
        ValueId v = g->input.at[i];
        if (r->packed[v] && !(r->map[v] = padded_copy(r, v)))
            return false;
    }
    return true;
}

/* Output v, as the caller gets it. 0: refused. */
static ValueId
leave(Ragged *r, ValueId v, const RaggedHow *how)
{
    if (how->packed_io && r->m.of[v].count == 1)
        return r->packed[v] ? r->packed[v] : packed_copy(r, v);
    return r->map[v] ? r->map[v] : padded_copy(r, v);
}

Graph *
normalise_ragged(const Graph *g, ValueId mask, const RaggedHow *how, RaggedReport *out)
{
    Arena *scratch = arena_child(g->arena);
    Ragged r = { .c = g->ctx,
                 .from = g,
                 .m = tokens_find(g, scratch, mask),
                 .packed = NEW_ARRAY(scratch, ValueId, g->value.n),
                 .apart = NEW_ARRAY(scratch, Pad, g->value.n) };
    ValueId *leaves = NEW_ARRAY(scratch, ValueId, g->value.n);
    bool ok;

    for (ValueId v = 1; v < g->value.n && how->padded; v++)
        r.m.of[v].packed = false;
    r.to = graph_rebuild(g, &r.map);
    r.t = (TokenTables){ .c = r.c,
                         .to = r.to,
                         .batch = r.m.batch,
                         .length = r.m.length,
                         .name = g->value.at[mask].name };
    ok = how->packed_io ? take_packed(&r, how) : tables_of_mask(&r.t, r.map[mask], how->density);
    for (NodeId id = 1; id < g->node.n && ok; id++)
        ok = put_node(&r, id);
    for (uint32_t i = 0; i < g->output.n && ok; i++) {
        ValueId v = g->output.at[i];
        ok = leaves[v] || (leaves[v] = leave(&r, v, how)) != 0;
        if (ok && leaves[v] != r.map[v])
            graph_rename(r.to, leaves[v], g->value.at[v].name);
    }
    if (ok) {
        report(&r, out);
        graph_finish(r.to, g, leaves);
    }
    arena_free(scratch);
    return ok ? r.to : NULL;
}
