/* ml: operators of ai.onnx.ml: labels, scalers, linear models, support vectors. tree.c has trees,
 * tf_idf.c words.
 *
 * A dictionary is a look-up of indices among sorted keys, and a gather; the rest is arithmetic on
 * matrices.
 */
#include "import/compose.h"
#include "import/ml.h"

#include "routine/routine.h"
#include "op/kinds.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

AttrList
ml_list(Call *k, const char *base)
{
    static const char *const end[] = {
        "strings", "int64s", "ints", "floats", "tensor", "as_tensor"
    };
    AttrList l = { 0 };

    for (int i = 0; i < 6 && !l.n; i++)
        l = call_attr_list(k, arena_printf(k->arena, "%s_%s", base, end[i]));
    return l;
}

double
ml_number(const AttrList *l, int64_t i)
{
    return number_get(l->t, l->data, i);
}

ValueId
ml_table(Call *k, const char *name, DType t, int64_t rows, int64_t columns, const void *data)
{
    const Expr *dim[2] = { expr_int(k->c, rows), expr_int(k->c, columns) };
    const size_t bytes = (size_t)(rows * columns) * dtype_info[t].bytes;

    return graph_const(k->m->g, name, type_new(k->c, t, 2, dim),
                       bytes ? arena_copy(k->arena, data, bytes) : arena_alloc(k->arena, 16));
}

bool
ml_rows(Call *k, const char *names)
{
    if (!call_names(k, names))
        return false;
    const uint32_t rank = input_type(k, 0)->rank;
    call_number(k, "one", rank == 1);
    return (rank == 1 || rank == 2 ||
            call_refuse(k, "%s of %s; rows of numbers are needed", k->proto->op_type,
                        type_str(k->c, input_type(k, 0)))) &&
           call_text(k, "x = $real(x)\n"
                        "$one? x = reshape(x, [1, -1])");
}

static const struct {
    const char *name, *text;
} transforms[] = {
    { "NONE", "" },
    { "LOGISTIC", "scores = sigmoid(scores)" },
    { "SOFTMAX", "scores = softmax(scores)" },
    /* exp(x - max) / sum, except that values near 0 scale with their input */
    { "SOFTMAX_ZERO", "most = reduce_max(scores, [1])\n"
                      "low = scores * exp(-most)\n"
                      "e = where(abs(scores) > 1e-7, exp(scores - most), low)\n"
                      "sum = reduce_sum(e, [1])\n"
                      "scores = where(sum == 0, 0.5, e / sum)" },
    /* sqrt(2) * inverse erf(2 x - 1), by Winitzki's formula, as in other implementations */
    { "PROBIT", "y = scores * 2 - 1\n"
                "log = log((1 - y) * (1 + y))\n"
                "v = $winitzki + log * 0.5\n"
                "scores = sign(y) * sqrt(sqrt(v * v - log * $inverse) - v) * 1.41421356" },
};

bool
ml_transform(Call *k, const char *name)
{
    call_real(k, "winitzki", 2 / (M_PI * 0.147));
    call_real(k, "inverse", 1 / 0.147);
    for (size_t i = 0; i < sizeof transforms / sizeof *transforms; i++)
        if (!strcmp(transforms[i].name, name))
            return call_run(k, transforms[i].text);
    return call_wrong(
        k, "%s: post_transform \"%s\"; NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO and PROBIT exist",
        k->proto->op_type, name);
}

bool
ml_give(Call *k, const AttrList *labels, const char *transform)
{
    call_name_list(k, "labels", *labels);
    return call_text(k, "labels? label = gather(labels, which)\n"
                        "!labels? label = which") &&
           ml_transform(k, transform);
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
    call_name_list(k, "keys", (AttrList){ keys->t, kept, sorted });
    call_name_list(k, "order", (AttrList){ DT_I64, kept + 1, order });
    return x ? value_of_text(k, "x keys order",
                             VALUES(x, call_value(k, "keys"), call_value(k, "order")),
                             "gather(order, lookup(x, keys))")
             : 0;
}

/* values[place], with the default appended. */
static bool
map_to(Call *k, ValueId place, const AttrList *values, const void *otherwise)
{
    uint32_t size = dtype_info[values->t].bytes;
    char *all = arena_alloc(k->arena, (size_t)(values->n + 1) * size + 1);

    memcpy(all, values->data, (size_t)values->n * size);
    memcpy(all + values->n * size, otherwise, size);
    call_name_list(k, "table", (AttrList){ values->t, values->n + 1, all });
    call_name(k, "place", place);
    return place && call_text(k, "y = gather(table, place)");
}

