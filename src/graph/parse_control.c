/* parse_control: nodes that run graphs, and the symbols that nodes define.
 *
 * Where the text omits them, arguments give the symbols of a graph's inputs and, in branches and
 * bodies, their types; its outputs give the types of results.
 */
#include "graph/text.h"

/* The arguments of a graph that a node runs: its inputs from number `first` on, then the columns of
 * `set`. The first `changing` of them are carried by a loop. */
typedef struct {
    Loc loc;
    uint32_t first, n, changing;
    const ValueId *arg;
    DataSet set;
} Given;

bool
read_fresh(GraphParser *r, Node *n)
{
    VEC(NewSymbol) list = { 0 };

    if (!parse_accept(&r->p, "new"))
        return true;
    if (!parse_expect(&r->p, "["))
        return false;
    do {
        NewSymbol s = { .name = parse_name(&r->p) };
        if (!s.name || (parse_accept(&r->p, "to") && !(s.most = parse_expr(&r->p))))
            return false;
        VEC_PUSH(r->g->arena, &list, s);
    } while (parse_accept(&r->p, ","));
    n->fresh = list.at;
    n->nfresh = list.n;
    return parse_expect(&r->p, "]");
}

bool
read_bindings(GraphParser *r, const char *word, BoundSizes *list)
{
    if (!parse_accept(&r->p, word))
        return true;
    if (!parse_expect(&r->p, "["))
        return false;
    do {
        Binding b = { 0 };
        Sym name = parse_name(&r->p);
        if (!name || !parse_expect(&r->p, "=") || !(b.to = parse_expr(&r->p)))
            return false;
        expr_is_var(expr_symbol(r->g->ctx, name), &b.var);
        VEC_PUSH(r->g->arena, list, b);
    } while (parse_accept(&r->p, ","));
    return parse_expect(&r->p, "]");
}

bool
read_bind(GraphParser *r, Region *region)
{
    BoundSizes list = { 0 };
    bool ok = read_bindings(r, "with", &list);

    region->bind = list.at;
    region->nbind = list.n;
    return ok;
}

bool
read_unify(GraphParser *r, Loc loc, Region *region, Sym callee, uint32_t n, Definition *param,
           const ValueId *arg)
{
    Arena *a = r->g->arena;
    const Type **declared = NEW_ARRAY(a, const Type *, n + 1);
    const Type **given = NEW_ARRAY(a, const Type *, n + 1);
    InnerSizes size = { 0 };

    for (uint32_t i = 0; i < region->nbind; i++)
        VEC_PUSH(a, &size.bind, region->bind[i]);
    for (uint32_t i = 0; i < n; i++) {
        const Value *x = &r->g->value.at[arg[i]];
        if (!arg[i])
            return read_error(r, loc, "input %%%s of graph %s is absent", param[i].name, callee);
        if (!param[i].type) { /* it has that of its argument */
            param[i].type = inner_type(r->g, &size, x->type);
            param[i].data = data_of(r, arg[i]);
        }
        declared[i] = param[i].type;
        given[i] = x->type;
        if (data_of(r, arg[i]) != param[i].data || x->type->dtype != declared[i]->dtype ||
            x->type->rank != declared[i]->rank)
            return read_error(r, loc, "%%%s is %s, input %%%s of graph %s takes %s", x->name,
                              read_type_str(r, data_of(r, arg[i]), x->type), param[i].name, callee,
                              read_type_str(r, param[i].data, declared[i]));
    }
    if (!region->nbind)
        type_bind(r->g->ctx, declared, n, given, n, &size.bind);
    region->bind = size.bind.at;
    region->nbind = size.bind.n;
    return true;
}

/* A result of the region's graph that has this type; a type in the text must agree. */
static bool
take_type(GraphParser *r, const Region *region, Sym graph, Definition *result, const Type *t,
          const Data *data)
{
    if (result->type && t && result->data != data)
        return read_error(r, result->loc, "%%%s is written as %s, but graph %s gives %s",
                          result->name, read_type_str(r, result->data, result->type), graph,
                          read_type_str(r, data, t));
    if (t)
        result->data = data;
    if (!result->type)
        result->type = type_subst(r->g->ctx, t, region->bind, region->nbind);
    return true;
}

bool
read_results(GraphParser *r, const Region *region, uint32_t first, uint32_t n, Definition *result)
{
    const Graph *g = region->graph;
    uint64_t known;
    const Data *const *data = map_get(&r->source->returns, MAP_PTR(g), &known)
                                  ? (const Data *const *)(uintptr_t)known
                                  : NULL;

    for (uint32_t i = 0; i < n && first + i < g->output.n; i++)
        if (result[i].name &&
            !take_type(r, region, g->name, &result[i], g->value.at[g->output.at[first + i]].type,
                       data ? data[first + i] : NULL))
            return false;
    return true;
}

bool
read_deeper(GraphParser *r)
{
    return ++r->depth <= depth_levels(r->p.ctx) ||
           parse_too_deep(&r->p, "graphs are nested", depth_levels(r->p.ctx));
}

