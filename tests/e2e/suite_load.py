"""Tests the server over a runner that computes nothing, and the load client."""
import json
import pathlib
import subprocess
import unittest

from harness.server import PROGRAM, BUNDLED, Server, greedy
from incipit.v1 import inference_pb2

CLIENT = pathlib.Path(PROGRAM).parent / "load_client"
EXHAUSTED, INVALID = "8", "3"


def run_client(server, *flags):
    command = [CLIENT, "--address", server.address, "--server-pid", str(server.process.pid), *flags]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


class LoadTest(unittest.TestCase):
    def test_samples_do_not_depend_on_overlap_and_never_end_an_output(self):
        replies = []
        for steps_in_flight in ("1", "2"):
            with Server("--vocab", "40", "--eos-token", "3", "--steps-in-flight", steps_in_flight) as server:
                request = greedy([5, 6, 7], 200)
                request.sampling.seed, request.output.n = 5, 2
                reply = server.generate(request)
                replies.append(reply.ids)
                self.assertEqual(reply.finish_reason, inference_pb2.FINISH_REASON_LENGTH)
        self.assertEqual(replies[0], replies[1])
        tokens = {token for ids in replies[0].values() for token in ids}
        self.assertNotIn(3, tokens)
        self.assertLess(max(tokens), 40)
        self.assertNotEqual(replies[0][0], replies[0][1])

    def test_a_token_that_is_chosen_is_sampled(self):
        with Server("--sampled-token", "9", "--eos-token", "9") as server:
            reply = server.generate(greedy([5], 10))
        self.assertEqual((reply.token_ids, reply.finish_reason), ([9], inference_pb2.FINISH_REASON_STOP))

    def test_text_goes_through_the_model_folders_tokenizer(self):
        with Server("--step-time-ms", "1", model=BUNDLED) as server:
            reply = server.generate(greedy("Once upon a time", 4))
        self.assertGreater(reply.usage.prompt_tokens, 3)
        self.assertNotEqual(reply.text, "")

    def test_the_client_times_streams_and_health_while_calls_are_refused(self):
        with Server("--step-time-ms", "5", "--requests-max", "4") as server:
            found = run_client(server, "--streams", "4", "--seconds", "0.5", "--warmup-seconds", "0",
                               "--flood-rate", "200", "--flood-bytes", "100", "--health-interval-ms", "20", "--connect-interval-ms", "50")
            server.wait_until_idle()
        self.assertEqual(list(found["flood"]["codes"]), [EXHAUSTED])
        for name in ("health", "connect"):
            self.assertEqual(list(found[name]["codes"]), ["0"])
        self.assertGreater(found["streams"]["count"], 4)
        self.assertGreater(found["server_cpu_seconds"], 0)

    def test_the_client_calls_one_by_one_and_the_baseline_refuses_everything(self):
        with Server() as server:
            flags = ["--flood-calls", "20", "--warmup-seconds", "0"]
            tenant = run_client(server, *flags, "--flood-tenant", "a b")["flood"]
            baseline = run_client(server, *flags, "--flood-address", f"127.0.0.1:{server.ports['baseline']}")["flood"]
        self.assertEqual((tenant["count"], tenant["codes"]), (20, {INVALID: 20}))
        self.assertEqual((baseline["count"], baseline["codes"]), (20, {EXHAUSTED: 20}))


if __name__ == "__main__":
    unittest.main()
