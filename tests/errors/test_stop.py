"""Interrupted, tenon leaves nothing behind; killed, it leaves what the next command removes."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from test_cli import OK, TENON, Tenon, model, small_model, tenon    # noqa: F401  fixtures

SLOW_COMPILER = """#!/bin/sh
case " $* " in
*" -dM "*) exec cc "$@" ;;
esac
echo temporary > "${TMPDIR:-/tmp}/ccXXXX.s"
sleep 60 &
echo begun > "$BEGUN"
wait
"""


def listen():
    """Signals that a shell ignores for what it runs beside itself, or nohup for what outlives it, are heard."""
    for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(which, signal.SIG_DFL)


@pytest.fixture
def slow(tenon):
    """A tenon whose C compiler never ends; `begin` starts it and waits until the compiler runs."""
    compiler = tenon.folder / "slow-cc"
    compiler.write_text(SLOW_COMPILER)
    compiler.chmod(0o755)
    begun = tenon.folder / "begun"
    env = tenon.env | {"BEGUN": str(begun), "CC": str(compiler)}
    sessions = []

    def begin(*args, **more):
        child = subprocess.Popen([TENON, *map(str, args)], cwd=tenon.folder / "work", env=env | more, stderr=subprocess.PIPE, text=True,
                                 preexec_fn=listen, start_new_session=True)
        sessions.append(child.pid)
        until = time.time() + 60
        while not begun.exists():
            assert child.poll() is None and time.time() < until, child.stderr.read()
            time.sleep(0.01)
        return child

    begin.live = lambda: [int(p.name) for p in pathlib.Path("/proc").glob("[0-9]*") if session_of(p) in sessions]
    return begin


def session_of(process):
    """Of a process that lives; compilers that are about to be are in it already."""
    try:
        state, _, _, session = (process / "stat").read_text().rsplit(")", 1)[1].split()[:4]
    except OSError:
        return None
    return None if state in "ZX" else int(session)


def left(folder):
    """Temporary files of tenon and of its compiler (ccAbCdEf.s); entries of a cache are called by their hashes, of 2 and 30 digits, which may begin with cc."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*")
                  if p.name.startswith((".tenon-", "tenon-", "build-")) or re.fullmatch(r"cc\w{4,6}(\..*)?", p.name))


def gone(slow, kill=False):
    until = time.time() + 20
    while slow.live() and time.time() < until:
        for pid in slow.live() if kill else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return not slow.live()


@pytest.mark.parametrize("verb", ["compile", "run"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_cleanly(tenon, model, slow, sent, verb):
    child = slow(verb, model, *(["-o", "m.so"] if verb == "compile" else []))
    start = time.time()
    child.send_signal(sent)
    assert child.wait(10) == -sent
    assert time.time() - start < 20               # the compiler sleeps for 60
    assert left(tenon.folder / "work") == left(tenon.folder / "tmp") == left(tenon.folder / "cache") == []
    assert list((tenon.folder / "work").iterdir()) == []
    assert gone(slow)


@pytest.mark.parametrize("verb", ["compile", "run"])
@pytest.mark.parametrize("cached", [True, False])
def test_the_next_command_removes_what_a_killed_one_left(tenon, model, slow, verb, cached):
    more = {} if cached else {"TENON_CACHE_DIR": ""}
    args = [verb, model, *(["-o", "m.so"] if verb == "compile" else [])]
    child = slow(*args, **more)
    child.kill()
    child.wait()
    assert gone(slow, kill=True)
    assert left(tenon.folder / "work") + left(tenon.folder / "tmp") + left(tenon.folder / "cache") != []
    assert tenon(*args, env=more).returncode == OK
    assert left(tenon.folder / "work") == left(tenon.folder / "tmp") == left(tenon.folder / "cache") == []


def test_what_another_command_uses_is_left_alone(tenon, model, slow):
    child = slow("compile", model, "-o", "m.so")
    in_use = left(tenon.folder / "work"), left(tenon.folder / "cache")
    assert in_use[0] and in_use[1]
    other = small_model(tenon.folder / "other.onnx", "Neg")
    assert tenon("compile", other, "-o", "other.so").returncode == OK
    assert (left(tenon.folder / "work"), left(tenon.folder / "cache")) == in_use
    child.terminate()
    child.wait()
    assert gone(slow)
