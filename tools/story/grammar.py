"""A small grammar of English that distinguishes well formed sentences of a simple story from bad ones.

The rules describe phrases, kinds of verbs and agreement in number, not the templates of the generator. Every sentence
that they derive is accepted. The recogniser is Earley's algorithm (J. Earley, 1970).
"""

from __future__ import annotations

from functools import lru_cache

from world import (
    ANIMALS,
    BONDS,
    COLORS,
    FAMILY,
    LOOKS,
    NATURES,
    PEOPLE,
    PLACES,
    THIEVES,
    THINGS,
    TOOLS_DEEP,
    TOOLS_FIX,
    TOOLS_HIGH,
    TOOLS_WASH,
    TREATS,
)

_TOOLS = [tool.split()[-1] for tool in (*TOOLS_DEEP, *TOOLS_HIGH)]
_SPOTS = [s.split()[-1] for p in PLACES.values() for s in (*p.spots, p.high)]

# Words by kind. Verbs are in the past tense unless the name of their kind ends in _b (bare form).
LEXICON = {
    "noun": " ".join((*THINGS, *PLACES, *THIEVES, *TREATS, *ANIMALS, *PEOPLE, *_TOOLS, *_SPOTS))
    + " toy smile idea hole wind sun day morning afternoon hand way end",
    "nouns": "things friends",
    "mass": " ".join((*TOOLS_FIX, *TOOLS_WASH)) + " mud joy care help home",
    "kin": " ".join(FAMILY),
    "bond": " ".join(BONDS),
    "adj": " ".join((*COLORS, *LOOKS, *NATURES))
    + " favorite long deep strong sunny warm good dirty clean dry broken sad brown dark high fast"
    " afraid alone stuck lost late okay wrong bad sorry gone fun mine best",
    "degree": "very so too all",
    "poss": "her his my your",
    "he": "he she it nobody i this",
    "they": "they we you",
    "him": "her him it me you them",
    "vi": "cried smiled laughed jumped played slipped broke worked came went ran walked fell rolled looked"
    " lived happened sat stopped pulled called got reached",
    "vt": "took had threw saw found lost dropped hugged thanked fixed washed used hit heard knew liked"
    " loved flew played rang read blew spun broke ate reached pulled got wanted gave has picked",
    "vi_b": "stop cry jump run walk play worry work listen help come be share look reach",
    "vt_b": "find see reach get fix take fly play ring read blow spin help share use do know",
    "vto": "loved liked tried began wanted went came",
    "aux": "could did will can may cannot",
    "prep": "in on at by near under behind to with into of after for over up around from out off",
    "particle": "up down away over out back off home around inside by",
    "adv": "much everywhere again too together loudly anymore there near far high",
    "soon": "then soon now suddenly",
}

# One rule per line. Upper case: phrases. Lower case: kinds of words. In quotes: the word itself. `?` marks an optional
# symbol. qc, qd, qe, qq: quoted speech that ends in a comma, a full stop, `!`, `?`.
RULES = """
TEXT -> STATEMENT '.' | STATEMENT '!' | 'oh' 'no' '!' | QUOTED
STATEMENT -> CLAUSES | LEAD CLAUSES
CLAUSES -> CL | CL ',' 'and' CL | CL ',' 'but' CL | CL 'because' CL
LEAD -> DAY ',' | soon ','? | 'but' soon? | 'just' 'then' ',' | 'far' 'away' ',' | 'at' 'last' ','
LEAD -> 'with' NPO ',' | 'when' CL ',' | 'at' 'the' 'end' 'of' 'the' 'day' ','
LEAD -> 'from' 'that' 'day' 'on' ',' | 'once' 'upon' 'a' 'time' ','
DAY -> 'one' adj? noun | 'every' noun
CL -> NP1 VP1 | NPS VPS | 'there' 'once'? 'was' NPN | 'once' 'there' 'was' NPN
NPN -> ART NOM 'named' name
ART -> 'a' | 'an'
NOM -> adj? adj? noun
NPX -> name | ART NOM | 'the' NOM | poss NOM | poss kin | poss bond name
NP1 -> NPX | he
NPS -> NPX 'and' NPX | they | 'friends' | 'broken'? poss? 'things' | 'dirty' 'things'
NPO -> NPX | him | 'some'? mass | adj mass | 'the' mass | poss? nouns | NPX 'and' NPX | NPX REL
REL -> 'that' NP1 vto 'to' vt_b | 'that' NP1 vto 'to' 'play' 'with'
VP1 -> VX | BE1 COMP | VP1 'and' VP1 | 'was' 'looking' 'for' NPO | 'is' 'in' NPO
BE1 -> 'was' | 'is' | 'am'
VPS -> VX | 'were' 'both'? COMP | 'are' COMP | VPS 'and' VPS | 'help' 'each' 'other'
VPS -> 'can' 'be' 'fixed' | 'can' 'be' 'washed'
VX -> vi TAIL? | vt NPO TAIL? | vt particle NPO TAIL? | 'felt' COMP | 'looked' COMP | 'got' adj PP?
VX -> vto 'to' VB | aux 'not'? VB | 'saw' 'that' CL | 'learned' 'that' MORAL | 'stopped' 'crying'
VX -> 'always' VX | 'gave' NPO NPO | 'gave' particle NPO | 'showed' NPO NPO TAIL? | 'jumped' 'and' 'jumped'
VX -> 'pulled' 'and' 'pulled' | VX 'until' CL | 'have' NPO | 'lost' NPO
MORAL -> CL | 'it' 'is' ADJP 'to' VB | 'sharing' 'makes' 'friends' 'happy'
VB -> vi_b TAIL? | vt_b NPO TAIL? | vi_b 'and' vi_b TAIL? | 'be' COMP | 'play' 'with' NPO TAIL?
VB -> 'give' particle NPO | 'give' NPO particle | 'want' 'to' VB | 'know' 'what' 'to' 'do'
VB -> 'stay' 'close' PP | 'look' 'after' NPO | 'ask' 'for' NPO
TAIL -> PP | ADVS | TAIL TAIL
ADVS -> degree? adv | particle | 'again' 'and' 'again' | 'all' 'over' NPO | 'every' 'day' | 'too' adj | 'happy'
PP -> prep NPO
COMP -> ADJP PP? | ADJP ADVS | NPO | PP TAIL? | ADJP 'and' adj | degree adj 'that' CL | 'not' COMP
COMP -> 'as' adj 'as' adj | ADJP 'for' NPO | 'there' | 'the' 'best' | 'all' 'brown' 'and' adj
COMP -> ADJP 'too' | adj 'anymore' | 'not' adj 'anymore'
ADJP -> degree? adj
QUOTED -> qc 'said' WHO '.' | qe 'said' WHO '.' | qq 'asked' WHO '.' | qe 'said' WHO ',' 'but' CL '.'
QUOTED -> WHO 'said' ',' SPEECH | WHO 'asked' ',' qq | WHO VX 'and' 'said' ',' SPEECH | SPEECH
SPEECH -> qd | qe
WHO -> name | poss kin | he
SAY -> PART '.' | PART '!' | ASK '?'
PART -> BODY | BODY ',' CALL | 'here' ',' CALL ',' BODY | 'no' ',' BODY | 'thank' 'you' ',' CALL
CALL -> name | title
BODY -> CLAUSES | VB | 'do' 'not' VB | 'let' 'us' VB | 'thank' 'you' | 'here' 'you' 'are'
ASK -> QUESTION | QUESTION ',' CALL
QUESTION -> 'what' 'is' adj | 'what' 'happened' | 'why' 'are' 'you' adj | 'are' 'you' adj
QUESTION -> AUX1 'i' VB | AUX1 'you' VB
AUX1 -> 'can' | 'may' | 'could' | 'will'
"""