/* The default value of type t; NULL, reported: it has another type. */
static const void *
default_of(Call *k, DType t)
{
    const AttrList given = call_attr_list(k, "default_tensor");
    Number n = { .i = get_int(k, "default_int64", -1) };
    void *at = arena_alloc(k->arena, 16);

    if (given.n && given.t == t)
        return given.data;
    if (given.n)
        return (call_wrong(k, "the default is of %s, its values of %s", dtype_info[given.t].name,
                           dtype_info[t].name),
                NULL);
    if (t == DT_STR) {
        Sym s = sym(k->c, get_string(k, "default_string", "_Unused"));
        return arena_copy(k->arena, &s, sizeof s);
    }
    if (dtype_is_float(t))
        n.f = get_float(k, "default_float", -0.0);
    number_store(t, at, 0, n);
    return at;
}

/* Keys to values. */
static bool
map_keys(Call *k, const AttrList *keys, const AttrList *values)
{
    if (keys->n != values->n || !keys->n)
        return call_wrong(k, "%s has %lld keys and %lld values", k->proto->op_type,
                          (long long)keys->n, (long long)values->n);
    const void *otherwise = default_of(k, values->t);
    return otherwise && map_to(k, ml_place(k, k->in.at[0], keys), values, otherwise);
}

static bool
convert_label_encoder(Call *k)
{
    AttrList keys = ml_list(k, "keys"), values = ml_list(k, "values"),
             classes = ml_list(k, "classes");

    if (!call_names(k, "x -> y"))
        return false;
    if (classes.n) { /* version 1: strings to their indices, and back */
        int64_t *place = NEW_ARRAY(k->arena, int64_t, classes.n);
        for (int64_t i = 0; i < classes.n; i++)
            place[i] = i;
        keys = values = (AttrList){ DT_I64, classes.n, place };
        *(input_type(k, 0)->dtype == DT_STR ? &keys : &values) = classes;
    }
    return map_keys(k, &keys, &values);
}

static bool
convert_category_mapper(Call *k)
{
    AttrList numbers = call_attr_list(k, "cats_int64s"), words = call_attr_list(k, "cats_strings");

    if (!call_names(k, "x -> y"))
        return false;
    const bool back = input_type(k, 0)->dtype != DT_STR;
    return map_keys(k, back ? &numbers : &words, back ? &words : &numbers);
}

/* Rows of a unit matrix; a row of zeros is appended for values in no category, unless those are
 * errors. */
static bool
convert_one_hot_encoder(Call *k)
{
    AttrList cats = ml_list(k, "cats");
    bool zeros = get_int(k, "zeros", 1) != 0;

    if (!call_names(k, "x -> y"))
        return false;
    if (!cats.n || cats.n > 1 << 12)
        return call_refuse(k, "OneHotEncoder of %lld categories; 1 to 4096 are possible",
                           (long long)cats.n);
    float *unit = NEW_ARRAY(k->arena, float, (cats.n + 1) * cats.n);
    for (int64_t i = 0; i < cats.n; i++)
        unit[i * cats.n + i] = 1;
    ValueId x = cats.t == DT_STR ? k->in.at[0] : call_cast(k, k->in.at[0], cats.t);
    call_name(k, "at", ml_place(k, x, &cats));
    call_name(k, "table", ml_table(k, "rows", DT_F32, cats.n + zeros, cats.n, unit));
    return call_value(k, "at") && call_text(k, "y = gather(table, at)");
}

/* ---- columns of numbers ---------------------------------------------------------------------- */

static bool
convert_normalizer(Call *k)
{
    static const char *const by[] = { "reduce_max", "reduce_l1", "reduce_l2" };
    uint32_t which;

    if (!get_choice(k, "norm", "MAX L1 L2", &which))
        return false;
    call_fact(k, "by", by[which]);
    return true;
}

static bool
convert_imputer(Call *k)
{
    AttrList values = call_attr_list(k, "imputed_value_floats");
    const bool whole = !values.n;
    double gone = whole ? (double)get_int(k, "replaced_value_int64", 0)
                        : get_float(k, "replaced_value_float", 0);

    if (whole)
        values = call_attr_list(k, "imputed_value_int64s");
    if (!values.n)
        return call_wrong(k, "Imputer needs values");
    if (!call_names(k, "x -> y"))
        return false;
    call_name_list(k, "values", values);
    call_real(k, "gone", gone);
    if (whole)
        call_number(k, "gone", get_int(k, "replaced_value_int64", 0));
    return call_text(k, isnan(gone) ? "is = is_nan(x)" : "is = x == $gone") &&
           call_text(k, "y = where(is, like(values, x), x)");
}

