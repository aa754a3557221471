"""Bilinear interpolation at computed places, as ONNX's DeformConv defines it.

Along an axis a place lies between two pixels, of which each has a share. A pixel outside the image
counts as zero, so that the border's pixels fade out over one pixel::

    place                -1    -0.75   -0.25   0         H-1   H-0.75   H
    share of row 0        0     0.25    0.75   1
    share of row H-1                                      1     0.25    0
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import Expr

from tvm_neocpu.topi.deform_conv2d.geometry import INDEX_TYPE


def clamped(place: Expr, extent: int) -> Expr:
    """The place from -1 to ``extent``, where no pixel has a share: larger casts are undefined.

    NaN becomes ``extent``: the comparison fails, and the second operand is taken.
    """
    low, high = (tirx.const(value, place.ty.dtype) for value in (-1, extent))
    return tirx.Max(tirx.Min(place, high), low)


def pixel(place: Expr, extent: int, second: Expr | int) -> Expr:
    """The index, moved into the image, of the first or the second pixel at a clamped place."""
    first = tirx.floor(place).astype(INDEX_TYPE)
    return tirx.max(tirx.min(first + second, extent - 1), 0)


def share(place: Expr, extent: int, second: Expr | int) -> Expr:
    """The weight of that pixel in the interpolation; 0 where it lies outside the image.

    Only the first pixel of a clamped place can lie before the image.
    """
    zero, one, last = (tirx.const(value, place.ty.dtype) for value in (0, 1, extent - 1))
    first = tirx.floor(place)
    beyond = place - first
    of_first = tirx.Select(tirx.all(first >= zero, first <= last), one - beyond, zero)
    of_second = tirx.Select(first < last, beyond, zero)
    return tirx.Select(second == 0, of_first, of_second)
