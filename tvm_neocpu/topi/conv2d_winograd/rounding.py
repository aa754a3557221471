"""What rounding transformed weights to half precision does to Winograd's outputs.

An output of one dimension is sum_u a_u (G g)_u (B^T d)_u. With taps and pixels of unit variance the
roundings of (G g)_u, each in proportion to its size, make a noise power of

    sum_u a_u^2 |g_u|^2 |b_u|^2    over    taps, which is what rounding the taps themselves makes

(rows of A^T, G, B^T; the mean of all outputs). Two dimensions multiply: F(2x2, 3x3) has 2.8 times
the power, F(4x4, 3x3) 23 times: 4.8 times the error.
"""

from __future__ import annotations

import math

from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.matrices import Row, WinogradMatrices
from tvm_neocpu.topi.conv2d_winograd.space import allowed_tiles
from tvm_neocpu.topi.conv2d_winograd.tiled_conv import TiledConv, seen_by_tiles


def noise_growth(conv: ConvWorkload) -> float:
    """The noise power over that of rounded taps, which are rounded before, with the worst tile."""
    return 1 + max((tile_growth(conv, tile) for tile in allowed_tiles(conv)), default=0.0)


def tile_growth(conv: ConvWorkload, tile: int) -> float:
    """The same of transformed weights alone, in tiles of one size."""
    return growth(_matrices(conv, tile))


def growth(both: tuple[WinogradMatrices, WinogradMatrices]) -> float:
    """The same under matrices down and across."""
    down, across = both
    return _growth(down) * _growth(across)


def weight_scales(conv: ConvWorkload) -> tuple[float, float]:
    """How small transformed weights become, root mean square, and how large, over the taps."""
    every = [_matrices(conv, tile) for tile in allowed_tiles(conv)]
    small = [math.prod(min(map(_norm, m.g)) for m in both) for both in every]
    large = [math.prod(max(map(_sum, m.g)) for m in both) for both in every]
    return min(small, default=1.0), max(large, default=1.0)


def _matrices(conv: ConvWorkload, tile: int) -> tuple[WinogradMatrices, WinogradMatrices]:
    return TiledConv(seen_by_tiles(conv, conv.reads_plain), tile, conv.reads_plain).matrices


def _growth(matrices: WinogradMatrices) -> float:
    spread = [_norm(g) ** 2 * _norm(b) ** 2 for g, b in zip(matrices.g, matrices.b, strict=True)]
    taps = len(matrices.g[0])
    powers = [
        sum(float(a) ** 2 * power for a, power in zip(row, spread, strict=True))
        for row in matrices.a
    ]
    return sum(powers) / len(powers) / taps


def _norm(row: Row) -> float:
    return math.sqrt(sum(float(factor) ** 2 for factor in row))


def _sum(row: Row) -> float:
    return sum(abs(float(factor)) for factor in row)
