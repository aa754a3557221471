"""The loops of the integer template, and what a step of them is in machine code."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import tvm
from nests import nest
from samples import per_channel, requantized
from tvm import te

from tvm_neocpu.core.cpu import AVX2, Cpu
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerConfig, IntegerGeometry
from tvm_neocpu.topi.conv2d_integer.template import compute, pack_weight, packed_shape
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.schedule_function import schedule_function

CONV = ConvWorkload(1, 16, 14, 14, 32, (3, 3), padding=(1, 1, 1, 1), types=U8S8)
CONFIG = IntegerConfig(ic_bn=16, oc_bn=16, reg_n=7, oh_bn=7, dot=4)
HASWELL = Cpu("haswell", AVX2, cores=2)
X86, ARM = "llvm -mtriple=x86_64-linux-gnu -mcpu=", "llvm -mtriple=aarch64-linux-gnu -mcpu="


def test_a_statement_is_one_register() -> None:
    """Chunks, channel blocks, tiles; ic.outer, kernel, words; columns, vectors, lanes."""
    product = "conv2d_acc_update"
    found = nest(CONV, CONFIG, product, HASWELL)
    assert found == "parallel 2, 2, 7, 2, 3, unroll 3, 4, unroll 7, unroll 2, vector 8"
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
