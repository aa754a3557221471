"""The space of the template for many rows: register tiles that fit, ways to share the work."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_gemm.geometry import misfit
from tvm_neocpu.topi.dense_gemm.space import accepts, space

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
HASWELL = Cpu("haswell", AVX2, cores=4)
CORTEX = Cpu("cortex-a72", NEON, cores=1)


@pytest.mark.parametrize("cpu", [SKYLAKE, HASWELL, CORTEX], ids=lambda cpu: cpu.isa.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_register_tile_fits(cpu: Cpu, dtype: str) -> None:
    dense = DenseWorkload(197, 64, 1000, uniform(dtype))
    unit, found = cpu.unit(dtype), space(dense, cpu)
    assert 0 < len(found) == len(set(found)) <= 2000
    for config in found:
        assert config.oc_bn % unit.lanes == 0
        assert unit.holds_tile(config.reg_n, config.oc_bn // unit.lanes)
        assert misfit(dense, config) is None


def test_chunks_of_outputs_are_whole_panels() -> None:
    split = {
        config.oc_bn for config in space(DenseWorkload(64, 64, 96), SKYLAKE) if config.parallel_oc
    }
    assert split == {16, 32, 48, 96}
    assert not any(config.parallel_oc for config in space(DenseWorkload(64, 64, 100), SKYLAKE))


def test_rows_are_offered_in_place_and_copied() -> None:
    found = space(DenseWorkload(64, 64, 96), SKYLAKE)
    assert {config.copies for config in found} == {False, True}


def test_layers_of_one_row_are_declined() -> None:
    assert [accepts(DenseWorkload(rows, 64, 96), SKYLAKE) for rows in (1, 2)] == [False, True]
