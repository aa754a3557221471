"""Checks of a shared library or object file before it is mapped or linked.

``dlopen`` maps a file as its headers say, and runs its constructors. A truncated file then raises
SIGBUS at the first touch of a page that is missing. So we read the headers first.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from tvm_neocpu.core.errors import ModuleFileError
from tvm_neocpu.runtime.process import host as host_cpu

if TYPE_CHECKING:
    from _typeshed import StrPath

# The symbol under which TVM keeps a library's data: weights, VM code, our description.
TVM_DATA = "__tvm_ffi__library_bin"

_SYSTEM_FORMATS = {"darwin": "Mach-O", "win32": "PE"}


class Binary(NamedTuple):
    """What the headers of a file say.

    ``size`` is the end of its last segment or section, in bytes: a shorter file is truncated.
    ``names`` holds the symbol names, each between zero bytes; ``None`` where they are not known.
    """

    format: str
    arch: str
    size: int
    names: bytes | None = None


def check_library(path: StrPath, shown: StrPath) -> None:
    """Refuse a file that is not a whole TVM library for this system and CPU.

    Raises ModuleFileError, which names ``shown``.
    """
    found = _checked(path, shown)
    system = _SYSTEM_FORMATS.get(sys.platform, "ELF")
    if found is None:
        raise ModuleFileError(f"cannot load {shown}: it is not a shared library")
    if found.format != system:
        raise ModuleFileError(
            f"cannot load {shown}: it is a library in {found.format} format, not {system}"
        )
    if found.names is not None and TVM_DATA.encode() not in found.names:
        raise ModuleFileError(f"cannot load {shown}: it was not exported by tvm_neocpu")


def check_object(path: StrPath, shown: StrPath) -> None:
    """Refuse a truncated object file, and one for another CPU.

    Unknown formats are left to the linker. Raises ModuleFileError, which names ``shown``.
    """
    _checked(path, shown)


def library_size(path: StrPath) -> int:
    """Where the library ends as its headers say, in bytes: more of the file is something else."""
    with open(path, "rb") as file:
        found = read_binary(file)
    return found.size if found is not None else os.stat(path).st_size


def is_library(path: StrPath) -> bool:
    """Whether a file begins as a shared library of any system does, whatever its name is."""
    try:
        if not os.path.isfile(path):  # a pipe would be waited for
            return False
        with open(path, "rb") as file:
            return file.read(4).startswith(tuple(_READERS))
    except (OSError, ValueError):
        return False


def symbol_names(path: StrPath) -> bytes | None:
    """The library's symbol names, each between zero bytes; ``None`` where they are not known."""
    with open(path, "rb") as file:
        found = read_binary(file)
    return None if found is None else found.names


def read_binary(file: BinaryIO) -> Binary | None:
    """What the headers say; ``None`` for an unknown format. Raises EOFError for a cut header."""
    magic = _read(file, 0, 4) if file.seek(0, 2) >= 4 else b""
    for start, reader in _READERS.items():
        if magic.startswith(start):
            return reader(file)
    return None


