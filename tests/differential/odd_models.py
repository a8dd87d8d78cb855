"""Small models after what exporters of every kind write: detection heads, decoding loops, scans, sequences, quantised layers,
decoders of ONNX Runtime's operators, words, functions.
"""

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from odd import MS, R, case, f, ints, model, node, words

N, vi = helper.make_node, helper.make_tensor_value_info
F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def c(v, dt=None):
    return np.asarray(v, dt)


# opset 11 resize modes
node(
    "tf_half_pixel_for_nn",
    "Resize",
    [f(1, 1, 4, 5), np.zeros(0, "f4"), np.array([1, 1, 2, 0.6], "f4")],
    dict(mode="nearest", coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor"),
    opset=11,
    consts=(1, 2),
)
node(
    "tf_half_pixel_for_nn_s",
    "Resize",
    [f(1, 1, 4, 5), np.zeros(0, "f4"), np.zeros(0, "f4"), np.array([1, 1, 7, 3])],
    dict(mode="nearest", coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor"),
    opset=11,
    consts=(1, 2, 3),
    kept=True,
)


# YOLOv8 head
def yolov8():
    n = [
        N("Conv", ["x", "w"], ["c"], kernel_shape=[1, 1]),
        N("Shape", ["c"], ["sh"]),
        N("Gather", ["sh", "i0"], ["b"], axis=0),
        N("Unsqueeze", ["b", "a0"], ["b1"]),
        N("Concat", ["b1", "m1s"], ["rs"], axis=0),
        N("Reshape", ["c", "rs"], ["r"]),
        N("Split", ["r", "sp"], ["box", "cls"], axis=1),
        N("Shape", ["box"], ["bs"]),
        N("Gather", ["bs", "i2"], ["na"]),
        N("Unsqueeze", ["na", "a0"], ["na1"]),
        N("Concat", ["b1", "c4_4", "na1"], ["ds"], axis=0),
        N("Reshape", ["box", "ds"], ["d"]),
        N("Transpose", ["d"], ["dt"], perm=[0, 2, 1, 3]),
        N("Softmax", ["dt"], ["dsm"], axis=1),
        N("Conv", ["dsm", "dw"], ["dc"], kernel_shape=[1, 1]),
        N("Reshape", ["dc", "r4"], ["dist"]),
        N("Slice", ["dist", "s0", "s2", "ax1"], ["lt"]),
        N("Slice", ["dist", "s2", "s4", "ax1"], ["rb"]),
        N("Sub", ["anch", "lt"], ["p1"]),
        N("Add", ["anch", "rb"], ["p2"]),
        N("Concat", ["p1", "p2"], ["xyxy"], axis=1),
        N("Sigmoid", ["cls"], ["sc"]),
        N("Transpose", ["xyxy"], ["bx"], perm=[0, 2, 1]),
        N("NonMaxSuppression", ["bx", "sc", "mx", "iou", "st"], ["sel"]),
        N("Gather", ["sel", "col2"], ["selb"], axis=1),
        N("Gather", ["sel", "col0"], ["selbat"], axis=1),
        N("Concat", ["selbat", "selb"], ["ixs"], axis=1),
        N("GatherND", ["bx", "ixs"], ["outb"]),
        N("ReduceMax", ["sc"], ["best"], axes=[1], keepdims=0),
        N("GatherND", ["best", "ixs"], ["outs"]),
        N("ArgMax", ["sc"], ["lab"], axis=1, keepdims=0),
        N("GatherND", ["lab", "ixs"], ["outl"]),
    ]
    inits = dict(
        w=f(11, 8, 1, 1)[:11],
        i0=c(0),
        i2=c(2),
        a0=c([0]),
        m1s=c([19, -1]),
        sp=c([16, 3]),
        c4_4=c([4, 4]),
        dw=c(np.arange(4), "f4").reshape(1, 4, 1, 1),
        r4=c([0, 4, -1]),
        s0=c([0]),
        s2=c([2]),
        s4=c([4]),
        ax1=c([1]),
        anch=f(1, 2, 20) * 9,
        mx=c([5]),
        iou=c([0.5], "f4"),
        st=c([0.3], "f4"),
        col2=c([2]),
        col0=c([0]),
    )
    inits["w"] = f(19, 8, 1, 1)
    return model(n, [vi("x", F, ["b", 8, "h", "w"])], ["outb", "outs", "outl"], inits, opset=13)


case("yolov8", yolov8(), [dict(x=f(1, 8, 4, 5)), dict(x=f(2, 8, 5, 4)), dict(x=f(3, 8, 2, 10))])


# meshgrid by Range+Expand
def mesh():
    n = [
        N("Shape", ["x"], ["s"]),
        N("Gather", ["s", "i2"], ["h"]),
        N("Gather", ["s", "i3"], ["w"]),
        N("Range", ["z", "h", "o"], ["ry"]),
        N("Range", ["z", "w", "o"], ["rx"]),
        N("Unsqueeze", ["ry", "a1"], ["cy"]),
        N("Unsqueeze", ["rx", "a0"], ["cx"]),
        N("Unsqueeze", ["h", "a0"], ["h1"]),
        N("Unsqueeze", ["w", "a0"], ["w1"]),
        N("Concat", ["h1", "w1"], ["hw"], axis=0),
        N("Expand", ["cy", "hw"], ["gy"]),
        N("Expand", ["cx", "hw"], ["gx"]),
        N("Unsqueeze", ["gy", "am"], ["gy1"]),
        N("Unsqueeze", ["gx", "am"], ["gx1"]),
        N("Concat", ["gx1", "gy1"], ["g"], axis=-1),
        N("Cast", ["g"], ["gf"], to=1),
        N("Reshape", ["gf", "r"], ["gr"]),
        N("Transpose", ["x"], ["xt"], perm=[0, 2, 3, 1]),
        N("Reshape", ["xt", "r2"], ["xr"]),
        N("Add", ["xr", "gr"], ["y"]),
    ]
    return model(
        n, [vi("x", F, ["b", 2, "h", "w"])], ["y"], dict(i2=c(2), i3=c(3), z=c(0), o=c(1), a0=c([0]), a1=c([1]), am=c([-1]), r=c([1, -1, 2]), r2=c([0, -1, 2]))
    )


case("meshgrid", mesh(), [dict(x=f(1, 2, 3, 4)), dict(x=f(2, 2, 1, 5))])


# Loop: greedy decode with early stop and scan outputs
def loop():
    body = helper.make_graph(
        [
            N("Gather", ["emb", "tok"], ["e"]),
            N("Add", ["e", "hid"], ["h0"]),
            N("Tanh", ["h0"], ["h2"]),
            N("MatMul", ["h2", "wout"], ["lg"]),
            N("ArgMax", ["lg"], ["am"], axis=-1, keepdims=0),
            N("Equal", ["am", "eos"], ["is"]),
            N("Cast", ["is"], ["isi"], to=6),
            N("ReduceMin", ["isi"], ["all"], keepdims=0),
            N("Cast", ["all"], ["allb"], to=9),
            N("Not", ["allb"], ["co"]),
            N("Identity", ["am"], ["to"]),
            N("Identity", ["h2"], ["ho"]),
            N("Identity", ["am"], ["sc"]),
        ],
        "body",
        [vi("it", I, []), vi("ci", B, []), vi("tok", I, ["b"]), vi("hid", F, ["b", 6])],
        [vi("co", B, []), vi("to", I, ["b"]), vi("ho", F, ["b", 6]), vi("sc", I, ["b"])],
    )
    n = [N("Loop", ["mx", "", "t0", "h"], ["tf", "hf", "toks"], body=body), N("Transpose", ["toks"], ["y"], perm=[1, 0])]
    return model(n, [vi("t0", I, ["b"]), vi("h", F, ["b", 6]), vi("mx", I, [])], ["y", "hf", "tf"], dict(emb=f(9, 6), wout=f(6, 9), eos=c(3)))


case("greedy", loop(), [dict(t0=c([1, 2]), h=f(2, 6), mx=c(7)), dict(t0=c([1]), h=f(1, 6), mx=c(12)), dict(t0=c([1, 4, 5]), h=f(3, 6), mx=c(1))])


# Loop growing carried value (concat), while cond from data, nested If
def grow():
    th = helper.make_graph([N("Concat", ["acc", "one1"], ["tc"], axis=0)], "t", [], [helper.make_empty_tensor_value_info("tc")])
    el = helper.make_graph([N("Mul", ["acc", "two"], ["ec"])], "e", [], [helper.make_empty_tensor_value_info("ec")])
    body = helper.make_graph(
        [
            N("Mod", ["it", "twoi"], ["m"]),
            N("Equal", ["m", "zi"], ["ev"]),
            N("If", ["ev"], ["ao"], then_branch=th, else_branch=el),
            N("ReduceSum", ["ao"], ["s"], keepdims=0),
            N("Less", ["s", "lim"], ["co"]),
        ],
        "b",
        [vi("it", I, []), vi("ci", B, []), vi("acc", F, ["n"])],
        [vi("co", B, []), vi("ao", F, ["k"])],
    )
    return model(
        [N("Loop", ["mx", "cond", "x"], ["y"], body=body)],
        [vi("x", F, ["n"]), vi("lim", F, [])],
        ["y"],
        dict(mx=c(20), cond=c(True), one1=c([1], "f4"), two=c(2, "f4"), twoi=c(2), zi=c(0)),
    )


case("grow", grow(), [dict(x=np.abs(f(3)), lim=c(50, "f4")), dict(x=np.abs(f(1)), lim=c(500, "f4")), dict(x=np.zeros(0, "f4"), lim=c(3, "f4"))])


# Scan reverse, two states, axes
def scan():
    body = helper.make_graph(
        [
            N("Add", ["s1", "xi"], ["a"]),
            N("Tanh", ["a"], ["s1o"]),
            N("Mul", ["s2", "yi"], ["s2o"]),
            N("Sub", ["s1o", "s2o"], ["z"]),
            N("Identity", ["a"], ["z2"]),
        ],
        "b",
        [vi("s1", F, ["b", 3]), vi("s2", F, ["b", 3]), vi("xi", F, ["b", 3]), vi("yi", F, ["b", 3])],
        [vi("s1o", F, ["b", 3]), vi("s2o", F, ["b", 3]), vi("z", F, ["b", 3]), vi("z2", F, ["b", 3])],
    )
    return model(
        [
            N(
                "Scan",
                ["i1", "i2", "x", "y"],
                ["f1", "f2", "zs", "z2s"],
                body=body,
                num_scan_inputs=2,
                scan_input_directions=[1, 0],
                scan_input_axes=[1, -2],
                scan_output_axes=[1, 0],
                scan_output_directions=[0, 1],
            )
        ],
        [vi("i1", F, ["b", 3]), vi("i2", F, ["b", 3]), vi("x", F, ["b", "t", 3]), vi("y", F, ["b", "t", 3])],
        ["f1", "f2", "zs", "z2s"],
    )


case("scan", scan(), [dict(i1=f(2, 3), i2=f(2, 3), x=f(2, 5, 3), y=f(2, 5, 3)), dict(i1=f(1, 3), i2=f(1, 3), x=f(1, 1, 3), y=f(1, 1, 3))])


# If with different shapes (same rank) and different ranks
def iff(rank_diff):
    th = helper.make_graph([N("ReduceSum", ["x", "ax"], ["t"], keepdims=0 if rank_diff else 1)], "t", [], [helper.make_empty_tensor_value_info("t")])
    el = helper.make_graph([N("Relu", ["x"], ["e"])], "e", [], [helper.make_empty_tensor_value_info("e")])
    return model([N("If", ["p"], ["y"], then_branch=th, else_branch=el)], [vi("x", F, ["n", "m"]), vi("p", B, [])], ["y"], dict(ax=c([1])))


case("if_shapes", iff(False), [dict(x=f(2, 3), p=c(True)), dict(x=f(2, 3), p=c(False))])


# torch's squeeze: If dim==1 then Squeeze else Identity
def sq():
    th = helper.make_graph([N("Squeeze", ["x", "ax"], ["t"])], "t", [], [helper.make_empty_tensor_value_info("t")])
    el = helper.make_graph([N("Identity", ["x"], ["e"])], "e", [], [helper.make_empty_tensor_value_info("e")])
    return model(
        [
            N("Shape", ["x"], ["s"]),
            N("Gather", ["s", "one"], ["d"]),
            N("Equal", ["d", "one"], ["p"]),
            N("If", ["p"], ["y"], then_branch=th, else_branch=el),
            N("Relu", ["y"], ["z"]),
        ],
        [vi("x", F, ["n", "m", 4])],
        ["z"],
        dict(one=c(1), ax=c([1])),
    )


case("torch_squeeze_static", model(list(sq().graph.node), [vi("x", F, ["n", 1, 4])], ["z"], dict(one=c(1), ax=c([1]))), [dict(x=f(2, 1, 4))])


# sequences
def seq1():
    n = [
        N("SplitToSequence", ["x", "sp"], ["s"], axis=0),
        N("SequenceLength", ["s"], ["n"]),
        N("SequenceAt", ["s", "i1"], ["a"]),
        N("SequenceAt", ["s", "im1"], ["b"]),
        N("SequenceErase", ["s", "i0"], ["s2"]),
        N("ConcatFromSequence", ["s2"], ["c"], axis=0),
        N("SequenceInsert", ["s2", "a", "i0"], ["s3"]),
        N("ConcatFromSequence", ["s3"], ["d"], axis=0),
    ]
    return model(n, [vi("x", F, ["n", 3])], ["n", "a", "b", "c", "d"], dict(sp=c(2), i1=c(1), im1=c(-1), i0=c(0)))


case("seq_split", seq1(), [dict(x=f(5, 3)), dict(x=f(8, 3))], kept=True)


def seq2():
    n = [N("SplitToSequence", ["x"], ["s"], axis=1, keepdims=0), N("SequenceLength", ["s"], ["n"]), N("ConcatFromSequence", ["s"], ["c"], axis=1, new_axis=1)]
    return model(n, [vi("x", F, ["n", "m"])], ["n", "c"])


case("seq_stack", seq2(), [dict(x=f(5, 3)), dict(x=f(2, 7))], kept=True)


def seqmap():
    body = helper.make_graph(
        [N("ReduceSum", ["it", "a"], ["r"], keepdims=1), N("Add", ["r", "k"], ["o"])], "b", [vi("it", F, ["p", 3])], [vi("o", F, ["p", 1])]
    )
    return model(
        [N("SplitToSequence", ["x", "sp"], ["s"], axis=0), N("SequenceMap", ["s"], ["m"], body=body), N("ConcatFromSequence", ["m"], ["y"], axis=0)],
        [vi("x", F, ["n", 3])],
        ["y"],
        dict(sp=c(2), a=c([1]), k=c([2], "f4")),
    )


case("seq_map", seqmap(), [dict(x=f(5, 3))])


def seqloop():
    body = helper.make_graph(
        [N("Gather", ["x", "it"], ["row"]), N("Unsqueeze", ["row", "a0"], ["r1"]), N("SequenceInsert", ["si", "r1"], ["so"]), N("Identity", ["ci"], ["co"])],
        "b",
        [vi("it", I, []), vi("ci", B, []), helper.make_tensor_sequence_value_info("si", F, None)],
        [vi("co", B, []), helper.make_tensor_sequence_value_info("so", F, None)],
    )
    n = [
        N("SequenceEmpty", [], ["s0"], dtype=1),
        N("Shape", ["x"], ["sh"]),
        N("Gather", ["sh", "i0"], ["n"]),
        N("Loop", ["n", "t", "s0"], ["s"], body=body),
        N("ConcatFromSequence", ["s"], ["y"], axis=0),
    ]
    return model(n, [vi("x", F, ["n", 3])], ["y"], dict(i0=c(0), a0=c([0]), t=c(True)))


case("seq_loop", seqloop(), [dict(x=f(4, 3)), dict(x=f(1, 3))])


# optional
def opt():
    n = [N("Optional", ["x"], ["o"]), N("OptionalHasElement", ["o"], ["h"]), N("OptionalGetElement", ["o"], ["y"])]
    return model(n, [vi("x", F, ["n"])], ["h", "y"], opset=18)


case("optional", opt(), [dict(x=f(3))])


# QDQ: conv per channel axis 0, convtranspose axis 1, gemm, lstm weights
def qdq_conv(op="Conv", axis=0, group=1, wt="i1", bias=True, relu=True, act="u1"):
    ch = 6
    wsh = (6, 4 // group, 3, 3) if op == "Conv" else (4, 6 // group, 3, 3)
    ns = wsh[axis]
    ini = dict(
        xs=c(0.05, "f4"),
        xz=c(3, act),
        w=ints(-100, 100, *wsh).astype(wt),
        ws=np.abs(f(ns)) * 0.02 + 0.01,
        wz=np.zeros(ns, wt),
        ys=c(0.3, "f4"),
        yz=c(7, act),
        b=ints(-300, 300, 6, dt="i4"),
        bs=(np.ones(6) * 0.0005).astype("f4"),
        bz=np.zeros(6, "i4"),
    )
    n = (
        [
            N("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
            N("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
            N("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=axis),
            N("DequantizeLinear", ["b", "bs", "bz"], ["bd"], axis=0),
            N(op, ["xd", "wd"] + (["bd"] if bias else []), ["c"], group=group, pads=[1, 1, 1, 1], strides=[2, 1]),
        ]
        + ([N("Relu", ["c"], ["r"])] if relu else [N("Identity", ["c"], ["r"])])
        + [N("QuantizeLinear", ["r", "ys", "yz"], ["q"]), N("DequantizeLinear", ["q", "ys", "yz"], ["y"])]
    )
    return model(n, [vi("x", F, ["b", 4, "h", "w"])], ["y"], ini, opset=21)


for k, a in dict(
    plain={},
    nobias=dict(bias=False),
    norelu=dict(relu=False),
    group=dict(group=2),
    i8=dict(act="i1"),
    transp=dict(op="ConvTranspose", axis=1),
    u8w=dict(wt="u1"),
    i16=dict(act="i2"),
).items():
    case(f"qdq_{k}", qdq_conv(**a), [dict(x=f(1, 4, 7, 6)), dict(x=f(2, 4, 5, 5))], loose=0.301 / 20)


def qdq_gemm(transB):
    K, M = 8, 5
    wsh = (M, K) if transB else (K, M)
    ini = dict(
        xs=c(0.05, "f4"),
        xz=c(3, "u1"),
        w=ints(-100, 100, *wsh, dt="i1"),
        ws=np.abs(f(M)) * 0.02 + 0.01,
        wz=np.zeros(M, "i1"),
        ys=c(0.3, "f4"),
        yz=c(7, "u1"),
        b=f(M),
    )
    n = [
        N("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        N("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        N("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0 if transB else 1),
        N("Gemm", ["xd", "wd", "b"], ["c"], transB=transB),
        N("QuantizeLinear", ["c", "ys", "yz"], ["q"]),
        N("DequantizeLinear", ["q", "ys", "yz"], ["y"]),
    ]
    return model(n, [vi("x", F, ["b", 8])], ["y"], ini, opset=13)


for t in (0, 1):
    case(f"qdq_gemm{t}", qdq_gemm(t), [dict(x=f(3, 8))], loose=0.301 / 10)


def qdq_ops():
    q = lambda a, o, k: [N("QuantizeLinear", [a, f"s{k}", f"z{k}"], [f"q{k}"]), N("DequantizeLinear", [f"q{k}", f"s{k}", f"z{k}"], [o])]
    n = (
        q("x", "xd", 0)
        + [N("Transpose", ["xd"], ["t"], perm=[0, 2, 1])]
        + q("t", "td", 1)
        + [N("MatMul", ["td", "xd"], ["m"])]
        + q("m", "md", 2)
        + [N("Softmax", ["m" if 0 else "md"], ["s"], axis=-1)]
        + q("s", "sd", 3)
        + [N("ReduceMean", ["sd"], ["rm"], axes=[1], keepdims=0)]
        + q("rm", "rd", 4)
        + [N("Concat", ["rd", "rd"], ["y"], axis=1)]
    )
    ini = {}
    for k, s in enumerate((0.05, 0.05, 0.2, 1 / 255, 1 / 255)):
        ini[f"s{k}"] = c(s, "f4")
        ini[f"z{k}"] = c(0 if k > 2 else 128, "u1")
    return model(n, [vi("x", F, ["b", 4, "n"])], ["y"], ini, opset=13)


case("qdq_ops", qdq_ops(), [dict(x=f(2, 4, 5)), dict(x=f(1, 4, 4))], loose=0.01)


def int4():
    w = R.integers(-8, 8, (32, 6)).astype(ml_dtypes.int4)
    ini = dict(w=w, s=np.abs(f(4, 6)), z=R.integers(-2, 2, (4, 6)).astype(ml_dtypes.int4))
    return model(
        [N("DequantizeLinear", ["w", "s", "z"], ["wd"], axis=0, block_size=8), N("MatMul", ["x", "wd"], ["y"])], [vi("x", F, ["b", 32])], ["y"], ini, opset=21
    )


case("int4_block", int4(), [dict(x=f(3, 32))])


def dynq():
    n = [
        N("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]),
        N("MatMulInteger", ["xq", "w", "xz", "wz"], ["m"]),
        N("Cast", ["m"], ["mf"], to=1),
        N("Mul", ["xs", "ws"], ["sc"]),
        N("Mul", ["mf", "sc"], ["o"]),
        N("Add", ["o", "b"], ["y"]),
    ]
    return model(
        n, [vi("x", F, ["b", "t", 16])], ["y"], dict(w=ints(-127, 127, 16, 8, dt="i1"), wz=np.zeros(8, "i1"), ws=np.abs(f(8)) * 0.01, b=f(8)), opset=13
    )


case("dynq", dynq(), [dict(x=f(2, 3, 16)), dict(x=f(1, 1, 16))], loose=1e-3)


# string pipeline
def strings():
    n = [
        N("StringNormalizer", ["x"], ["l"], case_change_action="LOWER", is_case_sensitive=1, stopwords=["the"]),
        N("LabelEncoder", ["l"], ["e"], domain="ai.onnx.ml", keys_strings=["cat", "dog"], values_int64s=[1, 2], default_int64=0),
        N("OneHot", ["e", "d", "v"], ["o"]),
        N("ReduceSum", ["o", "a"], ["y"], keepdims=0),
    ]
    return model(n, [vi("x", TensorProto.STRING, ["n"])], ["y", "l"], dict(d=c(3), v=c([0, 1], "f4"), a=c([0])))


case("strings", strings(), [dict(x=words("The", "CAT", "dog", "x")), dict(x=words("Dog"))])
# functions
fn = helper.make_function(
    "my",
    "LnGelu",
    ["x", "s"],
    ["y"],
    [
        N("LayerNormalization", ["x", "s"], ["l"], axis=-1),
        N("Constant", [], ["k"], value_float=1.702),
        N("Mul", ["l", "k"], ["a"]),
        N("Sigmoid", ["a"], ["g"]),
        N("Mul", ["l", "g"], ["y"]),
    ],
    [helper.make_opsetid("", 17)],
)
case(
    "function",
    model(
        [N("LnGelu", ["x", "s"], ["m"], domain="my"), N("LnGelu", ["m", "s"], ["y"], domain="my")], [vi("x", F, ["n", 4])], ["y"], dict(s=f(4)), functions=[fn]
    ),
    [dict(x=f(3, 4))],
)


# GQA decoder slice, genai style
def gqa(bits):
    D, nh, kv, hd = 32, 2, 1, 16
    n = [
        N("SimplifiedLayerNormalization", ["x", "g"], ["ln"], axis=-1, epsilon=1e-5, stash_type=1),
        (
            N("MatMulNBits", ["ln", "wq", "sq"], ["qkv"], domain=MS, K=32, N=64, bits=4, block_size=16, accuracy_level=4)
            if bits
            else N("MatMul", ["ln", "wf"], ["qkv"])
        ),
        N(
            "GroupQueryAttention",
            ["qkv", "", "", "pk", "pv", "sl", "tl", "cos", "sin"],
            ["a", "nk", "nv"],
            domain=MS,
            num_heads=nh,
            kv_num_heads=kv,
            do_rotary=1,
            rotary_interleaved=0,
            scale=0.25,
        ),
        N("MatMul", ["a", "wo"], ["o"]),
        N("SkipSimplifiedLayerNormalization", ["x", "o", "g"], ["ln2", "", "", "res"], domain=MS, epsilon=1e-5),
        N("Add", ["ln2", "res"], ["y"]),
    ]
    ini = dict(g=f(32), wf=f(32, 64) * 0.2, wo=f(32, 32) * 0.2, cos=f(20, 8), sin=f(20, 8))
    if bits:
        ini.update(wq=ints(0, 255, 64, 2, 8, dt="u1"), sq=np.abs(f(128)) * 0.05)
        ini.pop("wf")
    return model(
        n,
        [
            vi("x", F, ["b", "s", 32]),
            vi("pk", F, ["b", 1, "p", 16]),
            vi("pv", F, ["b", 1, "p", 16]),
            vi("sl", TensorProto.INT32, ["b"]),
            vi("tl", TensorProto.INT32, []),
        ],
        ["y", "nk", "nv"],
        ini,
    )


for bits in (0, 4):
    case(
        f"gqa{bits}",
        gqa(bits),
        [
            dict(x=f(1, 4, 32), pk=f(1, 1, 0, 16), pv=f(1, 1, 0, 16), sl=c([3], "i4"), tl=c(4, "i4")),
            dict(x=f(2, 1, 32), pk=f(2, 1, 5, 16), pv=f(2, 1, 5, 16), sl=c([5, 5], "i4"), tl=c(6, "i4")),
        ],
        loose=0.02 if bits else 1e-3,
        kept=True,
    )
# gather block quantized
node(
    "gatherblockq",
    "GatherBlockQuantized",
    [ints(0, 255, 10, 16, dt="u1"), ints(0, 9, 2, 3), np.abs(f(10, 2))],
    dict(bits=4, block_size=16, gather_axis=0, quantize_axis=1),
    domain=MS,
    consts=(0, 2),
    opset=21,
    kept=True,
)
node(
    "gatherblockq_i4",
    "GatherBlockQuantized",
    [R.integers(-8, 8, (10, 32)).astype(ml_dtypes.int4), ints(0, 9, 2, 3), np.abs(f(10, 2))],
    dict(block_size=16, gather_axis=0, quantize_axis=1),
    domain=MS,
    consts=(0, 2),
    opset=21,
    kept=True,
)


# whisper style MHA cross attention with past
# NHWC tf2onnx style
def tf():
    n = [
        N("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        N("Conv", ["t", "w"], ["c"], auto_pad="SAME_LOWER", strides=[2, 2]),
        N("Clip", ["c", "lo", "hi"], ["r"]),
        N("Transpose", ["r"], ["u"], perm=[0, 2, 3, 1]),
        N("Shape", ["u"], ["s"]),
        N("Cast", ["s"], ["sc"], to=6),
        N("Slice", ["sc", "b0", "e1", "a0"], ["bb"]),
        N("Concat", ["bb", "m1"], ["ns"], axis=0),
        N("Cast", ["ns"], ["nsl"], to=7),
        N("Reshape", ["u", "nsl"], ["fl"]),
        N("ReduceProd", ["sc"], ["rp"], keepdims=0),
        N("Cast", ["rp"], ["rpf"], to=1),
        N("Div", ["fl", "rpf"], ["y"]),
    ]
    return model(
        n,
        [vi("x", F, ["unk__1", "h", "w", 3])],
        ["y"],
        dict(w=f(4, 3, 3, 3), lo=c(0, "f4"), hi=c(6, "f4"), b0=c([0]), e1=c([1]), a0=c([0]), m1=c([-1], "i4")),
        opset=13,
    )


case("tf2onnx", tf(), [dict(x=f(1, 7, 6, 3)), dict(x=f(2, 4, 5, 3))])


# bidirectional GRU, packed, torch style + If/seq lens
def torchgru():
    n = [
        N("Transpose", ["x"], ["xt"], perm=[1, 0, 2]),
        N("Shape", ["xt"], ["s"]),
        N("Gather", ["s", "i1"], ["b"]),
        N("Unsqueeze", ["b", "a0"], ["b1"]),
        N("Concat", ["two", "b1", "hh"], ["hs"], axis=0),
        N("ConstantOfShape", ["hs"], ["h0"], value=numpy_helper.from_array(c([0], "f4"))),
        N("Cast", ["len"], ["li"], to=6),
        N("GRU", ["xt", "W", "R", "B", "li", "h0"], ["o", "hn"], hidden_size=4, direction="bidirectional", linear_before_reset=1),
        N("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]),
        N("Reshape", ["ot", "r"], ["orr"]),
        N("Transpose", ["orr"], ["y"], perm=[1, 0, 2]),
    ]
    return model(
        n,
        [vi("x", F, ["b", "t", 3]), vi("len", I, ["b"])],
        ["y", "hn"],
        dict(i1=c(1), a0=c([0]), two=c([2]), hh=c([4]), W=f(2, 12, 3), R=f(2, 12, 4), B=f(2, 24), r=c([0, 0, -1])),
    )


case("torchgru", torchgru(), [dict(x=f(2, 5, 3), len=c([5, 3])), dict(x=f(1, 1, 3), len=c([1]))])


# roll/flip/einsum/cumsum/where/tril mask etc
def masks():
    n = [
        N("Shape", ["ids"], ["s"]),
        N("Gather", ["s", "i1"], ["t"]),
        N("Unsqueeze", ["t", "a0"], ["t1"]),
        N("Concat", ["t1", "t1"], ["tt"], axis=0),
        N("ConstantOfShape", ["tt"], ["ones"], value=numpy_helper.from_array(c([1], "i1"))),
        N("Cast", ["ones"], ["onesb"], to=9),
        N("Cast", ["onesb"], ["onesf"], to=1),
        N("Trilu", ["onesf", "z"], ["tr"], upper=0),
        N("Equal", ["tr", "zf"], ["eq"]),
        N("Where", ["eq", "ninf", "zf"], ["m"]),
        N("Gather", ["emb", "ids"], ["e"]),
        N("MatMul", ["e", "w"], ["q"]),
        N("Transpose", ["e"], ["et"], perm=[0, 2, 1]),
        N("MatMul", ["q", "et"], ["sc"]),
        N("Add", ["sc", "m"], ["sm"]),
        N("Softmax", ["sm"], ["p"], axis=-1),
        N("IsNaN", ["p"], ["nan"]),
        N("Where", ["nan", "zf", "p"], ["p2"]),
        N("MatMul", ["p2", "e"], ["y"]),
        N("CumSum", ["ids", "one"], ["cs"]),
        N("Slice", ["y", "m1", "mn", "one1", "m1"], ["fl"]),
    ]
    return model(
        n,
        [vi("ids", I, ["b", "t"])],
        ["y", "cs", "fl"],
        dict(i1=c(1), a0=c([0]), z=c(0), zf=c(0, "f4"), ninf=c(-np.inf, "f4"), emb=f(7, 4), w=f(4, 4), one=c(1), one1=c([1]), m1=c([-1]), mn=c([-(2**62)])),
    )


case("masks", masks(), [dict(ids=ints(0, 6, 2, 5)), dict(ids=ints(0, 6, 1, 1))])


# ---- an If whose branches differ in rank, as exporters write a squeeze of an axis that may be 1 ----------------------------------


def squeezed(x, y, axis):
    """y is x without the axis where that is 1."""
    th = helper.make_graph([N("Squeeze", [x, f"axis{axis}"], [f"{y}_then"])], "t", [], [helper.make_empty_tensor_value_info(f"{y}_then")])
    el = helper.make_graph([N("Identity", [x], [f"{y}_else"])], "e", [], [helper.make_empty_tensor_value_info(f"{y}_else")])
    return [
        N("Shape", [x], [f"{y}_shape"]),
        N("Gather", [f"{y}_shape", f"i{axis}"], [f"{y}_size"]),
        N("Equal", [f"{y}_size", "i1"], [f"{y}_is"]),
        N("If", [f"{y}_is"], [y], then_branch=th, else_branch=el),
    ]


KNOWN = dict(i0=c(0), i1=c(1), axis0=c([0]), axis1=c([1]), w=f(5, 4, 3), W=f(4, 6), flat=c([-1]), none=c(0, "f4"))
X = vi("x", F, ["n", "m", 4])
LATER = [N("Reshape", ["y", "flat"], ["f"]), N("Mul", ["f", "f"], ["z"])]
case("squeezed_then_flat", model(squeezed("x", "y", 1) + LATER, [X], ["z"], KNOWN), [dict(x=f(2, 3, 4)), dict(x=f(2, 1, 4))], kept=True)

# what follows fits one branch alone
IMAGE = vi("x", F, ["n", "m", 4, "l"])
case("squeezed_then_conv", model(squeezed("x", "y", 1) + [N("Conv", ["y", "w"], ["z"])], [IMAGE], ["z"], KNOWN), [dict(x=f(2, 1, 4, 7)), dict(x=f(3, 1, 4, 9))], kept=True)

# the result of the graph itself, whose rank the model declares
for rank, size in ((2, 1), (3, 3)):
    case(f"squeezed_result_of_{rank}", model(squeezed("x", "y", 1), [X], [vi("y", F, [None] * rank)], KNOWN), [dict(x=f(2, size, 4)), dict(x=f(5, size, 4))], kept=True)

TWO = [N("Relu", ["x"], ["free"]), N("ReduceSum", ["y"], ["s"], keepdims=0), N("ReduceMax", ["v"], ["t"], keepdims=0), N("Add", ["s", "t"], ["z"])]
case(
    "squeezed_twice",
    model(squeezed("x", "y", 1) + squeezed("u", "v", 0) + TWO, [X, vi("u", F, ["k", 3])], ["z", "free", "s"], KNOWN),
    [dict(x=f(2, 3, 4), u=f(1, 3)), dict(x=f(2, 1, 4), u=f(2, 3)), dict(x=f(1, 1, 4), u=f(1, 3))],
    kept=True,
)

CHAIN = squeezed("x", "y", 1) + squeezed("y", "v", 0) + [N("MatMul", ["v", "W"], ["q"]), N("ReduceSum", ["q"], ["z"], keepdims=0)]
case("squeezed_and_again", model(CHAIN, [X], ["z"], KNOWN), [dict(x=f(2, 3, 4)), dict(x=f(2, 1, 4)), dict(x=f(1, 1, 4)), dict(x=f(1, 3, 4))], kept=True)

TURN = squeezed("x", "y", 1) + [N("ReduceSum", ["y"], ["s"], keepdims=0), N("Add", ["acc", "s"], ["o"]), N("Identity", ["ci"], ["co"])]
BODY = helper.make_graph(TURN, "b", [vi("it", I, []), vi("ci", B, []), vi("acc", F, [])], [vi("co", B, []), vi("o", F, [])])
case(
    "squeezed_in_a_loop",
    model([N("Loop", ["n", "", "none"], ["z"], body=BODY)], [X, vi("n", I, [])], ["z"], KNOWN),
    [dict(x=f(2, 3, 4), n=c(3)), dict(x=f(2, 1, 4), n=c(2))],
)


# sparse weights: flat places, rows of coordinates, of another type, in a branch, and as a Constant
def sparse(name, values, indices, dims):
    return helper.make_sparse_tensor(numpy_helper.from_array(np.asarray(values), name), numpy_helper.from_array(np.asarray(indices, "i8"), name + "_at"), dims)


def with_sparse(made, *tensors):
    made.graph.sparse_initializer.extend(tensors)
    return made


places = c([1.5, -2, 7], "f4")
product = [N("MatMul", ["x", "w"], ["y"])]
case("sparse_flat", with_sparse(model(product, [vi("x", F, ["n", 3])], ["y"]), sparse("w", places, [1, 5, 11], [3, 4])), [{"x": f(2, 3)}], kept=True)
case("sparse_rows", with_sparse(model(product, [vi("x", F, ["n", 3])], ["y"]), sparse("w", places, [[0, 1], [1, 1], [2, 3]], [3, 4])), [{"x": f(2, 3)}], kept=True)
case("sparse_listed", with_sparse(model(product, [vi("x", F, ["n", 3]), vi("w", F, [3, 4])], ["y"]), sparse("w", places, [1, 5, 11], [3, 4])), [{"x": f(2, 3)}])
case("sparse_i64", with_sparse(model([N("Add", ["x", "w"], ["y"])], [vi("x", I, ["n", 2, 2])], ["y"]), sparse("w", c([5, -3]), [[0, 0, 1], [2, 1, 0]], [3, 2, 2])),
     [{"x": ints(0, 9, 3, 2, 2)}])
case("sparse_none", with_sparse(model([N("Add", ["x", "w"], ["y"])], [vi("x", F, ["n"])], ["y"]), sparse("w", c([], "f4"), [], [3])), [{"x": f(3)}])
case("sparse_constant", model([N("Constant", [], ["w"], sparse_value=sparse("v", places, [1, 5, 11], [3, 4])), *product], [vi("x", F, ["n", 3])], ["y"]), [{"x": f(2, 3)}], kept=True)


def sparse_in_branch():
    branches = []
    for weight in (sparse("w", places, [1, 5, 11], [3, 4]), sparse("w", places, [0, 4, 8], [3, 4])):
        branches.append(helper.make_graph(product, "branch", [], [helper.make_empty_tensor_value_info("y")], sparse_initializer=[weight]))
    made = model([N("If", ["go"], ["z"], then_branch=branches[0], else_branch=branches[1])], [vi("x", F, ["n", 3]), vi("go", B, [])], ["z"])
    case("sparse_in_branch", made, [{"x": f(2, 3), "go": np.array(go)} for go in (True, False)], judge="ort")


sparse_in_branch()


# sizes from numbers that wrap in their type, which are known when it is compiled
def wrapped(name, numbers, of):
    nodes = [*of, N("Cast", ["s"], ["l"], to=I), N("Less", ["l", "most"], ["small"]), N("Where", ["small", "one", "two"], ["size"]), N("Expand", ["x", "size"], ["y"])]
    case(f"wrapped_{name}", model(nodes, [vi("x", F, [1])], ["y", "l"], dict(numbers, most=c([60]), one=c([1]), two=c([2]))), [dict(x=c([0.5], "f4"))], kept=True)


for op, kind, left, right in (("Add", "u1", 200, 100), ("Sub", "u1", 5, 10), ("Add", "i1", 100, 100), ("Mul", "i4", 65536, 65536)):
    wrapped(f"{op}_{kind}", dict(u=c([left], kind), v=c([right], kind)), [N(op, ["u", "v"], ["s"])])
for op in ("Abs", "Neg"):
    wrapped(op, dict(u=c([-128], "i1")), [N(op, ["u"], ["s"])])

# letters beyond ASCII, also where the upper one has an odd number; a Turkish i stays, for its other case has another length
LETTERS = ["Žluťoučký kůň", "ŇĽŁŐŸ", "Țara ȘI", "ΆΈΌΏ άέόώ", "ẠỀ ạề", "Ӂӂ Ӑӑ Ӏӏ"]
for turn in (str.lower, str.upper):
    node(f"letters_{turn.__name__}", "StringNormalizer", [words("İı", *LETTERS)], dict(case_change_action=turn.__name__.upper()),
         want=[words("İı", *map(turn, LETTERS))], kept=True)

# before opset 11 bounds that are left out are the least and the largest f32
for name, bounds in (("both", {}), ("least", dict(max=1.0)), ("most", dict(min=-1.0))):
    node(f"clip_6_without_{name}", "Clip", [c([np.nan, 0.5, np.inf, -np.inf, 7], "f4")], bounds, opset=6, kept=True)

# 10 * 0.7 is 7 in f32 and less in f64; with open sizes too
for name, open_sizes in (("fixed", False), ("open", True)):
    node(f"resize_in_f32_{name}", "Resize", [np.arange(10, dtype="f4").reshape(1, 1, 10), None, c([1, 1, 0.7], "f4")], dict(mode="linear"), opset=13, consts=(2,),
         dynamic=open_sizes, kept=True)

# an axis of one element, whose first and last corner are one
AT = c([[[[-2.5, -1.7], [0.2, 0.4], [1.8, 3.1]]]], "f4")
for mode in ("linear", "cubic"):
    node(f"grid_sample_of_a_row_{mode}", "GridSample", [np.arange(4, dtype="f4").reshape(1, 1, 1, 4), AT], dict(mode=mode, padding_mode="reflection", align_corners=1), opset=20, kept=True)
node("affine_grid_of_a_row", "AffineGrid", [c([[[1, 10, 100], [2, 20, 200]]], "f4"), c([1, 1, 1, 3])], dict(align_corners=1), opset=20, consts=(1,), judge="onnx", kept=True)

MOST = 2**53
node("imputer_i64", "Imputer", [c([[MOST + 1, MOST]])], dict(imputed_value_int64s=[7], replaced_value_int64=MOST + 1), domain="ai.onnx.ml", kept=True)

for far in (2**63 - 1, -(2**63)):
    node(f"eye_far_{'above' if far > 0 else 'below'}", "EyeLike", [np.zeros((3, 4), "f4")], dict(k=far), opset=9, kept=True)

# half of a complex signal
SIGNAL = np.arange(10, dtype="f4").reshape(1, 5, 2)
node("dft_of_the_beginning", "DFT", [SIGNAL, c(3)], dict(axis=1), opset=17, consts=(1,), dynamic=False, kept=True)

# weights are in the order of the n-grams, and columns in that of their indexes
GRAMS = dict(min_gram_length=1, max_gram_length=2, max_skip_count=0, ngram_counts=[0, 2], ngram_indexes=[2, 0, 3], pool_int64s=[1, 2, 1, 2], weights=[5.0, 7.0, 11.0])
for mode in ("IDF", "TFIDF"):
    node(f"tfidf_weights_{mode}", "TfIdfVectorizer", [c([1, 2, 1, 1])], dict(GRAMS, mode=mode), opset=9, kept=True)
