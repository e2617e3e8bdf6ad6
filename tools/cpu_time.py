#!/usr/bin/env python3
"""Runs a program and fails if it takes more CPU time, of all its threads, than it may: cpu_time.py SECONDS PROGRAM ...

CPU time, so that other things on the machine do not fail it. The last line says how much it was.
"""
import resource
import subprocess
import sys


def main() -> int:
    seconds_max, *command = sys.argv[1:]
    code = subprocess.run(command).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime
    print(f"CPU time: {seconds:.1f} s of at most {seconds_max} s", flush=True)
    if seconds > float(seconds_max):
        print("it takes more than it may")
        return 1
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
