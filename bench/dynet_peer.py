#!/usr/bin/env python3
"""DyNet on the TreeLSTM of bench/cells, with its own automatic batching or without.

    dynet_peer.py HIDDEN BATCHES ROUNDS SECONDS FLAG FOLDER     prints seconds a node, as JSON

FLAG: 0 runs node by node, 1 and 2 are --dynet-autobatch's agenda and depths. What is timed is what
a user of its Python package has to do for each batch: write down the graph, and run it.
"""
import json
import pathlib
import sys
import time

import cells
import numpy as np


def encode(dy, w: dict, words, r: dict, at: int):
    """h and c of a node."""
    if r["left"][at] < 0:
        e = dy.lookup(words, int(r["word"][at]))
        i, o, u = (dy.affine_transform([w[f"leaf {k} b"], w[f"leaf {k}"], e]) for k in "iou")
        c = dy.cmult(dy.logistic(i), dy.tanh(u))
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c
    a, b = (encode(dy, w, words, r, int(r[side][at])) for side in ("left", "right"))
    e = dy.concatenate([a[0], b[0]])
    i, o, u = (dy.affine_transform([w[f"{k}0 b"], w[f"{k}0"], e]) for k in "iou")
    f = [dy.logistic(dy.affine_transform([w["f0 b"], w[f"f{k}0"], x[0]]))
         for k, x in enumerate((a, b))]
    c = dy.cmult(dy.logistic(i), dy.tanh(u)) + dy.cmult(f[0], a[1]) + dy.cmult(f[1], b[1])
    return dy.cmult(dy.logistic(o), dy.tanh(c)), c


def main() -> None:
    hidden, sizes, rounds, seconds, flag, folder = sys.argv[1:]
    sys.argv = [sys.argv[0], "--dynet-mem", "2000", "--dynet-autobatch", flag]
    import dynet as dy

    model = cells.TreeLSTM(int(hidden))
    model.write(pathlib.Path(folder) / f"dynet{flag}.tn")            # draws its weights
    kept = dy.ParameterCollection()
    words = kept.lookup_parameters_from_numpy(model.w["words"])
    w = {k: kept.parameters_from_numpy(np.ascontiguousarray(a.T)) for k, a in model.w.items()
         if k != "words"}
    rows, rng = [], np.random.default_rng(11)
    for b in map(int, sizes.split(",")):
        requests = [model.request(rng) for _ in range(b)]
        nodes = cells.counts([model.work(r) for r in requests]).nodes

        def run():
            dy.renew_cg()
            made = [dy.log_softmax(dy.affine_transform(
                [w["out b"], w["out"], encode(dy, w, words, r, 0)[0]])) for r in requests]
            dy.forward(made)
            return made

        for got, r in list(zip(run(), requests))[:6]:
            off = abs(got.npvalue() - model.expected(r)).max()
            if not off <= 1e-4:
                raise SystemExit(f"DyNet is {off:.1e} off NumPy")
        least, end = float("inf"), time.perf_counter() + int(rounds) * float(seconds)
        while time.perf_counter() < end or least == float("inf"):
            start = time.perf_counter()
            run()
            least = min(least, time.perf_counter() - start)
        rows.append({"batch": b, "nodes": nodes, "time": least / nodes})
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
