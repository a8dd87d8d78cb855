/* loop: Loop and Scan.
 *
 * A carried value keeps a dimension as long as its body returns the same one. Otherwise the
 * dimension becomes a symbol of the body, and the body is read again with it. A dimension only
 * changes from fixed to free, so this ends after at most as many rounds as there are dimensions.
 *
 * A Scan is a loop: its number of iterations is the length of its inputs, and each iteration takes
 * one slice of each.
 */
#include "import/compose.h"
#include "import/control.h"
#include "op/kinds.h"

#include <inttypes.h>
#include <string.h>

/* ---- loops ----------------------------------------------------------------------------------- */

/* Of an input or output of a Scan: the axis of its slices, and whether they begin at its end. */
typedef struct {
    int64_t axis, reversed;
} ScanSide;

typedef struct {
    Call *k;
    const OnnxGraph *from;
    ValueId trips, cond;     /* 0: absent */
    const Expr *known_turns; /* NULL: unknown before the run */
    uint32_t ncarried;
    ValueId *carried; /* initial values; a sequence is two of them */
    Sym *name;        /* [ncarried] inside */
    uint32_t nmark;   /* carried values of the ONNX body */
    uint64_t *mark;   /* [nmark] the marks of those that are sequences */
    uint32_t nstacked;
    /* Scan: each iteration takes one slice of each, along an axis; reversed ones from the end. */
    uint32_t nslice;
    const ValueId *slice;
    const ScanSide *side;
    bool *free; /* [ncarried * TN_MAX_RANK]: dimensions that change */
    InnerGraph in;
    VEC(bool) changes; /* of in.size.bind: symbols of dimensions that change */
    ValueList args;
} LoopRead;

/* The rank that the body declares for its iteration number or condition: 0 unless it declares 1. */
static uint32_t
declared_rank(const OnnxValueInfo *v)
{
    const OnnxShape *shape = declared_shape(v);

    return shape && shape->n_dim == 1;
}

static ValueId
one_input(LoopRead *l, const char *name, DType t, uint32_t rank)
{
    const Expr *one = expr_int(l->k->c, 1);
    return graph_input(l->in.g, name, type_new(l->k->c, t, rank, &one));
}

static bool
carried_inputs(LoopRead *l)
{
    Model *m = l->k->m;
    const Expr *dim[TN_MAX_RANK];

    for (uint32_t i = 0; i < l->nmark; i++)
        if (l->mark[i])
            map_put(&m->value, MAP_PTR(sym(m->c, l->from->input[2 + i]->name)), l->mark[i]);

    for (uint32_t i = 0; i < l->ncarried; i++) {
        const char *name = l->name[i];
        const Type *t = l->in.around.g->value.at[l->carried[i]].type;
        for (uint32_t d = 0; d < t->rank; d++)
            if (!l->free[i * TN_MAX_RANK + d])
                dim[d] = inner_size(l->in.g, &l->in.size, t->dim[d]);
        while (l->changes.n < l->in.size.bind.n)
            VEC_PUSH(m->arena, &l->changes, false);
        for (uint32_t d = 0; d < t->rank; d++)
            if (l->free[i * TN_MAX_RANK + d]) {
                uint32_t nback = l->in.size.back.n;
                dim[d] = inner_symbol(l->in.g, &l->in.size,
                                      arena_printf(m->arena, "%s_%u", name, d), t->dim[d]);
                /* it equals the outer size only in the first iteration */
                l->in.size.back.n = nback;
                VEC_PUSH(m->arena, &l->changes, true);
            }
        ValueId v = graph_input(l->in.g, name, type_new(m->c, t->dtype, t->rank, dim));
        VEC_PUSH(m->arena, &l->args, l->carried[i]);
        if (!model_define(m, name, v, l->k->loc))
            return false;
    }
    return true;
}

/* One iteration's slice of input i of a Scan: gather(x, iteration), or from the end. */
static bool
slice_input(LoopRead *l, uint32_t i, ValueId iteration)
{
    Model *m = l->k->m;
    const char *name = l->from->input[l->ncarried + i]->name;

    if (!inside_hand_in(&l->in, "", l->slice[i], &l->args))
        return false;
    const char *end = arena_printf(
        m->arena, "i = squeeze(shape(x) {start = %" PRId64 ", end = %" PRId64 "}) - 1 - i\n",
        l->side[i].axis, l->side[i].axis + 1);
    ValueId out = value_of_text(l->k, "x i", VALUES(l->in.g->value.n - 1, iteration),
                                "%sgather(x, i) {axis = %" PRId64 "}",
                                l->side[i].reversed ? end : "", l->side[i].axis);
    if (out)
        graph_name(l->in.g, out, *name ? name : "slice");
    return out && model_define(m, name, out, l->k->loc);
}

