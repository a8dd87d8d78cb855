"""Padded batches computed for their tokens alone (--ragged): the values of the padded model at each token, 0 at padding."""
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
HEADS, SIZE, WORDS = 3, 8, 50
WIDE = HEADS * SIZE
LENGTHS = [[0], [1], [0, 0, 5, 0], [9, 9, 9], [15, 16, 17, 1], [1, 130, 2, 64, 33, 0]]


class Net:
    """An encoder of two layers, as exporters write it, with what a test puts behind it."""

    def __init__(self, mask="additive", kind=TensorProto.INT64):
        self.nodes, self.weights, self.rng, self.n = [], [], np.random.default_rng(0), 0
        self.ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "seq"])
        self.mask = helper.make_tensor_value_info("mask", kind, ["batch", "seq"])
        x = self.add(self.op("Gather", self.weight(WORDS, WIDE), "ids"), self.positions())
        hide = getattr(self, mask)()
        x = self.between(x)
        for _ in range(2):
            x = self.norm(self.add(x, self.attention(x, hide, mask)))
            x = self.norm(self.add(x, self.product(self.op("Relu", self.product(x, WIDE, 2 * WIDE)), 2 * WIDE, WIDE)))
        self.last = self.back(x)

    def between(self, x):
        """The form that layers have, of [batch, seq, wide]."""
        return x

    def back(self, x):
        return x

    def op(self, kind, *inputs, **attributes):
        self.n += 1
        self.nodes.append(helper.make_node(kind, inputs, [f"v{self.n}"], f"n{self.n}", **attributes))
        return f"v{self.n}"

    def const(self, x):
        self.n += 1
        self.weights.append(numpy_helper.from_array(np.asarray(x), f"w{self.n}"))
        return f"w{self.n}"

    def weight(self, *shape):
        return self.const(self.rng.normal(0, shape[0] ** -0.5, shape).astype("f4"))

    def add(self, x, y):
        return self.op("Add", x, y)

    def product(self, x, n, m):
        return self.add(self.op("MatMul", x, self.weight(n, m)), self.weight(m))

    def norm(self, x):
        return self.op("LayerNormalization", x, self.weight(WIDE), self.weight(WIDE))

    def positions(self):
        length = self.op("Gather", self.op("Shape", "ids"), self.const(np.int64(1)))
        return self.op("Gather", self.weight(512, WIDE), self.op("Range", self.const(np.int64(0)), length, self.const(np.int64(1))))

    def additive(self):
        wide = self.op("Cast", self.op("Unsqueeze", "mask", self.const(np.array([1, 2]))), to=TensorProto.FLOAT)
        return self.op("Mul", self.op("Sub", self.const(np.float32(1)), wide), self.const(np.float32(np.finfo("f4").min)))

    def bert(self):
        wide = self.op("Cast", self.op("Unsqueeze", "mask", self.const(np.array([1, 2]))), to=TensorProto.FLOAT)
        return self.op("Mul", self.op("Sub", self.const(np.float32(1)), wide), self.const(np.float32(-10000)))

    def chosen(self):
        shape = self.op("Shape", "ids")
        length = self.op("Gather", shape, self.const(np.array([1])))
        full = self.op("Concat", self.op("Gather", shape, self.const(np.array([0]))), self.const(np.array([1])), length, length, axis=0)
        wide = self.op("Expand", self.op("Cast", self.op("Unsqueeze", "mask", self.const(np.array([1, 2]))), to=TensorProto.BOOL), full)
        return self.op("Where", wide, self.const(np.float32(0)), self.const(np.float32(-np.inf)))

    def causal(self):
        length = self.op("Gather", self.op("Shape", "ids"), self.const(np.int64(1)))
        at = self.op("Range", self.const(np.int64(0)), length, self.const(np.int64(1)))
        before = self.op("LessOrEqual", self.op("Unsqueeze", at, self.const(np.array([0]))), self.op("Unsqueeze", at, self.const(np.array([1]))))
        keys = self.op("Cast", self.op("Unsqueeze", "mask", self.const(np.array([1, 2]))), to=TensorProto.BOOL)
        return self.op("Where", self.op("And", before, keys), self.const(np.float32(0)), self.const(np.float32(np.finfo("f4").min)))

    def operator(self):
        return self.op("Cast", self.op("Unsqueeze", "mask", self.const(np.array([1, 2]))), to=TensorProto.BOOL)

    def sizes(self, *parts):
        """A shape of numbers and of products of `batch` and `seq`, computed as exporters do."""
        given = self.op("Shape", "ids")
        dims = []
        for part in parts:
            dim = None
            for factor in str(part).split("*"):
                if factor in ("batch", "seq"):
                    one = self.const(np.array([["batch", "seq"].index(factor)]))
                    one = self.op("Gather", given, one)
                else:
                    one = self.const(np.array([int(factor)]))
                dim = self.op("Mul", dim, one) if dim else one
            dims.append(dim)
        return self.op("Concat", *dims, axis=0)

    def reshape(self, x, *parts):
        return self.op("Reshape", x, self.sizes(*parts))

    def turn(self, x, *order):
        return self.op("Transpose", x, perm=order)

    def heads(self, x, order):
        x = self.reshape(self.product(x, WIDE, WIDE), "batch", "seq", HEADS, SIZE)
        return self.turn(x, *order)

    def attention(self, x, hide, mask):
        """Of x [batch, seq, wide], in dimensions of their own but for operator "Attention"."""
        q, v = self.heads(x, [0, 2, 1, 3]), self.heads(x, [0, 2, 1, 3])
        if mask == "operator":
            y = self.op("Attention", q, self.heads(x, [0, 2, 1, 3]), v, hide)
        else:
            scores = self.op("Div", self.op("MatMul", q, self.heads(x, [0, 2, 3, 1])), self.const(np.float32(SIZE ** 0.5)))
            y = self.op("MatMul", self.op("Softmax", self.add(scores, hide), axis=-1), v)
        return self.product(self.op("Reshape", self.op("Transpose", y, perm=[0, 2, 1, 3]), self.const(np.array([0, 0, WIDE]))), WIDE, WIDE)

    def save(self, path, *outputs, inputs=()):
        for i, (value, _) in enumerate(outputs):
            self.nodes.append(helper.make_node("Identity", [value], [f"y{i}"], f"out{i}"))
        info = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, shape) for i, (_, shape) in enumerate(outputs)]
        graph = helper.make_graph(self.nodes, "encoder", [self.ids, self.mask, *inputs], info,
                                  self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), path)


