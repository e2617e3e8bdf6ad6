"""Measures the server's CPU time for each field of a request, up to the size limit of the field:

    python3 tests/e2e/run.py build/release/fake_server input_cost [--only TEXT] [--all-templates] [--json FILE]

Prints a Markdown table, the most expensive shape first. Tokenizers and templates come from INCIPIT_TEST_DATA. The
script encodes messages byte by byte, because a protobuf library would not write some of the shapes.
"""
import argparse
import dataclasses
import itertools
import json
import math
import os
import pathlib
import random
import sys
import time
import typing

import grpc
from harness.server import Server

DATA = pathlib.Path(os.environ.get("INCIPIT_TEST_DATA", ""))
MEGABYTE = 1e6
MESSAGE = 4_190_000  # bytes, just below --message-bytes-max
JSON_MAX = 65_536
ROOM = ["--step-tokens", "16777216", "--max-model-len", "8000000", "--kv-blocks", "524288", "--itl-target", "10m",
        "--waiting-prompt-tokens-max", "100000000", "--log-level", "warn"]
TOKENIZERS = ["qwen2", "llama-3", "llama-2", "gpt-2", "starcoder"]
TEMPLATES = ["Qwen-Qwen2.5-7B-Instruct", "meta-llama-Llama-3.1-8B-Instruct", "openai-gpt-oss-120b", "Kimi-K2-Instruct",
             "deepseek-ai-DeepSeek-V3.1", "Qwen3-Coder", "google-gemma-2-2b-it", "GLM-4.6"]


# --- protobuf's wire format

def varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(at, value):
    return varint(at << 3) + varint(value)


def packed(at, values):
    return field(at, b"".join(map(varint, values)))


ONE_TOKEN = field(5, number(1, 1))        # output.max_tokens of a GenerateRequest
# output.max_tokens of a ChatRequest.
CHAT_ONE_TOKEN = field(7, number(1, 1))
PROMPT = field(3, packed(1, [5, 6, 7]))   # three token ids


def generate_text(text):
    return field(2, text) + ONE_TOKEN


def message(role, content, calls=b""):
    return field(2, field(1, role) + (field(2, content) if content else b"") + calls)


def chat(messages, rest=b""):
    return messages + rest + CHAT_ONE_TOKEN


USER = message("user", "Hello")


# --- shapes of text: size -> str of about that many bytes

