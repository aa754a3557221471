"""Reductions over blocked images: several partial results, one sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from nests import SKYLAKE
from tvm import te, tirx

from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.math.extremes import largest, smallest
from tvm_neocpu.topi.schedule_function import schedule_function

TARGET = parse_target()
Reduce = Callable[..., Any]


def over_images(reduce: Reduce, *shape: int) -> tirx.PrimFunc:
    """``(n, o, y, x, c)`` -> ``(n, o, c)``."""
    x = te.placeholder(shape, name="x")
    y, z = te.reduce_axis((0, shape[2]), "y"), te.reduce_axis((0, shape[3]), "z")
    one = (*shape[:2], shape[4])
    result = te.compute(one, lambda n, o, c: reduce(x[n, o, y, z, c], axis=[y, z]), "result")
    return te.create_prim_func([x, result])


def computed(
    func: tirx.PrimFunc, x: np.ndarray, shape: tuple[int, ...] | None = None
) -> np.ndarray:
    """The function's result; of ``shape``, else of an image's blocks."""
    scheduled = schedule_function(func, TARGET.cpu).with_attr("global_symbol", "main")
    result = tvm.runtime.empty(shape or (*x.shape[:2], x.shape[4]))
    tvm.compile(tvm.IRModule({"main": scheduled}), TARGET.target)["main"](
        tvm.runtime.tensor(x), result
    )
    return result.numpy()


@pytest.mark.parametrize(
    ("columns", "lanes", "sums"),
    [(56, 16, 8), (56, 32, 4), (7, 16, 7), (10, 16, 5), (10, 64, 2), (13, 16, 1), (9, 32, 3)],
)
def test_an_image_has_as_many_sums_as_fit_eight_registers(
    columns: int, lanes: int, sums: int
) -> None:
    """And as divide its columns: one sum waits for each of its additions."""
    text = schedule_function(over_images(te.sum, 1, 3, 12, columns, lanes), SKYLAKE).script()
    assert ("result_rf" in text) == (sums > 1)
    assert (f"T.unroll({sums})" in text) == (sums > 1)


def test_a_small_window_has_one_sum() -> None:
    assert (
        "result_rf" not in schedule_function(over_images(te.sum, 1, 3, 3, 8, 16), SKYLAKE).script()
    )


@pytest.mark.parametrize("columns", [8, 11, 14])
@pytest.mark.parametrize("lanes", [16, 24])
@pytest.mark.parametrize(("reduce", "expected"), [(te.sum, np.sum), (te.max, np.max)])
def test_partial_results_add_up(columns: int, lanes: int, reduce: Reduce, expected: Reduce) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 9, columns, lanes), "float32")
    found = computed(over_images(reduce, *x.shape), x)
    np.testing.assert_allclose(found, expected(x.astype("float64"), axis=(2, 3)), atol=3e-5)


@pytest.mark.parametrize(("extreme", "expected"), [(largest, np.max), (smallest, np.min)])
def test_extremes_begin_at_infinity_and_keep_rows_in_registers(
    extreme: Callable[..., te.Tensor], expected: Reduce
) -> None:
    """TVM's ``rfactor`` refuses them: the function was left as it was, six times as slow."""
    x = te.placeholder((2, 256, 5, 28), name="x")
    func = te.create_prim_func([x, extreme(x, (1,), keeps=False)])
    text = schedule_function(func, SKYLAKE).script()
    assert "T.vectorized(" in text and "_rf" not in text
    data = np.random.default_rng(0).standard_normal((2, 256, 5, 28), "float32")
    data[0, :, 0] = -np.inf if extreme is largest else np.inf
    found = computed(func, data, (2, 5, 28))
    np.testing.assert_array_equal(found, expected(data, axis=1))


def test_the_sum_of_a_large_image_rounds_little() -> None:
    """A single one of 256 x 256 numbers between 0 and 1 was off by 5e-6 of itself."""
    x = np.random.default_rng(0).random((1, 1, 256, 256, 16), "float32")
    found = computed(over_images(te.sum, *x.shape), x)
    np.testing.assert_allclose(found, x.sum((2, 3), "float64"), rtol=2e-6)
