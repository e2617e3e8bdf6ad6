#!/usr/bin/env python3
"""Measures attention of PyTorch and FlashInfer and the matrix product of PyTorch, for comparison with our kernels.
Prints a line of JSON for each, in the format of the programs of tests/gpu_check. gpu_check runs this program if
Python has PyTorch.

    gpu_yardsticks.py [--smoke] [--device cuda|cpu]

Exits with 77 and prints the reason if there is no PyTorch, or no GPU that PyTorch can use.
"""
import argparse
import json
import math
import sys
import time

NO_TORCH = 77
SAMPLES = 50
SAMPLE_SECONDS = 0.008
TURN_BYTES = 900 << 20  # bytes of memory used in turn, so that no data is found in L2
HEADS, KV_HEADS, DIM, PAGE = 32, 8, 128, 16
DECODE = [(8, 16384), (8, 4096), (1, 32768), (64, 640), (1, 1024)]
PREFILL = [8192, 2048]


def said_by(error):
    """Returns the type and the first line of an error."""
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


class Timer:
    def __init__(self, torch, device, smoke):
        self.torch, self.device, self.smoke = torch, device, smoke

    def random(self, *shape):
        return self.torch.empty(shape, dtype=self.torch.bfloat16, device=self.device).uniform_(-0.03, 0.03)

    def report(self, name, turns, call, size=0.0, flops=0.0):
        """Measures `call(i)` for i in [0, turns), recorded in a graph and repeated for about SAMPLE_SECONDS."""
        try:
            seconds, calls = self.on_card(turns, call) if self.device == "cuda" else self.on_host(turns, call)
        except Exception as error:  # an error of a foreign library must not stop the other measurements
            print(json.dumps({"note": f"{name}: {said_by(error)}"}), flush=True)
            return
        seconds.sort()
        print(json.dumps({"name": name, "seconds": seconds[len(seconds) // 2], "shortest": seconds[0],
                          "longest": seconds[-1], "samples": len(seconds), "calls": calls, "bytes": size,
                          "flops": flops}), flush=True)

    def on_host(self, turns, call):
        seconds = []
        for _ in range(2):
            begin = time.perf_counter()
            for turn in range(turns):
                call(turn)
            seconds.append((time.perf_counter() - begin) / turns)
        return seconds, turns

    def on_card(self, turns, call):
        torch = self.torch
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

        def record(rounds):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for i in range(rounds * turns):
                    call(i % turns)
            graph.replay()
            torch.cuda.synchronize()
            return graph

        def seconds_of(graph):
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            return begin.elapsed_time(end) / 1e3

        stream = torch.cuda.Stream()  # the first call prepares the library, which a graph cannot record
        with torch.cuda.stream(stream):
            call(0)
        torch.cuda.synchronize()
        rounds = min(max(1, math.ceil(SAMPLE_SECONDS / seconds_of(record(1)))), max(1, 1000 // turns))
        graph = record(rounds)
        return [seconds_of(graph) / (rounds * turns) for _ in range(SAMPLES)], rounds * turns


def turns_for(size, smoke):
    return 2 if smoke else max(1, math.ceil(TURN_BYTES / size))


def products(timer):
    n = 64 if timer.smoke else 8192
    a, b = timer.random(n, n), timer.random(n, n)
    timer.report(f"torch.matmul, {n} x {n} x {n}", 1, lambda _: timer.torch.matmul(a, b), flops=2.0 * n**3)


def decode_bytes(batch, context):
    return 2.0 * batch * context * KV_HEADS * DIM * 2 + 2.0 * batch * HEADS * DIM * 2


def torch_attention(timer):
    attend = timer.torch.nn.functional.scaled_dot_product_attention
    for batch, context in [(2, 40)] if timer.smoke else DECODE:
        size = decode_bytes(batch, context)
        turns = turns_for(size, timer.smoke)
        kv = [timer.random(2, batch, KV_HEADS, context, DIM) for _ in range(turns)]
        q = timer.random(batch, HEADS, 1, DIM)
        timer.report(f"torch attention, decode, {batch} x {context}, not paged", turns,
                     lambda i: attend(q, kv[i][0], kv[i][1], enable_gqa=True), size=size,
                     flops=4.0 * batch * context * HEADS * DIM)
        del kv
    for context in [48] if timer.smoke else PREFILL:
        q, kv = timer.random(1, HEADS, context, DIM), timer.random(2, 1, KV_HEADS, context, DIM)
        timer.report(f"torch attention, prefill, 1 x {context}, not paged", 1,
                     lambda _: attend(q, kv[0], kv[1], is_causal=True, enable_gqa=True),
                     flops=2.0 * context * (context + 1) * HEADS * DIM)


def pages_of(torch, batch, context):
    each = context // PAGE
    order = torch.randperm(batch * each, device="cuda", dtype=torch.int32)
    begin = torch.arange(0, batch + 1, device="cuda", dtype=torch.int32) * each
    return begin, order, torch.full((batch,), PAGE, device="cuda", dtype=torch.int32)


def flashinfer_attention(timer, flashinfer):
    torch = timer.torch
    for batch, context in DECODE:
        size = decode_bytes(batch, context)
        turns = turns_for(size, False)
        begin, order, last = pages_of(torch, batch, context)
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
            torch.empty(256 << 20, dtype=torch.uint8, device="cuda"), "HND", use_cuda_graph=True,
            paged_kv_indptr_buffer=begin, paged_kv_indices_buffer=order, paged_kv_last_page_len_buffer=last,
            use_tensor_cores=True)
        wrapper.plan(begin, order, last, HEADS, KV_HEADS, DIM, PAGE, q_data_type=torch.bfloat16)
        kv = [timer.random(batch * context // PAGE, 2, KV_HEADS, PAGE, DIM) for _ in range(turns)]
        q = timer.random(batch, HEADS, DIM)
        timer.report(f"FlashInfer, decode, {batch} x {context}", turns, lambda i: wrapper.run(q, kv[i]), size=size,
                     flops=4.0 * batch * context * HEADS * DIM)
        del kv
    for context in PREFILL:
        begin, order, last = pages_of(torch, 1, context)
        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(
            torch.empty(256 << 20, dtype=torch.uint8, device="cuda"), "HND")
        rows = torch.tensor([0, context], device="cuda", dtype=torch.int32)
        wrapper.plan(rows, begin, order, last, HEADS, KV_HEADS, DIM, PAGE, causal=True, q_data_type=torch.bfloat16)
        kv, q = timer.random(context // PAGE, 2, KV_HEADS, PAGE, DIM), timer.random(context, HEADS, DIM)
        timer.report(f"FlashInfer, prefill, 1 x {context}", 1, lambda _: wrapper.run(q, kv),
                     flops=2.0 * context * (context + 1) * HEADS * DIM)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        print(f"PyTorch is not installed for {sys.executable}: {error}", file=sys.stderr)
        return NO_TORCH
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} finds no GPU", file=sys.stderr)
        return NO_TORCH
    print(json.dumps({"version": f"PyTorch {torch.__version__}"}), flush=True)
    timer = Timer(torch, arguments.device, arguments.smoke)
    with torch.inference_mode():
        products(timer)
        torch_attention(timer)
        if arguments.device == "cpu":
            return 0
        # FlashInfer is measured last: its first calls compile, which may use up the remaining time.
        try:
            import flashinfer
            print(json.dumps({"version": f"FlashInfer {flashinfer.__version__}"}), flush=True)
            flashinfer_attention(timer, flashinfer)
        except ImportError as error:
            print(json.dumps({"note": f"FlashInfer was not measured: {error}"}), flush=True)
        except Exception as error:  # an error of a foreign library must not discard earlier measurements
            print(json.dumps({"note": f"FlashInfer was not measured: {said_by(error)}"}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
