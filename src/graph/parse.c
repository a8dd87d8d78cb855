/* parse: graphs and their nodes from text; doc/text.md has the grammar.
 *
 * Names are defined before they are used, except outputs, which the head names and the body
 * defines. Types of results may be omitted if a shape rule or the called graph gives them. Types
 * that are written are checked, so a text cannot claim a type that its operator does not give.
 */
#include "graph/text.h"

#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

bool
read_error(const GraphParser *r, Loc loc, const char *format, ...)
{
    Ctx *c = r->p.ctx;
    va_list args;

    va_start(args, format);
    diag_error(&c->diags, DIAG_MODEL, loc, "%s", arena_vprintf(c->arena, format, args));
    va_end(args);
    return false;
}

static Sym
read_name(GraphParser *r)
{
    return parse_expect(&r->p, "%") ? parse_name(&r->p) : NULL;
}

bool
read_use(GraphParser *r, ValueId *v)
{
    uint64_t id;

    *v = 0;
    if (parse_accept(&r->p, "_"))
        return true;
    Sym name = read_name(r);
    if (!name)
        return false;
    if (!map_get(&r->value, MAP_PTR(name), &id))
        return parse_error(&r->p, "%%%s is not defined here", name);
    *v = (ValueId)id;
    return true;
}

bool
read_type(GraphParser *r, Definition *d)
{
    d->data = read_data_name(r);
    if (!d->data)
        return (d->type = parse_type(&r->p)) != NULL;
    d->type = type_new(r->g->ctx, DT_I64, 0, NULL);
    if (!parse_expect(&r->p, "["))
        return false;
    return parse_accept(&r->p, "]") ||
           parse_error(&r->p,
                       "a number of %s that differs from value to value is not supported: give it "
                       "a constructor for each number, or make a list of two constructors, nil() "
                       "and cons(head: %s[], …)",
                       d->data->name, d->data->name);
}

const char *
read_type_str(const GraphParser *r, const Data *data, const Type *t)
{
    return data ? arena_printf(r->g->arena, "%s[]", data->name) : type_str(r->g->ctx, t);
}

/* typed: the type is required. */
static bool
read_definition(GraphParser *r, Definition *d, bool typed)
{
    parse_peek(&r->p, "%"); /* peeking skips white space */
    *d = (Definition){ .loc = parse_here(&r->p) };
    if (parse_accept(&r->p, "_"))
        return true;
    d->name = read_name(r);
    if (!d->name)
        return false;
    if (map_get(&r->value, MAP_PTR(d->name), NULL))
        return parse_error(&r->p, "%%%s is defined twice", d->name);
    if (!typed && !parse_peek(&r->p, ":"))
        return true;
    if (!parse_expect(&r->p, ":") || !read_type(r, d))
        return false;
    if (!type_fits(r->g->ctx, d->type))
        return parse_error(&r->p, "%%%s would be %s, more than any memory holds", d->name,
                           type_str(r->g->ctx, d->type));
    d->format = NULL;
    return !parse_accept(&r->p, "as") || (d->format = parse_format(&r->p, d->type)) != NULL;
}

