/* ml: operators of ai.onnx.ml: labels, scalers, linear models, support vectors. tree.c has trees,
 * tf_idf.c words.
 *
 * A dictionary is a look-up of indices among sorted keys, and a gather; the rest is arithmetic on
 * matrices.
 */
#include "import/compose.h"
#include "import/ml.h"

#include "routine/routine.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- attributes ------------------------------------------------------------------------------ */

AttrList
ml_floats(Call *k, const char *name)
{
    const OnnxAttribute *a = node_attribute(k->proto, name);
    return a ? (AttrList){ DT_F32, (int64_t)a->n_floats, a->floats }
             : (AttrList){ DT_F32, 0, NULL };
}

AttrList
ml_ints(Call *k, const char *name)
{
    const OnnxAttribute *a = node_attribute(k->proto, name);
    return a ? (AttrList){ DT_I64, (int64_t)a->n_ints, a->ints } : (AttrList){ DT_I64, 0, NULL };
}

bool
ml_list(Call *k, const char *base, AttrList *out)
{
    static const char *const end[] = {
        "strings", "int64s", "ints", "floats", "tensor", "as_tensor"
    };
    const Type *type;

    *out = (AttrList){ 0 };
    for (int i = 0; i < 6; i++) {
        const OnnxAttribute *a =
            node_attribute(k->proto, arena_printf(k->arena, "%s_%s", base, end[i]));
        if (!a)
            continue;
        if (i == 0) {
            ValueId v = call_strings(k, base, a);
            if (!v)
                return false;
            *out = (AttrList){ DT_STR, (int64_t)a->n_strings, k->m->g->value.at[v].data };
        } else if (i < 3) {
            *out = (AttrList){ DT_I64, (int64_t)a->n_ints, a->ints };
        } else if (i == 3) {
            *out = (AttrList){ DT_F32, (int64_t)a->n_floats, a->floats };
        } else if (a->t) {
            if (!tensor_read(k->m, a->t, base, k->loc, &type, &out->data) ||
                !expr_const(type_count(k->c, type), &out->n))
                return false;
            out->t = type->dtype;
        }
        if (out->n)
            return true;
    }
    return true;
}

double
ml_number(const AttrList *l, int64_t i)
{
    return number_get(l->t, l->data, i);
}

/* ---- values ---------------------------------------------------------------------------------- */

ValueId
ml_const(Call *k, const char *name, DType t, int64_t rows, int64_t columns, const void *data)
{
    const Expr *dim[2] = { expr_int(k->c, rows), expr_int(k->c, columns < 0 ? 1 : columns) };
    size_t bytes = (size_t)(rows * (columns < 0 ? 1 : columns)) * dtype_info[t].bytes;
    char *copy = arena_alloc(k->arena, bytes + 16);

    if (bytes)
        memcpy(copy, data, bytes);
    return graph_const(k->m->g, name, type_new(k->c, t, columns < 0 ? 1 : 2, dim), copy);
}

ValueId
ml_real(Call *k, ValueId v)
{
    return v && value_type(k, v)->dtype != DT_F64 ? call_cast(k, v, DT_F32) : v;
}

ValueId
ml_rows(Call *k, ValueId x)
{
    if (!x || value_type(k, x)->rank == 2)
        return x;
    if (value_type(k, x)->rank == 1)
        return value_of_text(k, "x", &x, "reshape(x, [1, -1])");
    call_refuse(k, "%s of %s; rows of numbers are needed", k->proto->op_type,
                type_str(k->c, value_type(k, x)));
    return 0;
}

ValueId
ml_both(Call *k, ValueId x, bool negative)
{
    return value_of_text(k, "x", &x, "concat(%s, x) {axis = 1}", negative ? "-x" : "1 - x");
}

/* exp(x - max) / sum, except that values near 0 scale with their input. */
static ValueId
softmax_zero(Call *k, ValueId x)
{
    return value_of_text(k, "x", &x,
                         "most = reduce_max(x, [1])\n"
                         "e = where(abs(x) > 1e-7, exp(x - most), x * exp(-most))\n"
                         "sum = reduce_sum(e, [1])\n"
                         "where(sum == 0, 0.5, e / sum)");
}

