"""Tests tools/compare_serving.py with a real server and without the peers."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from harness.server import BUNDLED, PROGRAM, SOURCE

VOCABULARY = 1024  # number of tokens of the bundled model
TIMEOUT_SECONDS = 240


@unittest.skipUnless((BUNDLED / "config.json").exists(), "the bundled model is not there")
class CompareServingTest(unittest.TestCase):
    def test_two_programs_run_every_load_that_fits_the_context(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "figures.json"
            done = subprocess.run(
                [sys.executable, SOURCE / "tools/compare_serving.py", "--program", PROGRAM, "--before", PROGRAM, "--model", BUNDLED,
                 "--vocabulary", str(VOCABULARY), "--python", sys.executable, "--folder", folder, "--json", path, "--rounds", "1",
                 "--requests", "4", "--concurrency", "2", "--quiet-wait", "0", "--loads", "chatbot", "multi-turn"],
                capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(path.read_text())
        self.assertEqual([(run["load"], run["engine"]) for run in result["runs"]],
                         [(load, engine) for load in ("chatbot", "multi-turn") for engine in ("incipit before", "incipit")])
        for run in result["runs"]:
            self.assertEqual(run["output_tokens"], 4 * (48 if run["load"] == "chatbot" else 32))
            self.assertGreater(run["cached_share"], 0.4, run["load"])
            self.assertLess(run["cached_share"], 1, run["load"])
            self.assertGreater(run["ttft_ms"]["p50"], 0)
            self.assertGreater(run["itl_ms"]["p99"], 0)
        self.assertIn("llama-server was not measured: ", done.stdout)
        self.assertIn("| chatbot, output tokens/s |", done.stdout)


if __name__ == "__main__":
    unittest.main()
