/* control: converts graphs in a model to graphs that a node runs; If.
 *
 * A graph in a model may read any name of the outer graphs. These are found first and passed in:
 * constants become constants of the graph, all others become arguments, with fresh symbols in their
 * types that are bound to the outer sizes. So a graph is read the same way everywhere.
 *
 * A branch whose condition is known is read in place. An error in a branch makes runs fail that
 * take it, not the compilation.
 */
#include "import/control.h"
#include "import/converters.h"

#include <string.h>

/* ---- captured names -------------------------------------------------------------------------- */

typedef struct {
    Call *k;
    Map seen;
} CapturedNames;

typedef struct InnerNames {
    const struct InnerNames *outer;
    Map defined;
} InnerNames;

static void
use_name(CapturedNames *names, const InnerNames *in, const char *s)
{
    Sym name = sym(names->k->c, s);

    if (!*name || map_get(&names->seen, MAP_PTR(name), NULL))
        return;
    for (; in; in = in->outer)
        if (map_get(&in->defined, MAP_PTR(name), NULL))
            return;
    map_put(&names->seen, MAP_PTR(name), 1);
    VEC_PUSH(names->k->arena, &names->k->captured, name);
}

static void
collect_names(CapturedNames *names, const InnerNames *outer, const OnnxGraph *g)
{
    Ctx *c = names->k->c;
    InnerNames in = { outer, { .arena = names->k->arena } };

    for (size_t i = 0; i < g->n_input; i++)
        map_put(&in.defined, MAP_PTR(sym(c, g->input[i]->name)), 1);
    for (size_t i = 0; i < g->n_initializer; i++)
        map_put(&in.defined, MAP_PTR(sym(c, g->initializer[i]->name)), 1);
    for (size_t i = 0; i < g->n_sparse_initializer; i++)
        map_put(&in.defined, MAP_PTR(sym(c, sparse_name(g->sparse_initializer[i]))), 1);
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t o = 0; o < g->node[i]->n_output; o++)
            map_put(&in.defined, MAP_PTR(sym(c, g->node[i]->output[o])), 1);
    for (size_t i = 0; i < g->n_node; i++) {
        for (size_t k = 0; k < g->node[i]->n_input; k++)
            use_name(names, &in, g->node[i]->input[k]);
        for (size_t a = 0; a < g->node[i]->n_attribute; a++)
            if (g->node[i]->attribute[a]->g)
                collect_names(names, &in, g->node[i]->attribute[a]->g);
    }
    for (size_t i = 0; i < g->n_output; i++)
        use_name(names, &in, g->output[i]->name);
}

bool
control_names(Call *k, bool *skip)
{
    CapturedNames names = { k, { .arena = k->arena } };
    uint64_t v;

    for (size_t a = 0; a < k->proto->n_attribute; a++)
        if (k->proto->attribute[a]->g)
            collect_names(&names, NULL, k->proto->attribute[a]->g);
    const Sym *name = k->captured.at;
    const uint32_t n = k->captured.n;
    k->captured = (__typeof__(k->captured)){ 0 };
    for (uint32_t i = 0; i < n; i++) {
        if (!map_get(&k->m->value, MAP_PTR(name[i]), &v))
            return call_wrong(
                k, "\"%s\", which a graph inside reads, is made by no node, input or initializer",
                name[i]);
        *skip |= v == 0;
        if (sequence_is(v))
            VEC_PUSH(k->arena, &k->captured_mark,
                     ((__typeof__(*k->captured_mark.at)){ name[i], v }));
        else
            VEC_PUSH(k->arena, &k->captured, name[i]);
    }
    for (uint32_t i = 0; i < k->captured_mark.n; i++)
        for (int part = 0; part < (sequence_has_rank(k->captured_mark.at[i].mark) ? 2 : 0); part++)
            VEC_PUSH(k->arena, &k->captured,
                     sequence_part(k->c, k->captured_mark.at[i].name, part));
    return !*skip;
}

ValueId
inside_outer(const Call *k, Sym name)
{
    uint64_t v = 0;
    map_get(&k->m->value, MAP_PTR(name), &v);
    return (ValueId)v;
}

