#!/usr/bin/env python3
"""Writes tests/golden/hf: small random checkpoints as Hugging Face transformers saves them, with its logits.

Usage: python -m venv V; V/bin/pip install torch transformers safetensors; V/bin/python make_model_goldens.py [OUT]

Each folder is a model saved by `save_pretrained`, with an additional golden.safetensors: `tokens` (one prompt, I64),
`logits` of every position (F32), and `inverse_frequencies` and `attention_factor` of the rotary embedding. The logits
are computed in float32 with eager attention, for every storage type of the weights. The random weights are large
enough for every part of the model to affect the logits. tests/golden/hf_test.cpp compares our forward pass with these
numbers.
"""
import dataclasses
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import save_file

FAMILIES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
}
SHAPE = dict(hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=97, max_position_embeddings=128)


@dataclasses.dataclass
class Variant:
    family: str
    name: str
    config: dict
    dtype: torch.dtype = torch.float32
    shard_size: str = "1GB"


def rope(rope_type, **parameters):
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": 10000.0, **parameters}}


VARIANTS = [
    Variant("llama", "plain", dict(rms_norm_eps=1e-5)),
    Variant("llama", "tied", dict(tie_word_embeddings=True)),
    Variant("llama", "biases", dict(attention_bias=True, mlp_bias=True)),
    Variant("llama", "multi-query-wide-heads",
            dict(hidden_size=40, num_attention_heads=5, num_key_value_heads=1, head_dim=12, intermediate_size=44)),
    Variant("llama", "bf16", dict(num_attention_heads=8, num_key_value_heads=8, head_dim=16), torch.bfloat16),
    Variant("llama", "f16-sharded", dict(num_hidden_layers=3), torch.float16, "16KB"),
    Variant("llama", "theta", rope("default", rope_theta=500000.0)),
    Variant("llama", "linear", rope("linear", factor=4.0)),
    Variant("llama", "llama3", dict(head_dim=16) | rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                       original_max_position_embeddings=32)),
    Variant("llama", "yarn", dict(head_dim=16) | rope("yarn", factor=4.0, original_max_position_embeddings=32)),
    Variant("llama", "yarn-explicit",
            dict(head_dim=16) | rope("yarn", factor=8.0, original_max_position_embeddings=16, attention_factor=1.3,
                                     beta_fast=2.0, beta_slow=0.5, truncate=False)),
    Variant("llama", "yarn-mscale",
            dict(head_dim=16) | rope("yarn", factor=4.0, original_max_position_embeddings=32, mscale=0.7,
                                     mscale_all_dim=1.2, beta_fast=1.5, beta_slow=0.3)),
    Variant("mistral", "window", dict(sliding_window=7, num_hidden_layers=3)),
    Variant("mistral", "no-window", dict(sliding_window=None, head_dim=20)),
    Variant("mistral", "window-bf16-sharded", dict(sliding_window=16), torch.bfloat16, "16KB"),
    Variant("qwen2", "plain", dict()),
    Variant("qwen2", "tied-bf16", dict(tie_word_embeddings=True), torch.bfloat16),
    Variant("qwen2", "window", dict(use_sliding_window=True, sliding_window=9, max_window_layers=1,
                                    num_hidden_layers=3)),
    Variant("qwen2", "layer-types", dict(use_sliding_window=True, sliding_window=5, num_hidden_layers=3,
                                         layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    Variant("qwen3", "plain", dict(head_dim=16)),
    Variant("qwen3", "tied-bf16", dict(head_dim=16, tie_word_embeddings=True), torch.bfloat16),
    Variant("qwen3", "bias-window-yarn",
            dict(head_dim=24, attention_bias=True, use_sliding_window=True, sliding_window=11, max_window_layers=1)
            | rope("yarn", factor=4.0, original_max_position_embeddings=16)),
]
PROMPT_TOKENS = 45


def randomise(model, generator):
    """Sets random weights. Attention is neither flat nor so sharp that f32 rounding alone changes the logits."""
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if name.endswith("norm.weight"):
            parameter.data = 1 + 0.3 * values
        elif "embed_tokens" in name:
            parameter.data = values
        elif parameter.dim() == 2:
            parameter.data = 1.4 * parameter.shape[1] ** -0.5 * values
        else:
            parameter.data = 0.25 * values


def write(variant, folder, seed):
    config_class, model_class = FAMILIES[variant.family]
    generator = torch.Generator().manual_seed(seed)
    model = model_class(config_class(**(SHAPE | variant.config)))
    randomise(model, generator)
    model.tie_weights()
    shutil.rmtree(folder, ignore_errors=True)
    model.to(variant.dtype).save_pretrained(folder, max_shard_size=variant.shard_size)

    # Load the saved folder and compute in float32, as another program would.
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    assert type(model) is model_class
    tokens = torch.randint(0, model.config.vocab_size, (PROMPT_TOKENS,), generator=generator)
    with torch.no_grad():
        logits = model.eval()(tokens[None]).logits[0]
    rotary = model.model.rotary_emb
    save_file({"tokens": tokens, "logits": logits.contiguous(),
               "inverse_frequencies": rotary.inv_freq.clone(),
               "attention_factor": torch.tensor([float(rotary.attention_scaling)])},
              folder / "golden.safetensors", metadata={"transformers": transformers.__version__})
    return logits


def main(out):
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for seed, variant in enumerate(VARIANTS):
        folder = out / f"{variant.family}-{variant.name}"
        logits = write(variant, folder, seed)
        size = sum(file.stat().st_size for file in folder.iterdir())
        print(f"{folder.name}: {len(list(folder.iterdir()))} files, {size} bytes, logits up to {logits.abs().max():.2f}")
    written = {f"{variant.family}-{variant.name}" for variant in VARIANTS}
    for folder in out.iterdir():
        if folder.is_dir() and folder.name not in written:
            shutil.rmtree(folder)
    (out / "index.json").write_text(json.dumps(sorted(written), indent=1) + "\n")


if __name__ == "__main__":
    repository = pathlib.Path(__file__).resolve().parent.parent
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else repository / "tests/golden/hf")
