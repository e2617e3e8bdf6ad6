"""Tests invalid model folders and configurations: the server names the fault and does not start."""
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

import bad_models
import grpc
from harness.models import ModelCopy
from harness.server import PROGRAM, STOP_SECONDS, STORIES, Server, default_model, greedy
from incipit.v1 import inference_pb2

EXIT_USAGE, EXIT_MODEL, EXIT_DEVICE = 2, 3, 5
# A small model in f32, so that a copy for each case is cheap.
MODEL = STORIES if (STORIES / "config.json").exists() else default_model()


def serve(*flags):
    command = [PROGRAM, "serve", "--address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0",
               "--http-address", "none", *flags]
    return subprocess.run(command, capture_output=True, text=True, errors="strict", timeout=STOP_SECONDS)


@unittest.skipUnless(MODEL, "no model: models/incipit-tiny is not there")
class BadModelTest(unittest.TestCase):
    def check_case(self, case):
        with ModelCopy(MODEL) as copy:
            case.spoil(copy)
            result = serve("--model", str(copy.path))
        self.assertEqual(result.returncode, EXIT_MODEL, result.stdout + result.stderr)
        last = result.stderr.strip().splitlines()[-1]
        self.assertTrue(last.startswith("incipit serve: "), result.stderr)
        for part in case.says:
            self.assertIn(part, last)
        self.assertLess(len(last), 1024)

    def check_cases(self, cases):
        for case in cases:
            with self.subTest(row=case.row, name=case.name):
                self.check_case(case)

    def test_weights(self):
        self.check_cases(bad_models.WEIGHTS)

    def test_configurations(self):
        self.check_cases(bad_models.CONFIGURATIONS)

    def test_tokenizers(self):
        self.check_cases(bad_models.TOKENIZERS)

    def test_an_unspoilt_copy_is_served(self):
        with ModelCopy(MODEL) as copy, Server(model=copy.path) as server:
            self.assertEqual(len(server.generate(greedy([5, 6, 7], 3)).token_ids), 3)

    def test_values_that_are_not_finite_are_warned_of_and_end_requests_only(self):  # rows 104, 106 of docs/bad_input.md
        nan = {"F32": b"\x00\x00\xc0\x7f", "BF16": b"\xc0\x7f"}
        with ModelCopy(MODEL) as copy:
            with copy.header() as header:
                begin = header["model.norm.weight"]["data_offsets"][0]
                value = nan[header["model.norm.weight"]["dtype"]]
            data = bytearray(copy.read_weights())
            start = 8 + int.from_bytes(data[:8], "little") + begin
            data[start:start + len(value)] = value
            copy.write_weights(bytes(data))
            with Server(model=copy.path) as server:
                self.assertIn("not finite", server.log())
                for _ in range(3):
                    with self.assertRaisesRegex(Exception, "INTERNAL"):
                        server.generate(greedy([5, 6, 7], 3))
                server.wait_until_idle()
                self.assertEqual(server.metric("incipit_requests_total", outcome="error"), 3)


    def test_a_folder_that_is_none_is_named(self):  # row 94 of docs/bad_input.md
        with ModelCopy(MODEL) as copy:
            file = copy.path / "config.json"
            for path in (file, copy.path / "missing", "/dev/null", ""):
                result = serve("--model", str(path))
                self.assertIn(result.returncode, (EXIT_USAGE, EXIT_MODEL))
                self.assertIn(str(path) or "--model", result.stderr)
            (copy.path / "model.safetensors").unlink()
            (copy.path / "model.safetensors").mkdir()
            result = serve("--model", str(copy.path))
            self.assertEqual(result.returncode, EXIT_MODEL)
            self.assertIn("model.safetensors", result.stderr)

    def test_a_fifo_is_named_and_not_waited_for(self):  # row 115 of docs/bad_input.md
        for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                     "chat_template.jinja", "model.safetensors"):
            with self.subTest(name=name), ModelCopy(MODEL) as copy:
                (copy.path / name).unlink(missing_ok=True)
                os.mkfifo(copy.path / name)
                result = serve("--model", str(copy.path))
                self.assertEqual(result.returncode, EXIT_MODEL, result.stderr)
                self.assertIn(f"{name}: not a regular file", result.stderr)

    def test_an_expression_that_would_backtrack_for_ever_takes_no_thread_for_long(self):  # row 105 of docs/bad_input.md
        with ModelCopy(MODEL) as copy:
            copy.edit_json("tokenizer.json", bad_models.split_by("(a+)+$"))
            with Server(model=copy.path) as server:
                begin = time.monotonic()
                for _ in range(4):  # more calls than text threads
                    with contextlib.suppress(grpc.RpcError):
                        server.inference.Tokenize(inference_pb2.TokenizeRequest(text="a" * 5000 + "b"), timeout=30)
                self.assertLess(time.monotonic() - begin, 5)
                self.assertGreater(len(server.inference.Tokenize(inference_pb2.TokenizeRequest(text="xyz")).ids), 0)

    def test_a_token_that_the_model_does_not_have_is_refused_in_a_prompt(self):  # row 5 of docs/bad_input.md
        with ModelCopy(MODEL) as copy:
            size = json.loads((copy.path / "config.json").read_text())["vocab_size"]
            copy.edit_json("tokenizer.json", lambda value: value["added_tokens"].append(
                {"id": size, "content": "<extra>", "special": True, "normalized": False}))
            with Server(model=copy.path) as server:
                alone = server.generate(greedy("Once upon", 8)).token_ids
                self.assertEqual(server.inference.Tokenize(inference_pb2.TokenizeRequest(text="<extra>")).ids[-1], size)
                for prompt in ("Once upon<extra>", [5, size]):
                    with self.assertRaises(grpc.RpcError) as caught:
                        server.generate(greedy(prompt, 8))
                    self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
                    self.assertIn(f"token ids are below {size}", caught.exception.details())
                self.assertEqual(server.generate(greedy("Once upon", 8)).token_ids, alone)
                server.wait_until_idle()

    # row 102 of docs/bad_input.md
    def test_weights_that_are_cut_off_while_they_are_served_end_the_process_with_their_name(self):
        with ModelCopy(MODEL) as copy, Server(model=copy.path) as server:
            server.generate(greedy([5, 6, 7], 3))
            os.truncate(copy.path / "model.safetensors", 4096)
            try:
                server.generate(greedy(list(range(5, 90)), 3))
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
                self.assertEqual(server.wait(), EXIT_MODEL)
                self.assertIn(f"a file in {copy.path} was truncated", server.log())
            result = serve("--model", str(copy.path))  # a supervisor would start the server again
            self.assertEqual(result.returncode, EXIT_MODEL)
            self.assertIn("model.safetensors", result.stderr)


