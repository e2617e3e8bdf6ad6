#!/usr/bin/env python3
"""Renders random conversations with chat templates, with this project and with Jinja2, and compares byte for byte.

  chat_differential.py --program build/dev/incipit [--count 300] [--seed 1] [--more NAME] [DIR ...]

The program `incipit render --template FILE` renders one conversation per line of JSON. If Jinja2 raises an
exception, the program must return an error. Exits with 77, which a test runner shows as skipped, if the
templates or Jinja2 are missing.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import more_test_data

try:
    import chat_conversations
    import chat_reference
except ImportError as error:
    print("skipped: %s" % error)
    sys.exit(77)


def replies(command, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=False, timeout=600)
    output = done.stdout.decode().split("\n")[:-1]
    if done.returncode != 0 or len(output) != len(lines):
        raise SystemExit("%s: status %d, %d of %d answers" % (command, done.returncode, len(output), len(lines)))
    return [json.loads(line) for line in output]


def first_difference(left, right):
    at = next((i for i, (a, b) in enumerate(zip(left, right)) if a != b), min(len(left), len(right)))
    return "at %d: %r, expected %r" % (at, left[max(0, at - 20) : at + 60], right[max(0, at - 20) : at + 60])


def compare(command, path, args):
    """Compares one template. Returns the number of differences."""
    environment = chat_reference.make_environment()
    source = path.read_text(encoding="utf-8")
    inputs = [chat_conversations.variables("%s/%d/%d" % (path.name, args.seed, i)) for i in range(args.count)]
    differences = num_texts = 0
    for index, (variables, reply) in enumerate(zip(inputs, replies(command + ["--template", str(path)], inputs))):
        text, error = chat_reference.render(environment, source, variables)
        num_texts += text is not None
        failed = isinstance(reply, dict)
        raised = error is not None and error.startswith("TemplateError: ")
        if text is None and failed and (not raised or reply["error"].endswith(error[len("TemplateError: ") :])):
            continue
        if text is not None and reply == text:
            continue
        differences += 1
        if differences <= args.show:
            if failed or text is None:
                print("%s #%d: %r, expected %r" % (path.name, index, reply, error or text[:200]))
            else:
                print("%s #%d %s" % (path.name, index, first_difference(reply, text)))
            if args.verbose:
                print(json.dumps(variables))
    print("%-60s %4d texts %4d errors %4d differences" % (path.name, num_texts, args.count - num_texts, differences))
    return differences


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True, help="incipit")
    parser.add_argument("--more", help="templates of this folder of $INCIPIT_TEST_DATA too")
    parser.add_argument("paths", nargs="*", type=pathlib.Path, help="folders of templates")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=3)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    command = [args.program, "render"]
    paths = sorted(path for folder in more_test_data.folders(args.paths, args.more) for path in folder.glob("*.jinja"))
    if not paths:
        print("skipped: no templates")
        return 77
    return 1 if sum(compare(command, path, args) for path in paths) else 0


if __name__ == "__main__":
    sys.exit(main())
