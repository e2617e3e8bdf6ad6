"""Checks that cuda_gates.py finds each kind of problem in the machine code of kernels."""

from __future__ import annotations

import copy
import json
import struct
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import cubin  # noqa: E402
import cuda_gates  # noqa: E402

LDG, STG, LDL, STL, HMMA, UBLKCP, BRA, MEMBAR = 0x981, 0x986, 0x983, 0x387, 0x23C, 0x3BA, 0x947, 0x992
NOP = 0x918


def instruction(opcode: int, width: int = 0) -> bytes:
    return struct.pack("<QQ", opcode, width << 9)


def branch(instructions: int) -> bytes:
    """Returns a branch over `instructions` instructions in the encoding of sm_90. The branch offset counts from the
    next instruction, in units of 4 bytes."""
    units = instructions * 4
    high_units = units >> 8 & (1 << 48) - 1
    low = BRA | (units & 0xFF) << 16 | (high_units & (1 << 30) - 1) << 34
    return struct.pack("<QQ", low, high_units >> 30)


def elf(kernels: dict[str, bytes]) -> bytes:
    names, body, sections = b"\0", b"", []
    for symbol, code in [*kernels.items(), ("", b"")]:
        text = (".text." + symbol if symbol else ".shstrtab").encode()
        sections.append((len(names), 64 + len(body), len(code)))
        names += text + b"\0"
        body += code
    sections[-1] = (sections[-1][0], 64 + len(body), len(names))
    table = b"".join(struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, at, size, 0, 0, 1, 0) for name, at, size in sections)
    header = bytearray(64)
    struct.pack_into("<Q", header, 0x28, 64 + len(body) + len(names))
    struct.pack_into("<HHH", header, 0x3A, 64, len(sections), len(sections) - 1)
    return bytes(header) + body + names + table


def symbol(name: str, threads: int, shared: int) -> str:
    return f"_ZN7incipit4cuda5EntryINS0_{len(name)}{name}ELi{threads}ELi{shared}ELi1EEEvNT_4ArgsE"


# A kernel without findings: a loop with one 16-byte load and one tensor instruction, then a narrow store.
GOOD = instruction(LDG, 6) + instruction(HMMA) + branch(-3) + instruction(STG, 4) + branch(-1)
LINE = {"kernel": "Fast", "registers": 64, "shared_bytes": 1000, "hot": True, "narrow": 0, "at_least": {"HMMA": 1}}
BUDGET = {
    "sm": {"shared_bytes": 233472, "shared_bytes_of_block": 1024, "registers": 65536, "threads": 2048},
    "neighbour": {"shared_bytes": 114688, "registers": 32768, "threads": 1024},
    "kernels": [LINE],
    "neighbours": [["Fast", "Fast"]],
}


def log_of(name: str, registers: int = 64, stack: int = 0, spills: int = 0) -> str:
    return (f"ptxas info    : Compiling entry function '{name}' for 'sm_90a'\n"
            f"ptxas info    : Function properties for {name}\n"
            f"    {stack} bytes stack frame, {spills} bytes spill stores, 0 bytes spill loads\n"
            f"ptxas info    : Used {registers} registers, used 1 barriers\n")


