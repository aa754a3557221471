"""Which rows of each layer of a group are computed when, band by band, and which are kept.

A layer computes tiles of its own rows. Before a band of the last layer, every layer in front of it
computes the tiles that are wanted and not there yet:

    for band: layer 0, tiles starts[0]..ends[0]; layer 1, tiles starts[1]..ends[1]; ..
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

from tvm_neocpu.core.network.layer_group import Bands

# The lesser or the greater of two: of integers, or of TVM's expressions.
Either = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Rows:
    """A layer down its image: tiles of ``tile`` rows of ``out``, of an image of ``height`` rows.

    An output row reads ``reach`` rows; the first one begins ``padding`` rows above the image. The
    last tile may overhang.
    """

    tile: int
    out: int
    height: int
    stride: int
    reach: int
    padding: int

    @property
    def tiles(self) -> int:
        return math.ceil(self.out / self.tile)

    def first_read(self, tile: Any, least: Either = min, most: Either = max) -> Any:
        """The first row of the image that a tile reads."""
        return least(self.height, most(0, tile * self.tile * self.stride - self.padding))

    def end_read(self, end: Any, least: Either = min, most: Either = max) -> Any:
        """The row of the image up to which the tiles before ``end`` read."""
        last = (end * self.tile - 1) * self.stride - self.padding + self.reach
        return least(self.height, most(0, last))


@dataclass(frozen=True)
class Course:
    """Layers, each of which reads the one before; tiles of the last one are the bands."""

    layers: tuple[Rows, ...]
    bands: Bands

    @property
    def count(self) -> int:
        """Bands of an image."""
        return self.layers[-1].tiles

    @property
    def runs(self) -> int:
        """Runs of an image; the last one may have fewer bands."""
        return math.ceil(self.count / self.bands.run)

    def is_aligned(self, at: int) -> bool:
        """Whether a tile of the next layer reads just the rows of one tile of layer ``at``."""
        layer, reader = self.layers[at], self.layers[at + 1]
        alike = reader.reach == reader.stride == 1 and reader.padding == 0
        same_image = layer.out == reader.height == reader.out  # padding below adds rows
        return alike and same_image and layer.tile == reader.tile

    def is_band(self, at: int) -> bool:
        """Whether the tiles of layer ``at`` are the bands."""
        return all(self.is_aligned(each) for each in range(at, len(self.layers) - 1))

    def ends(self, band: Any, least: Either = min, most: Either = max) -> list[Any]:
        """Of each layer, how many tiles down the image are there once ``band`` is computed."""
        found = [band + 1]
        for at in reversed(range(len(self.layers) - 1)):
            layer, reader = self.layers[at], self.layers[at + 1]
            if self.is_aligned(at):
                found.append(found[-1])
            else:
                end = reader.end_read(found[-1], least, most)
                found.append((end + (layer.tile - 1)) // layer.tile)
        return found[::-1]

    def starts(self, band: Any, least: Either = min, most: Either = max) -> list[Any]:
        """Of each layer, the first tile down the image of a run that begins with ``band``."""
        found = [band]
        for at in reversed(range(len(self.layers) - 1)):
            layer, reader = self.layers[at], self.layers[at + 1]
            if self.is_aligned(at):
                found.append(found[-1])
            else:
                found.append(reader.first_read(found[-1], least, most) // layer.tile)
        return found[::-1]

    @cached_property
    def whole(self) -> frozenset[int]:
        """The layers of which the bands, one after the other, compute every tile.

        A stride may leave out rows, and the last rows of an image may have no reader.
        """
        done = [0] * len(self.layers)
        gaps: set[int] = set()
        for band in range(self.count):
            if band % self.bands.run == 0:
                begins = enumerate(self.starts(band))
                gaps.update(at for at, begin in begins if begin > done[at])
            done = list(map(max, done, self.ends(band)))
        ended = (at for at, layer in enumerate(self.layers) if done[at] >= layer.tiles)
        return frozenset(ended) - gaps

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """Behind each layer but the last, how many rows are wanted at the same time."""
        kept = [1] * (len(self.layers) - 1)
        for band in range(self.count):
            opens = band % self.bands.run == 0
            begins = self.starts(band) if opens else self.ends(band - 1)
            ends = self.ends(band)
            for at, (layer, reader) in enumerate(pairwise(self.layers)):
                wanted = reader.first_read(begins[at + 1])
                first = min(wanted, begins[at] * layer.tile) if opens else wanted
                kept[at] = max(kept[at], ends[at] * layer.tile - first)
        return tuple(kept)

    @cached_property
    def repeats(self) -> tuple[float, ...]:
        """Of each layer, the tiles computed over the tiles that there are: halos count again."""
        counts = [0] * len(self.layers)
        for first in range(0, self.count, self.bands.run):
            last = min(first + self.bands.run, self.count) - 1
            tiles = zip(self.starts(first), self.ends(last), strict=True)
            # A run that reads padding alone ends before it begins.
            runs = [max(0, end - start) for start, end in tiles]
            counts = [n + more for n, more in zip(counts, runs, strict=True)]
        return tuple(n / layer.tiles for n, layer in zip(counts, self.layers, strict=True))


@lru_cache(maxsize=4096)
def course_of(layers: tuple[Rows, ...], bands: Bands) -> Course:
    """A course that remembers what it has counted."""
    return Course(layers, bands)
