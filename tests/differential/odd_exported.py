"""More models after what exporters write: shapes computed from other shapes everywhere, cropping and gluing of attention windows, masks
for packed batches, pooling of ragged regions, decoders that grow lists, resizing by what another tensor has.
"""

import numpy as np
from onnx import TensorProto, helper

from odd import MS, R, case, f, ints, model

N, vi = helper.make_node, helper.make_tensor_value_info
F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def c(v, dt=None):
    return np.asarray(v, dt)


def body(name, nodes, inputs, outputs):
    return helper.make_graph(nodes, name, inputs, [helper.make_empty_tensor_value_info(o) if isinstance(o, str) else o for o in outputs])


LITTLE = dict(i0=c(0), i1=c(1), i2=c(2), i3=c(3), l0=c([0]), l1=c([1]), l2=c([2]), l3=c([3]), lm1=c([-1]), one=c(1.0, "f4"), zero=c(0.0, "f4"), far=c([2**62]))


# Swin: windows of an image rolled by a shift, padded to whole windows first
def swin(opset):
    pad = [
        N("Shape", ["x"], ["s"]), N("Split", ["s"], ["b", "h", "w", "ch"], axis=0, **({"num_outputs": 4} if opset >= 18 else {})),
        N("Mod", ["h", "win"], ["hm"]), N("Sub", ["win", "hm"], ["hs"]), N("Mod", ["hs", "win"], ["hp"]),
        N("Mod", ["w", "win"], ["wm"]), N("Sub", ["win", "wm"], ["ws"]), N("Mod", ["ws", "win"], ["wp"]),
        N("Concat", ["l0", "l0", "l0", "l0", "l0", "hp", "wp", "l0"], ["pads"], axis=0), N("Pad", ["x", "pads"], ["p"]),
        N("Slice", ["p", "l2", "far", "l1"], ["tail"]), N("Slice", ["p", "l0", "l2", "l1"], ["head"]), N("Concat", ["tail", "head"], ["rolled"], axis=1),
        N("Shape", ["rolled"], ["t"]), N("Gather", ["t", "l1"], ["ph"]), N("Gather", ["t", "l2"], ["pw"]),
        N("Div", ["ph", "win"], ["nh"]), N("Div", ["pw", "win"], ["nw"]),
        N("Concat", ["b", "nh", "win", "nw", "win", "ch"], ["six"], axis=0), N("Reshape", ["rolled", "six"], ["cut"]),
        N("Transpose", ["cut"], ["turned"], perm=[0, 1, 3, 2, 4, 5]), N("Mul", ["win", "win"], ["area"]),
        N("Concat", ["lm1", "area", "ch"], ["three"], axis=0), N("Reshape", ["turned", "three"], ["windows"]),
        N("MatMul", ["windows", "W"], ["q"]), N("Transpose", ["q"], ["qt"], perm=[0, 2, 1]), N("MatMul", ["q", "qt"], ["scores"]),
        N("Softmax", ["scores"], ["p_"], axis=-1), N("MatMul", ["p_", "q"], ["o"]),
        N("Concat", ["b", "nh", "nw", "win", "win", "lm1"], ["back"], axis=0), N("Reshape", ["o", "back"], ["ob"]),
        N("Transpose", ["ob"], ["ot"], perm=[0, 1, 3, 2, 4, 5]), N("Concat", ["b", "ph", "pw", "lm1"], ["four"], axis=0), N("Reshape", ["ot", "four"], ["glued"]),
        N("Concat", ["h", "w"], ["ends"], axis=0), N("Slice", ["glued", "zz", "ends", "ax"], ["y"]),
    ]
    return model(pad, [vi("x", F, ["b_", "h_", "w_", 4])], ["y"], LITTLE | dict(win=c([4]), zz=c([0, 0]), ax=c([1, 2]), W=f(4, 6)), opset=opset)


