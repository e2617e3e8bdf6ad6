#!/usr/bin/env python3
"""Trains models/incipit-tiny: its tokenizer and its weights, on stories that tools/story
generates.

    python3 -m venv ~/venv && ~/venv/bin/pip install -r tools/requirements-train.txt
    ~/venv/bin/python tools/train_tiny.py --scratch /tmp/tiny --output models/incipit-tiny

The seed determines the initial weights, the stories and their order. The learning rate rises,
stays constant, and falls at the end. The fall takes --decay-steps; it begins after --minutes, or
when the file `finish` is created in the scratch folder (`touch /tmp/tiny/finish`). --resume
continues an interrupted run. /tmp/tiny/checkpoint always holds a usable model; tools/eval_tiny.py
measures its quality.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parent))
from tiny.data import IGNORED, Documents, target_weights  # noqa: E402
from tiny.model import Llama, Shape, load_checkpoint, save_checkpoint  # noqa: E402
from tiny.muon import Muon  # noqa: E402
from tiny.tokenizer import BEGIN, END, END_OF_TEXT, save_tokenizer, train_tokenizer  # noqa: E402

# Tokens per row, used in turn; 0 stands for one document per row. A single story per row is learned
# fastest, because each name to copy occurs in one story only. Rows with several stories teach the
# model to use the last story.
ROWS = (0, 0, 0, 0, 0, 512, 0, 0, 0, 0, 0, 2048)
COUNTERS = ("step", "tokens", "seconds", "decay_start", "average")
TOKENIZER_SEED = 1


def make_optimizers(model: Llama) -> list[torch.optim.Optimizer]:
    """Returns Muon for the matrices of the layers, AdamW for the embedding and the norms."""
    inner = [p for p in model.layers.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    outer = [{"params": [model.embed_tokens.weight, *vectors], "weight_decay": 0.0}]
    return [
        Muon(inner, weight_decay=0.02),
        torch.optim.AdamW(outer, betas=(0.9, 0.97), eps=1e-8),
    ]


def loss_of(model: Llama, batch, weights: torch.Tensor | None = None) -> torch.Tensor:
    """Returns the weighted mean cross entropy over the targets that are not ignored."""
    inputs, targets = batch
    keep = targets != IGNORED
    return F.cross_entropy(model.logits(model(inputs)[keep]), targets[keep], weight=weights)


def held_out_loss(model: Llama, tokenizer) -> float:
    """Returns the unweighted loss on single documents from a seed that training does not use."""
    with torch.no_grad():
        batch = Documents(tokenizer, seed=987_654_321).single_rows(32_768)
        return float(loss_of(model, batch))


class Run:
    """A training run: the model, the progress, and the files in the scratch folder."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.shape = Shape(args.vocab, args.hidden, args.intermediate, args.layers)
        self.tokenizer = (
            Tokenizer.from_file(str(args.init / "tokenizer.json"))
            if args.init
            else train_tokenizer(args.vocab, TOKENIZER_SEED)
        )
        self.model = Llama(self.shape)
        self.optimizers = make_optimizers(self.model)
        self.documents = Documents(self.tokenizer, args.seed)
        self.weights = target_weights(self.tokenizer)
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.decay_start: int | None = None  # step at which the learning rate began to fall
        self.average = float("nan")

    def factor(self) -> float:
        """Returns the share of the peak learning rate at this step: a rise, a constant part, a
        linear fall."""
        if self.decay_start is not None:
            return max(0.0, 1.0 - (self.step - self.decay_start) / self.args.decay_steps)
        return min(1.0, (self.step + 1) / self.args.warmup)

    def finished(self) -> bool:
        """Returns true after the fall, which begins after --minutes or when a file `finish` exists
        in scratch."""
        if self.decay_start is None:
            due = self.seconds > 60 * self.args.minutes
            if due or (self.args.scratch / "finish").exists():
                self.decay_start = self.step
        return self.decay_start is not None and self.factor() <= 0.0

    def learn(self) -> None:
        """Trains one step."""
        length = ROWS[self.step % len(ROWS)]
        if length == 0:
            batch = self.documents.single_rows(self.args.batch_tokens)
        else:
            batch = self.documents.rows(max(1, self.args.batch_tokens // length), length)
        loss = loss_of(self.model, batch, self.weights)
        self.model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        factor = self.factor()
        peaks = (self.args.inner_rate, self.args.outer_rate)
        for optimizer, peak in zip(self.optimizers, peaks):
            for group in optimizer.param_groups:
                group["lr"] = peak * factor
            optimizer.step()
        self.step += 1
        self.tokens += batch[0].numel()
        value = loss.item()
        self.average = value if self.step == 1 else 0.97 * self.average + 0.03 * value

    def save_model(self, folder: Path) -> None:
        """Writes a model folder."""
        special = self.tokenizer.token_to_id
        ends = [special(END_OF_TEXT), special(END)]
        save_checkpoint(self.model, folder, special(BEGIN), ends)
        save_tokenizer(self.tokenizer, folder, self.shape.max_position_embeddings)

    def save_state(self) -> None:
        """Writes a model folder and the state for --resume."""
        self.save_model(self.args.scratch / "checkpoint")
        state = {name: getattr(self, name) for name in COUNTERS}
        state["model"] = self.model.state_dict()
        state["optimizers"] = [optimizer.state_dict() for optimizer in self.optimizers]
        state["random"] = self.documents.rng.getstate()
        torch.save(state, self.args.scratch / "state.new")
        (self.args.scratch / "state.new").replace(self.args.scratch / "state.pt")

    def resume(self) -> None:
        """Restores the state that save_state wrote."""
        state = torch.load(self.args.scratch / "state.pt", weights_only=False)
        for name in COUNTERS:
            setattr(self, name, state[name])
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        self.documents.rng.setstate(state["random"])

    def record(self) -> dict:
        """Returns the figures of the run."""
        return {
            "seed": self.args.seed,
            "steps": self.step,
            "tokens": self.tokens,
            "minutes": round(self.seconds / 60, 1),
            "weighted_training_loss": round(self.average, 4),
            "held_out_loss": round(held_out_loss(self.model, self.tokenizer), 4),
        }


def train(args: argparse.Namespace) -> None:
    """Runs the training and writes the model folder."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    run = Run(args)
    if args.init:
        run.model.load_state_dict(load_checkpoint(args.init).state_dict())
    if args.resume:
        run.resume()
    print(f"parameters {sum(p.numel() for p in run.model.parameters())}", flush=True)
    before = saved = time.monotonic()
    while not run.finished():
        run.learn()
        now = time.monotonic()
        run.seconds, before = run.seconds + now - before, now
        if run.step % 25 == 0:
            speed = run.tokens / run.seconds
            print(
                f"step {run.step} {run.seconds:.0f}s loss {run.average:.4f} "
                f"rate {run.factor():.3f} {speed:.0f} tokens/s",
                flush=True,
            )
        if now - saved > args.save_seconds:
            saved = now
            run.save_state()
    run.save_model(args.output or args.scratch / "final")
    text = json.dumps(run.record(), indent=2)
    (args.scratch / "record.json").write_text(text + "\n", encoding="utf-8")
    print(text)


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scratch", type=Path, required=True, help="folder for checkpoints and the record of the run")
    parser.add_argument("--output", type=Path, help="the model folder to write at the end")
    parser.add_argument("--minutes", type=float, default=45.0, help="minutes of training before the learning rate falls")
    parser.add_argument("--decay-steps", type=int, default=600, help="steps during which the learning rate falls")
    parser.add_argument("--resume", action="store_true", help="continue from the state in the scratch folder")
    parser.add_argument("--init", type=Path, help="model folder whose tokenizer and weights are the start")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--vocab", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--intermediate", type=int, default=640)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--inner-rate", type=float, default=0.02, help="peak learning rate of the layers' matrices")
    parser.add_argument("--outer-rate", type=float, default=3e-3, help="peak learning rate of embedding and norms")
    parser.add_argument("--warmup", type=int, default=60)
    parser.add_argument("--save-seconds", type=float, default=120.0)
    args = parser.parse_args()
    args.scratch.mkdir(parents=True, exist_ok=True)
    train(args)


if __name__ == "__main__":
    main()
