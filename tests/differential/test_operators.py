"""Single operators of symbolic shape, compiled once and run at many sizes: none, one, a vector and one less or more.

ONNX's own cases have fixed and mostly small shapes. Here a case is one node whose inputs name their dimensions; ONNX
Runtime or the evaluator of ONNX says what is right at every set of sizes, and the interpreter has to agree with what was
compiled (tool_conformance compares them). Attributes, element types and shapes are drawn at random, by a seed for each
case: 1,500 cases by day, 15,000 with TENON_NIGHTLY=1. Two processes compile and run them with little optimisation, and many
cases as one model of nodes that have nothing to do with each other: most of what one costs a C compiler is what all have in
common. Where such a model fails, each case of it is tried alone. A test is what came of one case.
"""
import os
import queue
import threading
import zlib

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import operators_ml  # noqa: F401
import operators_plain  # noqa: F401
import operators_rare  # noqa: F401
from operator_case import MAKERS, pick
from peers import Peers
from worker import BUILD, Crash, Worker

NIGHTLY = os.environ.get("TENON_NIGHTLY", "") not in ("", "0")
CASES = 15000 if NIGHTLY else 1500
SEEDS = -(-CASES // len(MAKERS))
CHOSEN = [(name, seed) for seed in range(SEEDS) for name in MAKERS][:CASES]
TOGETHER = 24                        # cases in one model: as many as its inputs and outputs allow, at ten and three each (tool_conformance.c)
SIZES = [0, 1, 2, 7, 8, 9, 15, 16, 17, 33] if NIGHTLY else [0, 1, 7, 8, 9, 17]     # around vectors of 8 and 16


# ---- drawing a case ------------------------------------------------------------------------------------------------------------


def draw(r, dtype, dims, how):
    n = tuple(dims)
    if isinstance(how, list):
        x = np.array(how, object)[r.integers(0, len(how), n)]
    elif how == "bits":
        x = r.random(n) < 0.7
    elif isinstance(how, int):
        x = r.integers(0, how, n)
    elif isinstance(how, tuple):
        x = r.integers(*how, n)
    else:
        x = {"normal": lambda: r.standard_normal(n), "small": lambda: r.standard_normal(n) / 3, "negative": lambda: -np.abs(r.standard_normal(n)),
             "uniform": lambda: r.random(n) + 0.1, "wide": lambda: r.random(n) * 3 - 1.5, "near one": lambda: r.random(n) / 4 + 0.9,
             "few": lambda: r.standard_normal(n) * 3, "small within 1": lambda: r.random(n) * 1.8 - 0.9, "above 1": lambda: r.random(n) * 3 + 1,
             "boxes": lambda: np.concatenate([r.random((*n[:-1], 2)) * 6, r.random((*n[:-1], 2)) * 10 + 6], -1),
             "regions": lambda: np.concatenate([r.integers(0, 2, (*n[:-1], 1)), r.random((*n[:-1], 2)) * 8 - 2, r.random((*n[:-1], 2)) * 16], -1)}[how]()
    return np.asarray(x).astype(dtype)


def model_of(case):
    names, infos, constants = [], [], []
    for i, x in enumerate(case.inputs):
        names.append("" if x is None else f"x{i}")
        if isinstance(x, tuple):
            infos.append(helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(np.dtype(x[0])), x[1]))
        elif x is not None:
            constants.append(numpy_helper.from_array(np.asarray(x), f"x{i}"))
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, domain=case.domain, **case.attributes)
    graph = helper.make_graph([node], case.op, infos, [helper.make_empty_tensor_value_info(o) for o in outputs], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset), helper.make_opsetid("com.microsoft", 1),
                                                   helper.make_opsetid("ai.onnx.ml", 3)], ir_version=10)


