#!/usr/bin/env python3
"""Train the small decoder of this folder: NumPy alone, gradients by hand; twenty minutes of a core.

    train.py [--steps N]        reads pride.txt; writes tokens.txt and austen.onnx
    train.py --export           writes austen.onnx anew, with the weights that it has

The text is Jane Austen's "Pride and Prejudice" (1813), in the public domain. The tokenizer is byte-level: tokens 0 to 255 are
bytes, every other one is two tokens joined, in the order in which they were found to be the most frequent pair inside of
words; tokens.txt has a line "left right" for each. The model is a decoder of three layers: root-mean-square norms, three heads
whose scores fall with the distance (ALiBi: O. Press, N. Smith, M. Lewis, "Train Short, Test Long", ICLR 2022), SiLU, and an
embedding that is also the output's matrix. It is exported as exporters of language models do it: input_ids, attention_mask and
past_key_values.N.key, .value go in, logits and present.N.key, .value come out. Distances count what the mask shows, so that rows
of others may lie between those of a sequence. The model that is committed has a loss of 2.53
nats a token; a run that is stopped goes on from austen.npz.
"""
import argparse
import collections
import math
import pathlib
import re
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
KEPT = HERE / "austen.npz"
WIDTH, HEADS, INNER, LAYERS, WORDS, LENGTH, BATCH = 96, 3, 384, 3, 512, 128, 12
SIZE = WIDTH // HEADS
SLOPES = np.array([2.0 ** (-2 * (h + 1)) for h in range(HEADS)], np.float32)


# ---- tokens -----------------------------------------------------------------------------------------------


def learn_pairs(text: bytes, count: int) -> list[tuple[int, int]]:
    """The most frequent pair of neighbours inside of words is a token, again and again."""
    words = collections.Counter(re.findall(rb" ?[A-Za-z']+| ?[0-9]+| ?[^A-Za-z0-9\s']+|\s+", text))
    words = [(list(w), n) for w, n in words.items()]
    pairs = []
    for token in range(256, 256 + count):
        seen = collections.Counter()
        for w, n in words:
            for pair in zip(w, w[1:]):
                seen[pair] += n
        best = max(seen, key=lambda p: (seen[p], p))
        pairs.append(best)
        words = [(merge(w, best, token), n) for w, n in words]
    return pairs


def merge(w: list[int], pair: tuple[int, int], token: int) -> list[int]:
    out, i = [], 0
    while i < len(w):
        if i + 1 < len(w) and (w[i], w[i + 1]) == pair:
            out.append(token)
            i += 2
        else:
            out.append(w[i])
            i += 1
    return out


def encode(text: bytes, pairs: list[tuple[int, int]]) -> np.ndarray:
    known, out = {}, []
    for w in re.findall(rb" ?[A-Za-z']+| ?[0-9]+| ?[^A-Za-z0-9\s']+|\s+", text):
        if w not in known:
            ids = list(w)
            for i, pair in enumerate(pairs):
                ids = merge(ids, pair, 256 + i)
            known[w] = ids
        out += known[w]
    return np.array(out)


# ---- the model: forward, and back --------------------------------------------------------------------------


def weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    def normal(*shape, scale):
        return (rng.standard_normal(shape) * scale).astype(np.float32)
    w = {"words": normal(WORDS, WIDTH, scale=0.05), "norm": np.ones(WIDTH, np.float32)}
    for k in range(LAYERS):
        small = 0.5 / math.sqrt(WIDTH * LAYERS)
        w |= {f"{k}.norm1": np.ones(WIDTH, np.float32), f"{k}.norm2": np.ones(WIDTH, np.float32),
              f"{k}.q": normal(WIDTH, WIDTH, scale=0.08), f"{k}.k": normal(WIDTH, WIDTH, scale=0.08), f"{k}.v": normal(WIDTH, WIDTH, scale=0.08),
              f"{k}.o": normal(WIDTH, WIDTH, scale=small), f"{k}.up": normal(WIDTH, INNER, scale=0.08), f"{k}.down": normal(INNER, WIDTH, scale=small)}
    return w


