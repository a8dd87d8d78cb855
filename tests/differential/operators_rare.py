"""Operators that few exporters write, and recurrent ones, losses, images, signals, numbers of few bits."""
import numpy as np
from onnx import TensorProto

from operator_case import Case, floats, operator, pick

# ---- attention and what stands around it -----------------------------------------------------------------------


@operator
def attention(r):
    flat, size, kv, group = r.random() < 0.5, pick(r, 4, 8, 16), pick(r, 1, 2), pick(r, 1, 3)
    heads, value = kv * group, pick(r, 4, 8)
    q = floats("b", "s", heads * size) if flat else floats("b", heads, "s", size)
    k, v = (floats("b", "t", kv * d) if flat else floats("b", kv, "t", d) for d in (size, value))
    past = r.random() < 0.3
    mask = pick(r, None, None, ("bool", ("s", "t"), "bits"), floats("b", 1, "s", "t")) if not past else None
    attributes = {"is_causal": int(r.random() < 0.4), "softcap": pick(r, 0.0, 0.0, 2.5)} | ({"q_num_heads": heads, "kv_num_heads": kv} if flat else {})
    if r.random() < 0.3:
        attributes |= {"left_window_size": int(r.integers(0, 4))}
    cache = [floats("b", kv, "p", size), floats("b", kv, "p", value)] if past else []
    return Case("Attention", [q, k, v, mask, *cache], attributes, 3 if past else 1, least={"t": 1, "b": 1, "s": 1})


def mask_of_keys(r, batch, queries, keys):
    """A mask of ONNX Runtime's attentions, in one of its forms; where it is one of lengths the batch is a number."""
    forms = [("int32", (batch,), (1, 20)), ("int32", (batch, keys), 2), ("int32", (batch, queries, keys), 2), ("int32", (batch, keys), (-1, 2))]
    if isinstance(batch, int):
        forms += [("int32", (2 * batch,), (0, 9)), ("int32", (3 * batch + 2,), (0, 9))]
    return pick(r, *forms)


@operator
def multi_head_attention(r):
    heads, size = pick(r, 1, 3), pick(r, 4, 8)
    wide, past, bias, b = heads * size, r.random() < 0.4, r.random() < 0.5, pick(r, "b", 3)
    q, k, v = floats(b, "s", wide), floats(b, "t", wide), floats(b, "t", wide)
    causal, square = r.random() < 0.5, r.random() < 0.5
    keys = "s" if past or square else "t"
    k, v = floats(b, keys, wide), floats(b, keys, wide)
    mask = mask_of_keys(r, b, "s", keys) if not past and r.random() < 0.5 else None
    if not past and not bias and r.random() < 0.4:       # keys and values that come as heads
        k, v = floats(b, heads, keys, size), floats(b, heads, keys, size)
    inputs = [q, k, v, floats(3 * wide) if bias else None, mask, floats(pick(r, 1, b), pick(r, 1, heads), "s", keys) if not past and r.random() < 0.4 else None,
              *([floats(b, heads, "p", size)] * 2 if past else [])]
    attributes = {"num_heads": heads, "unidirectional": int(causal)} | ({"mask_filter_value": -1e4} if r.random() < 0.3 else {})
    return Case("MultiHeadAttention", inputs, attributes, 4 if r.random() < 0.3 and not causal else 3 if past else 1, "com.microsoft", least={"b": 1, "s": 1, "t": 1, "p": 1}, judge="ort", loose=2e-3)


