"""Functions of one tensor of codes become tables: Before -> Expected, and every code's value."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from coded_tensors import code, const, real
from numpy.typing import NDArray
from one_function import Build, module_of
from onnx_text import ours, parsed
from quantized_onnx import expected as by_onnx_runtime
from tvm import relax
from tvm.relax.op import add, clip, exp, multiply, sigmoid
from tvm.relax.op.nn import relu

from tvm_neocpu import relay
from tvm_neocpu.relay_passes.folding.canonicalize import Canonicalize
from tvm_neocpu.relay_passes.folding.fold_constants import FoldConstants
from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.ir.regions import bindings_of
from tvm_neocpu.relay_passes.ir.run_passes import run_passes
from tvm_neocpu.relay_passes.operators.new.look_up import LOOK_UP, look_up
from tvm_neocpu.relay_passes.quantized.integer_operators import IntegerOperators

IMAGE = (1, 3, 5, 5)
CODES = np.arange(256)


def codes_of(values: NDArray, scale: float, zero: int) -> NDArray[np.uint8]:
    places = np.round(values.astype("float32") / np.float32(scale)) + zero
    return np.clip(places, 0, 255).astype("uint8")


def assert_becomes(before: Build, expected: Build, looks_up: bool = False) -> None:
    mod = module_of(IMAGE, before, "uint8")
    found = IntegerOperators(looks_up)(mod)
    tvm.ir.assert_structural_equal(found, module_of(IMAGE, expected, "uint8"))


def tables_in(build: Build, looks_up: bool = True) -> int:
    """How many tables the pass makes."""
    return tables_of(IntegerOperators(looks_up)(module_of(IMAGE, build, "uint8")))


def tables_of(mod: tvm.IRModule) -> int:
    return sum(op_name(binding.value) == LOOK_UP for binding in bindings_of(mod["main"]))


def gated(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    """What a quantiser makes of SiLU: the sigmoid's codes, and the product's."""
    number = b.emit(real(x, 0.1, 128))
    gate = b.emit(real(b.emit(code(b.emit(sigmoid(number)), 1 / 256, 0)), 1 / 256, 0))
    return code(b.emit(multiply(number, gate)), 0.05, 6)


def test_a_product_with_its_own_gate_is_one_table() -> None:
    numbers = ((CODES - 128) * np.float32(0.1)).astype("float32")
    gates = codes_of(1 / (1 + np.exp(-numbers)), 1 / 256, 0) * np.float32(1 / 256)
    table = codes_of(numbers * gates, 0.05, 6)
    assert_becomes(gated, lambda _, x: look_up(x, table))


def test_tables_of_tables_are_one() -> None:
    def twice(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        number = b.emit(real(b.emit(gated(b, x)), 0.05, 6))
        return code(b.emit(exp(number)), 0.5, 0)

    assert tables_in(twice) == 1


@pytest.mark.parametrize("looks_up", [False, True])
def test_another_encoding_is_a_table_where_there_is_an_instruction(looks_up: bool) -> None:
    def before(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        return code(b.emit(real(x, 0.5, 3)), 0.75, 9)

    assert tables_in(before, looks_up) == looks_up


def test_bounds_of_the_same_encoding_are_none() -> None:
    def before(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        return code(b.emit(relu(b.emit(real(x, 0.5, 3)))), 0.5, 3)

    assert tables_in(before) == 0


def test_int8_is_shifted() -> None:
    def before(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        made = b.emit(code(b.emit(exp(b.emit(real(x, 0.01, 0)))), 0.1, -10, "int8"))
        return code(b.emit(real(made, 0.1, -10, "int8")), 0.1, 7)

    numbers = CODES.astype("float32") * np.float32(0.01)
    shifted = codes_of(np.exp(numbers), 0.1, -10 + 128)
    table = codes_of((shifted.astype("float32") - (128 - 10)) * np.float32(0.1), 0.1, 7)
    assert_becomes(before, lambda _, x: look_up(x, table), looks_up=True)


def test_what_depends_on_more_than_one_code_stays_arithmetic() -> None:
    def of_two_tensors(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        turned = b.emit(relax.op.permute_dims(x, [0, 1, 3, 2]))
        left, right = b.emit(real(x, 0.1, 0)), b.emit(real(turned, 0.1, 0))
        return code(b.emit(multiply(left, right)), 0.5, 0)

    def of_channels(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        made = b.emit(add(b.emit(exp(b.emit(real(x, 0.01, 0)))), const([[[1]], [[2]], [[3]]])))
        return code(made, 0.1, 0)

    def of_a_reduction(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        number = b.emit(exp(b.emit(real(x, 0.01, 0))))
        return code(b.emit(multiply(number, b.emit(relax.op.max(number, [2, 3], True)))), 0.1, 0)

    def of_no_number(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        return code(b.emit(relax.op.log(b.emit(real(x, 0.1, 9)))), 0.1, 0)

    builds = (of_two_tensors, of_channels, of_a_reduction, of_no_number)
    assert [tables_in(build) for build in builds] == [0, 0, 0, 0]


def test_a_long_chain_is_followed() -> None:
    """Longer than Python's stack."""

    def before(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        number = b.emit(real(x, 0.01, 0))
        for _ in range(1500):
            number = b.emit(clip(b.emit(sigmoid(number)), 0, 1))
        return code(number, 0.01, 0)

    assert tables_in(before) == 1


FUNCTIONS = {
    "Abs": "Abs(d)",
    "Celu": "Celu<alpha=0.7>(d)",
    "Clip": "Clip(d, low, high)",
    "Elu": "Elu<alpha=1.5>(d)",
    "Erf": "Erf(d)",
    "Exp": "Exp(d)",
    "Floor": "Floor(d)",
    "HardSigmoid": "HardSigmoid<alpha=0.3>(d)",
    "HardSwish": "HardSwish(d)",
    "LeakyRelu": "LeakyRelu<alpha=0.1>(d)",
    "Mish": "Mish(d)",
    "Neg": "Neg(d)",
    "PRelu": "PRelu(d, low)",
    "Pow": "Pow(d, two)",
    "Round": "Round(d)",
    "Selu": "Selu(d)",
    "Sigmoid": "Sigmoid(d)",
    "Sign": "Sign(d)",
    "Softplus": "Softplus(d)",
    "Softsign": "Softsign(d)",
    "Sub": "Sub(high, d)",
    "Tanh": "Tanh(d)",
    "ThresholdedRelu": "ThresholdedRelu<alpha=0.5>(d)",
    "Gelu": "Gelu(d)",
    "Gelu by tanh": 'Gelu<approximate="tanh">(d)',
}


def every_code_through(function: str) -> onnx.ModelProto:
    """All codes, as numbers between -4 and 5.8, through a function."""
    return parsed(
        f"""g (uint8[1,4,8,8] x) => (uint8[1,4,8,8] y) <
            float scale = {{0.0384}}, uint8 zero = {{104}}, float out = {{0.0471}},
            uint8 middle = {{97}}, float low = {{-1.3}}, float high = {{2.9}}, float two = {{2}}> {{
            d = DequantizeLinear(x, scale, zero)
            f = {function}
            y = QuantizeLinear(f, out, middle)
        }}""",
        opset=20,
    )


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_every_code_of_a_function(function: str) -> None:
    model = every_code_through(function)
    mod, _ = relay.frontend.from_onnx(model, {"x": (1, 4, 8, 8)})
    passes = FoldConstants(), Canonicalize(), IntegerOperators(looks_up=True)
    assert tables_of(run_passes(mod, *passes)) == 1
    codes = CODES.astype("uint8").reshape(1, 4, 8, 8)
    (found,), (wanted,) = ours(model, {"x": codes}), by_onnx_runtime(model, {"x": codes})
    differences = np.abs(found.astype(int) - wanted.astype(int))
    assert differences.max() <= 1 and np.count_nonzero(differences) <= 1
