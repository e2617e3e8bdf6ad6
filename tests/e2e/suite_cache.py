"""Tests the benefit of the prefix cache for clients, and its metrics."""
import random
import statistics
import time
import unittest

import grpc
from harness.server import BUNDLED, Details, Server, default_model, greedy
from incipit.v1 import admin_pb2, inference_pb2

NUM_PROMPTS = 11
PROMPT_TOKENS = 400


def random_prompts(server, seed):
    generator = random.Random(seed)
    size = server.info().vocab_size
    return [[generator.randrange(3, size) for _ in range(PROMPT_TOKENS)] for _ in range(NUM_PROMPTS)]


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class CacheTest(unittest.TestCase):
    def test_the_second_of_two_identical_prompts_is_cached(self):
        with Server() as server:
            queried = server.metric("incipit_prefix_cache_queried_tokens_total")
            for prompt in random_prompts(server, 1):
                first, second = (server.generate(greedy(prompt, 4)) for _ in range(2))
                # Too few equal tokens at the beginning do not count as a hit.
                self.assertEqual(first.usage.cached_tokens, 0)
                self.assertEqual(second.usage.cached_tokens, PROMPT_TOKENS - 1)
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
            for prompt in random_prompts(server, 2):  # Requests that warm up the server.
                seconds(prompt)
            first, second = [], []
            for prompt in random_prompts(server, 3):
                first.append(seconds(prompt))
                second.append(seconds(prompt))
            self.assertGreaterEqual(statistics.median(first), 3 * statistics.median(second), (first, second))

    def test_usage_says_why_a_prompt_missed(self):
        with Server("--kv-blocks", "64", "--prefix-cache-policy", "lru") as server:
            prompts = random_prompts(server, 5)
            first = server.generate(greedy(prompts[0], 4)).usage
            self.assertEqual(first.cache_miss.reason, inference_pb2.CACHE_MISS_REASON_UNSEEN)
            self.assertEqual(first.cached_tokens, 0)
            self.assertEqual((first.cache_miss.first_missing_block, first.cache_miss.first_differing_token), (0, 0))
            longer = server.generate(greedy(prompts[0][:200] + prompts[1][:200], 4)).usage
            self.assertEqual(longer.cache_miss.first_differing_token, 200)
            self.assertEqual((longer.cached_tokens, longer.copied_tokens), (200, 8))
            again = server.generate(greedy(prompts[0], 4)).usage
            self.assertEqual(again.cache_miss.reason, inference_pb2.CACHE_MISS_REASON_NONE)
            self.assertEqual((again.cached_tokens, again.copied_tokens), (399, 15))
            for prompt in prompts[2:5]:  # 25 blocks each; the cache has 64
                server.generate(greedy(prompt, 4))
            evicted = server.generate(greedy(prompts[0], 4)).usage.cache_miss
            self.assertEqual(evicted.reason, inference_pb2.CACHE_MISS_REASON_EVICTED)
            self.assertGreaterEqual(evicted.evicted_seconds_ago, 0)
            salted = greedy(prompts[0], 4)
            salted.cache.salt = "salt"
            self.assertEqual(server.generate(salted).usage.cache_miss.reason,
                             inference_pb2.CACHE_MISS_REASON_OTHER_NAMESPACE)

    def test_what_is_pinned_survives_and_what_is_over_its_time_does_not(self):
        with Server("--kv-blocks", "64", "--cache-retention-share-max", "0.75") as server:
            prompts = random_prompts(server, 6)
            pinned, short = greedy(prompts[0], 4), greedy(prompts[1][:160], 4)
            pinned.cache.retention.pin.FromSeconds(600)
            short.cache.retention.ttl.FromMilliseconds(1)
            server.generate(pinned)
            self.assertEqual(server.load().retained_blocks, 25)
            self.assertEqual(server.metric("incipit_kv_blocks", state="retained"), 25)
            for prompt in prompts[2:5]:
                server.generate(greedy(prompt, 4))
            self.assertEqual(server.generate(greedy(prompts[0], 4)).usage.cached_tokens, 399)
            server.generate(short)
            # Wait until the time to live has ended. Before, the blocks would be evicted for another reason.
            time.sleep(0.01)
            server.generate(greedy(prompts[5], 4))
            self.assertEqual(server.generate(short).usage.cached_tokens, 0)
            self.assertGreaterEqual(server.metric("incipit_prefix_cache_evictions_total", reason="ttl"), 10)
            self.assertEqual(server.metric("incipit_kv_blocks"), 64)

    def test_a_wrong_hint_names_its_field(self):
        with Server() as server:
            for field, value in (("priority", 101), ("ttl", -1), ("ttl", 86401), ("pin", 0)):
                request = greedy("a", 1)
                if field == "priority":
                    request.cache.retention.priority = value
                else:
                    getattr(request.cache.retention, field).seconds = value
                    getattr(request.cache.retention, field).SetInParent()
                with self.assertRaises(grpc.RpcError) as caught:
                    server.generate(request)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
                self.assertEqual(Details(caught.exception).fields, [f"cache.retention.{field}"])

    def test_the_load_says_what_a_prompt_would_take(self):
        with Server("--kv-blocks", "64") as server:
            prompts = random_prompts(server, 7)
            server.generate(greedy(prompts[0], 4))
            load = lambda **prompt: server.admin.GetLoad(admin_pb2.GetLoadRequest(**prompt)).admission
            known = load(token_ids=inference_pb2.TokenIds(ids=prompts[0] + prompts[1]))
            self.assertTrue(known.fits)
            self.assertEqual((known.cached_tokens, known.blocks_needed, known.blocks_evicted), (400, 50, 0))
            unknown = load(prompt_tokens=800)
            self.assertEqual((unknown.fits, unknown.cached_tokens, unknown.blocks_needed, unknown.blocks_evicted),
                             (True, 0, 50, 11))
            self.assertFalse(load(prompt_tokens=64 * 16 + 1).fits)
            self.assertFalse(server.load().HasField("admission"))
            self.assertEqual(server.metric("incipit_prefix_cache_queried_tokens_total"), PROMPT_TOKENS)

    def test_the_hit_ratio_of_the_last_minutes_is_served(self):
        with Server() as server:
            prompt = random_prompts(server, 8)[0]
            for _ in range(2):
                server.generate(greedy(prompt, 4))
            for window in ("1m", "10m", "1h"):
                self.assertAlmostEqual(server.metric("incipit_prefix_cache_hit_ratio", window=window), 399 / 800, 3)
            self.assertEqual(server.metric("incipit_prefix_cache_hit_ratio_alarm"), 0)

    def test_without_the_cache_nothing_is_cached_and_outputs_are_the_same(self):
        with Server("--prefix-cache=off") as off, Server() as on:
            prompt = random_prompts(on, 4)[0]
            replies = [server.generate(greedy(prompt, 16)) for server in (on, on, off, off)]
            self.assertEqual([reply.usage.cached_tokens > 0 for reply in replies], [False, True, False, False])
            self.assertEqual(len({tuple(reply.token_ids) for reply in replies}), 1)


if __name__ == "__main__":
    unittest.main()
