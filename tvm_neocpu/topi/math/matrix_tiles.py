"""Instructions of x86's matrix unit (AMX), and how a register tile is cut for it.

Registers are named by number, so that nothing allocates them: sums first, then two for data and two
for weights, which take turns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from tvm import tirx
from tvm.ir import Expr, StringImm
from tvm.tirx import AssertStmt, Bind, Buffer, BufferStore, Evaluate, Stmt

from tvm_neocpu.core.machine.amx_permission import REQUEST
from tvm_neocpu.core.machine.dot import WORD_BYTES
from tvm_neocpu.core.machine.matrix_unit import LANES, ROW_BYTES, ROWS
from tvm_neocpu.core.network.layout import largest_factor

# Eight registers: four for sums, then two for data and two for weights.
MAX_SUMS, _IN_TURN = 4, 2
_FIRST_DATA = MAX_SUMS
_FIRST_WEIGHTS = _FIRST_DATA + _IN_TURN
# The instruction that multiplies words of so many elements.
PRODUCTS = {4: "tdpbusd", 2: "tdpbf16ps"}
# What LLVM's configuration of the registers is stored as: 64 bytes.
CONFIGURATION = "int32", 16
# The first pixel (row, column) of each tile, and the pixels of one.
Tiles: TypeAlias = tuple[tuple[tuple[int, int], ...], int]
_REFUSED = "Linux does not let this process use AMX; build for this CPU with -mattr=-amx-tile"


@dataclass(frozen=True)
class Cut:
    """A register tile of a template as tiles of a matrix unit.

    ``starts``: (row, column) of the first pixel of each tile of data; each has ``pixels`` of them.
    ``filters``: tiles of weights; ``words`` that each product sums. The last tile of data may
    overlap the one before it, whose pixels are computed twice then. ``gap``: where tiles run on
    from row to row, the pixels of the image between two rows, whose sums nobody wants. ``passes``:
    a register tile of more filters than have registers is computed in several.
    """

    starts: tuple[tuple[int, int], ...]
    pixels: int
    filters: int
    words: int
    gap: int = 0
    passes: int = 1

    @property
    def products(self) -> int:
        return len(self.starts) * self.filters

    @property
    def loads(self) -> int:
        """Tiles that a step loads: those of fewer than three stay until all that reads them ran."""
        return len(self.starts) + self.filters

    @property
    def keeps_filters(self) -> bool:
        """Whether all tiles of weights have registers of their own."""
        return self.filters <= _IN_TURN

    def sums(self, pixels: int, filters: int) -> int:
        """The register of the sums of a tile of data and one of weights."""
        return pixels * self.filters + filters

    def data(self, pixels: int) -> int:
        """The register of a tile of data."""
        return _FIRST_DATA + pixels % _IN_TURN

    def weights(self, filters: int) -> int:
        """The register of a tile of weights."""
        return _FIRST_WEIGHTS + filters % _IN_TURN


def cut(pixels: tuple[int, int], pitch: int | None, channels: int, words: int) -> Cut:
    """How ``pixels`` (rows, columns) of so many filters are cut.

    ``pitch``: pixels from a row's first one to the next row's, as they lie in memory; ``None``
    where that is no whole number. Of 7x7 pixels of a padded image, whose rows have 9, four tiles
    of 16 cover the 61 from the first to the last, where rows of 7 would be seven tiles. ``words``
    of a block: a product sums as many of them as divide it and fit.
    """
    (starts, taken), gap = _tiles_of(pixels, pitch)
    filters = math.ceil(channels / LANES)
    at_once = largest_factor(filters, max(1, MAX_SUMS // len(starts)))
    words = largest_factor(words, ROWS)
    return Cut(starts, taken, at_once, words, gap, filters // at_once)


def _tiles_of(pixels: tuple[int, int], pitch: int | None) -> tuple[Tiles, int]:
    """The tiles of data, and the gap that they run over."""
    rows, columns = pixels
    by_rows = _tiles(rows, columns, columns)
    if pitch is None or 1 in pixels:
        return by_rows, 0
    run = _tiles(1, (rows - 1) * pitch + columns, pitch)
    if pitch > columns and len(run[0]) >= len(by_rows[0]):
        return by_rows, 0
    return run, pitch - columns


def _tiles(lines: int, length: int, pitch: int) -> Tiles:
    """The tiles' first pixels and what each of them takes, of lines of rows ``pitch`` apart."""
    count = math.ceil(length / ROWS)
    taken = math.ceil(length / count)
    places = [min(at * taken, length - taken) for at in range(count)]
    starts = (divmod(line * length + place, pitch) for line in range(lines) for place in places)
    return tuple(starts), taken


def permission() -> list[Stmt]:
    """Ask Linux for the registers: once for a process and all its threads; again it is nothing.

    The call stands by itself: builds may leave out assertions.
    """
    numbers = [tirx.const(value, "int64") for value in REQUEST]
    answer = tirx.call_extern("int64", "syscall", *numbers)
    refused = tirx.Var("refused", answer.ty)
    granted = refused == tirx.const(0, "int64")
    asserted = AssertStmt(granted, StringImm("RuntimeError"), [StringImm(_REFUSED)])
    return [Bind(refused, answer), asserted]


def configured(configuration: Buffer, found: Cut) -> list[Stmt]:
    """Give the registers the shapes of a cut's tiles; ``configuration`` is room for them."""
    sums = found.pixels, ROW_BYTES
    data = found.pixels, WORD_BYTES * found.words
    weights = found.words, ROW_BYTES
    shapes = [*[sums] * MAX_SUMS, *[data] * _IN_TURN, *[weights] * _IN_TURN]
    palette = bytes([1, *[0] * 15])
    columns = b"".join(width.to_bytes(2, "little") for _, width in shapes)
    stored = palette + columns.ljust(32, b"\0") + bytes(height for height, _ in shapes)
    stored = stored.ljust(ROW_BYTES, b"\0")
    numbers = [
        int.from_bytes(stored[at : at + WORD_BYTES], "little")
        for at in range(0, ROW_BYTES, WORD_BYTES)
    ]
    stores = [
        BufferStore(configuration, tirx.const(number, "int32"), [at])
        for at, number in enumerate(numbers)
    ]
    return [*stores, _instruction("ldtilecfg", tirx.address_of(configuration[0]))]


def released() -> Stmt:
    """Clear the registers, so that switching threads need not save them."""
    return _instruction("tilerelease")


def zeroed(register: int) -> Stmt:
    return _instruction("tilezero", _number(register))


def loaded(register: int, address: Expr, row_bytes: int) -> Stmt:
    """A tile whose rows lie ``row_bytes`` apart."""
    return _instruction("tileloadd64", _number(register), address, _distance(row_bytes))


def stored(register: int, address: Expr, row_bytes: int) -> Stmt:
    return _instruction("tilestored64", _number(register), address, _distance(row_bytes))


def multiplied(sums: int, data: int, weights: int, elements: int) -> Stmt:
    """Add a tile of data times one of weights, words of so many elements, to one of sums."""
    return _instruction(PRODUCTS[elements], *map(_number, (sums, data, weights)))


def _instruction(name: str, *operands: Expr) -> Stmt:
    return Evaluate(tirx.call_llvm_intrin("void", f"llvm.x86.{name}", *operands))


def _number(register: int) -> Expr:
    return tirx.const(register, "uint8")


def _distance(row_bytes: int) -> Expr:
    return tirx.const(row_bytes, "int64")
