"""Odd cases of operators that every exporter writes: windows, reductions, movement, elementwise, types."""

import ml_dtypes
import numpy as np
from onnx import helper, numpy_helper

from odd import MS, f, ints, node, words

# --- pooling
for ap in ("SAME_LOWER", "SAME_UPPER", "VALID"):
    for rank in (1, 2, 3):
        x = f(1, 2, *[7, 6, 5][:rank])
        if rank < 3:
            node(f"maxpool_{ap}_{rank}", "MaxPool", [x], dict(kernel_shape=[3, 2, 2][:rank], strides=[2, 3, 1][:rank], auto_pad=ap), 2, kept=True)
        node(f"avgpool_{ap}_{rank}", "AveragePool", [x], dict(kernel_shape=[3, 2, 4][:rank], strides=[2, 3, 1][:rank], auto_pad=ap, count_include_pad=1))
        node(f"conv_{ap}_{rank}", "Conv", [x, f(4, 1, *[3, 2, 2][:rank])], dict(strides=[2, 1, 3][:rank], auto_pad=ap, group=2))
        node(f"convT_{ap}_{rank}", "ConvTranspose", [x, f(2, 3, *[3, 2, 4][:rank])], dict(strides=[2, 1, 3][:rank], auto_pad=ap))
        node(f"lppool_{ap}_{rank}", "LpPool", [x], dict(kernel_shape=[3, 2, 2][:rank], strides=[2, 1, 1][:rank], auto_pad=ap, p=3))
for so in (0, 1):
    node(f"maxpool_idx_so{so}", "MaxPool", [f(2, 3, 6, 7)], dict(kernel_shape=[2, 3], strides=[2, 2], pads=[0, 1, 1, 1], storage_order=so), 2)
    node(
        f"maxpool_idx_dil_so{so}",
        "MaxPool",
        [f(2, 3, 9, 8)],
        dict(kernel_shape=[2, 3], dilations=[2, 2], ceil_mode=1, strides=[2, 3], storage_order=so),
        2,
        opset=12,
    )
node("maxpool_opset1", "MaxPool", [f(1, 1, 5, 5)], dict(kernel_shape=[2, 2], auto_pad="SAME_LOWER", strides=[2, 2]), opset=7)
node("maxpool_f16", "MaxPool", [f(1, 1, 5, 5, dt="f2")], dict(kernel_shape=[2, 2]), opset=12)
node("maxpool_f64", "MaxPool", [f(1, 1, 5, 5, dt="f8")], dict(kernel_shape=[2, 2]), opset=12)
for c in (0, 1):
    for ceil in (0, 1):
        node(
            f"avgpool_ceil{ceil}_inc{c}",
            "AveragePool",
            [f(1, 1, 7, 7)],
            dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 0, 0, 1], ceil_mode=ceil, count_include_pad=c),
            opset=19,
        )
        node(
            f"avgpool_dil_ceil{ceil}_inc{c}",
            "AveragePool",
            [f(1, 1, 9, 9)],
            dict(kernel_shape=[3, 2], strides=[3, 2], pads=[2, 1, 2, 1], dilations=[2, 3], ceil_mode=ceil, count_include_pad=c),
            opset=19,
        )
        node(f"lppool_ceil{ceil}_{c}", "LpPool", [f(1, 1, 8, 8)], dict(kernel_shape=[3, 3], strides=[2, 2], pads=[c] * 4, ceil_mode=ceil, p=2), opset=18)