bool
inside_graph(Call *k, const char *name, const OnnxGraph **out)
{
    const OnnxAttribute *a = node_attribute(k->proto, name);

    *out = a ? a->g : NULL;
    return *out || call_wrong(k, "%s needs the graph \"%s\"", k->proto->op_type, name);
}

/* ---- inner graphs ---------------------------------------------------------------------------- */

void
inside_enter(InnerGraph *in, Call *k, const OnnxGraph *from, const char *name)
{
    Model *m = k->m;

    *in = (InnerGraph){ .k = k,
                        .around = { m->from, m->g, m->value, m->in_place },
                        .g = graph_new(m->c, m->arena, name) };
    m->in_place = false;
    m->from = from;
    m->g = in->g;
    m->value = (Map){ .arena = m->arena };
}

void
inside_leave(InnerGraph *in)
{
    Model *m = in->k->m;

    m->in_place = in->around.in_place;
    m->from = in->around.from;
    m->g = in->around.g;
    m->value = in->around.value;
}

static Sym
symbol_name(const Expr *e)
{
    Var v;
    expr_is_var(e, &v);
    return (Sym)(uintptr_t)v.id;
}

bool
inside_hand_in(InnerGraph *in, const char *name, ValueId v, ValueList *args)
{
    Model *m = in->k->m;
    const Value value = in->around.g->value.at[v];
    ValueId inner;

    if (value.data) {
        inner = graph_const(in->g, *name ? name : value.name, value.type, value.data);
    } else {
        inner =
            graph_input(in->g, *name ? name : value.name, inner_type(in->g, &in->size, value.type));
        for (uint32_t i = 0; value.known.at && i < value.known.n; i++)
            inner_size(in->g, &in->size, value.known.at[i]);
        Region r = { .nbind = in->size.bind.n, .bind = in->size.bind.at };
        in->g->value.at[inner].known = graph_known_inside(m->c, m->arena, value.known, &r);
        VEC_PUSH(m->arena, args, v);
    }
    return !*name || model_define(m, name, inner, in->k->loc);
}

bool
inside_captured(InnerGraph *in, ValueList *args)
{
    uint64_t v = 0;

    for (uint32_t i = 0; i < in->k->captured.n; i++) {
        map_get(&in->around.value, MAP_PTR(in->k->captured.at[i]), &v);
        if (!inside_hand_in(in, in->k->captured.at[i], (ValueId)v, args))
            return false;
    }
    for (uint32_t i = 0; i < in->k->captured_mark.n; i++)
        map_put(&in->k->m->value, MAP_PTR(in->k->captured_mark.at[i].name),
                in->k->captured_mark.at[i].mark);
    return true;
}

bool
inside_place(Call *k, const OnnxGraph *from, Map inner, bool in_place, ValueList *output,
             uint64_t *mark)
{
    Model *m = k->m;
    Around around = { m->from, m->g, m->value, m->in_place };

    for (uint32_t i = 0; i < k->captured.n; i++)
        map_put(&inner, MAP_PTR(k->captured.at[i]), inside_outer(k, k->captured.at[i]));
    for (uint32_t i = 0; i < k->captured_mark.n; i++)
        map_put(&inner, MAP_PTR(k->captured_mark.at[i].name), k->captured_mark.at[i].mark);
    m->from = from;
    m->value = inner;
    m->in_place = in_place;
    bool ok = model_body(m, output, mark);
    m->in_place = around.in_place;
    m->from = around.from;
    m->value = around.value;
    return ok;
}

bool
inside_read(InnerGraph *in)
{
    in->mark = NEW_ARRAY(in->k->arena, uint64_t, in->k->m->from->n_output + 1);
    if (!model_body(in->k->m, &in->output, in->mark))
        return false;
    for (size_t i = 0; i < in->k->m->from->n_output; i++)
        if (in->mark[i] && !sequence_has_rank(in->mark[i]))
            return in->may_be_empty ||
                   call_refuse(in->k, "a sequence leaves the graph without ever having had an "
                                      "item; Tenon does not know its rank");
    for (uint32_t i = 0; i < in->output.n; i++) {
        if (!in->output.at[i])
            return false;
        VEC_PUSH(in->k->arena, &in->g->output, in->output.at[i]);
    }
    return true;
}

