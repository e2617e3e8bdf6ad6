"""The loads of tools/compare_serving.py, and the figures of a run. Python's standard library is enough.

A load is a list of jobs: prompts of random token ids, each with its number of output tokens. The same name, numbers and
seed give the same token ids on every machine.
"""
import math
import random
from typing import NamedTuple

LOADS = ("chatbot", "multi-turn", "long-and-short")
FIRST_ID, VOCABULARY = 300, 30000  # token ids are in [FIRST_ID, VOCABULARY), unless a flag changes the end
SYSTEM_TOKENS = 512  # length of the system prompt that all prompts of chatbot and multi-turn begin with
QUESTION_TOKENS = (16, 64)  # smallest and largest length of a random question
TURN_TOKENS, REPLY_TOKENS = 40, 32  # multi-turn: lengths of a question and of an output
OUTPUT_TOKENS = 48  # output tokens after a random question
# long-and-short: one of LONG_EVERY prompts has LONG_TOKENS tokens. Prompts below SHORT_MAX tokens count as short.
LONG_EVERY, LONG_INDEX, LONG_TOKENS, LONG_OUTPUT_TOKENS = 8, 3, 3000, 8
SHORT_MAX = 2000
WARM_UP_TOKENS, WARM_UP_OUTPUT_TOKENS, WARM_UP_SEED = 64, 8, 10**9


class Job(NamedTuple):
    prompt: list[int]
    output_tokens: int


class Record(NamedTuple):
    """The measurements of one request; times in seconds."""
    index: int  # position of the job in the load
    prompt_tokens: int
    cached_tokens: int | None  # prompt tokens found in the cache; None if the engine does not report them
    first_token: float  # time from the start of the request to its first output token
    gaps: list[float]  # times between two consecutive output tokens
    total: float  # time from the start of the request to its last output token

    @property
    def output_tokens(self):
        return 1 + len(self.gaps)


class Ids:
    """A source of random token ids."""

    def __init__(self, seed, vocabulary):
        self.random = random.Random(seed)
        self.end = vocabulary

    def take(self, count):
        return [self.random.randrange(FIRST_ID, self.end) for _ in range(count)]

    def question(self):
        return self.take(self.random.randint(*QUESTION_TOKENS))


def jobs(load, requests, concurrency, seed, vocabulary=VOCABULARY):
    """Returns the jobs of `load` in the order in which a client sends them."""
    ids = Ids(seed, vocabulary)
    # All loads take the ids of the system prompt, even if they do not use it.
    system = ids.take(SYSTEM_TOKENS)
    if load == "chatbot":
        return [Job(system + ids.question(), OUTPUT_TOKENS) for _ in range(requests)]
    if load == "long-and-short":
        return [Job(ids.take(LONG_TOKENS), LONG_OUTPUT_TOKENS) if i % LONG_EVERY == LONG_INDEX
                else Job(ids.question(), OUTPUT_TOKENS) for i in range(requests)]
    if load == "multi-turn":
        return multi_turn(ids, system, concurrency, max(1, requests // concurrency))
    raise ValueError(f"no load {load!r}; the loads are {', '.join(LOADS)}")


def multi_turn(ids, system, conversations, turns):
    """Returns turn 1 of all conversations, then turn 2 of all conversations, and so on. A prompt contains random ids in
    place of the previous outputs, so that all engines get the same prompts."""
    histories = [system + ids.take(TURN_TOKENS) for _ in range(conversations)]
    found = []
    for _ in range(turns):
        for i, history in enumerate(histories):
            found.append(Job(history, REPLY_TOKENS))
            histories[i] = history + ids.take(REPLY_TOKENS) + ids.take(TURN_TOKENS)
    return found


def warm_up_job(vocabulary=VOCABULARY):
    """Returns a job that shares no prefix with a load. Every engine computes this job before the measurement."""
    return Job(Ids(WARM_UP_SEED, vocabulary).take(WARM_UP_TOKENS), WARM_UP_OUTPUT_TOKENS)


def context_tokens(found):
    """Returns the largest number of prompt and output tokens of a job."""
    return max(len(job.prompt) + job.output_tokens for job in found)


class TokenTimes:
    """The arrival times of one output. If a message contains several tokens, the time since the previous message is
    divided equally among them, except for the first message of the output."""

    def __init__(self, begin):
        self.begin = begin
        self.first = None
        self.last = begin
        self.gaps = []

    def add(self, count, now):
        if count <= 0:
            return
        if self.first is None:
            self.first = self.last = now
            self.gaps += [0.0] * (count - 1)
            return
        self.gaps += [(now - self.last) / count] * count
        self.last = now

    @property
    def count(self):
        return 0 if self.first is None else 1 + len(self.gaps)

    def record(self, index, job, cached_tokens):
        """Returns the record. Raises ValueError if the output does not have the length that `job` asks for."""
        if self.count != job.output_tokens:
            raise ValueError(f"request {index} has {self.count} output tokens instead of {job.output_tokens}")
        return Record(index, len(job.prompt), cached_tokens, self.first - self.begin, self.gaps, self.last - self.begin)


def percentile(values, share):
    """Returns a percentile by nearest rank, or None without values."""
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1] if values else None


def percentiles_ms(seconds):
    return {f"p{round(100 * share)}": None if not seconds else round(1000 * percentile(seconds, share), 3)
            for share in (0.5, 0.99)}


def summary(records, seconds):
    """Returns the figures of a run that took `seconds`, as a JSON object."""
    prompt = sum(record.prompt_tokens for record in records)
    output = sum(record.output_tokens for record in records)
    known = all(record.cached_tokens is not None for record in records)
    cached = sum(record.cached_tokens for record in records) if known else None
    return {
        "requests": len(records), "duration_s": round(seconds, 3),
        "prompt_tokens": prompt, "output_tokens": output, "cached_tokens": cached,
        "cached_share": None if cached is None else round(cached / prompt, 4),
        "output_tokens_per_s": round(output / seconds, 3),
        "ttft_ms": percentiles_ms([record.first_token for record in records]),
        "short_ttft_ms": percentiles_ms([record.first_token for record in records if record.prompt_tokens < SHORT_MAX]),
        "itl_ms": percentiles_ms([gap for record in records for gap in record.gaps]),
    }