static bool
convert_feature_vectorizer(Call *k)
{
    Text parts = { .arena = k->arena };

    if (!call_names(k, "x -> y"))
        return false;
    for (uint32_t i = 0; i < k->in.n; i++) {
        if (!need_input(k, i))
            return false;
        call_name(k, "rows", call_in(k, i));
        call_number(k, "i", i);
        call_number(k, "one", input_type(k, i)->rank == 1);
        call_text(k, "$one? rows = reshape(rows, [1, -1])\n"
                     "rows_$i = f32(rows)");
        text_printf(&parts, i ? ", rows_%u" : "rows_%u", i);
    }
    return call_text(k, "y = concat(%s) {axis = 1}", text_str(&parts));
}

static bool
convert_array_feature_extractor(Call *k)
{
    if (!call_names(k, "x at -> y"))
        return false;
    call_number(k, "one", input_type(k, 0)->rank == 1);
    call_number(k, "list", input_type(k, 1)->rank == 1);
    return call_text(k, "$one? x = reshape(x, [1, -1])\n"
                        "!$list? at = reshape(at, [-1])\n"
                        "y = gather(x, at) {axis = -1}");
}

/* ---- linear models --------------------------------------------------------------------------- */

/* scores = x w' + intercepts, w of $rows rows */
#define LINEAR                                                                                     \
    "w = transpose(reshape(coefficients, [$rows, -1]))\n"                                          \
    "scores = matmul(x, like(w, x))\n"                                                             \
    "intercepts? scores = scores + like(intercepts, x)\n"
#define BEST_COLUMN "which = arg_max(scores) {axis = 1, keepdims = 0}\n"
/* one column of scores as two, of the other class and of this one */
#define BOTH_COLUMNS "scores = concat(-scores, scores) {axis = 1}\n"

static bool
convert_linear_regressor(Call *k)
{
    call_number(k, "rows", get_int(k, "targets", 1));
    return ml_rows(k, "x @coefficients @intercepts -> scores") && call_text(k, LINEAR) &&
           ml_transform(k, get_string(k, "post_transform", "NONE"));
}

static bool
convert_linear_classifier(Call *k)
{
    AttrList w = call_attr_list(k, "coefficients"), labels = ml_list(k, "classlabels");
    int64_t columns, rows = call_attr_list(k, "intercepts").n;

    if (!ml_rows(k, "x @coefficients @intercepts -> label scores"))
        return false;
    if (!rows && expr_const(call_type(k, "x")->dim[1], &columns) && columns)
        rows = w.n / columns;
    rows = rows ? rows : labels.n;
    if (rows < 1 || (rows == 1 && labels.n < 2))
        return call_refuse(k, "LinearClassifier with %lld rows of coefficients and %lld labels",
                           (long long)rows, (long long)labels.n);
    call_number(k, "rows", rows);
    call_number(k, "single", rows == 1);
    return call_text(k, LINEAR "$single? " BOTH_COLUMNS BEST_COLUMN) &&
           ml_give(k, &labels, get_string(k, "post_transform", "NONE"));
}

/* ---- support vectors ------------------------------------------------------------------------- */

/* x becomes the kernel of x[n, c] with each of `count` vectors, [n, count]. */
static bool
apply_kernel(Call *k, int64_t count)
{
    enum { LINEAR_KERNEL, POLY, RBF, SIGMOID };
    AttrList params = call_attr_list(k, "kernel_params");
    static const char *const name[] = { "gamma", "coef", "degree" };
    uint32_t kind;

    if (!get_choice(k, "kernel_type", "LINEAR POLY RBF SIGMOID", &kind))
        return false;
    for (int64_t i = 0; i < 3; i++)
        call_real(k, name[i], params.n > i ? ml_number(&params, i) : 0);
    call_number(k, "count", count);
    call_number(k, "bent", kind != LINEAR_KERNEL);
    call_number(k, "poly", kind == POLY);
    call_number(k, "sigmoid", kind == SIGMOID);
    return call_run(k, kind == RBF
                           /* |x - v|^2, directly: a difference of squares would lose digits */
                           ? "v = reshape(support_vectors, [$count, -1])\n"
                             "away = unsqueeze(x, [1]) - like(v, x)\n"
                             "x = exp(reduce_sum_square(away, [2]) {keepdims = 0} * -$gamma)"
                           : "v = transpose(reshape(support_vectors, [$count, -1]))\n"
                             "x = matmul(x, like(v, x))\n"
                             "$bent? x = x * $gamma + $coef\n"
                             "$sigmoid? x = tanh(x)\n"
                             "$poly? x = pow(x, $degree)");
}

