#!/usr/bin/env python3
"""Writes how Jinja2 (PyPI, 3.1.6) renders the templates of the tests, as golden files for the tests.

  tools/make_chat_goldens.py

tests/text/jinja/golden/snippets.json has templates with one feature each. conversations.json has the templates of the
same folder, rendered with random conversations. Run the script in the root of the repository after a change of the
templates.
"""

import copy
import json
import pathlib
import sys

sys.path.insert(0, "tests")
import chat_conversations  # noqa: E402
import chat_reference  # noqa: E402
import jinja_snippets  # noqa: E402

GOLDEN = pathlib.Path("tests/text/jinja/golden")
NUM_CONVERSATIONS = 40
# Outputs with one of these texts contain an address, which differs in every run.
UNSTABLE = (" at 0x", "<function", "<built-in")


def case(environment, source, variables):
    text, error = chat_reference.render(environment, source, copy.deepcopy(variables))
    if error is None:
        return {"text": text}
    raised = "TemplateError: "
    return {"raises": error[len(raised) :] if error.startswith(raised) else ""}


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=True, indent=0).replace("\n\n", "\n") + "\n", encoding="ascii")


def main():
    environment = chat_reference.make_environment()
    cases = []
    for source in jinja_snippets.snippets():
        result = case(environment, source, jinja_snippets.VARIABLES)
        if not any(mark in result.get("text", "") for mark in UNSTABLE):
            cases.append({"template": source, **result})
    write(GOLDEN / "snippets.json", {"variables": jinja_snippets.VARIABLES, "cases": cases})
    conversations = []
    for path in sorted(GOLDEN.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for index in range(NUM_CONVERSATIONS):
            variables = chat_conversations.variables("%s/%d" % (path.name, index))
            result = case(environment, source, variables)
            conversations.append({"template": path.name, "variables": variables, **result})
    write(GOLDEN / "conversations.json", conversations)


main()
