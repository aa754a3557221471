"""What configs of bf16 Winograd mean: words of two channels, matrices that lose little."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.machine.dot import VDPBF16PS
from tvm_neocpu.core.types import BF16_WEIGHTS
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.matrices import COARSE, conv_matrices
from tvm_neocpu.topi.conv2d_winograd_bf16.geometry import (
    Bf16WinogradConfig,
    Bf16WinogradGeometry,
    misfit,
)

CONV = ConvWorkload(1, 64, 28, 28, 48, (3, 3), padding=(1, 1, 1, 1), types=BF16_WEIGHTS)
CONFIG = Bf16WinogradConfig(ic_bn=16, oc_bn=16, tile=3, reg_n=5)


def test_data_are_transformed_in_fp32_and_stored_as_bits() -> None:
    geometry = Bf16WinogradGeometry(CONV, CONFIG)
    assert (geometry.factor_type, geometry.packed_type) == ("float32", "uint16")


def test_its_points_are_those_that_lose_little() -> None:
    matrices = Bf16WinogradGeometry(CONV, CONFIG).tiled.matrices
    assert matrices == conv_matrices(CONV, 3, COARSE) != conv_matrices(CONV, 3)


def test_it_takes_the_instruction_of_the_cpu() -> None:
    geometry = Bf16WinogradGeometry(CONV, CONFIG)
    assert geometry.dot(Cpu("znver4", AVX512, 1, dots=(VDPBF16PS,))) is VDPBF16PS
    assert geometry.dot(Cpu("haswell", AVX2, 1)) is None


def test_a_block_is_a_whole_number_of_words() -> None:
    odd = Bf16WinogradConfig(ic_bn=1, oc_bn=16, tile=2, reg_n=5)
    assert misfit(CONV, odd) == "its ic_bn 1 is no whole number of words"
    assert misfit(CONV, CONFIG) is None


def test_words_have_no_groups() -> None:
    conv = replace(CONV, in_channels=32, out_channels=32, groups=2)
    reason = misfit(conv, CONFIG)
    assert reason == "it multiplies words of channels, which no grouped convolution has"
