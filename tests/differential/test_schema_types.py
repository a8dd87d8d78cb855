"""Every element type that ONNX's schemas allow each operator: it compiles, and computes what ONNX Runtime or ONNX's evaluator does.

The table is that of onnx.defs: for each operator, each of its type variables and each tensor type it may stand for. The model of
each row is the smallest of ONNX's own cases of that operator, its inputs of that variable in the other type. By day one row in
twelve and those that were refused once; TENON_NIGHTLY=1 runs all.
"""
import functools
import os
import warnings
import zlib

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper


NIGHTLY = os.environ.get("TENON_NIGHTLY", "") not in ("", "0")
ONCE = {("Shrink", "int32"), ("Shrink", "uint8"), ("Det", "float16"), ("OneHot", "string"), ("Pad", "string"), ("NonZero", "string"), ("Trilu", "string"),
        ("DepthToSpace", "string"), ("SpaceToDepth", "string"), ("CenterCropPad", "string"), ("Col2Im", "bool"), ("BatchNormalization", "double"),
        ("RMSNormalization", "float16"), ("RMSNormalization", "double")}
REAL = {"float16": "f2", "float": "f4", "double": "f8", "bfloat16": ml_dtypes.bfloat16, "float8e4m3fn": ml_dtypes.float8_e4m3fn,
        "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "float8e5m2": ml_dtypes.float8_e5m2, "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
        "float8e8m0": ml_dtypes.float8_e8m0fnu, "float4e2m1": ml_dtypes.float4_e2m1fn}
WHOLE = {"int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8", "int4": ml_dtypes.int4,
         "uint4": ml_dtypes.uint4, "int2": ml_dtypes.int2, "uint2": ml_dtypes.uint2}
WHOLE_NAMES = list(WHOLE)
# No rows: results that are sequences, graphs inside with types of their own, words of a pool, and numbers that are drawn.
WITHOUT = {"SplitToSequence", "SequenceInsert", "SequenceConstruct", "SequenceMap", "SequenceAt", "SequenceErase", "Optional", "OptionalGetElement", "OptionalHasElement",
           "Loop", "Scan", "If", "TfIdfVectorizer", "Bernoulli", "BitCast", "Multinomial", "RandomNormalLike", "RandomUniformLike"}
# What the peers do otherwise: text that fills is the empty text, not the number 0; numbers become the shortest texts; a
# scale of a type that has no 0; borders of cells that are whole numbers in one order of operations.
DISPUTED = {("CenterCropPad", "T", "string"), ("CastLike", "T2", "string"), ("DequantizeLinear", "T2", "float8e8m0")} | {("GridSample", "T1", t) for t in WHOLE_NAMES}
x = np.array([[1, 2, 4], [8, 1, 2]], "f4")                # there in every type
OWN = {"Cast": ([x], dict(to=onnx.TensorProto.FLOAT)), "CastLike": ([x, x], {}), "GlobalLpPool": ([x[None]], {}),       # those that ONNX has no case of
       "MaxRoiPool": ([np.arange(36, dtype="f4").reshape(1, 1, 6, 6), np.array([[0, 1, 1, 4, 5]], "f4")], dict(pooled_shape=[2, 2]))}
DTYPE = REAL | WHOLE | {"bool": "?", "string": object}


@functools.cache
def cases():
    """Of each operator, ONNX's smallest case that is one node of it."""
    from onnx.backend.test.case.node import collect_testcases
    least = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in collect_testcases(None):
            g = case.model.graph
            if len(g.node) != 1 or not case.data_sets or not all(isinstance(x, (np.ndarray, np.generic, int, float)) for x in case.data_sets[0][0]):
                continue
            op, size = g.node[0].op_type, sum(np.size(x) for x in case.data_sets[0][0])
            if g.node[0].domain in ("", "ai.onnx") and (op not in least or size < least[op][0]):
                least[op] = size, case
    given = {op: (case.model, [np.asarray(x) for x in case.data_sets[0][0]]) for op, (_, case) in least.items()}
    for op, (inputs, attributes) in OWN.items():
        names = [f"x{i}" for i in range(len(inputs))]
        graph = helper.make_graph([helper.make_node(op, names, ["y"], **attributes)], op, [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                                  for n, v in zip(names, inputs)], [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)])
        given[op] = helper.make_model(graph, opset_imports=[helper.make_opsetid("", onnx.defs.onnx_opset_version())]), inputs
    return given