/* sqrt(2) * inverse erf(2 x - 1), by Winitzki's formula, as in other implementations. */
static ValueId
probit(Call *k, ValueId x)
{
    return value_of_text(k, "x", &x,
                         "y = x * 2 - 1\n"
                         "log = log((1 - y) * (1 + y))\n"
                         "v = %a + log * 0.5\n"
                         "sign(y) * sqrt(sqrt(v * v - log * %a) - v) * 1.41421356",
                         2 / (M_PI * 0.147), 1 / 0.147);
}

ValueId
ml_transform(Call *k, ValueId scores, const char *name)
{
    if (!scores || !strcmp(name, "NONE"))
        return scores;
    if (!strcmp(name, "LOGISTIC"))
        return value_of_text(k, "x", &scores, "sigmoid(x)");
    if (!strcmp(name, "SOFTMAX"))
        return value_of_text(k, "x", &scores, "softmax(x)");
    if (!strcmp(name, "SOFTMAX_ZERO"))
        return softmax_zero(k, scores);
    if (!strcmp(name, "PROBIT"))
        return probit(k, scores);
    call_wrong(k,
               "%s: post_transform \"%s\"; NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO and PROBIT exist",
               k->proto->op_type, name);
    return 0;
}

bool
ml_result(Call *k, uint32_t i, ValueId v)
{
    const char *name =
        i < k->proto->n_output && *k->proto->output[i] ? k->proto->output[i] : "unused";
    v = v ? call_op(k, OP_identity, 0, NULL, 1, &v, name) : 0;
    call_bind(k, i, v);
    k->done = true;
    return v != 0;
}

bool
ml_labels(Call *k, const AttrList *labels, ValueId which)
{
    ValueId v = which;

    if (v && labels->n)
        v = value_of_text(
            k, "labels which",
            VALUES(ml_const(k, "labels", labels->t, labels->n, -1, labels->data), which),
            "gather(labels, which)");
    return ml_result(k, 0, v);
}

/* ---- dictionaries ---------------------------------------------------------------------------- */

static int
by_key(const void *x, const void *y, void *user)
{
    const TnArray *keys = user;
    int64_t i = *(const int64_t *)x, j = *(const int64_t *)y;
    int c = tn_compare(keys, i, keys, j);
    return c ? c : (i > j) - (i < j);
}

ValueId
ml_place(Call *k, ValueId x, const AttrList *keys)
{
    int64_t *order = NEW_ARRAY(k->arena, int64_t, keys->n + 2), kept = 0;
    uint32_t size = dtype_info[keys->t].bytes;
    char *sorted = arena_alloc(k->arena, (size_t)keys->n * size + 1);
    TnArray array = { (void *)keys->data, routine_type(keys->t), 1, &keys->n };

    if (x && value_type(k, x)->dtype != keys->t) {
        call_refuse(k, "%s of %s, whose keys are %s", k->proto->op_type,
                    type_str(k->c, value_type(k, x)), dtype_info[keys->t].name);
        return 0;
    }
    if (!array.type) {
        call_refuse(k, "%s with keys of type %s", k->proto->op_type, dtype_info[keys->t].name);
        return 0;
    }
    for (int64_t i = 0; i < keys->n; i++)
        order[i] = i;
    qsort_r(order, (size_t)keys->n, sizeof *order, by_key, &array);
    for (int64_t i = 0; i < keys->n; i++)
        if (!kept || tn_compare(&array, order[kept - 1], &array, order[i]))
            order[kept++] = order[i];
    for (int64_t i = 0; i < kept; i++)
        memcpy(sorted + i * size, (const char *)keys->data + order[i] * size, size);
    order[kept] = keys->n;
    return x ? value_of_text(k, "x keys order",
                             VALUES(x, ml_const(k, "keys", keys->t, kept, -1, sorted),
                                    ml_const(k, "order", DT_I64, kept + 1, -1, order)),
                             "gather(order, lookup(x, keys))")
             : 0;
}

