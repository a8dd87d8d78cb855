"""The backend tests of the onnx package, through compiled code.

    conformance.py [--all] [--update] [--list] [--junit FILE] [PATTERN…]

onnx defines them: 1884 models of single operators and of the functions they stand for, 140 larger ones, each with
inputs and the outputs that are right. Every model is compiled as it stands, run, and compared by onnx's own rule.
Nothing is recognised and nothing is interpreted; the interpreter computes the same beside it, and has to agree.

What fails is expected to: expected_failures.txt names it with the reason. Where a test expects what the specification
does not say, disputed.py shows it. A test that fails and is not listed, or
is listed and passes, fails this command. A model whose parameters (axes, a shape) are inputs is tried once more with
all inputs but the first as constants; where it passes then, the list says so, and it must go on to.

By default a sample is run: of each operator's cases the first and the last, and all that are not about one
operator. --all, or TENON_ALL=1, runs everything, a PATTERN those whose names it is found in; --update rewrites the list.

All is compiled as users get it, for this processor, and for every other x86 target: there the sample, of some targets
a part of it, and with TENON_NIGHTLY=1 everything. What the processor cannot run is compiled all the same. TENON_TEST_TARGET
names the one target to compile for instead.
"""
import argparse
import os
import pathlib
import pickle
import re
import sys
import threading
import time
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import junit  # noqa: E402
from disputed import shown  # noqa: E402
from targets import TARGET, TARGETS, X86, native, runs_here  # noqa: E402
from worker import Crash, Worker  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
FOLDER = BUILD / "conformance"
LIST = pathlib.Path(__file__).with_name("expected_failures.txt")
NIGHTLY = os.environ.get("TENON_NIGHTLY", "") not in ("", "0")
BROAD = "x86-64-v3"                      # what most machines without AVX-512 run: it gets the whole sample by day,
FEW = 3                                  # the others one case in so many
FROZEN = "as constants: "                # before the reason, in the list
UNSUPPORTED = "4"
STATUS = {"2": "refused as it runs", "3": "refused as malformed", "4": "not supported", "5": "over a limit", "6": "the C compiler failed",
          "7": "internal error", "8": "the interpreter differs"}


# ---- the tests, written out once for each version of onnx ----------------------------------------


def value_of(proto, info):
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(proto)
    return numpy_helper.to_optional(proto) if kind == "optional_type" else numpy_helper.to_array(proto)


def read_sets(folder, model):
    """The data sets of a test that lies in a folder."""
    proto_of = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}
    sets = []
    for part in sorted(pathlib.Path(folder).glob("test_data_set_*")):
        values = {}
        for way, infos in (("input", model.graph.input), ("output", model.graph.output)):
            values[way] = []
            for k in range(len(list(part.glob(f"{way}_*.pb")))):
                proto = proto_of.get(infos[k].type.WhichOneof("value"), onnx.TensorProto)()
                proto.ParseFromString((part / f"{way}_{k}.pb").read_bytes())
                values[way].append(value_of(proto, infos[k]))
        sets.append((values["input"], values["output"]))
    return sets


def plain(x):
    if isinstance(x, onnx.TensorProto):
        return numpy_helper.to_array(x)
    if isinstance(x, (list, tuple)):
        return [plain(item) for item in x]
    return x if x is None else np.asarray(x)


def write_cases(folder):
    """Every test as a model and its data; what is random is the same on every day."""
    from onnx.backend.test.loader import load_model_tests

    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")          # the generators divide by zero on purpose
        tests = [t for kind in ("node", "simple", "pytorch-converted", "pytorch-operator") for t in load_model_tests(kind=kind)]
    index = []
    for test in tests:
        place = folder / test.name
        place.mkdir(parents=True, exist_ok=True)
        model = test.model if test.model_dir is None else onnx.load(pathlib.Path(test.model_dir) / "model.onnx")
        sets = test.data_sets if test.model_dir is None else read_sets(test.model_dir, model)
        onnx.save(model, place / "model.onnx")
        sets = [([plain(x) for x in inputs], [plain(y) for y in outputs]) for inputs, outputs in sets]
        (place / "data.pickle").write_bytes(pickle.dumps((sets, test.rtol, test.atol)))
        index.append((test.name, test.kind, [node.op_type for node in model.graph.node]))
    (folder / "index.pickle").write_bytes(pickle.dumps(index))


def all_cases():
    folder = FOLDER / f"onnx-{onnx.__version__}"
    if not (folder / "index.pickle").exists():
        write_cases(folder)
    return folder, pickle.loads((folder / "index.pickle").read_bytes())