ValueId
read_define(GraphParser *r, const Definition *d, ValueId v)
{
    graph_rename(r->g, v, d->name); /* names that other values would have got are as free */
    r->g->value.at[v].format = d->format;
    if (d->data)
        map_put(&r->data, v, MAP_PTR(d->data));
    map_put(&r->value, MAP_PTR(d->name), v);
    return v;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

bool
read_arguments(GraphParser *r, Values *in)
{
    if (!parse_expect(&r->p, "("))
        return false;
    while (!parse_peek(&r->p, ")")) {
        ValueId v;
        if ((in->n && !parse_expect(&r->p, ",")) ||
            !(parse_peek(&r->p, "_") ? read_use(r, &v) : read_value(r, &v)))
            return false;
        VEC_PUSH(r->g->arena, in, v);
    }
    return parse_expect(&r->p, ")");
}

ValueId *
read_define_results(GraphParser *r, uint32_t n, const Definition *result)
{
    ValueId *out = NEW_ARRAY(r->g->arena, ValueId, n + 1);
    for (uint32_t i = 0; i < n; i++)
        if (result[i].name)
            out[i] = read_define(r, &result[i], graph_value(r->g, result[i].name, result[i].type));
    return out;
}

bool
read_origin(GraphParser *r, Sym *origin)
{
    const char *s;

    *origin = NULL;
    if (!parse_accept(&r->p, "from"))
        return true;
    if (!parse_string(&r->p, &s))
        return false;
    *origin = sym(r->g->ctx, s);
    return true;
}

/* A line whose results an operator computes. Types in the text must be those of the rule. */
static bool
read_made(GraphParser *r, const Definitions *result)
{
    Graph *g = r->g;
    const char **names = NEW_ARRAY(g->arena, const char *, result->n);
    ValueId *v = NEW_ARRAY(g->arena, ValueId, result->n), first = g->value.n;

    for (uint32_t i = 0; i < result->n; i++)
        names[i] = result->at[i].name ? result->at[i].name : graph_absent;
    if (result->n == 1 && *names != graph_absent) {
        if (!read_value(r, v))
            return false;
        if (*v < first)
            return read_error(r, r->loc, "%%%s would be a second name of a value; use identity(…)",
                              *names);
    } else {
        Sym op = parse_name(&r->p);
        if (!op || !read_operator(r, op, result->n, names, v))
            return false;
    }
    for (uint32_t i = 0; i < result->n; i++) {
        const Definition *d = &result->at[i];
        const Type *is = v[i] ? g->value.at[v[i]].type : NULL;
        OpKind op = v[i] ? g->node.at[g->value.at[v[i]].def].op : OP_NONE;
        if (is && d->type && type_eq(g->ctx, is, d->type) == NO)
            return read_error(r, r->loc, "%%%s is written as %s, but %s gives %s", d->name,
                              type_str(g->ctx, d->type), op_info[op].name, type_str(g->ctx, is));
        if (is && d->type) {
            if (!op_is_routine(op)) /* for which the text defines the sizes */
                graph_declare(g, op_info[op].name, d->name, is, d->type);
            g->value.at[v[i]].type = d->type;
        }
        if (v[i])
            read_define(r, d, v[i]);
    }
    if (v[0] && g->value.at[v[0]].def)
        g->value.at[v[0]].known = known_of_op(g, g->value.at[v[0]].def);
    return true;
}

static bool
check_symbols(GraphParser *r, const Values *in, const Definitions *result, const Nest *n,
              const Kernel *k)
{
    SymbolSet s = { .seen.arena = r->g->arena };

    for (uint32_t i = 0; i < in->n; i++)
        if (in->at[i])
            type_symbols(&s, r->g->value.at[in->at[i]].type);
    for (uint32_t i = 0; i < result->n; i++)
        type_symbols(&s, result->at[i].type);
    uint32_t known = s.n;
    for (uint32_t i = 0; n && i < n->nin + n->nout; i++)
        type_symbols(&s, n->param[i].type);
    for (uint32_t i = 0; k && i < k->nin + k->nout; i++)
        /* the tensor around it has symbols too, which are known */
        type_symbols(&s, k->buffer.at[i].type);
    return s.n == known ||
           parse_error(&r->p,
                       "nothing tells the size of %s: no value of this call has it in its type",
                       s.at[s.n - 1]);
}

static bool
read_call(GraphParser *r, Loc loc, Definitions *result)
{
    Values in = { 0 };
    Sym origin;

    if (parse_peek(&r->p, "@"))
        return read_control(r, loc, CALL_GRAPH, result);
    if (!read_arguments(r, &in) || !read_origin(r, &origin))
        return false;
    if (parse_peek(&r->p, "nest")) {
        const Nest *n = nest_parse(&r->p);
        if (!n)
            return false;
        if (n->nin != in.n || n->nout != result->n)
            return parse_error(&r->p,
                               "the nest has %u inputs and %u outputs, the call has %u and %u",
                               n->nin, n->nout, in.n, result->n);
        for (uint32_t i = 0; i < result->n; i++)
            if (!result->at[i].type)
                result->at[i].type = n->param[n->nin + i].type;
        if (!check_symbols(r, &in, result, n, NULL))
            return false;
        return (r->block ? graph_call_nest : graph_call_written_nest)(
            r->g, n, loc, origin, in.at, read_define_results(r, result->n, result->at));
    }
    Kernel *k = kernel_parse(&r->p, r->g->arena);
    if (!k)
        return false;
    if (k->nin != in.n || k->nout != result->n)
        return parse_error(&r->p, "the kernel has %u inputs and %u outputs, the call has %u and %u",
                           k->nin, k->nout, in.n, result->n);
    if (!read_all_typed(r, result, "a kernel") || !check_symbols(r, &in, result, NULL, k))
        return false;
    return (r->block ? graph_call_kernel : graph_call_written_kernel)(
        r->g, k, loc, origin, in.at, read_define_results(r, result->n, result->at));
}

/* Definitions, `=`, then a constant or a call. */
static bool
read_line(GraphParser *r)
{
    Definitions result = { 0 };
    Definition d;
    const void *data;

    parse_peek(&r->p, "%");
    Loc loc = r->loc = parse_here(&r->p);
    do {
        if (!read_definition(r, &d, false))
            return false;
        for (uint32_t i = 0; i < result.n; i++)
            if (d.name && result.at[i].name == d.name)
                return parse_error(&r->p, "%%%s is defined twice", d.name);
        VEC_PUSH(r->g->arena, &result, d);
    } while (parse_accept(&r->p, ","));
    if (!parse_expect(&r->p, "="))
        return false;
    if (parse_accept(&r->p, "const")) {
        if (result.n != 1 || !d.name)
            return parse_error(&r->p, "a constant has one name");
        if (!d.type || d.data)
            return parse_error(&r->p,
                               "the type of constant %%%s has to stand beside it: %%%s: f32[…] = "
                               "const …",
                               d.name, d.name);
        if (!read_contents(r, d.type, &data))
            return false;
        read_define(r, &d, graph_const(r->g, d.name, d.type, data));
        return true;
    }
    if (parse_accept(&r->p, "call"))
        return read_call(r, loc, &result);
    static const struct {
        const char *name;
        CalleeKind callee;
    } control[] = {
        { "match", CALL_MATCH },
        { "if", CALL_IF },
        { "loop", CALL_LOOP },
        { "join", CALL_JOIN },
    };
    for (size_t i = 0; i < sizeof control / sizeof *control; i++)
        if (parse_accept(&r->p, control[i].name))
            return read_control(r, loc, control[i].callee, &result);
    if (parse_accept(&r->p, "case"))
        return read_case(r, loc, &result);
    if (parse_accept(&r->p, "blocks"))
        return read_blocks(r, loc, &result);
    return read_made(r, &result);
}

/* ---- the head -------------------------------------------------------------------------------- */

static bool
read_definitions(GraphParser *r, Definitions *list, bool inputs, bool typed)
{
    Map seen = { .arena = r->g->arena };
    Definition d;

    if (!parse_expect(&r->p, "("))
        return false;
    while (!parse_peek(&r->p, ")")) {
        if ((list->n && !parse_expect(&r->p, ",")) || !read_definition(r, &d, typed))
            return false;
        if (!d.name)
            return parse_error(&r->p, "%s needs a name", inputs ? "an input" : "an output");
        if (inputs && map_get(&seen, MAP_PTR(d.name), NULL))
            return parse_error(&r->p, "%%%s is defined twice", d.name);
        map_put(&seen, MAP_PTR(d.name), 1);
        VEC_PUSH(r->g->arena, list, d);
    }
    return parse_expect(&r->p, ")");
}

/* From the @ of its name to the results. */
bool
read_head(GraphParser *r, Head *h, bool typed)
{
    *h = (Head){ 0 };
    h->name = parse_expect(&r->p, "@") ? parse_name(&r->p) : NULL;
    return h->name && read_definitions(r, &h->param, true, typed) && parse_expect(&r->p, "->") &&
           read_definitions(r, &h->result, false, false);
}

void
read_inputs(GraphParser *r, const Head *h, uint32_t first)
{
    for (uint32_t i = first; i < h->param.n; i++)
        read_define(r, &h->param.at[i],
                    graph_input(r->g, h->param.at[i].name, h->param.at[i].type));
}

/* A symbol in a constraint that no input has must be defined by a node. */
static void
mark_late(const Graph *g, const Expr *e)
{
    FOR_EACH_VARIABLE (v, e)
        if (v.kind == VAR_SYMBOL && !graph_is_given(g, v))
            expr_symbol_late(g->ctx, v);
}

/* "or one is 1", "or the first is 1": sizes that broadcast. */
static bool
read_rule(GraphParser *r, SizeRule *rule)
{
    *rule = SIZES_EQUAL;
    if (!parse_accept(&r->p, "or"))
        return true;
    *rule = parse_accept(&r->p, "one") ? SIZES_BROADCAST : SIZES_INTO;
    return (*rule == SIZES_BROADCAST ||
            (parse_expect(&r->p, "the") && parse_expect(&r->p, "first"))) &&
           parse_expect(&r->p, "is") && parse_expect(&r->p, "1");
}

bool
read_constraint(GraphParser *r, Constraint *k)
{
    *k = (Constraint){ .a = parse_expr(&r->p) };
    if (!k->a || !parse_expect(&r->p, "=="))
        return false;
    k->b = parse_expr(&r->p);
    if (!k->b || !read_rule(r, &k->rule) ||
        (parse_accept(&r->p, "at") && !(k->at = parse_expr(&r->p))) ||
        !parse_string(&r->p, &k->why) ||
        (parse_peek(&r->p, "\"") && !parse_string(&r->p, &k->said)))
        return false;
    if (k->rule == SIZES_EQUAL && expr_eq(r->g->ctx, NULL, k->a, k->b) == NO)
        return parse_error(&r->p, "%s == %s cannot hold", expr_str(r->g->ctx, k->a),
                           expr_str(r->g->ctx, k->b));
    mark_late(r->g, k->a);
    mark_late(r->g, k->b);
    mark_late(r->g, k->at);
    if (k->rule == SIZES_EQUAL && !constraint_of_data(k))
        expr_assume_eq(r->g->ctx, k->a, k->b);
    return true;
}

static bool
read_require(GraphParser *r)
{
    Constraint k;

    if (!read_constraint(r, &k))
        return false;
    VEC_PUSH(r->g->arena, &r->g->constraints, k);
    return true;
}

/* %past = %present: an input, and an output that the body has yet to define. */
static bool
read_state(GraphParser *r, const Definitions *output)
{
    State s = { UINT32_MAX, 0 };
    ValueId v;

    if (!read_use(r, &v) || !parse_expect(&r->p, "="))
        return false;
    Sym name = read_name(r);
    if (!name)
        return false;
    for (uint32_t i = 0; i < r->g->input.n; i++)
        if (r->g->input.at[i] == v)
            s.input = i;
    while (s.output < output->n && output->at[s.output].name != name)
        s.output++;
    if (s.input == UINT32_MAX || s.output == output->n)
        return parse_error(&r->p, "%s%s: a state is an input and an output of the graph",
                           s.input == UINT32_MAX ? "the left side of = %" : "%", name);
    VEC_PUSH(r->g->arena, &r->g->state, s);
    return true;
}

/* Compares the results in the head with their definitions. */
static bool
check_result(GraphParser *r, const Definition *d, ValueId v)
{
    const Type *t = r->g->value.at[v].type;

    return !d->type || (d->data == data_of(r, v) && type_eq(r->g->ctx, d->type, t) != NO) ||
           read_error(r, d->loc, "output %%%s of graph %s is %s, its head says %s", d->name,
                      r->g->name, read_type_str(r, data_of(r, v), t),
                      read_type_str(r, d->data, d->type));
}

bool
read_body(GraphParser *r, const Head *h)
{
    const Data **returns = NEW_ARRAY(r->g->arena, const Data *, h->result.n + 1);
    uint64_t v;

    if (!parse_expect(&r->p, "{"))
        return false;
    while (!parse_accept(&r->p, "}"))
        if (parse_accept(&r->p, "symbol")    ? !parse_symbol(&r->p)
            : parse_accept(&r->p, "require") ? !read_require(r)
            : parse_accept(&r->p, "state")   ? !read_state(r, &h->result)
                                             : !read_line(r))
            return false;
    for (uint32_t i = 0; i < h->result.n; i++) {
        if (!map_get(&r->value, MAP_PTR(h->result.at[i].name), &v))
            return parse_error(&r->p, "output %%%s is not defined", h->result.at[i].name);
        if (!check_result(r, &h->result.at[i], (ValueId)v))
            return false;
        returns[i] = data_of(r, (ValueId)v);
        VEC_PUSH(r->g->arena, &r->g->output, (ValueId)v);
    }
    map_put(&r->source->returns, MAP_PTR(r->g), MAP_PTR(returns));
    return true;
}

GraphParser
read_inside(const GraphParser *outer, Graph *g)
{
    GraphParser r = *outer;
    Arena *a = g->arena;

    r.g = g;
    r.value = (Map){ .arena = a };
    r.data = (Map){ .arena = a };
    r.column = NEW_ARRAY(a, ValueId *, MOST_DATA);
    return r;
}
