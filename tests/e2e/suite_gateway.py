"""The service of the SMG gateway, called by a client in Python. tests/clients/gateway.py tests the gateway itself."""
import hashlib
import io
import unittest
import zipfile

import grpc
from harness.server import Server, default_model
from incipit.v1 import inference_pb2
from smg.grpc.common import common_pb2
from vllm.grpc.engine import vllm_engine_pb2, vllm_engine_pb2_grpc

PROMPT = "Once upon a time"


@unittest.skipUnless(default_model(), "no model with a tokenizer")
class GatewayTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--kv-blocks", "1024")
        cls.engine = vllm_engine_pb2_grpc.VllmEngineStub(cls.server.channel)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def request(self, **fields):
        request = vllm_engine_pb2.GenerateRequest(request_id="e2e", text=PROMPT, **fields)
        request.sampling_params.temperature = 0
        request.sampling_params.max_tokens = 30
        return request

    def test_the_tokenizer_is_a_zip_archive_of_the_files(self):
        chunks = list(self.engine.GetTokenizer(common_pb2.GetTokenizerRequest()))
        data = b"".join(chunk.data for chunk in chunks)
        self.assertEqual(chunks[-1].sha256, hashlib.sha256(data).hexdigest())
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            self.assertIsNone(archive.testzip())
            self.assertIn("tokenizer.json", archive.namelist())
            for name in archive.namelist():
                self.assertEqual(archive.read(name), (self.server.model / name).read_bytes())

    def test_the_output_is_that_of_the_other_service(self):
        sampling = inference_pb2.SamplingOptions(temperature=0)
        expected = self.server.generate(inference_pb2.GenerateRequest(
            text=PROMPT, sampling=sampling, output=inference_pb2.OutputOptions(max_tokens=30)))
        whole = [message.complete for message in self.engine.Generate(self.request())]
        self.assertEqual(len(whole), 1)
        self.assertEqual(list(whole[0].output_ids), expected.token_ids)
        self.assertEqual(whole[0].prompt_tokens, expected.usage.prompt_tokens)
        stream = list(self.engine.Generate(self.request(stream=True)))
        ids = [token for message in stream for token in message.chunk.token_ids]
        self.assertEqual(ids, expected.token_ids)
        self.assertEqual(stream[-1].complete.finish_reason, "length")

    def test_the_service_is_off_at_an_address_for_other_machines(self):
        with Server("--kv-blocks", "64", "--address", "0.0.0.0:0") as server:
            engine = vllm_engine_pb2_grpc.VllmEngineStub(server.channel)
            with self.assertRaises(grpc.RpcError) as refused:
                engine.HealthCheck(vllm_engine_pb2.HealthCheckRequest())
            self.assertEqual(refused.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        with Server("--kv-blocks", "64", "--address", "0.0.0.0:0", "--engine-api", "on") as server:
            engine = vllm_engine_pb2_grpc.VllmEngineStub(server.channel)
            self.assertTrue(engine.HealthCheck(vllm_engine_pb2.HealthCheckRequest()).healthy)
