"""The cheapest tile count of a group: which ones fit, and what they cost."""

from __future__ import annotations

import numpy as np

from tvm_neocpu.scheduling.graph.price import Price, impossible
from tvm_neocpu.scheduling.profilers.bands_of_rows import TILES, Floats

# What a partition pays for a byte that hides behind arithmetic, as a share of its time: of two
# schedules that take equally long the one with less traffic is better.
HIDDEN = 0.01
# Bytes of fast memory and cycles, by tile count.
Option = tuple[Floats, Floats]


def cheapest(
    capacity: float,
    kept: Option,
    anew: Option,
    traffic: Floats,
    weight_bytes: float,
    compute: Floats,
    bytes_per_cycle: float,
    in_pieces: bool = False,
) -> Price:
    """The price at the cheapest tile count that fits.

    ``kept`` keeps all weights in fast memory, ``anew`` loads them for each band. ``traffic`` is
    that of tensors, without weights; ``compute`` is that of all bands. ``in_pieces``: where no tile
    count fits, the group passes in pieces of a row, which change neither cycles nor traffic.
    """
    needs = np.concatenate([kept[0], anew[0]])
    cycles = np.concatenate([kept[1], anew[1]])
    moved = np.concatenate([traffic + weight_bytes, traffic + weight_bytes * TILES])
    cost = cycles + HIDDEN * moved / bytes_per_cycle
    fits = needs <= capacity
    pass_in_pieces = in_pieces and not fits.any()
    at = int(np.argmin(np.where(fits | pass_in_pieces, cost, np.inf)))
    if needs[at] > capacity and not pass_in_pieces:
        least = float(needs.min())
        return impossible(f"the smallest buffer that would do has {least:.0f} bytes", least)
    tile = at % len(TILES)
    return Price(
        float(cost[at]),
        float(cycles[at]),
        float(moved[at]),
        float(min(needs[at], capacity)),
        float(compute[tile]),
        int(TILES[tile]),
        at < len(TILES),
        in_pieces=pass_in_pieces,
    )