/* Does the body return its condition as one bool? */
static bool
body_goes_on(const LoopRead *l)
{
    const Model *m = l->k->m;
    ValueId go = l->in.g->output.n ? l->in.g->output.at[0] : 0;

    if (!go) /* made by a node that was refused */
        return true;
    const Type *t = l->in.g->value.at[go].type;
    return (t->dtype == DT_BOOL && expr_is(type_count(m->c, t), 1)) ||
           diag_error(&m->c->diags, DIAG_MODEL, l->k->loc,
                      "the body's first result, whether there is another iteration, is %s; one "
                      "bool is needed",
                      type_str(m->c, t));
}

/* Reads the body with the dimensions known to change. */
static bool
read_loop_body(LoopRead *l)
{
    Model *m = l->k->m;
    bool scan = l->nslice != 0;

    l->args.n = 0;
    l->changes.n = 0;
    VEC_PUSH(m->arena, &l->args, l->trips);
    VEC_PUSH(m->arena, &l->args, l->cond);
    inside_enter(&l->in, l->k, l->from, "body");
    ValueId iteration = one_input(l, scan ? "turn" : l->from->input[0]->name, DT_I64,
                                  scan ? 0 : declared_rank(l->from->input[0]));
    ValueId cond = one_input(l, scan ? "go" : l->from->input[1]->name, DT_BOOL,
                             scan ? 0 : declared_rank(l->from->input[1]));
    bool ok = scan || (model_define(m, l->from->input[0]->name, iteration, l->k->loc) &&
                       model_define(m, l->from->input[1]->name, cond, l->k->loc));
    ok = ok && carried_inputs(l);
    for (uint32_t i = 0; ok && i < l->nslice; i++)
        ok = slice_input(l, i, iteration);
    if (ok && scan)
        VEC_PUSH(m->arena, &l->in.g->output, cond);
    l->in.may_be_empty = true;
    ok = ok && inside_captured(&l->in, &l->args) && inside_read(&l->in);
    inside_leave(&l->in);
    ok = ok && body_goes_on(l);
    while (l->changes.n < l->in.size.bind.n)
        VEC_PUSH(m->arena, &l->changes, false);
    return ok;
}

/* Does the body return the dimensions it was given? Others are freed; *again if there were any. */
static bool
compare_carried(LoopRead *l, bool *again)
{
    Ctx *c = l->k->c;
    const Graph *g = l->in.g;

    *again = false;
    for (uint32_t i = 0; i < l->ncarried; i++) {
        const Type *in = g->value.at[g->input.at[2 + i]].type,
                   *out = g->value.at[g->output.at[1 + i]].type;
        const char *name = g->value.at[g->input.at[2 + i]].name;
        if (in->dtype != out->dtype)
            return diag_error(&c->diags, DIAG_MODEL, l->k->loc,
                              "the carried value \"%s\" is %s, an iteration gives %s; both must "
                              "have one element type",
                              name, type_str(c, in), type_str(c, out));
        if (in->rank != out->rank)
            return call_refuse(
                l->k, "the carried value \"%s\" is %s, an iteration gives %s; Tenon needs one rank",
                name, type_str(c, in), type_str(c, out));
        for (uint32_t d = 0; d < in->rank; d++)
            if (!l->free[i * TN_MAX_RANK + d] && expr_eq(c, NULL, in->dim[d], out->dim[d]) != YES)
                *again = l->free[i * TN_MAX_RANK + d] = true;
    }
    return true;
}

/* Initial values; the two tensors of a sequence, if it has any yet. */
static void
expand_carried(LoopRead *l)
{
    Model *m = l->k->m;

    l->ncarried = 0;
    for (uint32_t i = 0; i < l->nmark; i++) {
        const uint64_t v = sequence_entry(l->k, 2 + i);
        Sym outer = sym(m->c, l->k->proto->input[2 + i]),
            inner = sym(m->c, l->from->input[2 + i]->name);
        l->mark[i] = sequence_is(v) ? v : 0;
        for (int part = 0; part < (!l->mark[i] ? 1 : sequence_has_rank(v) ? 2 : 0); part++) {
            l->name[l->ncarried] = l->mark[i] ? sequence_part(m->c, inner, part) : inner;
            l->carried[l->ncarried++] =
                inside_outer(l->k, l->mark[i] ? sequence_part(m->c, outer, part) : outer);
        }
    }
}

