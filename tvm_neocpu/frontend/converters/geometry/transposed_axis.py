"""One spatial axis of a transposed convolution: which part of its full extent is the output."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.geometry.windows import SAME, check_auto_pad


@dataclass(frozen=True)
class TransposedAxis:
    """Inputs ``stride`` apart, each spread over ``kernel`` outputs that are ``dilation`` apart.

    Of all these outputs the first ``crop_before`` and the last ``crop_after`` are dropped;
    ``extend`` further outputs behind them are zero.
    """

    kernel: int
    stride: int
    dilation: int
    crop_before: int = 0
    crop_after: int = 0
    extend: int = 0

    @property
    def output_padding(self) -> int:
        """How many of the zeros Relax's own attribute can make."""
        return min(self.extend, self.stride - 1)

    @property
    def zeros(self) -> int:
        """How many zeros are left to add."""
        return self.extend - self.output_padding


def transposed_axis(
    length: int,
    kernel: int,
    stride: int,
    dilation: int,
    pads: tuple[int, int],
    output_padding: int,
    output_size: int | None,
    auto_pad: str,
) -> TransposedAxis:
    """The axis as ONNX defines it. ``output_size`` is ONNX's ``output_shape``: it replaces pads.

    Raises UnsupportedOperatorError where ONNX Runtime refuses, or does not follow ONNX's text.
    """
    check_auto_pad(auto_pad)
    if not 0 <= output_padding < max(stride, dilation):
        raise UnsupportedOperatorError(
            f"output_padding {output_padding} must be below stride or dilation"
        )
    full = stride * (length - 1) + dilation * (kernel - 1) + 1
    before, size = _cut(length, stride, full + output_padding, pads, output_size, auto_pad)
    if size < 1:
        raise UnsupportedOperatorError(f"pads {pads[0]} and {pads[1]} leave nothing of the output")
    after = full - before - size
    return TransposedAxis(kernel, stride, dilation, before, max(0, after), max(0, -after))


def _cut(
    length: int,
    stride: int,
    full: int,
    pads: tuple[int, int],
    output_size: int | None,
    auto_pad: str,
) -> tuple[int, int]:
    """What is cut off in front, and how much is kept."""
    if output_size is None and auto_pad in SAME:
        output_size = length * stride
        if output_size > full:
            raise UnsupportedOperatorError(
                f"auto_pad {auto_pad} with a stride above the kernel: ONNX Runtime's output is "
                "shorter than ONNX's text says; give pads instead"
            )
    if output_size is None:
        before, after = (0, 0) if auto_pad == "VALID" else pads
        if min(before, after) < 0:
            raise UnsupportedOperatorError(f"pads {before} and {after} must not be negative")
        return before, full - before - after
    if output_size - full >= stride:
        raise UnsupportedOperatorError(
            f"output_shape has {output_size} where the inputs reach {full} only"
        )
    total = max(0, full - output_size)
    return (total // 2 if auto_pad == "SAME_UPPER" else total - total // 2), output_size
