"""Loads the server with guidellm, a load generator for OpenAI's API: load_generator.py PROGRAM"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import support  # noqa: F401
from support.checks import Checks, equal

from harness.process import BUNDLED, ServerProcess

NUM_REQUESTS, STREAMS = 24, 4
PROMPT_TOKENS, OUTPUT_TOKENS = 64, 32
SECONDS_MAX = 300


def load(server, route):
    """Runs guidellm with prompts of random text, which guidellm sends to `route`. Returns its report."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [pathlib.Path(sys.executable).parent / "guidellm", "benchmark",
                   "--target", f"http://127.0.0.1:{server.ports['http']}", "--model", "incipit-tiny",
                   "--processor", BUNDLED, "--rate-type", "concurrent", "--rate", str(STREAMS),
                   "--max-requests", str(NUM_REQUESTS), "--data", json.dumps(
                       {"prompt_tokens": PROMPT_TOKENS, "output_tokens": OUTPUT_TOKENS, "samples": NUM_REQUESTS}),
                   "--output-path", report, "--disable-progress", "--disable-console-outputs"]
        environment = dict(os.environ, HF_HUB_OFFLINE="1", HOME=folder, GUIDELLM__PREFERRED_ROUTE=route)
        result = subprocess.run([str(part) for part in command], cwd=folder, env=environment, text=True,
                                capture_output=True, timeout=SECONDS_MAX)
        assert result.returncode == 0, (result.stdout + result.stderr)[-2000:]
        return json.loads(report.read_text())["benchmarks"][0]


def check(checks, server, route):
    with checks.check(f"guidellm: every request of {route} succeeds"):
        before = server.metric("incipit_requests_total", outcome="ok")
        report = load(server, route)
        totals, metrics = report["request_totals"], report["metrics"]
        equal((totals["successful"], totals["errored"]), (NUM_REQUESTS, 0))
        assert server.metric("incipit_requests_total", outcome="ok") - before >= NUM_REQUESTS
        equal(metrics["output_token_count"]["successful"]["total_sum"], NUM_REQUESTS * OUTPUT_TOKENS)
        first, between = (metrics[name]["successful"]["median"]
                          for name in ("time_to_first_token_ms", "inter_token_latency_ms"))
        checks.note(f"{route}, {STREAMS} streams: median time to the first token {first:.1f} ms, median time between "
                    f"tokens {between:.2f} ms")


def main():
    checks = Checks()
    with ServerProcess(http=True) as server:
        for route in ("text_completions", "chat_completions"):
            check(checks, server, route)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