class Fused(Net):
    """Sequences and heads share a dimension: [batch*heads, seq, size]."""

    def heads(self, x):
        return self.reshape(super().heads(x, [0, 2, 1, 3]), f"batch*{HEADS}", "seq", SIZE)

    def attend(self, x, hide):
        """[batch*heads, seq, size], of heads of x."""
        scores = self.op("MatMul", self.heads(x), self.turn(self.heads(x), 0, 2, 1))
        scores = self.op("Div", scores, self.const(np.float32(SIZE ** 0.5)))
        apart = self.add(self.reshape(scores, "batch", HEADS, "seq", "seq"), hide)
        scores = self.reshape(apart, f"batch*{HEADS}", "seq", "seq")
        return self.op("MatMul", self.op("Softmax", scores, axis=-1), self.heads(x))

    def attention(self, x, hide, mask):
        y = self.turn(self.reshape(self.attend(x, hide), "batch", HEADS, "seq", SIZE), 0, 2, 1, 3)
        return self.product(self.reshape(y, "batch", "seq", WIDE), WIDE, WIDE)


class Added(Fused):
    """The mask is expanded to heads, and added to [batch*heads, seq, seq]."""

    def attend(self, x, hide):
        scores = self.op("MatMul", self.heads(x), self.turn(self.heads(x), 0, 2, 1))
        scores = self.op("Div", scores, self.const(np.float32(SIZE ** 0.5)))
        every = self.op("Expand", hide, self.sizes("batch", HEADS, "seq", "seq"))
        scores = self.add(scores, self.reshape(every, f"batch*{HEADS}", "seq", "seq"))
        return self.op("MatMul", self.op("Softmax", scores, axis=-1), self.heads(x))


