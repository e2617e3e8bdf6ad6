#!/usr/bin/env python3
"""Measures the run time that the prefix cache adds if no lookup hits, by pairs of runs with the cache on and off.

Serves a model of 125M parameters with random bf16 weights, which this program writes, and sends prompts that share no
tokens. Prints the ratio of the run times with and without the cache, with a 95 % confidence interval. Also prints the
share of planning and committing in the time of all steps, which contains all work of the cache manager in a step.

    bench/cache_overhead.py build/release/incipit [--pairs 20]
"""
import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from make_checkpoint import write_checkpoint  # noqa: E402

# Quantiles of Student's t distribution for a two-sided 95 % confidence interval, by the number of pairs.
T_95 = {2: 12.706, 5: 2.776, 10: 2.262, 20: 2.093, 40: 2.023}


def seconds(metrics, name):
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", metrics, re.M))


def run(program, model, cache, seed, load):
    """Runs one server and one load. Returns the duration of the load, and the share of plan and commit in the time of
    all steps."""
    with tempfile.TemporaryDirectory() as folder:
        ports = pathlib.Path(folder, "ports")
        server = subprocess.Popen(
            [program, "serve", "--model", model, "--address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0",
             "--port-file", ports, "--log-level", "error", "--prefix-cache", cache, "--step-tokens", "256",
             "--kv-blocks", "4096"], stdout=subprocess.DEVNULL)
        try:
            while not (ports.exists() and ports.read_text().strip()):
                if server.poll() is not None:
                    raise SystemExit("the server did not start")
                time.sleep(0.02)
            port = json.loads(ports.read_text())
            result = json.loads(subprocess.run(
                [program, "bench", "--address", f"127.0.0.1:{port['grpc']}", "--seed", str(seed), "--json", *load],
                check=True, capture_output=True).stdout)
            metrics = urllib.request.urlopen(f"http://127.0.0.1:{port['metrics']}/metrics").read().decode()
        finally:
            server.terminate()
            server.wait()
    if result["errors"] or result["cached_tokens"]:
        raise SystemExit(f"the load had errors or cache hits: {result}")
    parts = {part: seconds(metrics, rf'incipit_step_part_seconds_total{{part="{part}"}}')
             for part in ("plan", "run", "commit")}
    return result["duration_s"], (parts["plan"] + parts["commit"]) / sum(parts.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--pairs", type=int, default=20, choices=T_95)
    parser.add_argument("--load", default="--requests 6 --concurrency 3 --prompt-tokens 192 --output-tokens 24")
    arguments = parser.parse_args()
    ratios, shares = [], {"on": [], "off": []}
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(folder, "llama-125m")
        for pair in range(arguments.pairs):
            times = {}
            for cache in ("on", "off") if pair % 2 == 0 else ("off", "on"):
                times[cache], share = run(arguments.program, folder, cache, pair, arguments.load.split())
                shares[cache].append(share)
            ratios.append(math.log(times["on"] / times["off"]))
            print(f"pair {pair + 1}: on {times['on']:.3f} s, off {times['off']:.3f} s", flush=True)
    mean = statistics.mean(ratios)
    half = T_95[len(ratios)] * statistics.stdev(ratios) / math.sqrt(len(ratios))
    print(f"time with the cache / time without the cache: {math.exp(mean):.4f}, 95 % interval "
          f"{math.exp(mean - half):.4f} to {math.exp(mean + half):.4f}, {len(ratios)} pairs")
    for cache, values in shares.items():
        print(f"share of plan and commit in the time of all steps, cache {cache}: "
              f"median {100 * statistics.median(values):.4f} %, maximum {100 * max(values):.4f} %")


if __name__ == "__main__":
    main()
