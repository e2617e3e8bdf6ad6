#!/usr/bin/env python3
"""Compares our tokenizer with the reference (PyPI `tokenizers`) on random and adversarial texts.

    text_differential.py --program build/release/incipit [--count 10000] [--more NAME] [FOLDER ...]

A folder has a tokenizer.json, or subfolders that have a tokenizer.json. `incipit tokenize` and `incipit
detokenize` read one JSON value per line and print one line for each. Exits with 77, which a test runner shows
as skipped, if the reference or a tokenizer is missing.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys

import more_test_data

try:
    from tokenizers import Tokenizer
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

BLANKS = " \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\u1680\u180e\u2000\u2003\u2009\u200a\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
WORDS = ("the a Hello world I'm you're it's DON'T we'LL he'd 'S 'ſ 'K naïve café straße İstanbul "
         "Ǆungla ﬁne Ωmega привет мир こんにちは 世界 你好 안녕하세요 สวัสดี नमस्ते שלום مرحبا 12345 3.14159 1,000,000 "
         "٣٤٥ ½ ² Ⅷ ① 𝟘𝟙 x86_64 foo_bar camelCase HTTPServer e\u0301 A\u030a ﷺ ™ … — « » “quoted”").split()
CODE = ["def f(x):\n    return x**2  # square\n", "for (int i = 0; i < n; ++i) {\n\t\ta[i] += 1;\n}\n",
        "SELECT * FROM t WHERE a='b';\r\n", "<div class=\"x\">&nbsp;</div>", "\\frac{1}{2}\n\n\n", "$$x_i^2$$",
        "#!/bin/bash\nset -euo pipefail\n", "std::vector<std::string>>>", "http://a.b/c?d=e&f=g#h"]
EMOJI = ["🙂", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪🇫🇷", "❤️", "1️⃣", "🧑🏿‍🚀", "☺", "\u200d", "\ufe0f", "🏴\U000e0067\U000e0062\U000e007f"]
MARKS = "\u0300\u0301\u0323\u0327\u0345\u05b0\u0651\u093c\u094d\u0e38\u1dc0\u20d0\u302a\U0001d165\u0334\u3099"
JAMO = "\u1100\u1161\u11a8\uac00\uac01\u1112\u1175\u11c2\ud7a3\u11a7"


def code_point(rng):
    planes = [(0, 0x7F), (0, 0x7FF), (0, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x3FFFF),
              (0x40000, 0xDFFFF), (0xE0000, 0x10FFFF), (0x10000, 0x10FFFF)]
    while True:
        c = rng.randint(*rng.choice(planes))
        if not 0xD800 <= c <= 0xDFFF:
            return chr(c)


def piece(rng, tokens, added):
    kind = rng.randrange(16)
    if kind == 0:
        return "".join(code_point(rng) for _ in range(rng.randint(1, 12)))
    if kind == 1:
        return "".join(rng.choice(BLANKS) for _ in range(rng.randint(1, 8)))
    if kind == 2:
        return rng.choice(" \n\t\r") * rng.randint(1, 40)
    if kind == 3:
        return rng.choice(CODE)
    if kind == 4:
        return "".join(rng.choice(EMOJI) for _ in range(rng.randint(1, 4)))
    if kind == 5:
        return rng.choice("aeoAsकがא ") + "".join(rng.choice(MARKS) for _ in range(rng.randint(1, 6)))
    if kind == 6:
        return "".join(rng.choice(JAMO) for _ in range(rng.randint(1, 6)))
    if kind == 7:
        return code_point(rng) * rng.choice([2, 3, 7, 30, 150])
    if kind == 8 and added:
        token = rng.choice(added)
        return rng.choice(["", " ", "  \n"]) + token + rng.choice(["", " ", "\t "])
    if kind == 9 and added:  # text similar to an added token
        token = rng.choice(added)
        cut = rng.randrange(len(token) + 1)
        return rng.choice([token[:cut], token[cut:], token.upper(), token[:cut] + " " + token[cut:],
                           token[:cut] + token])
    if kind in (10, 11):
        return "".join(rng.choice(tokens) for _ in range(rng.randint(1, 5)))
    if kind == 12:
        return "".join(rng.choice("0123456789٣५𝟘 .,") for _ in range(rng.randint(1, 20)))
    if kind == 13:
        return "".join(rng.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~▁Ġ") for _ in range(rng.randint(1, 12)))
    return rng.choice(["", " ", "  "]) + rng.choice(WORDS)


def make_texts(rng, count, tokens, added):
    fixed = ["", " ", "  ", "\n", "a", " a", "▁", "▁a", "\0", "<0x0A>", "\ufffd", "a" * 3000, " " * 3000,
             "\n" * 1000, "!" * 1000, "1" * 1000, "é" * 999, "一" * 999, "ab" * 1500, " a" * 999,
             " " * 999 + "a", "\r\n" * 300, "\u0301" * 50, "".join(BLANKS)]
    return fixed + ["".join(piece(rng, tokens, added) for _ in range(rng.randint(1, 8)))
                    for _ in range(count - len(fixed))]


def ask(command, folder, requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    result = subprocess.run([*command, "--tokenizer", folder], input=lines.encode(), check=True,
                            stdout=subprocess.PIPE)
    replies = [json.loads(line) for line in result.stdout.decode().split("\n")[:-1]]
    assert len(replies) == len(requests), f"{len(requests)} lines in, {len(replies)} out"
    return replies


def reference(call, *arguments, **options):
    try:
        return call(*arguments, **options)
    except BaseException as error:  # the reference may panic instead of raising an exception
        return {"error": str(error)[:80]}


def compare(name, requests, replies, expected, shown):
    wrong = [(r, a, e) for r, a, e in zip(requests, replies, expected)
             if a != e and not (isinstance(a, dict) and isinstance(e, dict))]
    for request, reply, want in wrong[:shown]:
        print(f"  {json.dumps(request)[:300]}\n    ours      {json.dumps(reply)[:300]}\n"
              f"    reference {json.dumps(want)[:300]}")
    print(f"  {name}: {len(wrong)} of {len(requests)} differ")
    return len(wrong)


def check(folder, options):
    folder = str(folder)
    tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    rng = random.Random(options.seed)
    vocabulary = tokenizer.get_vocab()
    added = [t.content for t in tokenizer.get_added_tokens_decoder().values()]
    readable = [tokenizer.decode([i], skip_special_tokens=False) for i in
                rng.sample(sorted(vocabulary.values()), min(5000, len(vocabulary)))]
    texts = make_texts(rng, options.count, [t for t in readable if t] or ["a"], added)
    requests = [{"text": t, "add_special_tokens": rng.random() < 0.5} for t in texts]
    expected = [reference(lambda: tokenizer.encode(r["text"], add_special_tokens=r["add_special_tokens"]).ids)
                for r in requests]
    print(f"{folder} ({len(vocabulary)} tokens)")
    wrong = compare("encode", requests, ask([options.program, "tokenize"], folder, requests), expected, options.shown)

    ids = sorted(vocabulary.values())
    lists = [e for e in expected if isinstance(e, list)]
    lists += [[rng.choice(ids) for _ in range(rng.randint(0, 20))] for _ in range(options.count)]
    requests = [{"ids": i, "skip_special_tokens": rng.random() < 0.5} for i in lists]
    expected = [reference(tokenizer.decode, r["ids"], skip_special_tokens=r["skip_special_tokens"])
                for r in requests]
    replies = ask([options.program, "detokenize"], folder, requests)
    return wrong + compare("decode", requests, replies, expected, options.shown)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", required=True, help="incipit")
    parser.add_argument("--count", type=int, default=10000, help="texts per tokenizer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shown", type=int, default=5, help="differences to show")
    parser.add_argument("--more", help="tokenizers of this folder of $INCIPIT_TEST_DATA too")
    parser.add_argument("paths", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    folders = sorted({file.parent for path in more_test_data.folders(options.paths, options.more)
                      for pattern in ("tokenizer.json", "*/tokenizer.json") for file in path.glob(pattern)})
    if not folders:
        print("skipped: no tokenizer")
        return 77
    return 1 if sum(check(folder, options) for folder in folders) else 0


if __name__ == "__main__":
    sys.exit(main())