/* values[place], with the default appended. */
static bool
map_to(Call *k, ValueId place, const AttrList *values, const void *otherwise)
{
    uint32_t size = dtype_info[values->t].bytes;
    char *all = arena_alloc(k->arena, (size_t)(values->n + 1) * size + 1);

    if (values->n)
        memcpy(all, values->data, (size_t)values->n * size);
    memcpy(all + values->n * size, otherwise, size);
    ValueId table = ml_const(k, "values", values->t, values->n + 1, -1, all);
    return place &&
           finish(k, value_of_text(k, "table place", VALUES(table, place), "gather(table, place)"));
}

static bool
default_of(Call *k, DType t, const void **out, const char *unknown)
{
    const OnnxAttribute *a = node_attribute(k->proto, "default_tensor");
    const Type *type;
    Number n = { 0 };

    if (a && a->t)
        return tensor_read(k->m, a->t, "default_tensor", k->loc, &type, out) && type->dtype == t;
    if (t == DT_STR) {
        Sym s = sym(k->c, get_string(k, "default_string", unknown));
        *out = arena_copy(k->arena, &s, sizeof s);
        return true;
    }
    if (dtype_is_float(t))
        n.f = attr_float((Attrs){ k->attr.at, k->attr.n }, "default_float", -0.0);
    else
        n.i = get_int(k, "default_int64", -1);
    void *at = arena_alloc(k->arena, 16);
    number_store(t, at, 0, n);
    *out = at;
    return true;
}

static bool
convert_label_encoder(Call *k)
{
    AttrList keys, values, classes;
    const void *otherwise;

    if (!need_input(k, 0) || !ml_list(k, "keys", &keys) || !ml_list(k, "values", &values) ||
        !ml_list(k, "classes", &classes))
        return false;
    if (classes.n) { /* version 1: strings to their indices, and back */
        int64_t *place = NEW_ARRAY(k->arena, int64_t, classes.n);
        for (int64_t i = 0; i < classes.n; i++)
            place[i] = i;
        keys = values = (AttrList){ DT_I64, classes.n, place };
        *(input_type(k, 0)->dtype == DT_STR ? &keys : &values) = classes;
    }
    if (keys.n != values.n)
        return call_wrong(k, "LabelEncoder has %lld keys and %lld values", (long long)keys.n,
                          (long long)values.n);
    if (!keys.n)
        return call_refuse(k, "LabelEncoder without keys");
    if (!default_of(k, values.t, &otherwise, "_Unused"))
        return call_wrong(k, "the default of LabelEncoder is not of its values' type, %s",
                          dtype_info[values.t].name);
    return map_to(k, ml_place(k, k->in.at[0], &keys), &values, otherwise);
}

static bool
convert_category_mapper(Call *k)
{
    AttrList words, numbers = ml_ints(k, "cats_int64s");
    const OnnxAttribute *a = node_attribute(k->proto, "cats_strings");
    const void *otherwise;

    if (!need_input(k, 0) || !a)
        return call_wrong(k, "CategoryMapper needs an input and cats_strings");
    ValueId v = call_strings(k, "cats", a);
    if (!v)
        return false;
    words = (AttrList){ DT_STR, (int64_t)a->n_strings, k->m->g->value.at[v].data };
    if (words.n != numbers.n)
        return call_wrong(k, "CategoryMapper has %lld strings and %lld numbers", (long long)words.n,
                          (long long)numbers.n);
    bool back = input_type(k, 0)->dtype != DT_STR;
    const AttrList *keys = back ? &numbers : &words, *values = back ? &words : &numbers;
    return default_of(k, values->t, &otherwise, "_Unused") &&
           map_to(k, ml_place(k, k->in.at[0], keys), values, otherwise);
}

/* Rows of a unit matrix; a row of zeros is appended for values in no category, unless those are
 * errors. */
