/* parse: a graph from its text; doc/text.md has the grammar.
 *
 * Names are defined before they are used, except outputs, which the head names and the body defines.
 * Types of results stand in the text; for operators they are checked against the shape rule, so a
 * text cannot claim what its operators do not do. A function may be called before it is defined; all
 * that are called must be in the end. The last graph of a text is the model.
 */
#include "graph/internal.h"

#include <string.h>

typedef struct {
    Parse p;
    Graph *g;
    Map value;                       /* Sym -> ValueId */
    Map file;                        /* Sym of a weights file -> its Bytes */
    Map *function;                   /* Sym -> Graph */
    uint32_t depth;                  /* graphs around this one */
} Read;

/* known: of its inputs, from the caller; or NULL. */
static Graph *read_graph(Read *outer, uint32_t nknown, const Known *known);

/* ---- values ------------------------------------------------------------------------------------------- */

static Sym
read_name(Read *r)
{
    return parse_expect(&r->p, "%") ? parse_name(&r->p) : NULL;
}

static bool
read_use(Read *r, ValueId *v)
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

static bool
read_part(Parse *p, const Type *t, FormatPart *part)
{
    int64_t dim, v;

    *part = (FormatPart){ .div = 1 };
    if (!parse_int(p, &dim))
        return false;
    if (dim < 0 || dim >= t->rank)
        return parse_error(p, "the format names dimension %lld of a tensor of rank %u", (long long)dim, t->rank);
    part->dim = (uint8_t)dim;
    if (parse_accept(p, "/")) {
        if (!parse_int(p, &v))
            return false;
        part->div = v;
    }
    if (parse_accept(p, "%")) {
        if (!parse_int(p, &v))
            return false;
        part->mod = v;
    }
    return (part->div >= 1 && part->mod >= 0) || parse_error(p, "a part of a format has a divisor below 1");
}

/* as [0/14, 1, 0%14] */
static bool
read_format(Read *r, const Type *t, const Format **out)
{
    VEC(FormatPart) part = { 0 };
    FormatPart one;

    *out = NULL;
    if (!parse_accept(&r->p, "as"))
        return true;
    if (!parse_expect(&r->p, "["))
        return false;
    while (!parse_peek(&r->p, "]")) {
        if ((part.n && !parse_expect(&r->p, ",")) || !read_part(&r->p, t, &one))
            return false;
        VEC_PUSH(r->g->arena, &part, one);
    }
    Format *f = NEW(r->g->arena, Format);
    *f = (Format){ part.n, part.at };
    *out = f;
    return parse_expect(&r->p, "]");
}

/* %name: type as format */
typedef struct { Sym name; const Type *type; const Format *format; } Definition;

static bool
read_definition(Read *r, Definition *d)
{
    *d = (Definition){ 0 };
    if (parse_accept(&r->p, "_"))
        return true;
    d->name = read_name(r);
    if (!d->name)
        return false;
    if (map_get(&r->value, MAP_PTR(d->name), NULL))
        return parse_error(&r->p, "%%%s is defined twice", d->name);
    if (!parse_expect(&r->p, ":"))
        return false;
    d->type = parse_type(&r->p);
    if (d->type && !type_fits(r->g->ctx, d->type))
        return parse_error(&r->p, "%%%s would be %s, more than any memory holds", d->name, type_str(r->g->ctx, d->type));
    return d->type && read_format(r, d->type, &d->format);
}

static ValueId
define(Read *r, const Definition *d, ValueId v)
{
    r->g->value.at[v].format = d->format;
    map_put(&r->value, MAP_PTR(d->name), v);
    return v;
}

/* ---- contents ------------------------------------------------------------------------------------------- */

static bool
read_file(Read *r, int64_t bytes, const void **data)
{
    const char *name;
    int64_t offset;
    uint64_t known;
    Bytes *file = NULL;

    if (!parse_string(&r->p, &name) || !parse_int(&r->p, &offset))
        return false;
    Sym key = sym(r->g->ctx, name);
    if (map_get(&r->file, MAP_PTR(key), &known)) {
        file = (Bytes *)(uintptr_t)known;
    } else {
        if (name[0] == '/' || strstr(name, ".."))
            return parse_error(&r->p, "weights file \"%s\" does not lie beside the text", name);
        file = NEW(r->g->arena, Bytes);
        if (!file_map(r->g->arena, &r->g->ctx->diags, path_join(r->g->arena, path_folder(r->g->arena, r->p.file), name), file))
            return false;
        map_put(&r->file, MAP_PTR(key), MAP_PTR(file));
    }
    if (offset < 0 || bytes > (int64_t)file->bytes || offset > (int64_t)file->bytes - bytes)
        return parse_error(&r->p, "weights file \"%s\" has %zu bytes; %lld at offset %lld lie behind its end", name, file->bytes,
                           (long long)bytes, (long long)offset);
    *data = file->data + offset;
    return true;
}