node("globalmax_0d", "GlobalMaxPool", [f(2, 3, 4)])
node("convT_out_shape", "ConvTranspose", [f(1, 2, 4, 5), f(2, 3, 3, 3)], dict(output_shape=[9, 11], strides=[2, 2]))
node("convT_out_shape_lower", "ConvTranspose", [f(1, 2, 4, 5), f(2, 3, 3, 3)], dict(output_shape=[8, 10], strides=[2, 2], auto_pad="SAME_LOWER"))
node("convT_out_shape_upper", "ConvTranspose", [f(1, 2, 4, 5), f(2, 3, 3, 3)], dict(output_shape=[8, 10], strides=[2, 2], auto_pad="SAME_UPPER"))
node("convT_outpad_pads", "ConvTranspose", [f(1, 2, 4, 5), f(2, 3, 3, 3), f(3)], dict(strides=[3, 2], output_padding=[2, 1], pads=[1, 0, 1, 2]))
node("convT_dil_group", "ConvTranspose", [f(2, 4, 5), f(4, 2, 3)], dict(strides=[2], dilations=[2], group=2))
node("conv_empty_batch", "Conv", [f(0, 3, 5, 5), f(2, 3, 3, 3)])
node("conv_f64", "Conv", [f(1, 2, 5, dt="f8"), f(3, 2, 2, dt="f8")])
node("conv_f16", "Conv", [f(1, 2, 5, 6, dt="f2"), f(3, 2, 2, 2, dt="f2")])
node("conv_pads_asym_dil", "Conv", [f(2, 2, 9, 8), f(4, 2, 3, 2), f(4)], dict(pads=[3, 0, 1, 2], dilations=[2, 3], strides=[1, 2]))
node("conv_4d", "Conv", [f(1, 1, 4, 4, 4, 4), f(1, 1, 2, 2, 2, 2)], judge="onnx")
node("conv_bias_none", "Conv", [f(1, 2, 5, 5), f(2, 2, 1, 1), None])
# --- reductions
for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"):
    x = np.abs(f(2, 3, 4)) + 0.1
    for noop in (0, 1):
        node(f"{op}_noop{noop}_none", op, [x], dict(noop_with_empty_axes=noop), opset=18)
        node(f"{op}_noop{noop}_empty", op, [x, np.zeros(0, "i8")], dict(noop_with_empty_axes=noop), opset=18, consts=(1,))
        node(f"{op}_noop{noop}_emptydyn", op, [x, np.zeros(0, "i8")], dict(noop_with_empty_axes=noop, keepdims=0), opset=18, dynamic=False)
    node(f"{op}_rank0", op, [np.float32(2.5)], opset=18)
    node(f"{op}_neg", op, [x, np.array([-1, -3])], dict(keepdims=0), opset=18, consts=(1,))
    node(f"{op}_attr13", op, [x], dict(axes=[-1, 0], keepdims=0), opset=11)
    node(f"{op}_emptyred", op, [np.zeros((2, 0, 4), "f4"), np.array([1])], dict(keepdims=1), opset=20, consts=(1,))
    node(f"{op}_i32", op, [ints(1, 5, 2, 3, dt="i4"), np.array([1])], opset=18, consts=(1,), kept=True)
    node(f"{op}_i64", op, [ints(1, 5, 2, 3, dt="i8"), np.array([0])], opset=18, consts=(1,), kept=True)
    node(f"{op}_f64", op, [x.astype("f8"), np.array([0, 1])], opset=18, consts=(1,))
    node(f"{op}_f16", op, [x.astype("f2"), np.array([0, 1])], opset=18, consts=(1,))
node("reducemax_bool", "ReduceMax", [np.array([[True, False], [False, False]]), np.array([1])], opset=20, consts=(1,))
node("reducemin_u8", "ReduceMin", [ints(0, 200, 3, 4, dt="u1"), np.array([1])], opset=18, consts=(1,))
node("reducemax_nan", "ReduceMax", [np.array([[1, np.nan, 3], [np.nan, 2, 1]], "f4"), np.array([1])], opset=18, consts=(1,), judge="onnx")
node("reduce_lse_inf", "ReduceLogSumExp", [np.array([[-np.inf, -np.inf], [np.inf, 1], [1000, 1000]], "f4"), np.array([1])], opset=18, consts=(1,))
for op in ("ArgMax", "ArgMin"):
    for s in (0, 1):
        node(f"{op}_last{s}", op, [np.array([[1, 3, 3, 2], [2, 2, 2, 2]], "f4")], dict(axis=-1, keepdims=0, select_last_index=s), opset=13)
    node(f"{op}_i8", op, [ints(-5, 5, 3, 4, dt="i1")], dict(axis=0), opset=13)
    node(f"{op}_i32", op, [ints(-5, 5, 3, 4, dt="i4")], dict(axis=1), opset=13, kept=True)
    node(f"{op}_f64", op, [f(3, 4, dt="f8")], dict(axis=1), opset=13)
