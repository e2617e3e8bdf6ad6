#!/usr/bin/env python3
"""Runs one load of tools/serving_loads.py on OpenVINO GenAI and prints the figures as a JSON object.

    openvino_serving.py FILE.gguf --threads N --load chatbot [--requests 48] [--concurrency 8] [--seed 1]

tools/compare_serving.py runs this program as a peer. OpenVINO's continuous batching runs in this process, with its
prefix cache on. The program keeps `--concurrency` requests in progress: a request starts in the next step after the end
of another request. One request that is not measured comes first.
"""
import argparse
import json
import sys
import time

import numpy
import openvino
import openvino_genai as genai

import serving_loads
from serving_client import add_load_flags, jobs_of
from serving_loads import TokenTimes

CACHE_GB = 2
BATCH_TOKENS = 512  # maximum number of tokens in a step; longer prompts take several steps


class Engine:
    def __init__(self, path, threads):
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = CACHE_GB
        scheduler.max_num_batched_tokens = BATCH_TOKENS
        scheduler.dynamic_split_fuse = True
        scheduler.enable_prefix_caching = True
        self.pipeline = genai.ContinuousBatchingPipeline(path, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads}, {})
        self.next_id = 0

    def add(self, job):
        config = genai.GenerationConfig()
        config.max_new_tokens = job.output_tokens
        config.ignore_eos = True
        config.do_sample = False
        self.next_id += 1
        prompt = openvino.Tensor(numpy.array([job.prompt], dtype=numpy.int64))
        return self.pipeline.add_request(self.next_id, prompt, config)

    def run(self, jobs, concurrency):
        """Returns the records in the order of the requests' ends, and the seconds of the whole run."""
        live, records = {}, []
        waiting = iter(enumerate(jobs))
        begin = time.perf_counter()
        while len(records) < len(jobs):
            while len(live) < concurrency and (found := next(waiting, None)):
                times = TokenTimes(time.perf_counter())
                live[found[0]] = (found[1], self.add(found[1]), times)
            self.pipeline.step()
            now = time.perf_counter()
            for index, (job, handle, times) in list(live.items()):
                while handle.can_read():
                    times.add(sum(len(output.generated_ids) for output in handle.read().values()), now)
                if times.count >= job.output_tokens:
                    records.append(times.record(index, job, None))
                    del live[index]
        return records, time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--threads", type=int, required=True)
    add_load_flags(parser)
    options = parser.parse_args()
    reply, sys.stdout = sys.stdout, sys.stderr  # the library prints to standard output too
    engine = Engine(options.file, options.threads)
    engine.run([serving_loads.warm_up_job(options.vocabulary)], 1)
    records, seconds = engine.run(jobs_of(options), options.concurrency)
    print(json.dumps(serving_loads.summary(records, seconds)), file=reply)


if __name__ == "__main__":
    main()
