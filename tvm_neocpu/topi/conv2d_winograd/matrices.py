"""The constant matrices of Winograd convolution F(m, r), exact, by the Cook-Toom construction.

    Y = A^T [(G g) . (B^T d)]        (one dimension; nested for two)

A stride s splits taps and pixels into s phases, each of them a convolution of stride 1 whose
results add up: their algorithms stand side by side, and A^T sums (3 taps, stride 2: 4 outputs from
F(4, 2) and F(4, 1), 9 products for 12). A single tap has nothing to save: the identity.

Interpolation points decide precision and speed. In floats they come as x beside -x, and x beside
1/x: rows of B^T and columns of A^T then are pairs that differ in signs only, and share their sums
(:func:`factored`). F(4, 3) takes 14 operations for 26 and 12 for 18 so, and errs by 0.7 of what it
does with 1/2 and -2. Integers want powers of two, x beside -1/x (Barabasz et al. 2020, "Error
analysis and improving the accuracy of Winograd convolution").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

from tvm_neocpu.topi.conv2d.workload import ConvWorkload

Row = tuple[Fraction, ...]
Matrix = tuple[Row, ...]


def _numbers(text: str) -> Row:
    return tuple(Fraction(number) for number in text.split())


# As many points as F(6, 3) and F(3, 7) need, in the order that loses the least precision.
_POWERS_OF_TWO = _numbers("0 1 -1 1/2 -2 2 -1/2 4")
# Where other points lose less. Simulated errors of fp32, rms over that of the powers of two:
# F(3, 3) 0.67, F(4, 3) 0.69, F(2, 5) 0.69, F(4, 4) 0.90 (normal data, 2-D).
_BALANCED = {
    4: _numbers("0 3/4 -3/4 2"),
    5: _numbers("0 2/3 -2/3 3/2 -3/2"),
    6: _numbers("0 1/2 -1/2 1 -1 2"),
}

# What rounds transformed numbers to bf16 loses less with these: noise power 6.9 times that of
# rounded taps in F(3x3, 3x3), where the balanced ones have 16.6. They take two operations more.
_COARSE = {**_BALANCED, 4: _numbers("3/8 -3/8 5/4 -5/4")}
# Which points: for fp32; for integers; for products of bf16.
BALANCED, EXACT, COARSE = "balanced", "exact", "coarse"
_POINTS: dict[str, dict[int, Row]] = {BALANCED: _BALANCED, EXACT: {}, COARSE: _COARSE}

# The point at infinity counts as an interpolation point.
MAX_POINTS = len(_POWERS_OF_TWO) + 1


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

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Of many fractions: what is made of matrices is looked up for every config."""
        return hash((self.a, self.g, self.b))

    @cached_property
    def adds_before(self) -> int:
        """Operations of B^T with a vector."""
        return sum(_operations(part) for part in factored(self.b))

    @cached_property
    def adds_behind(self) -> int:
        """Operations of A^T with a vector."""
        return sum(_operations(part) for part in factored(self.a))


def _operations(matrix: Matrix) -> int:
    """Multiply-adds, multiplications and additions of a product with a vector."""
    return sum(_operations_of_row(row) for row in matrix)


def _operations_of_row(row: Row) -> int:
    """A term takes one, but the first: it takes none where some factor is 1 or -1.

    A row of one such entry is a copy.
    """
    factors = [factor for factor in row if factor]
    return len(factors) - any(abs(factor) == 1 for factor in factors)


@cache
def factored(matrix: Matrix) -> tuple[Matrix, Matrix]:
    """``(outer, inner)``, whose product the matrix is; what is shared is a row of ``inner``.

    Two rows that differ in some signs only are a sum and a difference of two rows of ``inner``; two
    such columns a sum and a difference of two elements, which all rows use:

        (1 1; 2/3 -2/3; 4/9 4/9)  ->  (1 0; 0 2/3; 4/9 0) (1 1; 1 -1)
    """
    outer, inner = _rows_shared(matrix)
    wide, narrow = _rows_shared(_transposed(matrix))
    ways = (outer, inner), (_transposed(narrow), _transposed(wide))
    return min(ways, key=lambda parts: sum(_operations(part) for part in parts))