def repeated(unit):
    return lambda size: unit * (size // len(unit.encode()))


def randomly(alphabet, seed=7):
    def make(size):
        width = len(alphabet[0].encode())
        return "".join(random.Random(seed).choices(alphabet, k=size // width))
    return make


WORDS = "the quick brown fox jumps over a lazy dog while 123 engineers write their code ; ".split()


def words(size):
    rng = random.Random(3)
    return " ".join(rng.choices(WORDS, k=size // 4))[:size]


def random_words(length):
    letters = randomly("abcdefghijklmnopqrstuvwxyz")
    def make(size):
        text = letters(size)
        return " ".join(text[i:i + length - 1] for i in range(0, size, length))[:size]
    return make


def marks_in_disorder(size):
    """Returns combining marks in wrong order: normalisation sorts a run of combining marks by their class."""
    return "a" + "".join("\u0301\u0316"[i % 2] for i in range(size // 2))


TEXTS = {
    "English words": words,
    "one letter": repeated("a"),
    "random letters, one word": randomly("abcdefghijklmnopqrstuvwxyz"),
    "random letters, words of 10": random_words(10),
    "random letters, words of 1,000": random_words(1000),
    "random base64": randomly("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"),
    "two letters in turn": repeated("ab"),
    "random of a and b": randomly("ab"),
    "spaces": repeated(" "),
    "line ends": repeated("\n"),
    "spaces and line ends in turn": repeated(" \n"),
    "tabs and spaces": repeated("\t "),
    "non-breaking spaces": repeated("\u00a0"),
    "digits": randomly("0123456789"),
    "punctuation": repeated("!?"),
    "one punctuation mark": repeated("="),
    "apostrophes": repeated("'s"),
    "letter and space in turn": repeated("a "),
    "Chinese": randomly([chr(c) for c in range(0x4e00, 0x5e00)]),
    "one Chinese character": repeated("\u4e00"),
    "Hangul jamo": repeated("\u1100\u1161\u11a8"),
    "composed Latin": repeated("\u00e9"),
    "decomposed Latin": repeated("e\u0301"),
    "combining marks in disorder": marks_in_disorder,
    "one combining mark": repeated("\u0301"),
    "marks that decompose": repeated("\u0344"),
    "emoji": repeated("\U0001f600"),
    "emoji with joiners": repeated("\U0001f468\u200d\U0001f469\u200d\U0001f467"),
    "NUL": repeated("\0"),
    "control characters": repeated("\x01\x02"),
    "special tokens": repeated("<|im_end|>"),
    "special tokens of Llama": repeated("<|eot_id|>"),
    "s tokens": repeated("</s>"),
    "beginnings of special tokens": repeated("<|im_en"),
    "angle brackets": repeated("<"),
    "metaspaces": repeated("\u2581"),
    "private characters": repeated("\U000f0000"),
    "upper and lower case in turn": repeated("aA"),
    "Arabic": randomly([chr(c) for c in range(0x0621, 0x064a)]),
    "Thai": randomly([chr(c) for c in range(0x0e01, 0x0e30)]),
}


# --- shapes of a JSON object: size -> text of at most that many bytes

def names(count):
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    return ["".join(name) for name in itertools.islice(itertools.product(letters, repeat=3), count)]


def members(value="1", schema=False):
    def make(size):
        unit = len(f'"abc":{value},')
        body = ",".join(f'"{name}":{value}' for name in names((size - 60) // unit))
        return '{"type":"object","properties":{%s}}' % body if schema else "{%s}" % body
    return make


def in_array(unit):
    return lambda size: '{"a":[%s]}' % ",".join([unit] * ((size - 10) // (len(unit) + 1)))


def in_string(unit):
    return lambda size: '{"a":"%s"}' % (unit * ((size - 10) // len(unit.encode())))


def deep(size):
    """Returns chains of nested objects with the maximum allowed depth."""
    chain = '{"a":' * 28 + "1" + "}" * 28
    return '{"a":[%s]}' % ",".join([chain] * ((size - 10) // (len(chain) + 1)))


def deep_schema(size):
    chain = '{"type":"object","properties":{"a":' * 14 + '{"type":"string"}' + "}}" * 14
    return '{"type":"object","properties":{%s}}' % ",".join(
        f'"{name}":{chain}' for name in names((size - 60) // (len(chain) + 7)))


def enum_schema(size):
    values = ",".join(['"ab"'] * ((size - 100) // 5))
    return '{"type":"object","properties":{"a":{"type":"string","enum":[%s]}}}' % values


JSONS = {
    "many members": members(),
    "many members of a schema": members('{"type":"string"}', schema=True),
    "members that are empty objects": members("{}"),
    "one name many times": lambda size: "{%s}" % ",".join(['"a":1'] * ((size - 10) // 6)),
    "numbers in an array": in_array("1"),
    "empty arrays": in_array("[]"),
    "empty objects": in_array("{}"),
    "small objects": in_array('{"a":1}'),
    "long numbers": in_array("1" * 300),
    "numbers with exponents": in_array("1e-300"),
    "one number of all digits": lambda size: '{"a":0.%s}' % ("1" * (size - 10)),
    "a long string": in_string("a"),
    "escapes": in_string("\\n"),
    "escaped characters": in_string("\\u4e00"),
    "surrogate pairs": in_string("\\ud83d\\ude00"),
    "Chinese": in_string("\u4e00"),
    "angle brackets": in_string("<"),
    "white space": lambda size: "{%s}" % (" " * (size - 2)),
    "as deep as allowed": deep,
    "a schema as deep as allowed": deep_schema,
    "an enum of many values": enum_schema,
}


# JSON shapes that are expensive for templates and not only for the parser. Every template is measured with them.
RENDERED = ("many members of a schema", "numbers in an array", "small objects", "a long string", "escapes",
            "angle brackets", "a schema as deep as allowed", "an enum of many values")


# --- the measured cases

@dataclasses.dataclass
class Case:
    field: str
    shape: str
    method: str
    make: typing.Callable  # size -> (bytes of the message, metadata)
    limit: int


def plain(make):
    return lambda size: (make(size), ())


def spread(of_json, one):
    """Makes as many JSON texts of at most 64 KiB as fit into `size` bytes."""
    def make(size):
        text = of_json(min(size, JSON_MAX))
        return b"".join(one(index, text) for index in range(max(1, size // (len(text.encode()) + 40))))
    return make


def call(index, text):
    return field(5, field(1, f"c{index}") + field(2, "f") + field(3, text))


def tool(index, text):
    return field(3, field(1, f"f{index}") + field(2, "d") + field(3, text))


def calls(of_json):
    body = spread(of_json, call)
    return lambda size: chat(USER + message("assistant", "", body(size)) + message("user", "x"))


def text_cases():
    for shape, make in TEXTS.items():
        yield Case("text", shape, "Generate", plain(lambda size, make=make: generate_text(make(size))), MESSAGE)


def tokenize_cases():
    for shape in ("English words", "one letter", "random letters, one word", "combining marks in disorder"):
        make = TEXTS[shape]
        yield Case("Tokenize.text", shape, "Tokenize", plain(lambda size, make=make: field(1, make(size))), MESSAGE)


def vocabulary(folder):
    """Returns the map from token to id of the tokenizer in `folder`."""
    return json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]


def vocabulary_cases(folder):
    vocab = vocabulary(folder)
    plain_words = sorted(token for token in vocab if token.isascii() and token.isalpha() and token.islower())
    glued = lambda size: "".join(random.Random(5).choices(plain_words, k=size // 3))[:size]
    yield Case("text", "tokens of the vocabulary, one word", "Generate",
               plain(lambda size: generate_text(glued(size))), MESSAGE)
    longest = max(vocab.items(), key=lambda item: len(item[0]) / len(varint(item[1])))[1]
    yield Case("Detokenize.ids", "the longest token", "Detokenize",
               plain(lambda size: packed(1, [longest] * (size // len(varint(longest))))), MESSAGE)


def ids_cases(vocab):
    def ids(values):
        return lambda size: field(3, packed(1, values(size))) + ONE_TOKEN
    many = lambda size: [1 + i % 100 for i in range(size)]
    large = lambda size: [20_000 + i * 7 % (vocab - 20_000) for i in range(size // 3)]
    yield Case("token_ids", "ids of one byte", "Generate", plain(ids(many)), MESSAGE)
    yield Case("token_ids", "ids of three bytes", "Generate", plain(ids(large)), MESSAGE)
    yield Case("token_ids", "not packed", "Generate",
               plain(lambda size: field(3, b"\x08\x05" * (size // 2)) + ONE_TOKEN), MESSAGE)
    yield Case("token_ids", "a list of one id, many times", "Generate",
               plain(lambda size: field(3, b"\x0a\x01\x05") * (size // 5) + ONE_TOKEN), MESSAGE)
    yield Case("Detokenize.ids", "ids of one byte", "Detokenize", plain(lambda size: packed(1, many(size))), MESSAGE)
    yield Case("Detokenize.ids", "ids of three bytes", "Detokenize",
               plain(lambda size: packed(1, large(size))), MESSAGE)
    yield Case("GetLoad.token_ids", "ids of one byte", "GetLoad",
               plain(lambda size: field(2, packed(1, many(size)))), MESSAGE)
    yield Case("GetLoad.token_ids", "ids of three bytes", "GetLoad",
               plain(lambda size: field(2, packed(1, large(size)))), MESSAGE)


def small_cases():
    """Yields cases for fields with their own limits: values at the limit and values as large as a message allows."""
    def output(make):
        return plain(lambda size: PROMPT + field(5, number(1, 1) + make(size)))

    def sampling(make):
        return plain(lambda size: PROMPT + ONE_TOKEN + field(4, make(size)))

    def entry(token):
        return field(8, number(1, token) + b"\x15\0\0\0\0")

    yield Case("output.stop", "16 strings of one letter", "Generate",
               output(lambda size: field(3, "a" * (size // 16)) * 16), 16_384)
    yield Case("output.stop", "empty strings, refused", "Generate",
               output(lambda size: b"\x1a\0" * (size // 2)), MESSAGE)
    yield Case("output.stop", "strings of one byte, refused", "Generate",
               output(lambda size: b"\x1a\1a" * (size // 3)), MESSAGE)
    yield Case("output.stop", "one long string, refused", "Generate",
               output(lambda size: field(3, "a" * size)), MESSAGE)
    yield Case("output.stop_token_ids", "64 ids", "Generate", output(lambda size: packed(4, range(size))), 64)
    yield Case("output.stop_token_ids", "packed, refused", "Generate",
               output(lambda size: packed(4, [5] * size)), MESSAGE)
    yield Case("sampling.logit_bias", "1,024 entries", "Generate",
               sampling(lambda size: b"".join(entry(i) for i in range(size // 10))), 10_240)
    yield Case("sampling.logit_bias", "distinct ids, refused", "Generate",
               sampling(lambda size: b"".join(entry(i) for i in range(size // 12))), MESSAGE)
    yield Case("sampling.logit_bias", "one id many times", "Generate", sampling(lambda size: entry(5) * (size // 9)),
               MESSAGE)
    yield Case("sampling", "the field many times", "Generate",
               plain(lambda size: PROMPT + ONE_TOKEN + field(4, b"\x0d\0\0\0\0") * (size // 7)), MESSAGE)
    yield Case("unknown fields", "numbers", "Generate",
               plain(lambda size: PROMPT + ONE_TOKEN + number(99, 1) * (size // 3)), MESSAGE)
    yield Case("unknown fields", "empty strings", "Generate",
               plain(lambda size: PROMPT + ONE_TOKEN + field(99, b"") * (size // 3)), MESSAGE)
    yield Case("unknown fields", "groups", "Generate",
               plain(lambda size: PROMPT + ONE_TOKEN + (varint(99 << 3 | 3) + varint(99 << 3 | 4)) * (size // 4)),
               MESSAGE)
    yield Case("request_id", "too long", "Generate",
               plain(lambda size: PROMPT + ONE_TOKEN + field(1, "a" * size)), MESSAGE)
    yield Case("model", "too long", "Generate", plain(lambda size: PROMPT + ONE_TOKEN + field(8, "a" * size)), MESSAGE)
    yield Case("cache.salt", "256 bytes", "Generate",
               plain(lambda size: PROMPT + ONE_TOKEN + field(6, field(1, "a" * size))), 256)
    yield Case("cache.salt", "too long", "Generate",
               plain(lambda size: PROMPT + ONE_TOKEN + field(6, field(1, "a" * size))), MESSAGE)
    small = PROMPT + ONE_TOKEN
    yield Case("x-tenant-id", "128 bytes", "Generate", lambda size: (small, (("x-tenant-id", "t" * size),)), 128)
    yield Case("x-tenant-id", "too long", "Generate", lambda size: (small, (("x-tenant-id", "t" * size),)), 15_000)
    yield Case("metadata", "one value", "Generate", lambda size: (small, (("k", "v" * size),)), 15_000)
    yield Case("metadata", "many entries", "Generate",
               lambda size: (small, tuple((f"k{i}", "v") for i in range(size // 36))), 15_000)
    yield Case("metadata", "one name many times", "Generate",
               lambda size: (small, (("k", "v"),) * (size // 34)), 15_000)
    yield Case("metadata", "above metadata-bytes-max", "Generate",
               lambda size: (small, tuple((f"k{i}", "v" * 1000) for i in range(size // 1036))), 500_000)


def json_cases(shapes):
    """Yields cases for fields that the server parses as JSON."""
    for shape in shapes:
        make = JSONS[shape]
        yield Case("template_arguments_json", shape, "Chat",
                   plain(lambda size, make=make: chat(USER, field(4, make(size)))), JSON_MAX)
        yield Case("tools.parameters_json", shape, "Chat",
                   plain(lambda size, make=make: chat(USER, spread(make, tool)(size))), MESSAGE)
        yield Case("tool_calls.arguments_json", shape, "Chat", plain(calls(make)), MESSAGE)


def conversation_cases():
    """Yields cases for the messages of a chat, which a template visits one by one."""
    def turns(roles, content, count=1000):
        """Makes a chat of at most `count` messages and one last user message."""
        def make(size):
            num = max(2, min(count, size // 60))
            each = max(1, (size - 30 * num) // num)
            cycle = itertools.cycle(roles)
            return chat(b"".join(message(next(cycle), content(each)) for _ in range(num)) + USER)
        return make

    def both(shape, roles, content, count=999):
        return Case("messages", shape, "Chat", plain(turns(roles, content, count)), MESSAGE)

    both_sides = ("user", "assistant")
    for roles in (both_sides, ("system",), ("user",), ("assistant",), ("tool",)):
        yield Case("messages", f"1,000 of one letter, {' and '.join(roles)}", "Chat",
                   plain(lambda size, roles=roles: chat(b"".join(
                       message(role, "a") for role in itertools.islice(itertools.cycle(roles), size // 14)) + USER)),
                   13_900)
    yield both("1,000 messages of words", both_sides, words)
    yield both("2 messages of words", both_sides, words, 2)
    yield both("1,000 system messages", ("system",), words)
    yield both("1,000 user messages", ("user",), words)
    yield both("1,000 assistant messages", ("assistant",), words)
    yield both("1,000 tool messages", ("tool",), words)
    yield both("white space around words", both_sides, lambda size: " " * (size - 1) + "x")
    yield both("2 messages of white space", both_sides, lambda size: " " * size, 2)
    yield both("2 messages of line ends", both_sides, lambda size: "\n" * size, 2)
    yield both("ends of thoughts", both_sides, repeated("</think>"))
    yield both("2 messages of ends of thoughts", both_sides, repeated("</think>"), 2)
    yield both("2 messages of special tokens", both_sides, repeated("<|im_end|>"), 2)
    yield both("2 messages of one letter", both_sides, repeated("a"), 2)
    yield both("2 messages of tags", both_sides, repeated("<tool_response>"), 2)
    yield both("2 messages of disordered marks", both_sides, marks_in_disorder, 2)
    yield both("2 messages of a and b", both_sides, randomly("ab"), 2)
    yield Case("messages", "empty messages, refused", "Chat", plain(lambda size: b"\x12\0" * (size // 2)), MESSAGE)
    yield Case("messages", "messages of a letter, refused", "Chat",
               plain(lambda size: b"\x12\3\x12\1a" * (size // 5)), MESSAGE)
    yield Case("messages.role", "long", "Chat", plain(lambda size: chat(message("r" * size, "x"))), MESSAGE)
    yield Case("messages.name", "long", "Chat",
               plain(lambda size: chat(field(2, field(1, "user") + field(3, "n" * size)))), MESSAGE)
    yield Case("tool_calls", "128 in each of 1,000 messages", "Chat", plain(lambda size: chat(USER + b"".join(
        message("assistant", "", call(i, "{}") * min(128, max(1, size // 1000 // 20))) for i in range(990)) + USER)),
        MESSAGE)
    yield Case("tool_calls", "empty calls, refused", "Chat",
               plain(lambda size: chat(field(2, field(1, "assistant") + b"\x2a\0" * (size // 2)))), MESSAGE)
    yield Case("tools", "empty tools, refused", "Chat",
               plain(lambda size: chat(USER, b"\x1a\0" * (size // 2))), MESSAGE)
    yield Case("tools.description", "128 of words", "Chat", plain(lambda size: chat(USER, b"".join(
        field(3, field(1, f"f{i}") + field(2, words(size // 128 - 20))) for i in range(128)))), MESSAGE)
    yield Case("tools.description", "one of line ends", "Chat", plain(lambda size: chat(USER, field(
        3, field(1, "f") + field(2, "\n" * size)))), MESSAGE)
    yield Case("tools.description", "one of quotes", "Chat", plain(lambda size: chat(USER, field(
        3, field(1, "f") + field(2, "\"" * size)))), MESSAGE)
    yield Case("tools.description", "one of control characters", "Chat", plain(lambda size: chat(USER, field(
        3, field(1, "f") + field(2, "\x01" * size)))), MESSAGE)
    yield Case("tools.name", "long", "Chat", plain(lambda size: chat(USER, field(3, field(1, "f" * size)))), MESSAGE)


# --- measuring

SERVICES = {"GetLoad": "Admin"}
STREAMS = ("Generate", "Chat")


class Meter:
    def __init__(self, server):
        self._channel = server.channel
        self._clock = ~server.process.pid << 3 | 2  # id of the CPU clock of the server process

    def _send(self, method, data, metadata):
        path = f"/incipit.v1.{SERVICES.get(method, 'Inference')}/{method}"
        kind = self._channel.unary_stream if method in STREAMS else self._channel.unary_unary
        try:
            reply = kind(path)(data, metadata=metadata, timeout=120)
            for _ in reply if method in STREAMS else ():
                pass
            return "OK"
        except grpc.RpcError as error:
            return error.code().name

    def once(self, method, data, metadata):
        """Sends one call. Returns the CPU time of the server in milliseconds, and the status."""
        begin = time.clock_gettime(self._clock)
        code = self._send(method, data, metadata)
        # Wait for memory that the server frees after its reply.
        time.sleep(0.01)
        return (time.clock_gettime(self._clock) - begin) * 1e3, code

    def best(self, method, data, metadata, repeats=3):
        found = [self.once(method, data, metadata)]
        while len(found) < repeats and found[0][0] < 1500:
            found.append(self.once(method, data, metadata))
        return min(found)

    def measure(self, case):
        full, metadata = case.make(case.limit)
        half, half_metadata = case.make(case.limit // 2)
        half_ms, _ = self.best(case.method, half, half_metadata, 2)
        ms, code = self.best(case.method, full, metadata)
        size = len(full) + sum(len(name) + len(value) for name, value in metadata)
        return {"field": case.field, "shape": case.shape, "method": case.method, "bytes": size, "cpu_ms": ms,
                "ms_per_mb": ms / (size / MEGABYTE), "exponent": math.log2(max(ms, 0.01) / max(half_ms, 0.01)),
                "code": code}


def servers(arguments):
    """Yields (name, model, flags, cases) for each server."""
    tokenizers, templates = DATA / "tokenizers", DATA / "chat_templates"
    for name in TOKENIZERS:
        yield name, tokenizers / name, [], itertools.chain(text_cases(), tokenize_cases(),
                                                           vocabulary_cases(tokenizers / name))
    for name in ("qwen2", "llama-2"):
        yield name, tokenizers / name, [], itertools.chain(ids_cases(32_000), small_cases())
    yield "qwen2, no prefix cache", tokenizers / "qwen2", ["--prefix-cache=off"], ids_cases(32_000)
    chosen = sorted(path.stem for path in templates.glob("*.jinja")) if arguments.all_templates else TEMPLATES
    for index, name in enumerate(chosen):
        flags = ["--chat-template", str(templates / f"{name}.jinja")]
        yield f"qwen2, {name}", tokenizers / "qwen2", flags, itertools.chain(
            json_cases(JSONS if index == 0 else RENDERED), conversation_cases())


def table(rows):
    print("| field | worst shape | server | bytes | CPU, ms | ms per MB | exponent | status |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['field']} | {row['shape']} | {row['server']} | {row['bytes']:,} | {row['cpu_ms']:.1f} | "
              f"{row['ms_per_mb']:.0f} | {row['exponent']:.2f} | {row['code']} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose field, shape or server has this text")
    parser.add_argument("--all-templates", action="store_true", help="of INCIPIT_TEST_DATA rather than eight of them")
    parser.add_argument("--json", help="file that gets every row as a line of JSON")
    parser.add_argument("--most", type=float, help="exit with 1 if a message of 60 KB or more takes more ms per MB")
    parser.add_argument("--worst", action="store_true", help="one row a field")
    arguments = parser.parse_args()
    if not (DATA / "tokenizers").is_dir():
        print("skipped: INCIPIT_TEST_DATA names no folder with tokenizers")
        return 77
    rows = []
    out = open(arguments.json, "a") if arguments.json else None
    for name, model, flags, cases in servers(arguments):
        cases = [case for case in cases if arguments.only in f"{case.field}/{case.shape}/{name}"]
        if not cases:
            continue
        with Server(*ROOM, *flags, model=model) as server:
            meter = Meter(server)
            for case in cases:
                row = dict(meter.measure(case), server=name)
                rows.append(row)
                print(f"{name}: {case.field}, {case.shape}: {row['ms_per_mb']:.0f} ms/MB", file=sys.stderr)
                if out:
                    print(json.dumps(row), file=out, flush=True)
    rows.sort(key=lambda row: -row["ms_per_mb"])
    if arguments.worst:
        first = {}
        for row in rows:
            first.setdefault(row["field"], row)
        rows = list(first.values())
    table(rows)
    above = [row for row in rows if row["bytes"] >= 60_000 and row["ms_per_mb"] > (arguments.most or math.inf)]
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
