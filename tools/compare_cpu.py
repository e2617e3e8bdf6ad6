#!/usr/bin/env python3
"""Compares the CPU backend with llama.cpp and OpenVINO GenAI on the same weights and the same cores.

    tools/compare_cpu.py [--program build/release/incipit] [--shapes qwen2-0.5b llama-125m] [--rounds 5]

The first run installs both peers from PyPI under build/compare_cpu. llama.cpp is built for this machine from the
source in llama-cpp-python. The program writes random weights as a checkpoint and as GGUF files, and measures the
three engines in turn.

Measurements: prefill of 512 tokens; decoding with 1, 8 and 32 sequences after prompts of 128 tokens; each with 16-bit
weights and with 8-bit weights (Q8_0; --weights int8 for Incipit). For 16-bit weights, OpenVINO reads f16, which holds
the same values. llama.cpp reads bf16 and f16; each line of the table uses the faster of the two.

Each round begins with another engine. The table has medians of the rounds. Before each measurement the cores must be
idle. If the cores do not become idle, the measurement counts as disturbed, and the table has the number of disturbed
measurements.

Needs a C++ compiler, CMake and about 8 GB of disk space. Takes about half an hour on two cores. Not part of CI.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import make_checkpoint  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
LLAMA_CPP = "llama-cpp-python==0.3.36"
PACKAGES = ["openvino-genai==2026.4.1.0", "numpy"]
SEQUENCES = (1, 8, 32)
DECODE_PROMPT = 128
# For each type: types of the peers' files, flags of Incipit, and goals (Incipit's speed / the faster peer's speed).
TYPES = {
    "bf16": dict(llama=["bf16", "f16"], openvino=["f16"], flags=[],
                 goals={"prefill": 1.05, "decode 1": 1.0, "decode 8": 1.15, "decode 32": 1.05}),
    "int8": dict(llama=["q8_0"], openvino=["q8_0"], flags=["--weights", "int8"],
                 goals={"prefill": 1.5, "decode 1": 1.05, "decode 8": 1.8, "decode 32": 1.8}),
}
MEASUREMENTS = ["prefill", *(f"decode {n}" for n in SEQUENCES)]
BUSY_MAX = 0.05  # maximum share of the cores that other programs may use


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def run(command, **options):
    """Returns standard output. If the command fails, prints its output and exits."""
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {result.returncode}\n{result.stderr[-4000:]}{result.stdout[-2000:]}")
    return result.stdout


def cpu_name():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")


class Peers:
    """The folders of the peers. install() skips what is already installed."""

    def __init__(self, folder):
        self.folder = folder
        self.python = folder / "venv/bin/python"
        self.source = folder / "llama_cpp"
        self.build = folder / "llama_cpp_build"

    def install(self):
        if not self.python.exists():
            run([sys.executable, "-m", "venv", self.folder / "venv"])
        installed = run([self.python, "-m", "pip", "freeze"])
        if not all(package in installed for package in PACKAGES):
            say(f"installing {', '.join(PACKAGES)}")
            run([self.python, "-m", "pip", "install", "--quiet", *PACKAGES])
        if not self.source.exists():
            self.download()
        if not (self.build / "bin/llama-batched-bench").exists():
            self.compile()

    def download(self):
        say(f"downloading {LLAMA_CPP}")
        unpacked = self.folder / "sdist"
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir()
        run([self.python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", LLAMA_CPP, "-d", unpacked])
        run(["tar", "xzf", *unpacked.glob("*.tar.gz"), "-C", unpacked])
        shutil.move(next(unpacked.glob("*/vendor/llama.cpp")), self.source)
        shutil.rmtree(unpacked)

    def compile(self):
        say("building llama.cpp for this machine")
        options = ["CMAKE_BUILD_TYPE=Release", "GGML_NATIVE=ON", "BUILD_SHARED_LIBS=OFF", "LLAMA_BUILD_COMMON=ON", "LLAMA_BUILD_TOOLS=ON",
                   "LLAMA_BUILD_TESTS=OFF", "LLAMA_BUILD_EXAMPLES=OFF", "LLAMA_BUILD_SERVER=OFF", "LLAMA_CURL=OFF"]
        run(["cmake", "-S", self.source, "-B", self.build, *(f"-D{option}" for option in options)])
        run(["cmake", "--build", self.build, "--target", "llama-bench", "llama-batched-bench", "--", f"-j{os.cpu_count()}"])


def write_models(peers, shape):
    """Writes the checkpoint and the GGUF files beside it. Returns the checkpoint's folder."""
    folder = peers.folder / "models" / shape
    if not (folder / "config.json").exists():
        say(f"writing {shape}")
        make_checkpoint.write_checkpoint(folder, shape)
    for dtype in sorted({dtype for kind in TYPES.values() for dtype in kind["llama"] + kind["openvino"]}):
        path = gguf_path(folder, dtype)
        if not path.exists():
            say(f"writing {path.name}")
            part = path.with_suffix(".part")
            run([peers.python, ROOT / "tools/write_gguf.py", folder, part, "--dtype", dtype, "--check"])
            part.rename(path)
    return folder


