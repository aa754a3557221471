"""What a file makes of its shapes while they are folded: ``If (N == 1)``, ``Min(N, 8)``, ``x[:8]``.

A file that decides by its batch is not one network for all batches, though it may be the same at
two of them. In a network for any batch each extent, and each number that the file computes of
extents, is a + b N, and each value of truth is the same for all N. Truths at a few N do not show
this: ``N == 8`` is false for all but one. So the margin of a comparison, ``N - 8``, must be a + b N
and keep its sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_COMPARISONS = frozenset(
    {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min"}
)
# No network has more images: TVM's loops count in 32 bits.
_MOST_IMAGES = 2**31 - 1


@dataclass
class Decisions:
    """What folding shapes finds, for one batch."""

    truths: list[Any] = field(default_factory=list)  # in the order of folding
    margins: list[Array] = field(default_factory=list)  # likewise
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


def note_decision(operator: str, inputs: Sequence[Array], value: Array) -> None:
    """Note what an operator folds to if it is a value of truth, and the margin of a comparison."""
    noted = _NOTED.get()
    if noted is None:
        return
    if value.dtype == np.bool_:
        noted.truths.append(value.tolist())
    margin = _margin(operator, inputs, value)
    if margin is not None:
        noted.margins.append(margin)


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
    if not len(found.margins) == len(one.margins) == len(other.margins):
        return False
    way, whole = batch - n, m - n
    margins = zip(found.margins, one.margins, other.margins, strict=True)
    if not all(_on_a_line(*each, way, whole) for each in margins):
        return False
    if not all(map(partial(_keeps_its_sign, n, m), one.margins, other.margins)):
        return False
    shapes = (found.shapes, one.shapes, other.shapes)
    constants = (found.constants, one.constants, other.constants)
    return all(_on_a_line(*each, way, whole) for each in _common(shapes)) and all(
        _are_alike(*each, way, whole) for each in _common(constants)
    )


def _margin(operator: str, inputs: Sequence[Array], value: Array) -> Array | None:
    """The difference of what is compared, exact; ``None`` where no two numbers are."""
    if operator in ("Cast", "CastLike") and value.dtype == np.bool_:
        compared = [inputs[0], np.zeros_like(inputs[0])]
    elif operator in _COMPARISONS and len(inputs) == 2:
        compared = list(inputs)
    else:
        return None
    if any(each.dtype.kind not in "iuf" for each in compared):
        return None
    # Python's integers, which do not overflow.
    exact = np.result_type(*compared) if compared[0].dtype.kind == "f" else object
    with np.errstate(all="ignore"):
        return np.asarray(compared[0].astype(exact) - compared[1], exact)


def _keeps_its_sign(n: int, m: int, first: Array, second: Array) -> bool:
    """Whether a margin has one sign from one image to the most, or is 0 at an end."""
    if first.dtype.kind == "f":  # one number for all batches, or it is on no line
        return True
    step, whole = second - first, m - n
    few, most = (first * whole + step * (batch - n) for batch in (1, _MOST_IMAGES))
    return bool(np.all(few * most >= 0))


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
    if first.dtype.kind not in "iuO":
        return False
    steps = (second.astype(object) - first) * way
    return bool(np.all((value.astype(object) - first) * whole == steps))
