#!/usr/bin/env python3
"""Measures the workloads of `incipit bench --workload` with the prefix cache on and off.

    bench/workloads.py [build/release/incipit] [--output build/workloads] [--models incipit-tiny qwen2-0.5b]
    bench/workloads.py --cache-shares 1 2 5 10 20     # small caches, with two eviction policies

Models: incipit-tiny is the bundled model; qwen2-0.5b has random weights, which this program writes at the first run. A
run starts a server with an empty cache, sends one workload, and stops the server. The runs with the cache on and off
alternate. Equal seeds give equal prompts. For qwen2-0.5b, all lengths of the workloads are halved by default, so that two
cores are enough; --bench-flags "--length-scale 1" gives the full lengths.

Writes into the folder of --output: table.md, results.json with the figures of every run, and plots for each model:
hit ratio of each workload, TTFT with the cache on and off, and TTFT by the cached share of the prompt.

With --cache-shares, the workload (by default agent) first runs with a cache that evicts no block. The blocks in that
cache at the end are the working set. The workload then runs with caches of the given shares of the working set, in
percent, with each eviction policy of --policies in turn. Writes cache_shares.md, cache_shares.json and plots of the hit
ratio and of the TTFT by the size of the cache.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("tools", "bench")]
import make_checkpoint  # noqa: E402
import workloads_report  # noqa: E402
from compare_cpu import ROOT, cpu_name, say  # noqa: E402

TINY, RANDOM = "incipit-tiny", "qwen2-0.5b"
WORKLOADS = list(workloads_report.PUBLISHED)
# Default number of requests, number of users with one request at a time each, and factor for all lengths.
LOADS = {TINY: (200, 8, 1), RANDOM: (24, 4, 0.5)}
CACHE_SHARES = [1.0, 2.0, 5.0, 10.0, 20.0]  # in percent of the working set
SHARES_LOAD = (3000, 16, 1)  # as LOADS, with --cache-shares: 1 % of the working set must hold the longest prompt
BLOCK_TOKENS = 16  # default block size of the server
START_SECONDS_MAX = 300  # maximum time from the start of a server until it accepts requests
RUN_SECONDS_MAX = 3600  # maximum time of one workload


class StartError(Exception):
    """The server did not start. The text is the end of the server's log."""


