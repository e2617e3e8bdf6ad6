"""Sends HTTP/1.1 requests to a server, as whole requests or as raw bytes."""
import http.client
import json
import socket

SECONDS = 60  # time limit of each call; a test that passes never waits for the limit


class Reply:
    """A response: status, header fields and body."""

    def __init__(self, response):
        self.status = response.status
        self.fields = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    @property
    def events(self):
        """The JSON values of the events of a stream, and whether the stream ends with [DONE]."""
        lines = [line for line in self.body.decode().split("\n\n") if line]
        assert all(line.startswith("data: ") for line in lines), lines
        data = [line[len("data: "):] for line in lines]
        is_done = bool(data) and data[-1] == "[DONE]"
        return [json.loads(text) for text in (data[:-1] if is_done else data)], is_done


def call(port, method, path, body=None, **fields):
    """Sends one request on a new connection. `body` is bytes, or a value that is sent as JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    if body is not None:
        headers.setdefault("Content-Type", "application/json")
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        connection.request(method, path, body, headers)
        return Reply(connection.getresponse())
    finally:
        connection.close()


def post(port, path, body, fields=()):
    """Posts the bytes `body` as JSON. `fields` are pairs of names and values; names may occur several times."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.putrequest("POST", path)
        for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(body))), *fields):
            connection.putheader(name, value)
        connection.endheaders(body)
        return Reply(connection.getresponse())
    finally:
        connection.close()


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive_all(connection):
    """Returns the bytes until the server closes the connection."""
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def raw(port, data):
    """Sends `data` on a new connection. Returns the bytes until the server closes the connection."""
    with connect(port) as connection:
        try:
            connection.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return receive_all(connection)


def status_of(received):
    """Returns the status of the response in `received`, or None if there is no response."""
    return int(received.split(b" ", 2)[1]) if received.startswith(b"HTTP/1.1 ") else None


def post_bytes(path, body, fields=b""):
    return (b"POST " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n" % len(body) + fields + b"\r\n" + body)
