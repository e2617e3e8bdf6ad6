"""Tests the whole server on the CUDA backend with an emulated device. The program is incipit-emulated."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import time
import unittest

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.server import BUNDLED, PROGRAM, STOP_SECONDS, STORIES, Details, Server, collect, greedy
from incipit.v1 import admin_pb2

FLAGS = ("--backend", "cuda", "--block-size", "16")
EXIT_FAILURE, EXIT_DEVICE = 1, 5
# Maximum time to exit in seconds, long enough for a busy machine.
EXIT_SECONDS_MAX = 10


def prompts_of(server, count):
    """Returns prompts of 44 to 84 tokens that begin with the same 24 tokens, which are a block and a half. Some
    prompts share more tokens, and two prompts are equal."""
    size = server.info().vocab_size
    opening = [3 + 11 * i % (size - 3) for i in range(24)]
    prompts = []
    for index in range(count - 1):
        shared = [3 + (7 * i + index % 2) % (size - 3) for i in range(16 * (index % 3))]
        prompts.append(opening + shared + [3 + (31 * i + 17 * index) % (size - 3) for i in range(20 + index % 9)])
    return prompts + [prompts[0]]


def request_of(prompt):
    request = greedy(prompt, 24)
    request.output.ignore_eos = True
    return request


@unittest.skipUnless((STORIES / "config.json").exists(), "tests/data/models/stories260K is not there")
class StoriesTest(unittest.TestCase):
    def test_ids_and_text_are_those_of_the_original_model(self):
        golden = json.loads((STORIES / "golden.json").read_text())
        with Server(*FLAGS, "--kv-blocks", "64", model=STORIES) as server:
            self.assertEqual(server.admin.GetServerInfo(admin_pb2.GetServerInfoRequest()).backend, "cuda")
            reply = server.generate(greedy(golden["prompt"], len(golden["greedy_ids"])))
            self.assertEqual(reply.token_ids, golden["greedy_ids"])
            self.assertEqual(golden["prompt"] + reply.text, golden["text"])


@unittest.skipUnless((BUNDLED / "config.json").exists(), "models/incipit-tiny is not there")
class CrowdTest(unittest.TestCase):
    STEP_TOKENS = 24

    def test_each_of_8_concurrent_requests_equals_its_run_alone(self):
        """Chunked prompts, cache hits, copies within blocks and preemption change no token."""
        with Server(*FLAGS, "--kv-blocks", "64", "--step-tokens", "64", model=BUNDLED) as server:
            prompts = prompts_of(server, 8)
            alone = [server.generate(request_of(prompt)) for prompt in prompts]
        with Server(*FLAGS, "--kv-blocks", "12", "--step-tokens", str(self.STEP_TOKENS), model=BUNDLED) as server, \
                concurrent.futures.ThreadPoolExecutor(len(prompts)) as threads:
            # The first of the concurrent requests can then hit the cache and copy blocks.
            server.generate(request_of(prompts[0]))
            crowd = list(threads.map(lambda prompt: server.generate(request_of(prompt)), prompts))
            for index, reply in enumerate(crowd):
                self.assertEqual(reply.token_ids, alone[index].token_ids, f"request {index}")
            for metric in ("preemptions", "prefix_cache_hit_tokens", "prefix_cache_copied_tokens"):
                self.assertGreater(server.metric(f"incipit_{metric}_total"), 0, metric)
            computed = [len(prompt) - reply.usage.cached_tokens for prompt, reply in zip(prompts, crowd)]
            self.assertGreater(max(computed), self.STEP_TOKENS, "no prompt took more than one step")
            server.wait_until_idle()


@unittest.skipUnless((BUNDLED / "config.json").exists(), "models/incipit-tiny is not there")
class FaultTest(unittest.TestCase):
    RUNNING, WAITING = 2, 4

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.fault = pathlib.Path(folder.name) / "fault"
        self.server = Server(*FLAGS, "--kv-blocks", "64", "--step-tokens", "32", "--running-max", str(self.RUNNING),
                             model=BUNDLED, environment={"INCIPIT_EMULATED_FAULT_FILE": str(self.fault)})
        self.addCleanup(self.server.close)

    def begin(self):
        """Starts RUNNING calls and WAITING calls. The running calls have returned a message, and the waiting calls
        wait."""
        request = greedy([5, 6, 7], 400)
        request.output.ignore_eos = True
        running = [self.server.inference.Generate(request) for _ in range(self.RUNNING)]
        for call in running:
            next(call)
        waiting = [self.server.inference.Generate(request) for _ in range(self.WAITING)]
        for _ in range(5000):
            load = self.server.load()
            if (load.running, load.waiting) == (self.RUNNING, self.WAITING):
                return running + waiting
            threading.Event().wait(0.002)
        raise AssertionError(f"not everybody runs or waits: {load}")

    def assert_failed(self, call):
        with self.assertRaises(grpc.RpcError) as caught:
            collect(call)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INTERNAL)
        self.assertEqual(Details(caught.exception).error_info.reason, "ENGINE_FAILED")

    def test_a_device_that_fails_ends_every_request_and_the_process(self):  # row 107 of docs/bad_input.md
        watch = health_pb2_grpc.HealthStub(self.server.channel).Watch(health_pb2.HealthCheckRequest())
        self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.SERVING)
        calls = self.begin()
        failed = time.monotonic()
        self.fault.touch()
        for call in calls:
            self.assert_failed(call)
        self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.NOT_SERVING)
        self.assertEqual(self.server.wait(), EXIT_FAILURE)
        self.assertLess(time.monotonic() - failed, EXIT_SECONDS_MAX)
        self.assertIn("the engine failed: the emulated GPU has failed", self.server.log())


@unittest.skipUnless((BUNDLED / "config.json").exists(), "models/incipit-tiny is not there")
class MemoryTest(unittest.TestCase):
    def start_with(self, device_bytes, *flags):
        """Starts a server on a device with `device_bytes` of memory, which is too little. Returns the error
        output."""
        ended = subprocess.run([PROGRAM, "serve", *FLAGS, "--model", BUNDLED, "--address", "127.0.0.1:0", *flags],
                               env=dict(os.environ, INCIPIT_EMULATED_DEVICE_BYTES=str(device_bytes)),
                               capture_output=True, text=True, timeout=STOP_SECONDS)
        self.assertEqual(ended.returncode, EXIT_DEVICE, ended.stderr)
        return ended.stderr

    def test_a_start_without_enough_memory_says_how_much_and_which_flag(self):
        for device_bytes, flags, flag in ((24 << 20, ("--step-tokens", "4096"), "--gpu-memory-fraction, --step-tokens"),
                                          (64 << 20, ("--step-tokens", "64", "--kv-blocks", "1000000"), "--kv-blocks"),
                                          (64 << 20, ("--step-tokens", "64", "--kv-memory", "1GiB"), "--kv-memory"),
                                          (1 << 20, (), "")):
            with self.subTest(device_bytes=device_bytes, flags=flags):
                said = self.start_with(device_bytes, *flags)
                asked, free, missing = map(int, re.search(
                    r"(\d+) bytes of device memory were requested, (\d+) bytes are free, (\d+) bytes are missing", said).groups())
                self.assertEqual(asked - free, missing)
                self.assertGreater(missing, 0)
                self.assertLessEqual(free, device_bytes)
                self.assertIn(flag, said.partition("are missing")[2])


class RefusalTest(unittest.TestCase):
    def test_what_the_backend_does_not_offer_is_refused_by_name(self):
        for flag, value, said in (("--block-size", "8", "16, 32, 64"), ("--weights", "int8", "eight-bit weights"),
                                  ("--kv-dtype", "f32", "bf16")):
            with self.subTest(flag=flag):
                flags = ("--backend", "cuda", flag, value)
                with self.assertRaisesRegex(AssertionError, said):
                    Server(*flags).__enter__()


if __name__ == "__main__":
    unittest.main()
