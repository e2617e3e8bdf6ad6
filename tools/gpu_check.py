#!/usr/bin/env python3
"""Checks and measures Incipit on this machine's GPU with one command, in less than eight minutes.

    gpu_check [--output FOLDER] [--stories FOLDER] [--only PART,...] [--seconds N] [--smoke]

Runs from an unpacked package (`make package`) and needs only Python's standard library. Writes FOLDER/gpu-check.json
and FOLDER/performance-gpu.md, a page in the format of docs/performance-gpu.md. Parts that cannot run are skipped with
a reason. A part that fails does not stop the other parts; its whole output is in FOLDER/gpu-check.log.

Exit code: 0 if everything that could run passed, 1 if something failed, 77 if there is no GPU to check, 2 if a flag
is wrong.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import threading
import time

import gpu_compare
import gpu_table

NO_DEVICE = 77
# Seconds for everything, including nvidia-smi and the version. The rest of eight minutes is for ending slow programs.
SECONDS = 470
KILL_SECONDS = 5
# A smoke run may be slow, because it also runs on machines that do other work. Limits are multiplied by this factor.
SMOKE_PATIENCE = 12
# Number of golden tokens that `serve` must produce, and number of likeliest tokens requested at the first difference.
SERVED_TOKENS, LIKELIEST = 48, 8


class Skipped(Exception):
    """A part cannot run. The message is the reason."""


class Failed(Exception):
    """A part failed. The message is the reason; `output` is the output of the program until then."""

    def __init__(self, what, output=""):
        super().__init__(what)
        self.output = output


# File to which `run` appends the output of failed commands at once, so that it survives the end of this program.
transcript = None


def keep(command, ending, output, errors):
    if transcript is not None:
        with open(transcript, "a") as file:
            file.write(f"==== {' '.join(map(str, command))}: {ending}\n{output}\n---- errors\n{errors}\n")


def has_ended(process, seconds):
    """Returns true if the process ends within `seconds`. Otherwise kills the process and its children and returns
    false."""
    try:
        process.wait(max(1, seconds))
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # a process that hangs in the driver cannot be killed
                process.wait(KILL_SECONDS)


def run(command, seconds, **options):
    """Returns (exit code, output, errors). A command that takes longer than `seconds` fails."""
    # Uses files, not pipes: a pipe stays open until the last child of the command has closed it.
    with (tempfile.TemporaryFile("w+", errors="replace") as output_file,
          tempfile.TemporaryFile("w+", errors="replace") as errors_file):
        process = subprocess.Popen([str(word) for word in command], stdout=output_file, stderr=errors_file,
                                   start_new_session=True, **options)
        in_time = has_ended(process, seconds)
        output_file.seek(0)
        errors_file.seek(0)
        output, errors = output_file.read(), errors_file.read()
    if not in_time:
        ending = f"took longer than the {seconds:.0f} s that it has"
        keep(command, ending, output, errors)
        raise Failed(ending, output)
    if process.returncode not in (0, NO_DEVICE):
        keep(command, f"ended with {process.returncode}", output, errors)
    return process.returncode, output, errors


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"


def with_libraries():
    """Returns the environment with the folders that may hold cuBLASLt: the CUDA toolkit's and those of Python
    packages."""
    packages = [pathlib.Path(path) / "nvidia" for path in [*sys.path, *site.getsitepackages(), site.getusersitepackages()]]
    folders = [pathlib.Path("/usr/local/cuda/lib64")]
    folders += [package / name / "lib" for package in packages for name in ("cu13", "cublas")]
    found = [str(folder) for folder in dict.fromkeys(folders) if any(folder.glob("libcublasLt.so.*"))]
    paths = [os.environ.get("LD_LIBRARY_PATH", ""), *found]
    return dict(os.environ, LD_LIBRARY_PATH=":".join(path for path in paths if path))


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]


def json_lines_among_others(text):
    """Like json_lines, for the output of a foreign program, which may print other lines too."""
    found = []
    for line in text.splitlines():
        try:
            found += json_lines(line)
        except ValueError:
            pass
    return found


class Check:
    """One run of gpu_check: its folders and its results."""

    def __init__(self, root, arguments):
        self.root = root
        self.smoke = arguments.smoke
        self.stories = arguments.stories
        self.measurements, self.device, self.notes = [], {}, []
        self.missing = ""  # reason why there is no device

    def program(self, name):
        path = self.root / "bin" / name
        if not path.exists():
            raise Skipped(f"bin/{name} is not in this package" +
                          (": it was built without CUDA" if "emulated" not in name else ""))
        return path

    def bench(self, part, seconds, program="incipit-gpu-bench"):
        command = [self.program(program), part, *(["--smoke"] if self.smoke else [])]
        code, output, errors = run(command, seconds, env=with_libraries())
        if code != 0:
            raise Failed(f"ended with {code}: {last_line(errors)}", output)
        return json_lines(output)

    # ---- the parts; each returns a line for the report

    def find_device(self, seconds):
        command = [self.program("incipit-gpu-bench"), "memory", "--smoke"]
        code, output, errors = run(command, seconds)
        if code == NO_DEVICE:
            raise Skipped(last_line(errors))
        self.device = next((line for line in json_lines(output) if "device" in line), {})
        if code != 0 or not self.device:
            raise Failed(f"ended with {code}: {last_line(errors)}")
        return f"{self.device['device']}, {self.device['software']}"

    def measure(self, part, seconds):
        try:
            lines = self.bench(part, seconds)
        except Failed as wrong:
            before = self.add_measurements(part, json_lines(wrong.output))
            raise Failed(f"{wrong}, after {before} measurements") from None
        count = self.add_measurements(part, lines)
        notes = [line["note"] for line in lines if "note" in line]
        if count == 0:
            raise Skipped(notes[0]) if notes else Failed("no measurement")
        self.notes += notes
        return f"{count} measurements"

    def add_measurements(self, part, lines):
        found = [dict(line, part=part) for line in lines if "name" in line]
        self.measurements += found
        return len(found)

    def tests(self, name, seconds, only=None):
        """Runs a GoogleTest program, only its tests on the device."""
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            command = [self.program(name), f"--gtest_output=json:{report}", *([f"--gtest_filter={only}"] if only else [])]
            environment = dict(os.environ, INCIPIT_SOURCE=str(self.root), OMP_WAIT_POLICY="passive")
            if self.stories:
                environment["INCIPIT_STORIES"] = str(self.stories)
            begin = time.monotonic()
            code, output, errors = run(command, seconds, env=environment)
            if not report.exists():
                raise Failed(f"ended with {code}: {last_line(errors or output)}")
            found = json.loads(report.read_text())
        cases = [case for suite in found["testsuites"] for case in suite["testsuite"] if case["status"] == "RUN"]
        bad = [f"{case['classname']}.{case['name']}" for case in cases if case.get("failures")]
        passed = [case for case in cases if case["result"] == "COMPLETED" and not case.get("failures")]
        skipped = [case for case in cases if case["result"] == "SKIPPED"]
        if bad or code != 0:
            left = seconds - (time.monotonic() - begin)
            raise Failed(f"{len(bad)} of {len(cases)} failed: {', '.join(bad[:5]) or f'ended with {code}'}" +
                         self.in_order(name, bad, environment, left))
        if not passed:
            reasons = [text["message"] for case in skipped for text in case.get("skipped", [])]
            raise Skipped(last_line(reasons[0]) if reasons else "no test was run")
        limited = sorted({line.removeprefix("[ LIMITED  ] ") for line in output.splitlines()
                          if line.startswith("[ LIMITED")})
        self.notes += [f"{name}: {line}" for line in limited]
        reasons = sorted({case["name"] for case in skipped})
        self.notes += [f"{name}: {case} skipped" for case in reasons]
        return f"{len(passed)} tests" + (f", {len(skipped)} skipped" if skipped else "")

    def in_order(self, name, bad, environment, seconds):
        """Returns whether the first failed test also fails if no kernel starts before the previous kernel has ended.
        """
        if not bad or seconds < 5:
            return ""
        try:
            code, _, _ = run([self.program(name), f"--gtest_filter={bad[0]}"], seconds,
                             env=dict(environment, INCIPIT_CUDA_IN_ORDER="1"))
        except Failed as wrong:
            return f"; with INCIPIT_CUDA_IN_ORDER=1 the first {wrong}"
        return f"; with INCIPIT_CUDA_IN_ORDER=1 the first {'passes' if code == 0 else 'fails too'}"

    def conformance(self, seconds):
        few = "*EmbedGathers*/Cuda*:*PartsOfDifferent*/Cuda*:*GreedyTakes*/Cuda*"
        return self.tests("conformance_cuda_test", seconds, few if self.smoke else "*/Cuda*")

    def models(self, seconds):
        return self.tests("model_cuda_test", seconds, "*BundledModel*" if self.smoke else None)

    def results(self, seconds):
        begin = time.monotonic()
        device = self.bench("results", seconds)
        left = seconds - (time.monotonic() - begin)
        emulated = self.bench("results", left, "incipit-gpu-bench-emulated")
        report = gpu_compare.compare(device, emulated)
        if report.wrong:
            raise Failed("; ".join(report.wrong[:4]))
        self.notes += [f"emulated and device: {line}" for line in report.near]
        return f"{report.equal} results have equal bits, {len(report.near)} are within their tolerance"

    def yardsticks(self, seconds):
        """Measures foreign libraries. Their errors fail nothing; measurements printed before an error count."""
        script = self.root / "gpu_yardsticks.py"
        python = next((path for path in (sys.executable, shutil.which("python3")) if path), None)
        try:
            code, output, errors = run([python, script, *(["--smoke"] if self.smoke else [])], seconds)
            ending = "" if code == 0 else last_line(errors)
            if code not in (0, NO_DEVICE):
                ending = f"ended with {code}: {ending}"
        except Failed as wrong:
            output, ending = wrong.output, str(wrong)
        lines = json_lines_among_others(output)
        count = self.add_measurements("yardsticks", lines)
        notes = [line["note"] for line in lines if "note" in line]
        self.notes += notes
        versions = [line["version"] for line in lines if "version" in line]
        if count == 0:
            raise Skipped("; ".join([*versions, ending or next(iter(notes), "no measurement")]))
        return "; ".join([*versions, f"{count} measurements" + (f", then {ending}" if ending else "")])

    def serve(self, seconds):
        program = self.program("incipit")
        golden = json.loads((self.root / "tests/golden/incipit-tiny/golden.json").read_text())
        case = max(golden["cases"], key=lambda one: one["least_margin"])
        with tempfile.TemporaryDirectory() as folder:
            ports, log = pathlib.Path(folder) / "ports.json", pathlib.Path(folder) / "log"
            command = [program, "serve", "--backend", "cuda", "--model", self.root / "models/incipit-tiny", "--address",
                       "127.0.0.1:0", "--metrics-address", "127.0.0.1:0", "--port-file", ports, "--kv-blocks", "256"]
            with open(log, "wb") as errors, subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                                             stderr=errors, start_new_session=True) as server:
                alarm = threading.Timer(seconds, server.kill)
                alarm.start()
                try:
                    return self.ask(server, program, ports, log, case, seconds)
                finally:
                    alarm.cancel()
                    server.kill()

    def ask(self, server, program, ports, log, case, seconds):
        begin = time.monotonic()
        if not server.stdout.readline():  # the server prints one line when it is ready
            raise Failed(f"the server did not start: {last_line(log.read_text(errors='replace'))}")
        address = f"127.0.0.1:{json.loads(ports.read_text())['grpc']}"

        def generated(count, *flags):
            # Both calls skip the prefix cache, so the second call reuses no block of the first.
            command = [program, "generate", "--address", address, "--prompt", case["prompt"], "--max-tokens", count,
                       "--temperature", "0", "--ignore-eos", "--skip-cache", "--json", *flags]
            code, output, errors = run(command, seconds - (time.monotonic() - begin))
            if code != 0:
                raise Failed(last_line(errors))
            return json.loads(output)

        return self.compare_with_golden(generated, case)

    @staticmethod
    def compare_with_golden(generated, case):
        golden = case["greedy_ids"][:SERVED_TOKENS]
        found = generated(len(golden))
        ids, text = found["token_ids"], found["text"]
        if len(ids) != len(golden):
            raise Failed(f"{len(ids)} tokens, where {len(golden)} were asked for")
        same = gpu_compare.first_difference(ids, golden)
        said = f"{len(ids)} tokens of the golden text over gRPC"
        if same is not None:
            again = generated(same + 1, "--logprobs", LIKELIEST)
            if again["token_ids"] != ids[:same + 1]:
                raise Failed(f"tokens {again['token_ids']} with log probabilities, {ids[:same + 1]} without")
            gap, wrong = gpu_compare.distance(again["logprobs"][same], golden[same])
            if wrong:
                raise Failed(f"not the golden text: token {same}, {wrong}")
            text = "".join(position["text"] for position in again["logprobs"][:same])
            said = f"golden text up to token {same}, a near tie there (gap {gap:.2f})"
        if not case["text"].startswith(text) or (not text and same != 0):
            raise Failed(f"the golden tokens, and another text: {text[:80]!r}")
        return said


# (name, description, time limit in seconds)
PARTS = [
    # The first process on a GPU may wait for the driver.
    ("device", "the GPU, its driver, free memory", 60),
    ("memory", "memory bandwidth", 25),
    ("conformance", "every operation on the device, compared with the reference", 110),
    ("results", "results of the device, compared with the emulated device", 45),
    ("models", "golden ids; single and batched requests; values that are not finite", 60),
    ("products", "matrix products of the 8B shape", 40),
    ("library", "large matrix products of the 8B shape by cuBLASLt and by our kernel", 40),
    ("attention", "attention of the 8B shape", 40),
    ("model", "steps of a random model of the 8B shape", 110),
    ("serve", "`incipit serve --backend cuda` and `incipit generate`", 30),
    # Foreign libraries are last, so that they take no time from our own parts.
    ("yardsticks", "PyTorch, FlashInfer", 50),
]


def run_part(check, name, seconds):
    runner = check.find_device if name == "device" else getattr(check, name, lambda limit: check.measure(name, limit))
    begin = time.monotonic()
    try:
        if check.missing or seconds < 1:
            raise Skipped(check.missing or "no time was left")
        outcome, said = "passed", runner(seconds)
    except Skipped as missing:
        outcome, said = "skipped", str(missing)
        if name == "device":
            check.missing = said
    except Failed as wrong:
        outcome, said = "failed", str(wrong)
    except (OSError, ValueError, KeyError, IndexError) as error:
        outcome, said = "failed", f"{type(error).__name__}: {error}"
    return {"part": name, "outcome": outcome, "said": said, "seconds": round(time.monotonic() - begin, 1)}


def driver_says(seconds):
    """Returns the GPU's properties from nvidia-smi, or the reason why they are missing."""
    if shutil.which("nvidia-smi") is None:
        return {"missing": "nvidia-smi is not on this machine"}
    fields = ["name", "driver_version", "clocks.max.sm", "clocks.max.mem", "power.limit", "memory.total"]
    try:
        code, output, errors = run(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"], seconds)
    except (Failed, OSError) as error:
        return {"missing": f"nvidia-smi: {error}"}
    if code != 0 or not output.strip():
        return {"missing": last_line(errors or output)}
    return dict(zip(fields, [value.strip() for value in output.splitlines()[0].split(",")]))


def version_of(root, seconds):
    try:
        return last_line(run([root / "bin/incipit", "--version"], seconds)[1])
    except (Failed, OSError):
        return "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("."), help="folder for gpu-check.json and performance-gpu.md")
    parser.add_argument("--stories", type=pathlib.Path, help="folder of the model stories260K; its token ids are checked too")
    parser.add_argument("--only", default="", help="parts to run, separated by commas")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time limit for all parts together")
    parser.add_argument("--smoke", action="store_true", help="use tiny sizes, only to check that everything runs")
    arguments = parser.parse_args()
    wanted = [name for name in arguments.only.split(",") if name]
    unknown = set(wanted) - {name for name, _, _ in PARTS}
    if unknown:
        parser.error(f"unknown part: {', '.join(sorted(unknown))}; the parts are {', '.join(part[0] for part in PARTS)}")
    root = pathlib.Path(__file__).resolve().parent
    arguments.output.mkdir(parents=True, exist_ok=True)
    global transcript
    transcript = arguments.output / "gpu-check.log"
    transcript.unlink(missing_ok=True)
    check = Check(root, arguments)
    begin, outcomes = time.monotonic(), []

    def at_most(limit):
        return min(limit, arguments.seconds - (time.monotonic() - begin))

    version, driver = version_of(root, at_most(10)), driver_says(at_most(20))
    for name, title, limit in PARTS:
        if wanted and name not in ["device", *wanted]:
            continue
        patience = SMOKE_PATIENCE if arguments.smoke else 1
        outcome = dict(run_part(check, name, at_most(limit * patience)), title=title)
        outcomes.append(outcome)
        print(f"{outcome['outcome']:8}{name:12}{outcome['seconds']:6.1f} s  {outcome['said']}", flush=True)
    found = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "version": version,
        "host": {"system": platform.platform(), "cpus": os.cpu_count()},
        "driver": driver,
        "device": check.device,
        "smoke": arguments.smoke,
        "seconds": round(time.monotonic() - begin, 1),
        "parts": outcomes,
        # Times of a smoke run are not meaningful, so no shares are computed.
        "measurements": check.measurements if arguments.smoke else gpu_table.with_shares(check.measurements, check.device),
        "notes": check.notes,
    }
    (arguments.output / "gpu-check.json").write_text(json.dumps(found, indent=1) + "\n")
    (arguments.output / "performance-gpu.md").write_text(gpu_table.markdown(found))
    print(f"{arguments.output / 'gpu-check.json'}, {arguments.output / 'performance-gpu.md'}")
    if any(part["outcome"] == "failed" for part in outcomes):
        return 1
    if check.missing:
        print(f"nothing was checked: {check.missing}", file=sys.stderr)
        return NO_DEVICE
    return 0


if __name__ == "__main__":
    sys.exit(main())
