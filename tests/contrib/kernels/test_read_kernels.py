"""Kernels that read whole buffers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.contrib.kernels import read_kernels
from tvm_neocpu.contrib.kernels.read_kernels import ColdReadKernel, ReadKernel
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


def test_a_cold_buffer_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_kernels, "PART_BYTES", 4096)
    target = parse_target("llvm")
    kernel = ColdReadKernel(replace(target, cpu=target.cpu.with_cores(2)), "float32", 65536)
    assert kernel.bytes_per_second() > 0
    assert kernel.read_bytes == 2 * 4096
    assert len(kernel._parts) == 8
