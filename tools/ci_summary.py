#!/usr/bin/env python3
"""Adds up CTest's JUnit reports: ci_summary.py STEPS REPORT...

STEPS has a line for each step, "SECONDS ok NAME" or "SECONDS FAILED NAME". Prints the steps and the longest tests of
each report. Counts GoogleTest cases and Python tests where a program reports them, otherwise the program as one test.
Adds up the CPU time of the programs that have a limit of CPU time (tools/cpu_time.py). Prints "N passed, N failed" as
the last line; exits 1 if anything failed.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree


def count(case: ElementTree.Element) -> tuple[int, int, int]:
    """Returns the numbers (passed, failed, skipped) of one CTest test."""
    output = case.findtext("system-out") or ""
    failed = case.find("failure") is not None or case.get("status") == "fail"
    if case.find("skipped") is not None:
        return 0, 0, 1
    passed = sum(map(int, re.findall(r"^\[  PASSED  \] (\d+) test", output, re.M)))
    broken = sum(map(int, re.findall(r"^\[  FAILED  \] (\d+) test", output, re.M)))
    skipped = sum(map(int, re.findall(r"^\[  SKIPPED \] (\d+) test", output, re.M)))
    if not passed + broken + skipped:
        ran = re.search(r"^Ran (\d+) tests? in ", output, re.M)
        unsuccessful = re.search(r"^FAILED \((.*)\)", output, re.M)
        skips = re.search(r"^(?:OK|FAILED) \(.*skipped=(\d+)", output, re.M)
        if ran:
            skipped = int(skips[1]) if skips else 0
            if unsuccessful:
                broken = sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", unsuccessful[1])))
            passed = int(ran[1]) - broken - skipped
        else:
            passed = 0 if failed else 1
    return passed, max(broken, int(failed)), skipped


def longest(root: ElementTree.Element) -> str:
    cases = sorted(root.iter("testcase"), key=lambda case: -float(case.get("time", 0)))
    return ", ".join(f"{case.get('name')} {float(case.get('time', 0)):.0f} s" for case in cases[:5])


def print_steps(steps: list[list[str]]) -> None:
    for seconds, outcome, name in steps:
        print(f"{seconds:>6} s  {name}{'' if outcome == 'ok' else ': ' + outcome}")
    total = sum(int(seconds) for seconds, _, _ in steps)
    print(f"{total:6} s  in total, {total / 60:.0f} minutes")


def main(step_lines: str, reports: list[str]) -> int:
    steps = [line.split(" ", 2) for line in step_lines.splitlines()]
    failed_steps = ", ".join(name for _, outcome, name in steps if outcome != "ok")
    totals = [0, 0, 0]
    for report in reports:
        try:
            root = ElementTree.parse(report).getroot()
        except (OSError, ElementTree.ParseError) as error:
            print(f"{report}: {error}")
            totals[1] += 1
            continue
        cpu = [float(said) for said in re.findall(r"^CPU time: ([\d.]+) s of at most", "\n".join(
            case.findtext("system-out") or "" for case in root.iter("testcase")), re.M)]
        if cpu:
            print(f"{report}: tests on the emulated device took {sum(cpu):.0f} s of CPU time")
        print(f"{report}: the longest tests are {longest(root)}")
        for case in root.iter("testcase"):
            counts = count(case)
            totals = [a + b for a, b in zip(totals, counts)]
            if counts[1]:
                print(f"failed: {report}: {case.get('name')}")
    if failed_steps:
        print(f"failed steps: {failed_steps}")
        totals[1] = max(totals[1], 1)
    print_steps(steps)
    print(f"{totals[2]} skipped")
    print(f"{totals[0]} passed, {totals[1]} failed")
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
