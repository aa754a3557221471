"""The axis of depth: which images outputs read, told and found again, and read by a kernel."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import assume, given
from hypothesis import strategies as st
from tvm import te

from tvm_neocpu.topi.image.depth import OUTSIDE, Depth, depth_rows, depth_windows


@st.composite
def depths(draw: st.DrawFn) -> Depth:
    extent, taps, dilation = (
        draw(st.integers(1, 7)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 3)),
    )
    before, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    stride, reach = draw(st.integers(1, 3)), dilation * (taps - 1) + 1
    outputs = max(1, (extent + before + after - reach) // stride + 1)
    return Depth(draw(st.integers(1, 3)), extent, outputs, taps, stride, dilation, before)


def read(depth: Depth, volumes: np.ndarray) -> np.ndarray:
    """(N, D, B, ...) -> (N, outputs, taps, B, ...), by padding and counting."""
    behind = max(0, depth.place(depth.outputs - 1, depth.taps - 1) - depth.extent + 1)
    widths = [(0, 0), (depth.before, behind), *[(0, 0)] * (volumes.ndim - 2)]
    padded = np.pad(volumes, widths)
    return np.stack(
        [
            padded[:, tap * depth.dilation :][:, :: depth.stride][:, : depth.outputs]
            for tap in range(depth.taps)
        ],
        axis=2,
    )


@given(depths())
def test_images_are_those_of_a_padded_volume(depth: Depth) -> None:
    numbers = np.arange(1, depth.batch * depth.extent + 1).reshape(depth.batch, depth.extent)
    expected = read(depth, numbers).reshape(-1, depth.taps) - 1
    np.testing.assert_array_equal(depth.images(), expected)


@given(depths())
def test_a_depth_is_found_in_its_images(depth: Depth) -> None:
    assume(max(depth.stride, depth.dilation) <= depth.extent)
    assume((depth.images() != OUTSIDE).any())
    found = Depth.of_images(depth.images(), depth.batch * depth.extent)
    assert found is not None
    np.testing.assert_array_equal(found.images(), depth.images())


@pytest.mark.parametrize(
    "images",
    [
        [[0, 2], [1, 0]],
        [[3, 1], [2, 0], [5, 4]],
        [[0], [1], [3]],
        [[OUTSIDE]],
        [[3], [2], [1], [0], [OUTSIDE]],
    ],
)
def test_other_images_are_no_depth(images: list[list[int]]) -> None:
    assert Depth.of_images(np.array(images), 6) is None


@pytest.mark.parametrize(
    "depth",
    [Depth(1, 5, 5, 3, before=1), Depth(2, 4, 2, 2, 2, 1, 1), Depth(3, 5, 3, 2, dilation=2)],
)
def test_windows_are_computed(depth: Depth) -> None:
    volumes = np.random.default_rng(0).normal(size=(depth.batch, depth.extent, 2, 3, 4, 5))
    data = te.placeholder((depth.batch * depth.extent, 2, 3, 4, 5), "float64")
    made = te.create_prim_func([data, depth_windows(data, depth)])
    expected = read(depth, volumes).reshape(depth.batch * depth.outputs, -1, 3, 4, 5)
    result = tvm.runtime.tensor(np.zeros(expected.shape))
    tvm.compile(made, "llvm")(tvm.runtime.tensor(volumes.reshape(-1, 2, 3, 4, 5)), result)
    np.testing.assert_array_equal(result.numpy(), expected)


@given(depths())
def test_rows_of_images_are_computed(depth: Depth) -> None:
    """Row y of each image that an output reads, then row y + 1; in blocks of channels, too."""
    volumes = np.random.default_rng(3).standard_normal((depth.batch, depth.extent, 2, 3, 2, 4))
    expected = read(depth, volumes).transpose(0, 1, 3, 4, 2, 5, 6)
    images = volumes.reshape(-1, *volumes.shape[2:])
    data = te.placeholder(images.shape, "float64", "data")
    rows = depth_rows(data, depth)
    run = tvm.compile(te.create_prim_func([data, rows]), "llvm")
    result = tvm.runtime.tensor(np.zeros([int(extent) for extent in rows.shape]))
    run(tvm.runtime.tensor(images), result)
    np.testing.assert_array_equal(result.numpy(), expected.reshape(result.shape))
