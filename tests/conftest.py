"""Where tests find what they share (worker.py), and what the command is that they call."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from targets import stand_in  # noqa: E402

stand_in()


def pytest_addoption(parser):
    parser.addoption("--every", type=int, default=1, metavar="N", help="run one test in N of each file, and one at least; all where TENON_ALL is set")


def pytest_collection_modifyitems(config, items):
    seen, chosen = {}, []
    every = 1 if os.environ.get("TENON_ALL") else config.getoption("--every")
    for item in items:
        k = seen[item.path] = seen.get(item.path, -1) + 1
        if k % every == 0:
            chosen.append(item)
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen
