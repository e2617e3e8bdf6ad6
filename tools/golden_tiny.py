#!/usr/bin/env python3
"""Writes tests/golden/incipit-tiny/golden.json: the expected outputs of models/incipit-tiny.

    golden_tiny.py models/incipit-tiny tests/golden/incipit-tiny/golden.json

This script is an independent implementation of the model in NumPy and f32 from the bf16 weights; it shares no code
with the training. Prompts whose greedy decoding comes near a tie are left out, so that another order of additions
gives the same ids.
"""

from __future__ import annotations

import argparse
import json
import struct
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

PROMPTS = (
    "Once upon a time",
    "Once upon a time, there was a little girl named Lily.",
    "There once was a brave boy named Tom. He had a red ball",
    "Ben was a small rabbit. He loved to play in the garden. Ben had a blue kite.",
    "Once there was a happy fox named Ruby. She lived near the river. She took her green drum",
    "Mia was a kind girl. Every morning, she played on the farm. She had a pink doll.",
    "Once upon a time, there was a clever boy named Max. He had a yellow train. Suddenly, the train",
    "Once there was a quiet girl named Nora. She had an old book. One day, Nora read the book in the zoo",
    "Sam was a brave boy. He lived near the lake. Sam had a red boat.",
    "Once upon a time, there was a young girl named Amy. She loved to play at the beach. She had a new ball.",
    "Leo was a happy boy. He liked to run and jump in the park. One day, Leo took his green car to the park.",
    "There was a kind bear named Oscar. Oscar had a big drum. One morning, Oscar went to the meadow.",
)
CHATS = (
    [{"role": "user", "content": "Tell me a story about Lily and a red ball in the park."}],
    [{"role": "user", "content": "Please tell me a story."}],
    [
        {"role": "system", "content": "You are a kind storyteller."},
        {"role": "user", "content": "Write a short story about Tom and a green kite at the beach."},
    ],
)
LENGTH = 100  # maximum number of greedy ids for a prompt
LEAST_MARGIN = 1e-2  # minimum difference between the largest and the second logit, at every step


