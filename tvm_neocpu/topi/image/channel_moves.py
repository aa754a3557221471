"""Pixel shuffles and channel shuffles of NCHW and NCHW[x]c tensors, as gathers.

One element per point of the output, so that slices, activations and sums that follow melt into the
same pass over memory; :mod:`generic` schedules it.
"""

from __future__ import annotations

from tvm import te


def interleave(data: te.Tensor, rows: int, columns: int) -> te.Tensor:
    """(N, rows * columns * O, H, W[, x]) -> (N, O, H * rows, W * columns[, x]), phase-major."""
    batch, stored, height, width, *block = (int(extent) for extent in data.shape)
    kept = stored // (rows * columns)

    def pixel(n, o, y, x, *i):
        phase = y % rows * columns + x % columns
        return data[(n, phase * kept + o, y // rows, x // columns, *i)]

    if block:
        shape = (batch, kept, height * rows, width * columns, *block)
        return te.compute(shape, lambda n, o, y, x, i: pixel(n, o, y, x, i), name="interleave")
    shape = (batch, kept, height * rows, width * columns)
    return te.compute(shape, lambda n, o, y, x: pixel(n, o, y, x), name="interleave")


def shuffle(data: te.Tensor, groups: int) -> te.Tensor:
    """Channel ``b * groups + a`` of the result is channel ``a * (C / groups) + b`` of ``data``."""
    shape = tuple(int(extent) for extent in data.shape)
    block = shape[4] if len(shape) == 5 else 1
    size = shape[1] * block // groups

    def source(channel):
        return channel % groups * size + channel // groups

    if len(shape) == 4:
        return te.compute(shape, lambda n, c, y, x: data[n, source(c), y, x], name="shuffle")

    def lane(n, o, y, x, i):
        channel = source(o * block + i)
        return data[n, channel // block, y, x, channel % block]

    return te.compute(shape, lane, name="shuffle")