class Server:
    """A server with an empty cache. A context manager that stops the server at the end."""

    def __init__(self, options, model, *flags):
        self.folder = tempfile.TemporaryDirectory()
        ports = pathlib.Path(self.folder.name, "ports.json")
        log = pathlib.Path(self.folder.name, "log")
        command = [options.program, "serve", "--model", model, "--address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0",
                   "--port-file", ports, "--log-level", "error", *flags, *options.serve_flags]
        with open(log, "w") as file:
            self.process = subprocess.Popen([str(part) for part in command], stdout=file, stderr=file)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not (ports.exists() and ports.read_text().strip()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                text = log.read_text(errors="replace")[-1000:].strip()
                self.close()
                raise StartError(text)
            time.sleep(0.02)
        self.ports = json.loads(ports.read_text())

    def cached_blocks(self):
        """Returns the number of blocks that lookups can find. REQUIRES: no request is in progress."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.ports['metrics']}/metrics", timeout=30) as response:
            text = response.read().decode()
        found = re.findall(r'^incipit_kv_blocks{[^}]*state="(?:cached|retained)"[^}]*} (\S+)$', text, re.M)
        return round(sum(map(float, found)))

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def bench(options, server, model, workload):
    """Sends a workload. Returns the JSON object of `incipit bench`. If `incipit bench` has the flag --records, the key
    `records` has one (prompt tokens, cached tokens, TTFT in ms) for each request."""
    requests, concurrency, length_scale = SHARES_LOAD if options.cache_shares else LOADS[model]
    records = pathlib.Path(server.folder.name, "records.jsonl")
    command = [options.program, "bench", "--address", f"127.0.0.1:{server.ports['grpc']}", "--workload", workload,
               "--requests", options.requests or requests, "--seed", options.seed, "--json"]
    if not options.is_open_loop:
        command += ["--concurrency", options.concurrency or concurrency]
    if length_scale != 1 and "--length-scale" not in options.bench_flags:
        command += ["--length-scale", length_scale]
    if options.has_records:
        command += ["--records", records]
    done = subprocess.run([str(part) for part in [*command, *options.bench_flags]], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=RUN_SECONDS_MAX)
    if not done.stdout.strip():
        sys.exit(f"incipit bench --workload {workload}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    result = json.loads(done.stdout)
    if records.exists():
        rows = [json.loads(line) for line in records.read_text().splitlines()]
        result["records"] = [(row["prompt_tokens"], row["cached_tokens"], row["ttft_ms"]) for row in rows if row["ttft_ms"]]
        result["tokens_max"] = max((row["prompt_tokens"] + row["output_tokens"] for row in rows), default=0)
    return result


def model_folder(options, model):
    """Returns the folder of a model. Writes the model of random weights if it is missing."""
    if model == TINY:
        return ROOT / "models" / TINY
    folder = options.random_model or options.output / "models" / model
    if not (folder / "config.json").exists():
        say(f"writing {model}")
        make_checkpoint.write_checkpoint(folder, model)
    return folder


def measure(options):
    """Yields the figures of each run."""
    for model in options.models:
        folder = model_folder(options, model)
        for number in range(options.rounds):
            for workload in options.workloads:
                for cache in ("on", "off") if number % 2 == 0 else ("off", "on"):
                    with Server(options, folder, "--prefix-cache", cache) as server:
                        found = bench(options, server, model, workload)
                    say(f"{model}, round {number + 1}, {workload}, cache {cache}: hit ratio {found['hit_ratio']:.3f}, "
                        f"TTFT p50 {found['ttft_ms']['p50']:.1f} ms, {found['errors']} errors")
                    yield {"model": model, "round": number + 1, "cache": cache, **found}


def measure_shares(options):
    """Yields the figures of each run with a small cache, or the reason why there was none."""
    model, workload = options.models[0], options.workloads[0]
    folder = model_folder(options, model)
    with Server(options, folder) as server:
        found = bench(options, server, model, workload)
        blocks = server.cached_blocks()
    if found["evictions"]:
        sys.exit(f"the cache for the working set evicted {found['evictions']} blocks; pass --serve-flags '--kv-memory SIZE'")
    say(f"{model}, {workload}: the working set has {blocks} blocks; hit ratio {found['hit_ratio']:.3f}")
    yield {"model": model, "workload": workload, "share": 100, "policy": workloads_report.REFERENCE, "round": 1, "blocks": blocks, **found}
    for number in range(options.rounds):
        for share in options.cache_shares:
            for policy in options.policies if number % 2 == 0 else options.policies[::-1]:
                run = {"model": model, "workload": workload, "share": share, "policy": policy, "round": number + 1,
                       "blocks": max(1, round(blocks * share / 100))}
                run |= run_share(options, folder, run, -(-found.get("tokens_max", 0) // BLOCK_TOKENS))
                say(f"{share} % ({run['blocks']} blocks), {policy}: " +
                    (run.get("skipped") or f"hit ratio {run['hit_ratio']:.3f}, TTFT p50 {run['ttft_ms']['p50']:.1f} ms"))
                yield run


def run_share(options, folder, run, blocks_min):
    """Returns the figures of a run with a cache of `run["blocks"]` blocks. `blocks_min` is the number of blocks of the
    longest request."""
    if run["blocks"] < blocks_min:
        return {"skipped": f"the longest request needs {blocks_min} blocks"}
    try:
        with Server(options, folder, "--kv-blocks", run["blocks"], "--prefix-cache-policy", run["policy"]) as server:
            found = bench(options, server, run["model"], run["workload"])
    except StartError as error:
        return {"skipped": f"the server did not start: {error}"}
    return {"skipped": f"{found['errors']} requests failed"} if found["errors"] else found


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path, nargs="?", default=ROOT / "build/release/incipit")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/workloads", help="folder for tables and plots")
    parser.add_argument("--models", nargs="+", choices=LOADS, help="default: both; with --cache-shares, incipit-tiny")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, help="default: all; with --cache-shares, agent")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each measurement; the table has the medians")
    parser.add_argument("--requests", type=int, help="number of requests in a run; default: by model")
    parser.add_argument("--concurrency", type=int, help="number of users with one request at a time each; default: by model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random-model", type=pathlib.Path, help="folder of the checkpoint qwen2-0.5b; written if missing")
    parser.add_argument("--serve-flags", type=shlex.split, default=[], help="more flags for incipit serve")
    parser.add_argument("--bench-flags", type=shlex.split, default=[], help="more flags for incipit bench")
    parser.add_argument("--cache-shares", nargs="*", type=float, metavar="PERCENT",
                        help="measure caches of these shares of the working set; default: 1 2 5 10 20")
    parser.add_argument("--policies", nargs="+", default=["adaptive", "lru"], help="eviction policies for --cache-shares")
    options = parser.parse_args()
    if not options.program.exists():
        parser.error(f"{options.program} does not exist; build it or pass another path")
    options.program = options.program.resolve()
    if options.cache_shares == []:
        options.cache_shares = CACHE_SHARES
    options.models = options.models or ([TINY] if options.cache_shares else list(LOADS))
    options.workloads = options.workloads or (["agent"] if options.cache_shares else WORKLOADS)
    options.is_open_loop = "--rate" in options.bench_flags
    help_text = subprocess.run([str(options.program), "bench", "--help"], stdout=subprocess.PIPE, text=True).stdout
    options.has_records = "--records" in help_text
    if not options.has_records:
        say("incipit bench has no flag --records, so there is no plot of the TTFT by the cached share")
    return options


def main():
    options = parse_arguments()
    options.output.mkdir(parents=True, exist_ok=True)
    name = "cache_shares" if options.cache_shares else "results"
    runs = []
    try:
        for run in measure_shares(options) if options.cache_shares else measure(options):
            runs.append(run)
            (options.output / f"{name}.json").write_text(json.dumps(runs) + "\n")
    except StartError as error:
        sys.exit(f"the server did not start: {error}")
    machine = f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores"
    files = (workloads_report.share_files if options.cache_shares else workloads_report.files)(runs, machine)
    for file, text in files.items():
        (options.output / file).write_text(text)
    print(next(iter(files.values())), end="")
    print(f"\nwritten to {options.output}: {', '.join(files)}", file=sys.stderr)


if __name__ == "__main__":
    main()