def sample(index):
    """Of each operator's cases the first and the last; of the larger models all."""
    groups = {}
    for case in index:
        name, kind, ops = case
        groups.setdefault((kind, name) if kind != "node" else (kind, "expanded" in name, *sorted(set(ops))), []).append(case)
    return [case for group in groups.values() for case in {case[0]: case for case in (group[0], group[-1])}.values()]


# ---- running one ---------------------------------------------------------------------------------


def freeze(model, inputs):
    """The model with all inputs but the first as constants."""
    frozen = onnx.ModelProto()
    frozen.CopyFrom(model)
    first, *others = frozen.graph.input
    for info, x in zip(others, inputs[1:], strict=False):
        frozen.graph.initializer.append(numpy_helper.from_array(x, info.name))
    del frozen.graph.input[1:]
    return frozen


def inner_type(info):
    """Of a sequence or an optional: the type of its tensors; None for a tensor. Is it an optional tensor?"""
    kind, t = info.type.WhichOneof("value"), info.type
    if kind == "tensor_type":
        return None, False
    while t.WhichOneof("value") != "tensor_type":
        last, t = t.WhichOneof("value"), getattr(t, t.WhichOneof("value")).elem_type
    return t.tensor_type, last == "optional_type"


def as_tensors(info, x):
    """What a model takes for an input: a tensor, or all items of a sequence and their shapes."""
    t, _ = inner_type(info)
    if t is None:
        return [x]
    items = [] if x is None else x if isinstance(x, list) else [x]
    items = [np.asarray(item) for item in items]
    dtype = items[0].dtype if items else onnx.helper.tensor_dtype_to_np_dtype(t.elem_type)
    rank = items[0].ndim if items else len(t.shape.dim)
    return [np.concatenate([np.zeros(0, dtype), *(item.ravel() for item in items)]).astype(dtype),
            np.array([item.shape for item in items], np.int64).reshape(len(items), rank)]


def as_values(infos, tensors):
    """The outputs of a model from the tensors it gave."""
    values, rest = [], list(tensors)
    for info in infos:
        t, one = inner_type(info)
        if t is None:
            values.append(rest.pop(0))
            continue
        items, sizes = rest.pop(0), rest.pop(0)
        ends = np.cumsum(np.prod(sizes, axis=1, dtype=np.int64))
        parts = [items[end - int(np.prod(size)):end].reshape(size) for end, size in zip(ends, sizes, strict=True)]
        values.append(parts if not one else parts[0] if parts else None)
    return values


def run_case(worker, folder, name, as_constants):
    """None if it passed, else why not."""
    from onnx.backend.test.runner import Runner

    place = folder / name
    sets, rtol, atol = pickle.loads((place / "data.pickle").read_bytes())
    path = place / "model.onnx"
    if as_constants:
        path = place / "constants.onnx"
        onnx.save(freeze(onnx.load(place / "model.onnx"), sets[0][0]), path)
        sets = [([inputs[0]], outputs) for inputs, outputs in sets[:1]]
    graph = onnx.load(path).graph
    constant = {x.name for x in graph.initializer}
    infos = [info for info in graph.input if info.name not in constant]
    for inputs, wanted in sets:
        files = []
        for x in (part for info, x in zip(infos, inputs, strict=False) for part in as_tensors(info, x)):
            files.append(place / f"{len(files)}.pb")
            files[-1].write_bytes(numpy_helper.from_array(x).SerializeToString())
        status, got = worker.run(path, place / "made", files)
        if status != "0":
            return status, got
        if not worker.runs:
            return None
        got = as_values(graph.output, got)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                Runner.assert_similar_outputs(wanted, got, rtol, atol)
        except (AssertionError, TypeError, AttributeError) as e:
            reason = shown(name, inputs, wanted, got, (rtol, atol))
            return ("disputed", reason) if reason else ("wrong", " ".join(str(e).split())[:300])
    return None


def run_somehow(worker, folder, name):
    """None, or (why not, does it pass with its parameters as constants?)."""
    try:
        why = run_case(worker, folder, name, False)
        if why and why[0] == UNSUPPORTED and "must be" in why[1]:
            return why, run_case(worker, folder, name, True) is None
        return why and (why, False)
    except Crash as e:
        return ("crash", str(e)), False


def run_all(names, folder, jobs, target):
    results, queue, lock = {}, list(reversed(names)), threading.Lock()

    def work():
        worker = Worker(FOLDER / "cache", target, "full" if target == "native" or runs_here(target) else "compile")
        while True:
            with lock:
                if not queue:
                    break
                name = queue.pop()
            result = run_somehow(worker, folder, name)
            with lock:
                results[name] = result
        worker.end()

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


# ---- telling -------------------------------------------------------------------------------------


