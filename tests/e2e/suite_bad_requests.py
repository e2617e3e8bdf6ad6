"""Tests invalid requests to a running server. Each request gets the right status and field name, and other requests
are not disturbed."""
import itertools
import subprocess
import sys
import threading
import unittest

import bad_requests
import grpc
import openai_body
from bad_requests import CANARY, INVALID, NOT_FOUND, OK, Facts
from harness import http1
from harness.chat import ChatServer
from harness.server import Details, Server, collect, default_model, greedy
from incipit.v1 import inference_pb2

UNPARSED = grpc.StatusCode.INTERNAL
# Status in OpenAI's API for a status of the gRPC API.
HTTP_STATUS = {OK: 200, INVALID: 400, NOT_FOUND: 404}
METHODS = {inference_pb2.GenerateRequest: "Generate", inference_pb2.ChatRequest: "Chat"}


class Bystander:
    """Repeats the same streams while a test runs, and records every reply that differs from the reply without the
    test."""

    def __init__(self, server):
        self._server = server
        self._requests = []
        for temperature in (0, 1):
            request = greedy([9 + i % 70 for i in range(40)], 60)
            request.sampling.temperature, request.sampling.seed = temperature, 11
            request.output.ignore_eos = True
            self._requests.append(request)
        self._alone = [self._run(request) for request in self._requests]
        self._stopping = threading.Event()
        self.num_runs, self.wrong = 0, []
        self._thread = threading.Thread(target=self._work)

    def _run(self, request):
        reply = self._server.generate(request)
        return reply.token_ids, reply.text

    def _work(self):
        for index in itertools.cycle(range(len(self._requests))):
            if self._stopping.is_set():
                return
            try:
                reply = self._run(self._requests[index])
                if reply != self._alone[index]:
                    self.wrong.append(reply)
            except grpc.RpcError as error:
                self.wrong.append(error)
            self.num_runs += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        self._thread.join()


def errors_of(calls):
    """Returns the error of each call, or None for a call that succeeded."""
    errors = []
    for call in calls:
        try:
            collect(call)
            errors.append(None)
        except grpc.RpcError as error:
            errors.append(error)
    return errors


