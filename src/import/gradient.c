/* gradient: Gradient of the training domain: the derivative of the sum of y's elements by each of
 * xs, by reverse-mode differentiation.
 *
 * The nodes between xs and y have been imported already, so the rules are about Tenon's operators.
 * Each gives the gradient of an input from that of the result; if several nodes read a value, their
 * gradients are added. xs are inputs of the node, under their names in the graph.
 */
#include "import/compose.h"
#include "import/converters.h"

#include <string.h>

typedef struct {
    Call *k;
    uint32_t nvalue;
    bool *depends; /* on some x */
    ValueId *got;  /* the gradient of each value so far; 0: none */
} Gradient;

/* A copy of a node, since adding others moves the graph's arrays. */
typedef struct {
    OpKind op;
    Attrs attrs;
    uint32_t nin;
    ValueId in[8], out;
    Sym origin;
} NodeCopy;

/* v summed over the axes along which x was broadcast. */
static ValueId
like_operand(Call *k, ValueId v, ValueId x)
{
    const Type *to = value_type(k, x), *from = value_type(k, v);
    uint32_t more = from->rank - to->rank, kept = 0;
    int64_t ones[TN_MAX_RANK];

    for (uint32_t d = 0; d < to->rank; d++)
        if (expr_is(to->dim[d], 1) && !expr_is(from->dim[more + d], 1))
            ones[kept++] = d;
    if (more)
        v = value_of_text(k, "v", &v, "reduce_sum(v, %s) {keepdims = 0}", below_text(k, more));
    return v && kept ? value_of_text(k, "v", &v, "reduce_sum(v, %s) {keepdims = 1}",
                                     ints_text(k, kept, ones))
                     : v;
}

static bool
give(Gradient *a, ValueId x, ValueId v)
{
    if (x >= a->nvalue || !a->depends[x])
        return true;
    v = v ? like_operand(a->k, v, x) : 0;
    if (v && a->got[x])
        v = value_of_text(a->k, "a b", VALUES(a->got[x], v), "a + b");
    a->got[x] = v;
    return v != 0;
}

/* Each reduced element gets the gradient of the result. */
static bool
through_reduction(Gradient *a, const NodeCopy *s, ValueId g)
{
    ValueId x = s->in[0], axes = attr_int(s->attrs, "keepdims", 1) || s->nin < 2 ? 0 : s->in[1];

    return give(
        a, x,
        value_of_text(a->k, "g x o axes", VALUES(g, x, s->out, axes),
                      "axes? g = unsqueeze(g, axes)\n"
                      "g = expand(g, shape(x))\n"
                      "%s",
                      s->op == OP_reduce_mean ? "g * (like(size(o), x) / like(size(x), x))" : "g"));
}

static bool
through_matmul(Gradient *a, const NodeCopy *s, ValueId g)
{
    Call *k = a->k;

    if (value_type(k, s->in[0])->rank < 2 || value_type(k, s->in[1])->rank < 2)
        return call_refuse(k, "Gradient through a product with a vector (%s)", s->origin);
    return give(a, s->in[0],
                value_of_text(k, "g y", VALUES(g, call_matrix_transposed(k, s->in[1])),
                              "matmul(g, y)")) &&
           give(a, s->in[1],
                value_of_text(k, "g x", VALUES(g, call_matrix_transposed(k, s->in[0])),
                              "matmul(x, g)"));
}

static bool
through_transpose(Gradient *a, const NodeCopy *s, ValueId g)
{
    const Attr *perm = attr_find(s->attrs, "perm");
    uint32_t rank = value_type(a->k, g)->rank;
    int64_t back[TN_MAX_RANK];

    for (uint32_t d = 0; d < rank; d++)
        back[perm ? (uint32_t)perm->ints[d] : rank - 1 - d] = d;
    return give(a, s->in[0], call_transposed(a->k, g, back));
}

/* The gradients of inputs x and y, given the gradient g of the result o. */
static const struct {
    OpKind op;
    const char *x, *y;
} derivatives[] = {
    { OP_identity, "g", 0 },
    { OP_neg, "-g", 0 },
    { OP_add, "g", "g" },
    { OP_sub, "g", "-g" },
    { OP_mul, "g * y", "g * x" },
    { OP_div, "g / y", "-(g * o / y)" },
    { OP_exp, "g * o", 0 },
    { OP_log, "g / x", 0 },
    { OP_sqrt, "g / (o * 2)", 0 },
    { OP_sin, "g * cos(x)", 0 },
    { OP_cos, "-(g * sin(x))", 0 },
    { OP_relu, "g * like(x > 0, x)", 0 },
    { OP_sigmoid, "g * (o * (1 - o))", 0 },
    { OP_tanh, "g * (1 - o * o)", 0 },
    { OP_reshape, "reshape(g, shape(x))", 0 },
    { OP_flatten, "reshape(g, shape(x))", 0 },
    { OP_squeeze, "reshape(g, shape(x))", 0 },
    { OP_unsqueeze, "reshape(g, shape(x))", 0 },
};

