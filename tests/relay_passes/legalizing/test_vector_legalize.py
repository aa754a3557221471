"""Relax operators as vector arithmetic: float32 ours, everything else TVM's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax.transform import LegalizeOps

from tvm_neocpu.relay_passes.legalizing.vector_legalize import vector_legalization
from tvm_neocpu.topi.math.lets import MULTIPLY_ADD

op = relax.op
SHAPE = (2, 3, 5, 16)

# operator -> how a test calls it
CALLS: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "relax.acos": lambda x: op.acos(op.divide(x, op.add(op.abs(x), op.exp(op.abs(x))))),
    "relax.asin": lambda x: op.asin(op.divide(x, op.add(op.abs(x), op.exp(op.abs(x))))),
    "relax.atan": op.atan,
    "relax.erf": op.erf,
    "relax.exp": op.exp,
    "relax.log": lambda x: op.log(op.abs(x)),
    "relax.nn.gelu": op.nn.gelu,
    "relax.nn.gelu_tanh": op.nn.gelu_tanh,
    "relax.nn.log_softmax": op.nn.log_softmax,
    "relax.nn.silu": op.nn.silu,
    "relax.nn.softmax": lambda x: op.nn.softmax(x, axis=1),
    "relax.nn.softplus": lambda x: op.nn.softplus(x, 0.5, 3.0),
    "relax.sigmoid": op.sigmoid,
    "relax.tanh": op.tanh,
}

# The same for those that are no arithmetic, and their answers by NumPy.
COMPARISONS: dict[str, tuple[Callable[[relax.Expr], relax.Expr], Callable[..., np.ndarray]]] = {
    "relax.clip": (lambda x: op.clip(x, -1, 2), lambda x: np.minimum(np.maximum(x, -1), 2)),
    "relax.maximum": (lambda x: op.maximum(x, op.negative(x)), np.abs),
    "relax.minimum": (
        lambda x: op.minimum(relax.const(0.5, x.ty.dtype), x),
        lambda x: np.minimum(x, 0.5),
    ),
    "relax.mod": (lambda x: op.mod(x, relax.const(0.75)), lambda x: np.fmod(x, 0.75)),
    "relax.nn.relu": (op.nn.relu, lambda x: np.maximum(x, 0)),
    "relax.sign": (op.sign, np.sign),
}


def module(call: Callable[[relax.Expr], relax.Expr], dtype: str = "float32") -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(call(x)))
        builder.emit_func_output(result)
    return builder.get()


def run(mod: tvm.IRModule, x: np.ndarray) -> np.ndarray:
    executable = tvm.compile(mod, tvm.target.Target({"kind": "llvm"}))
    return relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()


# Reductions, and their answers by NumPy.
EXTREMES: dict[str, tuple[Callable[..., relax.Expr], Callable[..., np.ndarray]]] = {
    "relax.max": (op.max, np.max),
    "relax.min": (op.min, np.min),
}


def test_every_operator_of_the_table_is_tried() -> None:
    assert {*CALLS, *COMPARISONS, *EXTREMES} == set(vector_legalization())


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("axes", [None, (1,), (-1, 0)])
@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes(name: str, axes: tuple[int, ...] | None, keeps: bool, dtype: str) -> None:
    reduce, expected = EXTREMES[name]
    x = (np.random.default_rng(0).normal(size=SHAPE) * 9).astype(dtype)
    if dtype == "float32":
        x[0] = -np.inf if name == "relax.max" else np.inf
    mod = module(lambda v: reduce(v, axes and list(axes), keepdims=keeps), dtype)
    found = run(LegalizeOps(vector_legalization())(mod), x)
    np.testing.assert_array_equal(found, expected(x, axes, keepdims=keeps))


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_pass_nan(name: str) -> None:
    call, expected = COMPARISONS[name]
    x = np.random.default_rng(0).normal(size=SHAPE).astype("float32")
    x[0, 0, 0, :6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, -np.nan]
    found = run(LegalizeOps(vector_legalization())(module(call)), x)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, expected(x))


@pytest.mark.parametrize("name", CALLS)
def test_answers_are_tvms(name: str) -> None:
    mod = module(CALLS[name])
    x = (np.random.default_rng(0).normal(size=SHAPE) * 4).astype("float32")
    ours = LegalizeOps(vector_legalization())(mod)
    assert MULTIPLY_ADD.removeprefix("tirx.") in ours.script()
    np.testing.assert_allclose(run(ours, x), run(mod, x), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_half_precision_goes_tvms_way(name: str) -> None:
    mod = module(CALLS[name], "float16")
    tvm.ir.assert_structural_equal(LegalizeOps(vector_legalization())(mod), LegalizeOps()(mod))


@pytest.mark.parametrize("shape", [(16,), (5, 1), (2, 1, 1, 16), (1, 3, 5, 16), ()])
def test_remainders_of_broadcast_operands(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=each).astype("float32") for each in (SHAPE, shape))
    right = module(lambda data: op.mod(data, relax.const(y)))
    left = module(lambda data: op.mod(relax.const(y), data))
    for mod, expected in ((right, np.fmod(x, y)), (left, np.fmod(y, x))):
        found = run(LegalizeOps(vector_legalization())(mod), x)
        np.testing.assert_array_equal(found, expected)


def test_an_activation_is_elementwise_to_the_fusion() -> None:
    mod = LegalizeOps(vector_legalization())(module(op.nn.silu))
    mod = relax.transform.AnnotateTIROpPattern()(mod)
    (func,) = (func for func in mod.functions.values() if isinstance(func, tirx.PrimFunc))
    assert int(func.attrs["op_pattern"]) == 0
