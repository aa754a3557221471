"""The loops that a config of the depthwise template asks for, as scheduled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from nests import nest
from samples import check

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_depthwise.template import pack_weight
from tvm_neocpu.topi.kernel import kernel

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
CONV = ConvWorkload(1, 16, 14, 14, 16, (3, 3), padding=(1, 1, 1, 1), groups=16)
PRODUCT = "depthwise_acc_update"


# Channel blocks; rows and columns of tiles; the kernel; a tile.
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            DepthwiseConfig(16, 16, 7, True, 2),
            "7, 2, unroll 3, unroll 3, unroll 2, unroll 7, vector 16",
        ),
        (DepthwiseConfig(8, 8, 7, False, 1), "parallel 2, 14, 2, 3, 3, unroll 7, vector 8"),
        (
            DepthwiseConfig(8, 8, 7, False, 2, oh_bn=1),
            "parallel 14, 2, 3, 3, unroll 2, unroll 7, vector 8",
        ),
    ],
)
def test_loops(config: DepthwiseConfig, expected: str) -> None:
    assert nest(CONV, config, PRODUCT) == expected


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ((5, 5), "unroll 5, unroll 5"),
        ((7, 7), "7, unroll 7"),
        ((3, 9), "3, unroll 9"),
        ((9, 1), "unroll 9"),
    ],
)
def test_rows_of_a_wide_kernel_stay_a_loop(kernel: tuple[int, int], expected: str) -> None:
    padding = tuple(extent // 2 for extent in kernel) * 2
    conv = replace(CONV, kernel=kernel, padding=padding)
    loops = nest(conv, DepthwiseConfig(8, 8, 7), PRODUCT)
    assert loops == f"parallel 2, 14, 2, {expected}, unroll 7, vector 8"


def test_parts_of_a_block_follow_each_other_in_a_tile_of_pixels() -> None:
    wide = replace(CONV, in_channels=24, out_channels=24, groups=24)
    config, haswell = DepthwiseConfig(24, 24, 7, reg_c=8), Cpu("haswell", AVX2, cores=1)
    tile = "unroll 3, unroll 3, unroll 7, vector 8"
    assert nest(wide, config, PRODUCT, haswell) == f"14, 2, 3, {tile}"
    check(replace(wide, height=9, width=13, stride=(2, 1)), config, haswell)


def test_a_statement_takes_no_more_registers_than_a_row_of_a_tile_has() -> None:
    wide = replace(CONV, in_channels=64, out_channels=64, groups=64)
    config, cortex = DepthwiseConfig(64, 64, 2), Cpu("cortex-a72", NEON, cores=1)
    assert nest(wide, config, PRODUCT).endswith("unroll 2, vector 64")
    assert nest(wide, config, PRODUCT, cortex).endswith("unroll 2, unroll 2, vector 32")
    doubles = replace(wide, types=uniform("float64"))
    assert nest(doubles, config, PRODUCT, cortex).endswith("unroll 2, unroll 4, vector 16")


def test_taps_read_the_image_itself() -> None:
    """No padded copy: a pass over memory more, for a test at the ends of each row."""
    text = str(kernel(CONV, DepthwiseConfig(16, 16, 7), SKYLAKE))
    assert "depthwise_pad" not in text and "if_then_else" in text
    unpadded = replace(CONV, padding=(0, 0, 0, 0))
    assert "if_then_else" not in str(kernel(unpadded, DepthwiseConfig(16, 16, 6), SKYLAKE))


def test_a_multiplier_repeats_channels_of_its_data() -> None:
    doubled = ConvWorkload(2, 8, 6, 5, 16, (3, 2), (2, 1), groups=8)
    check(doubled, DepthwiseConfig(4, 8, 3, reg_m=2, oh_bn=1), SKYLAKE)


def test_packed_weights() -> None:
    weight = np.arange(16 * 9, dtype="float32").reshape(16, 1, 3, 3)
    packed = pack_weight(weight, CONV, DepthwiseConfig(8, 8, 7))
    assert packed.shape == (2, 1, 3, 3, 1, 8)
    assert packed[1, 0, 2, 1, 0, 5] == weight[13, 0, 2, 1]
    assert packed.flags.c_contiguous
