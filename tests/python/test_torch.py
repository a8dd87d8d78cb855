"""tenon.torch, where PyTorch is installed."""
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
import tenon  # noqa: E402
import tenon.torch  # noqa: E402


def small():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()


def test_it_is_registered():
    assert "tenon" in torch._dynamo.list_backends()


def test_a_module_is_compiled():
    torch._dynamo.reset()
    module, x = small(), torch.randn(3, 8)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", tenon.Note)           # no part stays with PyTorch
        got = torch.compile(module, backend="tenon")(x)
        torch.testing.assert_close(got, module(x), rtol=1e-4, atol=1e-5)


def test_a_module_is_a_cell():
    module = small()
    inner = tenon.cell(module, (torch.zeros(1, 8),))

    @tenon.function
    def twice(x: "f32[1, 8]") -> "f32[1, 4]":
        return inner(x) + inner(x)

    x = torch.randn(1, 8)
    with torch.no_grad():
        got = torch.from_numpy(tenon.compile(twice)(x.numpy()))
        torch.testing.assert_close(got, 2 * module(x), rtol=1e-4, atol=1e-5)


def test_a_graph_break_falls_back():
    torch._dynamo.reset()
    module, x = small(), torch.randn(3, 8)
    seen = []

    def program(x):
        y = module(x)
        seen.append(float(y.sum()))          # a graph break
        return torch.relu(y) + seen[-1] * 0

    with torch.no_grad():
        torch.testing.assert_close(torch.compile(program, backend="tenon")(x), torch.relu(module(x)), rtol=1e-4, atol=1e-5)
    assert seen


def test_gradients_stay_with_pytorch():
    torch._dynamo.reset()
    module, x = small(), torch.randn(3, 8)
    torch.compile(module, backend="tenon")(x).sum().backward()
    assert module[0].weight.grad is not None


def convolutions():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Conv2d(16, 8, 3, stride=2),
                               torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 4)).eval()


@pytest.fixture
def compiled(monkeypatch):
    """The models that were compiled, in order; parts that stay with PyTorch are errors."""
    torch._dynamo.reset()
    models, compile = [], tenon.torch.compile
    monkeypatch.setattr(tenon.torch, "compile", lambda *a, **k: models.append(compile(*a, **k)) or models[-1])
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", tenon.Note)
        yield models


def same(got, want):
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_other_sizes_are_compiled_when_they_come(compiled, monkeypatch):
    module = small()
    monkeypatch.setattr(tenon.torch.Compiled, "MOST", 2)
    fast = torch.compile(module, backend="tenon")
    for n in (2, 3, 5, 3, 7):                     # one is traced with its sizes, then those of an open size: 3, 5; 7 is one too many
        x = torch.randn(n, 8)
        same(fast(x), module(x))
    assert [m.inputs[0].shape[0] for m in compiled] == [2, 3, 5]
    assert len(compiled[0].inputs) == 1           # the weights are constants


def test_convolutions(compiled):
    module, x = convolutions(), torch.randn(2, 3, 33, 31)
    same(torch.compile(module, backend="tenon")(x), module(x))
    assert len(compiled) == 1


def test_both_sides_of_a_break_are_compiled(compiled):
    first, second, seen = convolutions(), torch.nn.Linear(4, 4).eval(), []

    def program(x):
        y = first(x)
        seen.append(float(y.sum()))
        return second(y)

    x = torch.randn(2, 3, 20, 20)
    same(torch.compile(program, backend="tenon")(x), second(first(x)))
    assert len(compiled) == 2 and seen


def test_weights_that_change_are_noticed(compiled):
    module, x = small(), torch.randn(3, 8)
    fast = torch.compile(module, backend="tenon")
    same(fast(x), module(x))
    module[0].weight.mul_(2)
    same(fast(x), module(x))
    module.load_state_dict(small().state_dict())
    same(fast(x), module(x))
    assert len(compiled) == 3


@tenon.data
class Leaf:
    word: int


@tenon.data
class Node:
    left: "Tree"
    right: "Tree"


Tree = Leaf | Node


class TreeCell(torch.nn.Module):
    """The inner node of a TreeLSTM: of two children, each h and c."""

    def __init__(self, n):
        super().__init__()
        self.gates = torch.nn.Linear(2 * n, 3 * n)
        self.keep = torch.nn.Linear(n, n)

    def forward(self, left, left_c, right, right_c):
        i, o, u = self.gates(torch.cat([left, right], 1)).chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u)
        for h, kept in ((left, left_c), (right, right_c)):
            c = c + torch.sigmoid(self.keep(h)) * kept
        return torch.sigmoid(o) * torch.tanh(c), c


class Embedding(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.words, self.gates = torch.nn.Embedding(50, n), torch.nn.Linear(n, 3 * n)

    def forward(self, word):
        i, o, u = self.gates(self.words(word)).chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c


def random_tree(rng, leaves):
    if leaves == 1:
        return Leaf(int(rng.integers(50)))
    k = int(rng.integers(1, leaves))
    return Node(random_tree(rng, k), random_tree(rng, leaves - k))


def test_modules_are_the_cells_of_a_tree_lstm():
    n = 16
    state, embedding, cell = torch.zeros(1, n), Embedding(n).eval(), TreeCell(n).eval()
    leaf = tenon.cell(embedding, (torch.zeros(1, dtype=torch.int64),))
    inner = tenon.cell(cell, (state,) * 4)
    one = np.array([1])

    @tenon.function
    def encode(t: Tree) -> tuple["f32[1, 16]", "f32[1, 16]"]:
        match t:
            case Leaf(word):
                h, c = leaf(tenon.ops.reshape(word, one))
            case Node(left, right):
                a, a_c = encode(left)
                b, b_c = encode(right)
                h, c = inner(a, a_c, b, b_c)
        return h, c

    def expected(t):
        if isinstance(t, Leaf):
            return embedding(torch.tensor([t.word]))
        return cell(*expected(t.left), *expected(t.right))

    rng = np.random.default_rng(5)
    trees = [random_tree(rng, leaves) for leaves in (1, 2, 9, 30)]
    session = tenon.compile(encode, many=True).session()
    with torch.no_grad():
        for t, made in zip(trees, session.run_many([{"t": t} for t in trees])):
            assert not isinstance(made, Exception), made
            for got, want in zip(made.values(), expected(t), strict=True):
                torch.testing.assert_close(torch.from_numpy(got), want, rtol=1e-4, atol=1e-5)
    assert 0 < sum(b.ran for b in session.blocks if not b.host) < 60


def test_a_module_takes_its_example():
    with pytest.raises(tenon.UsageError, match="with example inputs"):
        tenon.cell(small())
