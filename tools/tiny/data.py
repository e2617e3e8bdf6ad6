"""Training rows for the bundled model: stories and conversations as token ids."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "story"))
from chat import write_conversation  # noqa: E402
from generate import draw_setting, write_story  # noqa: E402
from world import (  # noqa: E402
    BOYS,
    COLORS,
    FAMILY,
    GIRLS,
    LOOKS,
    PEOPLE,
    PLACES,
    THIEVES,
    THINGS,
    TOOLS_FIX,
    TOOLS_WASH,
    TREATS,
)
from tiny.tokenizer import ASSISTANT, BEGIN, END, END_OF_TEXT, SYSTEM, USER  # noqa: E402

# Words that a story must copy from its beginning. They have a larger weight, because copying is
# hard to learn.
KEPT = (
    *GIRLS,
    *BOYS,
    *THINGS,
    *PLACES,
    *COLORS,
    *LOOKS,
    *FAMILY,
    *PEOPLE,
    *THIEVES,
    *TREATS,
    *TOOLS_FIX,
    *TOOLS_WASH,
    "she",
    "he",
    "her",
    "his",
    "him",
    "She",
    "He",
    "Her",
    "His",
    "ladder",
    "stick",
    "rope",
    "net",
    "tree",
    "roof",
    "shelf",
    "in",
    "on",
    "at",
    "by",
)
KEPT_WEIGHT = 4.0
IGNORED = -100  # target value of positions without loss
SINGLE = 240  # maximum tokens of a document that gets a row of its own


@dataclass(frozen=True)
class Mix:
    """The shares of the kinds of documents among all documents."""

    chat: float = 0.25  # conversations
    joined: float = 0.10  # several stories in one text, as in a long prompt
    cut: float = 0.08  # texts encoded in two parts, because a prompt may end anywhere


def target_weights(tokenizer: Tokenizer) -> torch.Tensor:
    """Returns the loss weight of each id, [vocab_size]: larger for the first ids of words in KEPT.
    """
    weights = torch.ones(tokenizer.get_vocab_size())
    for word in KEPT:
        for form in (word, " " + word):
            weights[tokenizer.encode(form, add_special_tokens=False).ids[0]] = KEPT_WEIGHT
    return weights


class Documents:
    """An endless stream of documents as (ids, counts). `counts` is true for ids that the model
    learns."""

    def __init__(self, tokenizer: Tokenizer, seed: int, mix: Mix = Mix()):
        self.tokenizer = tokenizer
        self.rng = random.Random(seed)
        self.mix = mix
        self.special = {
            text: tokenizer.token_to_id(text)
            for text in (BEGIN, END_OF_TEXT, SYSTEM, USER, ASSISTANT, END)
        }

    def encode(self, text: str, may_cut: bool = True) -> list[int]:
        """Returns the ids of a text without special tokens. Sometimes the text is encoded in two
        parts."""
        parts = [text]
        if may_cut and self.rng.random() < self.mix.cut:
            at = self.rng.randint(1, len(text) - 1)
            parts = [text[:at], text[at:]]
        encode = self.tokenizer.encode
        return [i for part in parts for i in encode(part, add_special_tokens=False).ids]

    def story(self) -> list[int]:
        """Returns the ids of a random story."""
        return self.encode(write_story(draw_setting(self.rng), self.rng))

    def draw(self) -> tuple[list[int], list[bool]]:
        """Returns a random document."""
        dice = self.rng.random()
        if dice < self.mix.chat:
            return self.conversation()
        if dice < self.mix.chat + self.mix.joined:
            return self.joined()
        ids = [self.special[BEGIN], *self.story(), self.special[END_OF_TEXT]]
        return ids, [False] + [True] * (len(ids) - 1)

    def joined(self) -> tuple[list[int], list[bool]]:
        """Returns several stories in one text. The separators are not learned, because a text ends
        after a story."""
        text, joints = "", []
        for _ in range(self.rng.randint(1, 14)):
            text += write_story(draw_setting(self.rng), self.rng)
            joint = self.rng.choices(("\n\n", "\n", " "), (6, 2, 1))[0]
            joints.append((len(text) - 1, len(text) + len(joint)))
            text += joint
        text += write_story(draw_setting(self.rng), self.rng)
        encoding = self.tokenizer.encode(text, add_special_tokens=False)
        counts = [True] * len(encoding.ids)
        at = 0
        for i, (start, end) in enumerate(encoding.offsets):
            while at < len(joints) and joints[at][1] <= start:
                at += 1
            # The last character of a separator may be the space that belongs to the next word.
            if at < len(joints) and start < joints[at][1] and end > joints[at][0]:
                counts[i] = False
        ids = [self.special[BEGIN], *encoding.ids, self.special[END_OF_TEXT]]
        return ids, [False, *counts, True]

    def conversation(self) -> tuple[list[int], list[bool]]:
        """Returns a conversation in the format of the chat template. Only the assistant's tokens
        are learned."""
        ids, counts = [self.special[BEGIN]], [False]
        for turn in write_conversation(self.rng):
            own = turn.role == "assistant"
            body = self.encode(turn.content.strip(), may_cut=own)
            ids += [self.special[f"<|{turn.role}|>"], *body, self.special[END]]
            counts += [False] + [own] * (len(body) + 1)
        return ids, counts

    def single_rows(self, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns inputs and targets, [count, length] each. Each row has one document of up to
        SINGLE ids; the rest of the row is ignored."""
        drawn = []
        while sum(len(ids) for ids, _ in drawn) < tokens:
            ids, counts = self.draw()
            if len(ids) <= SINGLE:
                drawn.append((ids, counts))
        length = max(len(ids) for ids, _ in drawn) - 1
        inputs = torch.full((len(drawn), length), self.special[END_OF_TEXT], dtype=torch.long)
        targets = torch.full((len(drawn), length), IGNORED, dtype=torch.long)
        for row, (ids, counts) in enumerate(drawn):
            inputs[row, : len(ids) - 1] = torch.tensor(ids[:-1])
            wanted = [i if c else IGNORED for i, c in zip(ids, counts)]
            targets[row, : len(ids) - 1] = torch.tensor(wanted[1:])
        return inputs, targets

    def rows(self, count: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns inputs and targets, [count, length] each. Each row begins with the start of a
        document."""
        inputs = torch.empty(count, length, dtype=torch.long)
        targets = torch.empty(count, length, dtype=torch.long)
        for row in range(count):
            ids: list[int] = []
            counts: list[bool] = []
            while len(ids) <= length:
                more, learned = self.draw()
                ids += more
                counts += learned
            inputs[row] = torch.tensor(ids[:length])
            wanted = [i if c else IGNORED for i, c in zip(ids, counts)]
            targets[row] = torch.tensor(wanted[1 : length + 1])
        return inputs, targets
