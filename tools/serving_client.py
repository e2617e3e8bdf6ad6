#!/usr/bin/env python3
"""Sends one load of tools/serving_loads.py to a server and prints the figures as a JSON object.

    serving_client.py incipit|llama-server HOST:PORT --load chatbot [--requests 48] [--concurrency 8] [--seed 1]

`incipit` is the RPC Generate of incipit.v1.Inference; it needs the Python package grpcio, and the generated stubs of
proto/incipit/v1 in the Python path. `llama-server` is the HTTP route /completion of llama.cpp's server. The client
keeps `--concurrency` requests in progress (a closed loop). One request that is not measured comes first.
"""
import argparse
import http.client
import json
import sys
import threading
import time

import serving_loads
from serving_loads import TokenTimes

READ_SECONDS_MAX = 900  # maximum time that the HTTP client waits for data


def incipit_sender(address):
    """Returns a function that sends one job over gRPC and returns its record."""
    import grpc
    from incipit.v1 import inference_pb2, inference_pb2_grpc

    channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
    stub = inference_pb2_grpc.InferenceStub(channel)

    def send(index, job):
        request = inference_pb2.GenerateRequest()
        request.token_ids.ids.extend(job.prompt)
        request.sampling.temperature = 0
        request.output.max_tokens = job.output_tokens
        request.output.ignore_eos = True
        cached = 0
        times = TokenTimes(time.perf_counter())
        for message in stub.Generate(request):
            times.add(sum(len(delta.token_ids) for delta in message.deltas), time.perf_counter())
            if message.HasField("usage"):
                cached = message.usage.cached_tokens
        return times.record(index, job, cached)

    return send


def llama_sender(address):
    """Returns a function that sends one job to llama-server and returns its record."""

    def send(index, job):
        body = json.dumps({"prompt": job.prompt, "n_predict": job.output_tokens, "temperature": 0, "ignore_eos": True,
                           "cache_prompt": True, "stream": True})
        cached = None
        times = TokenTimes(time.perf_counter())
        connection = http.client.HTTPConnection(address, timeout=READ_SECONDS_MAX)
        try:
            connection.request("POST", "/completion", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                raise ValueError(f"llama-server returned status {response.status}: {response.read(1000)!r}")
            for line in response:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[len(b"data: "):])
                if "error" in event:
                    raise ValueError(f"llama-server returned an error: {event['error']}")
                # A token that is part of a UTF-8 character has no event of its own, but counts in a later event.
                # Versions without the key in each event send one event for each token.
                known = event.get("tokens_predicted", times.count + (not event.get("stop")))
                times.add(known - times.count, time.perf_counter())
                if event.get("stop"):
                    cached = event.get("timings", {}).get("cache_n")
        finally:
            connection.close()
        return times.record(index, job, cached)

    return send


SENDERS = {"incipit": incipit_sender, "llama-server": llama_sender}


def closed_loop(jobs, concurrency, send):
    """Sends `jobs` in order, `concurrency` at a time. Returns the records, ordered by index, and the seconds of the
    whole run. If a request fails, sends no further jobs and raises the first error."""
    lock = threading.Lock()
    waiting = iter(enumerate(jobs))
    records, errors = [], []

    def work():
        while True:
            with lock:
                found = None if errors else next(waiting, None)
            if found is None:
                return
            try:
                record = send(*found)
            except Exception as error:
                with lock:
                    errors.append(error)
                return
            with lock:
                records.append(record)

    threads = [threading.Thread(target=work) for _ in range(concurrency)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    if errors:
        raise errors[0]
    return sorted(records), seconds


def add_load_flags(parser):
    parser.add_argument("--load", choices=serving_loads.LOADS, required=True)
    parser.add_argument("--requests", type=int, default=48)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vocabulary", type=int, default=serving_loads.VOCABULARY, help="end of the range of the token ids")


def jobs_of(options):
    return serving_loads.jobs(options.load, options.requests, options.concurrency, options.seed, options.vocabulary)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=SENDERS)
    parser.add_argument("address")
    add_load_flags(parser)
    options = parser.parse_args()
    jobs = jobs_of(options)
    send = SENDERS[options.kind](options.address)
    try:
        send(-1, serving_loads.warm_up_job(options.vocabulary))
        records, seconds = closed_loop(jobs, options.concurrency, send)
    except Exception as error:
        sys.exit(f"{options.kind} at {options.address}: {error}")
    print(json.dumps(serving_loads.summary(records, seconds)))


if __name__ == "__main__":
    main()
