"""Tests the API through a client generated from the proto files, and through server reflection alone."""
import threading
import unittest

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from harness.chat import ChatServer
from harness.server import Details, Server, collect, default_model, greedy
from incipit.v1 import admin_pb2, inference_pb2

PROMPT = "Once upon a time"
SERVING = health_pb2.HealthCheckResponse.SERVING


def chat_request(*contents, **fields):
    request = inference_pb2.ChatRequest(**fields)
    for index, content in enumerate(contents):
        request.messages.add(role="assistant" if index % 2 else "user", content=content)
    request.sampling.temperature = 0
    request.output.max_tokens = 16
    return request


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class ApiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ChatServer()

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def generate(self, request, **options):
        return self.server.generate(request, **options)

    def assert_rpc_error(self, code, call):
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception

    def test_generate_streams_deltas_and_ends_with_usage(self):
        reply = self.generate(greedy(PROMPT, 40, request_id="my label"))
        self.assertGreater(len(reply.messages), 1)
        self.assertTrue(all(message.request_id == "my label" for message in reply.messages))
        self.assertTrue(all(not message.HasField("usage") for message in reply.messages[:-1]))
        usage = reply.messages[-1].usage
        prompt = self.server.inference.Tokenize(inference_pb2.TokenizeRequest(text=PROMPT)).ids
        self.assertEqual(usage.prompt_tokens, len(prompt))
        self.assertEqual(usage.completion_tokens, len(reply.token_ids))
        self.assertLessEqual(usage.queue_seconds, usage.time_to_first_token_seconds)
        self.assertLessEqual(usage.time_to_first_token_seconds, usage.total_seconds)
        self.assertGreater(usage.time_to_first_token_seconds, 0)

    def test_text_and_its_token_ids_are_the_same_prompt(self):
        ids = self.server.inference.Tokenize(inference_pb2.TokenizeRequest(text=PROMPT)).ids
        by_text, by_ids = self.generate(greedy(PROMPT, 20)), self.generate(greedy(ids, 20))
        self.assertEqual(by_text.token_ids, by_ids.token_ids)
        self.assertEqual(by_text.text, by_ids.text)

    def test_the_streamed_text_is_what_its_ids_decode_to(self):
        reply = self.generate(greedy(PROMPT, 60))
        prompt = list(self.server.inference.Tokenize(inference_pb2.TokenizeRequest(text=PROMPT)).ids)
        decode = lambda ids: self.server.inference.Detokenize(
            inference_pb2.DetokenizeRequest(ids=ids, skip_special_tokens=True)).text
        self.assertEqual(PROMPT + reply.text, decode(prompt + reply.token_ids))

    def test_chat_replies_to_a_conversation(self):
        reply = collect(self.server.inference.Chat(chat_request("Hello")))
        self.assertEqual(reply.usage.completion_tokens, len(reply.token_ids))
        longer = collect(self.server.inference.Chat(chat_request("Hello", reply.text, "Go on")))
        self.assertGreater(longer.usage.prompt_tokens, reply.usage.prompt_tokens)

    def test_chat_renders_the_template(self):
        rendered = "user: Hello\nassistant:"
        expected = self.generate(greedy(rendered, 16))
        self.assertEqual(collect(self.server.inference.Chat(chat_request("Hello"))).token_ids, expected.token_ids)

    def test_a_template_that_raises_gives_its_message(self):
        request = chat_request("Hello")
        request.messages[0].role = "wizard"
        error = self.assert_rpc_error(grpc.StatusCode.INVALID_ARGUMENT,
                                      lambda: collect(self.server.inference.Chat(request)))
        self.assertIn("unknown role", error.details())

    def test_tokenize_and_detokenize_are_each_others_reverse(self):
        text = "A small cat, 猫 and \U0001f408!"
        for special in (False, True):
            ids = self.server.inference.Tokenize(
                inference_pb2.TokenizeRequest(text=text, add_special_tokens=special)).ids
            decoded = self.server.inference.Detokenize(
                inference_pb2.DetokenizeRequest(ids=ids, skip_special_tokens=True)).text
            self.assertEqual(decoded, text)

    def test_a_seed_repeats_an_output_whatever_else_runs(self):
        request = greedy(PROMPT, 40)
        request.sampling.temperature, request.sampling.seed = 1.0, 12345
        alone = self.generate(request)
        others = [self.server.inference.Generate(greedy(f"{PROMPT} {i}", 60)) for i in range(8)]
        self.assertEqual(self.generate(request).token_ids, alone.token_ids)
        for other in others:
            collect(other)
        request.sampling.seed = 54321
        self.assertNotEqual(self.generate(request).token_ids, alone.token_ids)

    def test_choices_share_the_prompt_and_differ_in_their_outputs(self):
        request = greedy(PROMPT, 20)
        request.sampling.temperature, request.sampling.seed = 1.0, 7
        request.output.n = 4
        reply = self.generate(request)
        self.assertEqual(sorted(reply.ids), [0, 1, 2, 3])
        self.assertEqual(reply.usage.completion_tokens, sum(map(len, reply.ids.values())))
        self.assertGreater(len({tuple(ids) for ids in reply.ids.values()}), 1)
        request.output.n = 1
        self.assertEqual(self.generate(request).token_ids, reply.ids[0])

    def test_logprobs_come_with_every_token(self):
        request = greedy(PROMPT, 10)
        request.output.logprobs = 3
        reply = self.generate(request)
        self.assertEqual(len(reply.logprobs[0]), len(reply.token_ids))
        for token, entry in zip(reply.token_ids, reply.logprobs[0]):
            self.assertEqual(entry.token.token_id, token)
            self.assertEqual(entry.rank, 1)
            self.assertEqual(len(entry.top), 3)
            self.assertEqual(entry.top[0].token_id, token)
            values = [top.logprob for top in entry.top]
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertLessEqual(values[0], 0)
        self.assertEqual(b"".join(entry.token.text for entry in reply.logprobs[0]).decode(errors="replace"),
                         reply.text)

    def test_prompt_logprobs_come_before_the_output(self):
        request = greedy(PROMPT, 2)
        request.output.prompt_logprobs = 1
        reply = self.generate(request)
        prompt = list(self.server.inference.Tokenize(inference_pb2.TokenizeRequest(text=PROMPT)).ids)
        self.assertEqual([entry.token.token_id for entry in reply.prompt_logprobs], prompt[1:])

    def test_a_stop_string_ends_the_output_before_it(self):
        whole = self.generate(greedy(PROMPT, 60)).text
        stop = whole[len(whole) // 2:len(whole) // 2 + 5]
        request = greedy(PROMPT, 60)
        request.output.stop.append(stop)
        reply = self.generate(request)
        self.assertEqual(reply.text, whole[:whole.index(stop)])
        self.assertEqual(reply.finish_reason, inference_pb2.FINISH_REASON_STOP)
        self.assertEqual(reply.last[0].stop_string, stop)
        request.output.include_stop = True
        self.assertEqual(self.generate(request).text, whole[:whole.index(stop)] + stop)

    def test_a_stop_token_ends_the_output(self):
        whole = self.generate(greedy(PROMPT, 30)).token_ids
        stop = whole[15]
        request = greedy(PROMPT, 30)
        request.output.stop_token_ids.append(stop)
        reply = self.generate(request)
        self.assertEqual(reply.token_ids, whole[:whole.index(stop) + 1])
        self.assertEqual(reply.last[0].stop_token_id, stop)

    def test_a_deadline_reaches_the_scheduler(self):
        request = greedy(PROMPT, 0)
        request.output.ignore_eos, request.output.n = True, 16
        self.assert_rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED, lambda: self.generate(request, timeout=0.02))
        self.server.wait_until_idle()

    def test_a_cancelled_call_frees_its_blocks(self):
        request = greedy(PROMPT, 0)
        request.output.ignore_eos, request.output.n = True, 16
        call = self.server.inference.Generate(request)
        next(call)
        call.cancel()
        self.server.wait_until_idle()
        self.assertEqual(self.server.load().used_blocks, 0)

    def test_tenants_and_salts_share_no_cached_tokens(self):
        self.server.reset_cache()
        request = greedy([5 + i % 90 for i in range(100)], 1)
        cached = lambda **options: self.generate(request, **options).usage.cached_tokens
        self.assertEqual(cached(), 0)
        self.assertGreater(cached(), 0)
        self.assertEqual(cached(metadata=[("x-tenant-id", "blue")]), 0)
        self.assertGreater(cached(metadata=[("x-tenant-id", "blue")]), 0)
        request.cache.salt = "pepper"
        self.assertEqual(cached(), 0)
        self.assertGreater(cached(), 0)
        request.cache.skip_read = True
        self.assertEqual(cached(), 0)

    def test_reset_forgets_every_prefix(self):
        request = greedy([7 + i % 80 for i in range(100)], 1)
        self.generate(request)
        self.assertGreater(self.generate(request).usage.cached_tokens, 0)
        self.server.reset_cache()
        self.assertEqual(self.server.load().cached_blocks, 0)
        self.assertEqual(self.generate(request).usage.cached_tokens, 0)

    def test_admin_reports_model_server_and_load(self):
        info = self.server.info()
        self.assertEqual(info.name, self.server.model.name)
        self.assertEqual(info.architecture, "LlamaForCausalLM")
        self.assertTrue(info.has_tokenizer and info.has_chat_template)
        self.assertGreater(info.vocab_size, 256)
        self.assertGreater(info.max_model_len, 0)
        self.assertGreater(info.num_parameters, 0)
        server = self.server.admin.GetServerInfo(admin_pb2.GetServerInfoRequest())
        self.assertEqual(server.options["running-max"], "128")
        self.assertNotIn("model", server.options)
        self.assertNotIn(str(self.server.model), str(server))
        self.assertTrue(server.version and server.backend)
        load = self.server.load()
        self.assertGreater(load.blocks, 0)
        self.assertFalse(load.draining)

    def test_the_log_level_can_be_changed(self):
        set_level = lambda level: self.server.admin.SetLogLevel(
            admin_pb2.SetLogLevelRequest(level=level)).previous_level
        before = set_level("debug")
        self.assertEqual(set_level(before), "debug")
        error = self.assert_rpc_error(grpc.StatusCode.INVALID_ARGUMENT, lambda: set_level("loud"))
        self.assertEqual(Details(error).fields, ["level"])

    def test_health_replies_for_the_server_and_each_service(self):
        health = health_pb2_grpc.HealthStub(self.server.channel)
        for service in ("", "incipit.v1.Inference", "incipit.v1.Admin"):
            self.assertEqual(health.Check(health_pb2.HealthCheckRequest(service=service)).status, SERVING)
            watch = health.Watch(health_pb2.HealthCheckRequest(service=service))
            self.assertEqual(next(watch).status, SERVING)
            watch.cancel()
        self.assert_rpc_error(grpc.StatusCode.NOT_FOUND,
                              lambda: health.Check(health_pb2.HealthCheckRequest(service="other")))

    def test_errors_carry_details_that_programs_can_read(self):
        request = greedy(PROMPT, 1)
        request.sampling.top_p = 2
        error = self.assert_rpc_error(grpc.StatusCode.INVALID_ARGUMENT, lambda: self.generate(request))
        details = Details(error)
        self.assertEqual(details.status.code, grpc.StatusCode.INVALID_ARGUMENT.value[0])
        self.assertEqual(details.status.message, error.details())
        self.assertEqual(details.fields, ["sampling.top_p"])
        self.assertEqual(details.error_info.domain, "incipit")
        self.assertRegex(details.error_info.reason, "^[A-Z_]+$")

    def test_a_full_queue_says_when_to_come_back(self):
        with Server("--requests-max", "2", "--running-max", "1") as server:
            request = greedy(PROMPT, 0)
            request.output.ignore_eos = True
            errors, lock = [], threading.Lock()

            def run():
                try:
                    server.generate(request)
                except grpc.RpcError as error:
                    with lock:
                        errors.append(error)

            threads = [threading.Thread(target=run) for _ in range(24)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertTrue(errors)
            for error in errors:
                self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                delay = Details(error).retry_info.retry_delay
                self.assertGreater(delay.seconds + delay.nanos * 1e-9, 0)
            self.assertEqual(server.metric("incipit_requests_rejected_total", reason="queue_full"), len(errors))

    def test_reflection_alone_is_enough_to_generate(self):
        database = ProtoReflectionDescriptorDatabase(self.server.channel)
        services = set(database.get_services())
        self.assertLessEqual({"incipit.v1.Inference", "incipit.v1.Admin", "grpc.health.v1.Health"}, services)
        pool = descriptor_pool.DescriptorPool(database)
        method = pool.FindServiceByName("incipit.v1.Inference").FindMethodByName("Generate")
        request_class = message_factory.GetMessageClass(method.input_type)
        response_class = message_factory.GetMessageClass(method.output_type)
        self.assertIsNot(request_class, inference_pb2.GenerateRequest)
        request = request_class(text=PROMPT)
        request.sampling.temperature = 0
        request.output.max_tokens = 12
        call = self.server.channel.unary_stream(
            "/incipit.v1.Inference/Generate", request_serializer=request_class.SerializeToString,
            response_deserializer=response_class.FromString)
        self.assertEqual(collect(call(request)).token_ids, self.generate(greedy(PROMPT, 12)).token_ids)

    def test_reflection_describes_every_method_of_the_api(self):
        pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(self.server.channel))
        for module in (inference_pb2, admin_pb2):
            for service in module.DESCRIPTOR.services_by_name.values():
                found = pool.FindServiceByName(service.full_name)
                self.assertEqual([m.name for m in found.methods], [m.name for m in service.methods])


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class NoTokenizerTest(unittest.TestCase):
    def test_a_model_without_a_tokenizer_serves_token_ids_only(self):
        from harness.models import ModelCopy
        with ModelCopy(default_model()) as copy:
            (copy.path / "tokenizer.json").unlink()
            with Server(model=copy.path) as server:
                reply = server.generate(greedy([5, 6, 7], 8))
                self.assertEqual((len(reply.token_ids), reply.text), (8, ""))
                self.assertFalse(server.info().has_tokenizer)
                for call in (lambda: server.generate(greedy(PROMPT, 1)),
                             lambda: collect(server.inference.Chat(chat_request("Hello"))),
                             lambda: server.inference.Tokenize(inference_pb2.TokenizeRequest(text="a")),
                             lambda: server.inference.Detokenize(inference_pb2.DetokenizeRequest(ids=[1]))):
                    with self.assertRaises(grpc.RpcError) as caught:
                        call()
                    self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)


if __name__ == "__main__":
    unittest.main()
