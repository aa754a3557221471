"""Bilinear resize in NCHW or NCHW[x]c: neighbours and weights are tables made at compile time.

Computed where they are used, they cost a vector of channels more than its four loads and blends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tvm import te, tirx

RESIZE = "resize_linear"
# The element type of the images that the tables are made for.
DTYPE = "float32"


@dataclass(frozen=True, eq=False)
class Taps:
    """For every output row (or column): its two source rows (count, 2) and the second's share."""

    index: npt.NDArray[np.int32]
    share: npt.NDArray[np.float32]


def taps(source: int, target: int, mode: str) -> Taps | None:
    """ONNX ``coordinate_transformation_mode``; ``None`` for those that are not listed here.

    Beyond the border the border's pixel is repeated.
    """
    place = np.arange(target, dtype="float64")
    if mode == "asymmetric":
        at = place * source / target
    elif mode == "half_pixel" or (mode == "pytorch_half_pixel" and target > 1):
        at = (place + 0.5) * source / target - 0.5
    elif mode == "pytorch_half_pixel":
        at = place * 0
    elif mode == "align_corners":
        at = place * (source - 1) / max(target - 1, 1)
    else:
        return None
    first = np.floor(at)
    index = np.clip(np.stack([first, first + 1], axis=1), 0, source - 1)
    return Taps(index.astype("int32"), (at - first).astype(DTYPE))


def compute(
    data: te.Tensor, rows: te.Tensor, row_share: te.Tensor, cols: te.Tensor, col_share: te.Tensor
) -> te.Tensor:
    """``data``: (N, C, H, W[, x]); ``rows``: (OH, 2), ``row_share``: (OH), and so for columns.

    Returns (N, C, OH, OW[, x]).
    """

    def pixel(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, *lane: tirx.Var) -> tirx.Expr:
        def blended(row: tirx.Expr) -> tirx.Expr:
            left, right = (data(n, c, row, cols[x, side], *lane) for side in (0, 1))
            return left + (right - left) * col_share[x]

        above, below = blended(rows[y, 0]), blended(rows[y, 1])
        return above + (below - above) * row_share[y]

    shape = (*data.shape[:2], rows.shape[0], cols.shape[0], *data.shape[4:])
    return te.compute(shape, pixel, name=RESIZE)
