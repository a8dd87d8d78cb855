"""Random operators: Philox 4x32-10, written here anew; the same numbers in every run, others with another seed."""
import os
import pathlib
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
SHAPE = [3, 50]


def numbers(folder, *options, seed=None):
    node = helper.make_node("RandomUniform", [], ["y"], "drawn", shape=SHAPE, **({} if seed is None else {"seed": float(seed)}))
    graph = helper.make_graph([node], "random", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), folder / "m.onnx")
    subprocess.run([TENON, "compile", folder / "m.onnx", "-o", folder / "m.so", *options], check=True, capture_output=True, timeout=120)
    subprocess.run([TENON, "run", folder / "m.so", "--output-dir", folder], check=True, capture_output=True, timeout=120)
    return np.load(folder / "y.npy")


def test_seeds(tmp_path):
    plain = numbers(tmp_path)
    assert plain.shape == tuple(SHAPE) and (plain >= 0).all() and (plain < 1).all() and abs(plain.mean() - 0.5) < 0.1
    assert np.array_equal(plain, numbers(tmp_path)), "the same in every run"
    one, two = numbers(tmp_path, "--seed", "1"), numbers(tmp_path, "--seed", "2")
    assert np.array_equal(one, numbers(tmp_path, "--seed", "1"))
    assert len({x.tobytes() for x in (plain, one, two)}) == 3, "each seed has numbers of its own"
    own = numbers(tmp_path, seed=7)
    assert np.array_equal(own, numbers(tmp_path, "--seed", "1", seed=7)), "a node's own seed stands"


def philox(key, counter):
    """The four words of a block, as Salmon et al. (SC 2011) define it."""
    k, c, word = list(key), list(counter), 0xFFFFFFFF
    for _ in range(10):
        low, high = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [high >> 32 ^ c[1] ^ k[0], high & word, low >> 32 ^ c[3] ^ k[1], low & word]
        k = [(k[0] + 0x9E3779B9) & word, (k[1] + 0xBB67AE85) & word]
    return c


def test_generator(tmp_path):
    """Of a node with a seed: the key is the seed's bits, the counter the block; 24 bits are a number."""
    assert philox([0, 0], [0, 0, 0, 0]) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], "the authors' test vector"
    got = numbers(tmp_path, seed=7)
    seed = int(np.float32(7).view(np.uint32))
    words = [w for block in range(-(-got.size // 4)) for w in philox([seed, 0], [block, 0, 0, 0])][:got.size]
    assert np.array_equal(got.ravel(), (np.array(words, np.uint64) >> np.uint64(8)).astype("f4") * np.float32(2 ** -24))
