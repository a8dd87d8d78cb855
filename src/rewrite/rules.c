/* rules: the table of identities, tried at every node until none fires.
 *
 * One sweep visits the nodes in order and rebuilds the graph. A rule looks at the node and its
 * producers in the old graph, whose inputs are mapped already, so it may take any of them; what it
 * leaves behind unread is dropped at the end of the sweep. Sweeps repeat while rules fire, since
 * one rule's result is another's pattern.
 *
 * Needs   types of all values.
 * Keeps   names of inputs and outputs; types of outputs.
 */
#include "rewrite/rules.h"
#include "op/kinds.h"

typedef enum { RULE_EXACT, RULE_NEAR, RULE_FAST } RuleClass;
typedef struct {
    OpKind root;
    RuleFn *fn;
    RuleClass class;
} Rule;

static const Rule rules[] = {
#define RULE(root, function, from, to, class) { OP_##root, rule_##function, RULE_##class },
#include "rewrite/rules.def"
#undef RULE
};

/* ---- what rules are made with ---------------------------------------------------------------- */

const Node *
rule_producer(const RuleCall *k, ValueId v, OpKind op)
{
    const Graph *g = k->r->from;
    NodeId def = v ? g->value.at[v].def : 0;
    const Node *n = &g->node.at[def];
    return def && n->callee == CALL_OP && n->op == op ? n : NULL;
}

ValueId
rule_input(const RuleCall *k, const Node *n, uint32_t i)
{
    return i < n->in.count ? k->r->map[node_in(k->r->from, n, i)] : 0;
}

const Value *
rule_value(const RuleCall *k, ValueId v)
{
    return &k->r->to->value.at[v];
}

bool
rule_call(RuleCall *k, OpKind op, Attrs attrs, uint32_t nin, const ValueId *in)
{
    Rebuild *r = k->r;
    ValueId out = graph_copy_value(r->to, r->from, k->out0);
    r->map[k->out0] = out;
    graph_call_op(r->to, &(OpNode){ op, attrs, k->n->loc, k->origin, nin, in }, 1, &out);
    return true;
}

bool
rule_is_constant(const RuleCall *k, ValueId v)
{
    return v && rule_value(k, v)->data && type_is_static(rule_value(k, v)->type);
}

void
rule_join_origin(RuleCall *k, const Node *p)
{
    k->origin = sym_printf(k->r->to->ctx, "%s + %s", p->origin, k->n->origin);
}

ValueId
rule_call_before(RuleCall *k, OpKind op, const Type *t, ValueId x, ValueId y)
{
    Graph *g = k->r->to;
    ValueId in[] = { x, y }, out = graph_value(g, op_info[op].name, t);
    graph_call_op(g,
                  &(OpNode){ .op = op, .loc = k->n->loc, .origin = k->origin, .nin = 2, .in = in },
                  1, &out);
    return out;
}

static ValueId
compute(RuleCall *k, OpKind op, Attrs attrs, const char *name, ValueId x, ValueId y)
{
    Graph *g = k->r->to;
    const Value *a = rule_value(k, x), *b = rule_value(k, y);
    const Type *type[] = { a->type, y ? b->type : NULL }, *out_type;
    const void *data[] = { a->data, y ? b->data : NULL };
    Known known[2] = { 0 };
    Tensor in[2] = { 0 }, out;
    OpCall call = { .op = op,
                    .loc = k->n->loc,
                    .attrs = attrs,
                    .nin = y ? 2 : 1,
                    .nout = 1,
                    .in = type,
                    .known = known,
                    .data = data,
                    .constraints = &g->constraints };
    for (uint32_t i = 0; i < call.nin; i++)
        if (!tensor_over(g->ctx, type[i], &(Symbols){ 0 }, data[i], &in[i]))
            return 0;
    if (!op_infer(g->ctx, &call, &out_type) ||
        !ref_op(g->ctx, g->arena, &call, &out_type, in, &out))
        return 0;
    return graph_const(g, name, out_type, out.data);
}

ValueId
rule_compute(RuleCall *k, OpKind op, const char *name, ValueId x, ValueId y)
{
    return compute(k, op, (Attrs){ 0 }, name, x, y);
}

ValueId
rule_number(RuleCall *k, const char *name, DType t, double v)
{
    Graph *g = k->r->to;
    Attr to = { .name = sym(g->ctx, "to"), .kind = ATTR_STRING, .s = dtype_info[t].name };
    const double *number = arena_copy(g->arena, &v, sizeof v);
    ValueId wide = graph_const(g, name, type_new(g->ctx, DT_F64, 0, NULL), number);

    return compute(k, OP_cast, (Attrs){ &to, 1 }, name, wide, 0);
}

ValueId
rule_reshaped(RuleCall *k, ValueId v, uint32_t rank, const Expr *const *dim)
{
    const Value *old = rule_value(k, v);
    const Type *t = type_new(k->r->to->ctx, old->type->dtype, rank, dim);
    return graph_const(k->r->to, old->name, t, old->data);
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

/* A sweep's rules: those of `most` and the classes before it; how often each has fired. */
typedef struct {
    RuleClass most;
    uint32_t *fired, any;
} RuleSweep;

static bool
try_rules(Rebuild *r, RuleSweep *s, const uint32_t *uses, NodeId id)
{
    const Node *n = &r->from->node.at[id];
    RuleCall k = { r,
                   uses,
                   id,
                   n,
                   n->in.count ? node_in(r->from, n, 0) : 0,
                   n->out.count ? node_out(r->from, n, 0) : 0,
                   n->origin };
    if (n->callee != CALL_OP || !k.out0)
        return false;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].root == n->op && rules[i].class <= s->most && rules[i].fn(&k)) {
            s->any++;
            if (s->fired)
                s->fired[i]++;
            return true;
        }
    return false;
}

static Graph *
sweep(const Graph *g, RuleSweep *s)
{
    Rebuild r;
    rebuild_begin(&r, g);
    const uint32_t *uses = graph_uses(g, r.scratch);
    s->any = 0;
    for (NodeId id = 1; id < g->node.n; id++)
        if (!try_rules(&r, s, uses, id))
            graph_copy_node(r.to, g, id, r.map);
    return rebuild_end(&r);
}

Graph *
rewrite_rules(const Graph *g, bool fast_math, uint32_t *fired)
{
    RuleSweep s = { fast_math ? RULE_FAST : RULE_NEAR, fired, 0 };
    Graph *result;
    do
        g = result = sweep(g, &s);
    while (s.any);
    return result;
}