const Diag *
inside_take_back(Model *m, uint32_t first, uint32_t end)
{
    Diags *d = &m->c->diags;
    const Diag *error = NULL;

    for (uint32_t i = first; i < end; i++) {
        const Diag *one = &d->list.at[i];
        if (!one->note &&
            (!one->loc.node || (one->class != DIAG_MODEL && one->class != DIAG_UNSUPPORTED)))
            return NULL;
        if (!one->note && !error)
            error = arena_copy(m->arena, one, sizeof *one);
    }
    if (error) {
        memmove(d->list.at + first, d->list.at + end, (d->list.n - end) * sizeof *d->list.at);
        d->list.n -= end - first;
    }
    return error;
}

Region
inside_region(const InnerGraph *in)
{
    return (Region){ in->g, in->size.bind.n, in->size.bind.at };
}

const Expr *
inside_out(const InnerGraph *in, const bool *changes, const Expr *dim)
{
    FOR_EACH_VARIABLE (v, dim) {
        uint32_t i = 0;
        while (i < in->size.bind.n && in->size.bind.at[i].var.id != v.id)
            i++;
        if (i == in->size.bind.n || (changes && changes[i]))
            return NULL;
    }
    return expr_subst(in->k->c, dim, in->size.bind.at, in->size.bind.n);
}

const Expr *
inside_new_symbol(Model *m, NewSymbols *fresh, const char *like, const Expr *most)
{
    const Expr *e = expr_fresh_symbol(m->c, like);
    Var v;

    VEC_PUSH(m->arena, fresh, ((NewSymbol){ symbol_name(e), most }));
    expr_is_var(e, &v);
    if (most)
        expr_symbol_range(m->c, v, (Interval){ 0, expr_bounds(m->c, NULL, most).hi });
    return e;
}

const char *
inside_size_name(Call *k, uint32_t i, uint32_t d)
{
    const char *name = i < k->proto->n_output ? k->proto->output[i] : "";
    return arena_printf(k->arena, "%s_%u", *name ? name : "size", d);
}

ResultNames
inside_results(Call *k, const uint64_t *mark)
{
    Model *m = k->m;
    ResultNames names = { 0 };

    for (size_t i = 0; i < k->proto->n_output; i++) {
        Sym name = sym(m->c, k->proto->output[i]);
        if (!mark[i]) {
            VEC_PUSH(m->arena, &names, name);
            continue;
        }
        for (int part = 0; part < 2; part++)
            VEC_PUSH(m->arena, &names, *name ? sequence_part(m->c, name, part) : name);
        if (*name)
            map_put(&m->value, MAP_PTR(name), mark[i]);
    }
    return names;
}

bool
inside_finish(Call *k, Node *n, const ValueList *in, const Type *const *type, ResultNames names)
{
    Model *m = k->m;
    ValueId *out = NEW_ARRAY(m->arena, ValueId, k->nout + 1);

    n->loc = k->loc;
    n->origin = k->origin;
    for (uint32_t i = 0; i < k->nout; i++) {
        Sym name = i < names.n ? names.at[i] : sym(m->c, "");
        out[i] = graph_value(m->g, *name ? name : "unused", type[i]);
        if (*name)
            map_put(&m->value, MAP_PTR(name), out[i]);
    }
    graph_call_region(m->g, n, in->n, in->at, k->nout, out);
    return true;
}

/* ---- If -------------------------------------------------------------------------------------- */

static bool
read_in_place(Call *k, const OnnxGraph *from)
{
    ValueList output = { 0 };
    uint64_t *mark = NEW_ARRAY(k->arena, uint64_t, from->n_output + 1);

    if (!inside_place(k, from, (Map){ .arena = k->arena }, true, &output, mark))
        return false;
    ResultNames names = inside_results(k, mark);
    for (uint32_t i = 0; i < names.n; i++)
        if (*names.at[i])
            map_put(&k->m->value, MAP_PTR(names.at[i]), output.at[i]);
    return true;
}

ValueId
inside_apply(Call *k, const OnnxGraph *from, ValueId x)
{
    Map inner = { .arena = k->arena };
    ValueList output = { 0 };
    uint64_t mark[1];

    if (from->n_input != 1 || from->n_output != 1)
        return (ValueId)call_wrong(
            k, "a graph of %s takes %zu values and gives %zu; it has to take one and give one",
            k->proto->op_type, from->n_input, from->n_output);
    map_put(&inner, MAP_PTR(sym(k->c, from->input[0]->name)), x);
    return inside_place(k, from, inner, k->m->in_place, &output, mark) && !mark[0] ? output.at[0]
                                                                                   : 0;
}

