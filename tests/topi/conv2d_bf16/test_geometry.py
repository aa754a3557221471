"""Words of two channels: their number, the packed weight, the copy of the image."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.machine.dot import PORTABLE_BF16, VDPBF16PS
from tvm_neocpu.core.types import BF16_MAPS, BF16_WEIGHTS
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config, Bf16Geometry, misfit

CONV = ConvWorkload(1, 12, 9, 9, 32, (3, 3), padding=(1, 1, 1, 1), types=BF16_WEIGHTS)


def test_words() -> None:
    whole = Bf16Geometry(CONV, Bf16Config(ic_bn=4, oc_bn=16, reg_n=3))
    odd = Bf16Geometry(CONV, Bf16Config(ic_bn=3, oc_bn=16, reg_n=3))
    assert (whole.words, odd.words) == (2, 2)
    assert whole.packed_shape == (2, 3, 3, 3, 2, 16)
    assert odd.packed_shape == (2, 4, 3, 3, 2, 16)
    assert whole.steps == 3 * 9 * 2
    # A word of each of 16 channels.
    assert whole.row_bytes == 4 * 16


def test_the_image_is_copied_at_half_its_size() -> None:
    geometry = Bf16Geometry(CONV, Bf16Config(ic_bn=4, oc_bn=16, reg_n=3))
    assert geometry.is_padded and geometry.image_bytes == CONV.in_bytes // 2


def test_stored_bf16_is_read_in_place_unless_tiles_overhang_the_output() -> None:
    """They would read behind the image."""
    conv = ConvWorkload(1, 8, 13, 13, 16, (1, 1), types=BF16_MAPS)
    config = Bf16Config(ic_bn=8, oc_bn=16, reg_n=13)
    assert not Bf16Geometry(conv, config).is_padded
    for overhanging in (replace(config, reg_n=5), replace(config, reg_m=2)):
        assert Bf16Geometry(conv, overhanging).is_padded


def test_a_strided_1x1_kernel_copies_what_it_reads() -> None:
    conv = ConvWorkload(1, 8, 9, 9, 16, (1, 1), (2, 2), types=BF16_WEIGHTS)
    geometry = Bf16Geometry(conv, Bf16Config(ic_bn=8, oc_bn=16, reg_n=5))
    assert geometry.skips_pixels and geometry.stride == (1, 1)


def test_it_multiplies_with_the_cpus_instruction() -> None:
    geometry = Bf16Geometry(CONV, Bf16Config(ic_bn=4, oc_bn=16, reg_n=3))
    assert geometry.dot(Cpu("znver4", AVX2, 1, dots=(VDPBF16PS,))) == VDPBF16PS
    assert geometry.dot(Cpu("haswell", AVX2, 1, dots=(PORTABLE_BF16,))) == PORTABLE_BF16


def test_configs_of_other_layers_do_not_fit() -> None:
    assert misfit(CONV, Bf16Config(ic_bn=4, oc_bn=16, reg_n=3)) is None
    assert misfit(CONV, Bf16Config(ic_bn=5, oc_bn=16, reg_n=3)) is not None
    assert misfit(CONV, Bf16Config(ic_bn=4, oc_bn=24, reg_n=3)) is not None


def test_no_block_holds_several_groups() -> None:
    """The copy in words reads blocks of one."""
    conv = ConvWorkload(1, 48, 9, 7, 96, (3, 3), groups=3, types=BF16_WEIGHTS)
    config = Bf16Config(ic_bn=16, oc_bn=32, reg_n=5)
    assert misfit(conv, config) is None
    assert misfit(conv, replace(config, ic_bn=48)) == "its ic_bn 48 does not divide 16 channels"
    wide = replace(config, oc_bn=96, oc_lanes=32)
    assert misfit(conv, wide) == "its oc_bn 96 does not divide 32 channels"