static bool
read_contents(Read *r, const Type *t, const void **data)
{
    int64_t bytes, n;

    if (!type_static_bytes(t, &bytes) || !expr_const(type_count(r->g->ctx, t), &n))
        return parse_error(&r->p, "a constant of type %s has no constant size", type_str(r->g->ctx, t));
    if (t->dtype != DT_STR && parse_accept(&r->p, "file"))
        return read_file(r, bytes, data);
    if (parse_accept(&r->p, "elided"))
        return parse_error(&r->p, "the contents of this constant were left out when it was printed");
    if (!parse_expect(&r->p, "["))
        return false;
    /* The text is longer than its elements: each takes two characters, so this bounds the allocation. */
    if (n > r->p.end - r->p.s)
        return parse_error(&r->p, "a constant of %lld elements does not end in this text", (long long)n);
    char *at = arena_alloc(r->g->arena, (size_t)bytes + 1);
    *data = at;
    for (int64_t i = 0; i < n; i++, at += dtype_info[t->dtype].bytes)
        if ((i && !parse_expect(&r->p, ",")) || !element_parse(&r->p, t->dtype, at))
            return false;
    return parse_expect(&r->p, "]");
}

/* ---- attributes ----------------------------------------------------------------------------------------- */

/* Is the number at the cursor a float: has it a point, an exponent, or is it inf or nan? */
static bool
float_ahead(Parse *p)
{
    parse_peek(p, "[");              /* white space is skipped by looking */
    for (const char *s = p->s; s < p->end && !strchr(",]}) \n", *s); s++)
        if (strchr(".eEnxp", *s))
            return true;
    return false;
}

static bool
read_list(Read *r, Attr *a)
{
    VEC(int64_t) ints = { 0 };
    VEC(double) floats = { 0 };
    Arena *arena = r->g->arena;
    bool real = float_ahead(&r->p);
    int64_t i;
    double f;

    while (!parse_peek(&r->p, "]")) {
        if ((ints.n + floats.n) && !parse_expect(&r->p, ","))
            return false;
        if (real ? !parse_number(&r->p, &f) : !parse_int(&r->p, &i))
            return false;
        if (real)
            VEC_PUSH(arena, &floats, f);
        else
            VEC_PUSH(arena, &ints, i);
    }
    a->kind = real ? ATTR_FLOATS : ATTR_INTS;
    a->n = ints.n + floats.n;
    a->ints = ints.at;
    a->floats = floats.at;
    return parse_expect(&r->p, "]");
}

static bool
read_attr(Read *r, Attr *a)
{
    Parse *p = &r->p;

    *a = (Attr){ .name = parse_name(p) };
    if (!a->name || !parse_expect(p, "="))
        return false;
    if (parse_accept(p, "["))
        return read_list(r, a);
    if (parse_peek(p, "\"")) {
        a->kind = ATTR_STRING;
        return parse_string(p, &a->s);
    }
    if (parse_accept(p, "const")) {
        a->kind = ATTR_TENSOR;
        a->type = parse_type(p);
        return a->type && read_contents(r, a->type, &a->data);
    }
    a->kind = float_ahead(p) ? ATTR_FLOAT : ATTR_INT;
    return a->kind == ATTR_FLOAT ? parse_number(p, &a->f) : parse_int(p, &a->i);
}

static bool
read_attrs(Read *r, Attrs *out)
{
    VEC(Attr) list = { 0 };
    Attr a;

    *out = (Attrs){ 0 };
    if (!parse_accept(&r->p, "{"))
        return true;
    while (!parse_peek(&r->p, "}")) {
        if ((list.n && !parse_expect(&r->p, ",")) || !read_attr(r, &a))
            return false;
        VEC_PUSH(r->g->arena, &list, a);
    }
    *out = (Attrs){ list.at, list.n };
    return parse_expect(&r->p, "}");
}

/* ---- nodes ------------------------------------------------------------------------------------------------ */