class SequenceFirst(Fused):
    """[seq, batch, wide] and [seq*batch, wide], as PyTorch's MultiheadAttention and fairseq."""

    def between(self, x):
        return self.turn(x, 1, 0, 2)

    back = between

    def heads(self, x):
        x = self.reshape(self.product(x, WIDE, WIDE), "seq", f"batch*{HEADS}", SIZE)
        return self.turn(x, 1, 0, 2)

    def attention(self, x, hide, mask):
        y = self.reshape(self.turn(self.attend(x, hide), 1, 0, 2), "seq*batch", WIDE)
        return self.reshape(self.product(y, WIDE, WIDE), "seq", "batch", WIDE)


class Rows(Fused):
    """[batch*seq, wide] throughout."""

    def between(self, x):
        return self.reshape(x, "batch*seq", WIDE)

    def back(self, x):
        return self.reshape(x, "batch", "seq", WIDE)

    def attention(self, x, hide, mask):
        y = self.turn(self.reshape(self.attend(x, hide), "batch", HEADS, "seq", SIZE), 0, 2, 1, 3)
        return self.product(self.reshape(y, "batch*seq", WIDE), WIDE, WIDE)


NETS = {"heads": Net, "fused": Fused, "added": Added, "sequence first": SequenceFirst, "rows": Rows}


HINTS = ("--dim-hint", "batch=8", "--dim-hint", "seq=128")


