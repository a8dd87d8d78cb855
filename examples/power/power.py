"""Makes power.onnx: the largest eigenvalue of a symmetric matrix, by multiplying until nothing changes.

A Loop with a matrix it only reads, a vector it carries, a length it stacks for each turn, and a condition that
data decide. ARCHITECTURE.md follows it from here to C.
"""
import onnx
import onnx.parser

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
power (float[n, n] a, float[n, 1] start, int64 most, float least) => (float[n, 1] vector, float[turns] lengths) {
    go = Constant <value = bool {1}> ()
    vector, lengths = Loop (most, go, start) <body = turn (int64 i, bool going, float[n, 1] v) => (bool more, float[n, 1] next, float length) {
        product = MatMul (a, v)
        length = ReduceL2 <keepdims = 0> (product)
        next = Div (product, length)
        step = Sub (next, v)
        change = ReduceL2 <keepdims = 0> (step)
        more = Greater (change, least)
    }>
}"""

if __name__ == "__main__":
    onnx.save(onnx.parser.parse_model(MODEL), "power.onnx")
