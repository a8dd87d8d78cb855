/* tree: ensembles of decision trees as tables for a library routine.
 *
 * Every comparison becomes x <= threshold: x < t is x <= the value just below t; x > t exchanges
 * its children; x == t is two nodes, membership in a set a chain of these.
 */
#include "import/compose.h"
#include "import/ml.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef enum { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF } Mode;

typedef struct {
    Call *k;
    bool wide; /* of f64 */
    /* four numbers each: feature, first child, second child, does NaN take the first? */
    VEC(int32_t) node;
    VEC(double) threshold;
    VEC(int32_t) root;  /* two numbers each: node, depth */
    VEC(int32_t) first; /* the begin of each node's leaves in `weight`; and the end */
    VEC(int32_t) target;
    VEC(double) weight;
    int64_t features; /* the largest one, plus 1 */
} Forest;

static bool
broken(Call *k, const char *what, int64_t i)
{
    return call_wrong(k, "%s: node %lld: %s", k->proto->op_type, (long long)i, what);
}

static double
below(const Forest *f, double t)
{
    return f->wide ? nextafter(t, -INFINITY) : (double)nextafterf((float)t, -INFINITY);
}

static int32_t
add_node(Forest *f)
{
    Arena *a = f->k->arena;
    int32_t at = (int32_t)f->threshold.n;

    VEC_PUSH(a, &f->node, 0);
    VEC_PUSH(a, &f->node, at);
    VEC_PUSH(a, &f->node, at);
    VEC_PUSH(a, &f->node, 0);
    VEC_PUSH(a, &f->threshold, 0);
    return at;
}

static void
set_node(Forest *f, int32_t at, int64_t feature, double t, int32_t first, int32_t second,
         bool nan_first)
{
    const int32_t v[4] = { (int32_t)feature, first, second, nan_first };

    memcpy(&f->node.at[4 * at], v, sizeof v);
    f->threshold.at[at] = t;
}

/* Node `at` sends x to `yes` if the comparison holds, otherwise to `no`; NaN goes to `yes` on
 * request. */
static void
set_compare(Forest *f, int32_t at, int64_t feature, Mode mode, double t, int32_t yes, int32_t no,
            bool nan)
{
    int32_t inner;

    switch (mode) {
    case LEQ: set_node(f, at, feature, t, yes, no, nan); break;
    case LT: set_node(f, at, feature, below(f, t), yes, no, nan); break;
    case GT: set_node(f, at, feature, t, no, yes, !nan); break;
    case GTE: set_node(f, at, feature, below(f, t), no, yes, !nan); break;
    case NEQ: set_compare(f, at, feature, EQ, t, no, yes, false); break;
    case EQ:
        inner = add_node(f);
        set_node(f, inner, feature, below(f, t), no, yes, false);
        set_node(f, at, feature, t, inner, no, nan);
        break;
    case MEMBER:
    case LEAF: break;
    }
}

/* Steps from each root to its deepest leaf; reports cycles. */
static bool
find_depths(Forest *f)
{
    Arena *a = f->k->arena;
    uint32_t n = f->threshold.n;
    /* 1: its children are being visited; 2: its depth is known */
    uint8_t *state = NEW_ARRAY(a, uint8_t, n + 1);
    int32_t *stack = NEW_ARRAY(a, int32_t, 2 * (size_t)n + 2),
            *depth = NEW_ARRAY(a, int32_t, n + 1);

    for (uint32_t t = 0; t < f->root.n / 2; t++) {
        size_t top = 0;
        stack[top++] = f->root.at[2 * t];
        while (top) {
            int32_t at = stack[top - 1];
            const int32_t *node = &f->node.at[4 * at];
            bool leaf = node[1] == at;
            if (state[at] == 0 && !leaf) {
                state[at] = 1;
                for (int i = 1; i <= 2; i++) {
                    if (state[node[i]] == 1)
                        return broken(f->k, "it leads to a node that leads to it", at);
                    if (state[node[i]] == 0 && (i == 1 || node[2] != node[1]))
                        stack[top++] = node[i];
                }
                continue;
            }
            if (!leaf && state[at] == 1)
                depth[at] = 1 + (depth[node[1]] > depth[node[2]] ? depth[node[1]] : depth[node[2]]);
            state[at] = 2;
            top--;
        }
        f->root.at[2 * t + 1] = depth[f->root.at[2 * t]];
    }
    return true;
}

static ValueId
ints_const(Call *k, const char *name, const int32_t *v, int64_t rows, int64_t columns)
{
    return ml_const(k, name, DT_I32, rows, columns, v ? v : (const int32_t[]){ 0 });
}

