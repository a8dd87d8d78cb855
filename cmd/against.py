"""What ONNX Runtime computes, for `tenon verify --against onnxruntime`.

run MODEL FOLDER    inputs are FOLDER/input_K.npy; what comes out goes to FOLDER/output_K.npy
mark MODEL FOLDER   FOLDER/marked.onnx becomes MODEL with every value between as an output too, in
the order of the
                    nodes, and FOLDER/nodes the node that makes each
"""

import os
import sys


def missing(error):
    sys.exit(
        f"{error}; for {sys.executable}: pip install onnx onnxruntime numpy, or name another "
        "Python with --python"
    )


def parts(np, value):
    """A value as Tenon gives it: of maps a table and its columns' labels, of a sequence all
    elements and the items' shapes."""
    if isinstance(value, np.ndarray) or value is None:
        return [np.asarray(value)]
    if value and isinstance(value[0], dict):
        return [
            np.array([list(one.values()) for one in value], np.float32),
            np.array(list(value[0])),
        ]
    return [
        np.concatenate([np.ravel(item) for item in value]) if value else np.zeros(0),
        np.array([np.shape(item) for item in value], np.int64),
    ]


def run(path, folder):
    import numpy as np
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = {
        value.name: np.load(f"{folder}/input_{k}.npy")
        for k, value in enumerate(session.get_inputs())
    }
    for k, array in enumerate(
        part for value in session.run(None, given) for part in parts(np, value)
    ):
        np.save(f"{folder}/output_{k}.npy", array)


def mark(path, folder):
    import onnx
    from onnx import helper
    bare = onnx.load(path, load_external_data=False)
    kinds = {v.name: v.type for v in onnx.shape_inference.infer_shapes(bare).graph.value_info}
    model = onnx.load(path)
    outputs = {o.name: o for o in model.graph.output}
    made = [(name, node) for node in model.graph.node for name in node.output if name]
    order = []
    for name, node in made:
        if name not in outputs and name in kinds and kinds[name].HasField("tensor_type"):
            outputs[name] = helper.make_value_info(
                name, helper.make_tensor_type_proto(kinds[name].tensor_type.elem_type, None)
            )
        if name in outputs:
            order.append((outputs.pop(name), f'{node.op_type} "{node.name}"'))
    order += [(o, "") for o in outputs.values()]         # inputs and constants that are outputs
    del model.graph.output[:]
    model.graph.output.extend(o for o, _ in order)
    large = model.ByteSize() > 1 << 30
    onnx.save(model, f"{folder}/marked.onnx", save_as_external_data=large, location="marked.data")
    with open(f"{folder}/nodes", "w") as f:
        f.writelines(by.replace("\n", " ") + "\n" for _, by in order)


os.environ["TMPDIR"] = sys.argv[3]           # what the runtime leaves behind goes with the folder
try:
    {"run": run, "mark": mark}[sys.argv[1]](*sys.argv[2:])
except ImportError as e:
    missing(e)
except Exception as e:
    sys.exit(f"{type(e).__name__}: {e}")