typedef VEC(Definition) Definitions;
typedef VEC(ValueId) Values;

static bool
read_arguments(Read *r, Values *in)
{
    if (!parse_expect(&r->p, "("))
        return false;
    while (!parse_peek(&r->p, ")")) {
        ValueId v;
        if ((in->n && !parse_expect(&r->p, ",")) || !read_use(r, &v))
            return false;
        VEC_PUSH(r->g->arena, in, v);
    }
    return parse_expect(&r->p, ")");
}

static ValueId *
define_results(Read *r, const Definitions *result)
{
    ValueId *out = NEW_ARRAY(r->g->arena, ValueId, result->n + 1);
    for (uint32_t i = 0; i < result->n; i++)
        if (result->at[i].name)
            out[i] = define(r, &result->at[i], graph_value(r->g, result->at[i].name, result->at[i].type));
    return out;
}

/* The types in the text against those of the rule. */
static bool
check_types(Read *r, const Definitions *result, const OpCall *call)
{
    Ctx *c = r->g->ctx;
    const Type **t = NEW_ARRAY(r->g->arena, const Type *, result->n + 1);

    if (!op_infer(c, call, t))
        return false;
    for (uint32_t i = 0; i < result->n; i++)
        if (result->at[i].name && type_eq(c, t[i], result->at[i].type) == NO)
            return diag_error(&c->diags, DIAG_MODEL, call->loc, "%%%s is written as %s, but %s gives %s", result->at[i].name,
                              type_str(c, result->at[i].type), op_info[call->op].name, type_str(c, t[i]));
    return true;
}

static bool
read_origin(Read *r, Sym *origin)
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

static bool
read_op(Read *r, Sym name, Loc loc, const Definitions *result)
{
    OpKind op = op_named(name, strlen(name));
    Values in = { 0 };
    Attrs attrs;
    Sym origin;

    if (op == OP_NONE)
        return parse_error(&r->p, "there is no operator \"%s\"", name);
    if (!read_arguments(r, &in) || !read_attrs(r, &attrs) || !read_origin(r, &origin))
        return false;
    ValueId *out = define_results(r, result);
    NodeId id = graph_call_op(r->g, op, attrs, loc, origin, in.n, in.at, result->n, out);
    OpCall call = graph_op_call(r->g, r->g->arena, id);
    call.constraints = &r->g->constraints;
    if (!check_types(r, result, &call))
        return false;
    if (result->n && out[0])
        r->g->value.at[out[0]].known = known_of_op(r->g, id);
    return true;
}

/* Symbols of the values that a call reads and makes; and the first of a callee's that is none of them. */
typedef struct { Map known; Sym stray; } Symbols;

static void
know_symbol(void *user, Var v)
{
    map_put(&((Symbols *)user)->known, v.id, 1);
}

static void
seek_symbol(void *user, Var v)
{
    Symbols *s = user;

    if (v.kind == VAR_SYMBOL && !map_get(&s->known, v.id, NULL))
        s->stray = (Sym)(uintptr_t)v.id;
}

static void
type_vars(const Type *t, void (*each)(void *, Var), Symbols *s)
{
    for (uint32_t d = 0; d < t->rank; d++)
        expr_vars(t->dim[d], each, s);
}

static bool
check_symbols(Read *r, const Values *in, const Definitions *result, const Nest *n, const Kernel *k)
{
    Symbols s = { .known = { .arena = r->g->arena } };

    for (uint32_t i = 0; i < in->n; i++)
        if (in->at[i])
            type_vars(r->g->value.at[in->at[i]].type, know_symbol, &s);
    for (uint32_t i = 0; i < result->n; i++)
        if (result->at[i].type)
            type_vars(result->at[i].type, know_symbol, &s);
    for (uint32_t i = 0; n && i < n->nin + n->nout; i++)
        type_vars(n->param[i].type, seek_symbol, &s);
    for (uint32_t i = 0; k && i < k->buffer.n; i++)
        type_vars(k->buffer.at[i].type, seek_symbol, &s);           /* what it lies within has symbols of the whole, which are known */
    return !s.stray || parse_error(&r->p, "nothing tells the size of %s: no value of this call has it in its type", s.stray);
}

/* ---- graphs run by nodes, and the symbols that nodes define ---------------------------------------------- */

static bool
read_fresh(Read *r, Node *n)
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

