"""How far results are from a reference's: the one measure that all comparisons use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def largest_error(
    found: list[NDArray[Any]], reference: list[NDArray[Any]], smallest_scale: float = 0.0
) -> float:
    """The largest difference over the largest value, of all outputs.

    The largest value of an output counts as at least ``smallest_scale``. Infinite if shapes differ,
    or if one side has a NaN or an infinity that the other has not.
    """
    if [array.shape for array in found] != [array.shape for array in reference]:
        return float("inf")
    pairs = zip(found, reference, strict=True)
    return max((_relative(one, other, smallest_scale) for one, other in pairs), default=0.0)


def _relative(found: NDArray[Any], reference: NDArray[Any], smallest_scale: float) -> float:
    one, other = found.astype(np.float64), reference.astype(np.float64)
    finite = np.isfinite(one) & np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    scale = max(float(np.max(np.abs(other[finite]))), smallest_scale) or 1.0
    return float(np.max(np.abs(one[finite] - other[finite]))) / scale