/* The dimension if both branches agree, otherwise a new symbol with the larger of both as its
 * bound. */
static const Expr *
join_dim(Call *k, NewSymbols *fresh, const InnerGraph *in, uint32_t i, uint32_t d)
{
    const Expr *dim[2];

    for (int b = 0; b < 2; b++)
        dim[b] = inside_out(&in[b], NULL, in[b].g->value.at[in[b].g->output.at[i]].type->dim[d]);
    if (dim[0] && dim[1] && expr_eq(k->c, NULL, dim[0], dim[1]) == YES)
        return dim[0];
    return inside_new_symbol(k->m, fresh, inside_size_name(k, i, d),
                             dim[0] && dim[1] ? expr_max(k->c, dim[0], dim[1]) : NULL);
}

static bool
join_type(Call *k, NewSymbols *fresh, const InnerGraph *in, uint32_t i, const Type **out)
{
    const Type *t[2];
    const Expr *dim[TN_MAX_RANK];

    for (int b = 0; b < 2; b++)
        t[b] = in[b].g->value.at[in[b].g->output.at[i]].type;
    if (t[0]->dtype != t[1]->dtype)
        return call_wrong(
            k, "output %u is %s in one branch and %s in the other; both must have one element type",
            i, type_str(k->c, t[0]), type_str(k->c, t[1]));
    for (uint32_t d = 0; d < t[0]->rank; d++)
        dim[d] = join_dim(k, fresh, in, i, d);
    *out = type_new(k->c, t[0]->dtype, t[0]->rank, dim);
    return true;
}

/* Outputs of different ranks; m->ranks tells which. */
static bool
ranks_differ(Call *k, const InnerGraph *in)
{
    Model *m = k->m;

    for (uint32_t i = 0; i < k->nout; i++) {
        const Type *t = in[0].g->value.at[in[0].g->output.at[i]].type,
                   *e = in[1].g->value.at[in[1].g->output.at[i]].type;
        if (t->rank != e->rank)
            m->ranks = arena_printf(
                m->arena,
                "%s: output %u is %s in one branch and %s in the other; Tenon needs one rank",
                k->proto->op_type, i, type_str(m->c, t), type_str(m->c, e));
    }
    return m->ranks != NULL;
}

/* Does each result have the rank that the branch's graph declares for it? At least one is
 * declared. */
static bool
ranks_declared(const InnerGraph *in, const OnnxGraph *from)
{
    bool any = false;

    for (uint32_t i = 0; i < from->n_output; i++) {
        const OnnxShape *declared = declared_shape(from->output[i]);
        if (in->mark[i] || i >= in->g->output.n)
            return false;
        if (declared && declared->n_dim != in->g->value.at[in->g->output.at[i]].type->rank)
            return false;
        any |= declared != NULL;
    }
    return any;
}

/* Reads the only valid branch, or the only one that the following nodes accept, in place; a run
 * whose condition selects the other one fails. */
static bool
read_only(Call *k, const OnnxGraph *from, bool wanted, const char *why)
{
    Model *m = k->m;
    const ValueId is = call_match(k, call_int_list(k, call_cast(k, k->in.at[0], DT_I64)),
                                  (const Expr *const[]){ expr_int(m->c, 1) });

    if (!is || !m->g->value.at[is].known.at)
        return false;
    const Constraint needed = { .a = m->g->value.at[is].known.at[0],
                                .b = expr_int(m->c, wanted),
                                .why = arena_printf(m->c->arena, "%s: %s", k->origin, why),
                                .said = "" };
    VEC_PUSH(m->g->arena, &m->g->constraints, needed);
    return read_in_place(k, from);
}

static const char *
refused_branch(Model *m, bool then, const char *why)
{
    return arena_printf(m->c->arena, "a run that takes the %s branch is refused: %s",
                        then ? "then" : "else", why);
}

/* One of the branches has errors, the diagnostics `first` to `end`: runs that take it fail with the
 * first of them. */
