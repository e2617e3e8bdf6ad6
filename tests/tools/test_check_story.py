"""Checks that the story checker accepts good stories, generated or written by hand, and rejects damaged stories."""

from __future__ import annotations

import random
import re
import sys
import unittest
from pathlib import Path
from typing import Callable, Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "story"))
from check_story import verdict  # noqa: E402
from generate import Setting, draw_setting, write_story  # noqa: E402
from plots import PLOTS  # noqa: E402
from world import BOYS, COLORS, GIRLS, PLACES, THINGS  # noqa: E402

UNFINISHED_BY_HAND = """\
Once upon a time, there was a brave little bear named Otis. He loved to jump in the meadow. He had a \
shiny ball that he loved to throw.
One warm morning, Otis dropped the ball and it rolled away. It fell into a deep hole. He was sad."""

# A story that follows the rules, in sentences that the generator cannot write.
GOOD_BY_HAND = """\
Once upon a time, there was a clever bear named Leo. He loved to run in the meadow. Leo had a shiny \
ball and loved it. One morning, Leo walked to the meadow with his ball.
Suddenly, the ball rolled into a hole. Leo could not get it, and he cried. His sister Amy heard Leo. \
"What happened?" asked Amy. Leo said, "I dropped my ball. It is in the hole." Amy ran home and came \
back with a rope. She pulled the ball out.
Leo hugged Amy and said, "You are very kind, Amy!" They played with the shiny ball until the sun went down."""


def replaced(text: str, match: re.Match[str], by: str) -> str:
    """Returns the text with the match replaced by `by`."""
    return text[: match.start()] + by + text[match.end() :]


def pick(rng: random.Random, pattern: str, text: str, first: int = 0) -> re.Match[str] | None:
    """Returns a random match of the pattern, or None. The matches before index `first` are left out."""
    matches = list(re.finditer(pattern, text))[first:]
    return rng.choice(matches) if matches else None


def swap(words, pattern_of: Callable[[Setting], str | None], first: int = 0):
    """Returns a damage function that replaces a word of the setting by another word of the same kind."""

    def damage(rng: random.Random, setting: Setting, text: str) -> str | None:
        word = pattern_of(setting)
        match = pick(rng, rf"\b{word}\b", text, first) if word else None
        others = [w for w in words if w not in (setting.hero, setting.helper, word)]
        return match and replaced(text, match, rng.choice(others))

    return damage


def edit(pattern: str, by: Callable[[str], str]):
    """Returns a damage function that replaces one match of the pattern."""

    def damage(rng: random.Random, setting: Setting, text: str) -> str | None:
        match = pick(rng, pattern, text)
        return match and replaced(text, match, by(match[0]))

    return damage


def cut_end(rng: random.Random, setting: Setting, text: str) -> str:
    """Returns the story without its last sentence."""
    return text[: max(text.rfind(c, 0, -1) for c in ".!") + 1]


def cut_words(rng: random.Random, setting: Setting, text: str) -> str:
    """Returns the story cut after a random word."""
    words = text.split(" ")
    return " ".join(words[: rng.randint(5, len(words) - 1)])


def cut_start(rng: random.Random, setting: Setting, text: str) -> str:
    """Returns the story without its first sentence."""
    return text[text.index(". ") + 2 :]


def say_twice(rng: random.Random, setting: Setting, text: str) -> str:
    """Returns the story with its first sentence repeated."""
    return text[: text.index(". ") + 2] + text


PRONOUNS = {"she": "he", "he": "she", "She": "He", "He": "She"}
POSSESSIVES = {"his": "her", "His": "Her"}
# Kinds of damage, and the minimum share of stories in which the checker must find the damage. The share is 1 if every
# result is wrong. The share is lower if the damaged story may be as good as before, for example after the removal of
# a `very`.
DAMAGES = {
    "hero renamed": (swap(GIRLS + BOYS, lambda s: s.hero), 1.0),
    "helper renamed": (swap(GIRLS + BOYS, lambda s: s.helper, first=1), 1.0),
    "other thing": (swap(list(THINGS), lambda s: s.thing.noun), 1.0),
    "other place": (swap(list(PLACES), lambda s: s.place.noun, first=1), 1.0),
    "other look": (swap(COLORS, lambda s: s.adjective, first=1), 1.0),
    "other pronoun": (edit(r"\b([Ss]he|[Hh]e)\b", PRONOUNS.__getitem__), 1.0),
    "other possessive": (edit(r"\b[Hh]is\b", POSSESSIVES.__getitem__), 1.0),
    "no ending": (cut_end, 1.0),
    "cut at a word": (cut_words, 1.0),
    "no beginning": (cut_start, 1.0),
    "sentence said twice": (say_twice, 1.0),
    "word said twice": (edit(r"\b\w+\b", lambda word: f"{word} {word}"), 1.0),
    "no capital": (edit(r"^[A-Z]", str.lower), 1.0),
    "quotation mark lost": (edit('"', lambda _: ""), 1.0),
    "full stop lost": (edit(r"\.(?= )", lambda _: ""), 0.95),
    "word lost": (edit(r"\b\w+ ", lambda _: ""), 0.85),
    "word misspelt": (edit(r"\b\w\w\w+\b", lambda word: word[:-1] + "q"), 1.0),
}


class CheckStoryTest(unittest.TestCase):
    """Tests with stories from fixed seeds."""

    def stories(self, count: int) -> Iterator[tuple[random.Random, Setting, str]]:
        """Yields stories with their settings, and a random generator for the damage."""
        rng = random.Random(20)
        for _ in range(count):
            setting = draw_setting(rng)
            yield rng, setting, write_story(setting, rng)

    def test_accepts_what_the_generator_writes(self) -> None:
        for _, _, text in self.stories(500):
            self.assertEqual(verdict(text), "", text)

    def test_accepts_a_good_story_of_other_sentences(self) -> None:
        self.assertEqual(verdict(GOOD_BY_HAND), "")

    def test_rejects_a_story_without_help_or_end(self) -> None:
        self.assertNotEqual(verdict(UNFINISHED_BY_HAND), "")

    def test_rejects_text_that_is_no_story(self) -> None:
        for text in (
            "",
            "\n",
            "Hello.",
            "Once upon a time",
            "\u00e9t\u00e9",
            '"',
            '""',
            "a" * 5000,
            "! ! !",
        ):
            self.assertNotEqual(verdict(text), "", repr(text))

    def test_rejects_damaged_stories(self) -> None:
        for name, (damage, least) in DAMAGES.items():
            noticed = total = 0
            for rng, setting, text in self.stories(150):
                damaged = damage(rng, setting, text)
                if damaged is None or damaged == text:
                    continue
                total += 1
                noticed += verdict(damaged) != ""
                if least == 1.0:
                    self.assertNotEqual(verdict(damaged), "", f"{name}:\n{damaged}")
            with self.subTest(damage=name):
                self.assertGreater(total, 40)
                self.assertGreaterEqual(noticed, least * total)

    def test_rejects_an_ending_that_belongs_to_another_plot(self) -> None:
        tails = {}
        for _, setting, text in self.stories(300):
            tails.setdefault(setting.plot.name, []).append((setting, text))
        self.assertEqual(set(tails), {plot.name for plot in PLOTS})
        lost, broken = tails["lost"][0][1], tails["broken"][0][1]
        self.assertNotEqual(verdict("\n".join(lost.split("\n")[:2] + broken.split("\n")[2:])), "")

    def test_stories_differ(self) -> None:
        self.assertEqual(len({text for _, _, text in self.stories(1000)}), 1000)


if __name__ == "__main__":
    unittest.main()