for opset in (13, 18):
    case(f"swin_{opset}", swin(opset), [dict(x=f(1, 8, 8, 4)), dict(x=f(2, 5, 9, 4)), dict(x=f(1, 3, 4, 4))])

# an image resized to what a feature beside it has, in each of the old ways to say so
for opset, mode, how in ((11, "linear", "pytorch_half_pixel"), (11, "nearest", "asymmetric"), (13, "linear", "align_corners"), (18, "cubic", "half_pixel"), (19, "linear", "half_pixel")):
    case(
        f"resize_like_{opset}_{mode}_{how}",
        model(
            [
                N("Shape", ["x"], ["s"]), N("Slice", ["s", "l0", "l2", "l0"], ["nc"]), N("Shape", ["z"], ["t"]), N("Slice", ["t", "l2", "far", "l0"], ["hw"]),
                N("Cast", ["hw"], ["hw32"], to=TensorProto.INT32), N("Cast", ["hw32"], ["hw64"], to=I), N("Concat", ["nc", "hw64"], ["size"], axis=0),
                N("Resize", ["x", "roi" if opset < 13 else "", "none" if opset < 13 else "", "size"], ["big"], mode=mode, coordinate_transformation_mode=how,
                  **({"nearest_mode": "floor"} if mode == "nearest" else {"cubic_coeff_a": -0.75} if mode == "cubic" else {})),
                N("Concat", ["big", "z"], ["both"], axis=1), N("Conv", ["both", "w"], ["y"], pads=[1, 1, 1, 1]),
            ],
            [vi("x", F, ["n", 3, "h", "w_"]), vi("z", F, ["n", 2, "H", "W"])],
            ["y"],
            LITTLE | dict(w=f(4, 5, 3, 3), roi=np.zeros(0, "f4"), none=np.zeros(0, "f4")),
            opset=opset,
        ),
        [dict(x=f(1, 3, 4, 5), z=f(1, 2, 8, 10)), dict(x=f(2, 3, 7, 3), z=f(2, 2, 5, 9)), dict(x=f(1, 3, 1, 1), z=f(1, 2, 3, 2))],
        loose=1e-3,
    )


# lengths to a mask, a causal one beside it, an additive bias of half precision's least
def masked(opset):
    n = [
        N("Shape", ["x"], ["s"]), N("Gather", ["s", "i1"], ["t"]), N("Range", ["i0", "t", "i1"], ["at"]), N("Unsqueeze", ["len", "l1"], ["lu"]),
        N("Less", ["at", "lu"], ["alive"]), N("Unsqueeze", ["at", "l1"], ["row"]), N("LessOrEqual", ["at", "row"], ["causal"]), N("Unsqueeze", ["alive", "l1"], ["alive3"]),
        N("And", ["alive3", "causal"], ["may"]), N("Not", ["may"], ["not"]), N("Cast", ["not"], ["nf"], to=F), N("Mul", ["nf", "least"], ["bias"]),
        N("MatMul", ["x", "W"], ["q"]), N("Transpose", ["q"], ["k"], perm=[0, 2, 1]), N("MatMul", ["q", "k"], ["dots"]), N("Add", ["dots", "bias"], ["masked"]),
        N("Softmax", ["masked"], ["p"], axis=-1), N("MatMul", ["p", "q"], ["o"]), N("Cast", ["alive"], ["af"], to=F), N("Unsqueeze", ["af", "lm1"], ["au"]),
        N("Mul", ["o", "au"], ["kept"]), N("ReduceSum", ["kept", "l1"], ["sum"], keepdims=0), N("Cast", ["len"], ["lf"], to=F), N("Max", ["lf", "one"], ["lf1"]),
        N("Unsqueeze", ["lf1", "l1"], ["lf2"]), N("Div", ["sum", "lf2"], ["y"]), N("ArgMax", ["masked"], ["best"], axis=-1, keepdims=0, select_last_index=1),
    ]
    return model(n, [vi("x", F, ["b", "t_", 6]), vi("len", I, ["b"])], ["y", "best"], LITTLE | dict(W=f(6, 5), least=c(-65504.0, "f4")), opset=opset)


