#!/usr/bin/env python3
"""Writes how Hugging Face transformers renders conversations with the templates and special tokens of tokenizer
folders.

Usage: python -m venv V; V/bin/pip install transformers jinja2; V/bin/python tools/make_folder_goldens.py

Output: tests/cli/analysis/golden/folders.json, with random folders (the files beside tokenizer.json), one
conversation for each folder, and the rendered text, or null if transformers raises an error. Run the script in the
root of the repository. Last run with transformers 5.23. additional_special_tokens are left out, because older
versions pass them to the template and newer versions do not.
"""
import json
import pathlib
import random
import tempfile

import transformers

GOLDEN = pathlib.Path("tests/cli/analysis/golden/folders.json")
NUM_FOLDERS = 40
NAMES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
MORE = ["image_token", "audio"]
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "post_processor": None,
    "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
              "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
              "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
}


def template(name):
    shown = "".join("{{ %s is defined }}:{{ %s }};" % (token, token) for token in NAMES + MORE)
    return name + " " + shown + "{{ messages[0].content }} {{ tools is none }}"


def token(rng, name, only_text=False):
    text = "<%s%d>" % (name, rng.randrange(10))
    if only_text or rng.random() < 0.7:
        return text
    return {"__type": "AddedToken", "content": text, "lstrip": False, "normalized": False, "rstrip": False,
            "single_word": False, "special": True}


def named_templates(rng):
    names = rng.sample(["default", "tool_use", "rag"], rng.randrange(1, 4))
    return [{"name": name, "template": template("list " + name)} for name in names]


def folder_files(rng):
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": True, "model_max_length": 100}
    for name in NAMES:
        if rng.random() < 0.5:
            config[name] = rng.choice([None, token(rng, name), token(rng, name)])
    if rng.random() < 0.3:
        config["image_token"] = token(rng, "image", only_text=True)
    if rng.random() < 0.3:
        config["extra_special_tokens"] = {"audio": token(rng, "audio", only_text=True)}
    if rng.random() < 0.5:
        config["added_tokens_decoder"] = {}
    if rng.random() < 0.9:
        config["chat_template"] = template("one") if rng.random() < 0.4 else named_templates(rng)
    files = {"tokenizer_config.json": json.dumps(config)}
    if rng.random() < 0.4:
        names = rng.sample(NAMES, 3)
        files["special_tokens_map.json"] = json.dumps({name: token(rng, "map-" + name, True) for name in names})
    if rng.random() < 0.2:
        files["chat_template.jinja"] = template("file")
    if rng.random() < 0.2:
        files["additional_chat_templates/tool_use.jinja"] = template("tool file")
    return files


def conversation(rng):
    line = {"messages": [{"role": "user", "content": "Hi"}]}
    kind = rng.randrange(3)
    if kind > 0:
        line["tools"] = [] if kind == 1 else [{"type": "function", "function": {"name": "f"}}]
    if rng.random() < 0.2:
        line[rng.choice(NAMES)] = "given"
    return line


def rendered(files, line):
    arguments = dict(line)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
        for path, text in files.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    try:
        return tokenizer.apply_chat_template(arguments.pop("messages"), tokenize=False, **arguments)
    except ValueError as error:
        print("raises:", str(error)[:100])
        return None


def main():
    cases = []
    for index in range(NUM_FOLDERS):
        rng = random.Random(index)
        files, line = folder_files(rng), conversation(rng)
        cases.append({"files": files, "line": line, "text": rendered(files, line)})
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(json.dumps(cases, indent=0) + "\n", encoding="ascii")


main()
