"""Finds test data that the project may not keep, such as published tokenizers."""
import os
import pathlib
import sys


def folders(paths, more):
    """Returns `paths`, and the folder `more` of $INCIPIT_TEST_DATA if `more` is given.

    If `more` is given and the variable is not set, exits with status 77, which a test runner shows as skipped.
    """
    if more is None:
        return paths
    root = os.environ.get("INCIPIT_TEST_DATA")
    if not root:
        print("skipped: INCIPIT_TEST_DATA is not set, see docs/testing.md")
        sys.exit(77)
    return [*paths, pathlib.Path(root) / more]
