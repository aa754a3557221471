"""A padding by a zero point becomes part of the integer convolution behind it."""

from __future__ import annotations

import numpy as np
import pytest
from one_function import module_of
from tvm import relax

from tvm_neocpu.core.types import U8S8
from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.operators.new.padded_conv2d import OP, padded_workload
from tvm_neocpu.relay_passes.quantized.absorb_zero_points import AbsorbZeroPoints
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

WEIGHT = relax.const(np.ones((16, 8, 3, 3), "int8"))
FLOATS = relax.const(np.ones((16, 8, 3, 3), "float32"))


def calls(dtype: str = "uint8", value: float = 128, own: int = 0, mode: str = "constant", **more):
    weight = WEIGHT if dtype == "uint8" else FLOATS
    widths = more.get("widths", [0, 0, 0, 0, 1, 2, 3, 4])

    def build(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        padded = builder.emit(relax.op.nn.pad(x, widths, mode, value))
        out = "int32" if dtype == "uint8" else "float32"
        return relax.op.nn.conv2d(padded, weight, padding=[own] * 4, out_dtype=out)

    main = AbsorbZeroPoints()(module_of((1, 8, 9, 10), build, dtype))["main"]
    return [binding.value for block in main.body.blocks for binding in block.bindings]


@pytest.mark.parametrize("zero", [0, 1, 128, 255])
def test_the_padding_is_the_convolutions_own(zero: int) -> None:
    call = next(value for value in calls(value=zero) if op_name(value) == OP)
    assert padded_workload(call) == ConvWorkload(
        1, 8, 9, 10, 16, (3, 3), padding=(1, 3, 2, 4), types=U8S8, pad_value=zero
    )
    assert str(call.ty.dtype) == "int32"
    assert [int(extent) for extent in call.ty.shape] == [1, 16, 10, 15]


def test_a_pad_of_no_width_says_around_which_code_data_lie() -> None:
    call = next(value for value in calls(widths=[0] * 8) if op_name(value) == OP)
    assert padded_workload(call) == ConvWorkload(1, 8, 9, 10, 16, (3, 3), types=U8S8, pad_value=128)


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "float32"},
        {"own": 1},
        {"mode": "reflect"},
        {"value": -1},
        {"value": 1.5},
    ],
    ids=str,
)
def test_anything_else_stays(options: dict) -> None:
    assert not any(op_name(value) == OP for value in calls(**options))
