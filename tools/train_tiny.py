#!/usr/bin/env python3
"""Trains models/incipit-tiny: its tokenizer and its weights, from stories that tools/story writes.

    python3 -m venv ~/venv && ~/venv/bin/pip install -r tools/requirements-train.txt
    ~/venv/bin/python tools/train_tiny.py --minutes 60 --scratch /tmp/tiny --output models/incipit-tiny

The seed fixes the initial weights and the stories in their order. The learning rate follows the time
that has passed (or, with --steps, the steps done), so a run ends with it at its lowest whatever the
speed of the machine; only --steps makes two runs see the same number of stories.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))
from tiny.data import IGNORED, Documents  # noqa: E402
from tiny.model import Llama, Shape, save_checkpoint  # noqa: E402
from tiny.muon import Muon  # noqa: E402
from tiny.tokenizer import BEGIN, END, END_OF_TEXT, save_tokenizer, train_tokenizer  # noqa: E402

# Rows of so many tokens, in turn; 0 stands for one document a row. Alone, a story is learned fastest:
# what is to be copied is there once. Among others the model learns to keep to the last one.
ROWS_FIRST, ROWS_LATER = (0,), (0, 512, 0, 2048)
FIRST_PART = 0.4  # the part of the run that uses ROWS_FIRST


def rate_factor(done: float, step: int, warmup: int) -> float:
    """Part of the peak learning rate: warm-up by steps, then a cosine over `done` down to 2 %."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def make_optimizers(model: Llama, args: argparse.Namespace) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for the embedding and the norms."""
    inner = [p for p in model.layers.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    outer = [{"params": [model.embed_tokens.weight, *vectors], "weight_decay": 0.0}]
    optimizers = [
        Muon(inner, weight_decay=0.02),
        torch.optim.AdamW(outer, betas=(0.9, 0.97), eps=1e-8),
    ]
    for optimizer, peak in zip(optimizers, (args.inner_rate, args.outer_rate)):
        for group in optimizer.param_groups:
            group["peak"] = peak
    return optimizers


def draw_batch(documents: Documents, tokens: int, step: int, done: float):
    """Inputs and targets of one step, about so many tokens."""
    rows = ROWS_FIRST if done < FIRST_PART else ROWS_LATER
    length = rows[step % len(rows)]
    if length == 0:
        return documents.single_rows(tokens)
    return documents.rows(tokens // length, length)


def loss_of(model: Llama, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy over the targets that count."""
    keep = targets != IGNORED
    return F.cross_entropy(model.logits(model(inputs)[keep]), targets[keep])


def held_out_loss(model: Llama, tokenizer) -> float:
    """The loss on stories of a seed that training does not use."""
    inputs, targets = Documents(tokenizer, seed=987_654_321).rows(16, 512)
    with torch.no_grad():
        return float(loss_of(model, inputs, targets))


def train(args: argparse.Namespace) -> None:
    """Runs the whole training and writes the model folder."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    shape = Shape(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.intermediate,
        num_hidden_layers=args.layers,
    )
    tokenizer = train_tokenizer(shape.vocab_size, args.seed)
    begin = tokenizer.token_to_id(BEGIN)
    ends = [tokenizer.token_to_id(END_OF_TEXT), tokenizer.token_to_id(END)]

    def save(folder: Path) -> None:
        save_checkpoint(model, folder, begin, ends)
        save_tokenizer(tokenizer, folder, shape.max_position_embeddings)

    model = Llama(shape)
    optimizers = make_optimizers(model, args)
    documents = Documents(tokenizer, args.seed)
    print(f"parameters {sum(p.numel() for p in model.parameters())}", flush=True)
    start = saved = time.monotonic()
    step, tokens, average, done = 0, 0, float("nan"), 0.0
    while done < 1.0:
        inputs, targets = draw_batch(documents, args.batch_tokens, step, done)
        factor = rate_factor(done, step, args.warmup)
        loss = loss_of(model, inputs, targets)
        model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * factor
            optimizer.step()
        step, tokens = step + 1, tokens + inputs.numel()
        average = loss.item() if step == 1 else 0.95 * average + 0.05 * loss.item()
        now = time.monotonic()
        done = step / args.steps if args.steps else (now - start) / (60 * args.minutes)
        if step % 25 == 0:
            speed = tokens / (now - start)
            print(
                f"step {step} {now - start:.0f}s loss {average:.4f} rate {factor:.3f} "
                f"{speed:.0f} tokens/s",
                flush=True,
            )
        if now - saved > args.save_seconds:
            saved = now
            save(args.scratch / "checkpoint")
    save(args.output or args.scratch / "final")
    record = {
        "seed": args.seed,
        "steps": step,
        "tokens": tokens,
        "minutes": round((now - start) / 60, 1),
        "training_loss": round(average, 4),
        "held_out_loss": round(held_out_loss(model, tokenizer), 4),
    }
    (args.scratch / "record.json").write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record))


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scratch", type=Path, required=True, help="checkpoints and the record")
    parser.add_argument("--output", type=Path, help="the model folder to write at the end")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--steps", type=int, default=0, help="instead of --minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--vocab", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--intermediate", type=int, default=640)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--inner-rate", type=float, default=0.02, help="of the layers' matrices")
    parser.add_argument("--outer-rate", type=float, default=3e-3, help="of the embedding and norms")
    parser.add_argument("--warmup", type=int, default=60)
    parser.add_argument("--save-seconds", type=float, default=120.0)
    args = parser.parse_args()
    args.scratch.mkdir(parents=True, exist_ok=True)
    train(args)


if __name__ == "__main__":
    main()
