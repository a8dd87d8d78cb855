/* gradient: Gradient of the training domain: the derivative of the sum of y's elements by each of
 * xs, by reverse-mode differentiation.
 *
 * The attributes xs, zs and y name values of the graph: y is differentiated by each of xs, and zs
 * are other values that it depends on. The node's inputs give the point: one value for each of xs,
 * then of zs. Only the values of those names themselves are supported: y, and all between, is
 * computed at that point anyway.
 *
 * The nodes between xs and y are in the graph already, so the rules are about Tenon's operators.
 * Each rule gives an input's gradient (its adjoint) from the result's; if several nodes read a
 * value, their contributions are added.
 */
#include "import/compose.h"
#include "import/converters.h"
#include "op/kinds.h"

#include <string.h>

typedef struct {
    Call *k;
    uint32_t nvalue;  /* values before this node; those it adds have no adjoints */
    bool *depends;    /* [nvalue]: on some x */
    ValueId *adjoint; /* [nvalue]: the gradient by this value, as far as summed; 0: none */
} Gradient;

/* What rules need of a node; a copy, since adding nodes moves the graph's arrays. 0: absent. */
typedef struct {
    OpKind op;
    Attrs attrs;
    ValueId in[2], out;
    Sym origin;
} NodeCopy;

/* v summed to x's shape, undoing the broadcasting of x: over leading axes that x lacks, and axes in
 * which x has size 1. */
static ValueId
sum_to_shape(Call *k, ValueId v, ValueId x)
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

/* x's shape and type, each element n. */
static ValueId
filled(Call *k, ValueId x, int n)
{
    return value_of_text(k, "x", &x, "expand(like(%d, x), shape(x))", n);
}

/* Adds v, of a shape to which x is broadcast, to x's adjoint. v 0: an error is reported already. */
static bool
add_adjoint(Gradient *a, ValueId x, ValueId v)
{
    if (x >= a->nvalue || !a->depends[x])
        return true;
    v = v ? sum_to_shape(a->k, v, x) : 0;
    if (v && a->adjoint[x])
        v = value_of_text(a->k, "a b", VALUES(a->adjoint[x], v), "a + b");
    a->adjoint[x] = v;
    return v != 0;
}

#define RESHAPED "reshape(g, shape(x))"

/* The gradients of inputs x and y, given the gradient g of the result o. `$xt`, `$yt`: permutations
 * of x and y that transpose matrices; `$inverse`: the one of a transpose, reversed. */
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
    { OP_reshape, RESHAPED, 0 },
    { OP_flatten, RESHAPED, 0 },
    { OP_squeeze, RESHAPED, 0 },
    { OP_unsqueeze, RESHAPED, 0 },
    { OP_transpose, "transpose(g) {perm = $inverse}", 0 },
    { OP_matmul, "matmul(g, transpose(y) {perm = $yt})", "matmul(transpose(x) {perm = $xt}, g)" },
    /* each reduced element gets the gradient of the result */
    { OP_reduce_sum,
      "$dropped? g = unsqueeze(g, y)\n"
      "expand(g, shape(x))",
      0 },
    /* in f32 at least: counts overflow f16 */
    { OP_reduce_mean,
      "$dropped? g = unsqueeze(g, y)\n"
      "g = expand(g, shape(x))\n"
      "g * like($wide(size(o)) / $wide(size(x)), x)",
      0 },
};

/* Facts of the node for these. */
static bool
read_node(Gradient *a, const NodeCopy *s, ValueId g)
{
    Call *k = a->k;
    const uint32_t rank = value_type(k, g)->rank;
    uint32_t perm[TN_MAX_RANK];
    int64_t order[TN_MAX_RANK];
    static const char *const names[] = { "xt", "yt" };

    call_fact(k, "wide", value_type(k, s->in[0])->dtype == DT_F64 ? "f64" : "f32");
    call_number(k, "dropped", s->in[1] && !attr_int(s->attrs, "keepdims", 1));
    if (s->op == OP_transpose) {
        op_permutation(s->attrs, rank, perm);
        for (uint32_t d = 0; d < rank; d++)
            order[perm[d]] = d;
        call_fact(k, "inverse", ints_text(k, rank, order));
    }
    for (int i = 0; s->op == OP_matmul && i < 2; i++) {
        const uint32_t n = value_type(k, s->in[i])->rank;
        if (n < 2)
            return call_refuse(k, "Gradient through a matrix multiplication by a vector (%s)",
                               s->origin);
        call_fact(k, names[i], moved_text(k, n, -1, -2));
    }
    return true;
}

/* Adds to the adjoints of the node's inputs, given the adjoint g of its result. */
static bool
differentiate_node(Gradient *a, const NodeCopy *s, ValueId g)
{
    const ValueId v[] = { g, s->in[0], s->in[1], s->out };

    for (size_t i = 0; i < sizeof derivatives / sizeof *derivatives; i++)
        if (derivatives[i].op == s->op) {
            const char *x = derivatives[i].x, *y = derivatives[i].y;
            return read_node(a, s, g) &&
                   add_adjoint(a, v[1], value_of_text(a->k, "g x y o", v, "%s", x)) &&
                   (!y || add_adjoint(a, v[2], value_of_text(a->k, "g x y o", v, "%s", y)));
        }
    return call_refuse(a->k, "Gradient through %s", s->origin);
}