class NumpyLlama:
    """A Llama model that computes a whole sequence at once, without a KV cache, to keep the code simple."""

    def __init__(self, folder: Path):
        self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        raw = (folder / "model.safetensors").read_bytes()
        (size,) = struct.unpack("<Q", raw[:8])
        header = json.loads(raw[8 : 8 + size])
        header.pop("__metadata__", None)
        self.tensors = {}
        for name, entry in header.items():
            assert entry["dtype"] == "BF16", name
            begin, end = entry["data_offsets"]
            halves = np.frombuffer(raw[8 + size + begin : 8 + size + end], dtype="<u2")
            wide = (halves.astype(np.uint32) << 16).view(np.float32)
            self.tensors[name] = wide.reshape(entry["shape"])

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        """Returns the RMS norm over the last dimension."""
        square = np.mean(x * x, axis=-1, keepdims=True, dtype=np.float32)
        return x / np.sqrt(square + np.float32(self.config["rms_norm_eps"])) * self.tensors[name]

    def rotated(self, x: np.ndarray) -> np.ndarray:
        """Returns x, [length, heads, head_dim], after rotary embedding of dimension i with i + head_dim / 2."""
        length, _, size = x.shape
        steps = self.config["rope_theta"] ** (-np.arange(0, size, 2) / size)
        angles = np.outer(np.arange(length), steps)[:, None, :]
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        low, high = x[..., : size // 2], x[..., size // 2 :]
        return np.concatenate((low * cos - high * sin, high * cos + low * sin), axis=-1)

    def attention(self, x: np.ndarray, prefix: str) -> np.ndarray:
        """Returns causal attention of x, [length, hidden]."""
        length, size = len(x), self.config["head_dim"]
        weight = self.tensors
        q = self.rotated((x @ weight[prefix + "q_proj.weight"].T).reshape(length, -1, size))
        k = self.rotated((x @ weight[prefix + "k_proj.weight"].T).reshape(length, -1, size))
        v = (x @ weight[prefix + "v_proj.weight"].T).reshape(length, -1, size)
        group = q.shape[1] // k.shape[1]
        out = np.empty_like(q)
        for head in range(q.shape[1]):
            scores = q[:, head] @ k[:, head // group].T / np.float32(np.sqrt(size))
            scores = np.where(np.tril(np.ones_like(scores)) > 0, scores, -np.inf)
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            out[:, head] = scores / scores.sum(axis=-1, keepdims=True) @ v[:, head // group]
        return out.reshape(length, -1) @ weight[prefix + "o_proj.weight"].T

    def last_logits(self, ids: list[int]) -> np.ndarray:
        """Returns the logits of the next token."""
        weight = self.tensors
        x = weight["model.embed_tokens.weight"][ids]
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"model.layers.{layer}."
            x = x + self.attention(
                self.norm(x, prefix + "input_layernorm.weight"), prefix + "self_attn."
            )
            y = self.norm(x, prefix + "post_attention_layernorm.weight")
            gate = y @ weight[prefix + "mlp.gate_proj.weight"].T
            up = y @ weight[prefix + "mlp.up_proj.weight"].T
            x = x + (gate / (1 + np.exp(-gate)) * up) @ weight[prefix + "mlp.down_proj.weight"].T
        x = self.norm(x[-1], "model.norm.weight")
        return x @ weight["model.embed_tokens.weight"].T


def greedy(model: NumpyLlama, ids: list[int], ends: list[int]) -> tuple[list[int], float, str]:
    """Returns the greedy ids, the smallest margin and the finish reason. The end token is not included."""
    out: list[int] = []
    margin = float("inf")
    while len(out) < LENGTH:
        logits = model.last_logits(ids + out)
        second, first = np.sort(logits)[-2:]
        margin = min(margin, float(first - second))
        best = int(logits.argmax())
        if best in ends:
            return out, margin, "stop"
        out.append(best)
    return out, margin, "length"


def render(messages: list[dict[str, str]]) -> str:
    """Returns the conversation as the model's chat template renders it, ending with the assistant's header."""
    parts = [f"<|{m['role']}|>{m['content'].strip()}<|end|>" for m in messages]
    return "<|begin|>" + "".join(parts) + "<|assistant|>"


def main() -> None:
    """Writes the cases whose margin is large enough and prints the cases that were left out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    model = NumpyLlama(args.folder)
    tokenizer = Tokenizer.from_file(str(args.folder / "tokenizer.json"))
    ends = model.config["eos_token_id"]
    cases = []
    for asked in (*PROMPTS, *CHATS):
        chat = not isinstance(asked, str)
        text = render(asked) if chat else asked
        ids = tokenizer.encode(text, add_special_tokens=not chat).ids
        out, margin, reason = greedy(model, ids, ends)
        if margin < LEAST_MARGIN:
            print(f"left out (margin {margin:.4f}): {text}")
            continue
        head = {"messages": asked, "prompt": text} if chat else {"prompt": text}
        cases.append(
            {
                **head,
                "prompt_ids": ids,
                "greedy_ids": out,
                "text": tokenizer.decode(out),
                "finish_reason": reason,
                "least_margin": round(margin, 4),
            }
        )
    logits = model.last_logits(cases[0]["prompt_ids"])
    golden = {
        "model": "models/incipit-tiny",
        "computed": "NumPy, f32, from the bf16 weights (tools/golden_tiny.py)",
        "end_ids": ends,
        "cases": cases,
        "logits": {
            "prompt_ids": cases[0]["prompt_ids"],
            "argmax": int(logits.argmax()),
            "first": [round(float(x), 6) for x in logits[:32]],
        },
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(golden, indent=1, ensure_ascii=False)
    args.output.write_text(text + "\n", encoding="utf-8")
    print(f"{len(cases)} cases")


if __name__ == "__main__":
    main()
