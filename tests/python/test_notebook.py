"""The notebooks of examples in a real kernel: what a model looks like there, the bar while it is
compiled, and pictures of masks."""
import asyncio
import os
import shutil

import pytest
from conftest import ROOT

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

SLOW = """
import tenon._notebook, time
tenon._notebook.QUIET_SECONDS = 0
tenon.compile("digits.onnx", cache_dir="fresh", jobs=1)
"""


class Client(nbclient.NotebookClient):
    """Keeps every view of the bar; a notebook shows the last alone."""

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] in ("display_data", "update_display_data"):
            self.seen.append(msg["content"]["data"].get("text/html", ""))
        return super().process_message(msg, cell, cell_index)


def executed(folder, notebook, *more, beside=()):
    """A notebook of examples, and cells behind its own, in a folder with files from beside it."""
    path = ROOT / "examples" / notebook
    for name in beside:
        shutil.copy(path.parent / name, folder)
    book = nbformat.read(path, as_version=4)
    book.cells += [nbformat.v4.new_code_cell(source) for source in more]
    client = Client(book, kernel_name="python3", resources={"metadata": {"path": str(folder)}}, timeout=120)
    client.seen = []
    asyncio.run(client.async_execute())
    return book, client.seen


def test_six_lines_and_a_result(tmp_path):
    files = ("digits.onnx", "held_out.npz")
    book, seen = executed(tmp_path, "digits/digits.ipynb", SLOW, beside=files)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert sum(len(cell.source.splitlines()) for cell in code[:2]) <= 6
    shown = code[0].outputs[-1].data
    assert '<div class="tenon-model">' in shown["text/html"] and "f32[batch, 1, 8, 8]" in shown["text/html"]
    assert "tenon.Model" in shown["text/plain"]
    assert "0.99" in code[1].outputs[-1].data["text/plain"]
    bars = [s for s in seen if "<progress" in s]
    assert bars and "kernels built" in bars[-1] and seen[-1] == ""        # drawn, and gone at the end
    assert os.path.isdir(tmp_path / "fresh")


def pictures(book):
    outputs = [o for cell in book.cells if cell.cell_type == "code" for o in cell.outputs]
    return sum("image/png" in o.get("data", {}) for o in outputs)


def test_masks_are_drawn_and_timed(tmp_path):
    pytest.importorskip("matplotlib")
    stored = nbformat.read(ROOT / "examples/causal/masks.ipynb", as_version=4)
    assert pictures(stored) == 2
    book, _ = executed(tmp_path, "causal/masks.ipynb")
    assert pictures(book) == 2
    code = {cell.id: cell for cell in book.cells if cell.cell_type == "code"}
    said = {name: "".join(o.get("text", "") for o in cell.outputs) for name, cell in code.items()}
    assert "ms with all keys" in said["time"] and "ms with padding" in said["ragged"]
    assert "Ragged(batch 8, rows 684" in code["texts"].outputs[0].data["text/plain"]
