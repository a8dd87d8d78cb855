/* gradient: Gradient of the training domain: how a sum of y's elements moves with each of xs, by
 * the chain rule backwards.
 *
 * The nodes between xs and y have been imported already, so the rules are about Tenon's operators.
 * Each says what an input gets of what its result got; where several nodes read a value, that is
 * added up. xs are taken where they are: as inputs of the node, under their names in the graph.
 */
#include "import/little.h"

#include <string.h>

typedef struct {
    Call *k;
    uint32_t nvalue;
    bool *depends; /* on one of xs */
    ValueId *got;  /* what each value got so far; 0: nothing */
} Gradient;

/* A node as it stood: adding others moves the graph's arrays. */
typedef struct {
    OpKind op;
    Attrs attrs;
    uint32_t nin;
    ValueId in[8], out;
    Sym origin;
} Step;

static ValueId
number_like(Call *k, ValueId like, double v)
{
    return scalar_const(k, "number", like, v);
}

/* v summed over the axes along which x was repeated. */
static ValueId
like_operand(Call *k, ValueId v, ValueId x)
{
    const Type *to = value_type(k, x), *from = value_type(k, v);
    uint32_t more = from->rank - to->rank, n = 0, kept = 0;
    int64_t gone[TN_MAX_RANK], ones[TN_MAX_RANK];
    Attr drop = { .name = sym(k->m->c, "keepdims"), .kind = ATTR_INT, .i = 0 },
         keep = { .name = sym(k->m->c, "keepdims"), .kind = ATTR_INT, .i = 1 };

    for (uint32_t d = 0; d < more; d++)
        gone[n++] = d;
    for (uint32_t d = 0; d < to->rank; d++)
        if (expr_is(to->dim[d], 1) && !expr_is(from->dim[more + d], 1))
            ones[kept++] = d;
    if (n)
        v = call_op(k, OP_reduce_sum, 1, &drop, 2, (ValueId[]){ v, little_list(k, n, gone) },
                    "given");
    return v && kept ? call_op(k, OP_reduce_sum, 1, &keep, 2,
                               (ValueId[]){ v, little_list(k, kept, ones) }, "given")
                     : v;
}

static bool
give(Gradient *a, ValueId x, ValueId v)
{
    if (x >= a->nvalue || !a->depends[x])
        return true;
    v = v ? like_operand(a->k, v, x) : 0;
    if (v && a->got[x])
        v = little_2(a->k, OP_add, a->got[x], v);
    a->got[x] = v;
    return v != 0;
}

/* What is reduced gets the result's part at each of its elements. */
static bool
through_reduction(Gradient *a, const Step *s, ValueId g)
{
    Call *k = a->k;
    ValueId x = s->in[0], shape = little_shape(k, x);

    if (!attr_int(s->attrs, "keepdims", 1) && s->nin > 1 && value_type(k, s->in[1]))
        g = little_2(k, OP_unsqueeze, g, s->in[1]);
    g = g ? little_2(k, OP_expand, g, shape) : 0;
    if (g && s->op == OP_reduce_mean) {
        ValueId share = little_2(
            k, OP_div, little_cast(k, little_1(k, OP_size, s->out), value_type(k, x)->dtype),
            little_cast(k, little_1(k, OP_size, x), value_type(k, x)->dtype));
        g = little_2(k, OP_mul, g, share);
    }
    return give(a, x, g);
}

static bool
through_matmul(Gradient *a, const Step *s, ValueId g)
{
    Call *k = a->k;

    if (value_type(k, s->in[0])->rank < 2 || value_type(k, s->in[1])->rank < 2)
        return call_refuse(k, "Gradient through a product with a vector (%s)", s->origin);
    return give(a, s->in[0], little_2(k, OP_matmul, g, call_turned(k, s->in[1]))) &&
           give(a, s->in[1], little_2(k, OP_matmul, call_turned(k, s->in[0]), g));
}

