#!/usr/bin/env python3
"""Train the digits model: a small convolutional network on scikit-learn's handwritten digits.

    python3 examples/digits/train.py        writes digits.onnx and held_out.npz beside itself

The network is written out in NumPy, forward and backward, so that nothing stands between the reader
and what the model computes:

    image / 16 -> conv 3x3 -> batch norm -> relu
               -> conv 3x3 -> batch norm -> relu -> max pool 2x2
               -> dense 64 -> relu -> dense 10 -> softmax

held_out.npz has the 360 images that training never saw, their labels, and what this program itself
answered: its probabilities, its predictions and how many of them are right. A compiled model has to
be right about the same images. The seed is fixed; training takes about half a minute.
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

SEED, EPOCHS, BATCH, HELD_OUT, MOMENTUM, EPSILON = 7, 30, 32, 360, 0.9, 1e-5
HERE = pathlib.Path(__file__).parent


# ---- layers: forward returns the output and what backward needs ------------------------------------


def windows(x: np.ndarray) -> np.ndarray:
    """The 3x3 neighbourhood of every pixel, zero outside: [n, c, h, w] -> [n, h, w, c*9]."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return view.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


def conv(x, weight, bias):
    cols = windows(x)
    return (cols @ weight.reshape(len(weight), -1).T + bias).transpose(0, 3, 1, 2), (x.shape, cols)


def conv_backward(dy, weight, saved):
    (n, c, h, w), cols = saved
    dy = dy.transpose(0, 2, 3, 1)
    dweight = np.einsum("nhwf,nhwk->fk", dy, cols, optimize=True).reshape(weight.shape)
    dcols = (dy @ weight.reshape(len(weight), -1)).reshape(n, h, w, c, 3, 3)
    dx = np.zeros((n, c, h + 2, w + 2), np.float32)
    for r in range(3):
        for s in range(3):
            dx[:, :, r : r + h, s : s + w] += dcols[..., r, s].transpose(0, 3, 1, 2)
    return dx[:, :, 1:-1, 1:-1], dweight, dy.sum((0, 1, 2))


def channels(v: np.ndarray) -> np.ndarray:
    return v[None, :, None, None]


def batch_norm(x, scale, shift, mean, variance):
    normal = (x - channels(mean)) / channels(np.sqrt(variance + np.float32(EPSILON)))
    return normal * channels(scale) + channels(shift), normal


def batch_norm_backward(dy, scale, normal, variance):
    dscale, dshift = (dy * normal).sum((0, 2, 3)), dy.sum((0, 2, 3))
    count = np.float32(dy.size / dy.shape[1])
    centred = dy - channels(dshift / count) - normal * channels(dscale / count)
    return centred * channels(scale / np.sqrt(variance + np.float32(EPSILON))), dscale, dshift


def max_pool(x):
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
    y = blocks.max((3, 5))
    return y, blocks == y[:, :, :, None, :, None]


def max_pool_backward(dy, chosen):
    n, c, h, _, w, _ = chosen.shape
    return (dy[:, :, :, None, :, None] * chosen).reshape(n, c, 2 * h, 2 * w)


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


# ---- the network -----------------------------------------------------------------------------------


def initial(rng: np.random.Generator) -> tuple[dict, dict]:
    def normal(*shape):
        fan_in = np.prod(shape[1:])
        return (rng.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32)

    zeros, ones = (lambda n: np.zeros(n, np.float32)), (lambda n: np.ones(n, np.float32))
    weights = {
        "conv1.weight": normal(16, 1, 3, 3), "conv1.bias": zeros(16), "norm1.scale": ones(16), "norm1.shift": zeros(16),
        "conv2.weight": normal(32, 16, 3, 3), "conv2.bias": zeros(32), "norm2.scale": ones(32), "norm2.shift": zeros(32),
        "dense1.weight": normal(64, 512), "dense1.bias": zeros(64),
        "dense2.weight": normal(10, 64), "dense2.bias": zeros(10),
    }
    running = {"norm1.mean": zeros(16), "norm1.variance": ones(16), "norm2.mean": zeros(32), "norm2.variance": ones(32)}
    return weights, running


def predict(w: dict, running: dict, images: np.ndarray) -> np.ndarray:
    """What the exported model computes: batch norms use the running statistics."""
    x = images / np.float32(16)
    for i in "12":
        x, _ = conv(x, w[f"conv{i}.weight"], w[f"conv{i}.bias"])
        x, _ = batch_norm(x, w[f"norm{i}.scale"], w[f"norm{i}.shift"], running[f"norm{i}.mean"], running[f"norm{i}.variance"])
        x = np.maximum(x, 0)
    x, _ = max_pool(x)
    x = np.maximum(x.reshape(len(x), -1) @ w["dense1.weight"].T + w["dense1.bias"], 0)
    return softmax(x @ w["dense2.weight"].T + w["dense2.bias"])


