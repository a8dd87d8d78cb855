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
#include "op/kinds.h"

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

/* row: values[i] at place[i] of `count`, zeros or empty texts elsewhere. */
static bool
place_values(Call *k, int64_t count)
{
    const DType t = call_type(k, "values")->dtype;
    char *data = arena_alloc(k->arena, (size_t)count * dtype_info[t].bytes + 1);
    Sym empty = sym(k->c, "");

    for (int64_t i = 0; t == DT_STR && i < count; i++)
        ((Sym *)data)[i] = empty;
    call_name_list(k, "none", (AttrList){ t, count, data });
    return call_text(k, "row = scatter_elements(none, place, values) {axis = 0}");
}

/* A key outside of the vocabulary goes after the row, and is cut off. */
static bool
convert_dict_vectorizer(Call *k)
{
    AttrList words = call_attr_list(k, "int64_vocabulary");
    ValueId keys = read_keys(k);

    words = words.n ? words : call_attr_list(k, "string_vocabulary");
    if (!keys || !call_names(k, "values -> y"))
        return false;
    if (!words.n)
        return call_wrong(k, "DictVectorizer without a vocabulary");
    call_name(k, "place", ml_place(k, keys, &words));
    call_number(k, "n", words.n);
    return call_value(k, "place") && place_values(k, words.n + 1) &&
           call_text(k, "y = reshape(slice(row, [0], [$n]), [1, -1])");
}

/* The values in the order of their keys; or each at the index that is its key. */
static bool
convert_cast_map(Call *k)
{
    static const DType types[] = { DT_F32, DT_STR, DT_I64 };
    int64_t most = get_int(k, "max_map", 1);
    ValueId keys = read_keys(k);
    uint32_t to, sparse;

    if (!keys || !get_choice(k, "cast_to", "TO_FLOAT TO_STRING TO_INT64", &to) ||
        !get_choice(k, "map_form", "DENSE SPARSE", &sparse) || !call_names(k, "values -> y"))
        return false;
    if (most < 1 || most > 1 << 24)
        return call_wrong(k, "attribute \"max_map\" is %lld; 1 to 2^24 are possible",
                          (long long)most);
    if (value_type(k, keys)->dtype != DT_I64)
        return call_refuse(k, "CastMap of a map whose keys are %s; they are to be i64",
                           dtype_info[value_type(k, keys)->dtype].name);
    ValueId values = k->in.at[0];
    call_name(k, "values",
              (value_type(k, values)->dtype == DT_STR) == (types[to] == DT_STR)
                  ? call_cast(k, values, types[to])
                  : call_text_cast(k, values, types[to]));
    call_name(k, "keys", keys);
    call_number(k, "most", most);
    if (!call_value(k, "values"))
        return false;
    /* a key below 0 is no index: an index beyond the end makes the run fail */
    return (sparse ? call_text(k, "place = where(keys < 0, $most, keys)") && place_values(k, most)
                   : call_text(k, "sorted, order = top_k(keys, shape(keys)) {largest = 0}\n"
                                  "row = gather(values, order)")) &&
           call_text(k, "y = reshape(row, [1, -1])");
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

/* The table with columns sorted by their labels, as entries of a map are; and these labels. */
static bool
convert_zip_map(Call *k)
{
    AttrList labels = ml_list(k, "classlabels");
    Sym name = keys_of(k->c, output_name(k, ""));
    bool sorted = true;

    call_size(k, "labels", expr_int(k->c, labels.n));
    if (!call_names(k, "x -> y"))
        return false;
    call_number(k, "one", input_type(k, 0)->rank == 1);
    if (!labels.n ||
        !call_names(k, input_type(k, 0)->rank == 1 ? "x[labels] -> y" : "x[_, labels] -> y"))
        return labels.n ? false : call_wrong(k, "ZipMap without labels");
    int64_t *order = NEW_ARRAY(k->arena, int64_t, labels.n);
    const size_t bytes = dtype_info[labels.t].bytes;
    char *in_order = arena_alloc(k->arena, (size_t)labels.n * bytes);
    for (int64_t i = 0; i < labels.n; i++)
        order[i] = i;
    qsort_r(order, (size_t)labels.n, sizeof *order, by_label, &labels);
    for (int64_t i = 0; i < labels.n; i++) {
        memcpy(in_order + (size_t)i * bytes, (const char *)labels.data + (size_t)order[i] * bytes,
               bytes);
        sorted &= order[i] == i;
    }
    call_name_list(k, name, (AttrList){ labels.t, labels.n, in_order });
    map_put(&k->m->value, MAP_PTR(name), call_value(k, name));
    call_fact(k, "order", sorted ? "" : ints_text(k, (uint32_t)labels.n, order));
    return call_text(k, "$one? x = reshape(x, [1, -1])\n"
                        "$order? x = gather(x, $order) {axis = 1}\n"
                        "y = identity(x)");
}

const OpRow map_rows[] = {
    { "ai.onnx.ml.ZipMap", OP_identity, convert_zip_map },
    { "ai.onnx.ml.DictVectorizer", OP_NONE, convert_dict_vectorizer },
    { "ai.onnx.ml.CastMap", OP_NONE, convert_cast_map },
    { 0 },
};
