"""What a config of the batched product means: chunks, panels and how often they are packed."""

from __future__ import annotations

import pytest

from tvm_neocpu.topi.batch_matmul.geometry import MatmulConfig, MatmulGeometry
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload

# Queries and keys of a layer of attention: 2 x 3 products, (49, 8) x (8, 50).
KEYS = MatmulWorkload((2, 49, 3, 8), (2, 50, 3, 8), (0, 2, 1, 3), (0, 2, 3, 1))


@pytest.mark.parametrize(
    ("reg_n", "tiles", "chunks", "times"), [(7, 7, 6, 1), (7, 2, 24, 4), (14, 1, 24, 4)]
)
def test_each_chunk_packs_the_panels_of_its_product(
    reg_n: int, tiles: int, chunks: int, times: int
) -> None:
    geometry = MatmulGeometry(KEYS, MatmulConfig(16, reg_n, tiles))
    assert (geometry.chunks, geometry.times_packed) == (chunks, times)
    shared = MatmulGeometry(KEYS, MatmulConfig(16, reg_n, tiles, shared=True))
    assert (shared.chunks, shared.times_packed) == (chunks, 1)


def test_panels_of_every_product_are_filled() -> None:
    assert MatmulGeometry(KEYS, MatmulConfig(16, 7)).panels_shape == (6, 4, 8, 16)


def test_rows_that_overhang_are_copied_whatever_the_config_says() -> None:
    assert not MatmulGeometry(KEYS, MatmulConfig(16, 7, 7)).copies
    assert MatmulGeometry(KEYS, MatmulConfig(16, 7, 2)).copies
    assert MatmulGeometry(KEYS, MatmulConfig(16, 7, 7, copies=True)).copies