for opset in (13, 21):
    case(f"masked_mean_{opset}", masked(opset), [dict(x=f(2, 5, 6), len=c([5, 2])), dict(x=f(1, 1, 6), len=c([1])), dict(x=f(3, 9, 6), len=c([9, 1, 4]))])


# a decoder that takes the best word, appends it, and stops at an end or at a most; what it has said is a list, and stacked
def greedy_list():
    turn = [
        N("Gather", ["emb", "tok"], ["e"], axis=0), N("Add", ["e", "h"], ["a"]), N("Tanh", ["a"], ["h2"]), N("MatMul", ["h2", "out"], ["logits"]),
        N("ArgMax", ["logits"], ["next"], axis=-1, keepdims=0), N("Equal", ["next", "end"], ["is_end"]), N("Cast", ["is_end"], ["ei"], to=I), N("ReduceMin", ["ei"], ["all"], keepdims=0),
        N("Cast", ["all"], ["done"], to=B), N("Not", ["done"], ["go2"]), N("SequenceInsert", ["said", "next"], ["said2"]), N("Softmax", ["logits"], ["p"], axis=-1),
    ]
    loop = body("turn", turn, [vi("i", I, []), vi("go", B, []), vi("tok", I, ["b"]), vi("h", F, ["b", 4]), helper.make_tensor_sequence_value_info("said", I, None)],
                [vi("go2", B, []), vi("next", I, ["b"]), vi("h2", F, ["b", 4]), helper.make_tensor_sequence_value_info("said2", I, None), vi("p", F, ["b", 7])])
    n = [N("SequenceEmpty", [], ["none"], dtype=I), N("Loop", ["most", "", "start", "h0", "none"], ["last", "h_", "list", "ps"], body=loop),
         N("ConcatFromSequence", ["list"], ["words"], axis=1, new_axis=1), N("SequenceLength", ["list"], ["count"])]
    return model(n, [vi("start", I, ["b"]), vi("h0", F, ["b", 4]), vi("most", I, [])], ["words", "count", "ps", "last"], LITTLE | dict(emb=f(7, 4), out=f(4, 7), end=c(3)))


case("greedy_list", greedy_list(), [dict(start=c([1, 2]), h0=f(2, 4), most=c(6)), dict(start=c([0]), h0=f(1, 4), most=c(1)), dict(start=c([5, 5, 1]), h0=f(3, 4), most=c(9))])


# beams: of the best scores of all beams and words, where they came from, and the cache of these
def beams():
    n = [
        N("Shape", ["logp"], ["s"]), N("Gather", ["s", "l0"], ["b"]), N("Gather", ["s", "l1"], ["k"]), N("Gather", ["s", "l2"], ["v"]), N("Unsqueeze", ["score", "lm1"], ["su"]),
        N("Add", ["logp", "su"], ["all"]), N("Mul", ["k", "v"], ["kv"]), N("Concat", ["b", "kv"], ["flat"], axis=0), N("Reshape", ["all", "flat"], ["f_"]),
        N("TopK", ["f_", "k"], ["best", "at"], axis=-1), N("Div", ["at", "v"], ["from"]), N("Mod", ["at", "v"], ["word"]),
        N("Unsqueeze", ["from", "lm1"], ["fu"]), N("GatherND", ["cache", "fu"], ["moved"], batch_dims=1),
        N("Concat", ["moved", "cache"], ["y"], axis=2),
    ]
    return model(n, [vi("logp", F, ["b_", "k_", "v_"]), vi("score", F, ["b_", "k_"]), vi("cache", F, ["b_", "k_", "t"])], ["best", "word", "from", "y"], LITTLE)


case("beams", beams(), [dict(logp=f(2, 3, 5), score=f(2, 3), cache=f(2, 3, 4)), dict(logp=f(1, 2, 9), score=f(1, 2), cache=f(1, 2, 1))])


