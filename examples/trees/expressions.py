"""Arithmetic expressions as trees: made at random, parsed, evaluated and drawn.

A tree is a dict of arrays. Node i holds word[i], an index into WORDS, and has the children left[i]
and right[i], both -1 at a leaf. Children have larger indices than their parents; the root is 0.
"""
import ast

import numpy as np

WORDS = "0123456789+×"
TRAINING = (1, 12)          # numbers in an expression, least and most
HELD_OUT = (13, 32)         # disjoint from TRAINING: no held-out tree has been trained on


def random_tree(rng: np.random.Generator, numbers: int) -> dict[str, np.ndarray]:
    size = 2 * numbers - 1
    word, left, right = rng.integers(10, 12, size), np.full(size, -1), np.full(size, -1)
    pending, made = [(0, numbers)], 1
    while pending:
        node, count = pending.pop()
        if count == 1:
            word[node] = rng.integers(10)
            continue
        cut = int(rng.integers(1, count))
        left[node], right[node] = made, made + 1
        pending += [(made, cut), (made + 1, count - cut)]
        made += 2
    return {"word": word, "left": left, "right": right}


def random_trees(seed: int, count: int, numbers: tuple[int, int]) -> list[dict]:
    rng = np.random.default_rng(seed)
    return [random_tree(rng, int(n)) for n in rng.integers(numbers[0], numbers[1] + 1, count)]


def parse(text: str) -> dict[str, np.ndarray]:
    """The tree of an expression as people write it: digits, +, × or *, parentheses."""
    word, left, right = [], [], []

    def add(e: ast.expr) -> int:
        node = len(word)
        for column in (word, left, right):
            column.append(-1)
        match e:
            case ast.Constant(value=int(digit)) if type(digit) is int and digit < 10:
                word[node] = digit
            case ast.BinOp(left=a, op=ast.Add() | ast.Mult(), right=b):
                word[node] = WORDS.index("+" if isinstance(e.op, ast.Add) else "×")
                left[node], right[node] = add(a), add(b)
            case _:
                raise SyntaxError
        return node

    try:
        add(ast.parse(text.replace("×", "*").strip(), mode="eval").body)
    except SyntaxError:
        raise ValueError(f"{text}: digits, +, × and parentheses only") from None
    lists = {"word": word, "left": left, "right": right}
    return {k: np.array(v, np.int64) for k, v in lists.items()}


def rows(t: dict) -> dict[str, np.ndarray]:
    """The inputs of trees.tn: rows of a table where children have smaller indices."""
    last = len(t["word"]) - 1
    inner = t["left"][::-1] >= 0
    sides = {side: np.where(inner, last - t[side][::-1], 0) for side in ("left", "right")}
    table = {"tag": inner.astype(np.int64), "word": t["word"][::-1].copy()} | sides
    return {"root": np.array(last)} | {f"Tree.{k}": v for k, v in table.items()}


def values(t: dict) -> list[int]:
    """What each node comes to. Its last digit is the class that the model is asked for."""
    value = t["word"].tolist()
    for node in reversed(range(len(value))):
        a, b = t["left"][node], t["right"][node]
        if a >= 0:
            plus = WORDS[value[node]] == "+"
            value[node] = value[a] + value[b] if plus else value[a] * value[b]
    return value


def heights(t: dict) -> list[int]:
    height = [0] * len(t["word"])
    for node in reversed(range(len(height))):
        if t["left"][node] >= 0:
            height[node] = 1 + max(height[t["left"][node]], height[t["right"][node]])
    return height


def draw(t: dict) -> list[str]:
    """Lines of equal length. Each node has a column of its own, in the order of infix notation."""
    rows: list[list[str]] = []
    width = 2 * len(t["word"]) - 1

    def place(node: int, depth: int, column: int) -> tuple[int, int]:
        """Draw a subtree from a column on: the column of its root, and the first one free."""
        while len(rows) <= 2 * depth:
            rows.append([" "] * width)
        a = int(t["left"][node])
        if a < 0:
            rows[2 * depth][column] = WORDS[t["word"][node]]
            return column, column + 2
        first, middle = place(a, depth + 1, column)
        last, end = place(int(t["right"][node]), depth + 1, middle + 2)
        rows[2 * depth][middle] = WORDS[t["word"][node]]
        for x in range(first, last + 1):
            rows[2 * depth + 1][x] = "─"
        for x, corner in ((first, "┌"), (middle, "┴"), (last, "┐")):
            rows[2 * depth + 1][x] = corner
        return middle, end

    place(0, 0, 0)
    return ["".join(row) for row in rows]
