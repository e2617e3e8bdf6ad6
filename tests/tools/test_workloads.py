"""Checks bench/workloads.py with a fake program `incipit`, and the plots."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import textwrap
import unittest
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import svg_plots  # noqa: E402
import workloads_report  # noqa: E402

# Serves metrics, and answers `bench` from the flags of its server. A server with fewer than 20 blocks does not start.
FAKE_INCIPIT = """
    #!{python}
    import http.server, json, sys
    command, *rest = sys.argv[1:]
    values = [value for value in rest if value != "--json"]
    flags = dict(zip(values[::2], values[1::2]))
    if command == "bench" and "--help" in rest:
        print("--workload NAME --records FILE")
    elif command == "serve":
        blocks = int(flags.get("--kv-blocks", 10000))
        if blocks < 20:
            sys.exit("--kv-blocks is too small")
        cached = min(blocks, 1000)
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200); self.end_headers()
                kind = flags.get("--prefix-cache-policy", "") + flags.get("--prefix-cache", "on")
                self.wfile.write(('incipit_kv_blocks{{state="free"}} 7\\nincipit_kv_blocks{{state="cached"}} %d\\n'
                                  'incipit_kv_blocks{{state="retained"}} 0\\nkind %s %d\\n' % (cached, kind, blocks)).encode())
            def log_message(self, *_):
                pass
        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        port = server.server_address[1]
        open(flags["--port-file"], "w").write(json.dumps({{"grpc": port, "metrics": port}}))
        server.serve_forever()
    else:
        import urllib.request
        text = urllib.request.urlopen("http://" + flags["--address"] + "/metrics").read().decode()
        kind, blocks = text.split("kind ")[1].split()
        on, count = not kind.endswith("off"), int(flags["--requests"])
        hit = min(int(blocks), 1000) / 1250 * on * (1.1 if "adaptive" in kind else 1)
        ttft = 100 - 90 * hit
        with open(flags["--records"], "w") as records:
            for i in range(count):
                print(json.dumps(dict(index=i, prompt_tokens=400, cached_tokens=round(400 * hit), ttft_ms=ttft, output_tokens=10,
                                      total_ms=ttft + 9)), file=records)
        assert flags["--concurrency"] == "4" and flags["--seed"] == "1" and "--json" in rest
        print(json.dumps(dict(workload=flags["--workload"], requests=count, errors=0, hit_ratio=hit, implied_hit_ratio=hit + 0.01,
                              ttft_ms=dict(p50=ttft, p90=ttft, p99=2 * ttft, max=3 * ttft), output_tokens_per_s=5000.0,
                              evictions=1000 - min(int(blocks), 1000), regret=5)))
