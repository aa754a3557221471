"""Tables of the bilinear resize: which pixels an output pixel blends, and how much of each."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.topi.image.resize_linear import taps


def test_twice_the_size() -> None:
    doubled = taps(2, 4, "half_pixel")
    assert doubled is not None
    assert doubled.index.tolist() == [[0, 0], [0, 1], [0, 1], [1, 1]]
    assert doubled.share.tolist() == [0.75, 0.25, 0.75, 0.25]


def test_corners_aligned() -> None:
    aligned = taps(3, 5, "align_corners")
    assert aligned is not None
    assert aligned.index.tolist() == [[0, 1], [0, 1], [1, 2], [1, 2], [2, 2]]
    assert aligned.share.tolist() == [0, 0.5, 0, 0.5, 0]


@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "pytorch_half_pixel"])
@pytest.mark.parametrize(("source", "target"), [(7, 7), (1, 5), (5, 1), (13, 4)])
def test_indices_stay_inside_and_shares_below_one(source: int, target: int, mode: str) -> None:
    found = taps(source, target, mode)
    assert found is not None
    assert found.index.shape == (target, 2)
    assert ((found.index >= 0) & (found.index < source)).all()
    assert ((found.share >= 0) & (found.share < 1)).all()
    if source == target:
        np.testing.assert_array_equal(found.index[:, 0], np.arange(source))


def test_other_modes_are_declined() -> None:
    assert taps(4, 8, "tf_crop_and_resize") is None
