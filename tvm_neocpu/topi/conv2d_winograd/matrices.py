"""The constant matrices of Winograd convolution F(m, r), exact, by the Cook-Toom construction.

    Y = A^T [(G g) . (B^T d)]        (one dimension; nested for two)

A stride s splits taps and pixels into s phases, each of them a convolution of stride 1 whose
results add up: their algorithms stand side by side, and A^T sums (3 taps, stride 2: 4 outputs from
F(4, 2) and F(4, 1), 9 products for 12). A single tap has nothing to save: the identity.

Interpolation points are small powers of two, which keeps fp32 errors small, taken as x beside -1/x
(Barabasz et al. 2020, "Error analysis and improving the accuracy of Winograd convolution"): F(4, 3)
with 1/2 and -2 errs by a third of what it does with 2 and -2, at the same speed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

from tvm_neocpu.topi.conv2d.workload import ConvWorkload

Row = tuple[Fraction, ...]
Matrix = tuple[Row, ...]

# As many points as F(6, 3) and F(3, 7) need, in the order that loses the least precision.
_POINTS = tuple(
    Fraction(n, d) for n, d in ((0, 1), (1, 1), (-1, 1), (1, 2), (-2, 1), (2, 1), (-1, 2), (4, 1))
)

# The point at infinity counts as an interpolation point.
MAX_POINTS = len(_POINTS) + 1


@dataclass(frozen=True)
class WinogradMatrices:
    """``a``: A^T (m x n), ``g``: G (n x r), ``b``: B^T (n x l): n products, l pixels read.

    With stride 1, n = l = m + r - 1.
    """

    a: Matrix
    g: Matrix
    b: Matrix

    @property
    def products(self) -> int:
        return len(self.g)

    @property
    def outputs(self) -> int:
        return len(self.a)

    @property
    def pixels(self) -> int:
        return len(self.b[0])

    @cached_property
    def adds_before(self) -> int:
        """Multiply-adds of B^T with a vector."""
        return _adds(self.b)

    @cached_property
    def adds_behind(self) -> int:
        """Multiply-adds of A^T with a vector."""
        return _adds(self.a)


def _adds(matrix: Matrix) -> int:
    """Multiply-adds of a product with a vector; a row of one entry is a copy."""
    terms = [sum(factor != 0 for factor in row) for row in matrix]
    return sum(count for count in terms if count > 1)


def conv_matrices(conv: ConvWorkload, tile: int) -> tuple[WinogradMatrices, WinogradMatrices]:
    """Down and across, for tiles of ``tile`` outputs; of one output where the kernel has one tap.

    Raises ValueError where the points do not suffice.
    """
    down, across = (
        winograd_matrices(tile if taps > 1 else 1, taps, stride)
        for taps, stride in zip(conv.kernel, conv.stride, strict=True)
    )
    return down, across


@cache
def winograd_matrices(tile: int, kernel: int = 3, stride: int = 1) -> WinogradMatrices:
    """The matrices of F(tile, kernel); raises ValueError where the points do not suffice."""
    phases = [
        (phase, _unit_stride(tile, len(range(phase, kernel, stride))))
        for phase in range(min(stride, kernel))
    ]
    pixels = (tile - 1) * stride + kernel
    return WinogradMatrices(
        a=tuple(
            tuple(factor for _, part in phases for factor in part.a[row]) for row in range(tile)
        ),
        g=tuple(_spread(row, p, stride, kernel) for p, part in phases for row in part.g),
        b=tuple(_spread(row, p, stride, pixels) for p, part in phases for row in part.b),
    )


def _spread(
    row: tuple[Fraction, ...], phase: int, stride: int, length: int
) -> tuple[Fraction, ...]:
    """The row's entries at ``phase``, ``phase + stride``, ...; zeros between."""
    spread = [Fraction(0)] * length
    spread[phase : phase + len(row) * stride : stride] = row
    return tuple(spread)


def _unit_stride(tile: int, kernel: int) -> WinogradMatrices:
    if kernel == 1:
        identity = tuple(tuple(Fraction(i == j) for j in range(tile)) for i in range(tile))
        return WinogradMatrices(identity, ((Fraction(1),),) * tile, identity)
    count = tile + kernel - 2
    if not 0 < count <= len(_POINTS):
        raise ValueError(f"F({tile}, {kernel}) needs {count} points; {len(_POINTS)} are known")
    points = _POINTS[:count]
    infinity = Fraction(1), Fraction(0)
    a = tuple((*(p**row for p in points), infinity[row != tile - 1]) for row in range(tile))
    g_rows = []
    b_rows = []
    for p in points:
        others = [q for q in points if q != p]
        scale = _product(p - q for q in others)
        g_rows.append(tuple(p**k / scale for k in range(kernel)))
        b_rows.append((*_polynomial(others), Fraction(0)))
    g_rows.append(tuple(infinity[k != kernel - 1] for k in range(kernel)))
    b_rows.append(_polynomial(points))
    return WinogradMatrices(a, tuple(g_rows), tuple(b_rows))


def _product(values: Iterable[Fraction]) -> Fraction:
    result = Fraction(1)
    for value in values:
        result *= value
    return result


def _polynomial(roots: Iterable[Fraction]) -> tuple[Fraction, ...]:
    """Coefficients of the monic polynomial with these roots, lowest power first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        scaled = [*(-root * c for c in coefficients), Fraction(0)]
        coefficients = [x + y for x, y in zip(shifted, scaled, strict=True)]
    return tuple(coefficients)
