"""Softmax and its logarithm against float64, over every axis, and for values that overflow."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te

from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.math.softmax import log_softmax, softmax
from tvm_neocpu.topi.schedule_function import schedule_function

TARGET = parse_target()


def run(compute, values: np.ndarray, axis: int) -> np.ndarray:
    x = te.placeholder(values.shape, name="x")
    func = schedule_function(te.create_prim_func([x, compute(x, axis)]), TARGET.cpu)
    out = tvm.runtime.empty(values.shape, "float32")
    tvm.compile(func, TARGET.target)(tvm.runtime.tensor(values), out)
    return out.numpy()


def log_of_softmax(values: np.ndarray, axis: int) -> np.ndarray:
    shifted = values.astype("float64") - values.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


CASES = [((7,), 0), ((3, 1000), -1), ((1, 17), 1), ((2, 6, 13, 11), 1), ((2, 19, 5, 80), 1)]


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_softmax(shape: tuple[int, ...], axis: int) -> None:
    values = (np.random.default_rng(0).normal(size=shape) * 30).astype("float32")
    expected = log_of_softmax(values, axis)
    np.testing.assert_allclose(run(softmax, values, axis), np.exp(expected), rtol=1e-5, atol=1e-37)
    np.testing.assert_allclose(run(log_softmax, values, axis), expected, rtol=2e-6, atol=1e-6)


def test_large_values_do_not_overflow() -> None:
    values = np.array([[1e4, 1e4, -1e4, -np.inf]], "float32")
    assert run(softmax, values, 1).tolist() == [[0.5, 0.5, 0, 0]]