def _rows_shared(matrix: Matrix) -> tuple[Matrix, Matrix]:
    """The factors of :func:`factored` for pairs of rows; (identity, matrix) without any."""
    outer = [[Fraction(i == j) for j in range(len(matrix))] for i in range(len(matrix))]
    inner = list(matrix)
    left = list(range(len(matrix)))
    while left:
        row = left.pop(0)
        other = next((each for each in left if _mirrors(matrix[row], matrix[each])), None)
        if other is None:
            continue
        left.remove(other)
        pairs = tuple(zip(matrix[row], matrix[other], strict=True))
        inner[row] = tuple((x + y) / 2 for x, y in pairs)
        inner[other] = tuple((x - y) / 2 for x, y in pairs)
        outer[row][other] = outer[other][row] = Fraction(1)
        outer[other][other] = Fraction(-1)
    return tuple(tuple(row) for row in outer), tuple(inner)


def _mirrors(row: Row, other: Row) -> bool:
    """Whether two rows differ in signs only, in some of them and not in all."""
    pairs = [(x, y) for x, y in zip(row, other, strict=True) if x or y]
    equal = [x == y for x, y in pairs]
    return all(abs(x) == abs(y) for x, y in pairs) and any(equal) and not all(equal)


def _transposed(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))


def conv_matrices(
    conv: ConvWorkload, tile: int, points: str = BALANCED
) -> tuple[WinogradMatrices, WinogradMatrices]:
    """Down and across, for tiles of ``tile`` outputs; of one output where the kernel has one tap.

    ``points``: for what type of products. Raises ValueError where the points do not suffice.
    """
    down, across = (
        winograd_matrices(tile if taps > 1 else 1, taps, stride, points)
        for taps, stride in zip(conv.kernel, conv.stride, strict=True)
    )
    return down, across


@cache
def winograd_matrices(
    tile: int, kernel: int = 3, stride: int = 1, points: str = BALANCED
) -> WinogradMatrices:
    """The matrices of F(tile, kernel); raises ValueError where the points do not suffice."""
    phases = [
        (phase, _unit_stride(tile, len(range(phase, kernel, stride)), points))
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


def _unit_stride(tile: int, kernel: int, kind: str) -> WinogradMatrices:
    if kernel == 1:
        identity = tuple(tuple(Fraction(i == j) for j in range(tile)) for i in range(tile))
        return WinogradMatrices(identity, ((Fraction(1),),) * tile, identity)
    count = tile + kernel - 2
    if not 0 < count < MAX_POINTS:
        raise ValueError(f"F({tile}, {kernel}) needs {count} points; {MAX_POINTS - 1} are known")
    points = _POINTS[kind].get(count, _POWERS_OF_TWO[:count])
    infinity = Fraction(1), Fraction(0)
    a = tuple((*(p**row for p in points), infinity[row != tile - 1]) for row in range(tile))
    g_rows = []
    b_rows = []
    for p in points:
        others = [q for q in points if q != p]
        scale = _product(p - q for q in others)
        g_rows.append(tuple(p**k / scale for k in range(kernel)))
        b_rows.append((*polynomial(others), Fraction(0)))
    g_rows.append(tuple(infinity[k != kernel - 1] for k in range(kernel)))
    b_rows.append(polynomial(points))
    return WinogradMatrices(a, tuple(g_rows), tuple(b_rows))


def _product(values: Iterable[Fraction]) -> Fraction:
    result = Fraction(1)
    for value in values:
        result *= value
    return result


def polynomial(roots: Iterable[Fraction]) -> tuple[Fraction, ...]:
    """Coefficients of the monic polynomial with these roots, lowest power first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        scaled = [*(-root * c for c in coefficients), Fraction(0)]
        coefficients = [x + y for x, y in zip(shifted, scaled, strict=True)]
    return tuple(coefficients)
