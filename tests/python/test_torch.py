"""tenon.torch, where PyTorch is installed."""
import warnings

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