# softmax kin
for op in ("Softmax", "LogSoftmax", "Hardmax"):
    for axis in (0, 1, 2, -1, -2):
        node(f"{op}_{axis}_13", op, [f(2, 3, 4)], dict(axis=axis), opset=13)
        node(f"{op}_{axis}_11", op, [f(2, 3, 4)], dict(axis=axis), opset=11)
    node(f"{op}_def11", op, [f(2, 3, 4)], opset=11)
    node(f"{op}_def13", op, [f(2, 3, 4)], opset=13)
    node(f"{op}_empty", op, [f(2, 0, 4)], dict(axis=1), opset=13)
    node(f"{op}_rank1", op, [f(5)], opset=13)
    node(f"{op}_inf", op, [np.array([[-np.inf, 0, 1], [np.inf, 0, 1]], "f4")], opset=13, judge="onnx" if op != "Hardmax" else "ort")
    node(f"{op}_f64", op, [f(3, 4, dt="f8")], opset=13)
    node(f"{op}_f16", op, [f(3, 4, dt="f2")], opset=13)
# --- movement
node("squeeze_none", "Squeeze", [f(1, 3, 1, 2)], opset=13, dynamic=False)
node("squeeze_none_11", "Squeeze", [f(1, 3, 1, 2)], opset=11, dynamic=False)
node("squeeze_attr", "Squeeze", [f(1, 3, 1, 2)], dict(axes=[-2]), opset=11)
node("squeeze_empty", "Squeeze", [f(1, 3, 1, 2), np.zeros(0, "i8")], opset=13, consts=(1,), dynamic=False, judge="onnx")
node("unsqueeze_neg", "Unsqueeze", [f(3, 2), np.array([-1, -4])], opset=13, consts=(1,))
node("unsqueeze_rank0", "Unsqueeze", [np.float32(3), np.array([0, 1])], opset=13, consts=(1,))
node("unsqueeze_dyn", "Unsqueeze", [f(3, 2), np.array([-1, -4])], opset=13, dynamic=False)
node("unsqueeze_unsorted", "Unsqueeze", [f(3, 2), np.array([2, 0])], opset=13, consts=(1,))
node("flatten_neg", "Flatten", [f(2, 3, 4)], dict(axis=-2), opset=13)
node("flatten_rank0", "Flatten", [np.float32(3)], dict(axis=0), opset=13)
node("flatten_0", "Flatten", [f(2, 3, 4)], dict(axis=0), opset=13)
node("flatten_3", "Flatten", [f(2, 3, 4)], dict(axis=3), opset=13)
node("reshape_allowzero", "Reshape", [f(0, 3, 4), np.array([3, 4, 0])], dict(allowzero=1), opset=14, consts=(1,))
node("reshape_zero_copy", "Reshape", [f(2, 3, 4), np.array([0, -1])], opset=14, consts=(1,))
node("reshape_to_scalar", "Reshape", [f(1, 1), np.zeros(0, "i8")], opset=14, consts=(1,))
node("reshape_rank0", "Reshape", [np.float32(1), np.array([1, -1, 1])], opset=14, consts=(1,))
node("reshape_dyn", "Reshape", [f(2, 3, 4), np.array([4, -1])], opset=14, dynamic=False)
node("reshape_dyn_zero", "Reshape", [f(2, 3, 4), np.array([0, 0, -1])], opset=14, dynamic=False)
node("reshape_opset1ish", "Reshape", [f(2, 6), np.array([3, 4])], opset=7, consts=(1,))
node("expand_rank0", "Expand", [np.float32(3), np.array([2, 3])], consts=(1,))
node("expand_bidir", "Expand", [f(3, 1), np.array([2, 1, 6])], consts=(1,), dynamic=False)
node("expand_dyn", "Expand", [f(3, 1), np.array([2, 1, 6])], dynamic=False)
node("expand_to0", "Expand", [f(3, 1), np.array([3, 0])], consts=(1,), dynamic=False)
node("expand_one", "Expand", [f(3, 4), np.array([1])], consts=(1,))
node("expand_emptyshape", "Expand", [f(3, 4), np.zeros(0, "i8")], consts=(1,))
node("expand_bool", "Expand", [np.array([[True], [False]]), np.array([2, 3])], consts=(1,), dynamic=False)
node("tile_dyn", "Tile", [f(2, 3), np.array([2, 3])], dynamic=False)
node("tile_zero", "Tile", [f(2, 3), np.array([0, 3])], consts=(1,))
node("tile_rank0", "Tile", [np.float32(3), np.zeros(0, "i8")], consts=(1,))
node("tile_bool", "Tile", [np.array([[True, False]]), np.array([2, 2])], consts=(1,))
node("tile_str", "Tile", [np.array([["a", "bc"]], object), np.array([2, 2])], consts=(1,))
node("transpose_def", "Transpose", [f(2, 3, 4)])
node("transpose_rank0", "Transpose", [np.float32(2)])
node("transpose_6", "Transpose", [f(2, 3, 1, 2, 3, 2)], dict(perm=[5, 3, 1, 0, 2, 4]))
node("transpose_str", "Transpose", [np.array([["a", "b"], ["c", "d"]], object)])
node("concat_neg", "Concat", [f(2, 3), f(2, 0), f(2, 4)], dict(axis=-1))
node("concat_str", "Concat", [np.array(["a"], object), np.array(["b", "c"], object)], dict(axis=0))
node("concat_one", "Concat", [f(2, 3)], dict(axis=1))
node("split_11", "Split", [f(2, 6)], dict(axis=1, split=[1, 5]), 2, opset=11)
node("split_11_def", "Split", [f(6, 2)], {}, 3, opset=11)
node("split_18_uneven", "Split", [f(7, 2)], dict(num_outputs=3), 3, opset=18, dynamic=False)
node("split_18_uneven_dyn", "Split", [f(7, 2)], dict(num_outputs=4), 4, opset=18, kept=True)
node("split_neg", "Split", [f(2, 6), np.array([2, 0, 4])], dict(axis=-1), 3, opset=13, consts=(1,))
node("split_dyn", "Split", [f(2, 6), np.array([2, 4])], dict(axis=-1), 2, opset=13, dynamic=False)
node("slice_opset1", "Slice", [f(5, 6)], dict(starts=[1, -3], ends=[1000, 5], axes=[0, 1]), opset=9)
node("slice_opset1_noaxes", "Slice", [f(5, 6)], dict(starts=[1], ends=[-1]), opset=9)
for k, (s, e, a, st) in enumerate(
    [
        ([-1], [-1000], [0], [-1]),
        ([2**62], [-(2**62)], [1], [-2]),
        ([0, 1], [2**63 - 1, 2**31 - 1], [-2, -1], [2, 3]),
        ([3], [1], [0], [1]),
        ([-100], [100], [1], [2]),
        ([4], [-(2**63)], [1], [-1]),
        ([5], [0], [1], [-1]),
    ]
):
    node(f"slice_{k}", "Slice", [f(5, 6), np.array(s), np.array(e), np.array(a), np.array(st)], consts=(1, 2, 3, 4))
    node(f"slice_dyn{k}", "Slice", [f(5, 6), np.array(s), np.array(e), np.array(a), np.array(st)], dynamic=False)