def _checked(path: StrPath, shown: StrPath) -> Binary | None:
    """The binary after a check of its size and CPU; ``None`` for an unknown format."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            found = read_binary(file)
    except EOFError as error:
        raise ModuleFileError(f"cannot load {shown}: it is truncated") from error
    except OSError as error:
        raise ModuleFileError(f"cannot load {shown}: {error.strerror}") from error
    if found is None:
        return None
    if found.size > size:
        raise ModuleFileError(
            f"cannot load {shown}: it is truncated ({size} bytes of {found.size} are there)"
        )
    here = host_cpu.arch()
    if found.arch != here:
        raise ModuleFileError(
            f"cannot load {shown}: it has code for {found.arch}, and this machine is {here}"
        )
    return found


_ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
_ELF_HEADER = "<16sHHIQQQIHHHHHH"
_ELF_SEGMENT = "<IIQQQQQQ"
_ELF_SECTION = "<IIQQQQIIQQ"
_ELF_64_BIT_LITTLE_ENDIAN = b"\x02\x01"
_SHT_NOBITS, _SHT_DYNSYM = 8, 11


def _read_elf(file: BinaryIO) -> Binary:
    header = _unpack(file, 0, _ELF_HEADER)
    ident, machine, segments_at, sections_at = header[0], header[2], header[5], header[6]
    if ident[4:6] != _ELF_64_BIT_LITTLE_ENDIAN:
        return Binary("ELF", "a 32-bit or big-endian CPU", 0)
    segments = _table(file, segments_at, _ELF_SEGMENT, count=header[10])
    sections = _table(file, sections_at, _ELF_SECTION, count=header[12])
    ends = [offset + size for _, _, offset, _, _, size, _, _ in segments]
    ends += [section[4] + section[5] for section in sections if section[1] != _SHT_NOBITS]
    ends.append(sections_at + header[12] * struct.calcsize(_ELF_SECTION))
    arch = _ELF_MACHINES.get(machine, f"ELF machine {machine}")
    return Binary("ELF", arch, max(ends, default=0), _elf_names(file, sections))


def _elf_names(file: BinaryIO, sections: list[tuple[Any, ...]]) -> bytes | None:
    """The dynamic symbols' string table; ``None`` in a file whose sections were stripped."""
    if not sections:
        return None
    links = [section[6] for section in sections if section[1] == _SHT_DYNSYM]
    tables = [sections[link] for link in links if link < len(sections)]
    return b"".join(_read(file, table[4], table[5]) for table in tables)


_MACHO_CPUS = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
_MACHO_HEADER = "<IIIIIIII"
_LC_SYMTAB, _LC_SEGMENT_64 = 0x2, 0x19
_NLIST_BYTES = 16


def _read_macho(file: BinaryIO) -> Binary:
    _, cpu, _, _, commands, _, _, _ = _unpack(file, 0, _MACHO_HEADER)
    position, ends, names = struct.calcsize(_MACHO_HEADER), [0], b""
    for _ in range(commands):
        command, length = _unpack(file, position, "<II")
        if length < 8:
            raise EOFError
        if command == _LC_SEGMENT_64:
            _, _, _, offset, size = _unpack(file, position + 8, "<16sQQQQ")
            ends.append(offset + size)
        if command == _LC_SYMTAB:
            symbols_at, count, names_at, size = _unpack(file, position + 8, "<IIII")
            ends += [symbols_at + count * _NLIST_BYTES, names_at + size]
            names = _read(file, names_at, size)
        position += length
    arch = _MACHO_CPUS.get(cpu, f"Mach-O CPU type {cpu:#x}")
    return Binary("Mach-O", arch, max(ends), names)


_PE_MACHINES = {0x8664: "x86_64", 0xAA64: "aarch64"}
_PE_HEADER = "<4sHHIIIHH"
_PE_SECTION = "<8sIIIIIIHHI"


def _read_pe(file: BinaryIO) -> Binary | None:
    (start,) = _unpack(file, 0x3C, "<I")
    signature, machine, count, _, _, _, optional, _ = _unpack(file, start, _PE_HEADER)
    if signature != b"PE\0\0":
        return None
    sections_at = start + struct.calcsize(_PE_HEADER) + optional
    sections = _table(file, sections_at, _PE_SECTION, count)
    ends = [offset + size for _, _, _, size, offset, *_ in sections]
    arch = _PE_MACHINES.get(machine, f"PE machine {machine:#x}")
    return Binary("PE", arch, max(ends, default=0))


_READERS: dict[bytes, Callable[[BinaryIO], Binary | None]] = {
    b"\x7fELF": _read_elf,
    b"\xcf\xfa\xed\xfe": _read_macho,
    b"MZ": _read_pe,
}


def _table(file: BinaryIO, offset: int, layout: str, count: int) -> list[tuple[Any, ...]]:
    return list(struct.iter_unpack(layout, _read(file, offset, count * struct.calcsize(layout))))


def _unpack(file: BinaryIO, offset: int, layout: str) -> tuple[Any, ...]:
    return struct.unpack(layout, _read(file, offset, struct.calcsize(layout)))


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    if offset + size > file.seek(0, 2):
        raise EOFError
    file.seek(offset)
    return file.read(size)
