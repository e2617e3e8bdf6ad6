#!/usr/bin/env python3
"""Runs one end-to-end suite in the tests' own Python environment: run.py PROGRAM SUITE [unittest arguments], or another
program of this folder: run.py PROGRAM MODULE [arguments].

Exits 77, which CTest shows as skipped, without that environment or where a suite skipped everything.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PYTHON = SOURCE / "build/venv/bin/python"
PROTOS = ["google/rpc/status", "google/rpc/error_details", "incipit/v1/inference", "incipit/v1/admin"]
SKIPPED = 77


def generate_stubs(folder):
    """The same protoc step that a user of the API takes."""
    command = [PYTHON, "-m", "grpc_tools.protoc", "-I", SOURCE / "proto", f"--python_out={folder}",
               f"--grpc_python_out={folder}"]
    subprocess.run(command + [f"{name}.proto" for name in PROTOS], check=True)


def main():
    program, suite, *arguments = sys.argv[1:]
    program = os.path.abspath(program)
    if not PYTHON.exists():
        print("skipped: tools/test_env.sh could not make build/venv")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        generate_stubs(folder)
        environment = dict(os.environ, INCIPIT_PROGRAM=program, INCIPIT_SOURCE=str(SOURCE),
                           PYTHONPATH=os.pathsep.join([folder, str(pathlib.Path(__file__).parent)]),
                           PYTHONDONTWRITEBYTECODE="1",
                           # Or gRPC's fork handlers may end a server's process before it is one.
                           GRPC_ENABLE_FORK_SUPPORT="0")
        if suite.startswith("suite_"):
            command = [PYTHON, "-m", "harness.main", suite, *arguments]
        else:
            command = [PYTHON, "-m", suite, *arguments]
        return subprocess.run(command, env=environment, cwd=folder if suite.startswith("suite_") else None).returncode


if __name__ == "__main__":
    sys.exit(main())
