"""The bf16 template packs pairs of channels, rounds its data, and multiplies by vdpbf16ps."""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import tvm
from samples import HOST, assert_close, run, sample

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.machine.dot import BFDOT, PORTABLE_BF16, VDPBF16PS, DotProduct
from tvm_neocpu.core.types import BF16_WEIGHTS
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.reference import convolved
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config
from tvm_neocpu.topi.conv2d_bf16.implementation import BF16_DIRECT
from tvm_neocpu.topi.conv2d_bf16.template import pack_weight, packed_shape
from tvm_neocpu.topi.cost.ranking import predict_seconds
from tvm_neocpu.topi.kernel import kernel

PLAIN = Cpu("haswell", AVX2, 1, dots=(PORTABLE_BF16,))
ZEN_4 = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4"
CONV = ConvWorkload(1, 6, 7, 9, 32, (3, 2), padding=(1, 0, 2, 1), types=BF16_WEIGHTS)
CONVS = {
    "3x3": ConvWorkload(1, 64, 14, 14, 64, (3, 3), padding=(1, 1, 1, 1), types=BF16_WEIGHTS),
    "1x1": ConvWorkload(1, 64, 14, 14, 128, (1, 1), types=BF16_WEIGHTS),
    "stem": ConvWorkload(1, 3, 32, 32, 64, (7, 7), (2, 2), (3, 3, 3, 3), types=BF16_WEIGHTS),
}


def test_weights_of_a_word_are_neighbouring_channels() -> None:
    config = Bf16Config(ic_bn=3, oc_bn=16, reg_n=3)
    weight = np.random.default_rng(0).normal(size=CONV.weight_shape).astype(ml_dtypes.bfloat16)
    packed = pack_weight(weight, CONV, config)
    assert packed.shape == packed_shape(CONV, config) == (2, 2, 3, 2, 2, 16)
    bits = weight.view("uint16")
    np.testing.assert_array_equal(
        packed[1, 1, 2, 1, 0, 5:6].view("uint16"), [bits[21, 3, 2, 1], bits[21, 4, 2, 1]]
    )
    # The third channel of a block of three stands beside a zero.
    np.testing.assert_array_equal(packed[1, 1, 2, 1, 1, 5:6].view("uint16"), [bits[21, 5, 2, 1], 0])


@pytest.mark.parametrize("ic_bn", [0, 2, 3, 6])
def test_data_are_rounded_to_the_nearest(ic_bn: int) -> None:
    config = Bf16Config(ic_bn=ic_bn, oc_bn=16, reg_n=3)
    rng = np.random.default_rng(0)
    data = rng.normal(size=CONV.in_shape).astype("float32")
    weight = rng.normal(size=CONV.weight_shape).astype(ml_dtypes.bfloat16)
    stored = data
    if ic_bn:
        split = data.reshape(1, 6 // ic_bn, ic_bn, 7, 9)
        stored = np.ascontiguousarray(split.transpose(0, 1, 3, 4, 2))
    out = np.zeros((1, 2, CONV.out_height, CONV.out_width, 16), "float32")
    inputs = [stored, pack_weight(weight, CONV, config), np.full((1, 2, 1, 1, 16), 99.0, "float32")]
    found = run(kernel(CONV, config, PLAIN), inputs, out.shape, "float32")
    rounded = data.astype(ml_dtypes.bfloat16)
    expected = convolved(CONV, rounded, weight)
    blocked = expected.reshape(1, 2, 16, *expected.shape[2:]).transpose(0, 1, 3, 4, 2)
    assert_close(found - 99, blocked, 1e-5)
    exact = convolved(CONV, data, weight).reshape(1, 2, 16, *expected.shape[2:])
    assert np.abs(found - 99 - exact.transpose(0, 1, 3, 4, 2)).max() > 1e-3


@pytest.mark.parametrize("mcpu", ["znver4", "cooperlake", "sapphirerapids"])
@pytest.mark.parametrize("conv", CONVS.values(), ids=CONVS)
def test_the_instruction_is_in_the_code(mcpu: str, conv: ConvWorkload) -> None:
    config, assembly = compiled(conv, f"llvm -mtriple=x86_64-linux-gnu -mcpu={mcpu}", VDPBF16PS)
    found = re.findall(r"vdpbf16ps\s.*%zmm\d+$", assembly, re.MULTILINE)
    pixels = config.reg_n * config.reg_m
    assert len(found) >= pixels * max(config.tile_channels // 16, 1)
    assert "neocpu_vdpbf16ps" not in assembly and "vfmadd" not in assembly
    assert not [line for line in found if "(%rsp)" in line]


@pytest.mark.parametrize("mcpu", ["cortex-a710", "neoverse-n2", "neoverse-v2"])
@pytest.mark.parametrize("conv", CONVS.values(), ids=CONVS)
def test_the_instruction_of_arm_is_in_the_code(mcpu: str, conv: ConvWorkload) -> None:
    config, assembly = compiled(conv, f"llvm -mtriple=aarch64-linux-gnu -mcpu={mcpu}", BFDOT)
    found = re.findall(r"bfdot\s.*$", assembly, re.MULTILINE)
    pixels = config.reg_n * config.reg_m
    assert len(found) >= pixels * max(config.tile_channels // 4, 1)
    assert "neocpu_bfdot" not in assembly and "fmla" not in assembly
    # Planes of an image are rounded by arithmetic: their words are not whole vectors.
    assert "bfcvtn" in assembly or conv.reads_plain


@pytest.mark.skipif("avx512bf16" not in HOST.features, reason="this CPU has no AVX512_BF16")
@pytest.mark.parametrize("conv", CONVS.values(), ids=CONVS)
def test_the_instruction_here(conv: ConvWorkload) -> None:
    config = best(conv, HOST.cpu)
    case = sample(conv, config, np.random.default_rng(0))
    bias = np.full((1, case.expected.shape[1], 1, 1, case.expected.shape[4]), 99.0, "float32")
    func = kernel(conv, config, HOST.cpu)
    found = run(func, [*case.inputs, bias], case.expected.shape, "float32")
    assert_close(found - 99, case.expected, 1e-4)


def test_only_cpus_with_the_instruction_take_it() -> None:
    conv = CONVS["3x3"]
    assert BF16_DIRECT.accepts(conv, parse_target(ZEN_4).cpu)
    assert not BF16_DIRECT.accepts(conv, Cpu("skylake-avx512", AVX512, 1))


def test_it_makes_twice_the_products() -> None:
    cpu = parse_target(ZEN_4).cpu
    assert cpu.peak_gflops(BF16_WEIGHTS) == 2 * cpu.peak_gflops("float32")
    assert Cpu("haswell", AVX2, 1).peak_gflops(BF16_WEIGHTS) == Cpu("haswell", AVX2, 1).peak_gflops(
        "float32"
    )


def compiled(conv: ConvWorkload, text: str, dot: DotProduct) -> tuple[Bf16Config, str]:
    """The config that the model prefers on a CPU that has this instruction, and its assembly."""
    target = parse_target(text)
    found = target.cpu.bf16
    assert found is not None and replace(found, rate=dot.rate) == dot
    config = best(conv, target.cpu)
    built = tvm.compile(kernel(conv, config, target.cpu), target=target.target)
    return config, built.mod.inspect_source("asm")


def best(conv: ConvWorkload, cpu: Cpu) -> Bf16Config:
    space = BF16_DIRECT.space(conv, cpu)
    found: Bf16Config = min(space, key=lambda config: predict_seconds(conv, config, cpu))
    return found
