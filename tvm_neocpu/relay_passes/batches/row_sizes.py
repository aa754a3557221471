"""The numbers of rows worth a specialisation, where a run may count hundreds of them.

Sizes are powers of two. Fewer rows than a size may run padded to it, with zeros behind them, so
that weights pass through the caches once: 60 rows run as 64, 70 as 64 and 6, 6 as 8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from tvm_neocpu.relay_passes.batches.sizes import RUN_SECONDS

# The most rows that get code of their own: 64 operations for each byte of fp32 weights.
MAX_ROWS = 128
# A larger size is tried while it takes this part less for each row.
_GAIN = 0.05
# A size is left out where no number of rows takes longer by more than this part without it.
_TOLERANCE = 0.2


@dataclass(frozen=True)
class RowSizes:
    """The sizes, ascending, and for some the least number of rows that runs padded to them."""

    sizes: tuple[int, ...]
    padded_from: Mapping[int, int]


def worthwhile_row_sizes(seconds: Callable[[int], float], most: int = MAX_ROWS) -> RowSizes:
    """The sizes to specialise, given the seconds of one run of a size; ``most`` bounds them."""
    known = {1: seconds(1) + RUN_SECONDS}
    size = 1
    while size * 2 <= most:
        known[size * 2] = seconds(size * 2) + RUN_SECONDS
        if known[size * 2] > 2 * known[size] * (1 - _GAIN):
            del known[size * 2]
            break
        size *= 2
    for left_out in sorted(known)[:-1]:
        others = {size: time for size, time in known.items() if size != left_out}
        if _is_as_good(others, known):
            known = others
    return RowSizes(tuple(sorted(known)), _thresholds(known))


def _is_as_good(fewer: Mapping[int, float], more: Mapping[int, float]) -> bool:
    """Whether no number of rows takes much longer with fewer sizes."""
    pairs = zip(_left_over(fewer)[1:], _left_over(more)[1:], strict=True)
    return all(one <= other * (1 + _TOLERANCE) for one, other in pairs)


def _left_over(seconds: Mapping[int, float]) -> list[float]:
    """The seconds of each number of rows up to the largest size."""
    found = [0.0]
    padded = _thresholds(seconds)
    for size in sorted(seconds):
        found = _up_to(size, seconds[size], padded.get(size, size), found)
    return found


def _thresholds(seconds: Mapping[int, float]) -> dict[int, int]:
    """For each size the least number of rows from which on padding is no slower, if there is one.

    The smallest size takes any number of rows so.
    """
    sizes = sorted(seconds)
    found = {} if sizes[0] == 1 else {sizes[0]: 1}
    costs = _up_to(sizes[0], seconds[sizes[0]], 1, [0.0])
    for smaller, size in pairwise(sizes):
        runs = [_as_sum(rows, smaller, costs) for rows in range(size)]
        threshold = size
        while threshold > 1 and runs[threshold - 1] >= seconds[size]:
            threshold -= 1
        if threshold < size:
            found[size] = threshold
        costs = _up_to(size, seconds[size], threshold, costs)
    return found


def _up_to(size: int, seconds: float, threshold: int, smaller: list[float]) -> list[float]:
    """The seconds of 0 to ``size`` rows; ``smaller`` are those up to the next smaller size."""
    below = max(len(smaller) - 1, 1)
    rows = range(size)
    costs = [seconds if at >= threshold else _as_sum(at, below, smaller) for at in rows]
    return [*costs, seconds]


def _as_sum(rows: int, size: int, costs: list[float]) -> float:
    """The seconds of runs of ``size``, and of one of what is left."""
    if len(costs) == 1:
        return 0.0
    runs, left = divmod(rows, size)
    return runs * costs[size] + costs[left]
