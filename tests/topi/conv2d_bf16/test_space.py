"""The bf16 template's space: blocks of whole words, tiles that fit the registers."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.machine.dot import VDPBF16PS
from tvm_neocpu.core.types import BF16_WEIGHTS
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_bf16.space import accepts, space

ZEN_4 = Cpu("znver4", AVX512, 1, dots=(VDPBF16PS,))
CONV = ConvWorkload(1, 24, 14, 14, 48, (3, 3), types=BF16_WEIGHTS)


def test_depthwise_convolutions_have_no_channels_for_a_word() -> None:
    assert accepts(CONV, ZEN_4)
    assert not accepts(replace(CONV, groups=24, out_channels=24), ZEN_4)


def test_a_cpu_without_the_instruction_has_other_templates() -> None:
    assert not accepts(CONV, Cpu("skylake-avx512", AVX512, 1))


def test_blocks_are_of_whole_words_where_any_are() -> None:
    assert {config.ic_bn for config in space(CONV, ZEN_4)} == {2, 4, 6, 8, 12, 24}
    assert {config.ic_bn for config in space(replace(CONV, in_channels=3), ZEN_4)} == {0, 3}


def test_tiles_fit_the_registers() -> None:
    for config in space(CONV, ZEN_4):
        vectors = max(1, config.tile_channels // 16)
        pixels = config.reg_n * config.reg_m
        assert pixels == 1 or pixels * vectors + vectors + 1 <= 32
