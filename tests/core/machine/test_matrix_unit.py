"""Which CPUs multiply tiles, and of which types."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.machine.matrix_unit import MatrixUnit, matrix_unit_of
from tvm_neocpu.core.types import BF16_MAPS, BF16_WEIGHTS, FP32, U8S8, U8S16, Types


@pytest.mark.parametrize(
    ("features", "types"),
    [
        ({"amx-tile", "amx-int8"}, {U8S8}),
        ({"amx-tile", "amx-bf16"}, {BF16_WEIGHTS, BF16_MAPS}),
        ({"amx-tile", "amx-int8", "amx-bf16"}, {U8S8, BF16_WEIGHTS, BF16_MAPS}),
    ],
)
def test_its_types_follow_from_features(features: set[str], types: set[Types]) -> None:
    unit = matrix_unit_of(frozenset(features))
    assert unit is not None and set(unit.types) == types and not unit.is_plain


@pytest.mark.parametrize("features", [set(), {"amx-int8", "avx512f"}, {"amx-tile"}])
def test_there_is_none_without_registers_or_products(features: set[str]) -> None:
    assert matrix_unit_of(frozenset(features)) is None


def test_it_is_the_peak_of_its_types() -> None:
    """A product of tiles is 16 x 16 sums of 16 words, of 4 bytes or 2 numbers of bf16."""
    plain = Cpu("any", AVX512, 1)
    cpu = replace(plain, matrix=MatrixUnit((U8S8, BF16_WEIGHTS), product_cycles=16))
    assert cpu.multiply_adds_per_cycle(U8S8) == 16 * 16 * 4
    assert cpu.multiply_adds_per_cycle(BF16_WEIGHTS) == 16 * 16 * 2
    for types in (FP32, U8S16):
        assert cpu.multiply_adds_per_cycle(types) == plain.multiply_adds_per_cycle(types)
