#!/usr/bin/env python3
"""Packs a built program, the bundled model and all needed libraries into one archive that runs without installation.

    tools/package.py BUILD_FOLDER OUTPUT.tar.xz

Copies the programs named in packaged_programs.txt of the build folder into bin/, and every shared library that they
load into lib/. The programs are linked with $ORIGIN/../lib and search there first. Also copies gpu_check and the
files with which it compares results. The C library, the driver and cuBLASLt are not copied.

Fails if a library is not found, if a program needs a newer C library than 2.36 (Debian 12), or if the archive is
larger than 50 MB.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
NEWEST_GLIBC = (2, 36)
BYTES_MAX = 50_000_000
# Libraries that are not copied: those of the C library, which must match the system's loader, and those of the driver.
LEFT_OUT = re.compile(r"^(linux-vdso|ld-linux.*|lib(c|m|pthread|dl|rt|resolv|util|nsl|anl))\.so(\.|$)"
                      r"|^lib(cuda|nvidia.*|cublasLt|cublas)\.so")

# Modules that gpu_check imports. GOLDENS are the models and golden outputs that its tests read.
GPU_CHECK = ["gpu_compare.py", "gpu_table.py", "gpu_yardsticks.py"]
GOLDENS = ["incipit-tiny", *(f"hf/{name}" for name in ("llama-bf16", "mistral-window", "qwen2-tied-bf16", "qwen3-plain"))]


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def libraries_of(program):
    """Returns {name: path} of all libraries that the loader would load for the program."""
    libraries = {}
    for line in output_of("ldd", str(program)).splitlines():
        name, _, found = line.strip().partition(" => ")
        name = pathlib.Path(name.split(" ")[0]).name
        if LEFT_OUT.search(name):
            continue
        path = found.split(" (")[0]
        if not path.startswith("/"):
            raise SystemExit(f"{program} needs {name}, which is not installed")
        libraries[name] = pathlib.Path(path)
    return libraries


def newest_glibc(file):
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", output_of("objdump", "-T", str(file)))
    return max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def fill(folder, programs):
    for name in ("bin", "lib", "models"):
        (folder / name).mkdir(parents=True)
    libraries = {}
    for program in programs:
        shutil.copy(program, folder / "bin")
        libraries.update(libraries_of(program))
    for name, path in libraries.items():
        shutil.copy(path.resolve(), folder / "lib" / name)
    files = sorted([*(folder / "bin").iterdir(), *(folder / "lib").iterdir()])
    for file in files:
        os.chmod(file, 0o755)
        subprocess.run(["strip", "--strip-unneeded", str(file)], check=True)
        needed = newest_glibc(file)
        if needed > NEWEST_GLIBC:
            raise SystemExit(f"{file.name} needs glibc {needed[0]}.{needed[1]}")
    shutil.copytree(SOURCE / "models/incipit-tiny", folder / "models/incipit-tiny")
    shutil.copy(SOURCE / "tools/gpu_check.py", folder / "gpu_check")
    os.chmod(folder / "gpu_check", 0o755)
    for name in GPU_CHECK:
        shutil.copy(SOURCE / "tools" / name, folder)
    for name in GOLDENS:
        shutil.copytree(SOURCE / "tests/golden" / name, folder / "tests/golden" / name)
    for name in ("LICENSE", "README.md", "CHANGELOG.md"):
        shutil.copy(SOURCE / name, folder)
    return files


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    build, output = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "incipit"
        files = fill(folder, (build / "packaged_programs.txt").read_text().split())
        for file in files:
            needed = newest_glibc(file)
            print(f"{file.relative_to(folder)}: {file.stat().st_size} bytes, glibc {needed[0]}.{needed[1]}")
        with tarfile.open(output, "w:xz", preset=3) as archive:
            archive.add(folder, "incipit")
    size = output.stat().st_size
    print(f"{output}: {size / 1e6:.1f} MB")
    if size > BYTES_MAX:
        raise SystemExit(f"the package has {size} bytes; the limit is {BYTES_MAX} bytes")


if __name__ == "__main__":
    main()