# detections: boxes of a threshold, kept ones by suppression in each class, gathered with their scores
def detections(opset):
    n = [
        N("ReduceMax", ["cls"], ["top"], axes=[2], keepdims=0) if opset < 18 else N("ReduceMax", ["cls", "l2"], ["top"], keepdims=0), N("ArgMax", ["cls"], ["kind"], axis=2, keepdims=0),
        N("Cast", ["kind"], ["kf"], to=F), N("Mul", ["kf", "apart"], ["off"]), N("Unsqueeze", ["off", "l2"], ["offu"]), N("Add", ["box", "offu"], ["moved"]),
        N("Unsqueeze", ["top", "l1"], ["score"]), N("NonMaxSuppression", ["moved", "score", "most", "iou", "least"], ["sel"]),
        N("Slice", ["sel", "l2", "l3", "l1"], ["at"]), N("Slice", ["sel", "l0", "l1", "l1"], ["img"]), N("Concat", ["img", "at"], ["both"], axis=1),
        N("GatherND", ["box", "both"], ["boxes"]), N("GatherND", ["top", "both"], ["scores"]), N("GatherND", ["kind", "both"], ["classes"]),
        N("Shape", ["scores"], ["n_"]), N("ReduceProd", ["n_"], ["n"], keepdims=0), N("Unsqueeze", ["scores", "l1"], ["su"]), N("Concat", ["boxes", "su"], ["rows"], axis=1),
    ]
    return model(n, [vi("box", F, ["b", "n_box", 4]), vi("cls", F, ["b", "n_box", 3])], ["rows", "classes", "n"],
                 LITTLE | dict(apart=c(100.0, "f4"), most=c([5]), iou=c([0.4], "f4"), least=c([0.3], "f4")), opset=opset)


def boxes(b, n):
    low = R.random((b, n, 2)) * 8
    return np.concatenate([low, low + R.random((b, n, 2)) * 5 + 1], -1).astype("f4")


for opset in (13, 18):
    case(f"detections_{opset}", detections(opset), [dict(box=boxes(1, 12), cls=R.random((1, 12, 3)).astype("f4")), dict(box=boxes(2, 5), cls=R.random((2, 5, 3)).astype("f4")),
                                                    dict(box=boxes(1, 3), cls=np.zeros((1, 3, 3), "f4"))])


# segments of a text: positions where it is broken, a running number, sums of each
def segments():
    n = [
        N("Equal", ["ids", "sep"], ["is"]), N("Cast", ["is"], ["isi"], to=I), N("CumSum", ["isi", "i1"], ["seg"], exclusive=1), N("NonZero", ["is"], ["where"]),
        N("Transpose", ["where"], ["wt"], perm=[1, 0]), N("ReduceMax", ["seg"], ["most"], keepdims=0), N("Add", ["most", "i1"], ["count"]), N("OneHot", ["seg", "count", "values"], ["hot"]),
        N("Transpose", ["hot"], ["ht"], perm=[0, 2, 1]), N("Gather", ["emb", "ids"], ["e"]), N("MatMul", ["ht", "e"], ["sums"]),
        N("ReduceSum", ["hot", "l1"], ["lens"], keepdims=0), N("Unique", ["ids"], ["u", "first", "inv", "cnt"], sorted=1),
        N("Shape", ["wt"], ["ws"]),
    ]
    return model(n, [vi("ids", I, ["b", "t"])], ["seg", "wt", "sums", "lens", "u", "cnt", "ws"], LITTLE | dict(sep=c(3), values=c([0.0, 1.0], "f4"), emb=f(6, 4)))


case("segments", segments(), [dict(ids=c([[1, 3, 2, 3, 5], [0, 0, 3, 1, 1]])), dict(ids=c([[3]])), dict(ids=c([[1, 2, 4, 0]]))])


