/* print: a graph as text; doc/text.md has the grammar.
 *
 * Values print where they are defined: inputs in the head, then constants, results at their node.
 * Contents of more than MAX_INLINE elements go to a file beside the text.
 */
#include "graph/batch.h"
#include "graph/internal.h"

#include <inttypes.h>
#include <string.h>

typedef struct {
    Text *t;
    const Graph *g;
    WeightsFile *weights;
    int depth;
} Print;

static void
print_symbol(void *user, Text *t, Var v)
{
    (void)user;
    text_name(t, (const char *)(uintptr_t)v.id);
}

/* A size as parse_expr reads it: over symbols, whose names may be any text. */
static void
print_expr(Text *t, const Expr *e)
{
    expr_print(t, e, &(ExprStyle){ .name = print_symbol });
}

void
print_dims(Text *t, const Type *type)
{
    text_printf(t, "%s[", dtype_info[type->dtype].name);
    for (uint32_t i = 0; i < type->rank; i++) {
        text_add(t, i ? ", " : "");
        print_expr(t, type->dim[i]);
    }
    text_add(t, "]");
}

static void print_graph(Text *t, const Graph *g, WeightsFile *weights, int depth);

static void
print_ref(Print *p, ValueId v)
{
    if (!v) {
        text_add(p->t, "_");
        return;
    }
    text_add(p->t, "%");
    text_name(p->t, p->g->value.at[v].name);
}

/* %name: type as format */
static void
print_definition(Print *p, ValueId v)
{
    const Value *val = &p->g->value.at[v];

    print_ref(p, v);
    if (!v)
        return;
    text_add(p->t, ": ");
    print_dims(p->t, val->type);
    if (val->format) {
        text_add(p->t, " as ");
        format_print(p->t, val->format);
    }
}

static void
print_elements(Text *t, const Type *type, const void *data, int64_t n)
{
    text_add(t, "[");
    for (int64_t i = 0; i < n; i++) {
        text_add(t, i ? ", " : "");
        element_print(t, type->dtype, (const char *)data + i * dtype_info[type->dtype].bytes);
    }
    text_add(t, "]");
}

