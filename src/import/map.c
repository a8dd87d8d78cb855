/* map: maps as inputs of a model, and the operators that convert them to tensors.
 *
 *     keys   i64[entries] or str[entries]          values   T[entries]
 *
 * A model with an input map x takes the two tensors x.keys and x.values, with entries in any order.
 * Only ZipMap makes maps. Its sequence of maps is the table that it is made of and the labels of
 * the table's columns, in their order: an output y of the model is y.values, T[maps, entries], and
 * y.keys. In the table of names x stands for the values.
 */
#include "import/compose.h"
#include "import/ml.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static Sym
keys_of(Ctx *c, const char *name)
{
    return sym_printf(c, "%s.keys", name);
}

bool
map_input(Model *m, const OnnxValueInfo *v, bool *is)
{
    const OnnxType *t = v->type;
    const OnnxMapType *map = t && t->value_case == ONNX_MAP_TYPE ? t->map_type : NULL;
    const OnnxType *value = map ? map->value_type : NULL;
    DType key = map ? dtype_from_onnx(map->key_type) : DT_NONE;
    DType of = tensor_type(value) ? dtype_from_onnx(value->tensor_type->elem_type) : DT_NONE;
    const Expr *entries = expr_symbol(m->c, arena_printf(m->arena, "%s_entries", v->name));
    Loc loc = { .file = m->path };

    *is = (key == DT_I64 || key == DT_STR) && of != DT_NONE;
    if (!*is)
        return true;
    Sym keys = keys_of(m->c, v->name), values = sym_printf(m->c, "%s.values", v->name);
    ValueId at = graph_input(m->g, values, type_new(m->c, of, 1, &entries));
    return model_define(m, keys, graph_input(m->g, keys, type_new(m->c, key, 1, &entries)), loc) &&
           model_define(m, values, at, loc) && model_define(m, v->name, at, loc);
}

ValueId
map_output(const Model *m, const OnnxValueInfo *v)
{
    const OnnxType *t = v->type;
    uint64_t keys = 0;

    t = t && t->value_case == ONNX_SEQUENCE_TYPE && t->sequence_type ? t->sequence_type->elem_type
                                                                     : t;
    if (t && t->value_case == ONNX_MAP_TYPE)
        map_get(&m->value, MAP_PTR(keys_of(m->c, v->name)), &keys);
    return (ValueId)keys;
}

Sym
map_part(Ctx *c, Sym name, int part)
{
    return part ? keys_of(c, name) : sym_printf(c, "%s.values", name);
}

/* The keys of input 0; 0, reported: it is no map. */
static ValueId
read_keys(Call *k)
{
    uint64_t v = 0;

    if (!need_input(k, 0))
        return 0;
    if (!map_get(&k->m->value, MAP_PTR(keys_of(k->c, k->proto->input[0])), &v))
        call_refuse(k, "%s of \"%s\", which is no map that the model has as an input",
                    k->proto->op_type, k->proto->input[0]);
    return (ValueId)v;
}

/* count default elements: zeros, or empty strings. */
static ValueId
nothing(Call *k, DType t, int64_t count)
{
    void *data = arena_alloc(k->arena, (size_t)count * dtype_info[t].bytes + 1);
    Sym empty = sym(k->c, "");

    memset(data, 0, (size_t)count * dtype_info[t].bytes);
    for (int64_t i = 0; t == DT_STR && i < count; i++)
        ((Sym *)data)[i] = empty;
    return ml_const(k, "nothing", t, count, -1, data);
}

/* [1, n] of a list. */
static bool
give_row(Call *k, ValueId list)
{
    return list && finish(k, value_of_text(k, "list", &list, "reshape(list, [1, -1])"));
}

/* values[i] at place[i] of `count`, defaults elsewhere. */
static ValueId
placed(Call *k, ValueId place, ValueId values, int64_t count)
{
    return value_of_text(k, "none place values",
                         VALUES(nothing(k, value_type(k, values)->dtype, count), place, values),
                         "scatter_elements(none, place, values) {axis = 0}");
}

/* A key outside of the vocabulary goes after the row, and is cut off. */
static bool
convert_dict_vectorizer(Call *k)
{
    const OnnxAttribute *a = node_attribute(k->proto, "string_vocabulary");
    AttrList words = ml_ints(k, "int64_vocabulary");
    ValueId keys = read_keys(k), strings = keys && a ? call_strings(k, "vocabulary", a) : 0;

    if (!keys || (a && !strings))
        return false;
    if (a)
        words = (AttrList){ DT_STR, (int64_t)a->n_strings, k->m->g->value.at[strings].data };
    if (!words.n)
        return call_wrong(k, "DictVectorizer without a vocabulary");
    ValueId at = ml_place(k, keys, &words), row = at ? placed(k, at, k->in.at[0], words.n + 1) : 0;
    return row &&
           give_row(k, value_of_text(k, "row", &row, "slice(row, [0], [%" PRId64 "])", words.n));
}

