#!/usr/bin/env python3
"""Writes a synthetic log of requests for `incipit replay` and `incipit analyze`, as hash chains.

  tools/make_traces.py KIND [--seed N] [--split N] > trace.jsonl

The kinds differ in how prompts repeat:

  chat   conversations of several turns that begin with one of a few system prompts; a third ends after one turn
  scan   chat, with a third of the requests replaced by long prompts that never repeat
  rag    questions about documents; some documents are asked about often
  shift  rag with fewer documents; half-way through the log other documents become the popular ones
  agent  tools called in quick loops, with long prompts; contexts repeat between tasks
  apps   applications behind one server: two chat applications, and six that send instructions with inputs that never
         repeat
  adv    an adversarial log: every 1,500 requests the meaning of a prompt's use count changes

A line is {"timestamp": ms, "input_length", "output_length", "hash_ids"}. An id stands for a block of 512 tokens
together with all tokens before the block. With --split N, each block is split into N blocks of 512 / N tokens. The
same kind and seed give the same log with every Python since 3.6.
"""
import argparse
import bisect
import heapq
import itertools
import json
import random
import sys

BLOCK_TOKENS = 512


class Log:
    """The requests so far, and the source of random numbers and block ids for new requests."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.requests = []
        self._ids = itertools.count()

    def blocks(self, count):
        return [next(self._ids) for _ in range(count)]

    def add(self, time, chain, output_blocks):
        self.requests.append((time, list(chain), output_blocks))

    def zipf(self, count, exponent):
        """Returns a function that samples from [0, count); smaller numbers are more frequent."""
        sums = list(itertools.accumulate(1 / (rank + 1) ** exponent for rank in range(count)))
        return lambda: bisect.bisect_left(sums, self.random.random() * sums[-1])

    def lognormal(self, mu, sigma):
        return self.random.lognormvariate(mu, sigma)

    def exponential(self, rate):
        return self.random.expovariate(rate)

    def goes_on(self):
        """Returns the probability that a chat continues after a turn: 0 for single questions, 0.6 for occasional
        users, 0.85 for heavy users."""
        return self.random.choices([0.0, 0.6, 0.85], [0.35, 0.4, 0.25])[0]

    def think_time(self):
        """Returns the seconds between an output and the next turn of a chat."""
        return self.lognormal(4.1, 1.0) + 5


class Agenda:
    """A queue of future actions by time. An action may add further actions."""

    def __init__(self):
        self._heap = []
        self._order = itertools.count()

    def at(self, time, action):
        heapq.heappush(self._heap, (time, next(self._order), action))

    def run(self):
        while self._heap:
            time, _, action = heapq.heappop(self._heap)
            action(time)


class Session:
    """A conversation. The prompt of each turn is the previous prompt, the previous output and a new question."""

    def __init__(self, log, agenda, chain, *, goes_on, pause, question):
        self.log, self.agenda, self.chain = log, agenda, list(chain)
        self.goes_on = goes_on  # probability of another turn
        self.pause = pause  # function that returns the seconds to the next turn
        self.question = question  # function that returns the number of blocks of a question

    def turn(self, time):
        self.chain += self.log.blocks(max(1, self.question()))
        output = self.log.random.choice([0, 1, 1, 2])
        self.log.add(time, self.chain, output)
        if self.log.random.random() < self.goes_on:
            self.chain += self.log.blocks(output)
            self.agenda.at(time + self.pause(), self.turn)


def chat(log, num_sessions=3500, rate=1.0, scans=0.0, num_systems=5):
    agenda = Agenda()
    systems = [log.blocks(log.random.randint(2, 12)) for _ in range(num_systems)]
    popular = log.zipf(num_systems, 1.0)

    def scan(num_blocks):
        return lambda time: log.add(time, log.blocks(num_blocks), 1)

    time = 0.0
    for _ in range(num_sessions):
        time += log.exponential(rate)
        if log.random.random() < scans:
            agenda.at(time, scan(log.random.randint(20, 100)))
            continue
        goes_on = log.goes_on()
        opening = log.random.choices([1, 4, 15], [0.5, 0.35, 0.15])[0]
        chain = systems[popular()] + (log.blocks(log.random.randint(1, opening * 2)) if opening > 1 else [])
        session = Session(log, agenda, chain, goes_on=goes_on, pause=log.think_time,
                          question=lambda: min(30, 1 + int(log.exponential(1 / 2.0))))
        agenda.at(time, session.turn)
    agenda.run()


def rag(log, num_sessions=7000, rate=3.0, num_documents=2500, exponent=0.8, shifts=False):
    agenda = Agenda()
    system = log.blocks(3)
    documents = [log.blocks(log.random.randint(8, 40)) for _ in range(num_documents)]
    popular = log.zipf(num_documents, exponent)
    ranking = list(range(num_documents))
    log.random.shuffle(ranking)
    time = 0.0
    for i in range(num_sessions):
        time += log.exponential(rate)
        if shifts and i == num_sessions // 2:
            log.random.shuffle(ranking)
        document = documents[ranking[popular()]]
        session = Session(log, agenda, system + document, goes_on=0.25, pause=lambda: log.lognormal(3.4, 0.8),
                          question=lambda: 1 + int(log.exponential(0.8)))
        agenda.at(time, session.turn)
    agenda.run()


def agent(log, num_sessions=1200, rate=0.25):
    agenda = Agenda()
    tools = [log.blocks(log.random.randint(10, 30)) for _ in range(6)]
    contexts = {}
    popular_tools, popular_contexts = log.zipf(6, 0.8), log.zipf(150, 0.9)

    def pause():
        return log.lognormal(1.6, 0.7) + (120 * log.random.random() if log.random.random() < 0.1 else 0)

    time = 0.0
    for _ in range(num_sessions):
        time += log.exponential(rate)
        key = (popular_tools(), popular_contexts())
        fresh = log.blocks(log.random.randint(5, 40))
        chain = tools[key[0]] + contexts.setdefault(key, fresh)
        session = Session(log, agenda, chain, goes_on=log.random.choice([0.7, 0.9, 0.93]), pause=pause,
                          question=lambda: 1 + int(log.exponential(1 / 1.5)))
        agenda.at(time, session.turn)
    agenda.run()


def apps(log, num_requests=9000, rate=4.0, chats=0.3):
    agenda = Agenda()
    systems = [log.blocks(log.random.randint(1, 4)) for _ in range(2)]
    instructions = [log.blocks(log.random.randint(3, 16)) for _ in range(6)]
    popular = log.zipf(6, 0.8)

    def one_off(chain):
        return lambda time: log.add(time, chain, 1)

    time = 0.0
    for _ in range(num_requests):
        time += log.exponential(rate)
        if log.random.random() >= chats:
            agenda.at(time, one_off(instructions[popular()] + log.blocks(log.random.randint(1, 4))))
            continue
        goes_on = log.goes_on()
        session = Session(log, agenda, log.random.choice(systems), goes_on=goes_on,
                          pause=log.think_time, question=lambda: 1 + int(log.exponential(0.4)))
        agenda.at(time, session.turn)
    agenda.run()


def adv(log, num_requests=12000, phase=1500):
    """Cycles through three phases: prompts that occur twice occur often; every prompt occurs exactly twice, the
    second time within 60 to 120 requests; every prompt occurs three times, each time within 15 to 30 requests."""
    time = 0.0
    pool, due = [], []  # prompts that repeat often; (index of the request, prompt, repetitions left)
    for i in range(num_requests):
        time += log.exponential(3.0)
        kind = i // phase % 3
        if i % phase == 0:
            pool, due = [log.blocks(log.random.randint(5, 40)) for _ in range(60)], []
        if kind == 0:
            again = log.random.random() < 0.4
            log.add(time, log.random.choice(pool) if again else log.blocks(log.random.randint(5, 40)), 0)
            continue
        repeats, lag = (1, 120) if kind == 1 else (2, 30)
        if due and due[0][0] <= i:
            _, chain, left = due.pop(0)
            left -= 1
        else:
            chain, left = log.blocks(log.random.randint(5, 40)), repeats
        log.add(time, chain, 0)
        if left:
            bisect.insort(due, (i + log.random.randint(lag // 2, lag), chain, left))


KINDS = {
    "chat": chat,
    "scan": lambda log: chat(log, scans=0.35),
    "rag": rag,
    "shift": lambda log: rag(log, num_documents=1500, exponent=1.0, shifts=True),
    "agent": agent,
    "apps": apps,
    "adv": adv,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--split", type=int, default=1, choices=[2**i for i in range(10)], metavar="N",
                        help="split each block into N blocks; N is a power of two up to 512")
    arguments = parser.parse_args()
    log = Log(arguments.seed)
    KINDS[arguments.kind](log)
    split = arguments.split
    for time, chain, output_blocks in sorted(log.requests, key=lambda request: request[0]):
        ids = [block * split + part for block in chain for part in range(split)]
        print(json.dumps({"timestamp": int(time * 1000), "input_length": len(chain) * BLOCK_TOKENS,
                          "output_length": output_blocks * BLOCK_TOKENS, "hash_ids": ids}))


if __name__ == "__main__":
    sys.exit(main())
