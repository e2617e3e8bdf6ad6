"""Measures how the server admits and refuses requests, over a fake runner. The server runs on one core and its clients
run on another:

    python3 tests/e2e/run.py build/release/fake_server door [attack] [cost] [flood] [queue] [slow] [streams]
        [--seconds N] [--rounds N]

attack: how long health checks and new connections wait while the server prepares two requests with 62 tools each. Each
        tool has 8,000 members.
cost:   CPU time of a call that is refused because of requests-max, a wrong tenant name or a drain. The baseline is a
        handler that ends the call without parsing its message.
flood:  latency of health checks and time between the tokens of 16 streams, with steps of 20 ms, while calls are refused.
queue:  memory, and the latency of small calls on one connection, while other connections fill the queue of the text
        threads with large texts.
slow:   time between the tokens of 950 streams while the clients of 50 further streams do not read. Fails if a stream
        of the 950 fails, or if the server does not end each of the 50.
streams: CPU time of a streamed token, memory of a stream, and time between the tokens of up to 1,000 streams.

Prints Markdown. REQUIRES: the programs `load_client` and `stream_client` are in the folder of the server's program.
"""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading

import grpc
from harness.server import PROGRAM, Server
from incipit.v1 import admin_pb2, inference_pb2
from input_cost import ROOM, chat, members, spread, tool, USER

CLIENT = pathlib.Path(PROGRAM).parent / "load_client"
STREAM_CLIENT = CLIENT.with_name("stream_client")
CORES = sorted(os.sched_getaffinity(0))[:2]
STREAMS = 16
KILOBYTE, MEGABYTE = 1_000, 1_000_000
CODES = {str(code.value[0]): code.name for code in grpc.StatusCode}


def codes_of(found):
    return ", ".join(f"{count} {CODES[code]}" for code, count in found.get("codes", {}).items())


def use_core(core):
    """Moves this process with all of its threads to the CPU core `core`."""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), {core})


class PinnedServer(Server):
    """A server on the first CPU core. The process that starts the server moves to the last core."""

    def __init__(self, *flags, **options):
        use_core(CORES[0])
        try:
            super().__init__(*ROOM, *flags, **options)
        finally:
            use_core(CORES[-1])

    def load_client(self, *flags):
        command = [CLIENT, "--address", self.address, "--server-pid", str(self.process.pid), *flags]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def run_client(self, *flags):
        with self.load_client(*flags) as client:
            return json.loads(client.stdout.read())


# --- measurement of health checks and new connections during expensive requests

def attack(arguments):
    print("Two requests of 62 tools with 8,000 members each:\n")
    print("| what | calls | median, ms | longest, ms |\n|---|---|---|---|")
    body = chat(USER, spread(members(), tool)(62 * 65_500))
    template = pathlib.Path(os.environ["INCIPIT_TEST_DATA"]) / "chat_templates/Qwen-Qwen2.5-7B-Instruct.jinja"
    model = pathlib.Path(os.environ["INCIPIT_TEST_DATA"]) / "tokenizers/qwen2"
    with PinnedServer("--chat-template", str(template), model=model) as server:
        probe = server.load_client("--seconds", str(arguments.seconds), "--health-interval-ms", "20",
                                   "--connect-interval-ms", "50")
        threading.Event().wait(2)
        ends = []

        def send():
            try:
                list(server.connect().unary_stream("/incipit.v1.Inference/Chat")(body))
                ends.append("OK")
            except grpc.RpcError as error:
                ends.append(error.code().name)

        senders = [threading.Thread(target=send) for _ in range(2)]
        for sender in senders:
            sender.start()
        with probe:
            found = json.loads(probe.stdout.read())
        for sender in senders:
            sender.join()
    for name, key in (("health check on one connection", "health"), ("health check on a new connection", "connect")):
        row = found[key]
        print(f"| {name} | {row['count']} | {row['p50_ms']:.1f} | {row['max_ms']:.0f} |")
    print(f"\nThe requests are {len(body):,} bytes each and end with {', '.join(ends)}; CPU of the server "
          f"{found['server_cpu_seconds']:.1f} s; the checks end with {codes_of(found['health'])}, on new connections "
          f"with {codes_of(found['connect'])}.\n")


# --- measurement of the CPU time of refused calls

def hold_a_slot(server):
    """Starts a request that runs until it is cancelled."""
    request = inference_pb2.GenerateRequest(token_ids=inference_pb2.TokenIds(ids=[5, 6, 7]))
    call = server.inference.Generate(request)
    while server.load().running == 0:
        threading.Event().wait(0.01)
    return call


