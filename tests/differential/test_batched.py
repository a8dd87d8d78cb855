"""Programs for many requests as text: after every stage the program is parsed back to the same text, and the interpreter
walks it to what it makes of the model itself; so does the compiled one, all requests together.

The programs are those of test_control.py, and random ones (random_control.py). TENON_NIGHTLY=1 runs more.
"""
import json
import re
import subprocess

import numpy as np
import onnx
import onnx.parser
import pytest

import test_control
from random_control import Program
from worker import BUILD

NIGHTLY = test_control.os.environ.get("TENON_NIGHTLY", "") not in ("", "0")
SEEDS = range(200) if NIGHTLY else range(8)
COMPILED = range(30) if NIGHTLY else range(2)


def tenon(*words):
    done = subprocess.run([test_control.TENON, *map(str, words)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


def interpreted(model, request, folder):
    """Outputs by name."""
    paths = []
    for name, x in request.items():
        paths.append(folder / f"{name}.npy")
        np.save(paths[-1], x)
    done = subprocess.run([BUILD / "tests" / "tool_ref", model, *paths, "--out", folder / "out"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{model}: {done.stderr}"
    return {path.stem: np.load(path) for path in (folder / "out").glob("*.npy")}


def text_of(path):
    """Without remarks, the places of weights in their file, and what is required of nests in text so that they read inside of their tensors."""
    lines = [line for line in path.read_text().split("\n") if not re.match(r';| *require .* "nest ', line)]
    return re.sub(r'file "[^"]*" \d+', "file", "\n".join(lines))


def check_stages(model, requests, folder):
    """How many stages showed a program for many."""
    tenon("compile", model, "--many", "--stop-after=choose", "--dump=all", "--dump-dir", folder / "dumps")
    want, seen = [interpreted(model, r, folder) for r in requests], 0
    for dump in sorted((folder / "dumps").glob("*.tn")):
        if " = blocks(" not in dump.read_text():
            continue
        seen += 1
        again = folder / dump.stem
        tenon("compile", dump, "--stop-after=import", "--dump=import", "--dump-dir", again)
        assert text_of(next(again.glob("*-import.tn"))) == text_of(dump)
        for request, outputs in zip(requests, want):
            got = interpreted(dump, request, folder)
            for name, x in outputs.items():
                np.testing.assert_array_equal(got[name], x, err_msg=f"{dump.name}, {name}")
    return seen


# A routine has a size as a parameter: requests run one by one.
UNBATCHED = ["one number in a list of open length", "numbers that are bounded by the largest integer alone"]


@pytest.mark.parametrize("name", [name for name in test_control.MODELS if name not in UNBATCHED])
def test_model(name, tmp_path):
    text, requests = test_control.MODELS[name]
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    assert check_stages(tmp_path / "m.onnx", requests, tmp_path) >= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_random(seed, tmp_path):
    p = Program(seed)
    (tmp_path / "m.tn").write_text(p.text)
    assert check_stages(tmp_path / "m.tn", p.requests(3), tmp_path) >= 2


@pytest.mark.parametrize("seed", COMPILED)
def test_random_compiled(seed, tmp_path):
    """From the text of the program for many, too."""
    p = Program(seed)
    (tmp_path / "m.tn").write_text(p.text)
    requests = p.requests(8)
    want = [interpreted(tmp_path / "m.tn", r, tmp_path) for r in requests]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps({k: v.tolist() for k, v in r.items()}) + "\n" for r in requests))
    tenon("compile", tmp_path / "m.tn", "--many", "--stop-after=lower", "--dump=lower", "--dump-dir", tmp_path)
    for model, words in (tmp_path / "m.tn", ["--many"]), (next(tmp_path.glob("*-lower.tn")), []):
        tenon("compile", model, *words, "--plain", "-o", tmp_path / "m.so")
        done = tenon("run", tmp_path / "m.so", "--many", tmp_path / "r.jsonl")
        assert "one by one" not in done.stderr
        for line, outputs in zip(done.stdout.splitlines(), want, strict=True):
            got = json.loads(line)
            for name, x in outputs.items():
                if x.size:
                    np.testing.assert_allclose(np.array(got[name]), x, rtol=1e-4, atol=1e-5, err_msg=name)


CELL = """graph @main(%x: f32[1, 48]) -> (%y) {{
  %w: f32[48, 128] = const file "w.bin" 0
  %b: f32[128] = const file "w.bin" {b}
  %p: f32[1, 128] = matmul(%x, %w)
  %s: f32[1, 128] = add(%p, %b)
  %g: f32[1, 128] = sigmoid(%s)
  %t: f32[1, 128] = tanh(%g)
  %y: f32[1, 128] = mul(%t, %s)
}}
"""


def test_epilogues_are_loops(tmp_path):
    """The results of whole and of partial tiles, and those of a request alone, have the same bits."""
    rng = np.random.default_rng(3)
    w, b = rng.normal(size=(48, 128)).astype(np.float32) / 4, rng.normal(size=128).astype(np.float32)
    (tmp_path / "w.bin").write_bytes(w.tobytes() + b.tobytes())
    (tmp_path / "m.tn").write_text(CELL.format(b=w.nbytes))
    rows = rng.normal(size=(11, 1, 48)).astype(np.float32)
    together = "".join(json.dumps({"x": x.tolist()}) + "\n" for x in rows)
    (tmp_path / "all.jsonl").write_text(together)
    tenon("compile", tmp_path / "m.tn", "--many", "-o", tmp_path / "m.so")
    tenon("compile", tmp_path / "m.tn", "--many", "--target", "x86-64-v3", "--emit", "c", "-o", tmp_path / "m.c")
    assert re.search(r" = q\d+\[2\*i\d+ \+ 1\] \+ tn_load_f32x8", (tmp_path / "m.c").read_text())
    got = [json.loads(line)["y"] for line in tenon("run", tmp_path / "m.so", "--many", tmp_path / "all.jsonl").stdout.splitlines()]
    s = rows.astype(float) @ w + b
    np.testing.assert_allclose(np.array(got), np.tanh(1 / (1 + np.exp(-s))) * s, rtol=1e-4, atol=1e-5)
    for line, y in zip(together.splitlines(), got, strict=True):
        (tmp_path / "one.jsonl").write_text(line + "\n")
        assert json.loads(tenon("run", tmp_path / "m.so", "--many", tmp_path / "one.jsonl").stdout)["y"] == y
