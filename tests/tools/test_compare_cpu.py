"""Checks the table of the CPU comparison, and the weight files that are written for other engines."""

from __future__ import annotations

import argparse
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import compare_cpu  # noqa: E402
import make_checkpoint  # noqa: E402

try:
    import write_gguf
except ImportError:  # numpy is missing
    write_gguf = None

SMALL = dict(layers=2, hidden=64, heads=4, kv_heads=2, mlp=96, vocabulary=300, context=128)


def result(disturbed: int = 0) -> dict:
    """Returns measurements with these medians: incipit 110, llama.cpp 60 (bf16 file) and 100 (f16 file), OpenVINO
    80."""
    names = compare_cpu.MEASUREMENTS
    speeds = {"incipit": [100, 110, 900], "llama.cpp bf16": [60, 60, 60], "llama.cpp f16": [90, 100, 100],
              "OpenVINO GenAI f16": [80, 10, 90]}
    return {"shape": "some-shape", "type": "bf16", "limits": {name: 220.0 for name in names}, "disturbed": disturbed,
            "machine": {"cpu": "A CPU", "isa": "avx2", "f32_gflops": 100.0, "bf16_gflops": None, "int8_gops": 200.0,
                        "read_gbytes_per_s": 30.0},
            "speeds": {engine: {name: list(found) for name in names} for engine, found in speeds.items()}}


class TableTest(unittest.TestCase):
    options = argparse.Namespace(threads=2, rounds=3, prompt=512)

    def test_a_line_compares_medians_with_the_better_peer_and_the_limit(self) -> None:
        table = compare_cpu.table([result()], self.options)
        self.assertIn("| some-shape, bf16 prefill 512 | 220 | 100.0 | 80.0 | 110.0 | 1.10 | >= 1.05 | 50 % |", table)
        self.assertIn("| some-shape, bf16 decode 8 | 220 | 100.0 | 80.0 | 110.0 | 1.10 | >= 1.15 | 50 % |", table)
        self.assertIn("A CPU, 2 cores, avx2: f32 100 GFLOP/s, int8 dot 200 Gop/s, read 30 GB/s", table)
        self.assertNotIn("disturbed", table)

    def test_measurements_that_others_disturbed_are_counted(self) -> None:
        self.assertIn("3 measurements were disturbed", compare_cpu.table([result(1), result(2)], self.options))

    def test_every_type_has_a_goal_for_every_measurement(self) -> None:
        for name, kind in compare_cpu.TYPES.items():
            self.assertEqual(list(kind["goals"]), compare_cpu.MEASUREMENTS, name)


@unittest.skipIf(write_gguf is None, "numpy is not installed")
class GgufTest(unittest.TestCase):
    def test_every_type_is_read_back_as_it_was_written(self) -> None:
        for architecture, tied in (("LlamaForCausalLM", False), ("Qwen2ForCausalLM", True)):
            make_checkpoint.SHAPES["small"] = dict(SMALL, architecture=architecture, tied=tied)
            self.addCleanup(make_checkpoint.SHAPES.pop, "small", None)
            with tempfile.TemporaryDirectory() as folder:
                make_checkpoint.write_checkpoint(folder, "small")
                for dtype in write_gguf.TYPES:
                    path = Path(folder) / f"{dtype}.gguf"
                    write_gguf.write_gguf(folder, path, dtype)
                    write_gguf.check(folder, path, dtype)
                    with write_gguf.Reader(path) as reader:
                        names = reader.tensors
                    self.assertEqual("output.weight" in names, not tied)
                    self.assertEqual("blk.1.attn_q.bias" in names, architecture == "Qwen2ForCausalLM")

    def test_rows_of_a_rotated_pair_stand_side_by_side(self) -> None:
        rows = write_gguf.numpy.arange(8.0).reshape(8, 1)
        self.assertEqual(write_gguf.interleaved(rows, 2)[:, 0].tolist(), [0, 2, 1, 3, 4, 6, 5, 7])


if __name__ == "__main__":
    unittest.main()
