"""For a person's eye: a model as a table, and a bar while something takes its time."""
from __future__ import annotations

import html
import sys
import time
from typing import Any

QUIET_SECONDS = 1.0


def model_html(model: Any) -> str:
    """Inputs, outputs and kernels of a model."""
    def rows(title: str, values: Any) -> str:
        left = ' style="text-align: left"'
        return "".join(
            f"<tr><th{left}>{title if i == 0 else ''}</th>"
            f"<td{left}><code>{html.escape(v.name)}</code></td>"
            f"<td{left}><code>{html.escape(str(v.dtype))}"
            f"[{html.escape(', '.join(map(str, v.shape)))}]</code></td></tr>"
            for i, v in enumerate(values)
        )
    kernels = "".join(f"<li><code>{html.escape(k)}</code></li>" for k in model.kernels)
    return (
        f'<div class="tenon-model"><b>tenon.Model</b> {html.escape(model.summary)}'
        f'<table>{rows("inputs", model.inputs)}{rows("outputs", model.outputs)}</table>'
        f'<details><summary>{len(model.kernels)} '
        f'kernel{"s" if len(model.kernels) != 1 else ""}</summary>'
        f'<ol>{kernels}</ol></details></div>'
    )


class TerminalBar:
    """One line on standard error, shown after a second."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.shown = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.start < QUIET_SECONDS or now - self.shown < 0.1:
            return
        self.shown = now
        full = 30 * done // max(total, 1)
        sys.stderr.write(f"\r\x1b[K{what} [{'#' * full}{'.' * (30 - full)}] {done}/{total}")
        sys.stderr.flush()

    def close(self) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class NotebookBar:
    """A <progress> element, updated in place and removed at the end."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.shown = 0.0
        self.handle: Any = None

    def __call__(self, what: str, done: int, total: int) -> None:
        from IPython.display import HTML, display
        now = time.monotonic()
        if now - self.start < QUIET_SECONDS or now - self.shown < 0.1:
            return
        self.shown = now
        view = HTML(
            f'<progress value="{done}" max="{total}"></progress> {html.escape(what)}: {done} of '
            f'{total}'
        )
        if self.handle is None:
            self.handle = display(view, display_id=True)
        else:
            self.handle.update(view)

    def close(self) -> None:
        if self.handle is not None:
            from IPython.display import HTML
            self.handle.update(HTML(""))


def in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def bar_for(wish: bool | None) -> Any:
    """The bar that fits where this runs; None for none."""
    if wish is False:
        return None
    if in_notebook():
        return NotebookBar()
    return TerminalBar() if wish or sys.stderr.isatty() else None
