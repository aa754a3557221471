"""The im2col template's space, and the guard that offers it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_im2col.cost import pricing
from tvm_neocpu.topi.conv2d_im2col.space import (
    accepts,
    blocks_of_tile,
    chunkings,
    gain,
    pixel_tiles,
    reduction_parts,
    space,
)

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
HASWELL = Cpu("haswell", AVX2, cores=4)
PIXELS = ConvWorkload(8, 1280, 1, 1, 320, (1, 1))
SAME = (1, 1, 1, 1)
STEM = ConvWorkload(1, 3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3))


@pytest.mark.parametrize("cpu", [SKYLAKE, HASWELL])
def test_batches_of_single_pixels_are_taken(cpu: Cpu) -> None:
    for batch in (2, 4, 8, 16):
        assert accepts(replace(PIXELS, batch=batch), cpu)
    assert gain(PIXELS, cpu) > gain(replace(PIXELS, batch=2), cpu)


@pytest.mark.parametrize(
    "conv",
    [
        pytest.param(replace(PIXELS, batch=1), id="one pixel"),
        pytest.param(STEM, id="stem"),
        pytest.param(ConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=SAME), id="wide"),
        pytest.param(ConvWorkload(1, 64, 35, 35, 96, (5, 5), padding=(2,) * 4), id="odd"),
        pytest.param(ConvWorkload(8, 512, 7, 7, 512, (3, 3), padding=SAME), id="batch"),
        pytest.param(replace(PIXELS, groups=4), id="groups"),
    ],
)
def test_images_that_direct_tiles_fit_are_declined(conv: ConvWorkload) -> None:
    assert not accepts(conv, SKYLAKE)


def test_spaces_stay_small() -> None:
    for batch in (2, 3, 8, 16, 64, 128):
        assert 0 < len(space(replace(PIXELS, batch=batch), SKYLAKE)) <= 2000


def test_a_register_tile_wastes_no_pixel_where_it_can() -> None:
    assert pixel_tiles(PIXELS, 2, SKYLAKE)[0] == 8
    assert pixel_tiles(replace(PIXELS, batch=26), 2, SKYLAKE)[0] == 13


@pytest.mark.parametrize(
    ("channels", "oc_bn", "expected"),
    [
        pytest.param(208, 16, (1, 2, 3), id="13 vectors"),
        pytest.param(80, 16, (1, 2, 3), id="5 vectors"),
        pytest.param(208, 13, (1,), id="a block that is no vector"),
        pytest.param(96, 16, (1,), id="6 vectors: blocks of two and three"),
        pytest.param(16, 16, (1,), id="one vector"),
        pytest.param(39, 39, (1,), id="filled vectors"),
    ],
)
def test_tiles_of_several_blocks_where_no_block_is_wide(
    channels: int, oc_bn: int, expected: tuple[int, ...]
) -> None:
    conv = ConvWorkload(1, 64, 14, 14, channels, (1, 1))
    assert blocks_of_tile(conv, oc_bn, SKYLAKE) == expected


def test_they_are_what_takes_13_vectors_and_no_core_shares_them() -> None:
    """A tile of one vector loads a pixel for each product, on two threads as on one."""
    conv = ConvWorkload(1, 208, 14, 14, 208, (1, 1))
    for cores in (1, 2):
        cpu = replace(SKYLAKE, cores=cores)
        assert accepts(conv, cpu)
        best = min(space(conv, cpu), key=pricing(conv, cpu))
        assert best.reg_o > 1 and best.oc_bn == 16
    assert not any(config.parallel_oc for config in space(conv, SKYLAKE) if config.reg_o > 1)


def test_chunks_of_plain_data_are_whole_rows() -> None:
    for reg_n in (7, 14, 28):
        for tiles, _ in chunkings(STEM, 0, reg_n, SKYLAKE):
            assert tiles * reg_n % STEM.out_width == 0


@pytest.mark.parametrize(
    ("channels", "ic_bn", "expected"),
    [
        # Of 32 KiB weights may take 60 %: 307 channels x 16 lanes.
        pytest.param(256, 16, (1,), id="stays in L1"),
        pytest.param(512, 16, (1, 2), id="two"),
        pytest.param(1024, 64, (1, 4), id="four"),
        pytest.param(992, 8, (1, 4), id="31 blocks of 32"),
        pytest.param(992, 32, (1,), id="31 parts would be short"),
        pytest.param(512, 4, (1,), id="half a vector"),
        pytest.param(512, 0, (1,), id="plain"),
    ],
)
def test_parts_of_a_reduction_stay_in_l1(
    channels: int, ic_bn: int, expected: tuple[int, ...]
) -> None:
    conv = ConvWorkload(1, channels, 14, 14, 256, (1, 1))
    assert reduction_parts(conv, ic_bn, 16, HASWELL) == expected