@unittest.skipUnless(MODEL, "no model: models/incipit-tiny is not there")
class BadConfigurationTest(unittest.TestCase):
    """The server exits with code 2 within a second, and the message names the wrong key."""

    FLAGS = [
        (["--model", ""], "--model"),
        (["--no-such-flag"], "--no-such-flag"),
        (["--step-tokens", "-1"], "--step-tokens"),
        (["--step-tokens", "many"], "--step-tokens"),
        (["--kv-blocks", "0"], "--kv-blocks"),
        (["--kv-blocks", "8", "--kv-memory", "1GiB"], "--kv-memory"),
        (["--kv-memory", "1XB"], "--kv-memory"),
        (["--kv-memory", "-1"], "--kv-memory"),
        (["--kv-memory", "8000PiB"], "--kv-memory"),
        (["--block-size", "17"], "--block-size"),
        (["--block-size", "512"], "--block-size"),
        (["--max-model-len", "0"], "--max-model-len"),
        (["--kv-dtype", "f8"], "--kv-dtype"),
        (["--backend", "tpu"], "--backend"),
        (["--threads", "-1"], "--threads"),
        (["--running-max", "0"], "--running-max"),
        (["--prefix-cache", "perhaps"], "--prefix-cache"),
        (["--address", "localhost"], "--address"),
        (["--address", "127.0.0.1:65536"], "--address"),
        (["--drain-timeout", "soon"], "--drain-timeout"),
        (["--log-level", "loud"], "--log-level"),
        (["--metrics-compat", "prometheus"], "--metrics-compat"),
        (["--priority-range", "5,1"], "--priority-range"),
        (["--choices-max", "0"], "--choices-max"),
        (["--message-bytes-max", "1"], "--message-bytes-max"),
        (["stray"], "stray"),
    ]
    FILES = [
        ("step-tokens: 0\n", "step-tokens"),
        ("no-such-key: 1\n", "no-such-key"),
        ("step-tokens: [1]\n", "step-tokens"),
        ("running-max: 1\nrunning-max: 2\n", "running-max"),
        ("- step-tokens\n", "mapping"),
        ("step-tokens: {\n", "incipit.yaml"),
        ("config: other.yaml\n", "config"),
    ]

    def check(self, flags, word):
        result = serve("--model", str(MODEL), *flags)
        self.assertEqual(result.returncode, EXIT_USAGE, result.stdout + result.stderr)
        self.assertIn(word, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_flags(self):  # row 93 of docs/bad_input.md
        for flags, word in self.FLAGS:
            with self.subTest(flags=flags):
                self.check(flags, word)

    def test_files(self):  # row 93 of docs/bad_input.md
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "incipit.yaml"
            for text, word in self.FILES:
                with self.subTest(text=text):
                    path.write_text(text)
                    self.check(["--config", str(path)], word)
            self.check(["--config", str(path) + ".missing"], "incipit.yaml.missing")

    def test_a_context_above_the_models_is_refused(self):  # row 93 of docs/bad_input.md
        self.check(["--max-model-len", "1000000"], "--max-model-len")

    def test_a_cache_that_the_machine_cannot_hold_is_refused_with_both_numbers(self):  # row 94 of docs/bad_input.md
        for flags in (["--kv-memory", "1000TiB"], ["--kv-blocks", "268435456", "--block-size", "256"]):
            result = serve("--model", str(MODEL), *flags)
            self.assertEqual(result.returncode, EXIT_DEVICE, result.stdout + result.stderr)
            self.assertRegex(result.stderr.splitlines()[-1], r"the KV pool needs \d{13,} bytes, but only \d+ bytes are free")


if __name__ == "__main__":
    unittest.main()
