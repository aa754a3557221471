"""Vectorised functions against float64 over a dense grid, their limits, and no call of libm."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from formulas import applied, compiled
from tvm import te, tirx

from tvm_neocpu.topi.math import vector_math

Array = npt.NDArray[np.float64]
Formula = Callable[[tirx.Expr], tirx.Expr]

SMALLEST_NORMAL = np.finfo(np.float32).tiny


def run(formula: Formula, values: npt.NDArray[np.float32]) -> Array:
    return applied(formula, values, HOST).astype("float64")


def grid() -> npt.NDArray[np.float32]:
    """Dense where the functions bend, logarithmic towards 0 and to the largest number."""
    rising = np.geomspace(1e-37, 3e38, 100_001)
    parts = [np.linspace(-110, 110, 400_001), np.linspace(-2, 2, 100_001), rising, -rising]
    return np.concatenate(parts).astype("float32")


HOST = "llvm"
GRID = grid()
WIDE = GRID.astype("float64")


def sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -x))


def erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x)


def gelu_tanh(x: Array) -> Array:
    return x * sigmoid(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))


def softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


# function -> (the truth, largest error in units of the last place)
ULPS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "exp": (np.exp, 2),
    "log": (np.log, 3),
    "sigmoid": (sigmoid, 4),
    "tanh": (np.tanh, 4),
    "erf": (erf, 8),
    "softplus": (softplus, 4),
    "silu": (lambda x: x * sigmoid(x), 4),
}


@pytest.mark.parametrize("name", ULPS)
def test_errors_are_a_few_units_in_the_last_place(name: str) -> None:
    truth, bound = ULPS[name]
    with np.errstate(all="ignore"):
        expected = truth(WIDE)
        nearest = expected.astype("float32")
    got = run(getattr(vector_math, name), GRID)
    # e^-88.4 and what is smaller is flushed where it is not the result itself.
    normal = np.isfinite(nearest) & (np.abs(expected) > SMALLEST_NORMAL)
    normal &= (GRID > -87) | (name == "exp")
    unit = np.spacing(np.abs(nearest[normal])).astype("float64")
    error = np.abs(got[normal] - expected[normal]) / unit
    assert error.max() <= bound, (GRID[normal][error.argmax()], error.max())
    small = np.isfinite(nearest) & ~normal
    assert np.abs(got[small] - expected[small]).max(initial=0) < 4 * 88 * SMALLEST_NORMAL


@pytest.mark.parametrize(
    ("name", "truth"),
    [("gelu", lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2)))), ("gelu_tanh", gelu_tanh)],
)
def test_gelu_errs_by_less_than_its_argument(name: str, truth: Callable[[Array], Array]) -> None:
    with np.errstate(over="ignore"):
        error = np.abs(run(getattr(vector_math, name), GRID) - truth(WIDE))
    assert (error <= 3e-7 * np.abs(WIDE)).all()


def test_tanh_and_erf_stay_within_one() -> None:
    for formula in (vector_math.tanh, vector_math.erf):
        assert np.abs(run(formula, GRID)).max() == 1


INF, NAN = math.inf, math.nan
# function -> results for 0, inf, -inf, NaN, the largest number and its negative
LIMITS: dict[str, tuple[float, float, float, float, float, float]] = {
    "exp": (1, INF, 0, NAN, INF, 0),
    "exp_of_negative": (1, INF, 0, NAN, INF, 0),
    "log": (-INF, INF, NAN, NAN, math.log(3e38), NAN),
    "sigmoid": (0.5, 1, 0, NAN, 1, 0),
    "silu": (0, INF, NAN, NAN, 3e38, 0),
    "tanh": (0, 1, -1, NAN, 1, -1),
    "erf": (0, 1, -1, NAN, 1, -1),
    "gelu": (0, INF, NAN, NAN, 3e38, 0),
    "gelu_tanh": (0, INF, NAN, NAN, 3e38, 0),
    "softplus": (math.log(2), INF, 0, NAN, 3e38, 0),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name: str) -> None:
    values = np.array([0, INF, -INF, NAN, 3e38, -3e38], "float32")
    got = run(getattr(vector_math, name), values)
    np.testing.assert_allclose(got, np.array(LIMITS[name], "float32"), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["tanh", "erf", "silu", "gelu", "gelu_tanh"])
def test_zero_keeps_its_sign(name: str) -> None:
    zeros = np.array([0.0, -0.0], "float32")
    np.testing.assert_array_equal(np.signbit(run(getattr(vector_math, name), zeros)), [False, True])


def test_exp_underflows_gradually() -> None:
    values = np.array([-87.5, -95, -103, -104], "float32")
    got = run(vector_math.exp, values)
    np.testing.assert_allclose(got, np.exp(values.astype("float64")), rtol=0, atol=2e-45)
    assert got[0] > got[1] > got[2] > 0 == got[3]


@pytest.mark.parametrize(("beta", "threshold"), [(0.5, 20.0), (3.0, 2.0), (1.0, 1.0)])
def test_softplus_takes_beta_and_threshold(beta: float, threshold: float) -> None:
    values = np.linspace(-30, 30, 1001).astype("float32")
    got = run(lambda x: vector_math.softplus(x, beta, threshold), values)
    x = values.astype("float64")
    expected = np.where(beta * x > threshold, x, np.logaddexp(0, beta * x) / beta)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-37)  # rounding beta x costs a few


@pytest.mark.parametrize("mcpu", ["skylake-avx512", "haswell"])
@pytest.mark.parametrize("name", sorted(LIMITS))
def test_everything_is_vector_arithmetic(name: str, mcpu: str) -> None:
    module = compiled(getattr(vector_math, name), 1024, f"llvm -mcpu={mcpu}")
    text = module.mod.inspect_source("ll")
    assert re.search(r"llvm\.fmuladd\.v(32|64)f32", text), "four vectors in flight"
    for function in ("exp", "log", "tanh", "erf", "expf", "logf", "tanhf", "erff"):
        assert f"@{function}(" not in text and f"@llvm.{function}." not in text


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_an_argument_is_computed_once(name: str) -> None:
    x = te.placeholder((4, 16), name="argument")
    formula = getattr(vector_math, name)
    func = te.create_prim_func([x, te.compute(x.shape, lambda *index: formula(x(*index)))])
    statement = func.script().splitlines()[-1]
    assert statement.count("argument[") == 1


@pytest.mark.parametrize("outer", ["tanh", "silu"])
def test_functions_of_functions(outer: str) -> None:
    function, truth = getattr(vector_math, outer), ULPS[outer][0]
    values = np.linspace(-30, 30, 1001).astype("float32")
    got = run(lambda x: function(vector_math.softplus(x)), values)
    expected = truth(np.logaddexp(0, values.astype("float64")))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("shift", [0, 7, 128])
def test_nearest_rounds_halves_to_even_and_shifts(shift: int) -> None:
    values = np.concatenate([np.linspace(-300, 300, 4801), np.linspace(-4e6, 4e6, 4801)])
    values = values.astype("float32")
    found = run(lambda x: vector_math.nearest(x, shift), values)
    np.testing.assert_array_equal(found, np.round(values.astype("float64")) + shift)
