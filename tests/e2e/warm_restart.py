"""Measures what a restarted server finds in its disk cache:

    python3 tests/e2e/run.py build/release/incipit warm_restart MODEL [--prompts 5] [--kill]

1. Time to the first token (TTFT) of prompts of 1,500 random tokens: with an empty disk cache, and after a restart.
2. Hit ratio of two loads: of the last 50 requests before a restart, and of the first 50 requests after the restart.
   - chatbot: prompts with the same 512 tokens, then 16 to 64 other tokens.
   - agent: 10 logs that begin with the same 1,500 tokens and grow by 100 to 400 tokens with each request.

Each prompt contains random token ids. With --kill, SIGKILL ends the server instead of SIGTERM.
"""
import argparse
import json
import pathlib
import random
import signal
import statistics
import tempfile
import threading

from harness.server import Server, greedy

NUM_REQUESTS = 50  # before and after the restart
TTFT_TOKENS = 1500
CHATBOT_TOKENS, AGENT_TOKENS, NUM_LOGS = 512, 1500, 10


class Load:
    """The prompts of a load, in order."""

    def __init__(self, name, vocab_size, seed=1):
        self.name, self.random, self.vocab_size = name, random.Random(seed), vocab_size
        self.shared = self.tokens(CHATBOT_TOKENS if name == "chatbot" else AGENT_TOKENS)
        self.logs = [list(self.shared) for _ in range(NUM_LOGS)]
        self.next = 0

    def tokens(self, count):
        return [self.random.randrange(3, self.vocab_size) for _ in range(count)]

    def prompt(self):
        if self.name == "chatbot":
            return self.shared + self.tokens(self.random.randint(16, 64))
        log = self.logs[self.next % NUM_LOGS]
        self.next += 1
        log += self.tokens(self.random.randint(100, 400))
        return list(log)


def run(server, load, count):
    """Returns the hit ratio of `count` requests, and the share of prompt tokens that were read from the disk."""
    usages = [server.generate(greedy(load.prompt(), 1)).usage for _ in range(count)]
    prompt_tokens = sum(usage.prompt_tokens for usage in usages)
    return (sum(usage.cached_tokens for usage in usages) / prompt_tokens,
            sum(usage.cached_tokens_by_tier.disk for usage in usages) / prompt_tokens)


def wait_for(server, is_true):
    # The server updates the metrics of the disk cache when it plans a step or when a store ends.
    while not is_true(server):
        server.generate(greedy([5, 6, 7], 1))
        threading.Event().wait(0.05)


def is_on(server):
    return server.metric("incipit_disk_cache_state", state="on") == 1


def stop(server, kill):
    wait_for(server, lambda one: one.metric("incipit_disk_cache_pending", kind="store") == 0)
    server.signal(signal.SIGKILL if kill else signal.SIGTERM)
    server.wait()


def measure(options, folder):
    def start():
        server = Server("--disk-cache", str(folder / "cache"), "--disk-cache-size", options.size, "--kv-memory", options.kv_memory,
                        model=options.model)
        wait_for(server, is_on)
        return server

    result = {"model": options.model.name, "end": "SIGKILL" if options.kill else "SIGTERM"}
    with start() as server:
        vocab_size = server.info().vocab_size
        generator = random.Random(2)
        prompts = [[generator.randrange(3, vocab_size) for _ in range(TTFT_TOKENS)] for _ in range(options.prompts)]
        loads = [Load("chatbot", vocab_size), Load("agent", vocab_size)]
        cold = [server.generate(greedy(prompt, 1)).usage.time_to_first_token_seconds for prompt in prompts]
        before = [run(server, load, 2 * NUM_REQUESTS) and run(server, load, NUM_REQUESTS) for load in loads]
        stop(server, options.kill)
    with start() as server:
        usages = [server.generate(greedy(prompt, 1)).usage for prompt in prompts]
        warm = [usage.time_to_first_token_seconds for usage in usages]
        result["loaded_tokens"] = statistics.median(usage.cached_tokens_by_tier.disk for usage in usages)
        after = [run(server, load, NUM_REQUESTS) for load in loads]
        server.signal()
        server.wait()
    result["ttft_cold_ms"], result["ttft_warm_ms"] = (round(statistics.median(times) * 1e3, 1) for times in (cold, warm))
    result["cold_by_warm"] = round(result["ttft_cold_ms"] / result["ttft_warm_ms"], 2)
    for load, (ratio_before, _), (ratio_after, from_disk) in zip(loads, before, after):
        result[load.name] = {"hit_ratio_before": round(ratio_before, 4), "hit_ratio_after": round(ratio_after, 4),
                             "after_by_before": round(ratio_after / ratio_before, 4), "from_disk": round(from_disk, 4)}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--prompts", type=int, default=5)
    parser.add_argument("--size", default="8GiB", help="--disk-cache-size of the server")
    parser.add_argument("--kv-memory", default="2GiB", help="--kv-memory of the server")
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(options, pathlib.Path(folder)), indent=1))


if __name__ == "__main__":
    main()
