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

/* Node i compares a feature, or is a set's, and leads to two others. */
static bool
add_split(Forest *f, int64_t i, int64_t feature, Mode mode, double t, const int64_t to[2], bool nan)
{
    if (feature < 0 || feature > INT32_MAX)
        return broken(f->k, "its feature is below 0, or too large", i);
    if (to[0] == i || to[1] == i)
        return broken(f->k, "it is its own child", i);
    f->features = feature >= f->features ? feature + 1 : f->features;
    set_compare(f, (int32_t)i, feature, mode, t, (int32_t)to[0], (int32_t)to[1], nan);
    return true;
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

/* A list of numbers of the trees' type. */
static void
name_reals(const Forest *f, const char *name, const double *v, int64_t n)
{
    float *narrow = NEW_ARRAY(f->k->arena, float, n + 1);

    for (int64_t i = 0; i < n; i++)
        narrow[i] = (float)v[i];
    call_name_list(f->k, name,
                   f->wide ? (AttrList){ DT_F64, n, v } : (AttrList){ DT_F32, n, narrow });
}

/* scores: the sums over all trees, [n, targets]. */
static bool
ensemble(Forest *f, int64_t targets, int64_t how)
{
    Call *k = f->k;
    const uint32_t n = f->threshold.n;

    if (!n)
        return call_refuse(k, "%s without trees", k->proto->op_type);
    if (targets < 1 || targets > INT32_MAX)
        return call_wrong(k, "%s with %lld results", k->proto->op_type, (long long)targets);
    if (!find_depths(f))
        return false;
    for (uint32_t i = 0; i < f->target.n; i++)
        if (f->target.at[i] < 0 || f->target.at[i] >= targets)
            return broken(k, "its weight is of a class or target that is not there", i);
    call_name(k, "nodes", ml_table(k, "nodes", DT_I32, n, 4, f->node.at));
    name_reals(f, "thresholds", f->threshold.at, n);
    call_name(k, "roots", ml_table(k, "roots", DT_I32, f->root.n / 2, 2, f->root.at));
    call_name_list(k, "first", (AttrList){ DT_I32, f->first.n, f->first.at });
    call_name_list(k, "targets", (AttrList){ DT_I32, f->target.n, f->target.at });
    name_reals(f, "weights", f->weight.at, f->weight.n);
    call_number(k, "targets", targets);
    call_number(k, "how", how);
    call_number(k, "features", f->features);
    return call_text(k, "!targets? targets = i32([])\n"
                        "!weights? weights = $real([])\n"
                        "scores = tree_ensemble(x, nodes, thresholds, roots, first, "
                        "targets, weights) "
                        "{targets = $targets, aggregate = $how, features = $features}");
}

/* ---- versions 1 to 3: nodes by two numbers --------------------------------------------------- */

/* The attribute, which has n entries; otherwise k->failed, reported. */
static AttrList
list_of_n(Call *k, const char *name, int64_t n)
{
    AttrList l = call_attr_list(k, name);

    if (l.n != n && !k->failed)
        k->failed = !call_wrong(k, "%s: attribute \"%s\" has %lld entries, there are %lld",
                                k->proto->op_type, name, (long long)l.n, (long long)n);
    return l;
}

static AttrList
real_list(Call *k, const char *name)
{
    AttrList l = call_attr_list(k, name);

    return l.n ? l : call_attr_list(k, arena_printf(k->arena, "%s_as_tensor", name));
}

static uint64_t
node_key(int64_t tree, int64_t node)
{
    return (uint64_t)tree << 32 ^ (uint64_t)node;
}

static Mode
mode_of(const char *s)
{
    static const char *const name[] = { "BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF" };
    int i = 0;

    while (i < 8 && strcmp(name[i], s))
        i++;
    return i < 8 ? (Mode)i : MEMBER;
}

#define AT(list, i) (((const int64_t *)(list).data)[i])

static bool
read_nodes(Forest *f, Map *at)
{
    Call *k = f->k;
    AttrList tree = call_attr_list(k, "nodes_treeids"),
             nan = call_attr_list(k, "nodes_missing_value_tracks_true"),
             values = real_list(k, "nodes_values");
    const int64_t n = tree.n;
    AttrList id = list_of_n(k, "nodes_nodeids", n), feature = list_of_n(k, "nodes_featureids", n),
             yes = list_of_n(k, "nodes_truenodeids", n), no = list_of_n(k, "nodes_falsenodeids", n),
             modes = list_of_n(k, "nodes_modes", n);
    uint64_t to[2];

    if (k->failed)
        return false;
    if (values.n != n || (nan.n && nan.n != n) || n > INT32_MAX / 16)
        return call_wrong(k, "%s: %lld nodes, %lld values", k->proto->op_type, (long long)n,
                          (long long)values.n);
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
        const char *word = ((const char *const *)modes.data)[i];
        Mode mode = mode_of(word);
        if (mode == LEAF)
            continue;
        if (mode == MEMBER)
            return call_refuse(k, "%s: node %lld has the mode \"%s\"", k->proto->op_type,
                               (long long)i, word);
        if (!map_get(at, node_key(AT(tree, i), AT(yes, i)), &to[0]) ||
            !map_get(at, node_key(AT(tree, i), AT(no, i)), &to[1]))
            return broken(k, "a child of it is not there", i);
        const int64_t child[] = { (int64_t)to[0], (int64_t)to[1] };
        if (!add_split(f, i, AT(feature, i), mode, ml_number(&values, i), child,
                       nan.n && AT(nan, i)))
            return false;
    }
    return true;
}