node("slice_noaxes_steps", "Slice", [f(5, 6), np.array([1, 2]), np.array([4, 6]), None, np.array([2, 1])], consts=(1, 2, 4))
node("slice_i32", "Slice", [f(5, 6), np.array([1], "i4"), np.array([4], "i4"), np.array([-1], "i4")], consts=(1, 2, 3))
node("slice_str", "Slice", [np.array(["a", "b", "c"], object), np.array([1]), np.array([3])], consts=(1, 2))
node("slice_empty_starts", "Slice", [f(5, 6), np.zeros(0, "i8"), np.zeros(0, "i8")], consts=(1, 2))
for mode in ("constant", "edge", "reflect", "wrap"):
    node(f"pad_{mode}", "Pad", [f(3, 4), np.array([1, 2, 2, 1])], dict(mode=mode), opset=19, consts=(1,))
    node(f"pad_{mode}_dyn", "Pad", [f(3, 4), np.array([1, 2, 2, 1])], dict(mode=mode), opset=19, dynamic=False)
    node(f"pad_{mode}_i64", "Pad", [ints(0, 9, 3, 4), np.array([1, 2, 2, 1])], dict(mode=mode), opset=19, consts=(1,))
    node(f"pad_{mode}_neg", "Pad", [f(5, 6), np.array([-1, 2, 0, -2])], dict(mode=mode), opset=19, consts=(1,), kept=True)
    node(f"pad_{mode}_axes", "Pad", [f(3, 4), np.array([2, 1]), None, np.array([-1])], dict(mode=mode), opset=19, consts=(1, 3))
    node(f"pad_{mode}_old", "Pad", [f(3, 4)], dict(mode=mode, pads=[1, 0, 1, 2]) if mode != "wrap" else dict(pads=[0, 1, 0, 1], value=3.5), opset=9)
