"""Products of split data: exact where the instruction saturates, skipped where they are zero."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import tvm
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import HOST, Array, compiled, stored, unwritten
from tvm import te

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.machine.dot import dots_of
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.reference import convolved
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_split.geometry import SplitConfig
from tvm_neocpu.topi.conv2d_split.template import compute, pack_weight, packed_shape
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.schedule_function import schedule_function

CONV = ConvWorkload(1, 32, 4, 6, 16, (1, 1), types=U8S8)
CONFIG = SplitConfig(ic_bn=16, oc_bn=16, reg_n=2, reg_m=2)
# Its last tile overhangs the output, and its zero point is not 0.
WINDOW = ConvWorkload(
    1, 32, 5, 6, 16, (3, 2), (2, 1), (1, 0, 1, 1), types=U8S8, pad_value=7, dilation=(1, 2)
)
OF_WINDOWS = SplitConfig(ic_bn=16, oc_bn=16, reg_n=4, unroll_ker=False)
BOTH = pytest.mark.parametrize(("conv", "config"), [(CONV, CONFIG), (WINDOW, OF_WINDOWS)])
ZEN_3 = Cpu("znver3", AVX2, cores=2, dots=dots_of(frozenset({"sse2", "avx2"})))
HAS_AVX2 = HOST.cpu.isa in (AVX2, AVX512)


def sums(data: Array, weight: Array, conv: ConvWorkload, config: SplitConfig) -> Array:
    """What the template makes of them on this machine, by vpmaddubsw."""
    inputs = [stored(data, Layout(config.ic_bn)), pack_weight(weight, conv, config)]
    found = tvm.runtime.tensor(unwritten(Layout(config.oc_bn).shape_of(conv.out_shape), "int32"))
    built(conv, config)(*map(tvm.runtime.tensor, inputs), found)
    return found.numpy()


@cache
def built(conv: ConvWorkload, config: SplitConfig) -> Callable[..., None]:
    """Compiled once for all data."""
    shapes = Layout(config.ic_bn).shape_of(conv.in_shape), packed_shape(conv, config)
    data = te.placeholder(shapes[0], "uint8", "data")
    weight = te.placeholder(shapes[1], "int32", "weight")  # words of four bytes
    func = te.create_prim_func([data, weight, compute(data, weight, conv, config)])
    return compiled(schedule_function(func, ZEN_3))


def expected(data: Array, weight: Array, conv: ConvWorkload) -> Array:
    return stored(convolved(conv, data, weight), Layout(CONFIG.oc_bn))


@pytest.mark.skipif(not HAS_AVX2, reason="this CPU has no AVX2")
@BOTH
@pytest.mark.parametrize("byte", [0, 64, 65, 127, 128, 129, 254, 255])
@pytest.mark.parametrize("weight", [-128, -127, 127])
def test_extremes_do_not_saturate(
    conv: ConvWorkload, config: SplitConfig, byte: int, weight: int
) -> None:
    """Data of one value, and weights as large as there are: 32 * 255 * 127 for each tap."""
    data = np.full(conv.in_shape, byte, "uint8")
    weights = np.full(conv.weight_shape, weight, "int8")
    found = sums(data, weights, conv, config)
    assert 32 * math.prod(conv.kernel) * byte * weight in found
    np.testing.assert_array_equal(found, expected(data, weights, conv))


@pytest.mark.skipif(not HAS_AVX2, reason="this CPU has no AVX2")
@BOTH
@settings(max_examples=examples(20))
@given(
    channel=st.integers(0, 31),
    pixel=st.integers(0, 23),
    values=st.tuples(*[st.integers(0, 255)] * 4),
    seed=st.integers(0, 2**32),
)
def test_one_large_sum_is_not_lost(
    conv: ConvWorkload,
    config: SplitConfig,
    channel: int,
    pixel: int,
    values: tuple[int, ...],
    seed: int,
) -> None:
    """Its tile and its block of channels are multiplied as it asks for, wherever it is."""
    data = np.zeros(conv.in_shape, "uint8")
    for value, apart in zip(values, (0, 8, 4, 12), strict=True):
        data[0, channel ^ apart].reshape(-1)[pixel] = value
    rng = np.random.default_rng(seed)
    weights = rng.choice([-128, 127, -127, 1], conv.weight_shape).astype("int8")
    np.testing.assert_array_equal(sums(data, weights, conv, config), expected(data, weights, conv))


def test_channels_of_two_half_blocks_are_neighbours() -> None:
    weight = np.arange(16 * 32).astype("int8").reshape(CONV.weight_shape)
    packed = pack_weight(weight, CONV, CONFIG)
    assert packed.shape == packed_shape(CONV, CONFIG) == (1, 2, 1, 1, 4, 16)
    word = packed[0, 1, 0, 0, 3, 5:6].view("int8")
    np.testing.assert_array_equal(word, weight[5, [22, 30, 23, 31], 0, 0])


@pytest.mark.parametrize(("cpu", "register"), [("znver3", "ymm"), ("skylake-avx512", "zmm")])
def test_the_instruction(cpu: str, register: str) -> None:
    target = parse_target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    built = tvm.compile(kernel(CONV, CONFIG, target.cpu), target=target.target)
    assembly = built.mod.inspect_source("asm")
    assert len(re.findall(rf"vpmaddubsw\s.*%{register}", assembly)) >= 2 * 4