def gguf_path(folder, dtype):
    return folder.with_name(f"{folder.name}-{dtype}.gguf")


class Incipit:
    name = "incipit"

    def __init__(self, options, folder, kind, _):
        self.command = [*options.pin, options.program, "bench-model", "--model", folder, "--prompt", options.prompt,
                        "--decode-prompt", DECODE_PROMPT, "--generate", options.generate, "--repeat", 1, "--threads", options.threads,
                        "--sequences", ",".join(map(str, SEQUENCES)), "--json", *TYPES[kind]["flags"]]
        self.limits, self.machine = {}, {}

    def measure(self):
        found = json.loads(run(self.command))
        rows = {"prefill": found["prefill"][0]} | {f"decode {row['sequences']}": row for row in found["decode"]}
        for name, row in rows.items():
            limit = row["tokens_per_s"] / row["fraction_of_limit"]
            # Other programs can only lower the measured rates
            self.limits[name] = max(limit, self.limits.get(name, 0))
        for key, value in found["machine"].items():
            self.machine[key] = max(value, self.machine.get(key, value)) if isinstance(value, float) else value
        return {name: row["tokens_per_s"] for name, row in rows.items()}

    def close(self):
        pass


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self, options, folder, _, dtype):
        path, threads = gguf_path(folder, dtype), options.threads
        bin_folder = options.peers.build / "bin"
        # The context has a number of cells for each sequence, a multiple of 256.
        context = max(SEQUENCES) * (-(-(DECODE_PROMPT + options.generate + 1) // 256) * 256)
        self.prefill = [*options.pin, bin_folder / "llama-bench", "-m", path, "-t", threads, "-p", options.prompt, "-n", 0, "-r", 1,
                        "-o", "json"]
        self.decode = [*options.pin, bin_folder / "llama-batched-bench", "-m", path, "-t", threads, "-tb", threads, "-c", context,
                       "-npp", DECODE_PROMPT, "-ntg", options.generate, "-npl", ",".join(map(str, SEQUENCES)), "-pps",
                       "--output-format", "jsonl"]

    def measure(self):
        speeds = {"prefill": json.loads(run(self.prefill))[0]["avg_ts"]}
        lines = [json.loads(line) for line in run(self.decode).splitlines() if line.startswith("{")]
        return speeds | {f"decode {line['pl']}": line["speed_tg"] for line in lines}

    def close(self):
        pass


class OpenVino:
    name = "OpenVINO GenAI"

    def __init__(self, options, folder, _, dtype):
        path = gguf_path(folder, dtype)
        command = [*options.pin, options.peers.python, ROOT / "tools/openvino_speed.py", path, "--threads", options.threads]
        self.log = open(options.folder / "openvino.log", "w")
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        text=True)
        self.prompt, self.generate = options.prompt, options.generate
        self.reply()
        for sequences in SEQUENCES:  # fills the prefix cache with the prompts
            self.ask(decode=sequences, prompt=DECODE_PROMPT, steps=1)

    def reply(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"openvino_speed.py ended; see {self.log.name}")
        return json.loads(line)

    def ask(self, **request):
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return self.reply()["tokens_per_s"]

    def measure(self):
        speeds = {"prefill": self.ask(prefill=self.prompt)}
        return speeds | {f"decode {n}": self.ask(decode=n, prompt=DECODE_PROMPT, steps=self.generate) for n in SEQUENCES}

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


def busy_share(cpus, seconds=0.5):
    """Returns the share of `cpus` that was in use during `seconds`."""

    def times():
        lines = pathlib.Path("/proc/stat").read_text().splitlines()
        rows = [line.split() for line in lines if line.startswith("cpu")]
        fields = [list(map(int, row[1:9])) for row in rows if row[0][3:] in cpus]
        return sum(map(sum, fields)), sum(row[3] + row[4] for row in fields)

    total, idle = times()
    time.sleep(seconds)
    total_after, idle_after = times()
    return 1 - (idle_after - idle) / max(total_after - total, 1)


def wait_for_quiet(options):
    """Waits until other programs leave the cores idle. Returns false if that takes too long."""
    deadline = time.monotonic() + options.quiet_wait
    while busy_share(options.cpus) > BUSY_MAX:
        if time.monotonic() > deadline:
            return False
    return True


def open_engines(options, shape, kind, stack):
    """Returns (name, engine) for each measured engine, Incipit first."""
    engines = []
    for engine_type, dtypes in ((Incipit, [""]), (LlamaCpp, TYPES[kind]["llama"]), (OpenVino, TYPES[kind]["openvino"])):
        for dtype in dtypes:
            engine = engine_type(options, options.models[shape], kind, dtype)
            stack.callback(engine.close)
            engines.append((f"{engine_type.name} {dtype}".strip(), engine))
    return engines


def compare(options, shape, kind):
    """Returns the speeds of every round by engine and measurement, and Incipit's limits and machine rates."""
    with contextlib.ExitStack() as stack:
        engines = open_engines(options, shape, kind, stack)
        speeds = {engine: {name: [] for name in MEASUREMENTS} for engine, _ in engines}
        disturbed = 0
        for number in range(options.rounds):
            begin = number % len(engines)
            for engine_name, engine in engines[begin:] + engines[:begin]:
                disturbed += not wait_for_quiet(options)
                found = engine.measure()
                say(f"{shape} {kind}, round {number + 1}, {engine_name}: " +
                    ", ".join(f"{name} {found[name]:.1f}" for name in MEASUREMENTS))
                for name in MEASUREMENTS:
                    speeds[engine_name][name].append(found[name])
        ours = engines[0][1]
        return dict(shape=shape, type=kind, speeds=speeds, limits=ours.limits, machine=ours.machine, disturbed=disturbed)


def fastest(result, engine, name):
    """Returns the median of a measurement; if an engine has several files, the median of the fastest."""
    return max(statistics.median(found[name]) for key, found in result["speeds"].items() if key.startswith(engine))


def table(results, options):
    machine = results[0]["machine"]
    rates = [f"{label} {machine[key]:.0f} {unit}" for key, label, unit in
             (("f32_gflops", "f32", "GFLOP/s"), ("bf16_gflops", "bf16 dot", "GFLOP/s"), ("int8_gops", "int8 dot", "Gop/s"),
              ("read_gbytes_per_s", "read", "GB/s")) if machine.get(key)]
    lines = [f"{machine['cpu']}, {options.threads} cores, {machine['isa']}: {', '.join(rates)}. Tokens per second, medians of "
             f"{options.rounds} rounds; {', '.join([LLAMA_CPP, *PACKAGES[:1]])}.", ""]
    disturbed = sum(result["disturbed"] for result in results)
    if disturbed:
        lines += [f"{disturbed} measurements were disturbed by other programs on the same cores.", ""]
    lines += ["| | limit | llama.cpp | OpenVINO GenAI | incipit | Incipit / faster peer | goal | share of the limit |", "|---|" + "---:|" * 7]
    for result in results:
        for name in MEASUREMENTS:
            ours, llama, openvino = (fastest(result, engine.name, name) for engine in (Incipit, LlamaCpp, OpenVino))
            ratio = ours / max(llama, openvino)
            goal = TYPES[result["type"]]["goals"][name]
            what = f"prefill {options.prompt}" if name == "prefill" else name
            lines.append(f"| {result['shape']}, {result['type']} {what} | {result['limits'][name]:.0f} | {llama:.1f} | "
                         f"{openvino:.1f} | {ours:.1f} | {ratio:.2f} | >= {goal:.2f} | "
                         f"{100 * ours / result['limits'][name]:.0f} % |")
    return "\n".join(lines)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/incipit")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/compare_cpu", help="folder for the peers and the weights")
    parser.add_argument("--shapes", nargs="+", choices=make_checkpoint.SHAPES, default=["qwen2-0.5b", "llama-125m"])
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=512, help="number of prompt tokens in the prefill measurement")
    parser.add_argument("--generate", type=int, default=64, help="number of decode steps")
    parser.add_argument("--cpus", help="cores to use, such as 0,1; default: the first two of this process")
    parser.add_argument("--quiet-wait", type=float, default=60, help="maximum seconds to wait for idle cores")
    parser.add_argument("--json", type=pathlib.Path, help="file for all single measurements")
    parser.add_argument("--prepare", action="store_true", help="install the peers and write the weights, but do not measure")
    options = parser.parse_args()
    options.cpus = options.cpus.split(",") if options.cpus else [str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:2]]
    options.threads = len(options.cpus)
    options.pin = ["taskset", "--cpu-list", ",".join(options.cpus)]
    if not options.program.exists() and not options.prepare:
        parser.error(f"{options.program} does not exist; build it or pass --program")
    return options


def main():
    options = parse_arguments()
    options.folder = options.folder.resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    options.peers = Peers(options.folder)
    options.peers.install()
    options.models = {shape: write_models(options.peers, shape) for shape in options.shapes}
    if options.prepare:
        return
    results = []
    for shape in options.shapes:
        for kind in options.types:
            results.append(compare(options, shape, kind))
            if options.json:
                options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results, options))


if __name__ == "__main__":
    main()
