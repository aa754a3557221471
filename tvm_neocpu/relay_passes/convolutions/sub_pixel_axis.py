"""One axis of a transposed convolution as one ordinary convolution for each output phase.

Output ``y`` of a transposed convolution with stride s and dilation d is the sum of ``x[i] * w[r]``
over all ``i s + r d = y + padding``. The outputs ``y = j s + p`` of one phase p read the input at
the same offsets ``i - j``, so that each phase is a convolution (Shi et al. 2016, "Is the
deconvolution layer the same as a convolutional layer?"). The phases share one window, the union of
theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Tap:
    """Element ``source`` of the kernel stands at ``place`` in the window of ``phase``."""

    phase: int
    place: int
    source: int


@dataclass(frozen=True)
class SubPixelAxis:
    """A convolution of ``window`` taps; its output, interleaved and cropped, is the wanted one.

    ``before`` and ``after`` are its padding. It has ``rows`` outputs for each phase. Of the
    ``rows * stride`` interleaved rows the first ``crop`` are dropped, and all behind the wanted
    length.
    """

    window: int
    before: int
    after: int
    rows: int
    crop: int
    dilation: int
    taps: tuple[Tap, ...]


def sub_pixel_axis(
    length: int, kernel: int, stride: int, dilation: int, padding: int, wanted: int
) -> SubPixelAxis:
    """The axis with the narrowest window; among those the one that drops the fewest rows.

    ``length`` and ``wanted`` are the extents of input and output, ``padding`` the leading padding.
    """
    crops = range(padding + 1)
    every = (_aligned(length, kernel, stride, dilation, padding, wanted, crop) for crop in crops)
    return min(
        (axis for axis in every if axis.before >= 0), key=lambda axis: (axis.window, axis.crop)
    )


def _aligned(
    length: int, kernel: int, stride: int, dilation: int, padding: int, wanted: int, crop: int
) -> SubPixelAxis:
    """The axis for interleaved rows that begin ``crop`` rows before the wanted ones."""
    spacing = dilation if stride == 1 else 1
    offsets = {
        (phase, tap): (phase + padding - crop - tap * dilation) // stride
        for phase in range(stride)
        for tap in range(kernel)
        if (phase + padding - crop - tap * dilation) % stride == 0
    }
    first, last = min(offsets.values()), max(offsets.values())
    rows = math.ceil((wanted + crop) / stride)
    # The last window ends at row `rows - 1 + last` of the input.
    after = max(0, rows + last - length)
    return SubPixelAxis(
        window=(last - first) // spacing + 1,
        before=-first,
        after=after,
        rows=length + after - last,
        crop=crop,
        dilation=spacing,
        taps=tuple(
            Tap(phase, (offset - first) // spacing, tap) for (phase, tap), offset in offsets.items()
        ),
    )


__all__ = ["SubPixelAxis", "Tap", "sub_pixel_axis"]
