"""GridSample's loops: where each pixel of the output reads, once for all channels.

    for pixel:          its four places in a channel, and their weights: 0 outside the image
    for channel, pixel: out[channel, pixel] = sum of weight * data[channel, place]

TVM's own computes the places again for every channel, with a test for each of the four.
"""

from __future__ import annotations

from math import prod

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.frontend.converters.compute.hand_loops import emit_loops
from tvm_neocpu.frontend.converters.node import Node

# Pixels around a place.
_AROUND = 4


def sampled_grid(
    node: Node,
    data: relax.Expr,
    grid: relax.Expr,
    *,
    align_corners: bool,
    border: bool,
) -> relax.Var:
    """``(N, C, H, W)`` at the places ``(N, OH, OW, 2)``, between its four pixels; static shapes.

    ``border``: what lies outside the image takes its nearest pixel, not 0.
    """
    batch, channels, *image = (int(extent) for extent in data.ty.shape.values)
    size = tuple(int(extent) for extent in grid.ty.shape.values[1:3])
    dtype, pixels, area = str(data.ty.dtype), prod(size), prod(image)

    def body(data, grid, out, places, weights) -> None:  # type: ignore[no-untyped-def]
        def number(value: float) -> tirx.Expr:
            return tirx.const(value, dtype)

        def axis(coordinate: tirx.Expr, extent: int) -> list[tuple[tirx.Expr, tirx.Expr]]:
            """The pixels below and above a place of [-1, 1], and their weights."""
            stretched = (coordinate + number(1)) * number((extent - align_corners) / 2)
            at = stretched if align_corners else stretched - number(0.5)
            # Farther out nothing changes, and a whole number of 32 bits holds it.
            outside = (0, extent - 1) if border else (-2, extent + 1)
            at = tirx.max(tirx.min(at, number(outside[1])), number(outside[0]))
            below = tirx.Cast("int32", tirx.floor(at))
            share = at - tirx.floor(at)
            found = []
            for place, weight in ((below, number(1) - share), (below + 1, share)):
                inside = tirx.max(tirx.min(place, T.int32(extent - 1)), T.int32(0))
                found.append((inside, tirx.Select(inside == place, weight, number(0))))
            return found

        with T.serial(0, batch) as n:
            with T.parallel(0, size[0]) as row, T.serial(0, size[1]) as column:
                p = row * size[1] + column
                x, y = (grid[(n * pixels + p) * 2 + k] for k in range(2))
                rows, columns = axis(y, image[0]), axis(x, image[1])
                around = [(row, column) for row in rows for column in columns]
                for k, ((down, above), (across, left)) in enumerate(around):
                    places[k * pixels + p] = down * T.int32(image[1]) + across
                    weights[k * pixels + p] = above * left
            with T.parallel(0, channels) as c, T.serial(0, pixels) as p:
                start = (n * channels + c) * area
                values = [
                    weights[k * pixels + p] * data[start + places[k * pixels + p]]
                    for k in range(_AROUND)
                ]
                out[(n * channels + c) * pixels + p] = values[0] + values[1] + values[2] + values[3]

    outputs = [
        ((batch, channels, *size), dtype),
        ((_AROUND, pixels), "int32"),
        ((_AROUND, pixels), dtype),
    ]
    return emit_loops(node, "sampled_grid", [data, grid], outputs, body)[0]
