"""Winograd's weights: what a network has, and what its code reads, which is up to four times more.

A build transforms them once. Whoever writes the result to a file may ask for the taps instead
(:func:`recording_transforms`) and leave the transform to the loader.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Kernels that are transformed at once: 4096 of F(4x4, 3x3) are products of 1.2 MB.
KERNELS_AT_ONCE = 4096
BF16 = "bfloat16"


@dataclass(frozen=True)
class WeightTransform:
    """G g G^T of every kernel g, in blocks.

    ``down`` and ``across`` are G for rows and columns. Results are rounded to ``rounded``, reshaped
    to ``blocks``, their axes put in ``order``, and seen as ``dtype``, whose elements may be several
    of those.
    """

    down: tuple[tuple[float, ...], ...]
    across: tuple[tuple[float, ...], ...]
    rounded: str
    blocks: tuple[int, ...]
    order: tuple[int, ...]
    dtype: str

    @property
    def taps(self) -> int:
        """How many taps a kernel has."""
        return len(self.down[0]) * len(self.across[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the packed weight."""
        ordered = tuple(self.blocks[axis] for axis in self.order)
        return ordered if self.dtype == self.rounded else ordered[:-1]

    def packed(self, taps: Array) -> Array:
        """The weight from its kernels, (kernels, taps), computed in double precision."""
        made = np.empty(self.shape, self.dtype)
        self.write(taps, made)
        recorder = _RECORDER.get()
        if recorder is not None:
            recorder[content_key(made.data)] = Transformed(taps, self)
        return made

    def write(self, taps: Array, target: Array) -> None:
        """Compute the weight from its kernels into ``target``, which has its shape and type.

        A part after the other: the doubles take 16 times the memory of the kernels (512x512 3x3,
        F(4x4): 9 MB of floats, 75 MB of products).
        """
        # One product with G (x) G: einsum took 30 times as long for it (512x512, Zen 3: 0.66 s).
        both = np.kron(np.array(self.down), np.array(self.across))
        down, across, blocks, *inner = self.blocks
        elements = target.reshape(-1).view(_stored_type(self.rounded))
        ordered = elements.reshape(tuple(self.blocks[axis] for axis in self.order))
        by_block = np.moveaxis(ordered, self.order.index(2), 0)
        kernels = math.prod(inner)
        step = max(1, KERNELS_AT_ONCE // kernels)
        for first in range(0, blocks, step):
            part = taps[first * kernels : (first + step) * kernels]
            transformed = _rounded(both @ part.astype(np.float64).T, self.rounded)
            made = transformed.reshape(down, across, -1, *inner).transpose(self.order)
            by_block[first : first + step] = np.moveaxis(made, self.order.index(2), 0)


def _stored_type(rounded: str) -> str:
    """NumPy's type for elements of that type; it has none of its own for bf16."""
    return "uint16" if rounded == BF16 else rounded


def _rounded(values: Array, rounded: str) -> Array:
    """Doubles rounded to a type; bf16 as its bits, the nearest, ties to even; a NaN stays one."""
    if rounded != BF16:
        return values.astype(rounded)
    bits = values.astype(np.float32).view(np.uint32)
    nearest = ((bits + (bits >> 16 & 1) + 0x7FFF) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), nearest)


@dataclass(frozen=True)
class Transformed:
    """A weight as (kernels, taps), and what was made of it."""

    taps: Array
    transform: WeightTransform


# Transformed weights by the content of what was made.
Transforms = dict[bytes, Transformed]
_RECORDER: ContextVar[Transforms | None] = ContextVar("transforms", default=None)


@contextmanager
def recording_transforms() -> Iterator[Transforms]:
    """What `WeightTransform.packed` makes inside, in this thread or task."""
    found: Transforms = {}
    token = _RECORDER.set(found)
    try:
        yield found
    finally:
        _RECORDER.reset(token)


def content_key(data: memoryview) -> bytes:
    """What tells the contents of two weights apart."""
    return hashlib.sha256(data).digest()


def as_floats(matrix: Sequence[Sequence[Any]]) -> tuple[tuple[float, ...], ...]:
    """A matrix of exact numbers as doubles."""
    return tuple(tuple(map(float, row)) for row in matrix)
