/* case: selects by the constructor that made a value, and reads its fields.
 *
 *   %h: f32[4] = case(%t, %x)
 *     leaf graph @l(%word: i64[], %x: f32[4]) -> (%h) { … }
 *     node graph @n(%left: Tree[], %right: Tree[], %x: f32[4]) -> (%h) { … }
 *
 * becomes an `if` on the tag, a binary tree of them for more than two constructors, and a call for
 * one. All arms get the arguments, the row and the columns; each reads the fields of its row.
 */
#include "graph/text.h"

/* ---- reading a row --------------------------------------------------------------------------- */

/* A value computed from a column and a row: o[…] = body. In the body, `rows` is the number of rows
 * of the table, `others` that of the table that the column points to. Indices from data are read as
 * unsigned, so that a negative one is an error instead of counting from the end. */
typedef struct {
    const Column *column;
    ValueId contents, row;
    const Type *type; /* of the value */
    const char *name, *origin, *body;
} RowNest;

static ValueId
row_nest(GraphParser *r, Loc loc, const RowNest *w)
{
    const Column *k = w->column;
    Ctx *c = r->g->ctx;
    const NestParam param[] = { { sym(c, "column"), k->type },
                                { sym(c, "t"), type_new(c, DT_I64, 0, NULL) },
                                { sym(c, "o"), w->type } };
    const NestName names[] = { { "rows", k->type->dim[0] },
                               { "others", k->data ? k->data->rows : NULL } };
    const Nest *n = nest_of_text(c, &(NestSource){ .name = w->name,
                                                   .body = w->body,
                                                   .nin = 2,
                                                   .nout = 1,
                                                   .param = param,
                                                   .nnames = k->data ? 2 : 1,
                                                   .names = names });

    return graph_nest_value(r->g, n, w->name, loc, sym(c, w->origin),
                            (ValueId[]){ w->contents, w->row });
}

/* Field f of row `row`; column [d->column.n] are its table's columns. */
static ValueId
read_row(GraphParser *r, Loc loc, const Data *d, const Field *f, ValueId row, const char *name)
{
    const Column *k = &d->column.at[f->column];
    Arena *a = r->g->arena;
    const char *origin = arena_printf(a, "field \"%s\"", k->name), *index = "", *body;

    for (uint32_t i = 0; i < f->type->rank; i++)
        index = arena_printf(a, "%s%sa%u", index, i ? ", " : "", i);
    body =
        arena_printf(a, "o[%s] = column[at(u64(t[]), rows)%s%s]", index, *index ? ", " : "", index);
    if (f->data == d) {
        body = "o[] = at(u64(column[at(u64(t[]), rows)]), t[])";
        origin = arena_printf(a, "child \"%s\", which is a row before its parent", k->name);
    } else if (f->data) {
        body = "o[] = at(u64(column[at(u64(t[]), rows)]), others)";
    }
    return row_nest(r, loc,
                    &(RowNest){ .column = k,
                                .contents = r->column[d->number][f->column],
                                .row = row,
                                .type = f->type,
                                .name = name,
                                .origin = origin,
                                .body = body });
}

/* ---- a case ---------------------------------------------------------------------------------- */

typedef struct {
    Loc loc;
    const Data *data;
    ValueId row;
    Values in;      /* of all arms: the arguments, the row, the columns */
    uint32_t given; /* the number of arguments */
    DataSet set;
    uint32_t tag; /* the position of the tag's column after the row */
    Region *arm;  /* [data->made.n]; graph NULL: not read yet */
    uint32_t nresult;
    Definition *result;
    const Type **type; /* [nresult]; of `_` too, once an arm has been read */
} Case;

static uint32_t
arm_named(const Data *d, Sym name)
{
    uint32_t i = 0;

    while (i < d->made.n && d->made.at[i].name != name)
        i++;
    return i;
}

static const char *
constructors(Arena *a, const Data *d)
{
    Text t = { .arena = a };

    for (uint32_t i = 0; i < d->made.n; i++)
        text_printf(&t, "%s%s", i ? ", " : "", d->made.at[i].name);
    return text_str(&t);
}

static bool
check_fields(GraphParser *r, const Case *x, const Constructor *k, Head *h)
{
    if (h->param.n != k->field.n + x->given)
        return parse_error(&r->p,
                           "graph %s is the arm of %s, which has %u fields, and %u values are "
                           "handed on: it takes %u values, not %u",
                           h->name, k->name, k->field.n, x->given, k->field.n + x->given,
                           h->param.n);
    for (uint32_t i = 0; i < k->field.n; i++) {
        Definition *p = &h->param.at[i];
        const Field *f = &k->field.at[i];
        if (!p->type) {
            p->type = f->type;
            p->data = f->data;
        }
        if (p->data != f->data || type_eq(r->g->ctx, p->type, f->type) != YES)
            return read_error(r, p->loc,
                              "input %%%s of graph %s is written as %s, field %s of %s is %s",
                              p->name, h->name, read_type_str(r, p->data, p->type), f->name,
                              k->name, read_type_str(r, f->data, f->type));
    }
    return true;
}

