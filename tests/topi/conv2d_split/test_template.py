"""Products of split data: exact where the instruction saturates, skipped where they are zero."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import HOST, Array, run, stored
from tvm import te

from tvm_neocpu.core.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.dot import dots_of
from tvm_neocpu.core.layout import Layout
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
ZEN_3 = Cpu("znver3", AVX2, cores=2, dots=dots_of(frozenset({"sse2", "avx2"})))
HAS_AVX2 = HOST.cpu.isa in (AVX2, AVX512)


def sums(data: Array, weight: Array, conv: ConvWorkload = CONV) -> Array:
    """What the template makes of them on this machine, by vpmaddubsw."""
    inputs = [stored(data, Layout(CONFIG.ic_bn)), pack_weight(weight, conv, CONFIG)]
    tensors = [te.placeholder(a.shape, str(a.dtype), f"p{at}") for at, a in enumerate(inputs)]
    out = compute(*tensors, conv, CONFIG)
    func = schedule_function(te.create_prim_func([*tensors, out]), ZEN_3)
    return run(func, inputs, tuple(map(int, out.shape)), "int32")


def expected(data: Array, weight: Array, conv: ConvWorkload = CONV) -> Array:
    return stored(convolved(conv, data, weight), Layout(CONFIG.oc_bn))


@pytest.mark.skipif(not HAS_AVX2, reason="this CPU has no AVX2")
@pytest.mark.parametrize("byte", [0, 127, 128, 129, 254, 255])
@pytest.mark.parametrize("weight", [-128, -127, 127])
def test_extremes_do_not_saturate(byte: int, weight: int) -> None:
    """Data of one value, and weights as large as there are: 32 * 255 * 127."""
    data = np.full(CONV.in_shape, byte, "uint8")
    weights = np.full(CONV.weight_shape, weight, "int8")
    assert sums(data, weights).flat[0] == 32 * byte * weight
    np.testing.assert_array_equal(sums(data, weights), expected(data, weights))


@pytest.mark.skipif(not HAS_AVX2, reason="this CPU has no AVX2")
@settings(max_examples=20)
@given(
    st.integers(0, 31), st.integers(0, 23), st.integers(0, 255), st.integers(0, 255), st.integers()
)
def test_one_large_pair_is_not_lost(
    channel: int, pixel: int, first: int, second: int, seed: int
) -> None:
    """Its high part is multiplied for its tile and its block of channels, wherever it is."""
    data = np.zeros(CONV.in_shape, "uint8")
    data[0, channel].reshape(-1)[pixel] = first
    data[0, channel ^ 8].reshape(-1)[pixel] = second
    rng = np.random.default_rng(abs(seed))
    weights = rng.choice([-128, 127, -127, 1], CONV.weight_shape).astype("int8")
    np.testing.assert_array_equal(sums(data, weights), expected(data, weights))


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
