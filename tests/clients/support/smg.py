"""Starts the SMG gateway and sends requests to the gateway. Needs the PyPI package smg."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

from harness.process import die_with_parent

from support.checks import wait_for

PROGRAM = pathlib.Path(sys.executable).parent / "smg"
SECONDS = 60  # time limit of a request


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Reply:
    """A response of the gateway. `worker` is the address of the server that computed the output."""

    def __init__(self, response):
        self.status = response.status
        self.worker = response.getheader("x-smg-routed-worker-id")
        self.response = response

    def json(self):
        return json.loads(self.response.read())

    def events(self):
        """Yields the JSON objects of a stream of server-sent events."""
        for line in self.response:
            if line.startswith(b"data: {"):
                yield json.loads(line[len("data: "):])


class Gateway:
    """A running gateway. A context manager that stops the gateway at the end."""

    def __init__(self, *workers, policy="cache_aware", flags=()):
        self.port, metrics_port = free_port(), free_port()
        self._metrics = ("127.0.0.1", metrics_port)
        self._folder = tempfile.TemporaryDirectory()
        self._log = pathlib.Path(self._folder.name) / "log"
        command = [PROGRAM, "launch", "--host", "127.0.0.1", "--port", str(self.port),
                   "--prometheus-host", "127.0.0.1", "--prometheus-port", str(metrics_port),
                   "--policy", policy, "--worker-startup-check-interval", "1",
                   "--health-check-interval-secs", "1", "--load-monitor-interval", "1",
                   "--worker-warmup-secs", "0", "--worker-warmup-divert-every", "0", *flags,
                   "--worker-urls", *(f"grpc://{worker}" for worker in workers)]
        # Port 9 makes the search for the model on Hugging Face fail immediately.
        environment = dict(os.environ, HF_ENDPOINT="http://127.0.0.1:9", NO_PROXY="127.0.0.1")
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment,
                                             preexec_fn=die_with_parent)
        # The gateway is ready as soon as one worker is ready.
        wait_for(lambda: self._num_ready() == len(workers), f"a gateway with {len(workers)} ready workers")
        wait_for(self._is_ready, "a gateway that is ready")

    def _num_ready(self):
        try:
            with self.get("/workers") as reply:
                return sum(worker["status"] == "ready" for worker in reply.json()["workers"])
        except OSError:
            assert self._process.poll() is None, f"the gateway did not start: {self.log()[-2000:]}"
            return 0

    def _is_ready(self):
        with self.get("/readiness") as reply:
            return reply.status == 200

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def log(self):
        return re.sub("\x1b\\[[0-9;]*m", "", self._log.read_text(errors="replace"))

    @contextlib.contextmanager
    def get(self, path, address=None):
        connection = http.client.HTTPConnection(*(address or ("127.0.0.1", self.port)), timeout=SECONDS)
        try:
            connection.request("GET", path)
            yield Reply(connection.getresponse())
        finally:
            connection.close()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)

    @contextlib.contextmanager
    def post(self, path, **body):
        """Sends a request. The end of the `with` block closes the connection."""
        connection = self.connect()
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            yield Reply(connection.getresponse())
        finally:
            connection.close()

    def complete(self, **body):
        """Returns the response to a completion: the worker and the JSON object."""
        with self.post("/v1/completions", **body) as reply:
            found = reply.json()
            assert reply.status == 200, found
            return reply.worker, found

    def metric(self, name, **labels):
        """Returns the sum of the samples of the metric `name` that have all of `labels`."""
        with self.get("/metrics", self._metrics) as reply:
            text = reply.response.read().decode()
        total = 0
        for line in text.splitlines():
            match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if match and match[1] == name:
                found = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
                total += float(match[3]) if all(found.get(key) == value for key, value in labels.items()) else 0
        return total
