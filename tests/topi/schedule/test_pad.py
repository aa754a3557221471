"""Zero padding of feature maps, plain and blocked."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te

from tvm_neocpu.topi.conv2d.workload import Padding
from tvm_neocpu.topi.schedule.pad import pad_spatial


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 2, 3, 4, 8)])
@pytest.mark.parametrize("padding", [(1, 2, 3, 4), (0, 1, 0, 0), (2, 0, 0, 0), (0, 0, 0, 3)])
def test_padding(shape: tuple[int, ...], padding: Padding) -> None:
    top, left, bottom, right = padding
    widths = [(0, 0), (0, 0), (top, bottom), (left, right), (0, 0)][: len(shape)]
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    np.testing.assert_array_equal(padded(x, padding, (1, 1)), np.pad(x, widths))


def test_tiles_may_overhang() -> None:
    x = np.ones((1, 1, 3, 4), "float32")
    assert padded(x, (1, 0, 0, 0), (6, 9)).shape == (1, 1, 6, 9)
    np.testing.assert_array_equal(
        padded(x, (1, 0, 0, 0), (6, 3)), np.pad(x, [(0, 0), (0, 0), (1, 2), (0, 0)])
    )


def test_nothing_to_pad() -> None:
    data = te.placeholder((1, 2, 5, 5), name="data")
    assert pad_spatial(data, (0, 0, 0, 0), (5, 4), "pad") is data


def padded(x: np.ndarray, padding: Padding, at_least: tuple[int, int]) -> np.ndarray:
    data = te.placeholder(x.shape, name="data")
    result = pad_spatial(data, padding, at_least, "pad")
    out = tvm.runtime.tensor(np.full([int(extent) for extent in result.shape], np.nan, "float32"))
    func = tvm.compile(te.create_prim_func([data, result]), target=tvm.target.Target("llvm"))
    func["main"](tvm.runtime.tensor(x), out)
    return out.numpy()
