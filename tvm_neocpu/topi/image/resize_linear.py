"""Bilinear resize in NCHW or NCHW[x]c: neighbours and weights are tables made at compile time.

Computed where they are used, they cost a vector of channels more than its four loads and blends.

In plain NCHW the pixels of a row are gathered one by one. So an image that grows is stretched along
its rows first, each source row once; rows between them are vectors then:

    for n, c:
        for y in H, x in OW: stretched[y, x] = blend of data[n, c, y, cols[x]]
        for y in OH, x in OW: result[n, c, y, x] = blend of stretched[rows[y], x]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tvm import te, tirx

from tvm_neocpu.topi.schedule.stages import stage_attrs

RESIZE = "resize_linear"
# The element type of the images that the tables are made for.
DTYPE = "float32"
# The (N, C) that a chunk has one of. With fewer images than this a core may get none.
OUTER_AXES, MIN_IMAGES = 2, 8


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

    def blended(n: tirx.Var, c: tirx.Var, y: tirx.Expr, x: tirx.Var, *lane: tirx.Var) -> tirx.Expr:
        left, right = (data(n, c, y, cols[x, side], *lane) for side in (0, 1))
        return left + (right - left) * col_share[x]

    row: Callable[..., tirx.Expr] = blended
    if _grows(data.shape, int(rows.shape[0])):
        row = _stretched(data, blended, cols)

    def pixel(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, *lane: tirx.Var) -> tirx.Expr:
        above, below = (row(n, c, rows[y, side], x, *lane) for side in (0, 1))
        return above + (below - above) * row_share[y]

    shape = (*data.shape[:2], rows.shape[0], cols.shape[0], *data.shape[4:])
    return te.compute(shape, pixel, name=RESIZE)


def _stretched(
    data: te.Tensor, blended: Callable[..., tirx.Expr], cols: te.Tensor
) -> Callable[..., tirx.Expr]:
    """Elements of all source rows, as long as the result's."""
    shape, last = (*data.shape[:3], cols.shape[0]), data.shape[2] - 1
    rows = te.compute(shape, blended, name="stretched", attrs=stage_attrs(OUTER_AXES))

    def element(n: tirx.Var, c: tirx.Var, y: tirx.Expr, x: tirx.Var) -> tirx.Expr:
        # The table's rows are all inside; TVM wants to see that of what reads a stage.
        return rows(n, c, tirx.max(tirx.min(y, last), 0), x)

    return element


def _grows(shape: Sequence[tirx.Expr], rows: int) -> bool:
    """Whether a plain image gets no fewer rows, and the cores can share the channels out."""
    known = [int(extent) for extent in shape if isinstance(extent, tirx.IntImm)]
    if len(known) != 4 or len(shape) != 4:
        return False
    return rows >= known[2] and known[0] * known[1] >= MIN_IMAGES
