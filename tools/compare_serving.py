#!/usr/bin/env python3
"""Compares the Incipit server with llama.cpp's server and OpenVINO GenAI under load, on the same weights and cores.

    tools/compare_serving.py --prepare     # installs the peers under build/compare_cpu and writes the weights
    tools/compare_serving.py [--rounds 5] [--loads chatbot multi-turn long-and-short] [--json FILE]
    tools/compare_serving.py --before PATH # also measures an older program `incipit`

The loads have random token ids, the same for all engines (tools/serving_loads.py):
- chatbot: prompts that begin with the same 512 tokens, then 16 to 64 other tokens; 48 output tokens
- multi-turn: conversations after the same 512 tokens, which grow by 72 tokens a turn; 32 output tokens
- long-and-short: prompts of 16 to 64 tokens with 48 output tokens; one of 8 prompts has 3,000 tokens and 8 output tokens

`--concurrency` requests are in progress at the same time. Each run starts a new process, so every cache is empty at
first. llama-server has one slot for each request in progress, and its prompt cache is on. OpenVINO GenAI runs its
continuous batching in the process of its client, with its prefix cache on. Every engine has one thread for each core.

Each round begins with another engine. The table has medians of the rounds. A ratio is computed within a round, and the
table has the median of the ratios. Before each run the cores must be idle; the table has the number of runs before
which they did not become idle. A peer that is not installed or that fails is skipped, and the table names the reason.
"""
import argparse
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import compare_cpu  # noqa: E402
import serving_loads  # noqa: E402
import serving_table  # noqa: E402
from compare_cpu import ROOT, cpu_name, run, say  # noqa: E402
from serving_engines import SHAPE, Incipit, find_engines, missing_module  # noqa: E402

CLIENT_PACKAGES = ["grpcio==1.85.1", "grpcio-tools==1.85.1"]


class Peers(compare_cpu.Peers):
    """The peers of compare_cpu.py, and in addition llama-server and the packages of the gRPC client."""

    def install(self):
        super().install()
        installed = run([self.python, "-m", "pip", "freeze"])
        if not all(package in installed for package in CLIENT_PACKAGES):
            say(f"installing {', '.join(CLIENT_PACKAGES)}")
            run([self.python, "-m", "pip", "install", "--quiet", *CLIENT_PACKAGES])
        if not (self.build / "bin/llama-server").exists():
            say("building llama-server for this machine")
            options = ["LLAMA_BUILD_SERVER=ON", "LLAMA_BUILD_UI=OFF", "LLAMA_USE_PREBUILT_UI=OFF"]
            run(["cmake", "-S", self.source, "-B", self.build, *(f"-D{option}" for option in options)])
            run(["cmake", "--build", self.build, "--target", "llama-server", "--", f"-j{os.cpu_count()}"])


def measure(options, engines, runs, skipped):
    """Appends the figures of each run to `runs`. Yields after each round. If a peer fails, removes the peer from
    `engines`, the runs of this load from `runs`, and adds the error to `skipped`."""
    for load in options.loads:
        for number in range(options.rounds):
            begin = number % len(engines)
            for engine in engines[begin:] + engines[:begin]:
                quiet = compare_cpu.wait_for_quiet(options)
                try:
                    found = engine.measure(load)
                except SystemExit as error:
                    if isinstance(engine, Incipit):
                        raise
                    say(f"{load}, round {number + 1}, {engine.name} failed: {error}")
                    skipped[engine.name] = f"the load {load} failed: {str(error).strip().splitlines()[-1]}"
                    engines.remove(engine)
                    runs[:] = [run for run in runs if (run["load"], run["engine"]) != (load, engine.name)]
                    continue
                say(f"{load}, round {number + 1}, {engine.name}: {found['output_tokens_per_s']:.1f} tokens/s, "
                    f"TTFT p50 {found['ttft_ms']['p50']:.0f} ms, p99 {found['ttft_ms']['p99']:.0f} ms")
                runs.append({"load": load, "round": number + 1, "engine": engine.name, "disturbed": not quiet, **found})
            yield


