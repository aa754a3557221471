"""What a config of the template for many rows means: chunks, panels, rows that are copied."""

from __future__ import annotations

import pytest

from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_gemm.geometry import GemmConfig, GemmGeometry

DENSE = DenseWorkload(196, 30, 100)


@pytest.mark.parametrize(
    ("config", "chunks"),
    [
        (GemmConfig(32, 14, 14), 1),
        (GemmConfig(32, 14, 5), 3),
        (GemmConfig(32, 14, 5, parallel_oc=True), 12),
        (GemmConfig(128, 14, 5, parallel_oc=True), 3),
    ],
)
def test_chunks_are_of_rows_or_of_rows_and_outputs(config: GemmConfig, chunks: int) -> None:
    assert GemmGeometry(DENSE, config).chunks == chunks


def test_the_last_panel_is_filled() -> None:
    assert GemmGeometry(DENSE, GemmConfig(32, 14)).packed_shape == (4, 30, 32)
    assert GemmGeometry(DENSE, GemmConfig(100, 14)).packed_shape == (1, 30, 100)


def test_rows_that_overhang_are_copied_whatever_the_config_says() -> None:
    copied = {tiles: GemmGeometry(DENSE, GemmConfig(32, 14, tiles)).copies for tiles in (5, 7, 14)}
    assert copied == {5: True, 7: False, 14: False}
    assert GemmGeometry(DENSE, GemmConfig(32, 14, 7, copies=True)).copies
