"""Units that multiply whole tiles in registers of their own: AMX.

    sums[p, c] += sum over k < words of dot(data[p, k], weights[k, c])

A tile has :data:`ROWS` rows of :data:`ROW_BYTES` bytes at most. One of data has a row for each
pixel, one of weights a row for each word of channels (:mod:`.dot`), one of sums one for each pixel.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_neocpu.core.machine.dot import WORD_BYTES, word_elements
from tvm_neocpu.core.types import BF16_MAPS, BF16_WEIGHTS, U8S8, Types

ROWS, ROW_BYTES = 16, 64
# Sums in a row of a tile.
LANES = ROW_BYTES // WORD_BYTES


def products_of_tiles(types: Types) -> int:
    """Multiply-adds of one instruction: each row of words times each filter."""
    return ROWS * ROWS * LANES * word_elements(types)


@dataclass(frozen=True)
class MatrixUnit:
    """A CPU's unit for products of tiles, and what its instructions take, in cycles of the core.

    ``types`` are those that it multiplies. ``setup_cycles``: to give its registers their shapes,
    and to clear them behind a chunk of work. Figures of an Emerald Rapids (2 cores of a virtual
    machine): a product takes as long for few rows as for 16. They are those of a core at its own
    disposal; beside a neighbour's thread products take 1.3 times as long, loads three times.
    ``is_plain``: loops over words stand in for its instructions, in tests.
    """

    types: tuple[Types, ...]
    is_plain: bool = False
    product_cycles: float = 16.0
    load_cycles: float = 8.0
    store_cycles: float = 16.0
    setup_cycles: float = 250.0

    def multiply_adds_per_cycle(self, types: Types) -> float:
        """Products of whole tiles, where nothing has to be loaded."""
        return products_of_tiles(types) / self.product_cycles


# LLVM's feature for a kind of product -> the types of workloads that it multiplies.
_TYPES_BY_FEATURE = {"amx-int8": (U8S8,), "amx-bf16": (BF16_WEIGHTS, BF16_MAPS)}


def matrix_unit_of(features: frozenset[str]) -> MatrixUnit | None:
    """The unit of a CPU with LLVM's features; ``None`` for one that has none."""
    if "amx-tile" not in features:
        return None
    known = [each for feature, each in _TYPES_BY_FEATURE.items() if feature in features]
    return MatrixUnit(tuple(types for each in known for types in each)) if known else None