# scan both ways over a ragged batch, padded rows kept from the state; the last states by their lengths
def two_ways():
    cell = body("cell", [N("MatMul", ["h", "U"], ["hu"]), N("Add", ["x_", "hu"], ["a"]), N("Tanh", ["a"], ["n"]), N("Where", ["m_", "n", "h"], ["h2"]), N("Identity", ["h2"], ["o"])],
                [vi("h", F, ["b", 4]), vi("x_", F, ["b", 4]), vi("m_", B, ["b", 1])], [vi("h2", F, ["b", 4]), vi("o", F, ["b", 4])])
    n = [
        N("Shape", ["x"], ["s"]), N("Gather", ["s", "i0"], ["t"]), N("Range", ["i0", "t", "i1"], ["r"]), N("Unsqueeze", ["r", "l1"], ["ru"]), N("Less", ["ru", "len"], ["m"]),
        N("Unsqueeze", ["m", "l2"], ["mu"]), N("MatMul", ["x", "V"], ["xv"]), N("Gather", ["s", "l1"], ["b"]), N("Concat", ["b", "four"], ["hs"], axis=0), N("ConstantOfShape", ["hs"], ["h0"]),
        N("Scan", ["h0", "xv", "mu"], ["hf", "f_"], body=cell, num_scan_inputs=2),
        N("Scan", ["h0", "xv", "mu"], ["hb", "b_"], body=cell, num_scan_inputs=2, scan_input_directions=[1, 1], scan_output_directions=[1]),
        N("Concat", ["f_", "b_"], ["y"], axis=2), N("Concat", ["hf", "hb"], ["last"], axis=1),
    ]
    return model(n, [vi("x", F, ["t_", "bb", 3]), vi("len", I, ["bb"])], ["y", "last"], LITTLE | dict(U=f(4, 4), V=f(3, 4), four=c([4])))


case("two_ways", two_ways(), [dict(x=f(5, 2, 3), len=c([5, 3])), dict(x=f(1, 1, 3), len=c([1])), dict(x=f(3, 3, 3), len=c([0, 3, 2]))])