/* A graph inside another. */
static Graph *
read_region_graph(GraphParser *outer, Region *region, const Given *given)
{
    GraphParser r = read_inside(outer, outer->g);
    uint32_t first = given->first, n = given->n;
    Head h;

    if (!parse_expect(&r.p, "graph") || !read_head(&r, &h, false))
        return NULL;
    outer->p = r.p;
    if (h.param.n != first + n) {
        parse_error(&r.p, "graph %s takes %u values, %u are given", h.name,
                    h.param.n < first ? 0 : h.param.n - first, n);
        return NULL;
    }
    for (uint32_t i = 0; i < first; i++)
        if (!h.param.at[i].type)
            h.param.at[i].type = type_new(r.p.ctx, i ? DT_BOOL : DT_I64, 0, NULL);
    if (!read_unify(outer, given->loc, region, h.name, n, h.param.at + first, given->arg))
        return NULL;
    r.g = graph_new(outer->g->ctx, outer->g->arena, h.name);
    read_inputs(&r, &h, 0);
    if (!data_inputs(&r, given->set))
        return NULL;
    for (uint32_t i = given->changing; i < n; i++)
        r.g->value.at[r.g->input.at[first + i]].known = graph_known_inside(
            r.g->ctx, r.g->arena, outer->g->value.at[given->arg[i]].known, region);
    bool ok = read_body(&r, &h);
    outer->p = r.p;
    return ok ? r.g : NULL;
}

static bool
read_region(GraphParser *r, Region *region, const Given *given)
{
    *region = (Region){ 0 };
    if (!read_bind(r, region) || !read_deeper(r))
        return false;
    region->graph = read_region_graph(r, region, given);
    r->depth--;
    if (region->graph)
        data_arguments(r, given->set, NULL, region);
    return region->graph != NULL;
}

/* Results of a loop are its carried values, of their initial types, and the stacked ones. */
static bool
loop_results(GraphParser *r, const Node *n, const Values *in, Definitions *result)
{
    for (uint32_t i = 0; i < result->n; i++) {
        Definition *d = &result->at[i];
        if (!d->name || d->type)
            continue;
        if (i >= n->ncarried || !in->at[2 + i])
            return read_error(
                r, d->loc,
                "the type of %%%s is not known here: it is stacked over the iterations, "
                "whose number is a symbol of its own. Write it: "
                "%%%s: f32[turns, …] = loop(…) … new [turns]",
                d->name, d->name);
        d->type = r->g->value.at[in->at[2 + i]].type;
        d->data = data_of(r, in->at[2 + i]);
    }
    return true;
}

/* A carried value of a data type must get a value of that type from the body. */
static bool
carried_data(GraphParser *r, const Node *n, const Values *in)
{
    Definition *next = NEW_ARRAY(r->g->arena, Definition, n->ncarried + 1);

    for (uint32_t i = 0; i < n->ncarried; i++)
        if (in->at[2 + i])
            next[i] = (Definition){ .name = r->g->value.at[in->at[2 + i]].name,
                                    .loc = n->loc,
                                    .type = r->g->value.at[in->at[2 + i]].type,
                                    .data = data_of(r, in->at[2 + i]) };
    return read_results(r, &n->region[0], 1, n->ncarried, next);
}

static bool
read_branches(GraphParser *r, Node *n, Values *in, Definitions *result)
{
    uint32_t from = n->callee == CALL_LOOP ? 2 : 1;
    Given given = { .loc = n->loc,
                    .first = n->callee == CALL_LOOP ? 2 : 0,
                    .n = in->n - from,
                    .changing = n->ncarried };

    given.set = data_of_values(r, given.n, in->at + from);
    data_arguments(r, given.set, in, NULL);
    given.arg = in->at + from;
    for (uint32_t i = 0; i < n->nregion; i++)
        if (!read_region(r, &n->region[i], &given))
            return false;
    if (n->callee == CALL_LOOP)
        return loop_results(r, n, in, result) && carried_data(r, n, in) &&
               read_results(r, &n->region[0], 1, result->n, result->at);
    return read_results(r, &n->region[0], 0, result->n, result->at) &&
           read_results(r, &n->region[1], 0, result->n, result->at);
}

/* The types of a function's results as its head gives them, if its body is not read yet. */
static bool
promised_results(GraphParser *r, const Function *f, const Region *region, Definitions *result)
{
    for (uint32_t i = 0; i < result->n && i < f->head.result.n; i++) {
        const Definition *promised = &f->head.result.at[i];
        Definition *d = &result->at[i];
        if (!d->name)
            continue;
        if (!d->type && !promised->type)
            return read_error(r, d->loc,
                              "the type of %%%s is not known here, since graph %s is not read yet: "
                              "write it, or say in its head what it gives, "
                              "graph @%s(…) -> (%%%s: f32[…])",
                              d->name, f->head.name, f->head.name, promised->name);
        if (!take_type(r, region, f->head.name, d, promised->type, promised->data))
            return false;
    }
    return true;
}

