"""The dense template's cost model: rows that are computed are charged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.topi.dense.cost import predict_seconds
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.space import space
from tvm_neocpu.topi.dense.workload import DenseWorkload

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)


def price(batch: int, config: DenseConfig) -> float:
    return predict_seconds(DenseWorkload(batch, 512, 1000), config, SKYLAKE)


@pytest.mark.parametrize(("batch", "reg_n", "rows"), [(7, 4, 8), (13, 7, 14), (13, 4, 16)])
def test_rows_of_a_tile_that_overhangs_are_charged(batch: int, reg_n: int, rows: int) -> None:
    """Not a row at a time, as where the tile's height had to divide the batch."""
    config = DenseConfig(32, reg_n)
    assert price(batch, config) == price(rows, config)
    assert price(batch, config) > price(rows - reg_n, config)
    assert price(batch, config) < 0.8 * price(batch, replace(config, reg_n=1))


def test_prime_batches_are_held_in_registers() -> None:
    for batch in (7, 13):
        dense = DenseWorkload(batch, 512, 1000)
        best = min(space(dense, SKYLAKE), key=lambda c: predict_seconds(dense, c, SKYLAKE))
        assert best.reg_n >= 4


def test_at_batch_1_the_weights_decide() -> None:
    """Four times the weights take about four times as long, whatever the tile."""
    small, large = DenseWorkload(1, 1024, 4096), DenseWorkload(1, 2048, 8192)
    config = DenseConfig(64, 1, 8)
    ratio = predict_seconds(large, config, SKYLAKE) / predict_seconds(small, config, SKYLAKE)
    assert 3.5 < ratio < 4.5


def test_one_core_reads_several_streams_of_weights() -> None:
    """Two cores ask for all that memory gives; one does only from several pages at once."""
    dense, alone = DenseWorkload(1, 4096, 4096), replace(SKYLAKE, cores=1)
    best = min(space(dense, alone), key=lambda c: predict_seconds(dense, c, alone))
    assert best.streams == 4
    one = predict_seconds(dense, replace(best, streams=1), alone)
    assert one > 1.2 * predict_seconds(dense, best, alone)
