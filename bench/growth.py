#!/usr/bin/env python3
"""How compiling grows with the model: time and peak memory of four families, from small to large.

    growth.py [--quick] [--json FILE] [FAMILY[:SIZE,…]…]     families: elementwise, products, decoder, nasnet
    growth.py --make FAMILY SIZE FILE                        write one of the models

Every compilation begins with an empty cache. Memory is that of the largest process in it, Tenon's or a C
compiler's. The last column is the time a node takes over what it takes in the row above: where compiling is
linear it stays at 1 or below, however large the model.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
TENON = str(BUILD / "tenon")
SIZES = {"elementwise": (100, 1000, 10000, 100000), "products": (100, 1000, 10000, 100000), "decoder": (8, 16, 32, 64, 128), "nasnet": (2, 4, 6)}
QUICK = {"elementwise": (100, 1000), "products": (100, 1000), "decoder": (8, 16), "nasnet": (2,)}
LIMITS = {("elementwise", 10000): (15, 500), ("products", 10000): (15, 500), ("nasnet", 6): (30, 1000)}     # seconds, MB
MB = 1e6


# ---- the models ----------------------------------------------------------------------------------------


class Model:
    """Nodes in a row; each helper adds one and gives the name of its result."""

    def __init__(self):
        import numpy
        from onnx import helper, numpy_helper

        self.np, self.helper, self.to_tensor = numpy, helper, numpy_helper.from_array
        self.nodes, self.weights, self.random = [], [], numpy.random.default_rng(1)

    def node(self, op: str, *inputs: str, **attributes) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(op, inputs, [name], f"n{len(self.nodes)}", **attributes))
        return name

    def constant(self, value) -> str:
        self.weights.append(self.to_tensor(self.np.asarray(value), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def weight(self, *dims: int) -> str:
        return self.constant((self.random.standard_normal(dims) / dims[0] ** 0.5).astype("float32"))

    def save(self, path: str, inputs: dict, result: str) -> None:
        info = lambda name, dims: self.helper.make_tensor_value_info(name, 1, dims)
        graph = self.helper.make_graph(self.nodes, "growth", [info(*i) for i in inputs.items()], [info(result, None)], self.weights)
        model = self.helper.make_model(graph, opset_imports=[self.helper.make_opsetid("", 17)], ir_version=8)
        pathlib.Path(path).write_bytes(model.SerializeToString())


def elementwise(m: Model, size: int, path: str) -> None:
    """One chain: each node reads the one before."""
    h = "x"
    for i in range(size):
        op = ("Add", "Relu", "Mul", "Sigmoid")[i % 4]
        h = m.node(op, h, "x") if op in ("Add", "Mul") else m.node(op, h)
    m.save(path, {"x": ["batch", 64]}, h)


def products(m: Model, size: int, path: str) -> None:
    """A chain of equal products, each with weights of its own."""
    h = "x"
    for _ in range(size):
        h = m.node("MatMul", h, m.weight(16, 16))
    m.save(path, {"x": ["batch", 16]}, h)


HIDDEN, HEADS, INNER = 64, 4, 128


def decoder(m: Model, layers: int, path: str) -> None:
    """Layers of a language model: root mean square norms, attention under a mask, a gated product."""
    number = lambda x: m.constant(m.np.float32(x))
    epsilon, two, scale = number(1e-5), number(2), number((HIDDEN / HEADS) ** -0.5)
    split, joined = m.constant([0, 0, HEADS, HIDDEN // HEADS]), m.constant([0, 0, HIDDEN])

    def norm(x):
        square = m.node("ReduceMean", m.node("Pow", x, two), axes=[-1], keepdims=1)
        root = m.node("Sqrt", m.node("Add", square, epsilon))
        return m.node("Mul", m.node("Div", x, root), m.constant(m.np.ones(HIDDEN, "float32")))

    def heads(x, perm):
        return m.node("Transpose", m.node("Reshape", m.node("MatMul", x, m.weight(HIDDEN, HIDDEN)), split), perm=perm)

    h = "x"
    for _ in range(layers):
        n = norm(h)
        q, k, v = heads(n, [0, 2, 1, 3]), heads(n, [0, 2, 3, 1]), heads(n, [0, 2, 1, 3])
        score = m.node("Softmax", m.node("Add", m.node("Mul", m.node("MatMul", q, k), scale), "mask"), axis=-1)
        mixed = m.node("Reshape", m.node("Transpose", m.node("MatMul", score, v), perm=[0, 2, 1, 3]), joined)
        h = m.node("Add", h, m.node("MatMul", mixed, m.weight(HIDDEN, HIDDEN)))
        n = norm(h)
        gate = m.node("MatMul", n, m.weight(HIDDEN, INNER))
        inner = m.node("Mul", m.node("Mul", gate, m.node("Sigmoid", gate)), m.node("MatMul", n, m.weight(HIDDEN, INNER)))
        h = m.node("Add", h, m.node("MatMul", inner, m.weight(INNER, HIDDEN)))
    m.save(path, {"x": ["batch", "seq", HIDDEN], "mask": ["seq", "seq"]}, h)


def nasnet(m: Model, cells: int, path: str) -> None:
    """NASNet-A as B. Zoph et al., arXiv 1707.07012, have it, of open height and width: three stacks of normal cells, a reduction cell before the
    second and the third. 6 cells a stack and 168 channels are NASNet-Large; batch normalisations are taken to be folded."""

    def conv(x, cin, cout, kernel=1, stride=1, group=1):
        pad = [(kernel - 1) // 2] * 4
        return m.node("Conv", x, m.weight(cout, cin // group, kernel, kernel), m.weight(cout), kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pad, group=group)

    def fit(x, cin, cout, smaller=False):
        x = m.node("Relu", x)
        return conv(m.node("AveragePool", x, kernel_shape=[1, 1], strides=[2, 2]) if smaller else x, cin, cout)

    def separable(x, c, kernel, stride=1):
        for s in (stride, 1):
            x = conv(conv(m.node("Relu", x), c, c, kernel, s, c), c, c)
        return x

    def pool(kind, x, stride=1):
        return m.node(kind, x, kernel_shape=[3, 3], strides=[stride] * 2, pads=[1] * 4)

    def add(x, y):
        return m.node("Add", x, y)

    def normal(before, x, c, cin, smaller):
        p, h = fit(before[0], before[1], c, smaller), fit(x, cin, c)
        made = [add(separable(h, c, 5), separable(p, c, 3)), add(separable(p, c, 5), separable(p, c, 3)), add(pool("AveragePool", h), p),
                add(pool("AveragePool", p), pool("AveragePool", p)), add(separable(h, c, 3), h)]
        return m.node("Concat", p, *made, axis=1), 6 * c

    def reduction(before, x, c, cin):
        p, h = fit(before[0], before[1], c), fit(x, cin, c)
        first = add(separable(h, c, 5, 2), separable(p, c, 7, 2))
        made = [add(pool("MaxPool", h, 2), separable(p, c, 7, 2)), add(pool("AveragePool", h, 2), separable(p, c, 5, 2))]
        made += [add(pool("AveragePool", first), made[0]), add(separable(first, c, 3), pool("MaxPool", h, 2))]
        return m.node("Concat", *made, axis=1), 4 * c

    c = 28 * cells
    x, cin = conv("x", 3, 96, 3, 2), 96
    before = x, cin
    for stack in range(3):
        smaller = False
        if stack:
            after = reduction(before, x, c, cin)
            before, (x, cin), smaller = (x, cin), after, True
        for _ in range(cells):
            after = normal(before, x, c, cin, smaller)
            before, (x, cin), smaller = (x, cin), after, False
        c *= 2
    m.save(path, {"x": ["batch", 3, "height", "width"]}, m.node("GlobalAveragePool", m.node("Relu", x)))


FAMILIES = {"elementwise": elementwise, "products": products, "decoder": decoder, "nasnet": nasnet}


# ---- measuring -----------------------------------------------------------------------------------------


def make(family: str, size: int, path: pathlib.Path) -> int:
    """Write a model, in a process of its own so that its memory is not counted here; its number of nodes."""
    done = subprocess.run([sys.executable, __file__, "--make", family, str(size), str(path)], check=True, capture_output=True, text=True)
    return int(done.stdout)


def compile_cold(model: pathlib.Path, folder: pathlib.Path) -> tuple[float, int, dict[str, float], str]:
    """Seconds, bytes of the largest process, seconds by stage, and what was made."""
    cache, out = folder / "cache", folder / "stages"
    shutil.rmtree(cache, ignore_errors=True)
    start = time.perf_counter()
    with open(out, "w") as stages:
        child = subprocess.Popen([TENON, "compile", str(model), "-o", str(folder / "model.so"), "--cache-dir", str(cache), "--time"],
                                 stdout=stages, stderr=stages)
        _, status, use = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    text = out.read_text()
    if child.returncode:
        sys.exit(f"growth: compiling {model.name} failed:\n{text}")
    rows = [line.split() for line in text.splitlines()]
    by_stage = {r[0]: float(r[1]) for r in rows if len(r) == 3 and r[2] == "s" and r[0] != "all"}
    kernels = next(part for part in text.split(", ") if "kernel" in part)
    return seconds, use.ru_maxrss * 1024, by_stage, kernels


def measure(family: str, sizes, folder: pathlib.Path) -> list[dict]:
    print(f"\n{family:<14}{'nodes':>8}{'time':>10}{'a node':>12}{'memory':>10}{'a node':>12}{'time a node grew by':>22}   most of it in")
    rows, before = [], None
    for size in sizes:
        model = folder / f"{family}_{size}.onnx"
        nodes = make(family, size, model)
        seconds, memory, stages, kernels = compile_cold(model, folder)
        most = sorted(stages, key=stages.get, reverse=True)[:3]
        limit = LIMITS.get((family, size))
        met = "" if not limit else "   met" if seconds < limit[0] and memory / MB < limit[1] else f"   MISSED: < {limit[0]} s, < {limit[1]} MB"
        print(f"  {size:<12}{nodes:>8}{seconds:>8.2f} s{1e6 * seconds / nodes:>9.0f} us{memory / MB:>7.0f} MB{memory / nodes / 1e3:>9.1f} KB"
              f"{f'{seconds / nodes / before:.2f}' if before else '':>22}   {', '.join(f'{s} {stages[s]:.2f}' for s in most)}; {kernels}{met}", flush=True)
        rows.append(dict(family=family, size=size, nodes=nodes, seconds=seconds, bytes=memory, stages=stages))
        before = seconds / nodes
        model.unlink()
    return rows


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="the small sizes only")
    options.add_argument("--json", metavar="FILE", help="write every number to FILE")
    options.add_argument("--make", nargs=3, metavar=("FAMILY", "SIZE", "FILE"), help="write one model")
    options.add_argument("families", nargs="*", metavar="FAMILY[:SIZE,…]", help="default: all of them")
    o = options.parse_args()
    if o.make:
        m = Model()
        FAMILIES[o.make[0]](m, int(o.make[1]), o.make[2])
        print(len(m.nodes))
        return
    rows = []
    folder = pathlib.Path(tempfile.mkdtemp(prefix="growth-", dir=BUILD))
    try:
        for wanted in o.families or FAMILIES:
            family, _, sizes = wanted.partition(":")
            if family not in FAMILIES:
                sys.exit(f"growth: {family}: no such family. There are: {', '.join(FAMILIES)}")
            rows += measure(family, [int(s) for s in sizes.split(",")] if sizes else (QUICK if o.quick else SIZES)[family], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
