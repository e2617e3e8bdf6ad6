#!/usr/bin/env python3
"""Checks stories against the rules of the generator; prints `accepted/total`.

    check_story.py stories.txt            stories separated by an empty line
    check_story.py --jsonl stories.jsonl  a JSON string, or an object with "text", on each line

Rules for a story:
- Every sentence is well formed.
- The first sentence introduces the hero. The helper is introduced before other mentions. Nobody
  else appears.
- The story has one thing with one adjective (such as red), and one place.
- Pronouns and possessives match the persons. Speech matches its speaker and its listener.
- A noun with `the` was mentioned before.
- There is one kind of trouble, and a later sentence with the helper mends it.
- No sentence occurs twice. Only the last sentence ends the story.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

from cast import Cast
from grammar import derives
from props import Props
from reading import BadStory, Sentence, read_story
from troubles import check_trouble

ENDING = re.compile(
    r"^(From that day on|At the end of the day), |until the sun went down\.$|^\w+ learned that "
)
FEWEST_SENTENCES, MOST_SENTENCES = 8, 40


def check_sentences(story: list[Sentence]) -> None:
    """Checks that the grammar derives every sentence, narrated or spoken."""
    for sentence in story:
        if not derives("TEXT", sentence.tokens):
            raise BadStory(f"not well formed: {sentence.text}")
        for quote in sentence.quotes:
            for spoken in quote:
                if spoken.quotes or not derives("SAY", spoken.tokens):
                    raise BadStory(f"not well formed: {spoken.text}")


def check_course(story: list[Sentence]) -> None:
    """Checks that the story has a reasonable length, does not repeat itself, and has only one
    ending, at its end."""
    if not FEWEST_SENTENCES <= len(story) <= MOST_SENTENCES:
        raise BadStory(f"{len(story)} sentences")
    spoken = [spoken.text for s in story for quote in s.quotes for spoken in quote]
    counted = Counter([s.text for s in story] + spoken)
    again = [text for text, n in counted.items() if n > 1]
    if again:
        raise BadStory(f"sentence occurs twice: {again[0]}")
    for sentence in story[:-1]:
        if ENDING.search(sentence.text):
            raise BadStory(f"an ending before the end: {sentence.text}")
    if not ENDING.search(story[-1].text):
        raise BadStory(f"no ending: {story[-1].text}")


def check_story(text: str) -> None:
    """Raises BadStory with the first broken rule; returns if no rule is broken."""
    story = read_story(text)
    check_sentences(story)
    check_course(story)
    cast, props = Cast(story[0]), Props()
    for number, sentence in enumerate(story):
        cast.follow(sentence, story[number - 1] if number else None)
        props.follow(sentence)
    cast.finish()
    props.finish()
    check_trouble(story, cast, props)


def verdict(text: str) -> str:
    """Returns the rule that the story breaks, or an empty string."""
    try:
        check_story(text)
    except BadStory as broken:
        return str(broken)
    return ""


def read_stories(path: Path, jsonl: bool) -> list[str]:
    """Returns the stories in a file."""
    text = path.read_text(encoding="utf-8")
    if not jsonl:
        return [story.strip("\n") for story in re.split(r"\n\s*\n", text) if story.strip()]
    values = [json.loads(line) for line in text.splitlines() if line.strip()]
    return [value if isinstance(value, str) else value["text"] for value in values]


def main() -> int:
    """Returns exit status 0 if the share of accepted stories is at least --at-least."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--jsonl", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="print why a story is rejected")
    parser.add_argument("--at-least", type=float, default=0.0, help="minimum share of accepted stories")
    args = parser.parse_args()
    stories = read_stories(args.file, args.jsonl)
    verdicts = [verdict(story) for story in stories]
    if args.verbose:
        for number, reason in enumerate(verdicts):
            if reason:
                print(f"story {number}: {reason}", file=sys.stderr)
    accepted = verdicts.count("")
    print(f"{accepted}/{len(stories)}")
    return 0 if stories and accepted >= args.at_least * len(stories) else 1


if __name__ == "__main__":
    sys.exit(main())