static bool
read_bind(Read *r, Region *region)
{
    VEC(Binding) list = { 0 };

    if (!parse_accept(&r->p, "with"))
        return true;
    if (!parse_expect(&r->p, "["))
        return false;
    do {
        Binding b = { 0 };
        Sym name = parse_name(&r->p);
        if (!name || !parse_expect(&r->p, "=") || !(b.to = parse_expr(&r->p)))
            return false;
        expr_is_var(expr_symbol(r->g->ctx, name), &b.var);
        VEC_PUSH(r->g->arena, &list, b);
    } while (parse_accept(&r->p, ","));
    region->bind = list.at;
    region->nbind = list.n;
    return parse_expect(&r->p, "]");
}

/* Inputs from number `first` on are in[from], in[from + 1], … and hold what those hold. */
static bool
read_region(Read *r, Region *region, uint32_t first, uint32_t from, const Values *in)
{
    Known *known = NEW_ARRAY(r->g->arena, Known, first + in->n);

    *region = (Region){ 0 };
    if (!read_bind(r, region))
        return false;
    for (uint32_t i = from; i < in->n; i++)
        known[first + i - from] = graph_known_inside(r->g->ctx, r->g->arena, r->g->value.at[in->at[i]].known, region);
    if (++r->depth > depth_levels(r->p.ctx))
        return parse_too_deep(&r->p, "graphs are nested", depth_levels(r->p.ctx));
    region->graph = read_graph(r, in->n > from ? first + in->n - from : 0, known);
    r->depth--;
    return region->graph != NULL;
}

/* The function of that name, which may be defined later. */
static Graph *
function_named(Read *r, Sym name)
{
    uint64_t known;

    if (map_get(r->function, MAP_PTR(name), &known))
        return (Graph *)(uintptr_t)known;
    Graph *g = graph_new(r->g->ctx, r->g->arena, name);
    g->value.n = 0;                  /* not defined yet: a graph has a value 0 */
    map_put(r->function, MAP_PTR(name), MAP_PTR(g));
    return g;
}

static bool
read_control(Read *r, Loc loc, CalleeKind callee, const Definitions *result)
{
    Node n = { .callee = callee, .loc = loc };
    Region region[2] = { { 0 }, { 0 } };
    Values in = { 0 };
    int64_t carried = 0, along = 0;

    n.region = region;
    n.nregion = callee == CALL_IF ? 2 : callee == CALL_MATCH || callee == CALL_JOIN ? 0 : 1;
    if (callee == CALL_GRAPH) {
        Sym name = parse_expect(&r->p, "@") ? parse_name(&r->p) : NULL;
        if (!name)
            return false;
        region[0].graph = function_named(r, name);
    }
    if (!read_arguments(r, &in) || (callee == CALL_LOOP && (!parse_expect(&r->p, "carried") || !parse_int(&r->p, &carried))))
        return false;
    if (callee == CALL_LOOP && (carried < 0 || carried + 2 > in.n))
        return parse_error(&r->p, "a loop with %lld carried values has %u inputs", (long long)carried, in.n);
    if (callee == CALL_IF && !in.n)
        return parse_error(&r->p, "an if needs a condition");
    n.ncarried = (uint32_t)carried;
    if (callee == CALL_JOIN && parse_accept(&r->p, "along") && (!parse_int(&r->p, &along) || along < 0 || along >= TN_MAX_RANK))
        return parse_error(&r->p, "a join is along a dimension, of at most %d", TN_MAX_RANK);
    n.along = (uint32_t)along;
    if ((callee == CALL_GRAPH && !read_bind(r, &region[0])) || !read_fresh(r, &n) || !read_origin(r, &n.origin))
        return false;
    for (uint32_t i = 0; i < n.nregion && callee != CALL_GRAPH; i++)
        if (!read_region(r, &region[i], callee == CALL_LOOP ? 2 + n.ncarried : 0, callee == CALL_LOOP ? 2 + n.ncarried : 1, &in))
            return false;
    if (callee == CALL_MATCH && (in.n != 1 || !in.at[0] || result->n != 1))
        return parse_error(&r->p, "a match has one input and one result");
    return graph_call_region(r->g, &n, in.n, in.at, result->n, define_results(r, result)) != 0;
}