static bool
read_without(Call *k, const OnnxGraph *const *from, int other, uint32_t first, uint32_t end,
             DiagClass worst, bool goes_on)
{
    Model *m = k->m;
    const Diag *mistake = inside_take_back(m, first, end);

    if (!mistake)
        return false;
    m->c->diags.worst = worst;
    m->ranks = NULL;
    const char *why = refused_branch(
        m, other, arena_printf(m->arena, "%s: %s", mistake->loc.node, mistake->text));
    if (!goes_on)
        diag_note(&m->c->diags, k->loc, "%s", why);
    return read_only(k, from[other], other == 0, why);
}

static bool
read_if(Call *k)
{
    Model *m = k->m;
    const OnnxGraph *from[2];
    const Type **type = NEW_ARRAY(m->arena, const Type *, 2 * k->proto->n_output + 1);
    ValueList args = { 0 };
    NewSymbols fresh = { 0 };
    InnerGraph in[2];
    bool fits[2], goes_on = m->goes_on;
    const DiagClass worst = m->c->diags.worst;
    uint32_t said[3] = { m->c->diags.list.n };

    m->goes_on = false;

    if (!inside_graph(k, "then_branch", &from[0]) || !inside_graph(k, "else_branch", &from[1]))
        return false;
    if (k->in.n != 1)
        return call_wrong(k, "If takes one condition, the node has %u inputs", k->in.n);
    const Value *cond = &m->g->value.at[k->in.at[0]];
    if (cond->type->dtype != DT_BOOL || !expr_is(type_count(m->c, cond->type), 1))
        return call_wrong(k, "the condition is %s; one bool is needed", type_str(m->c, cond->type));
    for (int b = 0; b < 2; b++)
        if (from[b]->n_output < k->nout)
            return call_wrong(k, "a branch gives %zu results, the node has %u", from[b]->n_output,
                              k->nout);
    int64_t known;
    if (cond->known.at && expr_const(cond->known.at[0], &known))
        return read_in_place(k, known ? from[0] : from[1]);
    VEC_PUSH(m->arena, &args, k->in.at[0]);
    for (int b = 0; b < 2; b++) {
        args.n = 1;
        inside_enter(&in[b], k, from[b], b ? "else" : "then");
        fits[b] = inside_captured(&in[b], &args) && inside_read(&in[b]);
        inside_leave(&in[b]);
        said[b + 1] = m->c->diags.list.n;
    }
    if (fits[0] != fits[1])
        return read_without(k, from, fits[1], said[fits[0]], said[fits[0] + 1], worst, goes_on);
    if (!fits[0] && goes_on) /* the following nodes are the same in both */
        m->c->diags.list.n = said[1];
    if (!fits[0])
        return false;
    for (size_t i = 0; i < k->proto->n_output; i++)
        if (in[0].mark[i] != in[1].mark[i])
            return call_refuse(k,
                               "output %zu is a sequence in one branch, and none, or one of other "
                               "items, in the other",
                               i);
    ResultNames names = inside_results(k, in[0].mark);
    k->nout = names.n;
    if (ranks_differ(k, in)) {
        const bool declared[2] = { goes_on && ranks_declared(&in[0], from[0]),
                                   goes_on && ranks_declared(&in[1], from[1]) };
        if (declared[0] == declared[1])
            return true;
        m->ranks = NULL;
        return read_only(k, from[declared[0] ? 0 : 1], declared[0],
                         refused_branch(m, !declared[0],
                                        "results of the graph have other ranks than it declares"));
    }
    for (uint32_t i = 0; i < k->nout; i++)
        if (!join_type(k, &fresh, in, i, &type[i]))
            return false;
    for (int b = 0; b < 2; b++)
        in[b].g->output.n = k->nout;
    Node n = { .callee = CALL_IF,
               .nregion = 2,
               .region = (Region[]){ inside_region(&in[0]), inside_region(&in[1]) },
               .nfresh = fresh.n,
               .fresh = fresh.at };
    return inside_finish(k, &n, &args, type, names);
}

const OpRow control_rows[] = {
    { "If", OP_NONE, read_if, "n0", .control = true },
    { "Loop", OP_NONE, loop_read, "n01", .control = true },
    { "Scan", OP_NONE, loop_read_scan, .control = true },
    { 0 },
};