static NodeCopy
copy_of(const Graph *g, NodeId id)
{
    const Node *n = &g->node.at[id];

    return (NodeCopy){ .op = n->callee == CALL_OP ? n->op : OP_NONE,
                       .attrs = n->attrs,
                       .in = { n->in.count > 0 ? node_in(g, n, 0) : 0,
                               n->in.count > 1 ? node_in(g, n, 1) : 0 },
                       .out = node_out(g, n, 0),
                       .origin = n->origin };
}

/* Marks what depends on xs, among the nodes up to `last`. */
static void
find_dependent(Gradient *a, NodeId last)
{
    const Graph *g = a->k->m->g;

    for (NodeId id = 1; id <= last; id++) {
        const Node *n = &g->node.at[id];
        bool depends = false;
        for (uint32_t i = 0; i < n->in.count; i++)
            depends |= a->depends[node_in(g, n, i)];
        for (uint32_t i = 0; i < n->out.count; i++)
            if (node_out(g, n, i))
                a->depends[node_out(g, n, i)] |= depends;
    }
}

static bool
reverse_sweep(Gradient *a, NodeId last)
{
    const Graph *g = a->k->m->g;

    for (NodeId id = last; id >= 1; id--) {
        const Node *n = &g->node.at[id];
        NodeCopy s = copy_of(g, id);
        /* rules are about operators with one result */
        for (uint32_t i = 1; i < n->out.count; i++)
            if (a->depends[node_out(g, n, i)] && a->adjoint[node_out(g, n, i)])
                return call_refuse(a->k, "Gradient through result %u of %s", i, s.origin);
        if (a->depends[s.out] && a->adjoint[s.out] && !differentiate_node(a, &s, a->adjoint[s.out]))
            return false;
    }
    return true;
}

/* The value of that name; 0, reported: there is none. */
static ValueId
value_named(Call *k, const char *attr, const char *name)
{
    uint64_t v = 0;

    if (!map_get(&k->m->value, MAP_PTR(sym(k->c, name)), &v) || !v)
        call_wrong(k, "Gradient: %s names \"%s\", which no node before this one makes", attr, name);
    else if (sequence_is(v))
        call_wrong(k, "Gradient: %s names \"%s\", a sequence; a tensor is needed", attr, name);
    else
        return (ValueId)v;
    return 0;
}

/* Are the inputs from `first` on the values that the attribute names? */
static bool
are_inputs(Call *k, const char *attr, const OnnxAttribute *names, size_t first)
{
    for (size_t i = 0; names && i < names->n_strings; i++) {
        const char *one =
            arena_printf(k->arena, "%.*s", (int)names->strings[i].len,
                         names->strings[i].len ? (const char *)names->strings[i].data : "");
        ValueId v = value_named(k, attr, one);
        if (!v)
            return false;
        if (v != k->in.at[first + i])
            return call_refuse(k, "Gradient: input %zu must be the value \"%s\" itself", first + i,
                               one);
    }
    return true;
}

bool
convert_gradient(Call *k)
{
    const OnnxAttribute *xs = node_attribute(k->proto, "xs"), *zs = node_attribute(k->proto, "zs");
    size_t nx = xs ? xs->n_strings : 0, nz = zs ? zs->n_strings : 0;
    Gradient a = { .k = k, .nvalue = k->m->g->value.n };

    if (!nx)
        return call_wrong(k,
                          "Gradient: xs, the names of the values to differentiate by, is absent");
    if (k->in.n != nx + nz)
        return call_wrong(k, "Gradient has %u inputs; xs and zs name %zu values", k->in.n, nx + nz);
    if (k->nout > nx)
        return call_wrong(k, "Gradient has %u outputs; xs names %zu values", k->nout, nx);
    ValueId y = value_named(k, "y", attr_string((Attrs){ k->attr.at, k->attr.n }, "y", ""));
    if (!y || !are_inputs(k, "xs", xs, 0) || !are_inputs(k, "zs", zs, nx))
        return false;
    a.depends = NEW_ARRAY(k->arena, bool, a.nvalue);
    a.adjoint = NEW_ARRAY(k->arena, ValueId, a.nvalue);
    for (size_t i = 0; i < nx; i++)
        a.depends[k->in.at[i]] = true;
    NodeId last = k->m->g->value.at[y].def;
    find_dependent(&a, last);
    a.adjoint[y] = filled(k, y, 1);
    if (!a.adjoint[y] || !reverse_sweep(&a, last))
        return false;
    for (uint32_t i = 0; i < k->nout; i++) {
        ValueId x = k->in.at[i], v = a.adjoint[x] ? a.adjoint[x] : filled(k, x, 0);
        if (!v)
            return false;
        call_bind(k, i, v);
    }
    k->done = true;
    return true;
}
