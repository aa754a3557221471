"""The ceilings' kernels in miniature, and the roofline over them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tvm_neocpu.contrib.kernels import ceilings
from tvm_neocpu.contrib.kernels.ceilings import (
    Ceilings,
    ChainKernel,
    ClockKernel,
    ForkKernel,
    PeakKernel,
)
from tvm_neocpu.core.machine.dot import PORTABLE_BF16
from tvm_neocpu.core.types import BF16_WEIGHTS, U8S8
from tvm_neocpu.targets import parse_target


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_peak_kernel_multiplies_vectors_of_its_type(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "STEPS", ceilings.OPERANDS)
    target = parse_target("llvm")
    kernel = PeakKernel(replace(target, cpu=target.cpu.with_cores(2)), dtype)
    assert kernel.gflops() > 0
    x, _, out = (argument.numpy() for argument in kernel.arguments)
    assert x.dtype == out.dtype == dtype
    assert out.shape[-1] == target.cpu.lanes(dtype)
    # Every operand is 0.5.
    np.testing.assert_array_equal(out, 0.25 * ceilings.OPERANDS)
    assert kernel.flops == 2 * out.size * ceilings.OPERANDS


def test_a_peak_kernel_of_integers_multiplies_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "STEPS", ceilings.OPERANDS)
    target = parse_target("llvm")
    kernel, dot = PeakKernel(target, U8S8), target.cpu.dot(U8S8)
    assert kernel.gflops() > 0
    x, y, out = (argument.numpy() for argument in kernel.arguments)
    assert x.dtype == out.dtype == "int32" and y.dtype == dot.data
    # The first weight of every word is one, the others are zero.
    np.testing.assert_array_equal(out, ceilings.OPERANDS)
    assert kernel.flops == 2 * out.size * ceilings.OPERANDS * dot.elements


def test_a_peak_kernel_of_bf16_multiplies_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "STEPS", ceilings.OPERANDS)
    target = parse_target("llvm")
    plain = replace(target, cpu=replace(target.cpu, dots=(PORTABLE_BF16,)))
    kernel = PeakKernel(target if target.cpu.bf16 else plain, BF16_WEIGHTS)
    assert kernel.gflops() > 0
    out = kernel.arguments[2].numpy()
    # Every operand is 0.5.
    np.testing.assert_array_equal(out, 2 * 0.25 * ceilings.OPERANDS)
    assert kernel.flops == 2 * out.size * ceilings.OPERANDS * 2


@pytest.mark.parametrize("weight_bits", [6, 7])
def test_small_weights_have_a_peak_of_their_own(
    weight_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "STEPS", ceilings.OPERANDS)
    target = parse_target("llvm")
    kernel, dot = PeakKernel(target, U8S8, weight_bits), target.cpu.dot(U8S8, weight_bits)
    assert kernel.gflops() > 0
    out = kernel.arguments[2].numpy()
    np.testing.assert_array_equal(out, ceilings.OPERANDS * dot.words)
    assert kernel.flops == 2 * out.size * ceilings.OPERANDS * dot.elements * dot.words


def test_a_chain_adds_every_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "STEPS", 2 * ceilings.OPERANDS)
    kernel = ChainKernel(parse_target("llvm"), "float32")
    assert kernel.steps_per_second() > 0
    np.testing.assert_array_equal(kernel.arguments[2].numpy(), 0.5 * ceilings.OPERANDS)


def test_the_clocks_chain_is_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "STEPS", 2 * ceilings.OPERANDS)
    kernel = ClockKernel(parse_target("llvm"))
    assert kernel.hertz() > 0
    expected = 0
    for step in range(2 * ceilings.OPERANDS):
        expected = (expected + step % ceilings.OPERANDS) ^ ceilings.BITS
    assert kernel.arguments[1].numpy()[0] == expected


@pytest.mark.parametrize("fork", [True, False])
def test_a_forked_call_writes_for_each_thread(fork: bool) -> None:
    target = parse_target("llvm")
    kernel = ForkKernel(replace(target, cpu=target.cpu.with_cores(2)), fork)
    assert kernel.calls_per_second() > 0
    np.testing.assert_array_equal(kernel.arguments[1].numpy(), np.ones((2, 1)))


def test_the_roofline_is_the_lower_ceiling() -> None:
    found = Ceilings(peak=100.0, bandwidth=10.0)
    assert found.bound(flops=4e9, moved=1e9) == 40.0
    assert found.bound(flops=40e9, moved=1e9) == 100.0
