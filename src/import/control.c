/* control: If, Loop and Scan, whose graphs become graphs that a node runs.
 *
 * A graph inside a model may read any name of those around it. What it reads is found beforehand and
 * handed in: constants as constants of its own, the rest as arguments whose types are written in fresh
 * symbols, bound to the ones outside. So a graph is read the same way wherever it stands.
 *
 * A branch whose condition is known is read in place, as if it stood there.
 *
 * What a loop carries keeps a dimension as long as its body gives back the same one. Where it does not,
 * the dimension becomes a symbol of the body, and the body is read again with it; a dimension only ever
 * goes from fixed to free, so this ends after as many rounds as there are dimensions.
 *
 * A Scan is a loop: it runs as often as its inputs are long and takes one slice of each per turn.
 */
#include "import/internal.h"

#include <string.h>

/* ---- names read from outside ---------------------------------------------------------------------- */

typedef struct { Call *k; Map seen; } Names;

static const Onnx__AttributeProto *
attribute(const Onnx__NodeProto *n, const char *name)
{
    for (size_t i = 0; i < n->n_attribute; i++)
        if (!strcmp(text_of(n->attribute[i]->name), name))
            return n->attribute[i];
    return NULL;
}

typedef struct Inner { const struct Inner *outer; Map defined; } Inner;

static void
use_name(Names *names, const Inner *in, const char *s)
{
    Sym name = sym(names->k->m->c, text_of(s));

    if (!*name || map_get(&names->seen, MAP_PTR(name), NULL))
        return;
    for (; in; in = in->outer)
        if (map_get(&in->defined, MAP_PTR(name), NULL))
            return;
    map_put(&names->seen, MAP_PTR(name), 1);
    VEC_PUSH(names->k->m->arena, &names->k->captured, name);
}

static void
collect_names(Names *names, const Inner *outer, const Onnx__GraphProto *g)
{
    Ctx *c = names->k->m->c;
    Inner in = {outer, {.arena = names->k->m->arena}};

    for (size_t i = 0; i < g->n_input; i++)
        map_put(&in.defined, MAP_PTR(sym(c, text_of(g->input[i]->name))), 1);
    for (size_t i = 0; i < g->n_initializer; i++)
        map_put(&in.defined, MAP_PTR(sym(c, text_of(g->initializer[i]->name))), 1);
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t o = 0; o < g->node[i]->n_output; o++)
            map_put(&in.defined, MAP_PTR(sym(c, text_of(g->node[i]->output[o]))), 1);
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
    Names names = {k, {.arena = k->m->arena}};
    uint64_t v;

    for (size_t a = 0; a < k->proto->n_attribute; a++)
        if (k->proto->attribute[a]->g)
            collect_names(&names, NULL, k->proto->attribute[a]->g);
    for (uint32_t i = 0, n = k->captured.n; i < n; i++) {
        Sym name = k->captured.at[i];
        if (!map_get(&k->m->value, MAP_PTR(name), &v))
            return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "\"%s\", which a graph inside reads, is made by no node, input or initializer", name);
        *skip |= v == 0;
        if (!sequence_is(v))
            continue;
        VEC_PUSH(k->m->arena, &k->captured_mark, ((__typeof__(*k->captured_mark.at)){name, v}));
        k->captured.at[i] = NULL;
        for (int part = 0; sequence_has_rank(v) && part < 2; part++)
            VEC_PUSH(k->m->arena, &k->captured, sequence_part(k->m->c, name, part));
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < k->captured.n; i++)
        if (k->captured.at[i])
            k->captured.at[kept++] = k->captured.at[i];
    k->captured.n = kept;
    return !*skip;
}

static ValueId
outside(const Call *k, Sym name)
{
    uint64_t v = 0;
    map_get(&k->m->value, MAP_PTR(name), &v);
    return (ValueId)v;
}

static bool
graph_attr(Call *k, const char *name, const Onnx__GraphProto **out)
{
    const Onnx__AttributeProto *a = attribute(k->proto, name);

    *out = a ? a->g : NULL;
    return *out || diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "%s needs the graph \"%s\"", k->proto->op_type, name);
}

/* ---- a graph inside ----------------------------------------------------------------------------------- */

/* What is being read around it, to come back to. */
typedef struct { const Onnx__GraphProto *from; Graph *g; Map value; } Around;

typedef struct {
    Call *k;
    Around around;
    Graph *g;
    VEC(Binding) bind;       /* its symbols in those outside */
    VEC(Binding) back;       /* outside symbols by its own, where it has one for exactly that */
    ValueList output;        /* a sequence is two of them … */
    bool may_be_empty;       /* a sequence among them may have no rank yet */
    uint64_t *mark;          /* … and has its mark here, by output of the ONNX graph */
} Inside;

