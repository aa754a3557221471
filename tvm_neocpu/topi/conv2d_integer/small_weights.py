"""How small integer weights are: whether sums of few products with bytes fit 16 bits.

``vpmaddubsw`` adds the products of two neighbours in 16 bits and saturates. It never does where

    255 * (sum of the positive weights) <= 32767  and  255 * (sum of the negative ones) >= -32768

which any two weights of 7 bits fulfil (-64 to 64), and many pairs of 8 bits too; any four of 6
bits, and many fours of 7.
"""

from __future__ import annotations

import numpy as np

from tvm_neocpu.core.machine.dot import ANY_WEIGHTS, FOURS_FIT, PAIRS_FIT

# Of weights that meet uint8 data: 32767 // 255, and -32768 // -255.
LARGEST_SUM = 128
# Weights of so many bits -> channels that are added in 16 bits, counted from a whole word's first:
# one half of a word, of a pair of words.
SUMMED = {PAIRS_FIT: (0, 1), FOURS_FIT: (0, 1, 4, 5)}
PAIR = 2


def small_bits(weight: np.ndarray) -> int:
    """6 or 7 for int8 weights (K, C, R, S) that are as small, 8 for others.

    Blocks of channels that are no whole words begin anywhere: where 4 does not divide C, each
    weight has to be small.
    """
    if weight.dtype != np.int8:
        return ANY_WEIGHTS
    return next((bits for bits in sorted(SUMMED) if is_small(weight, bits)), ANY_WEIGHTS)


def is_small(weight: np.ndarray, bits: int) -> bool:
    """Whether no sum of that many products leaves 16 bits."""
    if not weight.size or max(int(weight.max()), -int(weight.min())) <= 1 << (bits - 1):
        return True
    if weight.shape[1] % 4:
        return False
    return max(int(sums.max()) for sums in sums_of(weight, bits)) <= LARGEST_SUM


def sums_of(weight: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the positive weights and of the negative ones' sizes, (K, groups, 2, R, S) each.

    A group is a word or a pair of words, and has two halves that are added up.
    """
    halves = in_halves(weight, bits).astype("int16")
    positive, negative = (np.maximum(sign * halves, 0).sum(axis=(2, 4)) for sign in (1, -1))
    return positive, negative


def in_halves(weight: np.ndarray, bits: int) -> np.ndarray:
    """(K, C, R, S) -> (K, groups, words, 2, PAIR, R, S), filled up by zeros; C in whole words."""
    words = len(SUMMED[bits]) // PAIR
    filling = -weight.shape[1] % (2 * PAIR * words)
    filled = np.pad(weight, ((0, 0), (0, filling), (0, 0), (0, 0)))
    return filled.reshape(weight.shape[0], -1, words, 2, PAIR, *weight.shape[2:])


def from_halves(halves: np.ndarray) -> np.ndarray:
    """The inverse of :func:`in_halves`, with the channels that fill up."""
    return halves.reshape(halves.shape[0], -1, *halves.shape[-2:])