static void
print_contents(Print *p, const Type *type, const void *data)
{
    int64_t n = expr_or(type_count(p->g->ctx, type), 0), bytes = 0;
    uint64_t offset;

    type_static_bytes(type, &bytes);
    if (n <= MAX_INLINE || type->dtype == DT_STR) {
        print_elements(p->t, type, data, n);
        return;
    }
    if (!p->weights) {
        text_printf(p->t, "elided 0x%016" PRIx64, hash_bytes(data, (size_t)bytes, 0));
        return;
    }
    if (!map_get(&p->weights->offset, MAP_PTR(data), &offset)) {
        writer_align(p->weights->writer, 64);
        offset = writer_offset(p->weights->writer);
        writer_put(p->weights->writer, data, (size_t)bytes);
        map_put(&p->weights->offset, MAP_PTR(data), offset);
    }
    text_printf(p->t, "file \"%s\" %" PRIu64, p->weights->name, offset);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void
print_attr(Print *p, const Attr *a)
{
    text_printf(p->t, "%s = ", a->name);
    switch (a->kind) {
    case ATTR_INT: text_printf(p->t, "%" PRId64, a->i); break;
    case ATTR_FLOAT: element_print(p->t, DT_F64, &a->f); break;
    case ATTR_STRING: text_quoted(p->t, a->s); break;
    case ATTR_INTS:
        text_add(p->t, "[");
        for (uint32_t i = 0; i < a->n; i++)
            text_printf(p->t, "%s%" PRId64, i ? ", " : "", a->ints[i]);
        text_add(p->t, "]");
        break;
    case ATTR_FLOATS:
        text_add(p->t, "[");
        for (uint32_t i = 0; i < a->n; i++) {
            text_add(p->t, i ? ", " : "");
            element_print(p->t, DT_F64, &a->floats[i]);
        }
        text_add(p->t, "]");
        break;
    case ATTR_TENSOR:
        text_add(p->t, "const ");
        print_dims(p->t, a->type);
        text_add(p->t, " ");
        print_contents(p, a->type, a->data);
        break;
    }
}

static void
print_attrs(Print *p, Attrs a)
{
    if (a.n == 0)
        return;
    text_add(p->t, " {");
    for (uint32_t i = 0; i < a.n; i++) {
        text_add(p->t, i ? ", " : "");
        print_attr(p, &a.at[i]);
    }
    text_add(p->t, "}");
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void
print_fresh(Print *p, const Node *n)
{
    for (uint32_t i = 0; i < n->nfresh; i++) {
        text_add(p->t, i ? ", " : " new [");
        text_name(p->t, n->fresh[i].name);
        if (n->fresh[i].most) {
            text_add(p->t, " to ");
            print_expr(p->t, n->fresh[i].most);
        }
    }
    text_add(p->t, n->nfresh ? "]" : "");
}

void
print_bindings(Ctx *c, Text *t, const char *before, const Binding *bind, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        text_add(t, i ? ", " : before);
        print_expr(t, expr_var(c, bind[i].var));
        text_add(t, " = ");
        print_expr(t, bind[i].to);
    }
    text_add(t, n ? "]" : "");
}

static const char *
callee_name(const Node *n)
{
    switch (n->callee) {
    case CALL_OP: return op_info[n->op].name;
    case CALL_NEST:
    case CALL_KERNEL:
    case CALL_GRAPH: break;
    case CALL_MATCH: return "match";
    case CALL_IF: return "if";
    case CALL_LOOP: return "loop";
    case CALL_JOIN: return "join";
    case CALL_BLOCKS: return "blocks";
    }
    return "call";
}

static void
print_regions(Print *p, const Node *n)
{
    for (uint32_t r = 0; r < n->nregion && n->callee != CALL_GRAPH; r++) {
        const Region *x = &n->region[r];
        text_indent(p->t, p->depth + 2);
        print_bindings(p->g->ctx, p->t, "with [", x->bind, x->nbind);
        text_add(p->t, x->nbind ? " " : "");
        print_graph(p->t, n->region[r].graph, p->weights, p->depth + 2);
    }
}

static void
print_node(Print *p, const Node *n)
{
    text_indent(p->t, p->depth + 1);
    for (uint32_t i = 0; i < n->out.count; i++) {
        text_add(p->t, i ? ", " : "");
        print_definition(p, node_out(p->g, n, i));
    }
    text_printf(p->t, "%s%s", n->out.count ? " = " : "", callee_name(n));
    if (n->callee == CALL_GRAPH) {
        text_add(p->t, " @");
        text_name(p->t, n->region[0].graph->name);
    }
    text_add(p->t, "(");
    for (uint32_t i = 0; i < n->in.count; i++) {
        text_add(p->t, i ? ", " : "");
        print_ref(p, node_in(p->g, n, i));
    }
    text_add(p->t, ")");
    if (n->callee == CALL_OP)
        print_attrs(p, n->attrs);
    if (n->callee == CALL_LOOP)
        text_printf(p->t, " carried %u", n->ncarried);
    if (n->along)
        text_printf(p->t, " along %u", n->along);
    if (n->callee == CALL_GRAPH)
        print_bindings(p->g->ctx, p->t, " with [", n->region[0].bind, n->region[0].nbind);
    if (n->batch)
        print_bindings(p->g->ctx, p->t, " with [", n->batch->size.at, n->batch->size.n);
    print_fresh(p, n);
    if (n->origin) {
        text_add(p->t, " from ");
        text_quoted(p->t, n->origin);
    }
    text_add(p->t, "\n");
    if (n->callee == CALL_NEST)
        nest_print(p->g->ctx, p->t, n->nest, p->depth + 2);
    if (n->callee == CALL_KERNEL)
        kernel_print(p->g->ctx, p->t, n->kernel, p->depth + 2);
    if (n->batch)
        batch_print(p->g->ctx, p->t, n->batch, p->depth + 2);
    print_regions(p, n);
    if (p->t->n && p->t->s[p->t->n - 1] != '\n')
        text_add(p->t, "\n");
}

/* ---- the head -------------------------------------------------------------------------------- */

void
print_constraint(Text *t, const Constraint *k)
{
    print_expr(t, k->a);
    text_add(t, " == ");
    print_expr(t, k->b);
    text_add(t, k->rule == SIZES_BROADCAST ? " or one is 1 "
                : k->rule == SIZES_INTO    ? " or the first is 1 "
                                           : " ");
    if (k->at) {
        text_add(t, "at ");
        print_expr(t, k->at);
        text_add(t, " ");
    }
    text_quoted(t, k->why ? k->why : "");
    if (k->said) {
        text_add(t, " ");
        text_quoted(t, k->said);
    }
}

/* Symbols with known properties, states, then constraints checked at entry. */
static void
print_facts(Print *p)
{
    const Graph *g = p->g;
    SymbolSet s = { .seen.arena = g->ctx->arena };

    for (uint32_t i = 0; i < g->input.n; i++)
        type_symbols(&s, g->value.at[g->input.at[i]].type);
    for (NodeId n = 1; n < g->node.n; n++)
        for (uint32_t i = 0; i < g->node.at[n].nfresh; i++)
            symbols_add(&s, g->node.at[n].fresh[i].name);
    for (uint32_t i = 0; i < s.n; i++) {
        Text line = { .arena = p->t->arena };
        if (symbol_print(g->ctx, &line, symbol_var(s.at[i]))) {
            text_indent(p->t, p->depth + 1);
            text_printf(p->t, "%s\n", text_str(&line));
        }
    }
    for (uint32_t i = 0; i < g->state.n; i++) {
        text_indent(p->t, p->depth + 1);
        text_add(p->t, "state ");
        print_ref(p, g->input.at[g->state.at[i].input]);
        text_add(p->t, " = ");
        print_ref(p, g->output.at[g->state.at[i].output]);
        text_add(p->t, "\n");
    }
    for (uint32_t i = 0; i < g->constraints.n; i++) {
        text_indent(p->t, p->depth + 1);
        text_add(p->t, "require ");
        print_constraint(p->t, &g->constraints.at[i]);
        text_add(p->t, "\n");
    }
}

static void
print_graph(Text *t, const Graph *g, WeightsFile *weights, int depth)
{
    Print p = { t, g, weights, depth };

    text_add(t, "graph @");
    text_name(t, g->name);
    text_add(t, "(");
    for (uint32_t i = 0; i < g->input.n; i++) {
        text_add(t, i ? ", " : "");
        print_definition(&p, g->input.at[i]);
    }
    text_add(t, ") -> (");
    for (uint32_t i = 0; i < g->output.n; i++) {
        text_add(t, i ? ", " : "");
        print_ref(&p, g->output.at[i]);
    }
    text_add(t, ") {\n");
    print_facts(&p);
    for (ValueId v = 1; v < g->value.n; v++)
        if (g->value.at[v].data) {
            text_indent(t, depth + 1);
            print_definition(&p, v);
            text_add(t, " = const ");
            print_contents(&p, g->value.at[v].type, g->value.at[v].data);
            text_add(t, "\n");
        }
    for (NodeId n = 1; n < g->node.n; n++)
        print_node(&p, &g->node.at[n]);
    text_indent(t, depth);
    text_add(t, "}\n");
}

/* Functions first; branches and bodies print at their nodes. */
void
graph_print(Text *t, const Graph *g, WeightsFile *weights)
{
    GraphList all = graph_all(g, g->ctx->arena);
    Map function = { .arena = g->ctx->arena };

    for (uint32_t i = 0; i < all.n; i++)
        for (NodeId n = 1; n < all.at[i]->node.n; n++)
            if (all.at[i]->node.at[n].callee == CALL_GRAPH)
                map_put(&function, MAP_PTR(all.at[i]->node.at[n].region[0].graph), 1);
    for (uint32_t i = 0; i < all.n; i++)
        if (map_get(&function, MAP_PTR(all.at[i]), NULL))
            print_graph(t, all.at[i], weights, 0);
    print_graph(t, g, weights, 0);
}

void
graph_print_node(Text *t, const Graph *g, NodeId n)
{
    print_node(&(Print){ t, g, NULL }, &g->node.at[n]);
}
