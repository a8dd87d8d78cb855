/* onnx: converts a parsed model to a graph of Tenon's operators.
 *
 * All nodes that cannot be imported are reported, not only the first: their outputs become value 0,
 * and nodes that depend on them are skipped without a report.
 */
#include "import/compose.h"
#include "import/converters.h"
#include "op/kinds.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_NODES 1000000

/* ---- order ----------------------------------------------------------------------------------- */

typedef struct {
    Model *m;
    Map producer;
    uint8_t *state;
    uint32_t *order, n;
} Sorter;

/* Topological sort with a stack instead of recursion; a node is popped once its producers are
 * placed. */
static bool
place(Sorter *s, uint32_t root, uint32_t *stack)
{
    const OnnxGraph *g = s->m->from;
    uint32_t depth = 0;

    stack[depth++] = root;
    while (depth) {
        uint32_t at = stack[depth - 1];
        uint64_t from;
        bool waiting = false;
        s->state[at] = 1;
        for (size_t i = 0; i < g->node[at]->n_input && !waiting; i++) {
            if (!map_get(&s->producer, MAP_PTR(sym(s->m->c, g->node[at]->input[i])), &from) ||
                s->state[from] == 2)
                continue;
            if (s->state[from] == 1)
                return diag_error(
                    &s->m->c->diags, DIAG_MODEL, node_loc(s->m->arena, s->m->path, g->node[at], at),
                    "the node depends on its own output through \"%s\": the graph has a cycle",
                    g->node[at]->input[i]);
            stack[depth++] = (uint32_t)from;
            waiting = true;
        }
        if (!waiting) {
            s->state[at] = 2;
            s->order[s->n++] = at;
            depth--;
        }
    }
    return true;
}

static uint32_t *
node_order(Model *m)
{
    const OnnxGraph *g = m->from;
    Sorter s = { .m = m, .producer = { .arena = m->arena } };
    uint32_t *stack = NEW_ARRAY(m->arena, uint32_t, g->n_node + 1);

    s.state = NEW_ARRAY(m->arena, uint8_t, g->n_node + 1);
    s.order = NEW_ARRAY(m->arena, uint32_t, g->n_node + 1);
    for (uint32_t i = 0; i < g->n_node; i++)
        for (size_t o = 0; o < g->node[i]->n_output; o++) {
            Sym name = sym(m->c, g->node[i]->output[o]);
            if (*name && map_get(&s.producer, MAP_PTR(name), NULL)) {
                diag_error(&m->c->diags, DIAG_MODEL, node_loc(m->arena, m->path, g->node[i], i),
                           "the name \"%s\" is made by two nodes", name);
                return NULL;
            }
            if (*name)
                map_put(&s.producer, MAP_PTR(name), i);
        }
    for (uint32_t i = 0; i < g->n_node; i++)
        if (s.state[i] != 2 && !place(&s, i, stack))
            return NULL;
    return s.order;
}

/* ---- names and sizes ------------------------------------------------------------------------- */

bool
model_report(const Model *m, DiagClass class, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    diag_verror(&m->c->diags, class, (Loc){ .file = m->path }, format, args);
    va_end(args);
    return false;
}

bool
model_require_said(Model *m, Constraint needed)
{
    Tri same = expr_eq(m->c, NULL, needed.a, needed.b);

    if (same == UNKNOWN) {
        VEC_PUSH(m->c->arena, &m->g->constraints, needed);
        expr_assume_eq(m->c, needed.a, needed.b);
    }
    return same != NO;
}

bool
model_require(Model *m, const Expr *a, const Expr *b, const char *why)
{
    return model_require_said(m, (Constraint){ .a = a, .b = b, .why = why });
}

bool
model_define(Model *m, const char *name, ValueId v, Loc loc)
{
    Sym s = sym(m->c, name);

    if (map_get(&m->value, MAP_PTR(s), NULL))
        return diag_error(&m->c->diags, DIAG_MODEL, loc, "the name \"%s\" is defined twice", name);
    map_put(&m->value, MAP_PTR(s), v);
    return true;
}

