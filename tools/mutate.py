#!/usr/bin/env python3
"""Plants one bug at a time in a copy of the tree and expects a test to fail.

Usage: mutate.py [--root ROOT] [--seeds N] [--jobs N] [NAME ...]
       mutate.py --table    # prints the table of docs/planted_bugs.md and plants nothing

Bug.test names the test that must fail: the simulation (tests/sim), or, if the bug leaves all outputs correct, the
unit tests of the scheduler (tests/scheduler) or the tests with faults in the simulation with time
(tests/serving_sim). Bugs of the disk tier, of `incipit cache` and of the queue of the text threads have tests of their
own (tests/tier, tests/cli/cache, tests/server/session). If a bug survives, either the test lacks a check or the changed
line has no effect. Prints a table; exits 1 if a bug survives, does not apply or does not compile, or if a test fails
without a bug. Only .cpp files are changed, so each bug needs one compilation and one link.
"""
import argparse
import concurrent.futures
import functools
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from planted_bugs import BUGS, TESTS, Bug, Test

FOLDERS = ["base", "cli/cache", "kvcache", "scheduler", "server/session", "tier", "engine", "kernels", "tests/cli/cache",
           "tests/sim", "tests/scheduler", "tests/serving_sim", "tests/support", "tests/tier", "tests/engine",
           "tests/kvcache", "tests/server/session"]
SOURCES = ["base/atomic_file.cpp", "base/check.cpp", "base/hash/*.cpp", "base/scheduling.cpp", "base/table.cpp",
           "cli/cache/*archive*.cpp", "cli/cache/*_folder.cpp", "cli/cache/prefix_forest.cpp", "cli/cache/progress.cpp",
           "engine/[abepr]*.cpp", "engine/step_stats.cpp", "engine/store_*.cpp", "kvcache/**/*.cpp", "scheduler/*.cpp",
           "server/session/text_pool.cpp", "tier/**/*.cpp"]
TIMEOUT_S = 120  # time limit of one test; a bug that makes the test hang counts as caught


def table() -> str:
    """Returns the planted bugs as a Markdown table."""
    rows = "".join(f"| `{bug.file}` | {bug.name[0].upper()}{bug.name[1:]} | `{bug.test}` |\n" for bug in BUGS)
    return "| source file | planted bug | test that fails |\n|---|---|---|\n" + rows


def run(command: list[str], **kwargs) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, **kwargs)


@functools.cache
def library_flags(test: str) -> list[str]:
    """Returns the linker's arguments for the libraries of `test`."""
    names = ["absl_flat_hash_map", "absl_status", "absl_statusor", "fmt", "liburing"] + TESTS[test].libraries
    return run(["pkg-config", "--libs"] + names, check=True).stdout.split()


