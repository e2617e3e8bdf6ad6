#!/usr/bin/env python3
"""Checks rules that a compiler does not check: layering, file size, banned constructs, files that are not built.

Usage: tidy.py [ROOT]. Prints one line per finding; exits 1 if there is any.
"""
import pathlib
import re
import subprocess
import sys

from layers import check_includes, layer_of

BANNED = [
    (r"#\s*if.*CUDA(?!CC__$)", "choose a source file in CMake instead of #if"),
    (r"\busing namespace\b", "qualify the name"),
    (r"\b(sleep_for|sleep_until|usleep|nanosleep)\b", "wait for an event"),
    (r"\bstd::(cout|cerr)\b", "log with spdlog, or in cli/ print with fmt"),
    (r"\b(FIXME|TODO|XXX)\b", "finish the work before the commit"),
]
# Files that may use the system clock, which jumps when the time is set.
SYSTEM_CLOCK = ("base/clock.h", "cli/client/client.cpp", "text/", "server/server.cpp")
# Files that may call UnixTime or UnixSeconds (base/clock.h). They need the time for timestamps.
UNIX_TIME = ("base/clock.h", "cli/cache/cache_", "cli/serve_tier.cpp", "server/gateway/kv_batch.cpp", "server/gateway/kv_event_hub.cpp",
             "server/metrics/metrics.cpp")
# Files that may depend on the compiler of the kernels, nvcc or a host compiler.
MEETS_COMPILER = ("kernels/cuda/device/device.h", "kernels/cuda/runtime/launch.h")
MAX_LINES = 600
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}


def tracked_files(root: pathlib.Path) -> list[str]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=True)
    return [name for name in listing.stdout.splitlines() if (root / name).is_file()]


def shared_names(names: list[str]) -> list[str]:
    """Returns an error for each source of the product that has the file name of another source. In kernels/, sources
    of several devices may have one name."""
    folders = {}
    for name in names:
        path = pathlib.PurePath(name)
        if layer_of(name) and path.suffix in SUFFIXES and not name.startswith("kernels/"):
            folders.setdefault(path.name, []).append(str(path.parent))
    return [f"{name}: in {' and in '.join(found)}; give each file a name of its own"
            for name, found in folders.items() if len(found) > 1]


def main(root: pathlib.Path) -> int:
    names = tracked_files(root)
    cmake = "\n".join((root / n).read_text() for n in names if n.endswith(("CMakeLists.txt", ".cmake")))
    errors = shared_names(names)
    for name in names:
        suffix = pathlib.PurePath(name).suffix
        if suffix not in SUFFIXES | {".py", ".sh"}:
            continue
        text = (root / name).read_text()
        if text.count("\n") > MAX_LINES:
            errors.append(f"{name}: {text.count(chr(10))} lines, at most {MAX_LINES}; split it by responsibility")
        if suffix not in SUFFIXES:
            continue
        if layer_of(name):
            errors += check_includes(name, text)
            for number, line in enumerate(text.splitlines(), 1):
                errors += [f"{name}:{number}: {why}" for what, why in BANNED if re.search(what, line)]
                if "__CUDACC__" in line and not name.startswith(MEETS_COMPILER):
                    errors.append(f"{name}:{number}: only {' and '.join(MEETS_COMPILER)} may depend on the compiler")
                uses_clock = "system_clock" in line and not name.startswith(SYSTEM_CLOCK)
                if uses_clock or (re.search(r"\bUnix(Time|Seconds)\b", line) and not name.startswith(UNIX_TIME)):
                    errors.append(f"{name}:{number}: use a Clock for the time")
        if layer_of(name) or name.startswith(("tests/", "bench/")):
            is_listed = re.search(rf"(?<![\w.]){re.escape(pathlib.PurePath(name).name)}(?![\w.])", cmake)
            if not is_listed and not (suffix == ".h" and name.startswith(("tests/", "bench/"))):
                errors.append(f"{name}: not listed in any CMakeLists.txt")
    print("\n".join(errors) if errors else f"tidy: {len(names)} files")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__ + "/../..").resolve()))
