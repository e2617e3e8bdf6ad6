"""Splits the text of a story into paragraphs, sentences, quoted speech and words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from grammar import known
from world import FAMILY

TITLES = {title: kin for kin, (_, title) in FAMILY.items()}  # how a child addresses family members
TOKEN = re.compile(r"\"[^\"]*\"|[A-Za-z]+|[.,!?]")
QUOTE_KINDS = {",": "@qc", ".": "@qd", "!": "@qe", "?": "@qq"}


class BadStory(ValueError):
    """The story breaks a rule; the message names the rule."""


@dataclass
class Sentence:
    """One sentence. Words of quoted speech are in `quotes`, not in `words`."""

    text: str
    tokens: tuple[str, ...]  # in the format of grammar.derives
    words: list[str]  # narrated words: names as written, others in lower case
    quotes: list[list["Sentence"]] = field(default_factory=list)
    paragraph: int = 0

    def names(self) -> list[str]:
        """Returns the narrated names in order."""
        return [w for w in self.words if w[0].isupper()]


def read_story(text: str) -> list[Sentence]:
    """Returns the sentences of a story. Raises BadStory if the text does not consist of sentences.
    """
    if text != text.strip() or "  " in text or " \n" in text or "\n " in text:
        raise BadStory("stray white space")
    sentences = []
    for number, paragraph in enumerate(re.split(r"\n+", text)):
        for sentence in _read_paragraph(paragraph):
            sentence.paragraph = number
            sentences.append(sentence)
    return sentences


def _read_paragraph(text: str, spoken: bool = False) -> list[Sentence]:
    pieces = TOKEN.findall(text)
    if spell(pieces) != text:
        raise BadStory(f"odd characters or spacing in: {text}")
    twice = [a for a, b in zip(pieces, pieces[1:]) if a.lower() == b.lower()]
    if twice:
        raise BadStory(f"{twice[0]} twice in a row")
    sentences, start = [], 0
    for i, piece in enumerate(pieces):
        following = pieces[i + 1] if i + 1 < len(pieces) else ""
        if _ends_sentence(pieces[start:i], piece, following):
            sentences.append(_sentence(pieces[start : i + 1], spoken))
            start = i + 1
    if start < len(pieces):
        raise BadStory(f"unfinished sentence: {spell(pieces[start:])}")
    return sentences


def _ends_sentence(before: list[str], piece: str, following: str) -> bool:
    if piece in (".", "!", "?"):
        return True
    if piece[0] != '"' or piece[-2:-1] not in (".", "!", "?"):
        return False
    return (not before or before[-1] == ",") and following not in ("said", "asked")


def spell(pieces: list[str]) -> str:
    """Returns the text of the pieces with regular spacing."""
    text = ""
    for piece in pieces:
        text += piece if piece in (".", ",", "!", "?") or not text else " " + piece
    return text


def _sentence(pieces: list[str], spoken: bool) -> Sentence:
    """Classifies the words of one sentence and parses its speech."""
    tokens, words, quotes = [], [], []
    first = pieces[0]
    if first[0].islower():
        raise BadStory(f"no capital letter at the start: {spell(pieces)}")
    for i, piece in enumerate(pieces):
        if piece[0] == '"':
            quotes.append(_speech(piece[1:-1]))
            tokens.append(QUOTE_KINDS[piece[-2]])
        elif not piece[0].isalpha():
            tokens.append(piece)
        elif piece == "I":
            tokens.append("i")
            words.append("i")
        elif piece[0].isupper() and piece in TITLES:
            tokens.append("@title")
            words.append(piece)
        elif piece[0].isupper() and (i > 0 or not known(piece.lower())):
            if not re.fullmatch(r"[A-Z][a-z]+", piece) or known(piece.lower()):
                raise BadStory(f"strange word {piece}")
            tokens.append("@name")
            words.append(piece)
        else:
            word = piece.lower()
            if piece != word and i > 0 or not known(word):
                raise BadStory(f"strange word {piece}")
            tokens.append(word)
            words.append(word)
    return Sentence(spell(pieces), tuple(tokens), words, quotes)


def _speech(text: str) -> list[Sentence]:
    """Returns the sentences of quoted speech. A comma at its end counts as a full stop."""
    if not text or text[-1] not in QUOTE_KINDS:
        raise BadStory(f'speech without an end: "{text}"')
    return _read_paragraph(text[:-1] + "." if text[-1] == "," else text, spoken=True)
