"""An object file that LLVM wrote for aarch64, placed in memory and relocated.

It does what a linker does for one file: sections get addresses, undefined functions are looked up,
and a table of addresses (GOT) is made for what the code reads through one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from emulation import elf

PAGE = 4096


@dataclass(frozen=True)
class LoadedObject:
    """``image`` lies at ``base``; ``functions`` and ``data`` have the addresses of what is defined.

    ``sizes``: bytes of each function.
    """

    base: int
    image: bytes
    functions: dict[str, int]
    sizes: dict[str, int]
    data: dict[str, int]


def load_object(content: bytes, base: int, extern: Callable[[str], int]) -> LoadedObject:
    """Place an object file at ``base``; ``extern`` tells the address of an undefined function.

    Raises NotImplementedError for a relocation that is not known here.
    """
    return _Loader(elf.ObjectFile(content), base, extern).loaded()


@dataclass
class _Loader:
    file: elf.ObjectFile
    base: int
    extern: Callable[[str], int]
    places: dict[int, int] = field(default_factory=dict)
    image: bytearray = field(default_factory=bytearray)
    got: dict[int, int] = field(default_factory=dict)
    got_base: int = 0

    def loaded(self) -> LoadedObject:
        for number, section in enumerate(self.file.sections):
            if section.flags & elf.ALLOC:
                self._align(max(1, section.alignment))
                self.places[number] = self.base + len(self.image)
                self.image += section.content
        lists = [s for s in self.file.sections if s.kind == elf.RELA and s.info in self.places]
        relocations = [(s.info, each) for s in lists for each in self.file.relocations(s)]
        self._align(PAGE)
        self.got_base = self.base + len(self.image)
        self.image += bytes(8 * len(relocations))  # one entry each is more than enough
        self._align(PAGE)
        for section, relocation in relocations:
            self._relocate(self.places[section] + relocation.offset, relocation)
        defined = [symbol for symbol in self.file.symbols if symbol.section in self.places]
        functions, data = (
            {s.name: self._address(s) for s in defined if s.kind == kind}
            for kind in (elf.FUNCTION, elf.OBJECT)
        )
        sizes = {s.name: s.size for s in defined if s.kind == elf.FUNCTION}
        return LoadedObject(self.base, bytes(self.image), functions, sizes, data)

    def _align(self, to: int) -> None:
        self.image += bytes(-len(self.image) % to)

    def _address(self, symbol: elf.Symbol) -> int:
        if symbol.section == elf.UNDEFINED:
            return self.extern(symbol.name)
        return self.places[symbol.section] + symbol.value

    def _relocate(self, place: int, relocation: elf.Relocation) -> None:
        target = self._address(self.file.symbols[relocation.symbol]) + relocation.addend
        kind = relocation.kind
        if kind in _GOT:
            target = self._got_entry(target)
        if kind in _WORDS:
            form, is_relative = _WORDS[kind]
            mask = 2 ** (8 * struct.calcsize(form)) - 1
            self._write(form, place, (target - place * is_relative) & mask)
        elif kind in _FIELDS:
            (instruction,) = struct.unpack_from("<I", self.image, place - self.base)
            self._write("<I", place, instruction | _FIELDS[kind](place, target))
        else:
            raise NotImplementedError(f"relocation {kind} of aarch64")

    def _got_entry(self, target: int) -> int:
        if target not in self.got:
            self.got[target] = self.got_base + 8 * len(self.got)
            self._write("<Q", self.got[target], target)
        return self.got[target]

    def _write(self, form: str, address: int, value: int) -> None:
        struct.pack_into(form, self.image, address - self.base, value)


def _pages(place: int, target: int) -> int:
    """The 21-bit immediate of ``adrp``: its low two bits stand apart."""
    pages = ((target & ~0xFFF) - (place & ~0xFFF)) >> 12
    return (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5


def _low(scale: int) -> Callable[[int, int], int]:
    """The low 12 bits of an address, as a load of ``2**scale`` bytes encodes them."""
    return lambda place, target: (target & 0xFFF) >> scale << 10


def _branch(place: int, target: int) -> int:
    assert abs(target - place) < 1 << 27, "a branch reaches 128 MiB"
    return (target - place) >> 2 & 0x3FFFFFF


# ELF for the Arm 64-bit Architecture, section 5.7. Plain numbers: format, and whether they count
# from their place (ABS64, ABS32, PREL64, PREL32).
_WORDS = {257: ("<Q", 0), 258: ("<I", 0), 260: ("<Q", 1), 261: ("<I", 1)}
# Bits to set in an instruction.
_FIELDS: dict[int, Callable[[int, int], int]] = {
    275: _pages,  # ADR_PREL_PG_HI21
    277: _low(0),  # ADD_ABS_LO12_NC
    278: _low(0),  # LDST8_ABS_LO12_NC
    282: _branch,  # JUMP26
    283: _branch,  # CALL26
    284: _low(1),  # LDST16_ABS_LO12_NC
    285: _low(2),  # LDST32_ABS_LO12_NC
    286: _low(3),  # LDST64_ABS_LO12_NC
    299: _low(4),  # LDST128_ABS_LO12_NC
    311: _pages,  # ADR_GOT_PAGE
    312: _low(3),  # LD64_GOT_LO12_NC
}
_GOT = (311, 312)
