"""A layer whose result meets another one's is stored as codes, not as the floats they stand for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax

from tvm_neocpu.relay_passes.fusing.fuse_functions import FuseFunctions
from tvm_neocpu.relay_passes.ir.exprs import dtype_of
from tvm_neocpu.relay_passes.operators.new.quantize import whole_between

op = relax.op
Emit = Callable[[relax.Expr], relax.Var]
WEIGHT = relax.const(np.ones((8, 8, 1, 1), "float32"))


def layer(emit: Emit, x: relax.Expr) -> relax.Var:
    return emit(op.nn.conv2d(x, WEIGHT))


def quantized(emit: Emit, x: relax.Expr) -> relax.Var:
    return emit(op.astype(emit(op.round(emit(op.clip(x, 0, 255)))), "uint8"))


def dequantized(emit: Emit, codes: relax.Expr) -> relax.Var:
    return emit(op.multiply(emit(op.astype(codes, "float32")), relax.const(0.5)))


def rounded(emit: Emit, x: relax.Expr) -> relax.Var:
    return dequantized(emit, quantized(emit, x))


def stored(build: Callable[[Emit, relax.Var], relax.Expr]) -> list[str]:
    """The types of what the fused functions write, in order."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 8, 6, 6), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(build(builder.emit, x))
        builder.emit_func_output(result)
    main = FuseFunctions()(builder.get())["main"]
    return [dtype_of(binding.var) for block in main.body.blocks for binding in block.bindings]


def test_the_other_layer_of_a_sum_is_stored_as_codes() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        left = rounded(emit, layer(emit, x))
        right = rounded(emit, layer(emit, x))
        return quantized(emit, emit(op.add(left, right)))

    assert stored(build) == ["uint8", "uint8"]


@pytest.mark.parametrize("last", [0, 1, 2])
def test_of_three_layers_two_are(last: int) -> None:
    """Whichever of them is read last."""

    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        values = [rounded(emit, layer(emit, x)) for _ in range(3)]
        final = values.pop(last)
        return quantized(emit, emit(op.add(emit(op.add(*values)), final)))

    assert stored(build) == ["uint8", "uint8", "uint8"]


def test_codes_that_were_rounded_as_integers() -> None:
    """As a sum of integers is quantised: between bounds that are whole numbers."""

    def coded(emit: Emit, x: relax.Expr) -> relax.Var:
        return emit(op.astype(emit(whole_between(x, 0, 255, 0)), "uint8"))

    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        left, right = (dequantized(emit, coded(emit, layer(emit, x))) for _ in range(2))
        return coded(emit, emit(op.add(left, right)))

    assert stored(build) == ["uint8", "uint8"]


def test_codes_that_nothing_else_meets_stay_inside() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        return quantized(emit, emit(op.sigmoid(rounded(emit, layer(emit, x)))))

    assert stored(build) == ["uint8"]


def test_a_sum_with_what_is_stored_already_is_one_function() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        return quantized(emit, emit(op.add(rounded(emit, layer(emit, x)), x)))

    assert stored(build) == ["uint8"]


def test_floats_are_stored_as_floats() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        return emit(op.add(layer(emit, x), layer(emit, x)))

    assert stored(build) == ["float32", "float32"]
