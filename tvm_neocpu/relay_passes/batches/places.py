"""Where tensors have the batch: as an extent, or as a factor of one.

    (n, 64)          Place(1, 64)
    (25, n, 64)      Place(25, 64)
    (n * 25, 64)     Place(1, 25 * 64) of (n, 25, 64) in fewer axes, Place(25, 64) of (25, n, 64)

The last type has two readings, so that a place belongs to a tensor, not to its type.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx


@dataclass(frozen=True)
class Place:
    """Elements before the batch and elements of one image behind it; both are 0 without a batch."""

    before: int = 0
    behind: int = 0


@dataclass(frozen=True)
class Split:
    """How an axis of extent ``outside * n * inside`` is made of images."""

    axis: int
    outside: int
    inside: int


def factor_of(extent: Any, batch: tirx.Var) -> int | None:
    """0 for a number, k for ``batch * k``, ``None`` for anything else."""
    if isinstance(extent, tirx.IntImm):
        return 0
    if isinstance(extent, tirx.Var):
        return 1 if extent.same_as(batch) else None
    if isinstance(extent, tirx.Mul):
        sides = (extent.a, extent.b)
        numbers = [int(side) for side in sides if isinstance(side, tirx.IntImm)]
        if len(numbers) == 1 and any(factor_of(side, batch) == 1 for side in sides):
            return numbers[0] if numbers[0] > 0 else None
    return None


def carried_at(shape: Any, batch: tirx.Var) -> tuple[int, int] | None:
    """The axis that carries the batch and its factor; (-1, 0) if none does.

    ``None`` where several do, or one in another way than as a factor.
    """
    factors = [factor_of(extent, batch) for extent in shape]
    carrying = [(at, factor) for at, factor in enumerate(factors) if factor]
    if None in factors or len(carrying) > 1:
        return None
    return carrying[0] if carrying else (-1, 0)


def carried(ty: Any, batch: tirx.Var) -> tuple[int, int] | None:
    """The same of a tensor's type; ``None`` also for what has no known shape."""
    values = getattr(getattr(ty, "shape", None), "values", None)
    return None if values is None else carried_at(values, batch)


def place_of(ty: Any, batch: tirx.Var) -> Place | None:
    """Where a tensor of that type has the batch; a factor of an extent is taken for the outer one.

    ``None`` where the batch is in several extents, or not a factor of one.
    """
    found = carried(ty, batch)
    if found is None:
        return None
    axis, factor = found
    return placed(ty, Split(axis, 1, factor)) if factor else Place()


def placed(ty: Any, split: Split) -> Place:
    """The place of a tensor whose axis is made of images so."""
    values = ty.shape.values
    before = prod(int(extent) for extent in values[: split.axis])
    behind = prod(int(extent) for extent in values[split.axis + 1 :])
    return Place(before * split.outside, split.inside * behind)


def split_of(ty: Any, place: Place, batch: tirx.Var) -> Split | None:
    """How the type's carrying axis is made of images at that place.

    ``None`` where the type does not have the batch there, or not at all.
    """
    found = carried(ty, batch)
    if found is None or not found[1] or place == Place():
        return None
    axis, factor = found
    outside = place.before // max(1, prod(int(extent) for extent in ty.shape.values[:axis]))
    if outside < 1 or factor % outside:
        return None
    split = Split(axis, outside, factor // outside)
    return split if placed(ty, split) == place else None


def fits(ty: Any, place: Place, batch: tirx.Var) -> bool:
    """Whether a tensor of that type can have the batch at that place."""
    if place == Place():
        return carried(ty, batch) == (-1, 0)
    return split_of(ty, place, batch) is not None