static bool
convert_one_hot_encoder(Call *k)
{
    AttrList cats;
    bool zeros = get_int(k, "zeros", 1) != 0;

    if (!need_input(k, 0) || !ml_list(k, "cats", &cats) || !cats.n)
        return call_wrong(k, "OneHotEncoder needs an input and categories");
    if (cats.n > 1 << 12)
        return call_refuse(k, "OneHotEncoder of %lld categories; 4096 are possible",
                           (long long)cats.n);
    float *unit = NEW_ARRAY(k->arena, float, (cats.n + 1) * cats.n);
    for (int64_t i = 0; i < cats.n; i++)
        unit[i * cats.n + i] = 1;
    ValueId x = cats.t == DT_STR ? k->in.at[0] : call_cast(k, k->in.at[0], cats.t),
            at = ml_place(k, x, &cats);
    ValueId table = ml_const(k, "rows", DT_F32, cats.n + zeros, cats.n, unit);
    return at && finish(k, value_of_text(k, "table at", VALUES(table, at), "gather(table, at)"));
}

/* ---- columns of numbers ---------------------------------------------------------------------- */

static bool
convert_scaler(Call *k)
{
    AttrList offset = ml_floats(k, "offset"), scale = ml_floats(k, "scale");

    if (!call_names(k, "x -> y"))
        return false;
    call_name(k, "offset", offset.n ? ml_const(k, "offset", DT_F32, offset.n, -1, offset.data) : 0);
    call_name(k, "scale", scale.n ? ml_const(k, "scale", DT_F32, scale.n, -1, scale.data) : 0);
    return call_text(k, "y = f32(x)\n"
                        "offset? y = y - offset\n"
                        "scale? y = y * scale\n"
                        "y = identity(y)");
}

static bool
convert_normalizer(Call *k)
{
    const char *norm = get_string(k, "norm", "MAX");

    return call_says(k, "x -> y",
                     "x = f32(x)\n"
                     "by = %s(x, [-1])\n"
                     "y = x / where(by == 0, 1, by)",
                     !strcmp(norm, "L1")   ? "reduce_l1"
                     : !strcmp(norm, "L2") ? "reduce_l2"
                                           : "reduce_max");
}

static bool
convert_imputer(Call *k)
{
    AttrList values = ml_floats(k, "imputed_value_floats");
    double gone = get_float(k, "replaced_value_float", 0);

    if (!values.n) {
        values = ml_ints(k, "imputed_value_int64s");
        gone = (double)get_int(k, "replaced_value_int64", 0);
    }
    if (!need_input(k, 0) || !values.n)
        return call_wrong(k, "Imputer needs an input and values");
    if (!call_names(k, "x -> y"))
        return false;
    call_name(k, "values", ml_const(k, "values", values.t, values.n, -1, values.data));
    return (isnan(gone) ? call_text(k, "is = is_nan(x)") : call_text(k, "is = x == %a", gone)) &&
           call_text(k, "y = where(is, like(values, x), x)");
}

static bool
convert_binarizer(Call *k)
{
    return call_says(k, "x -> y", "y = identity(like(x > %a, x))", get_float(k, "threshold", 0));
}

static bool
convert_feature_vectorizer(Call *k)
{
    Text parts = { .arena = k->arena };

    if (!call_names(k, "x -> y"))
        return false;
    for (uint32_t i = 0; i < k->in.n; i++) {
        const char *name = arena_printf(k->arena, "rows_%u", i);
        call_name(k, name, need_input(k, i) ? ml_rows(k, k->in.at[i]) : 0);
        if (!call_value(k, name))
            return false;
        text_printf(&parts, i ? ", f32(%s)" : "f32(%s)", name);
    }
    return call_text(k, "y = concat(%s) {axis = 1}", text_str(&parts));
}

static bool
convert_array_feature_extractor(Call *k)
{
    if (!need_input(k, 0) || !need_input(k, 1))
        return false;
    if (!call_names(k, "x at -> y"))
        return false;
    if (input_type(k, 0)->rank == 1)
        call_name(k, "x", ml_rows(k, k->in.at[0]));
    return call_text(k, "y = gather(x, %s) {axis = -1}",
                     input_type(k, 1)->rank == 1 ? "at" : "reshape(at, [-1])");
}

/* ---- linear models --------------------------------------------------------------------------- */

