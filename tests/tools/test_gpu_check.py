"""Tests gpu_check.py with programs that use the emulated device: test_gpu_check.py BUILD_FOLDER."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tools"))
import gpu_check  # noqa: E402
import gpu_compare  # noqa: E402
import gpu_table  # noqa: E402
import gpu_yardsticks  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop()).resolve()
EMULATED = {
    "incipit": "incipit-emulated",
    "incipit-gpu-bench": "tests/gpu_check/incipit-gpu-bench-emulated",
    "incipit-gpu-bench-emulated": "tests/gpu_check/incipit-gpu-bench-emulated",
    "conformance_cuda_test": "tests/conformance/conformance_emulated_test",
    "model_cuda_test": "tests/kernels/cuda/emulated_model_test",
}


def table_rows(text):
    """Returns the tables of a page. Each table is a list of rows, and each row is a list of cells."""
    tables, rows = [], []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.replace("\\|", "/").strip("|").split("|")])
        elif rows:
            tables.append(rows)
            rows = []
    return tables


class GpuCheckTest(unittest.TestCase):
    """Tests in a folder like an unpacked package. Some tests replace programs of the folder."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name) / "incipit"
        (self.root / "bin").mkdir(parents=True)
        (self.root / "tests").mkdir()
        for name, path in EMULATED.items():
            (self.root / "bin" / name).symlink_to(BUILD / path)
        (self.root / "models").symlink_to(SOURCE / "models")
        (self.root / "tests/golden").symlink_to(SOURCE / "tests/golden")
        shutil.copy(SOURCE / "tools/gpu_check.py", self.root / "gpu_check")
        for name in ("gpu_compare.py", "gpu_table.py", "gpu_yardsticks.py"):
            shutil.copy(SOURCE / "tools" / name, self.root)

    def run_check(self, *flags):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("INCIPIT_")}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment["PATH"] = f"{self.root / 'path'}:{environment['PATH']}"
        result = subprocess.run([sys.executable, str(self.root / "gpu_check"), "--output", str(self.root / "out"), *flags],
                                capture_output=True, text=True, env=environment)
        found = self.root / "out/gpu-check.json"
        return result, json.loads(found.read_text()) if found.exists() else None

    def replace(self, name, script):
        path = self.root / "bin" / name
        path.unlink()
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def test_every_part_runs_and_is_in_both_files(self):
        result, found = self.run_check("--smoke")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual({part["part"]: part["said"] for part in found["parts"]}["serve"],
                         "48 tokens of the golden text over gRPC")
        self.assertEqual([part["part"] for part in found["parts"]], [name for name, _, _ in gpu_check.PARTS])
        for part in found["parts"]:
            allowed = ("passed", "skipped") if part["part"] == "yardsticks" else ("passed",)
            self.assertIn(part["outcome"], allowed, part)
            self.assertTrue(part["said"], part)
        page = (self.root / "out/performance-gpu.md").read_text()
        self.assertIn("host emulator", page)
        tables = table_rows(page)
        for rows in tables:
            self.assertEqual({len(row) for row in rows}, {len(rows[0])})
            self.assertGreater(len(rows), 2)
        names = {row[0] for rows in tables for row in rows}
        for line in found["measurements"]:
            self.assertIn(line["name"], names)
            self.assertGreater(line["seconds"], 0)
            self.assertGreater(line["samples"], 0)
        for part in ("memory", "products", "library", "attention", "model"):
            self.assertTrue(any(line["part"] == part for line in found["measurements"]), part)
        for goal, *_ in gpu_table.GOALS:  # a goal may name any size
            self.assertTrue(any(re.match(re.sub(r"\d+", r"\\d+", goal), name) for name in names), goal)

    def test_what_fails_is_said_and_stops_nothing(self):
        self.replace("conformance_cuda_test", "echo wrong >&2; exit 3")
        self.replace("incipit-gpu-bench-emulated", f"{BUILD / EMULATED['incipit-gpu-bench']} results --smoke | "
                     "sed '/\"embedding\"/s/\"bytes\": \"../\"bytes\": \"7f/'")
        result, found = self.run_check("--smoke", "--only", "conformance,results,memory,attention")
        self.assertEqual(result.returncode, 1, result.stdout)
        parts = {part["part"]: part for part in found["parts"]}
        self.assertEqual(parts["conformance"]["outcome"], "failed")
        self.assertIn("wrong", parts["conformance"]["said"])
        log = (self.root / "out/gpu-check.log").read_text()
        self.assertIn("ended with 3", log)
        self.assertIn("wrong", log)
        self.assertEqual(parts["results"]["outcome"], "failed")
        self.assertIn("embedding: 1 of", parts["results"]["said"])
        self.assertEqual(parts["memory"]["outcome"], "passed")
        self.assertEqual(parts["attention"]["outcome"], "passed")

    def test_what_was_measured_before_a_failure_stays(self):
        measured = {"name": "product of qkv x 1, 6144 x 4096", "seconds": 1e-5, "shortest": 1e-5, "longest": 1e-5,
                    "samples": 2, "calls": 2, "bytes": 1, "flops": 1}
        self.replace("incipit-gpu-bench", f"""
if [ "$1" = memory ]; then exec {BUILD / EMULATED['incipit-gpu-bench']} "$@"; fi
echo '{json.dumps(measured)}'
printf '{{"name": "cut o'
[ "$1" = products ] && {{ echo an illegal address >&2; exit 1; }}
cat /dev/zero >/dev/null""")
        _, found = self.run_check("--smoke", "--only", "products,attention", "--seconds", "8")
        said = {part["part"]: part["said"] for part in found["parts"]}
        self.assertEqual(said["products"], "ended with 1: an illegal address, after 1 measurements")
        self.assertIn(", after 1 measurements", said["attention"])
        self.assertEqual([(line["part"], line["name"]) for line in found["measurements"]],
                         [(part, measured["name"]) for part in ("products", "attention")])

    def test_a_library_that_is_missing_or_computes_something_else_is_said(self):
        for ending, outcome, said in (("exit 0", "skipped", "cuBLASLt cannot be loaded"),
                                      ("echo 'library: 0.1 apart; 5e-05 is allowed' >&2; exit 1", "failed",
                                       "ended with 1: library: 0.1 apart; 5e-05 is allowed, after 0 measurements")):
            self.replace("incipit-gpu-bench", f"""
if [ "$1" = memory ]; then exec {BUILD / EMULATED['incipit-gpu-bench']} "$@"; fi
echo '{{"note": "cuBLASLt cannot be loaded"}}'; {ending}""")
            _, found = self.run_check("--smoke", "--only", "library")
            part = found["parts"][-1]
            self.assertEqual((part["part"], part["outcome"], part["said"]), ("library", outcome, said))

    def test_a_failing_test_is_run_again_without_early_starts(self):
        report = {"testsuites": [{"testsuite": [{"status": "RUN", "result": "COMPLETED", "classname": "Suite",
                                                 "name": "Case", "failures": [{"failure": "off by one"}]}]}]}
        for in_order, said in (("exit 0", "passes"), ("exit 1", "fails too")):
            self.replace("conformance_cuda_test", f"""
if [ -n "$INCIPIT_CUDA_IN_ORDER" ]; then [ "$1" = --gtest_filter=Suite.Case ] && {in_order}; exit 9; fi
echo the value is off by one
echo '{json.dumps(report)}' >"${{1#--gtest_output=json:}}"
exit 1""")
            result, found = self.run_check("--smoke", "--only", "conformance")
            self.assertEqual(result.returncode, 1)
            self.assertEqual(found["parts"][1]["said"],
                             f"1 of 1 failed: Suite.Case; with INCIPIT_CUDA_IN_ORDER=1 the first {said}")
            self.assertIn("off by one", (self.root / "out/gpu-check.log").read_text())

    def test_a_part_that_hangs_is_ended(self):
        self.replace("conformance_cuda_test", "echo so far; cat /dev/zero >/dev/null")
        result, found = self.run_check("--smoke", "--only", "conformance", "--seconds", "3")
        self.assertEqual(result.returncode, 1)
        self.assertIn("took longer than", found["parts"][1]["said"])
        self.assertIn("so far", (self.root / "out/gpu-check.log").read_text())

    def test_what_is_not_a_part_takes_its_time_from_the_same(self):
        (self.root / "path").mkdir()
        (self.root / "path/nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
        (self.root / "path/nvidia-smi").chmod(0o755)
        begin = time.monotonic()
        result, found = self.run_check("--smoke", "--only", "memory", "--seconds", "3")
        self.assertLess(time.monotonic() - begin, 18)
        self.assertIn("took longer than the ", found["driver"]["missing"])
        self.assertEqual({part["said"] for part in found["parts"]}, {"no time was left"})
        self.assertEqual(result.returncode, gpu_check.NO_DEVICE)
        self.assertIn("no time was left", (self.root / "out/performance-gpu.md").read_text())
        self.assertEqual(gpu_check.PARTS[-1][0], "yardsticks")  # all other parts measure our own programs

    def test_what_a_program_leaves_behind_is_not_waited_for(self):
        self.replace("conformance_cuda_test", "setsid sleep 60 & exec sleep 60")
        begin = time.monotonic()
        _, found = self.run_check("--smoke", "--only", "conformance", "--seconds", "6")
        self.assertLess(time.monotonic() - begin, 40)
        self.assertIn("took longer than", found["parts"][1]["said"])

    def with_yardsticks(self, script):
        """Runs the check with another gpu_yardsticks.py. The check must not fail because of this script. Returns the
        results."""
        (self.root / "gpu_yardsticks.py").write_text(script)
        limit = ["--seconds", "8"] if "sleep" in script else []
        result, found = self.run_check("--smoke", "--only", "yardsticks", *limit)
        self.assertEqual(result.returncode, 0, result.stdout)
        return found

    def test_what_yardsticks_say_before_they_end_stays(self):
        measured = {"name": "torch.matmul, 64 x 64 x 64", "seconds": 1e-5, "shortest": 1e-5, "longest": 1e-5,
                    "samples": 2, "calls": 2, "bytes": 0, "flops": 1}
        lines = [json.dumps(line) for line in ({"version": "PyTorch 2"}, measured, {"note": "a note"},
                                               {"version": "FlashInfer 1"})]
        before = f"print({chr(10).join([*lines, '{not: ours}'])!r}, flush=True)\n"
        for ending, said in (("", ""),
                             ("raise SystemExit('no compiler')", ", then ended with 1: no compiler"),
                             ("import os; os.kill(os.getpid(), 9)", ", then ended with -9: no output"),
                             ("import time; time.sleep(60)", ", then took longer than the ")):
            found = self.with_yardsticks(before + ending)
            part = found["parts"][-1]
            self.assertEqual((part["part"], part["outcome"]), ("yardsticks", "passed"))
            self.assertTrue(part["said"].startswith("PyTorch 2; FlashInfer 1; 1 measurements" + said), part)
            self.assertEqual([line["name"] for line in found["measurements"]], [measured["name"]])
            self.assertEqual(found["notes"], ["a note"])

    def test_yardsticks_without_a_measurement_are_skipped_with_the_reason(self):
        version = f"print({json.dumps({'version': 'PyTorch 2'})!r}, flush=True)\n"
        note = f"print({json.dumps({'note': 'no memory'})!r})"
        for script, said in (("raise SystemExit('broken')", "ended with 1: broken"),
                             (version + "import time; time.sleep(60)", "PyTorch 2; took longer than the "),
                             (version + note, "PyTorch 2; no memory"),
                             ("import sys; print('no torch', file=sys.stderr); sys.exit(77)", "no torch")):
            part = self.with_yardsticks(script)["parts"][-1]
            self.assertEqual(part["outcome"], "skipped")
            self.assertTrue(part["said"].startswith(said), part)

    def test_a_library_may_fail_without_a_word(self):
        self.assertEqual(gpu_yardsticks.said_by(AssertionError()), "AssertionError")
        self.assertEqual(gpu_yardsticks.said_by(ValueError("one\ntwo")), "ValueError: one")

    def served(self, ids, text, again=None):
        """Runs the `serve` part of the check with these tokens as the output. `again`: the output with log
        probabilities. Returns the report of the part."""
        outputs = {"plain": {"token_ids": ids, "text": text}, "again": again or {}}
        for name, output in outputs.items():
            (self.root / name).write_text(json.dumps(output))
        self.replace("incipit", f"""
[ "$1" = --version ] && {{ echo incipit 0; exit; }}
case "$1 $*" in
generate*--logprobs*) exec cat {self.root}/again;;
generate*) exec cat {self.root}/plain;;
esac
while [ "$1" != --port-file ]; do shift; done
echo '{{"grpc": 1}}' >"$2"
echo ready
exec sleep 60""")
        _, found = self.run_check("--smoke", "--only", "serve")
        return found["parts"][-1]["outcome"], found["parts"][-1]["said"]

    def test_golden_text_may_differ_where_two_tokens_are_nearly_as_likely(self):
        golden = json.loads((SOURCE / "tests/golden/incipit-tiny/golden.json").read_text())
        case = max(golden["cases"], key=lambda one: one["least_margin"])
        ids = case["greedy_ids"][:gpu_check.SERVED_TOKENS]
        other = [*ids[:3], 5, *ids[4:]]
        near = gpu_compare.NEAR_TIE

        def position(text, chosen, likeliest):
            return {"text": text, "logprob": chosen, "top": [{"token_id": token, "logprob": logprob}
                                                             for token, logprob in likeliest]}

        def again(last, tokens=other[:4], texts=(".\n", "Her", " sister")):
            return {"token_ids": tokens, "logprobs": [*[position(text, 0, []) for text in texts], last]}

        tie = position(" Eva", -1, [(5, -1), (ids[3], -1.07)])
        self.assertEqual(self.served(ids, case["text"][:100]), ("passed", "48 tokens of the golden text over gRPC"))
        self.assertEqual(self.served(other, "x", again(tie)),
                         ("passed", "golden text up to token 3, a near tie there (gap 0.07)"))
        for output, said in (
                (again(position(" Eva", -1, [(5, -1), (ids[3], -1.01 - near)])), "0.11 above the golden one"),
                (again(position(" Eva", -1, [(5, -1), (6, -1.01)])), "not among the 2 likeliest"),
                (again(position(" Eva", -1, [(ids[3], -0.99), (5, -1)])), "0.01 below the likeliest"),
                (again(tie, texts=(".\n", "His", " sister")), "another text: '.\\nHis sister'"),
                (again(tie, [*ids[:3], 6]), "with log probabilities")):
            outcome, found = self.served(other, "x", output)
            self.assertEqual(outcome, "failed")
            self.assertIn(said, found)
        self.assertEqual(self.served(ids[:5], case["text"]), ("failed", "5 tokens, where 48 were asked for"))
        for text in ("x", ""):
            self.assertEqual(self.served(ids, text), ("failed", f"the golden tokens, and another text: {text!r}"))

    def test_without_a_gpu_it_says_what_is_missing(self):
        self.replace("incipit-gpu-bench", "echo 'no NVIDIA driver on this machine (libcuda.so.1)' >&2; exit 77")
        result, found = self.run_check()
        self.assertEqual(result.returncode, gpu_check.NO_DEVICE)
        self.assertIn("no NVIDIA driver", result.stderr)
        self.assertEqual({part["outcome"] for part in found["parts"]}, {"skipped"})
        self.assertIn("no NVIDIA driver", (self.root / "out/performance-gpu.md").read_text())

    def test_a_package_without_cuda_says_so(self):
        (self.root / "bin/incipit-gpu-bench").unlink()
        result, _ = self.run_check()
        self.assertEqual(result.returncode, gpu_check.NO_DEVICE)
        self.assertIn("built without CUDA", result.stderr)

    def test_the_real_program_without_a_gpu_says_so(self):
        program = BUILD / "tests/gpu_check/incipit-gpu-bench"
        if not program.exists():
            self.skipTest("a build without CUDA")
        said = subprocess.run([str(program), "memory"], capture_output=True, text=True,
                              env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))
        self.assertEqual(said.returncode, gpu_check.NO_DEVICE)
        self.assertRegex(said.stderr, "NVIDIA driver|CUDA device")


