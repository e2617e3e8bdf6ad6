#!/usr/bin/env python3
"""Writes tests/data/tokenizers: small tokenizers of every kind, with texts and ids and the results of the reference
implementation (PyPI `tokenizers`) for them. The tests read the files and need no Python.

    python tools/make_tokenizer_goldens.py
"""
import json
import pathlib
import random

from tokenizers import Tokenizer

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests/data/tokenizers"
CORPUS = """Once upon a time there was a little girl named Lily. She loved to play outside in the park.
One day, she saw a big, red ball. It's mine, she'll say; don't they've 1234 or 56 things? We're 7.
for (int i = 0; i < 10; ++i) { print("hello world"); }  // the loop
The the the and and, then other others another mother brother weather whether together."""
TEXTS = ["", " ", "   ", "\n\n", "Once upon a time", " leading and trailing  ", "it's we'LL DON'T I'm 'S",
         "12345 67 8", "a\u0301 \u00e9 \u212b \ufb01 \u1e9b\u0323", "\u4f60\u597d\uff0c\u4e16\u754c", "\U0001f642\U0001f44d\U0001f3fd",
         "tab\tnew\nline\r\n  x", "<s>", "a<s>b </s> c", "<|x|>the <|x|> <|X|>", "the[mask]the [mask] the", "word words aword",
         "\u2581already\u2581marked", "<0x0A>", "\0nul", "aaaaaaaaaaaaaaaa", "the" * 30, "!!!???", "a-b--c", "\u0663\u0664 \u00bd",
         "\u3000wide\u00a0space", "\U00031350\U0001cc00\u1c89 new letters", "loooooong   gaps", "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab", "<|x|>"]


def byte_characters():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(0x100 + i) for i, b in enumerate(others)}


def train(words, symbols, num_merges):
    """Learns byte-pair merges of the words' characters; the most frequent pair is merged first."""
    vocabulary = {s: i for i, s in enumerate(symbols)}
    merges, words = [], [list(w) for w in words]
    for _ in range(num_merges):
        counts = {}
        for word in words:
            for pair in zip(word, word[1:]):
                counts[pair] = counts.get(pair, 0) + 1
        if not counts:
            break
        best = max(sorted(counts), key=counts.get)
        merges.append(list(best))
        vocabulary.setdefault("".join(best), len(vocabulary))
        for word in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == best:
                    word[i:i + 2] = ["".join(best)]
                i += 1
    return vocabulary, merges


def added(content, **flags):
    defaults = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    return {"content": content, **defaults, **flags}


def build(model, **parts):
    file = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None, **parts,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "ignore_merges": False, **model}}
    next_id = len(model["vocab"])
    for token in file["added_tokens"]:
        token["id"] = model["vocab"].get(token["content"], next_id)
        next_id += token["content"] not in model["vocab"]
    return file


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **options}


