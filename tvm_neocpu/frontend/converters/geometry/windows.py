"""The windows of a pool: how many there are on each axis, and where they start."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_neocpu.core.errors import UnsupportedOperatorError

SAME = ("SAME_UPPER", "SAME_LOWER")
AUTO_PADS = ("NOTSET", "VALID", *SAME)


@dataclass(frozen=True)
class WindowAxis:
    """One spatial axis: ``count`` windows, the first ``before`` elements in front of the axis, or
    behind its start if negative.

    A window has ``kernel`` elements, ``dilation`` apart, and the next one starts ``stride``
    elements later. ``after`` is the padding behind the axis that ONNX counts as elements.
    ``overhang`` is how far the last window reaches beyond that padding, under ``ceil_mode``.
    """

    kernel: int
    stride: int
    dilation: int
    count: int
    before: int
    after: int
    overhang: int = 0


def window_axis(
    length: int,
    kernel: int,
    stride: int,
    dilation: int,
    pads: tuple[int, int],
    auto_pad: str,
    ceil_mode: bool,
) -> WindowAxis:
    """The windows of an axis of ``length`` elements, as ONNX Runtime counts them.

    Raises UnsupportedOperatorError where ONNX Runtime refuses, or does not follow ONNX's text.
    """
    check_auto_pad(auto_pad)
    if auto_pad in SAME:
        return _same(length, kernel, stride, dilation, auto_pad)
    before, after = (0, 0) if auto_pad == "VALID" else pads
    if min(before, after) < 0 or max(before, after) >= kernel:
        raise UnsupportedOperatorError(
            f"pads {before} and {after} of a kernel of {kernel}: they must be in 0..{kernel - 1}"
        )
    # ceil_mode has a window where only its first elements fit.
    least = 1 - stride if ceil_mode else 0
    room = room_of(length + before + after, kernel, dilation, least)
    count = room // stride + 1
    if not ceil_mode:
        return WindowAxis(kernel, stride, dilation, count, before, after)
    count = -(-room // stride) + 1
    if (count - 1) * stride >= length + before:
        count -= 1  # the last window would start in the padding behind the axis
    overhang = max(0, (count - 1) * stride - room)
    return WindowAxis(kernel, stride, dilation, count, before, after, overhang)


def room_of(length: int, kernel: int, dilation: int, least: int = 0) -> int:
    """How far a window can move. Raises UnsupportedOperatorError for less than ``least``."""
    room = length - (kernel - 1) * dilation - 1
    if room < least:
        raise UnsupportedOperatorError(
            f"a window of {kernel} elements, {dilation} apart, does not fit into {length}"
        )
    return room


def check_auto_pad(auto_pad: str) -> None:
    """Raises UnsupportedOperatorError for a text that ONNX does not have."""
    if auto_pad not in AUTO_PADS:
        raise UnsupportedOperatorError(f"auto_pad {auto_pad!r} is none of {', '.join(AUTO_PADS)}")


def _same(length: int, kernel: int, stride: int, dilation: int, auto_pad: str) -> WindowAxis:
    if dilation != 1 and kernel != 1:
        raise UnsupportedOperatorError(
            f"auto_pad {auto_pad} with dilations: ONNX Runtime does not count them in the padding, "
            "ONNX's text does; give pads instead"
        )
    count = -(-length // stride)
    total = (count - 1) * stride + kernel - length
    # Negative where the stride is above the kernel: ONNX Runtime rounds the skipped half to zero.
    before = int(total / 2) if auto_pad == "SAME_UPPER" else int((total + 1) / 2)
    return WindowAxis(kernel, stride, dilation, count, before, max(0, total - before))