node("pad_wrap_more", "Pad", [f(3), np.array([7, 8])], dict(mode="wrap"), opset=19, consts=(1,), judge="onnx")
node("pad_value", "Pad", [f(2, 2), np.array([1, 1, 1, 1]), np.float32(7)], opset=13, consts=(1, 2))
node("pad_value1", "Pad", [f(2, 2), np.array([1, 1, 1, 1]), np.array([7], "f4")], opset=13, consts=(1, 2))
node("pad_bool", "Pad", [np.array([[True]]), np.array([1, 1, 1, 1]), np.array(True)], opset=13, consts=(1, 2))
node("pad_empty", "Pad", [f(0, 2), np.array([1, 1, 1, 1])], opset=13, consts=(1,))
for bs in (2, 3):
    for mode in ("DCR", "CRD"):
        node(f"d2s_{mode}{bs}", "DepthToSpace", [f(2, 18 * 2, 2, 3)], dict(blocksize=bs, mode=mode), opset=13)
node("s2d", "SpaceToDepth", [f(1, 2, 6, 4)], dict(blocksize=2), opset=13)
# elementwise types & edges
for op in ("Add", "Sub", "Mul", "Div"):
    for dt in ("f8", "f4", "f2", "i4", "i8", "u4", "u8", "i1", "u1", "i2", "u2"):
        a = (f(3, 1) * 5).astype(dt) if dt[0] == "f" else ints(1, 20, 3, 1, dt=dt)
        b = (np.abs(f(4)) + 1).astype(dt) if dt[0] == "f" else ints(1, 9, 4, dt=dt)
        node(f"{op}_{dt}", op, [a, b], opset=14, dynamic=False)
    node(f"{op}_r0", op, [np.float32(3), np.float32(2)], opset=14)
    node(f"{op}_r0_r5", op, [np.float32(3), f(1, 2, 1, 3, 2)], opset=14, dynamic=False)
    node(f"{op}_bc5", op, [f(2, 1, 3, 1, 2), f(4, 1, 5, 1)], opset=14, dynamic=False)
    node(f"{op}_empty", op, [f(0, 3), f(1, 3)], opset=14, dynamic=False)