/* A sequence that begins empty, or with unknown rank, gets the rank of the first iteration; *again
 * if one was found. */
static bool
settle_sequences(LoopRead *l, bool *again)
{
    Model *m = l->k->m;

    for (uint32_t i = 0; i < l->nmark; i++) {
        uint64_t now = l->in.mark[1 + i];
        if (!l->mark[i] != !now)
            return call_refuse(
                l->k, "carried value %u is a sequence before or after an iteration, and none else",
                i);
        if (!now || (sequence_has_rank(l->mark[i]) && sequence_same_rank(l->mark[i], now)))
            continue;
        if (!sequence_has_rank(now))
            return call_refuse(
                l->k, "a carried sequence never has an item; Tenon does not know its rank");
        if (!sequence_settle(l->k, sym(m->c, l->k->proto->input[2 + i]), now))
            return false;
        *again = true;
    }
    return true;
}

/* Reads the body until no more dimension is freed. A body that fails with fixed dimensions may
 * succeed with free ones. */
static bool
read_until_stable(LoopRead *l)
{
    Diags *d = &l->k->c->diags;
    bool again = true;

    for (bool first = true; again; first = false) {
        uint32_t before = d->list.n;
        DiagClass worst = d->worst;
        bool settled = false, ok = read_loop_body(l);
        if (!ok && (!first || !l->ncarried))
            return false;
        if (ok && !l->nslice && !settle_sequences(l, &settled))
            return false;
        if (settled) {
            expand_carried(l);
            continue;
        }
        if (ok && !compare_carried(l, &again))
            return false;
        if (!ok) {
            d->list.n = before;
            d->worst = worst;
            for (uint32_t i = 0; i < l->ncarried * TN_MAX_RANK; i++)
                l->free[i] = true;
        }
    }
    return true;
}

/* Is v the condition that the body was given, or true? */
static bool
goes_on(const Graph *g, ValueId v)
{
    while (g->value.at[v].def) {
        const Node *n = &g->node.at[g->value.at[v].def];
        if (n->callee != CALL_OP || n->op != OP_identity)
            break;
        v = node_in(g, n, 0);
    }
    const Value *value = &g->value.at[v];
    return v == g->input.at[1] ||
           (value->known.at && value->known.n == 1 && expr_is(value->known.at[0], 1));
}

static bool
finish_loop(LoopRead *l)
{
    Call *k = l->k;
    Model *m = k->m;
    Ctx *c = m->c;
    ResultNames names = inside_results(k, l->in.mark + (l->nslice == 0));
    uint32_t nout = l->ncarried + l->nstacked;
    const Type **type = NEW_ARRAY(m->arena, const Type *, nout + 1);
    NewSymbols fresh = { 0 };
    const Expr *dim[TN_MAX_RANK], *trips = NULL;
    const Value *cond = l->cond ? &m->g->value.at[l->cond] : NULL;
    bool always = !cond || (cond->known.at && expr_is(cond->known.at[0], 1));

    for (uint32_t i = 0; i < nout; i++) {
        const Type *t = l->in.g->value.at[l->in.g->output.at[1 + i]].type;
        bool stacked = i >= l->ncarried;
        if (t->rank + stacked > TN_MAX_RANK)
            return call_refuse(k, "stacked output %u would have rank %u, the limit is %d", i,
                               t->rank + 1, TN_MAX_RANK);
        if (!stacked)
            t = l->in.g->value.at[l->in.g->input.at[2 + i]].type;
        if (stacked && !trips)
            trips = always && l->known_turns && goes_on(l->in.g, l->in.g->output.at[0])
                        ? expr_max(c, l->known_turns, expr_int(c, 0))
                        : inside_new_symbol(m, &fresh, inside_size_name(k, i, 0), l->known_turns);
        if (stacked)
            dim[0] = trips;
        for (uint32_t d = 0; d < t->rank; d++) {
            const Expr *e = inside_out(&l->in, l->changes.at, t->dim[d]);
            dim[stacked + d] =
                e ? e : inside_new_symbol(m, &fresh, inside_size_name(k, i, stacked + d), NULL);
        }
        type[i] = type_new(c, t->dtype, t->rank + stacked, dim);
    }
    Node n = { .callee = CALL_LOOP,
               .nregion = 1,
               .region = (Region[]){ inside_region(&l->in) },
               .nfresh = fresh.n,
               .fresh = fresh.at,
               .ncarried = l->ncarried };
    k->nout = nout;
    return inside_finish(k, &n, &l->args, type, names);
}

