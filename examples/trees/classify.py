#!/usr/bin/env python3
"""The last digits of expressions, by a TreeLSTM that Tenon compiled to run many trees at once.

    python3 examples/trees/classify.py                          1,000 held-out expressions
    python3 examples/trees/classify.py "(3 + 4) × (2 + 9 × 8)"  your own

This needs NumPy and Tenon's Python package: pip install numpy ./python
"""
import pathlib
import statistics
import sys
import time

import numpy as np
import tenon
import train
from expressions import HELD_OUT, draw, heights, parse, random_trees, rows, values

COUNT, SEED, SHOWN, COLUMNS = 1000, 2024, 3, 80
HERE = pathlib.Path(__file__).parent


def show(t: dict, answer: dict) -> None:
    """A tree, what it comes to, and the digit that the model gives, with ! where it is wrong."""
    value, digit = values(t)[0], answer["probability"].argmax()
    print("".join(f"    {line.rstrip()}\n" for line in draw(t)), end="")
    print(f"    = {value:,}   predicted {digit} ({answer['probability'].max():.0%})"
          f"{'' if digit == value % 10 else '!'}\n")


def run(session: tenon.Session, trees: list[dict], group: int) -> list[dict]:
    return [answer for at in range(0, len(trees), group)
            for answer in session.run_many([rows(t) for t in trees[at : at + group]])]


def batches(model: tenon.Model, trees: list[dict], group: int) -> int:
    """The number of times that blocks run."""
    session = model.session(threads=1)
    run(session, trees, group)
    return sum(b.ran for b in session.blocks if b.nodes and not b.host)


def milliseconds(work) -> float:
    def once():
        start = time.perf_counter()
        work()
        return 1000 * (time.perf_counter() - start)

    return statistics.median(once() for _ in range(7))


def main() -> None:
    model = tenon.compile(HERE / "trees.tn", many=True)
    session = model.session(threads=1)
    print()
    if len(sys.argv) > 1:
        trees = [parse(text) for text in sys.argv[1:]]
        for t, answer in zip(trees, run(session, trees, len(trees))):
            show(t, answer)
        return

    trees = random_trees(SEED, COUNT, HELD_OUT)
    answers = run(session, trees, COUNT)
    wanted = np.array([values(t)[0] % 10 for t in trees])
    right = wanted == [a["probability"].argmax() for a in answers]
    order = sorted(range(COUNT), key=lambda i: len(trees[i]["word"]))
    fits = [i for i in order if 2 * len(trees[i]["word"]) + 3 <= COLUMNS]
    for i in [i for i in fits if right[i] and wanted[i] and max(heights(trees[i])) <= 5][:SHOWN]:
        show(trees[i], answers[i])
    if not right.all():
        print("    and the smallest that is wrong:\n")
        i = next(i for i in order if not right[i])
        show(trees[i], answers[i])

    most = np.bincount(wanted)
    print(f"accuracy   {right.mean():.1%}: {right.sum()} of {COUNT} expressions of {HELD_OUT[0]} to"
          f" {HELD_OUT[1]} numbers ({most.argmax()} for all: {most.max() / COUNT:.1%})")
    print(f"nodes      {sum(len(t['word']) for t in trees):,}; the highest tree has height"
          f" {max(max(heights(t)) for t in trees)}")
    alone = [session.run(rows(t))["probability"] for t in trees]
    same = sum(np.array_equal(a["probability"], b) for a, b in zip(answers, alone))
    print(f"same bits  {same} of {COUNT}, all together and each alone\n")
    print("                    batches       time")
    for group in (1, 25, COUNT):
        print(f"{group:,} at a time".ljust(18), f"{batches(model, trees, group):8,}"
              f"{milliseconds(lambda: run(session, trees, group)):8.1f} ms")
    forest, weights = train.Forest(train.labelled(trees)), train.read()
    by_hand = milliseconds(lambda: train.forward(weights, forest))
    print(f"NumPy, levels by hand      {by_hand:8.1f} ms")


if __name__ == "__main__":
    try:
        main()
    except ValueError as e:
        sys.exit(f"classify.py: {e}")
