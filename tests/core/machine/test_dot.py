"""Which instruction multiplies integers on which CPU."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.core.machine.dot import (
    BYTES_BY_VPMADDWD,
    PORTABLE_2,
    PORTABLE_4,
    PORTABLE_SIGNED_4,
    SDOT,
    SMLAL,
    USDOT,
    VPDPBUSD,
    VPDPBUSD_VEX,
    VPDPWSSD,
    VPDPWSSD_VEX,
    VPMADDUBSW,
    VPMADDUBSW_512,
    VPMADDUBSW_TWICE,
    VPMADDUBSW_TWICE_512,
    VPMADDWD,
    VPMADDWD_512,
    dots_of,
)
from tvm_neocpu.core.types import FP32, U8S8, U8S16, Types


@pytest.mark.parametrize(
    ("features", "any_weights", "of_7_bits", "of_6_bits"),
    [
        ({"sse2", "avx2", "avx512bw", "avx512vnni"}, VPDPBUSD, VPDPBUSD, VPDPBUSD),
        ({"sse2", "avx2", "avxvnni"}, VPDPBUSD_VEX, VPDPBUSD_VEX, VPDPBUSD_VEX),
        ({"sse2", "avx2", "avx512bw"}, VPMADDWD_512, VPMADDUBSW_512, VPMADDUBSW_TWICE_512),
        ({"sse2", "avx2"}, VPMADDWD, VPMADDUBSW, VPMADDUBSW_TWICE),
        ({"neon", "dotprod", "i8mm"}, USDOT, USDOT, USDOT),
        ({"neon", "dotprod"}, SDOT, SDOT, SDOT),
        ({"neon"}, SMLAL, SMLAL, SMLAL),
        (set(), PORTABLE_2, PORTABLE_2, PORTABLE_2),
    ],
)
def test_the_fastest_of_what_llvm_names(
    features: set[str], any_weights: object, of_7_bits: object, of_6_bits: object
) -> None:
    cpu = Cpu("any", AVX2, 1, dots=dots_of(frozenset(features)))
    assert cpu.dot(U8S8) == any_weights
    assert cpu.dot(U8S8, 7) == of_7_bits
    assert cpu.dot(U8S8, 6) == of_6_bits


def test_what_saturates_multiplies_small_weights_only() -> None:
    assert not VPMADDUBSW.multiplies(U8S8) and not VPMADDUBSW_TWICE.multiplies(U8S8, 7)
    cpu = Cpu("znver3", AVX2, 1, dots=dots_of(frozenset({"sse2", "avx2"})))
    assert cpu.dot_of(4) == BYTES_BY_VPMADDWD
    assert cpu.dot_of(4, 1, 7) == cpu.dot_of(4, 1, 6) == VPMADDUBSW
    assert cpu.dot_of(4, 2, 6) == VPMADDUBSW_TWICE


def test_where_none_takes_two_words_each_has_its_own() -> None:
    assert Cpu("znver4", AVX512, 1, dots=(VPDPBUSD,)).dot_of(4, 2, 6) == VPDPBUSD


def test_weights_of_16_bits_are_multiplied_in_16_bits() -> None:
    cpu = Cpu("cascadelake", AVX512, 1, dots=(VPDPBUSD, VPMADDWD_512))
    assert cpu.dot(U8S8) == VPDPBUSD
    assert cpu.dot(U8S16) == VPMADDWD_512
    assert cpu.dot_of(2) == VPMADDWD_512


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ({"sse2", "avx2", "avx512bw", "avx512vnni"}, VPDPWSSD),
        ({"sse2", "avx2", "avxvnni"}, VPDPWSSD_VEX),
        ({"sse2", "avx2"}, VPMADDWD),
    ],
)
def test_words_of_16_bits(features: set[str], words: object) -> None:
    cpu = Cpu("any", AVX2, 1, dots=dots_of(frozenset(features)))
    assert cpu.dot_of(2) == cpu.dot(U8S16) == words


def test_a_word_that_no_instruction_has_is_plain_arithmetic() -> None:
    assert Cpu("haswell", AVX2, 1, dots=(VPMADDWD,)).dot_of(4) == PORTABLE_4


def test_an_instruction_for_signed_bytes_multiplies_no_other() -> None:
    cpu = Cpu("neoverse-n1", NEON, 1, dots=(SDOT, SMLAL))
    assert cpu.dot(U8S8) == cpu.dot_of(4, signed=True) == SDOT
    assert cpu.dot(U8S16) == SMLAL
    assert cpu.dot_of(4) == PORTABLE_4
    assert Cpu("cortex-a72", NEON, 1, dots=(SMLAL,)).dot_of(4, signed=True) == PORTABLE_SIGNED_4


def test_floats_have_no_such_instruction() -> None:
    with pytest.raises(ValueError, match="cascadelake has no instruction for float32"):
        Cpu("cascadelake", AVX512, 1).dot(FP32)
    assert not VPDPBUSD.multiplies(Types("int8", "int8", "int32", "int32"))


def test_products_of_a_cycle() -> None:
    """Two multiply-adds of 8 floats a cycle; vpmaddwd makes 2 of a lane, vpdpbusd 4.

    vpmaddwd is issued with a sum, which takes a fifth of its time.
    """
    zen = Cpu("znver3", AVX2, 1, dots=(VPMADDWD,))
    assert zen.multiply_adds_per_cycle(FP32) == zen.multiply_adds_per_cycle("float32") == 16
    assert zen.multiply_adds_per_cycle(U8S8) == pytest.approx(0.8 * 32)
    assert Cpu("znver4", AVX512, 1, dots=(VPDPBUSD,)).multiply_adds_per_cycle(U8S8) == 128
