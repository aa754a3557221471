"""PNASNet-5, large and mobile.

Liu et al. 2017, "Progressive Neural Architecture Search", figure 1 (right) and table 5.
"""

from __future__ import annotations

from functools import partial

from .. import cells
from ..blocks import pooled_classifier
from ..builder import GraphBuilder, Tensor
from ..network import Network

LARGE, MOBILE = cells.Size(96, 216, 4), cells.Size(32, 54, 3)


def _body(size: cells.Size, g: GraphBuilder, x: Tensor) -> Tensor:
    before = g.conv(x, "conv0", size.stem, 3, stride=2)
    before = g.batch_norm(before, "conv0.norm", epsilon=cells.EPSILON)
    x = _stem(g, before, "stem0", size.filters // 4)
    before, x = x, _cell(g, x, before, "stem1", size.filters // 2, 2)
    width = size.filters
    for stage in range(3):
        for index in range(size.cells):
            reduces = stage > 0 and index == 0
            width *= 2 if reduces else 1
            name = f"cell{stage}.{index}"
            before, x = x, _cell(g, x, before, name, width, 2 if reduces else 1)
    return pooled_classifier(g, g.relu(x, "relu"), "fc")


def _cell(g: GraphBuilder, x: Tensor, before: Tensor, name: str, width: int, stride: int) -> Tensor:
    fit = cells.pointwise if before.image == x.image else cells.factorised_reduction
    left = fit(g, before, f"{name}.before", width)
    right = cells.pointwise(g, x, f"{name}.in", width)
    first = cells.separable(g, left, f"{name}.0.left", 5, stride)
    pooled = cells.max_pool(g, left, f"{name}.0.right", stride)
    last = cells.separable(g, left, f"{name}.4.left", 3, stride)
    return _combined(g, (first, pooled), right, last, name, stride)


def _stem(g: GraphBuilder, x: Tensor, name: str, width: int) -> Tensor:
    """The reduction cell of a single input, whose other paths read the image as it is."""
    right = cells.pointwise(g, x, f"{name}.in", width)
    first = cells.separable(g, x, f"{name}.0.left", 5, 2, width)
    pooled = cells.max_pool(g, x, f"{name}.0.pool", 2)
    pooled = cells.norm(g, g.conv(pooled, f"{name}.0.conv", width, 1), f"{name}.0.right")
    last = cells.separable(g, x, f"{name}.4.left", 3, 2, width)
    return _combined(g, (first, pooled), right, last, name, 2)


def _combined(
    g: GraphBuilder,
    first: tuple[Tensor, Tensor],
    right: Tensor,
    last: Tensor,
    name: str,
    stride: int,
) -> Tensor:
    """The five sums of a cell, side by side."""
    second = g.add(
        cells.separable(g, right, f"{name}.1.left", 7, stride),
        cells.max_pool(g, right, f"{name}.1.right", stride),
        f"{name}.1",
    )
    third = g.add(
        cells.separable(g, right, f"{name}.2.left", 5, stride),
        cells.separable(g, right, f"{name}.2.right", 3, stride),
        f"{name}.2",
    )
    fourth = g.add(
        cells.separable(g, third, f"{name}.3.left", 3),
        cells.max_pool(g, right, f"{name}.3.right", stride),
        f"{name}.3",
    )
    passed = right
    if stride == 2:
        passed = cells.pointwise(g, right, f"{name}.4.right", right.channels, 2)
    fifth = g.add(last, passed, f"{name}.4")
    sums = [g.add(*first, f"{name}.0"), second, third, fourth, fifth]
    return g.concat(sums, f"{name}.concat")


PNASNET_5_LARGE = Network(
    name="pnasnet5_large",
    description="PNASNet-5 (4, 216) (Liu et al. 2017)",
    body=partial(_body, LARGE),
    image=(3, 331, 331),
)
PNASNET_5_MOBILE = Network(
    name="pnasnet5_mobile",
    description="PNASNet-5 (3, 54) (Liu et al. 2017)",
    body=partial(_body, MOBILE),
)
