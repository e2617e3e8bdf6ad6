#!/usr/bin/env python3
"""Writes a checkpoint of random weights in a named shape, for speed measurements: model.safetensors and config.json.

    tools/make_checkpoint.py llama-125m DIR [--dtype bf16] [--seed 1]

Weights have a random sign and a magnitude in [1/64, 1/32); norms are in [1, 2). The same name, dtype and seed give
the same bytes. There is no tokenizer, so the model serves token ids only.
"""
import argparse
import json
import math
import pathlib
import random
import struct

# Shapes: layers, hidden size, heads, kv heads, MLP size, vocabulary size; `tied`: the head is the embedding.
SHAPES = {
    "llama-125m": dict(architecture="LlamaForCausalLM", layers=12, hidden=768, heads=12, kv_heads=4, mlp=2048,
                       vocabulary=32000, tied=False, context=4096),
    # The shape of Qwen2.5-0.5B.
    "qwen2-0.5b": dict(architecture="Qwen2ForCausalLM", layers=24, hidden=896, heads=14, kv_heads=2, mlp=4864,
                       vocabulary=151936, tied=True, context=32768),
}
# For each type: its name in config.json and in safetensors, bytes, mask of the random bits, bits of 1/64, bits of 1.
DTYPES = {
    "bf16": ("bfloat16", "BF16", 2, 0x807F, 0x3C80, 0x3F80),
    "f16": ("float16", "F16", 2, 0x83FF, 0x2400, 0x3C00),
    "f32": ("float32", "F32", 4, 0x807FFFFF, 0x3C800000, 0x3F800000),
}
CHUNK = 1 << 22  # number of values generated at a time


def tensors(shape):
    """Yields names and sizes of the tensors in the order of the file."""
    hidden, head = shape["hidden"], shape["hidden"] // shape["heads"]
    query, key = shape["heads"] * head, shape["kv_heads"] * head
    yield "model.embed_tokens.weight", (shape["vocabulary"], hidden)
    for i in range(shape["layers"]):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", (hidden,)
        for name, rows in ("q", query), ("k", key), ("v", key):
            yield layer + f"self_attn.{name}_proj.weight", (rows, hidden)
            if shape["architecture"] == "Qwen2ForCausalLM":
                yield layer + f"self_attn.{name}_proj.bias", (rows,)
        yield layer + "self_attn.o_proj.weight", (hidden, query)
        yield layer + "post_attention_layernorm.weight", (hidden,)
        yield layer + "mlp.gate_proj.weight", (shape["mlp"], hidden)
        yield layer + "mlp.up_proj.weight", (shape["mlp"], hidden)
        yield layer + "mlp.down_proj.weight", (hidden, shape["mlp"])
    yield "model.norm.weight", (hidden,)
    if not shape["tied"]:
        yield "lm_head.weight", (shape["vocabulary"], hidden)


def random_values(count, dtype, is_norm, source):
    """Returns the bytes of `count` values with random sign and mantissa; norms are positive."""
    _, _, size, random_bits, small, one = DTYPES[dtype]
    if is_norm:
        random_bits &= (1 << (8 * size - 1)) - 1

    def repeated(bits):
        return int.from_bytes(bits.to_bytes(size, "little") * count, "little")

    values = int.from_bytes(source.randbytes(size * count), "little")
    return (values & repeated(random_bits) | repeated(one if is_norm else small)).to_bytes(size * count, "little")


def write_weights(path, shape, dtype, source):
    _, stored, size, *_ = DTYPES[dtype]
    header, end = {}, 0
    for name, dimensions in tensors(shape):
        begin, end = end, end + size * math.prod(dimensions)
        header[name] = {"dtype": stored, "shape": dimensions, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, dimensions in tensors(shape):
            left = math.prod(dimensions)
            while left > 0:
                count = min(left, CHUNK)
                file.write(random_values(count, dtype, "norm" in name, source))
                left -= count


def write_config(path, shape, dtype):
    config = {
        "architectures": [shape["architecture"]],
        "model_type": "qwen2" if shape["architecture"] == "Qwen2ForCausalLM" else "llama",
        "hidden_size": shape["hidden"], "vocab_size": shape["vocabulary"], "intermediate_size": shape["mlp"],
        "num_hidden_layers": shape["layers"], "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["kv_heads"], "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
        "max_position_embeddings": shape["context"], "tie_word_embeddings": shape["tied"],
        "torch_dtype": DTYPES[dtype][0], "bos_token_id": 1, "eos_token_id": 2,
    }
    path.write_text(json.dumps(config, indent=2) + "\n")


def write_checkpoint(folder, name, dtype="bf16", seed=1):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder / "model.safetensors", SHAPES[name], dtype, random.Random(seed))
    write_config(folder / "config.json", SHAPES[name], dtype)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    write_checkpoint(arguments.folder, arguments.shape, arguments.dtype, arguments.seed)


if __name__ == "__main__":
    main()
