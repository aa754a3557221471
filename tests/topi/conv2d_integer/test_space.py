"""The integer template's space: blocks of whole words, for the instruction that the CPU has."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.machine.dot import VPDPBUSD, VPMADDWD, VPMADDWD_512
from tvm_neocpu.core.types import U8S8, U8S16
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_integer.space import accepts, space, word_blocks

HASWELL = Cpu("haswell", AVX2, cores=1, dots=(VPMADDWD,))
CASCADE_LAKE = Cpu("cascadelake", AVX512, cores=1, dots=(VPDPBUSD, VPMADDWD_512))
CONV = ConvWorkload(1, 24, 14, 14, 48, (3, 3), types=U8S8)


def test_depthwise_convolutions_have_no_channels_for_a_word() -> None:
    assert accepts(CONV, HASWELL)
    assert not accepts(replace(CONV, groups=24, out_channels=24), HASWELL)


def test_words_are_those_of_the_fastest_instruction() -> None:
    assert {config.dot for config in space(CONV, HASWELL)} == {2}
    assert {config.dot for config in space(CONV, CASCADE_LAKE)} == {4}
    wide = replace(CONV, types=U8S16)
    assert {config.dot for config in space(wide, CASCADE_LAKE)} == {2}


def test_blocks_are_of_whole_words_where_any_are() -> None:
    assert word_blocks(CONV, 4) == (4, 8, 12, 24)
    assert word_blocks(replace(CONV, in_channels=26), 4) == (26,)
    assert word_blocks(replace(CONV, in_channels=3), 4) == (0, 3)


def test_a_tile_leaves_room_for_the_product_that_is_added() -> None:
    """12 accumulators, 2 weights, a pixel and a product are the 16 registers of AVX2."""
    for config in space(CONV, HASWELL):
        vectors = max(1, config.tile_channels // 8)
        pixels = config.reg_m * config.reg_n
        assert pixels == 1 or pixels * vectors + vectors + 2 <= 16
