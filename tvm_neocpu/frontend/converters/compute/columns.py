"""Rows along an axis whose elements lie apart, cut into pieces of columns that cores share out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.ir import Expr

# Columns of a piece at most: what a walk keeps of them stays in L1. Where there are few, they are
# cut into this many pieces at most.
COLUMNS, PIECES = 1024, 8


@dataclass(frozen=True)
class Columns:
    """``inner`` columns behind an axis of ``length``, ``outer`` times; ``width`` are a piece."""

    outer: int
    length: int
    inner: int
    width: int

    @property
    def pieces(self) -> int:
        """Of all columns, in all."""
        return self.outer * self._each

    def at(self, piece: Expr) -> tuple[Expr, Expr, Expr]:
        """Which time a piece belongs to, its first column there, and how many it has."""
        width = tirx.const(self.width, "int64")
        start = piece % self._each * width
        return piece // self._each, start, tirx.min(self.inner - start, width)

    @property
    def _each(self) -> int:
        return -(-self.inner // self.width)


def columns_behind(extents: Sequence[int], axis: int, lanes: int) -> Columns:
    """The columns behind an axis; a piece has whole vectors of ``lanes``, but for the last one."""
    outer, inner = math.prod(extents[:axis]), math.prod(extents[axis + 1 :])
    width = min(COLUMNS, -(-inner // (PIECES * lanes)) * lanes)
    return Columns(outer, extents[axis], inner, width)
