"""Writes short stories. `generate.py --count 5 --seed 1` prints five of them."""

from __future__ import annotations

import argparse
import random
import re
from dataclasses import dataclass

import plots
from plots import PLOTS, Plot
from world import (
    ANIMALS,
    BONDS,
    BOYS,
    COLORS,
    COUNTED_TOOLS,
    FAMILY,
    GIRLS,
    LOOKS,
    NATURES,
    PLACES,
    THIEVES,
    THINGS,
    TREATS,
    Place,
    Thing,
    article,
)

PRONOUNS = {"f": ("she", "her", "her"), "m": ("he", "his", "him")}


# Two of three names are for heroes and one is for helpers, so hero and helper never have the same
# name.
HEROES, HELPERS = (0, 1), (2,)


def names(gender: str, part: tuple[int, ...]) -> list[str]:
    """Returns the names of a gender for HEROES or for HELPERS."""
    return [n for i, n in enumerate(GIRLS if gender == "f" else BOYS) if i % 3 in part]


@dataclass
class Setting:
    """The subject of a story: persons, thing, place and plot."""

    hero: str | None = None
    gender: str | None = None
    kind: str | None = None
    helper: str | None = None
    bond: str | None = None  # relation of a named helper to the hero, or a family member
    thing: Thing | None = None
    adjective: str | None = None
    place: Place | None = None
    plot: Plot | None = None


def draw_setting(rng: random.Random) -> Setting:
    """Returns a complete random setting in which the plot is possible."""
    s = Setting()
    s.gender = rng.choice("fm")
    s.hero = rng.choice(names(s.gender, HEROES))
    s.kind = rng.choice(ANIMALS) if rng.random() < 0.3 else ("girl" if s.gender == "f" else "boy")
    s.plot = rng.choice(PLOTS)
    fits = [(t, p) for t in THINGS.values() for p in PLACES.values() if s.plot.fits(t, p)]
    s.thing, s.place = rng.choice(fits)
    s.adjective = rng.choice(COLORS if rng.random() < 0.7 else LOOKS)
    if not s.plot.named_helper and rng.random() < 0.35:
        s.bond, s.helper = rng.choice(list(FAMILY)), None
    else:
        s.bond = rng.choice(list(BONDS))
        g = BONDS[s.bond] or rng.choice("fm")
        s.helper = rng.choice(names(g, HELPERS))
    return s


def slots(s: Setting, rng: random.Random) -> dict[str, str]:
    """Returns the value of every slot that a template may use."""
    she, her, them = PRONOUNS[s.gender]
    helper_gender = FAMILY[s.bond][0] if s.helper is None else ("f" if s.helper in GIRLS else "m")
    hshe, _, hthem = PRONOUNS[helper_gender]
    name = s.helper or f"{her} {s.bond}"
    intro = f"{her} {s.bond} {s.helper}" if s.helper else name
    spot, spot2, spot3 = rng.sample(s.place.spots, 3)
    tool = rng.choice(s.plot.tools) if s.plot.tools else ""
    counted = tool in COUNTED_TOOLS
    treat = rng.choice(TREATS)
    on = "in" if s.place.high == "tree" else "on"
    full = f"{s.adjective} {s.thing.noun}"
    return {
        "N": s.hero,
        "nature": rng.choice(NATURES),
        "kind": s.kind,
        "H": name,
        "Hc": capital(name),
        "Hi": intro,
        "Hic": capital(intro),
        "Hv": s.helper or FAMILY[s.bond][1],
        "she": she,
        "She": capital(she),
        "her": her,
        "Her": capital(her),
        "them": them,
        "hshe": hshe,
        "Hshe": capital(hshe),
        "hthem": hthem,
        "o": s.thing.noun,
        "ao": full,
        "aao": article(full),
        "in": f"{s.place.preposition} the {s.place.noun}",
        "p": s.place.noun,
        "spot": spot,
        "spot2": spot2,
        "spot3": spot3,
        "high": s.place.high,
        "up": f"{on} a {s.place.high}",
        "tool": article(tool) if counted else tool,
        "toolnoun": tool.split()[-1] if tool else "",
        "thief": rng.choice(THIEVES),
        "treat": treat,
        "atreat": article(treat),
        "use": s.thing.use,
        "used": s.thing.used,
        "day": rng.choice(plots.DAYS),
    }


def capital(text: str) -> str:
    """Returns the text with its first letter in upper case."""
    return text[0].upper() + text[1:]


SUBJECT = re.compile(
    r"^(?:Then |Soon, |Suddenly, )?\{(N|She|Hc|Hshe|Hic|Hi)\}|(?:said|asked) \{(N|H)\}\.$"
)
SAME = {"N": "N", "She": "N", "Hc": "H", "Hshe": "H", "Hic": "H", "Hi": "H", "H": "H"}


def subject(template: str) -> str | None:
    """Returns N or H if the last sentence of the template is about the hero or the helper."""
    last = re.split(r"(?<=[.!?]) (?=[A-Z{])", template.lstrip("|"))[-1]
    if "{N} and {H}" in last:
        return None
    found = SUBJECT.search(last)
    return SAME[found.group(1) or found.group(2)] if found else None


def with_pronoun(template: str, before: str | None, rng: random.Random) -> str:
    """Sometimes replaces a name by He or She if the previous sentence has the same subject."""
    for slot, who, pronoun in (("{N} ", "N", "{She} "), ("{Hc} ", "H", "{Hshe} ")):
        if template.startswith(slot) and before == who and rng.random() < 0.5:
            if not template.startswith("{N} and "):
                return pronoun + template[len(slot) :]
    return template


def story_steps(plot: Plot, rng: random.Random) -> list[list[str]]:
    """Returns the alternatives of each step of a story with this plot."""
    steps = [plots.OPENINGS, plots.HABITS, plots.BELONGINGS, plots.OUTINGS, ["|"], *plot.problem]
    if plot.meets:
        steps += [plots.SADNESS, plots.ARRIVALS]
        if rng.random() < 0.75:
            steps += [plots.QUESTIONS, plot.answer]
        steps += [plots.OFFERS]
    steps += plot.help
    if plot.name != "share":
        steps += [plots.THANKS]
    return [*steps, plots.AFTER, plots.ENDINGS]


def write_story(s: Setting, rng: random.Random) -> str:
    """Returns a story about a complete setting. Paragraphs are separated by a newline."""
    values = slots(s, rng)
    text, before, played = "", None, False
    for step in story_steps(s.plot, rng):
        choices = [c for c in step if not (played and "{used} the {o} until" in c)]
        chosen = rng.choice(choices)
        played = played or (step is plots.AFTER and "{used}" in chosen)
        said = with_pronoun(chosen, before, rng)
        before = subject(chosen) if chosen.strip("|") else before
        text += said if said.startswith("|") or not said else " " + said
    values["moral"] = rng.choice(s.plot.moral).format(**values)
    text = text.format(**values)
    return "\n".join(p.strip() for p in text.split("|") if p.strip())


def main() -> None:
    """Prints stories separated by an empty line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    print("\n\n".join(write_story(draw_setting(rng), rng) for _ in range(args.count)))


if __name__ == "__main__":
    main()
