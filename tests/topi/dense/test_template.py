"""The dense template as scheduled, and its numbers for batches that tiles do not divide."""

from __future__ import annotations

import numpy as np
import pytest
from nests import SKYLAKE, nest
from samples import BIAS, check

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.template import pack_weight
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.kernel import kernel

DENSE = DenseWorkload(8, 64, 100)
PRODUCT = "dense_acc_update"


# Blocks of outputs; rows of the batch; the reduction; a tile.
@pytest.mark.parametrize(
    ("batch", "config", "expected"),
    [
        (8, DenseConfig(16, 4, 8), "parallel 7, 2, 8, unroll 8, unroll 4, vector 16"),
        (8, DenseConfig(32, 1, 4), "parallel 4, 8, 16, unroll 4, vector 32"),
        # Tiles that do not divide the batch keep their height.
        (7, DenseConfig(16, 4, 8), "parallel 7, 2, 8, unroll 8, unroll 4, vector 16"),
        (7, DenseConfig(16, 7, 8), "parallel 7, 8, unroll 8, unroll 7, vector 16"),
        (13, DenseConfig(16, 7, 8), "parallel 7, 2, 8, unroll 8, unroll 7, vector 16"),
        (13, DenseConfig(16, 12, 2), "parallel 7, 2, 32, unroll 2, unroll 12, vector 16"),
        (3, DenseConfig(16, 8, 8), "parallel 7, 8, unroll 8, unroll 3, vector 16"),
        # Blocks side by side: 7 have no factor but themselves.
        (1, DenseConfig(16, 1, 8, 7), "8, unroll 8, unroll 7, vector 16"),
        (1, DenseConfig(32, 1, 8, 2), "parallel 2, 8, unroll 8, unroll 2, vector 32"),
        (3, DenseConfig(32, 3, 4, 2), "parallel 2, 16, unroll 4, unroll 2, unroll 3, vector 32"),
    ],
)
def test_loops(batch: int, config: DenseConfig, expected: str) -> None:
    assert nest(DenseWorkload(batch, 64, 100), config, PRODUCT) == expected


def test_a_long_row_is_vectors_of_the_cpu() -> None:
    config, haswell = DenseConfig(128), Cpu("haswell", AVX2, cores=2)
    assert nest(DENSE, config, PRODUCT).endswith("unroll 4, vector 128")
    assert nest(DENSE, config, PRODUCT, haswell).endswith("unroll 4, unroll 2, vector 64")


@pytest.mark.parametrize("batch", range(1, 18))
def test_rows_that_overhang_the_batch_are_not_seen(batch: int) -> None:
    """The highest tile that does not divide the batch; one of its own height where all divide."""
    reg_n = next((rows for rows in range(min(batch, 14), 1, -1) if batch % rows), batch)
    check(DenseWorkload(batch, 12, 19), DenseConfig(16, reg_n, 3), SKYLAKE, BIAS)


@pytest.mark.parametrize("streams", [2, 3, 4])
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_blocks_side_by_side(batch: int, streams: int) -> None:
    """The last block is padded; where streams do not divide the blocks, fewer are taken."""
    check(DenseWorkload(batch, 12, 45), DenseConfig(8, batch, 3, streams), SKYLAKE, BIAS)


def test_rows_beyond_the_batch_are_not_read() -> None:
    """Its last row is read again; where tiles divide the batch nothing is asked."""
    exact, over = (
        kernel(DenseWorkload(batch, 64, 100), DenseConfig(16, 4), SKYLAKE).script()
        for batch in (8, 7)
    )
    assert "T.min(" in over and "T.min(" not in exact


def test_packed_weights() -> None:
    weight = np.arange(6 * 10, dtype="float32").reshape(6, 10)
    packed = pack_weight(weight, DenseWorkload(1, 6, 10), DenseConfig(8))
    assert packed.shape == (2, 6, 8)
    np.testing.assert_array_equal(packed[1, :, :2], weight[:, 8:])
    assert not packed[1, :, 2:].any()
    assert packed.flags.c_contiguous
