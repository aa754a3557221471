"""One axis of a transposed convolution: what is cut off, what is added, what is refused."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.geometry.transposed_axis import TransposedAxis, transposed_axis

NONE = (0, 0)


def cut(axis: TransposedAxis) -> tuple[int, int, int]:
    return axis.crop_before, axis.crop_after, axis.extend


@pytest.mark.parametrize(
    ("pads", "output_padding", "size", "auto_pad", "expected"),
    [
        # Four inputs of stride 2 and kernel 3 reach 9 outputs.
        ((1, 1), 0, None, "NOTSET", (1, 1, 0)),
        ((1, 1), 1, None, "NOTSET", (1, 0, 0)),
        ((1, 0), 1, None, "NOTSET", (1, 0, 1)),
        ((1, 1), 0, None, "VALID", (0, 0, 0)),
        (NONE, 0, None, "SAME_UPPER", (0, 1, 0)),
        (NONE, 0, None, "SAME_LOWER", (1, 0, 0)),
        ((1, 1), 0, 6, "NOTSET", (2, 1, 0)),
        ((1, 1), 0, 6, "SAME_UPPER", (1, 2, 0)),
        (NONE, 0, 10, "NOTSET", (0, 0, 1)),
    ],
)
def test_where_the_output_lies(
    pads: tuple[int, int],
    output_padding: int,
    size: int | None,
    auto_pad: str,
    expected: tuple[int, int, int],
) -> None:
    assert cut(transposed_axis(4, 3, 2, 1, pads, output_padding, size, auto_pad)) == expected


def test_relax_makes_zeros_below_the_stride_alone() -> None:
    axis = TransposedAxis(kernel=3, stride=2, dilation=1, extend=3)
    assert (axis.output_padding, axis.zeros) == (1, 2)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((4, 3, 2, 1, (-1, 0), 0, None, "NOTSET"), "must not be negative"),
        ((4, 3, 2, 1, (5, 5), 0, None, "NOTSET"), "leave nothing"),
        ((4, 3, 2, 1, NONE, 2, None, "NOTSET"), "output_padding 2"),
        ((4, 3, 2, 1, NONE, 0, 11, "NOTSET"), "reach 9 only"),
        ((4, 1, 2, 1, NONE, 0, None, "SAME_UPPER"), "stride above the kernel"),
    ],
)
def test_what_is_refused(arguments: tuple[int, ...], reason: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=reason):
        transposed_axis(*arguments)  # type: ignore[arg-type]