/* One symbol of the function stands for several sizes of the caller: unless they are proved equal,
 * runs check it. */
static void
require_sizes(GraphParser *r, const Function *f, const Region *region, uint32_t i, ValueId v)
{
    Ctx *c = r->g->ctx;
    const Value *x = &r->g->value.at[v];
    const Type *t = type_subst(c, f->head.param.at[i].type, region->bind, region->nbind);

    for (uint32_t d = 0; d < t->rank; d++) {
        Constraint k = { .a = x->type->dim[d], .b = t->dim[d], .rule = SIZES_EQUAL };
        if (expr_eq(c, NULL, k.a, k.b) != UNKNOWN) /* verify reports it */
            continue;
        k.why = arena_printf(c->arena, "call of %s: axis %u of %s and of its input %s",
                             f->head.name, d, x->name, f->head.param.at[i].name);
        VEC_PUSH(r->g->arena, &r->g->constraints, k);
        expr_assume_eq(c, k.a, k.b);
    }
}

static bool
read_function_call(GraphParser *r, Loc loc, const Function *f, Region *region, Values *in,
                   Definitions *result)
{
    if (!read_bind(r, region))
        return false;
    if (in->n != f->head.param.n)
        return read_error(r, loc, "graph %s takes %u values, %u are given", f->head.name,
                          f->head.param.n, in->n);
    if (result->n != f->head.result.n)
        return read_error(r, loc, "graph %s gives %u values, %u are named", f->head.name,
                          f->head.result.n, result->n);
    if (!read_unify(r, loc, region, f->head.name, in->n, f->head.param.at, in->at))
        return false;
    for (uint32_t i = 0; i < in->n; i++)
        require_sizes(r, f, region, i, in->at[i]);
    data_arguments(r, data_of_params(f->head.param.n, f->head.param.at), in, region);
    return f->made ? read_results(r, region, 0, result->n, result->at)
                   : promised_results(r, f, region, result);
}

/* For nodes whose result types neither a graph nor a rule gives. */
bool
read_all_typed(GraphParser *r, const Definitions *result, const char *what)
{
    for (uint32_t i = 0; i < result->n; i++)
        if (result->at[i].name && !result->at[i].type)
            return read_error(r, result->at[i].loc,
                              "the type of %%%s is not known here: %s does not tell it. Write it: "
                              "%%%s: f32[…] = …",
                              result->at[i].name, what, result->at[i].name);
    return true;
}

bool
read_control(GraphParser *r, Loc loc, CalleeKind callee, Definitions *result)
{
    Node n = { .callee = callee, .loc = loc };
    Region region[2] = { { 0 }, { 0 } };
    const Function *f = NULL;
    Values in = { 0 };
    int64_t carried = 0, along = 0;

    n.region = region;
    n.nregion = callee == CALL_IF ? 2 : callee == CALL_MATCH || callee == CALL_JOIN ? 0 : 1;
    if (callee == CALL_GRAPH) {
        Sym name = parse_expect(&r->p, "@") ? parse_name(&r->p) : NULL;
        if (!name)
            return false;
        if (!(f = source_function(r->source, name)))
            return read_error(r, loc, "there is no graph @%s, which is called", name);
        region[0].graph = f->graph;
    }
    if (!read_arguments(r, &in) ||
        (callee == CALL_LOOP && (!parse_expect(&r->p, "carried") || !parse_int(&r->p, &carried))))
        return false;
    if (callee == CALL_LOOP && (carried < 0 || carried + 2 > in.n))
        return parse_error(&r->p, "a loop with %lld carried values has %u inputs",
                           (long long)carried, in.n);
    if (callee == CALL_IF && !in.n)
        return parse_error(&r->p, "an if needs a condition");
    n.ncarried = (uint32_t)carried;
    if (callee == CALL_JOIN && parse_accept(&r->p, "along") &&
        (!parse_int(&r->p, &along) || along < 0 || along >= TN_MAX_RANK))
        return parse_error(&r->p, "a join is along a dimension, of at most %d", TN_MAX_RANK);
    n.along = (uint32_t)along;
    if ((f && !read_function_call(r, loc, f, &region[0], &in, result)) || !read_fresh(r, &n) ||
        !read_origin(r, &n.origin))
        return false;
    if ((callee == CALL_IF || callee == CALL_LOOP) && !read_branches(r, &n, &in, result))
        return false;
    if (callee == CALL_MATCH && (in.n != 1 || !in.at[0] || result->n != 1))
        return parse_error(&r->p, "a match has one input and one result");
    if (callee == CALL_MATCH && !result->at[0].type)
        result->at[0].type = r->g->value.at[in.at[0]].type;
    if (!read_all_typed(r, result, callee == CALL_JOIN ? "a join" : "the graph that is run"))
        return false;
    return graph_call_region(r->g, &n, in.n, in.at, result->n,
                             read_define_results(r, result->n, result->at)) != 0;
}
