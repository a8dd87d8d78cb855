"""Single operators of symbolic shape, compiled once and run at many sizes: none, one, a vector and one less or more.

ONNX's own cases have fixed and mostly small shapes. Here a case is one node whose inputs name their dimensions; ONNX
Runtime or the evaluator of ONNX says what is right at every set of sizes, and the interpreter has to agree with what was
compiled (tool_conformance compares them). Attributes, element types and shapes are drawn at random, by a seed for each
case: 1,500 cases by day, 15,000 with TENON_NIGHTLY=1. Two processes compile and run them, many models each, with
little optimisation; a test is what came of one case.
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


def judged(worker, peers, folder, name, seed):
    """What is wrong with a case, or None. Of tensors without elements ONNX Runtime and the evaluator say different
    things at times: there either will do."""
    r = np.random.default_rng([zlib.crc32(name.encode()), seed])
    case = MAKERS[name](r)
    model = model_of(case)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    fresh, contents = True, model.SerializeToString()
    for sizes in sizes_of(case, r):
        feeds = {f"x{i}": draw(r, x[0], [sizes.get(d, d) for d in x[1]], x[2]) for i, x in enumerate(case.inputs) if isinstance(x, tuple)}
        answers = peers.ask(contents, case.judge == "ort", feeds)
        if not answers:
            continue
        files = []
        for i, x in feeds.items():
            files.append(folder / f"{i}.pb")
            files[-1].write_bytes(numpy_helper.from_array(x).SerializeToString())
        said = f"{case.op} {case.attributes} of {[x[:2] if isinstance(x, tuple) else None if x is None else np.shape(x) for x in case.inputs]} at {sizes}"
        try:
            status, got = worker.run(folder / "model.onnx" if fresh else "=", folder / "made", files)
        except Crash as e:
            return f"{said}: {e}"
        if status != "0":
            return f"{said}: {got}"
        fresh = False
        said_wrong = [wrong(case, got, wanted) for wanted in answers]
        if all(said_wrong):
            return f"{said}: {said_wrong[0]}"
    return None


class Results:
    """Two threads take cases in their order; whoever asks for one waits until it is done."""

    def __init__(self, folder, wanted):
        self.folder, self.waiting, self.found = folder, queue.SimpleQueue(), {case: queue.SimpleQueue() for case in wanted}
        for case in wanted:
            self.waiting.put(case)
        self.threads = [threading.Thread(target=self.work, args=(i,), daemon=True) for i in range(2)]
        for t in self.threads:
            t.start()

    def work(self, i):
        worker, peers = Worker(BUILD / "conformance" / "cache"), Peers()
        while not self.waiting.empty():
            try:
                name, seed = self.waiting.get_nowait()
            except queue.Empty:
                break
            try:
                said = judged(worker, peers, self.folder / str(i), name, seed)
            except Exception as e:   # of the test itself: its maker, or the reference
                said = f"{type(e).__name__}: {e}"
            self.found[name, seed].put(said)
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