@operator
def packed_attention(r):
    heads, size, value, b = pick(r, 1, 2), pick(r, 4, 8), pick(r, 4, 6), pick(r, "b", 3)
    past, causal, wide = r.random() < 0.4, r.random() < 0.5, pick(r, 5, 8)
    value = size if past else value
    all_ = heads * (2 * size + value)
    total = 4 if past else "s"       # of the past and what is new
    s, p = (3, 1) if past else ("s", "p")
    w = (r.standard_normal((wide, all_)) / 2).astype("f4")
    mask = mask_of_keys(r, b, s, total) if r.random() < 0.7 else None
    inputs = [floats(b, s, wide), w, floats(all_), mask, floats(2, b, heads, p, size) if past else None,
              floats(b, heads, s, total) if not past and r.random() < 0.3 else None]
    attributes = {"num_heads": heads, "unidirectional": int(causal)} | ({"scale": 0.3} if r.random() < 0.3 else {})
    if value != size:
        attributes["qkv_hidden_sizes"] = [heads * size, heads * size, heads * value]
    # a score beside -10000 keeps three digits: they tell where a query sees nothing else
    return Case("Attention", inputs, attributes, 2 if past or value == size and r.random() < 0.3 else 1, "com.microsoft", least={"b": 1, "s": 1}, judge="ort", loose=2e-3)


@operator
def quantised_attention(r):
    heads, size, wide, b = pick(r, 1, 2), pick(r, 4, 8), pick(r, 5, 8), pick(r, "b", 3)
    all_, a, kind = 3 * heads * size, pick(r, "uint8"), pick(r, "int8", "uint8")
    each = r.random() < 0.5
    w = r.integers(-100, 100, (wide, all_)).astype("i1") if kind == "int8" else r.integers(0, 200, (wide, all_)).astype("u1")
    w_scale = ((r.random(all_) + 0.5) / 99).astype("f4") if each else np.float32(0.01)
    w_zero = (np.zeros if kind == "int8" else lambda n, t: np.full(n, 99, t))((all_,) if each else (), kind)
    mask = mask_of_keys(r, b, "s", "s") if r.random() < 0.7 else None
    inputs = [(a, (b, "s", wide), 100), w, floats(all_), np.float32(0.02), w_scale, mask, np.array(7, a), w_zero]
    return Case("QAttention", inputs, {"num_heads": heads, "unidirectional": int(r.integers(2))}, 1, "com.microsoft", least={"b": 1, "s": 1}, judge="ort", loose=2e-3)


def activation(r, *more):
    name, *params = pick(r, ("Relu",), ("Tanh",), ("LeakyRelu", 0.2), ("Sigmoid",), ("HardSigmoid", 0.3, 0.4), *more)
    return name, params


@operator
def fused_conv(r):
    name, params = activation(r, ("Clip", 0.0, 6.0), ("Clip", -0.3, 0.5), ("Silu",))
    attributes = {"activation": name, "pads": [1, 1, 1, 1]} | ({"activation_params": params} if params else {})
    w = (r.standard_normal((4, 3, 3, 3)) / 5).astype("f4")
    z = floats("n", 4, "h", "w") if r.random() < 0.4 else None
    return Case("FusedConv", [floats("n", 3, "h", "w"), w, floats(4) if r.random() < 0.7 or z else None, z], attributes, domain="com.microsoft",
                least={"n": 1, "h": 1, "w": 1}, judge="ort")


@operator
def fused_gemm(r):
    name, params = activation(r, ("Elu", 0.7), ("Softplus",), ("Softsign",), ("ThresholdedRelu", 0.4), ("Selu", 1.2, 1.1))
    names = ["activation_alpha", "activation_gamma" if name == "Selu" else "activation_beta"]
    attributes = {"activation": name, "transB": int(r.integers(2)), "alpha": pick(r, 1.0, 0.5)} | dict(zip(names, params))
    b = floats(5, "k") if attributes["transB"] else floats("k", 5)
    return Case("FusedGemm", [floats("n", "k"), b, floats(5) if r.random() < 0.7 else None], attributes, domain="com.microsoft", least={"n": 1, "k": 1}, judge="ort")


@operator
def fused_matmul(r):
    attributes = {"transA": int(r.integers(2)), "transB": int(r.integers(2)), "alpha": pick(r, 1.0, 0.5)}
    a, b = (("k", "m") if attributes["transA"] else ("m", "k")), (("n", "k") if attributes["transB"] else ("k", "n"))
    return Case("FusedMatMul", [floats("b", *a), floats("b", *b)], attributes, domain="com.microsoft", least={"b": 1, "m": 1, "n": 1, "k": 1}, judge="ort")


