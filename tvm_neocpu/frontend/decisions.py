"""What a file makes of its shapes while they are folded: ``If (N == 1)``, ``Min(N, 8)``, ``x[:8]``.

A file that decides by its batch is not one network for all batches, though it may be the same at
two of them. In a network for any batch each extent, and each number that the file computes of
extents, is a + b N, and each value of truth is the same for all N.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass
class Decisions:
    """What folding shapes finds, for one batch."""

    truths: list[Any] = field(default_factory=list)  # in the order of folding
    constants: dict[str, Array] = field(default_factory=dict)  # those that the network reads
    shapes: dict[str, Array] = field(default_factory=dict)


_NOTED: ContextVar[Decisions | None] = ContextVar("noted", default=None)


@contextmanager
def noted_decisions() -> Iterator[Decisions]:
    """What is decided inside of the ``with``."""
    noted = Decisions()
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


def note_decision(value: Array) -> None:
    """Note a folded value if it is one of truth."""
    noted = _NOTED.get()
    if noted is not None and value.dtype == np.bool_:
        noted.truths.append(value.tolist())


def note_results(constants: Mapping[str, Array], shapes: Mapping[str, Sequence[int]]) -> None:
    """Note the constants that a folded graph reads, and the shapes of what its nodes compute."""
    noted = _NOTED.get()
    if noted is not None:
        noted.constants |= constants
        noted.shapes |= {name: np.array(shape, np.int64) for name, shape in shapes.items()}


def decides_alike(
    batch: int, found: Decisions, first: tuple[int, Decisions], second: tuple[int, Decisions]
) -> bool:
    """Whether what a batch decides lies on the line through what two others decide."""
    (n, one), (m, other) = first, second
    if not found.truths == one.truths == other.truths:
        return False
    way, whole = batch - n, m - n
    shapes = (found.shapes, one.shapes, other.shapes)
    constants = (found.constants, one.constants, other.constants)
    return all(_on_a_line(*each, way, whole) for each in _common(shapes)) and all(
        _are_alike(*each, way, whole) for each in _common(constants)
    )


def _common(dicts: Sequence[Mapping[str, Array]]) -> Iterator[list[Array]]:
    """The values of the names that all have."""
    names = set.intersection(*(set(each) for each in dicts))
    return ([each[name] for each in dicts] for name in names)


def _are_alike(value: Array, first: Array, second: Array, way: int, whole: int) -> bool:
    """Whether constants are, or are repeated for each image, as states of zeros are."""
    if first.shape == second.shape:
        return _on_a_line(value, first, second, way, whole)
    if not _on_a_line(*(np.array(each.shape) for each in (value, first, second)), way, whole):
        return False
    axes = [at for at, extent in enumerate(first.shape) if extent != second.shape[at]]
    image = first.take([0], axes[0])
    return all(np.array_equal(each, np.broadcast_to(image, each.shape)) for each in (value, first))


def _on_a_line(value: Array, first: Array, second: Array, way: int, whole: int) -> bool:
    """Whether ``value`` stands ``way`` behind ``first`` where ``second`` stands ``whole``."""
    if not value.shape == first.shape == second.shape:
        return False
    if np.array_equal(first, second, equal_nan=first.dtype.kind == "f"):
        return np.array_equal(value, first, equal_nan=first.dtype.kind == "f")
    if first.dtype.kind not in "iu":
        return False
    steps = (second.astype(object) - first) * way
    return bool(np.all((value.astype(object) - first) * whole == steps))