static ValueId
reals_const(const Forest *f, const char *name, const double *v, int64_t n)
{
    float *narrow = NEW_ARRAY(f->k->arena, float, n + 1);

    for (int64_t i = 0; i < n; i++)
        narrow[i] = (float)v[i];
    return f->wide ? ml_const(f->k, name, DT_F64, n, -1, v)
                   : ml_const(f->k, name, DT_F32, n, -1, narrow);
}

/* The sums over all trees: [n, targets]. */
static ValueId
ensemble(Forest *f, ValueId x, int64_t targets, int64_t how)
{
    Call *k = f->k;
    uint32_t n = f->threshold.n;

    if (!x || !n || targets < 1 || targets > INT32_MAX)
        return x && n ? (ValueId)call_wrong(k, "%s with %lld results", k->proto->op_type,
                                            (long long)targets)
                      : (ValueId)(x && call_refuse(k, "%s without trees", k->proto->op_type));
    if (!find_depths(f))
        return 0;
    for (uint32_t i = 0; i < f->target.n; i++)
        if (f->target.at[i] < 0 || f->target.at[i] >= targets)
            return (ValueId)broken(k, "its weight is of a class or target that is not there", i);
    const ValueId in[7] = { x,
                            ints_const(k, "nodes", f->node.at, n, 4),
                            reals_const(f, "thresholds", f->threshold.at, n),
                            ints_const(k, "roots", f->root.at, f->root.n / 2, 2),
                            ints_const(k, "first", f->first.at, f->first.n, -1),
                            ints_const(k, "targets", f->target.at, f->target.n, -1),
                            reals_const(f, "weights", f->weight.at, f->weight.n) };
    return value_of_text(
        k, "x nodes thresholds roots first targets weights", in,
        "scores = tree_ensemble(x, nodes, thresholds, roots, first, targets, weights) "
        "{targets = %" PRId64 ", aggregate = %" PRId64 ", features = %" PRId64 "}",
        targets, how, f->features);
}

/* ---- versions 1 to 3: nodes by two numbers --------------------------------------------------- */

static bool
int_list(Call *k, const char *name, int64_t n, AttrList *out)
{
    *out = ml_ints(k, name);
    return out->n == n || call_wrong(k, "%s: attribute \"%s\" has %lld entries, there are %lld",
                                     k->proto->op_type, name, (long long)out->n, (long long)n);
}

static AttrList
real_list(Call *k, const char *name)
{
    AttrList plain = ml_floats(k, name), wide = { 0 };
    const OnnxAttribute *a = node_attribute(k->proto, arena_printf(k->arena, "%s_as_tensor", name));
    const Type *type;

    if (!plain.n && a && a->t && tensor_read(k->m, a->t, name, k->loc, &type, &wide.data) &&
        expr_const(type_count(k->c, type), &wide.n)) {
        wide.t = type->dtype;
        return wide;
    }
    return plain;
}

static uint64_t
node_key(int64_t tree, int64_t node)
{
    return (uint64_t)tree << 32 ^ (uint64_t)node;
}

static Mode
mode_of(OnnxBytes s)
{
    static const char *const name[] = { "BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF" };
    for (int i = 0; i < 8; i++)
        if (strlen(name[i]) == s.len && !memcmp(name[i], s.data, s.len))
            return (Mode)i;
    return MEMBER;
}

#define AT(list, i) (((const int64_t *)(list).data)[i])

