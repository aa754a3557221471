"""One axis of a transposed convolution, as phases, against the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.relay_passes.convolutions.sub_pixel_axis import SubPixelAxis, sub_pixel_axis


def wanted_length(
    length: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int], extra: int
) -> int:
    return (length - 1) * stride + dilation * (kernel - 1) + 1 - sum(pads) + extra


def transposed(
    x: np.ndarray, w: np.ndarray, stride: int, dilation: int, padding: int, wanted: int
) -> np.ndarray:
    """Every input adds its scaled kernel to the output."""
    y = np.zeros(padding + wanted + stride * len(x) + dilation * len(w))
    for i, value in enumerate(x):
        for r, weight in enumerate(w):
            y[i * stride + r * dilation] += value * weight
    return y[padding : padding + wanted]


def by_phases(axis: SubPixelAxis, x: np.ndarray, w: np.ndarray, stride: int) -> np.ndarray:
    """The whole interleaved rows, of which the axis keeps a part."""
    padded = np.pad(x, (axis.before, axis.after))
    kernels = np.zeros((stride, axis.window))
    for tap in axis.taps:
        kernels[tap.phase, tap.place] = w[tap.source]
    reach = axis.dilation * (axis.window - 1) + 1
    windows = [padded[at : at + reach : axis.dilation] for at in range(len(padded) - reach + 1)]
    return np.stack([kernel @ np.array(windows).T for kernel in kernels], axis=1).reshape(-1)


@given(
    st.integers(1, 7),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(1, 3),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
    st.integers(0, 3),
)
def test_phases_compute_the_transposed_convolution(
    length: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int], extra: int
) -> None:
    wanted = wanted_length(length, kernel, stride, dilation, pads, extra)
    if wanted < 1:
        return
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=length), rng.normal(size=kernel)
    axis = sub_pixel_axis(length, kernel, stride, dilation, pads[0], wanted)
    whole = by_phases(axis, x, w, stride)
    assert len(whole) == axis.rows * stride
    assert axis.before >= 0 and axis.after >= 0
    expected = transposed(x, w, stride, dilation, pads[0], wanted)
    np.testing.assert_allclose(whole[axis.crop :][:wanted], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "stride", "pads", "extra", "window", "crop"),
    [
        (2, 2, (0, 0), 0, 1, 0),  # a 1x1 convolution, nothing dropped
        (3, 2, (1, 1), 1, 2, 0),
        (4, 2, (1, 1), 0, 2, 1),  # a window of three would drop nothing, for twice the work
        (4, 4, (0, 0), 0, 1, 0),
        (5, 3, (1, 1), 0, 2, 1),
        (3, 1, (1, 1), 0, 3, 0),
    ],
)
def test_windows_are_narrow(
    kernel: int, stride: int, pads: tuple[int, int], extra: int, window: int, crop: int
) -> None:
    wanted = wanted_length(8, kernel, stride, 1, pads, extra)
    axis = sub_pixel_axis(8, kernel, stride, 1, pads[0], wanted)
    assert (axis.window, axis.crop) == (window, crop)


def test_an_ordinary_convolution_keeps_its_dilation() -> None:
    axis = sub_pixel_axis(9, 3, stride=1, dilation=2, padding=1, wanted=11)
    assert (axis.window, axis.dilation, axis.before, axis.after, axis.crop) == (3, 2, 3, 3, 0)
