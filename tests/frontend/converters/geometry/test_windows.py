"""Windows of a pool on one axis: counts, padding and what is refused."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.geometry.windows import WindowAxis, window_axis

NONE = (0, 0)


def test_plain_windows_keep_their_pads() -> None:
    axis = window_axis(7, 3, 2, 1, (1, 1), "NOTSET", ceil_mode=False)
    assert axis == WindowAxis(3, 2, 1, count=4, before=1, after=1)


def test_what_is_left_over_needs_ceil_mode() -> None:
    assert window_axis(6, 3, 2, 1, NONE, "NOTSET", ceil_mode=False).count == 2
    ceiled = window_axis(6, 3, 2, 1, NONE, "NOTSET", ceil_mode=True)
    assert (ceiled.count, ceiled.overhang) == (3, 1)


def test_ceil_mode_has_a_window_that_does_not_fit() -> None:
    """PyTorch pools the small last image of a network so."""
    axis = window_axis(2, 3, 2, 1, NONE, "NOTSET", ceil_mode=True)
    assert (axis.count, axis.overhang) == (1, 1)
    with pytest.raises(UnsupportedOperatorError, match="does not fit into 1"):
        window_axis(1, 3, 2, 1, NONE, "NOTSET", ceil_mode=True)


def test_a_window_that_would_start_in_the_padding_is_dropped() -> None:
    axis = window_axis(2, 3, 3, 1, (1, 1), "NOTSET", ceil_mode=True)
    assert (axis.count, axis.overhang) == (1, 0)


def test_dilations_widen_a_window() -> None:
    assert window_axis(9, 3, 1, 2, NONE, "NOTSET", ceil_mode=False).count == 5


@pytest.mark.parametrize(("auto_pad", "pads"), [("SAME_UPPER", (1, 2)), ("SAME_LOWER", (2, 1))])
def test_same_pads_to_the_length_over_the_stride(auto_pad: str, pads: tuple[int, int]) -> None:
    axis = window_axis(6, 5, 2, 1, (9, 9), auto_pad, ceil_mode=False)
    assert (axis.count, axis.before, axis.after) == (3, *pads)


@pytest.mark.parametrize(
    ("auto_pad", "length", "stride", "before"),
    [
        ("SAME_LOWER", 6, 2, 0),
        ("SAME_LOWER", 6, 3, 0),
        ("SAME_UPPER", 6, 3, -1),
        ("SAME_LOWER", 10, 5, -1),
        ("SAME_UPPER", 10, 5, -2),
    ],
)
def test_a_stride_above_the_kernel_skips_elements(
    auto_pad: str, length: int, stride: int, before: int
) -> None:
    axis = window_axis(length, 1, stride, 1, NONE, auto_pad, ceil_mode=False)
    assert (axis.count, axis.before, axis.after) == (2 if stride > 2 else 3, before, 0)


def test_valid_means_no_padding() -> None:
    assert window_axis(6, 3, 1, 1, (1, 1), "VALID", ceil_mode=False).count == 4


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((6, 3, 1, 1, (3, 0), "NOTSET"), "pads 3 and 0"),
        ((6, 3, 1, 1, (0, -1), "NOTSET"), "pads 0 and -1"),
        ((4, 3, 1, 2, NONE, "NOTSET"), "does not fit into 4"),
        ((6, 3, 1, 2, NONE, "SAME_UPPER"), "dilations"),
    ],
)
def test_what_is_refused(arguments: tuple[int, ...], reason: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=reason):
        window_axis(*arguments, ceil_mode=False)  # type: ignore[arg-type]