/* The values in the order of their keys; or each at the index that is its key. */
static bool
convert_cast_map(Call *k)
{
    static const struct {
        const char *name;
        DType t;
    } form[] = { { "TO_FLOAT", DT_F32 }, { "TO_STRING", DT_STR }, { "TO_INT64", DT_I64 } };
    const char *to = get_string(k, "cast_to", "TO_FLOAT"),
               *how = get_string(k, "map_form", "DENSE");
    int64_t most = get_int(k, "max_map", 1);
    ValueId keys = read_keys(k);
    DType t = DT_NONE;

    for (int i = 0; i < 3; i++)
        t = strcmp(to, form[i].name) ? t : form[i].t;
    if (!keys)
        return false;
    if (t == DT_NONE || (strcmp(how, "DENSE") && strcmp(how, "SPARSE")) || most < 1 ||
        most > 1 << 24)
        return call_wrong(k,
                          "CastMap with cast_to %s, map_form %s and max_map %lld; TO_FLOAT, "
                          "TO_STRING and TO_INT64, DENSE and "
                          "SPARSE, and 1 to 2^24 exist",
                          to, how, (long long)most);
    if (value_type(k, keys)->dtype != DT_I64)
        return call_refuse(k, "CastMap of a map whose keys are %s; they are to be i64",
                           dtype_info[value_type(k, keys)->dtype].name);
    ValueId values = k->in.at[0];
    values = (value_type(k, values)->dtype == DT_STR) == (t == DT_STR)
                 ? call_cast(k, values, t)
                 : call_text_cast(k, values, t);
    if (!values)
        return false;
    /* a key below 0 is no index: an index beyond the end makes the run fail */
    if (!strcmp(how, "SPARSE"))
        return give_row(
            k,
            placed(k, value_of_text(k, "keys", &keys, "where(keys < 0, %" PRId64 ", keys)", most),
                   values, most));
    if (!call_names(k, ""))
        return false;
    call_name(k, "keys", keys);
    call_name(k, "values", values);
    return call_text(k, "sorted, order = top_k(keys, shape(keys)) {largest = 0}\n"
                        "row = gather(values, order)") &&
           give_row(k, call_value(k, "row"));
}

static int
by_label(const void *x, const void *y, void *labels)
{
    const AttrList *l = labels;
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;

    if (l->t == DT_STR)
        return strcmp(((const char *const *)l->data)[a], ((const char *const *)l->data)[b]);
    double u = ml_number(l, a), v = ml_number(l, b);
    return (u > v) - (u < v);
}

/* Columns sorted by their labels, as entries of a map are. */
static ValueId
sorted(Call *k, ValueId table, const AttrList *labels, Sym name, ValueId *keys)
{
    int64_t *order = NEW_ARRAY(k->arena, int64_t, labels->n);
    size_t bytes = dtype_info[labels->t].bytes;
    char *in_order = arena_alloc(k->arena, (size_t)labels->n * bytes);
    bool as_it_is = true;

    for (int64_t i = 0; i < labels->n; i++)
        order[i] = i;
    qsort_r(order, (size_t)labels->n, sizeof *order, by_label, (void *)labels);
    for (int64_t i = 0; i < labels->n; i++) {
        memcpy(in_order + (size_t)i * bytes, (const char *)labels->data + (size_t)order[i] * bytes,
               bytes);
        as_it_is &= order[i] == i;
    }
    *keys = ml_const(k, name, labels->t, labels->n, -1, in_order);
    return as_it_is ? table
                    : value_of_text(k, "table", &table, "gather(table, %s) {axis = 1}",
                                    ints_text(k, (uint32_t)labels->n, order));
}

/* The table, and the labels of its columns. */
static bool
convert_zip_map(Call *k)
{
    AttrList labels;

    if (!need_input(k, 0) || !ml_list(k, "classlabels", &labels))
        return false;
    ValueId table = ml_rows(k, k->in.at[0]);
    if (!table)
        return false;
    const Expr *columns = value_type(k, table)->dim[1], *wanted = expr_int(k->c, labels.n);
    if (!labels.n || !model_require(k->m, columns, wanted,
                                    arena_printf(k->c->arena, "%s: columns and labels", k->origin)))
        return call_wrong(k, "%s columns and %lld labels", expr_str(k->c, columns),
                          (long long)labels.n);
    Sym name = keys_of(k->c, output_name(k));
    ValueId keys;
    table = sorted(k, table, &labels, name, &keys);
    map_put(&k->m->value, MAP_PTR(name), keys);
    return finish(k, table ? call_op(k, OP_identity, 0, NULL, 1, &table, output_name(k)) : 0);
}

const OpRow map_rows[] = {
    { "ai.onnx.ml.ZipMap", OP_identity, convert_zip_map },
    { "ai.onnx.ml.DictVectorizer", OP_NONE, convert_dict_vectorizer },
    { "ai.onnx.ml.CastMap", OP_NONE, convert_cast_map },
    { 0 },
};
