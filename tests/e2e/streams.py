"""Runs waves of concurrent streams with random cancels and deadlines on a server with a small KV cache:

    python3 tests/e2e/run.py build/release/incipit streams [--waves N] [--streams N] [--requests N] [--seed N]
        [-- FLAG...]

Each FLAG is a flag of the server in the waves. First, a server without a prefix cache computes each request alone.
Then each stream of a wave sends one of these requests, with a random tenant and a random priority. The program checks:

- A stream that ends without an error has the outputs of the request alone: text, token ids, finish reason and usage.
- A stream that is cancelled, or whose deadline passes, has the beginning of these outputs.
- After each wave, no request runs or waits, and no request holds a cache block or unread output.
- The waves cause preemptions, evictions and cache hits.
- After the second wave, the resident memory of the server grows at most by GROWTH_PART and GROWTH_BYTES.

Prints one line for each wave. The seed determines the requests and the plans of the streams, but not the times at
which the server computes them. Exits with 1 if a check fails.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import pathlib
import random
import re
import sys
import threading
import time

from harness.server import BUNDLED, Server
from incipit.v1 import inference_pb2, inference_pb2_grpc
from stream_requests import (Outcome, random_plan, random_requests, stream_over_grpc, stream_over_http)

# The cache has room for about 3,000 tokens, which is a small part of the tokens of all streams of a wave.
SERVER_FLAGS = ("--kv-blocks", "192", "--running-max", "48", "--step-tokens", "128", "--tenant-weights", "tenant-0=2")
# Clients and server share the CPUs, so threads of the server must not spin while they wait.
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive"}
COUNTERS = ("preemptions", "prefix_cache_evictions", "prefix_cache_hit_tokens", "prefix_cache_copied_tokens")
CHANNELS = 8
WARM_WAVES = 2  # waves after which each thread and each buffer of the server has been in use
# Part and bytes by which the resident memory may grow after WARM_WAVES. Heaps and buffers have no fixed size, because
# the allocator keeps memory that was freed, in amounts that depend on the order of calls.
GROWTH_PART, GROWTH_BYTES = 0.1, 20_000_000
IDLE_SECONDS = 60
PROBLEMS_SHOWN = 5


@dataclasses.dataclass
class Options:
    waves: int = 8
    streams: int = 200
    requests: int = 64
    seed: int = 1
    flags: tuple = ()


def resident_bytes(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def requests_and_outputs(options):
    """Returns random requests and the outcome of each request, which a server computes alone."""
    begin = time.monotonic()
    with Server("--prefix-cache=off", "--threads", "1", model=BUNDLED) as server:
        tokenize = lambda text: list(server.inference.Tokenize(
            inference_pb2.TokenizeRequest(text=text, add_special_tokens=False)).ids)
        requests = random_requests(random.Random(options.seed), options.requests, tokenize)
        outputs = [stream_over_grpc(server.inference, request, None) for request in requests]
    for request, output in zip(requests, outputs):
        if output.end != "ok":
            raise AssertionError(f"a request alone ends with {output.end}: {request}")
    print(f"seed {options.seed}: {len(requests)} requests alone: {time.monotonic() - begin:.1f} s; prompts of "
          f"{min(output.prompt_tokens for output in outputs)} to {max(output.prompt_tokens for output in outputs)} "
          f"tokens, {sum(output.num_tokens for output in outputs)} output tokens", flush=True)
    return requests, outputs


def difference(plan, request, alone, outcome):
    """Returns the difference between the outcome of a stream and the outputs of its request alone, or None."""
    ends = ["ok"]
    if plan.may_be_cancelled:
        ends.append("cancelled")
    if plan.deadline:
        ends += ["deadline", "refused"]
    if outcome.end not in ends:
        return f"the stream ends with {outcome.end}, not with {' or '.join(ends)}"
    for choice in range(request.output["n"]):
        for what, found, wanted in (("text", outcome.texts.get(choice, ""), alone.texts.get(choice, "")),
                                    ("token ids", outcome.ids.get(choice, []), alone.ids.get(choice, []))):
            if outcome.end != "ok":
                wanted = wanted[:len(found)]
            if found != wanted:
                return f"choice {choice} of a stream with the end {outcome.end} has the {what} {found!r}, not {wanted!r}"
    if outcome.end == "ok":
        summary = lambda end: (end.finish, end.prompt_tokens, end.completion_tokens)
        if summary(outcome) != summary(alone):
            return f"finish reasons, prompt tokens and output tokens are {summary(outcome)}, not {summary(alone)}"
    return None


class Waves:
    """The waves of one server."""

    def __init__(self, options, requests, alone):
        self._options, self._requests, self._alone = options, requests, alone
        self._generator = random.Random(options.seed + 1)
        self.server = Server(*SERVER_FLAGS, *options.flags, model=BUNDLED, http=True, environment=ENVIRONMENT)
        self._channels = [self.server.connect() for _ in range(CHANNELS)]
        self._stubs = [inference_pb2_grpc.InferenceStub(channel) for channel in self._channels]
        self.problems = []
        self.ends = collections.Counter()
        self.partial = 0          # streams that ended early after the first token
        self.resident_bytes = []  # after each wave

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for channel in self._channels:
            channel.close()
        self.server.close()

    def run(self):
        for wave in range(self._options.waves):
            self._run_wave(wave)
        self._check_counters()
        self._check_memory()

    def _stream(self, index, plan, barrier):
        """Sends the request of `plan` when all clients of the wave are ready. Returns the outcome."""
        barrier.wait()
        try:
            if plan.is_http:
                return stream_over_http(self.server.ports["http"], self._requests[plan.request], plan)
            return stream_over_grpc(self._stubs[index % CHANNELS], self._requests[plan.request], plan)
        except Exception as error:  # for example a connection that the server closes
            outcome = Outcome()
            outcome.end = repr(error)
            return outcome

    def _outcomes_of(self, plans):
        """Runs the streams of `plans` at the same time. Returns their outcomes, and the largest number of requests
        that the server ran or kept in its queue."""
        barrier = threading.Barrier(len(plans))
        busiest = 0
        with concurrent.futures.ThreadPoolExecutor(len(plans)) as threads:
            futures = [threads.submit(self._stream, index, plan, barrier) for index, plan in enumerate(plans)]
            while concurrent.futures.wait(futures, timeout=0.05).not_done:
                load = self.server.load()
                busiest = max(busiest, load.running + load.waiting)
        return [future.result() for future in futures], busiest

    def _run_wave(self, wave):
        plans = [random_plan(self._generator, len(self._requests)) for _ in range(self._options.streams)]
        begin = time.monotonic()
        outcomes, busiest = self._outcomes_of(plans)
        seconds = time.monotonic() - begin
        for plan, outcome in zip(plans, outcomes):
            request, alone = self._requests[plan.request], self._alone[plan.request]
            if found := difference(plan, request, alone, outcome):
                self.problems.append(f"wave {wave}: {found}\n  {plan}\n  {request}")
        ends = collections.Counter(outcome.end for outcome in outcomes)
        self.ends += ends
        self.partial += sum(outcome.end != "ok" and outcome.num_tokens > 0 for outcome in outcomes)
        self._check_idle(wave)
        self.resident_bytes.append(resident_bytes(self.server))
        counters = {name: int(self.server.metric(f"incipit_{name}_total"))
                    for name in COUNTERS}
        print(f"wave {wave}: {seconds:.1f} s, {dict(ends)}, {sum(outcome.num_tokens for outcome in outcomes)} output "
              f"tokens, at most {busiest} requests run or wait; all waves: {counters}; resident memory "
              f"{self.resident_bytes[-1] / 1e6:.1f} MB", flush=True)

    def _busy(self):
        """Returns the metrics that must become 0 after a wave and have another value."""
        values = {"running": self.server.metric("incipit_requests_running"),
                  "waiting": self.server.metric("incipit_requests_waiting"),
                  "used blocks": self.server.metric("incipit_kv_blocks", state="used"),
                  "unread bytes": self.server.metric("incipit_unread_output_bytes")}
        return {name: value for name, value in values.items() if value}

    def _check_idle(self, wave):
        deadline = time.monotonic() + IDLE_SECONDS
        while (busy := self._busy()) and time.monotonic() < deadline:
            threading.Event().wait(0.02)
        if busy:
            self.problems.append(f"wave {wave}: {IDLE_SECONDS} s after the last stream, the server has {busy}")

    def _check_counters(self):
        metric = self.server.metric
        for name in COUNTERS:
            if metric(f"incipit_{name}_total") == 0:
                self.problems.append(f"incipit_{name}_total is 0")
        for end in ("ok", "cancelled", "deadline"):
            if self.ends[end] == 0:
                self.problems.append(f"no stream has the end {end}")
        if self.partial == 0:
            self.problems.append("no stream was cancelled after its first token")
        if metric("incipit_requests_total", outcome="error"):
            self.problems.append("incipit_requests_total counts an error")
        # The server does not know that a client cancels a call which the server has ended.
        if metric("incipit_requests_total", outcome="ok") < self.ends["ok"]:
            self.problems.append("incipit_requests_total counts fewer requests than the clients")

    def _check_memory(self):
        if len(self.resident_bytes) <= WARM_WAVES:
            return
        warm = self.resident_bytes[WARM_WAVES - 1]
        most = warm * (1 + GROWTH_PART) + GROWTH_BYTES
        if max(self.resident_bytes[WARM_WAVES:]) > most:
            self.problems.append(f"resident memory after each wave is {self.resident_bytes} bytes, above {most:.0f}")


def run(options):
    """Returns the problems of all waves."""
    requests, alone = requests_and_outputs(options)
    with Waves(options, requests, alone) as waves:
        waves.run()
        return waves.problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for field in dataclasses.fields(Options):
        if field.name != "flags":
            parser.add_argument(f"--{field.name}", type=int, default=field.default)
    parser.add_argument("flags", nargs="*")
    problems = run(Options(**vars(parser.parse_args())))
    print("\n".join(problems[:PROBLEMS_SHOWN]) or "every check passed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