def norm(x, gain):
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    return x * r * gain, (x, r, gain)


def norm_back(d, saved):
    x, r, gain = saved
    g = d * gain
    return r * (g - x * (r * r) * (g * x).mean(-1, keepdims=True)), (d * x * r).sum((0, 1))


def heads(x):
    return x.reshape(*x.shape[:2], HEADS, SIZE).transpose(0, 2, 1, 3)


def rows(x):
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], WIDTH)


def loss_and_gradients(w, ids, target, mask):
    """ids, target [b, t]; mask [heads, t, t]: what is added to the scores."""
    saved, g = [], {}
    x = w["words"][ids]
    for k in range(LAYERS):
        n1, s1 = norm(x, w[f"{k}.norm1"])
        q, key, v = heads(n1 @ w[f"{k}.q"]), heads(n1 @ w[f"{k}.k"]), heads(n1 @ w[f"{k}.v"])
        p = q @ key.transpose(0, 1, 3, 2) * np.float32(SIZE ** -0.5) + mask
        p = np.exp(p - p.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        a = rows(p @ v)
        x1 = x + a @ w[f"{k}.o"]
        n2, s2 = norm(x1, w[f"{k}.norm2"])
        u = n2 @ w[f"{k}.up"]
        s = 1 / (1 + np.exp(-u))
        h = u * s
        saved.append((n1, s1, q, key, v, p, a, n2, s2, u, s, h))
        x = x1 + h @ w[f"{k}.down"]
    y, last = norm(x, w["norm"])
    z = y @ w["words"].T
    z -= z.max(-1, keepdims=True)
    e = np.exp(z)
    total = e.sum(-1, keepdims=True)
    at = (np.arange(len(ids))[:, None], np.arange(ids.shape[1])[None], target)
    loss = float((np.log(total[..., 0]) - z[at]).mean())
    d = e / total
    d[at] -= 1
    d *= np.float32(1 / ids.size)
    flat = lambda m: m.reshape(-1, m.shape[-1])
    g["words"] = flat(d).T @ flat(y)
    d, g["norm"] = norm_back(d @ w["words"], last)
    for k in reversed(range(LAYERS)):
        n1, s1, q, key, v, p, a, n2, s2, u, s, h = saved[k]
        g[f"{k}.down"] = flat(h).T @ flat(d)
        du = (d @ w[f"{k}.down"].T) * (s + h * (1 - s))
        g[f"{k}.up"] = flat(n2).T @ flat(du)
        back, g[f"{k}.norm2"] = norm_back(du @ w[f"{k}.up"].T, s2)
        d = d + back
        g[f"{k}.o"] = flat(a).T @ flat(d)
        da = heads(d @ w[f"{k}.o"].T)
        dv = p.transpose(0, 1, 3, 2) @ da
        dp = da @ v.transpose(0, 1, 3, 2)
        ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * np.float32(SIZE ** -0.5)
        dq, dk, dv = rows(ds @ key), rows(ds.transpose(0, 1, 3, 2) @ q), rows(dv)
        g[f"{k}.q"], g[f"{k}.k"], g[f"{k}.v"] = flat(n1).T @ flat(dq), flat(n1).T @ flat(dk), flat(n1).T @ flat(dv)
        back, g[f"{k}.norm1"] = norm_back(dq @ w[f"{k}.q"].T + dk @ w[f"{k}.k"].T + dv @ w[f"{k}.v"].T, s1)
        d = d + back
    np.add.at(g["words"], ids, d)
    return loss, g


def train(w, data, steps, rng):
    """Adam, with a rate that rises over the first steps and falls to nothing."""
    m, v, first = {k: np.zeros_like(x) for k, x in w.items()}, {k: np.zeros_like(x) for k, x in w.items()}, 1
    if KEPT.exists():
        kept = np.load(KEPT)
        w, m, v = ({k: kept[f"{part}/{k}"] for k in w} for part in "wmv")
        first = int(kept["step"]) + 1
    far = np.arange(LENGTH)[None] - np.arange(LENGTH)[:, None]
    mask = np.where(far > 0, np.float32(-1e9), SLOPES[:, None, None] * far).astype(np.float32)
    start, mean = time.time(), None
    for step in range(first, steps + 1):
        at = rng.integers(0, len(data) - LENGTH - 1, BATCH)[:, None] + np.arange(LENGTH + 1)
        loss, g = loss_and_gradients(w, data[at[:, :-1]], data[at[:, 1:]], mask)
        mean = loss if mean is None else 0.98 * mean + 0.02 * loss
        rate = 3e-3 * min(1, step / 50) * 0.5 * (1 + math.cos(math.pi * step / steps))
        size = math.sqrt(sum(float((x * x).sum()) for x in g.values()))
        for k in w:
            d = g[k] * np.float32(min(1, 1 / size))
            m[k] += 0.1 * (d - m[k])
            v[k] += 0.02 * (d * d - v[k])
            w[k] -= np.float32(rate) * ((m[k] / (1 - 0.9 ** step)) / (np.sqrt(v[k] / (1 - 0.98 ** step)) + 1e-8) + (0.05 * w[k] if w[k].ndim > 1 else 0))
        if step % 50 == 0 or step == steps:
            print(f"step {step}: loss {mean:.3f}, {(time.time() - start) / (step + 1 - first):.2f} s a step", flush=True)
            np.savez(KEPT, step=step, **{f"{part}/{k}": x for part, all in (("w", w), ("m", m), ("v", v)) for k, x in all.items()})
    KEPT.unlink(missing_ok=True)
    return w


# ---- export -------------------------------------------------------------------------------------------------


def export(w) -> onnx.ModelProto:
    nodes, constants = [], {k: x for k, x in w.items() if k != "words"}
    constants |= {"words": w["words"], "head": np.ascontiguousarray(w["words"].T), "slopes": SLOPES.reshape(1, HEADS, 1, 1)}
    ints = {"zero": [0], "one": [1], "two": [2], "split": [0, 0, HEADS, SIZE], "join": [0, 0, WIDTH], "ahead": [0], "behind": [1],
            "middle": [1, 2], "outside": [1, 3]}
    constants |= {k: np.array(v, np.int64) for k, v in ints.items()}
    constants |= {"zero.": np.int64(0), "one.": np.int64(1), "scale": np.float32(SIZE ** -0.5), "never": np.float32(-1e9), "tiny": np.float32(1e-6)}

    def node(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def normed(x, gain, name):
        mean = node("ReduceMean", [node("Mul", [x, x], f"{name}.square")], f"{name}.mean", axes=[-1])
        root = node("Sqrt", [node("Add", [mean, "tiny"], f"{name}.sum")], f"{name}.root")
        return node("Mul", [node("Div", [x, root], f"{name}.plain"), gain], name)

    past = node("Gather", [node("Shape", ["past_key_values.0.key"], "past.shape"), "two"], "past")
    new = node("Gather", [node("Shape", ["input_ids"], "ids.shape"), "one"], "new")
    all_rows = node("Add", [past, new], "all")
    first, last = node("Squeeze", [past, "zero"], "past."), node("Squeeze", [all_rows, "zero"], "all.")
    i = node("Unsqueeze", [node("Range", [first, last, "one."], "i."), "behind"], "i")
    j = node("Unsqueeze", [node("Range", ["zero.", last, "one."], "j."), "ahead"], "j")
    shown = node("Unsqueeze", [node("Cast", ["attention_mask"], "shown.", to=TensorProto.BOOL), "middle"], "shown")
    seen = node("And", [node("LessOrEqual", [j, i], "before"), shown], "seen")
    place = node("CumSum", ["attention_mask", "one."], "place")
    here = node("Unsqueeze", [node("Slice", [place, past, all_rows, "one"], "here."), "outside"], "here")
    far = node("Sub", [node("Unsqueeze", [place, "middle"], "there"), here], "far")
    fall = node("Mul", [node("Cast", [far], "far.f32", to=TensorProto.FLOAT), "slopes"], "fall")
    mask = node("Where", [seen, fall, "never"], "mask")
    x = node("Gather", ["words", "input_ids"], "embedded")
    for k in range(LAYERS):
        n = normed(x, f"{k}.norm1", f"{k}.normed1")
        part = {}
        for name in "qkv":
            wide = node("MatMul", [n, f"{k}.{name}"], f"{k}.{name}.rows")
            part[name] = node("Transpose", [node("Reshape", [wide, "split"], f"{k}.{name}.split")], f"{k}.{name}.heads", perm=[0, 2, 1, 3])
        key = node("Concat", [f"past_key_values.{k}.key", part["k"]], f"present.{k}.key", axis=2)
        value = node("Concat", [f"past_key_values.{k}.value", part["v"]], f"present.{k}.value", axis=2)
        scores = node("MatMul", [part["q"], node("Transpose", [key], f"{k}.keys", perm=[0, 1, 3, 2])], f"{k}.scores")
        share = node("Softmax", [node("Add", [node("Mul", [scores, "scale"], f"{k}.scaled"), mask], f"{k}.masked")], f"{k}.share", axis=-1)
        mixed = node("Transpose", [node("MatMul", [share, value], f"{k}.mixed")], f"{k}.mixed.rows", perm=[0, 2, 1, 3])
        x = node("Add", [x, node("MatMul", [node("Reshape", [mixed, "join"], f"{k}.joined"), f"{k}.o"], f"{k}.attended")], f"{k}.x1")
        u = node("MatMul", [normed(x, f"{k}.norm2", f"{k}.normed2"), f"{k}.up"], f"{k}.wide")
        h = node("Mul", [u, node("Sigmoid", [u], f"{k}.gate")], f"{k}.inner")
        x = node("Add", [x, node("MatMul", [h, f"{k}.down"], f"{k}.narrow")], f"{k}.x2")
    node("MatMul", [normed(x, "norm", "normed"), "head"], "logits")
    cache = [f"{k}.{part}" for k in range(LAYERS) for part in ("key", "value")]
    value = helper.make_tensor_value_info
    inputs = [value("input_ids", TensorProto.INT64, ["batch", "new"]), value("attention_mask", TensorProto.INT64, ["batch", "past + new"])]
    inputs += [value(f"past_key_values.{c}", TensorProto.FLOAT, ["batch", HEADS, "past", SIZE]) for c in cache]
    outputs = [value("logits", TensorProto.FLOAT, ["batch", "new", WORDS])]
    outputs += [value(f"present.{c}", TensorProto.FLOAT, ["batch", HEADS, "past + new", SIZE]) for c in cache]
    used = {name for n in nodes for name in n.input}
    graph = helper.make_graph(nodes, "austen", inputs, outputs, [numpy_helper.from_array(np.asarray(x), k) for k, x in constants.items() if k in used])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="examples/generate/train.py")
    onnx.checker.check_model(model)
    return model


def trained() -> dict[str, np.ndarray]:
    kept = {x.name: numpy_helper.to_array(x) for x in onnx.load(HERE / "austen.onnx").graph.initializer}
    return {k: kept[k] for k in weights(np.random.default_rng(0))}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=960)
    p.add_argument("--export", action="store_true")
    o = p.parse_args()
    if o.export:
        onnx.save(export(trained()), HERE / "austen.onnx")
        return
    rng = np.random.default_rng(1813)
    text = (HERE / "pride.txt").read_bytes()
    pairs = learn_pairs(text, WORDS - 256)
    (HERE / "tokens.txt").write_text("".join(f"{a} {b}\n" for a, b in pairs))
    data = encode(text, pairs)
    w = weights(rng)
    print(f"{len(text)} bytes are {len(data)} tokens; {sum(x.size for x in w.values())} parameters", flush=True)
    onnx.save(export(train(w, data, o.steps, rng)), HERE / "austen.onnx")


if __name__ == "__main__":
    main()
