"""Models compiled for the web, run by Node: against the same model compiled for this processor."""
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = str(pathlib.Path(os.environ.get("TENON", ROOT / "build" / "tenon")).resolve())
DIGITS, AUSTEN = ROOT / "examples/digits/digits.onnx", ROOT / "examples/generate/austen.onnx"
DTYPES = {"float32": "f32", "float64": "f64", "int64": "i64", "int32": "i32", "uint8": "u8"}


def tenon(tmp_path, *args, **env):
    return subprocess.run([TENON, *map(str, args)], env=os.environ | env, cwd=tmp_path, capture_output=True, text=True)


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return {"TENON_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}


def compile_web(tmp_path, cache, model, *args):
    done = tenon(tmp_path, "compile", model, "--emit", "wasm", "-o", "web", *args, **cache)
    assert done.returncode == 0, done.stderr
    return tmp_path / "web"


@pytest.fixture(scope="session")
def digits(tmp_path_factory, cache):
    return compile_web(tmp_path_factory.mktemp("digits"), cache, DIGITS)


def node(folder, calls, *flags, **options):
    done = subprocess.run(["node", *flags, ROOT / "tests/reach/web.mjs", folder, json.dumps(options)], input=json.dumps(calls),
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tensor(x):
    return {"dtype": DTYPES[str(x.dtype)], "dims": list(x.shape), "data": x.flatten().tolist()}


def native(tmp_path, cache, model, feeds):
    args = []
    for name, x in feeds.items():
        np.save(tmp_path / f"{name}.npy", x)
        args += ["-i", f"{name}=@{tmp_path / name}.npy"]
    done = tenon(tmp_path, "run", model, *args, "--output-dir", "out", **cache)
    assert done.returncode == 0, done.stderr
    return {p.stem: np.load(p) for p in (tmp_path / "out").iterdir()}


def agrees(got, want):
    assert set(got) == set(want)
    for name, y in want.items():
        assert got[name]["dims"] == list(y.shape)
        np.testing.assert_allclose(np.array(got[name]["data"]).reshape(y.shape), y, rtol=1e-4, atol=1e-5)


NODE = int(subprocess.run(["node", "--version"], capture_output=True, text=True).stdout[1:].split(".")[0])
IMAGES = np.random.default_rng(1).random((3, 1, 8, 8), np.float32)


@pytest.mark.parametrize("threads, module", [(1, "model.wasm"), (3, "model-threads.wasm")])
def test_digits(tmp_path, cache, digits, threads, module):
    feeds = {"image": IMAGES}
    info, progress, *got = node(digits, [["info"], ["progress"], *[["run", {"image": tensor(x)}] for x in (IMAGES, IMAGES[:1], IMAGES)]],
                                threads=threads)
    assert (info["module"].replace("-relaxed", ""), info["threads"]) == (module, threads)
    assert progress[-1]["loaded"] == progress[-1]["total"] == (digits / "model.weights").stat().st_size
    want = native(tmp_path, cache, DIGITS, feeds)
    agrees(got[0], want)
    agrees(got[1], {"probability": want["probability"][:1]})
    assert got[2] == got[0]


@pytest.mark.skipif(NODE < 20, reason="Node has relaxed SIMD from version 20 on")
def test_relaxed_module(tmp_path, cache, digits):
    flag = "--experimental-wasm-relaxed-simd"
    known = subprocess.run(["node", flag, "-e", "0"], capture_output=True).returncode == 0
    info, got = node(digits, [["info"], ["run", {"image": tensor(IMAGES)}]], *[flag] * known, threads=1)
    assert info["module"] == "model-relaxed.wasm"
    agrees(got, native(tmp_path, cache, DIGITS, {"image": IMAGES}))


def test_relaxed_code_multiplies_and_adds(tmp_path, digits):
    code = b"\xfd\x85\x02"    # f32x4.relaxed_madd
    assert (digits / "model-relaxed.wasm").read_bytes().count(code) > 50
    assert (digits / "model.wasm").read_bytes().count(code) == 0


def test_words_of_the_model(digits):
    x = tensor(IMAGES)
    got = node(digits, [["run", {}], ["run", {"picture": x}], ["run", {"image": x | {"dtype": "f64"}}], ["run", {"image": x | {"dims": [1, 3, 8, 8]}}],
                        ["run", {"image": x | {"dims": [3, 64]}}], ["run", {"image": {"data": [0.5] * 63}}]], threads=1)
    assert [a["code"] for a in got] == [2] * 6
    assert 'input "image" is missing' in got[0]["error"]
    assert 'no input "picture"' in got[1]["error"]
    assert got[2]["error"] == 'input "image": the elements are f64, the model takes f32[batch, 1, 8, 8]: convert them'
    assert 'dimension 1 is 3, the model takes 1' in got[3]["error"]
    assert 'has rank 2, the model takes rank 4' in got[4]["error"]
    assert 'leaves sizes open that 63 elements do not tell' in got[5]["error"]


def test_states(tmp_path, cache):
    folder = compile_web(tmp_path, cache, AUSTEN, "--state", "past_key_values.*=present.*")
    whole = [3, 1, 4, 1, 5]
    ids = lambda tokens: {"dtype": "i64", "dims": [1, len(tokens)], "data": tokens}
    info, = node(folder, [["info"]], threads=1)
    name = next(x["name"] for x in info["inputs"] if x["name"] == "input_ids")
    feeds = lambda tokens, seen: {x["name"]: ids(tokens) if x["name"] == name else ids(list(range(seen, seen + len(tokens))))
                                  if x["name"] == "position_ids" else ids([1] * (seen + len(tokens))) for x in info["inputs"]}
    one, length, _, two, *_, error = node(folder, [["run", feeds(whole, 0)], ["length"], ["drop", 2], ["run", feeds(whole[3:], 3)], ["reset"],
                                                   ["drop", 1]], threads=1)
    assert length == 5
    last = lambda y: np.array(y["logits"]["data"]).reshape(y["logits"]["dims"])[0, -1]
    np.testing.assert_allclose(last(two), last(one), rtol=1e-3, atol=1e-4)
    assert "rows" in error["error"] and error["code"] == 2


def save(path, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(initializers))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def value(name, dtype, *dims):
    return helper.make_tensor_value_info(name, dtype, dims)


def test_strings_and_sizes_from_data(tmp_path, cache):
    model = save(tmp_path / "m.onnx", [helper.make_node("StringConcat", ["a", "b"], ["c"]), helper.make_node("NonZero", ["x"], ["n"])],
                 [value("a", TensorProto.STRING, "k"), value("b", TensorProto.STRING, "k"), value("x", TensorProto.FLOAT, "k")],
                 [value("c", TensorProto.STRING, "k"), value("n", TensorProto.INT64, 1, "found")])
    folder = compile_web(tmp_path, cache, model)
    got, = node(folder, [["run", {"a": {"dtype": "str", "data": ["Ä", "", "x"]}, "b": {"dtype": "str", "data": ["b", "c", "漢"]},
                                  "x": {"data": [0, 2, 3]}}]], threads=1)
    assert got["c"] == {"dims": [3], "data": ["Äb", "c", "x漢"]}
    assert got["n"] == {"dims": [1, 2], "data": [1, 2]}


# ---- what goes wrong --------------------------------------------------------------------------------------------------------

def broken(tmp_path, digits, change):
    folder = shutil.copytree(digits, tmp_path / "broken")
    change(folder)
    answer = node(folder, [["info"]], threads=1)[-1]
    assert answer["code"] == 3
    return answer["error"]


def test_weights_missing(tmp_path, digits):
    assert "model.weights: the weights cannot be read" in broken(tmp_path, digits, lambda f: (f / "model.weights").unlink())


def test_weights_cut_off(tmp_path, digits):
    assert "the weights broke off after 1000 of" in broken(tmp_path, digits, lambda f: os.truncate(f / "model.weights", 1000))


def test_weights_of_another_model(tmp_path, digits):
    def change(folder):
        data = bytearray((folder / "model.weights").read_bytes())
        data[24] ^= 1
        (folder / "model.weights").write_bytes(data)
    error = broken(tmp_path, digits, change)
    assert "do not belong to the module" in error and "serve both from one compilation" in error


def test_no_weights_at_all(tmp_path, digits):
    assert "no file of weights" in broken(tmp_path, digits, lambda f: (f / "model.weights").write_bytes(b"<html>" * 99))


def test_module_cut_off(tmp_path, digits):
    assert "no module of a model, or cut off" in broken(tmp_path, digits, lambda f: [os.truncate(p, 999) for p in f.glob("*.wasm")])


def test_a_wrong_number_of_elements(digits):
    """It is refused, whatever the dimensions say, and the model goes on."""
    first, second = node(digits, [["run", {"image": {"dtype": "f32", "dims": [3, 1, 8, 8], "data": [0] * 192}}]] * 2, threads=1)
    assert first == second
    big, = node(digits, [["run", {"image": {"dtype": "f32", "dims": [2**40, 1, 8, 8], "data": [0]}}]], threads=1)
    assert big["code"] == 2 and "elements" in big["error"]


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "web").write_text("")
    done = tenon(tmp_path, "compile", DIGITS, "--emit", "wasm", "-o", "web")
    assert done.returncode == 2 and "is a folder, and this is a file" in done.stderr


def test_no_compiler(tmp_path):
    done = tenon(tmp_path, "compile", DIGITS, "--target", "wasm32-simd", "-o", "web", PATH="/nonexistent")
    assert done.returncode == 6
    assert "no usable C compiler for WebAssembly" in done.stderr and "wasi-libc" in done.stderr


def test_reloading_does_not_grow(digits):
    times = 50 if os.environ.get("TENON_NIGHTLY") else 15
    *_, rss = node(digits, [["run", {"image": tensor(IMAGES)}]], threads=2, repeat=times)
    assert len(rss) == times
    assert rss[-1] - rss[times // 3] < 30e6


def test_small(digits):
    """A module has nothing but the model and its session: no imports, and few bytes."""
    import gzip
    assert len(gzip.compress((digits / "model.wasm").read_bytes())) < 30_000
    assert sum(len(gzip.compress((digits / f).read_bytes())) for f in ("model.mjs", "session.mjs", "thread.mjs")) < 12_000
