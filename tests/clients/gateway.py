"""Tests the unmodified SMG gateway in front of real servers: gateway.py PROGRAM

The packages of requirements.txt are necessary. The checks of cache events are skipped if the server does not offer
the events.
"""
import contextlib
import hashlib
import io
import json
import os
import random
import sys
import threading
import time
import urllib.request
import zipfile

from support import FAKE_SERVER
from support.checks import Checks, contains, equal, wait_for
from support.smg import Gateway, free_port

# gRPC's fork handlers may otherwise end a child process before it starts its program.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import grpc  # noqa: E402
from harness.process import BUNDLED, ServerProcess  # noqa: E402
from smg_grpc_proto import vllm_engine_pb2, vllm_engine_pb2_grpc  # noqa: E402
from smg_grpc_proto.generated import common_pb2  # noqa: E402

MODEL = BUNDLED.name
PROMPT = "Once upon a time"
STOP_SECONDS = 1  # maximum time from the end of a client's connection to the end of its request
# Requests of different prompts, each several cache blocks long.
WORDS = "cat dog sun tree ball frog house boat bird bear".split()


class Worker(ServerProcess):
    """A server with the bundled model, at a fixed port."""

    def __init__(self, *flags, port=None, kv_blocks=4096, **options):
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        super().__init__("--address", self.address, "--kv-blocks", str(kv_blocks), *flags, model=BUNDLED, **options)
        self._channel = grpc.insecure_channel(self.address, options=[("grpc.use_local_subchannel_pool", 1)])
        self.engine = vllm_engine_pb2_grpc.VllmEngineStub(self._channel)

    @property
    def name(self):
        return f"grpc://{self.address}"

    def close(self):
        self._channel.close()
        super().close()

    def num_requests(self):
        load = self.engine.GetLoads(vllm_engine_pb2.GetLoadsRequest()).loads[0]
        return load.num_total_reqs

    def is_draining(self):
        return not self.engine.HealthCheck(vllm_engine_pb2.HealthCheckRequest()).healthy

    def has_events(self):
        call = self.engine.SubscribeKvEvents(common_pb2.SubscribeKvEventsRequest())
        try:
            call.initial_metadata()
            return call.is_active()
        finally:
            call.cancel()


def slow(*flags, step_time_ms=20, **options):
    """Returns a server whose model is fake and slow. The model never samples an end-of-sequence token, which the gateway
    requests as a stop token."""
    return Worker("--step-time-ms", str(step_time_ms), "--model-name", MODEL, "--sampled-token", "300", *flags,
                  program=FAKE_SERVER, **options)


def greedy(**options):
    return dict(model=MODEL, prompt=PROMPT, temperature=0, **options)


def check_worker(checks):
    with Worker() as worker:
        with checks.check("GetTokenizer sends a zip archive with the files of the model"):
            chunks = list(worker.engine.GetTokenizer(common_pb2.GetTokenizerRequest()))
            data = b"".join(chunk.data for chunk in chunks)
            equal(chunks[-1].sha256, hashlib.sha256(data).hexdigest())
            equal({chunk.sha256 for chunk in chunks[:-1]} - {""}, set())
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                equal(archive.testzip(), None)
                for name in ("tokenizer.json", "tokenizer_config.json", "config.json", "generation_config.json"):
                    equal(archive.read(name), (BUNDLED / name).read_bytes())


def check_start(checks):
    """Check 1: readiness, name of the model, idle workers."""
    with Worker() as first, Worker() as second, Gateway(first.address, second.address) as gateway:
        with checks.check("the gateway is ready and serves the model by its name"):
            with gateway.get("/v1/models") as reply:
                equal([model["id"] for model in reply.json()["data"]], [MODEL])
        with checks.check("idle workers stay in use for 15 seconds"):
            time.sleep(15)
            vetoes = [line for line in gateway.log().splitlines() if "vetoed" in line]
            equal(vetoes, [])
            for _ in range(4):
                gateway.complete(**greedy(max_tokens=2))


