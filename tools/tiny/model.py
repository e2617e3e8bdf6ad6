"""A Llama model in PyTorch, equivalent to Hugging Face's LlamaForCausalLM, for training on a CPU.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn


@dataclass(frozen=True)
class Shape:
    """The sizes of a model, named as in config.json. All widths are multiples of 64."""

    vocab_size: int = 1024
    hidden_size: int = 256
    intermediate_size: int = 640
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    max_position_embeddings: int = 2048
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5


class RmsNorm(nn.Module):
    """RMS norm: x / rms(x) * weight over the last dimension."""

    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def rotary_tables(shape: Shape, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns cos and sin, each [length, head_dim]. Both halves of the last dimension hold the
    same angles."""
    half = torch.arange(0, shape.head_dim, 2, dtype=torch.float32) / shape.head_dim
    angles = torch.outer(torch.arange(length, dtype=torch.float32), shape.rope_theta**-half)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotates dimension i together with dimension i + head_dim / 2."""
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


class Attention(nn.Module):
    """Causal attention with grouped keys and values."""

    def __init__(self, s: Shape):
        super().__init__()
        self.shape = s
        self.q_proj = nn.Linear(s.hidden_size, s.num_attention_heads * s.head_dim, bias=False)
        self.k_proj = nn.Linear(s.hidden_size, s.num_key_value_heads * s.head_dim, bias=False)
        self.v_proj = nn.Linear(s.hidden_size, s.num_key_value_heads * s.head_dim, bias=False)
        self.o_proj = nn.Linear(s.num_attention_heads * s.head_dim, s.hidden_size, bias=False)

    def forward(self, x, rotary, past=None):
        """Computes attention. `past` is None, or a list with this layer's keys and values, which
        is extended."""
        rows, length, _ = x.shape
        s = self.shape

        def heads(t: torch.Tensor) -> torch.Tensor:
            return t.view(rows, length, -1, s.head_dim).transpose(1, 2)

        q = rotate(heads(self.q_proj(x)), *rotary)
        k, v = rotate(heads(self.k_proj(x)), *rotary), heads(self.v_proj(x))
        if past is not None:
            if past:
                k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
            past[:] = [k, v]
        group = s.num_attention_heads // s.num_key_value_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        return self.o_proj(out.transpose(1, 2).reshape(rows, length, -1))


class Mlp(nn.Module):
    """A SwiGLU MLP."""

    def __init__(self, s: Shape):
        super().__init__()
        self.gate_proj = nn.Linear(s.hidden_size, s.intermediate_size, bias=False)
        self.up_proj = nn.Linear(s.hidden_size, s.intermediate_size, bias=False)
        self.down_proj = nn.Linear(s.intermediate_size, s.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """A transformer layer: attention and MLP, each after a norm and added to its input."""

    def __init__(self, s: Shape):
        super().__init__()
        self.input_layernorm = RmsNorm(s.hidden_size, s.rms_norm_eps)
        self.self_attn = Attention(s)
        self.post_attention_layernorm = RmsNorm(s.hidden_size, s.rms_norm_eps)
        self.mlp = Mlp(s)

    def forward(self, x, rotary, past=None):
        x = x + self.self_attn(self.input_layernorm(x), rotary, past)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """The whole model. Parameters have the names of the checkpoint without the prefix `model.`."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))
        self.norm = RmsNorm(shape.hidden_size, shape.rms_norm_eps)
        cos, sin = rotary_tables(shape, shape.max_position_embeddings)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                deep = name.endswith(("o_proj.weight", "down_proj.weight"))
                std = 0.03 / (2 * shape.num_hidden_layers) ** 0.5 if deep else 0.03
                nn.init.normal_(p, std=std)

    def forward(self, ids: torch.Tensor, past: list[list] | None = None) -> torch.Tensor:
        """Returns the final hidden states, [rows, length, hidden_size]."""
        start = past[0][0].shape[2] if past and past[0] else 0
        assert start == 0 or ids.shape[1] == 1, "a step after the prompt has one token"
        rotary = (self.cos[start : start + ids.shape[1]], self.sin[start : start + ids.shape[1]])
        x = self.embed_tokens(ids)
        for i, layer in enumerate(self.layers):
            x = layer(x, rotary, None if past is None else past[i])
        return self.norm(x)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Returns the logits over the vocabulary; the output head is the embedding."""
        return hidden @ self.embed_tokens.weight.T


def save_checkpoint(model: Llama, folder: Path, begin: int, ends: list[int]) -> None:
    """Writes config.json, generation_config.json and bf16 weights in Hugging Face's format."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        f"model.{name}": p.detach().to(torch.bfloat16).contiguous()
        for name, p in model.named_parameters()
    }
    weights = folder / "model.safetensors"
    save_file(tensors, str(weights), metadata={"format": "pt"})
    weights.chmod(0o644)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": begin,
        "eos_token_id": ends,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "mlp_bias": False,
        "model_type": "llama",
        "rope_scaling": None,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        **asdict(model.shape),
    }
    text = json.dumps(dict(sorted(config.items())), indent=2)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")
    text = json.dumps({"bos_token_id": begin, "eos_token_id": ends}, indent=2)
    (folder / "generation_config.json").write_text(text + "\n", encoding="utf-8")


def load_checkpoint(folder: Path) -> Llama:
    """Loads a folder that save_checkpoint wrote. The model computes in f32."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    model = Llama(Shape(**{name: config[name] for name in Shape.__dataclass_fields__}))
    tensors = load_file(str(folder / "model.safetensors"))
    state = {name.removeprefix("model."): t.float() for name, t in tensors.items()}
    model.load_state_dict(state)
    return model.eval()


@torch.no_grad()
def sample(
    model: Llama,
    prompts: list[list[int]],
    ends: list[int],
    limit: int,
    temperature: float,
    generator: torch.Generator,
) -> list[list[int]]:
    """Continues prompts of equal length. Each continuation ends before an end token or after
    `limit` tokens."""
    rows = len(prompts)
    past: list[list] = [[] for _ in model.layers]
    ids = torch.tensor(prompts)
    out: list[list[int]] = [[] for _ in range(rows)]
    alive = torch.ones(rows, dtype=torch.bool)
    stops = torch.tensor(ends)
    for _ in range(limit):
        logits = model.logits(model(ids, past)[:, -1])
        if temperature == 0.0:
            ids = logits.argmax(-1, keepdim=True)
        else:
            ids = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)
        alive &= ~torch.isin(ids[:, 0], stops)
        if not alive.any():
            break
        for row in alive.nonzero()[:, 0].tolist():
            out[row].append(int(ids[row, 0]))
    return out
