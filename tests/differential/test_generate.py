"""examples/generate: text from a small decoder by the public C API, the same as ONNX Runtime gives."""
import os
import pathlib
import re
import subprocess

import numpy as np
import onnxruntime
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
HERE = ROOT / "examples" / "generate"
TOKENS = HERE / "tokens.txt"


@pytest.fixture(scope="module")
def artefact(tmp_path_factory):
    so = tmp_path_factory.mktemp("generate") / "austen.so"
    subprocess.run([TENON, "compile", HERE / "austen.onnx", "--state", "past_key_values.*=present.*", "-o", so], check=True, capture_output=True)
    return so


def generate(*words):
    return subprocess.run([BUILD / "generate", *map(str, words)], capture_output=True, timeout=300)


def pieces():
    text = [bytes([i]) for i in range(256)]
    for line in TOKENS.read_text().splitlines():
        left, right = map(int, line.split())
        text.append(text[left] + text[right])
    return text


def encoded(text):
    ids = list(text)
    for i, line in enumerate(TOKENS.read_text().splitlines()):
        left, right = map(int, line.split())
        out, k = [], 0
        while k < len(ids):
            both = ids[k:k + 2] == [left, right]
            out.append(256 + i if both else ids[k])
            k += 1 + both
        ids = out
    return ids


def test_the_text_is_what_onnx_runtime_says(artefact):
    prompt, count = b"It is a truth universally acknowledged, that", 64
    session = onnxruntime.InferenceSession(str(HERE / "austen.onnx"), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    cache = {i.name: np.zeros((1, i.shape[1], 0, i.shape[3]), np.float32) for i in session.get_inputs() if "past" in i.name}
    ids, said = np.array([encoded(prompt)]), []
    for _ in range(count):
        mask = np.ones((1, cache["past_key_values.0.key"].shape[2] + ids.shape[1]), np.int64)
        out = session.run(None, {"input_ids": ids, "attention_mask": mask} | cache)
        cache = {n.replace("present", "past_key_values"): x for n, x in zip(names, out) if n != "logits"}
        said.append(int(out[names.index("logits")][0, -1].argmax()))
        ids = np.array([[said[-1]]])
    done = generate(artefact, TOKENS, prompt.decode(), "--tokens", count, "--temperature", 0)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(prompt + b"".join(pieces()[t] for t in said) + b"\n\nprefill ")
    for line in (rb"prefill +\d+ tokens, \d+ tokens/s", rb"decode +64 tokens, \d+ tokens/s", rb"memory .* of what one core reads from memory"):
        assert re.search(line, done.stdout)


def test_it_is_short_and_another_seed_says_something_else(artefact):
    assert len((HERE / "generate.c").read_text().splitlines()) < 300
    one, again, other = (generate(artefact, TOKENS, "She was", "--tokens", 40, "--seed", seed).stdout.split(b"\n\nprefill")[0] for seed in (1, 1, 2))
    assert one == again != other


def test_what_does_not_fit(artefact, tmp_path):
    (tmp_path / "less.txt").write_text("".join(TOKENS.read_text().splitlines(True)[:100]))
    (tmp_path / "later.txt").write_text("300 5\n")
    (tmp_path / "words.txt").write_text("the of\n")
    for words, says in (
            ((artefact, tmp_path / "less.txt", "A"), b"has 356 tokens, the model scores 512: they do not belong together"),
            ((artefact, tmp_path / "later.txt", "A"), b"a token is made of one that is not there yet"),
            ((artefact, tmp_path / "words.txt", "A"), b"a line is not two numbers"),
            ((artefact, tmp_path / "none.txt", "A"), b"cannot open"),
            ((artefact, "-", "5 9999"), b"the index 9999 is outside of its axis, which has 512 elements"),
            ((artefact, "-", "5 x"), b"the prompt is to be numbers"),
            ((artefact, TOKENS, ""), b"the prompt is empty"),
            ((artefact, TOKENS), b"usage: generate")):
        done = generate(*words)
        assert done.returncode not in (0, -6, -11) and says in done.stderr, (words, done.stderr)
