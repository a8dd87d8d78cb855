"""The bits of outputs are one of two on every target: with fused multiply-adds, or without.

All targets get the same schedules, from a machine file with the facts of one. So they round at the same places, except
that where a product is added one rounding is less if the processor fuses them. A third value is a bug of the prelude
or of a C compiler. bits.json has the two for each model; TENON_UPDATE_BITS=1 writes it anew.
"""
import hashlib
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = str(pathlib.Path(os.environ.get("TENON", ROOT / "build" / "tenon")).resolve())
STORED = pathlib.Path(__file__).with_name("bits.json")
CORPUS = ROOT / "tests/fuzz/corpus-onnx"
ALL = os.environ.get("TENON_ALL", "") not in ("", "0")    # by day a sample
CLASSES = {"unfused": ["x86-64-v2", "wasm32-simd"], "fused": ["x86-64-v3", "armv8-a", "armv8.2-dot", "rv64gcv"]}
FACTS = "armv8-a"
MODELS = {
    "digits": (ROOT / "examples/digits/digits.onnx", {"batch": 7}),
    "causal": (ROOT / "examples/causal/causal.onnx", {"batch": 2, "seq": 21}),
    "power": (ROOT / "examples/power/power.onnx", {"n": 19}),
} | {name: (CORPUS / name, {"b": 5}) for name in ("conv", "conv_transpose", "gemm", "layer_norm", "mlp", "pools", "quantize", "reduce", "unary")}


def tenon(folder, *args):
    env = os.environ | {"TENON_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run([TENON, *map(str, args)], env=env, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("facts")
    (folder / "row").write_text(f"target {FACTS}\n")
    tenon(folder, "machine", "--machine", "row", "-o", "all")
    return (folder / "all").read_text()


def runs_here(target):
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    return not target.startswith("x86-64-v") or target == "x86-64-v2" or " avx2 " in flags


def bits(folder, facts, name, target):
    model, dims = MODELS[name]
    (folder / "machine").write_text(facts.replace(f" {FACTS}\n", f" {target}\n"))
    tenon(folder, "run", model, "--target", target, "--machine", "machine", "--output-dir", "out",
          *(f"--dim={symbol}={size}" for symbol, size in dims.items()))
    h = hashlib.sha256()
    for file in sorted((folder / "out").iterdir()):
        h.update(file.read_bytes())
    return h.hexdigest()[:16]


@pytest.mark.parametrize("name", MODELS if ALL else ["digits", "causal", "power", "conv", "unary"])
def test_two_classes(tmp_path, facts, name):
    got = {kind: {t: bits(tmp_path, facts, name, t) for t in targets if runs_here(t)} for kind, targets in CLASSES.items()}
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    if os.environ.get("TENON_UPDATE_BITS"):
        stored[name] = {kind: next(iter(of.values())) for kind, of in got.items()}
        STORED.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    assert got == {kind: dict.fromkeys(of, stored[name][kind]) for kind, of in got.items()}


def test_a_product_is_fused_or_not():
    """The stored hashes tell the classes apart, or the test above could not."""
    stored = json.loads(STORED.read_text())
    assert set(stored) == set(MODELS)
    assert sum(of["fused"] != of["unfused"] for of in stored.values()) >= 4
