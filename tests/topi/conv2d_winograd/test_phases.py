"""Phases of a strided convolution: the same convolution, of stride 1 over more channels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from nests import SKYLAKE, nest
from samples import BIAS, check

from tvm_neocpu.topi.conv2d.reference import convolved
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.phases import split_taps
from tvm_neocpu.topi.conv2d_winograd.tiled_conv import unit_stride

STEM = ConvWorkload(1, 3, 21, 17, 16, (7, 7), (2, 2), (3, 3, 2, 3))
UNEVEN = ConvWorkload(2, 4, 11, 14, 8, (3, 5), (1, 2), (1, 2, 1, 2))


def phases_of(data: np.ndarray, conv: ConvWorkload) -> np.ndarray:
    """(N, C, H, W), padded, as (N, C * s * s, rows, columns) of ``unit_stride(conv)``."""
    seen, (down, across) = unit_stride(conv), conv.stride
    top, left, _, _ = conv.padding
    shape = (*data.shape[:2], seen.height * down, seen.width * across)
    padded = np.zeros(shape, data.dtype)
    height, width = shape[2] - top, shape[3] - left
    kept = data[:, :, :height, :width]
    padded[:, :, top : top + kept.shape[2], left : left + kept.shape[3]] = kept
    split = padded.reshape(*data.shape[:2], seen.height, down, seen.width, across)
    return split.transpose(0, 1, 3, 5, 2, 4).reshape(seen.in_shape)


@pytest.mark.parametrize("conv", [STEM, UNEVEN], ids=["stem", "one stride"])
def test_split_taps_over_phases_are_the_same_convolution(conv: ConvWorkload) -> None:
    rng = np.random.default_rng(0)
    data, weight = rng.normal(size=conv.in_shape), rng.normal(size=conv.weight_shape)
    taps = split_taps(weight, conv)
    assert taps.shape == unit_stride(conv).weight_shape
    found = convolved(unit_stride(conv), phases_of(data, conv), taps)
    np.testing.assert_allclose(found, convolved(conv, data, weight), rtol=0, atol=1e-4)


@pytest.mark.parametrize("parallel_oc", [False, True], ids=["by chunks", "in one pass"])
def test_numbers(parallel_oc: bool) -> None:
    check(STEM, WinogradConfig(0, 16, 4, 3, 1, 3, parallel_oc), SKYLAKE, BIAS)


def test_neighbours_in_a_row_are_neighbouring_lanes() -> None:
    large = replace(STEM, height=64, width=64)
    loops = nest(large, WinogradConfig(0, 16, 4, 4), "phases")
    assert loops.startswith("parallel ")
    assert loops.endswith("unroll 6, vector 2")
    loops = nest(large, WinogradConfig(0, 16, 4, 4, 1, 8, True), "phases")
    assert loops.endswith("unroll 8, vector 2")
