#!/usr/bin/env python3
"""Writes the weights of a Llama or Qwen2 checkpoint as a GGUF file, for comparisons with other engines.

    tools/write_gguf.py CHECKPOINT_DIR FILE.gguf [--dtype bf16|f16|f32|q8_0] [--check]

Matrices are stored in the given type; norms and biases are f32. q8_0 stores 32 values with one f16 scale, rounded to
nearest. The tokenizer is a placeholder of the right size (the bytes, and a name for every other id), because only the
speed on token ids is compared. Needs numpy. --check reads the file back and compares every value. The format is
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, version 3.
"""
import argparse
import json
import pathlib
import struct

import numpy

ALIGNMENT = 32
# For each type: its number as a tensor type and its number as a file type.
TYPES = {"f32": (0, 0), "f16": (1, 1), "q8_0": (8, 7), "bf16": (30, 32)}
# Types of metadata values.
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
NORMAL, CONTROL = 1, 3  # types of tokens
BLOCK = 32  # values that share a scale in q8_0

LAYER_TENSORS = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight", "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.weight": "attn_k.weight", "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.weight": "attn_v.weight", "self_attn.v_proj.bias": "attn_v.bias",
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight", "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
OTHER_TENSORS = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
                 "lm_head.weight": "output.weight"}


