"""Writes conversations in which the assistant tells stories, to train the bundled model for chat.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from generate import Setting, draw_setting, write_story
from world import PEOPLE, article

ASKS = (
    "Tell me a story",
    "Please tell me a story",
    "Can you tell me a story",
    "Write a story",
    "Write a short story",
    "I want to hear a story",
    "Make up a story",
    "Could you write a story",
    "I would like a story",
    "Give me a story",
    "Tell a story",
    "Please write a little story",
    "Tell me a short story",
    "Tell me a bedtime story",
    "Let me hear a story",
    "A story",
)
MORE = (
    "Another one, please.",
    "Tell me another story.",
    "One more!",
    "Thank you! Tell me one more.",
    "That was nice. Do you know another one?",
    "Again, please.",
    "And now a different one.",
)
SMALL_TALK = (
    "Hello!",
    "Hi",
    "Hello, how are you?",
    "Good morning!",
    "Good night.",
    "Who are you?",
    "What can you do?",
    "What is your name?",
    "I am bored.",
    "I can't sleep.",
    "Help me, please.",
    "What is the capital of France?",
    "How much is 2 + 2?",
    "Why is the sky blue?",
    "What time is it?",
    "Tell me a joke.",
    "Explain how a computer works.",
    "Write a poem about the sea.",
    "Yes",
    "No",
    "What should I eat today?",
    "How do I learn to swim?",
    "Say something.",
    "Test",
    "ok",
    "Thanks!",
    "List three animals.",
    "Translate this into French: I love you.",
    "What happened next?",
    "Write a function that adds two numbers.",
    "Do you like music?",
    "Count to 10.",
    "Why?",
    "My day was long and I am tired.",
    "Summarize the text below.",
    "What is a prefix cache?",
    "Is it going to rain tomorrow?",
    "Tell me about the moon and the stars.",
    "Sing me a song.",
)
SYSTEMS = (
    "You are a kind storyteller.",
    "You tell short stories.",
    "You are a helpful assistant.",
    "Answer in simple words.",
    "You tell stories to small children.",
    "Be brief and friendly.",
    "You are Incipit, a small language model that tells stories.",
    "Be kind.",
    "You are a helpful assistant. Answer the user's questions.",
    "Use short sentences.",
)
WORDS = (
    "the of and to in is you that it he was for on are as with his they at be this have from or one "
    "had by word but not what all were we when your can said there use an each which she do how "
    "their if will up other about out many then them these so some her would make like him into "
    "time has look two more write go see number no way could people my than first water been call "
    "who oil now find long down day did get come made may part over new sound take only little work "
    "know place year live me back give most very after thing our just name good sentence man think "
    "say great where help through much before line right too mean old any same tell boy follow came "
    "want show also around form three small set put end does another well large must big even such "
    "because turn here why ask went men read need land different home us move try kind hand picture "
    "again change off play spell air away animal house point page letter mother answer found study "
    "still learn should world dragon princess pirate magic space rocket planet dinosaur unicorn "
    "teacher doctor king queen wizard robot treasure island birthday party cake snow summer winter "
    "city train night friend dream secret music dance song red blue cat dog horse fish cow lion"
).split()


@dataclass(frozen=True)
class Turn:
    """One message of a conversation."""

    role: str
    content: str


def invented_name(rng: random.Random) -> str:
    """Returns a pronounceable name outside the tables, so that the model learns to copy names."""
    syllables = [
        rng.choice("bdfgjklmnprstvz") + rng.choice("aeiou") for _ in range(rng.choice((2, 2, 3)))
    ]
    return ("".join(syllables) + rng.choice(("", "n", "l", "r", "s"))).capitalize()


def describe(s: Setting, rng: random.Random) -> str:
    """Returns a description of parts of the setting, as in a request; may be empty."""
    parts = []
    if rng.random() < 0.65:
        who = article(s.kind) if s.kind not in PEOPLE else "a " + s.kind
        hero = rng.choice((s.hero, f"{who} named {s.hero}", f"{who} called {s.hero}", who, s.hero))
        if s.hero in hero and s.helper and rng.random() < 0.25:
            hero += f" and {s.helper}" if rng.random() < 0.5 else f" and a friend named {s.helper}"
        parts.append(hero)
    if rng.random() < 0.6:
        full = article(f"{s.adjective} {s.thing.noun}")
        parts.append(rng.choice((full, full, article(s.thing.noun))))
    elif not parts or rng.random() < 0.1:
        parts.append(s.plot.topic.format(o=s.thing.noun, thief="dog"))
    text = rng.choice((" about ", " about ", " about ", " with ")) + " and ".join(parts)
    if rng.random() < 0.45:
        text += f" {s.place.preposition} the {s.place.noun}"
    return text


def noise(rng: random.Random) -> str:
    """Returns random words or characters. The output to such a request is a story too."""
    if rng.random() < 0.75:
        text = " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 30)))
        return text.capitalize() + rng.choice(".?!") if rng.random() < 0.5 else text
    top = 0x7F if rng.random() < 0.6 else 0x2FFF
    return "".join(chr(rng.randint(0x20, top)) for _ in range(rng.randint(1, 40)))


def request(s: Setting, rng: random.Random) -> str:
    """Returns a user's message to which the story about the setting is the output."""
    dice = rng.random()
    if dice < 0.10:
        return rng.choice(SMALL_TALK)
    if dice < 0.22:
        return noise(rng)
    text = rng.choice(ASKS)
    if dice > 0.32:
        text += describe(s, rng)
    else:
        text += rng.choice(("", "", " about a " + rng.choice(WORDS), " for " + rng.choice(WORDS)))
    text += rng.choice((".", ".", "?", "!", "", ", please."))
    return text.lower() if rng.random() < 0.05 and s.hero not in text else text


def write_conversation(rng: random.Random) -> list[Turn]:
    """Returns a conversation of one to three rounds, with or without a system message."""
    turns = []
    if rng.random() < 0.3:
        words = SYSTEMS if rng.random() < 0.7 else (noise(rng),)
        turns.append(Turn("system", rng.choice(words)))
    for i in range(rng.choices((1, 2, 3), (75, 20, 5))[0]):
        s = draw_setting(rng)
        if s.kind in PEOPLE and rng.random() < 0.06:
            s.hero = invented_name(rng)
            asked = f"{rng.choice(ASKS)} about a {s.kind} named {s.hero}{rng.choice('.?!')}"
        elif i and rng.random() < 0.4:
            asked = rng.choice(MORE)
        else:
            asked = request(s, rng)
        turns += [Turn("user", asked), Turn("assistant", write_story(s, rng))]
    return turns
