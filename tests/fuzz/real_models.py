"""Seeds from real models: every model of onnx's own tests that is small, and short runs of nodes cut out of those in
bench/models, their weights made inputs. Not kept in the repository: `./dev fuzz onnx` makes them once.

    real_models.py FOLDER
"""
import sys
import warnings
from pathlib import Path

import onnx
from onnx import helper
from onnx.backend.test.loader import load_model_tests

ROOT = Path(__file__).resolve().parents[2]
LARGEST, NODES, STEP = 6000, 12, 30          # [bytes] of a seed; nodes of a cut, and from one cut to the next


def tests_of_onnx():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")      # the generators divide by zero on purpose
        for test in load_model_tests(kind="node"):
            yield test.name, test.model


def cuts(path):
    """Nodes in a row as a model: what they read from outside are inputs, of the type that shapes are inferred to be."""
    model = onnx.load(path, load_external_data=False)
    for t in model.graph.initializer:
        info = helper.make_tensor_value_info(t.name, t.data_type, list(t.dims))
        if t.name not in {i.name for i in model.graph.input}:
            model.graph.input.append(info)
    small = {t.name: t for t in model.graph.initializer if t.ByteSize() < 300 and len(t.raw_data) > 0}
    known = {v.name: v for v in [*model.graph.input, *onnx.shape_inference.infer_shapes(model).graph.value_info]}
    for at in range(0, len(model.graph.node), STEP):
        nodes = model.graph.node[at:at + NODES]
        made = {name for n in nodes for name in n.output}
        read = dict.fromkeys(name for n in nodes for name in n.input if name and name not in made)
        if not all(name in known or name in small for name in read):
            continue
        graph = helper.make_graph(nodes, "cut", [known[n] for n in read if n not in small],
                                  [helper.make_empty_tensor_value_info(nodes[-1].output[0])], [small[n] for n in read if n in small])
        yield f"{path.name.split('.')[0]}-{at}", helper.make_model(graph, opset_imports=model.opset_import, ir_version=8)


def main(folder):
    folder.mkdir(parents=True)
    count = 0
    for source in [tests_of_onnx(), *map(cuts, sorted((ROOT / "bench" / "models").glob("*.onnx")))]:
        for name, model in source:
            data = model.SerializeToString()
            if len(data) <= LARGEST:
                (folder / f"{name}.onnx").write_bytes(data)
                count += 1
    print(f"{count} seeds in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
