"""Tests the flag --prewarm: prompts that the server computes or loads before it is ready."""
import json
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import grpc
from harness.server import BUNDLED, PROGRAM, STOP_SECONDS, Server, collect, die_with_parent, greedy
from incipit.v1 import inference_pb2_grpc

VOCABULARY = 1000  # at most the number of token ids of the bundled model
PROMPT_TOKENS = 400
# The bundled model has 128 tokens in a chunk. The disk cache stores whole chunks.
CHUNK_TOKENS = 128
LOADED_TOKENS = PROMPT_TOKENS // CHUNK_TOKENS * CHUNK_TOKENS
# So many prompts that the server cannot compute them within a second.
MANY = 5000


def random_prompt(seed, size=PROMPT_TOKENS):
    generator = random.Random(seed)
    return [generator.randrange(3, VOCABULARY) for _ in range(size)]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run_serve(*flags):
    return subprocess.run([PROGRAM, "serve", "--model", str(BUNDLED), "--address", "127.0.0.1:0", "--metrics-address",
                           "127.0.0.1:0", "--http-address", "none", *flags],
                          capture_output=True, text=True, timeout=STOP_SECONDS)


class StartingServer:
    """A server process that may still compute prompts. The ports are chosen before the start."""

    def __init__(self, *flags):
        self.grpc, self.http = free_port(), free_port()
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--model", str(BUNDLED), "--address", f"127.0.0.1:{self.grpc}", "--metrics-address",
             "127.0.0.1:0", "--http-address", f"127.0.0.1:{self.http}", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=die_with_parent)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def status(self, path):
        """Returns the HTTP status of `path`, or None if the server does not listen yet."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self.http}{path}", timeout=10) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code
        except urllib.error.URLError:
            return None

    def wait_listening(self):
        while self.status("/livez") is None:
            if self.process.poll() is not None:
                raise AssertionError("the server did not start")
            threading.Event().wait(0.02)


@unittest.skipUnless(BUNDLED.exists(), "models/incipit-tiny is not there")
class PrewarmTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="incipit-prewarm-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def file(self, *lines):
        path = self.folder / "prompts.jsonl"
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return str(path)

    def many(self):
        return self.file(*({"token_ids": random_prompt(seed)} for seed in range(MANY)))

    def cached_tokens(self, server, prompt, salt="", **arguments):
        request = greedy(prompt, 1)
        request.cache.salt = salt
        return server.generate(request, **arguments).usage.cached_tokens

    def test_the_prompts_are_cached_when_the_server_is_ready(self):
        text = "Once upon a time there was a little girl who lived in a house near the wood. " * 4
        path = self.file({"token_ids": random_prompt(1)}, "", {"text": text},
                         {"token_ids": random_prompt(2), "tenant": "a", "salt": "s"})
        with Server("--prewarm", path, model=BUNDLED) as server:
            self.assertEqual(self.cached_tokens(server, random_prompt(1)), PROMPT_TOKENS - 1)
            reply = server.generate(greedy(text, 1))
            # Only full blocks of 16 tokens are cached.
            self.assertEqual(reply.usage.cached_tokens, (reply.usage.prompt_tokens - 1) // 16 * 16)
            self.assertEqual(self.cached_tokens(server, random_prompt(2)), 0)
            self.assertEqual(self.cached_tokens(server, random_prompt(2), "s", metadata=(("x-tenant-id", "a"),)),
                             PROMPT_TOKENS - 1)
            self.assertRegex(server.log(), r"--prewarm: 3 prompts with \d+ tokens are in the cache")

    def test_a_restarted_server_loads_the_prompts(self):
        path = self.file(*({"token_ids": random_prompt(seed)} for seed in range(10)))
        disk = ("--disk-cache", str(self.folder / "cache"), "--disk-cache-size", "256MiB", "--tier-load", "always",
                "--tier-wait-max", "30s", "--prewarm", path)
        tokens = 10 * PROMPT_TOKENS
        with Server(*disk, model=BUNDLED) as server:
            first = [server.generate(greedy(random_prompt(seed), 8)).token_ids for seed in range(10)]
            self.assertIn(f"{tokens} tokens computed, 0 loaded from the disk cache", server.log())
            server.signal()
            self.assertEqual(server.wait(), 0)
        with Server(*disk, model=BUNDLED) as server:
            loaded = 10 * LOADED_TOKENS
            self.assertIn(f"{tokens - loaded} tokens computed, {loaded} loaded from the disk cache", server.log())
            self.assertEqual(server.metric("incipit_disk_cache_loaded_tokens_total"), loaded)
            for seed in range(10):
                reply = server.generate(greedy(random_prompt(seed), 8))
                self.assertEqual(reply.usage.cached_tokens_by_tier.device, PROMPT_TOKENS - 1)
                self.assertEqual(reply.token_ids, first[seed])

    def test_the_server_is_ready_after_the_time_limit(self):
        begin = time.monotonic()
        with Server("--prewarm", self.many(), "--prewarm-timeout", "1s", "--kv-blocks", "1024", model=BUNDLED) as server:
            self.assertGreater(time.monotonic() - begin, 1)
            match = re.search(r"--prewarm: (\d+) prompts were cancelled or not started", server.log())
            self.assertGreater(int(match[1]), 0)
            self.assertEqual(len(server.generate(greedy("Once upon a time", 8)).token_ids), 8)

    def test_a_prompt_that_cannot_be_computed_does_not_stop_the_start(self):
        path = self.file({"token_ids": [5] * 100_000}, {"token_ids": [2_000_000_000]}, {"token_ids": random_prompt(1)})
        with Server("--prewarm", path, model=BUNDLED) as server:
            self.assertEqual(self.cached_tokens(server, random_prompt(1)), PROMPT_TOKENS - 1)
            log = server.log()
            self.assertRegex(log, r"--prewarm: the prompt in line 1 was not computed: .*tokens")
            self.assertRegex(log, r"--prewarm: the prompt in line 2 was not computed: .*token_ids")
            self.assertIn("2 prompts failed", log)

    def test_the_server_is_not_ready_meanwhile(self):
        with StartingServer("--prewarm", self.many()) as server:
            server.wait_listening()
            self.assertEqual(server.status("/readyz"), 503)
            self.assertEqual(server.status("/health"), 200)
            # A request that is in progress when the stop signal arrives ends normally.
            with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
                request = greedy("Once upon a time", 100)
                request.output.ignore_eos = True
                call = inference_pb2_grpc.InferenceStub(channel).Generate(request)
                first = next(call)
                server.process.send_signal(signal.SIGTERM)
                rest = collect(call)
            self.assertEqual(sum(len(delta.token_ids) for delta in first.deltas) + len(rest.token_ids), 100)
            self.assertEqual(server.process.wait(timeout=STOP_SECONDS), 0)
            self.assertEqual(server.process.stdout.read(), "", "the server was never ready")

    def test_wrong_files_are_refused(self):
        for line, reason in (({"prompt": "a"}, "unknown key"), ({"text": 1}, "text is 1"), ("{", "not valid JSON"),
                             ({"text": "a", "token_ids": [1]}, "either text or token_ids"), ({}, "either text or token_ids"),
                             ({"token_ids": [-1]}, "token_ids[0] is -1"), ({"text": "a", "tenant": "a b"}, "tenant must be")):
            path = self.file({"text": "a"}, line)
            result = run_serve("--prewarm", path)
            self.assertEqual(result.returncode, 2, line)
            self.assertIn(f"--prewarm: {path}:2: ", result.stderr)
            self.assertIn(reason, result.stderr)
        missing = str(self.folder / "missing")
        result = run_serve("--prewarm", missing)
        self.assertEqual(result.returncode, 2)
        self.assertIn(f"--prewarm: {missing}: no such file", result.stderr)
        result = run_serve("--prewarm", self.file(), "--prefix-cache", "off")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--prewarm needs --prefix-cache on", result.stderr)