def gradients(w: dict, running: dict, images: np.ndarray, labels: np.ndarray) -> tuple[float, dict]:
    """Loss and gradients of one batch; the running statistics move towards the batch's."""
    g, saved, x = {}, {}, images / np.float32(16)
    for i in "12":
        x, saved[f"conv{i}"] = conv(x, w[f"conv{i}.weight"], w[f"conv{i}.bias"])
        mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
        for name, value in (("mean", mean), ("variance", variance)):
            running[f"norm{i}.{name}"] = MOMENTUM * running[f"norm{i}.{name}"] + (1 - MOMENTUM) * value
        x, normal = batch_norm(x, w[f"norm{i}.scale"], w[f"norm{i}.shift"], mean, variance)
        x = np.maximum(x, 0)
        saved[f"norm{i}"] = (normal, variance, x > 0)
    x, chosen = max_pool(x)
    flat = x.reshape(len(x), -1)
    hidden = np.maximum(flat @ w["dense1.weight"].T + w["dense1.bias"], 0)
    p = softmax(hidden @ w["dense2.weight"].T + w["dense2.bias"])

    rows = np.arange(len(labels))
    loss = float(-np.log(p[rows, labels] + 1e-12).mean())
    p[rows, labels] -= 1
    d = p / np.float32(len(labels))
    g["dense2.weight"], g["dense2.bias"] = d.T @ hidden, d.sum(0)
    d = (d @ w["dense2.weight"]) * (hidden > 0)
    g["dense1.weight"], g["dense1.bias"] = d.T @ flat, d.sum(0)
    d = max_pool_backward((d @ w["dense1.weight"]).reshape(x.shape), chosen)
    for i in "21":
        normal, variance, positive = saved[f"norm{i}"]
        d, g[f"norm{i}.scale"], g[f"norm{i}.shift"] = batch_norm_backward(d * positive, w[f"norm{i}.scale"], normal, variance)
        d, g[f"conv{i}.weight"], g[f"conv{i}.bias"] = conv_backward(d, w[f"conv{i}.weight"], saved[f"conv{i}"])
    return loss, g


def shifted(rng: np.random.Generator, images: np.ndarray) -> np.ndarray:
    """Each image moved by up to one pixel each way: a digit is the same digit a little to the left."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    corner = rng.integers(0, 3, (len(images), 2))
    return np.stack([padded[i, :, y : y + 8, x : x + 8] for i, (y, x) in enumerate(corner)])


def train(images: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> tuple[dict, dict]:
    """Adam, with the step falling to nothing along half a cosine."""
    w, running = initial(rng)
    first = {k: np.zeros_like(v) for k, v in w.items()}
    second = {k: np.zeros_like(v) for k, v in w.items()}
    step, steps = 0, EPOCHS * (len(images) // BATCH)
    for epoch in range(EPOCHS):
        order, total = rng.permutation(len(images)), 0.0
        for start in range(0, len(images) - BATCH + 1, BATCH):
            pick = order[start : start + BATCH]
            loss, g = gradients(w, running, shifted(rng, images[pick]), labels[pick])
            step, total = step + 1, total + loss
            rate = 2e-3 * (1 + np.cos(np.pi * step / steps)) / 2
            for k in w:
                first[k] += 0.1 * (g[k] - first[k])
                second[k] += 0.001 * (g[k] ** 2 - second[k])
                unbiased = np.sqrt(second[k] / (1 - 0.999**step)) + 1e-8
                w[k] -= (rate * first[k] / (1 - 0.9**step) / unbiased).astype(np.float32)
        print(f"epoch {epoch + 1:2}/{EPOCHS}   loss {total / (len(images) // BATCH):.4f}", flush=True)
    return w, {k: v.astype(np.float32) for k, v in running.items()}


# ---- export ----------------------------------------------------------------------------------------


def export(w: dict, running: dict) -> onnx.ModelProto:
    node = helper.make_node
    tensors = {**w, **running, "white": np.float32(16)}
    nodes = [node("Div", ["image", "white"], ["scaled"], "scale")]
    x = "scaled"
    for i in "12":
        nodes += [
            node("Conv", [x, f"conv{i}.weight", f"conv{i}.bias"], [f"conv{i}_out"], f"conv{i}",
                 kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            node("BatchNormalization",
                 [f"conv{i}_out", f"norm{i}.scale", f"norm{i}.shift", f"norm{i}.mean", f"norm{i}.variance"],
                 [f"norm{i}_out"], f"norm{i}", epsilon=EPSILON),
            node("Relu", [f"norm{i}_out"], [f"relu{i}_out"], f"relu{i}"),
        ]
        x = f"relu{i}_out"
    nodes += [
        node("MaxPool", [x], ["pooled"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["pooled"], ["flat"], "flatten"),
        node("Gemm", ["flat", "dense1.weight", "dense1.bias"], ["dense1_out"], "dense1", transB=1),
        node("Relu", ["dense1_out"], ["hidden"], "relu3"),
        node("Gemm", ["hidden", "dense2.weight", "dense2.bias"], ["logits"], "dense2", transB=1),
        node("Softmax", ["logits"], ["probability"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(np.ascontiguousarray(v), k) for k, v in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="digits/train.py")
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    rng = np.random.default_rng(SEED)
    digits = load_digits()
    images, labels = digits.images.astype(np.float32)[:, None], digits.target.astype(np.int64)
    order = rng.permutation(len(images))
    held, rest = order[:HELD_OUT], order[HELD_OUT:]
    w, running = train(images[rest], labels[rest], rng)
    probability = predict(w, running, images[held])
    prediction = probability.argmax(1)
    correct = int((prediction == labels[held]).sum())
    print(f"held out: {correct} of {HELD_OUT} right, {100 * correct / HELD_OUT:.2f} %")
    onnx.save(export(w, running), HERE / "digits.onnx")
    np.savez(HERE / "held_out.npz", images=images[held], labels=labels[held], predictions=prediction,
             probabilities=probability, correct=np.int64(correct))


if __name__ == "__main__":
    main()
