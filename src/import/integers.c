/* integers: inputs for which the schemas allow i32 or i64 alone: shapes, axes, lengths, indices;
 * also masks, and biases of quantised operators.
 *
 * Integers of any width are accepted. All else is refused here, once for all converters: they cast
 * such an input, or read its contents as sizes, which would silently truncate floats. loop.c checks
 * the inputs of a Loop, with messages of its own.
 */
#include "import/converters.h"

#include <string.h>

/* The operators, and which of their inputs, a digit each (none is beyond 9).
 * tests/errors/test_models.py checks against the newest schemas of ONNX and ONNX Runtime that none
 * is missing. */
static const struct {
    const char *op, *inputs;
} integers[] = {
    { "AffineGrid", "1" },
    { "Attention", "6" },
    { "BlackmanWindow", "0" },
    { "CenterCropPad", "1" },
    { "Col2Im", "12" },
    { "ConstantOfShape", "0" },
    { "CumProd", "1" },
    { "CumSum", "1" },
    { "DFT", "12" },
    { "Expand", "1" },
    { "GRU", "4" },
    { "Gather", "1" },
    { "GatherElements", "1" },
    { "GatherND", "1" },
    { "HammingWindow", "0" },
    { "HannWindow", "0" },
    { "LSTM", "4" },
    { "MaxUnpool", "12" },
    { "MelWeightMatrix", "012" },
    { "NegativeLogLikelihoodLoss", "1" },
    { "NonMaxSuppression", "2" },
    { "Pad", "13" },
    { "QLinearConv", "8" },
    { "RNN", "4" },
    { "ReduceL1", "1" },
    { "ReduceL2", "1" },
    { "ReduceLogSum", "1" },
    { "ReduceLogSumExp", "1" },
    { "ReduceMax", "1" },
    { "ReduceMean", "1" },
    { "ReduceMin", "1" },
    { "ReduceProd", "1" },
    { "ReduceSum", "1" },
    { "ReduceSumSquare", "1" },
    { "Reshape", "1" },
    { "Resize", "3" },
    { "ReverseSequence", "1" },
    { "RoiAlign", "2" },
    { "RotaryEmbedding", "3" },
    { "STFT", "13" },
    { "Scatter", "1" },
    { "ScatterElements", "1" },
    { "ScatterND", "1" },
    { "SequenceAt", "1" },
    { "SequenceErase", "1" },
    { "SequenceInsert", "2" },
    { "Slice", "1234" },
    { "SoftmaxCrossEntropyLoss", "1" },
    { "Split", "1" },
    { "SplitToSequence", "1" },
    { "Squeeze", "1" },
    { "TensorScatter", "2" },
    { "Tile", "1" },
    { "TopK", "1" },
    { "Trilu", "1" },
    { "Unsqueeze", "1" },
    { "ai.onnx.ml.ArrayFeatureExtractor", "1" },
    { "ai.onnx.preview.training.Adagrad", "1" },
    { "ai.onnx.preview.training.Adam", "1" },
    { "ai.onnx.preview.training.Momentum", "1" },
    { "com.microsoft.Attention", "36" },
    { "com.microsoft.DynamicQuantizeLSTM", "4" },
    { "com.microsoft.EmbedLayerNormalization", "0178" },
    { "com.microsoft.ExpandDims", "1" },
    { "com.microsoft.GatherBlockQuantized", "1" },
    { "com.microsoft.GatherND", "1" },
    { "com.microsoft.GroupQueryAttention", "569" },
    { "com.microsoft.LongformerAttention", "6" },
    { "com.microsoft.MatMulNBits", "4" },
    { "com.microsoft.MultiHeadAttention", "489" },
    { "com.microsoft.PackedAttention", "34" },
    { "com.microsoft.PackedMultiHeadAttention", "45" },
    { "com.microsoft.Pad", "1" },
    { "com.microsoft.QAttention", "5" },
    { "com.microsoft.QEmbedLayerNormalization", "017" },
    { "com.microsoft.QGemm", "6" },
    { "com.microsoft.QLinearConv", "8" },
    { "com.microsoft.RemovePadding", "1" },
    { "com.microsoft.RestorePadding", "1" },
    { "com.microsoft.RotaryEmbedding", "1" },
    { "com.microsoft.SparseAttention", "5678" },
    { "com.microsoft.Trilu", "1" },
};

bool
integers_checked(Call *k, const char *full)
{
    const char *inputs = "";

    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (!strcmp(integers[i].op, full))
            inputs = integers[i].inputs;
    for (const char *s = inputs; *s; s++) {
        uint32_t i = (uint32_t)(*s - '0');
        const Type *t = input_type(k, i);
        if (t && !dtype_is_int(t->dtype))
            return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc,
                              "input %u of %s is %s, and has to be of integers; cast it to int64",
                              i, full, type_str(k->m->c, t));
    }
    return true;
}
