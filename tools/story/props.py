"""Checks the objects of a story: the thing, the place and other nouns."""

from __future__ import annotations

from reading import BadStory, Sentence
from world import (
    COLORS,
    COUNTED_TOOLS,
    LOOKS,
    PLACES,
    THIEVES,
    THINGS,
    TOOLS_FIX,
    TOOLS_WASH,
    TREATS,
    Place,
    Thing,
)

LOOK_WORDS = {*COLORS, *LOOKS}
TOOLS = {tool.split()[-1] for tool in (*COUNTED_TOOLS, *TOOLS_FIX, *TOOLS_WASH)}
# Counted nouns: the first mention has `a`, later mentions have `the`.
COUNTED = {*THIEVES, *TREATS, "hole", *(tool.split()[-1] for tool in COUNTED_TOOLS)}
ONE_OF_EACH = {"thief": {*THIEVES}, "treat": {*TREATS}, "tool": TOOLS}
SPOTS = {s.split()[-1] for place in PLACES.values() for s in (*place.spots, place.high)}
VERBS = {verb.split()[0]: thing for thing in THINGS.values() for verb in (thing.use, thing.used)}
DETERMINERS = {"the", "her", "his", "my", "your"}
PLACE_WORDS = {"to", "near", "over"}  # prepositions besides the place's own


class Props:
    """The thing, its look (an adjective such as red) and the place that the sentences read so far name."""

    def __init__(self) -> None:
        self.thing: Thing | None = None
        self.look: str | None = None
        self.place: Place | None = None
        self.met: set[str] = set()  # counted nouns mentioned with `a` so far
        self.single: dict[str, str] = {}

    def follow(self, sentence: Sentence) -> None:
        """Checks the nouns of the next sentence, including its speech."""
        self._words(sentence.words, sentence.text)
        for quote in sentence.quotes:
            for spoken in quote:
                self._words(spoken.words, spoken.text)

    def finish(self) -> None:
        """Checks that the story has a thing and a place."""
        if self.thing is None or self.place is None:
            raise BadStory("the story lacks a thing or a place")

    def _words(self, words: list[str], text: str) -> None:
        for i, word in enumerate(words):
            earlier = words[max(0, i - 2) : i]
            later = words[i + 1 : i + 2]
            if word in ("a", "an") and (word == "an") != (later[0][0] in "aeiou"):
                raise BadStory(f"{word} {later[0]}")
            if word in COLORS and (not later or later[0] not in THINGS):
                raise BadStory(f"{word} without a thing: {text}")
            if word in THINGS:
                self._thing(word, earlier, text)
            elif word in PLACES:
                self._place(word, earlier, text)
            elif word in SPOTS:
                self._spot(word, earlier, text)
            elif word in VERBS or word in ("play", "played"):
                self._verb(word, later, words)
            if word in COUNTED:
                self._counted(word, earlier, text)
            for role, nouns in ONE_OF_EACH.items():
                if word in nouns and self.single.setdefault(role, word) != word:
                    raise BadStory(f"{word} after {self.single[role]}: {text}")

    def _thing(self, noun: str, earlier: list[str], text: str) -> None:
        look = earlier[-1] if earlier and earlier[-1] in LOOK_WORDS else None
        determiner = earlier[0] if look else (earlier[-1] if earlier else "")
        if self.thing is None:
            if look is None or determiner not in ("a", "an", "her", "his"):
                raise BadStory(f"the first mention of the thing lacks an article or a look: {text}")
            self.thing, self.look = THINGS[noun], look
            return
        if noun != self.thing.noun or look not in (None, self.look):
            raise BadStory(f"another thing than the {self.look} {self.thing.noun}: {text}")
        if determiner not in DETERMINERS:
            raise BadStory(f"{noun} without a determiner: {text}")

    def _place(self, noun: str, earlier: list[str], text: str) -> None:
        self.place = self.place or PLACES[noun]
        if noun != self.place.noun:
            raise BadStory(f"another place than the {self.place.noun}: {text}")
        if earlier[-1:] != ["the"] or earlier[0] not in {self.place.preposition, *PLACE_WORDS}:
            raise BadStory(f"wrong words before the place: {text}")

    def _spot(self, noun: str, earlier: list[str], text: str) -> None:
        if self.place is None:
            raise BadStory(f"a spot without a place: {text}")
        if noun == "wall" and "hit" in earlier:
            return
        if earlier and earlier[0] in ("behind", "under"):
            right = f"{earlier[0]} a {noun}" in self.place.spots and earlier[1] == "a"
        else:
            right = noun == self.place.high
        if not right:
            raise BadStory(f"no such spot {self.place.preposition} the {self.place.noun}: {text}")

    def _verb(self, word: str, later: list[str], words: list[str]) -> None:
        if word == "blew" and "wind" in words or self.thing is None:
            return
        if word in ("play", "played"):
            if later == ["with"]:
                right = self.thing.use == "play with"
            else:
                right = (
                    not later or later[0] not in {*DETERMINERS, "it"} or self.thing.use == "play"
                )
        else:
            right = word in (self.thing.use, self.thing.used)
        if not right:
            raise BadStory(f"{word} with a {self.thing.noun}: {' '.join(words)}")

    def _counted(self, noun: str, earlier: list[str], text: str) -> None:
        if earlier and ("a" in earlier[-2:] or "an" in earlier[-1:]):
            self.met.add(noun)
        elif noun not in self.met:
            raise BadStory(f"the first mention of {noun} lacks `a`: {text}")
