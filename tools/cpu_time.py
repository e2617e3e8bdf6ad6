#!/usr/bin/env python3
"""Runs a program and fails if all its threads together use more CPU time than the limit: cpu_time.py SECONDS PROGRAM
...

CPU time does not depend on other programs on the machine. The last line has the CPU time used.
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
        print("the program used more CPU time than the limit")
        return 1
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