def _expand(symbols: list[str]) -> list[list[str]]:
    """Returns all forms of a right side in which `?` marks optional symbols."""
    forms: list[list[str]] = [[]]
    for symbol in symbols:
        if symbol.endswith("?") and len(symbol) > 1 and symbol != "'?'":
            forms = forms + [form + [symbol[:-1]] for form in forms]
        else:
            forms = [form + [symbol] for form in forms]
    return forms


def _read_rules() -> dict[str, list[tuple[str, ...]]]:
    """Returns the rules by left side."""
    rules: dict[str, list[tuple[str, ...]]] = {}
    for line in RULES.strip().splitlines():
        left, right = line.split(" -> ")
        for side in right.split(" | "):
            rules.setdefault(left, []).extend(tuple(form) for form in _expand(side.split()))
    return rules


_RULES = _read_rules()
_KINDS: dict[str, set[str]] = {}
for _kind, _words in LEXICON.items():
    for _word in _words.split():
        _KINDS.setdefault(_word, set()).add(_kind)
_LITERALS = {s[1:-1] for sides in _RULES.values() for side in sides for s in side if s[0] == "'"}


def known(word: str) -> bool:
    """Returns true if the grammar knows the word, in lower case."""
    return word in _KINDS or word in _LITERALS


def _matches(symbol: str, token: str) -> bool:
    """Returns true if the token matches a lower case or quoted symbol."""
    if symbol[0] == "'":
        return token == symbol[1:-1]
    if token[0] == "@":
        return symbol == token[1:]
    return symbol in _KINDS.get(token, ())


@lru_cache(maxsize=65536)
def derives(start: str, tokens: tuple[str, ...]) -> bool:
    """Returns true if the phrase `start` derives the tokens. Tokens are words in lower case, punctuation, and @name,
    @title, @qc, @qd, @qe, @qq for names, titles and quoted speech."""
    # An item is (left side, right side, position of the dot, index of its first token).
    first = [(start, side, 0, 0) for side in _RULES[start]]
    columns: list[set] = [set(first)]
    agenda = first
    for at in range(len(tokens) + 1):
        column, following = columns[at], set()
        while agenda:
            left, side, dot, origin = agenda.pop()
            new = []
            if dot == len(side):
                new = [
                    (l, s, d + 1, o)
                    for l, s, d, o in columns[origin]
                    if d < len(s) and s[d] == left
                ]
            elif side[dot] in _RULES:
                new = [(side[dot], s, 0, at) for s in _RULES[side[dot]]]
            elif at < len(tokens) and _matches(side[dot], tokens[at]):
                following.add((left, side, dot + 1, origin))
            for item in new:
                if item not in column:
                    column.add(item)
                    agenda.append(item)
        columns.append(following)
        agenda = list(following)
        if not following:
            break
    last = columns[len(tokens)] if len(columns) > len(tokens) else set()
    return any(l == start and d == len(s) and o == 0 for l, s, d, o in last)