static bool
read_call(Read *r, Loc loc, const Definitions *result)
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
            return parse_error(&r->p, "the nest has %u inputs and %u outputs, the call has %u and %u", n->nin, n->nout, in.n, result->n);
        if (!check_symbols(r, &in, result, n, NULL))
            return false;
        return graph_call_nest(r->g, n, loc, origin, in.at, define_results(r, result));
    }
    Kernel *k = kernel_parse(&r->p, r->g->arena);
    if (!k)
        return false;
    if (k->nin != in.n || k->nout != result->n)
        return parse_error(&r->p, "the kernel has %u inputs and %u outputs, the call has %u and %u", k->nin, k->nout, in.n, result->n);
    if (!check_symbols(r, &in, result, NULL, k))
        return false;
    return graph_call_kernel(r->g, k, loc, origin, in.at, define_results(r, result));
}

/* Definitions, `=`, then a constant or a call. */
static bool
read_line(Read *r)
{
    Definitions result = { 0 };
    Definition d;
    const void *data;

    parse_peek(&r->p, "%");
    Loc loc = { .file = r->p.file, .line = r->p.line, .col = (uint32_t)(r->p.s - r->p.line_start) + 1 };
    do {
        if (!read_definition(r, &d))
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
        if (!read_contents(r, d.type, &data))
            return false;
        define(r, &d, graph_const(r->g, d.name, d.type, data));
        return true;
    }
    if (parse_accept(&r->p, "call"))
        return read_call(r, loc, &result);
    Sym op = parse_name(&r->p);
    if (!op)
        return false;
    static const struct { const char *name; CalleeKind callee; } control[] = {
        { "match", CALL_MATCH }, { "if", CALL_IF }, { "loop", CALL_LOOP }, { "join", CALL_JOIN },
    };
    for (size_t i = 0; i < sizeof control / sizeof *control; i++)
        if (strcmp(op, control[i].name) == 0)
            return read_control(r, loc, control[i].callee, &result);
    if (!strcmp(op, "blocks"))
        return parse_error(&r->p, "a program for many requests is not read from text: give the model that it was made of, and --many");
    return read_op(r, op, loc, &result);
}

/* ---- the head ------------------------------------------------------------------------------------------------ */

static bool
read_inputs(Read *r)
{
    Definition d;

    if (!parse_expect(&r->p, "("))
        return false;
    while (!parse_peek(&r->p, ")")) {
        if ((r->g->input.n && !parse_expect(&r->p, ",")) || !read_definition(r, &d))
            return false;
        if (!d.name)
            return parse_error(&r->p, "an input needs a name");
        define(r, &d, graph_input(r->g, d.name, d.type));
    }
    return parse_expect(&r->p, ")");
}

/* What a condition reads and no input has, a node defines. */
static void
visit_required(void *user, Var v)
{
    const Graph *g = user;

    for (uint32_t i = 0; i < g->input.n; i++)
        for (uint32_t d = 0; d < g->value.at[g->input.at[i]].type->rank; d++)
            if (expr_uses(g->value.at[g->input.at[i]].type->dim[d], v))
                return;
    if (v.kind == VAR_SYMBOL)
        expr_symbol_late(g->ctx, v);
}

/* "or one is 1", "or the first is 1": two sizes that are broadcast. */
static bool
read_rule(Read *r, SizeRule *rule)
{
    *rule = SIZES_EQUAL;
    if (!parse_accept(&r->p, "or"))
        return true;
    *rule = parse_accept(&r->p, "one") ? SIZES_BROADCAST : SIZES_INTO;
    return (*rule == SIZES_BROADCAST || (parse_expect(&r->p, "the") && parse_expect(&r->p, "first"))) && parse_expect(&r->p, "is") && parse_expect(&r->p, "1");
}

static bool
read_require(Read *r)
{
    Constraint k = { 0 };

    k.a = parse_expr(&r->p);
    if (!k.a || !parse_expect(&r->p, "=="))
        return false;
    k.b = parse_expr(&r->p);
    if (!k.b || !read_rule(r, &k.rule) ||
        (parse_accept(&r->p, "at") && !(k.at = parse_expr(&r->p))) ||
        !parse_string(&r->p, &k.why) || (parse_peek(&r->p, "\"") && !parse_string(&r->p, &k.said)))
        return false;
    if (k.rule == SIZES_EQUAL && expr_eq(r->g->ctx, NULL, k.a, k.b) == NO)
        return parse_error(&r->p, "%s == %s cannot hold", expr_str(r->g->ctx, k.a), expr_str(r->g->ctx, k.b));
    VEC_PUSH(r->g->arena, &r->g->constraints, k);
    expr_vars(k.a, visit_required, r->g);
    expr_vars(k.b, visit_required, r->g);
    if (k.at)
        expr_vars(k.at, visit_required, r->g);
    if (k.rule == SIZES_EQUAL && !constraint_of_data(&k))
        expr_assume_eq(r->g->ctx, k.a, k.b);
    return true;
}