class GatesTest(unittest.TestCase):
    def findings(self, code: bytes = GOOD, threads: int = 128, shared: int = 1000, note: str = "",
                 budget: dict = BUDGET, **log: int) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            name = symbol("Fast", threads, shared)
            (Path(folder) / "rows.cubin").write_bytes(elf({name: code}))
            (Path(folder) / "rows.log").write_text(log_of(name, **log) + note)
            kernels, findings = cuda_gates.read_build(Path(folder))
            self.assertEqual([kernel.name for kernel in kernels], ["Fast"])
            return findings + cuda_gates.check(json.loads(json.dumps(budget)), kernels)

    def changed(self, **keys: object) -> dict:
        budget = copy.deepcopy(BUDGET)
        budget.update(keys)
        return budget

    def test_a_kernel_within_its_budget_passes(self) -> None:
        self.assertEqual(self.findings(), [])

    def test_registers_stack_spills_and_shared_memory_over_budget(self) -> None:
        self.assertEqual(self.findings(registers=65), ["Fast: 65 registers, budget 64"])
        self.assertEqual(self.findings(stack=8), ["Fast: 8 bytes of stack, budget 0"])
        self.assertEqual(self.findings(spills=4), ["Fast: 4 bytes of spills, budget 0"])
        self.assertEqual(self.findings(shared=1001), ["Fast: 1001 bytes of shared memory, budget 1000"])

    def test_fewer_registers_than_are_shared_out(self) -> None:
        shared = self.changed(kernels=[{**LINE, "shares_registers": True}])
        self.assertEqual(self.findings(budget=shared), [])
        self.assertEqual(self.findings(registers=56, budget=shared), ["Fast: 56 registers, 64 are shared out"])

    def test_local_accesses_in_a_hot_kernel(self) -> None:
        self.assertEqual(self.findings(instruction(LDL, 4) + GOOD), ["Fast: 1 local loads (LDL), budget 0"])
        self.assertEqual(self.findings(instruction(STL, 4) + GOOD), ["Fast: 1 local stores (STL), budget 0"])
        cold = self.changed(kernels=[{**LINE, "hot": False}])
        self.assertEqual(self.findings(instruction(LDL, 4) + GOOD, budget=cold), [])

    def test_a_narrow_access_counts_in_a_main_loop_only(self) -> None:
        narrow = instruction(LDG, 4) + instruction(LDG, 6) + instruction(HMMA) + branch(-4) + branch(-1)
        self.assertEqual(self.findings(narrow),
                         ["Fast: 1 global accesses of less than 16 bytes in main loops, budget 0"])
        # An outer loop around a main loop contains a narrow load, as in code that handles results. This load does not
        # count.
        outer = instruction(NOP) + GOOD[:-16] + branch(-6) + branch(-1)
        self.assertEqual(self.findings(outer), [])

    def test_a_fence_counts_if_it_reaches_beyond_its_block(self) -> None:
        block, device, cluster = (struct.pack("<QQ", MEMBAR, scope << 12) for scope in (0x8, 0xA, 0x2))
        self.assertEqual(self.findings(block + GOOD), [])
        self.assertEqual(self.findings(device + cluster + GOOD), ["Fast: 2 fences beyond a block (MEMBAR), budget 0"])
        allowed = self.changed(kernels=[{**LINE, "fences": 2}])
        self.assertEqual(self.findings(device + cluster + GOOD, budget=allowed), [])

    def test_expected_instructions_that_are_missing(self) -> None:
        code = instruction(LDG, 6) + branch(-2) + branch(-1)
        self.assertEqual(self.findings(code), ["Fast: 0 of HMMA, at least 1 expected"])

    def test_notes_of_ptxas(self) -> None:
        for note in ("ptxas info : (C7508) setmaxnreg ignored", "ptxas info : (C7511) wgmma serialized",
                     "ptxas info : (C7517) wait put in", "ptxas info : (C7520) Potential Performance Loss: serialized",
                     "ptxas warning : something"):
            self.assertEqual(self.findings(note=note + "\n"), [f"rows: ptxas: {note}"])
        self.assertEqual(self.findings(note="ptxas info : (C7519) something else\n"), [])

    def test_neighbours_that_do_not_fit_one_sm(self) -> None:
        large = self.changed(kernels=[{**LINE, "shared_bytes": 200000}])
        self.assertEqual(self.findings(shared=114689, budget=large),
                         ["Fast: 114689 bytes of shared memory, 114688 for a neighbour"])
        many = self.findings(threads=544, budget=large)
        self.assertEqual(many, ["Fast and Fast do not fit one SM together",
                                "Fast: 34816 registers in a block, 32768 for a neighbour"])

    def test_lines_and_kernels_without_each_other(self) -> None:
        self.assertEqual(self.findings(budget=self.changed(kernels=[], neighbours=[])), ["Fast: not in the budget"])
        gone = self.changed(kernels=[LINE, {**LINE, "kernel": "Gone<*>"}])
        self.assertEqual(self.findings(budget=gone), ["budget: no kernel is called Gone<*>"])
        misspelt = self.changed(kernels=[{**LINE, "spils": 3}])
        self.assertEqual(self.findings(budget=misspelt), ["budget: Fast has an unknown spils"])
        self.assertEqual(self.findings(budget=self.changed(neighbours=[["Fast", "Gone"]])),
                         ["neighbours: no kernel is called Gone"])

    def test_a_hot_kernel_says_how_many_narrow_accesses_it_may_have(self) -> None:
        line = {key: value for key, value in LINE.items() if key != "narrow"}
        self.assertEqual(self.findings(budget=self.changed(kernels=[line])), ["budget: Fast is hot and has no narrow"])
        cold = self.changed(kernels=[{**line, "hot": False}])
        self.assertEqual(self.findings(budget=cold), [])

    def test_branches_are_read_both_ways_and_far(self) -> None:
        for distance in (-1, -2, 1, 70, 5000):
            self.assertEqual(cubin.decode(branch(distance))[0].target, 1 + distance)


class BudgetTest(unittest.TestCase):
    """Tests of the budget file of the product's kernels."""

    def test_whatever_finishes_a_librarys_product_has_a_kernel_after_it(self) -> None:
        budget = json.loads((Path(__file__).resolve().parents[2] / "kernels/cuda/device/budget.json").read_text())
        finishing = {line["kernel"] for line in budget["kernels"] if line["kernel"].startswith("FinishProduct<")}
        self.assertEqual(len(finishing), 4)
        self.assertEqual(finishing - {first for first, _ in budget["neighbours"]}, set())


if __name__ == "__main__":
    unittest.main()
