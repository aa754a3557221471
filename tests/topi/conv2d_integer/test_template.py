"""The loops of the integer template, and what a step of them is in machine code."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import tvm
from nests import nest
from samples import HOST, per_channel, requantized, run, stored
from tvm import te

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.machine.dot import dots_of
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.reference import convolved
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerConfig, IntegerGeometry
from tvm_neocpu.topi.conv2d_integer.small_weights import small_bits
from tvm_neocpu.topi.conv2d_integer.template import compute, pack_weight, packed_shape
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.schedule_function import schedule_function

CONV = ConvWorkload(1, 16, 14, 14, 32, (3, 3), padding=(1, 1, 1, 1), types=U8S8)
CONFIG = IntegerConfig(ic_bn=16, oc_bn=16, reg_n=7, oh_bn=7, dot=4)
HASWELL = Cpu("haswell", AVX2, cores=2)
HAS_AVX2 = HOST.cpu.isa in (AVX2, AVX512)
ZEN_3 = Cpu("znver3", AVX2, cores=2, dots=dots_of(frozenset({"sse2", "avx2"})))
X86, ARM = "llvm -mtriple=x86_64-linux-gnu -mcpu=", "llvm -mtriple=aarch64-linux-gnu -mcpu="


def test_a_statement_is_a_block_of_channels() -> None:
    """Chunks, channel blocks, tiles; ic.outer, kernel, words; columns, lanes."""
    product = "conv2d_acc_update"
    found = nest(CONV, CONFIG, product, HASWELL)
    assert found == "parallel 2, 2, 7, 2, 3, unroll 3, 4, unroll 7, vector 16"
    assert "8, unroll 7" in nest(CONV, replace(CONFIG, dot=2), product, HASWELL)


@pytest.mark.parametrize(
    ("oc_bn", "expected"),
    [
        (8, "parallel 8, 9, 16, vector 4"),
        # Two blocks of a group read the same channels: a pass of its own.
        (4, "parallel 64, 16, vector 4"),
    ],
)
def test_a_group_that_is_one_block_is_copied_for_it(oc_bn: int, expected: str) -> None:
    config = replace(CONFIG, oc_bn=oc_bn, ic_bn=4, parallel_oc=True)
    assert nest(replace(CONV, groups=4), config, "conv2d_words", HASWELL) == expected


def test_sums_stay_in_registers() -> None:
    """Two vectors of channels: nothing stores all 5 x 2 sums for the epilogue to load them."""
    target = parse_target(X86 + "znver4")
    config = replace(CONFIG, oc_bn=32, reg_n=5)
    conv = replace(CONV, kernel=(1, 1), padding=(0, 0, 0, 0), width=15)
    built = tvm.compile(kernel(conv, config, target.cpu), target=target.target)
    stores = r"vmovdq\w+\s+%zmm\d+, -?\d*\(%r\w+\)"
    assert len(re.findall(stores, built.mod.inspect_source("asm"))) < 5


def test_weights_of_a_word_are_neighbouring_channels() -> None:
    weight = np.arange(32 * 16 * 9).astype("int8").reshape(32, 16, 3, 3)
    packed = pack_weight(weight, CONV, CONFIG)
    assert packed.dtype == "int32" and packed.shape == (2, 1, 3, 3, 4, 16)
    word = packed[1, 0, 2, 1, 3, 5:6].view("int8")
    np.testing.assert_array_equal(word, weight[21, 12:16, 2, 1])
    halves = pack_weight(weight, CONV, replace(CONFIG, dot=2))[1, 0, 2, 1, 3, 5:6].view("int16")
    np.testing.assert_array_equal(halves, weight[21, 6:8, 2, 1])


def test_corrections_stand_behind_the_weights_of_signed_data() -> None:
    """128 times the sum of a channel's weights: a row of each block, in a panel of zeros."""
    weight = np.arange(32 * 16 * 9).astype("int8").reshape(32, 16, 3, 3)
    signed = replace(CONFIG, signed=True)
    packed = pack_weight(weight, CONV, signed)
    assert packed.shape == packed_shape(CONV, signed) == (3, 1, 3, 3, 4, 16)
    np.testing.assert_array_equal(packed[:2], pack_weight(weight, CONV, CONFIG))
    sums = 128 * weight.sum(axis=(1, 2, 3), dtype="int32").reshape(2, 16)
    corrections = IntegerGeometry(CONV, signed).corrections
    for block in range(2):
        np.testing.assert_array_equal(packed[corrections.row(block)], sums[block])
    assert np.count_nonzero(packed[2]) <= 32


def test_channels_that_fill_a_word_are_zero() -> None:
    conv = replace(CONV, in_channels=3)
    packed = pack_weight(np.ones(conv.weight_shape, "int8"), conv, replace(CONFIG, ic_bn=0))
    assert set(packed.ravel().tolist()) == {0x00010101}


