"""The batched product's space: register tiles that fit, panels and rows in every way."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.batch_matmul.geometry import MatmulGeometry, misfit
from tvm_neocpu.topi.batch_matmul.space import accepts, space
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
HASWELL = Cpu("haswell", AVX2, cores=4)
CORTEX = Cpu("cortex-a72", NEON, cores=1)
IN_ORDER = (0, 1, 2)


def product(rows: int, columns: int, dtype: str = "float32") -> MatmulWorkload:
    return MatmulWorkload((12, rows, 64), (12, 64, columns), IN_ORDER, IN_ORDER, uniform(dtype))


@pytest.mark.parametrize("cpu", [SKYLAKE, HASWELL, CORTEX], ids=lambda cpu: cpu.isa.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_register_tile_fits(cpu: Cpu, dtype: str) -> None:
    scores = product(197, 197, dtype)
    unit, found = cpu.unit(dtype), space(scores, cpu)
    assert accepts(scores, cpu) and 0 < len(found) == len(set(found)) <= 2000
    for config in found:
        assert config.oc_bn % unit.lanes == 0
        assert unit.holds_tile(config.reg_n, config.oc_bn // unit.lanes)
        assert misfit(scores, config) is None


def test_panels_and_rows_are_offered_in_every_way() -> None:
    ways = {(config.shared, config.copies) for config in space(product(197, 197), SKYLAKE)}
    assert ways == {(False, False), (False, True), (True, False), (True, True)}


def test_a_chunk_may_cover_all_rows_of_its_product() -> None:
    scores = product(197, 197)
    assert 12 in {MatmulGeometry(scores, config).chunks for config in space(scores, SKYLAKE)}


def test_single_rows_and_columns_have_configs_too() -> None:
    assert {config.reg_n for config in space(product(1, 197), SKYLAKE)} == {1}
    assert {config.oc_bn for config in space(product(197, 1), SKYLAKE)} == {16}