def sizes_of(case, r):
    """Sets of sizes: every dimension at each size once, the others at random."""
    symbols = sorted({d for x in case.inputs if isinstance(x, tuple) for d in x[1] if isinstance(d, str)})
    least = case.least or {}

    def fit(symbol, size):           # c6: a multiple of 6
        size = max(size, least.get(symbol, 0))
        return -(-size // 6) * 6 if symbol == "c6" else size

    sizes = [s for s in SIZES if s <= 8 or not case.slow]
    few = [s for s in sizes if s <= 9 or len(symbols) < 3]
    for size in sizes:
        first = pick(r, *symbols) if symbols else None
        yield {s: fit(s, size if s == first else pick(r, *few)) for s in symbols}


def close(got, want, loose):
    if want.dtype.kind in "OU":
        assert got.shape == want.shape and got.tolist() == want.tolist(), f"{got.tolist()}, not {want.tolist()}"
        return
    assert got.dtype == want.dtype and got.shape == want.shape, f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    x, y = got.astype("f8"), want.astype("f8")
    if want.dtype.kind in "iu" and want.dtype.itemsize == 1:
        assert np.abs(x - y).max(initial=0) <= 1, "more than a step apart"       # a tie may go either way in f32
        assert (x != y).mean() < 0.1 if x.size > 50 else True
    else:
        np.testing.assert_allclose(x, y, rtol=loose, atol=loose * max(1, np.abs(y[np.isfinite(y)]).max(initial=0)))


# ---- running them ------------------------------------------------------------------------------------------------------------


def wrong(case, got, wanted):
    """What is wrong with these outputs, or None."""
    try:
        for x, y in zip(got, wanted, strict=True):
            close(x, y, 2e-2 if y.dtype.itemsize < 4 and y.dtype.kind not in "iu" else case.loose)
    except AssertionError as e:
        return str(e)


class Drawn:
    """A case, its model, and at each set of sizes what it is given and what the peers say of that."""

    def __init__(self, peers, name, seed):
        r = np.random.default_rng([zlib.crc32(name.encode()), seed])
        self.name, self.seed = name, seed
        self.case = case = MAKERS[name](r)
        self.model = model_of(case)
        self.runs, contents = [], self.model.SerializeToString()
        for sizes in sizes_of(case, r):
            feeds = {f"x{i}": draw(r, x[0], [sizes.get(d, d) for d in x[1]], x[2]) for i, x in enumerate(case.inputs) if isinstance(x, tuple)}
            answers = peers.ask(contents, case.judge == "ort", feeds)
            if answers:
                self.runs.append((sizes, feeds, answers))

    def run(self, turn):
        """At its set of sizes of this turn; the last one again where it has fewer."""
        return self.runs[min(turn, len(self.runs) - 1)]

    def said(self, turn, what):
        inputs = [x[:2] if isinstance(x, tuple) else None if x is None else np.shape(x) for x in self.case.inputs]
        return f"{self.case.op} {self.case.attributes} of {inputs} at {self.run(turn)[0]}: {what}"

    def wrong(self, turn, got):
        """What is wrong with these outputs, or None. Of tensors without elements ONNX Runtime and the evaluator say different
        things at times: there either will do."""
        wrongs = [wrong(self.case, got, wanted) for wanted in self.run(turn)[2]]
        return self.said(turn, wrongs[0]) if all(wrongs) else None


def together(cases):
    """The nodes of all cases as one model, in which each has names and sizes of its own."""
    graph, whole = onnx.GraphProto(name="together"), onnx.ModelProto()
    whole.CopyFrom(cases[0].model)
    for i, drawn in enumerate(cases):
        one = onnx.GraphProto.FromString(drawn.model.graph.SerializeToString())
        for node in one.node:
            node.input[:] = [name and f"c{i}_{name}" for name in node.input]
            node.output[:] = [f"c{i}_{name}" for name in node.output]
        for named in (*one.input, *one.output, *one.initializer):
            named.name = f"c{i}_{named.name}"
        for dim in (dim for x in one.input for dim in x.type.tensor_type.shape.dim if dim.dim_param):
            dim.dim_param = f"c{i}_{dim.dim_param}"
        graph.MergeFrom(one)
    graph.name = "together"
    whole.graph.CopyFrom(graph)
    return whole


def judged(worker, folder, cases):
    """What is wrong with each case, or None, where they are one model; or in one text why that model does not run."""
    cases_run = [c for c in cases if c.runs]
    said = dict.fromkeys(cases)
    folder.mkdir(parents=True, exist_ok=True)
    if cases_run:
        onnx.save(together(cases_run), folder / "model.onnx")
    for turn in range(max((len(c.runs) for c in cases_run), default=0)):
        files = []
        for x in (x for c in cases_run for x in c.run(turn)[1].values()):
            files.append(folder / f"{len(files)}.pb")
            files[-1].write_bytes(numpy_helper.from_array(x).SerializeToString())
        try:
            status, got = worker.run("=" if turn else folder / "model.onnx", folder / "made", files)
        except Crash as e:
            return str(e) if len(cases) > 1 else {cases[0]: cases[0].said(turn, e)}
        if status != "0":
            return got if len(cases) > 1 else {cases[0]: cases[0].said(turn, got)}
        for c in cases_run:
            said[c] = said[c] or c.wrong(turn, got[:c.case.outputs])
            got = got[c.case.outputs:]
    return said


def judged_well(worker, folder, cases):
    """As judged, and what is wrong is said of a case by itself where it is wrong by itself."""
    said = judged(worker, folder, cases)
    if len(cases) == 1 or isinstance(said, dict) and not any(said.values()):
        return said
    alone = {c: judged(worker, folder, [c])[c] for c in cases}
    if isinstance(said, dict):
        return {c: alone[c] or said[c] and f"right alone, but beside {[other.name for other in cases]} {said[c]}" for c in cases}
    if not any(alone.values()):
        alone[cases[0]] = f"each is right alone, but {[(c.name, c.seed) for c in cases]} as one model: {said}"
    return alone


class Results:
    """Two threads take cases in their order, some at once; the one that asks for a case waits until it is done."""

    def __init__(self, folder, wanted):
        self.folder, self.waiting, self.found = folder, list(reversed(wanted)), {case: queue.SimpleQueue() for case in wanted}
        self.taking = threading.Lock()
        self.threads = [threading.Thread(target=self.work, args=(i,), daemon=True) for i in range(2)]
        for t in self.threads:
            t.start()

    def draw(self, peers):
        """The next case drawn, or None where none is left."""
        while True:
            with self.taking:
                named = self.waiting.pop() if self.waiting else None
            try:
                return named and Drawn(peers, *named)
            except Exception as e:       # of the test itself: its maker, or the reference
                self.found[named].put(f"{type(e).__name__}: {e}")

    def take(self, peers, drawn):
        """Cases that may be one model: of one version of the operators. `drawn` is by version what waits for more of its kind."""
        while all(len(cases) < TOGETHER for cases in drawn.values()) and (one := self.draw(peers)):
            drawn.setdefault(one.case.opset, []).append(one)
        return drawn.pop(max(drawn, key=lambda version: len(drawn[version]))) if drawn else []

    def work(self, i):
        worker, peers, drawn = Worker(BUILD / "conformance" / "cache"), Peers(), {}
        while cases := self.take(peers, drawn):
            try:
                said = judged_well(worker, self.folder / str(i), cases)
            except Exception as e:
                said = dict.fromkeys(cases, f"{type(e).__name__}: {e}")
            for c in cases:
                self.found[c.name, c.seed].put(said[c])
        worker.end()
        peers.end()

    def of(self, name, seed):
        return self.found[name, seed].get()


@pytest.fixture(scope="module")
def results(request, tmp_path_factory):
    wanted = [(item.callspec.params["name"], item.callspec.params["seed"]) for item in request.session.items if item.originalname == "test_operator"]
    made = Results(tmp_path_factory.mktemp("operators"), wanted)
    yield made
    for t in made.threads:
        t.join()


@pytest.mark.parametrize("name,seed", sorted(CHOSEN))
def test_operator(name, seed, results):
    said = results.of(name, seed)
    assert said is None, said
