"""NASNet-A, large and mobile.

Zoph et al. 2017, "Learning Transferable Architectures for Scalable Image Recognition", figure 4 and
appendix A.4. A cell reads the outputs of the two cells before it.
"""

from __future__ import annotations

from functools import partial

from .. import cells
from ..blocks import pooled_classifier
from ..builder import GraphBuilder, Tensor
from ..network import Network

LARGE, MOBILE = cells.Size(96, 168, 6), cells.Size(32, 44, 4)


def _body(size: cells.Size, g: GraphBuilder, x: Tensor) -> Tensor:
    stem = g.conv(x, "conv0", size.stem, 3, stride=2)
    stem = g.batch_norm(stem, "conv0.norm", epsilon=cells.EPSILON)
    before = _stem0(g, stem, "stem0", size.filters // 4)
    x = _reduction(g, before, stem, "stem1", size.filters // 2)
    width = size.filters
    for stage in range(3):
        if stage:
            width *= 2
            before, x = x, _reduction(g, x, before, f"reduction{stage}", width)
        for index in range(size.cells):
            before, x = x, _normal(g, x, before, f"cell{stage}.{index}", width)
    return pooled_classifier(g, g.relu(x, "relu"), "fc")


def _normal(g: GraphBuilder, x: Tensor, before: Tensor, name: str, width: int) -> Tensor:
    left, right = _fitted(g, before, x, name, width), cells.pointwise(g, x, f"{name}.in", width)
    parts = [
        left,
        g.add(
            cells.separable(g, right, f"{name}.0.left", 5),
            cells.separable(g, left, f"{name}.0.right", 3),
            f"{name}.0",
        ),
        g.add(
            cells.separable(g, left, f"{name}.1.left", 5),
            cells.separable(g, left, f"{name}.1.right", 3),
            f"{name}.1",
        ),
        g.add(cells.average_pool(g, right, f"{name}.2.left"), left, f"{name}.2"),
        g.add(
            cells.average_pool(g, left, f"{name}.3.left"),
            cells.average_pool(g, left, f"{name}.3.right"),
            f"{name}.3",
        ),
        g.add(cells.separable(g, right, f"{name}.4.left", 3), right, f"{name}.4"),
    ]
    return g.concat(parts, f"{name}.concat")


def _reduction(g: GraphBuilder, x: Tensor, before: Tensor, name: str, width: int) -> Tensor:
    left, right = _fitted(g, before, x, name, width), cells.pointwise(g, x, f"{name}.in", width)
    first = g.add(
        cells.separable(g, right, f"{name}.0.left", 5, 2),
        cells.separable(g, left, f"{name}.0.right", 7, 2),
        f"{name}.0",
    )
    return _reduced(g, right, left, first, name, None)


def _stem0(g: GraphBuilder, x: Tensor, name: str, width: int) -> Tensor:
    """The reduction cell of a single input, whose other paths read the image as it is."""
    right = cells.pointwise(g, x, f"{name}.in", width)
    first = g.add(
        cells.separable(g, right, f"{name}.0.left", 5, 2),
        cells.separable(g, x, f"{name}.0.right", 7, 2, width),
        f"{name}.0",
    )
    return _reduced(g, right, x, first, name, width)


def _reduced(
    g: GraphBuilder, right: Tensor, left: Tensor, first: Tensor, name: str, width: int | None
) -> Tensor:
    second = g.add(
        cells.max_pool(g, right, f"{name}.1.left", 2),
        cells.separable(g, left, f"{name}.1.right", 7, 2, width),
        f"{name}.1",
    )
    third = g.add(
        cells.average_pool(g, right, f"{name}.2.left", 2),
        cells.separable(g, left, f"{name}.2.right", 5, 2, width),
        f"{name}.2",
    )
    fourth = g.add(cells.average_pool(g, first, f"{name}.3.right"), second, f"{name}.3")
    fifth = g.add(
        cells.separable(g, first, f"{name}.4.left", 3),
        cells.max_pool(g, right, f"{name}.4.right", 2),
        f"{name}.4",
    )
    return g.concat([second, third, fourth, fifth], f"{name}.concat")


def _fitted(g: GraphBuilder, before: Tensor, x: Tensor, name: str, width: int) -> Tensor:
    """The older input at the size of the newer one, `width` channels wide."""
    fit = cells.pointwise if before.image == x.image else cells.factorised_reduction
    return fit(g, before, f"{name}.before", width)


NASNET_A_LARGE = Network(
    name="nasnet_a_large",
    description="NASNet-A (6 @ 4032) (Zoph et al. 2017)",
    body=partial(_body, LARGE),
    image=(3, 331, 331),
)
NASNET_A_MOBILE = Network(
    name="nasnet_a_mobile",
    description="NASNet-A (4 @ 1056) (Zoph et al. 2017)",
    body=partial(_body, MOBILE),
)
