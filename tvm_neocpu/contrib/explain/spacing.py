"""Places in a row that keep their distances and are as near to where they should be as can be."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate


def closest_with_gaps(
    wished: Sequence[float], gaps: Sequence[float], weights: Sequence[float]
) -> list[float]:
    """Ascending places, place ``i + 1`` at least ``gaps[i]`` behind place ``i``.

    Least in the weighted sum of squared distances from what was wished: without the gaps this is
    isotonic regression, solved by pooling adjacent violators (Ayer et al., 1955).
    """
    offsets = [0.0, *accumulate(gaps)]
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for wish, offset, weight in zip(wished, offsets, weights, strict=True):
        mean, total, members = wish - offset, weight, 1
        while pools and pools[-1][0] > mean:
            earlier, its_weight, its_members = pools.pop()
            mean = (mean * total + earlier * its_weight) / (total + its_weight)
            total += its_weight
            members += its_members
        pools.append((mean, total, members))
    flat = [mean for mean, _, members in pools for _ in range(members)]
    return [place + offset for place, offset in zip(flat, offsets, strict=True)]
