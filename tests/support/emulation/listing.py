"""What emulated code executed, by instruction: counts from the emulator, names from LLVM's text.

LLVM writes a module's assembly and its object file alike, so that an instruction's place among
those of its function tells its address.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from emulation.kernels import ArmKernels

_WIDTH = 4
_ALIGNMENT = re.compile(r"\.p2align\s+(\d+)(?:\s*,[^,]*,\s*(\d+))?")


@dataclass(frozen=True)
class Instruction:
    name: str
    operands: str

    @property
    def kind(self) -> str:
        """The name, and what tests ask for: ``fmla by element``, ``ldr (stack)``."""
        if re.search(r"\.\d?[bhsd]\[\d+\]$", self.operands) and self.name != "mov":
            return f"{self.name} by element"
        return f"{self.name} (stack)" if "[sp" in self.operands else self.name


def instructions_of(kernels: ArmKernels, function: str) -> dict[int, Instruction]:
    """address -> instruction. Raises ValueError where text and object file disagree."""
    found, address = {}, kernels.functions[function]
    end = address + kernels.sizes[function]
    lines = iter(kernels.assembly.splitlines())
    if not any(line.startswith(f"{function}:") for line in lines):
        raise ValueError(f"the assembly has no {function}")
    for line in lines:
        text = line.split("//")[0].strip()
        if text.startswith(".size"):
            break
        aligned = _ALIGNMENT.match(text)
        if aligned:
            padding = -address % 2 ** int(aligned[1])
            if padding <= int(aligned[2] or padding):
                found.update((address + at, Instruction("nop", "")) for at in range(0, padding, 4))
                address += padding
        elif text and not text.startswith(".") and not text.endswith(":"):
            name, _, operands = text.partition("\t")
            found[address] = Instruction(name, operands)
            address += _WIDTH
    if address != end:
        raise ValueError(f"{function} ends at {end:#x}, its assembly at {address:#x}")
    return found


@dataclass(frozen=True)
class Loop:
    """The piece of straight code that took most of the time: how often, and what it consists of."""

    passes: int
    instructions: tuple[Instruction, ...]

    @property
    def kinds(self) -> Counter[str]:
        return Counter(each.kind for each in self.instructions)


def hottest(
    listing: Mapping[int, Instruction], blocks: Mapping[tuple[int, int], int]
) -> tuple[Loop, Counter[str]]:
    """That loop of a function, and how often each kind of instruction was executed in all of it."""
    counts: Counter[str] = Counter()
    mine = {place: count for place, count in blocks.items() if place[0] in listing}
    for (start, size), count in mine.items():
        for address in range(start, start + size, _WIDTH):
            counts[listing[address].kind] += count
    (start, size), passes = max(mine.items(), key=lambda item: item[1] * item[0][1])
    inside = tuple(listing[at] for at in range(start, start + size, _WIDTH))
    return Loop(passes, inside), counts
