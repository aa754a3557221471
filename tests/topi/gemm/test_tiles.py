"""Register tiles of a matrix product: heights, chunks, rows that share a set of the cache."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, KIB, Cpu
from tvm_neocpu.topi.gemm.tiles import (
    Tiles,
    block_shapes,
    chunk_sizes,
    rows_evict_each_other,
    tile_shapes,
)

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
HASWELL = Cpu("haswell", AVX2, cores=4, l2=256 * KIB)


@pytest.mark.parametrize(
    ("rows", "reg_n", "tiles", "chunks", "computed"),
    [(196, 14, 14, 1, 196), (197, 13, 4, 4, 208), (3, 14, 1, 1, 3), (49, 7, 3, 3, 63)],
)
def test_chunks_cover_the_rows(
    rows: int, reg_n: int, tiles: int, chunks: int, computed: int
) -> None:
    found = Tiles(rows, 64, 100, 32, reg_n, tiles)
    assert (found.row_chunks, found.computed_rows) == (chunks, computed)
    assert found.overhangs == (computed > rows)
    assert (found.blocks, found.is_filled) == (4, True)


@pytest.mark.parametrize("cpu", [SKYLAKE, HASWELL], ids=lambda cpu: cpu.isa.name)
@pytest.mark.parametrize("rows", [1, 49, 197, 3136])
def test_tiles_fit_the_registers_and_waste_few_rows(cpu: Cpu, rows: int) -> None:
    unit = cpu.unit("float32")
    found = tile_shapes(rows, 384, cpu, unit)
    assert all(unit.holds_tile(*shape) for shape in found)
    assert len(found) == len(set(found))
    best = min(-(-rows // height) * height for height, _ in found)
    assert best <= 1.1 * rows


def test_narrow_products_have_narrow_tiles() -> None:
    unit = SKYLAKE.unit("float32")
    assert {vectors for _, vectors in tile_shapes(50, 10, SKYLAKE, unit)} == {1}
    assert {vectors for _, vectors in tile_shapes(50, 33, SKYLAKE, unit)} == {1, 2, 3}


@pytest.mark.parametrize(("columns", "narrow"), [(33, {8, 24, 40}), (48, set()), (169, set())])
def test_half_vectors_fill_less_where_they_lose_no_time(columns: int, narrow: set[int]) -> None:
    whole = block_shapes(100, columns, SKYLAKE, SKYLAKE.unit("float32"))
    halves = replace(SKYLAKE, name="znver4", narrow=2)
    found = block_shapes(100, columns, halves, halves.unit("float32"))
    assert not {oc_bn % 16 for _, oc_bn in whole} - {0}
    assert {oc_bn for _, oc_bn in found if oc_bn % 16} == narrow


def test_a_chunk_covers_all_rows_or_gives_every_core_some() -> None:
    assert chunk_sizes(196, 14, 4096, SKYLAKE) == (2, 4, 7, 9, 14)
    assert chunk_sizes(5, 14, 4096, SKYLAKE) == (1,)


@pytest.mark.parametrize(
    ("height", "features", "evict"),
    [
        (14, 1024, True),
        (14, 2048, True),
        (6, 1024, True),
        (4, 1024, False),
        (14, 512, True),
        (14, 768, False),
        (14, 96, False),
        (14, 33, False),
    ],
)
def test_rows_a_page_apart_share_a_set(height: int, features: int, evict: bool) -> None:
    """32 KiB of L1 have eight ways; weights beside the rows take some of them."""
    assert rows_evict_each_other(height, 4 * features, SKYLAKE) == evict
