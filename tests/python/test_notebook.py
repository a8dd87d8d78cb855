"""The notebook of examples/digits in a real kernel: what a model looks like there, and the bar while it is compiled."""
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


def executed(folder, *more):
    for name in ("digits.onnx", "held_out.npz", "digits.ipynb"):
        shutil.copy(ROOT / "examples/digits" / name, folder)
    book = nbformat.read(folder / "digits.ipynb", as_version=4)
    book.cells += [nbformat.v4.new_code_cell(source) for source in more]
    client = Client(book, kernel_name="python3", resources={"metadata": {"path": str(folder)}}, timeout=120)
    client.seen = []
    asyncio.run(client.async_execute())
    return book, client.seen


def test_six_lines_and_a_result(tmp_path):
    book, seen = executed(tmp_path, SLOW)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert sum(len(cell.source.splitlines()) for cell in code[:2]) <= 6
    shown = code[0].outputs[-1].data
    assert '<div class="tenon-model">' in shown["text/html"] and "f32[batch, 1, 8, 8]" in shown["text/html"]
    assert "tenon.Model" in shown["text/plain"]
    assert "0.99" in code[1].outputs[-1].data["text/plain"]
    bars = [s for s in seen if "<progress" in s]
    assert bars and "kernels built" in bars[-1] and seen[-1] == ""        # drawn, and gone at the end
    assert os.path.isdir(tmp_path / "fresh")
