#!/usr/bin/env python3
"""Measures the speed of OpenVINO GenAI on a GGUF file. tools/compare_cpu.py runs this program as a peer.

    openvino_speed.py FILE.gguf --threads N

The program runs until its input ends, so that a model is compiled once for many measurements. Each input line is a
JSON object, {"prefill": TOKENS} or {"decode": SEQUENCES, "prompt": TOKENS, "steps": N}; the output line is
{"tokens_per_s": X}. Every prefill has a new prompt. The prompts of decode measurements are the same each time, so
OpenVINO's prefix cache holds them after the first measurement.
"""
import argparse
import json
import sys
import time

import numpy
import openvino
import openvino_genai as genai

CACHE_GB = 2
BATCH_TOKENS = 8192  # large enough that one step computes all prompts; every later step decodes


class Engine:
    def __init__(self, path, threads):
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = CACHE_GB
        scheduler.max_num_batched_tokens = BATCH_TOKENS
        scheduler.enable_prefix_caching = True
        self.pipeline = genai.ContinuousBatchingPipeline(path, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads}, {})
        self.next_id = 0

    def add(self, seed, tokens, generate):
        config = genai.GenerationConfig()
        config.max_new_tokens = generate
        config.ignore_eos = True
        config.do_sample = False
        prompt = numpy.random.default_rng(seed).integers(300, 30000, (1, tokens)).astype(numpy.int64)
        self.next_id += 1
        return self.pipeline.add_request(self.next_id, openvino.Tensor(prompt), config)

    def prefill(self, tokens):
        begin = time.perf_counter()
        handle = self.add(10**6 + self.next_id, tokens, 1)
        self.pipeline.step()
        taken = time.perf_counter() - begin
        assert handle.can_read() and not self.pipeline.has_non_finished_requests()
        return tokens / taken

    def decode(self, sequences, prompt, steps):
        handles = [self.add(seed, prompt, steps + 1) for seed in range(sequences)]
        self.pipeline.step()
        assert all(handle.can_read() for handle in handles), "the first step did not compute all prompts"
        begin = time.perf_counter()
        for _ in range(steps):
            self.pipeline.step()
        taken = time.perf_counter() - begin
        assert not self.pipeline.has_non_finished_requests()
        for handle in handles:
            assert len(handle.read_all()[0].generated_ids) == steps + 1
        return sequences * steps / taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    replies, sys.stdout = sys.stdout, sys.stderr  # the library prints to standard output too
    engine = Engine(arguments.file, arguments.threads)
    engine.prefill(64)  # warm-up
    print(json.dumps({"ready": True}), file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "prefill" in request:
            speed = engine.prefill(request["prefill"])
        else:
            speed = engine.decode(request["decode"], request["prompt"], request["steps"])
        print(json.dumps({"tokens_per_s": speed}), file=replies, flush=True)


if __name__ == "__main__":
    main()