def compile_to(path, *options):
    """Of the model beside it; what is said."""
    made = subprocess.run([TENON, "compile", path.parent / "m.onnx", "-o", path, *options],
                          capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return made.stdout + made.stderr


def compiled(folder, *options, hints=HINTS):
    """With padding and without; what is said of the latter."""
    compile_to(folder / "padded.so", *hints, *options)
    return compile_to(folder / "ragged.so", "--ragged", "mask", *hints, *options)


def run(folder, name, **given):
    (folder / name).mkdir(exist_ok=True)
    for key, x in given.items():
        np.save(folder / f"{key}.npy", x)
    done = subprocess.run([TENON, "run", folder / f"{name}.so", *[w for n in given for w in ("-i", f"{n}=@{folder}/{n}.npy")], "--output-dir", folder / name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [np.load(p) for p in sorted((folder / name).glob("y*.npy"))]


def batches(how, kind="i8"):
    """ids and masks; `first`: the token of column 0 is there."""
    rng = np.random.default_rng(3)
    for lengths in LENGTHS:
        longest = max(*lengths, 2)
        mask = np.arange(longest)[None] < np.array(lengths)[:, None]
        mask = mask[:, ::-1] if how == "left" else mask & (rng.random(mask.shape) < 0.6) if how == "holes" else mask
        yield rng.integers(0, WORDS, mask.shape), np.ascontiguousarray(mask).astype(kind)


def compare_one(folder, ids, mask, there=None, **more):
    there = mask.astype(bool) if there is None else there
    given = {"ids": ids, "mask": mask, **more}
    for want, got in zip(run(folder, "padded", **given), run(folder, "ragged", **given)):
        np.testing.assert_allclose(got[there], want[there], rtol=2e-4, atol=2e-5)
        assert not got[~there].any()


def compare(folder, how, kind="i8"):
    for ids, mask in batches(how, kind):
        compare_one(folder, ids, mask)


KINDS = [(mask, net) for net in NETS for mask in ["additive", "bert", "chosen", "causal"]]


@pytest.mark.parametrize("how", ["right", "left", "holes"])
@pytest.mark.parametrize("mask, net", [*KINDS, ("operator", "heads")])
def test_every_token_has_its_value(mask, net, how, tmp_path):
    net = NETS[net](mask)
    net.save(tmp_path / "m.onnx", (net.last, ["batch", "seq", WIDE]))
    said = compiled(tmp_path)
    assert "Padding is computed" not in said and "compiled with its padding" not in said, said
    compare(tmp_path, how)


@pytest.mark.parametrize("net", NETS)
def test_fixed_sizes(net, tmp_path):
    net = NETS[net]("causal")
    net.save(tmp_path / "m.onnx", (net.last, ["batch", "seq", WIDE]))
    said = compiled(tmp_path, "--dim", "batch=4", "--dim", "seq=17", hints=())
    assert "Padding is computed" not in said and "compiled with its padding" not in said, said
    for ids, mask in batches("right"):
        if mask.shape == (4, 17):
            compare_one(tmp_path, ids, mask)


def test_columns_before_sequences(tmp_path):
    """An input and an output of [seq, batch, wide]."""
    net = SequenceFirst("additive")
    more = helper.make_tensor_value_info("more", TensorProto.FLOAT, ["seq", "batch", WIDE])
    last = net.add(net.between(net.last), "more")
    net.save(tmp_path / "m.onnx", (last, ["seq", "batch", WIDE]), inputs=[more])
    assert "Padding is computed" not in compiled(tmp_path)
    for ids, mask in batches("holes"):
        more = np.random.default_rng(0).normal(size=(*mask.T.shape, WIDE)).astype("f4")
        compare_one(tmp_path, ids, mask, mask.T.astype(bool), more=more)


@pytest.mark.parametrize("kind", ["?", "i4", "f4"])
def test_types_of_masks(kind, tmp_path):
    net = Net("additive", helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
    net.save(tmp_path / "m.onnx", (net.last, ["batch", "seq", WIDE]))
    compiled(tmp_path)
    compare(tmp_path, "right", kind)


def pooled(folder, net):
    """The first token's row, and the mean of a sequence's tokens."""
    first = net.op("Tanh", net.product(net.op("Gather", net.last, net.const(np.int64(0)), axis=1), WIDE, WIDE))
    wide = net.op("Cast", net.op("Unsqueeze", "mask", net.const(np.array([2]))), to=TensorProto.FLOAT)
    total = net.op("ReduceSum", net.op("Mul", net.last, wide), net.const(np.array([1])), keepdims=0)
    count = net.op("Max", net.op("ReduceSum", wide, net.const(np.array([1])), keepdims=0), net.const(np.float32(1)))
    net.save(folder / "m.onnx", (first, ["batch", WIDE]), (net.op("Div", total, count), ["batch", WIDE]))


def test_rows_of_sequences(tmp_path):
    pooled(tmp_path, Net("additive"))
    assert "Padding is computed" not in compiled(tmp_path)
    for ids, mask in batches("right"):
        want, got = run(tmp_path, "padded", ids=ids, mask=mask), run(tmp_path, "ragged", ids=ids, mask=mask)
        some = mask.any(1)
        np.testing.assert_allclose(got[0][some], want[0][some], rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(got[1], want[1], rtol=2e-4, atol=2e-5)


def test_what_mixes_tokens_is_said_and_computed_with_padding(tmp_path):
    net = Net("additive")
    net.save(tmp_path / "m.onnx", (net.op("ReduceMean", net.last, net.const(np.array([1])), keepdims=0), ["batch", WIDE]))
    said = compiled(tmp_path)
    assert 'ReduceMean "n' in said and "takes padding in" in said, said
    for ids, mask in batches("right"):
        for want, got in zip(run(tmp_path, "padded", ids=ids, mask=mask), run(tmp_path, "ragged", ids=ids, mask=mask)):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


def test_a_sequence_alone_has_the_values_it_has_in_a_batch(tmp_path):
    net = Net("additive")
    net.save(tmp_path / "m.onnx", (net.last, ["batch", "seq", WIDE]))
    compiled(tmp_path)
    ids, mask = list(batches("right"))[-1]
    everything, = run(tmp_path, "ragged", ids=ids, mask=mask)
    for b, n in enumerate(mask.sum(1)):
        alone, = run(tmp_path, "ragged", ids=ids[b:b + 1, :max(n, 1)], mask=mask[b:b + 1, :max(n, 1)])
        np.testing.assert_allclose(alone[0, :n], everything[b, :n], rtol=2e-4, atol=2e-5)


def test_masks_of_other_numbers_are_refused_when_it_runs(tmp_path):
    net = Net("additive")
    net.save(tmp_path / "m.onnx", (net.last, ["batch", "seq", WIDE]))
    compiled(tmp_path)
    np.save(tmp_path / "ids.npy", np.zeros((1, 3), "i8"))
    np.save(tmp_path / "mask.npy", np.array([[1, 2, 0]]))
    done = subprocess.run([TENON, "run", tmp_path / "ragged.so", "-i", f"ids=@{tmp_path}/ids.npy", "-i", f"mask=@{tmp_path}/mask.npy"], capture_output=True, text=True)
    assert done.returncode and "input mask: with --ragged each element is 1 of a token or 0 of padding" in done.stderr, done.stderr


def test_a_mask_of_nothing_is_said(tmp_path):
    x, mask = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", ["n", 5]), ("mask", ["batch", "seq"])))
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("ReduceSum", ["mask"], ["z"])]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yz"]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x, mask], outputs), opset_imports=[helper.make_opsetid("", 23)], ir_version=10), tmp_path / "m.onnx")
    done = subprocess.run([TENON, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--ragged", "mask"], capture_output=True, text=True)
    assert done.returncode == 0 and "0 of 2 nests are computed for tokens alone" in done.stderr, done.stderr


@pytest.mark.parametrize("options, said", [
    (("--ragged", "masks"), "no input of the model is named so; those of a batch and a length are ids, mask"),
    (("--ragged", "mask", "--exact"), "with --exact nothing behind a mask is left out"),
    (("--ragged", "mask", "--many"), "--many makes a batch of requests itself"),
    (("--ragged", "mask", "--dim", "batch=1"), "a batch of one sequence has no padding to leave out"),
    (("--packed",), "--packed is of a batch's tokens: name its mask with --ragged"),
    (("--ragged", "mask", "--packed", "--many"), "--packed goes without --many"),
    (("--ragged", "mask", "--packed", "--io-format", "y0=0,2,1"), "goes without --io-format"),
])
def test_what_is_refused(options, said, tmp_path):
    net = Net("additive")
    net.save(tmp_path / "m.onnx", (net.last, ["batch", "seq", WIDE]))
    done = subprocess.run([TENON, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", *options], capture_output=True, text=True)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_blocks_of_two_sequences_are_passed_over(tmp_path):
    net = Net("additive")
    net.save(tmp_path / "m.onnx", (net.last, ["batch", "seq", WIDE]))
    done = subprocess.run([TENON, "compile", tmp_path / "m.onnx", "--ragged", "mask", "--dim-hint", "batch=8", "--dim-hint", "seq=128", "--dump=choose", "--stop-after=choose"], capture_output=True, text=True)
    assert done.stdout.count("omit ") >= 2, done.stdout[-3000:]


# ---- packed in, packed out -----------------------------------------------------------------------


def offsets_of(lengths):
    return np.cumsum([0, *lengths]).astype("i8")


def packed(folder, net, *outputs):
    net.save(folder / "m.onnx", *outputs)
    compiled(folder)
    return compile_to(folder / "packed.so", "--ragged", "mask", "--packed", *HINTS)


@pytest.mark.parametrize("mask, net", [*[("causal", net) for net in NETS], ("operator", "heads")])
def test_packed_has_the_bits_of_padded(mask, net, tmp_path):
    net = NETS[net](mask)
    said = packed(tmp_path, net, (net.last, ["batch", "seq", WIDE]))
    assert "compiled with its padding" not in said, said
    for lengths in [[], *LENGTHS]:
        ids = np.random.default_rng(3).integers(0, WORDS, sum(lengths))
        got, = run(tmp_path, "packed", ids=ids, **{"mask.offsets": offsets_of(lengths)})
        assert got.shape == (sum(lengths), WIDE)
        if not sum(lengths):
            continue
        there = np.arange(max(lengths))[None] < np.array(lengths)[:, None]
        full = np.zeros(there.shape, "i8")
        full[there] = ids
        want, = run(tmp_path, "ragged", ids=full, mask=there.astype("i8"))
        np.testing.assert_array_equal(got, want[there])


def test_what_needs_padding_is_padded_within(tmp_path):
    """A mean over padding too, a row for each sequence, and what is added to each token again."""
    net = Net("additive")
    mean = net.op("ReduceMean", net.last, net.const(np.array([1])), keepdims=1)
    more = helper.make_tensor_value_info("more", TensorProto.FLOAT, ["seq", "batch", WIDE])
    last = net.add(net.turn(net.add(net.last, mean), 1, 0, 2), "more")
    net.save(tmp_path / "m.onnx", (mean, ["batch", 1, WIDE]), (last, ["seq", "batch", WIDE]),
             inputs=[more])
    compiled(tmp_path)
    said = compile_to(tmp_path / "packed.so", "--ragged", "mask", "--packed", *HINTS)
    assert "Padding is computed" in said, said
    for lengths in LENGTHS[1:]:
        rng = np.random.default_rng(3)
        there = np.arange(max(lengths))[None] < np.array(lengths)[:, None]
        ids = rng.integers(0, WORDS, there.shape) * there    # padding is 0 in both
        more = rng.normal(size=(*there.T.shape, WIDE)).astype("f4") * there.T[..., None]
        mean, last = run(tmp_path, "ragged", ids=ids, mask=there.astype("i8"), more=more)
        got = run(tmp_path, "packed", ids=ids[there], more=more.transpose(1, 0, 2)[there],
                  **{"mask.offsets": offsets_of(lengths)})
        np.testing.assert_allclose(got[0], mean, rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(got[1], last.transpose(1, 0, 2)[there], rtol=2e-4, atol=2e-5)


def test_packed_with_scores_that_would_be_stored(tmp_path):
    net = Net("additive")
    net.save(tmp_path / "m.onnx", (net.last, ["batch", "seq", WIDE]))
    compile_to(tmp_path / "padded.so", "--plain")
    said = compile_to(tmp_path / "packed.so", "--ragged", "mask", "--packed", "--plain")
    assert "compiled with its padding" in said, said
    for ids, mask in batches("right"):
        there = mask.astype(bool)
        want, = run(tmp_path, "padded", ids=ids, mask=mask)
        got, = run(tmp_path, "packed", ids=ids[there],
                   **{"mask.offsets": offsets_of(mask.sum(1))})
        np.testing.assert_allclose(got, want[there], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("offsets, said", [
    ([1, 5], "sequence 0 begins at row 1; the first row is 0"),
    ([-1, 5], "sequence 0 begins at row -1; the first row is 0"),
    ([0, 3, 2, 5], "sequence 1 ends at row 2 and begins at row 3"),
    ([0, -2, 5], "sequence 0 ends at row -2 and begins at row 0"),
    ([0, 3, 7], "the last sequence ends at row 7; 5 rows are given"),
    ([0, 3], "the last sequence ends at row 3; 5 rows are given"),
    ([0, 5, 9, 2], "sequence 2 ends at row 2 and begins at row 9"),
    ([], "mask.offsets"),
])
def test_offsets_that_are_none(offsets, said, tmp_path):
    net = Net("additive")
    net.save(tmp_path / "m.onnx", (net.last, ["batch", "seq", WIDE]))
    compile_to(tmp_path / "m.so", "--ragged", "mask", "--packed", *HINTS)
    np.save(tmp_path / "ids.npy", np.zeros(5, "i8"))
    np.save(tmp_path / "offsets.npy", np.array(offsets, "i8"))
    done = subprocess.run([TENON, "run", tmp_path / "m.so", "-i", f"ids=@{tmp_path}/ids.npy",
                           "-i", f"mask.offsets=@{tmp_path}/offsets.npy"],
                          capture_output=True, text=True)
    assert done.returncode == 2 and said in done.stderr, done.stderr
