"""Runs a suite with unittest. Exits with 77 if the suite skipped every test."""
import sys
import unittest

SKIPPED = 77


def main():
    suite, *arguments = sys.argv[1:]
    program = unittest.main(module=suite, argv=[suite, "-v", *arguments], exit=False)
    result = program.result
    if not result.wasSuccessful():
        return 1
    if result.testsRun == len(result.skipped) and result.skipped:
        print("skipped:", result.skipped[0][1])
        return SKIPPED
    return 0 if result.testsRun else 1


if __name__ == "__main__":
    sys.exit(main())