def cost(arguments):
    print("CPU of the server per refused call, 200 calls one after the other, best of "
          f"{arguments.rounds}; 'more' is beside the handler that does not parse:\n")
    print("| text | refused for | CPU, us | more, us | code |\n|---|---|---|---|---|")
    with PinnedServer("--step-time-ms", "1000", "--requests-max", "1") as server:
        held = hold_a_slot(server)
        least = {"the handler that does not parse": ["--flood-address", f"127.0.0.1:{server.ports['baseline']}"]}
        compare(server, arguments, {**least, "requests-max": [], "a wrong tenant name": ["--flood-tenant", "a b"]})
        drain = server.admin.Drain.future(admin_pb2.DrainRequest())
        while not server.load().draining:
            threading.Event().wait(0.01)
        compare(server, arguments, {**least, "drain": []})
        drain.cancel()
        held.cancel()
    print()


def compare(server, arguments, kinds):
    """Measures all `kinds` of calls in turn, so that a disturbance of the machine affects all kinds. The first kind
    is the baseline."""
    for size in (KILOBYTE, MEGABYTE):
        runs = {name: [] for name in kinds}
        for _ in range(arguments.rounds):
            for name, flags in kinds.items():
                runs[name].append(server.run_client("--flood-calls", "200", "--flood-bytes", str(size), *flags))
        best = {name: min(found, key=lambda run: run["server_cpu_seconds"]) for name, found in runs.items()}
        cost_us = {name: found["server_cpu_seconds"] / 200 * 1e6 for name, found in best.items()}
        least = next(iter(cost_us.values()))
        for name, found in best.items():
            print(f"| {size:,} bytes | {name} | {cost_us[name]:.0f} | {cost_us[name] - least:+.0f} | "
                  f"{codes_of(found['flood'])} |", flush=True)


# --- measurement of health checks and streams while calls are refused

FLOODS = {
    "none": [],
    "5,000 a second of 1 KB": ["--flood-rate", "5000", "--flood-bytes", str(KILOBYTE)],
    "50 a second of 1 MB": ["--flood-rate", "50", "--flood-bytes", str(MEGABYTE)],
}


def flood(arguments):
    print(f"{STREAMS} streams, steps of 20 ms, requests-max {STREAMS}; {arguments.rounds} rounds of "
          f"{arguments.seconds} s:\n")
    print("| flood | refused a second | left out | health p99, ms | health max, ms | new connection max, ms | "
          "tokens p50, ms | tokens p99, ms | tokens max, ms | server CPU |\n|---|---|---|---|---|---|---|---|---|---|")
    with PinnedServer("--step-time-ms", "20", "--requests-max", str(STREAMS)) as server:
        for _ in range(arguments.rounds):
            for name, flags in FLOODS.items():
                found = server.run_client("--streams", str(STREAMS), "--seconds", str(arguments.seconds),
                                          "--health-interval-ms", "20", "--connect-interval-ms", "100", *flags)
                server.wait_until_idle()
                calls = found.get("flood", {"count": 0, "left_out": 0})
                health, streams = found["health"], found["streams"]
                print(f"| {name} | {calls['count'] / found['seconds']:.0f} | {calls['left_out']} | "
                      f"{health['p99_ms']:.1f} | {health['max_ms']:.1f} | {found['connect']['max_ms']:.1f} | "
                      f"{streams['p50_ms']:.1f} | {streams['p99_ms']:.1f} | {streams['max_ms']:.1f} | "
                      f"{found['server_cpu_seconds'] / found['seconds_to_last_end']:.0%} |", flush=True)
    print()


# --- measurement of small calls while the queue of the text threads is full

