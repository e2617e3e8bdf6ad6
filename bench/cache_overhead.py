#!/usr/bin/env python3
"""Measures the cost of a cache that never hits, by pairs of runs with the cache and without the cache.

    bench/cache_overhead.py build/release/incipit [--cache prefix | disk] [--model DIR] [--pairs 20]

prefix: compares the server with the server with `--prefix-cache off`. disk: compares the server with `--disk-cache` and
`--tier-store all` with the server without a disk cache. Each run starts a new server and sends prompts that share no
tokens. Without --model, the program writes a model with random bf16 weights.

Prints these figures:
- the ratio of the run times with and without the cache, with a 95 % confidence interval
- prefix: the share of planning and committing in the time of all steps, which contains all work of the prefix cache
- disk: the CPU time of the disk cache (its threads, and the copies on the engine thread) by the CPU time of all other
  work of the server; and ratios of the 99th percentile of the inter-token latency (ITL), with the cache by without,
  and between two runs without the cache. Each pair then has a third run, without the cache.
"""
import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from make_checkpoint import write_checkpoint  # noqa: E402

# Quantiles of Student's t distribution for a two-sided 95 % confidence interval, by the number of pairs.
T_95 = {2: 12.706, 5: 2.776, 10: 2.262, 20: 2.093, 40: 2.023}
FLAGS = {"prefix": {"on": [], "off": ["--prefix-cache", "off"]},
         "disk": {"on": ["--tier-store", "all", "--disk-cache-size", "16GiB", "--disk-cache"], "off": [], "off again": []}}
SHAPES = {"prefix": "llama-125m", "disk": "qwen2-0.5b"}
LOADS = {"prefix": "--requests 6 --concurrency 3 --prompt-tokens 192 --output-tokens 24",
         "disk": "--requests 8 --concurrency 4 --prompt-tokens 512 --output-tokens 32"}
TIER_THREADS = ("tier-", "iou-wrk")  # names of the threads of the disk cache, and of the kernel for io_uring


class Run(NamedTuple):
    seconds: float
    step_seconds: dict[str, float]  # by part of a step
    itl_p99_ms: float
    tier_cpu: float  # CPU seconds of the threads of the disk cache
    cpu: float  # CPU seconds of all threads
    stored_chunks: int


def seconds(metrics, name):
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", metrics, re.M))


def cpu_seconds(pid, names=("",)):
    """Returns the CPU time of the threads of the process `pid` whose names begin with one of `names`."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        name, _, fields = (task / "stat").read_text().partition("(")[2].rpartition(")")
        if name.startswith(tuple(names)):
            total += sum(int(field) for field in fields.split()[11:13])
    return total / os.sysconf("SC_CLK_TCK")


def run(program, model, flags, seed, load):
    """Runs one server and one load."""
    with tempfile.TemporaryDirectory() as folder:
        ports = pathlib.Path(folder, "ports")
        if flags and flags[-1] == "--disk-cache":
            flags = [*flags, str(pathlib.Path(folder, "cache"))]
        server = subprocess.Popen(
            [program, "serve", "--model", model, "--address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0",
             "--port-file", ports, "--log-level", "error", "--step-tokens", "256", "--kv-blocks", "4096", *flags],
            stdout=subprocess.DEVNULL)
        try:
            while not (ports.exists() and ports.read_text().strip()):
                if server.poll() is not None:
                    raise SystemExit("the server did not start")
                time.sleep(0.02)
            port = json.loads(ports.read_text())
            before = cpu_seconds(server.pid)
            result = json.loads(subprocess.run(
                [program, "bench", "--address", f"127.0.0.1:{port['grpc']}", "--seed", str(seed), "--json", *load],
                check=True, capture_output=True).stdout)
            metrics = urllib.request.urlopen(f"http://127.0.0.1:{port['metrics']}/metrics").read().decode()
            tier_cpu, cpu = cpu_seconds(server.pid, TIER_THREADS), cpu_seconds(server.pid) - before
        finally:
            server.terminate()
            server.wait()
    if result["errors"] or result["cached_tokens"]:
        raise SystemExit(f"the load had errors or cache hits: {result}")
    parts = {part: seconds(metrics, rf'incipit_step_part_seconds_total{{part="{part}"}}')
             for part in ("plan", "run", "commit", "store")}
    return Run(result["duration_s"], parts, result["itl_ms"]["p99"], tier_cpu, cpu,
               int(seconds(metrics, "incipit_disk_cache_stored_chunks_total")))


def interval(ratios):
    """Returns the geometric mean of `ratios` and its 95 % confidence interval, as text."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.mean(logs)
    half = T_95[len(logs)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return (f"{math.exp(mean):.4f}, 95 % interval {math.exp(mean - half):.4f} to {math.exp(mean + half):.4f}, "
            f"{len(logs)} pairs")


def ratios_of(runs, value, one, other):
    return [value(pair[one]) / value(pair[other]) for pair in runs]


def report_prefix(runs):
    for name in ("on", "off"):
        shares = [100 * (1 - pair[name].step_seconds["run"] / sum(pair[name].step_seconds.values())) for pair in runs]
        print(f"share of plan and commit in the time of all steps, cache {name}: "
              f"median {statistics.median(shares):.4f} %, maximum {max(shares):.4f} %")


def report_disk(runs):
    costs = [one.tier_cpu + one.step_seconds["store"] for one in (pair["on"] for pair in runs)]
    shares = [100 * cost / (pair["on"].cpu - cost) for cost, pair in zip(costs, runs)]
    print(f"CPU time of the disk cache by the CPU time of other work: median {statistics.median(shares):.3f} %, "
          f"maximum {max(shares):.3f} %; stored chunks in a run: "
          f"median {statistics.median(pair['on'].stored_chunks for pair in runs)}")
    for one, other in (("on", "off"), ("off again", "off")):
        print(f"ITL p99, {one} / {other}: {interval(ratios_of(runs, lambda found: found.itl_p99_ms, one, other))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--cache", choices=FLAGS, default="prefix")
    parser.add_argument("--model")
    parser.add_argument("--pairs", type=int, default=20, choices=T_95)
    parser.add_argument("--load", help="flags of `incipit bench`")
    options = parser.parse_args()
    names = list(FLAGS[options.cache])
    load = (options.load or LOADS[options.cache]).split()
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        if not options.model:
            write_checkpoint(folder, SHAPES[options.cache])
        for pair in range(options.pairs):
            begin = pair % len(names)
            runs.append({name: run(options.program, options.model or folder, FLAGS[options.cache][name], pair, load)
                         for name in names[begin:] + names[:begin]})
            print(f"pair {pair + 1}: " + ", ".join(f"{name} {runs[-1][name].seconds:.3f} s" for name in names),
                  flush=True)
    print("time with the cache / time without the cache: "
          + interval(ratios_of(runs, lambda found: found.seconds, "on", "off")))
    (report_prefix if options.cache == "prefix" else report_disk)(runs)


if __name__ == "__main__":
    main()