@pytest.mark.parametrize(
    ("cpu", "instruction"),
    [
        (X86 + "cascadelake", r"vpdpbusd\s.*%zmm"),
        (X86 + "znver4", r"vpdpbusd\s.*%zmm"),
        (X86 + "alderlake", r"\{vex\}\s+vpdpbusd\s.*%ymm"),
        (X86 + "skylake-avx512", r"vpmaddwd\s.*%zmm"),
        (X86 + "znver3", r"vpmaddwd\s.*%ymm"),
        (X86 + "x86-64-v2", r"pmaddwd\s.*%xmm"),
        (ARM + "neoverse-v2", r"usdot\s+v\d+\.4s"),
        (ARM + "cortex-a76", r"sdot\s+v\d+\.4s"),
        (ARM + "cortex-a72", r"smlal2?\s+v\d+\.4s"),
    ],
)
def test_the_instruction(cpu: str, instruction: str) -> None:
    target = parse_target(cpu)
    dot, lanes = target.cpu.dot(U8S8), target.cpu.lanes("int32")
    config = replace(CONFIG, oc_bn=lanes, dot=dot.elements, signed=dot.data == "int8")
    built = tvm.compile(kernel(CONV, config, target.cpu), target=target.target)
    assembly = built.mod.inspect_source("asm")
    found = re.findall(instruction, assembly)
    assert len(found) >= 3 * config.reg_n
    # What the copy or the bytes become words by stands outside of the products.
    assert "mulld" not in assembly


@pytest.mark.parametrize(
    ("cpu", "weight_bits", "instruction"),
    [
        ("znver3", 6, r"vpaddw\s.*%ymm"),
        ("znver3", 7, r"vpmaddubsw\s.*%ymm"),
        ("skylake-avx512", 6, r"vpaddw\s.*%zmm"),
        ("skylake-avx512", 7, r"vpmaddubsw\s.*%zmm"),
        ("cascadelake", 6, r"vpdpbusd\s.*%zmm"),
        ("alderlake", 6, r"\{vex\}\s+vpdpbusd\s.*%ymm"),
    ],
)
def test_the_instruction_for_small_weights(cpu: str, weight_bits: int, instruction: str) -> None:
    """Of 6 bits, two words are added in 16 bits before they are widened."""
    target = parse_target(X86 + cpu)
    conv = replace(CONV, weight_bits=weight_bits)
    dot, lanes = target.cpu.dot(U8S8, weight_bits), target.cpu.lanes("int32")
    config = replace(CONFIG, oc_bn=lanes, dot=dot.elements, words=dot.words)
    built = tvm.compile(kernel(conv, config, target.cpu), target=target.target)
    assembly = built.mod.inspect_source("asm")
    assert len(re.findall(instruction, assembly)) >= 3 * config.reg_n
    assert len(re.findall(r"vpmaddubsw", assembly)) == 0 or "vpdpbusd" not in assembly


@pytest.mark.skipif(not HAS_AVX2, reason="this CPU has no AVX2")
@pytest.mark.parametrize("weight_bits", [6, 7])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_sums_do_not_saturate(weight_bits: int, sign: int) -> None:
    """All data are 255; of the weights that are summed one is as large as there is."""
    conv = replace(CONV, kernel=(1, 1), padding=(0, 0, 0, 0), weight_bits=weight_bits)
    dot = ZEN_3.dot(U8S8, weight_bits)
    config = replace(CONFIG, dot=dot.elements, words=dot.words)
    data = np.full(conv.in_shape, 255, "uint8")
    weight = np.zeros(conv.weight_shape, "int8")
    weight[:, ::4], weight[:, 1::4] = (127, 1) if sign > 0 else (-128, 0)
    weight[:, 4:6] = weight[:, 12:14] = 0
    assert small_bits(weight) == 6
    inputs = [stored(data, Layout(16)), pack_weight(weight, conv, config)]
    shape = (1, 2, 14, 14, 16)
    bias, scales = np.zeros(per_channel(shape), "int32"), np.ones(per_channel(shape), "float32")
    more = [bias + (2**20 if sign < 0 else 0), scales * np.float32(2**-12)]
    sums = convolved(conv, data, weight) + more[0].reshape(-1)[0]
    expected = np.clip(np.rint(sums * 2.0**-12), 0, 255).astype("uint8")
    assert 0 < expected.min() <= expected.max() < 255
    found = run(kernel(conv, config, ZEN_3), [*inputs, *more], shape, "uint8")
    np.testing.assert_array_equal(found, stored(expected, Layout(16)))


def test_the_epilogue_is_vectors() -> None:
    """Conversions, rounding and packing of whole registers; no call, no element by itself."""
    target = parse_target(X86 + "znver3")
    config = replace(CONFIG, dot=2)
    data = te.placeholder((1, 1, 14, 14, 16), "uint8", "data")
    weight = te.placeholder((2, 1, 3, 3, 8, 16), "int32", "weight")
    total = compute(data, weight, CONV, config)
    shape = tuple(int(extent) for extent in total.shape)
    scale = te.placeholder(per_channel(shape), "float32", "scale")
    other = te.placeholder(shape, "uint8", "other")
    stages = requantized(total, scale, other)
    func = schedule_function(te.create_prim_func([data, weight, scale, other, stages]), target.cpu)
    assembly = tvm.compile(func, target=target.target).mod.inspect_source("asm")
    assert re.search(r"vcvtdq2ps\s.*%ymm", assembly) and re.search(r"vpackus", assembly)
    for scalar in ("vpextrb", "vpinsrb", "cvttss2si", "nearbyint", "rintf", "roundss"):
        assert scalar not in assembly
