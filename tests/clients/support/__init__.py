"""Helpers of every program in tests/clients: the list of checks, a browser, and a scripted server.

Each program is called as `python tests/clients/NAME.py PROGRAM`, where PROGRAM is the path of `incipit`. The programs
start servers with the harness of tests/e2e, whose module `process` needs only the standard library."""
import os
import pathlib
import sys

_SOURCE = pathlib.Path(__file__).resolve().parents[3]
if len(sys.argv) != 2:
    sys.exit(f"usage: {sys.argv[0]} PROGRAM")
os.environ["INCIPIT_PROGRAM"] = os.path.abspath(sys.argv[1])
os.environ["INCIPIT_SOURCE"] = str(_SOURCE)
sys.path.append(str(_SOURCE / "tests/e2e"))

# The server with a fake model, which the build puts beside `incipit`.
FAKE_SERVER = str(pathlib.Path(os.environ["INCIPIT_PROGRAM"]).parent / "fake_server")