def code_of(error):
    return error.code() if error else OK


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class BadRequestTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ChatServer("--max-model-len", "400", "--prompt-logprobs-bytes-max", "64KiB", http=True)
        info = cls.server.info()
        tokens_of = lambda text: cls.server.inference.Tokenize(inference_pb2.TokenizeRequest(text=text)).ids
        cls.facts = Facts(info.vocab_size, info.max_model_len, info.eos_token_ids[0], tokens_of)
        cls.facts.greedy_ids = cls.server.generate(greedy(bad_requests.ids(12), 3)).token_ids

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def rejections(self):
        return self.server.metric("incipit_requests_rejected_total")

    def check_error(self, case, error):
        self.assertEqual(error.code(), case.code, error.details())
        self.assertIn(case.says, error.details())
        self.assertLess(len(error.details()), 1024)
        self.assertNotIn(CANARY, error.details())
        details = Details(error)
        self.assertEqual(details.status.message, error.details())
        self.assertEqual(details.error_info.domain, "incipit")
        if case.code == INVALID:
            self.assertEqual(details.fields, [case.field])
            self.assertIn(case.field, error.details())

    def check_case(self, case):
        request = case.make(self.facts)
        method = getattr(self.server.inference, METHODS[type(request)])
        before = self.rejections()
        try:
            reply = collect(method(request, metadata=case.metadata, timeout=60))
            self.assertEqual(case.code, OK, "it was answered")
            self.assertTrue(case.check(reply, self.facts), reply.messages[-1:])
        except grpc.RpcError as error:
            self.check_error(case, error)
        self.assertEqual(self.rejections() - before, case.code != OK, "incipit_requests_rejected_total")

    def check_http_case(self, case):
        path, body = openai_body.convert(case.make(self.facts))
        before = self.rejections()
        reply = http1.post(self.server.ports["http"], path, body, case.metadata)
        status = case.http or HTTP_STATUS[case.code]
        self.assertEqual(reply.status, status, reply.body[:500])
        self.assertEqual(self.rejections() - before, status != 200, "incipit_requests_rejected_total")
        if status == 200:
            if case.check:
                self.assertTrue(case.check(openai_body.HttpOutput(reply.json), self.facts), reply.body[:500])
            return
        self.assertLess(len(reply.body), 1400)
        self.assertNotIn(CANARY.encode(), reply.body)
        self.assertIsNotNone(reply.error["code"])
        if status == 400:
            expected = case.param or openai_body.param(case.field)
            # Values such as NaN are not JSON.
            self.assertEqual(reply.error["param"], expected if openai_body.is_json(body) else "body")

    def check_cases(self, cases):
        with Bystander(self.server) as bystander:
            for case in cases:
                with self.subTest(row=case.row, name=case.name, door="gRPC"):
                    self.check_case(case)
                with self.subTest(row=case.row, name=case.name, door="HTTP"):
                    self.check_http_case(case)
        self.assertGreater(bystander.num_runs, 0)
        self.assertEqual(bystander.wrong, [])
        self.server.wait_until_idle()
        self.assertIsNone(self.server.process.poll())

    def test_prompts(self):
        self.check_cases(bad_requests.PROMPTS)

    def test_sampling_options(self):
        self.check_cases(bad_requests.SAMPLING)

    def test_output_options(self):
        self.check_cases(bad_requests.OUTPUT)

    def test_labels_and_tenants(self):
        self.check_cases(bad_requests.LABELS)

    def test_conversations(self):
        self.check_cases(bad_requests.CHAT)

    def test_prompt_logprobs_after_a_hit_equal_those_of_a_cold_run(self):  # row 37 of docs/bad_input.md
        request = greedy([5 + (i * 13) % 90 for i in range(60)], 2)
        request.output.prompt_logprobs = 3
        self.server.reset_cache()
        cold = self.server.generate(request).prompt_logprobs
        self.server.generate(greedy(request.token_ids.ids, 2))
        warm = self.server.generate(request).prompt_logprobs
        self.assertEqual(len(cold), 59)
        self.assertEqual([entry.SerializeToString(deterministic=True) for entry in warm],
                         [entry.SerializeToString(deterministic=True) for entry in cold])

    def test_two_live_requests_may_carry_one_label(self):  # rows 44, 45 of docs/bad_input.md
        requests = [greedy(bad_requests.ids(12), 300, request_id="same") for _ in range(2)]
        for request in requests:
            request.output.ignore_eos = True
        alone = self.server.generate(requests[0]).token_ids
        first, second = (self.server.inference.Generate(request) for request in requests)
        next(first)
        first.cancel()
        self.assertEqual(collect(second).token_ids, alone)

    def test_a_prompt_that_the_cache_can_never_hold_is_refused_at_once(self):  # rows 10, 25 of docs/bad_input.md
        with Server("--kv-blocks", "8") as server:
            for tokens, choices in ((130, 1), (128, 1), (200, 16)):
                request = greedy(bad_requests.ids(tokens), 0)
                request.output.n = choices
                with self.assertRaises(grpc.RpcError) as caught:
                    server.generate(request, timeout=30)
                self.assertEqual(caught.exception.code(), INVALID)
                self.assertIn("128", caught.exception.details())
                self.assertEqual(Details(caught.exception).error_info.reason, "PROMPT_TOO_LONG")
            reply = server.generate(greedy(bad_requests.ids(100), 0), timeout=30)
            self.assertLessEqual(reply.usage.prompt_tokens + reply.usage.completion_tokens, 129)
            server.wait_until_idle()

    def test_16_choices_of_a_long_prompt_run_within_a_small_cache(self):  # row 25 of docs/bad_input.md
        with Server("--kv-blocks", "16") as server:
            request = greedy(bad_requests.ids(100), 60)
            request.output.n, request.output.ignore_eos = 16, True
            reply = server.generate(request, timeout=60)
            self.assertEqual({len(tokens) for tokens in reply.ids.values()}, {60})
            self.assertEqual(len({tuple(tokens) for tokens in reply.ids.values()}), 1)
            server.wait_until_idle()

    def test_clients_that_die_leave_nothing_behind(self):  # row 82 of docs/bad_input.md
        code = (f"import sys; from harness.server import greedy; import grpc; from incipit.v1 import inference_pb2_grpc\n"
                f"channel = grpc.insecure_channel('{self.server.address}')\n"
                f"stub = inference_pb2_grpc.InferenceStub(channel)\n"
                f"request = greedy([5, 6, 7], 0); request.output.ignore_eos = True\n"
                f"calls = [stub.Generate(request) for _ in range(60)]\n"
                f"next(calls[0]); print('started', flush=True); sys.stdin.read()")
        with Bystander(self.server) as bystander:
            for _ in range(3):
                client = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          text=True)
                self.assertEqual(client.stdout.readline(), "started\n")
                client.kill()
                client.communicate()
        self.assertEqual(bystander.wrong, [])
        self.server.wait_until_idle()

    def test_a_deadline_that_has_passed_starts_nothing(self):  # row 83 of docs/bad_input.md
        with Bystander(self.server):
            for seconds in (0, 1e-6, 0.001):
                with self.assertRaises(grpc.RpcError) as caught:
                    self.server.generate(greedy(bad_requests.ids(300), 90), timeout=seconds)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.server.wait_until_idle()

    def test_too_many_waiting_prompt_tokens_are_refused_by_tokens(self):  # row 87 of docs/bad_input.md
        with Server("--waiting-prompt-tokens-max", "500", "--running-max", "1") as server:
            calls = [server.inference.Generate(greedy(bad_requests.ids(200), 0)) for _ in range(24)]
            errors = errors_of(calls)
            for error in filter(None, errors):
                self.assertIsNotNone(Details(error).retry_info)
            self.assertEqual(set(map(code_of, errors)), {OK, grpc.StatusCode.RESOURCE_EXHAUSTED})


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class BadMessageTest(unittest.TestCase):
    """Sends raw bytes instead of messages. gRPC and the protobuf parser refuse some of the bytes before our code. Our
    code must handle the others."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--streams-max", "64")

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def send(self, data, method="Generate", **options):
        """Sends raw bytes. Returns the status code and its message."""
        call = self.server.channel.unary_stream(f"/incipit.v1.Inference/{method}", request_serializer=bytes,
                                                response_deserializer=bytes)
        try:
            list(call(data, timeout=30, **options))
            return OK, ""
        except grpc.RpcError as error:
            return error.code(), error.details()

    def setUp(self):
        self.valid = greedy([5, 6, 7], 2).SerializeToString()

    def tearDown(self):
        self.assertEqual(self.send(self.valid), (OK, ""))
        self.server.wait_until_idle()

    def test_text_that_is_no_utf8(self):  # row 11 of docs/bad_input.md
        self.assertEqual(self.send(b"\x12\x02\xff\xfe")[0], UNPARSED)
        self.assertEqual(self.send(self.valid + b"\x0a\x01\xff")[0], UNPARSED)

    def test_unknown_fields_are_ignored(self):  # row 61 of docs/bad_input.md
        self.assertEqual(self.send(self.valid + b"\xfa\x07\x03abc")[0], OK)

    def test_deep_nesting_is_a_parse_error(self):  # row 61 of docs/bad_input.md
        nested = b"\xfb\x07" * 200 + b"\xfc\x07" * 200  # groups of an unknown field, nested 200 deep
        self.assertEqual(self.send(self.valid + nested)[0], UNPARSED)

    def test_ten_million_ids_are_refused_by_their_size(self):  # row 61 of docs/bad_input.md
        size = b"\x80\xad\xe2\x04"  # varint of 10,000,000
        code, message = self.send(b"\x1a" + b"\x85\xad\xe2\x04" + b"\x0a" + size + b"\x05" * 10_000_000)
        self.assertEqual(code, grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("4194304", message)

    def test_a_truncated_message(self):  # row 62 of docs/bad_input.md
        for size in range(1, len(self.valid)):
            self.assertIn(self.send(self.valid[:size])[0], (UNPARSED, INVALID, OK))
        self.assertEqual(self.send(self.valid[:-1])[0], UNPARSED)

    def test_garbage(self):  # row 62 of docs/bad_input.md
        for data in (b"\xff" * 100, bytes(range(256)), b"\x00" * 64, b"GET / HTTP/1.1\r\n\r\n"):
            self.assertIn(self.send(data)[0], (UNPARSED, INVALID))

    def test_a_message_of_another_type(self):  # row 62 of docs/bad_input.md
        # In a GenerateRequest, the field number of these ids belongs to the label.
        other = inference_pb2.DetokenizeRequest(ids=[1, 2, 3])
        self.assertIn(self.send(other.SerializeToString())[0], (INVALID, UNPARSED))
        self.assertEqual(self.send(b"")[0], INVALID)

    def test_negative_values_for_unsigned_fields(self):  # row 63 of docs/bad_input.md
        # token_ids { ids: -1 }. The ten bytes are the varint of a negative int32.
        self.assertEqual(self.send(b"\x1a\x0c\x0a\x0a" + b"\xff" * 9 + b"\x01")[0], INVALID)

    def test_a_message_above_the_limit_never_reaches_the_handler(self):  # row 65 of docs/bad_input.md
        code, message = self.send(b"\x12" + b"\x84\x80\x80\x02" + b"a" * (2**22 + 4))
        self.assertEqual(code, grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("4194304", message)

    def test_a_compressed_message_is_not_taken(self):  # row 66 of docs/bad_input.md
        code, _ = self.send(greedy("a" * 100_000, 1).SerializeToString(), compression=grpc.Compression.Gzip)
        self.assertEqual(code, grpc.StatusCode.UNIMPLEMENTED)

    def test_metadata_above_the_limit(self):  # row 69 of docs/bad_input.md
        code, message = self.send(self.valid, metadata=[("x-large", "a" * 17_000)])
        self.assertIn("16384", message)
        self.assertEqual(code, grpc.StatusCode.RESOURCE_EXHAUSTED)

    def test_an_unknown_method_and_an_unknown_service(self):
        self.assertEqual(self.send(self.valid, method="Destroy")[0], grpc.StatusCode.UNIMPLEMENTED)

    def test_more_streams_than_allowed(self):  # row 70 of docs/bad_input.md
        request = greedy([5, 6, 7], 40)
        request.output.ignore_eos, request.output.n = True, 16
        calls = [self.server.inference.Generate(request) for _ in range(100)]
        codes = [code_of(error) for error in errors_of(calls)]
        self.assertEqual(set(codes), {OK, grpc.StatusCode.RESOURCE_EXHAUSTED})
        self.assertGreaterEqual(codes.count(OK), 64)

    def test_cancels_at_every_moment_free_everything(self):  # rows 53, 80, 81 of docs/bad_input.md
        request = greedy(bad_requests.ids(120), 800)
        request.output.ignore_eos = True
        for round_index in range(60):
            calls = [self.server.inference.Generate(request) for _ in range(4)]
            for index, call in enumerate(calls):
                for _ in range((round_index + index) % 4):
                    next(call)
                call.cancel()
        self.server.wait_until_idle()


if __name__ == "__main__":
    unittest.main()
