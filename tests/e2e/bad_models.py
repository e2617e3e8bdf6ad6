"""Invalid model folders: a function that damages the folder, and the error message of the server. The row numbers
refer to docs/bad_input.md."""
import dataclasses
import json
import struct
import typing

UINT64_MAX = 2**64 - 1
EMBEDDING = "model.embed_tokens.weight"
NORM = "model.norm.weight"


@dataclasses.dataclass
class Case:
    row: int
    name: str
    spoil: typing.Callable  # changes a ModelCopy
    # Words that must all occur in one line of the error output.
    says: tuple


def config(**values):
    return lambda copy: copy.set_config(**values)


def no_config(*names):
    return lambda copy: copy.edit_json("config.json", lambda value: [value.pop(name) for name in names])


def file_text(name, text):
    return lambda copy: (copy.path / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def removed(name):
    return lambda copy: (copy.path / name).unlink()


def header_length(length):
    return lambda copy: copy.write_weights(struct.pack("<Q", length) + copy.read_weights()[8:])


def header_text(text):
    return lambda copy: copy.write_weights(struct.pack("<Q", len(text)) + text + b"\0" * 64)


def tensor(change, name=NORM):
    def spoil(copy):
        with copy.header() as header:
            change(header, header[name])
    return spoil


def truncated(copy):
    copy.write_weights(copy.read_weights()[:-100])


def trailing(copy):
    copy.write_weights(copy.read_weights() + b"\0" * 4)


def duplicate_tensor(copy):
    data = copy.read_weights()
    (size,) = struct.unpack("<Q", data[:8])
    text = data[8:8 + size]
    header = json.loads(text)
    doubled = text.rstrip()[:-1] + b"," + json.dumps({NORM: header[NORM]}).encode()[1:]
    copy.write_weights(struct.pack("<Q", len(doubled)) + doubled + data[8 + size:])


def overlapping(header, entry):
    begin, end = entry["data_offsets"]
    first = next(value for key, value in header.items() if key not in ("__metadata__", NORM))
    entry["data_offsets"] = [first["data_offsets"][0], first["data_offsets"][0] + end - begin]


def renamed(header, entry):
    header["model.norm.wait"] = header.pop(NORM)


def sharded(shard):
    """Puts the weights behind an index file that assigns every tensor to the file `shard`."""
    def spoil(copy):
        with copy.header() as header:
            names = [name for name in header if name != "__metadata__"]
        (copy.path / "model.safetensors").rename(copy.path / "model-00001-of-00001.safetensors")
        index = {"weight_map": {name: shard for name in names}}
        (copy.path / "model.safetensors.index.json").write_text(json.dumps(index))
    return spoil


def linked_outside(copy):
    shard = copy.path / "model-00001-of-00001.safetensors"
    sharded(shard.name)(copy)
    outside = copy.path.parent / "elsewhere.safetensors"
    shard.rename(outside)
    shard.symlink_to(outside)


def tokenizer(change):
    return lambda copy: copy.edit_json("tokenizer.json", change)


def split_by(regex):
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
    return lambda value: value.update(pre_tokenizer=split)


def five_million_merges(copy):
    copy.edit_json("tokenizer.json", lambda value: value["model"].update(merges=["MERGES"]))
    path = copy.path / "tokenizer.json"
    path.write_text(path.read_text().replace('"MERGES"', ",".join(['"a b"'] * 5_000_000)))


def duplicate_id(value):
    vocab = value["model"]["vocab"]
    first, second = list(vocab)[:2]
    vocab[first] = vocab[second]


def deep(levels):
    return "[" * levels + "]" * levels


WEIGHTS = [
    Case(96, "header length 0", header_length(0), ("model.safetensors", "header")),
    Case(96, "header length 2^64 - 1", header_length(UINT64_MAX), ("model.safetensors", str(UINT64_MAX))),
    Case(96, "header length above 100 MB", header_length(100_000_001), ("model.safetensors", "100000001")),
    Case(96, "header longer than the file", header_length(50_000_000), ("model.safetensors", "50000000")),
    Case(96, "an empty file", file_text("model.safetensors", b""), ("model.safetensors", "0 bytes")),
    Case(97, "an end before its begin", tensor(lambda header, entry: entry.update(data_offsets=[64, 0])),
         ("model.safetensors", NORM, "[64, 0]")),
    Case(97, "an end beyond the file", tensor(lambda header, entry: entry.update(data_offsets=[0, 2**40])),
         ("model.safetensors", NORM, str(2**40))),
    Case(97, "overlapping tensors", tensor(overlapping), ("model.safetensors", "begins at")),
    Case(97, "trailing bytes", trailing, ("model.safetensors", "4 bytes after the last tensor")),
    Case(102, "a truncated file", truncated, ("model.safetensors", "data_offsets")),
    Case(98, "a shape whose size overflows",
         tensor(lambda header, entry: entry.update(shape=[4194305, 4194305, 211106198978564])),
         ("model.safetensors", NORM, "211106198978564")),
    Case(98, "a negative extent", tensor(lambda header, entry: entry.update(shape=[-1])),
         ("model.safetensors", NORM, "shape")),
    Case(99, "an empty tensor", tensor(lambda header, entry: entry.update(shape=[0], data_offsets=[0, 0])),
         ("model.safetensors", NORM, "empty")),
    Case(99, "a tensor that stands twice", duplicate_tensor, ("model.safetensors", NORM)),
    Case(100, "a header 10,000 levels deep", header_text(b'{"a":' + deep(10_000).encode() + b"}"),
         ("model.safetensors",)),
    Case(100, "a header that is no UTF-8", header_text(b'{"\xff": 1}'), ("model.safetensors",)),
    Case(100, "an unknown dtype", tensor(lambda header, entry: entry.update(dtype="F33")),
         ("model.safetensors", NORM, "F33")),
    Case(100, "a shape that is not the configuration's",
         lambda copy: copy.set_config(vocab_size=json.loads((copy.path / "config.json").read_text())["vocab_size"] + 1),
         (EMBEDDING,)),
    Case(97, "a missing tensor", tensor(renamed), ("model.norm",)),
    Case(101, "a shard in another folder", sharded("../model-00001-of-00001.safetensors"),
         ("model.safetensors.index.json", "../model-00001")),
    Case(101, "a shard by its absolute path", sharded("/etc/passwd"), ("model.safetensors.index.json", "/etc/passwd")),
    Case(101, "a missing shard", sharded("model-00002-of-00002.safetensors"), ("model-00002-of-00002.safetensors",)),
    Case(101, "a link out of the folder", linked_outside, ("elsewhere.safetensors", "outside")),
    Case(96, "no weights at all", removed("model.safetensors"), ("model.safetensors",)),
]

CONFIGURATIONS = [
    Case(103, "hidden_size 0", config(hidden_size=0), ("config.json", "hidden_size", "0")),
    Case(103, "heads 0", config(num_attention_heads=0), ("config.json", "num_attention_heads", "0")),
    Case(103, "layers -1", config(num_hidden_layers=-1), ("config.json", "num_hidden_layers", "-1")),
    Case(103, "intermediate_size 2^31", config(intermediate_size=2**31), ("config.json", "intermediate_size")),
    Case(103, "KV heads that do not divide the heads", config(num_key_value_heads=3),
         ("config.json", "num_key_value_heads is 3")),
    Case(103, "KV heads 0", config(num_key_value_heads=0), ("config.json", "num_key_value_heads")),
    Case(103, "an odd head_dim", config(head_dim=7), ("config.json", "head_dim is 7")),
    Case(103, "vocab_size 0", config(vocab_size=0), ("config.json", "vocab_size")),
    Case(103, "no vocab_size, whose default is another", no_config("vocab_size"), (EMBEDDING, "config.json")),
    Case(103, "a context of 0", config(max_position_embeddings=0), ("config.json", "max_position_embeddings")),
    Case(103, "rms_norm_eps -1", config(rms_norm_eps=-1), ("config.json", "rms_norm_eps")),
    Case(103, "rope_theta 0", config(rope_theta=0), ("config.json", "rope_theta")),
    Case(103, "a size that is text", config(hidden_size="64"), ("config.json", "hidden_size")),
    Case(103, "eos_token_id beyond the vocabulary", config(eos_token_id=2**31), ("config.json", "eos_token_id")),
    Case(103, "an architecture that is not supported", config(architectures=["GPT2LMHeadModel"]),
         ("config.json", "GPT2LMHeadModel")),
    Case(103, "another activation", config(hidden_act="gelu"), ("config.json", "hidden_act", "gelu")),
    Case(103, "quantised weights", config(quantization_config={"quant_method": "gptq"}),
         ("config.json", "quantization_config")),
    Case(103, "keys that change with the length", config(rope_scaling={"type": "dynamic", "factor": 2.0}),
         ("config.json", "dynamic")),
    Case(100, "a configuration that is no JSON", file_text("config.json", "{"), ("config.json",)),
    Case(100, "a configuration that is an array", file_text("config.json", "[]"), ("config.json", "object")),
    Case(100, "a configuration 10,000 levels deep", file_text("config.json", deep(10_000)), ("config.json",)),
    Case(100, "a configuration that is no UTF-8", file_text("config.json", b'{"a": "\xff"}'), ("config.json",)),
    Case(100, "no configuration", removed("config.json"), ("config.json",)),
    Case(100, "a generation configuration that is no JSON", file_text("generation_config.json", "nonsense"),
         ("generation_config.json",)),
    Case(100, "a default temperature of -1", file_text("generation_config.json", '{"temperature": -1}'),
         ("generation_config.json", "temperature")),
]

TOKENIZERS = [
    Case(105, "a tokenizer that is no JSON", file_text("tokenizer.json", "{"), ("tokenizer.json",)),
    Case(105, "a tokenizer 10,000 levels deep", file_text("tokenizer.json", deep(10_000)), ("tokenizer.json",)),
    Case(105, "a model that is not supported",
         tokenizer(lambda value: value["model"].update(type="WordPiece")), ("tokenizer.json", "WordPiece")),
    Case(105, "no model", tokenizer(lambda value: value.pop("model")), ("tokenizer.json", "model")),
    Case(105, "a regular expression that is wrong", tokenizer(split_by("(a+")), ("tokenizer.json", "pattern")),
    Case(105, "a regular expression that is not supported",
         tokenizer(split_by(r"\G\d")), ("tokenizer.json", "pre_tokenizer.pattern", "\\G")),
    Case(105, "an id of 2^31", tokenizer(lambda value: value["model"]["vocab"].update({"zzzzz": 2**31})),
         ("tokenizer.json", "model.vocab", "2147483648")),
    Case(105, "five million merges", five_million_merges, ("tokenizer.json", "merges", "5000000", "4194304")),
    Case(105, "two tokens of one id", tokenizer(duplicate_id), ("tokenizer.json",)),
    Case(105, "a merge of tokens that are not there",
         tokenizer(lambda value: value["model"]["merges"].append("\u732b \u732b")), ("tokenizer.json",)),
    Case(105, "an added token that is empty",
         tokenizer(lambda value: value["added_tokens"].append(
             {"id": 3, "content": "", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True})), ("tokenizer.json",)),
    Case(105, "a negative id", tokenizer(lambda value: value["model"]["vocab"].update({"zzzzz": -1})),
         ("tokenizer.json",)),
]

CASES = WEIGHTS + CONFIGURATIONS + TOKENIZERS
