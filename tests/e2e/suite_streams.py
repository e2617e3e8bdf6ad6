"""Tests a server under 200 concurrent streams with random cancels and deadlines (streams.py)."""
import threading
import unittest

import streams
from harness.server import BUNDLED, Server, collect, greedy

BLOCKS, BLOCK_TOKENS = 120, 16
POLLS_MAX = 5000


@unittest.skipUnless((BUNDLED / "config.json").exists(), "models/incipit-tiny is not there")
class StreamsTest(unittest.TestCase):
    def run_waves(self, **options):
        problems = streams.run(streams.Options(**options))
        self.assertFalse(problems, "\n" + "\n".join(problems[:streams.PROBLEMS_SHOWN]))

    def test_every_stream_has_the_outputs_of_its_request_alone_and_memory_is_flat(self):
        self.run_waves()

    def test_outputs_do_not_depend_on_two_steps_in_flight_or_the_policy(self):
        self.run_waves(waves=3, seed=2, flags=("--steps-in-flight", "2", "--scheduling", "fcfs"))


@unittest.skipUnless((BUNDLED / "config.json").exists(), "models/incipit-tiny is not there")
class PassingTest(unittest.TestCase):
    """No metric counts passing sequences, so this test observes the order of two requests."""

    def wait_until(self, server, running, waiting):
        for _ in range(POLLS_MAX):
            load = server.load()
            if (load.running, load.waiting) == (running, waiting):
                return
            threading.Event().wait(0.002)
        self.fail(f"not {running} running and {waiting} waiting requests: {load}")

    def test_a_small_request_passes_a_request_that_does_not_fit(self):
        long, large, small = (greedy(prompt, count) for prompt, count in (
            ([5, 6, 7], 0), ([5 + i % 90 for i in range((BLOCKS - 1) * BLOCK_TOKENS)], 8), ([9, 8, 7], 8)))
        for request in (long, large, small):
            request.output.ignore_eos = True
        with Server("--kv-blocks", str(BLOCKS), model=BUNDLED) as server:
            alone = [server.generate(request).token_ids for request in (large, small)]
            server.reset_cache()
            running = server.inference.Generate(long)
            next(running)
            waiting = server.inference.Generate(large)
            self.wait_until(server, running=1, waiting=1)
            self.assertEqual(server.generate(small).token_ids, alone[1])
            self.wait_until(server, running=1, waiting=1)
            self.assertTrue(running.is_active())
            running.cancel()
            self.assertEqual(collect(waiting).token_ids, alone[0])
            server.wait_until_idle()


if __name__ == "__main__":
    unittest.main()
