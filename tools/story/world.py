"""The world of the stories: possible persons, things and places.

Both the generator and the checker read these tables. The tables hold facts (a kite flies, a desk
stands in a school), not sentences.
"""

from __future__ import annotations

from dataclasses import dataclass

GIRLS = (
    "Lily",
    "Amy",
    "Anna",
    "Mia",
    "Sue",
    "Lucy",
    "Emma",
    "Zoe",
    "Ella",
    "Rosa",
    "Nina",
    "Kate",
    "Daisy",
    "Molly",
    "Ruby",
    "Grace",
    "Clara",
    "Ivy",
    "Nora",
    "Maya",
    "Sara",
    "Jane",
    "Hope",
    "Eva",
)
BOYS = (
    "Tom",
    "Ben",
    "Sam",
    "Max",
    "Tim",
    "Jack",
    "Leo",
    "Dan",
    "Finn",
    "Oscar",
    "Peter",
    "Nick",
    "Luke",
    "Noah",
    "Toby",
    "Hugo",
    "Adam",
    "Eli",
    "Fred",
    "Henry",
    "Jim",
    "Billy",
    "Omar",
    "Paul",
)

PEOPLE = {"girl": "f", "boy": "m"}
ANIMALS = ("rabbit", "bear", "fox", "mouse", "duck", "squirrel", "turtle", "frog")
NATURES = ("little", "small", "kind", "brave", "happy", "quiet", "clever", "cheerful", "young")

# Family members that help without a name of their own: noun -> (gender, form of address).
FAMILY = {
    "mom": ("f", "Mom"),
    "dad": ("m", "Dad"),
    "grandma": ("f", "Grandma"),
    "grandpa": ("m", "Grandpa"),
}
# Relation of a named helper to the hero -> gender; None: either gender.
BONDS = {"friend": None, "neighbor": None, "cousin": None, "brother": "m", "sister": "f"}

COLORS = ("red", "blue", "green", "yellow", "purple", "orange", "pink", "white")
LOOKS = ("big", "small", "shiny", "new", "old", "tiny", "pretty")


@dataclass(frozen=True)
class Thing:
    """An object that a story can be about. `use` and `used` are its verb in present and past
    tense."""

    noun: str
    use: str = "play with"
    used: str = "played with"
    floats: bool = False  # the wind can carry it
    thrown: bool = False  # the hero can throw it
    rolls: bool = False
    small: bool = False  # an animal can carry it
    breaks: bool = False
    washes: bool = False
    loud: bool = False


THINGS = {
    t.noun: t
    for t in (
        Thing("ball", thrown=True, rolls=True, small=True, washes=True),
        Thing("kite", "fly", "flew", floats=True, breaks=True),
        Thing("doll", thrown=True, small=True, breaks=True, washes=True),
        Thing("car", rolls=True, small=True, breaks=True, washes=True),
        Thing("boat", breaks=True, washes=True),
        Thing("drum", "play", "played", rolls=True, breaks=True, loud=True),
        Thing("bell", "ring", "rang", rolls=True, small=True, washes=True, loud=True),
        Thing("book", "read", "read", small=True),
        Thing("robot", breaks=True, washes=True),
        Thing("train", rolls=True, breaks=True, washes=True),
        Thing("balloon", floats=True),
        Thing("puppet", thrown=True, small=True, breaks=True, washes=True),
        Thing("flute", "play", "played", small=True, breaks=True, loud=True),
        Thing("whistle", "blow", "blew", small=True, washes=True, loud=True),
        Thing("top", "spin", "spun", rolls=True, small=True, breaks=True, washes=True),
        Thing("wagon", rolls=True, breaks=True, washes=True),
    )
}


@dataclass(frozen=True)
class Place:
    """A place for a story: its preposition, hiding places, and a high spot."""

    noun: str
    preposition: str
    spots: tuple[str, ...]
    high: str
    outdoors: bool = True


PLACES = {
    p.noun: p
    for p in (
        Place("park", "in", ("under a bench", "behind a tree", "behind a statue"), "tree"),
        Place("garden", "in", ("behind a bush", "under a pot", "behind a tree"), "tree"),
        Place("forest", "in", ("behind a log", "under a bush", "behind a tree"), "tree"),
        Place("beach", "at", ("behind a rock", "under a towel", "under a chair"), "tree"),
        Place("farm", "on", ("behind a fence", "under a cart", "behind a barn"), "roof"),
        Place("yard", "in", ("behind a fence", "under a bush", "under a chair"), "roof"),
        Place("meadow", "in", ("behind a stone", "under a bush", "behind a tree"), "tree"),
        Place("lake", "at", ("behind a rock", "under a bench", "behind a tree"), "tree"),
        Place("river", "by", ("behind a rock", "under a bridge", "behind a tree"), "tree"),
        Place("playground", "on", ("under a slide", "behind a swing", "under a bench"), "tree"),
        Place("school", "at", ("under a desk", "behind a door", "under a chair"), "roof", False),
        Place(
            "library", "in", ("under a table", "behind a shelf", "under a chair"), "shelf", False
        ),
        Place("market", "at", ("under a table", "behind a cart", "behind a sign"), "roof"),
        Place("zoo", "at", ("under a bench", "behind a sign", "behind a tree"), "tree"),
        Place("castle", "in", ("behind a door", "under a table", "behind a wall"), "roof", False),
    )
}

THIEVES = ("dog", "bird", "monkey", "goat", "puppy", "crow")
TREATS = ("cookie", "carrot", "cracker", "nut", "berry")
TOOLS_HIGH = ("ladder", "long stick")
TOOLS_DEEP = ("rope", "net", "long stick")
TOOLS_FIX = ("glue", "tape", "string")
TOOLS_WASH = ("water", "soap")
COUNTED_TOOLS = ("ladder", "long stick", "rope", "net")


def article(phrase: str) -> str:
    """Returns the phrase with `a` or `an`. No word of the tables is an exception to the vowel
    rule."""
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


def gender_of(name: str) -> str | None:
    """Returns f or m for a name of the tables, None for any other."""
    if name in GIRLS:
        return "f"
    return "m" if name in BOYS else None
