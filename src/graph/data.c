/* data: algebraic data types in the text form: trees, lists, expressions.
 *
 *   data Tree = leaf(word: i64[]) | node(left: Tree[], right: Tree[])
 *
 * The graph itself has no such types. All values of one type that a run gets are rows of one table,
 * and a value is a row number, i64[]. The table's columns are inputs of the model: Tree.tag is the
 * number of the constructor of a row, and each field has a column; constructors share a column if
 * name and type agree. A graph with a parameter of a data type gets the columns as inputs after all
 * others, and calls pass them on.
 *
 *   case(%t) leaf graph @l(%word: i64[]) … node graph @n(%left: Tree[], %right: Tree[]) …
 *
 * selects by the tag among graphs that read the fields of row %t:
 *
 *   %is: bool[] = call(%"Tree.tag", %t) nest …
 *   %h: f32[1, 256] = if(%is, %t, %"Tree.tag", %"Tree.word", …)
 *     graph @l(…) { %word: i64[] = call(%"Tree.word", %t) nest … }
 *     graph @n(…) { … }
 *
 * A child has a smaller row number than its parent, which is checked where it is read. Fields of
 * other data types refer to types declared before. So every recursion over a value ends.
 */
#include "graph/text.h"

#include <string.h>

/* ---- declarations ---------------------------------------------------------------------------- */

const Data *
read_data_name(GraphParser *r)
{
    for (uint32_t i = 0; i < r->source->data.n; i++)
        if (parse_accept(&r->p, r->source->data.at[i]->name))
            return r->source->data.at[i];
    return NULL;
}

static void
add_column(GraphParser *r, Data *d, Sym name, const Type *element, const Data *of)
{
    const Expr *dim[TN_MAX_RANK] = { d->rows };
    Ctx *c = r->g->ctx;

    for (uint32_t k = 0; k < element->rank; k++)
        dim[k + 1] = element->dim[k];
    VEC_PUSH(r->g->arena, &d->column,
             ((Column){ sym_printf(c, "%s.%s", d->name, name),
                        type_new(c, element->dtype, element->rank + 1, dim), element, of }));
}

/* The column of that name, added if there is none; UINT32_MAX, reported: it has another type. */
static uint32_t
column_of(GraphParser *r, Data *d, const Field *f)
{
    Sym name = sym_printf(r->g->ctx, "%s.%s", d->name, f->name);

    for (uint32_t i = 0; i < d->column.n; i++) {
        const Column *k = &d->column.at[i];
        if (k->name != name)
            continue;
        if (i && k->element == f->type && k->data == f->data)
            return i;
        parse_error(&r->p,
                    i ? "field %s of %s has another type in a constructor before; fields of "
                        "one name are one column: take another name"
                      : "%s is the column that says which constructor made a row of %s; "
                        "name the field otherwise",
                    f->name, d->name);
        return UINT32_MAX;
    }
    add_column(r, d, f->name, f->type, f->data);
    return d->column.n - 1;
}

static bool
read_field(GraphParser *r, Data *d, Constructor *made)
{
    Field f = { .name = parse_name(&r->p) };
    Definition t = { 0 };

    if (!f.name || !parse_expect(&r->p, ":"))
        return false;
    for (uint32_t i = 0; i < made->field.n; i++)
        if (made->field.at[i].name == f.name)
            return parse_error(&r->p, "constructor %s of %s has two fields %s", made->name, d->name,
                               f.name);
    if (!read_type(r, &t))
        return false;
    f.type = t.type;
    f.data = t.data;
    if (!type_is_static(f.type) || f.type->rank >= TN_MAX_RANK || f.type->dtype == DT_STR)
        return parse_error(&r->p,
                           "field %s of %s is %s: a field is numbers of a fixed size, of rank "
                           "below %d",
                           f.name, d->name, type_str(r->g->ctx, f.type), TN_MAX_RANK);
    f.column = column_of(r, d, &f);
    d->leads |= f.data ? f.data->leads : 0;
    VEC_PUSH(r->g->arena, &made->field, f);
    return f.column != UINT32_MAX;
}

static bool
read_constructor(GraphParser *r, Data *d)
{
    Constructor k = { .name = parse_name(&r->p) };

    if (!k.name)
        return false;
    for (uint32_t i = 0; i < d->made.n; i++)
        if (d->made.at[i].name == k.name)
            return parse_error(&r->p, "%s has two constructors %s", d->name, k.name);
    if (parse_accept(&r->p, "(")) {
        while (!parse_peek(&r->p, ")"))
            if ((k.field.n && !parse_expect(&r->p, ",")) || !read_field(r, d, &k))
                return false;
        if (!parse_expect(&r->p, ")"))
            return false;
    }
    VEC_PUSH(r->g->arena, &d->made, k);
    return true;
}

