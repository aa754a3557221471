"""Winograd in bf16: its error is the stated one, its products are vdpbf16ps, its sums fp32."""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import tvm
from samples import HOST, run, sample

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.machine.dot import PORTABLE_BF16
from tvm_neocpu.core.network.weight_transform import BF16, WeightTransform
from tvm_neocpu.core.types import BF16_WEIGHTS
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd_bf16.geometry import Bf16WinogradConfig
from tvm_neocpu.topi.conv2d_winograd_bf16.implementation import BF16_WINOGRAD
from tvm_neocpu.topi.conv2d_winograd_bf16.template import pack_weight, packed_shape
from tvm_neocpu.topi.cost.ranking import predict_seconds
from tvm_neocpu.topi.kernel import kernel

PLAIN = Cpu("skylake-avx512", AVX512, 1, dots=(PORTABLE_BF16,))
CONV = ConvWorkload(1, 64, 14, 14, 64, (3, 3), padding=(1, 1, 1, 1), types=BF16_WEIGHTS)
CONVS = {
    "F(2x2)": (CONV, 2, 4.0e-3),
    "F(3x3)": (CONV, 3, 6.1e-3),
    "stride 2": (replace(CONV, stride=(2, 2)), 4, 5.1e-3),
    "stem": (ConvWorkload(1, 3, 32, 32, 64, (7, 7), (2, 2), (3,) * 4, types=BF16_WEIGHTS), 2, 7e-3),
}


def best(conv: ConvWorkload, tile: int, cpu: Cpu) -> Bf16WinogradConfig:
    space = (config for config in BF16_WINOGRAD.space(conv, cpu) if config.tile == tile)
    found: Bf16WinogradConfig = min(space, key=lambda config: predict_seconds(conv, config, cpu))
    return found


def error(conv: ConvWorkload, tile: int, cpu: Cpu) -> float:
    """Relative, root mean square, against the exact convolution of rounded operands."""
    config = best(conv, tile, cpu)
    case = sample(conv, config, np.random.default_rng(0))
    _, blocks, *_, lanes = case.expected.shape
    bias = np.full((1, blocks, 1, 1, lanes), 99.0, "float32")
    func = kernel(conv, config, cpu)
    found = run(func, [*case.inputs, bias], case.expected.shape, "float32") - 99
    return float(np.linalg.norm(found - case.expected) / np.linalg.norm(case.expected))


@pytest.mark.parametrize(("conv", "tile", "stated"), CONVS.values(), ids=CONVS)
def test_its_error_is_the_stated_one(conv: ConvWorkload, tile: int, stated: float) -> None:
    assert 0.5 * stated < error(conv, tile, PLAIN) < 1.1 * stated


@pytest.mark.skipif("avx512bf16" not in HOST.features, reason="this CPU has no AVX512_BF16")
@pytest.mark.parametrize(("conv", "tile", "stated"), CONVS.values(), ids=CONVS)
def test_the_instruction_here(conv: ConvWorkload, tile: int, stated: float) -> None:
    assert 0.5 * stated < error(conv, tile, HOST.cpu) < 1.1 * stated


def test_the_instructions_are_in_the_code() -> None:
    target = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4")
    built = tvm.compile(kernel(CONV, best(CONV, 3, target.cpu), target.cpu), target=target.target)
    assembly = built.mod.inspect_source("asm")
    products = re.findall(r"vdpbf16ps\s.*%zmm\d+$", assembly, re.MULTILINE)
    assert products and not [line for line in products if "(%rsp)" in line]
    assert "vcvtneps2bf16" in assembly and "neocpu_" not in assembly


def test_weights_are_words_of_transformed_channels() -> None:
    config = Bf16WinogradConfig(ic_bn=4, oc_bn=16, tile=2, reg_n=3)
    conv = replace(CONV, in_channels=8, out_channels=16)
    weight = np.random.default_rng(0).normal(size=conv.weight_shape).astype(ml_dtypes.bfloat16)
    packed = pack_weight(weight, conv, config)
    assert packed.shape == packed_shape(conv, config) == (1, 4, 4, 2, 2, 16)
    # Row and column 0 of G are those of the point 0: (-1, 0, 0), the tap itself here.
    corner = weight[5, 6:8, 0, 0]
    assert packed[0, 0, 0, 1, 1, 5:6].view(ml_dtypes.bfloat16).tolist() == corner.tolist()


def test_weights_are_rounded_to_the_nearest() -> None:
    values = np.random.default_rng(0).normal(size=(64, 1)).astype("float32")
    values[:3, 0] = [1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-8)]  # ties
    transform = WeightTransform(((1.0,),), ((1.0,),), BF16, (1, 1, 32, 2), (0, 1, 2, 3), "int32")
    packed = transform.packed(values)
    expected = values.astype(ml_dtypes.bfloat16).view("uint16").reshape(-1)
    np.testing.assert_array_equal(packed.reshape(-1).view("uint16"), expected)


def test_other_cpus_and_layers_are_declined() -> None:
    assert BF16_WINOGRAD.accepts(CONV, PLAIN)
    assert not BF16_WINOGRAD.accepts(CONV, Cpu("haswell", AVX2, 1))
    assert not BF16_WINOGRAD.accepts(replace(CONV, kernel=(1, 1), padding=(0,) * 4), PLAIN)
    assert not BF16_WINOGRAD.accepts(replace(CONV, groups=4), PLAIN)
