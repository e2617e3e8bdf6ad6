"""What a client gains from the prefix cache, and what the metrics say about it."""
import random
import statistics
import unittest

from harness.server import BUNDLED, Server, default_model, greedy

NUM_PROMPTS = 11
PROMPT_TOKENS = 400


def random_prompts(server, seed):
    generator = random.Random(seed)
    size = server.info().vocab_size
    return [[generator.randrange(3, size) for _ in range(PROMPT_TOKENS)] for _ in range(NUM_PROMPTS)]


@unittest.skipUnless(default_model(), "no model: neither models/incipit-tiny nor ../shared")
class CacheTest(unittest.TestCase):
    def test_the_second_of_two_identical_prompts_is_cached(self):
        with Server() as server:
            queried = server.metric("incipit_prefix_cache_queried_tokens_total")
            for prompt in random_prompts(server, 1):
                first, second = (server.generate(greedy(prompt, 4)) for _ in range(2))
                self.assertEqual(first.usage.cached_tokens, 0)
                self.assertGreaterEqual(second.usage.cached_tokens, 384)
                self.assertEqual(second.token_ids, first.token_ids)
            self.assertEqual(server.metric("incipit_prefix_cache_queried_tokens_total") - queried,
                             2 * NUM_PROMPTS * PROMPT_TOKENS)
            self.assertGreaterEqual(server.metric("incipit_prefix_cache_hit_tokens_total"), NUM_PROMPTS * 384)
            self.assertEqual(server.metric("incipit_tokens_total", kind="prompt_cached"),
                             server.metric("incipit_prefix_cache_hit_tokens_total"))

    @unittest.skipUnless(BUNDLED.exists(), "models/incipit-tiny is not there")
    def test_its_first_token_comes_three_times_sooner(self):
        with Server(model=BUNDLED) as server:
            seconds = lambda prompt: server.generate(greedy(prompt, 4)).usage.time_to_first_token_seconds
            for prompt in random_prompts(server, 2):  # warm-up
                seconds(prompt)
            first, second = [], []
            for prompt in random_prompts(server, 3):
                first.append(seconds(prompt))
                second.append(seconds(prompt))
            self.assertGreaterEqual(statistics.median(first), 3 * statistics.median(second), (first, second))

    def test_without_the_cache_nothing_is_cached_and_answers_are_the_same(self):
        with Server("--prefix-cache=off") as off, Server() as on:
            prompt = random_prompts(on, 4)[0]
            answers = [server.generate(greedy(prompt, 16)) for server in (on, on, off, off)]
            self.assertEqual([answer.usage.cached_tokens > 0 for answer in answers], [False, True, False, False])
            self.assertEqual(len({tuple(answer.token_ids) for answer in answers}), 1)


if __name__ == "__main__":
    unittest.main()