# ---- norms of ONNX Runtime -----------------------------------------------------------------------------------------


@operator
def skip_norm(r):
    rms, bias = r.random() < 0.4, r.random() < 0.5
    skip = floats("b", "s", 8) if r.random() < 0.7 else floats(1, "s", 8)
    inputs = [floats("b", "s", 8), skip, floats(8), *([] if rms else [floats(8) if r.random() < 0.7 else None]), floats(8) if bias else None]
    return Case("SkipSimplifiedLayerNormalization" if rms else "SkipLayerNormalization", inputs, {"epsilon": pick(r, 1e-3, 1e-5)}, pick(r, 1, 2, 3, 4), "com.microsoft",
                least={"b": 1, "s": 1}, judge="ort")


@operator
def simplified_norm(r):
    return Case("SimplifiedLayerNormalization", [floats("b", "s", 8), floats(8)], {"epsilon": 1e-4, "axis": pick(r, -1, 2)}, pick(r, 1, 2), opset=17,
                least={"b": 1, "s": 1}, judge="ort")


@operator
def embed_norm(r):
    segments, mask, places = r.random() < 0.6, r.random() < 0.6, r.random() < 0.5
    tables = [floats(30, 8), floats(40, 8), floats(4, 8) if segments else None]
    inputs = [("int32", ("b", "s"), 30), ("int32", ("b", "s"), 4) if segments else None, *tables, floats(8), floats(8),
              ("int32", ("b", "s"), 2) if mask else None, ("int32", ("b", "s"), 40) if places else None]
    return Case("EmbedLayerNormalization", inputs, {"epsilon": 1e-5, "mask_index_type": 1 if mask else 0}, pick(r, 1, 2, 3), "com.microsoft", least={"b": 1, "s": 1}, judge="ort")