node("div_int_neg", "Div", [np.array([-7, 7, -7, 7, -(2**31)], "i4"), np.array([2, -2, -2, 2, -1], "i4")], opset=14, judge="onnx")
node("div_i64_neg", "Div", [np.array([-7, 7, -7, 7]), np.array([2, -2, -2, 2])], opset=14)
node("mod_int_neg", "Mod", [np.array([-7, 7, -7, 7], "i4"), np.array([3, -3, -3, 3], "i4")], opset=13)
node("mod_fmod_int_neg", "Mod", [np.array([-7, 7, -7, 7], "i4"), np.array([3, -3, -3, 3], "i4")], dict(fmod=1), opset=13)
node("mod_fmod_f", "Mod", [np.array([-7.5, 7.5, -7, 7], "f4"), np.array([3, -3, -3, 3], "f4")], dict(fmod=1), opset=13)
node("mod_fmod_f16", "Mod", [np.array([-7.5, 7.5, -7, 7], "f2"), np.array([3, -3, -3, 3], "f2")], dict(fmod=1), opset=13)
node("mod_fmod_f64", "Mod", [np.array([-7.5, 7.5, -7, 7], "f8"), np.array([3, -3, -3, 3], "f8")], dict(fmod=1), opset=13)
for dt in ("u1", "i1", "u2", "i2", "u4", "u8", "i8"):
    node(f"mod_{dt}", "Mod", [ints(0 if dt[0] == "u" else -9, 20, 6, dt=dt), ints(1, 7, 6, dt=dt)], opset=13)
for a in ("f4", "f8", "i4", "i8"):
    for b in ("f4", "f8", "i4", "i8", *(["f2"] if a == "f4" else [])):
        node(f"pow_{a}_{b}", "Pow", [np.array([1, 2, 3, 4, -2], a), np.array([2, 0, 3, 1, 2], b)], opset=15)
node("pow_neg", "Pow", [np.array([-8, 0, 2, 4], "f4"), np.array([1 / 3.0, 0, -1, 0.5], "f4")], opset=15)
node("pow_bc", "Pow", [f(2, 3) ** 2, np.array(2, "i8")], opset=15)
for dt in ("f4", "f8", "f2", "i4", "i8", "u4", "u8", "i1", "u1", "i2", "u2"):
    for op in ("Max", "Min"):
        node(
            f"{op}_{dt}",
            op,
            [(f(3, 1) * 9).astype(dt) if dt[0] == "f" else ints(0, 20, 3, 1, dt=dt), (f(4) * 9).astype(dt) if dt[0] == "f" else ints(0, 20, 4, dt=dt)],
            opset=13,
            dynamic=False,
        )
