#!/usr/bin/env python3
"""Nets that are unlike those of bench/models, with random weights.

    nets.py FOLDER [NAME…]      writes FOLDER/NAME.onnx for all, or those named

Each has the structure of a family of published nets at a size that one core runs in tens of milliseconds: what counts
is the kind of work, not what the net would know.
"""
import pathlib

import numpy as np

from ops import Model, command


def ints(m, *values):
    return m.constant(np.array(values, np.int64))


def conv(m, x, channels, out, kernel, stride=1, group=1, relu=True):
    kernel = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    pads = [kernel[0] // 2, kernel[1] // 2] * 2
    y = m("Conv", x, m.weight(out, channels // group, *kernel), m.weight(out), strides=[stride] * 2, pads=pads, group=group)
    return m("Relu", y) if relu else y


def norm(m, x, channels):
    """Batch normalisation before a convolution, where it cannot fold into the one before."""
    one = lambda: m.constant(np.abs(np.random.default_rng(channels).standard_normal(channels, dtype=np.float32)) + 0.5)
    return m("BatchNormalization", x, one(), m.weight(channels), m.weight(channels), one())


def linear(m, x, depth, out):
    return m("Add", m("MatMul", x, m.weight(depth, out)), m.weight(out))


def gelu(m, x):
    return m("Mul", m("Mul", x, m.constant(np.float32(0.5))),
             m("Add", m("Erf", m("Div", x, m.constant(np.float32(np.sqrt(2))))), m.constant(np.float32(1))))


def layer_norm(m, x, channels):
    return m("LayerNormalization", x, m.weight(channels), m.weight(channels), axis=-1, epsilon=1e-6)


def head(m, x, channels):
    return linear(m, m("Flatten", m("GlobalAveragePool", x)), channels, 1000)


def max_pool(m, x):
    return m("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def grouped(m):
    """Bottlenecks whose 3x3 layers have 32 groups (Xie et al., ResNeXt, 2017)."""
    x = max_pool(m, conv(m, m.input("image", 1, 3, 224, 224), 3, 64, 7, 2))
    channels = 64
    for stage, (width, blocks) in enumerate([(128, 2), (256, 2), (512, 2), (1024, 2)]):
        for block in range(blocks):
            stride, out = 2 if stage and not block else 1, 2 * width
            y = conv(m, conv(m, x, channels, width, 1), width, width, 3, stride, group=32)
            y = conv(m, y, width, out, 1, relu=False)
            x = x if channels == out else conv(m, x, channels, out, 1, stride, relu=False)
            x, channels = m("Relu", m("Add", x, y)), out
    return head(m, x, channels)


def dense(m):
    """Layers that read all before them in their block, growing by 32 channels (Huang et al., DenseNet, 2017)."""
    x, channels = max_pool(m, conv(m, m.input("image", 1, 3, 224, 224), 3, 64, 7, 2)), 64
    for stage, layers in enumerate([6, 12, 16, 8]):
        if stage:
            x = conv(m, m("Relu", norm(m, x, channels)), channels, channels // 2, 1, relu=False)
            x, channels = m("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2]), channels // 2
        for _ in range(layers):
            y = conv(m, m("Relu", norm(m, x, channels)), channels, 128, 1)
            x, channels = m("Concat", x, conv(m, y, 128, 32, 3, relu=False), axis=1), channels + 32
    return head(m, m("Relu", norm(m, x, channels)), channels)


def large_depthwise(m):
    """7x7 depthwise layers and layer norm over channels (Liu et al., ConvNeXt, 2022)."""
    def over_channels(x, f):
        return m("Transpose", f(m("Transpose", x, perm=[0, 2, 3, 1])), perm=[0, 3, 1, 2])

    x, channels = m.input("image", 1, 3, 224, 224), 3
    for stage, (out, blocks) in enumerate([(96, 2), (192, 2), (384, 6), (768, 2)]):
        size = 2 if stage else 4
        if stage:
            x = over_channels(x, lambda t: layer_norm(m, t, channels))
        x = m("Conv", x, m.weight(out, channels, size, size), m.weight(out), strides=[size] * 2)
        if not stage:
            x = over_channels(x, lambda t: layer_norm(m, t, out))
        channels = out
        for _ in range(blocks):
            y = conv(m, x, out, out, 7, group=out, relu=False)
            y = over_channels(y, lambda t: m("Mul", linear(m, gelu(m, linear(m, layer_norm(m, t, out), out, 4 * out)), 4 * out, out), m.weight(out)))
            x = m("Add", x, y)
    return head(m, x, channels)


def inception(m):
    """Branches of different windows side by side, factored ones among them (Szegedy et al., 2016)."""
    x = conv(m, m.input("image", 1, 3, 224, 224), 3, 32, 3, 2)
    x = max_pool(m, conv(m, conv(m, x, 32, 32, 3), 32, 64, 3))
    x, channels = max_pool(m, conv(m, conv(m, x, 64, 80, 1), 80, 192, 3)), 192
    average = lambda t: m("AveragePool", t, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    for _ in range(3):
        a = conv(m, x, channels, 64, 1)
        b = conv(m, conv(m, x, channels, 48, 1), 48, 64, 5)
        c = conv(m, conv(m, conv(m, x, channels, 64, 1), 64, 96, 3), 96, 96, 3)
        d = conv(m, average(x), channels, 64, 1)
        x, channels = m("Concat", a, b, c, d, axis=1), 288
    a, b = conv(m, x, channels, 256, 3, 2), conv(m, conv(m, x, channels, 64, 1), 64, 96, 3, 2)
    x, channels = m("Concat", a, b, max_pool(m, x), axis=1), 256 + 96 + channels
    for _ in range(3):
        a = conv(m, x, channels, 192, 1)
        b = conv(m, conv(m, conv(m, x, channels, 128, 1), 128, 128, (1, 7)), 128, 192, (7, 1))
        c = conv(m, x, channels, 128, 1)
        for window in ((7, 1), (1, 7), (7, 1)):
            c = conv(m, c, 128, 128, window)
        c = conv(m, c, 128, 192, (1, 7))
        d = conv(m, average(x), channels, 192, 1)
        x, channels = m("Concat", a, b, c, d, axis=1), 768
    return head(m, x, channels)


def high_resolution(m):
    """Branches of three resolutions that exchange what they found (Wang et al., HRNet, 2020)."""
    def residual(x, channels):
        return m("Relu", m("Add", x, conv(m, conv(m, x, channels, channels, 3), channels, channels, 3, relu=False)))

    def up(x, channels, out, factor):
        y = conv(m, x, channels, out, 1, relu=False)
        return m("Resize", y, "", m.constant(np.array([1, 1, factor, factor], np.float32)), mode="nearest",
                 coordinate_transformation_mode="asymmetric", nearest_mode="floor")

    width = [32, 64, 128]
    x = conv(m, conv(m, m.input("image", 1, 3, 224, 224), 3, 64, 3, 2), 64, width[0], 3, 2)
    branch = [x, conv(m, x, width[0], width[1], 3, 2)]
    branch.append(conv(m, branch[1], width[1], width[2], 3, 2))
    for _ in range(3):
        branch = [residual(residual(b, w), w) for b, w in zip(branch, width)]
        mixed = []
        for to in range(3):
            total = branch[to]
            for source in range(3):
                y = branch[source]
                if source > to:
                    y = up(y, width[source], width[to], 2 ** (source - to))
                for step in range(source, to):
                    y = conv(m, y, width[step], width[step + 1], 3, 2, relu=step + 1 < to)
                total = m("Add", total, y) if source != to else total
            mixed.append(m("Relu", total))
        branch = mixed
    ups = [branch[0], up(branch[1], width[1], width[1], 2), up(branch[2], width[2], width[2], 4)]
    return conv(m, m("Concat", *ups, axis=1), sum(width), 19, 1, relu=False)


def denoiser(m):
    """A U of residual blocks with group normalisation, the half of its levels behind a concatenation (Ho et al., 2020)."""
    def group_norm(x, channels, size):
        y = m("Reshape", x, ints(m, 1, 8, -1))
        y = m("InstanceNormalization", y, m.constant(np.ones(8, np.float32)), m.constant(np.zeros(8, np.float32)), epsilon=1e-5)
        y = m("Reshape", y, ints(m, 1, channels, size, size))
        return m("Add", m("Mul", y, m.weight(channels, 1, 1)), m.weight(channels, 1, 1))

    def silu(x):
        return m("Mul", x, m("Sigmoid", x))

    def block(x, channels, out, size):
        y = conv(m, silu(group_norm(x, channels, size)), channels, out, 3, relu=False)
        y = conv(m, silu(group_norm(y, out, size)), out, out, 3, relu=False)
        return m("Add", y, x if channels == out else conv(m, x, channels, out, 1, relu=False))

    def up(x):
        return m("Resize", x, "", m.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest",
                 coordinate_transformation_mode="asymmetric", nearest_mode="floor")

    a = block(conv(m, m.input("image", 1, 3, 64, 64), 3, 64, 3, relu=False), 64, 64, 64)
    b = block(conv(m, a, 64, 128, 3, 2, relu=False), 128, 128, 32)
    c = block(conv(m, b, 128, 256, 3, 2, relu=False), 256, 256, 16)
    x = block(m("Concat", up(c), b, axis=1), 256 + 128, 128, 32)
    x = block(m("Concat", up(x), a, axis=1), 128 + 64, 64, 64)
    return conv(m, silu(group_norm(x, 64, 64)), 64, 3, 3, relu=False)


def generator(m):
    """An image from a vector by transposed convolutions (Radford et al., DCGAN, 2016)."""
    x, channels = m("Reshape", linear(m, m.input("noise", 1, 100), 100, 512 * 16), ints(m, -1, 512, 4, 4)), 512
    for out in (256, 128, 64, 3):
        x = m("ConvTranspose", x, m.weight(channels, out, 4, 4), m.weight(out), strides=[2, 2], pads=[1] * 4)
        x, channels = m("Tanh", x) if out == 3 else m("Relu", x), out
    return x


def windowed_attention(m):
    """Attention inside windows of 7x7, shifted every second time (Liu et al., Swin, 2021)."""
    def windows(x, n, channels):
        x = m("Transpose", m("Reshape", x, ints(m, n // 7, 7, n // 7, 7, channels)), perm=[0, 2, 1, 3, 4])
        return m("Reshape", x, ints(m, (n // 7) ** 2, 49, channels))

    def back(x, n, channels):
        x = m("Transpose", m("Reshape", x, ints(m, n // 7, n // 7, 7, 7, channels)), perm=[0, 2, 1, 3, 4])
        return m("Reshape", x, ints(m, n, n, channels))

    def roll(x, n, by):
        for axis in (0, 1):
            cut = by % n
            parts = [m("Slice", x, ints(m, a), ints(m, b), ints(m, axis)) for a, b in ((cut, n), (0, cut))]
            x = m("Concat", *parts, axis=axis)
        return x

    def attention(x, count, channels, heads):
        size = channels // heads
        qkv = m("Transpose", m("Reshape", linear(m, x, channels, 3 * channels), ints(m, count, 49, 3, heads, size)), perm=[2, 0, 3, 1, 4])
        q, k, v = (m("Squeeze", part, ints(m, 0)) for part in m("Split", qkv, outputs=3, axis=0, num_outputs=3))
        scores = m("MatMul", m("Mul", q, m.constant(np.float32(size ** -0.5))), m("Transpose", k, perm=[0, 1, 3, 2]))
        y = m("MatMul", m("Softmax", m("Add", scores, m.weight(1, heads, 49, 49)), axis=-1), v)
        return linear(m, m("Reshape", m("Transpose", y, perm=[0, 2, 1, 3]), ints(m, count, 49, channels)), channels, channels)

    x, n, channels = m.input("image", 1, 3, 224, 224), 56, 96
    x = m("Conv", x, m.weight(channels, 3, 4, 4), m.weight(channels), strides=[4, 4])
    x = layer_norm(m, m("Reshape", m("Transpose", x, perm=[0, 2, 3, 1]), ints(m, n, n, channels)), channels)
    for stage, (blocks, heads) in enumerate([(2, 3), (2, 6), (2, 12)]):
        if stage:
            x = m("Transpose", m("Reshape", x, ints(m, n // 2, 2, n // 2, 2, channels)), perm=[0, 2, 1, 3, 4])
            x = layer_norm(m, m("Reshape", x, ints(m, n // 2, n // 2, 4 * channels)), 4 * channels)
            x, n, channels = m("MatMul", x, m.weight(4 * channels, 2 * channels)), n // 2, 2 * channels
        for block in range(blocks):
            shifted = block % 2 == 1
            y = layer_norm(m, x, channels)
            y = roll(y, n, 3) if shifted else y
            y = back(attention(windows(y, n, channels), (n // 7) ** 2, channels, heads), n, channels)
            x = m("Add", x, roll(y, n, -3) if shifted else y)
            y = linear(m, gelu(m, linear(m, layer_norm(m, x, channels), channels, 4 * channels)), 4 * channels, channels)
            x = m("Add", x, y)
    return linear(m, m("ReduceMean", x, ints(m, 0, 1), keepdims=0), channels, 1000)


def mixer(m, layers, patch, channels, tokens, token_width, channel_width):
    """Products over tokens and products over channels, in turn (Tolstikhin et al., MLP-Mixer, 2021)."""
    x = m("Conv", m.input("image", 1, 3, 224, 224), m.weight(channels, 3, patch, patch), m.weight(channels), strides=[patch] * 2)
    x = m("Transpose", m("Reshape", x, ints(m, 1, channels, tokens)), perm=[0, 2, 1])
    for _ in range(layers):
        y = m("Transpose", layer_norm(m, x, channels), perm=[0, 2, 1])
        y = linear(m, gelu(m, linear(m, y, tokens, token_width)), token_width, tokens)
        x = m("Add", x, m("Transpose", y, perm=[0, 2, 1]))
        y = linear(m, gelu(m, linear(m, layer_norm(m, x, channels), channels, channel_width)), channel_width, channels)
        x = m("Add", x, y)
    return linear(m, m("ReduceMean", layer_norm(m, x, channels), ints(m, 1), keepdims=0), channels, 1000)


def mixer_s32(m):
    return mixer(m, 8, 32, 512, 49, 256, 2048)


def mixer_b16_42(m):
    """As deep as the one that formats were first searched for (He et al., 2022)."""
    return mixer(m, 42, 16, 768, 196, 384, 3072)


def segmentation(m):
    """Depthwise-separable layers down and up again, with sizes and channels that no vector divides (after Howard et al., 2019)."""
    def separable(x, channels, out, stride=1):
        return conv(m, conv(m, x, channels, channels, 3, stride, group=channels), channels, out, 1)

    def up(x, height, width):
        return m("Resize", x, "", "", m.constant(np.array([1, channels_of[x], height, width], np.int64)), mode="linear")

    channels_of, skips = {}, []
    x, channels, size = conv(m, m.input("image", 1, 3, 225, 321), 3, 27, 3, 2), 27, (113, 161)
    for out, blocks in ((45, 2), (75, 3), (117, 4)):
        skips.append((x, channels, size))
        x, size = separable(x, channels, out, 2), tuple((n + 1) // 2 for n in size)
        channels = out
        for _ in range(blocks):
            x = m("Add", x, separable(x, channels, channels))
    for skip, width, size in reversed(skips):
        x = conv(m, x, channels, width, 1)
        channels_of[x] = width
        x = separable(m("Concat", up(x, *size), skip, axis=1), 2 * width, width)
        channels = width
    return conv(m, x, channels, 21, 1, relu=False)


NETS = {f.__name__: f for f in (grouped, dense, large_depthwise, inception, high_resolution, windowed_attention, denoiser, generator, mixer_s32, mixer_b16_42, segmentation)}


def build(name: str, folder: pathlib.Path) -> pathlib.Path:
    m, path = Model(), folder / f"{name}.onnx"
    m.save(path, NETS[name](m))
    return path


if __name__ == "__main__":
    command(__doc__, NETS, build)