static void
enter(Inside *in, Call *k, const Onnx__GraphProto *from, const char *name)
{
    Model *m = k->m;

    *in = (Inside){.k = k, .around = {m->from, m->g, m->value}, .g = graph_new(m->c, m->arena, name)};
    m->from = from;
    m->g = in->g;
    m->value = (Map){.arena = m->arena};
}

static void
leave(Inside *in)
{
    Model *m = in->k->m;

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

/* A fresh symbol of the graph inside that stands for e outside. */
static const Expr *
bind_symbol(Inside *in, const char *like, const Expr *e)
{
    Ctx *c = in->k->m->c;
    const Expr *fresh = expr_fresh_symbol(c, like);
    Binding b = {.to = e}, back = {.to = fresh};

    expr_is_var(fresh, &b.var);
    VEC_PUSH(in->k->m->arena, &in->bind, b);
    if (expr_is_var(e, &back.var)) {
        VEC_PUSH(in->k->m->arena, &in->back, back);
        expr_symbol_range(c, b.var, expr_symbol_get(c, back.var));
    }
    return fresh;
}

static void
rename_symbol(void *user, Var v)
{
    Inside *in = user;

    for (uint32_t i = 0; i < in->back.n; i++)
        if (in->back.at[i].var.id == v.id)
            return;
    if (v.kind == VAR_SYMBOL)
        bind_symbol(in, (Sym)(uintptr_t)v.id, expr_var(in->k->m->c, v));
}

static const Expr *
inside_expr(Inside *in, const Expr *e)
{
    expr_vars(e, rename_symbol, in);
    return expr_subst(in->k->m->c, e, in->back.at, in->back.n);
}

static const Type *
inside_type(Inside *in, const Type *t)
{
    for (uint32_t d = 0; d < t->rank; d++)
        expr_vars(t->dim[d], rename_symbol, in);
    return type_subst(in->k->m->c, t, in->back.at, in->back.n);
}

/* Value v from outside under a name inside: a constant, or an input, which is then an argument. */
static bool
hand_in(Inside *in, const char *name, ValueId v, ValueList *args)
{
    Model *m = in->k->m;
    const Value value = in->around.g->value.at[v];
    ValueId inner;

    if (value.data) {
        inner = graph_const(in->g, *name ? name : value.name, value.type, value.data);
    } else {
        inner = graph_input(in->g, *name ? name : value.name, inside_type(in, value.type));
        for (uint32_t i = 0; value.known.at && i < value.known.n; i++)
            expr_vars(value.known.at[i], rename_symbol, in);
        Region r = {.nbind = in->bind.n, .bind = in->bind.at};
        in->g->value.at[inner].known = graph_known_inside(m->c, m->arena, value.known, &r);
        VEC_PUSH(m->arena, args, v);
    }
    return !*name || model_define(m, name, inner, in->k->loc);
}

static bool
hand_in_captured(Inside *in, ValueList *args)
{
    for (uint32_t i = 0; i < in->k->captured.n; i++) {
        Map inner = in->k->m->value;
        in->k->m->value = in->around.value;
        ValueId v = outside(in->k, in->k->captured.at[i]);
        in->k->m->value = inner;
        if (!hand_in(in, in->k->captured.at[i], v, args))
            return false;
    }
    for (uint32_t i = 0; i < in->k->captured_mark.n; i++)
        map_put(&in->k->m->value, MAP_PTR(in->k->captured_mark.at[i].name), in->k->captured_mark.at[i].mark);
    return true;
}

/* Its nodes and outputs. A value of 0 among these was refused, and has been reported. */
static bool
read_inside(Inside *in)
{
    in->mark = NEW_ARRAY(in->k->m->arena, uint64_t, in->k->m->from->n_output + 1);
    if (!model_body(in->k->m, &in->output) || !model_outputs(in->k->m, &in->output, in->mark))
        return false;
    for (size_t i = 0; i < in->k->m->from->n_output; i++)
        if (in->mark[i] && !sequence_has_rank(in->mark[i]))
            return in->may_be_empty || call_refuse(in->k, "a sequence leaves the graph without ever having had an item; Tenon does not know its rank");
    for (uint32_t i = 0; i < in->output.n; i++) {
        if (!in->output.at[i])
            return false;
        VEC_PUSH(in->k->m->arena, &in->g->output, in->output.at[i]);
    }
    return true;
}

static Region
region_of(const Inside *in)
{
    return (Region){in->g, in->bind.n, in->bind.at};
}

typedef struct { const Inside *in; const bool *changes; bool all; } Bound;

static void
check_bound(void *user, Var v)
{
    Bound *b = user;

    for (uint32_t i = 0; i < b->in->bind.n; i++)
        if (b->in->bind.at[i].var.id == v.id) {
            b->all &= !b->changes || !b->changes[i];
            return;
        }
    b->all = false;
}

/* A dimension inside, as it is outside; NULL where a symbol of the inside has no one value there. */
static const Expr *
outside_dim(const Inside *in, const bool *changes, const Expr *dim)
{
    Bound b = {in, changes, true};

    expr_vars(dim, check_bound, &b);
    return b.all ? expr_subst(in->k->m->c, dim, in->bind.at, in->bind.n) : NULL;
}

typedef VEC(NewSymbol) NewSymbols;

static const Expr *
new_symbol(Model *m, NewSymbols *fresh, const char *like, const Expr *most)
{
    const Expr *e = expr_fresh_symbol(m->c, like);
    Var v;

    VEC_PUSH(m->arena, fresh, ((NewSymbol){symbol_name(e), most}));
    expr_is_var(e, &v);
    if (most)
        expr_symbol_range(m->c, v, (Interval){0, expr_bounds(m->c, NULL, most).hi});
    return e;
}

/* The name of result i and its dimension d: what the symbol of that size is called. */
static const char *
size_name(Call *k, uint32_t i, uint32_t d)
{
    const char *name = i < k->proto->n_output ? text_of(k->proto->output[i]) : "";
    return arena_printf(k->m->arena, "%s_%u", *name ? name : "size", d);
}

/* The node's results by name; a sequence is two of them. */
typedef VEC(Sym) ResultNames;

static ResultNames
result_names(Call *k, const uint64_t *mark)
{
    Model *m = k->m;
    ResultNames names = {0};

    for (size_t i = 0; i < k->proto->n_output; i++) {
        Sym name = sym(m->c, text_of(k->proto->output[i]));
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

static bool
finish_node(Call *k, Node *n, const ValueList *in, const Type *const *type, ResultNames names)
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

/* ---- If ------------------------------------------------------------------------------------------------- */

/* The graph as part of the one around it. */
static bool
read_in_place(Call *k, const Onnx__GraphProto *from)
{
    Model *m = k->m;
    Around around = {m->from, m->g, m->value};
    Map inner = {.arena = m->arena};
    ValueList output = {0};

    for (uint32_t i = 0; i < k->captured.n; i++)
        map_put(&inner, MAP_PTR(k->captured.at[i]), outside(k, k->captured.at[i]));
    for (uint32_t i = 0; i < k->captured_mark.n; i++)
        map_put(&inner, MAP_PTR(k->captured_mark.at[i].name), k->captured_mark.at[i].mark);
    m->from = from;
    m->value = inner;
    uint64_t *mark = NEW_ARRAY(m->arena, uint64_t, from->n_output + 1);
    bool ok = model_body(m, &output) && model_outputs(m, &output, mark);
    m->from = around.from;
    m->value = around.value;
    ResultNames names = {0};
    if (ok)
        names = result_names(k, mark);
    for (uint32_t i = 0; i < names.n; i++)
        if (*names.at[i])
            map_put(&m->value, MAP_PTR(names.at[i]), output.at[i]);
    return ok;
}

/* The dimension both branches give, or a new symbol with the larger of both as its bound. */
static const Expr *
join_dim(Call *k, NewSymbols *fresh, const Inside *in, uint32_t i, uint32_t d)
{
    Ctx *c = k->m->c;
    const Expr *dim[2];

    for (int b = 0; b < 2; b++)
        dim[b] = outside_dim(&in[b], NULL, in[b].g->value.at[in[b].g->output.at[i]].type->dim[d]);
    if (dim[0] && dim[1] && expr_eq(c, NULL, dim[0], dim[1]) == YES)
        return dim[0];
    return new_symbol(k->m, fresh, size_name(k, i, d), dim[0] && dim[1] ? expr_max(c, dim[0], dim[1]) : NULL);
}

static bool
join_type(Call *k, NewSymbols *fresh, const Inside *in, uint32_t i, const Type **out)
{
    const Type *t[2];
    const Expr *dim[TN_MAX_RANK];

    for (int b = 0; b < 2; b++)
        t[b] = in[b].g->value.at[in[b].g->output.at[i]].type;
    if (t[0]->dtype != t[1]->dtype)
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "output %u is %s in one branch and %s in the other; both must have one element type",
                          i, type_str(k->m->c, t[0]), type_str(k->m->c, t[1]));
    if (t[0]->rank != t[1]->rank)
        return call_refuse(k, "output %u is %s in one branch and %s in the other; Tenon needs one rank", i, type_str(k->m->c, t[0]),
                           type_str(k->m->c, t[1]));
    for (uint32_t d = 0; d < t[0]->rank; d++)
        dim[d] = join_dim(k, fresh, in, i, d);
    *out = type_new(k->m->c, t[0]->dtype, t[0]->rank, dim);
    return true;
}

static bool
read_if(Call *k)
{
    Model *m = k->m;
    const Onnx__GraphProto *from[2];
    const Type **type = NEW_ARRAY(m->arena, const Type *, 2 * k->proto->n_output + 1);
    ValueList args = {0};
    NewSymbols fresh = {0};
    Inside in[2];
    bool ok = true;

    if (!graph_attr(k, "then_branch", &from[0]) || !graph_attr(k, "else_branch", &from[1]))
        return false;
    if (k->in.n != 1)
        return diag_error(&m->c->diags, DIAG_MODEL, k->loc, "If takes one condition, the node has %u inputs", k->in.n);
    const Value *cond = &m->g->value.at[k->in.at[0]];
    if (cond->type->dtype != DT_BOOL || !expr_is(type_count(m->c, cond->type), 1))
        return diag_error(&m->c->diags, DIAG_MODEL, k->loc, "the condition is %s; one bool is needed", type_str(m->c, cond->type));
    for (int b = 0; b < 2; b++)
        if (from[b]->n_output < k->nout)
            return diag_error(&m->c->diags, DIAG_MODEL, k->loc, "a branch gives %zu results, the node has %u", from[b]->n_output, k->nout);
    int64_t known;
    if (cond->known.at && expr_const(cond->known.at[0], &known))
        return read_in_place(k, known ? from[0] : from[1]);
    VEC_PUSH(m->arena, &args, k->in.at[0]);
    for (int b = 0; b < 2; b++) {
        args.n = 1;
        enter(&in[b], k, from[b], b ? "else" : "then");
        ok &= hand_in_captured(&in[b], &args) && read_inside(&in[b]);
        leave(&in[b]);
    }
    for (size_t i = 0; ok && i < k->proto->n_output; i++)
        if (in[0].mark[i] != in[1].mark[i])
            return call_refuse(k, "output %zu is a sequence in one branch, and none, or one of other items, in the other", i);
    if (!ok)
        return false;
    ResultNames names = result_names(k, in[0].mark);
    k->nout = names.n;
    for (uint32_t i = 0; i < k->nout; i++)
        if (!join_type(k, &fresh, in, i, &type[i]))
            return false;
    for (int b = 0; b < 2; b++)
        in[b].g->output.n = k->nout;
    Node n = {.callee = CALL_IF, .nregion = 2, .region = (Region[]){region_of(&in[0]), region_of(&in[1])}, .nfresh = fresh.n, .fresh = fresh.at};
    return finish_node(k, &n, &args, type, names);
}

/* ---- loops ------------------------------------------------------------------------------------------------ */

typedef struct {
    Call *k;
    const Onnx__GraphProto *from;
    ValueId turns, cond;             /* 0: without */
    const Expr *known_turns;         /* NULL: not known before the run */
    uint32_t ncarried;  ValueId *carried;            /* initial values; a sequence is two of them */
    Sym *name;                       /* [ncarried] inside */
    uint32_t nmark;                  /* carried values of the ONNX body */
    uint64_t *mark;                  /* [nmark] of those that are sequences */
    uint32_t nstacked;
    /* Scan: one slice of each per turn, along an axis, the last first where reversed. */
    uint32_t nslice;    const ValueId *slice; const int64_t *axis; const int64_t *reversed;
    bool *free;                      /* [ncarried * TN_MAX_RANK]: dimensions that change */
    Inside in;
    VEC(bool) changes;               /* of in.bind: symbols of dimensions that change */
    ValueList args;
} LoopRead;

/* The rank that the body declares for its turn or condition: 0 unless it says 1. */
static uint32_t
declared_rank(const Onnx__ValueInfoProto *v)
{
    const Onnx__TypeProto *t = v->type;
    return t && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && t->tensor_type->shape && t->tensor_type->shape->n_dim == 1;
}

static ValueId
one_input(LoopRead *l, const char *name, DType t, uint32_t rank)
{
    const Expr *one = expr_int(l->k->m->c, 1);
    return graph_input(l->in.g, name, type_new(l->k->m->c, t, rank, &one));
}

static bool
carried_inputs(LoopRead *l, uint32_t first)
{
    Model *m = l->k->m;
    const Expr *dim[TN_MAX_RANK];

    for (uint32_t i = 0; i < l->nmark; i++)
        if (l->mark[i])
            map_put(&m->value, MAP_PTR(sym(m->c, text_of(l->from->input[first + i]->name))), l->mark[i]);

    for (uint32_t i = 0; i < l->ncarried; i++) {
        const char *name = l->name[i];
        const Type *t = l->in.around.g->value.at[l->carried[i]].type;
        for (uint32_t d = 0; d < t->rank; d++)
            if (!l->free[i * TN_MAX_RANK + d])
                dim[d] = inside_expr(&l->in, t->dim[d]);
        while (l->changes.n < l->in.bind.n)
            VEC_PUSH(m->arena, &l->changes, false);
        for (uint32_t d = 0; d < t->rank; d++)
            if (l->free[i * TN_MAX_RANK + d]) {
                uint32_t nback = l->in.back.n;
                dim[d] = bind_symbol(&l->in, arena_printf(m->arena, "%s_%u", name, d), t->dim[d]);
                l->in.back.n = nback;                /* it stands for the size outside in the first turn only */
                VEC_PUSH(m->arena, &l->changes, true);
            }
        ValueId v = graph_input(l->in.g, name, type_new(m->c, t->dtype, t->rank, dim));
        VEC_PUSH(m->arena, &l->args, l->carried[i]);
        if (!model_define(m, name, v, l->k->loc))
            return false;
    }
    return true;
}

/* One turn's slice of input i of a Scan: gather(x, turn), or from the end. */
static bool
slice_input(LoopRead *l, uint32_t i, ValueId turn)
{
    Model *m = l->k->m;
    const char *name = text_of(l->from->input[l->ncarried + i]->name);
    ValueId whole, index = turn, out, at[2];

    if (!hand_in(&l->in, "", l->slice[i], &l->args))
        return false;
    whole = l->in.g->value.n - 1;
    Attr axis = {.name = sym(m->c, "axis"), .kind = ATTR_INT, .i = l->axis[i]};
    if (l->reversed[i]) {
        Attr part[2] = {{.name = sym(m->c, "start"), .kind = ATTR_INT, .i = l->axis[i]}, {.name = sym(m->c, "end"), .kind = ATTR_INT, .i = l->axis[i] + 1}};
        int64_t *one = NEW(m->arena, int64_t);
        *one = 1;
        at[0] = call_op(l->k, OP_shape, 2, part, 1, &whole, "length");
        ValueId scalar = at[0] ? call_op(l->k, OP_squeeze, 0, NULL, 1, at, "length") : 0;
        ValueId last = scalar ? call_op(l->k, OP_sub, 0, NULL, 2, (ValueId[]){scalar, graph_const(l->in.g, "one", type_new(m->c, DT_I64, 0, NULL), one)}, "last") : 0;
        index = last ? call_op(l->k, OP_sub, 0, NULL, 2, (ValueId[]){last, turn}, "index") : 0;
        if (!index)
            return false;
    }
    out = call_op(l->k, OP_gather, 1, &axis, 2, (ValueId[]){whole, index}, *name ? name : "slice");
    return out && model_define(m, name, out, l->k->loc);
}

/* The body with the dimensions that are known to change. */
static bool
read_loop_body(LoopRead *l)
{
    Model *m = l->k->m;
    bool scan = l->nslice != 0;
    uint32_t first = scan ? 0 : 2;

    l->args.n = 0;
    l->changes.n = 0;
    VEC_PUSH(m->arena, &l->args, l->turns);
    VEC_PUSH(m->arena, &l->args, l->cond);
    enter(&l->in, l->k, l->from, "body");
    ValueId turn = one_input(l, scan ? "turn" : text_of(l->from->input[0]->name), DT_I64, scan ? 0 : declared_rank(l->from->input[0]));
    ValueId cond = one_input(l, scan ? "go" : text_of(l->from->input[1]->name), DT_BOOL, scan ? 0 : declared_rank(l->from->input[1]));
    bool ok = scan || (model_define(m, l->from->input[0]->name, turn, l->k->loc) && model_define(m, l->from->input[1]->name, cond, l->k->loc));
    ok = ok && carried_inputs(l, first);
    for (uint32_t i = 0; ok && i < l->nslice; i++)
        ok = slice_input(l, i, turn);
    if (ok && scan)
        VEC_PUSH(m->arena, &l->in.g->output, cond);
    l->in.may_be_empty = true;
    ok = ok && hand_in_captured(&l->in, &l->args) && read_inside(&l->in);
    leave(&l->in);
    while (l->changes.n < l->in.bind.n)
        VEC_PUSH(m->arena, &l->changes, false);
    return ok;
}

/* Does the body give back what it was given? Dimensions that it does not are freed; *again if there were any. */
static bool
compare_carried(LoopRead *l, bool *again)
{
    Ctx *c = l->k->m->c;
    const Graph *g = l->in.g;

    *again = false;
    for (uint32_t i = 0; i < l->ncarried; i++) {
        const Type *in = g->value.at[g->input.at[2 + i]].type, *out = g->value.at[g->output.at[1 + i]].type;
        const char *name = g->value.at[g->input.at[2 + i]].name;
        if (in->dtype != out->dtype)
            return diag_error(&c->diags, DIAG_MODEL, l->k->loc, "the carried value \"%s\" is %s, a turn gives %s; both must have one element type",
                              name, type_str(c, in), type_str(c, out));
        if (in->rank != out->rank)
            return call_refuse(l->k, "the carried value \"%s\" is %s, a turn gives %s; Tenon needs one rank", name, type_str(c, in), type_str(c, out));
        for (uint32_t d = 0; d < in->rank; d++)
            if (!l->free[i * TN_MAX_RANK + d] && expr_eq(c, NULL, in->dim[d], out->dim[d]) != YES)
                *again = l->free[i * TN_MAX_RANK + d] = true;
    }
    return true;
}

/* Initial values, one by one; of a sequence its tensors, if it has any yet. */
static bool
expand_carried(LoopRead *l, uint32_t first_in, uint32_t first)
{
    Model *m = l->k->m;

    l->ncarried = 0;
    for (uint32_t i = 0; i < l->nmark; i++) {
        Sym outer = sym(m->c, text_of(l->k->proto->input[first_in + i])), inner = sym(m->c, text_of(l->from->input[first + i]->name));
        uint64_t v = 0;
        map_get(&m->value, MAP_PTR(outer), &v);
        l->mark[i] = sequence_is(v) ? v : 0;
        for (int part = 0; l->mark[i] && sequence_has_rank(v) && part < 2; part++) {
            uint64_t tensor = 0;
            map_get(&m->value, MAP_PTR(sequence_part(m->c, outer, part)), &tensor);
            l->name[l->ncarried] = sequence_part(m->c, inner, part);
            l->carried[l->ncarried++] = (ValueId)tensor;
        }
        if (l->mark[i])
            continue;
        l->name[l->ncarried] = inner;
        l->carried[l->ncarried++] = (ValueId)v;
    }
    return true;
}

/* A sequence that began empty has a rank after the first turn; *again if one was found. */
static bool
settle_sequences(LoopRead *l, uint32_t first_in, bool *again)
{
    Model *m = l->k->m;

    for (uint32_t i = 0; i < l->nmark; i++) {
        uint64_t now = l->in.mark[1 + i];
        if (!l->mark[i] != !now)
            return call_refuse(l->k, "carried value %u is a sequence before or after a turn, and none else", i);
        if (!now || sequence_has_rank(l->mark[i]))
            continue;
        if (!sequence_has_rank(now))
            return call_refuse(l->k, "a carried sequence never has an item; Tenon does not know its rank");
        *again = sequence_settle(l->k, sym(m->c, text_of(l->k->proto->input[first_in + i])), now);
    }
    return true;
}

/* Read until nothing more is freed. A body that fails with fixed dimensions may work with free ones. */
static bool
read_until_stable(LoopRead *l)
{
    Diags *d = &l->k->m->c->diags;
    bool again = true;

    for (bool first = true; again; first = false) {
        uint32_t before = d->list.n;
        DiagClass worst = d->worst;
        bool settled = false, ok = read_loop_body(l);
        if (!ok && (!first || !l->ncarried))
            return false;
        if (ok && !l->nslice && !settle_sequences(l, 2, &settled))
            return false;
        if (settled) {
            expand_carried(l, 2, 2);
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
    return v == g->input.at[1] || (value->known.at && value->known.n == 1 && expr_is(value->known.at[0], 1));
}

static bool
finish_loop(LoopRead *l)
{
    Call *k = l->k;
    Model *m = k->m;
    Ctx *c = m->c;
    ResultNames names = result_names(k, l->in.mark + (l->nslice == 0));
    uint32_t nout = l->ncarried + l->nstacked;
    const Type **type = NEW_ARRAY(m->arena, const Type *, nout + 1);
    NewSymbols fresh = {0};
    const Expr *dim[TN_MAX_RANK], *turns = NULL;
    const Value *cond = l->cond ? &m->g->value.at[l->cond] : NULL;
    bool always = !cond || (cond->known.at && expr_is(cond->known.at[0], 1));

    for (uint32_t i = 0; i < nout; i++) {
        const Type *t = l->in.g->value.at[l->in.g->output.at[1 + i]].type;
        bool stacked = i >= l->ncarried;
        if (t->rank + stacked > TN_MAX_RANK)
            return call_refuse(k, "stacked output %u would have rank %u, the limit is %d", i, t->rank + 1, TN_MAX_RANK);
        if (!stacked)
            t = l->in.g->value.at[l->in.g->input.at[2 + i]].type;
        if (stacked && !turns)
            turns = always && l->known_turns && goes_on(l->in.g, l->in.g->output.at[0])
                ? expr_max(c, l->known_turns, expr_int(c, 0)) : new_symbol(m, &fresh, size_name(k, i, 0), l->known_turns);
        if (stacked)
            dim[0] = turns;
        for (uint32_t d = 0; d < t->rank; d++) {
            const Expr *e = outside_dim(&l->in, l->changes.at, t->dim[d]);
            dim[stacked + d] = e ? e : new_symbol(m, &fresh, size_name(k, i, stacked + d), NULL);
        }
        type[i] = type_new(c, t->dtype, t->rank + stacked, dim);
    }
    Node n = {.callee = CALL_LOOP, .nregion = 1, .region = (Region[]){region_of(&l->in)}, .nfresh = fresh.n, .fresh = fresh.at, .ncarried = l->ncarried};
    k->nout = nout;
    return finish_node(k, &n, &l->args, type, names);
}

static const Expr *
known_number(const Model *m, ValueId v)
{
    const Value *value = v ? &m->g->value.at[v] : NULL;
    return value && value->known.at && value->known.n == 1 ? value->known.at[0] : NULL;
}

static bool
read_loop(Call *k)
{
    Model *m = k->m;
    LoopRead l = {.k = k};

    if (!graph_attr(k, "body", &l.from))
        return false;
    if (l.from->n_input < 2 || l.from->n_output < l.from->n_input - 1 || k->proto->n_output > l.from->n_output - 1)
        return diag_error(&m->c->diags, DIAG_MODEL, k->loc, "a body with %zu inputs and %zu results does not fit a Loop with %zu results",
                          l.from->n_input, l.from->n_output, k->proto->n_output);
    l.nmark = (uint32_t)l.from->n_input - 2;
    l.nstacked = (uint32_t)(l.from->n_output - 1) - l.nmark;
    while (k->in.n < k->proto->n_input || k->in.n < 2)
        VEC_PUSH(m->arena, &k->in, 0);
    if (k->in.n != 2 + l.nmark)
        return diag_error(&m->c->diags, DIAG_MODEL, k->loc, "the body carries %u values, the node gives %u", l.nmark, k->in.n - 2);
    for (uint32_t i = 2; i < k->in.n; i++)
        if (!*text_of(k->proto->input[i]))
            return diag_error(&m->c->diags, DIAG_MODEL, k->loc, "input %u of Loop is absent", i);
    l.turns = k->in.at[0];
    l.cond = k->in.at[1];
    l.known_turns = known_number(m, l.turns);
    l.carried = NEW_ARRAY(m->arena, ValueId, 2 * l.nmark + 1);
    l.name = NEW_ARRAY(m->arena, Sym, 2 * l.nmark + 1);
    l.mark = NEW_ARRAY(m->arena, uint64_t, l.nmark + 1);
    l.free = NEW_ARRAY(m->arena, bool, 2 * l.nmark * TN_MAX_RANK + 1);
    expand_carried(&l, 2, 2);
    return read_until_stable(&l) && finish_loop(&l);
}

/* ---- Scan -------------------------------------------------------------------------------------------------- */

static bool
ints_attr(Call *k, const char *name, uint32_t n, int64_t *out)
{
    const Onnx__AttributeProto *a = attribute(k->proto, name);

    if (a && a->n_ints != n)
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "attribute \"%s\" has %zu entries, %u are needed", name, a->n_ints, n);
    for (uint32_t i = 0; i < n; i++)
        out[i] = a ? a->ints[i] : 0;
    return true;
}

static bool
wrap_axis(Call *k, int64_t *axis, uint32_t rank)
{
    int64_t given = *axis;

    *axis += given < 0 ? rank : 0;
    return (*axis >= 0 && *axis < rank)
        || diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "axis %lld is outside of a tensor of rank %u", (long long)given, rank);
}

static ValueId
ints_const(Call *k, const char *name, uint32_t n, const int64_t *v)
{
    const Expr *dim = expr_int(k->m->c, n);
    return graph_const(k->m->g, name, type_new(k->m->c, DT_I64, 1, &dim), arena_copy(k->m->arena, v, n * sizeof *v));
}

/* Results are stacked in front, in the order of the turns; a Scan may want them elsewhere, and backwards. */
static bool
arrange(Call *k, uint32_t output, int64_t axis, bool reversed)
{
    Model *m = k->m;
    ValueId v = outside(k, sym(m->c, text_of(k->proto->output[output])));
    uint32_t rank = m->g->value.at[v].type->rank;
    int64_t perm[TN_MAX_RANK];

    if (!wrap_axis(k, &axis, rank))
        return false;
    if (reversed) {
        const int64_t start = -1, end = INT64_MIN, first = 0, step = -1;
        const ValueId in[5] = {v, ints_const(k, "starts", 1, &start), ints_const(k, "ends", 1, &end), ints_const(k, "axes", 1, &first),
                               ints_const(k, "steps", 1, &step)};
        v = call_op(k, OP_slice, 0, NULL, 5, in, "backwards");
    }
    for (uint32_t d = 0, next = 1; d < rank; d++)
        perm[d] = d == axis ? 0 : next++;
    if (v && axis) {
        Attr a = {.name = sym(m->c, "perm"), .kind = ATTR_INTS, .n = rank, .ints = arena_copy(m->arena, perm, rank * sizeof *perm)};
        v = call_op(k, OP_transpose, 1, &a, 1, &v, "arranged");
    }
    call_bind(k, output, v);
    return v != 0;
}

static bool
read_scan(Call *k)
{
    Model *m = k->m;
    const Onnx__AttributeProto *count = attribute(k->proto, "num_scan_inputs");
    LoopRead l = {.k = k};

    if (!graph_attr(k, "body", &l.from))
        return false;
    if (m->opset < 9)
        return call_refuse(k, "Scan of opset 8 scans batches with lengths; export the model with opset 9 or newer");
    l.nslice = count && count->i > 0 && (uint64_t)count->i <= k->in.n ? (uint32_t)count->i : 0;
    if (!l.nslice || l.from->n_input != k->in.n || l.from->n_output < k->in.n - l.nslice || k->proto->n_output > l.from->n_output)
        return diag_error(&m->c->diags, DIAG_MODEL, k->loc, "a body with %zu inputs and %zu results does not fit a Scan of %u inputs and %zu results",
                          l.from->n_input, l.from->n_output, k->in.n, k->proto->n_output);
    l.ncarried = k->in.n - l.nslice;
    l.nstacked = (uint32_t)l.from->n_output - l.ncarried;
    l.carried = k->in.at;
    l.name = NEW_ARRAY(m->arena, Sym, l.ncarried + 1);
    for (uint32_t i = 0; i < l.ncarried; i++)
        l.name[i] = sym(m->c, text_of(l.from->input[i]->name));
    l.slice = k->in.at + l.ncarried;
    l.free = NEW_ARRAY(m->arena, bool, l.ncarried * TN_MAX_RANK + 1);
    int64_t *axis = NEW_ARRAY(m->arena, int64_t, l.nslice), *reversed = NEW_ARRAY(m->arena, int64_t, l.nslice);
    int64_t *out_axis = NEW_ARRAY(m->arena, int64_t, l.nstacked + 1), *out_reversed = NEW_ARRAY(m->arena, int64_t, l.nstacked + 1);
    if (!ints_attr(k, "scan_input_axes", l.nslice, axis) || !ints_attr(k, "scan_input_directions", l.nslice, reversed)
        || !ints_attr(k, "scan_output_axes", l.nstacked, out_axis) || !ints_attr(k, "scan_output_directions", l.nstacked, out_reversed))
        return false;
    for (uint32_t i = 0; i < l.nslice; i++)
        if (!l.slice[i] || !wrap_axis(k, &axis[i], m->g->value.at[l.slice[i]].type->rank))
            return false;
    l.axis = axis;
    l.reversed = reversed;
    Attr part[2] = {{.name = sym(m->c, "start"), .kind = ATTR_INT, .i = axis[0]}, {.name = sym(m->c, "end"), .kind = ATTR_INT, .i = axis[0] + 1}};
    l.turns = call_op(k, OP_shape, 2, part, 1, &l.slice[0], "turns");
    l.known_turns = known_number(m, l.turns);
    if (!l.turns || !read_until_stable(&l) || !finish_loop(&l))
        return false;
    for (uint32_t i = 0; i < l.nstacked; i++)
        if (l.ncarried + i < k->proto->n_output && *text_of(k->proto->output[l.ncarried + i]) && (out_axis[i] || out_reversed[i])
            && !arrange(k, l.ncarried + i, out_axis[i], out_reversed[i] != 0))
            return false;
    return true;
}

Control *
control_named(const char *onnx)
{
    static const struct { const char *onnx; Control *read; } rows[] = {{"If", read_if}, {"Loop", read_loop}, {"Scan", read_scan}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].onnx, onnx))
            return rows[i].read;
    return NULL;
}
