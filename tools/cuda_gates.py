#!/usr/bin/env python3
"""Compares the machine code of the CUDA kernels with a budget.

Usage: cuda_gates.py BUDGET FOLDER     FOLDER has the build's *.cubin files, and *.log files with the output of ptxas
       cuda_gates.py --skip REASON     prints REASON and exits with 77, which CTest reports as skipped

Prints a table, then everything that is over budget; exits 1 if anything is. docs/testing.md describes the checks.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import pathlib
import re
import subprocess
import sys

import cubin

# Notes of ptxas that are errors here: setmaxnreg ignored; a wait for wgmma inserted; wgmma serialised for any reason.
FORBIDDEN_NOTES = re.compile(r"C7508|C7511|C7517|Potential Performance Loss|wgmma")
PROPERTIES = re.compile(r"Function properties for (\S+)\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores, "
                        r"(\d+) bytes spill loads")
ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\w+)'")
# The numbers that launch.h puts into the name of an entry: threads, bytes of shared memory, thread blocks per SM.
LAUNCH = re.compile(r"Li(\d+)ELi(\d+)ELi(\d+)EEEv")
KEYS = {"kernel", "registers", "shared_bytes", "stack", "spills", "hot", "narrow", "fences", "at_least", "shares_registers"}


@dataclasses.dataclass
class Kernel:
    symbol: str
    name: str  # name in C++ without namespaces
    threads: int
    shared_bytes: int
    registers: int
    stack: int
    spills: int
    code: cubin.KernelCode

    @property
    def registers_of_block(self) -> int:
        return (self.registers + 7) // 8 * 8 * self.threads


def demangled(symbols: list[str]) -> list[str]:
    """Returns, for example, Sample<SampleShape> for void incipit::cuda::Entry<incipit::cuda::Sample<...>, 512,
    ...>(...)."""
    output = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True)
    names = []
    for line in output.stdout.splitlines():
        line = re.sub(r"\bincipit::(cuda::|dev::)?", "", line).replace("> >", ">>").replace("> >", ">>")
        match = re.match(r"void Entry<(.*), \d+, \d+, \d+>\(", line)
        names.append(match[1] if match else line)
    return names


def read_log(log: str) -> tuple[dict[str, tuple[int, int, int]], list[str]]:
    """Returns entry -> (registers, bytes of stack, bytes of spills), and the findings."""
    findings = [f"ptxas: {line.strip()}" for line in log.splitlines()
                if FORBIDDEN_NOTES.search(line) or "warning" in line]
    entries = {}
    for block in re.split(r"(?=ptxas info\s*: Compiling entry function)", log):
        entry = ENTRY.search(block)
        if not entry:
            continue
        registers = re.search(r"Used (\d+) registers", block)
        properties = PROPERTIES.findall(block)
        stack = max(int(found[1]) for found in properties)
        spills = sum(int(found[2]) + int(found[3]) for found in properties)
        entries[entry[1]] = int(registers[1]), stack, spills
    return entries, findings


def read_build(folder: pathlib.Path) -> tuple[list[Kernel], list[str]]:
    kernels, findings = [], []
    for path in sorted(folder.glob("*.cubin")):
        entries, found = read_log(path.with_suffix(".log").read_text())
        findings += [f"{path.stem}: {finding}" for finding in found]
        code = cubin.kernels(path.read_bytes())
        for symbol, name in zip(entries, demangled(list(entries))):
            launch = LAUNCH.search(symbol)
            if not launch or symbol not in code:
                findings.append(f"{path.stem}: {name} is no kernel of launch.h")
                continue
            registers, stack, spills = entries[symbol]
            kernels.append(Kernel(symbol, name, int(launch[1]), int(launch[2]), registers, stack, spills,
                                  code[symbol]))
    return kernels, findings


def line_of(budget: dict, name: str) -> dict | None:
    """Returns the budget's first line that matches the kernel's name."""
    return next((line for line in budget["kernels"] if fnmatch.fnmatchcase(name, line["kernel"])), None)


def check_kernel(kernel: Kernel, line: dict) -> list[str]:
    hot = line.get("hot", False)
    counts = kernel.code.counts
    limits = [("registers", kernel.registers, line["registers"]),
              ("bytes of shared memory", kernel.shared_bytes, line["shared_bytes"]),
              ("bytes of stack", kernel.stack, line.get("stack", 0)),
              ("bytes of spills", kernel.spills, line.get("spills", 0))]
    if hot:
        limits += [("local loads (LDL)", counts["LDL"], 0), ("local stores (STL)", counts["STL"], 0)]
    if "narrow" in line:
        limits.append(("global accesses of less than 16 bytes in main loops", kernel.code.narrow, line["narrow"]))
    limits.append(("fences beyond a block (MEMBAR)", counts["MEMBAR"], line.get("fences", 0)))
    findings = [f"{kernel.name}: {value} {what}, budget {most}" for what, value, most in limits if value > most]
    # The kernel's warpgroups redistribute the registers of the launch: with fewer registers they would wait without
    # end.
    if line.get("shares_registers") and kernel.registers < line["registers"]:
        findings.append(f"{kernel.name}: {kernel.registers} registers, {line['registers']} are shared out")
    for name, least in line.get("at_least", {}).items():
        if counts[name] < least:
            findings.append(f"{kernel.name}: {counts[name]} of {name}, at least {least} expected")
    return findings


def check_neighbours(budget: dict, kernels: list[Kernel]) -> list[str]:
    """Checks pairs of consecutive kernels: the thread blocks of the second kernel must fit on an SM beside those of
    the first."""
    sm, most = budget["sm"], budget["neighbour"]
    findings = []
    for patterns in budget["neighbours"]:
        sides = [[k for k in kernels if fnmatch.fnmatchcase(k.name, pattern)] for pattern in patterns]
        for pattern, side in zip(patterns, sides):
            if not side:
                findings.append(f"neighbours: no kernel is called {pattern}")
            for kernel in side:
                for what, value, limit in (("bytes of shared memory", kernel.shared_bytes, most["shared_bytes"]),
                                           ("registers in a block", kernel.registers_of_block, most["registers"]),
                                           ("threads", kernel.threads, most["threads"])):
                    if value > limit:
                        findings.append(f"{kernel.name}: {value} {what}, {limit} for a neighbour")
        for first in sides[0]:
            for second in sides[1]:
                shared = first.shared_bytes + second.shared_bytes + 2 * sm["shared_bytes_of_block"]
                registers = first.registers_of_block + second.registers_of_block
                if shared > sm["shared_bytes"] or registers > sm["registers"] or \
                        first.threads + second.threads > sm["threads"]:
                    findings.append(f"{first.name} and {second.name} do not fit one SM together")
    return sorted(set(findings))


def check(budget: dict, kernels: list[Kernel]) -> list[str]:
    findings = [] if kernels else ["no kernel was compiled"]
    used = set()
    for kernel in kernels:
        line = line_of(budget, kernel.name)
        if line is None:
            findings.append(f"{kernel.name}: not in the budget")
            continue
        used.add(line["kernel"])
        findings += check_kernel(kernel, line)
    for line in budget["kernels"]:
        if line["kernel"] not in used:
            findings.append(f"budget: no kernel is called {line['kernel']}")
        findings += [f"budget: {line['kernel']} has an unknown {key}" for key in line.keys() - KEYS]
        if line.get("hot") and "narrow" not in line:
            findings.append(f"budget: {line['kernel']} is hot and has no narrow")
    return findings + check_neighbours(budget, kernels)


def print_table(kernels: list[Kernel]) -> None:
    columns = ("LDG", "STG", "LDGSTS", "UBLKCP", "LDSM", "HMMA", "HGMMA", "LDL", "STL", "MEMBAR")
    print(f"{'kernel':58} threads  regs stack spill  shared narrow local " + " ".join(f"{c:>6}" for c in columns))
    for kernel in kernels:
        print(f"{kernel.name:58} {kernel.threads:7} {kernel.registers:5} {kernel.stack:5} {kernel.spills:5} "
              f"{kernel.shared_bytes:7} {kernel.code.narrow:6} {kernel.code.local:5} "
              + " ".join(f"{kernel.code.counts[c]:6}" for c in columns))


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "--skip":
        print(f"skipped: {sys.argv[2]}")
        return 77
    kernels, findings = read_build(pathlib.Path(sys.argv[2]))
    print_table(kernels)
    findings += check(json.loads(pathlib.Path(sys.argv[1]).read_text()), kernels)
    print("\n".join(findings) if findings else f"{len(kernels)} kernels within budget")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
