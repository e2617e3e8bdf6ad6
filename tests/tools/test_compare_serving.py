"""Checks the comparison of servers under load without the compared engines: loads, times, table, and the client of
llama-server against a fake llama-server."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import compare_serving  # noqa: E402
import serving_client  # noqa: E402
import serving_engines  # noqa: E402
import serving_loads  # noqa: E402
import serving_table  # noqa: E402
from serving_loads import Job, Record, TokenTimes  # noqa: E402

# SHA-256 of the jobs (48 requests, 8 at a time, seed 1) as JSON. Published figures have these token ids.
DIGESTS = {
    "chatbot": "1c3d192668970c0acf6a83d205a4cb279cd910687d42e17a1f922c004cb221b9",
    "multi-turn": "4fa00de36161e7fb19ce65708baa4127a4d41f32d9ee6c9c1c8789bed1742ff8",
    "long-and-short": "d298dd2de5301fdecbfb476a51c2b5c94a43a36452c0d1669fedcc0cf67293fd",
}


class LoadsTest(unittest.TestCase):
    def test_the_token_ids_of_a_load_never_change(self) -> None:
        for load, digest in DIGESTS.items():
            text = json.dumps([[job.prompt, job.output_tokens] for job in serving_loads.jobs(load, 48, 8, 1)])
            self.assertEqual(hashlib.sha256(text.encode()).hexdigest(), digest, load)

    def test_chatbot_prompts_share_the_system_prompt_only(self) -> None:
        jobs = serving_loads.jobs("chatbot", 5, 2, 7)
        self.assertEqual(len({tuple(job.prompt[:512]) for job in jobs}), 1)
        self.assertEqual(len({job.prompt[512] for job in jobs}), 5)
        self.assertTrue(all(512 + 16 <= len(job.prompt) <= 512 + 64 for job in jobs))

    def test_a_turn_begins_with_the_previous_turn_of_the_same_conversation(self) -> None:
        jobs = serving_loads.jobs("multi-turn", 7, 2, 1)  # 3 turns of 2 conversations
        self.assertEqual([len(job.prompt) for job in jobs], [552, 552, 624, 624, 696, 696])
        for job, previous in zip(jobs[2:], jobs):
            self.assertEqual(job.prompt[:len(previous.prompt)], previous.prompt)

    def test_one_of_eight_prompts_is_long(self) -> None:
        lengths = [len(job.prompt) for job in serving_loads.jobs("long-and-short", 17, 8, 1)]
        self.assertEqual([i for i, length in enumerate(lengths) if length == 3000], [3, 11])
        self.assertEqual(serving_loads.context_tokens(serving_loads.jobs("long-and-short", 17, 8, 1)), 3008)

    def test_the_vocabulary_limits_the_token_ids(self) -> None:
        for job in [*serving_loads.jobs("chatbot", 4, 2, 1, 310), serving_loads.warm_up_job(310)]:
            self.assertTrue(all(300 <= token < 310 for token in job.prompt))

    def test_the_warm_up_shares_no_prefix_with_a_load(self) -> None:
        firsts = {job.prompt[0] for load in DIGESTS for job in serving_loads.jobs(load, 48, 8, 1)}
        self.assertNotIn(serving_loads.warm_up_job().prompt[0], firsts)


class FiguresTest(unittest.TestCase):
    def test_tokens_of_one_message_share_the_time_since_the_previous_message(self) -> None:
        times = TokenTimes(10.0)
        for count, now in ((0, 10.5), (1, 11.0), (2, 13.0), (0, 14.0), (1, 14.5)):
            times.add(count, now)
        record = times.record(3, Job([1, 2], 4), 1)
        self.assertEqual(record, Record(3, 2, 1, 1.0, [1.0, 1.0, 1.5], 4.5))
        self.assertEqual(record.output_tokens, 4)

    def test_an_output_of_the_wrong_length_is_an_error(self) -> None:
        with self.assertRaisesRegex(ValueError, "request 3 has 0 output tokens instead of 4"):
            TokenTimes(0).record(3, Job([1], 4), None)

    def test_percentiles_are_by_nearest_rank(self) -> None:
        values = [float(value) for value in range(100, 0, -1)]
        self.assertEqual(serving_loads.percentile(values, 0.5), 50)
        self.assertEqual(serving_loads.percentile(values, 0.99), 99)
        self.assertEqual(serving_loads.percentile([7.0], 0.99), 7)
        self.assertIsNone(serving_loads.percentile([], 0.5))

    def test_a_summary_counts_tokens_and_leaves_long_prompts_out_of_the_short_ttft(self) -> None:
        records = [Record(0, 3000, 16, 9.0, [], 9.0), Record(1, 20, 4, 0.5, [0.25, 0.75], 1.5)]
        found = serving_loads.summary(records, 8.0)
        self.assertEqual(found["output_tokens_per_s"], 0.5)
        self.assertEqual(found["cached_share"], round(20 / 3020, 4))
        self.assertEqual(found["ttft_ms"], {"p50": 500, "p99": 9000})
        self.assertEqual(found["short_ttft_ms"], {"p50": 500, "p99": 500})
        self.assertEqual(found["itl_ms"], {"p50": 250, "p99": 750})
        unknown = serving_loads.summary([Record(0, 30, None, 1.0, [], 1.0)], 1.0)
        self.assertIsNone(unknown["cached_share"])


def run_of(load: str, number: int, engine: str, speed: float, ttft: float, cached: float | None = 0.5) -> dict:
    times = {"p50": ttft, "p99": 2 * ttft}
    return {"load": load, "round": number, "engine": engine, "disturbed": False, "output_tokens_per_s": speed, "ttft_ms": times,
            "short_ttft_ms": times, "itl_ms": times, "cached_share": cached}


def result(runs: list[dict], **fields: object) -> dict:
    return {"cpu": "A CPU", "threads": 2, "type": "bf16", "rounds": 3, "requests": 48, "concurrency": 8, "seed": 1, "skipped": {},
            "runs": runs, **fields}


class TableTest(unittest.TestCase):
    def runs(self) -> list[dict]:
        """Returns three rounds. The machine is half as fast in round 2, so only ratios within a round are steady."""
        found = []
        for number, pace in ((1, 1.0), (2, 0.5), (3, 1.0)):
            found += [run_of("chatbot", number, "llama-server bf16", 10 * pace, 300 / pace),
                      run_of("chatbot", number, "llama-server f16", 20 * pace, 400 / pace),
                      run_of("chatbot", number, "OpenVINO GenAI f16", 40 * pace, 100 / pace, None),
                      run_of("chatbot", number, "incipit before", 80 * pace, 60 / pace),
                      run_of("chatbot", number, "incipit", 100 * pace, 150 / pace)]
        return found

    def test_ratios_are_within_a_round_and_the_faster_weights_stand_for_a_peer(self) -> None:
        lines = serving_table.table(result(self.runs())).splitlines()
        self.assertIn("| chatbot, output tokens/s | 20.0 | 40.0 | 80.0 | 100.0 | 5.00 (at least 4.50) | 2.50 (at least 3.00) | "
                      "1.25 |", lines)
        self.assertIn("| chatbot, TTFT p50, ms | 400 | 100 | 60 | 150 | 0.38 (at most 1.00) | 1.50 (at most 1.00) | 2.50 |", lines)
        self.assertIn("| chatbot, share of prompt tokens found in the cache | 0.50 |  | 0.50 | 0.50 |  |  |  |", lines)
        self.assertFalse(any("short prompts" in line for line in lines))

    def test_missed_goals_are_listed(self) -> None:
        lines = serving_table.table(result(self.runs())).splitlines()
        missed = lines[lines.index("Missed goals:") + 2:]
        self.assertEqual(missed[0], "- chatbot, output tokens/s, against OpenVINO GenAI f16: 2.50 (at least 3.00)")
        self.assertEqual(len(missed), 3)
        fast = [run for run in self.runs() if not run["engine"].startswith("OpenVINO")]
        self.assertEqual(serving_table.table(result(fast)).splitlines()[-1], "No goal is missed.")

    def test_every_row_has_as_many_cells_as_the_header(self) -> None:
        lines = [line for line in serving_table.table(result(self.runs())).splitlines() if line.startswith("|")]
        self.assertEqual({line.count("|") for line in lines}, {lines[0].count("|")})

    def test_skipped_peers_and_disturbed_runs_are_named(self) -> None:
        runs = [dict(run_of("long-and-short", 1, "incipit", 9, 9), disturbed=True)]
        text = serving_table.table(result(runs, skipped={"llama-server": "build/x does not exist"}))
        self.assertIn("llama-server was not measured: build/x does not exist.", text)
        self.assertIn("Other programs disturbed 1 of 1 runs", text)
        self.assertIn("| long-and-short, TTFT p99 of short prompts, ms | 18 |", text)
        self.assertNotIn("goal is missed", text)

    def test_a_load_without_a_peer_has_empty_cells(self) -> None:
        text = serving_table.table(result([*self.runs(), run_of("multi-turn", 1, "incipit", 70, 9)]))
        self.assertIn("| multi-turn, output tokens/s |  |  |  | 70.0 |  |  |  |", text)

    def test_every_load_has_goals(self) -> None:
        self.assertEqual(tuple(serving_table.SPEED_GOALS), serving_loads.LOADS)


FAKE_LLAMA_SERVER = """
    #!{python}
    # Streams n_predict tokens. The second token has no event of its own. Ends with an error for prompts of 3,000 tokens.
    import http.server, json, sys
    flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        def do_GET(self):
            self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert body["cache_prompt"] and body["ignore_eos"] and body["temperature"] == 0
            self.send_response(200); self.send_header("Transfer-Encoding", "chunked"); self.end_headers()
            def send(text):
                data = text.encode(); self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(data), data))
            send(": ping\\n\\n")
            if len(body["prompt"]) == 3000:
                send("data: " + json.dumps({{"error": "too long for " + flags["--ctx-size"]}}) + "\\n\\n")
            for n in range(1, body["n_predict"] + 1):
                if n != 2:
                    send("data: " + json.dumps({{"tokens_predicted": n, "content": "x", "stop": False}}) + "\\n\\n")
            send("data: " + json.dumps({{"tokens_predicted": body["n_predict"], "stop": True,
                                        "timings": {{"cache_n": len(body["prompt"]) // 2}}}}) + "\\n\\n")
            send("")
        def log_message(self, *_):
            pass
    http.server.ThreadingHTTPServer((flags["--host"], int(flags["--port"])), Handler).serve_forever()
"""


class LlamaServerTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = Path(folder.name) / "llama-server"
        program.write_text(textwrap.dedent(FAKE_LLAMA_SERVER).lstrip().format(python=sys.executable))
        program.chmod(0o755)
        self.options = argparse.Namespace(
            llama_server=program, folder=Path(folder.name), stubs=Path(folder.name), python=sys.executable, pin=[], threads=2,
            requests=6, concurrency=2, seed=1, vocabulary=30000)

    def test_a_run_counts_the_tokens_that_have_no_event_of_their_own(self) -> None:
        found = serving_engines.LlamaServer(self.options, "llama-server", "model.gguf").measure("chatbot")
        self.assertEqual((found["requests"], found["output_tokens"]), (6, 6 * 48))
        self.assertAlmostEqual(found["cached_share"], 0.5, delta=0.01)

    def test_an_error_of_the_server_ends_the_run(self) -> None:
        with self.assertRaisesRegex(SystemExit, "too long for 6144"):  # 2 slots of 3,009 tokens, rounded up to 256
            serving_engines.LlamaServer(self.options, "llama-server", "model.gguf").measure("long-and-short")

    def test_a_server_that_does_not_start_is_reported_with_its_log(self) -> None:
        self.options.llama_server = Path("/bin/false")
        with self.assertRaisesRegex(SystemExit, "llama-server did not start; see .*llama-server.log"):
            serving_engines.LlamaServer(self.options, "llama-server", "model.gguf").measure("chatbot")


class EnginesTest(unittest.TestCase):
    def options(self, **fields: object) -> argparse.Namespace:
        values = dict(type="bf16", gguf=None, llama_server=Path("/missing/llama-server"), python=Path("/missing/python"),
                      models=Path("/missing/models"), before=None, program=Path("incipit"))
        return argparse.Namespace(**{**values, **fields})

    def test_peers_that_are_not_installed_are_skipped_with_a_reason(self) -> None:
        engines, skipped = serving_engines.find_engines(self.options(before=Path("old")))
        self.assertEqual([engine.name for engine in engines], ["incipit before", "incipit"])
        self.assertEqual(skipped, {"llama-server": "/missing/llama-server does not exist",
                                   "OpenVINO GenAI": "/missing/python does not exist"})

    def test_missing_weights_and_missing_modules_are_reasons_too(self) -> None:
        _, skipped = serving_engines.find_engines(self.options(llama_server=Path(__file__)))
        self.assertIn("qwen2-0.5b-bf16.gguf", skipped["llama-server"])
        self.assertIn("no_such_module", serving_engines.missing_module(sys.executable, "no_such_module"))
        self.assertIsNone(serving_engines.missing_module(sys.executable, "json"))

    def test_every_type_of_weights_of_a_peer_is_an_engine(self) -> None:
        options = self.options(llama_server=Path(__file__), gguf=Path(__file__))
        self.assertEqual(serving_engines.find_engines(options)[0][0].name, "llama-server")


class MeasureTest(unittest.TestCase):
    """Peers that fail, with engines that only return a number."""

    def measure(self, engines: list[object], runs: list[dict]) -> dict:
        options = argparse.Namespace(loads=["chatbot", "multi-turn"], rounds=2, cpus=[], quiet_wait=0)
        skipped = {}
        with mock.patch.object(compare_serving.compare_cpu, "wait_for_quiet", lambda _: True), \
                mock.patch.object(compare_serving, "say"):
            for _ in compare_serving.measure(options, engines, runs, skipped):
                pass
        return skipped

    def engine(self, name: str, fails_at: int | None) -> object:
        calls = []

        class Engine(serving_engines.Incipit if name == "incipit" else object):
            def __init__(self) -> None:
                self.name = name

            def measure(self, load: str) -> dict:
                calls.append(load)
                if len(calls) == fails_at:
                    raise SystemExit("a log\nout of memory")
                return {"output_tokens_per_s": 1.0, "ttft_ms": {"p50": 1.0, "p99": 1.0}}

        return Engine()

    def test_rounds_begin_with_another_engine(self) -> None:
        runs = []
        self.assertEqual(self.measure([self.engine("peer", None), self.engine("incipit", None)], runs), {})
        self.assertEqual([run["engine"] for run in runs], ["peer", "incipit", "incipit", "peer"] * 2)

    def test_a_peer_that_fails_is_left_out_of_this_load_and_of_later_loads(self) -> None:
        for fails_at, left in ((1, []), (2, []), (3, [("chatbot", 1), ("chatbot", 2)]), (4, [("chatbot", 1), ("chatbot", 2)])):
            runs = []
            skipped = self.measure([self.engine("peer", fails_at), self.engine("incipit", None)], runs)
            load = "chatbot" if fails_at < 3 else "multi-turn"
            self.assertEqual(skipped, {"peer": f"the load {load} failed: out of memory"})
            self.assertEqual([(run["load"], run["round"]) for run in runs if run["engine"] == "peer"], left)
            self.assertEqual(len([run for run in runs if run["engine"] == "incipit"]), 4)

    def test_a_failure_of_incipit_ends_the_comparison(self) -> None:
        with self.assertRaisesRegex(SystemExit, "out of memory"):
            self.measure([self.engine("incipit", 2)], [])


class ClosedLoopTest(unittest.TestCase):
    def test_records_are_in_the_order_of_the_jobs(self) -> None:
        jobs = serving_loads.jobs("chatbot", 9, 3, 1)
        records, _ = serving_client.closed_loop(jobs, 3, lambda i, job: Record(i, len(job.prompt), 0, 0.1, [], 0.1))
        self.assertEqual([record.index for record in records], list(range(9)))
        self.assertEqual([record.prompt_tokens for record in records], [len(job.prompt) for job in jobs])

    def test_the_first_error_ends_the_load(self) -> None:
        sent = []

        def send(index: int, job: Job) -> Record:
            sent.append(index)
            raise ValueError("broken")

        with self.assertRaisesRegex(ValueError, "broken"):
            serving_client.closed_loop(serving_loads.jobs("chatbot", 50, 2, 1), 2, send)
        self.assertLess(len(sent), 50)


if __name__ == "__main__":
    unittest.main()
