"""The deformable template's space: blocks, chunks, and columns that stay in the caches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deformable import SAME
from nests import SKYLAKE

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.topi.deform_conv2d.geometry import DeformGeometry
from tvm_neocpu.topi.deform_conv2d.space import chunkings, in_blocks, space
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload

HASWELL = Cpu("haswell", AVX2, cores=4)
MANY_CORES = Cpu("skylake-avx512", AVX512, cores=16)
LAYERS = {
    "conv2": DeformConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=SAME),
    "conv5": DeformConvWorkload(1, 512, 7, 7, 512, (3, 3), padding=SAME, masked=True),
    "detector": DeformConvWorkload(1, 256, 100, 152, 256, (3, 3), padding=SAME, offset_groups=4),
    "batch": DeformConvWorkload(8, 128, 28, 28, 128, (3, 3), padding=SAME),
}


@pytest.mark.parametrize("cpu", [SKYLAKE, HASWELL, MANY_CORES], ids=["two", "avx2", "sixteen"])
@pytest.mark.parametrize("name", LAYERS)
def test_spaces_stay_small(name: str, cpu: Cpu) -> None:
    assert 0 < len(space(LAYERS[name], cpu)) <= 1000


def test_a_block_belongs_to_one_offset_group() -> None:
    deform = LAYERS["conv2"]
    assert in_blocks(deform) == (4, 8, 16, 32, 64)
    assert in_blocks(replace(deform, offset_groups=4)) == (4, 8, 16)
    assert in_blocks(replace(deform, offset_groups=64)) == (1,)
    assert in_blocks(replace(deform, groups=8, offset_groups=2)) == (4, 8)


@pytest.mark.parametrize("name", LAYERS)
def test_the_columns_of_a_chunk_fit_l2(name: str) -> None:
    deform = LAYERS[name]
    for config in space(deform, SKYLAKE):
        assert DeformGeometry(deform, config).column_bytes <= SKYLAKE.l2


def test_filters_are_split_where_all_columns_fit_l2() -> None:
    assert any(split for _, split in chunkings(LAYERS["conv5"], 7, SKYLAKE))
    assert not any(split for _, split in chunkings(LAYERS["conv2"], 14, SKYLAKE))


def test_a_pixel_whose_columns_exceed_l2_is_a_chunk_of_its_own() -> None:
    wide = DeformConvWorkload(1, 4096, 9, 9, 64, (7, 7), padding=(3, 3, 3, 3))
    assert [tiles for tiles, _ in chunkings(wide, 8, SKYLAKE)] == [1]


def test_some_chunk_makes_whole_vectors_of_places() -> None:
    assert any(tiles * 14 % 16 == 0 for tiles, _ in chunkings(LAYERS["conv2"], 14, SKYLAKE))