static bool
read_nodes(Forest *f, Map *at)
{
    Call *k = f->k;
    AttrList tree = ml_ints(k, "nodes_treeids"), id, feature, yes, no,
             values = real_list(k, "nodes_values"),
             nan = ml_ints(k, "nodes_missing_value_tracks_true");
    const OnnxAttribute *modes = node_attribute(k->proto, "nodes_modes");
    int64_t n = tree.n;
    uint64_t to[2];

    if (!int_list(k, "nodes_nodeids", n, &id) || !int_list(k, "nodes_featureids", n, &feature) ||
        !int_list(k, "nodes_truenodeids", n, &yes) || !int_list(k, "nodes_falsenodeids", n, &no))
        return false;
    if (values.n != n || !modes || modes->n_strings != (uint64_t)n || (nan.n && nan.n != n) ||
        n > INT32_MAX / 16)
        return call_wrong(k, "%s: %lld nodes, %lld values, %zu modes", k->proto->op_type,
                          (long long)n, (long long)values.n, modes ? modes->n_strings : 0);
    for (int64_t i = 0; i < n; i++) {
        if (AT(tree, i) < 0 || AT(tree, i) > INT32_MAX || AT(id, i) < 0 || AT(id, i) > INT32_MAX ||
            map_get(at, node_key(AT(tree, i), AT(id, i)), NULL))
            return broken(k, "its numbers are below 0, or another's", i);
        map_put(at, node_key(AT(tree, i), AT(id, i)), (uint64_t)i);
        add_node(f);
    }
    Map roots = { .arena = k->arena };
    for (int64_t i = 0; i < n; i++) {
        if (!map_get(&roots, (uint64_t)AT(tree, i), NULL)) {
            map_put(&roots, (uint64_t)AT(tree, i), 1);
            VEC_PUSH(k->arena, &f->root, (int32_t)i);
            VEC_PUSH(k->arena, &f->root, 0);
        }
        Mode mode = mode_of(modes->strings[i]);
        if (mode == LEAF)
            continue;
        if (mode == MEMBER)
            return call_refuse(k, "%s: node %lld has the mode \"%.*s\"", k->proto->op_type,
                               (long long)i, (int)modes->strings[i].len,
                               (const char *)modes->strings[i].data);
        if (!map_get(at, node_key(AT(tree, i), AT(yes, i)), &to[0]) ||
            !map_get(at, node_key(AT(tree, i), AT(no, i)), &to[1]))
            return broken(k, "a child of it is not there", i);
        if (to[0] == (uint64_t)i || to[1] == (uint64_t)i || AT(feature, i) < 0 ||
            AT(feature, i) > INT32_MAX)
            return broken(k, "it is its own child, or its feature is below 0", i);
        f->features = AT(feature, i) >= f->features ? AT(feature, i) + 1 : f->features;
        set_compare(f, (int32_t)i, AT(feature, i), mode, ml_number(&values, i), (int32_t)to[0],
                    (int32_t)to[1], nan.n && AT(nan, i));
    }
    return true;
}

/* The weights of leaves, in the order of their nodes. `what`: class or target. */
static bool
read_weights(Forest *f, const Map *at, const char *what)
{
    Call *k = f->k;
    Arena *a = k->arena;
    AttrList id = ml_ints(k, arena_printf(a, "%s_ids", what)), tree, node,
             weight = real_list(k, arena_printf(a, "%s_weights", what));
    uint32_t n = f->threshold.n;
    uint64_t to;

    if (!int_list(k, arena_printf(a, "%s_treeids", what), id.n, &tree) ||
        !int_list(k, arena_printf(a, "%s_nodeids", what), id.n, &node))
        return false;
    if (weight.n != id.n)
        return call_wrong(k, "%s: %lld weights, %lld %s_ids", k->proto->op_type,
                          (long long)weight.n, (long long)id.n, what);
    int32_t *count = NEW_ARRAY(a, int32_t, n + 2), *place = NEW_ARRAY(a, int32_t, n + 2);
    int32_t *of = NEW_ARRAY(a, int32_t, id.n + 1);
    for (int64_t i = 0; i < id.n; i++) {
        if (!map_get(at, node_key(AT(tree, i), AT(node, i)), &to))
            return broken(k, "it has a weight and is not there", AT(node, i));
        of[i] = (int32_t)to;
        count[to]++;
    }
    for (uint32_t i = 0; i < n; i++) {
        place[i + 1] = place[i] + count[i];
        VEC_PUSH(a, &f->first, place[i]);
    }
    VEC_PUSH(a, &f->first, place[n]);
    for (int64_t i = 0; i < id.n; i++) {
        VEC_PUSH(a, &f->target, 0);
        VEC_PUSH(a, &f->weight, 0);
    }
    for (int64_t i = 0; i < id.n; i++) {
        int32_t p = place[of[i]]++;
        f->target.at[p] = (int32_t)(AT(id, i) < INT32_MAX ? AT(id, i) : -1);
        f->weight.at[p] = ml_number(&weight, i);
    }
    return true;
}

static ValueId
with_base(Call *k, ValueId scores)
{
    AttrList base = real_list(k, "base_values");

    if (!scores || !base.n)
        return scores;
    return value_of_text(k, "scores base",
                         VALUES(scores, ml_const(k, "base_values", base.t, base.n, -1, base.data)),
                         "scores + like(base, scores)");
}

static bool
begin(Call *k, Forest *f, Map *at, ValueId *x, const char *what)
{
    *x = need_input(k, 0) ? ml_rows(k, ml_real(k, k->in.at[0])) : 0;
    *f = (Forest){ .k = k, .wide = *x && value_type(k, *x)->dtype == DT_F64 };
    *at = (Map){ .arena = k->arena };
    return *x && read_nodes(f, at) && read_weights(f, at, what);
}

