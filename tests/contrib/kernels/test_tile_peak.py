"""Which kernel is the ruler for a workload's types."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tvm_neocpu.contrib.kernels import ceilings, tile_peak
from tvm_neocpu.contrib.kernels.ceilings import PeakKernel
from tvm_neocpu.contrib.kernels.tile_peak import TilePeakKernel, peak_kernel
from tvm_neocpu.core.machine.matrix_unit import MatrixUnit
from tvm_neocpu.core.types import BF16_WEIGHTS, FP32, U8S8, Types
from tvm_neocpu.targets import parse_target

HERE = parse_target("llvm")


@pytest.mark.parametrize("unit", [None, MatrixUnit((U8S8,), is_plain=True)])
def test_vectors_are_the_ruler_where_nothing_multiplies_tiles(
    unit: MatrixUnit | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "STEPS", ceilings.OPERANDS)
    target = replace(HERE, cpu=replace(HERE.cpu, matrix=unit))
    for types in (FP32, U8S8):
        assert isinstance(peak_kernel(target, types), PeakKernel)


@pytest.mark.skipif(HERE.cpu.matrix is None, reason="this CPU multiplies no tiles")
@pytest.mark.parametrize("types", [U8S8, BF16_WEIGHTS])
def test_tiles_are_the_ruler_of_their_types(types: Types, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_peak, "STEPS", 4)
    target = replace(HERE, cpu=HERE.cpu.with_cores(2))
    kernel = peak_kernel(target, types)
    assert isinstance(kernel, TilePeakKernel)
    operands, out = kernel.arguments
    ones = 1 if types == U8S8 else 0x3F
    operands.copyfrom(np.full((16, 64), ones, "uint8"))
    assert kernel.gflops() > 0
    assert out.numpy().std() == 0 and out.numpy().min() > 0
    if types == U8S8:
        # Sixteen words of four in each of four steps.
        np.testing.assert_array_equal(out.numpy(), 4 * 16 * 4)
    elements = 4 if types == U8S8 else 2
    assert kernel.flops == 2 * 2 * 4 * 16 * 16 * 16 * elements * 4