class Checkpoint:
    """model.safetensors and config.json of a folder."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.config = json.loads((folder / "config.json").read_text())
        self.path = folder / "model.safetensors"
        with open(self.path, "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            self.header = json.loads(file.read(size))
        self.header.pop("__metadata__", None)
        self.begin = 8 + size

    def read(self, name):
        """Returns a tensor in f32."""
        entry = self.header[name]
        begin, end = entry["data_offsets"]
        stored = {"BF16": numpy.uint16, "F16": numpy.float16, "F32": numpy.float32}[entry["dtype"]]
        values = numpy.fromfile(self.path, stored, (end - begin) // numpy.dtype(stored).itemsize, offset=self.begin + begin)
        if entry["dtype"] == "BF16":
            values = (values.astype(numpy.uint32) << 16).view(numpy.float32)
        return values.astype(numpy.float32, copy=False).reshape(entry["shape"])


def interleaved(matrix, heads):
    """Returns the rows of queries or keys with rotated pairs side by side, GGUF's order for Llama."""
    rows = matrix.reshape(heads, 2, matrix.shape[0] // heads // 2, *matrix.shape[1:])
    return rows.swapaxes(1, 2).reshape(matrix.shape)


def name_of(name):
    if name in OTHER_TENSORS:
        return OTHER_TENSORS[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{LAYER_TENSORS[rest]}"


def tensor(checkpoint, name):
    """Returns a tensor in f32 with its rows in GGUF's order."""
    values, config = checkpoint.read(name), checkpoint.config
    if config["model_type"] == "llama":
        if "q_proj" in name:
            return interleaved(values, config["num_attention_heads"])
        if "k_proj" in name:
            return interleaved(values, config["num_key_value_heads"])
    return values


def encode(values, dtype):
    if dtype == "f32":
        return values.tobytes()
    if dtype == "f16":
        return values.astype(numpy.float16).tobytes()
    if dtype == "bf16":
        bits = values.view(numpy.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16).tobytes()
    blocks = values.reshape(-1, BLOCK)
    scales = numpy.abs(blocks).max(axis=1, keepdims=True) / 127
    inverse = numpy.divide(1, scales, out=numpy.zeros_like(scales), where=scales > 0)
    out = numpy.empty(len(blocks), dtype=[("scale", "<f2"), ("values", "i1", BLOCK)])
    out["scale"] = scales[:, 0]
    out["values"] = numpy.rint(blocks * inverse)
    return out.tobytes()


def decode(data, dtype):
    if dtype == "f32":
        return numpy.frombuffer(data, numpy.float32)
    if dtype == "f16":
        return numpy.frombuffer(data, numpy.float16).astype(numpy.float32)
    if dtype == "bf16":
        return (numpy.frombuffer(data, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
    blocks = numpy.frombuffer(data, dtype=[("scale", "<f2"), ("values", "i1", BLOCK)])
    return (blocks["scale"].astype(numpy.float32)[:, None] * blocks["values"]).reshape(-1)


def byte_size(shape, dtype):
    count = int(numpy.prod(shape))
    return {"f32": 4 * count, "f16": 2 * count, "bf16": 2 * count, "q8_0": count // BLOCK * (BLOCK + 2)}[dtype]


def byte_names():
    """Returns the characters that stand for the 256 bytes in a byte-level vocabulary."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte if byte in printable else 256 + others.index(byte)) for byte in range(256)]


def metadata(config, dtype):
    """Returns (key, type, value) of all metadata that readers need; the type of an array is (ARRAY, type of its
    elements)."""
    kind, vocabulary = config["model_type"], config["vocab_size"]
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    special = ["<unk>", "<s>", "</s>"]
    tokens = (special + byte_names() + [f"<{i}>" for i in range(vocabulary)])[:vocabulary]
    types = [CONTROL] * len(special) + [NORMAL] * (vocabulary - len(special))
    return [
        ("general.architecture", STRING, kind),
        ("general.name", STRING, "comparison"),
        ("general.file_type", UINT32, TYPES[dtype][1]),
        (f"{kind}.block_count", UINT32, config["num_hidden_layers"]),
        (f"{kind}.context_length", UINT32, config["max_position_embeddings"]),
        (f"{kind}.embedding_length", UINT32, config["hidden_size"]),
        (f"{kind}.feed_forward_length", UINT32, config["intermediate_size"]),
        (f"{kind}.attention.head_count", UINT32, config["num_attention_heads"]),
        (f"{kind}.attention.head_count_kv", UINT32, config["num_key_value_heads"]),
        (f"{kind}.attention.layer_norm_rms_epsilon", FLOAT32, config["rms_norm_eps"]),
        (f"{kind}.rope.freq_base", FLOAT32, config["rope_theta"]),
        (f"{kind}.rope.dimension_count", UINT32, head),
        (f"{kind}.vocab_size", UINT32, vocabulary),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "qwen2"),
        ("tokenizer.ggml.tokens", (ARRAY, STRING), tokens),
        ("tokenizer.ggml.token_type", (ARRAY, INT32), types),
        ("tokenizer.ggml.merges", (ARRAY, STRING), ["a b"]),
        ("tokenizer.ggml.bos_token_id", UINT32, 1),
        ("tokenizer.ggml.eos_token_id", UINT32, 2),
        ("tokenizer.ggml.padding_token_id", UINT32, 0),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.chat_template", STRING, "{% for message in messages %}{{ message['content'] }}{% endfor %}"),
    ]


def packed_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def packed_value(kind, value):
    if kind == STRING:
        return packed_string(value)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}[kind], value)


def packed_metadata(entries):
    out = bytearray()
    for key, kind, value in entries:
        out += packed_string(key)
        if isinstance(kind, tuple):
            out += struct.pack("<IIQ", kind[0], kind[1], len(value))
            for element in value:
                out += packed_value(kind[1], element)
        else:
            out += struct.pack("<I", kind) + packed_value(kind, value)
    return bytes(out)


def padded(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def dtype_of(shape, dtype):
    return dtype if len(shape) > 1 else "f32"


def write_gguf(folder, path, dtype):
    checkpoint = Checkpoint(folder)
    entries = metadata(checkpoint.config, dtype)
    infos, offset = bytearray(), 0
    for name, entry in checkpoint.header.items():
        shape = entry["shape"]
        stored = dtype_of(shape, dtype)
        infos += packed_string(name_of(name)) + struct.pack("<I", len(shape))
        infos += struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", TYPES[stored][0], offset)
        offset += padded(byte_size(shape, stored))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(checkpoint.header), len(entries)) + packed_metadata(entries) + bytes(infos)
    with open(path, "wb") as file:
        file.write(head.ljust(padded(len(head)), b"\0"))
        for name, entry in checkpoint.header.items():
            stored = dtype_of(entry["shape"], dtype)
            data = encode(tensor(checkpoint, name), stored)
            file.write(data.ljust(padded(len(data)), b"\0"))


class Reader:
    """A minimal GGUF reader for the check."""

    def __init__(self, path):
        self.file = open(path, "rb")
        magic, version, tensors, entries = struct.unpack("<4sIQQ", self.file.read(24))
        assert (magic, version) == (b"GGUF", 3)
        self.metadata = {}
        for _ in range(entries):
            key = self.string()
            self.metadata[key] = self.value(self.unpack("<I"))
        self.tensors = {}
        for _ in range(tensors):
            name = self.string()
            shape = [self.unpack("<Q") for _ in range(self.unpack("<I"))][::-1]
            self.tensors[name] = (shape, self.unpack("<I"), self.unpack("<Q"))
        self.begin = padded(self.file.tell())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def unpack(self, form):
        return struct.unpack(form, self.file.read(struct.calcsize(form)))[0]

    def string(self):
        return self.file.read(self.unpack("<Q")).decode()

    def value(self, kind):
        if kind == ARRAY:
            of = self.unpack("<I")
            return [self.value(of) for _ in range(self.unpack("<Q"))]
        return self.string() if kind == STRING else self.unpack({UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}[kind])

    def read(self, name):
        shape, kind, offset = self.tensors[name]
        dtype = next(dtype for dtype, (number, _) in TYPES.items() if number == kind)
        self.file.seek(self.begin + offset)
        return decode(self.file.read(byte_size(shape, dtype)), dtype).reshape(shape), dtype


def check(folder, path, dtype):
    """Checks that every tensor of the file equals the checkpoint's within the precision of its type."""
    checkpoint = Checkpoint(folder)
    with Reader(path) as reader:
        assert len(reader.metadata["tokenizer.ggml.tokens"]) == checkpoint.config["vocab_size"]
        assert len(set(reader.metadata["tokenizer.ggml.tokens"])) == checkpoint.config["vocab_size"]
        assert set(reader.tensors) == {name_of(name) for name in checkpoint.header}
        relative = {"f32": 0, "f16": 2**-11, "bf16": 2**-8}
        for name in checkpoint.header:
            expected = tensor(checkpoint, name)
            found, stored = reader.read(name_of(name))
            assert stored == dtype_of(expected.shape, dtype) and found.shape == expected.shape, name
            if stored == "q8_0":
                largest = numpy.abs(expected.reshape(-1, BLOCK)).max(axis=1, keepdims=True)
                assert (numpy.abs(found - expected).reshape(-1, BLOCK) <= largest * (0.51 / 127 + 2**-11)).all(), name
            else:
                assert (numpy.abs(found - expected) <= relative[stored] * numpy.abs(expected) + 2**-25).all(), name
    print(f"{path}: {len(checkpoint.header)} tensors as in {folder}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("file")
    parser.add_argument("--dtype", choices=TYPES, default="bf16")
    parser.add_argument("--check", action="store_true", help="read the file back and compare it with the checkpoint")
    arguments = parser.parse_args()
    write_gguf(arguments.folder, arguments.file, arguments.dtype)
    if arguments.check:
        check(arguments.folder, arguments.file, arguments.dtype)


if __name__ == "__main__":
    main()
