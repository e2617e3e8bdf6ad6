"""Starts `incipit serve` on free ports and calls the server."""
import ctypes
import json
import os
import pathlib
import queue
import re
import resource
import signal
import subprocess
import tempfile
import threading
import urllib.request

import grpc
from google.rpc import error_details_pb2, status_pb2
from incipit.v1 import admin_pb2, admin_pb2_grpc, inference_pb2, inference_pb2_grpc

PROGRAM = os.environ["INCIPIT_PROGRAM"]
SOURCE = pathlib.Path(os.environ["INCIPIT_SOURCE"])
BUNDLED = SOURCE / "models/incipit-tiny"
STORIES = SOURCE / "tests/data/models/stories260K"

def die_with_parent():
    """Makes the kernel kill the server process when the process of the test ends. Runs in the child process."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def prepare_child(files_max):
    die_with_parent()
    if files_max is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))


# Time limits in seconds, long enough for a busy machine. A test that passes never waits for the limit.
START_SECONDS = 60
STOP_SECONDS = 60


def default_model():
    """Returns a model with a tokenizer: the bundled model, or else the stories model of the test data."""
    return next((model for model in (BUNDLED, STORIES) if (model / "config.json").exists()), None)


class Server:
    """A running server and its clients. A context manager that stops the server at the end."""

    def __init__(self, *flags, model=None, files_max=None, environment=None, http=False):
        """`files_max`: maximum number of open file descriptors of the server process. `environment`: additional
        environment variables. `http`: whether the server has an HTTP server, at the port `ports["http"]`."""
        self.model = pathlib.Path(model or default_model())
        self._folder = tempfile.TemporaryDirectory()
        port_file = pathlib.Path(self._folder.name) / "ports.json"
        self.log_path = pathlib.Path(self._folder.name) / "log"
        command = [PROGRAM, "serve", "--model", str(self.model), "--address", "127.0.0.1:0",
                   "--metrics-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0" if http else "none",
                   "--port-file", str(port_file), *flags]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True,
                                            env=dict(os.environ, **(environment or {})),
                                            preexec_fn=lambda: prepare_child(files_max))
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=self._read_output, daemon=True)
        self._reader.start()
        line = self._lines.get(timeout=START_SECONDS)
        if line is None:
            log = self.log()
            self.process.wait()
            raise AssertionError(f"the server did not start: {log}")
        self.ready_line = line
        self.ports = json.loads(port_file.read_text())
        self.address = f"127.0.0.1:{self.ports['grpc']}"
        self.channel = self.connect()
        self.inference = inference_pb2_grpc.InferenceStub(self.channel)
        self.admin = admin_pb2_grpc.AdminStub(self.channel)

    def _read_output(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def connect(self, *options):
        # A separate subchannel pool, because channels of one process otherwise share a connection.
        return grpc.insecure_channel(self.address, options=[
            ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0),
            ("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1), *options])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Stops the server if it still runs, and deletes its files."""
        self.channel.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        self._folder.cleanup()

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait(self):
        return self.process.wait(timeout=STOP_SECONDS)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def scrape(self):
        url = f"http://127.0.0.1:{self.ports['metrics']}/metrics"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=10) as response:
            return response.read().decode()

    def metric(self, name, **labels):
        """Returns the sum of the samples of the metric `name` that have all of `labels`."""
        return sum(value for found, value in self.samples(name)
                   if all(found.get(key) == wanted for key, wanted in labels.items()))

    def samples(self, name):
        for line in self.scrape().splitlines():
            match = re.fullmatch(r"([a-zA-Z_:]+)(?:\{(.*)\})? (\S+)", line)
            if match and match[1] == name:
                labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
                yield labels, float(match[3])

    def load(self):
        return self.admin.GetLoad(admin_pb2.GetLoadRequest())

    def info(self):
        return self.admin.GetModelInfo(admin_pb2.GetModelInfoRequest())

    def reset_cache(self):
        self.admin.ResetPrefixCache(admin_pb2.ResetPrefixCacheRequest())

    def wait_until_idle(self):
        """Waits until no request is running or waiting and no block is in use. A drain would end the server
        instead."""
        for _ in range(2000):
            load = self.load()
            if load.used_blocks == 0 and load.running == 0 and load.waiting == 0:
                return
            threading.Event().wait(0.005)
        raise AssertionError(f"requests still hold blocks: {load}")

    def generate(self, request, **call_options):
        return collect(self.inference.Generate(request, **call_options))


class Reply:
    """The joined messages of one call: texts, token ids, log probabilities and last delta of each choice, and
    usage."""

    def __init__(self):
        self.messages = []
        self.texts, self.ids, self.logprobs, self.last = {}, {}, {}, {}
        self.prompt_logprobs = []
        self.usage = None

    def add(self, message):
        self.messages.append(message)
        self.prompt_logprobs += message.prompt_logprobs
        for delta in message.deltas:
            choice = delta.choice
            self.texts[choice] = self.texts.get(choice, "") + delta.text
            self.ids.setdefault(choice, []).extend(delta.token_ids)
            self.logprobs.setdefault(choice, []).extend(delta.logprobs)
            if delta.finish_reason:
                self.last[choice] = delta
        if message.HasField("usage"):
            self.usage = message.usage

    @property
    def text(self):
        return self.texts.get(0, "")

    @property
    def token_ids(self):
        return self.ids.get(0, [])

    @property
    def finish_reason(self):
        return self.last[0].finish_reason


def collect(call):
    reply = Reply()
    for message in call:
        reply.add(message)
    return reply


class Details:
    """The error details in the trailer `grpc-status-details-bin`."""

    def __init__(self, error):
        trailers = dict(error.trailing_metadata() or ())
        self.status = status_pb2.Status.FromString(trailers.get("grpc-status-details-bin", b""))
        self.bad_request = self._find(error_details_pb2.BadRequest)
        self.retry_info = self._find(error_details_pb2.RetryInfo)
        self.error_info = self._find(error_details_pb2.ErrorInfo)

    def _find(self, kind):
        for detail in self.status.details:
            if detail.Is(kind.DESCRIPTOR):
                message = kind()
                detail.Unpack(message)
                return message
        return None

    @property
    def fields(self):
        return [violation.field for violation in self.bad_request.field_violations] if self.bad_request else []


def greedy(prompt, max_tokens, **fields):
    """Returns a GenerateRequest with greedy sampling. `prompt` is a text or a list of token ids."""
    request = inference_pb2.GenerateRequest(**fields)
    if isinstance(prompt, str):
        request.text = prompt
    else:
        request.token_ids.ids.extend(prompt)
    request.sampling.temperature = 0
    request.output.max_tokens = max_tokens
    return request
