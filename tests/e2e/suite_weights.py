"""Tests weights in eight bits: their loss of perplexity, and that the server reports the format it uses."""
import math
import random
import sys
import unittest

from harness.server import BUNDLED, SOURCE, STORIES, Server, greedy
from incipit.v1 import inference_pb2

sys.path.insert(0, str(SOURCE / "tools/story"))
from generate import draw_setting, write_story  # noqa: E402

NUM_STORIES = 30
# Maximum loss, based on a measurement in docs/performance.md. An error in a scale or a sum would cost far more.
LOSS_MAX = 0.02
MODELS = [model for model in (BUNDLED, STORIES) if (model / "config.json").exists()]


def stories():
    rng = random.Random(1)
    return [write_story(draw_setting(rng), rng) for _ in range(NUM_STORIES)]


def perplexity(server, texts):
    """Returns the perplexity of the tokens of each text after its first token."""
    total, count = 0.0, 0
    for text in texts:
        request = inference_pb2.GenerateRequest(text=text)
        request.output.max_tokens = 1
        request.output.prompt_logprobs = 0
        for entry in server.generate(request).prompt_logprobs:
            total -= entry.token.logprob
            count += 1
    return math.exp(total / count)


@unittest.skipUnless(MODELS, "no model is there")
class EightBitWeightsTest(unittest.TestCase):
    def test_they_cost_little_perplexity(self):
        for model in MODELS:
            with self.subTest(model=model.name):
                found = {}
                for weights in ("auto", "int8"):
                    with Server("--weights", weights, model=model) as server:
                        found[weights] = perplexity(server, stories())
                loss = found["int8"] / found["auto"] - 1
                print(f"{model.name}: perplexity {found['auto']:.4f}, int8 {found['int8']:.4f} ({loss:+.2%})")
                self.assertNotEqual(found["int8"], found["auto"])
                self.assertLess(abs(loss), LOSS_MAX)

    def test_a_hit_gives_the_text_of_a_miss(self):
        with Server("--weights", "int8", model=MODELS[0]) as server:
            prompt = stories()[0]
            miss = server.generate(greedy(prompt, 40))
            hit = server.generate(greedy(prompt, 40))
            self.assertGreater(hit.usage.cached_tokens, 0)
            self.assertEqual(hit.token_ids, miss.token_ids)


if __name__ == "__main__":
    unittest.main()
