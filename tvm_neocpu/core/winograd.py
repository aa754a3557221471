"""The constant matrices of Winograd convolution F(m, r), exact, by the Cook-Toom construction.

    Y = A^T [(G g) . (B^T d)]        (one dimension; nested for two)

Interpolation points are small powers of two, which keeps fp32 errors small, taken as x beside -1/x
(Barabasz et al. 2020, "Error analysis and improving the accuracy of Winograd convolution"): F(4, 3)
with 1/2 and -2 errs by a third of what it does with 2 and -2, at the same speed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

Matrix = tuple[tuple[Fraction, ...], ...]

# As many points as F(m, 3) needs (m + 1), in the order that loses least precision.
_POINTS = tuple(
    Fraction(n, d) for n, d in ((0, 1), (1, 1), (-1, 1), (1, 2), (-2, 1), (2, 1), (-1, 2))
)


@dataclass(frozen=True)
class WinogradMatrices:
    """``a``: A^T (m x n), ``g``: G (n x r), ``b``: B^T (n x n), with n = m + r - 1."""

    a: Matrix
    g: Matrix
    b: Matrix


@cache
def winograd_matrices(tile: int, kernel: int = 3) -> WinogradMatrices:
    """The matrices of F(tile, kernel); raises ValueError where the points do not suffice."""
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
