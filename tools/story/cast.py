"""Checks the persons of a story: introductions, pronouns, possessives, speakers and listeners."""

from __future__ import annotations

from reading import TITLES, BadStory, Sentence
from world import ANIMALS, BONDS, FAMILY, NATURES, PEOPLE, gender_of

SUBJECTIVE = {"she": "f", "he": "m"}
POSSESSIVE = {"her": "f", "his": "m"}
BOTH = "both"  # stands for hero and helper together as one subject
# If one of these words follows `her`, `her` is an object and not a possessive.
NOT_OWNED = {"the", "a", "an", "and", "to", "with", "home", "again", "too", "in", "on", "at", "by"}


class Cast:
    """The hero and the helper, as far as the sentences read so far name them."""

    def __init__(self, opening: Sentence):
        words = opening.words
        names = opening.names()
        if len(names) != 1 or opening.quotes:
            raise BadStory(f"does not introduce exactly one hero: {opening.text}")
        self.hero = names[0]
        self.helper: str | None = None  # a name, or a family member such as `mom`
        self.helper_gender: str | None = None
        self.subject: str | None = self.hero
        self.speaker: str | None = None
        kind = words[-1] if words[0] == self.hero else words[-3]
        described = words[0] == self.hero and words[1:3] == ["was", "a"] and words[3] in NATURES
        named = words[-2:] == ["named", self.hero]
        if not (described or named) or kind not in {*PEOPLE, *ANIMALS}:
            raise BadStory(f"does not introduce the hero: {opening.text}")
        self.hero_gender = PEOPLE.get(kind) or gender_of(self.hero)
        if gender_of(self.hero) not in (None, self.hero_gender):
            raise BadStory(f"{self.hero} is not a name for a {kind}")

    def gender(self, person: str | None) -> str | None:
        """Returns f or m for a person, None for nobody and for BOTH."""
        if person == self.hero:
            return self.hero_gender
        return self.helper_gender if person is not None and person == self.helper else None

    def follow(self, sentence: Sentence, before: Sentence | None) -> None:
        """Checks the next sentence and updates the persons."""
        if before is not None and "named" in sentence.words:
            raise BadStory(f"introduces a person again: {sentence.text}")
        mentions = self._mentions(sentence)
        self._pronouns(sentence, mentions)
        self.speaker = self._speaker_of(sentence, mentions)
        for quote in sentence.quotes:
            self._listen([word for spoken in quote for word in spoken.words])

    def finish(self) -> None:
        """Checks that the story has a helper and ends with the hero."""
        if self.helper is None:
            raise BadStory("the story has no helper")
        if self.subject not in (self.hero, BOTH):
            raise BadStory(f"the last sentence is about {self.subject}")

    def _mentions(self, sentence: Sentence) -> list[tuple[int, str]]:
        """Returns the positions of persons mentioned by name or as family. Introduces the helper.
        """
        mentions = []
        words = sentence.words
        for i, word in enumerate(words):
            earlier = words[i - 1] if i else ""
            owned = i > 0 and earlier in POSSESSIVE
            if word in TITLES:
                raise BadStory(f"{word} outside speech: {sentence.text}")
            if word in FAMILY:
                if not owned:
                    raise BadStory(f"{word} without a possessive: {sentence.text}")
                self._introduce(word, FAMILY[word][0], again=True)
                mentions.append((i, word))
            elif word in BONDS:
                name = words[i + 1] if i + 1 < len(words) else ""
                if not owned or not name[:1].isupper():
                    raise BadStory(f"{word} without a possessive and a name: {sentence.text}")
                gender = gender_of(name)
                if gender is None or BONDS[word] not in (None, gender):
                    raise BadStory(f"{name} as a {word}")
                self._introduce(name, gender, again=False)
            elif word[0].isupper():
                if word not in (self.hero, self.helper):
                    raise BadStory(f"unknown person {word}: {sentence.text}")
                mentions.append((i, word))
        for (at, person), (then, again) in zip(mentions, mentions[1:]):
            if person == again and then - at <= 2:
                raise BadStory(f"{person} twice: {sentence.text}")
        return mentions

    def _introduce(self, person: str, gender: str, again: bool) -> None:
        if person == self.hero or self.helper not in (None, person) or self.helper and not again:
            raise BadStory(f"{person} cannot be introduced beside {self.helper or self.hero}")
        self.helper, self.helper_gender = person, gender

    def _pronouns(self, sentence: Sentence, mentions: list[tuple[int, str]]) -> None:
        words = sentence.words
        # `settled` is true once the sentence has named its subject
        subject, settled = self.subject, False
        for i, word in enumerate(words):
            if mentions and i == mentions[0][0] and not settled:
                subject, settled = self._first_mention(words, mentions), True
            elif word in ("they", "we"):
                if self.helper is None:
                    raise BadStory(f"they or we before a helper is known: {sentence.text}")
                subject, settled = BOTH, True
            elif word in SUBJECTIVE:
                if self.gender(subject) != SUBJECTIVE[word]:
                    raise BadStory(f"{word} does not match the subject: {sentence.text}")
                settled = True
            elif self._is_object(words, i):
                other = self.helper if subject == self.hero else self.hero
                if self.gender(other) != ("m" if word == "him" else "f"):
                    raise BadStory(f"{word} does not match the other person: {sentence.text}")
            elif word in POSSESSIVE and self.hero_gender != POSSESSIVE[word]:
                raise BadStory(f"{word} does not match the hero: {sentence.text}")
        self.subject = subject

    @staticmethod
    def _first_mention(words: list[str], mentions: list[tuple[int, str]]) -> str:
        """Returns the subject from the first mention: that person, or BOTH if `and` joins two
        persons."""
        at, person = mentions[0]
        if len(mentions) > 1 and words[at + 1] == "and":
            between = words[at + 2 : mentions[1][0]]
            if not between or len(between) == 1 and between[0] in POSSESSIVE:
                return BOTH
        return person

    @staticmethod
    def _is_object(words: list[str], i: int) -> bool:
        if words[i] == "her":
            return i + 1 == len(words) or words[i + 1] in NOT_OWNED
        return words[i] == "him"

    def _speaker_of(self, sentence: Sentence, mentions: list[tuple[int, str]]) -> str | None:
        """Returns the speaker, or None if there is no speech. Speech without a speaker continues
        the last speaker."""
        if not sentence.quotes:
            return None
        if not sentence.words:
            if self.speaker is None:
                raise BadStory(f"speech without a speaker: {sentence.text}")
            return self.speaker
        speaker = mentions[0][1] if mentions else self.subject
        if speaker == BOTH or speaker is None:
            raise BadStory(f"speech without a speaker: {sentence.text}")
        self.subject = speaker
        return speaker

    def _listen(self, words: list[str]) -> None:
        """Checks speech: a name in speech is the listener's, and the thing belongs to the hero."""
        for i, word in enumerate(words):
            if word in {*SUBJECTIVE, "his", "him", "her", *FAMILY, *BONDS}:
                raise BadStory(f"speech with {word}: {' '.join(words)}")
            if word[0].isupper():
                called = TITLES.get(word, word)
                if called == self.speaker or called not in (self.hero, self.helper):
                    raise BadStory(f"wrong form of address {word}: {' '.join(words)}")
            owner = {"my": True, "mine": True, "your": False}.get(word)
            if owner is not None and owner != (self.speaker == self.hero):
                raise BadStory(f"{word} said by {self.speaker}: {' '.join(words)}")