/* A type with one constructor needs no tag. */
static void
drop_tag(Data *d)
{
    for (uint32_t i = 1; i < d->column.n; i++)
        d->column.at[i - 1] = d->column.at[i];
    d->column.n--;
    for (uint32_t i = 0; i < d->made.at[0].field.n; i++)
        d->made.at[0].field.at[i].column--;
}

bool
read_data(GraphParser *r)
{
    Data *d = NEW(r->g->arena, Data);
    Ctx *c = r->g->ctx;

    d->name = parse_name(&r->p);
    if (!d->name)
        return false;
    for (uint32_t i = 0; i < r->source->data.n; i++)
        if (r->source->data.at[i]->name == d->name)
            return parse_error(&r->p, "data type %s is declared twice", d->name);
    if (dtype_from_name(d->name, strlen(d->name)) != DT_NONE)
        return parse_error(&r->p, "%s is the name of an element type; name the data type otherwise",
                           d->name);
    if (parse_peek(&r->p, "[") || parse_peek(&r->p, "("))
        return parse_error(&r->p,
                           "data type %s has parameters, which are not supported: declare one data "
                           "type for each use",
                           d->name);
    if (r->source->data.n == MOST_DATA)
        return parse_error(&r->p, "a text declares more than %d data types", MOST_DATA);
    d->number = r->source->data.n;
    d->leads = (DataSet)1 << d->number;
    d->rows = expr_symbol(c, sym_printf(c, "%s_rows", d->name));
    VEC_PUSH(r->g->arena, &r->source->data, d);
    add_column(r, d, sym(c, "tag"), type_new(c, DT_I64, 0, NULL), NULL);
    if (!parse_expect(&r->p, "="))
        return false;
    do
        if (!read_constructor(r, d))
            return false;
    while (parse_accept(&r->p, "|"));
    if (d->made.n == 1)
        drop_tag(d);
    return true;
}

/* ---- values, and the columns that go with them ----------------------------------------------- */

const Data *
data_of(const GraphParser *r, ValueId v)
{
    uint64_t d;

    return map_get(&r->data, v, &d) ? (const Data *)(uintptr_t)d : NULL;
}

DataSet
data_of_params(uint32_t n, const Definition *param)
{
    DataSet set = 0;

    for (uint32_t i = 0; i < n; i++)
        set |= param[i].data ? param[i].data->leads : 0;
    return set;
}

DataSet
data_of_values(const GraphParser *r, uint32_t n, const ValueId *v)
{
    DataSet set = 0;

    for (uint32_t i = 0; i < n; i++)
        set |= data_of(r, v[i]) ? data_of(r, v[i])->leads : 0;
    return set;
}

bool
data_inputs(GraphParser *r, DataSet set)
{
    uint32_t own = r->g->input.n;

    for (uint32_t i = 0; i < r->source->data.n; i++) {
        const Data *d = r->source->data.at[i];
        if (!(set >> i & 1))
            continue;
        r->column[i] = NEW_ARRAY(r->g->arena, ValueId, d->column.n);
        for (uint32_t k = 0; k < d->column.n; k++) {
            Sym name = d->column.at[k].name;
            for (uint32_t j = 0; j < own; j++)
                if (r->g->value.at[r->g->input.at[j]].name == name)
                    return parse_error(&r->p,
                                       "%%\"%s\" is a column of %s, which graph @%s gets by "
                                       "itself: give the other input a name of its own",
                                       name, d->name, r->g->name);
            r->column[i][k] = graph_input(r->g, name, d->column.at[k].type);
        }
    }
    return true;
}

void
data_arguments(GraphParser *r, DataSet set, Values *in, Region *region)
{
    BoundSizes bind = { 0 };
    Binding b;

    for (uint32_t i = 0; region && i < region->nbind; i++)
        VEC_PUSH(r->g->arena, &bind, region->bind[i]);
    for (uint32_t i = 0; i < r->source->data.n; i++) {
        const Data *d = r->source->data.at[i];
        if (!(set >> i & 1))
            continue;
        for (uint32_t k = 0; in && k < d->column.n; k++)
            VEC_PUSH(r->g->arena, in, r->column[i][k]);
        b.to = d->rows;
        expr_is_var(d->rows, &b.var);
        VEC_PUSH(r->g->arena, &bind, b);
    }
    if (region) {
        region->bind = bind.at;
        region->nbind = bind.n;
    }
}