# attention in integers: dynamically quantised products, scores of f32 between
def quantised_attention():
    n = [N("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"])]
    for name in "qkv":
        n += [N("MatMulInteger", ["xq", f"W{name}", "xz", f"z{name}"], [f"{name}i"]), N("Cast", [f"{name}i"], [f"{name}c"], to=F), N("Mul", ["xs", f"s{name}"], [f"{name}s"]),
              N("Mul", [f"{name}c", f"{name}s"], [f"{name}f"]), N("Reshape", [f"{name}f", "heads"], [f"{name}h"])]
    n += [
        N("Transpose", ["qh"], ["qt"], perm=[0, 2, 1, 3]), N("Transpose", ["kh"], ["kt"], perm=[0, 2, 3, 1]), N("Transpose", ["vh"], ["vt"], perm=[0, 2, 1, 3]),
        N("MatMul", ["qt", "kt"], ["d"]), N("Div", ["d", "two"], ["ds"]), N("Softmax", ["ds"], ["p"], axis=-1), N("MatMul", ["p", "vt"], ["o"]), N("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]),
        N("Reshape", ["ot", "flat"], ["of"]), N("DynamicQuantizeLinear", ["of"], ["oq", "os", "oz"]), N("MatMulInteger", ["oq", "Wo", "oz"], ["oi"]), N("Cast", ["oi"], ["oc"], to=F),
        N("Mul", ["os", "so"], ["oss"]), N("Mul", ["oc", "oss"], ["y"]),
    ]
    weights = {f"W{k}": ints(-128, 128, 8, 8, dt="i1") for k in "qkvo"} | {f"s{k}": c(0.02, "f4") for k in "qkvo"} | {f"z{k}": c(0, "i1") for k in "qkv"}
    return model(n, [vi("x", F, ["b", "t", 8])], ["y"], LITTLE | weights | dict(heads=c([0, -1, 2, 4]), flat=c([0, -1, 8]), two=c(2.0, "f4")))


case("quantised_attention", quantised_attention(), [dict(x=f(2, 3, 8)), dict(x=f(1, 1, 8)), dict(x=f(1, 17, 8))], loose=2e-2)


# a branch on a size: tiled or whole; results of other sizes meet behind it
def chosen():
    then = body("then", [N("Slice", ["x", "l0", "l3", "l1"], ["cut"]), N("Mul", ["cut", "g"], ["a"])], [], ["a"])
    other = body("other", [N("Relu", ["x"], ["r"]), N("Concat", ["r", "x"], ["b"], axis=1)], [], ["b"])
    n = [N("Shape", ["x"], ["s"]), N("Gather", ["s", "i1"], ["w"]), N("Greater", ["w", "i3"], ["large"]), N("Exp", ["x"], ["ex"]), N("ReduceMean", ["ex"], ["g"], keepdims=0),
         N("If", ["large"], ["y"], then_branch=then, else_branch=other), N("Softmax", ["y"], ["p"], axis=1), N("Shape", ["p"], ["ps"]), N("ReduceSum", ["p", "l1"], ["z"])]
    return model(n, [vi("x", F, ["n", "m"])], ["p", "ps", "z"], LITTLE)


case("chosen", chosen(), [dict(x=f(2, 5)), dict(x=f(3, 2)), dict(x=f(1, 4))])


# pairs of all rows with all, upper triangle, sorted by distance, the nearest gathered: a point cloud's neighbours
def neighbours(opset):
    n = [
        N("Unsqueeze", ["x", "l1"], ["a"]), N("Unsqueeze", ["x", "l0"], ["b"]), N("Sub", ["a", "b"], ["d"]), N("ReduceSumSquare", ["d"], ["d2"], axes=[2], keepdims=0)
        if opset < 18 else N("ReduceSumSquare", ["d", "l2"], ["d2"], keepdims=0),
        N("TopK", ["d2", "k"], ["near", "at"], axis=1, largest=0, sorted=1), N("Gather", ["x", "at"], ["around"], axis=0), N("Unsqueeze", ["x", "l1"], ["xu"]), N("Sub", ["around", "xu"], ["rel"]),
        N("Shape", ["rel"], ["rs"]), N("Expand", ["xu", "rs"], ["xe"]), N("Concat", ["xe", "rel"], ["feat"], axis=2), N("MatMul", ["feat", "W"], ["h"]), N("Relu", ["h"], ["hr"]),
        N("ReduceMax", ["hr"], ["y"], axes=[1], keepdims=0) if opset < 18 else N("ReduceMax", ["hr", "l1"], ["y"], keepdims=0), N("Trilu", ["d2", "i1"], ["up"], upper=1), N("ReduceMax", ["up"], ["far_"], keepdims=0),
    ]
    return model(n, [vi("x", F, ["n", 3]), vi("k", I, [1])], ["near", "y", "far_", "rs"], LITTLE | dict(W=f(6, 5)), opset=opset)


for opset in (14, 18):
    case(f"neighbours_{opset}", neighbours(opset), [dict(x=f(6, 3), k=c([3])), dict(x=f(1, 3), k=c([1])), dict(x=f(9, 3), k=c([9]))])


# rotary embeddings with positions from a mask, keys repeated for groups of heads, a cache in front
def grouped():
    n = [
        N("CumSum", ["mask", "i1"], ["cs"]), N("Sub", ["cs", "i1"], ["pos"]), N("Max", ["pos", "i0"], ["pos0"]), N("Shape", ["q"], ["qs"]), N("Gather", ["qs", "l2"], ["t"]), N("Neg", ["t"], ["tn"]),
        N("Slice", ["pos0", "tn", "far", "l1"], ["now"]), N("Cast", ["now"], ["nf"], to=F), N("Unsqueeze", ["nf", "lm1"], ["nu"]), N("Mul", ["nu", "freq"], ["ang"]),
        N("Concat", ["ang", "ang"], ["ang2"], axis=-1), N("Cos", ["ang2"], ["co"]), N("Sin", ["ang2"], ["si"]), N("Unsqueeze", ["co", "l1"], ["cu"]), N("Unsqueeze", ["si", "l1"], ["siu"]),
    ]
    for name in "qk":
        n += [N("Split", [name], [f"{name}a", f"{name}b"], axis=-1, num_outputs=2), N("Neg", [f"{name}b"], [f"{name}n"]), N("Concat", [f"{name}n", f"{name}a"], [f"{name}r"], axis=-1),
              N("Mul", [name, "cu"], [f"{name}c"]), N("Mul", [f"{name}r", "siu"], [f"{name}t"]), N("Add", [f"{name}c", f"{name}t"], [f"{name}o"])]
    n += [
        N("Concat", ["pk", "ko"], ["k2"], axis=2), N("Concat", ["pv", "v"], ["v2"], axis=2), N("Unsqueeze", ["k2", "l2"], ["ku"]), N("Shape", ["k2"], ["ks"]), N("Gather", ["ks", "l0"], ["b"]),
        N("Gather", ["ks", "l2"], ["T"]), N("Concat", ["b", "l2", "l2", "T", "d"], ["wide"], axis=0), N("Expand", ["ku", "wide"], ["ke"]), N("Concat", ["b", "four", "T", "d"], ["heads"], axis=0),
        N("Reshape", ["ke", "heads"], ["kk"]), N("Unsqueeze", ["v2", "l2"], ["vu"]), N("Expand", ["vu", "wide"], ["ve"]), N("Reshape", ["ve", "heads"], ["vv"]),
        N("Transpose", ["kk"], ["kturned"], perm=[0, 1, 3, 2]), N("MatMul", ["qo", "kturned"], ["dots"]), N("Unsqueeze", ["mask", "mid"], ["mu"]), N("Cast", ["mu"], ["mb"], to=B),
        N("Where", ["mb", "dots", "least"], ["md"]), N("Softmax", ["md"], ["p"], axis=-1), N("MatMul", ["p", "vv"], ["y"]),
    ]
    return model(n, [vi("q", F, ["b_", 4, "t_", 6]), vi("k", F, ["b_", 2, "t_", 6]), vi("v", F, ["b_", 2, "t_", 6]), vi("pk", F, ["b_", 2, "past", 6]), vi("pv", F, ["b_", 2, "past", 6]), vi("mask", I, ["b_", "total"])],
                 ["y", "k2", "v2"], LITTLE | dict(freq=c([1.0, 0.1, 0.01], "f4"), d=c([6]), four=c([4]), mid=c([1, 2]), least=c(-1e9, "f4")), opset=18)


def cache(b, t, past):
    return dict(q=f(b, 4, t, 6), k=f(b, 2, t, 6), v=f(b, 2, t, 6), pk=f(b, 2, past, 6), pv=f(b, 2, past, 6), mask=np.concatenate([np.zeros((b, 1), "i8"), np.ones((b, t + past - 1), "i8")], 1) if t + past > 1 else np.ones((b, 1), "i8"))


case("grouped", grouped(), [cache(1, 3, 0), cache(2, 1, 4), cache(1, 1, 0)])

# spectra: frames by Slice in a loop that collects them, a window, DFT as two products
def frames():
    turn = body("frame", [N("Mul", ["i", "hop"], ["from"]), N("Unsqueeze", ["from", "l0"], ["fu"]), N("Add", ["fu", "size"], ["to"]), N("Slice", ["x", "fu", "to", "l0"], ["s"]), N("Mul", ["s", "win"], ["sw"]),
                          N("Identity", ["go"], ["go2"])], [vi("i", I, []), vi("go", B, [])], [vi("go2", B, []), vi("sw", F, [8])])
    n = [
        N("Shape", ["x"], ["xs"]), N("Sub", ["xs", "size"], ["room"]), N("Div", ["room", "hopl"], ["steps"]), N("Add", ["steps", "l1"], ["count1"]), N("Squeeze", ["count1", "l0"], ["count"]),
        N("Loop", ["count", ""], ["fr"], body=turn), N("MatMul", ["fr", "re"], ["r"]), N("MatMul", ["fr", "im"], ["m"]), N("Mul", ["r", "r"], ["rr"]), N("Mul", ["m", "m"], ["mm"]), N("Add", ["rr", "mm"], ["p"]),
        N("Max", ["p", "tiny"], ["pm"]), N("Log", ["pm"], ["y"]),
    ]
    k, t = np.arange(5), np.arange(8)
    w = np.exp(-2j * np.pi * t[:, None] * k / 8)
    return model(n, [vi("x", F, ["n"])], ["y"], LITTLE | dict(hop=c(4), hopl=c([4]), size=c([8]), win=np.hanning(8).astype("f4"), re=w.real.astype("f4"), im=w.imag.astype("f4"), tiny=c(1e-6, "f4")))


case("frames", frames(), [dict(x=f(8)), dict(x=f(29)), dict(x=f(64))], loose=1e-3)

# ONNX Runtime's own, as its optimiser writes them: one decoder layer of half precision's kin in f32
def fused_layer():
    n = [
        N("SkipLayerNormalization", ["x", "skip", "g", "b", "bias"], ["ln", "", "", "sum"], domain=MS, epsilon=1e-5), N("MatMul", ["ln", "Wi"], ["up"]), N("BiasGelu", ["up", "bi"], ["act"], domain=MS),
        N("FusedMatMul", ["act", "Wo"], ["down"], domain=MS, alpha=0.5, transB=1), N("SkipSimplifiedLayerNormalization", ["down", "sum", "g"], ["y", "", "", "rest"], domain=MS, epsilon=1e-6),
        N("QuickGelu", ["y"], ["z"], domain=MS, alpha=1.702),
    ]
    return model(n, [vi("x", F, ["b_", "t", 8]), vi("skip", F, ["b_", "t", 8])], ["y", "z", "rest"], dict(g=f(8), b=f(8), bias=f(8), Wi=f(8, 16), bi=f(16), Wo=f(8, 16)))


case("fused_layer", fused_layer(), [dict(x=f(2, 3, 8), skip=f(2, 3, 8)), dict(x=f(1, 1, 8), skip=f(1, 1, 8))])

# patches of an image by space to depth, positions interpolated from a table, pixels back by depth to space
def patches():
    n = [
        N("SpaceToDepth", ["x"], ["p"], blocksize=2), N("Shape", ["p"], ["ps"]), N("Slice", ["ps", "l2", "far", "l0"], ["hw"]), N("Concat", ["onetwelve", "hw"], ["size"], axis=0),
        N("Resize", ["pos", "", "", "size"], ["pr"], mode="linear", coordinate_transformation_mode="half_pixel"), N("Add", ["p", "pr"], ["e"]), N("Conv", ["e", "w"], ["cv"], group=4, pads=[1, 1, 1, 1]),
        N("InstanceNormalization", ["cv", "sc", "bi"], ["nm"]), N("PRelu", ["nm", "sl"], ["ac"]), N("DepthToSpace", ["ac"], ["up"], blocksize=2, mode="CRD"), N("GlobalAveragePool", ["up"], ["gp"]),
        N("Mul", ["up", "gp"], ["se"]), N("LpNormalization", ["se"], ["y"], axis=1, p=2),
    ]
    return model(n, [vi("x", F, ["n", 3, "h", "w_"])], ["y"], LITTLE | dict(onetwelve=c([1, 12]), pos=f(1, 12, 3, 3), w=f(12, 3, 3, 3), sc=f(12), bi=f(12), sl=f(12, 1, 1)), opset=16)


case("patches", patches(), [dict(x=f(1, 3, 8, 10)), dict(x=f(2, 3, 4, 4))], loose=1e-3)
