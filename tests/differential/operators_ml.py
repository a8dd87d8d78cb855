"""Operators of ai.onnx.ml, of words, and those of ONNX Runtime for language models: ONNX Runtime says what is right."""
import numpy as np

from operator_case import Case, floats, operator, pick

ML, MS = "ai.onnx.ml", "com.microsoft"
WORDS = ["a", "bb", "ccc", "tenon", "été", "木", ""]


def ml(op, inputs, attributes, outputs=1, **more):
    return Case(op, inputs, attributes, outputs, ML, least={"n": 1, "c": 1} | more.pop("least", {}), judge="ort", **more)


def numbers(r, *shape, scale=1.0):
    return [float(v) for v in (r.standard_normal(shape) * scale).astype("f4").ravel()]


def rows(r, columns, *types):
    return pick(r, *(types or ("float32", "float64", "int64", "int32"))), ("n", columns), pick(r, (-3, 4), (-40, 41))


# ---- features ------------------------------------------------------------------------------------------------------


@operator
def scaler(r):
    c = pick(r, 1, 3, 8)
    same = r.random() < 0.4
    return ml("Scaler", [rows(r, c)], {"offset": numbers(r, 1 if same else c), "scale": numbers(r, 1 if same else c)})


@operator
def normalizer(r):
    return ml("Normalizer", [rows(r, "c")], {"norm": pick(r, "MAX", "L1", "L2")})


@operator
def binarizer(r):
    return ml("Binarizer", [floats("n", "c")], {"threshold": pick(r, 0.0, 0.5, -1.0)})


@operator
def imputer(r):
    c, one = pick(r, 1, 4), r.random() < 0.4
    if r.random() < 0.5:
        return ml("Imputer", [("int64", ("n", c), 4)], {"imputed_value_int64s": [7] if one else list(range(10, 10 + c)), "replaced_value_int64": 2})
    return ml("Imputer", [("float32", ("n", c), (0, 4))], {"imputed_value_floats": [1.5] if one else numbers(r, c), "replaced_value_float": 2.0})


@operator
def one_hot_encoder(r):
    zeros = {"zeros": 1}
    if r.random() < 0.4:
        return ml("OneHotEncoder", [("object", ("n", pick(r, 1, 2)), WORDS)], {"cats_strings": WORDS[:4]} | zeros)
    return ml("OneHotEncoder", [rows(r, pick(r, 1, 2), "int64", "float32", "float64")], {"cats_int64s": [-2, 0, 1, 5]} | zeros)


@operator
def label_encoder(r):
    words, places, reals = {"strings": WORDS[:5]}, {"int64s": [4, -2, 0, 1, 3]}, {"floats": [0.5, -2.0, 0.0, 1.0, 3.0]}
    keys, values = pick(r, ("object", words), ("int64", places), ("float32", reals)), pick(r, words, places, reals)
    if keys[0] == "float32" and "floats" in values or keys[0] == "float32" and "int64s" in values:
        values = words
    name = next(iter(values))
    default = {"strings": {"default_string": "none"}, "int64s": {"default_int64": -9}, "floats": {"default_float": 0.25}}[name]
    attributes = {f"keys_{k}": v for k, v in keys[1].items()} | {f"values_{k}": v for k, v in values.items()} | default
    return ml("LabelEncoder", [(keys[0], ("n", "c"), WORDS if keys[0] == "object" else (-3, 5))], attributes)


@operator
def category_mapper(r):
    attributes = {"cats_strings": WORDS[:4], "cats_int64s": [3, 1, 7, 0], "default_string": "none", "default_int64": -1}
    return ml("CategoryMapper", [("object", ("n", "c"), WORDS) if r.random() < 0.5 else ("int64", ("n", "c"), 9)], attributes)


@operator
def feature_vectorizer(r):
    wide = [pick(r, 1, 3), pick(r, 1, 2), 4]
    kind = pick(r, "float32", "int64", "float64")
    return ml("FeatureVectorizer", [(kind, ("n", w), (-9, 9)) for w in wide], {"inputdimensions": wide})


@operator
def array_feature_extractor(r):
    places, kind = r.integers(0, 5, (1, pick(r, 1, 3))).astype("i8"), pick(r, "float32", "int64", "object")
    return ml("ArrayFeatureExtractor", [(kind, ("n", 5), WORDS if kind == "object" else (-9, 9)), places], {})


# ---- models --------------------------------------------------------------------------------------------------------


@operator
def linear_regressor(r):
    c, targets = pick(r, 1, 5), pick(r, 1, 3)
    return ml("LinearRegressor", [floats("n", c)], {"coefficients": numbers(r, targets, c), "intercepts": numbers(r, targets), "targets": targets})


