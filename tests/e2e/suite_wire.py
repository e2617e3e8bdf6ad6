"""Tests bytes that no gRPC client sends. The server must refuse the bytes, close the connection or ignore the bytes,
and must continue to serve. The row numbers refer to docs/bad_input.md."""
import os
import pathlib
import resource
import threading
import time
import unittest

import bad_requests
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness import http2
from harness.server import Server, collect, default_model, greedy

OK, INVALID, DEADLINE, EXHAUSTED = "0", "3", "4", "8"
# Seconds until the server closes a connection that has sent no HTTP/2 preface.
ABORT_SECONDS = 5
SLACK_SECONDS = 5  # additional seconds for a busy machine
RSS_GROWTH_MAX = 512 << 20


def rss(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grpc_status(frames, table=None):
    """Returns the gRPC status of the call with these frames, or None if the call was reset."""
    table = table or http2.HeaderTable()
    fields = {}
    for kind, _, payload in frames:
        if kind == http2.HEADERS:
            fields.update(table.decode(payload))
    return fields.get("grpc-status")


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class WireTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-model-len", "400")
        cls.bystander = greedy(bad_requests.ids(30), 200)
        cls.bystander.output.ignore_eos = True
        cls.alone = cls.server.generate(cls.bystander).token_ids
        cls.message = http2.message_frame(1, greedy([5, 6, 7], 2).SerializeToString())

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def setUp(self):
        self.beside = self.server.inference.Generate(self.bystander)
        self.rss_before = rss(self.server.process.pid)

    def tearDown(self):
        """Checks after each test that a concurrent stream is not disturbed, and that the server replies to a new
        client within a second."""
        self.assertEqual(collect(self.beside).token_ids, self.alone)
        with self.server.connect() as channel:
            grpc.channel_ready_future(channel).result(timeout=1 + SLACK_SECONDS)
            health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=1 + SLACK_SECONDS)
            self.assertEqual(health.status, health_pb2.HealthCheckResponse.SERVING)
        self.assertEqual(len(self.server.generate(greedy([5, 6, 7], 2), timeout=60).token_ids), 2)
        self.server.wait_until_idle()
        self.assertLess(rss(self.server.process.pid) - self.rss_before, RSS_GROWTH_MAX)

    def connect(self, **options):
        connection = http2.Connection(self.server.ports["grpc"], **options)
        self.addCleanup(connection.socket.close)
        return connection

    def call(self, headers, stream=1, connection=None):
        """Sends a Generate call with this header block. Returns the frames of the reply, or None if the connection is
        closed."""
        connection = connection or self.connect()
        connection.send(http2.header_frames(stream, headers))
        connection.send(http2.message_frame(stream, greedy([5, 6, 7], 2).SerializeToString()))
        return connection.await_ended(stream)

    def test_a_call_by_hand_has_its_reply(self):
        self.assertEqual(grpc_status(self.call(http2.call_headers())), OK)

    def test_metadata_above_the_limit_are_refused_and_counted(self):  # row 69 of docs/bad_input.md
        for acknowledges in (False, True):
            for block in (http2.literal("x-a", "b" * 17_000),
                          b"".join(http2.literal(f"x-{i}", "b") for i in range(10_000))):
                connection = self.connect()
                if acknowledges:
                    connection.acknowledge_settings()
                before = self.server.metric("incipit_requests_rejected_total", reason="metadata_too_large")
                reply = self.call(http2.call_headers() + block, connection=connection)
                self.assertEqual(grpc_status(reply), EXHAUSTED)
                after = self.server.metric("incipit_requests_rejected_total", reason="metadata_too_large")
                self.assertEqual(after - before, 1)

    def test_the_header_table_survives_metadata_above_the_limit(self):  # row 69 of docs/bad_input.md
        connection = self.connect()
        connection.acknowledge_settings()
        table = http2.HeaderTable()
        # The tenant field enters the header table after a field that is too large. The next call refers to the table
        # entry.
        block = http2.literal("x-a", "b" * 17_000) + http2.literal("x-tenant-id", "not/a tenant", indexed=True)
        self.assertEqual(grpc_status(self.call(http2.call_headers() + block, 1, connection), table), EXHAUSTED)
        self.assertEqual(grpc_status(self.call(http2.call_headers() + b"\xbe", 3, connection), table), INVALID)
        self.assertEqual(grpc_status(self.call(http2.call_headers(), 5, connection), table), OK)

    # rows 65, 69 of docs/bad_input.md
    def test_metadata_above_the_limit_leave_the_other_streams_of_their_connection_alone(self):
        with self.server.connect() as channel:
            call = channel.unary_stream(http2.GENERATE, request_serializer=bytes, response_deserializer=bytes)
            beside = call(self.bystander.SerializeToString())
            for _ in range(40):
                for data, metadata in ((b"\x12\x84\x80\x80\x02" + b"a" * (2**22 + 4), None),
                                       (self.bystander.SerializeToString(), [("x-large", "a" * 17_000)])):
                    with self.assertRaises(grpc.RpcError) as caught:
                        list(call(data, metadata=metadata, timeout=30))
                    self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertGreater(len(list(beside)), 0)
            self.assertEqual(beside.code(), grpc.StatusCode.OK)

    def test_streams_without_end_on_one_connection(self):  # row 70 of docs/bad_input.md
        connection = self.connect()
        calls = b"".join(http2.header_frames(1 + 2 * i, http2.call_headers()) for i in range(5000))
        threading.Thread(target=connection.send, args=(calls,), daemon=True).start()
        self.assertEqual(len(self.server.generate(greedy([5, 6, 7], 2), timeout=60).token_ids), 2)

    def test_calls_of_a_connection_that_ignores_its_limit_are_refused(self):  # row 70 of docs/bad_input.md
        limit, count = 256, 700
        # This client does not acknowledge the server's settings, so gRPC does not enforce the limit of streams.
        connection = self.connect()
        # Few of these requests end before the last one arrives.
        request = greedy(bad_requests.ids(30), 0)
        request.output.ignore_eos = True
        message = request.SerializeToString()
        connection.send(b"".join(
            http2.header_frames(1 + 2 * i, http2.call_headers()) + http2.message_frame(1 + 2 * i, message)
            for i in range(count)))
        table, codes = http2.HeaderTable(), []
        for kind, _, _, payload in connection.frames():
            if kind == http2.HEADERS:
                code = table.decode(payload).get("grpc-status")
                codes += [code] if code else []
            if codes.count(EXHAUSTED) >= count - 2 * limit - codes.count(OK):
                break
        self.assertGreater(codes.count(EXHAUSTED), 0)
        self.assertEqual(set(codes) - {OK}, {EXHAUSTED})
        connection.socket.close()

    def test_streams_that_are_reset_at_once(self):  # row 71 of docs/bad_input.md
        connection = self.connect()
        headers = http2.call_headers()
        reset = (8).to_bytes(4, "big")
        for first in range(0, 10_000, 500):
            burst = b"".join(http2.header_frames(1 + 2 * i, headers) + http2.frame(http2.RST_STREAM, 0, 1 + 2 * i, reset)
                             for i in range(first, first + 500))
            if not connection.send(burst):
                break

    def test_floods_of_frames(self):  # row 72 of docs/bad_input.md
        for name, data in (("PING", http2.frame(http2.PING, 0, 0, b"12345678")),
                           ("SETTINGS", http2.frame(http2.SETTINGS)),
                           ("PRIORITY", http2.frame(http2.PRIORITY, 0, 1, b"\0\0\0\0\1")),
                           ("an unknown type", http2.frame(0xEE, 0xFF, 7, b"x" * 100))):
            with self.subTest(name=name):
                connection = self.connect()
                reader = threading.Thread(target=connection.await_closed)
                reader.start()
                for _ in range(100):
                    if not connection.send(data * 200):
                        break
                connection.shutdown()
                reader.join()

    def test_windows_that_grow_by_nothing_or_too_much(self):  # row 72 of docs/bad_input.md
        for stream in (0, 1):
            for increment in (0, 2**31 - 1):
                with self.subTest(stream=stream, increment=increment):
                    connection = self.connect()
                    connection.send(http2.header_frames(1, http2.call_headers()))
                    for _ in range(3):
                        connection.send(http2.frame(http2.WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big")))
                    connection.send(self.message)
                    connection.shutdown()
                    connection.await_closed()

    def test_what_is_no_http2_is_closed(self):  # row 73 of docs/bad_input.md
        hello = bytes.fromhex("16030100c8010000c40303") + bytes(range(192))
        for data in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", hello, os.urandom(4096), b"\0" * 64,
                     http2.PREFACE[:-1] + b"x", http2.PREFACE + os.urandom(512)):
            with self.subTest(data=data[:20]):
                begin = time.monotonic()
                connection = self.connect(greet=False)
                connection.send(data)
                connection.await_closed()
                self.assertLess(time.monotonic() - begin, ABORT_SECONDS + SLACK_SECONDS)

    def test_connections_that_say_nothing_are_closed(self):  # row 74 of docs/bad_input.md
        begin = time.monotonic()
        silent = [self.connect(greet=False) for _ in range(1000)]
        slow = self.connect(greet=False)
        for byte in http2.PREFACE:
            if not slow.send(bytes([byte])):
                break
            threading.Event().wait(1)
            if time.monotonic() - begin > ABORT_SECONDS + SLACK_SECONDS:
                break
        for connection in [*silent, slow]:
            connection.await_closed()
        self.assertLess(time.monotonic() - begin, 2 * (ABORT_SECONDS + SLACK_SECONDS))

    def test_headers_that_make_no_call(self):  # row 76 of docs/bad_input.md
        for name, block in (("a bin header that is not base64", http2.call_headers(x_bin="!!!")),
                            ("a NUL", http2.call_headers(x_a=b"a\0b")),
                            ("a line end", http2.call_headers(x_a=b"a\r\nb")),
                            ("no path", http2.call_headers(path=None)),
                            ("an unknown path", http2.call_headers(path="/")),
                            ("no te", http2.call_headers(te=None)),
                            ("another te", http2.call_headers(te="gzip")),
                            ("GET", http2.call_headers().replace(b"\x04POST", b"\x03GET")),
                            ("a content type", http2.call_headers().replace(b"\x10application/grpc", b"\x0atext/plain")),
                            ("an index that is not there", b"\xff\xff\x07"),
                            ("half a header", http2.call_headers()[:-3])):
            with self.subTest(name=name):
                connection = self.connect()
                connection.send(http2.header_frames(1, block))
                connection.send(self.message)
                connection.send(http2.frame(http2.PING, 0, 0, b"12345678"))
                # The server must reply, reset the stream or close the connection before it acknowledges the ping.
                for kind, flags, *_ in connection.frames():
                    if kind == http2.PING and flags & http2.ACK:
                        break

    def test_timeouts_that_are_no_timeouts(self):  # row 77 of docs/bad_input.md
        for text, statuses in (("-1S", {OK, INVALID, None}), ("abc", {OK, INVALID, None}), ("99999999H", {OK}),
                               ("0n", {DEADLINE}), ("", {OK, INVALID, None})):
            with self.subTest(text=text):
                reply = self.call(http2.call_headers(grpc_timeout=text))
                self.assertIn(grpc_status(reply) if reply else None, statuses)

    def test_a_message_in_single_bytes(self):  # row 68 of docs/bad_input.md
        connection = self.connect()
        connection.send(http2.header_frames(1, http2.call_headers()))
        request = greedy([5, 6, 7], 2, request_id="r" * 100)
        request.cache.salt = "s" * 200
        data = request.SerializeToString()
        data = b"\0" + len(data).to_bytes(4, "big") + data
        connection.send(b"".join(http2.frame(http2.DATA, 0, 1) * 30 + http2.frame(http2.DATA, 0, 1, data[i:i + 1])
                                 for i in range(len(data))))
        connection.send(http2.frame(http2.DATA, http2.END_STREAM, 1))
        self.assertEqual(grpc_status(connection.await_ended(1)), OK)


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class ExhaustionTest(unittest.TestCase):
    """Tests that exhaust a resource, each with its own server."""

    # row 67 of docs/bad_input.md
    def test_a_message_that_says_it_is_huge_is_ended_within_the_memory_for_what_is_received(self):
        limit = 64 << 20
        with Server("--receive-memory-max", str(limit)) as server:
            before = rss(server.process.pid)
            with http2.Connection(server.ports["grpc"]) as connection:
                connection.send(http2.header_frames(1, http2.call_headers()))
                sent = connection.send_until_ended(1, b"\0\xff\xff\xff\xff", 16 * limit)
            self.assertLess(sent, 4 * limit)
            self.assertLess(rss(server.process.pid) - before, 4 * limit)
            self.assertEqual(len(server.generate(greedy([5, 6, 7], 2), timeout=60).token_ids), 2)

    def test_connections_are_accepted_again_once_there_are_descriptors(self):  # row 75 of docs/bad_input.md
        with Server(files_max=160) as server:
            alone = server.generate(greedy([5, 6, 7], 20)).token_ids
            for _ in range(3):
                connections = [http2.Connection(server.ports["grpc"]) for _ in range(400)]
                # Connections that existed before must continue to work.
                self.assertEqual(server.generate(greedy([5, 6, 7], 20), timeout=60).token_ids, alone)
                for connection in connections:
                    connection.socket.close()
                with server.connect() as channel:
                    grpc.channel_ready_future(channel).result(timeout=1 + SLACK_SECONDS)
            self.assertIn("nearly all file descriptors are in use: the last 32 of 160 are reserved", server.log())
            self.assertLess(server.log().count("file descriptors"), 5)

    def test_more_connections_than_the_soft_limit_of_files(self):  # row 75 of docs/bad_input.md
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < 1000:
            self.skipTest(f"only {hard} files may be open")
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
        try:
            server = Server()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with server:
            connections = [http2.Connection(server.ports["grpc"]) for _ in range(200)]
            with server.connect() as channel:
                grpc.channel_ready_future(channel).result(timeout=30)
            for connection in connections:
                connection.socket.close()


if __name__ == "__main__":
    unittest.main()