/* x w' + b, w of `rows` rows. */
static ValueId
linear(Call *k, ValueId x, const AttrList *w, const AttrList *b, int64_t rows)
{
    if (!x || rows < 1 || w->n % rows) {
        call_wrong(k, "%lld coefficients for %lld rows", (long long)w->n, (long long)rows);
        return 0;
    }
    int64_t columns = w->n / rows;
    float *transposed = NEW_ARRAY(k->arena, float, w->n + 1);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            transposed[j * rows + i] = ((const float *)w->data)[i * columns + j];
    return value_of_text(k, "x w b",
                         VALUES(x, ml_const(k, "coefficients", DT_F32, columns, rows, transposed),
                                b->n ? ml_const(k, "intercepts", DT_F32, b->n, -1, b->data) : 0),
                         "y = matmul(x, like(w, x))\n"
                         "b? y = y + like(b, x)");
}

static bool
convert_linear_regressor(Call *k)
{
    AttrList w = ml_floats(k, "coefficients"), b = ml_floats(k, "intercepts");
    ValueId x = need_input(k, 0) ? ml_rows(k, ml_real(k, k->in.at[0])) : 0;
    ValueId y = linear(k, x, &w, &b, get_int(k, "targets", 1));

    return ml_result(k, 0, ml_transform(k, y, get_string(k, "post_transform", "NONE")));
}

static ValueId
best_column(Call *k, ValueId scores)
{
    return value_of_text(k, "x", &scores, "arg_max(x) {axis = 1, keepdims = 0}");
}

static bool
convert_linear_classifier(Call *k)
{
    AttrList w = ml_floats(k, "coefficients"), b = ml_floats(k, "intercepts"), labels;
    int64_t columns, rows = b.n;

    if (!need_input(k, 0) || !ml_list(k, "classlabels", &labels))
        return false;
    ValueId x = ml_rows(k, ml_real(k, k->in.at[0]));
    if (!rows && x && expr_const(value_type(k, x)->dim[1], &columns) && columns)
        rows = w.n / columns;
    ValueId s = linear(k, x, &w, &b, rows ? rows : labels.n);
    if (!s)
        return false;
    if (rows == 1 && labels.n < 2)
        return call_refuse(k, "LinearClassifier with one row of coefficients and %lld labels",
                           (long long)labels.n);
    if (rows == 1)
        s = ml_both(k, s, true);
    return ml_labels(k, &labels, best_column(k, s)) &&
           ml_result(k, 1, ml_transform(k, s, get_string(k, "post_transform", "NONE")));
}

/* ---- support vectors ------------------------------------------------------------------------- */

/* The kernel of x[n, c] with each vector: [n, v]. */
static ValueId
kernel_of(Call *k, ValueId x, const AttrList *vectors, int64_t count, const char *kind)
{
    AttrList params = ml_floats(k, "kernel_params");
    double gamma = params.n > 0 ? ml_number(&params, 0) : 0,
           coef = params.n > 1 ? ml_number(&params, 1) : 0,
           degree = params.n > 2 ? ml_number(&params, 2) : 0;
    AttrList none = { 0 };

    /* |x - v|^2, directly: a difference of squares would lose digits */
    if (!strcmp(kind, "RBF")) {
        int64_t columns = count ? vectors->n / count : 0;
        return value_of_text(
            k, "x v", VALUES(x, ml_const(k, "vectors", DT_F32, count, columns, vectors->data)),
            "square = reduce_sum_square(unsqueeze(x, [1]) - like(v, x), [2]) {keepdims = 0}\n"
            "exp(square * %a)",
            -gamma);
    }
    ValueId dot = linear(k, x, vectors, &none, count);
    if (!dot || !strcmp(kind, "LINEAR"))
        return dot;
    dot = value_of_text(k, "dot", &dot, "dot * %a + %a", gamma, coef);
    if (!strcmp(kind, "SIGMOID"))
        return value_of_text(k, "dot", &dot, "tanh(dot)");
    if (!strcmp(kind, "POLY"))
        return value_of_text(k, "dot", &dot, "pow(dot, %a)", degree);
    call_wrong(k, "kernel_type \"%s\"; LINEAR, POLY, RBF and SIGMOID exist", kind);
    return 0;
}

