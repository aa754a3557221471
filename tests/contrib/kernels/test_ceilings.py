"""The ceilings' kernels in miniature, and the roofline over them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.contrib.kernels.ceilings import Ceilings, ReadKernel
from tvm_neocpu.targets import parse_target


@pytest.mark.parametrize(("cores", "size", "passes"), [(1, 5000, 3), (2, 100_000, 1), (1, 1, 2)])
def test_a_read_kernel_reads_every_byte_of_every_pass(cores: int, size: int, passes: int) -> None:
    target = parse_target("llvm")
    kernel = ReadKernel(replace(target, cpu=target.cpu.with_cores(cores)), size, passes)
    assert kernel.bytes_per_second() > 0
    data, total = (argument.numpy() for argument in kernel.arguments)
    assert total.sum() == data.size * passes
    assert kernel.read_bytes == data.nbytes * passes


def test_the_roofline_is_the_lower_ceiling() -> None:
    ceilings = Ceilings(peak=100.0, bandwidth=10.0)
    assert ceilings.bound(flops=4e9, moved=1e9) == 40.0
    assert ceilings.bound(flops=40e9, moved=1e9) == 100.0
