#!/usr/bin/env python3
"""Runs an end-to-end suite in the Python environment of the tests: run.py PROGRAM SUITE [unittest arguments]

Also runs another program of this folder: run.py PROGRAM MODULE [arguments]

Exits with 77, which CTest reports as skipped, if the environment is missing or if the suite skipped every test.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PYTHON = SOURCE / "build/venv/bin/python"
PROTOS = ["google/rpc/status", "google/rpc/error_details", "incipit/v1/inference", "incipit/v1/admin",
          "smg/grpc/common/common", "vllm/grpc/engine/vllm_engine"]
SKIPPED = 77


def generate_stubs(folder):
    """Generates the gRPC stubs with the protoc command that a user of the API runs."""
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
                           # gRPC's fork handlers may otherwise end the child process before it starts the server.
                           GRPC_ENABLE_FORK_SUPPORT="0")
        if suite.startswith("suite_"):
            command = [PYTHON, "-m", "harness.main", suite, *arguments]
        else:
            command = [PYTHON, "-m", suite, *arguments]
        return subprocess.run(command, env=environment, cwd=folder if suite.startswith("suite_") else None).returncode


if __name__ == "__main__":
    sys.exit(main())
