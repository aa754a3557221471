"""Inception v3 (Szegedy et al. 2015, "Rethinking the Inception Architecture").

Built as in torchvision, for 299x299 images. The auxiliary classifier is left out: only training
uses it.
"""

from __future__ import annotations

from ..builder import GraphBuilder, Tensor
from ..network import Network
from ..window import Size

BATCH_NORM_EPSILON = 1e-3


def _body(g: GraphBuilder, x: Tensor) -> Tensor:
    x = _stem(g, x)
    for name, pool_width in (("5b", 32), ("5c", 64), ("5d", 64)):
        x = _block_a(g, x, f"Mixed_{name}", pool_width)
    x = _block_b(g, x, "Mixed_6a")
    for name, width in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        x = _block_c(g, x, f"Mixed_{name}", width)
    x = _block_d(g, x, "Mixed_7a")
    for name in ("7b", "7c"):
        x = _block_e(g, x, f"Mixed_{name}")
    x = g.flatten(g.global_average_pool(x, "avgpool"), "flatten")
    return g.gemm(x, "fc", 1000)


def _stem(g: GraphBuilder, x: Tensor) -> Tensor:
    """3x299x299 to 192x35x35."""
    x = _conv(g, x, "Conv2d_1a_3x3", 32, 3, stride=2)
    x = _conv(g, x, "Conv2d_2a_3x3", 32, 3)
    x = _conv(g, x, "Conv2d_2b_3x3", 64, 3, padding=1)
    x = g.max_pool(x, "maxpool1", 3, 2)
    x = _conv(g, x, "Conv2d_3b_1x1", 80, 1)
    x = _conv(g, x, "Conv2d_4a_3x3", 192, 3)
    return g.max_pool(x, "maxpool2", 3, 2)


def _block_a(g: GraphBuilder, x: Tensor, name: str, pool_width: int) -> Tensor:
    """35x35: 1x1, 5x5, two 3x3, and an average pool (figure 5)."""
    one = _conv(g, x, f"{name}.branch1x1", 64, 1)
    five = _conv(g, x, f"{name}.branch5x5_1", 48, 1)
    five = _conv(g, five, f"{name}.branch5x5_2", 64, 5, padding=2)
    double = _conv(g, x, f"{name}.branch3x3dbl_1", 64, 1)
    double = _conv(g, double, f"{name}.branch3x3dbl_2", 96, 3, padding=1)
    double = _conv(g, double, f"{name}.branch3x3dbl_3", 96, 3, padding=1)
    pool = _pool_branch(g, x, name, pool_width)
    return g.concat([one, five, double, pool], f"{name}.concat")


def _block_b(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """35x35 to 17x17 (figure 10)."""
    three = _conv(g, x, f"{name}.branch3x3", 384, 3, stride=2)
    double = _conv(g, x, f"{name}.branch3x3dbl_1", 64, 1)
    double = _conv(g, double, f"{name}.branch3x3dbl_2", 96, 3, padding=1)
    double = _conv(g, double, f"{name}.branch3x3dbl_3", 96, 3, stride=2)
    pool = g.max_pool(x, f"{name}.branch_pool", 3, 2)
    return g.concat([three, double, pool], f"{name}.concat")


def _block_c(g: GraphBuilder, x: Tensor, name: str, width: int) -> Tensor:
    """17x17: 7x7 convolutions as pairs of 1x7 and 7x1 (figure 6)."""
    one = _conv(g, x, f"{name}.branch1x1", 192, 1)
    seven = _conv(g, x, f"{name}.branch7x7_1", width, 1)
    seven = _row(g, seven, f"{name}.branch7x7_2", width, 7)
    seven = _column(g, seven, f"{name}.branch7x7_3", 192, 7)
    double = _conv(g, x, f"{name}.branch7x7dbl_1", width, 1)
    double = _column(g, double, f"{name}.branch7x7dbl_2", width, 7)
    double = _row(g, double, f"{name}.branch7x7dbl_3", width, 7)
    double = _column(g, double, f"{name}.branch7x7dbl_4", width, 7)
    double = _row(g, double, f"{name}.branch7x7dbl_5", 192, 7)
    pool = _pool_branch(g, x, name, 192)
    return g.concat([one, seven, double, pool], f"{name}.concat")


def _block_d(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """17x17 to 8x8."""
    three = _conv(g, x, f"{name}.branch3x3_1", 192, 1)
    three = _conv(g, three, f"{name}.branch3x3_2", 320, 3, stride=2)
    seven = _conv(g, x, f"{name}.branch7x7x3_1", 192, 1)
    seven = _row(g, seven, f"{name}.branch7x7x3_2", 192, 7)
    seven = _column(g, seven, f"{name}.branch7x7x3_3", 192, 7)
    seven = _conv(g, seven, f"{name}.branch7x7x3_4", 192, 3, stride=2)
    pool = g.max_pool(x, f"{name}.branch_pool", 3, 2)
    return g.concat([three, seven, pool], f"{name}.concat")


def _block_e(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """8x8: 1x3 and 3x1 side by side (figure 7)."""
    one = _conv(g, x, f"{name}.branch1x1", 320, 1)
    three = _conv(g, x, f"{name}.branch3x3_1", 384, 1)
    three = _fork(g, three, f"{name}.branch3x3_2")
    double = _conv(g, x, f"{name}.branch3x3dbl_1", 448, 1)
    double = _conv(g, double, f"{name}.branch3x3dbl_2", 384, 3, padding=1)
    double = _fork(g, double, f"{name}.branch3x3dbl_3")
    pool = _pool_branch(g, x, name, 192)
    return g.concat([one, three, double, pool], f"{name}.concat")


def _fork(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """1x3 and 3x1 of the same input, 384 channels each."""
    sides = [_row(g, x, f"{name}a", 384, 3), _column(g, x, f"{name}b", 384, 3)]
    return g.concat(sides, f"{name}.concat")


def _pool_branch(g: GraphBuilder, x: Tensor, name: str, width: int) -> Tensor:
    pooled = g.average_pool(x, f"{name}.branch_pool.pool", 3, 1, padding=1)
    return _conv(g, pooled, f"{name}.branch_pool", width, 1)


def _row(g: GraphBuilder, x: Tensor, name: str, filters: int, length: int) -> Tensor:
    """A convolution with a kernel of height 1."""
    return _conv(g, x, name, filters, (1, length), padding=(0, length // 2))


def _column(g: GraphBuilder, x: Tensor, name: str, filters: int, length: int) -> Tensor:
    """A convolution with a kernel of width 1."""
    return _conv(g, x, name, filters, (length, 1), padding=(length // 2, 0))


def _conv(
    g: GraphBuilder,
    x: Tensor,
    name: str,
    filters: int,
    kernel: Size,
    stride: int = 1,
    padding: Size = 0,
) -> Tensor:
    """Convolution, batch norm, ReLU."""
    x = g.conv(x, f"{name}.conv", filters, kernel, stride=stride, padding=padding)
    x = g.batch_norm(x, f"{name}.bn", epsilon=BATCH_NORM_EPSILON)
    return g.relu(x, f"{name}.relu")


INCEPTION_V3 = Network(
    name="inception_v3",
    description="Inception v3, 299x299, no auxiliary classifier (Szegedy et al. 2015)",
    body=_body,
    image=(3, 299, 299),
)
