#!/usr/bin/env python3
"""Draws comments and prose at random, for a reader who tests whether each item is understood alone.

Usage: sample_prose.py [--seed S] [--count N]. Run in the project. A comment is a block of comment lines with the next
line of code, or a comment behind a line of code. Prose is a sentence or a table cell of the pages, a help text or a
message of the programs. The tests are left out.
"""
import argparse
import random
import re
import subprocess

SOURCES = (".h", ".cpp", ".cu", ".inl", ".proto")
LEFT_OUT = ("tests/", "models/", "proto/google", "text/unicode/unicode_tables.cpp")
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
ASSEMBLY = re.compile(r"%0|^[a-z0-9_]+(\.[a-z0-9_:]+)+")  # an instruction of a CPU or a GPU
PREDICATE = re.compile(r"(is|has|must|are|contains|needs|cannot) ")
WORDS_MIN = {"comment": 7, "trailing": 3, "sentence": 7, "cell": 5, "message": 5}


def num_words(text: str) -> int:
    return len(re.findall(r"[A-Za-z]{2,}", re.sub(r"`[^`]*`", "", text)))


def comments_of(name: str, lines: list[str]) -> list[tuple[str, str]]:
    found, block, start = [], [], 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith("//") and not text.startswith("// ="):
            block.append(text.lstrip("/ ").strip())
            start = start or number
            continue
        if block and len(" ".join(block).split()) >= WORDS_MIN["comment"]:
            found.append((f"{name}:{start}", " ".join(block) + "   [code: " + text[:110] + "]"))
        block, start = [], 0
        code = STRING.sub('""', line)
        if "//" in code:
            trailing = line[line.rindex("//") + 2:].strip()
            if len(trailing.split()) >= WORDS_MIN["trailing"] and not trailing.startswith("namespace"):
                found.append((f"{name}:{number}", trailing + "   [code: " + line[:line.rindex("//")].strip()[:110] + "]"))
    return found


def messages_of(name: str, text: str) -> list[tuple[str, str]]:
    found = []
    without_comments = "\n".join("" if line.strip().startswith(("//", "#include")) else line for line in text.split("\n"))
    for match in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', without_comments):
        message = "".join(STRING.findall(match[0])).replace("\\n", " ")
        if PREDICATE.match(message):  # the program puts the name of the field or flag in front
            message = "<field> " + message
        if num_words(message) >= WORDS_MIN["message"] and len(message.split()) >= 3 and not ASSEMBLY.search(message):
            number = text[:match.start()].count("\n") + 1
            found.append((f"{name}:{number}", message))
    return found


def prose_of(name: str, lines: list[str]) -> list[tuple[str, str]]:
    found, paragraph, in_code, header = [], [], False, None

    def end_paragraph() -> None:
        for sentence in re.split(r"(?<=[.:;]) +(?=[A-Z`*])", " ".join(paragraph)):
            if len(sentence.split()) >= WORDS_MIN["sentence"]:
                found.append((name, sentence))
        paragraph.clear()

    for line in lines + [""]:
        text = line.strip()
        if text.startswith("```"):
            in_code = not in_code
            text = ""
        if not in_code and text.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", text.strip("|"))]
            if header is None:
                header = cells
            elif not set(text) <= set("|-: "):
                for title, cell in zip(header, cells):
                    if num_words(cell) >= WORDS_MIN["cell"]:
                        row = "" if cell == cells[0] else f"row: {cells[0]}; "
                        found.append((name, f"{cell}   [{row}column: {title}]"))
            continue
        header = None
        if in_code or text.startswith("#"):
            text = ""
        if not text or re.match(r"([-*]|\d+\.) ", text):
            end_paragraph()
        if text:
            paragraph.append(re.sub(r"^([-*]|\d+\.) ", "", text))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="number that decides which items are drawn")
    parser.add_argument("--count", type=int, default=60, help="number of items of each kind")
    options = parser.parse_args()
    comments, prose = [], []
    names = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    for name in names:
        if not name or name.startswith(LEFT_OUT):
            continue
        if name.endswith(SOURCES):
            text = open(name, errors="replace").read()
            comments += comments_of(name, text.split("\n"))
            prose += messages_of(name, text)
        elif name.endswith(".md"):
            prose += prose_of(name, open(name).read().split("\n"))
    generator = random.Random(options.seed)
    for kind, items in (("COMMENT", comments), ("PROSE", prose)):
        for number, (where, text) in enumerate(generator.sample(items, min(options.count, len(items))), 1):
            print(f"{kind} {number} ({where}): {text}\n")


if __name__ == "__main__":
    main()