static int64_t
aggregate_of(const char *how)
{
    return !strcmp(how, "AVERAGE") ? 1 : !strcmp(how, "MIN") ? 2 : !strcmp(how, "MAX") ? 3 : 0;
}

bool
convert_tree_regressor(Call *k)
{
    Forest f;
    Map at;
    ValueId x;

    if (!begin(k, &f, &at, &x, "target"))
        return false;
    ValueId y =
        call_cast(k,
                  with_base(k, ensemble(&f, x, get_int(k, "n_targets", 1),
                                        aggregate_of(get_string(k, "aggregate_function", "SUM")))),
                  DT_F32);
    y = ml_transform(k, y, get_string(k, "post_transform", "NONE"));
    return ml_result(k, 0, y);
}

/* Two classes may share one score; its weights tell whether it is a probability. */
static bool
give_binary(Call *k, const Forest *f, const AttrList *labels, ValueId score, const char *transform)
{
    bool positive = true;

    for (uint32_t i = 0; i < f->weight.n; i++)
        positive &= f->weight.at[i] >= 0;
    ValueId which =
        value_of_text(k, "score", &score, "reshape(i64(score > %a), [-1])", positive ? 0.5 : 0.0);
    ValueId both = ml_both(k, score, !positive);
    both = positive ? both : ml_transform(k, both, transform);
    return ml_labels(k, labels, which) && ml_result(k, 1, both);
}

bool
convert_tree_classifier(Call *k)
{
    const char *transform = get_string(k, "post_transform", "NONE");
    AttrList labels;
    Forest f;
    Map at;
    ValueId x;

    if (!ml_list(k, "classlabels", &labels) || !begin(k, &f, &at, &x, "class"))
        return false;
    bool one = labels.n == 2;
    for (uint32_t i = 1; i < f.target.n; i++)
        one &= f.target.at[i] == f.target.at[0];
    for (uint32_t i = 0; one && i < f.target.n; i++)
        f.target.at[i] = 0;
    if (labels.n < 2)
        return call_refuse(k, "TreeEnsembleClassifier with %lld labels", (long long)labels.n);
    ValueId s = call_cast(k, ensemble(&f, x, one ? 1 : labels.n, 0), DT_F32);
    AttrList base = real_list(k, "base_values");
    if (one && base.n == 2) { /* the score is that of the second class */
        double v = ml_number(&base, 1);
        s = value_of_text(k, "s", &s, "s + %a", v);
    } else {
        s = with_base(k, s);
    }
    if (!s)
        return false;
    if (one)
        return give_binary(k, &f, &labels, s, transform);
    ValueId which = value_of_text(k, "s", &s, "arg_max(s) {axis = 1, keepdims = 0}"),
            y = ml_transform(k, s, transform);
    return ml_labels(k, &labels, which) && ml_result(k, 1, y);
}

/* ---- version 5: nodes and leaves by their indices -------------------------------------------- */

/* A set of values: a chain of nodes, the last of which becomes `at`. */
static void
set_member(Forest *f, int32_t at, int64_t feature, const double *value, int64_t n, int32_t yes,
           int32_t no, bool nan)
{
    for (int64_t i = 0; i + 1 < n; i++) {
        int32_t next = add_node(f);
        set_compare(f, at, feature, EQ, value[i], yes, next, nan && i == 0);
        at = next;
    }
    if (n)
        set_compare(f, at, feature, EQ, value[n - 1], yes, no, nan && n == 1);
    else
        set_node(f, at, feature, INFINITY, no, no, true);
}