static const Expr *
known_number(const Model *m, ValueId v)
{
    const Value *value = v ? &m->g->value.at[v] : NULL;
    return value && value->known.at && value->known.n == 1 ? value->known.at[0] : NULL;
}

/* Is it known that there is no iteration? */
static bool
never_iterates(const LoopRead *l)
{
    const Expr *go = known_number(l->k->m, l->cond);

    return (l->known_turns && expr_bounds(l->k->c, NULL, l->known_turns).hi <= 0) ||
           (go && expr_is(go, 0));
}

/* The results of a body that cannot be read and never runs: carried values are unchanged, stacks
 * are empty, with their declared types. */
static bool
without_iterations(LoopRead *l)
{
    Call *k = l->k;
    Model *m = k->m;
    const Expr *dim[TN_MAX_RANK] = { expr_int(m->c, 0) };

    for (uint32_t i = 0; i < k->proto->n_output; i++) {
        ValueId v = i < l->nmark ? k->in.at[2 + i] : 0;
        const OnnxValueInfo *declared = l->from->output[1 + i];
        const OnnxShape *shape = declared_shape(declared);
        if (i >= l->nmark) {
            DType t = shape ? dtype_from_onnx(declared->type->tensor_type->elem_type) : DT_NONE;
            if (t == DT_NONE || shape->n_dim >= TN_MAX_RANK)
                return false;
            for (size_t d = 0; d < shape->n_dim; d++)
                dim[1 + d] =
                    expr_int(m->c, shape->dim[d]->dim_value > 0 ? shape->dim[d]->dim_value : 0);
            v = graph_const(m->g, k->proto->output[i],
                            type_new(m->c, t, (uint32_t)shape->n_dim + 1, dim), "");
        }
        if (!v)
            return false; /* a sequence */
        call_bind(k, i, v);
    }
    return true;
}

/* Is input i absent, or one number of type t? */
static bool
need_one(Call *k, uint32_t i, DType t, const char *what)
{
    const Type *given = i < k->in.n ? value_type(k, k->in.at[i]) : NULL;

    return !given || (given->dtype == t && expr_is(type_count(k->c, given), 1)) ||
           call_wrong(k, "input %u of %s, %s, is %s; one %s is needed", i, k->proto->op_type, what,
                      type_str(k->c, given), dtype_info[t].name);
}

bool
loop_read(Call *k)
{
    Model *m = k->m;
    LoopRead l = { .k = k };

    if (!inside_graph(k, "body", &l.from))
        return false;
    if (l.from->n_input < 2 || l.from->n_output < l.from->n_input - 1 ||
        k->proto->n_output > l.from->n_output - 1)
        return call_wrong(
            k, "a body with %zu inputs and %zu results does not fit a Loop with %zu results",
            l.from->n_input, l.from->n_output, k->proto->n_output);
    l.nmark = (uint32_t)l.from->n_input - 2;
    l.nstacked = (uint32_t)(l.from->n_output - 1) - l.nmark;
    while (k->in.n < k->proto->n_input || k->in.n < 2)
        VEC_PUSH(m->arena, &k->in, 0);
    if (k->in.n != 2 + l.nmark)
        return call_wrong(k, "the body carries %u values, the node gives %u", l.nmark, k->in.n - 2);
    if (!need_one(k, 0, DT_I64, "the number of iterations") ||
        !need_one(k, 1, DT_BOOL, "the condition"))
        return false;
    for (uint32_t i = 2; i < k->in.n; i++)
        if (!*k->proto->input[i])
            return call_wrong(k, "input %u of Loop is absent", i);
    l.trips = k->in.at[0];
    l.cond = k->in.at[1];
    l.known_turns = known_number(m, l.trips);
    l.carried = NEW_ARRAY(m->arena, ValueId, 2 * l.nmark + 1);
    l.name = NEW_ARRAY(m->arena, Sym, 2 * l.nmark + 1);
    l.mark = NEW_ARRAY(m->arena, uint64_t, l.nmark + 1);
    l.free = NEW_ARRAY(m->arena, bool, 2 * l.nmark * TN_MAX_RANK + 1);
    expand_carried(&l);
    const uint32_t said = m->c->diags.list.n;
    const DiagClass worst = m->c->diags.worst;
    if (read_until_stable(&l))
        return finish_loop(&l);
    if (!never_iterates(&l) || !without_iterations(&l) ||
        !inside_take_back(m, said, m->c->diags.list.n))
        return false;
    m->c->diags.worst = worst;
    return true;
}

/* ---- Scan ------------------------------------------------------------------------------------ */