class TableTest(unittest.TestCase):
    def lines(self, *measured):
        return gpu_table.with_shares([dict({"bytes": 0, "flops": 0, "part": "products"}, **line) for line in measured],
                                     {"device": "NVIDIA H100 80GB HBM3"})

    def test_shares_are_of_the_datasheet_and_of_what_was_measured(self):
        read, product = self.lines(
            {"name": "read", "seconds": 1.0, "bytes": 3e12},
            {"name": "product of qkv x 16, 6144 x 4096", "seconds": 1.0, "bytes": 2.4e12, "flops": 4e13})
        self.assertAlmostEqual(read["share_bytes"], 3 / 3.35, places=3)
        self.assertAlmostEqual(product["share_bytes_measured"], 0.8)
        self.assertFalse(product["goal"]["reached"])
        self.assertIn("0.72 | 0.80 | >= 0.80: missed", gpu_table.row_of(product))

    def test_the_rate_of_products_is_the_highest_that_is_not_our_kernels(self):
        ours, *_ = self.lines(
            {"name": "product of square x 8192, 8192 x 8192", "seconds": 1.0, "flops": 6e14},
            {"name": "tensor cores, from shared memory", "seconds": 1.0, "flops": 8e14},
            {"name": "large product of down x 2048, 4096 x 14336, by cuBLASLt", "seconds": 1.0, "flops": 7e14})
        self.assertAlmostEqual(ours["share_flops_measured"], 0.75)

    def test_goals_are_those_of_their_measurements(self):
        def goal(name, **line):
            return self.lines(dict({"name": name}, **line))[0]["goal"]

        self.assertTrue(goal("decode attention, 1 x 1024", seconds=10e-6)["reached"])
        self.assertFalse(goal("decode attention, 1 x 1024", seconds=12e-6)["reached"])
        step = "decode step, 16 x 640"
        self.assertTrue(goal(f"{step}, two on their way", seconds=1.0, bytes=2.3e12)["reached"])
        self.assertFalse(goal(f"{step}, two on their way", seconds=1.0, bytes=2.2e12)["reached"])
        self.assertNotIn("goal", self.lines({"name": step, "seconds": 1.0, "bytes": 2.3e12})[0])
        self.assertTrue(goal("prefill of 8192", seconds=1.0, flops=560e12)["reached"])
        self.assertFalse(goal("prefill attention, 1 x 8192", seconds=1.0, flops=300e12)["reached"])

    def test_an_unknown_card_has_no_datasheet(self):
        line = gpu_table.with_shares([{"name": "read", "seconds": 1.0, "bytes": 1e12, "flops": 0}], {"device": "X"})[0]
        self.assertNotIn("share_bytes", line)
        self.assertEqual(line["share_bytes_measured"], 1)


