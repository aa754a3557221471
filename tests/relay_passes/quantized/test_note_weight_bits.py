"""Integer convolutions say how small their weights are where the CPU gains from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from one_function import module_of
from tvm import relax

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.machine.dot import dots_of
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.operators.new.padded_conv2d import OP, padded_workload
from tvm_neocpu.relay_passes.quantized.absorb_zero_points import AbsorbZeroPoints
from tvm_neocpu.relay_passes.quantized.note_weight_bits import NoteWeightBits
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

ZEN_3 = Cpu("znver3", AVX2, 1, dots=dots_of(frozenset({"sse2", "avx2"})))
VNNI = Cpu("alderlake", AVX2, 1, dots=dots_of(frozenset({"sse2", "avx2", "avxvnni"})))
CONV = ConvWorkload(1, 8, 9, 10, 16, (3, 3), types=U8S8)


def noted(
    size: int, cpu: Cpu = ZEN_3, padded: bool = False, groups: int = 1
) -> ConvWorkload | None:
    """What the pass makes of a convolution whose weights are all of that size."""
    weight = np.full((16, 8 // groups, 3, 3), size, "int8")

    def build(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        if padded:
            x = builder.emit(relax.op.nn.pad(x, [0] * 4 + [1] * 4, "constant", 128))
        return relax.op.nn.conv2d(x, relax.const(weight), groups=groups, out_dtype="int32")

    before = AbsorbZeroPoints()(module_of((1, 8, 9, 10), build, "uint8"))
    main = NoteWeightBits(cpu)(before)["main"]
    calls = [binding.value for block in main.body.blocks for binding in block.bindings]
    found = [call for call in calls if op_name(call) == OP]
    return padded_workload(found[0]) if found else None


@pytest.mark.parametrize(("size", "bits"), [(32, 6), (-32, 6), (33, 7), (64, 7), (-64, 7)])
def test_small_weights_are_noted(size: int, bits: int) -> None:
    assert noted(size) == replace(CONV, weight_bits=bits)


def test_beside_what_pads() -> None:
    padded = replace(CONV, padding=(1, 1, 1, 1), pad_value=128)
    assert noted(32, padded=True) == replace(padded, weight_bits=6)
    assert noted(127, padded=True) == padded


def test_anything_else_stays() -> None:
    assert noted(65) is None
    assert noted(32, groups=8) is None
    assert noted(32, VNNI) is None