node("max_nan", "Max", [np.array([np.nan, 1, 2], "f4"), np.array([1, np.nan, 3], "f4")], opset=13)
node("min_nan", "Min", [np.array([np.nan, 1, 2], "f4"), np.array([1, np.nan, 3], "f4")], opset=13)
node("max_one", "Max", [f(3)], opset=13)
node("sum_one", "Sum", [f(3)], opset=13)
node("mean_bc", "Mean", [f(3, 1), f(2), np.float32(3)], opset=13, dynamic=False)
node("clip_nan", "Clip", [np.array([np.nan, 5, -5], "f4"), np.float32(-1), np.float32(1)], opset=13)
node("clip_lohi", "Clip", [f(5) * 5, np.float32(2), np.float32(-2)], opset=13)
node("clip_attr6", "Clip", [f(5) * 5], dict(min=-1.0, max=1.0), opset=6)
node("clip_attr6_min", "Clip", [f(5) * 5], dict(min=-1.0), opset=7)
node("clip_none", "Clip", [f(5) * 5], opset=12)
node("clip_u64", "Clip", [ints(0, 50, 5, dt="u8"), np.array(3, "u8"), np.array(30, "u8")], opset=13)
node("clip_dyn", "Clip", [f(5) * 5, np.float32(-2), np.float32(2)], opset=13)
node("clip_f16", "Clip", [f(5, dt="f2") * 5, np.float16(-2), np.float16(2)], opset=13)
for op in ("Round", "Floor", "Ceil"):
    node(f"{op}_half", op, [np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.0, -0.0, 1e30, np.inf, -np.inf, np.nan], "f4")], opset=13)
    node(f"{op}_f16", op, [np.array([-2.5, -1.5, 0.5], "f2")], opset=13)
    node(f"{op}_f64", op, [np.array([-2.5, -1.5, 0.5, 1e300], "f8")], opset=13)
for (
    op
) in "Exp Log Sqrt Tanh Sigmoid Erf Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Reciprocal Softplus Softsign Neg Abs Sign Relu Elu Selu LeakyRelu HardSigmoid HardSwish Mish Celu ThresholdedRelu Gelu".split():
    x = np.array([0, -0.0, 1, -1, 0.5, -0.5, 100, -100, 1e-30, np.inf, -np.inf, np.nan, 1e5, 88.7, -103.9, 3e38], "f4")
    node(f"{op}_edges", op, [x], opset=22 if op in ("Gelu", "Mish") else 14, loose=1e-5)
    node(f"{op}_f64", op, [np.array([0.1, 0.5, 0.9, -0.3, 30, -30, -700, 700], "f8")], opset=22 if op in ("Gelu", "Mish") else 14, loose=1e-6)
    node(f"{op}_f16", op, [np.array([0.1, 0.5, 0.9, -0.3, 10, -10], "f2")], opset=22 if op in ("Gelu", "Mish") else 14)
node("isinf16", "IsInf", [np.array([np.inf, 1], "f2")], opset=20)
node("isnan64", "IsNaN", [np.array([np.nan, 1], "f8")], opset=13)
for d in ("LEFT", "RIGHT"):
    node(f"bitshift_{d}_big", "BitShift", [np.array([1, 255, 7], "u1"), np.array([7, 8, 9], "u1")], dict(direction=d), opset=11, judge="onnx")
    node(f"bitshift_{d}_u16", "BitShift", [np.array([1, 255, 7], "u2"), np.array([7, 8, 9], "u2")], dict(direction=d), opset=11, judge="onnx")
for op in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"):
    for dt in ("f4", "f8", "f2", "i4", "i8", "u4", "u8", "i1", "u1", "i2", "u2"):
        node(f"{op}_{dt}", op, [np.array([1, 2, 3], dt), np.array([3, 2, 1], dt)], opset=16)
    node(f"{op}_nan", op, [np.array([np.nan, 1, np.nan], "f4"), np.array([np.nan, np.nan, 1], "f4")], opset=16)
node("equal_str", "Equal", [np.array(["a", "b"], object), np.array(["a", "c"], object)], opset=19)
node("equal_bool", "Equal", [np.array([True, False]), np.array([True, True])], opset=19)
node("where_str", "Where", [np.array([True, False]), np.array(["a", "b"], object), np.array(["c", "d"], object)], opset=16)
node("where_bc", "Where", [np.array([[True], [False]]), np.float32(3), f(4)], opset=16, dynamic=False)
for dt in ("f2", "i1", "u1", "i4", "i8", "u8", "f8", "b1"):
    node(f"where_{dt}", "Where", [np.array([True, False]), np.array([1, 0], dt), np.array([0, 1], dt)], opset=16)
