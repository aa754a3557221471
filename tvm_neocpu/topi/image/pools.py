"""Pools over windows as two passes: down the columns, then along the rows.

A window of 13 x 13 takes 13 + 13 operations an element instead of 169.

    for y, x, kh, kw: z[y, x] = max(z[y, x], a[y + kh, x + kw])
->  for y, x: rows[y, x] = max(a[y, x], a[y + 1, x], ..)
    for y, x: z[y, x] = max(rows[y, x], rows[y, x + 1], ..)

NaN is handled as one loop over the window would: it stays if it is the window's last element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
from tvm import te, tirx

from tvm_neocpu.topi.schedule.stages import stage_attrs

# Windows up to this size are written out.
MAX_TAPS = 32
# Down the columns up to so many taps read plain images where they lie.
MAX_TAPS_IN_PLACE = 4
# Sums of codes, and how many codes of 8 bits fit.
SUM_TYPE, MAX_CODES = "uint16", 257
# The (N, C) in front of the axes that a window covers.
OUTER_AXES = 2


@dataclass(frozen=True)
class Windows:
    """The windows along one axis: ``taps`` elements, ``dilation`` apart."""

    extent: int
    taps: int
    stride: int
    before: int
    after: int
    dilation: int

    @property
    def padded(self) -> int:
        return self.before + self.extent + self.after

    @property
    def count(self) -> int:
        return (self.padded - (self.taps - 1) * self.dilation - 1) // self.stride + 1

    def shares(self, include_padding: bool, dtype: str) -> npt.NDArray[np.generic]:
        """For each window one over the number of elements that its mean is over."""
        return (1.0 / self.counts(include_padding)).astype(dtype)

    def counts(self, include_padding: bool) -> npt.NDArray[np.int64]:
        """The number of elements that each window's mean is over, at least 1."""
        first = np.arange(self.count)[:, None] * self.stride - self.before
        place = first + np.arange(self.taps)[None, :] * self.dilation
        inside = (place >= 0) & (place < self.extent)
        counted = np.full(self.count, self.taps) if include_padding else inside.sum(axis=1)
        return np.maximum(counted, 1)


def max_pool(data: te.Tensor, rows: Windows, columns: Windows) -> te.Tensor:
    """The largest element of each window of (N, C, H, W[, x]); padding is no element.

    Of -inf alone it is the lowest finite number, as in ONNX Runtime and in TVM's own pools.
    """
    return _pooled(data, rows, columns, tirx.Max, te.min_value(data.dtype))


def average_pool(
    data: te.Tensor, row_share: te.Tensor, column_share: te.Tensor, rows: Windows, columns: Windows
) -> te.Tensor:
    """The mean of each window of (N, C, H, W[, x]); the shares are those of ``Windows.shares``."""
    total = _pooled(data, rows, columns, lambda a, b: a + b, tirx.const(0, data.dtype))

    def mean(n, c, y, x, *lane):
        return total(n, c, y, x, *lane) * (row_share[y] * column_share[x])

    return te.compute(total.shape, mean, name="pool_mean")


def average_pool_of_codes(
    codes: te.Tensor, share: te.Tensor, rows: Windows, columns: Windows
) -> te.Tensor:
    """The same of uint8 codes (N, C, H, W[, x]), summed in 16 bits: windows of up to 257 elements.

    ``share`` (OH, OW), float32, is one over the number of elements of each window.
    """
    total = _pooled(codes, rows, columns, lambda a, b: a + b, tirx.const(0, SUM_TYPE))

    def mean(n, c, y, x, *lane):
        return total(n, c, y, x, *lane).astype(share.dtype) * share[y, x]

    return te.compute(total.shape, mean, name="pool_mean")


