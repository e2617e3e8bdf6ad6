"""Tests OpenAI's API over HTTP on the real program: whole and streamed output, clients that disconnect, bytes that no
HTTP library sends, and the address of the HTTP server. The row numbers refer to docs/bad_input.md."""
import concurrent.futures
import contextlib
import gzip
import http.client
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from harness import http1
from harness.server import PROGRAM, START_SECONDS, STOP_SECONDS, Server, default_model, die_with_parent, greedy

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "Tell me a story."}]
RSS_GROWTH_MAX = 512 << 20


def rss(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def completion(max_tokens=20, **fields):
    return {"prompt": "Once upon a time", "max_tokens": max_tokens, "temperature": 0, **fields}


def joined(events, of):
    """Returns the text of each choice of a stream, by index."""
    texts = {}
    for event in events:
        for choice in event["choices"]:
            texts[choice["index"]] = texts.get(choice["index"], "") + of(choice)
    return texts


class HttpTestCase(unittest.TestCase):
    FLAGS = ("--max-model-len", "1024")

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.FLAGS, http=True)
        cls.port = cls.server.ports["http"]

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def get(self, path, **fields):
        return http1.call(self.port, "GET", path, **fields)

    def post(self, path, body, **fields):
        return http1.call(self.port, "POST", path, body, **fields)


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class ApiTest(HttpTestCase):
    def test_a_completion_is_that_of_the_grpc_api(self):
        expected = self.server.generate(greedy("Once upon a time", 20))
        reply = self.post(COMPLETIONS, completion(return_token_ids=True))
        self.assertEqual(reply.status, 200, reply.body)
        choice = reply.json["choices"][0]
        self.assertEqual(choice["text"], expected.text)
        self.assertEqual(choice["token_ids"], list(expected.token_ids))
        self.assertEqual(reply.json["usage"]["completion_tokens"], 20)
        self.assertEqual(reply.json["usage"]["prompt_tokens"], expected.usage.prompt_tokens)

    def test_a_stream_is_the_whole(self):
        for path, prompt, of in (
                (COMPLETIONS, {"prompt": ["Once", "The dog"]}, lambda choice: choice["text"]),
                (CHAT, {"messages": MESSAGES}, lambda choice: choice.get("delta", choice.get("message"))["content"])):
            with self.subTest(path=path):
                body = {**prompt, "max_tokens": 60, "temperature": 0.8, "seed": 5, "n": 2}
                whole = self.post(path, body).json
                reply = self.post(path, {**body, "stream": True, "stream_options": {"include_usage": True}})
                self.assertEqual(reply.fields["content-type"], "text/event-stream")
                self.assertEqual(reply.fields["cache-control"], "no-cache")
                events, is_done = reply.events
                self.assertTrue(is_done)
                self.assertEqual(joined(events, of), {c["index"]: of(c) for c in whole["choices"]})
                self.assertEqual(events[-1]["choices"], [])
                for count in ("prompt_tokens", "completion_tokens", "total_tokens"):
                    self.assertEqual(events[-1]["usage"][count], whole["usage"][count])

    def test_a_stop_string_ends_a_stream_and_is_named(self):
        text = self.post(COMPLETIONS, completion(40)).json["choices"][0]["text"]
        stop = text.split()[3]
        events, is_done = self.post(COMPLETIONS, completion(40, stop=[stop], stream=True)).events
        self.assertTrue(is_done)
        self.assertEqual(joined(events, lambda choice: choice["text"])[0], text[:text.index(stop)])
        self.assertEqual(events[-1]["choices"][0]["finish_reason"], "stop")
        self.assertEqual(events[-1]["choices"][0]["stop_reason"], stop)

    def test_logprobs_are_those_of_the_grpc_api(self):
        request = greedy("Once upon a time", 5)
        request.output.logprobs = 2
        expected = [position.token.logprob for position in self.server.generate(request).logprobs[0]]
        found = self.post(COMPLETIONS, completion(5, logprobs=2)).json["choices"][0]["logprobs"]
        self.assertEqual(len(found["token_logprobs"]), 5)
        for ours, theirs in zip(found["token_logprobs"], expected):
            self.assertAlmostEqual(ours, theirs, places=5)
        self.assertEqual("".join(found["tokens"]), self.post(COMPLETIONS, completion(5)).json["choices"][0]["text"])

    def test_special_tokens_of_a_prompt_are_an_option(self):
        prompts = []
        for adds in (True, False):
            ids = self.post(COMPLETIONS, completion(1, return_token_ids=True, add_special_tokens=adds)
                            ).json["choices"][0]["prompt_token_ids"]
            self.assertEqual(ids, self.post("/tokenize", {"prompt": "Once upon a time", "add_special_tokens": adds}
                                            ).json["tokens"])
            prompts.append(ids)
        self.assertEqual(prompts[0][1:], prompts[1], "the model has a begin token")

    def test_tokens_and_text(self):
        tokens = self.post("/tokenize", {"prompt": "Once upon a time é"}).json
        self.assertEqual(tokens["count"], len(tokens["tokens"]))
        text = self.post("/detokenize", {"tokens": tokens["tokens"]}).json["prompt"]
        self.assertTrue(text.endswith("Once upon a time é"), text)

    def test_pages(self):
        name = self.server.info().name
        self.assertEqual(self.get("/v1/models").json["data"][0]["id"], name)
        self.assertEqual(self.get(f"/v1/models/{name}").json["id"], name)
        self.assertEqual(self.get("/v1/models/other").status, 404)
        self.assertIn("version", self.get("/version").json)
        for path in ("/health", "/readyz", "/livez"):
            self.assertEqual(self.get(path).status, 200)
        self.assertIn(b"\nincipit_", self.get("/metrics").body)

    def test_a_connection_serves_one_request_after_the_other(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=http1.SECONDS)
        self.addCleanup(connection.close)
        for stream in (False, True, False, True):
            connection.request("POST", COMPLETIONS, json.dumps(completion(5, stream=stream)),
                               {"Content-Type": "application/json"})
            own = connection.sock
            reply = http1.Reply(connection.getresponse())
            self.assertEqual(reply.status, 200)
            self.assertIs(connection.sock, own, "the server closed the connection")

    def test_many_streams_at_once_are_each_their_own(self):
        def ask(i):
            events, is_done = self.post(CHAT, {"messages": [{"role": "user", "content": f"Story {i % 4}"}],
                                               "max_tokens": 30, "temperature": 0, "stream": True}).events
            return is_done and joined(events, lambda choice: choice["delta"]["content"])[0]

        alone = [ask(i) for i in range(4)]
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            self.assertEqual(list(pool.map(ask, range(64))), [alone[i % 4] for i in range(64)])

    def test_a_client_that_disconnects_frees_its_blocks(self):  # row 53 of docs/bad_input.md
        for stream in (False, True):
            for resets in (False, True):
                with self.subTest(stream=stream, resets=resets):
                    connection = http1.connect(self.port)
                    connection.sendall(http1.post_bytes(
                        COMPLETIONS, json.dumps(completion(1000, ignore_eos=True, stream=stream)).encode()))
                    while not self.server.load().running:
                        pass
                    if resets:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    connection.close()
                    self.server.wait_until_idle()
        self.assertGreaterEqual(self.server.metric("incipit_requests_total", outcome="cancelled"), 4)


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class BadInputTest(HttpTestCase):
    FLAGS = ("--max-model-len", "1024", "--message-bytes-max", "2MiB")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bystander = completion(200, ignore_eos=True, return_token_ids=True)
        cls.alone = http1.call(cls.port, "POST", COMPLETIONS, cls.bystander).json["choices"]

    def setUp(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.addCleanup(self.pool.shutdown)
        self.beside = self.pool.submit(self.post, COMPLETIONS, self.bystander)
        self.rss_before = rss(self.server.process.pid)

    def tearDown(self):
        """Checks after each test that a concurrent request has the same output, and that the server still serves."""
        self.assertEqual(self.beside.result().json["choices"], self.alone)
        self.assertEqual(self.get("/health").status, 200)
        self.assertEqual(self.post(COMPLETIONS, completion(2)).status, 200)
        self.server.wait_until_idle()
        self.assertLess(rss(self.server.process.pid) - self.rss_before, RSS_GROWTH_MAX)

    def refused(self, data, status):
        received = http1.raw(self.port, data)
        self.assertEqual(http1.status_of(received), status, received[:300])
        self.assertIn("message", json.loads(received.split(b"\r\n\r\n", 1)[1])["error"])
        self.assertEqual(received.count(b"HTTP/1.1 "), 1, "bytes after the request are no second request")

    def test_a_request_with_two_ends_is_refused(self):  # row 121 of docs/bad_input.md
        body = json.dumps(completion(2)).encode()
        hidden = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for fields in (b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding:\r\n", b"Content-Length: 3\r\n",
                       b"Transfer-Encoding: identity\r\n", b"Transfer-Encoding:\tchunked\r\n"):
            with self.subTest(fields=fields):
                self.refused(http1.post_bytes(COMPLETIONS, body, fields) + hidden, 400)

    def test_further_requests_with_two_ends_are_refused(self):  # row 121 of docs/bad_input.md
        start = b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nHost: localhost\r\n"
        hidden = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for fields in (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b"Transfer-Encoding: xchunked",
                       b"Transfer-Encoding : chunked", b"Transfer-Encoding: chunked, identity",
                       b"Transfer-Encoding: \x0bchunked", b"X: a\r\n\r\n Transfer-Encoding: chunked\r\nX: ",
                       b"Content-Length: 5\r\nContent-Length: 6", b"Content-Length: 5, 5", b"Content-Length: +5",
                       b"Content-Length: 0x5", b"Content-Length: 5 ; a", b"Content-Length: 1e1", b"Content-Length:",
                       b"Content-Length: 99999999999999999999", b"Content-Length: \xb2", b"Host: a",
                       b"X: a\0b", b"X: a\rTransfer-Encoding: chunked", b"X\0: a", b"X Y: a", b": a"):
            with self.subTest(fields=fields):
                received = http1.raw(self.port, start + fields + b"\r\n\r\n0\r\n\r\n" + hidden)
                self.assertEqual(http1.status_of(received), 400, received[:300])
                self.assertEqual(received.count(b"HTTP/1.1 "), 1, "bytes after the request are no second request")
        for chunks in (b"0x3\r\nabc\r\n0\r\n\r\n", b"+3\r\nabc\r\n0\r\n\r\n", b"-1\r\nabc\r\n", b"3\nabc\n0\n\n",
                       b"3\r\nabcde\r\n0\r\n\r\n", b"\r\n\r\n", b"ffffffffffffffffff\r\nabc\r\n",
                       b"0\r\nTransfer-Encoding: chunked\r\n\r\n", b"0\r\nContent-Length: 9\r\n\r\n"):
            with self.subTest(chunks=chunks):
                received = http1.raw(self.port, start + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + hidden)
                self.assertEqual(http1.status_of(received), 400, received[:300])
                self.assertEqual(received.count(b"HTTP/1.1 "), 1)

    def test_a_second_request_before_the_response_is_not_served(self):
        received = http1.raw(self.port, http1.post_bytes(COMPLETIONS, json.dumps(completion(5)).encode()) +
                             b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(http1.status_of(received), 200)
        self.assertEqual(received.count(b"HTTP/1.1 "), 1)

    def test_a_message_of_another_kind_is_refused(self):  # rows 61, 62, 63, 66 of docs/bad_input.md
        body = json.dumps(completion(2)).encode()
        for end in range(0, len(body), 5):
            self.assertEqual(self.post(COMPLETIONS, body[:end]).status, 400)
        for data in (b"\xff" * 100, bytes(range(256)), gzip.compress(body), b"[]", b"null", b'"text"', b"7", b"{}{}",
                     b'{"prompt":[-1]}', b'{"prompt":[' + b"1," * 999_999 + b"1]}", b'{"prompt":{"a":1}}'):
            self.assertEqual(self.post(COMPLETIONS, data).status, 400)
        self.assertEqual(self.post(COMPLETIONS, gzip.compress(body), Content_Encoding="gzip").status, 400)
        self.assertEqual(self.post(COMPLETIONS, completion(2, other={"a": [1]}, another=None)).status, 200)

    def test_a_request_in_pieces_of_one_byte_is_served(self):  # row 68 of docs/bad_input.md
        with http1.connect(self.port) as connection:
            for byte in http1.post_bytes(COMPLETIONS, json.dumps(completion(2)).encode(), b"Connection: close\r\n"):
                connection.sendall(bytes([byte]))
            self.assertEqual(http1.status_of(http1.receive_all(connection)), 200)

    def test_requests_that_end_at_once_change_nothing(self):  # rows 71, 80, 81 of docs/bad_input.md
        body = http1.post_bytes(COMPLETIONS, json.dumps(completion(500, ignore_eos=True)).encode())
        for i in range(2000):
            with http1.connect(self.port) as connection:
                connection.sendall(body[:i % (len(body) + 1)])
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def test_other_protocols_are_refused(self):  # rows 73, 76 of docs/bad_input.md
        for data in (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"\0" * 500,
                     bytes(range(256)), b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", b"GET /health HTTP/1.1\r\n\r\n",
                     b"\xff\xf4\xff\xfd\x06\r\n\r\n", b"GET /\x7f HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            self.refused(data, 400)

    def test_header_fields_of_10_mb_are_refused(self):  # row 122 of docs/bad_input.md
        for fields in (b"X: " + b"a" * (10 << 20), b"a: b\r\n" * (2 << 20)):
            self.refused(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + fields + b"\r\n\r\n", 431)

    def test_a_body_that_is_too_large_is_refused(self):  # row 123 of docs/bad_input.md
        self.refused(http1.post_bytes(COMPLETIONS, b" " * ((2 << 20) + 1)), 413)
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self.refused(head + b"Content-Length: 18446744073709551615\r\n\r\n", 413)
        self.refused(head + b"Transfer-Encoding: chunked\r\n\r\n" + (b"8000\r\n" + b" " * 0x8000 + b"\r\n") * 65, 413)

    def test_a_body_without_end_is_refused(self):  # row 123 of docs/bad_input.md
        start = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 b"Transfer-Encoding: chunked\r\n\r\n")
        mebibytes = 1 << 20
        for name, data, status in (("chunks of one byte", b"1\r\n \r\n" * (4 * mebibytes), 413),
                                   ("extensions of chunks", (b"1;" + b"a" * 1000 + b"\r\n \r\n") * (16 << 10), 413),
                                   ("an extension of a chunk", b"1;" + b"a" * (20 * mebibytes), 431),
                                   ("digits of a chunk's size", b"0" * (20 * mebibytes), 431),
                                   ("a trailer", b"0\r\nX: " + b"a" * (20 * mebibytes), 431),
                                   ("trailers", b"0\r\n" + b"X: a\r\n" * (3 * mebibytes), 431)):
            with self.subTest(name=name):
                received = http1.raw(self.port, start + data)
                self.assertEqual(http1.status_of(received), status, received[:300])
                self.assertEqual(received.count(b"HTTP/1.1 "), 1)

    def test_json_bombs_are_refused(self):  # row 124 of docs/bad_input.md
        for body in (b"[" * (1 << 20), b'{"prompt":"a","x":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
                     b'{"a":' * 100_000, b'{"messages":[' + b"{}," * 300_000 + b"{}]}",
                     b'{"prompt":[' + b'"a",' * 300_000 + b'"a"]}'):
            for path in (COMPLETIONS, CHAT, "/tokenize", "/detokenize"):
                reply = self.post(path, body)
                self.assertEqual(reply.status, 400, reply.body)
                self.assertIsNotNone(reply.error["param"])

    def test_long_values_are_read_in_linear_time(self):  # row 124 of docs/bad_input.md
        for members in (b'"x":' + b"1" * 1_000_000, b'"x":0.' + b"9" * 1_000_000, b'"x":1e' + b"9" * 1_000_000,
                        b'"x":-' + b"0" * 1_000_000, b'"n":' + b"1" * 1_000_000, b'"seed":' + b"9" * 1_000_000,
                        b'"x":"' + b"\\u0000" * 160_000 + b'"', b'"' + b"k" * 1_000_000 + b'":1',
                        b",".join([b'"same":1'] * 100_000), b'"x":[' + b",".join([b"1"] * 500_000) + b"]",
                        b",".join(b'"k%d":[{}]' % i for i in range(90_000))):
            reply = self.post(COMPLETIONS, b'{"prompt":"a","max_tokens":1,' + members + b"}")
            self.assertIn(reply.status, (200, 400), reply.body[:300])

    def test_a_body_that_is_not_utf8_is_refused(self):  # row 125 of docs/bad_input.md
        for text in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"a\0b", b"\xf5\x80\x80\x80"):
            for path in (COMPLETIONS, CHAT, "/tokenize"):
                reply = self.post(path, b'{"prompt":"' + text + b'"}')
                self.assertEqual((reply.status, reply.error["param"]), (400, "body"))

    def test_the_name_of_another_site_is_refused(self):  # row 127 of docs/bad_input.md
        for host in ("attacker.example", f"attacker.example:{self.port}", "localhost.attacker.example"):
            self.assertEqual(self.get("/v1/models", Host=host).status, 421)
        for host in ("localhost", f"127.0.0.1:{self.port}", "[::1]"):
            self.assertEqual(self.get("/v1/models", Host=host).status, 200)

    def test_a_page_of_another_site_is_refused(self):  # row 128 of docs/bad_input.md
        body = completion(2)
        self.assertEqual(self.post(COMPLETIONS, body, Origin="https://attacker.example").status, 403)
        self.assertEqual(self.post(COMPLETIONS, body, Origin="null").status, 403)
        self.assertEqual(self.post(COMPLETIONS, body, Sec_Fetch_Site="cross-site").status, 403)
        form = {"Content-Type": "text/plain"}
        self.assertEqual(self.post(COMPLETIONS, json.dumps(body).encode(), **form).status, 415)
        self.assertEqual(self.post(COMPLETIONS, body, Origin=f"http://127.0.0.1:{self.port}").status, 200)

    def test_fields_that_cannot_be_honoured_are_named(self):
        for field, value in (("n", 2**31 - 1), ("n", 0), ("best_of", 2), ("logprobs", 10**9), ("suffix", "x"),
                             ("guided_json", {}), ("max_tokens", -1), ("top_p", 7), ("response_format", {"type": "x"})):
            reply = self.post(COMPLETIONS, completion(**{"max_tokens": 2, field: value}))
            self.assertEqual((reply.status, reply.error["param"]), (400, field))

    def test_nothing_of_a_client_is_logged(self):
        self.post(COMPLETIONS, {"prompt": "canary-prompt", "max_tokens": 1})
        self.post(COMPLETIONS, {"prompt": "canary-prompt", "canary-field": 1, "n": "canary-value"})
        self.get("/canary-path", X_Canary="canary-field")
        self.assertNotIn("canary", self.server.log())


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class SlowClientTest(HttpTestCase):
    FLAGS = ("--max-model-len", "1024", "--http-connections-max", "600")

    def test_slow_clients_end_at_the_time_limits(self):  # rows 74, 123, 126 of docs/bad_input.md
        """Opens 500 connections that send a byte a second, and 500 that send nothing."""
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        starts = (b"GET /health HTTP/1.1\r\nX: ", head + b"Content-Length: 1000\r\n\r\n",
                  head + b"Transfer-Encoding: chunked\r\n\r\n100\r\n")
        rss_before = rss(self.server.process.pid)
        silent = [http1.connect(self.port) for _ in range(500)]
        slow = [(starts[i % 3], http1.connect(self.port)) for i in range(500)]
        for connection in silent + [connection for _, connection in slow]:
            self.addCleanup(connection.close)
        began = time.monotonic()
        for start, connection in slow:
            connection.sendall(start)
        ends = {}
        while slow and time.monotonic() - began < http1.SECONDS:
            time.sleep(1)
            self.assertEqual(self.get("/health").status, 200)
            self.assertEqual(self.post(COMPLETIONS, completion(2)).status, 200)
            ready = select.select([connection for _, connection in slow], [], [], 0)[0]
            for start, connection in [entry for entry in slow if entry[1] in ready]:
                ends.setdefault(start, set()).add(http1.status_of(http1.receive_all(connection)))
            slow = [entry for entry in slow if entry[1] not in ready]
            for _, connection in slow:
                with contextlib.suppress(OSError):
                    connection.send(b" ")
        self.assertEqual(slow, [], "connections without a response")
        self.assertEqual(ends, {start: {408} for start in starts})
        self.assertLess(rss(self.server.process.pid) - rss_before, 64 << 20)


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class AddressTest(unittest.TestCase):
    def start(self, *flags):
        """Starts a server whose HTTP address is a matter of `flags`. Returns the process, its ports and its log."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        ports, log = pathlib.Path(folder.name) / "ports", pathlib.Path(folder.name) / "log"
        with open(log, "wb") as errors:
            process = subprocess.Popen(
                [PROGRAM, "serve", "--model", str(default_model()), "--address", "127.0.0.1:0", "--metrics-address",
                 "127.0.0.1:0", "--port-file", str(ports), *flags],
                stdout=subprocess.PIPE, stderr=errors, text=True, preexec_fn=die_with_parent)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, process.stdout.readline(), ports, log

    def take(self, port):
        taken = socket.socket()
        self.addCleanup(taken.close)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        return taken.getsockname()[1]

    def test_a_default_address_in_use_is_a_warning(self):
        try:
            self.take(8000)
        except OSError:
            pass  # another program has the port, which serves the purpose of the test as well
        process, ready, ports, log = self.start()
        self.assertTrue(ready, log.read_text())
        self.assertNotIn("http", json.loads(ports.read_text()))
        self.assertIn("no HTTP server: --http-address 127.0.0.1:8000: ", log.read_text())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(STOP_SECONDS), 0)

    def test_an_address_of_the_flag_in_use_ends_the_start(self):
        address = f"127.0.0.1:{self.take(0)}"
        process, ready, _, log = self.start("--http-address", address)
        self.assertEqual(ready, "")
        self.assertEqual(process.wait(START_SECONDS), 4)
        self.assertIn(f"--http-address {address}", log.read_text())

    def test_a_server_without_http(self):
        process, ready, ports, log = self.start("--http-address", "none")
        self.assertTrue(ready, log.read_text())
        self.assertNotIn("http", json.loads(ports.read_text()))

    def test_a_drain_ends_after_the_streams(self):
        with Server("--max-model-len", "1024", http=True) as server:
            connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=http1.SECONDS)
            self.addCleanup(connection.close)
            connection.request("POST", COMPLETIONS, json.dumps(completion(900, ignore_eos=True, stream=True)),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            server.signal(signal.SIGTERM)
            events, is_done = http1.Reply(response).events
            self.assertTrue(is_done, events[-1])
            self.assertEqual(server.wait(), 0)


if __name__ == "__main__":
    unittest.main()