static bool
through_transpose(Gradient *a, const Step *s, ValueId g)
{
    Call *k = a->k;
    const Attr *perm = attr_find(s->attrs, "perm");
    uint32_t rank = value_type(k, g)->rank;
    int64_t back[TN_MAX_RANK];

    for (uint32_t d = 0; d < rank; d++)
        back[perm ? (uint32_t)perm->ints[d] : rank - 1 - d] = d;
    Attr turned = { .name = sym(k->m->c, "perm"),
                    .kind = ATTR_INTS,
                    .n = rank,
                    .ints = arena_copy(k->m->arena, back, sizeof back) };
    return give(a, s->in[0], call_op(k, OP_transpose, 1, &turned, 1, &g, "given"));
}

static bool
step_back(Gradient *a, const Step *s, ValueId g)
{
    Call *k = a->k;
    ValueId x = s->in[0], y = s->nin > 1 ? s->in[1] : 0, o = s->out;

    switch ((int)s->op) {
    case OP_identity: return give(a, x, g);
    case OP_neg: return give(a, x, little_1(k, OP_neg, g));
    case OP_add: return give(a, x, g) && give(a, y, g);
    case OP_sub: return give(a, x, g) && give(a, y, little_1(k, OP_neg, g));
    case OP_mul:
        return give(a, x, little_2(k, OP_mul, g, y)) && give(a, y, little_2(k, OP_mul, g, x));
    case OP_div:
        return give(a, x, little_2(k, OP_div, g, y)) &&
               give(a, y, little_1(k, OP_neg, little_2(k, OP_div, little_2(k, OP_mul, g, o), y)));
    case OP_exp: return give(a, x, little_2(k, OP_mul, g, o));
    case OP_log: return give(a, x, little_2(k, OP_div, g, x));
    case OP_sqrt:
        return give(a, x, little_2(k, OP_div, g, little_2(k, OP_mul, o, number_like(k, o, 2))));
    case OP_sin: return give(a, x, little_2(k, OP_mul, g, little_1(k, OP_cos, x)));
    case OP_cos:
        return give(a, x, little_1(k, OP_neg, little_2(k, OP_mul, g, little_1(k, OP_sin, x))));
    case OP_relu:
        return give(a, x,
                    little_2(k, OP_mul, g,
                             little_cast(k, little_2(k, OP_greater, x, number_like(k, x, 0)),
                                         value_type(k, x)->dtype)));
    case OP_sigmoid:
        return give(a, x,
                    little_2(k, OP_mul, g,
                             little_2(k, OP_mul, o, little_2(k, OP_sub, number_like(k, o, 1), o))));
    case OP_tanh:
        return give(a, x,
                    little_2(k, OP_mul, g,
                             little_2(k, OP_sub, number_like(k, o, 1), little_2(k, OP_mul, o, o))));
    case OP_matmul: return through_matmul(a, s, g);
    case OP_transpose: return through_transpose(a, s, g);
    case OP_reduce_sum:
    case OP_reduce_mean: return through_reduction(a, s, g);
    case OP_reshape:
    case OP_flatten:
    case OP_squeeze:
    case OP_unsqueeze: return give(a, x, little_2(k, OP_reshape, g, little_shape(k, x)));
    default: return call_refuse(k, "Gradient through %s", s->origin);
    }
}

static Step
step_of(const Graph *g, NodeId id)
{
    const Node *n = &g->node.at[id];
    Step s = { .op = n->callee == CALL_OP ? n->op : OP_NONE,
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
        Step s = step_of(g, id);
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
    ValueId one = number_like(k, (ValueId)y, 1);
    a.got[y] = little_2(k, OP_expand, one, little_shape(k, (ValueId)y));
    if (!a.got[y] || !go_back(&a, (ValueId)y))
        return false;
    for (uint32_t i = 0; i < k->nout && i < xs->n_strings; i++) {
        ValueId v = a.got[k->in.at[i]];
        v = v ? v : little_2(k, OP_mul, k->in.at[i], number_like(k, k->in.at[i], 0));
        if (!v)
            return false;
        call_bind(k, i, call_op(k, OP_identity, 0, NULL, 1, &v, k->proto->output[i]));
    }
    k->done = true;
    return true;
}
