"""Writes the seeds of the corpora: small models of every group of operators, golden text, arrays.

    python tests/fuzz/make_seeds.py      from the root, after a build (build/tenon gives the text of small graphs)
"""
import io
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
F, I = TensorProto.FLOAT, TensorProto.INT64


def const(name, *values, dtype=np.int64):
    return numpy_helper.from_array(np.array(values, dtype), name)


def model(nodes, inputs, outputs=("y",), weights=(), opset=17):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
                              [helper.make_tensor_value_info(o, F, None) for o in outputs], list(weights))
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    m.ir_version = 8
    return m.SerializeToString()


def n(op, ins, out="y", **attrs):
    return helper.make_node(op, ins.split(), out.split(), **attrs)


def ones(name, *dims, dtype=np.float32):
    return numpy_helper.from_array(np.ones(dims, dtype), name)


def scalar(name, value):
    return numpy_helper.from_array(value, name)


X = [("x", F, ["b", 4])]
IMAGE = [("x", F, ["b", 2, 6, 6])]
models = {
    "relu": model([n("Relu", "x")], X),
    "mlp": model([n("MatMul", "x w", "h"), n("Add", "h c", "s"), n("Relu", "s")], X, weights=[ones("w", 4, 3), ones("c", 3)]),
    "gemm": model([n("Gemm", "x w c", alpha=0.5, transB=1)], X, weights=[ones("w", 3, 4), ones("c", 3)]),
    "conv": model([n("Conv", "x w", "h", pads=[1, 1, 1, 1], strides=[2, 2]), n("BatchNormalization", "h s s s s", "m"),
                   n("Clip", "m lo hi")], IMAGE,
                  weights=[ones("w", 3, 2, 3, 3), ones("s", 3), scalar("lo", np.float32(0)), scalar("hi", np.float32(6))]),
    "pools": model([n("MaxPool", "x", "h", kernel_shape=[2, 2]), n("AveragePool", "h", "m", kernel_shape=[2, 2], ceil_mode=1),
                    n("GlobalAveragePool", "m", "p"), n("Flatten", "p")], IMAGE),
    "conv_transpose": model([n("ConvTranspose", "x w", strides=[2, 2])], IMAGE, weights=[ones("w", 2, 1, 3, 3)]),
    "shapes": model([n("Shape", "x", "s"), n("Gather", "s i", "d", axis=0), n("Unsqueeze", "d a", "u"), n("Concat", "u m", "t", axis=0),
                     n("Reshape", "x t")], [("x", F, ["b", "c", 4])], weights=[scalar("i", np.int64(0)), const("a", 0), const("m", -1)]),
    "slice": model([n("Slice", "x s e a t")], IMAGE, weights=[const("s", 1, -1), const("e", 9, -9), const("a", 2, 3), const("t", 2, -2)]),
    "split": model([n("Split", "x", "y z", axis=1)], X, outputs=("y", "z"), opset=11),
    "pad": model([n("Pad", "x p")], X, weights=[const("p", 0, 1, 0, 2)]),
    "transpose": model([n("Transpose", "x", "h", perm=[1, 0]), n("Transpose", "h", perm=[1, 0])], X),
    "gather": model([n("Gather", "w i", axis=0)], [("i", I, ["n"])], weights=[ones("w", 5, 3)]),
    "scatter": model([n("ScatterND", "x i u")], [("x", F, [4, 3]), ("i", I, ["n", 1]), ("u", F, ["n", 3])]),
    "gather_nd": model([n("GatherND", "x i")], [("x", F, [4, 3]), ("i", I, ["n", 2])]),
    "softmax": model([n("Softmax", "x", axis=-1)], X),
    "layer_norm": model([n("LayerNormalization", "x s s", axis=-1)], X, weights=[ones("s", 4)]),
    "reduce": model([n("ReduceMean", "x", "m", axes=[1], keepdims=1), n("Sub", "x m", "d"), n("Mul", "d d", "q"), n("ReduceSum", "q a")],
                    X, weights=[const("a", 1)]),
    "arg": model([n("ArgMax", "x", axis=1)], X),
    "cumsum": model([n("CumSum", "x a", reverse=1)], X, weights=[const("a", 1)]),
    "range": model([n("Range", "a b c", "r"), n("Cast", "r", to=F)], [("q", F, [1])],
                   weights=[scalar("a", np.int64(0)), scalar("b", np.int64(9)), scalar("c", np.int64(2))]),
    "fill": model([n("ConstantOfShape", "s", "f", value=ones("v", 1)), n("Expand", "f e", "g"), n("Tile", "g r", "t"), n("Add", "t x")],
                  [("x", F, [2, 4])], weights=[const("s", 1, 2), const("e", 2, 2), const("r", 1, 2)]),
    "where": model([n("Less", "x z", "c"), n("Where", "c x z")], X, weights=[ones("z", 1)]),
    "onehot": model([n("OneHot", "i d v")], [("i", I, ["n"])], weights=[const("d", 5), ones("v", 2)]),
    "resize": model([n("Resize", "x s", mode="nearest")], IMAGE, weights=[ones("s", 4)], opset=10),
    "quantize": model([n("QuantizeLinear", "x s z", "q"), n("DequantizeLinear", "q s z")], X,
                      weights=[scalar("s", np.float32(0.1)), scalar("z", np.uint8(3))]),
    "einsum": model([n("Einsum", "x w", equation="bi,ij->bj")], X, weights=[ones("w", 4, 3)]),
    "trilu": model([n("Trilu", "x", upper=0)], X),
    "constant": model([n("Constant", "", "k", value_floats=[1.0, 2.0, 3.0, 4.0]), n("Mul", "x k")], X),
    "unary": model([n("Sigmoid", "x", "a"), n("Tanh", "a", "b"), n("Erf", "b", "c"), n("Exp", "c", "d"), n("Pow", "d e")], X,
                   weights=[scalar("e", np.float32(2))]),
    "integers": model([n("Mod", "i j", "k"), n("Div", "k j", "l"), n("Cast", "l", to=F)], [("i", I, ["n"])], weights=[const("j", 3)]),
    "depth": model([n("DepthToSpace", "x", blocksize=2)], [("x", F, ["b", 4, 2, 2])]),
    "external": None,
}
external = onnx.load_from_string(models["mlp"])
t = external.graph.initializer[0]
t.ClearField("raw_data")
t.data_location = TensorProto.EXTERNAL
for key, value in dict(location="0", offset="0", length="48").items():
    t.external_data.add(key=key, value=value)