class Workshop:
    """A copy of the tree with its object files. Each bug needs one compilation.

    Files without planted bugs are compiled together, one unit per folder. The sources of a test are one unit, too.
    """

    def __init__(self, root: pathlib.Path, work: pathlib.Path, seeds: int, bugs: list[Bug]):
        self.tree, self.work, self.seeds = work / "tree", work, seeds
        self.header = work / "all.h"
        for folder in FOLDERS:
            shutil.copytree(root / folder, self.tree / folder, dirs_exist_ok=True,
                            ignore=lambda _, names: [n for n in names if not n.endswith((".h", ".cpp"))
                                                     and "." in n])
        sources = {str(path.relative_to(self.tree)) for pattern in SOURCES for path in self.tree.glob(pattern)}
        mutated = {bug.file for bug in bugs}
        self.includes = {line for source in mutated for line in (self.tree / source).read_text().splitlines()
                         if line.startswith('#include "')}
        self.sources = sorted(sources & mutated) + self.bundle(sorted(sources - mutated))
        self.units = {name: self.bundle_test(name, TESTS[name]) for name in sorted({bug.test for bug in bugs})}
        compiler = os.environ.get("CXX", "c++").split()
        self.compiler = compiler + ["-std=c++20", "-O1", "-I", str(self.tree)]

    def bundle(self, sources: list[str]) -> list[str]:
        for folder, files in itertools.groupby(sources, lambda source: source.split("/")[0]):
            text = "".join(f'#include "{file}"\n' for file in files)
            (self.tree / f"{folder}.cpp").write_text(text)
        return sorted(path.name for path in self.tree.glob("*.cpp"))

    def bundle_test(self, name: str, test: Test) -> str:
        files = sorted(path.relative_to(self.tree) for pattern in test.sources for path in self.tree.glob(pattern))
        unit = f"{name}.cpp"
        (self.tree / unit).write_text("".join(f'#include "{file}"\n' for file in files))
        return unit

    def object_of(self, source: str) -> pathlib.Path:
        return self.work / (source.replace("/", "_") + ".o")

    def precompile(self) -> str:
        """Precompiles one header that includes all headers. A bug then needs only the compilation of its own file's
        lines."""
        self.header.write_text("\n".join(sorted(self.includes)) + "\n")
        result = run(self.compiler + ["-x", "c++-header", str(self.header), "-o", f"{self.header}.gch"])
        return result.stderr if result.returncode else ""

    def compile(self, source: pathlib.Path, target: pathlib.Path) -> str:
        result = run(self.compiler + ["-include", str(self.header), "-c", str(source), "-o", str(target)])
        return result.stderr if result.returncode else ""

    def link(self, test: str, mutated: dict[str, pathlib.Path], target: pathlib.Path) -> str:
        """Links the program of `test`. `mutated` has the object files that replace the object file of a source."""
        objects = [str(mutated.get(s, self.object_of(s))) for s in self.sources + [self.units[test]]]
        result = run(self.compiler + objects + ["-o", str(target)] + library_flags(test))
        return result.stderr if result.returncode else ""

    def run_test(self, test: str, program: pathlib.Path) -> tuple[bool, str]:
        """Returns whether the test passed, and a line of its output: the last line, or the first failed unit test."""
        arguments = ["1", str(self.seeds)] if test == "simulation" else ["--gtest_brief=1", "--gtest_fail_fast"]
        try:
            result = run([str(program)] + arguments, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return False, "hangs"
        said = (result.stdout + result.stderr).strip().splitlines()
        said = [line.replace(str(self.tree) + "/", "") for line in said if not line.startswith("while ")]
        failed = [line for line in said if line.startswith("[  FAILED  ]")]
        return result.returncode == 0, (failed + said[-1:] + [f"exit status {result.returncode}"])[0]

    def build_all(self, pool: concurrent.futures.Executor) -> str:
        error = self.precompile()
        if error:
            return error
        sources = list(self.units.values()) + self.sources
        errors = pool.map(lambda s: self.compile(self.tree / s, self.object_of(s)), sources)
        return "\n".join(filter(None, errors))

    def plant(self, index: int, bug: Bug) -> tuple[str, str]:
        """Returns the verdict ("caught", or the problem) and details."""
        text = (self.tree / bug.file).read_text()
        pattern = r"\s+".join(re.escape(word) for word in bug.old.split())
        mutated, count = re.subn(pattern, lambda _: bug.new, text)
        if count != 1:
            return "NOT APPLIED", f"{count} matches in {bug.file}"
        source = self.work / f"bug{index}.cpp"
        source.write_text(mutated)
        mutant, program = self.work / f"bug{index}.o", self.work / f"bug{index}"
        error = self.compile(source, mutant)
        error = error or self.link(bug.test, {bug.file: mutant}, program)
        if error:
            return "NOT BUILT", error.strip().splitlines()[0]
        held, said = self.run_test(bug.test, program)
        program.unlink()
        return ("SURVIVES" if held else "caught"), said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--seeds", type=int, default=16000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="print the planted bugs as a Markdown table, and plant nothing")
    parser.add_argument("names", nargs="*", help="bugs to plant; all of them by default")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(), end="")
        return 0
    bugs = [bug for bug in BUGS if not arguments.names or bug.name in arguments.names]
    width = max(len(bug.name) for bug in BUGS)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        workshop = Workshop(arguments.root, pathlib.Path(folder), arguments.seeds, bugs)
        error = workshop.build_all(pool)
        programs = {test: pathlib.Path(folder) / test for test in workshop.units}
        for test, program in programs.items():
            error = error or workshop.link(test, {}, program)
        if error:
            print(error)
            return 1
        sound = pool.map(lambda pair: workshop.run_test(*pair), programs.items())
        verdicts = pool.map(lambda pair: workshop.plant(*pair), enumerate(bugs))
        for test, (held, said) in zip(programs, sound):
            print(f"{'without a bug: ' + test:{width}} {'holds' if held else 'FAILS':12} {said}", flush=True)
            if not held:
                pool.shutdown(cancel_futures=True)
                return 1
        caught = 0
        for bug, (verdict, detail) in zip(bugs, verdicts):
            print(f"{bug.name:{width}} {verdict:12} {detail}", flush=True)
            caught += verdict == "caught"
    print(f"{caught} of {len(bugs)} bugs caught in {time.monotonic() - start:.0f} s")
    return 0 if caught == len(bugs) else 1


if __name__ == "__main__":
    sys.exit(main())