bool
convert_tree_ensemble(Call *k)
{
    Arena *a = k->arena;
    AttrList root = ml_ints(k, "tree_roots"), feature = ml_ints(k, "nodes_featureids"), yes, no,
             yes_leaf, no_leaf, modes, values, weight, member, target;
    AttrList nan = ml_ints(k, "nodes_missing_value_tracks_true");
    static const char *const transforms[] = { "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                              "PROBIT" };
    int64_t n = feature.n, transform = get_int(k, "post_transform", 0),
            how = get_int(k, "aggregate_function", 1), in_set = 0;

    if (!int_list(k, "nodes_truenodeids", n, &yes) || !int_list(k, "nodes_falsenodeids", n, &no) ||
        !int_list(k, "nodes_trueleafs", n, &yes_leaf) ||
        !int_list(k, "nodes_falseleafs", n, &no_leaf))
        return false;
    target = ml_ints(k, "leaf_targetids");
    const struct {
        const char *name;
        AttrList *to;
        bool needed;
    } tensors[] = { { "nodes_modes", &modes, true },
                    { "nodes_splits", &values, true },
                    { "leaf_weights", &weight, true },
                    { "membership_values", &member, false } };
    for (int i = 0; i < 4; i++) {
        const OnnxAttribute *t = node_attribute(k->proto, tensors[i].name);
        const Type *type;
        *tensors[i].to = (AttrList){ DT_F32, 0, NULL };
        if (!t || !t->t) {
            if (tensors[i].needed)
                return call_wrong(k, "TreeEnsemble needs the tensor \"%s\"", tensors[i].name);
            continue;
        }
        if (!tensor_read(k->m, t->t, tensors[i].name, k->loc, &type, &tensors[i].to->data) ||
            !expr_const(type_count(k->c, type), &tensors[i].to->n))
            return false;
        tensors[i].to->t = type->dtype;
    }
    if (modes.n != n || values.n != n || weight.n != target.n || (nan.n && nan.n != n) ||
        transform < 0 || transform > 4 || how < 0 || how > 3 || n > INT32_MAX / 16)
        return call_wrong(
            k,
            "TreeEnsemble: %lld nodes, %lld modes, %lld splits; %lld leaves, %lld weights; "
            "post_transform %lld, aggregate_function %lld",
            (long long)n, (long long)modes.n, (long long)values.n, (long long)target.n,
            (long long)weight.n, (long long)transform, (long long)how);
    ValueId x = need_input(k, 0) ? ml_rows(k, ml_real(k, k->in.at[0])) : 0;
    if (!x)
        return false;
    Forest f = { .k = k, .wide = value_type(k, x)->dtype == DT_F64 };
    for (int64_t i = 0; i < n + target.n; i++) /* leaves after the nodes */
        add_node(&f);
    for (int64_t i = 0; i < n; i++) {
        int64_t to[2] = { AT(yes, i) + (AT(yes_leaf, i) ? n : 0),
                          AT(no, i) + (AT(no_leaf, i) ? n : 0) },
                mode = (int64_t)ml_number(&modes, i);
        for (int c = 0; c < 2; c++) {
            bool leaf = c ? AT(no_leaf, i) : AT(yes_leaf, i);
            if (to[c] < (leaf ? n : 0) || to[c] >= (leaf ? n + target.n : n))
                return broken(k, "a child of it is not there", i);
        }
        if (AT(feature, i) < 0 || AT(feature, i) > INT32_MAX || mode < 0 || mode > MEMBER)
            return broken(k, "its feature is below 0, or its mode is none", i);
        if (to[0] == i || to[1] == i)
            return broken(k, "it is its own child", i);
        f.features = AT(feature, i) >= f.features ? AT(feature, i) + 1 : f.features;
        bool missing = nan.n && AT(nan, i);
        if (mode != MEMBER) {
            set_compare(&f, (int32_t)i, AT(feature, i), (Mode)mode, ml_number(&values, i),
                        (int32_t)to[0], (int32_t)to[1], missing);
            continue;
        }
        /* sets are concatenated, separated by NaN */
        VEC(double) set = { 0 };
        for (; in_set < member.n && !isnan(ml_number(&member, in_set)); in_set++)
            VEC_PUSH(a, &set, ml_number(&member, in_set));
        in_set++;
        set_member(&f, (int32_t)i, AT(feature, i), set.at, set.n, (int32_t)to[0], (int32_t)to[1],
                   missing);
    }
    for (int64_t i = 0; i < root.n; i++) {
        if (AT(root, i) < 0 || AT(root, i) >= n)
            return broken(k, "it is a root and not there", AT(root, i));
        VEC_PUSH(a, &f.root, (int32_t)AT(root, i));
        VEC_PUSH(a, &f.root, 0);
    }
    for (uint32_t i = 0; i <= f.threshold.n; i++)
        VEC_PUSH(a, &f.first, (int32_t)(i < n ? 0 : i < n + target.n ? i - n : target.n));
    for (int64_t i = 0; i < target.n; i++) {
        VEC_PUSH(a, &f.target, (int32_t)(AT(target, i) < INT32_MAX ? AT(target, i) : -1));
        VEC_PUSH(a, &f.weight, ml_number(&weight, i));
    }
    static const int64_t aggregate[] = { 1, 0, 2, 3 };
    ValueId y = ensemble(&f, x, get_int(k, "n_targets", 1), aggregate[how]);
    y = ml_transform(k, y, transforms[transform]);
    y = y ? call_cast(k, y, input_type(k, 0)->dtype) : 0;
    return ml_result(k, 0, y);
}