def check_output(checks):
    """Check 2: the output is that of the server's own API, and the counts are exact."""
    with Worker(http=True) as worker, Gateway(worker.address) as gateway:
        with checks.check("greedy text is the same with and without a stream"):
            _, whole = gateway.complete(**greedy(max_tokens=40))
            text, usage, finish = "", None, None
            with gateway.post("/v1/completions", stream=True, stream_options={"include_usage": True},
                              **greedy(max_tokens=40)) as reply:
                for event in reply.events():
                    for choice in event["choices"]:
                        text += choice["text"]
                        finish = choice["finish_reason"] or finish
                    usage = event.get("usage") or usage
            equal(text, whole["choices"][0]["text"])
            equal((finish, whole["choices"][0]["finish_reason"]), ("length", "length"))
            equal((usage["prompt_tokens"], usage["completion_tokens"]),
                  (whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"]))
            equal(usage["completion_tokens"], 40)
        with checks.check("an output ends with the end-of-sequence token"):
            _, found = gateway.complete(**greedy(max_tokens=1500))
            equal(found["choices"][0]["finish_reason"], "stop")
            assert found["usage"]["completion_tokens"] < 1500, found["usage"]
        with checks.check("n outputs have their indexes"):
            _, found = gateway.complete(model=MODEL, prompt=PROMPT, temperature=1, seed=1, n=3, max_tokens=20)
            equal(sorted(choice["index"] for choice in found["choices"]), [0, 1, 2])
            equal(len({choice["text"] for choice in found["choices"]}), 3)
            equal(found["usage"]["completion_tokens"], 60)
        with checks.check("a stop string ends the output and the work of the server"):
            before = worker.metric("incipit_tokens_total", kind="generated")
            _, found = gateway.complete(**greedy(max_tokens=1000, stop=["girl"]))
            equal(found["choices"][0]["finish_reason"], "stop")
            assert "girl" not in found["choices"][0]["text"], found
            equal(found["usage"]["completion_tokens"], worker.metric("incipit_tokens_total", kind="generated") - before)
            assert found["usage"]["completion_tokens"] < 20, found["usage"]
        with checks.check("several prompts in one request"):
            _, found = gateway.complete(model=MODEL, prompt=[PROMPT, "The cat"], temperature=0, max_tokens=5)
            equal(len(found["choices"]), 2)
        messages = [{"role": "user", "content": "Tell me a story."}]
        with checks.check("chat, with log probabilities, has the text of a stream"):
            with gateway.post("/v1/chat/completions", model=MODEL, messages=messages, temperature=0, max_tokens=30,
                              logprobs=True, top_logprobs=2) as reply:
                whole = reply.json()
                equal(reply.status, 200)
            positions = whole["choices"][0]["logprobs"]["content"]
            equal(len(positions), whole["usage"]["completion_tokens"])
            for position in positions:
                equal(len(position["top_logprobs"]), 2)
                equal(position["token"], position["top_logprobs"][0]["token"])
            with gateway.post("/v1/chat/completions", model=MODEL, messages=messages, temperature=0, max_tokens=30,
                              stream=True) as reply:
                text = "".join(choice["delta"].get("content") or "" for event in reply.events()
                               for choice in event["choices"])
            equal(text, whole["choices"][0]["message"]["content"])
        with checks.check("options that the server does not support are status 400"):
            for body in (dict(greedy(max_tokens=0)), dict(greedy(max_tokens=5), prompt="")):
                with gateway.post("/v1/completions", **body) as reply:
                    equal(reply.status, 400)
            with gateway.post("/v1/chat/completions", model=MODEL, messages=messages,
                              response_format={"type": "json_object"}) as reply:
                equal(reply.status, 400)
                contains(reply.json()["error"]["message"], "json_schema is not supported")
        with checks.check("a prompt that is longer than the context is status 400"):
            with gateway.post("/v1/completions", model=MODEL, prompt="cat " * 3000, max_tokens=5) as reply:
                equal(reply.status, 400)
        with checks.check("flush_cache of the gateway empties the cache"):
            connection = gateway.connect()
            connection.request("POST", "/flush_cache")
            equal(connection.getresponse().status, 200)
            connection.close()
            _, found = gateway.complete(**greedy(max_tokens=2))
            equal(found["usage"]["prompt_tokens_details"]["cached_tokens"], 0)


def check_cancellation(checks):
    """Check 5: the work ends soon after the client has closed its connection."""
    with slow(step_time_ms=50) as worker, Gateway(worker.address) as gateway:
        def check_end(kind):
            closed = time.monotonic()
            wait_for(lambda: worker.num_requests() == 0, "an idle server")
            seconds = time.monotonic() - closed
            print(f"measured: the request ended {seconds:.3f} s after its client had left ({kind})")
            assert seconds < STOP_SECONDS, seconds

        with checks.check("a client that leaves in the middle of a stream ends its request"):
            with gateway.post("/v1/completions", stream=True, **greedy(max_tokens=1500)) as reply:
                next(reply.events())
            check_end("stream")
        with checks.check("a client that does not stream and leaves ends its request"):
            with unread(gateway, greedy(max_tokens=1500)):
                wait_for(lambda: worker.num_requests() == 1, "a running request")
            check_end("whole response")
    with slow(step_time_ms=1500) as worker, Gateway(worker.address) as gateway:
        with checks.check("a client that leaves before the first token ends its request"):
            with unread(gateway, greedy(max_tokens=1500, stream=True)):
                wait_for(lambda: worker.num_requests() == 1, "a running request")
            # The step in progress ends first.
            wait_for(lambda: worker.num_requests() == 0, "an idle server")
            equal(worker.metric("incipit_requests_total", outcome="cancelled"), 1)


@contextlib.contextmanager
def unread(gateway, body):
    """Sends a request and does not read the response. The end of the `with` block closes the connection."""
    connection = gateway.connect()
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        yield
    finally:
        connection.close()


class Background:
    """A completion that a thread sends. `result` is the status and the worker."""

    def __init__(self, gateway, **body):
        self._thread = threading.Thread(target=self._run, args=(gateway, body))
        self.result = None
        self._thread.start()

    def _run(self, gateway, body):
        with gateway.post("/v1/completions", **body) as reply:
            found = reply.json()
            self.result = (reply.status, reply.worker, found)

    def join(self):
        self._thread.join()
        return self.result


def check_full_worker(checks):
    """Check 6: a full server refuses with RESOURCE_EXHAUSTED."""
    flags = ("--requests-max", "1")
    with slow(*flags) as first, slow(*flags) as second, Gateway(first.address, second.address) as gateway:
        with checks.check("a request that a full server refuses goes to the other server"):
            calls = [Background(gateway, **greedy(max_tokens=150)) for _ in range(2)]
            wait_for(lambda: first.num_requests() + second.num_requests() == 2, "a request on each server")
            with gateway.post("/v1/completions", **greedy(max_tokens=5)) as reply:
                equal(reply.status, 429)
            results = [call.join() for call in calls]
            equal([status for status, _, _ in results], [200, 200])
            equal(sorted(worker for _, worker, _ in results), sorted([first.name, second.name]))
        with checks.check("refusals by full servers do not open the circuit breaker"):
            equal(gateway.metric("smg_worker_cb_outcomes_total", outcome="success"), 2)
            equal(gateway.metric("smg_worker_cb_outcomes_total", outcome="failure"), 0)
            equal(gateway.metric("smg_worker_cb_state"), 0)
            assert first.metric("incipit_requests_rejected_total", reason="queue_full") + \
                second.metric("incipit_requests_rejected_total", reason="queue_full") > 0


def check_failures(checks):
    """Check 7: a server dies, drains and returns."""
    with slow() as first, slow() as second, Gateway(first.address, second.address) as gateway:
        workers = {worker.name: worker for worker in (first, second)}
        with checks.check("a stream whose server dies ends with an error, and others continue"):
            with gateway.post("/v1/completions", stream=True, **greedy(max_tokens=1000)) as reply:
                events = reply.events()
                next(events)
                dead = workers.pop(reply.worker)
                dead.process.kill()
                dead.process.wait()
                assert any("error" in event for event in events), "the stream ends without an error"
            alive = next(iter(workers.values()))
            for _ in range(10):
                equal(gateway.complete(**greedy(max_tokens=2))[0], alive.name)
        with slow(port=dead.port) as returned:
            begin = time.monotonic()
            with checks.check("a server that returns gets requests again"):
                number = iter(range(1000))

                def is_used():
                    gateway.complete(model=MODEL, prompt=f"{next(number)} cats", max_tokens=1, temperature=0)
                    return returned.metric("incipit_tokens_total", kind="generated") > 0
                wait_for(is_used, "a request on the server that returned")
                print(f"measured: the server that returned got a request after {time.monotonic() - begin:.3f} s")
            with checks.check("a server that drains finishes its stream, and refuses no request of a client"):
                with gateway.post("/v1/completions", stream=True, **greedy(max_tokens=100)) as reply:
                    events = reply.events()
                    first_event = next(events)
                    draining, other = (returned, alive) if reply.worker == returned.name else (alive, returned)
                    draining.signal()
                    wait_for(draining.is_draining, "a draining server")
                    for _ in range(10):
                        equal(gateway.complete(**greedy(max_tokens=2))[0], other.name)
                    finish = [choice["finish_reason"] for event in [first_event, *events]
                              for choice in event["choices"]]
                    equal(finish[-1], "length")
                equal(draining.wait(), 0)


def check_retry(checks):
    """Check 7: a request without a stream moves to another server."""
    with slow() as first, slow() as second, Gateway(first.address, second.address) as gateway:
        with checks.check("a request without a stream whose server dies goes to another server"):
            call = Background(gateway, **greedy(max_tokens=100))
            wait_for(lambda: first.num_requests() + second.num_requests() == 1, "a running request")
            dead, alive = (first, second) if first.num_requests() else (second, first)
            dead.process.kill()
            status, worker, found = call.join()
            equal((status, worker), (200, alive.name))
            equal(found["usage"]["completion_tokens"], 100)


def check_loads(checks):
    """Check 8: the gateway reads the load of a server."""
    with slow("--running-max", "1") as worker, Gateway(worker.address) as gateway:
        with checks.check("the metrics of the gateway show the load of the server"):
            calls = [Background(gateway, **greedy(max_tokens=250)) for _ in range(3)]
            wait_for(lambda: gateway.metric("smg_engine_running_requests") == 1 and
                     gateway.metric("smg_engine_waiting_requests") == 2 and
                     gateway.metric("smg_engine_token_usage") > 0 and
                     gateway.metric("smg_engine_gen_throughput") > 10, "the load in the metrics")
            equal([call.join()[0] for call in calls], [200, 200, 200])


def long_prompt(number, num_words=160):
    """Returns the prompt number `number`, whose first words differ from those of other prompts."""
    words = [WORDS[(number // len(WORDS) ** i) % len(WORDS)] for i in range(4)]
    return f"The {' '.join(words)}. " + " ".join(WORDS[(number + i * i) % len(WORDS)] for i in range(num_words))


def token_ids(worker, text):
    """Returns the token ids of `text` without special tokens, as the gateway computes them."""
    body = json.dumps({"prompt": text, "add_special_tokens": False}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{worker.ports['http']}/tokenize", body,
                                     {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as reply:
        return json.loads(reply.read())["tokens"]


def announce(worker, number):
    """Makes `worker` cache the prompt, without the gateway."""
    request = vllm_engine_pb2.GenerateRequest(request_id=f"announce-{number}")
    request.tokenized.input_ids.extend(token_ids(worker, long_prompt(number)))
    request.sampling_params.max_tokens = 1
    list(worker.engine.Generate(request))


def route(gateway, number):
    """Returns the worker that the gateway chooses for the prompt, and the number of cached tokens."""
    worker, found = gateway.complete(model=MODEL, prompt=long_prompt(number), max_tokens=1, temperature=0)
    return worker, found["usage"]["prompt_tokens_details"]["cached_tokens"]


def branches(gateway):
    """Returns how many prompts the gateway found in its index of cached blocks, and how many prompts it did not find."""
    return tuple(gateway.metric("smg_cache_aware_policy_branch_total", branch=branch)
                 for branch in ("event_hit", "event_miss"))


def check_events(checks):
    """Checks 3 and 4: the gateway routes by the cached blocks that servers announce."""
    with Worker(http=True) as first:
        if not first.has_events():
            checks.skip("routing by announced blocks", "the server does not offer SubscribeKvEvents yet")
            return
        second = Worker(http=True)
        workers = (first, second)
        try:
            with Gateway(first.address, second.address) as gateway:
                with checks.check("a second request with the same prefix goes to the same server"):
                    hits, _ = branches(gateway)
                    worker, _ = route(gateway, 0)
                    time.sleep(0.3)
                    again, cached = route(gateway, 0)
                    equal(again, worker)
                    assert cached > 0, cached
                    assert branches(gateway)[0] > hits
                with checks.check("at least 19 of 20 announced prompts go to the server that announced them"):
                    for i in range(20):
                        announce(workers[i % 2], 100 + i)
                    time.sleep(0.5)
                    num_right = sum(route(gateway, 100 + i)[0] == workers[i % 2].name for i in range(20))
                    print(f"measured: {num_right} of 20 announced prompts went to the server that announced them")
                    assert num_right >= 19, num_right
                with checks.check("removed prompts are cache misses of the gateway"):
                    for i in range(20):
                        announce(first, 200 + i)
                    first.engine.FlushCache(common_pb2.FlushCacheRequest())
                    wait_for(lambda: gateway.metric("smg_kv_index_blocks", worker=first.name) == 0, "an empty index")
                    # For a miss, the gateway chooses the server by load, so the server itself is not checked.
                    hits, misses = branches(gateway)
                    for i in range(20):
                        route(gateway, 200 + i)
                    equal(branches(gateway), (hits, misses + 20))
                for i in range(12):
                    announce(workers[i % 2], 300 + i)
            with Gateway(first.address, second.address) as gateway:
                with checks.check("a new gateway learns the cached prompts from snapshots"):
                    time.sleep(1)
                    num_right = sum(route(gateway, 300 + i)[0] == workers[i % 2].name for i in range(12))
                    print(f"measured: {num_right} of 12 prompts went to the server that had cached them")
                    assert num_right >= 11, num_right
                with checks.check("after a restart of a server, the gateway follows its new announcements"):
                    resyncs = gateway.metric("smg_kv_event_resyncs_total")
                    port = second.port
                    second.close()
                    second = Worker(port=port, http=True)
                    workers = (first, second)
                    wait_for(lambda: gateway.metric("smg_kv_event_resyncs_total") > resyncs, "a resync")
                    for i in range(10):
                        announce(second, 400 + i)
                    time.sleep(0.5)
                    num_right = sum(route(gateway, 400 + i)[0] == second.name for i in range(10))
                    assert num_right >= 9, num_right
        finally:
            second.close()


# An agent load: each log begins with the same declarations of tools, and grows in each turn.
AGENT_LOGS, AGENT_TURNS = 24, 12
AGENT_SHARED_TOKENS, AGENT_TURN_TOKENS = 1500, (100, 400)
AGENT_CACHE_BLOCKS = 3000  # of each server; 16 tokens each


def text_of(worker, rng, num_tokens):
    """Returns a text of random words that has about `num_tokens` tokens."""
    words = [rng.choice(WORDS) for _ in range(num_tokens)]
    ratio = len(token_ids(worker, " ".join(words))) / num_tokens
    return " ".join(words[:round(num_tokens / ratio)])


def agent_hit_ratio(policy, num_workers):
    """Sends the agent load through a gateway, and returns the share of prompt tokens that were cached."""
    blocks = AGENT_CACHE_BLOCKS * 2 // num_workers
    rng = random.Random(1)
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(slow(http=True, step_time_ms=2, kv_blocks=blocks)) for _ in range(num_workers)]
        gateway = stack.enter_context(Gateway(*(worker.address for worker in workers), policy=policy))
        logs = [text_of(workers[0], rng, AGENT_SHARED_TOKENS)] * AGENT_LOGS
        for _ in range(AGENT_TURNS):
            for i in rng.sample(range(AGENT_LOGS), AGENT_LOGS):
                logs[i] += " " + text_of(workers[0], rng, rng.randint(*AGENT_TURN_TOKENS))
                gateway.complete(model=MODEL, prompt=logs[i], max_tokens=8, temperature=0)

        def total(name):
            return sum(worker.metric(f"incipit_prefix_cache_{name}_tokens_total") for worker in workers)
        return total("hit") / total("queried")


def check_agents(checks):
    """Two servers behind the gateway find nearly as many cached tokens as one server with twice the cache."""
    with checks.check("agent logs: hit ratio of two servers at least 0.9 of one server with twice the cache"):
        one, two, turns = (agent_hit_ratio(*case) for case in (("cache_aware", 1), ("cache_aware", 2), ("round_robin", 2)))
        print(f"measured: hit ratio {one:.3f} of one server, {two:.3f} of two servers, "
              f"{turns:.3f} of two servers with the policy round_robin")
        assert two >= 0.9 * one, (one, two)


def main():
    checks = Checks()
    for run in (check_worker, check_output, check_cancellation, check_full_worker, check_failures, check_retry,
                check_loads, check_events, check_agents, check_start):
        run(checks)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