class PagesTest(unittest.TestCase):
    """Tests of the documentation about graphics cards."""

    @staticmethod
    def words(text):
        return " ".join(text.split())

    def test_a_driver_that_is_too_old_is_named_with_what_the_program_says(self):
        code = (SOURCE / "kernels/cuda/runtime/runtime_cuda.cpp").read_text()
        said = re.search(r'"(no usable CUDA device: [^"]*)"', code)[1].split("{}")
        page = self.words((SOURCE / "docs/operations.md").read_text())
        self.assertRegex(page, "[^`]+".join(map(re.escape, said)))
        self.assertIn("R580 or newer", page)

    def test_every_kernel_has_its_expected_figures(self):
        page = (SOURCE / "docs/performance-gpu.md").read_text()
        if not page.startswith("# Speed on a GPU: goals"):
            self.skipTest("the page has what was measured")
        expected = (SOURCE / "docs/lab/2026-11-22-gpu-estimates.md").read_text().split("## Registers")[0]
        kernels = json.loads((SOURCE / "kernels/cuda/device/budget.json").read_text())["kernels"]
        named = {cell for rows in table_rows(expected) for row in rows[2:] for cell in re.findall("`([A-Z][A-Za-z]*)`", row[0])}
        self.assertEqual({kernel["kernel"].split("<")[0] for kernel in kernels} - named, set())

    def test_times_of_kernels_are_said_to_be_without_the_latency_of_a_launch(self):
        page = gpu_table.markdown({"driver": {}, "device": {}, "smoke": False, "date": "", "version": "", "seconds": 1,
                                   "parts": [], "measurements": [], "notes": []})
        self.assertRegex(self.words(page), "no time includes the latency of a launch")