for op in ("And", "Or", "Xor"):
    node(f"{op}_bc", op, [np.array([[True], [False]]), np.array([True, False, True])], opset=13, dynamic=False)
# cast
tys = ["f4", "f8", "f2", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "b1"]
for a in tys:
    for b in tys:
        x = np.array([0, 1, 2, 100], a) if a[0] not in "fi" else np.array([0, 1, -2, 100 if a != "f2" else 3], a)
        if a[0] == "f" and b[0] != "u":
            x = np.concatenate([x, np.array([2.7, -2.7], a)])
        if b[0] == "u" and a[0] == "f":
            x = np.abs(x)
        node(f"cast_{a}_{b}", "Cast", [x], dict(to=helper.np_dtype_to_tensor_dtype(np.dtype(b))), opset=13)
for b in ("f4", "f8", "i4", "i8"):
    node(f"cast_str_{b}", "Cast", [np.array(["1", "-7", "100"], object)], dict(to=helper.np_dtype_to_tensor_dtype(np.dtype(b))), opset=13)
node("cast_str_f", "Cast", [np.array(["1.5", "-inf", "NaN", "1e3", "+INF", " 2"], object)], dict(to=1), opset=13)
node("cast_to_str_i", "Cast", [np.array([1, -7, 10**12])], dict(to=8), opset=13)
node("cast_to_str_f", "Cast", [np.array([1.5, -7, 1e20, 1e-7, 0.1, 123456.789], "f4")], dict(to=8), opset=13)
node("cast_to_str_b", "Cast", [np.array([True, False])], dict(to=8), opset=13)
node("castlike", "CastLike", [np.array([1.5, 2]), np.array([1], "i4")], opset=15)
for t in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"):
    x = np.array([0, 1, -2.5, 1000, 1e6, np.inf, -np.inf, np.nan, 1e-9, 448, 500], "f4")
    for sat in (0, 1):
        node(
            f"cast_f4_{t}_{sat}",
            "Cast",
            [x],
            dict(to=helper.np_dtype_to_tensor_dtype(np.dtype(getattr(ml_dtypes, t))), **({} if t == "bfloat16" else dict(saturate=sat))),
            opset=21,
        )
    y = x[:4].astype(getattr(ml_dtypes, t))
    node(f"cast_{t}_f4", "Cast", [y], dict(to=1), opset=21)
    node(f"cast_{t}_f2", "Cast", [y], dict(to=10), opset=21)
for t in ("int4", "uint4"):
    y = np.array([0, 1, 7, 5], getattr(ml_dtypes, t))
    node(f"cast_{t}_f4", "Cast", [y], dict(to=1), opset=21)
    node(f"cast_{t}_i8", "Cast", [y], dict(to=3), opset=21)
    node(
        f"cast_f4_{t}",
        "Cast",
        [np.array([0, 1.5, 2.5, -3.5, 7, 20, -20], "f4")],
        dict(to=helper.np_dtype_to_tensor_dtype(np.dtype(getattr(ml_dtypes, t)))),
        opset=21,
        judge="onnx",
    )
bf = lambda *s: f(*s).astype(ml_dtypes.bfloat16)
for op in ("Add", "Mul", "Sub", "Div"):
    node(f"{op}_bf16", op, [bf(3, 4), bf(4)], opset=14, dynamic=False)
node("matmul_bf16", "MatMul", [bf(3, 4), bf(4, 5)], opset=13)
node("relu_bf16", "Relu", [bf(3, 4)], opset=14)
node("softmax_bf16", "Softmax", [bf(3, 4)], opset=13)
node("lnorm_bf16", "LayerNormalization", [bf(3, 4), bf(4), bf(4)], opset=17)
node("gather_bf16", "Gather", [bf(3, 4), np.array([0, 2])], opset=13)
node("reduce_bf16", "ReduceSum", [bf(3, 4), np.array([1])], opset=13, consts=(1,))
