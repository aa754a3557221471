"""Taps of a kernel for which a register tile reads padding only: zeros that need no product.

A dilation of 36 on 65 columns, tiles of 13: the first tap of the two tiles at the left reads
columns -36 to -11. A 3x3 kernel on 7 rows: the first tap of the first row, the last of the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

# A number, or TVM's expression of one; so are comparisons.
Index: TypeAlias = Any


@dataclass(frozen=True)
class TapAxis:
    """Rows or columns: ``tiles`` of so many ``pixels`` of the output, and ``taps`` of the kernel.

    Of the padded image, places from ``begin`` to ``end`` hold the image.
    """

    tiles: int
    pixels: int
    taps: int
    stride: int
    dilation: int
    begin: int
    end: int

    def reads(self, tile: int, tap: int) -> bool:
        """Whether a tap of a tile reads the image between its first and its last place."""
        first = tile * self.pixels
        return all(self.meets(first, first + self.pixels - 1, tap))

    def meets(self, first: Index, last: Index, tap: Index) -> tuple[Index, Index]:
        """Two conditions for that, of the output's pixels from ``first`` to ``last``."""
        begin, end = (pixel * self.stride + tap * self.dilation for pixel in (first, last))
        return begin < self.end, end >= self.begin

    @property
    def share(self) -> float:
        """The taps that are multiplied, of all taps of all tiles."""
        return _share(self)


@lru_cache(maxsize=4096)
def _share(axis: TapAxis) -> float:
    places = [(tile, tap) for tile in range(axis.tiles) for tap in range(axis.taps)]
    return sum(axis.reads(*place) for place in places) / len(places)