static bool
step_back(Gradient *a, const NodeCopy *s, ValueId g)
{
    const ValueId v[] = { g, s->in[0], s->nin > 1 ? s->in[1] : 0, s->out };

    if (s->op == OP_matmul)
        return through_matmul(a, s, g);
    if (s->op == OP_transpose)
        return through_transpose(a, s, g);
    if (s->op == OP_reduce_sum || s->op == OP_reduce_mean)
        return through_reduction(a, s, g);
    for (size_t i = 0; i < sizeof derivatives / sizeof *derivatives; i++)
        if (derivatives[i].op == s->op) {
            const char *y = derivatives[i].y;
            return give(a, v[1], value_of_text(a->k, "g x y o", v, "%s", derivatives[i].x)) &&
                   (!y || give(a, v[2], value_of_text(a->k, "g x y o", v, "%s", y)));
        }
    return call_refuse(a->k, "Gradient through %s", s->origin);
}

static NodeCopy
step_of(const Graph *g, NodeId id)
{
    const Node *n = &g->node.at[id];
    NodeCopy s = { .op = n->callee == CALL_OP ? n->op : OP_NONE,
                   .attrs = n->attrs,
                   .nin = n->in.count < 8 ? n->in.count : 8,
                   .out = node_out(g, n, 0),
                   .origin = n->origin };

    for (uint32_t i = 0; i < s.nin; i++)
        s.in[i] = node_in(g, n, i);
    return s;
}

static bool
go_back(Gradient *a, ValueId y)
{
    Graph *g = a->k->m->g;
    NodeId last = g->value.at[y].def;

    for (NodeId id = 1; id <= last; id++) {
        const Node *n = &g->node.at[id];
        bool depends = false;
        for (uint32_t i = 0; i < n->in.count; i++)
            depends |= node_in(g, n, i) && a->depends[node_in(g, n, i)];
        for (uint32_t i = 0; i < n->out.count; i++)
            a->depends[node_out(g, n, i)] |= depends;
    }
    for (NodeId id = last; id >= 1; id--) {
        NodeCopy s = step_of(g, id);
        if (a->depends[s.out] && a->got[s.out] && !step_back(a, &s, a->got[s.out]))
            return false;
    }
    return true;
}

bool
convert_gradient(Call *k)
{
    Model *m = k->m;
    const Onnx__AttributeProto *xs = proto_attr(k, "xs");
    const char *name = attr_string((Attrs){ k->attr.at, k->attr.n }, "y", "");
    uint64_t y = 0, x = 0;
    Gradient a = { .k = k, .nvalue = m->g->value.n };

    if (!xs || !xs->n_strings || xs->n_strings > k->in.n ||
        !map_get(&m->value, MAP_PTR(sym(m->c, name)), &y) || !y || sequence_is(y))
        return diag_error(
            &m->c->diags, DIAG_MODEL, k->loc,
            "Gradient needs xs, a value for each, and a y that is made before; y is \"%s\"", name);
    a.depends = NEW_ARRAY(m->arena, bool, a.nvalue);
    a.got = NEW_ARRAY(m->arena, ValueId, a.nvalue);
    for (size_t i = 0; i < xs->n_strings; i++) {
        const char *one = arena_printf(m->arena, "%.*s", (int)xs->strings[i].len,
                                       xs->strings[i].len ? (const char *)xs->strings[i].data : "");
        if (!map_get(&m->value, MAP_PTR(sym(m->c, one)), &x) || !x || x != k->in.at[i])
            return call_refuse(k, "Gradient for \"%s\" at another point than where it is", one);
        a.depends[x] = true;
    }
    a.got[y] = value_of_text(k, "y", VALUES((ValueId)y), "expand(like(1, y), shape(y))");
    if (!a.got[y] || !go_back(&a, (ValueId)y))
        return false;
    for (uint32_t i = 0; i < k->nout && i < xs->n_strings; i++) {
        x = k->in.at[i];
        ValueId v = a.got[x] ? a.got[x] : value_of_text(k, "x", VALUES((ValueId)x), "x * 0");
        if (!v)
            return false;
        call_bind(k, i, v);
    }
    k->done = true;
    return true;
}
