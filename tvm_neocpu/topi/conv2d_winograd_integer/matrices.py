"""Winograd's matrices in integers, and what bounds their products.

    divisor * Y = A'^T [(G' g) . (B'^T d)]        (one dimension; nested for two)

Rows of B^T and G are multiplied by what makes them integers without a common factor; A' makes up
for it, up to one ``divisor``. F(2, 3): G's rows (1 0 0), (1 1 1)/2, (1 -1 1)/2, (0 0 1) lose their
halves, A' = (2 1 1 0; 0 1 -1 2), and the divisor is 2. F(4, 3) over 0, 1, -1, 1/2, -2: 30.

**Sums may wrap.** Additions and products of 32 bits are right modulo 2^32 whatever overflowed on
the way, and an odd divisor has an inverse there: of 900 Y a product with 1/225 leaves 4 Y. Only the
power of two in the divisor needs room above Y. So F(4x4, 3x3) is as exact as F(2x2, 3x3), with the
same two bits lost, and nothing has to be flushed or rounded. (Points 0, 1, -1, 2, -2 would lose 6.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.topi.conv2d_winograd.matrices import Matrix, Row, WinogradMatrices

ACCUMULATOR_BITS = 32
# Of a transformed weight.
LARGEST = 2**15 - 1


@dataclass(frozen=True)
class IntegerMatrices(WinogradMatrices):
    """Integers; outputs are too large by the factor ``divisor``."""

    divisor: int = 1

    # Equal matrices have equal divisors; a dataclass would make its own.
    __hash__ = WinogradMatrices.__hash__


@cache
def in_integers(exact: WinogradMatrices) -> IntegerMatrices:
    """The same algorithm, as scaled integers."""
    scales = [_to_integers(g) * _to_integers(b) for g, b in zip(exact.g, exact.b, strict=True)]
    columns = tuple(
        tuple(factor / scale for factor, scale in zip(row, scales, strict=True)) for row in exact.a
    )
    divisor = math.lcm(*(factor.denominator for row in columns for factor in row))
    a, g = tuple(_scaled(row, Fraction(divisor)) for row in columns), _integers(exact.g)
    return IntegerMatrices(*_common_factors_moved(a, g), b=_integers(exact.b), divisor=divisor)


def _common_factors_moved(a: Matrix, g: Matrix) -> tuple[Matrix, Matrix]:
    """Factors of A'^T's columns as factors of G's rows, as far as int8 weights still fit 16 bits.

    Weights are transformed once, outputs in every run: F(4, 3)'s columns of 15 and 5 become ones.
    """
    taps, columns, rows = np.iinfo("int8"), list(zip(*a, strict=True)), list(g)
    for at, column in enumerate(columns):
        common = math.gcd(*(factor.numerator for factor in column))
        for factor in sorted(factors(common), reverse=True):
            larger = (*rows[:at], _scaled(rows[at], Fraction(factor)), *rows[at + 1 :])
            if factor == 1 or largest_sum((larger, larger), taps.min, taps.max) <= LARGEST:
                rows[at], columns[at] = larger[at], _scaled(column, Fraction(1, factor))
                break
    return tuple(zip(*columns, strict=True)), tuple(rows)


def _integers(matrix: Matrix) -> Matrix:
    return tuple(_scaled(row, _to_integers(row)) for row in matrix)


def _to_integers(row: Row) -> Fraction:
    """The factor that makes a row integers without a common factor."""
    return Fraction(
        math.lcm(*(factor.denominator for factor in row)),
        math.gcd(*(factor.numerator for factor in row)),
    )


def _scaled(row: Row, scale: Fraction) -> Row:
    return tuple(factor * scale for factor in row)


def shift_of(divisor: int) -> int:
    """The power of two in a divisor: the bits that an output has to leave free."""
    return (divisor & -divisor).bit_length() - 1


def inverse_of(divisor: int) -> int:
    """What a 32-bit product with divides by the odd part of a divisor, as a signed number."""
    modulus = 1 << ACCUMULATOR_BITS
    inverse = pow(divisor >> shift_of(divisor), -1, modulus)
    return inverse - modulus if inverse >= modulus // 2 else inverse


def largest_sum(matrices: tuple[Matrix, Matrix], low: int, high: int) -> int:
    """The largest magnitude of M_down x M_across^T over all x of elements in [low, high].

    B^T of F(4, 3) has a row (2 3 -4 -3 2 0): of bytes 2-D sums reach 98 * 255 = 24990.
    """
    down, across = (np.array(matrix, dtype=np.int64) for matrix in matrices)
    both = np.kron(down, across)
    positive, negative = (np.maximum(sign * both, 0).sum(axis=1) for sign in (1, -1))
    most = np.maximum(positive * high - negative * low, negative * high - positive * low)
    return int(most.max())
