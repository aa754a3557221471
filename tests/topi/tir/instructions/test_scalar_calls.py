"""Functions that have no vector instruction, and those that TVM forgot to have one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_text
import pytest
import tvm
from formulas import compiled
from nests import SKYLAKE
from onnx_text import Array, check_like_peer, normal, parsed
from tvm import te, tirx

from tvm_neocpu.topi.math import vector_math
from tvm_neocpu.topi.math.vector_calls import FORGOTTEN, SCALAR
from tvm_neocpu.topi.schedule_function import schedule_function

SHAPE = (3, 21)
CODES = ["uint16", "int16"]


def scheduled(*calls: str) -> str:
    """The code of calls of one another, with a tanh of the first; no indices."""
    x = te.placeholder((64,), "float32", "x")

    def formula(i: tirx.Var) -> tirx.Expr:
        value = x[i]
        for call in calls:
            value = tirx.call_intrin("float32", call, vector_math.tanh(value))
        return value * tirx.const(2.0, "float32")

    func = te.create_prim_func([x, te.compute((64,), formula, "y")])
    return str(schedule_function(func, SKYLAKE).script())


@pytest.mark.parametrize("call", SCALAR)
def test_what_has_no_vectors_is_a_scalar_loop_where_values_are_named(call: str) -> None:
    assert "T.vectorized" not in scheduled(call)


@pytest.mark.parametrize("call", FORGOTTEN)
def test_what_has_vectors_stays_a_vector(call: str) -> None:
    assert "T.vectorized" in scheduled(call)


@pytest.mark.parametrize(
    ("call", "exact"),
    [("nearbyint", np.rint), ("rsqrt", lambda x: x**-0.5)],
)
def test_llvm_has_vectors_of_what_tvm_forgot(call: str, exact: Callable[[Array], Array]) -> None:
    module = compiled(getattr(tirx, call), 1024)
    x = np.random.default_rng(0).uniform(0.1, 0.9, (64, 16)).astype("float32")
    y = tvm.runtime.empty((64, 16), "float32")
    module(tvm.runtime.tensor(x), y)
    np.testing.assert_allclose(y.numpy(), exact(x), rtol=1e-6)
    code = module.mod.inspect_source("asm")
    assert not any(name in code for name in ("nearbyintf", "rintf", "sqrtf"))


@pytest.mark.parametrize("call", SCALAR)
def test_tvm_has_no_vectors_of_these(call: str) -> None:
    assert not tvm.ir.Op.get(call).get_attr("TVectorizable")


# Each rounds inside a named value and around it.
@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("activation", ["Tanh", "Sigmoid", "Gelu", "Erf"])
def test_codes_of_16_bits_around_an_activation(kind: str, activation: str) -> None:
    text = f"""
    g (float[{SHAPE[0]},{SHAPE[1]}] x) => (float[{SHAPE[0]},{SHAPE[1]}] y) {{
        a = QuantizeLinear (x, s, z)
        b = DequantizeLinear (a, s, z)
        c = {activation} (b)
        d = QuantizeLinear (c, s, z)
        y = DequantizeLinear (d, s, z)
    }}"""
    scale, zero = np.array(2**-9, "float32"), np.array(3, kind)
    model = parsed(text, 22, s=scale, z=zero)
    x = normal(*SHAPE)
    (found,), (expected,) = onnx_text.ours(model, {"x": x}), onnx_text.peers(model, {"x": x})
    # Codes that lie between two are rounded either way: by one.
    assert np.abs(found - expected).max() <= 2**-9


@pytest.mark.parametrize("outer", ["Acos", "Asin", "Atan", "Asinh"])
@pytest.mark.parametrize("inner", ["Atan", "Sinh", "Round", "Ceil"])
def test_functions_around_and_inside_of_an_activation(outer: str, inner: str) -> None:
    text = f"""
    g (float[{SHAPE[0]},{SHAPE[1]}] x) => (float[{SHAPE[0]},{SHAPE[1]}] y) {{
        a = {inner} (x)
        b = Tanh (a)
        c = {outer} (b)
        y = Mul (c, two)
    }}"""
    check_like_peer(parsed(text, two=np.array(2, "float32")), x=normal(*SHAPE))


@pytest.mark.parametrize("operator", ["IsNaN", "IsInf"])
def test_classes_of_numbers(operator: str) -> None:
    x = normal(2, 35)
    x[0, :4], x[1, 34] = [np.nan, np.inf, -np.inf, -0.0], np.nan
    text = f"g (float[2,35] x) => (bool[2,35] y) {{ y = {operator} (x) }}"
    check_like_peer(parsed(text), x=x)
