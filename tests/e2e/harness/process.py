"""Starts `incipit serve` on free ports, and reads the log and the metrics of the server. Needs no gRPC library."""
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


class ServerProcess:
    """A running server. A context manager that stops the server at the end."""

    def __init__(self, *flags, program=PROGRAM, model=None, files_max=None, environment=None, http=False):
        """`files_max`: maximum number of open file descriptors of the server process. `environment`: additional
        environment variables. `http`: whether the server has an HTTP server, at the port `ports["http"]`."""
        self.model = pathlib.Path(model or default_model())
        self._folder = tempfile.TemporaryDirectory()
        port_file = pathlib.Path(self._folder.name) / "ports.json"
        self.log_path = pathlib.Path(self._folder.name) / "log"
        command = [program, "serve", "--model", str(self.model), "--address", "127.0.0.1:0",
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

    def _read_output(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Stops the server if it still runs, and deletes its files."""
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
