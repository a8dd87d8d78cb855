"""MaxRoiPool: cells whose sizes depend on where they are, and on data. By day one size in five, TENON_NIGHTLY=1 all sixty."""
import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


NIGHTLY = os.environ.get("TENON_NIGHTLY", "") not in ("", "0")
SIZES = [(shape, rows, columns, scale) for shape in [(1, 1, 7, 5), (1, 3, 6, 6), (2, 2, 9, 8), (1, 8, 16, 20), (3, 5, 12, 33)] for rows, columns in
         [(1, 1), (1, 2), (2, 1), (2, 3), (7, 7), (1, 16)] for scale in (1.0, 0.5)]


def pooled(x, regions, rows, columns, scale):
    out = np.zeros((len(regions), x.shape[1], rows, columns), "f4")
    for k, (image, *corners) in enumerate(regions):
        left, top, right, bottom = (int(np.sign(c) * np.floor(abs(c * scale) + .5)) for c in corners)      # halves away from 0
        high, wide = np.float32(max(bottom - top + 1, 1)) / np.float32(rows), np.float32(max(right - left + 1, 1)) / np.float32(columns)
        for p, q in np.ndindex(rows, columns):
            a, b = (int(min(max(v + top, 0), x.shape[2])) for v in (np.floor(p * high), np.ceil((p + 1) * high)))
            c, d = (int(min(max(v + left, 0), x.shape[3])) for v in (np.floor(q * wide), np.ceil((q + 1) * wide)))
            if b > a and d > c:
                out[k, :, p, q] = x[int(image), :, a:b, c:d].max((1, 2))
    return out


@pytest.mark.parametrize("shape, rows, columns, scale", SIZES if NIGHTLY else SIZES[1::5])
def test_regions(worker, tmp_path, shape, rows, columns, scale):
    r = np.random.default_rng(rows * 16 + columns)
    x, corner, size = r.standard_normal(shape).astype("f4"), r.integers(-2, max(shape[2:]), (6, 2)), r.integers(0, max(shape[2:]), (6, 2))
    regions = np.concatenate([r.integers(0, shape[0], (6, 1)), corner, corner + size], 1).astype("f4")
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[rows, columns], spatial_scale=scale)], "regions",
                              [value("x", TensorProto.FLOAT, list(shape)), value("r", TensorProto.FLOAT, ["n", 5])], [value("y", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    for name, v in (("x", x), ("r", regions)):
        (tmp_path / f"{name}.pb").write_bytes(numpy_helper.from_array(v).SerializeToString())
    status, got = worker.run(tmp_path / "m.onnx", tmp_path / "made", [tmp_path / "x.pb", tmp_path / "r.pb"])
    assert status == "0", got
    np.testing.assert_array_equal(got[0], pooled(x, regions, rows, columns, scale))
