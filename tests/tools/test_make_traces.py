"""Checks synthetic request logs: each log has whole chains of blocks in order, and equal seeds give equal logs."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "make_traces.py"
# The first 12 hexadecimal digits of the SHA-256 of each log with seed 1. The logs must not change, so that published
# figures stay comparable.
DIGESTS = {
    "chat": "4cf0cde4e421",
    "scan": "7800510fd016",
    "rag": "29971ee6eaca",
    "shift": "6192ed7a2a07",
    "agent": "c2248c9a031c",
    "apps": "c7777daa69c7",
    "adv": "98dff6843d36",
}


def trace(*arguments: str) -> bytes:
    return subprocess.run([sys.executable, str(TOOL), *arguments], capture_output=True, check=True).stdout


class TraceTest(unittest.TestCase):
    def test_a_kind_and_a_seed_are_always_the_same_log(self) -> None:
        for kind, digest in DIGESTS.items():
            log = trace(kind)
            self.assertEqual(hashlib.sha256(log).hexdigest()[:12], digest, kind)
            self.check_chains(kind, log)
        self.assertNotEqual(hashlib.sha256(trace("adv", "--seed", "2")).hexdigest()[:12], DIGESTS["adv"])

    def check_chains(self, kind: str, log: bytes) -> None:
        """Checks that an id always follows the same ids, and that times never decrease."""
        parents: dict[int, int] = {}
        latest = 0
        for line in log.splitlines():
            request = json.loads(line)
            ids = request["hash_ids"]
            self.assertEqual(request["input_length"], 512 * len(ids))
            self.assertGreaterEqual(request["timestamp"], latest)
            latest = request["timestamp"]
            for parent, block in zip([-1, *ids], ids):
                if parents.setdefault(block, parent) != parent:
                    self.fail(f"{kind}: {block} follows {parent} and {parents[block]}")

    def test_a_split_log_has_smaller_blocks_of_the_same_prompts(self) -> None:
        whole = [json.loads(line) for line in trace("scan").splitlines()]
        split = [json.loads(line) for line in trace("scan", "--split", "4").splitlines()]
        self.assertEqual(len(whole), len(split))
        for one, other in zip(whole, split):
            self.assertEqual(one["input_length"], other["input_length"])
            self.assertEqual([4 * block + part for block in one["hash_ids"] for part in range(4)], other["hash_ids"])


if __name__ == "__main__":
    unittest.main()