const OnnxTensorType *
tensor_type(const OnnxType *t)
{
    return t && t->value_case == ONNX_TENSOR_TYPE ? t->tensor_type : NULL;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

bool
call_report(Call *k, DiagClass class, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    diag_verror(&k->c->diags, class, k->loc, format, args);
    va_end(args);
    return false;
}

void
call_bind(Call *k, uint32_t output, ValueId v)
{
    if (output < k->proto->n_output && *k->proto->output[output])
        map_put(&k->m->value, MAP_PTR(sym(k->c, k->proto->output[output])), v);
}

static bool
is_parameter(const Model *m, const char *name)
{
    for (size_t i = 0; m->function && i < m->function->n_input; i++)
        if (!strcmp(m->function->input[i], name))
            return true;
    return false;
}

/* With `lists`, inputs may be sequences, as 0. The inputs, or *skip if one comes from a node that
 * was refused. */
static bool
read_operands(Call *k, bool lists, bool *skip)
{
    Model *m = k->m;
    uint64_t v;

    *skip = false;
    for (size_t i = 0; i < k->proto->n_input; i++) {
        const char *name = k->proto->input[i];
        if (!*name) {
            VEC_PUSH(m->arena, &k->in, 0);
            continue;
        }
        bool there = map_get(&m->value, MAP_PTR(sym(m->c, name)), &v);
        /* the call of the function omits it */
        if (!there && is_parameter(m, name)) {
            VEC_PUSH(m->arena, &k->in, 0);
            continue;
        }
        if (!there)
            return call_wrong(k, "input \"%s\" is made by no node, input or initializer", name);
        *skip |= v == 0;
        if (sequence_is(v) && !lists)
            return call_refuse(k, "input \"%s\" is a sequence, which %s does not take in Tenon",
                               name, k->proto->op_type);
        VEC_PUSH(m->arena, &k->in, sequence_is(v) ? 0 : (ValueId)v);
    }
    while (k->in.n && !k->in.at[k->in.n - 1])
        k->in.n--;
    k->nout = (uint32_t)k->proto->n_output;
    while (k->nout && !*k->proto->output[k->nout - 1])
        k->nout--;
    return true;
}

bool
call_outputs(Call *k, OpKind op, uint32_t nattr, const Attr *attr)
{
    const char **names = NEW_ARRAY(k->arena, const char *, k->nout + 1);
    ValueId *out = NEW_ARRAY(k->arena, ValueId, k->nout + 1);
    OpNode call = call_node(k, op, nattr, attr, k->in.n, k->in.at);

    for (uint32_t i = 0; i < k->nout; i++)
        names[i] = *k->proto->output[i] ? k->proto->output[i] : NULL;
    if (!graph_infer_op(k->m->g, &call, k->nout, names, out))
        return false;
    for (uint32_t i = 0; i < k->nout; i++)
        call_bind(k, i, out[i]);
    return true;
}

bool
model_node(Model *m, const OnnxNode *n, uint32_t index)
{
    const Map none = { .arena = m->arena };
    Call k = { .m = m,
               .c = m->c,
               .arena = m->arena,
               .proto = n,
               .loc = node_loc(m->arena, m->path, n, index),
               .name = none,
               .fact = none };
    const char *name = n->name && *n->name ? n->name : n->n_output ? n->output[0] : "";
    bool skip;

    if (m->nodes_left-- <= 0)
        return m->nodes_left == -1 &&
               diag_error(&m->c->diags, DIAG_LIMIT, k.loc,
                          "with the bodies of functions and loops there are more nodes "
                          "than the limit; raise it with --max-nodes");
    k.origin = sym_printf(m->c, "%s \"%s\"", n->op_type, name);
    for (size_t o = 0; o < n->n_output; o++)
        call_bind(&k, (uint32_t)o, 0);
    const char *domain = n->domain;
    bool standard = !*domain || !strcmp(domain, "ai.onnx");
    const char *full = standard ? n->op_type : arena_printf(m->arena, "%s.%s", domain, n->op_type);
    static const OpRow own = { "", OP_NONE, own_call, .control = true },
                       function = { "", OP_NONE, function_call, .control = true };
    const OpRow *row = flex_row(&k, sequence_row(&k, op_row(m, full)));
    bool lists = row && row->control;
    if (!row && own_named(m, n, full))
        row = &own;
    if (!row && function_named(m, n))
        row = &function;
    if (!row)
        return refuse_operator(&k, full);
    if (!read_operands(&k, lists, &skip))
        return false;
    if (skip || (row->control && !control_names(&k, &skip)))
        return skip;
    if (!inputs_checked(&k, row))
        return false;
    k.op = row->op;
    if (!(row->control ? row->convert(&k) : call_convert(&k, row)))
        return false;
    if (!row->control && !k.done && (!call_lengths(&k) || !call_sizes(&k, row)))
        return false;
    call_finish(&k);
    return row->control || k.done || !k.nout || call_outputs(&k, k.op, k.attr.n, k.attr.at);
}

static bool
model_outputs(Model *m, ValueList *output, uint64_t *mark)
{
    const OnnxGraph *g = m->from;
    uint64_t v;

    output->n = 0;
    for (size_t i = 0; i < g->n_output; i++) {
        Sym name = sym(m->c, g->output[i]->name);
        if (!map_get(&m->value, MAP_PTR(name), &v))
            return model_report(m, DIAG_MODEL,
                                "output \"%s\" is made by no node, input or initializer", name);
        mark[i] = sequence_is(v) ? v : 0;
        for (int part = 0; mark[i] && part < 2; part++) {
            map_get(&m->value, MAP_PTR(sequence_part(m->c, name, part)), &v);
            VEC_PUSH(m->arena, output, (ValueId)v);
        }
        if (!mark[i])
            VEC_PUSH(m->arena, output, (ValueId)v);
    }
    return true;
}

bool
model_body(Model *m, ValueList *output, uint64_t *mark)
{
    const OnnxGraph *g = m->from;
    uint32_t most = depth_levels(m->c);
    bool ok = true;

    if (m->depth >= most)
        return model_report(
            m, DIAG_LIMIT,
            "graph \"%s\": graphs and calls of functions are nested more than %u deep; "
            "raise the limit with --max-depth, which may be %d (ONNX lets no function call itself)",
            g->name, most, DEPTH_MOST);
    uint32_t *order = node_order(m);
    if (!order || !input_defaults(m))
        return false;
    m->depth++;
    for (size_t i = 0; i < g->n_node; i++) {
        ok &= model_node(m, g->node[order[i]], order[i]);
        if (m->ranks) {
            ok &= model_continuation(m, order + i, g->n_node - i);
            break;
        }
    }
    m->depth--;
    return ok &&
           model_outputs(m, output, mark ? mark : NEW_ARRAY(m->arena, uint64_t, g->n_output + 1));
}

/* Does the value get the output's name? Inputs and constants, and values that are an output under
 * another name already, keep theirs. */
static bool
is_named_anew(const Model *m, const ValueList *output, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (output->at[k] == output->at[i])
            return false;
    return m->g->value.at[output->at[i]].def != 0;
}

/* The output under its name: a copy where the value has another one that it keeps. 0: reported. */
static ValueId
named_output(Model *m, const ValueList *output, uint32_t i, Sym name)
{
    ValueId v = output->at[i], made;
    OpNode copy = { .op = OP_identity,
                    .loc = { .file = m->path },
                    .origin = sym_printf(m->c, "output \"%s\"", name),
                    .nin = 1,
                    .in = &v };

    if (!is_named_anew(m, output, i)) {
        if (!strcmp(m->g->value.at[v].name, name))
            return v;
        if (!graph_infer_op(m->g, &copy, 1, &name, &made))
            return 0;
        v = made;
    }
    graph_rename(m->g, v, name);
    return v;
}

Graph *
import_onnx(Ctx *c, Arena *arena, const char *path, Bytes file, const ImportOptions *o)
{
    Model m = { .c = c,
                .arena = arena,
                .path = path,
                .value = { .arena = arena },
                .mapped = { .arena = arena },
                .ranked = { .arena = arena } };
    ValueList output = { 0 };
    int64_t most = o && o->max_nodes ? o->max_nodes : DEFAULT_NODES;

    m.proto = model_read(c, arena, path, file, o);
    if (!m.proto)
        return NULL;
    m.opset = model_opset(m.proto);
    if (m.opset > NEWEST_OPSET || m.opset < 1) {
        model_report(&m, m.opset < 1 ? DIAG_MODEL : DIAG_UNSUPPORTED,
                     "the model uses opset %" PRId64
                     " of ONNX; this build knows 1 to %d; export it with one of these",
                     m.opset, NEWEST_OPSET);
        return NULL;
    }
    if ((int64_t)m.proto->graph->n_node > most) {
        model_report(&m, DIAG_LIMIT,
                     "the model has %zu nodes, the limit is %" PRId64 "; raise it with --max-nodes",
                     m.proto->graph->n_node, most);
        return NULL;
    }
    const char *name = m.proto->graph->name;
    m.g = graph_new(c, arena, *name ? name : "model");
    m.from = m.proto->graph;
    m.nodes_left = most;
    m.seed = o ? o->seed : 0;
    m.given = o ? o->given : NULL;
    m.prefix = o ? o->prefix : NULL;
    m.is_state = o ? o->is_state : NULL;
    m.user = o ? o->user : NULL;
    /* before the model's sizes are known, which may have the same names */
    if (!own_read(&m, o ? o->nests : NULL))
        return NULL;
    if (m.from->n_output == 0) {
        model_report(&m, DIAG_MODEL, "the graph has no outputs");
        return NULL;
    }
    if (o && o->metadata)
        metadata_read(&m, o->metadata);
    uint64_t *mark = NEW_ARRAY(arena, uint64_t, m.from->n_output + 1);
    if (!input_read(&m, o) || !model_body(&m, &output, mark))
        return NULL;
    for (uint32_t i = 0, at = 0; at < output.n; i++) {
        Sym given = sym(c, m.from->output[i]->name);
        ValueId keys = mark[i] ? 0 : map_output(&m, m.from->output[i]);
        for (int part = 0; part < (mark[i] ? 2 : 1); part++, at++) {
            if (!output.at[at]) {
                model_report(&m, DIAG_UNSUPPORTED,
                             "output \"%s\" is a sequence that never has an item; Tenon does not "
                             "know its rank",
                             given);
                return NULL;
            }
            ValueId v = named_output(&m, &output, at,
                                     mark[i] ? sequence_part(c, given, part)
                                     : keys  ? map_part(c, given, 0)
                                             : given);
            if (!v)
                return NULL;
            VEC_PUSH(arena, &m.g->output, v);
        }
        if (keys)
            VEC_PUSH(arena, &m.g->output, keys);
    }
    return m.g;
}