def reason_of(why):
    """What many failures have in common: the message without places, names and numbers."""
    status, message = why
    if status == "wrong":
        return "wrong result: " + ("shape" if "incorrect shape" in message else "values" if "Not equal to tolerance" in message else "type")
    if status in ("crash", "disputed"):
        return message
    first = message.split(" error: ")[1 if " error: " in message else 0]
    place = re.search(r"node \d+ (\w+) ", message)
    first = re.sub(r"input \d+ \(([^)]*)\), [^,]*, must be.*", r"input (\1) must be known when compiling", first)
    first = re.sub(r' "[^"]*"', "", re.sub(r"\[[^]]*\]", "[…]", first))
    first = re.split(r"[;]| /\S*\.onnx|  ", first)[0]
    told = first if not place or place[1] in first else f"{place[1]}: {first}"
    return f"{STATUS.get(status, status)}: {told[:110].strip()}"


def line_of(result):
    why, as_constants = result
    return (FROZEN if as_constants else "") + reason_of(why)


def read_list():
    lines = [line.split(maxsplit=1) for line in LIST.read_text().splitlines() if line and line[0] != "#"]
    return {name: reason for name, reason in lines}


def write_list(expected):
    groups = {}
    for name, reason in expected.items():
        groups.setdefault(reason, []).append(name)
    text = ["# Tests of the onnx package that fail, and why. Written by: ./dev test conformance --update",
            "# \"as constants\": passes once all inputs but the first are constants, and has to."]
    for reason in sorted(groups, key=lambda r: (-len(groups[r]), r)):
        text += ["", *(f"{name} {reason}" for name in sorted(groups[reason]))]
    LIST.write_text("\n".join(text) + "\n")


def unexpected(results, expected, runs):
    """What is not as the list says, as messages."""
    for name, result in sorted(results.items()):
        known = expected.get(name)
        if result is None and known and runs:
            yield f"{name} passes now: take it off the list (./dev test conformance --update)"
        elif result and (not known or (result[0][0] == "crash" and not known.startswith("crash"))):
            yield f"{name} failed: {STATUS.get(result[0][0], result[0][0])}: {result[0][1]}"
        elif result and known.startswith(FROZEN) and not result[1]:
            yield f"{name} passed with its parameters as constants and does not now: {result[0][1]}"


def tell(results):
    groups = {}
    for name, result in results.items():
        if result:
            groups.setdefault(line_of(result), []).append(name)
    for reason in sorted(groups, key=lambda r: (-len(groups[r]), r)):
        print(f"{len(groups[reason]):5}  {reason}")
        for name in sorted(groups[reason]):
            print(f"         {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", default=bool(os.environ.get("TENON_ALL")))
    parser.add_argument("--junit", help="write what passed and what failed to this file")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--list", action="store_true", help="every failure by name, with its reason")
    parser.add_argument("pattern", nargs="*")
    o = parser.parse_args()

    folder, index = all_cases()
    chosen = index if o.all or o.update else sample(index)
    if o.pattern:
        chosen = [case for case in index if any(p in case[0] for p in o.pattern)]
    ways = [(TARGET, chosen)]
    if TARGET == "native" and X86 and not o.update:
        others = chosen if o.pattern else index if NIGHTLY else sample(index)
        few = 1 if o.pattern or NIGHTLY else FEW
        ways += [(target, others[::1 if target == BROAD else few]) for target in TARGETS if target != native()]
    told = [case for target, cases in ways for case in run_target(o, folder, index, target, cases)]
    failed = sum(why is not None for _, _, why in told)
    if o.junit:
        junit.write(o.junit, "conformance", told)
    print(f"{len(told) - failed} passed, {failed} failed")
    return bool(failed)


def run_target(o, folder, index, target, cases):
    """Those that pass, and those that fail or pass unexpectedly, as JUnit has them."""
    start, runs = time.time(), target == "native" or runs_here(target)
    results = run_all([name for name, _, _ in cases], folder, os.cpu_count() or 1, target)
    expected = read_list()
    if o.update:
        expected = {n: r for n, r in expected.items() if n not in results and any(n == name for name, _, _ in index)}
        write_list(expected | {name: line_of(r) for name, r in results.items() if r})
        expected = read_list()
    failed = sum(r is not None for r in results.values())
    if o.list or o.all or o.pattern:
        tell(results)
    bad = list(unexpected(results, expected, runs))
    for line in bad:
        print(f"{target}: {line}")
    print(f"onnx {onnx.__version__}, {target}: {len(results) - failed} of {len(results)} tests {'pass' if runs else 'compile'}, "
          f"{failed - sum('failed:' in b for b in bad)} expected failures, {len(bad)} unexpected, {time.time() - start:.1f} s")
    return [(f"{target}: {name}", 0.0, None) for name, r in results.items() if r is None] + [(f"{target}: {line.split()[0]}", 0.0, line) for line in bad]


if __name__ == "__main__":
    sys.exit(main())
