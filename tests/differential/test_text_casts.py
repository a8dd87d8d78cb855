"""Casts between numbers and strings."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper


TEXTS = ["3.14", "1000", "1e-5", "1E8", "-0", "+INF", "inf", "-Inf", "NaN", " 7", "0.1", "100.5", "123456789012345678"]
CASES = [
    (T.STRING, T.FLOAT, TEXTS, [3.14, 1000, 1e-5, 1e8, -0.0, np.inf, np.inf, -np.inf, np.nan, 7, 0.1, 100.5, 123456789012345678]),
    (T.STRING, T.DOUBLE, TEXTS, [3.14, 1000, 1e-5, 1e8, -0.0, np.inf, np.inf, -np.inf, np.nan, 7, 0.1, 100.5, 123456789012345678]),
    (T.STRING, T.FLOAT16, ["0.5", "-2"], [0.5, -2]),
    (T.STRING, T.INT64, ["5", "-7", "9223372036854775807", "100.5", "1e3"], [5, -7, 2**63 - 1, 100, 1000]),
    (T.STRING, T.UINT64, ["5", "18446744073709551615", "9223372036854775807", "9223372036854775808", "1e19", "1e30"],
     [5, 2**64 - 1, 2**63 - 1, 2**63, 10**19, 2**64 - 1]),
    (T.STRING, T.INT8, ["5", "-7"], [5, -7]),
    (T.STRING, T.BOOL, ["1", "0"], [True, False]),
    (T.FLOAT, T.STRING, [0.47892547, 314.15926, 1000, -0.5, 0.1, 1e-5, 3e20, np.inf, -np.inf, np.nan, 0, 16777216], ["0.47892547", "314.15927", "1000", "-0.5", "0.1", "1e-05",
     "3e+20", "INF", "-INF", "NaN", "0", "16777216"]),
    (T.DOUBLE, T.STRING, [0.1, 1 / 3, 2.5e-3, 123456789012345.0], ["0.1", "0.3333333333333333", "0.0025", "123456789012345"]),
    (T.FLOAT16, T.STRING, [0.5, -3], ["0.5", "-3"]),
    (T.INT64, T.STRING, [0, -(2**63), 2**63 - 1], ["0", "-9223372036854775808", "9223372036854775807"]),
    (T.UINT64, T.STRING, [0, 2**64 - 1], ["0", "18446744073709551615"]),
    (T.INT8, T.STRING, [-128, 7], ["-128", "7"]),
    (T.BOOL, T.STRING, [True, False], ["1", "0"]),
]


def numpy_type(t):
    return object if t == T.STRING else helper.tensor_dtype_to_np_dtype(t)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{T.DataType.Name(c[0])}-{T.DataType.Name(c[1])}")
def test_cast(case, worker, tmp_path):
    before, after, given, want = case
    x, want = np.array(given, numpy_type(before)), np.array(want, numpy_type(after))
    graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=after)], "cast", [helper.make_tensor_value_info("x", before, ["n"])],
                              [helper.make_tensor_value_info("y", after, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    for rows in (len(x), 1, 0):
        (tmp_path / "x.pb").write_bytes(numpy_helper.from_array(x[:rows]).SerializeToString())
        status, got = worker.run("=" if rows < len(x) else tmp_path / "m.onnx", tmp_path / "made", [tmp_path / "x.pb"])
        assert status == "0", got
        assert got[0].dtype == want.dtype and got[0].shape == (rows,)
        np.testing.assert_array_equal(got[0], want[:rows])
