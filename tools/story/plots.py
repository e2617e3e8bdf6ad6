"""The plots: a trouble with a thing, and how a helper solves it.

A plot is a list of steps, a step a list of alternatives. `|` inside an alternative starts a new
paragraph. generate.py fills the slots in braces:

  N            hero
  H, Hc        helper; helper at the start of a sentence
  Hi, Hic      the helper's introduction; the same at the start of a sentence
  Hv           how the hero addresses the helper
  she, She, her, Her, them      the hero's pronouns (`her` possessive, `them` object)
  hshe, Hshe, hthem             the helper's pronouns
  o, ao, aao   the thing; the thing with its adjective; the same with an article
  in, p        the place with its preposition; the place
  spot, spot2, spot3, high      hiding places; a high spot
  tool, thief, treat            a tool, an animal that takes the thing, something to eat
  use, used    the thing's verb

Two rules allow the checker to follow the stories. A sentence that starts with He or She has the
same subject as the previous sentence (generate.py inserts most of these pronouns). A possessive
always refers to the hero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from world import TOOLS_DEEP, TOOLS_FIX, TOOLS_HIGH, TOOLS_WASH, Place, Thing

OPENINGS = [
    "Once upon a time, there was a {nature} {kind} named {N}.",
    "Once upon a time, there was a {nature} {kind} named {N}.",
    "Once there was a {nature} {kind} named {N}.",
    "There once was a {nature} {kind} named {N}.",
    "{N} was a {nature} {kind}.",
]
# One story in four names the place here. A small model finds it hard to keep to a place that is
# named so early.
HABITS = [
    *[
        "{She} loved to play.",
        "{She} liked to run and jump.",
    ]
    * 8,
    "{She} loved to play {in}.",
    "{She} liked to run and jump {in}.",
    "{She} lived near the {p}.",
    "{She} went to the {p} every day.",
    "Every morning, {she} played {in}.",
]
BELONGINGS = [
    "{N} had {aao}.",
    "{She} had {aao} and loved it very much.",
    "{Her} favorite toy was {aao}.",
    "{She} had {aao} that {she} loved to {use}.",
    "{She} took {her} {ao} everywhere.",
]
DAYS = ["One day,", "One sunny day,", "One morning,", "One warm day,", "One afternoon,"]
OUTINGS = [
    "{day} {N} took the {ao} to the {p}.",
    "{day} {N} went to the {p} with {her} {ao}.",
    "{day} {N} {used} the {o} {in}.",
    "{day} {N} was {in} with {her} {o}.",
]
SADNESS = [
    "{N} was very sad.",
    "{N} felt sad and began to cry.",
    "{N} did not know what to do.",
    "{N} sat down and cried.",
    "{N} was sad because {she} loved the {o}.",
]
ARRIVALS = [
    "|Just then, {Hi} came by.",
    "|Then {Hi} came to the {p}.",
    "|{Hic} saw {N} and came over.",
    "|Soon, {Hi} walked by.",
]
QUESTIONS = [
    '"What is wrong, {N}?" asked {H}.',
    '"Why are you sad?" asked {H}.',
    '{Hc} asked, "Are you okay, {N}?"',
    '{Hc} asked, "What happened?"',
]
OFFERS = [
    '"Do not worry," said {H}. "I can help you."',
    '"I will help you," said {H}.',
    '{Hc} smiled and said, "I have an idea."',
    '"Let us do it together," said {H}.',
    "{Hc} wanted to help.",
]
THANKS = [
    '|"Thank you, {Hv}!" said {N}.',
    '|{N} smiled and said, "Thank you, {Hv}!"',
    "|{N} was so happy that {she} hugged {H}.",
    "|{N} jumped with joy and hugged {H}.",
    '|"You are the best, {Hv}!" said {N}.',
    "|{N} thanked {H} with a big smile.",
]
AFTER = [
    "",
    "",
    "They laughed and {used} the {o}.",
    "{Hc} was happy too.",
    "They were both very happy.",
]
ENDINGS = [
    "From that day on, {N} always took good care of the {o}.",
    "They {used} the {o} until the sun went down.",
    "At the end of the day, {N} went home with the {ao} and a big smile.",
    "At the end of the day, they went home happy.",
    "{N} learned that {moral}.",
    "From that day on, they {used} the {o} together every day.",
]


def anything(thing: Thing, place: Place) -> bool:
    """Accepts every thing in every place."""
    return True


@dataclass(frozen=True)
class Plot:
    """One kind of story. `problem` ends when the hero is unhappy, `help` when the trouble is
    solved."""

    name: str
    problem: list[list[str]]
    answer: list[str]
    help: list[list[str]]
    moral: list[str]
    fits: Callable[[Thing, Place], bool] = anything
    tools: tuple[str, ...] = ()
    named_helper: bool = False  # the helper is a friend with a name
    meets: bool = True  # the hero is sad, the helper arrives and asks
    topic: str = "friends"  # the subject of a request for this plot


ASKING = ["it is good to ask for help", "friends help each other", "it is good to be kind"]

PLOTS = [
    Plot(
        "lost",
        [
            [
                "Suddenly, the {o} was gone.",
                "But soon {she} could not find the {o}.",
                "Then {N} saw that the {o} was gone.",
                "When {N} looked up, the {o} was not there.",
            ],
            [
                "{N} looked everywhere, but {she} could not find it.",
                "{N} looked {spot2}, but it was not there.",
                "{N} looked all over the {p}, but {she} did not see it.",
            ],
        ],
        [
            '"I lost my {o}," said {N}.',
            '"I cannot find my {ao}," said {N}.',
            '{N} said, "My {ao} is gone."',
        ],
        [
            [
                "They looked all over the {p}.",
                "They looked for the {o} together.",
                "They looked {spot3}, but the {o} was not there.",
            ],
            [
                "At last, {H} found the {o} {spot}.",
                "Then {N} saw the {ao} {spot}.",
                "Soon they found the {ao} {spot}.",
            ],
        ],
        ["it is good to look after {her} things", *ASKING],
        topic="a lost {o}",
    ),
    Plot(
        "stuck",
        [
            [
                "{N} threw the {o} too high, and it got stuck {up}.",
                "Oh no! The {o} got stuck {up}.",
                "But then the {o} was stuck {up}.",
            ],
            [
                "{N} jumped and jumped, but {she} could not reach it.",
                "{N} tried to get it, but the {high} was too high.",
                "It was too high for {N}.",
            ],
        ],
        [
            '"My {o} is stuck {up}," said {N}.',
            '{N} said, "I cannot reach my {o}."',
            '"I cannot get my {ao} down," said {N}.',
        ],
        [
            ["{Hc} went to get {tool}.", "{Hc} came back with {tool}.", "They found {tool}."],
            [
                "With the {toolnoun}, {H} got the {o} down.",
                "{Hc} used the {toolnoun} and got the {o} down.",
                "{Hc} reached up with care, and the {ao} came down.",
            ],
        ],
        ASKING,
        lambda thing, place: thing.thrown,
        TOOLS_HIGH,
        topic="a {o} that got stuck",
    ),
    Plot(
        "wind",
        [
            [
                "A strong wind blew the {o} up, and it got stuck {up}.",
                "Suddenly, the wind took the {o}. It got stuck {up}.",
                "Oh no! The wind blew the {ao} away, and it got stuck {up}.",
            ],
            [
                "{N} jumped and jumped, but {she} could not reach it.",
                "{N} tried to get it, but the {high} was too high.",
                "It was too high for {N}.",
            ],
        ],
        [
            '"The wind took my {o}," said {N}.',
            '"My {o} is stuck {up}," said {N}.',
            '{N} said, "I cannot reach my {ao}."',
        ],
        [
            ["{Hc} went to get {tool}.", "{Hc} came back with {tool}.", "They found {tool}."],
            [
                "With the {toolnoun}, {H} got the {o} down.",
                "{Hc} used the {toolnoun} and got the {o} down.",
                "{Hc} reached up with care, and the {ao} came down.",
            ],
        ],
        ASKING,
        lambda thing, place: thing.floats and place.outdoors,
        TOOLS_HIGH,
        topic="a {o} that got stuck",
    ),
    Plot(
        "broken",
        [
            [
                "Suddenly, the {o} fell down and broke.",
                "Then {N} fell on the {o}, and it broke.",
                "But the {o} hit a wall and broke.",
                "Oh no! The {ao} broke.",
            ],
            [
                "{N} tried to fix it, but {she} could not do it.",
                "{N} picked it up, but it did not work.",
                "Now {she} could not {use} it.",
            ],
        ],
        [
            '"My {o} is broken," said {N}.',
            '{N} said, "I broke my {o}."',
            '"I cannot fix my {ao}," said {N}.',
        ],
        [
            [
                "{Hc} took some {tool} and fixed the {o}.",
                "{Hc} found some {tool}. Then they fixed the {o}.",
                "With some {tool}, {H} fixed the {ao}.",
                "They got some {tool} and fixed it together.",
            ],
            [
                "Now the {o} was as good as new.",
                "Soon the {ao} was not broken anymore.",
                "It worked again!",
            ],
        ],
        ["broken things can be fixed", *ASKING],
        lambda thing, place: thing.breaks,
        TOOLS_FIX,
        topic="a broken {o}",
    ),
    Plot(
        "dirty",
        [
            [
                "Suddenly, the {o} fell into the mud.",
                "{N} slipped, and the {o} fell into the mud.",
                "Oh no! {N} dropped the {ao} in the mud.",
            ],
            [
                "Now the {o} was very dirty.",
                "It was so dirty that {N} could not {use} it.",
                "The {ao} was all brown and dirty.",
            ],
        ],
        [
            '"My {o} is dirty," said {N}.',
            '"I dropped my {o} in the mud," said {N}.',
            '{N} said, "My {ao} fell into the mud."',
        ],
        [
            [
                "{Hc} took some {tool} and washed the {o}.",
                "With some {tool}, they washed the {o}.",
                "{Hc} got some {tool}. They washed the {ao} together.",
            ],
            [
                "Soon the {o} was clean again.",
                "Now the {ao} was clean and dry.",
                "It looked as good as new.",
            ],
        ],
        ["dirty things can be washed", *ASKING],
        lambda thing, place: thing.washes and place.outdoors,
        TOOLS_WASH,
        topic="a dirty {o}",
    ),
    Plot(
        "hole",
        [
            [
                "Suddenly, the {o} rolled away and fell into a deep hole.",
                "Oh no! The {ao} rolled into a deep hole.",
                "But the {o} rolled too fast, and it fell into a hole.",
            ],
            [
                "{N} tried to reach it, but the hole was too deep.",
                "{N} could see the {o}, but {she} could not reach it.",
                "The hole was dark, and {N} was afraid.",
            ],
        ],
        [
            '"My {o} is in the hole," said {N}.',
            '"My {ao} fell into a hole," said {N}.',
            '{N} said, "I cannot reach my {o}."',
        ],
        [
            ["{Hc} went to get {tool}.", "{Hc} came back with {tool}.", "They found {tool}."],
            [
                "With the {toolnoun}, {H} got the {o} out.",
                "{Hc} used the {toolnoun} and pulled the {o} out of the hole.",
                "They pulled and pulled, and the {ao} came out of the hole.",
            ],
        ],
        ASKING,
        lambda thing, place: thing.rolls and place.outdoors,
        TOOLS_DEEP,
        topic="a deep hole",
    ),
    Plot(
        "taken",
        [
            [
                "Suddenly, a {thief} came and took the {o}.",
                "Then a {thief} saw the {o} and took it.",
                "Oh no! A {thief} took the {ao} and ran away.",
            ],
            [
                '"Stop!" said {N}, but the {thief} did not stop.',
                "{N} ran after the {thief}, but it was too fast.",
                '{N} said, "Give it back!" But the {thief} did not listen.',
            ],
        ],
        [
            '"The {thief} took my {o}," said {N}.',
            '"A {thief} has my {ao}," said {N}.',
            '{N} said, "The {thief} will not give back my {o}."',
        ],
        [
            [
                "{Hc} gave {atreat} to the {thief}.",
                "{Hc} had {atreat} and gave it to the {thief}.",
                "They gave the {thief} {atreat}.",
            ],
            [
                "The {thief} was happy and gave back the {o}.",
                "The {thief} ate the {treat} and dropped the {ao}.",
                "The {thief} liked the {treat}, and it gave the {o} back.",
            ],
        ],
        ["it is good to be kind", *ASKING],
        lambda thing, place: thing.small and place.outdoors,
        topic="a {thief}",
    ),
    Plot(
        "share",
        [
            [
                "|{Hic} saw the {o} and came over.",
                "|Then {Hi} came to the {p}.",
                "|{Hic} was {in} too.",
                "|Soon, {Hi} came by.",
            ],
            [
                '"Can I {use} your {o}?" asked {H}.',
                '{Hc} asked, "Can I {use} the {ao} too?"',
                '"May I {use} the {o} with you?" asked {H}.',
            ],
            [
                '"No, it is mine!" said {N}.',
                '{N} said, "No, this is my {o}."',
                "But {N} did not want to share.",
            ],
            [
                "{Hc} was very sad.",
                "{Hc} felt sad and began to cry.",
                "{Hc} sat down and cried.",
                "{Hc} felt sad and walked away.",
            ],
        ],
        [],
        [
            [
                "|{N} saw that {H} was sad.",
                "|Then {N} felt bad.",
                "|{N} looked at {H} and felt bad.",
                "|Soon, {N} was sad too.",
            ],
            [
                '"I am sorry, {Hv}," said {N}. "We can share it."',
                '{N} said, "I am sorry. Let us {use} the {o} together."',
                '"Here, {Hv}, you can {use} it too," said {N}.',
                "{N} gave the {o} to {H} with a smile.",
            ],
            [
                '"Thank you, {N}!" said {H}.',
                '{Hc} smiled and said, "Thank you!"',
                "{Hc} was so happy that {hshe} hugged {N}.",
                "{Hc} stopped crying and smiled.",
            ],
        ],
        ["it is fun to share", "sharing makes friends happy", "it is good to share"],
        named_helper=True,
        meets=False,
        topic="sharing",
    ),
    Plot(
        "lost_way",
        [
            [
                "{N} walked too far and got lost.",
                "Soon {she} could not find the way home.",
                "Then {N} saw that {she} was lost.",
            ],
            [
                "It was late, and {N} was afraid.",
                "{N} looked around, but {she} was all alone.",
                "{N} called for help, but nobody came.",
            ],
            [
                "|Then {N} had an idea. {She} {used} the {o} very loudly.",
                "|{N} {used} the {o} again and again.",
                "|{N} took the {ao} and {used} it very loudly.",
            ],
            [
                "Far away, {Hi} heard the {o}.",
                "{Hic} heard the {o} and ran to {N}.",
                "Soon, {Hi} heard it and came to help.",
            ],
            [
                '"Here you are, {N}!" said {H}.',
                '"Do not be afraid, {N}," said {H}.',
                '{Hc} said, "I was looking for you, {N}."',
            ],
        ],
        [],
        [
            [
                "{Hc} took {N} by the hand and showed {them} the way home.",
                "They walked home together.",
                "{Hc} knew the way home.",
            ],
        ],
        ["it is good to stay close to home", *ASKING],
        lambda thing, place: thing.loud and place.outdoors,
        meets=False,
        topic="getting lost",
    ),
]
