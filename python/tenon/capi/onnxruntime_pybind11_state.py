"""ONNX Runtime's exception classes as Tenon's: ``except Fail`` catches all of them."""
from .._native import Error as EPFail
from .._native import Error as EngineError
from .._native import Error as Fail
from .._native import Error as RuntimeException
from .._native import ModelError as InvalidGraph
from .._native import ModelError as InvalidProtobuf
from .._native import UnsupportedError as NotImplemented
from .._native import UsageError as InvalidArgument
from .._native import UsageError as NoModel
from .._native import UsageError as NoSuchFile

__all__ = ["EPFail", "EngineError", "Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf",
           "NoModel", "NoSuchFile", "NotImplemented", "RuntimeException"]
