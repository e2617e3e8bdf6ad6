"""Tests the API keys of --api-key-file on the real program: files that cannot be used, gRPC and HTTP clients with and
without a key, and the commands of the program. The row numbers refer to docs/bad_input.md."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import grpc
from harness import http1
from harness.server import PROGRAM, START_SECONDS, Details, Server, default_model, greedy
from incipit.v1 import admin_pb2, admin_pb2_grpc, inference_pb2

KEY, OTHER = "canary-key-0123456789", "canary-key-abcdefghij"
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
COMPLETIONS = "/v1/completions"
BODY = {"prompt": "Once upon a time", "max_tokens": 5, "temperature": 0}


def key_file(folder, text):
    path = pathlib.Path(folder) / "keys"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class KeyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = key_file(cls.folder.name, f"# keys\n\n{OTHER}\r\n{KEY}\n")
        cls.server = Server("--api-key-file", cls.path, "--admin-address", "127.0.0.1:0", "--log-level", "debug",
                            http=True)
        cls.port = cls.server.ports["http"]

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        cls.folder.cleanup()

    def generate(self, *values):
        call = self.server.inference.Generate(greedy([5, 6, 7], 5),
                                              metadata=[("authorization", value) for value in values])
        return [token for message in call for delta in message.deltas for token in delta.token_ids]

    def test_a_grpc_call_needs_a_key(self):  # row 131 of docs/bad_input.md
        for values in ((), ("",), ("Bearer",), ("Bearer wrong",), (f"Basic {KEY}",), (KEY,),
                       (f"Bearer {KEY}", f"Bearer {KEY}"), (f"Bearer {KEY}x",), ("Bearer " + "k" * 10_000,)):
            with self.subTest(values=values), self.assertRaises(grpc.RpcError) as caught:
                self.generate(*values)
            self.assertEqual(caught.exception.code(), UNAUTHENTICATED)
            self.assertEqual(Details(caught.exception).error_info.reason, "INVALID_API_KEY")
        for key in (KEY, OTHER):
            self.assertEqual(len(self.generate(f"Bearer {key}")), 5)
        self.assertGreaterEqual(self.server.metric("incipit_requests_rejected_total", reason="unauthenticated"), 9)

    def test_the_admin_address_needs_a_key(self):
        for stub_method, request in ((self.admin().GetServerInfo, admin_pb2.GetServerInfoRequest()),
                                     (self.admin().Drain, admin_pb2.DrainRequest())):
            with self.assertRaises(grpc.RpcError) as caught:
                stub_method(request)
            self.assertEqual(caught.exception.code(), UNAUTHENTICATED)
        info = self.admin().GetServerInfo(admin_pb2.GetServerInfoRequest(),
                                          metadata=[("authorization", f"Bearer {KEY}")])
        self.assertNotIn("api-key-file", info.options)
        self.assertNotIn("canary", str(info))
        self.assertNotIn(self.folder.name, str(info))

    def admin(self):
        channel = grpc.insecure_channel(f"127.0.0.1:{self.server.ports['admin']}")
        self.addCleanup(channel.close)
        return admin_pb2_grpc.AdminStub(channel)

    def test_health_checks_need_no_key(self):
        for port in (self.server.ports["grpc"], self.server.ports["admin"]):
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                check = channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=bytes,
                                            response_deserializer=bytes)
                self.assertEqual(check(b""), b"\x08\x01")
        for path in ("/health", "/readyz", "/livez"):
            self.assertEqual(http1.call(self.port, "GET", path).status, 200)
        self.assertIn("incipit_", self.server.scrape())

    def test_an_http_request_needs_a_key(self):  # row 131 of docs/bad_input.md
        for fields in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": KEY},
                       {"Authorization": f"Bearer {KEY}, Bearer {OTHER}"}, {"Authorization": "Bearer " + "k" * 10_000}):
            for method, path, body in (("POST", COMPLETIONS, BODY), ("GET", "/v1/models", None),
                                       ("GET", "/metrics", None), ("GET", "/nowhere", None)):
                reply = http1.call(self.port, method, path, body, **fields)
                self.assertEqual((reply.status, reply.error["code"]), (401, "invalid_api_key"))
                self.assertEqual(reply.fields["www-authenticate"], "Bearer")
        for key in (KEY, OTHER):
            reply = http1.call(self.port, "POST", COMPLETIONS, BODY, Authorization=f"Bearer {key}")
            self.assertEqual(reply.status, 200, reply.body)

    def test_a_client_that_sends_no_key_is_refused_before_its_body(self):
        with http1.connect(self.port) as connection:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                               b"Content-Length: 4000000\r\n\r\n")
            self.assertEqual(http1.status_of(http1.receive_all(connection)), 401)

    def test_commands_send_the_key_of_the_environment(self):
        def run(key, *arguments):
            environment = {name: value for name, value in os.environ.items() if name != "INCIPIT_API_KEY"}
            if key is not None:
                environment["INCIPIT_API_KEY"] = key
            return subprocess.run([PROGRAM, *arguments, "--address", self.server.address], capture_output=True,
                                  text=True, timeout=120, env=environment, input="Hello\n")

        for arguments in (("generate", "--prompt", "Once", "--max-tokens", "5"),
                          ("bench", "--requests", "2", "--prompt-tokens", "8", "--output-tokens", "2",
                           "--admin-address", f"127.0.0.1:{self.server.ports['admin']}")):
            for key in (None, "wrong", "", "two words", "\u00e9"):
                result = run(key, *arguments)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("INCIPIT_API_KEY", result.stderr)
            result = run(KEY, *arguments)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_keys_are_not_logged(self):
        self.generate(f"Bearer {KEY}")
        with self.assertRaises(grpc.RpcError):
            self.generate("Bearer canary-wrong")
        http1.call(self.port, "GET", "/v1/models", Authorization="Bearer canary-wrong")
        self.assertNotIn("canary", self.server.log())


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class KeyFileTest(unittest.TestCase):
    def test_a_file_that_cannot_be_used_ends_the_start(self):  # row 93 of docs/bad_input.md
        with tempfile.TemporaryDirectory() as folder:
            for text, says in (("", "no key"), ("# only a comment\n\n", "no key"), ("good\ncanary key\n", "line 2"),
                               ("canary\0", "line 1"), ("canary\u00e9", "line 1"), ("canary" + "k" * 600, "line 1"),
                               ("\n".join(f"canary{i}" for i in range(1025)), "more than 1024"),
                               ("\n" * 2_000_000, "the maximum is 1048576 bytes")):
                self.refused(key_file(folder, text), says)
            self.refused(folder + "/missing", "missing")
            self.refused(folder, folder)
            os.mkfifo(folder + "/fifo")
            self.refused(folder + "/fifo", "fifo")

    def refused(self, path, says):
        result = subprocess.run([PROGRAM, "serve", "--model", str(default_model()), "--api-key-file", path],
                                capture_output=True, text=True, timeout=START_SECONDS)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(f"--api-key-file: {path}", result.stderr)
        self.assertIn(says, result.stderr)
        self.assertNotIn("canary", result.stderr)

    def test_without_a_file_a_key_is_ignored(self):
        with Server(http=True) as server:
            for key in ("Bearer unused", "Basic eDp5", ""):
                reply = http1.call(server.ports["http"], "POST", COMPLETIONS, BODY, Authorization=key)
                self.assertEqual(reply.status, 200, reply.body)
                self.assertTrue(server.inference.Tokenize(inference_pb2.TokenizeRequest(text="a"),
                                                          metadata=[("authorization", key)]).ids)


if __name__ == "__main__":
    unittest.main()