/* The weights of leaves, in the order of their nodes. `what`: class or target. */
static bool
read_weights(Forest *f, const Map *at, const char *what)
{
    Call *k = f->k;
    Arena *a = k->arena;
    AttrList id = call_attr_list(k, arena_printf(a, "%s_ids", what)),
             weight = real_list(k, arena_printf(a, "%s_weights", what)),
             tree = list_of_n(k, arena_printf(a, "%s_treeids", what), id.n),
             node = list_of_n(k, arena_printf(a, "%s_nodeids", what), id.n);
    uint32_t n = f->threshold.n;
    uint64_t to;

    if (k->failed)
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

/* `what`: class or target. */
static bool
begin(Call *k, Forest *f, const char *names, const char *what)
{
    Map at = { .arena = k->arena };

    if (!ml_rows(k, names))
        return false;
    *f = (Forest){ .k = k, .wide = input_type(k, 0)->dtype == DT_F64 };
    call_name_list(k, "base", real_list(k, "base_values"));
    return read_nodes(f, &at) && read_weights(f, &at, what);
}

#define WITH_BASE                                                                                  \
    "base? scores = scores + like(base, scores)\n"                                                 \
    "scores = f32(scores)\n"

bool
convert_tree_regressor(Call *k)
{
    uint32_t which;
    Forest f;

    return get_choice(k, "aggregate_function", "SUM AVERAGE MIN MAX", &which) &&
           begin(k, &f, "x -> scores", "target") &&
           ensemble(&f, get_int(k, "n_targets", 1), which) && call_text(k, WITH_BASE) &&
           ml_transform(k, get_string(k, "post_transform", "NONE"));
}

/* Two classes may share one score; its weights tell whether it is a probability. */
bool
convert_tree_classifier(Call *k)
{
    const char *transform = get_string(k, "post_transform", "NONE");
    AttrList labels = ml_list(k, "classlabels");
    bool one = labels.n == 2, positive = true;
    Forest f;

    if (!begin(k, &f, "x -> label scores", "class"))
        return false;
    for (uint32_t i = 1; i < f.target.n; i++)
        one &= f.target.at[i] == f.target.at[0];
    for (uint32_t i = 0; i < f.target.n; i++) {
        f.target.at[i] = one ? 0 : f.target.at[i];
        positive &= f.weight.at[i] >= 0;
    }
    if (labels.n < 2)
        return call_refuse(k, "TreeEnsembleClassifier with %lld labels", (long long)labels.n);
    if (!ensemble(&f, one ? 1 : labels.n, 0))
        return false;
    call_number(k, "of_two", one && real_list(k, "base_values").n == 2);
    call_number(k, "one", one);
    call_number(k, "positive", positive);
    call_real(k, "least", positive ? 0.5 : 0.0);
    return call_text(k, "$of_two? base = slice(base, [1], [2])\n" /* of the second class */
                     WITH_BASE "$one? which = reshape(i64(scores > $least), [-1])\n"
                        "$one? !$positive? scores = concat(-scores, scores) {axis = 1}\n"
                        "$one? $positive? scores = concat(1 - scores, scores) {axis = 1}\n"
                        "!$one? which = arg_max(scores) {axis = 1, keepdims = 0}") &&
           ml_give(k, &labels, one && positive ? "NONE" : transform);
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
    static const char *const transforms[] = { "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                              "PROBIT" };
    Arena *a = k->arena;
    AttrList root = call_attr_list(k, "tree_roots"),
             feature = call_attr_list(k, "nodes_featureids"),
             target = call_attr_list(k, "leaf_targetids"),
             member = call_attr_list(k, "membership_values"),
             nan = call_attr_list(k, "nodes_missing_value_tracks_true");
    const int64_t n = feature.n, transform = get_int(k, "post_transform", 0),
                  how = get_int(k, "aggregate_function", 1);
    AttrList yes = list_of_n(k, "nodes_truenodeids", n), no = list_of_n(k, "nodes_falsenodeids", n),
             yes_leaf = list_of_n(k, "nodes_trueleafs", n),
             no_leaf = list_of_n(k, "nodes_falseleafs", n), modes = list_of_n(k, "nodes_modes", n),
             values = list_of_n(k, "nodes_splits", n),
             weight = list_of_n(k, "leaf_weights", target.n);
    int64_t in_set = 0;

    if (k->failed || !ml_rows(k, "x -> scores"))
        return false;
    if ((nan.n && nan.n != n) || transform < 0 || transform > 4 || how < 0 || how > 3 ||
        n > INT32_MAX / 16)
        return call_wrong(k,
                          "TreeEnsemble: %lld nodes; post_transform %lld, aggregate_function %lld",
                          (long long)n, (long long)transform, (long long)how);
    Forest f = { .k = k, .wide = input_type(k, 0)->dtype == DT_F64 };
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
        if (mode < 0 || mode > MEMBER)
            return broken(k, "its mode is none", i);
        const bool missing = nan.n && AT(nan, i);
        if (!add_split(&f, i, AT(feature, i), (Mode)mode, ml_number(&values, i), to, missing))
            return false;
        if (mode != MEMBER)
            continue;
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
    call_fact(k, "type", dtype_info[input_type(k, 0)->dtype].name);
    return ensemble(&f, get_int(k, "n_targets", 1), aggregate[how]) &&
           ml_transform(k, transforms[transform]) && call_text(k, "scores = $type(scores)");
}