def rows():
    for schema in sorted(onnx.defs.get_all_schemas(), key=lambda s: s.name):
        if schema.domain or schema.deprecated or schema.name in WITHOUT:
            continue
        for variable in schema.type_constraints:
            if not any(i.type_str == variable.type_param_str for i in schema.inputs):
                continue
            for t in sorted(variable.allowed_type_strs):
                name = t.removeprefix("tensor(").removesuffix(")")
                if t.startswith("tensor(") and name in DTYPE:
                    yield schema.name, variable.type_param_str, name


ROWS = list(rows())
CHOSEN = [r for r in ROWS if NIGHTLY or (r[0], r[2]) in ONCE or zlib.crc32(" ".join(r).encode()) % 12 == 0]


def as_type(x, name):
    if name == "string":
        return np.array([str(v) for v in x.ravel()], object).reshape(x.shape)
    t = np.dtype(DTYPE[name])
    if x.dtype == object:
        x = np.array([len(str(v)) for v in x.ravel()]).reshape(x.shape)
    x = x.astype("f8") if x.dtype.kind not in "iub" else x
    if name in WHOLE:                                # no casts out of range: what these give is another matter
        low, high = (ml_dtypes.iinfo if t.kind not in "iu" else np.iinfo)(t).min, (ml_dtypes.iinfo if t.kind not in "iu" else np.iinfo)(t).max
        x = np.clip(np.nan_to_num(x), max(int(low), -50), min(int(high), 50))
    elif name in REAL and name != "float8e8m0":
        x = np.clip(x, float(ml_dtypes.finfo(t).min), float(ml_dtypes.finfo(t).max))
    return x.astype(t)


def model_of(op, variable, name):
    """The operator's case with the type, and what it is given."""
    schema, model, (case, inputs) = onnx.defs.get_schema(op), onnx.ModelProto(), cases()[op]
    model.CopyFrom(case)
    node, feeds = model.graph.node[0], {}
    given = {i.name: i for i in model.graph.input}
    for k, i in enumerate(node.input):
        if not i:
            continue
        formal = schema.inputs[min(k, len(schema.inputs) - 1)]
        x = inputs[[v.name for v in model.graph.input].index(i)]
        feeds[i] = as_type(x, name) if formal.type_str == variable else x
        if formal.name.endswith("zero_point") and name.startswith("float"):
            feeds[i] = np.zeros_like(feeds[i])       # of floats there is no other
        given[i].type.tensor_type.elem_type = getattr(onnx.TensorProto, name.upper()) if formal.type_str == variable else given[i].type.tensor_type.elem_type
    for o in model.graph.output:
        o.ClearField("type")
    return model, feeds


def close(got, want, short):
    want = np.asarray(want)
    assert got.shape == want.shape
    if want.dtype == object or want.dtype.kind in "US":
        assert got.tolist() == want.tolist()
        return
    x, y = got.astype("c16" if want.dtype.kind == "c" else "f8"), want.astype("c16" if want.dtype.kind == "c" else "f8")
    loose = 3e-2 if short or want.dtype.itemsize <= 2 else 1e-3
    step = 1 if want.dtype.itemsize == 1 else 0      # a tie, or a float of few bits
    np.testing.assert_allclose(x, y, rtol=max(loose, .13 * step), atol=max(loose * max(1, np.abs(y[np.isfinite(y)]).max(initial=0)), step))


@pytest.mark.parametrize("op, variable, name", CHOSEN)
def test_type(worker, peers, tmp_path, op, variable, name):
    model, feeds = model_of(op, variable, name)
    path, files = tmp_path / "model.onnx", []
    onnx.save(model, path)
    for i in model.graph.input:
        files.append(tmp_path / f"{len(files)}.pb")
        files[-1].write_bytes(numpy_helper.from_array(feeds[i.name]).SerializeToString())
    status, got = worker.run(path, tmp_path / "made", files)
    answers = peers.ask(model.SerializeToString(), True, feeds)
    if status != "0" and not answers:
        pytest.skip("nobody runs it: " + got)
    assert status == "0", got
    wrong = []
    for wanted in answers:
        try:
            for x, y in zip(got, wanted, strict=True):
                close(x, y, any(v.dtype.itemsize <= 2 for v in feeds.values()))
        except AssertionError as e:
            wrong.append(str(e))
    assert not answers or len(wrong) < len(answers) or (op, variable, name) in DISPUTED, wrong[0]
