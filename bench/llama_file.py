#!/usr/bin/env python3
"""A Llama that an exporter wrote, as llama.cpp reads it.

    llama_file.py MODEL.onnx WIDTH OUT.gguf         WIDTH: f32 bf16 int8 int4

What products multiply by is BF16, Q8_0 or Q4_0 then: the last two have an f16 scale for every 32 elements of a sum. Norms stay f32, and so does the
embedding, of which a token reads one row.
"""
import sys

import gguf
import numpy as np
import onnx

KIND = gguf.GGMLQuantizationType
WIDTHS = {"f32": KIND.F32, "bf16": KIND.BF16, "int8": KIND.Q8_0, "int4": KIND.Q4_0}
PRODUCTS = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
            "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down"}
LONGEST, EPSILON, ROTATION = 2048, 1e-5, 1e4         # of SmolLM's config.json: tokens, of norms, the base of positions' angles


def pairs_beside(rows: np.ndarray, size: int) -> np.ndarray:
    """Exporters turn element k of a head with k + size/2, llama.cpp neighbours."""
    return rows.reshape(-1, 2, size // 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def main() -> None:
    model, width, out = sys.argv[1:]
    graph = onnx.load(model).graph
    weights = {t.name: t for t in graph.initializer}
    array = lambda name: onnx.numpy_helper.to_array(weights[name])
    same = {n.output[0]: n.input[0] for n in graph.node if n.op_type == "Identity" and n.input[0] in weights}
    cache = next(i for i in graph.input if i.name == "past_key_values.0.key").type.tensor_type.shape.dim
    shared, size = cache[1].dim_value, cache[3].dim_value
    layers = sum(i.name.endswith(".key") for i in graph.input)
    embedding = array("model.embed_tokens.weight")
    words, wide = embedding.shape
    file, results = gguf.GGUFWriter(out, "llama"), {}

    def put(name: str, x: np.ndarray, kind: KIND) -> None:
        file.add_tensor(f"{name}.weight", gguf.quants.quantize(np.ascontiguousarray(x), kind), raw_dtype=kind)

    def norm(name: str, source: str) -> None:
        put(name, array(same.get(source, source)), KIND.F32)

    put("token_embd", embedding, KIND.F32)
    norm("output_norm", "model.norm.weight")
    for k in range(layers):
        norm(f"blk.{k}.attn_norm", f"model.layers.{k}.input_layernorm.weight")
        norm(f"blk.{k}.ffn_norm", f"model.layers.{k}.post_attention_layernorm.weight")
    for n in (n for n in graph.node if n.op_type == "MatMul" and n.input[1] in weights):
        rows, where = array(n.input[1]).T, n.name.split("/")
        if where[1] == "lm_head":
            put("output", rows, WIDTHS[width])
            continue
        layer, product = where[2].split(".")[1], PRODUCTS[where[4]]      # /model/layers.3/self_attn/q_proj/MatMul
        put(f"blk.{layer}.{product}", pairs_beside(rows, size) if product in ("attn_q", "attn_k") else rows, WIDTHS[width])
        results[product] = len(rows)
    file.add_tokenizer_model("no_vocab")
    file.add_vocab_size(words)
    file.add_context_length(LONGEST)
    file.add_embedding_length(wide)
    file.add_block_count(layers)
    file.add_feed_forward_length(results["ffn_up"])
    file.add_head_count(results["attn_q"] // size)
    file.add_head_count_kv(shared)
    file.add_rope_dimension_count(size)
    file.add_rope_freq_base(ROTATION)
    file.add_layer_norm_rms_eps(EPSILON)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


if __name__ == "__main__":
    main()
