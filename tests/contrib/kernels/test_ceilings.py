"""The ceilings' kernels in miniature, and the roofline over them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tvm_neocpu.contrib.kernels import ceilings
from tvm_neocpu.contrib.kernels.ceilings import Ceilings, PeakKernel, ReadKernel
from tvm_neocpu.targets import parse_target


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(("cores", "size", "passes"), [(1, 5000, 3), (2, 100_000, 1), (1, 1, 2)])
def test_a_read_kernel_reads_every_byte_of_every_pass(
    cores: int, size: int, passes: int, dtype: str
) -> None:
    target = parse_target("llvm")
    kernel = ReadKernel(replace(target, cpu=target.cpu.with_cores(cores)), dtype, size, passes)
    assert kernel.bytes_per_second() > 0
    data, total = (argument.numpy() for argument in kernel.arguments)
    assert data.dtype == total.dtype == dtype
    assert total.sum() == data.size * passes
    assert kernel.read_bytes == data.nbytes * passes


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


def test_the_roofline_is_the_lower_ceiling() -> None:
    found = Ceilings(peak=100.0, bandwidth=10.0)
    assert found.bound(flops=4e9, moved=1e9) == 40.0
    assert found.bound(flops=40e9, moved=1e9) == 100.0
