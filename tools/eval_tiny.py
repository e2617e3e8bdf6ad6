#!/usr/bin/env python3
"""Samples stories from a trained model folder and checks them with tools/story/check_story.py.

    eval_tiny.py models/incipit-tiny --count 200 --seed 1 --temperature 0.7

Each kind of prompt is sampled `--count` times: the begin token only; `Once upon a time`; chat
requests; chats with a system message and a second round; stories cut anywhere; a story cut
anywhere after several other stories (long). For chats, also prints how many stories are about the
requested subject. The weights are the folder's bf16 weights; the model computes in f32.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parent))
from tiny.model import Llama, load_checkpoint, sample  # noqa: E402
from tiny.tokenizer import BEGIN, END, END_OF_TEXT, SYSTEM, USER, ASSISTANT  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent / "story"))
from chat import ASKS, MORE, SMALL_TALK, SYSTEMS  # noqa: E402
from check_story import verdict  # noqa: E402
from generate import draw_setting, write_story  # noqa: E402
from world import article  # noqa: E402

KINDS = ("bare", "once", "chat", "rounds", "cut", "long")
LIMIT = 320  # maximum tokens of a sampled story


@dataclass
class Prompt:
    """A prompt text with special tokens, the part of the story in the prompt, and words that must
    occur."""

    text: str
    begun: str = ""
    wanted: tuple[str, ...] = ()


def make_prompt(kind: str, rng: random.Random) -> Prompt:
    """Returns a random prompt of one of KINDS."""
    setting = draw_setting(rng)
    story = write_story(setting, rng)
    if kind == "bare":
        return Prompt(BEGIN)
    if kind == "once":
        return Prompt(BEGIN + "Once upon a time", "Once upon a time")
    if kind in ("cut", "long"):
        begun = story[: rng.randint(1, len(story) * 2 // 3)]
        count = rng.randint(3, 11) if kind == "long" else 0
        before = "".join(write_story(draw_setting(rng), rng) + "\n\n" for _ in range(count))
        return Prompt(BEGIN + before + begun, begun)
    thing = f"{setting.adjective} {setting.thing.noun}"
    where = f"{setting.place.preposition} the {setting.place.noun}"
    asked = f"{rng.choice(ASKS)} about {setting.hero} and {article(thing)} {where}."
    head = BEGIN
    if kind == "rounds":
        head += SYSTEM + rng.choice(SYSTEMS) + END if rng.random() < 0.7 else ""
        first = rng.choice((*MORE, *SMALL_TALK))
        head += USER + first + END + ASSISTANT + write_story(draw_setting(rng), rng) + END
    text = head + USER + asked + END + ASSISTANT
    return Prompt(text, wanted=(setting.hero, thing, setting.place.noun))


def complete(
    model: Llama,
    tokenizer: Tokenizer,
    prompts: list[Prompt],
    temperature: float,
    generator: torch.Generator,
) -> list[str]:
    """Returns the story of each prompt: the part in the prompt and the model's output."""
    ends = [tokenizer.token_to_id(END_OF_TEXT), tokenizer.token_to_id(END)]
    ids = [tokenizer.encode(p.text, add_special_tokens=False).ids for p in prompts]
    groups = defaultdict(list)
    for i, prompt_ids in enumerate(ids):
        groups[len(prompt_ids)].append(i)
    stories = [""] * len(prompts)
    for group in groups.values():
        outputs = sample(model, [ids[i] for i in group], ends, LIMIT, temperature, generator)
        for i, output in zip(group, outputs):
            stories[i] = prompts[i].begun + tokenizer.decode(output)
    return stories


def main() -> None:
    """Prints the accepted and total number of stories for each kind of prompt."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", type=Path, help="also write the stories as JSON lines")
    parser.add_argument("--verbose", action="store_true", help="show rejected stories")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = load_checkpoint(args.folder)
    tokenizer = Tokenizer.from_file(str(args.folder / "tokenizer.json"))
    generator = torch.Generator().manual_seed(args.seed)
    lines = []
    for kind in args.kinds:
        rng = random.Random(f"{kind} {args.seed}")
        prompts = [make_prompt(kind, rng) for _ in range(args.count)]
        stories = complete(model, tokenizer, prompts, args.temperature, generator)
        reasons = [verdict(story) for story in stories]
        about = sum(all(w in s for w in p.wanted) for p, s in zip(prompts, stories))
        asked = f", {about} about what was asked" if prompts[0].wanted else ""
        print(
            f"{kind}: {reasons.count('')}/{len(stories)} accepted{asked}, "
            f"{len(set(stories))} different",
            flush=True,
        )
        if args.verbose:
            counts = Counter(reason.split(":")[0] for reason in reasons if reason)
            print("  ", dict(counts))
            for story, reason in zip(stories, reasons):
                if reason:
                    print(f"--- {reason}\n{story}")
        lines += [
            json.dumps({"kind": kind, "text": s, "verdict": r}) for s, r in zip(stories, reasons)
        ]
    if args.write:
        args.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
