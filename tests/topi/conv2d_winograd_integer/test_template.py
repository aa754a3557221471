"""Winograd of integers is the direct convolution bit for bit; what its steps are in code."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from nests import nest
from samples import HOST, run, stored
from tvm.ir.transform import PassContext

from tvm_neocpu.codegen.kernels import build_module
from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.reference import convolved
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import FLAT
from tvm_neocpu.topi.conv2d_winograd_integer.geometry import (
    IntegerWinogradConfig,
    IntegerWinogradGeometry,
)
from tvm_neocpu.topi.conv2d_winograd_integer.template import pack_weight
from tvm_neocpu.topi.kernel import kernel

CONV = ConvWorkload(1, 32, 9, 9, 16, (3, 3), padding=(1, 1, 1, 1), types=U8S8, pad_value=255)
CONFIG = IntegerWinogradConfig(ic_bn=16, oc_bn=16, tile=4, reg_n=3)
HASWELL = Cpu("haswell", AVX2, cores=2)
X86 = "llvm -mtriple=x86_64-linux-gnu -mcpu="


@pytest.mark.parametrize("tile", [2, 3, 4])
@pytest.mark.parametrize("sign", ["alike", "of the kernel's sign", "alternating"])
def test_extremes_are_exact(tile: int, sign: str) -> None:
    """Data of 0 and 255, weights of -128 and 127, 1824 channels: the largest sums that there are.

    Requantised by a scale of 2^-23 and a bias that makes all sums positive.
    """
    conv = replace(CONV, in_channels=1824, height=6, width=6)
    config = replace(CONFIG, tile=tile, reg_n=2)
    data = np.full(conv.in_shape, 255, "uint8")
    weight = np.full(conv.weight_shape, -128, "int8")
    if sign != "alike":
        weight[:, ::2] = 127
    if sign == "alternating":
        data[:, :, ::2, 1::2] = 0
        weight[:, :, 1, :] = 127
    sums = convolved(conv, data, weight)
    bias, scale = np.full((1, 1, 1, 1, 16), 2**29, "int32"), np.float32(2**-22)
    scales = np.full((1, 1, 1, 1, 16), scale, "float32")
    expected = np.clip(np.rint((sums + 2**29).astype("float32") * scale), 0, 255).astype("uint8")
    inputs = [stored(data, Layout(16)), pack_weight(weight, conv, config), bias, scales]
    found = run(kernel(conv, config, HOST.cpu), inputs, (1, 1, 6, 6, 16), "uint8")
    np.testing.assert_array_equal(found, stored(expected, Layout(16)))


@pytest.mark.parametrize(
    "split",
    [{}, {"parallel_oc": True}, {"oc_chunks": 2}, {"oc_chunks": 2, "th_bn": 1}],
    ids=["chunks of rows", "of channels", "of channels that transform", "and of rows in them"],
)
def test_tiles_as_one_axis(split: dict[str, Any]) -> None:
    """The space of a CPU with VNNI has such configs. Nine tiles are twice 4 and once 1."""
    conv = replace(CONV, out_channels=32)
    check_one_axis(conv, replace(CONFIG, **{"reg_n": 4, "reg_m": FLAT, "th_bn": 3, **split}))


@pytest.mark.parametrize("split", [{}, {"parallel_oc": True}, {"oc_chunks": 2}], ids=str)
def test_tiles_of_several_images_as_one_axis(split: dict[str, Any]) -> None:
    """Chunks of two images have 18 tiles: four times 4 and once 2."""
    conv = replace(CONV, batch=4, out_channels=32)
    config = replace(CONFIG, **{"reg_n": 4, "reg_m": FLAT, "th_bn": 6, **split})
    assert IntegerWinogradGeometry(conv, config).images == 2
    check_one_axis(conv, config)


def check_one_axis(conv: ConvWorkload, config: IntegerWinogradConfig) -> None:
    """32 channels of 9 x 9 outputs are exact, and of many values."""
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, conv.in_shape).astype("uint8")
    weight = rng.integers(-128, 128, conv.weight_shape).astype("int8")
    sums = convolved(conv, data, weight)
    bias, scale = np.full((1, 2, 1, 1, 16), 2**20, "int32"), np.float32(2**-13)
    scales = np.full((1, 2, 1, 1, 16), scale, "float32")
    expected = np.clip(np.rint((sums + 2**20).astype("float32") * scale), 0, 255).astype("uint8")
    inputs = [stored(data, Layout(16)), pack_weight(weight, conv, config), bias, scales]
    found = run(kernel(conv, config, HOST.cpu), inputs, (conv.batch, 2, 9, 9, 16), "uint8")
    np.testing.assert_array_equal(found, stored(expected, Layout(16)))
    assert len(np.unique(found)) > 50


@pytest.mark.parametrize("split", [{"parallel_oc": True}, {"oc_chunks": 2}], ids=str)
@pytest.mark.parametrize("side", [5, 6, 7, 14])
@pytest.mark.parametrize("tile", [2, 3, 4])
def test_last_tiles_of_fewer_products_are_exact(
    tile: int, side: int, split: dict[str, Any]
) -> None:
    """Extremes at the borders, where pixels follow from others in 16 bits that may wrap."""
    conv = replace(CONV, height=side, width=side, out_channels=32)
    rows = -(-side // tile)
    config = replace(CONFIG, tile=tile, reg_n=min(rows, 4), th_bn=rows, **split)
    rng = np.random.default_rng(side)
    data = rng.choice([0, 255], conv.in_shape).astype("uint8")
    weight = rng.choice([-128, 127], conv.weight_shape).astype("int8")
    sums = convolved(conv, data, weight)
    bias, scale = np.full((1, 2, 1, 1, 16), 2**21, "int32"), np.float32(2**-14)
    scales = np.full((1, 2, 1, 1, 16), scale, "float32")
    expected = np.clip(np.rint((sums + 2**21).astype("float32") * scale), 0, 255).astype("uint8")
    inputs = [stored(data, Layout(16)), pack_weight(weight, conv, config), bias, scales]
    found = run(kernel(conv, config, HOST.cpu), inputs, (1, 2, side, side, 16), "uint8")
    np.testing.assert_array_equal(found, stored(expected, Layout(16)))
    assert len(np.unique(found)) > 50


def test_weights_of_a_word_are_neighbouring_channels() -> None:
    """The last point multiplies the last tap by 15, in both directions."""
    weight = np.arange(16 * 32 * 9).astype("int8").reshape(16, 32, 3, 3)
    packed = pack_weight(weight, CONV, CONFIG)
    assert packed.dtype == "int32" and packed.shape == (1, 6, 6, 2, 8, 16)
    word = packed[0, 5, 5, 1, 3, 7:8].view("int16")
    np.testing.assert_array_equal(word, 225 * weight[7, 22:24, 2, 2].astype("int16"))


def test_loops() -> None:
    """Data are transformed in vectors of 16 bits, products summed a block at a time."""
    whole = replace(CONV, height=12, width=12)
    packed = nest(whole, CONFIG, "winograd_pack", HASWELL)
    assert packed.endswith("unroll 6, unroll 6, vector 16")
    product = nest(whole, CONFIG, "winograd_product_update", HASWELL)
    assert product.endswith("2, 8, unroll 3, vector 16")
    assert nest(whole, CONFIG, "winograd_inverse", HASWELL).endswith("vector 8")


@pytest.mark.parametrize(
    ("cpu", "instruction"),
    [
        (X86 + "cascadelake", r"vpdpwssd\s.*%zmm"),
        (X86 + "znver4", r"vpdpwssd\s.*%zmm"),
        (X86 + "skylake-avx512", r"vpmaddwd\s.*%zmm"),
        (X86 + "znver3", r"vpmaddwd\s.*%ymm"),
        (X86 + "x86-64-v2", r"pmaddwd\s.*%xmm"),
    ],
)
def test_the_instruction(cpu: str, instruction: str) -> None:
    target = parse_target(cpu)
    func = kernel(CONV, CONFIG, target.cpu).with_attr("global_symbol", "main")
    built = build_module({"main": func}, target.target, PassContext.current())
    assembly = built.inspect_source("asm")
    assert len(re.findall(instruction, assembly)) >= CONFIG.reg_n
    for scalar in ("vpextrb", "vpinsrb", "vpextrd", "cvttss2si", "roundss"):
        assert scalar not in assembly