@operator
def rotary_embedding(r):
    heads, size, flat, rows = pick(r, 1, 3), pick(r, 8, 16), r.random() < 0.5, 40
    part = pick(r, 0, size // 2)
    half = (part or size) // 2
    x = floats("b", "s", heads * size) if flat else floats("b", heads, "s", size)
    attributes = {"interleaved": int(r.integers(2)), "rotary_embedding_dim": part} | ({"num_heads": heads} if flat else {})
    if r.random() < 0.5:
        return Case("RotaryEmbedding", [x, floats(rows, half), floats(rows, half), ("int64", ("b", "s"), rows)], attributes)
    return Case("RotaryEmbedding", [x, floats("b", "s", half), floats("b", "s", half)], attributes)


@operator
def tensor_scatter(r):
    return Case("TensorScatter", [floats("b", 3, 20, "d"), floats("b", 3, 4, "d"), ("int64", ("b",), 16)], {"mode": pick(r, "linear", "circular")})


@operator
def linear_attention(r):
    rule, kv, group, size, value = pick(r, "linear", "gated", "delta", "gated_delta"), pick(r, 1, 2), pick(r, 1, 2), pick(r, 3, 8), pick(r, 2, 8)
    inputs = [floats("b", "t", kv * group * size, how="small"), floats("b", "t", kv * size, how="small"), floats("b", "t", kv * value),
              floats("b", kv, size, value) if r.random() < 0.5 else None,
              floats("b", "t", pick(r, kv, kv * size), how="negative") if "gated" in rule else None,
              floats("b", "t", pick(r, kv, 1), how="uniform") if "delta" in rule else None]
    return Case("LinearAttention", inputs, {"q_num_heads": kv * group, "kv_num_heads": kv, "update_rule": rule}, 2, opset=27, least={"b": 1}, slow=True)


@operator
def causal_conv(r):
    k = pick(r, 1, 3, 4)
    inputs = [floats("b", "c", "l"), floats("c", 1, k), floats("c") if r.random() < 0.5 else None, floats("b", "c", k - 1) if r.random() < 0.5 else None]
    return Case("CausalConvWithState", inputs, {"activation": pick(r, "none", "silu")}, 2, opset=27, least={"b": 1, "c": 1, "l": 1})


# ---- recurrences -----------------------------------------------------------------------------------------------------


def recurrent(op, gates, r, **more):
    hidden, size, both = pick(r, 1, 3, 8, 17), pick(r, 1, 5), r.random() < 0.3
    d = 2 if both else 1
    w, u, bias = (r.standard_normal((d, *dims)).astype("f4") / (2 + hidden) for dims in ((gates * hidden, size), (gates * hidden, hidden), (2 * gates * hidden,)))
    state = [floats(d, "b", hidden)] * (2 if op == "LSTM" else 1) if r.random() < 0.5 else []
    peep = [r.standard_normal((d, 3 * hidden)).astype("f4")] if op == "LSTM" and len(state) == 2 and r.random() < 0.5 else []
    inputs = [floats("t", "b", size), w, u, bias if r.random() < 0.7 else None, None, *state, *peep]
    attributes = {"hidden_size": hidden, "direction": "bidirectional" if both else "forward"} | more
    if both:                         # the reference evaluator knows one direction alone
        attributes["direction"], inputs = "forward", [x[:1] if isinstance(x, np.ndarray) else x for x in inputs]
        inputs = [floats(1, *x[1][1:]) if isinstance(x, tuple) and x[1][0] == 2 else x for x in inputs]
    return Case(op, inputs, attributes, 2, opset=22, least={"t": 1, "b": 1})


@operator
def rnn(r):
    return recurrent("RNN", 1, r)


@operator
def gru(r):
    return recurrent("GRU", 3, r, linear_before_reset=int(r.integers(2)))


@operator
def lstm(r):
    return recurrent("LSTM", 4, r)


@operator
def quantised_lstm(r):
    hidden, size, b, d = pick(r, 1, 3, 8, 17), pick(r, 1, 5), pick(r, "b", 2), pick(r, 1, 2)
    kind, each = pick(r, "int8", "uint8"), r.random() < 0.5

    def weights(k, least):
        scale = ((r.random((d, 4 * hidden)) + 0.5) / least).astype("f4")
        zero = np.zeros((d, 4 * hidden), "i1") if kind == "int8" else np.full((d, 4 * hidden), 120, "u1")
        return r.integers(*((-100, 100) if kind == "int8" else (20, 220)), (d, k, 4 * hidden)).astype(kind), scale if each else scale[:, 0], zero if each else zero[:, 0]

    (w, w_scale, w_zero), (u, u_scale, u_zero) = weights(size, 200), weights(hidden, 1000)
    state = [floats(d, b, hidden, how="small")] * 2 if r.random() < 0.6 else [None, None]
    bias = (r.standard_normal((d, 8 * hidden)) / 2).astype("f4") if r.random() < 0.7 else None
    peep = (r.standard_normal((d, 3 * hidden)) / 2).astype("f4") if r.random() < 0.3 else None
    lengths = ("int32", (b,), (1, 5)) if r.random() < 0.3 else None
    t = 7 if lengths else "t"
    inputs = [floats(t, b, size), w, u, bias, lengths, *state, peep, w_scale, w_zero, u_scale, u_zero]
    attributes = {"hidden_size": hidden, "direction": "bidirectional" if d == 2 else pick(r, "forward", "reverse")}
    if r.random() < 0.2:
        attributes["input_forget"] = 1
    if r.random() < 0.2:
        attributes["activations"] = pick(r, ["Sigmoid", "Tanh", "Tanh"], ["Sigmoid", "Tanh", "Relu"], ["HardSigmoid", "Tanh", "Softsign"]) * d
    # a state between two steps of 8 bits may become either: weights of the recurrence are so small that this is less than is allowed
    return Case("DynamicQuantizeLSTM", inputs, attributes, 3, "com.microsoft", least={"t": 1, "b": 1}, judge="ort", loose=1e-3)


# ---- losses ------------------------------------------------------------------------------------------------------------


def loss(op, r):
    spatial = pick(r, (), ("h",), ("h", "w"))
    inputs = [floats("n", 7, *spatial, how="negative"), (pick(r, "int64", "int32"), ("n", *spatial), 7), floats(7, how="uniform") if r.random() < 0.5 else None]
    attributes = {"reduction": pick(r, "none", "mean", "sum")} | ({"ignore_index": 3} if r.random() < 0.4 else {})
    return Case(op, inputs, attributes, least={"n": 1, "h": 1, "w": 1}, slow=True)


@operator
def nll_loss(r):
    return loss("NegativeLogLikelihoodLoss", r)


@operator
def cross_entropy(r):
    return loss("SoftmaxCrossEntropyLoss", r)


# ---- images and signals --------------------------------------------------------------------------------------------------


@operator
def grid_sample(r):
    attributes = {"mode": pick(r, "linear", "nearest", "cubic"), "padding_mode": pick(r, "zeros", "border", "reflection"), "align_corners": int(r.integers(2))}
    return Case("GridSample", [floats("n", 2, 5, 6), floats("n", "p", "q", 2, how="wide")], attributes, opset=22, least={"n": 1, "p": 1, "q": 1}, loose=1e-3, slow=True)


@operator
def roi_align(r):
    attributes = {"mode": pick(r, "avg", "max"), "output_height": 3, "output_width": 2, "sampling_ratio": pick(r, 0, 2), "spatial_scale": 0.5,
                  "coordinate_transformation_mode": pick(r, "half_pixel", "output_half_pixel")}
    return Case("RoiAlign", [floats(2, "c", 9, 8), floats("r", 4, how="boxes"), ("int64", ("r",), 2)], attributes, opset=22, least={"c": 1}, slow=True)


@operator
def max_roi_pool(r):
    shape = [pick(r, 1, 2, 3), pick(r, 2, 5)]
    return Case("MaxRoiPool", [floats(2, "c", 9, 8), floats("r", 5, how="regions")], {"pooled_shape": shape, "spatial_scale": pick(r, 0.5, 1.0)}, opset=22,
                least={"c": 1, "r": 1}, judge="ort")


@operator
def deform_conv(r):
    group, mask = pick(r, 1, 2), r.random() < 0.5
    inputs = [floats(1, 2, "h", 4), floats(2, 2 // group, 3, 2), floats(1, 12, "h", 3, how="small"), floats(2), floats(1, 6, "h", 3, how="uniform") if mask else None]
    return Case("DeformConv", inputs, {"group": group, "pads": [1, 0, 1, 0], "kernel_shape": [3, 2]}, opset=22, least={"h": 2}, slow=True)


@operator
def col2im(r):
    return Case("Col2Im", [floats("n", "c6", 16), np.array([5, 6]), np.array([2, 3])], {}, opset=18, least={"n": 1, "c6": 6}, slow=True)


@operator
def global_lp_pool(r):
    spatial = pick(r, ("h",), ("h", "w"))
    return Case("GlobalLpPool", [floats("n", "c", *spatial)], {"p": pick(r, 1, 2, 3)}, opset=22, least={"n": 1, "c": 1, "h": 1, "w": 1}, judge="ort")


@operator
def center_crop_pad(r):
    return Case("CenterCropPad", [floats("n", "h", "w"), np.array([pick(r, 3, 8), pick(r, 4, 9)])], {"axes": [1, 2]}, opset=18)


@operator
def dft(r):
    complex_, inverse = r.random() < 0.5, r.random() < 0.5
    attributes = {"inverse": int(inverse), "onesided": int(not complex_ and not inverse and r.random() < 0.5)}
    length = [np.array(pick(r, 4, 9))] if r.random() < 0.4 else [None]
    return Case("DFT", [floats("b", "n", "m", 2 if complex_ else 1), *length, np.array(pick(r, 1, -2))], attributes, opset=20, least={"n": 1, "m": 1, "b": 1})


@operator
def stft(r):
    window = [floats(8)] if r.random() < 0.5 else [None]
    return Case("STFT", [floats("b", "n", 1), np.array(3), *window, np.array(8)], {"onesided": int(r.integers(2))}, opset=17, least={"n": 8, "b": 1})


@operator
def cum_prod(r):
    return Case("CumProd", [floats("n", "m", how="near one"), np.array(pick(r, 0, 1, -1))], {"exclusive": int(r.integers(2)), "reverse": int(r.integers(2))}, opset=26)


@operator
def cum_sum_of_an_axis_from_data(r):
    return Case("CumSum", [floats("n", "m"), ("int64", (), 2)], {"exclusive": int(r.integers(2)), "reverse": int(r.integers(2))}, opset=14)


# ---- numbers of few bits ---------------------------------------------------------------------------------------------------

SMALL = ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1", "INT4", "UINT4", "INT2", "UINT2"]


@operator
def cast_to_few_bits(r):
    return Case("Cast", [floats("n", "m", how="few", dtype=pick(r, "float32", "float16"))], {"to": TensorProto.DataType.Value(pick(r, *SMALL))})


@operator
def quantize_blocks(r):
    kind = pick(r, "INT4", "UINT4", "INT8", "FLOAT8E4M3FN")
    return Case("QuantizeLinear", [floats("n", 12), floats("n", 3, how="uniform")], {"axis": 1, "block_size": 4, "output_dtype": TensorProto.DataType.Value(kind)}, least={"n": 1})


@operator
def dequantize_blocks(r):
    return Case("DequantizeLinear", [(pick(r, "int8", "uint8"), ("n", 12), 100), floats("n", 3, how="uniform")], {"axis": 1, "block_size": 4}, least={"n": 1})


@operator
def qlinear_matmul(r):
    a, b = pick(r, "int8", "uint8"), pick(r, "int8", "uint8")
    inputs = [(a, ("n", "k"), 100), np.float32(0.05), np.array(3, a), (b, ("k", "m"), 100), np.float32(0.04), np.array(5, b), np.float32(3), np.array(7, a)]
    return Case("QLinearMatMul", inputs, {}, opset=21, least={"k": 1})


@operator
def qlinear_conv(r):
    a = pick(r, "int8", "uint8")
    w = r.integers(-50, 50, (5, 3, 3, 3)).astype("i1")
    inputs = [(a, ("n", 3, "h", "w"), 100), np.float32(0.05), np.array(3, a), w, (r.random(5) + 0.1).astype("f4") / 20, np.zeros(5, "i1"), np.float32(3), np.array(7, a),
              r.integers(-500, 500, 5).astype("i4")]
    return Case("QLinearConv", inputs, {"pads": [1, 1, 1, 1], "strides": pick(r, [1, 1], [2, 1])}, opset=10, least={"n": 1, "h": 2, "w": 2})


@operator
def qlinear_conv_last(r):
    a, group = pick(r, "int8", "uint8"), pick(r, 1, 3)
    w = r.integers(-50, 50, (6, 3 // group, 3, 3)).astype("i1")
    inputs = [(a, ("n", "h", "w", 3), 100), np.float32(0.05), np.array(3, a), w, (r.random(6) + 0.1).astype("f4") / 20, np.zeros(6, "i1"), np.float32(3), np.array(7, a),
              r.integers(-500, 500, 6).astype("i4") if r.random() < 0.7 else None]
    attributes = {"pads": [1, 1, 1, 1], "strides": pick(r, [1, 1], [2, 1]), "channels_last": 1, "group": group}
    return Case("QLinearConv", inputs, attributes, domain="com.microsoft", least={"n": 1, "h": 2, "w": 2}, judge="ort")


@operator
def qlinear_pool_last(r):
    a, last = pick(r, "int8", "uint8"), int(r.integers(2))
    x = (a, ("n", "h", "w", 3) if last else ("n", 3, "h", "w"), 100)
    inputs = [x, np.float32(0.05), np.array(3, a), np.float32(0.06), np.array(7, a)]
    if r.random() < 0.5:
        return Case("QLinearGlobalAveragePool", inputs, {"channels_last": last}, domain="com.microsoft", least={"n": 1, "h": 1, "w": 1}, judge="ort")
    attributes = {"channels_last": last, "kernel_shape": [2, 3], "strides": [1, 2], "pads": [0, 1, 0, 1], "count_include_pad": int(r.integers(2))}
    return Case("QLinearAveragePool", inputs, attributes, domain="com.microsoft", least={"n": 1, "h": 2, "w": 2}, judge="ort")


@operator
def max_pool_last(r):
    attributes = {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [0, 1, 0, 1]}
    return Case("NhwcMaxPool", [(pick(r, "int8", "uint8"), ("n", "h", "w", 3), 100)], attributes, domain="com.microsoft", least={"n": 1, "h": 2, "w": 2}, judge="ort")


@operator
def qgemm(r):
    a, kind, each = "uint8", pick(r, "int8", "uint8"), r.random() < 0.5
    trans_a, trans_b = int(r.integers(2)), int(r.integers(2))
    b = r.integers(*((-60, 60) if kind == "int8" else (0, 120)), (5, 9) if trans_b else (9, 5)).astype(kind)
    scale = ((r.random(5) + 0.1) / 20).astype("f4") if each else np.float32(0.04)
    zero = np.full(5, 0 if kind == "int8" else 60, kind) if each else np.array(0 if kind == "int8" else 60, kind)
    out = [np.float32(2), np.array(9, a)] if r.random() < 0.5 else []
    inputs = [(a, (9, "m") if trans_a else ("m", 9), 100), np.float32(0.05), np.array(3, a), b, scale, zero,
              r.integers(-500, 500, 5).astype("i4") if out or r.random() < 0.5 else None, *out]
    return Case("QGemm", inputs, {"transA": trans_a, "transB": trans_b, "alpha": pick(r, 1.0, 0.5)}, domain="com.microsoft", least={"m": 1}, judge="ort")


@operator
def dynamic_quantize_matmul(r):
    kind, each, batch = pick(r, "int8", "uint8"), r.random() < 0.5, r.random() < 0.4
    b = r.integers(*((-100, 100) if kind == "int8" else (20, 220)), (9, 5)).astype(kind)
    scale = ((r.random(5) + 0.1) / 20).astype("f4") if each else np.float32(0.04)
    zero = np.full(5, 3 if kind == "int8" else 120, kind) if each else np.array(3 if kind == "int8" else 120, kind)
    bias, zero = floats(5) if r.random() < 0.5 else None, zero if r.random() < 0.7 else None
    rows = ("n", "m") if batch else ("m",)
    if r.random() < 0.5:
        return Case("DynamicQuantizeMatMul", [floats(*rows, 9), b, scale, zero, bias], {}, domain="com.microsoft", least={"m": 1, "n": 1}, judge="ort", loose=2e-2)
    inputs = [("uint8", (*rows, 9), 200), b, np.float32(0.02), scale, np.array(7, "u1"), zero, bias]
    return Case("MatMulIntegerToFloat", inputs, {}, domain="com.microsoft", least={"m": 1, "n": 1}, judge="ort")


@operator
def qlinear_where(r):
    a = pick(r, "int8", "uint8")
    inputs = [("bool", ("n", "m"), "bits"), (a, ("n", "m"), 100), np.float32(0.05), np.array(3, a), (a, (1, "m"), 100), np.float32(0.04), np.array(5, a),
              np.float32(0.06), np.array(7, a)]
    return Case("QLinearWhere", inputs, {}, domain="com.microsoft", least={"n": 1, "m": 1}, judge="ort")


# ---- minor ones, which are said by others ---------------------------------------------------------------------------------


@operator
def once_tried(r):
    x = floats("n", 3, "h", "w")
    op, attributes = pick(r, ("Affine", {"alpha": 0.5, "beta": 0.2}), ("Scale", {"scale": 0.3}), ("ScaledTanh", {"alpha": 0.7, "beta": 0.4}),
                          ("ParametricSoftplus", {"alpha": 0.7, "beta": 0.4}), ("ImageScaler", {"scale": 0.5, "bias": [0.1, 0.2, 0.3]}),
                          ("Crop", {"border": [1, 0, 2, 1]}), ("Crop", {"border": [1, 2, 0, 0], "scale": [2, 3]}))
    return Case(op, [x], attributes, opset=8, least={"n": 1, "h": 5, "w": 5}, judge="ort")


@operator
def copies_of_onnx(r):
    kind = pick(r, "Range", "ExpandDims", "Trilu", "GatherND", "Pad", "CDist", "MatMulInteger16")
    attributes = {}
    if kind == "Range":
        inputs = [np.array(2.0, "f4"), np.array(pick(r, 7.0, 9.5), "f4"), *([np.array([0.5], "f4")] if r.random() < 0.5 else [])]
    elif kind == "ExpandDims":
        inputs = [floats("n", "m"), np.array(pick(r, 0, 1, 2, -1), "i4")]
    elif kind == "Trilu":
        inputs, attributes = [floats("b", "n", "m"), np.array(pick(r, -1, 0, 2))], {"upper": int(r.integers(2))}
    elif kind == "GatherND":
        inputs = [floats(5, 6, "m"), ("int64", ("n", 2), 5)]
    elif kind == "Pad":
        inputs = [floats("n", "m"), np.array(pick(r, [[1, 0, 2, 3]], [1, 0, 2, 3])), np.array([0.5], "f4")]
    elif kind == "CDist":
        inputs, attributes = [floats("m", 5), floats("n", 5)], {"metric": pick(r, "euclidean", "sqeuclidean")}
    else:
        inputs = [("int16", ("n", 6), (-900, 900)), ("int16", (6, "m"), (-900, 900))]
    return Case(kind, inputs, attributes, domain="com.microsoft", least={"n": 1, "m": 1, "b": 1}, judge="ort", loose=1e-3 if kind == "CDist" else 1e-4)


@operator
def matmul_bnb4(r):
    n, k, block = pick(r, 4, 9), pick(r, 32, 64), pick(r, 16, 32)
    b, absmax = r.integers(0, 256, n * k // 2).astype("u1"), (r.random(n * k // block) + 0.1).astype("f4")
    attributes = {"N": n, "K": k, "block_size": block, "quant_type": int(r.integers(2))}
    return Case("MatMulBnb4", [floats("m", k), b, absmax], attributes, domain="com.microsoft", least={"m": 1}, judge="ort")


@operator
def gated(r):
    if r.random() < 0.4:
        return Case("GatedAdd", [floats("n", "m", 8), floats("n", "m", 8), floats("n", "m", 1)], {}, domain="com.microsoft", least={"n": 1, "m": 1}, judge="ort")
    inputs = [floats("n", "m", 24), floats(pick(r, 8, 24)), floats("n", "m", 24)]
    return Case("GatedRMSNorm", inputs, {"activation": pick(r, "silu", "swish", "sigmoid"), "epsilon": 1e-4}, domain="com.microsoft", least={"n": 1, "m": 1}, judge="ort")


@operator
def quantised_embed_norm(r):
    segments, mask = r.random() < 0.6, r.random() < 0.6

    def table(rows):
        return r.integers(0, 200, (rows, 8)).astype("u1")

    inputs = [("int32", ("b", "s"), 30), ("int32", ("b", "s"), 4) if segments else None, table(30), table(40), table(4) if segments else None,
              r.integers(0, 200, 8).astype("u1"), r.integers(0, 200, 8).astype("u1"), ("int32", ("b", "s"), 2) if mask else None,
              *[np.float32(s) if segments or i != 2 else None for i, s in enumerate((0.02, 0.01, 0.03, 0.01, 0.02))],
              *[np.array(z, "u1") if segments or i != 2 else None for i, z in enumerate((100, 90, 110, 7, 50))]]
    return Case("QEmbedLayerNormalization", inputs, {"epsilon": 1e-5}, 2, "com.microsoft", least={"b": 1, "s": 1}, judge="ort")