static bool
convert_svm_regressor(Call *k)
{
    AttrList w = ml_floats(k, "coefficients"), rho = ml_floats(k, "rho"),
             vectors = ml_floats(k, "support_vectors"), none = { 0 };
    int64_t count = get_int(k, "n_supports", 0);
    const char *kind = count > 0 ? get_string(k, "kernel_type", "LINEAR") : "LINEAR";
    ValueId x = need_input(k, 0) ? ml_rows(k, ml_real(k, k->in.at[0])) : 0;

    if (!x || !rho.n || (count > 0 && vectors.n % count))
        return x && call_wrong(k, "%lld vectors of %lld numbers, %lld of rho", (long long)count,
                               (long long)vectors.n, (long long)rho.n);
    if (count > 0)
        x = kernel_of(k, x, &vectors, count, kind);
    ValueId y = linear(k, x, &w, &none, 1);
    y = value_of_text(k, "y", &y, "y = y + %a\n%s", ml_number(&rho, 0),
                      get_int(k, "one_class", 0) ? "where(y > 0, like(1, y), -1)" : "");
    return ml_result(k, 0, ml_transform(k, y, get_string(k, "post_transform", "NONE")));
}

/* Each pair of classes has a score, and votes for one of them. Columns of these matrices are
 * pairs. */
typedef struct {
    float *weight, *first, *second;
    int64_t pairs;
} ClassPairs;
static bool
pairs_of(Call *k, const AttrList *w, const AttrList *per_class, int64_t count, ClassPairs *p)
{
    int64_t n = per_class->n, from_i = 0;

    p->pairs = n * (n - 1) / 2;
    if (n < 2 || w->n != (n - 1) * count)
        return call_wrong(k, "%lld coefficients for %lld vectors of %lld classes", (long long)w->n,
                          (long long)count, (long long)n);
    p->weight = NEW_ARRAY(k->arena, float, count * p->pairs + 1);
    p->first = NEW_ARRAY(k->arena, float, p->pairs *n);
    p->second = NEW_ARRAY(k->arena, float, p->pairs *n);
    for (int64_t i = 0, e = 0; i < n; from_i += ((const int64_t *)per_class->data)[i++]) {
        int64_t some = ((const int64_t *)per_class->data)[i], from_j = from_i + some;
        for (int64_t j = i + 1; j < n; from_j += ((const int64_t *)per_class->data)[j++], e++) {
            int64_t more = ((const int64_t *)per_class->data)[j];
            for (int64_t v = from_i; v < from_i + some; v++)
                p->weight[v * p->pairs + e] = ((const float *)w->data)[(j - 1) * count + v];
            for (int64_t v = from_j; v < from_j + more; v++)
                p->weight[v * p->pairs + e] = ((const float *)w->data)[i * count + v];
            p->first[e * n + i] = 1;
            p->second[e * n + j] = 1;
        }
    }
    return true;
}

