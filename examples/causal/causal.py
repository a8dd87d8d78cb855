"""Makes causal.onnx: an attention whose rows see no later ones, as exporters of PyTorch write it.

The mask is made of positions: a Range, a comparison, a choice of 0 and the lowest number. ARCHITECTURE.md follows it from here to C.
"""
import onnx
import onnx.parser

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
causal (float[batch, 12, seq, 64] q, float[batch, 12, seq, 64] k, float[batch, 12, seq, 64] v) => (float[batch, 12, seq, 64] y) {
    shape = Shape (q)
    zero = Constant <value = int64 {0}> ()
    one = Constant <value = int64 {1}> ()
    two = Constant <value = int64 {2}> ()
    last = Constant <value = int64[1] {1}> ()
    length = Gather (shape, two)
    key = Range (zero, length, one)
    query = Unsqueeze (key, last)
    seen = LessOrEqual (key, query)
    none = Constant <value = float {0.0}> ()
    lowest = Constant <value = float {-3.4028235e38}> ()
    mask = Where (seen, none, lowest)
    scale = Constant <value = float {0.125}> ()
    turned = Transpose <perm = [0, 1, 3, 2]> (k)
    product = MatMul (q, turned)
    scaled = Mul (product, scale)
    scores = Add (scaled, mask)
    share = Softmax <axis = -1> (scores)
    y = MatMul (share, v)
}"""

if __name__ == "__main__":
    onnx.save(onnx.parser.parse_model(MODEL), "causal.onnx")