def sequence(kind, *items):
    return {"type": "Sequence", kind: list(items)}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def tokenizers():
    mapping = byte_characters()
    as_bytes = "".join(mapping[b] for b in CORPUS.encode())
    words = as_bytes.replace(mapping[32], " " + mapping[32]).split(" ")
    vocabulary, merges = train(words, [mapping[b] for b in range(256)], 150)
    legacy = {"vocab": vocabulary, "merges": [" ".join(m) for m in merges]}
    model = {"vocab": vocabulary, "merges": merges}
    only_bytes = byte_level(use_regex=False)
    template = {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    tokens = [added("<|x|>"), added("<s>", lstrip=True), added("</s>", rstrip=True),
              added("[mask]", special=False, lstrip=True, rstrip=True), added("word", special=False, single_word=True),
              added("  ", special=False)]
    yield "byte_level", build(legacy, pre_tokenizer=byte_level(), decoder=byte_level(), added_tokens=tokens)
    yield "byte_level_prefix", build(model, pre_tokenizer=byte_level(add_prefix_space=True), decoder=byte_level(),
                                     added_tokens=tokens, post_processor={"type": "RobertaProcessing", "sep": ["</s>", 2],
                                     "cls": ["<s>", 1], "trim_offsets": True, "add_prefix_space": True})
    yield "llama3_style", build({**model, "ignore_merges": True}, decoder=byte_level(), added_tokens=tokens,
                                pre_tokenizer=sequence("pretokenizers", split(LLAMA3), only_bytes),
                                post_processor=sequence("processors", byte_level(), template))
    yield "o200k_style", build(model, normalizer={"type": "NFC"}, decoder=byte_level(),
                               pre_tokenizer=sequence("pretokenizers", split(O200K), only_bytes))
    yield "digits_punctuation", build(model, normalizer={"type": "NFKC"}, decoder=byte_level(), pre_tokenizer=sequence(
        "pretokenizers", {"type": "Digits", "individual_digits": True},
        {"type": "Punctuation", "behavior": "MergedWithPrevious"}, byte_level()))
    yield "right_to_left_digits", build(model, decoder=byte_level(), pre_tokenizer=sequence(
        "pretokenizers", split(r"(?=(\d{3})+(?!\d))"), split(r"\s+$"), split("-", "Contiguous", kind="String"),
        split(r"\w+|[^\w\s]+", "Removed", invert=True), only_bytes))
    yield "merged_with_next", build(model, decoder=byte_level(), normalizer=sequence(
        "normalizers", {"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "Lowercase"}),
        added_tokens=[added("<|X|>", normalized=True), added("THE", normalized=True, special=False)],
        pre_tokenizer=sequence("pretokenizers", split(" ", "MergedWithNext", kind="String"), byte_level()))

    marked = "\u2581" + CORPUS.replace(" ", "\u2581")
    letters = sorted(set(marked))
    symbols = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + letters
    words = [w for w in marked.replace("\u2581", " \u2581").split(" ") if w]
    vocabulary, merges = train(words, symbols, 150)
    model = {"vocab": vocabulary, "merges": merges, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    special = [added("<unk>"), added("<s>"), added("</s>")]
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    spm_decoder = sequence("decoders", replace("\u2581", " "), {"type": "ByteFallback"}, {"type": "Fuse"}, strip)
    yield "llama2_style", build(model, added_tokens=special, post_processor=template, decoder=spm_decoder,
                                normalizer=sequence("normalizers", {"type": "Prepend", "prepend": "\u2581"}, replace(" ", "\u2581")))
    yield "gemma_style", build(model, added_tokens=special + [added("\n\n", special=False)], normalizer=replace(" ", "\u2581"),
                               pre_tokenizer=split(" ", "MergedWithPrevious", kind="String"), post_processor=template,
                               decoder=sequence("decoders", replace("\u2581", " "), {"type": "ByteFallback"}, {"type": "Fuse"}))
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
    yield "metaspace_first", build(model, added_tokens=special, pre_tokenizer=metaspace, post_processor=template,
                                   decoder=sequence("decoders", {"type": "ByteFallback"}, metaspace))
    yield "metaspace_always", build({**model, "byte_fallback": False, "fuse_unk": False}, added_tokens=special,
                                    normalizer=sequence("normalizers", {"type": "NFD"}, {"type": "StripAccents"},
                                                        replace(r"\s+", " ", "Regex")),
                                    pre_tokenizer={**metaspace, "prepend_scheme": "always", "split": True},
                                    decoder={**metaspace, "prepend_scheme": "always", "split": True})
    yield "spaces_between", build({**model, "byte_fallback": False}, added_tokens=special,
                                  pre_tokenizer={"type": "WhitespaceSplit"})
    suffixed = [list(w[:-1]) + [w[-1] + "</w>"] for w in CORPUS.split()]
    symbols = ["<unk>"] + sorted({s for w in suffixed for s in w} | set("".join(CORPUS.split())))
    vocabulary, merges = train(suffixed, symbols, 100)
    yield "word_suffix", build({"vocab": vocabulary, "merges": merges, "unk_token": "<unk>", "end_of_word_suffix": "</w>"},
                               pre_tokenizer={"type": "BertPreTokenizer"}, added_tokens=[added("<unk>")],
                               decoder={"type": "BPEDecoder", "suffix": "</w>"})


def main():
    rng = random.Random(1)
    for name, file in tokenizers():
        folder = DATA / name
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(file, ensure_ascii=True)
        (folder / "tokenizer.json").write_text(text + "\n")
        tokenizer = Tokenizer.from_str(text)
        ids = sorted(tokenizer.get_vocab().values())
        encoded = [{"text": t, "special": s, "ids": tokenizer.encode(t, add_special_tokens=s).ids}
                   for t in TEXTS for s in (True, False)]
        lists = [e["ids"] for e in encoded if e["ids"]] + [[rng.choice(ids) for _ in range(rng.randint(1, 12))] for _ in range(60)]
        decoded = [{"ids": i, "skip": s, "text": tokenizer.decode(i, skip_special_tokens=s)}
                   for i in lists for s in (True, False)]
        lines = ",\n".join(json.dumps(e) for e in encoded), ",\n".join(json.dumps(d) for d in decoded)
        (folder / "golden.json").write_text(f'{{"encoded": [\n{lines[0]}\n], "decoded": [\n{lines[1]}\n]}}\n')
        print(f"{name}: {len(encoded)} texts, {len(decoded)} lists of ids")


if __name__ == "__main__":
    main()
