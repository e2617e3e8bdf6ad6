"""The troubles of stories and their solutions, recognised by narrated and spoken text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cast import Cast
from props import Props
from reading import BadStory, Sentence
from world import THIEVES


@dataclass(frozen=True)
class Trouble:
    """Patterns over lower case words without punctuation. OBJ stands for the thing, with or
    without `the` and its look; THIEF for an animal that takes the thing; USE for the thing's verb.
    """

    told: str  # narrated when it happens
    mended: str  # narrated when the trouble is over
    said: str  # spoken only in this trouble
    mended_said: str = "$^"


TROUBLES = {
    "lost": Trouble(
        r"OBJ was (gone|not there)|not find OBJ",
        r"(found|saw) OBJ (behind|under)",
        r"lost my|cannot find my|is gone",
    ),
    "stuck": Trouble(
        r"stuck (in|on) a",
        r"got OBJ down|OBJ came down",
        r"stuck|cannot reach my|down$|wind took my",
    ),
    "broken": Trouble(r"\bbroke\b", r"fixed (OBJ|it)", r"broke|cannot fix"),
    "dirty": Trouble(r"in(to)? the mud", r"washed (OBJ|it)", r"is dirty|the mud"),
    "hole": Trouble(
        r"\ba (deep )?hole", r"OBJ out\b|OBJ came out", r"(in the|into a) hole|cannot reach my"
    ),
    "taken": Trouble(
        r"THIEF .*took (OBJ|it)",
        r"(THIEF|it) .*(gave back OBJ|gave OBJ back|dropped OBJ)",
        r"THIEF (took|has) my|will not give|give it back|stop",
    ),
    "share": Trouble(
        r"did not want to share",
        r"gave OBJ to",
        r"mine|this is my|can (we|i|you) USE|may i USE|can share|let us USE",
        r"we can share|let us USE|you can USE it too",
    ),
    "lost_way": Trouble(
        r"got lost|not find the way home|was lost|all alone|nobody came",
        r"walked home together|knew the way home|the way home$",
        r"here you are|do not be afraid|i was looking for you",
    ),
}


def check_trouble(story: list[Sentence], cast: Cast, props: Props) -> None:
    """Checks that the story has one kind of trouble, which is mended later, and not before the
    helper arrives."""
    thing = rf"(the |her |his |my )?({props.look} )?{props.thing.noun}"
    wild = {"OBJ": thing, "THIEF": f"({'|'.join(THIEVES)})", "USE": props.thing.use}

    def pattern(text: str) -> re.Pattern[str]:
        for name, meaning in wild.items():
            text = text.replace(name, meaning)
        return re.compile(text)

    told = [" ".join(s.words).lower() for s in story]
    said = [[" ".join(x.words).lower() for quote in s.quotes for x in quote] for s in story]
    helper_words = {cast.helper.lower()}
    arrival = next(i for i, s in enumerate(story) if helper_words & {w.lower() for w in s.words})

    kinds = {}
    for kind, trouble in TROUBLES.items():
        begun = [i for i, text in enumerate(told) if pattern(trouble.told).search(text)]
        if kind == "share":
            begun += [
                i
                for i, texts in enumerate(said)
                if any(re.search("mine$|this is my", t) for t in texts)
            ]
        if begun:
            kinds[kind] = min(begun)
    if len(kinds) != 1:
        raise BadStory(f"not exactly one trouble: {', '.join(kinds) or 'none'}")
    kind, start = kinds.popitem()
    trouble = TROUBLES[kind]
    mended = [i for i, text in enumerate(told) if pattern(trouble.mended).search(text)]
    mended += [
        i for i, t in enumerate(said) if any(pattern(trouble.mended_said).search(x) for x in t)
    ]
    if not any(i > start and i >= arrival for i in mended):
        raise BadStory(f"the trouble {kind} is not mended")
    for text in (text for texts in said for text in texts):
        fitting = [k for k, other in TROUBLES.items() if pattern(other.said).search(text)]
        if fitting and kind not in fitting:
            raise BadStory(f"speech about {fitting[0]} in a story of {kind}: {text}")
        if "wind" in text and not any("wind" in narrated for narrated in told[:arrival]):
            raise BadStory(f"speech about a wind that was not narrated: {text}")