@operator
def linear_classifier(r):
    c, classes = pick(r, 1, 5), pick(r, 2, 3, 4)
    labels = {"classlabels_strings": WORDS[:classes]} if r.random() < 0.5 else {"classlabels_ints": list(range(3, 3 + classes))}
    attributes = {"coefficients": numbers(r, classes, c), "intercepts": numbers(r, classes), "post_transform": pick(r, "NONE", "LOGISTIC", "SOFTMAX"), "multi_class": 1}
    return ml("LinearClassifier", [floats("n", c)], attributes | labels, 2)


def kernel(r):
    name = pick(r, "LINEAR", "POLY", "RBF", "SIGMOID")
    return {"kernel_type": name, "kernel_params": [0.3, 0.1, pick(r, 2.0, 3.0)]}


@operator
def svm_regressor(r):
    c, vectors = pick(r, 1, 4), pick(r, 1, 6)
    attributes = {"support_vectors": numbers(r, vectors, c), "coefficients": numbers(r, vectors), "rho": numbers(r, 1), "n_supports": vectors}
    return ml("SVMRegressor", [floats("n", c)], attributes | kernel(r))


@operator
def svm_classifier(r):
    c, classes = pick(r, 1, 4), pick(r, 2, 3)
    per = [int(v) for v in r.integers(1, 4, classes)]
    vectors, pairs = sum(per), classes * (classes - 1) // 2
    attributes = {"support_vectors": numbers(r, vectors, c), "coefficients": numbers(r, classes - 1, vectors), "rho": numbers(r, pairs), "vectors_per_class": per,
                  "post_transform": "NONE"}
    if r.random() < 0.4:
        attributes |= {"prob_a": numbers(r, pairs), "prob_b": numbers(r, pairs)}
    labels = {"classlabels_strings": WORDS[:classes]} if r.random() < 0.5 else {"classlabels_ints": list(range(classes))}
    return ml("SVMClassifier", [floats("n", c)], attributes | kernel(r) | labels, 2, loose=1e-3)


def forest(r, features, leaves):
    """Trees of random depth as the lists of attributes that both operators have; leaves says how many weights one has."""
    node = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")}
    leaf = []
    for tree in range(pick(r, 1, 3)):
        count = 0

        def grow(depth):
            nonlocal count
            here, count = count, count + 1
            k = len(node["nodeids"])
            for name, v in zip(node, (tree, here, int(r.integers(features)), float(np.float32(r.standard_normal())), "BRANCH_LEQ", 0, 0, 0), strict=True):
                node[name].append(v)
            if depth == 0 or r.random() < 0.2:
                node["modes"][k] = "LEAF"
                leaf.extend((tree, here, *w) for w in leaves(r))
                return here
            node["truenodeids"][k] = grow(depth - 1)
            node["falsenodeids"][k] = grow(depth - 1)
            return here

        grow(pick(r, 0, 2, 4))
    return {f"nodes_{k}": v for k, v in node.items()}, leaf


@operator
def tree_regressor(r):
    c, targets = pick(r, 1, 4), pick(r, 1, 2)
    nodes, leaf = forest(r, c, lambda r: [(int(t), float(np.float32(r.standard_normal()))) for t in range(targets)])
    ends = dict(zip(("target_treeids", "target_nodeids", "target_ids", "target_weights"), map(list, zip(*leaf, strict=True)), strict=True))
    return ml("TreeEnsembleRegressor", [floats("n", c)], nodes | ends | {"n_targets": targets, "aggregate_function": pick(r, "SUM", "AVERAGE", "MIN", "MAX")})


@operator
def tree_classifier(r):
    c, classes = pick(r, 1, 4), pick(r, 3, 4)
    nodes, leaf = forest(r, c, lambda r: [(int(t), float(np.float32(r.random()))) for t in range(classes)])
    ends = dict(zip(("class_treeids", "class_nodeids", "class_ids", "class_weights"), map(list, zip(*leaf, strict=True)), strict=True))
    labels = {"classlabels_strings": WORDS[:classes]} if r.random() < 0.5 else {"classlabels_int64s": list(range(2, 2 + classes))}
    return ml("TreeEnsembleClassifier", [floats("n", c)], nodes | ends | labels | {"post_transform": pick(r, "NONE", "SOFTMAX", "LOGISTIC")}, 2)


# ---- words ---------------------------------------------------------------------------------------------------------

TEXTS = ["a bug in the loop", "fast", "", "x--y  z", "été 木 tenon_7", "a,b;c", "  "]


@operator
def tokenizer(r):
    rule = pick(r, {"tokenexp": "[a-zA-Z0-9_]+"}, {"tokenexp": "[a-z]+|[0-9]"}, {"tokenexp": "--?|[^ ]"}, {"separators": [" "]}, {"separators": ["[,;]"]}, {"separators": [""]})
    attributes = {"mark": int(r.integers(2)), "mincharnum": 1 if rule == {"separators": [""]} else pick(r, 1, 1, 2), "pad_value": "#"} | rule
    return Case("Tokenizer", [("object", pick(r, ("n",), ("n", "c")), TEXTS)], attributes, 1, MS, least={"n": 1, "c": 1}, judge="ort")


