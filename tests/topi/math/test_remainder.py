"""fmod of float32 against C's, bit for bit, and no call of libm."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from formulas import compiled
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.topi.math import remainder

Floats = npt.NDArray[np.float32]

COUNT = 4096
SMALLEST, NORMAL, LARGEST = 1e-45, 1.1754944e-38, 3.4028235e38
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, SMALLEST, -SMALLEST, NORMAL, LARGEST, 6.0, -3.0]


@pytest.fixture(scope="module", name="module")
def _module() -> tvm.runtime.Module:
    return compiled(remainder.fmod, COUNT, operands=2)


def check(module: tvm.runtime.Module, x: Floats, y: Floats) -> None:
    out = tvm.runtime.empty((COUNT // 16, 16), "float32")
    module(*(tvm.runtime.tensor(each.reshape(-1, 16)) for each in (x, y)), out)
    with np.errstate(invalid="ignore"):
        expected = np.fmod(x, y)
    found = out.numpy().ravel()
    np.testing.assert_array_equal(found, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))


@given(seed=st.integers(0, 2**32 - 1))
def test_of_any_bits(module: tvm.runtime.Module, seed: int) -> None:
    rng = np.random.default_rng(seed)
    check(module, *rng.integers(0, 2**32, (2, COUNT), dtype="uint32").view("float32"))


@given(seed=st.integers(0, 2**32 - 1), bits=st.integers(1, 126))
def test_near_multiples(module: tvm.runtime.Module, seed: int, bits: int) -> None:
    """Where a quotient rounded the wrong way would show."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(1, 2, COUNT).astype("float32")
    x = (y.astype("float64") * np.floor(rng.uniform(0, 2.0**bits, COUNT))).astype("float32")
    check(module, np.nextafter(x, rng.choice([-np.inf, np.inf, 0], COUNT).astype("float32")), y)


def test_limits(module: tvm.runtime.Module) -> None:
    x, y = (np.resize(each, COUNT).astype("float32") for each in np.meshgrid(SPECIAL, SPECIAL))
    check(module, x, y)


@pytest.mark.parametrize("mcpu", ["skylake-avx512", "haswell"])
def test_it_is_vector_arithmetic(mcpu: str) -> None:
    module = compiled(remainder.fmod, COUNT, f"llvm -mcpu={mcpu}", operands=2)
    text = module.mod.inspect_source("ll")
    assert re.search(r"llvm\.fma\.v\d+f64", text)
    assert "frem" not in text and "@fmod" not in text