def make_stubs(options):
    """Generates the gRPC stubs of incipit.v1 for the client."""
    options.stubs.mkdir(parents=True, exist_ok=True)
    run([options.python, "-m", "grpc_tools.protoc", "-I", ROOT / "proto", f"--python_out={options.stubs}",
         f"--grpc_python_out={options.stubs}", "incipit/v1/inference.proto"])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/incipit")
    parser.add_argument("--before", type=pathlib.Path, help="older program incipit, measured in the same rounds")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/compare_cpu",
                        help="folder for the peers and the weights")
    parser.add_argument("--loads", nargs="+", choices=serving_loads.LOADS, default=list(serving_loads.LOADS))
    parser.add_argument("--type", choices=compare_cpu.TYPES, default="bf16", help="type of the weights")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=48, help="number of requests in a run")
    parser.add_argument("--concurrency", type=int, default=8, help="number of requests in progress")
    parser.add_argument("--seed", type=int, default=1, help="seed of the token ids")
    parser.add_argument("--vocabulary", type=int, default=serving_loads.VOCABULARY, help="end of the range of the token ids")
    parser.add_argument("--cpus", help="cores to use, such as 0,1; default: the first two of this process")
    parser.add_argument("--quiet-wait", type=float, default=60, help="maximum seconds to wait for idle cores")
    parser.add_argument("--json", type=pathlib.Path, help="file for the figures of all rounds")
    parser.add_argument("--prepare", action="store_true", help="install the peers and write the weights, but do not measure")
    parser.add_argument("--model", type=pathlib.Path, help="model folder for Incipit; default: the checkpoint under --folder")
    parser.add_argument("--gguf", type=pathlib.Path, help="GGUF file for the peers; default: the files under --folder")
    parser.add_argument("--llama-server", type=pathlib.Path, help="program llama-server; default: the program under --folder")
    parser.add_argument("--python", type=pathlib.Path,
                        help="Python with grpcio, grpcio-tools and openvino-genai; default: the environment under --folder")
    options = parser.parse_args()
    options.cpus = options.cpus.split(",") if options.cpus else [str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:2]]
    options.threads = len(options.cpus)
    options.pin = ["taskset", "--cpu-list", ",".join(options.cpus)]
    if min(options.rounds, options.requests, options.concurrency) < 1:
        parser.error("--rounds, --requests and --concurrency must be at least 1")
    return parser, options


def check_paths(parser, options):
    """Fills in the default paths. Ends the program if Incipit cannot be measured."""
    peers = Peers(options.folder.resolve())
    options.models = peers.folder / "models"
    options.model = options.model or options.models / SHAPE
    options.llama_server = options.llama_server or peers.build / "bin/llama-server"
    options.python = options.python or peers.python
    options.folder = peers.folder / "serving"
    options.stubs = options.folder / "stubs"
    if options.prepare:
        return peers
    for path in [options.program, options.model, *([options.before] if options.before else [])]:
        if not path.exists():
            parser.error(f"{path} does not exist; build the program, run with --prepare, or pass another path")
    reason = missing_module(options.python, "grpc_tools")
    if reason:
        parser.error(f"the client needs grpcio-tools ({reason}); run with --prepare, or pass --python")
    return peers


def main():
    parser, options = parse_arguments()
    peers = check_paths(parser, options)
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.prepare:
        peers.install()
        compare_cpu.write_models(peers, SHAPE)
        return
    make_stubs(options)
    engines, skipped = find_engines(options)
    for peer, reason in skipped.items():
        say(f"skipped {peer}: {reason}")
    result = {"cpu": cpu_name(), "threads": options.threads, "type": options.type, "rounds": options.rounds,
              "requests": options.requests, "concurrency": options.concurrency, "seed": options.seed,
              "skipped": skipped, "runs": []}
    for _ in measure(options, engines, result["runs"], skipped):
        if options.json:
            options.json.write_text(json.dumps(result, indent=1) + "\n")
    print(serving_table.table(result))


if __name__ == "__main__":
    main()