/* with [k_1 = k] graph @node(%left: Tree[], %right: Tree[], %x: f32[k_1]) -> (…) { … } */
static bool
read_arm(GraphParser *outer, Case *x, uint32_t number)
{
    const Constructor *k = &x->data->made.at[number];
    Region *region = &x->arm[number];
    GraphParser r = read_inside(outer, outer->g);
    Head h;

    if (!read_bind(&r, region) || !parse_expect(&r.p, "graph") || !read_head(&r, &h, false) ||
        !check_fields(&r, x, k, &h))
        return false;
    outer->p = r.p;
    if (!read_unify(outer, x->loc, region, h.name, x->given, h.param.at + k->field.n, x->in.at))
        return false;
    r.g = graph_new(outer->g->ctx, outer->g->arena, h.name);
    read_inputs(&r, &h, k->field.n);
    for (uint32_t i = 0; i < x->given; i++)
        r.g->value.at[r.g->input.at[i]].known =
            graph_known_inside(r.g->ctx, r.g->arena, outer->g->value.at[x->in.at[i]].known, region);
    ValueId row = graph_input(r.g, x->data->name, type_new(r.g->ctx, DT_I64, 0, NULL));
    if (!data_inputs(&r, x->set))
        return false;
    for (uint32_t i = 0; i < k->field.n; i++) {
        ValueId v = read_row(&r, x->loc, x->data, &k->field.at[i], row, h.param.at[i].name);
        if (!v)
            return false;
        read_define(&r, &h.param.at[i], v);
    }
    bool ok = read_body(&r, &h);
    outer->p = r.p;
    region->graph = r.g;
    if (!ok)
        return false;
    if (r.g->output.n != x->nresult)
        return read_error(outer, x->loc, "graph %s gives %u values, the case has %u", h.name,
                          r.g->output.n, x->nresult);
    data_arguments(outer, x->set, NULL, region);
    if (!read_results(outer, region, 0, x->nresult, x->result))
        return false;
    for (uint32_t i = 0; i < x->nresult; i++)
        if (!x->type[i])
            x->type[i] = x->result[i].type
                             ? x->result[i].type
                             : type_subst(r.g->ctx, r.g->value.at[r.g->output.at[i]].type,
                                          region->bind, region->nbind);
    return true;
}

static bool
read_arms(GraphParser *r, Case *x)
{
    const Data *d = x->data;
    Sym name;

    for (uint32_t left = d->made.n;; left--) {
        bool more = !parse_peek(&r->p, "%") && !parse_peek(&r->p, "_") && !parse_peek(&r->p, "}") &&
                    r->p.s < r->p.end;
        for (uint32_t i = 0; !left && more && i < d->made.n; i++)
            if (parse_peek(&r->p, d->made.at[i].name))
                return parse_error(&r->p, "a second arm for %s: each constructor has one",
                                   d->made.at[i].name);
        if (!left)
            return true;
        if (!more) {
            for (uint32_t i = 0; i < d->made.n; i++)
                if (!x->arm[i].graph)
                    return parse_error(&r->p,
                                       "the case of %s has no arm for %s; its constructors are %s",
                                       d->name, d->made.at[i].name, constructors(r->g->arena, d));
        }
        if (!(name = parse_name(&r->p)))
            return false;
        uint32_t i = arm_named(d, name);
        if (i == d->made.n)
            return parse_error(&r->p, "%s has no constructor %s; it has %s", d->name, name,
                               constructors(r->g->arena, d));
        if (x->arm[i].graph)
            return parse_error(&r->p, "a second arm for %s: each constructor has one", name);
        if (!read_arm(r, x, i))
            return false;
    }
}

/* ---- the choice between arms ----------------------------------------------------------------- */

static bool choose(GraphParser *r, const Case *x, const ValueId *in, uint32_t first, uint32_t end,
                   const ValueId *out);

/* Arms first <= i < end as one graph with the inputs of each. It uses the symbols of the graph
 * around it. */
static bool
choice(GraphParser *outer, const Case *x, const ValueId *from, uint32_t first, uint32_t end,
       Region *region)
{
    Graph *g = outer->g;
    const Constructor *made = x->data->made.at;
    Sym name = sym_printf(g->ctx, "%s to %s", made[first].name, made[end - 1].name);
    GraphParser r = read_inside(outer, graph_new(g->ctx, g->arena, name));
    ValueId *in = NEW_ARRAY(g->arena, ValueId, x->in.n);
    ValueId *out = NEW_ARRAY(g->arena, ValueId, x->nresult + 1);
    SymbolSet same = { .seen.arena = g->arena };
    BoundSizes bind = { 0 };

    for (uint32_t i = 0; i < x->in.n; i++) {
        const Value *v = &g->value.at[from[i]];
        in[i] = graph_input(r.g, v->name, v->type);
        type_symbols(&same, v->type);
    }
    for (uint32_t i = 0; i < same.n; i++) {
        Var v = symbol_var(same.at[i]);
        VEC_PUSH(g->arena, &bind, ((Binding){ v, expr_var(g->ctx, v) }));
    }
    for (uint32_t i = 0; i < x->nresult; i++) {
        out[i] = graph_value(r.g, x->result[i].name ? x->result[i].name : "unused", x->type[i]);
        VEC_PUSH(g->arena, &r.g->output, out[i]);
    }
    *region = (Region){ r.g, bind.n, bind.at };
    return choose(&r, x, in, first, end, out);
}