/* From attributes scan_WHAT_axes and scan_WHAT_directions. NULL, reported: not n of them. */
static ScanSide *
read_sides(Call *k, const char *what, uint32_t n)
{
    static const char *const of[] = { "axes", "directions" };
    ScanSide *side = NEW_ARRAY(k->arena, ScanSide, n + 1);

    for (int d = 0; d < 2; d++) {
        const char *name = arena_printf(k->arena, "scan_%s_%s", what, of[d]);
        const OnnxAttribute *a = node_attribute(k->proto, name);
        if (a && a->n_ints != n)
            return (call_wrong(k, "attribute \"%s\" has %zu entries, %u are needed", name,
                               a->n_ints, n),
                    NULL);
        for (uint32_t i = 0; a && i < n; i++)
            *(d ? &side[i].reversed : &side[i].axis) = a->ints[i];
    }
    return side;
}

static bool
wrap_axis(Call *k, int64_t *axis, uint32_t rank)
{
    int64_t given = *axis;

    *axis += given < 0 ? rank : 0;
    return (*axis >= 0 && *axis < rank) ||
           call_wrong(k, "axis %lld is outside of a tensor of rank %u", (long long)given, rank);
}

/* Results are stacked along the first axis, in the order of iterations; a Scan may require another
 * axis, or the reverse order. */
static bool
arrange(Call *k, uint32_t output, int64_t axis, bool reversed)
{
    Model *m = k->m;
    ValueId v = inside_outer(k, sym(m->c, k->proto->output[output]));
    uint32_t rank = m->g->value.at[v].type->rank;

    if (!wrap_axis(k, &axis, rank))
        return false;
    if (reversed)
        v = value_of_text(k, "v", &v, "slice(v, [-1], [%" PRId64 "], [0], [-1])", -INT64_MAX);
    v = call_moved(k, v, 0, axis);
    call_bind(k, output, v);
    return v != 0;
}

bool
loop_read_scan(Call *k)
{
    Model *m = k->m;
    const OnnxAttribute *count = node_attribute(k->proto, "num_scan_inputs");
    LoopRead l = { .k = k };

    if (!inside_graph(k, "body", &l.from))
        return false;
    if (m->opset < 9 && k->in.n == l.from->n_input + 1)
        return scan_batches(k);
    l.nslice = count && count->i > 0 && (uint64_t)count->i <= k->in.n ? (uint32_t)count->i : 0;
    if (!l.nslice || l.from->n_input != k->in.n || l.from->n_output < k->in.n - l.nslice ||
        k->proto->n_output > l.from->n_output)
        return call_wrong(k,
                          "a body with %zu inputs and %zu results does not fit a Scan of %u inputs "
                          "and %zu results",
                          l.from->n_input, l.from->n_output, k->in.n, k->proto->n_output);
    for (uint32_t i = 0; i < k->in.n; i++)
        if (!k->in.at[i])
            return call_wrong(k, "input %u of Scan is %s; a tensor is needed", i,
                              *k->proto->input[i] ? "none" : "absent");
    l.ncarried = k->in.n - l.nslice;
    l.nstacked = (uint32_t)l.from->n_output - l.ncarried;
    l.carried = k->in.at;
    l.name = NEW_ARRAY(m->arena, Sym, l.ncarried + 1);
    for (uint32_t i = 0; i < l.ncarried; i++)
        l.name[i] = sym(m->c, l.from->input[i]->name);
    l.slice = k->in.at + l.ncarried;
    l.free = NEW_ARRAY(m->arena, bool, l.ncarried *TN_MAX_RANK + 1);
    ScanSide *in = read_sides(k, "input", l.nslice), *out = read_sides(k, "output", l.nstacked);
    if (!in || !out)
        return false;
    for (uint32_t i = 0; i < l.nslice; i++)
        if (!wrap_axis(k, &in[i].axis, m->g->value.at[l.slice[i]].type->rank))
            return false;
    l.side = in;
    l.trips =
        value_of_text(k, "x", &l.slice[0], "shape(x) {start = %" PRId64 ", end = %" PRId64 "}",
                      in[0].axis, in[0].axis + 1);
    l.known_turns = known_number(m, l.trips);
    if (!l.trips || !read_until_stable(&l) || !finish_loop(&l))
        return false;
    for (uint32_t i = 0; i < l.nstacked; i++)
        if (l.ncarried + i < k->proto->n_output && *k->proto->output[l.ncarried + i] &&
            (out[i].axis || out[i].reversed) &&
            !arrange(k, l.ncarried + i, out[i].axis, out[i].reversed != 0))
            return false;
    return true;
}