/* %past = %present: an input, and an output that the body is still to define. */
static bool
read_state(Read *r, uint32_t noutput, const Sym *output)
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
    while (s.output < noutput && output[s.output] != name)
        s.output++;
    if (s.input == UINT32_MAX || s.output == noutput)
        return parse_error(&r->p, "%s%s: a state is an input and an output of the graph", s.input == UINT32_MAX ? "the left side of = %" : "%", name);
    VEC_PUSH(r->g->arena, &r->g->state, s);
    return true;
}

static bool
read_body(Read *r, uint32_t nknown, const Known *known)
{
    VEC(Sym) output = { 0 };
    uint64_t v;

    if (!read_inputs(r))
        return false;
    for (uint32_t i = 0; i < nknown && i < r->g->input.n; i++)
        r->g->value.at[r->g->input.at[i]].known = known[i];
    if (!parse_expect(&r->p, "->") || !parse_expect(&r->p, "("))
        return false;
    while (!parse_peek(&r->p, ")")) {
        if (output.n && !parse_expect(&r->p, ","))
            return false;
        Sym name = read_name(r);
        if (!name)
            return false;
        VEC_PUSH(r->g->arena, &output, name);
    }
    if (!parse_expect(&r->p, ")") || !parse_expect(&r->p, "{"))
        return false;
    while (!parse_accept(&r->p, "}"))
        if (parse_accept(&r->p, "symbol") ? !parse_symbol(&r->p) : parse_accept(&r->p, "require") ? !read_require(r)
            : parse_accept(&r->p, "state") ? !read_state(r, output.n, output.at) : !read_line(r))
            return false;
    for (uint32_t i = 0; i < output.n; i++) {
        if (!map_get(&r->value, MAP_PTR(output.at[i]), &v))
            return parse_error(&r->p, "output %%%s is not defined", output.at[i]);
        VEC_PUSH(r->g->arena, &r->g->output, (ValueId)v);
    }
    return true;
}

/* A graph inside another, or beside it: the cursor, the files and the functions are shared. */
static Graph *
read_graph(Read *outer, uint32_t nknown, const Known *known)
{
    Read r = *outer;

    r.value = (Map){ .arena = outer->value.arena };
    if (!parse_expect(&r.p, "graph") || !parse_expect(&r.p, "@"))
        return NULL;
    Sym name = parse_name(&r.p);
    if (!name)
        return NULL;
    r.g = graph_new(outer->p.ctx, outer->value.arena, name);
    bool ok = read_body(&r, nknown, known);
    outer->p = r.p;
    outer->file = r.file;
    return ok ? r.g : NULL;
}

Graph *
graph_parse(Ctx *c, Arena *arena, const char *path, Bytes text)
{
    Map function = { .arena = arena };
    Read r = { .p = parse_begin(c, path, text), .value = { .arena = arena }, .file = { .arena = arena }, .function = &function };
    VEC(Graph *) named = { 0 };
    uint64_t known;
    Graph *g;

    do {
        if (!(g = read_graph(&r, 0, NULL)))
            return NULL;
        VEC_PUSH(arena, &named, g);
        if (!parse_peek(&r.p, "graph"))
            break;
        if (map_get(&function, MAP_PTR(g->name), &known) && ((Graph *)(uintptr_t)known)->value.n) {
            parse_error(&r.p, "graph @%s is defined twice", g->name);
            return NULL;
        }
        if (!map_get(&function, MAP_PTR(g->name), &known))
            map_put(&function, MAP_PTR(g->name), MAP_PTR(g));
        else
            *(Graph *)(uintptr_t)known = *g;         /* calls point at it already */
    } while (true);
    if (!parse_end(&r.p)) {
        parse_error(&r.p, "text goes on behind the graph");
        return NULL;
    }
    for (uint32_t i = 0; i < function.cap; i++)
        if (function.at[i].used && !((Graph *)(uintptr_t)function.at[i].value)->value.n) {
            parse_error(&r.p, "there is no graph @%s, which is called", ((Graph *)(uintptr_t)function.at[i].value)->name);
            return NULL;
        }
    return graph_verify_as(g, DIAG_MODEL) ? g : NULL;
}
