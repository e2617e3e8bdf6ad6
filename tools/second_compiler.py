#!/usr/bin/env python3
"""Checks, without generating code, the sources of a preset that some of its targets do not need.

Usage: second_compiler.py BUILD_FOLDER TARGET...

BUILD_FOLDER is configured with Ninja. The sources that the TARGETs need are left out, because building the targets
compiles them. The compiler parses and checks every other source, and every header on its own. Prints the compiler's
messages; exits 1 if the compiler rejects a source.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

# Endings of files that must be built before sources can be checked.
GENERATED = (".pb.h", "cmake_pch.hxx.pch")
# Endings of generated sources.
NOT_OURS = (".pb.cc",)


def ninja(folder: pathlib.Path, *arguments: str) -> list[str]:
    return subprocess.run(["ninja", "-C", str(folder), *arguments], check=True, capture_output=True,
                          text=True).stdout.splitlines()


def check_command(command: str) -> tuple[list[str], str]:
    """Returns (the command that only checks, the object that `command` makes)."""
    arguments = shlex.split(command)
    position = arguments.index("-o")
    output = arguments[position + 1]
    return arguments[:position] + ["-fsyntax-only"] + arguments[position + 2:], output


def rest(folder: pathlib.Path, targets: list[str]) -> list[tuple[str, list[str]]]:
    """Returns (source, command that checks it) for each source that `targets` do not need."""
    needed = set(ninja(folder, "-t", "inputs", *targets))
    checks = []
    for entry in json.loads((folder / "compile_commands.json").read_text()):
        command, output = check_command(entry["command"])
        if output in needed or entry["file"].endswith(NOT_OURS) or ".pch" in output:
            continue
        checks.append((os.path.relpath(entry["file"], folder), command))
    return checks


def main(folder: pathlib.Path, targets: list[str]) -> int:
    known = [line.rsplit(": ", 1)[0] for line in ninja(folder, "-t", "targets", "all")]
    needed_files = [name for name in known if name.endswith(GENERATED) and not name.startswith("/")]
    subprocess.run(["ninja", "-C", str(folder), *needed_files], check=True)
    checks = rest(folder, targets)

    def check(one: tuple[str, list[str]]) -> bool:
        source, command = one
        result = subprocess.run(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        if result.returncode != 0:
            print(f"{source}:\n{result.stderr}", flush=True)
        return result.returncode == 0

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        num_refused = sum(not passed for passed in pool.map(check, checks))
    print(f"{len(checks)} sources checked, {num_refused} rejected")
    return 1 if num_refused else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]))
