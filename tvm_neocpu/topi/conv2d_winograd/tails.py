"""The last tile of a row or column where it overhangs the output: it takes fewer products.

The first t outputs of a tile do not depend on pixels from t + taps - 1 on, so that these may be
anything. Chosen well they make products zero, which nobody has to compute:

- The product at infinity is in the last output only. It is left out whatever the pixels are, as are
  products of a stride's single tap that belong to no output.
- With d4 = 97/36 d2 - d0 F(4, 3) has a zero at point 0, whatever d0 to d3 are. In general pixels
  continue those before them by the recurrence whose roots are t + taps - 1 of the points: rows of
  B^T for all other points are multiples of its polynomial.

So F(4, 3) over 0, 2/3, -2/3, 3/2, -3/2 and infinity becomes F(2, 3) over 2/3, -2/3, 3/2, -3/2, with
the same transformed weights and the same inverse transform. 14 columns take 6 + 6 + 6 + 4 products
for 24, and 7 columns 6 + 5 for 12.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations

from tvm_neocpu.topi.conv2d_winograd.matrices import Matrix, Row, WinogradMatrices, polynomial


@dataclass(frozen=True)
class Tail:
    """What the last tile takes: ``needed`` says which products, ``given`` how many pixels it reads.

    Further pixels follow from those before them: d[i] is the sum of ``recurrence`` times as many
    pixels in front. Without a recurrence all pixels are given.
    """

    needed: tuple[bool, ...]
    given: int
    recurrence: Row = ()


@cache
def tail_of(matrices: WinogradMatrices, outputs: int) -> Tail | None:
    """The last tile, of ``outputs`` outputs; ``None`` where that is a whole tile."""
    if outputs == matrices.outputs:
        return None
    used = tuple(any(row[u] for row in matrices.a[:outputs]) for u in range(matrices.products))
    plain = Tail(used, matrices.pixels)
    taps = len(matrices.g[0])
    # A stride's phases are several algorithms; their pixels stay as they are.
    if taps == 1 or matrices.pixels != matrices.outputs + taps - 1:
        return plain
    tails = _recurrent(matrices, outputs + taps - 1)
    return min(tails, key=lambda tail: _noise(matrices, tail, outputs), default=plain)


def _recurrent(matrices: WinogradMatrices, given: int) -> list[Tail]:
    """The tails for all choices of as many points as pixels; of integers for matrices of them."""
    points = {u: row[1] / row[0] for u, row in enumerate(matrices.g) if row[0]}
    if len(points) <= given:
        return []
    exact = _are_integers(factor for row in matrices.b for factor in row)
    found = []
    for kept in combinations(points, given):
        recurrence = tuple(-factor for factor in polynomial(points[u] for u in kept)[:-1])
        if not exact or _are_integers(recurrence):
            needed = tuple(u in kept for u in range(matrices.products))
            found.append(Tail(needed, given, recurrence))
    return found


def tail_matrix(matrices: WinogradMatrices, tail: Tail) -> Matrix:
    """B^T of the last tile over the pixels that are given; rows of zeros where none is needed."""
    pixels = [tuple(Fraction(i == j) for j in range(tail.given)) for i in range(tail.given)]
    while tail.recurrence and len(pixels) < matrices.pixels:
        before = pixels[-len(tail.recurrence) :]
        pixels.append(_sums(tail.recurrence, before))
    rows = (_sums(row, pixels) for row in matrices.b)
    nothing = (Fraction(0),) * tail.given
    return tuple(row if needed else nothing for row, needed in zip(rows, tail.needed, strict=True))


def _sums(factors: Row, rows: list[Row]) -> Row:
    """The sum of rows, each times its factor."""
    columns = zip(*rows, strict=True)
    return tuple(
        sum((x * y for x, y in zip(factors, column, strict=True)), Fraction()) for column in columns
    )


def _noise(matrices: WinogradMatrices, tail: Tail, outputs: int) -> Fraction:
    """The noise power of the tail's outputs where products are rounded (:mod:`.rounding`)."""
    rows = zip(matrices.g, tail_matrix(matrices, tail), strict=True)
    powers = [_power(g) * _power(b) for g, b in rows]
    return sum(
        (
            a**2 * power
            for row in matrices.a[:outputs]
            for a, power in zip(row, powers, strict=True)
        ),
        Fraction(),
    )


def _power(row: Row) -> Fraction:
    return sum((factor**2 for factor in row), Fraction())


def _are_integers(factors: Iterable[Fraction]) -> bool:
    return all(factor.denominator == 1 for factor in factors)