class CompareTest(unittest.TestCase):
    @staticmethod
    def result(data, tolerance=0.0, dtype="f32", name="x"):
        return {"result": name, "tolerance": tolerance, "dtype": dtype, "bytes": data}

    def test_bits_and_tolerances(self):
        one, next_one, two = "0000803f", "0100803f", "00000040"
        self.assertEqual(gpu_compare.compare([self.result(one)], [self.result(one)]).equal, 1)
        self.assertTrue(gpu_compare.compare([self.result(one)], [self.result(next_one)]).wrong)
        near = gpu_compare.compare([self.result(one, 1e-6)], [self.result(next_one, 1e-6)])
        self.assertEqual((len(near.near), near.wrong), (1, []))
        self.assertTrue(gpu_compare.compare([self.result(one, 1e-6)], [self.result(two, 1e-6)]).wrong)

    def test_what_is_missing_or_not_finite_is_wrong(self):
        self.assertTrue(gpu_compare.compare([], []).wrong)
        self.assertTrue(gpu_compare.compare([self.result("0000803f")], []).wrong)
        self.assertTrue(gpu_compare.compare([self.result("c07f", dtype="bf16")] * 2,
                                            [self.result("c07f", dtype="bf16")] * 2).wrong)
        self.assertEqual(list(gpu_compare.values_of(self.result("803f0040", dtype="bf16"))), [1, 2])


if __name__ == "__main__":
    unittest.main()
