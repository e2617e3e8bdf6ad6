"""An HTTP server that serves the chat page of a real server, and scripted responses of OpenAI's API."""
import http.server
import json
import queue
import threading


class Pause:
    """A part of a stream at which the stub waits until the test calls `go_on`."""

    def __init__(self):
        self._event = threading.Event()
        self.go_on = self._event.set

    def wait(self):
        self._event.wait(60)


def chat_event(finish=None, **delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def usage_event(prompt, cached, completion):
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion,
                                     "prompt_tokens_details": {"cached_tokens": cached}}}


class Stub:
    """A context manager. `page` is the response of a real server to GET /."""

    def __init__(self, page, models=("stub",)):
        self.models = list(models)
        # The response to the next POST: (status, JSON value) or a list of events and Pauses, and optionally the text
        # "broken" at which the stub closes the connection.
        self.script = []
        self.requests = queue.Queue()  # (path, header fields, JSON value) of each POST
        self.gets = queue.Queue()      # (path, header fields) of each GET
        self.disconnected = threading.Event()  # the browser has closed the connection of a stream
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                stub.gets.put((self.path, dict(self.headers)))
                if self.path == "/":
                    fields = {name: value for name, value in page.fields.items()
                              if name not in ("connection", "content-length")}
                    self._send(200, page.body, fields)
                elif isinstance(stub.models, tuple):
                    self._send(stub.models[0], json.dumps(stub.models[1]).encode())
                else:
                    models = [{"id": name, "object": "model"} for name in stub.models]
                    self._send(200, json.dumps({"object": "list", "data": models}).encode())

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stub.requests.put((self.path, dict(self.headers), body))
                if isinstance(stub.script, tuple):
                    status, value = stub.script
                    self._send(status, json.dumps(value).encode())
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                try:
                    self._stream()
                except (BrokenPipeError, ConnectionResetError):
                    stub.disconnected.set()

            def _stream(self):
                for part in stub.script:
                    if part == "broken":
                        return
                    if isinstance(part, Pause):
                        part.wait()
                    else:
                        self._write(f"data: {json.dumps(part)}\n\n".encode())
                self._write(b"data: [DONE]\n\n")

            def _write(self, data):
                # Writes byte by byte in the middle of the data, so that UTF-8 characters arrive in parts.
                middle = len(data) // 2
                for part in (data[:middle], data[middle:middle + 1], data[middle + 1:]):
                    self.wfile.write(part)
                    self.wfile.flush()

            def _send(self, status, body, fields=()):
                self.send_response(status)
                for name, value in dict({"Content-Type": "application/json"}, **dict(
                        (name.title(), value) for name, value in dict(fields).items())).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
