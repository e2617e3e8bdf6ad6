"""A simple HTTP/2 client that can send frames that no gRPC client sends."""
import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
ACK = END_STREAM = 1
END_HEADERS = 4
FRAME_MAX = 16384
# Initial size of a flow-control window in bytes, until a SETTINGS frame changes it.
WINDOW = 65535
INITIAL_WINDOW_SIZE = 4  # identifier of the setting in a SETTINGS frame
GENERATE = "/incipit.v1.Inference/Generate"


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def integer(value, prefix, first=0):
    """Encodes an integer with a prefix of `prefix` bits (RFC 7541, section 5.1)."""
    limit = (1 << prefix) - 1
    if value < limit:
        return bytes([first | value])
    out, value = [first | limit], value - limit
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + [value])


def literal(name, value, indexed=False):
    """Encodes a literal header field (RFC 7541). If `indexed`, the field enters the connection's table (6.2.1);
    otherwise it does not (6.2.2)."""
    name, value = name.encode(), value if isinstance(value, bytes) else value.encode()
    return (b"\x40" if indexed else b"\x00") + integer(len(name), 7) + name + integer(len(value), 7) + value


def call_headers(path=GENERATE, te="trailers", **more):
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost", "te": te,
              "content-type": "application/grpc"}
    return b"".join(literal(name, value) for name, value in fields.items() if value is not None) + b"".join(
        literal(name.replace("_", "-"), value) for name, value in more.items())


def header_frames(stream, block, flags=0):
    """Returns a HEADERS frame and the CONTINUATION frames that `block` needs."""
    parts = [block[i:i + FRAME_MAX] for i in range(0, len(block), FRAME_MAX)] or [b""]
    out = b""
    for index, part in enumerate(parts):
        last = END_HEADERS if index == len(parts) - 1 else 0
        out += frame(HEADERS if index == 0 else CONTINUATION, last | (flags if index == 0 else 0), stream, part)
    return out


def message_frame(stream, data, flags=END_STREAM):
    return frame(DATA, flags, stream, b"\0" + struct.pack(">I", len(data)) + data)


class Connection:
    """A TCP connection to the server. If `greet` is true, the connection starts with the HTTP/2 preface and a
    SETTINGS frame."""

    def __init__(self, port, greet=True, timeout=30):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        if greet:
            self.send(PREFACE + frame(SETTINGS))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def acknowledge_settings(self):
        """Acknowledges the server's settings. Some limits apply to a client only after the acknowledgement."""
        while (found := self.next_frame())[0] != SETTINGS or found[1] & ACK:
            pass
        self.send(frame(SETTINGS, ACK) + frame(PING, 0, 0, b"settings"))
        while (found := self.next_frame())[0] != PING or not found[1] & ACK:
            pass

    def shutdown(self):
        """Closes the sending direction of the connection."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            # The server has already closed the connection.
            pass

    def send(self, data):
        """Sends `data`. Returns False if the server has closed the connection."""
        try:
            self.socket.sendall(data)
            return True
        except (ConnectionResetError, BrokenPipeError):
            return False

    def read(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def next_frame(self):
        """Returns the next frame as (kind, flags, stream, payload), or None if the server has closed the
        connection."""
        try:
            head = self.read(9)
            size = int.from_bytes(head[:3], "big")
            kind, flags, stream = struct.unpack(">BBI", head[3:])
            return kind, flags, stream & 0x7FFFFFFF, self.read(size)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return None

    def frames(self):
        """Yields frames until the server closes the connection."""
        while (found := self.next_frame()) is not None:
            yield found

    def send_until_ended(self, stream, head, size_max):
        """Sends `head` and then zeros as the flow-control windows allow. Ends when the server ends the stream or
        closes the connection, or when `size_max` bytes are sent. Returns the number of bytes sent."""
        self.send(frame(DATA, 0, stream, head))
        windows = {0: WINDOW - len(head), stream: WINDOW - len(head)}
        sent = len(head)
        while sent < size_max:
            while min(windows.values()) >= FRAME_MAX and sent < size_max:
                if not self.send(frame(DATA, 0, stream, b"\0" * FRAME_MAX)):
                    return sent
                sent += FRAME_MAX
                windows = {key: value - FRAME_MAX for key, value in windows.items()}
            found = self.next_frame()
            if found is None or found[2] == stream and found[0] in (HEADERS, RST_STREAM):
                return sent
            kind, flags, of, payload = found
            if kind == WINDOW_UPDATE:
                windows[of] = windows.get(of, WINDOW) + int.from_bytes(payload, "big")
            elif kind == SETTINGS and not flags & ACK:
                for key, value in struct.iter_unpack(">HI", payload):
                    windows[stream] += value - WINDOW if key == INITIAL_WINDOW_SIZE else 0
                self.send(frame(SETTINGS, ACK))
            elif kind == PING and not flags & ACK:
                self.send(frame(PING, ACK, 0, payload))
        return sent

    def await_closed(self):
        for _ in self.frames():
            pass

    def await_ended(self, stream):
        """Reads frames until the server ends `stream`. Returns the frames of `stream`, or None if the connection is
        closed first."""
        seen = []
        for kind, flags, found, payload in self.frames():
            if found == stream:
                seen.append((kind, flags, payload))
                if kind == RST_STREAM or (kind in (HEADERS, DATA) and flags & END_STREAM):
                    return seen
        return None


class HeaderTable:
    """Decodes the header blocks of a gRPC server (RFC 7541). Strings in Huffman code are not decoded."""

    STATIC = {8: (":status", "200"), 31: ("content-type", "")}

    def __init__(self):
        self._dynamic = []

    def _entry(self, index):
        return self._dynamic[index - 62] if index > 61 else self.STATIC.get(index, (f"static-{index}", ""))

    def decode(self, block):
        fields, at = [], 0

        def integer_at(prefix):
            nonlocal at
            limit = (1 << prefix) - 1
            value = block[at] & limit
            at += 1
            if value == limit:
                shift = 0
                while True:
                    byte = block[at]
                    at += 1
                    value += (byte & 127) << shift
                    shift += 7
                    if byte < 128:
                        break
            return value

        def text_at():
            nonlocal at
            is_coded = block[at] >= 128
            size = integer_at(7)
            at += size
            return "(Huffman code)" if is_coded else block[at - size:at].decode()

        while at < len(block):
            first = block[at]
            if first & 0x80:
                fields.append(self._entry(integer_at(7)))
            elif first & 0xE0 == 0x20:
                integer_at(5)
            else:
                index = integer_at(6 if first & 0x40 else 4)
                name = self._entry(index)[0] if index else text_at()
                fields.append((name, text_at()))
                if first & 0x40:
                    self._dynamic.insert(0, fields[-1])
        return dict(fields)
