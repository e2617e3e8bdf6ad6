#!/usr/bin/env python3
"""Renders the fixed and the random snippets with this project's driver and with Jinja2, and compares the results.

  snippet_differential.py --driver build/dev/tests/text/jinja/render_driver [--count 2000] [--seed 1]
"""

import argparse
import copy
import re
import sys

try:
    import chat_differential
    import chat_reference
    import jinja_snippets
except ImportError as error:
    print("skipped: %s" % error)
    sys.exit(77)

# Output with an address cannot be compared, and neither can the length of that output.
ADDRESS = re.compile(r" at 0x[0-9a-f]+|<(built-in|bound|function|generator|[a-z_.]*iterator)", re.IGNORECASE)
GENERATOR = re.compile(r"\b(map|select|reject|selectattr|rejectattr|slice|batch|unique|items|reverse)\b")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", required=True)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=40)
    args = parser.parse_args()
    sources = jinja_snippets.snippets()
    sources += [jinja_snippets.random_snippet("%d/%d" % (args.seed, i)) for i in range(args.count)]
    lines = [{"template": source, "variables": jinja_snippets.VARIABLES} for source in sources]
    environment = chat_reference.make_environment()
    differences = errors = 0
    for source, reply in zip(sources, chat_differential.replies([args.driver, "--snippets"], lines)):
        text, error = chat_reference.render(environment, source, copy.deepcopy(jinja_snippets.VARIABLES))
        errors += text is None
        if text is None and isinstance(reply, dict):
            continue
        if text is not None and (reply == text or ADDRESS.search(text)):
            continue
        if text is not None and text.isdigit() and GENERATOR.search(source):
            continue
        differences += 1
        if differences <= args.show:
            print("%r\n  %r\n  expected %r" % (source, reply, error or text))
    print("%d snippets, %d of them errors, %d differences" % (len(sources), errors, differences))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
