#!/usr/bin/env python3
"""Finds retired words in the comments and pages of finished folders (one word for one thing).

Usage: words.py [ROOT]. Prints one line per finding; exits 1 if there is any. A pattern catches the retired sense only:
"draw a chart" may stay, "draw a token" may not.
"""
import pathlib
import re
import subprocess
import sys

# Folders and pages without retired words. Only additions are allowed.
FINISHED = ("base/", "bench/", "cli/", "deploy/", "docs/", "engine/", "kernels/", "kvcache/", "proto/incipit/", "scheduler/",
            "server/", "text/", "tier/", "tools/", "transformer/", "README.md", "CHANGELOG.md")
NOT_PROSE = ("tools/words.py", "tools/story/", "tools/tiny/")  # the stories of the bundled model have words of their own
RETIRED = [
    (r"\b(draws?|drawn|drawing) (a |the |one |its |each )?(next )?(tokens?|samples?)\b", "sample"),
    (r"\btokens? (is|are|was|were|it|that it) (draws?|drawn)\b", "sampled"),
    (r"\bwho(ever|m|mever)?\b(?! (wants|operates|uses|changes|reads))", "the noun: request, sequence, client, operator"),
    (r"\b(some|every|no)body\b|\b(some|every)one\b", "the noun: request, sequence, client, operator"),
    (r"\b(is|are|be|been|was|were) (told|heard)\b|\btells? (it|them|that|whether)\b", "report, announce, log or return"),
    (r"\b(answer is|answers are|part of an answer|of answers?|an answer)\b", "output, reply or result"),
    (r"\bwish(es|ed)?\b", "retention hint"),
    (r"\bon (its|their) way\b|\bunder way\b", "in flight"),
    (r"\bthe one (before|after)\b", "the previous or the next step, token or block"),
]


def prose_lines(name: str, text: str) -> list[tuple[int, str]]:
    if name.endswith(".md"):
        return list(enumerate(text.splitlines(), 1))
    mark = "#" if name.endswith((".py", ".sh", ".txt", ".cmake")) else "//"
    return [(number, line[line.index(mark):]) for number, line in enumerate(text.splitlines(), 1) if mark in line]


def main(root: pathlib.Path) -> int:
    names = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    findings = []
    for name in names:
        path = root / name
        suffixes = (".h", ".cpp", ".cu", ".inl", ".proto", ".py", ".sh", ".md")
        if not name.startswith(FINISHED) or name.startswith(NOT_PROSE) or not name.endswith(suffixes) or not path.is_file():
            continue
        for number, line in prose_lines(name, path.read_text(errors="replace")):
            for pattern, instead in RETIRED:
                match = re.search(pattern, line, re.IGNORECASE)
                if match:
                    findings.append(f'{name}:{number}: "{match[0]}": write {instead}')
    print("\n".join(findings) if findings else "words: no retired word in the finished folders")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__ + "/../..").resolve()))
