"""Slices with known bounds."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.relay_passes.layouts.slices import Range, blocked_slice, read_slice, slice_of

BUILDER = relax.BlockBuilder()
SHAPE = (2, 16, 6, 5)
X = relax.Var("x", relax.TensorType(SHAPE, "float32"))
END = 2**63 - 1


def sliced(*args: list[int]) -> relax.Call:
    return BUILDER.normalize(relax.op.strided_slice(X, *args))


@pytest.mark.parametrize(
    ("args", "ranges"),
    [
        (([1], [0], [8]), (Range(1, 0, 8),)),
        (([-3], [4], [END]), (Range(1, 4, 16),)),
        (([1], [-6], [-2]), (Range(1, 10, 14),)),
        (([2, 3], [1, 0], [6, 5], [2, 3]), (Range(2, 1, 6, 2), Range(3, 0, 5, 3))),
        (([1], [0], [16], [1]), (Range(1, 0, 16),)),
        (([3], [-99], [2]), (Range(3, 0, 2),)),
    ],
)
def test_bounds_are_counted_from_the_front(
    args: tuple[list[int], ...], ranges: tuple[Range, ...]
) -> None:
    assert read_slice(sliced(*args)) == ranges


def test_backwards_is_not_read() -> None:
    assert read_slice(sliced([1], [15], [3], [-1])) is None


def test_other_calls_are_not_slices() -> None:
    assert read_slice(BUILDER.normalize(relax.op.nn.relu(X))) is None
    assert read_slice(X) is None


def test_an_unknown_extent_is_not_read() -> None:
    y = relax.Var("y", relax.TensorType(dtype="float32", ndim=4))
    assert read_slice(BUILDER.normalize(relax.op.strided_slice(y, [1], [0], [8]))) is None


def test_in_blocks_the_channels_bounds_are_blocks() -> None:
    call = sliced([1, 3], [4, 1], [12, 5], [1, 2])
    stored = relax.Var("stored", relax.TensorType((2, 4, 6, 5, 4), "float32"))
    found = read_slice(BUILDER.normalize(blocked_slice(call, stored, Layout(4))))
    assert found == (Range(1, 1, 3), Range(3, 1, 5, 2))


def test_plain_channels_are_as_they_were() -> None:
    call = sliced([1], [4], [12])
    assert read_slice(BUILDER.normalize(blocked_slice(call, X, Layout(0)))) == (Range(1, 4, 12),)


def test_what_is_written_is_read() -> None:
    ranges = (Range(1, 3, 11), Range(2, 0, 6, 4))
    call = BUILDER.normalize(slice_of(X, ranges))
    assert read_slice(call) == ranges
    array = np.zeros(SHAPE)[:, 3:11, 0:6:4]
    assert tuple(int(extent) for extent in call.ty.shape) == array.shape
