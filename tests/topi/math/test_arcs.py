"""asin, acos and atan against float64, their limits, and no call of libm."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from formulas import applied, compiled

from tvm_neocpu.topi.math import arcs

Array = npt.NDArray[np.float64]
TRUTH: dict[str, Callable[[Array], Array]] = {
    "acos": np.arccos,
    "asin": np.arcsin,
    "atan": np.arctan,
}
INF, NAN, HALF_PI = math.inf, math.nan, math.pi / 2
# Results for 0, -0, 1, -1, what lies just outside, inf, -inf and NaN.
ARGUMENTS = (0.0, -0.0, 1.0, -1.0, 1.0000001, -1.0000001, INF, -INF, NAN)
LIMITS = {
    "acos": (HALF_PI, HALF_PI, 0.0, math.pi, NAN, NAN, NAN, NAN, NAN),
    "asin": (0.0, -0.0, HALF_PI, -HALF_PI, NAN, NAN, NAN, NAN, NAN),
    "atan": (0.0, -0.0, HALF_PI / 2, -HALF_PI / 2, 0.7853982, -0.7853982, HALF_PI, -HALF_PI, NAN),
}


@pytest.mark.parametrize("name", TRUTH)
def test_errors_are_a_few_units_in_the_last_place(name: str) -> None:
    tiny, most = np.geomspace(1e-37, 1, 50_001), 3e38 if name == "atan" else 1
    parts = [np.linspace(-1, 1, 400_001), tiny, -tiny, 1 - tiny[:20_000], tiny - 1]
    parts += [np.geomspace(1, most, 50_001), np.linspace(-min(most, 9), min(most, 9), 200_001)]
    values = np.concatenate(parts).astype("float32")
    expected = TRUTH[name](values.astype("float64"))
    found = applied(getattr(arcs, name), values)
    unit = np.spacing(np.abs(expected).astype("float32")).astype("float64")
    error = np.abs(found - expected) / unit
    assert error.max() <= 4, (values[error.argmax()], error.max())


@pytest.mark.parametrize("name", TRUTH)
def test_limits(name: str) -> None:
    found, expected = (
        applied(getattr(arcs, name), np.array(ARGUMENTS, "float32")),
        np.array(LIMITS[name], "float32"),
    )
    np.testing.assert_allclose(found, expected, rtol=2e-7, atol=0)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("mcpu", ["skylake-avx512", "haswell"])
@pytest.mark.parametrize("name", TRUTH)
def test_it_is_vector_arithmetic(name: str, mcpu: str) -> None:
    module = compiled(getattr(arcs, name), 1024, f"llvm -mcpu={mcpu}")
    text = module.mod.inspect_source("ll")
    assert "x float>" in text
    assert not any(f"@{call}" in text for call in ("acosf", "asinf", "atanf", "acos", "atan"))
