"""Padding of feature maps, plain or blocked, as a stage that templates place where it is cheap."""

from __future__ import annotations

from tvm import te, tirx

from tvm_neocpu.core.workload import Padding


def pad_spatial(
    data: te.Tensor,
    padding: Padding,
    at_least: tuple[int, int],
    name: str,
    value: float = 0.0,
    repeat: int = 1,
) -> te.Tensor:
    """Pad H and W of (N, C, H, W[, c]) by (top, left, bottom, right).

    The result has at least ``at_least`` rows and columns, so that tiles may overhang the output,
    and every channel of a block ``repeat`` times. Returns ``data`` where there is nothing to do.
    """
    top, left, bottom, right = padding
    height, width = int(data.shape[2]), int(data.shape[3])
    rows = max(height + top + bottom, at_least[0])
    cols = max(width + left + right, at_least[1])
    if (rows, cols) == (height, width) and repeat == 1:
        return data

    def padded(n, c, y, x, *lane):
        inside = [
            condition
            for needed, condition in (
                (top > 0, y >= top),
                (rows > height + top, y < height + top),
                (left > 0, x >= left),
                (cols > width + left, x < width + left),
            )
            if needed
        ]
        pixel = data(n, c, y - top, x - left, *(index // repeat for index in lane))
        if not inside:
            return pixel
        return tirx.if_then_else(tirx.all(*inside), pixel, tirx.const(value, data.dtype))

    shape = (*data.shape[:2], rows, cols, *(extent * repeat for extent in data.shape[4:]))
    return te.compute(shape, padded, name=name)
