"""What a config of the dense template means for a layer: rows of the batch, blocks of outputs."""

from __future__ import annotations

import pytest

from tvm_neocpu.topi.dense.geometry import DenseConfig, DenseGeometry, misfit
from tvm_neocpu.topi.dense.workload import DenseWorkload

EMPTY = [DenseConfig(0), DenseConfig(16, 0), DenseConfig(16, 1, 0), DenseConfig(16, streams=0)]


@pytest.mark.parametrize(
    ("batch", "reg_n", "tiles", "rows"),
    [
        (8, 4, 2, 8),
        (7, 4, 2, 8),  # the second tile overhangs by a row
        (13, 7, 2, 14),
        (13, 4, 4, 16),
        (3, 8, 1, 3),  # no tile is higher than the batch
        (1, 1, 1, 1),
    ],
)
def test_tiles_keep_their_height_whatever_the_batch(
    batch: int, reg_n: int, tiles: int, rows: int
) -> None:
    geometry = DenseGeometry(DenseWorkload(batch, 64, 100), DenseConfig(16, reg_n))
    assert (geometry.row_tiles, geometry.rows) == (tiles, rows)
    assert geometry.reg_n == min(batch, reg_n)


def test_the_last_block_of_outputs_is_padded() -> None:
    geometry = DenseGeometry(DenseWorkload(1, 30, 100), DenseConfig(16))
    assert geometry.out_blocks == 7
    assert geometry.packed_shape == (7, 30, 16)


def test_a_step_of_the_reduction_divides_the_features() -> None:
    steps = {
        features: DenseGeometry(DenseWorkload(1, features, 8), DenseConfig(8, 1, 8)).unroll_k
        for features in (64, 30, 31)
    }
    assert steps == {64: 8, 30: 6, 31: 1}


@pytest.mark.parametrize("empty", EMPTY)
def test_empty_blocks_do_not_fit(empty: DenseConfig) -> None:
    dense = DenseWorkload(4, 30, 100)
    assert misfit(dense, empty) == "its blocks are empty"
    assert misfit(dense, DenseConfig(48, 8, 8)) is None


@pytest.mark.parametrize(
    ("streams", "taken", "chunks"), [(1, 1, 8), (2, 2, 4), (3, 2, 4), (4, 4, 2)]
)
def test_streams_share_the_blocks(streams: int, taken: int, chunks: int) -> None:
    geometry = DenseGeometry(DenseWorkload(1, 30, 128), DenseConfig(16, streams=streams))
    assert (geometry.streams, geometry.chunks) == (taken, chunks)
