"""Counts the instructions of the kernels in a cubin (ELF, sm_90) without a disassembler.

An instruction has 16 bytes. Bits [0, 9) are the operation, bits [9, 12) the kind of its operands, bits [73, 76) the
width of a memory access, and bits [76, 79) the scope of a fence (0: the thread block). Bits [16, 24) and [34, 82) of
a branch are its distance from the next instruction in units of 4 bytes. This encoding was found by compiling small
kernels of known PTX.
"""

from __future__ import annotations

import collections
import dataclasses
import struct

OPCODES = {
    0x181: "LDG", 0x186: "STG", 0x1AE: "LDGSTS", 0x183: "LDL", 0x187: "STL", 0x184: "LDS", 0x188: "STS",
    0x03B: "LDSM", 0x044: "STSM", 0x03C: "HMMA", 0x1F0: "HGMMA", 0x1BA: "UBLKCP", 0x1B4: "UTMALDG",
    0x11D: "BAR", 0x108: "MUFU", 0x189: "SHFL", 0x147: "BRA",
    0x192: "MEMBAR",  # only fences with a larger scope than the thread block
}
GLOBAL_ACCESSES = {"LDG", "STG", "LDGSTS"}
WIDE = 6  # 16 bytes
WORK = {"HMMA", "HGMMA", "UBLKCP", "UTMALDG"}


@dataclasses.dataclass
class Instruction:
    name: str  # empty for instructions that are not counted
    width: int
    target: int | None = None  # index of the instruction to which a branch jumps

    @property
    def is_wide_access(self) -> bool:
        return self.name in GLOBAL_ACCESSES and self.width == WIDE

    @property
    def is_narrow_access(self) -> bool:
        return self.name in GLOBAL_ACCESSES and self.width != WIDE


def decode(code: bytes) -> list[Instruction]:
    instructions = []
    for number, (low, high) in enumerate(struct.iter_unpack("<QQ", code)):
        instruction = Instruction(OPCODES.get(low & 0x1FF, ""), high >> 9 & 7)
        if instruction.name == "MEMBAR" and (high >> 12 & 7) == 0:
            instruction.name = ""
        if instruction.name == "BRA":
            distance = low >> 34 | (high & 0x3FFFF) << 30
            distance -= (distance >> 47) << 48
            instruction.target = number + 1 + (distance << 8 | low >> 16 & 0xFF) * 4 // 16
        instructions.append(instruction)
    return instructions


def loops(instructions: list[Instruction]) -> list[range]:
    """Returns the ranges of instructions that backward branches repeat, one for each branch target, shortest first.
    The endless loop after the end of a kernel is not included."""
    ends = {}
    for number, instruction in enumerate(instructions):
        if instruction.target is not None and 0 <= instruction.target < number:
            ends[instruction.target] = max(number, ends.get(instruction.target, 0))
    return sorted((range(begin, end + 1) for begin, end in ends.items()), key=len)


def in_main_loops(instructions: list[Instruction]) -> list[Instruction]:
    """Returns the instructions of main loops. A main loop has a tensor instruction, a bulk copy or a 16-byte global
    access, and contains no other such loop."""
    working = [loop for loop in loops(instructions)
               if any(instructions[position].name in WORK or instructions[position].is_wide_access for position in loop)]
    main = [loop for number, loop in enumerate(working)
            if not any(inner.start in loop and inner[-1] in loop for inner in working[:number])]
    return [instructions[position] for position in sorted({position for loop in main for position in loop})]


@dataclasses.dataclass
class KernelCode:
    counts: collections.Counter
    # Counts in main loops: global accesses of less than 16 bytes; accesses of the stack.
    narrow: int
    local: int


def kernels(elf: bytes) -> dict[str, KernelCode]:
    """Returns mangled kernel name -> counts of the kernel's code."""
    section_table, = struct.unpack_from("<Q", elf, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", elf, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, section_table + i * entry_size) for i in range(count)]
    names = sections[names_index][4]
    found = {}
    for section in sections:
        begin = names + section[0]
        name = elf[begin:elf.index(b"\0", begin)].decode()
        if not name.startswith(".text."):
            continue
        instructions = decode(elf[section[4]:section[4] + section[5]])
        counts = collections.Counter(i.name for i in instructions if i.name)
        main = in_main_loops(instructions)
        found[name.removeprefix(".text.")] = KernelCode(
            counts, narrow=sum(i.is_narrow_access for i in main), local=sum(i.name in ("LDL", "STL") for i in main))
    return found