models["external"] = external.SerializeToString()


def write(target, files):
    folder = HERE / f"corpus-{target}"
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def texts():
    files = {}
    for path in sorted((ROOT / "tests" / "golden").glob("*.tn")):
        files[f"golden-{path.stem}"] = path.read_text().split("; expect:")[0]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("mlp", "conv", "pools", "shapes", "softmax", "slice", "gather", "reduce"):
            path = Path(folder) / f"{name}.onnx"
            path.write_bytes(models[name])
            subprocess.run([ROOT / "build" / "tenon", "compile", path, "--dump=all", "--dump-dir", folder, "--stop-after", "schedule"],
                           check=True, capture_output=True)
            for stage in ("import", "lower", "fuse", "schedule"):
                for dump in Path(folder).glob(f"*{name}*-{stage}.tn"):
                    files[f"{name}-{stage}"] = dump.read_text()
    return files


def arrays():
    def saved(x, **how):
        f = io.BytesIO()
        np.save(f, x, **how)
        return f.getvalue()

    zipped = io.BytesIO()
    np.savez(zipped, a=np.arange(3, dtype=np.int16), b=np.eye(2, dtype=np.float32))
    packed = io.BytesIO()
    np.savez_compressed(packed, a=np.zeros(50))
    return {"f32.npy": saved(np.ones((2, 3), np.float32)), "fortran.npy": saved(np.asfortranarray(np.ones((2, 3), np.int64))),
            "scalar.npy": saved(np.float64(1)), "big.npy": saved(np.ones(2, ">f4")), "two.npz": zipped.getvalue(),
            "packed.npz": packed.getvalue(), "tensor.pb": ones("t", 2, 3).SerializeToString(),
            "typed.pb": TensorProto(data_type=TensorProto.BOOL, dims=[3], int32_data=[1, 0, 1]).SerializeToString()}


def artefact(abi=3, size=64, weights=64, segment=128, offset=192):
    import struct
    head = struct.pack("<8sIIQQ32x", b"TENONART", abi, size, weights, 1)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    segments = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 176, 176, 4096) + struct.pack("<IIQQQQQQ", 1, 4, offset, 4288, 4288, segment, segment, 4096)
    return header + segments + bytes(16) + head + bytes(64)


def old_artefact():
    return artefact()[:192] + b"code" * 48 + b"TENONART" + bytes(56)


write("onnx", models)
write("text", texts())
write("arrays", arrays())
write("artefact", {"whole": artefact(), "other-version": artefact(abi=9), "short": artefact(segment=5000), "outside": artefact(offset=1 << 60),
                   "much": artefact(weights=1 << 40), "old": old_artefact()})
