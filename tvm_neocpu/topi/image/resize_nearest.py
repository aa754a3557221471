"""Nearest-neighbour resize of NCHW by whole factors: every pixel is repeated."""

from __future__ import annotations

from tvm import te, tirx

from tvm_neocpu.topi.schedule.stages import row_attrs


def compute(data: te.Tensor, rows: int, columns: int) -> te.Tensor:
    """``(N, C, H, W)`` -> ``(N, C, H * rows, W * columns)``."""

    def pixel(n, c, y, x):
        return data(n, c, tirx.floordiv(y, rows), tirx.floordiv(x, columns))

    batch, channels, height, width = data.shape
    shape = (batch, channels, height * rows, width * columns)
    return te.compute(shape, pixel, name="resize_nearest", attrs=row_attrs())
