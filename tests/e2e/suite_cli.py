"""Tests the commands of the program against a real server and a real tokenizer."""
import json
import subprocess
import unittest

from harness.chat import ChatServer, TemplateFile
from harness.server import PROGRAM, Server, default_model, greedy

PROMPT = "Once upon a time"


def run(*arguments, lines=None, environment=None):
    return subprocess.run([PROGRAM, *arguments], input=lines, capture_output=True, text=True, timeout=120,
                          env=environment)


def filtered(*arguments, values):
    """Sends `values` as JSON lines to a command. Returns the JSON lines of its output."""
    result = run(*arguments, lines="".join(json.dumps(value) + "\n" for value in values))
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return [json.loads(line) for line in result.stdout.splitlines()]


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ChatServer()

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def client(self, command, *arguments, **options):
        return run(command, "--address", self.server.address, *arguments, **options)

    def test_generate_prints_the_outputs_text(self):
        expected = self.server.generate(greedy(PROMPT, 30))
        result = self.client("generate", "--prompt", PROMPT, "--max-tokens", "30", "--temperature", "0")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, expected.text + "\n", ""))

    def test_generate_prints_one_json_object(self):
        expected = self.server.generate(greedy(PROMPT, 20))
        result = self.client("generate", "--prompt", PROMPT, "--max-tokens", "20", "--temperature", "0",
                             "--logprobs", "2", "--json")
        reply = json.loads(result.stdout)
        self.assertEqual(reply["text"], expected.text)
        self.assertEqual(reply["token_ids"], expected.token_ids)
        self.assertEqual(reply["finish_reason"], "length")
        self.assertEqual([entry["token_id"] for entry in reply["logprobs"]], expected.token_ids)
        self.assertEqual(reply["usage"]["prompt_tokens"], expected.usage.prompt_tokens)
        self.assertEqual(reply["usage"]["completion_tokens"], 20)
        self.assertLessEqual({"cached_tokens", "queue_ms", "ttft_ms"}, set(reply["usage"]))

    def test_generate_takes_token_ids(self):
        result = self.client("generate", "--prompt-ids", "5,6,7", "--max-tokens", "4", "--temperature", "0", "--json")
        self.assertEqual(json.loads(result.stdout)["token_ids"], self.server.generate(greedy([5, 6, 7], 4)).token_ids)

    def test_generate_says_what_it_took(self):
        result = self.client("generate", "--prompt", PROMPT, "--max-tokens", "3", "--usage")
        self.assertRegex(result.stderr, r"^3 output tokens; \d+ of \d+ prompt tokens cached; first output token after")

    def test_output_that_cannot_be_written_is_a_failure(self):
        for command in (["generate", "--address", self.server.address, "--prompt", PROMPT, "--max-tokens", "3"],
                        ["--version"], ["--help"]):
            with self.subTest(command=command[0]), open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, *command], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 1)
                self.assertIn("output could not be written", done.stderr)

    def test_clients_find_an_admin_service_that_is_elsewhere(self):
        with Server("--admin-address", "127.0.0.1:0") as server:
            bench = [PROGRAM, "bench", "--address", server.address, "--requests", "2", "--prompt-tokens", "16",
                     "--output-tokens", "2", "--json"]
            lost = subprocess.run(bench, capture_output=True, text=True)
            self.assertEqual(lost.returncode, 1)
            self.assertIn("--admin-address", lost.stderr)
            found = subprocess.run([*bench, "--admin-address", f"127.0.0.1:{server.ports['admin']}"],
                                   capture_output=True, text=True)
            self.assertEqual((found.returncode, json.loads(found.stdout)["errors"]), (0, 0), found.stderr)

    def test_generate_explains_a_refusal(self):
        result = self.client("generate", "--prompt", PROMPT, "--top-p", "2")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("INVALID_ARGUMENT", result.stderr)
        self.assertIn("sampling.top_p", result.stderr)

    def test_chat_replies_to_one_message_and_a_script(self):
        options = ("--max-tokens", "12", "--temperature", "0")
        one = self.client("chat", "--message", "Hello", *options)
        self.assertEqual(one.returncode, 0, one.stderr)
        script = self.client("chat", *options, lines="Hello\n/reset\nHello\n")
        self.assertEqual(script.stdout, one.stdout * 2)

    def test_bench_measures_a_closed_and_an_open_loop(self):
        load = ("--requests", "12", "--prompt-tokens", "64", "--output-tokens", "8", "--shared-prefix-tokens", "48",
                "--seed", "1", "--json")
        for mode in (("--concurrency", "4"), ("--rate", "200")):
            self.server.reset_cache()
            result = self.client("bench", *load, *mode)
            self.assertEqual(result.returncode, 0, result.stderr)
            summary = json.loads(result.stdout)
            self.assertEqual((summary["requests"], summary["errors"]), (12, 0))
            self.assertEqual(summary["prompt_tokens"], 12 * 64)
            self.assertEqual(summary["output_tokens"], 12 * 8)
            self.assertGreater(summary["cached_tokens"], 0)
            for name in ("ttft_ms", "itl_ms", "e2e_ms"):
                values = [summary[name][key] for key in ("p50", "p90", "p99", "max")]
                self.assertEqual(values, sorted(values))
                self.assertGreater(values[0], 0)

    def test_output_to_a_pipe_has_no_colours(self):
        for arguments in (["--help"], ["generate", "--help"], ["chat", "--help"], ["bench", "--help"],
                          ["bench-model", "--help"], ["serve", "--help"],
                          ["tokenize", "--help"], ["detokenize", "--help"], ["render", "--help"],
                          ["analyze", "--help"], ["replay", "--help"], ["cache", "--help"], ["cache", "inspect", "--help"],
                          ["cache", "verify", "--help"], ["cache", "export", "--help"], ["cache", "import", "--help"]):
            result = run(*arguments)
            self.assertEqual(result.returncode, 0, arguments)
            self.assertNotIn("\x1b", result.stdout + result.stderr)
            self.assertGreater(len(result.stdout.splitlines()), 5)

    def test_an_unknown_flag_is_named_with_the_nearest_one(self):
        for command, flag, nearest in (("generate", "--promt", "--prompt"), ("bench", "--request", "--requests"),
                                       ("chat", "--mesage", "--message"), ("tokenize", "--tokeniser", "--tokenizer")):
            result = run(command, flag, "x")
            self.assertEqual(result.returncode, 2)
            self.assertIn(flag, result.stderr)
            self.assertIn(nearest, result.stderr)
        result = run("genarate")
        self.assertEqual(result.returncode, 2)
        self.assertIn("generate", result.stderr)


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class FilterTest(unittest.TestCase):
    TEXTS = ["", " ", "Once upon a time", "  two  spaces ", "caf\u00e9 \u732b \U0001f408\u200d\u2b1b\n\ttabs", "a" * 500]

    def test_tokenize_is_the_reference(self):
        from tokenizers import Tokenizer
        folder = default_model()
        reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
        found = filtered("tokenize", "--tokenizer", str(folder), values=self.TEXTS)
        self.assertEqual(found, [reference.encode(text).ids for text in self.TEXTS])
        values = [{"text": text, "add_special_tokens": False} for text in self.TEXTS]
        found = filtered("tokenize", "--tokenizer", str(folder), values=values)
        self.assertEqual(found, [reference.encode(text, add_special_tokens=False).ids for text in self.TEXTS])

    def test_analyze_finds_in_texts_what_it_finds_in_their_tokens(self):
        folder = str(default_model())
        story = "Once upon a time there was a little cat who liked to play in the garden. "
        texts = [story * 3 + "One day it rained.", story * 3 + "The sun was warm."]
        first, second = filtered("tokenize", "--tokenizer", folder, values=texts)
        results = [run("analyze", "-", "--tokenizer", folder, "--json", lines="".join(map("{}\n".format, lines)))
                   for lines in ([json.dumps({"prompt": text}) for text in texts], [first, second])]
        self.assertEqual([result.returncode for result in results], [0, 0], results[0].stderr)
        self.assertEqual(results[0].stdout, results[1].stdout)
        found = json.loads(results[0].stdout)
        shared = next(i for i, (a, b) in enumerate(zip(first, second)) if a != b)
        self.assertEqual(found["prompt_tokens"], len(first) + len(second))
        self.assertEqual([size["attainable"]["tokens"] for size in found["block_sizes"]],
                         [shared // size * size for size in (8, 16, 32, 64)])
        self.assertIn("Once upon a time", found["sharing"]["top_prefixes"][0]["begins_with"])

    def test_detokenize_is_the_reference(self):
        from tokenizers import Tokenizer
        folder = default_model()
        reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
        ids = [reference.encode(text).ids for text in self.TEXTS]
        found = filtered("detokenize", "--tokenizer", str(folder), values=ids)
        self.assertEqual(found, [reference.decode(one) for one in ids])
        values = [{"ids": one, "skip_special_tokens": False} for one in ids]
        found = filtered("detokenize", "--tokenizer", str(folder), values=values)
        self.assertEqual(found, [reference.decode(one, skip_special_tokens=False) for one in ids])

    def test_a_bad_line_is_an_error_of_that_line(self):
        result = run("tokenize", "--tokenizer", str(default_model()), lines='"a"\nnonsense\n"b"\n')
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(result.returncode, 0)
        self.assertEqual([type(line) for line in lines], [list, dict, list])
        self.assertIn("error", lines[1])

    def test_a_program_may_write_a_line_and_wait_for_its_result(self):
        command = [PROGRAM, "tokenize", "--tokenizer", str(default_model())]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            for text in ("one", "two"):
                process.stdin.write(json.dumps(text) + "\n")
                process.stdin.flush()
                self.assertIsInstance(json.loads(process.stdout.readline()), list)
            process.stdin.close()

    def test_render_applies_a_template(self):
        template = TemplateFile()
        self.addCleanup(template.cleanup)
        message = {"role": "user", "content": "Hi"}
        found = filtered("render", "--template", str(template.path), values=[
            {"messages": [message], "add_generation_prompt": True, "bos_token": "<s>"},
            {"messages": [message]},
            {"messages": [{"role": "wizard", "content": "x"}]},
            {"no": "messages"}])
        self.assertEqual(found[:2], ["<s>user: Hi\nassistant:", "user: Hi\n"])
        self.assertIn("unknown role", found[2]["error"])
        self.assertIn("messages", found[3]["error"])


if __name__ == "__main__":
    unittest.main()