"""


def marks(svg: str) -> list[xml.etree.ElementTree.Element]:
    """Returns the elements of the drawn values. Fails if `svg` is not well-formed."""
    return [element for element in xml.etree.ElementTree.fromstring(svg).iter() if "mark" in element.get("class", "").split()]


class PlotsTest(unittest.TestCase):
    rows = [("a < b & c", [10.0, None]), ("d", [20.0, 80.0])]

    def test_a_bar_chart_has_a_mark_for_each_value_and_each_range(self) -> None:
        found = marks(svg_plots.horizontal_bars("T & <t>", "s", "x", self.rows, ["one", "two"], str, 100, {"d": (5, 50)}, "range"))
        bars = [float(mark.get("width")) for mark in found if mark.tag.endswith("rect")]
        self.assertEqual(len(found), 4)
        self.assertAlmostEqual(bars[2] / bars[0], 8)
        self.assertAlmostEqual(bars[0], (svg_plots.WIDTH - svg_plots.LEFT - svg_plots.RIGHT) / 10)

    def test_a_dot_chart_has_a_dot_for_each_value_in_the_order_of_the_values(self) -> None:
        found = marks(svg_plots.horizontal_dots("T", "s", "x", self.rows, ["one", "two"], str))
        at = [float(mark.get("cx")) for mark in found]
        self.assertEqual(len(at), 3)
        self.assertAlmostEqual((at[1] - at[0]) * 2, at[2] - at[1], delta=0.1)  # 10 to 20 is a factor of 2, 20 to 80 of 4

    def test_a_line_chart_has_a_dot_for_each_point(self) -> None:
        for logarithmic in (False, True):
            svg = svg_plots.lines("T", "s", "x", "y", [("one", [(0, 1), (50, 10), (100, 100)]), ("two", [(50, 10)])], str, str, 100,
                                  y_logarithmic=logarithmic)
            at = [(float(mark.get("cx")), float(mark.get("cy"))) for mark in marks(svg)]
            self.assertEqual(len(at), 4)
            self.assertEqual(at[1], at[3])
            self.assertLess(at[2][1], at[0][1])  # a larger value is higher up

    def test_empty_charts_are_well_formed(self) -> None:
        self.assertEqual(marks(svg_plots.horizontal_bars("T", "s", "x", [], ["one"], str)), [])
        self.assertEqual(marks(svg_plots.horizontal_dots("T", "s", "x", [("a", [None])], ["one"], str)), [])
        self.assertEqual(marks(svg_plots.lines("T", "s", "x", "y", [], str, str)), [])

    def test_a_drawing_has_dark_colours_too(self) -> None:
        svg = svg_plots.horizontal_bars("T", "s", "x", self.rows, ["one", "two"], str)
        self.assertIn("prefers-color-scheme: dark", svg)

    def test_ticks_are_round_numbers(self) -> None:
        self.assertEqual(svg_plots.linear_axis([3, 97], 0, 1).ticks(), [0, 20, 40, 60, 80, 100])
        self.assertEqual(svg_plots.linear_axis([None, 0.31], 0, 1).high, 0.4)
        self.assertEqual([round(tick) for tick in svg_plots.logarithmic_axis([3, 97], 0, 1).ticks()], [2, 5, 10, 20, 50, 100])


class ReportTest(unittest.TestCase):
    def test_points_are_medians_by_prompt_length_and_cached_share(self) -> None:
        records = [(100, 0, 10.0), (512, 0, 30.0), (512, 26, 20.0), (100, 95, 5.0), (100, 100, 6.0), (100, 99, 7.0), (513, 0, 99.0)]
        (name, points), = workloads_report.cached_share_series(records)
        self.assertEqual(name, "up to 512 tokens")
        self.assertEqual([ttft for _, ttft in points], [20, 6])
        self.assertAlmostEqual(points[0][0], 100 * 26 / 512 / 3)
        self.assertAlmostEqual(points[1][0], 98)

    def test_the_table_has_medians_of_the_rounds(self) -> None:
        runs = [{"model": "m", "round": number, "cache": cache, "workload": "rag", "requests": 24, "errors": 1, "hit_ratio": hit,
                 "implied_hit_ratio": 0.5, "ttft_ms": {"p50": ttft, "p99": 2 * ttft}, "output_tokens_per_s": 50}
                for number, hit in ((1, 0.1), (2, 0.4), (3, 0.5)) for cache, ttft in (("on", 10 * number), ("off", 100 * number))]
        text = workloads_report.table(runs, "A CPU, 2 cores")
        self.assertIn("| rag | 24 | 40.0 | 50.0 | 25 to 40 | 20.0 | 200.0 | 10.00 | 40.0 | 400.0 | 10.00 | 50.0 | 50.0 |", text)
        self.assertIn("Model m, medians of 3 rounds", text)
        self.assertIn("6 requests failed", text)


class ProgramTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = Path(folder.name) / "incipit"
        self.program.write_text(textwrap.dedent(FAKE_INCIPIT).lstrip().format(python=sys.executable))
        self.program.chmod(0o755)
        self.output = Path(folder.name) / "out"

    def run_program(self, *flags: str) -> str:
        command = [sys.executable, "-B", str(ROOT / "bench/workloads.py"), str(self.program), "--output", str(self.output),
                   "--concurrency", "4", "--models", "incipit-tiny", *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_every_workload_runs_with_the_cache_on_and_off(self) -> None:
        text = self.run_program("--requests", "5", "--rounds", "2", "--workloads", "chatbot", "agent")
        self.assertIn("| chatbot | 5 | 80.0 | 81.0 | 92 to 97 | 28.0 | 100.0 | 3.57 |", text)
        runs = json.loads((self.output / "results.json").read_text())
        self.assertEqual([(run["workload"], run["cache"]) for run in runs],
                         [("chatbot", "on"), ("chatbot", "off"), ("agent", "on"), ("agent", "off"),
                          ("chatbot", "off"), ("chatbot", "on"), ("agent", "off"), ("agent", "on")])
        self.assertEqual((self.output / "table.md").read_text(), text)
        plots = {path.name: len(marks(path.read_text())) for path in self.output.glob("*.svg")}
        self.assertEqual(plots, {"hit_ratio-incipit-tiny.svg": 5, "ttft-incipit-tiny.svg": 4,
                                 "ttft_by_cached_share-incipit-tiny.svg": 1})

    def test_small_caches_run_with_each_policy_or_say_why_not(self) -> None:
        text = self.run_program("--requests", "5", "--cache-shares", "1", "2.5", "20")
        self.assertIn("| 1 | 10 | lru | not measured: the longest request needs 26 blocks |", text)
        self.assertIn("| 2.5 | 25 | adaptive | not measured: the longest request needs 26 blocks |", text)
        self.assertIn("| 20 | 200 | adaptive | 17.6 | 84.2 | 168.3 | 800 | 5 |", text)
        self.assertIn("| 20 | 200 | lru | 16.0 |", text)
        self.assertIn("| 100 | 1000 | no eviction | 80.0 |", text)
        plots = {path.name: len(marks(path.read_text())) for path in self.output.glob("*.svg")}
        self.assertEqual(plots, {"cache_shares-hit_ratio.svg": 2, "cache_shares-ttft.svg": 2})


if __name__ == "__main__":
    unittest.main()