def _pooled(
    data: te.Tensor,
    rows: Windows,
    columns: Windows,
    combine: Callable[[tirx.Expr, tirx.Expr], tirx.Expr],
    nothing: tirx.Expr,
) -> te.Tensor:
    """Windows of numbers in the type of ``nothing``, which the padding has too."""
    outer, lanes = data.shape[:OUTER_AXES], data.shape[4:]
    height = (_down_in_place if _reads_in_place(data, rows) else _down)(
        data, rows, columns, combine, nothing
    )

    def along(n, c, y, x, *lane):
        taps = (
            height(n, c, y, x * columns.stride + k * columns.dilation, *lane)
            for k in range(columns.taps)
        )
        return reduce(combine, taps, nothing)

    return te.compute((*outer, rows.count, columns.count, *lanes), along, name="pool")


def _reads_in_place(data: te.Tensor, rows: Windows) -> bool:
    """Whether the first pass tests for the border itself: of plain images, where taps are few.

    A copy with its padding takes a third of a 3x3 pool (Zen 4, one thread, 64x112x112 of stride 2).
    """
    return not data.shape[4:] and rows.taps <= MAX_TAPS_IN_PLACE


def _down_in_place(
    data: te.Tensor,
    rows: Windows,
    columns: Windows,
    combine: Callable[[tirx.Expr, tirx.Expr], tirx.Expr],
    nothing: tirx.Expr,
) -> te.Tensor:
    """The columns' windows of (N, C, H, W), with the padding of the rows beside them."""

    def down(n, c, y, x):
        def tap(k):
            at = y * rows.stride + k * rows.dilation - rows.before
            value = data(n, c, at, x - columns.before).astype(nothing.ty.dtype)
            if not (rows.before or rows.after):
                return value
            return tirx.if_then_else(tirx.all(at >= 0, at < rows.extent), value, nothing)

        column = reduce(combine, map(tap, range(rows.taps)))
        if not (columns.before or columns.after):
            return column
        inside = tirx.all(x >= columns.before, x < columns.before + columns.extent)
        return tirx.if_then_else(inside, column, nothing)

    interior = columns.before, columns.before + columns.extent
    return te.compute(
        (*data.shape[:OUTER_AXES], rows.count, columns.padded),
        down,
        name="pool_rows",
        attrs=stage_attrs(OUTER_AXES, interior),
    )


def _down(
    data: te.Tensor,
    rows: Windows,
    columns: Windows,
    combine: Callable[[tirx.Expr, tirx.Expr], tirx.Expr],
    nothing: tirx.Expr,
) -> te.Tensor:
    """The same over a copy that has the padding."""
    padded = _padded(data, rows, columns, nothing.astype(data.dtype))

    def down(n, c, y, x, *lane):
        taps = (
            padded(n, c, y * rows.stride + k * rows.dilation, x, *lane).astype(nothing.ty.dtype)
            for k in range(rows.taps)
        )
        return reduce(combine, taps)

    return te.compute(
        (*data.shape[:OUTER_AXES], rows.count, columns.padded, *data.shape[4:]),
        down,
        name="pool_rows",
        attrs=stage_attrs(OUTER_AXES),
    )


def _padded(data: te.Tensor, rows: Windows, columns: Windows, nothing: tirx.Expr) -> te.Tensor:
    """The image with its padding: a stage of its own, so that no window tests for the border."""
    if not (rows.before or rows.after or columns.before or columns.after):
        return data

    def element(n, c, y, x, *lane):
        inside = tirx.all(
            y >= rows.before,
            y < rows.before + rows.extent,
            x >= columns.before,
            x < columns.before + columns.extent,
        )
        return tirx.if_then_else(
            inside, data(n, c, y - rows.before, x - columns.before, *lane), nothing
        )

    shape = (*data.shape[:OUTER_AXES], rows.padded, columns.padded, *data.shape[4:])
    # Of blocked data the innermost axis is a vector of channels: its elements share the condition.
    interior = None if data.shape[4:] else (columns.before, columns.before + columns.extent)
    return te.compute(shape, element, name="pool_pad", attrs=stage_attrs(OUTER_AXES, interior))
