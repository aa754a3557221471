"""The dense template's space: register tiles that fit the CPU, and the batch."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.dense.geometry import DenseGeometry, misfit
from tvm_neocpu.topi.dense.space import accepts, row_tiles, space
from tvm_neocpu.topi.dense.workload import DenseWorkload

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
HASWELL = Cpu("haswell", AVX2, cores=4)
CORTEX = Cpu("cortex-a72", NEON, cores=1)


@pytest.mark.parametrize(
    ("batch", "heights"),
    [
        (1, (1,)),
        (2, (1, 2)),
        (7, (1, 2, 3, 4, 6, 7)),
        (13, (1, 2, 4, 5, 6, 7, 8, 12, 13)),
        (16, (1, 2, 4, 6, 8, 12, 14)),
        (1000, (1, 2, 4, 6, 8, 12, 14)),
    ],
)
def test_a_batch_is_also_cut_into_equal_tiles(batch: int, heights: tuple[int, ...]) -> None:
    assert row_tiles(DenseWorkload(batch, 64, 100)) == heights


@pytest.mark.parametrize("cpu", [SKYLAKE, HASWELL, CORTEX], ids=lambda cpu: cpu.isa.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_register_tile_fits(cpu: Cpu, dtype: str) -> None:
    dense = DenseWorkload(13, 64, 1000, uniform(dtype))
    unit = cpu.unit(dtype)
    found = space(dense, cpu)
    assert accepts(dense, cpu) and found
    for config in found:
        assert config.oc_bn % unit.lanes == 0
        assert unit.holds_tile(config.reg_n, config.oc_bn // unit.lanes * config.streams)
        assert DenseGeometry(dense, config).streams == config.streams
        assert misfit(dense, config) is None


def test_blocks_hardly_exceed_the_outputs() -> None:
    assert {config.oc_bn for config in space(DenseWorkload(1, 64, 10), SKYLAKE)} == {16}
    assert {config.oc_bn for config in space(DenseWorkload(1, 64, 33), SKYLAKE)} == {16, 32, 48}
