"""A process that compiles and runs models: tool_conformance, through its public API, many models in one process."""
import os
import pathlib
import select
import signal
import subprocess

import ml_dtypes
import numpy as np

from targets import TARGET

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TOOL = BUILD / "tests" / "tool_conformance"
TIMEOUT = 120                            # seconds for one model
DIRTY = os.environ | {"MALLOC_PERTURB_": "171"}          # memory that nobody wrote holds no zeros
DTYPES = {"f32": "<f4", "f64": "<f8", "f16": "<f2", "i8": "i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "u8": "u1", "u16": "<u2",
          "u32": "<u4", "u64": "<u8", "bool": "?", "c64": "<c8", "c128": "<c16", "bf16": ml_dtypes.bfloat16,
          "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "f8e5m2": ml_dtypes.float8_e5m2,
          "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz, "f8e8m0": ml_dtypes.float8_e8m0fnu, "i4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "i2": ml_dtypes.int2,
          "u2": ml_dtypes.uint2, "f4e2m1": ml_dtypes.float4_e2m1fn, "f6e2m3": ml_dtypes.float6_e2m3fn,
          "f6e3m2": ml_dtypes.float6_e3m2fn}


class Crash(Exception):
    pass


class Worker:
    """Compiles and runs what it is asked to; a new process after a crash. how: quick, full (as users get it), or compile, which does not run."""

    def __init__(self, cache, target=TARGET, how="quick"):
        self.command, self.runs, self.process = [TOOL, cache, target, how], how != "compile", None

    def run(self, model, prefix, inputs):
        """The status as text, and the outputs or what went wrong. The model "=" is the one before."""
        status, *rest = self.ask([model, prefix, *inputs])
        return status, rest[0] if status != "0" else [read_output(*rest[k:k + 3]) for k in range(0, len(rest), 3)]

    def ask(self, fields):
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=DIRTY)
        try:
            self.process.stdin.write("\t".join(map(str, fields)) + "\n")
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], TIMEOUT)[0]:
                self.end()
                raise Crash(f"no end in {TIMEOUT} s")
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if answer.endswith("\n"):
            return answer.rstrip("\n").split("\t")
        self.process.wait()
        code, self.process = self.process.returncode, None
        raise Crash(f"crash: {signal.Signals(-code).name if code < 0 else f'exit code {code}'}")

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


def read_output(dtype, dims, path):
    shape = [int(d) for d in dims.split(",") if d]
    raw = pathlib.Path(path).read_bytes()
    if dtype == "str":                       # each with its zero behind it
        return np.array([s.decode() for s in raw.split(b"\0")[:-1]], dtype=object).reshape(shape)
    return np.frombuffer(raw, np.dtype(DTYPES[dtype])).reshape(shape)
