"""ELF object files of 64 bits, little-endian: sections, symbols, relocations (System V gABI)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

AARCH64, RELOCATABLE = 183, 1
# Kinds of sections and symbols, flags of sections.
SYMTAB, RELA, NOBITS = 2, 4, 8
OBJECT, FUNCTION = 1, 2
ALLOC, EXECINSTR = 2, 4
UNDEFINED, ABSOLUTE = 0, 0xFFF1


@dataclass(frozen=True)
class Section:
    kind: int
    flags: int
    size: int
    alignment: int
    info: int
    content: bytes


@dataclass(frozen=True)
class Symbol:
    name: str
    kind: int
    section: int
    value: int
    size: int


@dataclass(frozen=True)
class Relocation:
    offset: int
    kind: int
    symbol: int
    addend: int


class ObjectFile:
    """Raises ValueError for a file that is no object file of aarch64."""

    def __init__(self, content: bytes) -> None:
        if content[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no ELF file of 64 bits")
        kind, machine = struct.unpack_from("<HH", content, 16)
        if (kind, machine) != (RELOCATABLE, AARCH64):
            raise ValueError(f"ELF of kind {kind} for machine {machine}, not an object of aarch64")
        (start,) = struct.unpack_from("<Q", content, 40)
        size, count = struct.unpack_from("<HH", content, 58)
        rows = [
            struct.unpack_from("<IIQQQQIIQQ", content, start + size * row) for row in range(count)
        ]
        self._links = [row[6] for row in rows]
        self.sections = tuple(
            Section(kind, flags, size, alignment, info, _content(content, kind, offset, size))
            for _, kind, flags, _, offset, size, _, info, alignment, _ in rows
        )

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        place = next(at for at, section in enumerate(self.sections) if section.kind == SYMTAB)
        names = self.sections[self._links[place]].content
        return tuple(
            Symbol(_text(names, name), info & 15, section, value, size)
            for name, info, _, section, value, size in struct.iter_unpack(
                "<IBBHQQ", self.sections[place].content
            )
        )

    def relocations(self, section: Section) -> Iterator[Relocation]:
        """Of a section of kind RELA; its ``info`` is the number of the section to change."""
        for offset, info, addend in struct.iter_unpack("<QQq", section.content):
            yield Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend)


def _content(file: bytes, kind: int, offset: int, size: int) -> bytes:
    return bytes(size) if kind == NOBITS else file[offset : offset + size]


def _text(table: bytes, at: int) -> str:
    return table[at : table.index(0, at)].decode()
