"""Turns a square of vectors by shuffles of two registers each.

16 rows of 16 floats take 64 shuffles: within pieces of 16 bytes, then of pieces between rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import tirx
from tvm.ir import Expr
from tvm.tirx import Shuffle

from tvm_neocpu.core.types import item_bytes

# Bytes between which x86 interleaves two registers without a table; a register of NEON.
LANE_BYTES = 16


def turned(rows: Sequence[Expr], dtype: str, named: Callable[[Expr], Expr]) -> list[Expr]:
    """The columns of a square of vectors; ``named`` gives every intermediate vector a name.

    Inside pieces of 16 bytes rows are interleaved, which takes x86 one instruction; then pieces
    change places between rows.
    """
    side, piece = len(rows), LANE_BYTES // item_bytes(dtype)
    if piece == 4:
        rows = [named(row) for row in _interleaved(rows)]
        step = 4
    else:
        step = 1
    while step < side:
        rows = [named(row) for row in _exchanged(rows, step)]
        step *= 2
    return list(rows)


def _interleaved(rows: Sequence[Expr]) -> list[Expr]:
    """Squares of 4 x 4 turned, in all pieces of 4 lanes at once.

    (a0 a1 a2 a3), (b0 ..), (c0 ..), (d0 ..)  ->  (a0 b0 c0 d0), (a1 b1 c1 d1), ..
    """
    side = len(rows)

    def zipped(a: Expr, b: Expr, picks: Sequence[int]) -> Expr:
        """In each piece the four lanes ``picks`` of a's piece (0-3) and b's piece (4-7)."""
        lanes = [
            piece + pick if pick < 4 else side + piece + pick - 4
            for piece in range(0, side, 4)
            for pick in picks
        ]
        return _shuffle(a, b, lanes)

    found: list[Expr] = []
    low, high, first, second = (0, 4, 1, 5), (2, 6, 3, 7), (0, 1, 4, 5), (2, 3, 6, 7)
    for at in range(0, side, 4):
        a, b, c, d = rows[at : at + 4]
        ab, cd = zipped(a, b, low), zipped(c, d, low)
        more_ab, more_cd = zipped(a, b, high), zipped(c, d, high)
        found += [
            zipped(ab, cd, first),
            zipped(ab, cd, second),
            zipped(more_ab, more_cd, first),
            zipped(more_ab, more_cd, second),
        ]
    return found


def _exchanged(rows: Sequence[Expr], step: int) -> list[Expr]:
    """Rows r and r + step exchange the pieces of ``step`` lanes that lie off the diagonal."""
    side, found = len(rows), list(rows)
    for row in range(side):
        if row & step:
            continue
        a, b = rows[row], rows[row + step]
        low = [side + lane - step if lane & step else lane for lane in range(side)]
        high = [side + lane if lane & step else lane + step for lane in range(side)]
        found[row], found[row + step] = _shuffle(a, b, low), _shuffle(a, b, high)
    return found


def _shuffle(a: Expr, b: Expr, lanes: Sequence[int]) -> Expr:
    return Shuffle([a, b], lanes_of(lanes))


def lanes_of(order: Sequence[int]) -> list[Expr]:
    """The indices of a shuffle."""
    return [tirx.const(lane, "int32") for lane in order]