@operator
def string_normalizer(r):
    attributes = {"case_change_action": pick(r, "LOWER", "UPPER", "NONE"), "is_case_sensitive": int(r.integers(2)), "locale": "C"} | pick(r, {}, {"stopwords": ["a", "TENON"]})
    return Case("StringNormalizer", [("object", pick(r, ("n",), (1, "n")), ["a", "A", "Tenon", "loop", ""])], attributes, opset=10, least={"n": 1}, judge="ort")


# ---- language models -------------------------------------------------------------------------------------------------


@operator
def embed_layer_norm(r):
    wide, segments = pick(r, 4, 16), r.random() < 0.6
    inputs = [("int32", ("b", "s"), 20), ("int32", ("b", "s"), 2) if segments else None, floats(20, wide), floats(40, wide), floats(2, wide) if segments else None,
              floats(wide), floats(wide), ("int32", ("b", "s"), 2) if r.random() < 0.5 else None, ("int32", ("b", "s"), 40) if r.random() < 0.3 else None]
    while inputs[-1] is None:
        inputs.pop()
    return Case("EmbedLayerNormalization", inputs, {"epsilon": 1e-6}, 2, MS, least={"b": 1, "s": 1}, judge="ort")


@operator
def packed_attention(r):
    heads, size, past = pick(r, 1, 3), pick(r, 4, 8), r.random() < 0.3
    wide, value = heads * size, heads * pick(r, size, 2 * size)
    value = wide if past else value
    mask = None if past else pick(r, None, ("int32", ("b",), (1, 3)), ("int32", ("b", "s"), (0, 2)), ("int32", ("b", "s", "s"), (0, 2)))
    inputs = [floats("b", "s", 12), floats(12, 2 * wide + value, how="small"), floats(2 * wide + value), mask, floats(2, "b", heads, "p", size) if past else None]
    while inputs[-1] is None:
        inputs.pop()
    attributes = {"num_heads": heads, "unidirectional": int(r.random() < 0.3)} | ({"qkv_hidden_sizes": [wide, wide, value]} if value != wide else {})
    return Case("Attention", inputs, attributes, 2 if past else 1, MS, least={"b": 1, "s": 3, "p": 1}, judge="ort")


@operator
def multi_head_attention_of_heads(r):
    """Cross attention, whose keys are heads; padding."""
    heads, size, kind = pick(r, 1, 3), pick(r, 4, 8), pick(r, "heads", "padded", "lengths")
    wide = heads * size
    if kind == "heads":
        inputs = [floats("b", "s", wide), floats("b", heads, "t", size), floats("b", heads, "t", size)]
    else:
        inputs = [floats("b", "s", wide), floats("b", "t", wide), floats("b", "t", wide), floats(3 * wide) if r.random() < 0.5 else None,
                  ("int32", ("b", "t"), (0, 2)) if kind == "padded" else ("int32", ("b",), (1, 3))]
    return Case("MultiHeadAttention", inputs, {"num_heads": heads}, 1, MS, least={"b": 1, "s": 1, "t": 3}, judge="ort")


@operator
def group_query_attention(r):
    """The lengths of the sequences fit the total, which the rules of other inputs do not say: past and new are of fixed length."""
    kv, group, size, past, new = pick(r, 1, 2), pick(r, 1, 3), pick(r, 16, 32), pick(r, 0, 3, 9), pick(r, 1, 1, 5)
    if past and new > 1:
        new = 1
    heads, total, batch, packed, turned = kv * group, past + new, pick(r, 1, 3), r.random() < 0.4, r.random() < 0.5
    queries = [floats(batch, new, (heads + 2 * kv) * size), None, None] if packed else [floats(batch, new, heads * size), floats(batch, new, kv * size), floats(batch, new, kv * size)]
    room = past + pick(r, 0, 4) if past else 0
    cache = [floats(batch, kv, room, size)] * 2 if past else [None, None]
    lengths = np.full(batch, total - 1, "i4")
    tables = [floats(32, size // 2), floats(32, size // 2)] if turned else []
    attributes = {"num_heads": heads, "kv_num_heads": kv, "do_rotary": int(turned), "rotary_interleaved": int(turned and r.random() < 0.5)}
    attributes |= pick(r, {}, {}, {"local_window_size": 4}, {"softcap": 2.0}, {"scale": 0.4})
    return Case("GroupQueryAttention", [*queries, *cache, lengths, np.array(total, "i4"), *tables], attributes, 3, MS, judge="ort")
