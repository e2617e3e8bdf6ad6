"""Tests the workloads and logs of `incipit bench` against the bundled model and a cache that evicts nothing."""
import json
import pathlib
import subprocess
import tempfile
import unittest

from harness.server import PROGRAM, Server, default_model

WORKLOADS = ("chatbot", "multi-turn", "rag", "rag-stable", "code-completion", "batch-summarisation", "random", "agent",
             "long-document")
CACHE_BLOCKS = "16384"


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class BenchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--kv-blocks", CACHE_BLOCKS)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def bench(self, *arguments):
        self.server.wait_until_idle()
        self.server.reset_cache()
        result = subprocess.run([PROGRAM, "bench", "--address", self.server.address, "--seed", "1", "--json", *arguments],
                                capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def check_ratios(self, found):
        self.assertEqual(found["errors"], 0)
        self.assertEqual(found["evictions"], 0)
        self.assertEqual(found["regret"], 0)
        self.assertLessEqual(abs(found["hit_ratio"] - found["implied_hit_ratio"]), 0.02, found)

    def test_every_workload_has_the_hit_ratio_that_it_implies(self):
        ratios = {}
        for name in WORKLOADS:
            with self.subTest(workload=name):
                found = self.bench("--workload", name, "--requests", "20", "--concurrency", "4", "--length-scale", "0.2")
                self.check_ratios(found)
                self.assertEqual((found["workload"], found["requests"]), (name, 20))
                ratios[name] = found["hit_ratio"]
        self.assertLess(ratios["random"], 0.02)
        self.assertGreater(ratios["chatbot"], 0.6)
        self.assertGreater(ratios["multi-turn"], ratios["rag"])

    def test_a_workload_shrinks_to_the_context_of_the_model(self):
        context = self.server.info().max_model_len
        found = self.bench("--workload", "agent", "--requests", "12", "--concurrency", "2")
        self.check_ratios(found)
        self.assertAlmostEqual(found["length_scale"], context / 5500, places=6)
        self.assertLessEqual(found["prompt_tokens"], 12 * context)

    def test_an_open_loop_and_users_with_think_time_keep_the_ratio(self):
        for mode in (("--rate", "40"), ("--concurrency", "3", "--think-time", "20ms")):
            with self.subTest(mode=mode):
                self.check_ratios(self.bench("--workload", "multi-turn", "--requests", "20", "--length-scale", "0.1", *mode))

    def test_a_log_is_replayed_with_its_times(self):
        lines = [{"timestamp": 60 * i, "input_length": 120, "output_length": 4,
                  "hash_ids": [i % 3, 100 + i % 3, 1000 + i, 2000 + i]} for i in range(12)]
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log.jsonl"
            log.write_text("".join(json.dumps(line) + "\n" for line in lines))
            arguments = ("--trace", str(log), "--block-size", "32")
            found = self.bench(*arguments, "--ttft-target", "30s", "--itl-target", "30s")
            self.check_ratios(found)
            self.assertEqual((found["workload"], found["requests"], found["length_scale"]), ("trace", 12, 1))
            self.assertEqual(found["prompt_tokens"], 12 * 120)
            self.assertEqual(found["output_tokens"], 12 * 4)
            self.assertAlmostEqual(found["hit_ratio"], 9 * 64 / (12 * 120), delta=0.02)
            self.assertGreater(found["duration_s"], 0.66)
            self.assertEqual(found["requests_within_targets"], 12)
            self.assertAlmostEqual(found["goodput_requests_per_s"], 12 / found["duration_s"], delta=0.05)
            strict = self.bench(*arguments, "--ttft-target", "0s", "--requests", "4", "--time-scale", "0.1")
            self.assertEqual((strict["requests"], strict["requests_within_targets"]), (4, 0))

    def test_the_counters_of_a_small_cache_are_reported(self):
        with Server("--kv-blocks", "128") as server:
            command = [PROGRAM, "bench", "--address", server.address, "--seed", "1", "--json", "--workload", "rag-stable",
                       "--requests", "40", "--concurrency", "1", "--length-scale", "0.2"]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            load = server.load()
        self.assertEqual((found["evictions"], found["regret"]), (load.evicted_blocks_total, load.regret_blocks_total))
        self.assertGreater(found["evictions"], 0)
        self.assertLess(found["hit_ratio"], found["implied_hit_ratio"])

    def test_an_unknown_workload_is_an_error_with_all_names(self):
        result = subprocess.run([PROGRAM, "bench", "--workload", "rga"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        for name in WORKLOADS:
            self.assertIn(name, result.stderr)


if __name__ == "__main__":
    unittest.main()
