"""Runs the checks of a program and prints one line for each check."""
import contextlib
import time
import traceback

WAIT_SECONDS = 60  # time limit of wait_for; a check that passes never waits for the limit


class Checks:
    def __init__(self):
        self._num_passed = self._num_failed = 0

    @contextlib.contextmanager
    def check(self, name):
        """The body of the `with` block is a check, which fails if the body raises an exception."""
        try:
            yield
        except Exception as error:  # whatever a client library raises is the result of the check
            self._num_failed += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            why = " ".join(f"{type(error).__name__}: {error}".split())[:500]
            print(f"FAILED {name}: {why} ({where.name}, line {where.lineno})", flush=True)
        else:
            self._num_passed += 1
            print(f"ok {name}", flush=True)

    def skip(self, name, why):
        print(f"skipped {name}: {why}", flush=True)

    def note(self, text):
        """Prints a measured quantity."""
        print(f"measured {text}", flush=True)

    def end(self):
        """Prints the number of checks. Returns the exit code of the program."""
        print(f"{self._num_passed} passed, {self._num_failed} failed", flush=True)
        return 1 if self._num_failed else 0


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def contains(text, part):
    assert part in text, f"{part!r} is not in {text!r}"


def wait_for(condition, what, seconds=WAIT_SECONDS):
    """Waits until `condition()` is true and returns its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"after {seconds} s: not {what}"
        time.sleep(0.01)
    return value