static bool
convert_svm_regressor(Call *k)
{
    AttrList rho = call_attr_list(k, "rho");
    const int64_t count = get_int(k, "n_supports", 0);

    if (!rho.n)
        return call_wrong(k, "SVMRegressor without rho");
    call_real(k, "by", ml_number(&rho, 0));
    call_number(k, "rows", 1);
    return ml_rows(k, "x @coefficients @support_vectors -> scores") &&
           (count < 1 || apply_kernel(k, count)) &&
           call_text(k, "intercepts = absent\n" LINEAR "scores = scores + $by\n"
                        "$one_class? scores = where(scores > 0, like(1, scores), -1)") &&
           ml_transform(k, get_string(k, "post_transform", "NONE"));
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
    AttrList w = call_attr_list(k, "coefficients"), rho = call_attr_list(k, "rho"),
             per_class = call_attr_list(k, "vectors_per_class"),
             prob_a = call_attr_list(k, "prob_a"), prob_b = call_attr_list(k, "prob_b"),
             labels = ml_list(k, "classlabels");
    const char *transform = get_string(k, "post_transform", "NONE");
    int64_t count = 0;
    ClassPairs p = { 0 };

    if (!ml_rows(k, "x @coefficients @support_vectors @rho @prob_a @prob_b -> label scores"))
        return false;
    if (!rho.n || !w.n)
        return call_wrong(k, "SVMClassifier without coefficients or rho");
    for (int64_t i = 0; i < per_class.n; i++) {
        int64_t some = ((const int64_t *)per_class.data)[i];
        if (some < 0 || some > w.n)
            return call_wrong(k, "vectors_per_class has %lld", (long long)some);
        count += some;
    }
    if (!count) { /* one linear function per class */
        call_number(k, "rows", labels.n ? labels.n : 1);
        call_real(k, "by", ml_number(&rho, 0));
        return call_text(k, "intercepts = absent\n" LINEAR "scores = scores + $by\n" BEST_COLUMN) &&
               ml_give(k, &labels, transform);
    }
    if (!pairs_of(k, &w, &per_class, count, &p))
        return false;
    if (rho.n != p.pairs || (prob_a.n && (prob_a.n != p.pairs || prob_b.n != p.pairs)))
        return call_wrong(k, "%lld of rho, %lld of prob_a for %lld pairs of classes",
                          (long long)rho.n, (long long)prob_a.n, (long long)p.pairs);
    call_name(k, "given", call_value(k, "x"));
    if (!apply_kernel(k, count))
        return false;
    call_name(k, "weights", ml_table(k, "weights", DT_F32, count, p.pairs, p.weight));
    call_name(k, "first", ml_table(k, "first", DT_F32, p.pairs, per_class.n, p.first));
    call_name(k, "second", ml_table(k, "second", DT_F32, p.pairs, per_class.n, p.second));
    call_number(k, "classes", per_class.n);
    call_number(k, "pair", p.pairs == 1);
    return call_text(k, "pairs = matmul(x, like(weights, given)) + like(rho, given)\n"
                        "won = f32(pairs > 0)\n"
                        "scores = matmul(won, first) + matmul(1 - won, second)\n" BEST_COLUMN
                        "scores = pairs\n"
                        /* 1 - logistic(s a + b) of each pair */
                        "prob_a? pairs = sigmoid(-(f32(pairs) * prob_a + prob_b))\n"
                        "prob_a? scores = pairwise(pairs) {classes = $classes}\n"
                        "!prob_a? $pair? " BOTH_COLUMNS) &&
           ml_give(k, &labels, transform);
}

const OpRow ml_rows_table[] = {
    { "ai.onnx.ml.LabelEncoder", OP_lookup, convert_label_encoder },
    { "ai.onnx.ml.CategoryMapper", OP_lookup, convert_category_mapper },
    { "ai.onnx.ml.OneHotEncoder", OP_NONE, convert_one_hot_encoder },
    { "ai.onnx.ml.Scaler", OP_NONE, .names = "x @offset @scale -> y",
      .text = "y = f32(x)\n"
              "offset? y = y - offset\n"
              "scale? y = y * scale" },
    { "ai.onnx.ml.Normalizer", OP_NONE, convert_normalizer, .names = "x -> y",
      .text = "x = f32(x)\n"
              "by = $by(x, [-1])\n"
              "y = x / where(by == 0, 1, by)" },
    { "ai.onnx.ml.Imputer", OP_NONE, convert_imputer },
    { "ai.onnx.ml.Binarizer", OP_NONE, .names = "x -> y",
      .text = "y = like(x > $threshold:0.0, x)" },
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
