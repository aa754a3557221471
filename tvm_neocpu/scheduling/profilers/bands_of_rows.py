"""Rows of a band for several tile counts, and what follows from them, each computed once.

A vector of rows has one entry a tile count. The layers of a network have few different ones, and a
partition asks for them some hundred thousand times: equal vectors are one object (`Rows`), and what
follows from it is looked up by that object. Nobody writes to an array that comes from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleNode, Window

Floats = npt.NDArray[np.float64]
TILES: Floats = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256, 512], np.float64)
# Vectors and products that are remembered: 80 bytes each. NASNet-A large has some hundred.
REMEMBERED = 1 << 14


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one band, by tile count; equal ones are the same object while remembered."""

    values: Floats


def own_part(most: int) -> Rows:
    """A band's part of ``most`` rows."""
    return _rows(_parts(most)[0])


@lru_cache(REMEMBERED)
def larger(one: Rows, other: Rows) -> Rows:
    return one if one is other else _rows(np.maximum(one.values, other.values))


def rows_read(rows: Rows, reader: ScheduleNode, most: int) -> Rows:
    """Rows of a tensor of ``most`` rows that the reader's band needs."""
    if reader.is_global:
        return _all_rows(most)
    return _windowed(rows, reader.window, most)


@lru_cache(REMEMBERED)
def share_of_rows(rows: Rows, most: int) -> Floats:
    """Rows of all bands together, over those of as many whole bands."""
    found: Floats = _over_bands(rows, most) / (TILES * rows.values)
    return found


@lru_cache(REMEMBERED)
def tile_bytes(rows: Rows, row_bytes: float) -> Floats:
    """Bytes of one band."""
    found: Floats = rows.values * row_bytes
    return found


@lru_cache(REMEMBERED)
def total_bytes(rows: Rows, most: int, row_bytes: float) -> Floats:
    """Bytes of all bands, for a tensor of ``most`` rows."""
    found: Floats = _over_bands(rows, most) * row_bytes
    return found


@lru_cache(REMEMBERED)
def _over_bands(rows: Rows, most: int) -> Floats:
    """Rows of all bands together: neighbouring bands share what a band has beyond its part."""
    part, neighbours, whole = _parts(most)
    values = rows.values
    shared = most + neighbours * np.maximum(0, values - part)
    found: Floats = np.where(values >= most, whole, shared)
    return found


@lru_cache(REMEMBERED)
def _windowed(rows: Rows, window: Window, most: int) -> Rows:
    needed = rows.values * window.stride[0] + (window.rows - window.stride[0])
    if window.upscale > 1:
        needed = np.floor((needed - 1) / window.upscale) + 1
    return _rows(np.minimum(needed, most))


@lru_cache(REMEMBERED)
def _all_rows(most: int) -> Rows:
    return _rows(np.full(len(TILES), float(most)))


@lru_cache(REMEMBERED)
def _parts(most: int) -> tuple[Floats, Floats, Floats]:
    """Of so many rows: a band's part, pairs of neighbouring bands, all rows in each band."""
    part = np.ceil(most / TILES)
    return part, np.ceil(most / part) - 1, TILES * most


def _rows(values: Floats) -> Rows:
    return _known(values.tobytes())


@lru_cache(REMEMBERED)
def _known(data: bytes) -> Rows:
    return Rows(np.frombuffer(data, np.float64))
