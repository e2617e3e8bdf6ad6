"""Starts the engines that tools/compare_serving.py compares, each in a process of its own.

An engine has a name and the method measure(load), which runs one load with an empty cache and returns the figures of
serving_loads.summary(). The attributes of `options` are those of compare_serving.py.
"""
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request

import compare_cpu
import serving_loads
import serving_table
from compare_cpu import ROOT, run

SHAPE = "qwen2-0.5b"
KV_MEMORY = "2GiB"  # as much as the cache of openvino_serving.py
START_SECONDS_MAX = 300  # maximum time from the start of a server until it accepts requests
STOP_SECONDS_MAX = 30  # maximum time from SIGTERM to the end of a server
RUN_SECONDS_MAX = 3600  # maximum time of one run of a load
CELLS = 256  # llama-server: the context of a slot is a multiple of this number of tokens


class Process:
    """A process on the measured cores, whose output goes to a log file. close() ends the process."""

    def __init__(self, options, name, command):
        self.name = name
        self.log = options.folder / f"{name.replace(' ', '-')}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([str(part) for part in [*options.pin, *command]], stdout=log, stderr=log)

    def wait_until(self, is_ready):
        deadline = time.monotonic() + START_SECONDS_MAX
        while not is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.close()
                sys.exit(f"{self.name} did not start; see {self.log}")
            time.sleep(0.05)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def figures(options, command):
    """Runs a program that prints the figures of one load. Returns the figures."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(options.stubs), str(ROOT / "tools")]),
                       PYTHONDONTWRITEBYTECODE="1")
    output = run([*options.pin, *command], env=environment, timeout=RUN_SECONDS_MAX)
    return json.loads(output.strip().splitlines()[-1])


def jobs_of(options, load):
    return serving_loads.jobs(load, options.requests, options.concurrency, options.seed, options.vocabulary)


def load_flags(options, load):
    return ["--load", load, "--requests", options.requests, "--concurrency", options.concurrency, "--seed", options.seed,
            "--vocabulary", options.vocabulary]


class Incipit:
    def __init__(self, options, name, program):
        self.options, self.name, self.program = options, name, program

    def measure(self, load):
        options = self.options
        ports = options.folder / "ports.json"
        ports.unlink(missing_ok=True)
        server = Process(options, self.name, [
            self.program, "serve", "--model", options.model, "--address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0",
            "--port-file", ports, "--log-level", "warn", "--threads", options.threads, "--kv-memory", KV_MEMORY,
            *compare_cpu.TYPES[options.type]["flags"]])
        with contextlib.closing(server):
            server.wait_until(lambda: ports.exists() and ports.read_text().strip())
            address = f"127.0.0.1:{json.loads(ports.read_text())['grpc']}"
            return figures(options, [options.python, ROOT / "tools/serving_client.py", "incipit", address,
                                     *load_flags(options, load)])


class LlamaServer:
    def __init__(self, options, name, path):
        self.options, self.name, self.path = options, name, path

    def measure(self, load):
        options = self.options
        jobs = jobs_of(options, load)
        slot = -(-(serving_loads.context_tokens(jobs) + 1) // CELLS) * CELLS
        address = f"127.0.0.1:{free_port()}"
        server = Process(options, self.name, [
            options.llama_server, "--model", self.path, "--host", "127.0.0.1", "--port", address.split(":")[1],
            "--threads", options.threads, "--threads-batch", options.threads, "--parallel", options.concurrency,
            "--ctx-size", slot * options.concurrency])
        with contextlib.closing(server):
            server.wait_until(lambda: is_healthy(address))
            return figures(options, [options.python, ROOT / "tools/serving_client.py", "llama-server", address,
                                     *load_flags(options, load)])


class OpenVino:
    def __init__(self, options, name, path):
        self.options, self.name, self.path = options, name, path

    def measure(self, load):
        options = self.options
        return figures(options, [options.python, ROOT / "tools/openvino_serving.py", self.path, "--threads", options.threads,
                                 *load_flags(options, load)])


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def is_healthy(address):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}/health", timeout=5) as response:
            return response.status == 200
    except OSError:
        return False


def missing_module(python, module):
    """Returns why `python` cannot import `module`, or None if it can."""
    if not pathlib.Path(python).exists():
        return f"{python} does not exist"
    found = subprocess.run([str(python), "-c", f"import {module}"], stderr=subprocess.PIPE, text=True)
    return None if found.returncode == 0 else (found.stderr.strip().splitlines() or ["the import failed"])[-1]


def gguf_files(options, dtypes):
    """Returns the GGUF files of the types `dtypes` by the name of the type, and the reason why a file is missing."""
    if options.gguf:
        return {"": options.gguf}, None
    files = {dtype: compare_cpu.gguf_path(options.models / SHAPE, dtype) for dtype in dtypes}
    missing = [str(path) for path in files.values() if not path.exists()]
    return files, f"{', '.join(missing)} does not exist" if missing else None


def find_engines(options):
    """Returns the engines that can be measured, Incipit last, and the reasons of the skipped peers by peer."""
    engines, skipped = [], {}
    kind = compare_cpu.TYPES[options.type]
    for peer, engine_type, dtypes, reason in (
            (serving_table.LLAMA, LlamaServer, kind["llama"],
             None if options.llama_server.exists() else f"{options.llama_server} does not exist"),
            (serving_table.OPENVINO, OpenVino, kind["openvino"], missing_module(options.python, "openvino_genai"))):
        files, missing = gguf_files(options, dtypes)
        if reason or missing:
            skipped[peer] = reason or missing
        else:
            engines += [engine_type(options, f"{peer} {dtype}".strip(), path) for dtype, path in files.items()]
    if options.before:
        engines.append(Incipit(options, serving_table.BEFORE, options.before))
    return [*engines, Incipit(options, serving_table.INCIPIT, options.program)], skipped
