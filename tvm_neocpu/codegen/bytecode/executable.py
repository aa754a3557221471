"""A stored ``relax.VMExecutable`` as data: the wire format of TVM's `VMExecutable::SaveToBytes`.

Little-endian; a string or vector is a count of 64 bits and its elements. Weights are not copied:
they are views of the text that was read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tvm_neocpu.core.errors import ModuleFileError

_MAGIC = 0xD225DE2F4214151E
_TENSOR_MAGIC = 0xDD5E40F096B4A13F
# The version of the format that is known here; another one is left as TVM wrote it.
VERSION = "0.14"
INT, FLOAT, DATA_TYPE, STRING, SHAPE, TENSOR = 1, 3, 5, 65, 69, 70
# DLPack's type codes by the first part of a type's name.
_TYPE_NAMES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}


class UnknownBytecodeError(ModuleFileError):
    """Bytes that are not an executable of the version known here."""


@dataclass(frozen=True)
class Function:
    """A function of the table: ``kind`` 0 is TVM's or a kernel's, 1 has bytecode."""

    kind: int
    name: str
    start: int
    end: int
    arguments: int
    registers: int
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class Constant:
    """``stored`` is all of it after the type's number; a tensor has the other fields, too."""

    type: int
    stored: memoryview
    shape: tuple[int, ...] = ()
    dtype: str = ""
    data: memoryview = field(default_factory=lambda: memoryview(b""))

    @property
    def size(self) -> int:
        """Bytes of a tensor's elements."""
        return len(self.data)

    def content(self) -> memoryview:
        """A tensor's elements."""
        return self.data


@dataclass(frozen=True)
class Executable:
    """``scopes``: constant -> memory scope. ``offsets``: where each instruction starts in
    ``words``.
    """

    functions: tuple[Function, ...]
    scopes: tuple[tuple[int, str], ...]
    constants: tuple[Constant, ...]
    offsets: tuple[int, ...]
    words: tuple[int, ...]

    def replaced(self, **changes: Any) -> Executable:
        return replace(self, **changes)


def read_executable(text: memoryview) -> Executable:
    """Raises UnknownBytecodeError."""
    reader = _Reader(text)
    try:
        if reader.number("Q") != _MAGIC or reader.string() != VERSION:
            raise UnknownBytecodeError("no bytecode of a known version")
        functions = tuple(_read_function(reader) for _ in range(reader.number("Q")))
        scopes = tuple((reader.number("q"), reader.string()) for _ in range(reader.number("Q")))
        constants = tuple(_read_constant(reader) for _ in range(reader.number("Q")))
        offsets, words = reader.numbers("q"), reader.numbers("q")
    except (struct.error, UnicodeDecodeError, KeyError) as error:
        raise UnknownBytecodeError(f"the bytecode is not as expected: {error}") from error
    if reader.position != len(text):
        raise UnknownBytecodeError("there is more than expected after the bytecode")
    return Executable(functions, scopes, constants, offsets, words)


def write_executable(executable: Executable) -> bytes:
    """What TVM reads as a ``relax.VMExecutable``."""
    parts = [struct.pack("<Q", _MAGIC), _string(VERSION), _count(executable.functions)]
    for function in executable.functions:
        parts += [struct.pack("<i", function.kind), _string(function.name)]
        numbers = (function.start, function.end, function.arguments, function.registers)
        parts += [struct.pack("<4q", *numbers), _count(function.parameters)]
        parts += map(_string, function.parameters)
    parts.append(_count(executable.scopes))
    for index, scope in executable.scopes:
        parts += [struct.pack("<q", index), _string(scope)]
    parts.append(_count(executable.constants))
    for constant in executable.constants:
        parts += [struct.pack("<i", constant.type), bytes(constant.stored)]
    for numbers in (executable.offsets, executable.words):
        parts += [_count(numbers), struct.pack(f"<{len(numbers)}q", *numbers)]
    return b"".join(parts)


class _Reader:
    def __init__(self, text: memoryview) -> None:
        self.text = text
        self.position = 0

    def number(self, kind: str) -> int:
        (found,) = struct.unpack_from(f"<{kind}", self.text, self.position)
        self.position += struct.calcsize(kind)
        return int(found)

    def take(self, size: int) -> memoryview:
        if self.position + size > len(self.text):
            raise struct.error("the bytes end too early")
        self.position += size
        return self.text[self.position - size : self.position]

    def string(self) -> str:
        return bytes(self.take(self.number("Q"))).decode()

    def numbers(self, kind: str) -> tuple[int, ...]:
        count = self.number("Q")
        return struct.unpack(f"<{count}{kind}", self.take(count * struct.calcsize(kind)))


def _read_function(reader: _Reader) -> Function:
    kind, name = reader.number("i"), reader.string()
    numbers = [reader.number("q") for _ in range(4)]
    parameters = tuple(reader.string() for _ in range(reader.number("Q")))
    return Function(kind, name, *numbers, parameters)


def _read_constant(reader: _Reader) -> Constant:
    kind = reader.number("i")
    start = reader.position
    if kind == TENSOR:
        return _read_tensor(reader, start)
    _SKIP[kind](reader)
    return Constant(kind, reader.text[start : reader.position])


_SKIP: dict[int, Callable[[_Reader], object]] = {
    INT: lambda reader: reader.take(8),
    FLOAT: lambda reader: reader.take(8),
    DATA_TYPE: lambda reader: reader.take(4),
    STRING: lambda reader: reader.take(reader.number("Q")),
    SHAPE: lambda reader: reader.take(8 * reader.number("Q")),
}


def _read_tensor(reader: _Reader, start: int) -> Constant:
    if reader.number("Q") != _TENSOR_MAGIC:
        raise UnknownBytecodeError("a constant is no tensor")
    reader.take(8 + 8)  # reserved; the device, which is the CPU
    rank = reader.number("i")
    code, bits, lanes = reader.number("B"), reader.number("B"), reader.number("H")
    shape = tuple(reader.number("q") for _ in range(rank))
    data = reader.take(reader.number("q"))
    name = _TYPE_NAMES.get(code, "?") + ("" if code == 6 else str(bits))
    dtype = name if lanes == 1 else f"{name}x{lanes}"
    return Constant(TENSOR, reader.text[start : reader.position], shape, dtype, data)


def _count(items: Any) -> bytes:
    return struct.pack("<Q", len(items))


def _string(text: str) -> bytes:
    content = text.encode()
    return struct.pack("<Q", len(content)) + content
