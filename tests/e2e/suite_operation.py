"""Tests the server as a process: start, idle time, metrics, drain and exit codes."""
import contextlib
import json
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.chat import TemplateFile
from harness.server import (BUNDLED, PROGRAM, STOP_SECONDS, Details, Server, collect, default_model, die_with_parent,
                            greedy)
from incipit.v1 import admin_pb2, inference_pb2

PROMPT = "Once upon a time"
# Watchdog timeout in seconds for an engine without progress. The timeout is 20 steps of half a second.
WATCHDOG_SECONDS = 10


def long_request(max_tokens=0):
    request = greedy(PROMPT, max_tokens)
    request.output.ignore_eos = True
    return request


def cpu_seconds(pid):
    """Returns the CPU seconds of all threads of a process."""
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) * 1e-9


def least_seconds(measure, limit):
    """Returns the least result of up to 5 calls of `measure`, or the first result below `limit`.

    Other programs on the machine may delay a call. A fault of the server delays every call.
    """
    least = math.inf
    for _ in range(5):
        least = min(least, measure())
        if least < limit:
            break
    return least


def serve(*flags):
    return subprocess.run([PROGRAM, "serve", *flags], capture_output=True, text=True, timeout=STOP_SECONDS)


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class ProcessTest(unittest.TestCase):
    def test_an_idle_server_uses_less_than_a_hundredth_of_a_core(self):
        with Server() as server:
            server.generate(greedy(PROMPT, 8))
            server.scrape()
            server.wait_until_idle()
            before, begin = cpu_seconds(server.process.pid), time.monotonic()
            threading.Event().wait(3)
            share = (cpu_seconds(server.process.pid) - before) / (time.monotonic() - begin)
            self.assertLess(share, 0.01)

    @unittest.skipUnless(BUNDLED.exists(), "models/incipit-tiny is not there")
    def test_the_bundled_model_replies_within_a_second_of_the_start(self):
        def seconds_to_first_reply():
            begin = time.monotonic()
            with Server(model=BUNDLED) as server:
                next(server.inference.Generate(greedy(PROMPT, 1)))
                return time.monotonic() - begin

        seconds = min(seconds_to_first_reply() for _ in range(3))
        if seconds >= 1 and os.getloadavg()[0] > os.cpu_count():
            self.skipTest(f"{seconds:.2f} s, on a machine that is busy with other things")
        self.assertLess(seconds, 1)

    def test_the_ports_are_printed_and_written(self):
        with Server("--admin-address", "127.0.0.1:0") as server:
            self.assertEqual(set(server.ports), {"grpc", "metrics", "admin"})
            self.assertIn(f":{server.ports['grpc']}", server.ready_line)
            self.assertIn(f":{server.ports['metrics']}", server.ready_line)
            error = self.assertRaises(grpc.RpcError, server.load)
            with grpc.insecure_channel(f"127.0.0.1:{server.ports['admin']}") as channel:
                load = channel.unary_unary("/incipit.v1.Admin/GetLoad",
                                           request_serializer=admin_pb2.GetLoadRequest.SerializeToString,
                                           response_deserializer=admin_pb2.GetLoadResponse.FromString)
                self.assertGreater(load(admin_pb2.GetLoadRequest()).blocks, 0)

    def test_a_wrong_flag_or_file_has_an_exit_code_of_its_own(self):
        model = str(default_model())
        for flags, code, message in (
                ([], 2, "--model"),
                (["--model", model, "--step-tokens", "0"], 2, "--step-tokens"),
                (["--model", model, "--adress", "x"], 2, "did you mean --address"),
                (["--model", "/nonexistent"], 3, "/nonexistent"),
                (["--model", model, "--metrics-address", "127.0.0.1:0", "--address", "127.0.0.1:0",
                  "--port-file", "/nonexistent/ports"], 4, "/nonexistent/ports")):
            with self.subTest(flags=flags):
                result = serve(*flags)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(message, result.stderr)

    def test_a_port_that_is_taken_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            for flag, other in (("--address", "--metrics-address"), ("--metrics-address", "--address")):
                result = serve("--model", str(default_model()), flag, address, other, "127.0.0.1:0")
                self.assertEqual(result.returncode, 4, result.stderr)
                self.assertIn(f"{flag} {address}", result.stderr)

    def test_a_yaml_file_configures_and_a_flag_wins(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "incipit.yaml"
            path.write_text("step-tokens: 64\nrunning-max: 3\n")
            with Server("--config", str(path), "--running-max", "5") as server:
                options = server.admin.GetServerInfo(admin_pb2.GetServerInfoRequest()).options
                self.assertEqual((options["step-tokens"], options["running-max"]), ("64", "5"))
            path.write_text("model: x\nstep-tokenz: 64\n")
            result = serve("--config", str(path))
            self.assertEqual(result.returncode, 2)
            self.assertIn("incipit.yaml:2", result.stderr)
            self.assertIn("step-tokens", result.stderr)

    def test_a_server_that_was_stopped_for_a_while_goes_on(self):  # row 109 of docs/bad_input.md
        with Server("--model-name", "tiny") as server:
            alone = server.generate(long_request(400)).token_ids
            calls = [server.inference.Generate(long_request(400), timeout=60) for _ in range(8)]
            next(calls[0])
            server.signal(signal.SIGSTOP)
            threading.Event().wait(WATCHDOG_SECONDS + 1)
            server.signal(signal.SIGCONT)
            for call in calls[1:]:
                self.assertEqual(collect(call).token_ids, alone)
            self.assertGreater(len(collect(calls[0]).token_ids), 0)
            health = health_pb2_grpc.HealthStub(server.channel).Check(health_pb2.HealthCheckRequest())
            self.assertEqual(health.status, health_pb2.HealthCheckResponse.SERVING)
            self.assertNotIn("no progress", server.log())
            self.assertEqual(server.metric("incipit_requests_total", outcome="ok"), 9)

    def test_nothing_that_clients_say_or_hear_is_logged_at_any_level(self):  # row 113 of docs/bad_input.md
        canary = "Xylophonix"
        with TemplateFile("{% for m in messages %}{{ m.content }}{% endfor %}{% if messages | length > 1 %}"
                          "{{ raise_exception('not two') }}{% endif %}") as template, \
                Server("--log-level", "trace", *template.flags) as server:
            requests = []
            for change in ({}, {"model": canary}, {"request_id": f"{canary}\n"}):
                requests.append(greedy(f"A canary named {canary} sang", 16, **change))
            requests += [greedy(canary, 1) for _ in range(4)]
            requests[-1].sampling.top_p = 5
            requests[-2].cache.salt = canary * 100
            requests[-3].output.stop.extend([canary, canary * 200])
            requests[-4].output.logprobs = 5
            replies = []
            for request in requests:
                for metadata in ((), (("x-tenant-id", canary),), (("x-tenant-id", f"{canary}/"),)):
                    with contextlib.suppress(grpc.RpcError):
                        replies.append(server.generate(request, metadata=metadata))
            for count in (1, 2):
                chat = inference_pb2.ChatRequest(output=inference_pb2.OutputOptions(max_tokens=4),
                                                 template_arguments_json='{"a": "%s"}' % canary)
                for _ in range(count):
                    chat.messages.add(role="user", content=canary)
                with contextlib.suppress(grpc.RpcError):
                    replies.append(collect(server.inference.Chat(chat)))
            raw = server.channel.unary_stream("/incipit.v1.Inference/Generate", request_serializer=bytes,
                                              response_deserializer=bytes)
            for data in (canary.encode(), b"\x12\x0b" + canary.encode() + b"\xff"):
                self.assertRaises(grpc.RpcError, list, raw(data))
            server.inference.Tokenize(inference_pb2.TokenizeRequest(text=canary))
            server.signal(signal.SIGTERM)
            server.wait()
            self.assertEqual(len(replies), 5)
            self.assertIn("draining", server.log())
            self.assertNotIn(canary, server.log())
            self.assertNotIn(canary.lower(), server.log().lower())
            self.assertNotIn(replies[0].text.strip(), server.log())
            self.assertNotIn(", ".join(map(str, replies[0].token_ids[:3])), server.log())


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class MetricsTest(unittest.TestCase):
    @unittest.skipUnless(shutil.which("promtool"), "promtool (Debian package prometheus) is not installed")
    def test_promtool_finds_nothing_to_say(self):
        with Server() as server:
            server.generate(greedy(PROMPT, 8))
            # promtool rejects the colon in the names of vLLM.
            text = "".join(line + "\n" for line in server.scrape().splitlines() if "vllm:" not in line)
            result = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_a_request_moves_what_it_should(self):
        with Server() as server:
            reply = server.generate(greedy(PROMPT, 8))
            request = greedy(PROMPT, 8)
            request.sampling.temperature = -1
            self.assertRaises(grpc.RpcError, server.generate, request)
            usage = reply.usage
            for name, labels, value in (
                    ("incipit_requests_total", {"outcome": "ok", "finish_reason": "length"}, 1),
                    ("incipit_requests_rejected_total", {"reason": "invalid_argument"}, 1),
                    ("incipit_tokens_total", {"kind": "prompt_computed"}, usage.prompt_tokens),
                    ("incipit_tokens_total", {"kind": "generated"}, 8),
                    ("incipit_time_to_first_token_seconds_count", {}, 1),
                    ("incipit_inter_token_latency_seconds_count", {}, 7),
                    ("incipit_request_duration_seconds_count", {}, 1),
                    ("incipit_request_queue_seconds_count", {}, 1),
                    ("incipit_request_prefill_seconds_count", {}, 1),
                    ("incipit_request_decode_seconds_count", {}, 1),
                    ("incipit_step_tokens_total", {}, usage.prompt_tokens + 7),
                    ("vllm:prompt_tokens_total", {"model_name": server.model.name}, usage.prompt_tokens),
                    ("vllm:generation_tokens_total", {}, 8),
                    ("vllm:request_success_total", {"finished_reason": "length"}, 1),
                    ("vllm:request_prompt_tokens_sum", {"engine": "0"}, usage.prompt_tokens),
                    ("vllm:request_generation_tokens_sum", {"engine": "0"}, 8),
                    ("vllm:request_params_max_tokens_sum", {}, 8),
                    ("vllm:time_per_output_token_seconds_count", {}, 7),
                    ("vllm:iteration_tokens_total_sum", {}, usage.prompt_tokens + 7)):
                self.assertEqual(server.metric(name, **labels), value, (name, labels))
            self.assertEqual(server.metric("incipit_kv_blocks"), server.load().blocks)
            self.assertGreater(server.metric("incipit_step_part_seconds_total", part="run"), 0)

    def test_nothing_that_clients_choose_makes_a_series(self):  # row 110 of docs/bad_input.md
        with Server() as server:
            def ask(index):
                for fields in ({"request_id": f"id-{index}"}, {"model": f"model-{index}"},
                               {"request_id": f"id {index}\n"}):
                    request = greedy([5, 6, 7], 2, **fields)
                    request.cache.salt = f"salt-{index}"
                    with contextlib.suppress(grpc.RpcError):
                        server.generate(request, metadata=(("x-tenant-id", f"tenant-{index}"),))

            series = lambda: sorted(line.rsplit(" ", 1)[0] for line in server.scrape().splitlines())
            before = series()
            for index in range(500):
                ask(index)
            self.assertEqual(series(), before)
            self.assertEqual(server.metric("incipit_requests_total", outcome="ok"), 500)
            self.assertEqual(server.metric("incipit_requests_rejected_total", reason="not_found"), 500)
            self.assertEqual(server.metric("incipit_requests_rejected_total", reason="invalid_argument"), 500)

    def test_a_scrape_returns_at_once_while_steps_run(self):  # row 111 of docs/bad_input.md
        with Server("--step-tokens", "512") as server:
            calls = [server.inference.Generate(long_request()) for _ in range(8)]
            slowest = 0
            for _ in range(20):
                begin = time.monotonic()
                self.assertIn("incipit_requests_running", server.scrape())
                slowest = max(slowest, time.monotonic() - begin)
            self.assertLess(slowest, 0.5)
            for call in calls:
                call.cancel()


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class DrainTest(unittest.TestCase):
    """The server runs one request at a time, so that requests still wait when the signal arrives."""

    def start(self, num_requests, max_tokens, *flags):
        server = Server("--running-max", "1", "--drain-timeout", "600s", *flags)
        self.addCleanup(server.close)
        request = long_request(max_tokens)
        request.output.n = 1 if max_tokens else 16  # The requests must outlast a slow client.
        calls = [server.inference.Generate(request) for _ in range(num_requests)]
        for _ in range(5000):  # the first requests may end before the last ones arrive
            load = server.load()
            if load.running and load.waiting >= num_requests // 2:
                break
            threading.Event().wait(0.002)
        return server, calls

    def watch_health(self, server):
        """Starts to watch the health state. The watch must begin before the drain, or it may miss the change."""
        watch = health_pb2_grpc.HealthStub(server.channel).Watch(health_pb2.HealthCheckRequest())
        self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.SERVING)
        return watch

    def wait_until_not_serving(self, watch):
        self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.NOT_SERVING)

    def test_sigterm_finishes_what_runs_and_refuses_what_is_new(self):
        server, calls = self.start(8, 400)
        watch = self.watch_health(server)
        server.signal(signal.SIGTERM)
        self.wait_until_not_serving(watch)
        with self.assertRaises(grpc.RpcError) as caught:
            server.generate(long_request())
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
        for call in calls:
            reply = collect(call)
            self.assertTrue(reply.usage is not None and call.code() == grpc.StatusCode.OK)
        self.assertEqual(server.wait(), 0)

    def test_a_second_sigterm_stops_at_once(self):
        server, calls = self.start(32, 0)
        watch = self.watch_health(server)
        server.signal(signal.SIGTERM)
        self.wait_until_not_serving(watch)
        server.signal(signal.SIGTERM)
        self.assertEqual(server.wait(), 0)
        codes = set()
        for call in calls:
            try:
                collect(call)
                codes.add(grpc.StatusCode.OK)
            except grpc.RpcError as error:
                codes.add(error.code())
        self.assertIn(grpc.StatusCode.UNAVAILABLE, codes)

    def test_a_large_output_does_not_delay_the_exit(self):
        for _ in range(5):
            with Server() as server:
                ids = [5] * 1_000_000
                self.assertTrue(server.inference.Detokenize(inference_pb2.DetokenizeRequest(ids=ids)).text)
                begin = time.monotonic()
                server.signal(signal.SIGTERM)
                self.assertEqual(server.wait(), 0)
                self.assertLess(time.monotonic() - begin, 5)

    def test_a_watch_of_the_health_does_not_delay_the_exit(self):
        def seconds_to_exit():
            with Server() as server:
                watch = self.watch_health(server)
                begin = time.monotonic()
                server.signal(signal.SIGTERM)
                self.assertEqual(server.wait(), 0)
                seconds = time.monotonic() - begin
                watch.cancel()
                return seconds

        self.assertLess(least_seconds(seconds_to_exit, 1.5), 1.5)

    def test_a_signal_while_it_stops_ends_it(self):
        """A second signal ends the server while it drains, and while it closes the remaining calls and watches."""
        def seconds_to_exit():
            server, _ = self.start(1, 0)
            watch = self.watch_health(server)
            server.signal(signal.SIGTERM)
            self.wait_until_not_serving(watch)
            begin = time.monotonic()
            while server.process.poll() is None:
                server.signal(signal.SIGTERM)
                threading.Event().wait(0.01)
            self.assertEqual(server.wait(), 0)
            return time.monotonic() - begin

        self.assertLess(least_seconds(seconds_to_exit, 1), 1)

    def test_the_drain_ends_at_its_timeout(self):
        server, calls = self.start(32, 0, "--drain-timeout", "10ms")
        server.signal(signal.SIGTERM)
        self.assertEqual(server.wait(), 0)
        self.assertIn("calls in progress", server.log())
        self.assertRaises(grpc.RpcError, collect, calls[-1])
        self.assertEqual(calls[-1].code(), grpc.StatusCode.UNAVAILABLE)

    def test_a_signal_while_the_model_is_loaded_ends_the_start(self):  # row 112 of docs/bad_input.md
        process = subprocess.Popen([PROGRAM, "serve", "--model", str(default_model()), "--address", "127.0.0.1:0",
                                    "--metrics-address", "127.0.0.1:0", "--http-address", "none"],
                                   stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
        status = pathlib.Path(f"/proc/{process.pid}/status")
        # Wait until the process handles signals itself. Before that, a signal simply kills the process.
        while not int(re.search(r"SigBlk:\t(\w+)", status.read_text())[1], 16) >> (signal.SIGTERM - 1) & 1:
            self.assertIsNone(process.poll())
        process.terminate()
        self.assertEqual(process.wait(STOP_SECONDS), 0)

    def test_drain_over_the_api_replies_when_nothing_is_left(self):
        server, calls = self.start(8, 400)
        watch = self.watch_health(server)
        drain = server.admin.Drain.future(admin_pb2.DrainRequest())
        self.wait_until_not_serving(watch)
        with self.assertRaises(grpc.RpcError) as caught:
            server.generate(long_request())
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(Details(caught.exception).error_info.reason, "DRAINING")
        self.assertTrue(server.load().draining)
        for call in calls:
            collect(call)
        drain.result(timeout=STOP_SECONDS)
        self.assertEqual(server.load().running, 0)

    def test_sigint_is_as_good_as_sigterm(self):
        with Server() as server:
            server.signal(signal.SIGINT)
            self.assertEqual(server.wait(), 0)


if __name__ == "__main__":
    unittest.main()