/* Selects among the arms first <= i < end, at least two. The depth is logarithmic in their
 * number. */
static bool
choose(GraphParser *r, const Case *x, const ValueId *in, uint32_t first, uint32_t end,
       const ValueId *out)
{
    const Data *d = x->data;
    Ctx *c = r->g->ctx;
    Arena *a = r->g->arena;
    uint32_t middle = first + (end - first) / 2;
    Region region[2];
    const char *body =
        arena_printf(a, "o[] = at(u64(column[at(u64(t[]), rows)]), %u) < %u", d->made.n, middle);
    Node n = { .callee = CALL_IF,
               .loc = x->loc,
               .origin = sym_printf(c, "case \"%s\"", d->name),
               .nregion = 2,
               .region = region };
    Values all = { 0 };

    ValueId is = row_nest(r, x->loc,
                          &(RowNest){ .column = &d->column.at[0],
                                      .contents = in[x->given + 1 + x->tag],
                                      .row = in[x->given],
                                      .type = type_new(c, DT_BOOL, 0, NULL),
                                      .name = "is",
                                      .origin = arena_printf(a, "\"%s\", of %u constructors",
                                                             d->column.at[0].name, d->made.n),
                                      .body = body });
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t from = half ? middle : first, to = half ? end : middle;
        if (to - from == 1)
            region[half] = x->arm[from];
        else if (!choice(r, x, in, from, to, &region[half]))
            return false;
    }
    VEC_PUSH(a, &all, is);
    for (uint32_t i = 0; i < x->in.n; i++)
        VEC_PUSH(a, &all, in[i]);
    return is && graph_call_region(r->g, &n, all.n, all.at, x->nresult, out) != 0;
}

/* For a type with one constructor: its arm is a function. */
static bool
call_arm(GraphParser *r, const Case *x, const ValueId *out)
{
    Region *arm = &x->arm[0];
    Node n = { .callee = CALL_GRAPH, .loc = x->loc, .nregion = 1, .region = arm };
    Sym name = arm->graph->name;

    while (source_function(r->source, name))
        name = sym_printf(r->g->ctx, "%s_%u", arm->graph->name, ++r->source->arms);
    Function *f = NEW(r->g->arena, Function);
    *f = (Function){ .head = { .name = name }, .graph = arm->graph, .made = true };
    map_put(&r->source->function, MAP_PTR(name), MAP_PTR(f));
    arm->graph->name = name;
    return graph_call_region(r->g, &n, x->in.n, x->in.at, x->nresult, out) != 0;
}

/* The position of the tag of x->data among the columns after the row, which are in the order of the
 * data types' declarations. */
static uint32_t
tag_place(const GraphParser *r, const Case *x)
{
    uint32_t place = 0;

    for (uint32_t i = 0; i < x->data->number; i++)
        place += x->set >> i & 1 ? r->source->data.at[i]->column.n : 0;
    return place;
}

bool
read_case(GraphParser *r, Loc loc, Definitions *result)
{
    Arena *a = r->g->arena;
    Case x = { .loc = loc,
               .nresult = result->n,
               .result = result->at,
               .type = NEW_ARRAY(a, const Type *, result->n + 1) };

    if (!read_arguments(r, &x.in))
        return false;
    ValueId row = x.in.n ? x.in.at[0] : 0;
    x.data = data_of(r, row);
    if (!x.data)
        return read_error(r, loc, "a case is of a value of a data type%s%s%s",
                          row ? "; this one is " : ", which is missing",
                          row ? type_str(r->g->ctx, r->g->value.at[row].type) : "",
                          r->source->data.n ? "" : ", and the text declares no data type");
    x.set = data_of_values(r, x.in.n, x.in.at);
    x.arm = NEW_ARRAY(a, Region, x.data->made.n);
    x.given = x.in.n - 1;
    for (uint32_t i = 0; i < x.given; i++)
        x.in.at[i] = x.in.at[i + 1];
    x.in.at[x.given] = row;
    data_arguments(r, x.set, &x.in, NULL);
    x.tag = tag_place(r, &x);
    if (!read_deeper(r) || !read_arms(r, &x))
        return false;
    r->depth--;
    ValueId *out = read_define_results(r, x.nresult, x.result);
    return x.data->made.n == 1 ? call_arm(r, &x, out)
                               : choose(r, &x, x.in.at, 0, x.data->made.n, out);
}