static bool
convert_svm_classifier(Call *k)
{
    AttrList w = ml_floats(k, "coefficients"), rho = ml_floats(k, "rho"),
             vectors = ml_floats(k, "support_vectors"), per_class = ml_ints(k, "vectors_per_class");
    AttrList prob_a = ml_floats(k, "prob_a"), prob_b = ml_floats(k, "prob_b"), labels;
    const char *transform = get_string(k, "post_transform", "NONE");
    ValueId x = need_input(k, 0) ? ml_rows(k, ml_real(k, k->in.at[0])) : 0;
    int64_t count = 0;
    ClassPairs p = { 0 };

    if (!x || !ml_list(k, "classlabels", &labels))
        return false;
    if (!rho.n || !w.n)
        return call_wrong(k, "SVMClassifier without coefficients or rho");
    for (int64_t i = 0; i < per_class.n; i++) {
        int64_t some = ((const int64_t *)per_class.data)[i];
        if (some < 0 || some > vectors.n)
            return call_wrong(k, "vectors_per_class has %lld", (long long)some);
        count += some;
    }
    if (!count) { /* one linear function per class */
        AttrList none = { 0 };
        ValueId s = linear(k, x, &w, &none, labels.n ? labels.n : 1);
        s = value_of_text(k, "s", &s, "s + %a", ml_number(&rho, 0));
        return s && ml_labels(k, &labels, best_column(k, s)) &&
               ml_result(k, 1, ml_transform(k, s, transform));
    }
    if (vectors.n % count || !pairs_of(k, &w, &per_class, count, &p))
        return vectors.n % count ? call_wrong(k, "%lld numbers of %lld vectors",
                                              (long long)vectors.n, (long long)count)
                                 : false;
    if (rho.n != p.pairs || (prob_a.n && (prob_a.n != p.pairs || prob_b.n != p.pairs)))
        return call_wrong(k, "%lld of rho, %lld of prob_a for %lld pairs of classes",
                          (long long)rho.n, (long long)prob_a.n, (long long)p.pairs);
    ValueId kernel = kernel_of(k, x, &vectors, count, get_string(k, "kernel_type", "LINEAR"));
    ValueId s =
        value_of_text(k, "kernel weights rho x",
                      VALUES(kernel, ml_const(k, "weights", DT_F32, count, p.pairs, p.weight),
                             ml_const(k, "rho", DT_F32, rho.n, -1, rho.data), x),
                      "matmul(kernel, like(weights, x)) + like(rho, x)");
    ValueId votes =
        value_of_text(k, "s first second",
                      VALUES(s, ml_const(k, "first", DT_F32, p.pairs, per_class.n, p.first),
                             ml_const(k, "second", DT_F32, p.pairs, per_class.n, p.second)),
                      "won = f32(s > 0)\n"
                      "matmul(won, first) + matmul(1 - won, second)");
    ValueId which = best_column(k, votes);
    if (prob_a.n) /* 1 - logistic(s a + b) of each pair */
        s = value_of_text(k, "s a b",
                          VALUES(s, ml_const(k, "prob_a", DT_F32, p.pairs, -1, prob_a.data),
                                 ml_const(k, "prob_b", DT_F32, p.pairs, -1, prob_b.data)),
                          "pairwise(sigmoid(-(f32(s) * a + b))) {classes = %" PRId64 "}",
                          per_class.n);
    else if (p.pairs == 1)
        s = ml_both(k, s, true);
    return ml_labels(k, &labels, which) && ml_result(k, 1, ml_transform(k, s, transform));
}

const OpRow ml_rows_table[] = {
    { "ai.onnx.ml.LabelEncoder", OP_lookup, convert_label_encoder },
    { "ai.onnx.ml.CategoryMapper", OP_lookup, convert_category_mapper },
    { "ai.onnx.ml.OneHotEncoder", OP_NONE, convert_one_hot_encoder },
    { "ai.onnx.ml.Scaler", OP_NONE, convert_scaler },
    { "ai.onnx.ml.Normalizer", OP_NONE, convert_normalizer },
    { "ai.onnx.ml.Imputer", OP_NONE, convert_imputer },
    { "ai.onnx.ml.Binarizer", OP_NONE, convert_binarizer },
    { "ai.onnx.ml.FeatureVectorizer", OP_NONE, convert_feature_vectorizer },
    { "ai.onnx.ml.ArrayFeatureExtractor", OP_gather, convert_array_feature_extractor, "i1" },
    { "ai.onnx.ml.LinearRegressor", OP_NONE, convert_linear_regressor },
    { "ai.onnx.ml.LinearClassifier", OP_NONE, convert_linear_classifier },
    { "ai.onnx.ml.SVMRegressor", OP_NONE, convert_svm_regressor },
    { "ai.onnx.ml.SVMClassifier", OP_NONE, convert_svm_classifier },
    { "ai.onnx.ml.TreeEnsemble", OP_tree_ensemble, convert_tree_ensemble },
    { "ai.onnx.ml.TreeEnsembleRegressor", OP_tree_ensemble, convert_tree_regressor },
    { "ai.onnx.ml.TreeEnsembleClassifier", OP_tree_ensemble, convert_tree_classifier },
    { "TfIdfVectorizer", OP_tf_idf, convert_tf_idf },
    { 0 },
};