def memory_peak_mb(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def queue(arguments):
    print("5 small calls a second on one connection, while 8 other ones send texts of 4 MB, "
          f"{arguments.seconds} s:\n")
    print("| large calls end with | small calls end with | median, ms | longest, ms | health max, ms | "
          "peak memory, MB |\n|---|---|---|---|---|---|")
    for large in (False, True):
        with PinnedServer("--model-name", "fake") as server:
            flags = ["--flood-rate", "300", "--flood-bytes", "4000000", "--flood-connections", "8",
                     "--flood-in-flight-max", "600"]
            before = memory_peak_mb(server)
            flooding = server.load_client("--seconds", str(arguments.seconds + 3), "--warmup-seconds", "0",
                                          "--health-interval-ms", "20", *(flags if large else []))
            threading.Event().wait(2)
            small = server.run_client("--flood-rate", "5", "--flood-bytes", "100", "--flood-connections", "1",
                                      "--seconds", str(arguments.seconds), "--warmup-seconds", "0")["flood"]
            with flooding:
                found = json.loads(flooding.stdout.read())
            print(f"| {codes_of(found.get('flood', {}))} | {codes_of(small)} | {small['p50_ms']:.1f} | "
                  f"{small['max_ms']:.0f} | {found['health']['max_ms']:.0f} | {memory_peak_mb(server) - before:.0f} |",
                  flush=True)
    print()


# --- measurement of streams

STEP_MS = 20
WARMUP_SECONDS = 2
STREAM_LIMITS = ["--streams-max", "4096", "--connection-streams-max", "4096", "--requests-max", "4096", "--running-max",
                 "2048", "--http-connections-max", "4096", "--text-queue-max", "4096"]
# Protocol, number of connections, and number of streams on each connection.
STREAM_LOADS = [("gRPC", 1, 32), ("HTTP", 32, 1), ("gRPC", 8, 32), ("HTTP", 256, 1), ("gRPC", 256, 1), ("gRPC", 8, 125),
                ("HTTP", 1000, 1)]


def measure_streams(protocol, connections, on_each, seconds, *server_flags, unread=0):
    """Runs all streams in a new server, and returns what `stream_client` prints. Clients do not read `unread` streams."""
    flags = ["--step-time-ms", str(STEP_MS), "--sampled-token", "300", "--model-name", "fake", *server_flags]
    with PinnedServer(*flags, *STREAM_LIMITS, http=True, files_max=8192) as server:
        port = server.ports["http" if protocol == "HTTP" else "grpc"]
        # The streams must not end before the measurement.
        tokens = int((WARMUP_SECONDS + seconds + 5) * 1000 / STEP_MS)
        command = [STREAM_CLIENT, "--address", f"127.0.0.1:{port}", "--server-pid", str(server.process.pid),
                   "--connections", str(connections), "--streams", str(on_each), "--tokens", str(tokens),
                   "--warmup-seconds", str(WARMUP_SECONDS), "--seconds", str(seconds), "--unread", str(unread),
                   *(["--http"] if protocol == "HTTP" else [])]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def streams(arguments):
    print(f"Steps of {STEP_MS} ms, prompts of 100 tokens; medians of {arguments.rounds} rounds of {arguments.seconds} s. "
          "'Gap': time between two tokens of a stream, beyond the time of a step:\n")
    print("| protocol | connections | streams | CPU of the server, us a token | tokens a message | gap p50, ms | gap p99, ms "
          "| gap max, ms | memory, KiB a stream | failed |\n|---|---|---|---|---|---|---|---|---|---|")
    for protocol, connections, on_each in STREAM_LOADS:
        runs = [measure_streams(protocol, connections, on_each, arguments.seconds) for _ in range(arguments.rounds)]

        def median(value, runs=runs):
            return sorted(value(run) for run in runs)[len(runs) // 2]

        gaps = [median(lambda run, key=key: run["gaps"].get(key, float("nan"))) - STEP_MS for key in ("p50_ms", "p99_ms", "max_ms")]
        print(f"| {protocol} | {connections} | {connections * on_each} | {median(lambda run: run['us_per_token']):.1f} | "
              f"{median(lambda run: run['tokens_per_message']):.3f} | {gaps[0]:.2f} | {gaps[1]:.2f} | {gaps[2]:.1f} | "
              f"{median(lambda run: run['memory_bytes_per_stream']) / 1024:.0f} | "
              f"{sum(run['failed'] for run in runs)} |", flush=True)
    print()


# --- measurement of streams whose clients do not read

SLOW_STREAMS = 50
STALL_SECONDS = 3  # --write-stall-timeout. The server resets a gRPC call after twice this time.
# The measurement includes the time until the buffers of the slow streams are full, and twice STALL_SECONDS.
SLOW_SECONDS_MIN = 20


def slow(arguments):
    seconds = max(arguments.seconds, SLOW_SECONDS_MIN)
    print(f"Steps of {STEP_MS} ms; 1,000 streams; write-stall-timeout {STALL_SECONDS} s; one round of {seconds} s. 'Gap': time "
          "between two tokens of a stream that is read, beyond the time of a step:\n")
    print("| protocol | connections | unread streams | gap p50, ms | gap p99, ms | gap max, ms | read streams that failed | unread streams that "
          "the server ended | memory, KiB a stream |\n|---|---|---|---|---|---|---|---|---|")
    loads = [(*load, unread) for load in (("gRPC", 8, 125), ("HTTP", 1000, 1)) for unread in (0, SLOW_STREAMS)]
    for protocol, connections, on_each, unread in loads:
        found = measure_streams(protocol, connections, on_each, seconds, "--write-stall-timeout", f"{STALL_SECONDS}s",
                                unread=unread)
        gaps = [found["gaps"][key] - STEP_MS for key in ("p50_ms", "p99_ms", "max_ms")]
        print(f"| {protocol} | {connections} | {unread} | {gaps[0]:.2f} | {gaps[1]:.2f} | {gaps[2]:.1f} | {found['failed']} | "
              f"{found['unread_failed']} of {found['unread']} | {found['memory_bytes_per_stream'] / 1024:.0f} |", flush=True)
        assert found["all_ran"], "a stream ended before the end of the measurement"
        assert (found["failed"], found["unread_failed"]) == (0, unread), found
    print()


PARTS = {"attack": attack, "cost": cost, "flood": flood, "queue": queue, "slow": slow, "streams": streams}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if len(CORES) < 2:
        print("skipped: needs two cores")
        return 77
    for part in arguments.parts or PARTS:
        PARTS[part](arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
