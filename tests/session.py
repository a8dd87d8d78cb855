"""A session of a compiled model, through the C API as a program has it: what stays between runs can be tested only so."""
import ctypes
import os
import pathlib

import numpy as np

BUILD = pathlib.Path(os.environ.get("TENON_BUILD", pathlib.Path(__file__).resolve().parents[1] / "build"))
TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i64": np.int64, "i32": np.int32, "bool": np.bool_, "u8": np.uint8}
NAMES = {np.dtype(v): k for k, v in TYPES.items()}
P, I64 = ctypes.c_void_p, ctypes.c_int64


class TnTensor(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("rank", ctypes.c_int32),
                ("dims", ctypes.POINTER(I64)), ("data", P), ("bytes", I64)]


class TnValueInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("rank", ctypes.c_int32),
                ("dims", P), ("dim_text", P), ("format", ctypes.c_char_p)]


class TnState(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("input", ctypes.c_char_p), ("output", ctypes.c_char_p), ("dtype", ctypes.c_char_p),
                ("rank", ctypes.c_int32), ("dim_text", P), ("axis", ctypes.c_int32), ("in_place", ctypes.c_int32)]


class TnSessionOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("threads", ctypes.c_int32), ("pool", P), ("state_capacity", I64)]


class Refused(Exception):
    pass


class Session:
    """run(inputs by name) gives outputs by name; NumPy in and out."""

    def __init__(self, path, threads=1, state_capacity=0):
        self.lib = lib = ctypes.CDLL(str(BUILD / "libtenon-run.so"))
        lib.tn_error.restype = ctypes.c_char_p
        lib.tn_session_state_length.restype = lib.tn_session_state_bytes.restype = I64
        for f in (lib.tn_error, lib.tn_session_state_length, lib.tn_session_state_bytes, lib.tn_session_state_reset):
            f.argtypes = [P]
        lib.tn_session_state_drop.argtypes = [P, I64]
        lib.tn_session_state_reserve.argtypes = [P, I64, P, ctypes.c_int32]
        lib.tn_run.argtypes = [P, P, ctypes.c_int32, P, ctypes.c_int32]
        lib.tn_model_input.argtypes = lib.tn_model_output.argtypes = lib.tn_model_state.argtypes = [P, ctypes.c_int32, P]
        self.ctx, self.model, self.session = P(), P(), P()
        assert lib.tn_context_new(None, ctypes.byref(self.ctx)) == 0
        self._say(lib.tn_load(self.ctx, str(path).encode(), ctypes.byref(self.model)))
        options = TnSessionOptions(ctypes.sizeof(TnSessionOptions), threads, None, state_capacity)
        self._say(lib.tn_session_new(self.ctx, self.model, ctypes.byref(options), ctypes.byref(self.session)))
        self.inputs = self._values(lib.tn_model_inputs, lib.tn_model_input)
        self.outputs = self._values(lib.tn_model_outputs, lib.tn_model_output)

    def _say(self, status):
        if status:
            raise Refused(self.lib.tn_error(self.ctx).decode())

    def _values(self, count, get):
        names = []
        for i in range(count(self.model)):
            v = TnValueInfo(size=ctypes.sizeof(TnValueInfo))
            self._say(get(self.model, i, ctypes.byref(v)))
            names.append(v.name.decode())
        return names

    @property
    def states(self):
        """(input, output, axis, in place) of each."""
        found = []
        for i in range(self.lib.tn_model_states(self.model)):
            s = TnState(size=ctypes.sizeof(TnState))
            self._say(self.lib.tn_model_state(self.model, i, ctypes.byref(s)))
            found.append((s.input.decode(), s.output.decode(), s.axis, bool(s.in_place)))
        return found

    def _tensors(self, inputs):
        given = (TnTensor * max(len(self.inputs), 1))()
        self.alive = []
        for i, name in enumerate(self.inputs):
            x = np.asarray(inputs[name], order="C")        # ascontiguousarray gives numbers a dimension
            dims = (I64 * max(x.ndim, 1))(*x.shape)
            self.alive += [x, dims]
            given[i] = TnTensor(ctypes.sizeof(TnTensor), name.encode(), NAMES[x.dtype].encode(), x.ndim, dims, x.ctypes.data, x.nbytes)
        return given

    def run(self, inputs, into={}):
        """into: arrays that outputs are written to, where the session's own memory is not to be."""
        given, out = self._tensors(inputs), (TnTensor * max(len(self.outputs), 1))()
        for o, name in zip(out, self.outputs):
            o.size = ctypes.sizeof(TnTensor)
            if name in into:
                o.data, o.bytes = into[name].ctypes.data, into[name].nbytes
        self._say(self.lib.tn_run(self.session, given, len(self.inputs), out, len(self.outputs)))
        made = {}
        for o in out[:len(self.outputs)]:
            shape = [o.dims[d] for d in range(o.rank)]
            raw = ctypes.string_at(o.data, o.bytes) if o.bytes else b""
            made[o.name.decode()] = np.frombuffer(raw, TYPES[o.dtype.decode()]).reshape(shape)
        return made

    def reserve(self, length, inputs):
        self._say(self.lib.tn_session_state_reserve(self.session, length, self._tensors(inputs), len(self.inputs)))

    def drop(self, rows):
        self._say(self.lib.tn_session_state_drop(self.session, rows))

    def reset(self):
        self._say(self.lib.tn_session_state_reset(self.session))

    @property
    def length(self):
        return self.lib.tn_session_state_length(self.session)

    def close(self):
        self.lib.tn_session_free(self.session)
        self.lib.tn_model_free(self.model)
        self.lib.tn_context_free(self.ctx)
